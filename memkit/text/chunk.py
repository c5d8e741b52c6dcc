"""Cut memories into chunks of whole lines, up to a number of tokens, with their line numbers in the file.

A chunk is either whole lines, or a piece of one line that is longer than a chunk. Lines end at ``\\n`` only. A code
fence that fits in a chunk is not split. Neighbouring chunks overlap by whole lines.

A heading alone is no chunk, as it would outrank chunks with more content: it is kept with the beginning of the line
below it. Blank lines alone are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.documents import cite
from memkit.errors import ParameterError
from memkit.fences import fences
from memkit.params import Estimator, estimator, param
from memkit.schemas import CHUNKS, IN_JSON, PARTS, kinds_where
from memkit.text.count import CHARS_PER_TOKEN, Counter, checked_counter, counter_param

_SOURCE = cite("workspace", "chunks")
_BARE = r"^(\s*#{1,6}([ \t][^\n]*)?(\n|$))+\s*$"
"""A text of heading lines only, by the rules of the workspace format."""

_SAYS_NOTHING = re.compile(r"[ ]{0,3}#{1,6}(?:[ \t].*)?|\s*")
"""A heading, or a blank line."""

Span = tuple[int, int]
"""First line and the one after the last, 0-based."""


@estimator
class Chunker(Estimator):
    """Cut memories into chunks.

    Examples
    --------
    >>> memories = pa.table({"memory_id": ["a", "b"], "text": ["Пул: 10", "one two\\nthree four\\nfive"]})
    >>> chunks = Chunker(chunk_tokens=5, overlap_tokens=1).transform(memories)
    >>> chunks.select(["chunk_id", "text", "line_start", "line_end"]).to_pylist()[1:]
    [{'chunk_id': 'b@0', 'text': 'one two\\nthree four', 'line_start': 1, 'line_end': 2}, \
{'chunk_id': 'b@1', 'text': 'five', 'line_start': 3, 'line_end': 3}]
    """

    learns = False

    chunk_tokens: int = param(400, low=1, unit="tokens", doc="Largest size of a chunk.", source=_SOURCE)
    overlap_tokens: int = param(
        80,
        low=0,
        unit="tokens",
        doc="Largest overlap of neighbouring chunks, in whole lines; a code fence counts as one line.",
        source=_SOURCE,
    )
    counter: Counter | None = counter_param()

    def fit(self, memories: pa.Table, y: object = None) -> Self:
        """Check the parameters and the columns; there is nothing to learn.

        Raises
        ------
        ParameterError
            As for `transform`.
        """
        self._check(memories)
        return self

    def transform(self, memories: pa.Table) -> pa.Table:
        """The chunks of `memories`, in their order; a memory with an empty text has one empty chunk.

        A workspace section that is only a heading has no chunk: its few words would outrank chunks with more content.
        The chunks of an entry that is split over several files end where a file ends, and have its path.

        Parameters
        ----------
        memories : pa.Table
            Columns memory_id and text; optionally path, kind and line_start.

        Returns
        -------
        pa.Table
            `memkit.schemas.CHUNKS`. Line numbers are those of the file for kinds whose text is lines of it
            (`Kind.verbatim`), else those of the memory's text.

        Raises
        ------
        ParameterError
            If a parameter is outside of its bounds, the overlap is not below the chunk size, or `counter` does not
            return a number of tokens.
        """
        self._check(memories)
        memories, owner = _by_part(_without_bare_headings(memories))
        texts = pc.fill_null(memories["text"].combine_chunks(), "")
        is_long = self._is_long(texts)
        rows = np.arange(len(texts))
        ordinals, pieces = np.zeros(len(texts), np.int64), texts
        starts, ends = np.ones(len(texts), np.int64), _column(pc.count_substring(texts, "\n")) + 1
        if is_long.any():
            rows, ordinals, pieces, starts, ends = self._cut_long(texts, is_long, ends)
        if owner is not None:  # ordinals continue over the parts of a split memory
            of_memory = owner[rows]
            ordinals = np.arange(len(rows)) - np.searchsorted(of_memory, of_memory)
        return _assemble(memories, rows, ordinals, pieces, starts, ends)

    def _check(self, memories: pa.Table) -> None:
        self.check_params()
        if not {"memory_id", "text"} <= set(getattr(memories, "column_names", ())):
            raise ParameterError(f"Chunker: expected a table with memory_id and text. Got {type(memories).__name__}.")
        if self.overlap_tokens >= self.chunk_tokens:
            raise ParameterError(
                f"Chunker: 'overlap_tokens' must be below 'chunk_tokens' ({self.chunk_tokens}). "
                f"Got {self.overlap_tokens}."
            )

    def _is_long(self, texts: pa.Array) -> np.ndarray:
        if self.counter is None:
            return _column(pc.greater(pc.utf8_length(texts), self.chunk_tokens * CHARS_PER_TOKEN))
        count = checked_counter(self.counter, "Chunker")
        return np.fromiter((count(text) > self.chunk_tokens for text in texts.to_pylist()), bool, len(texts))

    def _cut_long(self, texts: pa.Array, is_long: np.ndarray, ends: np.ndarray) -> tuple[Any, ...]:
        """The five columns with each long text's row replaced by its chunks."""
        cutter = _Cutter(self.chunk_tokens, self.overlap_tokens, self.counter)
        long_rows, short_rows = np.flatnonzero(is_long), np.flatnonzero(~is_long)
        cut = [cutter.cut(text) for text in texts.take(pa.array(long_rows)).to_pylist()]
        counts = np.array([len(pieces) for pieces in cut])
        flat = [piece for pieces in cut for piece in pieces]
        rows = np.concatenate([short_rows, np.repeat(long_rows, counts)])
        order = np.argsort(rows, kind="stable")
        zeros, ones = np.zeros(len(short_rows), np.int64), np.ones(len(short_rows), np.int64)
        ordinals = np.concatenate([zeros, *map(np.arange, counts)])
        pieces = pa.concat_arrays([texts.take(pa.array(short_rows)), pa.array([p[0] for p in flat], texts.type)])
        starts = np.concatenate([ones, np.array([p[1] for p in flat], np.int64)])
        ends = np.concatenate([ends[short_rows], np.array([p[2] for p in flat], np.int64)])
        return rows[order], ordinals[order], pieces.take(pa.array(order)), starts[order], ends[order]


def _without_bare_headings(memories: pa.Table) -> pa.Table:
    if "format" not in memories.column_names:
        return memories
    is_bare = pc.and_(pc.equal(memories["format"], "workspace"), pc.match_substring_regex(memories["text"], _BARE))
    return memories.filter(pc.invert(pc.fill_null(is_bare, False)))


def _by_part(memories: pa.Table) -> tuple[pa.Table, np.ndarray | None]:
    """`memories` with one row for each part of a split one, so that no chunk spans two files.

    Also returns the original row of each row; None if no memory is split.
    """
    if not {"format", "path", "line_start", "extra"} <= set(memories.column_names):
        return memories, None
    of_tree = pc.and_(pc.equal(memories["format"], "index_tree"), pc.is_null(memories["line_start"]))
    split = pc.and_(of_tree, pc.match_substring(memories["extra"], f'"{PARTS}"'))
    places = np.flatnonzero(_column(pc.fill_null(split, False)))
    pieces: list[pa.Table] = []
    owner: list[int] = []
    done = 0
    for at in places.tolist():
        parts = _parts_of(memories.slice(at, 1))
        pieces += [memories.slice(done, at - done), parts]
        owner += [*range(done, at), *[at] * parts.num_rows]
        done = at + 1
    if not pieces:
        return memories, None
    rest = range(done, memories.num_rows)
    return pa.concat_tables([*pieces, memories.slice(done)]), np.array([*owner, *rest])


def _parts_of(row: pa.Table) -> pa.Table:
    """A split memory as one row for each part with text, with the part's own path and lines."""
    text, extra = (row[name][0].as_py() for name in ("text", "extra"))
    try:
        parts = json.loads(extra)[PARTS]
        ends = list(accumulate(part["chars"] for part in parts))
        starts = zip(parts, [0, *ends[:-1]], ends, strict=True)
        found = [(str(part["path"]), int(part["line_start"]), text[at:end]) for part, at, end in starts if end > at]
    except (ValueError, TypeError, LookupError):
        return row  # somebody else's field of that name
    if not found or "".join(part for *_, part in found) != text:
        return row
    table = row.take(pa.array([0] * len(found)))
    for name, values in zip(("path", "line_start", "text"), zip(*found, strict=True), strict=True):
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    return table


def _column(values: pa.Array) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no types


def _assemble(
    memories: pa.Table, rows: np.ndarray, ordinals: np.ndarray, pieces: pa.Array, starts: np.ndarray, ends: np.ndarray
) -> pa.Table:
    taken = memories.select(["memory_id"]).take(pa.array(rows))["memory_id"].combine_chunks().cast(pa.string())
    paths = (
        memories["path"].take(pa.array(rows)) if "path" in memories.column_names else pa.nulls(len(rows), pa.string())
    )
    offsets = lines_above(memories)[rows]
    columns = {
        "chunk_id": pc.binary_join_element_wise(taken, pa.array(ordinals).cast(pa.string()), "@"),
        "memory_id": taken,
        "ordinal": ordinals,
        "text": pieces,
        "path": paths,
        "line_start": starts + offsets,
        "line_end": ends + offsets,
    }
    return pa.table({name: columns[name] for name in CHUNKS.names}).cast(CHUNKS)


def lines_above(memories: pa.Table) -> np.ndarray:
    """The number of lines in the file before the text; 0 if the text is not a range of lines of its file."""
    if not {"line_start", "kind"} <= set(memories.column_names):
        return np.zeros(memories.num_rows, np.int64)
    kinds = memories["kind"].combine_chunks().cast(pa.string())
    is_file = _column(pc.is_in(kinds, value_set=pa.array(kinds_where(verbatim=True))))
    if "path" in memories.column_names:  # a text in a JSON string has lines of its own
        in_json = pc.match_substring_regex(memories["path"], IN_JSON)
        is_file &= ~_column(pc.fill_null(in_json, False))
    first = _column(pc.fill_null(memories["line_start"].combine_chunks().cast(pa.int64()), 1))
    return np.where(is_file, first - 1, 0)


class _Cutter:
    """Cuts one long text; sizes are in characters, or in tokens if there is a counter."""

    def __init__(self, chunk_tokens: int, overlap_tokens: int, counter: Counter | None) -> None:
        unit = CHARS_PER_TOKEN if counter is None else 1
        self.size = len if counter is None else checked_counter(counter, "Chunker")
        self.limit, self.overlap = chunk_tokens * unit, overlap_tokens * unit
        # A chunk does not end with a newline; its size is subtracted for characters only, token counts do not add up.
        self.spare = 1 if counter is None else 0

    def cut(self, text: str) -> list[tuple[str, int, int]]:
        """Chunks as (text, first line, last line), lines 1-based and inclusive."""
        lines = text.split("\n")
        sizes = [self.size(line + "\n") for line in lines]
        pieces: list[tuple[str, int, int]] = []
        says = [_SAYS_NOTHING.fullmatch(line) is None for line in lines]
        for first, end in self._pack(self._blocks(text, sizes), sizes, says):
            whole = "\n".join(lines[first:end])
            if sum(sizes[first:end]) - self.spare <= self.limit:
                pieces += [(whole, first + 1, end)] * bool(whole.strip())
                continue
            head = "".join(f"{line}\n" for line in lines[first : end - 1])
            for piece in self._cut_line(lines[end - 1], head):
                pieces.append((head + piece, first + 1, end))
                head, first = "", end - 1
        return pieces or [(lines[0], 1, 1)]

    def _blocks(self, text: str, sizes: list[int]) -> list[Span]:
        """Spans that are not split: a line, or a closed code fence that fits in a chunk."""
        blocks: list[Span] = []
        line = 0
        for fence in fences(text).closed:
            first, end = fence.start - 1, fence.stop - 1
            if sum(sizes[first:end]) - self.spare <= self.limit:
                blocks += [(other, other + 1) for other in range(line, first)]
                blocks.append((first, end))
                line = end
        return blocks + [(other, other + 1) for other in range(line, len(sizes))]

    def _pack(self, blocks: list[Span], sizes: list[int], says: list[bool]) -> Iterator[Span]:
        """Spans of as many blocks as fit; a line too long for a chunk stands alone, or with the headings above it."""
        weights = [sum(sizes[a:b]) for a, b in blocks]
        room = self.limit + self.spare
        first, used = 0, 0
        for here, weight in enumerate(weights):
            if here > first and used + weight > room:
                start, end = blocks[first][0], blocks[here][1]
                if used < room / 2 and end - blocks[here][0] == 1 and says[end - 1] and not any(says[start : end - 1]):
                    yield start, end
                    first, used = here + 1, 0
                    continue
                yield start, blocks[here - 1][1]
                first, used = self._overlap_from(weights, first, here, room - weight)
            used += weight
        if first < len(blocks):
            yield blocks[first][0], blocks[-1][1]

    def _overlap_from(self, weights: list[int], first: int, here: int, room: int) -> tuple[int, int]:
        """The first block of the next chunk, with the allowed overlap before block `here`, and the overlap's weight."""
        start, used = here, 0
        while start - 1 > first and used + weights[start - 1] <= min(self.overlap, room):
            start -= 1
            used += weights[start]
        return start, used

    def _cut_line(self, line: str, head: str = "") -> Iterator[str]:
        """Cut `line` into pieces, after a blank if there is one; the first piece leaves room for `head`."""
        start, room = 0, self.limit - self.size(head)
        while start < len(line):
            end = start + self._prefix(line, start, room)
            if end < len(line):
                blank = max(line.rfind(" ", start, end), line.rfind("\t", start, end))
                end = blank + 1 if blank > start else end
            yield line[start:end]
            start, room = end, self.limit

    def _prefix(self, line: str, start: int, room: int) -> int:
        """How many characters from `start` fit in `room`, at least one."""
        rest = len(line) - start
        if self.size is len:
            return min(room, rest)
        low, high = 1, min(rest, room * CHARS_PER_TOKEN)
        while high < rest and self.size(line[start : start + high]) <= room:
            low, high = high, min(rest, high * 2)
        while low < high:
            middle = (low + high + 1) // 2
            if self.size(line[start : start + middle]) <= room:
                low = middle
            else:
                high = middle - 1
        return low
