"""Cut memories into chunks of whole thoughts, up to a number of tokens, with their line numbers in the file.

Items of lists, lines of logs and short paragraphs gather up to the size of a chunk. A line of prose, which most editors
and agents write a paragraph as, is cut only where it is longer than `prose_tokens`, at the ends of sentences; text that
is wrapped gathers by its lines. A code fence that fits in a chunk is not split.
Neighbouring chunks overlap by whole lines. Lines end at ``\\n`` only.

A heading alone is no chunk, as it would outrank chunks with more content: it goes with what is below it, and so does a
line that introduces it («Шаги:»). What is too short to say anything goes with the chunk before it, and what has neither
letters nor digits is left out. A token is four characters, unless the user supplies a counter.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.fences import fences
from memkit.base.params import Estimator, estimator, param
from memkit.documents import cite
from memkit.errors import ParameterError
from memkit.schemas import CHUNKS, IN_JSON, PARTS, kinds_where, with_column
from memkit.text.sentences import borders, says_something

CHARS_PER_TOKEN = 4
_MOST = 2**53  # more than any text has, and still exact as a float

Counter = Callable[[str], int]


def counter_param() -> Any:
    """The parameter ``counter`` of estimators that count tokens."""
    doc = "Counts the tokens of a text; None: 4 characters are one token."
    return param(None, kind="callable", nullable=True, unit="str -> int", doc=doc)


def count_tokens(text: str) -> int:
    """The number of tokens by the default rule.

    >>> count_tokens("память")
    2
    """
    return -(-len(text) // CHARS_PER_TOKEN)


def checked_counter(counter: Counter, owner: str) -> Counter:
    """Wrap `counter` to raise if its result is not a number of tokens; a fraction is rounded up.

    Raises
    ------
    ParameterError
        If `counter` fails or returns anything but a number from 0 on; the message has the owner, the result and the
        text's length.

    Examples
    --------
    >>> checked_counter(lambda text: len(text) / 4, "Chunker")("memory")
    2
    >>> checked_counter(lambda text: -1, "Chunker")("memory")
    Traceback (most recent call last):
    memkit.errors.ParameterError: Chunker: 'counter' must return a number of tokens, 0 or more. Got -1 for 6 characters.
    """

    def count(text: str) -> int:
        try:
            answer = counter(text)
        except Exception as error:  # the user's own function may fail in any way
            raise _wrong(owner, f"{type(error).__name__}: {error}", text) from error
        if not isinstance(answer, Real) or isinstance(answer, bool) or not 0 <= answer <= _MOST:
            raise _wrong(owner, f"{answer!r:.80}", text)
        return math.ceil(answer)

    return count


def _wrong(owner: str, got: str, text: str) -> ParameterError:
    return ParameterError(
        f"{owner}: 'counter' must return a number of tokens, 0 or more. Got {got} for {len(text)} characters."
    )


_SOURCE = cite("workspace", "chunks")
PROSE_DOC = "Chunk size for one long line, such as a paragraph of prose; it acts only above chunk_tokens."
_BARE = r"^(?:[ \t]*#{1,6}(?:[ \t][^\n]*)?(?:\n|$)|[^\p{L}\p{N}\n]*(?:\n|$))+$"
"""A text of headings, by the rules of the workspace format, and of lines without letters or digits."""
_ALNUM = r"[\p{L}\p{N}]"
_USUAL = "[0-9A-Za-zА-Яа-я]"
"""Letters and digits that nearly every text has; Arrow compiles a pattern at each call, this one in a tenth."""
_LETTER = re.compile(r"[^\W_]")
# A line of up to 60 characters that ends with a colon is about what is below; a guess.
_INTRODUCES = re.compile(r"[ ]{0,3}#{1,6}(?:[ \t].*)?|\s*|.{0,60}:[ \t]*")
"""A heading, a blank line, or a short one that ends in a colon."""
_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)+")
# A guess: three or four words; with fewer a chunk is found by chance.
_FEWEST = 20
"""Letters and digits of the shortest chunk, unless a quarter of a chunk or the memory has fewer."""

Span = tuple[int, int]
"""The first and the one after the last, 0-based: of lines, or of characters."""


@estimator
class Chunker(Estimator):
    """Cut memories into chunks.

    Examples
    --------
    >>> texts = ["Пул: 10", "one two\\nthree four\\nfive six seven eight nine"]
    >>> memories = pa.table({"memory_id": ["a", "b"], "text": texts})
    >>> chunks = Chunker(chunk_tokens=5, overlap_tokens=1).transform(memories)
    >>> chunks.select(["chunk_id", "text", "line_start", "line_end"]).to_pylist()[1:]
    [{'chunk_id': 'b@0', 'text': 'one two\\nthree four', 'line_start': 1, 'line_end': 2}, \
{'chunk_id': 'b@1', 'text': 'five six seven eight nine', 'line_start': 3, 'line_end': 3}]
    """

    learns = False

    chunk_tokens: int = param(
        400, low=1, unit="tokens", doc="Chunk size: lines are joined into one chunk up to this size.", source=_SOURCE
    )
    overlap_tokens: int = param(
        80,
        low=0,
        unit="tokens",
        doc="Largest overlap of neighbouring chunks, in whole lines; a code fence counts as one line.",
        source=_SOURCE,
    )
    # As in an index, where it was measured.
    prose_tokens: int = param(400, low=1, unit="tokens", doc=PROSE_DOC)
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

        A workspace section that is only a heading has no chunk, unless the heading says something ("Sent: 182 emails"):
        its few words would outrank chunks with more content. Nor has a text without letters and digits (``---``) that
        has no title of its own, nor a page of which there is a title alone. The chunks of an entry that is split over
        several files end where a file ends, and have its path.

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
        memories, owner = _by_part(memories.filter(pa.array(says(memories))))
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

    def check_params(self, **overrides: Any) -> dict[str, Any]:
        """As of other estimators; the overlap has to be below the chunk size, too."""
        values = super().check_params(**overrides)
        chunk, overlap = values["chunk_tokens"], values["overlap_tokens"]
        if overlap >= chunk:
            raise ParameterError(f"Chunker: 'overlap_tokens' must be below 'chunk_tokens' ({chunk}). Got {overlap}.")
        return values

    def _check(self, memories: pa.Table) -> None:
        self.check_params()
        if not {"memory_id", "text"} <= set(getattr(memories, "column_names", ())):
            raise ParameterError(f"Chunker: expected a table with memory_id and text. Got {type(memories).__name__}.")

    def _is_long(self, texts: pa.Array) -> np.ndarray:
        if self.counter is None:
            return _column(pc.greater(pc.utf8_length(texts), self.chunk_tokens * CHARS_PER_TOKEN))
        count = checked_counter(self.counter, "Chunker")
        return np.fromiter((count(text) > self.chunk_tokens for text in texts.to_pylist()), bool, len(texts))

    def _cut_long(self, texts: pa.Array, is_long: np.ndarray, ends: np.ndarray) -> tuple[Any, ...]:
        """The five columns with each long text's row replaced by its chunks."""
        # Only the long texts are cut in Python: most memories are one chunk, and stay in Arrow's arrays.
        cutter = _Cutter(self.chunk_tokens, self.overlap_tokens, self.prose_tokens, self.counter)
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


def says(memories: pa.Table) -> np.ndarray:
    """Which memories have chunks: all but workspace sections of bare headings, and untitled texts of signs alone.

    Nor has a page whose front matter is a title and no more.
    """
    texts = pc.fill_null(memories["text"], "")
    is_blank = _column(pc.equal(pc.utf8_trim_whitespace(texts), ""))
    is_silent: np.ndarray = ~is_blank & ~has_alnum(texts)
    if "title" in memories.column_names and is_silent.any():
        is_silent &= ~has_alnum(pc.fill_null(memories["title"], ""))
    if "format" in memories.column_names:
        of_workspace = _column(pc.fill_null(pc.equal(memories["format"], "workspace"), False))
        rows = np.flatnonzero(of_workspace & ~is_blank)
        if len(rows):
            rows = rows[_column(pc.match_substring_regex(texts.take(pa.array(rows)), _BARE))]
        is_silent[rows] = [not says_something(text) for text in texts.take(pa.array(rows)).to_pylist()]
    if "kind" in memories.column_names and is_blank.any():
        is_silent |= is_blank & _column(pc.fill_null(pc.equal(memories["kind"], "head"), False))
    return ~is_silent


def without_text(memories: pa.Table) -> np.ndarray:
    """Which memories say nothing besides headings; nothing but signs, as ``…``, is a text without a word.

    >>> texts = ["## Итоги\\n", "## Итоги\\n\\nПул вырос", "…", " "]
    >>> without_text(pa.table({"text": texts, "format": ["workspace"] * 4})).tolist()
    [True, False, False, True]
    """
    texts = pc.fill_null(memories["text"], "")
    is_blank: np.ndarray = _column(pc.equal(pc.utf8_trim_whitespace(texts), ""))
    silent: np.ndarray = is_blank | (~says(memories) & has_alnum(texts))
    return silent


def has_alnum(texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Whether each text has a letter or a digit, without which it says nothing.

    >>> has_alnum(pa.array(["чай", "7", "茶", "---", ""])).tolist()
    [True, True, True, False, False]
    """
    is_usual: np.ndarray = _column(pc.match_substring_regex(texts, _USUAL))
    return is_usual if is_usual.all() else _column(pc.match_substring_regex(texts, _ALNUM))


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
    for row in places.tolist():
        parts = _parts_of(memories.slice(row, 1))
        pieces += [memories.slice(done, row - done), parts]
        owner += [*range(done, row), *[row] * parts.num_rows]
        done = row + 1
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
        texts = [
            (str(part["path"]), int(part["line_start"]), text[start:end]) for part, start, end in starts if end > start
        ]
    except (ValueError, TypeError, LookupError):
        return row  # somebody else's field of that name
    if not texts or "".join(part for *_, part in texts) != text:
        return row
    table = row.take(pa.array([0] * len(texts)))
    for name, values in zip(("path", "line_start", "text"), zip(*texts, strict=True), strict=True):
        table = with_column(table, name, values)
    return table


def _column(values: pa.Array) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no types


def _assemble(
    memories: pa.Table, rows: np.ndarray, ordinals: np.ndarray, pieces: pa.Array, starts: np.ndarray, ends: np.ndarray
) -> pa.Table:
    memory_ids = memories.select(["memory_id"]).take(pa.array(rows))["memory_id"].combine_chunks().cast(pa.string())
    paths = (
        memories["path"].take(pa.array(rows)) if "path" in memories.column_names else pa.nulls(len(rows), pa.string())
    )
    offsets = lines_above(memories)[rows]
    columns = {
        "chunk_id": pc.binary_join_element_wise(memory_ids, pa.array(ordinals).cast(pa.string()), "@"),
        "memory_id": memory_ids,
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

    def __init__(self, chunk_tokens: int, overlap_tokens: int, prose_tokens: int, counter: Counter | None) -> None:
        unit = CHARS_PER_TOKEN if counter is None else 1
        self.size = len if counter is None else checked_counter(counter, "Chunker")
        self.limit, self.overlap = chunk_tokens * unit, overlap_tokens * unit
        self.prose = max(self.limit, prose_tokens * unit)
        # A chunk does not end with a newline; its size is subtracted for characters only, token counts do not add up.
        self.spare = 1 if counter is None else 0
        # Counted no further than needed: listing all letters of each paragraph took a quarter of a fit.
        self.enough = re.compile(rf"(?:[\W_]*[^\W_]){{{min(_FEWEST, self.limit // 4)}}}")

    def cut(self, text: str) -> list[tuple[str, int, int]]:
        """Chunks as (text, first line, last line), lines 1-based and inclusive."""
        lines = text.split("\n")
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        spans: list[Span] = []
        for first, end, is_whole in self._pack(lines, text):
            begins, ends = starts[first], starts[end] - 1
            spans += [(begins, ends)] if is_whole else self._sentences(text, begins, ends)
        return [
            (text[start:end], bisect_right(starts, start), bisect_right(starts, max(start, end - 1)))
            for start, end in self._whole_thoughts(text, spans) or [(0, len(lines[0]))]
        ]

    def _blocks(self, text: str, sizes: list[int]) -> list[Span]:
        """Spans of lines that are not split: a line, or a closed code fence that fits in a chunk."""
        blocks: list[Span] = []
        line = 0
        for fence in fences(text).closed:
            first, end = fence.start - 1, fence.stop - 1
            if sum(sizes[first:end]) - self.spare <= self.limit:
                blocks += [(other, other + 1) for other in range(line, first)]
                blocks.append((first, end))
                line = end
        return blocks + [(other, other + 1) for other in range(line, len(sizes))]

    def _pack(self, lines: list[str], text: str) -> Iterator[tuple[int, int, bool]]:
        """Spans of lines, of as many blocks as fit; whether the span is no paragraph that is too long to be a chunk."""
        sizes = [self.size(line + "\n") for line in lines]
        blocks = self._blocks(text, sizes)
        introduces = [end - start == 1 and _INTRODUCES.fullmatch(lines[start]) is not None for start, end in blocks]
        weights = [sum(sizes[start:end]) for start, end in blocks]
        room = self.limit + self.spare
        first, used = 0, 0
        last = 0  # after the last block that introduces nothing: a heading goes with what is below it
        for block, weight in enumerate(weights):
            if last > first and used + weight > room:
                yield blocks[first][0], blocks[last - 1][1], sum(weights[first:last]) <= room
                first, used = (
                    self._overlap_from(weights, first, block, room - weight)
                    if last == block
                    else (last, sum(weights[last:block]))
                )
            used += weight
            if not introduces[block]:
                last = block + 1
        if first < len(blocks):
            yield blocks[first][0], blocks[-1][1], used <= room

    def _overlap_from(self, weights: list[int], first: int, block: int, room: int) -> tuple[int, int]:
        """The first block of the next chunk, with the allowed overlap before `block`, and the overlap's weight."""
        start, used = block, 0
        while start - 1 > first and used + weights[start - 1] <= min(self.overlap, room):
            start -= 1
            used += weights[start]
        return start, used

    def _sentences(self, text: str, start: int, end: int) -> Iterator[Span]:
        """A paragraph, with the headings above it, in as few pieces of about one size as fit, that end as sentences."""
        total = self.size(text[start:end])
        if total <= self.prose:
            yield start, end
            return
        fair = total / -(-total // self.prose)
        begins, used = start, 0
        for piece, following in pairwise([*self._pieces(text, start, end), end]):
            size = self.size(text[piece:following])
            # Cut at the border nearest to the fair share: a last piece of what is left over would be too short to be
            # found.
            if used and (used + size > self.prose or used + size / 2 > fair):
                yield begins, piece
                begins, used = piece, 0
            used += size
        yield begins, end

    def _pieces(self, text: str, start: int, end: int) -> Iterator[int]:
        """Where the sentences begin; one too long for a chunk is cut after a blank if there is one."""
        places = [start + place for place in borders(text[start:end])]
        for begins, ends in pairwise([*places, end]):
            is_long = self.size(text[begins:ends]) > self.prose
            while is_long and (cut := self._prefix_end(text, begins, ends)) < ends:
                yield begins
                blank = max(text.rfind(" ", begins, cut), text.rfind("\t", begins, cut), text.rfind("\n", begins, cut))
                begins = blank + 1 if blank > begins else cut
            yield begins

    def _prefix_end(self, text: str, start: int, end: int) -> int:
        """Where what fits in a chunk from `start` on ends: after one character at least, at `end` at most."""
        room = self.prose
        if self.size is len:
            return min(start + room, end)
        low, high = start + 1, min(end, start + room * CHARS_PER_TOKEN)
        # Doubled, then halved: a counter may be slow, and takes a text of any length to be a few tokens.
        while high < end and self.size(text[start:high]) <= room:
            low, high = high, min(end, 2 * high - start)
        while low < high:
            middle = (low + high + 1) // 2
            if self.size(text[start:middle]) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _whole_thoughts(self, text: str, spans: list[Span]) -> list[Span]:
        """`spans` without those that say nothing alone: they go with the one before, the first with the next."""
        whole: list[Span] = []
        done, held = 0, -1
        for start, end in spans:
            new = text[max(start, done) : end]
            if held >= 0:
                whole.append((held, end))
                held = -1
            # A round bound: a text of short items alone would grow into one chunk of any size.
            elif self._is_tail(new) and not (whole and end - whole[-1][0] > 2 * self.prose):
                if whole:
                    whole[-1] = (whole[-1][0], end)
                else:
                    held = start
            elif _LETTER.search(new):
                whole.append((start, end))
            done = end
        return [_without_blank_lines(text, *span) for span in whole + ([(held, done)] if held >= 0 else [])]

    def _is_tail(self, text: str) -> bool:
        """Whether `text` is too short to be a chunk."""
        content = text.strip()
        # A quarter of a chunk, with which the five sets of long texts were measured.
        return self.size(content) * 4 < self.limit or self.enough.match(content) is None


def _without_blank_lines(text: str, start: int, end: int) -> Span:
    """The span without blank lines at its ends."""
    leading = _BLANK_LINES.match(text, start, end)
    start = leading.end() if leading else start
    last = start + len(text[start:end].rstrip())
    newline = text.find("\n", last, end)
    return start, newline if newline >= 0 else end
