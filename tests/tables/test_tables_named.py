"""The named queries: each runs anywhere, and each answer is arithmetic on a small table."""

from __future__ import annotations

import gc
import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.base.duck import as_arrow, connect
from memkit.display.draw import shown
from memkit.errors import ParameterError
from memkit.schemas import TIMESTAMP
from memkit.tables import database
from memkit.tables.database import named_query
from memkit.tables.samples import sample_data, write_files

# Those over a history are in tests/past/test_past_history.py: a folder alone has none.
NAMES = [row["name"] for row in mk.named_queries().to_pylist() if not row["needs_history"]]
AS_OF = "2026-03-01"


@pytest.mark.quick
def test_there_are_at_least_twelve_and_each_says_what_it_answers() -> None:
    rows = mk.named_queries().to_pylist()
    assert len(rows) >= 12
    for row in rows:
        assert row["question"].endswith("?")
        assert row["sql"].startswith(f"-- {row['question']}\n")
        assert row["needs_as_of"] == bool({"$as_of", "$until"} & set(re.findall(r"\$\w+", row["sql"])))
        assert "order by" in row["sql"].lower(), "an answer must not depend on chance"


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_a_query_has_an_answer_on_the_sample_corpus(name: str, sample: mk.Corpus) -> None:
    answer = sample.named(name, as_of=AS_OF).fetchall()
    assert answer or name in ("contradictory_relations", "dangling_relations", "duplicates_by_text") or "links_" in name


@pytest.mark.quick
def test_a_query_runs_on_an_empty_corpus(tmp_path: Path) -> None:
    for empty in (mk.read(tmp_path), mk.from_table({"text": []})):
        assert {name: rows for name in NAMES if (rows := empty.named(name, as_of=AS_OF).fetchall())} == {}


@pytest.fixture(scope="module")
def broken() -> mk.Corpus:
    return mk.read(sample_data() / "broken")


@pytest.mark.parametrize("name", NAMES)
def test_a_query_runs_on_all_broken_cases_at_once(name: str, broken: mk.Corpus) -> None:
    assert broken.memories.num_rows > 200
    rows = broken.named(name, as_of=AS_OF).to_arrow_table()
    assert rows.num_columns > 1
    single = broken.connect()
    single.execute("set threads = 1")
    query = mk.named_queries().filter(pc.field("name") == name)["sql"][0].as_py()
    assert named_query(name, AS_OF, {})[0] == query
    assert rows.equals(as_arrow(single, *named_query(name, AS_OF, {})))


def test_results_share_a_database_of_their_own_and_outlive_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(database, "connect", lambda: opened.append(connect()) or opened[-1])
    corpus = mk.from_table({"text": ["чай"]})
    results = [corpus.named(name, as_of=AS_OF) for name in ("near_empty", "expired_facts", "near_empty")]
    results[0].create("memories")
    expected = [[("0", None, 3, "чай")], [], [("0", None, 3, "чай")]]
    assert [result.fetchall() for result in results] == expected
    assert len(opened) == 1
    assert corpus.named("near_empty").fetchall() == expected[0]
    assert corpus.sql("select count(*) from memories").fetchall() == [(1,)]
    last = corpus.named("near_empty")
    del corpus
    opened.clear()
    gc.collect()
    assert last.fetchall() == expected[0]


def test_an_unknown_query_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="expired_facts"):
        mk.from_table({"text": ["a"]}).named("'; drop table memories")


def fact(id: str, type: str, importance: str, text: str, expires: str = "") -> str:
    return f"- [id:{id}] [t:{type}] [imp:{importance}]{expires and f' [exp:{expires}]'} {text}\n"


def wisdom(name: str, *relations: tuple[str, str, float]) -> dict[str, Any]:
    linked = [{"fact_id": to, "type": kind, "weight": weight} for to, kind, weight in relations]
    return {
        "format_version": "1.0.0",
        "fact_id": name,
        "content": name,
        "category": "c",
        "confidence": 1,
        "relations": linked,
    }


def pathway(name: str, hits: int, rate: float | None) -> dict[str, Any]:
    stats = {"hits": hits, "success_rate": rate, "last_used_at": "2026-02-01T00:00:00Z"}
    fields = {"format_version": "1.0.0", "id": name, "triggers": [name], "template": f"шаблон {name}", "variables": {}}
    return {**fields, "tier": "core", "usage_stats": stats}


ENTRIES = [
    {"title": "Пул", "file": "pool.md", "tags": ["db"], "access_count": 3},
    {"title": "Нет", "file": "gone.md", "tags": []},
    {"title": "Вне", "file": "../out.md", "tags": []},
]
FILES: dict[str, str | bytes] = {
    "users/anna/profile.md": fact("p1", "profile", "high", "Живёт в Риге, работает из дома"),
    "users/anna/working.md": fact("w1", "working", "normal", "Ставим бота", "2026-02-28")
    + fact("w2", "working", "normal", "чиним пул, сегодня последний день", "2026-03-01"),
    "users/oleg/archive.md": fact("a1", "archive", "low", "живёт  в Риге,\tработает из дома"),
    "tree/memory/index.json": json.dumps({"type": "index-root", "branches": [{"category": "l", "path": "l.json"}]}),
    "tree/memory/l.json": json.dumps({"type": "index-branch", "files": ENTRIES}),
    "tree/memory/pool.md": "Пул держит десять соединений.\n",
    "wisdom.json": json.dumps(
        [
            wisdom("f1", ("f2", "supports", 0.25), ("f2", "supports", 0.5), ("f9", "extends", 0.5)),
            wisdom("f2", ("f1", "contradicts", 0.75)),
            wisdom("f3", ("f1", "supports", 1.0)),
        ]
    ),
    "pathways.json": json.dumps(
        [pathway("a", 10, 0.5), pathway("b", 2, 0.9), pathway("c", 20, 0.9), pathway("d", 0, None)]
    ),
    "memory/2026-02-01.md": "# Один\nзапись о погоде и чае\n## Два\nзапись о пуле и кофе\n",
    "memory/2026-02-03.md": "# Три\nзапись о выпуске бота\n",
    "HEARTBEAT.md": "# Задачи\n- [ ] проверить пул\n- [x] выпуск\n",
    "sessions/2026-02-03-a.md": "**[10:00] user**: как дела?\n**[10:01] bot**: всё ок\nеще строка\n"
    "**[10:02] user**: да\n",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> mk.Corpus:
    return mk.read(write_files(tmp_path_factory.mktemp("small"), FILES))


def ask(corpus: mk.Corpus, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
    relation = corpus.named(name, as_of=AS_OF)
    rows = relation.to_arrow_table().to_pylist()
    names = list(rows[0]) if columns == "*" and rows else columns.split()
    return [tuple(row[name] for name in names) for row in rows]


def test_a_fact_expires_the_day_after_its_date(small: mk.Corpus) -> None:
    assert ask(small, "expired_facts", "memory_id expires") == [("facts:users/anna/working.md#w1", date(2026, 2, 28))]


def test_facts_are_counted_by_user_type_and_importance(small: mk.Corpus) -> None:
    assert ask(small, "facts_by_user") == [
        ("anna", "profile", "high", 1, 0),
        ("anna", "working", "normal", 2, 1),
        ("oleg", "archive", "low", 1, 0),
    ]


def test_texts_that_differ_in_case_and_blanks_alone_are_duplicates(small: mk.Corpus) -> None:
    ((text, copies, ids),) = ask(small, "duplicates_by_text")
    assert (text.casefold().split(), copies) == (["живёт", "в", "риге,", "работает", "из", "дома"], 2)
    assert ids == ["facts:users/anna/profile.md#p1", "facts:users/oleg/archive.md#a1"]


def test_entries_that_lead_nowhere(small: mk.Corpus) -> None:
    assert ask(small, "missing_and_invalid_entries", "title status") == [("Вне", "invalid"), ("Нет", "missing")]
    assert ask(small, "access_counts", "title access_count")[:1] == [("c", 20)]
    assert ("Пул", 3) in ask(small, "access_counts", "title access_count")


def test_relations_that_dangle_and_that_contradict(small: mk.Corpus) -> None:
    assert ask(small, "dangling_relations", "from_id type to_id weight") == [("f1", "extends", "f9", 0.5)]
    assert ask(small, "contradictory_relations") == [("f1", "f2", 0.25 + 0.5, 0.75)]


def test_pathways_by_success_then_use(small: mk.Corpus) -> None:
    assert ask(small, "pathways_by_success", "id hits success_rate") == [
        ("c", 20, 0.9),
        ("b", 2, 0.9),
        ("a", 10, 0.5),
        ("d", 0, None),
    ]


def test_growth_adds_up(small: mk.Corpus) -> None:
    assert ask(small, "growth_by_day") == [(date(2026, 2, 1), 2, 2), (date(2026, 2, 3), 1 + 1, 2 + 2)]


def test_largest_files_count_characters(small: mk.Corpus) -> None:
    rows = ask(small, "largest_files", "path memories chars")
    assert [chars for _, _, chars in rows] == sorted((chars for _, _, chars in rows), reverse=True)
    log = FILES["memory/2026-02-01.md"]
    assert ("memory/2026-02-01.md", 2, len(log) - 2) in rows  # less the LF between the sections and the last one


def test_next_to_nothing_and_no_tags(small: mk.Corpus) -> None:
    near = ask(small, "near_empty", "memory_id chars")
    assert ("facts:users/anna/working.md#w1", len("Ставим бота")) in near
    assert all(chars < 20 for _, chars in near)
    assert [title for (title,) in ask(small, "memories_without_tags", "title")] == ["Вне", "Нет"]


def test_open_tasks_and_who_speaks(small: mk.Corpus) -> None:
    assert ask(small, "open_tasks") == [("HEARTBEAT.md", 2, "проверить пул")]
    assert ask(small, "who_speaks") == [
        ("user", 2, 1, len("как дела?") + len("да")),
        ("bot", 1, 1, len("всё ок\nеще строка")),
    ]


def test_scope_coverage_counts_every_memory_once(small: mk.Corpus) -> None:
    rows = ask(small, "scope_coverage", "format scope_or_user memories")
    assert sum(count for _, _, count in rows) == small.memories.num_rows
    assert ("facts", "anna", 3) in rows
    assert ("records", "core", 4) in rows


def test_stale_memories_decay_by_days(small: mk.Corpus) -> None:
    rows = {row[0]: row[1:] for row in ask(small, "stale_memories", "memory_id age_days factor")}
    assert rows["workspace:memory/2026-02-01.md#один"] == (
        28,
        pytest.approx(2.718281828459045 ** (-28 / 60), rel=1e-12),
    )


_MOMENTS = st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
_ROWS = st.tuples(
    st.sampled_from([None, "profile", "working", "archive", "note", "line", "own"]),
    st.sampled_from([None, "high", "normal", "low"]),
    _MOMENTS,
    _MOMENTS,
)


@settings(max_examples=12)
@given(st.lists(_ROWS, min_size=1, max_size=12), st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1)))
def test_stale_memories_have_the_age_and_factor_of_the_policy_and_of_search(
    rows: list[tuple[Any, ...]], day: datetime
) -> None:
    kinds, importances, created, updated = zip(*rows, strict=True)
    columns = {"created_at": pa.array(created, TIMESTAMP), "updated_at": pa.array(updated, TIMESTAMP)}
    columns |= {"kind": pa.array(kinds, pa.string()), "importance": pa.array(importances, pa.string())}
    corpus = mk.from_table(pa.table({"text": ["чай"] * len(rows), **columns}))
    judged = mk.Decay().transform(corpus, day).to_pylist()
    dated = {row["memory_id"]: (row["age_days"], row["factor"]) for row in judged if row["note"] != "undated"}
    stale = corpus.named("stale_memories", day).to_arrow_table().to_pylist()
    assert {row["memory_id"]: (row["age_days"], row["factor"]) for row in stale} == dated
    search = mk.Retriever(encoder=None, decay_kinds="*", kinds_hidden=()).fit(corpus)
    for row in search.trace("чай", as_of=day).to_pylist():
        age, factor = dated.get(row["memory_id"], (None, 1.0))
        assert (row["age_days"], row["decay"]) == (age, pytest.approx(factor, rel=1e-12))


def test_no_named_query_stops_before_its_last_row() -> None:
    n = 312
    rows = {"text": ["чай"] * n, "path": [f"{number}.md" for number in range(n)], "access_count": range(n)}
    corpus = mk.from_table({**rows, "created_at": ["2026-01-01"] * n})
    for name in ("stale_memories", "access_counts", "largest_files"):
        assert corpus.named(name, as_of=AS_OF).to_arrow_table().num_rows == n, name
    assert "the first 20 rows; .to_arrow_table() has all" in shown(corpus.named("stale_memories", as_of=AS_OF)).text()


def test_problems_are_counted_errors_first(small: mk.Corpus) -> None:
    rows = ask(small, "problems_by_rule", "severity rule problems")
    assert sum(count for _, _, count in rows) == small.problems.num_rows
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=["error", "warning", "info"].index)
    assert ("warning", "contradictory_relation", 1) in rows
