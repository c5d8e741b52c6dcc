"""The arms that a Retriever can have, and the text that they search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.duck import rows_of
from memkit.errors import StaleIndexError
from memkit.schemas import Ints, Mask
from memkit.search.settings import FitSettings, QuerySettings
from memkit.text.analyse import searchable_sql
from memkit.text.chunk import Chunker


class Arm(Protocol):
    """Finds candidates by one kind of evidence; what has these six can be a Retriever's arm."""

    def fit(self, chunks: pa.Table, texts: pa.ChunkedArray) -> Self:
        """Index `texts`, what is searched in each row of `chunks`."""

    def candidates(self, queries: Sequence[str], n: int, allowed: Mask | None = None, **options: Any) -> pa.Table:
        """Columns query, row and score: at most `n` rows a query among `allowed`, best first, ties by row."""

    def rough(self, queries: Sequence[str], **options: Any) -> Iterable[NDArray[Any]]:
        """For each query the score of every row, to single precision; 0 for a row that `candidates` never gives."""

    def scale(self, queries: Sequence[str], background: NDArray[np.int64], **options: Any) -> NDArray[np.float64]:
        """For each query the scores that count 0 and 1 when calibrated.

        `background` is a fixed sample of rows, for an arm by which each row has a score; else it is empty.
        """

    def save(self, folder: Path) -> None:
        """Keep the arm in `folder`."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` kept."""


@dataclass(frozen=True)
class Kind:
    """One kind of arm: an entry of `KINDS` is all that a further one needs.

    Attributes
    ----------
    weight : callable
        What the settings give the arm, before all weights are brought to the sum 1; None is the encoder's own.
    options : callable
        What of the settings the arm is asked with.
    reads_dates : bool
        Whether the times that a query names are put to it as days, where the settings say so.
    lends : str
        How a turn takes part in its neighbours' scores: 'sum', 'mean', or '' for not at all.
    everywhere : bool
        Whether each row has a score, so that one which was not found has at most the last that was.
    make : callable
        The arm that the settings ask for, not fitted.
    load : callable
        ``load(index, folder, trust)`` is the arm of `index` as it was saved in `folder`, by the user where `trust`,
        else by anybody. Raises StaleIndexError where it is damaged, of other rows or of another encoder.
    label, score, nothing : str
        What pictures call the arm, what sentences call its score, and why it may have none.
    """

    weight: Callable[[QuerySettings], float | None]
    options: Callable[[QuerySettings], dict[str, Any]]
    reads_dates: bool
    lends: str
    everywhere: bool
    make: Callable[[FitSettings], Arm]
    load: Callable[[Any, Path, bool], Arm]
    label: str
    score: str
    nothing: str


_AROUND = ("date", "heading_path")
_TOLD_OF = {
    "heading_path": "varchar",
    "created_at": "timestamptz",
    "updated_at": "timestamptz",
    "title": "varchar",
    "tags": "varchar[]",
}
_FEW = 16
_K3 = 1000.0
"""Each repetition of a word in a question counts, as in most engines: on long questions it is worth a tenth of nDCG."""


def lexical() -> Any:
    """The arms that search words, imported when one is asked for."""
    from memkit.index import lexical

    return lexical


def _words(settings: FitSettings) -> Arm:
    if settings.lexical == "char":
        return cast(Arm, lexical().CharGrams())
    return cast(Arm, lexical().BM25(analyser=settings.analyser, k3=_K3))


def _word_options(settings: QuerySettings) -> dict[str, Any]:
    return {"function_word_weight": settings.function_word_weight}


def _dense(settings: FitSettings) -> Arm:
    from memkit.index.dense import Dense

    return cast(Arm, Dense(encoder=settings.encoder, ann=settings.ann, centre=settings.centre))


def _of_rows(arm: Any, index: Any, folder: Path) -> Arm:
    if arm.postings_.n_rows != index.chunks.num_rows:
        raise StaleIndexError(
            f"{folder.name}: expected {index.chunks.num_rows} chunks. Got {arm.postings_.n_rows}. Fit again."
        )
    return cast(Arm, arm)


def _load_dense(index: Any, folder: Path, trust: bool) -> Arm:
    from memkit.index.dense import Dense

    rows = {"chunks": index.chunks, "texts": index.texts}
    return cast(Arm, Dense.load(folder, encoder=index.settings.encoder, **rows, trust=trust))


KINDS: dict[str, Kind] = {
    "bm25": Kind(
        weight=lambda s: s.bm25_weight,
        options=_word_options,
        reads_dates=True,
        lends="sum",
        everywhere=False,
        make=_words,
        load=lambda index, folder, trust: _of_rows(type(_words(index.settings)).load(folder), index, folder),
        label="words",
        score="lexical score",
        nothing="lexical score 0 (no term of the query occurs in it)",
    ),
    "vector": Kind(
        weight=lambda s: s.vector_weight,
        options=lambda s: {},
        reads_dates=False,
        lends="mean",
        everywhere=True,
        make=_dense,
        load=_load_dense,
        label="meaning",
        score="cosine",
        nothing="no cosine (nothing to compare)",
    ),
    "gram": Kind(
        weight=lambda s: s.gram_weight,
        options=_word_options,
        reads_dates=True,
        lends="",
        everywhere=False,
        make=lambda settings: lexical().Grams(),
        load=lambda index, folder, trust: _of_rows(lexical().Grams.load(folder), index, folder),
        label="letters",
        score="likeness of letters",
        nothing="no letters in common",
    ),
}
"""By the name of the arm's column in hits and trace, in the order of the columns."""


def build_arm(name: str, settings: FitSettings, chunks: pa.Table, texts: pa.ChunkedArray) -> Arm:
    """The arm `name`, fitted.

    Raises
    ------
    ImportError
        Where the encoder's package is not installed.
    MemkitError
        Where the encoder fails.
    """
    return KINDS[name].make(settings).fit(chunks, texts)


def cut(memories: pa.Table, settings: FitSettings) -> pa.Table:
    """The chunks of `memories`, with what is searched in each and what each tells."""
    chunker = Chunker(chunk_tokens=settings.chunk_tokens, overlap_tokens=settings.overlap_tokens)
    chunks = chunker.transform(memories)
    own = [name for name in settings.searched if name not in _AROUND] or settings.searched
    return searched_texts(memories, chunks, {"searched": settings.searched, "told": own})


def searched_texts(memories: pa.Table, chunks: pa.Table, columns: Mapping[str, Sequence[str]]) -> pa.Table:
    """`chunks` with more columns: each those of the given columns that `memories` has, and the chunk's own text."""
    of_memory = taken(
        memories.select([name for name in _TOLD_OF if name in memories.column_names]),
        places(chunks["memory_id"], memories["memory_id"]),
    )
    held = {"date", "text", *of_memory.column_names}
    texts = [f"{searchable_sql([part for part in of if part in held])} as {name}" for name, of in columns.items()]
    pieces = of_memory.append_column("text", chunks["text"])
    sql = f"select {', '.join(texts)} from"  # expressions of ours
    if len(pieces) <= _FEW:  # as a value: to look into a table of Arrow's takes longer than the rest
        of = ", ".join(f"{name} {kind}" for name, kind in (_TOLD_OF | {"text": "varchar"}).items() if name in held)
        rows = f"(select unnest($pieces::struct({of})[], max_depth := 2))"
        found = rows_of(f"{sql} {rows}", {"pieces": pieces.to_pylist()})
    else:
        found = rows_of(f"{sql} pieces", pieces=pieces)
    for name in columns:
        chunks = chunks.append_column(name, found[name])
    return chunks


def taken(table: pa.Table | pa.ChunkedArray, rows: Ints) -> Any:
    """The `rows` of a table or column, piece by piece: of several pieces at once Arrow would copy all texts first."""
    sizes = [len(piece) for piece in (table.column(0) if isinstance(table, pa.Table) else table).chunks]
    if len(sizes) <= 1:
        return table.take(pa.array(rows))
    ends = np.cumsum(sizes)
    piece = np.searchsorted(ends, rows, side="right")
    order = np.argsort(piece, kind="stable")
    found = []
    for at in np.unique(piece).tolist():
        start = int(ends[at]) - sizes[at]
        found.append(table.slice(start, sizes[at]).take(pa.array(rows[order[piece[order] == at]] - start)))
    if not found:
        return table.slice(0, 0)
    is_table = isinstance(table, pa.Table)
    joined = pa.concat_tables(found) if is_table else pa.chunked_array([c for part in found for c in part.chunks])
    return joined.take(pa.array(np.argsort(order)))


def said(texts: pa.ChunkedArray) -> tuple[Ints, Mask]:
    """Which texts are equal, and which hold more than blanks."""
    return codes(texts)[0], pc.not_equal(pc.utf8_trim_whitespace(texts), "").to_numpy()


def places(values: pa.ChunkedArray, known: pa.ChunkedArray) -> Ints:
    """Where each value is among the `known` ones; -1 where it is not."""
    at: Ints = pc.fill_null(pc.index_in(values, value_set=known), -1).to_numpy().astype(np.int64)
    return at


def codes(column: pa.Array | pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Each value's number, and the values by number; where there are nulls, of one array alone."""
    column = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    encoded = pc.dictionary_encode(column, null_encoding="encode").unify_dictionaries()
    if not encoded.num_chunks:
        return np.empty(0, np.int64), pa.array([], column.type)
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate(codes).astype(np.int64), encoded.chunk(0).dictionary
