"""What has one right answer is mended, old layouts become current ones, and both can be undone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.change.migrate import CODES
from memkit.errors import ChangeRefusedError, ParameterError
from memkit.formats.rows import FIXES
from tests.folders import text_tree as tree

DAY = "2026-03-01"


def problems(root: Path, *codes: str) -> list[str]:
    return [code for code in mk.read(root).problems["rule"].to_pylist() if code in codes]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    shutil.copytree(mk.sample_data(), root, ignore=shutil.ignore_patterns("broken"))
    return root


WISDOM = {"fact_id": "a", "category": "c", "content": "чай", "confidence": 1, "relations": []}
ENTRY = {"title": "Чай", "file": "lessons/tea.md", "tags": [], "priority": "low", "version": "1.0"}
ROOT = {"type": "index-root", "branches": [{"category": "lessons", "path": "lessons/index.json"}]}
NOTE = "id: {}\nsubject: Чай\nkeywords: [чай]\napplies_to: global\ncreated_at: 2026-01-01\nupdated_at: 2026-01-01\n"
ID = "3f0c9a52-6f0e-4c3b-9d57-1b7a6d2f8e41"
BROKEN: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "counter_mismatch": (
        {
            "users/u/meta.json": '{"version":2,\n "archiveCount" : 7}',
            "users/u/archive.md": "- [id:ar_1] чай\n- [id:ar_2] мёд\n",
        },
        {"users/u/meta.json": '{"version":2,\n "archiveCount" : 2}'},
    ),
    "name_mismatch": (
        {"notes/tea.md": f"---\n{NOTE.format(ID)}---\n\nБез сахара, с мёдом.\n"},
        {f"notes/{ID}.md": f"---\n{NOTE.format(ID)}---\n\nБез сахара, с мёдом.\n"},
    ),
    "missing_field": (
        {
            "memory/index.json": json.dumps(ROOT),
            "memory/lessons/index.json": json.dumps({"type": "index-branch", "category": "lessons", "files": [ENTRY]}),
            "memory/lessons/tea.md": "# Чай\n",
            "w.jsonl": json.dumps(WISDOM)
            + "\n"
            + json.dumps({**WISDOM, "fact_id": "b", "format_version": "1.0.0"})
            + "\n",
            "list.json": json.dumps(
                [{**WISDOM, "fact_id": "c", "format_version": "1.0.0"}, {**WISDOM, "fact_id": "d"}]
            ),
            "one.yaml": "fact_id: e # мой\ncategory: c\ncontent: чай\nconfidence: 1\nrelations: []\n",
        },
        {
            "memory/lessons/index.json": json.dumps(
                {"type": "index-branch", "category": "lessons", "files": [{**ENTRY, "updated": DAY}]}
            ).replace(json.dumps("Чай"), '"\\u0427\\u0430\\u0439"'),
            "w.jsonl": json.dumps({**WISDOM, "format_version": "1.0.0"})
            + "\n"
            + json.dumps({**WISDOM, "fact_id": "b", "format_version": "1.0.0"})
            + "\n",
            "list.json": json.dumps(
                [
                    {**WISDOM, "fact_id": "c", "format_version": "1.0.0"},
                    {**WISDOM, "fact_id": "d", "format_version": "1.0.0"},
                ]
            ),
            "one.yaml": "fact_id: e # мой\ncategory: c\ncontent: чай\nconfidence: 1\nrelations: []\n"
            'format_version: "1.0.0"\n',
        },
    ),
    "unindexed": (
        {
            "memory/index.json": json.dumps(ROOT),
            "memory/lessons/index.json": json.dumps(
                {"type": "index-branch", "category": "lessons", "files": [{**ENTRY, "updated": DAY}]},
                ensure_ascii=False,
                indent=2,
            ),
            "memory/lessons/tea.md": "# Чай\n",
            "memory/lessons/honey.md": "---\na: 1\n---\n# Мёд\n",
            "memory/lessons/none.md": "без заголовка\n",
        },
        {
            "memory/lessons/index.json": json.dumps(
                {
                    "type": "index-branch",
                    "category": "lessons",
                    "files": [
                        {**ENTRY, "updated": DAY},
                        {
                            "title": "Мёд",
                            "file": "lessons/honey.md",
                            "tags": [],
                            "priority": "medium",
                            "version": "1.0",
                            "updated": DAY,
                        },
                        {
                            "title": "none",
                            "file": "lessons/none.md",
                            "tags": [],
                            "priority": "medium",
                            "version": "1.0",
                            "updated": DAY,
                        },
                    ],
                },
                ensure_ascii=False,
                indent=2,
            )
        },
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("code", CODES)
def test_each_rule_with_a_fix_is_mended_and_the_rest_stays(code: str, tmp_path: Path) -> None:
    files, after = BROKEN[code]
    root = mk.testing.write_files(tmp_path / "root", files)
    before = tree(root)
    assert problems(root, code)
    edits = mk.plan(mk.read(root), mk.Fix(rules=(code,)), as_of=DAY)
    edits.apply()
    fixed = tree(root)
    moved = set() if code != "name_mismatch" else {"notes/tea.md"}
    assert fixed == {path: text for path, text in (before | after).items() if path not in moved}
    assert problems(root, code) == []
    assert len(mk.plan(mk.read(root), mk.Fix(), as_of=DAY)) == 0
    mk.undo(root)
    assert tree(root) == before


@pytest.mark.quick
def test_the_first_file_of_an_index_is_named_from_the_folder_above(tmp_path: Path) -> None:
    branch = json.dumps({"type": "index-branch", "category": "lessons", "files": []})
    for home in ("memory/", ""):
        files = {"index.json": json.dumps(ROOT), "lessons/index.json": branch, "lessons/tea.md": "# Чай\n"}
        root = mk.testing.write_files(tmp_path / f"at {home}", {f"{home}{path}": text for path, text in files.items()})
        mk.plan(mk.read(root), mk.Fix(rules=("unindexed",)), as_of=DAY).apply()
        (entry,) = json.loads(tree(root)[f"{home}lessons/index.json"])["files"]
        assert entry["file"] == "lessons/tea.md", home
        assert mk.read(root).problems.num_rows == 0, home


@pytest.mark.quick
def test_every_fix_is_said_by_the_rules_and_only_those() -> None:
    rows = mk.rules().to_pylist()
    fixable = {(row["code"], row["format"], row["field"]) for row in rows if row["fix"]}
    assert fixable == FIXES.keys()
    assert {code for code, _, _ in FIXES} == set(CODES) == set(BROKEN)


def test_a_fix_that_is_not_safe_is_refused_with_the_reason(tmp_path: Path) -> None:
    root = mk.testing.write_files(
        tmp_path,
        {
            "notes/tea.md": f"---\n{NOTE.format(ID)}---\n\nБез сахара, с мёдом.\n",
            f"notes/{ID}.md": f"---\n{NOTE.format(ID)}---\n\nБез сахара, с лимоном.\n",
        },
    )
    edits = mk.plan(mk.read(root), mk.Fix(), as_of=DAY)
    assert len(edits) == 0
    assert "which exists already" in edits.refused["reason"][0].as_py()
    with pytest.raises(ParameterError):
        mk.plan(mk.read(root), mk.Fix(rules=("spelling",)))


def test_of_two_notes_with_one_id_one_takes_its_name_and_the_other_is_refused(tmp_path: Path) -> None:
    note = f"---\n{NOTE.format(ID)}---\n\nБез сахара, с мёдом.\n"
    mk.testing.write_files(
        tmp_path, {"notes/a.md": note, "notes/b.md": note, "users/u/meta.json": '{"archiveCount": 7}'}
    )
    edits = mk.plan(mk.read(tmp_path), mk.Fix(rules=("name_mismatch",)))
    assert edits.table.select(["path", "to"]).to_pylist() == [{"path": "notes/a.md", "to": f"notes/{ID}.md"}]
    (refused,) = edits.refused.to_pylist()
    assert (refused["path"], "as notes/a.md does" in refused["reason"]) == ("notes/b.md", True)
    edits.apply()
    assert {"notes/b.md", f"notes/{ID}.md"} < tree(tmp_path).keys()


def test_the_old_users_file_becomes_a_folder_and_is_kept(tmp_path: Path) -> None:
    """Memory v2, data layout: {userId}.md is migrated, with a .bak."""
    old = "# заметки\r\n- Пьёт чай\r\n* Любит [мёд]\r\nстрока\r\n"
    root = mk.testing.write_files(
        tmp_path, {"memory/users/anna/profile.md": "- [id:pf_1] [t:profile] [imp:high] А\n", "memory/boris.md": old}
    )
    before = tree(root)
    mk.plan(mk.read(root), mk.Migrate(), as_of=DAY).apply()
    after = tree(root)
    assert after["memory/boris.md.bak"] == old
    assert "memory/boris.md" not in after
    assert after["memory/users/boris/archive.md"] == (
        "- [id:ar_001] [t:archive] [imp:low] Пьёт чай\r\n- [id:ar_002] [t:archive] [imp:normal] Любит [мёд]\r\n"
        "- [id:ar_003] [t:archive] [imp:low] строка\r\n"
    )
    assert json.loads(after["memory/users/boris/meta.json"])["archiveCount"] == 3
    assert problems(root, "counter_mismatch") == []
    assert len(mk.plan(mk.read(root), mk.Migrate(), as_of=DAY)) == 0
    mk.undo(root)
    assert tree(root) == before


def test_the_sample_is_brought_up_to_date_and_loses_nothing(sample: Path) -> None:
    before, corpus = tree(sample), mk.read(sample)
    assert corpus.tables["migrations"].num_rows
    edits = mk.plan(corpus, mk.Migrate(), as_of=DAY)
    assert edits.refused.num_rows == 0
    assert edits.removed() == []
    edits.apply()
    after = mk.read(sample)
    assert after.tables["migrations"]["time"].null_count == 0
    texts = [sorted(each.memories["text"].to_pylist()) for each in (corpus, after)]
    assert texts[0] == texts[1]
    assert "error" not in set(after.problems["severity"].to_pylist()) - set(corpus.problems["severity"].to_pylist())
    assert len(mk.plan(after, mk.Migrate(), as_of=DAY)) == 0
    (log,) = [text for path, text in tree(sample).items() if path.endswith("migrations.jsonl")]
    rows = [json.loads(line) for line in log.splitlines()]
    assert after.tables["migrations"]["memory_id"].to_pylist() == [row["record"] for row in rows]
    assert len(rows) == sum(
        kind in ("pathway", "memory_item") for kind in corpus.tables["migrations"]["kind"].to_pylist()
    )
    assert {key for row in rows for key in row} == {"record", "from", "to", "time", "reason"}
    mk.undo(sample)
    assert tree(sample) == before


def test_the_flat_index_becomes_a_tree_whose_entries_are_valid(sample: Path) -> None:
    mk.plan(mk.read(sample / "index_tree_old"), mk.Migrate(steps=("index",)), as_of=DAY).apply()
    after = mk.read(sample / "index_tree_old")
    assert set(after.tables["entries"]["status"].to_pylist()) == {"valid"}
    assert sorted(after.tables["entries"]["file"].to_pylist()) == [
        *("answers/faq.md", "context/decisions.md", "instructions/install.md", "lessons/polling.md")
    ]
    assert after.problems.num_rows == 0


def test_occurred_at_becomes_two_dates_and_no_other_byte_changes(tmp_path: Path) -> None:
    note = f"---\nid: {ID}\nsubject:   Чай # да\nkeywords: [a,  b]\napplies_to: global\n"
    note += "occurred_at:  2025-01-02T03:04:05+03:00\n---\n\nБез сахара, с мёдом."
    root = mk.testing.write_files(tmp_path, {f"{ID}.md": note})
    before = mk.read(root).memories.select(["created_at", "updated_at", "text", "title"])
    mk.plan(mk.read(root), mk.Migrate(), as_of=DAY).apply()
    assert tree(root)[f"{ID}.md"] == note.replace("occurred_at:", "created_at:").replace(
        "+03:00\n", "+03:00\nupdated_at: 2025-01-02T00:04:05Z\n"
    )
    assert mk.read(root).memories.select(["created_at", "updated_at", "text", "title"]).equals(before)


def test_a_migration_is_whole_or_nothing(sample: Path) -> None:
    edits = mk.plan(mk.read(sample), mk.Migrate(), as_of=DAY)
    with pytest.raises(ChangeRefusedError, match="belong together"):
        edits.filter("op = 'move'")
    assert len(edits.filter("together = 'migrate facts/u_2007.md'")) == 3


def test_fix_and_migrate_at_the_command_line(sample: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from memkit.cli import main

    def run(*words: object) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["memkit", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), capsys.readouterr().out

    before = tree(sample)
    for verb in ("fix", "migrate"):
        code, out = run(verb, sample, "--as-of", DAY, "--json")
        assert code == 0
        assert json.loads(out)
        assert run(verb, sample, "--as-of", DAY, "--diff")[1].count("\n+++ ") > 0
        assert tree(sample) == before
    assert run("migrate", sample, "--as-of", DAY, "--yes")[0] == 0
    assert tree(sample) != before
    assert run("undo", sample)[0] == 0
    assert tree(sample) == before


def test_a_user_that_some_systems_cannot_tell_from_another_is_refused_and_the_others_migrate(tmp_path: Path) -> None:
    files = {"memory/users/boris/profile.md": "", "memory/Boris.md": "- Пьёт чай", "memory/anna.md": "- Пьёт кофе"}
    edits = mk.plan(mk.read(mk.testing.write_files(tmp_path, files)), mk.Migrate())
    assert edits.refused["path"].to_pylist() == ["memory/Boris.md"]
    assert "memory/users/anna/archive.md" in edits.table["path"].to_pylist()


def test_the_lines_of_all_old_files_are_typed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typing one file takes 40 ms, so that 800 users took half a minute one by one."""
    texts = {f"memory/u{number}.md": f"- Меня зовут Анна {number}\n" for number in range(3)}
    corpus = mk.read(mk.testing.write_files(tmp_path, texts | {"memory/users/x/profile.md": ""}))
    asked: list[int] = []
    transform = mk.Classifier.transform

    def counted(policy: mk.Classifier, table: Any, **options: Any) -> Any:
        asked.append(len(table))
        return transform(policy, table, **options)

    monkeypatch.setattr(mk.Classifier, "transform", counted)
    edits = mk.plan(corpus, mk.Migrate(), as_of=DAY)
    assert asked == [3]
    assert [edit["after"] for edit in edits.table.to_pylist() if edit["path"].endswith("profile.md")] == [
        f"- [id:pf_001] [t:profile] [imp:high] Меня зовут Анна {number}\n" for number in range(3)
    ]
