"""Where to begin: ``memkit demo``, the sample data from files to explained hits, each step with its Python call, and
``memkit lab``, JupyterLab on a copy of the notebooks, beside one that reads the user's folder."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

import memkit
from memkit.cli.common import as_path, out, show
from memkit.cli.root import app
from memkit.display.sheet import safe, visible
from memkit.errors import FormatError, MissingExtraError, ParameterError


@app.command()
def lab(
    path: Annotated[
        Path | None,
        typer.Argument(help="As for the other verbs; default the sample data.", parser=as_path, metavar="PATH"),
    ] = None,
    into: Annotated[
        Path, typer.Option(help="The folder of the copy; existing files stay.", parser=as_path, metavar="FOLDER")
    ] = Path("~/memkit-lab"),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    port: Annotated[int | None, typer.Option(help="As for jupyter lab; the next free port if it is taken.")] = None,
    ip: Annotated[str | None, typer.Option(help="As for jupyter lab: the address to listen on.")] = None,
    allow_root: Annotated[bool, typer.Option("--allow-root", help="As for jupyter lab.")] = False,
) -> None:
    """Open JupyterLab (extra lab) with a copy of the notebooks, and one that reads your folder."""
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
    """Copy the notebooks to `home`, and write one that reads `path` there; existing files stay as they are.

    Raises
    ------
    FormatError
        Where `path` does not exist.
    ParameterError
        Where `home` lies in `path`, since nothing is written there.
    """
    from memkit.tables.samples import sample_data

    folder = None if path is None else path.expanduser().resolve()
    if folder is not None and not folder.exists():
        raise FormatError(f"lab: expected a folder, a file or a saved corpus. Got {path}, which does not exist.")
    if folder is not None and home.is_relative_to(folder):
        raise ParameterError(f"--into: expected a folder outside of {folder}, where memkit writes nothing. Got {home}.")
    home.mkdir(parents=True, exist_ok=True)
    for notebook in sorted((sample_data().parent / "notebooks").glob("*.ipynb")):
        copy = home / notebook.name
        if not copy.exists():
            shutil.copyfile(notebook, copy)
            _sign(copy)
    return _write_first(folder, home)


def _sign(notebook: Path) -> None:
    """Sign a copy of memkit's own notebook, so that JupyterLab shows its outputs with their style."""
    import nbformat
    from nbformat.sign import NotebookNotary

    with suppress(OSError):  # where nothing can be kept, JupyterLab asks whether the notebook is trusted
        NotebookNotary().sign(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]  # it has no types


def _write_first(folder: Path | None, home: Path) -> Path:
    """The notebook that reads a folder, named after the folder, with a number if the name is taken."""
    from memkit.tables.lake import is_lake

    call = "mk.read(mk.sample_data())"
    if folder is not None:
        call = f"mk.{'open' if is_lake(folder) else 'read'}({str(folder)!r})"
    title = folder.name if folder and folder.name else "sample"
    name = re.sub(r"[^\w.-]+", "-", title).lstrip(".") or "first"  # JupyterLab opens no file that begins with a dot
    gaps = {"{title}": visible(title), "{call}": call}
    text = Path(__file__).with_name("first.json").read_text(encoding="utf-8")  # a notebook with these gaps
    text = re.sub(r"\{title\}|\{call\}", lambda gap: json.dumps(gaps[gap[0]], ensure_ascii=False)[1:-1], text)
    source = json.dumps(f"corpus = {call}\n", ensure_ascii=False)
    for number in range(1, 1000):
        target = home / (f"{name}.ipynb" if number == 1 else f"{name}-{number}.ipynb")
        if not target.exists():
            target.write_text(text, encoding="utf-8")
            return target
        if source[1:-1] in target.read_text(encoding="utf-8"):
            return target
    raise ParameterError(f"--into: expected room for another {name}.ipynb. Got a thousand in {home}.")


def run() -> None:
    """Print the tour: each step of ``tour.txt``, a title and a line of Python, with what that gives."""
    *steps, last = Path(__file__).with_name("tour.txt").read_text(encoding="utf-8").rstrip().split("\n\n")
    names: dict[str, Any] = {"mk": memkit}
    for step in steps:
        code = _begun(step)
        out.print(Text(code, style="cyan"), soft_wrap=True)
        given = re.match(r"(\w+) = ", code)
        value = eval(code[given.end() if given else 0 :], names)  # noqa: S307  # what is run is the code that is shown
        if given:
            names[given[1]] = value
        elif isinstance(value, str):
            out.print(Text(safe(value)), soft_wrap=True)
        else:
            show(value, False)
    out.print(Text(_begun(last)))


def _begun(step: str) -> str:
    """Print the title of a step, which is its first line, and return the others."""
    title, _, rest = step.partition("\n")
    out.print()
    out.rule(Text(title, style="bold"), align="left")
    return rest
