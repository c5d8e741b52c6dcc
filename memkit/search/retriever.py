"""`Retriever`: hybrid search over a corpus, and the trace that shows its work."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from memkit.errors import MemkitError, NotFittedError
from memkit.params import AsOf, estimator, path_of
from memkit.search.fitted.index import Searchable
from memkit.search.fitted.kinds import index_for, own_corpus
from memkit.search.fitted.store import load_index, save_index
from memkit.search.question import Question, Settings, as_queries, ask, or_by_words
from memkit.search.reports.tables import check_added, hits_table, joined, trace_table
from memkit.search.settings import FitSettings, QuerySettings

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus


@estimator
class Retriever(QuerySettings, FitSettings):
    """Words, vectors and letters, fused, decayed, cut and explained.

    The stages, in order: the best `pool` chunks of each arm among the memories that may be found (`where`, `expired`,
    `kinds_hidden`), brought to one scale, fused, weighted by kind, multiplied by decay, cut at `min_score`, rid of
    repetitions, folded, made diverse (MMR), cut at k. Parameters that say so act at `fit`, all others at the next call.

    Attributes
    ----------
    corpus_ : Corpus
        What was fitted: a copy with the table ``chunks``. ``corpus_.save(folder)`` keeps the arms beside the tables.
    chunks_ : pa.Table
        What is searched, in the order of memory_id and ordinal.
    arms_ : dict of str to Arm
        'bm25' (the lexical arm, whichever it is), 'vector' and 'gram' (letters), each built when its weight first asks
        for it.

    Examples
    --------
    >>> import memkit as mk, pandas as pd
    >>> corpus = mk.from_table(pd.DataFrame({"text": ["Пул соединений: десять.", "The deploy runs on Friday."]}))
    >>> search = Retriever(encoder="hash").fit(corpus)
    >>> search.search("пулы", k=1).select(["rank", "text"]).to_pylist()
    [{'rank': 1, 'text': 'Пул соединений: десять.'}]
    """

    def fit(self, corpus: Corpus, y: object = None) -> Self:
        """Cut the corpus's memories into chunks and build the arms that have a weight.

        Vectors of texts seen before come from the cache, and the arms that were saved with a corpus from its folder.
        What was fitted before stays whole where this fails, and answers in other threads meanwhile.

        Where this Retriever was fitted before, what it knows of memories that are as they were is used again: their
        chunks, terms and vectors. Answers are those of a fresh fit. Made anew are
        approximate indexes (`ann`), vectors that a mean is taken off (`centre`), encoders that learn from the corpus,
        and arms that were loaded from a folder.

        Parameters
        ----------
        corpus : Corpus
            Stays as it is: `corpus_` is a copy of it with the table ``chunks``, whose `save` keeps the arms too. Of
            `Buckets` only totals are kept, and the buckets that a question needs are opened then, with the scores of
            one index; for traces, sweeps and audits see `over_all`.

        Raises
        ------
        ParameterError
            For a parameter outside of its declaration, or where no arm has a weight.
        MemkitError
            Where the encoder fails; one that cannot be reached is done without where `on_encoder_error` is 'words'.
        """
        settings, how = self._fit_settings(), Settings.of(self)
        before: Searchable | None = self.__dict__.get("index_")
        known = None if before is None or _changed(before.settings, settings) else before
        index = index_for(corpus, settings, how, known)
        or_by_words(index, how, index.ready)
        return self._use(index)

    def fitted(self, corpus: Corpus) -> Self:
        """This one where it was fitted on the memories of `corpus`, else a copy that is; known texts are not encoded.

        Examples
        --------
        >>> import memkit as mk
        >>> old, new = mk.from_table({"text": ["чай"]}), mk.from_table({"text": ["кофе"]})
        >>> search = Retriever(encoder=None).fit(old)
        >>> search.fitted(old) is search, search.fitted(new).corpus_.memories is new.memories
        (True, True)
        """
        index: Searchable | None = self.__dict__.get("index_")
        return self if index is not None and index.is_of(corpus) else copy.copy(self).fit(corpus)

    def refresh(self) -> Self:
        """Read the corpus's files again and search what they say now; only new texts are encoded.

        Returns
        -------
        Retriever
            This one, as a fit to the refreshed corpus would make it; unchanged where that fails.
        """
        return self.fit(self._index().corpus.refresh())

    def search(
        self,
        queries: Any,
        k: int = 10,
        where: str | None = None,
        as_of: AsOf = None,
        *,
        user_id: str | None = None,
        columns: Sequence[str] = (),
    ) -> pa.Table:
        """The best k memories (or chunks) of each query.

        Parameters
        ----------
        queries : str, sequence of str, pa.Table or pandas.DataFrame
            A table has a column ``text`` and may have ``query_id``, and ``as_of``, the day on which each is asked.
        k : int
            Hits a query at most; fewer where fewer are found among the best `pool` of each arm. The first hits do not
            depend on it.
        where : str, optional
            A SQL predicate over ``memories``, applied before anything is cut.
        as_of : str, date or datetime, optional
            The moment of queries without a day of their own; None is now. Kept in the schema's metadata. What was
            created after it is hidden, where it is given: a day is seen to its end, a time is exact (see `future`).
        user_id : str, optional
            Who asks: memories of this user and of nobody are seen. None sees everybody's. Over buckets, those that hold
            them are opened alone.
        columns : sequence of str
            Columns of ``memories`` that the hits show too, as title, source_id, scope; one that hits have stays theirs.

        Returns
        -------
        pa.Table
            query_id, rank, memory_id, chunk_id, score, bm25, vector, gram, decay, text, path, line_start, line_end,
            alike, n_alike. The scores of the arms are raw, null where the arm did not find the chunk; `decay` is the
            factor; `alike` are the memories that say the same and are not shown themselves, at most 20 of `n_alike`.
            Where a query has no hit, or the encoder cannot be reached, the metadata's ``note`` says why, and how many
            memories a moment hides, or cannot tell of, as they have no `created_at` or were updated later; ``arms``
            holds the weights, ``encoder`` its fingerprint, ``answerability`` from 0 to 1, by query, whether anything
            here answers it.

        Raises
        ------
        NotFittedError, ParameterError, QueryError
        """
        asked, added = as_queries(queries), check_added(columns)
        parts = (self.ask(part, k, where, as_of, user_id=user_id) for part in asked.by_day())
        return joined([hits_table(part, added) for part in parts], asked.ids)

    def trace(
        self, queries: Any, k: int = 10, where: str | None = None, as_of: AsOf = None, *, user_id: str | None = None
    ) -> pa.Table:
        """Every candidate with what each stage made of it; parameters and errors as for `search`.

        Besides the candidates of `search` it shows what the arms would have found without filters, and the next
        `pool` chunks of each arm.

        Returns
        -------
        pa.Table
            query_id, memory_id, chunk_id, bm25, bm25_rank, bm25_norm, vector, vector_rank, vector_norm, gram,
            gram_rank, gram_norm, fused, prior, age_days, decay, mmr_penalty, score, rank, disposition: one row a
            memory (or chunk), ranked ones first. `disposition` is returned, below_k, below_pool, filtered, expired,
            future, below_min_score, decayed_out, diversified_away, duplicate or folded. The metadata holds the weights
            of the arms and the parameters.
        """
        asked = as_queries(queries)
        index, settings = self._index().whole, Settings.of(self)
        parts = [ask(index, settings, part, k, where, as_of, to_trace=True, user_id=user_id) for part in asked.by_day()]
        return joined(list(map(trace_table, parts)), asked.ids)

    def over_all(self) -> Self:
        """This one; where it was fitted to buckets, one over all their memories, for what looks at more than hits.

        Traces, sweeps and audits ask for it themselves. It is made at its first use, with vectors from the cache, and
        kept beside the buckets.

        Raises
        ------
        MemkitError
            Where there are too many memories to be held at once.

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
        self, queries: Any, k: int = 10, where: str | None = None, as_of: AsOf = None, *, user_id: str | None = None
    ) -> Question:
        """The question behind `search` and `trace`, with what the arms found; parameters and errors as for `search`.

        All `queries` are of one day.
        Rank it under other settings by `Question.but`, at the cost of some array work.
        """
        return ask(self._index(), Settings.of(self), queries, k, where, as_of, user_id=user_id)

    def save(self, folder: Path | str) -> None:
        """Keep what was fitted in `folder`: parameters, chunks and the arms built so far; no text of the user's code.

        Raises
        ------
        NotFittedError
        """
        index = self._index()
        save_index(index, self.get_params(deep=False), path_of("save", folder).absolute())

    @classmethod
    def load(cls, folder: Path | str, corpus: Corpus, encoder: Any = None, *, trust: bool = False) -> Self:
        """What `save` kept, without encoding again; it may come from anybody.

        Parameters
        ----------
        corpus : Corpus
            The corpus that was fitted, with the same memories.
        encoder : object, optional
            Needed where the saved one was an object rather than a name.
        trust : bool
            Whether `folder` is your own. Else an encoder's address in it that was not given in this process has to be
            given as `encoder`, an approximate index is built again, and vectors are not remembered for other corpora.

        Raises
        ------
        DamagedIndexError
            Where there is no saved Retriever, or one that memkit did not write.
        StaleIndexError
            Where the memories are not those of `save`, or the encoder is another one.
        """
        index, values = load_index(path_of("load", folder).absolute(), corpus, encoder, trust)
        return cls(**values)._use(index)

    def __getstate__(self) -> dict[str, Any]:
        if "index_" in self.__dict__:
            raise MemkitError("a fitted Retriever holds a database: keep it with Retriever.save and Retriever.load.")
        return self.__dict__.copy()

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _use(self, index: Searchable) -> Self:
        """Ask `index` from here on, by way of a corpus of this Retriever's own."""
        fixed = index.settings.get_params(deep=False)
        own = own_corpus(index, lambda: self.get_params(deep=False) | fixed, lambda: Settings.of(self))
        self.index_, self.corpus_, self.arms_ = index, own, index.arms
        return self

    def _index(self) -> Searchable:
        index: Searchable | None = self.__dict__.get("index_")
        if index is None:
            raise NotFittedError("Retriever: expected fit(corpus) before this.")
        if changed := _changed(index.settings, self):
            raise NotFittedError(
                f"Retriever: '{changed[0]}' was changed after fit and acts at fit. Call fit(corpus) again."
            )
        return index

    def _fit_settings(self) -> FitSettings:
        given = self.get_params(deep=False)
        return FitSettings(**{name: given[name] for name in FitSettings.params()})

    @property
    def chunks_(self) -> pa.Table:
        """What is searched, in the order of memory_id and ordinal."""
        return self._index().whole.chunks

    @property
    def without_vectors_(self) -> str | None:
        """Why there cannot be a vector arm."""
        return self._index().absent.get("vector")

    def _state(self) -> str:
        return str(self.__dict__.get("index_", "not fitted"))


def _changed(settings: FitSettings, other: FitSettings) -> list[str]:
    """Names of the parameters in which `other` is not like `settings`."""
    return [name for name in settings.params() if not _same(getattr(settings, name), getattr(other, name))]


def _same(left: object, right: object) -> bool:
    return left is right or (type(left) is type(right) and left == right)
