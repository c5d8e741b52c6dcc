"""Untrusted JSON: parsing of an object, and checks of its fields and their types.

Users' own documents are parsed elsewhere, with the line of each fault (`memkit.formats.syntax`), and so are labels,
which come in many shapes. Lone surrogates, halves of characters that an escape of JSON or a file's name may spell, are
found here too, as UTF-8 cannot hold them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any

Kinds = Mapping[str, type | UnionType]
"""The type of each field, as JSON has it."""


def json_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text`.

    Raises
    ------
    ValueError
        Where it is not an object, not JSON, not UTF-8 or nested too deep.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deep: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, and this is one of type {type(value).__name__}")
    return value


def with_fields(value: object, kinds: Kinds) -> dict[str, Any]:
    """`value`, checked to be an object with exactly the fields `kinds`, each of its type; a bool is no number.

    Raises
    ------
    ValueError
        Where it is not.

    Examples
    --------
    >>> with_fields({"number": 5, "at": None}, {"number": int, "at": str | None})
    {'number': 5, 'at': None}
    """
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise ValueError(f"the fields {', '.join(kinds)} were expected, and these are {value!r:.200}")
    for name, kind in kinds.items():
        if not isinstance(value[name], kind) or (isinstance(value[name], bool) and kind is not bool):
            raise ValueError(f"'{name}' is of another type: {value[name]!r:.80}")
    return value


RANGE = r"\ud800-\udfff"
"""All of them, for the brackets of a regular expression."""
LONE_SURROGATE = re.compile(f"[{RANGE}]")


def without_surrogates(text: str) -> str:
    r"""`text` with U+FFFD, the replacement character, in place of each lone surrogate.

    >>> without_surrogates("чай\udcff🍯")
    'чай�🍯'
    """
    return LONE_SURROGATE.sub("\ufffd", text)
