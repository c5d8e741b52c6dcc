"""`mk.store`: the documents' own operations on a folder; each is atomic, can be undone, and can be shown first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.base.params import Zone
from memkit.change.disk import folder_of
from memkit.change.facts import LEAST_SCORE, FactStore
from memkit.change.index import IndexStore
from memkit.change.notes import NoteStore
from memkit.change.records import RecordStore
from memkit.change.rename import PageStore
from memkit.change.workspace import MemoryStorage
from memkit.hosts.basic_memory.store import BasicMemoryStore
from memkit.hosts.claude.store import ClaudeStore
from memkit.hosts.hermes import LIMITS
from memkit.hosts.hermes.store import HermesStore
from memkit.hosts.mcp_graph.store import GraphStore
from memkit.hosts.memfs.store import MemfsStore
from memkit.hosts.serena.store import SerenaStore

if TYPE_CHECKING:
    from memkit.evaluation.profile import Profile


class Store:
    """The operations of the formats' documents on one folder.

    Attributes
    ----------
    facts : FactStore
        Fact lines of users (Memory v2): save, read, search, get, forget, update, cleanup, migrate_user, blocks.
    notes : NoteStore
        Notes with front matter (Memory Format): create, update, delete, list, search, get.
    records : RecordStore
        Pathways, memory items and wisdom facts (data formats): put, update, record_use, migrate.
    index : IndexStore
        Categories and entries of index trees (index standard): load, check, add_category, add_entry, update_entry,
        remove_entry, clean, split, rejoin.
    workspace : MemoryStorage
        MEMORY.md, daily logs and transcripts (workspace): read_memory, append_to_memory, read_daily_log,
        append_to_daily_log, get_recent_context, save_session, append_to_session.
    hermes : HermesStore
        Entries of MEMORY.md and USER.md (Hermes): add, replace, remove, entries, usage.
    graph : GraphStore
        Entities, observations and relations (MCP memory server): create_entity, add_observations, delete_observations,
        delete_entity, create_relation, delete_relation, entities.
    basic_memory : BasicMemoryStore
        Lines of pages (basic-memory): add_observation, add_relation.
    memfs : MemfsStore
        Files of a MemFS (Letta): describe, append.
    serena : SerenaStore
        Memories by name (Serena): write, append, rename.
    claude : ClaudeStore
        Topics with their line in MEMORY.md (Claude Code): add.
    pages : PageStore
        Pages of any layout with links: rename, with the links that lead to a page.

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
        hermes: HermesStore,
        graph: GraphStore,
    ) -> None:
        self.root = root
        self.facts, self.notes, self.records, self.index, self.workspace = facts, notes, records, index, workspace
        self.hermes, self.graph = hermes, graph
        self.basic_memory, self.memfs, self.serena = BasicMemoryStore(root), MemfsStore(root), SerenaStore(root)
        self.claude, self.pages = ClaudeStore(root), PageStore(root)

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"


def store(
    root: str | Path,
    *,
    encoder: Any = "use",
    profile: Profile | None = None,
    timezone: Zone = None,
    created_tag: bool = True,
    least_score: float = LEAST_SCORE,
    notes_folder: str | None = None,
    auto_clean_invalid: bool = False,
    auto_clean_missing: bool = False,
    max_tokens_per_file: int = 4096,
    memory_chars: int = LIMITS["MEMORY.md"],
    user_chars: int = LIMITS["USER.md"],
) -> Store:
    """The operations of the five documents (save, read, forget, …) on a folder.

    Every operation is one atomic step that `memkit.undo` takes back, takes ``now=`` (None is now), and with
    ``dry_run=True`` returns its `Edits` and writes nothing.

    Parameters
    ----------
    root : str or Path
        An existing folder.
    encoder : object, optional
        The encoder of search and of dedup by meaning, as `memkit.extend.as_encoder` takes it. None uses words alone.
    profile : Profile, optional
        Tuned parameters of the facts' policies, of their search and of their blocks.
    timezone : str or tzinfo, optional
        The zone of the times and days that the workspace writes, such as "Europe/Moscow"; None is UTC. Give
        `memkit.read` the same one.
    created_tag : bool
        Whether a new fact gets a tag ``[created:]`` with its day; the bot of the Memory v2 document has no such tag.
    least_score : float
        The least score of the first hit at which ``confirm`` forgets or updates that fact; 0 takes any first hit.
    notes_folder : str, optional
        The folder of new notes, relative to `root`; None is the folder that holds most notes.
    auto_clean_invalid, auto_clean_missing : bool
        Whether saving an entry of an index removes other entries that are invalid, or whose file is missing.
    max_tokens_per_file : int, tokens
        ``index.split`` splits longer files.
    memory_chars, user_chars : int, characters
        The limits of Hermes's MEMORY.md and USER.md, above which nothing is added.

    Returns
    -------
    Store

    Raises
    ------
    FormatError
        Where the folder does not exist.
    ParameterError
        For an option of the wrong type or out of range.

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
    root_folder = folder_of(root)
    return Store(
        root_folder,
        FactStore(root_folder, encoder, profile=profile, created_tag=created_tag, least_score=least_score),
        NoteStore(root_folder, notes_folder),
        RecordStore(root_folder),
        IndexStore(
            root_folder,
            auto_clean_invalid=auto_clean_invalid,
            auto_clean_missing=auto_clean_missing,
            max_tokens_per_file=max_tokens_per_file,
        ),
        MemoryStorage(root_folder, timezone),
        HermesStore(root_folder, memory_chars=memory_chars, user_chars=user_chars),
        GraphStore(root_folder),
    )
