"""Each panel in JupyterLab as `memkit lab` opens it: a key moves it, and picture, table and Python follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import memkit as mk

pytest.importorskip("playwright", reason="the extra test brings it")
from playwright.sync_api import Locator, expect

TITLE = "Память бота"
FIRST = f"{TITLE.replace(' ', '-')}.ipynb"
"""The notebook that `memkit lab` writes, of a text and three cells of code."""
CELLS = (
    """data, mine = mk.sample_data(), corpus
corpus = mk.read(data, as_of="2026-03-01")
search = mk.Retriever(encoder=None).fit(corpus)
labels, moment = (data / "queries.csv", data / "qrels.csv"), "2026-03-01\"""",
    'found = mk.panels.search(search, "чай", *labels, as_of=moment); found',
    "ages = mk.panels.decay(search, as_of=moment); ages",
    "pairs = mk.panels.dedup(mk.Deduplicator(encoder=None).fit(corpus)); pairs",
    'rows = mk.panels.policy(corpus, "admission", as_of=moment); rows',
    'prompt = mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message="чай", as_of=moment); prompt',
    """grid = {"min_score": [0.0, 0.2, 0.4], "decay": ["none", "e_folding"]}
swept = mk.sweep(search, *labels, grid, unjudged="apart")
tried = mk.panels.surface(swept); tried""",
    "judged = mk.panels.judge(search, labels[0], as_of=moment); judged",
    'every = mk.panels.lab(corpus, search, "чай", as_of=moment); every',
    "%%memsql corpus\nselect 'цвет ' || count(*) as colour from memories",
    "%memsearch -s search зелёный чай",
    """near = mk.Retriever(encoder="hash").fit(corpus)
drawn = mk.panels.map(near, projection="pca", as_of=moment); drawn""",
)


@pytest.fixture(scope="module")
def driver(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("lab/driver.py")


@pytest.fixture(scope="module")
def server(browser: str, driver: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    memories = tmp_path_factory.mktemp("mine") / TITLE
    mk.testing.write_files(memories, {"MEMORY.md": "# Чай\nЗелёный, без сахара.\n\n# Кофе\n<b>Не</b> пьёт вечером.\n"})
    started = driver.Lab(tmp_path_factory.mktemp("copy"), memories, tmp_path_factory.mktemp("jupyter"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def page(browser: str, driver: ModuleType) -> Iterator[Any]:
    with driver.chromium(browser) as opened:
        yield opened


@pytest.fixture(scope="module")
def notebook(server: Any, page: Any, driver: ModuleType) -> Iterator[Any]:
    """The first notebook with the cells after its own: one page and one kernel for all."""
    server.wait()
    driver.write_notebook(server.folder / FIRST, CELLS)
    opened = driver.Notebook(server, page, FIRST)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def picture_of_a_failure(request: pytest.FixtureRequest, notebook: Any, tmp_path: Path) -> Iterator[None]:
    """What the page shows where a test fails, to be looked at."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before:
        notebook.page.screenshot(path=tmp_path / "page.png")


PATIENCE = 60_000
"""Milliseconds: only a test that fails waits so long."""
DRAWN = """(panel, [before, patience]) => new Promise((drawn, failed) => {
  const end = performance.now() + patience;
  const look = () => {
    if (panel.querySelector("output.said").dataset.n !== before && !panel.matches(".busy")) drawn();
    else if (performance.now() > end) failed(new Error(`not drawn: ${panel.innerText}`));
    else setTimeout(look, 5);
  };
  look();
})"""
"""A panel that is drawn anew, and at rest."""


def drawing_of(panel: Locator) -> tuple[str | None, str, str]:
    """How often it was drawn, its picture and its table."""
    n_drawn = panel.locator("output.said").get_attribute("data-n")
    return n_drawn, panel.locator(".pic").inner_html(), panel.locator(".body").inner_html()


def press(panel: Locator, control: Locator, key: str) -> tuple[bool, bool]:
    """Press a key; whether picture and table are others then."""
    _, picture_before, table_before = before = drawing_of(panel)
    control.focus()
    control.press(key)
    panel.evaluate(DRAWN, [before[0], PATIENCE])
    _, picture_after, table_after = drawing_of(panel)
    return picture_after != picture_before, table_after != table_before


def slider(panel: Locator, name: str) -> Locator:
    """The slider of a parameter, those that are not shown at first opened."""
    panel.locator("details.more").evaluate_all("all => all.forEach((one) => (one.open = true))")
    return panel.get_by_role("slider", name=re.compile(f"^{name}"))


def test_a_folder_of_ones_own_runs_from_its_first_cell(notebook: Any) -> None:
    panel = notebook.panel("search")
    assert notebook.python("mine.memories.num_rows") == 2
    press(panel, slider(panel, "k"), "ArrowRight")
    assert notebook.page.locator("text=Traceback").count() == 0


@pytest.mark.parametrize(
    ("title", "variable", "name", "key"),
    [
        ("search", "found", "mmr_lambda", "Home"),
        ("decay", "ages", "decay_days", "Home"),
        ("dedup", "pairs", "lexical_threshold", "End"),
        ("admission", "rows", "min_chars", "PageUp"),
        ("context", "prompt", "relevant_chars", "Home"),
    ],
)
def test_a_slider_moves_picture_table_and_python(notebook: Any, title: str, variable: str, name: str, key: str) -> None:
    panel = notebook.panel(title, nth=int(title == "search"))  # after that of one's own folder
    before = notebook.python(f"{variable}.values[{name!r}]")
    handle = slider(panel, name.replace("_", " "))
    picture, table = press(panel, handle, key)
    after = notebook.python(f"{variable}.values[{name!r}]")
    assert after != before
    assert float(handle.input_value()) == after
    assert (picture, table) == (True, True)


def test_arrows_walk_over_the_settings_of_a_sweep(notebook: Any) -> None:
    panel = notebook.panel("surface")
    before = notebook.python("tried.params")
    press(panel, panel.get_by_role("button", name=re.compile(r"\?")), "ArrowRight")
    after = notebook.python("tried.params")
    assert (before["min_score"], after) == (0.0, {**before, "min_score": 0.2})


def test_a_key_judges_one_memory(notebook: Any) -> None:
    panel = notebook.panel("judge")
    query, memory = notebook.python("judged.pair")
    picture, table = press(panel, panel.get_by_role("button", name=re.compile(r"\?")), "2")
    row = notebook.python("judged.result.to_pylist()[0]")
    assert (row["query_id"], row["memory_id"], row["relevance"]) == (query, memory, 2)
    assert (picture, table) == (True, True)


def test_all_panels_share_one_state_under_one_roof(notebook: Any) -> None:
    panel = notebook.panel("search", nth=2)
    press(panel, slider(panel, "mmr lambda"), "Home")
    assert notebook.python(
        "(every['search'].params['mmr_lambda'], every.session.state['retriever']['mmr_lambda'])"
    ) == (
        0.0,
        0.0,
    )


def test_a_cell_of_sql_and_a_line_of_search_show_their_tables(notebook: Any) -> None:
    cells = notebook.page.locator(".jp-Notebook-cell")
    rows = notebook.python("corpus.memories.num_rows")
    expect(cells.nth(4 + 9).locator("td")).to_have_text([f"цвет {rows}"])
    expect(cells.nth(4 + 10).locator("mark").first).to_have_text(re.compile("чай|зел", re.IGNORECASE))


def test_a_lasso_on_the_map_chooses_memories_and_nothing_comes_from_outside(notebook: Any) -> None:
    panel = notebook.panel("map")
    canvas = panel.locator(".live canvas").first
    panel.get_by_title("Activate lasso selection").click()
    box = canvas.bounding_box()
    assert box is not None
    mouse = notebook.page.mouse
    corners = ((0.2, 0.1), (0.8, 0.1), (0.8, 0.9), (0.2, 0.9), (0.2, 0.12))
    for number, (across, down) in enumerate(corners):
        mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=2)
        if not number:
            mouse.down()
    mouse.up()
    expect(panel.locator("output.said")).to_contain_text("chosen")
    chosen = notebook.python("drawn.result.num_rows")
    assert 0 < chosen < notebook.python("corpus.memories.num_rows")
    assert panel.locator("output.said").inner_text().startswith(f"{chosen:,} of")
    assert panel.locator(".body tbody tr").count() == min(chosen, 25)
    addresses = notebook.page.evaluate("() => performance.getEntriesByType('resource').map(({ name }) => name)")
    assert [address for address in addresses if not address.startswith(("http://127.0.0.1", "data:", "blob:"))] == []


def test_the_map_of_a_lab_has_points_too_and_keeps_them_while_another_tab_is_shown(notebook: Any) -> None:
    notebook.panel("search", nth=2)
    rows = notebook.python("every['map'].result.num_rows")  # the kernel lays the map out, before a page waits for it
    lab = notebook.page.locator("section.mkp", has=notebook.page.get_by_role("tablist", name="panels")).nth(1)
    for name in ("map", "table", "map"):
        lab.get_by_role("tab", name=name).press("Enter")
        expect(lab).to_have_attribute("aria-label", name)
        expect(lab.locator(".live canvas").first).to_be_attached(attached=name == "map")
    assert lab.locator(".pic > svg").count() == 0
    assert lab.locator(".body tbody tr").count() == rows


def test_each_label_names_a_control_of_its_own_panel(notebook: Any) -> None:
    """Panels on one page: an id is there once, so that no label speaks of another panel's slider."""
    notebook.panel("judge")
    ids = notebook.page.evaluate(
        "() => [...document.querySelectorAll('section.mkp [id]:not(.live *)')].map(({ id }) => id)"
    )
    assert len(ids) > 50
    assert len(ids) == len(set(ids))
