"""``memkit lab``: JupyterLab on a copy of the notebooks, beside one that reads the user's folder."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from memkit.cli.common import app, as_path
from memkit.errors import FormatError, MissingExtraError, ParameterError

_WORDS = """# {title}

Run the cells from the top (Shift+Enter). Nothing is written into the folder that is read. The notebooks beside this
one explain what is done here, each on data that comes with memkit; [00_tour](00_tour.ipynb) is the first."""
_READ = """import memkit as mk

%load_ext memkit
corpus = {call}
mk.overview(corpus)"""
_QUERY = """%%memsql corpus
select kind, count(*) as memories, max(created_at) as latest
from memories
group by all
order by memories desc"""
_PANELS = """search = mk.Retriever().fit(corpus)  # the first time, texts are encoded
mk.panels.lab(corpus, search, "what is new?")"""


@app.command()
def lab(
    path: Annotated[
        Path | None,
        typer.Argument(help="As of the other verbs; the sample where there is none.", parser=as_path, metavar="PATH"),
    ] = None,
    into: Annotated[
        Path, typer.Option(help="The folder of the copy; what is there stays.", parser=as_path, metavar="FOLDER")
    ] = Path("~/memkit-lab"),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    port: Annotated[int | None, typer.Option(help="As of jupyter lab; the next free one where it is taken.")] = None,
    ip: Annotated[str | None, typer.Option(help="As of jupyter lab: the address that it listens on.")] = None,
    allow_root: Annotated[bool, typer.Option("--allow-root", help="As of jupyter lab.")] = False,
) -> None:
    """Open JupyterLab (extra lab) on a copy of the notebooks and on one that reads your folder."""
    try:
        from jupyterlab.labapp import LabApp
    except ImportError as error:
        raise MissingExtraError("jupyterlab", "lab") from error
    home = into.expanduser().resolve()
    first = copy_notebooks(path, home)
    print(f"notebooks in {home}, {first.name} to begin with", flush=True)
    options = {"--port": port, "--ip": ip}
    LabApp.launch_instance(
        [
            f"--ServerApp.root_dir={home}",
            f"--LabApp.default_url=/lab/tree/{quote(first.name)}",
            *(f"{name}={value}" for name, value in options.items() if value is not None),
            *(["--no-browser"] if no_browser else []),
            *(["--allow-root"] if allow_root else []),
        ]
    )


def copy_notebooks(path: Path | None, home: Path) -> Path:
    """Copy the notebooks to `home`, and write one that reads `path` there; what is there already stays as it is.

    Raises
    ------
    FormatError
        Where there is nothing at `path`.
    ParameterError
        Where `home` lies in `path`, into which nothing is written.
    """
    from memkit.tables.samples import sample_data

    read = None if path is None else path.expanduser().resolve()
    if read is not None and not read.exists():
        raise FormatError(f"lab: expected a folder, a file or a saved corpus. Got {path}, where nothing is.")
    if read is not None and home.is_relative_to(read):
        raise ParameterError(f"--into: expected a folder outside of {read}, where memkit writes nothing. Got {home}.")
    home.mkdir(parents=True, exist_ok=True)
    for notebook in sorted((sample_data().parent / "notebooks").glob("*.ipynb")):
        if not (home / notebook.name).exists():
            shutil.copyfile(notebook, home / notebook.name)
    return _write_first(read, home)


def _write_first(read: Path | None, home: Path) -> Path:
    """The notebook that reads a folder, under the folder's name, or that name and a number where it is another's."""
    from memkit.tables.commit import is_lake

    call = "mk.read(mk.sample_data())"
    if read is not None:
        call = f"mk.{'open' if is_lake(read) else 'read'}({str(read)!r})"
    title = read.name if read and read.name else "sample"
    name = re.sub(r"[^\w.-]+", "-", title)
    text = json.dumps(_notebook(title, call), ensure_ascii=False, indent=1) + "\n"
    source = json.dumps(f"corpus = {call}\n", ensure_ascii=False)
    for number in range(1, 1000):
        target = home / (f"{name}.ipynb" if number == 1 else f"{name}-{number}.ipynb")
        if not target.exists():
            target.write_text(text, encoding="utf-8")
            return target
        if source[1:-1] in target.read_text(encoding="utf-8"):
            return target
    raise ParameterError(f"--into: expected room for another {name}.ipynb. Got a thousand in {home}.")


def _notebook(title: str, call: str) -> dict[str, Any]:
    return {
        "cells": [
            _cell(0, "markdown", _WORDS.format(title=title)),
            _cell(1, "code", _READ.format(call=call)),
            _cell(2, "code", _QUERY),
            _cell(3, "code", _PANELS),
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": f"cell-{number:02d}", "metadata": {}, "source": source.splitlines(True), **run}
