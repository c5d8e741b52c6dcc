"""`mk.store`: the documents' own operations on a folder; each is atomic, can be undone, and can be shown first.
`selftest` tries them on a copy.
"""

from __future__ import annotations

import inspect
import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.base.params import AsOf, Zone, describe
from memkit.change.disk import folder_of
from memkit.change.draft import STORES
from memkit.change.facts import LEAST_SCORE, FactStore
from memkit.change.index import IndexStore
from memkit.change.pages import NoteStore, PageStore
from memkit.change.planning import undo
from memkit.change.records import RecordStore
from memkit.change.workspace import MemoryStorage
from memkit.errors import MemkitError, NotFoundError, ParameterError, did_you_mean
from memkit.schemas import result_schema

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
    pages : PageStore
        Pages of any layout with links: rename, with the links that lead to a page.

    Notes
    -----
    Hosts and packages bring further ones, whose names ``dir(store)`` has; each is made when it is first asked for.
    help() of one has its operations: ``help(mk.store(root).NAME)``.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> memory = mk.store(tempfile.mkdtemp())
    >>> memory.facts.save("anna", "Анна предпочитает зелёный чай с мёдом.", now="2026-03-01").id
    'pf_001'
    """

    def __init__(self, root: Path, options: Mapping[str, Mapping[str, Any]]) -> None:
        self.root = root
        self.facts, self.notes = FactStore(root, **options["facts"]), NoteStore(root, **options["notes"])
        self.records, self.index = RecordStore(root), IndexStore(root, **options["index"])
        self.workspace, self.pages = MemoryStorage(root, **options["workspace"]), PageStore(root)
        self._options = options

    def __getattr__(self, name: str) -> Any:
        cls = None if name.startswith("_") else STORES.get(name)
        if cls is None:
            left_out = STORES.left_out(name)
            raise AttributeError(left_out or f"a Store has no {name!r}.{did_you_mean(name, self.__dir__())}")
        made = cls(self.root, **self._options.get(name, {}))
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *STORES.names()})

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
    **options: Any,
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
    **options
        Those that stores of hosts and packages have, such as ``memory_chars`` and ``user_chars``, the limits of a
        host's MEMORY.md and USER.md, above which nothing is added.

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
    cleaning = {"auto_clean_invalid": auto_clean_invalid, "auto_clean_missing": auto_clean_missing}
    of_documents: dict[str, dict[str, Any]] = {
        "facts": {"encoder": encoder, "profile": profile, "created_tag": created_tag, "least_score": least_score},
        "notes": {"folder": notes_folder},
        "index": {**cleaning, "max_tokens_per_file": max_tokens_per_file},
        "workspace": {"timezone": timezone},
    }
    return Store(folder_of(root), _options(options) | of_documents)


def _options(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of stores from outside of the core, by store; a name that none has is refused."""
    if not given:
        return {}
    declared = {name: inspect.signature(cls).parameters.values() for name, cls in STORES.all()}
    named = {name: {p.name for p in found if p.kind is p.KEYWORD_ONLY} for name, found in declared.items()}
    known = {*itertools.chain(*named.values()), *(p for p in inspect.signature(store).parameters if p != "options")}
    for option in given:
        if option not in known:
            raise ParameterError(f"store: there is no option {option!r:.80}.{did_you_mean(option, known)}")
    return {name: {option: given[option] for option in options & given.keys()} for name, options in named.items()}


_STEPS = result_schema((pa.string(), "step"), (pa.bool_(), "ok"), (pa.string(), "detail"))
FACT = "Предпочитает проверять память на копии."


def selftest(root: Path, user: str = "test-user", now: AsOf = None) -> pa.Table:
    """Run the operations of the manual check on a copy of `root`.

    Returns
    -------
    pyarrow.Table
        step, ok, detail: what a step did, or a sentence that says why it failed.

    Raises
    ------
    FormatError
        Where the folder does not exist.
    """
    store(root)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".memkit"))
        facts, ids = store(copy).facts, list[str]()

        def migrate() -> str:
            try:
                lines = facts.migrate_user(user, now=now)
                assert isinstance(lines, pa.Table)
                return f"{lines.num_rows} lines"
            except NotFoundError:
                return "nothing to migrate"

        def save() -> str:
            ids.append(str(getattr(facts.save(user, FACT, now=now), "id", "")))
            return ids[0]

        def known(act: Callable[[str], object], is_read: bool, otherwise: str) -> int:
            """How many facts are read after `act`; raises unless that of this test is among them, or not, as wanted."""
            if not ids:
                raise MemkitError("No fact was saved, so there is none to try this with.")
            act(ids[0])
            known_ids = facts.read(user, as_of=now)["id"].to_pylist()
            if (ids[0] in known_ids) != is_read:
                raise MemkitError(otherwise.format(ids[0]))
            return len(known_ids)

        def read() -> str:
            return f"{known(str, True, 'The fact {} was saved, but is not read.')} facts"

        def forget() -> str:
            known(lambda id: facts.forget(user, id, now=now), False, "The fact {} was forgotten, but is still read.")
            return ids[0]

        def undone() -> str:
            known(lambda _: undo(copy), True, "Forgetting {} was undone, but it is not read.")
            return "the fact is there again"

        steps = {"migrate": migrate, "save": save, "read": read, "forget": forget, "undo": undone}
        for name, step in steps.items():
            try:
                rows.append({"step": name, "ok": True, "detail": step()})
            except MemkitError as error:
                rows.append({"step": name, "ok": False, "detail": str(error)})
            except OSError as error:
                detail = f"{error.filename or copy}: {error.strerror or error}."
                rows.append({"step": name, "ok": False, "detail": detail})
    return describe(pa.Table.from_pylist(rows, schema=_STEPS), memkit="selftest")
