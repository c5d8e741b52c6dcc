"""What the map keeps of nearness, and what it costs to lay it out, to colour it and to move in it, in JupyterLab.

    python tests/benchmarks/bench_map.py [--size 100000]

The tables that it writes to the standard output stand in RESULTS.md. Laying out and colouring are time of the
processor in the kernel. Moving is a drag of 60 steps: what Chromium's own trace says of the scripts that run in a frame
and of the mouse's events, in milliseconds of the processor; without a graphics card they then wait for another process
to paint, which does not count.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab")]

from bench_panels import machine  # noqa: E402  # found by the path above
from driver import Lab, Notebook, chromium, write_notebook  # noqa: E402  # as well

import memkit as mk  # noqa: E402
from memkit.explore.places import lay_out  # noqa: E402
from memkit.index.encoders.base import unit_means  # noqa: E402

CELLS = (
    """import sys, time
sys.path.insert(0, {here!r})
import memkit as mk
from bench_panels import many_facts
from bench_search import WordVectors
corpus = many_facts({size})
search = mk.Retriever(encoder=WordVectors(256)).fit(corpus)
spent = {{}}
def timed(name, act):
    begin = time.process_time()
    made = act()
    spent[name] = time.process_time() - begin
    return made
panel = timed("laid out, coloured, 25 rows", lambda: mk.panels.map(search, as_of="2026-03-01"))
_ = timed("points with their masked texts", lambda: panel.view)
_ = timed("other colours", lambda: panel.set(color="age"))
_ = timed("other colours again", lambda: panel.set(color="user"))
_ = timed("a group chosen", lambda: panel.set(group=panel.answer.groups.names[0]))
_ = timed("its table of all columns", lambda: panel.result)
_ = timed("a lasso round 20,000", lambda: panel.choose_rows(list(range(20_000))))
panel.press("clear")
words = mk.Retriever(encoder=None).fit(corpus)
_ = timed("laid out without vectors, coloured, 25 rows", lambda: mk.panels.map(words, as_of="2026-03-01"))""",
    "panel",
)
_TRACED = "devtools.timeline,disabled-by-default-devtools.timeline"


def traced(page: Any, act: Any) -> list[dict[str, Any]]:
    """What Chromium's trace says while `act` runs."""
    session, events = page.context.new_cdp_session(page), list[dict[str, Any]]()
    ended: list[bool] = []
    session.on("Tracing.dataCollected", lambda message: events.extend(message["value"]))
    session.on("Tracing.tracingComplete", lambda _: ended.append(True))
    session.send("Tracing.start", {"categories": _TRACED, "transferMode": "ReportEvents"})
    act()
    session.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(100)
    return events


def drag(page: Any, box: dict[str, float]) -> None:
    """From the middle to and fro in 60 steps, a frame or more apart."""
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(60):
        page.mouse.move(x + 90 * np.sin(step / 6), y + 60 * np.cos(step / 9))
        page.wait_for_timeout(20)
    page.mouse.up()


def lengths(events: list[dict[str, Any]], name: str, kind: str = "") -> list[float]:
    """Milliseconds that the events of a name took the processor, on the thread that they ran on."""
    return [
        one["tdur"] / 1000
        for one in events
        if one.get("name") == name and "tdur" in one and (not kind or one["args"].get("data", {}).get("type") == kind)
    ]


def share_kept(vectors: Any, points: Any, most: int = 10) -> float:
    """Of the ten nearest vectors of each, the share that is among the ten nearest points."""
    nearest = [
        NearestNeighbors(n_neighbors=most).fit(one).kneighbors(return_distance=False) for one in (vectors, points)
    ]
    return float(np.mean([len(set(one) & set(other)) / most for one, other in zip(*nearest, strict=True)]))


def kept_of_the_sample() -> list[tuple[str, int, float, float]]:
    """Projections of the sample, by USE and by words: memories, seconds of the processor, and the share that is kept.

    Nearness is that of USE in all; UMAP is tried where it is installed.
    """
    corpus = mk.read(mk.sample_data(), as_of="2026-03-01")
    search = mk.Retriever(encoder="use").fit(corpus)
    by_words, rows = mk.Retriever(encoder=None).fit(corpus), []
    tried = [("pca", "USE", search), ("tsne", "USE", search), ("tsne", "words", by_words)]
    if find_spec("umap") is not None:
        lay_out(search, "umap")  # compiles, which takes half a minute
        tried.append(("umap", "USE", search))
    for method, by, one in tried:
        begin = time.process_time()
        laid = lay_out(one, method)
        seconds = time.process_time() - begin
        index = search.index_.whole
        means, _ = unit_means(index.arms["vector"].vectors_, index.rows.memory)
        rows.append(
            (f"{method}, by {by}", len(laid.points), seconds, share_kept(means[means.any(axis=1)], laid.points))
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    size, load = parser.parse_args().size, os.getloadavg()[0]
    command = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if command is None:
        sys.exit("bench_map: expected a Chromium on PATH. Got none.")
    sample = kept_of_the_sample()
    with tempfile.TemporaryDirectory() as scratch, chromium(command) as page:
        page.set_default_timeout(600_000)
        outside: list[str] = []
        page.on("request", lambda one: outside.append(one.url) if "127.0.0.1" not in one.url else None)
        places = [Path(scratch) / name for name in ("copy", "jupyter")]
        for place in places:
            place.mkdir()
        lab = Lab(places[0], mk.sample_data(), places[1])
        try:
            write_notebook(places[0] / "map.ipynb", [cell.format(here=str(HERE), size=size) for cell in CELLS])
            notebook = Notebook(lab, page, "map.ipynb")
            canvas = page.locator("section.mkp[aria-label=map] .live canvas").first
            canvas.wait_for()
            page.wait_for_timeout(5000)
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box()
            assert box is not None
            drag(page, box)
            events = traced(page, lambda: drag(page, box))
            spent = notebook.python("spent")
            sent = notebook.python("panel.live.widget.points.nbytes")
            notebook.close()
        finally:
            lab.close()
    rows = {
        "script in a frame": lengths(events, "FireAnimationFrame"),
        "a move of the mouse": lengths(events, "EventDispatch", "mousemove"),
        "the 20 longest tasks": sorted(lengths(events, "RunTask"))[-20:],
    }
    print(f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d}, {machine()}, load {load:.1f} at the start.\n")
    print("| projection of the sample | memories | seconds of the processor | of the ten nearest by USE it keeps |")
    print("|---|---|---|---|")
    print("\n".join(f"| {name} | {n} | {spent_on:.2f} | {share:.0%} |" for name, n, spent_on, share in sample))
    print(f"\n{size:,} memories, {sent / 2**20:.1f} MiB of points to the page once; loaded from outside: {outside}.\n")
    print("| in the kernel | seconds of the processor |\n|---|---|")
    print("\n".join(f"| {name} | {seconds:.2f} |" for name, seconds in spent.items()))
    print("\n| a drag over the map, ms of the processor | number | median | p90 | largest |\n|---|---|---|---|---|")
    for name, values in rows.items():
        ends = [np.median(values), np.quantile(values, 0.9), max(values)] if values else []
        print(f"| {name} | {len(values)} | {' | '.join(f'{end:.1f}' for end in ends)} |")


TINY = "--size 200"


if __name__ == "__main__":
    main()
