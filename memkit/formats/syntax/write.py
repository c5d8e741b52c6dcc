"""Writes JSON in the documents' layout, and YAML that every reader reads back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""A UUID as it is written, of any version."""
_SPOKEN = frozenset(("yes", "no", "on", "off", "y", "n", "null", "true", "false"))
_PROSE = re.compile(r"[^\W\d_](?:[^\s\x00-\x1f:#]|:(?=\S)|(?<=\S)#| (?=[^\s#]))*")
"""Text that YAML reads as it stands: its first sign is a letter, no word ends in a colon or begins with #."""
_ODD = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_LOOSE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)?|(?:file|area):[A-Za-z0-9_./-]+")
"""Dates and the places that a note applies to: notes do not quote them, although YAML reads them in its own way."""
WORDED = frozenset(("subject", "keywords"))
"""Fields that hold text, so that a text that looks like a date is quoted."""


def pretty(value: Any, indent: str = "", *, step: str = "  ", is_ascii: bool = False) -> str:
    """JSON in the documents' layout: two blanks a level, a list of plain values on one line.

    Examples
    --------
    >>> print(pretty({"tags": ["чай", 1], "files": [{"a": {}}]}))
    {
      "tags": ["чай", 1],
      "files": [
        {
          "a": {}
        }
      ]
    }
    """
    inner = f"{indent}{step}"

    def nested(item: Any) -> str:
        return pretty(item, inner, step=step, is_ascii=is_ascii)

    if isinstance(value, Mapping) and value:
        members = (f"{inner}{json.dumps(key, ensure_ascii=is_ascii)}: {nested(item)}" for key, item in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (list, Mapping)) for item in value):
        return "[\n" + ",\n".join(f"{inner}{nested(item)}" for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=is_ascii, allow_nan=False)


def scalar(value: object, *, loose: bool = False, prose: bool = False) -> str:
    """`value` as YAML; a string is quoted unless every reader takes it for the same string.

    Parameters
    ----------
    loose : bool
        Dates and ``file:path`` bare too, as notes have them.
    prose : bool
        Text of any script bare too, such as a title, unless YAML would read something else.

    Examples
    --------
    >>> [scalar(value) for value in ("user_42", "1.10", "yes", "чай: да", None, 0.5, True)]
    ['user_42', '"1.10"', '"yes"', '"чай: да"', 'null', '0.5', 'true']
    >>> [scalar(value, prose=True) for value in ("Чай, вечером", "true", "чай: да")]
    ['Чай, вечером', '"true"', '"чай: да"']
    """
    if not isinstance(value, str):
        text = json.dumps(value, allow_nan=False)
        is_short = isinstance(value, float) and "e" in text and "." not in text
        return text.replace("e", ".0e") if is_short else text  # YAML 1.1 takes 1e-3 for a word
    words = _PROSE if prose and not _ODD.search(value) else _WORDS
    if (words.fullmatch(value) and value.lower() not in _SPOKEN) or UUID.fullmatch(value):
        return value
    if loose and _LOOSE.fullmatch(value):
        return value
    return quoted(value)


def quoted(text: str) -> str:
    """A text in quotes, as YAML and JSON read it.

    >>> print(quoted('чай: "зелёный"'))
    "чай: \\"зелёный\\""
    """
    return flow(text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


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
            items = (_item(item, f"{indent}  ", loose and key not in WORDED) for item in value)
            lines.append(f"{indent}{name}:\n" + "".join(items))
        else:
            empty = {dict: "{}", list: "[]"}.get(list if isinstance(value, list) else dict if value == {} else str)
            lines.append(f"{indent}{name}: {empty or scalar(value, loose=loose and key not in WORDED)}\n")
    return "".join(lines)


def items(values: Iterable[Any], indent: str = "") -> str:
    """A list as lines of YAML, each item behind a dash.

    Examples
    --------
    >>> print(items([{"id": "a", "tags": []}, "чай"]), end="")
    - id: a
      tags: []
    - "чай"
    """
    return "".join(_item(value, indent, False) for value in values)


def flow(value: Any) -> str:
    """A value on one line, as JSON and YAML both read it."""
    return _ODD.sub(_escaped, json.dumps(value, ensure_ascii=False, allow_nan=False))


def _item(value: Any, indent: str, loose: bool) -> str:
    if isinstance(value, Mapping) and value:
        return f"{indent}- {block(value, f'{indent}  ', loose=loose).removeprefix(f'{indent}  ')}"
    if isinstance(value, (list, Mapping)):
        return f"{indent}- {flow(value)}\n"
    return f"{indent}- {scalar(value, loose=loose)}\n"
