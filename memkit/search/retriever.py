"""`Retriever`: hybrid search over a corpus, and the trace that shows its work. A memory may be the query: its vectors
and its strongest words, put through the same arms and stages, and what its hits leave out.
"""

from __future__ import annotations

import copy
import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_unicode
from memkit.base.params import AsOf, Moment, check_choice, check_value, current_names, estimator, param, path_of
from memkit.base.plugins import Plugins, as_it_is
from memkit.errors import MemkitError, NotFittedError, NotFoundError, count_of, did_you_mean, some_of
from memkit.index.encoders.base import Vectors, unit_rows
from memkit.schemas import Ints, Mask
from memkit.search.ask import Ask, Asked, Queries, QuerySettings, Settings, as_queries, check_user, checked_scope
from memkit.search.fitted.chunks import ENCODER_DOC, Index, take_rows
from memkit.search.fitted.index import ROWS, Elsewhere, MemoryIndex, Searchable, build
from memkit.search.fitted.store import FOLDER, former_index, keep_index, load_index, save_index, saved_arm
from memkit.search.question import Question, answered, or_by_words
from memkit.search.show import check_added, hits_table, joined, trace_table
from memkit.search.steps.collapse import folding
from memkit.search.steps.scope import visible_memories
from memkit.tables.lake import TOTALS
from memkit.text.analyse import terms_by
from memkit.text.languages import FUNCTION_WORDS
from memkit.text.secrets import mask, without_secrets

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

# A guess: as many words as a long question has.
STRONGEST = 12
"""So many words of a memory are searched, those of most weight by tf-idf."""
_SATURATION = 1.2
"""A word that stands again counts less, as in BM25."""
_WORD = re.compile(r"(?<!\w)[\d_]*[^\W\d_]\w*")


def ask_like(index: MemoryIndex, settings: Settings, memory_id: str, **asked: Unpack[Asked]) -> Question:
    """The question whose query is a memory; parameters and errors are those of `Retriever.like`."""
    user_id = asked.get("user_id")
    check_value("Retriever.like", "memory_id", memory_id, "str")
    check_value("Retriever.like", "k", asked.get("k", 10), "int", low=1)
    check_unicode(memory_id)
    check_user(user_id, "Retriever.like")
    checked_scope(asked.get("scope"), "Retriever.like")
    moment = Moment.from_as_of(asked.get("as_of"))
    visible = visible_memories(index, settings, moment, user_id)
    memory = _memory_row(index, memory_id, visible)
    rows = np.flatnonzero(index.rows.memory == memory)
    vectors = _mean_vector(index, rows) if "vector" in index.weights(settings) else None
    words = strongest_words(index, rows, visible)
    without = _versions(index, memory, visible)
    while True:
        # Asked again without what turned out to be a copy, as its place is then another's; each round leaves out more,
        # so it ends.
        query = Queries((memory_id,), (" ".join(words),), (moment,), vectors, without)
        question = answered(index, Ask.checked(query, settings, **asked))
        if not (alike := _near_duplicates(question, rows)):
            return replace(question, note=" ".join(filter(None, (_note(memory_id, words, without), question.note))))
        without = (*without, *alike)


def _memory_row(index: MemoryIndex, memory_id: str, visible: Mask) -> int:
    place = pc.index(index.memories["memory_id"], memory_id).as_py()
    if place >= 0 and visible[place]:
        return int(place)
    known = take_rows(index.memories["memory_id"], np.flatnonzero(visible)).to_pylist()
    hint = did_you_mean(memory_id, known)
    expected = f"expected the memory_id of one of {count_of(len(known), 'memory')}"
    raise NotFoundError(mask(f"Retriever.like: {expected}. Got {memory_id!r:.200}.{hint}"))


def _mean_vector(index: MemoryIndex, rows: Ints) -> Vectors:
    """The mean of the vectors of a memory's chunks, shape (1, dim); zeros if it has none."""
    vectors: Vectors = index.arms["vector"].vectors_ if "vector" in index.arms else np.zeros((0, 1), np.float32)
    return unit_rows(vectors[rows].sum(axis=0, keepdims=True))


def strongest_words(index: MemoryIndex, rows: Ints, visible: Mask) -> list[str]:
    """The `STRONGEST` words of the chunks `rows`, in the order of their text.

    The weight of a word is tf / (tf + 1.2) x log(1 + n / df), where n counts other chunks of `visible` memories, and
    df those of them that have its term. A word with a df of 0 finds nothing and is left out, as are stop words and
    numbers. Without an arm of words df is not known, and tf decides alone.
    """
    analyzer = index.settings.analyzer if index.settings.analyzer != "char" else "auto"
    text = without_secrets("\n".join(take_rows(index.own_texts, rows).to_pylist())).lower()
    words = [word for word in _WORD.findall(text) if word.replace("ё", "е") not in FUNCTION_WORDS]
    terms = terms_by(analyzer).terms(words)
    counts = Counter(term for of_word in terms for term in dict.fromkeys(of_word))
    spelled: dict[str, str] = {}
    for word, of_word in zip(words, terms, strict=True):
        is_run = len(of_word) > 1 and "_" not in word  # of a script without blanks: its terms are the words
        for term in of_word if is_run else of_word[:1]:
            spelled.setdefault(term, term if is_run else word)
    others = visible[index.rows.memory]
    # Without the memory itself: a word that no other one has finds nothing.
    others[rows] = False
    sight = index.sight(others)
    n = int(others.sum())
    weights = {}
    for term in spelled:
        # Of an index of n-grams words have no counts, so all weigh alike.
        frequency = sight.count(term) if sight.parts and analyzer == index.settings.analyzer else 1
        if frequency:
            weights[term] = counts[term] / (counts[term] + _SATURATION) * np.log1p(n / frequency)
    strongest = sorted(weights, key=lambda term: -weights[term])[:STRONGEST]  # stable: ties in the order of the text
    return [spelled[term] for term in spelled if term in strongest]


def _versions(index: MemoryIndex, memory: int, visible: Mask) -> tuple[str, ...]:
    """The memory itself, and those of the memories `visible` that it supersedes."""
    to = index.rows.successor
    older = np.empty(0, np.int64) if to is None else np.flatnonzero((to == memory) & visible)
    return _ids(index, np.append(memory, older))


def _ids(index: MemoryIndex, memory: Ints) -> tuple[str, ...]:
    return tuple(take_rows(index.memories["memory_id"], memory.astype(np.int64)).to_pylist())


def _near_duplicates(question: Question, rows: Ints) -> tuple[str, ...]:
    """Ids of the memories in reach with one of the chunks `rows` word for word, or a near-duplicate as a candidate."""
    index, allowed, limit = question.index, question.scope.allowed, folding(question.settings)
    is_copy = np.isin(index.rows.twin, index.rows.twin[rows])
    alike = np.flatnonzero(is_copy if allowed is None else is_copy & allowed).tolist()
    if limit is not None:
        candidates = np.setdiff1d(question.retrieved.row, alike)
        pairs = np.stack([np.repeat(rows, len(candidates)), np.tile(candidates, len(rows))], axis=1)
        pairs = pairs[index.repeats.likely(pairs, limit)]
        alike += pairs[index.repeats.near(pairs, limit)[0] >= 0, 1].tolist()
    return _ids(index, np.unique(index.rows.memory[alike]))


def _note(memory_id: str, words: list[str], without: tuple[str, ...]) -> str:
    others = [repr(memory) for memory in without if memory != memory_id]
    beside = f", and its near-duplicates or old versions {some_of(others)}"
    how = f"by its meaning and its words {', '.join(words)}" if words else "by its meaning"
    return f"Like {memory_id!r}, {how}; left out: itself{beside if others else ''}."


_LOG = logging.getLogger("memkit")


@estimator
class Retriever(QuerySettings):
    """Hybrid search by words (BM25), meaning (vectors) and letters (character n-grams).

    The stages, in order:

    1. Each arm retrieves its best `pool` chunks (candidates per arm) of the memories that pass `where`, `expired`,
       `future` and `kinds_hidden`.
    2. Scores are normalised and fused; `rerank` scores the best candidates once more. Scores are multiplied by the
       weight of the memory's kind and by decay, and lowered for stale memories (`status`); `prefer` raises the newer of
       two similar memories.
    3. Candidates below `min_score` are dropped; exact duplicates and near-duplicates are collapsed (`fold`).
    4. MMR makes the hits diverse; the first k are returned.

    Parameters that act at fit say so; all others act at the next call.

    Attributes
    ----------
    corpus_ : Corpus
        A copy of the fitted corpus with the table ``chunks``. ``corpus_.save(folder)`` saves the arms with the tables.
    chunks_ : pa.Table
        The searched chunks, ordered by memory_id and ordinal.
    arms_ : dict of str to Arm
        'bm25' (words), 'vector' (meaning) and 'gram' (letters); each is built when a query first gives it a weight.
    fit_seconds_ : float
        How long the last `fit` took; one that was loaded has none.

    Examples
    --------
    >>> import memkit as mk, pandas as pd
    >>> corpus = mk.from_table(pd.DataFrame({"text": ["Пул соединений: десять.", "The deploy runs on Friday."]}))
    >>> search = Retriever(encoder="hash").fit(corpus)
    >>> search.search("пулы", k=1).select(["rank", "text"]).to_pylist()
    [{'rank': 1, 'text': 'Пул соединений: десять.'}]
    """

    encoder: Any = param(
        "use",
        kind="object",
        refit=True,
        group="first",
        shares="index",
        doc=f"{ENCODER_DOC} It is the index's, which may be given it instead.",
    )
    index: Index | None = param(
        None,
        kind="object",
        of=Index,
        refit=True,
        group="fit",
        doc="What `fit` makes: chunks, terms, vectors, arms; None: `Index` with its defaults.",
    )

    def fit(self, corpus: Corpus, y: object = None, *, encode: str | int = "now") -> Self:
        """Cut the corpus's memories into chunks and build the arms that have a weight.

        Vectors of known texts come from the cache; arms that were saved with the corpus come from its folder. Until the
        new fit is complete, other threads search the former one, and it stays if this fails.

        A second fit reuses the chunks, terms and vectors of memories that did not change. Answers equal those of a
        fresh fit. Approximate indexes (`ann`), mean-centred vectors (`centre`), and encoders that learn
        from the corpus are always built anew.

        Parameters
        ----------
        corpus : Corpus
            It is not changed: `corpus_` is a copy with the table ``chunks``. Of `Buckets` (shards) only collection
            statistics are kept; a query opens the shards it needs, and scores as one index would. For traces, sweeps
            and audits see `over_all`.
        encode : {"now", "later"} or int
            Whether texts without a vector are encoded now, whatever time that takes, or by `encode`. A number: now if
            they are at most so many. Until all are encoded, words and letters answer, and the metadata's ``arms`` and
            ``note`` of a result say so. Measures (`evaluate`, `compare`, `sweep`, `tune`, `audit`, the judge panel)
            encode first. Buckets and encoders that learn from the corpus are encoded now.

        Raises
        ------
        ParameterError
            For a parameter outside of its declaration, or if no arm has a weight.
        MemkitError
            If the encoder fails. If its service cannot be reached, `on_encoder_error` decides.
        """
        given = self.get_params(deep=False)["index"]
        query_settings, settings = Settings.from_estimator(self), Index() if given is None else copy.copy(given)
        settings.encoder = self.encoder
        settings.check_params()
        former: Searchable | None = self.__dict__.get("index_")
        reusable = None if former is None or _changed(former.settings, self) else former
        begun = perf_counter()
        index = index_for(corpus, settings, query_settings, reusable)
        index.encode_limit = _limit(encode)
        or_by_words(index, query_settings, index.ready)
        self.fit_seconds_ = perf_counter() - begun
        keep_index(index)
        return self._set_index(index)

    def encode(self) -> Self:
        """Encode the texts that `fit` left for later; from then on meaning counts too.

        What is encoded is kept in the cache (`mk.vector_cache`) as it goes: what was interrupted goes on from there.
        Searches by other threads go on by words and letters meanwhile.

        Raises
        ------
        MemkitError
            If the encoder fails.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["Десять соединений в пуле"]})
        >>> search = Retriever(encoder="hash").fit(corpus, encode="later")
        >>> sorted(search.encode().arms_)
        ['bm25', 'gram', 'vector']
        """
        begun = perf_counter()
        if new := self._index().encode(Settings.from_estimator(self)):
            _LOG.warning("memkit: %s texts were encoded in %.1f seconds.", f"{new:,}", perf_counter() - begun)
        keep_index(self._index())
        return self

    def fitted(self, corpus: Corpus) -> Self:
        """This Retriever if it was fitted on the memories of `corpus`, else a copy fitted on them.

        Examples
        --------
        >>> import memkit as mk
        >>> old, new = mk.from_table({"text": ["чай"]}), mk.from_table({"text": ["кофе"]})
        >>> search = Retriever(encoder=None).fit(old)
        >>> search.fitted(old) is search, search.fitted(new).corpus_.memories is new.memories
        (True, True)
        """
        index: Searchable | None = self.__dict__.get("index_")
        return self if index is not None and index.is_fitted_on(corpus) else copy.copy(self).fit(corpus)

    def refresh(self) -> Self:
        """Read the corpus's files again and fit their present content; only new texts are encoded.

        Returns
        -------
        Retriever
            This Retriever, fitted on the refreshed corpus; unchanged if that fails.
        """
        index = self._index()
        return self.fit(index.corpus.refresh(), encode="now" if index.encode_limit is None else index.encode_limit)

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: str | None = None,
        as_of: AsOf = None,
        user_id: str | None = None,
        scope: str | None = None,
        columns: Sequence[str] = (),
    ) -> pa.Table:
        """The best k memories (or chunks) of each query.

        Parameters
        ----------
        queries : str, sequence of str, pa.Table or pandas.DataFrame
            A table has a column ``text`` and, optionally, ``query_id`` and ``as_of``, the day on which each is asked.
        k : int
            Maximum number of hits per query; there may be fewer candidates. The first hits do not depend on k.
        where : str, optional
            A SQL predicate over ``memories`` (pre-filtering), applied before candidates are retrieved. A subquery in it
            reads the memories of all users, so that it comes from whom may see them.
        as_of : str, date or datetime, optional
            When queries without a day of their own are asked; None: now. If it is given, memories created later are
            hidden: a day lasts to its end, a time is exact (see `future`). The schema's metadata keeps it.
        user_id : str, optional
            The user who asks: only memories of this user and memories without a user are searched. None: all memories.
            Among buckets (shards), only those with such memories are opened.
        scope : str, optional
            What notes must apply to (their ``applies_to``). The path of a file: notes that are global, ``file:`` that
            path, or on an area that is one of its folders, a keyword of a note on the file, or the area of a note
            that names the path. ``area:auth``: that area and global. ``global``: global alone. Small and capital
            letters of an area are the same. Only memories of kind ``note`` with a ``file:`` or ``area:`` are ever left
            out: what else there is has no such scope and is searched as ever.
        columns : sequence of str
            Further columns of ``memories`` to add, such as title, source_id, scope; columns that hits have anyway stay.

        Returns
        -------
        pa.Table
            query_id, rank, memory_id, chunk_id, score, bm25, vector, gram, decay, text, path, line_start, line_end,
            snippet, snippet_start, snippet_end, alike, n_alike, replaces. The arms' scores are raw, and null if the
            arm did not retrieve the chunk (a displayed table then shows 'as' and the score that is used instead);
            `decay` is the decay factor. `text` and the lines are the chunk's; `snippet` is the best passage of the
            memory, in whole sentences or lines: its ``text[snippet_start:snippet_end]``. `alike` lists near-duplicates
            that are collapsed under the hit, at most 20 of `n_alike`; `replaces` lists the memories that it supersedes
            and is shown for.

            The metadata's ``note`` says why a query has no hit, whether vectors were missing, and how many memories
            `as_of` hides, or may show too new (no `created_at`, or updated later). ``arms`` holds the weights,
            ``encoder`` the encoder's fingerprint, ``answerability``, by query, how likely the first hits answer
            it: a score from 0 to 1, not a probability, shown as low (below a third), middle or high (from two thirds).
            ``read_as`` holds, by query, the words that no text has, with the nearest words, which were searched
            instead; ``conversations`` names the column whose turns are also found by each other's words.

        Raises
        ------
        NotFittedError, ParameterError, QueryError
        """
        queries, added = as_queries(queries), check_added(columns)
        asked: Asked = {"k": k, "where": where, "as_of": as_of, "user_id": user_id, "scope": scope}
        parts = (self.ask(part, **asked) for part in queries.by_day())
        return joined([hits_table(part, added) for part in parts], queries.ids)

    def like(
        self,
        memory_id: str,
        k: int = 10,
        *,
        where: str | None = None,
        as_of: AsOf = None,
        user_id: str | None = None,
        scope: str | None = None,
        columns: Sequence[str] = (),
    ) -> pa.Table:
        """The best k memories that are similar to a given one ("more like this").

        The memory becomes the query: for meaning the mean vector of its chunks, for words and letters its 12 strongest
        words. A word is strong if it is frequent in the memory and rare in others: tf / (tf + 1.2) x log(1 + n / df).
        Words that no other memory has, stop words and numbers do not count. All stages and settings act as in `search`.

        Parameters
        ----------
        memory_id : str
            The id of a memory that the user may see.
        k, where, as_of, user_id, scope, columns
            As for `search`; they say which memories may be hits.

        Returns
        -------
        pa.Table
            As `search` returns; `query_id` is the memory's id. The memory itself, those it supersedes, and memories
            with a near-duplicate of one of its chunks (exact duplicates with ``fold="none"``) are left out; the
            metadata's ``note`` names them, and the words of the query. Buckets (shards) are searched all at once, as
            `trace` does.

        Raises
        ------
        NotFoundError
            For an id that the corpus does not have, that is another user's, or that was created after `as_of`; the
            message names similar ids of those that the user may see.
        NotFittedError, ParameterError, QueryError

        Examples
        --------
        >>> import memkit as mk
        >>> texts = {"a": "Пул соединений вырос", "b": "Пулы соединений у базы", "c": "Чай и кофе"}
        >>> search = Retriever(encoder=None).fit(mk.from_table({"memory_id": [*texts], "text": [*texts.values()]}))
        >>> search.like("a", k=1)["memory_id"].to_pylist()
        ['b']
        """
        added, settings = check_added(columns), Settings.from_estimator(self)
        asked: Asked = {"k": k, "where": where, "as_of": as_of, "user_id": user_id, "scope": scope}
        return hits_table(ask_like(self._index().whole, settings, memory_id, **asked), added)

    def trace(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: str | None = None,
        as_of: AsOf = None,
        user_id: str | None = None,
        scope: str | None = None,
    ) -> pa.Table:
        """Every candidate with the result of each stage; parameters and errors as for `search`.

        Besides the candidates of `search` it shows memories that a filter excludes, and the next `pool` chunks of each
        arm.

        Returns
        -------
        pa.Table
            query_id, memory_id, chunk_id, bm25, bm25_rank, bm25_norm, vector, vector_rank, vector_norm, gram,
            gram_rank, gram_norm, fused, reranked, prior, age_days, decay, lift, mmr_penalty, score, rank, disposition:
            one row per memory (or chunk), ranked ones first. `reranked` is the score after reranking, null for
            candidates that were not reranked; `prior` is the factor by kind and for stale memories; `lift` is what
            `prefer` adds to the score of a memory that is newer than a similar one. `disposition` is returned, below_k,
            below_pool (not among the arms' candidates), filtered, expired, future, deprecated, superseded,
            below_min_score, decayed_out, diversified_away, duplicate (an exact duplicate of a better one) or folded (a
            near-duplicate). The metadata holds the weights of the arms, the parameters, and ``read_as`` as for hits.
        """
        queries = as_queries(queries)
        index, settings, days = self._index().whole, Settings.from_estimator(self), queries.by_day()
        asked: Asked = {"k": k, "where": where, "as_of": as_of, "user_id": user_id, "scope": scope}
        parts = [answered(index, Ask.checked(part, settings, to_trace=True, **asked)) for part in days]
        return joined(list(map(trace_table, parts)), queries.ids)

    def over_all(self) -> Self:
        """A Retriever over all memories at once: this one, unless it was fitted on buckets (shards).

        Traces, sweeps and audits use it. It is built at its first use, with vectors from the cache, and kept beside the
        buckets.

        Raises
        ------
        MemkitError
            If there are too many memories to hold at once.

        Examples
        --------
        >>> import memkit as mk
        >>> search = Retriever(encoder=None).fit(mk.from_table({"text": ["чай"]}))
        >>> search.over_all() is search
        True
        """
        index = self._index()
        whole = index.whole
        if whole is index:
            return self
        other = copy.copy(self)
        other.index_, other.arms_ = whole, whole.arms
        return other

    def ask(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: str | None = None,
        as_of: AsOf = None,
        user_id: str | None = None,
        scope: str | None = None,
    ) -> Question:
        """The `Question` behind `search`: queries and their candidates; parameters and errors as for `search`.

        All `queries` must be asked on one day. `Question.with_params` ranks the same candidates under other settings.
        """
        settings = Settings.from_estimator(self)
        ask = Ask.checked(queries, settings, k=k, where=where, as_of=as_of, user_id=user_id, scope=scope)
        return answered(self._index(), ask)

    @current_names
    def save(self, path: Path | str) -> None:
        """Save the parameters and the arms built so far in the folder `path`.

        Raises
        ------
        NotFittedError
        """
        index = self._index()
        save_index(index, self._query_params(), path_of("save", path).absolute())

    @classmethod
    @current_names
    def load(cls, path: Path | str, corpus: Corpus, encoder: Any = None, *, trust: bool = False) -> Self:
        """Load what `save` wrote, without encoding again; the folder need not be trusted.

        Parameters
        ----------
        corpus : Corpus
            The corpus that was fitted, with the same memories.
        encoder : object, optional
            Needed if the saved encoder was an object, not a name.
        trust : bool
            Whether `folder` is your own. Otherwise the address of an encoder's service in it must be passed as
            `encoder` (unless this process used it before), an approximate index is built again, and vectors are not
            cached for other corpora.

        Raises
        ------
        DamagedIndexError
            If there is no saved Retriever, or one that memkit did not write.
        StaleIndexError
            If the memories or the encoder are not those of `save`.
        """
        index, params = load_index(path_of("load", path).absolute(), corpus, encoder, trust)
        settings = index.settings.get_params(deep=False)
        return cls(**params, encoder=settings.pop("encoder"), index=Index(**settings))._set_index(index)

    def __getstate__(self) -> dict[str, Any]:
        if "index_" in self.__dict__:
            raise MemkitError("a fitted Retriever holds a database: keep it with Retriever.save and Retriever.load.")
        return self.__dict__.copy()

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _set_index(self, index: Searchable) -> Self:
        """Search `index` from now on, with a copy of its corpus that has its chunks and saves it too."""
        corpus = copy.copy(index.corpus)

        def save_totals(folder: Path) -> None:
            OVER_BUCKETS.needed("index").save_statistics(folder, index, Settings.from_estimator(self))

        corpus.attach(TOTALS, save_totals)
        if isinstance(index, MemoryIndex):
            index.corpus = corpus
            corpus.add_table("chunks", index.chunks)
            corpus.derive("vectors", lambda may_take_time: index.vectors(may_take_time))
            corpus.attach(FOLDER, lambda folder: save_index(index, self._query_params(), folder))
            corpus.attach(ROWS, index.save_rows)
        self.index_, self.corpus_, self.arms_ = index, corpus, index.arms
        return self

    def _index(self) -> Searchable:
        index: Searchable | None = self.__dict__.get("index_")
        if index is None:
            raise NotFittedError("Retriever: expected fit(corpus) before this.")
        if changed := _changed(index.settings, self):
            raise NotFittedError(
                f"Retriever: '{changed[0]}' of its index was changed after fit and acts at fit. Call fit(corpus) again."
            )
        return index

    def _query_params(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        return {name: params[name] for name in QuerySettings.params()}

    @property
    def chunks_(self) -> pa.Table:
        """The searched chunks, ordered by memory_id and ordinal."""
        return self._index().whole.chunks

    def _state(self) -> str:
        return str(self.__dict__.get("index_", "not fitted"))


def _limit(encode: str | int) -> int | None:
    """The most new texts that a fit encodes; None: all."""
    if isinstance(encode, str):
        check_choice("encode", encode, ("now", "later"), "Retriever.fit")
        return None if encode == "now" else 0
    check_value("Retriever.fit", "encode", encode, "int", low=0, unit="texts")
    return encode


def _changed(settings: Index, search: Retriever) -> list[str]:
    """Names of the index's parameters that a search has other values of."""
    given = vars(search).get("index") or Index  # the class has the defaults
    names = settings.params()
    now = (search.encoder if name == "encoder" else getattr(given, name) for name in names)
    values = zip(names, (getattr(settings, name) for name in names), now, strict=True)
    # By type too: 1 and True are equal, and an encoder may compare as arrays do.
    return [n for n, old, new in values if old is not new and (type(old) is not type(new) or old != new)]


class Engines(Protocol):
    """The module by which candidates are found in an engine."""

    def elsewhere(self, spec: Any, /) -> Elsewhere | None: ...


class OverBuckets(Protocol):
    """The module that searches buckets, and saves what they have to know of each other."""

    def bucket_index(self, corpus: Any, settings: Index, how: QuerySettings, /) -> Searchable: ...
    def save_statistics(self, folder: Path, index: Searchable, how: QuerySettings, /) -> None: ...


ELSEWHERE, OVER_BUCKETS = Plugins[Engines]("memkit.lakes", as_it_is), Plugins[OverBuckets]("memkit.lakes", as_it_is)


@singledispatch
def index_for(corpus: Corpus, settings: Index, how: QuerySettings, before: Searchable | None = None) -> Searchable:
    """Build the index of `corpus`, with the arms that `how` needs; other parameters as for `build`.

    Raises
    ------
    ParameterError
        If this kind cannot be built with the settings.
    """
    former = before if isinstance(before, MemoryIndex) else former_index(corpus, settings, how)
    elsewhere = None if settings.engine == "local" else ELSEWHERE.needed("engine").elsewhere(settings.engine)
    index = build(corpus, settings, former)
    if elsewhere is not None:
        index.elsewhere, index.conversations = elsewhere, None  # neighbours need not be in the engine's answer
    if corpus.arms_from[0]:
        index.on_disk = saved_arm
    return index
