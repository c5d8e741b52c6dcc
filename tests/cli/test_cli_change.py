"""Plans, changes and their undoing at the command line: nothing is written unless `apply` says so."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import memkit as mk

WORKING = """- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит бота
- [id:wk_2] [t:working] [imp:high] [exp:2027-01-01] План
- [id:wk_3] [t:working] [imp:high] [exp:2027-01-01] Чай
- [id:wk_4] [t:working] [imp:high] [exp:2027-01-01] Мёд
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return mk.testing.write_files(tmp_path / "root", {"users/anna/working.md": WORKING})


@pytest.mark.quick
def test_plan_apply_and_undo(run: Any, root: Path, tmp_path: Path) -> None:
    file = root / "users/anna/working.md"
    code, out, err = run("plan", root, "expiry", "--as-of", "2026-03-01", "--json")
    assert (code, err) == (0, "")
    assert [row["reason"] for row in json.loads(out)] == ["expired"]
    assert file.read_text("utf-8") == WORKING
    assert not (root / ".memkit").exists()
    (tmp_path / "plan.json").write_text(out, "utf-8")
    assert run("apply", root, tmp_path / "plan.json", "--json")[0] == 0
    assert file.read_text("utf-8") == WORKING.split("\n", 1)[1]
    code, out, _ = run("undo", root, "--json")
    assert (code, [row["path"] for row in json.loads(out)]) == (0, ["users/anna/working.md"])
    assert file.read_text("utf-8") == WORKING
    assert run("undo", root)[0] == 2


@pytest.mark.quick
def test_a_diff_is_printed_as_it_is(run: Any, root: Path) -> None:
    code, out, _ = run("plan", root, "expiry", "--as-of", "2026-03-01", "--diff")
    assert code == 0
    assert out.startswith("--- a/users/anna/working.md\n+++ b/users/anna/working.md\n@@ -1,4 +1,3 @@\n-- [id:wk_1]")
    assert "expired" in run("plan", root, "expiry", "--as-of", "2026-03-01")[1]


@pytest.mark.quick
def test_parameters_filters_and_standard_input(run: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ("plan", root, "expiry", "--as-of", "2026-03-01", "--json")
    assert json.loads(run(*plan, "--set", "grace_days=60")[1]) == []
    assert json.loads(run(*plan, "--set", "expiry__grace_days=60")[1]) == []
    assert json.loads(run(*plan, "--where", "policy = 'quota'")[1]) == []
    monkeypatch.setattr("sys.stdin", io.StringIO(run(*plan)[1]))
    assert run("apply", root, "-")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "{root}", "expirey"), "Did you mean 'expiry'"),
        (("plan", "{root}", "expiry", "--set", "grace=1"), "Did you mean 'grace_days'"),
        (("plan", "{root}", "expiry", "--where", "reason ="), "where: expected one SQL predicate"),
        (("apply", "{root}", "{root}/users/anna/working.md"), "expected a JSON array of edits"),
        (("apply", "{root}", "{root}/none.json"), "No such file"),
        (("undo", "{root}/none"), "expected a folder"),
    ],
)
def test_what_is_wrong_is_one_line(words: tuple[str, ...], message: str, run: Any, root: Path) -> None:
    code, out, err = run(*(word.format(root=root) for word in words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_too_many_removals_need_force(run: Any, root: Path, tmp_path: Path) -> None:
    out = run("plan", root, "expiry", "--as-of", "2028-01-01", "--json")[1]
    (tmp_path / "plan.json").write_text(out, "utf-8")
    code, _, err = run("apply", root, tmp_path / "plan.json")
    assert (code, "4 of 4 memories would be removed" in err) == (2, True)
    assert run("apply", root, tmp_path / "plan.json", "--force")[0] == 0
    assert run("undo", root, "--clear")[0] == 0
    assert WORKING[:40].encode() not in b"".join(p.read_bytes() for p in root.rglob("*") if p.is_file())


def test_add_plans_and_with_yes_writes(run: Any, root: Path) -> None:
    fact = ("add-fact", root, "Обсуждали структуру памяти.", "--user", "boris", "--as-of", "2026-03-01")
    before = sorted(root.rglob("*"))
    assert "+- [id:ar_001] [t:archive]" in run(*fact, "--diff")[1]
    assert sorted(root.rglob("*")) == before
    assert json.loads(run(*fact, "--yes", "--json")[1]) == [{"saved": "ar_001"}]
    code, _, err = run(*fact, "--yes")
    assert (code, "duplicate: ar_001 says it already" in err) == (2, True)
    note = ("add-note", root, "# Чай\n\nБез сахара.", "--subject", "Чай", "--keyword", "чай", "--yes")
    assert run(*note)[0] == 0
    assert run("add-log", root, "Пил чай.", "--as-of", "2026-03-01", "--yes", "--json")[0] == 0
    record = {
        "format_version": "1.0.0",
        "fact_id": "f",
        "category": "c",
        "content": "ч",
        "confidence": 1,
        "relations": [],
    }
    assert json.loads(run("add-record", root, json.dumps(record), "--yes", "--json")[1]) == [{"saved": "f.json"}]
    kinds = set(mk.read(root).memories["kind"].to_pylist())
    assert {"archive", "note", "daily_log", "wisdom_fact"} <= kinds


def test_what_cannot_be_added_is_one_line(run: Any, root: Path) -> None:
    for verb, words, message in (
        ("add-fact", ("x",), "--user"),
        ("add-note", ("x",), "--subject"),
        ("add-record", ("x",), "expected the record as a JSON object"),
        ("add-record", ("[]",), "expected the record as a JSON object"),
        ("add-record", ("[" * 100_000,), "expected the record as a JSON object"),
        ("add-fact", ("x", "--user", "../a"), "user: expected letters"),
        ("add-observation", ("x",), "expected --entity or --page. Got none"),
        ("add", ("x", "--kind", "fact"), "expected a verb a kind: add-fact, "),
        ("store", ("pages.rename", "path=a.md", "to=b.md"), "Expected Python, mk.store(PATH).pages.rename(…)"),
    ):
        code, out, err = run(verb, root, *words)
        assert (code, out, err.count("\n"), message in err) == (2, "", 1, True), err


def test_selftest_works_on_a_copy(run: Any, root: Path) -> None:
    """Memory v2, manual check: migrate, save, read, forget."""
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    code, out, _ = run("selftest", root, "--as-of", "2026-03-01", "--json")
    assert code == 0
    assert [(row["step"], row["ok"]) for row in json.loads(out)] == [
        *(("migrate", True), ("save", True), ("read", True), ("forget", True), ("undo", True))
    ]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    code, out, _ = run("selftest", root, "--user", "a/b", "--json")
    failed = [row["detail"] for row in json.loads(out) if not row["ok"]]
    assert (code, failed) == (
        1,
        ["user: expected letters, digits, '_', '-' and '.'. Got 'a/b'."] * 2
        + ["No fact was saved, so there is none to try this with."] * 3,
    )


def test_an_export_is_a_plan_until_yes(run: Any, tmp_path: Path) -> None:
    files = {"MEMORY.md": "Порт 8443 у сервера\n§\nДеплой по вторникам"}
    folder, out = mk.testing.write_files(tmp_path / "in", files), tmp_path / "out"
    words = ("export", folder, out, "--layout", "facts", "--user", "anna", "--as-of", "2026-03-01")
    code, text, _ = run(*words, "--json")
    assert (code, [row["path"] for row in json.loads(text)]) == (0, ["users/anna/archive.md"] * 2)
    assert "+- [id:ar_001] [t:archive] [imp:normal] Порт 8443 у сервера" in run(*words, "--diff")[1]
    assert not out.exists()
    assert run(*words, "--yes")[0] == 0
    assert mk.read(out).memories["text"].to_pylist() == ["Порт 8443 у сервера", "Деплой по вторникам"]
    code, _, err = run(*words)
    assert (code, "expected an empty folder" in err) == (2, True)


def test_entries_and_observations_are_added(run: Any, tmp_path: Path) -> None:
    folder = mk.testing.write_files(tmp_path / "in", {"MEMORY.md": "Порт 8443\n§\nЧай"})
    assert run("add-entry", folder, "Деплой", "--target", "user", "--yes")[0] == 0
    assert (folder / "USER.md").read_text("utf-8") == "Деплой"
    line = '{"name":"Анна","entityType":"p","observations":["чай"]}'
    folder = mk.testing.write_files(tmp_path / "graph", {"g.jsonl": line})
    words = ("add-observation", folder, "мёд", "--entity", "Анна")
    assert '+{"name":"Анна","entityType":"p","observations":["чай","мёд"]}' in run(*words, "--diff")[1]
    assert (folder / "g.jsonl").read_text("utf-8") == line
    assert run(*words, "--yes")[0] == 0
    assert mk.read(folder).memories["text"].to_pylist() == ["чай", "мёд"]
