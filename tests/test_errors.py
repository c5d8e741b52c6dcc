"""The hint after a wrong name: what it names, and that a long list of names costs no long comparison."""

from __future__ import annotations

import difflib
import inspect
import random
import re
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.change.draft import missing
from memkit.errors import MemkitError, did_you_mean, near

_CHANCE = random.Random(1)
IDS = [f"facts:users/user{number % 400:03d}/working.md#wk_{number:05d}" for number in range(20_000)]
PATHS = [f"memory/{name}/{_CHANCE.getrandbits(48):012x}.md" for name in ("чай", "пул") for _ in range(10_000)]
SHORT = ["k", "ok", "top", "чай", "Ёж", "id"]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The known words that are compared letter by letter, as they come."""
    words: list[str] = []

    class Counting(difflib.SequenceMatcher[str]):
        def set_seq1(self, a: Any) -> None:
            words.append(a)
            super().set_seq1(a)

    monkeypatch.setattr(difflib, "SequenceMatcher", Counting)
    return words


@pytest.mark.quick
@pytest.mark.parametrize("known", [IDS, PATHS], ids=["ids", "paths"])
def test_of_twenty_thousand_names_few_are_compared_letter_by_letter(known: list[str], compared: list[str]) -> None:
    wrong = known[777].replace("s/", "z/").replace("m/", "w/")[:-1] + "x"
    assert did_you_mean(wrong, known)
    assert missing("id", wrong, known).args
    assert 0 < len(compared) <= 2 * 100


def test_a_name_with_one_slip_is_the_first_among_twenty_thousand() -> None:
    for name in _CHANCE.sample(PATHS, 8):
        position = _CHANCE.randrange(len(name) - 1)
        for wrong in (
            name[:position] + name[position + 1 :],
            f"{name[:position]}ы{name[position:]}",
            f"{name[:position]}ы{name[position + 1 :]}",
            name[:position] + name[position + 1] + name[position] + name[position + 2 :],
            name.upper(),
        ):
            assert near(wrong, PATHS)[0] == name, wrong


@pytest.mark.quick
def test_names_that_are_all_too_long_to_be_meant_are_not_compared(compared: list[str]) -> None:
    assert did_you_mean("notes", ["y" * 1_000 + str(number) for number in range(100)]) == ""
    assert set(compared) <= {""}


def test_a_short_list_is_compared_whole_as_difflib_has_it() -> None:
    for wrong in ("ko", "ка", "чаи", "ёж", "idd", "zzz"):
        expected = difflib.get_close_matches(wrong, {word.casefold(): word for word in SHORT})
        assert [word.casefold() for word in near(wrong, SHORT)] == expected


def test_the_order_in_which_names_are_known_is_no_matter() -> None:
    shuffled = random.Random(5).sample(IDS, len(IDS))
    for wrong in ("facts:users/user377/working.md#wk_0O777", "wk_123", "nothing like it"):
        assert near(wrong, shuffled) == near(wrong, IDS)


@pytest.mark.parametrize("wrong", ["", "\udcff", "x" * 5_000_000, "a\nb", "🍯" * 20])
def test_odd_and_long_names_are_no_matter_either(wrong: str, compared: list[str]) -> None:
    known = [*IDS, "", "\udcfe.md", "a\nc", "y" * 100_000]
    assert did_you_mean(wrong, known) == did_you_mean(wrong, known)
    assert len(compared) <= 2 * 100


def test_an_error_hides_the_secrets_that_it_quotes(tmp_path: Path) -> None:
    """Whichever operation says it: an id, a path, a title or a query may be a token."""
    token, store, said = "ghp_16C7e42F292c6912E7710c838347Ae178B4a", mk.store(tmp_path), list[str]()
    for name in ("facts", "notes", "records", "index", "workspace"):
        for operation in (method for _, method in inspect.getmembers(getattr(store, name), inspect.ismethod)):
            if operation.__name__.startswith("_"):
                continue
            given = inspect.signature(operation).parameters.values()
            values = {
                value.name: token
                for value in given
                if value.kind is not value.VAR_KEYWORD
                and (value.default is value.empty or value.name in ("id", "query", "day"))
            }
            alone = [values.pop(value.name) for value in given if value.kind is value.POSITIONAL_ONLY]
            try:
                operation(*alone, **values)
            except MemkitError as error:
                said.append(str(error))
    assert len(said) > 10
    assert not [message for message in said if token in message]


_COUNTED = re.compile(r"\{(?!count_of)[^{}]*(?::,|num_rows|len\([^{}]*\))[^{}]*\} [a-z]+s\b")
_NEVER_ONE = ("{row['count']:,} times", "{len(kept):,} users")
"""Counts that are more than one where they are said."""


def test_what_is_counted_on_a_screen_is_one_thing_or_several() -> None:
    package = Path(mk.__file__).parent
    sources = [path for room in ("panels", "display", "cli", "plot") for path in sorted((package / room).glob("*.py"))]
    said = [(path.name, one[0]) for path in sources for one in _COUNTED.finditer(path.read_text(encoding="utf-8"))]
    assert [one for one in said if one[1] not in _NEVER_ONE] == []
    one = mk.from_table({"text": ["чай"], "kind": ["archive"], "created_at": ["2026-01-01"]})
    search = mk.Retriever(encoder=None).fit(one)
    panels = [
        mk.panels.table(one),
        mk.panels.policy(one, "decay"),
        mk.panels.policy(one, "admission"),
        mk.panels.search(search, "чай"),
        mk.panels.decay(search),
    ]
    for panel in panels:
        assert not re.search(r"\b1 (rows|memories|hits|candidates|chunks|values)\b", panel.html + panel.words)
    assert "1 memory" in repr(one)
    assert str(mk.Decay(decay_days=9, decay_kinds=("entry",)).reach("decay_days", one.memories)).startswith(
        "decay acts on 0 of 1 memory;"
    )
