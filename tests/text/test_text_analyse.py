from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import Stemmer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from memkit.base.duck import connect, one_value
from memkit.errors import ParameterError
from memkit.text import analyse
from memkit.text.analyse import ANALYSERS, SIMPLE, Analyser, analyse_sql, load_fts

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=40) | st.text(
    "абвёЁйия snake_case__E4021 东京タ한글ภาษาé", max_size=40
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        load_fts(connection)  # the newest DuckDB may have no extension
        yield connection


@pytest.fixture(scope="module")
def bare() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection where the extension's file is not to be found."""
    with connect() as connection:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(analyse, "_extension_file", lambda: Path("absent/fts.duckdb_extension"))
            assert not load_fts(connection)
        yield connection


def terms(con: duckdb.DuckDBPyConnection, text: str, analyzer: str = "auto") -> list[str]:
    return list(one_value(con, f"select {analyse_sql('$1::varchar', analyzer)}", [text]))


def terms_of_each(con: duckdb.DuckDBPyConnection, texts: list[str], analyzer: str) -> list[list[str]]:
    """As `terms`, of each of the texts: DuckDB plans the long statement once."""
    listed = "select unnest($1::varchar[]) as text, unnest(range(len($1))) as place"
    sql = f"select {analyse_sql('text', analyzer)} from ({listed}) order by place"  # noqa: S608  # no data in it
    return [list(of_text) for (of_text,) in con.execute(sql, [texts]).fetchall()]


@pytest.mark.quick
@pytest.mark.parametrize("connection", ["con", "bare"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Пулы соединений", ["пул", "соединен"]),
        ("Running pools", ["run", "pool"]),
        ("ЁЛКА ёлки", ["елк", "елк"]),
        ("E4021 2025", ["e4021", "2025"]),
        ("snake_case __init__", ["snake_case", "snake", "case", "__init__", "init"]),
        ("пул_соединений", ["пул_соединений", "пул", "соединен"]),
        ("___ -- ,.", []),
        ("", []),
        ("и\u0306од", ["йод"]),
        ("за\u0301мок пере\u00adнос", ["замок", "перенос"]),
        ("ΛΌΓΟΣ λόγος", ["λόγοσ", "λόγοσ"]),
        ("שָׁלוֹם", ["שָׁלוֹם"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("東京タ", ["東京", "京タ", "東", "京", "タ"]),
        ("京", ["京"]),
        ("tower東京2025", ["tower", "東京", "東", "京", "2025"]),
        ("한국", ["한국", "한", "국"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("ok 🚀👍🏽", ["ok", "🚀", "👍", "🏽"]),
    ],
)
def test_a_text_becomes_these_terms_with_and_without_the_extension(
    request: pytest.FixtureRequest, connection: str, text: str, expected: list[str]
) -> None:
    assert terms(request.getfixturevalue(connection), text) == expected


@pytest.mark.quick
@pytest.mark.parametrize(
    ("analyzer", "expected"),
    [
        ("auto", ["настройк", "connect"]),
        ("russian", ["настройк", "connections"]),
        ("english", ["настройка", "connect"]),
        ("none", ["настройка", "connections"]),
    ],
)
def test_an_analyser_stems_only_the_words_of_its_script(
    con: duckdb.DuckDBPyConnection, analyzer: str, expected: list[str]
) -> None:
    assert terms(con, "Настройка connections", analyzer) == expected


@pytest.mark.quick
def test_an_unknown_analyser_is_refused_with_the_words_allowed() -> None:
    with pytest.raises(ParameterError, match=r"'analyzer' must be one of 'auto', 'russian'.*Got 'klingon'"):
        analyse_sql("x", "klingon")


WORDS = (
    "память памяти пулов соединениями настроенные бежавший забывает повторения importance running connections pooled"
)


@pytest.mark.parametrize("connection", ["con", "bare"])
def test_stems_are_pystemmers(request: pytest.FixtureRequest, connection: str) -> None:
    languages = {True: Stemmer.Stemmer("english"), False: Stemmer.Stemmer("russian")}
    expected = [languages[word.isascii()].stemWord(word) for word in WORDS.split()]
    assert terms(request.getfixturevalue(connection), WORDS) == expected


CHANGED = "added adding internal international intervals universal organization tying paste geologist lateral"
"""English words that Snowball 3 stems otherwise than Snowball 2."""
ENGLISH = st.builds(
    str.__add__,
    st.from_regex("[a-z][a-z'éñ]{0,8}", fullmatch=True),
    st.sampled_from(["", "s", "ed", "ing", "ally", "ization", "ogist", "iveness", "ement"]),
)
RUSSIAN = st.builds(
    str.__add__,
    st.from_regex("[а-яі]{1,9}", fullmatch=True),
    st.sampled_from(["", "ами", "ость", "ейшего", "ившись", "уйте", "ование", "ться"]),
)


@pytest.mark.parametrize(("language", "words"), [("english", ENGLISH), ("russian", RUSSIAN)])
def test_stems_are_those_of_the_extension(
    con: duckdb.DuckDBPyConnection, language: str, words: st.SearchStrategy[str]
) -> None:
    @given(st.lists(words))
    @example(CHANGED.split())
    def check(words: list[str]) -> None:
        stems = con.execute("select stem(unnest(?::varchar[]), ?)", [words, language]).fetchall()
        assert [(analyse.stem(word, language),) for word in words] == stems

    check()


def test_several_threads_stem_at_once() -> None:
    words = [f"{'абвгд'[place % 5]}{place}соединениями" for place in range(4000)]
    with ThreadPoolExecutor(8) as pool:
        stems = list(pool.map(lambda word: analyse.stem(word, "russian"), words))
    assert stems == [word.removesuffix("иями") for word in words]


def test_that_the_extension_is_not_there_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(analyse, "_extension_file", lambda: Path("absent/fts.duckdb_extension"))
    monkeypatch.setattr(analyse._LOG, "disabled", False)  # another test's package may have switched it off
    analyse._say_once.cache_clear()
    for _ in range(3):
        with connect() as con, caplog.at_level("WARNING", logger=analyse._LOG.name):
            assert not load_fts(con)
            assert not load_fts(con)
    (message,) = caplog.messages
    assert message.endswith(f"no extension of DuckDB {duckdb.__version__}")


def test_the_fallback_serves_other_cursors(bare: duckdb.DuckDBPyConnection) -> None:
    assert bare.cursor().sql("select stem('пулы', 'russian')").fetchall() == [("пул",)]


def test_char_grams_are_those_of_scikit_learn(con: duckdb.DuckDBPyConnection) -> None:
    text = "я ab память и е4021 настройка"
    expected = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5)).build_analyzer()(text)
    assert sorted(terms(con, text, "char")) == sorted(expected)


@settings(max_examples=25)
@given(texts=st.lists(TEXTS, min_size=1, max_size=8), analyzer=st.sampled_from(ANALYSERS))
def test_terms_of_queries_equal_those_of_documents(
    con: duckdb.DuckDBPyConnection, texts: list[str], analyzer: str
) -> None:
    assert Analyser(analyzer).terms(texts) == terms_of_each(con, texts, analyzer)


@pytest.mark.parametrize("analyzer", ["auto", "char"])
def test_terms_of_queries_are_equal_for_every_character_that_is_not_left_to_the_sql(
    con: duckdb.DuckDBPyConnection, analyzer: str
) -> None:
    characters = [chr(code) for code in (*range(1, 0x3100), *range(0xFF00, 0xFFF0)) if SIMPLE.fullmatch(chr(code))]
    texts = [f"а{c}b {c} _{c}_ {c}{c}" for c in characters]
    con.register("every", pa.table({"place": range(len(texts)), "body": texts}))
    expected = con.execute(f"select {analyse_sql('body', analyzer)} from every order by place").fetchall()  # noqa: S608  # no data
    assert len(characters) > 1500
    assert Analyser(analyzer).terms(texts) == [row[0] for row in expected]
