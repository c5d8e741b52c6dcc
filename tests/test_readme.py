from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import memkit as mk
from memkit.cli.app import app
from memkit.schemas import TABLES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_first_two_bash_blocks_are_one_command_each() -> None:
    demo, tests = blocks("bash")[:2]
    assert demo.count("\n") == tests.count("\n") == 1
    assert demo.strip().endswith("memkit demo")
    assert tests.strip().endswith("-m pytest")


def test_ci_runs_the_test_command_word_for_word(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (tmp_path / ".ci" / "run").write_text(script.replace('eval "$command"', ":"), encoding="utf-8")
    shutil.copy(ROOT / "README.md", tmp_path)
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"+ {blocks('bash')[1]}"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(mk.sample_data(), tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(compile(blocks("python")[0], "README.md", "exec"), scope)  # noqa: S102 - our own text, as a reader would run it
    assert isinstance(scope["corpus"], mk.Corpus)
    assert scope["corpus"].memories.num_rows > 300
    assert os.listdir(tmp_path / "lake")  # noqa: PTH208 - its being there is the point


def test_every_command_is_listed() -> None:
    named = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    assert named == set(re.findall(r"`memkit (\w+)", README))


def test_every_format_and_preset_is_named() -> None:
    formats = set(mk.read(mk.sample_data()).memories["format"].to_pylist())
    assert formats <= set(re.findall(r"`(\w+)`", README))
    assert set(mk.presets.RETRIEVER) <= set(re.findall(r"`(\w+)`", README))


def test_every_column_of_every_table_says_what_it_means() -> None:
    silent = [f"{name}.{field.name}" for name, schema in TABLES.items() for field in schema if not field.metadata]
    assert silent == []
