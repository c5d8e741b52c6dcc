"""`mk.plan`: the changes that policies want, as edits; and `mk.undo`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
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
from memkit.change.hollow import finish_pages
from memkit.change.journal import Journal, Record, opened
from memkit.change.memories import merge_into, remove_entry, remove_memory
from memkit.change.split import split_files
from memkit.errors import ParameterError
from memkit.formats.disk.lock import CALLS, STATE
from memkit.formats.disk.source import decode
from memkit.formats.format import File
from memkit.formats.registry import parse_file
from memkit.formats.rows import Rows
from memkit.policy.catalogue import policy_class
from memkit.policy.dedup.near import normalise
from memkit.policy.index_check import IndexCheck
from memkit.policy.split_plan import SplitPlan
from memkit.schemas import with_column
from memkit.tables.corpus import Corpus, home, open_lake
from memkit.tables.statement import Annotator

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
