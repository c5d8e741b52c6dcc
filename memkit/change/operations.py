"""The base of the documents' stores: an operation reads, drafts and applies under one lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, as_of_time, describe
from memkit.base.plugins import Plugins
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.journal import opened
from memkit.errors import ChangeRefusedError, NotFoundError, ParameterError, near
from memkit.formats.disk.files import MAX_FILE_BYTES
from memkit.formats.fields import check_text
from memkit.formats.registry import NAMES, name_of
from memkit.formats.rows import Row
from memkit.schemas import result_schema
from memkit.tables.corpus import read
from memkit.text.secrets import mask

T = TypeVar("T")
_ANSWER = result_schema((pa.string(), "path op sha256_before sha256_after reason"))


class Operations:
    """The base of the stores: an operation reads, drafts and applies under one lock.

    Attributes
    ----------
    policy : str
        The store's name in ``mk.store(root)`` and in the column ``policy`` of its edits.
    format : str
        The format whose memories `draft_removal` takes out; empty where the store has no such.
    """

    policy = "store"
    format = ""

    @staticmethod
    def draft_removal(draft: Draft, memory: Row, reason: str) -> None:
        """Draft the removal of one memory, as a plan needs it; refuse what is not safe.

        Raises
        ------
        ChangeRefusedError
        """
        raise ChangeRefusedError(f"memkit does not change files of the format {memory['format']!r}.")

    def __init__(self, root: Path) -> None:
        self.root = root
        self._formats = [name_of(self.format)] if self.format and self.format not in NAMES else []

    def keeper(self) -> Callable[..., str | Edits] | None:
        """Where a text that is to be remembered in this folder belongs to this store, the operation that saves it.

        It takes the text, ``subject=`` and ``type=``, which may be None, and ``now=`` and ``dry_run=``.
        """
        return None

    def _do(self, work: Callable[[Draft], T], now: AsOf, dry_run: bool) -> T | Edits:
        """The result of `work`, once its draft is applied; with `dry_run` the edits, and nothing is written."""
        moment = as_of_time(now)
        if dry_run:
            return self._drafted(work, moment)[1]
        with opened(self.root) as journal:
            result, edits = self._drafted(work, moment)
            edits.apply_with(journal)
        return result

    def _memories_where(self, column: str, value: str) -> pa.Table:
        """The folder's memories of a format or layout."""
        memories = read(self.root, formats=self._formats).memories
        return memories.filter(pc.equal(memories[column], value))

    def _reader(self) -> Draft:
        """A draft that only reads files; its date is never written."""
        return Draft(self.root, as_of_time("1970-01-01"), reads_only=True)

    def _drafted(self, work: Callable[[Draft], T], moment: datetime) -> tuple[T, Edits]:
        draft = Draft(self.root, moment)
        with draft.as_policy(self.policy):
            result = work(draft)
        for row in draft.rows:
            if "\0" in (row.get("after") or "") and "\0" not in (row.get("before") or ""):
                raise ParameterError(f"{row['path']}: expected text without NUL. Got some.")
        edits = draft.edits([("time", moment.isoformat())])
        for change in edits.changes():
            if change.after is not None and len(change.after) > max(MAX_FILE_BYTES, len(change.before or b"")):
                raise ChangeRefusedError(
                    f"{change.path}: it would have {len(change.after):,} bytes, and no file of more than"
                    f" {MAX_FILE_BYTES:,} is read whole. Split it first."
                )
        return result, edits


def _checked(name: str, cls: Any) -> type[Operations]:
    if not (isinstance(cls, type) and issubclass(cls, Operations)) or not name.isidentifier() or cls.policy != name:
        raise ParameterError(f"a store: expected a subclass of mk.extend.Operations with a name. Got {cls!r:.80}.")
    return cls


STORES = Plugins("memkit.stores", _checked)
"""The stores from outside of the core."""


def register_store(cls: type[Operations]) -> None:
    """Make a store known by its name in this process."""
    STORES.add(cls.policy, cls)


def forget_store(name: str) -> None:
    """Undo `register_store`; nothing happens where there was none of this name."""
    STORES.registered.pop(name, None)


def removal_of(format: str) -> Callable[[Draft, Row, str], None] | None:
    """How a store from outside of the core takes out a memory of a format; None where none does."""
    return next((store.draft_removal for _, store in STORES.all() if store.format == format), None)


def applied(edits: Edits, *, force: bool = False) -> pa.Table:
    """Apply `edits`: the table of `Edits.apply`, and a row with op ``refused`` and the reason for each refusal."""
    return answer(edits.apply(force), edits.refused.to_pylist(), "refused")


def answer(files: pa.Table | None, rows: Iterable[dict[str, Any]], op: str) -> pa.Table:
    """The table that an operation returns: changed files, and `rows` with path and reason under `op`."""
    done = files.to_pylist() if files is not None else []
    others = [{"path": row["path"], "op": op, "reason": row["reason"]} for row in rows]
    return describe(pa.Table.from_pylist([*done, *others], schema=_ANSWER), memkit="applied")


def checked(text: object, name: str, *, filled: bool = True) -> str:
    """`text`, checked to be a string that UTF-8 can encode and, with `filled`, that is not blank.

    Raises
    ------
    ParameterError, FormatError

    Examples
    --------
    >>> checked("чай", "text")
    'чай'
    >>> checked(" ", "text")
    Traceback (most recent call last):
    memkit.errors.ParameterError: text: expected a text. Got a blank one.
    """
    if not isinstance(text, str) or (filled and not text.strip()):
        got = "a blank one" if isinstance(text, str) else f"{text!r:.80}"
        raise ParameterError(f"{name}: expected a text. Got {got}.")
    check_text(text, name)
    return text


def missing(what: str, wanted: str, known: Iterable[str]) -> NotFoundError:
    """The error for an unknown id, with similar ones.

    >>> str(missing("page", "tea", ["tea.md", "log.md"]))
    "there is no page 'tea'. Near it: tea.md."
    """
    near_ids = near(wanted, known, cutoff=0.4)
    hint = f" Near it: {', '.join(near_ids)}." if near_ids else ""
    return NotFoundError(mask(f"there is no {what} {wanted!r:.200}.{hint}"))


def stamp(moment: datetime) -> str:
    """A time as the formats write it: UTC, to the second.

    >>> stamp(datetime(2026, 3, 1, 12, 30))
    '2026-03-01T12:30:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
