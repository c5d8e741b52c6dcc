"""Check boxes of any format, each with its file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import memkit as mk
from memkit.base.fences import fences
from memkit.tables.samples import write_files

NOTE = """---
id: 5b2d2f3e-8a0c-4c1e-9a55-0d6f1f0a7c11
subject: Выкладка
keywords: [выкладка]
applies_to: global
created_at: 2026-02-01T00:00:00Z
updated_at: 2026-02-01T00:00:00Z
---

# Порядок

- [ ] прогнать тесты
  * [ ] и на Python 3.12
- [x] стенд
- [-] отложено
- [>] перенесено
- [/] начато
- [~] почти
- [?] спросить
"""
FILES = {
    "HEARTBEAT.md": "# Раз в час\n- [ ] проверить пул\n",
    "docs/plan.md": "# План\n\n## Дела\n\n1. [ ] первое\n2) [X] второе\n\t+ [ ] вложенное\n> - [ ] из письма\n",
    "memory/2026-02-03.md": "# День\n## 10:15\n\n- [ ] написать Анне\n```\n- [ ] это код\n```\n- [ ] после кода\n",
    "notes/5b2d2f3e-8a0c-4c1e-9a55-0d6f1f0a7c11.md": NOTE,
    "users/anna/working.md": "- [id:w1] [t:working] [imp:normal] [ ] забрать чек\n",
    "tree/memory/index.json": json.dumps({"type": "index-root", "branches": [{"category": "l", "path": "l.json"}]}),
    "tree/memory/l.json": json.dumps(
        {
            "type": "index-branch",
            "files": [
                {"file": "pool.md", "title": "Пул", "tags": ["пул"], "priority": "high", "version": "1.0",
                 "updated": "2026-02-01", "summary": "о пуле"}
            ],
        }
    ),
    "tree/memory/pool.md": "Пул.\n\n- [ ] поднять до двадцати\n",
    "wisdom.json": json.dumps(
        {"format_version": "1.0.0", "fact_id": "f", "category": "c", "confidence": 1, "relations": [],
         "content": "Перед выпуском:\n- [ ] сверить версии"},
        indent=1,
    ),
    "links.md": "- [x](https://example.org)\n- [ ]: нет\n- [y] не то\nтекст [ ] в строке\n- текст [ ] дальше\n",
}  # fmt: skip
OPEN = {
    ("HEARTBEAT.md", "проверить пул"),
    ("docs/plan.md", "первое"),
    ("docs/plan.md", "вложенное"),
    ("docs/plan.md", "из письма"),
    ("memory/2026-02-03.md", "написать Анне"),
    ("memory/2026-02-03.md", "после кода"),
    ("notes/5b2d2f3e-8a0c-4c1e-9a55-0d6f1f0a7c11.md", "прогнать тесты"),
    ("notes/5b2d2f3e-8a0c-4c1e-9a55-0d6f1f0a7c11.md", "и на Python 3.12"),
    *(("notes/5b2d2f3e-8a0c-4c1e-9a55-0d6f1f0a7c11.md", text) for text in ("начато", "почти", "спросить")),
    ("users/anna/working.md", "забрать чек"),
    ("tree/memory/pool.md", "поднять до двадцати"),
    ("wisdom.json", "сверить версии"),
}
BOX = re.compile(r"[ >\t]*(?:[-*+]|\d+[.)]) \[ \](?![(:\[]) ?(.*)")


def tasks(corpus: mk.Corpus) -> list[tuple[str, int, str]]:
    return corpus.named("open_tasks").fetchall()


@pytest.mark.quick
def test_open_tasks_are_those_of_every_format_and_stand_where_they_say(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path / "in", FILES))
    assert {path for path, _, _ in tasks(corpus)} <= {row["path"] for row in corpus.memories.to_pylist()}
    assert {(path, text) for path, _, text in tasks(corpus)} == OPEN
    for path, line, text in tasks(corpus):
        assert path == "wisdom.json" or text in FILES[path].split("\n")[line - 1], (path, line, text)
    ticked = [row["text"] for row in corpus.tables["checklist"].to_pylist() if row["done"]]
    assert sorted(ticked) == ["второе", "отложено", "перенесено", "стенд"]

    corpus.save(tmp_path / "lake")
    assert tasks(mk.open(tmp_path / "lake")) == tasks(corpus)
    write_files(tmp_path / "in", {"docs/plan.md": FILES["docs/plan.md"].replace("1. [ ]", "1. [x]")})
    refreshed = corpus.refresh()
    assert refreshed.tables["checklist"].equals(mk.read(tmp_path / "in").tables["checklist"])
    assert {(path, text) for path, _, text in tasks(refreshed)} == OPEN - {("docs/plan.md", "первое")}


TICKED_LATER = {("life/memory/2025-11-12.md", 9), ("life/memory/2025-11-13.md", 4)}
"""A task that the logs of two days carry over and that of the third ticks."""


@pytest.mark.quick
def test_every_open_box_of_the_sample_is_a_task() -> None:
    root = mk.sample_data()
    corpus = mk.read(root)
    wanted = []
    for path in sorted({path for path in corpus.memories["path"].to_pylist() if path.endswith(".md")}):
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        code = fences(text)
        for number, line in enumerate(text.split("\n"), 1):
            if (match := BOX.match(line)) and number not in code and (path, number) not in TICKED_LATER:
                wanted.append((path, number, match[1].strip()))
    assert len(wanted) > 50
    assert sorted(tasks(corpus)) == sorted(wanted)


@pytest.mark.quick
def test_a_task_of_a_table_has_no_file() -> None:
    corpus = mk.from_table(
        {"text": ["План:\n* [ ] позвонить", "[ ] без списка", "нет [ ] дел"], "kind": ["archive"] * 3}
    )
    assert tasks(corpus) == [(None, None, "позвонить"), (None, None, "без списка")]
