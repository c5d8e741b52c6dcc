"""What a question from anybody may cost: little text, time and memory, whatever it says; and Ctrl-C ends all of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import memkit as mk
from memkit.base import duck
from memkit.errors import ParameterError, QueryError
from memkit.tables.untrusted import Sandbox

ENDLESS = "(select count(*) from memories a, memories b, memories c, memories d where a.text || b.text < d.text) > 0"


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table(
        {"text": [f"Заметка номер {n} про зелёный чай" for n in range(3000)], "tags": [["tea"]] * 3000}
    )


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder=None).fit(corpus)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.search.steps.scope.WHERE_TIMEOUT_S", 0.2)


# --- what is refused before it runs ---


@pytest.mark.quick
@pytest.mark.parametrize(
    "where",
    [
        "(select count(*) from range(300000000) a, range(1000) b) > 0",
        "exists (from generate_series(1, 1000000000))",
        "len(range(1000000000)) > 0",
        "len(main.generate_series(1, 1000000000)) > 0",
        'length("REPEAT"(text, 1000000)) > 0',
        "text.repeat(1000000) is null",
        "lpad(text, 1000000000, 'x') is null",
        "format('{:1000000000}', 1) = ''",
        "printf('%1000000000d', 1) = ''",
        "len(list_resize(tags, 1000000000, 'x')) > 0",
        "len(list_reduce(str_split(text, ''), lambda a, b: a || a)) > 0",
        "levenshtein(text, text) > 0",
        "exists (with recursive t(n) as (select 1 union all select n + 1 from t) select 1 from t where n < 0)",
        "replace(text, 'а', text) is null",
        "replace(replace(replace(text, 'а', 'ааааааааа'), 'а', 'ааааааааа'), 'а', 'ааааааааа') is null",
        "regexp_replace(text, '.', '\\0\\0\\0\\0\\0\\0\\0\\0' || tags[1], 'g') is null",
        "exists (select unnest(list_transform(str_split(text, ''), lambda x: text)))",
        "exists (select unnest([text for x in str_split(text, '')]))",
        "exists (with a as (select text || text as t from memories), b as (select t || t || t || t as t from a),"
        " c as (select t || t || t || t as t from b), d as (select t || t || t || t as t from c) from d)",
        "exists (select text || text || text || text a, a || a || a || a b, b || b || b || b c, c || c d)",
        "hex(hex(hex(hex(text)))) is null",
    ],
)
def test_a_few_words_cannot_ask_for_more_than_there_is(search: mk.Retriever, where: str) -> None:
    with pytest.raises(QueryError, match="expected a query that cannot make large values of small ones"):
        search.search("чай", where=where)


@pytest.mark.quick
@pytest.mark.parametrize(
    "where",
    [
        "title || ' ' || text || ' ' || coalesce(source_id, '') like '%номер 7 %'",
        "concat(title, text, path) like '%номер 7 %'",
        "lower(replace(replace(text, ' ', ''), 'ё', 'е')) like '%номер7про%'",
        "len(list_transform(tags, lambda tag: upper(tag))) = 1 and text like '%номер 7 %'",
        "len([upper(tag) for tag in tags if tag = 'tea']) = 1 and text like '%номер 7 %'",
        "regexp_replace(text, '\\s+', ' ', 'g') like '%номер 7 %'",
        "'TEA' in (select upper(unnest(tags))) and text like '%номер 7 %'",
    ],
)
def test_a_predicate_still_works_on_values(search: mk.Retriever, where: str) -> None:
    assert search.search("чай", where=where)["memory_id"].to_pylist() == ["7"]


# --- how long it may take ---


@pytest.mark.quick
@pytest.mark.usefixtures("hurried")
def test_a_predicate_that_takes_too_long_is_given_up_with_one_message(search: mk.Retriever) -> None:
    message = r"where: expected an answer within 0\.2 seconds\. Got none for .* corpus.ask"
    for ask in (search.search, search.trace, search.ask):
        with pytest.raises(QueryError, match=message):
            ask("чай", where=ENDLESS)
    with pytest.raises(QueryError, match=message):
        mk.explain(search, "чай", "7", where=ENDLESS)
    queries = pa.table({"query_id": ["q"], "text": ["чай"], "user_id": ["anna"]})
    qrels = pa.table({"query_id": ["q"], "memory_id": ["7"], "relevance": [1]})
    with pytest.raises(QueryError, match=message):
        mk.evaluate(search, queries, qrels, where=ENDLESS)
    with pytest.raises(QueryError, match=message):
        mk.sweep(search, queries, qrels, {"pool": [10]}, where=ENDLESS)


def test_a_question_of_ones_own_has_the_time_that_it_is_given(corpus: mk.Corpus) -> None:
    query = f"select {ENDLESS} as found"
    with pytest.raises(QueryError, match=r"expected an answer within 0\.1 seconds"):
        corpus.ask(query, timeout_s=0.1)
    assert corpus.ask("select count(*) as n from memories", timeout_s=None).to_pylist() == [{"n": 3000}]
    with pytest.raises(ParameterError, match="'timeout_s' must be a float"):
        corpus.ask(query, timeout_s="soon")


def test_an_answer_in_time_leaves_nothing_that_waits(corpus: mk.Corpus) -> None:
    before = threading.active_count()
    for _ in range(20):
        corpus.ask("select 1 as a", timeout_s=1000)
    assert threading.active_count() == before


@pytest.mark.outside
@pytest.mark.usefixtures("hurried")
def test_the_command_line_and_a_lake_of_buckets_give_up_too(corpus: mk.Corpus, tmp_path: Path) -> None:
    corpus.save(tmp_path, buckets=2)
    search = mk.Retriever(encoder=None).fit(mk.open(tmp_path))
    with pytest.raises(QueryError, match=r"where: expected an answer within 0\.2 seconds"):
        search.search("чай", where=ENDLESS)


# --- how much memory ---


def test_what_needs_more_memory_than_its_tables_call_for_is_refused_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("memkit.tables.untrusted._FREE_BYTES", 2**24)
    sandbox = Sandbox({"t": pa.table({"a": [f"{n:064d}" for n in range(5000)]})}, dict)
    with pytest.raises(QueryError, match="Out of Memory"):
        sandbox.ask("select count(*) from (select distinct x.a, y.a from t x, t y)", timeout_s=None)
    assert sandbox.ask("select count(*) as n from t").to_pylist() == [{"n": 5000}]
    assert list(tmp_path.iterdir()) == []


def test_tables_that_grow_have_the_memory_that_they_call_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.tables.untrusted._FREE_BYTES", 2**22)
    tables = {"t": pa.table({"a": ["x"]})}
    sandbox = Sandbox(tables, dict)
    assert sandbox.ask("select a from t").to_pylist() == [{"a": "x"}]
    tables["u"] = pa.table({"a": [f"{n:0200d}" for n in range(100_000)]})
    assert sandbox.ask("select count(distinct a) as n from u").to_pylist() == [{"n": 100_000}]
    assert sandbox.ask("select a from t").to_pylist() == [{"a": "x"}]


# --- Ctrl-C ---

PRELUDE = """
import os, signal, sys, threading, time
import pyarrow as pa
import memkit as mk
from memkit.base.duck import connect, rows_of
from memkit.search.steps import scope
from memkit.tables import database, untrusted as sandbox

scope.WHERE_TIMEOUT_S = 1000.0

def ctrl_c(after=0.15):  # seconds of the processor: on a busy machine those of a clock are over before DuckDB begins
    start = time.process_time()
    def press():
        while time.process_time() - start < after:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press, daemon=True).start()

JOIN = "(select count(*) as n from range(3000000) a, range(1000000) b where (a.range * b.range) % 7 = 3)"
"""
DOORS = """
table = pa.table({"a": range(3000)})
corpus = mk.from_table({"text": [f"чай {n}" for n in range(3000)]})
slow = "(select count(*) from memories a, memories b, memories c, memories d where a.text || b.text < d.text)"
search = mk.Retriever(encoder=None).fit(corpus)

class Slow(mk.Decay):
    def _sql(self):
        return f"select * from ({super()._sql()}) where {JOIN} > 0"

with sandbox.connect() as con:
    doors = {
        "rows_of": lambda: rows_of(f"from {JOIN}"),
        "ask": lambda: corpus.ask(f"select {slow} as n", timeout_s=None),
        "where": lambda: search.search("чай", where=f"{slow} > 0"),
        "create": lambda: corpus.sql(f"create table made as from {JOIN}"),
        "show": lambda: mk.show(corpus.sql(f"from {JOIN}")),
        "policy": lambda: Slow().transform(corpus),
    }
    for name, door in doors.items():
        ctrl_c()
        try:
            door()
        except KeyboardInterrupt:
            print(name, corpus.ask("select count(*) as n from memories")["n"].to_pylist())
"""
COMMAND = """
def interrupted(run):
    def called(*args, **named):
        ctrl_c()
        return run(*args, **named)
    return called

sandbox.Sandbox.ask, database.sql_with = interrupted(sandbox.Sandbox.ask), interrupted(database.sql_with)
from memkit.cli.run import program
query = sys.argv.pop()
sys.argv[1:] = [word.format(slow=query, join=JOIN) for word in sys.argv[1:]]
program()
"""


def _python(code: str, *args: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", PRELUDE + code, *args]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return process.returncode, process.stdout, process.stderr


def test_ctrl_c_is_a_keyboard_interrupt_wherever_memkit_runs_duckdb() -> None:
    names = ["rows_of", "ask", "where", "create", "show", "policy"]
    assert _python(DOORS) == (0, "".join(f"{name} [3000]\n" for name in names), "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", "{folder}", "from {join}"],
        ["sql", "{folder}", "from {join}", "--json"],
        ["sql", "{folder}", "create table made as from {join}"],
        ["search", "{folder}", "чай", "--set", "encoder=none", "--where", "{slow}"],
    ],
    ids=["shown", "json", "statement", "where"],
)
def test_ctrl_c_ends_a_command_quietly_while_duckdb_works(tmp_path: Path, arguments: list[str]) -> None:
    text = "".join(f"# Чай {n}\n\nЗаметка номер {n}.\n\n" for n in range(300))
    for name in "abcdefgh":
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    folder = [word.replace("{folder}", str(tmp_path)) for word in arguments]
    assert _python(COMMAND, *folder, ENDLESS) == (130, "", "")


def test_an_error_of_a_program_is_no_interrupt() -> None:
    with pytest.raises(RuntimeError, match="own"), duck.interruptible():
        raise RuntimeError("own") from ValueError("a")
