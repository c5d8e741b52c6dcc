from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import QueryError
from memkit.search.ask import Queries, as_queries
from memkit.search.steps.scope import memories_where


@pytest.mark.quick
def test_one_text_several_texts_and_tables_are_queries() -> None:
    assert as_queries("пул") == Queries(("0",), ("пул",))
    assert as_queries(["пул", "pool"]) == Queries(("0", "1"), ("пул", "pool"))
    table = pa.table({"text": ["пул", None], "query_id": [7, 8], "user_id": ["u1", "u2"]})
    assert as_queries(table) == as_queries(table.to_pandas()) == Queries(("7", "8"), ("пул", ""))
    assert as_queries(table.to_pydict()) == as_queries(table)
    assert as_queries(pd.Series(["a"])) == as_queries(np.array(["a"])) == Queries(("0",), ("a",))
    assert len(as_queries([])) == 0


@pytest.mark.quick
@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (5, "a text, a sequence of texts or a table. Got int"),
        (["a", 5], "a text at position 1. Got int 5"),
        (pa.table({"body": ["a"]}), "a column 'text'.*Got body"),
        ({"q1": "чай"}, "a column 'text'.*Got q1"),
        ({"text": "чай"}, "a column of values. Got 'чай'"),
        ({"text": 5}, "a column of values. Got 5"),
        (pa.table({"text": ["a", "b"], "query_id": ["x", "x"]}), "each 'query_id' once. Got 'x'"),
        (pa.table({"text": ["a", "b"], "query_id": ["x", None]}), "Got none in row 1"),
        ("чай \ud83d", r"position 0. Got half of one, '\\ud83d', as its character 4"),
        (["a", "\udc00"], r"position 1. Got half of one, '\\udc00', as its character 0"),
    ],
)
def test_what_is_no_query_is_refused_with_its_place(queries: object, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        as_queries(queries)


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    corpus = mk.from_table({"memory_id": ["m0", "m1", "m2", "m3"], "user_id": ["u0", "u1"] * 2, "text": ["чай"] * 4})
    corpus.add_table("labels", pa.table({"memory_id": ["m1"]}))
    return corpus


@pytest.mark.parametrize(
    "where",
    [
        "",
        "user_id = 'u1'; drop table labels",
        "true) union select memory_id from labels where (true",
        "true limit 1",
        "true, true",
        "user_id = 'u1' from labels",
        "count(*) > 1",
        "owner = 'u1'",
        "user_id = 'u1",
    ],
)
def test_where_is_one_predicate_and_nothing_else(corpus: mk.Corpus, where: str) -> None:
    with pytest.raises(QueryError, match="where: expected one SQL predicate"):
        memories_where(corpus.ask, where)
    assert corpus.ask("from labels").num_rows == 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=20))
def test_any_text_as_where_is_a_result_or_a_query_error(corpus: mk.Corpus, where: str) -> None:
    try:
        ids = memories_where(corpus.ask, where).to_pylist()
    except QueryError:
        ids = []
    assert set(ids) <= {"m0", "m1", "m2", "m3"}


def test_a_question_of_megabytes_says_its_limit() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай"]}))
    with pytest.raises(QueryError, match=r"at most 1,000,000 characters at position 0. Got 5,000,000"):
        search.search("x" * 5_000_000)
