"""Ten labelled corpora with a planted truth, put to `mk.compare` and `mk.tune` as a user would.

At twice the detectable effect each word is right; at half of it nothing can be told. Where half an effect would mean
nothing, the test says why, and what is asked in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import memkit as mk
from memkit.evaluation.compare import Comparison

USERS, EACH = 30, 5
N = USERS * EACH
OPEN = "cannot tell yet"
PREFERS_OLD = {"working": 0.1}
"""The weights of b: what is of kind archive comes first, where a has what is of kind working first."""


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    """To each theme a note that says it twice and one that says it once."""
    rows = [(f"{which}{i:03}", i, which) for i in range(N) for which in "ab"]
    texts = {"a": "тема{0:03} тема{0:03} заметка", "b": "тема{0:03} заметка описание"}
    table = {
        "memory_id": [name for name, _, _ in rows],
        "text": [texts[which].format(i) for _, i, which in rows],
        "kind": [{"a": "working", "b": "archive"}[which] for _, _, which in rows],
    }
    return mk.Retriever(encoder=None, gram_weight=0.0, fold="none", decay="none").fit(mk.from_table(table))


@dataclass
class Truth:
    """A question a theme; `gains` says of each whether b gains (1), loses (-1) or neither, by its labels."""

    search: mk.Retriever
    gains: Sequence[int]
    users: Sequence[str] = field(default_factory=lambda: [f"u{i // EACH:02}" for i in range(N)])
    unjudged: bool = False
    known: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def labels(self) -> dict[str, Any]:
        names = [f"q{i:03}" for i in range(len(self.gains))]
        rows = []
        for i, gain in enumerate(self.gains):
            rows += [(names[i], f"a{i:03}", int(gain <= 0)), (names[i], f"b{i:03}", int(gain >= 0))]
        judged = [row for row in rows if row[2] or not self.unjudged]
        columns = zip(("query_id", "memory_id", "relevance"), map(list, zip(*judged, strict=True)), strict=True)
        texts = [f"тема{i:03}" for i in range(len(names))]
        return {
            "queries": {"query_id": names, "text": texts, "user_id": list(self.users)},
            "qrels": dict(columns),
        }

    def compared(self, **more: Any) -> Comparison:
        """What the comparison says; the same arguments are put to it once."""
        b = self.search.with_params(kind_weights=PREFERS_OLD)
        comparison: Comparison = self._once(
            f"compare {more}", lambda: mk.compare(self.search, b, **self.labels, metrics="hit@1", **more)
        )
        return comparison

    def tuned(self, **more: Any) -> Any:
        """What tuning finds; the same arguments are put to it once."""
        grid = {"kind_weights": [None, PREFERS_OLD, {"working": 0.05}]}
        return self._once(
            f"tune {more}", lambda: mk.tune(self.search, **self.labels, grid=grid, metric="hit@1", **more)
        )

    def _once(self, name: str, ask: Callable[[], Any]) -> Any:
        if name not in self.known:
            self.known[name] = ask()
        return self.known[name]

    def words(self, **more: Any) -> tuple[str, str]:
        """What both say; and that b is handed out only where it is better."""
        tuned = self.tuned(**more)
        assert (tuned.chosen_params_["kind_weights"] is not None) == (tuned.verdict_.word == "better")
        return self.compared(**more).word, tuned.verdict_.word

    @property
    def size(self) -> float:
        """The effect, in differences that are detectable by the verdict's own word."""
        row = self.compared().details.to_pylist()[0]
        return float(abs(row["difference"]) / row["detectable"])


def drawn(up: int, down: int, seed: int = 0) -> np.ndarray:
    """So many gains and losses, on queries drawn evenly."""
    gains = np.zeros(N, int)
    order = np.random.default_rng(seed).permutation(N)
    gains[order[:up]], gains[order[up : up + down]] = 1, -1
    return gains


TWICE, HALF = (38, 2), (24, 16)
"""Gains and losses among the queries: where 40 differ, what is detectable is a difference of some 18 of them."""


@pytest.mark.parametrize(("sign", "word", "seed"), [(1, "better", 1), (1, "better", 3), (-1, "worse", 2)])
def test_a_gain_and_a_loss(search: mk.Retriever, sign: int, word: str, seed: int) -> None:
    large, small = (Truth(search, sign * drawn(*counts, seed)) for counts in (TWICE, HALF))
    assert (large.size >= 1.9, large.words()) == (True, (word, word))
    assert (0.4 <= small.size <= 0.6, small.words()) == (True, (OPEN, OPEN))
    why = "the 95 % interval contains 0, and the 90 % interval reaches beyond ± 0.01"
    assert why in str(small.compared())


@pytest.mark.parametrize("seed", [0, 1])
def test_no_difference(search: mk.Retriever, seed: int) -> None:
    """Half of nothing is nothing: here it is ε, what makes no difference, that is twice or half what shows."""
    none = Truth(search, drawn(20, 20, seed))
    detectable = none.compared().details["detectable"][0].as_py()
    assert none.words(epsilon=2 * detectable) == ("practically the same", "practically the same")
    assert none.words(epsilon=0.5 * detectable) == (OPEN, OPEN)


@pytest.mark.parametrize("queries", [EACH, EACH // 2])
def test_a_gain_of_one_user_alone(search: mk.Retriever, queries: int) -> None:
    """One user's gain is as large as its own standard error, whatever its size: it never gets to be detectable."""
    gains = np.zeros(N, int)
    gains[3 * EACH : 3 * EACH + queries] = 1
    alone = Truth(search, gains)
    assert alone.size < 0.5
    assert alone.words() == (OPEN, OPEN)
    assert alone.compared().details["better"][0].as_py() == queries


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_two_large_users_that_disagree(search: mk.Retriever, share: float) -> None:
    """What one gains the other loses, at full and at half size; over queries it would be a gain, over users none."""
    users = ["anna"] * 60 + ["boris"] * 50 + [f"u{i // 2:02}" for i in range(40)]
    gains = np.zeros(N, int)
    gains[: int(50 * share)] = 1
    gains[60 : 60 + int(30 * share)] = -1
    apart = Truth(search, gains, users)
    row = apart.compared().details.to_pylist()[0]
    assert row["per_query"] == pytest.approx(share * 20 / N)
    assert row["n_units"] == 22
    assert row["per_unit"] == pytest.approx(share * (50 / 60 - 30 / 50) / 22)
    assert (row["estimate"], apart.words()) == ("per user_id", (OPEN, OPEN))


@pytest.mark.parametrize("counts", [HALF, (N, 0)])
def test_too_few_users(search: mk.Retriever, counts: tuple[int, int]) -> None:
    """Without an interval there is no detectable effect to take twice or half of: no size is enough."""
    truth = Truth(search, drawn(*counts), [f"u{i % 5}" for i in range(N)])
    assert truth.words() == (OPEN, OPEN)
    assert truth.compared().details["reason"][0].as_py().startswith("too few users: 5")
    assert truth.tuned().verdict_.reason.startswith("too few users: 5")


@pytest.mark.parametrize(("counts", "words"), [(TWICE, ("better", "better")), (HALF, (OPEN, OPEN))])
def test_wrong_labels_on_a_tenth_of_the_queries(
    search: mk.Retriever, counts: tuple[int, int], words: tuple[str, str]
) -> None:
    """Labels turned around on a tenth of the queries that differ, and noise on a tenth of the others."""
    gains = drawn(*counts)
    random = np.random.default_rng(1)
    differ, same = np.flatnonzero(gains), np.flatnonzero(gains == 0)
    gains[random.choice(differ, len(differ) // 10, replace=False)] *= -1
    gains[random.choice(same, len(same) // 10, replace=False)] = random.choice([-1, 1], len(same) // 10)
    assert Truth(search, gains).words() == words


@pytest.mark.parametrize(("counts", "unbounded"), [(TWICE, "worse"), (HALF, OPEN)])
def test_a_loss_that_unjudged_hits_could_undo(search: mk.Retriever, counts: tuple[int, int], unbounded: str) -> None:
    """Where b's first hits were judged by nobody, no size of the loss is one; without the bounds it would be."""
    truth = Truth(search, -drawn(*counts), unjudged=True)
    assert truth.words(unjudged_hits="irrelevant") == (unbounded, unbounded)
    assert truth.words() == (OPEN, OPEN)
    if unbounded == "worse":
        tuned = truth.tuned()
        for to_judge in (truth.compared().to_judge, tuned.to_judge_):
            assert {name[0] for name in to_judge["memory_id"].to_pylist()} == {"b"}
            assert 0 < to_judge.num_rows <= sum(counts)
        first = f"{tuned.to_judge_.num_rows} unjudged hits could change the verdict: judge these first"
        assert tuned.verdict_.reason == first


@pytest.mark.parametrize("queries", [60, 6])
def test_an_arm_that_is_missing(search: mk.Retriever, queries: int) -> None:
    """An arm that found nothing has no effect of any size: it is an error, for many queries and for few."""
    params = {"vector_weight": 0.5, "bm25_weight": 0.5, "gram_weight": 0.0}
    both = mk.Retriever(encoder="hash", **params).fit(search.corpus_)
    labels = Truth(search, [1] * queries, [f"u{i % 6}" for i in range(queries)]).labels
    labels["queries"]["text"] = ["ёж"] * queries
    with pytest.raises(mk.MemkitError, match=r"the arm 'bm25' has the weight .* and found nothing"):
        mk.compare(both, both.with_params(pool=5), **labels)
    with pytest.raises(mk.MemkitError, match=r"the arm 'bm25' has the weight .* and found nothing"):
        mk.tune(both, **labels, grid={"pool": [5, 10]})


@pytest.fixture(scope="module")
def aging() -> mk.Retriever:
    """To each theme an old note that says it twice and a newer one that says it once; recency puts that one first."""
    rows = [(f"{which}{i:03}", i, which) for i in range(240) for which in ("new", "old")]
    texts = {"old": "тема{0:03} тема{0:03} заметка", "new": "тема{0:03} заметка описание"}
    table = {
        "memory_id": [name for name, _, _ in rows],
        "text": [texts[which].format(i) for _, i, which in rows],
        "created_at": [{"old": "2025-01-01", "new": "2025-12-01"}[which] for _, _, which in rows],
        "kind": ["archive"] * len(rows),
    }
    params = {"gram_weight": 0.0, "fold": "none", "decay": "none", "decay_kinds": "*"}
    return mk.Retriever(encoder=None, **params).fit(mk.from_table(table))


@pytest.mark.parametrize(("old", "word"), [(120, "worse"), (66, OPEN)])
def test_recency_that_helped_until_lately(aging: mk.Retriever, old: int, word: str) -> None:
    """Until July the newer note answers; from then on the older one, always, or of 120 questions in 66."""
    random = np.random.default_rng(0)
    later = np.array(["old"] * old + ["new"] * (120 - old))[random.permutation(120)]
    right = [*["new"] * 120, *later]
    names = [f"q{i:03}" for i in range(240)]
    queries = {
        "query_id": names,
        "text": [f"тема{i:03}" for i in range(240)],
        "as_of": ["2026-05-01"] * 120 + ["2026-09-01"] * 120,
        "group": [f"g{i % 24:02}" for i in range(240)],
    }
    qrels = {
        "query_id": [name for name in names for _ in range(2)],
        "memory_id": [f"{which}{i:03}" for i in range(240) for which in ("old", "new")],
        "relevance": [int(which == right[i]) for i in range(240) for which in ("old", "new")],
    }
    grid = {"decay": ["none", "half_life"], "decay_days": [60]}
    tuned = mk.tune(aging, queries, qrels, grid, "hit@1", split="2026-07-01")
    assert tuned.candidate_["decay"] == "half_life"
    assert tuned.expected_gain_ > 0.9  # as far as the past can tell
    assert (tuned.verdict_.word, tuned.verdict_.tested_on) == (word, "later queries")
    assert tuned.chosen_params_["decay"] == "none"
    assert "on the later queries" in str(tuned)
    recent = aging.with_params(decay="half_life", decay_days=60)
    late = {name: values[120:] for name, values in queries.items()}
    comparison = mk.compare(aging, recent, late, qrels, "hit@1")
    assert comparison.word == word
    size = abs(comparison.table["difference"][0].as_py()) / max(comparison.details["detectable"][0].as_py(), 1e-9)
    assert size >= 1.9 if word == "worse" else size <= 0.6
