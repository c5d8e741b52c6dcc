"""The memories that a change removes, computed from the files before and after as memkit reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from memkit.formats import reader
from memkit.formats.reader import Options, Reading
from memkit.past.identity import ALIKE, Known, known_of, matches


class Guard:
    """Counts the memories of a folder, and finds those that a change removes.

    Parameters
    ----------
    root : Path
        The folder.
    reading : Reading, optional
        The folder as it was read; None reads it on demand.
    """

    def __init__(self, root: Path, reading: Reading | None = None) -> None:
        self.root, self.reading = root, reading

    def lost(self, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> list[str]:
        """The ids of the memories that are removed when files change from `before` to `after`."""
        root, options = (self.reading.root, self.reading.options) if self.reading else (self.root, Options())
        return lost(*reader.memories_of(root, options, before, after))

    def memories(self) -> int:
        """The number of memories in the folder."""
        self.reading = self.reading or reader.read(self.root, Options())
        return int(self.reading.tables["memories"].num_rows)


def lost(before: pa.Table, after: pa.Table) -> list[str]:
    """The ids of the memories of which less than half is left, in their replacement or else line by line.

    Memories that now expire, or expire sooner, count as removed too: the next cleanup would remove them.

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
    """Whether at least half of the words of a memory are in another; without words, whether both are equal."""
    if old.said == new.said or not old.said:
        return True
    words, new_words = Counter(old.text.split()), Counter(new.text.split())
    return (words & new_words).total() >= ALIKE * words.total()


def _lines(memories: Iterable[Known]) -> list[str]:
    return [line for memory in memories for line in map(str.strip, memory.text.split("\n")) if line]


def _take_lines(memory: Known, lines: Counter[str]) -> bool:
    """Remove a memory's lines from `lines` if at least half of them are in it, and return whether they were."""
    wanted = Counter(_lines([memory]))
    shared = Counter({line: min(count, lines[line]) for line, count in wanted.items() if lines[line] > 0})
    if not wanted or shared.total() < ALIKE * wanted.total():
        return not wanted
    lines.subtract(shared)
    return True
