"""What hands expect that come from DuckDB, pandas and Polars: variables as tables, tags in a text, parameters."""

from __future__ import annotations

import warnings
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import ParameterError

DAY = "2026-03-01"
of_the_module = pa.table({"user_id": ["anna"], "label": ["module"]})


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table(
        {
            "text": ["чай", "кофе", "Чай", "письмо"],
            "title": ["Напиток", "напиток ", "Другое", ""],
            "user_id": ["anna", "anna", "boris", None],
            "kind": ["archive", "working", "archive", "note"],
            "expires_at": [None, "2026-03-05", None, "2026-05-01"],
            "created_at": ["2026-01-01", "2026-02-01", "2026-02-03", None],
        }
    )


class Speaks:
    """Somebody else's table, as Polars' is, of which all that is known is that it speaks Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


ROWS = {"user_id": ["anna"], "label": ["x"]}


@pytest.mark.quick
@pytest.mark.parametrize(
    "mine", [pd.DataFrame(ROWS), pa.table(ROWS), Speaks(pa.table(ROWS))], ids=["pandas", "arrow", "stream"]
)
def test_a_name_that_is_no_table_is_a_variable_of_the_caller(corpus: mk.Corpus, mine: Any) -> None:
    relation = corpus.sql("select count(*) from memories join mine using (user_id) where label = $l", {"l": "x"})
    assert relation.fetchall() == [(2,)]


@pytest.mark.quick
def test_a_local_variable_comes_before_a_global_one(corpus: mk.Corpus) -> None:
    assert corpus.sql("select label from of_the_module").fetchall() == [("module",)]
    of_the_module = pa.table({"label": ["local"]})
    assert corpus.sql("select label from of_the_module").fetchall() == [("local",)]
    del of_the_module


@pytest.mark.quick
def test_names_that_memkit_uses_itself_do_no_harm_and_its_tables_win(corpus: mk.Corpus) -> None:
    query = table = self = params = frame = memories = pa.table({"n": [7]})  # noqa: F841 - named in SQL
    for name in ("query", '"table"', "self", "params", "frame"):
        assert corpus.sql(f"select n from {name}").fetchall() == [(7,)]  # noqa: S608
    assert corpus.sql("select count(*) from memories").fetchall() == [(4,)]


def test_a_variable_that_is_no_table_is_no_table(corpus: mk.Corpus) -> None:
    number, text = 5, "memories"  # noqa: F841
    for name in ("number", "text", "duckdb", "corpus_of_nobody"):
        with pytest.raises(duckdb.CatalogException, match=name):
            corpus.sql(f"from {name}")


def test_a_variable_is_seen_for_that_call_alone_and_as_it_was(corpus: mk.Corpus) -> None:
    def ask() -> duckdb.DuckDBPyRelation:
        passing = pa.table({"n": [1]})
        assert passing.num_rows
        return corpus.sql("select n from passing where n > 0")

    relation = ask()
    with pytest.raises(duckdb.CatalogException, match="passing"):
        corpus.sql("from passing")
    assert relation.fetchall() == [(1,)]


def test_add_table_takes_whatever_speaks_arrow() -> None:
    corpus = mk.from_table({"text": ["чай"]})
    corpus.add_table("labels", Speaks(pa.table(ROWS)))
    corpus.add_table("labels_too", pd.DataFrame(ROWS))
    assert corpus.sql("select count(*) from labels join labels_too using (label)").fetchall() == [(1,)]


def test_a_frame_of_polars_is_read_judged_filtered_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    kinds, tags = polars.Series(["archive", None], dtype=polars.Categorical), [["чай"], []]
    frame = polars.DataFrame({"text": ["чай", "кофе"], "kind": kinds, "tags": tags, "expires_at": ["2026-02-27", None]})
    memories = mk.from_table(frame).memories
    assert [memories[name].to_pylist() for name in ("kind", "tags")] == [["archive", None], tags]
    assert mk.Expiry().cleanup(frame, as_of=DAY)["text"].to_pylist() == ["чай"]
    assert polars.DataFrame(mk.Expiry().transform(frame, as_of=DAY)).drop("keep", "reason").equals(frame)
    mk.show(frame)
    assert "кофе" in capsys.readouterr().out


def test_tags_in_one_text_are_split_at_commas() -> None:
    tags = ["чай, кофе,", "", None]
    kinds = {kind: pa.array(tags, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())}
    kinds["pandas"] = pd.Series(tags, dtype="str")
    kinds["categorical"] = pd.Series(tags, dtype="category")
    read = {kind: mk.from_table({"text": ["a", "b", "c"], "tags": column}) for kind, column in kinds.items()}
    split = [["чай", "кофе"], [], []]
    assert {
        kind: other for kind, corpus in read.items() if (other := corpus.memories["tags"].to_pylist()) != split
    } == {}


def test_a_column_that_arrow_has_no_type_for_is_named() -> None:
    for values in ([2**70], [{}, 1]):
        frame = pd.DataFrame({"text": ["чай"] * len(values), "size": pd.Series(values, dtype="object")})
        for call in (mk.from_table, mk.Quota().transform):
            with pytest.raises(ParameterError, match=r"one Arrow type\. [^(]"):
                call(frame)


def test_a_named_query_takes_its_parameters(corpus: mk.Corpus) -> None:
    ids = [row[-1] for row in corpus.named("expiring", as_of=DAY).fetchall()]
    assert ids == ["1"]
    assert corpus.named("expiring", as_of=DAY, days=3).fetchall() == []
    assert len(corpus.named("expiring", as_of=DAY, days=100).fetchall()) == 2
    assert [row[:2] for row in corpus.named("by_user").fetchall()] == [("anna", 2), ("boris", 1)]
    assert [row[:2] for row in corpus.named("by_user", user_id="boris").fetchall()] == [("boris", 1)]
    assert [row[:2] for row in corpus.named("same_title").fetchall()] == [("напиток", 2)]
    assert corpus.named("same_title", least=3).fetchall() == []


def test_a_parameter_that_a_query_has_not_or_of_another_kind_is_refused(corpus: mk.Corpus) -> None:
    with pytest.raises(ParameterError, match=r"among days\. Got 'day'\. Did you mean 'days'"):
        corpus.named("expiring", day=3)
    with pytest.raises(ParameterError, match=r"'days' must be an int\. Got 'three'"):
        corpus.named("expiring", days="three")
    with pytest.raises(ParameterError, match="takes no parameters"):
        corpus.named("near_empty", days=3)


def test_the_list_of_named_queries_spells_parameters_with_their_defaults() -> None:
    listed = mk.named_queries()
    spelled = dict(zip(listed["name"].to_pylist(), listed["parameters"].to_pylist(), strict=True))
    assert (spelled["expiring"], spelled["by_user"], spelled["near_empty"]) == ("days=31", "user_id=None", "")


def test_recent_context_is_the_last_days_newest_first(sample: mk.Corpus) -> None:
    days = [row[0].isoformat() for row in sample.named("recent_context", as_of="2026-02-04", days=2).fetchall()]
    assert set(days) == {"2026-02-04", "2026-02-03"}
    assert days == sorted(days, reverse=True)


def test_no_call_of_memkit_makes_another_packages_warning(corpus: mk.Corpus) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pd.DataFrame({"text": ["чай", "кофе"], "created_at": pd.to_datetime(["2026-01-01", None])})
        read = mk.from_table(frame)
        read.sql("from frame").fetchall()
        search = mk.Retriever(encoder=None).fit(read)
        mk.show(search.search("чай", as_of=DAY))
        search.trace("чай", as_of=DAY).to_pandas()
        mk.overview(read, as_of=DAY).to_pandas()
        mk.Deduplicator(encoder=None).fit(frame).transform(frame, as_of=DAY)
