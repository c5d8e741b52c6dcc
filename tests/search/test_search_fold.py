"""Folding of what says nearly the same, and the weights of kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ParameterError
from memkit.schemas import Ints
from memkit.search.alike import NearPairs, Repeats, _shared_bits, collapse
from memkit.search.retriever import Retriever
from memkit.search.show import _collapsed, explain
from memkit.search.steps.fuse import answerability
from memkit.tables.owners import Owners
from memkit.text.conflicts import Conflicts

DAY = "2026-03-01"
SAID = "Пул соединений держит десять, так решили"


def fold(texts: list[str], threshold: float) -> Ints:
    """Under which text each of them folds, the best first; its own place where it stays."""
    places = np.arange(len(texts))
    (near,) = NearPairs.among(
        Repeats(list(texts), Owners.of(pa.table({"text": list(texts)}))), [places], threshold, [places]
    )
    if near is None:
        return places
    key = len(texts) - 1 - near.rows[:, None]
    under = collapse(key, np.ones(key.shape, bool), near, np.array([threshold]))
    places[near.rows] = len(texts) - 1 - under[:, 0]
    return places


@pytest.mark.quick
@pytest.mark.parametrize("density", [0.0, 0.07, 1.0])
def test_two_texts_share_the_bits_that_both_have(density: float) -> None:
    bits = np.random.default_rng(1).random((40, 2048)) < density
    shared = bits.astype(int) @ bits.T.astype(int)
    left, right = np.triu_indices(40, 1)
    assert _shared_bits(np.packbits(bits, axis=1), left, right).tolist() == shared[left, right].tolist()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("other", "folds"),
    [
        ("пул соединений держит десять - так решили", True),
        ("Пул соединений держит пять, так решили", False),
        ("Пул соединений не держит десять, так решили", False),
        ("Пул соединений держит десять, так решили 5 марта", False),
        ("Зелёный чай", False),
        ("", False),
    ],
)
def test_what_says_the_same_folds_unless_a_number_date_or_negation_differs(other: str, folds: bool) -> None:
    assert fold([SAID, other], 0.8).tolist() == [0, 0 if folds else 1]


def test_near_duplicates_of_many_questions_at_once_are_those_of_each_alone() -> None:
    texts = [SAID, "Зелёный чай", SAID.lower(), "зелёный чай", "Зелёный чай, пять", SAID.upper()]
    questions = [np.array(some, np.int64) for some in ([0, 2, 5], [1, 3, 4], [0, 1], [4, 3, 1, 0, 2], [])]

    def among(repeats: Repeats, some: list[Ints]) -> list[Any]:
        found = NearPairs.among(repeats, some, 0.8, some)
        return [near and (near.rows.tolist(), near.shared.tolist(), near.most.tolist()) for near in found]

    def repeats() -> Repeats:
        return Repeats(texts, Owners.of(pa.table({"text": texts})))

    alone, once = [among(repeats(), [some])[0] for some in questions], repeats()
    assert [near is None for near in alone] == [False, False, True, False, True]
    assert among(once, questions) == alone
    assert among(once, [*reversed(questions), *questions]) == [*reversed(alone), *alone]  # some are kept


@pytest.mark.parametrize("params", [{}, {"decay_kinds": "*", "decay_days": 20.0}, {"mmr_lambda": 0.5}])
def test_hits_are_those_of_a_ranking_in_which_all_candidates_are_folded(params: dict[str, Any]) -> None:
    said = ["Пул соединений держит десять", "Чай в пул соединений не идёт", *(f"Пул держит чай {n}" for n in range(20))]
    rows = np.random.default_rng(4).integers(0, (22, 9, 28), (90, 3)).tolist()
    table = {"text": [said[a] + "!" * b for a, b, _ in rows], "created_at": [f"2026-02-{1 + c:02}" for *_, c in rows]}
    search = Retriever(encoder=None, **params).fit(mk.from_table(table))
    for k in (1, 3, 12):
        question = search.ask(["пул соединений держит десять", "чай"], k, as_of=DAY)
        few, whole = question.ranked(k), question.ranked()
        assert _shown(question, few) == _shown(question, whole)


def _shown(question: Any, ranked: Any) -> list[Any]:
    shown = ranked.returned()
    alike = [column.to_pylist() for column in _collapsed(question, ranked, shown).values()]
    likely = answerability(ranked, question.settings, 2)
    return [*alike, *(values.tolist() for values in (shown.candidates.row, shown.score, shown.rank, likely))]


def test_a_question_compares_only_what_may_be_a_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, likely = list[int](), Repeats.likely
    monkeypatch.setattr(Repeats, "likely", lambda *asked: compared.append(len(asked[1])) or likely(*asked))
    search = Retriever(encoder=None).fit(mk.from_table({"text": ["чай" + " и ещё" * n for n in range(60)]}))
    search.search("чай", 1)
    assert sum(compared) < 50 * 49 / 4
    search.trace("чай", 1)
    assert compared[-1] == 50 * 49 / 2


def _says_the_same(one: str, other: str, threshold: float) -> bool:
    plain = [f"{' '.join(text.casefold().split()):\0<3}" for text in (one, other)]
    a, b = ({text[start : start + 3] for start in range(len(text) - 2)} for text in plain)
    return len(a & b) >= threshold * (len(a) * len(b)) ** 0.5 and not any(Conflicts()(one, other))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text("aAбБ \n\x00İς🙂你", max_size=30), max_size=7), st.floats(0.5, 1), st.data())
def test_folding_is_what_sets_of_trigrams_say_text_by_text(texts: list[str], threshold: float, data: Any) -> None:
    texts += [text + data.draw(st.text("aб ", max_size=3)) for text in texts]
    stays: list[int] = []
    folded = fold(texts, threshold)
    for i, text in enumerate(texts):
        above = [one for one in stays if _says_the_same(texts[one], text, threshold)]
        assert folded[i] == (above or [i])[0]
        stays += [] if above else [i]


ROWS = [SAID, SAID + "!", "чай", SAID, {"text": SAID + ".", "user_id": "u2"}, "кофе"]
ANSWERS = {"q": {0: 9.0, 1: 8.0, 2: 7.0, 3: 6.0, 4: 5.0, 5: 4.0}}


@pytest.mark.quick
def test_hits_carry_what_is_folded_under_them_and_the_next_ones_move_up(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25=ANSWERS, encoder=None, fold="near")
    hits = search.search("q", as_of=DAY)
    assert hits["memory_id"].to_pylist() == ["m0", "m2", "m4", "m5"]  # m4 is another owner's
    assert hits["alike"].to_pylist() == [["m1", "m3"], [], [], []]
    assert hits["n_alike"].to_pylist() == [2, 0, 0, 0]
    by_id = dict(zip(*(search.trace("q", as_of=DAY)[c].to_pylist() for c in ("memory_id", "disposition")), strict=True))
    assert [by_id[f"m{i}"] for i in (1, 3, 4)] == ["folded", "duplicate", "returned"]
    sentence = explain(search, "q", "m1", as_of=DAY)
    assert "but it is a near-duplicate of 'm0', which ranks above it (fold)." in sentence
    assert "with fold='none'" in sentence


def test_the_first_hits_do_not_depend_on_k_and_folding_off_keeps_all_but_repetitions(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25=ANSWERS, encoder=None, fold="near")
    whole = search.search("q", k=6, as_of=DAY)
    for k in range(1, 6):
        assert search.search("q", k=k, as_of=DAY).equals(whole.slice(0, k))
    off = search.with_params(fold="none").search("q", as_of=DAY)
    assert off["memory_id"].to_pylist() == ["m0", "m1", "m2", "m4", "m5"]
    assert off["alike"].to_pylist()[0] == ["m3"]


def test_a_kind_weighs_what_it_is_given(retriever_over: Any) -> None:
    rows = [{"text": "a", "kind": "daily_log"}, {"text": "b", "kind": "long_term"}, "c"]
    search = retriever_over(rows, bm25={"q": {0: 4.0, 1: 3.0, 2: 2.0}}, encoder=None, normalize="max")
    weighed = search.with_params(kind_weights={"daily_log": 0.5})
    trace = weighed.trace("q", as_of=DAY).to_pylist()
    assert [(row["memory_id"], row["prior"], row["score"]) for row in trace] == [
        ("m1", 1.0, 0.75),
        ("m0", 0.5, 0.5),
        ("m2", 1.0, 0.5),
    ]
    assert "times 0.50 for its kind" in explain(weighed, "q", "m0", as_of=DAY)


@pytest.mark.parametrize("wrong", [{"daily_log": 2.0}, {"daily_log": -1}, {"daily_log": "much"}, 0.5, {3: 0.5}])
def test_a_weight_of_a_kind_is_a_ratio(retriever_over: Any, wrong: Any) -> None:
    with pytest.raises(ParameterError, match="kind_weights"):
        retriever_over(["a"], encoder=None, kind_weights=wrong)


def test_the_day_and_the_headings_above_do_not_keep_repetitions_apart(corpus_of: Any) -> None:
    days = [datetime(2026, 2, day, tzinfo=UTC) for day in (1, 2, 3)]
    texts = [SAID, SAID, SAID + "!"]
    rows = [
        {"text": text, "created_at": day, "heading_path": f"Журнал {'абв'[i]}"}
        for i, (text, day) in enumerate(zip(texts, days, strict=True))
    ]
    search = Retriever(encoder=None, decay="none").fit(corpus_of(*rows, {"text": " ", "created_at": days[0]}))
    hits = search.search("пул соединений", as_of=DAY)
    assert hits["n_alike"].to_pylist() == [2]
    assert search.search("1 февраля", as_of=DAY)["memory_id"].to_pylist()[0] == "m0"
    assert "m3" not in search.search("1 февраля", as_of=DAY)["memory_id"].to_pylist()
