"""The one way to connect, and quoting that nothing gets out of."""

from __future__ import annotations

import re
import subprocess
import sys

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.base.duck import connect, identifier, interruptible, laid_out, literal, session, transaction
from memkit.text.analyse import connect_fts

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.quick
def test_a_connection_and_its_cursors_count_in_utc_and_fetch_nothing() -> None:
    names = ("TimeZone", "autoinstall_known_extensions", "autoload_known_extensions")
    with connect() as con:
        for session in (con, con.cursor()):
            values = [session.execute("select current_setting(?)", [name]).fetchone() for name in names]
            assert values == [("UTC",), (False,), (False,)]


def test_nothing_is_printed_where_python_is_interactive() -> None:
    """DuckDB takes a program without a file for one, and shows there how far a statement of two seconds is."""
    shown = "print(con.execute(\"select current_setting('enable_progress_bar')\").fetchone())"
    every = "(duckdb.connect(), connect(), session())"
    code = f"import duckdb\nfrom memkit.base.duck import connect, session\nfor con in {every}: {shown}"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split("\n") == ["(True,)", "(False,)", "(False,)", ""]


class Stopped:
    """A table during whose hand-over to DuckDB the user presses Ctrl-C."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise KeyboardInterrupt


@pytest.mark.quick
def test_ctrl_c_while_duckdb_takes_a_table_from_python_is_no_error_of_duckdb() -> None:
    with connect() as con:
        with pytest.raises(KeyboardInterrupt), interruptible():
            con.register("stopped", Stopped())
        with pytest.raises(duckdb.Error, match="KeyboardInterrupt"), interruptible():
            con.execute("select error('KeyboardInterrupt: says a text')")


@pytest.mark.quick
def test_a_function_of_an_extension_that_is_not_loaded_is_an_error_not_a_download() -> None:
    with connect() as con, pytest.raises(duckdb.Error, match="stem"):
        con.execute("select stem('running', 'english')")


def test_two_connections_are_two_databases() -> None:
    with connect() as one, connect() as other:
        one.execute("create table t as select 1")
        assert other.execute("show tables").fetchall() == []


@given(TEXT)
def test_a_literal_is_its_text(text: str) -> None:
    with session() as con:
        assert con.execute(f"select {literal(text)}").fetchone() == (text,)


@given(TEXT.filter(lambda name: name and "\0" not in name))
def test_an_identifier_names_a_column_whatever_it_holds(name: str) -> None:
    with session() as con:
        assert con.execute(f"select 1 as {identifier(name)}").description[0][0] == name  # type: ignore[index]  # one column


_WORD = st.sampled_from(
    ["select", "a", "b,", "case", "when", "then", "else", "end", "and", "or", "from", "(", ")", "between 1 and 2",
     "'it''s, when and'", "'two\nlines  and more'", '"or, when"', "-- and, when\n", "x", "+", "\n"]
)  # fmt: skip


@given(st.lists(_WORD, max_size=60), st.integers(10, 60))
def test_laying_out_moves_blanks_alone(words: list[str], width: int) -> None:
    def tokens(sql: str) -> list[str]:
        return re.findall(r"'(?:[^']|'')*'|\"[^\"]*\"|--.*|[^\s'\"-]+|-", sql)

    sql = " ".join(words)
    assert tokens(laid_out(sql, width)) == tokens(sql)
    assert laid_out(laid_out(sql, width), width).split() == sql.split()


def test_a_statement_laid_out_says_the_same() -> None:
    sql = "select " + ", ".join(
        f"case when i = {n} and s <> ', and' then 'a  and  b' else 'c' end as c{n}" for n in range(9)
    )
    sql += " from (values (1, 'x'), (2, ', and')) t(i, s) where i between 1 and 8 or s = '\n' order by i"
    assert max(map(len, laid_out(sql, 60).splitlines())) <= 60
    assert connect().sql(laid_out(sql, 60)).fetchall() == connect().sql(sql).fetchall()


def test_a_transaction_leaves_all_or_nothing() -> None:
    con = connect()
    with transaction(con):
        con.execute("create table a (b int); insert into a values (1)")

    def broken_off(error: type[BaseException]) -> None:
        with transaction(con):
            con.execute("insert into a values (2); create table c (d int)")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            broken_off(error)
    assert con.execute("select * from a").fetchall() == [(1,)]
    assert con.execute("show tables").fetchall() == [("a",)]


def test_a_database_with_full_text_loads_nothing_unsigned_afterwards() -> None:
    con = connect_fts()
    assert con.execute("select stem('соединений', 'russian')").fetchall() == [("соединен",)]
    assert con.execute("select current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
    with pytest.raises(duckdb.Error, match="while database is running"):
        con.execute("set allow_unsigned_extensions = true")
