"""The block between two ``---`` lines at the head of a Markdown file: where it is, and what it says.

Nearly all front matter is flat: ``key: value`` and lists of words. `parse` reads that subset in one pass over the lines
and hands everything else to the YAML reader; both give the same strings (a property test holds them together).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise

from memkit.formats.syntax.node import Node, StructureError
from memkit.formats.syntax.yaml import comments as yaml_comments
from memkit.formats.syntax.yaml import load_yaml
from memkit.surrogates import RANGE

_OPENING = re.compile(r"---[ \t]*\n")
_CLOSING = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)")  # opens with one certain character: ten times as fast to find
_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# Characters that YAML reads in its own way; anything with them goes to the YAML reader.
_ODD = RANGE + r"\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff"
_ODD_CHARACTER = re.compile(f"[{_ODD}]")
_INDICATORS = "-?:,[]{}#&*!|>'\"%@`~=<"
_NULLS = frozenset(("null", "Null", "NULL"))
_QUOTED = re.compile(r"""\"([^\"\\]*)\"|'([^']*)'""")
_FLOW_SPECIAL = re.compile(r"[\[\]{}]")


@dataclass
class FrontMatter:
    """The fields at the head of a file, and where its body begins.

    Attributes
    ----------
    fields : Node
        Values by key, each a string, a list or a node; lines count from the file's first.
    body_at : int
        Offset of the body in the text.
    body_line : int
        1-based line that the body begins on.
    fault : StructureError or None
        Why it is no YAML; `fields` then holds what it says with the values in quotes that need them, or what single
        lines give.
    mended : tuple of str
        The lines that were read as if their values stood in quotes, as they would be written.
    """

    fields: Node
    body_at: int
    body_line: int
    fault: StructureError | None = None
    mended: tuple[str, ...] = ()


def split(text: str) -> FrontMatter | None:
    """The front matter of `text`, or None if it has none."""
    if not text.startswith("---"):
        return None
    opening, closing = _bounds(text)
    if opening is None or closing is None:
        return None
    head = text[opening.end() : closing.start()]
    fault, lines = None, dict[int, str]()
    try:
        fields = parse(head)
    except StructureError as error:
        fields, lines = mend(head, error) or (salvage(head), {})
        fault = StructureError(str(error), min(lines, default=error.line))
    if fields is None or (fault and not fields):
        return None  # two horizontal rules with a text between them
    return FrontMatter(fields, closing.end(), text.count("\n", 0, closing.end()) + 1, fault, tuple(lines.values()))


def comments(text: str) -> dict[int, str]:
    """The comments in the front matter of `text` by their 1-based line."""
    opening, closing = _bounds(text) if text.startswith("---") else (None, None)
    if opening is None or closing is None:
        return {}
    return {line + 1: comment for line, comment in yaml_comments(text[opening.end() : closing.start()]).items()}


def _bounds(text: str) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    opening = _OPENING.match(text)
    return opening, _CLOSING.search(text, opening.end() - 1) if opening else None


def parse(head: str) -> Node | None:
    """The fields of the text between the ``---`` lines; None where it is not a mapping at all.

    All lines count from the file's first, the opening ``---``.

    Raises
    ------
    StructureError
        Where it is no YAML.
    """
    flat = parse_flat(head)
    if flat is not None:
        return flat
    documents = list(load_yaml(head, above=1))
    if len(documents) > 1:
        raise StructureError("one document", documents[0].end_line + 1 if isinstance(documents[0], Node) else 2)
    node = documents[0] if documents else None
    return node if isinstance(node, Node) else None


def parse_flat(head: str) -> Node | None:
    """The fields where every line is ``key: scalar``, ``key: [words]`` or ``- word`` below a key; else None."""
    if _ODD_CHARACTER.search(head):
        return None
    node = Node()
    listed, indent = "", -1
    for number, line in enumerate(head.split("\n"), 2):
        line = line.rstrip(" ")
        bare = line.lstrip(" ")
        if listed and bare.startswith("- "):
            word = _scalar(bare[2:].lstrip(" "))
            if node[listed] is None:
                node[listed], indent = [], len(line) - len(bare)
            if word is None or len(line) - len(bare) != indent:
                return None
            node[listed].append(word)
        elif line:
            key, colon, raw = line.partition(":")
            raw, blank = raw.lstrip(" "), raw[:1] in ("", " ")
            value = _flat_value(raw) if raw else None
            if not (colon and blank and _KEY.fullmatch(key)) or key in node or (raw and value is None):
                return None
            node.put(key, value, number)
            listed = "" if raw else key
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
    if raw[:1] not in _INDICATORS:
        return None if ": " in raw or " #" in raw or raw[-1] == ":" or raw in _NULLS else raw
    quoted = _QUOTED.fullmatch(raw)
    return (quoted.group(1) or quoted.group(2) or "") if quoted else None


def scalar_pattern(most: int, quote: str = "", *, flow: bool = False) -> str:
    """A pattern for a string of 1 to `most` characters, without blanks around it, that YAML reads as it stands.

    Parameters
    ----------
    quote : str
        The quote that stands around it, which the pattern leaves to its caller; a plain one has no ``:`` or ``#``.
    flow : bool
        Whether it stands in a ``[list]``.
    """
    special = r",\[\]{}" if flow else ""
    if quote:
        escape = r"\\" if quote == '"' else ""
        return rf"(?!\s)[^{quote}{escape}\n{special}{_ODD}]{{1,{most}}}+(?<! )"
    first = rf"(?!(?:null|Null|NULL)[\n,\]])[^\s{re.escape(_INDICATORS)}{_ODD}]"
    return rf"{first}[^:#\n{special}{_ODD}]{{0,{most - 1}}}+(?<! )"


_VALUE = re.compile(r"( *(?:- )?[\w-]+: +)(\S.*?) *$")
_MOST_MENDED = 8
"""How many values of one block may need quotes."""


_OPEN_LIST = re.compile(r"( *[\w-]+: +\[)([^\[\]{}]*)")


def mend(head: str, error: StructureError) -> tuple[Node, dict[int, str]] | None:
    """The fields of a block whose values need quotes, or whose lists a bracket, and these lines as they should be.

    The lines are by their number in the file; None where that does not help.

    >>> mend("name: a: b", StructureError("", 2))
    ({'name': 'a: b'}, {2: 'name: "a: b"'})
    >>> mend("tags: [чай, мёд", StructureError("", 3))
    ({'tags': ['чай', 'мёд']}, {2: 'tags: [чай, мёд]'})
    """
    lines, quoted = head.split("\n"), dict[int, str]()
    for place, (line, following) in enumerate(pairwise((*lines, ""))):
        if not following.startswith((" ", "\t", "]")) and (closed := _closed(line)):
            quoted[place] = lines[place] = closed
    while True:
        if quoted:
            try:
                fields = parse("\n".join(lines))
            except StructureError as next_error:
                error = next_error
            else:
                return (fields, {place + 2: line.strip() for place, line in quoted.items()}) if fields else None
        suspects = (number for number in (error.line - 2, error.line - 3) if 0 <= number < len(lines))
        number = next((n for n in suspects if n not in quoted and _VALUE.fullmatch(lines[n])), None)
        if number is None or len(quoted) >= _MOST_MENDED:
            return None
        match = _VALUE.fullmatch(lines[number])
        assert match is not None  # it was found by it
        quoted[number] = lines[number] = match[1] + json.dumps(match[2], ensure_ascii=False)


def _closed(line: str) -> str:
    """A line whose list is not closed, as it should be; empty for any other."""
    match = _OPEN_LIST.fullmatch(line)
    if match is None:
        return ""
    words, mark, comment = match[2].partition(" #")
    words = words.rstrip(" ,")
    if _flat_value(f"[{words}]") is None:
        stripped = (word.strip(" '\"") for word in words.split(","))
        words = ", ".join(json.dumps(word, ensure_ascii=False) for word in stripped if word)
    return f"{match[1]}{words}]{mark}{comment}"


def salvage(head: str) -> Node:
    """The fields of a block that is no YAML: the first ``key: value`` of each key, or the list below it."""
    node, listed = Node(), ""
    for number, written in enumerate(head.split("\n"), 2):
        line = _closed(written) or written
        if listed and line.lstrip(" ").startswith("- "):
            node[listed] = node[listed] or []
            node[listed].append(_salvaged(line.lstrip(" ")[2:]))
            continue
        key, colon, value = line.partition(":")
        listed = ""
        if colon and _KEY.fullmatch(key) and key not in node:
            node.put(key, _salvaged(value) or None, number)
            listed = "" if value.strip() else key
    return node


def _salvaged(raw: str) -> str | list[str]:
    raw = raw.strip()
    known = None if _ODD_CHARACTER.search(raw) or not raw else _flat_value(raw)
    return known or (raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] in "\"'" else raw)


def is_unclosed(text: str) -> bool:
    """Whether `text` opens front matter that never ends."""
    key, colon, raw = text[4:].partition("\n")[0].partition(":") if text.startswith("---\n") else ("", "", "")
    return bool(colon and raw[:1] in ("", " ") and _KEY.fullmatch(key)) and _bounds(text)[1] is None
