"""Pictures of measurements by query: differences, groups, losses, scores, power."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from memkit.display.views import IN_WORDS
from memkit.errors import ParameterError, count_of
from memkit.plot.marks import COLOURS, FAINT, FAINTER, HIGH, Axis, Bars, Dots, Line, Mark, Picture, Text, short
from memkit.schemas import Floats
from memkit.text.secrets import mask

_BLUE, _ORANGE, _RED = COLOURS[0], COLOURS[1], COLOURS[5]
_EQUAL = 1e-9  # as in `compare`: a smaller difference of scores is rounding
_MOST_GROUPS = 30
_BINS = 24


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
