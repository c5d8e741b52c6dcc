"""The times that a question names: read as days, whatever the spelling, and nothing else is taken for one."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.text.when import in_days, times

TODAY = date(2026, 3, 14)  # a Saturday
DAY = timedelta(1)


@pytest.mark.parametrize(
    "text",
    [
        *("13 января 2026", "13-го января 2026 года", "13 янв. 2026", "13 ЯНВАРЯ 2026", "13.01.2026", "13.1.26"),
        *("January 13, 2026", "Jan 13th 2026", "13th of January 2026", "the 13 january 2026", "2026-01-13"),
        *("2026/01/13", "что было 2026-01-13?", "(13.01.2026)"),
    ],
)
def test_a_day_is_read_in_any_spelling(text: str) -> None:
    assert times(text, TODAY) == [(date(2026, 1, 13),) * 2]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        *(("вчера", -1), ("Позавчера", -2), ("сегодня", 0), ("завтра", 1), ("the day before yesterday", -2)),
        *(("yesterday", -1), ("3 дня назад", -3), ("two days ago", -2), ("10 days ago", -10)),
        *(("last Friday", -1), ("в прошлую субботу", -7), ("last Sunday", -6)),
    ],
)
def test_a_day_is_counted_from_the_day_of_asking(text: str, days: int) -> None:
    assert times(f"что было {text}", TODAY) == [(TODAY + days * DAY,) * 2]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("last week", "2026-03-02", "2026-03-08"),
        ("на прошлой неделе", "2026-03-02", "2026-03-08"),
        ("неделю назад", "2026-03-02", "2026-03-08"),
        ("на этой неделе", "2026-03-09", "2026-03-15"),
        ("в прошлом месяце", "2026-02-01", "2026-02-28"),
        ("two months ago", "2026-01-01", "2026-01-31"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("в 2025 году", "2025-01-01", "2025-12-31"),
        ("за последние 7 дней", "2026-03-07", "2026-03-14"),
        ("over the past week", "2026-03-07", "2026-03-14"),
        ("февраль 2024", "2024-02-01", "2024-02-29"),
        ("в середине декабря 2025", "2025-12-01", "2025-12-31"),
        ("3-5 марта 2026", "2026-03-03", "2026-03-05"),
    ],
)
def test_longer_times_have_a_first_and_a_last_day(text: str, first: str, last: str) -> None:
    assert times(text, TODAY) == [(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    "text",
    [
        *("питон 3.12", "версия 0.13.0", "10.0.0.1", "may I march in?", "в субботу", "март", "31 февраля 2026"),
        *("99999 days ago", "2026-13-45", "несколько дней назад", "порт 5432", "days ago", "1234567.01.2026"),
    ],
)
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    assert times(text, TODAY) == []
    assert in_days(text, TODAY) == text


def test_without_a_year_it_is_the_last_one_or_the_next() -> None:
    assert times("13 марта", TODAY) == [(date(2026, 3, 13),) * 2, (date(2027, 3, 13),) * 2]
    assert times("14 March", TODAY)[0] == (TODAY, TODAY)
    assert times("15 марта", TODAY) == [(date(2025, 3, 15),) * 2, (date(2026, 3, 15),) * 2]
    assert times("29 февраля", TODAY) == [(date(2024, 2, 29),) * 2, (date(2028, 2, 29),) * 2]


def test_a_question_about_what_is_to_come_stays_as_it_is() -> None:
    assert in_days("что будет завтра?", TODAY) == "что будет завтра?"


@given(st.text(alphabet="0123456789./- \nвзаnthсеянвмартmayagoназад дней", max_size=60), st.dates())
def test_no_text_and_no_day_breaks_it(text: str, today: date) -> None:
    for first, last in times(text, today):
        assert isinstance(first, date)
        assert isinstance(last, date)
    in_days(text, today)


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.integers(0, 400))
def test_so_many_days_ago_is_that_day(today: date, count: int) -> None:
    assert times(f"{count} days ago", today) == [(today - count * DAY,) * 2]


def test_a_long_text_costs_no_more_than_its_beginning() -> None:
    text = "за " * 200_000
    assert in_days(text, TODAY) == text
