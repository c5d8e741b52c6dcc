"""Pictures of a history: how many memories lived, and what came, changed and went."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from memkit.extend.showing import (
    COLOURS,
    DAY_SECONDS,
    FEW_MONTHS,
    Area,
    Axis,
    Bars,
    Mark,
    Picture,
    day_axis,
    memory_axis,
    rows_of,
    some_ticks,
)

if TYPE_CHECKING:
    from memkit.past.history import History

_ALIVE = """
    with changes as (
        select valid_from as moment, coalesce(kind, 'other') as kind, 1 as n from versions where change <> 'removed'
        union all
        select valid_to, coalesce(kind, 'other'), -1 from versions where change <> 'removed' and valid_to is not null)
    select moment, kind, sum(sum(n)) over (partition by kind order by moment) as alive
    from changes group by moment, kind order by moment
"""
_BY_DAY = """
    select strftime(valid_from, '%Y-%m-%d') as day, count(*) filter (where change = 'added') as added,
        count(*) filter (where change not in ('added', 'removed')) as changed,
        count(*) filter (where change = 'removed') as removed
    from versions where not at_start group by day order by day
"""


def alive(history: History) -> Picture:
    """How many memories existed at each moment of a history, by kind.

    Parameters
    ----------
    history : History
        From `history`.

    Returns
    -------
    Picture
        In words it has the last number of each month.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> states = [("2026-01-05", {"a.md": "# Чай", "b.md": "# Кофе"}), ("2026-02-09", {"b.md": None})]
    >>> print(mk.plot.alive(mk.history(mk.testing.write_commits(tempfile.mkdtemp(), states))))
    memories that live, by kind
    2026-01  ████████████████████ 2
    2026-02  ██████████ 1
    """
    rows = rows_of(_ALIVE, versions=history.versions).to_pylist()
    kinds = sorted({row["kind"] for row in rows})
    alive, states = dict.fromkeys(kinds, 0), dict[Any, list[int]]()
    for row in rows:
        alive[row["kind"]] = row["alive"]
        states[row["moment"]] = list(alive.values())
    # Each number holds from its moment to the next one.
    moments = np.repeat([moment.timestamp() / DAY_SECONDS for moment in states], 2)[1:]
    heights = np.repeat(np.array(list(states.values()), float).reshape(len(states), len(kinds)), 2, axis=0)[:-1].T
    below, marks = np.zeros(len(moments)), list[Mark]()
    for kind, colour, row in zip(kinds, cycle(COLOURS), heights, strict=False):
        marks.append(Area(moments, below, below + row, colour, kind))
        below = below + row
    months = {f"{moment:%Y-%m}": int(sum(state)) for moment, state in states.items()}
    title, empty = "memories that live, by kind", "" if marks else "nothing lived"
    return Picture(title, marks, day_axis(moments), memory_axis(below), list(months.items()), empty)


def changes(history: History) -> Picture:
    """How many memories were added, changed and removed on each day of a history, after its first commit.

    Parameters
    ----------
    history : History
        From `history`.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> states = [("2026-01-05", {"a.md": "# Чай", "b.md": "# Кофе"}), ("2026-02-09", {"b.md": None, "c.md": "# Лес"})]
    >>> print(mk.plot.changes(mk.history(mk.testing.write_commits(tempfile.mkdtemp(), states))))
    memories that came, changed and went, by day
    2026-02-09  +1, 0 changed, −1
    """
    rows = rows_of(_BY_DAY, versions=history.versions).to_pylist()
    place, added, changed, removed = (
        np.arange(len(rows)),
        *(np.array([row[name] for row in rows], float) for name in ("added", "changed", "removed")),
    )
    marks = [
        Bars(place - 0.4, place + 0.4, 0, added, COLOURS[2], "added"),
        Bars(place - 0.4, place + 0.4, added, added + changed, COLOURS[0], "changed"),
        Bars(place - 0.4, place + 0.4, -removed, 0, COLOURS[5], "removed"),
    ]
    across = Axis(-0.7, max(len(rows), FEW_MONTHS) - 0.3, ticks=some_ticks([row["day"] for row in rows]))
    title = "memories that came, changed and went, by day"
    texts = [(row["day"], f"+{row['added']}, {row['changed']} changed, −{row['removed']}") for row in rows]
    empty = "" if rows else "nothing changed"
    return Picture(title, marks if rows else [], across, memory_axis(added + changed, removed), texts, empty)
