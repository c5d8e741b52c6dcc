"""The command line as the shell calls it, and a small folder to read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memkit.cli.run import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _kept_vectors(kept_vectors: None) -> None:
    """A command finds what another one encoded, as it does for a user."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["memkit", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr("memkit.base.parallel._DELAY", float("inf"))  # how far it is depends on the machine
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    user = tmp_path / "users" / "anna"
    user.mkdir(parents=True)
    (user / "profile.md").write_text(
        "- [id:pf_1] [t:profile] [imp:high] Предпочитает зелёный чай\n"
        "- [id:pf_2] [t:profile] [imp:low] Likes [bold]maps[/]\n",
        encoding="utf-8",
    )
    (user / "working.md").write_text(
        "- [id:wk_1] [t:working] [imp:normal] [exp:2026-01-31] Чинит пул соединений\n", encoding="utf-8"
    )
    return tmp_path
