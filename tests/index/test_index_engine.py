"""Another engine finds what memkit's own arms find: Milvus Lite, and one of ten lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import MemkitError, ParameterError
from memkit.scale import engine
from memkit.scale.milvus import FOUND, Milvus
from tests.search.test_search_buckets import WORDS

pytestmark = pytest.mark.outside

N, DAY = 400, "2026-03-01"
QUESTIONS = ["пул соединений", "зелёный чай release", "кофе ночью", "friday deploy plan", "", "ничего такого"]
WHERES = {
    "all": None,
    "one": "memory_id = 'm0007'",
    "few": "memory_id < 'm0010'",
    "half": "memory_id < 'm0200'",
    "a user": "user_id = 'u1'",
    "all but a user": "user_id is distinct from 'u1'",
    "none": "false",
}


class Exact:
    """An engine that holds lists of numbers, and notes how it was asked."""

    def __init__(self) -> None:
        self.held: dict[str, dict[int, Any]] = {}
        self.asked: list[tuple[int, int | None, int | None]] = []

    def put(self, name: str, rows: pa.Table) -> None:
        self.held.setdefault(name, {}).update({row["id"]: ready(row) for row in rows.to_pylist()})

    def candidates(
        self, name: str, queries: pa.Table, n: int, ids: Sequence[int] | None = None, user: int | None = None
    ) -> pa.Table:
        self.asked.append((n, None if ids is None else len(ids), user))
        named = None if ids is None else set(ids)
        rows = [row for row in self.held[name].values() if named is None or row["id"] in named]
        rows = [row for row in rows if user is None or row["user"] == user]
        candidates = []
        for i, query in enumerate(map(ready, queries.to_pylist())):
            scored = [(i, row["id"], product(query, row)) for row in rows]
            candidates += sorted((one for one in scored if one[2] is not None), key=lambda one: -one[2])[:n]
        columns = list(zip(*candidates, strict=True)) or [(), (), ()]
        return pa.table([pa.array(column, type) for column, type in zip(columns, FOUND.types, strict=True)], FOUND)

    def drop(self, name: str) -> None:
        self.held.pop(name, None)


def ready(row: dict[str, Any]) -> dict[str, Any]:
    """A row, or a query, with its vector as an array, or with the weights of its terms by term."""
    if "vector" in row:
        return row | {"vector": np.array(row["vector"])}
    return row | {"by_term": dict(zip(row["terms"], row["weights"], strict=True))}


def product(query: dict[str, Any], row: dict[str, Any]) -> Any:
    if "vector" in row:
        return float(np.dot(query["vector"], row["vector"]))
    weights = row["by_term"]
    shared = [weights[term] * w for term, w in zip(query["terms"], query["weights"], strict=True) if term in weights]
    return sum(shared) if shared else None


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, 6)) if i % 40 else "--" for i in range(N)]
    users = [None if i % 9 == 0 else f"u{i % 7}" for i in range(N)]
    columns = {"memory_id": [f"m{i:04}" for i in range(N)], "text": texts, "user_id": users}
    stale_at = ["2026-01-01" if i % 3 else None for i in range(N)]
    return mk.from_table({**columns, "stale_at": stale_at})


@pytest.fixture(scope="module")
def local(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(corpus)


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Milvus]:
    engine = Milvus(str(tmp_path_factory.mktemp("milvus") / "a.db"))
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=["milvus", "exact"])
def other(request: pytest.FixtureRequest, corpus: mk.Corpus, milvus: Milvus) -> mk.Retriever:
    return mk.Retriever(encoder="hash", index=mk.Index(engine=milvus if request.param == "milvus" else Exact())).fit(
        corpus
    )


def assert_same(one: pa.Table, two: pa.Table) -> None:
    assert one.select(["query_id", "rank", "memory_id"]).equals(two.select(["query_id", "rank", "memory_id"]))
    for name in ("score", "bm25", "vector", "gram"):
        a, b = (table[name].to_numpy(zero_copy_only=False).astype(float) for table in (one, two))
        assert np.allclose(a, b, rtol=0, atol=1e-5, equal_nan=True), name


@pytest.mark.parametrize("where", WHERES)
def test_the_first_ten_are_those_of_memkits_own_arms(
    where: str, local: mk.Retriever, other: mk.Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = {"k": 10, "where": WHERES[where], "as_of": DAY}
    expected = local.search(QUESTIONS, **scope)
    for allowed in (10_000, 20):  # by number, and by asking for more
        monkeypatch.setattr(engine, "ALLOWED", allowed)
        assert_same(expected, other.search(QUESTIONS, **scope))


def test_other_settings_mean_the_same(local: mk.Retriever, other: mk.Retriever) -> None:
    for values in ({"normalize": "max", "bm25_weight": 0.3, "vector_weight": 0.7}, {"fusion": "rrf", "pool": 20}):
        one, two = (search.with_params(**values).search(QUESTIONS, as_of=DAY) for search in (local, other))
        assert_same(one, two)


def test_a_user_is_asked_for_as_a_user(corpus: mk.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ALLOWED", 5)
    exact = Exact()
    search = mk.Retriever(encoder=None, index=mk.Index(engine=exact)).fit(corpus)
    search.search("чай", where="user_id = 'u1'", as_of=DAY)
    assert {ids for _, ids, _ in exact.asked} == {None}
    assert all(user is not None for _, _, user in exact.asked)


def test_where_too_much_would_be_asked_for_all_allowed_rows_are_named_in_parts(
    corpus: mk.Corpus, local: mk.Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ALLOWED", 30)
    monkeypatch.setattr(engine, "_MOST", 50)
    exact = Exact()
    search = mk.Retriever(encoder="hash", index=mk.Index(engine=exact)).fit(corpus)
    scope = {"where": "memory_id < 'm0200'", "as_of": DAY}
    assert_same(local.search(QUESTIONS, **scope), search.search(QUESTIONS, **scope))
    assert max(ids or 0 for _, ids, _ in exact.asked) == 30


def test_rows_are_put_once_and_again_where_some_are_missing(corpus: mk.Corpus, milvus: Milvus) -> None:
    search = mk.Retriever(encoder=None, index=mk.Index(engine=milvus), gram_weight=0.0).fit(corpus)
    before = search.search(QUESTIONS, as_of=DAY)
    name = next(iter(search.index_.elsewhere.held.values())).collection
    full = milvus.count(name)
    milvus._call("delete", name, filter="id < 200")
    milvus._call("flush", name)
    assert milvus.count(name) < full
    again = mk.Retriever(encoder=None, index=mk.Index(engine=milvus), gram_weight=0.0).fit(corpus)
    assert milvus.count(name) == full
    assert_same(before, again.search(QUESTIONS, as_of=DAY))
    milvus._call("release_collection", name)  # as a server that was killed and started again has it
    again = mk.Retriever(encoder=None, index=mk.Index(engine=milvus), gram_weight=0.0).fit(corpus)
    assert_same(before, again.search(QUESTIONS, as_of=DAY))
    milvus.drop(name)
    assert name not in milvus.names()


def test_a_milvus_that_is_down_is_one_message(corpus: mk.Corpus) -> None:
    down = Milvus("http://127.0.0.1:9", timeout=0.5)
    with pytest.raises(MemkitError, match=r"^Milvus at http://127\.0\.0\.1:9: .*Is it running\?"):
        mk.Retriever(encoder=None, index=mk.Index(engine=down)).fit(corpus)


def test_what_is_no_engine_is_refused(corpus: mk.Corpus) -> None:
    with pytest.raises(ParameterError, match="Did you mean 'milvus'"):
        mk.Retriever(encoder=None, index=mk.Index(engine="milvs")).fit(corpus)
    talk = mk.from_table({"text": ["чай", "кофе"], "extra": ['{"talk": "a"}'] * 2})
    with pytest.raises(ParameterError, match="context_column"):
        mk.Retriever(encoder=None, index=mk.Index(engine=Exact(), context_column="talk")).fit(talk)
    of_session = mk.from_table({"text": ["чай", "кофе"], "session": ["a", "a"]})
    note = (
        mk.Retriever(encoder=None, index=mk.Index(engine=Exact()))
        .fit(of_session)
        .search("чай")
        .schema.metadata[b"note"]
        .decode()
    )
    assert "(column 'session') do not count by the turns around them" in note


def test_a_saved_index_names_no_engine(tmp_path: Path) -> None:
    corpus = mk.from_table({"text": ["чай", "кофе"]})
    search = mk.Retriever(encoder=None, index=mk.Index(engine=Exact())).fit(corpus)
    search.save(tmp_path / "search")
    assert mk.Retriever.load(tmp_path / "search", corpus).index.engine == "local"


def in_file(array: Any) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_what_another_engine_holds_is_not_held_in_memory_too(corpus: mk.Corpus, local: mk.Retriever) -> None:
    search = mk.Retriever(encoder="hash", index=mk.Index(engine=Exact()), mmr_lambda=0.5).fit(corpus)
    vectors, postings = search.arms_["vector"].vectors_, search.arms_["bm25"].postings_
    assert all(map(in_file, (vectors, postings.rows, postings.counts)))
    assert (postings.starts < 0).all()
    alone = local.with_params(mmr_lambda=0.5).search(QUESTIONS, as_of=DAY)
    assert_same(search.search(QUESTIONS, as_of=DAY), alone)
