"""Logs of notes in JSON lines: what they add less what they delete, and words that stand where a string should."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.tables.samples import write_files

FIELDS = {"keywords": ["пул"], "applies_to": "area:база", "created_at": "2026-02-05", "updated_at": "2026-02-05"}
steps = st.lists(st.tuples(st.sampled_from(["add", "delete", "embedding"]), st.integers(1, 4)), max_size=12)


def uuid(number: int) -> str:
    return f"550e8400-e29b-41d4-a716-44665544000{number}"


def lines_of(changes: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [
        {"action": action, "id": uuid(number)}
        | ({"subject": f"с {line}", "content": f"текст заметки {line}", **FIELDS} if action == "add" else {})
        for line, (action, number) in enumerate(changes, 1)
    ]


def read(folder: Path, lines: list[Any]) -> mk.Corpus:
    text = "".join(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return mk.read(write_files(folder, {"log.jsonl": text}))


@settings(max_examples=60)
@given(steps)
def test_what_was_added_and_not_deleted_stays(changes: list[tuple[str, int]]) -> None:
    alive: dict[int, list[int]] = {}
    named, unknown = list[str](), 0
    for line, (action, number) in enumerate(changes, 1):
        if action == "add":
            alive.setdefault(number, []).append(line)
        elif action == "delete":
            if places := alive.pop(number, None):
                named.append(f"which line {places[-1]} adds")
            else:
                unknown += 1
    with tempfile.TemporaryDirectory() as folder:
        corpus = read(Path(folder), lines_of(changes))
    alive_lines = sorted(line for places in alive.values() for line in places)
    assert corpus.memories["line_start"].to_pylist() == alive_lines
    assert corpus.memories["text"].to_pylist() == [f"текст заметки {line}" for line in alive_lines]
    rules, messages = corpus.problems["rule"].to_pylist(), corpus.problems["message"].to_pylist()
    assert sorted(re.findall(r"a deletion of .*(which line \d+ adds)", "\n".join(messages))) == sorted(named)
    assert (rules.count("deleted"), rules.count("bad_value")) == (len(named), unknown)
    assert rules.count("duplicate_id") == sum(len(places) - 1 for places in alive.values())


@pytest.mark.quick
def test_a_note_of_a_log_is_one_of_a_file(tmp_path: Path) -> None:
    add = {"action": "add", "id": uuid(1), "subject": "Пул", "content": "Десять\nсоединений", "by": "Мира", **FIELDS}
    corpus = read(tmp_path, [add])
    (row,) = corpus.memories.to_pylist()
    assert (row["kind"], row["source_id"], row["title"], row["text"]) == ("note", uuid(1), "Пул", "Десять\nсоединений")
    assert (row["scope"], row["tags"], row["memory_id"]) == ("area:база", ["пул"], f"notes:log.jsonl#{uuid(1)}")
    assert json.loads(row["extra"]) == {"by": "Мира"}
    assert corpus.tables["notes"]["applies_target"].to_pylist() == ["база"]
    (chunk,) = mk.extend.Chunker().transform(corpus.memories).to_pylist()
    assert (chunk["line_start"], chunk["line_end"]) == (1, 2), "lines of the text, as the file has it on one"


@pytest.mark.quick
def test_a_line_that_is_no_json_is_kept(tmp_path: Path) -> None:
    corpus = read(tmp_path, [*lines_of([("add", 1)]), "{сломано\n", "[1]\n"])
    assert sorted(corpus.memories["text"].to_pylist()) == ["[1]", "{сломано", "текст заметки 1"]
    assert corpus.problems["rule"].to_pylist() == ["unparsable"] * 2


@pytest.mark.quick
@pytest.mark.parametrize("line", [{"action": "delete", "note": 1}, {"action": "sent", "id": "1"}, {"id": "1"}])
def test_other_json_lines_are_no_log_of_notes(tmp_path: Path, line: dict[str, Any]) -> None:
    assert read(tmp_path, [line]).tables["notes"].num_rows == 0


@pytest.mark.parametrize(
    ("written", "title"),
    [("[Пул, соединений]", "Пул соединений"), ("{Пул: десять, запас: [два, три]}", "Пул: десять запас: два три")],
)
def test_the_words_of_a_subject_that_is_no_string_are_kept(tmp_path: Path, written: str, title: str) -> None:
    head = f"id: {uuid(1)}\nsubject: {written}\nkeywords: [a]\napplies_to: global\n"
    text = f"---\n{head}created_at: 2026-02-05\nupdated_at: 2026-02-05\n---\nдесять соединений\n"
    corpus = mk.read(write_files(tmp_path, {f"{uuid(1)}.md": text}))
    assert corpus.memories["title"].to_pylist() == [title]
    assert [(row["field"], row["rule"]) for row in corpus.problems.to_pylist()] == [("subject", "bad_value")]
    assert corpus.sql("select count(*) from fts('соединений десять')").fetchall() == [(1,)]
