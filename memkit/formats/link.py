"""The checks that need more than one file: ids, relations, counters, neighbouring dates. Set-wise, over the tables."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.rows import Rows, Tables
from memkit.schemas import KINDS

_DATE_FOLDER = re.compile(r"\d{4}(?:-\d{2}){0,2}|\d{2}")
_PLAUSIBLE = timedelta(days=366)
_MIN_LOGS = 3
_REPORTED = ("memory_id", "path", "line_start", "kind")
_DATE_FIELDS = {
    ("facts", "created_at"): "created",
    ("records", "created_at"): "timestamp",
    ("records", "updated_at"): "last_used_at",
    ("index_tree", "updated_at"): "updated",
    ("workspace", "created_at"): None,
}
"""What a format calls a date; a log's is in its name. The other formats use the column's name."""


def check(tables: Tables, as_of: datetime | None) -> pa.Table:
    """The problems that only the whole corpus shows; cost grows with its rows, and loops only over the faulty ones."""
    rows = Rows()
    _duplicates(tables["_ids"], rows)
    _relations(tables, rows)
    _counters(tables, rows)
    _implausible(tables["documents"], rows)
    undeclared_kinds(tables["memories"], rows)
    if as_of is not None:
        _future(tables["memories"], as_of, rows)
    return rows.to_arrow()["problems"]


def _duplicates(ids: pa.Table, rows: Rows) -> None:
    if len(pc.unique(ids["id"])) == ids.num_rows:
        return
    codes = pc.binary_join_element_wise(ids["group"], ids["id"], "\x1f").combine_chunks().dictionary_encode().indices
    counts = pc.value_counts(codes)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    first: dict[int, str] = {}
    mask = pc.is_in(codes, value_set=repeated)
    for code, row in zip(codes.filter(mask).to_pylist(), ids.filter(mask).to_pylist(), strict=True):
        if code in first:
            expected = f"an id of its own ({first[code]} has it)"
            where = {"line": row["line"], "field": row["field"], "memory_id": row["memory_id"]}
            rows.problem("duplicate_id", row["path"], expected, row["id"], **where)
        first.setdefault(code, row["path"])


def _relations(tables: Tables, rows: Rows) -> None:
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
    return {row["memory_id"]: (row["path"], row["line_start"]) for row in holders.select(list(_REPORTED)).to_pylist()}


def _relation_problem(
    rows: Rows, places: dict[str, tuple[str, int]], row: dict[str, Any], rule: str, expected: str, got: str
) -> None:
    path, line = places[row["memory_id"]]
    rows.problem(rule, path, expected, got, line=line, field="relations", memory_id=row["memory_id"])


def _counters(tables: Tables, rows: Rows) -> None:
    counters = tables["_counters"]
    if counters.num_rows == 0:
        return
    counted = tables["facts"].group_by("path").aggregate([("memory_id", "count")])
    counts = dict(zip(counted["path"].to_pylist(), counted["memory_id_count"].to_pylist(), strict=True))
    for row in counters.to_pylist():
        real = counts.get(row["file"], 0)
        if real != row["count"]:
            expected = f"{real}, the facts in {row['file']}"
            rows.problem("counter_mismatch", row["path"], expected, row["count"], line=row["line"], field=row["field"])


def _implausible(documents: pa.Table, rows: Rows) -> None:
    is_log = pc.is_in(documents["kind"], value_set=pa.array(["daily_log", "session"]))
    dated = documents.select(["path", "date", "memory_id"]).filter(pc.and_(is_log, pc.is_valid(documents["date"])))
    folders: dict[str, dict[str, date]] = {}
    first: dict[str, str] = {}
    grouped = dated.group_by("path", use_threads=False).aggregate([("date", "min"), ("memory_id", "first")])
    for row in grouped.to_pylist():
        folders.setdefault(_log_folder(row["path"]), {})[row["path"]] = row["date_min"]
        first[row["path"]] = row["memory_id_first"]
    for dates in folders.values():
        if len(dates) >= _MIN_LOGS:
            _lonely(dates, first, rows)


def _log_folder(path: str) -> str:
    """The folder of a log, above sub-folders by year or month."""
    parts = path.split("/")[:-1]
    while parts and _DATE_FOLDER.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts)


def _lonely(dates: dict[str, date], first: dict[str, str], rows: Rows) -> None:
    ordered = sorted(dates.items(), key=lambda item: (item[1], item[0]))
    days = [day for _, day in ordered]
    for at, (path, day) in enumerate(ordered):
        gaps = [abs(day - days[other]) for other in (at - 1, at + 1) if 0 <= other < len(days)]
        if min(gaps) > _PLAUSIBLE:
            nearest = f"a date within a year of some other log of its folder ({days[0]} to {days[-1]})"
            rows.problem("implausible_date", path, nearest, day.isoformat(), memory_id=first[path], quote=False)


def undeclared_kinds(memories: pa.Table, rows: Rows) -> None:
    """A problem for each kind that nobody declared, with the first memory that has it."""
    kinds = memories["kind"].combine_chunks()
    for kind in pc.unique(kinds).to_pylist():
        if kind is not None and kind not in KINDS:
            row = memories.slice(pc.index(kinds, kind).as_py(), 1).select(list(_REPORTED)).to_pylist()[0]
            path = row["path"] or row["memory_id"]
            expected = "a kind that is declared in memkit.schemas.KINDS"
            rows.problem("undeclared_kind", path, expected, kind, field="kind", memory_id=row["memory_id"])


def _future(memories: pa.Table, as_of: datetime, rows: Rows) -> None:
    limit = pa.scalar(as_of, memories.schema.field("created_at").type)
    for name in ("created_at", "updated_at"):
        late = pc.fill_null(pc.greater(memories[name], limit), False)
        if name == "updated_at":
            both = pc.fill_null(pc.equal(memories["created_at"], memories["updated_at"]), False)
            late = pc.and_(late, pc.invert(both))
        for row in memories.filter(late).select([*_REPORTED, "format", name]).to_pylist():
            field = _DATE_FIELDS.get((row["format"], name), name)
            line = row["line_start"] if row["format"] in ("facts", "records") else None
            expected, got = f"no date after {as_of.isoformat()}", row[name].isoformat()
            where = {"line": line, "field": field, "memory_id": row["memory_id"]}
            rows.problem("future_date", row["path"], expected, got, quote=False, **where)
