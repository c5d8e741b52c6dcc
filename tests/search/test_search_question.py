"""One question, asked once, ranked under any settings as a search of its own would be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.base.params import Param
from memkit.errors import ParameterError
from memkit.search.ask import QuerySettings, Settings
from memkit.search.fitted.chunks import Index
from memkit.search.fitted.index import build
from memkit.search.retriever import Retriever
from memkit.search.show import bare_hits, hits_table, trace_table

DAY = "2026-03-01"
WORDS = ["пул", "кот", "чай", "pool", "tea", "friday"]
QUERIES = ["пул и чай", "friday tea", "кот", "ничего", ""]
SETTINGS = st.fixed_dictionaries(
    {
        "vector_weight": st.floats(0, 1),
        "bm25_weight": st.none() | st.floats(0.01, 1),
        "normalize": st.sampled_from(["max", "minmax", "rank", "none"]),
        "fusion": st.sampled_from(["weighted", "rrf"]),
        "rrf_k": st.integers(0, 80),
        "pool": st.integers(1, 20),
        "decay": st.sampled_from(["e_folding", "half_life", "linear", "gauss", "none"]),
        "decay_days": st.floats(1, 400),
        "decay_floor": st.floats(0, 1),
        "decay_kinds": st.sampled_from(["*", (), ("archive",)]),
        "min_score": st.floats(0, 0.6),
        "mmr_lambda": st.sampled_from([0.0, 0.4, 0.8, 1.0]),
        "unit": st.sampled_from(["memory", "chunk"]),
        "rerank": st.sampled_from([None, "hash"]),
        "rerank_n": st.integers(1, 12),
        "rerank_weight": st.floats(0, 1),
    }
)


@pytest.fixture(scope="module")
def corpus(corpus_of: Any) -> Any:
    rng = np.random.default_rng(7)
    rows = []
    for i in range(60):
        moment = datetime(2024 + i % 3, 1 + i % 12, 1, tzinfo=UTC) if i % 4 else None
        n_lines = 30 if i in (8, 40) else rng.integers(1, 4)  # two have more chunks than count
        text = "\n".join(" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(n_lines))
        rows.append({"text": text, "created_at": moment, "user_id": f"u{i % 3}", "importance": "normal"})
    return corpus_of(*rows)


@pytest.fixture(scope="module")
def search(corpus: Any) -> Retriever:
    return Retriever(encoder="hash", index=Index(chunk_tokens=8, overlap_tokens=0), pool=20).fit(corpus)


@settings(max_examples=15)
@given(values=SETTINGS, k=st.integers(1, 12), where=st.sampled_from([None, "user_id = 'u1'"]))
def test_any_setting_over_one_asking_is_what_its_own_search_gives(
    search: Retriever, values: dict[str, Any], k: int, where: str | None
) -> None:
    if values["vector_weight"] == 0 and values["bm25_weight"] is None:
        values["bm25_weight"] = 1.0
    question = search.ask(QUERIES, k, where=where, as_of=DAY)
    alone = search.with_params(**values)
    hits = alone.search(QUERIES, k, where=where, as_of=DAY)
    assert hits_table(question.with_params(**values)).equals(hits, check_metadata=True)
    bare, why_none = bare_hits(question.with_params(**values))
    assert bare.equals(hits.select(bare.column_names).replace_schema_metadata(None), check_metadata=True)
    assert why_none == ("" if hits.num_rows else hits.schema.metadata[b"note"].decode())
    assert trace_table(question.with_params(**values)).equals(
        alone.trace(QUERIES, k, where=where, as_of=DAY), check_metadata=True
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pool": 21}, "with a pool of 20. Got {'pool': 21}"),
        ({"expired": "keep"}, "ask again"),
        ({"kinds_hidden": ()}, "ask again"),
        ({"decay_days": 0}, "'decay_days' must be"),
        ({"encoder": "use"}, "no parameter 'encoder'"),
    ],
)
def test_what_the_arms_were_not_asked_for_is_refused(
    search: Retriever, values: dict[str, object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message.replace("{", r"\{")):
        search.ask("пул", as_of=DAY).with_params(**values)


@pytest.mark.quick
def test_an_arm_that_had_no_weight_was_not_asked(search: Retriever) -> None:
    with pytest.raises(ParameterError, match="for the candidates of bm25, gram"):
        search.with_params(vector_weight=0.0).ask("пул").with_params(vector_weight=0.5)


@pytest.mark.quick
def test_a_question_keeps_its_settings_whatever_becomes_of_the_retriever(search: Retriever) -> None:
    other = search.with_params(min_score=0.1)
    question = other.ask("пул", as_of=DAY)
    expected = question.ranked().score.tolist()
    other.set_params(min_score=0.9, vector_weight=0.0)
    assert question.settings.min_score == 0.1
    assert question.ranked().score.tolist() == expected
    with pytest.raises(AttributeError, match=r"are immutable\. Got 'min_score'"):
        question.settings.min_score = 0.5  # type: ignore[misc]  # what the test is about


def test_likeness_does_not_depend_on_what_was_asked_before(corpus: Any) -> None:
    retriever = Retriever(encoder="hash", vector_weight=0.0, mmr_lambda=0.3).fit(corpus)
    expected = retriever.search(QUERIES, as_of=DAY)
    retriever.with_params(vector_weight=0.5).search(QUERIES, as_of=DAY)
    assert retriever.search(QUERIES, as_of=DAY).equals(expected)


def test_each_parameter_of_the_retriever_is_declared_once_and_acts_when_it_says() -> None:
    def declared(owner: type[Any]) -> dict[str, Param]:
        return dict(owner.params())

    fit, query = declared(Index), declared(QuerySettings)
    assert declared(Retriever).keys() - query.keys() == {"encoder", "index"}
    assert {name: p for name, p in declared(Retriever).items() if name in query} == query
    listed = {*query, "encoder", *(f"index__{name}" for name in fit if name != "encoder")}
    assert Retriever.all_params().keys() == listed
    assert not fit.keys() & query.keys()
    assert all(p.refit for p in fit.values())
    assert not any(p.refit for p in query.values())
    assert Settings.from_estimator(Retriever(pool=7)).get_params() == QuerySettings(pool=7).check_params()


def test_a_question_in_words_of_the_corpus_asks_nobody_for_stems_and_reads_its_dates_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {"text": ["Соединениям пула всегдашним верили", "чай"], "created_at": ["2026-01-01"] * 2}
    search, read = Retriever(encoder=None, gram_weight=0.0).fit(mk.from_table(rows)), list[str]()
    monkeypatch.setattr("memkit.text.analyse.Analyser._ask", lambda *_: pytest.fail("a word was stemmed anew"))
    monkeypatch.setattr("memkit.search.ask.in_days", lambda text, day: read.append(text) or text)
    assert search.search("всегдашним соединениям верили", as_of=DAY).num_rows == 1
    assert read == ["всегдашним соединениям верили"]


def test_nothing_is_compared_with_a_moment_after_the_last_memory() -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "кот"], "created_at": ["2026-02-01", None]})
    rows = build(corpus, Index(encoder=None)).rows
    before, after = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
    assert (rows.has_later(before), rows.has_later(after)) == (True, False)
    is_future = rows.future(before)
    assert is_future is not None
    assert (is_future.tolist(), rows.future(after)) == ([True, False], None)
