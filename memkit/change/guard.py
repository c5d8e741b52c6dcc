"""How much a change takes away, told from the files before and after as memkit's readers see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from memkit.formats import reader
from memkit.formats.reader import Options, Reading
from memkit.past.identity import ALIKE, Known, known_of, matches


class Guard:
    """The memories of a folder, and which of them go with a change.

    Parameters
    ----------
    root : Path
        The folder.
    reading : Reading, optional
        The folder as it was read; None is read here, where that is needed.
    """

    def __init__(self, root: Path, reading: Reading | None = None) -> None:
        self.root, self.reading = root, reading

    def lost(self, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> list[str]:
        """The ids of the memories that go where files change from `before` to `after`."""
        root, options = (self.reading.root, self.reading.options) if self.reading else (self.root, Options())
        return lost(*reader.memories_of(root, options, before, after))

    def memories(self) -> int:
        """How many memories there are."""
        self.reading = self.reading or reader.read(self.root, Options())
        return int(self.reading.tables["memories"].num_rows)


def lost(before: pa.Table, after: pa.Table) -> list[str]:
    """The ids of the memories of which less than half is left, in what took their place or else line by line.

    What now expires, or does so sooner, goes too: who cleans up next would remove it.

    Examples
    --------
    >>> import memkit as mk
    >>> before = mk.from_table({"memory_id": ["a", "b"], "text": ["Пул на 10 соединений", "Чай"]}).memories
    >>> lost(before, mk.from_table({"memory_id": ["a", "b"], "text": ["Пул на 20 соединений", ""]}).memories)
    ['b']
    """
    old, new, pairs = known_of(before), known_of(after), list[tuple[int, int]]()
    ends, new_ends = before["expires_at"].to_pylist(), after["expires_at"].to_pylist()
    for place, other in matches(old, new).items():
        is_sooner = new_ends[place] is not None and (ends[other] is None or new_ends[place] < ends[other])
        if not is_sooner and _is_left(old[other], new[place]):
            pairs.append((place, other))
    lasting, kept = ({pair[side] for pair in pairs} for side in (0, 1))
    lines = Counter(_lines(row for place, row in enumerate(new) if place in lasting or new_ends[place] is None))
    lines.subtract(_lines(old[place] for place in kept))
    gone = [memory for place, memory in enumerate(old) if place not in kept and not _take(memory, lines)]
    return sorted(memory.memory_id for memory in gone)


def _is_left(old: Known, new: Known) -> bool:
    """Whether at least half of the words of a memory are in another, or all of one without words."""
    if old.said == new.said or not old.said:
        return True
    words, found = Counter(old.text.split()), Counter(new.text.split())
    return (words & found).total() >= ALIKE * words.total()


def _lines(memories: Iterable[Known]) -> list[str]:
    return [line for memory in memories for line in map(str.strip, memory.text.split("\n")) if line]


def _take(memory: Known, lines: Counter[str]) -> bool:
    """Take the lines of a memory out of `lines`; whether half of them were there."""
    wanted = Counter(_lines([memory]))
    found = Counter({line: min(count, lines[line]) for line, count in wanted.items() if lines[line] > 0})
    if not wanted or found.total() < ALIKE * wanted.total():
        return not wanted
    lines.subtract(found)
    return True
