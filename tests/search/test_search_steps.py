"""The declared steps: what they declare is what a search has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.search.ask import STEPS, QuerySettings
from memkit.search.steps.recall import ARMS

DAY = "2026-03-01"
PACKAGE = Path(mk.__file__).parent


@pytest.mark.quick
def test_each_disposition_has_one_step_that_says_why() -> None:
    said = [word for step in STEPS for word in step.drops]
    assert sorted(said) == sorted(STEPS.drops) == sorted(set(STEPS.dispositions) - {"returned"})


@pytest.mark.quick
def test_what_turns_a_step_off_is_a_value_of_a_parameter() -> None:
    for step in STEPS:
        QuerySettings(**step.off).check_params()


@pytest.mark.quick
def test_a_trace_has_the_columns_of_the_steps_in_their_order() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай", "кофе"]}))
    names = search.trace("чай", as_of=DAY).column_names
    columns = [name for step in STEPS for name in step.columns]
    assert names[names.index(columns[0]) :] == [*columns, "score", "rank", "disposition"]


def test_advice_tries_each_step_that_can_be_turned_off() -> None:
    rows = {
        "memory_id": ["a", "b"],
        "text": ["Чай зелёный у окна", "Чай чёрный на полке в шкафу"],
        "kind": ["archive", "archive"],
        "created_at": ["2026-02-28", "2025-06-01"],
    }
    search = mk.Retriever(encoder=None, gram_weight=0.0, min_score=0.2).fit(mk.from_table(rows))
    why = mk.explain(search, "чай", "b", as_of=DAY)
    assert "because of decay" in why
    assert why.endswith("It would be returned with decay='none' or min_score=0.")


def test_a_step_that_is_off_is_not_asked_for_its_key_nor_for_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for step in STEPS.resting:
        for way in ("key", "part", "note"):
            monkeypatch.setattr(type(step), way, lambda *_, name=step.name, way=way: asked.append((name, way)))
    off = {name: value for step in STEPS.resting for name, value in step.off.items()}
    search = mk.Retriever(encoder=None, **off).fit(mk.from_table({"memory_id": ["a"], "text": ["чай"]}))
    assert search.search("чай", as_of=DAY).num_rows == 1
    assert mk.explain(search, "чай", "a", as_of=DAY).startswith("'a' is hit 1")
    assert {step.name for step in STEPS.resting} >= {"rerank", "prefer", "near", "mmr"}
    assert asked == []


HOMONYMS = {
    ("unit", "evaluation"): "what an interval resamples: users or queries",
    ("duplicate", "evaluation"): "how one memory repeats another, in labels and audits",
    ("status", "evaluation"): "the column of memories that the parameter obeys",
    ("superseded", "evaluation/findability.py"): "a word of that column",
    ("status", "search/fitted/chunks.py"): "the column",
    ("deprecated", "search/fitted/chunks.py"): "a word of that column",
    ("pool", "evaluation/result.py"): "the name of a picture",
    ("fold", "evaluation/statistics.py"): "a part of the labels that a choice is held out from",
    ("prefer", "evaluation/scores.py"): "joblib's threads or processes",
}
"""Words that are a step's, and mean something else there."""


def test_what_a_step_declares_is_named_where_the_step_is() -> None:
    assert sum(path.read_text("utf-8").count("steps.prefer") for path in PACKAGE.rglob("*.py")) == 1  # one line is all
    of_arms = {f"{arm}{end}" for arm in ARMS for end in ("_rank", "_norm")}  # an arm's own name is the index's, too
    declared = {*QuerySettings.params(), *STEPS.columns, *STEPS.drops} | of_arms
    named = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for room in ("search", "scale", "evaluation")
        for path in (PACKAGE / room).rglob("*.py")
        if path.parent.name != "steps"
        for name in named_in(ast.parse(path.read_text(encoding="utf-8"))) & declared
    }
    known = {
        (path, name) for path, name in named for word, place in HOMONYMS if word == name and path.startswith(place)
    }
    assert sorted(named - known) == []
    assert {word for word, _ in HOMONYMS} == {name for _, name in known}


WITHIN_TEXT = re.compile(r"\w+_\w+|(?<=')\w+(?=')|\w+(?==)")
"""What can only be a name in a text for people; other words may be prose."""


def named_in(tree: ast.Module) -> set[str]:
    """Attributes, keywords, and names in texts but docstrings; ``unit="seconds"`` of a parameter is what it counts."""
    left_out = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if getattr(call.func, "id", "") in ("param", "check_value", "_fitted"):
            left_out |= {*call.keywords}
    words: set[object] = set()
    for node in {*ast.walk(tree)} - left_out:
        word = getattr(node, "attr", None) or getattr(node, "arg", None) or getattr(node, "value", None)
        words |= {word, *WITHIN_TEXT.findall(word)} if isinstance(word, str) else set()
    return words


class Linked(mk.extend.Factor):
    """Memories with tags rank a little higher."""

    name = "tagged"
    params: ClassVar[dict[str, Any]] = {
        "tag_weight": mk.extend.Param(0.0, kind="float", low=0, high=1, doc="What each tag adds.")
    }
    columns: ClassVar[dict[str, float]] = {"tagged": 1.0}
    shown = "tagged"
    off: ClassVar[dict[str, Any]] = {"tag_weight": 0.0}

    def key(self, settings: Any, weights: Any, arms: Any) -> float | None:
        return float(settings.tag_weight) or None

    def gather(self, pooled: Any, keys: Any) -> dict[Any, Any]:
        n_tags = pc.fill_null(pc.list_value_length(pooled.index.memories["tags"]), 0).to_numpy()
        return {"n tags": n_tags[pooled.memory]}

    def factors(self, state: Any, keys: Any) -> Any:
        return 1 + state["n tags"][:, None] * np.array(keys)

    def part(self, look: Any) -> str:
        return f"times {look.row['tagged']:.2f} for its tags"


@pytest.fixture
def tagged() -> Iterator[mk.Retriever]:
    old = mk.Retriever(encoder=None)
    mk.extend.register(Linked())
    rows = {"memory_id": ["a", "b"], "text": ["чай у окна", "чай"], "tags": [["x", "y"], []]}
    yield old.fit(mk.from_table(rows))
    mk.extend.unregister("tagged")


def test_a_step_of_ones_own_is_in_trace_explain_sweep_panel_and_help(tagged: mk.Retriever) -> None:
    plain, lifted = (
        search.trace("чай", as_of=DAY).to_pylist() for search in (tagged, tagged.with_params(tag_weight=0.5))
    )
    score = {row["memory_id"]: row["score"] for row in plain}
    assert [row["tagged"] for row in plain] == [1.0, 1.0]
    assert {row["memory_id"]: (row["tagged"], row["score"]) for row in lifted} == {
        "a": (2.0, pytest.approx(2 * score["a"])),
        "b": (1.0, pytest.approx(score["b"])),
    }
    search = tagged.with_params(tag_weight=0.5)
    assert "times 2.00 for its tags" in mk.explain(search, "чай", "a", as_of=DAY)
    queries, qrels = {"query_id": ["q"], "text": ["чай"]}, {"query_id": ["q"], "memory_id": ["a"], "relevance": [1]}
    swept = mk.sweep(tagged, queries, qrels, {"tag_weight": [0.0, 0.25, 1.0]}, "mrr", as_of=DAY)
    each = [
        mk.evaluate(tagged.with_params(tag_weight=w), queries, qrels, "mrr", as_of=DAY).table["value"][0].as_py()
        for w in (0, 1)
    ]
    assert swept.table["mrr"].to_pylist()[::2] == each
    assert "tag_weight" in mk.panels.search(tagged, "чай", as_of=DAY).params
    assert "What each tag adds." in str(mk.Retriever.__doc__)


def test_a_step_that_is_forgotten_is_nowhere(tagged: mk.Retriever) -> None:
    mk.extend.unregister(Linked())
    assert "tagged" not in tagged.search("чай").column_names
    assert "tag_weight" not in mk.Retriever.params()
    with pytest.raises(mk.errors.ParameterError, match="no parameter 'tag_weight'"):
        mk.Retriever(tag_weight=1.0)


def test_a_step_cannot_take_what_another_one_has() -> None:
    class Twice(Linked):
        columns: ClassVar[dict[str, float]] = {"lift": 0.0}

    with pytest.raises(mk.errors.ParameterError, match="a column of its own"):
        mk.extend.register(Twice())


class Asked(mk.extend.Step):
    """Somebody else says by how much more a candidate counts."""

    name = "asked"
    after = "rerank"
    params: ClassVar[dict[str, Any]] = {"ask_weight": mk.extend.Param(0.0, kind="float", low=0, doc="What it adds.")}

    def key(self, settings: Any, weights: Any, arms: Any) -> float | None:
        return float(settings.ask_weight) or None

    def wants(self, state: Any, keys: Any) -> dict[str, Any]:
        return {"them": np.ones(len(state.shortlist), bool)}

    def ask(self, pooled: Any, keys: Any, whom: str, rows: Any) -> Any:
        return pooled.memory[rows].astype(float)  # the second memory counts more

    def apply(self, state: Any, keys: Any) -> None:
        state.score *= 1 + state[self.name, "them"][:, None] * np.array(keys)


def test_two_steps_that_ask_are_told_in_turn_by_a_search_and_by_a_sweep() -> None:
    mk.extend.register(Asked())
    try:
        rows = {"memory_id": ["a", "b"], "text": ["чай у окна", "чай у моря и ещё слова"]}
        backwards = mk.Retriever(encoder=None, rerank=lambda query, texts: [float(len(text)) for text in texts])
        search = backwards.fit(mk.from_table(rows))
        queries, qrels = {"query_id": ["q"], "text": ["чай"]}, {"query_id": ["q"], "memory_id": ["b"], "relevance": [1]}
        weights = [0.0, 9.0]
        grid = {"ask_weight": weights, "rerank_weight": [0.0, 1.0]}
        swept = mk.sweep(search, queries, qrels, grid, "mrr", as_of=DAY).to_pandas()
        for row in swept.itertuples():
            one = search.with_params(ask_weight=row.ask_weight, rerank_weight=row.rerank_weight)
            assert one.search("чай", as_of=DAY)["memory_id"].to_pylist().index("b") + 1 == round(1 / row.mrr)
        assert swept["mrr"].nunique() == 2
    finally:
        mk.extend.unregister("asked")


class Short(mk.extend.Step):
    """Memories with fewer characters are no hits."""

    name = "short"
    params: ClassVar[dict[str, Any]] = {"least_chars": mk.extend.Param(0, kind="int", low=0, doc="Shorter is no hit.")}
    drops: ClassVar[dict[str, Any]] = {"too_short": lambda look: "it is short"}
    off: ClassVar[dict[str, Any]] = {"least_chars": 0}

    def key(self, settings: Any, weights: Any, arms: Any) -> int | None:
        return settings.least_chars or None

    def apply(self, state: Any, keys: Any) -> None:
        state.drop(np.array([3, 10, 11, 18])[state.shortlist.memory, None] < np.array(keys), "too_short")


@pytest.mark.parametrize("after", ["", "fuse", "near", "mmr"])
def test_what_a_step_of_ones_own_drops_is_no_hit_of_a_search_nor_of_a_sweep(after: str) -> None:
    mk.extend.register(type("Late", (Short,), {"after": after})())
    try:
        said = {"memory_id": [*"abcd"], "text": ["чай", "чай у окна", "чай у окна!", "зелёный чай у окна"]}
        search = mk.Retriever(encoder=None).fit(mk.from_table(said))
        why = mk.explain(search.with_params(least_chars=10), "чай", "a", as_of=DAY)
        assert why.endswith(", it is short. It would be returned with least_chars=0.")
        queries = {"query_id": [*"0123"], "text": ["чай"] * 4}
        qrels = {"query_id": [*"0123"], "memory_id": [*"abcd"], "relevance": [1] * 4}
        grid = {"least_chars": [0, 10, 11], "mmr_lambda": [0.4, 1.0], "min_score": [0.0, 0.2], "fold": ["near", "none"]}
        for row in mk.sweep(search, queries, qrels, grid, "mrr", as_of=DAY).table.to_pylist():
            one = search.with_params(**{name: row[name] for name in grid})
            assert mk.evaluate(one, queries, qrels, "mrr", as_of=DAY).table["value"][0].as_py() == row["mrr"]
    finally:
        mk.extend.unregister("short")
