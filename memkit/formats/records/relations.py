"""What the relations between records say together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.rows import Rows, Tables


def check(tables: Tables, rows: Rows) -> None:
    """Relations to records that were not read, and pairs that both support and contradict each other."""
    relations, facts = tables["relations"], tables["wisdom_facts"]
    if relations.num_rows == 0:
        return
    known = facts["fact_id"].combine_chunks()
    dangling = pc.invert(pc.is_in(relations["to_id"], value_set=known, skip_nulls=True))
    missing = relations.filter(pc.and_(dangling, pc.is_valid(relations["to_id"])))
    places = _places(tables["memories"], relations)
    for row in missing.to_pylist():
        _relation_problem(rows, places, row, "dangling_relation", "a fact_id that was read", row["to_id"])
    pairs: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    opposed = pc.is_in(relations["type"], value_set=pa.array(["supports", "contradicts"]))
    for row in relations.filter(opposed).to_pylist():
        if row["from_id"] is None or row["to_id"] is None:
            continue
        low, high = sorted((row["from_id"], row["to_id"]))
        pairs.setdefault((low, high), {})[row["type"]] = row
    for (low, high), kinds in pairs.items():
        if len(kinds) == 2:
            row = list(kinds.values())[-1]
            expected = f"supports or contradicts, not both, between {low} and {high}"
            _relation_problem(rows, places, row, "contradictory_relation", expected, row["type"])


def _places(memories: pa.Table, relations: pa.Table) -> dict[str, tuple[str, int]]:
    """Path and line of the records that hold relations."""
    holders = memories.filter(pc.is_in(memories["memory_id"], value_set=relations["memory_id"].combine_chunks()))
    return {
        row["memory_id"]: (row["path"], row["line_start"])
        for row in holders.select(["memory_id", "path", "line_start"]).to_pylist()
    }


def _relation_problem(
    rows: Rows, places: dict[str, tuple[str, int]], row: dict[str, Any], rule: str, expected: str, got: str
) -> None:
    path, line = places[row["memory_id"]]
    rows.problem(rule, path, expected, got, line=line, field="relations", memory_id=row["memory_id"])
