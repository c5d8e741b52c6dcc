"""The panel of a table: what filters, orders and pages give, and what reaches the page of it."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import re
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk

ATTACK = "<script>window.ran=1</script><img src=x onerror='window.ran=1'>"
SECRET = "hunter2hunter2"
TEXTS = [None, "", "чай", "Чай", "ёлка", "Ель", "яма", "tea", 'it\'s \\ "x"', "50%_", "чай\nкофе"]
KINDS = {"text": pa.string(), "n": pa.int64(), "day": pa.date32(), "tags": pa.list_(pa.string())}
ROW = st.tuples(
    st.sampled_from(TEXTS),
    st.sampled_from([None, 1, 2, 10, -3]),
    st.sampled_from([None, dt.date(2026, 3, 1), dt.date(1999, 12, 31)]),
    st.sampled_from([None, [], ["чай", "b"]]),
)


def written(value: Any) -> str:
    """A value as DuckDB writes it, in small letters."""
    return f"[{', '.join(value)}]".lower() if isinstance(value, list) else str(value).lower()


@settings(max_examples=8)
@given(
    rows=st.lists(ROW, min_size=4, max_size=12),
    size=st.integers(1, 5),
    letters=st.sampled_from(["", "чай", "ЧАЙ", "Ё", "%", "'", "\\", "03-0", "1"]),
    within=st.sampled_from(["", "text", "TEXT ", "day", "tags"]),
)
def test_rows_are_filtered_and_ordered_as_python_does_and_pages_hold_them_all(
    rows: list[Any], size: int, letters: str, within: str
) -> None:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, KINDS.values(), strict=True)]
    table = pa.table([*arrays, pa.array(range(len(rows)), pa.int64())], names=[*KINDS, "at"])
    panel = mk.panels.table(table, rows=size)
    searched = [within.strip().lower()] if within else table.column_names
    found = [
        row
        for row in table.to_pylist()
        if any(letters.lower() in written(row[column]) for column in searched if row[column] is not None)
    ]
    for name, descending in itertools.product([None, "text", "n", "day"], [False, True]):
        for letters_now, matching in (("", table.to_pylist()), (f"{within}: {letters}" if within else letters, found)):
            # Python keeps equals as they stand, in both directions.
            missing = [row for row in matching if name and row[name] in (None, "")]
            known = [row for row in matching if row not in missing]
            ordered = sorted(known, key=lambda row: row[name] if name else 0, reverse=descending) + missing
            panel.set(sort=name, descending=descending, filter=letters_now)
            assert panel.result["at"].to_pylist() == [row["at"] for row in ordered]
    wanted = panel.result["at"].to_pylist()
    assert eval(panel.code, {"mk": mk, "table": table})["at"].to_pylist() == wanted  # noqa: S307  # memkit's own
    paged = []
    for page in range(1, panel.answer.pages + 1):
        panel.set(page=page)
        paged += panel.answer.positions
    assert paged == wanted


@pytest.mark.quick
def test_a_deep_page_and_the_first_ones_are_of_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": [(position * 7919) % 1000 for position in range(1000)]})
    panel = mk.panels.table(rows)
    monkeypatch.setattr("memkit.panels.table_panel._TOP", 100)  # pages 1 and 2 are tops, others slices
    panel.set(sort="n", descending=True)
    numbers = []
    for page in (1, 2, 3, 20):
        panel.set(page=page)
        numbers += [rows["n"][position].as_py() for position in panel.answer.positions]
    assert numbers == [*range(999, 849, -1), *range(49, -1, -1)]


@pytest.mark.quick
def test_what_is_given_may_be_of_any_kind() -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "кофе"]})
    tables = {
        "Arrow": pa.table({"text": ["чай", "кофе"]}),
        "pandas": pd.DataFrame({"text": ["чай", "кофе"]}),
        "a mapping": {"text": ["чай", "кофе"]},
        "a relation": duckdb.sql("select * from (values ('чай'), ('кофе')) t(text)"),
        "a relation of a corpus": corpus.sql("select text from memories order by memory_id"),
        "a corpus": corpus,
        "a result": mk.overview(corpus, as_of="2026-03-01"),
    }
    panels = {}
    for name, data in tables.items():  # a comprehension has names of its own up to Python 3.11, later its caller's
        panels[name] = mk.panels.table(data)
    for name, panel in panels.items():
        if name != "a result":
            assert panel.result["text"].to_pylist() == ["чай", "кофе"], name
    assert panels["a result"].result.column_names == ["what", "count", "note"]
    panels["a corpus"].set(filter="text: ЧАЙ")
    assert eval(panels["a corpus"].code, {"corpus": corpus})["memory_id"].to_pylist() == ["a"]  # noqa: S307
    for wrong in (3, {}, {"a": [1], "b": [1, 2]}):
        with pytest.raises(mk.errors.ParameterError):
            mk.panels.table(wrong)
    for rows in (0, 201):
        with pytest.raises(mk.errors.ParameterError, match=r"\[1, 200\]"):
            mk.panels.table(corpus, rows=rows)


@pytest.mark.quick
def test_values_of_every_type_are_shown_as_text() -> None:
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))  # a year that Python has no date for
    table = pa.table(
        {
            "row": [1],
            "list": [["a", "b"]],
            "struct": [{"a": "чай", "b": [1]}],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "word": pa.array(["x"]).dictionary_encode(),
            "money": [decimal.Decimal("1.50")],
            "time": [dt.time(7, 30)],
            "raw": [b"\x00\xff"],
            "vector": pa.array([[0.5, 1.0]], pa.list_(pa.float32(), 2)),
            "far": far,
            "no": pa.nulls(1),
            "flag": [True],
            'quo"te': [0.25],
        }
    )
    panel = mk.panels.table(table)
    body = panel.body
    for text in (
        "a, b",
        "{&#x27;a&#x27;: чай",
        "1.5",
        "07:30:00",
        "0.5, 1",
        "yes",
        "0.25",
        "Without a value in any row: no.",
    ):
        assert text in body, text
    for name in table.column_names:
        panel.set(column=name, sort=name, filter="чай")
        assert panel.result.num_rows == 1
        panel.set(filter=f"{name}: no such letters")
        assert panel.result.num_rows == 0
        assert panel.marks.empty == "no value"
        panel.reset()


def counted(panel: Any) -> dict[str, int]:
    return {name: count for name, count in panel.marks.rows if isinstance(count, int)}


def test_a_histogram_counts_every_value_once() -> None:
    days = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number // 2) for number in range(100)]
    panel = mk.panels.table(
        pa.table(
            {
                "grade": [0, 0, 1, 3, None] * 20,
                "share": [number / 100 for number in range(99)] + [float("nan")],
                "wide": [number * number * number for number in range(100)],
                "day": days,
                "one": [7.0] * 100,
                "word": ["чай"] * 50 + ["кофе"] * 30 + [None] * 20,
                "id": [f"m{number:03}" for number in range(100)],
            }
        )
    )
    assert panel.values["column"] == "day"  # dates tell most
    assert sum(counted(panel).values()) == 100
    assert set(counted(panel).values()) == {4}  # fifty days of two rows each, two days a bin
    assert next(iter(counted(panel))) == "2026-01-01 to 2026-01-03"
    panel.set(column="grade")
    assert counted(panel) == {"-0.5 to 0.5": 40, "0.5 to 1.5": 20, "2.5 to 3.5": 20}
    assert "80 values, 20 empty" in panel.marks.title
    for name in ("share", "wide", "one"):
        panel.set(column=name)
        assert sum(counted(panel).values()) == (99 if name == "share" else 100), name
        assert len(counted(panel)) <= 31, name
    panel.set(column="word")
    assert counted(panel) == {"чай": 50, "кофе": 30, "others and empty": 20}
    panel.set(column="id")
    assert "12 most frequent of 100 values" in panel.marks.title
    assert counted(panel)["others and empty"] == 88
    far = mk.panels.table(pa.table({"n": [1e308, -1e308]}))
    assert "too far apart" in far.marks.empty
    panel.set(filter="word: коф", column="grade")
    assert sum(counted(panel).values()) == 24  # rows 50 to 79: six of each five, one without a grade


def test_no_secret_and_no_hostile_word_reaches_the_page() -> None:
    rows = {
        "text": [f"password: {SECRET} от пула", f"Пул {ATTACK}", "x" * 9000],
        "again": [f"вход {SECRET}", ATTACK, ""],
        "tags": [[SECRET], [ATTACK], []],
        "reason": ["secret", None, None],
        "matched_span": ["sova", None, None],
        f"a{ATTACK}": [1, 2, 3],
        f"password: {SECRET}": ["a", "b", "c"],
    }
    panel = mk.panels.table(pa.table(rows))
    card = panel.widgets()
    for name in panel.result.column_names:
        panel.set(column=name)
        panel.pick("row:0")
        page = panel.view
        markup = "".join((page.body, page.picture, card.body.value, card.picture.value, card.summary.value))
        text = "".join((page.words, page.code, page.summary, repr(panel), str(page.spec)))
        for secret in (SECRET, "sova"):
            assert secret not in markup + text, name
        for tag in ("<script", "<img src=x"):
            assert tag not in markup, name
        panel.pick("row:0")
    assert all(word not in panel.html for word in (SECRET, "sova", "<script", "<img src=x"))
    assert "[secret hidden]" in panel.body
    far = {"text": ["чай"] * 60 + [f"password: {SECRET}"], "again": [None] * 60 + [SECRET]}
    panel_far = mk.panels.table(far)
    panel_far.set(column="again")
    assert counted(panel_far) == {"[password hidden]": 1, "others and empty": 60}  # its page is not shown
    panel.pick("row:2")
    assert len(panel.body) < 12_000  # of a long text its beginning


def test_a_page_of_a_long_table_is_as_short_as_of_a_short_one_and_is_what_a_notebook_keeps() -> None:
    sizes = {}
    for n in (200, 20_000):
        panel = mk.panels.table({"text": [f"память {number % 100:02}" for number in range(n)]}, rows=200)
        sizes[n] = len(re.sub(r"[\d,]+", "", panel.body))
        assert panel.html.count("<tr data-pick") == 200
    assert sizes[200] == sizes[20_000]


def test_clicks_sort_turn_and_open_and_what_makes_no_sense_does_nothing() -> None:
    panel = mk.panels.table({"b": [3, 1, 2], "a": ["x", "y", "z"]}, rows=2)
    panel.pick("sort:0")
    assert panel.result["b"].to_pylist() == [1, 2, 3]
    panel.press("next")
    assert (panel.answer.page, panel.answer.positions) == (2, [0])
    panel.pick("sort:0")
    assert (panel.result["b"].to_pylist(), panel.answer.page) == ([3, 2, 1], 1)
    panel.press("next")
    panel.press("next")
    assert panel.answer.page == 2
    panel.press("previous")
    panel.pick("column:1")
    assert panel.values["column"] == "a"
    panel.pick("row:0")
    assert "<dl" in panel.body
    panel.pick("row:0")
    assert "<dl" not in panel.body
    state = panel.session.state
    for nonsense in ("sort:99", "sort:x", "column:-1", "row:", "page:", "explode", "", "row:99"):
        panel.pick(nonsense)
        assert panel.session.state is state, nonsense
        assert panel.view.body
    for _ in range(6):
        assert panel.undo()
    assert panel.result["b"].to_pylist() == [3, 1, 2]
    assert not panel.undo()


def test_an_empty_table_and_a_filter_that_leaves_nothing_are_explained() -> None:
    panel = mk.panels.table({"text": pa.array([], pa.string())})
    assert (panel.status, panel.marks.empty) == ("0 rows", "no value")
    panel = mk.panels.table({"text": ["чай"]})
    panel.set(filter="кофе")
    assert panel.status == "0 of 1 row; no row has these letters"
    with pytest.raises(mk.errors.ParameterError, match="Did you mean 'text'"):
        panel.set(sort="texd")
