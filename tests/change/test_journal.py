"""A change is made as a whole or not at all, whatever happens half-way, and taken back byte for byte."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import ModuleType

import pytest

import memkit as mk
from memkit.change.disk import Disk, check_path
from memkit.change.journal import KEPT, Change, Journal, opened, to_record
from memkit.errors import ChangeRefusedError, MemkitError, StaleSourceError

SOMEBODY = 54321
UMASK = os.umask(0)
os.umask(UMASK)


@pytest.fixture(scope="module")
def faults(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("audit/cut_power.py")


@pytest.fixture
def root(tmp_path: Path, faults: ModuleType) -> Path:
    return faults.write_tree(tmp_path / "root", faults.OLD)


@pytest.fixture
def journal(root: Path) -> Iterator[Journal]:
    with opened(root) as journal:
        yield journal


@pytest.mark.quick
def test_a_change_is_made_and_undone_byte_for_byte(root: Path, faults: ModuleType) -> None:
    (root / "users/anna/working.md").chmod(0o600)
    with opened(root) as journal:
        journal.apply(faults.changes(), {"policy": "expiry"})
        assert faults.visible(faults.read_tree(root)) == faults.NEW
        assert stat.S_IMODE((root / "users/anna/working.md").stat().st_mode) == 0o600
        assert journal.undo().about == {"undoes": {"policy": "expiry"}}
    assert faults.state_of(root) == "old"
    assert not (root / "users/boris").exists()


def modes_of(folder: Path, *names: str) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for name in names for path in folder.rglob(name)}


@pytest.mark.quick
def test_old_texts_are_the_users_alone(root: Path) -> None:
    """In the journal, also of an older memkit, and in a lake; a folder that a group writes keeps its group."""
    (root / ".memkit").mkdir()
    (root / ".memkit/journal").mkdir(mode=0o755)
    with opened(root) as journal:
        journal.apply([Change("memory/a.md", None, b"a")], {})
    assert modes_of(root / ".memkit", "*.done") == {0o600}
    assert modes_of(root, "journal") == {0o700}
    shared = root / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    with opened(shared):
        assert modes_of(shared, "journal") == {0o770 & ~UMASK}
    mk.read(root).save(root / "lake")
    assert modes_of(root / "lake", "*.duckdb", "*.parquet") == {0o600}


@pytest.mark.quick
def test_a_deleted_file_comes_back_with_its_mode(root: Path, journal: Journal, faults: ModuleType) -> None:
    path = "memory/lessons/note.md"
    (root / path).chmod(0o640)
    journal.apply([Change(path, faults.OLD[path], None)], {})
    assert not (root / path).exists()
    journal.undo()
    assert stat.S_IMODE((root / path).stat().st_mode) == 0o640


def test_changes_are_undone_one_after_the_other_and_not_after_clear(journal: Journal, root: Path) -> None:
    for number in range(3):
        journal.apply([Change("a.md", b"%d" % (number - 1) if number else None, b"%d" % number)], {})
    journal.undo()
    assert (root / "a.md").read_bytes() == b"1"
    assert journal.clear() == 2
    with pytest.raises(MemkitError, match="no change to undo"):
        journal.undo()
    assert [path.name for path in (root / ".memkit/journal").iterdir()] == []


def test_the_journal_keeps_so_many_changes(journal: Journal, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT >= 10
    monkeypatch.setattr("memkit.change.journal.KEPT", 2)
    for number in range(4):
        journal.apply([Change(f"{number}.md", None, b"x")], {})
    kept = sorted(path.name for path in (root / ".memkit/journal").iterdir())
    assert [(name[:6], name[-5:]) for name in kept] == [("000003", ".done"), ("000004", ".done")]


def test_a_power_cut_at_any_step_leaves_the_old_or_the_new_tree(faults: ModuleType) -> None:
    bad = [(seed, fault) for seed in range(800) if (fault := faults.one_cut(seed)[0])]
    assert bad == []


def test_without_any_one_sync_some_power_cut_loses_something(faults: ModuleType) -> None:
    sites = set().union(*(faults.one_cut(seed)[1] for seed in range(150)))
    assert len(sites) >= 12
    harmless = [site for site in sites if not any(faults.one_cut(seed, site)[0] for seed in range(2_500))]
    assert harmless == []


def test_a_kill_at_any_step_leaves_the_old_or_the_new_tree(tmp_path: Path, faults: ModuleType) -> None:
    bad = [(seed, fault) for seed in range(24) if (fault := faults.one_kill(seed, tmp_path))]
    assert bad == []


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=["EIO", "Ctrl-C"]
)
@pytest.mark.parametrize("work", ["apply_on", "undo_on"])
def test_an_exception_at_any_step_leaves_the_old_or_the_new_tree(
    tmp_path: Path, faults: ModuleType, work: str, error: BaseException
) -> None:
    states = set()
    for step in range(200):
        root = faults.write_tree(tmp_path / f"{step}", faults.OLD)
        if work == "undo_on":
            faults.apply_on(Disk(root))
        disk = faults.Falling(root, step, "after" if step % 3 == 0 else "before", error)
        with suppress(MemkitError, OSError, KeyboardInterrupt):
            getattr(faults, work)(disk)
        states.add(faults.state_of(root))
        shutil.rmtree(root)
        if disk.steps <= step:
            break
    assert step > 20
    assert states == {"old", "new"}


def test_where_the_disk_is_full_nothing_changes_and_the_next_change_works(root: Path, faults: ModuleType) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = Change("memory/big.md", None, b"x" * 200_000)
    with opened(root) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
        try:
            with pytest.raises(MemkitError, match="nothing was changed: File too large"):
                journal.apply([*faults.changes(), big], {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert faults.visible(faults.read_tree(root)) == faults.OLD
        assert faults.strays(root) == []
        journal.apply([*faults.changes(), big], {})


@pytest.fixture
def unprivileged(faults: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The root of a user who may not write everywhere: root itself is somebody else meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("MEMKIT_STATE", f"{folder}/state")
        root, me = faults.write_tree(Path(folder) / "root", faults.OLD), os.geteuid()
        if me == 0:
            for path in (Path(folder), *Path(folder).rglob("*")):
                os.chown(path, SOMEBODY, -1)
            os.seteuid(SOMEBODY)
        yield root
        os.seteuid(me)


def test_a_read_only_folder_is_refused(unprivileged: Path, faults: ModuleType) -> None:
    (unprivileged / "memory/lessons").chmod(0o500)
    with opened(unprivileged) as journal, pytest.raises(MemkitError, match="nothing was changed: Permission denied"):
        journal.apply(faults.changes(), {})
    (unprivileged / "memory/lessons").chmod(0o700)
    assert faults.state_of(unprivileged) == "old"


def test_a_read_only_file_is_refused(root: Path, journal: Journal, faults: ModuleType) -> None:
    (root / "memory/index.json").chmod(0o400)
    with pytest.raises(ChangeRefusedError, match=r"index[.]json: it is read-only"):
        journal.apply(faults.changes(), {})
    assert faults.visible(faults.read_tree(root)) == faults.OLD


def test_a_file_that_changed_since_is_refused_before_anything_is_written(
    root: Path, journal: Journal, faults: ModuleType
) -> None:
    (root / "users/anna/working.md").write_bytes(b"theirs")
    with pytest.raises(StaleSourceError, match=r"working[.]md: it was changed") as caught:
        journal.apply(faults.changes(), {})
    assert caught.value.path == "users/anna/working.md"
    assert faults.visible(faults.read_tree(root)) == faults.OLD | {"users/anna/working.md": b"theirs"}
    assert faults.strays(root) == []


def test_undoing_is_refused_where_a_file_changed_since(root: Path, journal: Journal, faults: ModuleType) -> None:
    journal.apply(faults.changes(), {})
    (root / "memory/index.json").write_bytes(b"theirs")
    with pytest.raises(StaleSourceError, match=r"index[.]json"):
        journal.undo()
    assert faults.visible(faults.read_tree(root)) == faults.NEW | {"memory/index.json": b"theirs"}


def test_a_file_changed_while_a_change_was_cut_off_is_left_and_said(root: Path, faults: ModuleType) -> None:
    for step in range(100):  # cut right after the decision: the record is .todo, no name has changed
        with suppress(KeyboardInterrupt):
            faults.apply_on(faults.Falling(root, step, "after", KeyboardInterrupt()))
        if list((root / ".memkit/journal").glob("*.todo")):
            break
        assert faults.state_of(root) == "old"
    with pytest.raises(MemkitError, match="a change was interrupted there"):
        mk.read(root)
    (root / "memory/index.json").write_bytes(b"theirs")
    with pytest.warns(RuntimeWarning, match=r"memory/index.json: somebody changed it .* left as it is"):
        faults.settle_on(Disk(root))
    assert faults.visible(faults.read_tree(root)) == faults.NEW | {"memory/index.json": b"theirs"}
    assert [path.read_bytes() for path in (root / ".memkit/aside").iterdir()] == [faults.NEW["memory/index.json"]]
    assert mk.read(root).memories.num_rows


@pytest.mark.parametrize(
    "path",
    [
        "../a.md",
        "/etc/passwd",
        "a/../../b.md",
        "C:/a.md",
        "a\\b.md",
        "a//b.md",
        "",
        ".git/config",
        "a/.memkit/x",
        "a\0b",
    ],
)
def test_no_path_leads_outside_or_to_what_is_hidden(
    path: str, journal: Journal, root: Path, faults: ModuleType
) -> None:
    with pytest.raises(ChangeRefusedError):
        check_path(path)
    with pytest.raises(ChangeRefusedError):
        journal.apply([Change(path, None, b"x")], {})
    assert faults.visible(faults.read_tree(root)) == faults.OLD


def test_links_are_not_followed(root: Path, journal: Journal, tmp_path: Path, faults: ModuleType) -> None:
    outside = faults.write_tree(tmp_path / "outside", {"a.md": b"a"})
    (root / "folder").symlink_to(outside)
    (root / "link.md").symlink_to(outside / "a.md")
    for path, before in (("folder/a.md", b"a"), ("folder/new.md", None), ("link.md", b"a")):
        with pytest.raises(ChangeRefusedError, match="is a link"):
            journal.apply([Change(path, before, b"x")], {})
    assert faults.read_tree(outside) == {"a.md": b"a"}


def test_memkits_own_folder_may_be_no_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / ".memkit").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ChangeRefusedError, match=r"\.memkit: it is a link"), opened(root):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("data", [b"\xcf\xf0\xe8\xe2\xe5\xf2\n", b"\xff\xfeh\x00i\x00"])
def test_a_file_with_bytes_that_are_no_utf8_is_left_alone(data: bytes, root: Path, journal: Journal) -> None:
    (root / "old.md").write_bytes(data)
    for after in (b"new", None):
        with pytest.raises(ChangeRefusedError, match="no UTF-8"):
            journal.apply([Change("old.md", data, after)], {})
    assert (root / "old.md").read_bytes() == data


def test_a_second_writer_is_told_that_it_is_busy(root: Path) -> None:
    messages = []

    def second() -> None:
        try:
            with opened(root, patience=0.1):
                pass
        except MemkitError as error:
            messages.append(str(error))

    with opened(root):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(messages) == 1
    assert "busy" in messages[0]


def test_a_reader_waits_for_a_writer_and_gives_up_in_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.formats.disk.lock.PATIENCE", 0.05)
    messages = []

    def read() -> None:
        try:
            mk.read(root)
        except MemkitError as error:
            messages.append(str(error))

    with opened(root):
        mk.read(root)  # the writer itself may read
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert "another process is changing it" in messages[0]
    waiting, sleep = threading.Event(), time.sleep
    monkeypatch.setattr("memkit.formats.disk.lock.PATIENCE", 300)
    monkeypatch.setattr("memkit.formats.disk.lock.time.sleep", lambda seconds: waiting.set() or sleep(seconds))
    thread = threading.Thread(target=read)
    with opened(root):
        thread.start()
        while thread.is_alive() and not waiting.wait(0.05):
            pass
    thread.join()
    assert len(messages) == 1, messages[1:]


def test_readers_do_not_see_memkits_own_folder(root: Path, journal: Journal, faults: ModuleType) -> None:
    (root / "MEMORY.md").write_text("# Чай\nбез сахара\n")
    before = mk.read(root).tables
    journal.apply([Change("MEMORY.md", "# Чай\nбез сахара\n".encode(), "# Чай\nс мёдом\n".encode())], {})
    after = mk.read(root)
    assert after.memories.num_rows == before["memories"].num_rows
    assert not [path for path in after.memories["path"].to_pylist() if ".memkit" in path]
    assert not [path for path in after.problems["path"].to_pylist() if ".memkit" in path]


def test_an_index_cannot_name_what_memkit_keeps(tmp_path: Path) -> None:
    entry = {"title": "t", "file": ".memkit/journal/000001.done", "tags": [], "priority": "low", "version": "1"}
    files = {"memory/index.json": json.dumps({"type": "index-branch", "category": "a", "files": [entry]})}
    root = mk.testing.write_files(tmp_path, files | {"memory/.memkit/journal/000001.done": "тайна"})
    assert "тайна" not in str(mk.read(root).memories.to_pylist())


def test_reading_writes_nothing_into_a_folder(tmp_path: Path) -> None:
    root = mk.testing.write_files(tmp_path, {"MEMORY.md": "# Чай\n"})
    mk.read(root).refresh()
    assert [path.name for path in root.iterdir()] == ["MEMORY.md"]


def test_a_damaged_record_is_no_record(journal: Journal) -> None:
    record = journal.apply([Change("a.md", None, b"a")], {})
    data = record.to_bytes()
    assert to_record(data) == record
    assert to_record(data[:-5]) is None
    assert to_record(data.replace(b"a.md", b"b.md")) is None
    assert to_record(None) is None


def test_a_name_that_appears_twice_is_refused(journal: Journal) -> None:
    with pytest.raises(ChangeRefusedError, match="twice"):
        journal.apply([Change("a.md", None, b"a"), Change("a.md", None, b"b")], {})


def test_indexes_change_after_what_they_name_and_before_what_they_no_longer_name(
    faults: ModuleType, root: Path
) -> None:
    """A reader of any other program between two names never finds an index that names a missing file."""
    missing_by_step: list[set[str]] = []

    class Watched(Disk):
        def rename(self, path: str, to: str) -> None:
            super().rename(path, to)
            missing_by_step.append(self._names())

        def remove(self, path: str) -> None:
            super().remove(path)
            missing_by_step.append(self._names())

        def _names(self) -> set[str]:
            split = b"note/index.md" in (root / "memory/lessons/index.json").read_bytes()
            needed = (
                {"memory/lessons/note/index.md", "memory/lessons/note/part1.md"}
                if split
                else {"memory/lessons/note.md"}
            )
            return {path for path in needed if not (root / path).is_file()}

    for work in (faults.apply_on, faults.undo_on):
        work(Watched(root))
    assert len(missing_by_step) > 10
    assert set().union(*missing_by_step) == set()


def test_warnings_and_stacks_are_not_left_behind(root: Path) -> None:
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("error")
        stack.enter_context(opened(root))
    with opened(root):  # let go
        pass
