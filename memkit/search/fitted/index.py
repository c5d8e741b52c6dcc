"""The index that `Retriever.fit` builds: chunks, their arms, and arrays about them, for all query-time settings.

A `Reading` is a question as an index reads it.
`Searchable` is the interface that a Retriever uses. `MemoryIndex` is the one in memory; a room above has one over many
shards, and engines that find its candidates `Elsewhere`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.hashes import digest_of_rows
from memkit.base.parallel import system_memory
from memkit.base.params import check_corpus
from memkit.display.views import NAMED
from memkit.errors import count_of
from memkit.index.ann import scripts
from memkit.index.arm import AUTO, Nearest, Sight, Turns, conversation_column, turns_of
from memkit.index.cache import shared_cache
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import Calibration, Vectors, content_key
from memkit.index.postings import CANDIDATES
from memkit.schemas import Ints, Mask, present
from memkit.search.alike import Likeness, Repeats
from memkit.search.ask import STEPS, Ask, QuerySettings
from memkit.search.fitted.across import WORDLESS, TermVectors, Vocabulary, says_words, vocabulary_of
from memkit.search.fitted.chunks import (
    Index,
    Rows,
    few_chunks,
    make_chunks,
    make_rows,
    refit_tables,
    take_rows,
    vectors_of,
)
from memkit.search.state import Candidates, merge
from memkit.search.steps.recall import ARMS, Arm, arm_weights, depth_of, nearest_words
from memkit.search.steps.scope import Scope, make_scope
from memkit.tables.kept import stamp
from memkit.tables.lake import beside, write_arrow
from memkit.tables.owners import Owners
from memkit.text.analyse import terms_by

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus


_BACKGROUND = 256  # chunks; `MemoryIndex.background` says which
_WORDS = re.compile(r"\w+")
ROWS, _CHUNKS, _OWNERS, _KEYS = "rows", "chunks.arrow", "owners.arrow", "keys"
"""The folder and the files in which a kept corpus has the chunks of its index, with which of them are equal, and the
owners of its memories, and the column of the hashes of chunks. An owner is what this memkit's formats declare, so other
lakes have none.
"""
_ADDED = [_KEYS, "twin", "equal", "filled"]
"""The columns that a saved chunk has beside its own; to compare all texts again takes longer than to keep three."""


@dataclass(frozen=True)
class Reading:
    """An `Ask` as an index reads it: what may be found, by which arms, and which words are read as others.

    Attributes
    ----------
    scope : Scope
    weights : dict of str to float
        By arm, with the sum 1.
    sight : Sight
        The terms that the question may see.
    nearest : sequence of Nearest
        By query; empty if no word is read as another.
    """

    ask: Ask
    scope: Scope
    weights: dict[str, float]
    sight: Sight
    nearest: Sequence[Nearest]


@dataclass(frozen=True)
class Answer:
    """The candidates for a question, and the index whose rows they are."""

    index: MemoryIndex
    reading: Reading
    candidates: Candidates


class Searchable(Protocol):
    """The interface of an index that a Retriever searches."""

    @property
    def corpus(self) -> Corpus: ...
    @property
    def settings(self) -> Index: ...
    @property
    def arms(self) -> dict[str, Any]: ...
    @property
    def absent(self) -> dict[str, str]: ...
    @property
    def fingerprint(self) -> str | None: ...
    @property
    def whole(self) -> MemoryIndex: ...

    encode_limit: int | None

    def waiting_note(self, remedy: str = "", /) -> str: ...
    def ready(self, how: QuerySettings, /) -> None: ...
    def encode(self, how: QuerySettings, /) -> int: ...
    def is_fitted_on(self, corpus: Corpus, /) -> bool: ...
    def weights(self, settings: QuerySettings, /) -> dict[str, float]: ...
    def answer(self, ask: Ask, /) -> Answer: ...


class Elsewhere(Protocol):
    """What finds the candidates of an index's arms in their place: an engine."""

    def ready(self, index: MemoryIndex, /) -> None: ...
    def candidates(
        self, index: MemoryIndex, name: str, queries: Any, n: int, allowed: Mask | None, /, **options: Any
    ) -> pa.Table: ...


@dataclass
class MemoryIndex:
    """The index of a corpus, in memory.

    Attributes
    ----------
    corpus_memories : pa.Table
        The corpus's memories in their own order; they tell whether a corpus is the fitted one.
    settings : Index
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
    on_disk : callable or None
        ``on_disk(index, name)`` is the arm that was saved with the corpus, or None.
    former : tuple (MemoryIndex, ndarray of int64, shape (n_chunks,)), or None
        Until arms are built, the index before a refit, and the row in it of each chunk, beyond its last one for a new
        chunk.
    names : dict of int to tuple
        A cache: id and names of memories, by row.
    units : dict of int to list
        A cache: where the sentences of a chunk are in its memory's text, by the chunk's row.
    term_vectors : dict of str to dict
        A cache: vectors of single terms, by the encoder's fingerprint.
    encode_limit : int or None
        The arm of meaning waits where more texts than these would have to be encoded; None: it never waits.
    n_waiting : int
        The number of texts that the arm of meaning waits for; 0: it does not, -1: nobody has counted them.
    saved : set of str
        The arms that came from the corpus's lake.
    without : dict of str to tuple
        A cache: a search over the same corpus in which some memories lack a column, by that column, after their ids.
    is_whole : bool
        Whether `rows` are those of all memories that can be searched, and not of a part of them.
    elsewhere : Elsewhere or None
        What finds candidates in place of the arms.
    """

    corpus: Corpus
    corpus_memories: pa.Table
    settings: Index
    order: Ints
    memories: pa.Table
    chunks: pa.Table
    texts: pa.ChunkedArray
    own_texts: pa.ChunkedArray
    rows: Rows
    arms: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    on_disk: Callable[[MemoryIndex, str], Any] | None = None
    former: tuple[MemoryIndex, Ints] | None = None
    names: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    units: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    term_vectors: dict[str, TermVectors] = field(default_factory=dict)
    encode_limit: int | None = None
    n_waiting: int = -1
    without: dict[str, tuple[pa.Array, Any]] = field(default_factory=dict, repr=False)
    saved: set[str] = field(default_factory=set)
    is_whole: bool = True
    elsewhere: Elsewhere | None = None

    def __str__(self) -> str:
        arms = ", ".join(f"{a} ({self.fingerprint})" if a == "vector" else a for a in self.arms) or "none yet"
        return f"{count_of(self.memories.num_rows, 'memory')}, {count_of(self.chunks.num_rows, 'chunk')}; arms: {arms}"

    def ready(self, how: QuerySettings) -> None:
        """Build the arms that have a weight, and drop the reference to the former index, which is as large as this one.

        Raises
        ------
        ParameterError
            If no arm has a weight, or `context_column` is no column, or an engine refuses it.
        """
        encoded = shared_cache().encoded
        self.weights(how)
        _ = self.turns  # an unknown column is an error at fit
        self._prepare(how, shared_cache().encoded - encoded)
        self.former = None
        if self.elsewhere is not None:
            self.elsewhere.ready(self)

    def encode(self, how: QuerySettings | None) -> int:
        """Build the arm of meaning if it waits, and prepare for `how`; the number of texts that were encoded."""
        if self.n_waiting <= 0:
            return 0
        encoded = shared_cache().encoded
        self.arms["vector"] = self._built("vector")
        self.n_waiting, new = 0, shared_cache().encoded - encoded
        vars(self).pop("vocabulary", None)
        self._prepare(how, new)
        return new

    def _prepare(self, how: QuerySettings | None, n_encoded: int) -> None:
        """Let the steps make what a first question would have to, after so many texts were encoded."""
        if how is not None and n_encoded:
            for step in STEPS.telling["prepare"]:
                step.prepare(self, how, n_encoded)

    @property
    def whole(self) -> MemoryIndex:
        """The index over all memories: this one."""
        return self

    @property
    def table(self) -> pa.Table:
        """The chunks as `make_chunks` makes them."""
        littered = self.rows.littered
        is_littered = np.zeros(self.chunks.num_rows, bool) if littered is None else littered
        table = self.chunks.append_column("littered", pa.array(is_littered))
        return table.append_column("searched", self.texts).append_column("own", self.own_texts)

    def save_rows(self, folder: Path) -> None:
        """Write the chunks to `folder` with the hashes of their texts, so that they are not cut anew."""
        folder.mkdir()
        has_keys = _KEYS in vars(self)  # else no vectors were asked for
        keys = pa.array(self.keys.tolist(), pa.binary()) if has_keys else pa.nulls(len(self.texts), pa.binary())
        filled = np.ones(len(keys), bool) if self.rows.filled is None else self.rows.filled
        table = self.table
        for name, values in zip(_ADDED, (keys, self.rows.twin, self.rows.text, filled), strict=True):
            table = table.append_column(name, pa.array(values))
        about = {"settings": _of_chunks(self.settings), "digests": json.dumps(self.digests)}
        write_arrow(folder / _CHUNKS, table.replace_schema_metadata(about))
        if self.corpus.kept or self.rows.owners:  # else a fit asks for none
            write_arrow(folder / _OWNERS, self.owners.to_table())

    def is_fitted_on(self, corpus: Corpus) -> bool:
        """Whether these are the memories of `corpus`."""
        check_corpus("Retriever", corpus)
        memories = corpus.tables["memories"]
        return self.corpus_memories is memories or self.corpus_memories.equals(memories)

    def answer(self, ask: Ask) -> Answer:
        """The candidates of each arm for a question."""
        scope = make_scope(self, ask, ask.where)
        weights, sight = self.weights(ask.settings), self.sight(scope.allowed)
        reading = Reading(ask, scope, weights, sight, nearest_words(self, ask, weights, sight))
        # A trace also names what lies below the pool. Where arms are exact, one question to them serves for both.
        pools = 2 if ask.to_trace and scope.allowed is None and self.is_steady else 1
        return Answer(self, reading, self.retrieve(reading, pools * depth_of(ask.settings), scope.allowed))

    @cached_property
    def is_dated(self) -> bool:
        """Whether any memory has a date."""
        return self.rows.has_dates

    @cached_property
    def _named_conversations(self) -> str | None:
        return conversation_column(self.corpus_memories, self.settings.context_column)

    @cached_property
    def conversations(self) -> str | None:
        """The column that names conversations, by `context_column`; None if there is none."""
        return self._named_conversations

    @property
    def unused_conversations(self) -> str | None:
        """The column that names conversations where none is looked at: over many shards, and in an engine."""
        return self._named_conversations if self.conversations is None else None

    def lent(self, arms: Iterable[str]) -> list[str]:
        """What turns of a conversation lend each other in these arms, by the arms' names for it."""
        return [ARMS[name].label for name in arms if name in self.arms and self.arms[name].lends]

    @cached_property
    def turns(self) -> Turns | None:
        """The chunks in their conversations; None if there are none, or if rows are longer than turns."""
        if self.conversations is None:
            return None
        of_tables = self.settings.context_column == AUTO
        return turns_of(self.corpus_memories, self.conversations, of_tables, self.order, self.rows.memory)

    @cached_property
    def digests(self) -> dict[str, Any]:
        """The identity of its rows: their number, and hashes over their ids and texts."""
        ids = digest_of_rows(self.chunks["chunk_id"])
        return {"chunks": self.chunks.num_rows, "ids": ids, "texts": digest_of_rows(self.texts)}

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
        requested = {name: arm.weight(settings) for name, arm in ARMS.items()}
        waits = requested["vector"] != 0 and self.waits
        stored = Calibration() if requested["vector"] == 0 or waits else self.stored or Calibration()
        present = [name for name in ARMS if name not in self.absent and not (name == "vector" and waits)]
        weights = arm_weights(requested, present, stored._asdict())
        for name in weights:
            if name in self.arms or not self.chunks.num_rows:
                continue
            if not self._build(name):
                return self.weights(settings)
        return weights

    def _build(self, name: str) -> bool:
        """Whether the arm is there: from a source, else built; false where the encoder is not installed."""
        try:
            self.arms[name] = self._updated(name) or self._from_disk(name) or self._built(name)
        except ImportError as error:
            if name != "vector":
                raise
            self.absent[name] = str(error)
            warnings.warn(f"Retriever: search works without vectors. {error}", RuntimeWarning, stacklevel=5)
            return False
        return True

    @system_memory()
    def _built(self, name: str) -> Arm:
        return ARMS[name].make(self.settings).fit(self.chunks, self.texts)

    def _from_disk(self, name: str) -> Any:
        return None if self.on_disk is None else self.on_disk(self, name)

    def _updated(self, name: str) -> Any:
        """The arm of the index before a refit, updated; None where there is none, or it needs a full fit."""
        before, rows = self.former or (self, self.order)
        arm = before.arms.get(name)
        if arm is None or np.array_equal(rows, np.arange(before.chunks.num_rows)):
            return arm
        return arm.updated(rows, self.chunks, self.texts)

    @property
    def waits(self) -> bool:
        """Whether the arm of meaning waits for more texts than may be encoded unasked."""
        if self.encode_limit is None or "vector" in self.arms or "vector" in self.absent:
            return False
        if self.n_waiting < 0:
            self.n_waiting = self._count_waiting(self.encode_limit)
        return self.n_waiting > 0

    def _count_waiting(self, limit: int) -> int:
        """How many texts are new to the encoder, where they are more than `limit`; else 0."""
        saved = self._from_disk("vector")
        if saved is not None:
            self.arms["vector"] = saved
            return 0
        try:
            encoder = as_encoder(self.settings.encoder)
        except ImportError:  # the warning comes when the arm is built
            return 0
        new = shared_cache().new(encoder, self.keys.tolist())
        return new if new > limit else 0

    def waiting_note(self, remedy: str = "search.encode() encodes them") -> str:
        """A sentence where meaning does not count yet, and what changes that."""
        if not self.waits:
            return ""
        texts = f"{self.n_waiting:,} of {len(self.texts):,} texts are not encoded"
        return f"Answered by words and letters: meaning does not count yet, as {texts}; {remedy}."

    def vectors(self, may_take_time: bool) -> pa.Table | None:
        """The table ``vectors`` of SQL; None where there is no encoder, or where none was asked yet and must not be."""
        encoded = self.encoded() if may_take_time or "vector" in self.arms else None
        return None if encoded is None else vectors_of(self.chunks, encoded)

    def encoded(self) -> Vectors | None:
        """The vector of each chunk by the encoder, whose arm is built if need be; None where there is no encoder."""
        if self.waits:
            self.encode(None)
        if "vector" not in self.arms and "vector" not in self.absent and self.chunks.num_rows:
            self._build("vector")
        return self.arms["vector"].vectors_ if "vector" in self.arms else None

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
        # With a sample by place the same text counted up to 7.1 deviations more or less after a tenth was added.
        rows = np.arange(len(self.texts)) if self.rows.filled is None else np.flatnonzero(self.rows.filled)
        keyed = dict(zip(self.keys[rows[::-1]].tolist(), rows[::-1].tolist(), strict=True))
        return np.sort([keyed[key] for key in nsmallest(_BACKGROUND, keyed)]).astype(np.int64)

    @cached_property
    def keys(self) -> NDArray[np.object_]:
        """The hash of each chunk's text."""
        return _keys_of(self.texts)

    @cached_property
    def _scripts(self) -> Ints:
        return np.full(len(self.texts), -1, np.int64)

    def scripts_of(self, row: Ints) -> Ints:
        """The script of each of the chunks `row`: Latin, Cyrillic, other or `WORDLESS`; computed at first use."""
        by_row = self._scripts
        if len(new := np.unique(row[by_row[row] < 0])):
            worded = list(map(says_words, take_rows(self.own_texts, new).to_pylist()))
            by_row[new] = np.where(worded, scripts(take_rows(self.texts, new)), WORDLESS)
        return by_row[row]

    @property
    def is_steady(self) -> bool:
        """Whether the best n of each arm are the first of its best 2 n; engines and approximate ones need not be."""
        is_own = self.is_whole and self.elsewhere is None and self.turns is None
        return is_own and all(arm.is_exact for arm in [*self.arms.values()])

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Terms by their meaning, for matching across alphabets; None if the encoder is not calibrated for it."""
        return vocabulary_of(self)

    def retrieve(self, reading: Reading, n: int, allowed: Mask | None) -> Candidates:
        """The best `n` chunks of each arm for each query among the chunks `allowed`; empty chunks are never found.

        What a question may not see lends nothing to what is found, even where more is `allowed`.

        Parameters
        ----------
        allowed : ndarray of bool, shape (n_chunks,), or None
            Chunks that may be found; None: all.
        """
        arms = [ARMS[name] for name in reading.weights]
        if not self.chunks.num_rows:
            return merge({arm.name: CANDIDATES.empty_table() for arm in arms}, 0, n)
        candidates = {arm.name: arm.candidates(self, reading, n, allowed) for arm in arms}
        scale = np.array([arm.scale(self, reading) for arm in arms]).swapaxes(0, 1)
        return merge(candidates, self.chunks.num_rows, n, scale)

    def sight(self, visible: Mask | None) -> Sight:
        """The terms of the chunks `visible`; None: of all."""
        return Sight.over(*((arm.postings_, visible) for arm in [*self.arms.values()] if arm.spells))

    def spelled(self, term: str, sight: Sight) -> str:
        """A word in sight whose term it is; the term itself if there is none."""
        rows: Any = sight.rows(term)
        if not self.is_whole:  # whose rows are not those in sight
            rows = [row for row, terms in enumerate(self._terms) if term in terms]
        words = _WORDS.findall(self.texts[int(rows[0])].as_py().lower()) if len(rows) else []
        terms = terms_by(self.settings.analyzer).terms(words)
        return next((word for word, of_word in zip(words, terms, strict=True) if of_word == [term]), term)

    @cached_property
    def _terms(self) -> list[list[str]]:
        return terms_by(self.settings.analyzer).terms(self.texts.to_pylist())

    def filled(self, some: Mask | None) -> Mask | None:
        """The mask `some` without empty chunks."""
        filled = self.rows.filled
        return some if filled is None else filled if some is None else filled & some

    @cached_property
    def named(self) -> pa.Table:
        """The columns that memories are named by, without empty ones."""
        columns = self.memories.select(present(self.memories, NAMED))
        return columns.select([n for n in columns.column_names if n == "text" or columns[n].null_count < len(columns)])

    @cached_property
    def owners(self) -> Owners:
        """Whose fact each memory is."""
        return self.rows.owners or Owners.of(self.memories)

    @cached_property
    def repeats(self) -> Repeats:
        """Which chunks are near-duplicates of others."""
        return Repeats(self.own_texts, self.owners.take(self.rows.memory))

    def similarity(self, row: Ints, by_vectors: bool) -> Likeness:
        """Pairwise similarity of the chunks `row`: cosines, or shared terms."""
        if by_vectors and "vector" in self.arms:
            return Likeness(None, self.arms["vector"].vectors_)
        rows = np.unique(row)
        return Likeness(rows, terms_by(self.settings.analyzer).terms(take_rows(self.texts, rows).to_pylist()))


def _keys_of(texts: pa.ChunkedArray) -> NDArray[np.object_]:
    return np.array([content_key(text, "document") for text in texts.to_pylist()], object)


def _saved_rows(corpus: Corpus, settings: Index) -> pa.Table | None:
    """What `make_chunks` made of the memories of the user's own lake, with these settings; None where it has none."""
    table = corpus.snapshot and beside(corpus.snapshot, f"{ROWS}/{_CHUNKS}")
    if not table or (table.schema.metadata or {}).get(b"settings") != _of_chunks(settings).encode():
        return None
    return table


def _saved_owners(corpus: Corpus, memories: pa.Table) -> Owners | None:
    """The owners of `memories`; None where no lake of the user's has them."""
    table = corpus.snapshot and beside(corpus.snapshot, f"{ROWS}/{_OWNERS}")
    return Owners.of_table(table, memories) if table else None


def _of_chunks(settings: Index) -> str:
    """What chunks and owners depend on: this memkit, and all settings but the encoder and what finds its vectors."""
    params = settings.get_params(deep=False)
    return repr((stamp(), {**params, "encoder": None}))


@system_memory()
def build(corpus: Corpus, settings: Index, before: MemoryIndex | None = None) -> MemoryIndex:
    """Cut the memories of `corpus` into chunks and compute their columns; arms are built later.

    Parameters
    ----------
    before : MemoryIndex, optional
        A former index with the same settings: its data about unchanged memories is reused. The result is the same.
    """
    check_corpus("Retriever", corpus)
    corpus_memories = corpus.tables["memories"]
    # By id, so that ties do not depend on the order of files.
    order = pc.sort_indices(corpus_memories["memory_id"]).to_numpy().astype(np.int64)
    if before is None:
        memories, former = corpus_memories.take(pa.array(order)).combine_chunks(), None
        known = _saved_rows(corpus, settings)
        table = make_chunks(memories, settings) if known is None else known.drop_columns(_ADDED)
        table = few_chunks(table.replace_schema_metadata(None))
    else:
        known, (memories, table, former) = None, refit_tables(before, corpus_memories, order)
    equals = () if known is None else (known[name].to_numpy() for name in _ADDED[1:])
    rows = make_rows(memories, table, former, (_saved_owners(corpus, memories), *equals) if equals else None)
    index = MemoryIndex(
        corpus, corpus_memories, settings, order, memories, *_columns_of(table), rows, absent=_absent(settings)
    )
    if former is not None:
        before, row, _ = former
        index.former, index.term_vectors = (before, row), before.term_vectors
        if _KEYS in vars(before):
            new = index.texts.filter(pa.array(row >= len(before.texts)))
            vars(index)[_KEYS] = np.concatenate([before.keys, _keys_of(new)])[row]
    if known is not None:  # which is the user's own, and saves the hashing of each text
        keys = {} if known[_KEYS].null_count else {_KEYS: np.array(known[_KEYS].to_pylist(), object)}
        vars(index).update(keys, digests=json.loads(known.schema.metadata[b"digests"]))
    return index


def of_chunks(corpus: Corpus, settings: Index, memories: pa.Table, table: pa.Table) -> MemoryIndex:
    """The index of `memories` that were cut before: both tables by memory_id, `table` as `make_chunks` makes it."""
    order, rows, absent = np.arange(memories.num_rows), make_rows(memories, table), _absent(settings)
    return MemoryIndex(corpus, memories, settings, order, memories, *_columns_of(table), rows, absent=absent)


def _columns_of(table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray, pa.ChunkedArray]:
    """Of what `make_chunks` makes the chunks, the texts that are searched, and those that say what a duplicate is."""
    return table.drop_columns(["littered", "searched", "own"]), table["searched"], table["own"]


def _absent(settings: Index) -> dict[str, str]:
    return {} if settings.encoder is not None else {"vector": "encoder is None"}
