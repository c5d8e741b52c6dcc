"""The arms that a Retriever can have, and the text that they search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

from memkit.duck import connect
from memkit.search.fitted.rows import Mask
from memkit.tables.fts import searchable_sql


class Arm(Protocol):
    """Finds candidates by one kind of evidence; what has these four can be a Retriever's arm."""

    def fit(self, chunks: pa.Table, texts: pa.ChunkedArray) -> Self:
        """Index `texts`, what is searched in each row of `chunks`."""

    def candidates(self, queries: Sequence[str], n: int, allowed: Mask | None = None) -> pa.Table:
        """Columns query, row and score: at most `n` rows a query among `allowed`, best first, ties by row."""

    def save(self, folder: Path) -> None:
        """Keep the arm in `folder`."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` kept."""


_K3 = 1000.0
"""Each repetition of a word in a question counts, as in most engines: on long questions it is worth a tenth of nDCG."""


def _bm25(settings: Mapping[str, Any]) -> Arm:
    from memkit.index.lexical import BM25

    return BM25(analyser=settings["analyser"], k3=_K3)


def _char(settings: Mapping[str, Any]) -> Arm:
    from memkit.index.lexical import CharGrams

    return CharGrams()


def _both(settings: Mapping[str, Any]) -> Arm:
    from memkit.index.lexical import BM25AndGrams

    return BM25AndGrams(analyser=settings["analyser"], k3=_K3)


_LEXICAL: dict[str, Callable[[Mapping[str, Any]], Arm]] = {"bm25": _bm25, "char": _char, "bm25+char": _both}
LEXICAL = tuple(_LEXICAL)


def build_arm(name: str, settings: Mapping[str, Any], chunks: pa.Table, texts: pa.ChunkedArray) -> Arm:
    """The arm 'bm25' (of the kind that `settings` names) or 'vector', fitted.

    Raises
    ------
    ImportError
        Where the encoder's package is not installed.
    MemkitError
        Where the encoder fails.
    """
    if name == "bm25":
        return _LEXICAL[settings["lexical"]](settings).fit(chunks, texts)
    from memkit.index.dense import Dense

    return Dense(encoder=settings["encoder"], ann=settings["ann"], centre=settings["centre"]).fit(chunks, texts)


def load_arm(name: str, settings: Mapping[str, Any], folder: Path, chunks: pa.Table, texts: pa.ChunkedArray) -> Arm:
    """The arm that was saved in `folder`.

    Raises
    ------
    StaleIndexError
        Where it is damaged, of other rows or of another encoder.
    """
    if name == "bm25":
        return type(_LEXICAL[settings["lexical"]](settings)).load(folder)
    from memkit.index.dense import Dense

    return Dense.load(folder, encoder=settings["encoder"], chunks=chunks, texts=texts)


def searched_texts(memories: pa.Table, chunks: pa.Table) -> pa.ChunkedArray:
    """What is searched in each chunk: the memory's title and tags, and the chunk's own text."""
    with connect() as con:
        con.register("memories", memories.select(["memory_id", "title", "tags"]))
        numbered = chunks.select(["memory_id", "text"]).append_column(
            "row", pa.array(range(chunks.num_rows), pa.int64())
        )
        con.register("chunks", numbered)
        sql = f"select {searchable_sql()} as searched from chunks join memories using (memory_id) order by row"  # noqa: S608  # no data in it
        return con.execute(sql).to_arrow_table()["searched"]
