from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

import memkit as mk

Run = Callable[..., tuple[int, str, str]]
SHIPPED = {path.name for path in (mk.sample_data().parent / "notebooks").glob("*.ipynb")}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The options of each JupyterLab that would have been started."""
    calls: list[list[str]] = []
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path_factory.mktemp("jupyter")))
    from jupyterlab.labapp import LabApp

    monkeypatch.setattr(LabApp, "launch_instance", calls.append)
    return calls


def sources(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def test_the_notebooks_are_copied_beside_one_that_reads_the_folder(
    run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory, started: list[list[str]]
) -> None:
    home, before = tmp_path_factory.mktemp("lab") / "mine", files(folder)
    code, out, err = run("lab", folder, "--into", home, "--no-browser", "--port", 9000, "--ip", "127.0.0.1")
    first = f"{folder.name}.ipynb"
    assert (code, err) == (0, "")
    assert out.split() == ["notebooks", "in", f"{home},", first, "to", "begin", "with"]
    assert {path.name for path in home.iterdir()} == SHIPPED | {first}
    assert f"corpus = mk.read({str(folder)!r})" in sources(home / first)[1].splitlines()
    told = [f"--ServerApp.root_dir={home}", f"--LabApp.default_url=/lab/tree/{first}"]
    assert started == [[*told, "--port=9000", "--ip=127.0.0.1", "--no-browser"]]
    assert files(folder) == before


def test_copies_are_signed_so_that_their_outputs_keep_their_style(
    run: Run, tmp_path: Path, started: list[list[str]]
) -> None:
    home = tmp_path / "lab"
    home.mkdir()
    mine = home / "00_tour.ipynb"
    tour = mk.sample_data().parent / "notebooks" / mine.name
    mine.write_text(tour.read_text("utf-8").replace("memkit", "another"), "utf-8")
    run("lab", "--into", home)
    notary = NotebookNotary()
    signed = {path.name for path in home.iterdir() if notary.check_signature(nbformat.read(path, as_version=4))}
    assert signed == SHIPPED - {mine.name}


def test_what_is_in_the_copy_stays_and_each_folder_has_a_notebook(
    run: Run, tmp_path: Path, started: list[list[str]]
) -> None:
    home = tmp_path / "lab"
    hostile = (".claude", "{call}", os.fsdecode(b"b\xff"))  # JupyterLab opens no name that begins with a dot
    folders = [tmp_path / name for name in ("a/память бота", "b/память бота", *hostile)]
    for folder in folders:
        mk.testing.write_files(folder, {"MEMORY.md": "# Чай\nБез сахара.\n"})
        run("lab", folder, "--into", home)
    (home / "00_tour.ipynb").write_text("mine", encoding="utf-8")
    run("lab", folders[1], "--into", home)
    assert (home / "00_tour.ipynb").read_text(encoding="utf-8") == "mine"
    names = [f"{name}.ipynb" for name in ("память-бота", "память-бота-2", "claude", "-call-", "b-")]
    assert {path.name for path in home.iterdir()} == SHIPPED | {*names}
    for folder, name in zip(folders, names, strict=True):
        assert f"mk.read({str(folder)!r})" in sources(home / name)[1]
        assert sources(home / name)[0].startswith(f"# {folder.name}\n".replace("\udcff", r"\udcff"))
    opened = [call[1].rpartition("/")[2] for call in started]
    assert opened[1] == opened[-1] != opened[0]
    assert all(name.isascii() for name in opened)


def test_without_a_folder_the_sample_is_read_and_a_lake_is_opened(
    run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory, started: list[list[str]]
) -> None:
    home = tmp_path_factory.mktemp("lab")
    run("lab", "--into", home)
    assert "corpus = mk.read(mk.sample_data())" in sources(home / "sample.ipynb")[1]
    mk.read(folder).save(home / "lake")
    run("lab", home / "lake", "--into", home)
    assert f"corpus = mk.open({str(home / 'lake')!r})" in sources(home / "lake.ipynb")[1]
    assert len(started) == 2


def test_nothing_is_written_into_the_folder_that_is_read(run: Run, folder: Path, started: list[list[str]]) -> None:
    for home in (folder, folder / "users" / "lab", folder / "users" / ".." / "lab"):
        code, _, err = run("lab", folder, "--into", home)
        assert code == 2
        assert err.startswith("memkit: --into: expected a folder outside of ")
    code, _, err = run("lab", folder / "nowhere", "--into", folder / "lab")
    assert (code, err.partition(". Got ")[0]) == (2, "memkit: lab: expected a folder, a file or a saved corpus")
    assert [path.name for path in folder.iterdir()] == ["users"]
    assert started == []


def test_without_jupyterlab_the_extra_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jupyterlab", "jupyterlab.labapp"):
        monkeypatch.setitem(sys.modules, name, None)
    code, _, err = run("lab", "--into", tmp_path / "lab")
    assert code == 2
    assert err == "memkit: jupyterlab is not installed. Expected the extra 'lab': pip install 'memkit[lab]'\n"
    assert not (tmp_path / "lab").exists()
