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
from memkit.past.versions import COMMITS, VERSIONS

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
Script = Callable[[str], ModuleType]
KEY = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="module")
def made(script: Script) -> ModuleType:
    return script("repositories.py")


@pytest.fixture(scope="module")
def life(made: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("life") / "repository"
    made.build(root, made.lived(seed=1, days=4))
    return root


@pytest.fixture(scope="module")
def lived(life: Path) -> mk.History:
    return mk.history(life)


def alive(found: mk.History, moment: object) -> list[tuple[str, ...]]:
    """Path, title and text, but for blank lines at its end, of what the versions say lived at a moment."""
    rows = found.versions.to_pylist()
    there = [
        row for row in rows if row["valid_from"] <= moment and (row["valid_to"] is None or row["valid_to"] > moment)
    ]
    return sorted((row["path"], row["title"], row["text"].rstrip()) for row in there if row["change"] != "removed")


def said(corpus: mk.Corpus) -> list[tuple[str, ...]]:
    return sorted((row["path"], row["title"], row["text"].rstrip()) for row in corpus.memories.to_pylist())


def test_at_every_commit_the_versions_are_what_a_read_gives(life: Path, lived: mk.History) -> None:
    assert lived.commits.num_rows > 25
    for row in lived.commits.to_pylist():
        corpus = mk.read(life, rev=row["commit"])
        assert alive(lived, row["committed_at"]) == said(corpus), row["subject"]
        assert row["alive"] == corpus.memories.num_rows
    assert lived.problems.num_rows == 0


def test_the_end_is_the_folder_as_it_is(life: Path, lived: mk.History) -> None:
    last = [row for row in lived.versions.to_pylist() if row["valid_to"] is None and row["change"] != "removed"]
    today = mk.read(life)
    assert sorted(row["memory_id"] for row in last) == sorted(today.memories["memory_id"].to_pylist())
    assert [table.to_pylist() for table in lived.corpus.tables.values()][:2] == [
        table.to_pylist() for table in today.tables.values()
    ][:2]
    for row in lived.commits.to_pylist()[::7]:
        at, read = lived.at(row["commit"]), mk.read(life, rev=row["commit"])
        assert {name: table.to_pylist() for name, table in at.tables.items()} == {
            name: table.to_pylist() for name, table in read.tables.items()
        }
        assert said(lived.at(row["committed_at"])) == said(read)


def test_a_query_sees_the_variables_of_who_asks(lived: mk.History) -> None:
    known = pa.table({"change": ["added"], "means": ["new"]})
    found = lived.sql("select distinct means from versions join known using (change)").fetchall()
    assert found == [("new",)]
    assert known.num_rows == 1


def test_every_version_follows_the_one_before(lived: mk.History) -> None:
    assert lived.versions.schema.equals(VERSIONS)
    assert lived.commits.schema.equals(COMMITS)
    chains: dict[str, list[dict[str, Any]]] = {}
    for row in lived.versions.to_pylist():
        chains.setdefault(row["memory_id"], []).append(row)
    for rows in chains.values():
        assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
        assert rows[0]["change"] == "added"
        assert [row["valid_to"] for row in rows[:-1]] == [row["valid_from"] for row in rows[1:]]
        for old, new in pairwise(rows):
            assert (old["change"] == "removed") == (new["change"] == "added")
    counts = lived.commits.to_pylist()
    changes = lived.versions["change"].to_pylist()
    assert sum(row["added"] for row in counts) == changes.count("added")
    assert sum(row["removed"] for row in counts) == changes.count("removed")
    assert sum(row["edited"] for row in counts) == len(changes) - changes.count("added") - changes.count("removed")
    first = lived.commits["commit"][0].as_py()
    assert {row["at_start"] == (row["commit"] == first) for row in lived.versions.to_pylist()} == {True}


def story(root: Path, *states: dict[str, str | None]) -> mk.History:
    return mk.history(
        mk.testing.write_commits(root, [(f"2026-01-{day:02d}", files) for day, files in enumerate(states, 1)])
    )


def told(found: mk.History, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in found.versions.to_pylist()]


def test_each_way_to_change_has_its_word(tmp_path: Path) -> None:
    body = "Десять соединений на сервер, не больше и не меньше"
    found = story(
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
    assert told(found, "memory_id", "version", "change") == [(last, at, word) for at, word in enumerate(words, 1)]
    assert told(found, "lines_added", "lines_removed") == [
        (2, 0),
        (1, 0),
        (1, 1),
        (1, 1),
        (0, 1),
        (0, 0),
        (0, 2),
        (2, 0),
    ]
    assert found.versions["memory_id_then"].to_pylist()[:3] == ["workspace:MEMORY.md#пул"] * 2 + [
        "workspace:MEMORY.md#пул-базы"
    ]
    assert found.at("2026-01-03").memories["title"].to_pylist() == ["Пул базы"]
    assert found.at("2026-01-07").memories.num_rows == 0
    assert found.sql("select count(*) from versions join commits using (commit)").fetchall() == [(8,)]


def test_names_that_are_used_twice_stay_apart(tmp_path: Path) -> None:
    old, other = "совсем про старое дело", "другое и новое слово"
    found = story(
        tmp_path,
        {"a.md": f"# Дело\n{old}\n"},
        {"a.md": f"# Работа\n{other}\n"},
        {"a.md": f"# Дело\n{other}\n"},
    )
    rows = told(found, "memory_id", "version", "change")
    assert len({row[:2] for row in rows}) == len(rows)
    assert [row[2] for row in rows] == ["added", "added", "removed", "retitled"]
    assert rows[2][0].startswith("workspace:a.md#дело@")
    assert rows[3][0] == "workspace:a.md#дело"


def test_times_that_run_backwards_agree_with_a_read(made: ModuleType, tmp_path: Path) -> None:
    root, times = tmp_path / "repository", [50, 20, 40, 30, 90, 60]
    made.build(root, [made.Step({"a.md": f"# {at}\n"}, at=made.START + at) for at in times])
    found = mk.history(root)
    for moment in sorted(found.commits["committed_at"].to_pylist()):
        assert alive(found, moment) == said(mk.read(root, rev=moment))


def test_a_cut_history_says_so(life: Path, lived: mk.History, made: ModuleType, tmp_path: Path) -> None:
    cut = mk.history(life, max_commits=6)
    assert cut.commits["commit"].to_pylist() == lived.commits["commit"].to_pylist()[-6:]
    assert b"the last 6 commits alone" in cut.versions.schema.metadata[b"note"]
    made.git(tmp_path, "clone", "--quiet", "--depth=6", f"file://{life}", "shallow")
    shallow = mk.history(tmp_path / "shallow")
    assert b"shallow" in shallow.versions.schema.metadata[b"note"]
    for found in (cut, shallow):
        moment = found.commits["committed_at"][-1].as_py()
        assert alive(found, moment) == alive(lived, moment)
        assert sum(found.versions["at_start"].to_pylist()) == found.commits["alive"][0].as_py()
    assert mk.history(life, rev="HEAD~3").commits["commit"].to_pylist() == lived.commits["commit"].to_pylist()[:-3]


def test_a_folder_of_a_repository_has_its_own_history(made: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    made.build(
        root, [{"a.md": "# 1\n", "b/c.md": "# 2\n"}, {"a.md": "# 3\n"}, {"b/c.md": "# 2\nx\n"}, {"b/.memkitignore": ""}]
    )
    assert told(mk.history(root / "b"), "path", "change") == [("c.md", "added"), ("c.md", "grew")]
    assert told(mk.history(root / "a.md"), "path", "title", "change") == [
        ("a.md", "1", "added"),
        ("a.md", "3", "added"),
        ("a.md", "1", "removed"),
    ]
    assert told(mk.history(root), "path", "change")[-1] == ("b/c.md", "removed")


def test_what_people_wrote_is_escaped_and_masked_and_no_address_is_kept(made: ModuleType, tmp_path: Path) -> None:
    root, attack = tmp_path / "repository", "<script>alert(1)</script>"
    step = made.Step({"a.md": f"# {attack}\n{KEY}\n"}, subject=f"{attack} {KEY}", author=f"{KEY}\x1b[31m")
    made.build(root, [step, {"a.md": "# x\n"}])
    found = mk.history(root)
    page = found._repr_html_()
    assert "&lt;script&gt;" in page
    for shown in (page, repr(found)):
        assert KEY not in shown
        assert "\x1b" not in shown
    assert attack not in page
    assert KEY in found.commits["subject"][0].as_py()
    assert "example.org" not in str(found.commits.to_pylist())


def test_both_tables_are_in_a_lake(lived: mk.History, tmp_path: Path) -> None:
    lived.corpus.save(tmp_path)
    lake = mk.open(tmp_path)
    for name in ("versions", "commits"):
        assert lake.tables[name].to_pylist() == getattr(lived, name).to_pylist()
    assert lake.sql("select count(*) from versions").fetchall() == [(lived.versions.num_rows,)]


def test_a_bomb_ends_in_a_problem(made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_PATHS", 500)
    monkeypatch.setattr(repository, "MOST_CHANGES", 500)
    many = {f"{at}.md": "# Чай\n" for at in range(600)}
    made.build(tmp_path / "first", [many, {"a.md": "# 1\n"}])
    found = mk.history(tmp_path / "first")
    assert (found.versions.num_rows, found.problems["rule"].to_pylist()) == (0, ["too_many_files"])
    made.build(tmp_path / "second", [{"a.md": "# 1\n"}, many, dict.fromkeys(many)])
    found = mk.history(tmp_path / "second")
    assert (found.versions.num_rows, found.problems["rule"].to_pylist()) == (1, ["too_many_files"])


def test_a_git_that_hangs_is_a_problem_too(life: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    slow = tmp_path / "git"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" log "*) exec sleep 60;; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = mk.history(life, timeout_s=1)
    assert found.problems["message"].to_pylist()[0].startswith(".: expected the history up to")
    assert found.commits.num_rows == 0


def test_what_cannot_be_is_refused(life: Path, tmp_path: Path) -> None:
    for wrong in ({"max_commits": 0}, {"timeout_s": -1}, {"max_commits": "x"}):
        with pytest.raises(ParameterError, match="history"):
            mk.history(life, **wrong)
    with pytest.raises(FormatError, match="in none"):
        mk.history(tmp_path)
    with pytest.raises(MemkitError):
        mk.testing.write_commits(tmp_path, [("2026-01-01", {"../a.md": "x"})])


def test_reading_a_history_writes_nothing(life: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in life.rglob("*")}
    mk.history(life)
    assert {path: path.stat().st_mtime_ns for path in life.rglob("*")} == before
    assert pc.sum(mk.history(life).versions["lines_added"]).as_py() > 0


BODY = "одно два три четыре пять"
DAYS: list[dict[str, str | None]] = [
    {"MEMORY.md": f"# Пул\n{BODY}\n", "keys.md": f"# Ключ\n{KEY}\n", "still.md": f"# Бот\n{KEY[:-1]}x\n"},
    {"MEMORY.md": f"# Пул\n{BODY} шесть\n", "keys.md": "# Ключ\nубран\n"},
    {f"memory/2024-01-0{at}.md": f"# День {at}\nзапись {at}\n" for at in range(1, 6)},
    {"MEMORY.md": f"# Пул\n{BODY} семь\n"},
    {f"memory/2024-01-0{at}.md": None for at in range(1, 5)},
]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> mk.History:
    return story(tmp_path_factory.mktemp("days"), *DAYS)


def asked(found: mk.History, name: str, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.named(name, **how).to_arrow_table().to_pylist()
    return rows


def test_named_queries_say_what_happened(days: mk.History) -> None:
    changed = asked(days, "history_changes", as_of="2026-01-03", days=2)
    assert [(row["day"].day, row["change"]) for row in changed] == [(3, "added")] * 5 + [(2, "edited")] * 2
    gone = asked(days, "history_vanished")
    assert [(row["title"], row["with_many"], row["gone"].day) for row in gone] == [
        (f"День {at}", True, 5) for at in range(1, 5)
    ]
    assert {row["text"] for row in gone} == {f"# День {at}\nзапись {at}" for at in range(1, 5)}
    assert [(row["removed"], row["lived"]) for row in asked(days, "history_purges")] == [(4, 8)]
    texts = {
        day: asked(days, "history_on_day", as_of=f"2026-01-0{day}", memory_id="workspace:MEMORY.md#пул")
        for day in (1, 3)
    }
    assert [rows[0]["text"].split()[-1] for rows in texts.values()] == ["пять", "шесть"]
    assert len(asked(days, "history_on_day", as_of="2026-01-03")) == 8
    untouched = asked(days, "history_untouched")
    assert (untouched[0]["title"], untouched[0]["or_longer"], len(untouched)) == ("Бот", True, 4)
    assert [(row["title"], row["changes"]) for row in asked(days, "history_rewritten")] == [("Пул", 2), ("Ключ", 1)]
    (secret,) = asked(days, "history_secrets")
    assert (secret["secret"], secret["memory_id"], secret["taken_out"].day) == (
        "model_key",
        "workspace:keys.md#ключ",
        2,
    )
    (log,) = asked(days, "history_misdated")
    assert log["days_apart"] == (log["committed"] - log["date"]).days > 700


HISTORY = [row["name"] for row in mk.named_queries().to_pylist() if row["needs_history"]]


def test_a_query_over_a_history_is_one_statement_and_needs_one(
    days: mk.History, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    without = mk.from_table({"text": ["чай"]})
    made = {name: asked(days, name, as_of="2026-01-03") for name in HISTORY}
    days.corpus.save(tmp_path / "lake")
    opened = mk.open(tmp_path / "lake")
    (tmp_path / "empty").mkdir()
    empty = mk.history(mk.testing.write_commits(tmp_path / "empty", [("2026-01-01", {"a.txt": "x"})]))
    for name in HISTORY:
        with subtests.test(name):
            with pytest.raises(ParameterError, match=rf"{name}': expected a history.*mk\.history\(folder\)"):
                without.named(name, as_of="2026-03-01")
            assert opened.named(name, as_of="2026-01-03").to_arrow_table().to_pylist() == made[name]
            assert asked(empty, name, as_of="2026-01-03") == []


def test_since_leaves_what_is_older_out(days: mk.History) -> None:
    late = days.since("2026-01-04")
    assert (late.versions.num_rows, late.commits.num_rows) == (5, 2)
    assert days.since(None) is days


def test_what_is_written_below_changes_nothing_above(tmp_path: Path) -> None:
    first, second = "# Чай\n\nЗелёный.\n", "# Чай\n\nЗелёный.\n\n# Кофе\n\nЭфиопия.\n"
    states = [("2026-01-01", {"MEMORY.md": first}), ("2026-02-01", {"MEMORY.md": second})]
    mk.testing.write_commits(tmp_path, states)
    found = mk.history(tmp_path)
    assert found.versions.select(["title", "change", "lines_added"]).to_pylist() == [
        {"title": "Чай", "change": "added", "lines_added": 3},
        {"title": "Кофе", "change": "added", "lines_added": 3},
    ]
    difference = mk.diff(mk.read(tmp_path, rev="2026-01-02"), mk.read(tmp_path)).table
    assert [(row["change"], row["title"]) for row in difference.to_pylist()] == [("added", "Кофе")]
    (tmp_path / "MEMORY.md").write_text(f"{second}\n# Вода\n\nИз крана.\n")
    dated = mk.read(tmp_path, dates="git")
    assert dated.memories["date_source"].to_pylist() == ["git_first", "git", None]
    assert dated.memories["updated_at"].to_pylist() == dated.memories["created_at"].to_pylist()
