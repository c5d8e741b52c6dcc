"""Pictures of memories: when they were made, lived and changed, what policies keep, what a prompt holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf
from memkit.errors import ParameterError, count_of
from memkit.plot.marks import COLOURS, FAINT, FAINTER, Axis, Bars, Dots, Line, Mark, Picture, Text, round_ticks
from memkit.policy.limits import Decay
from memkit.schemas import Floats, Ints
from memkit.tables.age import BY_MONTH, UNDATED, factors

if TYPE_CHECKING:
    from memkit.context import Context
    from memkit.tables.corpus import Corpus


_KINDS = 7
"""Kinds that are drawn in a colour of their own; further ones are drawn together."""
FEW_MONTHS = 6
DAY_SECONDS = 86_400
_MANY_MONTHS = 240
"""Twenty years: over a longer span only months with memories are drawn, as one wrong date would make hundreds."""
_MOST_TICKS = 9  # as many dates have room beside each other
_STYLES = {
    "e_folding": ("-", COLOURS[1]),
    "half_life": ("--", COLOURS[2]),
    "linear": ("-.", "#888888"),
    "gauss": (":", "#888888"),
}


def growth(corpus: Corpus | pa.Table) -> Picture:
    """How many memories were made in each month, by kind; those without a date are counted in the title.

    Parameters
    ----------
    corpus : Corpus or pa.Table
        Or the table ``kinds_by_month`` of an overview.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> dated = mk.from_table({"text": ["чай", "кофе"], "created_at": ["2026-01-05", "2026-02-01"]})
    >>> print(mk.plot.growth(dated))
    memories by month, 0 without a date
    2026-01  ████████████████████ 1
    2026-02  ████████████████████ 1
    """
    counted = (corpus if isinstance(corpus, pa.Table) else corpus.ask(BY_MONTH, timeout_s=None)).to_pylist()
    rows = [row for row in counted if row["month"] != UNDATED]
    months = _months([row["month"] for row in rows])
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["kind"]] = totals.get(row["kind"], 0) + row["memories"]
    kinds = sorted(totals, key=lambda kind: (-totals[kind], kind))
    shown = kinds if len(kinds) <= _KINDS else [*kinds[: _KINDS - 1], "others"]
    counts = np.zeros((len(shown), len(months)), dtype=np.int64)
    for row in rows:
        row_index = shown.index(row["kind"]) if row["kind"] in shown else len(shown) - 1
        counts[row_index, months.index(row["month"])] += row["memories"]
    undated = sum(row["memories"] for row in counted) - int(counts.sum())
    title = f"memories by month, {undated:,} without a date"
    dated = [pair for pair in zip(months, counts.sum(axis=0).tolist(), strict=True) if pair[1]]
    return stack(title, months, dict(zip(shown, counts, strict=True)), dated)


def stack(
    title: str, periods: Sequence[str], counts: Mapping[str, Ints], rows: Sequence[tuple[str, Any]], grey: str = ""
) -> Picture:
    """A bar for each period, of one piece for each name; the one called `grey` is grey."""
    place, below, marks = np.arange(len(periods)), np.zeros(len(periods)), list[Mark]()
    for name, row, colour in zip(counts, counts.values(), cycle(COLOURS[:-1]), strict=False):
        colour = FAINT if name == grey else colour
        marks.append(Bars(place - 0.4, place + 0.4, below, below + row, colour, name))
        below = below + row
    across = Axis(-0.7, max(len(periods), FEW_MONTHS) - 0.3, ticks=some_ticks(periods))
    return Picture(title, marks, across, memory_axis(below), rows, "" if marks else "nothing is dated")


def some_ticks(names: Sequence[str]) -> list[tuple[float, str]]:
    """The places of at most nine names, which stand beside each other."""
    return [(float(place), names[place]) for place in range(0, len(names), -(-len(names) // _MOST_TICKS) or 1)]


def memory_axis(heights: Any, below: Any = ()) -> Axis:
    """Up to the highest, and down to the deepest, which counts below 0."""
    least, most = -1.05 * float(np.max(below, initial=0)), 1.05 * max(float(np.max(heights, initial=0)), 1.0)
    return Axis(least, most, "memories", [tick for tick in round_ticks(least, most) if tick[0].is_integer()])


def _months(months: Collection[str]) -> list[str]:
    """All months from the first to the last; only those with memories where a wrong date lies far off."""
    ends = [12 * int(month[:-3]) + int(month[-2:]) - 1 for month in (min(months), max(months))] if months else [0, -1]
    if ends[1] - ends[0] > _MANY_MONTHS:
        return sorted(set(months))
    return [f"{number // 12:04d}-{number % 12 + 1:02d}" for number in range(ends[0], ends[1] + 1)]


def decay(corpus: Any, decay: Decay | None = None, as_of: AsOf = None) -> Picture:
    """The decay factor of each memory of a corpus at its age.

    Dots are memories. Lines show every form of decay for the same days: after them the Memory v2 document's formula
    (e-folding) leaves 0.368, the usual half-life 0.5. The rug below has a stroke for each dated memory.

    Parameters
    ----------
    corpus : Corpus, pyarrow.Table or pandas.DataFrame
    decay : Decay, optional
        ``Decay()`` unless given.
    as_of : str, date, datetime or None
        The day; None is now.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> aged = mk.from_table({"text": ["a", "b"], "created_at": ["2026-02-01", "2025-02-01"]})
    >>> print(mk.plot.decay(aged, as_of="2026-03-01"))
    1 of 2 dated memories keep more than half of their weight
    0.0 to 0.1  ████████████████████ 1
    0.6 to 0.7  ████████████████████ 1
    """
    return ages((decay or Decay()).transform(corpus, as_of), decay or Decay())


def ages(table: pa.Table, decay: Decay, most: int | None = None) -> Picture:
    """What `decay` shows of a table of `Decay`; of more than `most` memories an even sample by age."""
    table = table.select(["age_days", "factor"]).filter(pc.is_valid(table["age_days"]))
    age, factor = table["age_days"].to_numpy(), table["factor"].to_numpy()
    farthest = max(float(age.max(initial=0.0)), 2 * decay.decay_days)
    days, marks = np.linspace(0.0, farthest, 200), list[Mark]()
    for form, (style, colour) in _STYLES.items():
        factors_left = factors(np.append(days, decay.decay_days), form, decay.decay_days, decay.decay_floor)
        label = f"{form}: {factors_left[-1]:.3g} left after {decay.decay_days:g} days"
        marks.append(Line(days, factors_left[:-1], colour, label, style, 2 if form == decay.decay else 1.2))
    places = np.linspace(0, len(age) - 1, min(most or len(age), len(age))).astype(int)
    sampled = np.argsort(age, kind="stable")[np.unique(places)]
    part = f"a memory; {len(sampled):,} of {len(age):,} drawn" if len(sampled) < len(age) else "a memory"
    marks.append(Dots(age[sampled], factor[sampled], COLOURS[0], part, size=14, alpha=0.5))
    marks.append(Dots(age[sampled], np.full(len(sampled), -0.05), "#777777", shape="|", size=40, alpha=0.5))
    tenths = np.bincount(np.minimum((factor * 10).astype(int), 9), minlength=10).tolist()
    rows = [(f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}", n) for tenth, n in enumerate(tenths) if n]
    n_kept = f"{int((factor > 0.5).sum()):,} of {count_of(len(age), 'dated memory')}"
    title = f"{n_kept} keep more than half of their weight"
    across = Axis(-0.02 * farthest, 1.03 * farthest, "age, days")
    return Picture(title, marks, across, Axis(-0.08, 1.02, "factor"), rows)


def counts(rows: Sequence[tuple[str, int]], title: str, of: str = "rows") -> Picture:
    """A bar for each name and its count, in this order.

    Parameters
    ----------
    rows : sequence of (str, int)
    title : str
    of : str
        What is counted.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> print(mk.plot.counts([("kept", 4), ("limit", 2)], "6 rows"))
    6 rows
    kept   ████████████████████ 4
    limit  ██████████ 2
    """
    values, place = np.array([count for _, count in rows], float), np.arange(len(rows))
    numbers = [Text(count, number, f"{count:,}") for number, (_, count) in enumerate(rows)]
    most = 1.12 * max(values.max(initial=0), 1 / 1.12)  # room for the numbers
    whole = [tick for tick in round_ticks(0, 0.97 * most) if tick[0].is_integer()]  # whose words stay in the picture
    across = Axis(0, most, of, ticks=whole)
    ticks = [(number, name) for number, (name, _) in enumerate(rows)]
    down = Axis(max(len(rows), 4) - 0.5, -0.5, ticks=ticks)  # no thick bars
    return Picture(title, [Bars(0, values, place - 0.4, place + 0.4, COLOURS[0]), *numbers], across, down, rows)


def reasons(table: pa.Table) -> Picture:
    """How many rows a policy keeps, and how many it refuses for which reason.

    Parameters
    ----------
    table : pa.Table
        What a policy's ``transform`` returns.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> print(mk.plot.reasons(pa.table({"keep": [True, True, False], "reason": [None, None, "limit"]})))
    2 of 3 rows kept
    kept   ████████████████████ 2
    limit  ██████████ 1
    """
    if not {"keep", "reason"} <= set(table.column_names):
        raise ParameterError(f"plot.reasons: expected a policy's table. Got columns {table.column_names!s:.200}.")
    words = pc.if_else(table["keep"], "kept", pc.fill_null(table["reason"], "refused"))
    counted = {row["values"]: row["counts"] for row in pc.value_counts(words).to_pylist()}
    rows = sorted(counted.items(), key=lambda row: (row[0] != "kept", -row[1], row[0]))
    return counts(rows, f"{counted.get('kept', 0):,} of {count_of(table.num_rows, 'row')} kept")


def budgets(context: Context) -> Picture:
    """How full each block of a prompt is, in characters, beside its limit.

    Parameters
    ----------
    context : Context
        From `ContextBuilder.build`.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"text": ["Любит чай"], "kind": ["profile"], "importance": ["high"]})
    >>> built = mk.ContextBuilder(mk.Retriever(encoder=None)).build(corpus, None, "кофе", as_of="2026-03-01")
    >>> print(mk.plot.budgets(built))
    characters of each block, and its limit
    PROFILE MEMORY                 11 of 800
    WORKING MEMORY                 0 of 500
    RELEVANT MEMORY FOR THIS TURN  0 of 2,000
    """
    kept = [(line.block, line.line) for line in context.lines if line.reason is None]
    used = {block: len("\n".join(line for line_block, line in kept if line_block == block)) for block in context.limits}
    limits, place = list(context.limits.values()), np.arange(len(used))
    marks = [
        Bars(0, limits, place - 0.4, place + 0.4, FAINTER, "limit"),
        Bars(0, list(used.values()), place - 0.4, place + 0.4, COLOURS[0], "used"),
    ]
    across = Axis(0, 1.05 * max([*limits, *used.values(), 1]), "characters")
    down = Axis(len(used) - 0.5, -0.5, ticks=list(enumerate(used)))
    rows = [(block, f"{n:,} of {context.limits[block]:,}") for block, n in used.items()]
    return Picture("characters of each block, and its limit", marks, across, down, rows)


def day_axis(days: Floats, right: float = 0.0) -> Axis:
    """From the first to the last of these days since 1970, with at most six dates; `right` is a share of free room."""
    if not len(days):
        return Axis(0, 1, ticks=[])
    first, last = float(days.min()), float(days.max())
    wide = max(last - first, 1.0)
    places = sorted({int(day) for day in np.linspace(first, last, 6).tolist()})
    ticks = [(float(day), f"{date(1970, 1, 1) + timedelta(days=day)}") for day in places]
    return Axis(first - 0.05 * wide, last + (0.05 + right) * wide, ticks=ticks)
