"""Case pairs: ``data/broken/<case>`` beside ``<case>.expected.csv``. Dropping in both adds a test."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.formats.disk import files
from memkit.formats.rows import SEVERITIES
from memkit.formats.rules import RULES
from memkit.tables.samples import sample_data, write_files

BROKEN = sample_data() / "broken"
CASES = sorted(path.name for path in BROKEN.iterdir() if path.is_dir())
COLUMNS = ["path", "line", "field", "rule", "severity", "status"]


def expected_of(case: str) -> list[dict[str, str]]:
    with (BROKEN / f"{case}.expected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def in_order(rows: list[list[str]]) -> list[list[str]]:
    return sorted(rows)


@pytest.fixture(scope="module")
def problems() -> dict[str, list[dict[str, Any]]]:
    """The problems of each case, on the day beside it where one is."""
    days = {path.stem: path.read_text(encoding="utf-8").strip() for path in BROKEN.glob("*.as_of")}
    return {case: mk.read(BROKEN / case, as_of=days.get(case)).problems.to_pylist() for case in CASES}


@pytest.mark.outside
@pytest.mark.quick
def test_a_broken_case_gives_exactly_the_problems_beside_it(
    problems: dict[str, list[dict[str, Any]]], subtests: pytest.Subtests
) -> None:
    for case, rows in problems.items():
        actual = [["" if row[name] is None else str(row[name]) for name in COLUMNS] for row in rows]
        with subtests.test(case):
            assert in_order(actual) == in_order([[row[name] for name in COLUMNS] for row in expected_of(case)])


@pytest.mark.quick
def test_every_expectation_has_its_case() -> None:
    assert sorted(path.name.partition(".")[0] for path in BROKEN.glob("*.csv")) == CASES


@pytest.mark.quick
def test_a_problem_says_where_it_is_and_what_came(
    problems: dict[str, list[dict[str, Any]]], subtests: pytest.Subtests
) -> None:
    for case, rows in problems.items():
        for row in rows:
            with subtests.test(case, path=row["path"], line=row["line"]):
                assert row["message"].startswith(row["path"] + (f":{row['line']}" if row["line"] else ""))
                assert "Got " in row["message"]
                assert SEVERITIES[row["rule"]] == row["severity"]
                assert not row["field"] or f"field '{row['field']}'" in row["message"]


def a_link_inside(folder: Path) -> dict[str, object]:
    write_files(folder, {"MEMORY.md": "чай\n"})
    (folder / "link.md").symlink_to(folder / "MEMORY.md")
    return {}


def a_large_file(folder: Path) -> dict[str, object]:
    write_files(folder, {"MEMORY.md": "чай чай\n" * 10})
    return {"max_file_bytes": 20}


def a_pipe(folder: Path) -> dict[str, object]:
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "MEMORY.md")
    return {}


def a_journal_of_another(folder: Path) -> dict[str, object]:
    write_files(folder, {"MEMORY.md": "чай\n", ".memkit/journal/000001.done": ""})
    return {}


# Git cannot hold these, or a case would be large, or hidden from who ships the data.
WRITERS: dict[str, Callable[[Path], dict[str, object]]] = {
    "symlink": a_link_inside,
    "file_too_large": a_large_file,
    "unreadable": a_pipe,
    "foreign_journal": a_journal_of_another,
}


@pytest.mark.parametrize("code", WRITERS)
def test_a_code_that_no_case_can_hold_is_made_on_the_spot(code: str, tmp_path: Path) -> None:
    corpus = mk.read(tmp_path, **WRITERS[code](tmp_path))  # type: ignore[arg-type]  # options by name
    assert corpus.problems["rule"].to_pylist() == [code]


def test_every_rule_code_has_a_case() -> None:
    shown = {row["rule"] for case in CASES for row in expected_of(case)}
    # tests/test_schemas.py, tests/tables/test_tables_secrets.py, tests/plugins, tests/past/test_past_git.py
    of_tables = {"undeclared_kind", "secret", "format_failed", "too_many_files"}
    of_tables |= {"no_repository", "uncommitted", "same_mtime", "two_layouts"}  # tests/past/test_past_dates.py, here
    of_tables |= {"index_too_long", "dead_link", "not_indexed", "duplicate_of_instructions"}  # test_claude.py
    assert shown | WRITERS.keys() | of_tables == SEVERITIES.keys()


@pytest.mark.outside
def test_every_rule_has_a_known_code_and_every_code_a_rule() -> None:
    assert {rule.code for rule in RULES} == SEVERITIES.keys()


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("healthy")])
def test_a_case_shows_the_code_that_it_is_named_for(case: str) -> None:
    assert any(case.startswith(row["rule"]) for row in expected_of(case))


def test_a_file_that_may_not_be_opened_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, whom no mode stops: the refusal is made here."""
    write_files(tmp_path, {"MEMORY.md": "# Чай\nx\n", "memory/2026-02-03.md": "# Кофе\nx\n"})
    real = files.os.open

    def refuse(path: str, *args: int, **kwargs: Any) -> int:
        if str(path).endswith("MEMORY.md"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(files.os, "open", refuse)
    corpus = mk.read(tmp_path)
    assert corpus.memories["title"].to_pylist() == ["Кофе"]
    assert corpus.problems.select(["path", "rule"]).to_pylist() == [{"path": "MEMORY.md", "rule": "unreadable"}]
    assert "Permission denied" in corpus.problems["message"][0].as_py()


def test_a_folder_that_may_not_be_listed_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"MEMORY.md": "чай\n", "secret/2026-02-03.md": "кофе\n"})
    real = files.os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(files.os, "scandir", refuse)
    problems = mk.read(tmp_path).problems
    assert problems.select(["path", "rule"]).to_pylist() == [{"path": "secret", "rule": "unreadable"}]
