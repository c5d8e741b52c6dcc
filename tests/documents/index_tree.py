"""The folder of the index standard, made as the document says: its own examples byte for byte, and a file to split."""

from __future__ import annotations

ROOT = """{
  "type": "index-root",
  "branches": [
    { "category": "context", "path": "plans/context/index.json" },
    { "category": "lessons", "path": "lessons/index.json" }
  ]
}
"""
CONTEXT = """{
  "type": "index-branch",
  "category": "context",
  "files": []
}
"""
LESSONS = """{
  "type": "index-branch",
  "category": "lessons",
  "files": [
    {
      "title": "Intro Lesson",
      "file": "lessons/intro.md",
      "tags": ["intro"],
      "priority": "high",
      "version": "1.0",
      "updated": "2025-06-25"
    }
  ]
}
"""
ENTRY = {
    "title": "Intro Lesson",
    "file": "lessons/intro.md",
    "tags": ["intro"],
    "priority": "high",
    "version": "1.0",
    "updated": "2025-06-25",
}
INTRO = "# Intro\n\nWelcome.\n"
NOTE_ENTRY = {**ENTRY, "title": "Note", "file": "notes/note.md", "tags": [], "updated": "2025-06-25"}
NOTE = "# Первая часть\n\nТекст первой части.\n\n# Вторая часть\n\nТекст второй части.\n"
"""Two sections, which are two parts where 10 tokens are the limit."""
HEAD = """---
title: Note
parts: [part1.md, part2.md]
tokens_total: {tokens}
split: auto
updated: 2025-06-26
---
"""
PLUGIN = "sofia-memory-plugin/tool.md"


def files() -> dict[str, str]:
    """Every file of sections 1 and 3, by its path from the folder that holds ``memory/``."""
    return {
        "memory/index.json": ROOT,
        "memory/plans/context/index.json": CONTEXT,
        "memory/lessons/index.json": LESSONS,
        "memory/lessons/intro.md": INTRO,
    }
