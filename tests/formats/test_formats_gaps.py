"""Records, indexes and fact files with something left out: what is there is read, what is not is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import memkit as mk
from memkit.formats import facts, notes
from memkit.formats.fields import Field
from memkit.formats.index_tree import index
from memkit.formats.rows import Rule
from memkit.tables.samples import write_files

ENTRY = {"title": "T", "tags": ["t"], "priority": "high", "version": "1", "updated": "2026-01-01"}


def rules_of(corpus: mk.Corpus) -> list[tuple[str, str | None]]:
    return [(row["rule"], row["field"]) for row in corpus.problems.to_pylist()]


@pytest.mark.quick
def test_a_null_in_a_required_field_is_missing(tmp_path: Path) -> None:
    fact = {"format_version": None, "fact_id": "w", "category": "c", "content": "x", "confidence": None}
    corpus = mk.read(write_files(tmp_path, {"w.json": json.dumps({**fact, "relations": []})}))
    assert rules_of(corpus) == [("missing_field", "confidence"), ("missing_field", "format_version")]


DECLARED = [(group.format, field) for group in (notes.FIELDS, facts.FIELDS, index.FIELDS) for field in group.fields]


@pytest.mark.quick
@pytest.mark.parametrize(("format", "field"), DECLARED, ids=[f"{name}-{field.name}" for name, field in DECLARED])
def test_a_rule_of_ones_own_is_tried_on_every_declared_field(format: str, field: Field) -> None:
    tried: list[object] = []
    rule = Rule("bad_value", format, field.name, "what nobody writes", lambda value: bool(tried.append(value)))
    problems = mk.read(mk.sample_data() / format, rules=(rule,)).problems.to_pylist()
    reported = [row for row in problems if "what nobody writes" in row["message"]]
    assert tried
    assert [(row["rule"], row["field"]) for row in reported] == [("bad_value", field.name)] * len(tried)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("record", "kind", "absent"),
    [
        (
            {"content": "x", "confidence": 0.5, "owner": "anna", "created_at": "2026-01-02", "expires_at": "вчера"},
            *("wisdom_fact", "fact_id"),
        ),
        ({"id": "p", "triggers": [], "variables": {}, "tier": "core", "usage_stats": {}}, "pathway", "template"),
    ],
)
def test_a_record_without_its_id_or_template_is_still_one(
    tmp_path: Path, record: dict[str, object], kind: str, absent: str
) -> None:
    corpus = mk.read(write_files(tmp_path, {"r.json": json.dumps({"format_version": "1.0.0", **record})}))
    assert corpus.memories.select(["kind", "user_id"]).to_pylist() == [{"kind": kind, "user_id": record.get("owner")}]
    assert str(corpus.memories["updated_at"][0])[:10] == record.get("created_at", "None")
    assert ("missing_field", absent) in rules_of(corpus)
    assert (("bad_date", "expires_at") in rules_of(corpus)) == ("expires_at" in record)


def test_numbers_beside_an_item_of_the_old_shape_fill_their_columns(tmp_path: Path) -> None:
    item = {"text": "чай", "timestamp": "2026-01-01", "category": "x", "confidence": 0.7, "accessCount": 3}
    lines = [json.dumps(item | {"importance": number}) for number in (0.9, 55)]
    corpus = mk.read(write_files(tmp_path, {"a.jsonl": "\n".join(lines)}))
    rows = corpus.memories.select(["importance", "confidence", "access_count"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("high", 0.7, 3), (None, 0.7, 3)]
    (problem,) = corpus.problems.to_pylist()
    assert (problem["rule"], problem["field"], problem["line"]) == ("bad_value", "importance", 2)
    assert json.loads(corpus.memories["extra"][1].as_py())["importance"] == 55


@pytest.mark.parametrize("item", [{"text": "a", "timestamp": "2026-01-01"}, {"text": "a", "importance": "high"}])
def test_the_old_memory_item_needs_not_all_four_fields(tmp_path: Path, item: dict[str, str]) -> None:
    corpus = mk.read(write_files(tmp_path, {"m.json": json.dumps([item])}))
    assert corpus.memories.select(["kind", "text"]).to_pylist() == [{"kind": "memory_item", "text": "a"}]


def test_a_quarantined_record_keeps_its_id(tmp_path: Path) -> None:
    record = {"format_version": "7.0.0", "fact_id": "w", "content": "x", "confidence": 1}
    corpus = mk.read(write_files(tmp_path, {"w.json": json.dumps([record])}))
    row = corpus.memories.select(["memory_id", "source_id", "kind"]).to_pylist()[0]
    assert row == {"memory_id": "records:w.json#w", "source_id": "w", "kind": "quarantined"}


def test_a_flat_list_loads_whatever_its_items_lack(tmp_path: Path) -> None:
    items = [{"path": "a.md", "title": "A"}, {"title": "nothing else", "description": "d"}]
    items += [{"path": "b.md", "title": ""}]
    files = {"index.json": json.dumps(items), "a.md": "один", "b.md": "два"}
    corpus = mk.read(write_files(tmp_path, files))
    assert corpus.tables["entries"]["status"].to_pylist() == ["valid", "missing", "valid"]
    assert sorted(corpus.memories["text"].to_pylist()) == ["nothing else\nd", "два", "один"]
    assert set(rules_of(corpus)) == {("missing_field", "file")}


def test_a_gap_in_the_continuations_ends_nothing(tmp_path: Path) -> None:
    root = {"type": "index-root", "branches": [{"category": "c", "path": "c/index.json"}]}
    branch = {
        number: {"type": "index-branch", "category": "c", "files": [{**ENTRY, "file": f"c/{number}.md"}]}
        for number in (1, 2, 10)
    }
    files = {"memory/index.json": json.dumps(root), "memory/c/index.json": json.dumps(branch[1])}
    files |= {f"memory/c/index.part{number}.json": json.dumps(branch[number]) for number in (2, 10)}
    files |= {f"memory/c/{number}.md": "x" for number in branch}
    corpus = mk.read(write_files(tmp_path, files))
    assert corpus.tables["entries"]["file"].to_pylist() == ["c/1.md", "c/2.md", "c/10.md"]
    assert corpus.problems.num_rows == 0


def test_the_body_beside_parts_is_kept(tmp_path: Path) -> None:
    root = {"type": "index-root", "branches": [{"path": "c/index.json"}]}
    branch = {"type": "index-branch", "category": "c", "files": [{**ENTRY, "file": "c/n/index.md"}]}
    files = {"memory/index.json": json.dumps(root), "memory/c/index.json": json.dumps(branch)}
    files |= {"memory/c/n/index.md": "---\nparts: [part1.md]\n---\nВступление", "memory/c/n/part1.md": "часть"}
    row = mk.read(write_files(tmp_path, files)).memories.select(["text", "extra"]).to_pylist()[0]
    assert row["text"] == "часть"
    assert json.loads(row["extra"])["body"] == "Вступление"


def test_an_old_fact_file_with_tagged_lines_keeps_user_and_archive(tmp_path: Path) -> None:
    old = "- [id:b1] [t:archive] [imp:low] помечен\n- без меток\n"
    files = {"users/u1/profile.md": "- [id:a] [t:profile] [imp:high] x\n", "u9.md": old}
    memories = mk.read(write_files(tmp_path, files)).memories.to_pylist()
    users_and_kinds = {row["text"]: (row["user_id"], row["kind"]) for row in memories}
    assert users_and_kinds == {"x": ("u1", "profile"), "помечен": ("u9", "archive"), "без меток": ("u9", "archive")}


def test_boxes_and_turns_inside_a_fence_are_text(tmp_path: Path) -> None:
    fenced = "- [ ] задача\n```\n- [x] пример\n```\n"
    talk = "user: раз\n```\nuser: пример\n```\nassistant: два\n```\nuser: три\n"
    corpus = mk.read(write_files(tmp_path, {"HEARTBEAT.md": fenced, "sessions/2026-01-02-a.md": talk}))
    assert corpus.tables["checklist"]["text"].to_pylist() == ["задача"]
    assert corpus.tables["turns"]["role"].to_pylist() == ["user", "assistant", "user"]


def test_a_table_follows_the_same_scales() -> None:
    corpus = mk.from_table({"text": ["a"], "importance": ["medium"], "created_at": ["2026-01-02"]})
    assert corpus.memories["importance"].to_pylist() == ["normal"]
    assert corpus.memories["updated_at"].equals(corpus.memories["created_at"])
    assert corpus.memories["updated_at"].type == pa.timestamp("us", "UTC")


def test_one_wrong_line_of_front_matter_does_not_cost_the_others(tmp_path: Path) -> None:
    head = "id: 1\nsubject: Fix: пул\nkeywords:\n  - пул\n  - 'pool of: ten'\n  sub: x\n- lost\napplies_to: global\n"
    corpus = mk.read(write_files(tmp_path, {"note.md": f"---\n{head}---\nДесять соединений.\n"}))
    row = corpus.memories.to_pylist()[0]
    assert (row["title"], row["tags"], row["scope"]) == ("Fix: пул", ["пул", "pool of: ten"], "global")
    assert "- lost" in row["text"]
    assert [(p["rule"], p["line"]) for p in corpus.problems.to_pylist()] == [("unparsable", 3)]


def test_a_file_that_no_format_reads_is_named(tmp_path: Path) -> None:
    files = {"MEMORY.md": "# Чай\n", "notes.txt": "забыто", "a/b": "", ".hidden": "x", "index.json": '{"type": "x"}'}
    rows = mk.read(write_files(tmp_path, files)).problems.to_pylist()
    unclaimed = [(row["path"], row["severity"]) for row in rows if row["rule"] == "unclaimed"]
    assert unclaimed == [("a/b", "info"), ("notes.txt", "info")]


@pytest.mark.parametrize(
    ("text", "printed"),
    [("{}", "{}"), ("null", "null"), ('"чай"', '"чай"'), ('{"a": 1, "b": 2}', "fields a, b"), ("[]", "nothing")],
)
def test_what_is_no_record_is_named_as_it_stands(tmp_path: Path, text: str, printed: str) -> None:
    (row,) = mk.read(write_files(tmp_path, {"r.json": text})).problems.to_pylist()
    assert row["message"] == f"r.json: expected a record of a known kind. Got {printed}."


def test_the_day_of_a_read_is_kept_where_it_counts(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"memory/2030-01-01.md": "# Чай\n"})
    dated = mk.read(folder, as_of="2026-03-01")
    assert dated.problems.schema.metadata == {b"as_of": b"2026-03-01T00:00:00+00:00"}
    assert dated.refresh().problems.equals(dated.problems, check_metadata=True)
    dated.save(tmp_path / "lake")
    assert mk.open(tmp_path / "lake").problems.equals(dated.problems, check_metadata=True)
    assert mk.read(folder).problems.schema.metadata is None


def tree(folder: Path, entry: dict[str, object], **root: object) -> mk.Corpus:
    branch = {"type": "index-branch", "category": "c", "files": [{**ENTRY, "file": "c/a.md", **entry}]}
    named = {"type": "index-root", "branches": [{"category": "c", "path": "c/index.json"}], **root}
    files = {"memory/index.json": json.dumps(named), "memory/c/index.json": json.dumps(branch)}
    return mk.read(write_files(folder, {**files, "memory/c/a.md": "чай\n", "memory/d/b.md": "мёд\n"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("version", value) for value in (1, 1.0, "", " ")),
        ("title", 5),
        ("tags", [1]),
        ("tags", ["a", 2.5]),
        ("summary", 3),
        ("access_count", "3"),
        ("edit_count", "1"),
        ("pinned", "yes"),
    ],
)
def test_an_entry_whose_field_has_another_type_says_so_once_and_is_read(
    tmp_path: Path, name: str, value: object
) -> None:
    """Index standard, sections 1 and 2: the fields of an entry as its example writes them."""
    corpus = tree(tmp_path, {name: value})
    assert [rule for rule in rules_of(corpus) if rule[0] != "missing_index"][:1] == [("bad_value", name)]
    assert len([rule for rule in rules_of(corpus) if rule[1] == name]) == 1
    assert corpus.tables["entries"]["status"].to_pylist() == ["valid"]


@pytest.mark.parametrize(
    ("branch", "field"),
    [
        ({"category": "c", "path": "d/index.json"}, "category"),
        ({"category": "d", "path": "c/index.json"}, "path"),
        ({"category": "", "path": "d/index.json"}, "category"),
        ({"category": "d", "path": " "}, "path"),
    ],
)
def test_a_branch_of_the_root_has_a_category_and_a_path_of_its_own(
    tmp_path: Path, branch: dict[str, str], field: str
) -> None:
    """Index standard, section 1: the root lists branches, each with its category and path."""
    corpus = tree(tmp_path, {}, branches=[{"category": "c", "path": "c/index.json"}, branch])
    assert ("bad_value", field) in rules_of(corpus)


@pytest.mark.parametrize(("written", "rule"), [("", "missing_field"), ("split: by hand\n", "bad_value")])
def test_the_index_of_a_split_file_says_how_it_was_split(tmp_path: Path, written: str, rule: str) -> None:
    """Index standard, section 5: index.md holds title, parts, tokens_total, split: auto, updated."""
    head = f"---\ntitle: T\nparts: [part1.md]\ntokens_total: 4\n{written}updated: 2026-01-01\n---\n"
    branch = {"type": "index-branch", "category": "c", "files": [{**ENTRY, "file": "c/n/index.md"}]}
    named = {"type": "index-root", "branches": [{"category": "c", "path": "c/index.json"}]}
    files = {"index.json": json.dumps(named), "c/index.json": json.dumps(branch), "c/n/part1.md": "Чай с мёдом.\n"}
    write_files(tmp_path / "memory", files | {"c/n/index.md": head})
    assert rules_of(mk.read(tmp_path)) == [(rule, "split")]


@pytest.mark.parametrize(
    ("meta", "problem"),
    [
        ({"profileCount": 0, "workingCount": 0, "archiveCount": 0}, ("missing_field", "version")),
        ({"version": 2, "profileCount": "0", "workingCount": 0, "archiveCount": 0}, ("bad_value", "profileCount")),
    ],
)
def test_a_meta_json_holds_numbers_and_a_version(
    tmp_path: Path, meta: dict[str, object], problem: tuple[str, str]
) -> None:
    """Memory v2, 'Расположение данных': counters and the version."""
    assert rules_of(mk.read(write_files(tmp_path, {"users/u/meta.json": json.dumps(meta)}))) == [problem]


@pytest.mark.parametrize("name", ["triggers", "tags"])
def test_a_number_in_a_list_of_words_is_converted_and_reported(tmp_path: Path, name: str) -> None:
    """Rust Brain, 2.1 and 2.2: arrays of strings."""
    record = {"format_version": "1.0.0", "id": "p", "template": "t", "variables": {}, "tier": "core", "usage_stats": {}}
    item = {"format_version": "1.0.0", "user_id": "u", "input": "q", "response": "a", "timestamp": "2026-01-01"}
    row = {**(record if name == "triggers" else item), name: [7, "a"]}
    corpus = mk.read(write_files(tmp_path, {"r.json": json.dumps(row)}))
    assert corpus.memories["tags"].to_pylist() == [["7", "a"]]
    assert [rule for rule in rules_of(corpus) if rule[1] == name] == [("bad_value", name)]
