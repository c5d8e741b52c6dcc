"""Indexes of buckets as mapped files: built bucket by bucket, searched without being held."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import FormatError, MemkitError, ParameterError, QueryError
from memkit.search.fitted import mapped

DAY, DIM, N = "2026-03-01", 16, 3_000
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
    made = sum((np.random.default_rng(word).standard_normal(DIM) for word in words), np.zeros(DIM))
    made = made + 0.3 * np.random.default_rng([1, seed]).standard_normal(DIM)
    return np.asarray(made / np.linalg.norm(made), np.float32)


def tables() -> Iterator[pa.Table]:
    for start in range(0, N, 1_000):
        draw = np.random.default_rng(start)
        chosen = [draw.integers(0, len(WORDS), 4).tolist() for _ in range(1_000)]
        yield pa.table(
            {
                "memory_id": [f"m{start + at:05}" for at in range(1_000)],
                "text": [" ".join(WORDS[some]) for some in chosen],
                "user_id": [f"u{at % 40}" for at in range(1_000)],
                "created_at": [f"2026-0{1 + at % 4}-0{1 + at % 9}" for at in range(1_000)],
                "vector": [vector(some, start + at).tolist() for at, some in enumerate(chosen)],
            }
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lake")
    mk.write_buckets(place, tables(), buckets=4)
    return place


@pytest.fixture(scope="module")
def lake(folder: Path) -> Any:
    return mk.open(folder, trust=True)


def fitted(lake: Any, **settings: Any) -> mk.Retriever:
    return mk.Retriever(**{"encoder": Given(), "engine": "mapped", "fold": "none"} | settings).fit(lake)


QUESTIONS = ["зелёный чай", "release friday deploy", "план кофе ночь", "пул соединений"]


def test_what_is_written_table_by_table_is_the_corpus(lake: Any) -> None:
    assert lake.n_memories == N
    assert sorted(lake.memories["memory_id"].to_pylist()) == [f"m{at:05}" for at in range(N)]
    assert lake.bucket(lake.bucket_of("u3")).tables["vectors"]["vector"].type == pa.list_(pa.float32(), DIM)


def test_given_vectors_are_searched_and_hits_are_those_of_arms_in_memory(lake: Any) -> None:
    arms = [fitted(lake, engine=engine) for engine in ("local", "mapped")]
    for where in (None, "user_id = 'u1'", "created_at > '2026-02-01'"):
        one, many = (search.search(QUESTIONS, k=20, where=where, as_of=DAY) for search in arms)
        assert one.equals(many), where
        assert one["vector"].null_count < len(one)


def test_lists_find_what_they_say_they_find(lake: Any) -> None:
    settings = {"vector_weight": 1.0, "bm25_weight": 0.0, "gram_weight": 0.0, "decay": "none", "normalise": "none"}
    lists, exact = fitted(lake, ann="ivf", **settings), fitted(lake, ann="exact", **settings)
    assert lists.index_.mapped.told["recall_at_100"] >= 0.95
    assert exact.index_.mapped.told["recall_at_100"] == 1.0
    found, right = (search.search(QUESTIONS, k=100, as_of=DAY).to_pandas() for search in (lists, exact))
    both = found.merge(right, on=["query_id", "memory_id"])
    assert len(both) >= 0.95 * len(right)
    assert (both["vector_x"] == both["vector_y"]).all()


def test_words_score_the_same_whatever_finds_the_vectors(lake: Any) -> None:
    lists, local = fitted(lake, ann="ivf", pool=3_000), fitted(lake, engine="local", pool=3_000)
    found, right = (search.search(QUESTIONS, k=50, as_of=DAY).to_pandas() for search in (lists, local))
    both = found.merge(right, on=["query_id", "memory_id"])
    assert len(both) > 150
    for name in ("bm25", "gram"):
        assert both[f"{name}_x"].equals(both[f"{name}_y"])


def test_a_build_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mk.write_buckets(tmp_path, tables(), buckets=3)
    held, done, real = mk.open(tmp_path, trust=True), [], mapped.lay_out

    def lay_out(*task: Any) -> Path:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task[1])
        return real(*task)

    monkeypatch.setattr(mapped, "lay_out", lay_out)
    with pytest.raises(KeyboardInterrupt):
        fitted(held)
    laid = {path: path.stat().st_mtime_ns for path in tmp_path.glob("mapped/*/*/laid")}
    assert len(laid) == 2
    monkeypatch.setattr(mapped, "lay_out", real)
    found = fitted(held).search(QUESTIONS, as_of=DAY)
    assert {path: path.stat().st_mtime_ns for path in laid} == laid
    assert found.equals(fitted(held, engine="local").search(QUESTIONS, as_of=DAY))


def test_an_index_that_is_not_whole_is_said(tmp_path: Path) -> None:
    texts, day = ["чай", "кофе", "пул", "план"], [DAY] * 4
    memories = {"text": texts, "user_id": list("abcd"), "created_at": day, "expires_at": day}
    mk.from_table(memories).save(tmp_path, buckets=2)
    search = mk.Retriever(encoder="hash", engine="mapped")
    search.fit(mk.open(tmp_path, trust=True))
    (folder,) = tmp_path.glob("mapped/*")
    one = folder / "bucket-00001"
    for path in (folder / "told.json", *(one / name for name in ("told.json", "memory.npy", "memories.arrow"))):
        held = path.read_bytes()
        path.write_bytes(b"x")
        with pytest.raises(FormatError, match=r"an index that a Retriever wrote.*remove it, and fit again"):
            search.fit(mk.open(tmp_path, trust=True)).search("чай")
        path.write_bytes(held)
    files = {path: path.read_bytes() for path in one.iterdir() if path.is_file()}
    assert {"expires.npy", "made.npy"} <= {path.name for path in files}
    for path, held in files.items():
        path.unlink()
        with pytest.raises(FormatError, match="remove it, and fit again"):
            search.fit(mk.open(tmp_path, trust=True)).search("чай", as_of=DAY)
        path.write_bytes(held)
    shutil.rmtree(one)
    with pytest.raises(FormatError, match="remove it, and fit again"):
        search.fit(mk.open(tmp_path, trust=True)).search("чай")
    shutil.rmtree(folder)
    assert search.fit(mk.open(tmp_path, trust=True)).search("чай", as_of=DAY).num_rows


def test_it_is_said_where_files_cannot_be_mapped(lake: Any, folder: Path) -> None:
    with pytest.raises(ParameterError, match="trust=True"):
        fitted(mk.open(folder))
    with pytest.raises(ParameterError, match="lake of buckets"):
        mk.Retriever(encoder=None, engine="mapped").fit(mk.from_table({"text": ["чай"]}))
    with pytest.raises(ParameterError, match="'hnsw'"):
        fitted(lake, ann="hnsw")


def test_a_predicate_reads_the_lake_and_nothing_else(lake: Any, tmp_path: Path) -> None:
    search = fitted(lake)
    few = search.search("чай", k=5, where="memory_id in (select memory_id from problems)", as_of=DAY)
    assert few.num_rows == 0
    for where in (
        "memory_id in (from read_text('/etc/passwd'))",
        "fts_main_memories.x = 1",
        "memory_id = getenv('HOME')",
    ):
        with pytest.raises(QueryError):
            search.search("чай", where=where, as_of=DAY)
    scanned = lake.scanned(0)
    scanned.ask("select count(*) from memories")
    with pytest.raises(Exception, match="Cannot access"):
        scanned._con.execute(f"copy (select 1) to '{tmp_path}/a.csv'")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"text": ["a"]}], "column 'memory_id'"),
        ([{"memory_id": ["a", "b"], "text": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}], "vectors of one length"),
        ([{"memory_id": ["a"], "text": ["чай"]}, {"memory_id": ["a"], "text": ["чай"]}], "memory_id"),
    ],
    ids=["no id", "vectors of two lengths", "an id twice"],
)
def test_what_cannot_be_laid_out_is_said(given: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(MemkitError, match=message):
        mk.write_buckets(tmp_path, map(pa.table, given), buckets=1)
    assert not (tmp_path / "buckets.json").exists()


def test_a_layout_that_was_stopped_is_no_lake_until_it_is_laid_out_again(tmp_path: Path) -> None:
    def stopping() -> Iterator[pa.Table]:
        yield next(tables())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mk.write_buckets(tmp_path, stopping(), buckets=3)
    with pytest.raises(FormatError):
        mk.open(tmp_path)
    (tmp_path / "bucket-00002").mkdir()  # as a stop a moment later would have left it
    with pytest.raises(FormatError, match="a save that was stopped"):
        mk.open(tmp_path)
    mk.write_buckets(tmp_path, tables(), buckets=2)
    held: Any = mk.open(tmp_path)
    assert held.n_memories == N
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bucket-00000", "bucket-00001", "buckets.json"]


def test_another_lake_is_left_alone(folder: Path) -> None:
    before = json.loads((folder / "buckets.json").read_text())
    with pytest.raises(MemkitError, match="a lake lies there"):
        mk.write_buckets(folder, [], buckets=1)
    assert json.loads((folder / "buckets.json").read_text()) == before


def test_nothing_can_be_laid_out_and_asked(tmp_path: Path) -> None:
    mk.write_buckets(tmp_path, [], buckets=2)
    assert mk.Retriever(encoder=None, engine="mapped").fit(mk.open(tmp_path, trust=True)).search("чай").num_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "buckets"), [(1_000_000, 4), (10_000_000, 32)])
def test_more_memories_than_memory_holds_are_searched_in_eight_gigabytes(
    n: int, buckets: int, script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    bench, told = script("benchmarks/bench_past_memory.py"), {}
    for step in bench.STEPS:  # each in a process that may not take more
        told |= bench.run(step, 8.0, str(tmp_path), n, buckets, 1)
    assert told["recall at 100"] >= 0.95
    assert told["recall at 100 on the sample"] >= 0.95
    assert max(value for name, value in told.items() if "own MiB" in name) < 4_096
