"""A read depends on the content alone: not on the order of the disk, on processes, or on what was read before."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.formats import reader
from memkit.formats.disk import files
from memkit.formats.disk.lock import LOCK
from memkit.formats.linked import layout, relations
from memkit.formats.rows import Rule
from memkit.formats.rules import RULES
from memkit.formats.syntax import front_matter
from memkit.tables.database import Database
from memkit.tables.lake import write_parquet
from memkit.tables.samples import sample_data, write_files

ROOT = json.dumps({"type": "index-root", "branches": [{"category": "b", "path": "b/index.json"}]})


def branch(*names: str) -> str:
    return json.dumps({"type": "index-branch", "files": [{"title": name, "file": f"b/{name}"} for name in names]})


NOTE = "---\nid: {0}\nsubject: {0}\nkeywords: [k]\n---\nтело заметки {0}\n"
FACT = json.dumps(
    {"fact_id": "f1", "content": "чай", "relations": [{"fact_id": "f2", "type": "supports", "weight": 1}]}
)
START: dict[str, str | bytes] = {
    "MEMORY.md": "# Пул\nдесять\n",
    "memory/2026-02-03.md": "# День\nтекст\n",
    "memory/2026-02-04.md": "текст ".encode() + "кофе\n".encode("cp1251"),
    "n/1.md": NOTE.format("1"),
    "n/2.md": NOTE.format("1"),
    "r/wisdom.json": FACT,
    "u/anna.md": "- чай\n",
    "t/index.json": ROOT,
    "t/b/index.json": branch("x.md", "gone.md", "n/index.md"),
    "t/b/x.md": "# X\n",
    "t/b/y.md": "# Y\n",
    "t/b/n/index.md": "---\nparts: [p1.md, p2.md]\n---\n",
    "t/b/n/p1.md": "один\n",
    "t/b/n/p2.md": "два\n".encode() + "три\n".encode("cp1251"),
}


def put(name: str, content: str | bytes) -> Callable[[Path], object]:
    return lambda folder: write_files(folder, {name: content})


def drop(name: str) -> Callable[[Path], object]:
    def step(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return step


def move(name: str, to: str) -> Callable[[Path], object]:
    def step(folder: Path) -> None:
        if (folder / name).is_file():
            (folder / to).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).replace(folder / to)

    return step


def touch(name: str) -> Callable[[Path], object]:
    return lambda folder: os.utime(folder / name, ns=(1, 1)) if (folder / name).exists() else None


STEPS: dict[str, Callable[[Path], object]] = {
    "edit a log": put("memory/2026-02-03.md", "# День\nдругой текст\n## Ещё\n"),
    "edit the odd log": put("memory/2026-02-04.md", "чай\n"),
    "add a log": put("memory/2026-02-01.md", "первое\n"),
    "add the last file": put("я/z.md", "последнее\n"),
    "delete a log": drop("memory/2026-02-03.md"),
    "rename a log": move("memory/2026-02-03.md", "memory/2026-02-09.md"),
    "move a note": move("n/1.md", "k/1.md"),
    "edit a note": put("n/2.md", NOTE.format("20")),  # of equal length, two writes within a tick of the clock are one
    "touch a note": touch("n/1.md"),
    "add the other fact": put("r/other.json", json.dumps({"fact_id": "f2", "content": "кофе"})),
    "break the facts": put("r/wisdom.json", FACT[:-3]),
    "the fact again": put("r/more.jsonl", FACT + "\n" + FACT + "\n"),
    "users appear": put("u/users/anna/profile.md", "- [id:a] [t:profile] [imp:high] чай\n"),
    "users vanish": drop("u/users"),
    "counters": put("u/users/anna/meta.json", '{"profileCount": 5, "workingCount": 0, "archiveCount": 0}'),
    "index another file": put("t/b/index.json", branch("y.md", "x.md")),
    "index the parts": put("t/b/index.json", branch("n/p1.md", "n/index.md")),
    "break the index": put("t/b/index.json", "{"),
    "index the index": put("t/b/index.json", branch("index.json", "n/index.md", "gone.md")),
    "the index again": put("t/b/index.json", branch("x.md", "gone.md", "n/index.md")),
    "continue the index": put("t/b/index.part2.json", branch("y.md", "gone2.md")),
    "no continuation": drop("t/b/index.part2.json"),
    "no root": drop("t/index.json"),
    "the root again": put("t/index.json", ROOT),
    "edit a part": put("t/b/n/p1.md", b"one\n\xff\xfe odd\n"),
    "mend a part": put("t/b/n/p2.md", "два\nтри\n"),
    "drop a part": drop("t/b/n/p2.md"),
    "fewer parts": put("t/b/n/index.md", "---\nparts: [p1.md]\n---\n"),
    "other parts": put("t/b/n/index.md", "---\nparts: [p2.md, p1.md, ../x.md]\n---\n"),
    "the missing file": put("t/b/gone.md", "нашёлся\n"),
    "many files": lambda folder: write_files(folder, {f"m/{n}.md": f"# {n}\n" for n in range(80)}),
    "none of many": drop("m"),
    "a link": lambda folder: (folder / "link.md").is_symlink() or (folder / "link.md").symlink_to(folder / "MEMORY.md"),
}


@pytest.fixture(autouse=True, scope="module")
def quick_saves() -> Iterator[None]:
    """A save leaves out the database, which no refresh looks at: half of the time here would be full-text indexes."""

    def write(self: Database, path: Path) -> None:
        with duckdb.connect(str(path)) as con:
            con.execute("create schema memkit")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "write", write)
        yield


def assert_equal(actual: mk.Corpus, expected: mk.Corpus) -> None:
    assert actual.tables.keys() == expected.tables.keys()
    for name, table in expected.tables.items():
        assert actual.tables[name].equals(table) or actual.tables[name].to_pylist() == table.to_pylist(), name


@pytest.mark.quick
@pytest.mark.parametrize("step", STEPS)
def test_a_refresh_equals_a_fresh_read_after_one_step(tmp_path: Path, step: str) -> None:
    corpus = mk.read(write_files(tmp_path / "a", START), as_of="2026-02-03")
    corpus.save(tmp_path / "lake")
    STEPS[step](tmp_path / "a")
    expected = mk.read(tmp_path / "a", as_of="2026-02-03")
    assert_equal(corpus.refresh(), expected)
    opened = mk.open(tmp_path / "lake")
    assert_equal(opened, corpus)
    after = opened.refresh()
    assert_equal(after, expected)
    assert_equal(after.refresh(), expected)


PAGE = "---\ntitle: {}\n{}---\nтекст [[b]] [f](f.csv)\n"
OF_OTHERS: dict[str, tuple[dict[str, str], Callable[[Path], object]]] = {
    "a successor no more": (
        {"a.md": PAGE.format("a", "supersedes: '[[b]]'\n"), "b.md": PAGE.format("b", "")},
        put("a.md", PAGE.format("a", "")),
    ),
    "a copy without original": ({"чай.md": "# Чай\nтекст\n", "чай (1).md": "# Чай\nтекст\n"}, drop("чай.md")),
    "a file that is linked": ({"a.md": PAGE.format("a", ""), "b.md": PAGE.format("b", "")}, put("f.csv", "1\n")),
    "a file that was linked": ({"a.md": PAGE.format("a", ""), "b.md": "# B\n", "f.csv": "1\n"}, drop("f.csv")),
}


@pytest.mark.parametrize("case", OF_OTHERS)
def test_what_other_files_said_of_a_memory_is_not_kept_in_a_lake(tmp_path: Path, case: str) -> None:
    start, step = OF_OTHERS[case]
    folder = write_files(tmp_path / "a", start)
    mk.read(folder).save(tmp_path / "lake")
    step(folder)
    assert_equal(mk.open(tmp_path / "lake").refresh(), mk.read(folder))


@settings(max_examples=15)
@given(st.lists(st.one_of(st.sampled_from(sorted(STEPS)), st.sampled_from(["(refresh)", "(save)"])), max_size=10))
def test_a_refresh_equals_a_fresh_read_after_any_steps(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write_files(Path(name) / "a", START)
        corpus = mk.read(folder)
        for step in steps:
            if step == "(save)":
                corpus.save(Path(name) / "lake")
                corpus = mk.open(Path(name) / "lake")
            elif step == "(refresh)":
                corpus = corpus.refresh()
            else:
                STEPS[step](folder)
        assert_equal(corpus.refresh(), mk.read(folder))


def parquet(corpus: mk.Corpus, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    for name, table in corpus.tables.items():
        write_parquet(folder / f"{name}.parquet", table)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.quick
def test_the_order_of_the_disk_changes_no_byte_of_the_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("users appear", "counters", "continue the index"):
        STEPS[step](write_files(tmp_path / "a", START))
    shutil.copytree(sample_data(), tmp_path / "a" / "data")
    paths = sorted(path for path in (tmp_path / "a").rglob("*") if path.is_file())
    for path in reversed(paths):
        write_files(tmp_path / "b", {str(path.relative_to(tmp_path / "a")): path.read_bytes()})
    first = parquet(mk.read(tmp_path / "a"), tmp_path / "pa")
    assert parquet(mk.read(tmp_path / "b"), tmp_path / "pb") == first
    real = os.scandir

    class Backwards:
        def __init__(self, path: str) -> None:
            self.found = sorted(real(path), key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.found

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(files.os, "scandir", Backwards)
    assert parquet(mk.read(tmp_path / "a"), tmp_path / "pc") == first


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Callable[..., mk.Corpus]:
    """`mk.read` by two other processes, also where there is little to read; this one may not parse."""
    monkeypatch.setattr(reader, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(reader, "BATCH_FILES", 7)

    def read(folder: Path, **options: Any) -> mk.Corpus:
        with monkeypatch.context() as patch:
            patch.setattr(reader._Batch, "parse", lambda batch: pytest.fail("parsed in this process"))
            return mk.read(folder, n_jobs=2, **options)

    return read


def test_two_processes_read_what_one_reads(tmp_path: Path, two: Callable[..., mk.Corpus]) -> None:
    notes = {f"m/{number}.md": f"# {number}\nтекст\n" for number in range(30)}
    folder = write_files(tmp_path, {**START, **notes})
    alone = mk.read(folder)
    corpus = two(folder)
    assert_equal(corpus, alone)
    assert_equal(corpus.refresh(), alone)


def test_a_few_files_are_read_by_one_process_whatever_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "results", lambda *task: pytest.fail("another process was asked"))
    assert mk.read(write_files(tmp_path, START), n_jobs=2).memories.num_rows


@pytest.mark.quick
def test_a_batch_that_is_held_in_pieces_is_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_files(tmp_path, START)
    whole = mk.read(folder)
    monkeypatch.setattr(reader, "BATCH_BYTES", 40)
    pieces = mk.read(folder)
    assert_equal(pieces, whole)
    STEPS["edit a log"](folder)
    assert_equal(pieces.refresh(), mk.read(folder))


def test_every_role_is_the_same_in_another_process(tmp_path: Path, two: Callable[..., mk.Corpus]) -> None:
    notes = {f"a/{number}.md": f"# {number}\nтекст\n" for number in range(30)}
    old_facts = {"u/users/1/profile.md": "- [2026-01-01] a fact\n"}
    folder = write_files(tmp_path, {**notes, **START, **old_facts})
    (folder / os.fsdecode(b"b\xff.md")).write_text("# name", encoding="utf-8")
    alone = mk.read(folder)
    assert {"unindexed", "encoding"} <= set(alone.problems["rule"].to_pylist())
    assert_equal(two(folder), alone)
    assert_equal(two(folder / "MEMORY.md"), mk.read(folder / "MEMORY.md"))


def test_rules_of_the_user_run_in_other_processes(tmp_path: Path, two: Callable[..., mk.Corpus]) -> None:
    folder = write_files(tmp_path, {f"n/{number}.md": NOTE.format(number) for number in range(30)})
    rules = (*RULES, Rule("bad_value", "notes", "subject", "an odd number", lambda value: int(str(value)) % 2 == 1))
    problems = two(folder, rules=rules).problems
    assert problems.equals(mk.read(folder, rules=rules).problems)
    assert pc.sum(pc.match_substring(problems["message"], "an odd number")).as_py() == 15


def test_what_a_killed_process_leaves_is_read_by_this_one(tmp_path: Path, two: Callable[..., mk.Corpus]) -> None:
    folder, home = write_files(tmp_path, {f"n/{number}.md": NOTE.format(number) for number in range(30)}), os.getpid()

    def dies_elsewhere(_: object) -> bool:
        return os.getpid() == home or os._exit(1)  # type: ignore[func-returns-value]

    rules = (*RULES, Rule("bad_value", "notes", "subject", "anything", dies_elsewhere))
    assert_equal(mk.read(folder, rules=rules, n_jobs=2), mk.read(folder))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    paths: list[str] = []
    real = os.open

    def note(path: str, flags: int, *args: int, **kwargs: Any) -> int:
        if not flags & os.O_DIRECTORY and not str(path).endswith(LOCK):  # the lock of writers is no memory
            paths.append(Path(path).name)
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(files.os, "open", note)
    return paths


def settle() -> None:
    """Let the clock that stamps files tick: what was just written is opened again whatever its stat says."""
    time.sleep(0.03)


TOLD_BY = {Path(name).name for name in START if name.endswith(".md")}
"""A sample of a folder's Markdown says whether it holds linked notes."""


def test_a_refresh_opens_and_parses_only_what_changed(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    split, heads = front_matter.split, list[str]()
    monkeypatch.setattr(front_matter, "split", lambda text: heads.append(text) or split(text))
    folder = write_files(tmp_path, START)
    settle()
    corpus = mk.read(folder)
    assert set(opened) == {Path(name).name for name in START}
    opened.clear()
    unchanged = corpus.refresh()
    assert opened == []
    STEPS["edit a log"](folder)
    STEPS["touch a note"](folder)
    STEPS["drop a part"](folder)
    settle()
    after = unchanged.refresh()
    changed = {"1.md", "2026-02-03.md", "index.md", "p1.md"}
    assert changed <= set(opened) <= changed | TOLD_BY
    opened.clear()
    assert after.refresh()._reading is not None
    assert opened == []
    heads.clear()
    next(folder.rglob("2026-02-03.md")).write_text("чай\n", encoding="utf-8")
    after.refresh()
    assert [head for head in heads if "parts:" not in head] == ["чай\n"]  # which parts a note has is asked each time


def test_a_refresh_looks_up_only_the_links_of_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {f"v/p{number}.md": f"# Чай {number}\n[[p{number + 1}]] [[нет {number}]]\n" for number in range(9)}
    folder = write_files(tmp_path, pages)
    settle()
    corpus = mk.read(folder)
    looked_up, looked_into = list[str](), list[str]()
    link_in, stems_named = relations.link_in, layout.stems_named
    monkeypatch.setattr(relations, "link_in", lambda text: looked_up.append(text) or link_in(text))
    monkeypatch.setattr(layout, "stems_named", lambda text: looked_into.append(text) or stems_named(text))
    write_files(folder, {"v/p3.md": pages["v/p3.md"] + "[[p0]]\n"})
    after = corpus.refresh()
    assert (looked_up, len(looked_into)) == (["[[p0]]"], 1)
    assert after.tables == mk.read(folder).tables
    write_files(folder, {"v/нет 5.md": "[[p1]]\n"})
    # What a page says is known of another list of files too.
    assert (after.refresh().tables, looked_into.count(pages["v/p7.md"])) == (mk.read(folder).tables, 1)


def test_an_opened_corpus_opens_only_its_indexes_once_more(tmp_path: Path, opened: list[str]) -> None:
    mk.read(write_files(tmp_path / "a", START)).save(tmp_path / "lake")
    settle()
    corpus = mk.open(tmp_path / "lake")
    opened.clear()
    corpus = corpus.refresh()
    assert {"index.json", "index.md"} <= set(opened) <= {"index.json", "index.md"} | TOLD_BY
    opened.clear()
    corpus.refresh()
    assert opened == []


def test_a_change_that_keeps_size_and_mtime_is_seen(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"MEMORY.md": "# Чай\n"})
    corpus = mk.read(folder)
    before = (folder / "MEMORY.md").stat()
    after = before
    while after.st_ctime_ns == before.st_ctime_ns:  # the clock of a disk ticks up to a hundred times a second
        (folder / "MEMORY.md").write_text("# Чад\n", encoding="utf-8")
        os.utime(folder / "MEMORY.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        after = (folder / "MEMORY.md").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert corpus.refresh().memories["title"].to_pylist() == ["Чад"]


def test_nothing_is_made_anew_of_a_folder_that_did_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a survey, though an index names a hidden file and the root has a workspace beside it."""
    files = {"memory/index.json": branch(".hidden.md", "gone.md"), "memory/b/.hidden.md": "# H\n", "memory/u.md": "- а"}
    folder = write_files(tmp_path / "data", {**files, "memory/.x/a.md": "# A\n"}) / "memory"
    settle()
    corpus = mk.read(folder, hidden="known").refresh()
    reading = corpus._source()
    assert corpus.refresh()._source() is reading
    for name, text in {
        "b/.hidden.md": "# Другое\n",
        "b/gone.md": "# G\n",
        ".x/b.md": "# B\n",
        "../MEMORY.md": "м",
    }.items():
        write_files(folder, {name: text})
        settle()
        assert_equal(changed := corpus.refresh(), mk.read(folder))
        assert changed._source() is not reading
        corpus, reading = changed, changed._source()
        assert corpus.refresh()._source() is reading
    monkeypatch.setattr(reader, "read_listing", lambda *_: pytest.fail("the folder was read"))
    assert corpus.refresh().tables == corpus.tables


def test_a_change_within_a_tick_of_the_clock_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(files, "_stat", lambda status: (status.st_size, now, now))
    monkeypatch.setattr(time, "time_ns", lambda: now)  # a clock that stands still, however busy the machine is
    folder = write_files(tmp_path, {"MEMORY.md": "# Чай\n"})
    corpus = mk.read(folder)
    write_files(folder, {"MEMORY.md": "# Чад\n"})
    assert corpus.refresh().memories["title"].to_pylist() == ["Чад"]


def test_an_unchanged_refresh_keeps_the_index_of_the_texts(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, START))
    corpus.sql("from fts('чай')").fetchall()
    index = corpus._database.built_index
    assert index is not None
    STEPS["touch a note"](tmp_path)
    assert corpus.refresh()._database.built_index is index
    STEPS["edit a log"](tmp_path)
    assert corpus.refresh()._database.built_index is not index


def test_the_old_corpus_stays_what_it_was(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, START))
    before = corpus.memories
    STEPS["delete a log"](tmp_path)
    corpus.refresh()
    assert corpus.memories is before
    assert corpus.sql("select count(*) from memories").fetchall() == [(before.num_rows,)]


def test_a_folder_that_vanished_is_said_so(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path / "a", START))
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(mk.errors.FormatError, match="nothing there"):
        corpus.refresh()


def test_a_single_file_is_refreshed_too(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": "# Чай\n", "other.md": "# X\n"}) / "MEMORY.md")
    assert corpus.memories["path"].to_pylist() == ["MEMORY.md"]
    write_files(tmp_path, {"MEMORY.md": "# Кофе\n"})
    assert corpus.refresh().memories["title"].to_pylist() == ["Кофе"]
