"""How often arms are asked and label files read: each set of labelled queries and scope once, each file once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import memkit as mk
from memkit.base.params import Moment
from memkit.evaluation import labels
from memkit.evaluation.metrics import LabelledQueries, Pools, hits_of_both
from memkit.panels.decay_panel import DecayPanel
from memkit.panels.judge_panel import JudgePanel
from memkit.panels.pinned import PinnedComparison
from memkit.search import show
from memkit.search.ask import as_queries, scoping
from memkit.search.fitted.index import MemoryIndex
from memkit.search.retriever import Retriever

DAY = "2026-03-01"
USERS, TOPICS = 7, ("пул соединений", "зелёный чай", "тёмная тема", "поезд в Казань")
GRID = {"vector_weight": [0.2, 0.6], "pool": [20, 50]}


class Counted:
    """What was asked and read: for each batch of queries and scope the arms that were asked, for each file a line."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.read: list[str] = []

    def is_once(self, batches: int, files: int) -> bool:
        """Whether so many batches were asked, and so many files read, none of them twice."""
        asks, reads = Counter(self.asked), Counter(self.read)
        assert (max(asks.values(), default=0), max(reads.values(), default=0)) == (min(batches, 1), min(files, 1)), (
            f"{len(self.asked)} asks of {len(asks)} batches, {len(self.read)} readings of {len(reads)} files"
        )
        return (len(asks), len(reads)) == (batches, files)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counts, ask, read = Counted(), Retriever.ask, labels.read_file

    def counted_ask(self: Retriever, queries: Any, *args: Any, **more: Any) -> Any:
        scope = tuple(str(getattr(self, name)) for name in scoping() if name != "on_encoder_error")
        counts.asked.append((as_queries(queries).ids, *scope))
        return ask(self, queries, *args, **more)

    def counted_read(path: Path, what: str) -> Any:
        counts.read.append(path.name)
        return read(path, what)

    monkeypatch.setattr(Retriever, "ask", counted_ask)
    monkeypatch.setattr(labels, "read_file", counted_read)
    return counts


@pytest.fixture(scope="module")
def search() -> Retriever:
    rows = [
        {"memory_id": f"{user}-{i}", "user_id": f"u{user}", "kind": "archive", "created_at": "2026-01-15",
         "text": f"{topic}: запись {user}"}
        for user in range(USERS) for i, topic in enumerate(TOPICS)
    ]  # fmt: skip  # columns of a row
    return mk.Retriever(encoder="hash").fit(mk.from_table(pd.DataFrame(rows)))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, tuple[Path, Path]]:
    """Labelled queries of all users, and as many others for a guard."""
    paths = {}
    for name, parts in {"own": (0, 1), "guard": (2, 3)}.items():
        rows = [(f"{name} {user} {topic}", user, topic) for user in range(USERS) for topic in parts]
        queries = {
            "query_id": [row[0] for row in rows],
            "text": [TOPICS[topic] for _, _, topic in rows],
            "user_id": [f"u{user}" for _, user, _ in rows],
        }
        qrels = {
            "query_id": queries["query_id"],
            "memory_id": [f"{user}-{topic}" for _, user, topic in rows],
            "relevance": [1] * len(rows),
            "valid_to": [DAY if user == 0 else None for _, user, _ in rows],
        }
        paths[name] = (
            labels.write(queries, tmp_path / f"{name}_queries.csv"),
            labels.write(qrels, tmp_path / f"{name}_qrels.csv"),
        )
    return paths


@pytest.mark.quick
@pytest.mark.parametrize(
    ("verb", "scopes"),
    [
        ("evaluate", 1),
        ("compare", 1),
        ("compare pools", 1),
        ("compare scopes", 2),
        ("sweep", 1),
        ("sweep scopes", 2),
        ("tune", 1),
        ("tune a sweep", 1),
        ("estimator", 1),
        ("objective", 1),
        ("against", 1),
        ("decay", 1),
        ("judge", 1),
    ],
)
def test_each_set_of_queries_and_scope_is_asked_once_and_each_file_is_read_once(
    counted: Counted, search: Retriever, files: dict[str, tuple[Path, Path]], verb: str, scopes: int
) -> None:
    queries, qrels = files["own"]
    more = {"as_of": DAY}
    wider = {**GRID, "function_word_weight": [0.1, 0.5]}
    other = search.with_params(vector_weight=0.0)

    def panel() -> None:
        against = PinnedComparison(lambda setting: search, queries, qrels, DAY, None)
        for weight in (0.1, 0.5, 0.9):
            against.strip({"vector_weight": weight}, {"pool": 50})

    def ages() -> None:
        shown = DecayPanel(search, queries, qrels, as_of=DAY)
        for days in (10.0, 40.0):
            shown.set(decay_days=days)
            assert shown.stale >= 0

    def estimator() -> None:
        est = mk.as_estimator(search, "mrr", as_of=DAY)
        x, y = est.labels(queries, qrels)
        for weight in (0.2, 0.4):
            est.set_params(vector_weight=weight).score(x, y)

    def objective() -> None:
        suggested_score = mk.as_estimator(search, "mrr", as_of=DAY).objective(
            queries, qrels, {"vector_weight": (0.1, 0.9)}
        )
        for weight in (0.2, 0.4):
            suggested_score(Suggests(weight))

    def tune_a_sweep() -> None:
        swept = mk.sweep(search, queries, qrels, GRID, **more)
        counted.asked, counted.read = [], []
        mk.tune(search, queries, qrels, swept, **more)

    calls = {
        "evaluate": lambda: mk.evaluate(search, queries, qrels, **more),
        "compare": lambda: mk.compare(search, other, queries, qrels, **more),
        "compare pools": lambda: mk.compare(search, search.with_params(pool=7), queries, qrels, **more),
        "compare scopes": lambda: mk.compare(
            search, search.with_params(function_word_weight=0.5), queries, qrels, **more
        ),
        "sweep": lambda: mk.sweep(search, queries, qrels, GRID, **more),
        "sweep scopes": lambda: mk.sweep(search, queries, qrels, wider, **more),
        "tune": lambda: mk.tune(search, queries, qrels, GRID, **more),
        "tune a sweep": tune_a_sweep,
        "estimator": estimator,
        "objective": objective,
        "against": panel,
        "decay": ages,
        "judge": lambda: JudgePanel(search, queries, qrels, other=other, as_of=DAY),
    }
    calls[verb]()
    assert counted.is_once(scopes * USERS, 0 if verb == "tune a sweep" else 2)


class Suggests:
    """A trial of Optuna's that suggests one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def suggest_float(self, name: str, low: float, high: float) -> float:
        return self.value


@pytest.mark.quick
def test_a_tuning_with_a_guard_asks_each_of_both_sets_once(
    counted: Counted, search: Retriever, files: dict[str, tuple[Path, Path]]
) -> None:
    queries, qrels = files["own"]
    tuned = mk.tune(search, queries, qrels, GRID, guard={"old": (*files["guard"], 0.01)}, as_of=DAY)
    assert counted.is_once(2 * USERS, 4)
    assert tuned.baselines_["baseline"].to_pylist() == ["words alone", "vectors alone", "words contained"]
    assert tuned.verdict_.word in ("worse", "practically the same")  # so that what nobody judged was looked at


@pytest.mark.quick
def test_a_baseline_that_no_setting_has_asks_its_own_arm_alone(
    counted: Counted, search: Retriever, files: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arms: list[tuple[str, ...]] = []
    retrieve = MemoryIndex.retrieve

    def counted_retrieve(self: MemoryIndex, reading: Any, n: int, allowed: Any) -> Any:
        arms.append(tuple(reading.weights))
        return retrieve(self, reading, n, allowed)

    monkeypatch.setattr(MemoryIndex, "retrieve", counted_retrieve)
    words = search.with_params(vector_weight=0.0, gram_weight=0.0)
    mk.tune(words, *files["own"], {"min_score": [0.0, 0.1]}, as_of=DAY)
    assert Counter(arms) == {("bm25",): USERS, ("vector",): USERS}


def test_hits_of_two_settings_asked_at_once_are_those_of_their_own_searches(
    search: Retriever, files: dict[str, tuple[Path, Path]]
) -> None:
    queries, qrels = (
        read(path) for read, path in zip((mk.labels.read_queries, mk.labels.read_qrels), files["own"], strict=True)
    )
    others = [search.with_params(**one) for one in ({"pool": 3}, {"bm25_weight": 0.0}, {"fusion": "rrf", "pool": 40})]
    labelled = LabelledQueries(queries, qrels, Moment.from_as_of(DAY))
    for other in others:
        both = [hits(5) for hits in hits_of_both(search, other, labelled)]
        for one, hits in zip((search, other), both, strict=True):
            assert hits == Pools(one, labelled).hits(5)


@pytest.mark.outside
def test_two_settings_over_buckets_compare_as_over_one_index(
    search: Retriever, files: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    search.corpus_.save(tmp_path, buckets=2)
    over = mk.Retriever(encoder="hash").fit(mk.open(tmp_path, trust=True))
    comparisons = [
        mk.compare(one, one.with_params(vector_weight=0.0, pool=3), *files["own"], as_of=DAY) for one in (over, search)
    ]
    assert (
        comparisons[0].details.drop_columns(["p"]).to_pylist() == comparisons[1].details.drop_columns(["p"]).to_pylist()
    )


def test_what_nobody_looks_at_is_not_cut(
    search: Retriever, files: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: Any) -> Any:
        raise AssertionError("a snippet was cut")

    monkeypatch.setattr(show, "window", cut)
    other = search.with_params(vector_weight=0.9)
    mk.compare(search, other, *files["own"], as_of=DAY)
    mk.tune(search, *files["own"], {"vector_weight": [0.2]}, as_of=DAY)
    assert mk.evaluate(search, *files["own"], as_of=DAY).hits.num_rows
    with pytest.raises(AssertionError, match="was cut"):
        search.search("пул")
