"""`mk.store`: the documents' own operations on a folder, each one atomic, undoable, and shown first where asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.change.disk import folder_of
from memkit.change.facts import FactStore
from memkit.change.index import IndexStore
from memkit.change.notes import NoteStore
from memkit.change.records import RecordStore
from memkit.change.workspace import MemoryStorage
from memkit.params import Zone

if TYPE_CHECKING:
    from memkit.evaluation.profiles.profile import Profile


class Store:
    """The operations of the formats' documents on one folder.

    Attributes
    ----------
    facts : FactStore
        Fact lines of users (Memory v2): save, read, search, get, forget, update, cleanup, migrate_user, blocks.
    notes : NoteStore
        Notes with front matter (Memory Format): create, update, delete, list, search, get.
    records : RecordStore
        Pathways, memory items and wisdom facts (data formats): put, record_use, migrate.
    index : IndexStore
        Categories and entries of index trees (index standard): load, check, add_category, add_entry, update_entry,
        remove_entry, clean, split, rejoin.
    workspace : MemoryStorage
        MEMORY.md, daily logs and transcripts (workspace): read_memory, append_to_memory, read_daily_log,
        append_to_daily_log, get_recent_context, save_session, append_to_session.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> memory = mk.store(tempfile.mkdtemp())
    >>> memory.facts.save("anna", "Анна предпочитает зелёный чай с мёдом.", now="2026-03-01").id
    'pf_001'
    """

    def __init__(
        self,
        root: Path,
        facts: FactStore,
        notes: NoteStore,
        records: RecordStore,
        index: IndexStore,
        workspace: MemoryStorage,
    ) -> None:
        self.root = root
        self.facts, self.notes, self.records, self.index, self.workspace = facts, notes, records, index, workspace

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"


def store(
    root: str | Path,
    *,
    encoder: Any = "use",
    profile: Profile | None = None,
    timezone: Zone = None,
    created_tag: bool = True,
    least_score: float = 0.0,
    notes_folder: str | None = None,
    auto_clean_invalid: bool = False,
    auto_clean_missing: bool = False,
    max_tokens_per_file: int = 4096,
) -> Store:
    """The documents' operations on a folder.

    Every operation is one atomic step that `memkit.undo` takes back, takes ``now=`` (None is now), and with
    ``dry_run=True`` returns its `Edits` and writes nothing.

    Parameters
    ----------
    root : str or Path
        A folder that is there.
    encoder : object, optional
        What `as_encoder` takes, for search and for dedup by meaning, as `memkit serve` has it; None is by words alone.
    profile : Profile, optional
        What was tuned: parameters of the facts' policies, of their search and of their blocks.
    timezone : str or tzinfo, optional
        Of the times and days that the workspace writes, as "Europe/Moscow"; `memkit.read` takes the same. None is UTC.
    created_tag : bool
        Whether a new fact says its day in ``[created:]``; the bot of the Memory v2 document knows no such tag.
    least_score : float
        What the first hit of a query must score at least for a fact to be forgotten or updated with ``confirm``.
    notes_folder : str, optional
        Where new notes go, relative to `root`; None is where most of the others lie.
    auto_clean_invalid, auto_clean_missing : bool
        Whether what saves an entry of an index removes the others that break a rule of the index standard.
    max_tokens_per_file : int, tokens
        A longer file of an index is what ``index.split`` splits.

    Returns
    -------
    Store

    Raises
    ------
    FormatError
        Where there is no such folder.
    ParameterError
        Where an option is not what it should be.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> memory = store(tempfile.mkdtemp())
    >>> saved = memory.facts.save("anna", "Анна предпочитает зелёный чай с мёдом.", now="2026-03-01")
    >>> memory.facts.read("anna")["text"].to_pylist()
    ['Анна предпочитает зелёный чай с мёдом.']
    >>> memory.facts.save("anna", "предпочитает зелёный чай", now="2026-03-01")
    Traceback (most recent call last):
    memkit.errors.PolicyRefusal: duplicate: pf_001 says it already.
    """
    folder = folder_of(root)
    return Store(
        folder,
        FactStore(folder, encoder, profile=profile, created_tag=created_tag, least_score=least_score),
        NoteStore(folder, notes_folder),
        RecordStore(folder),
        IndexStore(
            folder,
            auto_clean_invalid=auto_clean_invalid,
            auto_clean_missing=auto_clean_missing,
            max_tokens_per_file=max_tokens_per_file,
        ),
        MemoryStorage(folder, timezone),
    )
