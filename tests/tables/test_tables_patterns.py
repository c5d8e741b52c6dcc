"""Whoever answers a policy's patterns, DuckDB over a table, RE2 for few texts or what is kept, says the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.base.duck import rows_of
from memkit.policy.admission import Admission, Classifier
from memkit.policy.base import VERDICT, Policy, needed
from memkit.policy.pipeline import Pipeline
from memkit.tables import statement
from memkit.tables.statement import MATCHED_SQL, Pattern, PatternCache, match_few, patterns_sql, run

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
DAY = "2026-03-01"


def alone(policy: Any, texts: list[str]) -> list[dict[str, Any]]:
    return [policy.transform(pa.table({"text": [text]}), DAY).to_pylist()[0] for text in texts]


@settings(max_examples=4, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_a_text_alone_is_judged_as_among_few_and_among_many(texts: list[str]) -> None:
    table = pa.table({"text": texts})
    for policy in (SAVED, Classifier(), Pipeline([Classifier(use_given=False), Admission(sha_words=())])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statement, "FEW_ROWS", 0)
            among_many = policy.transform(table, DAY)
        assert policy.transform(table, DAY).equals(among_many)
        assert alone(policy, texts) == among_many.to_pylist()


@pytest.mark.quick
def test_without_the_wheel_of_re2_a_text_is_judged_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Как настроен пул", f"commit {'ab12' * 10} и sk-{'a1B2' * 6}", "Работаем над ботом", ""]
    expected = alone(SAVED, texts)
    monkeypatch.setattr(statement, "re2", None)
    assert match_few(SAVED.steps[0]._patterns(), one_row("чай")) is None
    assert alone(SAVED, texts) == expected


def one_row(text: str | None) -> pa.Table:
    return pa.table({"row": [0], "text": pa.array([text], pa.string())})


ALIKE = ((0x3400, 0xA000), (0xAC00, 0xD800), (0xE000, 0xF900), (0x17000, 0x18B00), (0x20000, 0x2EBF0))
"""Ideographs, syllables, and what is for private use: of each block its ends, and few between."""
ALIKE_INNER = {code for low, high in ALIKE for code in range(low + 10, high - 50) if code % 97}
CHARACTERS = [chr(code) for code in range(0x2EBF0) if not 0xD800 <= code <= 0xDFFF and code not in ALIKE_INNER]


@pytest.mark.quick
@pytest.mark.parametrize(
    "re2",
    [
        *(r"(\p{L})", r"[^\p{L}\p{N}_]", r"(\s)", r"([\x09-\x0d\x1c-\x20\x{85}\p{Z}])", "(.)$", "(?m)^.$"),
        *("(?i)[a-zя]", "(?i)[^ё]", "(?i)(?:k|s|и)"),
    ],
)
def test_a_character_means_the_same_to_both(re2: str) -> None:
    """Every character, but for blocks of alike ones, of which one is asked alone; a newer one is left to DuckDB."""
    pattern = Pattern("own", re2)
    by_duckdb = rows_of(f"select own from ({patterns_sql([pattern])})", input=pa.table({"text": CHARACTERS}))  # noqa: S608  # a pattern of ours
    assert [*map(pattern.matcher(), CHARACTERS)] == by_duckdb["own"].to_pylist()
    assert match_few([pattern], one_row("\U0002ebf0")) is None
    assert match_few([pattern], one_row(CHARACTERS[-1])) is not None


REST = Pattern("rest", "(?i)(a)(b?)", "replace", instead=r"\2\1-")
FORMS = [
    Pattern("look", "[ab]"),
    Pattern("first", "x*(a*b|c?)", "first"),
    Pattern("every", "([ab]|[^c]d)", "every", after=Pattern("look", "[ab]")),
    REST,
    Pattern("beside", "b(a-)", "first", column=REST),
]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.none() | st.text("abcABdé\n ", max_size=9), min_size=1, max_size=9))
def test_what_a_pattern_says_of_a_row_is_what_it_says_of_many(texts: list[str | None]) -> None:
    rows = pa.table({"row": range(len(texts)), "text": pa.array(texts, pa.string())})
    names = ", ".join(form.name for form in FORMS)
    expected = rows_of(f"select row, {names} from ({patterns_sql(FORMS)}) order by row", input=rows).to_pylist()  # noqa: S608  # ours
    for part in (rows, *(rows.slice(start, 1) for start in range(len(texts)))):
        matches = match_few(FORMS, part)
        assert matches is not None
        by_re2 = rows_of(f"select row, {names} from ({MATCHED_SQL}) order by row", input=part, matches=matches)  # noqa: S608  # ours
        assert by_re2.to_pylist() == [row for row in expected if row["row"] in part["row"].to_pylist()]


@pytest.mark.quick
def test_many_rows_are_left_to_duckdb() -> None:
    texts = ["чай"] * (statement.FEW_ROWS + 1)
    rows = pa.table({"row": range(len(texts)), "text": texts})
    assert match_few(FORMS, rows) is None
    assert match_few(FORMS, rows.slice(1)) is not None
    assert match_few(FORMS, rows.slice(0, 0)) is None


def test_only_a_pattern_that_changed_is_asked_of_the_same_rows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    monkeypatch.setattr(statement, "rows_of", lambda sql, **tables: statements.append(sql) or rows_of(sql, **tables))
    cache, table = PatternCache(), pa.table({"text": ["ключ sk-" + "a1" * 12, "Howard likes tea", "cd ../x и ещё"]})
    for policy in (Admission(), Admission(max_chars=13), Admission(sk_chars=30), Admission(sk_chars=30, cd=False)):
        assert policy._transform(table, DAY, cache).equals(policy.transform(table, DAY))
    names_by_statement = [sql.partition(" from (")[0].removeprefix("select ").split(", ") for sql in statements]
    assert names_by_statement[1:] == [["suspicious", "sk"], ["suspicious"]]
    assert len(names_by_statement[0]) == len(Admission()._patterns())


def test_what_is_kept_of_other_rows_is_forgotten() -> None:
    cache = PatternCache()
    for text in ("Как настроен пул", "Howard likes tea"):
        table = pa.table({"text": [text]})
        assert Admission()._transform(table, DAY, cache).equals(Admission().transform(table, DAY))


class Later(Policy):
    """Reads with a pattern what a step before it says."""

    needs, adds = needed("text", "kind"), VERDICT

    def _patterns(self) -> tuple[Pattern, ...]:
        return (Pattern("is_working", "^working$", column="kind"),)

    def _sql(self) -> str:
        return "select * exclude (is_working), coalesce(is_working, false) as keep, null::varchar as reason from tested"


def test_a_pattern_of_what_an_earlier_step_adds_is_asked_of_what_it_adds() -> None:
    steps = Pipeline([Classifier(), Later()])
    texts = ["Работаем над ботом", "Меня зовут Анна"]
    together = steps.transform(pa.table({"text": texts}), DAY)["keep"].to_pylist()
    assert [row["keep"] for row in alone(steps, texts)] == together == [True, False]


def test_a_save_and_a_look_at_few_ask_duckdb_of_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    monkeypatch.setattr(
        statement, "run", lambda con, sql, *parameters: statements.append(sql) or run(con, sql, *parameters)
    )
    alone(SAVED, ["Обсуждали погоду на море."])
    SAVED.transform(pa.table({"text": ["Обсуждали погоду на море.", "чай"]}), DAY)
    assert len(statements) == 2
    for sql in statements:
        assert sql.replace("regexp_matches(token, '[0-9]')", "").count("regexp_") == 0
