"""The index standard's operations: entries are added, changed and cleaned, and all other bytes stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.change.index import IndexStore
from memkit.errors import FormatError, NotFoundError, ParameterError
from tests.folders import text_tree as tree

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


LONG = "# Чай\n\nтекст\n\n# Ещё\n\nтекст\n\n# Мёд\n\nтекст\n"


@pytest.fixture
def split(root: Path) -> IndexStore:
    """A store whose file of tea was split into three parts."""
    mk.testing.write_files(root, {"memory/lessons/tea.md": LONG.replace("\n", "\r\n")})
    index = IndexStore(root, max_tokens_per_file=4)
    index.split("lessons/tea.md", now=NOW)
    return index


PART = "memory/lessons/tea/part{}.md"


def test_a_split_file_that_becomes_one_again_was_edited_once(split: IndexStore) -> None:
    """Index standard, section 5: the way back."""
    split.rejoin("lessons/tea/index.md", now="2026-03-05")
    (entry,) = split.load().tables["entries"].to_pylist()
    assert (entry["edit_count"], str(entry["updated"].date())) == (4, "2026-03-05")


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
