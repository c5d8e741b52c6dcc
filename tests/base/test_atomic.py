"""A file is what it was or what it was to become, and nothing is left beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memkit.base import atomic


@pytest.fixture
def mask() -> Iterator[int]:
    former = os.umask(0o027)
    yield 0o027
    os.umask(former)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.quick
@pytest.mark.parametrize(
    "content",
    ["чай", "чай".encode(), lambda path: path.write_text("чай", encoding="utf-8")],
    ids=["text", "bytes", "call"],
)
def test_a_file_gets_its_new_content_in_folders_that_are_made(
    tmp_path: Path, content: str | bytes | Callable[[Path], object]
) -> None:
    path = tmp_path / "a" / "b.txt"
    for _ in range(2):
        atomic.replace(path, content)
        assert [(one.name, one.read_text("utf-8")) for one in path.parent.iterdir()] == [("b.txt", "чай")]


@pytest.mark.quick
def test_while_a_file_is_written_its_place_holds_what_it_held(tmp_path: Path) -> None:
    contents = []

    def write(beside: Path) -> None:
        beside.write_text("new")
        contents.append((tmp_path / "a").read_text())

    (tmp_path / "a").write_text("old")
    atomic.replace(tmp_path / "a", write)
    assert (contents, (tmp_path / "a").read_text()) == (["old"], "new")


@pytest.mark.quick
@pytest.mark.parametrize("error", [OSError("full"), ValueError("odd"), KeyboardInterrupt()], ids=repr)
def test_a_writer_that_fails_leaves_what_was_there_and_nothing_beside(tmp_path: Path, error: BaseException) -> None:
    def write(beside: Path) -> None:
        beside.write_text("half")
        raise error

    (tmp_path / "a").write_text("old")
    with pytest.raises(type(error)):
        atomic.replace(tmp_path / "a", write)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a", "old")]


def test_a_file_can_be_called_by_its_content(tmp_path: Path) -> None:
    name = atomic.put(tmp_path, "three", lambda path: f"of-{path.stat().st_size}")
    assert (name, (tmp_path / "of-5").read_text()) == ("of-5", "three")


def test_others_may_read_what_the_users_mask_lets_them_unless_it_is_private(tmp_path: Path, mask: int) -> None:
    atomic.replace(tmp_path / "open", "a")
    atomic.replace(tmp_path / "key", b"a", mode=0o600)
    assert (mode_of(tmp_path / "open"), mode_of(tmp_path / "key")) == (0o666 & ~mask, 0o600)
