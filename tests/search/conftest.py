"""Small corpora and arms whose scores are given, so that every expected value is arithmetic; each a fixture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest

from memkit.index.arm import Abilities, means_in_turns
from memkit.index.encoders.without_model import HashEncoder
from memkit.schemas import MEMORIES
from memkit.search.fitted import index as search_index
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus

SCORED = pa.schema([("query", pa.int64()), ("row", pa.int64()), ("score", pa.float64())])


def _memories(rows: Sequence[Mapping[str, Any] | str]) -> pa.Table:
    blank = {"format": "table", "title": "", "text": "", "tags": [], "pinned": False, "access_count": 0}
    filled = []
    for i, row in enumerate(rows):
        fields = {"text": row} if isinstance(row, str) else dict(row)
        filled.append(dict.fromkeys(MEMORIES.names) | blank | {"memory_id": f"m{i}"} | fields)
    return pa.Table.from_pylist(filled, schema=MEMORIES)


class Versions(Corpus):
    """A corpus whose next version is given."""

    later: Corpus

    def refresh(self) -> Corpus:
        return self.later

    def __copy__(self, memo: object = None) -> Corpus:
        same = Versions(self.tables)
        same.later = self.later
        return same


def _corpus(*rows: Any, later: Sequence[Any] = ()) -> Corpus:
    corpus = Versions({"memories": _memories(rows)})
    corpus.later = Corpus({"memories": _memories(later)})
    return corpus


class GivenArm(Abilities):
    """An arm over `size` rows that answers each query from a dict: memory row -> score."""

    def __init__(self, answers: Mapping[str, Mapping[int, float]], size: int, vectors: Any = None) -> None:
        self.answers, self.size = answers, size
        self.encoder_ = HashEncoder()
        if vectors is not None:
            self.vectors_ = np.asarray(vectors, np.float32)

    def candidates(self, queries: Sequence[str], n: int, allowed: Any = None, **options: Any) -> pa.Table:
        scored: list[tuple[int, int, float]] = []
        for query, text in enumerate(queries):
            scores = {row: s for row, s in self.answers.get(text, {}).items() if allowed is None or allowed[row]}
            best = sorted(scores.items(), key=lambda item: (-np.nan_to_num(item[1], nan=-np.inf), item[0]))[:n]
            scored += [(query, row, score) for row, score in best]
        columns = list(zip(*scored, strict=True)) or [(), (), ()]
        return pa.table([pa.array(c, t) for c, t in zip(columns, SCORED.types, strict=True)], schema=SCORED)

    def rough(self, queries: Sequence[str], **options: Any) -> Any:
        for text in queries:
            scores = np.zeros(self.size)
            for row, score in self.answers.get(text, {}).items():
                scores[row] = score
            yield scores

    def scale(self, queries: Sequence[str], background: Any, **options: Any) -> Any:
        return np.tile([0.0, 1.0], (len(queries), 1))

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError


class GivenVectors(GivenArm):
    """The same, where turns lend each other their scores."""

    lends = True

    def candidates_in_turns(self, *request: Any, **_: Any) -> pa.Table:
        return means_in_turns(self, *request)


@pytest.fixture(scope="session")
def memories_of() -> Callable[[Sequence[Mapping[str, Any] | str]], pa.Table]:
    """memories_of(rows): a full memories table; a bare text becomes a memory m0, m1, ..."""
    return _memories


@pytest.fixture(scope="session")
def corpus_of() -> Callable[..., Corpus]:
    """corpus_of(*rows, later=...): a corpus of `rows`; after a refresh, of `later`."""
    return _corpus


Fitter = Callable[..., Retriever]


@pytest.fixture
def retriever_over(monkeypatch: pytest.MonkeyPatch) -> Fitter:
    """retriever_over(rows, bm25={...}, vector={...}, gram={...}, **params): a Retriever over arms of those scores.

    Unless `params` say more: words and vectors at equal weights, and each query's best is 1 and its worst 0.
    """

    def fit(
        rows: Sequence[Any], bm25: Any = None, vector: Any = None, gram: Any = None, vectors: Any = None, **params: Any
    ) -> Retriever:
        directions = np.eye(len(rows), max(len(rows), 1)) if vectors is None else vectors
        arms = {
            "bm25": GivenArm(bm25 or {}, len(rows)),
            "vector": GivenVectors(vector or {}, len(rows), directions),
            "gram": GivenArm(gram or {}, len(rows)),
        }
        monkeypatch.setattr(search_index.MemoryIndex, "_built", lambda self, name: arms[name])
        return Retriever(**{"vector_weight": 0.5, "gram_weight": 0.0, "normalize": "minmax", **params}).fit(
            _corpus(*rows)
        )

    return fit
