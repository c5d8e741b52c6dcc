"""Pictures of settings: only evaluated settings are drawn, nothing is interpolated between them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from memkit.errors import ParameterError, did_you_mean
from memkit.params import check_choice, check_column, check_value
from memkit.plot.axes import COLOURS, axes_for, short, with_words
from memkit.plot.marks import Axis, Bars, Line, Mark, Picture
from memkit.policy.dedup.pairs import never_merges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 30


def surface(
    result: Any, x: str | None = None, y: str | None = None, metric: str | None = None, ax: Axes | None = None
) -> Axes:
    """The settings that were evaluated, and their scores; nothing is interpolated.

    Where more parameters vary than are drawn, a point is the best of its settings. Settings that cannot be told
    from the best are outlined.

    Parameters
    ----------
    result : Sweep or Tuning
    x, y : str, optional
        Which parameters; else the first two that take the most values. With one alone the score is the height.
    metric : str, optional
        Of a Sweep; the first unless given.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> print(mk.plot.words(mk.plot.surface(mk.sweep(search, *labels, {"min_score": [0, 0.9]}, "mrr"))))
    mrr of 2 settings
    min_score=0.0  1.000, as it is, best
    min_score=0.9  0.000
    """
    swept, tuned = (result.sweep_, result) if hasattr(result, "sweep_") else (result, None)
    if not hasattr(swept, "settings"):
        raise ParameterError(f"plot.surface: expected what mk.sweep or mk.tune gave. Got {type(result).__name__}.")
    name = tuned.verdict_.metric if tuned is not None else swept.metrics[0] if metric is None else metric
    table = swept.table.to_pandas()
    if name not in table.columns:
        raise ParameterError(f"plot.surface: expected a metric. Got {name!r}.{did_you_mean(name, swept.metrics)}")
    varies = [key for key in swept.settings[0] if table[key].nunique(dropna=False) > 1] or list(swept.settings[0])
    for name_given in (x, y):
        if name_given is not None:
            check_choice("x, y", name_given, list(swept.settings[0]), "plot.surface")
    names = [key for key in (x, y) if key is not None] or sorted(varies, key=lambda key: -table[key].nunique())[:2]
    sign_of_metric = swept.sign(name)
    near = set() if tuned is None else set(tuned.plateau_["setting"].to_pylist())
    table["near"] = table["setting"].isin(near)
    now, best = swept.default, int((table[name].round(12) * sign_of_metric).idxmax())
    chosen = None if tuned is None else swept.settings.index(tuned.chosen_params_)
    to_mark = {now, best, chosen}
    front = table.sort_values(name, kind="stable", ascending=sign_of_metric < 0).drop_duplicates(names)
    marks = [(now, "s", "as it is"), (best, "^", "best"), (chosen, "*", "to be used")]
    hidden = [key for key in varies if key not in names]
    of_all = f"; each point the best over {', '.join(hidden)}" if hidden else ""
    ax = axes_for(ax, f"{name} of {len(table):,} settings{of_all}")
    for key in set(names) & swept.automatic.keys():  # the search's own setting stands where memkit's choice puts it
        table.loc[now, key] = swept.automatic[key]
    front = front.assign(**{key: table[key].loc[front.index] for key in names})
    where = [_places(ax, table[key], axis) for key, axis in zip(names, ("x", "y"), strict=False)]
    height = where[1] if len(names) > 1 else table[name]
    _draw_points(ax, front, where[0], height, name, len(names) > 1)
    for setting, sign, label in marks:
        if setting is not None:
            ax.plot(
                where[0][setting], height[setting], sign, ms=15, mfc="none", mec="black", mew=1.5, ls="", label=label
            )
    ax.set(xlabel=names[0], ylabel=names[1] if len(names) > 1 else name)
    ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4)
    labels = {setting: [word for key, _, word in marks if key == setting] for setting in to_mark if setting is not None}
    listed = front.assign(first=front["setting"].isin(to_mark)).sort_values(["first", name], ascending=False).head(12)
    extra = table[table["setting"].isin(to_mark - set(listed["setting"]))]
    rows = []
    for _, row in pd.concat([listed, extra]).iterrows():
        words = [
            f"{row[name]:.3f}",
            *labels.get(row["setting"], []),
            *(["cannot be told from the best"] if row["near"] else []),
        ]
        rows.append((", ".join(f"{key}={_value_text(row[key])}" for key in names), ", ".join(words)))
    return with_words(ax, rows)


def _value_text(value: Any) -> str:
    return "None" if pd.isna(value) else str(value)


def _draw_points(ax: Axes, front: pd.DataFrame, x: Any, height: Any, name: str, flat: bool) -> None:
    index = front.index
    edges = np.where(front["near"], "black", "#999999")  # a rim, for the darkest are dark as a dark page
    colour: dict[str, Any] = {"c": front[name], "cmap": "viridis"} if flat else {"color": COLOURS[0]}
    points = ax.scatter(
        x[index],
        height[index],
        s=70,
        edgecolors=edges.tolist(),
        linewidths=np.where(front["near"], 1.5, 0.5).tolist(),
        zorder=2,
        **colour,
    )
    if front["near"].any():
        ax.scatter([], [], s=70, color="none", edgecolors="black", linewidths=1.5, label="cannot be told from the best")
    if flat:
        ax.figure.colorbar(points, ax=ax, label=name)


def _places(ax: Axes, column: pd.Series, axis: str) -> pd.Series:
    """The positions of a parameter's values: numbers at their value, None to the left, words one after the other."""
    ticks = ax.set_xticks if axis == "x" else ax.set_yticks
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        if not column.isna().any():
            return column
        values = np.unique(column.dropna())
        left = values.min() - max(np.ptp(values) / 6, 1e-9)
        shown = values[np.unique(np.linspace(0, len(values) - 1, min(len(values), 8)).astype(int))]
        ticks([left, *shown], ["None", *(f"{value:g}" for value in shown)])
        return column.fillna(left)
    column = column.map(_value_text)
    words = list(dict.fromkeys(column))
    ticks(range(len(words)), [short(word, 24).replace("$", r"\$") for word in words], fontsize=8)
    return column.map({word: place for place, word in enumerate(words)})


def pool(swept: Any, ax: Axes | None = None) -> Axes:
    """What a larger pool (num_candidates, per arm) finds: each metric of a sweep over ``pool``.

    The other parameters are the search's own; where the sweep has those with one pool only, they are those of its best
    setting.

    Parameters
    ----------
    swept : Sweep
        Of a grid with ``pool``; ``recall`` without @k shows what the pool lets in.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["чай и мёд", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> print(mk.plot.words(mk.plot.pool(mk.sweep(search, *labels, {"pool": [1, 2]}, ["recall", "mrr"]))))
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
    ax = axes_for(ax, f"what a pool of {pools[0]:,} to {pools[-1]:,} chunks an arm finds{with_others}")
    for name, colour, sign in zip(swept.metrics, COLOURS, "os^Dv<>p", strict=False):
        ax.plot(pools, table[name].to_pylist(), f"{sign}--", color=colour, lw=1, label=name)
    ax.set(xscale="log", xlabel="pool, chunks of each arm", ylabel="mean", ylim=(-0.02, 1.02))
    ax.set_xticks(pools, [f"{pool:,}" for pool in pools])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8)
    rows = table.to_pylist()
    return with_words(ax, [(f"{row['pool']:,}", ", ".join(f"{m} {row[m]:.3f}" for m in swept.metrics)) for row in rows])


def precision_recall(table: pa.Table, ax: Axes | None = None) -> Axes:
    """Precision and recall of each threshold of dedup on labelled pairs, and the share of contradictions merged.

    Parameters
    ----------
    table : pa.Table
        Of `Deduplicator.precision_recall`.
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> found = pa.table({"threshold": [0.95, 0.8], "precision": [1.0, 0.5], "recall": [0.5, 1.0]})
    >>> print(mk.plot.words(mk.plot.precision_recall(found)))
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
    ax = axes_for(ax, f"{len(frame):,} thresholds, {ends}")
    styles = {"precision": (COLOURS[0], "o-"), "recall": (COLOURS[1], "s--"), "contradiction_rate": (COLOURS[5], "^:")}
    names = [name for name in styles if name in frame.columns]
    for name in names:
        colour, style = styles[name]
        label = {"contradiction_rate": "contradictions merged"}.get(name, name)
        ax.plot(frame["threshold"], frame[name], style, color=colour, ms=4, label=label)
    ax.set(xlabel="threshold", ylabel="share", ylim=(-0.02, 1.05))
    ax.legend(frameon=False, fontsize=8)
    sampled = (
        frame.iloc[np.unique(np.linspace(0, len(frame) - 1, min(len(frame), 12)).astype(int))] if len(frame) else frame
    )
    rows = [(f"{row['threshold']:.3f}", ", ".join(f"{n} {row[n]:.2f}" for n in names)) for _, row in sampled.iterrows()]
    return with_words(ax, rows)


def similarity(pairs: pa.Table, threshold: float = 0.9, ax: Axes | None = None) -> Axes:
    """The similarity of the near-duplicate pairs of a `Deduplicator`, and how many lie above a threshold.

    Pairs that a conflict keeps apart at any threshold are hollow bars, and counted apart.

    Parameters
    ----------
    pairs : pa.Table
        ``Deduplicator.pairs_``, or any table with ``kind`` and ``similarity``.
    threshold : float, ratio
    ax : matplotlib Axes, optional
        As for `growth`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> pairs = pa.table({"kind": ["lexical", "lexical"], "similarity": [0.95, 0.86]})
    >>> import memkit as mk
    >>> mk.plot.words(mk.plot.similarity(pairs)).splitlines()[0]
    '1 of 2 pairs at 0.9 or above'
    """
    return similarity_of(pairs, threshold).on(ax)


def similarity_of(pairs: pa.Table, threshold: float = 0.9) -> Picture:
    """What `similarity` draws."""
    check_value("plot.similarity", "threshold", threshold, "float", low=0, high=1)
    for name in ("similarity", "kind"):
        check_column(name, pairs.column_names, "plot.similarity")
    values = np.asarray(pairs["similarity"].to_numpy(), dtype=np.float64)
    kinds, apart = np.array(pairs["kind"].to_pylist(), dtype=object), never_merges(pairs).to_numpy().astype(bool)
    edges = np.linspace(min([*values.tolist(), threshold]), 1.0, _BINS + 1)
    below, marks = np.zeros(_BINS), list[Mark]()
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
    ends = np.histogram_bin_edges(values, bins=10)
    counts, never = (np.histogram(values[which], bins=ends)[0] for which in (~apart, apart))
    spans = [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(ends)]
    rows = [(span, int(n)) for span, n in zip(spans, counts, strict=True)]
    rows += [(f"{span}, never merge", int(n)) for span, n in zip(spans, never, strict=True) if n]
    mergeable = values[~apart]
    title = f"{int((mergeable >= threshold).sum()):,} of {len(mergeable):,} pairs at {threshold:g} or above"
    title += f"; {int(apart.sum()):,} never merge" if apart.any() else ""
    room = 0.02 * max(1.0 - edges[0], 1e-9)
    across, up = Axis(edges[0] - room, 1.0 + room, "similarity"), Axis(0, top, "pairs")
    return Picture(title, marks, across, up, rows if len(values) else [])
