"""The score of a candidate: the arms fused, times the factors of kind, staleness and age, and the least that passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memkit.display.names import day_of
from memkit.schemas import KINDS as KINDS_OF_MEMORY
from memkit.schemas import STALE_WEIGHT, Floats, Ints, Mask, check_kinds
from memkit.search.ask import queries_named
from memkit.search.fitted.across import scores_across
from memkit.search.fitted.arms import KINDS
from memkit.search.stages.diversify import DROPPED
from memkit.search.stages.fuse import Evidence, calibrate, fuse, group_starts, normalise
from memkit.search.state import UNIT, Pooled, Ranked, State, as_keys
from memkit.search.step import Factor, Look, Step
from memkit.tables.age import ages, factors, stale

if TYPE_CHECKING:
    from memkit.search.question import Question

FUSED_DIGITS = 12  # 0.7 + 0.3 is 1
_FADED = 0.05
"""The decay factor below which a memory is hardly ever a hit."""


class Fusion(NamedTuple):
    """How scores are fused: the scale that they are brought to (None: places alone count), the method, the weights."""

    scale: tuple[str, float] | None
    method: str
    rrf_k: int
    weights: tuple[float, ...]


class Fuse(Step):
    """The arms' scores are brought to one scale and fused; of a memory the best chunk stays."""

    name = "fuse"
    columns = {"fused": np.nan}

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> Fusion:
        is_rrf = settings.fusion == "rrf"
        crosses = settings.normalise == "calibrated" and {"vector", "bm25"} <= set(weights)
        return Fusion(
            None if is_rrf else (settings.normalise, settings.across_weight if crosses else 0.0),
            settings.fusion,
            settings.rrf_k if is_rrf else 0,
            tuple(weights.get(arm, 0.0) for arm in arms),
        )

    def gather(self, pooled: Pooled, keys: Sequence[Fusion]) -> dict[Any, Any]:
        scales = dict.fromkeys(key.scale for key in keys)
        norms = {("norm", scale): _norms(pooled, scale) for scale in scales}
        return {"ranks": pooled.candidates.rank, **norms}

    def apply(self, state: State, keys: Sequence[Fusion]) -> None:
        state.is_bounded = all(key.scale is None or key.scale[0] != "none" for key in keys)
        state.score = self._fused(state, keys)
        if state.records:
            state.norm = state["norm", keys[0].scale]
            state.record("fused", state.score[:, 0].copy())
        weights = np.array([key.weights for key in keys]).T
        state.out = None if weights.all() else _found_by_none(state["ranks"], weights)
        state.is_found_by_all = state.out is None
        if state.out is not None:
            state.score[state.out] = DROPPED
        self._keep_the_best_chunk(state)

    def _fused(self, state: State, keys: Sequence[Fusion]) -> Floats:
        columns: dict[Any, list[int]] = {}
        for column, key in enumerate(keys):
            columns.setdefault(key[:3], []).append(column)
        parts = []
        for (scale, method, rrf_k), some in columns.items():
            weights = np.array([keys[column].weights for column in some]).T.copy()
            parts.append(fuse(Evidence(state["norm", scale], state["ranks"]), weights, method, rrf_k))
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if len(parts) > 1 and (order := np.concatenate(list(columns.values()))).tolist() != list(range(len(keys))):
            fused = fused[:, np.argsort(order)]
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _keep_the_best_chunk(self, state: State) -> None:
        chunks = state.shortlist.chunks_of_memory
        if chunks is None:
            return
        order = state.shortlist.tie_order[chunks.rows]
        # Of so few keys the unit is the number of all candidates, so that ties are those of all.
        keys = as_keys(np.rint(state.score[chunks.rows] * UNIT), order, state.is_bounded, len(state.shortlist))
        beaten: Mask = keys != chunks.best(keys)
        if state.out is None:
            state.out = np.zeros(state.score.shape, bool)
        state.out[chunks.rows] |= beaten

    def part(self, look: Look) -> str:
        return f"fused score {look.row['fused']:.3f}"


def _found_by_none(ranks: Ints, weights: Floats) -> Mask:
    """Which candidates no arm with a weight retrieved."""
    is_found = np.zeros((len(ranks), weights.shape[1]), bool)
    for arm, weight in enumerate(weights):
        is_found |= (ranks[:, arm, None] > 0) & (weight > 0)
    return ~is_found


def _norms(pooled: Pooled, scale: tuple[str, float] | None) -> Floats:
    """The arms' scores on one scale, shape (n, arms); of a question also where places alone count, as it shows them."""
    candidates = pooled.candidates
    if scale is None and pooled.shown_scale is None:
        return np.zeros(candidates.raw.shape)
    how, across_weight = scale or pooled.shown_scale or ("", 0.0)
    if how != "calibrated":
        # The queries of one arm follow those of another, so that one call normalises all.
        arms, queries = len(candidates.arms), candidates.query.max(initial=0) + 1
        query = np.concatenate([candidates.query + arm * queries for arm in range(arms)])
        return normalise(query, candidates.raw.T.ravel(), how).reshape(arms, -1).T
    query, raw, ends = candidates.query, candidates.raw, candidates.scale[candidates.query]
    columns = [
        calibrate(query, raw[:, column], ends[:, column, 0], ends[:, column, 1], KINDS[arm].everywhere)
        for column, arm in enumerate(candidates.arms)
    ]
    norm = np.stack(columns, axis=1)
    if "vector" in candidates.arms and "bm25" in candidates.arms and across_weight:
        words, vectors = candidates.arms.index("bm25"), candidates.arms.index("vector")
        scores, is_other_script = scores_across(pooled.index, pooled.texts, candidates, pooled.sights)
        scores += np.nan_to_num(raw[:, words])
        by_terms = calibrate(query, scores, ends[:, words, 0], ends[:, words, 1], everywhere=False)
        share = np.where(is_other_script, across_weight, 0.0)
        norm[:, words] = np.maximum(norm[:, words], share * norm[:, vectors] + (1 - share) * by_terms)
    return norm


class Kind(Factor):
    """The weight of a memory's kind."""

    name = "kind"
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
        index, hits = question.index, ranked.returned().candidates
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
    columns = {"age_days": np.nan, "decay": 1.0}
    drops = {"decayed_out": lambda look: f"below min_score {look.question.settings.min_score:g}, because of decay"}
    blames = "decayed_out"
    shown = "decay"
    off = {"decay": "none"}
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
        if all(key.form == "none" for key in keys):
            return None
        result = np.ones((len(state["age"]), len(keys)))
        groups: dict[tuple[str, Any], list[int]] = {}
        for column, key in enumerate(keys):
            if key.form != "none":
                groups.setdefault((key.form, key.kinds), []).append(column)
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


class MinScore(Step):
    """What scores less is no hit."""

    name = "min_score"
    drops = {"below_min_score": lambda look: f"below min_score {look.question.settings.min_score:g}"}
    off = {"min_score": 0.0}
    cuts = True

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> float:
        return float(settings.min_score)

    def apply(self, state: State, keys: Sequence[float]) -> None:
        least = _least_units(np.array(keys))
        if state.is_bounded:  # what was lifted may be one unit above 1
            state.floor = np.multiply(np.minimum(least, UNIT + 2).astype(np.int64), len(state.shortlist))
        else:
            state.floor = np.asarray((state.units[:, state.column] < least).sum(axis=0), np.int64)
        if state.records:
            is_low = state.key[:, 0] < state.floor[0]
            for word, score in state.undone:
                state.drop(is_low & (np.rint(score * UNIT) >= least[0]), word)
            state.drop(is_low, "below_min_score")

    def may_help(self, look: Look) -> bool:
        return bool(look.question.settings.min_score > 0)


def _least_units(min_score: Floats) -> Floats:
    """The fewest units of score that pass `min_score`."""
    near = np.ceil(min_score * UNIT) + np.arange(-2, 3)[:, None]
    units: Floats = np.min(np.where(near / UNIT < min_score, np.inf, np.maximum(near, 0.0)), axis=0)
    return units
