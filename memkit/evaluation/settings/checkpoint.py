"""A file of finished pieces of a long work, for a work that was killed to go on from."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.errors import ParameterError
from memkit.hashes import checksum

_MAGIC = b"memkit pieces 1\n"
_LENGTH, _HASH = 8, 16
_NO_FILE = "resume: expected a file that a sweep can write. Got"


class Pieces:
    """Arrays by name in one file, each written whole or not at all, and what they are pieces of.

    A piece is its length, its hash and its bytes; of a last one that is cut off or damaged nothing is read, and the
    next takes its place.

    Parameters
    ----------
    path : str or Path
        Made where there is none.
    facts : dict
        What the work is; a file of another one is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Pieces(f"{folder}/sweep", {"seed": 0}).put("first", np.ones(2))
    ...     Pieces(f"{folder}/sweep", {"seed": 0}).held["first"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, path: str | Path, facts: Mapping[str, Any]) -> None:
        self.path, self.held, self._end = Path(path), dict[str, NDArray[Any]](), 0
        known = recorded(path)
        if known is None:
            self._begin(dict(facts))
        elif differs := [name for name, value in facts.items() if known.get(name) != value]:
            raise ParameterError(
                f"resume: expected the file of this sweep. {self.path} is of another one: {', '.join(differs)} differ."
                " Name another file, or delete it."
            )
        self._read()

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Add a piece; it is on the disk when this returns."""
        data = io.BytesIO()
        data.write(json.dumps(name).encode() + b"\n")
        np.save(data, values, allow_pickle=False)
        with self._opened("r+b") as file:
            file.seek(self._end)
            file.write(_frame(data.getvalue()))
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        self.held[name] = values

    def _begin(self, facts: dict[str, Any]) -> None:
        with self._opened("wb") as file:
            file.write(_MAGIC + _frame(json.dumps(facts, ensure_ascii=False).encode()))

    def _read(self) -> None:
        with self._opened("rb") as file:
            for at, (data, self._end) in enumerate(_frames(file)):
                if at:
                    stream = io.BytesIO(data)
                    name = json.loads(stream.readline())
                    self.held[name] = np.load(stream, allow_pickle=False)

    def _opened(self, mode: str) -> Any:
        try:
            return self.path.open(mode)
        except OSError as error:
            raise ParameterError(f"{_NO_FILE} {str(self.path)!r}: {error}") from error


def recorded(path: str | Path) -> dict[str, Any] | None:
    """What the file at `path` holds pieces of; None where there is none, or nothing whole.

    Raises
    ------
    ParameterError
        Where it is something else.
    """
    try:
        with Path(path).open("rb") as file:
            start = file.read(len(_MAGIC))
            if start != _MAGIC[: len(start)]:
                raise ParameterError(f"{_NO_FILE} {str(path)!r}, which is something else and was left as it is.")
            file.seek(0)
            first = next(_frames(file), None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ParameterError(f"{_NO_FILE} {str(path)!r}: {error}") from error
    facts: dict[str, Any] | None = None if first is None else json.loads(first[0])
    return facts


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "little") + checksum(data) + data


def _frames(file: Any) -> Iterator[tuple[bytes, int]]:
    """The pieces that are whole, each with where it ends."""
    file.seek(len(_MAGIC))
    while True:
        head = file.read(_LENGTH + _HASH)
        size = int.from_bytes(head[:_LENGTH], "little")
        if len(head) < _LENGTH + _HASH or size > os.fstat(file.fileno()).st_size - file.tell():
            return
        data = file.read(size)
        if checksum(data) != head[_LENGTH:]:
            return
        yield data, file.tell()
