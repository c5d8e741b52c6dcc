"""Take the README's pictures of panels from JupyterLab, as a user sees them.

    python tests/lab/pictures.py

Look at them before committing: notebooks/pictures/*.png, each below 150 kB.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from driver import Lab, Notebook, chromium, write_notebook

import memkit as mk

TARGET = Path(__file__).parents[2] / "notebooks" / "pictures"
LARGEST = 150_000
WIDE = 1080
CELLS = (
    """import memkit as mk
data, moment = mk.sample_data(), "2026-03-01"
corpus = mk.read(data, as_of=moment)
search = mk.Retriever().fit(corpus)
labels = (data / "queries.csv", data / "qrels.csv")""",
    """panel = mk.panels.search(search, "как настроен пул соединений?", *labels, as_of=moment, k=5)
panel.press("pin"); panel.set(vector_weight=0.7, gram_weight=0.1)
panel""",
    "mk.panels.decay(search.with_params(decay_kinds='*'), as_of=moment)",
    "mk.panels.dedup(mk.Deduplicator().fit(corpus))",
    "mk.panels.context(corpus, mk.ContextBuilder(search), user_id='anna', message='Когда я лечу?', as_of=moment)",
)
SHOWN = {"search": 885, "decay": 620, "dedup": 620, "context": 620}
"""How high the picture of each panel is: that of the search goes down to its verdict."""


def main() -> None:
    """Take them all."""
    command = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if command is None:
        sys.exit("pictures: expected a Chromium on PATH. Got none.")
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, chromium(command) as page:
        places = [Path(scratch) / name for name in ("copy", "jupyter")]
        for place in places:
            place.mkdir()
        lab = Lab(places[0], mk.sample_data(), places[1])
        try:
            page.set_viewport_size({"width": WIDE + 160, "height": 2400})
            write_notebook(places[0] / "pictures.ipynb", CELLS)
            notebook = Notebook(lab, page, "pictures.ipynb")
            for title, high in SHOWN.items():
                panel = notebook.panel(title)
                panel.evaluate("one => one.scrollIntoView({ block: 'start' })")
                box = panel.bounding_box()
                assert box is not None
                clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": min(high, box["height"])}
                page.screenshot(path=TARGET / f"{title}.png", clip=clip)
                size = (TARGET / f"{title}.png").stat().st_size
                print(f"{title}.png: {size:,} bytes{'' if size < LARGEST else ', too large'}")
        finally:
            lab.close()


if __name__ == "__main__":
    main()
