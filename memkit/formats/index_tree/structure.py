"""What of a tree must fit together beside its entries: folders with their indexes, split files with their parts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from memkit.formats.disk.source import Source, above
from memkit.formats.faults import Rule
from memkit.formats.fields import ANY, DAY, Field, Fields, Type
from memkit.formats.format import MARKDOWN
from memkit.formats.rows import Rows
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.node import Node
from memkit.formats.syntax.values import integer_of, loose_words, text_of

_FILES = Type(lambda value: value if isinstance(value, list) and value else None, "a list of files")
SPLIT = Fields(
    "index_tree",
    "the index.md of a split file",
    Field("title", ANY, required=True),
    Field("parts", _FILES, required=True),
    Field("tokens_total", ANY, required=True),
    Field("split", Type(lambda value: value if value == "auto" else None, "'auto'"), required=True),
    Field("updated", DAY, required=True),
)
_DATE = re.compile(r"(?:.*/)?\d[\d-]*", re.DOTALL)
"""A folder of a workspace's logs."""
_CHARS = (1.5, 6.0)
"""Characters of a token: counters differ by language and model, none so far."""

NO_INDEX = Rule("missing_index", "index_tree", "", "an index.json in each folder of the tree")
_NO_PART = Rule("missing_file", "index_tree", "parts", "a part that exists")
_TWICE = Rule("bad_value", "index_tree", "parts", "a part that is named once")
RULES = (
    NO_INDEX,
    _NO_PART,
    _TWICE,
    *SPLIT.rules(),
    Rule("bad_value", "index_tree", "title", "the title of the entry, in the index.md of a split file"),
    Rule("bad_value", "index_tree", "tokens_total", "as many tokens as the parts have, within what counters differ"),
    Rule("bad_value", "index_tree", "updated", "a day not before the entry's, in the index.md of a split file"),
)


def below(path: str, folder: str) -> bool:
    """Whether a normalised `path` lies in `folder`."""
    return not path.startswith("../") and path not in ("..", ".") and (not folder or path.startswith(f"{folder}/"))


def without_index(files: Iterable[str], roots: Collection[str], indexes: Collection[str], split: set[str]) -> list[str]:
    """The folders right below a root that hold Markdown but no index, in them or below; no `split` file counts."""
    indexed = {folder for path in indexes for folder in above(path)}
    unindexed = set()
    for path in files if roots else ():
        if path.lower().endswith(MARKDOWN) and path not in split:
            last = path
            for folder in above(path):
                if folder in roots and last != path and last not in indexed and not _DATE.fullmatch(last):
                    unindexed.add(last)
                if folder in roots:
                    break
                last = folder
    return sorted(unindexed)


def parts_of(source: Source | None, files: Mapping[str, Any], taken: set[str], memory_id: str, rows: Rows) -> list[str]:
    """The files that a split ``index.md`` lists, as far as they are there and not `taken`, to which they are added."""
    front = front_matter.split(source.text) if source else None
    if source is None or front is None:
        return []
    folder, line = posixpath.dirname(source.path), front.fields.lines.get("parts")
    parts: list[str] = []

    def problem(rule: str, expected: str, name: str, status: str) -> None:
        where: dict[str, Any] = {"line": line, "field": "parts", "memory_id": memory_id, "status": status}
        rows.problem(rule, source.path, expected, name, **where)

    for name in loose_words(front.fields.get("parts")):
        path = posixpath.normpath(posixpath.join(folder, name.replace("\\", "/")))
        if not below(path, folder) or name.startswith("/"):
            problem("outside_root", "a part in the folder of its index.md", name, "invalid")
        elif path not in files:
            problem(_NO_PART.code, _NO_PART.expected, name, "missing")
        elif path in taken:  # a file named a thousand times must not be a thousand times its text
            problem(_TWICE.code, _TWICE.expected, name, "invalid")
        else:
            parts.append(path)
            taken.add(path)
    return parts


def check_split(path: str, head: Node, memory: Mapping[str, Any], texts: list[str], rows: Rows) -> None:
    """Report what the ``index.md`` at `path` says that does not hold, beside its entry and the `texts` of its parts."""

    def problem(rule: str, name: str, expected: str, got: object) -> None:
        line = head.lines.get(name, 1)
        rows.problem(rule, path, expected, got, line=line, field=name, memory_id=memory["memory_id"])

    values, _ = SPLIT.read(head, rows, problem, ("title",))  # a blank one is not the entry's, which is all to say
    title, tokens, day, changed = values["title"], values["tokens_total"], values["updated"], memory["updated_at"]
    if title is None:
        problem(SPLIT.missing, "title", "", "nothing")
    elif text_of(title) != memory["title"]:
        problem("bad_value", "title", f"{memory['title']!r:.80}, as the entry says", title)
    length, is_whole = sum(map(len, texts)), len(texts) == len(loose_words(head.get("parts")))
    few, many = (round(length / chars) for chars in reversed(_CHARS))
    count = integer_of(tokens)
    if tokens is not None and is_whole and (count is None or not few <= count <= max(many, 1)):
        problem("bad_value", "tokens_total", f"{few} to {many}, as the parts have {length} characters", tokens)
    if day and changed and day < changed:
        problem("bad_value", "updated", f"{changed.date()} or later, as the entry says", head["updated"])
