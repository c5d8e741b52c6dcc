"""What a change brings along beyond its own edits: the memories that it removes, counted from the files before and
after as memkit reads them, and the counters in ``meta.json`` beside fact files, which follow the facts.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from memkit.errors import ChangeRefusedError, count_of
from memkit.formats import reader
from memkit.formats.facts import COUNTED, parse_fact
from memkit.formats.reader import Options, Reading
from memkit.formats.syntax.places import Json
from memkit.tables.identity import ALIKE, Known, known_of, matches


class Removals:
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
    old, new, kept = known_of(before), known_of(after), dict[int, int]()
    ends, new_ends = before["expires_at"].to_pylist(), after["expires_at"].to_pylist()
    for new_row, row in matches(old, new).items():
        is_sooner = new_ends[new_row] is not None and (ends[row] is None or new_ends[new_row] < ends[row])
        if not is_sooner and _is_kept(old[row], new[new_row]):
            kept[row] = new_row
    replacements = set(kept.values())
    lines = Counter(_lines(one for row, one in enumerate(new) if row in replacements or new_ends[row] is None))
    lines.subtract(_lines(old[row] for row in kept))
    gone = [memory for row, memory in enumerate(old) if row not in kept and not _take_lines(memory, lines)]
    return sorted(memory.memory_id for memory in gone)


def _is_kept(old: Known, new: Known) -> bool:
    """Whether at least half of the words of a memory are in another; without words, whether both are equal."""
    if old.stripped == new.stripped or not old.stripped:
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


_COUNTERS = {f"{kind}.md": name for name, kind in COUNTED.items()}
ReadFile = Callable[[str], tuple[str | None, str | None]]


def counted(after: Mapping[str, str], read_file: ReadFile) -> Iterator[dict[str, Any]]:
    """The edits that correct the counters for the new contents `after`.

    A ``meta.json`` that is itself changed, is missing, or is not JSON is left alone; missing counters are not added.
    """
    for path, text in sorted(after.items()):
        folder, name = posixpath.split(path)
        meta = posixpath.join(folder, "meta.json")
        counter = _COUNTERS.get(name)
        if counter is None or meta in after:
            continue
        before, sha256 = read_file(meta)
        span = _counter_span(before, counter)
        facts = facts_in(text)
        if before is not None and span and before[slice(*span)] != str(facts):
            yield {
                "path": meta,
                "policy": "counters",
                "reason": f"{name} will have {count_of(facts, 'fact')}",
                "before": before[slice(*span)],
                "after": str(facts),
                "at": span[0],
                "sha256": sha256,
            }


def check_counters(after: Mapping[str, str], before: Mapping[str, str | None], read_file: ReadFile) -> None:
    """Raise where a changed counter in ``meta.json`` is not the number of facts."""
    for path, text in after.items():
        folder, name = posixpath.split(path)
        for counter_of, counter in _COUNTERS.items() if name == "meta.json" else ():
            new_value, old_value = _counter_text(text, counter), _counter_text(before.get(path), counter)
            if new_value is None or new_value == old_value:
                continue
            file = posixpath.join(folder, counter_of)
            facts = str(facts_in(after[file] if file in after else read_file(file)[0] or ""))
            if new_value != facts:
                raise ChangeRefusedError(
                    f"{path}: '{counter}' would be {new_value}, and the facts in {file} are {facts}."
                )


def _counter_text(meta: str | None, counter: str) -> str | None:
    span = _counter_span(meta, counter)
    return meta[slice(*span)] if meta and span else None


def _counter_span(meta: str | None, counter: str) -> tuple[int, int] | None:
    try:
        part = Json(meta).find([counter]) if meta else None
    except ChangeRefusedError:
        return None
    return (part.value, part.end) if part else None


def facts_in(text: str) -> int:
    """The number of fact lines in a text."""
    lines = text.removeprefix("\ufeff").split("\n")
    return sum(parse_fact(line.removesuffix("\r")) is not None for line in lines)
