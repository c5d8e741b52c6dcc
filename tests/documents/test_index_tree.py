"""The index standard for a day: its own examples byte for byte, and every operation that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ChangeRefusedError, MemkitError, ParameterError

DAY = "2025-06-26"
BOM = "\ufeff"


@pytest.fixture(scope="module")
def document(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("documents/index_tree.py")


@pytest.fixture
def root(document: ModuleType, tmp_path: Path) -> Path:
    return mk.testing.write_files(tmp_path / "bot", document.files())


def tree(root: Path) -> dict[str, bytes]:
    """Every file and every folder, memkit's own aside."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else b"(folder)"
        for path in sorted(root.rglob("*"))
        if ".memkit" not in path.parts
    }


def faults(root: Path) -> list[str]:
    return list(mk.read(root).problems["rule"].to_pylist())


@pytest.mark.quick
def test_the_documents_folder_is_what_the_operations_make_of_nothing(document: ModuleType, tmp_path: Path) -> None:
    """Sections 1 to 3: the examples of a root and of a branch, byte for byte."""
    index = mk.store(mk.testing.write_files(tmp_path, {"memory/lessons/intro.md": document.INTRO})).index
    index.create_root()
    assert (tmp_path / "memory/index.json").read_text() == '{\n  "type": "index-root",\n  "branches": []\n}\n'
    with pytest.raises(ChangeRefusedError, match="already"):
        index.create_root()
    index.add_category("context", "plans/context/index.json")
    index.add_category("lessons")
    entry = dict(document.ENTRY)
    assert index.add_entry("lessons", **entry) == "lessons/intro.md"
    files = {path: data.decode() for path, data in tree(tmp_path).items() if data != b"(folder)"}
    assert files == document.files()
    assert faults(tmp_path) == []


@pytest.mark.quick
def test_the_memory_folder_itself_may_be_given(document: ModuleType, tmp_path: Path) -> None:
    """Section 3: the folder is called memory; who names it means it, whether it has an index yet or not."""
    home = mk.testing.write_files(tmp_path / "memory", {"lessons/intro.md": document.INTRO})
    index = mk.store(home).index
    assert index.create_root() == "index.json"
    index.add_category("context", "plans/context/index.json")
    index.add_category("lessons")
    index.add_entry("lessons", **document.ENTRY)
    files = {f"memory/{path}": data.decode() for path, data in tree(home).items() if data != b"(folder)"}
    assert files == document.files()
    fresh = mk.testing.write_files(tmp_path / "two/memory", {"lessons/intro.md": document.INTRO})
    assert mk.store(fresh).index.add_category("lessons") == "lessons/index.json"


@pytest.mark.quick
@pytest.mark.parametrize(
    "written", ["lessons/two.md", "memory/lessons/two.md", "lessons/./two.md", "./lessons//two.md"]
)
@pytest.mark.parametrize("form", ["", "memory/"])
def test_a_file_is_written_in_one_form_the_one_of_its_index(
    form: str, written: str, document: ModuleType, root: Path
) -> None:
    """Sections 1 and 3 spell the path in two ways: an index keeps the one that it has."""
    branch = document.LESSONS.replace('"lessons/intro', f'"{form}lessons/intro')
    mk.testing.write_files(root, {"memory/lessons/two.md": "# Two\n", "memory/lessons/index.json": branch})
    index = mk.store(root).index
    assert index.add_entry("lessons", "Two", written, [], "low", updated=DAY) == f"{form}lessons/two.md"
    files = [entry["file"] for entry in json.loads(tree(root)["memory/lessons/index.json"])["files"]]
    assert files == [f"{form}lessons/intro.md", f"{form}lessons/two.md"]
    with pytest.raises(ChangeRefusedError, match="names it already"):
        index.add_entry("lessons", "Two", "lessons/two.md", [], "low")
    index.update_entry(written, title="Second", now=DAY)
    assert index.load().tables["entries"]["title"].to_pylist() == ["Intro Lesson", "Second"]
    assert faults(root) == []


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("plans/context/plan.md", "invalid: plans/context/plan.md lies outside of lessons/"),
        ("lessons/none.md", "missing: there is no file lessons/none.md"),
        ("lessons/../../secret.md", "invalid: .* lies outside of the memory folder"),
        ("/etc/passwd", "invalid: .* lies outside of the memory folder"),
        ("C:/x.md", "invalid: .* lies outside of the memory folder"),
        ("lessons\\intro.md", "invalid: .* lies outside of the memory folder"),
        ("lessons/sofia-memory-plugin/tool.md", "invalid: .* is a file of the plugin"),
        ("lessons/index.json", "invalid: .* is an index"),
        ("lessons/intro.md", "another entry names it already"),
    ],
)
def test_an_entry_is_saved_only_where_the_reader_finds_nothing_wrong(
    file: str, message: str, document: ModuleType, root: Path
) -> None:
    """Section 4, and section 3: each category has an index of its own."""
    added = {"plans/context/plan.md": "# Plan\n", "lessons/sofia-memory-plugin/tool.md": "# Tool\n"}
    mk.testing.write_files(root, {f"memory/{path}": text for path, text in added.items()} | {"secret.md": "x"})
    before = tree(root)
    index = mk.store(root).index
    with pytest.raises(ChangeRefusedError, match=message):
        index.add_entry("lessons", "т", file, [], "low", now=DAY)
    if file != "lessons/intro.md":
        with pytest.raises(ChangeRefusedError, match=message):
            index.update_entry("lessons/intro.md", file=file, now=DAY)
    assert tree(root) == before


def test_the_options_of_section_four_and_five_are_given_where_the_store_is_made(root: Path) -> None:
    """Sections 4 and 5: auto_clean_invalid, auto_clean_missing, memory_settings.max_tokens_per_file."""
    branch = json.loads(tree(root)["memory/lessons/index.json"])
    wrong = [{**branch["files"][0], "file": name} for name in ("lessons/none.md", "../out.md")]
    whole = {"memory/lessons/index.json": json.dumps({**branch, "files": [*branch["files"], *wrong]}, indent=2)}
    new = ("lessons", "Two", "lessons/two.md", [], "low")
    for options, remaining in (
        ({"auto_clean_missing": True}, ["lessons/intro.md", "../out.md"]),
        ({"auto_clean_invalid": True}, ["lessons/intro.md", "lessons/none.md"]),
        ({"auto_clean_missing": True, "auto_clean_invalid": True}, ["lessons/intro.md"]),
    ):
        mk.testing.write_files(root, {"memory/lessons/two.md": "# Two\n\nтекст\n\n# Three\n\nтекст\n", **whole})
        index = mk.store(root, **options, max_tokens_per_file=4).index
        if len(remaining) > 1:
            with pytest.warns(RuntimeWarning, match="1 other entries break a rule"):
                index.add_entry(*new, now=DAY)
        else:
            index.add_entry(*new, now=DAY)
        assert index.load().tables["entries"]["file"].to_pylist() == [*remaining, "lessons/two.md"]
        mk.testing.write_files(root, whole)
        assert index.clean(now=DAY)["op"].to_pylist() == ["update"]
        assert index.load().tables["entries"]["file"].to_pylist() == remaining
    index.add_entry(*new, now=DAY)
    assert "create" in index.split("lessons/two.md", now=DAY)["op"].to_pylist()
    with pytest.raises(ParameterError, match="max_tokens_per_file"):
        mk.store(root, max_tokens_per_file=0)
    with pytest.raises(ParameterError, match="auto_clean_missing"):
        mk.store(root, auto_clean_missing="yes")  # type: ignore[arg-type]


def test_cleaning_says_what_it_was_not_asked_for(document: ModuleType, root: Path) -> None:
    """Section 4: what is removed automatically is what an option names; pinned entries stay."""
    index = mk.store(root).index
    assert index.check()["keep"].to_pylist() == [True]
    (root / "memory/lessons/intro.md").unlink()
    assert index.check()["reason"].to_pylist() == ["missing"]
    with pytest.raises(ParameterError, match="invalid=True or missing=True"):
        index.clean(now=DAY)
    mk.testing.write_files(
        root, {"memory/lessons/index.json": document.LESSONS.replace('"tags"', '"pinned": true, "tags"')}
    )
    (row,) = index.clean(missing=True, now=DAY).to_pylist()
    assert (row["path"], row["op"]) == ("memory/lessons/index.json", "refused")
    assert "pinned" in row["reason"]
    assert index.clean(missing=True, pinned=True, now=DAY)["op"].to_pylist() == ["update"]
    assert index.load().tables["entries"].num_rows == 0


def test_an_entry_goes_and_its_file_only_where_that_is_said(root: Path) -> None:
    """Section 2 and 6: an operation of the index changes the index."""
    before = tree(root)
    index = mk.store(root).index
    assert index.remove_entry("memory/lessons/intro.md", now=DAY) == "lessons/intro.md"
    after = tree(root)
    assert json.loads(after["memory/lessons/index.json"])["files"] == []
    assert after == before | {"memory/lessons/index.json": after["memory/lessons/index.json"]}
    assert faults(root) == ["unindexed"]
    mk.undo(root)
    assert tree(root) == before
    index.remove_entry("lessons/intro.md", delete_file=True, now=DAY)
    assert "memory/lessons/intro.md" not in tree(root)
    assert faults(root) == []


@pytest.mark.parametrize("layout", ["lines", "one line", "two branches"])
def test_two_entries_on_one_file_can_be_mended(layout: str, document: ModuleType, root: Path) -> None:
    """Section 6: the index is changed by the utilities alone, so they must be able to mend it."""
    second = {**document.ENTRY, "title": "Again"}
    first = document.ENTRY
    branch = {"type": "index-branch", "category": "lessons", "files": [first, second]}
    other = {"type": "index-branch", "category": "context", "files": [second]}
    if layout == "two branches":
        mk.testing.write_files(root, {"memory/plans/context/index.json": json.dumps(other, indent=2)})
    else:
        mk.testing.write_files(
            root, {"memory/lessons/index.json": json.dumps(branch, indent=2 if layout == "lines" else None)}
        )
    before = tree(root)
    mk.testing.write_files(root, {"memory/lessons/two.md": "# Two\n"})
    index = mk.store(root, max_tokens_per_file=1).index
    titles = index.load().tables["entries"]["title"].to_pylist()
    for call in (
        lambda: index.remove_entry("lessons/intro.md"),
        lambda: index.update_entry("lessons/intro.md", title="x"),
        lambda: index.split("lessons/intro.md"),
        lambda: index.remove_entry("lessons/intro.md", nth=1, delete_file=True),
    ):
        with pytest.raises(ChangeRefusedError, match=r"2 entries name it.*1\. .*2\. .*Again|Again.*2\. "):
            call()
    with pytest.raises(ChangeRefusedError, match=r"nth=1 or nth=2 says which\.$"):
        index.remove_entry("lessons/intro.md")
    with pytest.raises(ParameterError, match="'nth' must be an int in"):
        index.remove_entry("lessons/intro.md", nth=3)
    again = titles.index("Again") + 1
    index.remove_entry("lessons/intro.md", nth=again, now=DAY)
    assert index.load().tables["entries"]["title"].to_pylist() == ["Intro Lesson"]
    mk.undo(root)
    if layout != "two branches":
        moved = index.update_entry("lessons/intro.md", nth=again, file="lessons/two.md", now=DAY)
        assert moved == "lessons/two.md"
        assert index.load().tables["entries"]["file"].to_pylist() == ["lessons/intro.md", "lessons/two.md"]
        assert faults(root) == []
        mk.undo(root)
    (root / "memory/lessons/two.md").unlink()
    assert tree(root) == before


def test_the_roots_own_example_is_made_whole(document: ModuleType, tmp_path: Path) -> None:
    """Section 1: the root names branches; one that is missing is written where the root names it."""
    root = mk.testing.write_files(tmp_path, {"memory/index.json": document.ROOT})
    index = mk.store(root).index
    with pytest.raises(ChangeRefusedError, match=r"already, at plans/context/index\.json"):
        index.add_category("context", "context/index.json")
    assert [index.add_category(name) for name in ("context", "lessons")] == [
        "memory/plans/context/index.json",
        "memory/lessons/index.json",
    ]
    assert (root / "memory/index.json").read_text("utf-8") == document.ROOT
    assert (root / "memory/plans/context/index.json").read_text("utf-8") == document.CONTEXT
    assert faults(root) == []
    with pytest.raises(ChangeRefusedError, match="exists already"):
        index.add_category("context")


def test_a_root_that_names_a_place_outside_makes_no_branch_there(document: ModuleType, tmp_path: Path) -> None:
    outside = document.ROOT.replace("plans/context/index.json", "../context/index.json")
    root = mk.testing.write_files(tmp_path, {"memory/index.json": outside})
    with pytest.raises(ChangeRefusedError, match=r"no index\.json inside of the memory folder"):
        mk.store(root).index.add_category("context")
    assert [path for path in tree(root) if path.endswith(".json")] == ["memory/index.json"]


@pytest.mark.parametrize("priority", [1, True, 2.5])
def test_a_priority_that_is_no_word_is_one_row(priority: object, document: ModuleType, root: Path) -> None:
    branch = {"type": "index-branch", "category": "lessons", "files": [{**document.ENTRY, "priority": priority}]}
    mk.testing.write_files(root, {"memory/lessons/index.json": json.dumps(branch)})
    (row,) = mk.read(root).problems.to_pylist()
    assert (row["rule"], row["field"]) == ("bad_value", "priority")


def test_a_save_says_which_pinned_entry_stays(document: ModuleType, root: Path) -> None:
    lost = {**document.ENTRY, "file": "lessons/lost.md", "pinned": True}
    branch = {"type": "index-branch", "category": "lessons", "files": [document.ENTRY, lost]}
    mk.testing.write_files(root, {"memory/lessons/index.json": json.dumps(branch, indent=2)})
    index = mk.store(root, auto_clean_missing=True).index
    with pytest.warns(RuntimeWarning, match=r"lessons/lost\.md is missing and stays, as it is pinned"):
        index.update_entry("lessons/intro.md", title="Чай", now=DAY)


def test_an_entry_whose_file_never_existed_keeps_its_path(tmp_path: Path) -> None:
    flat = [{"path": "x.md", "title": "x", "type": "lesson"}, {"path": "memory/plans/never.md", "title": "n"}]
    root = mk.testing.write_files(tmp_path, {"memory/index.json": json.dumps(flat), "memory/x.md": "Текст.\n"})
    edits = mk.plan(mk.read(root), mk.Migrate())
    (refused,) = edits.refused.to_pylist()
    assert refused["reason"].startswith("missing_file: there is no file plans/never.md")
    edits.apply()
    entries = mk.store(root).index.load().tables["entries"]
    assert sorted(entries["file"].to_pylist()) == ["lessons/x.md", "plans/never.md"]


# --- section 5 ---------------------------------------------------------------------------------------------------


@pytest.fixture
def notes_root(document: ModuleType, root: Path) -> Path:
    """The folder with the category and the file that section 5 splits."""
    mk.testing.write_files(root, {"memory/notes/note.md": document.NOTE})
    index = mk.store(root).index
    index.add_category("notes")
    index.add_entry("notes", **document.NOTE_ENTRY)
    return root


def split_store(root: Path) -> Any:
    return mk.store(root, max_tokens_per_file=12).index


@pytest.mark.parametrize("title", ["true", "2025-06-26", "Чай: мёд"])
def test_a_title_that_yaml_reads_as_something_else_is_quoted(title: str, notes_root: Path) -> None:
    store = split_store(notes_root)
    store.update_entry("notes/note.md", title=title, now=DAY)
    store.split("notes/note.md", now=DAY)
    assert f'title: "{title}"\n' in (notes_root / "memory/notes/note/index.md").read_text("utf-8")


@pytest.mark.parametrize("bom", ["", BOM])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_large_file_becomes_a_folder_and_one_file_again(
    newline: str, bom: str, document: ModuleType, notes_root: Path
) -> None:
    """Section 5: the parts, their index.md, the entry that names it; and the way back, a BOM and line ends kept."""
    whole = (bom + document.NOTE.replace("\n", newline)).encode()
    (notes_root / "memory/notes/note.md").write_bytes(whole)
    before = tree(notes_root)
    index = split_store(notes_root)
    assert isinstance(index.split("notes/note.md", dry_run=True), mk.Edits)
    assert tree(notes_root) == before
    changes = index.split("notes/note.md", now=DAY)
    assert set(changes["op"].to_pylist()) == {"create", "update", "delete"}
    after = tree(notes_root)
    assert after.keys() - before.keys() == {
        *(
            "memory/notes/note",
            "memory/notes/note/part1.md",
            "memory/notes/note/part2.md",
            "memory/notes/note/index.md",
        ),
    }
    assert before.keys() - after.keys() == {"memory/notes/note.md"}
    assert after["memory/notes/note/part1.md"] + after["memory/notes/note/part2.md"] == whole
    tokens = mk.SplitPlan().count(document.NOTE)
    assert after["memory/notes/note/index.md"].decode() == document.HEAD.format(tokens=tokens)
    named = before["memory/notes/index.json"].replace(b"notes/note.md", b"notes/note/index.md")
    assert after["memory/notes/index.json"] == named
    assert faults(notes_root) == []
    mk.undo(notes_root)
    assert tree(notes_root) == before
    index.split("notes/note.md", now=DAY)
    index.rejoin("notes/note/index.md", now="2025-06-25")
    assert tree(notes_root) == before
    with pytest.raises(ChangeRefusedError, match="no parts"):
        index.rejoin("notes/note.md")
    mk.undo(notes_root)
    assert tree(notes_root) == after


@pytest.mark.parametrize("call", ["split", "split all", "plan"])
@pytest.mark.parametrize("case", ["one long line", "a taken part", "no entry", "two entries"])
def test_what_cannot_be_split_is_said(case: str, call: str, document: ModuleType, notes_root: Path) -> None:
    """Section 5: a file that stays over the limit is never an empty answer."""
    files, message = {
        "one long line": ({"memory/notes/note.md": "слово " * 40 + "\n"}, "one line.*never cut"),
        "a taken part": ({"memory/notes/note/part1.md": "Моё.\n"}, "part1.md exists already"),
        "no entry": ({"memory/notes/loose.md": document.NOTE}, "no index names it"),
        "two entries": (
            {
                "memory/notes/index.json": json.dumps(
                    {"type": "index-branch", "category": "notes", "files": [document.NOTE_ENTRY] * 2}, indent=1
                )
            },
            "2 entries name it",
        ),
    }[case]
    mk.testing.write_files(notes_root, files)
    if case == "no entry":
        (notes_root / "memory/notes/note.md").write_text("Кратко.\n", "utf-8")
    before = tree(notes_root)
    index = split_store(notes_root)
    if call == "split" and case == "no entry":
        with pytest.raises(mk.errors.NotFoundError):
            index.split("notes/loose.md", now=DAY)
    elif call == "split":
        with pytest.raises(ChangeRefusedError, match=message):
            index.split("notes/note.md", now=DAY)
    elif call == "split all":
        rows = index.split(now=DAY).to_pylist()
        assert [row["op"] for row in rows] == ["refused"]
        assert rows[0]["path"] in ("memory/notes/note.md", "memory/notes/loose.md")
        assert re.search(message, rows[0]["reason"])
    else:
        plan = mk.plan(mk.read(notes_root), mk.SplitPlan(max_tokens_per_file=12))
        assert plan.table.num_rows == 0
        assert plan.refused.num_rows == 1
    assert tree(notes_root) == before


def test_a_file_within_the_limit_is_said_to_be(notes_root: Path) -> None:
    """Section 5: only a file over the limit is split."""
    (row,) = mk.store(notes_root).index.split("notes/note.md").to_pylist()
    assert (row["path"], row["op"]) == ("memory/notes/note.md", "kept")
    assert "4096" in row["reason"]


def test_a_split_file_goes_with_its_folder(notes_root: Path) -> None:
    index = split_store(notes_root)
    before = tree(notes_root)
    index.split(now=DAY)
    split = tree(notes_root)
    index.remove_entry("notes/note/index.md", delete_file=True, now=DAY)
    assert [path for path in tree(notes_root) if path.startswith("memory/notes/note")] == []
    mk.undo(notes_root)
    assert tree(notes_root) == split
    mk.testing.write_files(notes_root, {"memory/notes/note/mine.txt": "моё"})
    index.rejoin("notes/note/index.md", now="2025-06-25")
    assert tree(notes_root).keys() - before.keys() == {"memory/notes/note", "memory/notes/note/mine.txt"}


TEXTS = st.lists(st.sampled_from(["# Раздел", "текст текста", "", "```", "ещё слово и слово"]), max_size=12)


@settings(max_examples=40)
@given(lines=TEXTS, newline=st.sampled_from(["\n", "\r\n"]), bom=st.sampled_from(["", BOM]), limit=st.integers(1, 20))
def test_what_is_split_is_put_together_byte_for_byte(
    lines: list[str], newline: str, bom: str, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Section 5: no byte is lost on the way there and back."""
    entry = {"title": "T", "file": "a/t.md", "tags": [], "priority": "low", "version": "1", "updated": DAY}
    branch = json.dumps({"type": "index-branch", "category": "a", "files": [entry]}, indent=2)
    root = mk.testing.write_files(
        tmp_path_factory.mktemp("split"), {"memory/a/index.json": branch, "memory/a/t.md": ""}
    )
    (root / "memory/a/t.md").write_bytes((bom + newline.join(lines)).encode())
    before = tree(root)
    index = mk.store(root, max_tokens_per_file=limit).index
    message, ops = "", []
    try:
        ops = index.split("a/t.md", now=DAY)["op"].to_pylist()
    except ChangeRefusedError as error:
        message = str(error)
    assert not message or "one line" in message
    if "create" in ops:
        index.rejoin("a/t/index.md", now=DAY)
    assert tree(root) == before


# --- every operation -----------------------------------------------------------------------------------------------

ODD: list[Any] = [None, 5, b"x", ["a"], {}, ""]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add_category": lambda index, odd: index.add_category(odd),
    "path": lambda index, odd: index.add_category("new", odd),
    "category": lambda index, odd: index.add_entry(odd, "т", "lessons/intro.md", [], "low"),
    "title": lambda index, odd: index.add_entry("lessons", odd, "lessons/two.md", [], "low"),
    "file": lambda index, odd: index.add_entry("lessons", "т", odd, [], "low"),
    "tags": lambda index, odd: index.add_entry("lessons", "т", "lessons/two.md", odd, "low"),
    "priority": lambda index, odd: index.add_entry("lessons", "т", "lessons/two.md", [], odd),
    "version": lambda index, odd: index.add_entry("lessons", "т", "lessons/two.md", [], "low", odd),
    "updated": lambda index, odd: index.add_entry("lessons", "т", "lessons/two.md", [], "low", updated=odd),
    "update_entry": lambda index, odd: index.update_entry(odd, title="т"),
    "update_file": lambda index, odd: index.update_entry("lessons/intro.md", file=odd),
    "remove_entry": lambda index, odd: index.remove_entry(odd),
    "nth": lambda index, odd: index.remove_entry("lessons/intro.md", nth=odd),
    "split": lambda index, odd: index.split(odd),
    "rejoin": lambda index, odd: index.rejoin(odd),
    "clean": lambda index, odd: index.clean(missing=odd),
    "now": lambda index, odd: index.remove_entry("lessons/intro.md", now=odd),
}
FINE = {("path", None), ("updated", None), ("nth", None), ("split", None), ("now", None), ("clean", None)}


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_what_has_a_wrong_type_is_refused_in_one_message(call: str, odd: Any, root: Path) -> None:
    if call == "tags" and odd == ["a"]:
        return
    if (call, odd if isinstance(odd, (str, int, bytes, type(None))) else "odd") in FINE and call != "clean":
        return
    mk.testing.write_files(root, {"memory/lessons/two.md": "# Two\n"})
    before = tree(root)
    with pytest.raises(MemkitError) as caught:
        CALLS[call](mk.store(root).index, odd)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    assert tree(root) == before
