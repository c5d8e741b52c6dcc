from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.cli.app import app_for
from memkit.presets import DOCUMENTS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.quick
def test_the_first_two_bash_blocks_are_one_command_each() -> None:
    demo, tests = blocks("bash")[:2]
    assert demo.count("\n") == tests.count("\n") == 1
    assert demo.strip().endswith("memkit demo")
    assert tests.strip().endswith("-m pytest")


STAND_IN = """#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin"; for name in pip python; do cp "$0" "$3/bin/$name"; done ;;
    "-c import sys"*) echo python3.11 ;;
    "-m pytest"*) echo "$0 $*"; [ "$0" != "{failing}" ] ;;
esac
"""


def run_ci(folder: Path, *pythons: str, failing: str = "") -> subprocess.CompletedProcess[str]:
    """A run of `.ci/run` where stand-ins for `pythons` are all the Pythons there are."""
    tools = folder / "tools"
    tools.mkdir()
    for tool in ("awk", "bash", "cp", "dirname", "grep", "mkdir", "sort"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    for python in ("python3", *pythons):
        (tools / python).write_text(STAND_IN.replace("{failing}", failing), encoding="utf-8")
        (tools / python).chmod(0o755)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    shutil.copy(ROOT / "README.md", folder)
    bare = {"PATH": str(tools)}
    return subprocess.run(["bash", ".ci/run"], cwd=folder, env=bare, capture_output=True, text=True, check=False)


def test_ci_runs_the_test_command_word_for_word(tmp_path: Path) -> None:
    run = run_ci(tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    command, tested, *core = run.stdout.splitlines()[:4]
    assert command == f"+ {blocks('bash')[1]}".rstrip()
    assert tested == ".venv-test/bin/python -m pytest"
    assert core == ["+ the quick tests of the core alone", ".venv-test/bin/python -m pytest -m quick tests"]


@pytest.mark.parametrize(
    ("pythons", "oldest", "newest"),
    [
        ([], "python3", "python3"),
        (["python3.12"], "python3.12", "python3.12"),
        (
            ["python3.9", "python3.11", "python3.13", "python3.14", "python3.12", "python3.14-config"],
            "python3.12",
            "python3.14",
        ),
    ],
)
def test_ci_runs_the_quick_tests_on_the_oldest_and_newest_packages(
    tmp_path: Path, pythons: list[str], oldest: str, newest: str
) -> None:
    run = run_ci(tmp_path, *pythons)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[4:] == [
        f"+ the quick tests with the oldest packages on {oldest}",
        ".venv-oldest/bin/python -m pytest -m quick tests",
        f"+ the quick tests with the newest packages on {newest}",
        ".venv-newest/bin/python -m pytest -m quick tests",
    ]


@pytest.mark.parametrize("failing", [".venv-test/bin/python", ".venv-oldest/bin/python", ".venv-newest/bin/python"])
def test_ci_fails_where_any_run_fails(tmp_path: Path, failing: str) -> None:
    assert run_ci(tmp_path, "python3.12", "python3.13", failing=failing).returncode == 1


@pytest.mark.quick
def test_the_oldest_packages_are_those_that_the_project_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = dict(
        re.match(r"([\w-]+)>=([\d.]+)", package).groups()
        for packages in (project["dependencies"], *project["optional-dependencies"].values())
        for package in packages
        if re.match(r"[\w-]+>=", package)
    )  # type: ignore[union-attr]  # each has one
    pins = re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"duckdb", "pandas", "numpy", "pyarrow"} <= {name for name, _ in pins}
    assert [f"{name}=={version}" for name, version in pins if not f"{version}.".startswith(f"{lowest[name]}.")] == []


def test_the_examples_run_as_they_stand_and_print_what_is_said(
    tmp_path: Path, kept_vectors: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(mk.sample_data(), tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    first, *others = blocks("python")
    exec(compile(first, "README.md", "exec"), scope)  # noqa: S102 - our own text, as a reader would run it
    assert capsys.readouterr().out == blocks("text")[0]
    for block in others:
        exec(compile(block, "README.md", "exec"), scope)  # noqa: S102 - as above
    assert isinstance(scope["corpus"], mk.Corpus)
    assert (tmp_path / "panel.html").stat().st_size > 10_000


@pytest.mark.quick
def test_it_is_read_in_five_minutes() -> None:
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) < 1_200


def test_every_command_is_listed() -> None:
    named = {command.name or getattr(command.callback, "__name__", "") for command in app_for([]).registered_commands}
    section = README.partition("## Command line\n")[2].partition("\n## ")[0]
    assert named == set(re.findall(r"`(?:memkit )?([a-z]+(?:-[a-z]+)?)[ `]", section))


def test_every_format_and_preset_is_named(sample: mk.Corpus) -> None:
    formats = set(sample.memories["format"].to_pylist())
    fusion = (ROOT / "notebooks" / "10_fusion.ipynb").read_text(encoding="utf-8")
    assert formats <= set(re.findall(r"`(\w+)`", README))
    assert set(mk.presets.RETRIEVER) <= set(re.findall(r"`(\w+)`", fusion))


def test_every_room_stands_on_the_map() -> None:
    drawn = CONTRIBUTING.partition("## Where things are\n")[2].split("```")[1]
    named = set(re.findall(r"^memkit/(\w+)", drawn, re.MULTILINE))
    package = Path(mk.__file__).parent
    rooms = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert named == {room for room in rooms if not room.startswith("_")}


def test_the_policy_to_copy_runs_as_it_stands() -> None:
    scope: dict[str, Any] = {}
    exec(compile(blocks("python", CONTRIBUTING)[0], "CONTRIBUTING.md", "exec"), scope)  # noqa: S102 - our own text, as a reader would run it
    judged = scope["Short"](least=5).transform(pa.table({"text": ["чай", "зелёный чай"]}))
    assert judged["reason"].to_pylist() == ["short", None]
    assert "least : int in [0, inf), characters, default 10" in scope["Short"].__doc__


def test_each_document_is_named_with_its_sections() -> None:
    for document in DOCUMENTS.values():
        assert f"| `{document.format}` | {document.title} | {'; '.join(document.sections.values())} |" in CONTRIBUTING


PAGES = ["README.md", *(f".github/{name}.md" for name in ("CONTRIBUTING", "DESIGN", "CHANGELOG"))]


@pytest.mark.parametrize("page", PAGES)
def test_each_picture_file_and_heading_that_is_linked_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in name:
            continue
        path, _, heading = name.partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.is_file(), name
        headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert not heading or heading in [title.lower().replace(" ", "-") for title in headings], name


def test_each_module_that_the_design_names_is_there() -> None:
    text = (ROOT / ".github" / "DESIGN.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    named = re.findall(r"`(\w+(?:/\w+)+(?:\.py|/))`", text)
    assert len(named) >= 16
    assert [name for name in named if not (Path(mk.__file__).parent / name).exists()] == []


def test_the_pictures_are_light() -> None:
    pictures = [ROOT / name for name in re.findall(r"\]\((\S+\.png)\)", README)]
    assert len(pictures) == 4
    assert all(picture.stat().st_size < 150_000 for picture in pictures)
