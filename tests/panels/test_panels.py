"""Panels without a browser: what is set, what follows, and that the code on the screen gives its table."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import html
import io
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import memkit as mk
from memkit.base.params import estimator, param
from memkit.evaluation.statistics import Units, detectable_effect_for
from memkit.panels.page import EXAMPLES, control, parsed, written
from memkit.panels.panel import Panel, QueryValues, Session, State
from memkit.plot.marks import Dots
from memkit.plot.measured import axis_values
from memkit.policy.base import VERDICT, Policy, needed
from memkit.search.ask import QuerySettings
from memkit.tables.statement import run as run_

DAY = "2026-03-01"
ATTACK = "<script>document.title='ran'</script><img src=x onerror=alert(1)>"
TEXTS = [
    "Пул соединений вырос до десяти.",
    "Пул соединений вырос до двадцати.",
    "The connection pool grew to ten.",
    "Каждое утро пьёт зелёный чай без сахара.",
    "Деплой в пятницу запрещён.",
    f"Чай {ATTACK}",
    "password: hunter2hunter2 от пула",
    "Аренда пула стоит 1200.",
]


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table(
        {
            "memory_id": list("abcdefgh"),
            "text": TEXTS,
            "kind": ["profile", "working", "archive", "profile", "working", "archive", "working", "archive"],
            "importance": ["high", "normal", "normal", "high", "low", "normal", "normal", "normal"],
            "user_id": ["u1", "u1", "u2", "u1", None, ATTACK, "u2", "u1"],
            "created_at": [f"2026-0{month}-01" if month else None for month in (1, 2, 0, 1, 2, 1, 2, 1)],
        }
    )


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(corpus)


@pytest.fixture(scope="module")
def dedup(corpus: mk.Corpus) -> mk.Deduplicator:
    return mk.Deduplicator(encoder=None, lexical_floor=0.3).fit(corpus)


@pytest.fixture(scope="module")
def labels() -> tuple[pa.Table, pa.Table]:
    texts = ["пул", "чай", "деплой", "connection pool", "аренда", "сахар", "пятница"]
    ids = [f"q{number}" for number in range(len(texts))]
    queries = pa.table({"query_id": ids, "text": texts})
    qrels = pa.table({"query_id": ids, "memory_id": list("adechde"), "relevance": [1] * len(ids)})
    return queries, qrels


@pytest.fixture(scope="module")
def swept(search: mk.Retriever, labels: Any) -> Any:
    return mk.sweep(search, *labels, {"vector_weight": [0, 0.5], "min_score": [0, 0.2]}, as_of=DAY)


@pytest.fixture
def panels(
    corpus: mk.Corpus, search: mk.Retriever, dedup: mk.Deduplicator, swept: Any, labels: Any, made_when_asked: Any
) -> Mapping[str, Panel]:
    return made_when_asked(
        {
            "search": lambda: mk.panels.search(search, "пул", as_of=DAY),
            "decay": lambda: mk.panels.decay(search, as_of=DAY),
            "dedup": lambda: mk.panels.dedup(dedup),
            "policy": lambda: mk.panels.policy(corpus, "admission", as_of=DAY),
            "quota": lambda: mk.panels.policy(corpus, "quota", as_of=DAY),
            "context": lambda: mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message="пул", as_of=DAY),
            "surface": lambda: mk.panels.surface(swept),
            "judge": lambda: mk.panels.judge(search, labels[0], as_of=DAY),
            "table": lambda: mk.panels.table(corpus),
            "map": lambda: mk.panels.map(search, as_of=DAY),
        }
    )


NAMES = ["search", "decay", "dedup", "policy", "quota", "context", "surface", "judge", "table", "map"]


def run(panel: Panel, **names: Any) -> pa.Table:
    """The code of a panel, where nothing else has a name."""
    result: pa.Table = eval(panel.code, {"mk": mk, **names})  # noqa: S307  # memkit's own
    return result


POLICIES = ("expiry", "admission", "quota", "classifier")


@settings(max_examples=30)
@given(st.data())
def test_the_code_gives_the_table_on_the_screen(
    corpus: mk.Corpus, search: mk.Retriever, dedup: mk.Deduplicator, swept: Any, data: st.DataObject
) -> None:
    names = {"corpus": corpus, "search": search, "dedup": dedup, "swept": swept}
    makers: list[Callable[[], Panel]] = [
        lambda: mk.panels.search(search, "пул", as_of=DAY),
        lambda: mk.panels.decay(search, as_of=DAY),
        lambda: mk.panels.dedup(dedup),
        *(
            partial(mk.panels.policy, corpus, name, as_of=DAY)
            for name in ("expiry", "admission", "quota", "classifier")
        ),
        lambda: mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message="пул", as_of=DAY),
        lambda: mk.panels.surface(swept),
        lambda: mk.panels.map(search, projection="pca", as_of=DAY),
    ]
    panel = data.draw(st.sampled_from(makers))()
    panel.session.is_moving = data.draw(st.booleans())
    unset = {"where", "as_of", "memory_id"}
    for name in data.draw(st.lists(st.sampled_from(sorted(panel.controls.keys() - unset)), max_size=4)):
        value = data.draw(_values(panel.controls[name], name, panel.values[name]))
        try:
            panel.set(**{name: value})
        except mk.MemkitError:
            continue
    table = run(panel, **names)
    assert table.equals(panel.result)
    assert table.schema.metadata == panel.result.schema.metadata


@pytest.mark.outside
@pytest.mark.quick
def test_the_code_of_every_panel_runs_with_what_its_caller_gave_under_the_caller_s_names(
    corpus: mk.Corpus, search: mk.Retriever, dedup: mk.Deduplicator, swept: Any, labels: Any
) -> None:
    _, mine, finder, pairs, grid = corpus, corpus, search, dedup, swept
    questions, answers = labels
    rows, builder = pa.table({"n": [3, 1, 2]}), mk.ContextBuilder(retriever=search, profile_chars=90)
    names = {"mine": mine, "finder": finder, "pairs": pairs, "grid": grid, "rows": rows, "builder": builder}
    names |= {"questions": questions, "answers": answers}
    del corpus, search, dedup, swept, labels
    lab = mk.panels.lab(mine, finder, "пул", questions, answers, as_of=DAY)
    made: list[tuple[Panel, dict[str, Any]]] = [
        (mk.panels.search(finder, "пул", as_of=DAY), {"k": 2, "decay": "linear"}),
        (mk.panels.surface(grid), {}),
        (mk.panels.decay(finder, as_of=DAY), {"decay_kinds": "*", "forward": 9}),
        (mk.panels.dedup(pairs), {"lexical_threshold": 0.9}),
        (mk.panels.policy(mine, "quota", as_of=DAY), {"max_facts": 1, "forward": 9}),
        (mk.panels.policy(mine, text="Почему?", as_of=DAY), {"max_chars": 50}),
        (mk.panels.context(mine, builder, message="пул", as_of=DAY), {"profile_chars": 30, "k": 2}),
        (mk.panels.judge(finder, questions, answers, as_of=DAY), {}),
        (mk.panels.judge(finder, questions, {name: answers[name] for name in answers.column_names}, as_of=DAY), {}),
        (mk.panels.table(rows), {"sort": "n", "descending": True}),
        (mk.panels.table(mine), {"filter": "чай"}),
        (mk.panels.map(finder, projection="pca", as_of=DAY), {"group": "profile"}),
        *((lab[name], {}) for name in lab.names if name != "map"),  # whose projection takes longer
    ]
    for panel, values in made:
        panel.set(**values)
        if panel.title == "judge":
            assert panel.result.equals(run(panel, **names))
            panel.press("1")
        result = run(panel, **names)
        assert result.to_pylist() == panel.result.to_pylist(), panel.code
        assert panel.title == "table" or result.schema.equals(panel.result.schema, check_metadata=True)


def test_while_a_panel_is_of_now_its_box_is_empty_and_its_code_has_no_moment(
    corpus: mk.Corpus, search: mk.Retriever
) -> None:
    lab = mk.panels.lab(corpus, search, "пул")
    for name in ("search", "decay", "quota", "context"):
        panel = lab[name] if name in lab.names else mk.panels.policy(corpus, name)
        assert panel.view.values["as_of"] is None
        assert "as_of" not in panel.code
        ids = run(panel, corpus=corpus, search=search)["memory_id"]
        assert ids.equals(panel.result["memory_id"])
        assert re.search(r"as_of='\d{4}-\d\d-\d\dT[\d:]{8}\+00:00'", _ahead(panel)) or name in ("search", "context")
        panel.set(as_of=DAY)
        assert f"as_of='{DAY}'" in panel.code
        panel.set(as_of=None)
        assert "as_of" not in panel.code


def _ahead(panel: Panel) -> str:
    """The code a day later, where the panel can be moved ahead."""
    if "forward" not in panel.controls:
        return ""
    panel.set(forward=1)
    code = panel.code
    panel.set(forward=0)
    return code


def _values(declared: Any, name: str, current: Any) -> st.SearchStrategy[Any]:
    if name in ("query", "text"):
        return st.sampled_from(["пул", "чай без сахара", "", ATTACK, "it's \\ 'quoted'\n"])
    if name == "user_id":
        return st.sampled_from([None, "u1", "u'2"])
    if declared.choices and declared.kind == "str":
        return st.sampled_from(declared.choices)
    if declared.kind == "bool":
        return st.booleans()
    if declared.kind == "int":
        return st.integers(int(declared.low or 0), 60)
    if declared.kind == "float":
        low, high = declared.low or 0.0, declared.high or 200.0
        return st.floats(low, high, exclude_min=declared.low_open)
    return st.just(current)


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_each_panel_has_a_table_a_picture_words_and_a_page(
    panels: Mapping[str, Panel], name: str, tmp_path: Path
) -> None:
    panel = panels[name]
    assert isinstance(panel.result, pa.Table)
    assert panel.picture.startswith(b"\x89PNG")
    assert panel.words
    page = panel.export(tmp_path / "panel.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "onerror=" not in page.replace("onerror=alert(1)&gt;", "")
    assert "http" not in page.replace("http-equiv", "")
    assert panel.spec()["title"] == panel.title


@pytest.mark.parametrize("name", NAMES)
def test_what_a_hint_says_can_be_written_into_its_box(panels: Mapping[str, Panel], name: str) -> None:
    panel = panels[name]
    page = panel.view
    for spec in (spec for group in panel.spec()["groups"] for spec in group["controls"]):
        if example := EXAMPLES.get(spec["name"]):
            assert spec["hint"].endswith(example)
            page._on_message(page, {"set": {spec["name"]: example}}, [])
            assert page.error == ""
            assert panel.values[spec["name"]] is not None


@pytest.mark.parametrize("name", ["search", "decay", "dedup", "quota", "context", "table", "map"])
def test_every_declared_parameter_has_a_control(panels: Mapping[str, Panel], name: str) -> None:
    panel = panels[name]
    specs = {spec["name"]: spec for group in panel.spec()["groups"] for spec in group["controls"]}
    assert specs.keys() == panel.controls.keys() - set(panel.idle)
    assert all(spec["label"] and spec["help"] for spec in specs.values())
    for spec in specs.values():
        if spec["kind"] == "number":
            assert spec["low"] < spec["high"]
            assert 0 < spec["step"] <= spec["high"] - spec["low"]


def test_a_step_back_shows_the_forecast_that_was_made_before(
    corpus: mk.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[pa.Table] = []
    forecast = mk.forecast

    def counted(*given: Any) -> pa.Table:
        made.append(forecast(*given) if len(made) < 2 else made[0])
        return made[-1]

    monkeypatch.setattr("memkit.panels.policy_panel.forecast", counted)
    panel = mk.panels.policy(corpus, "quota", as_of=DAY)
    before = panel.words
    panel.set(max_facts=2)
    after = panel.words
    assert after != before
    for step, expected in ((panel.undo, before), (panel.redo, after), (panel.undo, before)):
        step()
        assert panel.words == expected
    assert len(made) == 2
    for limit in (*range(3, 12), 2):
        panel.set(max_facts=limit)
        _ = panel.words
    assert len(made) == 12  # the newest are kept, and one that is gone is made again


def test_each_change_can_be_undone_and_made_again(panels: Mapping[str, Panel]) -> None:
    panel = panels["search"]
    first = panel.result
    panel.set(decay="linear", pool=20)
    second = panel.result
    panel.set(query="чай")
    assert len(panel.history) == 3
    assert panel.undo()
    assert panel.result.equals(second)
    assert panel.undo()
    assert panel.result.equals(first)
    assert not panel.undo()
    assert panel.redo()
    assert panel.params["pool"] == 20
    panel.set(pool=30)
    assert not panel.redo()
    panel.reset()
    assert panel.result.equals(first)
    panel.reset(mk.presets.workspace)
    assert panel.params["normalize"] == "max"


@pytest.mark.parametrize(
    "values",
    [{"pool": 0}, {"poool": 5}, {"decay": "exp"}, {"where": "foo bar"}, {"as_of": "soon"}, {"pool": 7, "decay": "exp"}],
    ids=str,
)
def test_what_is_refused_changes_nothing(panels: Mapping[str, Panel], values: dict[str, Any]) -> None:
    panel = panels["search"]
    state = panel.session.state
    with pytest.raises(mk.MemkitError):
        panel.set(**values)
    assert panel.session.state is state
    page = panel.view
    page._on_message(page, {"set": values}, [])
    known = values.keys() <= panel.controls.keys()
    assert bool(page.error) == known
    assert panel.session.state is state


def test_a_message_of_the_browser_sets_values_and_is_answered(panels: Mapping[str, Panel]) -> None:
    panel = panels["search"]
    page = panel.view
    before = page.n
    page._on_message(
        page, {"set": {"decay_days": 30, "kinds_hidden": "profile", "vector_weight": None, "where": ""}}, []
    )
    assert page.n == before + 1
    assert panel.params["decay_days"] == 30.0
    assert panel.params["kinds_hidden"] == ("profile",)
    assert page.values["kinds_hidden"] == "profile"
    page._on_message(page, {"press": "undo"}, [])
    assert page.n == before + 2
    assert panel.params["decay_days"] == 60.0
    page._on_message(page, {"press": "explode"}, [])
    assert "explode" in page.error
    assert json.dumps(page.values)


def test_the_steps_of_a_moving_slider_are_one_change(panels: Mapping[str, Panel]) -> None:
    panel = panels["decay"]
    page = panel.view
    for days, live in ((61, True), (62, True), (63, True), (63, False), (64, True)):
        page._on_message(page, {"set": {"decay_days": days}, "live": live}, [])
    assert [state["retriever"]["decay_days"] for state in panel.history] == [60.0, 63.0, 64.0]
    page._on_message(page, {"press": "undo"}, [])
    assert panel.params["decay_days"] == 63.0


def test_a_drawing_asks_a_panel_for_its_values_once(
    panels: Mapping[str, Panel], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, asked = panels["search"], list[str]()
    page = panel.view
    values = Panel.values.fget
    monkeypatch.setattr(Panel, "values", property(lambda self: asked.append(self.title) or values(self)))
    page.draw()
    assert len(page.linked) > 30
    assert len(asked) < 10
    page.decay_days = 30.0  # the traits stay checked
    assert (panel.params["decay_days"], page.decay_days) == (30.0, 30.0)
    with pytest.raises(mk.errors.ParameterError):
        page.decay_days = -1.0
    assert page.decay_days == 30.0


def test_all_that_a_drag_sends_is_one_step_to_undo(panels: Mapping[str, Panel]) -> None:
    panel = panels["decay"]
    page = panel.view
    back = ((90, True, "two"), (80, True, "two"))  # where the drag began, which is no step
    steps = ((70, True, "one"), (80, False, "one"), *back, (90, True, "two"), (95, False, None), (99, False, "three"))
    for days, live, drag in steps:  # a slow page sends the last value of a drag only at rest
        page._on_message(page, {"set": {"decay_days": days}, "live": live, "drag": drag}, [])
    panel.set(decay_days=50.0)  # Python's, after a drag
    assert [state["retriever"]["decay_days"] for state in panel.history] == [60.0, 80.0, 90.0, 95.0, 99.0, 50.0]


def test_an_empty_query_and_an_empty_corpus_are_explained(search: mk.Retriever) -> None:
    panel = mk.panels.search(search, as_of=DAY)
    assert panel.result.num_rows == 0
    assert "empty" in panel.body
    nothing = mk.from_table({"text": pa.array([], pa.string())})
    panel = mk.panels.search(mk.Retriever(encoder=None).fit(nothing), "пул", as_of=DAY)
    assert "has no memories" in panel.body
    assert panel.picture.startswith(b"\x89PNG")


def test_a_pinned_setting_is_compared_with_labels(search: mk.Retriever, labels: Any) -> None:
    with pytest.raises(mk.errors.ParameterError, match=r"panels\.search: 'query' must be a str\. Got"):
        mk.panels.search(search, *labels)
    panel = mk.panels.search(search, "пул", *labels, as_of=DAY)
    assert "<b>Pin</b> a setting" in panel.strip_html
    panel.press("pin")
    panel.set(min_score=0.4)
    strip = panel.strip
    assert strip is not None
    other = mk.compare(
        search, search.with_params(min_score=0.4), *labels, as_of=DAY, unjudged="apart", unjudged_hits="irrelevant"
    )
    row = other.table.to_pylist()[0]
    assert strip.verdict.word == row["word"]
    assert strip.verdict.gain == pytest.approx(row["difference"])
    assert (strip.verdict.low, strip.verdict.high) == pytest.approx((row["low"], row["high"]))
    panel.pick("query:q1")
    assert panel.values["query"] == "чай"
    panel.press("unpin")
    assert panel.strip is None


def test_of_what_is_stale_the_settings_with_the_least_come_first(swept: Any) -> None:
    metric = {"ndcg@10": "stale@10"}
    names = [metric.get(name, name) for name in swept.table.column_names]
    values = {"stale@10": swept.matrix()}
    stale = dataclasses.replace(swept, table=swept.table.rename_columns(names), metrics=["stale@10"], values=values)
    means = stale.table["stale@10"].to_pylist()
    assert min(means) < max(means)
    panel = mk.panels.surface(stale)
    picks = [int(pick) for pick in re.findall(r'data-pick="(\d+)"', panel.body)]
    assert [means[setting] for setting in picks] == sorted(means)
    panel.pick(str(picks[0]))
    assert panel.current_index == stale.best


@pytest.mark.parametrize("where", ["text <> '') or (true", "text <> '' -- пояснение"])
def test_no_predicate_shows_a_user_what_is_another_s(search: mk.Retriever, where: str) -> None:
    panel = mk.panels.search(search, "пул чай деплой", user_id="u1", as_of=DAY)
    visible = set(panel.result["memory_id"].to_pylist())
    if ")" in where:
        with pytest.raises(mk.errors.QueryError):
            panel.set(where=where)
    else:
        panel.set(where=where)
    assert set(panel.result["memory_id"].to_pylist()) == visible
    assert visible < set(search.search("пул чай деплой", as_of=DAY)["memory_id"].to_pylist())


def test_judging_of_two_searches_goes_on_from_labels_of_which_none_is_relevant(
    search: mk.Retriever, labels: Any
) -> None:
    none = labels[1].set_column(2, "relevance", pa.array([0] * labels[1].num_rows))
    panel = mk.panels.judge(search, labels[0], none, other=search.with_params(vector_weight=0.0), as_of=DAY)
    assert panel.pair is not None
    panel.press("1")
    assert panel.result.num_rows == none.num_rows + 1


def test_a_labelled_query_is_opened_at_its_own_day(search: mk.Retriever, labels: Any) -> None:
    days = pa.array([f"2026-02-0{number + 1}" for number in range(7)])
    panel = mk.panels.search(search, "пул", labels[0].append_column("as_of", days), labels[1], as_of=DAY)
    panel.pick("query:q1")
    assert (panel.values["query"], panel.values["as_of"][:10]) == ("чай", "2026-02-02")
    panel.set(as_of=datetime.date(2026, 2, 3))
    assert panel.values["as_of"][:10] == "2026-02-03"


def test_more_queries_are_asked_for_where_a_loss_cannot_be_told_and_nowhere_else(
    search: mk.Retriever, labels: Any
) -> None:
    panel = mk.panels.search(search, "пул", *labels, as_of=DAY)
    panel.press("pin")
    assert panel.strip.verdict.word == "practically the same"
    assert "to settle" not in panel.strip_html
    panel.set(min_score=0.3)
    strip = panel.strip
    assert (strip.verdict.word, strip.verdict.gain < 0) == ("cannot tell yet", True)
    units = Units.from_scores(strip.differences, np.arange(len(strip.differences)), per_query=True)
    spread = units.error * len(units) ** 0.5
    needed = strip.verdict.needed.groups
    detectables = [detectable_effect_for(len(units) + needed + by, spread) for by in (-1, 0)]
    assert detectables[0] > abs(strip.verdict.gain) >= detectables[1]
    assert f"Label about {needed:,} more queries to settle it." in panel.strip_html


def test_a_memory_is_explained_and_a_secret_is_not_shown(panels: Mapping[str, Panel], search: mk.Retriever) -> None:
    panel = panels["search"]
    panel.pick("memory:d")
    assert panel.answer.why == mk.explain(search, "пул", "d", as_of=DAY)
    assert "hunter2" not in panel.body + panel.html
    assert "hunter2" not in panels["context"].html


def test_panels_of_a_lab_share_what_is_asked(corpus: mk.Corpus, search: mk.Retriever, labels: Any) -> None:
    lab = mk.panels.lab(corpus, search, "пул", *labels, as_of=DAY)
    assert "judge" in lab.names
    lab["search"].set(query="чай", decay="linear")
    assert lab["context"].values["query"] == "чай"
    assert lab["decay"].params["decay"] == "linear"
    assert lab["map"].result["memory_id"].to_pylist() == sorted(lab["search"].result["memory_id"].to_pylist())
    assert lab["table"].result["memory_id"].to_pylist() == corpus.memories["memory_id"].to_pylist()
    lab["context"].undo()
    assert lab["search"].values["query"] == "пул"
    page = lab.view
    assert [row["names"] for row in page.spec["tabs"]] == [lab.names]
    page._on_message(page, {"tab": "decay"}, [])
    assert (page.panel, page.spec["tabs"][0]["own"]) == (lab["decay"], "decay")
    page._on_message(page, {"set": {"decay_days": 30}}, [])
    assert lab["search"].params["decay_days"] == 30.0


def test_policies_are_one_tab_and_those_with_nothing_to_judge_stand_under_a_fold(
    corpus: mk.Corpus, search: mk.Retriever
) -> None:
    mk.extend.register(Short)
    lab = mk.panels.lab(corpus, search, "пул", as_of=DAY)
    mk.extend.unregister(Short)
    page = lab.view
    page._on_message(page, {"tab": "policies"}, [])
    panels, policies = page.spec["tabs"]
    assert (panels["own"], policies["own"], page.panel) == ("policies", "admission", lab["admission"])
    # no memory of the corpus has a last day, and a table of one's own has no entries of an index
    assert policies["names"] == ["admission", "classifier", "quota", "split_plan"]
    assert policies["others"] == {
        "expiry": f"grace_days acts on 0 of {len(TEXTS)} memories; none has a last day (expires_at)",
        "index_check": "there are no entries here",
    }
    page._on_message(page, {"tab": "index_check"}, [])
    assert (page.panel, lab["policies"]) == (lab["index_check"], lab["index_check"])
    assert "text" not in page.panel.controls  # which only a memory has
    page._on_message(page, {"tab": "no_such"}, [])
    assert page.panel is lab["index_check"]


def test_only_parquet_is_written_to_and_what_is_no_label_is_refused(
    dedup: mk.Deduplicator, search: mk.Retriever, labels: Any, tmp_path: Path
) -> None:
    csv, text = tmp_path / "labels.csv", tmp_path / "labels.txt"
    for make in (lambda path: mk.panels.dedup(dedup, path), lambda path: mk.panels.judge(search, labels[0], path)):
        with pytest.raises(FileNotFoundError):
            make(csv)
    csv.write_text("a_id,b_id,label\nc,d,different\n", "utf-8")
    panel = mk.panels.dedup(dedup, str(csv))
    panel.press("blocked")
    panel.press("same")
    assert panel.labels["label"].to_pylist() == ["different", "duplicate"]
    assert csv.read_text("utf-8").count("\n") == 2
    judged = mk.panels.dedup(dedup, {"a_id": ["a"], "b_id": ["b"], "label": [True]})
    assert judged.labels["label"].to_pylist() == ["duplicate"]
    text.write_text("a b duplicate", "utf-8")
    for bad in ({"a_id": ["a"], "label": [True]}, {"a_id": ["a"], "b_id": ["b"], "label": ["same"]}, text):
        with pytest.raises(ValueError, match="labels"):
            mk.panels.dedup(dedup, bad)


def test_pairs_that_were_judged_are_kept_and_counted(dedup: mk.Deduplicator, tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    panel = mk.panels.dedup(dedup, path)
    panel.press("blocked")
    threshold = dedup.pairs_["similarity"].to_pylist()[0]
    panel.set(lexical_threshold=min(threshold, 1.0))
    first = panel.pair
    assert first is not None
    panel.press("different")
    panel.press("back")
    panel.press("same")
    assert mk.panels.dedup(dedup, path).labels.equals(panel.labels)
    assert panel.labels.to_pylist() == [{"a_id": first["a_id"], "b_id": first["b_id"], "label": "duplicate"}]


def test_a_judge_sees_no_scores_and_can_be_interrupted(search: mk.Retriever, labels: Any, tmp_path: Path) -> None:
    path = tmp_path / "qrels.parquet"
    panel = mk.panels.judge(search, labels[0], path, as_of=DAY)
    hits = search.search(labels[0], as_of=DAY)
    pairs = set(zip(hits["query_id"].to_pylist(), hits["memory_id"].to_pylist(), strict=True))
    assert set(panel._queue) == pairs
    for key in ("2", "0", "skip"):
        panel.press(key)
    again = mk.panels.judge(search, labels[0], path, as_of=DAY)
    assert again.result.num_rows == 2
    assert len(again._queue) == len(pairs) - 2
    assert panel.undo()
    assert panel.result.num_rows == 1
    assert panel.agreement(panel.result) == 1.0


def test_labels_of_two_grades_are_judged_in_two_and_their_scale_is_kept(
    search: mk.Retriever, labels: Any, tmp_path: Path
) -> None:
    queries, qrels = labels
    panel = mk.panels.judge(search, queries, qrels, as_of=DAY)
    assert [label for name, label, _ in panel.actions if name.isdecimal()] == ["Not relevant", "Relevant"]
    assert "Related" not in panel.body + panel.words
    assert "no scale is kept with them" in panel.body
    with pytest.raises(mk.MemkitError):
        panel.press("3")
    before = mk.evaluate(search, queries, qrels, "ndcg@10", as_of=DAY).table["value"][0].as_py()
    while panel.pair is not None:
        answers = set(zip(qrels["query_id"].to_pylist(), qrels["memory_id"].to_pylist(), strict=True))
        panel.press("1" if panel.pair in answers else "0")
    assert panel.status.endswith("decisions in this session")
    after = mk.evaluate(search, queries, panel.result, "ndcg@10", as_of=DAY).table["value"][0].as_py()
    assert after == pytest.approx(before)

    four = mk.panels.judge(search, queries, tmp_path / "qrels.parquet", as_of=DAY)
    for key in ("1", "0"):
        four.press(key)
    for name in ("qrels.parquet", "again.csv", "again.jsonl"):
        path = mk.labels.write(four.result, tmp_path / name)
        again = mk.panels.judge(search, queries, path, as_of=DAY)
        assert (again.grades, "no scale" in again.body) == (4, False), name
        assert again.result.sort_by("memory_id").equals(four.result.sort_by("memory_id"))
    with pytest.raises(mk.errors.ParameterError, match="expected grades=4, by which the labels were judged"):
        mk.panels.judge(search, queries, four.result, grades=2)
    assert mk.panels.judge(search, queries, qrels, grades=4).grades == 4


def test_a_judge_sees_where_a_memory_stands_and_its_date() -> None:
    rows = {"memory_id": ["a"], "text": ["зелёный чай"], "path": ["tea/чай.md"], "created_at": ["2026-01-02"]}
    search = mk.Retriever(encoder=None).fit(mk.from_table(rows))
    panel = mk.panels.judge(search, ["чай"], as_of=DAY)
    assert "tea/чай.md · 2026-01-02" in panel.body
    panel.press("skip")
    assert "1 decision in this session" in panel.status


def test_a_judge_without_labels_asks_for_known_items() -> None:
    texts = {
        "memory_id": ["a", "b"],
        "title": ["Зелёный чай", "Пул соединений"],
        "text": ["Завари и подожди три минуты.", "Их стало десять."],
    }
    corpus = mk.from_table(texts)
    search = mk.Retriever(encoder=None).fit(corpus)
    queries, qrels = mk.known_items(corpus)
    panel = mk.panels.judge(search, as_of="2026-03-01")
    assert (panel.grades, "no scale" in panel.body) == (2, False)
    assert "Related" not in panel.body + panel.words + str(panel.actions)
    panel.press("1")
    made = mk.panels.lab(corpus, search, as_of="2026-03-01")
    for each in (panel, made["judge"]):
        assert "mk.known_items(corpus, 60)" in each.code
        assert run(each, corpus=corpus, search=search).to_pylist() == each.result.to_pylist()
    assert panel.queries["text"].to_pylist() == queries["text"].to_pylist()
    assert panel.result.equals(mk.panels.judge(search, queries, qrels, as_of="2026-03-01").result)
    with pytest.raises(mk.errors.NotFittedError):
        mk.panels.judge(mk.Retriever())


def test_a_judge_sees_what_each_query_may_see() -> None:
    rows = {"memory_id": ["anna", "boris", "nobody", "later"], "text": ["чай с мёдом", "чай чёрный", "чай", "чай днём"]}
    rows |= {"user_id": ["anna", "boris", None, "anna"], "created_at": [None, None, "2026-01-01", "2026-03-01T15:00"]}
    search = mk.Retriever(encoder=None).fit(mk.from_table({**rows, "title": ["Мёд утром", "", "", ""]}))
    queries = {"query_id": ["a", "b", "c"], "text": ["чай"] * 3, "user_id": ["anna", "boris", "anna"]}
    panel = mk.panels.judge(search, {**queries, "as_of": ["2026-02-01", "2026-03-01", "2026-03-01"]}, k=9)
    visible = {"a": {"anna", "nobody"}, "b": {"boris", "nobody"}, "c": {"anna", "nobody", "later"}}
    assert set(panel._queue) == {(query, memory) for query, memories in visible.items() for memory in memories}
    hidden = {"query_id": ["h"], "text": ["утром"], "hidden_field": ["title"]}
    qrels = {"query_id": ["h", "h"], "memory_id": ["anna", "nobody"], "relevance": [1, 0]}
    assert mk.panels.judge(search, hidden | {"hidden_field": [None]})._queue == [("h", "anna")]
    assert mk.panels.judge(search, hidden, qrels)._queue == []
    assert mk.panels.judge(search, hidden, qrels | {"memory_id": ["boris", "nobody"]})._queue == [("h", "anna")]
    with pytest.raises(mk.errors.ParameterError, match="qrels beside a 'hidden_field'"):
        mk.panels.judge(search, hidden)


def test_a_surface_is_walked_by_arrows(swept: Any, search: mk.Retriever) -> None:
    session = Session(State())
    panel = mk.panels.surface(swept, session=session)
    linked = mk.panels.search(search, "пул", as_of=DAY, session=session)
    panel.set(vector_weight=0.0, min_score=0.0)
    panel.press("right")
    assert panel.params == {"vector_weight": None, "min_score": 0.0}  # memkit's own weight, .2, lies between 0 and .5
    panel.press("right")
    panel.press("up")
    assert panel.params == {"vector_weight": 0.5, "min_score": 0.2}
    assert linked.params["vector_weight"] == 0.5
    panel.press("up")
    assert panel.current_index is not None
    assert panel.sweep.settings[panel.current_index] == panel.params


def test_the_setting_in_use_stands_at_its_effective_point_of_the_surface(swept: Any, search: mk.Retriever) -> None:
    weight, panel = search._index().weights(search)["vector"], mk.panels.surface(swept)
    assert panel.automatic == {"vector_weight": weight}
    axes = [axis_values(swept, name) for name in swept.settings[0]]
    assert axes == [sorted({0.0, 0.5, weight}), [0.0, 0.2]]  # the 0 that was given is the search's own 0.0
    assert "None" not in panel.marks.svg
    assert f"vector_weight=auto ({weight:g})" in panel.body


def test_what_is_left_to_memkit_is_said_and_adds_up(search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    assert sum(panel.automatic.values()) == pytest.approx(1)
    panel.set(vector_weight=0.5)
    assert sorted(panel.automatic) == ["bm25_weight", "gram_weight"]
    assert sum(panel.automatic.values()) == pytest.approx(0.5)


def test_an_explanation_stands_below_its_row(search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY, k=3)
    ids = panel.result["memory_id"].to_pylist()
    other_ids = set("abcdefgh") - set(ids)
    panel.pick(f"memory:{ids[1]}")
    rows = panel.body.split("<tr")
    place = next(number for number, row in enumerate(rows) if f'data-pick="memory:{ids[1]}"' in row)
    assert "mkwhy" in rows[place + 1]
    assert panel.body.count('class="mk mkwhy"') == 1
    panel.pick(f"memory:{sorted(other_ids)[0]}")
    assert panel.body.count('class="mk mkwhy"') == 1


def test_many_parameters_are_shown_a_few_at_first(panels: Mapping[str, Panel]) -> None:
    for name, panel in panels.items():
        groups = panel.spec()["groups"]
        shown = [spec["name"] for group in groups if not group.get("closed") for spec in group["controls"]]
        assert len([spec for spec in shown if spec in panel.declared]) <= 8, name
        every = [spec["name"] for group in groups for spec in group["controls"]]
        assert sorted(every) == sorted(panel.controls.keys() - set(panel.idle)), name


@pytest.mark.parametrize("name", mk.panels.__all__)
def test_a_panel_of_what_it_cannot_show_says_what_it_expects(name: str) -> None:
    for wrong in (3, mk.Retriever(encoder=None), mk.Deduplicator(encoder=None)):
        with pytest.raises(mk.MemkitError, match=r"[Ee]xpected|must be"):
            getattr(mk.panels, name)(wrong)


def test_the_weights_come_first_and_what_can_do_nothing_is_shown_once_it_has_a_value(search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)

    def groups() -> dict[str, list[str]]:
        return {group["name"]: [one["name"] for one in group["controls"]] for group in panel.spec()["groups"]}

    weights = ["vector_weight", "bm25_weight", "gram_weight"]
    assert groups()["retriever"] == [*weights, "decay", "decay_days", "decay_kinds", "unit"]
    assert [group["name"] for group in panel.spec()["groups"] if group.get("closed")] == [
        *("scope", "arms", "time", "output", "fit")
    ]
    hidden = {"rrf_k", "rerank_n", "rerank_weight"}
    assert hidden <= set(panel.idle)
    panel.set(fusion="rrf", prefer="newest", rerank_n=5)
    shown = {name for names in groups().values() for name in names}
    assert hidden - shown == {"rerank_weight"}
    panel.set(rrf_k=10, fusion="weighted")
    assert "rrf_k" in groups()["arms"]


@estimator
class Short(Policy):
    """Refuses what is too short."""

    needs, adds = needed("text"), VERDICT
    least: int = param(10, low=0, unit="characters", doc="Least length of a text.")

    def _sql(self) -> str:
        is_kept = f"length(text) >= {int(self.least)} as keep"
        return f"select *, {is_kept}, if(keep, null, 'short') as reason from input"  # noqa: S608  # of this test


def test_a_policy_of_one_s_own_has_a_panel(corpus: mk.Corpus) -> None:
    mine = Short(least=20)
    panel = mk.panels.policy(corpus, mine, as_of=DAY)
    assert panel.params == {"least": 20}
    assert "least" in str(panel.spec())
    panel.set(least=32)
    assert panel.result["keep"].to_pylist() == [len(text) >= 32 for text in TEXTS]
    assert "<b>refused</b>" in panel.body
    for words in (panel.code, mk.panels.policy(corpus, Short(least=32), as_of=DAY).code):
        result = eval(words, {"mine": mine, "corpus": corpus, "Short": Short})  # noqa: S307  # memkit's own
        assert result.equals(panel.result), words
    with pytest.raises(mk.errors.ParameterError, match="the name of a policy, or a policy"):
        mk.panels.policy(corpus, 3)
    with pytest.raises(mk.errors.ParameterError, match="expected a ContextBuilder or None"):
        mk.panels.context(corpus, mk.ContextBuilder)


def test_dedup_asks_first_about_pairs_that_can_merge() -> None:
    texts = ["Пул вырос до десяти.", "Пул вырос до пяти.", "зелёный чай с мёдом утром", "утром зелёный чай с мёдом"]
    dedup = mk.Deduplicator(encoder=None, lexical_floor=0.4).fit(mk.from_table({"text": texts}))
    panel = mk.panels.dedup(dedup)
    conflicts = dedup.pairs_["contradiction"].to_pylist()
    assert set(conflicts) == {True, False}
    assert [pair["contradiction"] for pair in panel.nearest()] == [False] * conflicts.count(False)
    panel.press("blocked")
    assert len(panel.nearest()) == len(conflicts)
    panel.press("blocked")
    panel.press("same")
    assert panel.pair is None
    with pytest.raises(mk.errors.ParameterError, match=r"0\.4"):
        panel.set(lexical_threshold=0.39)
    assert control(panel.controls["lexical_threshold"])["low"] == dedup.floors_[1]


def test_dedup_says_at_a_threshold_that_it_merges_nothing() -> None:
    texts = ["зелёный чай с мёдом утром", "утром зелёный чай с мёдом", "план"]
    panel = mk.panels.dedup(mk.Deduplicator(encoder=None, lexical_floor=0.4).fit(mk.from_table({"text": texts})))
    assert panel.notes["threshold"].endswith("of 0 pairs; encoder=None finds no pair without given vectors.")
    panel.set(lexical_threshold=0.4)
    assert panel.notes.keys() == {"threshold"}
    panel.set(lexical_threshold=1.0)
    assert panel.notes["lexical_threshold"].startswith("lexical_threshold=1 merges 0 of 1 pair; the most similar")


def test_a_badge_says_whether_what_is_below_a_hit_is_equal_or_near() -> None:
    text = "Отгружаем заказы по вторникам и четвергам до обеда, кроме праздников"
    for other, word in ((f"{text}", "+1 exact duplicate<"), (f"{text}!!", "+1 near-duplicate<")):
        search = mk.Retriever(encoder=None).fit(mk.from_table({"text": [text, other, "чай"]}))
        panel = mk.panels.search(search)
        panel.set(query="заказы по вторникам")
        assert word in panel.body


def test_dedup_counts_a_pair_that_never_merges_once_and_says_where_a_memory_is() -> None:
    """Three equal texts, two that share 8 of 11 trigrams, two that differ in a number, found twice."""
    texts = ["Зелёный чай с мёдом."] * 3 + ["Пул вырос до десяти соединений.", "Пул вырос до двадцати соединений."]
    table = {"text": [*texts, "липовый отвар", "отвар липовый"], "path": [*"abcdefg"], "line_start": [7] * 7}
    dedup = mk.Deduplicator(encoder=None, lexical_floor=0.4)
    panel = mk.panels.dedup(dedup.fit(mk.from_table(table), vectors=np.eye(4)[[0, 0, 0, 1, 1, 2, 3]]))
    counts = dict(zip(*dedup.report().to_pydict().values(), strict=True))
    shown = ("pairs", "merging", "refused", "number_conflict", "contradiction", "never_merging")
    assert [counts[name] for name in shown] == [4, 2, 2, 1, 1, 1]
    assert panel.marks.title == "2 of 3 pairs merge at 0.9; 1 hollow one never does"
    bars = {mark.label: mark.filled for mark in panel.marks.marks if hasattr(mark, "filled")}
    assert bars == {"exact": True, "lexical": True, "semantic, never merges": False}
    assert 'fill="none" stroke=' in panel.marks.svg
    assert ">b:7<" in panel.body
    panel.set(lexical_threshold=0.4)
    assert panel.marks.title.startswith("3 of 3 pairs")
    assert "lexical, similarity 0.727, above the threshold" in panel.body
    assert "1 pair never merges, by what differs: number 1." in panel.body


def test_a_judge_opens_with_exactly_the_pairs_that_decide(search: mk.Retriever, labels: Any) -> None:
    first = {"query_id": ["q1", "q0"], "memory_id": ["d", "a"]}
    panel = mk.panels.judge(search, labels[0], first=first, as_of=DAY)
    assert ("decisive", "Judge these 2 first", "f") in panel.actions
    assert {panel.pair} <= {("q1", "d"), ("q0", "a")}
    assert "1 of 2 that could change the verdict" in panel.body
    panel.press("2")
    panel.press("0")
    assert panel.pair is None
    assert "compare again" in panel.body
    panel.press("decisive")
    assert panel.pair not in (None, ("q1", "d"), ("q0", "a"))


def test_a_long_memory_is_scrolled_to_the_chunk_that_was_found() -> None:
    lines = [f"Строка {number} о погоде, дороге и обеде в столовой." for number in range(60)]
    lines[40] = "Пароль от сейфа лежит у бухгалтера."
    search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a"], "text": ["\n".join(lines)]}))
    panel = mk.panels.judge(search, {"query_id": ["q"], "text": ["бухгалтер"]}, as_of=DAY)
    before, _, after = panel.body.partition("<span data-scroll>")
    assert "Строка 0 " in before
    assert "бухгалтера" in after.partition("</span>")[0]
    assert "Строка 59 " in after


def test_decay_says_where_nothing_decays_and_offers_the_switch() -> None:
    rows = {"text": ["чай", "кофе"], "kind": ["note"] * 2, "created_at": ["2026-01-01"] * 2}
    panel = mk.panels.decay(mk.Retriever(encoder=None).fit(mk.from_table(rows)), as_of=DAY)
    assert panel.status == panel.notes["decay_days"] == "decay acts on 0 of 2 memories; decay_kinds='*' includes all."
    assert "in a search 0" in panel.body
    assert 'data-do="all"' in panel.body
    panel.press("all")
    assert panel.params["decay_kinds"] == ("*",)
    assert "Nothing" not in panel.status
    panel.set(decay="none")
    assert panel.status == "decay acts on 0 of 2 memories; decay='none' turns it off."


def test_a_slider_that_turns_nothing_says_so_where_it_is_moved() -> None:
    rows = {"text": ["чай", "кофе"], "kind": ["note"] * 2, "created_at": ["2026-01-01"] * 2}
    panel = mk.panels.search(mk.Retriever(encoder=None).fit(mk.from_table(rows)), "чай", as_of=DAY)
    said = "decay acts on 0 of 2 memories; decay_kinds='*' includes all"
    assert panel.notes["decay_days"] == said
    assert said not in panel.body
    panel.set(decay_days=68.0, rrf_k=5)
    assert said in html.unescape(panel.body)
    assert panel.notes["rrf_k"] == "rrf_k acts on 0 of 2 memories; fusion='rrf' uses it"
    panel.set(decay_kinds="*")
    assert panel.notes["decay_days"] == "e-folding: left after 68 days: 37 %"


def test_a_lab_says_which_labels_its_scores_rest_on(corpus: mk.Corpus, search: mk.Retriever, labels: Any) -> None:
    titled = mk.from_table(
        {
            "title": ["Пул соединений", "Зелёный чай"],
            "text": ["Соединений стало больше, пул вырос.", "Пьёт чай утром, зелёный."],
        }
    )
    plain = mk.panels.lab(titled, mk.Retriever(encoder=None).fit(titled), as_of=DAY)
    assert "not asked by people" in plain["surface"].strip_html
    assert "No labels were given" in plain["search"].strip_html
    labelled = mk.panels.lab(corpus, search, "пул", *labels, as_of=DAY)
    assert "rest on the labels given to the lab" in labelled["search"].strip_html
    assert "known" not in labelled["judge"].strip_html


def test_a_lab_without_labels_says_what_is_missing_and_what_to_do() -> None:
    facts = {"text": ["Любит чай", "Живёт в Казани"]}
    one_title = {"title": ["Пул соединений", "", ""], "text": ["Совсем другие слова сейчас", "чай", "кофе"]}
    for table, lacking, message in (
        (facts, {"surface", "judge"}, "there are no questions to measure with"),
        ({"text": []}, {"surface", "judge"}, "there are no questions to measure with"),
        (one_title, {"surface"}, "found nothing for any of 1 queries"),
    ):
        corpus = mk.from_table(table)
        lab = mk.panels.lab(corpus, mk.Retriever(encoder=None).fit(corpus), "чай", as_of=DAY)
        page = lab.view
        shown = "search"
        for name in lab.names:
            page._on_message(page, {"tab": name}, [])
            shown = shown if name in lacking else name
            assert (page.panel, page.spec["tabs"][0]["own"]) == (lab[shown], shown)
            assert (message in page.error) is (name in lacking)
        for name in lacking:
            with pytest.raises(mk.errors.ParameterError, match=r"mk\.panels\.judge\(search, queries\)"):
                _ = lab[name]


def test_questions_alone_are_judged_in_a_lab(corpus: mk.Corpus, search: mk.Retriever, labels: Any) -> None:
    queries, qrels = labels
    lab = mk.panels.lab(corpus, search, "пул", queries, as_of=DAY)
    with pytest.raises(mk.errors.ParameterError, match="judge their hits in the tab judge"):
        _ = lab["surface"]
    assert "No labels were given" in lab["search"].strip_html
    lab["judge"].press("3")
    assert lab["judge"].result.num_rows == 1
    for wrong, message in (({"queries": queries, "qrels": {"query_id": [1]}}, "qrels"), ({"qrels": qrels}, "queries")):
        with pytest.raises(mk.errors.ParameterError, match=message):
            _ = mk.panels.lab(corpus, search, as_of=DAY, **wrong)["surface"]


def test_a_lab_has_the_parameters_of_its_search_and_writes_the_panel_that_is_shown(
    corpus: mk.Corpus, search: mk.Retriever, tmp_path: Path
) -> None:
    lab = mk.panels.lab(corpus, search, "пул", as_of=DAY)
    lab.params = {"min_score": 0.1, "decay_days": 30.0}
    assert lab.params == lab["search"].params
    assert (lab["decay"].params["decay_days"], lab.params["min_score"]) == (30.0, 0.1)
    assert lab["search"].undo()
    for name in ("search", "decay"):
        lab.view._on_message(lab.view, {"tab": name}, [])
        page, alone = lab.export(tmp_path / "lab.html"), lab[name].export(tmp_path / f"{name}.html")
        assert page.read_bytes() == alone.read_bytes()


def test_panels_of_a_lab_open_in_any_order(corpus: mk.Corpus, search: mk.Retriever, labels: Any) -> None:
    lab = mk.panels.lab(corpus, search, "пул", *labels, as_of=DAY)
    for name in reversed(lab.names):
        assert lab[name].html
        if "query" in lab[name].values:
            assert lab[name].values["query"] == "пул"
        if "as_of" in lab[name].values:
            assert lab[name].values["as_of"].startswith(DAY)


def test_slider_keys_lead_to_the_ends_of_a_declaration() -> None:
    for declared in {**QueryValues.params(), **QuerySettings.params()}.values():
        slider = control(declared)
        if slider["kind"] == "number":
            for end in (slider["low"], slider["high"]):
                assert declared.accepts(parsed(declared, end)), declared.name
        elif declared.default is not None:
            assert declared.accepts(parsed(declared, written(declared.default))), declared.name


def test_judgements_are_read_again_by_the_code_on_the_screen(search: mk.Retriever, labels: Any, tmp_path: Path) -> None:
    panel = mk.panels.judge(search, labels[0], tmp_path / "qrels.parquet", as_of=DAY)
    for key in ("3", "0", "1"):
        panel.press(key)
    judgements = run(panel)
    assert judgements.select(panel.result.column_names).to_pylist() == panel.result.to_pylist()
    other = tmp_path / "qrels.csv"
    other.write_text("query_id,memory_id,relevance\nq0,a,1\n", "utf-8")
    before = other.read_bytes()
    beside = mk.panels.judge(search, labels[0], other, beside=panel.result, as_of=DAY)
    beside.press("1")
    assert other.read_bytes() == before
    assert "agree" in beside.status


def test_agreement_is_cohens_kappa(search: mk.Retriever, labels: Any) -> None:
    judged = {"query_id": ["q0"] * 4, "memory_id": list("abcd")}
    panel = mk.panels.judge(search, labels[0], {**judged, "relevance": [1, 1, 0, 0]}, as_of=DAY)
    # both say yes of one, both no of one: 2 of 4 agree, as chance would have it
    assert panel.agreement({**judged, "relevance": [1, 0, 1, 0]}) == pytest.approx((0.5 - 0.5) / (1 - 0.5))
    assert panel.agreement({**judged, "relevance": [2, 1, 1, 0]}) == pytest.approx((0.75 - 0.5) / (1 - 0.5))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_keeps_the_last_picture_and_table(panels: Mapping[str, Panel], name: str) -> None:
    panel, outputs = panels[name], []
    data, _ = panel._repr_mimebundle_()
    assert data["text/html"] == panel.html
    assert base64.b64decode(data["image/png"]) == panel.picture
    assert "application/vnd.jupyter.widget-view+json" in data
    panel._shown = type("Handle", (), {"update": lambda self, data, raw: outputs.append(data)})()
    changes = {"search": {"k": 2}, "decay": {"decay_days": 3.0}, "dedup": {"linkage": "components"}}
    panel.set(**changes.get(name, {}))
    panel.view._on_message(panel.view, {"left": True}, [])
    assert outputs[-1]["text/html"] == panel.html
    assert base64.b64encode(panel.picture).decode() in outputs[-1]["text/html"]


def test_a_profile_holds_the_parameters_of_a_panel(panels: Mapping[str, Panel], tmp_path: Path) -> None:
    changes = {
        "search": {"vector_weight": 0.3, "decay": "linear", "kind_weights": None},
        "decay": {"decay_days": 14.0},
        "dedup": {"lexical_threshold": 0.95, "survivor": "longest"},
        "quota": {"max_facts": 3},
        "context": {"profile_chars": 70, "fill": "knapsack"},
    }
    for name, values in changes.items():
        panel = panels[name]
        before = panel.params
        panel.set(**values)
        after, path = panel.params, panel.save_profile(tmp_path / f"{name}.toml")
        panel.reset()
        assert panel.params == before
        panel.load_profile(path)
        assert panel.params == after
        assert mk.Profile.load(path) == panel.profile


def test_every_preset_fits_its_panel(panels: Mapping[str, Panel]) -> None:
    for name in ("search", "decay", "dedup", "policy", "quota", "context"):
        panel = panels[name]
        assert panel.presets
        for values in panel.presets.values():
            panel.reset(values)
            assert all(
                panel.params[parameter] == value for parameter, value in values.items() if parameter in panel.params
            )


def test_no_arm_is_asked_again_by_a_slider(search: mk.Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    queries: list[str] = []
    ask = mk.Retriever.ask
    monkeypatch.setattr(
        mk.Retriever, "ask", lambda self, *args, **kwargs: queries.append(args[0]) or ask(self, *args, **kwargs)
    )
    panel.press("pin")
    for values in ({"k": 3}, {"vector_weight": 0.0}, {"vector_weight": 0.7}, {"decay": "linear"}, {"pool": 50},
                   {"mmr_lambda": 0.5}, {"min_score": 0.1}, {"normalize": "max"}, {"fusion": "rrf"}):  # fmt: skip
        panel.set(**values)
        _ = panel.body, panel.picture
    assert queries == []
    panel.set(query="чай")
    assert queries == ["чай"]
    panel.set(pool=200)
    assert queries == ["чай", "чай"]


def test_budgets_of_a_context_ask_no_arm_again(panels: Mapping[str, Panel], monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panels["context"]
    _ = panel.answer
    monkeypatch.setattr(mk.Retriever, "ask", None)
    panel.set(profile_chars=30, k=2, preview_chars=20)
    assert panel.result.num_rows


def test_a_memory_is_named_by_its_words(search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    panel.set(memory_id="ДЕПЛОЙ")
    assert panel.values["memory_id"] == "e"
    with pytest.raises(mk.errors.ParameterError, match="nobody wrote this"):
        panel.set(memory_id="nobody wrote this")


def test_a_large_corpus_is_judged_in_part_while_a_slider_moves() -> None:
    rows = {"text": [f"Запись номер {number}" for number in range(2500)], "kind": ["archive"] * 2500}
    corpus = mk.from_table({**rows, "user_id": [f"u{number % 50}" for number in range(2500)]})
    for policy, name, value in (("admission", "min_chars", 20), ("quota", "max_facts", 3)):
        panel = mk.panels.policy(corpus, policy, as_of=DAY)
        page = panel.view
        page._on_message(page, {"set": {name: value}, "live": True}, [])
        assert 0 < panel.result.num_rows <= 1000
        assert "at rest" in page.summary
        page._on_message(page, {"set": {name: value}, "live": False}, [])
        assert panel.result.num_rows == 2500
        assert run(panel, corpus=corpus).equals(panel.result)


@pytest.mark.parametrize("policy", ["index_check", "split_plan"])
def test_policies_of_other_tables_are_shown_as_they_are(policy: str) -> None:
    corpus = mk.read(mk.sample_data() / "index_tree", as_of=DAY)
    panel = mk.panels.policy(corpus, policy, as_of=DAY)
    assert panel.result.num_rows
    assert "<table>" in panel.body
    assert "part;" not in panel.view.summary


def test_the_panel_of_an_index_shows_what_its_options_would_remove(tmp_path: Path) -> None:
    """Index standard, section 4: auto_clean_missing and auto_clean_invalid; pinned entries are never removed."""
    facts = {"tags": ["t"], "updated": "2026-01-01", "summary": "s", "priority": "high"}
    entries: list[dict[str, Any]] = [
        {"file": f"{name}.md", "title": name, **facts} for name in ("here", "gone", "held")
    ]
    entries[2]["pinned"] = True
    root = {"version": "1.0", "categories": [{"id": "c", "title": "c", "index": "memory/c/index.json"}]}
    branch = {"category": "c", "version": "1.0", "files": entries}
    files = {"index.json": json.dumps(root), "memory/c/index.json": json.dumps(branch), "memory/c/here.md": "# Чай\n"}
    corpus = mk.read(mk.testing.write_files(tmp_path, files))
    panel = mk.panels.policy(corpus, "index_check", as_of=DAY)
    for value, count in ((False, 0), (True, 1), (False, 0)):
        panel.set(auto_clean_missing=value)
        assert f"{count} would be removed" in panel.view.summary
        assert f"{count} of 2 missing or invalid entries would be removed." in panel.body
        assert panel.body.count('<td class="w">would be removed</td>') == count
        assert "stays: pinned" in panel.body
        assert run(panel, corpus=corpus).equals(panel.result)


def test_the_panel_of_records_shows_confidence_success_and_age(tmp_path: Path) -> None:
    """Records, sections 2.1 and 2.3: confidence of wisdom facts; success_rate and last_used_at of pathways."""
    pathway = {"triggers": ["a"], "template": "t", "variables": {}, "tier": "core", "format_version": "1.0.0"}
    used = {"usage_stats": {"hits": 4, "success_rate": 0.5, "last_used_at": "2026-01-30T00:00:00Z"}}
    fact = {"fact_id": "w", "content": "Чай", "category": "c", "confidence": 0.8, "relations": []}
    files = {"p.json": {"id": "p", **pathway, **used}, "w.json": {**fact, "format_version": "1.0.0"}}
    corpus = mk.read(mk.testing.write_files(tmp_path, {name: json.dumps(value) for name, value in files.items()}))
    panel = mk.panels.records(corpus, as_of=DAY)
    assert panel.result.select(["fact_id", "confidence"]).to_pylist() == [{"fact_id": "w", "confidence": 0.8}]
    assert run(panel, corpus=corpus).equals(panel.result)
    panel.set(show="success_rate")
    z = 1.959964  # Wilson at p = 1/2: 1/2 ± z/2 / sqrt(n + z²)
    assert panel.result["low"].to_pylist() == pytest.approx([0.5 - z / 2 / (4 + z * z) ** 0.5])
    assert run(panel, corpus=corpus).equals(panel.result)
    panel.set(show="age")
    for forward, days, stale in ((0, 30, False), (1, 30, True), (1, 31, False)):
        panel.set(forward=forward, days=days)
        assert panel.result.select(["idle_days", "stale"]).to_pylist() == [{"idle_days": 30 + forward, "stale": stale}]
        assert f"{int(stale)} stale on" in panel.view.summary
        assert "1 wisdom fact without an age, as its format has no date" in panel.view.summary
        assert run(panel, corpus=corpus).equals(panel.result)
    assert all(set(edge) == {255} for edge in _edges(panel.picture))
    for show, words in (("confidence", "wisdom facts"), ("success_rate", "pathways"), ("age", "pathways")):
        panel = mk.panels.records(mk.from_table({"text": ["чай"]}), show, as_of=DAY)
        assert f"The corpus holds no {words}." in panel.body
        assert panel.picture


def test_pictures_have_at_most_four_hundred_marks(search: mk.Retriever) -> None:
    rows = {"text": ["чай"] * 1000, "created_at": ["2026-01-01"] * 1000, "kind": ["archive"] * 1000}
    panel = mk.panels.decay(mk.Retriever(encoder=None).fit(mk.from_table(rows)), as_of=DAY)
    assert 300 < sum(len(mark.x) for mark in panel.marks.marks if isinstance(mark, Dots)) <= 400


def _edges(picture: bytes) -> list[bytes]:
    """The outermost pixels of each side."""
    image = Image.open(io.BytesIO(picture)).convert("L")
    wide, high = image.size
    boxes = ((0, 0, wide, 1), (0, high - 1, wide, high), (0, 0, 1, high), (wide - 1, 0, wide, high))
    return [image.crop(box).tobytes() for box in boxes]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_picture_is_cut_off(panels: Mapping[str, Panel], name: str) -> None:
    panel = panels[name]
    for values in ({}, {"query": "пул чай деплой connection", "k": 8}, {"forward": 3000}):
        panel.set(**{key: value for key, value in values.items() if key in panel.controls})
        assert all(set(edge) == {255} for edge in _edges(panel.picture))


def test_long_names_in_any_script_stay_within_the_picture() -> None:
    users = [f"пользователь с очень длинным именем {number}" for number in range(6)] + ["記憶の所有者", "_$x^2$"]
    rows = {"text": ["чай"] * 8, "kind": ["archive"] * 8, "user_id": users, "created_at": ["2026-01-01"] * 8}
    panel = mk.panels.policy(mk.from_table(rows), "quota", as_of=DAY)
    assert all(set(edge) == {255} for edge in _edges(panel.picture))


def test_a_picture_is_the_same_after_another_was_drawn(corpus: mk.Corpus) -> None:
    panel = mk.panels.policy(corpus, "quota", as_of=DAY)
    first = panel.picture
    panel.set(text="Каждое утро пьёт зелёный чай.")
    assert panel.picture != first
    panel.set(text="")
    assert panel.picture == first


@pytest.mark.parametrize("policy", ["admission", "classifier"])
def test_what_a_policy_read_of_texts_before_does_not_stay_when_its_words_change(corpus: mk.Corpus, policy: str) -> None:
    panel = mk.panels.policy(corpus, policy, as_of=DAY)
    words = [("пул",), ("it's 'a' said_0", "регламент"), ("чай", "text", "said_1"), ("деплой", "пул")]
    lists = [name for name, declared in panel.declared.items() if declared.kind == "words"]
    for number, name in enumerate(lists):
        for some in (words[number % 4], words[(number + 1) % 4]):
            panel.set(**{name: some})
            assert run(panel, corpus=corpus).equals(panel.result)
    for name in (name for name, declared in panel.declared.items() if declared.kind == "int"):
        before = panel.result
        panel.set(**{name: 31})
        assert run(panel, corpus=corpus).equals(panel.result)
        panel.undo()
        assert panel.result.equals(before)


def test_a_slider_of_a_policy_makes_no_pattern_ready_again(corpus: mk.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = mk.panels.policy(corpus, "admission", as_of=DAY)
    statements: list[str] = []
    monkeypatch.setattr(
        "memkit.tables.statement.run",
        lambda con, sql, *parameters: statements.append(sql) or run_(con, sql, *parameters),
    )
    panel.set(max_chars=31)
    assert len(statements) == 1
    assert "regexp_" not in statements[0].replace("regexp_matches(token, '[0-9]')", "")
    assert "length" in panel.result["reason"].to_pylist()


def test_a_picture_of_many_hits_stays_one_that_can_be_read() -> None:
    rows = {"text": [f"чай {number}" for number in range(300)], "memory_id": [f"m{number}" for number in range(300)]}
    panel = mk.panels.search(mk.Retriever(encoder=None).fit(mk.from_table(rows)), "чай", as_of=DAY)
    panel.set(pool=1000, k=1000)
    assert panel.result.num_rows == 300
    assert "first 16 of 300" in panel.words
    assert sum(len(mark.boxes) for mark in panel.marks.marks) <= 400


def test_stale_memories_are_counted_where_labels_know_of_any(search: mk.Retriever) -> None:
    queries = {"query_id": ["q"], "text": ["пул соединений"]}
    qrels = {"query_id": ["q", "q"], "memory_id": ["a", "b"], "relevance": [1, 1]}
    assert "stale" not in mk.panels.decay(search, queries, qrels, as_of=DAY).status
    known = mk.panels.decay(search, queries, {**qrels, "valid_to": ["2026-02-01", None]}, as_of=DAY)
    ids = search.search("пул соединений", k=10, as_of=DAY)["memory_id"].to_pylist()
    assert f"stale@10 {('a' in ids) / len(ids):.3f}" in known.status


@pytest.mark.parametrize("name", ["search", "dedup", "quota", "context", "policy"])
def test_a_label_names_its_unit_once(panels: Mapping[str, Panel], name: str) -> None:
    labels = [spec["label"] for group in panels[name].spec()["groups"] for spec in group["controls"]]
    assert len(set(labels)) == len(labels)
    for label in labels:
        words = label.replace(",", "").split()
        assert len(set(words)) == len(words), label


def test_the_size_of_chunks_moves_in_the_panel_of_a_sweep() -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений\n" * 30, "зелёный чай\n" * 30]})
    search = mk.Retriever(encoder=None, index=mk.Index(overlap_tokens=5)).fit(corpus)
    labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    swept = mk.sweep(search, *labels, {"index__chunk_tokens": [20, 100], "min_score": [0.0, 0.9]}, "mrr")
    panel = mk.panels.surface(swept)
    panel.set(index__chunk_tokens=20)
    panel.press("right")
    assert panel.params["index__chunk_tokens"] == 100
