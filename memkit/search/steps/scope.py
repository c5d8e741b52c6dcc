"""Which memories may be found: the filter, the user, expiry, the moment, and the author's status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from memkit.base.params import Estimator, Reach, estimator, param, until_text
from memkit.display.names import day_of
from memkit.schemas import STALE_WEIGHT, kinds_where
from memkit.search.step import Look, Step
from memkit.tables.sandbox import TIMEOUT_S
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from memkit.search.question import Question
    from memkit.search.state import Ranked


def _filtered(look: Look) -> str:
    settings, kind = look.question.settings, look.value("kind")
    if kind in settings.kinds_hidden:
        return f"its kind '{kind}' is hidden (kinds_hidden)"
    beyond = look.question.scope.beyond
    if beyond is not None and beyond[look.memory]:
        return f"it applies to {mask(look.value('scope'))}, beyond {mask(str(look.question.ask.scope))} (scope)"
    if settings.expired == "only":
        return "it does not pass the filter (where, or expired='only')"
    return f"it does not pass where ({mask(str(look.question.ask.where))})"


def _future(look: Look) -> str:
    created, unseen = look.value("created_at"), look.question.scope.unseen
    until = until_text(unseen.until) if unseen else ""
    day = created.date() if created.date().isoformat() != until[:10] else until_text(created)
    return f"it was created on {day}, after {until}, and the future is hidden"


def _superseded(look: Look) -> str:
    index = look.question.index
    assert index.rows.successor is not None
    successor = index.memories["memory_id"][int(index.rows.successor[look.memory])].as_py()
    return f"{successor!r} supersedes it and is shown in its place (status)"


def _expired(look: Look) -> str:
    until = until_text(look.question.ask.moment.last_visible)
    return f"it expired on {day_of(look.value('expires_at'))}, before {until}, and expired memories are hidden"


def _deprecated(look: Look) -> str:
    return "its author says that it is deprecated, and deprecated memories are hidden (status)"


class Where(Step):
    """Memories that pass `where`, apply to what was asked, and are of a kind that is searched."""

    name = "where"
    drops = {"filtered": _filtered}
    keeps_out = True


class User(Step):
    """Memories of the user who asks and of nobody."""

    name = "user"

    def note(self, question: Question, ranked: Ranked) -> str:
        unknown = question.scope.unknown_user
        return (
            "" if unknown is None else f"User {unknown!r:.80} has no memory: only memories without a user are searched."
        )


class Expiry(Step):
    """Memories that have not expired."""

    name = "expiry"
    drops = {"expired": _expired}
    keeps_out = True


class Future(Step):
    """Memories that are there at the moment of the question."""

    name = "moment"
    drops = {"future": _future}
    keeps_out = True

    def note(self, question: Question, ranked: Ranked) -> str:
        return str(question.scope.unseen or "")


class Status(Step):
    """Memories that their author still recommends, and successors in place of what they supersede."""

    name = "status"
    drops = {"deprecated": _deprecated, "superseded": _superseded}
    keeps_out = True


def _expiring(settings: Any, index: Any) -> Reach:
    ends = ~np.isnat(index.rows.expires)
    return Reach(int(ends.sum()), len(ends), "none has an end (expires_at)", "expired")


@estimator
class Params(Estimator):
    """Which memories may be found."""

    expired: str = param(
        "hide",
        recalls=True,
        group="scope",
        choices=("hide", "keep", "only"),
        doc="Whether expired memories are hidden, kept, or the only ones searched.",
        acts_on=_expiring,
    )
    status: str = param(
        "obey",
        recalls=True,
        group="scope",
        choices=("obey", "keep"),
        doc="Whether the status that the author gave a memory counts. 'obey' hides deprecated memories, shows the"
        " successor of a superseded one in its place, and multiplies the score of one that is stale at `as_of`,"
        f" archived or a draft by {STALE_WEIGHT:g}; 'keep' ignores the status.",
    )
    future: str | None = param(
        None,
        recalls=True,
        group="scope",
        kind="str",
        nullable=True,
        choices=("keep", "hide"),
        doc="Whether memories created after `as_of` are kept or hidden; a day lasts to its end. None: hidden if"
        " `as_of` is given. 'hide' without `as_of` hides memories dated after now.",
    )
    where_timeout_s: float = param(
        TIMEOUT_S,
        group="scope",
        low=0,
        low_open=True,
        unit="seconds",
        doc="Time limit of the predicate `where`; an error is raised if it takes longer.",
    )
    kinds_hidden: tuple[str, ...] = param(
        kinds_where(searched=False), recalls=True, group="scope", doc="Kinds of memory that are not searched."
    )

    steps: ClassVar[tuple[Step, ...]] = (
        Where(),
        User(),
        Expiry(),
        Future(),
        Status(),
    )
