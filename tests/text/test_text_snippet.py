from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.text.sentences import borders, goes_on, plain_line, says_something, snippet, units_of, window

SENTENCES = st.lists(
    st.sampled_from(
        [
            "Пул соединений вырос до десяти. ",
            "The deploy runs on Friday! ",
            "- 14:05 началась рассылка\n",
            "## Что сделали\n",
            "Да. ",
            "слово " * 30 + "\n",
            "https://filin.example/" + "x" * 80 + " ",
            "\n",
        ]
    ),
    max_size=12,
)


@pytest.mark.quick
def test_a_text_is_cut_after_sentences_and_lines_alone() -> None:
    cases = {
        "Раз. Два! «Три?» Четыре": ["Раз. ", "Два! ", "«Три?» ", "Четыре"],
        "it cost 1.5 EUR, i.e. more": ["it cost 1.5 EUR, i.e. more"],
        "А. С. Пушкин и Dr. Watson пришли.": ["А. С. Пушкин и Dr. Watson пришли."],
        "в 2025 г. Мира и т. д. Вот": ["в 2025 г. Мира и т. д. Вот"],
        "- чай\n- кофе\n\nСок": ["- чай\n", "- кофе\n\n", "Сок"],
        "The gateway answers within two seconds, and on Fridays\nwithin eight.": None,
        "": [""],
    }
    for text, expected in cases.items():
        pieces = [text[a:b] for a, b in pairwise([*borders(text), len(text)])]
        assert pieces == ([text] if expected is None else expected)
    assert not goes_on("A short line", "goes on")


@settings(max_examples=60)
@given(SENTENCES, st.sampled_from(["соединения", "deploy friday", "", "нет такого"]), st.integers(20, 120), st.data())
def test_a_window_is_whole_sentences_within_the_width_or_a_part_of_one_that_is_longer(
    sentences: list[str], query: str, width: int, data: st.DataObject
) -> None:
    text = "".join(sentences)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    begins, ends = window(text, query, width, units_of(text, width, start, end))
    assert 0 <= begins <= ends <= len(text)
    assert ends - begins <= width
    whole_begins, whole_ends = window(text, query, width)
    places = {*borders(text), len(text) - len(text.lstrip())}
    stops = {len(text[:place].rstrip()) for place in (*places, len(text))}
    if whole_ends - whole_begins and any(b - a <= width for a, b in pairwise([*sorted(places), len(text)])):
        assert whole_begins in places or text[whole_begins - 1].isspace() or "x" * 20 in text
        assert whole_ends in stops or text[whole_ends].isspace() or "x" * 20 in text


@pytest.mark.quick
def test_the_window_is_where_most_words_of_the_query_are() -> None:
    text = "Чай зелёный. " * 20 + "Пул вырос. Пул соединений вырос до десяти в феврале. " + "Кофе чёрный. " * 20
    for query in ("пул соединений в феврале", "ПУЛЫ СОЕДИНЕНИЯ"):
        begins, ends = window(text, query, width=60)
        assert "соединений вырос до десяти" in text[begins:ends]
    begins, ends = window(text, "ничего", 30, units_of(text, 30, 26))
    assert (begins, text[begins:ends]) == (26, "Чай зелёный. Чай зелёный."), "meaning alone: where the chunk begins"


@pytest.mark.quick
def test_a_long_sentence_is_cut_around_its_own_words_of_the_query() -> None:
    words = "слово " * 12
    text = f"Один пул там. С{words[1:]}пул соединений вырос {words}конец. Чай зелёный, пул."
    begins, ends = window(text, "пул соединений", width=40)
    assert "пул соединений" in text[begins:ends]
    assert ends - begins <= 40
    alone = f"{words}пул соединений вырос {words}конец."
    begins, ends = window(alone, "пул соединений", width=40)
    assert "пул соединений" in alone[begins:ends]


def test_a_window_shows_no_line_that_is_left_out_unless_there_is_no_other() -> None:
    head, tail = "Sender: Anna, who asks about the pool\n", "\n<!-- about the pool -->\n"
    text = f"{head}Пул вырос до десяти.{tail}Чай зелёный."
    without = [(0, len(head) - 1), (text.index("<!--"), text.index("-->") + 3)]
    shown = {
        query: text[slice(*window(text, query, width, units_of(text, width, without=without)))]
        for query, width in (("пул", 90), ("чай", 200), ("anna pool", 90), ("дятел", 240))
    }
    assert shown == {
        "пул": "Пул вырос до десяти.",
        "чай": "Чай зелёный.",
        "anna pool": "Пул вырос до десяти.",
        "дятел": "Пул вырос до десяти.",
    }
    assert text[slice(*window(text, "пул", 240, units_of(text, 240, without=[(0, len(text))])))] == text


def test_a_snippet_marks_what_it_leaves_out() -> None:
    assert snippet("Раз два.", "два") == "Раз два."
    assert snippet("слово " * 30, "нет", width=20) == "слово слово слово…"


def test_a_line_for_a_prompt_has_no_marks_of_markdown() -> None:
    cases = {
        "- - пункт": "пункт",
        "- # Заголовок": "Заголовок",
        "## Шаги\n\n```bash\nmake\n```\n---\n> конец": "Шаги: make; конец",
        "Boris: нажал\nBoris: долго": "Boris: нажал; Boris: долго",
        "-5 градусов": "-5 градусов",
        "пул - чай > кофе": "пул - чай > кофе",
        "#тег": "#тег",
    }
    assert {text: plain_line(text) for text in cases} == cases


def test_a_heading_says_something_in_five_words_or_with_a_value() -> None:
    headings = """
        ### Sent 2026-02-24: 182 emails (91 vet + 88 auto)
        ## Решение: Postgres
        ## 182 emails sent
        ## Пул соединений поднят с 10 до 20
        ## Anna moved to Kazan in March
        ## Budget 2026: 1,140 EUR
        ## Backup restored in 41 minutes
        ### Вебхук перевели на новый секрет 17 февраля
        ## Дежурный: Мира
    """
    names = """
        ## Session
        ## Session: 2026-02-24 10:00:00 UTC
        ## 24 февраля, вторник
        # Sprint 14
        ## Sprint 14 review
        ## Что сделали
        ### Step 2: Setup
        ## Фаза 2: Миграция
        ## Hosts, ports, what listens where
        ## Кто я и что мне можно
        ## 2.3 Архитектура
        # MEMORY.md
        ## Top 10 books
        ## Daily log — 2026-02-24
    """
    assert [line for line in headings.strip().splitlines() if not says_something(line.strip())] == []
    assert [line for line in names.strip().splitlines() if says_something(line.strip())] == []


def test_a_letter_that_folds_to_two_moves_no_place() -> None:
    text = "Straße und Großes. " * 20 + "Ёлка стоит у дома. " + "Чай без сахара. " * 20
    for query, expected in (("ёлка", "Ёлка стоит у дома."), ("STRASSE", "Straße und Großes.")):
        begins, ends = window(text, query, width=20)
        assert text[begins:ends] == expected
