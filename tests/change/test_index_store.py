"""The index standard's operations: entries are added, changed and cleaned, and all other bytes stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.change.index import IndexStore
from memkit.errors import ChangeRefusedError, FormatError, NotFoundError, ParameterError

NOW = "2026-03-01"
BRANCH = """{
  "type": "index-branch",
  "category": "lessons",
  "files": [
    { "title": "Чай",   "file": "lessons/tea.md", "tags": [ "a",  "b" ], "priority": "high",
      "version": "1.10", "updated": "2025-06-25", "x": 1e5, "edit_count": 3, "summary": "\\u0447" }
  ]
}"""
ROOT = """{ "type": "index-root",
  "branches": [
    { "category": "lessons", "path": "memory/lessons/index.json" }
  ] }
"""


def tree(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".memkit" not in path.parts
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "index.json": ROOT,
        "lessons/index.json": BRANCH,
        "lessons/tea.md": "# Чай\n",
        "lessons/honey.md": "# Мёд\n",
    }
    return mk.testing.write_files(tmp_path / "root", {f"memory/{name}": text for name, text in files.items()})


@pytest.fixture
def index(root: Path) -> IndexStore:
    return mk.store(root).index


@pytest.mark.quick
def test_a_tree_is_made_from_nothing(tmp_path: Path) -> None:
    """Index standard, sections 1 and 3: root, branches, categories."""
    index = mk.store(mk.testing.write_files(tmp_path, {"memory/lessons/tea.md": "# Чай\n"})).index
    index.add_category("lessons", now=NOW)
    index.add_category("plans", "plans/index.json", now=NOW)
    index.add_entry("lessons", "Чай", "lessons/tea.md", ["чай"], "high", now=NOW, summary="с мёдом")
    assert tree(tmp_path)["memory/index.json"] == (
        '{\n  "type": "index-root",\n  "branches": [\n    { "category": "lessons", "path": "lessons/index.json" },\n'
        '    { "category": "plans", "path": "plans/index.json" }\n  ]\n}\n'
    )
    assert json.loads(tree(tmp_path)["memory/lessons/index.json"])["files"] == [
        {
            **{"title": "Чай", "file": "lessons/tea.md", "tags": ["чай"], "priority": "high", "version": "1.0"},
            **{"updated": NOW, "summary": "с мёдом"},
        }
    ]
    assert mk.read(tmp_path).problems.num_rows == 0
    with pytest.raises(ChangeRefusedError, match="already"):
        index.add_category("lessons")


@pytest.mark.quick
def test_an_entry_is_added_and_those_before_it_stay(index: IndexStore, root: Path) -> None:
    """Index standard, section 2: existing metadata is kept."""
    index.add_entry("lessons", "Мёд", "memory/lessons/honey.md", [], "low", now=NOW)
    after = tree(root)["memory/lessons/index.json"]
    end = BRANCH.rindex("}\n  ]") + 1
    assert after.startswith(BRANCH[:end])
    assert after.endswith(BRANCH[end:])
    assert json.loads(after)["files"][1]["file"] == "lessons/honey.md"
    mk.undo(root)
    assert tree(root)["memory/lessons/index.json"] == BRANCH


@pytest.mark.quick
def test_only_the_fields_that_are_meant_change(index: IndexStore, root: Path) -> None:
    """Index standard, section 2: only the values required are updated; overwriting a whole entry is forbidden."""
    index.update_entry("lessons/tea.md", priority="low", now=NOW)
    assert tree(root)["memory/lessons/index.json"] == (
        BRANCH.replace('"high"', '"low"').replace("2025-06-25", NOW).replace('"edit_count": 3', '"edit_count": 4')
    )
    index.update_entry("lessons/tea.md", title="Зелёный чай", updated="2026-04-01", edit_count=9, now=NOW)
    (entry,) = index.load().tables["entries"].to_pylist()
    assert (entry["title"], entry["edit_count"], str(entry["updated"].date())) == ("Зелёный чай", 9, "2026-04-01")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("lessons/none.md", "missing: there is no file"),
        ("../secret.md", "invalid: .* lies outside"),
        ("/etc/passwd", "invalid: .* lies outside"),
        ("lessons/tea.md", "names it already"),
        ("x/sofia-memory-plugin/a.md", "invalid: .* plugin"),
    ],
)
def test_the_three_rules_are_checked_before_saving(file: str, message: str, index: IndexStore, root: Path) -> None:
    """Index standard, section 4: inside memory/, there, not the plugin's."""
    before = tree(root)
    with pytest.raises(ChangeRefusedError, match=message):
        index.add_entry("lessons", "т", file, [], "low", now=NOW)
    if file != "lessons/tea.md":
        with pytest.raises(ChangeRefusedError, match=message):
            index.update_entry("lessons/tea.md", file=file, now=NOW)
    assert tree(root) == before


def test_an_entry_may_name_another_file(index: IndexStore) -> None:
    """Index standard, sections 2 and 4: a changed path is checked as a new one is."""
    assert index.update_entry("lessons/tea.md", file="lessons/honey.md", now=NOW) == "lessons/honey.md"
    assert index.load().tables["entries"]["file"].to_pylist() == ["lessons/honey.md"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda index: index.add_entry("lesons", "т", "lessons/honey.md", [], "low"), NotFoundError),
        (lambda index: index.add_entry("lessons", "т", "lessons/honey.md", [], "urgent"), FormatError),
        (lambda index: index.add_entry("lessons", "т", "lessons/honey.md", "чай", "low"), FormatError),
        (lambda index: index.update_entry("lessons/tee.md", title="т"), NotFoundError),
        (lambda index: index.update_entry("lessons/tea.md", priority="urgent"), FormatError),
        (lambda index: index.update_entry("lessons/tea.md"), ParameterError),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(call: Any, error: type, index: IndexStore, root: Path) -> None:
    before = tree(root)
    with pytest.raises(error):
        call(index)
    assert tree(root) == before


def test_removing_cleaning_and_splitting(index: IndexStore, root: Path) -> None:
    """Index standard, sections 4 and 5: auto_clean_missing; parts and index.md."""
    before = tree(root)
    mk.testing.write_files(root, {"memory/lessons/tea.md": "# Чай\n\nтекст\n\n# Ещё\n\nтекст\n"})
    small = IndexStore(root, max_tokens_per_file=4)
    assert isinstance(small.split("lessons/tea.md", dry_run=True), mk.Edits)
    small.split("lessons/tea.md", now=NOW)
    assert "memory/lessons/tea/index.md" in tree(root)
    assert index.check()["keep"].to_pylist() == [True]
    mk.undo(root)
    mk.testing.write_files(root, {"memory/lessons/tea.md": "# Чай\n"})
    index.remove_entry("lessons/tea.md", delete_file=True, now=NOW)
    assert "memory/lessons/tea.md" not in tree(root)
    mk.undo(root)
    assert tree(root) == before
    (root / "memory/lessons/tea.md").unlink()
    assert index.check()["reason"].to_pylist() == ["missing"]
    with pytest.raises(ParameterError, match="missing=True"):
        index.clean(now=NOW)
    assert index.clean(missing=True, now=NOW).num_rows == 1
    assert index.load().tables["entries"].num_rows == 0


LONG = "# Чай\n\nтекст\n\n# Ещё\n\nтекст\n\n# Мёд\n\nтекст\n"


@pytest.fixture
def split(root: Path) -> IndexStore:
    """A store whose file of tea was split into three parts."""
    mk.testing.write_files(root, {"memory/lessons/tea.md": LONG.replace("\n", "\r\n")})
    index = IndexStore(root, max_tokens_per_file=4)
    index.split("lessons/tea.md", now=NOW)
    return index


PART = "memory/lessons/tea/part{}.md"


def test_the_parts_of_a_split_file_become_one_again_byte_for_byte(split: IndexStore, root: Path) -> None:
    """Index standard, section 5: the way back."""
    assert {PART.format(n) for n in (1, 2, 3)} < tree(root).keys()
    split.rejoin("lessons/tea/index.md", now="2026-03-05")
    assert (root / "memory/lessons/tea.md").read_bytes() == LONG.replace("\n", "\r\n").encode()
    assert [path for path in tree(root) if "/tea/" in path] == []
    (entry,) = split.load().tables["entries"].to_pylist()
    assert (entry["file"], entry["edit_count"], entry["status"]) == ("lessons/tea.md", 4, "valid")
    assert str(entry["updated"].date()) == "2026-03-05"
    with pytest.raises(ChangeRefusedError, match="no parts"):
        split.rejoin("lessons/tea.md")


def test_an_edited_part_is_split_anew_and_stale_parts_go(split: IndexStore, root: Path) -> None:
    """Index standard, section 5: when the source changes, all parts and the index are made anew."""
    assert split.split(now=NOW).num_rows == 0
    path = root / PART.format(2)
    path.write_bytes("# Ещё\r\n\r\nтекст\r\n\r\n## Ниже\r\n\r\nтекст\r\n".encode())
    split.split(now="2026-03-06")
    text = b"".join((root / PART.format(n)).read_bytes() for n in range(1, 5))
    assert "## Ниже".encode() in (root / PART.format(3)).read_bytes()
    edited = LONG.replace("# Ещё\n\nтекст\n\n", "# Ещё\n\nтекст\n\n## Ниже\n\nтекст\n")
    assert text.decode() == edited.replace("\n", "\r\n")
    head = (root / "memory/lessons/tea/index.md").read_text()
    assert "parts: [part1.md, part2.md, part3.md, part4.md]" in head
    assert "updated: 2026-03-06" in head
    path.write_bytes(b"")
    (root / PART.format(3)).write_bytes(b"")
    split.split("lessons/tea/index.md", now="2026-03-07")
    assert not (root / PART.format(3)).exists()
    assert mk.read(root).problems.filter(pc.field("severity") == "error").num_rows == 0
    mk.undo(root)
    assert (root / PART.format(3)).read_bytes() == b""


def test_a_split_file_that_is_back_is_split_anew_from_itself(split: IndexStore, root: Path) -> None:
    """Index standard, section 5."""
    new = "# Мёд\n\nтекст\n\n# Сад\n\nтекст\n"
    mk.testing.write_files(root, {"memory/lessons/tea.md": new})
    mk.plan(mk.read(root), mk.SplitPlan(max_tokens_per_file=4), NOW).apply(force=True)
    assert not (root / "memory/lessons/tea.md").exists()
    assert "".join((root / PART.format(n)).read_text() for n in (1, 2)) == new
    assert not (root / PART.format(3)).exists()
    mk.testing.write_files(root, {"memory/lessons/tea.md": "# Чай\n"})
    split.split(now=NOW)
    assert tree(root)["memory/lessons/tea.md"] == "# Чай\n"
    assert [path for path in tree(root) if "/tea/" in path] == []


def test_a_root_is_created_once(tmp_path: Path) -> None:
    """Index standard, section 1."""
    index = mk.store(tmp_path).index
    assert index.create_root() == "memory/index.json"
    assert tree(tmp_path)["memory/index.json"] == '{\n  "type": "index-root",\n  "branches": []\n}\n'
    with pytest.raises(ChangeRefusedError, match="already"):
        index.create_root()
    index.add_category("lessons")
    assert json.loads(tree(tmp_path)["memory/index.json"])["branches"][0]["category"] == "lessons"


def test_pinned_entries_are_cleaned_only_where_it_is_said(index: IndexStore, root: Path) -> None:
    """Index standard, sections 2 and 4."""
    index.update_entry("lessons/tea.md", pinned=True, now=NOW)
    (root / "memory/lessons/tea.md").unlink()
    assert index.clean(missing=True, now=NOW)["op"].to_pylist() == ["refused"]
    assert index.clean(missing=True, pinned=True, now=NOW).num_rows == 1
    assert index.load().tables["entries"].num_rows == 0


@pytest.mark.parametrize("n_sound", [0, 1])
def test_saving_an_entry_says_which_others_break_a_rule_or_cleans_them(n_sound: int, root: Path) -> None:
    """Index standard, section 4: every entry is checked before saving; auto_clean_invalid, auto_clean_missing."""
    branch = json.loads(BRANCH)
    wrong = [{**branch["files"][0], "file": name} for name in ("lessons/none.md", "../out.md")]
    branch["files"] = [wrong[0], *branch["files"][:n_sound], wrong[1]]
    mk.testing.write_files(root, {"memory/lessons/index.json": json.dumps(branch, ensure_ascii=False, indent=2)})
    before = tree(root)
    with pytest.warns(RuntimeWarning, match=r"2 other entries break a rule: lessons/none[.]md is missing; [.][.]/out"):
        IndexStore(root).add_entry("lessons", "Мёд", "lessons/honey.md", [], "low", now=NOW)
    mk.undo(root)
    assert tree(root) == before
    strict = IndexStore(root, auto_clean_invalid=True, auto_clean_missing=True)
    strict.add_entry("lessons", "Мёд", "lessons/honey.md", [], "low", now=NOW)
    files = [entry["file"] for entry in json.loads(tree(root)["memory/lessons/index.json"])["files"]]
    assert files == ["lessons/tea.md"] * n_sound + ["lessons/honey.md"]
    mk.undo(root)
    if n_sound:
        strict.update_entry("lessons/tea.md", title="т", now=NOW)
        assert [entry["title"] for entry in json.loads(tree(root)["memory/lessons/index.json"])["files"]] == ["т"]
