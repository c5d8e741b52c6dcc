"""What `Retriever.fit` makes, shared by all settings that need no refit: chunks, their arms, and arrays about them.

`Searchable` is what a Retriever asks, whichever kind of index it is: one in memory (`MemoryIndex`), one whose rows
another engine holds, or many that count as one; these two stand in a room above.
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
from memkit.search.fitted.across import Means, Vocabulary, vocabulary_of
from memkit.search.fitted.arms import KINDS, Arm, build_arm, cut, taken
from memkit.search.fitted.context import Context, context_of
from memkit.search.fitted.rows import Rows, follow, make_rows
from memkit.search.fitted.scope import Scope, make_scope
from memkit.search.settings import FitSettings, QuerySettings
from memkit.search.stages.diversify import Likeness, Repeats
from memkit.search.stages.fuse import arm_weights
from memkit.search.stages.rank import Candidates, merge
from memkit.text.analyse import terms_by
from memkit.text.when import in_days

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

_BACKGROUND = 256
_NO_ROWS = np.empty(0, np.int64)
PER_TEXT: dict[str, Callable[[pa.ChunkedArray], NDArray[Any]]] = {
    "keys": lambda texts: np.array([content_key(text, "document") for text in texts.to_pylist()], object),
}
"""What is found out about each text by itself, when it is first asked for, by its name in `MemoryIndex`."""


Source = Callable[["MemoryIndex", str], Any]


@dataclass(frozen=True)
class Request:
    """Texts that are put to an index at one moment, and which memories may answer them.

    What is to be traced has the arms asked for two pools at once, where one is the beginning of the other.
    """

    texts: tuple[str, ...]
    where: str | None
    moment: Moment
    to_trace: bool = False
    user_id: str | None = None


@dataclass(frozen=True)
class Answer:
    """What was found for a request: candidates, the index whose rows these are, their scope, and what arms weigh."""

    index: MemoryIndex
    scope: Scope
    weights: dict[str, float]
    found: Candidates


class Searchable(Protocol):
    """What a Retriever asks, whatever holds the rows."""

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
    def is_of(self, corpus: Corpus, /) -> bool: ...
    def weights(self, settings: QuerySettings, /) -> dict[str, float]: ...
    def answer(self, request: Request, how: QuerySettings, /) -> Answer: ...


@dataclass(frozen=True)
class Former:
    """The index before, and the row there of each chunk, which is beyond its last one for a new chunk."""

    index: MemoryIndex
    at: Ints

    def __call__(self, index: MemoryIndex, name: str) -> Any:
        """Its arm, brought up to date; None where there is none that can be."""
        arm = self.index.arms.get(name)
        if arm is None or not hasattr(arm, "updated"):
            return None
        is_same = np.array_equal(self.at, np.arange(self.index.chunks.num_rows))
        return arm if is_same else arm.updated(self.at, index.chunks, index.texts)


@dataclass
class MemoryIndex:
    """A corpus made searchable.

    Attributes
    ----------
    given : pa.Table
        The corpus's memories as they came, which tells whether a corpus is still the one that was fitted.
    settings : FitSettings
        What it was made with.
    order : ndarray of int64, shape (n_memories,)
        The row of `given` that each of `memories` is.
    memories, chunks : pa.Table
        By memory_id, and by memory_id and ordinal, so that the order of rows is the order of ids.
    texts : pa.ChunkedArray
        What is searched in each chunk.
    told : pa.ChunkedArray
        The same without what stands around it, its day and the headings above: what repetitions are known by.
    rows : Rows
        What ranking needs of each chunk besides scores.
    arms : dict of str to Arm
        Those built so far; an arm is built when its weight first asks for it.
    absent : dict of str to str
        Why an arm cannot be built.
    sources : list of callable
        ``source(index, name)`` is the arm from elsewhere, an index before or where it was saved, or None; what none of
        them has is built.
    called : dict of int to tuple
        Id and names of memories that were found before, by row.
    means : dict of str to dict
        By the encoder's fingerprint, vectors of single terms that a question asked for, here or in an index before.
    """

    corpus: Corpus
    given: pa.Table
    settings: FitSettings
    order: Ints
    memories: pa.Table
    chunks: pa.Table
    texts: pa.ChunkedArray
    told: pa.ChunkedArray
    rows: Rows
    arms: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    called: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    means: dict[str, Means] = field(default_factory=dict)

    def __str__(self) -> str:
        arms = ", ".join(f"{a} ({self.fingerprint})" if a == "vector" else a for a in self.arms) or "none yet"
        return f"{self.memories.num_rows:,} memories, {self.chunks.num_rows:,} chunks; arms: {arms}"

    def ready(self, how: QuerySettings) -> None:
        """Build the arms that have a weight. What an index before lent is let go, as it is as large as this one.

        Raises
        ------
        ParameterError
            Where no arm has a weight, or a column of conversations is none.
        """
        self.weights(how)
        _ = self.context  # a column that is none is said at once
        self.sources = [source for source in self.sources if not isinstance(source, Former)]

    @property
    def whole(self) -> MemoryIndex:
        """This one, which is over all memories."""
        return self

    def is_of(self, corpus: Corpus) -> bool:
        """Whether these are the memories of `corpus`."""
        check_corpus("Retriever", corpus)
        memories = corpus.tables["memories"]
        return self.given is memories or self.given.equals(memories)

    def answer(self, request: Request, how: QuerySettings) -> Answer:
        """What the arms find for a request, among what it may find."""
        where, moment, user_id = request.where, request.moment, request.user_id
        scope = make_scope(self.memories, self.rows, self.corpus.ask, how, where, moment, user_id)
        weights = self.weights(how)
        pools = 2 if request.to_trace and scope.allowed is None and self.is_steady else 1
        found = self.find(request.texts, pools * how.pool, scope.allowed, weights, how, request.moment.at)
        return Answer(self, scope, weights, found)

    def finder(self, name: str) -> Arm:
        """What finds candidates by the evidence of an arm: the arm itself."""
        arm: Arm = self.arms[name]
        return arm

    @property
    def words(self) -> Any:
        """The arm of words, of all that is searched."""
        return self.arms["bm25"]

    @property
    def is_dated(self) -> bool:
        """Whether any memory has a date."""
        return self.rows.has_dates

    @cached_property
    def context(self) -> Context | None:
        """Who stands beside whom, where a column says so."""
        column = self.settings.context_column
        return None if column is None else context_of(self.given, column, self.order, self.rows.memory)

    @cached_property
    def digests(self) -> dict[str, Any]:
        """What tells the rows of another index apart: their number, and hashes over their ids and their texts."""
        ids = digest_of_rows(as_texts(self.chunks["chunk_id"]))
        return {"chunks": self.chunks.num_rows, "ids": ids, "texts": digest_of_rows(as_texts(self.texts))}

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
        own = Calibration() if wished["vector"] == 0 else self.stored or Calibration()
        weights = arm_weights(wished, [name for name in KINDS if name not in self.absent], own._asdict())
        for name in weights:
            if name in self.arms or not self.chunks.num_rows:
                continue
            try:
                known = next(filter(None, (source(self, name) for source in self.sources)), None)
                self.arms[name] = known or build_arm(name, self.settings, self.chunks, self.texts)
            except ImportError as error:
                if name != "vector":
                    raise
                self.absent[name] = str(error)
                warnings.warn(f"Retriever: no vectors, search is BM25 alone. {error}", RuntimeWarning, stacklevel=4)
                return self.weights(settings)
        return weights

    @cached_property
    def stored(self) -> Calibration | None:
        """Weights and cosines that are stored for the encoder, if any are and the encoder is there."""
        if "vector" in self.absent:
            return None
        try:
            return getattr(as_encoder(self.settings.encoder), "calibration", None)
        except ImportError:  # said when the arm is built
            return None

    @cached_property
    def background(self) -> Ints:
        """256 rows with text, in order: those whose texts have the least hash, so that growth changes few of them."""
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
        """Whether the letters of each of the chunks `row` are Latin, Cyrillic or others; looked at when first asked."""
        known = self._scripts
        if len(new := np.unique(row[known[row] < 0])):
            known[new] = scripts(taken(self.texts, new))
        return known[row]

    @property
    def is_steady(self) -> bool:
        """Whether the best n of each arm are the first of its best 2 n, which no approximate index promises."""
        is_exact = all(getattr(arm, "index_", None) is None for arm in self.arms.values())
        return is_exact and self.context is None

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Its terms by what they mean, where the encoder tells."""
        return vocabulary_of(self)

    def find(
        self, asked: Sequence[str], n: int, allowed: Mask | None, arms: Iterable[str], how: QuerySettings, on: datetime
    ) -> Candidates:
        """The best `n` chunks of each arm for each text, asked at `on`; a chunk without any text is never found."""
        if not self.chunks.num_rows:
            return merge(dict.fromkeys(arms, CANDIDATES.empty_table()), 0, n)
        options = {name: KINDS[name].options(how) for name in arms}
        put = self.put(asked, options, how, on)
        found = {name: self.found_by(name, put[name], n, allowed, how) for name in options}
        sampled = {name: self.background if KINDS[name].everywhere else _NO_ROWS for name in options}
        scales = [self.arms[name].scale(put[name], sampled[name], **given) for name, given in options.items()]
        return merge(found, self.chunks.num_rows, n, np.stack(scales, axis=1))

    def put(
        self, asked: Sequence[str], arms: Iterable[str], how: QuerySettings, on: datetime
    ) -> dict[str, Sequence[str]]:
        """What each arm is asked for each text: with its times as days, where the arm looks for these."""
        dated = self._as_days(asked, on) if how.read_dates else asked
        return {name: dated if KINDS[name].reads_dates else asked for name in arms}

    def _as_days(self, asked: Sequence[str], moment: datetime) -> Sequence[str]:
        """`asked` with its times as days, where days are searched; else the words themselves may be there."""
        if "date" not in self.settings.searched or not self.is_dated:
            return asked
        return [in_days(text, moment.date()) for text in asked]

    def found_by(self, name: str, put: Sequence[str], n: int, allowed: Mask | None, how: QuerySettings) -> pa.Table:
        """The best `n` chunks of one arm for what it is asked: query, row and score; turns are found by others too."""
        filled, kind = self.rows.filled, KINDS[name]
        if filled is not None:
            allowed = filled if allowed is None else filled & allowed
        arm, options = self.finder(name), kind.options(how)
        if self.context is None or not kind.lends:
            return arm.candidates(put, n, allowed, **options)
        return self.context.best(arm, put, n, allowed, options, kind.lends == "mean")

    @cached_property
    def named(self) -> pa.Table:
        """What the memories are called by, without columns that hold nothing."""
        held = self.memories.select([name for name in NAMED if name in self.memories.column_names])
        return held.select([name for name in held.column_names if name == "text" or _holds(held[name])])

    @cached_property
    def repeats(self) -> Repeats:
        """Which chunks say the same as others."""
        return Repeats(self.told, self.rows.owner[self.rows.memory])

    def similarity(self, row: Ints, by_vectors: bool) -> Likeness:
        """Likeness among any of the chunks `row`: cosines, or shared terms."""
        if by_vectors and "vector" in self.arms:
            return Likeness(None, self.arms["vector"].vectors_)
        known = np.unique(row)
        return Likeness(known, terms_by(self.settings.analyser).of(taken(self.texts, known).to_pylist()))


Index = TypeVar("Index", bound=MemoryIndex)


def _holds(column: pa.ChunkedArray) -> bool:
    """Whether any value is neither null nor an empty text."""
    filled = pc.binary_length(column) if pa.types.is_string(column.type) else column.is_valid()
    return bool(pc.max(filled).as_py())


def build_index(corpus: Corpus, settings: FitSettings, before: MemoryIndex | None = None) -> MemoryIndex:
    """`build_as` an index in memory."""
    return build_as(MemoryIndex, corpus, settings, before)


def build_as(
    kind: Callable[..., Index], corpus: Corpus, settings: FitSettings, before: MemoryIndex | None = None
) -> Index:
    """Cut the memories of `corpus` into chunks and lay them out for search; arms come later.

    Parameters
    ----------
    kind : type of MemoryIndex
    before : MemoryIndex, optional
        Another with the same settings: what it knows of memories that are as they were is used again, to one result.
    """
    check_corpus("Retriever", corpus)
    given = corpus.tables["memories"]
    order = pc.sort_indices(given["memory_id"]).to_numpy().astype(np.int64)
    if before is None:
        memories, former = given.take(pa.array(order)).combine_chunks(), None
        pieces = cut(memories, settings).combine_chunks()
    else:
        memories, pieces, former = follow().laid_out(before, given, order, partial(cut, settings=settings))
    chunks, texts, told = pieces.drop_columns(["searched", "told"]), pieces["searched"], pieces["told"]
    rows = make_rows(memories, chunks, told, former and (former[0].rows, *former[1:]))
    absent = {} if settings.encoder is not None else {"vector": "encoder is None"}
    index = kind(corpus, given, settings, order, memories, chunks, texts, told, rows, absent=absent)
    if former is not None:
        follow().take_over(index, *former[:2], PER_TEXT)
        index.sources = [Former(*former[:2])]
    return index
