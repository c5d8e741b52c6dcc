"""The index that `Retriever.fit` builds: chunks, their arms, and arrays about them, for all query-time settings.

`Searchable` is the interface that a Retriever uses. `MemoryIndex` is the one in memory; a room above has one whose
rows another engine holds, and one over many shards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.display.names import NAMED
from memkit.hashes import digest_of_rows
from memkit.index.centre import scripts
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import Calibration, as_texts, content_key
from memkit.index.postings import CANDIDATES
from memkit.params import Moment, check_corpus
from memkit.schemas import Ints, Mask
from memkit.search.fitted.across import TermVectors, Vocabulary, vocabulary_of
from memkit.search.fitted.arms import KINDS, Arm, build_arm, cut, take_rows
from memkit.search.fitted.context import Context, context_of
from memkit.search.fitted.rows import Rows, Scope, follow, make_rows, make_scope
from memkit.search.settings import FitSettings, QuerySettings
from memkit.search.stages.diversify import Likeness, Repeats
from memkit.search.stages.fuse import arm_weights
from memkit.search.stages.ranking import Candidates, merge
from memkit.text.analyse import terms_by
from memkit.text.when import in_days

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

_BACKGROUND = 256
_NO_ROWS = np.empty(0, np.int64)
PER_TEXT: dict[str, Callable[[pa.ChunkedArray], NDArray[Any]]] = {
    "keys": lambda texts: np.array([content_key(text, "document") for text in texts.to_pylist()], object),
}
"""Cached properties of `MemoryIndex` that are computed text by text, so that a refit computes those of new texts."""

Source = Callable[["MemoryIndex", str], Any]


@dataclass(frozen=True)
class Request:
    """Query texts at one moment, and the conditions on the memories that may answer them.

    For a trace the arms retrieve twice the pool at once, if the first half of that is the pool itself.
    """

    texts: tuple[str, ...]
    where: str | None
    moment: Moment
    to_trace: bool = False
    user_id: str | None = None


@dataclass(frozen=True)
class Answer:
    """The candidates for a request, the index whose rows they are, their scope, and the weights of the arms."""

    index: MemoryIndex
    scope: Scope
    weights: dict[str, float]
    candidates: Candidates


class Searchable(Protocol):
    """The interface of an index that a Retriever searches."""

    @property
    def corpus(self) -> Corpus: ...
    @property
    def settings(self) -> FitSettings: ...
    @property
    def arms(self) -> dict[str, Any]: ...
    @property
    def absent(self) -> dict[str, str]: ...
    @property
    def fingerprint(self) -> str | None: ...
    @property
    def digests(self) -> dict[str, Any]: ...
    @property
    def whole(self) -> MemoryIndex: ...
    def ready(self, how: QuerySettings, /) -> None: ...
    def is_fitted_on(self, corpus: Corpus, /) -> bool: ...
    def weights(self, settings: QuerySettings, /) -> dict[str, float]: ...
    def answer(self, request: Request, how: QuerySettings, /) -> Answer: ...


@dataclass(frozen=True)
class Former:
    """The former index of a refit, and the row in it of each chunk; a new chunk has a row beyond its last one."""

    index: MemoryIndex
    rows: Ints

    def __call__(self, index: MemoryIndex, name: str) -> Any:
        """Its arm, updated; None if it cannot be."""
        arm = self.index.arms.get(name)
        if arm is None or not hasattr(arm, "updated"):
            return None
        is_same = np.array_equal(self.rows, np.arange(self.index.chunks.num_rows))
        return arm if is_same else arm.updated(self.rows, index.chunks, index.texts)


@dataclass
class MemoryIndex:
    """The index of a corpus, in memory.

    Attributes
    ----------
    corpus_memories : pa.Table
        The corpus's memories in their own order; they tell whether a corpus is the fitted one.
    settings : FitSettings
    order : ndarray of int64, shape (n_memories,)
        The row of each of `memories` in `corpus_memories`.
    memories, chunks : pa.Table
        Sorted by memory_id, and by memory_id and ordinal, so that the order of rows is the order of ids.
    texts : pa.ChunkedArray
        The searched text of each chunk.
    own_texts : pa.ChunkedArray
        The same without its date and the headings above it: duplicates are found by it.
    rows : Rows
        Columns of chunks and memories for ranking.
    arms : dict of str to Arm
        The arms built so far; an arm is built when a query first gives it a weight.
    absent : dict of str to str
        Why an arm cannot be built.
    sources : list of callable
        ``source(index, name)`` is the arm from the former index or from disk, or None; if no source has it, it is
        built.
    names : dict of int to tuple
        A cache: id and names of memories, by row.
    term_vectors : dict of str to dict
        A cache: vectors of single terms, by the encoder's fingerprint.
    """

    corpus: Corpus
    corpus_memories: pa.Table
    settings: FitSettings
    order: Ints
    memories: pa.Table
    chunks: pa.Table
    texts: pa.ChunkedArray
    own_texts: pa.ChunkedArray
    rows: Rows
    arms: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    names: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    term_vectors: dict[str, TermVectors] = field(default_factory=dict)

    def __str__(self) -> str:
        arms = ", ".join(f"{a} ({self.fingerprint})" if a == "vector" else a for a in self.arms) or "none yet"
        return f"{self.memories.num_rows:,} memories, {self.chunks.num_rows:,} chunks; arms: {arms}"

    def ready(self, how: QuerySettings) -> None:
        """Build the arms that have a weight, and drop the reference to the former index, which is as large as this one.

        Raises
        ------
        ParameterError
            If no arm has a weight, or `context_column` is no column.
        """
        self.weights(how)
        _ = self.context  # an unknown column is an error at fit
        self.sources = [source for source in self.sources if not isinstance(source, Former)]

    @property
    def whole(self) -> MemoryIndex:
        """The index over all memories: this one."""
        return self

    def is_fitted_on(self, corpus: Corpus) -> bool:
        """Whether these are the memories of `corpus`."""
        check_corpus("Retriever", corpus)
        memories = corpus.tables["memories"]
        return self.corpus_memories is memories or self.corpus_memories.equals(memories)

    def answer(self, request: Request, how: QuerySettings) -> Answer:
        """The candidates of each arm for a request."""
        where, moment, user_id = request.where, request.moment, request.user_id
        scope = make_scope(self.memories, self.rows, self.corpus.ask, how, where, moment, user_id)
        weights = self.weights(how)
        pools = 2 if request.to_trace and scope.allowed is None and self.is_steady else 1
        candidates = self.retrieve(request.texts, pools * how.pool, scope.allowed, weights, how, request.moment.at)
        return Answer(self, scope, weights, candidates)

    def candidate_source(self, name: str) -> Arm:
        """The object that retrieves candidates for an arm: the arm itself."""
        arm: Arm = self.arms[name]
        return arm

    @property
    def words(self) -> Any:
        """The arm of words."""
        return self.arms["bm25"]

    @property
    def is_dated(self) -> bool:
        """Whether any memory has a date."""
        return self.rows.has_dates

    @cached_property
    def context(self) -> Context | None:
        """The neighbours of each turn of a conversation, if `context_column` is set."""
        column = self.settings.context_column
        return None if column is None else context_of(self.corpus_memories, column, self.order, self.rows.memory)

    @cached_property
    def digests(self) -> dict[str, Any]:
        """The identity of its rows: their number, and hashes over their ids and texts."""
        ids = digest_of_rows(as_texts(self.chunks["chunk_id"]))
        return {"chunks": self.chunks.num_rows, "ids": ids, "texts": digest_of_rows(as_texts(self.texts))}

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the encoder, once the arm of meaning is built."""
        return self.arms["vector"].encoder_.fingerprint if "vector" in self.arms else None

    def weights(self, settings: QuerySettings) -> dict[str, float]:
        """The weights of the arms, which are built if need be. If the encoder is not installed, vectors are left out.

        Raises
        ------
        ParameterError
            If no arm has a weight.
        """
        requested = {name: kind.weight(settings) for name, kind in KINDS.items()}
        stored = Calibration() if requested["vector"] == 0 else self.stored or Calibration()
        weights = arm_weights(requested, [name for name in KINDS if name not in self.absent], stored._asdict())
        for name in weights:
            if name in self.arms or not self.chunks.num_rows:
                continue
            try:
                existing = next(filter(None, (source(self, name) for source in self.sources)), None)
                self.arms[name] = existing or build_arm(name, self.settings, self.chunks, self.texts)
            except ImportError as error:
                if name != "vector":
                    raise
                self.absent[name] = str(error)
                warnings.warn(f"Retriever: search works without vectors. {error}", RuntimeWarning, stacklevel=4)
                return self.weights(settings)
        return weights

    @cached_property
    def stored(self) -> Calibration | None:
        """The weights and cosines stored for the encoder, if it is installed and has any."""
        if "vector" in self.absent:
            return None
        try:
            return getattr(as_encoder(self.settings.encoder), "calibration", None)
        except ImportError:  # the warning comes when the arm is built
            return None

    @cached_property
    def background(self) -> Ints:
        """A sample of 256 rows with text: those of the smallest hashes, of which few change as a corpus grows."""
        rows = np.arange(len(self.texts)) if self.rows.filled is None else np.flatnonzero(self.rows.filled)
        keyed = dict(zip(self.keys[rows[::-1]].tolist(), rows[::-1].tolist(), strict=True))
        return np.sort([keyed[key] for key in nsmallest(_BACKGROUND, keyed)]).astype(np.int64)

    @cached_property
    def keys(self) -> NDArray[np.object_]:
        """The hash of each chunk's text."""
        return PER_TEXT["keys"](self.texts)

    @cached_property
    def _scripts(self) -> Ints:
        return np.full(len(self.texts), -1, np.int64)

    def scripts_of(self, row: Ints) -> Ints:
        """The script of each of the chunks `row`: Latin, Cyrillic or other; computed at first use."""
        known = self._scripts
        if len(new := np.unique(row[known[row] < 0])):
            known[new] = scripts(take_rows(self.texts, new))
        return known[row]

    @property
    def is_steady(self) -> bool:
        """Whether the best n of each arm are the first of its best 2 n; approximate indexes do not promise it."""
        is_exact = all(getattr(arm, "index_", None) is None for arm in self.arms.values())
        return is_exact and self.context is None

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Terms by their meaning, for matching across alphabets; None if the encoder is not calibrated for it."""
        return vocabulary_of(self)

    def retrieve(
        self, texts: Sequence[str], n: int, allowed: Mask | None, arms: Iterable[str], how: QuerySettings, on: datetime
    ) -> Candidates:
        """The best `n` chunks of each arm for each of the query `texts`, as of `on`; empty chunks are never found."""
        if not self.chunks.num_rows:
            return merge(dict.fromkeys(arms, CANDIDATES.empty_table()), 0, n)
        options = {name: KINDS[name].options(how) for name in arms}
        queries = self.arm_queries(texts, options, how, on)
        candidates = {name: self.arm_candidates(name, queries[name], n, allowed, how) for name in options}
        samples = {name: self.background if KINDS[name].everywhere else _NO_ROWS for name in options}
        scales = [self.arms[name].scale(queries[name], samples[name], **values) for name, values in options.items()]
        return merge(candidates, self.chunks.num_rows, n, np.stack(scales, axis=1))

    def arm_queries(
        self, texts: Sequence[str], arms: Iterable[str], how: QuerySettings, on: datetime
    ) -> dict[str, Sequence[str]]:
        """The query texts for each arm; times are replaced by dates for the arms that search dates."""
        dated = self._with_dates(texts, on) if how.read_dates else texts
        return {name: dated if KINDS[name].reads_dates else texts for name in arms}

    def _with_dates(self, texts: Sequence[str], moment: datetime) -> Sequence[str]:
        """`texts` with times replaced by dates, if dates are searched; else memories may contain the words as such."""
        if "date" not in self.settings.searched or not self.is_dated:
            return texts
        return [in_days(text, moment.date()) for text in texts]

    def arm_candidates(
        self, name: str, queries: Sequence[str], n: int, allowed: Mask | None, how: QuerySettings
    ) -> pa.Table:
        """The best `n` chunks of one arm: query, row and score; scores of turns include those of their neighbours."""
        filled, kind = self.rows.filled, KINDS[name]
        if filled is not None:
            allowed = filled if allowed is None else filled & allowed
        arm, options = self.candidate_source(name), kind.options(how)
        if self.context is None or not kind.turns:
            return arm.candidates(queries, n, allowed, **options)
        return self.context.best(arm, queries, n, allowed, options, kind.turns == "mean")

    @cached_property
    def named(self) -> pa.Table:
        """The columns that memories are named by, without empty ones."""
        columns = self.memories.select([name for name in NAMED if name in self.memories.column_names])
        return columns.select([name for name in columns.column_names if name == "text" or _has_values(columns[name])])

    @cached_property
    def repeats(self) -> Repeats:
        """Which chunks are near-duplicates of others."""
        return Repeats(self.own_texts, self.rows.owner[self.rows.memory])

    def similarity(self, row: Ints, by_vectors: bool) -> Likeness:
        """Pairwise similarity of the chunks `row`: cosines, or shared terms."""
        if by_vectors and "vector" in self.arms:
            return Likeness(None, self.arms["vector"].vectors_)
        rows = np.unique(row)
        return Likeness(rows, terms_by(self.settings.analyser).terms(take_rows(self.texts, rows).to_pylist()))


Index = TypeVar("Index", bound=MemoryIndex)


def _has_values(column: pa.ChunkedArray) -> bool:
    """Whether any value is neither null nor an empty text."""
    filled = pc.binary_length(column) if pa.types.is_string(column.type) else column.is_valid()
    return bool(pc.max(filled).as_py())


def build_index(corpus: Corpus, settings: FitSettings, before: MemoryIndex | None = None) -> MemoryIndex:
    """`build_as` an index in memory."""
    return build_as(MemoryIndex, corpus, settings, before)


def build_as(
    kind: Callable[..., Index], corpus: Corpus, settings: FitSettings, before: MemoryIndex | None = None
) -> Index:
    """Cut the memories of `corpus` into chunks and compute their columns; arms are built later.

    Parameters
    ----------
    kind : type of MemoryIndex
    before : MemoryIndex, optional
        A former index with the same settings: its data about unchanged memories is reused. The result is the same.
    """
    check_corpus("Retriever", corpus)
    corpus_memories = corpus.tables["memories"]
    order = pc.sort_indices(corpus_memories["memory_id"]).to_numpy().astype(np.int64)
    if before is None:
        memories, former = corpus_memories.take(pa.array(order)).combine_chunks(), None
        table = cut(memories, settings).combine_chunks()
    else:
        chunker = partial(cut, settings=settings)
        memories, table, former = follow().refit_tables(before, corpus_memories, order, chunker)
    chunks, texts, own_texts = table.drop_columns(["searched", "own"]), table["searched"], table["own"]
    rows = make_rows(memories, chunks, own_texts, former and (former[0].rows, *former[1:]))
    absent = {} if settings.encoder is not None else {"vector": "encoder is None"}
    index = kind(corpus, corpus_memories, settings, order, memories, chunks, texts, own_texts, rows, absent=absent)
    if former is not None:
        follow().take_over(index, *former[:2], PER_TEXT)
        index.sources = [Former(*former[:2])]
    return index
