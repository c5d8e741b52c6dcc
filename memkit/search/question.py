"""One question to a fitted index, everything about it settled: what every report, and learning, is made from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self, TypeVar

from memkit.errors import EncoderUnavailableError, ParameterError
from memkit.index.encoders.circuit import in_haste
from memkit.params import AsOf, as_of_time, check_value
from memkit.search.fitted.index import Scope, SearchIndex
from memkit.search.queries import Queries, as_queries
from memkit.search.settings import Settings
from memkit.search.stages.candidates import Candidates
from memkit.search.stages.normalise import Floats, Ints
from memkit.search.stages.rank import Ranked, rank

_SCOPING = ("expired", "kinds_hidden", "on_encoder_error")
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What was asked of which index, with which settings, as of when, and what the arms found.

    Asking the arms is the costly part, and it is done; ranking is arithmetic over arrays. So ask once, with all arms
    and the largest pool, and rank it under as many settings as you like: each is what its own search would give.

    Attributes
    ----------
    index : SearchIndex
    settings : Settings
        The query-time parameters.
    queries : Queries
    k : int
        How many places are returned a query.
    moment : datetime
        For decay and expiry; UTC.
    where : str or None
        The predicate behind `scope`.
    scope : Scope
        Which memories may be found.
    weights : dict of str to float
        By arm, with the sum 1; an arm without weight is left out.
    found : Candidates
        What the arms answered when they were asked.
    note : str
        Why an arm was not asked that has a weight; empty where all were.
    depth : int or None
        How far MMR orders; None is all the way. The places up to it do not depend on it.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> search = mk.Retriever(encoder="hash").fit(corpus)
    >>> question = search.ask("кофе")
    >>> other = question.but(vector_weight=0.9, pool=1)
    >>> alone = search.with_params(vector_weight=0.9, pool=1).ask("кофе")
    >>> other.ranked().score.tolist() == alone.ranked().score.tolist()
    True
    """

    index: SearchIndex
    settings: Settings
    queries: Queries
    k: int
    moment: datetime
    where: str | None
    scope: Scope
    weights: dict[str, float]
    found: Candidates
    note: str = ""
    depth: int | None = None

    def but(self, **values: Any) -> Self:
        """The same question under other query-time parameters, without asking the arms again.

        Raises
        ------
        ParameterError
            For a name or value that is not declared, or one that needs the arms to be asked again: a larger pool, an
            arm that had no weight, other memories.
        """
        settings = self.settings.but(**values)
        weights = self.index.weights(settings)
        asked_again = [name for name in _SCOPING if getattr(settings, name) != getattr(self.settings, name)]
        if asked_again or settings.pool > self.found.pool or not weights.keys() <= set(self.found.arms):
            raise ParameterError(
                f"Question.but: expected settings over what {', '.join(self.found.arms)} found with a pool of"
                f" {self.found.pool}. Got {values}: ask again with those."
            )
        return replace(self, settings=settings, weights=weights)

    def candidates(self) -> Candidates:
        """What the arms that have a weight found within the pool."""
        return self.found.of(tuple(self.weights), self.settings.pool)

    def ranked(self) -> Ranked:
        """The candidates after every stage."""
        return rank(self.candidates(), self)

    def decay(self, memory: Ints) -> tuple[Floats, Floats]:
        """Age in days and factor of each of the rows `memory`."""
        s = self.settings
        return self.index.rows.decay(memory, self.moment, s.decay, s.decay_days, s.decay_floor, s.decay_kinds)


def ask(index: SearchIndex, settings: Settings, queries: Any, k: int, where: str | None, as_of: AsOf) -> Question:
    """Settle a question and ask the arms; parameters and errors are those of `Retriever.search`."""
    check_value("Retriever.search", "k", k, "int", low=1)
    moment, asked = as_of_time(as_of), as_queries(queries)
    scope = index.scope(settings, where, moment)

    def find(settings: Settings) -> tuple[dict[str, float], Candidates]:
        weights = index.weights(settings)
        return weights, index.find(asked.texts, settings.pool, scope.allowed, weights)

    (weights, found), note = or_by_words(index, settings, find)
    return Question(index, settings, asked, k, moment, where, scope, weights, found, note)


def or_by_words(index: SearchIndex, settings: Settings, act: Callable[[Settings], T]) -> tuple[T, str]:
    """What `act` makes of the settings; of words alone, and why, where the encoder cannot be reached."""
    if settings.on_encoder_error == "raise" or "vector" in index.absent:
        return act(settings), ""
    try:
        with in_haste():
            return act(settings), ""
    except EncoderUnavailableError as error:
        note = f"By words alone: {error}"
        warnings.warn(f"Retriever: no vectors this time. {note}", RuntimeWarning, stacklevel=5)
        return act(settings.but(vector_weight=0.0, bm25_weight=1.0)), note
