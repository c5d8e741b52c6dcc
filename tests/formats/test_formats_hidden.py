"""Hidden places, JSON of unknown shapes, transcripts, and dates from files: nothing is left out without a word."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.change.disk import Disk, check_changed
from memkit.errors import ChangeRefusedError, ParameterError
from memkit.formats.disk import files as disk
from memkit.formats.disk.files import is_hidden
from memkit.formats.format import File, Folder, Survey
from memkit.formats.rows import Rows
from memkit.tables.samples import write_files

HIDDEN_PLACES, NEVER_READ = (list(chain(*places.values())) for places in (disk.HIDDEN_PLACES, disk.NEVER_READ))


def problems(corpus: mk.Corpus, *rules: str) -> list[tuple[str, str]]:
    return [(row["rule"], row["path"]) for row in corpus.problems.to_pylist() if not rules or row["rule"] in rules]


def paths(corpus: mk.Corpus) -> list[str]:
    return sorted(set(corpus.memories["path"].to_pylist()))


@pytest.mark.quick
def test_every_known_place_is_read_at_any_depth_and_can_be_written(tmp_path: Path) -> None:
    places = [f"{above}{place.replace('*', 'host')}" for place in HIDDEN_PLACES for above in ("", "apps/бот/")]
    files = {f"{place}/чай.md": "# Чай\nБез сахара.\n" for place in places}
    corpus = mk.read(write_files(tmp_path, files))
    assert paths(corpus) == sorted(files)
    assert not problems(corpus, "hidden")
    assert [check_changed(path) for path in files] == [*files]
    assert mk.read(tmp_path, hidden="none").memories.num_rows == 0


@pytest.mark.quick
def test_what_lies_beside_a_known_place_is_neither_read_nor_written(tmp_path: Path) -> None:
    for place in (name.replace("*", "host") for name in HIDDEN_PLACES):
        top, _, below = place.partition("/")
        beside = [f"{top}/settings.md", f"{top}/hooks/x.md", f"{top}/projects/.git/memory/x.md"] if below else []
        beside += [f"{place}/.draft.md", f"{top.upper()}/{below or 'x'}/x.md", f"{place}.bak/x.md"]
        assert [path for path in beside if not is_hidden(path)] == []
        for path in [*beside, f"{place}/../../x.md"]:
            with pytest.raises(ChangeRefusedError):
                check_changed(path)
            with pytest.raises(ChangeRefusedError):
                Disk(tmp_path).write(path, b"x")
    assert not any(tmp_path.iterdir())


@pytest.mark.quick
def test_what_is_never_read_is_not_read_with_all_either(tmp_path: Path) -> None:
    files = {f"{place}/x.md": "# A\ntext\n" for place in NEVER_READ if place not in (".git", ".memkit")}
    files |= dict.fromkeys(("notes/.venv/x.md", ".notes/x.md", ".x.md", ".windsurfrules"), "# A\ntext\n")
    corpus = mk.read(write_files(tmp_path, files), hidden="all")
    assert paths(corpus) == [".notes/x.md", ".windsurfrules", ".x.md"]
    assert not problems(corpus, "hidden")


@pytest.mark.outside
def test_hidden_markdown_is_named_in_a_row_a_folder_with_what_to_type(tmp_path: Path) -> None:
    files = {".notes/a.md": "x", ".notes/b/c.MD": "x", ".notes/d.txt": "x", ".empty/d.txt": "x"}
    files |= {"docs/.a.md": "x", "docs/.cursorrules": "x", "docs/.c.txt": "x", ".claude/skills/a.md": "x"}
    rows = mk.read(write_files(tmp_path, files)).problems.to_pylist()
    assert [(row["rule"], row["severity"], row["path"]) for row in rows] == [
        ("hidden", "info", ".notes"),
        ("hidden", "info", "docs"),
    ]
    assert "2 Markdown files" in rows[0]["message"]
    assert "`memkit overview .notes`" in rows[0]["message"]
    assert "2 Markdown files" in rows[1]["message"]
    assert "hidden='all'" in rows[1]["message"]


def test_more_names_than_are_counted_are_said_to_be_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_files(tmp_path, {".notes/a.md": "x", ".notes/b.md": "x", ".notes/c.txt": "x"})
    for limit, count in ((4, "2 Markdown"), (3, "2 or more Markdown")):
        monkeypatch.setattr("memkit.formats.disk.files.MOST_COUNTED", limit)
        assert f" {count} files" in mk.read(root).problems["message"][0].as_py(), limit


@pytest.mark.outside
def test_what_is_hidden_is_told_by_what_begins_with_a_dot(tmp_path: Path) -> None:
    files = {".claude/CLAUDE.md": "x", ".claude/memory/a.md": "x", "docs/.a.md": "x", ".notes/b.md": "x"}
    rows = mk.read(write_files(tmp_path, files)).problems.to_pylist()
    messages = {row["path"]: row["message"] for row in rows if row["rule"] == "hidden"}
    assert "a file in a folder whose name begins with a dot. Got 1 Markdown file, not read" in messages[".claude"]
    assert "a file whose name begins with a dot. Got 1 Markdown file, not read" in messages["docs"]
    assert "a folder whose name begins with a dot. Got 1 Markdown file, not read" in messages[".notes"]


@pytest.mark.outside
def test_a_link_in_a_hidden_place_is_not_followed(tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"x.md": "# Тайна\ntext\n"})
    root = write_files(tmp_path / "root", {".claude/memory/a.md": "# A\ntext\n"})
    (root / ".claude/memory/b").symlink_to(outside)
    (root / ".serena").mkdir()
    (root / ".serena/memories").symlink_to(outside)
    corpus = mk.read(root)
    assert paths(corpus) == [".claude/memory/a.md"]
    assert problems(corpus, "outside_root") == [
        ("outside_root", ".claude/memory/b"),
        ("outside_root", ".serena/memories"),
    ]


@pytest.mark.outside
def test_memories_in_a_hidden_place_are_written_and_undone_byte_for_byte(tmp_path: Path) -> None:
    text = "# Память\n\nПользователь пьёт кофе только утром.\n"
    root = write_files(tmp_path, {".claude/memory/MEMORY.md": text})
    path = mk.store(root).claude.add("Чай", "Без сахара.", "user")
    assert path == ".claude/memory/user_чай.md"
    assert "user_чай.md" in (root / ".claude/memory/MEMORY.md").read_text("utf-8")
    mk.undo(root)
    assert (root / ".claude/memory/MEMORY.md").read_text("utf-8") == text
    assert not (root / path).exists()


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_json_of_an_unknown_shape_with_texts_becomes_rows(tmp_path: Path) -> None:
    stored = [{"id": f"m{n}", "memory": f"Факт {n}", "user_id": "анна", "created_at": "2026-01-02"} for n in range(3)]
    wrapped = {"results": [{"uuid": "a", "content": "чай", "tags": ["x"], "score": 1}, {"content": "кофе"}, {"n": 1}]}
    files = {"store.jsonl": lines(*stored), "kept.json": json.dumps(wrapped, indent=1), "one.json": '{"text": "один"}'}
    files["package.json"] = '{"name": "a", "description": "no memory"}'
    corpus = mk.read(write_files(tmp_path, files))
    rows = {row["memory_id"]: row for row in corpus.memories.to_pylist()}
    assert [rows[f"records:store.jsonl#m{n}"]["text"] for n in range(3)] == ["Факт 0", "Факт 1", "Факт 2"]
    assert [rows[f"records:store.jsonl#m{n}"]["line_start"] for n in range(3)] == [1, 2, 3]
    first = rows["records:store.jsonl#m0"]
    assert (first["user_id"], f"{first['created_at']:%Y-%m-%d}", first["extra"]) == ("анна", "2026-01-02", "{}")
    assert (rows["records:kept.json#a"]["tags"], rows["records:kept.json#a"]["extra"]) == (["x"], '{"score": 1}')
    assert rows["records:kept.json#3"]["text"] == '{"n": 1}', "no row is lost"
    assert len(rows) == 3 + 3 + 1
    assert problems(corpus, "unclaimed")[0] == ("unclaimed", ".")


def test_what_stands_beside_a_list_of_an_unknown_shape_is_kept_with_its_first_object(tmp_path: Path) -> None:
    agent = {"persona": {"label": "human", "value": "Анна играет на альте"}, "messages": [{"n": 1}]}
    agent["messages"] += [{"text": "чай"}, {"text": "кофе"}]
    corpus = mk.read(write_files(tmp_path, {"agent.json": json.dumps(agent, ensure_ascii=False)}))
    first, *others = corpus.memories.to_pylist()
    assert json.loads(first["text"]) == {"n": 1, "(file)": {"persona": agent["persona"]}}
    assert [(row["text"], row["extra"]) for row in others] == [("чай", "{}"), ("кофе", "{}")]
    chats = {"source": "chat", "items": [{"title": "Чай", "mapping": {"a": {"message": {"content": "чай"}}}}]}
    (row,) = mk.read(write_files(tmp_path / "b", {"b.json": json.dumps(chats)})).memories.to_pylist()
    assert json.loads(row["extra"])["(conversation)"] == {"title": "Чай", "(file)": {"source": "chat"}}


def test_a_large_file_of_an_unknown_shape_is_named_and_read_when_asked_for(tmp_path: Path) -> None:
    text = lines(*({"text": "слово " * 100} for _ in range(1200)))
    assert len(text.encode()) > 2**20
    root = write_files(tmp_path, {"big.jsonl": text})
    corpus = mk.read(root)
    assert corpus.memories.num_rows == 0
    assert "json='rows'" in corpus.problems["message"][0].as_py()
    assert mk.read(root, json="rows").memories.num_rows == 1200


def test_transcripts_are_counted_and_read_only_when_asked_for(tmp_path: Path) -> None:
    session = "0f3c0a52-6f0e-4c3b-9d57-1b7a6d2f8e41.jsonl"
    turn = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": [{"type": "text", "text": "чай"}]}}
    files = {f"p/{session}": lines(turn), "chat.jsonl": lines({"role": "user", "content": "кофе"})}
    files |= {"a.json": json.dumps({"messages": [{"role": "user", "content": "да"}]}), "q/turns.jsonl": lines(turn)}
    root = write_files(tmp_path, files)
    corpus = mk.read(root)
    assert corpus.memories.num_rows == 0
    assert problems(corpus) == [("transcript", "."), ("transcript", f"p/{session}"), ("transcript", "q/turns.jsonl")]
    read = mk.read(root, json="rows")
    assert sorted(read.memories["text"].to_pylist()) == ["да", "кофе", "чай", "чай"]


def test_exports_of_conversations_are_transcripts_whose_turns_are_read_when_asked_for(tmp_path: Path) -> None:
    parts: list[object] = ["чай?", {"text": "да"}]
    message = {"author": {"role": "user"}, "create_time": 1735689600.5, "content": {"parts": parts}}
    empty = {"author": {"role": "system"}, "create_time": None, "content": {"parts": ["кофе"]}}
    nodes = {"root": {"message": None}, "a": {"message": message}, "b": {"message": empty}}
    other = {"uuid": "m", "text": "молоко", "sender": "human", "created_at": "2025-01-02T03:04:05Z"}
    chats: dict[str, dict[str, object]] = {"gpt.json": {"title": "Чай", "conversation_id": "c", "mapping": nodes}}
    chats["claude.json"] = {"uuid": "u", "name": "Молоко", "chat_messages": [other]}
    root = write_files(tmp_path, {name: json.dumps([chat]) for name, chat in chats.items()})
    corpus = mk.read(root)
    assert corpus.memories.num_rows == 0
    assert problems(corpus) == [("transcript", ".")]
    rows = {row["text"]: row for row in mk.read(root, json="rows").memories.to_pylist()}
    assert {text: row["title"] for text, row in rows.items()} == {
        "чай?\nда": "Чай",
        "кофе": "Чай",
        "молоко": "Молоко",
    }
    first = rows["чай?\nда"]
    assert f"{first['created_at']:%F %T.%f}" == "2025-01-01 00:00:00.500000"
    assert json.loads(first["extra"])["(conversation)"] == {"title": "Чай", "conversation_id": "c"}
    assert rows["кофе"]["created_at"] is None


def test_an_export_of_telegram_is_a_transcript_whose_texts_are_read_whole_when_asked_for(tmp_path: Path) -> None:
    said: list[object] = ["Чай ", {"type": "bold", "text": "в пять"}, "."]
    messages = [{"id": n, "date_unixtime": "1782889500", "text": text} for n, text in enumerate(("Кофе?", said))]
    chats = {"about": "All chats from this export.", "list": [{"name": "Чай", "messages": messages}]}
    root = write_files(tmp_path, {"result.json": json.dumps({"about": "What you asked for.", "chats": chats})})
    corpus = mk.read(root)
    assert (corpus.memories.num_rows, problems(corpus)) == (0, [("transcript", "result.json")])
    rows = mk.read(root, json="rows").memories.to_pylist()
    assert [(row["title"], row["text"]) for row in rows] == [("Чай", "Кофе?"), ("Чай", "Чай в пять.")]
    for kept in ({"results": [{"memory": "чай", "messages": messages}]}, [{"memory": "чай", "messages": messages}]):
        write_files(root, {"result.json": json.dumps(kept)})
        assert mk.read(root).memories["text"].to_pylist() == ["чай"], "what has a text of its own is a memory"


def test_what_fills_no_column_of_an_unknown_shape_stays_in_extra(tmp_path: Path) -> None:
    item: dict[str, object] = {
        "text": "чай",
        "created": "вчера",
        "ts": "2026-01-02T03:04:05+03:00",
        "title": "а",
        "name": "б",
    }
    item |= {"type": "x", "category": "y", "tags": ["т", {"у": 1}], "updated_at": 1767323045000}
    root = write_files(tmp_path, {"a.jsonl": lines(item)})
    (row,) = mk.read(root).memories.to_pylist()
    assert json.loads(row["extra"]) == {"created": "вчера", "name": "б", "category": "y", "tags": ["т", {"у": 1}]}
    assert (f"{row['created_at']:%F %T}", f"{row['updated_at']:%F %T}") == (
        "2026-01-02 00:04:05",
        "2026-01-02 03:04:05",
    )
    assert (row["title"], row["scope"], row["tags"]) == ("а", "x", ["т"])


def test_a_date_of_an_unknown_shape_that_cannot_be_read_is_reported_at_its_line(tmp_path: Path) -> None:
    stored = [{"memory": "чай", "created_at": "2026-01-02"}, {"memory": "кофе", "created_at": "вчера", "time": "утром"}]
    kept = {"results": [{"content": "мёд", "updated_at": None, "metadata": {"createdAt": "11/23/2025"}}]}
    files = {"a.jsonl": lines(*stored), "b.json": json.dumps(kept, indent=1)}
    rows = [row for row in mk.read(write_files(tmp_path, files)).problems.to_pylist() if row["rule"] == "bad_date"]
    assert [(row["path"], row["line"], row["field"], row["memory_id"]) for row in rows] == [
        ("a.jsonl", 2, "created_at", "records:a.jsonl#2"),
        ("b.json", 7, "createdAt", "records:b.json#1"),
    ]


def test_a_folder_of_another_tool_is_one_row_with_its_count(tmp_path: Path) -> None:
    files = {f"wiki/{n}.txt": "x" for n in range(40)} | {"one.txt": "x"} | {f"docs/{n}.md": "text" for n in range(30)}
    rows = [row for row in mk.read(write_files(tmp_path, files)).problems.to_pylist() if row["rule"] == "unclaimed"]
    assert [(row["path"], row["memory_id"]) for row in rows] == [("docs", None), ("one.txt", None), ("wiki", None)]
    assert "30 files, first docs/0.md" in rows[0]["message"]
    assert "40 files, first wiki/0.txt" in rows[2]["message"]


def test_records_of_no_known_kind_and_folders_of_one_file_each_are_told_once_with_their_number(tmp_path: Path) -> None:
    unknown = [{"n": n} for n in range(10)]
    known = {"text": "чай", "timestamp": "2026-01-02T03:04:05Z", "category": "x", "importance": 0.5}
    files = {f"wiki/{n // 2}/{n}.csv": "1,2" for n in range(60)} | {f"few/{n // 2}/{n}.csv": "1,2" for n in range(3)}
    files |= {"kept/a.json": json.dumps([known, *unknown]), "kept/b/a.json": json.dumps([known, *unknown[:9]])}
    rows = [row for row in mk.read(write_files(tmp_path, files)).problems.to_pylist() if row["rule"] == "unclaimed"]
    told = Counter(row["path"] for row in rows)
    assert told == {"few/0": 1, "few/1/2.csv": 1, "kept": 1, "kept/b/a.json": 9, "wiki": 1}
    (once,) = (row for row in rows if row["path"] == "kept")
    assert once["message"].startswith("kept: 10 rows, first kept/a.json:1: expected a record of a known kind. Got ")


def test_where_two_layouts_claim_a_file_the_order_decides_and_a_row_says_so(tmp_path: Path) -> None:
    def survey(folder: Folder) -> Survey:
        return Survey(dict.fromkeys(folder.listing.files, True))

    def parse(file: File, rows: Rows) -> None:
        rows.memory(layout, file.source.path, 1, file.source.text)

    for layout in ("cards", "slips"):
        mk.extend.register(mk.extend.Format(layout, "*.md", (), (), parse, endings=(".md",), survey=survey))
    try:
        write_files(tmp_path, {"a.md": "чай\n", "b.md": "кофе\n"})
        for formats in (["cards", "slips"], ["slips", "cards"]):
            layout = formats[0]
            corpus = mk.read(tmp_path, formats=formats)
            assert corpus.memories["layout"].to_pylist() == [layout] * 2
            (row,) = corpus.problems.to_pylist()
            assert (row["rule"], row["path"]) == ("two_layouts", ".")
            assert f"{formats[1]} too; {layout} comes first" in row["message"]
    finally:
        for name in ("cards", "slips"):
            mk.extend.unregister(name)


def test_dates_of_files_are_used_where_there_are_no_others(tmp_path: Path) -> None:
    files = {"MEMORY.md": "# A\ntext\n", "b.md": "# B\ntext\n", "memory/2026-02-03.md": "# C\ntext\n"}
    root = write_files(tmp_path, files)
    seconds = {"MEMORY.md": 1_700_000_000, "b.md": 1_700_000_030, "memory/2026-02-03.md": 1_600_000_000}
    for name, mtime in seconds.items():
        os.utime(root / name, (mtime, mtime))
    corpus = mk.read(root, dates="mtime")
    rows = {row["path"]: row for row in corpus.memories.to_pylist()}
    assert {path: row["date_source"] for path, row in rows.items()} == {
        "MEMORY.md": "mtime",
        "b.md": "mtime",
        "memory/2026-02-03.md": "name",
    }
    assert {p: rows[p]["created_at"].timestamp() for p in ("MEMORY.md", "b.md")} == {
        "MEMORY.md": 1_700_000_000,
        "b.md": 1_700_000_030,
    }
    assert problems(corpus, "same_mtime") == [("same_mtime", ".")]
    os.utime(root / "b.md", (1_700_000_061, 1_700_000_061))
    later = corpus.refresh()
    assert not problems(later, "same_mtime"), "61 seconds apart"
    assert later.memories.equals(mk.read(root, dates="mtime").memories)


def test_arguments_are_checked(tmp_path: Path) -> None:
    for arguments in ({"hidden": "some"}, {"json": "all"}, {"dates": "ctime"}, {"dates": "mtime", "rev": "HEAD"}):
        with pytest.raises(ParameterError, match="read: "):
            mk.read(tmp_path, **arguments)  # type: ignore[arg-type]  # what is refused


def test_a_lake_reads_again_as_it_was_read(tmp_path: Path) -> None:
    root = write_files(
        tmp_path / "root", {".notes/a.md": "# A\ntext\n", "chat.jsonl": lines({"role": "u", "content": "x"})}
    )
    corpus = mk.read(root, hidden="all", json="rows", dates="mtime")
    corpus.save(tmp_path / "lake")
    again = mk.open(tmp_path / "lake").refresh()
    assert again.memories.equals(corpus.memories)
    assert corpus.memories.num_rows == 2


def test_a_line_that_is_no_json_leaves_the_rows_around_it_what_they_are(tmp_path: Path) -> None:
    lines = [json.dumps({"uid": n, "memory": f"заказ {n}"}, ensure_ascii=False) for n in range(5)]
    turns = [json.dumps({"sessionId": "a", "type": "user", "n": n}) for n in range(5)]
    cases = {
        "first": (["{oops", *lines], [*(f"заказ {n}" for n in range(5)), "{oops"], ["unclaimed", "unparsable"]),
        "last": ([*lines, "{oops"], [*(f"заказ {n}" for n in range(5)), "{oops"], ["unclaimed", "unparsable"]),
        "transcript": ([*turns, '{"sessionId": "a", "ty'], [], ["transcript"]),
        "nothing else": (["чай", "{oops"], ["чай", "{oops"], ["unparsable", "unparsable"]),
    }
    for name, (written, texts, rules) in cases.items():
        corpus = mk.read(write_files(tmp_path / name, {"store/data.jsonl": "\n".join(written)}))
        assert sorted(corpus.memories["text"].to_pylist()) == sorted(texts), name
        assert sorted(corpus.problems["rule"].to_pylist()) == rules, name
