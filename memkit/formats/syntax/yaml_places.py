"""Where the values of YAML stand, how one is written so that every reader reads it back, and how one is changed.

A round trip through a YAML library changes what nobody touched; here one value gets another text, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from memkit.errors import ChangeRefusedError
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.json_places import Splice, spliced
from memkit.formats.syntax.node import StructureError
from memkit.formats.syntax.yaml import load_yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = re.compile("\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SPOKEN = frozenset(("yes", "no", "on", "off", "y", "n", "null", "true", "false"))
_ODD = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_LOOSE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)?|(?:file|area):[A-Za-z0-9_./-]+")
"""What notes write without quotes though YAML has its own idea of it: dates, and the places a note applies to."""


def scalar(value: object, *, loose: bool = False) -> str:
    """`value` as YAML writes it: a string bare where no reader takes it for anything else, and in quotes elsewhere.

    Parameters
    ----------
    loose : bool
        Dates and ``file:path`` bare too, as notes have them.

    Examples
    --------
    >>> [scalar(value) for value in ("user_42", "1.10", "yes", "чай: да", None, 0.5, True)]
    ['user_42', '"1.10"', '"yes"', '"чай: да"', 'null', '0.5', 'true']
    """
    if not isinstance(value, str):
        text = json.dumps(value, allow_nan=False)
        is_short = isinstance(value, float) and "e" in text and "." not in text
        return text.replace("e", ".0e") if is_short else text  # YAML 1.1 takes 1e-3 for a word
    if (_WORDS.fullmatch(value) and value.lower() not in _SPOKEN) or _UUID.fullmatch(value):
        return value
    if loose and _LOOSE.fullmatch(value):
        return value
    return _quoted(value)


def _quoted(text: str) -> str:
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def block(fields: Mapping[str, Any], indent: str = "", *, loose: bool = False) -> str:
    """A mapping as lines of YAML: lists below their keys, an item a line; each key in the order given.

    Examples
    --------
    >>> print(block({"id": "a", "tags": ["чай", "tea"], "stats": {"hits": 1}, "none": []}), end="")
    id: a
    tags:
      - "чай"
      - tea
    stats:
      hits: 1
    none: []
    """
    lines = []
    for key, value in fields.items():
        name = scalar(key)
        if isinstance(value, Mapping) and value:
            lines.append(f"{indent}{name}:\n{block(value, f'{indent}  ', loose=loose)}")
        elif isinstance(value, list) and value:
            lines.append(f"{indent}{name}:\n" + "".join(_item(item, f"{indent}  ", loose) for item in value))
        else:
            empty = {dict: "{}", list: "[]"}.get(list if isinstance(value, list) else dict if value == {} else str)
            lines.append(f"{indent}{name}: {empty or scalar(value, loose=loose)}\n")
    return "".join(lines)


def _item(value: Any, indent: str, loose: bool) -> str:
    if isinstance(value, Mapping) and value:
        return f"{indent}- {block(value, f'{indent}  ', loose=loose).removeprefix(f'{indent}  ')}"
    if isinstance(value, (list, Mapping)):
        return f"{indent}- {json.dumps(value, ensure_ascii=False, allow_nan=False)}\n"
    return f"{indent}- {scalar(value, loose=loose)}\n"


def set_field(text: str, key: str, value: Any) -> Splice:
    """What gives a field of the front matter of `text` another value: a string, a number, or a list of strings.

    Raises
    ------
    ChangeRefusedError
        Where there is no front matter that can be parsed, or the place of the value is not certain.

    Examples
    --------
    >>> text = "---\\nid: 1 # mine\\nkeywords: [a,  b]\\n---\\nчай"
    >>> print(spliced(text, [set_field(text, "id", "x")]))
    ---
    id: x # mine
    keywords: [a,  b]
    ---
    чай
    """
    start, end = _head(text)
    splice = _set(text, start, end, [key], value, loose=True)
    before, after = (front_matter.split(_plain(version)) for version in (text, spliced(text, [splice])))
    if before is None or after is None or before.fault or after.fault:
        raise ChangeRefusedError("its front matter cannot be parsed.")
    _compare(dict(before.fields), dict(after.fields), [key], value)
    return splice


def set_value(text: str, path: Sequence[str], value: Any) -> Splice:
    """What gives a value within one YAML document another: keys lead to it; a new key is added at the top alone.

    Raises
    ------
    ChangeRefusedError
        Where the place of the value is not certain.
    """
    start = len(text) - len(text.removeprefix("\ufeff"))
    splice = _set(text, start, len(text.rstrip("\r\n \t")), list(path), value, loose=False)
    try:
        before, after = (next(load_yaml(_plain(version)), None) for version in (text, spliced(text, [splice])))
    except StructureError as error:
        raise ChangeRefusedError(f"line {error.line}: it is no YAML ({error}).") from error
    _compare(before, after, list(path), value)
    return splice


def rename_field(text: str, key: str, name: str) -> Splice:
    """What gives a field of the front matter of `text` another name.

    Raises
    ------
    ChangeRefusedError
        Where its place is not certain.

    Examples
    --------
    >>> print(spliced("---\\nold:  1 # x\\n---\\n", [rename_field("---\\nold:  1 # x\\n---\\n", "old", "new")]), end="")
    ---
    new:  1 # x
    ---
    """
    start, end = _head(text)
    node = _composed(text[start:end])
    found = [name_ for name_, _ in node.value if isinstance(name_, yaml.ScalarNode) and name_.value == key]
    if len(found) != 1:
        raise ChangeRefusedError(f"field {key!r} stands there {len(found)} times; once is expected.")
    return Splice(start + found[0].start_mark.index, start + found[0].end_mark.index, scalar(name))


def _head(text: str) -> tuple[int, int]:
    """Where the front matter begins and ends, its marks aside."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end() - 1) if opening else None
    if opening is None or closing is None:
        raise ChangeRefusedError("it has no front matter.")
    return opening.end(), max(closing.start(), opening.end())


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _set(text: str, start: int, end: int, path: list[str], value: Any, *, loose: bool) -> Splice:
    head = text[start:end]
    node = _composed(head)
    for step in path[:-1]:
        node = _value_of(node, step)
    newline = "\r\n" if "\r\n" in text else "\n"
    try:
        place = _value_of(node, path[-1])
    except KeyError:
        if len(path) > 1 or value is None:
            raise ChangeRefusedError(f"there is no field {'.'.join(path)!r}.") from None
        line = block({path[-1]: value}, loose=loose).removesuffix("\n").replace("\n", newline)
        return Splice(end, end, f"{newline}{line}" if head else line)
    return _replacement(head, place, value, newline, start, loose)


def _composed(head: str) -> Any:
    """The mapping that a text is, without anything that another place of it could depend on."""
    try:
        if any(getattr(event, "anchor", None) for event in yaml.parse(head, Loader=_Loader)):
            raise ChangeRefusedError("it has anchors or aliases, so one value may stand for several.")
        node = yaml.compose(head, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ChangeRefusedError(f"it is no YAML ({getattr(error, 'problem', None) or error}).") from error
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        raise ChangeRefusedError("it is not a mapping with a key a line.")
    return node


def _value_of(node: Any, key: str) -> Any:
    """The node of a key.

    Raises
    ------
    KeyError
        Where there is none.
    """
    if not isinstance(node, yaml.MappingNode):
        raise ChangeRefusedError(f"there is no mapping with {key!r}.")
    found = [value for name, value in node.value if isinstance(name, yaml.ScalarNode) and name.value == key]
    if len(found) > 1:
        raise ChangeRefusedError(f"field {key!r} stands there twice; which one counts is not for memkit to say.")
    if not found:
        raise KeyError(key)
    return found[0]


def _replacement(head: str, node: Any, value: Any, newline: str, shift: int, loose: bool) -> Splice:
    start, end = node.start_mark.index, node.end_mark.index
    is_list = isinstance(node, yaml.SequenceNode) and not node.flow_style
    if isinstance(node, yaml.MappingNode) or (isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")):
        raise ChangeRefusedError("the value is spread over lines in a way that is left alone.")
    if is_list:
        end = start + len(head[start:end].rstrip())
    if not (isinstance(node, yaml.ScalarNode) and node.style) and "#" in head[start:end]:
        raise ChangeRefusedError("a comment stands within the value.")
    if isinstance(value, list) and is_list and value:
        indent = " " * node.start_mark.column
        new = f"{newline}{indent}".join(f"- {scalar(item, loose=loose)}" for item in value)
    elif isinstance(value, list):
        if is_list or not isinstance(node, yaml.SequenceNode):
            raise ChangeRefusedError("a list can take the place of a list alone.")
        new = f"[{', '.join(scalar(item, loose=loose) for item in value)}]"
    elif is_list:
        raise ChangeRefusedError("only a list can take the place of a list.")
    else:
        new = _like(head[start:end], value, loose)
    return Splice(shift + start, shift + end, f" {new}" if head[:start].endswith(":") else new)


def _like(before: str, value: Any, loose: bool) -> str:
    """A scalar in the quotes that the one before had, where they can hold it."""
    if isinstance(value, str) and before[:1] == "'" and value.isprintable():
        quote = "'"
        return quote + (quote * 2).join(value.split(quote)) + quote
    if isinstance(value, str) and before[:1] == '"':
        return _quoted(value)
    return scalar(value, loose=loose)


def _compare(before: Any, after: Any, path: list[str], value: Any) -> None:
    """Raise where anything but the one value is read differently."""
    wanted, found = _set_in(before, path, None), _set_in(after, path, None)
    read: Any = after
    for step in path:
        read = read.get(step) if isinstance(read, dict) else None
    if wanted != found or read != _as_read(value):
        raise ChangeRefusedError(f"a change of {'.'.join(path)!r} would change more, or be read as something else.")


def _set_in(value: Any, path: list[str], new: Any) -> Any:
    if not path or not isinstance(value, dict):
        return new
    return {**value, path[0]: _set_in(value.get(path[0]), path[1:], new)}


def _as_read(value: Any) -> Any:
    """What the reader makes of a value that is written: text, but for null."""
    if isinstance(value, list):
        return [_as_read(item) for item in value]
    return value if value is None or isinstance(value, str) else scalar(value)
