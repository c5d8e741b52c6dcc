"""Every operation of the documents has a test that names document and section; their examples are what is written."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest

import memkit as mk
from memkit.change.draft import Operations
from memkit.change.facts import FactStore
from memkit.change.index import IndexStore
from memkit.change.pages import NoteStore
from memkit.change.records import RecordStore
from memkit.change.workspace import MemoryIndex, MemoryStorage
from memkit.serve.tools import Tools

TESTS = Path(__file__).parents[1]
DOCUMENTS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "Index standard": (
        ("change/test_index_store.py", "documents/test_index_tree.py"),
        {
            "section 1": "create_root add_category",
            "section 2": "add_entry update_entry load remove_entry",
            "section 4": "check clean",
            "section 5": "split rejoin",
        },
    ),
    "Workspace": (
        ("documents/test_workspace.py", "serve/test_tools.py"),
        {
            "MemoryStorage": "read_memory append_to_memory",
            "daily logs": "read_daily_log append_to_daily_log",
            "get_recent_context": "get_recent_context",
            "sessions": "save_session append_to_session",
            "MemoryIndex": "index_file index_all search",
            "singletons": "get_storage get_index",
            "MCP tools": "memory_search memory_append memory_log memory_context memory_reindex",
        },
    ),
    "Memory Format": (
        ("change/test_stores.py", "documents/test_notes.py"),
        {
            "updated_at": "create update list",
            "id of version 4": "get delete",
            "Validation Rules": "validate note_create",
            "Search": "search note_search",
        },
    ),
    "Data formats": (
        ("change/test_stores.py", "documents/test_records.py"),
        {"section 1": "migrate", "section 2": "put", "section 2.1": "record_use", "usage_stats": "record_use"},
    ),
    "Memory v2": (
        ("change/test_stores.py", "documents/test_facts.py", "serve/test_tools.py", "cli/test_cli_change.py"),
        {
            "memory_save": "save",
            "policy": "save",
            "semantic dedup": "save",
            "limits": "save",
            "TTL": "read cleanup",
            "memory_search": "search",
            "memory_get": "get memory_get",
            "memory_update": "update",
            "memory_forget": "forget",
            "data layout": "migrate_user",
            "pre-retrieval": "blocks",
            "manual check": "selftest",
            "MemorySkill": "memory_save memory_read memory_forget memory_update",
        },
    ),
}
"""By document: the files of tests that name it or its sections, and by section its operations."""


@cache
def read_tests(file: str) -> list[tuple[str, str]]:
    """The docstring and the source, decorators included, of every test of a file."""
    text = (TESTS / file).read_text("utf-8")
    lines, tests = text.splitlines(), []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            begins = min(part.lineno for part in [node, *node.decorator_list]) - 1
            says = (ast.get_docstring(node) or "").lower().replace("sections", "section")
            tests.append((says, "\n".join(lines[begins : node.end_lineno])))
    return tests


def test_an_operation_has_a_test_that_names_its_section(subtests: pytest.Subtests) -> None:
    for document, (files, operations_by_section) in DOCUMENTS.items():
        tests = [test for file in files for test in read_tests(file)]
        for section, operations in operations_by_section.items():
            for operation in operations.split():
                with subtests.test(f"{document}, {section}, {operation}"):
                    assert any(
                        section.lower() in says and (f"{operation}(" in source or f'"{operation}"' in source)
                        for says, source in tests
                    )


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
    assert (
        public - {name for _, sections in DOCUMENTS.values() for names in sections.values() for name in names.split()}
        == set()
    )
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
