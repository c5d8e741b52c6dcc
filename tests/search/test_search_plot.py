from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from matplotlib import _pylab_helpers
from matplotlib.figure import Figure

from memkit import plot
from memkit.errors import QueryError
from memkit.search.show import contributions

ROWS = [{"text": "старое", "created_at": datetime(2025, 12, 31, tzinfo=UTC)}, "$new_note$", "x" * 5]
DAY = "2026-03-01"


@pytest.mark.quick
@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_parts_add_up_to_the_score_and_the_loss_to_the_fused_score(retriever_over: Any, fusion: str) -> None:
    search = retriever_over(
        ROWS,
        bm25={"q": {0: 4.0, 1: 2.0}},
        vector={"q": {1: 0.9, 2: 0.3}},
        fusion=fusion,
        normalize="max",
        decay_kinds="*",
    )
    trace = search.trace("q", as_of=DAY)
    parts = contributions(trace)
    np.testing.assert_allclose(parts["bm25"].to_numpy() + parts["vector"].to_numpy(), trace["score"].to_numpy())
    np.testing.assert_allclose(parts["lost"].to_numpy(), trace["fused"].to_numpy() - trace["score"].to_numpy())
    assert parts["memory_id"].to_pylist() == trace["memory_id"].to_pylist()


@pytest.mark.quick
def test_a_weighted_sum_is_shown_as_its_terms(retriever_over: Any) -> None:
    search = retriever_over(
        ROWS[1:],
        bm25={"q": {0: 4.0, 1: 2.0}},
        vector={"q": {1: 0.9}},
        vector_weight=0.7,
        bm25_weight=0.3,
        normalize="max",
    )
    parts = contributions(search.trace("q", as_of=DAY)).to_pydict()
    assert parts["bm25"] == pytest.approx([0.3 * 0.5, 0.3])
    assert parts["vector"] == pytest.approx([0.7, 0.0])


@pytest.mark.quick
def test_the_picture_has_a_bar_a_hit_and_part_and_reuses_its_axes(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25={"q": {0: 4.0, 1: 2.0}}, encoder=None)
    trace = search.trace("q", as_of=DAY)
    ax = Figure().subplots()
    for _ in range(2):
        assert plot.contributions(trace).draw(ax) is ax
        assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(sum(trace["fused"].to_pylist()))
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "words",
            "meaning",
            "letters",
            "lost to decay",
        ]
    ax.figure.canvas.draw()


def test_without_axes_it_makes_a_figure_that_pyplot_does_not_know(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25={"q": {0: 4.0}}, encoder=None)
    before = len(_pylab_helpers.Gcf.figs)
    plot.contributions(search.trace("q", as_of=DAY)).draw().figure.canvas.draw()
    assert len(_pylab_helpers.Gcf.figs) == before


def test_a_trace_without_hits_is_an_empty_picture(retriever_over: Any) -> None:
    search = retriever_over(ROWS, encoder=None)
    assert len(plot.contributions(search.trace("q", as_of=DAY)).marks) == 0


def test_several_queries_and_other_tables_are_refused(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25={"q": {0: 4.0}, "r": {1: 1.0}}, encoder=None)
    with pytest.raises(QueryError, match=r"the trace of one query\. Got 2"):
        contributions(search.trace(["q", "r"], as_of=DAY))
    with pytest.raises(QueryError, match=r"from Retriever\.trace"):
        contributions(search.search("q", as_of=DAY))
