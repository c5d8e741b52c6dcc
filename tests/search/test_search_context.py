"""Turns of a conversation have a share of the words and of the meaning of the turns around them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.index.arm import SHARES, Turns, means_in_turns
from memkit.index.dense import Dense
from memkit.index.lexical import BM25

DAY = "2026-03-01"
KERNEL = {-1: 0.5, -2: 0.25, 1: 0.3, 2: 0.1}
WORDS = ["пул", "чай", "план", "кот", "сад", "pool", "tea", "cat", *(f"w{i}" for i in range(40))]


def turns(*talks: str | None, **more: Any) -> list[dict[str, Any]]:
    return [{"text": f"да {n}", "user_id": talk, **more} for n, talk in enumerate(talks)]


def scores(hits: pa.Table, arm: str = "bm25") -> dict[str, float]:
    """By memory, as far as the arm found it."""
    pairs = zip(hits["memory_id"].to_pylist(), hits[arm].to_pylist(), strict=True)
    return {memory: score for memory, score in pairs if score is not None}


def by_hand(texts: Sequence[str], talks: Sequence[Any], query: str, lending: Sequence[bool]) -> list[float]:
    """Okapi with k1 1.2 and b 0.75, row by row, where a row has its own words and shares of its neighbours' words."""
    words_of = [Counter(text.split()) for text in texts]

    def lent(row: int, lends: Sequence[bool]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for step, share in {0: 1.0, **KERNEL}.items():
            beside = row + step
            if 0 <= beside < len(words_of) and talks[beside] == talks[row] and lends[beside]:
                for word, count in words_of[beside].items():
                    counts[word] += share * count  # type: ignore[assignment]  # a counter of shares
        return counts

    every = [lent(row, [True] * len(words_of)) for row in range(len(words_of))]
    mean = sum(sum(counts.values()) for counts in every) / len(words_of)
    df_of, row_scores = {word: sum(word in one for one in words_of) for word in query.split()}, []
    for row in range(len(words_of)):
        counts = lent(row, lending)
        score = 0.0
        for word, repeats in Counter(query.split()).items():
            df = df_of[word]
            idf = math.log1p((len(words_of) - df + 0.5) / (df + 0.5))
            norm = 1.2 * (1 - 0.75 + 0.75 * sum(counts.values()) / mean)
            tf = counts[word]
            score += idf * repeats * 1001 / (repeats + 1000) * tf * 2.2 / (tf + norm)
        row_scores.append(score)
    return row_scores


def drawn(size: int, seed: int = 4) -> tuple[list[str], Any]:
    """Texts of few words, and the conversation of each, ascending."""
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, draw.integers(0, 6))) for _ in range(size)]
    return texts, np.sort(draw.integers(0, size // 20, size))


def rows_of(candidates: pa.Table) -> list[int]:
    rows: list[int] = candidates["row"].to_pylist()
    return rows


def arms_over(texts: Sequence[str]) -> Iterator[BM25]:
    """An arm that was fitted, and one that was brought up to date: three texts are new, and one is gone."""
    ids = pa.table({"chunk_id": [str(row) for row in range(len(texts))]})
    yield BM25(analyzer="none", k3=1000.0).fit(ids, texts)
    before = [texts[0], "чай чай никогда", *texts[1:100], *texts[103:]]
    former = np.array([0, *range(2, 101), *range(len(before), len(before) + 3), *range(101, len(before))])
    old = BM25(analyzer="none", k3=1000.0).fit(ids.slice(0, len(before)), before)
    yield old.updated(former, ids, pa.array(texts))


@pytest.mark.quick
def test_counts_are_lent_before_they_are_weighted(tmp_path: Any) -> None:
    texts, talks = drawn(240)
    in_line = Turns(np.arange(len(texts)), talks, len(texts))
    some = np.random.default_rng(5).random(len(texts)) < 0.5
    arms = list(arms_over(texts))
    arms[0].save(tmp_path)
    for arm in (*arms, BM25.load(tmp_path)):
        arm.set_params(k3=1000.0)
        for query in ("пул чай", "the cat w3 w7 w7", "никогда", ""):
            for lending in (None, some):
                expected = by_hand(texts, talks, query, [True] * len(texts) if lending is None else lending.tolist())
                candidates = arm.candidates_in_turns([query], len(texts), lending, in_line, lending)
                wanted = {row for row, score in enumerate(expected) if score and (lending is None or lending[row])}
                assert set(rows_of(candidates)) == wanted
                for row, score in zip(rows_of(candidates), candidates["score"].to_pylist(), strict=True):
                    assert score == pytest.approx(expected[row], rel=1e-5)
                best = arm.candidates_in_turns([query], 3, lending, in_line, lending)
                assert best.equals(candidates.slice(0, 3))


@pytest.mark.quick
def test_rare_and_frequent_terms_are_lent_alike() -> None:
    """The places of a rare term are looked at one by one, those of a frequent one all at once."""
    rows = np.arange(300)
    in_line, line = Turns(rows[:290][::-1].copy(), np.repeat(np.arange(29), 10), 300), None
    for size in (1, 4, 200):
        have = np.sort(np.random.default_rng(size).choice(300, size, replace=False))
        line = np.zeros(in_line.size, np.float32)
        places, lent = in_line.lent(have, np.full(size, 2), line)
        assert not line.any()
        by_place = np.zeros(in_line.size)
        by_place[places] = lent
        counts = np.where(np.isin(rows, have), 2.0, 0.0)
        assert by_place[in_line.place] == pytest.approx(in_line.summed(counts)[in_line.place])
    assert (in_line.neighbours[290:] == -1).all()
    assert in_line.neighbours[289].tolist() == [-1, -1, 288, 287]  # the first of the last conversation


@pytest.mark.quick
def test_a_turn_is_found_by_the_words_of_two_before_and_two_after_it() -> None:
    rows = {"text": ["раз", "два", "пул", "три", "пять", "шесть"], "session": ["a"] * 6}
    search = mk.Retriever(encoder=None, gram_weight=0.0).fit(mk.from_table(rows))
    hits = search.search("пул", as_of=DAY)
    assert hits["memory_id"].to_pylist() == ["2", "3", "1", "4", "0"]
    assert scores(hits)["3"] < scores(hits)["2"]
    alone = mk.Retriever(encoder=None, gram_weight=0.0, index=mk.Index(context_column=None)).fit(search.corpus_)
    assert scores(alone.search("пул", as_of=DAY)).keys() == {"2"}


def test_a_column_of_a_table_that_names_conversations_is_used_unless_told_not_to() -> None:
    rows = {"text": ["пул соединений", "да", "да", "нет"], "user_id": ["u", "u", "v", "u"]}
    talks = ["x", "x", "x", "y"]
    for name in ("session", "conversation", "thread"):
        search = mk.Retriever(encoder=None, gram_weight=0.0).fit(mk.from_table({**rows, name: talks}))
        hits = search.search("пул", as_of=DAY)
        assert hits["memory_id"].to_pylist() == ["0", "1"], name  # the same value of another user is another one
        assert hits.schema.metadata[b"conversations"].decode() == name
    for other in ({"session": [None] * 4}, {"talk": talks}, {}):
        hits = mk.Retriever(encoder=None, gram_weight=0.0).fit(mk.from_table({**rows, **other})).search("пул")
        assert hits["memory_id"].to_pylist() == ["0"], other
        assert b"conversations" not in hits.schema.metadata
    both = mk.from_table({**rows, "thread": ["y", "y", "y", "x"], "session": ["a", "b", "c", "d"]})
    assert mk.Retriever(encoder=None, gram_weight=0.0).fit(both).search("пул")["memory_id"].to_pylist() == ["0"]


def test_sections_of_files_are_no_turns_whatever_they_have(tmp_path: Any) -> None:
    for name, text in (("a", "Пул соединений."), ("b", "Да."), ("c", "Нет.")):
        (tmp_path / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\nsession: x\n---\n{text}\n")
    corpus = mk.read(tmp_path)
    assert "session" in str(corpus.memories["extra"].to_pylist())
    plain = mk.Retriever(encoder=None, gram_weight=0.0).fit(corpus)
    by_session = mk.Retriever(encoder=None, gram_weight=0.0, index=mk.Index(context_column="session")).fit(corpus)
    assert (plain.search("пул").num_rows, by_session.search("пул").num_rows) == (1, 3)


def test_cosines_are_means_over_the_neighbours_that_there_are(retriever_over: Any) -> None:
    cosines = {"q": {0: 0.2, 1: 0.4, 2: 0.8}}
    params = {"vector_weight": 1.0, "bm25_weight": 0.0, "index__context_column": "user_id"}
    means = scores(retriever_over(turns(*"aaa"), vector=cosines, **params).search("q", as_of=DAY), "vector")
    before, after = SHARES[-1], SHARES[1]
    assert means["m0"] == pytest.approx((0.2 + after * 0.4 + SHARES[2] * 0.8) / (1 + after + SHARES[2]))
    assert means["m1"] == pytest.approx((0.4 + before * 0.2 + after * 0.8) / (1 + before + after))
    assert means["m2"] == pytest.approx((0.8 + before * 0.4 + SHARES[-2] * 0.2) / (1 + before + SHARES[-2]))


def test_nothing_is_lent_across_conversations() -> None:
    for talks, expected in (("aabba", {"2", "3"}), ("xxaxx", {"2"}), ([None, None, "a", None, None], {"2"})):
        rows = mk.from_table({"text": ["раз", "два", "пул", "три", "пять"], "session": list(talks)})
        search = mk.Retriever(encoder=None, gram_weight=0.0).fit(rows)
        assert set(search.search("пул")["memory_id"].to_pylist()) == expected, talks


def test_what_a_filter_leaves_out_or_is_the_future_lends_nothing() -> None:
    days = [datetime(2026, 2, 1, tzinfo=UTC) + timedelta(days=day) for day in (1, 2, 60, 61, 62)]
    texts = ["пул", "раз", "пул пул", "два", "три"]
    rows = {"text": texts, "session": ["a"] * 5, "created_at": days, "memory_id": [f"m{n}" for n in range(5)]}
    settings = {"encoder": None, "gram_weight": 0.0, "decay": "none", "index__searched": ("text",)}
    search = mk.Retriever(**settings).fit(mk.from_table(rows))
    without = by_hand(texts, "aaaaa", "пул", [True, True, False, True, True])
    expected = {"m0": without[0], "m1": without[1], "m3": without[3]}
    for hits in (search.search("пул", where="memory_id <> 'm2'"), search.trace("пул", where="memory_id <> 'm2'")):
        assert {name: s for name, s in scores(hits).items() if name != "m2"} == pytest.approx(
            {name: s for name, s in expected.items() if s}, rel=1e-5
        )
    unseen = by_hand(texts, "aaaaa", "пул", [True, True, False, False, False])
    assert scores(search.search("пул", as_of=DAY)) == pytest.approx({"m0": unseen[0], "m1": unseen[1]}, rel=1e-5)
    two_users = {**rows, "user_id": ["u", "u", "v", "u", "u"]}
    of_users = mk.Retriever(**settings).fit(mk.from_table(two_users)).search("пул", user_id="u")
    assert scores(of_users).keys() == {"m0", "m1", "m3"}  # m2 is in a conversation of its own user


def test_the_order_is_seq_then_creation_then_as_given() -> None:
    def rows_with(**columns: list[Any]) -> Any:
        rows = {"memory_id": ["a", "b", "c"], "text": ["раз", "два", "три"], "talk": ["x"] * 3, **columns}
        return mk.Retriever(encoder=None, index=mk.Index(context_column="talk")).fit(mk.from_table(rows))

    def after(search: mk.Retriever) -> list[int]:
        in_line = search.index_.turns
        assert in_line is not None
        return [int(row) for row in in_line.neighbours[:, list(SHARES).index(1)]]

    assert after(rows_with()) == [1, 2, -1]
    assert after(rows_with(seq=[3, 1, 2])) == [-1, 2, 0]
    assert after(rows_with(created_at=["2026-01-03", "2026-01-01", "2026-01-02"])) == [-1, 2, 0]
    assert after(rows_with(memory_id=["c", "b", "a"])) == [-1, 0, 1]  # rows of the index are by id


def test_the_first_hits_do_not_depend_on_k_or_the_pool_asked() -> None:
    texts, talks = drawn(120)
    corpus = mk.from_table({"text": [f"{text} я" for text in texts], "session": talks})
    search = mk.Retriever(encoder="hash", fold="none").fit(corpus)
    whole = search.search("пул и чай", k=30, as_of=DAY)
    assert search.search("пул и чай", k=3, as_of=DAY).equals(whole.slice(0, 3))
    question = search.ask("пул и чай", as_of=DAY)
    alone = search.with_params(pool=5).ask("пул и чай", as_of=DAY)
    assert question.with_params(pool=5).ranked().score.tolist() == alone.ranked().score.tolist()


def test_trace_and_explain_tell_the_scores_that_a_turn_has_among_its_neighbours() -> None:
    texts = ["раз", "пул", "два", *("пул пул" for _ in range(4))]
    corpus = mk.from_table({"text": texts, "session": [*"aaa", *"bcde"], "memory_id": [f"m{n}" for n in range(7)]})
    search = mk.Retriever(encoder=None, gram_weight=0.0, pool=5, fold="none").fit(corpus)
    expected = by_hand(texts, [*"aaa", *"bcde"], "пул", [True] * 7)
    trace = search.trace("пул", as_of=DAY)
    assert scores(trace) == pytest.approx({f"m{n}": score for n, score in enumerate(expected)}, rel=1e-5)
    least = dict(zip(trace["memory_id"].to_pylist(), trace["disposition"].to_pylist(), strict=True))
    assert (least["m0"], least["m1"]) == ("below_pool", "returned")
    assert f"words score {expected[0]:.3g}" in mk.explain(search, "пул", "m0", as_of=DAY)
    assert "It also counts by words of the turns around it" in mk.explain(search, "пул", "m1", as_of=DAY)
    assert "turns around it" not in mk.explain(search, "пул", "m3", as_of=DAY)


def test_a_column_that_is_none_is_refused_at_fit_and_long_rows_are_no_turns() -> None:
    corpus = mk.from_table({"text": ["слово " * 50, "слово " * 60, "раз"], "talk": ["x", "x", "x"]})
    with pytest.raises(ParameterError, match="'context_column' must be a column"):
        mk.Retriever(encoder=None, index=mk.Index(context_column="tlak")).fit(corpus)
    hits = mk.Retriever(encoder=None, index=mk.Index(context_column="talk")).fit(corpus).search("раз")
    assert "is not used" in hits.schema.metadata[b"note"].decode()
    assert hits.num_rows == 1
    hostile = mk.from_table({"text": ["раз", "два"], "a'\"]b": ["x", "x"]})
    assert mk.Retriever(encoder=None, index=mk.Index(context_column="a'\"]b")).fit(hostile).search("раз").num_rows == 2


def test_after_a_refresh_neighbours_are_those_of_now(corpus_of: Any) -> None:
    talk = {"user_id": "a"}
    rows = [{"text": "пул соединений", **talk}, {"text": "да", **talk}]
    later = [rows[0], {"text": "да", "user_id": "b", "memory_id": "m1"}]
    search = mk.Retriever(encoder=None, index=mk.Index(context_column="user_id")).fit(corpus_of(*rows, later=later))
    assert search.search("пул", as_of=DAY).num_rows == 2
    assert search.refresh().search("пул", as_of=DAY).num_rows == 1


def test_it_is_kept_with_the_lake(tmp_path: Any) -> None:
    corpus = mk.from_table({"text": ["пул соединений", "да", "нет"], "talk": ["x", "x", "y"]})
    search = mk.Retriever(encoder=None, index=mk.Index(context_column="talk")).fit(corpus)
    search.save(tmp_path)
    assert mk.Retriever.load(tmp_path, corpus).search("пул", as_of=DAY).equals(search.search("пул", as_of=DAY))
    assert json.loads(next(tmp_path.glob("saved-*/retriever.json")).read_text())["params"]["context_column"] == "talk"


@pytest.mark.outside
def test_shards_and_engines_know_no_conversations(tmp_path: Any) -> None:
    mk.from_table({"text": ["пул соединений", "да"], "session": ["x", "x"]}).save(tmp_path, buckets=2)
    search = mk.Retriever(encoder=None, gram_weight=0.0).fit(mk.open(tmp_path))
    hits = search.search("пул")
    assert hits.num_rows == 1
    for table in (hits, search.over_all().trace("пул")):
        assert "(column 'session') do not count by the turns around them" in table.schema.metadata[b"note"].decode()
    whole = mk.Retriever(encoder=None, gram_weight=0.0).fit(mk.open(tmp_path).whole())
    assert whole.search("пул").num_rows == 2
    assert b"note" not in whole.search("пул").schema.metadata
    assert scores(search.over_all().trace("пул")).keys() == {"0"}
    with pytest.raises(ParameterError, match="without context_column"):
        mk.Retriever(encoder=None, index=mk.Index(context_column="session")).fit(mk.open(tmp_path))


def test_letters_as_words_lend_nothing_and_say_so() -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "да"], "session": ["x", "x"]})
    search = mk.Retriever(encoder="hash", index=mk.Index(lexical="char")).fit(corpus)
    note = search.search("пул").schema.metadata[b"note"].decode()
    assert note == "With lexical='char' turns do not count by words of the turns around them."
    why = mk.explain(search, "пул", "b")
    assert "It also counts by meaning of the turns around it (context_column" in why
    assert "turns around it" not in mk.explain(search.with_params(vector_weight=0.0), "пул", "a")


def means_by_hand(in_line: Turns, arm: Any, query: str, n: int, filled: Any) -> list[tuple[int, float]]:
    """Every row scored closely, one by one."""
    candidates = arm.candidates([query], len(in_line.place), filled)
    score_of = dict(zip(rows_of(candidates), candidates["score"].to_pylist(), strict=True))
    means = {}
    for row in np.flatnonzero(filled).tolist():
        beside = zip(in_line.neighbours[row].tolist(), SHARES.values(), strict=True)
        neighbours = [(other, part) for other, part in beside if other >= 0 and filled[other]]
        total = score_of.get(row, 0.0) + sum(part * score_of.get(other, 0.0) for other, part in neighbours)
        means[row] = total / (1 + sum(part for _, part in neighbours))
    best = sorted((-score, row) for row, score in means.items() if score)
    return [(row, -score) for score, row in best[:n]]


def test_the_best_means_are_those_of_a_look_at_every_row_and_few_are_looked_at() -> None:
    texts, talks = drawn(1000)
    in_line = Turns(np.arange(len(texts)), talks, len(texts))
    ids = pa.table({"chunk_id": [f"{row:05}" for row in range(len(texts))]})
    arm, whole = (Dense(encoder="hash").fit(ids, texts) for _ in range(2))
    looked: list[int] = []
    ask = arm.candidates
    arm.candidates = lambda *args, **more: looked.append(int(args[2].sum())) or ask(*args, **more)
    filled = np.array(list(map(bool, texts)))  # as a Retriever asks: a chunk without any text is never found
    half = filled & (np.random.default_rng(7).random(len(texts)) < 0.5)
    for allowed in (filled, half, np.zeros(len(texts), bool)):
        for query in ("пул и чай", "the cat w3 w7", "", "никогда"):
            for n in (1, 20):
                candidates = means_in_turns(arm, [query], n, allowed, in_line, allowed)
                expected = means_by_hand(in_line, whole, query, n, allowed)
                assert candidates["score"].to_pylist() == pytest.approx([score for _, score in expected], abs=1e-12)
                last = expected[-1][1] if expected else 0.0  # of ties at the end any may be left out
                pairs = list(zip(rows_of(candidates), candidates["score"].to_pylist(), strict=True))
                above = [{row for row, score in some if score > last + 1e-12} for some in (pairs, expected)]
                assert above[0] == above[1]
    assert max(looked) < 300
