"""IndexCheck cleans what is asked for; the parts of SplitPlan give the text back and are cut where a reader would."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.policy.index_standard import IndexCheck, SplitPlan
from memkit.policy.pipeline import Pipeline

_LINES = st.sampled_from(["# Заголовок", "text of a line", "", "```", "## Two", "ещё строка", "   ", "\u2028", "\r"])


@settings(max_examples=50)
@given(st.lists(_LINES, max_size=40).map("\n".join), st.integers(1, 20))
def test_parts_put_together_are_the_text_and_whole_lines(text: str, limit: int) -> None:
    plan = SplitPlan(max_tokens_per_file=limit)
    parts = plan.parts(text)
    assert "".join(parts) == text
    assert all(part.endswith("\n") for part in parts[:-1])
    assert all(-(-len(part) // 4) <= limit or part.rstrip("\n").count("\n") == 0 for part in parts)


@settings(max_examples=25)
@given(st.lists(_LINES, max_size=30).map("\n".join), st.integers(1, 8))
def test_the_plan_covers_every_line_once(text: str, limit: int) -> None:
    table = pa.table({"memory_id": ["m"], "path": ["notes/note.md"], "text": [text]})
    rows = SplitPlan(max_tokens_per_file=limit).plan(table).to_pylist()
    covered = [line for row in rows for line in range(row["line_start"], row["line_end"] + 1)]
    lines = text.count("\n") + (not text.endswith("\n"))
    assert covered == (list(range(1, lines + 1)) if rows else [])


@pytest.mark.quick
def test_headings_come_first_then_blank_lines_and_fences_stay_whole() -> None:
    plan = SplitPlan(max_tokens_per_file=10)
    sections = ["# A\n" + "а" * 30 + "\n", "# B\n" + "b" * 30 + "\n"]
    assert plan.parts("".join(sections)) == sections
    paragraphs = ["x" * 30 + "\n\n", "y" * 30 + "\n"]
    assert plan.parts("".join(paragraphs)) == paragraphs
    fenced = "```\n# no heading\n```\n"
    assert plan.parts(fenced + "# C\n" + "c" * 24 + "\n") == [fenced, "# C\n" + "c" * 24 + "\n"]


@pytest.mark.quick
def test_the_verdict_counts_tokens_and_parts() -> None:
    table = pa.table({"text": ["a" * 16, "a" * 17 + "\n" + "b", None]})
    judged = SplitPlan(max_tokens_per_file=4).transform(table, as_of="2026-03-01")
    assert judged["tokens"].to_pylist() == [4, 5, 0]
    assert judged["parts"].to_pylist() == [1, 2, 1]
    assert judged["reason"].to_pylist() == [None, "too_long", None]
    assert Pipeline([SplitPlan(max_tokens_per_file=4)]).transform(table)["step"].to_pylist() == [
        None,
        "split_plan",
        None,
    ]


@pytest.mark.quick
def test_a_counter_of_ones_own_decides() -> None:
    plan = SplitPlan(max_tokens_per_file=2, counter=lambda text: len(text.split()))
    assert plan.parts("один два\nтри\nчетыре\n") == ["один два\n", "три\nчетыре\n"]


def test_parts_lie_in_a_folder_named_as_the_file() -> None:
    table = pa.table({"path": ["memory/notes/note.md", None], "text": ["aaaa\nbbbb\n", "aaaa\nbbbb\n"]})
    files = SplitPlan(max_tokens_per_file=2).plan(table)["file"].to_pylist()
    assert files == ["memory/notes/note/part1.md", "memory/notes/note/part2.md", "note/part1.md", "note/part2.md"]


ENTRIES = pa.table(
    {
        "title": ["Пул", "Gone", "Out", "Pinned", "Закреплён"],
        "status": ["valid", "missing", "invalid", "missing", "invalid"],
        "reason": [None, "no such file", "outside_root", "no such file", "plugin_path"],
        "pinned": [None, None, False, True, True],
    }
)


@pytest.mark.parametrize(
    ("invalid", "missing", "removed"),
    [(False, False, []), (True, False, ["Out"]), (False, True, ["Gone"]), (True, True, ["Gone", "Out"])],
)
def test_cleaning_lists_the_wished_entries_and_never_a_pinned_one(invalid, missing, removed) -> None:
    judged = IndexCheck(auto_clean_invalid=invalid, auto_clean_missing=missing).transform(ENTRIES)
    assert judged.filter(judged["would_remove"])["title"].to_pylist() == removed
    assert judged["keep"].to_pylist() == [True, False, False, False, False]
    assert judged["reason"].to_pylist() == [None, "missing", "invalid", "missing", "invalid"]
    assert judged["given_reason"].to_pylist() == ENTRIES["reason"].to_pylist()
