"""The block between two ``---`` lines at the head of a Markdown file: where it is, and what it says.

Nearly all front matter is flat: ``key: value`` and lists of words. `parse` reads that subset in one pass over the lines
and hands everything else to the YAML reader; both give the same strings (a property test holds them together).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memkit.formats.structured import Node, StructureError, load_yaml

_BLOCK = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z_][\w-]*):(?: +(\S.*?))? *$", re.ASCII)
_ITEM = re.compile(r"( *)- +(\S.*?) *$")
_SALVAGED_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# Characters that YAML reads in its own way; anything with them goes to the YAML reader.
_ODD = r"\x00-\x1f\x7f-\xa0\ud800-\udfff\u2028\u2029\ufeff\ufffe\uffff"
_PLAIN = re.compile(rf"""(?![-?:,\[\]{{}}#&*!|>'"%@`~=<])(?!(?:null|Null|NULL)$)[^{_ODD}]+""")
_SPECIAL = re.compile(r": | #|:$")
_QUOTED = re.compile(rf"""\"([^\"\\{_ODD}]*)\"|'([^'{_ODD}]*)'""")
_FLOW_SPECIAL = re.compile(r"[\[\]{}]")


@dataclass
class FrontMatter:
    """What the head of a file says.

    Attributes
    ----------
    fields : Node
        Values by key, each a string, a list or a node; lines count from the file's first.
    body_at : int
        Offset of the body in the text.
    body_line : int
        1-based line that the body begins on.
    fault : StructureError or None
        Why it is no YAML; `fields` then holds what single lines give.
    """

    fields: Node
    body_at: int
    body_line: int
    fault: StructureError | None = None


def split(text: str) -> FrontMatter | None:
    """The front matter of `text`, or None where there is none."""
    if not text.startswith("---"):
        return None
    match = _BLOCK.match(text)
    if match is None:
        return None
    head = match.group(1)
    fault = None
    try:
        fields = parse(head)
    except StructureError as error:
        fields, fault = salvage(head), StructureError(str(error), error.line + 1)
    if fields is None or (fault and not fields):
        return None  # two horizontal rules with a text between them
    return FrontMatter(fields, match.end(), text.count("\n", 0, match.end()) + 1, fault)


def parse(head: str) -> Node | None:
    """The fields of the text between the ``---`` lines; None where it is no mapping at all.

    Raises
    ------
    StructureError
        Where it is no YAML; the line counts from the text's first.
    """
    flat = parse_flat(head)
    if flat is not None:
        return flat
    documents = list(load_yaml(head))
    node = documents[0] if documents else None
    if not isinstance(node, Node):
        return None
    node.lines = {key: line + 1 for key, line in node.lines.items()}
    node.repeated_lines = {key: line + 1 for key, line in node.repeated_lines.items()}
    return node


def parse_flat(head: str) -> Node | None:
    """The fields where every line is ``key: scalar``, ``key: [words]`` or ``- word`` below a key; else None."""
    node = Node()
    key, indent = "", ""
    for number, line in enumerate(head.split("\n"), 2):
        if match := _KEY.match(line):
            key, raw = match.groups()
            value = _flat_value(raw) if raw else None
            if key in node or (raw and value is None):
                return None
            node.put(key, value, number)
            key = "" if raw else key
        elif key and (match := _ITEM.match(line)):
            word = _scalar(match.group(2))
            if node[key] is None:
                node[key], indent = [], match.group(1)
            if word is None or match.group(1) != indent:
                return None
            node[key].append(word)
        elif line.strip(" "):
            return None
    return node


def _flat_value(raw: str) -> str | list[str] | None:
    if not raw.startswith("["):
        return _scalar(raw)
    inner = raw[1:-1].strip(" ")
    if not raw.endswith("]") or _FLOW_SPECIAL.search(inner):
        return None
    words = [_scalar(word.strip(" ")) for word in inner.split(",")] if inner else []
    return None if None in words else [word for word in words if word is not None]


def _scalar(raw: str) -> str | None:
    """The string that YAML would read, or None where only YAML can tell."""
    if _PLAIN.fullmatch(raw):
        return None if _SPECIAL.search(raw) else raw
    quoted = _QUOTED.fullmatch(raw)
    return (quoted.group(1) or quoted.group(2) or "") if quoted else None


def salvage(head: str) -> Node:
    """What the single lines of a broken block give: the first ``key: value`` of each key."""
    node = Node()
    for number, line in enumerate(head.split("\n"), 2):
        key, colon, value = line.partition(":")
        if colon and _SALVAGED_KEY.fullmatch(key) and key not in node:
            value = value.strip()
            node.put(key, _flat_value(value) or value.strip("\"'") or None, number)
    return node


def is_unclosed(text: str) -> bool:
    """Whether `text` opens front matter that never ends."""
    second = text[4:].partition("\n")[0] if text.startswith("---\n") else ""
    return bool(_KEY.match(second)) and _BLOCK.match(text) is None
