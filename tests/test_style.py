"""Format, lint and types are part of the tests: what a tool finds is shown as it says it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = {
    "format": ["ruff", "format", "--check", "--diff", "."],
    "lint": ["ruff", "check", "--output-format", "concise", "."],
    "types": ["mypy"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_finds_nothing(tool: str) -> None:
    done = subprocess.run([sys.executable, "-m", *TOOLS[tool]], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(TOOLS[tool])}\n{done.stdout}{done.stderr}", pytrace=False)
