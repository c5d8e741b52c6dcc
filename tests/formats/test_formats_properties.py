"""What must hold for any input: no exception, tables of their schema, unique ids, lines that point at the text."""

from __future__ import annotations

import codecs
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.formats.registry import FORMATS
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.nodes import MAX_DEPTH, Node, StructureError, load_json, load_json_items
from memkit.formats.syntax.yaml_nodes import load_yaml
from memkit.schemas import TABLES
from memkit.tables.samples import sample_data, write_files

fast = settings(max_examples=40)


def check_tables(corpus: mk.Corpus, folder: Path) -> None:
    """What every corpus of a folder keeps to."""
    for name, schema in TABLES.items():
        table = corpus.tables[name]
        assert table.schema.equals(schema)
        table.validate(full=True)
        for field in schema:
            assert field.nullable or table[field.name].null_count == 0, (name, field.name)
    memories = corpus.memories
    assert pc.count_distinct(memories["memory_id"]).as_py() == memories.num_rows
    for row in memories.to_pylist():
        assert isinstance(json.loads(row["extra"]), dict)
        assert row["line_start"] is None or 1 <= row["line_start"] <= row["line_end"]
        assert row["confidence"] is None or 0 <= row["confidence"] <= 1
        is_note = row["format"] == "notes" and not row["path"].endswith(".jsonl")  # a string of JSON is no line
        if row["format"] == "workspace" or is_note or (row["kind"] == "entry" and row["path"].endswith(".md")):
            check_lines(row, folder)
    for name, table in corpus.tables.items():
        if name not in ("memories", "problems", "relations") and "memory_id" in table.column_names:
            assert {*table["memory_id"].drop_null().to_pylist()} <= {*memories["memory_id"].to_pylist()}


def check_lines(row: dict[str, Any], folder: Path) -> None:
    path = folder / row["path"]
    if row["line_start"] is None or not path.exists() or row["kind"] == "head":
        return
    data = path.read_bytes()
    marks = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    encoding = next((name for mark, name in marks.items() if data.startswith(mark)), "utf-8")
    text = data.decode(encoding, "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")[row["line_start"] - 1 : row["line_end"]]
    assert row["text"] in ("\n".join(lines), "\n".join(lines) + "\n")


def read_and_check(files: dict[str, bytes], **options: Any) -> mk.Corpus:
    with tempfile.TemporaryDirectory() as name:
        folder = write_files(name, files)
        corpus = mk.read(folder, **options)
        check_tables(corpus, folder)
        return corpus


@pytest.mark.quick
@pytest.mark.parametrize(
    "folder", [sample_data(), *sorted(p for p in (sample_data() / "broken").iterdir() if p.is_dir())]
)
def test_the_samples_keep_to_the_tables(folder: Path) -> None:
    check_tables(mk.read(folder), folder)


NAMES = [
    *("users/u/profile.md", "users/u/meta.json", "users/meta.json", "u.md", "index.json", "b/index.json"),
    *(
        "b/index.part2.json",
        "x.yaml",
        "y.yml",
        "x.json",
        "x.jsonl",
        "x.ndjson",
        "2026-01-01.md",
        "note.md",
        "MEMORY.md",
    ),
    *("HEARTBEAT.md", "sessions/2026-02-30-a.md", "n/index.md", "b/a.markdown", "ы.MD", "2026-99-99.md"),
]
PIECES = [
    *("---\n", "- [id:a] ", "[t:profile]", "[imp:high] ", "[exp:2026-13-01]", "{", "}", "[", "]", '"', ":", ", ", "\n"),
    *("# ", "```\n", "id: x\n", "subject: s\n", "keywords: [a]\n", "parts: [part1.md]\n", "**[25:61] user**: "),
    *("- [x] ", '"type": "index-root"', '"branches": [', '{"path": "b/index.json"}', '"files": ['),
    *('{"file": "note.md"}', '"fact_id": "f"', '"template": "t"', '"tier": 5', '"relations": [{"fact_id": "f"}]'),
    *('"format_version": "2"', "&a ", "*a", "? ", "!!x ", "1e999", "NaN", "\\ud800", "null", "\r\n", "\x00", "\u2028"),
    *("\ufeff", "# 2026-02-30 25:00\n", '"hits": 9e99', "кот", "~", "|\n "),
]
soup = st.lists(st.sampled_from(PIECES), max_size=25).map("".join).map(str.encode)
content = st.one_of(st.binary(max_size=120), soup, st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(NAMES), content, max_size=6))
@example({"index.json": b'{"branches": [{"path": "note.md"}], "files": [{"file": "note.md"}]}', "note.md": b"x"})
@example({"b/index.json": b'{"files": [{"file": "b/index.json"}, {"file": "gone"}]}'})
@example({"users/u/profile.md": b"- [id:a] x\n- [id:a] y\n- [id:a~2] z\n- [id:a] q\n"})
@example(
    {"x.json": b'[{"fact_id": "a", "content": ""}, {"fact_id": "a", "content": ""}, {"fact_id": "a~2", "content": ""}]'}
)
def test_arbitrary_bytes_never_raise(files: dict[str, bytes]) -> None:
    read_and_check(files)


@fast
@given(
    st.sampled_from([format.name for format in FORMATS]), st.dictionaries(st.sampled_from(NAMES), content, max_size=3)
)
def test_arbitrary_bytes_never_raise_in_a_forced_format(format: str, files: dict[str, bytes]) -> None:
    read_and_check(files, format=format, as_of="2026-03-01", max_file_bytes=80)


json_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
json_values = st.recursive(
    json_leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=12,
)
FIELDS = ["type", "branches", "files", "path", "file", "title", "tags", "priority", "updated", "pinned", "access_count"]
FIELDS += ["format_version", "id", "triggers", "template", "variables", "tier", "usage_stats", "hits", "success_rate"]
FIELDS += ["last_used_at", "user_id", "input", "response", "timestamp", "fact_id", "content", "category", "confidence"]
FIELDS += ["relations", "weight", "response_template", "success_count", "last_used", "text", "importance", "pathways"]
FIELDS += ["profileCount", "version", "lastModified", "description", "memories", "parts", "failure_count"]
wrong = st.recursive(
    st.one_of(
        json_leaves, st.sampled_from(["note.md", "b/index.json", "../x", "high", "2026-02-30", "1.0.0", "9.9.9"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, min_size=1, max_size=6)
    ),
    max_leaves=20,
)


@settings(max_examples=50)
@given(
    st.dictionaries(st.sampled_from(["index.json", "b/index.json", "x.json", "users/u/meta.json"]), wrong, max_size=3)
)
def test_wrong_types_in_any_field_never_raise(values: dict[str, Any]) -> None:
    read_and_check({name: json.dumps(value).encode() for name, value in values.items()} | {"note.md": b"x\n"})


@fast
@given(wrong)
def test_wrong_types_in_yaml_and_front_matter_never_raise(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    files = {"x.yaml": text, "note.md": f"---\n{text}\n---\nтело\n", "2026-01-01.md": f"---\n{text}\n---\nтело\n"}
    read_and_check({name: written.encode() for name, written in files.items()})


@settings(max_examples=50)
@given(json_values, st.sampled_from([None, 1]), st.booleans())
def test_json_is_read_as_the_standard_library_reads_it(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    if any(0xD800 <= ord(char) <= 0xDFFF for char in json.dumps(value, ensure_ascii=False)):
        return  # no UTF-8 can hold these; they are replaced
    assert load_json(text) == json.loads(text)
    assert load_json(f" \n{text}\n ") == json.loads(text)
    if isinstance(value, list):
        assert [item for item, _, _ in load_json_items(text)] == value


@settings(max_examples=50)
@given(st.text(alphabet='[]{}":,\\ 1e-.tnul\nа', max_size=40))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text, strict=False)
    except ValueError:
        with pytest.raises(StructureError) as caught:
            load_json(text)
        assert 1 <= caught.value.line <= text.count("\n") + 1
    else:
        actual = load_json(text)
        assert actual == expected or isinstance(actual, str) or "1e" in text  # an overflowing number stays as written


@pytest.mark.quick
def test_json_objects_know_their_lines() -> None:
    node = load_json('{\n "a": {\n  "b": 1\n },\n "c": [\n  {}\n ]\n}')
    assert (node.line, node.end_line) == (1, 8)
    assert (node["a"].line, node["a"].end_line, node["c"][0].line) == (2, 4, 6)


@pytest.mark.quick
def test_yaml_objects_know_their_lines() -> None:
    text = "- {a: 1,\n   b: 2}\n- a: 1\n  b: {c: 1,\n      d: 2}\n\n# of the next\n"
    text += "- a: |\n    x\n    y\n- b: 'c\n    d'\n  e:\n"
    (items,) = load_yaml(text)
    assert [(item.line, item.end_line) for item in items] == [(1, 2), (3, 5), (8, 10), (11, 13)]


def test_a_number_is_kept_as_it_is_written() -> None:
    (version,) = load_json("[1.10]")
    assert (version, version.text) == (1.1, "1.10")
    assert load_json("[1e999, -1e999, NaN]") == ["1e999", "-1e999", "NaN"]


# Front matter: keys and scalars that mostly are flat, and now and then are not.
keys = st.sampled_from(["id", "subject", "keywords", "applies_to", "a-b", "x1", "_y", "null", "true", "Ключ"])
scalars = st.one_of(
    st.text(alphabet="abя1 -_.:/#'\"[]{},&*!|>%@`~?=<\\\t", max_size=12),
    st.sampled_from(
        ["2026-01-01", "10:00", "yes", "no", "null", "~", "1.0", "0x1F", "a: b", "a #b", "'it''s'", '"a\\n"']
    ),
    st.sampled_from(
        ["'x'", '"y"', "''", '""', "[a, b]", "[]", "[ a , 'b' ]", "[a,]", "[a, [b]]", "{a: b}", "|", ">-", "- a"]
    ),
    st.text(max_size=6),
)
head_lines = st.one_of(
    st.tuples(keys, st.sampled_from([": ", ":", ":  ", " : "]), scalars).map("".join),
    st.tuples(st.sampled_from(["- ", "  - ", "-  ", " -"]), scalars).map("".join),
    st.sampled_from(["", " ", "# comment", "...", "key", "  nested: x", "? a", "%YAML 1.1", "\t"]),
)
heads = st.lists(head_lines, min_size=1, max_size=6).map("\n".join)


@settings(max_examples=300)
@given(heads)
@example("a: x  ")
@example("keywords:\n- a\n- b\nid: 'x'")
@example("a:\n  - x \nb: [ ]")
def test_the_quick_front_matter_reader_equals_yaml_wherever_it_answers(head: str) -> None:
    flat = front_matter.parse_flat(head)
    if flat is None:
        return
    documents = list(load_yaml(head))
    assert [dict(flat)] == documents or (not flat and documents in ([], [None]))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefg"), st.from_regex(r"[a-zа-я][a-zа-я0-9 ]{0,10}[a-z]", fullmatch=True)),
        unique_by=lambda p: p[0],
    )
)
def test_plain_flat_front_matter_needs_no_yaml(pairs: list[tuple[str, str]]) -> None:
    flat = front_matter.parse_flat("\n".join(f"{key}: {value}" for key, value in pairs))
    assert flat is not None
    assert {key: value for key, value in flat.items() if key not in flat.repeated} == {
        key: value for key, value in pairs if value not in ("null",)
    }


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("10:00", "10:00"),
        ("2026-01-01", "2026-01-01"),
        ("yes", "yes"),
        ("1.0", "1.0"),
        ("null", None),
        ("'null'", "null"),
    ],
)
def test_a_scalar_of_yaml_is_what_its_author_wrote(written: str, read: str | None) -> None:
    assert list(load_yaml(f"a: {written}\n")) == [{"a": read}]
    front = front_matter.split(f"---\na: {written}\n---\n")
    assert front is not None
    assert front.fields == {"a": read}


def test_a_title_with_a_colon_and_a_second_block_keep_the_body_whole(tmp_path: Path) -> None:
    """python-frontmatter and basic-memory lose these: a colon in a title, a content key, a rule in the body."""
    body = "content: не поле\n---\nid: другой\n---\nконец\n"
    head = "id: x\nsubject: Пул: десять\ncontent: поле\nkeywords: [a]\ntime: 10:00\n"
    corpus = mk.read(write_files(tmp_path, {"x.md": f"---\n{head}---\n{body}"}))
    (row,) = corpus.memories.to_pylist()
    assert row["text"] == f"---\n{head}---\n{body}"  # 'Пул: десять' unquoted is no YAML: all of it is kept
    quoted = head.replace("Пул: десять", "'Пул: десять'")
    corpus = mk.read(write_files(tmp_path, {"x.md": f"---\n{quoted}---\n{body}"}))
    (row,) = corpus.memories.to_pylist()
    assert (row["title"], row["text"]) == ("Пул: десять", body)
    assert json.loads(row["extra"]) == {"content": "поле", "time": "10:00"}


def test_depth_is_bounded_in_both_languages() -> None:
    assert isinstance(next(load_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)), list)
    with pytest.raises(StructureError):
        list(load_yaml("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2)))


@fast
@given(st.lists(st.text(max_size=4), max_size=8))
def test_a_node_keeps_every_value_that_is_put(values: list[str]) -> None:
    node = Node()
    for value in values:
        node.put("key", value)
    assert ([node["key"]] if values else []) + node.get("key (repeated)", []) == values
    assert not any(isinstance(value, float) and math.isnan(value) for value in node.values())


def test_the_tables_of_an_empty_folder_have_their_columns(tmp_path: Path) -> None:
    corpus = mk.read(tmp_path)
    check_tables(corpus, tmp_path)
    assert all(table.num_rows == 0 for table in corpus.tables.values())
    assert isinstance(corpus.memories, pa.Table)
    assert corpus.sql("from fts('чай')").fetchall() == []
    assert repr(corpus) == "Corpus(0 memories: none; 0 problems in reading)"
