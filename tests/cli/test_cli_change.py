"""Plans, changes and their undoing at the command line: nothing is written unless `apply` says so."""

from __future__ import annotations

import inspect
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import memkit as mk

WORKING = """- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит бота
- [id:wk_2] [t:working] [imp:high] [exp:2027-01-01] План
- [id:wk_3] [t:working] [imp:high] [exp:2027-01-01] Чай
- [id:wk_4] [t:working] [imp:high] [exp:2027-01-01] Мёд
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return mk.testing.write_files(tmp_path / "root", {"users/anna/working.md": WORKING})


def test_plan_apply_and_undo(run: Any, root: Path, tmp_path: Path) -> None:
    file = root / "users/anna/working.md"
    code, out, err = run("plan", root, "expiry", "--as-of", "2026-03-01", "--json")
    assert (code, err) == (0, "")
    assert [row["reason"] for row in json.loads(out)] == ["expired"]
    assert file.read_text("utf-8") == WORKING
    assert not (root / ".memkit").exists()
    (tmp_path / "plan.json").write_text(out, "utf-8")
    assert run("apply", root, tmp_path / "plan.json", "--json")[0] == 0
    assert file.read_text("utf-8") == WORKING.split("\n", 1)[1]
    code, out, _ = run("undo", root, "--json")
    assert (code, [row["path"] for row in json.loads(out)]) == (0, ["users/anna/working.md"])
    assert file.read_text("utf-8") == WORKING
    assert run("undo", root)[0] == 2


def test_a_diff_is_printed_as_it_is(run: Any, root: Path) -> None:
    code, out, _ = run("plan", root, "expiry", "--as-of", "2026-03-01", "--diff")
    assert code == 0
    assert out.startswith("--- a/users/anna/working.md\n+++ b/users/anna/working.md\n@@ -1,4 +1,3 @@\n-- [id:wk_1]")
    assert "expired" in run("plan", root, "expiry", "--as-of", "2026-03-01")[1]


def test_parameters_filters_and_standard_input(run: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ("plan", root, "expiry", "--as-of", "2026-03-01", "--json")
    assert json.loads(run(*plan, "--set", "grace_days=60")[1]) == []
    assert json.loads(run(*plan, "--set", "expiry__grace_days=60")[1]) == []
    assert json.loads(run(*plan, "--where", "policy = 'quota'")[1]) == []
    monkeypatch.setattr("sys.stdin", io.StringIO(run(*plan)[1]))
    assert run("apply", root, "-")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "{root}", "expirey"), "Did you mean 'expiry'"),
        (("plan", "{root}", "expiry", "--set", "grace=1"), "Did you mean 'grace_days'"),
        (("plan", "{root}", "expiry", "--where", "reason ="), "where: expected one SQL predicate"),
        (("apply", "{root}", "{root}/users/anna/working.md"), "expected a JSON array of edits"),
        (("apply", "{root}", "{root}/none.json"), "No such file"),
        (("undo", "{root}/none"), "expected a folder"),
    ],
)
def test_what_is_wrong_is_one_line(words: tuple[str, ...], message: str, run: Any, root: Path) -> None:
    code, out, err = run(*(word.format(root=root) for word in words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_too_many_removals_need_force(run: Any, root: Path, tmp_path: Path) -> None:
    out = run("plan", root, "expiry", "--as-of", "2028-01-01", "--json")[1]
    (tmp_path / "plan.json").write_text(out, "utf-8")
    code, _, err = run("apply", root, tmp_path / "plan.json")
    assert (code, "4 of 4 memories would be removed" in err) == (2, True)
    assert run("apply", root, tmp_path / "plan.json", "--force")[0] == 0
    assert run("undo", root, "--clear")[0] == 0
    assert WORKING[:40].encode() not in b"".join(p.read_bytes() for p in root.rglob("*") if p.is_file())


def test_add_plans_and_with_yes_writes(run: Any, root: Path) -> None:
    fact = ("add", root, "Обсуждали структуру памяти.", "--kind", "fact", "--user", "boris", "--as-of", "2026-03-01")
    before = sorted(root.rglob("*"))
    assert "+- [id:ar_001] [t:archive]" in run(*fact, "--diff")[1]
    assert sorted(root.rglob("*")) == before
    assert json.loads(run(*fact, "--yes", "--json")[1]) == [{"saved": "ar_001"}]
    code, _, err = run(*fact, "--yes")
    assert (code, "duplicate: ar_001 says it already" in err) == (2, True)
    note = ("add", root, "# Чай\n\nБез сахара.", "--kind", "note", "--subject", "Чай", "--keyword", "чай", "--yes")
    assert run(*note)[0] == 0
    assert run("add", root, "Пил чай.", "--kind", "log", "--as-of", "2026-03-01", "--yes", "--json")[0] == 0
    record = {
        "format_version": "1.0.0",
        "fact_id": "f",
        "category": "c",
        "content": "ч",
        "confidence": 1,
        "relations": [],
    }
    assert json.loads(run("add", root, json.dumps(record), "--kind", "record", "--yes", "--json")[1]) == [
        {"saved": "f.json"}
    ]
    kinds = set(mk.read(root).memories["kind"].to_pylist())
    assert {"archive", "note", "daily_log", "wisdom_fact"} <= kinds


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("x", "--kind", "thing"), "--kind"),
        (("x", "--kind", "fact"), "expected --user"),
        (("x", "--kind", "note"), "expected --subject"),
        (("x", "--kind", "record"), "expected the record as a JSON object"),
        (("[]", "--kind", "record"), "expected the record as a JSON object"),
        (("[" * 100_000, "--kind", "record"), "expected the record as a JSON object"),
        (("x", "--kind", "fact", "--user", "../a"), "user: expected letters"),
    ],
)
def test_what_cannot_be_added_is_one_line(words: tuple[str, ...], message: str, run: Any, root: Path) -> None:
    code, out, err = run("add", root, *words)
    assert (code, out, err.count("\n"), message in err) == (2, "", 1, True)


def test_every_operation_that_writes_is_a_command_by_its_signature(run: Any, root: Path) -> None:
    listed = {row["operation"]: row["arguments"] for row in json.loads(run("store", root, "--json")[1])}
    memory = mk.store(root, encoder=None)
    methods = {
        f"{name}.{method}": inspect.signature(getattr(operations, method)).parameters
        for name, operations in vars(memory).items()
        for method in dir(operations)
        if name != "root" and not method.startswith("_") and callable(getattr(operations, method))
    }
    assert listed.keys() == {name for name, parameters in methods.items() if "dry_run" in parameters}
    assert listed["pages.rename"] == "path=… to=…"
    assert listed["notes.update"] == "id=… [NAME=…]"
    known = {"str", "bool", "int", "float", "None", "Any", "AsOf", "Sequence[str]", "Iterable[str]"}
    known |= {"Mapping[str, Any]", "Sequence[Mapping[str, Any]]"}
    for name in listed:  # a type that the command line does not know would be passed as a text
        assert {
            kind for parameter in methods[name].values() for kind in str(parameter.annotation).split(" | ")
        } <= known, name


def test_the_list_of_operations_is_whole_in_a_narrow_terminal(
    run: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.loads(run("store", root, "--json")[1])
    for width in (80, 60):
        monkeypatch.setattr("memkit.cli.store.out", Console(width=width))
        heading, _, text = run("store", root)[1].partition("\n")
        assert heading.startswith(f"{len(listed)} operations")
        assert text.split() == " ".join(" ".join(row.values()) for row in listed).split()
        assert max(map(len, text.splitlines())) <= width


def test_a_page_is_renamed_and_a_fact_updated_and_forgotten_and_each_is_undone(run: Any, root: Path) -> None:
    mk.testing.write_files(root, {"tea.md": "# Tea\n", "b.md": "See [tea](tea.md).\n"})
    working = "users/anna/working.md"

    def texts() -> dict[str, str]:
        paths = [path for path in root.rglob("*.*") if path.is_file() and ".memkit" not in path.parts]
        return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}

    before = texts()
    for words, place, text in (
        (("pages.rename", "path=tea.md", "to=drinks/tea.md"), "b.md", "See [tea](drinks/tea.md).\n"),
        (("facts.forget", "user=anna", "id=wk_1"), working, WORKING.split("\n", 1)[1]),
        (
            ("facts.update", "user=anna", "id=wk_1", "text=Чинит бота = до вечера, и пула"),
            working,
            WORKING.replace("Чинит бота", "Чинит бота = до вечера, и пула"),
        ),
    ):
        call = ("store", root, *words, "--as-of", "2026-01-01")
        code, out, err = run(*call, "--diff")
        assert (code, f"+++ b/{place}" in out, "--yes writes it" in err) == (0, True, True), words
        assert texts() == before
        assert run(*call, "--yes", "--json")[0] == 0
        assert texts()[place] == text, words
        assert run("undo", root)[0] == 0
        assert texts() == before, words


def test_candidates_say_that_nothing_was_changed(run: Any, root: Path) -> None:
    call = ("store", root, "facts.forget", "user=anna", "query=чинит бота", "--as-of", "2026-01-01", "--yes")
    before = (root / "users/anna/working.md").read_text("utf-8")
    code, out, _ = run(*call)
    assert (code, "Чинит бота" in out) == (0, True)
    assert "Nothing was changed: name a fact by its id, or confirm." in out
    assert (root / "users/anna/working.md").read_text("utf-8") == before


def test_an_argument_that_is_a_list_is_given_word_by_word(run: Any, root: Path) -> None:
    words = ("graph.create_entity", "name=Анна", "entity_type=person", "observations=чай, мёд", "observations=кофе")
    diff = run("store", root, *words, "--diff")[1]
    assert '["чай, мёд","кофе"]' in diff


def test_what_no_operation_takes_is_one_line_that_says_what_it_takes(run: Any, root: Path) -> None:
    for words, message in (
        (("pages.renam",), "Did you mean 'pages.rename'"),
        (("anything",), "lists them"),
        (("pages.rename", "path=a.md"), "expected path=… to=…. Got no to."),
        (("pages.rename", "path=a.md", "too=b.md", "to=c.md"), "Got 'too=b.md'. Did you mean 'to'"),
        (("pages.rename", "path=a.md", "to"), "Got 'to'"),
        (("pages.rename", "path=a.md", "to=b.md", "to=c.md"), "expected one to. Got 2."),
        (("pages.rename", "path=a.md", "to=b.md", "dry_run=false"), "Got 'dry_run=false'"),
        (("facts.forget", "user=anna", "id=wk_1", "confirm=maybe"), "'confirm' must be a bool. Got 'maybe'."),
        (("facts.save", "user=anna", "text=Любит чай с мёдом.", "meta=[1]"), "expected meta as a JSON object"),
        (("notes.update", "id=1", "colour=red"), "update: expected some of"),
    ):
        code, out, err = run("store", root, *words)
        assert (code, out, err.count("\n"), message in err) == (2, "", 1, True), err


def test_selftest_works_on_a_copy(run: Any, root: Path) -> None:
    """Memory v2, manual check: migrate, save, read, forget."""
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    code, out, _ = run("selftest", root, "--as-of", "2026-03-01", "--json")
    assert code == 0
    assert [(row["step"], row["ok"]) for row in json.loads(out)] == [
        *(("migrate", True), ("save", True), ("read", True), ("forget", True), ("undo", True))
    ]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    code, out, _ = run("selftest", root, "--user", "a/b", "--json")
    failed = [row["detail"] for row in json.loads(out) if not row["ok"]]
    assert (code, failed) == (
        1,
        ["user: expected letters, digits, '_', '-' and '.'. Got 'a/b'."] * 2
        + ["No fact was saved, so there is none to try this with."] * 3,
    )


def test_an_export_is_a_plan_until_yes(run: Any, tmp_path: Path) -> None:
    files = {"MEMORY.md": "Порт 8443 у сервера\n§\nДеплой по вторникам"}
    folder, out = mk.testing.write_files(tmp_path / "in", files), tmp_path / "out"
    words = ("export", folder, out, "--layout", "facts", "--user", "anna", "--as-of", "2026-03-01")
    code, text, _ = run(*words, "--json")
    assert (code, [row["path"] for row in json.loads(text)]) == (0, ["users/anna/archive.md"] * 2)
    assert "+- [id:ar_001] [t:archive] [imp:normal] Порт 8443 у сервера" in run(*words, "--diff")[1]
    assert not out.exists()
    assert run(*words, "--yes")[0] == 0
    assert mk.read(out).memories["text"].to_pylist() == ["Порт 8443 у сервера", "Деплой по вторникам"]
    code, _, err = run(*words)
    assert (code, "expected an empty folder" in err) == (2, True)


def test_entries_and_observations_are_added(run: Any, tmp_path: Path) -> None:
    folder = mk.testing.write_files(tmp_path / "in", {"MEMORY.md": "Порт 8443\n§\nЧай"})
    assert run("add", folder, "Деплой", "--kind", "entry", "--target", "user", "--yes")[0] == 0
    assert (folder / "USER.md").read_text("utf-8") == "Деплой"
    line = '{"name":"Анна","entityType":"p","observations":["чай"]}'
    folder = mk.testing.write_files(tmp_path / "graph", {"g.jsonl": line})
    words = ("add", folder, "мёд", "--kind", "observation", "--entity", "Анна")
    assert '+{"name":"Анна","entityType":"p","observations":["чай","мёд"]}' in run(*words, "--diff")[1]
    assert (folder / "g.jsonl").read_text("utf-8") == line
    assert run(*words, "--yes")[0] == 0
    assert mk.read(folder).memories["text"].to_pylist() == ["чай", "мёд"]
