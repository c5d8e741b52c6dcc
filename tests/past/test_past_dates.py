"""Dates of git are for memories that have none of their own, and every date says where it is from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import memkit as mk
from memkit.errors import MemkitError, ParameterError

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
NOTE = """---
id: 11111111-1111-4111-8111-111111111111
subject: Чай
keywords: [чай]
applies_to: global
created_at: 2025-05-05T00:00:00Z
updated_at: 2025-05-06T00:00:00Z
---

Зелёный чай без сахара.
"""
FIRST: dict[str, str | bytes | None] = {
    "MEMORY.md": "# Пул\nдесять соединений на сервер\n\n# 2026-02-03 Релиз\nвышел\n",
    "memory/2026-01-02.md": "# Лог\nзапись\n",
    "note.md": NOTE,
}
LATER: dict[str, str | bytes | None] = {
    "MEMORY.md": "# Пул\nдесять соединений на сервер\n\n# 2026-02-03 Релиз\nвышел\n\n# Кот\nрыжий\n",
}
LAST: dict[str, str | bytes | None] = {
    "MEMORY.md": "# Пул\nдвадцать соединений на сервер\n\n# 2026-02-03 Релиз\nвышел\n\n# Кот\nрыжий\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return mk.testing.write_commits(tmp_path, [("2026-03-01", FIRST), ("2026-03-05", LATER), ("2026-03-09", LAST)])


def dated(corpus: mk.Corpus) -> dict[str, tuple[str | None, str, str]]:
    rows = corpus.memories.to_pylist()
    return {
        row["title"]: (row["date_source"], f"{row['created_at']}"[:10], f"{row['updated_at']}"[:10]) for row in rows
    }


DATED_THEMSELVES = {
    "2026-02-03 Релиз": ("heading", "2026-02-03", "2026-02-03"),
    "Лог": ("name", "2026-01-02", "2026-01-02"),
    "Чай": ("own", "2025-05-05", "2025-05-06"),
}


@pytest.mark.quick
@needs_git
def test_only_what_has_no_date_gets_one_of_git(root: Path) -> None:
    none = (None, "None", "None")
    assert dated(mk.read(root)) == DATED_THEMSELVES | {"Пул": none, "Кот": none}
    of_git = {"Пул": ("git_first", "2026-03-01", "2026-03-09"), "Кот": ("git", "2026-03-05", "2026-03-05")}
    corpus = mk.read(root, dates="git")
    assert dated(corpus) == DATED_THEMSELVES | of_git
    assert dated(mk.read(root, dates="git", rev="2026-03-06"))["Пул"] == ("git_first", "2026-03-01", "2026-03-01")
    assert not {"uncommitted", "no_repository"} & set(corpus.problems["rule"].to_pylist())
    age = mk.Decay(decay_kinds="*").transform(corpus, as_of="2026-03-10")
    assert dict(zip(age["title"].to_pylist(), age["age_days"].to_pylist(), strict=True))["Пул"] == 1


@pytest.mark.quick
@needs_git
def test_what_is_not_committed_has_no_date_and_is_said(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    corpus = mk.read(root, dates="git")
    mk.testing.write_files(root, {"MEMORY.md": "# Пул\nтридцать\n\n# Кот\nрыжий\n", "new.md": "# Новое\nслово\n"})
    for read in (mk.read(root, dates="git"), corpus.refresh()):
        assert dated(read)["Пул"] == dated(read)["Новое"] == (None, "None", "None")
        assert dated(read)["Кот"] == ("git", "2026-03-05", "2026-03-05")
        rows = [row for row in read.problems.to_pylist() if row["rule"] == "uncommitted"]
        assert [(row["path"], row["line"], row["severity"]) for row in rows] == [
            ("MEMORY.md", 1, "info"),
            ("new.md", 1, "info"),
        ]
    lake = tmp_path_factory.mktemp("lake")
    corpus.save(lake)
    assert dated(mk.open(lake)) == dated(corpus)
    assert dated(mk.open(lake).refresh()) == dated(mk.read(root, dates="git"))


@pytest.mark.quick
@needs_git
def test_a_folder_in_no_repository_is_an_info_row(tmp_path: Path) -> None:
    corpus = mk.read(mk.testing.write_files(tmp_path, {"MEMORY.md": "# Чай\nзелёный\n"}), dates="git")
    (row,) = corpus.problems.to_pylist()
    assert (row["rule"], row["severity"]) == ("no_repository", "info")
    assert corpus.memories["created_at"].to_pylist() == [None]
    with pytest.raises(ParameterError, match="'dates' must be"):
        mk.read(tmp_path, dates="svn")


def test_without_git_it_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mk.testing.write_files(tmp_path, {"MEMORY.md": "# Чай\nзелёный\n"})
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MemkitError, match="need the program git"):
        mk.read(tmp_path, dates="git")


def test_every_date_of_the_sample_says_where_it_is_from(sample: mk.Corpus) -> None:
    for row in sample.memories.to_pylist():
        assert (row["date_source"] is None) == (row["created_at"] is None and row["updated_at"] is None)
        assert row["date_source"] in (None, "own", "name", "heading")
        assert row["format"] == "workspace" or row["date_source"] in (None, "own")
    table = mk.from_table({"text": ["чай", "мёд"], "created_at": ["2026-01-01", None]}).memories
    assert table["date_source"].to_pylist() == ["own", None]
