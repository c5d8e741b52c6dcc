"""What `Retriever.fit` makes: chunks, their arrays and the arms, shared by all settings that need no refit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memkit.errors import ParameterError
from memkit.index.cache import rows_digest
from memkit.search.fitted.arms import KINDS, build_arm, searched_texts
from memkit.search.fitted.rows import Mask, Rows, make_rows
from memkit.search.queries import memories_where
from memkit.search.scope import Scope, make_scope
from memkit.search.settings import FitSettings, QuerySettings
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
    settings : FitSettings
        What it was made with.
    memories, chunks : pa.Table
        By memory_id, and by memory_id and ordinal, so that the order of rows is the order of ids.
    texts : pa.ChunkedArray
        What is searched in each chunk.
    rows : Rows
        What ranking needs of each chunk besides scores.
    arms : dict of str to Arm
        Those built so far; an arm is built when its weight first asks for it.
    absent : dict of str to str
        Why an arm cannot be built.
    kept : callable
        ``kept(name)`` is the arm from where it was saved, or None, so that it has to be built.
    """

    corpus: Corpus
    given: pa.Table
    settings: FitSettings
    memories: pa.Table
    chunks: pa.Table
    texts: pa.ChunkedArray
    rows: Rows
    arms: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    kept: Callable[[str], Any] = lambda name: None

    @cached_property
    def digests(self) -> dict[str, Any]:
        """What tells the rows of another index apart: their number, and hashes over their ids and their texts."""
        chunks = self.chunks["chunk_id"]
        return {"chunks": len(chunks), "ids": rows_digest(chunks), "texts": rows_digest(self.texts)}

    @property
    def fingerprint(self) -> str | None:
        """The encoder behind the vector arm, once that is built."""
        return self.arms["vector"].encoder_.fingerprint if "vector" in self.arms else None

    def weights(self, settings: QuerySettings) -> dict[str, float]:
        """Weights of the arms that exist, each of them built; an encoder that is not installed is done without.

        Raises
        ------
        ParameterError
            Where no arm has a weight.
        """
        wished = {name: kind.weight(settings) for name, kind in KINDS.items()}
        weights = arm_weights(wished, [name for name in KINDS if name not in self.absent])
        for name in weights:
            if name in self.arms or not self.chunks.num_rows:
                continue
            try:
                self.arms[name] = self.kept(name) or build_arm(name, self.settings, self.chunks, self.texts)
            except ImportError as error:
                if name != "vector":
                    raise
                self.absent[name] = str(error)
                warnings.warn(f"Retriever: no vectors, search is BM25 alone. {error}", RuntimeWarning, stacklevel=4)
                return self.weights(settings)
        return weights

    def find(self, texts: Iterable[str], n: int, allowed: Mask | None, arms: Iterable[str]) -> Candidates:
        """The best `n` chunks of each arm for each text; a chunk without any text is never found."""
        asked, filled = list(texts), self.rows.filled
        if filled is not None:
            allowed = filled if allowed is None else filled & allowed
        if not self.chunks.num_rows:
            return merge(dict.fromkeys(arms, _NOTHING), 0, n)
        found = {name: self.arms[name].candidates(asked, n, allowed) for name in arms}
        return merge(found, self.chunks.num_rows, n)

    def scope(self, settings: QuerySettings, where: str | None, moment: datetime) -> Scope:
        """Which memories a question may find."""
        ids = self.memories["memory_id"]
        passed = None if where is None else memories_where(self.corpus.ask, where)
        return make_scope(self.rows, settings, moment, ids, passed)

    def similarity(self, row: Ints, by_vectors: bool) -> Callable[[Ints], Floats]:
        """Likeness among any of the chunks `row`: cosines, or shared terms."""
        if by_vectors and "vector" in self.arms:
            vectors = self.arms["vector"].vectors_
            return lambda some: cosines(vectors[some])
        known = np.unique(row)
        terms = QueryTerms(self.settings.analyser).of(self.texts.take(pa.array(known)).to_pylist())
        return lambda some: jaccard([terms[at] for at in np.searchsorted(known, some)])


_NOTHING = pa.table(
    {"query": pa.array([], pa.int64()), "row": pa.array([], pa.int64()), "score": pa.array([], pa.float64())}
)


def build_index(corpus: Corpus, settings: FitSettings) -> SearchIndex:
    """Cut the memories of `corpus` into chunks and lay them out for search; arms come later."""
    if not isinstance(getattr(corpus, "tables", None), dict):
        raise ParameterError(
            f"Retriever.fit: expected a Corpus. Got {type(corpus).__name__}; mk.from_table makes one of a table with a"
            " column 'text', mk.read of a folder."
        )
    given = corpus.tables["memories"]
    memories = given.sort_by("memory_id")
    chunker = Chunker(chunk_tokens=settings.chunk_tokens, overlap_tokens=settings.overlap_tokens)
    chunks = chunker.transform(memories).combine_chunks()
    texts = searched_texts(memories, chunks, settings.searched)
    rows = make_rows(memories, chunks, texts)
    absent = {} if settings.encoder is not None else {"vector": "encoder is None"}
    return SearchIndex(corpus, given, settings, memories, chunks, texts, rows, absent=absent)
