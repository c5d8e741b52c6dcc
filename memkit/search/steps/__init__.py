"""The steps of a search, in the order in which they act."""

from __future__ import annotations

from memkit.search.state import RETURNED
from memkit.search.step import Step
from memkit.search.steps.collapse import Cut, Exact, Near
from memkit.search.steps.mmr import Mmr
from memkit.search.steps.prefer import Prefer
from memkit.search.steps.recall import Boilerplate, NearWords, Pool, Turns
from memkit.search.steps.rerank import Rerank
from memkit.search.steps.scope import Expiry, Future, Status, User, Where
from memkit.search.steps.score import Decay, Fuse, Kind, MinScore, Stale

STEPS: tuple[Step, ...] = (
    *(Where(), User(), Expiry(), Future(), Status()),
    *(NearWords(), Boilerplate(), Turns(), Pool()),
    *(Fuse(), Rerank(), Kind(), Stale(), Decay()),
    Prefer(),
    *(MinScore(), Exact(), Near(), Mmr(), Cut()),
)

RANKING = tuple(step for step in STEPS if type(step).apply is not Step.apply)
"""The steps that act on candidates; the others say which there are."""

DROPS = {word: why for step in STEPS for word, why in step.drops.items()}
"""By disposition, why a memory is no hit, in words; all but returned."""

DISPOSITIONS = (RETURNED, *(word for step in reversed(STEPS) for word in step.drops))
"""What becomes of a memory, from hits to what is never looked at."""

CODES = {word: code for code, word in enumerate(DISPOSITIONS)}
