"""The parameters of search, declared once: those that act at fit, and those that act at query time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from memkit.documents import cite
from memkit.index.centre import CENTRES
from memkit.index.dense import ANN
from memkit.params import Estimator, Reach, estimator, param
from memkit.schemas import STALE_WEIGHT, kinds_where
from memkit.search.stages.fuse import HOW, METHODS
from memkit.tables.age import DECAY_KINDS, FORMS, UNDATED_TO_DO, decay_reach
from memkit.tables.sandbox import TIMEOUT_S
from memkit.text.analyse import ANALYSERS, SEARCHABLE
from memkit.text.boilerplate import PATTERNS
from memkit.text.chunk import PROSE_DOC

_DECAY = cite("memory_v2", "decay")
LEXICAL = ("bm25", "char")
NEAR_TIE = 0.05
"""The greatest difference of two scores that a date decides, with `prefer`."""
_fitted = partial(param, refit=True, group="fit")
_of_arms, _of_time, _of_output = (partial(param, group=group) for group in ("arms", "time", "output"))
_SHARE: dict[str, Any] = {"low": 0, "high": 1}
_RATIO = {**_SHARE, "unit": "ratio"}
_WEIGHT = {**_SHARE, "kind": "float", "nullable": True}
_CANDIDATES = "candidates of a query"


def _decay(settings: Any, index: Any) -> Reach:
    rows, kinds = index.rows, settings.decay_kinds
    is_of_kinds = np.ones(len(rows.decays), bool) if "*" in kinds else rows.are_of(kinds)[rows.kind[0]]
    return decay_reach(settings.decay, kinds, rows.decays, ~np.isnat(rows.dated), is_of_kinds)


def _recency(settings: Any, index: Any) -> Reach:
    is_dated = ~np.isnat(index.rows.dated)
    return Reach(int(is_dated.sum()), len(is_dated), UNDATED_TO_DO, "prefer")


def _weighted_kinds(settings: Any, index: Any) -> Reach | None:
    codes, names = index.rows.kind
    absent = sorted(set(settings.kind_weights or {}) - set(names))
    if not absent:
        return None
    here = ", ".join(sorted(map(repr, filter(None, names)))) or "none"
    return Reach(0, len(codes), f"the kinds here are {here}", f"kind_weights of {', '.join(map(repr, absent))}")


def _rerank(settings: Any, index: Any) -> Reach | None:
    if settings.rerank is None:
        return None
    count = settings.rerank_n if settings.rerank_weight else 0
    return Reach(count, settings.rerank_n, "rerank_weight is 0", "rerank", _CANDIDATES)


def _of_reranker(settings: Any, index: Any) -> Reach | None:
    if settings.rerank is not None:
        return _rerank(settings, index)
    return Reach(0, settings.pool, "no reranker is given: rerank='e5' is one", "rerank", _CANDIDATES)


def _only_with(what: str, name: str, value: str) -> Callable[[Any, Any], Reach]:
    """The reach of a parameter that acts only where another has a value."""

    def reach(settings: Any, index: Any) -> Reach:
        n_memories = len(index.rows.decays)
        return Reach(
            n_memories if getattr(settings, name) == value else 0, n_memories, f"{name}={value!r} uses it", what
        )

    return reach


_across = _only_with("across_weight", "normalise", "calibrated")


def _threshold(settings: Any, index: Any) -> Reach | None:
    """How many memories can reach `min_score`: all or none; None where scores have no bound."""
    if settings.rerank is not None or (settings.normalise == "none" and settings.fusion == "weighted"):
        return None
    best, n_memories = 1 + NEAR_TIE * (settings.prefer is not None), len(index.rows.decays)
    count = n_memories if settings.min_score <= best else 0
    what = f"min_score={settings.min_score:g}"
    return Reach(count, n_memories, f"with these settings no score is above {best:g}", what, verb="lets through")


def _expiring(settings: Any, index: Any) -> Reach:
    ends = ~np.isnat(index.rows.expires)
    return Reach(int(ends.sum()), len(ends), "none has an end (expires_at)", "expired")


@estimator
class FitSettings(Estimator):
    """Parameters of the index; a change needs a new fit."""

    encoder: Any = param(
        "use",
        kind="object",
        refit=True,
        group="first",
        doc="The embedding model: a name such as 'use' or 'e5', or what `as_encoder` takes; None: no vectors.",
    )
    analyser: str = _fitted("auto", choices=ANALYSERS, doc="How text becomes terms: tokenising and stemming.")
    lexical: str = _fitted(
        "bm25",
        choices=LEXICAL,
        doc="How the arm of words scores: by BM25, or by TF-IDF over stems and character n-grams ('char').",
    )
    chunk_tokens: int = _fitted(
        100, low=1, unit="tokens", doc="Chunk size: lines are joined into one chunk up to this size."
    )
    overlap_tokens: int = _fitted(20, low=0, unit="tokens", doc="Overlap of neighbouring chunks.")
    prose_tokens: int = _fitted(400, low=1, unit="tokens", doc=PROSE_DOC)
    searched: Sequence[str] = _fitted(
        None,
        stands_for=SEARCHABLE,
        choices=SEARCHABLE,
        low=1,
        doc="Columns of a memory whose text is searched; None: all of them.",
    )
    boilerplate: Sequence[str] = _fitted(
        None,
        stands_for=PATTERNS,
        doc="Regular expressions (RE2) of boilerplate. A match is shown in hits but not searched, except for its first"
        " group if that is named kept. None: those of `memkit.text.boilerplate`, which match what chat programs write"
        " around messages, and the targets of links; (): all text is searched.",
    )
    context_column: str | None = _fitted(
        "auto",
        kind="str",
        nullable=True,
        doc="Column that names a user's conversations: a turn is also found by the words of the turns around it, which"
        " count less. 'auto': the column session, conversation or thread of a table, if there is one. None: off. It is"
        " always off in buckets (shards) and engines.",
    )
    ann: str = _fitted(
        "auto",
        choices=ANN,
        doc="Nearest-neighbour search: exact, or approximate with HNSW or IVF; auto: exact in small corpora.",
    )
    centre: str = _fitted(
        "none",
        choices=CENTRES,
        doc="Mean-centering: subtract the mean vector of the corpus, or of each language's texts.",
    )
    engine: Any = _fitted(
        "local",
        kind="object",
        doc="Backend that finds candidates: 'local', 'milvus', 'milvus:URI', or an object with put, candidates and"
        " drop.",
    )


WEIGHTS = ("vector_weight", "bm25_weight", "gram_weight")
"""The parameters that weigh the arms."""


@estimator
class QuerySettings(Estimator):
    """Parameters of a query; a change acts at the next call."""

    vector_weight: float | None = param(
        None,
        **_WEIGHT,
        group="first",
        doc="Weight of the arm of meaning (vectors); with 0 the encoder is never loaded. None: the arms left at None"
        " share the remaining weight in the proportions measured for the encoder.",
    )
    bm25_weight: float | None = _of_arms(
        None, **_WEIGHT, doc="Weight of the arm of words (BM25); None: as for vector_weight."
    )
    gram_weight: float | None = _of_arms(
        None, **_WEIGHT, doc="Weight of the arm of letters (character n-grams); None: as for vector_weight."
    )
    function_word_weight: float = _of_arms(
        0.1,
        **_RATIO,
        doc="Weight of stop words ('the', «и») in a query; if it is below 1, the arm of letters skips them.",
    )
    near_words: float = _of_arms(
        0.8,
        **_RATIO,
        doc="Typo tolerance: a query word that no text contains also matches the nearest word of the corpus, with this"
        " weight (other words have 1). Never for words with digits or '_', in quotes, or of fewer than 5 letters."
        " 0: off.",
    )
    read_dates: bool = _of_arms(
        True,
        doc="Whether times in a query ('вчера', \"last week\", 2026-03-01) are also searched as the dates they mean.",
    )
    across_weight: float = _of_arms(
        0.6,
        **_RATIO,
        doc="Matching across alphabets, where the arm of words finds nothing (with normalise='calibrated'): a chunk in"
        " another alphabet than the query gets this share of its score by meaning as its score by words, and the"
        " remaining share from terms that mean or sound the same. A name that no text has in the query's alphabet is"
        " matched phonetically. 0: off.",
        acts_on=lambda settings, index: _across(settings, index) if settings.across_weight else None,
    )
    normalise: str = _of_arms(
        "calibrated", choices=("calibrated", *HOW), doc="How the scores of each arm are brought to a common scale."
    )
    fusion: str = _of_arms("weighted", choices=METHODS, doc="How the arms' scores are combined.")
    rrf_k: int = _of_arms(
        60,
        low=0,
        doc="The constant k of reciprocal rank fusion.",
        source="Cormack et al. 2009",
        acts_on=_only_with("rrf_k", "fusion", "rrf"),
    )
    pool: int = _of_arms(100, low=1, unit="chunks", doc="Candidates per arm (num_candidates); only these are ranked.")
    rerank: Any = _of_arms(
        None,
        kind="object",
        doc="Reranker of the best `rerank_n` candidates: an encoder ('e5'), a cross-encoder ('st:PATH'), or a function"
        " of a query and a list of texts that returns scores; None: no reranking. Measure it on your own labels.",
        acts_on=_rerank,
    )
    rerank_n: int = _of_arms(
        20,
        low=1,
        unit="candidates",
        doc="How many of the best candidates of a query are reranked.",
        acts_on=_of_reranker,
    )
    rerank_weight: float = _of_arms(
        0.5,
        **_RATIO,
        doc="Share of the reranker's score in the score of a reranked candidate; the rest is its fused score. Reranked"
        " candidates stay above the others.",
        acts_on=_of_reranker,
    )
    kind_weights: Mapping[str, float] | None = param(
        None,
        **_SHARE,
        kind="weights",
        nullable=True,
        group="first",
        doc="Factor on the score by kind of memory, such as {'daily_log': 0.7}. Kinds that are not named have 1;"
        " contents pages (index) and lists of changes (log) have less.",
        acts_on=_weighted_kinds,
    )
    decay: str = _of_time(
        "e_folding",
        choices=FORMS,
        doc="How scores fall with age.",
        source=_DECAY,
        acts_on=lambda settings, index: None if settings.decay == "none" else _decay(settings, index),
    )
    decay_days: float = param(
        60.0,
        low=0,
        low_open=True,
        unit="days",
        group="first",
        doc="Age at which the decay factor is 1/e (e_folding) or 1/2 (the other forms).",
        source=_DECAY,
        acts_on=_decay,
    )
    decay_floor: float = _of_time(0.0, **_SHARE, doc="Lower bound of the decay factor.", acts_on=_decay)
    decay_kinds: Sequence[str] = _of_time(
        DECAY_KINDS["search"],
        star=True,
        doc="Kinds of memory that decay; '*': all, including memories without a kind.",
        acts_on=_decay,
    )
    prefer: str | None = _of_time(
        None,
        kind="str",
        nullable=True,
        choices=("newest",),
        doc="Recency tie-breaking. 'newest': of two similar memories of one user whose scores differ by at most 0.05,"
        " the newer comes first. None: off.",
        acts_on=lambda settings, index: _recency(settings, index) if settings.prefer else None,
    )
    prefer_alike: float = _of_time(
        0.75,
        **_SHARE,
        doc="Minimum cosine similarity of trigrams at which `prefer` treats two texts as similar; they may differ in"
        " numbers and names, as a statement and its update do.",
        acts_on=_only_with("prefer_alike", "prefer", "newest"),
    )
    min_score: float = param(
        0.0, low=0, group="first", doc="Hits with a lower final score are dropped.", acts_on=_threshold
    )
    fold: str = _of_output(
        "near", choices=("none", "near"), doc="Whether near-duplicates of a better hit are collapsed under it."
    )
    fold_threshold: float = _of_output(
        None,
        **_SHARE,
        kind="float",
        stands_for=0.85,
        doc="Minimum cosine similarity of trigrams at which two texts are near-duplicates; None is 0.85. Texts that"
        " differ in a number, a date, a negation or a value are never collapsed.",
        acts_on=_only_with("fold_threshold", "fold", "near"),
    )
    mmr_lambda: float = _of_output(
        1.0, **_SHARE, doc="Diversity (MMR): 1 ranks by score alone; lower values avoid similar hits."
    )
    unit: str = _of_output(
        "memory",
        choices=("memory", "chunk", "file"),
        doc="What a hit is: a memory, with its best chunk; a chunk; or a file, with its best memory.",
    )
    expired: str = _of_time(
        "hide",
        choices=("hide", "keep", "only"),
        doc="Whether expired memories are hidden, kept, or the only ones searched.",
        acts_on=_expiring,
    )
    status: str = _of_output(
        "obey",
        choices=("obey", "keep"),
        doc="Whether the status that the author gave a memory counts. 'obey' hides deprecated memories, shows the"
        " successor of a superseded one in its place, and multiplies the score of one that is stale at `as_of`,"
        f" archived or a draft by {STALE_WEIGHT:g}; 'keep' ignores the status.",
    )
    future: str | None = _of_time(
        None,
        kind="str",
        nullable=True,
        choices=("keep", "hide"),
        doc="Whether memories created after `as_of` are kept or hidden; a day lasts to its end. None: hidden if"
        " `as_of` is given. 'hide' without `as_of` hides memories dated after now.",
    )
    on_encoder_error: str = _of_output(
        "words",
        choices=("words", "raise"),
        doc="If the service of the encoder or the reranker cannot be reached: search without it and retry later, or"
        " raise.",
        source=cite("workspace", "fallback"),
    )
    where_timeout_s: float = _of_output(
        TIMEOUT_S,
        low=0,
        low_open=True,
        unit="seconds",
        doc="Time limit of the predicate `where`; an error is raised if it takes longer.",
    )
    kinds_hidden: tuple[str, ...] = _of_output(
        kinds_where(searched=False), doc="Kinds of memory that are not searched."
    )
