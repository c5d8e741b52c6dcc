"""The tables as they are declared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from memkit.formats.registry import FORMATS
from memkit.schemas import CHUNKS, MEMORIES, TABLES, TIMESTAMP, empty


@pytest.mark.parametrize("name", [*TABLES, "chunks"])
def test_every_column_says_what_it_means(name: str) -> None:
    schema = {**TABLES, "chunks": CHUNKS}[name]
    assert len(set(schema.names)) == len(schema.names)
    for field in schema:
        meaning = (field.metadata or {}).get(b"meaning", b"").decode()
        assert meaning or field.name in ("created_at", "updated_at", "last_used_at", "timestamp"), field.name


def test_memories_has_the_columns_of_the_design_in_its_order() -> None:
    assert MEMORIES.names == [
        "memory_id",
        "format",
        "kind",
        "source_id",
        "user_id",
        "scope",
        "title",
        "text",
        "tags",
        "importance",
        "confidence",
        "created_at",
        "updated_at",
        "expires_at",
        "pinned",
        "access_count",
        "path",
        "line_start",
        "line_end",
        "extra",
    ]
    assert {field.name for field in MEMORIES if not field.nullable} == {"memory_id", "format", "title", "text", "tags"}
    assert {field.name for field in MEMORIES if field.type == TIMESTAMP} == {"created_at", "updated_at", "expires_at"}


def test_a_time_is_utc_in_microseconds_everywhere() -> None:
    times = [field.type for schema in TABLES.values() for field in schema if pa.types.is_timestamp(field.type)]
    assert set(times) == {TIMESTAMP} == {pa.timestamp("us", tz="UTC")}


def test_ratios_say_so() -> None:
    for schema in TABLES.values():
        for field in schema:
            if pa.types.is_floating(field.type):
                assert field.metadata[b"unit"] == b"ratio"


def test_every_table_belongs_to_a_format_or_to_all() -> None:
    assert {table for format in FORMATS for table in format.tables} | {"memories", "problems"} == TABLES.keys()


def test_an_empty_table_has_its_schema() -> None:
    for name, schema in TABLES.items():
        assert empty(name).schema.equals(schema, check_metadata=True)
        assert empty(name).num_rows == 0
