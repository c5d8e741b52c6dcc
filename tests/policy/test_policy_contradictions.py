"""Contradictions of a corpus: dated memories of one user, newest first, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest

import memkit as mk
from memkit.policy.contradictions import contradictions

NOW = "2026-03-01"


@pytest.fixture(scope="module")
def sample_search(sample: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder=None).fit(sample)


def pairs(*rows: tuple[Any, ...], as_of: str = NOW, **columns: list[Any]) -> list[tuple[str, str, str]]:
    """Older, newer and kind for rows of text and date, named a, b, c …"""
    table = {
        "memory_id": [chr(ord("a") + place) for place in range(len(rows))],
        "text": [row[0] for row in rows],
        "created_at": [row[1] for row in rows],
        **columns,
    }
    listed = contradictions(mk.from_table(table), as_of).to_pylist()
    return [(row["memory_id"], row["by_id"], row["kind"]) for row in listed]


def rent(amount: int) -> str:
    return f"Аренда квартиры стоит {amount} евро в месяц."


@pytest.mark.quick
def test_each_older_statement_stands_beside_the_newest_that_contradicts_it_newest_first() -> None:
    rows = (
        (rent(1200), "2026-01-01"),
        (rent(1500), "2026-01-20"),
        ("Анна ест мясо.", "2026-01-02"),
        (rent(1600), "2026-02-01"),
        ("Анна не ест мясо.", "2026-02-20"),
    )
    assert pairs(*rows) == [("c", "e", "negation"), ("b", "d", "number"), ("a", "d", "number")]


@pytest.mark.quick
def test_only_dated_memories_of_one_user_that_hold_on_the_day_are_compared(subtests) -> None:
    two = ((rent(1200), "2026-01-01"), (rent(1500), "2026-02-01"))
    assert pairs(*two) == [("a", "b", "number")]
    for name, left_out in {
        "undated": {"created_at": ["2026-01-01", None]},
        "the same moment": {"created_at": ["2026-01-01", "2026-01-01"]},
        "two users": {"user_id": ["anna", "boris"]},
        "expired": {"expires_at": ["2026-01-15", None]},
        "superseded": {"status": ["superseded", None]},
        "of the future": {"created_at": ["2026-01-01", "2026-03-02"]},
        "a kind that is not searched": {"kind": ["heartbeat", "heartbeat"]},
    }.items():
        with subtests.test(name):
            assert pairs(*two, **left_out) == []
    assert pairs(*two, user_id=["anna", "anna"], expires_at=[NOW, None]) == [("a", "b", "number")]


@pytest.mark.quick
def test_counters_and_lists_contradict_nothing() -> None:
    grows = [
        (f"Размер копии базы данных {size} гигабайт.", f"2026-01-0{day}") for day, size in enumerate((7, 8, 9, 10), 1)
    ]
    assert pairs(*grows) == []
    assert len(pairs(*grows[:2])) == 1
    plan = "Routine of the back every Thursday at 9:00\nRoutine of the back every Sunday at 9:00"
    assert pairs((plan, "2026-01-01"), ("Routine of the back every Monday at 9:00", "2026-01-09")) == []
    tastes = "Prefers green tea.\nPrefers black coffee."
    two = ("Prefers apple juice.", "2026-01-09"), ("Prefers cold water.", "2026-01-10")
    assert len(pairs(*two)) == 1
    assert pairs((tastes, "2026-01-01"), *two) == []
    status = [("copy of 1 GB", "2026-01-01"), ("copy of 2 GB", "2026-01-02")] * 2
    assert pairs(*status, title=["Status"] * 4) == []


def test_what_is_said_again_is_compared_by_its_first_and_last_day() -> None:
    again = [(rent(1200), f"2026-01-{day:02}") for day in range(1, 21)]
    assert pairs(*again, (rent(1500), "2026-02-01")) == [("t", "u", "number"), ("a", "u", "number")]


def test_fields_of_pages_of_one_subject_are_compared() -> None:
    rows = (("Ветка про оплату.", "2026-01-01"), ("Ветка про оплату, дополнено.", "2026-02-01"))
    extra = ['{"владелец": "Анна"}', '{"владелец": "Борис", "id": "b7"}']
    assert pairs(*rows, title=["Оплата", "Оплата"], extra=extra) == [("a", "b", "name")]
    assert pairs(*rows, title=["Оплата", "Возврат"], extra=extra) == []


def test_values_of_one_short_key_are_compared_between_logs_and_not_between_pages_of_a_template() -> None:
    for older, newer in (("timezone: UTC", "timezone: MSK"), ("vault: A", "vault: B"), ("порт: 8080", "порт: 9090")):
        days = (older, "2026-01-05"), (newer, "2026-01-06")
        for title, other in (("2026-01-05", "2026-01-06"), ("14:30 Status", "14:30 Status")):
            assert len(pairs(*days * 2, title=[title, other] * 2, kind=["daily_log"] * 4)) == 2
        assert pairs(*days * 2, title=["Status"] * 4) == []


def test_secrets_are_masked_and_chat_wrappers_state_nothing() -> None:
    table = {
        "text": [f"Guests wait {n} seconds for the router, password: sova-2026." for n in (4, 9)],
        "created_at": ["2026-01-01", "2026-01-02"],
    }  # fmt: skip  # one row a line
    (row,) = contradictions(mk.from_table(table), NOW).to_pylist()
    assert not any("sova-2026" in str(value) for value in row.values())
    assert pairs(("tool: memory_append ok (1 section)", "2026-01-01"), ("tool: memory_log ok", "2026-01-02")) == []


def test_the_planted_contradictions_of_the_sample_are_listed_and_the_audit_is_that_table(sample_search) -> None:
    audit = mk.audit(sample_search, only="contradictions", as_of=NOW)
    table = audit.tables["contradictions"]
    assert table.equals(contradictions(sample_search.corpus_, NOW))
    listed = {(row["older_text"], row["newer_text"]) for row in table.to_pylist()}
    planted = {
        ("Approves hotels up to 90 euros a night.", "Approves hotels up to 110 euros a night."),
        ("Allergic to nuts.", "Is not allergic to nuts, only to peanuts."),
        ("The tax form is due on 20 March.", "The tax form is due on 23 March."),
        ("Пул соединений: минимум 2, максимум 20.", "Пул соединений: минимум 2, максимум 15."),
        ("Time zone is Europe/Lisbon, quiet hours from 23:00.", "Time zone is Europe/Lisbon, quiet hours from 22:00."),
    }
    assert planted <= listed
    assert len(listed) < 2 * len(planted)  # and little else
    assert "contradict older ones" in str(audit)


def test_values_and_names_keep_texts_from_merging() -> None:
    texts = ["Анна живёт в Казани с семьёй и собакой", "Анна живёт в Самаре с семьёй и собакой"]
    table = mk.from_table({"text": texts, "memory_id": ["a", "b"]})
    dedup = mk.Deduplicator(encoder=None, lexical_floor=0.5, lexical_threshold=0.5).fit(table)
    assert dedup.pairs_["value_conflict"].to_pylist() == [True]
    assert dedup.transform(table.memories)["keep"].to_pylist() == [True, True]


def test_a_day_is_checked() -> None:
    with pytest.raises(mk.errors.ParameterError, match="as_of"):
        contradictions(mk.from_table({"text": ["чай"]}), "yesterday")


def test_the_front_matter_of_a_plain_file_states_nothing_and_what_stands_below_it_does() -> None:
    fronts = [f"---\ncreated: 2026-0{month}-05\nlevel: {month}\n---\n" for month in (1, 2)]
    assert pairs((fronts[0], "2026-01-05"), (fronts[1], "2026-02-05")) == []
    below = [f"{front}{rent(1000 + place)}" for place, front in enumerate(fronts)]
    assert len(pairs((below[0], "2026-01-05"), (below[1], "2026-02-05"))) == 1


def test_headers_of_chats_and_mails_state_nothing_however_they_are_written(subtests: pytest.Subtests) -> None:
    said = "Backups are kept for {} nights on cedar."
    for header in (
        "> Платформа: {1}\n> Номер треда: {0}\n> Собеседник: Анна{0}",
        "Источник: {1}\nНомер сообщения: {0}41\nВремя сессии: {0}:15",
        "From: {1}@mail.example\nTo: bot@mail.example\nDate: 2026-03-0{0}\nSubject: plan {0}",
        "meta:\n  source: {1}\n  thread: {0}\n  agent: a{0}",
        "# Session {0}\n\n- **Model**: gpt-{0}\n- **Source**: {1}\n- **Effort**: {0}\nThread: {0}",
        "Conversation id is {0}55\nThe platform is {1}",
        "session_id: {0}\nmodel: opus\ntokens: {0}200",
        "Duration: {0} min\nMessages: 1{0}",
        "Начата: 09:1{0}\nЗакончена: 09:4{0}",
        "Источник: {1}\nУстройство: ноутбук {0}\nЯзык: {1}",
        "Channel ID: {0}81\nGuild: {1}",
        "[message from: {1} | id: {0}]",
    ):
        texts = [f"{header.format(n, chat)}\n\n{said.format(n)}" for n, chat in ((1, "telegram"), (4, "webchat"))]
        with subtests.test(header):
            table = mk.from_table({"text": texts, "created_at": ["2026-01-01", "2026-01-04"]})
            (row,) = contradictions(table, as_of="2026-03-01").to_pylist()
            assert (row["kind"], row["older_value"]) == ("number", "1 nights")
    settings = "Source: {}\nLimit of uploads: {} MB"
    assert len(pairs((settings.format("a", 10), "2026-01-01"), (settings.format("b", 40), "2026-01-04"))) == 1
