"""A word that no text has is read as the nearest word that the question may see."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.index.arm import NearWords, Sight
from memkit.index.lexical import BM25
from memkit.text.analyse import Analyser

DAY = "2026-03-01"
TEXTS = ["Пул соединений: десять", "Настройка кеша постгреса", "Ошибка E4021 в журнале", "The deployment window", "кот"]
WORDS = {"encoder": None, "gram_weight": 0.0, "fold": "none"}


def edits(one: str, other: str) -> int:
    """Damerau-Levenshtein by the textbook: insertions, deletions, substitutions and swaps of neighbours."""
    far = len(one) + len(other)
    table = (
        {(-1, -1): far} | {(i, -1): far for i in range(len(one) + 1)} | {(-1, j): far for j in range(len(other) + 1)}
    )
    table |= {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    last_row: dict[str, int] = {}
    for i in range(1, len(one) + 1):
        last_column = 0
        for j in range(1, len(other) + 1):
            row, column = last_row.get(other[j - 1], 0), last_column
            cost = 0 if one[i - 1] == other[j - 1] else 1
            last_column = last_column if cost else j
            swapped = table[row - 1, column - 1] + (i - row - 1) + 1 + (j - column - 1)
            table[i, j] = min(table[i - 1, j - 1] + cost, table[i, j - 1] + 1, table[i - 1, j] + 1, swapped)
        last_row[one[i - 1]] = i
    return table[len(one), len(other)]


LETTERS = st.text("абвгдx", min_size=3, max_size=9)


@given(LETTERS, st.lists(LETTERS, max_size=12, unique=True), st.sampled_from([1, 2]))
def test_the_terms_within_some_edits_are_those_of_the_textbook(word: str, terms: list[str], most: int) -> None:
    distances = {term: distance for distance, term in NearWords(terms).within(word, most)}
    assert distances == {term: edits(word, term) for term in terms if edits(word, term) <= most}


def fitted(rows: dict[str, Any], **params: Any) -> mk.Retriever:
    return mk.Retriever(**{**WORDS, **params}).fit(mk.from_table(rows))


def read_as(search: mk.Retriever, query: str, **scope: Any) -> dict[str, str]:
    metadata = search.search(query, as_of=DAY, **scope).schema.metadata
    return dict(*json.loads(metadata.get(b"read_as", b"{}")).values())


@pytest.mark.quick
def test_words_with_typos_are_read_as_the_nearest_word_and_others_never() -> None:
    search = fitted({"text": TEXTS})
    read = {"настрйока": "настройка", "соединнений": "соединений", "windwo": "window", "ошбка": "ошибка"}
    for query, word in read.items():
        assert read_as(search, f"что {query}") == {query: word}
        row = search.search(query, as_of=DAY).to_pylist()[0]
        assert word in row["text"].lower(), query
    for query in (
        "E4020",  # not E4021
        "настройка",  # known
        "настроечная",  # three edits of the stem
        '"настрйока"', "«настрйока»", "`настрйока`", "'настрйока'",  # quoted
        "настрйока_2", "настрйока7", "log_настрйока",  # names of things
        "кто",  # short: not «кот»
        "абракадабра", "",
    ):  # fmt: skip  # a table
        assert read_as(search, query) == {}, query
        assert "is read as" not in (search.search(query, as_of=DAY).schema.metadata.get(b"note") or b"").decode()
    assert read_as(fitted({"text": TEXTS}, near_words=0.0), "настрйока") == {}
    short = fitted({"text": ["Настя любит чай"]})  # stems of four letters: the first has to be right
    assert (read_as(short, "как часто"), read_as(short, "насля")) == ({}, {"насля": "настя"})


@pytest.mark.quick
def test_a_near_word_counts_less_than_a_true_one() -> None:
    search = fitted({"text": TEXTS})
    (true,), (near,) = (
        search.search(query, as_of=DAY, k=1)["bm25"].to_pylist() for query in ("настройка", "настрйока")
    )
    assert near == pytest.approx(0.8 * true, rel=1e-6)
    (half,) = search.with_params(near_words=0.5).search("настрйока", as_of=DAY, k=1)["bm25"].to_pylist()
    assert half == pytest.approx(0.5 * true, rel=1e-6)
    both = search.search("настройка настрйока", as_of=DAY, k=1).to_pylist()[0]
    assert (both["memory_id"], both["bm25"]) == ("1", pytest.approx(1.8 * true, rel=1e-6))
    shares = [search.trace(query, as_of=DAY).to_pylist()[0]["bm25_norm"] for query in ("настройка", "настрйока")]
    assert shares[1] < 0.8 * shares[0]  # the word itself is unknown, so the best score of all is further away


@pytest.mark.quick
def test_only_words_in_sight_are_read_and_known() -> None:
    rows = {"text": ["секретный проект", "сегретный", "чай"], "user_id": ["v", "v", "u"], "memory_id": ["a", "b", "c"]}
    search = fitted(rows)
    assert read_as(search, "сикретный") == {"сикретный": "секретный"}
    assert read_as(search, "сикретный", user_id="v") == {"сикретный": "секретный"}
    assert read_as(search, "сикретный", user_id="u") == {}
    assert read_as(search, "секретный", where="memory_id <> 'a'") == {"секретный": "сегретный"}  # unknown to the rest
    assert read_as(search, "сикретный", where="memory_id <> 'a'") == {}  # two edits from the other
    for text in (
        mk.explain(search, "сикретный", "c", user_id="u", as_of=DAY),
        str(search.trace("сикретный", user_id="u", as_of=DAY).schema.metadata),
    ):
        assert "секретный" not in text
    assert "No text has 'сикретный': it is read as 'секретный'." in mk.explain(search, "сикретный", "a", as_of=DAY)
    trace = search.trace("сикретный", as_of=DAY)
    assert json.loads(trace.schema.metadata[b"read_as"]) == {"0": {"сикретный": "секретный"}}


def test_words_in_other_letters_are_those_in_sight_too() -> None:
    rows = {"text": ["сервер Лиссабон", "сервер", "сервер Лисбон"], "user_id": ["v", "u", None], "memory_id": [*"abc"]}
    search = mk.Retriever(gram_weight=0.0, across_weight=0.6, fold="none").fit(mk.from_table(rows))
    sees = {who: search.ask("Lisbon server", user_id=who, as_of=DAY) for who in (None, "u")}
    assert sees[None].sight.count("лиссабон") == 1
    assert sees["u"].sight.count("лиссабон") == 0
    assert sees["u"].sight.count("лисбон") == 1


@pytest.mark.outside
def test_after_an_edit_and_over_shards_words_are_read_as_by_a_fresh_index(tmp_path: Any) -> None:
    draw = np.random.default_rng(3)
    words = ["настройка", "настойка", "проекция", "протекция", "секретный", "дорога", "window", "widow", "shadow"]
    rows = {
        "text": [" ".join(draw.choice(words, 3)) for _ in range(60)],
        "user_id": [str(who) for who in draw.integers(0, 5, 60)],
        "memory_id": [f"{i:03}" for i in range(60)],
    }
    queries = ["настрайка", "пртоекция", "сикретный shadwo", "wndow", "настройка", "дрога"]
    whole = fitted(rows)
    mk.from_table(rows).save(tmp_path, buckets=3)
    shards = mk.Retriever(**WORDS).fit(mk.open(tmp_path))
    fewer = {name: values[:-2] for name, values in rows.items()}
    edited = fitted(fewer).fit(mk.from_table(rows))
    for who in (None, "1", "3"):
        expected = whole.search(queries, user_id=who, as_of=DAY)
        for other in (shards, edited):
            hits = other.search(queries, user_id=who, as_of=DAY)
            assert hits.select(["query_id", "memory_id", "score"]).equals(
                expected.select(["query_id", "memory_id", "score"])
            )
            assert hits.schema.metadata.get(b"read_as") == expected.schema.metadata.get(b"read_as")


def test_a_sweep_over_the_weight_gives_the_scores_of_separate_searches() -> None:
    rows = {"text": TEXTS, "memory_id": [str(i) for i in range(len(TEXTS))]}
    search = fitted(rows)
    queries = pa.table({"query_id": ["a", "b"], "text": ["настройка", "windwo"]})
    qrels = pa.table({"query_id": ["a", "b"], "memory_id": ["1", "3"], "relevance": [1, 1]})
    swept = mk.sweep(search, queries, qrels, {"near_words": [0.0, 0.8]}, metrics=["recall@1"], as_of=DAY)
    by_weight = dict(zip(swept.table["near_words"].to_pylist(), swept.table["recall@1"].to_pylist(), strict=True))
    for weight, score in by_weight.items():
        hits = search.with_params(near_words=weight).search(queries, k=1, as_of=DAY)
        returned = set(zip(hits["query_id"].to_pylist(), hits["memory_id"].to_pylist(), strict=True))
        assert score == len(returned & {("a", "1"), ("b", "3")}) / 2
    assert by_weight == {0.0: 0.5, 0.8: 1.0}


def test_a_mask_of_sight_counts_the_rows_that_have_a_term() -> None:
    draw = np.random.default_rng(1)
    texts = [" ".join(draw.choice(["чай", "кот"], 1)) for _ in range(77)]
    arm = BM25(analyzer="none").fit(pa.table({"chunk_id": [str(i) for i in range(77)]}), texts)
    for share in (0.0, 0.3, 1.0):
        visible = draw.random(77) < share
        sight = Sight.over((arm.postings_, visible), (arm.postings_, None))
        for word in ("чай", "кот", "сад"):
            every = np.array([text == word for text in texts])
            assert sight.count(word) == int((every & visible).sum()) + int(every.sum())
            assert sight.rows(word).tolist() == np.flatnonzero(every & visible).tolist()


def test_the_new_words_of_many_questions_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    search, asked, real = fitted({"text": ["пул соединений", "зелёный чай"]}), list[list[str]](), Analyser._ask
    monkeypatch.setattr("memkit.text.analyse._FEW_WORDS", 0)  # few words need no DuckDB
    monkeypatch.setattr(Analyser, "_ask", lambda self, sql, words: asked.append([*words]) or real(self, sql, words))
    search.search(["зелёнейший ежевичник у пруда", "qwertyish poools of teaa", "чайничающий"])
    assert len([words for words in asked if words]) == 1
