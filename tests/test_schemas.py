"""The tables as they are declared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from memkit.errors import ParameterError
from memkit.formats.registry import FORMATS
from memkit.schemas import (
    CHUNKS,
    IMPORTANCES,
    KINDS,
    MEMORIES,
    TABLES,
    TIMESTAMP,
    Kind,
    check_kinds,
    declare_kinds,
    empty,
    kinds_where,
)
from memkit.tables.table import from_table


@pytest.mark.quick
@pytest.mark.parametrize("name", [*TABLES, "chunks"])
def test_every_column_says_what_it_means(name: str) -> None:
    schema = {**TABLES, "chunks": CHUNKS}[name]
    assert len(set(schema.names)) == len(schema.names)
    for field in schema:
        assert field.metadata, field.name
        meaning = (field.metadata or {}).get(b"meaning", b"").decode()
        assert meaning or field.name in ("created_at", "updated_at", "last_used_at", "timestamp"), field.name


@pytest.mark.quick
def test_memories_has_the_columns_of_the_documentation_in_its_order() -> None:
    assert MEMORIES.names == [
        "memory_id",
        "format",
        "layout",  # null in the five formats
        "kind",
        "source_id",
        "user_id",
        "scope",
        "title",
        "description",
        "aliases",
        "text",
        "tags",
        "importance",
        "confidence",
        "status",
        "superseded_by",
        "created_at",
        "updated_at",
        "verified_at",
        "stale_at",  # stale is not expired: Expiry never sees it
        "expires_at",
        "date_source",  # where the dates are from: of a field, the name, the heading, git
        "pinned",
        "access_count",
        "heading_path",
        "path",
        "line_start",
        "line_end",
        "extra",
    ]
    assert {field.name for field in MEMORIES if not field.nullable} == {"memory_id", "format", "title", "text", "tags"}
    times = {"created_at", "updated_at", "verified_at", "stale_at", "expires_at"}
    assert {field.name for field in MEMORIES if field.type == TIMESTAMP} == times


@pytest.mark.quick
def test_a_time_is_utc_in_microseconds_everywhere() -> None:
    times = [field.type for schema in TABLES.values() for field in schema if pa.types.is_timestamp(field.type)]
    assert set(times) == {TIMESTAMP} == {pa.timestamp("us", tz="UTC")}


def test_ratios_say_so() -> None:
    for schema in TABLES.values():
        for field in schema:
            if pa.types.is_floating(field.type):
                assert field.metadata[b"unit"] == b"ratio"


def test_every_table_belongs_to_a_format_or_to_all() -> None:
    of_all = {"memories", "problems", "checklist"}
    assert {table for format in FORMATS for table in format.tables} | of_all == TABLES.keys()


def test_an_empty_table_has_its_schema() -> None:
    for name, schema in TABLES.items():
        assert empty(name).schema.equals(schema, check_metadata=True)
        assert empty(name).num_rows == 0


def test_every_kind_of_a_format_is_declared_with_its_meaning() -> None:
    assert {kind for format in FORMATS for kind in format.kinds} <= KINDS.keys()
    assert all(name == kind.name and kind.meaning for name, kind in KINDS.items())
    assert {kind.decays for kind in KINDS.values()} == {"always", "normal", "never"}


def test_what_is_only_kept_is_neither_fact_nor_counted() -> None:
    assert kinds_where(judged=False) == ("line", "quarantined", "head", "index", "dream")
    assert kinds_where(judged=False, fact=True) == kinds_where(judged=False, counted=True) == ()
    assert kinds_where(fact=True) == kinds_where(counted=True) == ("profile", "working", "archive")
    assert kinds_where(searched=False) == ("heartbeat", "quarantined")


def test_a_kind_of_ones_own_is_declared_once_and_cannot_take_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Kind("card", "a card of a board", searched=False)
    monkeypatch.setitem(KINDS, "card", card)
    declare_kinds(card)
    assert kinds_where(searched=False)[-1] == "card"
    with pytest.raises(ParameterError, match="Got 'card', which is taken"):
        declare_kinds(Kind("tile", "of a roof"), Kind("card", "another meaning"))
    assert "tile" not in KINDS


def test_the_importances_are_in_order() -> None:
    assert IMPORTANCES == ("high", "normal", "low")


def test_an_undeclared_kind_is_kept_and_reported_once() -> None:
    corpus = from_table({"text": ["a", "b", "c"], "kind": ["card", "note", "card"]})
    assert corpus.memories["kind"].to_pylist() == ["card", "note", "card"]
    (problem,) = corpus.problems.to_pylist()
    assert (problem["rule"], problem["severity"], problem["memory_id"]) == ("undeclared_kind", "info", "0")
    assert "'card'" in problem["message"]


def test_a_misspelt_kind_is_refused_with_the_one_that_was_meant() -> None:
    check_kinds(("note", "card"), "here", in_data=("card", None))
    with pytest.raises(ParameterError, match=r"here: expected kinds among .* Got 'notes'\. Did you mean 'note'\?"):
        check_kinds(("notes",), "here")
