"""Links as rows of ``relations``: what a page writes, and, when all files are read, the page that each link leads to.

A link is looked up as a path, then by file name, title, id and alias, then by these with case, blanks, ``-`` and ``_``
made equal, then by its last part alone. Of several pages the one counts that shares most folders with the linking page.
Cost is linear in pages and links.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import bar
from memkit.errors import Known, near, some_of
from memkit.formats.disk.source import above
from memkit.formats.format import MARKDOWN, Format
from memkit.formats.linked.links import Link, link_in, links_in
from memkit.formats.rows import Row, Rows, Tables
from memkit.formats.spelling import SUPERSEDED_BY, SUPERSEDES, plain
from memkit.formats.syntax.nodes import REPEATED
from memkit.schemas import Ints, tuples_of, with_column

LINKS_TO = "links_to"
ATTACHMENT = "attachment"
"""The type of a link to a file that is no page."""
MEM = "mem:"
"""What opens a link by name alone, as hosts that load pages by their names write it."""
UNREAD_FILES = "_unread_files"
"""The table of files that a survey names and leaves unread, as no memories: what leads to them is no dead link."""
OTHER_FILES = "_other_files"
"""The table of files that are no Markdown, which links lead to as attachments."""
_PARTED = re.compile(r"[\s_-]+")
_SIGN = re.compile(r"[^\w\s/.-]")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}")
_APART = frozenset(("index", "log", "daily_log", "dream", "session", "heartbeat", "long_term"))
"""Kinds of pages that no index has to list."""
_INDEX_STEMS = ("index", "_index", "readme")
_BARE = re.compile(r"[^/.#]+")
_STAMP = re.compile(r"\d{14}|\d{12}")
"""The id that opens the file names of a slip box."""
_HELD = 10_000
"""Links that are looked at at the same time."""
_KEPT = 50_000
"""So many links are kept with where they lead, at up to 1,000 bytes each: the next read looks up new ones only."""
# A round number: more rows say no more than one.
_MANY_HOLLOW = 10
"""The pages without a text from which a folder has one row for them all."""
# A round number: each hint compares a name with all pages.
_HINTS = 50
"""How many dead links of a folder get a suggestion, and how many pages a message names."""


def written_in(fields: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The links of front matter: a field's name and each link in it, in brackets; a successor needs none.

    Examples
    --------
    >>> list(written_in({"related": ["[[чай]]", "кофе"], "superseded_by": "чай.md", "x": [["мёд"]]}))
    [('related', '[[чай]]'), ('superseded_by', '[[чай.md]]'), ('x', '[[мёд]]')]
    """
    for name, value in fields.items():
        kind = _SUCCESSION.get(plain(name))
        values = value if name.endswith(REPEATED) and isinstance(value, list) else [value]
        for text in chain.from_iterable(map(_texts, values)):
            if "[[" in text or "](" in text:
                yield from ((kind or name, link.written) for link in links_in(text))
            elif kind and text.strip():
                yield kind, f"[[{text.strip()}]]"


_SUCCESSION = dict.fromkeys(SUPERSEDED_BY, "superseded_by") | dict.fromkeys(SUPERSEDES, "supersedes")


def _texts(value: object) -> Iterator[str]:
    """The texts of a field; YAML reads an unquoted ``[[a]]`` as a list in a list."""
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else ():
        is_link = isinstance(item, list) and len(item) == 1 and isinstance(item[0], str)
        yield from (f"[[{item[0]}]]",) if is_link else (item,) if isinstance(item, str) else ()


class _LinkedPage(NamedTuple):
    """A page that links may lead to: which it is, its first memory, its names besides its path, kind and layout."""

    number: int
    memory_id: str
    kind: str
    title: str
    source_id: str | None
    aliases: Sequence[str] | None
    layout: str | None


class _Names:
    """The paths of pages by one of their names, as a function spells it; few names are those of several pages."""

    def __init__(self, spelled: Callable[[str], str]) -> None:
        self._spelled = spelled
        self._first: dict[str, str] = {}
        self._further: dict[str, dict[str, None]] = {}

    def add(self, name: str, path: str) -> None:
        """Have a page be found by a name."""
        if name and self._first.setdefault(self._spelled(name), path) != path:
            self._further.setdefault(self._spelled(name), {})[path] = None

    def of(self, name: str) -> list[str]:
        """The paths of the pages that have a name."""
        word = self._spelled(name)
        return [self._first[word], *self._further.get(word, ())] if word in self._first else []


class _Ends(_Names):
    """The paths of pages by their ends: file names, which folders may stand before."""

    def __init__(self, spelled: Callable[[str], str]) -> None:
        super().__init__(spelled)
        self._of_stems: dict[str, dict[str, list[str]]] = {}

    def of(self, name: str) -> list[str]:
        """The paths that end so; those of one file name are told apart when a link first asks."""
        *folders, stem = name.split("/")
        paths = super().of(stem)
        if not folders or not paths:
            return paths
        if len(paths) == 1:
            return paths if self._parts(without_ending(paths[0]))[-len(folders) - 1 :] == self._parts(name) else []
        if stem not in self._of_stems:
            by_end = self._of_stems[stem] = defaultdict(list)
            for path in paths:
                parts = self._parts(without_ending(path))
                for begin in range(len(parts)):
                    by_end["/".join(parts[begin:])].append(path)
        return self._of_stems[stem].get("/".join(self._parts(name)), [])

    def _parts(self, path: str) -> list[str]:
        return list(map(self._spelled, path.split("/")))


class _Pages:
    """The pages of a folder by all their names; each maps to paths without their ending.

    Attributes
    ----------
    told : pyarrow.Table
        What is known of each page; where it is the same again, every link leads to where it did.
    pages : dict of str to _LinkedPage
    paths : dict of str to str
        By path without ending.
    indexed : set of str
        Folders with an index, from which paths may start.
    named : dict
        What `names` made.
    """

    def __init__(self, told: pa.Table) -> None:
        self.told = told
        ids, paths, *rest = (told[name].to_pylist() for name in told.column_names)
        rows = zip(range(len(ids)), ids, *rest, strict=True)
        self.pages = dict(zip(paths, map(_LinkedPage._make, rows), strict=True))
        self.paths: dict[str, str] = {}
        self.indexed = set[str]()
        self.named: dict[Callable[[str], str], tuple[_Names, ...]] = {}
        for path in self.pages:
            key = without_ending(path)
            self.paths.setdefault(key, path)
            folder, _, stem = key.rpartition("/")
            if stem.casefold() in _INDEX_STEMS:
                self.indexed.add(folder)

    def names(self, spelled: Callable[[str], str]) -> tuple[_Names, ...]:
        """The paths by path's end, by title, by id, by alias, as `str` or `folded` spells these."""
        if spelled in self.named:
            return self.named[spelled]
        ends, titles, ids, aliases = self.named[spelled] = _Ends(spelled), *(_Names(spelled) for _ in range(3))
        for path, page in self.pages.items():
            stem = without_ending(path).rpartition("/")[2]
            ends.add(stem, path)
            if stamp := _STAMP.match(stem):
                ends.add(stamp[0], path)
            titles.add(page.title, path)
            ids.add(page.source_id or "", path)
            for name in ((page.source_id or "").rpartition("/")[2], *(page.aliases or ())):
                aliases.add(name, path)
        return self.named[spelled]

    def read_whole(self, link: Link, source: str) -> Link:
        """A link with a ``#`` as part of the name, where a file has such a name; else as it is."""
        if "#" not in link.whole:
            return link
        parts = link.whole.split("#")
        # The longest name first: of C#/Notes#Today the file C#/Notes is meant.
        for n_parts in range(len(parts), 1, -1):
            name = "#".join(parts[:n_parts])
            key = without_ending(name)
            below = posixpath.normpath(posixpath.join(posixpath.dirname(source), key))
            if not self.paths.keys().isdisjoint((key, below)) or self.names(str)[0].of(key):
                return link._replace(target=name, part="#".join(parts[n_parts:]))
        return link

    def lead_to(self, link: Link, source: str) -> list[str]:
        """The pages that a link of the page at `source` may lead to, the nearest first; empty for a dead one."""
        target = link.target.strip()
        key = target.strip("/") if target.endswith("/") else without_ending(target.strip("/"))
        is_folder = target.endswith("/") or not key
        home = "" if target.startswith("/") else source.rpartition("/")[0]
        places = chain([home, ""] if home else [""], filter(self.indexed.__contains__, above(source)))
        for folder in places:
            place = posixpath.normpath(f"{folder}/{key}" if folder else key)
            names = [posixpath.join(place, stem) for stem in _INDEX_STEMS] if is_folder else [place]
            for name in names:
                if path := self.paths.get(name.removeprefix("./")):
                    return [path]
        if is_folder or key.startswith(".."):
            return []
        last = key.rpartition("/")[2]
        # As it is written first: folded names of two pages may be one.
        kinds = (names for spelled in (str, folded) for names in self.names(spelled))
        paths = next(filter(None, (names.of(key) for names in kinds)), [])
        names_a_folder = not link.is_wiki and last.casefold() in _INDEX_STEMS  # each has an index of its own
        if not paths and last != key and not names_a_folder:
            paths = self.names(str)[0].of(last) or self.names(folded)[0].of(last)
        return _nearest(paths, source)

    def has_one(self, name: str) -> bool:
        """Whether one page has a name, which is no path."""
        return _BARE.fullmatch(name) is not None and len(self.names(str)[0].of(name)) == 1

    def are_apart(self, source: str, path: str, whole: Collection[str | None]) -> bool:
        """Whether two pages are of different memories, each whole in its folder, between which no link leads."""
        layout = self.pages[source].layout
        is_whole = layout in whole and self.pages[path].layout == layout
        return is_whole and posixpath.dirname(source) != posixpath.dirname(path)


def without_ending(path: str) -> str:
    """A path without the ending of Markdown; another dot is part of the name.

    >>> without_ending("a/Чай 1.2.MD"), without_ending("v1.2")
    ('a/Чай 1.2', 'v1.2')
    """
    return path[: path.rindex(".")] if path.lower().endswith(MARKDOWN) else path


def folded(name: str) -> str:
    """A name with case, blanks, ``-`` and ``_`` made equal, and without signs, as anchors spell headings.

    >>> folded("Учёт  заказов_(Net)!") == folded("учёт-заказов-net")
    True
    """
    return _PARTED.sub("-", _SIGN.sub("", name.casefold()).strip())


def _nearest(paths: list[str], source: str) -> list[str]:
    """Of several pages those that share most folders with the linking one, by path."""
    if len(paths) < 2:
        return paths
    home = source.split("/")[:-1]

    def shared(path: str) -> int:
        pairs = zip(home, path.split("/")[:-1], strict=False)
        return next(
            (number for number, (one, other) in enumerate(pairs) if one != other), min(len(home), path.count("/"))
        )

    most = max(map(shared, paths))
    return sorted(path for path in paths if shared(path) == most)


def is_relation(link: Link) -> bool:
    """Whether a link may lead to a page: no part of its own page, and no file of another kind.

    >>> [is_relation(link) for link in links_in("[[#часть]] ![[a.png]] [[v1.2]] [[b.md]]")]
    [False, False, True, True]
    """
    return bool(link.target) and not (names_file(link) and (link.is_embed or not link.is_wiki))


def names_file(link: Link) -> bool:
    """Whether a link is to a file with an ending that no page has.

    >>> [names_file(link) for link in links_in("[[a.png]] [b](b.pdf#page=2) [[v1.2]] [[b.md]]")]
    [True, False, False, True]
    """
    ending = _ENDING.fullmatch(posixpath.splitext(link.file)[1]) if "." in link.file else None
    return ending is not None and not link.file.lower().endswith(MARKDOWN)


class _Files:
    """The files of a folder that are no Markdown, by path and by name, and the folders in it."""

    def __init__(self, paths: Iterable[str], pages: Iterable[str] = ()) -> None:
        self._paths = set(paths)
        self._places = {*self._paths, *map(posixpath.dirname, [*self._paths, *pages])}
        self._names = {posixpath.basename(path).casefold() for path in self._paths}

    def have(self, link: Link, source: str) -> bool:
        """Whether one of them is what a link of the page at `source` names; in brackets a name alone will do."""
        for target in {link.target, link.whole, link.file} - {""}:
            places = (posixpath.join(posixpath.dirname(source), target), target.lstrip("/"))
            held = self._paths if link.is_wiki else self._places
            if not held.isdisjoint(map(posixpath.normpath, places)):
                return True
            if link.is_wiki and posixpath.basename(target).casefold() in self._names:
                return True
        return False


class _Headings:
    """The memories below the headings of pages, by the heading as anchors spell it; read when a link asks.

    Parameters
    ----------
    rows, codes : ndarray of int64, shape (n,)
        The rows of pages in `memories`, and the number of the page of each.
    """

    def __init__(self, memories: pa.Table, rows: Ints, codes: Ints) -> None:
        self._memories, self._rows, self._codes = memories.select(["title", "memory_id"]), rows, codes
        self._anchors: dict[int, dict[str, str]] = {}

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """The rows by page, and where those of each page begin."""
        order = np.argsort(self._codes, kind="stable")
        return self._rows[order], np.searchsorted(self._codes[order], np.arange(self._codes.max() + 2))

    def below(self, page: int, part: str) -> str | None:
        """The memory below a heading of the page of this number; None where it has no such heading."""
        if page not in self._anchors:
            rows, starts = self._places
            titled = [*tuples_of(self._memories.take(rows[starts[page] : starts[page + 1]]), "title", "memory_id")]
            # Reversed: of equal headings the first one wins, as in a browser.
            self._anchors[page] = {folded(title): memory_id for title, memory_id in reversed(titled) if title}
        return self._anchors[page].get(folded(part.rpartition("#")[2]))


_OF_PAGE = ("memory_id", "path", "kind", "title", "source_id", "aliases", "layout")


def _pages_in(tables: Tables) -> tuple[pa.Table, _Headings]:
    """A row for each Markdown page that was read, and the headings of all of them.

    The row is that of its first memory, but a page has the kind of the first one that is no head.
    """
    memories = tables["memories"]
    rows = np.flatnonzero(pc.equal(memories["format"], "workspace").to_numpy())
    encoded = memories["path"].take(rows).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    first = np.unique(codes, return_index=True)[1]
    is_head = pc.fill_null(pc.equal(memories["kind"], "head"), False).to_numpy()[rows]
    said = np.flatnonzero(~is_head)
    having, places = np.unique(codes[said], return_index=True)
    # A copy: the first row of each page names it, the first that says something gives the kind.
    kinds = first.copy()
    kinds[having] = said[places]
    told = memories.select(_OF_PAGE).take(rows[first])
    told = with_column(told, "kind", memories["kind"].take(rows[kinds]))
    documents = tables["documents"]
    deep = documents["memory_id"].filter(pc.fill_null(pc.greater(documents["level"], 1), False)).combine_chunks()
    # A heading below the first level names a section and not its page.
    titles = pc.if_else(pc.is_in(told["memory_id"], value_set=deep), "", told["title"])
    return with_column(told, "title", titles), _Headings(memories, rows, codes)


class _Led(NamedTuple):
    """Where a link leads: its pages, the nearest first, the memory of the first, and the heading that it names.

    Attributes
    ----------
    fate : str
        A state, `ATTACHMENT`, or empty for what is no relation of pages.
    last : str
        The last part of what it names, from which a hint is made.
    """

    fate: str
    paths: Sequence[str] = ()
    to_id: str | None = None
    part: str = ""
    last: str = ""


class _Links:
    """Where links lead among some pages and files; each is looked up once a folder, and kept for the next reading."""

    def __init__(self, pages: _Pages, files: pa.Table, unread: pa.Table, whole: Mapping[str | None, str]) -> None:
        self.pages, self.whole = pages, whole
        self._told = files, unread
        self._files = _Files(files["path"].to_pylist(), self.pages.pages)
        self._unread = set(unread["path"].to_pylist())
        self._led = defaultdict[tuple[str, str | None], dict[str, _Led | None]](dict)
        self._anywhere: dict[str, _Led] = {}
        self._hints: dict[str, list[str]] = {}

    @classmethod
    def of(cls, tables: Tables, told: pa.Table, whole: Mapping[str | None, str], before: _Links | None) -> _Links:
        """Those of `before`, where nothing that it depends on differs."""
        none = pa.table({"path": pa.array([], pa.string())})
        files, unread = (tables.get(name, none) for name in (OTHER_FILES, UNREAD_FILES))
        if before and before.whole == whole and before.pages.told.equals(told) and before._told == (files, unread):
            return before
        return cls(_Pages(told), files, unread, whole)

    def known_from(self, source: str) -> dict[str, _Led | None]:
        """Where links that stand on the page at `source`, or beside it, were found to lead, by what is written."""
        return self._led[posixpath.dirname(source), self.pages.pages[source].layout]

    @cached_property
    def path_of(self) -> dict[str | None, str]:
        """The path of each page by the id of its memory."""
        return {page.memory_id: path for path, page in self.pages.pages.items()}

    @cached_property
    def indexes(self) -> list[str]:
        """The pages that list others."""
        return [path for path, page in self.pages.pages.items() if page.kind == "index" or self.is_whole(path)]

    def is_whole(self, path: str) -> bool:
        """Whether a page is the index of a layout that has one for all."""
        return posixpath.basename(path) == self.whole.get(self.pages.pages[path].layout)

    def forget(self) -> None:
        """Look up from now on what was found before."""
        self._led.clear()
        self._anywhere.clear()

    def find(self, written: str, source: str) -> _Led | None:
        """Where a link of the page at `source` leads; None for what is no link."""
        if written in self._anywhere:
            return self._anywhere[written]
        name = written.removeprefix(MEM)
        link = link_in(written) if name == written else Link(written, name, "", "", 1, False, False, name)
        if link is None:
            return None
        pages, link = self.pages, self.pages.read_whole(link, source)
        nearest = [path for path in pages.lead_to(link, source) if not pages.are_apart(source, path, self.whole)]
        part = "" if link.part.startswith("^") else link.part
        if nearest:
            state = "found" if len(nearest) == 1 else "ambiguous"
            first = pages.pages[nearest[0]]
            led = _Led(state, nearest, first.memory_id, part)
            # A name of one page, and no path, leads to it from everywhere.
            if state == "found" and link.is_wiki and first.layout not in self.whole and pages.has_one(link.whole):
                self._anywhere[written] = led
            return led
        if self._files.have(link, source):
            return _Led(ATTACHMENT)
        if not is_relation(link):
            return _Led("")
        if self._unread and posixpath.normpath(posixpath.join(posixpath.dirname(source), link.target)) in self._unread:
            return _Led("")
        return _Led("dead", last=link.target.rpartition("/")[2])

    def hints(self, name: str) -> list[str]:
        """The file names that are nearly a name that no page has."""
        if name not in self._hints:
            self._hints[name] = near(name, self._stems)
        return self._hints[name]

    def rest(self) -> None:
        """Let go of the names, which take more room than what they lead to: only a link that is new asks for them."""
        self.pages.named.clear()
        self._anywhere.clear()
        vars(self).pop("_stems", None)

    @cached_property
    def _stems(self) -> Known:
        return Known(posixpath.basename(key) for key in self.pages.paths)


def relate(tables: Tables, rows: Rows, formats: Iterable[Format]) -> None:
    """Give each written link the page that it leads to, each page its successor, and report what leads nowhere."""
    formats = tuple(formats)
    told, headings = _pages_in(tables)
    whole = {format.layout: format.whole_index for format in formats if format.whole_index}
    links = rows.kept["links"] = _Links.of(tables, told, whole, rows.kept.get("links"))
    n_links = len(tables["relations"])
    keeps = n_links <= _KEPT
    open_ended = {format.layout for format in formats if format.begins_pages_by_links}
    relating = _Relating(links, headings, open_ended, rows)
    batches, related = tables["relations"].to_batches(max_chunksize=_HELD), list[pa.RecordBatch]()
    with bar("looking up links", silent=n_links <= _HELD, total=n_links, unit="link", leave=False) as shown:
        for batch in batches:
            related.append(relating.related(batch))
            shown.update(len(batch))
            if not keeps:
                links.forget()
    if not keeps:
        del rows.kept["links"]
    tables["relations"] = pa.Table.from_batches(related, tables["relations"].schema)
    links.rest()
    _succeed(tables, links.pages, relating.succeeding)
    _unreached(links, relating, rows)
    _without_successor(tables["memories"], rows)
    _hollow(tables["memories"], rows)


class _Relating:
    """The rows of ``relations`` under way.

    Attributes
    ----------
    reached : set of str
        The pages that others link to.
    listed : dict of str to set of str
        Those that each index links to.
    succeeding : list of (str, str, str)
        The pages of which one is the other's successor, and the type of the link that says so.
    """

    def __init__(self, links: _Links, headings: _Headings, open_ended: Collection[str | None], rows: Rows) -> None:
        self.links, self.headings, self.open_ended, self.rows = links, headings, open_ended, rows
        self.reached, self.succeeding = set[str](), list[tuple[str, str, str]]()
        self.listed = {path: set[str]() for path in links.indexes}
        self._n_dead = 0

    def related(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Some rows with where their links lead; those that are no relations of pages are left out."""
        ids, types, states = (batch[name].to_pylist() for name in ("to_id", "type", "state"))
        sources, written, lines, memories = (
            batch[name].to_pylist() for name in ("from_id", "written", "line", "memory_id")
        )
        is_kept, successions = np.ones(len(ids), bool), {*_SUCCESSION.values()}
        last, source, known = "", "", dict[str, _Led | None]()
        for row, (from_id, text) in enumerate(zip(sources, written, strict=True)):
            if from_id != last:  # the links of a page stand together
                last, source = from_id, self.links.path_of.get(from_id, "")
                known = self.links.known_from(source) if source else {}
            if text is None or not source:
                continue
            if text not in known:
                known[text] = self.links.find(text, source)
            led = known[text]
            if led is None:
                continue
            if not led.fate:
                is_kept[row] = False
            elif led.fate == ATTACHMENT:
                states[row], types[row] = "found", ATTACHMENT if types[row] == LINKS_TO else types[row]
            else:
                states[row], ids[row] = led.fate, led.to_id
                if led.fate != "found" or led.part:
                    where = {"line": lines[row], "memory_id": memories[row], "quote": False}
                    ids[row] = self._checked(text, led, source, where)
                if led.paths and led.paths[0] != source:
                    self.reached.add(led.paths[0])
                    if source in self.listed:
                        self.listed[source].add(led.paths[0])
                    if types[row] in successions:
                        self.succeeding.append((source, led.paths[0], types[row]))
        columns = {"to_id": ids, "type": types, "state": states}
        arrays = [pa.array(columns.get(field.name, batch[field.name]), field.type) for field in batch.schema]
        related = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
        return related if is_kept.all() else related.filter(pa.array(is_kept))  # what was read is not copied

    def _checked(self, written: str, led: _Led, source: str, where: Mapping[str, Any]) -> str | None:
        """The memory that a link leads to, below the heading that it names; what is wrong with it is reported."""
        if not led.paths and self.links.pages.pages[source].layout not in self.open_ended:
            alike, self._n_dead = self.links.hints(led.last) if self._n_dead < _HINTS else [], self._n_dead + 1
            got = f"{written:.200} (did you mean {' or '.join(alike)}?)" if alike else f"{written:.200}"
            self.rows.problem("dead_link", source, "a page of this folder", got, **where)
        if not led.paths:
            return None
        target = led.paths[0]
        if len(led.paths) > 1:
            got = f"{written:.200}, which names {some_of(led.paths)} alike; the first is taken"
            self.rows.problem("ambiguous_link", source, "a link that leads to one page", got, **where)
        below = self.headings.below(self.links.pages.pages[target].number, led.part) if led.part else led.to_id
        if below is None:
            self.rows.problem("dead_anchor", source, f"a heading of {target}", f"{led.part:.200}", **where)
        return below or led.to_id


def _succeed(tables: Tables, pages: _Pages, links: list[tuple[str, str, str]]) -> None:
    """The memory that supersedes each memory of a page, and the status that follows from it."""
    successor: dict[str, str] = {}
    for source, target, kind in links:
        old, new = (source, target) if kind == "superseded_by" else (target, source)
        successor.setdefault(old, pages.pages[new].memory_id)
    if not successor:
        return
    memories = tables["memories"]
    keys, values = pa.array(list(successor), pa.string()), pa.array(list(successor.values()), pa.string())
    of_pages = pc.if_else(pc.equal(memories["format"], "workspace"), memories["path"], None)
    by = pc.take(values, pc.index_in(of_pages, value_set=keys))
    status = pc.if_else(pc.and_(pc.is_valid(by), pc.is_null(memories["status"])), "superseded", memories["status"])
    for name, column in (("superseded_by", by), ("status", status)):
        memories = with_column(memories, name, column)
    tables["memories"] = memories


def _unreached(links: _Links, relating: _Relating, rows: Rows) -> None:
    """Report, once a folder, pages that its index leaves out, and pages that no other links to.

    The index of a layout that has one for all must leave out none; any other counts where it lists most pages.
    """
    siblings: dict[str, list[str]] = defaultdict(list)
    for path, page in links.pages.pages.items():
        if page.kind not in _APART:
            siblings[path.rpartition("/")[0]].append(path)
    reached = relating.reached.copy()
    for path, listed in relating.listed.items():
        beside, is_whole = siblings.get(path.rpartition("/")[0], []), links.is_whole(path)
        missing = [other for other in beside if other not in listed]
        # A guess: an index that names less than half of its folder was not meant to list it.
        if missing and (is_whole or 2 * len(missing) < len(beside)):
            got = f"none for {len(missing):,} of {len(beside):,}: {some_of(missing)}"
            expected, memory_id = "a link to each page of its folder", links.pages.pages[path].memory_id
            rows.problem("not_indexed", path, expected, got, memory_id=memory_id, quote=False)
            reached.update(missing)
    for folder, paths in siblings.items():
        alone = [path for path in paths if path not in reached]
        # A guess: where most pages stand alone, the folder is not kept by links.
        if alone and 2 * len(alone) < len(paths):
            got = f"{len(alone):,} of {len(paths):,} that none links to: {some_of(alone)}"
            rows.problem("orphan", folder or ".", "pages that another one links to", got, quote=False)


def _without_successor(memories: pa.Table, rows: Rows) -> None:
    is_left = pc.and_(
        pc.is_in(memories["status"], pa.array(["deprecated", "superseded"])), pc.is_null(memories["superseded_by"])
    )
    retired = memories.filter(is_left).select(["path", "memory_id", "status"]).to_pylist()
    # Reversed, so that of each page the first row stays.
    for path, row in {row["path"]: row for row in reversed(retired)}.items():
        where: Row = {"field": "superseded_by", "memory_id": row["memory_id"], "quote": False}
        got = f"none that is here, though it is {row['status']}"
        rows.problem("no_successor", path, "the page that takes its place", got, **where)


def _hollow(memories: pa.Table, rows: Rows) -> None:
    """Report pages of which there is a title and no more; once a folder where it has many."""
    is_hollow = pc.and_(pc.equal(memories["kind"], "head"), pc.equal(memories["text"], ""))
    folders: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, memory_id in tuples_of(memories.filter(pc.fill_null(is_hollow, False)), "path", "memory_id"):
        folders[posixpath.dirname(path)].append((path, memory_id))
    for folder, pages in folders.items():
        if len(pages) >= _MANY_HOLLOW:
            got = f"{len(pages):,} pages with a title and no text: {some_of([path for path, _ in pages])}"
            rows.problem("empty_text", folder or ".", "pages with text", got, quote=False)
            continue
        for path, memory_id in pages:
            got = "a title and no other words"
            rows.problem("empty_text", path, "a page with text", got, memory_id=memory_id, quote=False)
