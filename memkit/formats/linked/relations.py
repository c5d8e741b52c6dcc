"""Links as rows of ``relations``: what a page writes, and, when all files are read, the page that each link leads to.

A link is looked up as a path, then by file name, title, id and alias, then by these with case, blanks, ``-`` and ``_``
made equal, then by its last part alone. Of several pages the one counts that shares most folders with the linking page.
Cost is linear in pages and links.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import Known, near, some_of
from memkit.formats.disk.source import above
from memkit.formats.format import MARKDOWN, Format
from memkit.formats.linked.links import Link, links_in
from memkit.formats.rows import Rows, Tables, to_table
from memkit.formats.spelling import SUPERSEDED_BY, SUPERSEDES, plain
from memkit.formats.syntax.node import REPEATED
from memkit.schemas import tuples_of, with_column

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
_STAMP = re.compile(r"\d{14}|\d{12}")
"""The id that opens the file names of a slip box."""
_HELD = 1_000
_MANY_HOLLOW = 10
"""The pages without a text from which a folder has one row for them all."""
_HINTS = 50
"""How many dead links of a folder get a suggestion, and how many pages a message names."""


Names = dict[str, list[str]]
"""The paths of pages by one of their names."""


def written_in(fields: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The links of front matter: a field's name and each link in it, in brackets; a successor needs none.

    Examples
    --------
    >>> list(written_in({"related": ["[[чай]]", "кофе"], "superseded_by": "чай.md", "x": [["мёд"]]}))
    [('related', '[[чай]]'), ('superseded_by', '[[чай.md]]'), ('x', '[[мёд]]')]
    """
    for name, value in fields.items():
        kind = next((kind for kind, names in _SUCCESSION.items() if plain(name) in names), None)
        values = value if name.endswith(REPEATED) and isinstance(value, list) else [value]
        for text in chain.from_iterable(map(_texts, values)):
            if "[[" in text or "](" in text:
                yield from ((kind or name, link.written) for link in links_in(text))
            elif kind and text.strip():
                yield kind, f"[[{text.strip()}]]"


_SUCCESSION = {"superseded_by": SUPERSEDED_BY, "supersedes": SUPERSEDES}


def _texts(value: object) -> Iterator[str]:
    """The texts of a field; YAML reads an unquoted ``[[a]]`` as a list in a list."""
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else ():
        is_link = isinstance(item, list) and len(item) == 1 and isinstance(item[0], str)
        yield from (f"[[{item[0]}]]",) if is_link else (item,) if isinstance(item, str) else ()


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that links may lead to: its first memory, its names besides its path, its kind and its layout."""

    memory_id: str
    title: str
    source_id: str | None
    aliases: tuple[str, ...]
    kind: str
    layout: str | None


@dataclass
class _Pages:
    """The pages of a folder by all their names; each maps to paths without their ending."""

    pages: dict[str, _Page] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    titles: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    """Of a page: each heading and the memory below it."""
    anchors: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of a page that a link to a heading leads to: the memory below each, by the heading as anchors spell it."""
    indexed: set[str] = field(default_factory=set)
    """Folders with an index, from which paths may start."""

    @classmethod
    def from_tables(cls, tables: Tables) -> _Pages:
        """The Markdown pages that were read, and their headings."""
        known = cls()
        columns = ["memory_id", "path", "kind", "title", "source_id", "aliases", "layout"]
        memories = tables["memories"].select([*columns, "format"])
        documents = tables["documents"].select(["memory_id", "level"])
        is_deep = pc.greater(documents["level"], 1)
        deep = set(documents["memory_id"].filter(is_deep).to_pylist())
        for memory_id, path, kind, title, source_id, aliases, layout in _rows_of(memories, "workspace"):
            if path not in known.pages:
                page_title = title if memory_id not in deep else ""
                page = _Page(memory_id, page_title, source_id, tuple(aliases or ()), kind, layout)
                known._add(path, page)
            elif known.pages[path].kind == "head":
                known.pages[path] = replace(known.pages[path], kind=kind)
            if title:
                known.titles[path].append((title, memory_id))
        return known

    @cached_property
    def names(self) -> tuple[Names, ...]:
        """The paths by path's end, by title, by id, by alias."""
        ends, titles, ids, aliases = names = Names(), Names(), Names(), Names()
        for path, page in self.pages.items():
            key = without_ending(path)
            parts = key.split("/")
            words = ["/".join(parts[begin:]) for begin in range(len(parts))]
            if stamp := _STAMP.match(parts[-1]):
                words.append(stamp[0])
            for word in dict.fromkeys(filter(None, words)):
                ends.setdefault(word, []).append(path)
            if page.title:
                titles.setdefault(page.title, []).append(path)
            if page.source_id:
                ids.setdefault(page.source_id, []).append(path)
            last = [page.source_id.rpartition("/")[2]] if page.source_id else []
            for word in dict.fromkeys(filter(None, (*page.aliases, *last))):
                aliases.setdefault(word, []).append(path)
        return names

    @cached_property
    def folded_names(self) -> tuple[Names, ...]:
        """The same with case and what parts words made equal."""
        return tuple(_merged((folded(name), paths) for name, paths in names.items()) for names in self.names)

    def _add(self, path: str, page: _Page) -> None:
        self.pages[path] = page
        key = without_ending(path)
        self.paths.setdefault(key, path)
        folder, _, stem = key.rpartition("/")
        if stem.casefold() in _INDEX_STEMS:
            self.indexed.add(folder)

    def read_whole(self, link: Link, source: str) -> Link:
        """A link with a ``#`` as part of the name, where a file has such a name; else as it is."""
        if "#" not in link.whole:
            return link
        parts = link.whole.split("#")
        for n_parts in range(len(parts), 1, -1):
            name = "#".join(parts[:n_parts])
            key = without_ending(name)
            below = posixpath.normpath(posixpath.join(posixpath.dirname(source), key))
            if not self.paths.keys().isdisjoint((key, below)) or key in self.names[0]:
                return replace(link, target=name, part="#".join(parts[n_parts:]))
        return link

    def lead_to(self, link: Link, source: str) -> list[str]:
        """The pages that a link of the page at `source` may lead to, the nearest first; empty for a dead one."""
        target = link.target.strip()
        is_folder = target.endswith("/")
        key = without_ending(target.strip("/")) if not is_folder else target.strip("/")
        home = posixpath.dirname(source)
        below = [posixpath.join(home, key)] if not target.startswith("/") else []
        indexed = (posixpath.join(folder, key) for folder in above(source) if folder in self.indexed)
        for place in map(posixpath.normpath, chain(below, [key], indexed)):
            names = [posixpath.join(place, stem) for stem in _INDEX_STEMS] if is_folder or not key else [place]
            for name in names:
                if path := self.paths.get(name.removeprefix("./")):
                    return [path]
        if is_folder or not key or key.startswith(".."):
            return []
        last = key.rpartition("/")[2]
        paths = _of_first(self.names, key) or _of_first(self.folded_names, folded(key))
        names_a_folder = not link.is_wiki and last.casefold() in _INDEX_STEMS  # each has an index of its own
        if not paths and last != key and not names_a_folder:
            paths = _of_first(self.names[:1], last) or _of_first(self.folded_names[:1], folded(last))
        return _nearest(paths, source)

    def are_apart(self, source: str, path: str, whole: Collection[str | None]) -> bool:
        """Whether two pages are of different memories, each whole in its folder, between which no link leads."""
        layouts = {self.pages[source].layout, self.pages[path].layout}
        return len(layouts) == 1 and layouts <= set(whole) and posixpath.dirname(source) != posixpath.dirname(path)

    def anchor(self, path: str, part: str) -> str | None:
        """The memory below a heading of a page; None where it has no such heading."""
        if path not in self.anchors:
            self.anchors[path] = {folded(title): memory_id for title, memory_id in reversed(self.titles[path])}
        return self.anchors[path].get(folded(part.rpartition("#")[2]))


def _of_first(kinds: Iterable[Names], word: str) -> list[str]:
    """The paths of a name in the first of `kinds` that has it."""
    return next((names[word] for names in kinds if word in names), [])


def _rows_of(memories: pa.Table, format: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a format without it, few of them at a time, as every line of a page may be a memory."""
    for batch in memories.to_batches(max_chunksize=_HELD):
        of_format = batch.filter(pc.equal(batch.column("format"), format))
        columns = [of_format.column(name) for name in memories.column_names if name != "format"]
        yield from zip(*(column.to_pylist() for column in columns), strict=True)


def _merged(pairs: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    merged: dict[str, list[str]] = {}
    for name, paths in pairs:
        merged.setdefault(name, []).extend(paths)
    return {name: list(dict.fromkeys(paths)) for name, paths in merged.items()}


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
    ending = _ENDING.fullmatch(posixpath.splitext(link.target)[1]) if "." in link.target else None
    return ending is not None and not link.target.lower().endswith(MARKDOWN)


class _Files:
    """The files of a folder that are no Markdown, by path and by name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = set(paths)
        self._names = {posixpath.basename(path).casefold() for path in self._paths}

    def have(self, link: Link, source: str) -> bool:
        """Whether one of them is what a link of the page at `source` names; in brackets a name alone will do."""
        for target in (link.target, link.whole):
            places = (posixpath.join(posixpath.dirname(source), target), target.lstrip("/"))
            if not self._paths.isdisjoint(map(posixpath.normpath, places)):
                return True
            if link.is_wiki and posixpath.basename(target).casefold() in self._names:
                return True
        return False


def relate(tables: Tables, rows: Rows, formats: Iterable[Format]) -> None:
    """Give each written link the page that it leads to, each page its successor, and report what leads nowhere."""
    relations = tables["relations"]
    pages = _Pages.from_tables(tables)
    path_of = {page.memory_id: path for path, page in pages.pages.items()}
    stems = Known(posixpath.basename(key) for key in pages.paths)
    formats = tuple(formats)
    whole = {format.layout: format.whole_index for format in formats if format.whole_index}
    open_ended = {format.layout for format in formats if format.begins_pages_by_links}
    unread = set(tables[UNREAD_FILES]["path"].to_pylist()) if UNREAD_FILES in tables else set()
    files = _Files(tables[OTHER_FILES]["path"].to_pylist() if OTHER_FILES in tables else ())
    links, resolved, n_dead = list[dict[str, Any]](), list[tuple[str, str, str]](), 0
    done = list[pa.Table]()
    for row in (row for batch in relations.to_batches(max_chunksize=_HELD) for row in batch.to_pylist()):
        if len(links) >= _HELD:
            done.append(to_table(links, relations.schema))
            links = []
        source = path_of.get(row["from_id"] or "")
        link = _link_of(row["written"]) if row["written"] is not None and source else None
        if link is None or source is None:
            links.append(row)
            continue
        link = pages.read_whole(link, source)
        nearest = [path for path in pages.lead_to(link, source) if not pages.are_apart(source, path, whole)]
        if not nearest and files.have(link, source):
            links.append(row | {"state": "found", "type": ATTACHMENT if row["type"] == LINKS_TO else row["type"]})
            continue
        if not nearest and not is_relation(link):
            continue
        if not nearest and posixpath.normpath(posixpath.join(posixpath.dirname(source), link.target)) in unread:
            continue
        links.append(row)
        row["state"] = "dead" if not nearest else "found" if len(nearest) == 1 else "ambiguous"
        row["to_id"] = pages.pages[nearest[0]].memory_id if nearest else None
        if not nearest:
            if pages.pages[source].layout not in open_ended:
                _report_dead(row, link, source, stems if n_dead < _HINTS else Known(()), rows)
                n_dead += 1
            continue
        if len(nearest) > 1:
            got = f"{row['written']:.200}, which names {some_of(nearest)} alike; the first is taken"
            rows.problem("ambiguous_link", source, "a link that leads to one page", got, **_place_of(row))
        if link.part and not link.part.startswith("^"):
            _lead_to_heading(row, link.part, source, nearest[0], pages, rows)
        if nearest[0] != source:
            resolved.append((source, nearest[0], row["type"]))
    tables["relations"] = pa.concat_tables([*done, to_table(links, relations.schema)])
    _succeed(tables, pages, resolved)
    _unreached(pages, resolved, whole, rows)
    _without_successor(tables["memories"], rows)
    _hollow(tables["memories"], rows)


def _place_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"line": row["line"], "memory_id": row["memory_id"], "quote": False}


def _report_dead(row: Mapping[str, Any], link: Link, source: str, stems: Known, rows: Rows) -> None:
    """Report a link that leads nowhere, with the file names among `stems` that are nearly its own."""
    written, alike = f"{row['written']:.200}", near(link.target.rpartition("/")[2], stems)
    got = f"{written} (did you mean {' or '.join(alike)}?)" if alike else written
    rows.problem("dead_link", source, "a page of this folder", got, **_place_of(row))


def _lead_to_heading(row: dict[str, Any], part: str, source: str, path: str, pages: _Pages, rows: Rows) -> None:
    """Let a link lead to the memory below the heading that it names, or report that its page has no such heading."""
    below = pages.anchor(path, part)
    row["to_id"] = below or row["to_id"]
    if below is None:
        rows.problem("dead_anchor", source, f"a heading of {path}", f"{part:.200}", **_place_of(row))


def _link_of(written: str) -> Link | None:
    if written.startswith(MEM):
        name = written.removeprefix(MEM)
        return Link(written, name, "", "", 1, False, False, name)
    return next(links_in(written), None)


def _succeed(tables: Tables, pages: _Pages, links: list[tuple[str, str, str]]) -> None:
    """The memory that supersedes each memory of a page, and the status that follows from it."""
    successor: dict[str, str] = {}
    for source, target, kind in links:
        if kind in _SUCCESSION:
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


def _unreached(pages: _Pages, links: list[tuple[str, str, str]], whole: Mapping[str | None, str], rows: Rows) -> None:
    """Report, once a folder, pages that its index leaves out, and pages that no other links to.

    `whole` is by layout the name of the index that must leave out none; any other counts where it lists most pages.
    """
    siblings: dict[str, list[str]] = defaultdict(list)
    for path, page in pages.pages.items():
        if page.kind not in _APART:
            siblings[posixpath.dirname(path)].append(path)
    listed: dict[str, set[str]] = defaultdict(set)
    for source, target, _ in links:
        listed[source].add(target)
    reached = {target for _, target, _ in links}
    for path, page in pages.pages.items():
        is_whole = page.layout is not None and posixpath.basename(path) == whole.get(page.layout)
        beside = siblings[posixpath.dirname(path)] if is_whole or page.kind == "index" else []
        missing = [other for other in beside if other not in listed[path]]
        if missing and (is_whole or 2 * len(missing) < len(beside)):
            got = f"none for {len(missing):,} of {len(beside):,}: {some_of(missing)}"
            expected = "a link to each page of its folder"
            rows.problem("not_indexed", path, expected, got, memory_id=page.memory_id, quote=False)
            reached.update(missing)
    for folder, paths in siblings.items():
        alone = [path for path in paths if path not in reached]
        if alone and 2 * len(alone) < len(paths):
            got = f"{len(alone):,} of {len(paths):,} that none links to: {some_of(alone)}"
            rows.problem("orphan", folder or ".", "pages that another one links to", got, quote=False)


def _without_successor(memories: pa.Table, rows: Rows) -> None:
    is_left = pc.and_(
        pc.is_in(memories["status"], pa.array(["deprecated", "superseded"])), pc.is_null(memories["superseded_by"])
    )
    retired = memories.filter(is_left).select(["path", "memory_id", "status"]).to_pylist()
    for path, row in {row["path"]: row for row in reversed(retired)}.items():
        expected = "superseded_by: the page that takes its place"
        rows.problem("no_successor", path, expected, row["status"], field="status", memory_id=row["memory_id"])


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
