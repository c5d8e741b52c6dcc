"""Each month and day of the week is told by its own words alone."""

from __future__ import annotations

import calendar
import re

import pytest

from memkit.dates import DATE_WORDS, MONTHS, WEEKDAYS, Named


def english_names(word: str, names: tuple[Named, ...]) -> list[str]:
    return [one.english for one in names if re.fullmatch(one.pattern, word, re.IGNORECASE)]


@pytest.mark.parametrize(
    ("names", "expected"), [(MONTHS, calendar.month_name[1:]), (WEEKDAYS, calendar.day_name[:])], ids=["months", "days"]
)
def test_names_stand_in_the_calendars_order(names: tuple[Named, ...], expected: list[str]) -> None:
    assert [one.english for one in names] == list(expected)


@pytest.mark.parametrize("names", [MONTHS, WEEKDAYS], ids=["months", "days"])
def test_a_name_is_said_by_one_pattern(names: tuple[Named, ...]) -> None:
    for one in names:
        assert english_names(one.russian, names) == english_names(one.english, names) == [one.english]
        assert any(one.russian.startswith(beginning) for beginning in one.stems.split())


@pytest.mark.parametrize("word", ["May", "may", "second", "мар", "сей"])
def test_what_is_first_of_all_another_word_is_none_of_the_date_words(word: str) -> None:
    assert word not in DATE_WORDS
