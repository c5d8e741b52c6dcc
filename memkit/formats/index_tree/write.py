"""Index files as text, in the key order and style of the standard."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from memkit.errors import FormatError
from memkit.formats.fields import check_text
from memkit.formats.index_tree.index import FIELDS
from memkit.formats.syntax.json_places import pretty


def format_root(branches: Iterable[Mapping[str, str]]) -> str:
    """The root index that names these branches, each with category and path.

    Examples
    --------
    >>> print(format_root([{"category": "lessons", "path": "lessons/index.json"}]), end="")
    {
      "type": "index-root",
      "branches": [
        { "category": "lessons", "path": "lessons/index.json" }
      ]
    }
    """
    lines = ",\n".join(f"    {format_branch_line(branch)}" for branch in branches)
    inner = f"[\n{lines}\n  ]" if lines else "[]"
    return f'{{\n  "type": "index-root",\n  "branches": {inner}\n}}\n'


def format_branch_line(branch: Mapping[str, str]) -> str:
    """One branch of a root, on a line.

    Raises
    ------
    FormatError
        Where category or path is not a string that says something.
    """
    for name in ("category", "path"):
        if not isinstance(branch.get(name), str) or not branch[name].strip():
            raise FormatError(f"field '{name}' must be a string. Got {branch.get(name)!r}.", field=name)
    check_text(branch)
    members = (f"{json.dumps(key)}: {json.dumps(text, ensure_ascii=False)}" for key, text in branch.items())
    return f"{{ {', '.join(members)} }}"


def format_branch(category: str, entries: Iterable[Mapping[str, Any]] = ()) -> str:
    """The index of a category with these entries.

    Raises
    ------
    FormatError
        Where a field of an entry is missing or not as the standard wants it.

    Examples
    --------
    >>> print(format_branch("lessons", [{"title": "Intro Lesson", "file": "lessons/intro.md", "tags": ["intro"],
    ...     "priority": "high", "version": "1.0", "updated": "2025-06-25"}]), end="")
    {
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
    check_text({"category": category})
    return pretty({"type": "index-branch", "category": category, "files": [ordered_entry(e) for e in entries]}) + "\n"


def ordered_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry in the standard's order, others after them, every one as the standard wants it.

    Raises
    ------
    FormatError
        At the first that is not.
    """
    FIELDS.strict(entry)
    check_text(entry)
    names = [field.name for field in FIELDS.fields if field.name in entry]
    return {name: entry[name] for name in [*names, *(name for name in entry if name not in FIELDS.names)]}
