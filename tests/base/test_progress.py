"""Progress of long work: lines where standard error is no terminal, after two seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

import memkit as mk
from memkit.base import parallel as progress
from memkit.index.cache import VectorCache
from memkit.index.encoders.without_model import HashEncoder


@pytest.mark.quick
def test_long_work_says_how_far_it_is_and_short_work_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moments = iter(range(100))
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(progress, "monotonic", lambda: next(moments))
    monkeypatch.setattr(progress, "_SPEAKS", [])
    progress.speak()
    assert list(progress.bar("counting", "abcde")) == [*"abcde"]
    with progress.bar("encoding", total=30) as shown:
        for _ in range(3):
            shown.update(10)
    lines = capsys.readouterr().err.splitlines()
    # A second passes with each step, whichever work it is of: many short works are a long verb.
    done = ["counting: 2 of 5", "counting: 4 of 5", "encoding: 10 of 30", "encoding: 30 of 30"]
    assert lines == [f"memkit: {line}" for line in done]
    monkeypatch.setattr(progress, "monotonic", lambda: 1000)
    assert list(progress.bar("counting", "abcde")) == [*"abcde"]
    assert capsys.readouterr().err == ""


@pytest.mark.quick
def test_in_a_terminal_a_bar_waits_for_what_its_verb_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "_SPEAKS", [])
    moments = [100.0, 101.5, 103.0, 120.0]  # a verb begins; three bars, the last of another call, after a pause
    monkeypatch.setattr(progress, "monotonic", lambda: moments.pop(0))
    progress.speak()
    assert [progress.bar("counting").delay for _ in range(3)] == [0.5, 0.0, 2.0]


@pytest.mark.quick
def test_whoever_hears_of_work_can_end_it() -> None:
    def tell(what: str, done: int, total: int | None) -> None:
        if done == 2:
            raise KeyError(what, total)

    counted: list[int] = []
    with pytest.raises(KeyError, match="counting"), progress.heard(tell):
        counted.extend(progress.bar("counting", range(5)))
    assert list(progress.bar("counting", [0], silent=True)) == [0]


@pytest.mark.quick
def test_an_encoder_says_how_far_it_is_within_its_first_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moments = iter(range(100))
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(HashEncoder, "batch_size", 10)
    monkeypatch.setattr(progress, "monotonic", lambda: next(moments))
    monkeypatch.setattr(progress, "_SPEAKS", [])
    progress.speak()
    vectors = VectorCache(None).encode(HashEncoder(), [f"чай {n}" for n in range(45)])
    assert vectors.any(axis=1).all()
    told = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["20 of 45", "40 of 45"]


@pytest.mark.outside
def test_history_export_and_topics_say_how_far_they_are(tmp_path: Path) -> None:
    files = {f"{n}.md": f"# {n}\n\n{word} [[0]]\n" for n, word in enumerate(("чай", "мёд", "паром", "кофе", "забор"))}
    root, told = mk.testing.write_commits(tmp_path / "a", [("2026-01-01", files)]), list[tuple[str, int, int | None]]()
    with progress.heard(lambda *step: told.append(step)):
        mk.history(root)
        mk.export(mk.read(root), tmp_path / "b", "okf")
        mk.topics(mk.Retriever(encoder="hash").fit(mk.read(root)), k=2)
    some = {("commits", 1, None), ("looking up links", 5, 5), ("writing", 5, 5), ("comparing", 5, 5)}
    assert some | {("resampling", 30, 30)} <= {*told}
