"""Versions are the states of a folder one after the other: at every commit they are what a read of it gives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.errors import FormatError, MemkitError, ParameterError
from memkit.past import repository, tree
from memkit.past.history import COMMITS, VERSIONS, History

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
Script = Callable[[str], ModuleType]
KEY = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="module")
def repositories(script: Script) -> ModuleType:
    return script("repositories.py")


@pytest.fixture(scope="module")
def sample_root(repositories: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("life") / "repository"
    repositories.build(root, repositories.lived(seed=1, days=4))
    return root


@pytest.fixture(scope="module")
def history(sample_root: Path) -> History:
    return mk.history(sample_root)


def alive(history: History, moment: object) -> list[tuple[str, ...]]:
    """Path, title and text, but for blank lines at its end, of what the versions say lived at a moment."""
    rows = history.versions.to_pylist()
    alive_then = [
        row for row in rows if row["valid_from"] <= moment and (row["valid_to"] is None or row["valid_to"] > moment)
    ]
    return sorted((row["path"], row["title"], row["text"].rstrip()) for row in alive_then if row["change"] != "removed")


def memories_of(corpus: mk.Corpus) -> list[tuple[str, ...]]:
    return sorted((row["path"], row["title"], row["text"].rstrip()) for row in corpus.memories.to_pylist())


def test_at_every_commit_the_versions_are_what_a_read_gives(sample_root: Path, history: History) -> None:
    assert history.commits.num_rows > 25
    for row in history.commits.to_pylist():
        corpus = mk.read(sample_root, rev=row["commit"])
        assert alive(history, row["committed_at"]) == memories_of(corpus), row["subject"]
        assert row["alive"] == corpus.memories.num_rows
    assert history.problems.num_rows == 0


@pytest.mark.quick
def test_the_end_is_the_folder_as_it_is(sample_root: Path, history: History) -> None:
    last = [row for row in history.versions.to_pylist() if row["valid_to"] is None and row["change"] != "removed"]
    today = mk.read(sample_root)
    assert sorted(row["memory_id"] for row in last) == sorted(today.memories["memory_id"].to_pylist())
    assert [table.to_pylist() for table in history.corpus.tables.values()][:2] == [
        table.to_pylist() for table in today.tables.values()
    ][:2]
    for row in history.commits.to_pylist()[::7]:
        then, read = history.at(row["commit"]), mk.read(sample_root, rev=row["commit"])
        assert {name: table.to_pylist() for name, table in then.tables.items()} == {
            name: table.to_pylist() for name, table in read.tables.items()
        }
        assert memories_of(history.at(row["committed_at"])) == memories_of(read)


@pytest.mark.quick
def test_a_query_sees_the_variables_of_who_asks(history: History) -> None:
    known = pa.table({"change": ["added"], "means": ["new"]})
    meanings = history.sql("select distinct means from versions join known using (change)").fetchall()
    assert meanings == [("new",)]
    assert known.num_rows == 1


def test_every_version_follows_the_one_before(history: History) -> None:
    assert history.versions.schema.equals(VERSIONS)
    assert history.commits.schema.equals(COMMITS)
    chains: dict[str, list[dict[str, Any]]] = {}
    for row in history.versions.to_pylist():
        chains.setdefault(row["memory_id"], []).append(row)
    for rows in chains.values():
        assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
        assert rows[0]["change"] == "added"
        assert [row["valid_to"] for row in rows[:-1]] == [row["valid_from"] for row in rows[1:]]
        for old, new in pairwise(rows):
            assert (old["change"] == "removed") == (new["change"] == "added")
    counts = history.commits.to_pylist()
    changes = history.versions["change"].to_pylist()
    assert sum(row["added"] for row in counts) == changes.count("added")
    assert sum(row["removed"] for row in counts) == changes.count("removed")
    assert sum(row["edited"] for row in counts) == len(changes) - changes.count("added") - changes.count("removed")
    first = history.commits["commit"][0].as_py()
    assert {row["at_start"] == (row["commit"] == first) for row in history.versions.to_pylist()} == {True}


def story(root: Path, *states: dict[str, str | None]) -> History:
    return mk.history(
        mk.testing.write_commits(root, [(f"2026-01-{day:02d}", files) for day, files in enumerate(states, 1)])
    )


def versions_of(history: History, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in history.versions.to_pylist()]


def test_each_way_to_change_has_its_word(tmp_path: Path) -> None:
    body = "Десять соединений на сервер, не больше и не меньше"
    history = story(
        tmp_path,
        {"MEMORY.md": f"# Пул\n{body}\n"},
        {"MEMORY.md": f"# Пул\n{body}\nи ещё одно\n"},
        {"MEMORY.md": f"# Пул базы\n{body}\nи ещё одно\n"},
        {"MEMORY.md": f"# Пул базы\n{body.replace('Десять', 'Двадцать')}\nи ещё одно\n"},
        {"MEMORY.md": f"# Пул базы\n{body.replace('Десять', 'Двадцать')}\n"},
        {"MEMORY.md": None, "bank/pool.md": f"# Пул базы\n{body.replace('Десять', 'Двадцать')}\n"},
        {"bank/pool.md": None},
        {"bank/pool.md": f"# Пул базы\n{body}\n"},
    )
    last = "workspace:bank/pool.md#пул-базы"
    words = ["added", "grew", "retitled", "edited", "shortened", "moved", "removed", "added"]
    assert versions_of(history, "memory_id", "version", "change") == [
        (last, number, word) for number, word in enumerate(words, 1)
    ]
    assert versions_of(history, "lines_added", "lines_removed") == [
        (2, 0),
        (1, 0),
        (1, 1),
        (1, 1),
        (0, 1),
        (0, 0),
        (0, 2),
        (2, 0),
    ]
    assert history.versions["memory_id_then"].to_pylist()[:3] == ["workspace:MEMORY.md#пул"] * 2 + [
        "workspace:MEMORY.md#пул-базы"
    ]
    assert history.at("2026-01-03").memories["title"].to_pylist() == ["Пул базы"]
    assert history.at("2026-01-07").memories.num_rows == 0
    assert history.sql("select count(*) from versions join commits using (commit)").fetchall() == [(8,)]


def test_names_that_are_used_twice_stay_apart(tmp_path: Path) -> None:
    old, other = "совсем про старое дело", "другое и новое слово"
    history = story(
        tmp_path,
        {"a.md": f"# Дело\n{old}\n"},
        {"a.md": f"# Работа\n{other}\n"},
        {"a.md": f"# Дело\n{other}\n"},
    )
    rows = versions_of(history, "memory_id", "version", "change")
    assert len({row[:2] for row in rows}) == len(rows)
    assert [row[2] for row in rows] == ["added", "added", "removed", "retitled"]
    assert rows[2][0].startswith("workspace:a.md#дело@")
    assert rows[3][0] == "workspace:a.md#дело"


def test_times_that_run_backwards_agree_with_a_read(repositories: ModuleType, tmp_path: Path) -> None:
    root, times = tmp_path / "repository", [50, 20, 40, 30, 90, 60]
    repositories.build(
        root, [repositories.Step({"a.md": f"# {second}\n"}, at=repositories.START + second) for second in times]
    )
    history = mk.history(root)
    for moment in sorted(history.commits["committed_at"].to_pylist()):
        assert alive(history, moment) == memories_of(mk.read(root, rev=moment))


def test_a_cut_history_says_so(sample_root: Path, history: History, repositories: ModuleType, tmp_path: Path) -> None:
    cut = mk.history(sample_root, max_commits=6)
    assert cut.commits["commit"].to_pylist() == history.commits["commit"].to_pylist()[-6:]
    assert b"the last 6 commits alone" in cut.versions.schema.metadata[b"note"]
    repositories.git(tmp_path, "clone", "--quiet", "--depth=6", f"file://{sample_root}", "shallow")
    shallow = mk.history(tmp_path / "shallow")
    assert b"shallow" in shallow.versions.schema.metadata[b"note"]
    for part in (cut, shallow):
        moment = part.commits["committed_at"][-1].as_py()
        assert alive(part, moment) == alive(history, moment)
        assert sum(part.versions["at_start"].to_pylist()) == part.commits["alive"][0].as_py()
    assert (
        mk.history(sample_root, rev="HEAD~3").commits["commit"].to_pylist()
        == history.commits["commit"].to_pylist()[:-3]
    )


def test_a_folder_of_a_repository_has_its_own_history(repositories: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    repositories.build(
        root, [{"a.md": "# 1\n", "b/c.md": "# 2\n"}, {"a.md": "# 3\n"}, {"b/c.md": "# 2\nx\n"}, {"b/.memkitignore": ""}]
    )
    assert versions_of(mk.history(root / "b"), "path", "change") == [("c.md", "added"), ("c.md", "grew")]
    assert versions_of(mk.history(root / "a.md"), "path", "title", "change") == [
        ("a.md", "1", "added"),
        ("a.md", "3", "added"),
        ("a.md", "1", "removed"),
    ]
    assert versions_of(mk.history(root), "path", "change")[-1] == ("b/c.md", "removed")


def test_what_people_wrote_is_escaped_and_masked_and_no_address_is_kept(
    repositories: ModuleType, tmp_path: Path
) -> None:
    root, attack = tmp_path / "repository", "<script>alert(1)</script>"
    step = repositories.Step({"a.md": f"# {attack}\n{KEY}\n"}, subject=f"{attack} {KEY}", author=f"{KEY}\x1b[31m")
    repositories.build(root, [step, {"a.md": "# x\n"}])
    history = mk.history(root)
    page = history._repr_html_()
    assert "&lt;script&gt;" in page
    for shown in (page, repr(history)):
        assert KEY not in shown
        assert "\x1b" not in shown
    assert attack not in page
    assert KEY in history.commits["subject"][0].as_py()
    assert "example.org" not in str(history.commits.to_pylist())


def test_both_tables_are_in_a_lake(history: History, tmp_path: Path) -> None:
    history.corpus.save(tmp_path)
    lake = mk.open(tmp_path)
    for name in ("versions", "commits"):
        assert lake.tables[name].to_pylist() == getattr(history, name).to_pylist()
    assert lake.sql("select count(*) from versions").fetchall() == [(history.versions.num_rows,)]


def test_a_bomb_ends_in_a_problem(repositories: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_PATHS", 500)
    monkeypatch.setattr(repository, "MOST_CHANGES", 500)
    pages = {f"{number}.md": "# Чай\n" for number in range(600)}
    repositories.build(tmp_path / "first", [pages, {"a.md": "# 1\n"}])
    history = mk.history(tmp_path / "first")
    assert (history.versions.num_rows, history.problems["rule"].to_pylist()) == (0, ["too_many_files"])
    repositories.build(tmp_path / "second", [{"a.md": "# 1\n"}, pages, dict.fromkeys(pages)])
    history = mk.history(tmp_path / "second")
    assert (history.versions.num_rows, history.problems["rule"].to_pylist()) == (1, ["too_many_files"])


def test_a_git_that_hangs_is_a_problem_too(sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    slow = tmp_path / "git"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" log "*) exec sleep 60;; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    history = mk.history(sample_root, timeout_s=1)
    assert history.problems["message"].to_pylist()[0].startswith(".: expected the history up to")
    assert history.commits.num_rows == 0


def test_what_cannot_be_is_refused(sample_root: Path, tmp_path: Path) -> None:
    for wrong in ({"max_commits": 0}, {"timeout_s": -1}, {"max_commits": "x"}):
        with pytest.raises(ParameterError, match="history"):
            mk.history(sample_root, **wrong)
    with pytest.raises(FormatError, match="in none"):
        mk.history(tmp_path)
    with pytest.raises(MemkitError):
        mk.testing.write_commits(tmp_path, [("2026-01-01", {"../a.md": "x"})])


def test_reading_a_history_writes_nothing(sample_root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sample_root.rglob("*")}
    mk.history(sample_root)
    assert {path: path.stat().st_mtime_ns for path in sample_root.rglob("*")} == before
    assert pc.sum(mk.history(sample_root).versions["lines_added"]).as_py() > 0


BODY = "одно два три четыре пять"
DAYS: list[dict[str, str | None]] = [
    {"MEMORY.md": f"# Пул\n{BODY}\n", "keys.md": f"# Ключ\n{KEY}\n", "still.md": f"# Бот\n{KEY[:-1]}x\n"},
    {"MEMORY.md": f"# Пул\n{BODY} шесть\n", "keys.md": "# Ключ\nубран\n"},
    {f"memory/2024-01-0{at}.md": f"# День {at}\nзапись {at}\n" for at in range(1, 6)},
    {"MEMORY.md": f"# Пул\n{BODY} семь\n"},
    {f"memory/2024-01-0{at}.md": None for at in range(1, 5)},
]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> History:
    return story(tmp_path_factory.mktemp("days"), *DAYS)


def rows_of(history: History, name: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = history.named(name, **options).to_arrow_table().to_pylist()
    return rows


def test_named_queries_say_what_happened(days: History) -> None:
    changed = rows_of(days, "history_changes", as_of="2026-01-03", days=2)
    assert [(row["day"].day, row["change"]) for row in changed] == [(3, "added")] * 5 + [(2, "edited")] * 2
    vanished = rows_of(days, "history_vanished")
    assert [(row["title"], row["with_many"], row["gone"].day) for row in vanished] == [
        (f"День {number}", True, 5) for number in range(1, 5)
    ]
    assert {row["text"] for row in vanished} == {f"# День {number}\nзапись {number}" for number in range(1, 5)}
    assert [(row["removed"], row["lived"]) for row in rows_of(days, "history_purges")] == [(4, 8)]
    texts = {
        day: rows_of(days, "history_on_day", as_of=f"2026-01-0{day}", memory_id="workspace:MEMORY.md#пул")
        for day in (1, 3)
    }
    assert [rows[0]["text"].split()[-1] for rows in texts.values()] == ["пять", "шесть"]
    assert len(rows_of(days, "history_on_day", as_of="2026-01-03")) == 8
    untouched = rows_of(days, "history_untouched")
    assert (untouched[0]["title"], untouched[0]["or_longer"], len(untouched)) == ("Бот", True, 4)
    assert [(row["title"], row["changes"]) for row in rows_of(days, "history_rewritten")] == [("Пул", 2), ("Ключ", 1)]
    (secret,) = rows_of(days, "history_secrets")
    assert (secret["secret"], secret["memory_id"], secret["taken_out"].day) == (
        "model_key",
        "workspace:keys.md#ключ",
        2,
    )
    (log,) = rows_of(days, "history_misdated")
    assert log["days_apart"] == (log["committed"] - log["date"]).days > 700


HISTORY = [row["name"] for row in mk.named_queries().to_pylist() if row["needs_history"]]


def test_a_query_over_a_history_is_one_statement_and_needs_one(
    days: History, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    without = mk.from_table({"text": ["чай"]})
    expected = {name: rows_of(days, name, as_of="2026-01-03") for name in HISTORY}
    days.corpus.save(tmp_path / "lake")
    opened = mk.open(tmp_path / "lake")
    (tmp_path / "empty").mkdir()
    empty = mk.history(mk.testing.write_commits(tmp_path / "empty", [("2026-01-01", {"a.txt": "x"})]))
    for name in HISTORY:
        with subtests.test(name):
            with pytest.raises(ParameterError, match=rf"{name}': expected a history.*mk\.history\(folder\)"):
                without.named(name, as_of="2026-03-01")
            assert opened.named(name, as_of="2026-01-03").to_arrow_table().to_pylist() == expected[name]
            assert rows_of(empty, name, as_of="2026-01-03") == []


def test_since_leaves_what_is_older_out(days: History) -> None:
    late = days.since("2026-01-04")
    assert (late.versions.num_rows, late.commits.num_rows) == (5, 2)
    assert days.since(None) is days


def test_what_is_written_below_changes_nothing_above(tmp_path: Path) -> None:
    first, second = "# Чай\n\nЗелёный.\n", "# Чай\n\nЗелёный.\n\n# Кофе\n\nЭфиопия.\n"
    states = [("2026-01-01", {"MEMORY.md": first}), ("2026-02-01", {"MEMORY.md": second})]
    mk.testing.write_commits(tmp_path, states)
    history = mk.history(tmp_path)
    assert history.versions.select(["title", "change", "lines_added"]).to_pylist() == [
        {"title": "Чай", "change": "added", "lines_added": 3},
        {"title": "Кофе", "change": "added", "lines_added": 3},
    ]
    difference = mk.diff(mk.read(tmp_path, rev="2026-01-02"), mk.read(tmp_path)).table
    assert [(row["change"], row["title"]) for row in difference.to_pylist()] == [("added", "Кофе")]
    (tmp_path / "MEMORY.md").write_text(f"{second}\n# Вода\n\nИз крана.\n")
    dated = mk.read(tmp_path, dates="git")
    assert dated.memories["date_source"].to_pylist() == ["git_first", "git", None]
    assert dated.memories["updated_at"].to_pylist() == dated.memories["created_at"].to_pylist()
