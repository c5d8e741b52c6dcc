"""The block at the head of a Markdown file: where it is, and what it says.

It is YAML between two ``---`` lines or below ``---yaml``, TOML between two ``+++`` lines or below ``---toml``, or JSON
in braces or below ``---json``; `_CLOTHES` declares them. Blank lines may stand above it. Whatever its syntax, its
values are strings, as written.

Nearly all front matter is flat: ``key: value`` and lists of words. `parse` reads that subset in one pass over the lines
and hands everything else to the YAML reader; both give the same strings (a property test holds them together).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import pairwise
from typing import Any, NamedTuple

from memkit.base import late_pattern
from memkit.base.checked import RANGE
from memkit.formats.syntax.nodes import MAX_DEPTH, Node, Number, StructureError, load_json

_OPENING = re.compile(r"(?:[ \t]*\n)*+---(?:ya?ml)?[ \t]*\n")
_MAY_OPEN = re.compile(r"(?:[ \t]*\n)*+[-+{]")
"""With what any front matter opens, whatever its syntax."""
_CLOSING = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)")  # opens with one certain character: ten times as fast to find
_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# Characters that YAML reads in its own way; anything with them goes to the YAML reader.
_ODD = RANGE + r"\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff"
_ODD_CHARACTER = late_pattern(f"[{_ODD}]")
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
    syntax : str
        YAML, TOML or JSON; only a block of YAML can be changed.
    """

    fields: Node
    body_at: int
    body_line: int
    fault: StructureError | None = None
    mended: tuple[str, ...] = ()
    syntax: str = "YAML"


def split(text: str) -> FrontMatter | None:
    """The front matter of `text`, or None if it has none."""
    if _MAY_OPEN.match(text) is None:
        return None
    opening, closing = _bounds(text)
    if opening is None or closing is None:
        return _other(text)
    head = text[opening.end() : closing.start()]
    fault, lines = None, dict[int, str]()
    try:
        fields = parse(head)
    except StructureError as error:
        fields, lines = mend(head, error) or (salvage(head), {})
        fault = StructureError(str(error), min(lines, default=error.line))
    if fields is None or (fault and not fields):
        return None  # two horizontal rules with a text between them
    if above := text.count("\n", 0, opening.end()) - 1:
        _move(fields, above)
        fault = StructureError(str(fault), fault.line + above) if fault else None
    return FrontMatter(fields, closing.end(), _line_below(text, closing), fault, tuple(lines.values()))


def comments_of_yaml(text: str) -> dict[int, str]:
    """The comments of a text that is YAML by their 1-based line."""
    from memkit.formats.syntax.yaml_nodes import yaml_comments

    return yaml_comments(text)


def comments(text: str) -> dict[int, str]:
    """The comments in the front matter of `text` by their 1-based line."""
    opening, closing = _bounds(text)
    if opening is None or closing is None:
        return {}
    above = text.count("\n", 0, opening.end())
    return {line + above: comment for line, comment in comments_of_yaml(text[opening.end() : closing.start()]).items()}


def _line_below(text: str, closing: re.Match[str]) -> int:
    """The line below a block, which may end the file without a line end."""
    return text.count("\n", 0, closing.end()) + 1 + (not closing[0].endswith("\n"))


def _move(value: Any, lines: int) -> None:
    """Let all that is read count its lines from so many lines further up."""
    for part in value.values() if isinstance(value, Node) else value if isinstance(value, list) else ():
        _move(part, lines)
    if isinstance(value, Node):
        value.line, value.end_line = value.line + lines, value.end_line + lines
        value.lines = {key: line + lines for key, line in value.lines.items()}
        value.repeated_lines = {key: line + lines for key, line in value.repeated_lines.items()}


def _bounds(text: str) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    opening = _OPENING.match(text)
    return opening, _CLOSING.search(text, opening.end() - 1) if opening else None


class _Clothes(NamedTuple):
    """A block that is not YAML: its syntax, how it opens and closes, what reads it, and the sign behind a key."""

    syntax: str
    opening: re.Pattern[str]
    closing: re.Pattern[str]
    load: Callable[[str], Any]
    key: re.Pattern[str]


def _load_toml(head: str) -> dict[str, Any]:
    import tomllib

    if len(head) > _MOST_TOML:
        raise StructureError(f"TOML of at most {_MOST_TOML:,} characters", 1)
    try:
        return tomllib.loads(head, parse_float=str)
    except RecursionError as error:
        raise StructureError(f"nesting of at most {MAX_DEPTH} levels", 1) from error
    except ValueError as error:
        place = _TOML_LINE.search(str(error))
        raise StructureError(str(error), int(place[1]) if place else 1) from error


_MOST_TOML = 10_000
"""Python's reader of TOML takes quadratic time for some texts; no head is so long."""
_TOML_LINE = re.compile(r"\(at line (\d+)")
_TOML_KEY = re.compile(r"(?m)^[ \t]*\"?([\w-]+)\"?[ \t]*=")
_JSON_KEY = re.compile(r'(?m)^[ \t]*"([^"\n]+)"[ \t]*:')
_BLANK_LINES = r"(?:[ \t]*\n)*+"
_CLOTHES = (
    _Clothes(
        "TOML",
        re.compile(_BLANK_LINES + r"\+\+\+[ \t]*\n"),
        re.compile(r"\n\+\+\+[ \t]*(?:\n|\Z)"),
        _load_toml,
        _TOML_KEY,
    ),
    _Clothes("TOML", re.compile(_BLANK_LINES + r"---toml[ \t]*\n"), _CLOSING, _load_toml, _TOML_KEY),
    _Clothes("JSON", re.compile(_BLANK_LINES + r"---json[ \t]*\n"), _CLOSING, load_json, _JSON_KEY),
    _Clothes(
        "JSON",
        re.compile(_BLANK_LINES + r"(?=\{[ \t]*\n)"),
        re.compile(r"(?<=\n\})[ \t]*(?:\n|\Z)"),
        load_json,
        _JSON_KEY,
    ),
    _Clothes(
        "JSON",
        re.compile(_BLANK_LINES + r"(?=\{[ \t]*\"[^\n]*\}[ \t]*+(?:\Z|\n[ \t]*+(?:\Z|\n|\#)))"),
        re.compile(r"(?<=\})[ \t]*(?:\n|\Z)"),
        load_json,
        re.compile(r'[{,][ \t]*"([^"\n]+)"[ \t]*:'),
    ),
)
"""What a head may be besides YAML; JSON on one line stands alone, as lines of JSON do not."""


def _other(text: str) -> FrontMatter | None:
    """The front matter in the first of the other syntaxes that opens and closes one with fields."""
    for clothes in _CLOTHES:
        opening = clothes.opening.match(text)
        closing = clothes.closing.search(text, max(opening.end() - 1, 0)) if opening else None
        if opening is None or closing is None:
            continue
        head, above = text[opening.end() : closing.start()], text.count("\n", 0, opening.end())
        lines, fault, line, before = dict[str, int](), None, above + 1, 0
        for match in clothes.key.finditer(head):
            line, before = line + head.count("\n", before, match.start()), match.start()
            lines.setdefault(match[1], line)
        try:
            fields = _as_written(clothes.load(head))
        except ValueError as error:  # also a number of too many digits
            fault = StructureError(str(error), getattr(error, "line", 1) + above)
            sign, said = "=" if clothes.syntax == "TOML" else ":", filter(clothes.key.match, head.split("\n"))
            pairs = (line.strip().rstrip(",").partition(sign) for line in said)
            fields = salvage("\n".join(": ".join((key.strip(' \t"'), value.strip())) for key, _, value in pairs))
        if not isinstance(fields, Node) or not fields:
            if fault and opening[0].strip():  # marks that nothing else has: all of it is kept as text, and told
                return FrontMatter(Node(), 0, 1, fault, syntax=clothes.syntax)
            continue
        fields.lines = {key: lines[key] for key in fields if key in lines}
        return FrontMatter(fields, closing.end(), _line_below(text, closing), fault, syntax=clothes.syntax)
    return None


def _as_written(value: Any, depth: int = 0) -> Any:
    """A value of TOML or JSON as the YAML reader would give it: strings, lists and nodes."""
    if depth > MAX_DEPTH:
        raise StructureError(f"nesting of at most {MAX_DEPTH} levels", 1)
    if isinstance(value, dict):
        node = Node()
        for key, inner in value.items():
            node.put(key, _as_written(inner, depth + 1))
        return node
    if isinstance(value, list):
        return [_as_written(item, depth + 1) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        return value.text
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if value is None else str(value)


def parse(head: str) -> Node | None:
    """The fields of the text between the ``---`` lines; None where it is not a mapping at all.

    All lines count from the file's first, the opening ``---``.

    Raises
    ------
    StructureError
        Where it is no YAML.
    """
    if (flat := parse_flat(head)) is not None:
        return flat
    from memkit.formats.syntax.yaml_nodes import load_yaml

    documents = list(load_yaml(head, above=1))
    if len(documents) > 1:
        raise StructureError("one document", documents[0].end_line + 1 if isinstance(documents[0], Node) else 2)
    node = documents[0] if documents else None
    return node if isinstance(node, Node) else None


def parse_flat(head: str) -> Node | None:
    """The fields where every line is ``key: scalar``, ``key: [words]`` or ``- word`` below a key; else None."""
    if _ODD_CHARACTER().search(head):
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


_VALUE = re.compile(r"( *(?:- )?[\w-]+: +)(\S.*?) *$")
# A round bound: the block is parsed once for each.
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
    known = None if _ODD_CHARACTER().search(raw) or not raw else _flat_value(raw)
    return known or (raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] in "\"'" else raw)


def is_unclosed(text: str) -> bool:
    """Whether `text` opens front matter that never ends."""
    key, colon, raw = text[4:].partition("\n")[0].partition(":") if text.startswith("---\n") else ("", "", "")
    return bool(colon and raw[:1] in ("", " ") and _KEY.fullmatch(key)) and _bounds(text)[1] is None
