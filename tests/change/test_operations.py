"""Every operation of the documents has a test that names document and section; their examples are what is written."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.change.facts import FactStore
from memkit.change.index import IndexStore
from memkit.change.notes import NoteStore
from memkit.change.operations import Operations
from memkit.change.records import RecordStore
from memkit.change.workspace import MemoryIndex, MemoryStorage
from memkit.serve.tools import Tools

TESTS = Path(__file__).parents[1]
INDEX, WORKSPACE, NOTES, RECORDS, FACTS = (
    "Index standard",
    "Workspace",
    "Memory Format",
    "Data formats",
    "Memory v2",
)
# Document, section, operation, and the test that names the first two in its docstring and does the third.
OPERATIONS = [
    (INDEX, "section 1", "create_root", "change/test_index_store.py::test_a_root_is_created_once"),
    (INDEX, "sections 1 and 3", "add_category", "change/test_index_store.py::test_a_tree_is_made_from_nothing"),
    (INDEX, "section 2", "add_entry", "change/test_index_store.py::test_an_entry_is_added_and_those_before_it_stay"),
    (INDEX, "section 2", "update_entry", "change/test_index_store.py::test_only_the_fields_that_are_meant_change"),
    (INDEX, "section 2", "load", "change/test_index_store.py::test_only_the_fields_that_are_meant_change"),
    (INDEX, "sections 4 and 5", "check", "change/test_index_store.py::test_removing_cleaning_and_splitting"),
    (INDEX, "sections 4 and 5", "remove_entry", "change/test_index_store.py::test_removing_cleaning_and_splitting"),
    (INDEX, "sections 4 and 5", "clean", "change/test_index_store.py::test_removing_cleaning_and_splitting"),
    (INDEX, "section 5", "split", "change/test_index_store.py::test_an_edited_part_is_split_anew_and_stale_parts_go"),
    (
        INDEX,
        "section 5",
        "rejoin",
        "change/test_index_store.py::test_the_parts_of_a_split_file_become_one_again_byte_for_byte",
    ),
    (
        WORKSPACE,
        "MemoryStorage",
        "read_memory",
        "change/test_workspace_store.py::test_memory_gets_sections_with_their_time",
    ),
    (
        WORKSPACE,
        "MemoryStorage",
        "append_to_memory",
        "change/test_workspace_store.py::test_memory_gets_sections_with_their_time",
    ),
    (WORKSPACE, "daily logs", "read_daily_log", "change/test_workspace_store.py::test_a_daily_log_is_one_file_a_day"),
    (
        WORKSPACE,
        "daily logs",
        "append_to_daily_log",
        "change/test_workspace_store.py::test_a_daily_log_is_one_file_a_day",
    ),
    (
        WORKSPACE,
        "get_recent_context",
        "get_recent_context",
        "change/test_workspace_store.py::test_the_context_is_the_last_days_newest_first",
    ),
    (
        WORKSPACE,
        "sessions",
        "save_session",
        "change/test_workspace_store.py::test_transcripts_are_saved_once_and_grow_by_turns",
    ),
    (
        WORKSPACE,
        "sessions",
        "append_to_session",
        "change/test_workspace_store.py::test_transcripts_are_saved_once_and_grow_by_turns",
    ),
    (WORKSPACE, "MemoryIndex", "index_file", "change/test_workspace_store.py::test_the_index_follows_what_is_written"),
    (WORKSPACE, "MemoryIndex", "index_all", "change/test_workspace_store.py::test_the_index_follows_what_is_written"),
    (WORKSPACE, "MemoryIndex", "search", "change/test_workspace_store.py::test_the_index_follows_what_is_written"),
    (
        WORKSPACE,
        "singletons",
        "get_storage",
        "change/test_workspace_store.py::test_there_is_one_storage_and_one_index_a_root",
    ),
    (
        WORKSPACE,
        "singletons",
        "get_index",
        "change/test_workspace_store.py::test_there_is_one_storage_and_one_index_a_root",
    ),
    *(
        (NOTES, section, name, "change/test_stores.py::test_a_note_is_created_listed_changed_and_deleted")
        for section, name in (
            ("updated_at", "create"),
            ("updated_at", "update"),
            ("updated_at", "list"),
            ("Search", "search"),
            ("id of version 4", "get"),
            ("id of version 4", "delete"),
            ("Validation Rules", "validate"),
        )
    ),
    (RECORDS, "section 2", "put", "change/test_stores.py::test_records_are_put_strictly_and_once"),
    (RECORDS, "usage_stats", "record_use", "change/test_stores.py::test_a_use_is_counted_and_nothing_else_changes"),
    (RECORDS, "section 1", "migrate", "change/test_stores.py::test_old_records_are_migrated_with_a_journal"),
    (FACTS, "memory_save", "save", "change/test_stores.py::test_a_fact_is_saved_in_the_file_of_its_type"),
    (FACTS, "policy", "save", "change/test_stores.py::test_a_refusal_gives_the_policys_reason_and_writes_nothing"),
    (
        FACTS,
        "semantic dedup",
        "save",
        "change/test_stores.py::test_what_means_the_same_is_refused_and_what_differs_in_a_number_is_not",
    ),
    (FACTS, "limits", "save", "change/test_stores.py::test_limits_refuse_and_evict"),
    (FACTS, "TTL", "read", "change/test_stores.py::test_reading_hides_what_is_past_its_day_and_cleanup_deletes_it"),
    (FACTS, "TTL", "cleanup", "change/test_stores.py::test_reading_hides_what_is_past_its_day_and_cleanup_deletes_it"),
    *(
        (FACTS, f"memory_{name}", name, "change/test_stores.py::test_a_fact_is_found_fetched_updated_and_forgotten")
        for name in ("search", "get", "update", "forget")
    ),
    (FACTS, "data layout", "migrate_user", "change/test_stores.py::test_the_old_file_of_a_user_is_migrated_once"),
    (FACTS, "pre-retrieval", "blocks", "change/test_stores.py::test_blocks_are_what_a_prompt_gets"),
    (FACTS, "manual check", "selftest", "cli/test_cli_change.py::test_selftest_works_on_a_copy"),
    (WORKSPACE, "MCP tools", "memory_search", "serve/test_tools.py::test_search_get_and_the_log_that_tuning_reads"),
    (FACTS, "memory_get", "memory_get", "serve/test_tools.py::test_search_get_and_the_log_that_tuning_reads"),
    (NOTES, "Validation Rules", "note_create", "documents/test_notes.py::test_notes_are_made_and_found_over_mcp"),
    (NOTES, "Search", "note_search", "documents/test_notes.py::test_notes_are_made_and_found_over_mcp"),
    (WORKSPACE, "MCP tools", "memory_append", "serve/test_tools.py::test_what_is_written_is_found_at_once"),
    (WORKSPACE, "MCP tools", "memory_log", "serve/test_tools.py::test_what_is_written_is_found_at_once"),
    (WORKSPACE, "MCP tools", "memory_context", "serve/test_tools.py::test_what_is_written_is_found_at_once"),
    (WORKSPACE, "MCP tools", "memory_reindex", "serve/test_tools.py::test_what_is_written_is_found_at_once"),
    *(
        (FACTS, "MemorySkill", name, "serve/test_tools.py::test_facts_are_saved_read_changed_and_forgotten")
        for name in ("memory_save", "memory_read", "memory_forget", "memory_update")
    ),
    (FACTS, "tools", "memory_forget", "serve/test_tools.py::test_what_was_forgotten_is_in_no_query_of_the_log"),
]


@cache
def functions_of(file: str) -> dict[str, tuple[str, str]]:
    """The docstring and the source, decorators included, of every test of a file."""
    text = (TESTS / file).read_text("utf-8")
    functions = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            above = [ast.get_source_segment(text, part) or "" for part in node.decorator_list]
            source = "\n".join([*above, ast.get_source_segment(text, node) or ""])
            functions[node.name] = (ast.get_docstring(node) or "", source)
    return functions


@pytest.mark.quick
@pytest.mark.parametrize(
    ("document", "section", "operation", "test"), OPERATIONS, ids=lambda value: value.split("::")[-1]
)
def test_an_operation_has_a_test_that_names_document_and_section(
    document: str, section: str, operation: str, test: str
) -> None:
    file, _, name = test.partition("::")
    assert name in functions_of(file), f"{file} has no such test"
    docstring, source = functions_of(file)[name]
    assert document in docstring
    assert section in docstring
    assert f"{operation}(" in source or f'"{operation}"' in source, f"{name} does not do it"


@pytest.mark.quick
def test_no_operation_of_a_store_and_no_tool_is_left_out() -> None:
    stores: list[type] = [
        IndexStore,
        MemoryStorage,
        MemoryIndex,
        NoteStore,
        RecordStore,
        FactStore,
    ]
    public = {
        name
        for store in stores
        for name, member in vars(store).items()
        if inspect.isfunction(member) and name[0] != "_"
    }
    public |= {*Tools.READING, *Tools.WRITING, "get_storage", "get_index"}
    assert public - {operation for _, _, operation, _ in OPERATIONS} == set()
    assert all(issubclass(store, Operations) for store in stores if store is not MemoryIndex)


# --- what the documents show of files, written by the operations themselves ---


@pytest.mark.quick
def test_a_split_writes_the_index_that_the_document_shows(tmp_path: Path) -> None:
    """Index standard, section 5: note.md of 5,000 tokens becomes two parts and this index.md."""
    paragraph = f"{'слово ' * 99}конец.\n\n"
    text = "# Note\n\n" + paragraph * 40
    text = text[: 20_000 - 1].rstrip("\n") if len(text) > 20_000 else text
    text = text.ljust(19_999, "х") + "\n"  # four characters a token
    index = mk.store(tmp_path).index
    index.create_root()
    index.add_category("notes")
    mk.testing.write_files(tmp_path, {"memory/notes/note.md": text})
    index.add_entry("notes", "Note", "notes/note.md", [], "low", updated="2025-06-01")
    index.split("notes/note.md", now="2025-06-26")
    expected = (
        "---\ntitle: Note\nparts: [part1.md, part2.md]\ntokens_total: 5000\nsplit: auto\nupdated: 2025-06-26\n---\n"
    )
    assert (tmp_path / "memory/notes/note/index.md").read_text("utf-8") == expected
    assert index.load().tables["entries"]["file"].to_pylist() == ["notes/note/index.md"]
    assert sorted(path.name for path in (tmp_path / "memory/notes/note").iterdir()) == [
        "index.md",
        "part1.md",
        "part2.md",
    ]


def test_the_index_of_the_document_is_built_by_its_operations(tmp_path: Path) -> None:
    """Index standard, section 1: the root with two branches, and the branch with one entry."""
    index = mk.store(tmp_path).index
    index.create_root()
    index.add_category("context", "plans/context/index.json")
    index.add_category("lessons")
    mk.testing.write_files(tmp_path, {"memory/lessons/intro.md": "# Intro\n"})
    index.add_entry("lessons", "Intro Lesson", "lessons/intro.md", ["intro"], "high", "1.0", "2025-06-25")
    root = (tmp_path / "memory/index.json").read_text("utf-8")
    assert (
        root
        == """{
  "type": "index-root",
  "branches": [
    { "category": "context", "path": "plans/context/index.json" },
    { "category": "lessons", "path": "lessons/index.json" }
  ]
}
"""
    )
    branch = (tmp_path / "memory/lessons/index.json").read_text("utf-8")
    assert (
        branch
        == """{
  "type": "index-branch",
  "category": "lessons",
  "files": [
    {
      "title": "Intro Lesson",
      "file": "lessons/intro.md",
      "tags": ["intro"],
      "priority": "high",
      "version": "1.0",
      "updated": "2025-06-25"
    }
  ]
}
"""
    )


@pytest.mark.parametrize(
    ("file", "line", "last"),
    [
        ("profile.md", "- [id:pf_001] [t:profile] [imp:high] Пользователь предпочитает русский.", {}),
        (
            "working.md",
            "- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Сейчас ставим simple-bot...",
            {"wk": 13},
        ),
        ("archive.md", "- [id:ar_120] [t:archive] [imp:low] Обсуждали структуру памяти.", {"ar": 119}),
    ],
)
def test_saving_writes_the_lines_that_the_document_shows(
    file: str, line: str, last: dict[str, int], tmp_path: Path
) -> None:
    """Memory v2, the line of a fact: what policy, classification and ids make of the three texts."""
    meta = {"version": 2, "profileCount": 0, "workingCount": 0, "archiveCount": 0, "lastIds": last}
    mk.testing.write_files(tmp_path, {"data/memory/users/anna/meta.json": json.dumps(meta)})
    FactStore(tmp_path, created_tag=False).save("anna", line.rpartition("] ")[2], now="2026-02-15")
    assert (tmp_path / "data/memory/users/anna" / file).read_text("utf-8") == f"{line}\n"


WRITTEN: dict[str, Callable[[Any], str]] = {
    "MEMORY.md": lambda storage: storage.append_to_memory("Чай.", now="2025-02-03T10:00"),
    "memory/2025-02-03.md": lambda storage: storage.append_to_daily_log("Чай.", now="2025-02-03T10:00"),
    "sessions/2025-02-03-task.md": lambda storage: storage.append_to_session("task", "user", "Чай.", now="2025-02-03"),
}


@pytest.mark.parametrize("path", WRITTEN)
def test_the_workspaces_files_are_where_the_document_has_them(path: str, tmp_path: Path) -> None:
    """Workspace, the three levels: MEMORY.md, memory/DAY.md, sessions/DAY-task.md."""
    WRITTEN[path](MemoryStorage(tmp_path))
    paths = [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.md")]
    assert paths == [path]
