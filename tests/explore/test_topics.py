"""Topics: the same partition whatever the order, seed and run; named by words that people write; honest about doubt."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.display.draw import shown
from memkit.errors import NotFittedError, ParameterError, QueryError
from memkit.explore import Topics
from memkit.explore.topics import Clusters, cluster, most_clusters, words_of
from memkit.index.encoders.base import unit_rows
from memkit.schemas import NO_TOPIC

TEA = ["Зелёный чай с мятой", "Чёрный чай с лимоном", "Чай с мятой остыл", "Заварили зелёный чай", "Чай без лимона"]
POOL = ["The connection pool is full", "A larger connection pool", "Pool of connections, ten", "Pools and connections"]
KEY = "sk-" + "a1B2" * 8
SUBJECTS = ("пул соединен сервер баз запрос", "чай лимон мят сахар мёд", "поезд вокзал билет вагон перрон")


def fitted(texts: list[str], **columns: Any) -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(mk.from_table({"text": texts, **columns}))


def assigned(topics: Topics) -> dict[str, int]:
    return dict(zip(topics.memories["memory_id"].to_pylist(), topics.memories["topic"].to_pylist(), strict=True))


def groups(topics: Topics) -> set[frozenset[str]]:
    by_topic: dict[int, set[str]] = {}
    for memory, topic in assigned(topics).items():
        by_topic.setdefault(topic, set()).add(memory)
    return set(map(frozenset, by_topic.values()))


@pytest.fixture(scope="module")
def sample() -> mk.Retriever:
    return mk.Retriever(encoder="hash", vector_weight=1.0).fit(mk.read(mk.sample_data() / "workspace"))


@pytest.fixture(scope="module")
def sample_topics(sample: mk.Retriever) -> Topics:
    return mk.topics(sample, 6, as_of="2026-03-01")


@pytest.mark.quick
def test_two_subjects_are_two_topics_named_in_words_that_people_write() -> None:
    topics = mk.topics(fitted(TEA + POOL), k=2)
    assert groups(topics) == {frozenset("01234"), frozenset("5678")}
    rows = topics.table.to_pylist()
    assert [row["n"] for row in rows] == [5, 4]
    assert rows[0]["words"][:1] == ["чай"]
    assert {"pool", "connection"} <= set(rows[1]["words"])
    assert rows[0]["memory_id"] in set("01234")
    assert str(topics) == "2 topics of 9 memories, 0 have none"


def test_the_same_twice_and_in_any_order_of_rows(sample: mk.Retriever, sample_topics: Topics) -> None:
    again = mk.topics(sample, 6, as_of="2026-03-01")
    assert again.table.equals(sample_topics.table)
    assert again.memories.equals(sample_topics.memories)
    memories = sample.corpus_.memories.select(["memory_id", "text", "title", "created_at"])
    order = np.random.default_rng(1).permutation(memories.num_rows)
    one, other = (mk.from_table(memories.take(pa.array(rows))) for rows in (np.sort(order), order))
    fits = [mk.Retriever(encoder="hash", vector_weight=1.0).fit(corpus) for corpus in (one, other)]
    assert mk.topics(fits[0], 5).memories.equals(mk.topics(fits[1], 5).memories)


@pytest.mark.quick
def test_the_seed_moves_how_sure_and_not_the_partition() -> None:
    draw = np.random.default_rng(0)
    points = unit_rows(draw.normal(size=(300, 8)).astype(np.float32))
    one, other = (cluster(points, np.arange(300), 5, seed) for seed in (0, 1))
    np.testing.assert_array_equal(one.label, other.label)
    assert not np.array_equal(one.sure, other.sure)
    np.testing.assert_allclose(one.sure, other.sure, atol=0.2)


@pytest.mark.quick
def test_every_memory_that_a_search_finds_is_counted_once(sample: mk.Retriever, sample_topics: Topics) -> None:
    assert pc.sum(sample_topics.table["n"]).as_py() == sample_topics.memories.num_rows
    assert math.isclose(pc.sum(sample_topics.table["share"]).as_py(), 1)
    counted = {row["topic"]: row["n"] for row in sample_topics.table.to_pylist()}
    of_memories = {row["values"]: row["counts"] for row in pc.value_counts(sample_topics.memories["topic"]).to_pylist()}
    assert counted == of_memories
    names = sample_topics.table["name"].to_pylist()
    assert len(set(names)) == len(names)
    assert names[-1] == NO_TOPIC
    sizes = sample_topics.table["n"].to_pylist()[:-1]
    assert sizes == sorted(sizes, reverse=True)
    dates = sample_topics.memories.filter(pc.equal(sample_topics.memories["topic"], 1))["created_at"]
    assert sample_topics.table["since"][0].as_py() == pc.min(dates).as_py().date()
    assert sample_topics.table["until"][0].as_py() == pc.max(dates).as_py().date()


def test_a_memory_that_falls_elsewhere_in_more_resamples_than_not_has_no_topic(
    sample_topics: Topics,
) -> None:
    rows = sample_topics.memories.to_pylist()
    assert all(row["probability"] >= 0.5 for row in rows if row["topic"])
    assert all(row["topic"] or row["probability"] < 0.5 for row in rows if row["probability"] is not None)
    assert all(row["topic"] == 0 for row in rows if row["probability"] is None)
    assert {row["name"] for row in rows if not row["topic"]} == {NO_TOPIC}


def test_a_memory_like_no_other_is_no_topic_of_its_own() -> None:
    topics = mk.topics(fitted([*TEA, *POOL, "xyzzy qwertz 0123456789"]), k=3)
    assert {number: topic > 0 for number, topic in assigned(topics).items()} == {str(n): n < 9 for n in range(10)}
    assert [row["n"] for row in topics.table.to_pylist()] == [5, 4, 1]


def clouds(k: int, spread: float, size: int = 40) -> tuple[Any, Any]:
    draw = np.random.default_rng(3)
    centre = unit_rows(draw.normal(size=(k, 32)).astype(np.float32))
    label = np.repeat(np.arange(k), size)
    return unit_rows(centre[label] + draw.normal(scale=spread, size=(k * size, 32)).astype(np.float32)), label


def agree(one: Any, other: Any) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(one, other))


def test_clouds_that_are_apart_are_found_with_their_number_and_are_sure() -> None:
    points, label = clouds(7, 0.05)
    clusters = cluster(points, np.arange(len(points)), None, 0)
    assert agree(label, clusters.label) == 1
    assert len(clusters.centre) == 7 == max(clusters.silhouette, key=lambda k: clusters.silhouette[k])
    assert clusters.sure.min() > 0.9
    assert clusters.probability.min() > 0.5
    noise = unit_rows(np.random.default_rng(4).normal(size=(280, 32)).astype(np.float32))
    assert cluster(noise, np.arange(280), 7, 0).sure.max() < clusters.sure.min()


def test_the_silhouette_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import silhouette_score

    points, _ = clouds(4, 0.3)
    clusters: Clusters = cluster(points, np.arange(len(points)), None, 0)
    best = max(clusters.silhouette, key=lambda k: clusters.silhouette[k])
    expected = silhouette_score(points, clusters.label, metric="cosine")
    assert clusters.silhouette[best] == pytest.approx(expected, abs=0.02)  # 32 of 32 components are kept, as unit rows
    assert set(clusters.silhouette) <= set(range(2, most_clusters(len(points)) + 1))


def test_few_empty_and_equal_memories(subtests: Any) -> None:
    cases: dict[str, tuple[list[str], list[int]]] = {
        "none": ([], []),
        "one": (["Зелёный чай"], [1]),
        "two": (["Зелёный чай", "Пул"], [1, 1]),
        "equal": (["чай"] * 40, [1] * 40),
        "empty": (["", "  "], [0, 0]),
        "one of them empty": (["", "чай"], [0, 1]),
    }
    for name, (texts, topics) in cases.items():
        with subtests.test(name):
            by_topic = mk.topics(fitted(texts))
            assert by_topic.memories["topic"].to_pylist() == topics
            assert by_topic.table["n"].to_pylist() == [n for n in (topics.count(1), topics.count(0)) if n]
            assert by_topic.table["sure"].null_count == by_topic.table.num_rows  # one topic is nothing to be sure of
            assert "memories by topic" in by_topic.plot().words
            assert repr(by_topic)
    assert mk.topics(fitted(["чай"] * 40)).table["name"].to_pylist() == ["чай"]


def test_filters_are_those_of_a_search() -> None:
    users = ["anna"] * 5 + ["boris"] * 4
    search = fitted(TEA + POOL, user_id=users, created_at=["2026-01-01"] * 8 + ["2026-05-01"])
    assert set(assigned(mk.topics(search, user_id="anna"))) == set("01234")
    assert set(assigned(mk.topics(search, where="user_id = 'boris'"))) == set("5678")
    assert set(assigned(mk.topics(search, where="user_id = 'boris'", as_of="2026-03-01"))) == set("567")
    assert not {word for row in mk.topics(search, user_id="anna").table["words"].to_pylist() for word in row} & {"pool"}


def test_wrong_arguments_are_clear_errors() -> None:
    search = fitted(["чай", "чай", "пул"])
    with pytest.raises(ParameterError, match=r"at most the number of memories that differ, 2. Got 3"):
        mk.topics(search, 3)
    for arguments in ({"k": 0}, {"k": 1.5}, {"seed": -1}, {"user_id": ""}):
        with pytest.raises(ParameterError):
            mk.topics(search, **arguments)
    with pytest.raises(QueryError):
        mk.topics(search, where="no_such_column = 1")
    with pytest.raises(NotFittedError):
        mk.topics(mk.Retriever())
    with pytest.raises(ParameterError, match="expected a Corpus"):
        mk.topics("data")  # type: ignore[arg-type]  # that is the point


def test_equal_texts_are_one_topic_and_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        topics = mk.topics(mk.Retriever(encoder=None).fit(mk.from_table({"text": ["Зелёный чай"] * 12})))
    assert topics.table.select(["topic", "n"]).to_pylist() == [{"topic": 1, "n": 12}]


def test_a_retriever_without_vectors_gets_those_of_its_words() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"text": TEA + POOL}))
    topics = mk.topics(search, k=2)
    assert groups(topics) == {frozenset("01234"), frozenset("5678")}
    assert topics.table.schema.metadata[b"encoder"] == b"lsa"
    assert "vector" not in search.arms_


def test_topics_by_words_are_those_of_known_subjects_for_any_order_of_rows() -> None:
    drawn = np.random.default_rng(0)
    subjects = [[f"{root}{end}" for root in roots.split() for end in ("", "а", "ов")] for roots in SUBJECTS]
    texts = [" ".join(drawn.choice(subjects[row % 3], 8)) for row in range(150)]
    rows = {"memory_id": [f"{row:03}" for row in range(150)], "text": texts}
    found, turned = (
        mk.topics(mk.Retriever(encoder=None).fit(mk.from_table(table)), k=3)
        for table in (rows, {name: values[::-1] for name, values in rows.items()})
    )
    assert groups(found) == {frozenset(f"{row:03}" for row in range(150) if row % 3 == subject) for subject in range(3)}
    assert turned.memories == found.memories


def test_words_are_no_stop_words_numbers_dates_addresses_or_secrets() -> None:
    text = "The deploy of 2026 на сервер в январе: see https://a.b/deploys и src/app/main.py, десять минут"
    twice = f"{text}, token {KEY}"
    words = words_of(pa.chunked_array([[twice, twice]]), np.arange(2), np.zeros(2, np.int64))
    assert set(words[0]) <= {"deploy", "сервер", "see", "token"}
    assert {"deploy", "сервер"} <= set(words[0])
    apart = words_of(pa.chunked_array([["сервер", "деплой"]]), np.arange(2), np.zeros(2, np.int64))
    assert apart == {0: ["деплой", "сервер"]}  # where no word is in two memories, those of one
    assert words_of(pa.chunked_array([["東京都", "東京"]]), np.arange(2), np.zeros(2, np.int64)) == {0: ["東京"]}


def test_the_weight_of_a_word_is_class_based_tf_idf() -> None:
    texts = ["альфа бета", "альфа гамма", "альфа бета", "дельта", "альфа дельта"]
    names = words_of(pa.chunked_array([texts]), np.arange(5), np.array([0, 0, 0, 1, 1]))
    mean = (6 + 3) / 2  # words of a class, a memory counting each once
    weights = {"альфа": 3 / 6 * math.log(1 + mean / 4), "бета": 2 / 6 * math.log(1 + mean / 2)}
    assert names == {0: sorted(weights, key=lambda word: -weights[word]), 1: ["дельта"]}  # гамма and альфа stand once


def test_what_is_shown_hides_secrets() -> None:
    other = "vn7qkp2wxr"  # called a password in one memory alone
    said = [f"Ключ шлюза: {KEY}", f"Пароль от базы: {other}", *(f"набирали {other} в базе {n}" for n in range(3))]
    topics = mk.topics(fitted(said))
    assert not [one for one in (KEY, other) if one in f"{topics.table.to_pylist()}{topics!r}{topics._repr_html_()}"]


def test_a_topic_is_shown_by_its_name_above_the_memory_that_stands_for_it() -> None:
    topics = mk.topics(fitted(TEA + POOL), 2)
    (sheet,) = topics._sheets()
    assert [title.text for title in sheet.titles] == topics.table["name"].to_pylist()
    assert [lead.text for lead in sheet.leads] == topics.table["text"].to_pylist()
    words = shown(topics.table.select(["name", "n"])).text(80)
    assert all(name in words for name in topics.table["name"].to_pylist())  # without a memory the name is a column


def test_the_picture_counts_each_dated_memory_in_its_month_or_week() -> None:
    days: list[str | None] = ["2026-01-05", "2026-01-06", "2026-03-01", None, "2026-03-02"]
    topics = mk.topics(fitted(TEA, created_at=days))
    assert topics.plot().words.splitlines() == [
        "memories by topic and month, 1 without a date",
        "2026-01  2: чай, зелёный, лимона (2)",
        "2026-03  2: чай, зелёный, лимона (2)",
    ]
    weeks = topics.plot(by="week").words.splitlines()[1:]
    assert [line[:8] for line in weeks] == ["2026-W02", "2026-W09", "2026-W10"]
    picture = topics.plot()
    assert [name for _, name in picture.x.named()] == ["2026-01", "2026-02", "2026-03"]
    assert [(bars.high - bars.low).tolist() for bars in picture.marks] == [[2, 0, 2]]
    with pytest.raises(ParameterError, match="'by'"):
        topics.plot(by="day")
