"""Full-text search over ``memories``: an index of three tables, and the SQL macros that query it.

``fts(query, k := 10)`` returns the memories that share a term with the query, best first, in one pass over the
postings; title, aliases and description of a page are searched with its text. It returns k rows before any ``where``
of the query applies, so choose k large enough for what the filter may remove (the ``where`` of `Retriever.search` acts
before the cut). ``match_bm25(memory_id, query)`` scores one memory. Both analyse the query as the texts were analysed
(`memkit.text.analyse`). The score is BM25 with k1 = 1.2, b = 0.75 and a base-10 logarithm, equal to that of DuckDB's
own extension; only the extension's stemmer is used, as its index takes twice as long to build.

The index is made of Arrow tables. They are loaded into a database as a whole (`add_fts`) and never read back from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import as_arrow, interruptible, literals, put, session, transaction
from memkit.text.analyse import analyse_sql, counted, searchable_sql

if TYPE_CHECKING:
    import duckdb

# Lucene's and DuckDB's; other values gained nothing in the fusion.
K1, B = 1.2, 0.75
SEARCHED = ("title", "description", "aliases", "tags", "text")
"""The columns of ``memories`` that are searched."""

TEXT_VERSION = 2
"""Increased when `index_text` makes another index of the same memories; a lake's index of another version is rebuilt.
"""
SCHEMA = "memkit_fts"
TEXT_INDEX: dict[str, pa.Schema] = {
    "docs": pa.schema([("docid", pa.int32()), ("name", pa.string()), ("len", pa.int32())]),
    "terms": pa.schema([("termid", pa.int32()), ("term", pa.string()), ("df", pa.int32())]),
    "postings": pa.schema([("termid", pa.int32()), ("docid", pa.int32()), ("tf", pa.int32())]),
}
"""The tables of the index: document lengths, document frequencies of terms, and postings with term frequencies."""

_SCORES = """
    with query_terms as (
        select termid, df from {schema}.terms where term in (select unnest({terms}))
    ), scores as (
        select docid, sum(
            log((num_docs - df + 0.5) / (df + 0.5) + 1) * tf * ({k1} + 1) / (tf + {k1} * (1 - {b} + {b} * len / avgdl))
        ) as score
        from {schema}.postings join query_terms using (termid) join {schema}.docs using (docid)
        cross join (select count(*) as num_docs, avg(len) as avgdl from {schema}.docs)
        group by docid
    )
"""

# The signature of DuckDB's own macro of an index over ``memories``: document lengths and frequencies are those of all
# columns also where only some are searched, as there.
_LIKE_DUCKDB = """
create schema if not exists fts_main_memories;
create or replace macro fts_main_memories.match_bm25(
    memory_id, query, fields := null, k := {k1}, b := {b}, conjunctive := 0
) as (
    with words as (select distinct unnest({terms}) as term),
    query_terms as (select termid, df from {schema}.terms join words using (term)),
    found as (
        select termid, docid, tf from {schema}.postings join query_terms using (termid) where fields is null
        union all
        {within}
    ),
    kept as (
        select docid from found group by docid
        having not conjunctive::bool or count(distinct termid) = (select count(*) from words)
    ),
    scores as (
        select docid, sum(
            log((num_docs - df + 0.5) / (df + 0.5) + 1) * tf * (k + 1) / (tf + k * (1 - b + b * len / avgdl))
        ) as score
        from found join kept using (docid) join query_terms using (termid) join {schema}.docs using (docid)
        cross join (select count(*) as num_docs, avg(len) as avgdl from {schema}.docs)
        group by docid
    )
    select score from scores join {schema}.docs using (docid) where name = memory_id
);
"""
_WITHIN = """select termid, docid, count(*) as tf from (
            select name, unnest({body_terms}) as term from {schema}.bodies
            where contains(',' || replace({fields}, ' ', '') || ',', ',' || field || ',')
        ) join {schema}.terms using (term) join query_terms using (termid) join {schema}.docs using (name)
        group by all"""
_NOT_WITHIN = """select 0 as termid, 0 as docid, 0 as tf where error(
            'fields: expected none here, where only the whole text is searched; corpus.sql takes fields'
        ) is null and fields is not null"""
_FIELDS = """case when fields is null or len(list_filter(string_split(replace(fields, ' ', ''), ','),
            lambda one: one not in ({names}))) = 0 then fields else error('fields: expected some of {plain}') end"""
_BODIES = """
create or replace view {schema}.bodies as
    select memory_id as name, unnest([{names}]) as field, unnest([{columns}]) as body from {memories};
"""

_MACROS = """
create or replace macro fts(query, k := 10) as table {scores}
    select name as memory_id, score from scores join {schema}.docs using (docid)
    where score > 0 order by score desc, memory_id limit k;
create or replace macro match_bm25(memory_id, query) as (
    {scores} select score from scores join {schema}.docs using (docid) where name = memory_id
);
"""


def index_text(memories: pa.Table) -> dict[str, pa.Table]:
    """The full-text index of `memories`, with the tables of `TEXT_INDEX`; the same rows give the same index.

    Parameters
    ----------
    memories : pyarrow.Table
        With the column memory_id, and those of `SEARCHED` that there are. Rows with the same memory_id are one
        document.

    Examples
    --------
    >>> index = index_text(pa.table({"memory_id": ["a"], "title": [""], "tags": [["db"]], "text": ["Пул соединений"]}))
    >>> index["terms"]["term"].to_pylist()
    ['db', 'пул', 'соединен']
    """
    available = {*memories.column_names} - ({"description"} if "heading_path" not in memories.column_names else set())
    searched = [name for name in SEARCHED if name in available]
    read = ["memory_id", *searched, *(["heading_path"] if "description" in searched else [])]
    # By id, so that the index does not depend on the order of files.
    bodies = f"select memory_id, {searchable_sql(searched)} as body from memories order by memory_id"  # noqa: S608  # no data in it
    with session() as con, interruptible():
        con.register("memories", memories.select(read))
        ordered = as_arrow(con, bodies).combine_chunks()
    pa.default_memory_pool().release_unused()  # what DuckDB returned takes three times the memory of its copy
    found = counted(ordered["body"], "auto")
    names = ordered["memory_id"].combine_chunks()
    is_first = np.append(True, pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False))[: len(names)]
    n_docs, n_terms = int(is_first.sum()), len(found.terms)
    term = np.repeat(np.arange(n_terms, dtype=np.int32), np.diff(found.offsets))
    term, doc, tf = _summed(term, (np.cumsum(is_first, dtype=np.int32) - 1)[found.rows], found.counts)
    columns = {
        "docs": [np.arange(n_docs), names.filter(pa.array(is_first)), np.bincount(doc, tf, n_docs)],
        "terms": [np.arange(n_terms), found.terms, np.bincount(term, minlength=n_terms)],
        "postings": [term, doc, tf],
    }
    cells = {name: map(pa.array, values) for name, values in columns.items()}
    return {
        name: pa.table([values.cast(kind) for values, kind in zip(cells[name], schema.types, strict=True)], schema)
        for name, schema in TEXT_INDEX.items()
    }


def _summed(term: np.ndarray, doc: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts by term and document, both ascending; the rows of one document are neighbours."""
    is_first = np.append(True, (term[1:] != term[:-1]) | (doc[1:] != doc[:-1]))[: len(term)]
    return term[is_first], doc[is_first], np.add.reduceat(count, np.flatnonzero(is_first), dtype=np.int32)


def add_fts(con: duckdb.DuckDBPyConnection, index: Mapping[str, pa.Table], memories: str | None = None) -> None:
    """Put an index and its macros into the database of `con`, replacing an older index.

    Each statement can be repeated, so a call that was interrupted is completed by the next one.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        A connection on which `memkit.text.analyse.load_fts` was called.
    index : mapping of str to pyarrow.Table
        The result of `index_text`.
    memories : str, optional
        The table in SQL whose columns ``fields`` of `fts_main_memories.match_bm25` may name; without it none.

    Examples
    --------
    >>> from memkit.base.duck import connect
    >>> from memkit.text.analyse import load_fts
    >>> con = connect()
    >>> _ = load_fts(con)
    >>> table = pa.table({"memory_id": ["a"], "title": [""], "tags": [[]], "text": ["Пул соединений"]})
    >>> add_fts(con, index_text(table))
    >>> con.sql("select memory_id from fts('пулы', k := 5)").fetchall()
    [('a',)]
    """
    scores = _SCORES.format(schema=SCHEMA, terms=analyse_sql("query"), k1=K1, b=B)
    with transaction(con):
        con.execute(f"create schema if not exists {SCHEMA}")
        for name in TEXT_INDEX:
            put(con, f"{SCHEMA}.{name}", index[name])
        con.execute(_MACROS.format(scores=scores, schema=SCHEMA))
        con.execute(_like_duckdb(con, memories))


def _like_duckdb(con: duckdb.DuckDBPyConnection, memories: str | None) -> str:
    """The statements that make DuckDB's own name for full-text search; over the columns that `memories` has."""
    shared = {"schema": SCHEMA, "terms": analyse_sql("query"), "k1": K1, "b": B}
    if memories is None:
        return _LIKE_DUCKDB.format(within=_NOT_WITHIN, **shared)
    present = {name for name, *_ in con.execute(f"describe {memories}").fetchall()}
    columns = {name: f"array_to_string({name}, ' ')" if name in ("tags", "aliases") else name for name in SEARCHED}
    columns = {name: column for name, column in columns.items() if name in present}
    names = literals(columns)
    bodies = _BODIES.format(schema=SCHEMA, names=names, columns=", ".join(columns.values()), memories=memories)
    fields = _FIELDS.format(names=names, plain=", ".join(columns))
    within = _WITHIN.format(schema=SCHEMA, fields=fields, body_terms=analyse_sql("body"))
    return bodies + _LIKE_DUCKDB.format(within=within, **shared)
