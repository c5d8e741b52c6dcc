"""Which lines are code is the same for headings, chunks, parts and checks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.base.fences import fences
from memkit.tables.samples import write_files

NESTED = "````\n```\n# code\n```\n````\n"
TILDES = "~~~ python ``` x\n# code\n```\n~~~\n"
INDENTED = "   ```\n# code\n  ```  \n"
LONGER = "```\n# code\n``` not the end\n`````\n"
CLOSED = [NESTED, TILDES, INDENTED, LONGER]
NO_FENCE = ["    ```\n# text\n    ```\n", "``\n# text\n``\n", "``` a`b\n# text\n", "text ```\n# text\n"]
UNCLOSED = ["```\n# text\n", "~~~\n# text\n```\n", "````\n# text\n```\n", "```\n# text\n``` x\n"]


@pytest.mark.quick
@pytest.mark.parametrize("code", CLOSED)
def test_no_heading_chunk_or_part_begins_within_a_closed_fence(code: str, tmp_path: Path) -> None:
    lines = code.count("\n")
    assert fences(code).closed == [range(1, lines + 1)]
    assert fences(code).unclosed is None
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": f"# A\n{code}# B\n"}))
    assert corpus.memories["title"].to_pylist() == ["A", "B"]
    text = "слово\n" * 9 + code + "слово\n" * 9
    table = pa.table({"memory_id": ["m"], "path": ["a.md"], "text": [text]})
    size = -(-len(code) // 4)
    chunks = mk.extend.Chunker(chunk_tokens=size, overlap_tokens=0).transform(table)["text"].to_pylist()
    assert any(code.rstrip("\n") in chunk for chunk in chunks)
    assert any(code in part for part in mk.SplitPlan(max_tokens_per_file=size).parts(text))


@pytest.mark.quick
@pytest.mark.parametrize("text", NO_FENCE + UNCLOSED)
def test_what_is_no_fence_and_what_never_closes_is_text(text: str, tmp_path: Path) -> None:
    assert fences(text).closed == []
    assert fences(text).unclosed == (1 if text in UNCLOSED else None)
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": text}))
    assert "text" in corpus.memories["title"].to_pylist()
    assert ("unbalanced_fence" in corpus.problems["rule"].to_pylist()) == (text in UNCLOSED)


@pytest.mark.quick
def test_a_fence_longer_than_a_part_is_cut_at_its_lines() -> None:
    code = "```\n" + "x = 1\n" * 20 + "```\n"
    parts = mk.SplitPlan(max_tokens_per_file=6).parts(code)
    assert "".join(parts) == code
    assert all(len(part) <= 4 * 6 for part in parts)


MARKS = st.lists(st.sampled_from(["```", "````", "~~~", "``` x", " ~~~", "    ```", "# h", "x", ""]), max_size=12)


@given(MARKS.map("\n".join))
def test_a_line_is_in_a_fence_where_one_of_its_ranges_says_so(text: str) -> None:
    ranges = fences(text)
    lines = {line for fence in ranges.closed for line in fence}
    assert lines == {line for line in range(text.count("\n") + 3) if line in ranges}
    assert {line for line in lines if not ranges.would_part(line)} == {fence.start for fence in ranges.closed}
