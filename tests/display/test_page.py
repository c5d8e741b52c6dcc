"""Results in a real browser: no page is wider than its window, and nothing in a text has run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.display.draw import shown

DAY = "2026-03-01"
ATTACK = "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
LONG = "слово" * 60
PROBE = (
    "<script>document.body.dataset.w=document.documentElement.scrollWidth+' '+innerWidth+' '+document.title</script>"
)


@pytest.fixture(scope="module")
def results() -> list[Any]:
    corpus = mk.from_table(
        {
            "text": [f"пул {ATTACK}", f"пул {LONG}", f"{LONG} пул", "пул соединений"],
            "title": [ATTACK, LONG, "b", "c"],
            "user_id": [ATTACK, LONG, "u", "v"],
            "tags": [[ATTACK], [LONG], [], []],
            "path": [f"{ATTACK}.md", f"{LONG}.md", "a/b.md", "c.md"],
            "line_start": [1, 2, 3, 4],
            "kind": ["profile", "working", "archive", "note"],
            "created_at": ["2026-01-01", "2026-02-01", None, "2026-02-02"],
        }
    )
    search = mk.Retriever(encoder=None).fit(corpus)
    wide = pa.table({f"{LONG}{number}": [LONG, ATTACK] for number in range(12)})
    return [
        corpus,
        corpus.memories,
        corpus.problems,
        search.search("пул", as_of=DAY),
        search.trace("пул", as_of=DAY),
        mk.Admission().transform(corpus, as_of=DAY),
        mk.Decay().transform(corpus, as_of=DAY),
        mk.Deduplicator(encoder=None, lexical_floor=0.1).fit(corpus).pairs_,
        mk.replay(corpus, mk.Admission(), mk.Expiry(), as_of=[DAY]),
        mk.forecast(corpus, as_of=DAY),
        mk.ContextBuilder(search).build(corpus, None, "пул", as_of=DAY),
        mk.overview(corpus, as_of=DAY),
        mk.Retriever.describe_params(),
        mk.named_queries(),
        mk.rules(),
        corpus.sql("from memories"),
        wide,
    ]


def test_in_a_browser_nothing_is_wider_than_700_pixels_and_no_text_runs(
    browser: str, results: list[Any], tmp_path: Path
) -> None:
    parts = [result._repr_html_() if hasattr(result, "_sheets") else shown(result)._repr_html_() for result in results]
    page = tmp_path / "page.html"
    head = "<!doctype html><meta charset='utf-8'><title>still</title><body style='margin:10px'>"
    page.write_text(head + "".join(parts) + PROBE, encoding="utf-8")
    process = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=700,900", "--dump-dom", str(page)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    measured = re.search(r'data-w="(\d+) (\d+) (\w+)"', process.stdout)
    assert measured is not None
    assert int(measured[1]) <= int(measured[2]) == 700
    assert measured[3] == "still"
