"""`Step`: one step of a search; what it does to candidates, and what it says of them.

`memkit.search.ask` has the steps in their order. Ranking, trace, explain, advice, notes and a sweep's grouping are
loops over them, and know none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from memkit.base.params import Param, Reach
from memkit.errors import some_of
from memkit.schemas import Floats, Ints, Mask

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex
    from memkit.search.question import Question
    from memkit.search.state import Pooled, Ranked, State

NOTHING: Mapping[Any, Any] = MappingProxyType({})


def queries_named(ids: list[str]) -> str:
    """Some queries by their ids, in words."""
    return f"{'query' if len(ids) == 1 else 'queries'} {some_of([*map(repr, ids)])}"


def only_with(what: str, name: str, value: str) -> Callable[[Any, Any], Reach]:
    """The reach of a parameter that acts only where another has a value."""

    def reach(settings: Any, index: Any) -> Reach:
        n_memories, acts = len(index.rows.decays), getattr(settings, name) == value
        return Reach(n_memories if acts else 0, n_memories, f"{name}={value!r} uses it", what)

    return reach


class Look(NamedTuple):
    """A memory in the eyes of a question.

    Attributes
    ----------
    memory : int
        Its row in the index.
    row : dict
        Its row of the trace; empty for a memory that is no candidate.
    """

    question: Question
    memory: int
    row: Mapping[str, Any]

    def value(self, column: str) -> Any:
        """What the table of memories says of it."""
        return self.question.index.memories[column][self.memory].as_py()


class Step:
    """One step of a search.

    Its methods are given candidates and settings as arrays; those that it does not need it leaves out. `Factor` is a
    step that multiplies scores.

    A step has a *key* of each setting. Settings with equal keys, of it and of the steps before it, share a column of
    `State`, so that many settings cost little more than what differs.

    Attributes
    ----------
    name : str
    params : dict of str to Param
        Of a step from elsewhere, the parameters that a Retriever has more; memkit's own are declared beside them.
    after : str
        Of a step from elsewhere, the step after which it acts; by default all that multiply scores.
    doing : str
        What a search goes without where nobody answers the step's question.
    columns : dict of str to float
        The numbers that it adds to a trace, and what each is where the step does nothing.
    drops : dict of str to callable
        The dispositions of what it drops, each with ``why(look)``, in words.
    becomes : dict of str to str
        For some of these, or for a reason why, what became of a memory in the words of a list: "ranked too low".
    keeps_out : bool
        Whether what it drops is no candidate at all.
    blames : str
        The disposition of a candidate that would reach the least score without this step; empty for none.
    base : str
        The column of a trace that holds the score up to here, if it adds one.
    adds : str
        The column of a trace that holds what it adds to the score, if it does.
    changes : bool
        Whether its part of the sentence on a score changes the fused score.
    cuts : bool
        Whether it only draws a line below which nothing is a hit, and so leaves scores and places as they are.
    reads_score : bool
        Whether it reads scores after the order is known.
    knows_all : bool
        Whether what it adds to a trace is known of memories that are no candidates too.
    bounded : bool
        Whether it leaves scores of 0 to 1 there, but for what it `lifts`.
    lifts : float
        The most that it can add to a score beyond 1; inf if nobody knows.
    by : str
        The parameter whose value is its key, where one is enough.
    off : dict
        The parameters that turn it off; empty if it is always there.
    rests : bool
        Whether it is neither applied nor asked to say anything where it is off.
    """

    name: ClassVar[str] = ""
    params: ClassVar[Mapping[str, Param]] = NOTHING
    after: ClassVar[str] = ""
    doing: ClassVar[str] = ""
    columns: ClassVar[Mapping[str, float]] = NOTHING
    drops: ClassVar[Mapping[str, Callable[[Look], str]]] = NOTHING
    becomes: ClassVar[Mapping[str, str]] = NOTHING
    keeps_out: ClassVar[bool] = False
    blames: ClassVar[str] = ""
    base: ClassVar[str] = ""
    adds: ClassVar[str] = ""
    changes: ClassVar[bool] = False
    cuts: ClassVar[bool] = False
    reads_score: ClassVar[bool] = False
    knows_all: ClassVar[bool] = False
    lifts: ClassVar[float] = 0.0
    bounded: ClassVar[bool] = False
    by: ClassVar[str] = ""
    off: ClassVar[Mapping[str, Any]] = NOTHING
    rests: ClassVar[bool] = True

    @property
    def acts(self) -> bool:
        """Whether it acts on candidates; a step that does not says which there are."""
        return type(self).apply is not Step.apply

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> Hashable:
        """What of `settings` it acts by, with `weights` by arm, over candidates of `arms`; None: it does nothing."""
        return getattr(settings, self.by) if self.by else None

    def prepare(self, index: MemoryIndex, settings: Any, n_encoded: int) -> None:
        """At fit, after so many texts were encoded, make what a first question would have to."""

    def looks_around(self, settings: Any) -> bool:
        """Whether what it makes of a candidate depends on those of arms without a weight too."""
        return False

    def gather(self, pooled: Pooled, keys: Sequence[Any]) -> Mapping[Hashable, Any]:
        """What it reads of candidates under any of `keys`, by name: as `Shortlist.values`."""
        return NOTHING

    def apply(self, state: State, keys: Sequence[Any]) -> None:
        """Act on `state`, whose columns have the `keys`; what is no hit is dropped by `State.drop`.

        Of a step that `cuts` or `reads_score`, the settings have the keys.
        """

    def wants(self, state: State, keys: Sequence[Any]) -> Mapping[str, Mask]:
        """By the name of whom it asks, the candidates of which it must ask before it is applied."""
        return NOTHING

    def ask(self, pooled: Pooled, keys: Sequence[Any], whom: str, rows: Ints) -> Floats:
        """What it is told of the candidates `rows`; a state has it as ``state[name, whom]``, NaN for others."""
        raise NotImplementedError

    def part(self, look: Look) -> str:
        """Its part of the sentence on a score; empty for none."""
        return ""

    def beside(self, look: Look) -> str:
        """A sentence on a memory besides its score; empty for none."""
        return ""

    def note(self, question: Question, ranked: Ranked) -> str:
        """A sentence on the hits of a question; empty for none."""
        return ""

    def may_help(self, look: Look) -> bool:
        """Whether a memory may become a hit without the step."""
        return True


class Factor(Step):
    """A step that multiplies scores.

    `shown` is the column of the trace that its factors are multiplied into.
    """

    shown: ClassVar[str] = ""
    changes = True

    def factors(self, state: State, keys: Sequence[Any]) -> Floats | None:
        """The factor of each candidate, shape (n, keys); None where all are 1."""
        raise NotImplementedError

    def apply(self, state: State, keys: Sequence[Any]) -> None:
        """Multiply."""
        distinct = tuple(dict.fromkeys(keys))
        factors = state.shortlist.once(self.name, distinct, lambda: self.factors(state, distinct))
        if factors is None:
            return
        if len(distinct) in (1, len(keys)):
            state.score *= factors
        else:
            place = {key: number for number, key in enumerate(distinct)}
            state.score *= np.take(factors, [place[key] for key in keys], axis=1, mode="clip")
        if state.records:
            state.record(self.shown, state.recorded.get(self.shown, 1.0) * factors[:, 0])
