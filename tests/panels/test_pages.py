"""Panels in a real Chromium, with the widget in this process: keys, names, the DOM that hostile words make."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk

DAY = "2026-03-01"
ATTACK = "<script>window.ran=1</script><img src=x onerror='window.ran=1'><svg onload='window.ran=1'></svg>"
TEXTS = [
    "Пул соединений вырос до десяти.",
    "Пул соединений вырос до двадцати.",
    "The connection pool grew to ten.",
    "Каждое утро пьёт зелёный чай без сахара.",
    "Деплой в пятницу запрещён.",
    f"Чай и пул {ATTACK}",
    f"Чай и пул {ATTACK}.",
    "Аренда пула стоит 1200.",
]
IDS = [*"abcde", f"f{ATTACK}", "g", "h"]
LABELS = {"query_id": ["q0", f"q{ATTACK}"], "text": ["пул", f"чай {ATTACK}"]}
RELEVANT = {"query_id": ["q0", f"q{ATTACK}"], "memory_id": ["a", "d"], "relevance": [1, 1]}
POLICIES = ["admission", "classifier", "quota", "expiry"]
NAMES = ["search", "surface", "decay", "dedup", *POLICIES, "context", "judge", "table", "map", "lab"]
WATCH = """() => {
  window.seen = new Set([document.activeElement]);
  document.addEventListener("focusin", (event) => seen.add(event.target));
}"""
UNREACHED = """() => [...document.querySelectorAll(".mkp :is(button,input,select,summary,[tabindex])")]
  .filter((one) => one.tabIndex >= 0 && one.offsetParent && !seen.has(one)
    && !one.matches("details:not([open]) :not(summary)"))
  .map((one) => one.outerHTML)"""
"""What the keys of a panel can reach and have not, since it is watched."""


@pytest.fixture(scope="module")
def stage(browser: str, script: Callable[[str], ModuleType]) -> Iterator[Any]:
    with script("panels/stage.py").Stage(browser) as opened:
        yield opened


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table(
        {
            "memory_id": IDS,
            "text": TEXTS,
            "title": [ATTACK, *[""] * 7],
            "path": [f"{ATTACK}.md", *["a.md"] * 7],
            "tags": [[ATTACK], *[[]] * 7],
            "kind": ["profile", "working", "archive", "profile", "working", "archive", "archive", "archive"],
            "importance": ["high", "normal", "normal", "high", "low", "normal", "normal", "normal"],
            "user_id": ["u1", "u1", "u2", "u1", None, ATTACK, ATTACK, "u1"],
            "expires_at": [None, "2026-05-01", *[None] * 6],
            "created_at": [f"2026-0{month}-01" if month else None for month in (1, 2, 0, 1, 2, 1, 2, 1)],
        }
    )


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(corpus)


@pytest.fixture(scope="module")
def swept(search: mk.Retriever) -> Any:
    return mk.sweep(search, LABELS, RELEVANT, {"vector_weight": [0.0, 0.5], "min_score": [0.0, 0.2]}, as_of=DAY)


@pytest.fixture
def panel(request: pytest.FixtureRequest, corpus: mk.Corpus, search: mk.Retriever, swept: Any) -> Any:
    name = request.param
    if name == "search":
        return mk.panels.search(search, "пул", LABELS, RELEVANT, as_of=DAY)
    if name == "surface":
        return mk.panels.surface(swept)
    if name == "decay":
        return mk.panels.decay(search, as_of=DAY)
    if name == "dedup":
        return mk.panels.dedup(mk.Deduplicator(encoder=None, lexical_floor=0.3).fit(corpus))
    if name == "context":
        return mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message=f"пул {ATTACK}", as_of=DAY)
    if name == "judge":
        return mk.panels.judge(search, LABELS, as_of=DAY)
    if name == "map":
        return mk.panels.map(search, f"пул {ATTACK}", projection="pca", as_of=DAY)
    if name == "table":
        return mk.panels.table(pa.table({**corpus.memories.to_pydict(), f"n{ATTACK}": range(len(TEXTS))}))
    if name == "lab":
        return mk.panels.lab(corpus, search, f"пул {ATTACK}", LABELS, RELEVANT, as_of=DAY)
    return mk.panels.policy(corpus, name, as_of=DAY)


def test_a_table_is_sorted_paged_filtered_and_opened_by_keys(stage: Any) -> None:
    rows = {
        "name": [f"имя {number % 7}" for number in range(120)],
        "size": [(number * 37) % 120 for number in range(120)],
    }
    panel = mk.panels.table(rows)
    tab = stage.show(panel.view, width=700)
    cells = tab.locator(".mkgrid tbody tr[data-pick]")
    tab.get_by_role("button", name="name", exact=True).focus()
    stage.press("ArrowRight", "ArrowRight", "Enter", "Enter")  # by way of its histogram to the second column
    assert cells.first.locator("td").all_inner_texts() == ["1", rows["name"][rows["size"].index(119)], "119"]
    head = tab.get_by_role("columnheader").nth(2)
    assert head.get_attribute("aria-sort") == "descending"
    assert tab.evaluate("document.activeElement.dataset.pick") == "sort:1"
    stage.press("ArrowLeft", "Enter")
    assert panel.values["column"] == "name"
    assert "имя 0" in tab.locator(".pic").inner_text()
    tab.get_by_role("button", name="Next page").focus()
    stage.press("Enter", "Enter")
    assert cells.count() == 20
    assert cells.last.locator("td").last.inner_text() == "0"
    assert "page 3 of 3" in tab.locator(".said").inner_text()
    cells.first.focus()
    stage.press("f", "l", "ArrowDown", "Enter")
    assert tab.locator(".mkwhole").inner_text().split() == [
        "name",
        *cells.nth(1).inner_text().split()[1:3],
        "size",
        "18",
    ]
    tab.get_by_label("filter", exact=True).focus()
    tab.keyboard.type("size: 11")
    stage.press("Enter")
    assert sorted(panel.result["size"].to_pylist()) == [11, *range(110, 120)]
    assert cells.count() == 11


BEYOND = """() => {
  const svg = document.querySelector(".pic > svg"), all = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1 || box.bottom > all.bottom + 1;
  }).map((one) => one.textContent);
}"""
"""The words of a picture that reach out of it."""


def test_long_names_in_any_script_stay_within_the_picture(stage: Any) -> None:
    users = [f"пользователь с очень длинным именем {number}" for number in range(6)] + ["記憶の所有者", "_$x^2$"]
    rows = {"text": ["чай"] * 8, "kind": ["archive"] * 8, "user_id": users, "created_at": ["2026-01-01"] * 8}
    tab = stage.show(mk.panels.policy(mk.from_table(rows), "quota", as_of=DAY).view)
    assert tab.evaluate(BEYOND) == []
    long = {"title": ["ШИРОКАЯ ПОДПИСЬ " * 4, "Window Manager MMIO " * 3, "記憶" * 30], "text": ["чай"] * 3}
    search = mk.Retriever(encoder=None).fit(mk.from_table(long))
    tab = stage.show(mk.panels.search(search, "чай", as_of=DAY).view)
    assert tab.locator(".pic text").count() > 5
    assert tab.evaluate(BEYOND) == []


@pytest.mark.parametrize("panel", NAMES, indirect=True)
def test_every_control_has_a_name_and_is_reached_by_tab_and_no_hostile_word_acts(stage: Any, panel: Any) -> None:
    tab = stage.show(panel.view)
    tab.evaluate(WATCH)
    for _ in range(len(tab.evaluate(UNREACHED)) + 4):
        tab.keyboard.press("Tab")
    assert tab.evaluate(UNREACHED) == []
    assert stage.unnamed() == []
    assert tab.evaluate("window.ran") is None
    assert tab.evaluate("document.querySelectorAll('.mkp script, .mkp svg[onload], .mkp [onerror]').length") == 0
    assert tab.locator(".mkp .pic > svg").get_attribute("aria-label") == panel.view.words
    assert tab.evaluate(BEYOND) == []
    tab.locator(".mkp button", has_text="?").press("?")
    assert tab.get_by_role("table", name="Keys, outside of a text").is_visible()
    assert len(stage.addresses) > 3
    assert [address for address in stage.addresses if not address.startswith(("http://127.0.0.1:", "data:"))] == []


def test_nothing_is_without_a_name_in_any_tab_of_a_lab(
    stage: Any, corpus: mk.Corpus, search: mk.Retriever, swept: Any
) -> None:
    lab = mk.panels.lab(corpus, search, f"пул {ATTACK}", LABELS, RELEVANT, as_of=DAY, sweep=swept)
    tab = stage.show(lab.view)
    tab.get_by_role("tab", name="search").focus()
    for name in lab.names:
        assert tab.locator("[aria-label=panels] [aria-selected=true]").inner_text() == name
        assert stage.unnamed() == []
        stage.press("ArrowRight")


CHANGED = "([place, before]) => document.querySelector(place).innerHTML !== before"


@pytest.mark.parametrize(
    ("policy", "name", "key"),
    [("quota", "max facts", "Home"), ("expiry", "grace days", "PageUp"), ("admission", "min chars", "End")],
)
def test_a_policy_is_followed_through_its_days_by_keys(
    stage: Any, corpus: mk.Corpus, policy: str, name: str, key: str
) -> None:
    panel = mk.panels.policy(corpus, policy, as_of=DAY)
    tab = stage.show(panel.view)
    picture, table = tab.locator(".pic").inner_html(), tab.locator(".body").inner_html()
    tab.get_by_label("forward, days, number").focus()
    stage.press("Control+a", "6", "2", "Enter")
    assert panel.values["forward"] == 62
    assert "2026-05-02" in tab.locator(".said").inner_text()
    ahead = tab.locator(".body").inner_html()
    assert (ahead == table) == (policy == "admission")  # which knows no days
    tab.get_by_label(name, exact=True).focus()
    stage.press(key)
    tab.wait_for_function(CHANGED, arg=[".pic", picture])
    tab.wait_for_function(CHANGED, arg=[".body", ahead])  # at rest all is worked out
    stage.settle()
    tab.get_by_role("button", name="Keys ?").focus()
    stage.press("z", "z")
    assert (panel.values["forward"], tab.locator(".body").inner_html()) == (0, table)


def test_a_slider_is_moved_by_keys_and_the_picture_follows(stage: Any, search: mk.Retriever) -> None:
    panel = mk.panels.decay(search, as_of=DAY)
    tab = stage.show(panel.view)
    before = tab.locator(".pic").inner_html()
    tab.get_by_label("decay days", exact=True).focus()
    stage.press("ArrowRight", "ArrowRight")
    assert panel.params["decay_days"] == 62.0
    assert tab.locator(".pic").inner_html() != before
    assert tab.get_by_label("decay days, number").input_value() == "62"
    assert isinstance(panel.result, pa.Table)
    stage.press("0")
    tab.evaluate("() => new Promise((on) => setTimeout(on, 260))")  # a rest that was waited for is forgotten
    stage.settle()
    assert panel.params["decay_days"] == 60.0


def test_search_goes_from_pin_to_verdict_to_both_lists_by_keys(stage: Any, search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", LABELS, RELEVANT, as_of=DAY)
    tab = stage.show(panel.view)
    tab.get_by_label("query", exact=True).focus()
    tab.keyboard.press("Control+a")
    tab.keyboard.type("пул соединений")
    stage.press("Enter")
    assert panel.values["query"] == "пул соединений"
    tab.get_by_role("button", name="Keys ?").focus()
    stage.press("p")
    tab.locator(".more summary", has_text="output").click()
    tab.get_by_label("min score", exact=True).focus()
    stage.press("End")
    assert panel.result.num_rows == 0
    tab.wait_for_function(
        "document.querySelector('.strip').textContent.includes('interval') ||"
        " document.querySelector('.strip').textContent.includes('than pinned')"
    )
    assert panel.strip is not None
    bars = tab.get_by_role("listbox", name="queries by difference")
    bars.get_by_role("option").first.focus()
    stage.press("ArrowRight", "ArrowLeft", "Enter")
    assert panel.values["query"] in LABELS["text"]
    assert panel.values["memory_id"] in RELEVANT["memory_id"]
    assert tab.get_by_role("listbox", name="pinned").get_by_role("option").count() > 0
    assert tab.get_by_role("listbox", name="now").count() == 1
    assert "under the pinned setting" in tab.locator(".mkwhy").inner_text()


COUNT_JUMPS = """(slider) => {
  const own = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  window.jumps = [];
  Object.defineProperty(slider, "value", {
    get: () => own.get.call(slider),
    set: (value) => {
      if (Number(value) !== Number(own.get.call(slider))) jumps.push(value);
      own.set.call(slider, value);
    },
  });
}"""
"""Note whenever anything but the mouse moves the thumb of a slider."""
VERDICT = """(weight) => panel.get("values").vector_weight === weight
  && !document.querySelector(".strip").textContent.includes("when the slider rests")"""


def test_each_drag_ends_in_its_verdict_without_a_jump_and_is_one_step_to_undo(
    stage: Any, search: mk.Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "slowness", 0.015)  # longer than between two moves of the mouse
    monkeypatch.setattr(stage, "rest", 25)
    panel = mk.panels.search(search, "пул", LABELS, RELEVANT, as_of=DAY, k=1)
    panel.press("pin")
    panel.set(vector_weight=0.5)
    tab = stage.show(panel.view)
    slider = tab.get_by_label("vector weight", exact=True)
    tab.evaluate(COUNT_JUMPS, slider.element_handle())
    box = slider.bounding_box()
    n_before = len(panel.history)

    def to(place: float) -> None:
        tab.mouse.move(box["x"] + box["width"] * place, box["y"] + box["height"] / 2)

    for number in range(20):
        # The last drag but one ends where it began, which Chromium does not call a change.
        end = 0.5 if number == 18 else (0.1, 0.9, 0.7)[number % 3]
        to(0.5)
        tab.mouse.down()
        to(0.6)
        to(end)
        tab.mouse.up()
        tab.wait_for_function(VERDICT, arg=float(slider.input_value()))
    assert tab.evaluate("jumps") == []
    assert len(panel.history) - n_before == 20


def test_a_row_keeps_the_focus_when_it_is_opened(stage: Any, search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    tab = stage.show(panel.view)
    tab.locator(".body tr[data-pick]").first.focus()
    stage.press("ArrowDown", "Enter")
    second = panel.result["memory_id"][1].as_py()
    assert panel.values["memory_id"] == second
    assert tab.evaluate("document.activeElement.dataset.pick") == f"memory:{second}"


def test_arrows_walk_the_surface_but_move_a_slider_that_has_the_focus(stage: Any, swept: Any) -> None:
    panel = mk.panels.surface(swept)
    panel.set(vector_weight=0.0, min_score=0.0)
    tab = stage.show(panel.view)
    tab.get_by_role("group", name="picture: arrow keys walk in it").focus()
    stage.press("ArrowRight", "ArrowRight", "ArrowUp")  # by way of the setting in use
    assert panel.params == {"vector_weight": 0.5, "min_score": 0.2}
    tab.get_by_label("min score", exact=True).focus()
    stage.press("ArrowLeft")
    assert panel.params["vector_weight"] == 0.5
    assert panel.params["min_score"] < 0.2
    tab.locator(".body tr[data-pick]").first.focus()
    stage.press("Enter")
    assert panel.current_index == swept.best


def test_pairs_and_memories_are_judged_by_single_keys(
    stage: Any, corpus: mk.Corpus, search: mk.Retriever, tmp_path: Path
) -> None:
    alike = [f"Пул соединений вырос {word} до десяти." for word in ("вчера", "сегодня", "снова", "опять")]
    pairs = mk.panels.dedup(mk.Deduplicator(encoder=None, lexical_floor=0.1).fit(pa.table({"text": alike})))
    tab = stage.show(pairs.view)
    tab.get_by_role("button", name="Keys ?").focus()
    stage.press("x", "s", "d", "b", "c")
    assert pairs.labels["label"].to_pylist() == ["duplicate", "contradiction"]
    assert "precision" in tab.locator(".said").inner_text() or "judged" in tab.locator(".said").inner_text()
    chosen = tab.locator(".body tr[data-pick]").nth(1)
    wanted = chosen.get_attribute("data-pick")
    tab.locator(".body tr[data-pick]").first.focus()
    stage.press("ArrowDown", "Enter")
    assert pairs.pair is not None
    assert {pairs.pair["a_id"], pairs.pair["b_id"]} == set(wanted.split("\x1f"))

    path = tmp_path / "qrels.parquet"
    judge = mk.panels.judge(search, LABELS, path, as_of=DAY)
    tab = stage.show(judge.view)
    tab.get_by_role("button", name="Keys ?").focus()
    stage.press("2", "s", "0", "b")
    assert judge.result["relevance"].to_pylist() == [2.0]
    assert mk.labels.read_qrels(path)["relevance"].to_pylist() == [2.0]


def test_a_policy_judges_typed_text_and_a_context_shows_its_cut(
    stage: Any, corpus: mk.Corpus, search: mk.Retriever
) -> None:
    panel = mk.panels.policy(corpus, "admission", as_of=DAY)
    tab = stage.show(panel.view)
    tab.get_by_label("text", exact=True).focus()
    tab.keyboard.type(f"Почему {ATTACK} сломалось?")
    stage.press("Enter")
    assert panel.result["reason"].to_pylist() == ["question"]
    assert tab.locator(".body mark").inner_text() == "Почему"
    assert tab.evaluate("window.ran") is None

    prompt = mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message="пул", as_of=DAY)
    tab = stage.show(prompt.view)
    tab.get_by_label("profile chars, number").focus()
    tab.keyboard.press("Control+a")
    tab.keyboard.type("40")
    stage.press("Enter")
    assert prompt.params["profile_chars"] == 40
    assert tab.get_by_role("region", name="the prompt").inner_text().strip() == prompt.answer.text.strip()
    assert "limit:" in tab.locator(".mkcut").first.inner_text()


def test_tabs_of_a_lab_are_walked_by_arrows_over_one_state(stage: Any, corpus: mk.Corpus, search: mk.Retriever) -> None:
    lab = mk.panels.lab(corpus, search, "пул", LABELS, RELEVANT, as_of=DAY)
    tab = stage.show(lab.view)
    tab.get_by_role("tab", name="search").focus()
    stage.press("ArrowRight", "ArrowRight")
    assert tab.evaluate("document.activeElement.dataset.tab") == "decay"
    tab.get_by_label("decay days", exact=True).focus()
    stage.press("ArrowRight")
    assert lab["search"].params["decay_days"] == 61.0
    tab.get_by_role("tab", name="decay").focus()
    stage.press("Home")
    assert tab.get_by_label("decay days, number").input_value() == "61"
    tab.get_by_role("tab", name="policies").click()
    stage.settle()
    tab.get_by_role("tab", name="admission").focus()
    stage.press("ArrowRight")
    assert tab.evaluate("document.activeElement.dataset.tab") == "classifier"
    tab.get_by_text("nothing to judge here").press("Enter")
    tab.get_by_role("button", name="index_check").press("Enter")
    stage.settle()
    assert tab.get_by_role("button", name="index_check").get_attribute("aria-pressed") == "true"
    assert "there are no entries here" in tab.locator("details.others[open]").inner_text()


def test_a_tab_that_takes_long_to_open_says_so(
    stage: Any, corpus: mk.Corpus, search: mk.Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = mk.panels.lab(corpus, search, "пул", as_of=DAY)
    tab = stage.show(lab.view)
    make, is_said = lab._make, threading.Event()

    def slowly(name: str) -> Any:
        assert is_said.wait(60)
        return make(name)

    monkeypatch.setattr(lab, "_make", slowly)
    tab.get_by_role("tab", name="table", exact=True).click()
    tab.wait_for_function("document.querySelector('.said').innerText.startsWith('opening table')")
    is_said.set()
    stage.settle()
    assert tab.locator(".said").inner_text().startswith(f"{len(TEXTS)} rows")


def test_what_is_refused_is_said_and_the_page_goes_on(stage: Any, search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    tab = stage.show(panel.view, width=700, dark=True)
    assert "dark" in tab.locator(".mkp").get_attribute("class")
    tab.get_by_label("where", exact=True).focus()
    tab.keyboard.type("foo bar")
    stage.press("Enter")
    assert "wrong" in tab.locator(".said").get_attribute("class")
    assert tab.get_by_label("where", exact=True).input_value() == "foo bar"
    stage.press("Control+a", "Delete", "Enter")
    assert tab.locator(".said").get_attribute("class") == "said"
    high = tab.evaluate("document.querySelector('.pic').getBoundingClientRect().top")
    tab.get_by_label("k", exact=True).focus()
    stage.press("ArrowRight")
    assert tab.evaluate("document.querySelector('.pic').getBoundingClientRect().top") == high


def test_presets_and_profiles_are_set_by_keys(stage: Any, search: mk.Retriever, tmp_path: Path) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    tab = stage.show(panel.view)
    tab.locator("details.profile summary").press("Enter")
    tab.get_by_label("preset", exact=True).select_option("workspace")
    stage.settle()
    assert panel.params["normalize"] == "max"
    tab.get_by_label("profile file, TOML or JSON").fill(str(tmp_path / "mine.toml"))
    tab.get_by_role("button", name="Save profile").press("Enter")
    tab.wait_for_function("document.querySelector('.said').textContent.startsWith('Saved')")
    panel.reset()
    tab.evaluate("again()")
    tab.get_by_role("button", name="Load profile").press("Enter")
    stage.settle()
    assert panel.params["normalize"] == "max"


def test_an_automatic_value_is_said_and_the_slider_starts_there(stage: Any, search: mk.Retriever) -> None:
    panel = mk.panels.search(search, "пул", as_of=DAY)
    weight, ids = panel.automatic["vector_weight"], panel.result["memory_id"].to_pylist()
    tab = stage.show(panel.view)
    assert f"auto = {weight:g}" in tab.locator(".set").inner_text()
    tab.get_by_label("vector weight: automatic").focus()
    stage.press(" ")
    assert panel.params["vector_weight"] == weight
    assert panel.result["memory_id"].to_pylist() == ids  # so that the list stays as it was
    assert float(tab.get_by_label("vector weight", exact=True).input_value()) == weight
    assert tab.get_by_label("pool, chunks", exact=True).is_hidden()
    tab.locator(".more summary", has_text="arms").click()
    assert tab.get_by_label("pool, chunks", exact=True).is_visible()
    assert tab.get_by_label("rrf k", exact=True).count() == 0
    tab.get_by_label("fusion", exact=True).focus()
    tab.get_by_label("fusion", exact=True).select_option("rrf")
    stage.settle()
    assert tab.get_by_label("rrf k", exact=True).is_visible()  # and the group is open still
    assert tab.evaluate("document.activeElement.tagName") == "SELECT"


def test_keys_work_where_a_panel_was_clicked_and_the_text_stands_at_its_chunk(stage: Any) -> None:
    lines = [f"Строка {number} о погоде, дороге и обеде в столовой." for number in range(60)]
    lines[40] = "Пароль от сейфа лежит у бухгалтера."
    search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a"], "text": ["\n".join(lines)]}))
    panel = mk.panels.judge(search, {"query_id": ["q"], "text": ["бухгалтер"]}, as_of=DAY)
    tab = stage.show(panel.view)
    frame = tab.locator(".mkjudged")
    chunk, box = tab.locator("[data-scroll]").bounding_box(), frame.bounding_box()
    assert chunk is not None
    assert box is not None
    assert box["height"] < 400
    assert box["y"] <= chunk["y"] < box["y"] + box["height"]
    tab.locator(".mkasked").click()
    stage.press("2")
    assert panel.result["relevance"].to_pylist() == [2.0]


def test_the_button_in_the_text_does_what_it_says(stage: Any) -> None:
    rows = {"text": ["чай", "кофе"], "kind": ["note"] * 2, "created_at": ["2026-01-01"] * 2}
    panel = mk.panels.decay(mk.Retriever(encoder=None).fit(mk.from_table(rows)), as_of=DAY)
    tab = stage.show(panel.view)
    tab.get_by_role("button", name="Let every kind decay").focus()
    stage.press("Enter")
    assert panel.params["decay_kinds"] == ("*",)
