"""The declared steps: what they declare is what a search has."""

from __future__ import annotations

import memkit as mk
from memkit.search.settings import QuerySettings
from memkit.search.steps import DISPOSITIONS, DROPS, STEPS

DAY = "2026-03-01"


def test_each_disposition_has_one_step_that_says_why() -> None:
    said = [word for step in STEPS for word in step.drops]
    assert sorted(said) == sorted(DROPS) == sorted(set(DISPOSITIONS) - {"returned"})


def test_what_turns_a_step_off_is_a_value_of_a_parameter() -> None:
    for step in STEPS:
        QuerySettings(**step.off).check_params()


def test_a_trace_has_the_columns_of_the_steps_in_their_order() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай", "кофе"]}))
    names = search.trace("чай", as_of=DAY).column_names
    columns = [name for step in STEPS for name in step.columns]
    assert names[names.index(columns[0]) :] == [*columns, "score", "rank", "disposition"]


def test_advice_tries_each_step_that_can_be_turned_off() -> None:
    rows = {
        "memory_id": ["a", "b"],
        "text": ["Чай зелёный у окна", "Чай чёрный на полке в шкафу"],
        "kind": ["archive", "archive"],
        "created_at": ["2026-02-28", "2025-06-01"],
    }
    search = mk.Retriever(encoder=None, gram_weight=0.0, min_score=0.2).fit(mk.from_table(rows))
    why = mk.explain(search, "чай", "b", as_of=DAY)
    assert "because of decay" in why
    assert why.endswith("It would be returned with decay='none' or min_score=0.")
