"""Plain Markdown with front matter, as note takers and coding assistants write it: its title and dates."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
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


def test_the_front_matter_of_an_assistants_file_names_and_dates_it(tmp_path: Path) -> None:
    changed = {"created_at": None, "updated_at": moment(2026, 7, 30, 7, 40, 18), "date_source": "own"}
    assert read(tmp_path, memory__timeouts=ASSISTANT) == [
        {"title": "сроки-тестов", **changed},
        {"title": "Android", **changed},
    ]


@pytest.mark.parametrize(
    ("front", "created", "updated"),
    [
        ("date: 2026-01-02", moment(2026, 1, 2), moment(2026, 1, 2)),
        ("created: 2026-01-02 10:30\nmodified: 2026-02-03", moment(2026, 1, 2, 10, 30), moment(2026, 2, 3)),
        ("lastmod: 2026-02-03T01:00:00+02:00", None, moment(2026, 2, 2, 23)),
        ("created: soon\ndate: 2026-01-02", moment(2026, 1, 2), moment(2026, 1, 2)),
        ("created: [2026-01-02]\nmetadata: {updated: 20260203}", None, moment(2026, 2, 3)),
        ("createdAt: 2026-01-02\nlast_modified_at: 2026-02-03", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("Date Created: 2026-01-02\nupdated-at: 2026-02-03", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("created: [[2026-01-02]]\nupdated: '[[log/2026-02-03|Tue]]'", moment(2026, 1, 2), moment(2026, 2, 3)),
        ("created: 02.01.2026 10:30\nupdated: 3 февраля 2026", moment(2026, 1, 2), moment(2026, 2, 3)),
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
