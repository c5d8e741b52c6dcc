"""Search over a lake of buckets: each is an index of its own, with weights that all of them together decide.

What a score depends on besides its row (how many rows have a term, how long rows are, the sample that cosines are
calibrated by, means) is counted once over all buckets. So a question to one bucket, or to all, has the scores that one
index over everything gives. What the buckets find is laid out as a small index of the memories found, and ranked there.
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from heapq import nsmallest
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import MemkitError, ParameterError
from memkit.index.cache import shared_cache
from memkit.index.centre import MIN_ROWS, Centring, scripts
from memkit.index.encode import as_encoder, as_texts
from memkit.index.encoders.base import Calibration
from memkit.index.lexical import Totals
from memkit.index.nearest import SCORE_DIGITS, STEP
from memkit.index.postings import Postings
from memkit.parallel import results
from memkit.schemas import Floats, Ints
from memkit.search.fitted.arms import KINDS, as_days, taken
from memkit.search.fitted.index import _BACKGROUND, SearchIndex, build_index
from memkit.search.settings import FitSettings, QuerySettings
from memkit.search.stages.rank import Candidates, merge
from memkit.tables.buckets import Buckets
from memkit.tables.corpus import Corpus

OPEN = 8
"""Buckets whose indexes are held at once; the one asked longest ago goes first."""
AT_ONCE = 2_000_000
"""Memories of which one index may be made in memory, for what looks at more than hits."""
_VECTOR = "vector"


@dataclass
class Counted:
    """What one bucket, or all, add to the weights.

    Attributes
    ----------
    n_rows : int
    is_dated : bool
    terms : dict of str to Counter
        By arm, how many rows have each term.
    lengths : dict of str to int
        By arm, the terms of all rows.
    sample : list of tuple (key, place, vector, text)
        Rows with the least hashes, and where they are in the order of ids.
    sums : list of tuple (ndarray of shape (dim,), int)
        Of the vectors of all texts, of Latin and of Cyrillic ones, and how many these are.
    """

    n_rows: int = 0
    is_dated: bool = False
    terms: dict[str, Counter[str]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    sample: list[tuple[Any, tuple[str, int], Any, str]] = field(default_factory=list)
    sums: list[tuple[Any, int]] = field(default_factory=list)

    def add(self, other: Counted) -> None:
        """Take in those of another bucket."""
        self.n_rows, self.is_dated = self.n_rows + other.n_rows, self.is_dated or other.is_dated
        for name, counts in other.terms.items():
            self.terms.setdefault(name, Counter()).update(counts)
            self.lengths[name] = self.lengths.get(name, 0) + other.lengths[name]
        first: dict[Any, Any] = {}
        for one in sorted([*self.sample, *other.sample], key=lambda one: one[1]):
            first.setdefault(one[0], one)
        self.sample = sorted((first[key] for key in nsmallest(_BACKGROUND, first)), key=lambda one: one[1])
        if other.sums:
            own = self.sums or [(0.0, 0)] * len(other.sums)
            self.sums = [(a + c, b + d) for (a, b), (c, d) in zip(own, other.sums, strict=True)]

    def means(self, mode: str) -> Floats:
        """What is taken off Latin, Cyrillic and other vectors, as `Centring.fit` learns it."""
        (total, n), *others = self.sums
        common = total / n if n >= MIN_ROWS else np.zeros_like(total)
        if mode == "corpus":
            return np.tile(common, (3, 1))
        return np.stack([*(one / m if m >= MIN_ROWS else common for one, m in others), common])


def count(folder: Path, trusted: bool, number: int, settings: FitSettings, arms: Sequence[str]) -> Counted:
    """What a bucket adds to the weights; vectors of its texts are in the cache from then on."""
    index = build_index(Buckets(folder, trusted).bucket(number), settings)
    found = Counted(index.chunks.num_rows, index.is_dated)
    for name in arms:
        if name != _VECTOR:
            postings = _counts(index, name)
            found.terms[name] = Counter(dict(zip(postings.terms, postings.document_frequency.tolist(), strict=True)))
            found.lengths[name] = int(postings.counts.sum())
        elif found.n_rows:
            _sample(index, found)
    return found


def _counts(index: SearchIndex, name: str) -> Postings:
    postings: Postings = KINDS[name].make(index.settings)._count(index.texts)  # type: ignore[attr-defined]  # lexical
    return postings


def _encoded(index: SearchIndex) -> Any:
    return shared_cache().encode(as_encoder(index.settings.encoder), as_texts(index.texts))


def _sample(index: SearchIndex, found: Counted) -> None:
    vectors, texts = _encoded(index), as_texts(index.texts)
    rows, chunks = index.background, index.chunks
    names, ordinals = (taken(chunks[name], rows).to_pylist() for name in ("memory_id", "ordinal"))
    keys = index.keys[rows].tolist()
    found.sample = [
        (key, (name, ordinal), vectors[row], texts[row])
        for key, name, ordinal, row in zip(keys, names, ordinals, rows.tolist(), strict=True)
    ]
    if index.settings.centre == "none":
        return
    live, script = vectors.any(axis=1), scripts(texts)
    for chosen in (live, live & (script == 0), live & (script == 1)):
        found.sums.append((vectors[chosen].sum(axis=0, dtype=np.float64), int(chosen.sum())))


class BucketIndex:
    """The indexes of a lake of buckets, each opened when a question needs it.

    Parameters
    ----------
    arms : sequence of str
        Those whose totals are counted; others need a new fit.
    """

    def __init__(self, corpus: Buckets, settings: FitSettings, arms: Sequence[str]) -> None:
        if getattr(as_encoder(settings.encoder), "refitted", False) if settings.encoder is not None else False:
            raise ParameterError("Retriever: an encoder that learns from the corpus needs one index: fit to whole().")
        if settings.context_column is not None or settings.engine != "local":
            raise ParameterError(
                "Retriever: buckets are searched by local arms without context_column: fit to whole()."
            )
        self.corpus, self.settings, self.names = corpus, settings, tuple(arms)
        assert corpus.folder is not None
        tasks = ((corpus.folder, corpus.trusted, number, settings, self.names) for number in range(len(corpus)))
        self.counted = Counted()
        for found in results(count, tasks):
            self.counted.add(found)
        self._totals = {name: self._total(name) for name in self.counted.terms}
        self._open: OrderedDict[int, SearchIndex] = OrderedDict()
        self._lock = Lock()
        self.arms: dict[str, Any] = dict.fromkeys(self.names)
        self.fingerprint = as_encoder(settings.encoder).fingerprint if _VECTOR in self.names else None
        self.absent: dict[str, str] = {} if settings.encoder is not None else {_VECTOR: "encoder is None"}

    @cached_property
    def whole(self) -> SearchIndex:
        """One index over all memories, for what looks at more than hits.

        Raises
        ------
        MemkitError
            Where they are too many to be held at once.
        """
        if self.corpus.n_memories > AT_ONCE:
            raise MemkitError(
                f"this holds all memories in memory at once, at most {AT_ONCE:,}. Got {self.corpus.n_memories:,}: fit"
                " the Retriever to some buckets, lake.bucket(number), or to a sample of the users."
            )
        return build_index(self.corpus.whole(), self.settings)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MemkitError(
            f"this needs one index over all memories ('{name}'), and the Retriever was fitted to buckets. Fit it to"
            " lake.whole(), or to one bucket, lake.bucket(number)."
        )

    def _total(self, name: str) -> tuple[dict[str, int], Totals]:
        counts = self.counted.terms[name]
        terms = sorted(counts)
        df = np.array([counts[term] for term in terms], np.int64)
        mean = self.counted.lengths[name] / self.counted.n_rows
        return dict(zip(terms, range(len(terms)), strict=True)), Totals(self.counted.n_rows, df, mean)

    def bucket(self, number: int) -> SearchIndex:
        """The index of one bucket."""
        with self._lock:
            if number in self._open:
                self._open.move_to_end(number)
                return self._open[number]
            index = self._opened(self.corpus.bucket(number))
            self._open[number] = index
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
            return index

    def _opened(self, corpus: Corpus) -> SearchIndex:
        index = build_index(corpus, self.settings)
        index.is_dated = self.counted.is_dated
        for name in self.names if index.chunks.num_rows else ():
            index.arms[name] = self._dense(index) if name == _VECTOR else self._lexical(index, name)
        return index

    def _lexical(self, index: SearchIndex, name: str) -> Any:
        arm: Any = KINDS[name].make(self.settings)
        terms, arm.totals_ = self._totals[name]
        own = _counts(index, name)
        lengths = np.zeros(len(terms), np.int64)
        lengths[np.fromiter((terms[term] for term in own.terms), np.int64, len(own.terms))] = own.document_frequency
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return arm._use(Postings(terms, offsets, own.rows, own.counts, own.n_rows))

    def _dense(self, index: SearchIndex) -> Any:
        arm: Any = KINDS[_VECTOR].make(self.settings)
        raw, texts = _encoded(index), as_texts(index.texts)
        arm.encoder_, arm.cache_, arm.centring_ = as_encoder(self.settings.encoder), shared_cache(), self._centring()
        arm.vectors_ = arm.centring_.transform(raw, texts)
        arm.index_ = arm._build(arm.vectors_)
        arm._fitted_to(index.chunks, texts)
        return arm

    def _centring(self) -> Centring:
        centring = Centring(mode=self.settings.centre)
        centring.means_ = np.zeros((3, 1)) if self.settings.centre == "none" else self.counted.means(centring.mode)
        return centring

    def weights(self, settings: QuerySettings) -> dict[str, float]:
        """As `SearchIndex.weights`.

        Raises
        ------
        ParameterError
            For an arm that had no weight at fit.
        """
        weights = empty_index(self.settings).weights(settings)
        if unknown := [name for name in weights if name not in self.names]:
            raise ParameterError(f"Retriever: the arm '{unknown[0]}' had no weight at fit. Fit again with its weight.")
        return weights

    def find(
        self, asked: Sequence[str], n: int, scoped: Sequence[tuple[int, Any]], how: QuerySettings, on: datetime
    ) -> tuple[SearchIndex, Candidates]:
        """The best `n` chunks of each arm over some buckets, and a small index of their memories.

        Parameters
        ----------
        scoped : sequence of tuple (int, ndarray of bool or None)
            Numbers of buckets, and which of their chunks may be found.
        """
        weights = self.weights(how)
        parts = []
        for number, allowed in scoped:
            index = self.bucket(number)
            parts.append((index, index.find(asked, n, allowed, weights, how, on)))
        small, places = self._small(parts)
        found = {name: self._best(name, n, parts, places) for name in weights}
        scale = self._scale(parts[0][0], asked, weights, how, on) if small.chunks.num_rows else None
        return small, merge(found, small.chunks.num_rows, n, scale)

    def _small(self, parts: Sequence[tuple[SearchIndex, Candidates]]) -> tuple[SearchIndex, list[Ints]]:
        """An index of the memories found, and for each part the rows there of its chunks, -1 for those that are not."""
        chosen = [np.unique(index.rows.memory[found.row]) for index, found in parts]
        memories = [taken(index.memories, some) for (index, _), some in zip(parts, chosen, strict=True)]
        small = build_index(Corpus({"memories": pa.concat_tables(memories)}), self.settings)
        small.is_part, small.is_dated, ids = True, self.counted.is_dated, small.chunks["chunk_id"]
        places = [
            pc.fill_null(pc.index_in(index.chunks["chunk_id"], value_set=ids), -1).to_numpy() for index, _ in parts
        ]
        for name in self.names:
            small.arms[name] = copy.copy(next((i.arms[name] for i, _ in parts if name in i.arms), None))
        if small.arms.get(_VECTOR) is not None:
            vectors = np.zeros((small.chunks.num_rows, small.arms[_VECTOR].vectors_.shape[1]), np.float32)
            for (index, _), place in zip(parts, places, strict=True):
                there = np.flatnonzero(place >= 0)
                if len(there):
                    vectors[place[there]] = index.arms[_VECTOR].vectors_[there]
            small.arms[_VECTOR].vectors_ = vectors
        return small, places

    def _best(
        self, name: str, n: int, parts: Sequence[tuple[SearchIndex, Candidates]], places: Sequence[Ints]
    ) -> pa.Table:
        """The best `n` of an arm for each query; rows without a vector after all others, as `Dense` has them."""
        columns: list[tuple[Any, ...]] = []
        for (index, found), place in zip(parts, places, strict=True):
            if name not in found.arms:
                continue
            at = found.arms.index(name)
            some = np.flatnonzero(found.rank[:, at] > 0)
            if not len(some):
                continue
            row = found.row[some]
            empty = ~index.arms[name].vectors_[row].any(axis=1) if name == _VECTOR else np.zeros(len(row), bool)
            columns.append((found.query[some], place[row], found.raw[some, at], empty))
        if not columns:
            return pa.table({name: pa.array([], type) for name, type in _FOUND.items()})
        query, row, score, empty = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.lexsort((row, -score, empty, query))
        query, row, score, empty = query[order], row[order], score[order], empty[order]
        first = np.searchsorted(query, query)
        kept = np.arange(len(query)) - first < n
        last = np.minimum.reduceat(np.where(empty, np.inf, score), np.unique(first)) if len(query) else score
        below = np.minimum(0.0, last - STEP).round(SCORE_DIGITS)[np.unique(first, return_inverse=True)[1]]
        score = np.where(empty, below, score)
        return pa.table({"query": query[kept], "row": row[kept], "score": score[kept]})

    def _scale(
        self, index: SearchIndex, asked: Sequence[str], weights: dict[str, float], how: QuerySettings, on: datetime
    ) -> Floats:
        """As `SearchIndex.find` has it of all rows."""
        dated = as_days(index, asked, on) if how.read_dates else asked
        scales = []
        for name in weights:
            put = dated if KINDS[name].reads_dates else asked
            if name == _VECTOR:
                scales.append(self._vector_scale(index, put))
            else:
                arm = self._lexical(index, name) if name not in index.arms else index.arms[name]
                scales.append(arm.scale(put, np.empty(0, np.int64), **KINDS[name].options(how)))
        return np.stack(scales, axis=1)

    def _vector_scale(self, index: SearchIndex, asked: Sequence[str]) -> Floats:
        arm = index.arms.get(_VECTOR) or self._dense(index)
        sample = np.stack([one[2] for one in self.counted.sample])
        background = arm.centring_.transform(sample, [one[3] for one in self.counted.sample])
        known = getattr(arm.encoder_, "calibration", None)
        known = Calibration() if known is None or self.settings.centre != "none" else known
        scale: Floats = known.scale(arm.encode_queries(asked) @ background.T).round(SCORE_DIGITS)
        return scale


_FOUND = {"query": pa.int64(), "row": pa.int64(), "score": pa.float64()}


def empty_index(settings: FitSettings) -> SearchIndex:
    """An index of nothing, which knows what the arms weigh."""
    from memkit.schemas import TABLES

    return build_index(Corpus({"memories": TABLES["memories"].empty_table()}), settings)
