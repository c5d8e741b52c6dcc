"""Run notebooks and write them back with their outputs: the only way in which a notebook's outputs are made.

    python tests/notebooks/refresh.py                        # all of notebooks/
    python tests/notebooks/refresh.py notebooks/00_tour.ipynb

Write or edit a notebook in JupyterLab (outputs do not matter then), run this, look at the diff, commit. Twice the same
notebook gives twice the same bytes: what a run adds by chance is taken out (see `cleaned`), and outputs go through the
rules of notebooks/.nbval.cfg, by which nbval compares them in the tests.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbval.plugin import get_sanitize_patterns

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_PICTURE = "data:image/png;base64,"
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_PATTERNS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in get_sanitize_patterns((NOTEBOOKS / ".nbval.cfg").read_text(encoding="utf-8"))
    if _PICTURE not in pattern
]


def refreshed(path: Path) -> str:
    """The notebook in `path` as JSON, run from the top in a kernel of its own, in its own folder.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        Where a cell fails that has no tag raises-exception; the file is left as it was.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
    )
    os.environ["TQDM_DISABLE"] = "1"  # a bar says how busy the machine was
    client.execute()
    return as_text(cleaned(notebook))


def cleaned(notebook: Any) -> Any:
    """A copy without what a run adds by chance or a tool by habit: only content, tags and sanitised outputs stay."""
    result = copy.deepcopy(notebook)
    result.metadata = nbformat.from_dict(METADATA)
    result.nbformat, result.nbformat_minor = 4, 5
    for number, cell in enumerate(result.cells):
        cell.id = f"cell-{number:02d}"
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        cell.source = cell.source.rstrip()
        for output in cell.get("outputs", []):
            _clean_output(output)
    return result


def _clean_output(output: Any) -> None:
    if "metadata" in output:
        output.metadata = nbformat.from_dict({})
    if "text" in output:
        output.text = sanitised(output.text)
    data = output.get("data", {})
    # Without its kernel a view shows an error; what is left is the widget's text. nbval leaves views out as well.
    data.pop(_WIDGET_VIEW, None)
    if _PICTURE in data.get("text/html", ""):
        data.pop("image/png", None)  # a panel has it within its page
    for kind, content in data.items():
        if isinstance(content, str) and not kind.startswith(("image/png", "image/jpeg")):
            data[kind] = sanitised(content)


def sanitised(text: str) -> str:
    """`text` after the rules of notebooks/.nbval.cfg."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def as_text(notebook: Any) -> str:
    """The notebook as JSON, as it lies in the repository."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def main() -> None:
    """Refresh the notebooks that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every notebook in notebooks/")
    named = parser.parse_args().notebooks
    if not named:
        from reference import TARGET, notebook_json  # the script beside this one

        TARGET.write_text(notebook_json(), encoding="utf-8", newline="\n")
    for path in named or sorted(NOTEBOOKS.glob("*.ipynb")):
        text = refreshed(path)
        changed = text != path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8", newline="\n")
        print(f"{path.name}: {'changed' if changed else 'as it was'}")


if __name__ == "__main__":
    main()
