"""The neighbourhood of a page: which pages it links to and is linked from, in rings around it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from memkit.errors import ParameterError, count_of, did_you_mean
from memkit.extend.showing import COLOURS, Axis, Dots, Line, Mark, Picture, Text, check_corpus, rows_of, short

if TYPE_CHECKING:
    from memkit import Corpus

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
_NAMED = 24
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
    names = [path for path in ring if ring[path] <= 1][:_NAMED]
    marks += [Text(*places[path], short(titles.get(path) or path, 24)) for path in names]
    room = Axis(-last - 0.3, last + 0.9, ticks=())
    others = len(ring) - 1
    title = f"{titles.get(page) or page} ({page}): {count_of(others, 'page')} within {count_of(last or 1, 'link')}"
    rows = [(titles.get(path) or path, f"{count_of(ring[path], 'link')} away") for path in ring if path != page]
    return Picture(title, marks, room, Axis(-last - 0.3, last + 0.3, ticks=()), rows, high=480)
