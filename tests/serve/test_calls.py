"""The log of what was asked: a regular file of memkit's own folder and nothing else, written and read alike."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.serve.tools import Tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return mk.testing.write_files(tmp_path / "root", {"MEMORY.md": "# Чай\n\nЛюбит зелёный чай.\n"})


def in_time(work: Callable[[], Any]) -> Any:
    """What `work` gives; one that waits for ever fails the test."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
    thread.start()
    thread.join(20)
    assert answers, "it waits for ever, or failed"
    return answers[0]


def link_to_folder(root: Path, aside: Path) -> None:
    (root / ".memkit").symlink_to(aside, target_is_directory=True)


def link_to_file(root: Path, aside: Path) -> None:
    (root / ".memkit").mkdir()
    (root / ".memkit/calls.jsonl").symlink_to(aside / "calls.jsonl")


def link_to_nothing(root: Path, aside: Path) -> None:
    (root / ".memkit").mkdir()
    (root / ".memkit/calls.jsonl").symlink_to(aside / "new.jsonl")


def pipe(root: Path, aside: Path) -> None:
    (root / ".memkit").mkdir()
    os.mkfifo(root / ".memkit/calls.jsonl")


def folder(root: Path, aside: Path) -> None:
    (root / ".memkit/calls.jsonl").mkdir(parents=True)


def file_for_folder(root: Path, aside: Path) -> None:
    (root / ".memkit").write_text("")


@pytest.mark.quick
@pytest.mark.parametrize("obstacle", [link_to_folder, link_to_file, link_to_nothing, pipe, folder, file_for_folder])
def test_a_log_that_is_no_file_of_memkits_own_is_not_written_and_the_search_says_so(
    obstacle: Callable[[Path, Path], None], root: Path, tmp_path: Path
) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "calls.jsonl").write_text("another's\n")
    obstacle(root, aside)
    tools = Tools(root, {"encoder": None})
    answer = in_time(lambda: tools.memory_search("чай"))
    assert answer["results"][0]["file_path"] == "MEMORY.md"
    assert "not logged: " in answer["note"]
    assert ".memkit" in answer["note"]
    assert in_time(lambda: tools.memory_get([answer["results"][0]["chunk_id"]]))["results"]
    assert {path.name: path.read_text() for path in aside.iterdir()} == {"calls.jsonl": "another's\n"}


@pytest.mark.quick
@pytest.mark.parametrize("obstacle", [link_to_folder, link_to_file, pipe])
def test_a_log_that_is_no_file_of_memkits_own_is_not_read(
    obstacle: Callable[[Path, Path], None], root: Path, tmp_path: Path
) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "calls.jsonl").write_text('{"text": "чай", "used": ["m1"]}\n')
    obstacle(root, aside)

    def imported() -> str:
        with pytest.raises(mk.errors.FormatError) as caught:
            mk.labels.import_log(root / ".memkit/calls.jsonl")
        return str(caught.value)

    assert "expected a" in in_time(imported)


@pytest.mark.quick
def test_the_log_of_a_folder_without_one_is_kept_out_of_repositories(root: Path) -> None:
    Tools(root, {"encoder": None}).memory_search("чай")
    assert (root / ".memkit/.gitignore").read_text() == "*\n"
    assert (root / ".memkit/calls.jsonl").stat().st_mode & 0o077 == 0


def test_a_long_query_is_cut_in_the_log_after_its_secrets_are_masked(root: Path) -> None:
    secret = "sk-" + "a1B2" * 8
    for before in (970, 985, 995):
        Tools(root, {"encoder": None}).memory_search(f"{'м' * before} {secret} {'чай ' * 1_000}")
    text = (root / ".memkit/calls.jsonl").read_text("utf-8")
    assert [len(json.loads(line)["text"]) for line in text.splitlines()] == [1_000] * 3
    assert secret[:12] not in text


def test_a_pipe_for_a_lock_keeps_nobody_waiting(root: Path) -> None:
    (root / ".memkit").mkdir()
    os.mkfifo(root / ".memkit/lock")
    assert in_time(lambda: mk.read(root).memories.num_rows) == 1
    assert in_time(lambda: Tools(root, {"encoder": None}).memory_search("чай")["results"])
