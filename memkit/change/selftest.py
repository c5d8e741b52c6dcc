"""The manual check of Memory v2, run on a copy: migrate a user, save a fact, read it, forget it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from memkit.base.params import AsOf, describe
from memkit.change.planning import undo
from memkit.change.store import store
from memkit.errors import MemkitError, NotFoundError
from memkit.schemas import result_schema

_STEPS = result_schema((pa.string(), "step"), (pa.bool_(), "ok"), (pa.string(), "detail"))
_UNSAVED = "No fact was saved, so there is none to try this with."
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

        def known() -> list[str]:
            known_ids: list[str] = facts.read(user, as_of=now)["id"].to_pylist()
            return known_ids

        def read() -> str:
            _demand(bool(ids), _UNSAVED)
            _demand(ids[0] in known(), f"The fact {ids[0]} was saved, but is not read.")
            return f"{len(known())} facts"

        def forget() -> str:
            _demand(bool(ids), _UNSAVED)
            facts.forget(user, ids[0], now=now)
            _demand(ids[0] not in known(), f"The fact {ids[0]} was forgotten, but is still read.")
            return ids[0]

        def undone() -> str:
            _demand(bool(ids), _UNSAVED)
            undo(copy)
            _demand(ids[0] in known(), f"Forgetting {ids[0]} was undone, but it is not read.")
            return "the fact is there again"

        steps: dict[str, Callable[[], object]] = {
            "migrate": migrate,
            **{"save": save, "read": read, "forget": forget, "undo": undone},
        }
        for name, step in steps.items():
            try:
                rows.append({"step": name, "ok": True, "detail": str(step())})
            except MemkitError as error:
                rows.append({"step": name, "ok": False, "detail": str(error)})
            except OSError as error:
                detail = f"{error.filename or copy}: {error.strerror or error}."
                rows.append({"step": name, "ok": False, "detail": detail})
    return describe(pa.Table.from_pylist(rows, schema=_STEPS), memkit="selftest")


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise MemkitError(otherwise)
