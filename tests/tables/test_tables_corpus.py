"""A corpus: SQL over its tables, full text that is never stale, connections and threads."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import FormatError, MemkitError, ParameterError, QueryError, VersionError
from memkit.formats.rows import Rule
from memkit.formats.rules import RULES
from memkit.schemas import TABLES
from memkit.tables.fts import index_text
from memkit.tables.samples import sample_data, write_files


@pytest.mark.quick
def test_every_table_has_its_rows_in_sql(sample: mk.Corpus) -> None:
    for name, table in sample.tables.items():
        assert sample.sql("select count(*) from query_table(?)", [name]).fetchall() == [(table.num_rows,)]
    assert sample.sql("from memories").to_arrow_table().column_names == TABLES["memories"].names


@pytest.mark.quick
def test_a_query_takes_parameters(sample: mk.Corpus) -> None:
    assert sample.sql("select ?::int + ?::int", [1, 2]).fetchall() == [(3,)]
    assert sample.sql("select $a::varchar", {"a": "'; drop table memories"}).fetchall() == [("'; drop table memories",)]


def test_a_time_is_utc_whatever_the_machine_says() -> None:
    script = """
import memkit as mk
corpus = mk.from_table({"text": ["a"], "created_at": ["2026-01-01T01:00:00+03:00"]})
query = "select current_setting('TimeZone'), created_at::date::varchar from memories"
print(corpus.sql(query).fetchall() + corpus.connect().execute(query).fetchall())
"""
    environment = {**os.environ, "TZ": "Asia/Vladivostok"}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == str([("UTC", "2025-12-31")] * 2)


def matching_paths(corpus: mk.Corpus, query: str) -> set[str]:
    rows = corpus.sql("select path from fts(?, k := 100) join memories using (memory_id)", [query]).fetchall()
    return {path for (path,) in rows}


@pytest.mark.quick
def test_full_text_is_never_stale_after_a_refresh(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"a.md": "# пул\n", "b.md": "# чай\n"})
    corpus = mk.read(folder)
    assert matching_paths(corpus, "пулы") == {"a.md"}
    write_files(folder, {"a.md": "# кофе\n"})
    corpus = corpus.refresh()
    assert (matching_paths(corpus, "пул"), matching_paths(corpus, "кофе")) == (set(), {"a.md"})
    (folder / "b.md").rename(folder / "c.md")
    corpus = corpus.refresh()
    assert matching_paths(corpus, "чай") == {"c.md"}
    (folder / "c.md").unlink()
    corpus = corpus.refresh()
    assert matching_paths(corpus, "чай") == set()
    write_files(folder, {"d.md": "# чай\n"})
    assert matching_paths(corpus.refresh(), "чай") == {"d.md"}


def test_a_closed_cursor_leaves_the_corpus_whole(sample: mk.Corpus) -> None:
    relation = sample.sql("select count(*) from memories")
    con = sample.connect()
    con.close()
    with pytest.raises(duckdb.Error):
        con.execute("select 1")
    assert relation.fetchall() == [(sample.memories.num_rows,)]
    assert sample.connect().execute("select count(*) from memories").fetchone() == (sample.memories.num_rows,)


def test_threads_share_one_index(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    monkeypatch.setattr("memkit.tables.database.index_text", lambda table: (built.append(1), index_text(table))[1])
    corpus = mk.from_table({"text": [f"слово{n} чай" for n in range(200)]})
    answers: list[int] = []

    def ask() -> None:
        for _ in range(5):
            answers.append(len(corpus.sql("from fts('чай', k := 500)").fetchall()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 40
    assert built == [1]


def test_the_index_is_built_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(table: object) -> None:
        raise AssertionError("built")

    monkeypatch.setattr("memkit.tables.database.index_text", refuse)
    corpus = mk.from_table({"text": ["чай"]})
    assert corpus.sql("select count(*) from memories").fetchall() == [(1,)]
    for query in ("from fts('чай')", "select MATCH_BM25(memory_id, 'чай') from memories"):
        with pytest.raises(AssertionError, match="built"):
            corpus.sql(query)


def test_an_added_table_is_in_sql_before_and_after_the_first_query() -> None:
    corpus = mk.from_table({"text": ["чай"]})
    corpus.add_table("one", pa.table({"a": [1]}))
    assert corpus.sql("from one").fetchall() == [(1,)]
    corpus.add_table("two", pa.table({"a": [2]}))
    corpus.add_table("one", pa.table({"a": [3]}))
    assert corpus.sql("from one, two").fetchall() == [(3, 2)]
    assert corpus.tables["one"].to_pylist() == [{"a": 3}]


@pytest.mark.parametrize("name", ['x" as select 1; --', "../up", "a b", "", "Ы", "memories", "problems", "a" * 100])
def test_a_table_name_that_is_no_name_is_refused(name: str) -> None:
    corpus = mk.from_table({"text": ["чай"]})
    with pytest.raises(ParameterError, match="add_table: 'name'"):
        corpus.add_table(name, pa.table({"a": [1]}))
    assert corpus.tables.keys() == TABLES.keys()


def test_what_is_shown_of_a_corpus_is_short_and_the_same_each_time(sample: mk.Corpus) -> None:
    assert repr(sample) == repr(mk.read(sample_data()))
    assert sample._repr_html_() == mk.read(sample_data())._repr_html_()
    assert len(repr(sample)) < 400
    assert sample._repr_html_().count("<tr>") == 1 + len(
        set(zip(sample.memories["format"].to_pylist(), sample.memories["kind"].to_pylist(), strict=True))
    )


def test_a_corpus_without_a_folder_says_how_to_refresh() -> None:
    with pytest.raises(MemkitError, match=r"mk\.open"):
        mk.from_table({"text": ["чай"]}).refresh()


# --- read ---


def test_a_single_file_is_read_alone(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"memory/2026-02-03.md": "# A\n", "MEMORY.md": "# B\n"})
    assert mk.read(folder / "memory" / "2026-02-03.md").memories["path"].to_pylist() == ["2026-02-03.md"]
    assert mk.read(str(folder / "MEMORY.md")).memories["kind"].to_pylist() == ["long_term"]


def test_a_single_file_that_no_format_reads_is_a_row(tmp_path: Path) -> None:
    (row,) = mk.read(write_files(tmp_path, {"a.txt": "чай"}) / "a.txt").problems.to_pylist()
    assert (row["path"], row["rule"]) == ("a.txt", "unclaimed")


def test_nothing_at_the_path_is_said_so(tmp_path: Path) -> None:
    for path in (tmp_path / "none", "none/such"):
        with pytest.raises(FormatError, match="Got nothing there"):
            mk.read(path)


FORCED = {
    "index_tree": {".": "unclaimed"},  # both files, as one row of their folder
    "workspace": {"x.json": "unclaimed"},
    "notes": {"x.json": "unclaimed", "MEMORY.md": "missing_field"},
    "records": {"MEMORY.md": "unclaimed", "x.json": "unclaimed"},
    "facts": {"MEMORY.md": "not_a_fact", "x.json": "unclaimed"},
}


@pytest.mark.parametrize("format", FORCED)
def test_a_format_can_be_forced_and_what_it_cannot_read_is_told(tmp_path: Path, format: str) -> None:
    corpus = mk.read(write_files(tmp_path, {"MEMORY.md": "# Чай\n", "x.json": '{"a": 1}'}), format=format)
    assert set(corpus.memories["format"].to_pylist()) <= {format}
    rules = {(row["path"], row["rule"]) for row in corpus.problems.to_pylist()}
    assert rules >= set(FORCED[format].items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "word"}, "read: 'format' must be one of 'index_tree', 'notes'"),
        ({"errors": "ignore"}, "read: 'errors' must be one of 'report', 'raise'"),
        ({"as_of": "вчера"}, "'as_of' must be a date"),
        ({"as_of": 5}, "'as_of' must be a date"),
        ({"max_file_bytes": 0}, "read: 'max_file_bytes' must be an int in"),
        ({"max_file_bytes": "1"}, "read: 'max_file_bytes'"),
        ({"n_jobs": 1.5}, "read: 'n_jobs'"),
        ({"n_jobs": 0}, "read: 'n_jobs'"),
        ({"rules": (1,)}, "read: 'rules' must be a tuple of"),
        ({"rules": (Rule("new_code", "notes", "subject", "a subject"),)}, "read: a rule: 'code'"),
    ],
)
def test_a_bad_argument_is_refused_in_one_shape(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        mk.read(tmp_path, **arguments)  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value).startswith(message)
    assert "Got " in str(caught.value)


def test_the_first_error_is_raised_with_its_place() -> None:
    with pytest.raises(FormatError) as caught:
        mk.read(sample_data() / "broken" / "bad_date_exp", errors="raise")
    assert not isinstance(caught.value, VersionError)
    assert (caught.value.path, caught.value.line, caught.value.field) == ("users/anna/working.md", 2, "exp")
    with pytest.raises(VersionError) as version:
        mk.read(sample_data() / "broken" / "unsupported_version_json", errors="raise")
    assert version.value.field == "format_version"
    assert mk.read(sample_data() / "broken" / "not_uuid4", errors="raise").problems.num_rows == 1


def test_dates_in_the_future_are_told_only_against_a_day(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"memory/2026-02-03.md": "A\n"})
    assert mk.read(folder).problems.num_rows == 0
    assert mk.read(folder, as_of="2026-02-03").problems.num_rows == 0
    for day in ("2026-02-02", date(2026, 2, 2), datetime(2026, 2, 2, 23, 59, tzinfo=UTC), "2026-02-03T01:00:00+03:00"):
        assert mk.read(folder, as_of=day).problems["rule"].to_pylist() == ["future_date"]
    timed = write_files(tmp_path / "timed", {"memory/2026-02-03.md": "# 10:15 чай\n\nA\n"})
    assert mk.read(timed, as_of="2026-02-03").problems.num_rows == 0  # a bare day is seen to its end
    assert mk.read(timed, as_of="2026-02-03T10:00Z").problems["rule"].to_pylist() == ["future_date"]


def test_a_rule_of_ones_own_is_checked(tmp_path: Path) -> None:
    short = Rule("bad_value", "facts", "text", "at most 5 characters", lambda value: len(str(value)) <= 5)
    line = "- [id:a] [t:profile] [imp:high] длинный текст\n"
    corpus = mk.read(write_files(tmp_path, {"users/u/profile.md": line}), rules=(*RULES, short))
    (row,) = corpus.problems.to_pylist()
    assert (row["rule"], row["field"]) == ("bad_value", "text")
    assert "at most 5 characters" in row["message"]
    assert corpus.refresh().problems.equals(corpus.problems)


def test_the_rules_are_a_table_errors_first() -> None:
    table = mk.rules()
    assert table.column_names == ["code", "severity", "format", "field", "checks", "fix"]
    assert table.num_rows == len(RULES)
    ranks = [["error", "warning", "info"].index(word) for word in table["severity"].to_pylist()]
    assert ranks == sorted(ranks)
    assert None not in table["checks"].to_pylist()


COPIES: dict[str, Callable[[mk.Corpus], mk.Corpus]] = {
    "pickle": lambda corpus: pickle.loads(pickle.dumps(corpus)),  # noqa: S301  # bytes of this test's own
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


RULES_OF_ITS_OWN = (*RULES, Rule("bad_value", "notes", "mood", "any", lambda value: True))


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("is_searched", [False, True])
def test_a_copy_has_the_tables_and_answers_as_the_corpus_does(tmp_path: Path, way: str, is_searched: bool) -> None:
    corpus = mk.read(write_files(tmp_path, {"a.md": "# пул соединений\n"}), rules=RULES_OF_ITS_OWN)
    corpus.add_table("labels", pa.table({"label": ["x"]}))
    query = "select memory_id, score, label from fts('пулы') join memories using (memory_id) cross join labels"
    expected = corpus.sql(query).fetchall() if is_searched else None
    other = COPIES[way](corpus)
    assert other is not corpus
    assert other.tables == corpus.tables
    assert other.sql(query).fetchall() == (expected or corpus.sql(query).fetchall()) != []
    write_files(tmp_path, {"b.md": "# новое\n"})
    assert other.refresh().memories["title"].to_pylist() == ["пул соединений", "новое"]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, mk.Corpus.refresh], ids=["copy", "deepcopy", "refresh"])
@pytest.mark.parametrize("is_connected", [False, True])
def test_a_copy_goes_its_own_way(tmp_path: Path, way: Callable[[mk.Corpus], mk.Corpus], is_connected: bool) -> None:
    corpus = mk.read(write_files(tmp_path, {"a.md": "# чай\n"}))
    if is_connected:
        corpus.connect().close()
    other = way(corpus)
    other.add_table("labels", pa.table({"label": ["x"]}))
    assert "labels" not in corpus.tables
    with pytest.raises(duckdb.CatalogException):
        corpus.sql("from labels")


HALF = "чай \ud800"
HALVES: dict[str, tuple[Any, Any]] = {
    "no text": (5, None),
    "query": (f"select '{HALF}'", None),
    "value": ("from fts(?)", [HALF]),
    "list": ("select ?", [[HALF]]),
    "dictionary": ("select $a", {"a": {"b": [HALF]}}),
    "key": ("select $a", {"a": {HALF: 1}}),
    "name": ("select $a", {HALF: 1}),
}


@pytest.mark.parametrize("where", HALVES)
def test_half_a_character_is_refused_wherever_it_is(where: str) -> None:
    corpus = mk.from_table({"text": ["чай"]})
    for ask in (corpus.sql, corpus.ask):
        with pytest.raises(QueryError, match=r"expected (Unicode characters|SQL as text)"):
            ask(*HALVES[where])


def test_half_a_character_in_a_parameter_of_a_policy_is_refused() -> None:
    with pytest.raises(QueryError, match="expected Unicode characters"):
        mk.Decay(decay_kinds=(HALF,)).transform(pa.table({"kind": ["note"]}), as_of="2026-03-01")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_a_path_that_no_system_takes_is_refused(path: str) -> None:
    for act in (mk.open, mk.read, mk.from_table({"text": ["чай"]}).save):
        with pytest.raises(ParameterError, match="expected a path"):
            act(path)


def test_what_is_added_is_a_table() -> None:
    corpus = mk.from_table({"text": ["чай"]})
    for name, table in (("x", 5), ("x", None), (None, pa.table({"a": [1]})), ("x", pa.table([[1], [2]], ["a", "a"]))):
        with pytest.raises(ParameterError, match="add_table: "):
            corpus.add_table(name, table)  # type: ignore[arg-type]  # on purpose
    corpus.add_table("x", pd.DataFrame({"a": [1]}))
    assert corpus.sql("from x").fetchall() == corpus.connect().execute("from x").fetchall() == [(1,)]


def test_a_copy_of_another_process_works_through_its_tables(tmp_path: Path) -> None:
    (tmp_path / "corpus.pickle").write_bytes(pickle.dumps(mk.from_table({"text": ["Пул соединений"]})))
    script = """
import pickle, sys
corpus = pickle.load(open(sys.argv[1], "rb"))
print(corpus.sql("select memory_id from fts('пулы')").fetchall(), corpus)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "corpus.pickle")]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[('0',)] Corpus(1 memory: 1 other; 0 problems in reading)"


def test_a_table_added_to_an_opened_corpus_before_its_first_query_is_there(tmp_path: Path) -> None:
    mk.from_table({"text": ["Пул соединений"]}).save(tmp_path)
    opened = mk.open(tmp_path)
    opened.add_table("labels", pa.table({"memory_id": ["0"], "label": ["db"]}))
    query = "select label from fts('пулы') join labels using (memory_id)"
    assert opened.sql(query).fetchall() == [("db",)]
    assert opened.connect().execute(query).fetchall() == [("db",)]
    opened.save(tmp_path)
    assert mk.open(tmp_path).tables["labels"].to_pylist() == [{"memory_id": "0", "label": "db"}]
