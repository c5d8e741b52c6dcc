"""`Index`, the parameters of search that act at fit; the chunks of memories that it asks for, with the texts of them
that the arms search, and rows of tables of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import literal, rows_of
from memkit.base.params import Estimator, estimator, param
from memkit.index.centre import CENTRES
from memkit.index.dense import ANN
from memkit.schemas import MEMORIES, TIMESTAMP, WORDS, Ints, Mask, with_column
from memkit.text.analyse import ANALYSERS, SEARCHABLE, columns_read, may_have_text, searchable_sql
from memkit.text.boilerplate import PATTERNS, evidence
from memkit.text.chunk import PROSE_DOC, Chunker, has_alnum, says

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
    chunk_tokens: int = _fitted(
        100, low=1, unit="tokens", doc="Chunk size: lines are joined into one chunk up to this size."
    )
    overlap_tokens: int = _fitted(20, low=0, unit="tokens", doc="Overlap of neighbouring chunks.")
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
_COLUMN_TYPES = {
    name: {TIMESTAMP: "timestamptz", WORDS: "varchar[]"}.get(MEMORIES.field(name).type, "varchar") for name in _COLUMNS
}
_AT_ONCE = 8192
"""Memories that are cut together: what is made on the way takes several times the memory of their texts."""
_FEW = 16
_LONG = 4096
"""Bytes of a title, of tags or of another column above which it is searched with a memory's first chunk only."""


def make_chunks(memories: pa.Table, settings: Index) -> pa.Table:
    """The chunks of `memories`, with columns ``searched`` (the text) and ``own`` (without date and headings).

    Both are without boilerplate; ``littered`` says whether the memory has any. A chunk of boilerplate alone is left
    out, where its memory has others.
    """
    starts = range(0, max(1, memories.num_rows), _AT_ONCE)
    return pa.concat_tables(_chunks_of(memories.slice(start, _AT_ONCE), settings) for start in starts)


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
    is_littered = _differ(memories["text"], stripped["text"])[of_memory]
    chunks = chunks.append_column("evidence", texts).append_column("littered", pa.array(is_littered))
    if not texts.equals(chunks["text"]):
        is_mere = has_alnum(chunks["text"]) & ~has_alnum(texts)
        has_others = np.bincount(of_memory[~is_mere], minlength=len(memories) + 1)[of_memory] > 0
        is_first = np.diff(of_memory, prepend=-1) != 0
        chunks = chunks.filter(pa.array(~is_mere | (is_first & ~has_others)))
    without_context = [name for name in settings.searched if name not in _CONTEXT] or settings.searched
    columns = {"searched": settings.searched, "own": without_context}
    return searched_texts(memories, chunks, columns, chunks["evidence"]).drop_columns("evidence")


def _differ(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    """Whether the two texts of each row differ."""
    if one is other:
        return np.zeros(len(one), bool)
    differs: Mask = pc.fill_null(pc.not_equal(one, other), False).to_numpy()
    return differs


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
    columns_of_memory = memories.select([name for name in _COLUMN_TYPES if name in memories.column_names])
    of_chunk = _beside_chunks(columns_of_memory, places(chunks["memory_id"], memories["memory_id"]))
    table = of_chunk.append_column("text", chunks["text"] if evidence_texts is None else evidence_texts)
    filled = {"text", *(name for name in of_chunk.column_names if _is_filled(table[name]))}
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
        texts = _computed(f"select {', '.join(expressions)} from", table.select(sorted(reads | {"text"})))
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


def _computed(sql: str, table: pa.Table) -> Any:
    """The columns of a SELECT over a table."""
    if len(table) > _FEW:
        return rows_of(f"{sql} parts", parts=table)
    # As a value: to look into a table of Arrow's takes longer than the rest.
    types = _COLUMN_TYPES | {"text": "varchar"}
    struct = ", ".join(f"{name} {types[name]}" for name in table.column_names)
    rows = f"(select unnest($parts::struct({struct})[], max_depth := 2))"
    return rows_of(f"{sql} {rows}", {"parts": table.to_pylist()})


def _is_filled(column: pa.ChunkedArray) -> bool:
    """Whether any value is neither null nor an empty text or list."""
    if pa.types.is_string(column.type):
        return bool(pc.any(pc.not_equal(column, "")).as_py())
    if pa.types.is_list(column.type):
        return bool(pc.any(pc.greater(pc.list_value_length(column), 0)).as_py())
    return bool(column.null_count < len(column))


def take_rows(table: pa.Table | pa.ChunkedArray, rows: Ints) -> Any:
    """The `rows` of a table or column, taken chunk by chunk: from several chunks at once, Arrow copies all texts."""
    column = table.column(0) if isinstance(table, pa.Table) else table
    if column.num_chunks <= 1:
        return table.take(pa.array(rows))
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
