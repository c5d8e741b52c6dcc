"""The calibrated scale: 0 is a chunk at random, words count by what they could have been, letters by their cosine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memkit.index.dense import Dense
from memkit.index.encoders.base import Calibration
from memkit.index.lexical import BM25, Grams
from memkit.search.retriever import Retriever
from memkit.search.steps.fuse import calibrate
from memkit.search.steps.recall import arm_weights
from memkit.text.languages import FUNCTION_WORDS

DAY = "2026-03-01"
ROWS = ["Пул соединений держит десять", "The deploy runs on Friday", "Кот спит на подоконнике", "карта 2GIS"]


def chunks_and_texts(texts: list[str]) -> tuple[pa.Table, list[str]]:
    return pa.table({"chunk_id": [str(i) for i in range(len(texts))]}), texts


@pytest.mark.quick
def test_words_that_no_text_has_keep_a_query_from_being_answered() -> None:
    arm = BM25(k3=1000.0).fit(*chunks_and_texts(ROWS))
    (_, known), (_, half) = arm.scale(["пул", "пул жираф"], np.arange(4))
    idf = np.log1p((4 - 1 + 0.5) / 1.5)
    rarest = np.log1p((4 + 0.5) / 0.5)
    assert [known, half] == pytest.approx([2.2 * idf, 2.2 * (idf + rarest)], rel=1e-5)
    assert arm.candidates(["пул"], 1)["score"][0].as_py() < known


@pytest.mark.quick
@pytest.mark.parametrize("query", ["как и где пул", "the пул of"])
def test_function_words_count_a_tenth_in_the_score_and_in_what_could_be_reached(query: str) -> None:
    arm = BM25(k3=1000.0).fit(*chunks_and_texts([*ROWS, "и где the of как"]))
    whole, tenth = (arm.candidates([query], 9, function_word_weight=weight) for weight in (1.0, 0.1))
    by_row = [dict(zip(t["row"].to_pylist(), t["score"].to_pylist(), strict=True)) for t in (whole, tenth)]
    assert by_row[1][4] == pytest.approx(by_row[0][4] / 10, rel=1e-5)
    assert by_row[1][0] == pytest.approx(by_row[0][0], rel=1e-5)
    assert arm.scale([query], None, function_word_weight=0.1)[0, 1] < arm.scale([query], None)[0, 1]


@pytest.mark.quick
def test_the_function_words_of_both_languages_are_folded_as_words_are() -> None:
    assert {"the", "not", "и", "не", "еще"} <= FUNCTION_WORDS
    assert all(word == word.lower().replace("ё", "е") for word in FUNCTION_WORDS)


@pytest.mark.parametrize("query", ["2гис", "2GIS", "２ＧＩＳ", "2gys", "карте"])
def test_letters_find_other_alphabets_widths_and_typos(query: str) -> None:
    candidates = Grams().fit(*chunks_and_texts(ROWS)).candidates([query], 4, function_word_weight=0.1)
    assert candidates["row"][0].as_py() == 3


def test_a_query_of_function_words_alone_still_has_letters() -> None:
    arm = Grams().fit(*chunks_and_texts(["и как же", "кот"]))
    assert arm.candidates(["как"], 2, function_word_weight=0.1)["row"].to_pylist() == [0]


def test_the_vectors_zero_is_the_mean_of_the_background_as_if_thirty_rows_more_were_seen() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("абвгдежз"), 5)) for _ in range(40)]
    arm = Dense(encoder="hash").fit(*chunks_and_texts(texts))
    background = np.arange(40)
    zero, one = arm.scale(["абв где"], background)[0]
    cosines = (arm.encode_queries(["абв где"]) @ arm.vectors_.T)[0].astype(float)
    stored = Calibration()  # nothing is stored for this encoder
    mean = (cosines.sum() + 30 * stored.mean) / 70
    square = (np.sum(cosines**2) + 30 * (stored.mean**2 + stored.deviation**2)) / 70
    assert zero == pytest.approx(mean, abs=1e-5)
    assert one - zero == pytest.approx(10 * np.sqrt(square - mean**2), abs=1e-5)


def test_what_vectors_did_not_find_counts_as_their_last_find_and_words_count_nothing() -> None:
    query = np.array([0, 0, 0, 1, 1])
    score = np.array([0.5, 0.2, np.nan, np.nan, 0.4])
    zero, one = np.zeros(5), np.ones(5)
    assert calibrate(query, score, zero, one, everywhere=True).tolist() == [0.5, 0.2, 0.2, 0.4, 0.4]
    assert calibrate(query, score, zero, one, everywhere=False).tolist() == [0.5, 0.2, 0.0, 0.0, 0.4]
    assert calibrate(query[:0], score[:0], zero[:0], one[:0], everywhere=True).tolist() == []


def test_scores_do_not_depend_on_the_other_hits(corpus_of: Any) -> None:
    search = Retriever(encoder="hash").fit(corpus_of(*ROWS))
    alone, among = (search.search("пул соединений", as_of=DAY, where=w) for w in ("memory_id = 'm0'", None))
    assert alone["score"].to_pylist() == among["score"].to_pylist()[:1]
    assert 0 < alone["score"][0].as_py() < 1


def test_words_alone_reach_what_their_weights_say_and_no_more(corpus_of: Any) -> None:
    question = Retriever(encoder=None).fit(corpus_of(*ROWS)).ask("пул", as_of=DAY)
    assert question.weights == pytest.approx({"bm25": 0.75, "gram": 0.25})
    assert question.ranked().score.max() <= 1


def test_arms_without_a_wish_share_what_the_others_leave() -> None:
    arms, calibration = ["bm25", "vector", "gram"], Calibration()._asdict()
    for vector in (0.0, 0.3, 1.0):
        weights = arm_weights({"bm25": None, "vector": vector, "gram": None}, arms, calibration)
        assert weights.get("vector", 0) == pytest.approx(vector)
        assert weights.get("bm25", 0) == pytest.approx((1 - vector) * 0.75)


def test_the_background_hardly_changes_when_a_corpus_grows_and_not_at_all_by_order(corpus_of: Any) -> None:
    rng = np.random.default_rng(1)
    texts = [f"память {n} {rng.integers(1_000_000)}" for n in range(900)]
    small, large, other = (
        Retriever(encoder=None).fit(corpus_of(*rows)) for rows in (texts[:800], texts, texts[:800][::-1])
    )

    def chosen(search: Retriever) -> set[str]:
        index = search.index_
        return set(index.texts.take(pa.array(index.background)).to_pylist())

    assert chosen(small) == chosen(other)
    assert len(chosen(small)) == 256
    assert len(chosen(small) & chosen(large)) > 200


def test_the_metadata_says_when_the_weights_are_not_the_encoders_own(corpus_of: Any) -> None:
    search = Retriever(encoder="hash").fit(corpus_of(*ROWS))
    assert b"default encoder" in search.search("пул", as_of=DAY).schema.metadata[b"weights"]
    weighted = search.with_params(vector_weight=0.2, bm25_weight=0.6, gram_weight=0.2)
    assert b"weights" not in weighted.search("пул", as_of=DAY).schema.metadata


def test_a_chunk_in_another_script_gets_a_share_of_its_vectors_for_words(retriever_over: Any) -> None:
    rows = ["чай", "tea", "кофе"]
    answers = {"bm25": {"чай": {0: 0.2}}, "vector": {"чай": {0: 0.4, 1: 0.8, 2: 0.6}}}
    search = retriever_over(rows, **answers, normalize="calibrated", across_weight=0.5)
    trace = {row["memory_id"]: row for row in search.trace("чай", as_of=DAY).to_pylist()}
    assert [trace[name]["fused"] for name in ("m0", "m1", "m2")] == pytest.approx([0.3, 0.5 * (0.8 + 0.4), 0.3])
    assert trace["m1"]["bm25"] is None
    same = search.with_params(across_weight=0.0).trace("чай", as_of=DAY)
    assert max(same["fused"].to_pylist()) == pytest.approx(0.4)
