"""Graphs of the MCP memory server: entities, observations, relations, and what forks write differently."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.hosts.mcp_graph import items_of, places_of
from memkit.tables.samples import sample_data, write_files

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
observations = st.one_of(
    texts, st.builds(lambda text: {"text": text, "timestamp": "2026-03-01T10:00:00Z", "v": 1}, texts)
)
entities = st.builds(
    lambda name, kind, items: {"type": "entity", "name": name, "entityType": kind, "observations": items},
    texts.filter(str.strip),
    texts,
    st.lists(observations, max_size=4),
)


def graph_of(files: dict[str, str | bytes]) -> mk.Corpus:
    with tempfile.TemporaryDirectory() as folder:
        return mk.read(write_files(folder, files))


def text_of(item: Any) -> str:
    return item["text"] if isinstance(item, dict) else item


def dumped(*values: Any, ascii: bool = False) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=ascii) for value in values)


@settings(max_examples=20)
@given(st.lists(entities, min_size=1, max_size=5), st.sampled_from(["a.json", "a.jsonl", "a.ndjson"]), st.booleans())
def test_every_observation_is_a_memory_of_its_entity(values: list[dict[str, Any]], name: str, ascii: bool) -> None:
    corpus = graph_of({name: dumped(*values, ascii=ascii)})
    expected: dict[str, list[str]] = {}
    for value in values:
        texts = expected.setdefault(value["name"], [])
        texts[:] = dict.fromkeys([*texts, *map(text_of, value["observations"])])
    actual: dict[str, list[str]] = {}
    for row in corpus.memories.to_pylist():
        if row["kind"] == "observation":
            assert row["title"] == row["source_id"]
            actual.setdefault(row["source_id"], []).append(row["text"])
        else:
            assert (row["kind"], row["text"], row["title"]) == ("entity", row["source_id"], "")
            actual[row["source_id"]] = []
    assert actual == expected
    assert len(set(corpus.memories["memory_id"].to_pylist())) == corpus.memories.num_rows
    doubled = len(values) - len(expected)
    assert corpus.problems["rule"].to_pylist().count("duplicate_name") == doubled
    counted = {row["name"]: row["observations"] for row in corpus.tables["entities"].to_pylist()}
    assert counted == {key: len(items) for key, items in expected.items()}


@settings(max_examples=40)
@given(st.lists(entities, min_size=1, max_size=4), st.booleans())
def test_the_place_of_an_observation_holds_it(values: list[dict[str, Any]], windows: bool) -> None:
    text = dumped(*values).replace("\n", "\r\n" if windows else "\n")
    for line, value in zip(items_of(text), values, strict=True):
        assert line.value == value
        places = [(item_text, json.loads(text[start:end])) for item_text, start, end in places_of(text, line)]
        assert places == [(text_of(item), item) for item in value["observations"]]


ANNA = {"name": "Анна", "entityType": "person", "observations": [{"text": "ведёт Склад", "timestamp": "2026-03-01"}]}
STOCK = {"name": "Склад", "type": "project", "observations": ["открыт с 2024", "two floors"], "note": "w1w"}
LEADS = {"from": "Анна", "to": "Склад", "relationType": "ведёт"}
NEEDS = {"from": "Склад", "to": "Анна", "type": "needs"}


def in_object(values: list[dict[str, Any]], relations: list[dict[str, Any]], indent: int | None, **fields: Any) -> str:
    return json.dumps({**fields, "entities": values, "relations": relations}, ensure_ascii=False, indent=indent)


@settings(max_examples=20)
@given(st.lists(entities, min_size=1, max_size=4), st.sampled_from([None, 0, 2]), st.booleans())
def test_a_graph_in_one_object_is_read_as_its_lines_are(
    values: list[dict[str, Any]], indent: int | None, windows: bool
) -> None:
    names = [value["name"] for value in values]
    relations = [{"from": names[0], "to": names[-1], "relationType": "r"}]
    text = in_object(values, relations, indent)
    whole = graph_of({"a.json": text.replace("\n", "\r\n") if windows else text})
    lines = graph_of({"a.json": dumped(*values, *relations)})
    columns = ["memory_id", "format", "kind", "title", "text", "scope", "source_id", "created_at", "extra"]
    assert whole.memories.select(columns).to_pylist() == lines.memories.select(columns).to_pylist()
    ends = ["from_id", "to_id", "type", "state"]
    assert whole.tables["relations"].select(ends).to_pylist() == lines.tables["relations"].select(ends).to_pylist()
    assert whole.problems["rule"].to_pylist() == lines.problems["rule"].to_pylist()
    written = text.split("\n")
    for row in whole.memories.to_pylist() if indent is not None else ():
        first, last = row["line_start"], row["line_end"]
        encoded = json.dumps(row["text"], ensure_ascii=False)
        assert any(encoded in line for line in written[first - 1 : last])


@pytest.mark.quick
def test_what_forks_write_into_an_object_is_read(subtests: pytest.Subtests) -> None:
    forms = {
        "pretty": in_object([ANNA, STOCK], [LEADS, NEEDS], 2),
        "a line": in_object([ANNA, STOCK], [LEADS, NEEDS], None),
        "relations first": json.dumps({"relations": [LEADS, NEEDS], "entities": [ANNA, STOCK]}),
        "more beside": in_object([ANNA, STOCK], [LEADS, NEEDS], 1, version={"of": "w2w"}),
    }
    for name, text in forms.items():
        with subtests.test(name):
            corpus = graph_of({"graph.json": text})
            assert set(corpus.memories["format"].to_pylist()) == {"mcp_graph"}
            assert dict(
                zip(corpus.memories["text"].to_pylist(), corpus.memories["scope"].to_pylist(), strict=True)
            ) == {
                "ведёт Склад": "person",
                "открыт с 2024": "project",
                "two floors": "project",
            }
            assert corpus.tables["relations"]["type"].to_pylist() == ["ведёт", "needs"]
            assert corpus.problems.num_rows == 0
            words = {"w1w", "w2w"} if "w2w" in text else {"w1w"}
            assert set(re.findall(r"w\dw", repr(corpus.tables["entities"].to_pylist()))) == words
    alone = graph_of({"a.json": in_object([{"name": "Чай", "entityType": "t", "observations": "зелёный"}], [], 2)})
    assert (alone.memories["text"].to_pylist(), alone.problems["rule"].to_pylist()) == (["зелёный"], ["bad_value"])
    empty = graph_of({"a.json": '{"entities": [], "relations": []}'})
    assert (empty.memories.num_rows, empty.problems.num_rows) == (0, 0)


@pytest.mark.quick
def test_an_object_that_breaks_off_keeps_what_stands_before_and_the_rest_as_text() -> None:
    text = in_object([ANNA, STOCK], [LEADS], 2)
    begun, ends = text.index("{", 1), [match.end() for match in re.finditer(r"\n    }", text)]
    wrong = []
    for end in range(begun, len(text), 7):
        corpus = graph_of({"a.json": text[:end]})
        read = [row["text"] for row in corpus.memories.to_pylist() if row["kind"] == "observation"]
        whole = [
            observation
            for observation, its_end in (("ведёт Склад", ends[0]), ("two floors", ends[1]))
            if its_end <= end
        ]
        if "unparsable" not in corpus.problems["rule"].to_pylist() or not set(whole) <= set(read):
            wrong.append(end)
    assert not wrong
    twice = '{"entities": [{"name": "a", "observations": ["x"]}], "entities": [{"name": "w1w"}]}'
    corpus = graph_of({"a.json": twice})
    assert corpus.problems["rule"].to_pylist() == ["missing_field", "unparsable"]
    assert "w1w" in repr(corpus.memories["text"].to_pylist())


@pytest.mark.quick
def test_what_is_no_item_of_an_object_is_a_row_with_a_problem() -> None:
    entities = [{**ANNA, "name": f"Анна {number}"} for number in range(9)]
    odd: list[Any] = [
        ANNA,
        *entities,
        7,
        None,
        "w1w",
        [],
        {"nameless": "w2w"},
        {"name": None, "observations": []},
        STOCK,
    ]
    corpus = graph_of({"a.json": in_object(odd, [LEADS, {"from": "Анна"}, {"x": "w3w"}], 2)})
    assert corpus.memories["memory_id"].to_pylist() == list(dict.fromkeys(corpus.memories["memory_id"].to_pylist()))
    rules = corpus.problems["rule"].to_pylist()
    assert (rules.count("unclaimed"), rules.count("bad_value"), rules.count("unparsable")) == (7, 1, 0)
    assert set(re.findall(r"w\dw", repr(corpus.memories.to_pylist()))) == {"w1w", "w2w", "w3w"}
    deep = '{"entities": [{"name": "a", "observations": ' + "[" * 5000 + "]" * 5000 + "}]}"
    assert graph_of({"a.json": deep}).problems["rule"].to_pylist() == ["unparsable"]


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
        observations = [
            (row["text"], row["created_at"] and row["created_at"].replace(tzinfo=None).isoformat()) for row in rows
        ]
        if (
            observations != wanted
            or corpus.problems.filter(pc.not_equal(corpus.problems["field"], "entityType")).num_rows
        ):
            wrong[name] = observations, corpus.problems["message"].to_pylist()
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
    contents = {
        "records.jsonl": json.dumps(wisdom),
        "package.json": json.dumps({"name": "x", "type": "module"}),
        "labels.json": json.dumps({"entities": [{"text": "Анна", "label": "PER"}], "relations": []}),
        "model.json": json.dumps({"entities": [{"name": "User", "type": "table"}]}),
        "said.json": json.dumps({"text": 'he wrote "observations" and "relationType"'}),
        "deep.jsonl": "\n" * 60 + json.dumps({"name": "x", "observations": ["below the lines that are looked at"]}),
    }
    formats = graph_of(dict(contents)).memories["format"].to_pylist()
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


def test_a_date_that_cannot_be_read_stays_in_extra(tmp_path: Path) -> None:
    said = [
        {"text": "чай", "timestamp": "вчера", "createdAt": "2026-01-02"},
        {"text": "мёд", "timestamp": "11/23/2025"},
    ]
    line = {"name": "Склад", "entityType": "p", "createdAt": "давно", "timestamp": "2026-01-01", "observations": said}
    corpus = mk.read(write_files(tmp_path, {"memory.jsonl": json.dumps(line, ensure_ascii=False)}))
    rows = corpus.memories.to_pylist()
    assert [(f"{row['created_at']:%F}", json.loads(row["extra"])) for row in rows] == [
        ("2026-01-02", {"timestamp": "вчера"}),
        ("2026-01-01", {"timestamp": "11/23/2025"}),
    ]
    assert json.loads(corpus.tables["entities"]["extra"][0].as_py()) == {"createdAt": "давно"}
