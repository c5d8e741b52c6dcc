"""`Retriever`: hybrid search over a corpus, and the trace that shows its work."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from memkit.decay import FORMS
from memkit.errors import EncoderUnavailableError, MemkitError, NotFittedError, ParameterError
from memkit.index.centre import CENTRES
from memkit.index.dense import ANN
from memkit.index.encoders.circuit import in_haste
from memkit.params import AsOf, Estimator, as_of_time, check_value, estimator, param, record_as_of
from memkit.presets import cite
from memkit.schemas import kinds_where
from memkit.search.fitted.arms import LEXICAL
from memkit.search.fitted.index import SearchIndex, build_index
from memkit.search.fitted.rows import Mask
from memkit.search.fitted.store import FOLDER, kept_arm, load_index, save_index
from memkit.search.queries import Queries, as_queries
from memkit.search.reports.tables import describe, empty_note, hits_table, trace_table
from memkit.search.reports.trace import with_outside
from memkit.search.scope import Scope
from memkit.search.stages.candidates import Candidates
from memkit.search.stages.fuse import METHODS
from memkit.search.stages.normalise import HOW, Floats, Ints
from memkit.search.stages.rank import Ranked, rank_candidates
from memkit.text.analyse import ANALYSERS

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

_CHUNKS, _DECAY = cite("workspace", "chunks"), cite("memory_v2", "decay")


@dataclass(frozen=True)
class Call:
    """One question to a fitted Retriever, everything about it settled and checked."""

    queries: Queries
    values: dict[str, Any]
    moment: datetime
    scope: Scope
    allowed: Mask | None
    weights: dict[str, float]
    found: Candidates
    note: str = ""

    def weighing(self, weights: dict[str, float]) -> Call:
        """The same call with other weights of the arms."""
        return replace(self, weights=weights)


@estimator
class Retriever(Estimator):
    """BM25 and vectors, fused, decayed, cut and explained.

    The stages, in order: the best `pool` chunks of each arm among the memories that may be found (`where`, `expired`,
    `kinds_hidden`), normalised per query, fused, multiplied by decay, cut at `min_score`, rid of repetitions, made
    diverse (MMR), cut at k. Parameters that say so act at `fit`, all others at the next call.

    Attributes
    ----------
    corpus_ : Corpus
        What was fitted; its table ``chunks`` is made by `fit`.
    chunks_ : pa.Table
        What is searched, in the order of memory_id and ordinal.
    arms_ : dict of str to Arm
        'bm25' (the lexical arm, whichever it is) and 'vector', each built when its weight first asks for it.

    Examples
    --------
    >>> import memkit as mk, pandas as pd
    >>> corpus = mk.from_table(pd.DataFrame({"text": ["Пул соединений: десять.", "The deploy runs on Friday."]}))
    >>> search = Retriever(encoder="hash").fit(corpus)
    >>> search.search("пулы", k=1).select(["rank", "text"]).to_pylist()
    [{'rank': 1, 'text': 'Пул соединений: десять.'}]
    """

    encoder: Any = param("use", kind="object", refit=True, doc="What `as_encoder` takes; None searches by BM25 alone.")
    analyser: str = param("auto", choices=ANALYSERS, refit=True, doc="How the lexical arm makes terms of words.")
    lexical: str = param("bm25", choices=LEXICAL, refit=True, doc="The lexical arm: BM25, character n-grams, or both.")
    chunk_tokens: int = param(400, low=1, refit=True, unit="tokens", doc="Size of a chunk.", source=_CHUNKS)
    overlap_tokens: int = param(80, low=0, refit=True, unit="tokens", doc="What two chunks share.", source=_CHUNKS)
    ann: str = param("auto", choices=ANN, refit=True, doc="Vector search: exact, or an index beyond a stated size.")
    centre: str = param(
        "none", choices=CENTRES, refit=True, doc="Take off the mean vector: of the corpus, or of each language's texts."
    )

    vector_weight: float = param(0.5, low=0, high=1, doc="Weight of the vector arm; at 0 it is never loaded.")
    bm25_weight: float | None = param(
        None, kind="float", nullable=True, low=0, high=1, doc="Weight of the lexical arm; None is 1 - vector_weight."
    )
    normalise: str = param("minmax", choices=HOW, doc="How an arm's scores come to a common scale, per query.")
    fusion: str = param("weighted", choices=METHODS, doc="How the arms' scores become one.")
    rrf_k: int = param(60, low=0, doc="The constant of fusion 'rrf'.", source="Cormack et al. 2009")
    pool: int = param(100, low=1, unit="chunks", doc="The best of each arm that enter; below it nothing is ranked.")
    decay: str = param("e_folding", choices=FORMS, doc="How a score falls with age.", source=_DECAY)
    decay_days: float = param(60.0, low=0, low_open=True, unit="days", doc="The form's time.", source=_DECAY)
    decay_floor: float = param(0.0, low=0, high=1, doc="The factor never falls below this ratio.")
    min_score: float = param(0.0, low=0, doc="Hits below are dropped, after decay.")
    mmr_lambda: float = param(1.0, low=0, high=1, doc="1 ranks by score alone, less prefers hits unlike those above.")
    unit: str = param("memory", choices=("memory", "chunk"), doc="What a hit is; a memory shows its best chunk.")
    expired: str = param("hide", choices=("hide", "keep", "only"), doc="What becomes of expired memories.")
    on_encoder_error: str = param(
        "words",
        choices=("words", "raise"),
        doc="Where the encoder's service cannot be reached: go on by words and ask it again later, or raise.",
        source=cite("workspace", "fallback"),
    )
    kinds_hidden: tuple[str, ...] = param(kinds_where(searched=False), doc="Kinds of memory that are not searched.")

    def fit(self, corpus: Corpus, y: object = None) -> Self:
        """Cut the corpus's memories into chunks and build the arms that have a weight.

        Vectors of texts seen before come from the cache, and the arms that were saved with a corpus from its folder.
        What was fitted before stays whole where this fails.

        Parameters
        ----------
        corpus : Corpus
            Gets a table ``chunks``; its `save` keeps the arms too.

        Raises
        ------
        ParameterError
            For a parameter outside of its declaration, or where no arm has a weight.
        MemkitError
            Where the encoder fails; one that cannot be reached is done without where `on_encoder_error` is 'words'.
        """
        values = self.check_params()
        settings = {name: values[name] for name, declared in self.params().items() if declared.refit}
        index = build_index(corpus, settings)
        index.kept = partial(kept_arm, index)
        _or_by_words(values, index.weights)
        self._adopt(index)
        return self

    def fitted(self, corpus: Corpus) -> Self:
        """This one where it was fitted on the memories of `corpus`, else a copy that is; known texts are not encoded.

        Examples
        --------
        >>> import memkit as mk
        >>> old, new = mk.from_table({"text": ["чай"]}), mk.from_table({"text": ["кофе"]})
        >>> search = Retriever(encoder=None).fit(old)
        >>> search.fitted(old) is search, search.fitted(new).corpus_ is new
        (True, True)
        """
        index: SearchIndex | None = self.__dict__.get("index_")
        memories = corpus.tables["memories"]
        if index is not None and (index.given is memories or index.given.equals(memories)):
            return self
        return type(self)(**self.get_params(deep=False)).fit(corpus)

    def refresh(self) -> Self:
        """Read the corpus's files again and search what they say now; only new texts are encoded.

        Returns
        -------
        Retriever
            This one, as a fit to the refreshed corpus would make it; unchanged where that fails.
        """
        return self.fit(self._index().corpus.refresh())

    def with_params(self, **values: Any) -> Self:
        """A copy with other query-time parameters that shares everything fitted, at no cost.

        Raises
        ------
        ParameterError
            For a name that is not declared, a value outside of its declaration, or a parameter that needs a refit.
        """
        needs_fit = [name for name, declared in self.params().items() if name in values and declared.refit]
        if needs_fit:
            raise ParameterError(
                f"Retriever.with_params: expected query-time parameters. Got '{needs_fit[0]}', which acts at fit:"
                " use set_params and fit."
            )
        other = copy.copy(self).set_params(**values)
        other.check_params()
        return other

    def search(self, queries: Any, k: int = 10, where: str | None = None, as_of: AsOf = None) -> pa.Table:
        """The best k memories (or chunks) of each query.

        Parameters
        ----------
        queries : str, sequence of str, pa.Table or pandas.DataFrame
            A table has a column ``text`` and may have ``query_id``.
        k : int
            Hits a query at most; fewer where fewer are found among the best `pool` of each arm. The first hits do not
            depend on it.
        where : str, optional
            A SQL predicate over ``memories``, applied before anything is cut.
        as_of : str, date or datetime, optional
            The moment for decay and expiry; None is now. Kept in the schema's metadata.

        Returns
        -------
        pa.Table
            query_id, rank, memory_id, chunk_id, score, bm25, vector, decay, text, path, line_start, line_end. The
            scores of the arms are raw, null where the arm did not find the chunk; `decay` is the factor. Where a
            query has no hit, or the encoder cannot be reached, the metadata's ``note`` says why; ``arms`` holds the
            weights, ``encoder`` its fingerprint.

        Raises
        ------
        NotFittedError, ParameterError, QueryError
        """
        call = self._call(queries, k, where, as_of)
        index = self._index()
        ranked = self._ranked(call, call.found, k, depth=k)
        held = index.chunks.num_rows
        searched = held if call.allowed is None else int(np.count_nonzero(call.allowed))
        empty = empty_note(ranked, call.queries, searched, held, call.values["min_score"])
        hits = hits_table(ranked, call.queries, index.chunks)
        note = " ".join(filter(None, (call.note, empty)))
        return record_as_of(describe(hits, **self._facts(call), note=note), call.moment)

    def trace(self, queries: Any, k: int = 10, where: str | None = None, as_of: AsOf = None) -> pa.Table:
        """Every candidate with what each stage made of it; parameters and errors as for `search`.

        Besides the candidates of `search` it shows what the arms would have found without filters, and the next
        `pool` chunks of each arm.

        Returns
        -------
        pa.Table
            query_id, memory_id, chunk_id, bm25, bm25_rank, bm25_norm, vector, vector_rank, vector_norm, fused,
            age_days, decay, mmr_penalty, score, rank, disposition: one row a memory (or chunk), ranked ones first.
            `disposition` is returned, below_k, below_pool, filtered, expired, below_min_score, decayed_out,
            diversified_away or duplicate. The metadata holds the weights of the arms and the parameters.
        """
        call = self._call(queries, k, where, as_of)
        index = self._index()
        wide = index.find(call.queries.texts, 2 * call.values["pool"], None, call.weights)
        ranked = self._ranked(call, call.found, k, depth=None)
        ranked = with_outside(ranked, wide, index.rows, call.values["unit"], call.scope, self._decay(call))
        table = describe(
            trace_table(ranked, call.queries, index.chunks),
            **self._facts(call),
            note=call.note,
            params={name: call.values[name] for name, declared in self.params().items() if not declared.refit},
        )
        return record_as_of(table, call.moment)

    def save(self, folder: Path | str) -> None:
        """Keep what was fitted in `folder`: parameters, chunks and the arms built so far; no text of the user's code.

        Raises
        ------
        NotFittedError
        """
        save_index(self._index(), self.get_params(deep=False), Path(folder))

    @classmethod
    def load(cls, folder: Path | str, corpus: Corpus, encoder: Any = None) -> Self:
        """What `save` kept, without encoding again.

        Parameters
        ----------
        corpus : Corpus
            The corpus that was fitted, with the same memories.
        encoder : object, optional
            Needed where the saved one was an object rather than a name.

        Raises
        ------
        StaleIndexError
            Where the memories are not those of `save`, or the encoder is another one.
        """
        index, values = load_index(Path(folder), corpus, encoder)
        search = cls(**values)
        search._adopt(index)
        return search

    def __getstate__(self) -> dict[str, Any]:
        if "index_" in self.__dict__:
            raise MemkitError("a fitted Retriever holds a database: keep it with Retriever.save and Retriever.load.")
        return self.__dict__.copy()

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _adopt(self, index: SearchIndex) -> None:
        index.corpus.add_table("chunks", index.chunks)
        index.corpus.attach(
            FOLDER, lambda folder: save_index(index, {**self.get_params(deep=False), **index.settings}, folder)
        )
        self.index_, self.corpus_, self.chunks_, self.arms_ = index, index.corpus, index.chunks, index.arms

    def _index(self) -> SearchIndex:
        index: SearchIndex | None = self.__dict__.get("index_")
        if index is None:
            raise NotFittedError("Retriever: expected fit(corpus) before this.")
        changed = [name for name, value in index.settings.items() if not _same(value, getattr(self, name))]
        if changed:
            raise NotFittedError(
                f"Retriever: '{changed[0]}' was changed after fit and acts at fit. Call fit(corpus) again."
            )
        return index

    def _call(self, queries: Any, k: int, where: str | None, as_of: AsOf) -> Call:
        check_value("Retriever.search", "k", k, "int", low=1)
        index, values, moment = self._index(), self.check_params(), as_of_time(as_of)
        asked, scope = as_queries(queries), index.scope(values, where, moment)
        allowed = scope.allowed(index.rows)

        def find(values: dict[str, Any]) -> tuple[dict[str, float], Candidates]:
            weights = index.weights(values)
            return weights, index.find(asked.texts, values["pool"], allowed, weights)

        (weights, found), note = _or_by_words(values, find)
        return Call(asked, values, moment, scope, allowed, weights, found, note)

    def _facts(self, call: Call) -> dict[str, Any]:
        """Which arms answered, with what weight, and the encoder behind the vectors."""
        return {"arms": call.weights, "encoder": self._index().fingerprint if "vector" in call.weights else None}

    def _decay(self, call: Call) -> Callable[[Ints], tuple[Floats, Floats]]:
        return self._index().decay(call.values, call.moment)

    def _ranked(self, call: Call, found: Candidates, k: int, depth: int | None) -> Ranked:
        index = self._index()
        return rank_candidates(
            found,
            index.rows,
            call.values,
            weights=call.weights,
            decay=self._decay(call),
            similarity=index.similarity,
            k=k,
            depth=depth,
        )

    @property
    def without_vectors_(self) -> str | None:
        """Why there is no vector arm, where there can be none."""
        return self._index().without_vectors

    def _state(self) -> str:
        index: SearchIndex | None = self.__dict__.get("index_")
        if index is None:
            return "not fitted"
        arms = ", ".join(f"{a} ({index.fingerprint})" if a == "vector" else a for a in index.arms) or "none yet"
        return f"{index.memories.num_rows:,} memories, {index.chunks.num_rows:,} chunks; arms: {arms}"


T = TypeVar("T")


def _or_by_words(values: dict[str, Any], act: Callable[[dict[str, Any]], T]) -> tuple[T, str]:
    """What `act` makes of the parameters; of words alone, and why, where the encoder cannot be reached."""
    if values["on_encoder_error"] == "raise":
        return act(values), ""
    try:
        with in_haste():
            return act(values), ""
    except EncoderUnavailableError as error:
        note = f"By words alone: {error}"
        warnings.warn(f"Retriever: no vectors this time. {note}", RuntimeWarning, stacklevel=4)
        return act({**values, "vector_weight": 0.0, "bm25_weight": 1.0}), note


def _same(left: object, right: object) -> bool:
    return left is right or (type(left) is type(right) and left == right)
