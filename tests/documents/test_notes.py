"""The Memory Format used for a day: its File Structure, its rules, and the bytes that each operation leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import memkit as mk
from memkit.change.pages import NoteStore
from memkit.cli.app import app
from memkit.display.draw import shown
from memkit.errors import FormatError, MemkitError, NotFoundError, ParameterError
from memkit.serve.tools import Tools

NOW = "2025-01-16T14:20:00Z"
BODY = "Почему так: пул мал, и соединений не хватает.\n"


@pytest.fixture(scope="module")
def document(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("documents/notes.py")


@pytest.fixture
def root(document: ModuleType, tmp_path: Path) -> Path:
    return Path(document.build(tmp_path / "root"))


@pytest.fixture
def notes(root: Path) -> NoteStore:
    return mk.store(root).notes


@pytest.mark.quick
def test_a_note_is_written_as_file_structure_shows_it(notes: NoteStore, root: Path, document: ModuleType) -> None:
    """Memory Format, File Structure: front matter, a heading from the subject, the content; beside the other notes."""
    id = notes.create(*document.NEW_NOTE, now=NOW)
    assert (root / f"memories/{id}.md").read_text("utf-8") == document.written(id)
    assert mk.read(root).problems.num_rows == 0
    assert (
        notes.get(str(id))["content"] == "\n# Auth middleware requires user context\n\n" + document.NEW_NOTE[3] + "\n"
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    "content", ["# Своё\n\nТекст заметки.", "Своё\n===\n\nТекст заметки.", "Вступление.\n\n# Потом\n\nда"]
)
def test_a_heading_that_is_there_is_the_heading(notes: NoteStore, root: Path, content: str) -> None:
    id = notes.create("Чай", ["чай"], "global", content, now=NOW)
    assert (root / f"memories/{id}.md").read_text("utf-8").endswith(f"---\n\n{content}\n")


EXAMPLE = """\
All errors in this project should:

1. Extend the base `AppError` class

## Example

```typescript
Error
===
class ValidationError extends AppError {}
```"""


@pytest.mark.quick
def test_a_note_that_starts_with_context_has_its_subject_above_it(notes: NoteStore, root: Path) -> None:
    """Memory Format, Best Practices: start with context, include code; a heading of level 2 or a list is no title.

    Nor is a sign within code.
    """
    for content in (EXAMPLE, "## Ниже\n\nТекст заметки.", "- пункт списка\n===", "```sh\n# комментарий\n```"):
        id = notes.create("Error handling convention", ["errors"], "global", content, now=NOW)
        written = (root / f"memories/{id}.md").read_text("utf-8")
        assert written.endswith(f"---\n\n# Error handling convention\n\n{content}\n")


def test_a_new_note_goes_where_the_others_lie(tmp_path: Path, document: ModuleType) -> None:
    notes = mk.store(tmp_path).notes
    first = notes.create("Раз", ["чай"], "global", BODY, now=NOW)
    assert (tmp_path / f"{first}.md").exists()
    second = notes.create("Два", ["чай"], "global", BODY, folder="a/b", now=NOW)
    third = notes.create("Три", ["чай"], "global", BODY, folder="a/b", now=NOW)
    assert {notes.list()["path"].to_pylist()[number].rpartition("/")[0] for number in range(3)} == {"", "a/b"}
    assert (tmp_path / f"a/b/{notes.create('Четыре', ['чай'], 'global', BODY, now=NOW)}.md").exists()
    assert {first, second, third} < set(notes.list()["id"].to_pylist())
    in_folder = mk.store(tmp_path, notes_folder="c").notes
    assert (tmp_path / f"c/{in_folder.create('Пять', ['чай'], 'global', BODY, now=NOW)}.md").exists()
    assert (tmp_path / f"{in_folder.create('Шесть', ['чай'], 'global', BODY, folder='', now=NOW)}.md").exists()
    for wrong in ("../x", "/x", ".git", 3):
        with pytest.raises(MemkitError):
            notes.create("Чай", ["чай"], "global", BODY, folder=wrong)
        with pytest.raises(MemkitError):
            mk.store(tmp_path, notes_folder=wrong).notes.create("Чай", ["чай"], "global", BODY)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subject", "две\nстроки"),
        ("subject", "две\r\nстроки"),
        ("subject", ""),
        ("subject", "   "),
        ("subject", "x" * 201),
        ("subject", 5),
        ("subject", None),
        ("keywords", ["чай", "мёд", "чай"]),
        ("keywords", ["чай", " "]),
        ("keywords", ["чай\nмёд"]),
        ("keywords", []),
        ("keywords", "чай"),
        ("keywords", [1]),
        ("keywords", None),
        ("keywords", 5),
        ("applies_to", "everywhere"),
        ("applies_to", "file:"),
        ("applies_to", "area:a\nb"),
        ("applies_to", 5),
        ("content", "мало"),
        ("content", None),
        ("content", 5),
    ],
)
def test_what_the_rules_refuse_is_refused_by_create_and_by_update(
    notes: NoteStore, root: Path, document: ModuleType, field: str, value: object
) -> None:
    """Memory Format, Validation Rules; one message that names the field, and nothing is written."""
    fields: dict[str, Any] = {"subject": "Чай", "keywords": ["чай"], "applies_to": "global", "content": BODY}
    before = {path: path.read_bytes() for path in root.rglob("*.md")}
    with pytest.raises((FormatError, ParameterError), match=field):
        notes.create(**{**fields, field: value})
    with pytest.raises((FormatError, ParameterError), match=field):
        notes.update(document.ID, **{field: value})
    assert {path: path.read_bytes() for path in root.rglob("*.md")} == before


def test_update_changes_its_fields_and_the_time_and_no_other_byte(
    notes: NoteStore, root: Path, document: ModuleType
) -> None:
    """Memory Format, updated_at: on every modification, and the newest is listed first; created_at never."""
    path, new = root / f"memories/{document.ID}.md", notes.create(*document.NEW_NOTE, now="2025-01-30")
    assert notes.list()["id"].to_pylist()[0] == new
    notes.update(document.ID, subject="Pool", now="2025-02-01")
    assert notes.list()["id"].to_pylist()[:2] == [document.ID, new]
    assert path.read_text("utf-8") == document.POOL.replace("Database connection pooling settings", "Pool").replace(
        "2025-01-18T11:30:00Z", "2025-02-01T00:00:00Z"
    )
    notes.update(document.ID, content=BODY, now="2025-02-02")
    assert path.read_text("utf-8").endswith(f"---\n\n# Pool\n\n{BODY}")
    with pytest.raises(ParameterError, match="expected some of subject, keywords, applies_to, content"):
        notes.update(document.ID)
    for other in ("subjekt", "id"):
        with pytest.raises(ParameterError, match=other):
            notes.update(document.ID, **{other: "x"})
    for wrong in (None, 5, ""):
        with pytest.raises(ParameterError, match="id"):
            notes.update(wrong, subject="x")
    with pytest.raises(NotFoundError):
        notes.update("x", subject="y")


def test_a_note_is_never_updated_before_it_was_created(notes: NoteStore, root: Path, document: ModuleType) -> None:
    notes.update(document.ID, subject="Pool", now="2020-01-01")
    row = notes.list().to_pylist()[0]
    assert row["updated_at"] == row["created_at"]
    assert mk.read(root).problems.num_rows == 0


ODD = ["2025-01-15", "2025-01-15T10:30:00Z", "yes", "No", "on", "Y", "true", "null", "~", "1.10", "0x1F", "1e3",
       "10:30", "12_000", ".inf", ".nan", "- a", "a: b", "# a", "=", "<<", "C#", "NULL", "off",
       "0o17", "+1", "чай: да"]  # fmt: skip


@pytest.mark.parametrize("value", ODD)
def test_other_readers_take_a_value_for_the_text_that_it_is(
    notes: NoteStore, root: Path, document: ModuleType, value: str
) -> None:
    id = str(notes.create(value, [value, "чай"], f"area:{value}", f"# Чай\n\n{BODY}", now=NOW))
    notes.update(document.ID, subject=value, keywords=["чай", value], applies_to=f"area:{value}", now=NOW)
    for name in (id, document.ID):
        head = (root / f"memories/{name}.md").read_text("utf-8").split("---\n")[1]
        read = yaml.safe_load(head)  # what YAML 1.1 makes of it, as most readers do
        assert (read["subject"], set(read["keywords"]), read["applies_to"]) == (value, {value, "чай"}, f"area:{value}")
        assert notes.get(name)["subject"] == value
    assert mk.read(root).problems.num_rows == 0


@settings(max_examples=50)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=40).filter(str.strip)
)
def test_any_subject_is_read_as_itself_by_others(tmp_path_factory: pytest.TempPathFactory, subject: str) -> None:
    root = tmp_path_factory.mktemp("n")
    notes = mk.store(root).notes
    id = str(notes.create(subject, [subject.strip()], "global", f"# Чай\n\n{BODY}", now=NOW))
    head = (root / f"{id}.md").read_text("utf-8").split("---\n")[1]
    assert yaml.safe_load(head)["subject"] == subject
    assert notes.get(id)["subject"] == subject


def test_search_shows_subject_id_and_scope(notes: NoteStore, document: ModuleType) -> None:
    """Memory Format, subject: used in search results and listings."""
    (hit,) = notes.search("postgres pool", k=1).to_pylist()
    assert (hit["subject"], hit["id"], hit["scope"]) == (
        "Database connection pooling settings", document.ID, "area:database",
    )  # fmt: skip
    assert hit["rank"] == 1
    assert min(notes.search("цеппелин pool")["score"].to_pylist()) > 0
    assert notes.search("щщщщ").num_rows == 0
    assert "Database connection pooling settings" in shown(notes.search("pool")).text(200, False)
    for wrong in (3, None):
        with pytest.raises(MemkitError):
            notes.search(wrong)
    with pytest.raises(ParameterError, match="'k'"):
        notes.search("x", k=0)


def test_validate_delete_and_get(notes: NoteStore, root: Path, document: ModuleType) -> None:
    """Memory Format, Validation Rules, id of version 4; an operation gives one message for what is no id."""
    assert notes.validate().num_rows == 0
    broken = f"---\nid: {document.ID}\nsubject: Чай\n---\n\n# Чай\n\nБез сахара, без мёда.\n"
    mk.testing.write_files(root, {"other/rules.json": "{", "broken.md": broken})
    assert {*mk.read(root).problems["path"].to_pylist()} > {*notes.validate()["path"].to_pylist()} >= {"broken.md"}
    assert "other/rules.json" not in notes.validate()["path"].to_pylist()
    (root / "broken.md").unlink()
    for call in (notes.get, notes.delete):
        for wrong in (None, 5, "", ["x"]):
            with pytest.raises(ParameterError, match="id: expected a text"):
                call(wrong)
    with pytest.raises(NotFoundError, match=f"Near it: {document.ID}"):
        notes.get(document.ID[:-1])
    notes.delete(document.ID)
    assert notes.list().num_rows == 0
    with pytest.raises(NotFoundError):
        notes.get(document.ID)


# --- MCP -------------------------------------------------------------------------------------------------------


def test_notes_are_made_and_found_over_mcp(root: Path, document: ModuleType) -> None:
    """Memory Format, Validation Rules, Search: note_create and note_search, declared as the other tools are."""
    tools = Tools(root, {"encoder": None})
    created = tools.note_create(*document.NEW_NOTE)
    assert created["ok"]
    text = (root / f"memories/{created['id']}.md").read_text("utf-8")
    assert text.endswith(f"---\n\n# {document.NEW_NOTE[0]}\n\n{document.NEW_NOTE[3]}\n")
    (hit,) = tools.note_search("unauthenticated", k=1)["results"]
    assert (hit["id"], hit["subject"], hit["scope"]) == (created["id"], document.NEW_NOTE[0], document.NEW_NOTE[2])
    assert hit["file_path"] == f"memories/{created['id']}.md"
    assert {"note_search"} <= set(Tools.READING)
    assert {"note_create"} <= set(Tools.WRITING)
    secret = "sk-" + "a1B2" * 8
    tools.note_search(f"ключ {secret}")
    assert secret not in (root / ".memkit/calls.jsonl").read_text("utf-8")
    with pytest.raises(ParameterError, match="k: expected 1 to 100"):
        tools.note_search("x", k=0)
    for wrong in ({"subject": "x" * 201}, {"keywords": ["чай", "чай"]}, {"content": "мало"}, {"applies_to": "x"}):
        fields = dict(zip(("subject", "keywords", "applies_to", "content"), document.NEW_NOTE, strict=True))
        with pytest.raises(FormatError):
            tools.note_create(**{**fields, **wrong})


def test_a_server_of_one_user_neither_finds_nor_fills_anothers_folder(tmp_path: Path, document: ModuleType) -> None:
    other = document.POOL.replace("postgres", "кукумбер")
    root = mk.testing.write_files(tmp_path / "r", {f"users/boris/{document.ID}.md": other})
    tools = Tools(root, {"encoder": None}, user="anna")
    assert tools.note_search("кукумбер")["results"] == []
    note_id = tools.note_create("Чай", ["чай"], "global", BODY)["id"]
    assert (root / f"{note_id}.md").exists()
    assert [hit["id"] for hit in tools.note_search("пул соединений")["results"]] == [note_id]


SCOPED = {
    "global": "All errors in this project should extend the base `AppError` class.",
    "file:src/middleware/auth.ts": "The auth middleware in `src/middleware/auth.ts` attaches user context to requests.",
    "area:database": "Pooling of the project.\n\nSettings are in `src/config/database.ts`",
    "area:authentication": "Tokens of the project live an hour.",
    "area:src": "Code of the project.",
    "file:src/api/auth.ts": "Routes of the project.",
}
"""A body for each scope of the document; the words project and middleware are in all of them."""
WITHIN = {
    "src/middleware/auth.ts": {"global", "file:src/middleware/auth.ts", "area:authentication", "area:src"},
    "file:./src/config/database.ts": {"global", "area:database", "area:src"},
    "area:authentication": {"global", "area:authentication"},
    "area:Database": {"global", "area:database"},
    "src/config/database.ts.bak": {"global", "area:src"},
    "global": {"global"},
    "README.md": {"global"},
}
"""The scopes of the notes that a search within a scope finds."""


@pytest.fixture
def scoped(tmp_path: Path) -> Path:
    """The notes of the document's examples, and a page that is no note."""
    root = mk.testing.write_files(tmp_path / "scoped", {"memory/2025-01-17.md": "# Лог\n\n- project middleware\n"})
    for scope, body in SCOPED.items():
        words = ["auth", "middleware", "user-context", "authentication"] if "middleware" in scope else ["errors"]
        mk.store(root).notes.create(f"project middleware {scope[-9:]}", words, scope, body, folder="memories", now=NOW)
    return root


def test_a_search_within_a_scope_finds_the_notes_that_apply_to_it(scoped: Path) -> None:
    """Memory Format, applies_to: global is the entire project, file: one file, area: an area."""
    search = mk.Retriever(encoder=None, fold="none").fit(mk.read(scoped))
    for scope, expected in WITHIN.items():
        hits = search.search("project middleware", k=20, scope=scope, columns=["kind", "scope"]).to_pylist()
        assert {hit["scope"] for hit in hits if hit["kind"] == "note"} == expected, scope
        assert any(hit["kind"] != "note" for hit in hits)
    ids = {row["scope"]: row["memory_id"] for row in search.corpus_.memories.to_pylist() if row["kind"] == "note"}
    trace = search.trace("project", scope="area:database").to_pylist()
    kept_out = {row["memory_id"] for row in trace if row["disposition"] == "filtered"}
    assert kept_out == {id for scope, id in ids.items() if scope not in WITHIN["area:Database"]}
    why = mk.explain(search, "project", ids["area:src"], scope="area:database")
    assert "it applies to area:src, beyond area:database (scope)" in why
    alike = search.like(ids["global"], k=20, scope="area:database")["memory_id"].to_pylist()
    assert ids["area:database"] in alike
    assert ids["area:src"] not in alike


def test_a_scope_is_a_path_an_area_or_global(scoped: Path) -> None:
    search = mk.Retriever(encoder=None).fit(mk.read(scoped))
    for wrong in ("", " ", "area:", "file:", 3):
        with pytest.raises(ParameterError, match="scope"):
            search.search("project", scope=wrong)  # type: ignore[arg-type]


def test_command_and_tool_search_within_a_scope(scoped: Path) -> None:
    scopes = {row["memory_id"]: row["scope"] for row in mk.read(scoped).memories.to_pylist() if row["kind"] == "note"}
    call = ["search", str(scoped), "project middleware", "--scope", "area:database", "-k", "20", "--json"]
    of_command = {row["memory_id"] for row in json.loads(CliRunner().invoke(app, [*call, "--set", "fold=none"]).stdout)}
    found = Tools(scoped, {"fold": "none"}, log=False).memory_search("project middleware", k=20, scope="area:database")
    for ids in (of_command, {hit["memory_id"] for hit in found["results"]}):
        assert {scopes[id] for id in ids if id in scopes} == WITHIN["area:Database"]


@settings(max_examples=5, deadline=None)
@given(
    st.lists(st.sampled_from([(scope, user) for scope in SCOPED for user in (None, "u1", "u2", "u3")]), min_size=1),
    st.sampled_from(list(WITHIN)),
    st.sampled_from([None, "u1"]),
)
def test_buckets_find_within_a_scope_what_one_index_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str | None]], scope: str, user: str | None
) -> None:
    """The note that names a file and the notes of its area may lie in different buckets."""
    table = {
        "memory_id": [str(at) for at in range(len(rows))],
        "text": [f"project {SCOPED[of]}" for of, _ in rows],
        "tags": [["authentication"] if "middleware" in of else [] for of, _ in rows],
        "scope": [of for of, _ in rows],
        "user_id": pa.array([owner for _, owner in rows], pa.string()),
        "kind": ["note"] * len(rows),
    }
    corpus, folder = mk.from_table(pa.table(table)), tmp_path_factory.mktemp("lake")
    corpus.save(folder, buckets=3)
    made = mk.Retriever(encoder=None, fold="none")
    found = [
        set(search.search("project", k=99, scope=scope, user_id=user)["memory_id"].to_pylist())
        for search in (made.fitted(corpus), made.fitted(mk.open(folder)))
    ]
    assert found[0] == found[1]
