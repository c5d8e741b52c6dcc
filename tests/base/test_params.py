"""One declaration of a parameter gives check, message, table and parsing."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from memkit.base.params import (
    AsOf,
    Estimator,
    Param,
    as_of_time,
    check_choice,
    describe,
    estimator,
    param,
)
from memkit.errors import MemkitError, ParameterError
from memkit.search.retriever import Retriever


@estimator
class Knobs(Estimator):
    share: float = param(0.5, low=0, high=1, doc="A share.")
    days: float = param(60.0, low=0, low_open=True, unit="days", doc="Days.", source="a document")
    count: int = param(3, low=1, doc="A count.", refit=True)
    word: str = param("max", choices=("max", "min"), doc="A word.")
    words: tuple[str, ...] = param(("a",), doc="Words.")
    flag: bool = param(False, doc="A flag.")
    maybe: float | None = param(None, kind="float", nullable=True, doc="A number or none.")
    thing: object = param(None, kind="object", doc="Anything.")


ACCEPTED: list[tuple[str, Any]] = [
    *[("share", value) for value in (0, 1, 0.5, np.float64(0.25), np.float32(1))],
    *[("days", value) for value in (1e-9, 10**6, 5)],
    *[("count", value) for value in (1, 10**9, np.int64(4))],
    ("word", "min"),
    *[("words", value) for value in ((), ["a", "б"], ("a",))],
    *[("flag", value) for value in (True, False, np.bool_(True))],
    *[("maybe", value) for value in (None, -1.5)],
    *[("thing", value) for value in (None, object(), 5)],
]
REFUSED: list[tuple[str, Any]] = [
    *[("share", value) for value in (-0.01, 1.01, float("nan"), float("inf"), "0.5", None, True, [0.5])],
    *[("days", value) for value in (0, -1, float("-inf"))],
    *[("count", value) for value in (0, 1.5, "3", True, None)],
    *[("word", value) for value in ("mean", "", None, 5)],
    *[("words", value) for value in ("a", [1], None, {"a"})],
    *[("flag", value) for value in (0, 1, "true", None)],
    *[("maybe", value) for value in ("1", float("nan"), False)],
]


@pytest.mark.quick
@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_a_value_within_its_declaration_passes(name: str, value: object) -> None:
    assert Knobs(**{name: value}).check_params()[name] is value


@pytest.mark.quick
@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_value_outside_of_its_declaration_is_refused_with_both(name: str, value: object) -> None:
    with pytest.raises(ParameterError) as caught:
        Knobs(**{name: value}).check_params()
    assert str(caught.value) == f"Knobs: '{name}' must be {Knobs.params()[name].expected}. Got {value!r}."
    assert isinstance(caught.value, MemkitError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.quick
def test_a_constraint_is_told_in_words() -> None:
    assert {name: declared.expected for name, declared in Knobs.params().items()} == {
        "share": "a float in [0, 1]",
        "days": "a float in (0, inf), days",
        "count": "an int in [1, inf)",
        "word": "one of 'max', 'min'",
        "words": "a sequence of strings",
        "flag": "a bool",
        "maybe": "a float or None",
        "thing": "an object",
    }


def test_an_estimator_keeps_scikit_learns_contract() -> None:
    knobs = Knobs(share=5)  # nothing is checked before it is used
    assert knobs.get_params()["share"] == 5
    assert knobs.set_params(share=0.25, word="min") is knobs
    copy = clone(knobs)
    assert copy is not knobs
    assert copy.get_params() == knobs.get_params()
    with pytest.raises(TypeError, match=r"expected its parameters by name \(share=…\)\. Got float without a name"):
        Knobs(0.5)  # type: ignore[misc]  # by name alone
    with pytest.raises(ParameterError, match=r"no parameter 'colour'\. Expected one of share, days"):
        knobs.set_params(colour="red")
    assert repr(knobs) == "Knobs(share=0.25, word='min')"
    assert repr(Knobs()) == "Knobs()"


def test_an_override_is_checked_and_not_kept() -> None:
    knobs = Knobs()
    assert knobs.check_params(share=0.9)["share"] == 0.9
    assert knobs.share == 0.5
    with pytest.raises(ParameterError):
        knobs.check_params(share=9)


def test_the_declarations_are_a_table() -> None:
    rows = {row["name"]: row for row in Knobs.describe_params().to_pylist()}
    assert list(rows) == list(Knobs.params())
    assert rows["days"] == {
        "name": "days",
        "group": None,
        "default": "60.0",
        "expected": "a float in (0, inf), days",
        "refit": False,
        "doc": "Days.",
        "source": "a document",
    }
    assert rows["count"]["refit"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("share", "0.25", 0.25),
        ("count", "7", 7),
        ("count", "7.5", "7.5"),
        ("share", "много", "много"),
        ("words", "a, б,,c ", ("a", "б", "c")),
        ("words", "", ()),
        ("flag", "True", True),
        ("flag", "maybe", "maybe"),
        ("maybe", "none", None),
        ("word", "none", "none"),
    ],
)
def test_a_text_is_parsed_by_the_declaration(name: str, text: str, value: object) -> None:
    assert Knobs.params()[name].parse(text) == value


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("as_of", "moment"),
    [
        ("2026-03-01", NOON.replace(hour=0)),
        (date(2026, 3, 1), NOON.replace(hour=0)),
        ("2026-03-01T12:00:00", NOON),
        ("2026-03-01 15:00+03:00", NOON),
        (datetime(2026, 3, 1, 12), NOON),
        (NOON.astimezone(timezone(timedelta(hours=-7))), NOON),
    ],
)
def test_a_day_is_a_moment_in_utc(as_of: AsOf, moment: datetime) -> None:
    assert as_of_time(as_of) == moment
    assert as_of_time(as_of).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "as_of", ["", "вчера", "2026-02-30", 5, 1.5, "0001-01-01T00:00:00+14:00", b"2026-03-01", "2026-03-01T12:00Z\0"]
)
def test_what_is_no_day_is_refused(as_of: Any) -> None:
    with pytest.raises(ParameterError, match="'as_of' must be a date"):
        as_of_time(as_of)


def test_none_is_now() -> None:
    before = datetime.now(UTC)
    assert before <= as_of_time(None) <= datetime.now(UTC)


def test_the_moment_is_kept_with_the_table() -> None:
    table = describe(pa.table({"a": [1]}).replace_schema_metadata({"k": "v"}), as_of=NOON)
    assert table.schema.metadata == {b"k": b"v", b"as_of": b"2026-03-01T12:00:00+00:00"}


def test_a_choice_is_refused_in_the_same_shape() -> None:
    check_choice("errors", "raise", ("report", "raise"), "read")
    with pytest.raises(ParameterError) as caught:
        check_choice("errors", ["x"], ("report", "raise"), "read")
    assert str(caught.value) == "read: 'errors' must be one of 'report', 'raise'. Got ['x']."


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.binary()))
def test_no_value_makes_a_check_fail_in_another_way(value: object) -> None:
    for declared in Knobs.params().values():
        assert declared.accepts(value) in (True, False)
    assert Param(default=1, kind="int", doc="").accepts(value) == (
        isinstance(value, int) and not isinstance(value, bool)
    )


@estimator
class Listing(Estimator):
    """A list.

    Examples
    --------
    >>> 1 + 1
    2
    """

    words: tuple[str, ...] = param(None, stands_for=("a", "b"), doc="Words; None: two letters.", source="a document")
    inner: Any = param(None, kind="object", refit=True, doc="Another estimator.")
    bad: Any = param(None, kind="callable", nullable=True, unit="str -> int", doc="Counts.")


def test_none_may_stand_for_a_list_that_is_long_to_read() -> None:
    listing = Listing()
    assert listing.words == ("a", "b")
    assert listing.get_params()["words"] is None
    assert listing.check_params()["words"] == ("a", "b")
    assert Listing(words=()).words == Listing(words=()).check_params()["words"] == ()
    assert repr(listing) == "Listing()"
    assert repr(listing.set_params(words=("c",))) == "Listing(words=('c',))"
    with pytest.raises(ParameterError, match="'words' must be a sequence of strings or None"):
        Listing(words=5).check_params()


def test_the_docstring_gains_the_parameters_before_its_other_sections() -> None:
    assert Listing.__doc__ == (
        "A list.\n\nParameters\n----------\n"
        "words : sequence of strings, default None\n    Words; None: two letters. Source: a document.\n"
        "inner : object, default None\n    Another estimator. Acts at fit.\n"
        "bad : callable, str -> int, default None\n    Counts.\n\n"
        "Examples\n--------\n>>> 1 + 1\n2"
    )


def test_a_wrong_name_says_which_one_was_meant() -> None:
    with pytest.raises(ParameterError, match=r"Knobs: no parameter 'shard'\..*Did you mean 'share'\?"):
        Knobs(shard=0.1)  # type: ignore[call-arg]  # what is refused
    with pytest.raises(ParameterError, match="Did you mean 'share'"):
        Knobs().set_params(shard=0.1)
    with pytest.raises(ParameterError, match="Did you mean 'share'"):
        Listing(inner=Knobs()).set_params(inner__shard=0.1)
    with pytest.raises(ParameterError, match="Did you mean 'inner__share'"):
        Listing(inner=Knobs()).set_params(iner__share=0.1)
    with pytest.raises(ParameterError, match=r"Got 'maxx'\. Did you mean 'max'\?"):
        Knobs(word="maxx").check_params()


def test_the_parameters_of_an_estimator_within_are_reached_and_cloned() -> None:
    outer = Listing(inner=Knobs(share=0.1))
    assert outer.get_params()["inner__share"] == 0.1
    assert outer.set_params(inner__share=0.2).inner.share == 0.2
    assert clone(outer).inner is not outer.inner


def test_every_default_follows_its_own_declaration() -> None:
    for cls in (Knobs, Listing):
        for declared in cls.params().values():
            declared.check(declared.default, cls.__name__)


def test_an_array_is_no_number() -> None:
    with pytest.raises(ParameterError, match="'share' must be a float"):
        Knobs(share=np.array([0.1, 0.2])).check_params()  # type: ignore[arg-type]  # what is refused


def test_several_words_are_asked_for_as_such() -> None:
    several = Param(default=("a",), kind="words", doc="", name="kinds", choices=("apples", "pears"))
    assert several.expected == "words among 'apples', 'pears'"
    with pytest.raises(ParameterError, match=r"Got \('apples', 'pear'\)\. Did you mean 'pears'\?"):
        several.check(("apples", "pear"), "here")
    some = replace(several, low=1)
    with pytest.raises(ParameterError, match=r"one or more words among 'apples', 'pears'\. Got \(\)"):
        some.check((), "here")
    some.check(("pears",), "here")


def test_a_retrievers_help_has_five_parameters_first_and_every_other_one_under_what_it_acts_on() -> None:
    doc = str(Retriever.__doc__)
    groups = dict(
        re.findall(r"^- (\w+): ((?:.|\n  )+)$", doc.partition("act on:")[2].partition("Parameters\n")[0], re.M)
    )
    listed = {group: re.findall(r"`(\w+)`", names) for group, names in groups.items()}
    assert list(listed) == ["first", "scope", "arms", "time", "output", "fit"]
    assert len(listed["first"]) == 5
    in_order = [name for names in listed.values() for name in names]
    assert in_order == re.findall(r"^(\w+) : ", doc.partition("-------\n")[2].partition("\n\n")[0], re.M)
    assert sorted(in_order) == sorted(Retriever.params())


def test_a_fact_of_a_table_replaces_an_earlier_one() -> None:
    table = describe(describe(pa.table({"a": [1]}), memkit="sweep", note="first"), memkit="tune")
    assert table.schema.metadata == {b"memkit": b"tune", b"note": b"first"}
