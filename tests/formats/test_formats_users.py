"""Users: their meta.json as a table, and the old layout of a file a user where nothing but its lines tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memkit as mk
from memkit.tables.samples import write_files

ALONE = {"data/memory/anna.md": "# Анна\n- Зовут Анна\n* Prefers tea\n", "data/memory/u_42.md": "- чинит сервер\n"}


@pytest.mark.quick
def test_a_meta_json_is_kept_whole(tmp_path: Path) -> None:
    meta = {"version": 2, "profileCount": 0, "workingCount": "x", "archiveCount": 3, "lastIds": {"pf": 7}, "mood": 1.10}
    corpus = mk.read(write_files(tmp_path, {"users/anna/meta.json": json.dumps(meta)}))
    (row,) = corpus.sql("from users").to_arrow_table().to_pylist()
    extra = json.loads(row.pop("extra"))
    assert extra == {"workingCount": "x", "lastIds": {"pf": 7}, "mood": 1.1}
    assert row == {
        "user_id": "anna",
        "path": "users/anna/meta.json",
        "version": "2",
        "profile_count": 0,
        "working_count": None,
        "archive_count": 3,
    }
    fields = {problem["field"] for problem in corpus.problems.to_pylist() if problem["rule"] == "unclaimed"}
    assert fields == {"mood"}
    write_files(tmp_path, {"users/anna/meta.json": json.dumps(meta | {"version": 3})})
    assert corpus.refresh().tables["users"]["version"].to_pylist() == ["3"]


@pytest.mark.quick
def test_old_files_alone_in_a_memory_folder_are_facts_by_their_lines(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, ALONE))
    facts = corpus.sql("select user_id, kind, text from memories where format = 'facts' order by path, line_start")
    assert facts.fetchall() == [
        ("anna", "line", "# Анна"),
        ("anna", "archive", "Зовут Анна"),  # ten characters: no fact of today
        ("anna", "archive", "Prefers tea"),
        ("u_42", "archive", "чинит сервер"),
    ]
    assert corpus.tables["migrations"]["path"].to_pylist() == sorted(ALONE)


@pytest.mark.quick
@pytest.mark.parametrize(
    "other_files",
    [
        {"memory/plan.md": "Просто текст.\n"},
        {"memory/todo.md": "- [ ] купить чай\n"},
        {"memory/notes/deep.md": "- глубже\n"},
        {"memory/empty.md": "\n"},
        {"MEMORY.md": "- долго\n"},
    ],
)
def test_outside_of_a_bots_folder_they_are_documents_with_other_files_beside_them(
    tmp_path: Path, other_files: dict[str, str]
) -> None:
    alone = {path.removeprefix("data/"): text for path, text in ALONE.items()}
    corpus = mk.read(write_files(tmp_path / "x", alone | other_files))
    assert set(corpus.memories["format"].to_pylist()) == {"workspace"}


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("- [id:pf_001] [t:profile] [imp:high] Зовут Анна", []),
        ("- [id:ar_001] [t:profile] [imp:high] Зовут Анна", ["prefix_mismatch"]),
        ("- [id:x_1] [t:profile] [imp:high] Зовут Анна", ["prefix_mismatch"]),
        ("- [id:17] [t:profile] [imp:high] Зовут Анна", []),
        ("- [id:wk_1] [t:working] [imp:low] Ставим бота", ["missing_recommended"]),
        ("- [id:wk_1] [t:working] [imp:low] [exp:2026-03-01] Ставим бота", []),
    ],
)
def test_an_id_and_a_day_of_expiry_are_those_of_the_type(tmp_path: Path, line: str, rules: list[str]) -> None:
    corpus = mk.read(write_files(tmp_path, {"facts.md": line + "\n"}))
    assert [(row["rule"], row["severity"]) for row in corpus.problems.to_pylist()] == [(rule, "info") for rule in rules]
