"""What hits show of their memories besides themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.display.draw import shown
from memkit.errors import ParameterError

SECRET = "sk-" + "a1B2" * 8


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return mk.Retriever(encoder=None).fit(mk.read(mk.sample_data() / "notes"))


@pytest.mark.quick
def test_columns_of_memories_are_added_as_the_memories_have_them(search: mk.Retriever) -> None:
    plain = search.search("pool", as_of="2026-03-01")
    hits = search.search("pool", as_of="2026-03-01", columns=["scope", "title", "tags", "created_at"])
    assert hits.column_names == [*plain.column_names, "scope", "title", "tags", "created_at"]
    assert hits.select(plain.column_names).equals(plain)
    assert hits.schema.metadata == plain.schema.metadata
    memories = search.corpus_.memories
    for hit in hits.to_pylist():
        row = memories.filter(pc.equal(memories["memory_id"], hit["memory_id"])).to_pylist()[0]
        assert {name: hit[name] for name in ("scope", "title", "tags", "created_at")} == {
            name: row[name] for name in ("scope", "title", "tags", "created_at")
        }


@pytest.mark.quick
def test_a_column_that_hits_have_stays_theirs_and_none_comes_twice(search: mk.Retriever) -> None:
    plain = search.search("pool", as_of="2026-03-01")
    assert search.search("pool", as_of="2026-03-01", columns=("text", "path", "rank")).equals(plain)
    assert search.search("pool", columns=["scope", "scope"]).column_names.count("scope") == 1


@pytest.mark.quick
def test_queries_of_several_days_have_them_too(search: mk.Retriever) -> None:
    queries = pa.table({"text": ["pool", "pool"], "as_of": ["2026-03-01", "2025-12-01"]})
    assert search.search(queries, columns=["kind"])["kind"].to_pylist()[0] == "note"


@pytest.mark.outside
def test_columns_of_a_table_of_ones_own_and_of_buckets(tmp_path: Path) -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "user_id": ["u", "v"], "text": ["зелёный чай", "чай и кофе"]})
    hits = mk.Retriever(encoder=None).fit(corpus).search("чай", columns=["user_id"])
    assert sorted(hits["user_id"].to_pylist()) == ["u", "v"]
    corpus.save(tmp_path, buckets=2)
    apart = mk.Retriever(encoder=None).fit(mk.open(tmp_path)).search("чай", columns=["user_id"])
    assert sorted(apart["user_id"].to_pylist()) == ["u", "v"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["titel"], "Did you mean 'title'"), ("title", "a list of names"), ([3], "a list of names"), (None, "a list of")],
)
def test_what_is_no_column_is_refused(search: mk.Retriever, columns: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        search.search("pool", columns=columns)  # type: ignore[arg-type]


def test_a_secret_in_an_added_column_is_masked_where_hits_are_shown() -> None:
    corpus = mk.from_table({"memory_id": ["a"], "text": ["чай"], "scope": [f"token={SECRET}"]})
    hits = mk.Retriever(encoder=None).fit(corpus).search("чай", columns=["scope"])
    assert SECRET not in shown(hits).text(300, False)
    assert SECRET not in shown(hits)._repr_html_()
    assert SECRET in hits["scope"][0].as_py()
