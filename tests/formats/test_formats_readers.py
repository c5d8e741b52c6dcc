"""What each format's reader makes of its documents' own shapes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.base.dates import dated
from memkit.formats.registry import FORMATS
from memkit.tables.samples import write_files


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


DOCUMENTED = [format for format in FORMATS if format.layout is None]  # the layouts' samples are in data/layouts


@pytest.mark.quick
@pytest.mark.parametrize("format", DOCUMENTED, ids=lambda format: format.name)
def test_the_sample_has_each_kind_and_table_of_each_format(format: Any, sample: mk.Corpus) -> None:
    kinds = {row["kind"] for row in sample.memories.to_pylist() if row["format"] == format.name}
    assert kinds == set(format.kinds) - {
        "quarantined",
        "dream",
    }  # nothing in the sample is of an unknown version, or dreamt
    assert all(sample.tables[name].num_rows for name in format.tables)


MIXED = {
    "a/memory/index.json": '{"type": "index-root", "branches": [{"category": "c", "path": "memory/c/index.json"}]}',
    "a/memory/c/index.json": '{"type": "index-branch", "files": [{"title": "t", "file": "memory/c/x.md"}]}',
    "a/memory/c/x.md": "---\nid: x\nsubject: y\n---\nтекст\n",
    "b/x.md": "---\nid: x\nsubject: y\nkeywords: [z]\n---\nтекст заметки\n",
    "c/users/u/profile.md": "- [id:x] [t:profile] [imp:high] чай\n",
    "c/anywhere.md": "- [id:x] [t:profile] [imp:high] чай\n",
    "d/x.json": '{"fact_id": "x", "content": "чай"}',
    "e/MEMORY.md": "# Чай\nзелёный\n",
    "e/any.md": "просто текст\n",
}


@pytest.mark.quick
def test_the_first_format_that_claims_a_file_reads_it(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, MIXED))
    assert {row["path"]: (row["format"], row["kind"]) for row in corpus.memories.to_pylist()} == {
        "a/memory/c/x.md": ("index_tree", "entry"),
        "b/x.md": ("notes", "note"),
        "c/users/u/profile.md": ("facts", "profile"),
        "c/anywhere.md": ("facts", "profile"),
        "d/x.json": ("records", "wisdom_fact"),
        "e/MEMORY.md": ("workspace", "long_term"),
        "e/any.md": ("workspace", "document"),
    }
    assert [(row["path"], row["rule"]) for row in corpus.problems.to_pylist() if row["severity"] == "info"] == [
        ("e/any.md", "unclaimed")
    ]


def records(tmp_path: Path, value: Any) -> mk.Corpus:
    return mk.read(write_files(tmp_path, {"r.json": json.dumps(value)}))


@pytest.mark.quick
def test_an_old_pathway_is_led_on_to_the_present_shape(tmp_path: Path) -> None:
    old = {"id": "p", "triggers": ["a"], "response_template": "Ответ", "last_used": "2026-01-02T00:00:00Z"}
    counted = {**old, "success_count": 3, "failure_count": 1}
    corpus = records(tmp_path, {"pathways": [counted, {**old, "id": "q", "success_count": 0, "failure_count": 0}]})
    first, second = corpus.tables["pathways"].to_pylist()
    assert (first["template"], first["hits"], first["success_rate"]) == ("Ответ", 3 + 1, 3 / (3 + 1))
    assert (second["hits"], second["success_rate"]) == (0, None)
    assert first["last_used_at"] == utc("2026-01-02")
    steps = corpus.tables["migrations"].select(["kind", "from_version", "to_version"]).to_pylist()
    assert steps == [{"kind": "pathway", "from_version": "0.template", "to_version": "1.0.0"}] * 2
    assert json.loads(first["extra"]) == {"success_count": 3, "failure_count": 1, "last_used": "2026-01-02T00:00:00Z"}


def test_an_old_item_is_a_response_without_a_question(tmp_path: Path) -> None:
    old = {"text": "Живёт в Риге", "timestamp": "2026-01-02", "category": "profile", "importance": "medium"}
    (row,) = records(tmp_path, [old]).memories.to_pylist()
    assert (row["kind"], row["text"], row["title"], row["tags"]) == ("memory_item", "Живёт в Риге", "", ["profile"])
    assert (row["importance"], row["created_at"]) == ("normal", utc("2026-01-02"))


@pytest.mark.parametrize(
    ("version", "rules"),
    [
        ("1.0.0", []),
        ("1.9.3", []),
        ("2.0.0", ["unsupported_version"]),
        ("0.9.0", ["unsupported_version"]),
        ("v2", ["unsupported_version"]),
        ("1.0", ["bad_value"]),
        (1.10, ["bad_value"]),
        ("новая", ["bad_value"]),
        (None, ["missing_field"]),
    ],
)
def test_a_version_is_read_by_its_major(tmp_path: Path, version: Any, rules: list[str]) -> None:
    fact = {"fact_id": "f", "content": "чай", "category": "c", "confidence": 0.5, "relations": []}
    corpus = records(tmp_path, fact if version is None else {"format_version": version, **fact})
    assert corpus.problems["rule"].to_pylist() == rules
    (row,) = corpus.memories.to_pylist()
    assert "чай" in row["text"]
    assert (row["kind"] == "quarantined") == (rules == ["unsupported_version"])


def test_relations_are_told_when_they_lead_nowhere_or_against_themselves(tmp_path: Path) -> None:
    def fact(name: str, *links: tuple[str, str]) -> dict[str, Any]:
        relations = [{"fact_id": to, "type": kind, "weight": 1} for to, kind in links]
        fields = {"format_version": "1.0.0", "fact_id": name, "content": name, "category": "c", "confidence": 1}
        return {**fields, "relations": relations}

    facts = [fact("a", ("b", "supports"), ("a", "extends"), ("z", "supports")), fact("b", ("a", "contradicts"))]
    problems = [(row["rule"], row["memory_id"]) for row in records(tmp_path, facts).problems.to_pylist()]
    assert sorted(problems) == [
        ("contradictory_relation", "records:r.json#b"),
        ("dangling_relation", "records:r.json#a"),
        ("self_relation", "records:r.json#a"),
    ]


def test_numbers_in_yaml_keep_their_size(tmp_path: Path) -> None:
    hits = 2**53 + 1
    text = f"id: p\ntemplate: t\ntier: core\nusage_stats:\n  hits: {hits}\n  success_rate: 0.25\n"
    (row,) = mk.read(write_files(tmp_path, {"p.yaml": text})).tables["pathways"].to_pylist()
    assert (row["hits"], row["success_rate"]) == (hits, 0.25)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-01-05", "2026-01-05T00:00:00"),
        ("2026-01-05T10:00:00Z", "2026-01-05T10:00:00"),
        ("'2026-01-05T10:00:00+03:00'", "2026-01-05T07:00:00"),
        ("2026-01-05 10:00:00", "2026-01-05T10:00:00"),
        ("2026", None),
        ("05.01.2026", None),
        ("2026-02-30", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_a_date_is_utc_and_a_wrong_one_is_missing(tmp_path: Path, written: str, moment: str | None) -> None:
    text = f"---\nid: x\nsubject: s\nkeywords: [a]\napplies_to: global\ncreated_at: {written}\n---\nтело заметки\n"
    corpus = mk.read(write_files(tmp_path, {"x.md": text}))
    (row,) = corpus.memories.to_pylist()
    assert (row["created_at"], row["updated_at"]) == ((utc(moment), utc(moment)) if moment else (None, None))
    assert ("bad_date" in corpus.problems["rule"].to_pylist()) == (moment is None)
    assert moment or json.loads(row["extra"]) == {"created_at": written}


def test_a_time_stamp_with_a_nul_is_no_time_stamp(tmp_path: Path) -> None:
    written = "2026-01-05T10:00:00Z\0later"
    item = {"user_id": "u", "input": "чай?", "response": "да", "tags": [], "timestamp": written}
    corpus = mk.read(write_files(tmp_path, {"items.json": json.dumps(item)}))
    (row,) = corpus.memories.to_pylist()
    assert (row["created_at"], json.loads(row["extra"])) == (None, {"timestamp": written})
    assert "bad_date" in corpus.problems["rule"].to_pylist()


def test_any_uuid_loads_and_only_version_4_is_silent(tmp_path: Path) -> None:
    ids = {
        "2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d": 4,
        "7d3c5a10-8e1f-11f0-9b2d-0242ac120002": 1,
        "00000000-0000-0000-0000-000000000000": None,
        "not-a-uuid": None,
    }
    head = "---\nid: {}\nsubject: s\nkeywords: [a]\napplies_to: global\noccurred_at: 2026-01-01\n---\nтело заметки\n"
    corpus = mk.read(write_files(tmp_path, {f"{name}.md": head.format(name) for name in ids}))
    assert {row["id"]: row["uuid_version"] for row in corpus.tables["notes"].to_pylist()} == ids
    assert sorted(corpus.problems["rule"].to_pylist()) == ["bad_value", "not_uuid4", "not_uuid4"]


SESSION = """# Разговор

**[10:00] user**: как настроен пул?
**[10:01:30] assistant**: Десять соединений.
Больше не нужно.
```
user: это код
```
## Дальше
**[25:61] user**: поздно
assistant: без времени
**Оля:** обычное имя
"""


def test_the_turns_of_a_session(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"sessions/2026-02-03-pool.md": SESSION}))
    turns = corpus.tables["turns"].to_pylist()
    assert [(turn["role"], turn["time"], turn["text"].split("\n")[0]) for turn in turns] == [
        ("user", "10:00", "как настроен пул?"),
        ("assistant", "10:01:30", "Десять соединений."),
        ("user", "25:61", "поздно"),
        ("assistant", None, "без времени"),
        ("Оля", None, "обычное имя"),
    ]
    assert [turn["said_at"] for turn in turns] == [
        utc("2026-02-03T10:00"),
        utc("2026-02-03T10:01:30"),
        None,
        None,
        None,
    ]
    assert turns[1]["text"].endswith("```\nuser: это код\n```")
    assert [(turn["line_start"], turn["line_end"]) for turn in turns[:3]] == [(3, 3), (4, 8), (10, 10)]
    of_turns = [turn["memory_id"].partition("#")[2] for turn in turns]
    assert of_turns == ["разговор", "разговор", "дальше", "дальше", "дальше"]


def test_the_boxes_of_a_heartbeat(tmp_path: Path) -> None:
    text = "# Раз в час\n- [ ] проверить пул\n  * [x] выпуск\n1. [X] почта\n- [y] не то\n"
    corpus = mk.read(write_files(tmp_path, {"HEARTBEAT.md": text}))
    assert [(row["line"], row["done"], row["text"]) for row in corpus.tables["checklist"].to_pylist()] == [
        (2, False, "проверить пул"),
        (3, True, "выпуск"),
        (4, True, "почта"),
    ]
    assert corpus.memories["kind"].to_pylist() == ["heartbeat"]


def test_a_section_takes_day_and_time_of_its_heading_before_the_files(tmp_path: Path) -> None:
    text = "начало\n# 14:30 Сбой\nx\n## 2026-02-05 9:05 Разбор\nx\n### Итог\nx\n"
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03-0800.md": text}))
    assert corpus.memories["created_at"].to_pylist() == [
        utc("2026-02-03T08:00"),
        utc("2026-02-03T14:30"),
        utc("2026-02-05T09:05"),
        utc("2026-02-05T09:05"),
    ]
    assert corpus.memories["updated_at"].equals(corpus.memories["created_at"])


def test_a_name_that_opens_with_no_date_is_no_dated_name() -> None:
    assert dated("meeting-2026-02-03") is None
    assert dated("202602031230") is None


def test_counters_are_compared_with_what_was_read(tmp_path: Path) -> None:
    line = "- [id:{}] [t:profile] [imp:high] чай\n"
    meta = {"version": 2, "profileCount": 2, "workingCount": 1, "archiveCount": 0}
    written = {"users/u/profile.md": line.format(1) + line.format(2), "users/u/meta.json": json.dumps(meta)}
    (row,) = mk.read(write_files(tmp_path, written)).problems.to_pylist()
    assert (row["rule"], row["field"]) == ("counter_mismatch", "workingCount")
    assert "must be 0" in row["message"]
    assert "Got 1" in row["message"]


def test_an_old_fact_file_counts_only_beside_users(tmp_path: Path) -> None:
    old = {"anna.md": "- любит чай\n* живёт в Риге\nпросто строка\n", "README.md": "# Про\n"}
    old["faq.md"] = "# Вопросы\n\n## Как удалить данные\nКоманда /forgetme.\nСрок 30 дней.\n- или письмом\n"
    alone = mk.read(write_files(tmp_path / "a", old))
    assert set(alone.memories["format"].to_pylist()) == {"workspace"}
    beside = mk.read(
        write_files(tmp_path / "b", {**old, "users/oleg/profile.md": "- [id:a] [t:profile] [imp:high] x\n"})
    )
    facts = [row for row in beside.memories.to_pylist() if row["path"] == "anna.md"]
    assert [(row["kind"], row["user_id"], row["text"]) for row in facts] == [
        ("archive", "anna", "любит чай"),
        ("profile", "anna", "живёт в Риге"),
        ("archive", "anna", "просто строка"),
    ]
    assert beside.tables["migrations"]["path"].to_pylist() == ["anna.md"]
    assert {row["format"] for row in beside.memories.to_pylist() if row["path"] == "faq.md"} == {"workspace"}
    mk.store(tmp_path / "b").facts.cleanup()
    assert (tmp_path / "b/faq.md").read_text("utf-8") == old["faq.md"]  # a page is nobody's facts, and is left alone
    assert sorted(path.name for path in (tmp_path / "b/users").iterdir()) == ["anna", "oleg"]
    forced = mk.read(tmp_path / "a", format="facts").memories.to_pylist()
    assert [row["kind"] for row in forced if row["path"] == "anna.md"] == ["archive", "profile", "archive"]


def test_a_lone_or_foreign_index_is_told_by_its_shape(tmp_path: Path) -> None:
    written = {
        "a/memory/lessons/index.json": '{"type": "index-branch", "files": [{"title": "t", "file": "lessons/x.md"}]}',
        "a/memory/lessons/x.md": "урок\n",
        "b/index.json": '{"name": "webpack", "files": ["x"]}',
        "c/index.json": '{"type": "index-root", "branches": {"path": "x"}}',
        "d/index.json": '{"type": "index-branch", "files": "x"}',
        "e/index.json": json.dumps([{"path": "x.md", "title": "t"}]),
        "e/x.md": "текст\n",
        "f/index.json": '{"fact_id": "f", "content": "чай"}',
    }
    corpus = mk.read(write_files(tmp_path, written))
    assert {row["path"]: row["kind"] for row in corpus.memories.to_pylist()} == {
        "a/memory/lessons/x.md": "entry",
        "e/x.md": "entry",
        "f/index.json": "wisdom_fact",
    }
    rules = {(row["path"][0], row["rule"], row["field"]) for row in corpus.problems.to_pylist()}
    assert {("b", "foreign_index", None), ("c", "bad_value", "branches"), ("d", "bad_value", "files")} <= rules


def test_an_index_names_files_with_and_without_its_own_folder(tmp_path: Path) -> None:
    names = ["memory/a.md", "b.md", "c\\d.md", " e.md ", "memory/memory/f.md", ".hidden/g.md", "node_modules/h.md"]
    places = ["a.md", "b.md", "c/d.md", "e.md", "memory/f.md", ".hidden/g.md", "node_modules/h.md"]
    entries = [{"title": name, "file": name} for name in names]
    written = {f"memory/{place}": f"{place}\n" for place in places}
    written["memory/index.json"] = '{"type": "index-root", "branches": [{"path": "c/index.json"}]}'
    written["memory/c/index.json"] = json.dumps({"type": "index-branch", "files": entries})
    corpus = mk.read(write_files(tmp_path, written))
    assert corpus.tables["entries"]["path"].to_pylist() == [f"memory/{place}" for place in places]
    assert sorted(corpus.memories["text"].to_pylist()) == sorted(f"{place}\n" for place in places)


def test_logs_of_one_week_make_a_far_one_implausible(tmp_path: Path) -> None:
    days = ["2026-02-01", "2026-02-02", "2062-02-03"]
    corpus = mk.read(write_files(tmp_path, {f"memory/{day[:4]}/{day}.md": "x\n" for day in days}))
    assert corpus.problems.select(["path", "rule"]).to_pylist() == [
        {"path": "memory/2062/2062-02-03.md", "rule": "implausible_date"}
    ]


@pytest.mark.parametrize(
    ("name", "value", "column", "converted"),
    [
        ("content", 4021, "text", "4021"),
        ("content", True, "text", "true"),
        ("confidence", "0.5", "confidence", 0.5),
        ("fact_id", 17, "source_id", "17"),
        ("category", 1.10, "scope", "1.1"),
    ],
)
def test_json_of_another_type_is_converted_with_a_problem(
    tmp_path: Path, name: str, value: object, column: str, converted: object
) -> None:
    fact = {
        "format_version": "1.0.0",
        "fact_id": "f",
        "category": "c",
        "content": "т",
        "confidence": 1,
        "relations": [],
    }
    corpus = records(tmp_path, [fact | {name: value}])
    assert corpus.memories[column].to_pylist() == [converted]
    assert [(row["field"], row["rule"]) for row in corpus.problems.to_pylist()] == [(name, "bad_value")]
    assert json.loads(corpus.memories["extra"][0].as_py()) == {}


def test_yaml_whose_scalars_are_all_strings_has_no_such_problem(tmp_path: Path) -> None:
    text = "format_version: 1.0.0\nfact_id: 17\ncategory: 1\ncontent: 4021\nconfidence: '0.5'\nrelations: []\n"
    corpus = mk.read(write_files(tmp_path, {"w.yaml": text}))
    assert corpus.problems.num_rows == 0
    assert corpus.memories["confidence"].to_pylist() == [0.5]


def test_what_an_index_or_the_counters_hold_of_another_type_is_reported_by_a_listed_rule_and_kept(
    tmp_path: Path,
) -> None:
    branch = {"type": "index-branch", "category": {"имя": "w1"}, "files": [{"title": "A", "file": "b/a.md"}, "w2"]}
    root = {"type": "index-root", "branches": [{"path": "b/index.json", "category": ["w3"]}]}
    meta = {"version": ["w4"], "profileCount": "w5", "workingCount": 0, "archiveCount": 0}
    files = {"index.json": json.dumps(root), "b/index.json": json.dumps(branch), "b/a.md": "текст w6\n"}
    corpus = mk.read(write_files(tmp_path, files | {"users/a/meta.json": json.dumps(meta)}))
    problems = {(row["path"], row["field"], row["rule"]) for row in corpus.problems.to_pylist()}
    assert problems >= {
        ("index.json", "category", "bad_value"),
        ("b/index.json", "category", "bad_value"),
        ("b/index.json", "files", "bad_value"),
        ("users/a/meta.json", "version", "bad_value"),
        ("users/a/meta.json", "profileCount", "bad_value"),
    }
    listed = {(row["field"], row["code"]) for row in mk.rules().to_pylist()}
    assert {(field, rule) for _, field, rule in problems if field} <= listed
    printed = repr([corpus.tables[name].to_pylist() for name in ("memories", "users", "problems")])
    assert all(f"w{number}" in printed for number in range(1, 7))
