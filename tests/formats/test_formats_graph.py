"""Graphs of the MCP memory server: entities, observations, relations, and what forks write differently."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.formats.mcp_graph import lines_of, places_of
from memkit.tables.samples import sample_data, write_files

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
said = st.one_of(texts, st.builds(lambda text: {"text": text, "timestamp": "2026-03-01T10:00:00Z", "v": 1}, texts))
entities = st.builds(
    lambda name, kind, items: {"type": "entity", "name": name, "entityType": kind, "observations": items},
    texts.filter(str.strip),
    texts,
    st.lists(said, max_size=4),
)


def graph_of(files: dict[str, str | bytes]) -> mk.Corpus:
    with tempfile.TemporaryDirectory() as folder:
        return mk.read(write_files(folder, files))


def text_of(item: Any) -> str:
    return item["text"] if isinstance(item, dict) else item


def dumped(*values: Any, ascii: bool = False) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=ascii) for value in values)


@settings(max_examples=40)
@given(st.lists(entities, min_size=1, max_size=5), st.sampled_from(["a.json", "a.jsonl", "a.ndjson"]), st.booleans())
def test_every_observation_is_a_memory_of_its_entity(values: list[dict[str, Any]], name: str, ascii: bool) -> None:
    corpus = graph_of({name: dumped(*values, ascii=ascii)})
    wanted: dict[str, list[str]] = {}
    for value in values:
        own = wanted.setdefault(value["name"], [])
        own[:] = dict.fromkeys([*own, *map(text_of, value["observations"])])
    found: dict[str, list[str]] = {}
    for row in corpus.memories.to_pylist():
        if row["kind"] == "observation":
            assert row["title"] == row["source_id"]
            found.setdefault(row["source_id"], []).append(row["text"])
        else:
            assert (row["kind"], row["text"], row["title"]) == ("entity", row["source_id"], "")
            found[row["source_id"]] = []
    assert found == wanted
    assert len(set(corpus.memories["memory_id"].to_pylist())) == corpus.memories.num_rows
    doubled = len(values) - len(wanted)
    assert corpus.problems["rule"].to_pylist().count("duplicate_name") == doubled
    counted = {row["name"]: row["observations"] for row in corpus.tables["entities"].to_pylist()}
    assert counted == {key: len(items) for key, items in wanted.items()}


@settings(max_examples=40)
@given(st.lists(entities, min_size=1, max_size=4), st.booleans())
def test_the_place_of_an_observation_holds_it(values: list[dict[str, Any]], windows: bool) -> None:
    text = dumped(*values).replace("\n", "\r\n" if windows else "\n")
    for line, value in zip(lines_of(text), values, strict=True):
        assert line.value == value
        found = [(said, json.loads(text[start:end])) for said, start, end in places_of(text, line)]
        assert found == [(text_of(item), item) for item in value["observations"]]


def test_relations_are_a_table_that_joins_the_memories() -> None:
    lines = [
        {"type": "entity", "name": "Склад", "entityType": "project", "observations": ["открыт с 2024", "два этажа"]},
        {"type": "entity", "name": "Анна", "entityType": "person", "observations": []},
        {"type": "relation", "from": "Склад", "to": "Анна", "relationType": "ведёт", "since": "w1w"},
        {"type": "relation", "from": "Склад", "to": "Борис", "relationType": "knows"},
        {"type": "relation", "from": "Борис", "to": "Анна", "relationType": "knows"},
        {"type": "relation", "from": "Анна", "relationType": "ищет"},
        {"type": "relation", "from": "Анна", "to": "Анна", "relationType": "знает"},
    ]
    corpus = graph_of({"memory.json": dumped(*lines)})
    query = """
        select coalesce(f.source_id, '-'), type, coalesce(t.source_id, '-'), state, line
        from relations left join memories f on f.memory_id = from_id left join memories t on t.memory_id = to_id
        order by line"""
    rows = corpus.sql(query).fetchall()
    assert rows == [
        ("Склад", "ведёт", "Анна", "found", 3),
        ("Склад", "knows", "-", "dead", 4),
        ("-", "knows", "Анна", "dead", 5),
        ("Анна", "ищет", "-", "dead", 6),
        ("Анна", "знает", "Анна", "found", 7),
    ]
    problems = [(row["line"], row["rule"], row["field"]) for row in corpus.problems.to_pylist()]
    dangling = [(4, "dangling_relation", "to"), (5, "dangling_relation", "from")]
    assert problems == [*dangling, (6, "missing_field", "to"), (7, "self_relation", None)]
    assert "w1w" in repr(corpus.tables["relations"].to_pylist())


def test_variants_of_forks_are_read_by_their_keys(tmp_path: Path) -> None:
    created = {"createdAt": "2026-01-02T03:04:05Z", "version": 2}
    dated = [{"text": "чай", "timestamp": "2026-05-01T10:00:00+03:00"}, {"content": "мёд"}]
    variants: dict[str, tuple[dict[str, Any], list[tuple[str, str | None]]]] = {
        "the server's": ({"type": "entity", "observations": ["чай"]}, [("чай", None)]),
        "without type": ({"observations": ["чай"]}, [("чай", None)]),
        "with dates": ({"observations": ["чай"], **created}, [("чай", "2026-01-02T03:04:05")]),
        "with objects": (
            {"_type": "entity", "observations": dated, "_savedAt": "x", **created},
            [("чай", "2026-05-01T07:00:00"), ("мёд", "2026-01-02T03:04:05")],
        ),
        "without observations": ({"type": "entity"}, [("Склад", None)]),
    }
    wrong = {}
    for name, (fields, wanted) in variants.items():
        corpus = graph_of(
            {"m.jsonl": dumped({"name": "Склад", "entityType": "t", **fields}, {"name": "x", "observations": []})}
        )
        rows = [row for row in corpus.memories.to_pylist() if row["source_id"] == "Склад"]
        found = [
            (row["text"], row["created_at"] and row["created_at"].replace(tzinfo=None).isoformat()) for row in rows
        ]
        if found != wanted or corpus.problems.filter(pc.not_equal(corpus.problems["field"], "entityType")).num_rows:
            wrong[name] = found, corpus.problems["message"].to_pylist()
    assert not wrong


def test_of_two_lines_with_one_name_the_higher_version_counts_and_nothing_is_lost() -> None:
    first = {
        "name": "Склад",
        "entityType": "new",
        "observations": ["w1w", {"text": "w2w", "by": "w3w"}],
        "version": 3,
        "a": "w4w",
    }
    second = {
        "name": "Склад",
        "entityType": "old",
        "observations": ["w1w", {"text": "w2w", "by": "w5w"}, "w6w"],
        "version": 1,
        "b": "w7w",
    }
    for lines in ((first, second), (second, first)):
        corpus = graph_of({"m.jsonl": dumped(*lines)})
        assert set(corpus.memories["scope"].to_pylist()) == {"new"}
        assert set(corpus.memories["text"].to_pylist()) == {"w1w", "w2w", "w6w"}
        tables = [table.to_pylist() for name, table in corpus.tables.items() if name != "problems"]
        assert set(re.findall(r"w\dw", repr(tables))) == {f"w{n}w" for n in range(1, 8)}


def test_lines_that_the_host_skips_are_rows_with_a_problem() -> None:
    good = '{"type":"entity","name":"Чай","entityType":"t","observations":["зелёный"]}'
    lines = [b'{"torn', good.encode(), b"[1, 2]", b'{"x": "w1w"}', "привет".encode("cp1251"), b"{" * 500, b"", b"null"]
    corpus = graph_of({"memory.json": b"\n".join(lines)})
    assert corpus.memories["line_start"].to_pylist() == [2, 1, 3, 4, 5, 6, 8]
    rules = {row["line"]: row["rule"] for row in corpus.problems.to_pylist() if row["rule"] != "encoding"}
    assert rules == {1: "unparsable", 3: "unclaimed", 4: "unclaimed", 5: "unparsable", 6: "unparsable", 8: "unclaimed"}
    assert "w1w" in repr(corpus.memories["text"].to_pylist())


def test_files_that_are_no_graphs_are_left_to_other_formats() -> None:
    wisdom = {"fact_id": "f", "content": "c", "category": "c", "confidence": 0.5, "relations": []}
    others = {
        "records.jsonl": json.dumps(wisdom),
        "package.json": json.dumps({"name": "x", "type": "module"}),
        "said.json": json.dumps({"text": 'he wrote "observations" and "relationType"'}),
        "deep.jsonl": "\n" * 60 + json.dumps({"name": "x", "observations": ["below the lines that are looked at"]}),
    }
    formats = graph_of(dict(others)).memories["format"].to_pylist()
    assert "mcp_graph" not in formats


def test_the_sample_is_searched_in_both_languages_saved_and_refreshed(tmp_path: Path) -> None:
    corpus = mk.read(sample_data() / "layouts" / "mcp-graph")
    assert corpus.problems.num_rows == 0
    assert corpus.memories["kind"].to_pylist().count("entity") == 1
    assert corpus.tables["relations"].num_rows == 8
    assert set(corpus.tables["relations"]["state"].to_pylist()) == {"found"}
    search = mk.Retriever(encoder=None).fit(corpus)
    for query, wanted in (
        ("резерв остатков, reserves stock", "Reserves"),
        ("кто ревьюит деньги", "Ревьюит"),
        ("выезд курьера", "Курьер"),
    ):
        assert wanted in search.search(query, k=1)["text"][0].as_py()
    corpus.save(str(tmp_path / "lake"))
    assert mk.open(str(tmp_path / "lake")).tables["entities"].equals(corpus.tables["entities"])
    folder = write_files(
        tmp_path / "live",
        {"a.json": dumped({"name": "a", "observations": ["x"]}, {"from": "?", "to": "a", "relationType": "r"})},
    )
    before = mk.read(folder)
    for text in (
        dumped({"name": "a", "observations": ["y", "z"]}),
        dumped({"from": "?", "to": "a", "relationType": "r"}),
    ):
        write_files(folder, {"a.json": text})
        after, fresh = before.refresh(), mk.read(folder)
        for name in ("memories", "relations", "entities", "problems"):
            assert after.tables[name].equals(fresh.tables[name]), name
