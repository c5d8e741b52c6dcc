"""memkit's own database: nothing that is asked leaves it, and nothing that a user does on a connection reaches it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import memkit as mk
from memkit.base import duck
from memkit.errors import QueryError
from memkit.tables.database import Database
from memkit.tables.samples import sample_data
from memkit.tables.untrusted import Sandbox

AS_OF = "2026-03-01"


@pytest.fixture(scope="module")
def sample() -> mk.Corpus:
    return mk.read(sample_data())


@pytest.fixture(scope="module")
def search(sample: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder=None).fit(sample)


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outside") / "secret.csv"
    path.write_text("word\nhidden\n", encoding="utf-8")
    return path


# --- what may be asked ---


@pytest.mark.quick
@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("true", 3),
        ("user_id = 'u1' -- the owner", 2),
        ("/* all */ not (user_id = 'u2')", 2),
        ("text like '%чай%'", 1),
        ("TEXT like '%чай%'", 1),
        ("list_contains(tags, 'tea')", 1),
        ("len(list_filter(tags, lambda tag: tag = 'tea')) = 1", 1),
        ("memory_id in (select memory_id from fts('чаи'))", 1),
        ("match_bm25(memory_id, 'чаи') > 0", 1),
        ("exists (select 1 from memories m where m.text = memories.text and m.memory_id <> memories.memory_id)", 0),
        ("memory_id in (with x as (select memory_id from labels) select memory_id from x)", 1),
        ("memory_id in (select unnest(['0', '1']))", 2),
        ("json_extract_string(extra, '$.colour') = 'green'", 1),
        ("created_at >= '2026-01-01'", 3),
        ("false", 0),
        ("null", 0),
    ],
)
def test_a_predicate_may_use_columns_tables_and_full_text(where: str, count: int, drinks: mk.Retriever) -> None:
    assert drinks.search("чай кофе какао", where=where).num_rows == count


@pytest.fixture(scope="module")
def drinks() -> mk.Retriever:
    """Three memories, and a table of labels beside them."""
    corpus = mk.from_table(
        {
            "text": ["Зелёный чай", "Кофе", "Какао"],
            "tags": [["tea"], [], []],
            "user_id": ["u1", "u1", "u2"],
            "created_at": ["2026-02-01"] * 3,
            "colour": ["green", "black", "brown"],
        }
    )
    corpus.add_table("labels", pa.table({"memory_id": ["1"]}))
    return mk.Retriever(encoder=None).fit(corpus)


@pytest.mark.quick
@pytest.mark.parametrize(
    "attack",
    [
        "(select word from read_csv({path}))= 'hidden'",
        "exists (from read_text({path}))",
        "exists (from READ_BLOB({path}))",
        "exists (from {name})",
        "exists (from glob('/*'))",
        "exists (from sniff_csv({path}))",
        "exists (from query('select 1'))",
        "exists (from query_table('memories'))",
        "exists (from json_execute_serialized_sql(json_serialize_sql('select 1')))",
        "exists (from arrow_scan(1, 2, 3))",
        "exists (from pandas_scan(1))",
        "exists (from seq_scan('memories'))",
        "exists (from duckdb_settings())",
        "exists (from information_schema.tables)",
        "exists (from pg_catalog.pg_class)",
        "exists (from sqlite_master)",
        "exists (from system.main.duckdb_tables)",
        "exists (from (describe memories))",
        "exists (from (show all tables))",
        "exists (from (summarize memories))",
        "exists (copy memories to {path})",
        "exists (insert into memories default values returning 1)",
        "exists (delete from memories returning 1)",
        "(attach {path}) is null",
        "true; copy memories to {path}",
        "true; attach {path}",
        "true) or (true",
        "true) union select memory_id from memories where (true",
        "true union select 'x'",
        "true group by all",
        "true having true",
        "true qualify true",
        "true order by 1",
        "true limit 1",
        "true window w as (order by kind)",
        "true using sample 1",
        "true /*",
        "getenv('HOME') is not null",
        "current_setting('temp_directory') is not null",
        "main.current_setting('temp_directory') is not null",
        "\"Current_Setting\"('temp_directory') is not null",
        "getvariable('x') is null",
        "current_query() is not null",
        "nextval('s') > 0",
        "sleep_ms(1) is null",
        "setval('s', 1) > 0",
        "write_log('x') is null",
        "user_id = $1",
        "user_id = ?",
        "owner = 'u1'",
        "length(repeat('x', 10000000000)) > 0",
        "user_id = '\0'",
        "user_id = '\ud800'",
        "not " * 100_000 + "true",
        "(" * 100_000,
        "",
    ],
)
def test_what_reaches_beyond_the_tables_is_refused_with_what_is_expected(
    search: mk.Retriever, secret: Path, attack: str
) -> None:
    where = attack.replace("{path}", duck.literal(str(secret))).replace("{name}", duck.identifier(str(secret)))
    with pytest.raises(QueryError, match="where: expected one SQL predicate over the columns of memories"):
        search.search("пул", where=where)
    assert secret.read_text(encoding="utf-8") == "word\nhidden\n"


@pytest.mark.quick
def test_what_the_syntax_tree_would_let_pass_duckdb_refuses(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second wall alone: no files, no settings, whatever is called."""
    monkeypatch.setattr("memkit.tables.untrusted._TABLE_FUNCTIONS", frozenset({"read_csv", "glob"}))
    corpus = mk.from_table({"text": ["чай"]})
    for query in (f"from read_csv({duck.literal(str(secret))})", "from glob('/*')"):
        with pytest.raises(QueryError, match="file system operations are disabled"):
            corpus.ask(query)
    con = corpus._database._sandbox._con
    assert con is not None
    for change in ("set threads = 1", "set enable_external_access = true", "reset lock_configuration", "load httpfs"):
        with pytest.raises(duckdb.Error):
            con.execute(change)


def test_a_variable_of_the_program_is_no_table() -> None:
    query = pa.table({"memory_id": ["hidden"]})
    with pytest.raises(QueryError, match="Got 'query'"):
        mk.from_table({"text": ["чай"]}).ask("from query", {"query": query.num_rows})


@pytest.mark.parametrize("query", ["", "select 1; select 2", "drop table memories", "pragma threads", "call fts('a')"])
def test_anything_but_one_select_is_refused(sample: mk.Corpus, query: str) -> None:
    with pytest.raises(QueryError, match="expected"):
        sample.ask(query)


def test_a_question_takes_parameters_and_refuses_half_a_character() -> None:
    corpus = mk.from_table({"text": ["чай", "кофе"]})
    query = "select memory_id from memories where text = "
    assert corpus.ask(query + "$t", {"t": "кофе"})["memory_id"].to_pylist() == ["1"]
    assert corpus.ask(query + "?", ["чай"])["memory_id"].to_pylist() == ["0"]
    for params in ({"t": "\ud800"}, {"u": "x"}, None):
        with pytest.raises(QueryError):
            corpus.ask("select $t", params)


# --- what it holds ---


def column_names(sandbox: Sandbox) -> set[str]:
    return set(sandbox._columns.get("memories", ()))


def test_the_text_is_copied_only_when_it_may_be_read() -> None:
    table = mk.from_table({"text": ["чай"]}).memories
    narrow = set(table.column_names) - {"text", "extra"}
    for query, columns in {
        "select memory_id from memories where user_id is null": narrow,
        "select Text from memories": narrow | {"text"},
        "select memory_id from memories where extra is null": narrow | {"extra"},
        "from memories": set(table.column_names),
        "select count(*) from memories where memories is not null": set(table.column_names),
        "select count(*) from memories where columns(*) is null": set(table.column_names),
        "select 1 where exists (select 1 from memories m(a, b))": set(table.column_names),
    }.items():
        sandbox = Sandbox({"memories": table}, dict)
        assert sandbox.ask(query).num_columns > 0
        assert column_names(sandbox) == columns, query


def test_columns_that_were_copied_stay_and_another_table_of_the_name_is_seen() -> None:
    tables = {"memories": mk.from_table({"text": ["чай"]}).memories}
    sandbox = Sandbox(tables, dict)
    sandbox.ask("select text from memories")
    sandbox.ask("select kind from memories")
    assert "text" in column_names(sandbox)
    tables["memories"] = mk.from_table({"text": ["кофе"]}).memories
    assert sandbox.ask("select text from memories").to_pylist() == [{"text": "кофе"}]


# --- what a user does on a connection ---

VANDALS = {
    "other rows": "update memkit.memories set text = 'x', expires_at = '2000-01-01'; delete from memkit.facts",
    "another view": "create or replace view memories as select * replace ('x' as memory_id) from memkit.memories",
    "a table in the view's place": "drop view memories; create table memories as select 'x' as memory_id",
    "no rows at all": "drop schema memkit cascade; drop schema memkit_fts cascade",
    "another index": """
        update memkit_fts.postings set tf = 9; delete from memkit_fts.docs where docid % 2 = 0;
        create or replace macro fts(query, k := 10) as table select 'x' as memory_id, 1 as score;
        create macro lower(x) as 'x'; create macro stem(a, b) as 'x'
    """,
    "other settings": """
        set global timezone = 'Asia/Tokyo'; set threads = 1; set default_null_order = 'nulls_first';
        create table chunks as select 1 as a; create schema other; use other; set variable as_of = 1
    """,
}
QUERIES = ["пул соединений", "зелёный чай"]


def answers(corpus: mk.Corpus, folder: Path) -> dict[str, Any]:
    """What memkit says of a corpus, by every door that does not belong to the user."""
    search = mk.Retriever(encoder=None).fit(corpus)
    corpus.save(folder)
    opened = mk.open(folder)
    where = "user_id is not null or text like '%пул%'"
    return {
        "search": search.search(QUERIES, as_of=AS_OF).to_pylist(),
        "where": search.search(QUERIES, where=where, as_of=AS_OF).to_pylist(),
        "text": corpus.ask("from fts('пул соединений')").to_pylist(),
        "trace": search.trace(QUERIES[0], where=where, as_of=AS_OF).to_pylist(),
        "named": [corpus.named(name, AS_OF).fetchall() for name in ("expired_facts", "near_empty", "facts_by_user")],
        "decay": mk.Decay().transform(corpus, AS_OF).to_pylist(),
        "context": mk.ContextBuilder(retriever=search).build(corpus, "anna", QUERIES[0], as_of=AS_OF).text,
        "saved": {name: table.to_pylist() for name, table in opened.tables.items()},
        "saved text": opened.sql("from fts('пул соединений')").fetchall(),
        "refreshed": corpus.refresh().memories.to_pylist(),
    }


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(mk.read(sample_data() / "facts"), tmp_path_factory.mktemp("untouched"))


@pytest.mark.parametrize("name", VANDALS)
def test_whatever_a_connection_does_memkit_answers_from_the_tables(
    name: str, untouched: dict[str, Any], tmp_path: Path
) -> None:
    corpus = mk.read(sample_data() / "facts")
    corpus.connect().execute(VANDALS[name])
    assert answers(corpus, tmp_path) == untouched


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, mk.Corpus]:
    """A corpus with chunks, before and after full text was asked for, and after it was opened."""
    corpora, folder = {}, tmp_path_factory.mktemp("lake")
    for state in ("fresh", "searched"):
        corpora[state] = mk.Retriever(encoder=None).fit(mk.read(sample_data() / "facts")).corpus_
    corpora["searched"].sql("from fts('пул')").fetchall()
    corpora["searched"].save(folder)
    return {**corpora, "opened": mk.open(folder)}


@pytest.mark.parametrize(
    "change",
    ["update {} set memory_id = 'x'", "delete from {}", "insert into {} (memory_id) values ('x')", "truncate {}"],
)
@pytest.mark.parametrize("state", ["fresh", "searched", "opened"])
def test_a_table_cannot_be_changed_by_its_name_in_any_state(
    states: dict[str, mk.Corpus], state: str, change: str
) -> None:
    corpus = states[state]
    for table in ("memories", "facts", "chunks"):
        with pytest.raises(duckdb.Error):
            corpus.sql(change.format(table)).fetchall()
        count = corpus.sql("select count(*) from query_table(?)", [table]).fetchall()
        assert count == [(corpus.tables[table].num_rows,)]


def test_a_named_query_hands_out_no_connection_to_the_corpus() -> None:
    corpus = mk.from_table({"text": ["чай"]})
    relation = corpus.named("near_empty")
    with pytest.raises(duckdb.Error):
        relation.query("r", "drop table memories")
    assert corpus.named("near_empty").fetchall() == relation.fetchall() == [("0", None, 3, "чай")]


# --- interrupts ---


class Fuse:
    """Connections that count what is asked of them and break off at one place."""

    def __init__(self, n_calls: int) -> None:
        self.left = n_calls

    def connect(self, **config: Any) -> Any:
        return Fused(duck.connect(**config), self)

    def burn(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise KeyboardInterrupt


class Fused:
    def __init__(self, con: duckdb.DuckDBPyConnection, fuse: Fuse) -> None:
        self.con, self.fuse = con, fuse

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.con, name)

        def call(*args: Any, **named: Any) -> Any:
            self.fuse.burn()
            answer = method(*args, **named)
            return Fused(answer, self.fuse) if name == "cursor" else answer

        return call

    def __enter__(self) -> Fused:
        return self

    def __exit__(self, *error: object) -> None:
        self.con.close()


TEA_QUERY = "select text from fts('чай') join memories using (memory_id)"
DOORS: dict[str, Callable[[Database], Any]] = {
    "sql": lambda database: database.cursor("").execute("from memories, problems").fetchall(),
    "full text": lambda database: database.cursor().execute(TEA_QUERY).fetchall(),
    "a question": lambda database: database.ask(TEA_QUERY).to_pylist(),
}


@pytest.mark.parametrize(
    ("door", "indexed", "step"),
    [("sql", True, 1), ("full text", False, 1), ("a question", True, 1), ("a question", False, 9)],
)
def test_an_interrupt_at_any_statement_leaves_a_database_that_answers(
    door: str, indexed: bool, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of texts is built in one way for all: its statements are gone through once, at full text."""
    corpus = mk.from_table({"text": ["чай", ""]})
    tables = {name: corpus.tables[name] for name in ("memories", "problems")}
    index = Database(tables).text_index() if indexed else None
    ask, interrupts, was_reached = DOORS[door], 0, True
    expected = ask(Database(tables))
    while was_reached:
        database, fuse = Database(tables, index and (lambda: index)), Fuse(interrupts * step)
        for door_of in ("text.analyse.connect", "tables.fts.session"):
            monkeypatch.setattr(f"memkit.{door_of}", fuse.connect)
        try:
            ask(database)
        except KeyboardInterrupt:
            interrupts += 1
        was_reached, fuse.left = fuse.left < 0, -1
        monkeypatch.undo()
        assert ask(database) == expected
        assert database.cursor("").execute("show tables").fetchall() == [(name,) for name in tables]
    assert interrupts * step > 8


SIGNALLED = """
import signal, sys, time
import memkit as mk

# A thread that sends the signal would itself be stopped at times: while Python counts the threads.
signal.signal(signal.SIGALRM, signal.default_int_handler)
# Python drops an interrupt that comes while it forgets an object, and says so; who pressed Control-C presses it again.
said = sys.unraisablehook
sys.unraisablehook = lambda dropped: None if dropped.exc_type is KeyboardInterrupt else said(dropped)
texts = [" ".join(f"слово{i * j % 997}" for j in range(40)) for i in range(1500)]
expected = mk.from_table({"text": texts}).sql("from fts('слово1', k := 10000)").fetchall()
stopped = 0
for step in range(6):
    corpus = mk.from_table({"text": texts})
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + step * 0.08, 2)
        corpus.sql("from fts('слово1')").fetchall()
        time.sleep(60)
    except (KeyboardInterrupt, RuntimeError) as error:  # DuckDB's own word is RuntimeError("Query interrupted")
        signal.setitimer(signal.ITIMER_REAL, 0)
        stopped += isinstance(error, KeyboardInterrupt) or "interrupted" in str(error)
    assert corpus.sql("from fts('слово1', k := 10000)").fetchall() == expected
    assert corpus.sql("select count(*) from memories").fetchall() == [(1500,)]
print(stopped)
"""


def test_ctrl_c_during_the_first_full_text_search_leaves_a_corpus_that_answers() -> None:
    process = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, check=False)
    assert process.stderr == ""
    assert int(process.stdout) == 6


def test_a_word_for_a_word_of_its_length_makes_nothing_longer() -> None:
    corpus = mk.from_table({"text": ["ёлка"]})
    eight = "text"
    for _ in range(8):  # as lengths of 2 each they would be 256 times as long
        eight = f"replace({eight}, 'ё', 'е')"
    assert corpus.ask(f"select {eight} as text from memories")["text"].to_pylist() == ["елка"]  # noqa: S608  # no data in it
    with pytest.raises(mk.errors.QueryError, match="times as long"):
        corpus.ask(f"select replace(text, 'ё', '{'е' * 101}') from memories")  # noqa: S608  # no data in it
