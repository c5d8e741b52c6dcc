"""The command line on a repository: --rev reads a folder as it was, `history` says what changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import memkit as mk

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fact = "- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит пул соединений\n"
    states = [
        ("2026-01-01", {"MEMORY.md": "# Чай\nзелёный, без сахара\n", "users/anna/working.md": fact}),
        ("2026-01-05", {"MEMORY.md": "# Чай\nчёрный, без сахара\n"}),
        ("2026-01-09", {"users/anna/working.md": None}),
    ]
    return mk.testing.write_commits(tmp_path_factory.mktemp("cli"), states)


def test_each_verb_reads_a_revision(run: Run, repository: Path) -> None:
    revision = ("--rev", "2026-01-02")
    verbs = {
        "check": (repository,),
        "overview": (repository,),
        "sql": (repository, "select text from memories where kind = 'working'"),
        "search": (repository, "чай", "--set", "encoder=none"),
        "policy": ("expiry", repository),
        "context": (repository, "пул", "--preset", "workspace"),
    }
    for verb, words in verbs.items():
        if verb == "context":  # whose search encodes
            words = (*words, "--user", "anna")
        code, out, err = run(verb, *words, *revision, "--json")
        assert code in (0, 1), err
        answer = json.loads(out)
        if verb in ("sql", "search", "policy"):
            assert "зелёный" in out or "Чинит пул" in out
            assert answer != json.loads(run(verb, *words, "--json")[1])
    code, _, err = run("sql", repository, "select 1", "--rev", "gone")
    assert (code, err.count("\n")) == (2, 1)
    assert "expected a branch, tag or commit" in err


def test_history_shows_commits_and_versions(run: Run, repository: Path) -> None:
    code, out, err = run("history", repository)
    assert (code, err) == (0, "")
    assert "3 commits" in out
    assert "4 versions" in out
    code, out, _ = run("history", repository, "--since", "2026-01-05", "--json")
    assert [(row["change"], row["title"]) for row in json.loads(out)] == [("edited", "Чай"), ("removed", "")]
    code, out, _ = run("sql", repository, "history_vanished", "--json")
    assert [row["text"] for row in json.loads(out)] == ["Чинит пул соединений"]


def test_a_saved_corpus_has_no_revisions(run: Run, tmp_path: Path) -> None:
    mk.from_table({"text": ["чай"]}).save(tmp_path / "lake")
    assert "Got a saved corpus" in run("check", tmp_path / "lake", "--rev", "HEAD")[2]
