"""Pictures of a corpus: topics over time, what it says on a theme, and the pages around a page, in rings of links."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from memkit.errors import ParameterError, count_of, did_you_mean
from memkit.extend.showing import (
    COLOURS,
    DAY_SECONDS,
    Axis,
    Dots,
    Line,
    Mark,
    Picture,
    Text,
    check_corpus,
    day_axis,
    rows_of,
    short,
    stack,
)
from memkit.extend.writing import check_choice
from memkit.text.sentences import plain_line

if TYPE_CHECKING:
    from memkit import Corpus


# As many colours as can be told apart, with one for the rest.
_TOPICS = 7
# Twenty years: a wrong date far off would make a picture of empty periods.
_MOST_DAYS = 7300
_NAMED = 3
# More names would cover each other.
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
        # 32 days after the first of a month lie in the next one.
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


_EDGES = """
    select distinct sources.path as source, targets.path as target
    from relations as links
    join memories as sources on sources.memory_id = links.from_id
    join memories as targets on targets.memory_id = links.to_id
    where sources.path <> targets.path order by all
"""
_TITLES = "select path, min_by(title, line_start) as title from memories where path is not null group by path"
_DRAWN = 10_000
"""The most links that are drawn: more are one grey area, and take seconds."""
_MOST_NAMED = 24
"""The most pages whose names stand in the picture; more cover each other."""


def links(corpus: Corpus, page: str | None = None, *, steps: int = 2) -> Picture:
    """The pages around one page, by links in either direction; the nearest ring is linked with it directly.

    Parameters
    ----------
    corpus : Corpus
        Its table ``relations`` has the links; those of facts and graphs count too.
    page : str, optional
        A path; None: the page with most links.
    steps : int
        How many links away a page may be. ``corpus.named("links_hubs")`` has all pages as a table.

    Returns
    -------
    Picture

    Raises
    ------
    ParameterError
        If the corpus has no such page, or `steps` is below 1.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> pages = {"tea.md": "---\\ntitle: Чай\\n---\\n[[honey]]", "honey.md": "---\\ntitle: Мёд\\n---\\n[[tea]]"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = mk.read(mk.testing.write_files(folder, pages))
    >>> print(mk.plot.links(corpus, "tea.md"))
    Чай (tea.md): 1 page within 1 link
    Мёд  1 link away
    """
    check_corpus("plot.links", corpus)
    if steps < 1:
        raise ParameterError(f"plot.links: 'steps' must be 1 or more. Got {steps}.")
    tables = {name: corpus.tables[name] for name in ("relations", "memories")}
    edges = list(zip(*rows_of(_EDGES, **tables).to_pydict().values(), strict=True))
    titles = dict(zip(*rows_of(_TITLES, memories=tables["memories"]).to_pydict().values(), strict=True))
    near: dict[str, list[str]] = {}
    for source, target in edges:
        near.setdefault(source, []).append(target)
        near.setdefault(target, []).append(source)
    if page is not None and page not in titles:
        raise ParameterError(f"plot.links: no page {page!r}.{did_you_mean(page, titles)}")
    if page is None:
        page = min(near, key=lambda path: (-len(set(near[path])), path), default=None)
    if page is None:
        return Picture("no links", [], Axis(-1, 1, ticks=()), Axis(-1, 1, ticks=()), empty="no page links to another")
    ring, above = _rings(near, page, steps)
    return _picture(page, titles, ring, _places(ring, above, page), edges)


def _rings(near: dict[str, list[str]], page: str, steps: int) -> tuple[dict[str, int], dict[str, str]]:
    """How many links away each page is, and through which one it was reached first."""
    ring, above, waiting = {page: 0}, dict[str, str](), deque([page])
    while waiting:
        path = waiting.popleft()
        for other in sorted(set(near.get(path, ()))) if ring[path] < steps else ():
            if other not in ring:
                ring[other], above[other] = ring[path] + 1, path
                waiting.append(other)
    return ring, above


def _places(ring: dict[str, int], above: dict[str, str], page: str) -> dict[str, tuple[float, float]]:
    """A point for each page: its ring, and the middle of the sector that those reached through it take."""
    weight = dict.fromkeys(ring, 1)
    below: dict[str, list[str]] = {}
    for path in reversed(ring):
        if path != page:
            weight[above[path]] += weight[path]
            below.setdefault(above[path], []).insert(0, path)
    sector, places = {page: (0.0, 2 * np.pi)}, {page: (0.0, 0.0)}
    for path in ring:
        begin, end = sector[path]
        for other in below.get(path, ()):
            wide = (end - begin) * weight[other] / (weight[path] - 1)
            sector[other] = begin, begin + wide
            angle = begin + wide / 2
            places[other] = ring[other] * np.cos(angle), ring[other] * np.sin(angle)
            begin += wide
    return places


def _picture(
    page: str,
    titles: dict[str, str],
    ring: dict[str, int],
    places: dict[str, tuple[float, float]],
    edges: list[tuple[str, str]],
) -> Picture:
    within = [edge for edge in edges if edge[0] in ring and edge[1] in ring]
    if len(within) > _DRAWN:  # those from ring to ring say more than those within one
        within = sorted(within, key=lambda edge: ring[edge[0]] == ring[edge[1]])[:_DRAWN]
    ends = [(places[source], places[target]) for source, target in within]
    gap = (np.nan, np.nan)
    lines = np.array([point for one, other in ends for point in (one, other, gap)] or [gap])
    marks: list[Mark] = [Line(lines[:, 0], lines[:, 1], "#999999", width=0.6)] if ends else []
    last = max(ring.values())
    for number in range(last + 1):
        points = np.array([places[path] for path in ring if ring[path] == number])
        label = f"{count_of(number, 'link')} away" if number else "the page"
        marks.append(Dots(points[:, 0], points[:, 1], COLOURS[number % len(COLOURS)], label, size=60.0 / (number + 1)))
    names = [path for path in ring if ring[path] <= 1][:_MOST_NAMED]
    marks += [Text(*places[path], short(titles.get(path) or path, 24)) for path in names]
    room = Axis(-last - 0.3, last + 0.9, ticks=())
    others = len(ring) - 1
    title = f"{titles.get(page) or page} ({page}): {count_of(others, 'page')} within {count_of(last or 1, 'link')}"
    rows = [(titles.get(path) or path, f"{count_of(ring[path], 'link')} away") for path in ring if path != page]
    return Picture(title, marks, room, Axis(-last - 0.3, last + 0.3, ticks=()), rows, high=480)
