"""Reports: one page that stands alone, tells no secret, runs nothing but its own script, and sorts by the keyboard."""

from __future__ import annotations

import html.parser
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import memkit as mk
from memkit.cli.app import app_for
from memkit.display.draw import write_page
from memkit.tables.samples import write_files

DAY = "2026-03-01"
_OWN = ("#", "data:image/png;base64,")  # a place in the page, the ramp of a colour bar
KEY = "sk-" + "a1B2" * 8
ATTACK = "</svg><script>document.title='ran'</script><!-- --><img src=x onerror=\"document.title='ran'\">"
TEXTS = ["зелёный чай", "чёрный чай", "пул соединений", f"ключ {KEY}", f"чай {ATTACK}", "порт базы"]


def labels() -> tuple[dict[str, Any], dict[str, Any]]:
    users = [f"u{i} {ATTACK} {KEY}" for i in range(7)]
    texts = ["чай", "пул", "ключ", "порт базы", "чёрный", "зелёный чай", "чай"]
    queries = {"query_id": [f"{ATTACK}{i}" for i in range(7)], "text": texts, "group": users}
    return queries, {"query_id": queries["query_id"], "memory_id": [*"0235104"], "relevance": [1] * 7}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    rows = {"text": TEXTS, "created_at": ["2026-01-01", "2025-06-01"] * 3, "kind": ["archive"] * 6}
    search = mk.Retriever(encoder=None).fit(mk.from_table(rows))
    labelled = {"queries": labels()[0], "qrels": labels()[1], "as_of": DAY}
    swept = mk.sweep(search, grid={"min_score": [0.0, 0.3], "pool": [1, 100]}, **labelled)
    return {
        "evaluate": mk.evaluate(search, **labelled, stages=True),
        "compare": mk.compare(search, search.with_params(decay="none"), **labelled),
        "sweep": swept,
        "tune": mk.tune(search, grid=swept, **labelled),
        "audit": mk.audit(search, as_of=DAY),
    }


class Page(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.acts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        leads = [name for name, value in attrs if name in ("href", "src") and not (value or "").startswith(_OWN)]
        self.acts += [*leads, *(name for name, _ in attrs if name.startswith("on"))]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["evaluate", "compare", "sweep", "tune", "audit"])
def test_the_page_stands_alone_tells_no_secret_and_is_the_same_each_time(
    results: dict[str, Any], name: str, tmp_path: Path
) -> None:
    page = results[name].report(tmp_path / "one.html", title=ATTACK).read_text("utf-8")
    read = Page(page)
    assert read.tags.count("script") == 1
    assert not {"img", "link", "iframe", "object", "a", "foreignobject"} & set(read.tags)
    assert read.acts == []
    assert "http" not in page.replace("http-equiv", "")
    assert KEY not in page
    assert page == results[name].report(tmp_path / "two.html", title=ATTACK).read_text("utf-8")
    pictures = {"evaluate": 1, "compare": 3, "sweep": 2, "tune": 5, "audit": 0}[name]
    assert read.tags.count("svg") == read.tags.count("details") == pictures
    assert page.count("aria-label=") >= pictures


@pytest.mark.quick
def test_only_the_page_s_own_script_is_allowed(tmp_path: Path) -> None:
    sortable = write_page(tmp_path / "a.html", "a", "<p>a</p>", sortable=True).read_text("utf-8")
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", sortable)
    plain = write_page(tmp_path / "b.html", "b", "<p>b</p>").read_text("utf-8")
    assert "script" not in plain


@pytest.mark.quick
def test_a_picture_takes_the_colours_of_the_page() -> None:
    drawn = mk.plot.power().in_html()
    assert "#000000" not in drawn
    assert "currentColor" in drawn
    assert "#ffffff" not in drawn  # its ground is the page's
    assert "20 queries" in drawn  # in words


def browse(browser: str, page: Path, size: str) -> str:
    run = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--window-size={size}",
            "--dump-dom",
            page,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return run.stdout


def test_in_a_browser_headings_sort_and_nothing_else_runs(
    results: dict[str, Any], tmp_path: Path, browser: str
) -> None:
    page = results["sweep"].report(tmp_path / "page.html", title="still")
    dom = browse(browser, page, "700,900")
    assert dom.count('<button type="button">') == dom.count('<th scope="col"')  # so the script ran, under the policy
    probe = """<script>
    const heads = [...document.querySelectorAll('.mk th')], at = heads.findIndex(h => h.textContent === 'ndcg@10');
    const rows = () => [...heads[at].closest('table').tBodies[0].rows].map(r => r.cells[at].textContent).join(' ');
    const button = heads[at].querySelector('button');
    button.focus(); button.click(); const up = rows(); button.click();
    document.body.dataset.told = [document.activeElement === button, up, heads[at].getAttribute('aria-sort'), rows(),
        document.documentElement.scrollWidth <= innerWidth, document.title].join('|');
    </script></body>"""
    text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text("utf-8")).replace("</body>", probe)
    page.write_text(text, encoding="utf-8")
    probed = re.search(r'data-told="([^"]*)"', browse(browser, page, "700,900"))
    focused, up, order, down, fits, title = probed[1].split("|")
    assert (focused, order, fits, title) == ("true", "descending", "true", "still")
    values = np.array(up.split(), float)
    assert (np.diff(values) >= 0).all()
    assert np.array(down.split(), float).tolist() == sorted(values, reverse=True)


def test_the_commands_write_the_page(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "notes", {"MEMORY.md": "# Чай\nзелёный чай\n\n# Кофе\nчёрный кофе утром\n"})
    write_files(tmp_path, {"q.csv": "query_id,text\n1,зелёный\n", "r.csv": "query_id,memory_id,relevance\n1,{id},1\n"})
    memory = mk.read(folder).memories["memory_id"][0].as_py()
    write_files(tmp_path, {"r.csv": f"query_id,memory_id,relevance\n1,{memory},1\n"})
    labelled = ["--queries", str(tmp_path / "q.csv"), "--qrels", str(tmp_path / "r.csv")]
    plain = ["--as-of", DAY, "--set", "encoder=none", "--html", str(tmp_path / "page.html")]
    grid = [*labelled, "--grid", "pool=5,10"]
    for command in (
        ["evaluate", *labelled],
        ["compare", *labelled, "--b", "pool=5"],
        ["audit"],
        ["sweep", *grid],
        ["tune", *grid],
    ):
        (tmp_path / "page.html").unlink(missing_ok=True)
        run = CliRunner().invoke(app_for(command), [command[0], str(folder), *command[1:], *plain])
        assert run.exit_code == 0, run.output
        assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
