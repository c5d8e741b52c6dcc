"""Pictures of what a corpus is about: topics over time, and what it says on a theme."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from memkit.duck import rows_of
from memkit.params import check_choice
from memkit.plot.axes import axes_for, short, with_words
from memkit.plot.memories import stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOPICS = 7
_MOST_DAYS = 7300
_NAMED = 3
PERIODS = ("month", "week")
_COUNTS = """
    select topic, any_value(name) as name, count(*) as n,
        date_trunc('{by}', make_timestamp(epoch_us(created_at)))::date as period
    from memories group by topic, period
"""


def topics(memories: pa.Table, ax: Axes | None = None, *, by: str = "month") -> Axes:
    """How many memories of each topic were made in each month or week; those without a date are counted in the title.

    Parameters
    ----------
    memories : pa.Table
        ``Topics.memories``.
    ax : matplotlib Axes, optional
        As for `growth`.
    by : {"month", "week"}
        Weeks are those of ISO 8601.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import memkit as mk
    >>> tea = {"text": ["зелёный чай", "чёрный чай"], "created_at": ["2026-01-05", "2026-02-01"]}
    >>> print(mk.plot.words(mk.plot.topics(mk.topics(mk.from_table(tea)).memories, by="week")))
    memories by topic and week, 0 without a date
    2026-W02  1: чай (1)
    2026-W05  1: чай (1)
    """
    check_choice("by", by, PERIODS, "plot.topics")
    counted = rows_of(_COUNTS.format(by=by), memories=memories).to_pylist()
    dated = [row for row in counted if row["period"]]
    periods = _periods([row["period"] for row in dated], by)
    totals: dict[int, int] = {}
    for row in dated:
        totals[row["topic"]] = totals.get(row["topic"], 0) + row["n"]
    names = {row["topic"]: short(row["name"]) for row in dated}
    order = sorted((topic for topic in totals if topic), key=lambda topic: (-totals[topic], topic))
    kept = order if len(order) <= _TOPICS else order[: _TOPICS - 1]
    counts = {name: np.zeros(len(periods), np.int64) for name in [names[topic] for topic in kept]}
    if len(kept) < len(order):
        counts["other topics"] = np.zeros(len(periods), np.int64)
    if 0 in totals:
        counts[names[0]] = np.zeros(len(periods), np.int64)
    for row in dated:
        name = names[row["topic"]] if row["topic"] in kept or not row["topic"] else "other topics"
        counts[name][periods.index(row["period"])] += row["n"]
    undated = sum(row["n"] for row in counted if not row["period"])
    ax = axes_for(ax, f"memories by topic and {by}, {undated:,} without a date")
    labels = [f"{day:%Y-%m}" if by == "month" else f"{day:%G-W%V}" for day in periods]
    stack(ax, labels, counts, grey=names.get(0, ""))
    return with_words(ax, _in_words(labels, counts))


def _periods(days: Collection[date], by: str) -> list[date]:
    """The first days of all periods from the first to the last; of those alone that exist if a date lies far off."""
    if not days or (max(days) - min(days)).days > _MOST_DAYS:
        return sorted(set(days))
    every = [min(days)]
    while every[-1] < max(days):
        later = every[-1] + timedelta(days=7 if by == "week" else 32)
        every.append(later if by == "week" else later.replace(day=1))
    return every


def _in_words(labels: list[str], counts: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """For each period its number and the largest topics."""
    rows = []
    for at, label in enumerate(labels):
        there = sorted(((int(row[at]), name) for name, row in counts.items() if row[at]), key=lambda one: -one[0])
        if there:
            more = f"; {len(there) - _NAMED} more" if len(there) > _NAMED else ""
            listed = "; ".join(f"{name} ({n:,})" for n, name in there[:_NAMED])
            rows.append((label, f"{sum(n for n, _ in there):,}: {listed}{more}"))
    return rows
