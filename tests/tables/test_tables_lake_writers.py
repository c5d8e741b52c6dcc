"""Who saves, dies while saving, or opens while another saves: the old corpus or the new one, never a mix."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest

import memkit as mk
from memkit.errors import MemkitError
from memkit.tables import lake as commit
from memkit.tables.samples import write_files


@pytest.fixture(scope="module")
def killing(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("audit/kill_saves.py")


@pytest.mark.parametrize("n", [14, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_killed_save_leaves_the_old_corpus_or_the_new_one_and_nothing_else(
    killing: ModuleType, tmp_path: Path, n: int
) -> None:
    ends = list(killing.kills(tmp_path / "lake", n, seed=n))
    assert all(after in (before, name) for _, before, name, after in ends)
    assert all(after == name for ended, _, name, after in ends if ended >= 0)
    killed = [after == name for ended, _, name, after in ends if ended == -9]
    assert len(killed) > n / 2
    assert set(killed) == {True, False}


def test_who_opens_beside_a_writer_sees_the_old_corpus_or_the_new_one(killing: ModuleType, tmp_path: Path) -> None:
    lake, saver, is_written = tmp_path / "lake", killing.Saver(), Event()
    saver.save("old", lake)
    corpora_seen = []

    def look() -> None:
        while not is_written.is_set():
            corpus = mk.open(lake)
            texts, terms = (
                corpus.memories["text"].to_pylist(),
                corpus._database.text_index()["terms"]["term"].to_pylist(),
            )
            corpora_seen.append({name for name, word in killing.WORDS.items() for text in texts if word in text})
            assert len(texts) == killing.ROWS
            assert ("стар" in terms) == (corpora_seen[-1] == {"old"}), terms
            assert ("нов" in terms) == (corpora_seen[-1] == {"new"}), terms

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for _ in range(2):
            assert saver.save("new", lake) > 0
            assert saver.save("old", lake) > 0
        is_written.set()
        looking.result()
    saver.close()
    assert [names for names in corpora_seen if len(names) != 1] == []
    assert {"old"} in corpora_seen
    assert {"new"} in corpora_seen


SLOW_WRITER = """
import sys
import memkit as mk
corpus = mk.from_table({"text": ["медленный"]})
def wait(folder):
    folder.mkdir()
    print("saving", flush=True)
    sys.stdin.readline()
corpus.attach("labels", wait)
corpus.save(sys.argv[1])
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    mk.from_table({"text": ["старое"]}).save(tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def writer(lake: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the midst of a save."""
    command = [sys.executable, "-c", SLOW_WRITER, str(lake)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "saving\n"
        yield process
        process.kill()


def text_in(lake: Path) -> list[str]:
    return [str(text) for text in mk.open(lake).memories["text"].to_pylist()]


def saving(lake: Path) -> list[Path]:
    return list(lake.glob(".saving-*"))


def test_of_two_processes_that_save_one_lake_one_wins_and_the_other_is_told(
    lake: Path, writer: subprocess.Popen[str]
) -> None:
    with pytest.raises(MemkitError, match="another process is saving there"):
        mk.from_table({"text": ["второе"]}).save(lake)
    assert text_in(lake) == ["старое"]
    assert len(saving(lake)) == 1
    writer.communicate("\n")
    assert writer.returncode == 0
    assert text_in(lake) == ["медленный"]
    assert saving(lake) == []


@pytest.mark.parametrize("way", ["open", "save"])
def test_the_next_open_or_save_clears_what_a_dead_writer_left(
    lake: Path, writer: subprocess.Popen[str], way: str
) -> None:
    writer.kill()
    writer.wait()
    assert len(saving(lake)) == 1
    if way == "open":
        assert text_in(lake) == ["старое"]
    else:
        mk.from_table({"text": ["второе"]}).save(lake)
        assert text_in(lake) == ["второе"]
    assert saving(lake) == []


def test_a_lake_that_may_not_be_written_opens_with_what_a_dead_writer_left(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mk.from_table({"text": ["новое"]}).save(lake.parent / "new")
    (dead,) = (lake.parent / "new").glob("saved-*")  # in its place, but not pointed to yet
    dead = dead.rename(lake / dead.name)

    def no_lock(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(commit, "locked", no_lock)
    assert text_in(lake) == ["старое"]
    assert (dead / "memories.parquet").exists()
    monkeypatch.undo()
    assert text_in(lake) == ["старое"]
    assert not dead.exists()


def test_a_pointer_that_a_writer_moved_while_one_opened_is_followed(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_manifest, saves = commit.read_manifest, iter([mk.from_table({"text": ["новое"]})])

    def slow(place: Path) -> object:
        for corpus in saves:
            monkeypatch.undo()
            corpus.save(lake)
        return read_manifest(place)

    monkeypatch.setattr(commit, "read_manifest", slow)
    assert text_in(lake) == ["новое"]


def test_threads_that_save_one_lake_leave_one_of_their_corpora(lake: Path) -> None:
    def save(n: int) -> str:
        try:
            mk.from_table({"text": [f"из нити {n}"]}).save(lake)
        except MemkitError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(save, range(8)))
    assert text_in(lake) in [[f"из нити {n}"] for n in range(8) if not ends[n]]
    assert all("another process is saving" in end for end in ends if end)
    assert saving(lake) == []


@pytest.mark.parametrize("name", [".saving-x", f"saved-{'0' * 32}"])
def test_what_is_no_whole_save_is_cleared_away(lake: Path, name: str) -> None:
    write_files(lake, {f"{name}/manifest.json": "{}", f"{name}/memories.parquet": "x", "saved-mine/a.txt": "y"})
    assert text_in(lake) == ["старое"]
    assert not (lake / name).exists()
    assert (lake / "saved-mine" / "a.txt").read_text() == "y"


def test_a_damaged_save_is_made_whole_by_the_same_one(lake: Path) -> None:
    (memories,) = lake.glob("saved-*/memories.parquet")
    memories.write_bytes(b"x")
    corpus = mk.from_table({"text": ["старое"]})
    corpus.save(lake)
    assert text_in(lake) == ["старое"]
    assert memories.read_bytes() != b"x"


def test_a_file_of_the_user_s_stays_beside_what_is_saved(lake: Path) -> None:
    (lake / "labels").write_text("a file of the user's")
    corpus = mk.from_table({"text": ["новое"]})
    corpus.attach("labels", lambda folder: write_files(folder, {"a.txt": "x"}))
    corpus.save(lake)
    assert (lake / "labels").read_text() == "a file of the user's"
    assert [path.read_text() for path in lake.glob("saved-*/labels/a.txt")] == ["x"]
    assert saving(lake) == []
