"""Logs whose entries open with their day and time in brackets, in any Markdown file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.formats.finished import _FEW_PATHS
from memkit.tables.samples import write_files

LOG = """# Журнал агента

[2026-07-03 10:00] Выкатили бота.
Пул мал.

[2026-07-03T11:00:00Z] Откатили.

[Fri 2026-07-03 12:30 GMT+3] Починили.
[03.07.2026, 13:00:15] Анна: готово
- [2026-07-04 09:00 AM] **Решили**: пул 20
[5 июля 2026, 10:00] Ждём.
[July 6, 2026 8:05 PM] Still waiting.
"""


def rows(root: Path, text: str, name: str = "log.md", **options: Any) -> list[dict[str, Any]]:
    corpus = mk.read(write_files(root, {name: text}), **options)
    return corpus.memories.sort_by("line_start").to_pylist()


@pytest.mark.quick
def test_entries_in_brackets_have_their_time_in_the_zone_that_they_name_or_that_of_the_reading(tmp_path: Path) -> None:
    entries = rows(tmp_path, LOG, timezone="Europe/Moscow")
    assert [(row["line_start"], f"{row['created_at']:%d %H:%M:%S}") for row in entries] == [
        (1, "03 07:00:00"),  # the title is above the first entry
        (6, "03 11:00:00"),
        (8, "03 09:30:00"),
        (9, "03 10:00:15"),
        (10, "04 06:00:00"),
        (11, "05 07:00:00"),
        (12, "06 17:05:00"),
    ]
    assert {row["kind"] for row in entries} == {"daily_log"}
    assert "\n".join(row["text"] for row in entries) == LOG.removesuffix("\n")
    assert mk.read(tmp_path).problems.num_rows == 0


@pytest.mark.quick
@pytest.mark.parametrize("name", ["MEMORY.md", "2026-07-03.md", "notes/2026.md"])
def test_any_markdown_may_be_such_a_log_and_headings_stay(name: str, tmp_path: Path) -> None:
    text = "# День\n\n## Утро\n\n[2026-07-03 10:00] встреча\n\n## Вечер\n\nтихо\n\n[2026-07-03 20:00] ужин\n"
    entries = rows(tmp_path, text, name)
    assert [row["title"] for row in entries] == ["2026-07-03 10:00", "Вечер", "2026-07-03 20:00"]


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        "# Заметка\n\nТекст.\n\nЕщё.\n\n[2026-07-03 10:00] Одна из трёх.\n",
        "[2026-07-03 10:00](a.md) раз\n\n[2026-07-03 10:00][b] два\n\n[2026-07-03 10:00]: c.md\n",
        "```\n[2026-07-03 10:00] INFO start\n```\n",
        "[2026-07-03 10:00] user: привет\n\n[2026-07-03 10:01] assistant: да\n",
        "[2026-07-03] день без времени\n\n[10:00] время без дня\n",
    ],
    ids=["few", "links", "code", "talk", "parts"],
)
def test_what_is_no_such_log_stays_one_section(text: str, tmp_path: Path) -> None:
    assert len(rows(tmp_path, text, "a.md")) == 1


def test_a_time_that_cannot_be_is_a_row_and_the_text_of_the_entry_above(tmp_path: Path) -> None:
    text = "[2026-07-03 10:00] раз\n\n[2026-13-45 10:00] два\n\n[2026-07-04 10:00 IST] три\n"
    (entry,) = rows(tmp_path, text)
    assert entry["text"] == text.removesuffix("\n")
    problems = mk.read(tmp_path).problems.to_pylist()
    assert [(row["rule"], row["line"]) for row in problems] == [("bad_date", 3), ("bad_date", 5)]


def test_huge_and_hostile_logs_are_read_in_linear_time(tmp_path: Path) -> None:
    huge = "".join(f"[2026-07-03 10:{number % 60:02d}] запись\n\n" for number in range(2_000))
    hostile = "\n\n".join(("[2026-07-03 10:00", "[" * 5_000, "[2026-07-03 10:00" + " " * 5_000, "[1-1-1T1:11" * 2_000))
    began = time.process_time()
    assert len(rows(tmp_path / "a", huge)) == 2_000
    assert len(rows(tmp_path / "b", hostile)) == 1
    assert time.process_time() - began < 10


DREAMT = "Решили: пул растёт до двадцати соединений."
DREAMS = {
    "memory/2026-07-03.md": f"# 2026-07-03\n\n## Утро\n\nЧай.\n\n## Light Sleep\n\n- {DREAMT}\n\n### Темы\n\n- Пул.\n",
    "memory/dreaming/rem/2026-07-03.md": f"# REM Sleep\n\n- {DREAMT}\n",
    "DREAMS.md": f"# Dream Diary\n\n## 2026-07-03\n\n{DREAMT}\n",
    "MEMORY.md": f"# Memory\n\n## 2026-07-03 04:00\n\n{DREAMT}\n",
}


@pytest.mark.outside
def test_what_a_host_dreamt_is_a_kind_that_ranks_low_and_counts_for_nothing(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, DREAMS))
    kinds = dict(zip(corpus.memories["title"].to_pylist(), corpus.memories["kind"].to_pylist(), strict=True))
    assert kinds == {
        "Утро": "daily_log",
        "Light Sleep": "dream",
        "Темы": "dream",
        "REM Sleep": "dream",
        "2026-07-03": "dream",
        "2026-07-03 04:00": "long_term",
    }
    assert mk.schemas.KINDS["dream"].weight == mk.schemas.KINDS["index"].weight
    first, *others = mk.Retriever(encoder=None, decay="none").fit(corpus).search("пул соединений", k=4).to_pylist()
    assert (first["path"], {row["path"] for row in others}) == ("MEMORY.md", {*DREAMS} - {"MEMORY.md"})
    told = mk.digest(corpus, since="2026-07-01", until="2026-07-04", basis="dates")
    assert told.tables["decisions"]["path"].to_pylist() == ["MEMORY.md"]
    assert {*told.table["path"].to_pylist()} == {"MEMORY.md", "memory/2026-07-03.md"}
    judged = mk.Deduplicator(encoder=None).fit(corpus).transform(corpus.memories)
    assert judged["keep"].to_pylist() == [True] * corpus.memories.num_rows
    decay = mk.Decay().transform(corpus.memories, as_of="2027-07-03")
    assert {row["factor"] for row in decay.to_pylist() if row["kind"] == "dream"} == {1.0}


@pytest.mark.parametrize("name", ["dreams.md", "notes/dreaming/a.md", "Dreams of 2026.md"])
def test_a_persons_dreams_are_no_hosts(name: str, tmp_path: Path) -> None:
    assert [row["kind"] for row in rows(tmp_path, "# Light Sleep\n\nСпал чутко.\n", name)] == ["document"]


POOL = "Пул соединений равен десяти, лимит в базе двадцать.\n"
SOUND = {
    "docs/pool.md": POOL,
    "docs/pool-backup.md": "Снимок каждую ночь, хранится месяц.\n",
    "docs/pool 2.md": POOL,
    "docs/conflicts/merge.md": "Как сливать ветки.\n",
    "tea (1).md": "Чай без оригинала.\n",
    "archive.md": "Страница об архивах.\n",
    "archive/2026-07-03.md": "Пул соединений в тот день.\n",
    "data/memory/users/anna/archive.md": "- [ar_001] Любит зелёный чай.\n",
    "tree/index.json": '{"type": "index-root", "branches": [{"category": "archive", "path": "archive/index.json"}]}',
    "tree/archive/index.json": '{"type": "index-branch", "files": [{"title": "a", "file": "archive/a.md"}]}',
    "tree/archive/a.md": "Индекс называет эту запись.\n",
}
ASIDE = ("archive/pool.md", "Архив/x/a.md", "4 Archive/a.md", "_old/a.md", "Бэкапы 2024/a.md", "docs/pool (1).md")
ASIDE = (*ASIDE, "Deprecated/a.md", "z_archive/a.md", "docs/Копия pool.md", "docs/pool.sync-conflict-20260102-AB.md")
SAID = {
    "deprecated": ("status: outdated", "status: retired", "status: Устарело", "deprecated: true", "state: obsolete"),
    "archived": ("status: rejected", "статус: отменено", "status: cancelled", "archived: yes"),
    "draft": ("draft: true", "status: черновик"),
    None: ("draft: false", "deprecated: 2026-01-01", "status: open"),
}


def statuses(root: Path, files: dict[str, str]) -> dict[str, str | None]:
    memories = mk.read(write_files(root, files)).memories
    return dict(zip(memories["path"].to_pylist(), memories["status"].to_pylist(), strict=True))


def test_what_lies_among_old_files_is_archived_and_nothing_else(tmp_path: Path) -> None:
    by_path = statuses(tmp_path, {**SOUND, **dict.fromkeys(ASIDE, POOL)})
    assert {path for path, status in by_path.items() if status} == {*ASIDE}
    assert set(by_path.values()) == {None, "archived"}
    for number, path in enumerate(ASIDE):  # few files are looked at in another way than many
        assert statuses(tmp_path / f"few{number}", {path: POOL, "docs/pool.md": POOL})[path] == "archived"
    many = {f"docs/{number}.md": "Чай.\n" for number in range(_FEW_PATHS)}
    assert statuses(tmp_path / "many", {**SOUND, **many, **dict.fromkeys(ASIDE, POOL)}).items() >= by_path.items()
    assert statuses(tmp_path / "archive", {}) == dict.fromkeys(["2026-07-03.md", "pool.md"])  # places below the root


@pytest.mark.parametrize("kind", ["page", "note", "document"])
def test_an_author_retires_by_a_word_or_a_field_that_is_true(kind: str, tmp_path: Path) -> None:
    of_note = "id: 550e8400-e29b-41d4-a716-44665544{0:04}\nsubject: s\nkeywords: [k]\napplies_to: global\n"
    of_note += "created_at: 2026-01-01\nupdated_at: 2026-01-01\n"
    heads = {"page": "title: T\ntype: concept\ntags: [a]\n", "note": of_note, "document": "x: 1\n"}
    written = {f"archive/{kind}{number}.md": (status, line) for number, (status, line) in enumerate(_lines())}
    files = {
        path: f"---\n{heads[kind].format(place)}{line}\n---\nТекст заметки.\n"
        for place, (path, (_, line)) in enumerate(written.items())
    }
    expected = {path: status or "archived" for path, (status, _) in written.items()}  # the author's word counts first
    assert statuses(tmp_path, files) == expected


def _lines() -> list[tuple[str | None, str]]:
    return [(status, line) for status, lines in SAID.items() for line in lines]


def test_what_is_archived_or_a_draft_ranks_lower_and_is_found(tmp_path: Path) -> None:
    files = {
        "docs/pool.md": POOL,
        "archive/pool.md": POOL.replace("десяти", "пяти"),
        "archive/tea.md": "Чай без сахара.\n",
    }
    search = mk.Retriever(encoder=None).fit(mk.read(write_files(tmp_path, files)))
    obeyed, kept = (search.set_params(status=how).search("пул соединений", k=2) for how in ("obey", "keep"))
    scores = dict(zip(kept["path"].to_pylist(), kept["score"].to_pylist(), strict=True))
    assert obeyed["path"].to_pylist() == ["docs/pool.md", "archive/pool.md"]
    assert obeyed["score"].to_pylist() == pytest.approx([scores["docs/pool.md"], 0.8 * scores["archive/pool.md"]])
    assert b"is archived, 'workspace:archive/pool.md" in obeyed.schema.metadata[b"note"]
    assert search.set_params(status="obey").search("чай", k=1)["path"].to_pylist() == ["archive/tea.md"]
    assert "times 0.80 as it is archived" in mk.explain(search, "чай", "workspace:archive/tea.md#top")


def test_an_entry_or_heading_of_a_days_log_has_its_time_in_the_zone_that_it_names(tmp_path: Path) -> None:
    entries = ["[10:00 MSK] а", "[11:00Z] б", "[12:00+03:00] в", "[2026-07-03T13:00:00-03:00] г", "14:00 API упал"]
    entries += ["15:00-16:00 созвон", "17:00 CST д"]
    log = "# День\n\n" + "\n\n".join(entries) + "\n"
    headings = "## 09:00 +03:00 раз\n\nтекст\n\n## 10:00 МСК два\n\nтекст\n\n## 11:00 SUN\n\nтекст\n"
    files = {"memory/2026-07-03.md": log, "memory/2026-07-04.md": headings}
    corpus = mk.read(write_files(tmp_path, files))
    hours = [(at.day, at.hour) for at in corpus.memories["created_at"].to_pylist()]
    assert hours == [(3, 7), (3, 11), (3, 9), (3, 16), (3, 14), (3, 15), (3, 17), (4, 6), (4, 7), (4, 11)]
    said = [
        (row["path"], row["line"], row["message"]) for row in corpus.problems.to_pylist() if row["rule"] == "bad_date"
    ]
    ((path, line, message),) = said
    assert (path, line) == ("memory/2026-07-03.md", 15)
    assert "in a zone of one meaning. Got '17:00 CST'" in message


def test_a_zone_of_several_meanings_is_told_once_a_file(tmp_path: Path) -> None:
    log = "\n\n".join(f"[{hour}:00 CST] Чай" for hour in range(10, 20)) + "\n\n[20:00 XYZ] Кофе\n"
    corpus = mk.read(write_files(tmp_path, {"memory/2026-07-03.md": log}))
    assert corpus.problems["line"].to_pylist() == [1, 21]


def test_the_entries_of_a_days_log_keep_their_seconds_and_a_time_that_cannot_be_is_a_row(tmp_path: Path) -> None:
    log = "# День\n\n[10:05:42] чай\n[25:00] кофе\n- [ ] 10:75\n[2026-07-03 11:05:07] вода\n[9:05:09 PM] сок\n"
    corpus = mk.read(write_files(tmp_path, {"memory/2026-07-03.md": log}))
    times = [f"{at:%H:%M:%S}" for at in corpus.memories["created_at"].to_pylist()]
    assert times == ["10:05:42", "11:05:07", "21:05:09"]
    assert corpus.tables["documents"]["time"].to_pylist() == ["10:05", "11:05", "21:05"]
    assert [(row["rule"], row["line"]) for row in corpus.problems.to_pylist()] == [("bad_date", 4)]
    assert "'25:00'" in corpus.problems["message"][0].as_py()


def test_a_time_of_day_in_words_is_read_and_an_amount_or_a_length_is_none(tmp_path: Path) -> None:
    times = {
        "9 утра": "09:00", "В 9:30 вечера созвон": "21:30", "Half past ten": "10:30", "7 in the evening: tea": "19:00",
        "2026-07-03 quarter to ten at night": "21:45", "2026-07-03, 14ч30": "14:30", "9.30 обед": "09:30",
        "2026-07-03 5.50 евро": "00:00", "12.30 $": "00:00", "2 дня до срока": "00:00", "8 часов сна": "00:00",
        "В 9: чай": "09:00", "at 9": "09:00", "14 часов: поезд": "14:00", "14 часов работы": "00:00",
        "At 7 pm": "19:00", "7am: бег": "07:00", "9.30: обед": "09:30", "в десять утра": "10:00", "0.1.2": "00:00",
        "Порог at 9": "00:00", "в 9 раз больше": "00:00", "в 9, 10 и 11": "00:00", "3 часа: код": "00:00",
    }  # fmt: skip
    headings = "".join(f"## {heading}\n\nчай\n\n" for heading in times)
    log = f"# День\n\n{headings}"
    files = {"memory/2026-07-03.md": log, "memory/2026-07-04.md": "- 9:30 вечера: чай\n- 11:00 встреча в 5 вечера\n"}
    corpus = mk.read(write_files(tmp_path, files))
    at = [f"{moment:%H:%M}" for moment in corpus.memories["created_at"].to_pylist()]
    assert at == [*times.values(), "21:30", "11:00"]
    assert corpus.memories["title"].to_pylist()[-2:] == ["9:30", "11:00"]
    assert corpus.problems.num_rows == 0
