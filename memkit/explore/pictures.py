"""Pictures of what a corpus is about: topics over time, and what it says on a theme."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from memkit.errors import ParameterError
from memkit.extend.showing import COLOURS, DAY_SECONDS, Axis, Dots, Mark, Picture, Text, day_axis, rows_of, short, stack
from memkit.extend.writing import check_choice
from memkit.text.snippet import plain_line

_TOPICS = 7
_MOST_DAYS = 7300
_NAMED = 3
_LABELLED = 12
PERIODS = ("month", "week")
PAST = ("superseded", "deprecated", "archived")
"""What its author calls a memory that no longer holds."""
_COUNTS = """
    select topic, any_value(name) as name, count(*) as n,
        date_trunc('{by}', make_timestamp(epoch_us(created_at)))::date as period
    from memories group by topic, period
"""


def topics(memories: pa.Table, *, by: str = "month") -> Picture:
    """How many memories of each topic were made in each month or week; those without a date are counted in the title.

    Parameters
    ----------
    memories : pa.Table
        ``Topics.memories``.
    by : {"month", "week"}
        Weeks are those of ISO 8601.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> tea = {"text": ["зелёный чай", "чёрный чай"], "created_at": ["2026-01-05", "2026-02-01"]}
    >>> print(mk.plot.topics(mk.topics(mk.from_table(tea)).memories, by="week"))
    memories by topic and week, 0 without a date
    2026-W02  1: чай (1)
    2026-W05  1: чай (1)
    """
    check_choice("by", by, PERIODS, "plot.topics")
    _check_columns("plot.topics", memories, ("topic", "name", "created_at"), "mk.topics(corpus).memories")
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
    labels = [f"{day:%Y-%m}" if by == "month" else f"{day:%G-W%V}" for day in periods]
    title = f"memories by topic and {by}, {undated:,} without a date"
    return stack(title, labels, counts, _in_words(labels, counts), grey=names.get(0, ""))


def _check_columns(owner: str, table: object, columns: Collection[str], expected: str) -> None:
    """Raise where `table` is not the table that is drawn; the message says which one it is."""
    if not isinstance(table, pa.Table) or not {*columns} <= {*table.column_names}:
        got = f"columns {', '.join(table.column_names)}" if isinstance(table, pa.Table) else type(table).__name__
        raise ParameterError(f"{owner}: expected {expected}. Got {got:.200}.")


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
    for period, label in enumerate(labels):
        present = sorted(
            ((int(row[period]), name) for name, row in counts.items() if row[period]), key=lambda counted: -counted[0]
        )
        if present:
            more = f"; {len(present) - _NAMED} more" if len(present) > _NAMED else ""
            listed = "; ".join(f"{name} ({n:,})" for n, name in present[:_NAMED])
            rows.append((label, f"{sum(n for n, _ in present):,}: {listed}{more}"))
    return rows


def timeline(table: pa.Table, title: str = "memories on a theme") -> Picture:
    """Each dated memory of a timeline at its date and score; outlines are superseded or deprecated.

    Parameters
    ----------
    table : pa.Table
        ``Timeline.table``.
    title : str

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["Пул мал"], "created_at": ["2026-01-05"]}))
    >>> print(mk.plot.timeline(mk.timeline(search, "пул").table, "the pool"))
    the pool
    2026-01-05  Пул мал
    """
    columns = ("date", "snippet", "score", "status", "superseded_by")
    _check_columns("plot.timeline", table, columns, "mk.timeline(search, theme).table")
    rows = [row for row in table.to_pylist() if row["date"]]
    days = [row["date"].timestamp() / DAY_SECONDS for row in rows]
    names = [short(plain_line(row["snippet"]), 48) for row in rows]
    is_past = np.array([bool(row["superseded_by"]) or row["status"] in PAST for row in rows], bool)
    day, score = np.array(days, float), np.array([row["score"] for row in rows], float)
    marks: list[Mark] = [Dots(day[~is_past], score[~is_past], COLOURS[0])]
    if is_past.any():
        marks.append(Dots(day[is_past], score[is_past], COLOURS[5], "superseded or deprecated", filled=False))
    if len(rows) <= _LABELLED:
        marks += [Text(x, y, short(name, 24)) for x, y, name in zip(days, score.tolist(), names, strict=True)]
    up = Axis(0, 1.1 * float(score.max(initial=0.0)) or 1.0, "score")
    words = [(f"{row['date']:%Y-%m-%d}", name) for row, name in zip(rows, names, strict=True)]
    return Picture(title, marks, day_axis(day, right=0.25), up, words, "" if rows else "nothing is dated")
