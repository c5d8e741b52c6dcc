"""Plain Markdown with front matter, as note takers and coding assistants write it: its title and dates."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.formats.disk.source import utf8
from memkit.formats.syntax.places import Head
from memkit.tables.samples import write_files

ASSISTANT = """---
name: сроки-тестов
description: "Ждать элемент не дольше 15 секунд"
metadata:
  node_type: memory
  modified: 2026-07-30T07:40:18Z
---

Дольше — тест сломан.

## Android

Ten seconds.
"""


def read(root: Path, **files: str) -> list[dict[str, Any]]:
    corpus = mk.read(write_files(root, {name.replace("__", "/") + ".md": text for name, text in files.items()}))
    memories = corpus.sql("from memories order by path, line_start").to_arrow_table()
    return memories.select(["title", "created_at", "updated_at", "date_source"]).to_pylist()


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]  # the parts of a date


@pytest.mark.quick
def test_the_front_matter_of_an_assistants_file_names_and_dates_it(tmp_path: Path) -> None:
    changed = {"created_at": None, "updated_at": moment(2026, 7, 30, 7, 40, 18), "date_source": "own"}
    assert read(tmp_path, memory__timeouts=ASSISTANT) == [
        {"title": "сроки-тестов", **changed},
        {"title": "Android", **changed},
    ]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("front", "created", "updated"),
    [
        ("date: 2026-01-02", moment(2026, 1, 2), moment(2026, 1, 2)),
        ("created: 2026-01-02 10:30\nmodified: 2026-02-03", moment(2026, 1, 2, 10, 30), moment(2026, 2, 3)),
        ("lastmod: 2026-02-03T01:00:00+02:00", None, moment(2026, 2, 2, 23)),
        ("created: soon\ndate: 2026-01-02", moment(2026, 1, 2), moment(2026, 1, 2)),
        ("created: [2026-01-02]\nmetadata: {updated: 20260203}", None, moment(2026, 2, 3)),
        ("createdAt: 2026-01-02\nlast_modified_at: 2026-02-03", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("Creation date: 2026-01-02\nLast modified date: 2026-02-03", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("Date Created: 2026-01-02\nupdated-at: 2026-02-03", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("created: [[2026-01-02]]\nupdated: '[[log/2026-02-03|Tue]]'", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("created: 02.01.2026 10:30\nupdated: 3 февраля 2026", moment(2026, 1, 2, 10, 30), moment(2026, 2, 3)),
        ("created: 01/02/2026\nupdated: until February 3, 2026", None, None),
        ("metadata: 2026-01-02", None, None),
        ("date: 2026-02-30", None, None),
    ],
)
def test_dates_are_read_under_the_names_that_are_used(
    tmp_path: Path, front: str, created: datetime | None, updated: datetime | None
) -> None:
    (row,) = read(tmp_path, plan=f"---\n{front}\n---\nчай\n")
    source = "own" if created or updated else None
    assert row == {"title": "plan", "created_at": created, "updated_at": updated, "date_source": source}


@pytest.mark.quick
def test_a_heading_and_a_files_name_say_more_than_front_matter(tmp_path: Path) -> None:
    front = "---\ntitle: Дневник\nname: other\ndate: 2020-01-01\n---\n"
    day = moment(2026, 3, 4)
    files = {"memory__2026-03-04": f"{front}чай\n", "plan": f"{front}a\n# 2026-03-04 поездка\nb\n"}
    rows = read(tmp_path, **files)
    assert [(row["title"], row["created_at"], row["date_source"]) for row in rows] == [
        ("Дневник", day, "name"),
        ("Дневник", moment(2020, 1, 1), "own"),
        ("2026-03-04 поездка", day, "heading"),
    ]


def test_a_key_that_stands_twice_is_reported_at_its_line_at_any_depth(tmp_path: Path) -> None:
    front = "---\ntype: page\nmetadata:\n  node: чай\n  more:\n    - a: 1\n      a: 2\n  node: кофе\ntype: log\n---\n"
    write_files(tmp_path, {"wiki/a.md": f"{front}# A\n[B](b.md)\n", "wiki/b.md": "---\ntype: page\n---\n[A](a.md)\n"})
    lines = {row["line"]: row["field"] for row in mk.read(tmp_path).problems.to_pylist()}
    assert lines == {7: "a", 8: "node", 9: "type"}


def unread_in(root: Path, front: str) -> dict[str, tuple[int, str, str]]:
    """Line, rule and what came, by field, of the dates of a page that cannot be read."""
    text = f"---\ntype: page\n{front}\n---\n# A\n[B](b.md)\n"
    write_files(root, {"wiki/a.md": text, "wiki/b.md": "[A](a.md)\n"})
    rows = mk.read(root).problems.to_pylist()
    rows = [row for row in rows if row["rule"] in ("bad_date", "unknown_placeholder")]
    assert all(row["path"] == "wiki/a.md" and row["memory_id"] == "workspace:wiki/a.md#top" for row in rows)
    assert all("must be an ISO 8601 time stamp" in row["message"] for row in rows)
    return {row["field"]: (row["line"], row["rule"], row["message"].partition("Got ")[2]) for row in rows}


ADVICE = "Write a real day, such as 2025-03-04."


def test_a_date_that_cannot_be_read_is_reported_where_memkit_has_a_column_for_it(tmp_path: Path) -> None:
    front = "\n".join([
        "created: вчера", "Date Updated: 03/04/2025", "updated: 11/23/2025", "expires: 12/11/2026", "stale_after: 30d",
        "verified:", "  - {by: anna, at: 2026-02-30}", "  - {by: pavel, at: 2026-02-03}", "reviewed: 1/2/2026",
        "generated: {by: model-1.2.3, at: soon}", "metadata:", "  modified: [2026-01-02]", "deadline: в пятницу",
    ])  # fmt: skip
    assert unread_in(tmp_path, front) == {
        field: (line, "bad_date", f"{got!r}. {ADVICE}")
        for field, line, got in (
            ("created", 3, "вчера"),
            ("Date Updated", 4, "03/04/2025"),
            ("updated", 5, "11/23/2025"),
            ("expires", 6, "12/11/2026"),
            ("stale_after", 7, "30d"),
            ("verified", 8, "2026-02-30"),
            ("reviewed", 11, "1/2/2026"),
            ("generated", 12, "soon"),
            ("modified", 14, "[2026-01-02]"),
        )
    }


def test_what_says_that_there_is_no_date_and_what_names_another_thing_is_no_problem(tmp_path: Path) -> None:
    front = "\n".join([
        "created:", "updated: ''", "date: []", "modified: ' - '", "expires: never", "stale_after: Никогда",
        "verified: true", "reviewed: Anna", "last_verified: no", "generated: model-1.2.3 in a hurry", "timestamp: n/a",
        "проверено: да", "metadata: {updated: null}", "date_of_birth: вчера", "due: 11/23/2025", "review: 11/23/2025",
    ])  # fmt: skip
    assert unread_in(tmp_path, front) == {}
    read_days = "created: 2 января 2026\nupdated: '[[2026-01-02]]'\nverified: [2026-01-02]\nexpires: 2026-01-02T10:00Z"
    assert unread_in(tmp_path, read_days) == {}


@pytest.mark.parametrize("mark", ["{{date}}", "'{{date}} {{time}}'", "<% tp.date.now() %>", "YYYY-MM-DD", "<today>"])
def test_the_mark_of_a_template_is_no_bad_date_but_is_told(tmp_path: Path, mark: str) -> None:
    line, rule, got = unread_in(tmp_path, f"created: {mark}")["created"]
    assert (line, rule) == (3, "unknown_placeholder")
    assert got.startswith(repr(mark.strip("'")))


@pytest.mark.parametrize("written", ["2019", "2025-05"])
def test_a_year_or_a_month_is_a_warning_as_a_book_has_it_and_a_month_that_is_none_an_error(
    tmp_path: Path, written: str
) -> None:
    write_files(tmp_path, {"a.md": f"---\ntitle: книга\ndate: {written}\ncreated: 2025-13\n---\nчай\n"})
    problems = mk.read(tmp_path).problems.select(["line", "field", "rule", "severity"]).to_pylist()
    assert [tuple(row.values()) for row in problems] == [
        (3, "date", "bad_value", "warning"),
        (4, "created", "bad_date", "error"),
    ]


def test_plain_markdown_tells_of_dates_too_that_cannot_be_read(tmp_path: Path) -> None:
    write_files(tmp_path, {"notes/plan.md": "---\ncreated: вчера\n---\nчай\n", "notes/b.md": "кофе\n", "c.md": "мёд\n"})
    rows = mk.read(tmp_path, format="workspace").problems.to_pylist()
    assert [(row["path"], row["line"], row["field"]) for row in rows] == [("notes/plan.md", 2, "created")]


@pytest.mark.outside
def test_a_person_where_a_date_stands_is_a_warning_that_says_so(tmp_path: Path) -> None:
    page, record = "---\nсоздано: Анной\n---\n# Чай\n\nзелёный\n", '[{"text": "чай", "created": "Anna"}]'
    rows = mk.read(write_files(tmp_path, {"a.md": page, "b.json": record})).problems.to_pylist()
    assert [(row["path"], row["rule"], row["severity"]) for row in rows if row["field"]] == [
        ("a.md", "bad_value", "warning"),
        ("b.json", "bad_value", "warning"),
    ]
    assert "'Анной', which names no day and stays null" in rows[0]["message"]


def test_a_line_of_a_serena_memory_that_dates_it_by_no_day_is_reported(tmp_path: Path) -> None:
    texts = {"build": "# Сборка\n**Date:** 2026-02-30\nUpdated: 2026-03-01\n", "ru": "# A\nДата: 02.03.2026\n"}
    texts["us"] = "# B\nДата выхода: скоро\n- Date: 03/04/2026\n"
    corpus = mk.read(write_files(tmp_path, {f".serena/memories/{name}.md": text for name, text in texts.items()}))
    assert [(row["path"][17:], row["rule"], row["line"], row["field"]) for row in corpus.problems.to_pylist()] == [
        ("build.md", "bad_date", 2, "Date"),
        ("us.md", "bad_date", 3, "Date"),
    ]
    assert corpus.memories["updated_at"].to_pylist() == [moment(2026, 3, 1), moment(2026, 3, 2), None]


def test_a_heading_of_a_log_that_names_no_real_day_is_reported(tmp_path: Path) -> None:
    log = "# Лог\n## 2026-02-28\nчай\n## [2026-02-30] op | кофе\nмёд\n"
    write_files(tmp_path, {"memory/2026-03-01.md": "# 2026-03-01\n## 2026-13-01 утро\nчай\n", "wiki/log.md": log})
    write_files(tmp_path, {"wiki/a.md": "---\ntype: page\n---\n# Выпуск 2026-99-99\n[log](log.md)\n"})
    rows = [row for row in mk.read(tmp_path).problems.to_pylist() if row["rule"] == "bad_date"]
    assert [(row["path"], row["line"], row["memory_id"].partition("#")[2]) for row in rows] == [
        ("memory/2026-03-01.md", 2, "2026-13-01-утро"),
        ("wiki/log.md", 4, "2026-02-30-op-кофе"),
    ]


def test_a_date_of_another_spelling_is_its_instant_or_a_row_and_never_midnight(tmp_path: Path) -> None:
    written = {
        "seconds": "1782889500",
        "millis": "1782889500000",
        "card": "202607010705",
        "mail": "'Wed, 01 Jul 2026 10:05:00 +0300'",
        "zone": "2026-07-01 10:05 MSK",
        "region": "'2026-07-01T10:05:00+03:00[Europe/Moscow]'",
        "half": "2026-07-01 7:05 AM",
        "editor": "Wednesday, July 1st 2026, 7:05:00 am",
        "cst": "2026-07-01 10:05 CST",
        "place": "2026-07-01, 10:05 at the office",
        "words": "July 1st 2026, updated 10:05",
        "hour": "1 июля 2026, 7:05 утра",
        "no_hour": "1 июля 2026, 13 утра",
    }
    files = {f"wiki/{name}.md": f"---\ncreated: {value}\n---\n# {name}\n\nчай\n" for name, value in written.items()}
    files |= {"wiki/202607010705 Чай.md": "# Чай\n\nзелёный\n", "wiki/20260701070500-кофе.md": "# Кофе\n\nчёрный\n"}
    corpus = mk.read(write_files(tmp_path, files))
    found = {row["path"][5:-3]: row["created_at"] for row in corpus.memories.to_pylist()}
    unread = {row["path"][5:-3] for row in corpus.problems.to_pylist() if row["rule"] == "bad_date"}
    assert unread == {"cst", "place", "words", "no_hour"}
    assert found == {name: None if name in unread else moment(2026, 7, 1, 7, 5) for name in found}
    assert len(found) == len(files)


def test_records_read_the_same_spellings(tmp_path: Path) -> None:
    values = (
        1782889500,
        1782889500000,
        1782889500000000,
        "1782889500",
        "Wed, 01 Jul 2026 10:05 +0300",
        "20260701070500",
    )
    items = [{"text": f"чай {number}", "created_at": value} for number, value in enumerate(values)]
    corpus = mk.read(write_files(tmp_path, {"a.json": json.dumps(items)}))
    assert corpus.memories["created_at"].to_pylist() == [moment(2026, 7, 1, 7, 5)] * len(values)


HEADS = {
    "toml": '+++\ntitle = "Чай"\ndate = 2026-07-01T10:05:00+03:00\ntags = ["сорт", "чай"]\n+++\n',
    "zola": '+++\ntitle = "Чай"\ndate = 2026-07-01T07:05:00Z\n[taxonomies]\ntags = ["сорт", "чай"]\n+++\n',
    "json": '{\n  "title": "Чай",\n  "date": "2026-07-01T10:05:00+03:00",\n  "tags": ["сорт", "чай"]\n}\n',
    "named": '---json\n{"title": "Чай",\n"date": "2026-07-01T10:05:00+03:00", "tags": ["сорт", "чай"]}\n---\n',
    "blank": "\n \n---\ntitle: Чай\ndate: 2026-07-01T10:05:00+03:00\ntags: [сорт, чай]\n---\n",
}
HEADS["cr"] = HEADS["blank"].replace("\n", "\r")


def test_a_head_is_read_in_each_of_its_syntaxes(tmp_path: Path) -> None:
    """One title, date and tags, and a body that begins where the block ends, whichever way they are written."""
    bodies = dict.fromkeys(HEADS, "Зелёный [[мёд]].\n## Сорта\nУлун.\n")
    bodies["cr"] = bodies["cr"].replace("\n", "\r")
    corpus = mk.read(write_files(tmp_path, {f"wiki/{name}.md": HEADS[name] + bodies[name] for name in HEADS}))
    pages = [row for row in corpus.memories.to_pylist() if not row["text"].startswith("##")]
    found = {row["path"][5:-3]: (row["created_at"], row["tags"], row["text"].strip()) for row in pages}
    assert found == dict.fromkeys(HEADS, (moment(2026, 7, 1, 7, 5), ["сорт", "чай"], "Зелёный [[мёд]]."))
    assert {row["title"] for row in pages} == {"Чай"}
    lines = {
        row["path"][5:-3]: row["line_start"] for row in corpus.memories.to_pylist() if row["text"].startswith("##")
    }
    heights = {name: HEADS[name].replace("\r", "\n").count("\n") for name in HEADS}
    assert lines == {name: height + 2 for name, height in heights.items()}
    for name, said in (("toml", "TOML"), ("json", "JSON"), ("named", "JSON")):
        with pytest.raises(mk.errors.ChangeRefusedError, match=said):
            Head((tmp_path / f"wiki/{name}.md").read_text("utf-8")).set_value(["title"], "Кофе")
    with pytest.raises(mk.errors.ChangeRefusedError, match="CR alone"):
        utf8("wiki/cr.md", (tmp_path / "wiki/cr.md").read_bytes())


def test_a_head_that_is_broken_or_huge_is_a_row(tmp_path: Path) -> None:
    heads = {
        "broken": '+++\ntitle = "Чай"\ntags = [\n+++\n',
        "deep": f'+++\ntitle = "Чай"\nx = {"[" * 5000}{"]" * 5000}\n+++\n',
        "digits": f'+++\ntitle = "Чай"\nx = 0x{"f" * 9000}\n+++\n',
        "comma": '---json\n{\n"title": "Чай",\n}\n---\n',
        "unread": '---json\n{"title": }\n---\n',
    }
    corpus = mk.read(write_files(tmp_path, {f"wiki/{name}.md": f"{head}зелёный\n" for name, head in heads.items()}))
    assert corpus.memories["title"].to_pylist() == [*["Чай"] * 4, "unread"]
    assert corpus.memories["text"][4].as_py() == f"{heads['unread']}зелёный"
    faults = [row for row in corpus.problems.to_pylist() if row["rule"] in ("loose_front_matter", "unparsable")]
    assert len(faults) == len(heads)


def test_a_head_that_ends_the_file_and_tags_said_twice(tmp_path: Path) -> None:
    """The closing line is no text, and a second list of tags no link."""
    text = "---\ntitle: Чай\ntags: [сорт]\ntags: [улун]\n---"
    corpus = mk.read(write_files(tmp_path, {"wiki/чай.md": text, "wiki/мёд.md": "# Мёд\n[[чай]]\n"}))
    assert [row["text"] for row in corpus.memories.to_pylist() if row["path"] == "wiki/чай.md"] == ["Чай"]
    assert corpus.tables["relations"]["written"].to_pylist() == ["[[чай]]"]
