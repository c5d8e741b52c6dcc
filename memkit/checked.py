"""JSON that anybody may have written: an object, and of it the fields that are expected, each of its type.

Apart from this stand documents of users, whose faults are told by line (`memkit.formats.syntax`), and labels, which
come in many shapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any

Kinds = Mapping[str, type | UnionType]
"""The type of each field, as JSON has it."""


def json_object(text: str | bytes) -> dict[str, Any]:
    """The object that `text` is.

    Raises
    ------
    ValueError
        Where it is something else, no JSON, not in UTF-8 or nested too deep.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deep: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, and this is one of type {type(value).__name__}")
    return value


def with_fields(value: object, kinds: Kinds) -> dict[str, Any]:
    """`value`, which is an object of exactly the fields `kinds`, each of its type; true and false are no numbers.

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
