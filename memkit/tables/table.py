"""A corpus from any table with a text column."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import check_column
from memkit.errors import ParameterError
from memkit.formats.finished import checklist_of
from memkit.formats.rows import Rows, Rule, json_text, with_own_dates
from memkit.formats.rules import RULES, undeclared_kinds
from memkit.formats.syntax.nodes import StructureError, load_json
from memkit.schemas import IMPORTANCE_WORDS, MEMORIES, TABLES, TIMESTAMP, without_rows
from memkit.tables.corpus import Corpus
from memkit.tables.statement import as_column, as_table


class Fault(NamedTuple):
    """A value that its column cannot hold, its row, and the rule that it breaks."""

    row: int
    rule: Rule
    value: object


def from_table(data: Any) -> Corpus:
    """Make a corpus of the rows of a table.

    Parameters
    ----------
    data : pyarrow.Table, pandas.DataFrame, or what ``pyarrow.table`` takes
        A table with a column ``text``. ``memory_id`` and the other columns of ``memories`` are optional; all further
        columns, and ``format``, go to ``extra``. Without ``memory_id`` a row's position is its id. A null text becomes
        an empty one and is reported as a problem. Invalid dates, unknown importances and confidences outside of 0..1
        are reported too; they become null, and ``extra`` keeps the original value.

    Returns
    -------
    Corpus
        Its memories have the format 'table'.

    Raises
    ------
    ParameterError
        Where there is no column ``text``, a memory_id is null or occurs twice, or a column has the wrong type.

    Examples
    --------
    >>> from_table({"text": ["чай", "tea"], "user_id": ["u1", "u2"]}).memories["memory_id"].to_pylist()
    ['0', '1']
    """
    table = user_table(data, "from_table: 'data'")
    check_column("text", table.column_names, "from_table")
    fields = [field for field in MEMORIES if field.name in table.column_names]
    columns = {field.name: as_column(table[field.name], field, "from_table") for field in fields}
    faults = [fault for name in columns for fault in _faults(name, table[name], columns)]
    count = table.num_rows
    columns.setdefault("memory_id", pa.array(map(str, range(count)), pa.string()))
    _check_ids(columns["memory_id"])
    columns["format"] = pa.array(["table"] * count, pa.string())
    columns["extra"] = _extra(table, columns.get("extra"), faults)
    for name, value in (("title", ""), ("text", ""), ("tags", [])):
        filler = pa.scalar(value, MEMORIES.field(name).type)
        columns[name] = pc.fill_null(columns.get(name, pa.nulls(count, filler.type)), filler)
    if "created_at" in columns:
        updated = columns.get("updated_at", pa.nulls(count, TIMESTAMP))
        columns["updated_at"] = pc.coalesce(updated, columns["created_at"])
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in MEMORIES]
    memories = with_own_dates(pa.table(arrays, schema=MEMORIES))
    tables = {name: without_rows(schema) for name, schema in TABLES.items()}
    filled = {"memories": memories, "checklist": checklist_of(memories), "problems": _problems(memories, faults)}
    return Corpus({**tables, **filled})


def user_table(data: Any, owner: str) -> pa.Table:
    """A table from a user: everything that `as_table` accepts, or a dict of columns."""
    if isinstance(data, dict):
        try:
            data = pa.table(data)
        except (pa.ArrowException, TypeError, ValueError) as error:  # ValueError: a text with half a character
            raise ParameterError(f"{owner}: every column must have one Arrow type. {error}") from error
    return as_table(data, owner=owner)


def _faults(name: str, original: pa.ChunkedArray, columns: dict[str, Any]) -> list[Fault]:
    """Replace the invalid values of a column in `columns` by null, and return them."""
    valid = columns[name]
    if name == "importance":
        index = pc.index_in(valid, value_set=pa.array(IMPORTANCE_WORDS))
        valid = pa.chunked_array([pa.array(IMPORTANCE_WORDS.values())]).take(index)
    elif name == "confidence":
        valid = pc.if_else(pc.and_(pc.greater_equal(valid, 0), pc.less_equal(valid, 1)), valid, None)
    columns[name] = valid
    rules = [rule for rule in RULES if (rule.format, rule.field) == ("table", name)]
    is_lost = pc.and_(
        pc.is_valid(original), pc.is_null(valid)
    ).combine_chunks()  # older Arrows crash where there is none
    invalid = pc.indices_nonzero(is_lost).to_pylist() if rules else []
    if pa.types.is_temporal(original.type):  # years that Python has no dates for
        original = original.cast(pa.string())
    return [Fault(row, rules[0], original[row].as_py()) for row in invalid]


def _check_ids(ids: pa.ChunkedArray) -> None:
    if ids.null_count:
        raise ParameterError(f"from_table: column 'memory_id' must have no null. Got {ids.null_count}.")
    counts = pc.value_counts(ids)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        shown = ", ".join(map(repr, repeated.to_pylist()[:5]))
        raise ParameterError(f"from_table: column 'memory_id' must be unique. Got {shown} more than once.")


def _extra(table: pa.Table, column: pa.ChunkedArray | None, faults: list[Fault]) -> pa.Array:
    """JSON of the fields in an existing column ``extra``, of further columns, and of invalid values."""
    names = [name for name in table.column_names if name not in MEMORIES.names or name == "format"]
    try:
        fields = table.select(names).to_pylist() if names else [{} for _ in range(table.num_rows)]
    except (OverflowError, ValueError) as error:
        expected = f"from_table: columns {', '.join(names)} must hold what JSON can, and dates of the years 1 to 9999"
        raise ParameterError(f"{expected}. {error}") from error
    if not names and not faults and column is None:
        return pa.repeat("{}", table.num_rows)
    for row, rule, value in faults:
        fields[row][rule.field] = value
    texts = column.to_pylist() if column is not None else [None] * table.num_rows
    rows = zip(fields, texts, strict=True)
    return pa.array([json_text({**_fields(text), **_finite(row)}) for row, text in rows], pa.string())


def _fields(text: str | None) -> dict[str, Any]:
    """The fields of a JSON object; any other text becomes the value of a field ``extra``."""
    if text is None:
        return {}
    try:
        value = load_json(text)
    except StructureError:
        value = text
    return value if isinstance(value, dict) else {"extra": value}


def _finite(value: Any) -> Any:
    """`value` with null for every number that JSON cannot write."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _problems(memories: pa.Table, faults: list[Fault]) -> pa.Table:
    rows = Rows()
    ids, paths = memories["memory_id"], memories["path"]
    for row, rule, value in faults:
        memory_id = ids[row].as_py()
        path = paths[row].as_py() or memory_id
        rows.problem(rule.code, path, rule.expected, value, field=rule.field, memory_id=memory_id)
    empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(memories["text"]), ""), True)
    for row in memories.filter(empty).select(["memory_id", "path"]).to_pylist():
        memory_id = row["memory_id"]
        rows.problem("empty_text", row["path"] or memory_id, "a text", "nothing", memory_id=memory_id, quote=False)
    undeclared_kinds(memories, rows)
    return rows.table("problems")
