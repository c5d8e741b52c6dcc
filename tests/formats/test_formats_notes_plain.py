"""Notes read by the batch are the notes read one by one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.formats.markdown import has_open_fence, headings
from memkit.formats.notes_plain import PlainNotes
from memkit.formats.registry import File, Role, parse_file
from memkit.formats.rows import RAW_SCHEMAS, Rows
from memkit.formats.rules import RULES
from memkit.formats.source import Source

ID = "1a903b69-75b5-494b-8416-68d6956fae5c"
NOTE = f"""---
id: {ID}
subject: Пул соединений, pool of ten
keywords:
  - пул
  - connection-pool
applies_to: area:database
created_at: 2025-01-15T10:30:00Z
updated_at: 2025-02-15T10:30:00+03:00
---

# Пул

Десять соединений, ten connections.
"""
PATH = f"notes/{ID}.md"
SIGNS = st.sampled_from(list(" :#\"'[{&*!|>%@`~-0Zёé\t\r\n\x00\x85\u00a0\u2028\u3000\ufeff"))
WORDS = st.sampled_from(
    [
        "",
        ": ",
        " #",
        "null",
        "\n  - ",
        "\n---\n",
        "\n```\n",
        "~~~",
        "a" * 50,
        "я" * 200,
        "\n  - x" * 20,
        "02-29",
        "file:",
    ]
)


def one_by_one(text: str) -> dict[str, pa.Table]:
    rows = Rows()
    parse_file(File(Source(PATH, text), Role()), rows)
    return rows.to_arrow()


def taken(text: str, path: str = PATH) -> dict[str, pa.Table] | None:
    return taken_bytes(text.encode(), path)


def taken_bytes(data: bytes, path: str = PATH) -> dict[str, pa.Table] | None:
    plain = PlainNotes()
    is_taken = plain.take(path, (len(data), data))
    tables, left = plain.to_arrow()
    assert [path for path, _ in left] == ([path] if is_taken and not tables else [])
    return {name: tables.get(name, schema.empty_table()) for name, schema in RAW_SCHEMAS.items()} if tables else None


def test_a_note_as_the_document_writes_it_is_taken() -> None:
    tables = taken(NOTE)
    assert tables is not None
    assert tables == one_by_one(NOTE)
    assert tables["notes"]["keywords"].to_pylist() == [["пул", "connection-pool"]]
    assert tables["notes"]["updated_at"][0].as_py().replace(tzinfo=None) == datetime(2025, 2, 15, 10 - 3, 30)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(NOTE)), st.integers(0, 5), SIGNS | WORDS), max_size=3))
def test_what_is_taken_is_what_one_by_one_gives(edits: list[tuple[int, int, str]]) -> None:
    text = NOTE
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    tables = taken(text)
    assert tables is None or tables == one_by_one(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("applies_to: area:database", "applies_to: global"),
        ("applies_to: area:database", "applies_to: file:src/память.py"),
        ("2025-01-15", "2024-02-29"),
        ("10:30:00Z", "23:59:59-05:30"),
        ("# Пул", "```sql\nselect 1\n```"),
    ],
)
def test_what_the_document_allows_is_taken(old: str, new: str) -> None:
    text = NOTE.replace(old, new)
    assert taken(text) == one_by_one(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-494b-", "-194b-"),
        ("2025-01-15", "2025-02-29"),
        ("2025-01-15", "2025-04-31"),
        ("2025-01-15", "1900-02-29"),
        ("T10:30:00Z", ""),
        ("  - пул\n", "  - null\n"),
        ("  - пул\n", "  - " + "п" * 51 + "\n"),
        ("  - пул\n", "  - пул\n" * 20),
        ("  - пул\n  - connection-pool\n", ""),
        ("subject: ", "subject: " + "с" * 200),
        ("area:database", "area:"),
        ("updated_at", "status: open\nupdated_at"),
        ("# Пул\n\nДесять соединений, ten connections.", "девять, 9"),
        ("# Пул", "```sql"),
    ],
)
def test_what_a_rule_might_report_or_a_column_might_miss_is_left(old: str, new: str) -> None:
    assert old in NOTE
    assert taken(NOTE.replace(old, new)) is None


def test_a_note_in_a_file_of_another_name_or_with_undecoded_bytes_is_left() -> None:
    assert taken(NOTE, "notes/pool.md") is None
    assert taken_bytes(NOTE.encode().replace("Десять".encode(), "Десять".encode("windows-1251"))) is None
    assert taken_bytes(NOTE.encode().replace("subject: Пул".encode(), b"subject: \xcf")) is None


@pytest.mark.parametrize("faulty", [0, 3, 70])
def test_a_folder_of_taken_and_left_notes_is_read_as_one_by_one(tmp_path: Path, faulty: int) -> None:
    faults = [("2025-01-15", "2025-13-15"), ("# Пул", "```"), ("area:", "zone:"), ("---\n\n", "---\n\n\xff\n")]
    for number in range(faulty + 20):
        own = str(UUID(int=number * 7919 % 101 << 96 | number, version=4))
        note = NOTE.replace(ID, own).replace(*faults[number % 4]) if number < faulty else NOTE.replace(ID, own)
        (tmp_path / f"{own}.md").write_bytes(note.encode().replace("\xff".encode(), b"\xff"))
    whole = mk.read(tmp_path).tables
    single = mk.read(tmp_path, rules=(*RULES,)).tables  # rules of its own leave every note to the reader of one
    assert {name: table.to_pylist() for name, table in whole.items()} == {
        name: table.to_pylist() for name, table in single.items()
    }
    assert whole["memories"]["path"].to_pylist() == sorted(path.name for path in tmp_path.iterdir())


@settings(deadline=None)
@given(st.lists(st.sampled_from(["\n", "```", "~~~~", "`", " ", "    ", "text", "\u00a0", "\x1f", "я"])).map("".join))
def test_a_fence_is_open_where_the_headings_say_so(text: str) -> None:
    before = b"---\n"
    assert has_open_fence(before + text.encode(), len(before)) == (headings(text)[1] is not None)
