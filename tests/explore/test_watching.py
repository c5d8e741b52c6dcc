"""A folder under watch: what is read, when and in which thread, told by signals that the tests give themselves."""

from __future__ import annotations

import asyncio
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import memkit as mk
from memkit.cli.app import app
from memkit.errors import MemkitError, MissingExtraError
from memkit.explore.watching import Watch, is_read, watch
from memkit.formats.registry import FORMATS
from memkit.tables.samples import write_files

ENDINGS = tuple({ending for format in FORMATS for ending in format.endings})
PATIENCE_S = 300.0
"""As long as a test waits for what has to come; it comes at once."""


class Signals:
    """Saves that a test reports by hand."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[object] = SimpleQueue()

    def save(self) -> None:
        self.queue.put("saved")

    def end(self, error: Exception | None = None) -> None:
        self.queue.put(error)

    def __call__(self, stopped: threading.Event) -> Iterator[object]:
        while (signal := self.queue.get()) is not None and not stopped.is_set():
            if isinstance(signal, Exception):
                raise signal
            yield signal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "root", {"MEMORY.md": "# Чай\nБез сахара.\n"})


@pytest.fixture
def watched(folder: Path) -> Iterator[Callable[..., tuple[Watch, Signals]]]:
    """watched(*followers): a watch over the folder, and its signals; stopped at the end."""
    started: list[tuple[Watch, Signals]] = []

    def make(corpus: mk.Corpus, *followers: Any) -> tuple[Watch, Signals]:
        signals = Signals()
        started.append((Watch(corpus, followers, signals), signals))
        return started[-1]

    yield make
    for one, signals in started:
        signals.end()
        one.stop()


@pytest.mark.quick
def test_a_save_brings_the_new_state_to_searches_and_panels(folder: Path, watched: Callable[..., Any]) -> None:
    corpus = mk.read(folder)
    search = mk.Retriever(encoder=None).fit(corpus)
    panel = mk.panels.search(search, "кофе")
    policy = mk.panels.policy(corpus, "admission")
    prompt = mk.panels.context(corpus, mk.ContextBuilder(mk.Retriever(encoder=None)), message="кофе")
    one, signals = watched(corpus, panel, policy, prompt, search)
    assert panel.result.num_rows == 0
    write_files(folder, {"new.md": "# Кофе\nЧёрный.\n"})
    signals.save()
    change = one.wait(PATIENCE_S)
    assert change.paths == ("new.md",)
    assert str(change) == "Read again after new.md changed: 2 memories, +1."
    assert (one.n_readings, one.errors) == (1, [])
    assert one.corpus is change.corpus
    assert search.search("кофе")["path"].to_pylist() == panel.result["path"].to_pylist() == ["new.md"]
    assert policy.result.num_rows == 2
    assert "new.md" in str(prompt.result.to_pylist())
    for each in (panel, policy, prompt):  # the variable still has the corpus before the save
        code = eval(each.code, {"mk": mk, "corpus": corpus, "search": search})  # noqa: S307  # memkit's own
        assert code.equals(each.result)
    assert panel.status.startswith("1 hit. Without a date: hit 1. Read again after new.md")
    assert all("Read again after new.md" in each.status for each in (panel, policy, prompt))


@pytest.mark.quick
def test_a_panel_that_lacked_headings_is_there_once_the_folder_has_them(
    folder: Path, watched: Callable[..., Any]
) -> None:
    corpus = mk.read(folder)
    lab = mk.panels.lab(corpus, mk.Retriever(encoder=None).fit(corpus))
    one, _ = watched(corpus, lab)
    card, page = lab.widgets(), lab.view
    page._on_message(page, {"tab": "judge"}, [])
    assert "there are no questions" in page.error
    write_files(folder, {"a.md": "# Пул соединений\nПул соединений вырос.\n", "b.md": "# Зелёный чай\nПьёт чай.\n"})
    one.refresh()
    assert one.errors == []
    for name in ("search", "judge"):
        card.tabs["panels"].value = name
    assert page.spec["tabs"][0]["own"] == "judge"
    assert page.panel is lab["judge"]
    assert "to go" in card.summary.value


@pytest.mark.quick
def test_a_memory_that_is_dated_after_the_panel_was_made_shows(folder: Path, watched: Callable[..., Any]) -> None:
    corpus = mk.read(folder)
    search = mk.Retriever(encoder=None).fit(corpus)
    of_now, of_then = mk.panels.search(search, "кофе"), mk.panels.search(search, "кофе", as_of="2026-01-01")
    one, _ = watched(corpus, of_now, of_then)
    write_files(folder, {"memory/2026-02-01.md": "# Кофе\nЧёрный.\n"})
    one.refresh()
    assert [panel.result.num_rows for panel in (of_now, of_then)] == [1, 0]
    assert of_then.values["as_of"] == "2026-01-01"
    assert not of_now.undo()


def test_a_panel_of_measurements_says_that_it_is_of_the_folder_before(
    folder: Path, watched: Callable[..., Any]
) -> None:
    corpus = mk.read(folder)
    search = mk.Retriever(encoder=None).fit(corpus)
    labels = {"query_id": ["q"], "text": ["чай"]}, {"query_id": ["q"], "memory_id": ["workspace:MEMORY.md#чай"]}
    surface = mk.panels.surface(mk.sweep(search, *map(_table, labels), {"gram_weight": [0.0, 0.5]}))
    one, _ = watched(corpus, surface)
    write_files(folder, {"new.md": "# Кофе\n"})
    one.refresh()
    assert "This panel still shows the folder as it was before." in surface.status


def _table(columns: dict[str, list[str]]) -> Any:
    import pyarrow as pa

    more = {"relevance": [1]} if "memory_id" in columns else {}
    return pa.table({**columns, **more})


def test_a_save_without_a_difference_is_no_change(folder: Path, watched: Callable[..., Any]) -> None:
    one, signals = watched(mk.read(folder))
    (folder / "MEMORY.md").write_text("# Чай\nБез сахара.\n", encoding="utf-8")
    assert one.refresh() is None
    write_files(folder, {"a.md": "# A\n", "b.md": "# B\n"})
    signals.save()
    signals.save()  # which has nothing to add
    assert one.wait(PATIENCE_S).paths == ("a.md", "b.md")
    assert one.wait(0.01) is None
    assert one.n_readings == 1


def test_a_loop_that_runs_reads_between_two_steps_of_it(folder: Path) -> None:
    """As a notebook does: nothing changes while its code runs, and the reading is in the loop's own thread."""
    threads: list[threading.Thread] = []

    class Follower:
        def fit(self, corpus: mk.Corpus) -> None:
            threads.append(threading.current_thread())

    async def cells() -> None:
        signals = Signals()
        one = Watch(mk.read(folder), (Follower(),), signals)
        write_files(folder, {"new.md": "# Кофе\n"})
        signals.save()
        while one._saved.empty():  # as long as a cell runs
            assert one.corpus.memories.num_rows == 1
        while not one.n_readings:
            await asyncio.sleep(0)
        assert one.corpus.memories.num_rows == 2
        signals.end()
        one.stop()

    asyncio.run(asyncio.wait_for(cells(), PATIENCE_S))
    assert threads == [threading.main_thread()]


def test_what_goes_wrong_is_told_and_stops_no_other(folder: Path, watched: Callable[..., Any]) -> None:
    class Broken:
        def fit(self, corpus: mk.Corpus) -> None:
            raise mk.errors.QueryError("no such word")

    corpus = mk.read(folder)
    search = mk.Retriever(encoder=None).fit(corpus)
    one, signals = watched(corpus, Broken(), search)
    write_files(folder, {"new.md": "# Кофе\n"})
    signals.save()
    assert one.wait(PATIENCE_S).error == "Broken: no such word"
    assert one.errors == ["Broken: no such word"]
    assert search.corpus_.memories.num_rows == 2
    signals.end(ValueError("the system says no"))
    last = one.wait(PATIENCE_S)
    assert last.error == str(last) == "ValueError: the system says no"
    assert [*one] == []
    assert "2 errors" in repr(one)


def test_in_a_loop_a_fault_is_a_warning(folder: Path) -> None:
    async def cells() -> None:
        signals = Signals()
        one = Watch(mk.read(folder), (), signals)
        signals.end(ValueError("gone"))
        while not one.errors:
            await asyncio.sleep(0)
        one.stop()

    with pytest.warns(RuntimeWarning, match="watch: ValueError: gone"):
        asyncio.run(asyncio.wait_for(cells(), PATIENCE_S))


def test_a_folder_that_is_gone_is_told_and_what_was_read_stays(folder: Path, watched: Callable[..., Any]) -> None:
    one, signals = watched(mk.read(folder))
    shutil.rmtree(folder)
    signals.save()
    signals.end()
    changes = [*one]
    assert len(changes) == 1
    assert "nothing there" in changes[0].error
    assert changes[0].paths == ()
    assert one.corpus.memories.num_rows == 1


def test_who_waits_goes_on_when_it_is_stopped(folder: Path) -> None:
    signals = Signals()
    with Watch(mk.read(folder), (), signals) as one:
        waiting = threading.Thread(target=lambda: changes.extend(one))
        changes: list[Any] = []
        waiting.start()
        signals.end()
        one.stop()
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
    assert changes == []
    assert not one.is_running
    assert "stopped" in repr(one)


def test_a_link_in_place_of_the_folder_is_not_followed_and_said_in_its_own_words(
    folder: Path, tmp_path: Path, watched: Callable[..., Any]
) -> None:
    other = write_files(tmp_path / "other", {"secret.md": "# Чужое\n"})
    one, _ = watched(mk.read(folder))
    folder.rename(tmp_path / "moved")
    folder.symlink_to(other)
    change = one.refresh()
    assert "is a link now, which is not followed. Read " in str(change)
    assert change.corpus is one.corpus
    with pytest.raises(MemkitError, match="is a link now"):
        one.corpus.refresh()


def test_only_what_a_read_would_read_counts(tmp_path: Path, subtests: pytest.Subtests) -> None:
    outside = write_files(tmp_path / "outside", {"a.md": "# A\n"})
    root = write_files(tmp_path / "root", {"sub/a.md": "# A\n", ".claude/memory/b.md": "# B\n"})
    (root / "link").symlink_to(outside)
    for path, hidden, is_counted in (
        ("a.md", "known", True),
        ("sub/deep/a.JSON", "known", True),
        ("sub", "known", True),
        (".claude/memory/b.md", "known", True),
        (".claude/memory/b.md", "none", False),
        (".claude", "known", True),
        (".claude/settings.json", "known", False),
        (".claude/settings.json", "all", True),
        (".git/index", "all", False),
        (".memkit/journal.json", "all", False),
        (".memkitignore", "known", True),
        ("node_modules/a.md", "known", False),
        (".a.md.swp", "known", False),
        ("a.md~", "known", False),
        ("4913", "known", False),
        ("#a.md#", "known", False),
        ("a.md.tmp", "known", False),
        ("link/a.md", "known", False),
        ("link", "known", False),
        ("../outside/a.md", "known", False),
    ):
        with subtests.test(f"{path} {hidden}"):
            assert is_read(root, path, ENDINGS, hidden) is is_counted
    assert is_read(root, "moved-away", ENDINGS, "known", is_gone=True)
    assert is_read(root, ".", ENDINGS, "known", is_gone=True)
    assert not is_read(root, ".git/index.lock", ENDINGS, "known", is_gone=True)


def test_the_file_system_tells_of_a_save_and_not_of_others(folder: Path) -> None:
    with watch(mk.read(folder), pause_s=0.05) as one:
        write_files(folder, {".git/a.md": "# A\n", ".memkit/b.md": "# B\n", "draft.md~": "# C\n"})
        while one._saved.empty():  # until the system says of one that counts, however often it has to be asked
            write_files(folder, {"new.md": f"# Кофе\n{threading.get_ident()}\n"})
            threading.Event().wait(0.05)
        change = one.wait(PATIENCE_S)
        assert change.paths == ("new.md",)
        shutil.rmtree(folder)
        last = [change.error for change in one if change.error]
    assert len(last) == 1
    assert not one.is_running


def test_a_corpus_that_cannot_change_is_refused(folder: Path) -> None:
    root = mk.testing.write_commits(folder.parent / "repository", [("2026-01-05", {"a.md": "# Чай"})])
    with pytest.raises(mk.MemkitError, match="Got one without"):
        watch(mk.from_table({"text": ["чай"]}))
    with pytest.raises(mk.errors.ChangeRefusedError, match="revision"):
        watch(mk.read(root, rev="HEAD"))
    with pytest.raises(mk.errors.ParameterError, match="Got str"):
        watch(mk.read(root), "search")
    with pytest.raises(mk.errors.ParameterError, match="pause_s"):
        watch(mk.read(root), pause_s=0)


def test_without_the_package_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "watchfiles", None)
    with pytest.raises(MissingExtraError, match=r"memkit\[watch\]"):
        watch(mk.read(folder))


def test_the_overview_is_shown_again_after_a_save(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def signals(*_: object) -> Callable[..., Iterator[object]]:
        def saves(stopped: threading.Event) -> Iterator[object]:
            write_files(folder, {"new.md": "# Кофе\n"})
            yield "saved"

        return saves

    monkeypatch.setattr("memkit.explore.watching.saves_of", signals)
    with warnings.catch_warnings():
        code = app(["overview", str(folder), "--watch", "--as-of", "2026-03-01"], standalone_mode=False)
    out, err = capsys.readouterr()
    assert out.count("What is there") == 2
    assert "Read again after new.md changed: 2 memories, +1." in err
    assert code == 2  # the signals ended, as where the folder is gone
