"""Pictures of a search: the fate of candidates, the parts of scores, ranks by day; of measurements by query; and of the
settings that were tried, where only evaluated settings are drawn and nothing is interpolated between them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment, check_choice, check_column, check_value
from memkit.display.sheet import titles_of
from memkit.display.views import IN_WORDS
from memkit.errors import ParameterError, count_of, did_you_mean
from memkit.plot.marks import COLOURS, FAINT, FAINTER, HIGH, MARKS, Axis, Bars, Dots, Line, Mark, Picture, Text, short
from memkit.plot.memories import counts, some_ticks
from memkit.policy.dedup.pairs import never_merges
from memkit.schemas import Floats, Ints, Mask, tuples_of
from memkit.search.ask import STEPS
from memkit.search.show import contributions as parts_of
from memkit.search.steps.recall import ARMS
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from memkit.search.retriever import Retriever

_BLUE, _ORANGE, _RED = COLOURS[0], COLOURS[1], COLOURS[5]
_EQUAL = 1e-9  # as in `compare`: a smaller difference of scores is rounding
_MOST_GROUPS = 30
"""Groups whose names can be read beside each other; of more, those that gain and lose the most are drawn."""
# Guesses: bars of a picture's width that still have several queries, or pairs, each.
_BINS, _BINS_OF_PAIRS = 24, 30


def _differences_of(result: Any) -> Any:
    """The `Differences` of a result that has some."""
    if not hasattr(result, "differences"):
        raise ParameterError("expected what mk.compare with labels, or mk.tune, gave. Got another result.")
    return result.differences()


def differences(result: Any) -> Picture:
    """The difference of every query and their distribution, with the mean, its interval and the range of no difference.

    Parameters
    ----------
    result : Comparison or Tuning
        Of `compare` with labels, or of `tune`, whose queries show what settings chosen without them gain.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> cases = {"user_id": [f"u{at // 4}" for at in range(32)], "0.9": [0.5] * 32, "0.8": [0.5, 0.7, 0.6, 0.4] * 8}
    >>> print(mk.plot.differences(mk.labels.tune_scores(cases, "0.9", group="user_id")))
    better: score gained by settings chosen without the query
    higher         ████████████████████ 16
    the same       ██████████ 8
    lower          ██████████ 8
    mean           +0.050
    95 % interval  +0.050 to +0.050
    no difference  within ± 0.01
    """
    diff = _differences_of(result)
    values = np.sort(diff.values)
    counts, edges = np.histogram(values, bins=_BINS)
    heights = -0.25 + 0.2 * np.modf(np.arange(len(values)) * (math.sqrt(5) - 1) / 2)[0]  # even, and the same each time
    tops = 0.35 + 0.6 * counts / max(counts.max(initial=1), 1)
    marks: list[Mark] = [
        *_no_difference(diff.epsilon, -0.35, 1.02),
        Bars(edges[:-1], edges[1:], 0.35, tops, f"{_BLUE}8C"),
        Dots(values, heights, _BLUE, "a query", size=16, alpha=0.75),
    ]
    if diff.mean is not None:
        name = "mean" if diff.low is None else "mean, 95 % interval"
        marks += [] if diff.low is None else [Line([diff.low, diff.high], [0.16, 0.16], _RED, width=2.5)]
        marks.append(Dots([diff.mean], [0.16], _RED, name, "D", size=50))
    rows: list[tuple[str, Any]] = [
        ("higher", int((values > _EQUAL).sum())),
        ("the same", int((np.abs(values) <= _EQUAL).sum())),
        ("lower", int((values < -_EQUAL).sum())),
        ("mean", "none" if diff.mean is None else f"{diff.mean:+.3f}"),
        ("95 % interval", diff.interval),
        ("no difference", f"within ± {diff.epsilon:g}"),
    ]
    across = _around(*edges[[0, -1]], -diff.epsilon, diff.epsilon, *(diff.low or 0, diff.high or 0))
    across = replace(across, label=f"difference of {diff.metric}")
    return Picture(diff.sentence, marks, across, Axis(-0.35, 1.02, ticks=[]), rows)


def _no_difference(epsilon: float, low: float, high: float) -> list[Mark]:
    """The range that counts as no difference, and its middle."""
    return [
        Bars(-epsilon, epsilon, low, high, FAINTER, f"± {epsilon:g}" if epsilon else ""),
        Line([0, 0], [low, high], FAINT, width=1),
    ]


def _around(*values: float) -> Axis:
    """An axis that has all of these, and some room."""
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.05
    return Axis(low - room, high + room)


def groups(result: Any) -> Picture:
    """The mean difference of each user (or other group of queries): for whom it is better, and for whom not.

    Parameters
    ----------
    result : Comparison or Tuning
        As for `differences`.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> cases = {"user_id": ["anna", "anna", "boris"], "0.9": [0.5] * 3, "0.8": [0.7, 0.6, 0.4]}
    >>> print(mk.plot.groups(mk.labels.tune_scores(cases, "0.9", group="user_id")))
    1 of 2 groups by user_id higher, 1 lower
    anna   +0.150 of 2
    boris  -0.100 of 1
    """
    diff = _differences_of(result)
    groups = diff.frame.groupby("group")["difference"].agg(["mean", "size"]).reset_index()
    groups = groups.sort_values(["mean", "group"], ascending=[False, True], ignore_index=True)
    higher, lower = int((groups["mean"] > _EQUAL).sum()), int((groups["mean"] < -_EQUAL).sum())
    noun = "queries" if diff.unit == "query_id" else f"groups by {diff.unit}"
    shown = _ends(groups)
    part = "" if len(shown) == len(groups) else f"; the {len(shown)} outermost"
    title = f"{higher:,} of {len(groups):,} {noun} higher, {lower:,} lower{part}"
    place, mean = np.arange(len(shown)), shown["mean"].to_numpy()
    top, bottom = -0.7, max(len(shown), 4) - 0.3
    sizes, is_lower = (20 + 100 * shown["size"] / shown["size"].max()).to_numpy(), mean < -_EQUAL
    gap = np.full(len(shown), np.nan)
    stems = np.column_stack([np.zeros(len(shown)), mean, gap]).ravel(), np.column_stack([place, place, gap]).ravel()
    marks = [*_no_difference(diff.epsilon, bottom, top), Line(*stems, FAINT, width=1)]
    for chosen, colour in ((~is_lower, _BLUE), (is_lower, _RED)):
        marks.append(Dots(mean[chosen], place[chosen], colour, size=sizes[chosen]))
    named = [short(mask(str(name)), 28) for name in shown["group"]]
    across = replace(
        _around(*mean, -diff.epsilon, diff.epsilon),
        label=f"mean difference of {diff.metric}; the larger the dot, the more queries",
    )
    down = Axis(bottom, top, ticks=list(enumerate(named)))
    rows = [(name, f"{r.mean:+.3f} of {r.size}") for name, r in zip(named, shown.itertuples(), strict=True)]
    return Picture(title, marks, across, down, rows, high=max(HIGH, 70 + 16 * len(shown)))


def _ends(groups: pd.DataFrame) -> pd.DataFrame:
    """The groups that gain and lose the most, where they are too many to be read."""
    if len(groups) <= _MOST_GROUPS:
        return groups
    half = _MOST_GROUPS // 2
    return pd.concat([groups[:half], groups[-half:]], ignore_index=True)


def stages(result: Any) -> Picture:
    """At which stage relevant memories were lost.

    Parameters
    ----------
    result : Evaluation or Tuning
        Of ``evaluate(..., stages=True)``; of `tune` the search to use is traced.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["мёд", "чай"]}))
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["a"], "relevance": [1]}
    >>> print(mk.plot.stages(mk.evaluate(search, queries, qrels, "recall@1", stages=True)))
    1 relevant memory of 1 lost
    found by no arm  ████████████████████ 1
    """
    table = getattr(result, "stages", None)
    if table is None or not table.num_rows:
        raise ParameterError("plot.stages: expected mk.evaluate(…, stages=True). Got a result without stages.")
    rows = [(row["disposition"], row["n"]) for row in table.to_pylist()]
    total, lost = sum(count for _, count in rows), sum(count for word, count in rows if word != "returned")
    place, values = np.arange(len(rows)), np.array([count for _, count in rows])
    is_found = np.array([word == "returned" for word, _ in rows])
    marks: list[Mark] = [
        Bars(0, values[chosen], place[chosen] - 0.4, place[chosen] + 0.4, colour)
        for chosen, colour in ((is_found, _BLUE), (~is_found, _RED))
    ]
    marks += [Text(count, number, f"{count:,}, {count / total:.0%}") for number, (_, count) in enumerate(rows)]
    rows = [(IN_WORDS.get(word, word), count) for word, count in rows]
    across = Axis(0, 1.15 * int(values.max()), "relevant memories")
    down = Axis(max(len(rows), 4) - 0.5, -0.5, ticks=[(number, word) for number, (word, _) in enumerate(rows)])
    return Picture(f"{count_of(lost, 'relevant memory')} of {total:,} lost", marks, across, down, rows)


def scores(result: Any, qrels: Any) -> Picture:
    """The distribution of the scores of relevant hits and of all others: what a `min_score` would cost.

    Parameters
    ----------
    result : Evaluation
    qrels : table, data frame or path
        The judgements that it was made with.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["мёд", "мёд, чай"]}))
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> mk.plot.scores(mk.evaluate(search, queries, qrels, "mrr"), qrels).words.splitlines()[0]
    'scores of 1 relevant and 0 other hits'
    """
    hits = result.judged_hits(qrels)
    is_right = hits["is_relevant"].to_numpy()
    parts = [hits["score"].to_numpy(np.float64)[is_chosen] for is_chosen in (is_right, ~is_right)]
    edges = np.linspace(0, max(_EQUAL, hits["score"].max()), _BINS + 1)
    marks: list[Mark] = []
    top = 0.0
    for values, name, colour, line in zip(parts, ("relevant", "other"), (_BLUE, _ORANGE), ("-", "--"), strict=True):
        shares = np.histogram(values, bins=edges)[0] / max(len(values), 1)
        outline = np.repeat(edges, 2), np.repeat([0, *shares, 0], 2)[1:-1]
        marks.append(Bars(edges[:-1], edges[1:], 0, shares, f"{colour}59"))
        marks.append(Line(*outline, colour, f"{name} ({len(values):,})", line))
        top = max(top, float(shares.max()))
    rows = []
    for name, values in zip(("relevant", "other"), parts, strict=True):
        quarters = np.quantile(values, [0.25, 0.5, 0.75]) if len(values) else []
        rows.append((name, "none" if not len(values) else "quarters at " + ", ".join(f"{q:.3f}" for q in quarters)))
    title = f"scores of {len(parts[0]):,} relevant and {len(parts[1]):,} other hits"
    across, up = Axis(0, edges[-1], "score"), Axis(0, 1.05 * top or 1.0, "share of these hits")
    return Picture(title, marks, across, up, rows)


def power(result: Any = None, spread: float = 0.25) -> Picture:
    """The minimum detectable effect (80 % power) by the number of queries.

    Parameters
    ----------
    result : Comparison or Tuning, optional
        Its spread is used, for two cases: more users like these, and more queries of the same users; users differ,
        so more queries alone help only down to a floor. None is for planning before there are labels: queries are
        independent.
    spread : float
        Standard deviation of the differences of queries, where there is no result.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> print(mk.plot.power().words.splitlines()[1])
    20 queries     0.165
    """
    if result is None:
        sizes = np.array([20, 40, 80, 160, 320, 640, 1280, 2560])
        # As in `queries_needed`, solved for the difference.
        lines = {f"independent queries, spread {spread:g}": spread * np.sqrt(7.85 / (sizes - 1.9))}
        now = None
    else:
        curve = _differences_of(result).power()
        sizes, lines, now = curve.sizes, curve.least, curve.now
    marks: list[Mark] = []
    for (name, values), colour, style, sign in zip(lines.items(), COLOURS, ("-", "--"), "os", strict=False):
        marks += [Line(sizes, values, colour, style=style), Dots(sizes, values, colour, name, sign, size=25)]
    if now is not None:
        marks.append(Dots([now[0]], [now[1]], _RED, "now", "D", size=90))
    ticks = [tick for tick in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if _inside(tick, lines)]
    across = [(float(size), f"{size:,}") for size in sizes]
    ends = [float(end) for values in lines.values() for end in values]
    words = [
        (count_of(size, "query"), ", ".join(f"{value:.3f}" for value in row))
        for size, *row in zip(sizes.tolist(), *lines.values(), strict=True)
    ]
    return Picture(
        "minimum detectable effect, at 80 % power",
        marks,
        Axis(sizes[0] / 1.2, sizes[-1] * 1.2, "labelled queries", across, log=True),
        Axis(min(ends) / 1.5, max(ends) * 1.5, "difference", [(tick, f"{tick:g}") for tick in ticks], log=True),
        words,
    )


def _inside(tick: float, lines: dict[str, Floats]) -> bool:
    values = np.concatenate(list(lines.values()))
    return bool(values.min() / 1.5 <= tick <= values.max() * 1.5)


_LISTED, _LEAST = 12, 1e-9  # settings in words; the least difference, so that equal scores divide by something
_AROUND = 330  # the area of a sign around a point, whose own is 145 at most
_NEAR = "cannot be told from the best"
_SIGNS = {
    "as it is": ("s", "#D55E00"),
    "best": ("^", "#009E73"),
    "to be used": ("D", "#CC79A7"),
    "here": ("D", "#CC79A7"),
}


def surface(result: Any, x: str | None = None, y: str | None = None, metric: str | None = None) -> Picture:
    """The settings that were evaluated, and their scores; nothing is interpolated.

    The larger a point, the higher the score. Where more parameters vary than are drawn, a point is the best of its
    settings. Settings that cannot be told from the best are outlined.

    Parameters
    ----------
    result : Sweep or Tuning
    x, y : str, optional
        Which parameters; else the first two that take the most values. With one alone the score is the height.
    metric : str, optional
        Of a Sweep; the first unless given.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> print(mk.plot.surface(mk.sweep(search, *labels, {"min_score": [0, 0.9]}, "mrr")))
    mrr of 2 settings, 0.000 (small) to 1.000 (large)
    min_score=0    1.000, as it is, best
    min_score=0.9  0.000
    """
    swept, tuned = (result.sweep_, result) if hasattr(result, "sweep_") else (result, None)
    if not hasattr(swept, "settings"):
        raise ParameterError(f"plot.surface: expected what mk.sweep or mk.tune gave. Got {type(result).__name__}.")
    name = tuned.verdict_.metric if tuned is not None else swept.metrics[0] if metric is None else metric
    if name not in swept.table.column_names:
        raise ParameterError(f"plot.surface: expected a metric. Got {name!r}.{did_you_mean(name, swept.metrics)}")
    known = list(swept.settings[0])
    for name_given in (x, y):
        if name_given is not None:
            check_choice("x, y", name_given, known, "plot.surface")
    n_values = {key: len(axis_values(swept, key)) for key in known}
    varies = [key for key in known if n_values[key] > 1] or known
    names = [key for key in (x, y) if key is not None] or sorted(varies, key=lambda key: -n_values[key])[:2]
    near = np.zeros(len(swept.settings), bool)
    marked = {"as it is": swept.default, "best": best_first(swept, name)[0]}
    if tuned is not None:
        near[tuned.plateau_["setting"].to_pylist()] = True
        marked["to be used"] = swept.settings.index(tuned.chosen_params_)
    return surface_of(swept, names, name, near, marked)


def surface_of(swept: Any, names: Sequence[str], metric: str, near: Mask, marked: Mapping[str, int]) -> Picture:
    """What `surface` shows of one or two parameters of a sweep, with signs at the settings in `marked`."""
    means = swept.table[metric].to_numpy()
    low, high = _extent(means)
    axes = [axis_values(swept, name) for name in names]
    places = [places_on(swept, name) for name in names]
    across, up = places[0], places[1] if len(places) > 1 else means
    order = best_first(swept, metric)
    # The best first, so that a point stands for the best of the settings that fall on it.
    front: dict[tuple[int, ...], int] = {}
    for index in order:
        front.setdefault(tuple(int(place[index]) for place in places), index)
    firsts = list(front.values())
    shown = np.array([*firsts[: MARKS - len(marked)], *marked.values()] if len(firsts) > MARKS else firsts)
    sizes = 25 + 120 * (np.nan_to_num(means, nan=low) - low) / max(high - low, _LEAST)
    marks: list[Mark] = [Dots(across[shown], up[shown], COLOURS[0], size=sizes[shown], outlined=near[shown])]
    if near.any():
        marks.append(Dots([], [], "none", _NEAR, outlined=np.zeros(0, bool)))
    for label, index in marked.items():
        sign, colour = _SIGNS[label]
        marks.append(Dots([across[index]], [up[index]], colour, label, sign, size=_AROUND, filled=False))
    hidden = [name for name in swept.settings[0] if name not in names and len(axis_values(swept, name)) > 1]
    of_all = f"; each point the best over {', '.join(hidden)}" if hidden else ""
    title = f"{metric} of {count_of(len(means), 'setting')}, {low:.3f} (small) to {high:.3f} (large){of_all}"
    rows = []
    for index in list(dict.fromkeys([*marked.values(), *firsts]))[:_LISTED]:
        words = [*(label for label, at in marked.items() if at == index), *([_NEAR] if near[index] else [])]
        rows.append((named_setting(swept, index, names), ", ".join([f"{means[index]:.3f}", *words])))
    room = 0.2 * max(high - low, _LEAST)
    vertical = _spread(names[1], axes[1]) if len(names) > 1 else Axis(low - room, high + room, metric)
    return Picture(title, marks, _spread(names[0], axes[0]), vertical, rows)


def _extent(means: Floats) -> tuple[float, float]:
    known = means[~np.isnan(means)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _spread(name: str, values: Sequence[Any]) -> Axis:
    """The values of a parameter, one beside the other."""
    room = 0.15 * len(values)
    ticks = [(place, short(_spelled(value), 24)) for place, value in enumerate(values)]
    return Axis(-room, len(values) - 1 + room, name, ticks)


def best_first(swept: Any, metric: str) -> list[int]:
    """All settings of a sweep, the best first, of equals the first."""
    gains = swept.table[metric].to_numpy() * swept.sign(metric)
    order: list[int] = np.argsort(-np.round(gains, 12), kind="stable").tolist()
    return order


def value_at(swept: Any, index: int, name: str) -> Any:
    """The value of a parameter in a setting; the search's own stands at the value that memkit chooses for it."""
    value = swept.settings[index][name]
    return swept.automatic.get(name) if value is None and index == swept.default else value


def axis_values(swept: Any, name: str) -> list[Any]:
    """The values of a parameter that were tried: numbers in their order, others as they came."""
    values = {_same(value): value for value in (value_at(swept, index, name) for index in range(len(swept.settings)))}
    numbers = all(isinstance(value, (int, float)) for value in values.values())
    return sorted(values.values()) if numbers else list(values.values())


def places_on(swept: Any, name: str) -> Ints:
    """Where each setting stands among the values of a parameter."""
    place = {_same(value): number for number, value in enumerate(axis_values(swept, name))}
    return np.array([place[_same(value_at(swept, index, name))] for index in range(len(swept.settings))])


def _same(value: Any) -> str:
    """What values have in common that stand at one place, as 0 and 0.0."""
    return repr(float(value) if isinstance(value, (int, float)) else value)


def named_setting(swept: Any, index: int, names: Iterable[str]) -> str:
    """A setting in words; a weight that is left to memkit has its value in brackets."""
    setting = swept.settings[index]
    return ", ".join(
        f"{name}=auto ({_spelled(value_at(swept, index, name))})"
        if setting[name] is None and value_at(swept, index, name) is not None
        else f"{name}={_spelled(setting[name])}"
        for name in names
    )


def _spelled(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def pool(swept: Any) -> Picture:
    """What a larger pool (num_candidates, per arm) finds: each metric of a sweep over ``pool``.

    The other parameters are the search's own; where the sweep has those with one pool only, they are those of its best
    setting.

    Parameters
    ----------
    swept : Sweep
        Of a grid with ``pool``; ``recall`` without @k shows what the pool lets in.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["чай и мёд", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> print(mk.plot.pool(mk.sweep(search, *labels, {"pool": [1, 2]}, ["recall", "mrr"])))
    what a pool of 1 to 100 chunks an arm finds
    1    recall 1.000, mrr 1.000
    2    recall 1.000, mrr 1.000
    100  recall 1.000, mrr 1.000
    """
    if "pool" not in getattr(swept, "settings", [{}])[0]:
        raise ParameterError(
            "plot.pool: expected a sweep over 'pool', such as {'pool': [5, 10, 50, 100]}. Got another."
        )
    others = [{name: value for name, value in setting.items() if name != "pool"} for setting in swept.settings]
    chosen = others[swept.default if others.count(others[swept.default]) > 1 else swept.best]
    table = swept.table.take(
        pa.array([position for position, setting in enumerate(others) if setting == chosen])
    ).sort_by("pool")
    pools = table["pool"].to_pylist()
    with_others = f", {', '.join(f'{name}={value}' for name, value in chosen.items())}" if chosen else ""
    marks: list[Mark] = []
    for name, colour, sign in zip(swept.metrics, cycle(COLOURS), cycle("os^D"), strict=False):
        marks += [Line(pools, table[name].to_numpy(), colour, style="--", width=1)]
        marks += [Dots(pools, table[name].to_numpy(), colour, name, sign)]
    title = f"what a pool of {pools[0]:,} to {count_of(pools[-1], 'chunk')} an arm finds{with_others}"
    ticks = [(pool, f"{pool:,}") for pool in pools]
    across = Axis(pools[0] / 1.1, 1.1 * pools[-1], "pool, chunks of each arm", ticks, log=True)
    words = [
        (f"{row['pool']:,}", ", ".join(f"{metric} {row[metric]:.3f}" for metric in swept.metrics))
        for row in table.to_pylist()
    ]
    return Picture(title, marks, across, Axis(-0.02, 1.02, "mean"), words)


def precision_recall(table: pa.Table) -> Picture:
    """Precision and recall of each threshold of dedup on labelled pairs, and the share of contradictions merged.

    Parameters
    ----------
    table : pa.Table
        Of `Deduplicator.precision_recall`.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> found = pa.table({"threshold": [0.95, 0.8], "precision": [1.0, 0.5], "recall": [0.5, 1.0]})
    >>> print(mk.plot.precision_recall(found))
    2 thresholds, 0.8 to 0.95
    0.950  precision 1.00, recall 0.50
    0.800  precision 0.50, recall 1.00
    """
    for name in ("threshold", "precision", "recall"):
        if name not in table.column_names:
            raise ParameterError(
                f"plot.precision_recall: expected a column {name!r}. Got {', '.join(table.column_names)}."
            )
    frame = table.to_pandas()
    ends = f"{frame['threshold'].min():g} to {frame['threshold'].max():g}" if len(frame) else "none"
    styles = {
        "precision": ("precision", COLOURS[0], "-", "o"),
        "recall": ("recall", COLOURS[1], "--", "s"),
        "contradiction_rate": ("contradictions merged", COLOURS[5], ":", "^"),
    }
    names, marks = [name for name in styles if name in frame.columns], list[Mark]()
    for name in names:
        label, colour, style, sign = styles[name]
        marks.append(Line(frame["threshold"].to_numpy(), frame[name].to_numpy(), colour, style=style))
        marks.append(Dots(frame["threshold"].to_numpy(), frame[name].to_numpy(), colour, label, sign, size=16))
    sampled = (
        frame.iloc[np.unique(np.linspace(0, len(frame) - 1, min(len(frame), 12)).astype(int))] if len(frame) else frame
    )
    rows = [(f"{row['threshold']:.3f}", ", ".join(f"{n} {row[n]:.2f}" for n in names)) for _, row in sampled.iterrows()]
    low, high = (frame["threshold"].min(), frame["threshold"].max()) if len(frame) else (0.0, 1.0)
    room = 0.05 * (high - low) or 0.05
    across, up = Axis(low - room, high + room, "threshold"), Axis(-0.02, 1.05, "share")
    return Picture(f"{count_of(len(frame), 'threshold')}, {ends}", marks, across, up, rows)


def similarity(pairs: pa.Table, threshold: float = 0.9) -> Picture:
    """The similarity of the near-duplicate pairs of a `Deduplicator`, and how many lie above a threshold.

    Pairs that a conflict keeps apart at any threshold are hollow bars, and counted apart.

    Parameters
    ----------
    pairs : pa.Table
        ``Deduplicator.pairs_``, or any table with ``kind`` and ``similarity``.
    threshold : float, ratio

    Returns
    -------
    Picture

    Examples
    --------
    >>> pairs = pa.table({"kind": ["lexical", "lexical"], "similarity": [0.95, 0.86]})
    >>> import memkit as mk
    >>> mk.plot.similarity(pairs).words.splitlines()[0]
    '1 of 2 pairs at 0.9 or above'
    """
    check_value("plot.similarity", "threshold", threshold, "float", low=0, high=1)
    for name in ("similarity", "kind"):
        check_column(name, pairs.column_names, "plot.similarity")
    values = np.asarray(pairs["similarity"].to_numpy(), dtype=np.float64)
    kinds, apart = np.array(pairs["kind"].to_pylist(), dtype=object), never_merges(pairs).to_numpy().astype(bool)
    edges = np.linspace(min([*values.tolist(), threshold]), 1.0, _BINS_OF_PAIRS + 1)
    below, marks = np.zeros(_BINS_OF_PAIRS), list[Mark]()
    groups = [(name, COLOURS[place % len(COLOURS)], kinds == name) for place, name in enumerate(sorted(set(kinds)))]
    shown = [(name, colour, of_kind & ~apart, True) for name, colour, of_kind in groups]
    shown += [(f"{name}, never merges", colour, of_kind & apart, False) for name, colour, of_kind in groups]
    for name, colour, chosen, is_filled in shown:
        if chosen.any():
            above = below + np.histogram(values[chosen], bins=edges)[0]
            marks.append(Bars(edges[:-1], edges[1:], below, above, colour, name, filled=is_filled))
            below = above
    top = 1.05 * max(1.0, below.max())
    marks.append(Line([threshold, threshold], [0, top], "#D55E00", style="--"))
    ends = np.linspace(edges[0], 1.0, 11)
    counts, never = (np.histogram(values[which], bins=ends)[0] for which in (~apart, apart))
    spans = [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(ends)]
    rows = [(span, int(n)) for span, n in zip(spans, counts, strict=True)]
    rows += [(f"{span}, never merge", int(n)) for span, n in zip(spans, never, strict=True) if n]
    mergeable = values[~apart]
    title = f"{int((mergeable >= threshold).sum()):,} of {count_of(len(mergeable), 'pair')} at {threshold:g} or above"
    title += f"; {int(apart.sum()):,} never merge" if apart.any() else ""
    room = 0.02 * max(1.0 - edges[0], 1e-9)
    across, up = Axis(edges[0] - room, 1.0 + room, "similarity"), Axis(0, top, "pairs")
    return Picture(title, marks, across, up, rows if len(values) else [])


# Blue, orange, green and grey of Okabe and Ito: told apart by every kind of colour vision, and by hatching in print.
_FILLS: tuple[dict[str, Any], ...] = (
    {"colour": "#0072B2"},
    {"colour": "#E69F00", "hatch": "//"},
    {"colour": "#009E73", "hatch": "xx"},
)
_STYLE = {arm: {**fill, "label": kind.label} for (arm, kind), fill in zip(ARMS.items(), _FILLS, strict=False)}
_STYLE["lost"] = {"colour": FAINTER, "label": "lost to decay", "hatch": ".."}


def funnel(trace: pa.Table) -> Picture:
    """What became of the candidates of a trace: how many were returned, and why the others were not.

    Parameters
    ----------
    trace : pa.Table
        From `Retriever.trace`.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["зелёный чай", "чёрный чай"]}))
    >>> print(mk.plot.funnel(search.trace("чай", k=1, as_of="2026-03-01")))
    2 candidates
    returned  ████████████████████ 1
    below_k   ████████████████████ 1
    """
    if "disposition" not in trace.column_names:
        raise ParameterError(f"plot.funnel: expected a trace. Got columns {', '.join(trace.column_names):.200}.")
    counted = {row["values"]: row["counts"] for row in pc.value_counts(trace["disposition"]).to_pylist()}
    rows = [(word, counted[word]) for word in STEPS.dispositions if word in counted]
    return counts(rows, count_of(trace.num_rows, "candidate"), "candidates")


def ranks(search: Retriever, query: str, as_of: Sequence[AsOf], k: int = 5) -> Picture:
    """The ranks of one query's hits from day to day, as memories age, expire and are created.

    Parameters
    ----------
    search : Retriever
        Fitted.
    query : str
    as_of : sequence of str, date or datetime
        The days.
    k : int
        Hits a day.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"text": ["чай", "чай зелёный"], "kind": ["working"] * 2, "expires_at": ["2026-03-02", None]}
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table(rows))
    >>> print(mk.plot.ranks(search, "чай", ["2026-03-01", "2026-03-05"]))
    ranks of 2 hits for “чай”
    чай          1, –
    чай зелёный  2, 1
    """
    if not as_of:
        raise ParameterError("plot.ranks: 'as_of' must name at least one day. Got none.")
    days = [Moment.from_as_of(day) for day in as_of]
    ranks: dict[str, list[float]] = {}
    names: dict[str, str] = {}
    for index, day in enumerate(days):
        hits = search.search(query, k=k, as_of=day)
        ids = hits["memory_id"].to_pylist()
        names |= dict(zip(ids, titles_of(hits, ids), strict=True))
        for memory_id, rank in zip(ids, hits["rank"].to_pylist(), strict=True):
            ranks.setdefault(memory_id, [np.nan] * len(days))[index] = rank
    named, marks = _distinct_titles(names), list[Mark]()
    for index, (memory_id, row) in enumerate(ranks.items()):
        style, colour = ("-", "--", ":", "-.")[index // len(COLOURS) % 4], COLOURS[index % len(COLOURS)]
        marks.append(Line(np.arange(len(days)), row, colour, named[memory_id] or memory_id, style))
        marks.append(Dots(np.arange(len(days)), row, colour))
    words = {m: ", ".join("–" if rank != rank else str(int(rank)) for rank in row) for m, row in ranks.items()}
    title = f"ranks of {count_of(len(ranks), 'hit')} for “{short(query)}”"
    across = Axis(-0.3, len(days) - 0.7, ticks=some_ticks([f"{day.instant:%Y-%m-%d}" for day in days]))
    down = Axis(k + 0.5, 0.5, "rank", [(float(rank), f"{rank}") for rank in range(1, k + 1)])
    rows = [(named[memory_id], text) for memory_id, text in words.items()]
    return Picture(title, marks, across, down, rows, "" if rows else "nothing was found", HIGH + 8 * len(rows))


def _distinct_titles(names: dict[str, str]) -> dict[str, str]:
    """Short titles by id; equal titles get the id behind them."""
    titles = {key: short(name) for key, name in names.items()}
    texts = [*titles.values()]
    return {
        key: name if texts.count(name) == 1 else f"{short(name, 22)} {short(key, 13)}" for key, name in titles.items()
    }


def contributions(trace: pa.Table, most: int | None = None) -> Picture:
    """Stacked bars, best hit on top: the score from each arm (words, meaning, letters), and the loss to decay.

    Parameters
    ----------
    trace : pa.Table
        From `Retriever.trace`, of one query.
    most : int, optional
        How many hits are drawn, the best; all by default.

    Returns
    -------
    Picture

    Raises
    ------
    QueryError
        As `contributions`.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["зелёный чай", "чёрный чай"]}))
    >>> picture = mk.plot.contributions(search.trace("чай", as_of="2026-03-01"))
    >>> [name for _, name in picture.y.ticks]
    ['чёрный чай', 'зелёный чай']
    """
    table = parts_of(trace)
    bars = table.slice(0, most)
    some = f"the first {bars.num_rows} of " if bars.num_rows < table.num_rows else ""
    title = f"what the scores of {some}{count_of(table.num_rows, 'hit')} are made of"
    names = [short(name) for name in titles_of(trace, bars["memory_id"].to_pylist())]
    if not names:
        return Picture(title, [], Axis(0, 1, "score"), Axis(3.5, -0.5, ticks=[]), empty="nothing was found")
    place, left, marks = np.arange(len(names)), np.zeros(len(names)), list[Mark]()
    for name, style in _STYLE.items():
        right = left + bars[name].to_numpy()
        marks.append(Bars(left, right, place - 0.4, place + 0.4, **style))
        left = right
    parts = tuples_of(bars, *_STYLE)
    heads = [style["label"] for style in _STYLE.values()]
    texts = [", ".join(f"{head} {part:.3f}" for head, part in zip(heads, row, strict=True)) for row in parts]
    across = Axis(0, 1.03 * max(float(left.max()), 1e-9), "score")
    down = Axis(max(len(names), 4) - 0.5, -0.5, ticks=list(enumerate(names)))
    return Picture(title, marks, across, down, list(zip(names, texts, strict=True)))
