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
    old, new, matched = known_of(before), known_of(after), list[tuple[int, int]]()
    ends, new_ends = before["expires_at"].to_pylist(), after["expires_at"].to_pylist()
    for new_index, old_index in matches(old, new).items():
        is_sooner = new_ends[new_index] is not None and (
            ends[old_index] is None or new_ends[new_index] < ends[old_index]
        )
        if not is_sooner and _is_kept(old[old_index], new[new_index]):
            matched.append((new_index, old_index))
    kept_new, kept_old = ({pair[side] for pair in matched} for side in (0, 1))
    lines = Counter(
        _lines(row for new_index, row in enumerate(new) if new_index in kept_new or new_ends[new_index] is None)
    )
    lines.subtract(_lines(old[new_index] for new_index in kept_old))
    gone = [
        memory for new_index, memory in enumerate(old) if new_index not in kept_old and not _take_lines(memory, lines)
    ]
    return sorted(memory.memory_id for memory in gone)


def _is_kept(old: Known, new: Known) -> bool:
    """Whether at least half of the words of a memory are in another, or all of one without words."""
    if old.said == new.said or not old.said:
        return True
    words, new_words = Counter(old.text.split()), Counter(new.text.split())
    return (words & new_words).total() >= ALIKE * words.total()


def _lines(memories: Iterable[Known]) -> list[str]:
    return [line for memory in memories for line in map(str.strip, memory.text.split("\n")) if line]


def _take_lines(memory: Known, lines: Counter[str]) -> bool:
    """Take the lines of a memory out of `lines`; whether half of them were there."""
    wanted = Counter(_lines([memory]))
    shared = Counter({line: min(count, lines[line]) for line, count in wanted.items() if lines[line] > 0})
    if not wanted or shared.total() < ALIKE * wanted.total():
        return not wanted
    lines.subtract(shared)
    return True
