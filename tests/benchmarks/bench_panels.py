"""From a key to the new picture in Chromium: each panel, on the data that ships and on many memories.

    python tests/benchmarks/bench_panels.py [--sizes 100000] [--keys 25] [--only search decay]

The table that it writes to the standard output stands in RESULTS.md; the rest goes beside it.

The widget is in this process and the page talks to it over one local connection, without Jupyter. In milliseconds:
median and 90th percentile of the time from key to the first frame with the new picture (of table and judge, with what
stands below it), as the browser's clock has it; of it, the medians of what Python computes, draws and writes as HTML,
and of the rest: transport, decoding, painting.
"cpu" is what the first three cost in time of the processor, which says more on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

import memkit as mk

HERE = Path(__file__).parent
DAY = "2026-03-01"
_ENDS, _PARTS = ("median", "p90"), ("compute", "draw", "html", "rest")
_SAID = {"search": "search (with a verdict on 46 queries; without labels on 100,000)"}
WATCH = """() => {
  window.timed = []; let start = 0;
  document.addEventListener("keydown", () => (start = performance.now()), true);
  new MutationObserver(() =>
    requestAnimationFrame(() => { if (start) timed.push(performance.now() - start); start = 0; }))
    .observe(document.querySelector(PLACE), { childList: true });
}"""


def module(path: str) -> ModuleType:
    """A script of tests/."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, HERE / path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def many_facts(size: int) -> mk.Corpus:
    """So many facts of 200 users, dated and some expiring, of 12 made words."""
    texts, rng = module("generate.py").texts(size, tokens=12), np.random.default_rng(0)
    day = dt.date.fromisoformat(DAY)
    dates = [(day - dt.timedelta(days=int(age))).isoformat() for age in rng.integers(1500, size=size)]
    ends = [(day + dt.timedelta(days=int(days))).isoformat() for days in rng.integers(-100, 400, size=size)]
    return mk.from_table(
        pa.table(
            {
                "memory_id": [f"m{i}" for i in range(size)],
                "text": texts,
                "kind": rng.choice(["profile", "working", "archive"], size, p=[0.1, 0.2, 0.7]),
                "importance": rng.choice(["high", "normal", "low"], size, p=[0.1, 0.6, 0.3]),
                "user_id": [f"u{user}" for user in rng.integers(200, size=size)],
                "created_at": dates,
                "expires_at": [end if i % 5 == 0 else None for i, end in enumerate(ends)],
            }
        )
    )


@dataclass(frozen=True)
class Move:
    """What is moved in a panel.

    Attributes
    ----------
    label : str
        Of the slider, or of the button whose key is pressed; empty for the picture.
    keys : tuple of str
        Pressed by turns.
    place : str
        What shows the answer first: the picture, or what is below it.
    """

    label: str
    keys: tuple[str, ...] = ("ArrowRight",)
    place: str = ".pic"

    @property
    def is_slider(self) -> bool:
        """Whether a slider is moved."""
        return self.keys == ("ArrowRight",)


def panels(corpus: mk.Corpus, search: mk.Retriever, query: str, labels: tuple[Any, ...]) -> Iterator[tuple[Any, Move]]:
    """Each panel, and what moves much of it."""
    panel = mk.panels.search(search, query, *labels, as_of=DAY)
    panel.press("pin")
    yield panel, Move("vector weight")
    some = corpus.memories.slice(0, 20)
    numbers = [str(i) for i in range(some.num_rows)]
    labelled = labels or (
        {"query_id": numbers, "text": [text[:40] for text in some["text"].to_pylist()]},
        {"query_id": numbers, "memory_id": some["memory_id"].to_pylist(), "relevance": [1] * len(numbers)},
    )
    grid = {"vector_weight": [0.0, 0.2, 0.4, 0.6], "gram_weight": [0.0, 0.1, 0.3]}
    swept = mk.sweep(search, *labelled, grid, as_of=DAY, unjudged="apart")
    yield mk.panels.surface(swept), Move("", ("ArrowRight", "ArrowLeft"))
    yield mk.panels.decay(search, as_of=DAY), Move("decay days")
    yield mk.panels.dedup(mk.Deduplicator(encoder=None).fit(corpus)), Move("lexical threshold, ratio")
    yield mk.panels.policy(corpus, "admission", as_of=DAY), Move("min chars")
    yield mk.panels.policy(corpus, "quota", as_of=DAY), Move("forward, days")
    yield mk.panels.policy(corpus, "expiry", as_of=DAY), Move("forward, days")
    user = {"user_id": "u1"} if corpus.memories.num_rows > 10_000 else {}
    builder = mk.ContextBuilder(retriever=search)
    yield mk.panels.context(corpus, builder, message=query, as_of=DAY, **user), Move("profile chars")
    yield mk.panels.judge(search, labelled[0], as_of=DAY), Move("Skip", ("s",), ".body")
    yield mk.panels.table(corpus), Move("page", place=".body")
    yield mk.panels.map(search, query, as_of=DAY), Move("k")


class Clock:
    """How long methods of a panel take while it is moved, and what they cost the processor.

    A slider that rests has the panel drawn once more, which does not count.
    """

    def __init__(self, panel: Any, is_slider: bool) -> None:
        self.first: dict[str, float] = {}
        self.others: dict[str, float] = {}
        self.panel, self.is_slider = panel, is_slider
        for name, part in (("_answer", "compute"), ("_body", "html"), ("_strip", "html")):
            setattr(panel, name, self._timed(getattr(panel, name), part))
        panel.view._picture_html = self._timed(panel.view._picture_html, "draw")

    def _timed(self, act: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            begin, cost = time.perf_counter(), time.thread_time()
            value = act(*args)
            spent = self.first if self.panel.session.is_moving or not self.is_slider else self.others
            for name, now, begun in ((part, time.perf_counter(), begin), ("cpu", time.thread_time(), cost)):
                spent[name] = spent.get(name, 0.0) + 1000 * (now - begun)
            return value

        return timed


def measured(stage: Any, panel: Any, move: Move, keys: int) -> dict[str, float]:
    """Medians over some keys, each from rest."""
    clock = Clock(panel, move.is_slider)
    tab = stage.show(panel.view)
    stage.settle()
    tab.evaluate(WATCH.replace("PLACE", repr(move.place)))
    if move.is_slider:
        tab.get_by_label(move.label, exact=True).focus()
        tab.keyboard.press("PageDown")
    elif move.label:
        tab.get_by_role("button", name=move.label, exact=True).focus()
    else:
        tab.locator(".pic").focus()
    tab.wait_for_timeout(1500)
    rows = []
    for key, _ in zip(cycle(move.keys), range(keys), strict=False):
        tab.evaluate("timed.length = 0")
        clock.first.clear()
        tab.keyboard.press(key)
        tab.wait_for_timeout(200)
        stage.settle()
        tab.wait_for_timeout(100)
        if not tab.evaluate("timed.length"):
            continue  # the picture is the same one
        spent = clock.first
        total = tab.evaluate("timed[0]")
        rest = total - sum(spent.get(name, 0.0) for name in ("compute", "draw", "html"))
        rows.append(
            {
                "total": total,
                **{name: spent.get(name, 0.0) for name in ("compute", "draw", "html", "cpu")},
                "rest": rest,
            }
        )
        tab.wait_for_timeout(300)
        stage.settle()
    rows = rows[2:]  # the first ones fill caches
    if not rows:
        return {}
    totals = [row["total"] for row in rows]
    medians = {name: float(np.median([row[name] for row in rows])) for name in rows[0]}
    return {"median": medians.pop("total"), "p90": float(np.quantile(totals, 0.9)), **medians}


def as_markdown(by_size: dict[int, dict[str, dict[str, float]]], load: float) -> str:
    """The block of RESULTS.md: when and where it was measured, and the table; a size that was not measured is empty."""
    heads = "".join(f" {size:,} memories | computed, drawn, HTML, rest |" for size in by_size)
    lines = [f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d}, {machine()}, load {load:.1f} at the start{priority()}.", ""]
    lines += [f"| panel |{heads}", "|---|" + "---|---|" * len(by_size)]
    for panel in dict.fromkeys(panel for rows in by_size.values() for panel in rows):
        cells = []
        for row in (rows.get(panel, {}) for rows in by_size.values()):
            cells += [", ".join(f"{row[name]:.0f}" for name in names if name in row) for names in (_ENDS, _PARTS)]
        lines.append(f"| {_SAID.get(panel, panel)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor, and how many of it there are."""
    about = Path("/proc/cpuinfo")
    words = about.read_text() if about.exists() else ""
    names = [line.partition(":")[2].strip() for line in words.splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {names[0] if names else platform.processor() or platform.machine()}"


def priority() -> str:
    """Whether this process comes before others, which it may on a machine that they use."""
    is_first = hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER
    return ", at real-time priority" if is_first else ", at raised priority" if os.nice(0) < 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[0, 100_000], help="0 is the data that ships")
    parser.add_argument("--keys", type=int, default=25)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    load, by_size = os.getloadavg()[0], dict[int, dict[str, dict[str, float]]]()
    command = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with module("../panels/stage.py").Stage(command) as stage:
        for size in options.sizes:
            data = mk.sample_data()
            corpus = many_facts(size) if size else mk.read(data, as_of=DAY)
            encoder = module("bench_search.py").WordVectors(256) if size else "use"
            search = mk.Retriever(encoder=encoder).fit(corpus)
            query = corpus.memories["text"][0].as_py().split()[0] if size else "пул соединений"
            labels = () if size else (data / "queries.csv", data / "qrels.csv")
            rows = by_size.setdefault(corpus.memories.num_rows, {})
            print(f"{corpus.memories.num_rows:,} memories, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            print(f"{'panel':12}" + "".join(f"{name:>9}" for name in (*_ENDS, *_PARTS, "cpu")), file=sys.stderr)
            for panel, move in panels(corpus, search, query, labels):
                if not options.only or panel.title in options.only:
                    row = rows[panel.title] = measured(stage, panel, move, options.keys)
                    cells = "".join(f"{row.get(name, float('nan')):9.0f}" for name in (*_ENDS, *_PARTS, "cpu"))
                    print(f"{panel.title:12}{cells}", file=sys.stderr, flush=True)
    print(as_markdown(by_size, load))


TINY = "--sizes 200 --keys 1 --only decay"


if __name__ == "__main__":
    main()
