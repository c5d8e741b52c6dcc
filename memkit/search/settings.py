"""The parameters of search, declared once: what acts at fit, and what acts at query time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memkit.documents import cite
from memkit.index.centre import CENTRES
from memkit.index.dense import ANN
from memkit.params import Estimator, estimator, param
from memkit.schemas import kinds_where
from memkit.search.stages.fuse import HOW, METHODS
from memkit.tables.age import FORMS
from memkit.tables.sandbox import TIMEOUT_S
from memkit.text.analyse import ANALYSERS, SEARCHABLE

_DECAY = cite("memory_v2", "decay")
LEXICAL = ("bm25", "char")


@estimator
class FitSettings(Estimator):
    """What an index is made with; a change needs a new fit."""

    encoder: Any = param(
        "use", kind="object", refit=True, group="first", doc="What `as_encoder` takes; None searches by BM25 alone."
    )
    analyser: str = param(
        "auto", choices=ANALYSERS, refit=True, group="fit", doc="How the lexical arm makes terms of words."
    )
    lexical: str = param(
        "bm25", choices=LEXICAL, refit=True, group="fit", doc="The lexical arm: BM25, or stems and character n-grams."
    )
    chunk_tokens: int = param(100, low=1, refit=True, unit="tokens", group="fit", doc="Size of a chunk.")
    overlap_tokens: int = param(20, low=0, refit=True, unit="tokens", group="fit", doc="What two chunks share.")
    searched: Sequence[str] = param(
        None,
        stands_for=SEARCHABLE,
        choices=SEARCHABLE,
        refit=True,
        group="fit",
        doc="Columns of a memory that its chunks are searched by; None: all of them.",
    )
    context_column: str | None = param(
        None,
        kind="str",
        nullable=True,
        refit=True,
        group="fit",
        doc="A column whose equal values are one conversation: a turn is found by those around it too.",
    )
    ann: str = param(
        "auto", choices=ANN, refit=True, group="fit", doc="Vector search: exact, or an index beyond a stated size."
    )
    centre: str = param(
        "none",
        choices=CENTRES,
        refit=True,
        group="fit",
        doc="Take off the mean vector: of the corpus, or of each language's texts.",
    )
    engine: Any = param(
        "local",
        kind="object",
        refit=True,
        group="fit",
        doc="Who finds candidates: 'local', 'milvus', 'milvus:URI', or an object with put, candidates and drop.",
    )


@estimator
class QuerySettings(Estimator):
    """What a question is answered with; a change acts at the next call."""

    vector_weight: float | None = param(
        None,
        kind="float",
        nullable=True,
        low=0,
        high=1,
        group="first",
        doc="Weight of the vector arm; at 0 it is never loaded. Arms of None share what others leave of 1, as is"
        " stored for the encoder.",
    )
    bm25_weight: float | None = param(
        None, kind="float", nullable=True, low=0, high=1, group="arms", doc="Weight of the lexical arm; None as above."
    )
    gram_weight: float | None = param(
        None,
        kind="float",
        nullable=True,
        low=0,
        high=1,
        group="arms",
        doc="Weight of the arm of letters; None as above.",
    )
    function_word_weight: float = param(
        0.1,
        low=0,
        high=1,
        unit="ratio",
        group="arms",
        doc="What 'the', «и» and their like count in a query; below 1 letters skip them.",
    )
    read_dates: bool = param(
        True,
        group="arms",
        doc="Whether words and letters look for the days that a query names: 'вчера', \"last week\", 2026-03-01.",
    )
    across_weight: float = param(
        0.6,
        low=0,
        high=1,
        unit="ratio",
        group="arms",
        doc="Calibrated, what a chunk in another script than the query gets for words: this share of its vector's, and"
        " the rest of what the words mean or sound like there, where the encoder tells. What the query names and"
        " no text has in its script is found by its sound in any chunk; 0: only equal words count.",
    )
    normalise: str = param(
        "calibrated",
        choices=("calibrated", *HOW),
        group="arms",
        doc="How an arm's scores come to a common scale, per query.",
    )
    fusion: str = param("weighted", choices=METHODS, group="arms", doc="How the arms' scores become one.")
    rrf_k: int = param(60, low=0, group="arms", doc="The constant of fusion 'rrf'.", source="Cormack et al. 2009")
    pool: int = param(
        100, low=1, unit="chunks", group="arms", doc="The best of each arm that enter; below it nothing is ranked."
    )
    kind_weights: Mapping[str, float] | None = param(
        None,
        kind="weights",
        nullable=True,
        low=0,
        high=1,
        group="first",
        doc="A factor by kind of memory, such as {'daily_log': 0.7}.",
    )
    decay: str = param("e_folding", choices=FORMS, group="time", doc="How a score falls with age.", source=_DECAY)
    decay_days: float = param(
        60.0, low=0, low_open=True, unit="days", group="first", doc="The form's time.", source=_DECAY
    )
    decay_floor: float = param(0.0, low=0, high=1, group="time", doc="The factor never falls below this ratio.")
    decay_kinds: Sequence[str] = param(
        kinds_where(fact=True),
        star=True,
        group="time",
        doc="Kinds of memory that decay; a null kind does under '*', for all, alone.",
    )
    min_score: float = param(0.0, low=0, group="first", doc="Hits below are dropped, after decay.")
    fold: str = param(
        "near",
        choices=("none", "near"),
        group="output",
        doc="Whether what says nearly the same as a better hit is folded under it.",
    )
    fold_threshold: float = param(
        None,
        kind="float",
        stands_for=0.85,
        low=0,
        high=1,
        group="output",
        doc="Cosine of trigrams from which two texts say the same; None is 0.85. Other numbers, dates or negations in"
        " like places keep them apart.",
    )
    mmr_lambda: float = param(
        1.0, low=0, high=1, group="output", doc="1 ranks by score alone, less prefers hits unlike those above."
    )
    unit: str = param(
        "memory", choices=("memory", "chunk"), group="output", doc="What a hit is; a memory shows its best chunk."
    )
    expired: str = param(
        "hide", choices=("hide", "keep", "only"), group="time", doc="What becomes of expired memories."
    )
    future: str | None = param(
        None,
        kind="str",
        nullable=True,
        choices=("keep", "hide"),
        group="time",
        doc="What becomes of memories created after `as_of`, of a day after its end; None: hidden where a moment is"
        " given, shown where none is. 'hide' then hides what is dated after now.",
    )
    on_encoder_error: str = param(
        "words",
        choices=("words", "raise"),
        group="output",
        doc="Where the encoder's service cannot be reached: go on by words and ask it again later, or raise.",
        source=cite("workspace", "fallback"),
    )
    where_timeout_s: float = param(
        TIMEOUT_S,
        low=0,
        low_open=True,
        unit="seconds",
        group="output",
        doc="When the predicate of `where` is given up, with an error.",
    )
    kinds_hidden: tuple[str, ...] = param(
        kinds_where(searched=False), group="output", doc="Kinds of memory that are not searched."
    )
