"""Audits: what cannot be found, without labels; and the decay horizon against searching every day."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import memkit as mk
from memkit.cli.app import app_for
from memkit.evaluation import findability, metrics
from memkit.evaluation.audit import AUDITS
from memkit.tables.samples import write_files

NOW = "2026-03-01"
WORDS = ["чай", "кофе", "пул", "соединений", "порт", "база", "отчёт", "сервер", "билет", "деплой", "river", "cedar"]


def fitted(rows: dict[str, Any], **params: Any) -> mk.Retriever:
    return mk.Retriever(**{"encoder": None, **params}).fit(mk.from_table(rows))


def alone(only: str, search: mk.Retriever, *labels: Any, **how: Any) -> pa.Table:
    return mk.audit(search, *labels, only=only, **how).tables[only]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which one section cannot be found by its heading, one is a copy, one has no word."""
    files = {
        "MEMORY.md": "…\n\n# Пул соединений\nМинимум два, максимум десять, таймаут минута.\n",
        "memory/2026-01-05.md": "# Тест восстановления\nСервер поднялся за двадцать минут, архив цел.\n",
        "memory/2026-02-05.md": "# Про сервер опять\nСервер поднялся за двадцать минут, архив цел.\n",
        "HEARTBEAT.md": "# Проверки\n- [ ] почта\n",
    }
    return write_files(tmp_path_factory.mktemp("audit"), files)


@pytest.mark.quick
def test_every_audit_can_be_asked_for_alone_and_is_a_table_of_sql_and_a_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = mk.Retriever(encoder=None).fit(mk.read(folder))
    audit = mk.audit(search, as_of=NOW)
    monkeypatch.setattr(metrics, "_AT_ONCE", 2)  # however few queries a batch has
    assert audit.table["audit"].to_pylist() == list(AUDITS)
    for name in AUDITS:
        one = mk.audit(search, only=name, as_of=NOW)
        assert list(one.tables) == one.table["audit"].to_pylist() == [name]
        assert one.tables[name].equals(audit.tables[name])
        assert one.table.to_pylist()[0] in audit.table.to_pylist()
        counted = search.corpus_.sql(f"select count(*) from audit_{name}").fetchall()  # noqa: S608
        assert counted == [(audit.tables[name].num_rows,)]
    assert {row["why"] for row in audit.tables["unsearchable"].to_pylist()} == {"no word", "kind not searched"}


@pytest.mark.quick
def test_an_audit_that_needs_no_question_asks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    search = fitted({"memory_id": ["a", "b", "c"], "text": ["чай", "чай", "—"]})
    monkeypatch.setattr(findability, "Pools", lambda *args: pytest.fail("asked"))
    assert str(mk.audit(search, only="shadowed")) == "1 of 3 memories are shadowed by a duplicate or a newer version"
    assert str(mk.audit(search, only="unsearchable")) == "1 of 3 memories cannot be found by any query"


@pytest.mark.quick
def test_an_audit_of_no_such_name_is_refused() -> None:
    with pytest.raises(mk.errors.ParameterError, match=r"'only' must be .*hubs.*Got 'hub'"):
        mk.audit(fitted({"text": ["чай"]}), only="hub")


def test_a_memory_that_its_heading_does_not_find_is_named_with_what_became_of_it() -> None:
    rows = {
        "memory_id": ["hidden", "a", "b"],
        "title": ["Зелёный чайник", "", ""],
        "text": ["Стоит на полке слева от окна.", "Зелёный чайник у Анны на кухне.", "Чайник зелёный, второй."],
    }
    unreached = alone("unreached", fitted(rows), k=1, as_of=NOW).to_pylist()
    assert [(row["memory_id"], row["asked_by"], row["why"]) for row in unreached] == [("hidden", "titles", "not_found")]
    assert unreached[0]["query"] == "Зелёный чайник"
    assert unreached[0]["by_others"] == 0
    assert mk.audit(fitted(rows), only="unreached", k=1, as_of=NOW).table["note"].to_pylist() == [
        "1 of them is the first hit of no query at all. Where search loses them: 1 sharing nothing with the query."
    ]


def test_reached_is_what_search_returns_or_folds() -> None:
    texts = ["Любит зелёный чай", "любит зелёный  чай.", "Любит чай", "Порт базы 5432", "Порт базы 6432", "чай чай"]
    rows = {"memory_id": list("abcdef"), "text": texts, "created_at": ["2026-01-01"] * 6, "kind": ["archive"] * 6}
    search = fitted(rows)
    unreached = alone("unreached", search, k=1, as_of=NOW)["memory_id"].to_pylist()
    hits = [search.search(text, k=1, as_of=NOW).to_pylist()[0] for text in texts]
    is_reached = [
        memory in (hit["memory_id"], *hit["alike"]) for memory, hit in zip(rows["memory_id"], hits, strict=True)
    ]
    assert unreached == [memory for memory, reached in zip(rows["memory_id"], is_reached, strict=True) if not reached]
    assert hits[1]["alike"] == ["b"] or hits[1]["alike"] == ["a"]  # so that folding is part of this


def test_your_own_labels_ask_in_place_of_the_memories() -> None:
    search = fitted({"memory_id": ["a", "b"], "text": ["зелёный чай", "чёрный кофе"]})
    queries = {"query_id": ["q"], "text": ["чай"]}
    qrels = {"query_id": ["q"], "memory_id": ["b"], "relevance": [1]}
    (row,) = alone("unreached", search, queries, qrels, as_of=NOW).to_pylist()
    assert (row["memory_id"], row["asked_by"], row["why"], row["query"]) == ("b", "labels", "not_found", "чай")
    with pytest.raises(mk.errors.ParameterError, match="both queries and qrels"):
        mk.audit(search, queries)


def test_a_hub_stands_before_others_more_often_than_chance() -> None:
    rng = np.random.default_rng(3)
    texts = [f"тема{i} {' '.join(rng.choice(WORDS, 3))}" for i in range(60)]
    hub = " ".join(WORDS)
    rows = {"memory_id": [f"m{i:02}" for i in range(60)] + ["hub"], "text": [*texts, hub]}
    search = fitted(rows, bm25_weight=0.0, vector_weight=0.0, gram_weight=1.0)
    hubs = alone("hubs", search, k=3, as_of=NOW).to_pylist()
    hits = search.search(pa.table({"query_id": rows["memory_id"], "text": rows["text"]}), k=3, as_of=NOW).to_pylist()
    for row in hubs:
        others = {hit["query_id"] for hit in hits if hit["memory_id"] == row["memory_id"] != hit["query_id"]}
        assert row["n_queries"] == len(others)
        assert row["share"] == len(others) / 60 >= 0.1
        assert row["times"] == pytest.approx(len(others) / (61 * 3 / 61))
    assert hubs == sorted(hubs, key=lambda row: (-row["share"], row["memory_id"]))


def test_a_user_s_hub_is_measured_by_the_queries_that_may_see_it() -> None:
    text = [f"тема{i} чай кофе" for i in range(20)] + [f"тема{i} порт база" for i in range(20)]
    rows = {"text": text, "user_id": ["anna"] * 20 + ["boris"] * 20, "memory_id": [f"{i:02}" for i in range(40)]}
    for row in alone("hubs", fitted(rows), k=5, as_of=NOW).to_pylist():
        assert row["share"] <= 1
        assert row["n_queries"] <= 19


@pytest.mark.parametrize(
    ("texts", "days", "expected"),
    [
        (["Пул: пять, порт 5432", "Пул: пять, порт 5432"], [0, 9], [("0", "1", "duplicate", None)]),
        (["Пул: пять, порт 5432", "Пул: пять, порт 5432"], [9, 0], [("1", "0", "duplicate", None)]),
        (
            ["Порт базы для отчётов: 5432", "Порт базы для отчётов: 6432"],
            [9, 0],
            [("1", "0", "newer version", "number")],
        ),
        (["Порт базы для отчётов: 5432", "Порт базы для отчётов: 6432"], [0, 0], []),  # which is the newer one?
        (["Любит чай", "Утром любит чай и мёд"], [9, 0], [("0", "1", "part of a longer one", None)]),
        (["чай", "кофе"], [0, 9], []),
    ],
)
def test_what_stands_behind_another(texts: list[str], days: list[int], expected: list[Any]) -> None:
    dates = [datetime.fromisoformat("2026-01-01") + timedelta(days=day) for day in days]
    shadowed = alone("shadowed", fitted({"memory_id": ["0", "1"], "text": texts, "created_at": dates})).to_pylist()
    assert [(row["memory_id"], row["by_id"], row["how"], row["differs"]) for row in shadowed] == expected


def test_the_day_below_min_score_is_what_the_formula_says() -> None:
    rows = {"memory_id": ["a"], "text": ["зелёный чай"], "created_at": ["2026-03-01"], "kind": ["archive"]}
    search = fitted(rows)
    (score,) = search.search("зелёный чай", as_of=NOW)["score"].to_pylist()
    days = {"e_folding": 60 * math.log(score / 0.2), "half_life": 60 * math.log2(score / 0.2)}
    days |= {"linear": 120 * (1 - 0.2 / score), "gauss": 60 * math.sqrt(math.log2(score / 0.2))}
    for form, day in days.items():
        (row,) = alone("horizon", search.with_params(decay=form, min_score=0.2), as_of=NOW).to_pylist()
        assert (row["days"], row["why"]) == (math.ceil(day), "below min_score")
    for params in ({"decay": "none"}, {"decay_floor": 0.5}, {"decay_kinds": ()}):
        (row,) = alone("horizon", search.with_params(min_score=0.2, **params), as_of=NOW).to_pylist()
        assert (row["days"], row["day"], row["why"]) == (None, None, "never")
    (row,) = alone("horizon", search.with_params(decay_days=1e6, min_score=0.2), as_of=NOW).to_pylist()
    assert row["why"] == "later"


@pytest.fixture(scope="module")
def aged() -> mk.Retriever:
    """Some that decay, some that do not, some without a date or with one to come, some that expire."""
    rng = np.random.default_rng(5)
    texts = [f"{' '.join(rng.choice(WORDS, 4))} {WORDS[i % len(WORDS)]}{i}" for i in range(24)]
    ages = [None if i % 6 == 5 else f"2026-0{1 + i % 4}-{1 + i:02}" for i in range(24)]
    expires = ["2026-03-20" if i % 8 == 3 else None for i in range(24)]
    kinds = ["archive", "profile", "archive", "working"] * 6
    rows = {"text": texts, "created_at": ages, "expires_at": expires, "kind": kinds}
    return fitted({**rows, "memory_id": [f"{i:02}" for i in range(24)]}, fold="none")


@settings(max_examples=12)
@given(
    form=st.sampled_from(["e_folding", "half_life", "linear", "gauss"]),
    days=st.sampled_from([5.0, 30.0]),
    floor=st.sampled_from([0.0, 0.0, 0.3]),
    least=st.sampled_from([0.0, 0.05, 0.2]),
    k=st.integers(1, 4),
    word=st.sampled_from(WORDS),
)
def test_the_horizon_is_the_first_day_on_which_search_does_not_return_it(
    aged: mk.Retriever, form: str, days: float, floor: float, least: float, k: int, word: str
) -> None:
    search = aged.with_params(decay=form, decay_days=days, decay_floor=floor, min_score=least)
    now = search.search(word, k=k, as_of=NOW)["memory_id"].to_pylist()
    if not now:
        return
    queries = {"query_id": ["q"], "text": [word]}
    qrels = {"query_id": ["q"] * len(now), "memory_id": now, "relevance": [1] * len(now)}
    horizon = {row["memory_id"]: row for row in alone("horizon", search, queries, qrels, k=k, as_of=NOW).to_pylist()}
    assert set(horizon) == set(now)
    start, visible = datetime.fromisoformat(NOW), set(now)
    ends = {row["days"] for row in horizon.values() if row["days"] in range(120)}
    # A memory that goes on another day than the one that is said is there on that day, or gone on the day before it.
    for day in sorted({1, *range(10, 120, 30), 119, *(max(end - 1, 1) for end in ends), *ends}):
        returned = set(search.search(word, k=k, as_of=start + timedelta(days=day))["memory_id"].to_pylist())
        for memory in sorted(visible - returned):
            assert horizon[memory]["days"] == day, (memory, horizon[memory])
            assert horizon[memory]["day"] == (start + timedelta(days=day)).date()
        visible &= returned
    for memory in visible:
        assert horizon[memory]["days"] is None or horizon[memory]["days"] >= 120


def test_what_is_not_there_yet_is_not_missed() -> None:
    rows = {"text": ["зелёный чай утром", "чёрный кофе ночью"], "created_at": ["2026-01-01", "2026-03-01T15:00"]}
    search = fitted({**rows, "memory_id": ["a", "b"]})
    for day, n in (("2026-02-28", 1), ("2026-03-01T14:59", 1), ("2026-03-01", 2), (None, 2)):
        audit = mk.audit(search, as_of=day)
        assert audit.tables["unreached"].num_rows == 0
        assert audit.tables["horizon"].num_rows == n


def test_where_decay_has_taken_everything_that_is_what_is_said() -> None:
    rows = {"memory_id": ["a"], "text": ["зелёный чай"], "created_at": ["2020-01-01"], "kind": ["archive"]}
    audit = mk.audit(fitted(rows, min_score=0.1), as_of=NOW)
    assert audit.tables["unreached"]["why"].to_pylist() == ["decayed_out"]
    assert audit.tables["horizon"].num_rows == 0


def test_a_folder_without_anything_to_ask_for_is_told_so() -> None:
    with pytest.raises(mk.errors.ParameterError, match="memories with a word"):
        mk.audit(fitted({"text": ["…", "!"]}))


def test_the_command_says_it_on_less_than_40_lines_and_as_json(folder: Path) -> None:
    run = CliRunner().invoke(app_for(["audit"]), ["audit", str(folder), "--as-of", NOW, "--set", "encoder=none"])
    assert run.exit_code == 0, run.output
    assert len(run.stdout.splitlines()) < 40
    assert "are found by the queries that ask for them, 2 are not" in run.stdout
    options = ["audit", str(folder), "--as-of", NOW, "--set", "encoder=none", "--json"]
    assert [row["audit"] for row in json.loads(CliRunner().invoke(app_for(["audit"]), options).stdout)] == list(AUDITS)
    rows = json.loads(CliRunner().invoke(app_for(["audit"]), [*options, "--table", "unsearchable"]).stdout)
    assert {row["why"] for row in rows} == {"no word", "kind not searched"}
    wrong = CliRunner().invoke(app_for(["audit"]), [*options, "--table", "hub"])
    assert wrong.exit_code


def test_hits_that_their_author_calls_outdated_are_counted() -> None:
    rows = {
        "memory_id": ["old", "new", "gone", "stale", "well"],
        "title": ["Пул соединений", "Размер пула", "Таймаут запроса", "Порт сервера", "Цвет кнопки"],
        "text": ["пул соединений десять", "размер пула двадцать", "таймаут минута", "порт сервера 8080", "цвет синий"],
        "status": [None, None, "deprecated", "active", "done"],
        "superseded_by": ["new", None, None, None, None],
        "stale_at": [None, None, None, "2026-02-01", "2027-01-01"],
    }
    queries = {"query_id": [*"abcd"], "text": ["пул соединений", "таймаут", "порт сервера", "цвет"]}
    qrels = {"query_id": [*"abcd"], "memory_id": ["old", "gone", "stale", "well"], "relevance": [1] * 4}
    search = fitted(rows)
    expected = {
        ("keep", NOW): {"old": ("superseded", "new"), "gone": ("deprecated", None), "stale": ("stale", None)},
        ("keep", None): {"old": ("superseded", "new"), "gone": ("deprecated", None)},
        ("obey", NOW): {"stale": ("stale", None)},
        ("obey", None): {},
    }
    for (status, day), outdated in expected.items():
        audit = mk.audit(search.with_params(status=status), queries, qrels, only="outdated", as_of=day)
        table = {row["memory_id"]: row for row in audit.tables["outdated"].to_pylist()}
        assert {name: (row["why"], row["by_id"]) for name, row in table.items()} == outdated, (status, day)
        assert audit.table["count"].to_pylist() == [len(outdated)]
        hits = search.with_params(status=status).search(pd.DataFrame(queries), as_of=day).to_pylist()
        for name, row in table.items():
            ranks = [hit["rank"] for hit in hits if hit["memory_id"] == name]
            assert (row["rank"], row["n_queries"]) == (min(ranks), len(ranks)), name


def test_queries_are_made_for_a_sample_of_many_memories_and_this_is_said() -> None:
    words = ["пул", "чай", "план", "дом", "река", "гора", "лес", "поле"]
    search = fitted({"text": [f"{word} {number}" for word in words for number in range(3)]})
    every = mk.audit(search, only="unreached", n=None, as_of=NOW).table.to_pylist()[0]
    some = mk.audit(search, only="unreached", n=5, as_of=NOW).table.to_pylist()[0]
    assert (every["of"], every["note"][:5], some["of"]) == (24, "", 5)
    assert some["note"].startswith("Asked for 5 of 24 memories")
