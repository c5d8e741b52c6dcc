"""A text alone gets what it gets among others: the patterns that Python answers are the statement's own."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.duck import literal, rows_of
from memkit.policy.admission import Admission
from memkit.policy.classifier import Classifier
from memkit.policy.pipeline import Pipeline
from memkit.tables.single import as_python, settled

PARTS = [
    *(
        "Как",
        "как-то",
        "сделай промпт",
        "npm install",
        "cd ../x",
        "cd simple-bot",
        "$ pip install x",
        "sudo apt install",
    ),
    *("sk-" + "a1B2" * 6, "Bearer ", "bearer " + "a1b2" * 5, "0x" + "ab12" * 9, "commit " + "ab12" * 10),
    *("123456:" + "a" * 31, "?", "?!", "Работаем над", "работа", "Меня зовут", "я", "яблоко", "I am", "живет", "ПЛАН"),
    *(
        "«",
        "»",
        "—",
        "-",
        "_",
        ".",
        ";",
        "|",
        "`",
        "'",
        "\n",
        "\t",
        "\r\n",
        "№",
        "Обсуждали погоду",
        "now",
        "茶",
        "\u00a0",
    ),
    *("é", "\u2028", "\u0085", "ſ", "\u212a", "🍯"),
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=7).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda gap: gap.join(parts))
)
SAVED = Pipeline([Admission(), Classifier()])


@settings(max_examples=6, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_a_text_alone_is_judged_as_among_others(texts: list[str]) -> None:
    for policy in (SAVED, Classifier()):
        together = policy.transform(pa.table({"text": texts}), "2026-03-01").to_pylist()
        alone = [policy.transform(pa.table({"text": [text]}), "2026-03-01").to_pylist()[0] for text in texts]
        assert alone == together


PLAIN = [chr(code) for code in (9, 10, 13, *range(32, 127), *map(ord, "«»—–…„“”‘’№"), *range(0x400, 0x460))]


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(\p{L})", r"([^\p{L}])", r"(\p{N})", r"([^\p{L}\p{N}_])", r"(\s)", r"([\x09-\x0d\x1c-\x20\x{85}\p{Z}])"),
        *("(?i)([a-zя])", "(?i)([^ё])", "(я)$", "(?m)^(a)$|(?:(?i)б|в)", r"(a|(?i)b)", r"([]\-^])", "(.)"),
    ],
)
def test_a_plain_character_means_the_same_to_both(pattern: str) -> None:
    """Every character that is called plain, alone and before the end of a line."""
    own = as_python(pattern)
    assert own is not None
    texts = [*PLAIN, *(f"{char}\n" for char in PLAIN)]
    asked = "select regexp_matches(text, $pattern) as found from t"
    expected = rows_of(asked, {"pattern": pattern}, t=pa.table({"text": texts}))["found"].to_pylist()
    assert [own.search(text) is not None for text in texts] == expected


@pytest.mark.parametrize(
    "pattern", [r"\bчай", r"\d", r"\pL", "[[:alpha:]]", "(?i:a)", "(?P<a>b)", "ſ", r"[\x{212a}]", r"\w"]
)
def test_a_pattern_that_may_mean_something_else_is_left_to_duckdb(pattern: str) -> None:
    statement = f"select regexp_matches(text, {literal(pattern)})"
    assert settled(statement, "чай") == statement


def test_nothing_of_a_plain_text_is_left_to_be_compiled() -> None:
    """What makes one save fast: all patterns of admission and classification are answered."""
    left = re.findall(r"regexp_\w+\([^)]*", settled(SAVED.sql(), "Обсуждали погоду на море."))
    assert left == ["regexp_matches(token, '[0-9]'"]
