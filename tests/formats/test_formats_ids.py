"""Ids outlive edits: a section keeps its own whatever becomes of the sections around it."""

from __future__ import annotations

import tempfile
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.formats.rows import slug_of
from memkit.tables.samples import write_files

Sections = list[tuple[str, str]]
"""Titles and bodies; no body is blank, so that no heading joins the next section."""

titles = st.sampled_from(["Пул", "пул!", "Deploy", "14:30", "", "***", "Ёлка — Ель", "x" * 90, "x" * 80])
bodies = st.sampled_from(["десять", "десять", "ten", "one\ntwo", "- a\n\n- b", "Заключение"])
sections = st.lists(st.tuples(titles, bodies), min_size=1, max_size=8)


def ids_of(written: Sections) -> list[str]:
    text = "".join(f"## {title}\n{body}\n" for title, body in written)
    if not written:
        return []
    with tempfile.TemporaryDirectory() as folder:
        corpus = mk.read(write_files(Path(folder), {"MEMORY.md": text}))
    ids: list[str] = corpus.memories["memory_id"].to_pylist()
    assert len(ids) == len(written)
    return [id.removeprefix("workspace:MEMORY.md#") for id in ids]


def plain_slug(title: str) -> str:
    """The rule, said another way."""
    words = "".join(sign if sign.isalnum() else " " for sign in title.casefold()).split()
    return "-".join(words)[:60].rstrip("-") or "section"


def stable(before: Sections, after: Sections, position: int, shift: int) -> None:
    """Every section but the one at `position` has its id, but for those that became or ceased to be the first."""
    old, new = ids_of(before), ids_of(after)
    slugs = [slug_of(title) for title, _ in before]
    touched = {slug_of(title) for title, _ in (before[position : position + 1] + after[position : position + 1])}
    for place, (title_and_body, id) in enumerate(zip(before, old, strict=True)):
        if place == position and shift <= 0:
            continue
        id_after = new[place + (shift if place >= position else 0)]
        section_before = (slugs[place], title_and_body[1])
        twins = [(slug_of(title), body) for title, body in before + after].count(section_before) > 2
        is_first = "~" not in id or "~" not in id_after
        if slugs[place] not in touched or not (is_first or twins):
            assert id_after == id


@settings(max_examples=25)
@given(sections)
def test_an_id_is_the_slug_and_a_further_one_the_hash_of_its_text(written: Sections) -> None:
    counts: dict[str, int] = {}
    expected = []
    for title, body in written:
        name = plain_slug(title)
        if name in counts:
            text = f"## {title}\n{body}"
            name += f"~{blake2b(text.encode(), digest_size=4).hexdigest()}"
        counts[name] = counts.get(name, 0) + 1
        expected.append(name if counts[name] == 1 else f"{name}.{counts[name]}")
    assert ids_of(written) == expected


@settings(max_examples=25)
@given(sections, st.data())
def test_a_new_section_leaves_the_ids_of_the_others(written: Sections, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(written)))
    stable(written, [*written[:position], data.draw(st.tuples(titles, bodies)), *written[position:]], position, 1)


@settings(max_examples=25)
@given(sections, st.data())
def test_a_section_that_goes_leaves_the_ids_of_the_others(written: Sections, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(written) - 1))
    stable(written, written[:position] + written[position + 1 :], position, -1)


@settings(max_examples=25)
@given(sections, st.data())
def test_an_edit_leaves_the_ids_of_the_others(written: Sections, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(written) - 1))
    stable(written, [*written[:position], (written[position][0], "другое"), *written[position + 1 :]], position, 0)


@pytest.mark.quick
def test_entries_without_a_file_are_named_by_their_titles(tmp_path: Path) -> None:
    def ids(*titles: str) -> list[str]:
        files = ", ".join(f'{{"title": "{title}", "file": "gone-{title}.md"}}' for title in titles)
        write_files(tmp_path, {"memory/index.json": f'{{"type": "index-branch", "files": [{files}]}}'})
        memory_ids: list[str] = mk.read(tmp_path).memories["memory_id"].to_pylist()
        return [id.partition("#")[2] for id in memory_ids]

    assert ids("Пул", "Выпуск") == ["пул", "выпуск"]
    assert ids("Новый", "Пул", "Выпуск") == ["новый", "пул", "выпуск"]


NESTED = "# A\n\n## B\n\n### C\nтекст\n## D\n## E\nещё\n# F\n"


@pytest.mark.quick
def test_a_heading_without_text_begins_the_section_of_the_deeper_one_below_it(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"docs/x.md": NESTED}))
    rows = corpus.memories.select(["title", "heading_path", "line_start", "line_end", "text"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("C", "docs / A / B", 1, 6, "# A\n\n## B\n\n### C\nтекст"),
        ("D", "docs / A", 7, 7, "## D"),
        ("E", "docs / A", 8, 9, "## E\nещё"),
        ("F", "docs", 10, 10, "# F"),
    ]
    assert "\n".join(row["text"] for row in rows) + "\n" == NESTED
    empty = [row["line"] for row in corpus.problems.to_pylist() if row["rule"] == "empty_section"]
    assert empty == [7, 10]
    assert mk.extend.Chunker().transform(corpus.memories)["text"].to_pylist() == [rows[0]["text"], rows[2]["text"]]


@pytest.mark.quick
def test_bare_headings_that_end_a_file_are_one_row_without_a_chunk(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": "# A\n\n## B\n"}))
    assert corpus.memories.select(["title", "text"]).to_pylist() == [{"title": "B", "text": "# A\n\n## B"}]
    assert mk.extend.Chunker().transform(corpus.memories).num_rows == 0


def test_a_code_fence_below_a_heading_is_text_of_its_own(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": "# A\n```\n# b\n```\n## C\nc\n"}))
    assert corpus.memories["title"].to_pylist() == ["A", "C"]


def test_every_format_says_what_stands_above(tmp_path: Path) -> None:
    dates = "created_at: 2026-01-02\nupdated_at: 2026-01-02\n"
    root = '{"type": "index-root", "branches": [{"category": "lessons", "path": "l.json"}]}'
    note = "id: 550e8400-e29b-41d4-a716-446655440000\nsubject: s\nkeywords: [a]\napplies_to: global\n"
    entry = '{"title": "t", "file": "lessons/a.md"}, {"title": "u", "file": "plans/b.md"}'
    branch = f'{{"type": "index-branch", "category": "lessons", "files": [{entry}]}}'
    corpus = mk.read(
        write_files(
            tmp_path,
            {
                "notes/deep/a.md": f"---\n{note}{dates}---\nдесять соединений\n",
                "notes/b.md": f"---\n{note}---\nбез дат, один за другим\n",
                "m/memory/index.json": root,
                "m/memory/l.json": branch,
                "m/memory/lessons/a.md": "# A\na\n",
                "m/memory/plans/b.md": "# B\nb\n",
                "users/u/profile.md": "- [id:pf_001] [t:profile] [imp:high] Зовут Анна\n",
                "MEMORY.md": "# Чай\nзелёный\n",
            },
        )
    )
    assert dict(zip(*(corpus.memories[name].to_pylist() for name in ("path", "heading_path")), strict=True)) == {
        "notes/deep/a.md": "notes / deep",
        "notes/b.md": "notes",
        "m/memory/lessons/a.md": "m / memory / lessons",
        "m/memory/plans/b.md": "m / memory / plans / lessons",
        "users/u/profile.md": "users / u",
        "MEMORY.md": "",
    }
