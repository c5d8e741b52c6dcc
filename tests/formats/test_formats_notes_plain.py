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
from memkit.formats.disk.source import decode
from memkit.formats.format import File
from memkit.formats.notes import batch as notes_plain
from memkit.formats.notes.batch import read_plain
from memkit.formats.registry import parse_file
from memkit.formats.rows import RAW_SCHEMAS, Rows
from memkit.formats.rules import RULES

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
QUOTED = f"""---
type: note
subject: 'Пул: десять'
keywords:
- "пул"
- "a: b"
created_at: "2025-01-15"
id: '{ID}'
related: [a, b]
applies_to: "file:src/память.py"
occurred_at: 2025-01-15 10:30:00.5
---
```
Десять соединений.
```"""
FLOW = f"""---
id: {ID}
subject: x
keywords: ['пул', '#1']
applies_to: global
created_at: 2025-01-15T10:30:00
updated_at: 2025-02-15T10:30:00
---
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
        " [",
        "]",
        "'",
        '"',
        "\nkey: value\n",
        "\n- a",
    ]
)


def one_by_one(text: str, path: str = PATH) -> dict[str, pa.Table]:
    rows = Rows()
    parse_file(File(decode(path, text.encode())), rows)
    return rows.to_arrow()


def taken(text: str, path: str = PATH) -> dict[str, pa.Table] | None:
    return taken_bytes(text.encode(), path)


def taken_bytes(data: bytes, path: str = PATH) -> dict[str, pa.Table] | None:
    tables, untaken = read_plain([(path, ((len(data), 0, 0), data))])
    assert [path for path, _ in untaken] == ([] if tables else [path])
    return {name: tables.get(name, schema.empty_table()) for name, schema in RAW_SCHEMAS.items()} if tables else None


def test_a_note_as_the_document_writes_it_is_taken() -> None:
    tables = taken(NOTE)
    assert tables is not None
    assert tables == one_by_one(NOTE)
    assert tables["notes"]["keywords"].to_pylist() == [["пул", "connection-pool"]]
    assert tables["notes"]["updated_at"][0].as_py().replace(tzinfo=None) == datetime(2025, 2, 15, 10 - 3, 30)


@settings(max_examples=100)
@given(
    st.sampled_from((NOTE, QUOTED, FLOW)),
    st.lists(st.tuples(st.integers(0, len(NOTE)), st.integers(0, 5), SIGNS | WORDS), max_size=3),
)
def test_what_is_taken_is_what_one_by_one_gives(text: str, edits: list[tuple[int, int, str]]) -> None:
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
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
        ("T10:30:00Z", ""),
        ("T10:30:00Z", " 10:30:00"),
        ("T10:30:00Z", "T10:30:00.25Z"),
        ("T10:30:00Z", "T10:30:00.123456"),
        ("subject: Пул соединений, pool of ten", "subject: 'Пул: \\ \"десять\" #10'"),
        ("subject: Пул соединений, pool of ten", 'subject: "null"'),
        ("  - пул\n  - connection-pool", "- пул\n- connection-pool"),
        ("  - пул\n  - connection-pool", '    - "пул"\n    - "a: b"'),
        ("\n  - пул\n  - connection-pool", " [пул, connection-pool]"),
        ("\n  - пул\n  - connection-pool", " ['- пул', '#1']"),
        ("\n  - пул\n  - connection-pool", ' ["пул"]'),
        ("created_at: 2025-01-15T10:30:00Z\nupdated_at", 'content_hash: "0f 3a"\noccurred_at'),
        ("updated_at", "occurred_at: 2024-02-29\nupdated_at"),
        ("updated_at", "status: open\nupdated_at"),
        ("updated_at", "tags: [a, b]\nrelated:\n  - x\n  - y\nempty:\nupdated_at"),
        (f"id: {ID}\n", f"type: note\nid: {ID}\n"),
        ("updated_at", "applies_kind: file\nother7: 1\nabsent: x\nupdated_at"),
        ("\n", "\r\n"),
        ("---\nid", "\ufeff---\nid"),
        ("---\n\n#", "---\n \u3000\n\x1f\u00a0#"),
        ("connections.\n", "connections\u2003\u0085"),
        ("connections.\n", "соединений"),
        ("connections.\n", "connections.\n```\n" * 2),
    ],
)
def test_what_a_tool_may_write_is_taken(old: str, new: str) -> None:
    assert old in NOTE
    text = NOTE.replace(old, new)
    assert taken(text) == one_by_one(text)


def test_a_note_with_its_fields_in_any_order_is_taken() -> None:
    fields = ["created_at: 2025-01-15\n", "applies_to: 'global'\n", "keywords:\n- a\n", f"id: {ID}\n", "subject: b\n"]
    for turn in range(len(fields)):
        turned = fields[turn:] + fields[:turn]
        text = f"---\n{''.join(turned)}updated_at: 2025-01-15T10:30:00\n---\nDesyat soedineniy.\n"
        assert taken(text) == one_by_one(text)


def test_a_note_in_a_file_of_another_name_is_taken_and_reported() -> None:
    for path in ("notes/pool.md", f"notes/x{ID}.md", f"{ID}/note.md", f"x-{ID}.md"):
        tables = taken(NOTE, path)
        assert tables is not None
        assert tables == one_by_one(NOTE, path)
        assert tables["problems"]["rule"].to_pylist() == ["name_mismatch"]
    for path in (f"{ID}.md", f"a/{ID}.markdown", f"a/{ID}.MD"):
        assert taken(NOTE, path) == one_by_one(NOTE, path)
        assert one_by_one(NOTE, path)["problems"].num_rows == 0


def test_layouts_without_end_cost_no_pattern_each(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = list[object]()
    real = notes_plain._layout
    monkeypatch.setattr(notes_plain, "_layout", lambda opened: layouts.append(opened) or real(opened))
    notes = [NOTE.replace("---\nid", f"---\nkey{number}: x\nid").encode() for number in range(100)]
    _, untaken = read_plain([(PATH, ((len(data), 0, 0), data)) for data in notes])
    assert len(layouts) == 8
    assert len(untaken) == 100 - 8
    keys = "".join(f"key{number}: x\n" for number in range(100_000))
    assert taken(NOTE.replace("---\nid", f"---\n{keys}id")) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-494b-", "-194b-"),
        ("2025-01-15", "2025-02-29"),
        ("2025-01-15", "2025-04-31"),
        ("2025-01-15", "1900-02-29"),
        ("T10:30:00Z", "T24:00:00Z"),
        ("T10:30:00Z", "T10:30"),
        ("  - пул\n", "  - null\n"),
        ("  - пул\n", "  - " + "п" * 51 + "\n"),
        ("  - пул\n", "  - пул\n" * 20),
        ("  - пул\n  - connection-pool\n", ""),
        ("subject: ", "subject: " + "с" * 200),
        ("area:database", "area:"),
        ("updated_at", "status: {open: 1}\nupdated_at"),
        ("updated_at", "# later\nupdated_at"),
        ("updated_at", "id: again\nupdated_at"),
        ("updated_at", "status: &a open\nupdated_at"),
        ("updated_at: 2025-02-15T10:30:00+03:00\n", ""),
        ("subject: Пул соединений, pool of ten", "subject: 'it''s'"),
        ("subject: Пул соединений, pool of ten", 'subject: "\\u0441"'),
        ("subject: Пул соединений, pool of ten", "subject: ' '"),
        ("  - пул\n", "  - 'пул'\n"),
        ("  - пул\n", "   - пул\n"),
        ("\n  - пул\n  - connection-pool", " []"),
        ("\n  - пул\n  - connection-pool", " [пул, [a]]"),
        ("\n  - пул\n  - connection-pool", ' ["a, b"]'),
        ("\n  - пул\n  - connection-pool", " пул"),
        ("# Пул\n\n", "# Пул\r"),
        ("# Пул\n\nДесять соединений, ten connections.", "девять, 9"),
        ("# Пул", "```sql"),
    ],
)
def test_what_a_rule_might_report_or_a_column_might_miss_is_left(old: str, new: str) -> None:
    assert old in NOTE
    assert taken(NOTE.replace(old, new)) is None


def test_a_note_with_undecoded_bytes_is_left() -> None:
    assert taken_bytes(NOTE.encode().replace("Десять".encode(), "Десять".encode("windows-1251"))) is None
    assert taken_bytes(NOTE.encode().replace("subject: Пул".encode(), b"subject: \xcf")) is None


@pytest.mark.parametrize("faulty", [0, 3, 70])
def test_a_folder_of_taken_and_left_notes_is_read_as_one_by_one(tmp_path: Path, faulty: int) -> None:
    faults = [("2025-01-15", "2025-13-15"), ("# Пул", "```"), ("area:", "zone:"), ("---\n\n", "---\n\n\xff\n")]
    for number in range(faulty + 20):
        note_id = str(UUID(int=number * 7919 % 101 << 96 | number, version=4))
        note = NOTE.replace(ID, note_id).replace(*faults[number % 4]) if number < faulty else NOTE.replace(ID, note_id)
        (tmp_path / f"{note_id}.md").write_bytes(note.encode().replace("\xff".encode(), b"\xff"))
    whole = mk.read(tmp_path).tables
    single = mk.read(tmp_path, rules=(*RULES,)).tables  # rules of its own leave every note to the reader of one
    assert {name: table.to_pylist() for name, table in whole.items()} == {
        name: table.to_pylist() for name, table in single.items()
    }
    assert whole["memories"]["path"].to_pylist() == sorted(path.name for path in tmp_path.iterdir())
