"""How large the house is: ceilings, which are raised by hand only, each time with a line that says what for."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import memkit as mk

ROOT = Path(__file__).parents[1]
CEILINGS = {
    # what: ceiling, and what the last raise was for; a change that adds a module says which one it ends
    "modules": (241, "the app without its verbs, and YAML, which a search does without"),
    "lines of code": (
        51_961,
        "3 for lines read once; 4 for names of columns; 26 for what starts late; 24 for links looked up once",
    ),
    "public names": (64, "what is at the top; the rest is in rooms, as mk.errors and mk.labels"),
    "lines of tests": (
        62_316,
        "19 for words known at once; 3 for what starts late; 11 for turns found by one pattern",
    ),
    "modules at the top": (0, "the top level has a file of the project, a README and four folders"),
    "longest module": (638, "memkit/text/secrets.py, whose rows are data"),
}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def lines_of_code(path: Path) -> int:
    """Lines without docstrings, comments and blanks; what looks like a comment or a blank within a text counts."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    counted = {number for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")}
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr):
            counted.update(range(node.lineno, (node.end_lineno or 0) + 1))
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False):
            counted.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(counted)


def test_the_house_is_no_larger_than_was_agreed(subtests: pytest.Subtests) -> None:
    code = {path: lines_of_code(path) for path in (ROOT / "memkit").rglob("*.py") if "_shipped" not in path.parts}
    counted = {
        "modules": len(code),
        "lines of code": sum(code.values()),
        "public names": len(mk.__all__),
        "lines of tests": sum(len(path.read_bytes().splitlines()) for path in (ROOT / "tests").rglob("*.py")),
        "longest module": max(code.values()),
        "modules at the top": len(list(ROOT.glob("*.py"))),
    }
    for what, (ceiling, _) in CEILINGS.items():
        with subtests.test(what):
            assert counted[what] <= ceiling, f"{what}: end something, or raise the ceiling with its reason"


NOTE = "---\nid: 550e8400-e29b-41d4-a716-446655440000\nsubject: Пул\nkeywords: [пул]\n---\n\nДержит 20.\n"


@pytest.mark.quick
def test_a_note_passes_few_modules_when_it_is_read_and_none_of_a_host(tmp_path: Path) -> None:
    (tmp_path / "pool.md").write_text(NOTE, encoding="utf-8")
    passed, home = set[tuple[str, str]](), str(Path(mk.__file__).parent)

    def look(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(home):
            passed.add((frame.f_code.co_filename.removeprefix(home), frame.f_code.co_qualname))

    mk.read(tmp_path)  # imports
    sys.setprofile(look)
    try:
        mk.read(tmp_path)
    finally:
        sys.setprofile(None)
    modules = {module for module, _ in passed}
    assert len(modules) <= 24
    assert not [module for module in modules if "hosts" in module]


MOST_PARAMETERS, MOST_LINES, MOST_IN_ORDER = 6, 450, 5
DOORS = {
    **{"search": 7, "like": 7, "explain": 8, "audit": 8, "compare": 8, "sweep": 9, "tune_scores": 10, "tune": 13},
    **{"read": 18, "store": 10, "timeline": 7, "add_entry": 9, "create": 7, "update": 8, "forget": 7},
    **{"map": 8, "MapPanel": 12, "JudgePanel": 11, "SearchPanel": 9, "Lab": 7, "Tools": 7},
    **{"problem": 11, "add_observation": 7},
}
"""Public functions and classes that take more, and how many: of search and measuring, of reading and stores, panels and
the server, and those that strangers' formats and hosts call; the further ones go by keyword alone."""
IN_ORDER = {"add_entry": 7}
"""As the index standard has it."""
LONG = {
    "text/secrets.py": "rows of data",
    "base/params.py": "one declaration, and all that comes from it",
    "change/export.py": "a writer a layout",
    "formats/workspace.py": "the document's files, each by its own rules",
    "text/statements.py": "one grammar in two languages",
}
"""Modules with more lines, and why."""


def test_functions_below_the_doors_take_few_parameters_and_modules_are_short(subtests: pytest.Subtests) -> None:
    paths = {path.relative_to(ROOT / "memkit").as_posix(): path for path in (ROOT / "memkit").rglob("*.py")}
    for name, path in paths.items():
        with subtests.test(name):
            assert lines_of_code(path) <= MOST_LINES or name in LONG
            tree = ast.parse(path.read_text(encoding="utf-8"))
            classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            owners = {part: node.name for node in classes for part in node.body}
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not is_verb(function):
                    called = owners[function] if function.name == "__init__" else function.name
                    in_order = [arg.arg for arg in function.args.posonlyargs + function.args.args]
                    n_in_order = len(in_order) - (in_order[:1] in (["self"], ["cls"]))
                    most = DOORS.get(called, MOST_PARAMETERS)
                    assert n_in_order + len(function.args.kwonlyargs) <= most, called
                    most_in_order = IN_ORDER.get(called, MOST_IN_ORDER)
                    assert most == MOST_PARAMETERS or n_in_order <= most_in_order, called


def is_verb(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a verb of the command line, whose parameters are its options."""
    return any(
        isinstance(arg.annotation, ast.Name) and arg.annotation.id in ("PathArgument", "Labelled")
        for arg in function.args.args
    )
