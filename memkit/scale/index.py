"""Search over a sharded corpus: each shard (bucket) is an index of its own, with collection statistics of all shards.

Document frequencies, mean length, the sample for calibration, and means are counted once over all buckets. So a query
to one bucket, or to all, has the scores of a single index. The candidates of the buckets are put into a small index of
their memories, and ranked there.
"""

from __future__ import annotations

import copy
import operator
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import results
from memkit.errors import MemkitError, ParameterError, count_of
from memkit.index.ann import SCORE_DIGITS, STEP, Centring
from memkit.index.arm import AUTO, Sight
from memkit.index.cache import shared_cache
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import as_texts
from memkit.index.postings import Postings
from memkit.scale.buckets import VECTOR, Buckets, Statistics, counts_of, key_of, vectors_of
from memkit.schemas import TABLES, Ints
from memkit.search.ask import Ask, QuerySettings
from memkit.search.fitted.across import Vocabulary
from memkit.search.fitted.chunks import Index, take_rows
from memkit.search.fitted.index import Answer, MemoryIndex, Reading, Searchable, build, of_chunks
from memkit.search.state import Candidates, merge
from memkit.search.steps.recall import ARMS, depth_of, nearest_words
from memkit.search.steps.scope import Predicate, Scope, areas_of, make_scope, memories_where, replaced_by
from memkit.tables.corpus import Corpus
from memkit.tables.lake import TOTALS
from memkit.tables.untrusted import with_nulls
from memkit.text.analyse import ranges

# Eight buckets of 50,000 memories take 1.2 GB; one of 400,000 took 2.
OPEN = 8
"""Most bucket indexes in memory; the least recently used is dropped first."""
# A round bound; 100,000 long notes take 2.6 GB.
AT_ONCE = 2_000_000
"""Most memories for one index in memory, for traces, sweeps and audits."""
_SUBQUERY = re.compile(r"(?i)\b(?:select|from|with)\b")


_PartCandidates = tuple[MemoryIndex, dict[str, pa.Table]]
"""A bucket's index, and what each arm found there."""


def count(folder: Path, trusted: bool, number: int, settings: Index, arms: Sequence[str]) -> Statistics:
    """The statistics of a bucket; the vectors of its texts are then in the cache."""
    return _counted(build(Buckets(folder, trusted).bucket(number), settings), arms)


def _counted(index: MemoryIndex, arms: Sequence[str]) -> Statistics:
    postings = {name: counts_of(index, name) for name in arms if name != VECTOR}
    vectors = vectors_of(index) if VECTOR in arms and index.chunks.num_rows else None
    return Statistics.from_index(index, postings, vectors)


class BucketIndex:
    """The indexes of a lake of buckets, each opened when a question needs it.

    Parameters
    ----------
    arms : sequence of str
        The arms whose statistics are counted; others need a new fit.
    """

    def __init__(self, corpus: Buckets, settings: Index, arms: Sequence[str]) -> None:
        self.corpus: Buckets = corpus
        self.settings, self.names = settings, tuple(arms)
        self.statistics = self._collected()
        self._totals = {name: self.statistics.total(name) for name in self.statistics.lengths}
        self._open: OrderedDict[int, MemoryIndex] = OrderedDict()
        self._lock = Lock()
        self._vocabulary: Vocabulary | None = None
        self.arms: dict[str, Any] = dict.fromkeys(self.names)
        self.fingerprint = as_encoder(settings.encoder).fingerprint if VECTOR in self.names else None
        self.absent: dict[str, str] = {} if settings.encoder is not None else {VECTOR: "encoder is None"}
        self.encode_limit: int | None = None

    def encode(self, how: QuerySettings) -> int:
        """Encode nothing: buckets are encoded at fit, as their statistics need all vectors."""
        return 0

    def waiting_note(self, remedy: str = "") -> str:
        """No sentence, as meaning never waits."""
        return ""

    def _collected(self) -> Statistics:
        """The saved statistics, else those counted in the buckets."""
        assert self.corpus.folder is not None
        folder, trusted = self.corpus.folder, self.corpus.trusted
        if (saved := folder / TOTALS / key_of(self.corpus, self.settings, self.names)).is_dir():
            return Statistics.load(saved, trusted)
        total = Statistics()
        tasks = ((folder, trusted, number, self.settings, self.names) for number in range(len(self.corpus)))
        for statistics in results(count, tasks):
            total.add(statistics)
        return total

    def __str__(self) -> str:
        return f"{self.corpus!r}, {count_of(self.statistics.n_rows, 'chunk')}; arms: {', '.join(self.names)}"

    @cached_property
    def whole(self) -> MemoryIndex:
        """One index over all memories, for traces, sweeps and audits.

        Raises
        ------
        MemkitError
            If there are too many memories to hold at once.
        """
        if self.corpus.n_memories > AT_ONCE:
            raise MemkitError(
                f"this holds all memories in memory at once, at most {AT_ONCE:,}. Got {self.corpus.n_memories:,}: fit"
                " the Retriever to some buckets, lake.bucket(number), or to a sample of the users."
            )
        whole = build(self.corpus.whole(), self.settings)
        whole.conversations = None  # as over the buckets
        return whole

    def _as_part(self, index: MemoryIndex) -> MemoryIndex:
        """An index of some memories, which is told what is known of all; the arm of meaning has the sample of all."""
        index.is_whole, index.is_dated, index.background = False, self.statistics.is_dated, np.empty(0, np.int64)
        index.conversations = None  # one without a user may lie in several buckets
        return index

    def bucket(self, number: int) -> MemoryIndex:
        """The index of one bucket."""
        with self._lock:
            if number in self._open:
                self._open.move_to_end(number)
                return self._open[number]
            index = self._open[number] = self._opened(self.corpus.bucket(number))
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
            return index

    def _opened(self, corpus: Corpus) -> MemoryIndex:
        index = self._as_part(build(corpus, self.settings))
        for name in self.names if index.chunks.num_rows else ():
            index.arms[name] = self._dense(index) if name == VECTOR else self.lexical(index, name)
        return index

    def lexical(self, index: MemoryIndex, name: str) -> Any:
        """An arm over the rows of a part, with the statistics of all."""
        arm: Any = ARMS[name].make(self.settings)
        terms, arm.statistics_ = self._totals[name]
        counts = counts_of(index, name)
        lengths = np.zeros(len(terms), np.int64)
        lengths[np.fromiter((terms[term] for term in counts.terms), np.int64, len(counts.terms))] = (
            counts.document_frequency
        )
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return arm._set_postings(Postings(terms, offsets, counts.rows, counts.counts, counts.n_rows))

    def _dense(self, index: MemoryIndex) -> Any:
        arm: Any = ARMS[VECTOR].make(self.settings)
        raw, texts, centring = vectors_of(index), as_texts(index.texts), Centring(mode=self.settings.centre)
        centring.means_ = np.zeros((3, 1)) if centring.mode == "none" else self.statistics.means(centring.mode)
        arm.encoder_, arm.cache_, arm.centring_ = as_encoder(self.settings.encoder), shared_cache(), centring
        arm.vectors_ = arm.centring_.transform(raw, texts)
        arm.index_ = arm._build(arm.vectors_)
        arm._fitted_to(index.chunks, texts)
        vectors, sampled = zip(*((text[2], text[3]) for text in self.statistics.sample), strict=True)
        arm.background_ = arm.centring_.transform(np.stack(vectors), list(sampled))
        return arm

    @cached_property
    def _empty_index(self) -> MemoryIndex:
        return empty_index(self.settings)  # four milliseconds, and each question asks for its weights

    def weights(self, settings: QuerySettings) -> dict[str, float]:
        """As `MemoryIndex.weights`.

        Raises
        ------
        ParameterError
            For an arm that had no weight at fit.
        """
        weights = self._empty_index.weights(settings)
        if unknown := [name for name in weights if name not in self.names]:
            raise ParameterError(f"Retriever: the arm '{unknown[0]}' had no weight at fit. Fit again with its weight.")
        return weights

    def ready(self, how: QuerySettings) -> None:
        """As `MemoryIndex.ready`: a bucket is opened when a question needs it."""
        self.weights(how)

    def is_fitted_on(self, corpus: Corpus) -> bool:
        """Whether these are the buckets of `corpus`, in the save that was fitted."""
        return isinstance(corpus, Buckets) and corpus.is_same(self.corpus)

    def answer(self, ask: Ask) -> Answer:
        """As `MemoryIndex.answer`, over the buckets that are needed; rows are those of the small index."""
        where: Predicate = ask.where
        if ask.where and _SUBQUERY.search(ask.where):  # which reads the memories of all buckets
            where = memories_where(self.corpus.ask, ask.where)
        parts = [self.bucket(number) for number in self.corpus.needed(ask.user_id)]
        areas = None if ask.scope is None else frozenset[str]().union(*(areas_of(part, ask) for part in parts))
        scopes = [make_scope(part, ask, where, areas) for part in parts]
        unknown = ask.user_id if all(scope.unknown_user is not None for scope in scopes) else None
        counted = [scope.unseen for scope in scopes if scope.unseen is not None]
        unseen = reduce(operator.add, counted) if counted else None
        scoped = [(part, scope) for part, scope in zip(parts, scopes, strict=True) if part.chunks.num_rows]
        sight = Sight.joined([part.sight(scope.allowed) for part, scope in scoped])
        weights = self.weights(ask.settings)
        nearest = nearest_words(scoped[0][0], ask, weights, sight) if scoped else ()
        readings = [(part, Reading(ask, scope, weights, sight, nearest)) for part, scope in scoped]
        small, candidates = self._retrieve(ask, weights, readings)
        ids = small.memories["memory_id"]
        replaced = [replaced_by(part.memories, part.rows, scope, ids) for part, scope in scoped]
        together = pa.concat_tables(replaced) if replaced else None
        scope = Scope(None, None, None, None, unseen, unknown, replaced=together)
        return Answer(small, Reading(ask, scope, weights, sight, nearest), candidates)

    def _retrieve(
        self, ask: Ask, weights: dict[str, float], readings: Sequence[tuple[MemoryIndex, Reading]]
    ) -> tuple[MemoryIndex, Candidates]:
        """The best of each arm over the buckets that have chunks, and a small index of their memories."""
        n, arms = depth_of(ask.settings), [ARMS[name] for name in weights]
        parts: list[_PartCandidates] = []
        for index, reading in readings:
            parts.append((index, {arm.name: arm.candidates(index, reading, n, reading.scope.allowed) for arm in arms}))
        best = _best_by_arm(parts, list(weights), n)
        small, rows = self._joined(parts, best)
        candidates = {
            name: table.select(["query", "score"]).append_column("row", [rows[name]]) for name, table in best.items()
        }
        scale = np.stack([arm.scale(*readings[0]) for arm in arms], axis=1) if small.chunks.num_rows else None
        return small, merge(candidates, small.chunks.num_rows, n, scale)

    def _joined(
        self, parts: Sequence[_PartCandidates], best: Mapping[str, pa.Table]
    ) -> tuple[MemoryIndex, dict[str, Ints]]:
        """The rows of the candidates' memories, of all parts, as one index; and the row in it of each candidate."""
        if not parts:
            return self._as_part(empty_index(self.settings)), {name: np.empty(0, np.int64) for name in best}
        positions = {name: (table["part"].to_numpy(), table["row"].to_numpy()) for name, table in best.items()}
        indexes = [index for index, _ in parts]
        chosen = [_memories_of(index, number, positions.values()) for number, index in enumerate(indexes)]
        found = [
            with_nulls(take_rows(index.memories, some), TABLES["memories"])[0]
            for index, some in zip(indexes, chosen, strict=True)
        ]
        memories = pa.concat_tables([TABLES["memories"].empty_table(), *found], promote_options="default")
        by_id = pc.sort_indices(memories["memory_id"]).to_numpy()
        rows = [_chunks_of(index, some) for index, some in zip(indexes, chosen, strict=True)]
        ends = np.cumsum([0, *map(len, chosen)])
        memory = [
            end + np.searchsorted(some, index.rows.memory[row])
            for index, some, row, end in zip(indexes, chosen, rows, ends[:-1].tolist(), strict=True)
        ]
        # The order of an order is its inverse: the place of each memory by id.
        order = np.argsort(np.argsort(by_id)[np.concatenate(memory)], kind="stable")
        table = pa.concat_tables([take_rows(index.table, row) for index, row in zip(indexes, rows, strict=True)])
        memories = memories.take(pa.array(by_id)).combine_chunks()
        table = take_rows(table.combine_chunks(), order)
        joined = self._as_part(of_chunks(Corpus({"memories": memories}), self.settings, memories, table))
        self._give_arms(joined, indexes, rows, order)
        place, starts = np.argsort(order), np.cumsum([0, *map(len, rows)])
        places_of = {name: np.empty(len(part), np.int64) for name, (part, _) in positions.items()}
        for number, row in enumerate(rows):
            for name, (part, found_rows) in positions.items():
                is_its = part == number
                places_of[name][is_its] = place[starts[number] + np.searchsorted(row, found_rows[is_its])]
        return joined, places_of

    def _give_arms(
        self, joined: MemoryIndex, indexes: Sequence[MemoryIndex], rows: Sequence[Ints], order: Ints
    ) -> None:
        """Give an index of some rows of parts, in `order`, what steps ask of arms: scales, vectors, other words."""
        joined.arms = {name: copy.copy(arm) for name, arm in indexes[0].arms.items()}
        if VECTOR in self.names:
            vectors = [index.arms[VECTOR].vectors_[row] for index, row in zip(indexes, rows, strict=True)]
            joined.arms[VECTOR].vectors_ = np.concatenate(vectors)[order]
        self._vocabulary = joined.vocabulary = self._vocabulary or joined.vocabulary
        if joined.vocabulary is not None:
            joined.arms["bm25"] = self.lexical(joined, "bm25")


_COLUMNS = {"query": pa.int64(), "row": pa.int64(), "score": pa.float64(), "part": pa.int64()}
_FOUND = dict.fromkeys(("query", "row", "part", "memory", "rank"), np.int64) | {"score": np.float64, "empty": bool}
"""What is known of the chunks that an arm found: their part, a number for their memory, whether they have no vector,
their place by id."""


def _best_by_arm(parts: Sequence[_PartCandidates], arms: Sequence[str], n: int) -> dict[str, pa.Table]:
    """By arm the best `n` chunks over all parts for each query: query, row (in its part), score and part."""
    rows = [
        np.unique(np.concatenate([table["row"].to_numpy() for table in candidates.values()])) for _, candidates in parts
    ]
    ranks = _ranks([index for index, _ in parts], rows)
    first = np.cumsum([0, *(index.memories.num_rows for index, _ in parts)])
    best = {}
    for name in arms:
        columns: dict[str, list[Any]] = {column: [np.empty(0, kind)] for column, kind in _FOUND.items()}
        for number, (index, candidates) in enumerate(parts):
            found = {column: candidates[name][column].to_numpy() for column in ("query", "row", "score")}
            row = found["row"]
            found["part"] = np.full(len(row), number)
            found["memory"] = index.rows.memory[row] + first[number]
            found["empty"] = ~index.arms[name].vectors_[row].any(axis=1) if name == VECTOR else np.zeros(len(row), bool)
            found["rank"] = ranks[number][np.searchsorted(rows[number], row)]
            for column, values in found.items():
                columns[column].append(values)
        best[name] = _best_rows(n, {column: np.concatenate(values) for column, values in columns.items()})
    return best


def _ranks(indexes: Sequence[MemoryIndex], rows: Sequence[Ints]) -> list[Ints]:
    """The place of each of the `rows` of each index in the order of ids over all of them."""
    if not indexes:
        return []
    named = [
        take_rows(index.memories["memory_id"], index.rows.memory[some])
        for index, some in zip(indexes, rows, strict=True)
    ]
    ids = pa.chunked_array([chunk for column in named for chunk in column.chunks], pa.string())
    order = pc.sort_indices(
        pa.table({"id": ids, "row": np.concatenate(rows)}), sort_keys=[("id", "ascending"), ("row", "ascending")]
    ).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return np.split(rank, np.cumsum([len(some) for some in rows])[:-1])


def _best_rows(n: int, found: Mapping[str, Any]) -> pa.Table:
    """The best `n` of each query, ties by rank; rows without a vector come last, as in `Dense`.

    `found` has the columns of `_FOUND`.
    """
    order = np.lexsort((found["rank"], -found["score"], found["empty"], found["query"]))
    query, score, empty = (found[name][order] for name in ("query", "score", "empty"))
    first = np.searchsorted(query, query)
    kept = Candidates.within(query, n, found["memory"][order])
    last = np.minimum.reduceat(np.where(empty, np.inf, score), np.unique(first)) if len(query) else score
    below = np.minimum(0.0, last - STEP).round(SCORE_DIGITS)[np.unique(first, return_inverse=True)[1]]
    score = np.where(empty, below, score)
    columns = {name: values[order][kept] for name, values in found.items()} | {"score": score[kept]}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in _COLUMNS.items()})


def _memories_of(index: MemoryIndex, number: int, positions: Iterable[tuple[Ints, Ints]]) -> Ints:
    """The memories, ascending, whose chunks were found in the part `number`."""
    rows = [row[part == number] for part, row in positions]
    return np.unique(index.rows.memory[np.concatenate([np.empty(0, np.int64), *rows])]).astype(np.int64)


def _chunks_of(index: MemoryIndex, memory: Ints) -> Ints:
    """The chunks of some memories, ascending."""
    of_chunk = index.rows.memory
    first, last = (np.searchsorted(of_chunk, (memory + beyond).astype(of_chunk.dtype)) for beyond in (0, 1))
    return ranges(first, last - first)


def bucket_index(corpus: Buckets, settings: Index, how: QuerySettings) -> BucketIndex:
    """The index over a sharded corpus, with the arms that have a weight."""
    check_settings(settings)
    return BucketIndex(corpus, settings, list(empty_index(settings).weights(how)))


def check_settings(settings: Index) -> None:
    """Raise if buckets cannot be searched with these settings."""
    if getattr(as_encoder(settings.encoder), "refitted", False) if settings.encoder is not None else False:
        raise ParameterError("Retriever: an encoder that learns from the corpus needs one index: fit to whole().")
    if settings.context_column not in (None, AUTO) or settings.engine != "local":
        raise ParameterError("Retriever: buckets are searched by local arms without context_column: fit to whole().")


def save_statistics(folder: Path, index: Searchable, how: QuerySettings) -> None:
    """Write the collection statistics of `index` to `folder`, beside buckets that are searched with its settings."""
    try:
        check_settings(index.settings)
    except ParameterError:  # which no buckets are searched with
        return
    arms = index.names if isinstance(index, BucketIndex) else list(index.weights(how))
    statistics = index.statistics if isinstance(index, BucketIndex) else _counted(index.whole, arms)
    statistics.save(folder / key_of(Buckets(folder.parent), index.settings, arms))


def empty_index(settings: Index) -> MemoryIndex:
    """An empty index, for the weights of the arms."""
    return build(Corpus({"memories": TABLES["memories"].empty_table()}), settings)
