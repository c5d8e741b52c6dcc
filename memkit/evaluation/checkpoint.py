"""A checkpoint file: the finished parts of a long computation, to resume it after it was stopped."""

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


class Checkpoint:
    """Arrays by name in one file, each written whole or not at all, and the facts of the work that they belong to.

    An array is stored as its length, its hash and its bytes. A last one that is cut off or damaged is not read, and the
    next one written takes its place.

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
        self.path, self.arrays, self._end = Path(path), dict[str, NDArray[Any]](), 0
        recorded = recorded_facts(path)
        if recorded is None:
            self._begin(dict(facts))
        elif differs := [name for name, value in facts.items() if recorded.get(name) != value]:
            raise ParameterError(
                f"resume: expected the file of this sweep. {self.path} belongs to another one:"
                f" {', '.join(differs)} differ."
                " Name another file, or delete it."
            )
        self._read()

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Add an array; it is on the disk when this returns."""
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
        self.arrays[name] = values

    def _begin(self, facts: dict[str, Any]) -> None:
        with self._opened("wb") as file:
            file.write(_MAGIC + _frame(json.dumps(facts, ensure_ascii=False).encode()))

    def _read(self) -> None:
        with self._opened("rb") as file:
            for position, (data, self._end) in enumerate(_frames(file)):
                if position:
                    stream = io.BytesIO(data)
                    name = json.loads(stream.readline())
                    self.arrays[name] = np.load(stream, allow_pickle=False)

    def _opened(self, mode: str) -> Any:
        try:
            return self.path.open(mode)
        except OSError as error:
            raise ParameterError(f"{_NO_FILE} {str(self.path)!r}: {error}") from error


def recorded_facts(path: str | Path) -> dict[str, Any] | None:
    """The facts of the work in the file at `path`; None where there is no file, or nothing whole in it.

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
    """The whole frames of the file, each with the position of its end."""
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
