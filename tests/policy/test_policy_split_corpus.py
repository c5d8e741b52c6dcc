"""SplitPlan over a corpus: whole files, what would be written, and that what was written reads as what was split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memkit as mk
from memkit.formats.syntax import front_matter
from memkit.tables.samples import write_files

HEAD = "---\nauthor: Борис\n---\n"
SECTIONS = ["# Пул: 1\n\n" + "десять соединений\n" * 4, "# Два\n\n```\n# код\n```\n" + "ten\n" * 8, "# Три\nконец\n"]
ENTRY = {
    "title": "Пул: история",
    "file": "memory/lessons/pool.md",
    "tags": ["база"],
    "priority": "high",
    "version": "1.0",
    "updated": "2026-02-06",
    "access_count": 41,
    "author": "Борис",
}


def tree(entry: dict[str, object] = ENTRY) -> dict[str, str]:
    branch = {"type": "index-branch", "category": "lessons", "files": [entry]}
    root = {"type": "index-root", "branches": [{"category": "lessons", "path": "lessons/index.json"}]}
    return {"memory/index.json": json.dumps(root), "memory/lessons/index.json": json.dumps(branch)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "memory/lessons/pool.md": HEAD + "".join(SECTIONS),
        "loose.md": "# Свободный\n" + "слово слово слово\n" * 8,
        "notes.txt": "x\n" * 500,
        "facts.jsonl": '{"content": "' + "x" * 500 + '", "confidence": 1}\n',
    }
    return write_files(tmp_path, tree() | files)


PLAN = mk.SplitPlan(max_tokens_per_file=30)


@pytest.mark.quick
def test_whole_markdown_files_are_judged_front_matter_and_all(folder: Path) -> None:
    judged = PLAN.transform(mk.read(folder), as_of="2026-03-01")
    assert judged.select(["path", "text", "keep"]).to_pylist() == [
        {"path": path, "text": (folder / path).read_text("utf-8"), "keep": False}
        for path in ("loose.md", "memory/lessons/pool.md")
    ]
    assert judged["tokens"].to_pylist()[1] == -(-len(HEAD + "".join(SECTIONS)) // 4)


@pytest.mark.quick
def test_what_is_written_by_the_plan_reads_as_what_was_split(folder: Path) -> None:
    before = mk.read(folder)
    rows = PLAN.plan(before, as_of="2026-03-01").to_pylist()
    of_pool = [row for row in rows if row["path"] == "memory/lessons/pool.md"]
    assert [row["what"] for row in of_pool][-2:] == ["index", "entry"]
    written = {row["file"]: row["text"] for row in of_pool if row["what"] != "entry"}
    assert "".join(text for path, text in written.items() if "part" in path) == HEAD + "".join(SECTIONS)
    entry = json.loads(of_pool[-1]["text"])
    assert entry == ENTRY | {"file": "memory/lessons/pool/index.md"}
    assert of_pool[-1]["file"] == "memory/lessons/index.json"

    (folder / "memory/lessons/pool.md").unlink()
    after = mk.read(write_files(folder, tree(entry) | written))
    assert [row["rule"] for row in after.problems.to_pylist() if row["path"].startswith("memory")] == []
    old, new = (
        corpus.sql("from memories where kind = 'entry'").to_arrow_table().to_pylist()[0] for corpus in (before, after)
    )
    assert new["text"] == old["text"]
    assert PLAN.transform(after, as_of="2026-03-01")["path"].to_pylist() == ["loose.md"]


@pytest.mark.quick
def test_the_index_of_a_split_file_is_front_matter_that_says_what_it_was(folder: Path) -> None:
    (index,) = [
        row
        for row in PLAN.plan(mk.read(folder), as_of="2026-03-01").to_pylist()
        if row["what"] == "index" and row["path"] == "memory/lessons/pool.md"
    ]
    front = front_matter.split(index["text"])
    assert front is not None
    count = -(-len(HEAD + "".join(SECTIONS)) // 4)
    parts = front.fields.pop("parts")
    assert parts == [f"part{number}.md" for number in range(1, len(parts) + 1)]
    assert front.fields == {
        "title": "Пул: история",
        "tokens_total": str(count),
        "split": "auto",
        "updated": "2026-03-01",
    }


def test_a_file_without_an_entry_has_a_title_of_its_own_and_no_entry_to_change(folder: Path) -> None:
    rows = [row for row in PLAN.plan(mk.read(folder), as_of="2026-03-01").to_pylist() if row["path"] == "loose.md"]
    assert {row["what"] for row in rows} == {"part", "index"}
    assert rows[-1]["file"] == "loose/index.md"
    assert "title: Свободный\n" in rows[-1]["text"]


def test_rows_are_judged_where_there_are_no_files() -> None:
    corpus = mk.from_table({"text": ["чай " * 100, "чай"]})
    assert PLAN.transform(corpus, as_of="2026-03-01")["keep"].to_pylist() == [False, True]
    assert PLAN.transform(corpus.memories, as_of="2026-03-01")["keep"].to_pylist() == [False, True]


def test_the_chunks_of_a_split_file_end_with_its_parts_and_have_their_lines(folder: Path) -> None:
    rows = [row for row in PLAN.plan(mk.read(folder), as_of="2026-03-01").to_pylist() if "lessons" in row["path"]]
    (folder / "memory/lessons/pool.md").unlink()
    files = {row["file"]: row["text"] for row in rows if row["what"] != "entry"}
    corpus = mk.read(write_files(folder, tree(json.loads(rows[-1]["text"])) | files))
    chunks = mk.extend.Chunker(chunk_tokens=12, overlap_tokens=4).transform(corpus.memories).to_pylist()
    chunks = [chunk for chunk in chunks if chunk["memory_id"].startswith("index_tree:")]
    assert {chunk["path"] for chunk in chunks} == {path for path in files if "part" in path}
    assert [chunk["chunk_id"].rpartition("@")[2] for chunk in chunks] == [str(n) for n in range(len(chunks))]
    for chunk in chunks:
        lines = files[chunk["path"]].split("\n")[chunk["line_start"] - 1 : chunk["line_end"]]
        assert chunk["text"].rstrip("\n") == "\n".join(lines).rstrip("\n")
    search = mk.Retriever(encoder=None).fit(corpus)
    (hit,) = search.search("конец", k=1).to_pylist()
    place = next(path for path, text in files.items() if "конец" in text)
    assert (hit["path"], hit["memory_id"]) == (place, "index_tree:memory/lessons/pool/index.md#1")
    assert "конец" in files[place].split("\n")[hit["line_start"] - 1 : hit["line_end"]]


@pytest.mark.parametrize("parts", ["1", "[1]", '[{"path": "a"}]', '[{"path": "a", "line_start": 1, "chars": 2}]'])
def test_a_field_of_that_name_which_somebody_else_wrote_parts_nothing(parts: str) -> None:
    corpus = mk.from_table({"text": ["один\nдва"]})
    memories = corpus.memories.set_column(1, "format", [["index_tree"]])
    memories = memories.set_column(memories.column_names.index("extra"), "extra", [[f'{{"(parts)": {parts}}}']])
    assert mk.extend.Chunker().transform(memories)["text"].to_pylist() == ["один\nдва"]
