"""Whatever stands where a path is asked for: one error of memkit's that says what came, and never a hang."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import memkit as mk

FILES = {"MEMORY.md": "# Чай\nБез сахара, зелёный.\n"}


class Wrong:
    """Says that it is a path, and is none."""

    def __fspath__(self) -> Any:
        return 5


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pipe, a socket, a loop of links and a file, where one is."""
    mk.testing.write_files(tmp_path, {"file.md": "# Чай\nБез сахара.\n"})
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    os.mkfifo("pipe")
    Path("link").symlink_to("loop")
    Path("loop").symlink_to("link")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    return tmp_path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> mk.Corpus:
    return mk.read(mk.testing.write_files(tmp_path_factory.mktemp("sound"), FILES))


@cache
def overview_of(corpus: mk.Corpus) -> mk.overview:
    return mk.overview(corpus, as_of="2026-03-01")


NO_PATH = [None, "", b"folder", 5, 1.5, True, [], ["folder"], {}, object(), Path, Wrong()]
NO_NAME = ["a\0b", Path("a\0b"), "a\ud800b", "a" * 300, "a/" * 3000, "link"]
NOTHING = ["pipe", "socket", "/dev/null", "/dev/zero", "file.md/x", "none", "a\nb", "a\udcffb"]
TAKE_A_PATH: dict[str, Callable[[mk.Corpus, Any], object]] = {
    "read": lambda corpus, path: mk.read(path),
    "open": lambda corpus, path: mk.open(path),
    "history": lambda corpus, path: mk.history(path),
    "save": lambda corpus, path: corpus.save(path),
    "load": lambda corpus, path: mk.Retriever.load(path, corpus),
    "load a profile": lambda corpus, path: mk.Profile.load(path),
    "save a profile": lambda corpus, path: mk.Profile().save(path),
    "write_labels": lambda corpus, path: mk.labels.write({"query_id": ["q"], "text": ["чай"]}, path),
    "report": lambda corpus, path: overview_of(corpus).report(path),
}
READ = ("read", "open", "history", "load")


@pytest.mark.quick
@pytest.mark.parametrize("path", [*NO_PATH, *NO_NAME], ids=lambda path: f"{path!r:.20}")
@pytest.mark.parametrize("call", TAKE_A_PATH)
def test_what_is_no_path_is_refused_in_one_line_that_says_what_came(
    place: Path, corpus: mk.Corpus, call: str, path: Any
) -> None:
    with pytest.raises(mk.errors.ParameterError, match=r"^\w+: expected a path\. Got ") as refused:
        TAKE_A_PATH[call](corpus, path)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.quick
@pytest.mark.parametrize("path", NOTHING, ids=lambda path: f"{path!r:.20}")
@pytest.mark.parametrize("call", READ)
def test_where_nothing_can_be_read_one_line_says_so(place: Path, corpus: mk.Corpus, call: str, path: str) -> None:
    with pytest.raises(mk.MemkitError, match="expected a") as refused:
        TAKE_A_PATH[call](corpus, path)
    assert str(refused.value).isprintable()


@pytest.mark.quick
@pytest.mark.parametrize("path", ["pipe", "socket", "/dev/zero", "."])
@pytest.mark.parametrize("read", [mk.Profile.load, mk.labels.read_qrels, mk.labels.read_queries, mk.labels.import_log])
def test_a_file_is_asked_for_and_anything_else_is_not_opened(place: Path, read: Any, path: str) -> None:
    with pytest.raises(mk.errors.FormatError, match=r"expected a file\. Got a "):
        read(path)


@pytest.mark.parametrize("source", [None, "folder", Path("folder"), FILES])
def test_a_corpus_is_asked_for_and_what_makes_one_is_said(corpus: mk.Corpus, source: Any) -> None:
    for call in (mk.overview, lambda other: mk.diff(corpus, other), lambda other: mk.diff(other, corpus)):
        with pytest.raises(mk.errors.ParameterError, match=r"expected a Corpus\. Got \w+; .*mk\.read from a folder"):
            call(source)
