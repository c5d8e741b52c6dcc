from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import ParameterError
from memkit.schemas import CHUNKS, PARTS
from memkit.text.chunk import Chunker

LINES = st.lists(st.text("абв abc\r\t`#", max_size=30) | st.sampled_from(["```", "~~~", "## Пул", ""]), max_size=30)


def memories(*texts: str, **columns: Any) -> pa.Table:
    return pa.table(
        {"memory_id": [f"m{row}" for row in range(len(texts))], "text": pa.array(texts, pa.string()), **columns}
    )


def cut(text: str, **settings: Any) -> list[tuple[str, int, int]]:
    chunks = Chunker(**settings).transform(memories(text)).to_pylist()
    return [(chunk["text"], chunk["line_start"], chunk["line_end"]) for chunk in chunks]


def words(text: str) -> int:
    return len(text.split())


def letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def check_cover(text: str, limit: int, overlap: int, counter: Any, pieces: list[tuple[str, int, int]]) -> None:
    """As for prose_tokens=limit: every line that says anything is in a chunk, and no chunk is a tail or too long."""
    lines = text.split("\n")
    unit = 4 if counter is None else 1
    size = counter or len
    covered: dict[int, str] = {}
    previous = (0, 0)
    for piece, first, last in pieces:
        whole = "\n".join(lines[first - 1 : last])
        assert piece in whole, "a chunk is a part of its lines"
        assert size(piece) <= 2 * limit * unit, "but for tails, no chunk is longer than its size"
        assert last > previous[1] or first == last == previous[1], "each chunk brings something new"
        repeated = [line for line in range(first, previous[1] + 1) if covered[line] == lines[line - 1] in piece]
        assert size("\n".join(lines[line - 1] for line in repeated)) <= overlap * unit
        rows = dict(zip(range(first, last + 1), piece.split("\n"), strict=True))
        covered |= {line: covered.get(line, "") + row if row != lines[line - 1] else row for line, row in rows.items()}
        previous = (first, last)
    expected = {number: letters(line) for number, line in enumerate(lines, 1) if letters(line)}
    assert {number: letters(covered.get(number, "")) for number in expected} == expected, "all lines that say anything"


@pytest.mark.parametrize("counter", [None, words, len])
@settings(max_examples=40)
@given(lines=LINES, limit=st.integers(3, 12), overlap=st.integers(0, 2))
def test_every_line_is_covered_and_no_chunk_is_too_long(
    counter: Any, lines: list[str], limit: int, overlap: int
) -> None:
    text = "\n".join(lines)
    pieces = cut(text, chunk_tokens=limit, overlap_tokens=overlap, prose_tokens=limit, counter=counter)
    check_cover(text, limit, overlap, counter, pieces)


@pytest.mark.quick
def test_a_short_memory_is_one_chunk_with_the_declared_columns() -> None:
    chunks = Chunker().transform(memories("Пул: 10", "a\nb"))
    assert chunks.schema == CHUNKS
    assert chunks["chunk_id"].to_pylist() == ["m0@0", "m1@0"]
    assert chunks["line_end"].to_pylist() == [1, 2]


@pytest.mark.quick
def test_an_empty_text_has_one_empty_chunk_so_that_its_title_is_found() -> None:
    assert cut("") == [("", 1, 1)]


@pytest.mark.quick
def test_no_memories_make_no_chunks_of_the_same_columns() -> None:
    assert Chunker().transform(memories()).equals(CHUNKS.empty_table())


def test_overlap_is_made_of_whole_trailing_lines() -> None:
    text = "\n".join(["aaaa"] * 6)  # 4 characters and a newline: three lines are 14 characters of 16
    assert cut(text, chunk_tokens=4, overlap_tokens=2) == [
        ("aaaa\naaaa\naaaa", 1, 3),
        ("aaaa\naaaa\naaaa", 3, 5),
        ("aaaa\naaaa", 5, 6),
    ]


def test_without_overlap_each_line_comes_once() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    pieces = cut(text, chunk_tokens=10, overlap_tokens=0)
    assert "\n".join(piece for piece, _, _ in pieces) == text


def test_a_line_longer_than_a_chunk_is_cut_at_blanks_and_keeps_its_number() -> None:
    assert cut("кот\nодин два три\nпёс", chunk_tokens=2, overlap_tokens=0, prose_tokens=2) == [
        ("кот", 1, 1),
        ("один ", 2, 2),
        ("два три", 2, 2),
        ("пёс", 3, 3),
    ]


def test_a_line_without_blanks_is_cut_anywhere() -> None:
    pieces = cut("x" * 10, chunk_tokens=1, overlap_tokens=0, prose_tokens=1)
    assert [piece for piece, _, _ in pieces] == ["xxxx", "xxxx", "xx"]


@pytest.mark.parametrize("counter", [None, words, len])
def test_a_megabyte_in_one_line_is_kept_whole(counter: Any) -> None:
    text = "слово " * 175_000
    pieces = cut(text, counter=counter)
    assert "".join(piece for piece, _, _ in pieces) == text
    assert {(first, last) for _, first, last in pieces} == {(1, 1)}


def test_a_needle_at_the_end_of_a_long_note_is_in_the_last_chunk() -> None:
    text = "строка заметки\n" * 7000 + "needle E4021"
    assert len(text) > 100_000
    last, _, line = cut(text)[-1]
    assert last.endswith("needle E4021")
    assert line == 7001


def test_a_fence_that_fits_is_kept_whole_with_the_heading_in_it() -> None:
    fence = "```sh\n## not a heading\nls\n```"
    pieces = cut("\n".join(["текст до ограды"] * 2 + [fence] + ["текст после"] * 2), chunk_tokens=10, overlap_tokens=3)
    assert sum(fence in piece for piece, _, _ in pieces) == 1


def test_a_fence_too_long_for_a_chunk_is_cut_by_lines() -> None:
    text = "\n".join(["~~~", *["row of code"] * 20, "~~~"])
    check_cover(text, 10, 2, None, cut(text, chunk_tokens=10, overlap_tokens=2, prose_tokens=10))


def test_a_fence_that_never_closes_keeps_nothing_together() -> None:
    text = "\n".join(["```", *["row"] * 30])
    whole = -(-(4 + 4 * 30 - 1) // 20)
    assert len(cut(text, chunk_tokens=5, overlap_tokens=0)) == whole - 1, "the last has one line, which is a tail"


def test_a_carriage_return_or_line_separator_ends_no_line() -> None:
    assert cut("a\rb\u2028c\x0cd") == [("a\rb\u2028c\x0cd", 1, 1)]


@pytest.mark.parametrize(
    ("format_", "kind", "expected"),
    [
        ("workspace", "daily_log", (11, 12)),
        ("notes", "note", (11, 12)),
        ("index_tree", "entry", (11, 12)),
        ("facts", "working", (1, 2)),
        ("records", "pathway", (1, 2)),
    ],
)
def test_lines_are_the_files_where_the_text_is_a_part_of_it(format_: str, kind: str, expected: tuple[int, int]) -> None:
    table = memories("a\nb", format=[format_], kind=[kind], line_start=[11], path=["x.md"])
    (chunk,) = Chunker().transform(table).to_pylist()
    assert (chunk["line_start"], chunk["line_end"]) == expected
    assert chunk["path"] == "x.md"


def test_an_unknown_first_line_counts_as_the_first() -> None:
    table = memories("a", "b", kind=["note", None], line_start=pa.array([None, 3], pa.int64()))
    assert Chunker().transform(table)["line_start"].to_pylist() == [1, 1]


def test_long_and_short_memories_keep_their_order() -> None:
    chunks = Chunker(chunk_tokens=2, overlap_tokens=0).transform(memories("a", "один\nдва три", "b"))
    assert chunks["chunk_id"].to_pylist() == ["m0@0", "m1@0", "m1@1", "m2@0"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chunk_tokens": 0}, r"'chunk_tokens' must be an int in \[1, inf\), tokens. Got 0"),
        ({"overlap_tokens": 400}, r"'overlap_tokens' must be below 'chunk_tokens' \(400\). Got 400"),
        ({"counter": "words"}, r"'counter' must be a callable, str -> int or None. Got 'words'"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Chunker(**wrong).transform(memories("a"))


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("## Пул", 0),
        ("\n# Log  \n\n", 0),
        ("# Log\n\n---\n", 0),
        ("## Пул\nдесять", 1),
        ("#пул", 1),
        ("Пул", 1),
        ("", 1),
        ("### Sent 2026-02-24: 182 emails (91 vet + 88 auto)", 1),
    ],
)
def test_a_section_that_is_a_heading_alone_has_no_chunk_unless_it_says_something(text: str, chunks: int) -> None:
    of_workspace, of_table = (
        memories(text, "other", format=pa.array([form] * 2, pa.string())) for form in ("workspace", "table")
    )
    assert Chunker().transform(of_workspace)["memory_id"].to_pylist() == ["m0"] * chunks + ["m1"]
    assert Chunker().transform(of_table).num_rows == 2


def test_a_text_of_signs_has_no_chunk_unless_its_title_is_to_be_found() -> None:
    table = memories("---", "###\n\n* * *", "---", "42", title=["", "!", "Пул", ""])
    assert Chunker().transform(table)["memory_id"].to_pylist() == ["m2", "m3"]


@pytest.mark.parametrize("line", ["## Пул\n\n", "# Дом\n## Пул\n", "\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n"])
def test_no_chunk_is_a_heading_or_a_blank_line_where_more_is_said(line: str, tail: str) -> None:
    """A long section in one line, as memories have it: its heading alone would outrank what answers a question."""
    body = "слово " * 40
    pieces = cut(line + body + tail, chunk_tokens=20, overlap_tokens=4, prose_tokens=20)
    head = line.lstrip("\n")
    assert pieces[0][0].startswith(head + "слово")
    assert "".join(piece for piece, _, _ in pieces).strip() == (head + body).strip()
    assert max(len(piece) for piece, _, _ in pieces) <= 80 + 80 / 4 + len(line)
    assert pieces[0][1:] == (1 if head else 2, line.count("\n") + 1)


def split_entry(text: str, *chars: int) -> list[tuple[str, str, int, int]]:
    """Path, text and lines of the chunks of an entry whose parts have so many characters, after a plain entry."""
    parts = [{"path": f"note/part{n}.md", "line_start": n + 2, "chars": size} for n, size in enumerate(chars, 1)]
    table = memories(
        "Чай",
        text,
        format=["index_tree"] * 2,
        kind=["entry"] * 2,
        path=["tea.md", "note/index.md"],
        line_start=pa.array([4, None], pa.int64()),
        line_end=pa.array([4, None], pa.int64()),
        extra=["{}", json.dumps({PARTS: parts})],
    )
    first, *rest = Chunker().transform(table).to_pylist()
    assert (first["memory_id"], first["path"], first["line_start"]) == ("m0", "tea.md", 4)
    assert {row["memory_id"] for row in rest} == {"m1"}
    return [(row["path"], row["text"], row["line_start"], row["line_end"]) for row in rest]


def test_chunks_of_an_entry_in_parts_have_the_path_and_lines_of_their_part() -> None:
    chunks = split_entry("Раз\nДва\nТри", 4, 0, 7)
    assert [(path, text.strip(), first) for path, text, first, _ in chunks] == [
        ("note/part1.md", "Раз", 3),
        ("note/part3.md", "Два\nТри", 5),
    ]


@pytest.mark.parametrize("chars", [(4, 6), (4, 4), (), (0,)])
def test_parts_that_are_not_the_text_do_not_split_it(chars: tuple[int, ...]) -> None:
    [(path, text, _, _)] = split_entry("Раз\nДва\nТри", *chars)
    assert (path, text) == ("note/index.md", "Раз\nДва\nТри")


def test_where_not_even_one_character_fits_each_is_a_chunk() -> None:
    pieces = cut("абв", chunk_tokens=5, overlap_tokens=0, prose_tokens=5, counter=lambda text: 10 * len(text))
    assert [text for text, _, _ in pieces] == ["а", "б", "в"]
