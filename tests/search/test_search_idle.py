"""A parameter that acts on nothing says so, by its own declaration, wherever a user gave it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sklearn.base import clone

import memkit as mk

TEXTS = ["пул соединений", "зелёный чай", "кофе утром", "аренда офиса", "новый проект", "старый договор", "письмо"]
NAMES = [f"m{number}" for number in range(len(TEXTS))]
QUERIES = {"query_id": NAMES, "text": TEXTS}
QRELS = {"query_id": NAMES, "memory_id": NAMES, "relevance": [1] * len(TEXTS)}
LOGS = {"memory_id": NAMES, "text": TEXTS, "kind": ["daily_log"] * len(TEXTS), "created_at": ["2026-01-01"] * 7}
DAY = "2026-01-05"
NO_HIT = "No hit: there are candidates, but none reaches min_score 1.2. "
NOTHING_DECAYS = "decay acts on 0 of 7 memories; decay_kinds='*' includes all."


@pytest.fixture(scope="module")
def logs() -> mk.Retriever:
    return mk.Retriever(encoder=None).fit(mk.from_table(LOGS))


def note(table: pa.Table) -> str:
    return (table.schema.metadata or {}).get(b"note", b"").decode()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decay_days": 30.0}, NOTHING_DECAYS),
        ({"decay_days": 30.0, "decay_floor": 0.2}, NOTHING_DECAYS),
        ({"decay_days": 30.0, "decay": "none"}, "decay acts on 0 of 7 memories; decay='none' turns it off."),
        ({"decay_days": 30.0, "decay_kinds": "*"}, ""),
        ({"decay": "none"}, ""),
        ({}, ""),
        ({"kind_weights": {"daily_log": 0.5}}, ""),
        (
            {"kind_weights": {"daily_log": 0.5, "entry": 0.2}},
            "kind_weights of 'entry' acts on 0 of 7 memories; the kinds here are 'daily_log'.",
        ),
        ({"rerank": lambda query, texts: [1.0] * len(texts)}, ""),
        (
            {"rerank": lambda query, texts: [1.0] * len(texts), "rerank_weight": 0.0},
            "rerank acts on 0 of 20 candidates of a query; rerank_weight is 0.",
        ),
        ({"min_score": 1.2}, "min_score=1.2 lets through 0 of 7 memories; with these settings no score is above 1."),
        ({"prefer": "newest"}, ""),
        ({"expired": "keep"}, "expired acts on 0 of 7 memories; none has an end (expires_at)."),
    ],
)
def test_a_search_names_what_was_given_and_acts_on_nothing(
    logs: mk.Retriever, given: dict[str, Any], said: str
) -> None:
    search = logs.with_params(**given)
    for table in (search.search("чай", as_of=DAY), search.trace("чай", as_of=DAY)):
        assert note(table).removeprefix(NO_HIT) == said
    if not said.startswith("min_score"):  # nothing is found, which is an error of its own
        assert note(mk.evaluate(search, QUERIES, QRELS, "mrr", as_of=DAY).table) == said


@pytest.mark.quick
def test_recency_without_dates_is_named() -> None:
    undated = mk.from_table({"text": TEXTS, "kind": ["archive"] * 7})
    search = mk.Retriever(encoder=None, prefer="newest", decay_days=9.0).fit(undated)
    assert note(search.search("чай")) == " ".join(
        f"{what} acts on 0 of 7 memories; none has a date; mk.read(path, dates='git'), or 'mtime', dates them by their"
        " files."
        for what in ("decay", "prefer")
    )


@pytest.mark.quick
def test_two_searches_that_differ_in_what_acts_on_nothing_are_not_compared_in_silence(logs: mk.Retriever) -> None:
    short, long = logs.with_params(decay_days=1.0), logs.with_params(decay_days=9000.0)
    for labels in ([QRELS], []):
        found = mk.compare(short, long, QUERIES, *labels)
        assert found.notes == (NOTHING_DECAYS,)
        assert NOTHING_DECAYS in str(found)
        assert any(NOTHING_DECAYS in text for sheet in found._sheets() for text in sheet.notes)
    assert mk.compare(logs, logs.with_params(decay="none"), QUERIES, QRELS).notes == (NOTHING_DECAYS,)
    assert mk.compare(logs, logs.with_params(pool=50), QUERIES, QRELS).notes == ()
    assert mk.compare(short.with_params(decay_kinds="*"), short, QUERIES, QRELS).notes == (NOTHING_DECAYS,)


def test_a_measure_ends_its_sentence_with_what_acts_on_nothing(logs: mk.Retriever) -> None:
    for search in (logs.with_params(decay_days=30.0), logs.with_params(decay_days=60.0)):
        found = mk.evaluate(search, QUERIES, QRELS)
        assert str(found).endswith(f". {NOTHING_DECAYS}")
        (sheet,) = found._sheets()
        assert [NOTHING_DECAYS in text for text in (sheet.heading, *sheet.notes)].count(True) == 1
    assert NOTHING_DECAYS not in str(mk.evaluate(logs, QUERIES, QRELS))


def test_a_value_that_is_the_default_too_was_given_where_somebody_named_it() -> None:
    corpus = mk.from_table(LOGS)
    named = mk.Retriever(encoder=None, decay_days=60.0)
    by_name = [named, named.with_params(pool=50), mk.Retriever(encoder=None).set_params(decay_days=60.0)]
    whole = [clone(named), mk.Retriever(**{**mk.presets.workspace, "encoder": None})]
    for said, searches in ((NOTHING_DECAYS, by_name), ("", [mk.Retriever(encoder=None), *whole])):
        for search in searches:
            search.fit(corpus)
            assert note(search.search("чай")) == said
            assert note(mk.evaluate(search, QUERIES, QRELS).table) == said
    nothing_archived = {"decay_kinds": ("archive",), "decay_days": 60.0}
    table = mk.Decay(**nothing_archived).transform(pa.table(LOGS))
    assert note(table) == NOTHING_DECAYS
    told = note(mk.replay(pa.table(LOGS), mk.Decay(**nothing_archived), mk.Decay(**nothing_archived)))
    assert NOTHING_DECAYS in told


def test_replay_begins_with_how_many_change_and_says_what_answers_for_decay() -> None:
    corpus = mk.from_table(LOGS)
    first, *others = note(mk.replay(corpus, mk.Decay(decay_days=30), mk.Decay(decay_days=90))).split(". ")
    assert first == "0 of 7 change"
    assert any("mk.audit(search, only='horizon')" in text for text in others)
    assert any(text.startswith("By the policy 7 of 7 memories decay, in a search 0") for text in others)
    told = note(mk.replay(corpus, mk.Expiry(), mk.Expiry(grace_days=7)))
    assert told == "0 of 7 change. grace_days acts on 0 of 7 memories; none has a last day (expires_at)."
    ending = pa.table({"text": ["план"], "expires_at": ["2026-03-01"]})
    assert note(mk.replay(ending, mk.Expiry(), mk.Expiry(grace_days=7), as_of="2026-03-05")) == "1 of 1 change."


def test_a_policy_shows_what_its_parameters_do_not_reach() -> None:
    table = mk.Decay(decay_days=30.0, decay_kinds=("archive",)).transform(pa.table(LOGS), as_of="2026-03-01")
    assert note(table) == NOTHING_DECAYS
    near = {"text": ["аренда офиса на севере города", "аренда офиса на севере город", "чай"]}
    found = mk.Deduplicator(encoder=None, lexical_threshold=0.999).fit(pa.table(near))
    top = found.pairs_["similarity"].to_pylist()
    assert note(found.transform(pa.table(near))) == (
        f"lexical_threshold=0.999 merges 0 of 1 pair; the most similar lexical pair has {top[0]:.3g}."
    )
