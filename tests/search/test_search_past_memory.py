"""Buckets written table by table, of more than memory holds: a user's question opens that user's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import FormatError, MemkitError, ParameterError, QueryError
from memkit.scale.buckets import write_buckets

pytestmark = pytest.mark.outside

DAY, DIM, N, AT_ONCE = "2026-03-01", 16, 900, 300
WORDS = np.array(["пул", "соединений", "release", "friday", "чай", "зелёный", "кофе", "план", "deploy", "ночь"])


class Given:
    """Vectors of memories are given; a question is made of its words."""

    dim, fingerprint, batch_size = DIM, "test-given", 256

    def encode_document(self, texts: list[str]) -> np.ndarray:
        raise AssertionError("vectors are given")

    def encode_query(self, texts: list[str]) -> np.ndarray:
        return np.stack(
            [vector([WORDS.tolist().index(word) for word in text.split() if word in WORDS]) for text in texts]
        )

    def get_config(self) -> dict[str, Any]:
        return {}


def vector(words: list[int], seed: int = 0) -> np.ndarray:
    total = sum((np.random.default_rng(word).standard_normal(DIM) for word in words), np.zeros(DIM))
    total = total + 0.3 * np.random.default_rng([1, seed]).standard_normal(DIM)
    return np.asarray(total / np.linalg.norm(total), np.float32)


def tables() -> Iterator[pa.Table]:
    for start in range(0, N, AT_ONCE):
        draw = np.random.default_rng(start)
        chosen = [draw.integers(0, len(WORDS), 4).tolist() for _ in range(AT_ONCE)]
        yield pa.table(
            {
                "memory_id": [f"m{start + i:05}" for i in range(AT_ONCE)],
                "text": [" ".join(WORDS[some]) for some in chosen],
                "user_id": [f"u{i % 40}" for i in range(AT_ONCE)],
                "created_at": [f"2026-0{1 + i % 4}-0{1 + i % 9}" for i in range(AT_ONCE)],
                "vector": [vector(some, start + i).tolist() for i, some in enumerate(chosen)],
            }
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lake")
    write_buckets(place, tables(), buckets=4)
    return place


@pytest.fixture(scope="module")
def lake(folder: Path) -> Any:
    return mk.open(folder, trust=True)


def fitted(lake: Any, **settings: Any) -> mk.Retriever:
    return mk.Retriever(**{"encoder": Given(), "fold": "none"} | settings).fit(lake)


QUESTIONS = ["зелёный чай", "release friday deploy", "план кофе ночь", "пул соединений"]


@pytest.mark.quick
def test_what_is_written_table_by_table_is_the_corpus(lake: Any) -> None:
    assert lake.n_memories == N
    assert sorted(lake.memories["memory_id"].to_pylist()) == [f"m{i:05}" for i in range(N)]
    assert lake.bucket(lake.bucket_of("u3")).tables["vectors"]["vector"].type == pa.list_(pa.float32(), DIM)


def test_given_vectors_are_searched_however_many_buckets_hold_them(lake: Any, tmp_path: Path) -> None:
    write_buckets(tmp_path, tables(), buckets=1)
    one, in_buckets = fitted(mk.open(tmp_path)), fitted(lake)
    for where in (None, "user_id = 'u1'", "created_at > '2026-02-01'"):
        a, b = (search.search(QUESTIONS, k=20, where=where, as_of=DAY) for search in (one, in_buckets))
        assert a["memory_id"].equals(b["memory_id"]), where
        assert a["score"].to_pylist() == pytest.approx(b["score"].to_pylist(), abs=1e-9)
    vectors = {row["memory_id"]: row["vector"] for table in tables() for row in table.to_pylist()}
    best = in_buckets.search(QUESTIONS[0], k=1, as_of=DAY).to_pylist()[0]
    cosine = float(np.dot(Given().encode_query(QUESTIONS[:1])[0], vectors[best["memory_id"]]))
    assert best["vector"] == pytest.approx(cosine, abs=1e-5)


@pytest.mark.quick
def test_an_engine_that_is_none_is_said(lake: Any) -> None:
    with pytest.raises(ParameterError, match="'engine' must be 'local', 'milvus'"):
        mk.Retriever(encoder=None, index=mk.Index(engine="mapped")).fit(mk.from_table({"text": ["чай"]}))
    with pytest.raises(ParameterError, match="buckets are searched by local arms"):
        fitted(lake, index=mk.Index(engine="milvus"))


@pytest.mark.quick
def test_a_predicate_reads_the_lake_and_nothing_else(lake: Any) -> None:
    search = fitted(lake)
    hits = search.search("чай", k=5, where="memory_id in (select memory_id from problems)", as_of=DAY)
    assert hits.num_rows == 0
    for where in ("memory_id in (from read_text('/etc/passwd'))", "memory_id = getenv('HOME')"):
        with pytest.raises(QueryError):
            search.search("чай", where=where, as_of=DAY)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": ["a"]}], "column 'memory_id'"),
        ([{"memory_id": ["a", "b"], "text": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}], "vectors of one length"),
        ([{"memory_id": ["a"], "text": ["чай"]}, {"memory_id": ["a"], "text": ["чай"]}], "memory_id"),
    ],
    ids=["no id", "vectors of two lengths", "an id twice"],
)
def test_what_cannot_be_laid_out_is_said(rows: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(MemkitError, match=message):
        write_buckets(tmp_path, map(pa.table, rows), buckets=1)
    assert not (tmp_path / "buckets.json").exists()


def test_a_layout_that_was_stopped_is_no_lake_until_it_is_laid_out_again(tmp_path: Path) -> None:
    def stopping() -> Iterator[pa.Table]:
        yield next(tables())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_buckets(tmp_path, stopping(), buckets=3)
    with pytest.raises(FormatError):
        mk.open(tmp_path)
    (tmp_path / "bucket-00002").mkdir()  # as a stop a moment later would have left it
    with pytest.raises(FormatError, match="an incomplete save"):
        mk.open(tmp_path)
    write_buckets(tmp_path, tables(), buckets=2)
    held: Any = mk.open(tmp_path)
    assert held.n_memories == N
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bucket-00000", "bucket-00001", "buckets.json"]


def test_another_lake_is_left_alone(folder: Path) -> None:
    before = json.loads((folder / "buckets.json").read_text())
    with pytest.raises(MemkitError, match="a lake lies there"):
        write_buckets(folder, [], buckets=1)
    assert json.loads((folder / "buckets.json").read_text()) == before


def test_nothing_can_be_laid_out_and_asked(tmp_path: Path) -> None:
    write_buckets(tmp_path, [], buckets=2)
    assert mk.Retriever(encoder=None).fit(mk.open(tmp_path, trust=True)).search("чай").num_rows == 0
