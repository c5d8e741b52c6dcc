"""Full text over ``memories``: the index, and the macros ``fts(query, k := 10)`` and ``match_bm25(memory_id, query)``.

Both macros analyse their query as the documents were analysed (`memkit.text.analyse`), and give BM25 with k1 = 1.2,
b = 0.75 and DuckDB's base-10 logarithm. ``match_bm25`` scores one memory; ``fts`` scores all that share a term with the
query in one pass over the postings, which is what makes it quick.

An index is a snapshot, and DuckDB has no triggers to keep it fresh. So `build_fts` moves the rows of ``memories`` into
``memkit.memories`` and leaves a view in their place: an insert, update or delete is refused by DuckDB, never followed
by answers from a stale index. After a change of the rows themselves, `build_fts` is run again.

Without DuckDB's extension the tables of its index (dict, docs, stats) are made here, with the same macros and scores.
An index that was read by `read_fts` and put back by `restore_fts` gives the same scores too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from memkit.text.analyse import analyse_sql, count_terms_sql, load_fts

if TYPE_CHECKING:
    import duckdb

K1, B = 1.2, 0.75

# The extension names an index's schema after its table: memkit.searchable.
_INDEX = "fts_memkit_searchable"

TEXT_INDEX: dict[str, pa.Schema] = {
    "dict": pa.schema([("termid", pa.int64()), ("term", pa.string()), ("df", pa.int64())]),
    "docs": pa.schema([("docid", pa.int64()), ("name", pa.string()), ("len", pa.int64())]),
    "postings": pa.schema([("termid", pa.int64()), ("docid", pa.int64()), ("tf", pa.int64())]),
    "stats": pa.schema([("num_docs", pa.int64()), ("avgdl", pa.float64())]),
}
"""An index as Arrow tables: terms, memories, the terms of each memory, and what holds for all."""

# Numbers are given anew by name: the extension's own differ from run to run.
_EXPORT = {
    "dict": "select row_number() over (order by term) - 1 as termid, term, df::bigint as df from {index}.dict",
    "docs": "select row_number() over (order by name) - 1 as docid, name, len::bigint as len from {index}.docs",
    "postings": """
        with d as (select termid, row_number() over (order by term) - 1 as number from {index}.dict),
            m as (select docid, row_number() over (order by name) - 1 as number from {index}.docs)
        select d.number as termid, m.number as docid, tf::bigint as tf
        from {index}.postings join d using (termid) join m using (docid) order by all
    """,
    "stats": "select num_docs::bigint as num_docs, avgdl::double as avgdl from {index}.stats",
}

_PROTECT = """
drop schema if exists memkit cascade;
create schema memkit;
create table memkit.memories as from main.memories;
drop table main.memories;
create view main.memories as from memkit.memories;
"""

# Terms hold no blank, so blanks part them and nothing else does: no setting of the extension may touch a term again.
_EXTENSION_INDEX = r"""
create or replace table memkit.searchable as
    select memory_id, array_to_string({terms}, ' ') as terms from memkit.documents;
pragma create_fts_index('memkit.searchable', 'memory_id', 'terms', stemmer = 'none', stopwords = 'none',
    ignore = '\s+', strip_accents = 0, lower = 0, overwrite = 1);
create or replace table {index}.postings as
    select termid, docid, count(*) as tf from {index}.terms group by all order by all;
"""

_OWN_INDEX = """
create schema if not exists {index};
create or replace temp table memkit_counts as {counts};
create or replace table {index}.docs as
    select row_number() over (order by memory_id) - 1 as docid, memory_id as name, coalesce(len, 0)::bigint as len
    from memkit.documents left join (select doc, sum(tf) as len from temp.memkit_counts group by doc) using (doc);
create or replace table {index}.dict as
    select row_number() over (order by term) - 1 as termid, term, count(*) as df from temp.memkit_counts group by term;
create or replace table {index}.stats as select count(*) as num_docs, avg(len) as avgdl from {index}.docs;
create or replace table {index}.postings as
    select termid, docid, tf from temp.memkit_counts c
    join {index}.dict using (term) join {index}.docs d on d.name = c.doc order by all;
drop table temp.memkit_counts;
"""

_SUBSCORES = """
    with found as (
        select termid, df from {index}.dict
        where term in (select unnest({terms}))
    ), scores as (
        select docid, sum(
            log((num_docs - df + 0.5) / (df + 0.5) + 1) * tf * ({k1} + 1) / (tf + {k1} * (1 - {b} + {b} * len / avgdl))
        ) as score
        from {index}.postings
        join found using (termid) join {index}.docs using (docid) cross join {index}.stats
        group by docid
    )
"""

_MACROS = """
create or replace macro main.fts(query, k := 10) as table {subscores}
    select name as memory_id, score from scores join {index}.docs using (docid)
    where score > 0 order by score desc, memory_id limit k;
create or replace macro main.match_bm25(memory_id, query) as {match};
"""

_OWN_MATCH = "({subscores} select score from scores join {index}.docs using (docid) where name = memory_id)"


def searchable_sql() -> str:
    """SQL expression over the columns of ``memories``: what is searched, as one string.

    Title, tags and text, a line each; the title is left out where the text's first line already holds it.

    Examples
    --------
    >>> from memkit.duck import connect
    >>> row = "(select 'Пул' as title, ['db'] as tags, '## Пул' || chr(10) || 'Десять.' as text)"
    >>> connect().sql(f"select {searchable_sql()} from {row}").fetchone()[0]
    'db\\n## Пул\\nДесять.'
    """
    first_line = "split_part(text, chr(10), 1)"
    return (
        f"concat_ws(chr(10), case when title = '' or contains({first_line}, title) then null else title end,"
        " nullif(array_to_string(tags, ' '), ''), text)"
    )


def build_fts(con: duckdb.DuckDBPyConnection) -> None:
    """Index ``memories`` and make the macros ``fts`` and ``match_bm25``.

    Afterwards ``memories`` is a view over ``memkit.memories`` (see the module). Run again, it indexes the rows that are
    then in ``memkit.memories``, or in a new table ``memories`` that was put in the view's place.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Has a table ``memories`` with the columns memory_id, title, tags and text. Of rows with the same memory_id, one
        is indexed.

    Examples
    --------
    >>> from memkit.duck import connect
    >>> con = connect()
    >>> _ = con.execute("create table memories as select 'a' as memory_id, '' as title, []::varchar[] as tags, "
    ...                 "'Пул соединений' as text")
    >>> build_fts(con)
    >>> con.sql("select memory_id from fts('пулы', k := 5)").fetchall()
    [('a',)]
    """
    has_extension = load_fts(con)
    _protect_memories(con)
    con.execute(f"""
        create or replace view memkit.documents as
        select memory_id, min({searchable_sql()}) as body, memory_id as doc from memkit.memories group by memory_id
    """)  # noqa: S608  # no data in it
    names = {"index": _INDEX, "terms": analyse_sql("body"), "counts": count_terms_sql("memkit.documents")}
    script = _EXTENSION_INDEX if has_extension else _OWN_INDEX
    for statement in script.split(";\n"):  # one by one: DuckDB expands a pragma before it runs what stands above it
        con.execute(statement.format_map(names))
    con.execute(_macros_sql(has_extension))


def read_fts(con: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    """The tables of the index that `build_fts` made, as `TEXT_INDEX` declares them; the same for the same memories.

    Examples
    --------
    >>> import memkit as mk
    >>> with mk.from_table({"text": ["Пул соединений"]}).connect() as con:
    ...     read_fts(con)["dict"]["term"].to_pylist()
    ['пул', 'соединен']
    """
    found = {name: con.execute(sql.format(index=_INDEX)).to_arrow_table() for name, sql in _EXPORT.items()}
    return {name: table.cast(TEXT_INDEX[name]) for name, table in found.items()}


def restore_fts(con: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> None:
    """Take an index of ``memories`` that `read_fts` gave, instead of building it; cost linear in its rows."""
    load_fts(con)
    _protect_memories(con)
    con.execute(f"create schema {_INDEX}")
    for name, table in tables.items():
        con.register("incoming", table)
        con.execute(f"create table {_INDEX}.{name} as from incoming")
        con.unregister("incoming")
    con.execute(_macros_sql(has_extension=False))


def _protect_memories(con: duckdb.DuckDBPyConnection) -> None:
    is_table = con.execute("""
        select count(*) from information_schema.tables where table_catalog = current_database()
        and table_schema = 'main' and table_name = 'memories' and table_type = 'BASE TABLE'
    """).fetchone()
    if is_table is not None and is_table[0]:
        con.execute(_PROTECT)


def _macros_sql(has_extension: bool) -> str:
    subscores = _SUBSCORES.format(index=_INDEX, terms=analyse_sql("query"), k1=K1, b=B)
    if has_extension:
        match = f"{_INDEX}.match_bm25(memory_id, array_to_string({analyse_sql('query')}, ' '), k := {K1}, b := {B})"
    else:
        match = _OWN_MATCH.format(subscores=subscores, index=_INDEX)
    return _MACROS.format(subscores=subscores, index=_INDEX, match=match)
