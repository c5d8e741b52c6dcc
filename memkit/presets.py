"""Named parameter sets: the documents' exact numbers and the recommended ones, pipelines of policies, values to try.

>>> memory_v2_pipeline().names
['admission', 'classifier', 'deduplicator', 'quota', 'expiry']
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any, NoReturn

from memkit.base.params import check_value
from memkit.documents import DOCUMENTS as DOCUMENTS
from memkit.documents import POLICY as POLICY
from memkit.documents import cite as cite
from memkit.documents import index_policy as index_policy
from memkit.documents import memory_v2_policy as memory_v2_policy
from memkit.errors import ParameterError, did_you_mean
from memkit.formats.format import PROMPTS
from memkit.policy.base import policy_class
from memkit.policy.pipeline import Pipeline
from memkit.schemas import kinds_where

PIPELINES = {
    "memory_v2": ("admission", "classifier", "deduplicator", "quota", "expiry"),
    "index_standard": ("index_check",),
}
"""The policies that run on save, in order, by document; the other documents have none."""


def preset_pipeline(preset: str) -> Pipeline:
    """The pipeline of a preset's policies, in its order and with its values."""
    return Pipeline([policy_class(name)(**POLICY[preset][name]) for name in PIPELINES[preset]])


def memory_v2_pipeline() -> Pipeline:
    """The `Pipeline` of the Memory v2 document: ``mk.presets.memory_v2_pipeline().fit_transform(corpus)``."""
    return preset_pipeline("memory_v2")


def index_standard_pipeline() -> Pipeline:
    """The `Pipeline` of the index standard, over the ``entries`` of a corpus."""
    return preset_pipeline("index_standard")


# Retriever(**presets.workspace) and so on; `evidence` gives the source of each number.
# A document's preset sets every parameter that affects ranking, so that memkit's defaults do not; features that the
# documents do not mention are off.
_PLAIN: dict[str, Any] = {
    "index__analyzer": "auto",
    "index__lexical": "bm25",
    "index__searched": ("title", "tags", "text"),
    "index__ann": "auto",
    "index__context_column": None,
    "index__centre": "none",
    "index__chunk_tokens": 400,
    "index__prose_tokens": 400,
    "index__boilerplate": (),
    "index__overlap_tokens": 80,
    "pool": 100,
    "unit": "memory",
    "mmr_lambda": 1.0,
    "min_score": 0.0,
    "gram_weight": 0.0,
    "function_word_weight": 1.0,
    "across_weight": 0.0,
    "near_words": 0.0,
    "read_dates": False,
    "fusion": "weighted",
    "rrf_k": 60,
    "rerank": None,
    "rerank_n": 20,
    "rerank_weight": 0.5,
    "fold": "none",
    "fold_threshold": 0.85,
    "kind_weights": None,
    "decay": "none",
    "decay_days": 60.0,
    "decay_floor": 0.0,
    "decay_kinds": kinds_where(fact=True),
    "expired": "hide",
    "status": "keep",
    "prefer": None,
    "future": None,
    "kinds_hidden": kinds_where(searched=False),
}
workspace: dict[str, Any] = _PLAIN | {"vector_weight": 0.7, "bm25_weight": 0.3, "normalize": "max"}
memory_v2: dict[str, Any] = _PLAIN | {
    "vector_weight": 1.0,
    "bm25_weight": 0.0,
    "normalize": "none",
    "decay": "e_folding",
    "decay_kinds": "*",
}

# ContextBuilder(**memory_v2_context). The document gives no limit for WORKING, and no previews.
memory_v2_context: dict[str, Any] = {
    "retriever": memory_v2,
    "profile_chars": 800,
    "working_chars": 500,
    "relevant_chars": 2000,
    "preview_chars": 200,
    "k": 5,
    "fill": "greedy",
    "skip_shown": False,
    "host": "none",
    **{name: p.default for _, prompt in PROMPTS.all() for name, p in prompt.params.items()},
}
_RULE: dict[str, Any] = {"normalize": "calibrated", "function_word_weight": 0.1}
recommended_use = {"encoder": "use", "vector_weight": 0.2, "bm25_weight": 0.6, "gram_weight": 0.2} | _RULE
recommended_e5 = {"encoder": "e5", "vector_weight": 0.29, "bm25_weight": 0.43, "gram_weight": 0.29} | _RULE
evidence: dict[str, str] = {
    "workspace": (
        f"{cite('workspace', 'search')}: 70 % vector, 30 % BM25. {cite('workspace', 'chunks')}: 400 tokens, overlap 80."
        f" {cite('workspace', 'fallback')}: BM25 alone, where the rescaled weight lets it reach 1.0. It knows no decay."
    ),
    "memory_v2": (
        f"{cite('memory_v2', 'decay')}: semantic search, the cosine times exp(-age / 60 days) for archive or normal"
        f" memories, never for profile or high ones. {cite('memory_v2', 'expiry')}: expired memories are not shown."
    ),
    "recommended_use": (
        "November 2026, mean nDCG@10 over 18 labelled sets and crossings, at most 300 queries each: BM25 .455, vectors"
        " .633, both at equal weights under minmax .695, these weights on the calibrated scale .743; without letters"
        " .731, function words whole .736. Twice and half the weight of words .740 and .742; 9 settings were looked at."
    ),
    "recommended_e5": (
        "Chosen as recommended_use, on the same sets: half the weight of words beside vectors. Under minmax, nDCG@10 by"
        " vector weight 0, .25, .5, .75, 1: a Russian FAQ .531 .592 .660 .705 .658."
    ),
}

RETRIEVER: dict[str, dict[str, object]] = {
    "workspace": workspace,
    "memory_v2": memory_v2,
    "recommended_use": recommended_use,
    "recommended_e5": recommended_e5,
}
"""The presets of `Retriever` by name."""
MOST_POINTS = 1_000_000
"""The longest list of values, some 30 MB: a longer one is a slip in the step. A grid has no more settings either."""


def steps(low: float, high: float, step: float) -> list[float]:
    """Numbers from `low` to `high`, both included, computed in decimals, so that rounding never loses the last one.

    Parameters
    ----------
    low, high, step : float
        `step` is above 0; `high` is included where a whole number of steps reaches it.

    Returns
    -------
    list of float

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> steps(0, 0.3, 0.1)
    [0.0, 0.1, 0.2, 0.3]
    """
    try:
        first, last, by = (Decimal(str(value)) for value in (low, high, step))
    except InvalidOperation:
        first = last = by = Decimal("nan")
    if not (first.is_finite() and last.is_finite() and by.is_finite()) or by <= 0 or last < first:
        raise ParameterError(f"steps: expected numbers, low <= high and a step above 0. Got {low}, {high}, {step}.")
    count = int((last - first) / by) + 1
    if count > MOST_POINTS:
        raise ParameterError(f"steps: expected at most {MOST_POINTS:,} points. Got {count:,}.")
    return [float(first + by * position) for position in range(count)]


def shares(step: float = 0.1, parts: int = 3) -> list[tuple[float, ...]]:
    """All ways to divide 1 into `parts` in whole steps: every mixture of the arms' weights, once.

    Parameters
    ----------
    step : float
        1 over a whole number.
    parts : int

    Returns
    -------
    list of tuple of float
        For an axis of several parameters: ``{("vector_weight", "bm25_weight"): mk.presets.shares(0.1, 2)}``.

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> shares(0.5, 2)
    [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0)]
    >>> len(shares(0.1))
    66
    """
    check_value("shares", "parts", parts, "int", low=1)
    check_value("shares", "step", step, "float", low=0, low_open=True, high=1)
    whole = round(1 / step)
    # Decimals say that 0.1 is a tenth; of 1 / 3, which has no decimals that end, the product is near 1.
    if Decimal(str(step)) * whole != 1 and abs(step * whole - 1) > 1e-9:
        raise ParameterError(f"shares: expected a step of 1 over a whole number, such as 0.1. Got {step}.")
    if math.comb(whole + parts - 1, parts - 1) > MOST_POINTS:
        raise ParameterError(f"shares: expected at most {MOST_POINTS:,} points. Got a step of {step}, {parts} parts.")
    cuts = (cut for cut in product(range(whole + 1), repeat=parts - 1) if sum(cut) <= whole)
    return [tuple(part / whole for part in (*cut, whole - sum(cut))) for cut in cuts]


def __getattr__(name: str) -> NoReturn:
    hint = did_you_mean(
        name, [*RETRIEVER, "memory_v2_policy", "memory_v2_context", "memory_v2_pipeline", "index_policy", "evidence"]
    )
    raise AttributeError(f"mk.presets has no {name!r}. Expected one of {', '.join(RETRIEVER)}.{hint}")
