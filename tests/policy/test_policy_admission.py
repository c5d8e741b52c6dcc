"""Admission: borders of words, secrets and what only looks like one, lengths, and its own statement."""

from __future__ import annotations

import re
import unicodedata

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import ParameterError
from memkit.policy.admission import Admission
from memkit.policy.pipeline import Pipeline
from memkit.presets import memory_v2_policy
from memkit.text.secrets import SECRETS, mask

SHA = "0123456789abcdef0123456789abcdef01234567"


def judge(*texts: str, **parameters: object) -> list[tuple[str | None, str | None]]:
    judged = Admission(**parameters).transform(pa.table({"text": list(texts)}), as_of="2026-03-01")
    return list(zip(judged["reason"].to_pylist(), judged["matched_span"].to_pylist(), strict=True))


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        "Какао пьёт каждое утро",
        "Howard likes green tea",
        "Давайте-ка встретимся завтра",
        "Как-то раз он жил в Перми",
        "Когда-нибудь переедет в Казань",
        "Showroom находится на Невском",
        "Whatever works is fine by Anna",
        "Bearer of bad news arrived on Monday",
        "Anna is the secretary of the board",
        "Note id 123e4567-e89b-42d3-a456-426614174000 is old",
        f"Fixed in commit {SHA} by Anna",
        f"Исправлено: коммит `{SHA}` (sha {SHA})",
        "CD Projekt делает хорошие игры",
        "Git commit messages are written in English",
        "Любит npm-пакеты и abcd/efgh",
        "A task-force-of-something-very-long-indeed met",
        "Встреча в 10:30, адрес example.org:8080/path",
    ],
)
def test_a_statement_that_only_looks_suspicious_passes(text: str) -> None:
    assert judge(text) == [(None, None)]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "reason", "span"),
    [
        ("Любит ли Анна чай?", "question", "?"),
        ("Это точно правда?!", "question", "?!"),
        ("Правда ли это?  \n", "question", "?"),
        ("Как, кстати, настроен пул", "question", "Как"),
        ("«Можешь помочь с ботом»", "question", "Можешь"),
        ("НАЙДИ все заметки Анны", "question", "НАЙДИ"),
        ("could  you deploy the bot", "question", "could  you"),
        ("what is the pool size today", "question", "what is"),
        ("Нужно запустить npm  install сразу", "command", "npm  install"),
        ("Запусти npx prettier на всём", "command", "npx"),
        ("cd simple-bot", "command", "cd simple-bot"),
        ("Then cd ~/bots/simple and wait", "command", "cd ~/bots/simple"),
        ("Зайди в cd данные/бот и жди", "command", "cd данные/бот"),
        ("Первая строка\n$ sudo apt-get install jq", "command", "apt-get install"),
        ("git push origin main", "command", "git push"),
        ("Пожалуйста, сделай промпт для бота", "command", "сделай промпт"),
        ("ключ sk-abcdefghij0123456789 старый", "secret", "sk-abcdefghij0123456789"),
        ("Authorization: Bearer abcdefghijklmno1", "secret", "abcdefghijklmno1"),
        ("bearer ofbadnewsabcdefghijk and bearer a123456789012345", "secret", "a123456789012345"),
        ("токен 123456789:" + "A" * 35, "secret", "123456789:" + "A" * 35),
        ("токен " + "b" * 30 + ":secret", "secret", "b" * 30 + ":secret"),
        (f"секрет {SHA}", "secret", SHA),
        ("md5 0x" + "ab" * 16, "secret", "ab" * 16),
        (f"commit {SHA} и пароль {'f' * 32}", "secret", "f" * 32),
    ],
)
def test_a_refusal_names_its_reason_and_the_span(text: str, reason: str, span: str) -> None:
    assert judge(text) == [(reason, span)]


@pytest.mark.quick
def test_reasons_come_in_their_order_of_precedence() -> None:
    secret = "sk-" + "a" * 20
    assert [reason for reason, _ in judge("Как?", f"Ну, npx {secret}?", f"Вот npx {secret}", f"Вот ключ {secret}")] == [
        "length",
        "question",
        "command",
        "secret",
    ]


def test_a_command_phrase_outranks_the_words_that_open_a_question() -> None:
    assert judge(
        "Сделай промпт для бота", "Как npx запускает бота", "Сделай кофе без сахара", "npx запускает бота?"
    ) == [("command", "Сделай промпт"), ("command", "npx"), ("question", "Сделай"), ("question", "?")]
    assert judge("Сделай промпт для бота", commands=()) == [("question", "Сделай")]


@pytest.mark.parametrize("word", ["Что", "где", "Кто", "зачем", "Какой", "сколько", "Where", "who", "which"])
def test_nine_words_more_than_the_documents_open_a_question(word: str) -> None:
    text = f"{word}, по словам Анны, в пуле"
    assert judge(text, f"{word}то по словам Анны") == [("question", word), (None, None)]
    assert judge(text, **memory_v2_policy["admission"]) == [(None, None)]


@pytest.mark.parametrize(
    "text",
    [
        "Как правило пьёт чай",
        "Как правило, созвон пропускает",
        "Когда устаёт, слушает джаз",
        "Что касается еды, ест рыбу",
        "When tired he listens to jazz",
        "Как только приедет, напишет",
    ],
)
def test_a_statement_that_begins_with_a_question_word_is_none(text: str) -> None:
    """Memory v2, policy: the document's own list knows words alone, and keeps its verdict."""
    assert judge(text) == [(None, None)]
    assert judge(f"{text}?") == [("question", "?")]
    by_document = judge(text, **memory_v2_policy["admission"])
    assert by_document == ([(None, None)] if text.startswith("Что") else [("question", text.split()[0])])


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("Do you know where the keys are", "Do you"),
        ("do you know…", "do you"),
        ("When does the build end", "When does"),
        ("when is the next release", "when is"),
        ("Когда будет новый релиз", "Когда"),
        ("Как устроен пул соединений", "Как"),
        ("Что любит Анна на завтрак", "Что"),
    ],
)
def test_a_question_without_its_mark_is_one_all_the_same(text: str, span: str) -> None:
    assert judge(text, min_chars=3) == [("question", span)]


def test_lengths_are_code_points_of_the_trimmed_text_and_both_limits_pass() -> None:
    texts = ["ё" * 11, "ё" * 12, "ё" * 240, "ё" * 241, " \u00a0\n" + "й" * 12 + "\u2003\t", " " * 20 + "й" * 11]
    assert [reason for reason, _ in judge(*texts)] == ["length", None, None, "length", None, "length"]


def test_a_null_text_is_too_short_and_an_absent_column_an_error() -> None:
    assert Admission().transform(pa.table({"text": pa.array([None], pa.string())}))["reason"].to_pylist() == ["length"]
    with pytest.raises(ParameterError, match=r"Admission: expected a column 'text'\. Got other, kind\."):
        Admission().transform(pa.table({"other": [1], "kind": ["note"]}))


def test_empty_word_lists_and_switches_refuse_nothing() -> None:
    texts = ("Как настроен пул?", "npm install в строке", "git push origin main", "cd simple-bot")
    off = {"question_words": (), "question_mark": False, "commands": (), "shell_lines": (), "run": False, "cd": False}
    assert [reason for reason, _ in judge(*texts, **off)] == [None] * len(texts)


def test_words_of_ones_own_are_matched_literally_with_either_yo() -> None:
    assert judge("Неужёли правда опять", question_words=("неужели",)) == [("question", "Неужёли")]
    assert judge("C++ isn't here at all", commands=("c++ isn't",)) == [("command", "C++ isn't")]


@pytest.mark.parametrize("bad", [{"question_words": (" ",)}, {"min_chars": 300}, {"sk_chars": 0}, {"cd": "yes"}])
def test_a_parameter_out_of_its_declaration_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        Admission(**bad).transform(pa.table({"text": ["a"]}))


def test_the_defaults_are_the_documents_values() -> None:
    document, defaults = memory_v2_policy["admission"], Admission().check_params()
    assert {name for name in defaults if defaults[name] != document[name]} == {
        *("question_words", "statement_words", "clauses", "shell_lines", "run", "known_secrets")
    }
    assert set(defaults["question_words"]) > set(document["question_words"]) - {"when"}  # type: ignore[call-overload]


def test_every_row_stays_in_order_and_old_verdicts_are_kept_as_given() -> None:
    table = pa.table({"keep": [7, 8], "text": ["Howard likes tea", "Почему так?!!"], "given_keep": ["x", "y"]})
    judged = Admission().transform(table, as_of="2026-03-01")
    assert judged.column_names == ["given_given_keep", "text", "given_keep", "keep", "reason", "matched_span"]
    assert judged["given_given_keep"].to_pylist() == [7, 8]
    assert judged.schema.metadata[b"as_of"] == b"2026-03-01T00:00:00+00:00"


def test_a_data_frame_is_judged_as_the_table_is() -> None:
    frame = pd.DataFrame({"text": ["Howard likes tea", "Покажи мне всё"]})
    assert Admission().transform(frame)["keep"].to_pylist() == [True, False]


def test_what_a_mask_hides_is_refused_and_the_document_judges_by_its_own_list() -> None:
    examples = [example for secret in SECRETS for example in secret.examples]
    texts = [f"Записано для памяти: {example.replace('⟦', '').replace('⟧', '')}" for example in examples]
    judged = judge(*texts, max_chars=1000, question_mark=False, commands=(), shell_lines=(), run=False, cd=False)
    for example, (reason, span) in zip(examples, judged, strict=True):
        value = example.partition("⟦")[2].partition("⟧")[0]
        assert (reason, span is not None and (span in value or value in span)) == ("secret", True), example
    document = memory_v2_policy["admission"] | {"max_chars": 1000}
    without = judge(*texts, **{**document, "known_secrets": False})
    assert judge(*texts, **document) == without


@given(
    st.lists(st.sampled_from(["пароль: sova-2026x", "Howard likes tea", "root / Ubuntu22", "PIN: 4321"]), max_size=6)
)
@settings(max_examples=15)
def test_a_text_is_refused_as_a_secret_exactly_where_the_mask_changes_it(texts: list[str]) -> None:
    judged = judge(*[f"{text}, и это всё" for text in texts])
    assert [reason == "secret" for reason, _ in judged] == [mask(text) != text for text in texts]
    assert judge(*[f"{text}, и это всё" for text in texts], known_secrets=False) == [(None, None)] * len(texts)


def test_a_pipeline_knows_the_same_secrets_of_the_rows_that_reach_it() -> None:
    rows = pa.table(
        {"text": ["коротко", "вход на birch, пароль: sova-2026x", "Howard likes tea"], "kind": ["archive"] * 3}
    )
    for steps in ([Admission()], [Admission(known_secrets=False), Admission()]):
        judged = Pipeline(steps).transform(rows, as_of="2026-03-01")
        assert judged["reason"].to_pylist() == ["length", "secret", None]


def test_it_is_made_for_facts_and_says_so_of_other_memories() -> None:
    rows = {"text": ["чай", "x" * 241, "Howard likes tea"]}
    for kinds, reasons, words in (
        (["archive", "note", "note"], ["length", None, None], "keeps the 2 memories of other kinds"),
        (["note"] * 3, [None] * 3, "does not apply: none of these 3 memories is one"),
        ([None, None, None], ["length", "length", None], ""),
    ):
        judged = Admission().transform(pa.table({**rows, "kind": pa.array(kinds, pa.string())}))
        assert judged["reason"].to_pylist() == reasons
        note = (judged.schema.metadata or {}).get(b"note", b"").decode()
        assert (words in note, bool(note)) == (True, bool(words))


def test_text_of_the_rows_never_reaches_the_statement() -> None:
    assert judge("'); drop table input; -- и ещё слова") == [(None, None)]


_WORDS = st.sampled_from(["как", "какао", "Howard", "how", "чай", "npx", "план", "?", "-", "sk-" + "a1" * 10, "ё"])


@settings(max_examples=12)
@given(st.lists(st.lists(_WORDS, max_size=6).map(" ".join), min_size=1, max_size=8))
def test_questions_agree_with_pythons_own_regular_expressions(texts: list[str]) -> None:
    words = "|".join(word.replace(" ", r"\s+") for word in Admission().question_words)
    opening = re.compile(rf"^(?!.*\bnpx\b)\W*(?:{words})(?![\w-])", re.IGNORECASE)
    expected = [
        (not 12 <= len(text.strip()) <= 240 and "length")
        or ((opening.match(text.replace("ё", "е")) or re.search(r"\?[!?]*\s*$", text)) and "question")
        for text in texts
    ]
    # «как -» has a hyphen that opens no word, which is a border for memkit and for none of these texts' words.
    known = [i for i, text in enumerate(texts) if " -" not in text]
    judged = judge(*texts)
    assert [judged[i][0] in ("length", "question") and judged[i][0] for i in known] == [
        expected[i] in ("length", "question") and expected[i] for i in known
    ]


@settings(max_examples=10)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40), max_size=6))
def test_any_text_is_judged_and_length_is_that_of_python(texts: list[str]) -> None:
    judged = judge(*[unicodedata.normalize("NFC", text) for text in texts])
    for text, (reason, _) in zip(texts, judged, strict=True):
        assert (reason == "length") == (not 12 <= len(unicodedata.normalize("NFC", text).strip()) <= 240)
