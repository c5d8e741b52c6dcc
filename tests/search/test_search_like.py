"""More like this: a memory as a query, through the stages of every other; never itself, never what is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memkit as mk
from memkit.errors import NotFoundError, ParameterError
from memkit.search.retriever import STRONGEST

POOL = "Пул соединений базы держит десять соединений"
ROWS: list[dict[str, Any]] = [
    {"memory_id": "pool", "text": POOL, "user_id": "anna", "created_at": "2026-01-05"},
    {"memory_id": "pool-again", "text": f"{POOL}!", "user_id": "anna", "created_at": "2026-01-06"},
    {
        "memory_id": "leak",
        "text": "Утечка: соединения с базой не закрыты",
        "user_id": "anna",
        "created_at": "2026-02-01",
    },
    {"memory_id": "theirs", "text": "Соединения с базой рвутся ночью", "user_id": "boris", "created_at": "2026-02-02"},
    {"memory_id": "shared", "text": "База переехала, соединения прежние", "user_id": None, "created_at": "2026-02-03"},
    {"memory_id": "tea", "text": "Зелёный чай вкуснее чёрного", "user_id": "anna", "created_at": "2026-02-04"},
    {"memory_id": "later", "text": "База базе рознь: соединения общие", "user_id": "anna", "created_at": "2026-05-01"},
]
DAY = "2026-03-01"


def table(rows: list[dict[str, Any]]) -> mk.Corpus:
    columns = {name: [row.get(name) for row in rows] for name in {name: None for row in rows for name in row}}
    return mk.from_table(columns)


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(table(ROWS))


def ids(hits: Any) -> list[str]:
    return list(hits["memory_id"].to_pylist())


def note(hits: Any) -> str:
    return str(hits.schema.metadata[b"note"].decode())


@pytest.mark.quick
def test_a_memory_finds_what_is_like_it_and_neither_itself_nor_its_copies(search: mk.Retriever) -> None:
    hits = search.like("pool", k=3, as_of=DAY)
    assert set(ids(hits)) == {"leak", "theirs", "shared"}
    assert hits["query_id"].to_pylist() == ["pool"] * 3
    assert "'pool-again'" in note(hits)
    assert ids(search.with_params(fold="none").like("pool", k=1, as_of=DAY)) == ["pool-again"]
    assert b"answerability" not in hits.schema.metadata  # a memory is no question


@pytest.mark.quick
def test_no_memory_finds_itself_under_any_setting(search: mk.Retriever, subtests: Any) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"vector_weight": 1.0},
        {"vector_weight": 0.0},
        {"unit": "chunk"},
        {"unit": "file"},
        {"fusion": "rrf"},
        {"mmr_lambda": 0.5},
        {"fold": "none"},
        {"rerank": "hash"},
    ]
    for params in settings:
        with subtests.test(**params):
            for row in ROWS:
                assert row["memory_id"] not in ids(search.with_params(**params).like(row["memory_id"], k=99))


@pytest.mark.quick
def test_hits_have_the_columns_scores_and_order_of_search(search: mk.Retriever) -> None:
    hits = search.like("leak", columns=["user_id"], as_of=DAY)
    by_query = search.search("leak", columns=["user_id"], as_of=DAY)
    assert hits.schema.names == by_query.schema.names
    assert hits.schema.metadata.keys() | {b"answerability"} == by_query.schema.metadata.keys()
    assert hits["score"].to_pylist() == sorted(hits["score"].to_pylist(), reverse=True)
    assert hits.equals(search.like("leak", columns=["user_id"], as_of=DAY))


def test_meaning_is_compared_by_the_memory_s_own_vector(search: mk.Retriever) -> None:
    by_meaning = search.with_params(vector_weight=1.0)
    hits = by_meaning.like("leak", k=9)
    vectors = dict(zip(search.chunks_["memory_id"].to_pylist(), search.arms_["vector"].vectors_, strict=True))
    expected = [float(vectors["leak"] @ vectors[name]) for name in ids(hits)]
    np.testing.assert_allclose(hits["vector"].to_pylist(), expected, atol=1e-5)


def test_a_memory_of_several_chunks_asks_with_their_mean() -> None:
    rows = [{"memory_id": "long", "text": f"{POOL}\n\n" * 12}, {"memory_id": "other", "text": "Пул мал"}]
    search = mk.Retriever(encoder="hash", index=mk.Index(chunk_tokens=20, overlap_tokens=0), vector_weight=1.0).fit(
        table(rows)
    )
    vectors, owner = search.arms_["vector"].vectors_, np.array(search.chunks_["memory_id"].to_pylist())
    mean = vectors[owner == "long"].sum(axis=0)
    expected = float(mean @ vectors[owner == "other"][0] / np.linalg.norm(mean))
    assert (owner == "long").sum() > 1
    assert search.like("long")["vector"].to_pylist() == [pytest.approx(expected, abs=1e-5)]


def test_words_are_those_that_stand_often_here_and_in_few_other_memories() -> None:
    common = [{"memory_id": f"m{n}", "text": f"база общая, номер {n}"} for n in range(9)]
    pair = [
        {"memory_id": "seed", "text": "В базе чинили чини чинила компрессор 4021; единственное"},
        {"memory_id": "rare", "text": "компрессор"},
    ]
    search = mk.Retriever(encoder=None).fit(table([*common, *pair]))
    searched_words = note(search.like("seed")).partition("its words ")[2].partition(";")[0]
    assert searched_words.split(", ") == [
        "базе",
        "компрессор",
    ]  # no other memory has чинить or единственное, and 4021 is a number
    assert ids(search.like("seed", k=1)) == ["rare"]
    words = [f"слово{chr(1072 + n)}" for n in range(2 * STRONGEST)]
    wordy = mk.Retriever(encoder=None).fit(table([{"text": " ".join(words)}, {"text": " ".join(words[::-1]) + " ещё"}]))
    assert len(note(wordy.like("0")).partition("its words ")[2].partition(";")[0].split(", ")) == STRONGEST


def test_neither_the_memory_nor_a_hit_nor_a_hint_is_another_user_s(search: mk.Retriever) -> None:
    for row in ROWS:
        if row["user_id"] == "boris":
            continue
        hits = search.like(row["memory_id"], k=99, user_id="anna")
        assert "theirs" not in ids(hits)
        assert "theirs" not in note(hits)
    with pytest.raises(NotFoundError) as caught:
        search.like("theirs", user_id="anna")
    with pytest.raises(NotFoundError) as unknown:
        search.like("theirz", user_id="anna")
    assert str(caught.value).replace("theirs", "theirz") == str(unknown.value)  # as if there were none
    with pytest.raises(NotFoundError, match="Did you mean 'theirs'"):
        search.like("theirz")


def test_words_that_only_others_have_are_not_asked_for() -> None:
    rows = [
        {"memory_id": "a", "text": "Ключ от сейфа лежит в столе", "user_id": "anna"},
        {"memory_id": "b", "text": "Сейф", "user_id": "boris"},
        {"memory_id": "c", "text": "Стол", "user_id": "anna"},
    ]
    search = mk.Retriever(encoder=None).fit(table(rows))
    assert "столе" in note(search.like("a", user_id="anna"))
    assert "сейфа" not in note(search.like("a", user_id="anna"))
    assert "сейфа" in note(search.like("a"))


def test_filters_and_the_moment_act_as_in_a_search(search: mk.Retriever) -> None:
    assert "later" not in ids(search.like("leak", k=99, as_of=DAY))
    assert "later" in ids(search.like("leak", k=99))
    assert ids(search.like("leak", k=99, where="memory_id = 'tea'", as_of=DAY)) == ["tea"]
    with pytest.raises(NotFoundError):
        search.like("later", as_of=DAY)
    with pytest.raises(ParameterError, match="memory_id"):
        search.like(3)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ParameterError, match="'k'"):
        search.like("leak", k=0)


def test_what_a_memory_supersedes_is_not_like_it_but_older(tmp_path: Any) -> None:
    rows = [
        {"memory_id": "old", "text": "База в Москве, соединения там", "superseded_by": "new", "status": "superseded"},
        {"memory_id": "new", "text": "База в Варшаве, соединения тут"},
        {"memory_id": "more", "text": "Соединения с базой"},
    ]
    search = mk.Retriever(encoder="hash").fit(table(rows))
    assert ids(search.like("new")) == ["more"]
    assert set(ids(search.like("old"))) == {"new", "more"}
    assert set(ids(search.like("more"))) == {"new"}


def test_an_old_version_that_the_user_may_not_see_is_not_named() -> None:
    rows = [
        {"memory_id": "their-old", "text": "База в Москве", "user_id": "boris", "superseded_by": "new"},
        {"memory_id": "to-come", "text": "База где-то", "created_at": "2026-05-01", "superseded_by": "new"},
        {"memory_id": "new", "text": "База в Варшаве", "created_at": "2026-01-01"},
        {"memory_id": "more", "text": "Соединения с базой", "created_at": "2026-01-02"},
    ]
    search = mk.Retriever(encoder=None).fit(table(rows))
    assert "their-old" in note(search.like("new"))
    assert "their-old" not in note(search.like("new", user_id="anna"))
    assert "to-come" not in note(search.like("new", as_of=DAY))


def test_a_memory_without_text_is_like_nothing_and_all_settings_of_words_work() -> None:
    rows = [
        {"memory_id": "empty", "text": ""},
        {"memory_id": "a", "text": "東京都 pool_size"},
        {"memory_id": "b", "text": "東京 pool"},
    ]
    for params in ({"encoder": "hash"}, {"index__lexical": "char"}, {"index__analyzer": "char"}, {"bm25_weight": 0.0}):
        search = mk.Retriever(**{"encoder": None, **params}).fit(table(rows))
        assert ids(search.like("empty")) == []
        assert ids(search.like("a"))[:1] == ["b"]


@pytest.mark.outside
def test_over_buckets_it_is_what_one_index_says(tmp_path: Any) -> None:
    table(ROWS).save(tmp_path / "lake", buckets=2)
    over_buckets = mk.Retriever(encoder="hash").fit(mk.open(tmp_path / "lake"))
    one = mk.Retriever(encoder="hash").fit(table(ROWS))
    assert over_buckets.like("leak", as_of=DAY).to_pylist() == one.like("leak", as_of=DAY).to_pylist()
