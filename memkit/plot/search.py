"""Pictures of a search: the fate of candidates, the parts of scores, ranks by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment
from memkit.display.sheet import titles_of
from memkit.errors import ParameterError, count_of
from memkit.plot.marks import COLOURS, FAINTER, HIGH, Axis, Bars, Dots, Line, Mark, Picture, short
from memkit.plot.memories import counts, some_ticks
from memkit.schemas import tuples_of
from memkit.search.explain import contributions as parts_of
from memkit.search.settings import STEPS
from memkit.search.steps.recall import ARMS

if TYPE_CHECKING:
    from memkit.search.retriever import Retriever

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
