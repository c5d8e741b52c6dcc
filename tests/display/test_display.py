"""Results as they are shown: nothing in them acts, columns are aligned whatever the script, secrets are words."""

from __future__ import annotations

import builtins
import html.parser
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from wcwidth import wcswidth, wcwidth

import memkit as mk
from memkit.base.params import describe
from memkit.display.draw import Shown, as_html, as_text, bar, fold, line, register
from memkit.display.draw import shown as shown_as
from memkit.display.sheet import sheet_of, visible
from memkit.display.views import VIEWS
from memkit.errors import ParameterError
from memkit.schemas import TABLES

DAY = "2026-03-01"
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&"
KEY = "sk-" + "a1B2" * 8
TEXTS = [
    f"Пул соединений вырос {ATTACK}",
    "東京のデータベース 接続プール пул",
    "pool 👨‍👩‍👧 emoji ❤️ 🇷🇺 é combining пул",
    f"ключ {KEY} от пула",
    "نص عربي пул \u202e reversed \x1b[31mred\x07",
    "Пул соединений вырос вчера",
    "Пул соединений вырос вчера.",
]


def corpus() -> mk.Corpus:
    count = len(TEXTS)
    return mk.from_table(
        {
            "memory_id": [f"{ATTACK}{number}" for number in range(count)],
            "text": TEXTS,
            "title": [ATTACK, "東京", "❤️", "ключ", "", "a", "b"],
            "user_id": [ATTACK, *["анна"] * (count - 1)],
            "kind": ["profile", "working", "archive", "note", ATTACK, "archive", "archive"],
            "importance": ["high", *["normal"] * (count - 1)],
            "tags": [[ATTACK, KEY]] * count,
            "path": [f"{ATTACK}/東京/файл с длинным именем.md"] * count,
            "line_start": list(range(1, count + 1)),
            "created_at": ["2026-01-01"] * count,
        }
    )


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    read = corpus()
    search = mk.Retriever(encoder=None).fit(read)
    dedup = mk.Deduplicator(encoder=None, across_users=True).fit(read)
    return {
        "corpus": read,
        "memories": read.memories,
        "problems": read.problems,
        "hits": search.search(f"пул {ATTACK}", as_of=DAY),
        "batch": search.search(["пул", "ключ"], as_of=DAY),
        "no hits": search.search("нет такого", as_of=DAY),
        "trace": search.trace("пул", k=2, as_of=DAY),
        "pairs": dedup.pairs_,
        "dedup": dedup.transform(read, as_of=DAY),
        "dedup report": dedup.report(),
        "admission": mk.Admission().transform(read, as_of=DAY),
        "decay": mk.Decay().transform(read, as_of=DAY),
        "pipeline": mk.Pipeline([mk.Admission(), mk.Expiry()]).transform(read, as_of=DAY),
        "replay": mk.replay(read, mk.Admission(), mk.Admission(min_chars=1), as_of=[DAY]),
        "forecast": mk.forecast(read, as_of=DAY),
        "context": mk.ContextBuilder(search).build(read, "анна", "пул", as_of=DAY),
        "params": mk.Retriever.describe_params(),
        "queries": mk.named_queries(),
        "rules": mk.rules(),
        "named": read.named("growth_by_day"),
        "relation": read.sql("select *, 1.5 as half from memories"),
        "any table": pa.table({ATTACK: [ATTACK], "n": [1]}),
    }


NAMES = [
    *("corpus", "memories", "problems", "hits", "batch", "no hits", "trace", "pairs", "dedup", "dedup report"),
    *("admission", "decay", "pipeline", "replay", "forecast", "context", "params", "queries", "rules", "named"),
    *("relation", "any table"),
]


def shown(result: Any, **options: Any) -> Shown:
    return shown_as(result, **options)


class Tags(html.parser.HTMLParser):
    """The tags and attributes of a page, those that nobody closed, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.words, self.open = set[str](), set[str](), "", list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


OURS = {"div", "style", "p", "b", "small", "table", "thead", "tbody", "tr", "th", "td", "mark", "i", "br", "span"}


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_no_word_of_the_user_becomes_a_tag(results: dict[str, Any], name: str) -> None:
    page = Tags(shown(results[name])._repr_html_())
    assert page.tags <= OURS
    assert page.attributes <= {"align", "class", "style", "scope"}
    assert page.open == []


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [80, 40])
def test_the_text_form_is_within_the_width_and_aligned(results: dict[str, Any], name: str, width: int) -> None:
    for sheet in shown(results[name]).sheets:
        lines = as_text(sheet, width).splitlines()
        assert all(wcswidth(line) <= width for line in lines)
        rule = next((number for number, line in enumerate(lines) if line and set(line) <= {"─", " "}), None)
        if rule is not None:
            rows = [line for line in lines[rule + 1 :] if not (sheet.leads and line.startswith("    "))]
            assert all(_keeps_gaps(line, lines[rule]) for line in [lines[rule - 1], *rows[: len(sheet.rows)]])


def _keeps_gaps(line: str, rule: str) -> bool:
    """Whether the line is blank wherever the rule is, counted in cells of a terminal."""
    cells = [char for char in line for _ in range(max(0, wcwidth(char)))]
    return all(cell == " " for cell, mark in zip(cells, rule, strict=False) if mark == " ")


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_an_output_has_at_most_forty_lines(results: dict[str, Any], name: str) -> None:
    assert len(shown(results[name]).text(80).splitlines()) <= 40


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_is_a_word_unless_asked_for(results: dict[str, Any], name: str) -> None:
    display = shown(results[name])
    assert KEY not in display._repr_html_() + display.text(80)
    assert KEY[:12] not in display._repr_html_() + display.text(80)


@pytest.mark.parametrize("before", [30, 50, 100, 140, 155, 170, 230, 390])
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(before: int) -> None:
    text = f"пул {'x' * (before - 5)} {KEY} {'чай ' * 50}"
    read = mk.from_table({"text": [text, f"{text}!"], "title": ["", text], "kind": ["archive", None]})
    search = mk.Retriever(encoder=None).fit(read)
    pairs = mk.Deduplicator(encoder=None).fit(read).pairs_
    for result in (read.memories, search.search("пул", as_of=DAY), search.trace("пул", as_of=DAY), pairs):
        display = shown(result)
        assert KEY[:6] not in display._repr_html_() + display.text(80)


def test_a_secret_is_shown_to_who_asks_and_never_taken_from_the_table(results: dict[str, Any]) -> None:
    assert KEY in shown(results["hits"], show_secrets=True)._repr_html_()
    assert any(KEY in text for text in results["hits"]["text"].to_pylist())


def test_hits_show_what_was_asked_for_where_it_is_and_what_it_scored(results: dict[str, Any]) -> None:
    page = shown(results["hits"])._repr_html_()
    assert "<mark>Пул</mark>" in page
    words = Tags(page).words
    assert "файл с длинным именем.md:1" in words
    assert all(head in words for head in ("score", "words", "profile", "2026-01-01"))
    assert f"{results['hits'].num_rows} hits" in words


def test_a_hit_that_an_arm_did_not_find_shows_the_score_that_it_counts_with() -> None:
    read = mk.from_table(
        {
            "memory_id": ["a", "b", "c"],
            "text": ["зелёный чай заварили", "the pool of connections is ten", "connections: a pool, ten"],
        }
    )
    search = mk.Retriever(encoder="hash", pool=1, fold="none").fit(read)
    hits = search.search("pool", as_of=DAY)
    assert hits.select(["memory_id", "vector"]).to_pylist()[0] == {"memory_id": "c", "vector": None}
    last_score = hits["vector"][1].as_py()
    (sheet,) = shown(hits).sheets
    column_number = [column.name for column in sheet.columns].index("vector")
    assert [row[column_number].text for row in sheet.rows] == [f"as {last_score:.4g}", f"{last_score:.4g}"]
    assert [row[column_number].bar for row in sheet.rows] == [1.0, 1.0]
    assert any("the arm did not retrieve the hit" in note for note in sheet.notes)
    by_ranks = search.with_params(fusion="rrf")
    assert "as " not in {
        row[column_number].text[:3] for row in shown(by_ranks.search("pool", as_of=DAY)).sheets[0].rows
    }
    assert "counts as" in mk.explain(search, "pool", "c", as_of=DAY)
    assert "counts as" not in mk.explain(by_ranks, "pool", "c", as_of=DAY)
    shown_alone = hits.replace_schema_metadata({"memkit": "hits"})
    assert "not among the best" not in shown(shown_alone).text()


def test_a_command_to_copy_stays_on_one_line_and_a_text_that_begins_like_one_does_not() -> None:
    long = "memkit " + "--option value " * 20
    calls = describe(pa.table({"why": ["to see"], "call": [long]}), memkit="calls")
    assert f"    {long.strip()}" in shown(calls).text(60).splitlines()
    memories = mk.from_table({"text": [long]}).memories
    assert all(wcswidth(line) <= 60 for line in shown(memories).text(60).splitlines())


def test_results_stay_plain_tables_that_say_which_they_are(results: dict[str, Any]) -> None:
    labels = {
        name: (results[name].schema.metadata or {}).get(b"memkit") for name in ("hits", "trace", "pairs", "decay")
    }
    assert labels == {"hits": b"hits", "trace": b"trace", "pairs": b"pairs", "decay": b"policy"}
    assert type(results["hits"]) is pa.Table
    assert results["hits"].filter(pa.array([True] * results["hits"].num_rows)).schema.metadata[b"memkit"] == b"hits"


def test_a_table_of_another_program_that_claims_to_be_hits_is_shown_all_the_same() -> None:
    for metadata in (
        "",
        "[",
        "[1]",
        '{"memories": {"a": 1}}',
        '{"queries": 5}',
        '{"counted": {"0": 1}}',
        "[" * 100_000,
    ):
        table = pa.table({"text": [ATTACK], "memory_id": ["a"]}).replace_schema_metadata(
            {"memkit": "hits", "shown": metadata}
        )
        assert "&lt;script&gt;" in shown(table)._repr_html_()
    table = pa.table({"score": ["high"], "rank": ["first"]}).replace_schema_metadata({"memkit": "hits"})
    assert {"high", "first"} <= set(shown(table).text().split())


def test_views_name_columns_that_the_tables_have(results: dict[str, Any]) -> None:
    named = {"title", "place", "kind", "date"}
    for name in ("problems", "memories"):
        view = VIEWS[name]
        assert {column.name for column in view.columns} | {view.lead} <= set(TABLES[name].names) | named
    for name in ("trace", "replay", "forecast", "pairs", "context", "params", "queries", "rules"):
        table = results["context"].table if name == "context" else results[name]
        optional = {"gram", "prior"} if name == "trace" else set()
        assert {column.name for column in VIEWS[name].columns} - optional <= set(table.column_names)


def test_a_column_that_the_user_adds_is_shown(results: dict[str, Any]) -> None:
    hits = results["hits"].append_column(
        "my_label", pa.array([f"метка {number}" for number in range(results["hits"].num_rows)])
    )
    assert "my_label" in shown(hits).text(80)


def test_the_worst_problems_and_the_refused_come_first() -> None:
    schema = TABLES["problems"]
    rows = [{"severity": word, "rule": word, "message": word} for word in ("info", "error", "warning", "error")]
    sheet = sheet_of(pa.Table.from_pylist(rows, schema=schema))
    assert [row[0].text for row in sheet.rows] == ["error", "error", "warning", "info"]
    judged = mk.Admission().transform(pa.table({"text": ["a fact that is long enough", "ok"]}), as_of=DAY)
    assert [row[0].text for row in sheet_of(judged).rows] == ["no", "yes"]


def test_show_takes_what_is_a_table_and_refuses_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    for table in (pd.DataFrame({"имя": ["чай"]}), pa.table({"имя": ["чай"]}), duckdb.sql("select 'чай' as имя")):
        mk.show(table)
        assert capsys.readouterr().out.splitlines()[-3:] == ["имя", "───", "чай"]
    with pytest.raises(ParameterError, match="show: expected a table"):
        mk.show(5)
    with pytest.raises(ParameterError, match="Did you mean 'имя'"):
        mk.show(pa.table({"имя": ["чай"]}), columns=["имяя"])
    with pytest.raises(ParameterError, match="'rows' must be an int"):
        mk.show(pa.table({"a": [1]}), rows=0)


def test_at_most_twenty_rows_and_how_to_see_more() -> None:
    display = shown(pa.table({"n": range(1000)}))
    assert display._repr_html_().count("<tr>") == 21
    assert "20 of 1,000 rows; mk.show(result, rows=100)" in display.text(100)
    assert shown(pa.table({"n": range(1000)}), rows=50)._repr_html_().count("<tr>") == 51
    relation = mk.from_table({"text": ["x"] * 30}).sql("from memories")
    assert "the first 20 rows" in shown(relation).text(100)


def test_ipython_shows_results_and_leaves_other_tables_to_arrow(results: dict[str, Any]) -> None:
    shell = InteractiveShell()
    register(shell)
    register(shell)  # as %reload_ext does
    formats, _ = shell.display_formatter.format(results["hits"])
    assert "<mark>" in formats["text/html"]
    assert formats["text/plain"].startswith(f"{results['hits'].num_rows} hits")
    formats, _ = shell.display_formatter.format(pa.table({"a": [1]}))
    assert formats == {"text/plain": repr(pa.table({"a": [1]}))}
    formats, _ = shell.display_formatter.format(results["relation"])
    assert "<table>" in formats["text/html"]


IMPORT = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import memkit as mk
hits = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай"]})).search("чай", as_of="2026-03-01")
print(shell.display_formatter.format(hits)[0]["text/html"][:16])
"""


def test_importing_memkit_within_ipython_is_enough() -> None:
    process = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    assert process.stdout == '<div class="mk">\n'


def test_python_s_own_prompt_shows_what_a_notebook_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    echoed = list[object]()
    monkeypatch.setattr(sys, "displayhook", echoed.append)
    monkeypatch.setattr(builtins, "_", None, raising=False)
    monkeypatch.delattr(sys, "ps1", raising=False)
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    mk._show_where_asked()  # a program's results stay as they are
    assert sys.displayhook == echoed.append
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    mk._show_where_asked()
    memories = corpus()
    hits = mk.Retriever(encoder=None).fit(memories).search("ключ", as_of=DAY)
    for value, word in ((hits, "hit"), (memories.sql("from memories"), "memory_id")):
        sys.displayhook(value)
        words = capsys.readouterr().out
        assert word in words, word
        assert KEY not in words, word
        assert builtins._ is value  # type: ignore[attr-defined]
    others = [1, "чай", pa.table({"a": [1]}), memories, mk.plot.growth(memories)]  # which show themselves
    for value in others:
        sys.displayhook(value)
    assert echoed == others
    assert capsys.readouterr().out == ""


def test_hits_of_full_text_show_the_title_once() -> None:
    hits = mk.from_table({"text": ["пул вырос"], "title": ["Заголовок"]}).sql(
        "from fts('пул') join memories using (memory_id)"
    )
    table = hits.to_arrow_table().replace_schema_metadata({"memkit": "hits"})
    assert shown(table).text(100).count("Заголовок") == 1


def test_nothing_in_a_text_drives_the_terminal_or_turns_it_round() -> None:
    assert visible("\x1b[31m \u202e \x07") == "\\x1b[31m \\u202e \\x07"
    assert visible("чай\n👨\u200d👩") == "чай\n👨\u200d👩"


@given(st.text(), st.integers(1, 60), st.integers(1, 4))
def test_folding_keeps_to_the_width_and_loses_nothing_but_what_is_cut(text: str, width: int, max_lines: int) -> None:
    line = re.sub(r"\s+", " ", visible(text)).strip()
    lines = fold(line, max(2, width), max_lines)
    assert len(lines) <= max_lines
    assert all(wcswidth(part) <= max(2, width) for part in lines if wcswidth(part) >= 0)


@given(st.floats(0, 1), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_share(share: float, cells: int) -> None:
    drawn = bar(share, cells)
    assert len(drawn) == cells
    assert abs(drawn.count("█") - share * cells) <= 1


@given(st.lists(st.fixed_dictionaries({"a": st.text(), "b": st.none() | st.floats(), "c": st.booleans()}), max_size=5))
def test_any_table_can_be_drawn(rows: list[dict[str, Any]]) -> None:
    kinds = pa.schema([("a", pa.string()), ("b", pa.float64()), ("c", pa.bool_())])
    table = pa.Table.from_pylist([{**row, "a": row["a"].encode("utf-8", "replace").decode()} for row in rows], kinds)
    sheet = sheet_of(table)
    assert Tags(as_html(sheet)).tags <= OURS
    assert all(wcswidth(line) <= 80 for line in as_text(sheet).splitlines())


def test_an_interval_is_drawn_on_one_scale_with_nought_where_it_is_crossed() -> None:
    rows = {"metric": ["ndcg@10", "mrr"], "difference": [0.1, -0.2], "low": [-0.1, -0.4], "high": [0.3, 0.0]}
    sheet = sheet_of(describe(pa.table(rows), memkit="compare"))
    (position,) = (number for number, column in enumerate(sheet.columns) if column.look == "interval")
    # From -0.4 to 0.4: so 0 is in the middle, and 0.1 is an eighth of the whole beyond it.
    assert [row[position].span for row in sheet.rows] == [
        pytest.approx((0.375, 0.625, 0.875, 0.5)),
        pytest.approx((0.0, 0.25, 0.5, 0.5)),
    ]
    assert [row[position].text for row in sheet.rows] == ["-0.100 to +0.300", "-0.400 to +0.000"]
    plain = pa.table({"metric": ["mrr", "p@1"], "value": [0.5, 0.2], "low": [0.25, None], "high": [0.75, None]})
    sheet = sheet_of(describe(plain, memkit="evaluate"))
    (position,) = (number for number, column in enumerate(sheet.columns) if column.look == "interval")
    assert [row[position].span for row in sheet.rows] == [(0.25, 0.5, 0.75, 0.0), None]
    assert f"0.250 to 0.750 {line((0.25, 0.5, 0.75, 0.0))}" in as_text(sheet)
    assert "left:25%;width:50%" in as_html(sheet)


def test_a_comparison_says_its_verdict_first_and_the_queries_that_moved_most_by_name() -> None:
    texts = {
        f"m{number}": f"{word} слово"
        for number, word in enumerate(["чай", "кофе", "квас", "сок", "морс", "вода", "эль"])
    }
    corpus = mk.from_table({"memory_id": list(texts), "text": list(texts.values())})
    a = mk.Retriever(encoder=None).fit(corpus)
    questions = [
        f"<script>{number}</script> {text if number < 3 else text.split()[0]}"
        for number, text in enumerate(texts.values())
    ]
    best = a.search(questions, k=1, as_of="2026-03-01")["score"].to_pylist()
    queries = {"query_id": list("1234567"), "text": questions}
    qrels = {"query_id": list("1234567"), "memory_id": list(texts), "relevance": [1] * 7}
    comparison = mk.compare(a, a.with_params(min_score=sorted(best)[3]), queries, qrels, "mrr", as_of="2026-03-01")
    text, page = Shown(*comparison._sheets()).text(80), comparison._repr_html_()
    assert text.startswith(str(comparison).partition(". ")[0][:60])
    below = text.partition("Where they differ, largest first")[2]
    assert "<script>" in below  # words, in a terminal
    assert "<script" not in page.replace("&lt;script", "")
    n_lost = comparison.per_query.filter(pc.not_equal(comparison.per_query["difference"], 0)).num_rows
    assert below.count("-1.000") == n_lost > 0
    assert all(wcswidth(printed_line) <= 80 for printed_line in text.splitlines())


def test_a_p_too_small_for_its_digits_is_not_shown_as_0() -> None:
    qrels = {"query_id": [str(number) for number in range(40)], "memory_id": ["a"] * 40, "relevance": [1] * 40}
    queries = {"query_id": qrels["query_id"], "text": ["чай"] * 40}
    runs = [
        pa.table({"query_id": qrels["query_id"], "memory_id": [name] * 40, "rank": [1] * 40}) for name in ("b", "a")
    ]
    comparison = mk.compare(*runs, queries, qrels, "mrr")
    p = comparison.details["p"][0].as_py()
    assert 0 < p < 0.0005
    assert f"{p:.1g}" in mk.display.draw.shown(comparison).text(100)


def test_a_narrow_window_keeps_the_file_and_lets_go_of_its_kind_and_day(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "2026-02-12.md").write_text("# День\nЗелёный чай.\n", encoding="utf-8")
    hits = mk.Retriever(encoder=None).fit(mk.read(tmp_path)).search("чай", as_of="2026-03-01")
    assert "memory/2026-02-12.md:1" in mk.display.draw.shown(hits).text(70)
    assert "memory/2026-02-12.md:1 · daily_log · 2026-02-12" in mk.display.draw.shown(hits).text(120)


def test_a_page_names_as_many_memories_as_it_has_rows(tmp_path: Path) -> None:
    rows = {
        "memory_id": [f"m{number}" for number in range(90)],
        "title": [f"Имя {number}" for number in range(90)],
        "text": ["—"] * 90,
    }
    search = mk.Retriever(encoder=None).fit(mk.from_table(rows))
    page = mk.audit(
        search, {"query_id": [1], "text": ["Имя"]}, {"query_id": [1], "memory_id": ["m1"], "relevance": [1]}
    )
    text = page.report(tmp_path / "page.html").read_text("utf-8")
    named = [number for number in range(90) if f"Имя {number}<" in text or f"Имя {number} " in text]
    assert len(named) > 60 or not page.tables["unsearchable"].num_rows


def test_memories_joined_to_a_score_look_like_memories_and_columns_without_a_value_give_way() -> None:
    corpus = mk.from_table({"title": ["Пул"], "text": ["Вырос до десяти."]})
    joined = corpus.sql("from fts('пул', k := 5) join memories using (memory_id)")
    text = shown_as(joined).text(80)
    assert "Вырос до десяти." in text
    assert "score" in text
    wide = pa.table({f"empty{number}": [None] for number in range(9)} | {"last": [5]})
    assert "last" in shown_as(wide).text(80).splitlines()[1]
    narrow = pa.table({"empty": [None], "last": [5]})
    assert shown_as(narrow).text(80).splitlines()[1].split() == ["empty", "last"]
