"""Each month and day of the week is told by its own words alone; what a date field tells."""

from __future__ import annotations

import calendar
import re

import pytest

from memkit.base.dates import DATE_WORDS, MONTHS, WEEKDAYS, Named, told


def english_names(word: str, names: tuple[Named, ...]) -> list[str]:
    return [one.english for one in names if re.fullmatch(one.pattern, word, re.IGNORECASE)]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("names", "expected"), [(MONTHS, calendar.month_name[1:]), (WEEKDAYS, calendar.day_name[:])], ids=["months", "days"]
)
def test_names_stand_in_the_calendars_order(names: tuple[Named, ...], expected: list[str]) -> None:
    assert [one.english for one in names] == list(expected)


@pytest.mark.quick
@pytest.mark.parametrize("names", [MONTHS, WEEKDAYS], ids=["months", "days"])
def test_a_name_is_said_by_one_pattern(names: tuple[Named, ...]) -> None:
    for one in names:
        assert english_names(one.russian, names) == english_names(one.english, names) == [one.english]
        assert any(one.russian.startswith(beginning) for beginning in one.stems.split())


@pytest.mark.quick
@pytest.mark.parametrize("word", ["May", "may", "second", "мар", "сей"])
def test_what_is_first_of_all_another_word_is_none_of_the_date_words(word: str) -> None:
    assert word not in DATE_WORDS


def test_a_month_is_read_in_each_of_its_cases() -> None:
    for number, month in enumerate(MONTHS, 1):
        stem, is_soft = month.russian[:-1], month.russian[-1] == "я"
        nominative, ends = "й" if stem == "ма" else "ь", ("я", "е", "ю", "ем") + ("ём",) * (stem[-1] in "рбв")
        forms = {stem + end for end in ((nominative, *ends) if is_soft else ("", "а", "е", "у", "ом"))}
        read = {form: told(f"20 {form} 2026") for form in forms}
        assert {form for form, day in read.items() if day is None or day.moment.month != number} == set()


INSTANT = "2026-07-01 07:05:00"


@pytest.mark.parametrize(
    ("form", "moment"),
    [
        ("1782889500", INSTANT),
        ("1782889500000", INSTANT),
        ("1782889500000000", INSTANT),
        ("202607010705", INSTANT),
        ("20260701070500", INSTANT),
        ("20260701070500000", INSTANT),
        ("Wed, 01 Jul 2026 10:05:00 +0300", INSTANT),
        ("1 Jul 2026 07:05 GMT", INSTANT),
        ("Wed Jul 01 2026 10:05:00 GMT+0300 (Moscow Standard Time)", INSTANT),
        ("Wed Jul  1 07:05:00 2026", INSTANT),
        ("2026-07-01 10:05 MSK", INSTANT),
        ("2026-07-01T10:05:00+03:00[Europe/Moscow]", INSTANT),
        ("2026-07-01T10:05[Europe/Moscow]", INSTANT),
        ("2026-07-01 7:05 AM", INSTANT),
        ("01.07.2026 07:05", INSTANT),
        ("1 июля 2026 г., 07:05", INSTANT),
        ("Wednesday, July 1st 2026, 7:05:00 am", INSTANT),
        ("Jul 1, 2026, 7:05:00\u202fAM", INSTANT),
        ("Wed Jul 1 10:05:00 2026 +0300", INSTANT),
        ("2026-07-01 10:05:00 +0300 MSK", INSTANT),
        ("2026-07-01 10:05 (MSK)", INSTANT),
        ("Ср 01 июл 2026 10:05:00 МСК", INSTANT),
        ("2026-07-01 7:05 Wed", INSTANT),
        ("2026-07-01 Wed 07:05", INSTANT),
        ("2026-07-01 10:05 (CST)", None),
        ("2026-07-01 10.00-12.00", None),
        ("2026-07-01 7.05", INSTANT),
        ("01.07.2026 07.05.00", INSTANT),
        ("2026-07-01 10h05 MSK", INSTANT),
        ("2026-07-01 - 10:05 (UTC+3)", INSTANT),
        ("2026-07-01t07:05:00z", INSTANT),
        ("2026-07-01 14.4", None),
        ("1 июля 2026, 7:05 утра", INSTANT),
        ("2026-07-01 в 9:30 вечера", "2026-07-01 21:30:00"),
        ("2026-07-01 12 ночи", "2026-07-01 00:00:00"),
        ("2026-07-01, half past nine in the evening", "2026-07-01 21:30:00"),
        ("2026-07-01 at 9 o'clock", "2026-07-01 09:00:00"),
        ("1 июля 2026 г. в 9", "2026-07-01 09:00:00"),
        ("1 июля 2026, полдень", "2026-07-01 12:00:00"),
        *((f"2026-07-01 {what}", None) for what in ("2 дня", "22 дня", "13 утра", "8 часов", "5.50 евро")),
        ("2026-07-01 12:05 AM", "2026-07-01 00:05:00"),
        ("2026-07-01 12:05 PM", "2026-07-01 12:05:00"),
        ("2026-W27", "2026-06-29 00:00:00"),
        ("2026W273", "2026-07-01 00:00:00"),
        *dict.fromkeys(("2026-07-01 10:05 CST", "2026-07-01 10:05 IST", "2026-07-01 10:05 BST")).items(),
        *dict.fromkeys(
            ("2026-07-01 25:00", "2026-02-30 10:00", "2026-07-01 13:05 PM", "202613010705", "196907010705")
        ).items(),
        *dict.fromkeys(
            ("2026-07-01 10:05 [No/Where]", "7/1/2026, 7:05 AM", "2026-07-01+03:00", "17828895", "2026-W54")
        ).items(),
        *dict.fromkeys(("10:05", "2026", "²", "9" * 5_000, "2026-07-01 \0 10:05", "July " * 1_000)).items(),
    ],
)
def test_a_field_tells_its_instant_or_nothing(form: str, moment: str | None) -> None:
    found = told(form)
    assert (found and str(found.moment)) == moment


def test_the_end_of_what_a_field_tells_is_within_the_calendar() -> None:
    ends = {
        text: found.end.isoformat() for text in ("9999-12-31", "9999-W52", "0001-01-01T00:00") if (found := told(text))
    }
    assert ends == {
        "9999-12-31": "9999-12-31T23:59:59.999999",
        "9999-W52": "9999-12-31T23:59:59.999999",
        "0001-01-01T00:00": "0001-01-01T00:00:00",
    }
