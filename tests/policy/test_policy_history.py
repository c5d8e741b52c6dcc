"""Replay that is true to its day: each date sees the folder as the last commit up to it had it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import FormatError, ParameterError

pytestmark = pytest.mark.outside

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
FACT = "- [id:wk_{}] [t:working] [imp:normal] [exp:2026-0{}-01] {}\n"
STATES: list[tuple[Any, dict[str, str | bytes | None]]] = [
    ("2026-01-01", {"users/u/working.md": FACT.format(1, 2, "Чинит пул соединений") + FACT.format(2, 9, "ок")}),
    (
        "2026-02-10",
        {"users/u/working.md": FACT.format(1, 4, "Чинит пул соединений") + FACT.format(3, 9, "Готовит релиз")},
    ),
]
DAYS = ["2025-12-31", "2026-01-15", "2026-02-05", "2026-03-05"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> mk.Corpus:
    return mk.read(mk.testing.write_commits(tmp_path_factory.mktemp("replay"), STATES))


def verdicts(replayed: pa.Table, day: str) -> dict[str, tuple[object, object]]:
    rows = [row for row in replayed.to_pylist() if f"{row['as_of']:%Y-%m-%d}" == day]
    return {row["memory_id"].rpartition("#")[2]: (row["keep_a"], row["keep_b"]) for row in rows}


def test_each_day_sees_its_own_memories(corpus: mk.Corpus) -> None:
    replayed = mk.replay(corpus, mk.Expiry(), mk.Admission(), as_of=DAYS, texts="git")
    assert [verdicts(replayed, day) for day in DAYS] == [
        {},
        {"wk_1": (True, True), "wk_2": (True, False)},
        {"wk_1": (False, True), "wk_2": (True, False)},
        {"wk_1": (True, True), "wk_3": (True, True)},
    ]
    assert replayed.schema.metadata[b"texts"] == b"git"
    assert (
        mk.read(corpus.root, rev="2026-02-05").revision["revision"] in replayed.schema.metadata[b"revisions"].decode()
    )
    today = mk.replay(corpus, mk.Expiry(), mk.Admission(), as_of=DAYS)
    assert today.schema.metadata[b"texts"] == b"today"
    assert set(verdicts(today, "2026-01-15")) == {"wk_1", "wk_3"}


def test_a_day_of_git_is_a_replay_of_what_was_read_then(corpus: mk.Corpus) -> None:
    strict = mk.Pipeline([mk.Admission(), mk.Deduplicator(encoder=None), mk.Quota(max_working=1)])
    for day in DAYS[1:]:
        past = mk.read(corpus.root, rev=day)
        one, other = (
            mk.replay(source, mk.Expiry(), strict, day, **how)
            for source, how in ((corpus, {"texts": "git"}), (past, {}))
        )
        assert one.equals(other)


def test_without_a_repository_it_is_refused(corpus: mk.Corpus, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="read from a folder"):
        mk.replay(corpus.memories, mk.Expiry(), mk.Expiry(), DAYS, texts="git")
    with pytest.raises(FormatError, match="in none"):
        mk.replay(mk.read(mk.testing.write_files(tmp_path, {"a.md": "x"})), mk.Expiry(), mk.Expiry(), DAYS, texts="git")
    with pytest.raises(ParameterError, match="'texts' must be"):
        mk.replay(corpus, mk.Expiry(), mk.Expiry(), DAYS, texts="tomorrow")
