"""The parameters of search, declared once: those that act at fit, and those that act at query time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memkit.documents import cite
from memkit.index.centre import CENTRES
from memkit.index.dense import ANN
from memkit.params import Estimator, estimator, param
from memkit.schemas import STALE_WEIGHT, kinds_where
from memkit.search.stages.fuse import HOW, METHODS
from memkit.tables.age import FORMS
from memkit.tables.sandbox import TIMEOUT_S
from memkit.text.analyse import ANALYSERS, SEARCHABLE
from memkit.text.boilerplate import PATTERNS
from memkit.text.chunk import PROSE_DOC

_DECAY = cite("memory_v2", "decay")
LEXICAL = ("bm25", "char")


@estimator
class FitSettings(Estimator):
    """Parameters of the index; a change needs a new fit."""

    encoder: Any = param(
        "use",
        kind="object",
        refit=True,
        group="first",
        doc="The embedding model, as `as_encoder` takes it; None: no vectors.",
    )
    analyser: str = param(
        "auto", choices=ANALYSERS, refit=True, group="fit", doc="How text becomes terms: tokenising and stemming."
    )
    lexical: str = param(
        "bm25", choices=LEXICAL, refit=True, group="fit", doc="The arm of words: BM25, or stems and character n-grams."
    )
    chunk_tokens: int = param(
        100, low=1, refit=True, unit="tokens", group="fit", doc="Size up to which lines gather in a chunk."
    )
    overlap_tokens: int = param(
        20, low=0, refit=True, unit="tokens", group="fit", doc="Overlap of neighbouring chunks."
    )
    prose_tokens: int = param(400, low=1, refit=True, unit="tokens", group="fit", doc=PROSE_DOC)
    searched: Sequence[str] = param(
        None,
        stands_for=SEARCHABLE,
        choices=SEARCHABLE,
        low=1,
        refit=True,
        group="fit",
        doc="Columns of a memory whose text is searched; None: all of them.",
    )
    boilerplate: Sequence[str] = param(
        None,
        stands_for=PATTERNS,
        refit=True,
        group="fit",
        doc="Regular expressions (RE2) of what is no evidence: shown, and left out of what search compares, but for a"
        " first group named kept. None: `memkit.text.boilerplate`'s, for what chat programs write around messages and"
        " where links lead; (): nothing is left out.",
    )
    context_column: str | None = param(
        "auto",
        kind="str",
        nullable=True,
        refit=True,
        group="fit",
        doc="Column that names a user's conversations: a turn is also found by the words of the turns around it, which"
        " count less. 'auto': the column session, conversation or thread of a table, if there is one. None: off, as it"
        " is in buckets and engines.",
    )
    ann: str = param(
        "auto",
        choices=ANN,
        refit=True,
        group="fit",
        doc="Nearest-neighbour search: exact, HNSW or IVF; auto: exact in small corpora.",
    )
    centre: str = param(
        "none",
        choices=CENTRES,
        refit=True,
        group="fit",
        doc="Mean-centering: subtract the mean vector of the corpus, or of each language's texts.",
    )
    engine: Any = param(
        "local",
        kind="object",
        refit=True,
        group="fit",
        doc="Backend that finds candidates: 'local', 'milvus', 'milvus:URI', or an object with put, candidates and"
        " drop.",
    )


@estimator
class QuerySettings(Estimator):
    """Parameters of a query; a change acts at the next call."""

    vector_weight: float | None = param(
        None,
        kind="float",
        nullable=True,
        low=0,
        high=1,
        group="first",
        doc="Weight of the arm of meaning (vectors); 0 never loads it. Arms set to None share the remaining weight in"
        " the proportions stored for the encoder.",
    )
    bm25_weight: float | None = param(
        None,
        kind="float",
        nullable=True,
        low=0,
        high=1,
        group="arms",
        doc="Weight of the arm of words (BM25); None as above.",
    )
    gram_weight: float | None = param(
        None,
        kind="float",
        nullable=True,
        low=0,
        high=1,
        group="arms",
        doc="Weight of the arm of letters (character n-grams); None as above.",
    )
    function_word_weight: float = param(
        0.1,
        low=0,
        high=1,
        unit="ratio",
        group="arms",
        doc="Weight of stop words ('the', «и») in a query; below 1 the arm of letters skips them.",
    )
    near_words: float = param(
        0.8,
        low=0,
        high=1,
        unit="ratio",
        group="arms",
        doc="Weight of the nearest word of the corpus for a word of a query that no text has, such as one with a typo;"
        " a true word has 1. Never for words with digits or '_', in quotes, or of fewer than 5 letters. 0: off.",
    )
    read_dates: bool = param(
        True,
        group="arms",
        doc="Whether times in a query ('вчера', \"last week\", 2026-03-01) are also searched as dates.",
    )
    across_weight: float = param(
        0.6,
        low=0,
        high=1,
        unit="ratio",
        group="arms",
        doc="Matching across alphabets, with normalise='calibrated': a chunk in another alphabet than the query gets"
        " this share of its meaning score as its words score, and the remaining share from terms that mean or"
        " sound the same. A name that no text has in the query's alphabet is matched phonetically. 0: off.",
    )
    normalise: str = param(
        "calibrated",
        choices=("calibrated", *HOW),
        group="arms",
        doc="How the scores of each arm are brought to a common scale.",
    )
    fusion: str = param("weighted", choices=METHODS, group="arms", doc="How the arms' scores are combined.")
    rrf_k: int = param(
        60, low=0, group="arms", doc="The constant k of reciprocal rank fusion.", source="Cormack et al. 2009"
    )
    pool: int = param(
        100, low=1, unit="chunks", group="arms", doc="Candidates per arm (num_candidates); only these are ranked."
    )
    rerank: Any = param(
        None,
        kind="object",
        group="arms",
        doc="A second look at the best `rerank_n`: an encoder ('e5'), a cross-encoder ('st:PATH'), or a function of a"
        " query and a list of texts that returns scores; None: none. Choose it by labels of your own.",
    )
    rerank_n: int = param(
        20, low=1, unit="candidates", group="arms", doc="How many of the best candidates of a query get a second look."
    )
    rerank_weight: float = param(
        0.5,
        low=0,
        high=1,
        unit="ratio",
        group="arms",
        doc="Share of the second look in the scores of these candidates; they stay above the others.",
    )
    kind_weights: Mapping[str, float] | None = param(
        None,
        kind="weights",
        nullable=True,
        low=0,
        high=1,
        group="first",
        doc="Factor on the score by kind of memory, such as {'daily_log': 0.7}; other kinds have 1, but for contents"
        " pages and lists of changes, index and log.",
    )
    decay: str = param("e_folding", choices=FORMS, group="time", doc="How scores fall with age.", source=_DECAY)
    decay_days: float = param(
        60.0,
        low=0,
        low_open=True,
        unit="days",
        group="first",
        doc="Age at which the decay factor is 1/e (e_folding) or 1/2 (the other forms).",
        source=_DECAY,
    )
    decay_floor: float = param(0.0, low=0, high=1, group="time", doc="Lower bound of the decay factor.")
    decay_kinds: Sequence[str] = param(
        kinds_where(fact=True),
        star=True,
        group="time",
        doc="Kinds of memory that decay; '*': all, those without a kind too.",
    )
    prefer: str | None = param(
        None,
        kind="str",
        nullable=True,
        choices=("newest",),
        group="time",
        doc="'newest': of two memories of one owner that are alike, with scores that differ by at most 0.05, the newer"
        " comes first. None: off.",
    )
    prefer_alike: float = param(
        0.75,
        low=0,
        high=1,
        group="time",
        doc="Cosine similarity of trigrams from which two texts are alike for `prefer`; they may differ in numbers and"
        " names, as a statement and its update do.",
    )
    min_score: float = param(0.0, low=0, group="first", doc="Hits with a lower final score are dropped.")
    fold: str = param(
        "near",
        choices=("none", "near"),
        group="output",
        doc="Whether near-duplicates of a better hit are collapsed under it.",
    )
    fold_threshold: float = param(
        None,
        kind="float",
        stands_for=0.85,
        low=0,
        high=1,
        group="output",
        doc="Cosine similarity of trigrams from which two texts are near-duplicates; None is 0.85. Texts that differ"
        " in a number, a date, a negation or a value never are.",
    )
    mmr_lambda: float = param(
        1.0, low=0, high=1, group="output", doc="Diversity (MMR): 1 ranks by score alone, less avoids similar hits."
    )
    unit: str = param(
        "memory",
        choices=("memory", "chunk", "file"),
        group="output",
        doc="What a hit is: a memory, with its best chunk; a chunk; or a file, with its best memory.",
    )
    expired: str = param(
        "hide",
        choices=("hide", "keep", "only"),
        group="time",
        doc="Whether expired memories are hidden, kept, or the only ones.",
    )
    status: str = param(
        "obey",
        choices=("obey", "keep"),
        group="output",
        doc="What its author says of a memory: 'obey' hides deprecated memories, shows the successor of a superseded"
        f" one in its place, and multiplies the score of one that is stale at `as_of` by {STALE_WEIGHT:g}; 'keep' does"
        " nothing.",
    )
    future: str | None = param(
        None,
        kind="str",
        nullable=True,
        choices=("keep", "hide"),
        group="time",
        doc="Whether memories created after `as_of` are kept or hidden; a day lasts to its end. None: hidden if"
        " `as_of` is given. 'hide' without `as_of` hides memories dated after now.",
    )
    on_encoder_error: str = param(
        "words",
        choices=("words", "raise"),
        group="output",
        doc="If the service of the encoder or the reranker cannot be reached: search without it and retry later, or"
        " raise.",
        source=cite("workspace", "fallback"),
    )
    where_timeout_s: float = param(
        TIMEOUT_S,
        low=0,
        low_open=True,
        unit="seconds",
        group="output",
        doc="Time limit of the predicate `where`; beyond it an error is raised.",
    )
    kinds_hidden: tuple[str, ...] = param(
        kinds_where(searched=False), group="output", doc="Kinds of memory that are not searched."
    )
