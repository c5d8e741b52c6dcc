from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import memkit as mk
from memkit.index.cache import shared_cache

Run = Callable[..., tuple[int, str, str]]
HITS = [
    *("query_id", "rank", "memory_id", "chunk_id", "score", "bm25", "vector", "gram", "decay"),
    *("text", "path", "line_start", "line_end", "snippet", "snippet_start", "snippet_end", "alike", "n_alike"),
    "replaces",
]


@pytest.mark.quick
def test_check_of_a_healthy_folder_exits_0(run: Run, folder: Path) -> None:
    code, out, err = run("check", folder)
    assert (code, err) == (0, "")
    assert "3 memories read. 0 errors, 0 warnings, 0 info." in out


@pytest.mark.quick
def test_check_groups_problems_and_exits_1_on_an_error(run: Run, folder: Path) -> None:
    (folder / "users" / "anna" / "archive.md").write_text(
        "- [id:ar_1] [t:archive] [imp:low] [exp:2026-02-30] Обсуждали чай\n" * 7, encoding="utf-8"
    )
    code, out, _ = run("check", folder, "--most", 2)
    assert code == 1
    assert "error  bad_date  (7)" in out
    assert "error  duplicate_id  (6)" in out
    assert "… and 5 more" in out


@pytest.mark.quick
def test_check_json_is_one_array_with_the_columns_of_problems(run: Run, folder: Path) -> None:
    (folder / "broken.json").write_text("{", encoding="utf-8")
    code, out, err = run("check", folder, "--json")
    rows = json.loads(out)
    assert (code, err) == (1, "")
    assert [row["rule"] for row in rows] == ["unparsable"]
    assert list(rows[0]) == mk.read(folder).problems.column_names


def test_sql_answers_for_people_and_for_machines(run: Run, folder: Path) -> None:
    query = "select user_id, count(*) as n, max(expires_at) as last from memories group by all"
    code, out, _ = run("sql", folder, query)
    assert code == 0
    assert "anna" in out
    assert "1 row" in out
    code, out, _ = run("sql", folder, query, "--json")
    assert (code, json.loads(out)) == (0, [{"user_id": "anna", "n": 3, "last": "2026-01-31T23:59:59.999999+00:00"}])


def test_duckdbs_advice_is_kept(run: Run, folder: Path) -> None:
    for query, advice in (("select texxt from memories", "Candidate bindings"), ("from memory", "mean 'memories'")):
        code, _, err = run("sql", folder, query)
        assert (code, advice in err, err.count("\n")) == (2, True, 1)


def test_sql_knows_the_named_queries(run: Run, folder: Path) -> None:
    code, out, _ = run("sql", folder, "expired_facts", "--as-of", "2026-02-01", "--json")
    assert code == 0
    assert [row["text"] for row in json.loads(out)] == ["Чинит пул соединений"]
    code, out, _ = run("sql", folder, "expired_facts", "--as-of", "2026-01-31", "--json")
    assert (code, json.loads(out)) == (0, [])


def test_nan_and_odd_types_are_valid_json(run: Run, folder: Path) -> None:
    query = "select 'nan'::double as nan, [1.5, 'inf'::double] as list, 1.25::decimal(4, 2) as d, time '10:00' as t"
    code, out, _ = run("sql", folder, query, "--json")
    assert (code, json.loads(out)) == (0, [{"nan": None, "list": [1.5, None], "d": 1.25, "t": "10:00:00"}])


ODD = {
    "'infinity'::timestamp": "infinity",
    "'-infinity'::timestamptz": "-infinity",
    "'infinity'::date": "infinity",
    "date '9999-12-31'": "9999-12-31",
    "timestamp '99999-01-01'": "99999-01-01 00:00:00",
    "date '0044-03-15 (BC)'": "0044-03-15 (BC)",
    "interval '1 month 2 days 3 seconds'": "1 month 2 days 00:00:03",
    "interval '20000000 years'": "20000000 years",
    "170141183460469231731687303715884105727": 2**127 - 1,
    "sum(2::bigint)": 2,
    "123456789012345678.125": "123456789012345678.125",
    "{'at': date '0044-03-15 (BC)', 'in': [date '99999-01-01']}": {"at": "0044-03-15 (BC)", "in": ["99999-01-01"]},
    "map {date '2026-01-01': 1}": {"2026-01-01": 1},
    "row(1, 'a')": [1, "a"],
    "[1, 2]::int[2]": [1, 2],
    "'x'::enum('x', 'y')": "x",
    "'\\xAA'::blob": "\\xaa",
    "uuid '6f1c2a34-5b7d-4e8f-9a0b-1c2d3e4f5a6b'": "6f1c2a34-5b7d-4e8f-9a0b-1c2d3e4f5a6b",
    "'101'::bit": "101",
    "time '10:00:00'": "10:00:00",
    "union_value(x := 1)": 1,
}


def test_a_value_of_any_type_can_be_shown(run: Run, folder: Path) -> None:
    columns = [f"{value} as c{number}" for number, value in enumerate(ODD)]
    code, out, err = run("sql", folder, f"select {', '.join(columns)}", "--json")
    assert (code, err) == (0, "")
    assert dict(zip(ODD, json.loads(out)[0].values(), strict=True)) == ODD
    for start in range(0, len(columns), 4):  # as many as a screen has room for
        shown = columns[start : start + 4]
        code, out, err = run("sql", folder, f"select {', '.join(shown)}")
        assert (code, "1 row" in out, err) == (0, True, ""), shown
        assert all(column.rpartition(" ")[2] in out for column in shown), shown


def test_rows_of_json_are_one_text_and_none_are_printed_of_a_query_that_fails(run: Run, folder: Path) -> None:
    for n in (0, 1, 2_500):
        query = "select i, [i] as l, e'a\\nb' as t from range(2500) r(i) limit"
        code, out, _ = run("sql", folder, f"{query} {n}", "--json")
        rows = [{"i": i, "l": [i], "t": "a\nb"} for i in range(n)]
        assert (code, out) == (0, f"{json.dumps(rows, ensure_ascii=False, indent=1)}\n")
    query = "select case when i = 9000 then 'x' else '1' end::int from range(9999) r(i)"
    code, out, err = run("sql", folder, query, "--json")
    assert (code != 0, out, bool(err)) == (True, "", True)


def test_columns_of_one_name_are_told_apart(run: Run, folder: Path) -> None:
    query = "select 1 as a, 2 as a, 3 as a_1"
    assert list(json.loads(run("sql", folder, query, "--json")[1])[0].values()) == [1, 2, 3]
    assert run("sql", folder, query)[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sql", "PATH", "selec 1"), "syntax error"),
        (("sql", "PATH/none", "select 1"), "expected a folder or file"),
        (("sql", "PATH"), "Missing argument 'query'. Try 'memkit sql --help'."),
        (("search", "PATH", "чай", "-k", "0"), "-k"),
        (("search", "PATH", "чай", "--set", "vector_weight=2"), "'vector_weight' must be a float"),
        (("search", "PATH", "чай", "--set", "vektor=2"), "expected NAME=VALUE"),
        (("search", "PATH", "чай", "--set", "vector_weight"), "Got 'vector_weight'.\n"),
        (("search", "PATH", "чай", "--columns", "rnk"), "more. Did you mean 'rank'?\n"),
        (("search", "PATH", "чай", "--set", "encoder=none", "--where", "no_such = 1"), "no_such"),
        (("search", "PATH", "чай", "--preset", "best"), "--preset"),
        (("search", "PATH", "чай", "--set", "encoder=none", "--as-of", "soon"), "as_of"),
        (("policy", "dedup", "PATH"), "deduplicator, quota, expiry, decay, index_check, split_plan. Got 'dedup'."),
        (("policy", "classify", "PATH"), "Did you mean 'classifier'?"),
        (("check", ""), "expected a path. Got an empty one."),  # not the folder one is in
        (("history", "PATH"), "git repository"),
        (("check", "PATH", "--rev", "HEAD"), "git repository"),
        (("check", "PATH", "--nonsense"), "No such option: --nonsense. Try 'memkit check --help'."),
        (("bogus",), "No such command 'bogus'. Try 'memkit --help'."),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run: Run, folder: Path, words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*(word.replace("PATH", str(folder)) for word in words))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_search_shows_place_and_snippet_and_as_json_the_columns_of_hits(run: Run, folder: Path) -> None:
    options = ("-k", "1", "--set", "encoder=none", "--as-of", "2026-01-01")
    code, out, _ = run("search", folder, "соединение", *options)
    assert (code, "users/anna/working.md:1" in out, "Чинит пул соединений" in out) == (0, True, True)
    code, out, _ = run("search", folder, "чай", *options, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["rank"], row["memory_id"]) for row in rows] == [(1, "facts:users/anna/profile.md#pf_1")]
    assert list(rows[0]) == [*HITS, "arms"]


def test_search_answers_by_words_and_says_what_fetches_meaning(run: Run, folder: Path) -> None:
    (folder / "users" / "anna" / "archive.md").write_text(
        "- [id:ar_1] [t:archive] [imp:low] Однажды видела белую сову\n", encoding="utf-8"
    )
    asked = ("search", folder, "сова", "--set", "encoder=hash", "--as-of", "2026-01-01", "--encode-limit", "0")
    code, out, err = run(*asked, "--json")
    assert (code, json.loads(out)[0]["arms"]) == (0, ["bm25", "gram"])
    assert f"texts are not encoded; memkit encode {folder} encodes them." in err
    assert "not encoded" not in run(*asked)[1]  # standard error alone says it
    code, out, err = run("encode", folder, "--set", "encoder=hash", "--json")
    assert (code, json.loads(out)[0]["texts"]) == (0, 4)
    code, out, err = run(*asked, "--json")
    assert "vector" in json.loads(out)[0]["arms"]
    assert err == ""


def test_encode_needs_a_place_and_an_encoder(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected a search by meaning" in run("encode", folder, "--set", "encoder=none")[2]
    with monkeypatch.context() as patched:
        patched.setattr(shared_cache(), "failed", "FILE: disk full.")
        code, out, err = run("encode", folder, "--set", "encoder=hash")
        assert (code, out, err) == (2, "", "memkit: encode: expected to keep vectors. Got FILE: disk full.\n")
    monkeypatch.setenv("MEMKIT_CACHE", "off")
    assert "expected a folder that keeps vectors" in run("encode", folder)[2]
    (folder / "MEMORY.md").write_text("# Филин\n\nНикем ещё не виден.\n", encoding="utf-8")
    asked = ("search", folder, "филин", "--set", "encoder=hash", "--encode-limit", "0", "--json")
    assert "--encode-limit encodes more at once" in run(*asked)[2]
    assert "option of search, context and serve: --encode-limit" in run(*asked, "--set", "encode_limit=9")[2]


def test_that_it_encodes_is_no_output(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    code, out, err = run("search", folder, "чай", "--set", "encoder=none", "--as-of", "2026-01-01", "--json")
    assert code == 0
    assert json.loads(out)
    assert "indexing" in err


def test_search_filters_before_the_cut_and_traces(run: Run, folder: Path) -> None:
    words = ("search", folder, "чай maps", "--set", "encoder=none", "--as-of", "2026-01-01", "--json")
    code, out, _ = run(*words, "--where", "importance = 'low'")
    assert (code, [row["text"] for row in json.loads(out)]) == (0, ["Likes [bold]maps[/]"])
    code, out, _ = run(*words, "--trace", "--where", "importance = 'low'")
    assert {row["memory_id"].rpartition("#")[2]: row["disposition"] for row in json.loads(out)} == {
        "pf_2": "returned",
        "pf_1": "filtered",
    }


def test_memories_cannot_drive_the_terminal_or_the_markup(run: Run, folder: Path) -> None:
    (folder / "users" / "anna" / "archive.md").write_text(
        "- [id:a] [t:archive] [imp:low] [red]alarm[/red] \x1b[31mred\x07\n", encoding="utf-8"
    )
    code, out, _ = run("sql", folder, "select text from memories where source_id = 'a'")
    assert code == 0
    assert "[red]alarm[/red] \\x1b[31mred\\x07" in out
    assert "\x1b" not in out


def test_context_prints_the_blocks(run: Run, folder: Path) -> None:
    words = (
        "context",
        folder,
        "--user",
        "anna",
        "что с пулом?",
        "--as-of",
        "2026-01-31",
        "--preset",
        "recommended_use",
    )
    code, out, _ = run(*words)
    assert code == 0
    assert out.startswith("[PROFILE MEMORY]\n- Предпочитает зелёный чай\n\n[WORKING MEMORY]\n- Чинит пул соединений\n")
    code, out, _ = run(*words, "--json")
    reasons = {(row["memory_id"].rpartition("#")[2], row["block"]): row["reason"] for row in json.loads(out)}
    assert reasons["pf_2", "PROFILE MEMORY"] == "not_high"
    assert reasons["pf_1", "RELEVANT MEMORY FOR THIS TURN"] == "shown_above"


def test_context_without_a_user_takes_all_and_an_unknown_one_is_said(run: Run, folder: Path) -> None:
    words = ("context", folder, "что с пулом?", "--as-of", "2026-01-31", "--preset", "recommended_use")
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert "Чинит пул соединений" in out
    code, out, err = run(*words, "--user", "ana")
    assert (code, out.strip()) == (0, "")
    assert (
        err == "memkit: User 'ana' has no memory. Users: anna. Did you mean 'anna'? Give no user to use all memories.\n"
    )


def test_a_saved_corpus_is_a_path_too(run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    lake = tmp_path_factory.mktemp("lake")
    mk.read(folder).save(lake)
    code, out, _ = run("sql", lake, "select count(*) as n from memories", "--json")
    assert (code, json.loads(out)) == (0, [{"n": 3}])


def test_queries_and_rules_list_what_there_is(run: Run) -> None:
    code, out, _ = run("queries", "--json")
    assert (code, [row["name"] for row in json.loads(out)]) == (0, mk.named_queries()["name"].to_pylist())
    code, out, _ = run("rules", "--json")
    assert (code, len(json.loads(out))) == (0, mk.rules().num_rows)


def test_no_arguments_print_the_help(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "search" in out


def test_check_looks_for_secrets_only_when_asked_and_never_prints_one(run: Run, folder: Path) -> None:
    (folder / "MEMORY.md").write_text("# Wifi\n\npassword: sova-2026\n", encoding="utf-8")
    code, out, _ = run("check", folder, "--json")
    assert (code, [row["rule"] for row in json.loads(out)]) == (0, [])
    code, out, _ = run("check", folder, "--secrets", "--json")
    assert (code, [(row["rule"], row["line"]) for row in json.loads(out)]) == (0, [("secret", 3)])
    code, out, _ = run("check", folder, "--secrets")
    assert code == 0
    assert "MEMORY.md:3" in out
    assert "sova-2026" not in out


def test_the_commands_that_an_overview_shows_are_whole_and_run(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "память бота"
    text = "# Чай\nБез сахара, с мёдом.\n\n# Утро\nБез сахара, с мёдом.\n"
    mk.testing.write_files(folder, {"MEMORY.md": text + "password: hunter2hunter2\n"})
    code, out, _ = run("overview", folder, "--as-of", "2026-03-01")
    assert code == 0
    commands = [line.strip() for line in out.splitlines() if line.startswith("    memkit ")]
    assert len(commands) == 3
    for command in commands:
        name, *arguments = shlex.split(command)
        options = ["--set", "encoder=none"] if arguments[0] == "search" else []
        assert (name, run(*arguments, *options)[0]) == ("memkit", 0), command


def test_options_of_reading_reach_every_verb_that_reads(run: Run, tmp_path: Path) -> None:
    uuid = "0f3c0a52-6f0e-4c3b-9d57-1b7a6d2f8e41"
    (tmp_path / f"{uuid}.jsonl").write_text('{"text": "пул соединений: десять"}\n', encoding="utf-8")
    (tmp_path / "a.md").write_text("# Чай\nЗелёный.\n", encoding="utf-8")
    query = ("sql", tmp_path, "select count(*) as n from memories", "--json")
    assert [json.loads(run(*query, *options)[1])[0]["n"] for options in ((), ("--json-rows",))] == [1, 2]
    code, _, err = run("check", tmp_path, "--instructions", tmp_path / "nothing.md")
    assert code == 2
    assert "'instructions' must be files" in err


def test_what_the_core_alone_leaves_out_is_one_line(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("MEMKIT_PLUGINS", "core")
    for verb, *more in (("digest",), ("history",), ("overview", "--watch"), ("budget",)):
        with subtests.test(verb):
            code, _, error = run(verb, folder, *more)
            assert (code, len(error.splitlines())) == (2, 1)
            assert "MEMKIT_PLUGINS=core" in error


def test_what_the_cache_keeps_is_listed_and_cleared(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "of its own"))
    first = run("search", folder, "чай", "--set", "encoder=none", "--json")
    assert run("search", folder, "чай", "--set", "encoder=none", "--json") == first
    kept = json.loads(run("cache", "--json")[1])
    assert [row["kept"] for row in kept] == [str(folder), f"vectors, in {tmp_path / 'of its own' / 'vectors'}"]
    assert kept[0]["bytes"] > 0
    assert run("cache", "--clear")[0] == 0
    assert not any((tmp_path / "of its own/folders").glob("*/memkit.json"))
    monkeypatch.setenv("MEMKIT_CACHE", "off")
    assert "MEMKIT_CACHE is off" in run("cache")[1]
