"""What an index holds of its memories: chunks, which are cut as `Index` says, with the texts of them that the arms
search, and `Rows`, the columns that ranking reads, by chunk and by memory.

A refit reuses those of memories that did not change, and their chunks, so that only the others are read. Rows are
sorted by id before and after, so unchanged rows keep their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import literal, rows_of
from memkit.base.parallel import bar
from memkit.base.params import Estimator, estimator, param
from memkit.index.ann import CENTRES
from memkit.index.dense import ANN
from memkit.schemas import ASIDE, Ints, Mask, present, with_column, with_ends
from memkit.search.state import COUNTED
from memkit.tables.age import decaying, expired, later
from memkit.tables.owners import Owners
from memkit.text.analyse import ANALYSERS, SEARCHABLE, columns_read, may_have_text, searchable_sql
from memkit.text.boilerplate import PATTERNS, evidence, wrapping
from memkit.text.chunk import PROSE_DOC, Chunker, has_alnum, lines_above, says

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex

LEXICAL = ("bm25", "char")
_fitted = partial(param, refit=True)
ENCODER_DOC = "The embedding model: a name such as 'use' or 'e5', or what `as_encoder` takes; None: no vectors."


@estimator
class Index(Estimator):
    """What `Retriever.fit` makes of a corpus: how texts are cut into chunks, read as terms, encoded and indexed.

    All parameters act at fit. A Retriever takes them as one, ``Retriever(index=Index(chunk_tokens=400))``; in grids,
    profiles and on the command line they are ``index__chunk_tokens`` and so on.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None, index=Index(chunk_tokens=3, overlap_tokens=0))
    >>> search.fit(mk.from_table({"text": ["пул соединений\\nвырос до десяти"]})).chunks_.num_rows
    2
    >>> search.set_params(index__chunk_tokens=100).index.overlap_tokens
    0
    """

    learns = False

    encoder: Any = _fitted("use", kind="object", doc=ENCODER_DOC)
    analyzer: str = _fitted("auto", choices=ANALYSERS, doc="How text becomes terms: tokenising and stemming.")
    lexical: str = _fitted(
        "bm25",
        choices=LEXICAL,
        doc="How the arm of words scores: by BM25, or by TF-IDF over stems and character n-grams ('char').",
    )
    # On labelled questions 200 tokens and no overlap answer practically the same (tests/benchmarks/RESULTS.md).
    chunk_tokens: int = _fitted(
        100, low=1, unit="tokens", doc="Chunk size: lines are joined into one chunk up to this size."
    )
    # A fifth of a chunk, as the document's 80 of 400; without any nDCG@10 of 18 sets is the same.
    overlap_tokens: int = _fitted(20, low=0, unit="tokens", doc="Overlap of neighbouring chunks.")
    # A paragraph in one piece: nDCG@10 of five labelled sets of long texts rose by .002 to .022.
    prose_tokens: int = _fitted(400, low=1, unit="tokens", doc=PROSE_DOC)
    searched: Sequence[str] = _fitted(
        None,
        stands_for=SEARCHABLE,
        choices=SEARCHABLE,
        low=1,
        doc="Columns of a memory whose text is searched; None: all of them.",
    )
    boilerplate: Sequence[str] = _fitted(
        None,
        stands_for=PATTERNS,
        doc="Regular expressions (RE2) of boilerplate. A match is shown in hits but not searched, except for its first"
        " group if that is named kept. None: those of `memkit.text.boilerplate`, which match what chat programs write"
        " around messages, and the targets of links; (): all text is searched.",
    )
    context_column: str | None = _fitted(
        "auto",
        kind="str",
        nullable=True,
        doc="Column that names a user's conversations: a turn is also found by the words of the turns around it, which"
        " count less. 'auto': the column session, conversation or thread of a table, if there is one. None: off. It is"
        " always off in buckets (shards) and engines.",
    )
    ann: str = _fitted(
        "auto",
        choices=ANN,
        doc="Nearest-neighbour search: exact, or approximate with HNSW or IVF; auto: exact in small corpora.",
    )
    centre: str = _fitted(
        "none",
        choices=CENTRES,
        doc="Mean-centering: subtract the mean vector of the corpus, or of each language's texts.",
    )
    engine: Any = _fitted(
        "local",
        kind="object",
        doc="Backend that finds candidates: 'local', 'milvus', 'milvus:URI', or an object with put, candidates and"
        " drop.",
    )


_CONTEXT = ("date", "heading_path", "description", "aliases", "front_matter")
_COLUMNS = ("heading_path", "created_at", "updated_at", "title", "tags", "description", "aliases", "layout", "extra")
_AT_ONCE = 8192
"""Memories that are cut together: what is made on the way takes several times the memory of their texts."""
# A round bound: beside each chunk, a title of a megabyte would take the square of its length.
_LONG = 4096
"""Bytes of a title, of tags or of another column above which it is searched with a memory's first chunk only."""


def make_chunks(memories: pa.Table, settings: Index) -> pa.Table:
    """The chunks of `memories`, with columns ``searched`` (the text) and ``own`` (without date and headings).

    Both are without boilerplate; ``littered`` says whether the memory has any that snippets leave out, too. A chunk of
    boilerplate alone is left out, where its memory has others.
    """
    starts = range(0, max(1, memories.num_rows), _AT_ONCE)
    shown = bar("cutting texts", starts, silent=len(starts) == 1, leave=False)
    return pa.concat_tables(_chunks_of(memories.slice(start, _AT_ONCE), settings) for start in shown)


def _chunks_of(memories: pa.Table, settings: Index) -> pa.Table:
    """As `make_chunks` for some memories."""
    chunker = Chunker(
        chunk_tokens=settings.chunk_tokens,
        overlap_tokens=settings.overlap_tokens,
        prose_tokens=settings.prose_tokens,
    )
    stripped = with_column(memories, "text", evidence(memories["text"], settings.boilerplate))
    chunks = chunker.transform(memories.filter(pa.array(says(stripped))))
    of_memory = places(chunks["memory_id"], memories["memory_id"])
    texts = _evidence_of_chunks(chunks["text"], memories["text"], stripped["text"], of_memory, settings.boilerplate)
    littered = pc.fill_null(pc.not_equal(memories["text"], stripped["text"]), False).to_numpy()
    wrapped = pc.match_substring_regex(memories["text"].filter(pa.array(littered)), wrapping(settings.boilerplate))
    littered[littered] = wrapped.to_numpy()
    chunks = chunks.append_column("evidence", texts).append_column("littered", pa.array(littered[of_memory]))
    if not texts.equals(chunks["text"]):
        is_mere = has_alnum(chunks["text"]) & ~has_alnum(texts)
        has_others = np.bincount(of_memory[~is_mere], minlength=len(memories) + 1)[of_memory] > 0
        is_first = np.diff(of_memory, prepend=-1) != 0
        chunks = chunks.filter(pa.array(~is_mere | (is_first & ~has_others)))
    without_context = [name for name in settings.searched if name not in _CONTEXT] or settings.searched
    columns = {"searched": settings.searched, "own": without_context}
    return searched_texts(memories, chunks, columns, chunks["evidence"]).drop_columns("evidence")


def _evidence_of_chunks(
    chunks: pa.ChunkedArray,
    memories: pa.ChunkedArray,
    memory_evidence: pa.ChunkedArray,
    of_memory: Ints,
    patterns: Sequence[str],
) -> pa.ChunkedArray:
    """The `evidence` of texts of `chunks`: `memory_evidence` where a chunk is all of a memory."""
    # Lengths first: a memory's text next to each of its chunks would take the square of the text's length.
    size, size_whole = (pc.fill_null(pc.binary_length(texts), -1).to_numpy() for texts in (chunks, memories))
    is_whole = size == size_whole[of_memory]
    alike = np.flatnonzero(is_whole)
    equal = pc.equal(take_rows(memories, of_memory[alike]), take_rows(chunks, alike))
    is_whole[alike] = pc.fill_null(equal, False).to_numpy()
    whole, partial = np.flatnonzero(is_whole), np.flatnonzero(~is_whole)
    parts = take_rows(memory_evidence, of_memory[whole]), evidence(take_rows(chunks, partial), patterns)
    joined = pa.chunked_array([piece for part in parts for piece in part.chunks], chunks.type)
    return take_rows(joined, np.argsort(np.concatenate([whole, partial]), kind="stable"))


def searched_texts(
    memories: pa.Table,
    chunks: pa.Table,
    columns: Mapping[str, Sequence[str]],
    evidence_texts: pa.ChunkedArray | None = None,
) -> pa.Table:
    """`chunks` with further columns, each the text made of some columns of its memory and of the chunk's own text.

    `evidence_texts` replace the chunks' own texts, if some of these are not searched in full.
    """
    columns_of_memory = memories.select(present(memories, _COLUMNS))
    of_chunk = _beside_chunks(columns_of_memory, places(chunks["memory_id"], memories["memory_id"]))
    table = of_chunk.append_column("text", chunks["text"] if evidence_texts is None else evidence_texts)
    filled = {"text", *(name for name in of_chunk.column_names if is_filled(table[name]))}
    # DuckDB binds each expression anew, which takes longer than some rows: what gives no row anything is left out.
    columns_present = table.column_names
    used = {
        name: [part for part in searched if may_have_text(part, columns_present, filled)]
        for name, searched in columns.items()
    }
    if all(parts == ["text"] for parts in used.values()):
        texts = dict.fromkeys(columns, pc.fill_null(table["text"], "").cast(pa.string()))
    else:
        reads = {column for parts in used.values() for part in parts for column in columns_read(part)}
        expressions = [f"{searchable_sql(parts) if parts else literal('')} as {name}" for name, parts in used.items()]
        select = f"select {', '.join(expressions)} from parts"  # noqa: S608  # expressions of memkit's own
        made = rows_of(select, parts=table.select(sorted(reads | {"text"})))
        texts = take_rows(made, np.arange(len(made)))  # copied: what DuckDB returns takes three times its memory
    for name in columns:
        chunks = chunks.append_column(name, texts[name])
    return chunks


def _beside_chunks(memories: pa.Table, of_memory: Ints) -> pa.Table:
    """The row of each chunk's memory; what is long in it stands beside the memory's first chunk alone.

    A title of megabytes beside each chunk of a long text would take the product of both.
    """
    brief = memories
    for place, column in enumerate(memories.columns):
        if not pa.types.is_temporal(column.type):
            texts = pc.binary_join(column, " ") if pa.types.is_list(column.type) else column
            is_long = pc.fill_null(pc.greater(pc.binary_length(texts), _LONG), False)
            if pc.any(is_long).as_py():
                shortened = pc.if_else(is_long, pa.scalar(None, column.type), column)
                brief = brief.set_column(place, memories.field(place), shortened)
    if brief is memories:
        return take_rows(memories, of_memory)
    is_first = np.diff(of_memory, prepend=-1) != 0
    first, later = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    rows = pa.concat_tables([take_rows(memories, of_memory[first]), take_rows(brief, of_memory[later])])
    return take_rows(rows, np.argsort(np.concatenate([first, later]), kind="stable"))


def is_filled(column: pa.ChunkedArray) -> bool:
    """Whether any value is neither null nor an empty text or list."""
    if column.null_count == len(column):
        return False
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return bool(pc.any(pc.not_equal(column, "")).as_py())
    if pa.types.is_list(column.type):
        return bool(pc.any(pc.greater(pc.list_value_length(column), 0)).as_py())
    return True


def take_rows(table: pa.Table | pa.ChunkedArray, rows: Ints) -> Any:
    """The `rows` of a table or column, taken chunk by chunk: from several chunks at once, Arrow copies all texts."""
    column = table.column(0) if isinstance(table, pa.Table) else table
    if column.num_chunks <= 1:
        return table.take(pa.array(rows))
    if 0 < len(rows) <= _FEW:  # one after the other takes half as long
        whole = table if isinstance(table, pa.Table) else pa.table([table], [""])
        some = pa.concat_tables([whole.slice(row, 1) for row in rows.tolist()]).combine_chunks()
        return some if whole is table else some.column(0)
    sizes = [len(piece) for piece in column.chunks]
    ends = np.cumsum(sizes)
    piece = np.searchsorted(ends, rows, side="right")
    order = np.argsort(piece, kind="stable")
    parts = []
    for index in np.unique(piece).tolist():
        start = int(ends[index]) - sizes[index]
        parts.append(table.slice(start, sizes[index]).take(pa.array(rows[order[piece[order] == index]] - start)))
    if not parts:
        return table.slice(0, 0)
    is_table = isinstance(table, pa.Table)
    joined = pa.concat_tables(parts) if is_table else pa.chunked_array([c for part in parts for c in part.chunks])
    return joined.take(pa.array(np.argsort(order)))


def text_codes(texts: pa.ChunkedArray) -> tuple[Ints, Mask]:
    """A number for each text, the same for equal ones, and whether it holds more than blanks."""
    return codes(texts)[0], pc.not_equal(pc.utf8_trim_whitespace(texts), "").to_numpy()


def places(values: pa.ChunkedArray, known: pa.ChunkedArray) -> Ints:
    """The index of each value in `known`; -1 if it is not there."""
    index: Ints = pc.fill_null(pc.index_in(values, value_set=known), -1).to_numpy().astype(np.int64)
    return index


def codes(column: pa.Array | pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Dictionary encoding: the code of each value, and the values by code; nulls need a single array."""
    column = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    encoded = pc.dictionary_encode(column, null_encoding="encode").unify_dictionaries()
    if not encoded.num_chunks:
        return np.empty(0, np.int64), pa.array([], column.type)
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate(codes).astype(np.int64), encoded.chunk(0).dictionary


def vectors_of(chunks: pa.Table, vectors: Any) -> pa.Table:
    """The table ``vectors`` of SQL: chunk_id and vector, an array of so many floats."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
    return pa.table({"chunk_id": chunks["chunk_id"], "vector": column})


@dataclass(frozen=True)
class Rows:
    """Columns of an index: one value per chunk (`memory`, `twin`, `text`, `filled`, `littered`) or per memory.

    Attributes
    ----------
    memory : ndarray of int64, shape (n_chunks,)
        Row of the memory that the chunk is cut from.
    twin : ndarray of int64, shape (n_chunks,)
        Equal for chunks of one owner with the same text (exact duplicates); below n_chunks.
    kind : tuple (codes, names)
        Kind of each memory, dictionary encoded.
    dated : ndarray of datetime64[us], shape (n_memories,)
        Last change, UTC; NaT if unknown.
    decays : ndarray of bool, shape (n_memories,)
        False for memories that are exempt from decay.
    text : ndarray of int64, shape (n_chunks,)
        A number for the chunk's text; equal texts have equal numbers.
    filled : ndarray of bool, shape (n_chunks,), or None
        Chunks that are not empty; None if all are not.
    owner : ndarray of int64, shape (n_memories,)
        Equal for memories of one user.
    file : ndarray of int64, shape (n_memories,)
        Equal for memories of one file.
    expires : ndarray of datetime64[us], shape (n_memories,)
        The last instant at which the memory is valid, UTC; NaT if it does not expire.
    created : ndarray of datetime64[us], shape (n_memories,)
        Creation, UTC; NaT if unknown.
    deprecated : ndarray of bool, shape (n_memories,), or None
        What its author no longer recommends; None if there is none.
    successor : ndarray of int64, shape (n_memories,), or None
        Row of the memory that supersedes it, the last one of a chain; -1 for none; None if no memory has one.
    aside : ndarray of bool, shape (n_memories,), or None
        What is archived or a draft; None if there is none.
    littered : ndarray of bool, shape (n_chunks,), or None
        Chunks of memories with boilerplate that snippets leave out; None if there are none.
    stale_at : ndarray of datetime64[us], shape (n_memories,), or None
        From when on it should be checked again; NaT if it says no such time; None if no memory does.
    owners : Owners or None
        Of the memories, which equal texts are told apart by; None where there are no equal texts, and nobody asked yet.
    """

    memory: Ints
    twin: Ints
    kind: tuple[Ints, tuple[str | None, ...]]
    dated: NDArray[np.datetime64]
    decays: Mask
    text: Ints
    filled: Mask | None
    owner: Ints
    file: Ints
    expires: NDArray[np.datetime64]
    created: NDArray[np.datetime64]
    deprecated: Mask | None = None
    successor: Ints | None = None
    stale_at: NDArray[np.datetime64] | None = None
    aside: Mask | None = None
    littered: Mask | None = None
    owners: Owners | None = None

    @cached_property
    def has_dates(self) -> bool:
        """Whether any memory has a date."""
        return not np.isnat(self.dated).all()

    @cached_property
    def crowd(self) -> Ints | None:
        """`memory`, if some memory has more chunks than count among an arm's candidates; else None."""
        return self.memory if np.bincount(self.memory).max(initial=0) > COUNTED else None

    def hit_of(self, memory: Ints, hit: str) -> Ints:
        """A number for the hit that each of the rows `memory` would be, where a hit is a memory or a file."""
        return self.file[memory] if hit == "file" else memory

    def are_of(self, kinds: Sequence[str]) -> Mask:
        """Whether each of the corpus's kinds is among `kinds`."""
        return np.array([name in kinds for name in self.kind[1]], bool)

    def may_decay(self, memory: Ints, kinds: Sequence[str]) -> Mask:
        """Which of the rows `memory` decay, if they have a date."""
        decays = self.decays[memory]
        return decays if "*" in kinds else decays & self.are_of(kinds)[self.kind[0][memory]]

    def hidden(self, kinds: Sequence[str]) -> Mask | None:
        """Memories of one of `kinds`; None if no memory is."""
        is_hidden = self.are_of(kinds)
        return is_hidden[self.kind[0]] if is_hidden.any() else None

    def expired(self, until: datetime) -> Mask | None:
        """Memories that expired before `until`; None if no memory did."""
        return expired(self.expires, until) if expired(self._first_end, until) else None

    @cached_property
    def _first_end(self) -> Any:
        """The first instant at which a memory expires; NaT if none does."""
        return np.fmin.reduce(self.expires, initial=np.datetime64("NaT", "us"))

    def future(self, until: datetime) -> Mask | None:
        """Memories created after `until`; None if no memory was. One without a date does not count."""
        if not self.has_later(until):
            return None
        is_future = later(self.created, until)
        return is_future if is_future.any() else None

    def has_later(self, until: datetime) -> bool:
        """Whether any memory was created or changed after `until`."""
        return bool(later(self._last, until))

    @cached_property
    def _last(self) -> Any:
        """The last moment at which a memory was created or changed; NaT if none has a date."""
        return np.fmax.reduce(np.append(self.created, self.dated), initial=np.datetime64("NaT", "us"))


def make_rows(
    memories: pa.Table,
    chunks: pa.Table,
    former: tuple[MemoryIndex, Ints, Ints] | None = None,
    kept: tuple[Owners | None, Ints, Ints, Mask] | None = None,
) -> Rows:
    """The columns of `memories` and of their `chunks`, as `make_chunks` returns them.

    Parameters
    ----------
    former : tuple (MemoryIndex, ndarray of int64, ndarray of int64, each of shape (n_chunks,)), optional
        The former index, the row in it of each chunk (beyond the last one for a new chunk), and its memory.
    kept : tuple (Owners or None, ndarray of int64, ndarray of int64, ndarray of bool), optional
        The owners of the memories, and `twin`, `text` and `filled` of the chunks, where they are known.
    """
    memory = former[2] if former else places(chunks["memory_id"], memories["memory_id"])
    texts, littered = chunks["own"], chunks["littered"].to_numpy()
    kind, kinds = codes(memories["kind"].combine_chunks())
    stale_at = memories["stale_at"]
    if kept:
        owners, twin, text, filled = kept
    else:
        text, filled = text_codes_since(texts, former[0].rows, former[1]) if former else text_codes(texts)
        # Where no two texts are equal, no chunk has a twin, and nobody needs to know owners.
        owners, twin = None, text
        if text.max(initial=-1) < len(text) - 1:  # some are equal
            known = former and former[0].rows.owners
            owners = known.since(former[0].memories, memories) if former and known else Owners.of(memories)
            twin = _twins(owners, memory, text)
    return Rows(
        memory=memory,
        text=text,
        twin=twin,
        owners=owners,
        filled=None if filled.all() else filled,
        littered=littered if littered.any() else None,
        owner=codes(memories["user_id"].combine_chunks())[0],
        file=codes(pc.coalesce(memories["path"], memories["memory_id"]).combine_chunks())[0],
        kind=(kind, tuple(kinds.to_pylist())),
        expires=with_ends(memories)["expires_at"].to_numpy().astype("datetime64[us]"),
        dated=pc.coalesce(memories["updated_at"], memories["created_at"]).to_numpy().astype("datetime64[us]"),
        created=memories["created_at"].to_numpy().astype("datetime64[us]"),
        decays=decaying(memories),
        deprecated=_with_status(memories, "deprecated"),
        successor=_successors(memories),
        stale_at=stale_at.to_numpy().astype("datetime64[us]") if is_filled(stale_at) else None,
        aside=_with_status(memories, *ASIDE),
    )


def _twins(owners: Owners, memory: Ints, text: Ints) -> Ints:
    """A number for each chunk, the same for equal texts of one owner."""
    several = np.flatnonzero(np.bincount(text)[text] > 1)
    among, of_several = np.unique(memory[several], return_inverse=True)
    twins = len(text) + np.arange(len(text))
    twins[several] = owners.take(among).take(of_several).parts(text[several])
    return codes(pa.array(twins))[0]


def _with_status(memories: pa.Table, *statuses: str) -> Mask | None:
    """Which memories have one of these statuses; None if none has."""
    is_so: Mask = pc.is_in(memories["status"], value_set=pa.array(statuses)).to_numpy()
    return is_so if is_so.any() else None


def _successors(memories: pa.Table) -> Ints | None:
    """The row of the last successor of each memory, else -1; a circle has none."""
    if memories["superseded_by"].null_count == memories.num_rows:
        return None
    successor_row = pc.index_in(memories["superseded_by"], value_set=memories["memory_id"].combine_chunks())
    following: Ints = pc.fill_null(successor_row, -1).to_numpy().astype(np.int64)
    # A copy: each chain is followed by what the memories say themselves, not by what was found of those before.
    last = following.copy()
    for memory in np.flatnonzero(following >= 0).tolist():
        chain = {memory}
        while (after := int(following[last[memory]])) >= 0 and last[memory] not in chain:
            chain.add(int(last[memory]))
            last[memory] = after
        if last[memory] in chain:
            last[memory] = -1
    return last


_FEW = 32
_LINES = ("line_start", "line_end")
_PIECES = 4096
"""Most runs of neighbouring rows that are taken from a table as slices, not row by row."""
# A round bound: every look at a table costs by its chunks, a copy by its texts.
_MOST_CHUNKS = 64


def refit_tables(
    before: MemoryIndex, corpus_memories: pa.Table, order: Ints
) -> tuple[pa.Table, pa.Table, tuple[MemoryIndex, Ints, Ints]]:
    """The memories in their `order`, their chunks, and for each chunk its row in `before` and the row of its memory."""
    source = former_rows(before, corpus_memories)[order]
    is_new = source < 0
    changed = take_runs(corpus_memories, order[is_new])
    # Not from the corpus, whose order is that of files: to take each row of it copies all texts.
    known = changed.slice(0, 0) if is_new.all() else before.memories
    rows = source.copy()
    rows[is_new] = known.num_rows + np.arange(changed.num_rows)
    memories = few_chunks(take_runs(pa.concat_tables([known, changed]), rows))
    for name in _LINES if known.num_rows else ():
        if name in memories.column_names:
            memories = _with_values(memories, name, corpus_memories[name].take(pa.array(order)).combine_chunks())
    new_chunks = make_chunks(changed, before.settings).combine_chunks()
    row, size = chunk_rows(before.rows.memory, source, places(new_chunks["memory_id"], changed["memory_id"]))
    chunks = few_chunks(take_runs(pa.concat_tables([before.table, new_chunks]), row))
    memory: Ints = np.repeat(np.arange(len(size)), size)
    return memories, _moved(chunks, _shifts(before, memories, source)[memory]), (before, row, memory)


def _shifts(before: MemoryIndex, memories: pa.Table, source: Ints) -> Ints:
    """The number of lines by which each of `memories` moved down in its file, from its former row `source`."""
    shifts, known = np.zeros(len(source), np.int64), np.flatnonzero(source >= 0)
    old, new = take_runs(before.memories, source[known]), take_runs(memories, known)
    if "line_start" in memories.column_names and old["line_start"] != new["line_start"]:
        shifts[known] = lines_above(new) - lines_above(old)
    return shifts


def _moved(chunks: pa.Table, shifts: Ints) -> pa.Table:
    """`chunks` with their line numbers moved by `shifts`."""
    for name in _LINES if shifts.any() else ():
        chunks = _with_values(chunks, name, pa.array(chunks[name].to_numpy() + shifts))
    return chunks


def _with_values(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """`table` with other `values` in a column, which is in as many pieces as before."""
    ends = np.cumsum([0, *map(len, table[name].chunks)]).tolist()
    pieces = [values.slice(start, end - start) for start, end in pairwise(ends)]
    return with_column(table, name, pa.chunked_array(pieces, values.type))


def former_rows(before: MemoryIndex, memories: pa.Table) -> Ints:
    """The row in `before` of each unchanged memory, on whatever lines; -1 for new and changed ones."""
    former = before.corpus_memories
    row = places(memories["memory_id"], former["memory_id"])
    known = np.flatnonzero(row >= 0)
    has_duplicate_ids = np.bincount(row[known], minlength=1).max() > 1
    if memories.schema != former.schema or has_duplicate_ids:
        return np.full(len(row), -1)
    old, new = _without_lines(take_runs(former, row[known])), _without_lines(take_runs(memories, known))
    row[known[_differing(old, new)]] = -1
    rank = np.empty(len(before.order) + 1, np.int64)
    rank[before.order], rank[-1] = np.arange(len(before.order)), -1
    return rank[row]


def _without_lines(table: pa.Table) -> pa.Table:
    """`table` with line numbers replaced by whether there are any: an edit above a memory moves it."""
    has_lines = {name: table[name].is_valid() for name in _LINES if name in table.column_names}
    return pa.table({name: has_lines.get(name, table[name]) for name in table.column_names})


def _differing(old: pa.Table, new: pa.Table) -> list[int]:
    """Rows in which tables of one length differ, by bisection, so that few differences cost little."""
    rows, waiting = [], [(0, old.num_rows)]
    while waiting:
        start, size = waiting.pop()
        a, b = old.slice(start, size), new.slice(start, size)
        if a.equals(b):
            continue
        if size > _FEW:
            waiting += [(start, size // 2), (start + size // 2, size - size // 2)]
            continue
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        rows += [start + row for row, (left, right) in enumerate(pairs) if left != right]
    return rows


def chunk_rows(before: Ints, source: Ints, fresh: Ints) -> tuple[Ints, Ints]:
    """The rows of the chunks of all memories, and the number of chunks of each; new chunks follow the former ones.

    Parameters
    ----------
    before, fresh : ndarray of int64
        The memory of each former chunk, and of each new chunk (numbered from 0), ascending.
    source : ndarray of int64
        The former row of each memory; -1 for those that were cut now.
    """
    memory = np.concatenate([before, fresh + (before.max(initial=-1) + 1)])
    memory_of = source.copy()
    is_new = source < 0
    memory_of[is_new] = np.arange(is_new.sum()) + (before.max(initial=-1) + 1)
    first = np.searchsorted(memory, memory_of)
    size = np.searchsorted(memory, memory_of, side="right") - first
    rows: Ints = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return rows, size


def text_codes_since(texts: pa.ChunkedArray, before: Rows, row: Ints) -> tuple[Ints, Mask]:
    """As `text_codes`, with the former `row` of each text: a new text can only equal texts of its own length."""
    is_new = row >= len(before.text)
    former = np.where(is_new, 0, row)
    text = np.append(before.text, 0)[former] + len(row)
    filled = np.ones(len(row), bool) if before.filled is None else np.append(before.filled, True)[former]
    sizes = pc.binary_length(texts).to_numpy()
    may_equal = np.isin(sizes, sizes[is_new])
    text[may_equal], filled[may_equal] = text_codes(texts.filter(pa.array(may_equal)))
    return codes(pa.array(text))[0], filled


def take_runs(table: pa.Table, rows: Ints) -> pa.Table:
    """The `rows` of `table`, as slices of it if they are a few runs of neighbours."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(starts) > _PIECES:
        return table.take(pa.array(rows))
    sizes = np.diff(starts, append=len(rows))
    pieces = [table.slice(row, size) for row, size in zip(rows[starts].tolist(), sizes.tolist(), strict=True)]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


def few_chunks(table: pa.Table) -> pa.Table:
    """`table` itself if its columns have few chunks, as after a few edits, else a copy in one chunk."""
    sizes = {tuple(map(len, column.chunks)) for column in table.columns}
    return table if len(sizes) == 1 and 1 <= len(*sizes) <= _MOST_CHUNKS else table.combine_chunks()
