"""External engines that retrieve candidates in place of memkit's own arms, with the same weights and vectors.

An engine stores numbered rows and computes inner products; it gets no words or texts. memkit stems, weights and encodes
documents and queries, so that scores are the same with any engine. memkit also does fusion, decay and all later stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from tempfile import TemporaryFile
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from memkit.base.hashes import digest
from memkit.errors import ParameterError, did_you_mean
from memkit.index.ann import SCORE_DIGITS, STEP
from memkit.index.arm import AUTO
from memkit.index.dense import Dense
from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.index import MemoryIndex

LOCAL = "local"
# A round bound of what one expression of a filter holds.
ALLOWED = 10_000
"""Most row numbers in a filter; for more rows, more candidates are fetched and filtered here."""
# As in a local search: rows that tie with the last one are settled in double precision.
_SLACK = 16
# Milvus answers with 16,384 rows at most.
_MOST = 16_000
# A round bound: 4 MB with vectors of 512 numbers.
_PUT = 2_000
Hits = tuple[Ints, Floats]
_NONE: Hits = (np.empty(0, np.int64), np.empty(0))
_METHODS = ("put", "candidates", "drop")


class Engine(Protocol):
    """The interface of an engine: it stores rows and finds those with the largest inner product."""

    def put(self, name: str, rows: pa.Table) -> None:
        """Store `rows` in the collection `name`; a row with a known id replaces the former one.

        Columns id and user (int64, memkit's numbers), and ``vector`` (list of float32) or ``terms`` (list of int64) and
        ``weights`` (list of float32).
        """

    def candidates(
        self, name: str, queries: pa.Table, n: int, ids: Sequence[int] | None = None, user: int | None = None
    ) -> pa.Table:
        """At most `n` rows for each of `queries`, best first: query, id (int64), score (float64, inner product).

        `queries` have the columns of `put` without id and user. `ids` and `user` are filters on rows.
        """

    def drop(self, name: str) -> None:
        """Delete the collection `name`, if it exists."""


def as_engine(spec: Any) -> Engine | None:
    """The engine that `spec` names or is; None for memkit's own arms.

    Parameters
    ----------
    spec : str or Engine
        'local', 'milvus' (at ``MILVUS_URI``, else on this machine), 'milvus:URI' or 'milvus:FILE.db', or an object with
        put, candidates and drop.

    Raises
    ------
    ParameterError
        For anything else.

    Examples
    --------
    >>> as_engine("local") is None
    True
    """
    if isinstance(spec, str):
        kind, _, address = spec.partition(":")
        if spec == LOCAL:
            return None
        if kind == "milvus":
            return _milvus(address or None)
    elif all(callable(getattr(spec, name, None)) for name in _METHODS):
        engine: Engine = spec
        return engine
    raise ParameterError(
        "Retriever: 'engine' must be 'local', 'milvus', 'milvus:URI', or an object with put, candidates and drop."
        f" Got {spec!r:.200}.{did_you_mean(spec, (LOCAL, 'milvus'))}"
    )


@cache
def _milvus(address: str | None) -> Engine:
    from memkit.scale.milvus import Milvus

    return Milvus(address)


@dataclass
class EngineArm:
    """Retrieves the candidates of a fitted arm from an engine, which gets the arm's rows at the first query.

    Parameters
    ----------
    arm : Dense, BM25, CharGrams or Grams
    digest : str
        Hash of the fitted data, so that rows of another fit are never used.
    user : ndarray of int64, shape (n_rows,)
        The number of each row's user.
    filled : ndarray of bool, shape (n_rows,), or None
        Rows that are not empty; None: all.
    """

    engine: Engine
    arm: Any
    name: str
    digest: str
    user: Ints
    filled: Mask | None = None

    def candidates(self, queries: Sequence[str], n: int, allowed: Mask | None = None, **options: Any) -> pa.Table:
        """The candidates of the arm, equal up to the last digits of single precision."""
        requests = _requests(self.arm, queries, options)
        live = np.flatnonzero([len(request) > 0 for request in requests.column(0).to_pylist()])
        hits_by_query = self._best(requests.take(pa.array(live)), n, allowed) if len(live) else []
        hits_by_query = [self._with_empty_rows(hits, n, allowed) for hits in hits_by_query]
        parts = [
            (np.full(len(rows), query), rows, scores) for query, (rows, scores) in zip(live, hits_by_query, strict=True)
        ]
        query, row, score = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else ([], [], [])
        columns = {"query": pa.array(query, pa.int64()), "row": pa.array(row, pa.int64())}
        return pa.table(columns | {"score": pa.array(score, pa.float64())})

    def _with_empty_rows(self, hits: Hits, n: int, allowed: Mask | None) -> Hits:
        """Append rows without a vector below all others if there is room, as `Dense` does."""
        rows, scores = hits
        if not len(rows) or len(rows) >= n or not _is_dense(self.arm):
            return hits
        empty = ~self.arm.vectors_.any(axis=1)
        for mask in (self.filled, allowed):
            empty = empty if mask is None else empty & mask
        added = np.flatnonzero(empty)[: n - len(rows)]
        below = np.full(len(added), np.minimum(0.0, scores[-1] - STEP).round(SCORE_DIGITS))
        return np.concatenate([rows, added]), np.concatenate([scores, below])

    @cached_property
    def collection(self) -> str:
        """The name of the collection in the engine; rows are uploaded if any are missing."""
        state = repr((self.name, self.digest, len(self.user)))
        name = f"memkit_{self.name}_{digest(state, 12)}"
        count = getattr(self.engine, "count", lambda name: None)(name)
        if count != len(self._rows):
            for rows, held in _held(self.arm, self._rows):
                ids = {"id": pa.array(rows, pa.int64()), "user": pa.array(self.user[rows], pa.int64())}
                self.engine.put(name, pa.table(ids | held))
        return name

    def offload(self) -> None:
        """Move the arm's own rows from memory to a file, as the engine has them; MMR still reads some."""
        if _is_dense(self.arm):
            self.arm.vectors_ = _in_file(self.arm.vectors_)
            return
        postings = self.arm.postings_
        postings.rows, postings.counts = _in_file(postings.rows), _in_file(postings.counts)

    @cached_property
    def _rows(self) -> Ints:
        live = self.arm.vectors_.any(axis=1) if _is_dense(self.arm) else _has_terms(self.arm.postings_)
        return np.flatnonzero(live if self.filled is None else live & self.filled)

    def _best(self, requests: pa.Table, n: int, allowed: Mask | None) -> list[Hits]:
        rows = self._rows if allowed is None else self._rows[allowed[self._rows]]
        if not len(rows):
            return [_NONE] * len(requests)
        if len(rows) == len(self._rows):
            return self._first_settled(requests, n)
        if len(rows) <= ALLOWED:
            return self._first_settled(requests, n, rows.tolist())
        owners, share = np.unique(self.user[rows]), len(rows) / len(self._rows)
        return self._first_among(requests, n, rows, share, int(owners[0]) if len(owners) == 1 else None)

    def _first_settled(self, requests: pa.Table, n: int, ids: list[int] | None = None) -> list[Hits]:
        """The first `n` of each query; more are fetched until the n-th score is above those not fetched."""
        want = n + _SLACK
        while True:
            fetched = self._fetch(requests, want, ids)
            if want >= _MOST or all(len(hits[0]) < want or _is_settled(hits, n) for hits in fetched):
                return [_first_hits(hits, n) for hits in fetched]
            want = min(4 * want, _MOST)

    def _first_among(self, requests: pa.Table, n: int, rows: Ints, share: float, user: int | None) -> list[Hits]:
        """The first `n` among `rows`: fetch until `n` are of `rows`; if that is too many, filter by ids in parts."""
        mask, want = np.isin(np.arange(len(self.user)), rows), int((n + _SLACK) * min(2 / share, 8))
        while want <= _MOST:
            fetched = self._fetch(requests, want, user=user)
            among_rows = [(some[mask[some]], scores[mask[some]]) for some, scores in fetched]
            if all(
                len(hits[0]) < want or _is_settled(filtered, n)
                for hits, filtered in zip(fetched, among_rows, strict=True)
            ):
                return [_first_hits(filtered, n) for filtered in among_rows]
            want *= 4
        parts = [
            self._first_settled(requests, n, rows[start : start + ALLOWED].tolist())
            for start in range(0, len(rows), ALLOWED)
        ]
        joined = (zip(*some, strict=True) for some in zip(*parts, strict=True))
        return [_first_hits((np.concatenate(ids), np.concatenate(scores)), n) for ids, scores in joined]

    def _fetch(self, requests: pa.Table, n: int, ids: list[int] | None = None, user: int | None = None) -> list[Hits]:
        table = self.engine.candidates(self.collection, requests, n, ids, user)
        query, row, score = (table[name].to_numpy() for name in ("query", "id", "score"))
        order = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[order], np.arange(1, len(requests)))
        return [(row[some], score[some].astype(np.float64)) for some in np.split(order, ends)]


def _in_file(array: Any) -> Any:
    """A memory map of the array in a temporary file, which is deleted with the array."""
    if not array.size:
        return array
    with TemporaryFile(prefix="memkit-") as file:
        mapped = np.memmap(file, array.dtype, "w+", shape=array.shape)
    mapped[...] = array
    mapped.flush()
    return np.asarray(mapped)


def _is_settled(hits: Hits, n: int) -> bool:
    """Whether no row that was not fetched can be among the first `n`."""
    scores = hits[1]
    return len(scores) > n and bool(scores[n - 1] - scores[-1] > 2 * STEP)


def _first_hits(hits: Hits, n: int) -> Hits:
    """The best `n`, ties by row: engines differ in the seventh digit."""
    rows, scores = hits[0], np.round(hits[1], SCORE_DIGITS) + 0.0
    order = np.lexsort((rows, -scores))[:n]
    return rows[order], scores[order]


def _is_dense(arm: Any) -> bool:
    return isinstance(arm, Dense)


def _has_terms(postings: Any) -> Mask:
    has: Mask = np.bincount(postings.rows, minlength=postings.n_rows) > 0
    return has


def _requests(arm: Any, queries: Sequence[str], options: dict[str, Any]) -> pa.Table:
    """The vector or weighted terms of each query for the engine; an empty list if the query is empty."""
    if _is_dense(arm):
        vectors = arm.encode_queries(queries)
        return pa.table({"vector": _lists([vector if vector.any() else vector[:0] for vector in vectors], np.float32)})
    weighed = arm._weighted_queries(queries, **options)
    terms, weights = zip(*weighed, strict=True)
    return pa.table({"terms": _lists(terms, np.int64), "weights": _lists(weights, np.float32)})


def _held(arm: Any, rows: Ints) -> Iterator[tuple[Ints, dict[str, pa.Array]]]:
    """The columns of `rows` for the engine, in batches."""
    steps = [rows[start : start + _PUT] for start in range(0, len(rows), _PUT)]
    if _is_dense(arm):
        yield from ((some, {"vector": _lists(arm.vectors_[some], np.float32)}) for some in steps)
        return
    from scipy.sparse import csc_array

    postings = replace(arm.postings_)  # none is weighed, so that all will lie in the order of terms
    postings.weigh(np.arange(len(postings.terms)), arm._weights)
    shape = (postings.n_rows, len(postings.terms))
    by_row = csc_array((postings.weights, postings.wide, postings.offsets), shape).tocsr()
    for some in steps:
        spans = [slice(by_row.indptr[row], by_row.indptr[row + 1]) for row in some.tolist()]
        terms = _lists([by_row.indices[span] for span in spans], np.int64)
        yield some, {"terms": terms, "weights": _lists([by_row.data[span] for span in spans], np.float32)}


def _lists(values: Sequence[Any], kind: type) -> pa.Array:
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    joined: Any = np.concatenate([np.empty(0, kind), *values]).astype(kind)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(joined))


@dataclass
class InEngine:
    """Finds the candidates of an index's arms in an engine.

    Attributes
    ----------
    held : dict of str to EngineArm
        The arms with their rows in the engine.
    """

    engine: Engine
    held: dict[str, EngineArm] = field(default_factory=dict)

    def ready(self, index: MemoryIndex) -> None:
        """Upload the rows of the index's arms that are missing in the engine.

        Raises
        ------
        ParameterError
            If `context_column` is set.
        """
        if index.settings.context_column not in (None, AUTO):
            raise ParameterError("Index: 'context_column' looks at all rows of a conversation: engine='local' alone.")
        for name in index.arms:
            _ = (arm := self._held(index, name)).collection
            arm.offload()

    def candidates(
        self, index: MemoryIndex, name: str, queries: Sequence[str], n: int, allowed: Mask | None, /, **options: Any
    ) -> pa.Table:
        """As those of the arm, found in the engine."""
        return self._held(index, name).candidates(queries, n, allowed, **options)

    def _held(self, index: MemoryIndex, name: str) -> EngineArm:
        if name not in self.held:
            s, encoder = index.settings, index.fingerprint if name == "vector" else None
            state = repr((index.digests, s.analyzer, s.lexical, s.centre, encoder))
            owner = index.rows.owner[index.rows.memory]
            self.held[name] = EngineArm(self.engine, index.arms[name], name, state, owner, index.rows.filled)
        return self.held[name]


def elsewhere(spec: Any) -> InEngine | None:
    """What finds candidates in the engine that `spec` names or is, as for `as_engine`."""
    engine = as_engine(spec)
    return None if engine is None else InEngine(engine)
