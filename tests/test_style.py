"""Format, lint and types are part of the tests: what a tool finds is shown as it says it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str, **environment: str) -> tuple[int, str]:
    process = subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return process.returncode, f"{process.stdout}{process.stderr}"


@pytest.mark.parametrize("check", ["format --check --diff", "check --output-format concise"])
def test_the_linter_finds_nothing(check: str) -> None:
    code, output = run("ruff", *check.split(), ".")
    if code:
        pytest.fail(f"ruff {check}\n{output}", pytrace=False)


USES = """
import memkit as mk
values = mk.read("x").sql("select 1").fetchall()
opened: mk.Corpus = mk.open("lake")
hits = mk.Retriever().fit(opened).search("a")
mk.plot.growth
try:
    mk.Corpora
except mk.errors.NotFoundError as error:
    reveal_type(error)
"""


def test_the_type_checker_finds_nothing_in_memkit_and_knows_its_names(tmp_path: Path) -> None:
    """In one run with the settings of pyproject.toml, of the package and of a script that uses it with one mistake."""
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    _, output = run("mypy", "-p", "memkit", "-m", "uses", MYPYPATH=str(tmp_path))
    uses, of_memkit = [], []
    for line in output.splitlines():
        (uses if "uses.py:" in line else of_memkit).append(line)
    assert 'has no attribute "Corpora"' in uses[0]
    assert 'is "memkit.errors.NotFoundError"' in uses[1]
    assert len(uses) == 2
    if len(of_memkit) != 1 or not of_memkit[0].startswith("Found 1 error in 1 file"):
        pytest.fail(output, pytrace=False)
