"""Folders as they lie on real disks: many files, large logs, gaps, odd bytes and names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import UUID

import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.formats.disk import files
from memkit.tables.samples import write_files


def rules_of(corpus: mk.Corpus) -> list[tuple[str, str]]:
    return [(row["path"], row["rule"]) for row in corpus.problems.to_pylist()]


@pytest.mark.quick
def test_eighty_daily_logs_of_350_kb_lose_no_character(tmp_path: Path) -> None:
    line = "Пул соединений держит десять, the pool holds ten. E4021\n"
    logs = {}
    for day in range(80):
        name = f"memory/2026-{1 + day // 28:02d}-{1 + day % 28:02d}.md"
        size = 1 + 350_000 * day // 79 // len(line.encode())
        logs[name] = f"# День {day}\n" + line * (size // 2) + "## 14:30 Сбой\n" + line * (size - size // 2)
    corpus = mk.read(write_files(tmp_path, logs))
    assert corpus.memories.num_rows == 2 * 80 - 1, "the first heading of the shortest log has no text of its own"
    by_file: dict[str, list[str]] = {}
    for row in corpus.memories.to_pylist():
        by_file.setdefault(row["path"], []).append(row["text"])
    assert {path: "\n".join(texts) + "\n" for path, texts in by_file.items()} == logs
    assert corpus.problems.num_rows == 0
    assert set(corpus.tables["documents"]["kind"].to_pylist()) == {"daily_log"}


@pytest.mark.quick
def test_a_needle_at_the_end_of_a_long_note_is_found(tmp_path: Path) -> None:
    text = "слово " * 20_000 + "\n" + "иголка_в_стоге"
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03.md": text}))
    assert corpus.sql("select count(*) from fts('иголка')").fetchall() == [(1,)]


def test_a_notes_folder_of_seven_thousand_files(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(7000):
        name = UUID(int=number * 7919, version=4)
        head = f"id: {name}\nsubject: Заметка {number}\nkeywords: [пул, k{number % 7}]\napplies_to: global\n"
        dates = "created_at: 2026-01-05T10:00:00Z\nupdated_at: 2026-01-06T10:00:00Z\n"
        (folder / f"{name}.md").write_text(f"---\n{head}{dates}---\nТекст заметки номер {number}.\n", "utf-8")
    corpus = mk.read(tmp_path)
    assert corpus.memories.num_rows == corpus.tables["notes"].num_rows == 7000
    assert corpus.problems.num_rows == 0
    assert pc.count_distinct(corpus.memories["memory_id"]).as_py() == 7000
    assert sorted(corpus.memories["text"].to_pylist()) == sorted(f"Текст заметки номер {n}.\n" for n in range(7000))


FULL = {
    "title": "Пул",
    "file": "",
    "tags": ["db"],
    "priority": "high",
    "version": "1.0",
    "updated": "2026-01-02",
}


@pytest.mark.quick
def test_an_index_whose_entries_lack_half_of_the_fields_loads_every_file(tmp_path: Path) -> None:
    entries, written = [], {}
    for number in range(60):
        # Every entry has its file and drops three of the other five, another three each time.
        dropped = {sorted(FULL.keys() - {"file"})[(number + step) % 5] for step in range(3)}
        entry = {key: value for key, value in FULL.items() if key not in dropped}
        entries.append(entry | {"file": f"lessons/{number}.md"})
        written[f"memory/lessons/{number}.md"] = f"Урок {number}.\n"
    root = {"type": "index-root", "branches": [{"category": "lessons", "path": "lessons/index.json"}]}
    branch = {"type": "index-branch", "category": "lessons", "files": entries}
    written["memory/index.json"] = json.dumps(root)
    written["memory/lessons/index.json"] = json.dumps(branch, ensure_ascii=False, indent=1)
    corpus = mk.read(write_files(tmp_path, written))
    assert sorted(corpus.memories["text"].to_pylist()) == sorted(f"Урок {number}.\n" for number in range(60))
    assert corpus.tables["entries"]["status"].to_pylist() == ["valid"] * 60
    assert set(corpus.memories["kind"].to_pylist()) == {"entry"}
    assert [rule for _, rule in rules_of(corpus)] == ["missing_field"] * (60 * 3)
    assert set(corpus.problems["severity"].to_pylist()) == {"warning"}


def test_the_folder_of_a_category_can_be_read_alone(tmp_path: Path) -> None:
    required = {"tags": [], "priority": "low", "version": "1.0", "updated": "2026-03-01"}
    names = {"plans/context/tea.md": "a", "memory/plans/context/deep/milk.md": "b", "../../secret.md": "c"}
    entries = [{"title": title, "file": name, **required} for name, title in names.items()]
    index = {"type": "index-branch", "category": "context", "files": entries}
    folder = tmp_path / "memory/plans/context"
    (folder / "deep").mkdir(parents=True)
    (folder / "index.json").write_text(json.dumps(index))
    for path, text in ((folder / "tea.md", "чай"), (folder / "deep/milk.md", "молоко"), (tmp_path / "secret.md", "no")):
        path.write_text(text)
    corpus = mk.read(folder)
    rows = {row["title"]: (row["path"], row["text"]) for row in corpus.memories.to_pylist()}
    assert rows == {"a": ("tea.md", "чай"), "b": ("deep/milk.md", "молоко"), "c": ("index.json", "c")}
    assert corpus.problems["rule"].to_pylist() == ["outside_root"]


def test_a_byte_order_mark_and_carriage_returns_leave_no_trace(tmp_path: Path) -> None:
    text = "# Пул\r\nДесять.\r\n## Чай\r\nБез сахара.\r\n"
    plain = mk.read(write_files(tmp_path / "a", {"MEMORY.md": text.replace("\r\n", "\n")}))
    marked = mk.read(write_files(tmp_path / "b", {"MEMORY.md": b"\xef\xbb\xbf" + text.encode()}))
    assert marked.memories.equals(plain.memories)
    assert marked.problems.num_rows == 0


def test_a_lone_carriage_return_stays_as_it_is(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": "# A\none\rtwo"}))
    assert corpus.memories["text"].to_pylist() == ["# A\none\rtwo"]


def test_lines_in_windows_1251_are_kept_twice(tmp_path: Path) -> None:
    data = "# Пул\n".encode() + "Десять соединений".encode("cp1251") + "\n## Чай\nбез сахара\n".encode()
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03.md": data}))
    first, second = corpus.memories.to_pylist()
    assert json.loads(first["extra"]) == {"windows-1251": {"2": "Десять соединений"}}
    assert "�" in first["text"]
    assert second["extra"] == "{}"
    assert corpus.problems.select(["line", "rule"]).to_pylist() == [{"line": 2, "rule": "encoding"}]


NOTE = "---\nid: {id}\nsubject: {subject}\nkeywords: [a]\napplies_to: global\n{dates}---\n{body}"
DATES = "created_at: 2026-01-05T10:00:00Z\nupdated_at: 2026-01-05T10:00:00Z\n"


def test_front_matter_in_windows_1251_is_kept_beside_the_note(tmp_path: Path) -> None:
    name = "2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d"
    text = NOTE.format(id=name, subject="Прокси", dates=DATES, body="Ten connections, no more.\n")
    corpus = mk.read(write_files(tmp_path, {f"{name}.md": text.encode("cp1251")}))
    assert json.loads(corpus.memories["extra"][0].as_py())["windows-1251"] == {"3": "subject: Прокси"}


def test_an_index_in_windows_1251_keeps_its_words_in_its_entries(tmp_path: Path) -> None:
    branch = '{"type": "index-branch", "files": [\n{"title": "Прокси",\n "file": "a.md"}\n]}'
    root = '{"type": "index-root", "branches": [{"path": "b/index.json"}]}'
    written = {"index.json": root, "b/index.json": branch.encode("cp1251"), "a.md": "Десять.\n"}
    corpus = mk.read(write_files(tmp_path, written))
    (entry,) = corpus.memories.to_pylist()
    assert json.loads(entry["extra"])["windows-1251"] == {"2": '{"title": "Прокси",'}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_its_mark_is_read_as_such(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff".encode(encoding)
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": mark + "# Чай\r\nбез сахара\r\n".encode(encoding)}))
    assert corpus.memories["text"].to_pylist() == ["# Чай\nбез сахара"]
    assert rules_of(corpus) == [("MEMORY.md", "encoding")]


def test_empty_files_of_every_format_are_rows(tmp_path: Path) -> None:
    names = ["MEMORY.md", "HEARTBEAT.md", "memory/2026-02-03.md", "sessions/2026-02-03-a.md", "users/u/profile.md"]
    names += ["docs/x.md", "notes/x.md", "a/pathways.json", "b/memory.jsonl", "c/wisdom.yaml", "users/u/meta.json"]
    corpus = mk.read(write_files(tmp_path, dict.fromkeys(names, "")))
    assert {path for path, _ in rules_of(corpus)} == set(names)


@pytest.mark.parametrize(
    "name",
    [
        *("memory/мой день.md", "memory/ 2026-02-03 .md", "a b/c d/заметка №1.md", "memory/line\nend.md"),
        *("memory/quote'\".md",),
    ],
)
def test_any_file_name_is_a_path(tmp_path: Path, name: str) -> None:
    corpus = mk.read(write_files(tmp_path, {name: "# Чай\n"}))
    assert corpus.memories["path"].to_pylist() == [name]
    assert corpus.sql("select path from fts('чай') join memories using (memory_id)").fetchall() == [(name,)]


def test_file_names_that_are_no_utf_8_are_shown_and_read(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/memo\xff.md"
    with open(raw, "wb") as file:  # noqa: PTH123 - a name in bytes
        file.write("# Чай\n".encode())
    corpus = mk.read(tmp_path)
    assert corpus.memories.select(["path", "text"]).to_pylist() == [{"path": "memo\\xff.md", "text": "# Чай"}]
    assert ("memo\\xff.md", "encoding") in rules_of(corpus)
    assert corpus.refresh().memories.equals(corpus.memories)


def test_two_names_that_read_the_same_do_not_hide_each_other(tmp_path: Path) -> None:
    for raw in (b"/memo\xff.md", b"/memo\\xff.md"):
        with open(os.fsencode(tmp_path) + raw, "wb") as file:  # noqa: PTH123 - a name in bytes
            file.write("# Чай\n".encode())
    corpus = mk.read(tmp_path)
    assert corpus.memories["path"].to_pylist() == ["memo\\xff.md"]
    assert ("memo\\xff.md", "unreadable") in rules_of(corpus)


def test_an_unbalanced_fence_hides_no_heading(tmp_path: Path) -> None:
    text = "# A\n```\n# code\n```\n## B\n~~~\nодин\n## C\nдва\n"
    corpus = mk.read(write_files(tmp_path, {"memory/2026-02-03.md": text}))
    assert corpus.memories["title"].to_pylist() == ["A", "B", "C"]
    assert corpus.problems.select(["line", "rule"]).to_pylist() == [{"line": 6, "rule": "unbalanced_fence"}]


def test_hidden_folders_environments_and_marked_ones_are_passed_over(tmp_path: Path) -> None:
    skipped = [".git/a.md", ".obsidian/b.md", "node_modules/p/c.md", "venv/d.md", "own/e.md", "quiet/f.md", ".g.md"]
    markers = {"own/pyvenv.cfg": "home = /usr\n", "quiet/.memkitignore": ""}
    folder = write_files(tmp_path, {**dict.fromkeys(skipped, "# X\n"), **markers, "env/a.md": "# Окружение\n"})
    assert mk.read(folder).memories["path"].to_pylist() == ["env/a.md"]
    assert mk.read(folder / "quiet").memories["path"].to_pylist() == ["f.md"]


def test_the_same_name_in_two_folders_is_two_memories(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {f"{name}/index.md": f"# {name}\nтекст\n" for name in ("a", "b", "a/b")})
    corpus = mk.read(folder)
    assert corpus.memories["memory_id"].to_pylist() == [
        "workspace:a/b/index.md#a-b",
        "workspace:a/index.md#a",
        "workspace:b/index.md#b",
    ]


@pytest.mark.parametrize(
    ("name", "day", "time", "slug"),
    [
        ("memory/2026-02/2026-02-15.md", "2026-02-15", None, None),
        ("memory/2026-02-15-1230-slug.md", "2026-02-15", "12:30", "slug"),
        ("memory/2026-02-15-0930.md", "2026-02-15", "09:30", None),
        ("logs/deep/2026-02-15-мой-день.md", "2026-02-15", None, "мой-день"),
        ("sessions/2026-02-15-2500.md", "2026-02-15", None, "2500"),
        ("journals/2026_02_15.md", "2026-02-15", None, None),
        ("memory/2026_02_15_0930 чай.md", "2026-02-15", "09:30", "чай"),
        ("memory/2026-13-40.md", None, None, None),
        ("memory/2026_13_40.md", None, None, None),
    ],
)
def test_a_date_is_taken_from_a_name_anywhere_below_the_root(
    tmp_path: Path, name: str, day: str | None, time: str | None, slug: str | None
) -> None:
    corpus = mk.read(write_files(tmp_path, {name: "Текст\n"}))
    (row,) = corpus.tables["documents"].to_pylist()
    assert (row["date"] and row["date"].isoformat(), row["time"], row["slug"]) == (day, time, slug)
    assert ("bad_date" in corpus.problems["rule"].to_pylist()) == (day is None)
    assert corpus.memories["kind"].to_pylist() == ["session" if name.startswith("sessions") else "daily_log"]


def test_a_file_that_vanishes_while_the_folder_is_listed_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"MEMORY.md": "чай\n"})

    class Gone:
        name, path = "gone.md", str(tmp_path / "gone.md")

        def is_file(self, follow_symlinks: bool) -> bool:
            return True

        def stat(self, follow_symlinks: bool) -> os.stat_result:
            raise FileNotFoundError(2, "No such file or directory")

    before = mk.read(tmp_path)
    real = files.os.scandir

    class Listed:
        def __init__(self, path: str) -> None:
            self.found = [*real(path), Gone()]

        def __enter__(self) -> list[object]:
            return self.found

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(files.os, "scandir", Listed)
    assert rules_of(mk.read(tmp_path)) == [("gone.md", "unreadable")]
    assert rules_of(before.refresh()) == [("gone.md", "unreadable")]
