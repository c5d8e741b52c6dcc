"""Statements, and what a person would call a contradiction of two: what is shown, what is not, and that it blocks."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.text import statements
from memkit.text.conflicts import Conflicts
from memkit.text.contradictions import Contradiction, contradiction
from memkit.text.statements import Reader, Statement, pieces_of

SHOWN = (
    ("Аренда квартиры стоит 1200 евро.", "Аренда квартиры: 1 500 евро.", "number", "1200 евро", "1 500 евро"),
    ("Пул соединений: максимум 10.", "- Пул соединений: максимум двадцать.", "number", "10", "двадцать"),
    ("Backups are kept for 14 nights.", "Backups are kept for thirty nights.", "number", "14 nights", "thirty nights"),
    ("Hotels cost up to $90 a night.", "Hotels cost up to $110 a night.", "number", "$90", "$110"),
    ("Timeout of the gateway is 10s.", "Timeout of the gateway is 25 s.", "number", "10 s", "25 s"),
    ("Анна ест мясо.", "Анна не ест мясо.", "negation", "ест", "not ест"),
    ("Anna eats meat and fish.", "Anna doesn't eat meat and fish.", "negation", "eats", "not eat"),
    ("Кофе пьёт с сахаром.", "Кофе пьёт без сахара.", "negation", "сахаром", "not сахара"),
    ("Allergic to nuts.", "Is not allergic to nuts, only to peanuts.", "negation", "Allergic", "not allergic"),
    ("Сигнал ночью включён.", "Сигнал ночью выключен.", "negation", "включён", "выключен"),
    ("Debug logging is enabled on birch.", "Debug log is disabled on birch.", "negation", "enabled", "disabled"),
    ("Анна живёт в Казани.", "Анна живёт в Самаре.", "name", "Казани", "Самаре"),
    ("Mira lives in Lisbon with her family.", "Mira lives in Porto.", "name", "Lisbon", "Porto"),
    ("Prefers green tea.", "Prefers black coffee.", "value", "green tea", "black coffee"),
    ("Часовой пояс: Москва", "Часовой пояс — Самара", "name", "Москва", "Самара"),
    ("The default model is sova-large.", "The default model is sova-mini.", "value", "sova-large", "sova-mini"),
    ("Taxes of a year are due on 20 March.", "Taxes of a year are due on 23 March.", "value", "20 March", "23 March"),
    ("Отпуск начинается в марте.", "Отпуск начинается в апреле.", "value", "марте", "апреле"),
    ("Отчёт нужен до десятого числа.", "Отчёт нужен до пятого числа.", "value", "десятого числа", "пятого числа"),
)  # fmt: skip  # a table reads better than a column
"""Older and newer, the kind, the older and the newer value."""
NOT_SHOWN = (
    # says the same, or adds
    ("Пул держит десять соединений.", "Пул держит 10 соединений."),
    ("Backups are kept for 14 nights.", "14 nights, backups are kept, on cedar."),
    ("Анна не ест мясо.", "Мясо Анна не ест."),
    ("The alarm is not disabled at night.", "The alarm is enabled at night."),
    ("Prefers English.", "Prefers English, with a link."),
    ("Child 2: tuition in 5 years is 20 euros.", "tuition in 5 years is 20 euros."),
    # another subject
    ("The second restore took 58 minutes.", "The third restore took 41 minutes."),
    ("Anna approves 90 euros a night.", "Boris approves 110 euros a night."),
    ("Child 1: tuition in 5 years is 20 euros.", "Child 2: tuition in 5 years is 30 euros."),
    ("Не ест мясо, рыбу ест.", "Ест рыбу."),
    ("A man is eating a banana.", "The man is not eating a banana by a tree."),
    # another attribute: minimum and maximum, euros and nights
    ("Пул соединений: минимум 2.", "Пул соединений: максимум 10."),
    ("The hotel costs 90 euros.", "The hotel is booked for 3 nights."),
    # times, ids, versions, counters, and numbers of a day
    ("08:45 the webhook was registered.", "09:20 the webhook was registered."),
    ("E4021 means no free connection.", "E4022 means no free connection."),
    ("birch runs version 0.12.4 now.", "birch runs version 0.15.1 now."),
    ("birch on Python, day 5, nothing.", "birch on Python, day 6, nothing."),
    ("Сегодня занято 9 соединений пула.", "Сегодня занято 5 соединений пула."),
    ("The model cost 29 EUR so far.", "The model cost 36 EUR so far."),
    # denies nothing, or no longer holds
    ("Anna doesn't live in Kazan.", "Anna lives in Samara."),
    ("The trip is up to 13 days.", "The trip is extended from 12 days."),
    ("Не только рыбу ест Анна.", "Рыбу ест Анна."),
    ("The budget is not yet agreed.", "The budget is agreed."),
    ("На панели не было графика.", "На панели есть график."),
    ("Do we keep 14 nights of backups?", "We keep 30 nights of backups."),
)


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader()


def between(reader: Reader, older: str, newer: str) -> list[Contradiction]:
    first, second = reader.read([older, newer])
    return [how for one in first for other in second if (how := contradiction(one, other)) is not None]


@pytest.mark.quick
def test_what_a_person_would_call_a_contradiction_is_shown_with_both_values(reader: Reader, subtests) -> None:
    for older, newer, kind, was, now in SHOWN:
        with subtests.test(newer):
            (how,) = between(reader, older, newer)
            assert (how.kind, how.older_value.casefold(), how.newer_value.casefold()) == (
                kind,
                was.casefold(),
                now.casefold(),
            )


@pytest.mark.quick
def test_what_is_shown_is_shown_whichever_is_older_and_blocks_a_merge(reader: Reader, subtests) -> None:
    conflicts = Conflicts()
    for older, newer, *_ in SHOWN:
        with subtests.test(newer):
            assert between(reader, newer, older)
            assert any(conflicts(older, newer))
            assert conflicts(older, newer) == conflicts(newer, older)


def test_a_first_look_leaves_out_no_statement_that_may_contradict_another(reader: Reader, subtests) -> None:
    for text in (text for case in (*SHOWN, *NOT_SHOWN) for text in case[:2]):
        for piece in pieces_of(text):
            (one,) = reader.statements([piece])
            (look,) = reader.first_look([piece])
            with subtests.test(piece):
                assert look.key == one.key
                assert look.denies or not one.n_denials
                assert look.is_measured or not (one.quantities or one.dates or one.times)


@pytest.mark.quick
def test_what_a_person_would_not_call_one_is_not_shown(reader: Reader, subtests) -> None:
    for older, newer in NOT_SHOWN:
        with subtests.test(newer):
            assert between(reader, older, newer) == between(reader, newer, older) == []


@given(st.lists(st.sampled_from([text for pair in (*NOT_SHOWN, *SHOWN) for text in pair[:2]]), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_a_text_does_not_contradict_itself(texts: list[str]) -> None:
    whole = "\n".join(dict.fromkeys(texts))
    (statements,) = Reader().read([whole])
    assert all(contradiction(one, one) is None for one in statements)


def only(reader: Reader, text: str, heading: str | None = "") -> Statement:
    ((statement,),) = reader.read([text], [heading])
    return statement


def test_headings_code_and_questions_state_nothing(reader: Reader) -> None:
    text = "# Пул 10\n```\nmax_size = 20\n```\nСколько их?\nПул держит 15 соединений."
    (statements,) = reader.read([text])
    assert [statement.text for statement in statements] == ["Пул держит 15 соединений."]


def test_numbers_are_read_with_their_unit_in_one_spelling(reader: Reader, subtests) -> None:
    for text, value, unit in (
        ("Лимит 1 240 евро", "1240", "€"),
        ("limit of 1,240 euros", "1240", "€"),
        ("limit of €1240", "1240", "€"),
        ("доля 0,80 %", "0.8", "%"),
        ("ждём десять секунд", "10", "s"),
        ("waits 10s", "10", "s"),
    ):
        with subtests.test(text):
            (quantity,) = only(reader, text).quantities
            assert (quantity.value, quantity.unit) == (value, unit)


def test_short_statements_are_of_one_subject_only_under_like_headings(reader: Reader) -> None:
    older, newer = "Timeout 10 seconds", "Timeout 25 seconds"
    assert contradiction(only(reader, older, "Gateway"), only(reader, newer, "Gateway")) is not None
    assert contradiction(only(reader, older, "Gateway"), only(reader, newer, "Database")) is None
    assert contradiction(only(reader, older, "14:30"), only(reader, newer, "15:10")) is None
    assert contradiction(only(reader, older, None), only(reader, newer, None)) is None
    # Under others it takes three words that both say.
    for shared, contradicts in (("Gateway timeout", False), ("Gateway waits, timeout", True)):
        pair = only(reader, f"{shared} 10 seconds", "Servers"), only(reader, f"{shared} 25 seconds", "Meeting")
        assert (contradiction(*pair) is not None) == contradicts, shared


PARTS = "may Мая марта ſept янв. числа third the of 5 5th пятого v2 a.b x@y.ru a_b a/b don't Ё нет , ! ) » _ - ’"


@pytest.mark.parametrize("seed", range(3))
def test_words_that_are_known_at_once_are_words_by_all_forms_too(seed: int) -> None:
    chance, pattern = random.Random(seed), statements._TOKEN.pattern
    slow = re.compile(pattern[pattern.index("(?P<code>") :], statements._TOKEN.flags)
    for _ in range(4_000):
        text = "".join(
            chance.choice(PARTS.split()) + chance.choice(("", " ", "  ", "\n")) for _ in range(chance.randint(1, 8))
        )
        expected = [(one.lastgroup, one.span()) for one in slow.finditer(text)]
        assert [(one.lastgroup or "word", one.span()) for one in statements._TOKEN.finditer(text)] == expected, text
