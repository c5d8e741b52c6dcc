"""Photograph every panel and every page in Chromium, narrow and wide, light and dark, to be looked at.

    python tests/lab/photographs.py FOLDER [--size 100000] [--only search overview]

A file for each, ``search-700-dark.png``. With `--size`, the panels show so many invented memories, and no pages are
made. The standard output says for each panel what Tab reaches, in order, with role, name and whether the focus is seen,
and which addresses were loaded that are not this machine's. `tests/lab/pictures.py` takes those of the README.
"""

from __future__ import annotations

import argparse
import html
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memkit as mk
from memkit.display.draw import shown as as_shown
from memkit.display.draw import write_page

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # scripts there take from each other
from bench_panels import many_facts, module

DAY = "2026-03-01"
WIDTHS = (700, 1300)
QUERY = "как настроен пул соединений?"
FOCUSED = """() => {
  const one = document.activeElement, seen = getComputedStyle(one);
  if (one === document.body) return "";
  const label = one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent;
  const kind = one.getAttribute("role") ?? one.type ?? one.tagName.toLowerCase();
  const is_seen = seen.outlineStyle !== "none" && parseFloat(seen.outlineWidth) > 0;
  return `${kind} “${label.trim().replace(/\\s+/g, " ").slice(0, 40)}”${is_seen ? "" : " FOCUS NOT SEEN"}`;
}"""
MOST_STOPS = 120


def panels(size: int) -> dict[str, Callable[[], Any]]:
    """Each panel by its name, made when it is asked for."""
    data = mk.sample_data()
    corpus = many_facts(size) if size else mk.read(data, as_of=DAY)
    encoder: Any = module("bench_search.py").WordVectors(256) if size else "use"
    search = mk.Retriever(encoder=encoder).fit(corpus)
    query = " ".join(corpus.memories["text"][0].as_py().split()[:2]) if size else QUERY
    labels = () if size else (data / "queries.csv", data / "qrels.csv")
    user = {"user_id": "u1" if size else "anna"}
    dedup = mk.Deduplicator(encoder=None) if size else mk.Deduplicator()

    def pinned() -> Any:
        panel = mk.panels.search(search, query, *labels, as_of=DAY)
        panel.press("pin")
        panel.set(vector_weight=0.7, gram_weight=0.1)
        panel.pick(f"memory:{panel.result['memory_id'][0].as_py()}")
        return panel

    def surface() -> Any:
        grid = {"vector_weight": [0.0, 0.2, 0.4, 0.6], "gram_weight": [0.0, 0.1, 0.3]}
        return mk.panels.surface(mk.sweep(search, *labels, grid, as_of=DAY, unjudged="apart"))

    every: dict[str, Callable[[], Any]] = {
        "search": pinned,
        "decay": lambda: mk.panels.decay(search.with_params(decay_kinds="*"), as_of=DAY),
        "dedup": lambda: mk.panels.dedup(dedup.fit(corpus)),
        **{name: lambda name=name: mk.panels.policy(corpus, name, as_of=DAY) for name in ("admission", "classifier")},
        **{name: lambda name=name: mk.panels.policy(corpus, name, as_of=DAY) for name in ("quota", "expiry")},
        "context": lambda: mk.panels.context(corpus, mk.ContextBuilder(search), message=query, as_of=DAY, **user),
        "table": lambda: mk.panels.table(corpus),
        "map": lambda: mk.panels.map(search, query, as_of=DAY),
    }
    if not size:
        every["surface"] = surface
        every["judge"] = lambda: mk.panels.judge(search, labels[0], as_of=DAY)
    every["lab"] = lambda: mk.panels.lab(corpus, search, query, *labels, as_of=DAY)
    return every


def pages() -> dict[str, Callable[[Path], Any]]:
    """What writes each page, by its name: reports, and results as a notebook shows them."""
    data = mk.sample_data()
    corpus = mk.read(data, as_of=DAY)
    search = mk.Retriever().fit(corpus)
    labels = (data / "queries.csv", data / "qrels.csv")
    best = search.search(QUERY, k=1, as_of=DAY)["memory_id"][0].as_py()

    def page_of(make: Callable[[], Any], *plots: Callable[[Any], Any]) -> Callable[[Path], Any]:
        """The page of a result as a notebook shows it, with its pictures."""

        def write(path: Path) -> None:
            result = make()
            if isinstance(result, str):
                body = f"<pre>{html.escape(result)}</pre>"
            else:
                body = (result if hasattr(result, "_repr_html_") else as_shown(result))._repr_html_()
            write_page(path, path.stem, body + "".join(plot(result).in_html() for plot in plots))

        return write

    grid = {"vector_weight": [0.0, 0.2, 0.4], "gram_weight": [0.0, 0.1]}
    weak = search.with_params(vector_weight=0.0)
    return {
        "overview": lambda path: mk.overview(corpus, as_of=DAY).report(path),
        "digest": lambda path: mk.digest(corpus, since="2026-02-01", until=DAY).report(path),
        "evaluate": lambda path: mk.evaluate(search, *labels, as_of=DAY).report(path),
        "compare": lambda path: mk.compare(weak, search, *labels, as_of=DAY).report(path),
        "sweep": lambda path: mk.sweep(search, *labels, grid, as_of=DAY, unjudged="apart").report(path),
        "tune": lambda path: mk.tune(search, *labels, {"pool": [20, 50]}, as_of=DAY, unjudged="apart").report(path),
        "audit": lambda path: mk.audit(search, n=100, as_of=DAY).report(path),
        "corpus": page_of(lambda: corpus),
        "hits": page_of(lambda: search.search(QUERY, k=5, as_of=DAY)),
        "explain": page_of(lambda: mk.explain(search, QUERY, best, as_of=DAY)),
        "trace": page_of(lambda: search.trace(QUERY, as_of=DAY), mk.plot.funnel, mk.plot.contributions),
        "problems": page_of(lambda: corpus.problems),
        "built": page_of(
            lambda: mk.ContextBuilder(search).build(corpus, "anna", "что с пулом?", as_of=DAY), mk.plot.budgets
        ),
        "topics": page_of(lambda: mk.topics(search, as_of=DAY), lambda topics: topics.plot()),
        "timeline": page_of(lambda: mk.timeline(search, "пул соединений", as_of=DAY), lambda dated: dated.plot()),
        "map-plot": page_of(lambda: search, lambda search: mk.plot.map(search, query=QUERY, as_of=DAY)),
    }


def stops(tab: Any) -> list[str]:
    """What Tab reaches, from the top."""
    reached: list[str] = []
    tab.evaluate("document.activeElement.blur()")
    for _ in range(MOST_STOPS):
        tab.keyboard.press("Tab")
        now = tab.evaluate(FOCUSED)
        if not now:
            break
        reached.append(now)
    return reached


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    command = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if command is None:
        sys.exit("photographs: expected a Chromium on PATH. Got none.")
    options.folder.mkdir(parents=True, exist_ok=True)
    mark = f"-{options.size}" if options.size else ""
    looks = [(width, is_dark) for width in WIDTHS for is_dark in (False, True)]
    with module("../panels/stage.py").Stage(command) as stage, tempfile.TemporaryDirectory() as scratch:
        for name, make in panels(options.size).items():
            if options.only and name not in options.only:
                continue
            panel = make()
            for width, is_dark in looks:
                tab = stage.show(panel.view, width=width, height=900, dark=is_dark)
                tab.wait_for_timeout(500)
                tab.screenshot(path=options.folder / _file(name + mark, width, is_dark), full_page=True)
            print(f"{name}{mark}: Tab reaches {'; '.join(stops(tab))}", flush=True)
            _say_outside(name, stage.addresses)
        for name, write in {} if options.size else pages().items():
            if options.only and name not in options.only:
                continue
            path = Path(scratch) / f"{name}.html"
            write(path)
            for width, is_dark in looks:
                addresses = stage.photograph(path, options.folder / _file(name, width, is_dark), width, is_dark)
            print(f"{name}: {path.stat().st_size:,} bytes", flush=True)
            _say_outside(name, addresses)


def _file(name: str, width: int, is_dark: bool) -> str:
    return f"{name}-{width}-{'dark' if is_dark else 'light'}.png"


def _say_outside(name: str, addresses: list[str]) -> None:
    outside = [
        address for address in addresses if not address.startswith(("http://127.0.0.1:", "file://", "data:", "blob:"))
    ]
    print(f"{name}: {len(addresses)} addresses, of them from outside: {outside}", flush=True)


if __name__ == "__main__":
    main()
