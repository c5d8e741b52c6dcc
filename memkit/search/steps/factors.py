"""A score is multiplied by the factors of kind, staleness and age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from memkit.base.params import Reach, estimator, param
from memkit.display.views import day_of
from memkit.schemas import KINDS as KINDS_OF_MEMORY
from memkit.schemas import STALE_WEIGHT, Floats, Ints, Mask, check_kinds
from memkit.search.state import Pooled, Ranked, State, group_starts
from memkit.search.step import Factor, Look, Step, queries_named
from memkit.search.steps.rerank import Params as Before
from memkit.tables.age import DECAY_KINDS, ages, decay_param, decay_reach, factors, stale

if TYPE_CHECKING:
    from memkit.search.question import Question

IN_HITS = ("decay",)
"""What steps compute that hits show."""
SLOWER = "raise decay_days"
"""What to do where too much fades."""
_FADED = 0.05
"""The decay factor below which a memory is hardly ever a hit."""


class Kind(Factor):
    """The weight of a memory's kind."""

    name = "kind"
    bounded = True
    columns = {"prior": 1.0}
    shown = "prior"

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> tuple[Any, ...]:
        return tuple(sorted((settings.kind_weights or {}).items()))

    def gather(self, pooled: Pooled, keys: Sequence[Any]) -> dict[Any, Any]:
        codes, names = pooled.index.rows.kind
        has_own = any(name in KINDS_OF_MEMORY and KINDS_OF_MEMORY[name].weight != 1 for name in names)
        for key in keys:
            check_kinds(dict(key), "Retriever: 'kind_weights'", in_data=names)
        return {"kind": codes[pooled.memory], "kinds": names, "has own weights": has_own}

    def factors(self, state: State, keys: Sequence[Any]) -> Floats | None:
        if not any(keys) and not state["has own weights"]:
            return None
        return np.stack([kind_factors(state["kind"], state["kinds"], dict(key)) for key in keys], axis=1)

    def part(self, look: Look) -> str:
        codes, names = look.question.index.rows.kind
        weights = look.question.settings.kind_weights
        weight = kind_factors(codes[[look.memory]], names, weights)[0]
        return f"times {weight:.2f} for its kind" if weight < 1 else ""


def kind_factors(kind: Ints, names: Sequence[str | None], weights: Mapping[str, float] | None) -> Floats:
    """The factor of each `kind`, a number into `names`; one that `weights` do not name has its own, mostly 1."""
    chosen = {name: kind.weight for name, kind in KINDS_OF_MEMORY.items()} | dict(weights or {})
    return np.array([chosen.get(str(name), 1.0) for name in names], float)[kind]


class Stale(Factor):
    """What its author wanted checked again by the moment of the question, what is archived and drafts rank lower."""

    name = "stale"
    bounded = True
    shown = "prior"

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> bool | None:
        return True if settings.status == "obey" else None

    def gather(self, pooled: Pooled, keys: Sequence[Any]) -> dict[Any, Any]:
        return {"stale": _is_stale(pooled.index, pooled.memory, pooled.until[pooled.candidates.query])}

    def factors(self, state: State, keys: Sequence[Any]) -> Floats | None:
        is_stale = state["stale"]
        return np.where(is_stale, STALE_WEIGHT, 1.0)[:, None] if is_stale.any() else None

    def part(self, look: Look) -> str:
        memory = np.array([look.memory])
        if not _is_stale_for(look.question, memory)[0]:
            return ""
        if _is_aside(look.question.index, memory)[0]:
            return f"times {STALE_WEIGHT:.2f} as it is {_IN_WORDS[look.value('status')]} (status)"
        return f"times {STALE_WEIGHT:.2f} as it is stale since {day_of(look.value('stale_at'))} (status)"

    def note(self, question: Question, ranked: Ranked) -> str:
        index = question.index
        if index.rows.aside is None and index.rows.stale_at is None:
            return ""
        hits = ranked.returned().candidates
        memory = index.rows.memory[hits.row]
        is_low = _is_stale_for(question, memory)
        is_aside = _is_aside(index, memory) & is_low
        aside_hits = list(dict.fromkeys(memory[is_aside].tolist()))
        stale_hits = list(dict.fromkeys(memory[is_low & ~is_aside].tolist()))
        return " ".join(filter(None, (self._stale(index, stale_hits), self._aside(index, aside_hits))))

    def _aside(self, index: Any, hits: list[int]) -> str:
        if not hits:
            return ""
        named, said = (index.memories[name][hits[0]].as_py() for name in ("memory_id", "status"))
        subject = (
            f"One hit is {_IN_WORDS[said]}, {named!r}"
            if len(hits) == 1
            else (f"{len(hits)} hits are archived or drafts, such as {named!r}")
        )
        return f"{subject}: its score is multiplied by {STALE_WEIGHT:g} (status='keep' turns this off)."

    def _stale(self, index: Any, stale_hits: list[int]) -> str:
        if not stale_hits:
            return ""
        first, count = stale_hits[0], len(stale_hits)
        named, since = index.memories["memory_id"][first].as_py(), day_of(index.memories["stale_at"][first].as_py())
        subject = f"One hit is stale, {named!r}," if count == 1 else f"{count} hits are stale, such as {named!r}"
        return (
            f"{subject} since {since}: its author wanted it checked again by then, so its score is multiplied by"
            f" {STALE_WEIGHT:g} (status='keep' turns this off)."
        )


_IN_WORDS = {"archived": "archived", "draft": "a draft"}


def _is_aside(index: Any, memory: Ints) -> Mask:
    is_aside: Mask | None = index.rows.aside
    return np.zeros(len(memory), bool) if is_aside is None else is_aside[memory]


def _is_stale(index: Any, memory: Ints, until: Any) -> Mask:
    is_aside = _is_aside(index, memory)
    return is_aside if index.rows.stale_at is None else is_aside | stale(index.rows.stale_at[memory], until)


def stale_by(question: Question) -> datetime | None:
    """A memory that is stale by then ranks lower; None if none does: no moment was given, or status is 'keep'."""
    return question.ask.moment.until if question.settings.status == "obey" else None


def _is_stale_for(question: Question, memory: Ints) -> Mask:
    until = question.ask.moment.until
    if question.settings.status != "obey":
        return np.zeros(len(memory), bool)
    return _is_aside(question.index, memory) if until is None else _is_stale(question.index, memory, until)


class DecayOf(NamedTuple):
    """How scores fall with age; of which kinds."""

    form: str
    days: float
    floor: float
    kinds: Any


class Decay(Factor):
    """Scores fall with age."""

    name = "decay"
    bounded = True
    columns = {"age_days": np.nan, "decay": 1.0}
    drops = {"decayed_out": lambda look: f"below min_score {look.question.settings.min_score:g}, because of decay"}
    blames = "decayed_out"
    shown = "decay"
    off = {"decay": "none"}
    rests = False  # a trace has ages without decay too
    knows_all = True

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> DecayOf:
        kinds = "*" if "*" in settings.decay_kinds else tuple(settings.decay_kinds)
        if settings.decay == "none":
            return DecayOf("none", 0.0, 0.0, kinds)
        return DecayOf(settings.decay, float(settings.decay_days), float(settings.decay_floor), kinds)

    def gather(self, pooled: Pooled, keys: Sequence[DecayOf]) -> dict[Any, Any]:
        rows, memory = pooled.index.rows, pooled.memory
        by_kinds = {}
        for kinds in dict.fromkeys(key.kinds for key in keys):
            check_kinds([k for k in kinds if k != "*"], "Retriever: 'decay_kinds'", in_data=rows.kind[1])
            by_kinds["decays", kinds] = rows.may_decay(memory, kinds) if rows.has_dates else np.zeros(len(memory), bool)
        if not rows.has_dates:
            return {"age": np.full(len(memory), np.nan), **by_kinds}
        return {"age": ages(rows.dated[memory], pooled.moment[pooled.candidates.query]), **by_kinds}

    def factors(self, state: State, keys: Sequence[DecayOf]) -> Floats | None:
        groups: dict[tuple[str, Any], list[int]] = {}
        for column, key in enumerate(keys):
            if key.form != "none" and state["decays", key.kinds].any():
                groups.setdefault((key.form, key.kinds), []).append(column)
        if not groups:
            return None
        result = np.ones((len(state["age"]), len(keys)))
        for (form, kinds), columns in groups.items():
            rows = np.flatnonzero(state["decays", kinds])
            days, floor = (np.array([keys[column][part] for column in columns]) for part in (1, 2))
            result[rows[:, None], columns] = factors(state["age"][rows, None], form, days, floor)
        return result

    def apply(self, state: State, keys: Sequence[DecayOf]) -> None:
        state.record("age_days", state["age"])
        super().apply(state, keys)

    def part(self, look: Look) -> str:
        if look.row["decay"] >= 1:
            return ""
        age = f"{look.row['age_days']:.0f} day{'' if round(look.row['age_days']) == 1 else 's'}"
        return f"times decay {look.row['decay']:.2f} after {age}"

    def note(self, question: Question, ranked: Ranked) -> str:
        """A sentence on the queries whose candidates have a median decay factor below `_FADED`."""
        query, factor = ranked.candidates.query, ranked.columns["decay"]
        if not (factor < _FADED).any():
            return ""
        order = np.lexsort((factor, query))
        starts = group_starts(query)
        # The lower of two middle ones, so that half of the candidates are below it, or at it.
        middle = starts + (np.diff(starts, append=len(query)) - 1) // 2
        faded = query[starts[factor[order[middle]] < _FADED]]
        if not faded.size:
            return ""
        names = question.queries.ids
        whose = f" of {queries_named([names[query] for query in faded])}" if len(names) > 1 else ""
        return (
            f"Half of the candidates{whose} have a decay factor"
            f" below {_FADED:g}, so that age decides their rank: set a longer decay_days, a decay_floor, or"
            " decay='none'."
        )

    def may_help(self, look: Look) -> bool:
        return bool(look.row["decay"] < 1)


def _decay(settings: Any, index: Any) -> Reach:
    rows, kinds = index.rows, settings.decay_kinds
    is_of_kinds = np.ones(len(rows.decays), bool) if "*" in kinds else rows.are_of(kinds)[rows.kind[0]]
    return decay_reach(settings.decay, kinds, rows.decays, ~np.isnat(rows.dated), is_of_kinds)


def _weighted_kinds(settings: Any, index: Any) -> Reach | None:
    codes, names = index.rows.kind
    absent = sorted(set(settings.kind_weights or {}) - set(names))
    if not absent:
        return None
    here = ", ".join(sorted(map(repr, filter(None, names)))) or "none"
    return Reach(0, len(codes), f"the kinds here are {here}", f"kind_weights of {', '.join(map(repr, absent))}")


@estimator
class Params(Before):
    """The weights of kinds, and decay."""

    kind_weights: Mapping[str, float] | None = param(
        None,
        low=0,
        high=1,
        kind="weights",
        nullable=True,
        group="first",
        doc="Factor on the score by kind of memory, such as {'daily_log': 0.7}. Kinds that are not named have 1;"
        " contents pages (index) and lists of changes (log) have less.",
        acts_on=_weighted_kinds,
    )
    decay: str = decay_param("decay", _decay, group="time")
    decay_days: float = decay_param("decay_days", _decay, group="first")
    decay_floor: float = decay_param("decay_floor", _decay, group="time")
    decay_kinds: Sequence[str] = decay_param("decay_kinds", _decay, group="time", default=DECAY_KINDS["search"])

    steps: ClassVar[tuple[Step, ...]] = (
        Kind(),
        Stale(),
        Decay(),
    )
