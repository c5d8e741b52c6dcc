"""The times that a question names: read as days, whatever the spelling, and nothing else is taken for one."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.text.when import in_days, times

TODAY = date(2026, 3, 14)  # a Saturday
DAY = timedelta(1)


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        *("13 января 2026", "13-го января 2026 года", "13 янв. 2026", "13 ЯНВАРЯ 2026", "13.01.2026", "13.1.26 г."),
        *("January 13, 2026", "Jan 13th 2026", "13th of January 2026", "the 13 january 2026", "2026-01-13"),
        *("2026/01/13", "что было 2026-01-13?", "(13.01.2026)", "за 13.01.26", "договор от 13.01.26", "13.1.2026"),
        *("2026.01.13", "dated 13.01.26"),
    ],
)
def test_a_day_is_read_in_any_spelling(text: str) -> None:
    assert times(text, TODAY) == [(date(2026, 1, 13),) * 2]


@pytest.mark.quick
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


@pytest.mark.quick
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


NO_TIMES = {
    "versions": [
        *("python 3.11.12", "какой питон: 3.11.12?", "1.12.23", "18.12.20", "обновили с 3.11.12 на 3.11.13"),
        *(
            "ruff before 0.12.11",
            "since 1.12.23 of ruff",
            "from node 18.12.20",
            "версия от 3.11.12",
            "до 3.12",
            "с 3.11",
        ),
        *("питон 3.12", "версия 0.13.0", "v2.10.21", "PyCharm 2023.1.2", "Ubuntu 22.04", "обновить ubuntu до 22.04"),
        *("с 20.04 на 22.04", "numpy>=1.10.12", "на 1.12.23", "duckdb 1.5.5", "on 18.12.20"),
    ],
    "addresses": [
        *("10.0.0.1", "10.12.20.5", "192.168.1.12", "10.12.2021.5", "порт 5432", "CVE-2024-1234", "31.12.20.21:80"),
        *("8 912 345-67-89", "+7-2012-11-12-34", "позвонить 8.12.20.21", "1234567.01.2026", "1-2026-01-13"),
    ],
    "money and amounts": [
        *(
            "за 2000 рублей",
            "in 2000 ms",
            "до 2000 строк",
            "of 2048 tokens",
            "в 2000 раз",
            "за 10.12 рублей",
            "за 1999 $",
        ),
        *("купили за 10.5", "$3.11.12", "for 2000 users"),
    ],
    "clock and sections": [
        *(
            *("в 10.12", "к 10.00", "с 9.30 до 18.12", "10:12:20", "раздел 3.2.1", "section 3.2.1", "п. 10.12.13"),
            *("§ 1.2.20",),
        ),
        *("2026-13-45", "31 февраля 2026", "99999 days ago", "несколько дней назад", "days ago"),
    ],
    "verbs": [
        *(
            "this may break",
            "may I march in?",
            "march on",
            "it may be slow",
            "step 3 may fail",
            "how may I log in",
            "may",
        ),
        *("you may 3 times retry", "by may be", "for march", "what may this mean", "python 3 may break", "this march"),
    ],
    "names": [
        *(
            *("марта не было", "что сказала Марта", "о Марте", "к Марте", "спросить у Мая", "май", "март", "мая"),
            *("для Мая",),
        ),
        *("что любит Мар", "сказать Марту", "sun", "sat", "мон", "sun 3", "в субботу", "на среду", "mar", "sat down"),
    ],
}
TIMES = {
    "в мае": ("2025-05-01", "2025-05-31"),
    "in may": ("2025-05-01", "2025-05-31"),
    "since May": ("2025-05-01", "2025-05-31"),
    "until march": ("2026-03-01", "2026-03-31"),
    "до мая": ("2025-05-01", "2025-05-31"),
    "с марта": ("2026-03-01", "2026-03-31"),
    "в марте": ("2026-03-01", "2026-03-31"),
    "in Mar": ("2026-03-01", "2026-03-31"),
    "в этом мае": ("2025-05-01", "2025-05-31"),
    "в конце мая": ("2025-05-01", "2025-05-31"),
    "at the end of May": ("2025-05-01", "2025-05-31"),
    "о январе": ("2026-01-01", "2026-01-31"),
    "3 мая": ("2025-05-03", "2025-05-03"),
    "3 марта": ("2026-03-03", "2026-03-03"),
    "May 3rd": ("2025-05-03", "2025-05-03"),
    "what broke on May 3 in the pool": ("2025-05-03", "2025-05-03"),
    "what broke on 3 May": ("2025-05-03", "2025-05-03"),
    "the 3rd of May meeting": ("2025-05-03", "2025-05-03"),
    "may 2024": ("2024-05-01", "2024-05-31"),
    "мая 2024": ("2024-05-01", "2024-05-31"),
    "Mar 5": ("2026-03-05", "2026-03-05"),
    "18.12.2020": ("2020-12-18", "2020-12-18"),
    "18.12.20 г.": ("2020-12-18", "2020-12-18"),
    "за 13.01": ("2026-01-13", "2026-01-13"),
    "числа 13.01": ("2026-01-13", "2026-01-13"),
    "в 2000 году": ("2000-01-01", "2000-12-31"),
    "в 2025 решили о пуле": ("2025-01-01", "2025-12-31"),
}


@pytest.mark.parametrize("text", [text for texts in NO_TIMES.values() for text in texts])
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    assert times(text, TODAY) == []
    assert in_days(text, TODAY) == text


@pytest.mark.parametrize("text", TIMES)
def test_a_day_a_year_or_a_word_beside_it_makes_it_a_time(text: str) -> None:
    first, last = map(date.fromisoformat, TIMES[text])
    assert times(text, TODAY)[0] == (first, last)


@pytest.mark.parametrize("text", [*TIMES, "что сломалось вчера в пуле 3.11.12"])
def test_days_are_added_and_no_word_is_taken_away(text: str) -> None:
    assert in_days(text, TODAY).startswith(f"{text} ")


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
