"""A checkpoint file: the finished parts of a long computation, to resume it after it was stopped."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.base.hashes import checksum
from memkit.errors import ParameterError

_TABLES = "create table facts (value); create table pieces (name primary key, hash, data)"


class Checkpoint:
    """Arrays by name in one SQLite file, each written whole or not at all, and the facts of the work that they are of.

    An array whose bytes are not those that were written is not read.

    Parameters
    ----------
    path : str or Path
        Created where it does not exist.
    facts : dict
        What identifies the work; a file with other facts is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(f"{folder}/sweep", {"seed": 0}).put("first", np.ones(2))
    ...     Checkpoint(f"{folder}/sweep", {"seed": 0}).arrays["first"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, path: str | Path, facts: Mapping[str, Any]) -> None:
        self.path = Path(path)
        recorded = recorded_facts(path)
        if recorded is None:
            _asked(path, "insert into facts values (?)", (json.dumps(dict(facts)),))
        elif differs := [name for name, value in facts.items() if recorded.get(name) != value]:
            raise ParameterError(
                f"resume: expected the file of this sweep. {self.path} belongs to another one:"
                f" {', '.join(differs)} differ."
                " Name another file, or delete it."
            )
        self.arrays: dict[str, NDArray[Any]] = {
            name: np.load(io.BytesIO(data), allow_pickle=False)
            for name, hash, data in _asked(path, "select name, hash, data from pieces")
            if checksum(data) == hash
        }

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Add an array; it is on the disk when this returns."""
        data = io.BytesIO()
        np.save(data, values, allow_pickle=False)
        row = (name, checksum(data.getvalue()), data.getvalue())
        _asked(self.path, "insert or replace into pieces values (?, ?, ?)", row)
        self.arrays[name] = values


def recorded_facts(path: str | Path) -> dict[str, Any] | None:
    """The facts of the work in the file at `path`; None where there is no file, or nothing in it.

    Raises
    ------
    ParameterError
        Where it is something else.
    """
    rows = _asked(path, "select value from facts") if Path(path).exists() else []
    facts: dict[str, Any] | None = json.loads(rows[0][0]) if rows else None
    return facts


def _asked(path: str | Path, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """The rows of a statement; what it changes is on the disk when this returns."""
    try:
        with closing(sqlite3.connect(path)) as con, con:
            if not con.execute("select 1 from sqlite_schema").fetchone():
                con.executescript(_TABLES)
            return con.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise ParameterError(
            f"resume: expected a file that a sweep can write. Got {str(path)!r}: {error}; it was left as it is."
        ) from error
