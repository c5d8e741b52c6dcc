"""Changes one thing in a copy of the package and runs tests on it: which changes does no test notice?

``python tests/audit/mutants.py 20 0 memkit/policy/limits.py -- tests/policy/test_policy_quota.py`` draws 20 changes
with the seed 0 from all that the modules (files or folders) allow, tries one after the other on a copy of the
repository, and prints those that live. A change that hangs is noticed. A survivor asks for a test, or for simpler code.

``python tests/audit/mutants.py 100 0`` draws from the rooms of `ROOMS` and tries each on the tests of its own room.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import itertools
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_COPIED = ("memkit", "tests", "data", "notebooks", "pyproject.toml", "README.md")
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitOr: ast.BitAnd},
    **{ast.BitAnd: ast.BitOr, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult},
}
_LOADED = ("duckdb", "hypothesis", "pandas", "pyarrow.parquet", "scipy.sparse", "sklearn.base")
_ANNOTATIONS = {"annotation", "returns"}
ROOMS = {
    **{f"memkit/{room}": (f"tests/{room}",) for room in ("search", "index", "policy", "change", "formats", "tables")},
    **{f"memkit/{room}": (f"tests/{room}",) for room in ("evaluation", "text", "past", "serve")},
}
"""What is changed where no modules are given, and the tests that are to notice it."""
_PATIENCE, _LEAST_S = 4, 30
"""A run may take so many times the seconds of one without a change, and at least so many."""


@dataclass(frozen=True)
class Site:
    """One change: the line it is on, what stands there and what will, and the module with it."""

    path: Path
    line: int
    old: str
    new: str
    text: str


def number_of_changes(path: Path) -> int:
    """How many changes the module at `path` allows."""
    return sum(1 for _ in _all_changes(ast.parse(path.read_text(encoding="utf-8"))))


def site(path: Path, number: int) -> Site:
    """One of the changes that the module at `path` allows."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    changes = _all_changes(tree)
    node = next(itertools.islice(changes, number, None))
    new, text = _as_line(node), ast.unparse(tree)
    changes.close()  # which undoes it
    return Site(path.relative_to(ROOT), getattr(node, "lineno", 0), _as_line(node), new, text)


def _all_changes(tree: ast.Module) -> Generator[ast.AST]:
    """Each node that is changed, as long as it is."""
    for node in list(_nodes(tree)):
        for undo in _changes(node):
            try:
                yield node
            finally:
                undo()


def _as_line(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:90]


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What can be changed below `node`: no types, and nothing that is for types alone."""
    yield node
    for name, value in ast.iter_fields(node):
        below = value if isinstance(value, list) else [value]
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if name not in _ANNOTATIONS and not is_typing:
            for child in below:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


class _Changed:
    """A field of a node with another value, until it is called."""

    def __init__(self, node: ast.AST, name: str, value: object) -> None:
        self._node, self._name, self._before = node, name, getattr(node, name)
        setattr(node, name, value)

    def __call__(self) -> None:
        setattr(self._node, self._name, self._before)


def _changes(node: ast.AST) -> Iterator[_Changed]:
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            ops = copy.copy(node.ops)
            ops[place] = _OTHER[type(op)]()  # type: ignore[call-overload]  # a comparison's other is one
            yield _Changed(node, "ops", ops)
    elif isinstance(node, (ast.BoolOp, ast.BinOp, ast.AugAssign)) and type(node.op) in _OTHER:
        yield _Changed(node, "op", _OTHER[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _Changed(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield _Changed(node, "value", node.value + 1)
        yield _Changed(node, "value", node.value - 1)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield _Changed(node, "value", ast.Constant(None))
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield _Changed(node, "test", ast.UnaryOp(ast.Not(), node.test))


def _pytest(place: Path, tests: list[str]) -> None:
    """Run the tests of the copy, where the packages that they need are loaded already, and memkit is not."""
    os.chdir(place)
    os.environ["PYTHONPATH"] = sys.path[0] = str(place)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        sys.exit(pytest.main(["-n0", "-x", "-q", "-p", "no:cacheprovider", *tests]))


def run(place: Path, tests: list[str], limit_s: float | None = None) -> bool:
    """Whether the tests pass in the copy at `place`."""
    child = multiprocessing.get_context("fork").Process(target=_pytest, args=(place, tests))
    child.start()
    child.join(limit_s)
    if child.exitcode is None:
        child.kill()
        child.join()
    return child.exitcode == 0


def main() -> None:
    """Draw the changes and try each."""
    count, seed, *rest = sys.argv[1:]
    paths, tests = (rest[: rest.index("--")], rest[rest.index("--") + 1 :]) if rest else ([], [])
    tests_of = {name: tuple(tests) for name in paths} or ROOMS
    known = [
        (path, number, tests_of[name])
        for name in tests_of
        for path in _modules(name)
        for number in range(number_of_changes(path))
    ]
    drawn = random.Random(int(seed)).sample(known, min(int(count), len(known)))
    for name in _LOADED:  # once, for all that are forked from here
        importlib.import_module(name)
    living, limits = Counter[tuple[str, ...]](), dict[tuple[str, ...], float]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in _COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, place / name)
        print(f"{len(drawn)} of {len(known)} changes, seed {seed}", flush=True)
        for path, number, named in sorted(drawn):
            if named not in limits:
                limits[named] = _limit_s(place, named)
            living[named] += _lives(place, site(path, number), list(named), limits[named])
    for named, number in Counter(named for _, _, named in drawn).items():
        print(f"{' '.join(named)}: {living[named]} of {number} live")
    print(f"{living.total()} of {len(drawn)} live")


def _modules(name: str) -> list[Path]:
    return [ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("*.py"))


def _limit_s(place: Path, tests: tuple[str, ...]) -> float:
    """The seconds that the tests may take, from those that they take where nothing is changed."""
    began = time.monotonic()
    if not run(place, list(tests)):
        sys.exit(f"{' '.join(tests)}: the tests fail without a change.")
    return max(_LEAST_S, _PATIENCE * (time.monotonic() - began))


def _lives(place: Path, change: Site, tests: list[str], limit_s: float) -> bool:
    file = place / change.path
    before = file.read_text(encoding="utf-8")
    file.write_text(change.text, encoding="utf-8")
    lives = run(place, tests, limit_s)
    print("" if lives else ".", end="", flush=True, file=sys.stderr)
    file.write_text(before, encoding="utf-8")
    if lives:
        print(f"{change.path}:{change.line}: {change.old}  ->  {change.new}", flush=True)
    return lives


TINY = "1 0 memkit/base/hashes.py -- tests/base/test_hashes.py"


if __name__ == "__main__":
    main()
