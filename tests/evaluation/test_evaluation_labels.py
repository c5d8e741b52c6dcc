"""Labels from tables, frames and files: what is read is what was written, and what is wrong is said."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.evaluation.labels import QRELS, QUERIES, quoted, read_run, unquoted

DATA = Path(__file__).parents[2] / "data"
SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".json", ".trec")
TABLES = (".parquet", ".csv", ".tsv", ".jsonl")

# Any characters that UTF-8 has, but NUL and carriage returns, which no text file keeps within a value.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=12)
IDS = TEXT.filter(lambda name: name == name.strip() and bool(name))
MOMENTS = st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
QUERY = st.fixed_dictionaries(
    {"query_id": IDS, "text": TEXT, "user_id": st.none() | IDS, "as_of": MOMENTS, "group": st.none() | IDS}
)
JUDGED = st.fixed_dictionaries({"query_id": IDS, "memory_id": IDS, "relevance": st.integers(-1, 4).map(float)})


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def judged(*rows: tuple[Any, ...]) -> dict[str, list[Any]]:
    return dict(zip(("query_id", "memory_id", "relevance"), map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("suffix", TABLES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(QUERY, min_size=1, max_size=5, unique_by=lambda row: row["query_id"]))
def test_queries_come_back_as_they_were_written(tmp_path: Path, suffix: str, rows: list[dict[str, Any]]) -> None:
    queries = mk.labels.read_queries(pa.Table.from_pylist(rows, schema=QUERIES))
    assert mk.labels.read_queries(mk.labels.write(queries, tmp_path / f"q{suffix}")).equals(queries)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(JUDGED, min_size=1, max_size=6, unique_by=lambda row: (row["query_id"], row["memory_id"])),
)
def test_judgements_come_back_as_they_were_written(tmp_path: Path, suffix: str, rows: list[dict[str, Any]]) -> None:
    qrels = mk.labels.read_qrels(pa.Table.from_pylist(rows, schema=QRELS))
    again = mk.labels.read_qrels(mk.labels.write(qrels, tmp_path / f"all{suffix}"))
    order = [("query_id", "ascending"), ("memory_id", "ascending")]  # JSON by query id brings a query's rows together
    assert again.sort_by(order).equals(qrels.sort_by(order))


@settings(max_examples=200)
@given(TEXT)
def test_a_quoted_id_has_no_blank_and_comes_back(name: str) -> None:
    assert quoted(name).split() == [quoted(name)]
    assert unquoted(quoted(name)) == name


@pytest.mark.quick
def test_texts_alone_are_queries_with_the_ids_of_a_search() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай", "кофе"]}))
    texts = ["чай", "кофе"]
    queries = mk.labels.read_queries(texts)
    assert queries.select(["query_id", "text"]).to_pylist() == [
        {"query_id": "0", "text": "чай"},
        {"query_id": "1", "text": "кофе"},
    ]
    assert search.search(queries, k=1)["query_id"].to_pylist() == search.search(texts, k=1)["query_id"].to_pylist()


@pytest.mark.quick
def test_an_id_of_another_program_stays_as_it_is() -> None:
    assert unquoted("https://ru.wikipedia.org/%D0%9F%D1%83%D0%BB") == "https://ru.wikipedia.org/%D0%9F%D1%83%D0%BB"
    assert unquoted("100%") == "100%"


@pytest.mark.quick
def test_labels_of_the_sample_are_read_from_a_path() -> None:
    queries, qrels = mk.labels.read_queries(DATA / "queries.csv"), mk.labels.read_qrels(str(DATA / "qrels.csv"))
    assert queries.num_rows == 46
    assert queries["as_of"][0].as_py() == datetime(2026, 3, 1, tzinfo=UTC)
    assert queries["user_id"][0].as_py() is None
    assert queries.column_names == ["query_id", "text", "user_id", "as_of", "group", "lang"]
    assert set(qrels["query_id"].to_pylist()) <= set(queries["query_id"].to_pylist())


def test_a_table_a_frame_a_mapping_and_a_file_say_the_same(tmp_path: Path) -> None:
    qrels = judged(("01", "a", 1), ("01", "b", 0), ("2", "a", 2))
    expected = mk.labels.read_qrels(qrels)
    assert expected["query_id"].to_pylist() == ["01", "01", "2"]  # no number was made of 01
    (tmp_path / "q.csv").write_text("query_id,memory_id,relevance\n01,a,1\n01,b,0\n2,a,2\n", encoding="utf-8-sig")
    for source in (pd.DataFrame(qrels), pa.table(qrels), tmp_path / "q.csv", str(tmp_path / "q.csv")):
        assert mk.labels.read_qrels(source).equals(expected)


def test_days_are_read_in_any_form_and_are_utc() -> None:
    days = ["2026-03-01", date(2026, 3, 1), datetime(2026, 3, 1), pd.Timestamp("2026-03-01 03:00+03:00"), None]
    for day in days:
        queries = mk.labels.read_queries({"query_id": [1], "text": ["чай"], "as_of": [day]})
        assert queries["as_of"][0].as_py() == (day and datetime(2026, 3, 1, tzinfo=UTC))


def test_a_frame_with_gaps_has_nulls() -> None:
    frame = pd.DataFrame(
        {"query_id": ["a", "b"], "text": ["чай", None], "user_id": ["u", np.nan], "as_of": [pd.NaT] * 2}
    )
    queries = mk.labels.read_queries(frame)
    assert queries["user_id"].to_pylist() == ["u", None]
    assert queries["as_of"].null_count == 2


ROWS = {
    "no relevance": (judged(("q", "m", None)), r"number as the relevance of 'm' for query 'q'\. Got None"),
    "NaN": (judged(("q", "m", float("nan"))), r"number as the relevance of 'm' for query 'q'"),
    "infinite": (judged(("q", "m", float("inf"))), r"Got inf"),
    "words": (judged(("q", "m", "very")), r"a number in column 'relevance'\. Got 'very' in row 0"),
    "twice": (judged(("q", "m", 1), ("q", "n", 1), ("q", "m", 0)), r"judged once for a query\. .*: 'm' for 'q'\."),
    "no memory": (judged(("q", None, 1)), r"a 'memory_id' in every row\. Got None in row 0"),
    "empty": (pa.table(judged(("q", "m", 1))).slice(0, 0), r"at least one row"),
    "no column": ({"query_id": ["q"], "memory": ["m"], "relevance": [1]}, r"column 'memory_id'.* mean 'memory'"),
    "no table": (7, r"a table, a data frame or a path\. Got int: "),
    "half a character": (judged(("q", "\ud800", 1)), r"qrels: expected"),
}


@pytest.mark.parametrize("case", ROWS)
def test_wrong_judgements_are_refused_with_what_is_wrong(case: str) -> None:
    qrels, message = ROWS[case]
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.labels.read_qrels(qrels)


def test_an_answer_that_ends_before_it_begins_is_refused() -> None:
    row = judged(("q", "m", 1)) | {"valid_from": ["2026-02-01"], "valid_to": ["2026-01-01"]}
    with pytest.raises(mk.errors.ParameterError, match=r"valid_from before valid_to for 'm', query 'q'"):
        mk.labels.read_qrels(row)


QUERY_FAULTS = {
    "twice": ({"query_id": ["a", "a"], "text": ["x", "y"]}, r"each 'query_id' once\. .*: 'a'\."),
    "no id": ({"query_id": ["a", ""], "text": ["x", "y"]}, r"a 'query_id' in every row\. Got '' in row 1"),
    "no text": ({"query_id": ["a"], "txt": ["x"]}, r"column 'text'.* mean 'txt'\?"),
    "no day": ({"query_id": ["a"], "text": ["x"], "as_of": ["вчера"]}, r"a day or a time .* Got 'вчера' in row 0"),
}


@pytest.mark.parametrize("case", QUERY_FAULTS)
def test_wrong_queries_are_refused_with_what_is_wrong(case: str) -> None:
    queries, message = QUERY_FAULTS[case]
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.labels.read_queries(queries)


FILES = {
    "short.csv": ("query_id,memory_id,relevance\nq,m\n", r"short\.csv:2: expected 3 fields"),
    "torn.jsonl": ('{"query_id": "q", "memory_id": "m", "relevance": 1}\n{"query_id": "q', r"torn\.jsonl:2: .*JSON"),
    "list.jsonl": ("[1]\n", r"list\.jsonl:1: expected a JSON object"),
    "flat.json": ('{"q": 1}', r"numbers by memory id"),
    "three.qrels": ("q 0 m\n", r"three\.qrels:1: expected 4 fields"),
    "wrong.parquet": ("PAR0", r"expected a Parquet file"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_parsed_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    text, message = FILES[name]
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(mk.errors.FormatError, match=message):
        mk.labels.read_qrels(tmp_path / name)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_bytes("query_id,text\n1,чай\n".encode("cp1251"))
    with pytest.raises(mk.errors.FormatError, match="expected UTF-8"):
        mk.labels.read_queries(tmp_path / "q.csv")


def run(*rows: tuple[str, str, int, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(("query_id", "memory_id", "rank", "score"), row, strict=True)) for row in rows]
    )


def test_a_run_is_read_by_other_programs_in_the_order_of_the_hits(tmp_path: Path) -> None:
    ties = run(("q", "b c", 1, 0.5), ("q", "a", 2, 0.5), ("q", "d", 3, 0.7), ("r", "a", 1, 0.1))
    path = mk.labels.write(ties, tmp_path / "ties.run")
    hits = sorted(ir_measures.read_trec_run(str(path)), key=lambda hit: (hit.query_id, -hit.score))
    assert [(hit.query_id, hit.doc_id) for hit in hits] == [("q", "b%20c"), ("q", "a"), ("q", "d"), ("r", "a")]
    assert read_run(path)["memory_id"].to_pylist() == ["b c", "a", "d", "a"]
    # The hits' own scores, but for ties and inversions, which are a step of single precision lower than the one above.
    assert [hit.score for hit in hits] == pytest.approx([0.5, 0.5, 0.5, 0.1], abs=1e-6)
    singles = [float(np.float32(hit.score)) for hit in hits[:3]]
    assert singles[0] > singles[1] > singles[2]


def test_scores_that_show_the_order_go_out_as_they_are(tmp_path: Path) -> None:
    falling = run(("q", "a", 1, 0.9), ("q", "b", 2, 0.1), ("r", "b", 1, 0.3))
    path = mk.labels.write(falling, tmp_path / "falling.json")
    assert json.loads(path.read_text("utf-8")) == {"q": {"a": 0.9, "b": 0.1}, "r": {"b": 0.3}}
    assert read_run(path).equals(read_run(falling))


def test_hits_of_a_search_are_a_run(tmp_path: Path) -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    hits = mk.Retriever(encoder=None).fit(corpus).search(["кофе", "чай"])
    again = read_run(mk.labels.write(hits, tmp_path / "hits.parquet"))
    assert again.column_names == ["query_id", "memory_id", "rank", "score"]
    assert again["memory_id"].to_pylist() == hits["memory_id"].to_pylist()
