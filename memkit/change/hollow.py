"""Pages whose only text a policy removes: the file goes, with its line in any index, or the removal is refused.

A page without its text would be a title that leads nowhere, and that a search for its words finds first. So nothing of
it stays, where its front matter says nothing of its own and no text links to it.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from memkit.change.draft import Draft
from memkit.change.pages import links_of
from memkit.errors import ChangeRefusedError, some_of
from memkit.formats import reader
from memkit.formats.format import MARKDOWN
from memkit.formats.linked.links import links_in
from memkit.formats.linked.page import LISTED, said_in_front, says_words
from memkit.formats.registry import FORMATS
from memkit.formats.rows import Row
from memkit.formats.spelling import TYPES, plain
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import Splice, plain_lines, spliced
from memkit.schemas import tuples_of
from memkit.text.headings import says_something

_KEPT_EMPTY = frozenset(("long_term", "heartbeat", "index"))
"""Kinds of files that a host keeps and writes to, whether or not they have a text."""
_TYPE_FIELDS = (*TYPES, "nodetype")
_USUAL_TYPES = frozenset(("note", "memory", "page", *(name for format in FORMATS for name in format.page_types)))
"""Types that programs give to every page, and that say nothing about one."""
_INDEXES = frozenset(format.whole_index for format in FORMATS if format.whole_index)


class _Rows:
    """The rows of a draft so far, by path and by what goes together."""

    def __init__(self, draft: Draft) -> None:
        self.of_path: dict[str, list[Row]] = defaultdict(list)
        self.of_group: dict[str, list[Row]] = defaultdict(list)
        for row in draft.rows:
            self.of_path[row["path"]].append(row)
            if row.get("together"):
                self.of_group[row["together"]].append(row)

    def splices(self, path: str) -> list[Splice]:
        """What changes in parts of a file."""
        parts = (row for row in self.of_path.get(path, ()) if "at" in row)
        return [Splice(row["at"], row["at"] + len(row["before"]), row["after"]) for row in parts]

    def is_whole(self, path: str) -> bool:
        """Whether the file goes as it is."""
        return any("at" not in row for row in self.of_path[path])

    def beside(self, path: str) -> Iterator[Row]:
        """The rows of a file, and those that go together with one of them."""
        yield from self.of_path[path]
        for group in {row["together"] for row in self.of_path[path] if row.get("together")}:
            yield from self.of_group[group]


def finish_pages(draft: Draft, first: int) -> None:
    """Settle what becomes of the files of which the rows from number `first` on leave no text.

    Files that these rows remove as a whole are asked for their links too.
    """
    fresh: dict[str, list[Row]] = defaultdict(list)
    for row in draft.rows[first:]:
        if row["op"] == "delete" and row["path"].lower().endswith(MARKDOWN):
            fresh[row["path"]].append(row)
    rows = _Rows(draft)
    going = sorted(path for path in fresh if rows.is_whole(path) or _is_left_hollow(draft, path, rows))
    if not going:
        return
    said = {path: "" if rows.is_whole(path) else _said_beside(draft, path) for path in going}
    kept = {path: why for path, why in said.items() if why}
    lines = _Links(draft, rows, going, kept).settled()
    taken = [row for path in kept for row in (*fresh[path], *(row for row in rows.beside(path) if row.get("together")))]
    taken += [row for path in lines if not rows.is_whole(path) for row in rows.of_path[path]]
    draft.take_back(taken)
    for path, why in kept.items():
        for row in fresh[path]:
            draft.gone.discard(row["memory_id"])
            draft.refuse(path, row["memory_id"], f"{path}: {why}.")
    for path, cuts in lines.items():
        _let_go(draft, path, cuts, rows)


def _is_left_hollow(draft: Draft, path: str, rows: _Rows) -> bool:
    """Whether nothing but front matter, headings and signs is left of a page."""
    memories = draft.memories_in(path)
    if memories[0]["format"] != "workspace" or not _KEPT_EMPTY.isdisjoint(row["kind"] for row in memories):
        return False
    left = plain_lines(spliced(draft.text(path), rows.splices(path)))
    front = front_matter.split(left)
    body = left[front.body_at :] if front else left
    return not says_words(body) and not says_something(body)


def _said_beside(draft: Draft, path: str) -> str:
    """What the front matter of a page says besides title, dates, tags and id, as a reason; empty for nothing."""
    text = plain_lines(draft.text(path))
    front = front_matter.split(text)
    if front is None:
        return ""
    said = said_in_front(front).items()
    names = [key for key, value in said if not (plain(key) in _TYPE_FIELDS and str(value).casefold() in _USUAL_TYPES)]
    names += ["a comment"] * bool(front_matter.comments(text))
    names += ["what is no YAML"] * bool(front.fault)
    if not names:
        return ""
    more = f"its front matter says more than title, dates, tags and id ({some_of(names)})"
    return f"no other text is in it, and {more}. Remove the page by hand, or keep it"


class _Links:
    """The links that lead to pages that may go, and which of these a text keeps.

    Parameters
    ----------
    going : list of str
        Paths of pages without a text.
    kept : dict of str to str
        Paths of those that stay, with the reason; `settled` adds to it.
    """

    def __init__(self, draft: Draft, rows: _Rows, going: Iterable[str], kept: dict[str, str]) -> None:
        self.draft, self.rows, self.kept = draft, rows, kept
        self.going = [path for path in going if path not in kept]
        reading = draft.corpus._source()
        linked = reader.read(reading.root, replace(reading.options, format="linked"))
        self.kinds: dict[str, set[str]] = defaultdict(set)
        for path, kind in tuples_of(linked.tables["memories"], "path", "kind"):
            self.kinds[path].add(kind)
        self.links: dict[str, list[Row]] = defaultdict(list)
        for link in links_of(linked.tables, draft.corpus.tables):
            if link["source"] != link["target"]:
                self.links[link["target"]].append(link)

    def settled(self) -> dict[str, list[tuple[str, Splice]]]:
        """For each page that goes the lines to cut: the path of an index, and the place in it."""
        while True:
            lines, keeping = {}, {}
            for path in self.going:
                cuts, keeping[path] = self._lines_of(path)
                lines[path] = cuts
            if not any(keeping.values()):
                return lines
            # What stays keeps what it links to, in the next round.
            self.kept |= {path: why for path, why in keeping.items() if why}
            self.going = [path for path in self.going if not keeping[path]]

    def _lines_of(self, path: str) -> tuple[list[tuple[str, Splice]], str]:
        """The lines of indexes that are for a page alone, and the first link that keeps it, as a reason."""
        cuts = []
        for link in self.links[path]:
            source, line = link["source"], link["line"]
            if source in self.going:
                continue
            try:
                if line and self._goes_anyway(source, line):
                    continue
                cut = self._own_line(link)
            except ChangeRefusedError:  # its bytes are no text, so that no line of it can go
                cut = None
            if cut is None:
                where = f"{source}:{line}" if line else f"the front matter of {source}"
                return [], f"no other text is in it, and {where} links to it ({link['written']:.80}). Change that first"
            cuts.append((source, cut))
        return list(dict.fromkeys(cuts)), ""

    def _goes_anyway(self, path: str, line: int) -> bool:
        """Whether a line is among what the plan removes."""
        cuts = self.rows.splices(path)
        start, end = self.draft.document(path).lines(line, line) if cuts else (0, 0)
        return any(cut.start <= start and end <= cut.end for cut in cuts)

    def _own_line(self, link: Row) -> Splice | None:
        """The line of an index that holds a link and no other; None where it says something else too."""
        source, number = link["source"], link["line"]
        is_index = posixpath.basename(source) in _INDEXES or "index" in self.kinds[source]
        if not (is_index and number and self.draft.memories_in(source)):
            return None
        document = self.draft.document(source)
        start, end = document.lines(number, number)
        line, below = document.text[start:end], document.text[end:].partition("\n")[0]
        has_more = bool(below.strip()) and _indent(below) > _indent(line)
        if has_more or not LISTED.match(line) or sum(1 for _ in links_in(line)) != 1:
            return None
        return Splice(start, end, "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _let_go(draft: Draft, path: str, cuts: Iterable[tuple[str, Splice]], rows: _Rows) -> None:
    """Draft that the file goes, in place of its memories, and the lines of indexes with it."""
    removed = rows.of_path[path]
    group = next((row["together"] for row in removed if row.get("together")), path) if cuts else None
    if rows.is_whole(path):
        for row in removed if cuts else ():
            row["together"] = group
    else:
        reason = "; ".join(dict.fromkeys(row["reason"] for row in removed))
        draft.delete(path, reason, memory_id=removed[0]["memory_id"], together=group)
        draft.gone.update(row["memory_id"] for row in draft.memories_in(path))
    for index, cut in cuts:
        draft.splice("delete", index, cut, f"its line: {path} goes", together=group)
