"""Talk and logs as real folders have them: who said what and when, transcripts named as logs, entries of a log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memkit as mk
from memkit.formats.syntax.speech import KNOWN, turn_of, turns_in
from memkit.tables.samples import write_files


def utc(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def turns(folder: Path, path: str, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = mk.read(write_files(folder, {path: text})).tables["turns"].to_pylist()
    return rows


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "role", "clock"),
    [
        ("**[14:30] user**: да", "user", "14:30"),
        ("**[2:30 PM] user**: да", "user", "14:30"),
        ("**[12:05 am] бот:** да", "бот", "00:05"),
        ("[14:30] user: да", "user", "14:30"),
        ("[9:05:59] Анна Петровна: да", "Анна Петровна", "09:05:59"),
        ("Claude: да", "Claude", None),
        ("Ассистент (3:05 p.m.): да", "Ассистент", "15:05"),
        ("**Оля:** да", "Оля", None),
        ("[14:30:05] **User**: да", "User", "14:30:05"),
        ("**[14:30]** **user**: да", "user", "14:30"),
        ("**user** (2:30 PM): да", "user", "14:30"),
        ("**user** [14:30]: да", "user", "14:30"),
        ("14:30 user: да", "user", "14:30"),
        ("**2:30 PM user**: да", "user", "14:30"),
        ("## user\nда", "user", None),
        ("### Assistant (14:30)\n\nда", "Assistant", "14:30"),
        ("## [14:30] Human:\nда", "Human", "14:30"),
        ("## 🧑 User ##\nда", "User", None),
    ],
)
def test_a_turn_in_each_form_that_folders_have(tmp_path: Path, line: str, role: str, clock: str | None) -> None:
    (turn,) = turns(tmp_path, "sessions/2026-02-03-пул.md", f"# Разговор\n\n{line}\nи ещё\n\n")
    assert (turn["role"], turn["text"]) == (role, "да\nи ещё")
    assert turn["said_at"] == (utc(f"2026-02-03T{clock}") if clock else None)
    assert (turn["line_start"], turn["line_end"]) == (3, 3 + line.count("\n") + 1)


@pytest.mark.quick
@pytest.mark.parametrize("line", ["## Users", "## user story", "user", "[14:30] да", "[x] user: да", "a user: да"])
def test_what_only_looks_like_a_turn_is_none(tmp_path: Path, line: str) -> None:
    assert turns(tmp_path, "sessions/2026-02-03-a.md", f"{line}\nда\n") == []


@pytest.mark.quick
def test_a_turn_of_another_day_says_so(tmp_path: Path) -> None:
    (turn,) = turns(tmp_path, "sessions/2026-02-03-a.md", "[2026-02-04 00:01] user: ночь\n")
    assert turn["said_at"] == utc("2026-02-04T00:01")


TALK = (
    "# Session\n\n- **Key**: x\n- **Решение**: позже\n\n## Summary\n\nuser: как пул?\nassistant: десять\n**Итог**: да\n"
)


@pytest.mark.parametrize(
    ("name", "text"), [("2026-02-03-1430", TALK), ("2026-02-03", TALK), ("2026-02-03-1430", "user: да\n")]
)
def test_a_transcript_named_as_a_log_has_turns_and_stays_a_log(tmp_path: Path, name: str, text: str) -> None:
    corpus = mk.read(write_files(tmp_path, {f"memory/{name}.md": text}))
    roles = corpus.tables["turns"]["role"].to_pylist()
    assert roles == (["user", "assistant"] if text == TALK else ["user"])
    assert set(corpus.memories["kind"].to_pylist()) == {"daily_log"}


@pytest.mark.parametrize(
    "text", ["system: упал диск\nsystem: поднялся\n", "Мира: нашла\nБорис: как\n", "**Итог**: да\n"]
)
def test_a_log_in_which_no_two_roles_speak_is_no_transcript(tmp_path: Path, text: str) -> None:
    assert turns(tmp_path, "memory/2026-02-03.md", text) == []


def test_code_holds_no_turn_and_no_entry(tmp_path: Path) -> None:
    text = "```\nuser: a\nbot: b\n- 10:15 c\n```\n"
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03.md": text}))
    assert corpus.tables["turns"].num_rows == 0
    assert corpus.memories.num_rows == 1


LOG = """с утра тихо
- 10:15 пул упал
  подробно

* **3:05 pm** — выпуск
- [18:00] домой
- 18:00 домой ещё раз
- позже
"""


def test_the_timed_lines_of_a_log_without_headings_are_its_entries(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03.md": LOG}))
    rows = corpus.memories.to_pylist()
    assert [(row["created_at"], row["title"], row["line_start"], row["line_end"]) for row in rows] == [
        (utc("2026-02-03"), "", 1, 1),
        (utc("2026-02-03T10:15"), "10:15", 2, 4),
        (utc("2026-02-03T15:05"), "3:05 pm", 5, 5),
        (utc("2026-02-03T18:00"), "18:00", 6, 6),
        (utc("2026-02-03T18:00"), "18:00", 7, 8),
    ]
    assert "\n".join(row["text"] for row in rows) + "\n" == LOG
    ids = [row["memory_id"].partition("#")[2] for row in rows]
    assert ids[:4] == ["top", "10-15", "3-05-pm", "18-00"]
    assert ids[4].startswith("18-00~")
    assert [(row["level"], row["heading"]) for row in corpus.tables["documents"].to_pylist()] == [(0, None)] * 5


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("день.md", "# День\n- 10:15 a\n- 11:15 b\n"),
        ("notes.md", "- 10:15 a\n- 11:15 b\n"),
        ("memory/2026-02-03.md", "- 10:155 a\n- 1.10:15 b\n- в 10:15 c\n- 25:00:1 d\n"),
    ],
)
def test_other_lines_with_times_are_no_entries(tmp_path: Path, path: str, text: str) -> None:
    assert mk.read(write_files(tmp_path, {path: text})).memories.num_rows == 1


@pytest.mark.parametrize(
    ("heading", "clock"),
    [
        ("3:05 pm созвон", "15:05"),
        ("3:05pm", "15:05"),
        ("12:10 a.m. ночь", "00:10"),
        ("12:10 PM", "12:10"),
        ("13:05 pm", "13:05"),
        ("3:05 pmx", "03:05"),
        ("3:05 am", "03:05"),
        ("15:05", "15:05"),
    ],
)
def test_a_time_of_twelve_hours_is_one_of_24(tmp_path: Path, heading: str, clock: str) -> None:
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03.md": f"## {heading}\nтекст\n"}))
    assert corpus.memories["created_at"].to_pylist() == [utc(f"2026-02-03T{clock}")]
    assert corpus.tables["documents"]["time"].to_pylist() == [clock]


def test_plain_markdown_is_told_as_read(tmp_path: Path) -> None:
    (row,) = mk.read(write_files(tmp_path, {"docs/a.md": "просто текст\n"})).problems.to_pylist()
    assert (row["rule"], row["severity"]) == ("unclaimed", "info")
    assert "read as plain Markdown" in row["message"]


@given(st.text(alphabet="\n:*[](#) 1:0\u0661userHUMANбот", max_size=80))
@example("Ещё: чай\n  bot: нет\n# Bot\n[10:05] a: b")
def test_turns_are_found_as_when_each_line_is_asked(text: str) -> None:
    for roles in (None, KNOWN):
        asked = [(number, turn_of(line, roles)) for number, line in enumerate(text.split("\n"), 1)]
        assert [*turns_in(text, roles)] == [one for one in asked if one[1]]
