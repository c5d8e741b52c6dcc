"""Vectors are encoded once, never answered from a damaged file, and never mixed between models."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memkit as mk
from memkit.base.parallel import bar
from memkit.errors import MemkitError, ParameterError, StaleIndexError
from memkit.index import cache, store
from memkit.index.cache import MANY_QUERIES, Shelf, VectorCache, shared_cache
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import TextEncoder, content_key, cores, one_thread

TEXTS = ["пул соединений", "connection pool", "кот спит", "", "пул соединений"]


class Counting(TextEncoder):
    """Letters as numbers; counts the texts that it was asked for, and may fail after some."""

    kind = "counting"
    batch_size = 4

    def __init__(self, weights: float = 1.0, fail_after: int | None = None) -> None:
        self.weights, self.fail_after, self.n_encoded = weights, fail_after, 0

    @property
    def dim(self) -> int:
        return 3

    def _config(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def _embed(self, texts: list[str], role: str) -> Any:
        self.n_encoded += len(texts)
        if self.fail_after is not None and self.n_encoded > self.fail_after:
            raise MemkitError("the model broke")
        return np.array([[len(t), self.weights * t.count("п"), 1.0 + (role == "query")] for t in texts])


def _file(folder: Path) -> Path:
    return folder / "kept" / "vectors.sqlite"


def _keys_on_disk(folder: Path) -> set[tuple[str, bytes]]:
    """Fingerprints and keys of the vectors on disk."""
    if not _file(folder).exists():
        return set()
    with contextlib.closing(sqlite3.connect(_file(folder))) as con:
        return set(con.execute("select fingerprint, key from vectors join models on models.id = model"))


def _bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.quick
@pytest.mark.parametrize("on_disk", [False, True])
def test_what_comes_from_the_cache_is_what_the_encoder_gives(tmp_path: Path, on_disk: bool) -> None:
    cache, encoder = VectorCache(tmp_path if on_disk else None), Counting()
    expected = Counting().encode_document(TEXTS)
    assert (cache.encode(encoder, TEXTS) == expected).all()
    assert (cache.encode(encoder, TEXTS[::-1]) == expected[::-1]).all()
    assert encoder.n_encoded == 3  # the repeated text once, the empty one never


@pytest.mark.quick
def test_queries_and_documents_are_kept_apart() -> None:
    cache, encoder = VectorCache(), Counting()
    query, document = cache.encode(encoder, ["пул"], "query"), cache.encode(encoder, ["пул"], "document")
    assert (query == encoder.encode_query(["пул"])).all()
    assert (document == encoder.encode_document(["пул"])).all()
    assert (query != document).any()


@pytest.mark.quick
def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ParameterError, match="'role'"):
        VectorCache().encode(Counting(), ["пул"], "passage")


def test_another_process_finds_the_vectors_in_the_folder(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    later, encoder = VectorCache(tmp_path), Counting()
    assert (later.encode(encoder, TEXTS) == Counting().encode_document(TEXTS)).all()
    assert encoder.n_encoded == 0


def test_a_reader_that_began_earlier_sees_what_a_writer_added(tmp_path: Path) -> None:
    reader, encoder = VectorCache(tmp_path), Counting()
    reader.encode(encoder, ["кот"])
    VectorCache(tmp_path).encode(Counting(), ["пул"])
    reader.encode(encoder, ["пул"])
    assert encoder.n_encoded == 1


def test_a_changed_model_meets_no_old_vector_and_leaves_them_where_they_are(tmp_path: Path) -> None:
    cache, old, new = VectorCache(tmp_path), Counting(1.0), Counting(2.0)
    cache.encode(old, TEXTS)
    assert (cache.encode(new, TEXTS) == Counting(2.0).encode_document(TEXTS)).all()
    assert new.n_encoded == 3
    VectorCache(tmp_path).encode(again := Counting(1.0), TEXTS)
    assert again.n_encoded == 0


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
    assert (resumed.n_encoded, old.n_encoded) == (4, 0)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:5000],
    "not SQLite": lambda data: b"PAR1" + data[4:],
    "overwritten": lambda data: data[:100] + b"\xff" * (len(data) - 100),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_said_and_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    _file(tmp_path).write_bytes(DAMAGES[damage](_file(tmp_path).read_bytes()))
    cache, encoder = VectorCache(tmp_path), Counting()
    assert (cache.encode(encoder, TEXTS) == Counting().encode_document(TEXTS)).all()
    assert encoder.n_encoded == 3
    assert [message for message in caplog.messages if "is damaged" in message] == caplog.messages != []
    VectorCache(tmp_path).encode(later := Counting(), TEXTS)
    assert later.n_encoded == 0


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_or_missing_file_is_made(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        _file(tmp_path).parent.mkdir(mode=0o700)
        _file(tmp_path).write_bytes(content)
        _file(tmp_path).chmod(0o600)
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    VectorCache(tmp_path).encode(later := Counting(), TEXTS)
    assert later.n_encoded == 0


def test_a_vector_whose_bits_changed_is_encoded_again(tmp_path: Path) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    with contextlib.closing(sqlite3.connect(_file(tmp_path))) as con:
        (blob,) = con.execute("select vector from vectors limit 1").fetchone()
        con.execute("update vectors set vector = ? where vector = ?", [blob[:-1] + bytes([blob[-1] ^ 1]), blob])
        con.commit()
    encoder = Counting()
    assert (VectorCache(tmp_path).encode(encoder, TEXTS) == Counting().encode_document(TEXTS)).all()
    assert encoder.n_encoded == 1
    VectorCache(tmp_path).encode(later := Counting(), TEXTS)
    assert later.n_encoded == 0


@pytest.mark.parametrize(
    ("pragma", "whose"), [("application_id", "another program"), ("user_version", "a newer memkit")]
)
def test_a_file_of_another_program_or_a_newer_memkit_stays_as_it_is(tmp_path: Path, pragma: str, whose: str) -> None:
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    with contextlib.closing(sqlite3.connect(_file(tmp_path))) as con:
        con.execute(f"pragma {pragma} = 7")
    before = _file(tmp_path).read_bytes()
    with pytest.raises(MemkitError, match=whose):
        VectorCache(tmp_path).encode(Counting(), TEXTS)
    assert _file(tmp_path).read_bytes() == before


def test_a_write_that_fails_says_so_and_keeps_what_was_there(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    cache.encode(Counting(), ["пул"])
    with contextlib.closing(sqlite3.connect(_file(tmp_path))) as con:
        con.execute("create trigger full before insert on vectors begin select raise(abort, 'the disk is full'); end")
    with pytest.raises(MemkitError, match="the disk is full"):
        cache.encode(Counting(), ["кот"])
    VectorCache(tmp_path).encode(encoder := Counting(), ["пул"])
    assert encoder.n_encoded == 0


def test_it_works_with_a_rollback_journal_where_there_cannot_be_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_LOG_MODE", "no such mode")
    VectorCache(tmp_path).encode(Counting(), TEXTS)
    VectorCache(tmp_path).forget([TEXTS[0]])
    VectorCache(tmp_path).encode(later := Counting(), TEXTS)
    assert later.n_encoded == 1
    with contextlib.closing(sqlite3.connect(_file(tmp_path))) as con:
        assert con.execute("pragma journal_mode").fetchone() == ("delete",)


_WORK = """
import sys, numpy as np
from memkit.index.cache import Shelf
from pathlib import Path
folder, number = Path(sys.argv[1]), int(sys.argv[2])
keys_of_one = [f"{number:02}{n:014}".encode() for n in range(1200)]
both = [f"both{n:012}".encode() for n in range(300)]
for n in range(0, 1500, 100):
    keys = (keys_of_one + both)[n:n + 100]
    shelf = Shelf(folder, 1 << 30)
    shelf.put("model", keys, np.array([[float(int(key[4:]))] * 8 for key in keys]))
    assert shelf.get("model", keys).keys() == set(keys)
"""


def test_four_processes_that_share_it_lose_no_vector(tmp_path: Path) -> None:
    work = [
        subprocess.Popen([sys.executable, "-c", _WORK, str(tmp_path), str(n)], stderr=subprocess.PIPE) for n in range(4)
    ]
    assert [one.communicate()[1].decode() for one in work] == [""] * 4
    keys = [f"{n:02}{number:014}".encode() for n in range(4) for number in range(1200)]
    keys += [f"both{number:012}".encode() for number in range(300)]
    vectors = Shelf(tmp_path, 1 << 30).get("model", keys)
    assert {key: float(vector[0]) for key, vector in vectors.items()} == {key: float(int(key[4:])) for key in keys}


def test_forgetting_leaves_no_row_and_no_byte(tmp_path: Path) -> None:
    draw, shelf = np.random.default_rng(3), Shelf(tmp_path, 1 << 30)
    keys = [draw.bytes(16) for _ in range(6000)]  # so many that pages of the index were split
    vectors = draw.normal(size=(len(keys), 64)).astype(np.float32)
    for i in range(0, len(keys), 500):
        shelf.put("model", keys[i : i + 500], vectors[i : i + 500])
    forgotten = draw.choice(len(keys), 900, replace=False).tolist()
    assert all(keys[i] in _bytes(tmp_path) for i in forgotten[:20])
    shelf.forget(keys[i] for i in forgotten)
    raw = _bytes(tmp_path)
    assert [i for i in forgotten if keys[i] in raw or vectors[i].tobytes() in raw] == []
    assert shelf.get("model", keys).keys() == set(keys) - {keys[i] for i in forgotten}


def test_forgetting_leaves_the_locks_of_other_connections_of_the_process(tmp_path: Path) -> None:
    """POSIX takes all locks of a process on a file with any descriptor that it closes; then another one resets it."""
    on_disk = Shelf(tmp_path, 1 << 30)
    on_disk.put("model", [b"a", b"b"], np.eye(2, dtype=np.float32))
    with contextlib.closing(sqlite3.connect(on_disk.path, isolation_level=None)) as con:
        con.execute("select count(*) from vectors").fetchone()
        on_disk.forget([b"a"])
        log = Path(f"{on_disk.path}-wal")
        assert log.exists()
        other = (
            "import sqlite3, sys; con = sqlite3.connect(sys.argv[1]); con.execute('select 1 from models'); con.close()"
        )
        subprocess.run([sys.executable, "-c", other, str(on_disk.path)], check=True)
        assert log.exists(), "the last process that closes the file deletes it"


_CHECKPOINT_LOCK = 121
"""Byte of the -shm file that a process locks while it truncates the log (https://sqlite.org/walformat.html)."""


def test_forgetting_waits_for_another_process_that_truncates_the_log(tmp_path: Path) -> None:
    on_disk = Shelf(tmp_path, 1 << 30)
    on_disk.put("model", [b"a", b"b"], np.eye(2, dtype=np.float32))
    hold = f"""import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, {_CHECKPOINT_LOCK})
print(flush=True)
time.sleep(0.2)"""
    with contextlib.closing(sqlite3.connect(on_disk.path)) as con:
        con.execute("select count(*) from vectors").fetchone()
        other = subprocess.Popen([sys.executable, "-c", hold, f"{on_disk.path}-shm"], stdout=subprocess.PIPE)
        other.stdout.readline()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(cache, "_PATIENCE", 0.0)
            with pytest.raises(MemkitError, match="another process"):
                on_disk.forget([b"b"])
        on_disk.forget([b"a"])
        assert other.wait() == 0
    assert on_disk.get("model", [b"a", b"b"]) == {}


def test_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    cache, encoder = VectorCache(max_memory=2 * 3 * 4), Counting()  # two vectors of three floats
    for text in ("a", "b", "a", "c", "a"):
        cache.encode(encoder, [text])
    assert encoder.n_encoded == 3
    cache.encode(encoder, ["b"])
    assert encoder.n_encoded == 4
    assert (cache.encode(encoder, list("abcdef")) == encoder.encode_document(list("abcdef"))).all()


def test_vectors_that_are_given_are_held_once_and_within_the_bound() -> None:
    encoder, cache = Counting(), VectorCache(max_memory=2 * 3 * 4)
    ones = weakref.ref(first := encoder.encode_document(["a"]))
    cache.put(encoder, ["a"], first)
    cache.put(encoder, ["a"], first := first.copy())  # as from a lake that is opened again
    assert ones() is None
    for text in ("пп", "ппп"):
        cache.put(encoder, [text], encoder.encode_document([text]))
    assert cache.new(encoder, [content_key(text, "document") for text in ("a", "пп", "ппп")]) == 1


def test_disk_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    keys, ones = [f"{i:016}".encode() for i in range(4000)], np.ones((400, 64), np.float32)
    shelf = Shelf(tmp_path, 600_000)  # of some 300 bytes each
    for i in range(0, len(keys), 400):
        shelf.put(f"model {i % 3}", keys[i : i + 400], ones)
        assert shelf.size < 3 * 600_000  # with the log beside it
    remaining = sorted(key for name in range(3) for key in shelf.get(f"model {name}", keys))
    assert remaining == keys[-len(remaining) :]
    assert 1000 < len(remaining) < 2200


def test_queries_stay_in_memory_and_write_no_files(tmp_path: Path) -> None:
    cache, encoder = VectorCache(tmp_path), Counting()
    for _ in range(2):
        cache.encode(encoder, ["пул"], "query")
    assert (encoder.n_encoded, _keys_on_disk(tmp_path)) == (1, set())


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
    assert (cache.encoded, _keys_on_disk(tmp_path)) == (0, set())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_encoder_of_the_user_cannot_put_nan_into_the_cache(tmp_path: Path, bad: float) -> None:
    class Theirs(Counting):
        def encode_document(self, texts: Any) -> Any:
            return np.array([[bad, 1, 1]] * len(texts))

    with pytest.raises(MemkitError, match=r"counting-.*position 0"):
        VectorCache(tmp_path).encode(Theirs(), ["пул"])
    assert _keys_on_disk(tmp_path) == set()


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
    assert encoder.n_encoded == 0


def test_the_shared_cache_is_one_and_no_test_has_it_on_disk() -> None:
    assert mk.vector_cache() is shared_cache()
    assert mk.vector_cache().folder is None


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., VectorCache]]:
    """users(): the process's cache as a new process would have it, with this home."""
    monkeypatch.delenv("MEMKIT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def afresh(**options: Any) -> VectorCache:
        shared_cache.cache_clear()
        return mk.vector_cache(**options)

    yield afresh
    shared_cache.cache_clear()


def test_nothing_set_it_lies_in_the_users_cache_folder_and_a_later_process_finds_it(
    users: Callable[..., VectorCache], tmp_path: Path
) -> None:
    assert users().folder == tmp_path / ".cache" / "memkit" / "vectors"
    users().encode(Counting(), TEXTS)
    assert (tmp_path / ".cache" / "memkit" / "vectors").stat().st_mode & 0o077 == 0
    users().encode(encoder := Counting(), TEXTS)
    assert encoder.n_encoded == 0
    assert _file(tmp_path / ".cache/memkit/vectors").stat().st_mode & 0o777 == 0o600
    assert mk.vector_cache().size == _file(tmp_path / ".cache/memkit/vectors").stat().st_size
    model = tmp_path / ".cache/memkit/vectors/models/e5/weights.npz"
    model.parent.mkdir(parents=True)
    model.write_bytes(bytes((3 << 20) - mk.vector_cache().size))
    assert repr(mk.vector_cache()).endswith("vectors, 3.0 of at most 4096 MiB>")


def test_the_environment_or_a_call_moves_it_or_turns_it_off(
    users: Callable[..., VectorCache], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert users().folder == tmp_path / "xdg" / "memkit" / "vectors"
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "own"))
    assert users().folder == tmp_path / "own" / "vectors"
    assert users(path=tmp_path / "given").folder == tmp_path / "given"
    assert users(off=True).folder is None
    with pytest.raises(ParameterError, match=r"expected a folder or off=True\. Got both"):
        users(path=tmp_path, off=True)
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
    assert (_keys_on_disk(tmp_path), (tmp_path / "mine.txt").read_text()) == (set(), "мой")
    assert not any(content_key(text, "document") in _bytes(tmp_path) for text in TEXTS)
    cache.encode(encoder := Counting(), TEXTS)
    assert encoder.n_encoded == 3


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
    assert _keys_on_disk(tmp_path) == set()


def test_texts_that_are_compared_are_kept_too(users: Callable[..., VectorCache]) -> None:
    table = {"text": ["пул соединений", "кот спит"], "memory_id": ["a", "b"]}
    users()
    mk.Deduplicator(encoder=(first := Counting())).fit(mk.from_table(table))
    users()
    mk.Deduplicator(encoder=(second := Counting())).fit(mk.from_table(table))
    assert (first.n_encoded, second.n_encoded) == (2, 0)


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
        encoded = list(pool.map(lambda _: Parallel().encode_document(texts), range(8)))
    assert all((one == Counting().encode_document(texts)).all() for one in encoded)
    assert cores() == before


def test_a_key_follows_the_clean_text() -> None:
    assert content_key("и\u0306", "document") == content_key("й", "document")
    assert content_key("a\x00", "document") == content_key("a ", "document")
    assert content_key("a", "document") != content_key("b", "document")


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


def test_many_queries_are_kept_for_the_next_process_and_few_are_not(tmp_path: Path) -> None:
    encoder = as_encoder("hash")
    for count, n_kept in ((MANY_QUERIES - 1, 0), (MANY_QUERIES, MANY_QUERIES)):
        queries = [f"вопрос {count} {number}" for number in range(count)]
        first, later = VectorCache(tmp_path), VectorCache(tmp_path)
        expected = first.encode(encoder, queries, "query")
        assert len(_keys_on_disk(tmp_path)) == n_kept
        assert (later.encode(encoder, queries, "query") == expected).all()
        assert later.encoded == count - n_kept


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
    assert {key for _, key in _keys_on_disk(tmp_path)} == {
        content_key(text, role) for text in ("чай", "сад") for role in ("document", "query")
    }


@pytest.mark.parametrize("wrong", ["mode", "owner", "parent", "link", "file"])
def test_what_somebody_else_may_write_is_refused_with_one_warning(
    users: Callable[..., VectorCache],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    wrong: str,
) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "own"))
    users().encode(Counting(), ["пул"])
    vectors = tmp_path / "own" / "vectors"
    before = _bytes(vectors)
    if wrong in ("mode", "parent"):
        (vectors if wrong == "mode" else vectors.parent).chmod(0o777)
    elif wrong == "owner":
        monkeypatch.setattr("os.geteuid", lambda: vectors.stat().st_uid + 1)
    elif wrong == "file":
        _file(vectors).chmod(0o666)
    else:
        _file(vectors).rename(tmp_path / "elsewhere")
        _file(vectors).symlink_to(tmp_path / "elsewhere")
    cache, encoder = users(), Counting()
    for text in ("пул", "кот", "кот"):
        assert (cache.encode(encoder, [text]) == Counting().encode_document([text])).all()
    assert encoder.n_encoded == 2
    assert len(caplog.messages) == 1
    assert "in memory alone" in caplog.messages[0]
    assert _bytes(vectors) == before


def test_a_cache_within_the_folder_that_is_read_is_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "cache"))
    root = mk.testing.write_files(tmp_path, {"MEMORY.md": "# Чай\n\nЗелёный.\n"})
    shared_cache.cache_clear()
    try:
        before = mk.read(root)
        hits = mk.Retriever(encoder=Counting()).fit(before).search("чай", k=1)
        assert hits.num_rows == 1
        assert mk.vector_cache().size > 0
        after = mk.read(root)
    finally:
        shared_cache.cache_clear()
    assert after.memories.equals(before.memories)
    assert after.problems.equals(before.problems)
