"""What an ``index.json`` is by its fields, as names are shared with other tools; what its entries say; and its text.

Beside its entries a tree must fit together: folders with their indexes, split files with their parts.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memkit.errors import FormatError
from memkit.formats.disk.source import Source, above
from memkit.formats.fields import ANY, DAY, FILLED, TRUTH, WHOLE, WORDS, Field, Fields, Type, check_text, words_test
from memkit.formats.format import MARKDOWN
from memkit.formats.records.format import WRAPPERS, kind_of
from memkit.formats.rows import Row, Rows, Rule, extra_of, is_not_negative, length
from memkit.formats.spelling import integer_of, loose_words, text_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.nodes import Node
from memkit.formats.syntax.places import pretty


@dataclass(frozen=True)
class Claim:
    """What an index says of one file, as plain data: the file's memory row but for its text.

    `parts` are the files whose bodies, in order, are the text; `stamp` changes when one of them does.
    """

    memory_id: str
    memory: tuple[tuple[str, Any], ...]
    parts: tuple[str, ...] = ()
    stamp: tuple[Any, ...] = ()


def _word(word: str) -> Type:
    return Type(lambda value: value if value == word else None, f"'{word}'")


_ITEMS = Type(lambda value: value if isinstance(value, list) else None, "a list of objects")
_NOT_NEGATIVE = ("out_of_range", "0 or more", is_not_negative)
_HIGH_TO_LOW = words_test("high", "medium", "low")
FIELDS = Fields(
    "index_tree",
    "an entry",
    Field("title", required=True, tests=(("bad_value", "a title that is not empty", length(1)),)),
    Field("file", expected="a path", required=True, tests=(("bad_value", "a path that is not empty", length(1)),)),
    Field("tags", WORDS, required=True),
    Field("priority", expected=_HIGH_TO_LOW[1], required=True, tests=(_HIGH_TO_LOW,)),
    Field("version", required=True, tests=(FILLED,)),
    Field("updated", DAY, required=True),
    Field("summary"),
    Field("context_priority", expected=_HIGH_TO_LOW[1], tests=(_HIGH_TO_LOW,)),
    Field("pinned", TRUTH),
    Field("access_count", WHOLE, tests=(_NOT_NEGATIVE,)),
    Field("edit_count", WHOLE, tests=(_NOT_NEGATIVE,)),
)

ROOT = Fields(
    "index_tree",
    "an index",
    Field("type", _word("index-root"), required=True),
    Field("branches", _ITEMS, required=True),
)
BRANCH = Fields(
    "index_tree",
    "an index",
    Field("type", _word("index-branch"), required=True),
    Field("category", required=True, tests=(FILLED,)),
    Field("files", _ITEMS, required=True),
)
NAMED = Fields(
    "index_tree",
    "a branch that the root names",
    Field("category", required=True, tests=(FILLED,)),
    Field("path", required=True, tests=(FILLED,)),
)


def typed(entry: Node, rows: Rows, index: str, memory_id: str, may_lack: Container[str]) -> Row:
    """The columns of an entry; what has another type is a problem and stays in extra."""

    def problem(rule: str, name: str, expected: str, got: object) -> None:
        rows.problem(rule, index, expected, got, line=entry.line, field=name, memory_id=memory_id)

    row, taken = FIELDS.read(entry, rows, problem, may_lack, is_typed=True)
    rows.repeated(entry, index, entry.line, memory_id)
    return {**row, "tags": row["tags"] or [], "extra": extra_of(entry, taken)}


_FLAT = {"path", "title", "type", "description", "lastModified"}
_FLAT_KEYS = _FLAT | {f"{key} (repeated)" for key in _FLAT}


def shape_of(document: Any) -> str:
    """root, branch, flat, other (records may be in it) or foreign."""
    if isinstance(document, Node):
        if document.get("type") == "index-root" or _objects(document.get("branches"), {"path"}):
            return "root"
        if document.get("type") == "index-branch" or _objects(document.get("files"), {"file"}):
            return "branch"
        return "other" if _may_hold_records(document) else "foreign"
    if isinstance(document, list):
        if all(isinstance(item, Node) and item.keys() <= _FLAT_KEYS for item in document):
            return "flat"
        if _objects(document, {"path"}) and _objects(document, {"title"}):
            return "flat"
        return "other" if any(map(_may_hold_records, document)) else "foreign"
    return "foreign"


def _may_hold_records(value: Any) -> bool:
    return isinstance(value, Node) and (kind_of(value) is not None or any(key in value for key in WRAPPERS))


def _objects(value: Any, keys: set[str]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(i, Node) and keys <= i.keys() for i in value)


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
    return FIELDS.ordered(entry)


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
# Wide enough for Cyrillic and for code: only a number that no counter gives is reported.
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
