"""How large the house is: ceilings, which are raised by hand only, each time with a line that says what for."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

import memkit as mk

ROOT = Path(__file__).parents[1]
CEILINGS = {
    # what: ceiling, and what the last raise was for; a change that adds a module says which one it ends
    "modules": (353, "hosts/: each host has its store, prompt, export and verbs by itself, behind doors"),
    "lines of code": (51_600, "doors for hosts; mk.Index, mk.Task, old names that say the new ones; encoding later"),
    "public names": (64, "what is at the top; the rest is in rooms, as mk.errors and mk.labels"),
    "lines of tests": (63_000, "mk.Index, encoding later, hosts, a corpus like life; with blanks"),
    "longest module": (650, "memkit/change/export.py has 623 lines of code"),
}
_SILENT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def lines_of_code(path: Path) -> int:
    """Lines without docstrings, comments and blanks."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


@pytest.mark.quick
def test_the_house_is_no_larger_than_was_agreed(subtests: pytest.Subtests) -> None:
    code = {path: lines_of_code(path) for path in (ROOT / "memkit").rglob("*.py") if "_shipped" not in path.parts}
    counted = {
        "modules": len(code),
        "lines of code": sum(code.values()),
        "public names": len(mk.__all__),
        "lines of tests": sum(len(path.read_bytes().splitlines()) for path in (ROOT / "tests").rglob("*.py")),
        "longest module": max(code.values()),
    }
    for what, (ceiling, _) in CEILINGS.items():
        with subtests.test(what):
            assert counted[what] <= ceiling, f"{what}: end something, or raise the ceiling with its reason"
