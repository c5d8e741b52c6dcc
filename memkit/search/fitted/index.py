"""What `Retriever.fit` makes, shared by all settings that need no refit: chunks, their arms, and arrays about them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

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
from memkit.params import check_corpus
from memkit.schemas import Ints, Mask, check_kinds
from memkit.search.fitted.across import Means, Vocabulary, vocabulary_of
from memkit.search.fitted.arms import KINDS, as_days, build_arm, codes, cut, finder, places, said, taken
from memkit.search.fitted.context import Context, context_of
from memkit.search.settings import FitSettings, QuerySettings
from memkit.search.stages.columns import Columns
from memkit.search.stages.diversify import Likeness, Repeats
from memkit.search.stages.fuse import arm_weights
from memkit.search.stages.rank import Candidates, merge
from memkit.tables.age import decaying, expired, later
from memkit.text.analyse import terms_by

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

_BACKGROUND = 256
_NO_ROWS = np.empty(0, np.int64)
PER_TEXT: dict[str, Callable[[pa.ChunkedArray], NDArray[Any]]] = {
    "keys": lambda texts: np.array([content_key(text, "document") for text in texts.to_pylist()], object),
}
"""What is found out about each text by itself, when it is first asked for, by its name in `SearchIndex`."""


@dataclass(frozen=True)
class Rows(Columns):
    """What an index knows of its chunks and memories besides: a value a chunk (`text`, `filled`) or a memory.

    Attributes
    ----------
    text : ndarray of int64, shape (n_chunks,)
        Equal for chunks whose searched text is the same.
    filled : ndarray of bool, shape (n_chunks,), or None
        Chunks with something to search; None where all have.
    owner : ndarray of int64, shape (n_memories,)
        Equal for memories of one user.
    expires : ndarray of datetime64[D], shape (n_memories,)
        NaT where the memory does not expire.
    made : ndarray of datetime64[us], shape (n_memories,)
        Creation, UTC; NaT where unknown.
    """

    text: Ints
    filled: Mask | None
    owner: Ints
    expires: NDArray[np.datetime64]
    made: NDArray[np.datetime64]

    @cached_property
    def has_expiry(self) -> bool:
        """Whether any memory has a last day."""
        return not np.isnat(self.expires).all()

    def hidden(self, kinds: Sequence[str]) -> Mask | None:
        """Memories of one of `kinds`; None if no memory is."""
        check_kinds(kinds, "Retriever: 'kinds_hidden'", also=self.kind[1])
        wanted = self.are_of(kinds)
        return wanted[self.kind[0]] if wanted.any() else None

    def expired(self, moment: datetime) -> Mask | None:
        """Memories whose last day lies before the day of `moment`; None if no memory is."""
        gone = expired(self.expires, moment) if self.has_expiry else None
        return gone if gone is not None and gone.any() else None

    def future(self, until: datetime) -> Mask | None:
        """Memories created after `until`; None if no memory is. One without a date is not."""
        unseen = later(self.made, until)
        return unseen if unseen.any() else None


@dataclass
class SearchIndex:
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
    kept : callable
        ``kept(index, name)`` is the arm from where it was saved, or None, so that it has to be built.
    former : tuple (SearchIndex, ndarray of int64, shape (n_chunks,)) or None
        The index that this one follows, and the row there of each chunk, which is beyond its last one for a new chunk.
        To be let go of once the arms are built, as it is as large as this one.
    finders : dict of str to EngineArm
        The arms as another engine holds them, where one finds the candidates.
    is_part : bool
        Whether it holds only what was found for some question in buckets.
    is_dated : bool
        Whether any memory has a date, in any bucket.
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
    kept: Callable[[SearchIndex, str], Any] = lambda index, name: None
    former: tuple[SearchIndex, Ints] | None = None
    finders: dict[str, Any] = field(default_factory=dict)
    is_part: bool = False
    is_dated: bool = False
    called: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    means: dict[str, Means] = field(default_factory=dict)

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
                known = self._followed(name) or self.kept(self, name)
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
        return is_exact and self.settings.engine == "local" and self.context is None and not self.is_part

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Its terms by what they mean, where the encoder tells."""
        return vocabulary_of(self)

    def _followed(self, name: str) -> Any:
        """The former index's arm, brought up to date; None where there is none that can be."""
        arm = self.former and self.former[0].arms.get(name)
        if not self.former or arm is None or not hasattr(arm, "updated"):
            return None
        before, at = self.former
        is_same = np.array_equal(at, np.arange(before.chunks.num_rows))
        return arm if is_same else arm.updated(at, self.chunks, self.texts)

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
        dated = as_days(self, asked, on) if how.read_dates else asked
        return {name: dated if KINDS[name].reads_dates else asked for name in arms}

    def found_by(self, name: str, put: Sequence[str], n: int, allowed: Mask | None, how: QuerySettings) -> pa.Table:
        """The best `n` chunks of one arm for what it is asked: query, row and score; turns are found by others too."""
        filled, kind = self.rows.filled, KINDS[name]
        if filled is not None:
            allowed = filled if allowed is None else filled & allowed
        arm, options = finder(self, name), kind.options(how)
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


def _holds(column: pa.ChunkedArray) -> bool:
    """Whether any value is neither null nor an empty text."""
    filled = pc.binary_length(column) if pa.types.is_string(column.type) else column.is_valid()
    return bool(pc.max(filled).as_py())


def build_index(corpus: Corpus, settings: FitSettings, before: SearchIndex | None = None) -> SearchIndex:
    """Cut the memories of `corpus` into chunks and lay them out for search; arms come later.

    Parameters
    ----------
    before : SearchIndex, optional
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
    index = SearchIndex(corpus, given, settings, order, memories, chunks, texts, told, rows)
    index.absent, index.former, index.is_dated = absent, former and former[:2], rows.has_dates
    if former is not None:
        follow().take_over(index, *former[:2], PER_TEXT)
    return index


def follow() -> Any:
    """What a refit needs, imported for one."""
    from memkit.search.fitted import follow

    return follow


Known = tuple[Rows, Ints, Ints]


def make_rows(memories: pa.Table, chunks: pa.Table, texts: pa.ChunkedArray, former: Known | None = None) -> Rows:
    """Arrays over `memories` and their `chunks`; `texts` is what each chunk tells.

    Parameters
    ----------
    former : tuple (Rows, ndarray of int64, ndarray of int64, each of shape (n_chunks,)), optional
        Rows of before, of each chunk the one with its text (beyond their last one for a new chunk), and its memory.
    """
    memory = former[2] if former else places(chunks["memory_id"], memories["memory_id"])
    owner, _ = codes(memories["user_id"].combine_chunks())
    text, filled = said(texts) if former is None else follow().said_since(texts, *former[:2])
    all_differ = text.max(initial=-1) == len(text) - 1
    kind, kinds = codes(memories["kind"].combine_chunks())
    return Rows(
        memory=memory,
        text=text,
        twin=text if all_differ else codes(pa.array(owner[memory] * len(text) + text))[0],
        filled=None if filled.all() else filled,
        owner=owner,
        kind=(kind, tuple(kinds.to_pylist())),
        expires=memories["expires_at"].to_numpy().astype("datetime64[D]"),
        dated=pc.coalesce(memories["updated_at"], memories["created_at"]).to_numpy().astype("datetime64[us]"),
        made=memories["created_at"].to_numpy().astype("datetime64[us]"),
        decays=decaying(memories),
    )
