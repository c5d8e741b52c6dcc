"""Matching of memories between two states of a folder: unchanged, edited, or moved to another file.

Ids and equal texts decide first, then names, then bodies that share at least half of their words; each memory is
matched once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

# By hand, 3 of 43 edits were matched wrongly with it.
ALIKE = 0.5
"""The share of common words from which on one body counts as an edit of the other."""
# It keeps the cost linear; an edit rarely moves a section farther.
_NEAR = 16
"""The largest distance, counted in unmatched memories of a file, at which two memories are compared."""
_SUFFIX = re.compile(r"~[0-9a-f]{8}(\.\d+)?$")
_WORD = re.compile(r"\w+")


@dataclass
class Known:
    """The columns of a memory that identify it in a state."""

    memory_id: str
    format: str
    path: str
    title: str
    text: str
    source_id: str | None = None
    user_id: str | None = None
    kind: str | None = None
    row: int = -1
    """Its version, for who keeps a history."""

    @property
    def stripped(self) -> str:
        """The text without blank lines at its end, which change with what is written below it."""
        return self.text.rstrip()

    @cached_property
    def body(self) -> str:
        """The text without the heading that it begins with."""
        first, _, rest = self.text.partition("\n")
        return (rest if first.lstrip().startswith("#") else self.text).strip()

    @cached_property
    def words(self) -> Counter[str]:
        """The words of the body with their counts."""
        return Counter(words_of(self.body))


def words_of(text: str) -> list[str]:
    """The runs of letters and digits of a text, in order.

    >>> words_of("Пул: 10 соединений")
    ['Пул', '10', 'соединений']
    """
    return _WORD.findall(text)


Places = dict[int, Known]
"""Memories by their position in a state."""
IDENTIFYING = ("memory_id", "format", "path", "title", "text", "source_id", "user_id", "kind")
"""The columns that a `Known` is made of, in its order."""


def known_of(memories: pa.Table) -> list[Known]:
    """The memories of a table, in its order."""
    columns = [memories[name].to_pylist() for name in IDENTIFYING]
    return [Known(id, format, path or "", *more) for id, format, path, *more in zip(*columns, strict=True)]


def matches(before: Sequence[Known], after: Sequence[Known]) -> dict[int, int]:
    """Maps the position in `after` to the position in `before` of each memory that is in both; cost is linear.

    >>> old = [Known("a#tea", "workspace", "a", "Чай", "# Чай\\nБез сахара, с лимоном.")]
    >>> new = [Known("a#green-tea", "workspace", "a", "Зелёный чай", "# Зелёный чай\\nБез сахара, с мятой.")]
    >>> matches(old, new)
    {0: 0}
    """
    matched: dict[int, int] = {}
    old, new = dict(enumerate(before)), dict(enumerate(after))
    for find_pairs in _ROUNDS:
        for position, old_position in find_pairs(old, new):
            if position in new and old_position in old:
                matched[position] = old_position
                # Each round sees only what those before it left, the surest first.
                del new[position], old[old_position]
    return matched


def _equal(key: Callable[[Known], Hashable], old: Places, new: Places) -> list[tuple[int, int]]:
    """Pairs with the same key, in order."""
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for place, memory in old.items():
        if value := key(memory):
            waiting[value].append(place)
    if not waiting:
        return []
    queues = ((place, waiting.get(key(memory) or "")) for place, memory in new.items())
    return [(place, queue.popleft()) for place, queue in queues if queue]


def _alike(old: Places, new: Places) -> list[tuple[int, int]]:
    """Pairs in one file whose bodies share at least half of their words, most similar first."""
    by_path: dict[str, list[int]] = defaultdict(list)
    for place, memory in old.items():
        by_path[memory.path].append(place)
    pairs, n_of_path = [], Counter[str]()
    for place, memory in new.items():
        position = n_of_path[memory.path]
        n_of_path[memory.path] += 1
        for other in by_path.get(memory.path, ())[max(0, position - _NEAR) : position + _NEAR]:
            share = _share(old[other].words, memory.words)
            if share >= ALIKE:
                pairs.append((-share, place, other))
    return [(place, other) for _, place, other in sorted(pairs)]


def _share(one: Counter[str], other: Counter[str]) -> float:
    """The number of common words divided by the average length (the Dice coefficient)."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


_ROUNDS = (
    partial(_equal, lambda memory: (memory.memory_id, memory.text)),
    partial(_equal, lambda memory: memory.source_id and (memory.format, memory.path, memory.source_id)),
    partial(_equal, lambda memory: (memory.path, memory.text)),
    partial(_equal, lambda memory: memory.memory_id),
    partial(_equal, lambda memory: (memory.path, _SUFFIX.sub("", memory.memory_id))),
    partial(_equal, lambda memory: memory.source_id and (memory.format, memory.user_id, memory.source_id)),
    _alike,
    partial(_equal, lambda memory: memory.body or None),
)
"""The rounds of matching: each finds pairs among the memories that earlier rounds did not match."""
