from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from pathlib import Path

import bm25s
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

import memkit as mk
from memkit.base.duck import session
from memkit.base.params import Estimator
from memkit.errors import NotFittedError, ParameterError, StaleIndexError
from memkit.index import postings
from memkit.index.lexical import BM25, CharGrams, Grams, plain_letters
from memkit.text import analyse as occurrences
from memkit.text.analyse import ANALYSERS, Analyser, analyse_sql, load_fts

CORPUS = [
    "Пул соединений настроен на десять",
    "Пулы потоков, память и ещё память",
    "The pool of connections, error E4021",
    "release_notes за 2025 год, snake_case",
    "ёлка и Ёлка",
    "東京タワーの話",
    "ภาษาไทย",
    "שָׁלוֹם עולם",
    "हिन्दी भाषा",
    "λόγος",
    "deploy 🚀",
    "",
]
WORDS = ["кот", "пёс", "пул", "connection", "pool", "2025", "и", "the"]
DOCUMENTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12)
ARMS = [BM25(), CharGrams(), Grams()]


def chunks(count: int) -> pa.Table:
    return pa.table({"chunk_id": [f"c{row}" for row in range(count)]})


def fitted(texts: list[str], arm: Estimator | None = None) -> BM25:
    copied = copy.deepcopy(arm) if arm is not None else BM25()
    return copied.fit(chunks(len(texts)), pa.array(texts, pa.string()))  # type: ignore[attr-defined]  # each arm has fit


def hits(arm: BM25, query: str, n: int = 10, allowed: np.ndarray | None = None) -> list[tuple[int, float]]:
    table = arm.candidates([query], n, allowed)
    return list(zip(table["row"].to_pylist(), table["score"].to_pylist(), strict=True))


def naive(texts: list[str], query: str, k1: float = 1.2, b: float = 0.75) -> dict[int, float]:
    """BM25 as its formula stands, one document after the other."""
    documents = [Counter(terms) for terms in Analyser("auto").terms(texts)]
    mean = sum(map(sum, (d.values() for d in documents))) / len(documents)
    scores = dict.fromkeys(range(len(texts)), 0.0)
    for term in set(Analyser("auto").terms([query])[0]):
        df = sum(term in document for document in documents)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        for row, document in enumerate(documents):
            if tf := document[term]:
                scores[row] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * sum(document.values()) / mean))
    return {row: score for row, score in scores.items() if score > 0}


@settings(max_examples=15)
@given(texts=DOCUMENTS, query=st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join))
def test_scores_equal_the_naive_formula_and_come_best_first(texts: list[str], query: str) -> None:
    scored = hits(fitted(texts), query, n=100)
    assert dict(scored) == pytest.approx(naive(texts, query), rel=1e-5)
    assert scored == sorted(scored, key=lambda hit: (-hit[1], hit[0]))


@pytest.mark.quick
@pytest.mark.parametrize(("k1", "b"), [(0.0, 0.75), (1.2, 0.0), (2.0, 1.0)])
def test_k1_and_b_do_as_the_formula_says(k1: float, b: float) -> None:
    arm = fitted(CORPUS, BM25(k1=k1, b=b))
    assert dict(hits(arm, "память пула и 2025")) == pytest.approx(naive(CORPUS, "память пула и 2025", k1, b), rel=1e-6)


@pytest.mark.quick
def test_scores_are_match_bm25_times_the_natural_logarithm_of_ten() -> None:
    with mk.from_table({"text": CORPUS}).connect() as con:
        for query in ("пул соединений", "память память E4021", "елка snake_case", "東京 ภาษา"):
            theirs = con.execute("from fts(?, k := 100)", [query]).fetchall()
            ours = hits(fitted(CORPUS), query, 100)
            assert [str(row) for row, _ in ours] == [name for name, _ in theirs]
            assert [s for _, s in ours] == pytest.approx([s * math.log(10) for _, s in theirs], rel=1e-6)


@pytest.mark.quick
def test_scores_are_those_of_bm25s() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(200)]
    theirs = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    theirs.index(Analyser("auto").terms(texts), show_progress=False)
    arm = fitted(texts)
    for query in ("кот и пул", "pool connection 2025"):
        expected = theirs.get_scores(Analyser("auto").terms([query])[0])
        ours = np.zeros(len(texts))
        for row, score in hits(arm, query, 200):
            ours[row] = score
        # bm25s leaves out the constant factor k1 + 1, as Lucene does.
        assert ours == pytest.approx(expected * (1.2 + 1), rel=1e-4)


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("соединение", 0),
        ("потоки", 1),
        ("E4021", 2),
        ("e4021", 2),
        ("2025", 3),
        ("snake", 3),
        ("елки", 4),
        ("タワー", 5),
        ("ไทย", 6),
        ("שָׁלוֹם", 7),
        ("भाषा", 8),
        ("ΛΌΓΟΣ", 9),
        ("🚀", 10),
    ],
)
def test_every_script_is_found(arm: Estimator, query: str, row: int) -> None:
    assert hits(fitted(CORPUS, arm), query)[0][0] == row


@pytest.mark.parametrize("analyzer", ANALYSERS)
def test_terms_are_counted_as_one_sql_statement_counts_them(analyzer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for blocks in ("_BLOCK", "_PIECES"):
        monkeypatch.setattr(occurrences, blocks, 3)  # of texts, pieces and words, so that there are many
    corpus = [*CORPUS, "«Чай», (мёд)… a “pot”—x_y!", "чай\u00a0東京 'cafe\u0301' — don't <\u0338чай> #чай# ..."]
    with session() as con:
        load_fts(con)
        con.register("bodies", pa.table({"doc": range(len(corpus)), "body": corpus}))
        each = f"select doc, unnest({analyse_sql('body', analyzer)}) as term from bodies"  # noqa: S608  # no data in it
        expected = con.execute(f"select doc, term, count(*) as tf from ({each}) group by all").fetchall()  # noqa: S608  # as above
    monkeypatch.setattr(occurrences, "_AT_ONCE", 5)
    for few_terms in (occurrences._FEW_TERMS, 0):  # by sorting, and by products of five occurrences each
        monkeypatch.setattr(occurrences, "_FEW_TERMS", few_terms)
        counted = postings.Postings.count(corpus, analyzer)
        assert list(counted.terms) == sorted({term for _, term, _ in expected})
        lists = {term: counted.postings_of(number) for term, number in counted.terms.items()}
        assert sorted(expected) == sorted(
            (int(row), term, int(count)) for term, of_term in lists.items() for row, count in zip(*of_term, strict=True)
        )


def test_a_text_has_the_grams_of_all_its_letters_whatever_blanks_and_marks_stand_between() -> None:
    marks = [*"\u00a0\u3000\x1c\u2028\u0301\u00b4\u00ad\u00bd-.", " \u0301", "\u0301 "]
    texts = [
        f"{left}{mark}{right}" for left, right in (("e", "ёж"), ("ＧＩＳ", "東京"), ("_", "2ГИС")) for mark in marks
    ]
    counted = fitted(texts, Grams()).postings_
    counts: list[Counter[str]] = [Counter() for _ in texts]
    for term, number in counted.terms.items():
        for row, count in zip(*counted.postings_of(number), strict=True):
            counts[row][term] = int(count)
    assert counts == [Counter(terms) for terms in Analyser("char").terms(list(map(plain_letters, texts)))]


def test_rows_take_two_bytes_while_they_fit_also_after_an_edit() -> None:
    texts, every = [f"чай {row % 7}" for row in range(2**16 + 1)], np.arange(2**16 + 1)
    few, many, last, none = (postings.Postings.count(some, "auto") for some in (texts[:-1], texts, texts[-1:], []))
    for former, rows, delta, expected in ((few, every, last, many), (many, every[:-1], none, few)):
        after = postings.updated(former, rows, delta)
        assert after is not None
        assert after.rows.dtype == expected.rows.dtype == (np.uint16 if expected is few else np.int32)
        assert after.rows.tolist() == expected.rows.tolist()
        after.weigh(np.array([0, 2]), lambda *of: of[-1])
        assert after.scores((np.array([0, 2]), np.ones(2, np.float32))).tolist() == np.isin(rows % 7, [0, 2]).tolist()


def test_matrices_of_counts_have_places_of_32_bits() -> None:
    counts = occurrences._Numbers(np.array([0, 2, 3], np.int64), np.array([0, 1, 1], np.int32)).matrix(2, np.uint8)
    assert counts.toarray().tolist() == [[1, 1], [0, 1]]
    assert {part.dtype for part in (counts.indices, counts.indptr, (counts @ counts).indices)} == {np.dtype(np.int32)}


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
@pytest.mark.parametrize("query", ["", " ", "?!", "___", "q" * 10_000])
def test_a_query_without_known_words_finds_nothing_in_the_right_columns(arm: Estimator, query: str) -> None:
    candidates = fitted(CORPUS, arm).candidates([query], 5)
    assert candidates.equals(postings.CANDIDATES.empty_table())


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
@pytest.mark.parametrize("texts", [[], [""], ["", "?!"]])
def test_a_corpus_without_words_finds_nothing(arm: Estimator, texts: list[str]) -> None:
    assert fitted(texts, arm).candidates(["пул", ""], 5).num_rows == 0


def test_no_queries_make_no_rows() -> None:
    assert fitted(CORPUS).candidates([], 5).equals(postings.CANDIDATES.empty_table())


def test_one_document_and_terms_of_all_documents_score_above_zero() -> None:
    assert hits(fitted(["кот"]), "кот")[0][1] == pytest.approx(math.log(1 + 0.5 / 1.5))
    assert [score > 0 for _, score in hits(fitted(["кот", "кот и пёс"]), "кот")] == [True, True]


def test_with_k3_of_0_a_term_counts_once_however_often_the_query_repeats_it() -> None:
    arm = fitted(CORPUS, BM25(k3=0))
    assert hits(arm, "пул пул пулы") == hits(arm, "пул")


@pytest.mark.parametrize("k3", [7.0, 1000.0])
def test_a_repeated_term_counts_as_k3_says(k3: float) -> None:
    arm = fitted(CORPUS, BM25(k3=k3))
    once, thrice = hits(arm, "пул"), hits(arm, "пул пулы пул")
    assert [row for row, _ in once] == [row for row, _ in thrice]
    for (_, one), (_, three) in zip(once, thrice, strict=True):
        assert three == pytest.approx(one * 3 * (k3 + 1) / (3 + k3), rel=1e-6)


def test_grams_are_scikit_learns_cosine_over_plain_letters() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, query = ["memory settings", "cat sleeps", "memories of cats"], "memory of a cat"
    counted = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True).fit(texts)
    expected = (counted.transform(texts) @ counted.transform([query]).T).toarray()[:, 0]
    score_of = dict(hits(fitted(texts, Grams()), query))
    assert [score_of.get(row, 0.0) for row in range(3)] == pytest.approx(expected, abs=1e-6)
    cyrillic = dict(hits(fitted(["мемори settings", "кат sleeps", "memories оф cats"], Grams()), query))
    assert cyrillic.keys() == score_of.keys()


def test_ties_are_broken_by_row_and_more_than_there_are_may_be_asked() -> None:
    scored = hits(fitted(["пул"] * 7 + ["кот"]), "пул", n=1000)
    assert [row for row, _ in scored] == list(range(7))
    assert len({score for _, score in scored}) == 1


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
def test_a_filter_acts_before_the_cut(arm: Estimator) -> None:
    texts = ["пул пул пул"] * 50 + ["пул соединений и потоков"]
    allowed = np.arange(51) == 50
    assert [row for row, _ in hits(fitted(texts, arm), "пул", 1, allowed)] == [50]
    assert hits(fitted(texts, arm), "пул", 1, np.zeros(51, bool)) == []


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
def test_a_batch_is_its_queries_one_by_one(arm: Estimator) -> None:
    arm_over_corpus, queries = fitted(CORPUS, arm), ["пул", "", "память E4021", "ภาษา", "пул"]
    table = arm_over_corpus.candidates(queries, 3)
    for place, query in enumerate(queries):
        of_query = table.filter(pa.array(table["query"].to_numpy() == place))
        assert list(zip(of_query["row"].to_pylist(), of_query["score"].to_pylist(), strict=True)) == hits(
            arm_over_corpus, query, 3
        )


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
def test_what_was_saved_and_loaded_answers_alike(arm: Estimator, tmp_path: Path) -> None:
    saved = fitted(CORPUS, arm)
    saved.save(tmp_path)
    loaded = type(saved).load(tmp_path)
    assert loaded.candidates(CORPUS, 5).equals(saved.candidates(CORPUS, 5))
    assert loaded.get_params() == saved.get_params()
    assert {file.suffix for file in tmp_path.iterdir()} == {".parquet", ".npy"}


def test_a_fitted_arm_survives_a_pickle() -> None:
    arm = fitted(CORPUS)
    before = arm.candidates(["памяти"], 3)
    assert pickle.loads(pickle.dumps(arm)).candidates(["памяти"], 3).equals(before)  # noqa: S301  # its own bytes


def test_an_analyser_without_stems_keeps_inflections_apart() -> None:
    assert hits(fitted(CORPUS, BM25(analyzer="none")), "пулов") == []
    assert [row for row, _ in hits(fitted(CORPUS, BM25(analyzer="russian")), "поток connection")] == [1]


def test_char_grams_find_what_the_stemmer_misses() -> None:
    texts = ["память", "кот спит на окне"]
    assert hits(fitted(texts), "памяти") == []
    for query in ("памяти", "памть", "пaмять памяти"):
        assert hits(fitted(texts, CharGrams()), query)[0][0] == 0


def test_char_scores_are_the_mean_of_two_cosines_of_scikit_learn() -> None:
    texts = ["настройка памяти и память", "пулы соединений e4021", "кот спит", "память кота"]
    query = "настроить память кота"
    vectorizers = [
        TfidfVectorizer(analyzer=lambda text: Analyser("auto").terms([text])[0], sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True),
    ]
    cosines = [(v.fit_transform(texts) @ v.transform([query]).T).toarray().ravel() for v in vectorizers]
    score_of = dict(hits(fitted(texts, CharGrams()), query))
    assert [score_of.get(row, 0.0) for row in range(4)] == pytest.approx(sum(cosines) / 2, rel=1e-5)


@pytest.mark.parametrize("arm", ARMS, ids=["bm25", "char", "grams"])
def test_an_unfitted_arm_says_so(arm: Estimator) -> None:
    with pytest.raises(NotFittedError, match=r"Call fit\(chunks, texts\) first"):
        copy.deepcopy(arm).candidates(["пул"], 5)  # type: ignore[attr-defined]  # each arm has candidates


def test_wrong_arguments_are_named() -> None:
    arm = fitted(CORPUS)
    with pytest.raises(ParameterError, match=r"'n' must be an int in .*Got 0"):
        arm.candidates(["пул"], 0)
    with pytest.raises(ParameterError, match=r"boolean mask of shape \(12,\). Got int64 \(3,\)"):
        arm.candidates(["пул"], 5, np.arange(3))
    with pytest.raises(ParameterError, match=r"a text for each of 2 chunks. Got 1 texts"):
        BM25().fit(chunks(2), ["пул"])
    with pytest.raises(ParameterError, match=r"'k1' must be a float in \[0, inf\). Got -1"):
        fitted(CORPUS, BM25(k1=-1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted(CORPUS).save(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["terms.parquet", "rows.npy", "counts.npy"])
def test_a_missing_file_is_told(folder: Path, name: str) -> None:
    (folder / f"bm25_{name}").unlink()
    with pytest.raises(StaleIndexError, match=rf"{name}: expected .*Fit"):
        BM25.load(folder)


def test_postings_of_another_index_are_refused(folder: Path) -> None:
    rows = np.load(folder / "bm25_rows.npy")
    for wrong, message in ((rows[1:], "do not belong together"), (rows * 0 + 99, "rows from 0 to 11 .* Got 99 to 99")):
        np.save(folder / "bm25_rows.npy", wrong)
        with pytest.raises(StaleIndexError, match=message):
            BM25.load(folder)


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), n=st.integers(1, 300), kinds=st.integers(1, 50))
def test_the_best_are_those_of_a_full_sort_also_with_many_ties(seed: int, n: int, kinds: int) -> None:
    scores = np.random.default_rng(seed).integers(0, kinds, 5000).astype(np.float32)
    rows, best = postings._top(scores, n)
    expected = np.lexsort((np.arange(5000), -scores))[:n]
    expected = expected[scores[expected] > 0]
    assert rows.tolist() == expected.tolist()
    assert best.tolist() == scores[expected].tolist()


def test_sums_without_scipys_loop_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = fitted(CORPUS)
    with_loop = arm.candidates(CORPUS, 5)
    monkeypatch.setattr(postings, "_adder", lambda _: postings._add)
    assert arm.candidates(CORPUS, 5).equals(with_loop)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_scipys_loop_adds_in_the_same_order_to_the_last_bit(seed: int) -> None:
    chance = np.random.default_rng(seed)
    sizes = chance.integers(1, 200, 30)
    rows = np.concatenate([np.sort(chance.permutation(300)[:size]) for size in sizes]).astype(np.int32)
    stops = np.cumsum(sizes)
    held, weights = (chance.random(n).astype(np.float32) for n in (len(rows), 30))
    order = chance.permutation(30)  # as terms lie that were weighed one after another
    sums = [np.zeros(300, np.float32), np.zeros(300, np.float32)]
    for add, scores in zip((postings._adder(2**31 - 1), postings._add), sums, strict=True):
        add(scores, rows, held, (stops - sizes)[order], stops[order], weights)
    assert sums[0].tolist() == sums[1].tolist()


def test_more_postings_than_scipys_loop_can_count_are_added_without_it() -> None:
    assert postings._adder(2**31) is postings._add
    assert postings._adder(2**31 - 1) is not postings._add


def test_pairs_across_words_are_not_missed_in_scripts_without_blanks() -> None:
    """Characters that stand alone in the query and in the texts: 提醒 and 晚了 occur, 醒晚 only in the question."""
    arm = BM25().fit(pa.table({"chunk_id": ["a", "b"]}), ["提醒来了，他晚了", "кот спит"])
    scale = arm.scale(["提醒晚了", "提醒", "晚了", "提醒，晚了"], None)[:, 1]
    assert scale[0] == pytest.approx(scale[1] + scale[2]) == pytest.approx(scale[3])
    assert arm.scale(["提醒晚鸟"], None)[0, 1] > scale[0]  # 鸟 and 晚鸟 occur nowhere
    assert arm.scale(["кит ит"], None)[0, 1] > arm.scale(["ит"], None)[0, 1] > 0


@pytest.mark.parametrize(("weight", "low", "high"), [(1.0, 0.5, 0.8), (0.1, 0.9, 1.0)])
def test_chinese_words_that_ask_are_not_what_is_asked_about(weight: float, low: float, high: float) -> None:
    """ "What is the aim of the trial" is answered as well as "aim of the trial" is, or nearly."""
    texts = ["试用目标：看三件事", "汇率是怎么算的", "什么时候"]
    arm = BM25().fit(pa.table({"chunk_id": ["a", "b", "c"]}), texts)
    question, bare = ["试用目标是什么"], ["试用目标"]
    shares = []
    for query in (question, bare):
        candidates = arm.candidates(query, n=3, function_word_weight=weight)
        score = dict(zip(candidates["row"].to_pylist(), candidates["score"].to_pylist(), strict=True))[0]
        shares.append(score / arm.scale(query, None, function_word_weight=weight)[0, 1])
    assert low < shares[0] / shares[1] < high
