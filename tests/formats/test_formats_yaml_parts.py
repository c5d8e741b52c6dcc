"""A file of YAML of which one record is broken: the others are records, it is a text, and no word is in neither."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ChangeRefusedError
from memkit.formats.syntax.yaml_nodes import YamlPart
from memkit.tables.samples import write_files

FAULTS = {
    "colon": ("content: Чай: без сахара", 3),
    "quote": ('content: "Чай без сахара', None),
    "bracket": ("content: [Чай, без сахара", None),
    "tab": ("\tcontent: Чай без сахара", 3),
}
"""A line that makes a record no YAML, and which of its lines the reader names; None where that is not certain."""


def fact(number: int, content: str = "content: Чай без сахара") -> list[str]:
    return [
        f"fact_id: tea.{number}",
        "category: taste # of somebody",
        content,
        "confidence: 0.9",
        "relations: []",
        'format_version: "1.0.0"',
    ]


def as_items(facts: Sequence[list[str]]) -> str:
    return "".join(f"- {first}\n" + "".join(f"  {line}\n" for line in rest) for first, *rest in facts)


def as_documents(facts: Sequence[list[str]]) -> str:
    return "".join("---\n" + "".join(f"{line}\n" for line in lines) for lines in facts)


def as_lists(facts: Sequence[list[str]]) -> str:
    """Documents that are lists: the first two facts, a line of comment, the others."""
    return f"# ours\n{as_items(facts[:2])}---\n\n# theirs\n{as_items(facts[2:])}...\n"


WAYS = {"items": as_items, "documents": as_documents, "lists": as_lists}


def rows_of(root: Path, text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    corpus = mk.read(write_files(root, {"wisdom.yaml": text}))
    return corpus.memories.to_pylist(), corpus.problems.to_pylist()


@pytest.mark.quick
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_broken_record_leaves_the_others_what_they_are(tmp_path: Path, way: str, fault: str) -> None:
    line, named = FAULTS[fault]
    sound, _ = rows_of(tmp_path, WAYS[way]([fact(number) for number in range(5)]))
    for broken in range(5):
        text = WAYS[way]([fact(number, line if number == broken else fact(0)[2]) for number in range(5)])
        memories, problems = rows_of(tmp_path, text)
        others = [row for number, row in enumerate(sound) if number != broken]
        assert [row | {"extra": ""} for row in memories if row["kind"]] == [row | {"extra": ""} for row in others]
        (rest,) = (row for row in memories if not row["kind"])
        whole = sound[broken]
        assert (rest["line_end"], rest["format"]) == (whole["line_end"], "records")
        assert rest["text"].split("\n") == text.split("\n")[rest["line_start"] - 1 : rest["line_end"]]
        (problem,) = problems
        assert (problem["rule"], problem["memory_id"]) == ("unparsable", rest["memory_id"])
        assert named is None or problem["line"] == whole["line_start"] + named - 1
        assert whole["line_start"] <= problem["line"] <= whole["line_end"]
        stripped = rest["text"] + "".join(row["extra"] for row in memories)
        assert [stripped.count(comment) for comment in ("# of somebody", "# ours", "# theirs")] == [
            text.count(comment) for comment in ("# of somebody", "# ours", "# theirs")
        ]


@pytest.mark.quick
def test_what_parts_cannot_be_told_of_stays_one_text(tmp_path: Path) -> None:
    torn = as_items([fact(1, FAULTS["colon"][0])])
    texts = {
        "of a value that another one needs": f"- &one\n{as_items([fact(1)]).replace('- ', '  ')}{torn}- *one\n",
        "of directives": f"%YAML 1.1\n---\n{as_items([fact(1)])}---\n{torn}",
        "of no record": "- чай: мёд: лимон\n- кофе\n",
        "of a list below a key": f"facts:\n{torn}{as_items([fact(2)])}",
    }
    for what, text in texts.items():
        memories, problems = rows_of(tmp_path, text)
        kept = [row["text"] for row in memories if not row["kind"]]
        assert kept == [text], what
        assert [row["rule"] for row in problems if row["severity"] == "error"] == ["unparsable"], what


@pytest.mark.quick
def test_a_part_that_is_no_record_stands_on_its_own_line(tmp_path: Path) -> None:
    torn = as_documents([fact(1), fact(2, FAULTS["bracket"][0])])
    memories, problems = rows_of(tmp_path, f"{torn}---\n\nпросто слова\n...\n")
    assert [(row["text"], row["line_start"], row["line_end"]) for row in memories][-1] == ('"просто слова"', 17, 17)
    assert [row["line"] for row in problems if row["rule"] == "unclaimed"] == [17]


def test_a_file_with_a_broken_record_is_not_written(tmp_path: Path) -> None:
    uses = ["usage_stats: {hits: 1, success_rate: 1.0, last_used_at: '2026-01-01T00:00:00Z'}", "variables: {}"]
    head = ['format_version: "1.0.0"', "id: tea", "triggers: [чай]", "template: Чай", "tier: core"]
    text = as_items([[*head, *uses], fact(1, FAULTS["colon"][0])])
    write_files(tmp_path, {"a.yaml": text})
    records = mk.store(tmp_path).records
    assert mk.read(tmp_path).tables["pathways"]["id"].to_pylist() == ["tea"]
    with pytest.raises(ChangeRefusedError, match="no YAML"):
        records.record_use("tea", success=True)
    with pytest.raises(ChangeRefusedError, match="no YAML"):
        records.put({"fact_id": "x", "category": "c", "content": "t", "confidence": 1, "relations": []}, "a.yaml")
    assert (tmp_path / "a.yaml").read_text("utf-8") == text


lines = st.sampled_from(
    ["---", "--- # x", "...", "", "  ", "# x", "- a: 1", "-", "  b: [", "c: 2", "- 'd", "чай", "--- e"]
)


@given(st.lists(lines, max_size=12), st.booleans())
@example(["---", "...", "# x"], True)
def test_the_parts_of_a_text_are_its_lines_and_each_says_something(given_lines: list[str], ends: bool) -> None:
    text = "\n".join(given_lines) + "\n" * ends
    parts = [inner for part in YamlPart(text).cut() for inner in part.cut()]
    assert "".join(part.text for part in parts) == text
    assert [part.above for part in parts] == ["".join(p.text for p in parts[:n]).count("\n") for n in range(len(parts))]
    for part in parts:
        stripped = part.stripped()
        assert (
            stripped.text.split("\n")
            == text.split("\n")[stripped.above : stripped.above + stripped.text.count("\n") + 1]
        )
