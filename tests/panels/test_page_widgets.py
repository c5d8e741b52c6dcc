"""Panels as widgets of ipywidgets, and parameters as traits of the page: both ways."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import ipywidgets
import pytest
import traitlets

import memkit as mk
from memkit.panels.page import Card, control, written
from memkit.panels.panel import Panel

DAY = "2026-03-01"
ATTACK = "<script>document.title='ran'</script><img src=x onerror=alert(1)>"
QUERIES = {"query_id": ["q"], "text": ["пул"]}
RELEVANT = {"query_id": ["q"], "memory_id": ["a"], "relevance": [1]}


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    texts = ["Пул соединений вырос до десяти.", "Пул соединений вырос до двадцати.", f"Пул {ATTACK}"]
    return mk.from_table(
        {
            "memory_id": list("abcd"),
            "text": [*texts, "password: hunter2hunter2 от пула"],
            "kind": ["profile", "working", "archive", "archive"],
            "user_id": ["u1", "u1", ATTACK, "u1"],
            "created_at": ["2026-01-01", "2026-02-01", "2026-01-01", "2026-02-01"],
        }
    )


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(corpus)


@pytest.fixture(scope="module")
def swept(search: mk.Retriever) -> Any:
    return mk.sweep(search, QUERIES, RELEVANT, {"vector_weight": [0.0, 0.5], "min_score": [0.0, 0.2]}, as_of=DAY)


@pytest.fixture(scope="module")
def dedup(corpus: mk.Corpus) -> mk.Deduplicator:
    return mk.Deduplicator(encoder=None, lexical_floor=0.3).fit(corpus)


@pytest.fixture
def panels(
    corpus: mk.Corpus, search: mk.Retriever, swept: Any, dedup: mk.Deduplicator, made_when_asked: Any
) -> Mapping[str, Panel]:
    return made_when_asked(
        {
            "search": lambda: mk.panels.search(search, "пул", as_of=DAY),
            "decay": lambda: mk.panels.decay(search, as_of=DAY),
            "dedup": lambda: mk.panels.dedup(dedup),
            "context": lambda: mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message="пул", as_of=DAY),
            "surface": lambda: mk.panels.surface(swept),
            "judge": lambda: mk.panels.judge(search, QUERIES, as_of=DAY),
            "table": lambda: mk.panels.table(corpus),
            "map": lambda: mk.panels.map(search, projection="pca", as_of=DAY),
            **{
                name: partial(mk.panels.policy, corpus, name, as_of=DAY)
                for name in ("admission", "classifier", "quota", "expiry")
            },
        }
    )


@pytest.fixture
def panel(search: mk.Retriever) -> Panel:
    return mk.panels.search(search, "пул", as_of=DAY)


def _shown(card: Card) -> dict[str, Any]:
    """What the widgets of a card say, as the values of a page."""
    return {name: widget.value for name, widget in card.controls.items()}


def _written_values(panel: Panel, card: Card) -> dict[str, Any]:
    """The values of a panel, as its card writes them."""
    values = {name: written(panel.values[name]) for name in card.controls}
    return {
        name: ("" if value is None else str(value)) if isinstance(card.controls[name], ipywidgets.Text) else value
        for name, value in values.items()
    }


def _other(widget: Any) -> Any:
    """Another value that a user could give it; none where there is nothing to choose."""
    if isinstance(widget, ipywidgets.Checkbox):
        return not widget.value
    if isinstance(widget, ipywidgets.Dropdown):
        return next(value for _, value in reversed(widget.options) if value != widget.value)
    if isinstance(widget, (ipywidgets.IntSlider, ipywidgets.FloatSlider)):
        return widget.max if widget.value != widget.max else widget.min
    return None


def test_every_parameter_of_every_panel_is_a_widget_that_sets_it_and_is_set_back_by_undo(
    panels: Mapping[str, Panel],
) -> None:
    wrong, tried = [], set[str]()
    for title, panel in panels.items():
        card = panel.widgets()
        for number, (name, widget) in enumerate(card.controls.items()):
            declared = panel.controls[name]
            before = panel.values
            value = 0 if name == "index__overlap_tokens" else _other(widget)  # which has to be below the chunk's size
            if widget.description != control(declared)["label"] or declared.doc not in widget.tooltip:
                wrong.append((title, name, "not described"))
            if value is None or (name in tried and number > 2):  # panels that search share most of theirs
                continue
            tried.add(name)
            widget.value = value
            if panel.values != {**before, name: value} or _shown(card) != _written_values(panel, card):
                wrong.append((title, name, panel.values[name], value))
            if not panel.undo() or panel.values != before or _shown(card) != _written_values(panel, card):
                wrong.append((title, name, "not undone"))
        assert not card.error.value
    assert not wrong


@pytest.mark.quick
def test_each_kind_of_parameter_has_its_widget(panels: Mapping[str, Panel]) -> None:
    kinds = {
        ("search", "k"): ipywidgets.IntSlider,
        ("search", "decay_days"): ipywidgets.FloatSlider,
        ("search", "decay"): ipywidgets.Dropdown,
        ("search", "read_dates"): ipywidgets.Checkbox,
        ("search", "query"): ipywidgets.Text,
        ("search", "kind_weights"): ipywidgets.Text,
        ("search", "vector_weight"): ipywidgets.Text,
        ("dedup", "kinds"): ipywidgets.Text,
        ("dedup", "survivor"): ipywidgets.Dropdown,
        ("admission", "commands"): ipywidgets.Text,
    }
    cards = {title: panels[title].widgets() for title in ("search", "dedup", "admission")}
    assert {key: type(cards[key[0]].controls[key[1]]) for key in kinds} == kinds
    assert isinstance(cards["search"], ipywidgets.VBox)
    slider = cards["search"].controls["mmr_lambda"]
    assert (slider.min, slider.max) == (0, 1)


def test_what_may_be_none_is_an_empty_box(panel: Panel) -> None:
    card = panel.widgets()
    for name, text, value in (
        ("vector_weight", "0.5", 0.5),
        ("user_id", "u1", "u1"),
        ("kind_weights", "profile=0.5", {"profile": 0.5}),
    ):
        assert (card.controls[name].value, panel.values[name]) == ("", None)
        card.controls[name].value = text
        assert panel.values[name] == value
        card.controls[name].value = ""
        assert panel.values[name] is None
    card.controls["vector_weight"].value = "much"
    assert "float" in card.error.value
    panel.set(vector_weight=0.25)
    assert card.controls["vector_weight"].value == "0.25"


@pytest.mark.quick
def test_a_value_beyond_the_slider_is_shown_and_not_cut(panel: Panel) -> None:
    card = panel.widgets()
    for days in (9000.0, 0.25):
        panel.set(decay_days=days)
        assert card.controls["decay_days"].value == panel.values["decay_days"] == days


def test_what_is_refused_is_told_and_changes_nothing(panel: Panel) -> None:
    card, state = panel.widgets(), panel.session.state
    for name, value, words in (
        ("where", "foo bar", "foo"),
        ("as_of", "soon", "soon"),
        ("memory_id", "<b>", "expected"),
    ):
        card.controls[name].value = value
        assert panel.session.state is state
        assert words in card.error.value
        assert "<b>" not in card.error.value
        assert card.controls[name].value == value  # to be mended
        card.controls[name].value = panel.values[name] or ""
        assert not card.error.value
    card.controls["min_score"].max = 10
    card.controls["min_score"].min = -1
    card.controls["min_score"].value = -0.5
    assert "[0, inf)" in card.error.value
    assert card.controls["min_score"].value == panel.values["min_score"] == 0.0


def test_what_is_shown_is_escaped_and_has_no_secret(panels: Mapping[str, Panel]) -> None:
    for panel in panels.values():
        card = panel.widgets()
        if "query" in card.controls:
            card.controls["query"].value = f"пул {ATTACK}"
        for part in (card.picture, card.body, card.strip, card.summary, card.code, card.error):
            assert "<script" not in part.value
            assert "<img" not in part.value
            assert "hunter2" not in part.value
        assert "<svg" in card.picture.value
        assert panel.body in card.body.value


def test_buttons_do_what_the_page_s_do(panels: Mapping[str, Panel]) -> None:
    judge = panels["judge"]
    card, page = judge.widgets(), judge.view
    n_drawn = page.n
    card.buttons["2"].click()
    assert judge.result["relevance"].to_pylist() == [2.0]
    assert "1 judged" in card.summary.value
    assert ("1 judged" in page.summary, page.n) == (True, n_drawn + 1)
    assert judge.undo()
    assert "0 judged" in card.summary.value
    pairs = panels["dedup"].widgets()
    pairs.buttons["blocked"].click()
    pairs.buttons["same"].click()
    assert panels["dedup"].labels.num_rows == 1
    assert "no pair judged" not in pairs.summary.value
    surface = panels["surface"].widgets()
    surface.controls["vector_weight"].value = "0.2"
    surface.buttons["right"].click()
    assert surface.controls["vector_weight"].value == "0.5"


def test_a_card_leaves_its_table_in_the_notebook_s_file(panel: Panel) -> None:
    data = panel.widgets()._repr_mimebundle_()
    assert data["text/html"] == panel.html
    assert "application/vnd.jupyter.widget-view+json" in data
    assert panel.code in data["text/plain"]


def test_a_closed_card_follows_no_more(panel: Panel) -> None:
    card, other = panel.widgets(), panel.widgets()
    card.close()
    panel.set(k=3)
    assert card.controls["k"].value == 10
    assert other.controls["k"].value == 3
    assert card.comm is None
    assert card.controls["k"].comm is None
    assert len(panel.session._listeners) == 1


def test_the_card_of_a_lab_shows_what_its_page_shows(corpus: mk.Corpus, search: mk.Retriever) -> None:
    lab = mk.panels.lab(corpus, search, "пул", QUERIES, RELEVANT, as_of=DAY)
    card, page = lab.widgets(), lab.view
    of_search = card.controls["k"]
    card.tabs["panels"].value = "decay"
    assert (list(lab._panels), page.panel, of_search.comm) == (["search", "decay"], lab["decay"], None)
    card.controls["decay_days"].value = 30.0
    assert lab["search"].values["decay_days"] == 30.0
    page._on_message(page, {"tab": "policies"}, [])
    assert card.tabs["panels"].value == "policies"
    assert [name for _, name in card.tabs["policies"].options] == list(lab.policies)
    card.tabs["policies"].value = "quota"
    assert (lab.policy, page.panel) == ("quota", lab["quota"])
    assert "forward" in card.controls
    for name in lab.names:
        card.tabs["panels"].value = name
        assert card.body.value.endswith(page.body)
    card.close()
    assert lab.session._listeners == [page._quietly]
    bare = mk.panels.lab(corpus, search, "пул", as_of=DAY).widgets()
    bare.tabs["panels"].value = "judge"
    assert "no questions" in bare.error.value
    assert bare.tabs["panels"].value == "search"


def test_the_slider_of_decay_says_what_its_days_mean(panels: Mapping[str, Panel]) -> None:
    # exp(-1) = .368 and 1/2 are left at the form's own time
    notes = {"e_folding": "e-folding: left after 60 days: 37 %", "half_life": "half-life: left after 60 days: 50 %"}
    for panel in (panels["search"], panels["decay"]):
        card, page = panel.widgets(), panel.view
        for form, text in notes.items():
            panel.set(decay=form)
            assert text in card.notes.value
            assert text in page.notes["decay_days"]
        panel.set(decay="half_life", decay_floor=0.6)
        assert "60 %" in card.notes.value
        panel.set(decay="none")
        assert "no score" in card.notes.value


def test_each_scalar_parameter_is_a_synced_trait_of_the_page(panels: Mapping[str, Panel]) -> None:
    for panel in panels.values():
        page = panel.view
        scalars = {n: p for n, p in panel.controls.items() if p.kind in ("bool", "int", "float", "str")}
        assert {name: getattr(page, name) for name in scalars} == {name: panel.values[name] for name in scalars}
        assert set(scalars) <= set(page.keys)


def test_a_trait_sets_the_panel_and_the_panel_the_trait_once_each(panel: Panel) -> None:
    page, changes = panel.view, []
    page.observe(lambda event: changes.append((event["name"], event["old"], event["new"])), ["k", "decay", "as_of"])
    page.k = 3
    assert (panel.values["k"], len(panel.history)) == (3, 2)
    panel.set(k=4, decay="linear")
    assert (page.k, page.decay) == (4, "linear")
    panel.undo()
    assert (page.k, page.decay) == (3, "e_folding")
    page._on_message(page, {"set": {"k": 5}}, [])
    page.as_of = "2026-02-01T12:00"
    assert page.as_of == panel.values["as_of"] == "2026-02-01T12:00:00+00:00"
    assert [change for change in changes if change[0] == "k"] == [("k", 10, 3), ("k", 3, 4), ("k", 4, 3), ("k", 3, 5)]
    assert len([change for change in changes if change[0] == "as_of"]) == 1
    page.vector_weight = 0.5
    page.vector_weight = None
    assert panel.values["vector_weight"] is None


def test_a_trait_refuses_what_the_panel_refuses(panel: Panel) -> None:
    page, state = panel.view, panel.session.state
    for name, value in (("k", 0), ("decay", "exp"), ("where", "foo bar"), ("read_dates", "maybe")):
        with pytest.raises(mk.MemkitError):
            setattr(page, name, value)
        assert getattr(page, name) == panel.values[name]
    page.set_state({"k": 0})  # as the browser sends it
    assert "[1, inf)" in page.error
    assert (page.k, panel.session.state) == (10, state)
    n_drawn = page.n
    page.set_state({"k": 3, "decay_days": 30})
    assert (page.error, panel.values["k"], panel.values["decay_days"]) == ("", 3, 30.0)
    assert page.n > n_drawn


def test_a_linked_slider_and_a_panel_move_together(panel: Panel) -> None:
    slider = ipywidgets.IntSlider(min=1, max=50)
    traitlets.link((panel.view, "k"), (slider, "value"))
    assert slider.value == 10
    slider.value = 7
    assert panel.values["k"] == 7
    panel.undo()
    assert slider.value == 10
    assert len(panel.history) == 1
    ipywidgets.jslink((panel.view, "k"), (slider, "value"))


def test_the_traits_of_a_lab_are_those_of_its_search_whatever_it_shows(corpus: mk.Corpus, search: mk.Retriever) -> None:
    lab = mk.panels.lab(corpus, search, "пул", as_of=DAY)
    page = lab.view
    page._on_message(page, {"tab": "decay"}, [])
    page.decay_days = 30
    assert lab["decay"].params["decay_days"] == 30.0
    lab["decay"].set(decay_days=20)
    assert page.decay_days == 20.0
