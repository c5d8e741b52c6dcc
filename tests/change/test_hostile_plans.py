"""A plan may be anybody's: what it may write, what it must be made of, and that it hides no removal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.change.journal import hash_of
from memkit.errors import ChangeRefusedError, MemkitError

Folder = Callable[[dict[str, str | bytes]], Path]
FACTS = "".join(f"- [id:wk_{n}] [t:working] [imp:normal] У бота {word}\n" for n, word in enumerate("абвгд"))
META = '{"version": 2, "workingCount": 5, "profileCount": 0, "archiveCount": 0, "lastIds": {"wk": 5}}'
LOG = "# Чай\n\nБез сахара и молока.\n\n# Мёд\n\nИз липы, прошлогодний.\n\n# Сон\n\nВосемь часов, не меньше.\n"
BRANCH = {"type": "index-branch", "category": "l", "files": [{"title": "Пул", "file": "l/a.md", "tags": []}]}
FILES: dict[str, str | bytes] = {
    "users/u/working.md": FACTS,
    "users/u/meta.json": META,
    "MEMORY.md": LOG,
    "memory/index.json": '{"type": "index-root", "branches": [{"category": "l", "path": "l/index.json"}]}',
    "memory/l/index.json": json.dumps(BRANCH, ensure_ascii=False),
    "memory/l/a.md": "# Пул\n\nДесять соединений к базе.\n",
    "conftest.py": "import os\n",
    "Makefile": "all:\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return lambda files: mk.testing.write_files(tmp_path / "root", files)


def tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def change(root: Path, op: str, path: str, **fields: Any) -> dict[str, Any]:
    """A row about a file as it is there now."""
    return {"op": op, "path": path, "sha256": hash_of((root / path).read_bytes()), **fields}


def removals(root: Path) -> list[list[dict[str, Any]]]:
    """Plans that take most of the memories away, each in another way, all as columns that tell nothing."""
    data = {path: text for path, text in FILES.items() if path.endswith(".md")}
    names = list(data)
    empty = [change(root, "update", path, before=data[path], after="") for path in names]
    return [
        [change(root, "delete", path, before=data[path]) for path in names],
        empty,
        [{**row, "memory_id": "x", "of_memories": 10**6} for row in empty],
        [change(root, "update", path, before=data[path], after="- ничего\n") for path in names],
        [change(root, "update", path, before=data[path], after="", at=0) for path in names],
        [change(root, "move", path, to=f"{path}.bak") for path in names],
        [
            change(root, "update", path, after="<!-- \n" + str(data[path])[:9].replace("[id", "[no"))
            for path in ("users/u/working.md", "MEMORY.md")
        ],
        [change(root, "update", "users/u/working.md", after=FACTS.replace("[imp", "[exp:2020-01-01] [imp"))],
        [
            change(root, "delete", "users/u/working.md"),
            {"op": "create", "path": "users/v/working.md", "after": FACTS.replace("[imp", "[exp:2020-01-01] [imp")},
        ],
    ]


@pytest.mark.quick
@pytest.mark.parametrize("number", range(9))
def test_most_memories_do_not_go_without_force_whatever_the_plan_says_of_itself(number: int, folder: Folder) -> None:
    root = folder(FILES)
    before = tree(root)
    edits = mk.Edits.from_json(json.dumps(removals(root)[number]), root)
    assert len(edits.removed()) > 3
    with pytest.raises(ChangeRefusedError, match=r"\d of 9 memories would be removed, more than 30%"):
        edits.apply()
    assert {path: data for path, data in tree(root).items() if not path.startswith(".memkit/")} == before
    edits.apply(force=True)
    mk.undo(root)
    assert {path: data for path, data in tree(root).items() if not path.startswith(".memkit/")} == before


@pytest.mark.quick
def test_an_index_that_forgets_its_files_and_texts_that_only_move_take_nothing_away(folder: Folder) -> None:
    root = folder(FILES)
    forgets = change(root, "update", "memory/l/index.json", after='{"type": "index-branch", "files": []}')
    assert mk.Edits.from_json(json.dumps([forgets]), root).removed() == []
    moves = change(root, "move", "MEMORY.md", to="memory/all.md")
    assert mk.Edits.from_json(json.dumps([moves]), root).removed() == []
    joined = change(root, "update", "MEMORY.md", after=LOG.replace("# Мёд\n", "").replace("# Сон\n", ""))
    assert mk.Edits.from_json(json.dumps([joined]), root).removed() == []


@pytest.mark.quick
def test_exactly_30_percent_go_and_one_more_does_not(folder: Folder) -> None:
    lines = [f"- [id:ar_{n}] [t:archive] [imp:low] Слово номер {n}\n" for n in range(10)]
    root = folder({"users/u/archive.md": "".join(lines)})
    for n_kept in (6, 7):
        row = change(root, "update", "users/u/archive.md", after="".join(lines[:n_kept]))
        edits = mk.Edits.from_json(json.dumps([row]), root)
        if n_kept == 6:
            with pytest.raises(ChangeRefusedError, match="4 of 10 memories would be removed, more than 30%"):
                edits.apply()
        else:
            edits.apply()
    assert (root / "users/u/archive.md").read_text("utf-8") == "".join(lines[:7])


NAMES = [
    "conftest.py",
    "Makefile",
    "a.txt",
    "md",
    "a.md.py",
    "pyvenv.cfg",
    "node_modules/a.md",
    "Node_Modules/x/a.md",
    "venv/a.md",
    "__pycache__/a.md",
    ".memkit/a.md",
    "a/.hidden.md",
    "a\nb.md",
    "a\x1b[2Jb.md",
    "gpj.\u202edm.md",
    "a\u200bb.md",
    "a\u00a0b.md",
    "a\x7f.md",
    "\u2066a.md",
    " a.md",
    "users /u/working.md",
    "a./b.md",
    "a:b.md",
    "a?.md",
    f"{'я' * 127}.md",
    "/".join(["a" * 100] * 11) + ".md",
    "memory.md",
    "MEMORY.MD",
    "Users/v/working.md",
    "users/u/working.md/a.md",
    "\ud800.md",
]


@pytest.mark.parametrize("op", ["create", "move"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_no_plan_makes_a_file_that_memkits_formats_do_not_write(name: str, op: str, folder: Folder) -> None:
    root = folder(FILES)
    before = tree(root)
    row = {"op": op, "path": name, "after": "чай"} if op == "create" else change(root, op, "memory/l/a.md", to=name)
    with pytest.raises(MemkitError):
        mk.Edits.from_json(json.dumps([row]), root).apply(force=True)
    assert tree(root) == before


def test_a_name_that_no_file_can_have_is_refused(folder: Folder) -> None:
    row = {"op": "update", "path": f"{'я' * 127}.md", "sha256": "0", "after": "чай"}
    with pytest.raises(ChangeRefusedError, match="at most 255 bytes"):
        mk.Edits.from_json(json.dumps([row]), folder(FILES))


@pytest.mark.parametrize("op", ["delete", "update", "move"])
@pytest.mark.parametrize("path", ["conftest.py", "Makefile"])
def test_no_plan_changes_a_file_that_memkits_formats_do_not_write(path: str, op: str, folder: Folder) -> None:
    root = folder(FILES)
    row = change(root, op, path, **{"update": {"after": "x"}, "move": {"to": "a.md"}, "delete": {}}[op])
    with pytest.raises(ChangeRefusedError, match=r"memkit writes files that end in .*[.]md"):
        mk.Edits.from_json(json.dumps([row]), root)


def test_a_file_with_an_odd_name_that_is_there_can_be_changed(folder: Folder) -> None:
    root = folder({"чай\u00a0с мёдом.md": LOG})
    mk.Edits.from_json(json.dumps([change(root, "update", "чай\u00a0с мёдом.md", after=LOG + "да\n")]), root).apply()
    assert (root / "чай\u00a0с мёдом.md").read_text("utf-8") == LOG + "да\n"


def test_no_two_rows_give_one_name_twice(folder: Folder) -> None:
    root = folder({"a.md": LOG, "b.md": LOG, "c.md": LOG})
    a, b = (change(root, "move", f"{name}.md", to="d.md") for name in "ab")
    deletion = change(root, "delete", "c.md")
    twice = [
        [a, b],
        [a, {"op": "create", "path": "d.md", "after": "x"}],
        [{"op": "create", "path": "D.md", "after": "x"}, a],
        [deletion, {**a, "to": "c.md"}],
        [{**a, "to": "c.md"}, deletion],
        [{"op": "create", "path": "e.md", "after": "x"}, {"op": "create", "path": "e.md/f.md", "after": "x"}],
        [deletion, {"op": "create", "path": "c.md/f.md", "after": "x"}],
        [{"op": "create", "path": "й.md", "after": "x"}, {"op": "create", "path": "й.md", "after": "x"}],
    ]
    for rows in twice:
        with pytest.raises(MemkitError):
            mk.Edits.from_json(json.dumps(rows), root).apply(force=True)
        assert sorted(tree(root)) == ["a.md", "b.md", "c.md"]


WRONG: list[tuple[str, Any]] = [
    ("op", 1),
    ("op", None),
    ("path", 1),
    ("path", None),
    ("path", ["a.md"]),
    ("to", 3),
    ("memory_id", 3),
    ("memory_id", {"a": 1}),
    ("policy", 1.5),
    ("reason", []),
    ("before", 0),
    ("after", {}),
    ("after", False),
    ("after", "\ud800"),
    ("at", "0"),
    ("at", 1.5),
    ("at", True),
    ("at", -1),
    ("at", 10**30),
    ("sha256", 3),
    ("together", 1),
    ("derived", "yes"),
    ("derived", 1),
    ("edit", "1"),
]


@pytest.mark.parametrize(("column", "value"), WRONG, ids=ascii)
def test_a_column_of_a_wrong_type_is_refused_with_what_was_expected(column: str, value: Any, folder: Folder) -> None:
    root = folder(FILES)
    good = change(root, "update", "MEMORY.md", before="", after="да\n", at=len(LOG))
    with pytest.raises(MemkitError, match=rf"a plan, row 2: '{column}' must be .* Got "):
        mk.Edits.from_json(json.dumps([good, {**good, column: value}]), root)


@pytest.mark.parametrize(
    "fields",
    [
        {"op": "create", "after": "x"},
        {"op": "create", "sha256": None, "after": None},
        {"op": "delete", "after": "x"},
        {"op": "delete", "at": 0, "before": "#", "after": "x"},
        {"op": "move", "to": "b.md", "at": 0},
        {"op": "move", "to": "b.md", "after": "x"},
        {"op": "update", "to": "b.md", "after": "x"},
        {"op": "update", "sha256": None, "after": "x"},
    ],
)
def test_a_row_does_what_its_operation_says(fields: dict[str, Any], folder: Folder) -> None:
    root = folder(FILES)
    with pytest.raises(MemkitError, match=r"MEMORY[.]md"):
        mk.Edits.from_json(json.dumps([{**change(root, "update", "MEMORY.md"), **fields}]), root)


def test_a_plan_shows_what_stands_there_and_not_what_it_says_stands_there(folder: Folder) -> None:
    root = folder(FILES)
    edits = mk.Edits.from_json(json.dumps([change(root, "delete", "MEMORY.md", before="пустяк")]), root)
    assert edits.table["before"].to_pylist() == [LOG]


def test_a_plan_cannot_make_the_counters_of_a_user_lie(folder: Folder) -> None:
    root = folder(FILES)
    lie = META.replace('"workingCount": 5', '"workingCount": 99')
    with pytest.raises(ChangeRefusedError, match=r"users/u/meta.json: 'workingCount' would be 99, .* 5"):
        mk.Edits.from_json(json.dumps([change(root, "update", "users/u/meta.json", after=lie)]), root)
    true = META.replace('"wk": 5', '"wk": 7')
    mk.Edits.from_json(json.dumps([change(root, "update", "users/u/meta.json", after=true)]), root).apply()


def test_a_file_that_memkit_would_not_read_is_not_written(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder(FILES)
    monkeypatch.setattr("memkit.change.edits.MAX_FILE_BYTES", 100)
    with pytest.raises(ChangeRefusedError, match=r"new[.]md: it would have 102 bytes, more than the 100 that"):
        mk.Edits.from_json(json.dumps([{"op": "create", "path": "new.md", "after": "я" * 51}]), root)


def test_a_place_beyond_the_end_of_a_file_is_refused(folder: Folder) -> None:
    root = folder(FILES)
    row = {"op": "update", "path": "MEMORY.md", "before": "", "after": "x", "at": len(LOG) + 1}
    plan = json.dumps([{**row, "sha256": hash_of(LOG.encode()), "reason": "r", "policy": "p"}])
    with pytest.raises(MemkitError, match="does not stand there"):
        mk.Edits.from_json(plan, root)
