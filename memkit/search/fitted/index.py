"""What `Retriever.fit` makes: chunks, their arrays and the arms, shared by all settings that need no refit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memkit.index.cache import rows_digest
from memkit.search.fitted.arms import build_arm, searched_texts
from memkit.search.fitted.rows import Mask, Rows, make_rows
from memkit.search.queries import memories_where
from memkit.search.scope import Scope, make_scope
from memkit.search.stages.candidates import Candidates, merge
from memkit.search.stages.diversify import cosines, jaccard
from memkit.search.stages.fuse import arm_weights
from memkit.search.stages.normalise import Floats, Ints
from memkit.text.chunk import Chunker
from memkit.text.terms import QueryTerms

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus


@dataclass
class SearchIndex:
    """A corpus made searchable.

    Attributes
    ----------
    given : pa.Table
        The corpus's memories as they came, which tells whether a corpus is still the one that was fitted.
    settings : dict
        The refit parameters that it was made with.
    memories, chunks : pa.Table
        By memory_id, and by memory_id and ordinal, so that the order of rows is the order of ids.
    texts : pa.ChunkedArray
        What is searched in each chunk.
    rows : Rows
        What ranking needs of each chunk besides scores.
    arms : dict of str to Arm
        Those built so far; an arm is built when its weight first asks for it.
    without_vectors : str or None
        Why there can be no vector arm.
    fingerprint : str or None
        The encoder behind the vector arm, once that is built.
    kept : callable
        ``kept(name)`` is the arm from where it was saved, or None, so that it has to be built.
    """

    corpus: Corpus
    given: pa.Table
    settings: dict[str, Any]
    memories: pa.Table
    chunks: pa.Table
    texts: pa.ChunkedArray
    rows: Rows
    arms: dict[str, Any] = field(default_factory=dict)
    without_vectors: str | None = None
    fingerprint: str | None = None
    kept: Callable[[str], Any] = lambda name: None

    @cached_property
    def digests(self) -> dict[str, Any]:
        """What tells the rows of another index apart: their number, and hashes over their ids and their texts."""
        chunks = self.chunks["chunk_id"]
        return {"chunks": len(chunks), "ids": rows_digest(chunks), "texts": rows_digest(self.texts)}

    def weights(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Weights of the arms that exist, each of them built; an encoder that is not installed is done without.

        Raises
        ------
        ParameterError
            Where no arm has a weight.
        """
        possible = ("bm25",) if self.without_vectors else ("bm25", "vector")
        weights = arm_weights(values["vector_weight"], values["bm25_weight"], possible)
        for name in weights:
            if name in self.arms or not self.chunks.num_rows:
                continue
            try:
                kept = self.kept(name)
                self.add_arm(name, kept or build_arm(name, self.settings, self.chunks, self.texts))
            except ImportError as error:
                if name != "vector":
                    raise
                self.without_vectors = str(error)
                warnings.warn(f"Retriever: no vectors, search is BM25 alone. {error}", RuntimeWarning, stacklevel=4)
                return self.weights(values)
        return weights

    def add_arm(self, name: str, arm: Any) -> None:
        """Take a fitted arm in."""
        self.arms[name] = arm
        if name == "vector":
            self.fingerprint = arm.encoder_.fingerprint

    def find(self, texts: Iterable[str], n: int, allowed: Mask | None, arms: Iterable[str]) -> Candidates:
        """The best `n` chunks of each arm for each text; a chunk without any text is never found."""
        asked, filled = list(texts), self.rows.filled
        if filled is not None:
            allowed = filled if allowed is None else filled & allowed
        if not self.chunks.num_rows:
            return merge(dict.fromkeys(arms, _NOTHING), 0)
        found = {name: self.arms[name].candidates(asked, n, allowed) for name in arms}
        return merge(found, self.chunks.num_rows)

    def scope(self, values: Mapping[str, Any], where: str | None, moment: datetime) -> Scope:
        """Which memories a call may find."""
        ids = self.memories["memory_id"]
        passed = None if where is None else memories_where(self.corpus.sql, where)
        return make_scope(self.rows, values, moment, ids, passed)

    def decay(self, values: Mapping[str, Any], moment: datetime) -> Callable[[Ints], tuple[Floats, Floats]]:
        """Rows of memories -> age in days and factor."""
        form, days, floor = values["decay"], values["decay_days"], values["decay_floor"]
        return lambda memory: self.rows.decay(memory, moment, form, days, floor)

    def similarity(self, row: Ints) -> Callable[[Ints], Floats]:
        """Likeness among any of the chunks `row`: cosines where there are vectors, else shared terms."""
        if "vector" in self.arms:
            vectors = self.arms["vector"].vectors_
            return lambda some: cosines(vectors[some])
        known = np.unique(row)
        terms = QueryTerms(self.settings["analyser"]).of(self.texts.take(pa.array(known)).to_pylist())
        return lambda some: jaccard([terms[at] for at in np.searchsorted(known, some)])


_NOTHING = pa.table(
    {"query": pa.array([], pa.int64()), "row": pa.array([], pa.int64()), "score": pa.array([], pa.float64())}
)


def build_index(corpus: Corpus, settings: Mapping[str, Any]) -> SearchIndex:
    """Cut the memories of `corpus` into chunks and lay them out for search; arms come later."""
    given = corpus.tables["memories"]
    memories = given.sort_by("memory_id")
    chunker = Chunker(chunk_tokens=settings["chunk_tokens"], overlap_tokens=settings["overlap_tokens"])
    chunks = chunker.transform(memories).combine_chunks()
    texts = searched_texts(memories, chunks)
    rows = make_rows(memories, chunks, texts)
    absent = "encoder is None" if settings["encoder"] is None else None
    return SearchIndex(corpus, given, dict(settings), memories, chunks, texts, rows, without_vectors=absent)
