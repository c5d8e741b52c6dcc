"""Vectors are encoded once, never answered from a damaged file, and never mixed between models."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import memkit as mk
from memkit.errors import MemkitError, ParameterError, StaleIndexError
from memkit.index import store
from memkit.index.cache import VectorCache, shared_cache
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import TextEncoder, content_key, cores, one_thread
from memkit.index.store import rows_digest
from memkit.progress import bar

TEXTS = ["пул соединений", "connection pool", "кот спит", "", "пул соединений"]


class Counting(TextEncoder):
    """Letters as numbers; counts the texts that it was asked for, and may fail after some."""

    kind = "counting"
    batch_size = 4

    def __init__(self, weights: float = 1.0, fail_after: int | None = None) -> None:
        self.weights, self.fail_after, self.asked = weights, fail_after, 0

    @property
    def dim(self) -> int:
        return 3

    def _config(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def _embed(self, texts: list[str], role: str) -> Any:
        self.asked += len(texts)
        if self.fail_after is not None and self.asked > self.fail_after:
            raise MemkitError("the model broke")
        return np.array([[len(t), self.weights * t.count("п"), 1.0 + (role == "query")] for t in texts])


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.parquet"))


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_comes_from_the_cache_is_what_the_encoder_gives(tmp_path: Path, on_disk: bool) -> None:
    cache, encoder = VectorCache(tmp_path if on_disk else None), Counting()
    expected = Counting().encode_document(TEXTS)
    assert (cache.encode(encoder, TEXTS) == expected).all()
    assert (cache.encode(encoder, TEXTS[::-1]) == expected[::-1]).all()
    assert encoder.asked == 3  # the repeated text once, the empty one never


def test_queries_and_documents_are_kept_apart() -> None:
    cache, encoder = VectorCache(), Counting()
    query, document = cache.encode(encoder, ["пул"], "query"), cache.encode(encoder, ["пул"], "document")
    assert (query == encoder.encode_query(["пул"])).all()
    assert (document == encoder.encode_document(["пул"])).all()
    assert (query != document).any()


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ParameterError, match="'role'"):
        VectorCache().encode(Counting(), ["пул"], "passage")


def test_another_process_finds_the_vectors_in_the_folder(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    later, encoder = VectorCache(tmp_path), Counting()
    assert (later.encode(encoder, TEXTS) == Counting().encode_document(TEXTS)).all()
    assert encoder.asked == 0


def test_a_reader_that_began_earlier_sees_what_a_writer_added(tmp_path: Path) -> None:
    reader, encoder = VectorCache(tmp_path), Counting()
    reader.encode(encoder, ["кот"])
    VectorCache(tmp_path).encode(Counting(), ["пул"])
    reader.encode(encoder, ["пул"])
    assert encoder.asked == 1


def test_a_changed_model_meets_no_old_vector_and_leaves_them_where_they_are(tmp_path: Path) -> None:
    cache, old, new = VectorCache(tmp_path), Counting(1.0), Counting(2.0)
    cache.encode(old, TEXTS)
    assert (cache.encode(new, TEXTS) == Counting(2.0).encode_document(TEXTS)).all()
    assert new.asked == 3
    VectorCache(tmp_path).encode(again := Counting(1.0), TEXTS)
    assert again.asked == 0


def test_a_model_that_breaks_half_way_harms_nothing_and_the_next_run_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memkit.index.cache._BATCH", 4)
    texts = [f"запись {i}" for i in range(12)]
    VectorCache(tmp_path).encode(Counting(1.0), texts)
    with pytest.raises(MemkitError, match="broke"):
        VectorCache(tmp_path).encode(Counting(2.0, fail_after=8), texts)
    VectorCache(tmp_path).encode(resumed := Counting(2.0), texts)
    VectorCache(tmp_path).encode(old := Counting(1.0), texts)
    assert (resumed.asked, old.asked) == (4, 0)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "not parquet"])
def test_a_damaged_shard_is_noticed_and_encoded_again(tmp_path: Path, damage: str) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    (shard,) = _shards(tmp_path)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes({"flip": bytes(data), "cut": data[:50], "empty": b"", "not parquet": b"PAR1"}[damage])
    cache, encoder = VectorCache(tmp_path), Counting()
    assert (cache.encode(encoder, TEXTS) == Counting().encode_document(TEXTS)).all()
    assert (encoder.asked, cache.damaged) == (3, [shard.name])
    VectorCache(tmp_path).encode(later := Counting(), TEXTS)
    assert later.asked == 0


def test_a_killed_writer_leaves_only_a_temporary_file_that_nobody_reads(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    folder = _shards(tmp_path)[0].parent
    (folder / ".half.tmp").write_bytes(b"PAR1 half")
    cache, encoder = VectorCache(tmp_path), Counting()
    cache.encode(encoder, TEXTS)
    assert (encoder.asked, cache.damaged) == (0, [])


def test_a_write_that_fails_says_so_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = VectorCache(tmp_path)
    cache.encode(Counting(), ["пул"])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MemkitError, match="No space left"):
        cache.encode(Counting(), ["кот"])
    monkeypatch.undo()
    assert [path.suffix for path in _shards(tmp_path)[0].parent.iterdir()] == [".parquet"]
    VectorCache(tmp_path).encode(encoder := Counting(), ["пул"])
    assert encoder.asked == 0


def test_many_small_shards_become_one_with_the_same_vectors(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    texts = [f"запись {i}" for i in range(40)]
    for text in texts:
        cache.encode(Counting(), [text])
    assert len(_shards(tmp_path)) < 40
    later = VectorCache(tmp_path).encode(encoder := Counting(), texts)
    assert encoder.asked == 0
    assert (later == Counting().encode_document(texts)).all()


def test_shards_are_plain_parquet_without_pickle(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(Counting(), ["пул"])
    table = pq.read_table(_shards(tmp_path)[0])
    assert table["key"].to_pylist() == [content_key("пул", "document")]
    assert table["vector"].to_pylist()[0] == pytest.approx(Counting().encode_document(["пул"])[0].tolist())


def test_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    cache, encoder = VectorCache(max_memory=2 * 3 * 4), Counting()  # two vectors of three floats
    for text in ("a", "b", "a", "c", "a"):
        cache.encode(encoder, [text])
    assert encoder.asked == 3
    cache.encode(encoder, ["b"])
    assert encoder.asked == 4
    assert (cache.encode(encoder, list("abcdef")) == encoder.encode_document(list("abcdef"))).all()


def test_disk_is_bounded_and_other_models_go_first(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(Counting(1.0), TEXTS)
    size = _shards(tmp_path)[0].stat().st_size
    cache = VectorCache(tmp_path, max_disk=int(1.5 * size))
    cache.encode(Counting(2.0), TEXTS)
    assert [path.parent.name for path in _shards(tmp_path)] == [Counting(2.0).fingerprint]


def test_queries_stay_in_memory_and_write_no_files(tmp_path: Path) -> None:
    cache, encoder = VectorCache(tmp_path), Counting()
    for _ in range(2):
        cache.encode(encoder, ["пул"], "query")
    assert (encoder.asked, _shards(tmp_path)) == (1, [])


def test_long_work_shows_one_bar_and_short_work_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bars = []

    def spy(what: str, silent: bool, **options: Any) -> Any:
        bars.append((options["total"], silent))
        return bar(what, silent=True, **options)

    monkeypatch.setattr("memkit.index.cache.bar", spy)
    monkeypatch.setattr("memkit.index.encoders.base.bar", spy)
    VectorCache().encode(Counting(), [f"запись {i}" for i in range(160)])
    assert [silent for _, silent in bars] == [False, True, True, True]  # 160 texts by 16 batches of 4
    bars.clear()
    VectorCache().encode(Counting(), ["пул"])
    assert all(silent for _, silent in bars)


def test_a_refitted_encoder_is_never_cached(tmp_path: Path) -> None:
    encoder = as_encoder("lsa").fit(["пул соединений", "кот спит", "connection pool"])
    cache = VectorCache(tmp_path)
    assert (cache.encode(encoder, ["пул"]) == encoder.encode_document(["пул"])).all()
    assert (cache.encoded, _shards(tmp_path)) == (0, [])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_encoder_of_the_user_cannot_put_nan_into_the_cache(tmp_path: Path, bad: float) -> None:
    class Theirs(Counting):
        def encode_document(self, texts: Any) -> Any:
            return np.array([[bad, 1, 1]] * len(texts))

    with pytest.raises(MemkitError, match=r"counting-.*position 0"):
        VectorCache(tmp_path).encode(Theirs(), ["пул"])
    assert _shards(tmp_path) == []


def test_rows_of_the_users_encoder_become_unit_rows() -> None:
    class Theirs(Counting):
        def encode_document(self, texts: Any) -> Any:
            return np.array([[3, 4, 0]] * len(texts))

    assert VectorCache().encode(Theirs(), ["пул"])[0] == pytest.approx([3 / 5, 4 / 5, 0])


def test_a_cache_travels_to_another_process_by_its_folder(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    cache.encode(Counting(), TEXTS)
    again = pickle.loads(pickle.dumps(cache))  # noqa: S301  # our own bytes
    again.encode(encoder := Counting(), TEXTS)
    assert encoder.asked == 0


def test_the_shared_cache_is_one_and_no_test_has_it_on_disk() -> None:
    assert mk.vector_cache() is shared_cache()
    assert mk.vector_cache().folder is None


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., VectorCache]]:
    """users(): the process's cache as a new process would have it, with this home."""
    monkeypatch.delenv("MEMKIT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def afresh(**given: Any) -> VectorCache:
        shared_cache.cache_clear()
        return mk.vector_cache(**given)

    yield afresh
    shared_cache.cache_clear()


def test_nothing_set_it_lies_in_the_users_cache_folder_and_a_later_process_finds_it(
    users: Callable[..., VectorCache], tmp_path: Path
) -> None:
    assert users().folder == tmp_path / ".cache" / "memkit" / "vectors"
    users().encode(Counting(), TEXTS)
    assert (tmp_path / ".cache" / "memkit" / "vectors").stat().st_mode & 0o077 == 0
    users().encode(encoder := Counting(), TEXTS)
    assert encoder.asked == 0
    assert mk.vector_cache().size == sum(path.stat().st_size for path in _shards(tmp_path / ".cache/memkit/vectors"))
    assert repr(mk.vector_cache()).endswith("of at most 4096 MiB>")


def test_the_environment_or_a_call_moves_it_or_turns_it_off(
    users: Callable[..., VectorCache], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert users().folder == tmp_path / "xdg" / "memkit" / "vectors"
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "own"))
    assert users().folder == tmp_path / "own" / "vectors"
    assert users(folder=tmp_path / "given").folder == tmp_path / "given"
    assert users(folder=None).folder is None
    for word in ("off", "0", "", "None"):
        monkeypatch.setenv("MEMKIT_CACHE", word)
        users().encode(Counting(), TEXTS)
        assert users().folder is None
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_cleared_and_nothing_else_in_its_folder_goes(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    cache.encode(Counting(), TEXTS)
    (tmp_path / "mine.txt").write_text("мой")
    cache.clear()
    assert (cache.size, _shards(tmp_path), (tmp_path / "mine.txt").read_text()) == (0, [], "мой")
    cache.encode(encoder := Counting(), TEXTS)
    assert encoder.asked == 3


def test_where_the_users_folder_cannot_be_written_work_goes_on_in_memory_and_it_is_said_once(
    users: Callable[..., VectorCache], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".cache").write_text("a file where the folder should be")
    cache = users()
    for text in ("пул", "кот"):
        assert (cache.encode(Counting(), [text]) == Counting().encode_document([text])).all()
    assert [record.message for record in caplog.records if "in memory alone" in record.message] == caplog.messages
    assert len(caplog.messages) == 1


def test_what_only_this_process_can_tell_apart_is_not_kept_on_disk(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(as_encoder(lambda texts: [[len(text), 1.0] for text in texts]), TEXTS)
    assert _shards(tmp_path) == []


def test_texts_that_are_compared_are_kept_too(users: Callable[..., VectorCache]) -> None:
    table = {"text": ["пул соединений", "кот спит"], "memory_id": ["a", "b"]}
    users()
    mk.Deduplicator(encoder=(first := Counting())).fit(mk.from_table(table))
    users()
    mk.Deduplicator(encoder=(second := Counting())).fit(mk.from_table(table))
    assert (first.asked, second.asked) == (2, 0)


def test_work_of_more_than_a_minute_is_announced_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter(range(0, 10**6, 32))  # 64 texts take 32 seconds, so the 96 that are left 48, or the 336 left 168
    monkeypatch.setattr("memkit.index.cache.time.monotonic", lambda: float(next(clock)))
    VectorCache().encode(Counting(), [f"запись {i}" for i in range(160)])
    assert caplog.messages == []
    VectorCache().encode(Counting(), [f"запись {i}" for i in range(400)])
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("memkit: encoding 400 texts takes some 3 minutes here.")


def test_batches_side_by_side_come_in_their_order_and_leave_the_users_threads_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Parallel(Counting):
        parallel = True

    monkeypatch.setattr("memkit.index.encoders.base.cores", lambda: 4)
    texts = ["п" * (i % 17) for i in range(100)]
    before = cores()
    with ThreadPoolExecutor(4) as pool, one_thread():
        found = list(pool.map(lambda _: Parallel().encode_document(texts), range(8)))
    assert all((one == Counting().encode_document(texts)).all() for one in found)
    assert cores() == before


def test_a_key_follows_the_clean_text() -> None:
    assert content_key("и\u0306", "document") == content_key("й", "document")
    assert content_key("a\x00", "document") == content_key("a ", "document")
    assert content_key("a", "document") != content_key("b", "document")


def test_no_two_lists_of_rows_share_a_digest() -> None:
    lists = [["a", "b"], ["ab"], ["ab", ""], ["", "ab"], ["b", "a"], [], [""], ["a\x00b"], ["\ud800"]]
    assert len({rows_digest(rows) for rows in lists}) == len(lists)


def test_a_stored_file_is_found_by_name_and_a_damaged_or_missing_one_refused(tmp_path: Path) -> None:
    name = store.put(tmp_path, ".bin", lambda path: path.write_bytes(b"data") and None, prefix="x-")
    assert store.get(tmp_path, name, "x-").read_bytes() == b"data"
    (tmp_path / name).write_bytes(b"date")
    with pytest.raises(StaleIndexError, match="damaged"):
        store.get(tmp_path, name, "x-")
    (tmp_path / name).unlink()
    with pytest.raises(StaleIndexError, match="missing"):
        store.get(tmp_path, name, "x-")


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.npy").write_bytes(b"")
    with pytest.raises(StaleIndexError, match="missing"):
        store.get(tmp_path / "inside", "../outside.npy")


def test_texts_are_forgotten_in_memory_and_on_disk_and_others_are_not(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    encoder = as_encoder("hash")
    for role in ("document", "query"):
        cache.encode(encoder, ["чай", "мёд", "сад"], role, keep=True)  # type: ignore[arg-type]  # one of the two
    cache.forget(["мёд", "нет такого"])
    before = cache.encoded
    for role in ("document", "query"):
        cache.encode(encoder, ["чай", "мёд", "сад"], role, keep=False)  # type: ignore[arg-type]  # as above
    assert cache.encoded - before == 2
    left = {
        key
        for shard in tmp_path.glob("*/*.parquet")
        for key in pq.read_table(shard, partitioning=None)["key"].to_pylist()
    }
    assert left == {content_key(text, role) for text in ("чай", "сад") for role in ("document", "query")}


def test_a_cache_within_the_folder_that_is_read_is_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "cache"))
    root = mk.write_files(tmp_path, {"MEMORY.md": "# Чай\n\nЗелёный.\n"})
    shared_cache.cache_clear()
    try:
        before = mk.read(root)
        found = mk.Retriever(encoder=Counting()).fit(before).search("чай", k=1)
        assert found.num_rows == 1
        assert mk.vector_cache().size > 0
        after = mk.read(root)
    finally:
        shared_cache.cache_clear()
    assert after.memories.equals(before.memories)
    assert after.problems.equals(before.problems)
