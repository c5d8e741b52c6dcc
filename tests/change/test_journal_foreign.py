"""A journal that somebody else wrote moves nothing outside of its folder, and inside only what the user trusts."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.change.disk import Disk, check_path
from memkit.change.journal import Change, hash_of, opened, to_record
from memkit.change.workspace import MemoryStorage, get_index, get_storage
from memkit.cli import main
from memkit.errors import ChangeRefusedError, FormatError, MemkitError, ParameterError
from memkit.formats.disk.files import _by_first
from memkit.formats.disk.lock import Signer, made_key, state_folder, users_key

VICTIM = b"nobody but me\n"
JOURNAL = ".memkit/journal"


def record(number: int = 1, /, *files: dict[str, Any], **changes: Any) -> bytes:
    """The bytes of a record, whole as far as its own hash goes."""
    values = {"number": number, "files": list(files), "made": [], "dropped": [], "undoes": None, "about": {}}
    text = json.dumps(values | changes).encode()
    return hash_of(text).encode() + b"\n" + text + b"\n"


def file(path: str, before: bytes | None = None, after: bytes | None = None, **changes: Any) -> dict[str, Any]:
    """One file of a record."""
    hashes = {"before": before and hash_of(before), "after": after and hash_of(after)}
    defaults = {"staged": None, "image": before and before.decode(), "mode": 0o644}
    return {"path": path} | hashes | defaults | changes


def snapshot(folder: Path, without: Path | None = None) -> dict[str, Any]:
    """Everything below `folder`, what is in `but` left out: kind, mode and content."""
    status_by_path: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if without is None or not path.is_relative_to(without):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
            status_by_path[str(path.relative_to(folder))] = status.st_mode, status.st_mtime_ns * path.is_file(), content
    return status_by_path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with somebody's things, and in it `repo`, a folder of memories from somebody else."""
    files = {"victim.md": VICTIM, "other/.git/hooks/x.sample": b"", "repo/MEMORY.md": "# Чай\nбез сахара\n"}
    return mk.testing.write_files(tmp_path / "home", files)


def hostile(home: Path) -> dict[str, tuple[str, bytes]]:
    """By what it tries: the name of a record, and its bytes."""
    out, evil = str(home / "victim.md"), b"#!/bin/sh\n"
    staged = {"staged": "payload", "after": hash_of(evil)}
    return {
        "new removes above": ("000001.new", record(1, file("a.md", staged="../victim.md"))),
        "new removes absolute": ("000001.new", record(1, file("a.md", staged=out))),
        "new drops a folder": ("000001.new", record(1, made=["../empty"])),
        "todo removes above": ("000001.todo", record(1, file("../victim.md", VICTIM))),
        "todo removes absolute": ("000001.todo", record(1, file(out, VICTIM))),
        "todo overwrites": ("000001.todo", record(1, file("../victim.md", VICTIM) | staged)),
        "todo creates": ("000001.todo", record(1, file("../fresh.md") | staged)),
        "todo plants a hook": ("000001.todo", record(1, file("../other/.git/hooks/pre-commit") | staged)),
        "todo takes": ("000001.todo", record(1, file("a.md", None, VICTIM, staged="../victim.md"))),
        "todo drops": ("000001.todo", record(1, dropped=["../empty"])),
        "done is undone": ("000001.done", record(1, file("../victim.md", b"evil", VICTIM))),
        "done comes back": ("000001.done", record(1, file("../fresh.md", b"evil", None))),
        "done drops": ("000001.done", record(1, made=["../empty"])),
    }


def at_the_command_line(*words: str) -> None:
    with pytest.MonkeyPatch.context() as patch, suppress(SystemExit):
        patch.setattr("sys.argv", ["memkit", *words])
        main()


def trusted(root: Path) -> None:
    (message,) = mk.recover(root, trust=True)
    assert "it is not followed" in message
    mk.undo(root)


TRIES = sorted(hostile(Path("x")))
DOORS: dict[str, Callable[[Path], object]] = {
    "store": lambda root: mk.store(root).workspace.append_to_memory("текст", now="2026-03-01"),
    "undo": mk.undo,
    "clear": lambda root: mk.undo(root, clear=True),
    "recover": mk.recover,
    "recover and trust": trusted,
    "read": lambda root: mk.read(root).refresh(),
    "add": lambda root: at_the_command_line("add-memory", str(root), "текст", "--yes"),
    "undo at the command line": lambda root: at_the_command_line("undo", str(root)),
}


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("attack", TRIES)
def test_a_strangers_journal_moves_nothing_outside_of_its_folder(home: Path, attack: str, door: str) -> None:
    name, data = hostile(home)[attack]
    (home / "empty").mkdir()
    root = mk.testing.write_files(home / "repo", {f"{JOURNAL}/{name}": data, "payload": b"#!/bin/sh\n"})
    before = snapshot(home, without=root)
    with suppress(MemkitError):
        DOORS[door](root)
    assert snapshot(home, without=root) == before
    assert (root / "payload").read_bytes() == b"#!/bin/sh\n"


# --- the first wall: every field of a record, here of one that this user's key signed -----------------------------


def signed(root: Path, state: str, data: bytes, number: int = 1) -> Path:
    """A record in the journal of `root` with a name that this user's key gave it."""
    name = Signer(made_key(), root.resolve()).name(number, data[:32].decode(), state)
    return mk.testing.write_files(root, {f"{JOURNAL}/{name}": data}) / JOURNAL / name


GOOD = file("a.md", b"x", b"y", staged=".~memkit-7-0.tmp")
ODD_FILES: dict[str, list[object]] = {
    "path": ["../a.md", "/a.md", "C:/a.md", "a\\b.md", "", ".git/config", ".memkit/lock", "a\0.md", 7, None, ["a.md"]],
    "before": ["", "x", "A" * 64, 7, True, None, ["x"]],
    "after": ["", "x", "A" * 64, 7, None, {}],
    "staged": [
        None,
        "",
        "a.md",
        "../.~memkit-7-0.tmp",
        ".~memkit-7-1.tmp",
        ".~memkit-8-0.tmp",
        "b/.~memkit-7-0.tmp",
        7,
    ],
    "image": [None, "y", "", 7, "\ud800"],
    "mode": [None, -1, 0o1000, 0o4755, 0o120777, 10**30, True, 420.0, "644"],
}
ODD_RECORDS: dict[str, list[object]] = {
    "number": [0, -7, 8, 7.0, "7", None, True],
    "files": [None, {}, "a.md", [None], [[]], [{}], [GOOD, GOOD], [GOOD | {"more": 1}]],
    "made": [None, ["memory"], [".."], ["../x"], [""], ["/"], [7], [["b"]], "b"],
    "dropped": [None, ["memory"], [".."], ["."], ["b/.."], [None]],
    "undoes": [0, 7, 8, -1, "6", 6.0, True],
    "about": [None, [], "x"],
    "more": [None],
}
CASES = [("file", name, value) for name, values in ODD_FILES.items() for value in values]
CASES += [("record", name, value) for name, values in ODD_RECORDS.items() for value in values]


@pytest.mark.quick
@pytest.mark.parametrize(("level", "name", "value"), CASES, ids=repr)
def test_a_record_with_a_field_that_memkit_does_not_write_is_refused(level: str, name: str, value: object) -> None:
    assert to_record(record(7, GOOD), 7) is not None
    odd = record(7, GOOD | {name: value}) if level == "file" else record(7, GOOD, **{name: value})
    with pytest.raises((FormatError, ChangeRefusedError)):
        to_record(odd, 7)


@pytest.mark.quick
@pytest.mark.parametrize("text", [b"[]", b"7", b"null", b"{}", b"[" * 100_000, b"\xff", b'{"number": 1e999}', b"NaN"])
def test_a_record_that_is_no_object_of_its_fields_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError, match="a record"):
        to_record(hash_of(text).encode() + b"\n" + text + b"\n", 1)


@pytest.mark.parametrize("attack", TRIES)
def test_a_record_that_leads_outside_is_refused_also_where_it_is_signed(home: Path, attack: str) -> None:
    (home / "empty").mkdir()
    root = mk.testing.write_files(home / "repo", {"payload": b"#!/bin/sh\n"})
    name, data = hostile(home)[attack]
    signed(root, name[name.rfind(".") :], data)
    before = snapshot(home)
    for door in (mk.undo, mk.recover, DOORS["store"]):
        with suppress(MemkitError):
            door(root)
    after = snapshot(home)
    assert {path for path in before if before[path] != after.get(path)} <= {"repo/MEMORY.md", f"repo/{JOURNAL}"}


def test_a_folder_that_memkit_did_not_make_is_not_dropped(home: Path) -> None:
    (home / "repo/empty").mkdir()
    signed(home / "repo", ".new", record(1, file("a.md", None, b"y", staged=".~memkit-1-0.tmp"), made=["empty"]))
    with pytest.raises(FormatError, match="folders above its files"):
        mk.recover(home / "repo")
    assert (home / "repo/empty").is_dir()


def test_what_is_staged_is_used_only_where_it_is_what_the_record_says(home: Path) -> None:
    root = home / "repo"
    data = record(1, file("a.md", None, b"wanted", staged=".~memkit-1-0.tmp"))
    mk.testing.write_files(root, {".~memkit-1-0.tmp": b"something else"})
    signed(root, ".todo", data)
    assert "a.md: somebody changed it" in mk.recover(root)[0]
    assert not (root / "a.md").exists()
    assert (root / ".memkit/aside/memkit-1-0.tmp").read_bytes() == b"something else"


class Unsynced(Disk):
    """A disk that waits for nothing: no test here cuts the power."""

    def _sync(self, path: str, flags: int) -> None:
        pass


TEXTS = st.text().map(lambda text: text.replace("\r", "\r\n"))
"""CR alone at the end of lines is left alone."""


@given(
    st.dictionaries(
        st.sampled_from(["a.md", "b/c.md", "b/d/e.md", "память/чай.md"]),
        st.tuples(st.none() | TEXTS, st.none() | TEXTS),
        min_size=1,
    )
)
def test_what_memkit_writes_it_reads(changes: dict[str, tuple[str | None, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = {path: text.encode() for path, (text, _) in changes.items() if text is not None}
        root = mk.testing.write_files(Path(folder), before)
        planned = [
            Change(path, before.get(path), None if new is None else new.encode()) for path, (_, new) in changes.items()
        ]
        with opened(root, disk=Unsynced) as journal:
            written = journal.apply(planned, {"policy": "x"})
            assert to_record(written.to_bytes(), written.number) == written == journal.last()
            journal.undo()
        assert {path: (root / path).read_bytes() for path in changes if (root / path).exists()} == before


# --- the second wall: no method of the disk leaves the folder ------------------------------------------------------

METHODS: dict[str, Callable[[Disk, str], object]] = {
    "read": lambda disk, path: disk.read(path),
    "status": lambda disk, path: disk.status(path),
    "names": lambda disk, path: disk.names(path),
    "write": lambda disk, path: disk.write(path, b"x"),
    "sync": lambda disk, path: disk.sync(path),
    "sync_folder": lambda disk, path: disk.sync_folder(path),
    "rename": lambda disk, path: disk.rename(path, "fresh.md"),
    "rename to": lambda disk, path: disk.rename("MEMORY.md", path),
    "remove": lambda disk, path: disk.remove(path),
    "make_folder": lambda disk, path: disk.make_folder(path),
    "remove_folder": lambda disk, path: disk.remove_folder(path),
    "make_private": lambda disk, path: disk.make_private(path),
}


def test_every_method_of_the_disk_is_tried() -> None:
    public = {name for name, value in vars(Disk).items() if callable(value) and not name.startswith("_")}
    assert public - {"locked"} == {name.partition(" ")[0] for name in METHODS}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "path",
    [
        *("../victim.md", "..", "sub/../../victim.md", "/etc/hostname", "//etc", "C:victim.md", "c:/victim.md"),
        *("..\\victim.md", "sub//a.md", "./MEMORY.md", "sub/.", "a\0b", "\ud800", ".git/hooks/pre-commit", ".env"),
        *(
            "link/victim.md",
            "link",
            "file.md",
            "dangling",
            "dangling/x",
            ".hidden/.~memkit-1-0.tmp",
            ".~memkit-0-0.tmp",
        ),
    ],
)
def test_no_method_of_the_disk_leaves_the_folder(home: Path, method: str, path: str) -> None:
    root = mk.testing.write_files(home / "repo", {"sub/a.md": b"a", ".git/hooks/x": b"", ".env": b"", ".hidden/x": b""})
    (root / "link").symlink_to(home)
    (root / "file.md").symlink_to(home / "victim.md")
    (root / "dangling").symlink_to(home / "nothing")
    before = snapshot(home)
    with pytest.raises(ChangeRefusedError):
        METHODS[method](Disk(root), path)
    assert snapshot(home) == before


def test_an_absolute_path_is_refused_even_where_it_is_one_of_the_folder(home: Path) -> None:
    with pytest.raises(ChangeRefusedError):
        Disk(home / "repo").read(str(home / "repo/MEMORY.md"))


def test_a_folder_in_place_of_a_file_is_refused_and_leaves_no_descriptor(home: Path) -> None:
    disk = Disk(mk.testing.write_files(home / "repo", {"sub/a.md": b"a"}))
    os.mkfifo(home / "repo/pipe")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all that is wanted
    for _ in range(20):
        for path in ("sub", "pipe"):
            with pytest.raises(ChangeRefusedError, match="expected a regular file"):
                disk.read(path)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_hidden_place_is_hidden_for_readers_and_writers_alike(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (".agent/memory/a.md", ".agent/b.md", ".agent/memory/.c/d.md", ".agentic/memory.md"):
        with pytest.raises(ChangeRefusedError, match="hidden"):
            check_path(path)
    monkeypatch.setattr("memkit.formats.disk.files._KNOWN", _by_first((".agent/memory",)))
    assert check_path(".agent/memory/a.md") == ".agent/memory/a.md"
    for path in (".agent/b.md", ".agent/memory/.c/d.md", ".agent/memoryx/a.md", ".git/.agent/memory/a.md"):
        with pytest.raises(ChangeRefusedError, match="hidden"):
            check_path(path)


# --- the third wall: whose key signed it ---------------------------------------------------------------------------


def test_a_record_is_followed_only_under_the_name_that_this_users_key_gave_it(home: Path) -> None:
    """Another folder, number, state, content or key: each makes another name."""
    key, root, data = made_key(), home, record()
    name = Signer(key, root).name(1, data[:32].decode(), ".done")
    assert Signer(key, root).owns(name)
    assert not Signer(bytes(32), root).owns(name)
    assert not Signer(key, root / "other").owns(name)
    other = name.replace(data[:32].decode(), record(2)[:32].decode())
    renamed = [
        other,
        name.replace(".done", ".todo"),
        name.replace("000001", "000002"),
        name.replace("000001", "0000001"),
    ]
    odd = ["000001.done", "x", "", name.upper(), f"{name}.done", name.replace("000001", "٠٠٠٠٠١")]
    assert not any(map(Signer(key, root).owns, [*renamed, *odd]))


def written_record(root: Path) -> Path:
    """A change of this user's, and the record of it."""
    mk.store(root).workspace.append_to_memory("своё", now="2026-03-01")
    (record_path,) = (root / JOURNAL).iterdir()
    return record_path


def test_a_record_of_what_is_done_cannot_be_renamed_to_one_that_is_to_do(home: Path) -> None:
    root = home / "repo"
    path = written_record(root)
    (root / "MEMORY.md").write_text("# Чай\nбез сахара\n")  # as it was: the change could be made again
    path.rename(path.with_suffix(".todo"))
    with pytest.warns(RuntimeWarning, match="1 records of a journal were set aside"), opened(root):
        pass
    assert (root / "MEMORY.md").read_text() == "# Чай\nбез сахара\n"


def test_a_record_whose_content_was_changed_is_not_followed(home: Path) -> None:
    root = home / "repo"
    path = written_record(root)
    for data in (record(1, file("MEMORY.md", b"theirs", (root / "MEMORY.md").read_bytes())), b"", b"\xff" * 99):
        path.write_bytes(data)
        with pytest.raises(MemkitError, match="no change to undo"):
            mk.undo(root)
    assert "своё" in (root / "MEMORY.md").read_text()


def test_reading_says_that_a_journal_is_anothers_and_moves_nothing(home: Path) -> None:
    root = mk.testing.write_files(home / "repo", {f"{JOURNAL}/000001.todo": record(1, file("MEMORY.md", VICTIM))})
    before = snapshot(home)
    corpus = mk.read(root)
    assert corpus.memories["title"].to_pylist() == ["Чай"]
    (row,) = corpus.problems.to_pylist()
    assert (row["rule"], row["severity"], row["path"]) == ("foreign_journal", "warning", JOURNAL)
    assert "1 others, first 000001.todo" in row["message"]
    assert "older memkit" in row["message"]
    assert snapshot(home) == before


def test_of_this_users_own_journal_reading_says_nothing(home: Path) -> None:
    written_record(home / "repo")
    assert mk.read(home / "repo").problems.num_rows == 0


def test_the_first_writer_sets_another_journal_aside_and_says_so(home: Path) -> None:
    theirs = {f"{JOURNAL}/000004.todo": record(4, file("b.md", VICTIM)), f"{JOURNAL}/000003.done": b"x"}
    root = mk.testing.write_files(home / "repo", theirs)
    with pytest.warns(RuntimeWarning, match=r"2 records .* set aside .* of 'b.md'.*trust=True") as caught:
        mk.store(root).workspace.append_to_memory("своё", now="2026-03-01")
    assert len(caught) == 1
    assert sorted(path.name for path in (root / ".memkit/aside").iterdir()) == ["000003.done", "000004.todo"]
    assert [path.name[:6] for path in (root / JOURNAL).iterdir()] == ["000005"]
    assert mk.read(root).problems.num_rows == 0
    note = mk.undo(root, clear=True).schema.metadata[b"note"].decode()
    assert "3 changes" in note
    assert list((root / ".memkit/aside").iterdir()) == []


def test_what_was_set_aside_before_is_kept_beside_what_comes(home: Path) -> None:
    root = home / "repo"
    for number in range(3):
        mk.testing.write_files(root, {f"{JOURNAL}/000001.done": b"%d" % number})
        with pytest.warns(RuntimeWarning, match="set aside"):
            assert "set aside" in str(warned(root))
    assert sorted(path.read_bytes() for path in (root / ".memkit/aside").iterdir()) == [b"0", b"1", b"2"]


def warned(root: Path) -> list[str]:
    """What recovering says, as a warning too."""
    messages = mk.recover(root)
    for text in messages:
        warnings.warn(text, RuntimeWarning, stacklevel=1)
    return messages


@pytest.mark.parametrize("writes_first", [False, True])
def test_a_copied_folder_is_taken_up_where_its_user_says_so(home: Path, writes_first: bool) -> None:
    written_record(home / "repo")
    copy = shutil.copytree(home / "repo", home / "copy")
    before = (copy / "MEMORY.md").read_text()
    if writes_first:
        with pytest.warns(RuntimeWarning, match="copied or moved"):
            mk.store(copy).workspace.append_to_memory("второе", now="2026-03-02")
    (message,) = mk.recover(copy, trust=True)
    assert "followed as if it were yours: a change of 'MEMORY.md'" in message
    if writes_first:
        mk.undo(copy)
    assert (copy / "MEMORY.md").read_text() == before
    mk.undo(copy)
    assert (copy / "MEMORY.md").read_text() == "# Чай\nбез сахара\n"
    assert "своё" in (home / "repo/MEMORY.md").read_text()


@pytest.mark.parametrize("mode", [0o100644, 0o640])
def test_the_journal_of_an_older_memkit_is_taken_up_where_its_user_says_so(home: Path, mode: int) -> None:
    root = home / "repo"
    old = (root / "MEMORY.md").read_bytes()
    staged = {".~memkit-2-0.tmp": "# Чай\nс мёдом\n", "MEMORY.md": old}
    new = staged[".~memkit-2-0.tmp"].encode()
    data = record(2, file("MEMORY.md", old, new, staged=".~memkit-2-0.tmp", mode=mode))
    mk.testing.write_files(root, {f"{JOURNAL}/000002.todo": data, **staged})
    mk.recover(root, trust=True)
    assert (root / "MEMORY.md").read_bytes() == new
    mk.undo(root)
    assert (root / "MEMORY.md").read_bytes() == old


def test_paths_of_others_are_said_without_what_drives_a_terminal(home: Path) -> None:
    odd = "a\x1b[2J\u202eb.md"
    mk.testing.write_files(home / "repo", {f"{JOURNAL}/000001.todo": record(1, file(odd, VICTIM))})
    messages = mk.recover(home / "repo") + mk.recover(home / "repo", trust=True)
    assert len(messages) >= 2
    assert all(text.replace("\n", "").isprintable() for text in messages)


def test_forgetting_removes_what_was_staged_for_a_record_that_lies_aside(home: Path) -> None:
    root = home / "repo"
    data = record(1, file("b.md", None, b"secret", staged=".~memkit-1-0.tmp"))
    mk.testing.write_files(root, {f"{JOURNAL}/000001.new": data, ".~memkit-1-0.tmp": b"secret"})
    with pytest.warns(RuntimeWarning, match="set aside"):
        mk.undo(root, clear=True)
    assert b"secret" not in b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


# --- the key -------------------------------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the key that is not there yet."""
    monkeypatch.setenv("MEMKIT_STATE", str(tmp_path / "state/memkit"))
    return tmp_path / "state/memkit"


def test_the_key_is_this_users_alone_and_stays(state: Path) -> None:
    assert users_key() is None
    assert not state.exists()
    key = made_key()
    assert len(key) == 32
    assert made_key() == users_key() == key
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "journal.key").stat().st_mode) == 0o600


def test_processes_that_make_the_key_at_once_have_one(state: Path) -> None:
    script = "from memkit.formats.disk.lock import made_key; print(made_key().hex())"
    several = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(6)]
    assert len({process.communicate()[0] for process in several}) == 1
    assert sorted(path.name for path in state.iterdir()) == ["journal.key", "journal.key.lock"]


def wide(state: Path) -> None:
    (state / "journal.key").chmod(0o640)


def open_folder(state: Path) -> None:
    state.chmod(0o770)


def short(state: Path) -> None:
    (state / "journal.key").write_bytes(b"x")


def link(state: Path) -> None:
    (state / "journal.key").rename(state / "elsewhere")
    (state / "journal.key").symlink_to(state / "elsewhere")


def folder(state: Path) -> None:
    (state / "journal.key").unlink()
    (state / "journal.key").mkdir()


def pipe(state: Path) -> None:
    (state / "journal.key").unlink()
    os.mkfifo(state / "journal.key", 0o600)


@pytest.mark.parametrize("spoil", [wide, open_folder, short, link, folder, pipe])
def test_a_key_that_others_could_have_written_is_refused_and_reading_goes_on(
    home: Path, state: Path, spoil: Callable[[Path], None]
) -> None:
    written_record(home / "repo")
    spoil(state)
    with pytest.raises(MemkitError, match=r"journal\.key|state/memkit: .*MEMKIT_STATE") as caught:
        mk.undo(home / "repo")
    assert "MEMKIT_STATE" in str(caught.value)
    assert mk.read(home / "repo").problems["rule"].to_pylist() == ["foreign_journal"]


def test_a_key_of_another_user_is_refused(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_key()
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    with pytest.raises(MemkitError, match="belongs to another user"):
        users_key()


def test_where_no_key_can_be_kept_nothing_is_written_and_it_is_said_what_helps(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMKIT_STATE", str(tmp_path / "file/memkit"))
    (tmp_path / "file").write_text("")
    with pytest.raises(MemkitError, match=r"cannot be kept there: Not a directory.* MEMKIT_STATE names another"):
        mk.store(home / "repo").workspace.append_to_memory("своё")
    assert (home / "repo/MEMORY.md").read_text() == "# Чай\nбез сахара\n"
    assert mk.read(home / "repo").problems.num_rows == 0


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"MEMKIT_STATE": "/a/b"}, "/a/b"),
        ({"XDG_STATE_HOME": "/x"}, "/x/memkit"),
        ({"XDG_STATE_HOME": "not/absolute", "HOME": "/h"}, "/h/.local/state/memkit"),
        ({"HOME": "/h"}, "/h/.local/state/memkit"),
        ({"HOME": "/h", "MEMKIT_STATE": ""}, "/h/.local/state/memkit"),
    ],
)
def test_the_key_lies_where_the_system_keeps_the_state_of_programs(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEMKIT_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state_folder() == Path(expected)


# --- what else lies in .memkit -------------------------------------------------------------------------------------


def test_a_lock_that_is_no_file_stops_no_reader_and_no_writer_hangs_on_it(home: Path) -> None:
    root = home / "repo"
    (root / ".memkit").mkdir()
    os.mkfifo(root / ".memkit/lock")
    assert mk.read(root).memories.num_rows == 1
    with pytest.raises(ChangeRefusedError, match="lock: expected a regular file"):
        mk.undo(root)


def test_a_state_folder_that_is_a_link_is_not_looked_into(home: Path) -> None:
    mk.testing.write_files(home, {"other/journal/000001.todo": b"", "other/lock": b""})
    (home / "repo/.memkit").symlink_to(home / "other")
    before = snapshot(home)
    assert mk.read(home / "repo").problems.num_rows == 0
    with pytest.raises(ChangeRefusedError, match="is a link"):
        mk.undo(home / "repo")
    assert snapshot(home) == before


@pytest.mark.parametrize("text", ["", "!*\n", "*\n!journal\n", "journal-of-mine\n"])
def test_what_would_bring_old_texts_into_a_repository_is_written_anew(home: Path, text: str) -> None:
    root = mk.testing.write_files(home / "repo", {".memkit/.gitignore": text})
    written_record(root)
    assert (root / ".memkit/.gitignore").read_text() == "*\n"


def test_what_lies_where_a_content_is_to_be_staged_is_named(home: Path) -> None:
    root = mk.testing.write_files(home / "repo", {".~memkit-1-0.tmp": b"x"})
    with pytest.raises(ChangeRefusedError, match=r"\.~memkit-1-0\.tmp: it is in the way"):
        mk.store(root).workspace.append_to_memory("своё")
    assert (root / ".~memkit-1-0.tmp").read_bytes() == b"x"


# --- what is no folder ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [None, 7, b"x", "", "\0", "a" * 5000, "\ud800", ["x"], "no/such/folder"], ids=ascii)
@pytest.mark.parametrize(
    "call",
    [mk.undo, mk.recover, mk.store, MemoryStorage, get_storage, get_index],
)
def test_what_is_no_folder_is_one_clear_error(call: Callable[[Any], object], root: object) -> None:
    with pytest.raises(MemkitError, match=r"expected a (folder|path)\. Got ") as caught:
        call(root)
    assert len(str(caught.value)) < 600


PATHS: dict[str, Callable[[Any], object]] = {
    "read": mk.read,
    "open": mk.open,
    "history": lambda path: mk.history(path),
    "undo": lambda path: mk.undo(".", clear=True, lake=path),
    "folder": lambda path: mk.Edits.from_json("[]", path),
}


@pytest.mark.outside
@pytest.mark.parametrize("path", [7, b"x", ["x"], object], ids=ascii)
@pytest.mark.parametrize("owner", PATHS)
def test_what_is_no_path_is_one_clear_error(owner: str, path: object) -> None:
    with pytest.raises(ParameterError, match=f"{owner}: expected a path. Got "):
        PATHS[owner](path)


# --- mutated records -----------------------------------------------------------------------------------------------

PIECES: list[object] = [
    *("../victim.md", "/etc/hostname", "..", "../other", ".git/hooks/pre-commit", "MEMORY.md", ".~memkit-1-0.tmp"),
    *("payload", "../.~memkit-1-0.tmp", hash_of(VICTIM), hash_of(b"#!/bin/sh\n"), VICTIM.decode(), "", None, 0, 1, -1),
    *(0o4777, 0o100644, True, [], {}, ["../empty"], ["sub"], 10**30),
]


def mutated(chance: random.Random, value: Any) -> Any:
    """A record in which some values are others, some are gone and some are there twice."""
    if chance.random() < 0.12:
        return chance.choice(PIECES)
    if isinstance(value, dict):
        kept = {key: mutated(chance, item) for key, item in value.items() if chance.random() > 0.02}
        return kept | ({"more": None} if chance.random() < 0.02 else {})
    if isinstance(value, list):
        return [mutated(chance, item) for item in value for _ in range(chance.choice((1, 1, 1, 1, 0, 2)))]
    return value


@pytest.mark.parametrize("trust", ["unsigned", "trusted", "signed"])
def test_no_mutated_record_moves_anything_outside_of_its_folder(home: Path, trust: str) -> None:
    (home / "empty").mkdir()
    repo = home / "repo"
    before, chance = snapshot(home, without=repo), random.Random(trust)
    sound = [json.loads(data.split(b"\n")[1]) for _, data in hostile(home).values()] + [
        json.loads(record(1, file("MEMORY.md", VICTIM, VICTIM * 2, staged=".~memkit-1-0.tmp")).split(b"\n")[1])
    ]
    for _ in range(30):
        shutil.rmtree(repo)
        files = {"MEMORY.md": VICTIM, "payload": b"#!/bin/sh\n", ".~memkit-1-0.tmp": VICTIM * 2, "sub/a.md": b""}
        mk.testing.write_files(repo, files)
        text = json.dumps(mutated(chance, chance.choice(sound))).encode()
        data, state = hash_of(text).encode() + b"\n" + text + b"\n", chance.choice([".new", ".todo", ".done"])
        if trust == "signed":
            signed(repo, state, data)
        else:
            mk.testing.write_files(repo, {f"{JOURNAL}/000001{state}": data})
        with suppress(MemkitError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mk.read(repo)
            mk.recover(repo, trust=trust == "trusted")
            mk.undo(repo)
        assert snapshot(home, without=repo) == before
