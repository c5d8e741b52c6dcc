"""What anybody may have written is taken where it is as expected, and else refused with one kind of error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memkit.base.checked import Kinds, json_object, with_fields

KINDS: Kinds = {"number": int, "name": str | None, "is_done": bool, "parts": list}
GOOD = {"number": 5, "name": None, "is_done": False, "parts": []}


@pytest.mark.quick
def test_an_object_is_what_it_says() -> None:
    assert json_object(json.dumps(GOOD)) == json_object(json.dumps(GOOD).encode()) == GOOD


@pytest.mark.quick
@pytest.mark.parametrize("text", ["[]", "5", "null", "", "{", '{"a": }', b'{"\xff": 1}', "[" * 100_000], ids=range(8))
def test_what_is_no_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|nested|codec|delimiter|Expecting"):
        json_object(text)


@pytest.mark.quick
def test_fields_of_their_types_are_taken() -> None:
    assert with_fields(GOOD, KINDS) is GOOD
    assert with_fields({**GOOD, "name": "чай"}, KINDS)["name"] == "чай"


@pytest.mark.parametrize(
    "odd",
    [
        *({**GOOD, name: value} for name, value in (("number", True), ("number", 5.0), ("is_done", 0), ("name", 5))),
        *({**GOOD, name: value} for name, value in (("parts", None), ("parts", {}), ("more", 1), ("number", None))),
        *({key: value for key, value in GOOD.items() if key != name} for name in GOOD),
        *([GOOD], None, "number"),
    ],
    ids=str,
)
def test_fields_of_other_types_or_names_are_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"expected, and these are|is of another type"):
        with_fields(odd, KINDS)
