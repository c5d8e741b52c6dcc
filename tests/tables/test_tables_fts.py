from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import memkit as mk
from memkit.base.duck import connect as plain
from memkit.errors import QueryError
from memkit.schemas import MEMORIES
from memkit.tables.database import Database
from memkit.tables.fts import TEXT_INDEX, index_text
from memkit.text import analyse
from memkit.text.analyse import analyse_sql, searchable_sql

TEXTS = [
    "Пул соединений настроен на десять",
    "Пулы потоков и память",
    "The pool of connections, error E4021",
    "release_notes за 2025 год, snake_case",
    "ёлка и ещё одна Ёлка",
    "東京タワーの話",
    "ภาษาไทย",
    "שָׁלוֹם עולם",
    "हिन्दी भाषा",
    "λόγος και ΛΌΓΟΣ",
    "deploy 🚀 готов",
    "",
]

Connect = Callable[..., duckdb.DuckDBPyConnection]


def memories(texts: list[str], ids: list[str] | None = None, **columns: list[Any]) -> pa.Table:
    columns_by_name = {
        "memory_id": ids or [f"m{row:02}" for row in range(len(texts))],
        "format": ["table"] * len(texts),
        "title": [""] * len(texts),
        "text": texts,
        "tags": [[]] * len(texts),
    } | columns
    return pa.Table.from_pylist(
        [dict(zip(columns_by_name, row, strict=True)) for row in zip(*columns_by_name.values(), strict=True)], MEMORIES
    )


@pytest.fixture(params=["extension", "own"])
def connect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes connections with an index over texts, with and without DuckDB's extension."""

    def make(texts: list[str], **columns: Any) -> duckdb.DuckDBPyConnection:
        database = Database({"memories": memories(texts, **columns)})
        if request.param == "extension":
            return database.cursor()
        monkeypatch.setattr(analyse, "_extension_file", lambda: Path("absent/fts.duckdb_extension"))
        return database.cursor()

    return make


def hit_ids(con: duckdb.DuckDBPyConnection, query: str, k: int = 10) -> list[str]:
    return [row[0] for row in con.execute("select memory_id from fts(?, k := ?)", [query, k]).fetchall()]


FIRST = {
    "пулами": "m01",
    "соединение": "m00",
    "потоки": "m01",
    "connection": "m02",
    "e4021": "m02",
    "2025": "m03",
    "notes": "m03",
    "snake_case": "m03",
    "SNAKE": "m03",
    "елка": "m04",
    "ЁЛКИ": "m04",
    "東京": "m05",
    "タワー": "m05",
    "京": "m05",
    "ไทย": "m06",
    "שָׁלוֹם": "m07",
    "भाषा": "m08",
    "ΛΌΓΟΣ": "m09",
    "🚀": "m10",
}


@pytest.mark.quick
def test_a_query_in_any_script_finds_its_memory(connect: Connect) -> None:
    con = connect(TEXTS)
    assert {query: hit_ids(con, query)[:1] for query in FIRST} == {query: [first] for query, first in FIRST.items()}


@pytest.mark.quick
def test_a_query_without_known_words_finds_nothing(connect: Connect) -> None:
    con = connect(TEXTS)
    unknown = ["", "  ", "?!, --", "___", "нетакогослова", "'; drop table memories; --", "x" * 10_000]
    assert [query for query in unknown if hit_ids(con, query)] == []


@pytest.mark.quick
def test_fts_joins_memories_and_is_ordered_by_score_then_id(connect: Connect) -> None:
    con = connect(["кот", "пул пул", "пул", "пул", "пул соединений"])
    rows = con.sql("from fts('пул соединений', k := 4) join memories using (memory_id)").fetchall()
    assert {row[0] for row in rows} == {"m01", "m02", "m03", "m04"}
    ranked = con.execute("from fts('пул соединений', k := 4)").fetchall()
    assert ranked == sorted(ranked, key=lambda row: (-row[1], row[0]))
    assert [row[0] for row in ranked] == ["m04", "m01", "m02", "m03"]
    assert hit_ids(con, "пул соединений", 2) == ["m04", "m01"]


def test_ten_is_the_default_number(connect: Connect) -> None:
    assert len(connect(["кот"] * 15).execute("from fts('кот')").fetchall()) == 10


def test_fts_scores_are_those_of_match_bm25(connect: Connect) -> None:
    con = connect(TEXTS + TEXTS[:3])
    for query in ("пул соединений", "память E4021 pool", "елка елка", "東京"):
        ranked = dict(con.execute("from fts(?, k := 100)", [query]).fetchall())
        matched = con.execute("select memory_id, match_bm25(memory_id, ?) as s from memories", [query]).fetchall()
        assert ranked == pytest.approx({name: score for name, score in matched if score is not None}, rel=1e-12)


def test_scores_are_those_of_the_extensions_own_index() -> None:
    con = Database({"memories": memories(TEXTS)}).cursor()
    con.execute(f"""
        create table searchable as
        select memory_id, array_to_string({analyse_sql(searchable_sql())}, ' ') as terms from memories
    """)  # noqa: S608  # no data in it
    con.execute(r"""
        pragma create_fts_index('searchable', 'memory_id', 'terms', stemmer = 'none', stopwords = 'none',
            ignore = '\s+', strip_accents = 0, lower = 0)
    """)
    terms = f"array_to_string({analyse_sql('$1')}, ' ')"
    sql = f"select memory_id, fts_main_searchable.match_bm25(memory_id, {terms}) from memories"  # noqa: S608  # no data
    for query in ("пул соединений", "память E4021 pool", "елка", "ภาษา 🚀"):
        theirs = {name: score for name, score in con.execute(sql, [query]).fetchall() if score is not None}
        assert theirs
        assert dict(con.execute("from fts(?)", [query]).fetchall()) == pytest.approx(theirs, rel=1e-12)


def test_an_index_is_of_its_rows_alone_whatever_their_order() -> None:
    one, other = index_text(memories(TEXTS)), index_text(memories(TEXTS).sort_by([("memory_id", "descending")]))
    assert {name: table.schema for name, table in one.items()} == TEXT_INDEX
    assert one == other


def test_one_of_two_documents_scores_as_the_formula_says(connect: Connect) -> None:
    con = connect(["кот", "пёс лает"])
    ((name, score),) = con.execute("from fts('кот')").fetchall()
    idf = 0.30102999566398120  # log10((2 - 1 + 0.5) / (1 + 0.5) + 1)
    assert name == "m00"
    assert score == pytest.approx(idf * 1 * (1.2 + 1) / (1 + 1.2 * (1 - 0.75 + 0.75 * 1 / 1.5)))


def test_a_term_of_every_document_still_scores_above_zero(connect: Connect) -> None:
    assert all(score > 0 for _, score in connect(["кот", "кот и пёс"]).execute("from fts('кот')").fetchall())


def test_title_and_tags_are_searched(connect: Connect) -> None:
    con = connect(["текст", "text"], title=["Настройка", ""], tags=[[], ["метка", "label"]])
    assert hit_ids(con, "настройки") == ["m00"]
    assert hit_ids(con, "labels") == ["m01"]


def test_a_page_is_found_by_what_it_is_called_and_says_of_itself(tmp_path: Path) -> None:
    head = "---\ntitle: Доля возвратов\ndescription: сколько книг вернули читатели\naliases: [return rate, брак]\n---\n"
    pages = {
        "a.md": f"{head}# Определение\nЧисло одних к числу других.\n",
        "b.md": "---\ntitle: Склад\naliases: [warehouse]\n---\nКоробки, см. [[a]].\n",
        "c.md": "---\ntitle: Чай\n---\nЗелёный.\n",
    }
    corpus = mk.read(mk.testing.write_files(tmp_path, pages))
    search = mk.Retriever(encoder=None).fit(corpus)
    paths = dict(zip(*(corpus.memories[name].to_pylist() for name in ("memory_id", "path")), strict=True))
    for query, path in {"return rate": "a.md", "брак": "a.md", "вернули": "a.md", "warehouse": "b.md"}.items():
        rows = corpus.sql(f"select memory_id from fts('{query}')").fetchall()  # noqa: S608  # no data
        assert [paths[name] for (name,) in rows] == [path], query
        assert search.search(query, k=1)["path"].to_pylist() == [path], query


def test_a_title_that_the_first_line_holds_counts_once() -> None:
    table = memories(["## Пул\nдесять", "Десять"], title=["Пул", "Пул"], tags=[["db", "sql"], []])
    with plain() as con:
        con.register("given", table)
        rows = con.execute(f"select {searchable_sql()} from given order by memory_id").fetchall()  # noqa: S608  # no data
    assert [row[0] for row in rows] == ["db sql\n## Пул\nдесять", "Пул\nДесять"]


def test_an_empty_table_finds_nothing(connect: Connect) -> None:
    con = connect([])
    assert hit_ids(con, "пул") == []
    assert con.execute("select match_bm25('a', 'пул')").fetchone() == (None,)


def test_equal_ids_raise_nothing(connect: Connect) -> None:
    con = connect(["пул раз", "пул два"], ids=["same", "same"])
    assert hit_ids(con, "пул") == ["same"]
    assert len(con.execute("select match_bm25(memory_id, 'пул') from memories").fetchall()) == 2


def test_macros_serve_other_cursors(connect: Connect) -> None:
    assert hit_ids(connect(TEXTS).cursor(), "пул") == ["m01", "m00"]


@pytest.mark.parametrize(
    "change", ["update memories set text = 'кот'", "delete from memories", "insert into memories from memories"]
)
def test_a_change_of_the_rows_is_refused_so_that_no_answer_is_stale(connect: Connect, change: str) -> None:
    con = connect(TEXTS)
    with pytest.raises(duckdb.Error):
        con.execute(change)
    assert hit_ids(con, "пул") == ["m01", "m00"]


def test_only_memories_shows_among_the_users_tables(connect: Connect) -> None:
    assert connect(TEXTS).execute("show tables").fetchall() == [("memories",)]


def test_duckdbs_own_name_answers_as_duckdbs_own_index(subtests: pytest.Subtests) -> None:
    """Also with its parameters, in a sandbox too; of a table of one's own it is DuckDB's index."""
    titles, texts = ["tea", "pool", "", "mug tea"], ["pool of ten", "tea tea ten", "pool tea ten tea", "ten pool"]
    corpus = mk.from_table({"memory_id": list("abcd"), "title": titles, "text": texts})
    con = corpus.connect()
    con.execute("create table mine as select memory_id, title, text from memories")
    con.execute("pragma create_fts_index('mine', 'memory_id', 'title', 'text', stemmer = 'none', stopwords = 'none')")
    ask = "select memory_id, round(fts_main_{0}.match_bm25(memory_id, '{1}'{2}), 6) as s from {0} order by 1".format
    options = ("", ", k := 2.0, b := 0.1", ", conjunctive := 1", ", fields := 'text'", ", fields := 'title,text'")
    for query, more in product(("pool", "tea ten", "pool nowhere"), options):
        with subtests.test(query=query, more=more):
            wanted, sql = con.execute(ask("mine", query, more)).fetchall(), ask("memories", query, more)
            assert corpus.sql(sql).fetchall() == wanted
            if "fields" not in more:
                assert [tuple(row.values()) for row in corpus.ask(sql).to_pylist()] == wanted


def test_what_sql_has_not_is_said_with_what_to_do() -> None:
    corpus = mk.from_table({"text": ["чай"]})
    for query, said in {
        "pragma create_fts_index('memories', 'memory_id', 'text')": "create_fts_index: memkit itself keeps.*match_bm25",
        "from chunks": r"before a fit.*corpus_",
        "from vectors": r"before a fit.*corpus_",
    }.items():
        for ask in (corpus.sql, corpus.ask):
            with pytest.raises(QueryError, match=said):
                ask(query)
    with pytest.raises(duckdb.CatalogException, match="Did you mean 'memories'"):
        corpus.sql("from memory")
    with pytest.raises(duckdb.Error, match=r"fields: expected some of title, .*text"):
        corpus.sql("select fts_main_memories.match_bm25(memory_id, 'чай', fields := 'titel') from memories").fetchall()


def test_vectors_and_chunks_can_be_asked_of_a_fitted_corpus_and_its_lake(tmp_path: Path) -> None:
    """Cosines in SQL are those of the encoder; a fit without an encoder says that there are none."""
    search = mk.Retriever(encoder="hash").fit(mk.from_table({"text": ["пул соединений", "чай", "пул"]}))
    search.corpus_.save(tmp_path / "lake")
    sql = (
        "select array_cosine_similarity(a.vector, b.vector) as cosine from vectors a, vectors b"
        " join chunks on chunks.chunk_id = b.chunk_id where a.chunk_id = '2@0' order by b.chunk_id"
    )
    vectors = search.index_.encoded()
    for corpus in (search.corpus_, mk.open(tmp_path / "lake")):
        assert corpus.sql(sql).fetchnumpy()["cosine"] == pytest.approx(vectors @ vectors[2], abs=1e-6)
        assert corpus.ask(sql)["cosine"].to_numpy() == pytest.approx(vectors @ vectors[2], abs=1e-6)
        assert str(corpus.sql("from vectors").types[1]) == f"FLOAT[{vectors.shape[1]}]"
        assert "vectors" not in corpus.tables
    blind = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай"]}))
    blind.corpus_.save(tmp_path / "blind")
    for corpus in (blind.corpus_, mk.open(tmp_path / "blind")):
        with pytest.raises(QueryError, match="there are no vectors: the search was fitted without an encoder"):
            corpus.sql("from vectors")
