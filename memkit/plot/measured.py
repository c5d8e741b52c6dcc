"""Pictures of measurements by query: differences, groups, losses, scores, power."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from memkit.display.views import IN_WORDS
from memkit.errors import ParameterError, count_of
from memkit.plot.axes import COLOURS, axes_for, short, with_words
from memkit.schemas import Floats
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _ORANGE, _RED = COLOURS[0], COLOURS[1], COLOURS[5]
_EQUAL = 1e-9  # as in `compare`: a smaller difference of scores is rounding
_MOST_GROUPS = 30
_BINS = 24


def _differences_of(result: Any) -> Any:
    """The `Differences` of a result that has some."""
    if not hasattr(result, "differences"):
        raise ParameterError("expected what mk.compare with labels, or mk.tune, gave. Got another result.")
    return result.differences()


def differences(result: Any, ax: Axes | None = None) -> Axes:
    """The difference of every query and their distribution, with the mean, its interval and the range of no difference.

    Parameters
    ----------
    result : Comparison or Tuning
        Of `compare` with labels, or of `tune`, whose queries show what settings chosen without them gain.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> cases = {"user_id": [f"u{at // 4}" for at in range(32)], "0.9": [0.5] * 32, "0.8": [0.5, 0.7, 0.6, 0.4] * 8}
    >>> print(mk.plot.words(mk.plot.differences(mk.labels.tune_scores(cases, "0.9", group="user_id"))))
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
    ax = axes_for(ax, diff.sentence)
    ax.axvspan(-diff.epsilon, diff.epsilon, color="#999999", alpha=0.3, lw=0, label=f"± {diff.epsilon:g}")
    ax.axvline(0, color="black", lw=1)
    edges = np.histogram_bin_edges(values, bins=_BINS)
    counts, edges = np.histogram(values, bins=edges)
    ax.stairs(
        0.35 + 0.6 * counts / max(counts.max(initial=1), 1), edges, baseline=0.35, fill=True, color=_BLUE, alpha=0.55
    )
    heights = -0.25 + 0.2 * np.modf(np.arange(len(values)) * (math.sqrt(5) - 1) / 2)[0]  # even, and the same each time
    ax.plot(values, heights, "o", ms=4, alpha=0.75, color=_BLUE, mew=0, label="a query")
    if diff.mean is not None:
        ends = np.array([[diff.mean], [diff.mean]]) if diff.low is None else np.array([[diff.low], [diff.high]])
        errors = np.maximum(np.array([diff.mean - ends[0], ends[1] - diff.mean]), 0)
        name = "mean" if diff.low is None else "mean, 95 % interval"
        ax.errorbar([diff.mean], [0.16], xerr=errors, fmt="D", color=_RED, capsize=5, lw=2.5, ms=7, label=name)
    ax.set(xlabel=f"difference of {diff.metric}", yticks=[], ylim=(-0.35, 1.02))
    right = counts[len(counts) // 2 :].max(initial=0) >= counts[: len(counts) // 2].max(initial=0)
    ax.legend(frameon=False, fontsize=8, loc="upper left" if right else "upper right")
    rows: list[tuple[str, Any]] = [
        ("higher", int((values > _EQUAL).sum())),
        ("the same", int((np.abs(values) <= _EQUAL).sum())),
        ("lower", int((values < -_EQUAL).sum())),
        ("mean", "none" if diff.mean is None else f"{diff.mean:+.3f}"),
        ("95 % interval", diff.interval),
        ("no difference", f"within ± {diff.epsilon:g}"),
    ]
    return with_words(ax, rows)


def groups(result: Any, ax: Axes | None = None) -> Axes:
    """The mean difference of each user (or other group of queries): for whom it is better, and for whom not.

    Parameters
    ----------
    result : Comparison or Tuning
        As for `differences`.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> cases = {"user_id": ["anna", "anna", "boris"], "0.9": [0.5] * 3, "0.8": [0.7, 0.6, 0.4]}
    >>> print(mk.plot.words(mk.plot.groups(mk.labels.tune_scores(cases, "0.9", group="user_id"))))
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
    ax = axes_for(ax, f"{higher:,} of {len(groups):,} {noun} higher, {lower:,} lower{part}")
    ax.axvspan(-diff.epsilon, diff.epsilon, color="#999999", alpha=0.3, lw=0)
    ax.axvline(0, color="black", lw=1)
    place, mean = np.arange(len(shown)), shown["mean"].to_numpy()
    ax.hlines(place, 0, mean, color="#999999", lw=1)
    sizes = 20 + 100 * shown["size"] / shown["size"].max()
    ax.scatter(mean, place, s=sizes, color=np.where(mean < -_EQUAL, _RED, _BLUE), zorder=3)
    named = [short(mask(str(name)), 28) for name in shown["group"]]
    ax.set_yticks(place, [name.replace("$", r"\$") for name in named], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel(f"mean difference of {diff.metric}; the larger the dot, the more queries")
    return with_words(
        ax, [(name, f"{r.mean:+.3f} of {r.size}") for name, r in zip(named, shown.itertuples(), strict=True)]
    )


def _ends(groups: pd.DataFrame) -> pd.DataFrame:
    """The groups that gain and lose the most, where they are too many to be read."""
    if len(groups) <= _MOST_GROUPS:
        return groups
    half = _MOST_GROUPS // 2
    return pd.concat([groups[:half], groups[-half:]], ignore_index=True)


def stages(result: Any, ax: Axes | None = None) -> Axes:
    """At which stage relevant memories were lost.

    Parameters
    ----------
    result : Evaluation or Tuning
        Of ``evaluate(..., stages=True)``; of `tune` the search to use is traced.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["мёд", "чай"]}))
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["a"], "relevance": [1]}
    >>> print(mk.plot.words(mk.plot.stages(mk.evaluate(search, queries, qrels, "recall@1", stages=True))))
    1 relevant memory of 1 lost
    found by no arm  ████████████████████ 1
    """
    table = getattr(result, "stages", None)
    if table is None or not table.num_rows:
        raise ParameterError("plot.stages: expected mk.evaluate(…, stages=True). Got a result without stages.")
    rows = [(row["disposition"], row["n"]) for row in table.to_pylist()]
    total, lost = sum(count for _, count in rows), sum(count for word, count in rows if word != "returned")
    ax = axes_for(ax, f"{count_of(lost, 'relevant memory')} of {total:,} lost")
    colours = [_BLUE if word == "returned" else _RED for word, _ in rows]
    rows = [(IN_WORDS.get(word, word), count) for word, count in rows]
    ax.barh([word for word, _ in rows], [count for _, count in rows], color=colours)
    for place, (_, count) in enumerate(rows):
        ax.text(count, place, f" {count:,}, {count / total:.0%}", va="center", fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlabel("relevant memories")
    return with_words(ax, rows)


def scores(result: Any, qrels: Any, ax: Axes | None = None) -> Axes:
    """The distribution of the scores of relevant hits and of all others: what a `min_score` would cost.

    Parameters
    ----------
    result : Evaluation
    qrels : table, data frame or path
        The judgements that it was made with.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["мёд", "мёд, чай"]}))
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> mk.plot.words(mk.plot.scores(mk.evaluate(search, queries, qrels, "mrr"), qrels)).splitlines()[0]
    'scores of 1 relevant and 0 other hits'
    """
    hits = result.judged_hits(qrels)
    is_right = hits["is_relevant"].to_numpy()
    parts = [hits["score"].to_numpy(np.float64)[is_chosen] for is_chosen in (is_right, ~is_right)]
    ax = axes_for(ax, f"scores of {len(parts[0]):,} relevant and {len(parts[1]):,} other hits")
    edges = np.linspace(0, max(1e-9, hits["score"].max()), _BINS + 1)
    for values, name, colour, line in zip(parts, ("relevant", "other"), (_BLUE, _ORANGE), ("-", "--"), strict=True):
        shares = np.histogram(values, bins=edges)[0] / max(len(values), 1)
        ax.stairs(shares, edges, fill=True, alpha=0.35, color=colour)
        ax.stairs(shares, edges, color=colour, lw=1.5, ls=line, label=f"{name} ({len(values):,})")
    ax.set(xlabel="score", ylabel="share of these hits")
    ax.legend(frameon=False, fontsize=8)
    rows = []
    for name, values in zip(("relevant", "other"), parts, strict=True):
        quarters = np.quantile(values, [0.25, 0.5, 0.75]) if len(values) else []
        rows.append((name, "none" if not len(values) else "quarters at " + ", ".join(f"{q:.3f}" for q in quarters)))
    return with_words(ax, rows)


def power(result: Any = None, spread: float = 0.25, ax: Axes | None = None) -> Axes:
    """The minimum detectable effect (80 % power) by the number of queries.

    Parameters
    ----------
    result : Comparison or Tuning, optional
        Its spread is used, for two cases: more users like these, and more queries of the same users; users differ,
        so more queries alone help only down to a floor. None is for planning before there are labels: queries are
        independent.
    spread : float
        Standard deviation of the differences of queries, where there is no result.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> print(mk.plot.words(mk.plot.power()).splitlines()[1])
    20 queries     0.165
    """
    ax = axes_for(ax, "minimum detectable effect, at 80 % power")
    if result is None:
        sizes = np.array([20, 40, 80, 160, 320, 640, 1280, 2560])
        lines = {f"independent queries, spread {spread:g}": spread * np.sqrt(7.85 / (sizes - 1.9))}
        now = None
    else:
        curve = _differences_of(result).power()
        sizes, lines, now = curve.sizes, curve.least, curve.now
    for (name, values), colour, style in zip(lines.items(), COLOURS, ("o-", "s--"), strict=False):
        ax.plot(sizes, values, style, color=colour, ms=5, label=name)
    if now is not None:
        ax.plot(*now, "*", color="black", ms=14, label="now")
    ax.set(xscale="log", yscale="log", xlabel="labelled queries", ylabel="difference")
    ticks = [tick for tick in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if _inside(tick, lines)]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, fontsize=8)
    rows = zip(sizes.tolist(), *lines.values(), strict=True)
    return with_words(
        ax, [(count_of(size, "query"), ", ".join(f"{value:.3f}" for value in row)) for size, *row in rows]
    )


def _inside(tick: float, lines: dict[str, Floats]) -> bool:
    values = np.concatenate(list(lines.values()))
    return bool(values.min() / 1.5 <= tick <= values.max() * 1.5)
