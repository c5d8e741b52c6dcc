"""JSON whose texts lie deeper: which field becomes the text, what stays beside it, and what is no memory."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.formats.records.unknown import LEAST_SHARE, LONG, longest_in
from memkit.formats.syntax.front_matter import split
from memkit.tables.samples import write_files
from tests.test_growth import assert_grows_linearly

TEA, COFFEE = "Анна пьёт чай без сахара", "Борис пьёт кофе с молоком и сахаром"


def read(folder: Path, value: object, name: str = "store.json", json_rows: str | None = None) -> mk.Corpus:
    return mk.read(write_files(folder, {name: json.dumps(value, ensure_ascii=False)}), json=json_rows)


@pytest.mark.quick
def test_the_longest_prose_of_a_record_is_its_text_and_the_rest_stays_in_extra(tmp_path: Path) -> None:
    record = {
        "namespace": ["memories", "u1"],
        "key": "k1",
        "value": {"content": TEA, "importance": 0.9, "hint": "три слова тут", "picture": "aGVsbG8g" * 200},
        "created_at": "2026-01-02T03:04:05Z",
    }
    corpus = read(tmp_path, record)
    (row,) = corpus.memories.to_pylist()
    assert (row["memory_id"], row["text"], row["importance"]) == ("records:store.json#k1", TEA, "high")
    assert f"{row['created_at']:%F %T}" == "2026-01-02 03:04:05"
    beside = {"importance": 0.9, "hint": "три слова тут", "picture": "aGVsbG8g" * 200}
    assert json.loads(row["extra"]) == {"namespace": ["memories", "u1"], "value": beside}
    (problem,) = corpus.problems.to_pylist()
    assert (problem["rule"], "longest field of prose" in problem["message"]) == ("unclaimed", True)


@pytest.mark.quick
def test_the_records_of_a_document_are_in_the_list_or_object_that_says_most(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    documents = {
        "blocks": {"agent": "a", "blocks": [{"value": TEA}, {"value": COFFEE}]},
        "talk": {"core_memory": [{"value": TEA}, {"value": COFFEE}], "messages": [{"role": "a", "content": "b"}]},
        "deeper": {"user": {"narratives": [{"said": {"it": TEA}}, {"said": {"it": COFFEE}}]}},
        "edges": {"group": "a", "edges": [{"fact": TEA}], "nodes": [{"summary": COFFEE, "name": "Борис"}]},
        "by key": {"one": {"about": TEA}, "two": {"about": COFFEE}},
        "strings": [TEA, COFFEE],
        "lists": [[{"t": TEA}], [{"t": COFFEE}]],
    }
    for name, document in documents.items():
        with subtests.test(name):
            texts = read(tmp_path / name, document).memories["text"].to_pylist()
            assert [TEA in texts[0], COFFEE in texts[1], len(texts)] == [True, True, 2]
    (alone,) = read(tmp_path / "alone", {"about": TEA * 9, "seen": [{"where": COFFEE}]}).memories.to_pylist()
    assert (alone["text"], json.loads(alone["extra"])) == (TEA * 9, {"seen": [{"where": COFFEE}]})


SETTINGS = {
    "package": {"name": "x", "version": "1.0.0", "description": "A library that makes tea for two"},
    "lock": {"lockfileVersion": 3, "packages": {"a": {"description": "A library that makes tea for two"}}},
    "manifest": {"id": "x", "version": "1.2.3", "description": "A library that makes tea for two"},
    "schema": {"type": "object", "properties": {"a": {"description": "How much tea there is for two"}}},
    "switches": {"debug": True, "port": 8080, "folder": "/var/lib/tea", "theme": "dark-blue-and-green"},
    "markup": {"id": "a", "html": f"<p>{TEA}</p>"},
    "base64": {"id": "a", "data1": "aGVsbG8gd29ybGQh" * 40, "data2": "\n".join(["aGVsbG8gd29ybGQh" * 4] * 9)},
    "hardly any": {"names": {f"n{n}": "x" * 30 for n in range(100)}, "title": "A list of names"},
}


@pytest.mark.quick
def test_the_parts_of_a_text_that_lie_in_a_list_are_one_text(tmp_path: Path) -> None:
    leaf, picture = {"string": "чёрный", "uid": "b2"}, {"string": "aGVsbG8gd29ybGQh" * 9}
    outline = {"title": "Анна", "children": [{"string": TEA, "uid": "b1", "children": [leaf, picture]}]}
    runs = {"content": [{"content": [{"text": TEA}]}, {"content": [{"text": "чёрный"}, {"text": " "}]}]}
    strings = {"title": "Анна", "said": [TEA, "чёрный"], "seen": ["здесь"]}
    first, *rest = read(tmp_path, [outline, runs, strings, {"about": COFFEE}]).memories.to_pylist()
    assert [row["text"] for row in (first, *rest)] == [f"{TEA}\nчёрный"] * 3 + [COFFEE]
    assert json.loads(first["extra"]) == {"children": [{"uid": "b1", "children": [{"uid": "b2"}, picture]}]}


@pytest.mark.quick
def test_settings_markup_and_base64_stay_one_row_and_are_rows_where_all_are_asked_for(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name, value in SETTINGS.items():
        with subtests.test(name):
            corpus = read(tmp_path / name, value)
            assert corpus.memories.num_rows == 0
            assert corpus.problems["rule"].to_pylist() == ["unclaimed"]
            everything = read(tmp_path / name, value, json_rows="rows")
            assert everything.memories.num_rows >= 1
            assert json.loads(everything.memories["text"][0].as_py()) == value
    assert read(tmp_path / "numbers", [1, 2], json_rows="rows").memories["text"].to_pylist() == ["1", "2"]


def test_what_stands_among_known_records_is_read_by_its_longest_prose(tmp_path: Path) -> None:
    known = {"fact_id": "f1", "content": TEA, "category": "c", "confidence": 0.9}
    records = [known, {"key": "k", "value": {"content": COFFEE}, "created": "2026-07-01"}, {"id": "y", "n": 5}]
    lines = "\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    for corpus in (read(tmp_path / "a", records), mk.read(write_files(tmp_path / "b", {"a.jsonl": lines + "\n{[\n"}))):
        rows = corpus.memories.to_pylist()
        assert [row["text"] for row in rows[:3]] == [TEA, COFFEE, '{"id": "y", "n": 5}']
        found = rows[1]["source_id"], f"{rows[1]['created_at']:%F}", json.loads(rows[1]["extra"])
        assert found == ("k", "2026-07-01", {"value": {}})
        assert [row["line"] for row in corpus.problems.to_pylist() if row["rule"] == "unclaimed"]


def test_a_note_of_boxes_is_one_memory_and_what_was_thrown_away_or_archived_says_so(tmp_path: Path) -> None:
    boxes = [{"text": "тара", "isChecked": False}, {"text": "звонок", "isChecked": True}]  # too few words for prose
    stamps = {"userEditedTimestampUsec": 1782889500000000, "isTrashed": False}
    read(tmp_path, {"title": "Дела", "listContent": boxes, "isArchived": True, **stamps}, "Keep/a.json")
    read(tmp_path, {"textContent": TEA, **stamps, "isTrashed": True}, "Keep/b.json")
    rows = read(tmp_path, [{"id": "m", "content": TEA, "status": "outdated"}], "c.json").memories.to_pylist()
    assert [row["status"] for row in rows] == ["archived", "archived", "deprecated"]
    assert (rows[0]["title"], rows[0]["text"]) == ("Дела", "- [ ] тара\n- [x] звонок")
    assert f"{rows[0]['updated_at']:%F %T}" == "2026-07-01 07:05:00"


def test_what_was_said_within_a_conversation_is_a_transcript(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": TEA}, {"role": "assistant", "content": COFFEE}]
    for name, document in {"turns": {"turns": turns}, "of sessions": {"sessions": [{"id": 1, "log": turns}]}}.items():
        corpus = read(tmp_path / name, document)
        assert (corpus.memories.num_rows, corpus.problems["rule"].to_pylist()) == (0, ["transcript"])
        (said, *_) = read(tmp_path / name, document, json_rows="rows").memories.to_pylist()
        assert TEA in said["text"] + said["extra"]


def test_a_broken_a_hostile_and_a_huge_file_lose_nothing(tmp_path: Path) -> None:
    lines = [json.dumps({"value": {"it": f"{TEA} {n}"}}, ensure_ascii=False) for n in range(5)]
    broken = mk.read(write_files(tmp_path / "broken", {"a.jsonl": "\n".join([*lines, '{"value": {"it'])}))
    assert broken.memories["text"].to_pylist() == [*(f"{TEA} {n}" for n in range(5)), '{"value": {"it']
    assert sorted(broken.problems["rule"].to_pylist()) == ["unclaimed", "unparsable"]

    hostile: dict[str, object] = {"(file)": TEA, "key": {"#": 1}, "id": "a#b", "тело\ud800": COFFEE + "\ud800"}
    for _ in range(40):
        hostile = {"x": [hostile]}
    (row,) = mk.read(write_files(tmp_path / "hostile", {"store.json": json.dumps(hostile)})).memories.to_pylist()
    assert (row["text"], row["memory_id"]) == (COFFEE + "\ufffd", "records:store.json#a%23b")

    value = {"it": "я" * (2**20), "note": TEA}
    corpus = read(tmp_path / "huge", value)
    assert (corpus.memories.num_rows, corpus.problems["rule"].to_pylist()) == (0, ["unclaimed"])
    assert read(tmp_path / "huge", value, json_rows="rows").memories.num_rows == 1


def test_the_longest_prose_and_the_fields_of_a_head_are_found_in_linear_time() -> None:
    for unit in ("a b1 ", "<", "чай ", "喝", "aGVsbG8g\n", " "):
        assert_grows_linearly(lambda n, unit=unit: longest_in({"a": [unit * n] * 3}), int, 40_000)
    assert_grows_linearly(longest_in, lambda n: {"a": [{"b": TEA}] * n}, 10_000)
    assert_grows_linearly(split, lambda n: "+++\n" + "".join(f"k{i} = x\n" for i in range(n)) + "+++\n", 20_000)


def test_a_picture_counts_as_one_string_of_a_record() -> None:
    note, names = "Anna drinks tea", 3
    assert longest_in({"picture": "y" * 10**6, "note": note})
    assert len(note) / (len(note) + names * LONG) < LEAST_SHARE
    assert longest_in({"names": ["y" * LONG] * names, "note": note}) is None


def test_measures_fill_their_columns_in_every_layout(tmp_path: Path) -> None:
    head = "---\ntitle: Чай\ndesc: О чае\nimportance: {}\nconfidence: 0.8\naccessCount: 3\n---\n# Чай\nпьёт Анна\n"
    uuid = "3f2b7c1e-5d7a-4a7e-9c58-0a3f6a1f2b11"
    note = f"---\nid: {uuid}\nsubject: Чай\nkeywords: [чай]\napplies_to: global\ncreated_at: 2026-01-20T09:00:00Z\n"
    note += "updated_at: 2026-01-20T09:00:00Z\nimportance: 0.2\nconfidence: 0.8\naccessCount: 3\n---\nАнна пьёт чай\n"
    files = {
        "vault/.obsidian/app.json": "{}",
        "vault/a.md": head.format("0.7"),
        "vault/b.md": head.format("50\nmaturity: draft\nrecency: 1"),
        "plain/c.md": head.format("low"),
        f"notes/{uuid}.md": note,
        "d.json": json.dumps([{"text": TEA, "importance": 1, "confidence": 0.8, "metadata": {"accessCount": 3}}]),
    }
    rows = mk.read(write_files(tmp_path, files)).memories.to_pylist()
    found = {row["path"].rpartition("/")[2]: row["importance"] for row in rows}
    assert found == {"a.md": "high", "b.md": "normal", "c.md": "low", f"{uuid}.md": "low", "d.json": "high"}
    assert {(row["confidence"], row["access_count"]) for row in rows} == {(0.8, 3)}
    extra = {row["path"]: json.loads(row["extra"]) for row in reversed(rows)}
    assert extra["vault/a.md"]["importance"] == "0.7", "a third is less than a number"
    assert "confidence" not in extra["vault/a.md"]
    assert {row["description"] for row in rows if row["layout"]} == {"О чае"}


SAYING_NOTHING = {
    "a picture.json": [{"data": base64.b64encode(bytes(range(256))).decode()}],
    "pieces.json": {"items": [{"body": base64.encodebytes(bytes(range(256))).decode()}]},
    "digest.json": [{"content": "0123456789abcdef" * 8}],
    "composer.json": {"name": "a/b", "description": "A package of nice things for tea", "require": {"php": ">=8"}},
    "settings.json": {"theme": "dark", "banner": "Welcome back to the editor of your dreams, dear friend."},
    "ui.json": {"fontSize": 14, "autoSave": True, "banner": "Добро пожаловать в редактор, дорогой друг."},
}


def test_base64_and_settings_are_no_memories_whatever_their_fields_are_called(tmp_path: Path) -> None:
    said = {"a.json": {"id": "1", "pinned": True, "note": "Анна пьёт чай"}, "b.json": [{"data": "Анна пьёт чай"}]}
    texts = {name: json.dumps(value) for name, value in {**SAYING_NOTHING, **said}.items()}
    corpus = mk.read(folder := write_files(tmp_path, texts))
    assert sorted(corpus.memories["path"].to_pylist()) == sorted(said)
    assert pc.sum(pc.equal(corpus.problems["rule"], "unclaimed")).as_py() == 2  # one for those read, one for the rest
    assert {*texts} == {*mk.read(folder, json="rows").memories["path"].to_pylist()}
