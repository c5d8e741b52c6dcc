"""A lake of buckets answers as one index over everything does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.cli.common import load
from memkit.errors import FormatError, MemkitError, ParameterError
from memkit.scale import buckets
from memkit.scale import index as fitted
from memkit.search.fitted.chunks import Index

pytestmark = pytest.mark.outside

DAY = "2026-03-01"
WORDS = [
    "пул",
    "соединений",
    "вырос",
    "release",
    "friday",
    "чай",
    "зелёный",
    "кофе",
    "план",
    "задача",
    "deploy",
    "ночь",
]
QUESTIONS = [
    "пул соединений",
    "зелёный чай release",
    "вчера кофе",
    "friday deploy the plan",
    "",
    "ничего такого",
    "чаю",
]


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    draw = np.random.default_rng(5)
    n = 240
    texts = [" ".join(draw.choice(WORDS, 1 + i % 7)) if i % 20 else "--" for i in range(n)]
    texts[33] = "\n".join(" ".join(draw.choice(WORDS, 4)) for _ in range(40))  # of more short chunks than count
    users = [None if i % 11 == 0 else f"u{i % 13}" for i in range(n)]
    dates = [f"2026-0{1 + i % 2}-{1 + i % 28:02}" if i % 3 else None for i in range(n)]
    kinds = ["archive" if i % 2 else "note" for i in range(n)]
    ids = [f"m{i * 7 % n:04}" for i in range(n)]
    stale_at = ["2026-02-10" if i % 5 == 1 else "2026-03-02" if i % 5 == 2 else None for i in range(n)]
    after = [min(i + (13 if users[i] else 22), n - 1) for i in range(n)]  # mostly of the same user, or of none
    successor = [ids[j] if i % 17 == 3 or i % 33 == 0 else None for i, j in enumerate(after)]
    return mk.from_table(
        {
            "memory_id": ids,
            **{
                "text": texts,
                "user_id": users,
                "created_at": dates,
                "kind": kinds,
                "path": [f"p{i}.md" for i in range(n)],
                "stale_at": stale_at,
                "superseded_by": successor,
            },
        }
    )


@pytest.fixture(scope="module")
def lake(corpus: mk.Corpus, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("lake")
    corpus.save(folder, buckets=3)
    return mk.open(folder)


def assert_same(one: pa.Table, two: pa.Table) -> None:
    assert one.column_names == two.column_names
    for name in one.column_names:
        if pa.types.is_floating(one[name].type):
            a, b = (table[name].to_numpy(zero_copy_only=False) for table in (one, two))
            assert np.allclose(a, b, rtol=0, atol=1e-9, equal_nan=True), name
        else:
            assert one[name].equals(two[name]), name


SETTINGS: list[dict[str, Any]] = [
    {},
    {"index__centre": "language"},
    {"index__centre": "corpus", "normalize": "max", "fold": "none", "mmr_lambda": 0.6, "rerank": "hash", "rerank_n": 5},
    {"encoder": None, "index__lexical": "char", "index__chunk_tokens": 3, "index__overlap_tokens": 1, "unit": "chunk"},
    {"fusion": "rrf", "pool": 7, "kind_weights": {"note": 0.5}, "decay_kinds": ("*",)},
    {"prefer": "newest", "fold": "none", "index__chunk_tokens": 8, "index__overlap_tokens": 0, "pool": 15},
]
OF_ALL = "memory_id in (select max(memory_id) from memories)"
WHERES = [None, "user_id = 'u3' and kind = 'note'", "user_id is null", "false", OF_ALL]


def wheres_of(settings: dict[str, Any]) -> list[str | None]:
    """All predicates for the first settings; for each others everything and one of them."""
    number = SETTINGS.index(settings)
    return WHERES if not number else [WHERES[0], WHERES[1 + number % 4]]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_hits_are_those_of_one_index(settings: dict[str, Any], corpus: mk.Corpus, lake: Any) -> None:
    one, in_buckets = (mk.Retriever(**{"encoder": "hash"} | settings).fit(held) for held in (corpus, lake))
    for where in wheres_of(settings):
        assert_same(*(search.search(QUESTIONS, where=where, as_of=DAY, k=10) for search in (one, in_buckets)))


def test_a_users_question_opens_one_bucket(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    search = mk.Retriever(encoder=None).fit(lake)
    opened: list[int] = []
    real = buckets.Buckets.bucket
    monkeypatch.setattr(buckets.Buckets, "bucket", lambda self, i: (opened.append(i), real(self, i))[1])
    search.search("чай", user_id="u3", where="kind = 'note'", as_of=DAY)
    assert opened == lake.needed("u3")
    monkeypatch.setattr(fitted, "empty_index", None)  # one was made, and no question asks for more
    assert search.search("чай", user_id="u3", as_of=DAY).num_rows


@pytest.fixture(scope="module")
def by_words(corpus: mk.Corpus, lake: Any) -> list[mk.Retriever]:
    return [mk.Retriever(encoder=None).fit(held) for held in (corpus, lake)]


@pytest.mark.parametrize("user", ["u1", "u3", "o'neill", "unknown"])
def test_a_user_sees_what_the_predicate_says(user: str, by_words: list[mk.Retriever]) -> None:
    named = user.replace("'", "''")
    where = f"user_id = '{named}' or user_id is null"
    for search in by_words:
        assert_same(search.search(QUESTIONS, where=where, as_of=DAY), search.search(QUESTIONS, user_id=user, as_of=DAY))
        assert_same(search.trace(QUESTIONS, where=where, as_of=DAY), search.trace(QUESTIONS, user_id=user, as_of=DAY))
        with pytest.raises(ParameterError, match="or None for everybody"):
            search.search("чай", user_id="")
        note = search.search("чай", user_id=user, as_of=DAY).schema.metadata.get(b"note", b"").decode()
        assert ("has no memory: only" in note) == (not user.startswith("u") or user == "unknown")


def test_a_user_needs_one_bucket_where_all_memories_are_somebodys(tmp_path: Path) -> None:
    users = [f"u{i}" for i in range(20)]
    mk.from_table({"text": users, "user_id": users}).save(tmp_path, buckets=4)
    lake: Any = mk.open(tmp_path)
    assert all(lake.needed(user) == [lake.bucket_of(user)] for user in users)
    assert lake.needed(None) == [0, 1, 2, 3]


def test_few_buckets_are_held_at_once(lake: Any, corpus: mk.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted, "OPEN", 2)
    in_buckets = mk.Retriever(encoder=None).fit(lake)
    one = mk.Retriever(encoder=None).fit(corpus)
    assert_same(one.search(QUESTIONS, as_of=DAY), in_buckets.search(QUESTIONS, as_of=DAY))
    assert len(in_buckets.index_._open) <= 2


def test_workers_count_the_same(lake: Any) -> None:
    alone = mk.Retriever(encoder=None).fit(lake).search(QUESTIONS, as_of=DAY)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert_same(alone, mk.Retriever(encoder=None).fit(lake).search(QUESTIONS, as_of=DAY))


def test_as_a_corpus_it_is_all_buckets(lake: Any, corpus: mk.Corpus) -> None:
    def rows(held: mk.Corpus, name: str) -> list[str]:
        return sorted(map(str, held.tables[name].to_pylist()))

    names = corpus.tables.keys() - {"chunks"}  # which a Retriever makes
    assert {name for name in names if rows(lake, name) != rows(corpus, name)} == set()
    assert lake.sql("select count(*) from memories").fetchall() == [(corpus.memories.num_rows,)]
    owners = [set(lake.bucket(i).memories["user_id"].to_pylist()) - {None} for i in range(len(lake))]
    assert sum(map(len, owners)) == len(set.union(*owners))


@pytest.fixture(scope="module")
def labels(corpus: mk.Corpus) -> tuple[pa.Table, pa.Table]:
    draw, ids = np.random.default_rng(9), corpus.memories["memory_id"].to_pylist()
    names = [str(i) for i in range(12)]
    users = [None if i % 3 == 0 else f"u{i}" for i in range(12)]
    queries = pa.table({"query_id": names, "text": [" ".join(draw.choice(WORDS, 3)) for _ in names], "user_id": users})
    return queries, pa.table({"query_id": names, "memory_id": draw.choice(ids, 12), "relevance": [1] * 12})


def by_id(table: pa.Table) -> pa.Table:
    """The rows in the order of their ids: those of buckets come bucket by bucket."""
    return table.sort_by([(name, "ascending") for name in table.column_names if name in ("memory_id", "as_of")])


GRID = {"vector_weight": [0.2, 0.7], "decay_days": [30.0, 60.0], "decay_kinds": ["*"], "pool": [5, 50]}
STRICT = [mk.Admission(), mk.Deduplicator(encoder=None), mk.Quota(max_facts=5)]
LOOKS: dict[str, Callable[[mk.Retriever, mk.Corpus, pa.Table, pa.Table], list[pa.Table]]] = {
    "evaluate": lambda search, _, queries, qrels: [mk.evaluate(search, queries, qrels, as_of=DAY).table],
    "compare": lambda search, _, queries, qrels: [
        mk.compare(search, search.with_params(vector_weight=0.1), queries, qrels, as_of=DAY).table
    ],
    "sweep": lambda search, _, queries, qrels: [
        (swept := mk.sweep(search, queries, qrels, GRID, ["ndcg@10"], as_of=DAY)).table,
        swept.scores,
    ],
    "trace": lambda search, _, queries, qrels: [search.trace(queries, as_of=DAY, where="kind = 'note'")],
    "audits": lambda search, _, queries, qrels: [
        *(table for _, table in sorted(mk.audit(search, k=3, n=4, as_of=DAY).tables.items())),
        *(table for _, table in sorted(mk.audit(search, queries, qrels, k=3, as_of=DAY).tables.items())),
    ],
    "policies": lambda _, held, queries, qrels: [
        by_id(policy.transform(held, as_of=DAY)) for policy in (mk.Admission(), mk.Quota(), mk.Expiry(), mk.Decay())
    ],
    "dedup": lambda _, held, queries, qrels: [mk.Deduplicator(encoder="hash", floor=0.5).fit(held).pairs_],
    "replay": lambda _, held, queries, qrels: [
        by_id(mk.replay(held, mk.Quota(), mk.Pipeline(STRICT), as_of=["2026-02-01", DAY])),
        mk.forecast(held, as_of=DAY),
    ],
}


@pytest.fixture(scope="module")
def fitted_to(corpus: mk.Corpus, lake: Any) -> list[tuple[mk.Retriever, mk.Corpus]]:
    return [(mk.Retriever(encoder="hash").fit(held), held) for held in (corpus, lake)]


@pytest.mark.parametrize("name", LOOKS)
def test_measures_audits_and_policies_are_those_of_one_corpus(
    name: str, fitted_to: list[tuple[mk.Retriever, mk.Corpus]], labels: tuple[pa.Table, pa.Table]
) -> None:
    one, in_buckets = (LOOKS[name](search, held, *labels) for search, held in fitted_to)
    for ours, theirs in zip(one, in_buckets, strict=True):
        assert_same(ours, theirs)


def test_an_explanation_is_that_of_one_index(fitted_to: list[tuple[mk.Retriever, mk.Corpus]]) -> None:
    one, in_buckets = (mk.explain(search, "зелёный чай", "m0007", as_of=DAY) for search, _ in fitted_to)
    assert one == in_buckets


def test_what_is_too_much_for_one_index_says_so(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    search = mk.Retriever(encoder=None).fit(lake)
    monkeypatch.setattr(fitted, "AT_ONCE", 100)
    with pytest.raises(MemkitError, match=r"at most 100\. Got 240"):
        search.trace("чай", as_of=DAY)


def test_what_needs_one_index_says_so(lake: Any) -> None:
    search = mk.Retriever(encoder=None).fit(lake)
    with pytest.raises(MemkitError, match=r"whole\(\)"):
        search.save("nowhere")
    with pytest.raises(ParameterError, match="had no weight at fit"):
        mk.Retriever(encoder=None, gram_weight=0.0).fit(lake).with_params(gram_weight=0.5).search("чай")
    with pytest.raises(ParameterError, match=r"whole\(\)"):
        mk.Retriever(encoder="lsa").fit(lake)
    assert mk.Retriever(encoder=None).fit(lake.whole()).trace("чай", as_of=DAY).num_rows


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "lake"
    table = {"text": ["чай", "кофе", "пул", "план"], "user_id": ["anna", "boris", "vera", "gleb"]}
    mk.from_table(table).save(folder, buckets=3)
    return folder


@pytest.fixture
def saved(small: Path, tmp_path: Path) -> Path:
    """A small lake of its own for each test."""
    return Path(shutil.copytree(small, tmp_path / "lake"))


def test_what_is_read_for_buckets_is_saved_in_them(tmp_path: Path) -> None:
    corpus = mk.read(mk.sample_data() / "facts", buckets=3)
    corpus.save(tmp_path / "lake")
    lake: Any = mk.open(tmp_path / "lake")
    assert len(lake) == 3
    assert sorted(lake.memories["memory_id"].to_pylist()) == sorted(corpus.memories["memory_id"].to_pylist())
    mk.Retriever(encoder=None).fit(corpus.refresh()).corpus_.save(tmp_path / "of a search")
    held: Any = mk.open(tmp_path / "of a search")
    assert len(held) == 3


def test_the_command_line_opens_them(saved: Path) -> None:
    assert load(saved).sql("select count(*) from memories").fetchall() == [(4,)]


def test_a_bucket_that_is_missing_is_said(saved: Path) -> None:
    shutil.rmtree(saved / "bucket-00001")
    with pytest.raises(FormatError, match=r"bucket-00001: expected a bucket of this lake\. Got none"):
        mk.Retriever(encoder=None).fit(mk.open(saved))


def test_a_bucket_of_another_save_is_said(saved: Path, tmp_path: Path) -> None:
    mk.from_table({"text": ["другое"]}).save(tmp_path / "other")
    shutil.rmtree(saved / "bucket-00001")
    shutil.copytree(tmp_path / "other", saved / "bucket-00001")
    with pytest.raises(FormatError, match="expected the bucket that was saved with the others"):
        mk.Retriever(encoder=None).fit(mk.open(saved))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 3},
        {"lake": 99},
        {"buckets": []},
        {"buckets": [{"name": "../other", "manifest": "a", "memories": 1, "shared": 0}]},
        {"buckets": [{"name": "bucket-00000", "manifest": "a"}]},
        {"buckets": "all"},
    ],
)
def test_a_list_of_another_version_or_of_others_is_refused(change: dict[str, Any], saved: Path) -> None:
    path = saved / "buckets.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=r"buckets\.json: expected"):
        mk.open(saved)


def test_a_number_of_buckets_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for number in (0, -1, 100_001):
        with pytest.raises(ParameterError, match=r"'buckets' must be an int in \[1, 100000\]"):
            mk.from_table({"text": ["чай"]}).save(tmp_path / "lake", buckets=number)
        assert not (tmp_path / "lake").exists(), number


def test_a_save_that_was_stopped_is_gone_on_with(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, real, written = mk.open(saved).whole(), buckets.save, list[str]()

    def save(*args: Any, stop_after: int = 1) -> None:
        if len(written) == stop_after:
            raise KeyboardInterrupt
        written.append(args[-1].name)
        real(*args)

    more = mk.from_table({"text": [f"чай {n}" for n in range(9)], "user_id": list("abcdefghi")})
    monkeypatch.setattr(buckets, "save", save)
    with pytest.raises(KeyboardInterrupt):
        more.save(saved, buckets=3)
    with pytest.raises(FormatError, match="an incomplete save"):
        mk.open(saved)
    monkeypatch.setattr(buckets, "save", partial(save, stop_after=9))
    more.save(saved, buckets=3)
    assert sorted(written) == ["bucket-00000", "bucket-00001", "bucket-00002"]
    assert mk.open(saved).memories.num_rows == 9
    assert corpus.memories.num_rows == 4


def test_lakes_and_buckets_do_not_overwrite_each_other(saved: Path, tmp_path: Path) -> None:
    corpus = mk.from_table({"text": ["чай"]})
    with pytest.raises(MemkitError, match="it holds a lake of buckets"):
        corpus.save(saved)
    corpus.save(tmp_path / "plain")
    with pytest.raises(MemkitError, match="a lake without buckets lies there"):
        corpus.save(tmp_path / "plain", buckets=2)


@pytest.mark.parametrize(
    ("settings", "from_one"),
    [({}, True), ({"index__centre": "language"}, False), ({"encoder": None, "index__lexical": "char"}, True)],
)
def test_totals_are_saved_so_that_a_users_question_reads_one_bucket(
    settings: dict[str, Any], from_one: bool, corpus: mk.Corpus, tmp_path: Path
) -> None:
    settings = {"encoder": "hash"} | settings
    held = mk.from_table(corpus.memories.filter(pc.is_valid(corpus.memories["user_id"])))
    one = mk.Retriever(**settings).fit(held)
    one.corpus_.save(tmp_path / "lake", buckets=4)
    if not from_one:
        shutil.rmtree(tmp_path / "lake" / "totals")
        lake = mk.open(tmp_path / "lake")
        mk.Retriever(**settings).fit(lake).corpus_.save(tmp_path / "lake")
    lake = mk.open(tmp_path / "lake")
    bucket: Any = lake.bucket_of("u3")
    for other in set(range(4)) - {bucket}:
        shutil.rmtree(tmp_path / "lake" / f"bucket-{other:05}")
    in_buckets = mk.Retriever(**settings).fit(lake)
    scope = {"user_id": "u3", "as_of": DAY}
    assert_same(one.search(QUESTIONS, **scope), in_buckets.search(QUESTIONS, **scope))
    with pytest.raises(FormatError, match=r"expected a bucket of this lake\. Got none"):
        in_buckets.search(QUESTIONS, as_of=DAY)


def test_totals_of_other_settings_or_buckets_are_not_taken(lake: Any, corpus: mk.Corpus, tmp_path: Path) -> None:
    def counted(held: mk.Corpus, **settings: Any) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fitted, "count", lambda *_: called.append(1) or fitted.Statistics(1, lengths={"bm25": 1}))
            called: list[int] = []
            mk.Retriever(**{"encoder": None, "gram_weight": 0.0} | settings).fit(held)
            return bool(called)

    held = mk.from_table(corpus.memories)
    mk.Retriever(encoder=None, gram_weight=0.0).fit(held).corpus_.save(tmp_path, buckets=2)
    assert not counted(mk.open(tmp_path))
    assert counted(mk.open(tmp_path), index__chunk_tokens=50)
    assert counted(mk.open(tmp_path), gram_weight=0.2)
    read = vars(Index)["boilerplate"]
    with pytest.MonkeyPatch.context() as patch:  # as in another version of memkit
        patch.setattr(read, "declared", replace(read.declared, stands_for=("чай",)))
        assert counted(mk.open(tmp_path))
    mk.from_table({"text": ["чай"]}).save(tmp_path, buckets=2)
    assert counted(mk.open(tmp_path))


@pytest.mark.parametrize("name", ["terms.parquet", "sample.parquet"])
def test_damaged_totals_are_said(name: str, corpus: mk.Corpus, tmp_path: Path) -> None:
    held = mk.from_table(corpus.memories)
    mk.Retriever(encoder=None).fit(held).corpus_.save(tmp_path, buckets=2)
    (path,) = tmp_path.glob(f"totals/*/{name}")
    path.write_bytes(b"PAR1")
    with pytest.raises(FormatError, match=name):
        mk.Retriever(encoder=None).fit(mk.open(tmp_path))
