"""What the arms search and find: words read as others, boilerplate left out, turns that lend, and the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from memkit.base.params import Estimator, estimator, param
from memkit.documents import cite
from memkit.errors import count_of
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.context import AUTO
from memkit.search.step import Look, Step
from memkit.text.boilerplate import evidence

if TYPE_CHECKING:
    from memkit.search.question import Question
    from memkit.search.state import Ranked

_MOST_READ = 5
"""Most words that a note says are read as others."""
OUTSIDE = "below_pool"
WEIGHTS = ("vector_weight", "bm25_weight", "gram_weight")
"""The parameters that weigh the arms."""


def _readings(question: Question) -> str:
    """A sentence for each word that is read as another, for the first few."""
    read = dict(pair for words in question.read_as.values() for pair in words.items())
    of_typos = [
        f"No text has {word!r:.80}: it is read as {other!r:.80}." for word, other in list(read.items())[:_MOST_READ]
    ]
    more_typos = [f"So are {len(read) - _MOST_READ} more words as others."] if len(read) > _MOST_READ else []
    return " ".join([*of_typos, *more_typos])


class NearWords(Step):
    """A word that no text has is read as the nearest one."""

    name = "near words"

    def beside(self, look: Look) -> str:
        return _readings(look.question)

    def note(self, question: Question, ranked: Ranked) -> str:
        return _readings(question)


class Boilerplate(Step):
    """What chat programs write around messages is not searched."""

    name = "boilerplate"

    def beside(self, look: Look) -> str:
        text = look.value("text") or ""
        counted = evidence(pa.array([text]), look.question.index.settings.boilerplate)[0].as_py()
        if len(counted) == len(text):
            return ""
        n_left_out = len(text) - len(counted)
        what = "boilerplate or targets of links, which are not searched"
        return f"Of its {count_of(len(text), 'character')} {n_left_out:,} are {what}."


class Turns(Step):
    """Turns of a conversation lend each other what they are found by."""

    name = "turns"

    def beside(self, look: Look) -> str:
        """A sentence if the memory is a turn beside others, whose words or meaning count too."""
        index = look.question.index
        lent = index.lent(look.question.weights)
        if not look.row or index.turns is None or not lent:
            return ""
        if not (index.turns.neighbours[index.rows.memory == look.memory] >= 0).any():
            return ""
        arms = " and ".join(lent)
        return f"It also counts by {arms} of the turns around it (context_column, here {index.conversations!r})."

    def note(self, question: Question, ranked: Ranked) -> str:
        column, index = question.index.settings.context_column, question.index
        if index.unused_conversations is not None:
            return (
                f"In buckets and engines, turns of a conversation (column {index.unused_conversations!r}) do not count"
                " by the turns around them: fit to lake.whole(), with the engine 'local', for that."
            )
        if index.turns is not None:
            lend_nothing = [name for name in question.weights if KINDS[name].lends and not index.lent([name])]
            words = " and ".join(KINDS[name].label for name in lend_nothing)
            return (
                f"With lexical={index.settings.lexical!r} turns do not count by {words} of the turns around them."
                if words
                else ""
            )
        if column in (None, AUTO):
            return ""
        return f"The context_column {column!r} is not used: half of the rows are longer than a turn (40 words)."


def _below_pool(look: Look) -> str:
    question, index = look.question, look.question.index
    is_its = index.rows.memory == look.memory
    if not is_its.any():
        return "it is a heading without text, or has no letters beside boilerplate, and there is nothing to search"
    alone, pool = question.retrieve_among(is_its, 1), question.candidates()
    return " and ".join(
        _too_low(arm, alone.raw[:, column], pool.raw[:, column]) for column, arm in enumerate(question.weights)
    )


def _too_low(arm: str, scores: np.ndarray, pool: np.ndarray) -> str:
    if not np.isfinite(scores).any():
        return KINDS[arm].nothing
    count = int(np.isfinite(pool).sum())
    return f"{KINDS[arm].label} score {np.nanmax(scores):.3g} (the last of the best {count} has {np.nanmin(pool):.3g})"


def _arm(look: Look, arm: str, weight: float) -> str:
    row, settings, label = look.row, look.question.settings, KINDS[arm].label
    norm = row[f"{arm}_norm"]
    if row[arm] is None:
        if not norm or settings.fusion == "rrf":  # of which ranks alone count
            return f"not among the best {settings.pool} by {label}"
        how = "but matched across alphabets with" if arm == "bm25" else "and counts as the last of them, normalised"
        return f"not among the best {settings.pool} by {label}, {how} {norm:.2f}, weight {weight:.2f}"
    normalised = f"normalised {norm:.2f}, " if settings.fusion != "rrf" else ""
    return f"{label} score {row[arm]:.3g} (rank {row[f'{arm}_rank']}, {normalised}weight {weight:.2f})"


class Pool(Step):
    """The best chunks of each arm are candidates."""

    name = "pool"
    drops = {OUTSIDE: _below_pool}
    keeps_out = True

    def part(self, look: Look) -> str:
        return "; ".join(_arm(look, arm, weight) for arm, weight in look.question.weights.items())


@estimator
class Params(Estimator):
    """What the arms search, and how much of it."""

    vector_weight: float | None = param(
        None,
        low=0,
        high=1,
        kind="float",
        nullable=True,
        group="first",
        doc="Weight of the arm of meaning (vectors); with 0 the encoder is never loaded. None: the arms left at None"
        " share the remaining weight in the proportions measured for the encoder.",
    )
    bm25_weight: float | None = param(
        None,
        group="arms",
        low=0,
        high=1,
        kind="float",
        nullable=True,
        doc="Weight of the arm of words (BM25); None: as for vector_weight.",
    )
    gram_weight: float | None = param(
        None,
        group="arms",
        low=0,
        high=1,
        kind="float",
        nullable=True,
        doc="Weight of the arm of letters (character n-grams); None: as for vector_weight.",
    )
    function_word_weight: float = param(
        0.1,
        recalls=True,
        group="arms",
        low=0,
        high=1,
        unit="ratio",
        doc="Weight of stop words ('the', «и») in a query; if it is below 1, the arm of letters skips them.",
    )
    near_words: float = param(
        0.8,
        recalls=True,
        group="arms",
        low=0,
        high=1,
        unit="ratio",
        doc="Typo tolerance: a query word that no text contains also matches the nearest word of the corpus, with this"
        " weight (other words have 1). Never for words with digits or '_', in quotes, or of fewer than 5 letters."
        " 0: off.",
    )
    read_dates: bool = param(
        True,
        recalls=True,
        group="arms",
        doc="Whether times in a query ('вчера', \"last week\", 2026-03-01) are also searched as the dates they mean.",
    )
    pool: int = param(
        100, group="arms", low=1, unit="chunks", doc="Candidates per arm (num_candidates); only these are ranked."
    )
    on_encoder_error: str = param(
        "words",
        recalls=True,
        group="arms",
        choices=("words", "raise"),
        doc="If the service of the encoder or the reranker cannot be reached: search without it and retry later, or"
        " raise.",
        source=cite("workspace", "fallback"),
    )

    steps: ClassVar[tuple[Step, ...]] = (
        NearWords(),
        Boilerplate(),
        Turns(),
        Pool(),
    )
