"""The workspace document's folder, made as it says, and what its own operations leave there, byte for byte."""

from __future__ import annotations

from pathlib import Path

import memkit as mk

DAY = "2025-02-03"
"""The day of the document's own names of files."""

FILES = {
    "MEMORY.md": "# Memory\n\n## 2025-02-01 09:00\n\nПредпочитает зелёный чай.\n",
    "HEARTBEAT.md": "# Heartbeat\n\n- [ ] Проверить резервную копию\n- [x] Ответить Анне\n",
    f"memory/{DAY}.md": f"# Daily Log: {DAY}\n\n- 10:15 Выкатили бота.\n- 11:40 Откатили бота.\n  Пул мал.\n",
    f"sessions/{DAY}-task.md": "# Session: task\n\n**[10:00] user**: Как дела?\n\n**[10:01] assistant**: Хорошо.\n",
}
"""Three levels: long-term memory, daily logs, transcripts; and the checklist beside them."""

CODE = (
    "Вот так:\n\n```python\n# как настроить\ndef pool(size: int) -> dict[str, int]:\n    return {'size': size}\n\n\n"
    "print(pool(10))\n```\n\nNote: больше не надо."
)
"""What an assistant says: a code fence whose lines hold colons and signs of headings."""


def build(root: Path) -> Path:
    """The folder of the document's first picture."""
    return mk.testing.write_files(root, FILES)
