"""A picture of what each hit's score is made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.axes import axes_for, say_empty, short, with_words
from memkit.display.sheet import titles_of
from memkit.errors import QueryError
from memkit.schemas import Floats
from memkit.search.fitted.arms import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue, orange, green and grey of Okabe and Ito: told apart by every kind of colour vision, and by hatching in print.
_FILLS = ({"color": "#0072B2"}, {"color": "#E69F00", "hatch": "//"}, {"color": "#009E73", "hatch": "xx"})
_STYLE = {arm: {**fill, "label": kind.label} for (arm, kind), fill in zip(KINDS.items(), _FILLS, strict=False)}
_STYLE["lost"] = {"color": "#DDDDDD", "label": "lost to decay", "hatch": ".."}


def contributions(trace: pa.Table) -> pa.Table:
    """What each hit of a trace is made of: memory_id, bm25, vector, lost; bm25 + vector = score.

    Under a fusion that is not a sum, the score is shared out as weight x normalised score.

    Parameters
    ----------
    trace : pa.Table
        From `Retriever.trace`, of one query.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    QueryError
        Where the trace is of several queries or of something else.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["зелёный чай", "кофе"]}))
    >>> contributions(search.trace("чай", as_of="2026-03-01"))["lost"].to_pylist()
    [0.0]
    """
    metadata = trace.schema.metadata or {}
    if b"arms" not in metadata or "disposition" not in trace.column_names:
        raise QueryError("contributions: expected a table from Retriever.trace, with its metadata.")
    if len(ids := pc.unique(trace["query_id"])) > 1:
        raise QueryError(f"contributions: expected the trace of one query. Got {len(ids)}: filter by query_id.")
    hits = trace.filter(pc.equal(trace["disposition"], "returned"))
    weights = json.loads(metadata[b"arms"])
    share = {arm: weights.get(arm, 0.0) * _zeroed(hits[f"{arm}_norm"]) for arm in KINDS}
    total = np.maximum(sum(share.values()), np.finfo(float).tiny)
    score, fused = _zeroed(hits["score"]), _zeroed(hits["fused"])
    parts = {arm: score * part / total for arm, part in share.items()}
    return pa.table({"memory_id": hits["memory_id"], **parts, "lost": fused - score})


def plot_contributions(trace: pa.Table, ax: Axes | None = None, most: int | None = None) -> Axes:
    """Stacked bars, best hit on top: what each arm gave, and what decay took.

    Parameters
    ----------
    trace : pa.Table
        From `Retriever.trace`, of one query.
    ax : matplotlib Axes, optional
        Cleared and drawn on; a new figure (not pyplot's) by default.
    most : int, optional
        How many hits are drawn, the best; all by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    QueryError
        As `contributions`.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["зелёный чай", "чёрный чай"]}))
    >>> ax = plot_contributions(search.trace("чай", as_of="2026-03-01"))
    >>> len(ax.get_yticklabels())
    2
    """
    found = contributions(trace)
    bars = found.slice(0, most)
    some = f"the first {bars.num_rows} of " if bars.num_rows < found.num_rows else ""
    ax = axes_for(ax, f"what the scores of {some}{found.num_rows:,} hits are made of")
    place, left = np.arange(bars.num_rows), np.zeros(bars.num_rows)
    names = [short(name) for name in titles_of(trace, bars["memory_id"].to_pylist())]
    if not names:
        say_empty(ax, "nothing was found")
        return with_words(ax, [])
    for name, style in _STYLE.items():
        width = bars[name].to_numpy()
        ax.barh(place, width, left=left, edgecolor="white", **style)  # type: ignore[arg-type]  # a dict of styles
        left = left + width
    ax.set_yticks(place, names, parse_math=False, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("score")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False, fontsize=8)
    parts = zip(*(bars[name].to_pylist() for name in _STYLE), strict=True)
    heads = [str(style["label"]) for style in _STYLE.values()]
    told = [", ".join(f"{head} {part:.3f}" for head, part in zip(heads, row, strict=True)) for row in parts]
    return with_words(ax, list(zip(names, told, strict=False)))


def _zeroed(column: pa.ChunkedArray) -> Floats:
    values: Floats = pc.fill_null(column, 0.0).to_numpy()
    return values
