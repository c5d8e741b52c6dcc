"""Stores of Markdown: notes of the Memory Format, one file each, are created, updated and deleted; to a page a text is
added, or it is renamed together with every link that leads to it. Other bytes stay.

A link keeps its style: a path stays a path (relative, from the root, or with the ending it had), a name stays a name
where no other page is called so. What a link names by title, alias or id is left as it is, and so is what only looks
like a link: in code, comments and formulas, or with an escaped bracket.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.fences import fences, headings, is_heading
from memkit.base.params import AsOf, describe
from memkit.change.disk import check_path
from memkit.change.draft import Draft, Operations, checked, missing, stamp
from memkit.change.edits import Edits
from memkit.errors import ChangeRefusedError, FormatError, ParameterError, did_you_mean
from memkit.formats.disk.files import below_place
from memkit.formats.fields import words_given
from memkit.formats.format import MARKDOWN
from memkit.formats.linked.links import DEFINED, links_in, without_code
from memkit.formats.linked.relations import MEM, folded, without_ending
from memkit.formats.notes import check_body, check_fields, format_note, parse_note
from memkit.formats.rows import Tables
from memkit.formats.spelling import SUPERSEDED_BY, SUPERSEDES, plain
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import Head, Splice, line_end, lines_of, plain_lines, spliced, with_values
from memkit.schemas import tuples_of
from memkit.tables.corpus import Corpus, read

_UNNAMED = frozenset("[]|#")
"""What no wiki link can name."""
_PLAIN = re.compile(r"[^\"',]+")
"""What may stand in YAML with and without quotes, in a list or alone."""
_KEY = re.compile(r"([\w-]+):")
_NO_LINKS = re.compile(
    r"<!--.*?-->|%%.*?%%|(?<![\\$])\$\$.*?\$\$|(?<![\\$\w])\$(?=[^\s$])[^$\n]{0,500}?[^\s$\\]\$(?![\w$])", re.DOTALL
)
"""Comments and formulas. A formula in a line begins and ends without a blank, so that two prices are none."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])[ \t]")
_TARGET = re.compile(r"!?\[\[[ \t]*([^\[\]\n|#]*?)[ \t\\]*(?=[|#\]])")

if TYPE_CHECKING:
    from memkit.search.retriever import Retriever


class LayoutStore(Operations):
    """The base of the stores of one layout's pages: one line or one text is added, all other bytes stay.

    Attributes
    ----------
    layout : str
        The word in the column ``layout`` of its memories.
    """

    layout = ""

    def _page(self, name: str) -> str:
        """The path of the page with a path, title or permalink.

        Raises
        ------
        NotFoundError
            Where there is none.
        ChangeRefusedError
            Where several have the title.
        """
        rows = self._memories_where("layout", self.layout).to_pylist()
        for column in ("path", "source_id", "title"):
            paths: list[str] = sorted({row["path"] for row in rows if row[column] == checked(name, "page")})
            if len(paths) > 1:
                raise ChangeRefusedError(f"{len(paths)} pages are called {name!r:.80}: {', '.join(paths)}.")
            if paths:
                return paths[0]
        raise missing("page", name, {row["path"] for row in rows} | {row["title"] for row in rows if row["title"]})

    def _append(self, draft: Draft, path: str, lines: str, reason: str) -> None:
        """Draft lines at the end of a file, after a blank line."""
        before = draft.text_or_none(path) or ""
        gap = "" if not before or before.endswith("\n") else "\n"
        new = f"{gap}\n{lines}" if before.strip() else lines
        draft.splice("update", path, Splice(len(before), len(before), new.replace("\n", line_end(before))), reason)

    def _append_to(self, place: Callable[[Draft, str], str], text: str, now: AsOf, dry_run: bool) -> str | Edits:
        """Write a text at the end of the file that `place` names for it, and return the file's path."""
        body = checked(text, "text").strip("\n")

        def work(draft: Draft) -> str:
            path = place(draft, body)
            self._append(draft, path, f"{body}\n", "appended")
            return path

        return self._do(work, now, dry_run)

    def _rename(self, draft: Draft, old: str, new: str) -> str:
        """Draft that a page moves, with the links that lead to it; returns its new path."""
        return rename(self.root, draft, old, new)


class PageStore(Operations):
    """Pages of any layout with links: vaults, wikis, memories of hosts.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> pages = {"tea.md": "# Tea\\n", "a/b.md": "See [tea](../tea.md) and [[tea|it]].\\n"}
    >>> store = mk.store(mk.testing.write_files(tempfile.mkdtemp(), pages)).pages
    >>> store.rename("tea.md", "drinks/green tea.md")
    'drinks/green tea.md'
    >>> print((store.root / "a/b.md").read_text("utf-8"), end="")
    See [tea](../drinks/green%20tea.md) and [[green tea|it]].
    """

    policy = "pages"

    def rename(self, path: str, to: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Move a page, change the links that lead to it and its own relative ones, and return its new path.

        Parameters
        ----------
        path, to : str
            Relative to the root, with the ending of Markdown.
        dry_run : bool
            Return the edits instead, and write nothing.

        Raises
        ------
        NotFoundError
            Where there is no such page.
        ParameterError
            For a new path that is none of Markdown below the root.
        ChangeRefusedError
            Where the new path exists, a link in front matter has no certain place, or no wiki link can name it.
        """
        old, new = checked(path, "path"), posixpath.normpath(checked(to, "to"))
        if not new.lower().endswith(MARKDOWN) or new.startswith(("/", "..")):
            raise ParameterError(f"to: expected a path of Markdown below the folder. Got {to!r:.200}.")

        def work(draft: Draft) -> str:
            return rename(self.root, draft, old, new)

        return self._do(work, now, dry_run)


def rename(root: Path, draft: Draft, old: str, new: str) -> str:
    """Draft that a page moves, with the links of all Markdown below the root to it; returns its new path."""
    # Read as linked notes, any Markdown tells its links, but for those by name alone.
    pages = read(root, format="linked")
    paths = set(filter(None, pages.memories["path"].to_pylist()))
    if old not in paths:
        raise missing("page", old, paths)
    if old == new:
        return new
    moved = _Moved(old, new, {folded(posixpath.basename(without_ending(path))) for path in paths - {old}})
    links: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in links_of(pages.tables, read(root).tables):
        if old in (row["source"], row["target"]):
            links[row["source"]].append(row)
    may_define = pages.memories.filter(pc.match_substring(pages.memories["text"], "]:"))["path"].to_pylist()
    for source in sorted(links.keys() | {old, *filter(None, may_define)}):
        text = draft.text(source)
        found = (*_spliced_links(text, source, links[source], moved), *_spliced_definitions(text, source, paths, moved))
        splices = sorted(found)
        if source != old:
            for splice in splices:
                draft.splice("update", source, splice, f"a link to {new}", together=old)
        elif splices:
            draft.write(new, spliced(text, splices), f"renamed from {old}, its links with it", together=old)
            draft.delete(old, f"renamed to {new}", together=old)
        else:
            draft.move(old, new, "renamed", together=old)
    return new


def links_of(linked: Tables, read_as_is: Tables) -> Iterator[dict[str, Any]]:
    """The links between the Markdown files of a folder, each with the paths of its source and its target.

    Parameters
    ----------
    linked, read_as_is : dict of str to pyarrow.Table
        The folder, read as linked notes, which tell the links of any Markdown; and in its own formats, which tell
        those by name alone.
    """
    yield from _links(linked)
    yield from (row for row in _links(read_as_is) if row["written"].startswith(MEM))


def _links(tables: Tables) -> Iterator[dict[str, Any]]:
    """The links that lead to a page, in the order of their lines, those of front matter first; each with both paths."""
    paths = dict(tuples_of(tables["memories"], "memory_id", "path"))
    relations = tables["relations"].to_pylist()
    for row in sorted((row for row in relations if row["written"]), key=lambda row: row["line"] or 0):
        source, target = paths.get(row["from_id"]), paths.get(row["to_id"])
        if source and target:
            yield {**row, "source": source, "target": target}


@dataclass(frozen=True)
class _Moved:
    """The page that moves, and the stems of all others, comparable."""

    old: str
    new: str
    stems: set[str]

    def target(self, written: str, is_wiki: bool, source: str, leads_to: str) -> str | None:
        """What a link names from now on; None where that stays as it is."""
        after = self.new if leads_to == self.old else leads_to
        home, home_after = posixpath.dirname(source), posixpath.dirname(self.new if source == self.old else source)
        if leads_to != self.old and home == home_after:
            return None
        ending = posixpath.splitext(after)[1] if written.lower().endswith(MARKDOWN) else ""
        key, old, new = without_ending(written.strip("/")), without_ending(leads_to), without_ending(after)
        stem, whole = posixpath.basename(new), new if "/" in new else f"/{new}"
        if is_wiki and "/" not in key:
            is_stem = folded(key) == folded(posixpath.basename(old)) and old != new
            return (stem if folded(stem) not in self.stems else whole) + ending if is_stem else None
        if written.startswith("/"):
            above = old.removesuffix(key)
            return f"/{new.removeprefix(above) if new.startswith(above) else new}{ending}"
        if not is_wiki or posixpath.normpath(posixpath.join(home, key)) == old:
            relative = posixpath.relpath(f"/{new}", f"/{home_after}")
            return ("./" if written.startswith("./") and not relative.startswith(".") else "") + relative + ending
        return whole + ending if old != new else None


def _spliced_links(text: str, source: str, links: list[dict[str, Any]], moved: _Moved) -> Iterator[Splice]:
    """What changes in a page that links to the moved one, or is it."""
    bare = without_code(text, fences(text.replace("\r\n", "\n")))
    starts = _line_starts(text)
    front = front_matter.split(plain_lines(text))
    head = starts[front.body_line - 2] if front else 0  # the line that closes it
    linking = _linking(text, bare, head)
    begin: dict[tuple[int, str], int] = {}
    naming = _naming(bare[:head])
    for row in links:
        new = _written(row["written"], source, row["target"], moved)
        if new is None:
            continue
        old, line = row["written"], row["line"] or 0
        if front and front.syntax != "YAML" and not line:
            message = f"{source}: its front matter is {front.syntax}; change its link {old!r:.80} by hand."
            raise ChangeRefusedError(message)
        low, high = (starts[line - 1], text.find("\n", starts[line - 1])) if line else (0, head)
        start = bare.find(old, begin.get((line, old), low), high if high >= 0 else len(text))
        if start < 0 and not line:  # a successor needs no brackets
            old, new = old[2:-2], new[2:-2]
            start = _successor(naming, old, begin.get((line, old), low))
        if start < 0 or (not line and not _PLAIN.fullmatch(new)):
            raise ChangeRefusedError(f"{source}: its link {old!r:.80} has no certain place; change it by hand.")
        begin[line, old] = start + len(old)
        if linking[start : start + len(old)] == old and not _is_escaped(text, start, old):
            yield Splice(start, start + len(old), new)


def _spliced_definitions(text: str, source: str, paths: set[str], moved: _Moved) -> Iterator[Splice]:
    """What changes in the lines of a page that say where ``[text][name]`` leads."""
    for match, leads_to in definitions_in(text, source, paths):
        if moved.old in (source, leads_to) and (new := _written(f"[]({match['place']})", source, leads_to, moved)):
            yield Splice(*match.span("place"), new[3:-1])


def definitions_in(text: str, source: str, paths: Container[str]) -> Iterator[tuple[re.Match[str], str]]:
    """The lines of a page that say to which of some paths ``[text][name]`` leads, each with that path."""
    front = front_matter.split(plain_lines(text))
    head = _line_starts(text)[front.body_line - 2] if front else 0
    bare = without_code(text, fences(text.replace("\r\n", "\n")))
    for match in DEFINED.finditer(_linking(text, bare, head), head):
        if link := next(links_in(f"[]({match['place']})"), None):
            place = posixpath.normpath(posixpath.join(posixpath.dirname(source), link.target)).lstrip("/")
            if leads_to := next((path for path in (place, f"{place}.md") if path in paths), None):
                yield match, leads_to


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _linking(text: str, bare: str, head: int) -> str:
    """`bare`, which is `text` without code, with blanks for indented code, comments and formulas below its head too.

    >>> _linking(text := "a $[[b]]$ c\\n\\n    [[d]]\\n", text, 0).split()
    ['a', 'c']
    """
    lines, is_code, is_after_blank, is_list = [], False, True, False
    for line, plain_line in zip(text[head:].split("\n"), bare[head:].split("\n"), strict=True):
        is_blank, is_indented = not line.strip(), line.startswith(("    ", "\t"))
        if not is_blank:
            # Below an item, what is indented belongs to the item.
            is_list = bool(_ITEM.match(line)) if not is_indented else is_list
            is_code = is_indented and not is_list and (is_code or is_after_blank)
        lines.append(" " * len(line) if is_code else plain_line)
        is_after_blank = is_blank
    return bare[:head] + _NO_LINKS.sub(lambda match: re.sub(r"[^\r\n]", " ", match[0]), "\n".join(lines))


def _is_escaped(text: str, start: int, link: str) -> bool:
    """Whether a bracket of what looks like a link has a backslash before it."""
    # Nobody writes more backslashes; a look at all the text before each link would take the square of its length.
    before = text[max(0, start - 50) : start]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1 or "\\](" in link


def _naming(head: str) -> list[tuple[int, str]]:
    """The lines of front matter that name successors, what stands behind their key: where each begins, and it."""
    offset, key, lines = 0, "", []
    for line in lines_of(head):
        named = _KEY.match(line)
        key, after = (plain(named[1]), named.end()) if named else (key, 0)
        if key in (*SUPERSEDED_BY, *SUPERSEDES):
            lines.append((offset + after, line[after:]))
        offset += len(line)
    return lines


def _successor(lines: list[tuple[int, str]], name: str, low: int) -> int:
    """Where a successor is named without brackets, as a whole value, from `low` on; -1 for nowhere."""
    value = re.compile(rf"(?<![^\s\"'\[,:]){re.escape(name)}(?![^\s\"'\],])(?!\]\])")
    first = bisect_right(lines, low, key=itemgetter(0)) - 1
    for offset, line in lines[max(first, 0) :]:
        if match := value.search(line, max(0, low - offset)):
            return offset + match.start()
    return -1


def _written(written: str, source: str, leads_to: str, moved: _Moved) -> str | None:
    """A link as it is written from now on; None where it stays as it is."""
    if written.startswith(MEM):
        name = below_place(without_ending(moved.new))
        return f"{MEM}{name}" if leads_to == moved.old else None
    link = next(links_in(written), None)
    target = moved.target(link.target, link.is_wiki, source, leads_to) if link else None
    if link is None or target is None or target == link.target:
        return None
    if link.is_wiki:
        if not _UNNAMED.isdisjoint(target):
            named = f"a link {written!r:.80} cannot name {target!r:.80}"
            raise ChangeRefusedError(f"{source}: {named}; choose a name without any of [ ] | #.")
        match = _TARGET.match(written)
        return f"{written[: match.start(1)]}{target}{written[match.end(1) :]}" if match else None
    begin = written.rindex("](") + 2
    rest = written[begin:]
    if rest.startswith("<"):
        return f"{written[:begin]}<{target}{rest[min(rest.find(sign) for sign in '#>' if sign in rest) :]}"
    end = next((place for place, sign in enumerate(rest) if sign in "# \t" or place == len(rest) - 1), len(rest))
    if "%" in rest[:end]:
        target = quote(target, safe="/")
    return f"{written[:begin]}{re.sub('[ ()<>%]', _escaped, target) if '%' not in rest[:end] else target}{rest[end:]}"


def _escaped(sign: re.Match[str]) -> str:
    return f"%{ord(sign[0]):02X}"


_EDITABLE = ("subject", "keywords", "applies_to", "content")
_UNDERLINED = re.compile(r" {0,3}=+[ \t]*")
_PARAGRAPH = re.compile(r" {0,3}(?![-*+>|] |\d+[.)] )\S")
"""A line of a paragraph, which ``===`` below makes a heading; under an item, a quote or a table it is text."""
_NOTE_COLUMNS = {"title": "subject", "source_id": "id", "scope": "scope"}
"""Columns of memories that a hit of a note shows, and their names there."""
_LIST_COLUMNS = ("id", "subject", "keywords", "applies_to", "created_at", "updated_at", "path")


class NoteStore(Operations):
    """Notes below a folder: front matter and body, named after their id.

    Parameters
    ----------
    root : Path
        The folder above the notes.
    folder : str, optional
        The folder of new notes, relative to `root`; None is the folder that holds most notes.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> notes = mk.store(tempfile.mkdtemp()).notes
    >>> id = notes.create("Чай", ["чай"], "global", "# Чай\\n\\nБез сахара.\\n", now="2026-03-01")
    >>> _ = notes.update(id, subject="Чай и мёд", now="2026-03-02")
    >>> notes.list().select(["subject", "keywords"]).to_pylist()
    [{'subject': 'Чай и мёд', 'keywords': ['чай']}]
    """

    policy = "notes"

    def __init__(self, root: Path, folder: str | None = None) -> None:
        super().__init__(root)
        self.folder = None if folder is None else _checked_folder(folder)

    def create(
        self,
        subject: str,
        keywords: Sequence[str],
        applies_to: str,
        content: str,
        *,
        folder: str | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write a new note with a UUID of version 4, which also names its file.

        Content without a heading of level 1 gets the subject as its heading. The note is written to `folder`, else to
        the store's folder, else to the one that holds most notes.

        Returns
        -------
        str
            The id.

        Raises
        ------
        FormatError
            For a field that breaks the format's rules.
        """
        id = str(uuid.uuid4())

        target_folder = self.folder if folder is None else _checked_folder(folder)

        def work(draft: Draft) -> str:
            time = stamp(draft.moment)
            fields = {"id": id, "subject": subject, "keywords": words_given(keywords), "applies_to": applies_to}
            fields |= {"created_at": time, "updated_at": time}
            check_fields(fields)
            place = usual_folder(read(self.root)) if target_folder is None else target_folder
            path = f"{place}/{id}.md" if place else f"{id}.md"
            draft.write(
                path, format_note(fields, _body(content, subject)), "a new note", memory_id=f"notes:{path}#{id}"
            )
            return id

        return self._do(work, now, dry_run)

    def update(self, id: str, /, *, now: AsOf = None, dry_run: bool = False, **changed: Any) -> str | Edits:
        """Change subject, keywords, applies_to or content of a note; ``updated_at`` becomes now, and all else stays.

        Returns
        -------
        str
            The id.

        Raises
        ------
        NotFoundError
            For an unknown id.
        ParameterError
            For an unknown field, one that never changes, and where no field is given.
        FormatError, ChangeRefusedError
            For a value that breaks the format's rules, and where its place in the file is not certain.
        """
        for name in changed or [""]:
            if name not in _EDITABLE:
                got = f"{name!r:.80}.{did_you_mean(name, _EDITABLE)}" if changed else "none."
                raise ParameterError(f"update: expected some of {', '.join(_EDITABLE)}. Got {got}")
        row = self._row(id)

        def work(draft: Draft) -> str:
            path = row["path"]
            text = draft.text(path)
            _, body = parse_note(plain_lines(text))
            values = {name: words_given(v) if name == "keywords" else v for name, v in changed.items()}
            values.pop("content", None)
            check_fields(values, values)  # fields that do not change are not checked
            new = with_values(text, {**values, "updated_at": _update_stamp(row["created_at"], draft.moment)}, Head)
            if "content" in changed:
                newline = line_end(text)
                end = len(new) - len(body.replace("\n", newline))
                new_body = _body(changed["content"], str(values.get("subject", row["subject"] or ""))).replace(
                    "\n", newline
                )
                new = spliced(new, [Splice(end, len(new), new_body)])
            draft.write(path, new, f"changed {', '.join(changed)}", memory_id=row["memory_id"])
            return id

        return self._do(work, now, dry_run)

    def delete(self, id: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Delete a note, and return its id.

        Raises
        ------
        NotFoundError
            For an unknown id.
        """
        row = self._row(id)

        def work(draft: Draft) -> str:
            draft.delete(row["path"], "deleted", memory_id=row["memory_id"])
            return id

        return self._do(work, now, dry_run)

    def list(self) -> pa.Table:
        """All notes, the last changed first: id, subject, keywords, applies_to, created_at, updated_at, path."""
        notes = read(self.root).tables["notes"].sort_by([("updated_at", "descending"), ("id", "ascending")])
        return describe(notes.select(list(_LIST_COLUMNS)), memkit="notes")

    def get(self, id: str) -> dict[str, Any]:
        """The fields of a note and its content.

        Raises
        ------
        NotFoundError
            For an unknown id.
        """
        row = self._row(id)
        fields, body = parse_note(plain_lines(self._reader().text(row["path"])))
        return {**fields, "content": body}

    def search(self, words: str, k: int = 5) -> pa.Table:
        """Search the notes by words, best first: hits of a Retriever with subject, id and scope."""
        query = checked(words, "words", filled=False)
        from memkit.search.retriever import Retriever  # search is imported for who asks it

        return note_hits(Retriever(encoder=None).fit(read(self.root)), query, k)

    def validate(self) -> pa.Table:
        """The problems of the files that hold notes: rows of ``problems``; `memkit.read` has those of all files."""
        corpus = read(self.root)
        notes = corpus.memories.filter(pc.equal(corpus.memories["format"], "notes"))
        return corpus.problems.filter(pc.is_in(corpus.problems["path"], value_set=notes["path"].combine_chunks()))

    def _row(self, id: str) -> dict[str, Any]:
        notes = read(self.root).tables["notes"]
        rows = notes.filter(pc.equal(notes["id"], checked(id, "id"))).to_pylist()
        if not rows:
            raise missing("note", id, [known_id for known_id in notes["id"].to_pylist() if known_id])
        if len(rows) > 1 or not rows[0]["path"].lower().endswith((".md", ".markdown")):
            raise FormatError(f"{rows[0]['path']}: {len(rows)} notes have the id {id}, or it is an entry of a log.")
        row: dict[str, Any] = rows[0]
        return row


def note_hits(search: Retriever, words: str, k: int) -> pa.Table:
    """The notes among the hits of a search, each with its subject, id and scope."""
    hits = search.search(words, k=k, where="kind = 'note'", columns=tuple(_NOTE_COLUMNS))
    hits = hits.filter(pc.greater(hits["score"], 0.0))  # a score of 0 shares no word with the query
    renamed = hits.rename_columns([_NOTE_COLUMNS.get(name, name) for name in hits.column_names])
    return renamed.replace_schema_metadata(hits.schema.metadata)


def usual_folder(corpus: Corpus) -> str:
    """The folder that holds most notes (the first by name of several); the root where there are no notes."""
    paths = corpus.memories.filter(pc.equal(corpus.memories["kind"], "note"))["path"].to_pylist()
    counts = Counter(path.rpartition("/")[0] for path in paths if path.lower().endswith(MARKDOWN))
    return min(counts, key=lambda folder: (-counts[folder], folder), default="")


def _checked_folder(folder: str) -> str:
    """`folder`, checked as a folder below the root; "" is the root."""
    if not isinstance(folder, str):
        raise ParameterError(f"folder: expected a text. Got {folder!r:.80}.")
    path = folder.removesuffix("/") if folder != "/" else folder
    check_path(f"{path}/note.md" if path else "note.md")
    return path


def _body(content: str, subject: str) -> str:
    """The text below the front matter: `content`, under the subject where it has no heading of level 1."""
    body = checked(content, "content").replace("\r\n", "\n").strip("\n")
    check_body(body)
    heading = "" if _has_title(body) else f"# {subject}\n\n"
    return f"\n{heading}{body}\n"


def _has_title(body: str) -> bool:
    """Whether a heading of level 1 stands outside of the code fences, also one that is underlined."""
    code, lines = fences(body), body.split("\n")
    if any(heading.level == 1 for heading in headings(body, code)):
        return True
    return any(
        _UNDERLINED.fullmatch(line) and _PARAGRAPH.match(above) and not is_heading(above) and number not in code
        for number, (above, line) in enumerate(pairwise(lines), 2)
    )


def _update_stamp(created: datetime | None, moment: datetime) -> str:
    """The time of a change as notes write it, to the second, and never before `created`."""
    seconds = (moment if created is None else max(moment, created)).replace(microsecond=0)
    return stamp(seconds + timedelta(seconds=1) if created is not None and seconds < created else seconds)
