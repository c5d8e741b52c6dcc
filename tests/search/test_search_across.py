"""Words that mean the same in other letters: an encoder that knows what single words mean finds them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.index.encoders.base import Calibration
from memkit.index.lexical import BM25
from memkit.search.fitted import across
from memkit.search.fitted.across import Vocabulary, phonetic_similarity, sound

DAY = "2026-03-01"
SAME = {"пул": "pool", "пула": "pool", "чай": "tea", "чая": "tea", "реле": "release"}


class Bilingual:
    """A text is the mean of its words, and a word of `SAME` is the other one; nothing else is alike."""

    dim = 64
    fingerprint = "bilingual"
    calibration = Calibration(alike=0.9)
    lasting = False

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([sum(map(_vector, re.findall(r"\w+", text.lower())), np.zeros(self.dim)) for text in texts])

    encode_query = encode_document = encode

    def get_config(self) -> dict[str, Any]:
        return {}


class Asked(Bilingual):
    """It notes the documents that it is asked for."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint, self.documents = fingerprint, list[str]()

    def encode_document(self, texts: list[str]) -> np.ndarray:
        self.documents.extend(texts)
        return self.encode(texts)


def _vector(word: str) -> np.ndarray:
    seed = hashlib.md5(SAME.get(word, word).encode()).digest()[:4]  # no secret
    return np.random.default_rng(int.from_bytes(seed)).normal(size=Bilingual.dim)


TEXTS = ["The pool holds ten", "Cats sleep a lot", "зелёный чай остыл", "the tea", "release on Friday"]


def corpus(texts: list[str] = TEXTS) -> mk.Corpus:
    return mk.from_table({"memory_id": [f"m{i}" for i in range(len(texts))], "text": texts})


def traced(search: mk.Retriever, query: str) -> dict[str, dict[str, Any]]:
    return {row["memory_id"]: row for row in search.trace(query, as_of=DAY).to_pylist()}


@pytest.mark.quick
def test_a_word_counts_for_the_one_that_means_the_same_as_it_would_count_itself() -> None:
    search = mk.Retriever(encoder=Bilingual(), across_weight=0.25).fit(corpus())
    row = traced(search, "пул")["m0"]
    arm = BM25(k3=1000.0).fit(pa.table({"chunk_id": [str(i) for i in range(len(TEXTS))]}), TEXTS)
    (of_tf,) = arm.candidates(["pool"], 1)["score"].to_pylist()
    idf = np.log1p((len(TEXTS) - 1 + 0.5) / 1.5)
    meant = of_tf / idf / 2.2  # no text has «пул»: its own idf is in both, and leaves the part of the row
    assert row["bm25"] is None
    assert row["bm25_norm"] == pytest.approx(0.25 * row["vector_norm"] + 0.75 * meant, rel=1e-4)
    assert "matched across alphabets with" in mk.explain(search, "пул", "m0")


@pytest.mark.quick
def test_without_a_share_for_other_letters_only_equal_words_count() -> None:
    search = mk.Retriever(encoder=Bilingual(), across_weight=0.0).fit(corpus())
    assert traced(search, "пул")["m0"]["bm25_norm"] is None


@pytest.mark.quick
def test_numbers_are_in_no_other_letters() -> None:
    rows = traced(mk.Retriever(encoder=Bilingual()).fit(corpus([*TEXTS, '"y": 1689, "x": 1690', "茶"])), "пул")
    assert rows["m5"]["vector"] is not None
    assert (rows["m5"]["bm25_norm"], rows["m0"]["bm25_norm"] > 0) == (None, True)
    assert rows["m6"]["bm25_norm"] is not None  # a word, in letters of its own


def test_what_shares_a_word_as_well_never_loses_by_it() -> None:
    texts = [*TEXTS, "error E4021 in the pool"]
    search = mk.Retriever(encoder=Bilingual()).fit(corpus(texts))
    with_meaning, alone = (
        traced(search.with_params(across_weight=w), "E4021 пула")["m5"]["bm25_norm"] for w in (0.6, 0.0)
    )
    assert with_meaning > alone > 0


def test_a_name_is_found_by_what_it_sounds_like() -> None:
    texts = ["We met in Warsaw", "We met in Berlin", "Встреча была весной"]
    search = mk.Retriever(encoder=Bilingual(), across_weight=0.25, gram_weight=0.0).fit(corpus(texts))
    rows = traced(search, "варшава")
    assert rows["m0"]["bm25_norm"] > 0.1 > rows["m1"]["bm25_norm"]


def test_a_word_in_other_letters_counts_in_a_chunk_in_the_letters_of_the_question() -> None:
    texts = ["Выкатили Python на стенд", "Выкатили сборку на стенд", *TEXTS]
    search = mk.Retriever(encoder=Bilingual(), across_weight=0.25).fit(corpus(texts))
    rows = traced(search, "питон на стенде")
    assert rows["m0"]["bm25"] == pytest.approx(rows["m1"]["bm25"], rel=0.1)
    assert rows["m0"]["bm25_norm"] > 1.2 * rows["m1"]["bm25_norm"]
    without = traced(search.with_params(across_weight=0.0), "питон на стенде")
    assert without["m0"]["bm25_norm"] == pytest.approx(without["m1"]["bm25_norm"], rel=0.1)
    assert rows["m1"]["bm25_norm"] == without["m1"]["bm25_norm"]


def test_a_word_that_the_corpus_writes_in_the_letters_of_the_question_is_not_looked_for_in_others_beside_them() -> None:
    texts = ["Выкатили Python на стенд", "Выкатили сборку на стенд", "питон это змея", *TEXTS]
    search = mk.Retriever(encoder=Bilingual(), gram_weight=0.0).fit(corpus(texts))
    rows = traced(search, "питон на стенде")
    assert rows["m0"]["bm25_norm"] == pytest.approx(rows["m1"]["bm25_norm"], rel=0.1)


def test_an_encoder_that_was_not_measured_on_words_is_not_asked_for_them() -> None:
    search = mk.Retriever(encoder="hash", across_weight=0.5).fit(corpus())
    assert search.index_.vocabulary is None
    row = traced(search, "пул")["m0"]
    assert row["bm25_norm"] == pytest.approx(0.5 * row["vector_norm"])


def test_words_are_not_searched_by_meaning_where_vectors_have_no_weight() -> None:
    search = mk.Retriever(encoder=Bilingual()).fit(corpus()).with_params(vector_weight=0.0, gram_weight=0.0)
    assert search.search("пул", as_of=DAY).num_rows == 0


def test_settings_over_what_was_found_and_a_refit_give_what_a_search_gives() -> None:
    search = mk.Retriever(encoder=Bilingual()).fit(corpus())
    ranked = search.ask(["пул", "tea release"]).with_params(across_weight=0.9, pool=2).ranked()
    alone = search.with_params(across_weight=0.9, pool=2).ask(["пул", "tea release"]).ranked()
    assert ranked.score.tolist() == alone.score.tolist()
    more = corpus([*TEXTS, "a second pool", "второй пул"])
    again, fresh = search.fit(more), mk.Retriever(encoder=Bilingual()).fit(more)
    assert again.trace(["пул", "tea"], as_of=DAY).equals(fresh.trace(["пул", "tea"], as_of=DAY))


@pytest.mark.outside
def test_buckets_answer_as_one_index_does(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    words = ["pool", "пул", "tea", "чай", "cats", "реле", "release", "кот", "план", "friday", "python"]
    users = [f"u{i % 7}" for i in range(60)]
    texts = [" ".join(draw.choice(words, 1 + i % 5)) for i in range(60)]
    whole = mk.from_table({"memory_id": [f"m{i:02}" for i in range(60)], "text": texts, "user_id": users})
    whole.save(tmp_path / "lake", buckets=3)
    whole_index = mk.Retriever(encoder=Bilingual()).fit(whole)
    in_buckets = mk.Retriever(encoder=Bilingual()).fit(mk.open(tmp_path / "lake", trust=True))
    queries = ["пул", "the tea of friday", "реле чая", "план на питоне"]
    a, b = (search.search(queries, k=10, as_of=DAY) for search in (whole_index, in_buckets))
    assert a["memory_id"].equals(b["memory_id"])
    assert a["score"].to_pylist() == pytest.approx(b["score"].to_pylist(), abs=1e-9)


def test_the_terms_most_alike_come_with_their_cosine_and_function_words_are_none() -> None:
    search = mk.Retriever(encoder=Bilingual()).fit(corpus())
    vocabulary = search.index_.vocabulary
    assert isinstance(vocabulary, Vocabulary)
    (pool,), (nothing,) = vocabulary.similar_terms(["пул"], 1), vocabulary.similar_terms(["the"], 0)
    assert pool == (("pool", 1.0),)
    assert nothing == ()


@pytest.mark.parametrize("query", ["", "  ", "池", "ПУЛ\x00", "the и", "1234", "a" * 5000])
def test_any_text_may_be_asked(query: str) -> None:
    search = mk.Retriever(encoder=Bilingual()).fit(corpus())
    assert search.search(query, as_of=DAY).num_rows >= 0


def test_the_terms_that_are_heard_are_those_that_a_look_at_every_term_finds() -> None:
    draw = np.random.default_rng(5)
    latin = ["python", "phyton", "schema", "shema", "xenon", "ksenon", "cinema", "kinema", "ßalat", "ĳssel", "thomas"]
    cyrillic = ["питон", "схема", "ксенон", "синема", "кинема", "эйссел", "томас", "ётун", "цезарь", "щавель", "ььь"]
    for letters, words in (("abcehikopqstwxyz", latin), ("авкопстхцчшщыьё", cyrillic)):
        words += ["".join(draw.choice(list(letters), draw.integers(3, 9))) for _ in range(300)]
    chunks = pa.table({"chunk_id": ["0", "1"]})
    arm = BM25(analyzer="none").fit(chunks, [" ".join(latin), " ".join(cyrillic)])
    known = Vocabulary(arm, None, 1.0, {})
    for script, (words, other_script) in enumerate(((latin, cyrillic), (cyrillic, latin))):
        terms = {other.replace("ё", "е") for other in other_script}
        for word, heard in zip(words, known.phonetic(words, script), strict=True):
            stem = word.replace("ё", "е")
            every = ((term, round(phonetic_similarity(sound(stem), sound(term)), 3)) for term in terms)
            best = sorted((-share, term) for term, share in every if share >= 0.85)
            assert list(heard) == [(term, -share) for share, term in best[:3]]


def test_after_an_edit_only_the_new_words_are_asked_for() -> None:
    encoder = Asked("asked")
    search = mk.Retriever(encoder=encoder).fit(corpus())
    search.search("чай", as_of=DAY)
    assert len(encoder.documents) > len(TEXTS)
    encoder.documents.clear()
    search.arms_["vector"].cache_.clear()
    after = corpus([*TEXTS, "a warm samovar"])
    trace = search.fit(after).trace("чай", as_of=DAY)
    assert sorted(text for text in encoder.documents if " " not in text) == ["samovar", "warm"]
    assert trace.equals(mk.Retriever(encoder=Asked("asked")).fit(after).trace("чай", as_of=DAY))


def test_only_terms_in_sight_stand_for_a_word() -> None:
    rows = {
        "text": ["наш сервер pytton", "ваш сервер python", "ваш сервер pyton", "ваш сервер pithon", "тут питон живёт"],
        "user_id": ["u", "v", "v", "v", "v"],
        "memory_id": [f"m{i}" for i in range(5)],
    }
    search = mk.Retriever(encoder=Bilingual(), gram_weight=0.0).fit(mk.from_table(rows))

    def words_score(**scope: Any) -> float:
        trace = search.trace("питон", as_of=DAY, **scope).to_pylist()
        return next(row["bm25_norm"] or 0.0 for row in trace if row["memory_id"] == "m0")

    assert words_score(user_id="u") > 0  # the user sees neither the word nor the three terms that sound more alike
    assert words_score(user_id="v") == 0
    assert words_score() == 0  # the word is known
    assert words_score(where="memory_id <> 'm4'") == 0  # three others are more alike
    assert words_score(where="memory_id in ('m0', 'm1')") > 0


@pytest.mark.parametrize(("n_texts", "at_fit", "at_first"), [(2, 0, 2), (40, 3, 0)], ids=["few texts", "many"])
def test_terms_are_encoded_at_fit_where_the_texts_take_ten_times_as_long_else_the_most_frequent_with_a_question(
    n_texts: int, at_fit: int, at_first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(across, "_FEWEST", 2)
    encoder = Asked(f"counting {n_texts}")
    # Three terms take as long as 75 words of texts, and a text has seven.
    texts = [f"{'электричка паровозная путеводная ' * 2}{number}" for number in range(n_texts)]
    search = mk.Retriever(encoder=encoder).fit(corpus(texts))
    fitted = len(encoder.documents)
    search.search("train", as_of=DAY)
    assert (fitted, len(encoder.documents)) == (n_texts + at_fit, n_texts + at_fit + at_first)
