"""`mk.plan`: the changes that policies want, as edits; and `mk.undo`.

Where a policy removes the only text of a page, the file goes, with its line in any index, or the removal is refused: a
page without its text would be a title that leads nowhere, and that a search for its words finds first. So nothing of it
stays, where its front matter says nothing of its own and no text links to it.
"""

from __future__ import annotations

import copy
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.checked import json_object
from memkit.base.params import AsOf, Moment, describe, path_of
from memkit.change.disk import Disk, folder_of
from memkit.change.draft import Draft
from memkit.change.edits import OF_SURVIVOR, Edits, report_of
from memkit.change.journal import Journal, Record, opened
from memkit.change.memories import merge_into, remove_entry, remove_memory, split_files
from memkit.change.pages import definitions_in, links_of
from memkit.errors import ChangeRefusedError, ParameterError, some_of
from memkit.formats import reader
from memkit.formats.disk.lock import CALLS, STATE
from memkit.formats.disk.source import decode
from memkit.formats.format import MARKDOWN, File
from memkit.formats.linked.links import DEFINED, links_in
from memkit.formats.linked.page import LISTED, said_in_front, says_words
from memkit.formats.registry import FORMATS, declared, parse_file
from memkit.formats.rows import Row, Rows
from memkit.formats.spelling import TYPES, plain
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import Splice, plain_lines, spliced
from memkit.policy.base import policy_class
from memkit.policy.dedup.near import normalise
from memkit.policy.index_standard import IndexCheck, SplitPlan
from memkit.schemas import tuples_of, with_column
from memkit.tables.corpus import Corpus, home, open_lake
from memkit.tables.statement import Annotator
from memkit.text.sentences import says_something

_MIN_QUOTE = 12
"""Characters from which a query counts as a quote of a text: no fact is shorter."""


@runtime_checkable
class Planner(Protocol):
    """An object that plans changes without being a policy, such as `Migrate`."""

    def draft(self, draft: Draft) -> None:
        """Add rows to `draft`."""


def plan(corpus: Corpus, policies: Any, as_of: AsOf = None, *, merge: bool = False) -> Edits:
    """Plan the changes that policies want, as edits of the files; nothing is written.

    Parameters
    ----------
    corpus : Corpus
        Read from a folder.
    policies : policy, name, or list of them
        Applied in order: a later policy does not see what an earlier one removes. `Expiry`, `Deduplicator`, `Quota`
        (its evictions) and any policy that adds ``keep`` remove memories; `IndexCheck` removes the entries that its
        ``auto_clean`` options name; `SplitPlan` splits files. Where the only text of a page goes, its file goes, with
        its line in ``MEMORY.md`` or another index. That is refused where the page's front matter says more than title,
        dates, tags and id, or a text elsewhere links to the page.
    as_of : str, date, datetime or None
        The date of the policies, UTC; None is now.
    merge : bool
        Whether the survivor of duplicate notes, index entries and facts takes over their tags (keywords) and their
        highest importance. Duplicate records and workspace sections are never merged, since no document says how;
        ``refused`` names the tags that are lost.

    Returns
    -------
    Edits
        ``.refused`` lists what could not be planned, with reasons.

    Raises
    ------
    ParameterError
        For an object that is no policy, or a policy without ``keep``.
    StaleSourceError
        Where a file changed since `corpus` was read.
    MemkitError
        For a corpus that was not read from a folder.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> text = "- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит\\n- [id:wk_2] [t:working] [imp:high] Чай\\n"
    >>> folder = mk.testing.write_files(tempfile.mkdtemp(), {"users/anna/working.md": text})
    >>> print(plan(mk.read(folder), "expiry", as_of="2026-03-01").diff())
    --- a/users/anna/working.md
    +++ b/users/anna/working.md
    @@ -1,2 +1 @@
    -- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит
     - [id:wk_2] [t:working] [imp:high] Чай
    <BLANKLINE>
    """
    if not isinstance(corpus, Corpus):
        raise ParameterError(f"plan: expected a Corpus of mk.read. Got {type(corpus).__name__}.")
    moment = Moment.from_as_of(as_of)
    draft = Draft(home(corpus), moment.instant, corpus)
    remaining = corpus.memories
    for each in [policies] if isinstance(policies, str) or not isinstance(policies, Sequence) else policies:
        policy = policy_class(each)() if isinstance(each, str) else each
        if isinstance(policy, Planner):
            with draft.as_policy(type(policy).__name__.lower()):
                policy.draft(draft)
        elif not isinstance(policy, Annotator):
            raise ParameterError(f"plan: expected a policy, its name, or a list of them. Got {policy!r:.200}.")
        else:
            with draft.as_policy(policy.name):
                remaining = _apply_policy(policy, draft, remaining, moment, merge)
    return draft.edits([("as_of", moment.instant.isoformat())])


def _apply_policy(policy: Annotator, draft: Draft, remaining: pa.Table, moment: Moment, merge: bool) -> pa.Table:
    """Draft the changes of one policy, and return the remaining memories."""
    planner = _PLANNERS.get(type(policy).__name__)
    if planner is not None:
        planner(policy, draft)
        return remaining
    if "keep" not in policy.adds:
        raise ParameterError(f"plan: {type(policy).__name__} gives no verdict; expected a policy with 'keep'.")
    if not policy.is_fitted:
        # Of equal texts the linked one stays, so the links are known too.
        policy = copy.deepcopy(policy).fit(SimpleNamespace(tables={**draft.corpus.tables, "memories": remaining}))
    judged = policy.transform(remaining, moment)
    first, duplicates = len(draft.rows), list[dict[str, Any]]()
    for row in judged.filter(pc.invert(judged["keep"])).to_pylist():
        reason = str(row["reason"])
        if reason == "limit":
            draft.refuse(row["path"], row["memory_id"], "it is over its limit; only archive facts are evicted.")
            continue
        why = f" ({row['because']})" if row.get("because") else ""
        suffix = f"{OF_SURVIVOR}{row['duplicate_of']}{why}" if row.get("duplicate_of") else ""
        remove_memory(draft, row, reason + suffix)
        if merge and suffix:
            duplicates.append(row)
    finish_pages(draft, first)
    merged: dict[str, list[dict[str, Any]]] = {}
    for row in duplicates:
        if row["memory_id"] in draft.gone:
            merged.setdefault(row["duplicate_of"], []).append(row)
    for row in judged.filter(pc.is_in(judged["memory_id"], value_set=pa.array(list(merged), pa.string()))).to_pylist():
        merge_into(draft, row, merged[row["memory_id"]])
    gone = pa.array(sorted(draft.gone), pa.string())
    return remaining.filter(pc.invert(pc.is_in(remaining["memory_id"], value_set=gone)))


def clean_entries(policy: IndexCheck, draft: Draft, pinned: bool = False) -> None:
    """Draft the removal of the entries that `policy` would remove; `pinned` includes pinned ones."""
    entries = draft.corpus.tables["entries"]
    if pinned:
        entries = with_column(entries, "pinned", [None] * entries.num_rows)
    cleaned = {"invalid": policy.auto_clean_invalid, "missing": policy.auto_clean_missing}
    for row in policy.transform(entries).to_pylist():
        if cleaned.get(row["reason"]):
            with draft.attempt(row["index_path"], row["memory_id"]):
                remove_entry(draft, row, f"{row['reason']}: {row.get('given_reason') or row['file']}")
                draft.gone.add(row["memory_id"])


_PLANNERS: dict[str, Callable[[Any, Draft], None]] = {
    IndexCheck.__name__: clean_entries,
    SplitPlan.__name__: split_files,
}


def undo(root: str | Path, *, clear: bool = False, lake: str | Path | None = None) -> pa.Table:
    """Undo the last change of a folder, byte for byte.

    Parameters
    ----------
    root : str or Path
        The folder that was changed.
    clear : bool
        Instead delete everything needed to undo: the old texts in the journal, their vectors in the user's cache, and
        the queries in the log of ``memkit serve`` that quote or found one of them. No other place under the folder
        holds these texts.
    lake : str or Path, optional
        With `clear`: a snapshot saved from the folder, which is saved again without the old texts.

    Returns
    -------
    pyarrow.Table
        The changed files: path, op, sha256_before, sha256_after. With `clear` it is empty, and its note says what was
        removed.

    Raises
    ------
    StaleSourceError
        Where a file was changed since; nothing was written.
    MemkitError
        Where there is nothing to undo.
    ParameterError
        For `lake` without `clear`, or a snapshot of another folder.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> folder = mk.testing.write_files(tempfile.mkdtemp(), {"users/anna/working.md":
    ...     "- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит бота\\n"})
    >>> _ = mk.plan(mk.read(folder), mk.Expiry(), as_of="2026-03-01").apply(force=True)
    >>> undo(folder).select(["path", "op"]).to_pylist()
    [{'path': 'users/anna/working.md', 'op': 'update'}]
    """
    from memkit.search.fitted.store import forget  # search is imported for who clears

    folder = folder_of(root)
    if lake is not None and not clear:
        raise ParameterError("undo: lake= needs clear=True, with which it is saved again.")
    corpus = None if lake is None else _lake_of(folder, path_of("undo", lake))
    with opened(folder) as journal:
        if not clear:
            return report_of(journal.undo())
        images = list(journal.images())
        current = ((path, journal.disk.read(path) or b"") for path in dict(images))
        before, after = (_memories_in(files) for files in (images, current))
        queries = forget_queries(journal.disk, before, after)
        forget(before.filter(pc.invert(pc.is_in(before["text"], value_set=after["text"]))), folder)
        changes = journal.clear()  # last: the steps above need the old texts
    if corpus is not None:
        corpus.refresh().save(str(lake))
    note = f"Old texts of {changes} changes are gone, and {queries} lines of the log that quote or found one."
    return describe(report_of(Record(0, ())), note=note)


def forget_queries(disk: Disk, before: pa.Table, after: pa.Table) -> int:
    """Remove queries about deleted texts from the log of ``memkit serve``, and return their number.

    A text is deleted if it is in `before` and not in `after`. A query is about it if it quotes it, or found it, since
    it may paraphrase it.
    """
    log = disk.read(CALLS) or b""
    texts, kept_texts = normalise(before["text"].to_pylist()), {*normalise(after["text"].to_pylist()), ""}
    gone = {text for text in texts if text not in kept_texts}
    ids = {
        id.partition(":")[2] for id, text in zip(before["memory_id"].to_pylist(), texts, strict=True) if text in gone
    }
    joined = "\n".join(sorted(gone))

    def quotes(line: bytes) -> bool:
        try:
            row = json_object(line)
            query, hit_ids = str(row["text"]), {*row["shown"], *row["used"]}
        except (ValueError, TypeError, LookupError):  # a line that memkit did not write
            query, hit_ids = line.decode("utf-8", "replace"), set()
        (normalised,) = normalise([query])
        return (
            bool(hit_ids & ids)
            or (len(normalised) >= _MIN_QUOTE and normalised in joined)
            or any(text in normalised for text in gone)
        )

    lines = log.splitlines(keepends=True)
    kept = [line for line in lines if not quotes(line)]
    if len(kept) < len(lines):
        # Written beside it and renamed, so that whoever stops in between leaves a whole log.
        fresh = f"{CALLS}.new"
        if disk.status(fresh):
            disk.remove(fresh)
        disk.write(fresh, b"".join(kept), disk.status(CALLS))
        disk.sync(fresh)
        disk.rename(fresh, CALLS)
        disk.sync_folder(STATE)
    return len(lines) - len(kept)


def _memories_in(files: Iterable[tuple[str, bytes]]) -> pa.Table:
    """The memories in files with these paths and contents, with unique ids."""
    rows = Rows()
    for path, data in files:
        parse_file(File(decode(path, data)), rows)
    memories = rows.table("memories")
    ids = memories["memory_id"].to_pylist()
    return with_column(memories, "memory_id", [f"{position}:{id}" for position, id in enumerate(ids)])


def _lake_of(folder: Path, lake: Path) -> Corpus:
    corpus = open_lake(lake, source=folder)
    if open_lake(lake, trust=True).root != folder:
        raise ParameterError(f"lake: expected a snapshot saved from {folder}. Got {lake}.")
    return corpus


def recover(root: str | Path, *, trust: bool = False) -> list[str]:
    """Finish or roll back an interrupted change; every further change does this by itself.

    Parameters
    ----------
    root : str or Path
        The folder.
    trust : bool
        Also follow journal records that your own memkit did not write there: those of a folder that you copied or
        moved, of another machine or container, or of an older memkit. `undo` then takes them back too. Such records
        never name a file outside of the folder or a hidden one; the result lists the files that they name. Without
        `trust` they are set aside in ``.memkit/aside``, where a later call with `trust` finds them.

    Returns
    -------
    list of str
        Messages about files that somebody else changed meanwhile, which are left as they are, and about records that
        somebody else wrote.

    Raises
    ------
    MemkitError
        Where another process holds the lock, or your key cannot be read.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> recover(tempfile.mkdtemp())
    []
    """
    disk = Disk(folder_of(root))
    with disk.locked():
        return Journal(disk).recover(trust)


_KEPT_EMPTY = frozenset(("long_term", "heartbeat", "index"))
"""Kinds of files that a host keeps and writes to, whether or not they have a text."""
_TYPE_FIELDS = (*TYPES, "nodetype")
_USUAL_TYPES = frozenset(("note", "memory", "page", *(name for format in FORMATS for name in format.page_types)))
"""Types that programs give to every page, and that say nothing about one."""
_INDEXES = frozenset(format.whole_index for format in FORMATS if format.whole_index)


class _DraftRows:
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
        path = row["path"]
        if row["op"] != "delete" or not path.lower().endswith(MARKDOWN):
            continue
        if "at" not in row or draft.memories_in(path)[0]["format"] == "workspace":
            fresh[path].append(row)
    if not fresh:
        return
    rows = _DraftRows(draft)
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


def _is_left_hollow(draft: Draft, path: str, rows: _DraftRows) -> bool:
    """Whether nothing but front matter, headings and signs is left of a page."""
    if not _KEPT_EMPTY.isdisjoint(row["kind"] for row in draft.memories_in(path)):
        return False
    left = plain_lines(spliced(draft.text(path), rows.splices(path)))
    front = _front_of(draft, path, left)
    body = left[front.body_at :] if front else left
    return not says_words(body) and not says_something(body)


def _front_of(draft: Draft, path: str, text: str) -> front_matter.FrontMatter | None:
    """The front matter of a page, or the properties that its format reads in place of it."""
    format = declared(draft.memories_in(path)[0]["layout"] or "")
    return front_matter.split(text) or (format.head_of(text) if format and format.head_of else None)


def _said_beside(draft: Draft, path: str) -> str:
    """What the front matter of a page says besides title, dates, tags and id, as a reason; empty for nothing."""
    text = plain_lines(draft.text(path))
    front = _front_of(draft, path, text)
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

    def __init__(self, draft: Draft, rows: _DraftRows, going: Iterable[str], kept: dict[str, str]) -> None:
        self.draft, self.rows, self.kept = draft, rows, kept
        self.going = [path for path in going if path not in kept]
        reading = draft.corpus._source()
        linked = reader.read(reading.root, replace(reading.options, format="linked"))
        self.kinds: dict[str, set[str]] = defaultdict(set)
        for path, kind in tuples_of(linked.tables["memories"], "path", "kind"):
            self.kinds[path].add(kind)
        self.links: dict[str, list[Row]] = defaultdict(list)
        for link in links_of(linked.tables, draft.corpus.tables):
            if link["source"] != link["target"] and not DEFINED.match(link["written"]):
                self.links[link["target"]].append(link)
        may_define = pc.match_substring(linked.tables["memories"]["text"], "]:")
        for source in pc.unique(linked.tables["memories"].filter(may_define)["path"]).drop_null().to_pylist():
            with suppress(ChangeRefusedError):  # its bytes are no text
                for match, target in definitions_in(draft.text(source), source, self.going):
                    line = match.string.count("\n", 0, match.start()) + 1
                    self.links[target].append({"source": source, "line": line, "written": match[0].strip()})

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


def _let_go(draft: Draft, path: str, cuts: Iterable[tuple[str, Splice]], rows: _DraftRows) -> None:
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
