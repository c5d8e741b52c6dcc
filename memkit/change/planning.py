"""`mk.plan`: what policies ask for, as edits; and the way back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change.disk import Disk, folder_of
from memkit.change.draft import Draft
from memkit.change.edits import Edits, report_of
from memkit.change.journal import Journal, Record, opened
from memkit.change.memories import merge_into, remove_entry, remove_memory
from memkit.change.split import split_files
from memkit.checked import json_object
from memkit.errors import ParameterError
from memkit.formats.disk.lock import CALLS, STATE
from memkit.formats.disk.source import decode
from memkit.formats.format import File
from memkit.formats.registry import parse_file
from memkit.formats.rows import Rows
from memkit.params import AsOf, as_of_time, describe, path_of
from memkit.policy.catalogue import policy_class
from memkit.policy.dedup.near import normalise
from memkit.policy.index_check import IndexCheck
from memkit.policy.split_plan import SplitPlan
from memkit.tables.corpus import Corpus
from memkit.tables.sources import home, open_lake
from memkit.tables.statement import Annotator

_MIN_QUOTE = 12
"""Letters of a text that quote it: no fact is shorter."""


@runtime_checkable
class Planner(Protocol):
    """What is not a policy and still asks for changes, as `Migrate` does."""

    def draft(self, draft: Draft) -> None:
        """Add rows to `draft`."""


def plan(corpus: Corpus, policies: Any, as_of: AsOf = None, *, merge: bool = False) -> Edits:
    """What policies ask for, as edits of the files; nothing is written.

    Parameters
    ----------
    corpus : Corpus
        Read from a folder.
    policies : policy, name, or list of them
        Applied one after the other: what an earlier one removes a later one does not see. `Expiry`, `Deduplicator`,
        `Quota` (what it evicts), and any policy that adds ``keep``, remove memories; `IndexCheck` removes the entries
        that its ``auto_clean`` options name, `SplitPlan` splits files.
    as_of : str, date, datetime or None
        The day that is looked at, UTC; None is now.
    merge : bool
        Of notes, index entries and facts that say the same, the one that stays takes over the tags (keywords) of the
        others and the highest importance among them; else they are dropped as they are, as records and sections of a
        workspace always are: no document merges those, and ``refused`` says which tags are lost.

    Returns
    -------
    Edits
        ``.refused`` says what could not be planned, and why.

    Raises
    ------
    ParameterError
        For what is not a policy, or one that judges nothing.
    StaleSourceError
        Where a file changed since `corpus` was read.
    MemkitError
        For a corpus of no folder.

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
    moment = as_of_time(as_of)
    draft = Draft(home(corpus), moment, corpus)
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
    return draft.edits([("as_of", moment.isoformat())])


def _apply_policy(policy: Annotator, draft: Draft, remaining: pa.Table, moment: datetime, merge: bool) -> pa.Table:
    """Draft what one policy asks for; the memories that it leaves."""
    planner = _PLANNERS.get(type(policy).__name__)
    if planner is not None:
        planner(policy, draft)
        return remaining
    if "keep" not in policy.adds:
        raise ParameterError(f"plan: {type(policy).__name__} judges nothing; expected a policy with 'keep'.")
    if not policy.is_fitted:
        policy = copy.deepcopy(policy).fit(remaining)
    judged = policy.transform(remaining, moment)
    merged: dict[str, list[dict[str, Any]]] = {}
    for row in judged.filter(pc.invert(judged["keep"])).to_pylist():
        reason = str(row["reason"])
        if reason == "limit":
            draft.refuse(row["path"], row["memory_id"], "it is over its limit; only archive facts are evicted.")
            continue
        suffix = f" of {row['duplicate_of']}" if row.get("duplicate_of") else ""
        remove_memory(draft, row, reason + suffix)
        if merge and suffix and row["memory_id"] in draft.gone:
            merged.setdefault(row["duplicate_of"], []).append(row)
    for row in judged.filter(pc.is_in(judged["memory_id"], value_set=pa.array(list(merged), pa.string()))).to_pylist():
        merge_into(draft, row, merged[row["memory_id"]])
    gone = pa.array(sorted(draft.gone), pa.string())
    return remaining.filter(pc.invert(pc.is_in(remaining["memory_id"], value_set=gone)))


def clean_entries(policy: IndexCheck, draft: Draft, pinned: bool = False) -> None:
    """Draft that the entries go that `policy` would remove; with `pinned`, pinned ones too."""
    entries = draft.corpus.tables["entries"]
    if pinned:
        none = pa.nulls(entries.num_rows, pa.bool_())
        entries = entries.set_column(entries.schema.get_field_index("pinned"), "pinned", none)
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
    """Take back the last change of a folder, byte for byte.

    Parameters
    ----------
    root : str or Path
        The folder that was changed.
    clear : bool
        Instead forget how to undo: the old texts are removed from the journal, their vectors from the user's cache,
        and from the log of ``memkit serve`` the queries that quote one, or that found it. No other place under the
        folder has them.
    lake : str or Path, optional
        With `clear`: a lake that was saved of the folder, which is saved anew without them.

    Returns
    -------
    pyarrow.Table
        The files: path, op, sha256_before, sha256_after; with `clear` none, and its note says what was removed.

    Raises
    ------
    StaleSourceError
        Where a file was changed since; nothing was written.
    MemkitError
        Where there is nothing to undo.
    ParameterError
        For a lake without `clear`, or one of another folder.

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
        raise ParameterError("undo: a lake is saved anew with clear=True alone.")
    corpus = None if lake is None else _lake_of(folder, path_of("undo", lake))
    with opened(folder) as journal:
        if not clear:
            return report_of(journal.undo())
        images = list(journal.images())
        current = ((path, journal.disk.read(path) or b"") for path in dict(images))
        before, after = (_memories_in(files) for files in (images, current))
        queries = forget_queries(journal.disk, before, after)
        forget(before.filter(pc.invert(pc.is_in(before["text"], value_set=after["text"]))))
        changes = journal.clear()  # last: without the old texts nobody could tell what else is to go
    if corpus is not None:
        corpus.refresh().save(str(lake))
    note = f"Old texts of {changes} changes are gone, and {queries} lines of the log that quote or found one."
    return describe(report_of(Record(0, ())), note=note)


def forget_queries(disk: Disk, before: pa.Table, after: pa.Table) -> int:
    """Drop from the log of ``memkit serve`` each query that quotes a text of `before` that is not in `after`.

    Or that found it: then it may say the same in other words. How many lines there were.
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
        except (ValueError, TypeError, LookupError):  # a line of somebody else's
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
    """The memories that files of such names and contents hold, one of equal ids."""
    rows = Rows()
    for path, data in files:
        parse_file(File(decode(path, data)), rows)
    memories = rows.table("memories")
    ids = memories["memory_id"].to_pylist()
    return memories.set_column(
        0, "memory_id", pa.array([f"{position}:{id}" for position, id in enumerate(ids)], pa.string())
    )


def _lake_of(folder: Path, lake: Path) -> Corpus:
    corpus = open_lake(lake, source=folder)
    if open_lake(lake, trust=True).root != folder:
        raise ParameterError(f"lake: expected one that was saved of {folder}. Got {lake}.")
    return corpus


def recover(root: str | Path, *, trust: bool = False) -> list[str]:
    """Finish or take back a change that was cut off, as any further change does by itself.

    Parameters
    ----------
    root : str or Path
        The folder that was being changed.
    trust : bool
        Also follow the records that your own memkit did not write there: of a folder that you copied or moved, of
        another machine or container, of an older memkit. Then `undo` takes them back too. They name no file outside of
        the folder, nor a hidden one; what they name, what is returned says. Else they are set aside in
        ``.memkit/aside``, where `trust` still finds them.

    Returns
    -------
    list of str
        What is to be said of files that somebody else changed meanwhile, which are left as they are, and of records
        that somebody else wrote.

    Raises
    ------
    MemkitError
        Where another process is at work there, or your key cannot be read.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> recover(tempfile.mkdtemp())
    []
    """
    disk = Disk(folder_of(root))
    with disk.locked():
        return Journal(disk).recover(trust)
