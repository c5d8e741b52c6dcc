"""What others bring: a package with one module and a line for each thing is all that a format or an encoder needs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.cli.app import app, app_for
from memkit.extend import showing as kit
from memkit.formats import reader, registry
from memkit.formats.records.kinds import ADAPTERS, CURRENT, Adapter, forget_adapter, registered_adapters
from memkit.formats.rules import RULES
from memkit.policy.base import POLICIES, policy_class
from memkit.schemas import KINDS
from memkit.tables.samples import write_files

MODULE = '''
"""Cards: the first line is the title, a line "due: DATE" the last day, the rest the text."""

import pyarrow as pa

import memkit as mk
from memkit.formats.rows import Rule
from memkit.formats.spelling import day_of

CARDS = pa.schema([("memory_id", pa.string()), ("path", pa.string()), ("due", pa.timestamp("us", tz="UTC"))])
RULES = (Rule("bad_date", "cards", "due", "a date YYYY-MM-DD"), Rule("empty_text", "cards", "", "a card with text"))


def parse(file, rows):
    title, *lines = file.source.lines
    written = [line.partition(":")[2].strip() for line in lines if line.startswith("due:")]
    text = "\\n".join(line for line in lines if not line.startswith("due:"))
    if "boom" in title:
        raise RuntimeError("no such card")
    due = day_of(written[0]) if written else None
    path = file.source.path
    memory_id = rows.memory("cards", path, title, text, title=title, kind="card", expires_at=due, created_at=due,
                            line_start=1, line_end=len(file.source.lines))
    rows.add("cards", {"memory_id": memory_id, "path": path, "due": due})
    if written and due is None:
        rows.problem("bad_date", path, RULES[0].expected, written[0], field="due", memory_id=memory_id)


def check(tables, rows):
    if tables["cards"].num_rows > 20:
        raise ValueError("too many cards")


FORMAT = mk.extend.Format(
    "cards",
    "*.card",
    kinds=(mk.schemas.Kind("card", "a card of ours", counted=True),),
    tables=("cards",),
    schemas={"cards": CARDS},
    endings=(".card",),
    claims=lambda file: file.has_ending((".card",)),
    parse=parse,
    check=check,
    rules=RULES,
    dates={"created_at": "due"},
)


class Lengths:
    """An encoder that knows how long a text is."""

    def encode(self, texts):
        return [[len(text), 1.0, text.count(" ")] for text in texts]
'''
LINES = "[memkit.formats]\ncards = {name}:FORMAT\n[memkit.encoders]\nlengths = {name}:Lengths\n"
FILES = {
    "tea.card": "Чай\ndue: 2026-02-01\nЗелёный чай без сахара.\n",
    "coffee.card": "Coffee\ndue: soon\nTen grams a cup.\n",
    "MEMORY.md": "# Пул\nДесять соединений.\n",
}


def install(folder: Path, name: str, module: str, lines: str) -> None:
    """A package as pip would leave it."""
    write_files(
        folder,
        {
            f"{name}.py": module,
            f"{name}-1.5.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n",
            f"{name}-1.5.dist-info/entry_points.txt": lines.format(name=name),
        },
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where packages are looked for; what they brought is forgotten afterwards."""
    kinds, modules, named = dict(KINDS), {*sys.modules}, set(registry._NAMED)
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield tmp_path / "site"
    for name in sys.modules.keys() - modules:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
    KINDS.clear()
    KINDS.update(kinds)
    registry._NAMED.clear()
    registry._NAMED.update(named)
    registry._OTHERS.registered.clear()


@pytest.fixture
def cards(site: Path) -> Path:
    """An installed package with a format and an encoder, and a folder of its files; the folder."""
    install(site, "our_cards", MODULE, LINES)
    return write_files(site.parent / "folder", FILES)


@pytest.mark.quick
def test_one_module_and_one_line_are_a_format(cards: Path) -> None:
    corpus = mk.read(cards, formats=["cards"])
    rows = {row["path"]: (row["format"], row["kind"], row["title"]) for row in corpus.memories.to_pylist()}
    assert rows["tea.card"] == ("cards", "card", "Чай")
    assert rows["MEMORY.md"] == ("workspace", "long_term", "Пул")
    assert corpus.sql("select path from cards where due is null").fetchall() == [("coffee.card",)]
    (problem,) = corpus.problems.to_pylist()
    assert (problem["path"], problem["rule"], problem["field"]) == ("coffee.card", "bad_date", "due")
    rules = mk.rules()
    assert rules.filter(pc.field("format") == "cards")["code"].to_pylist() == ["bad_date", "empty_text"]


@pytest.mark.quick
def test_nothing_of_a_package_is_loaded_before_it_is_named(cards: Path) -> None:
    plain = mk.read(cards)
    assert "our_cards" not in sys.modules
    assert "cards" not in plain.tables
    assert [(row["path"], row["rule"]) for row in plain.problems.to_pylist()] == [(".", "unclaimed")]  # one for both
    assert mk.read(cards, formats=[]).tables.keys() == plain.tables.keys()


@pytest.mark.quick
def test_a_name_alone_and_a_format_itself_will_do(cards: Path) -> None:
    by_name = mk.read(cards, formats=("cards",))
    from our_cards import FORMAT  # type: ignore[import-not-found]  # written by the fixture

    assert mk.read(cards, formats=[FORMAT]).memories.equals(by_name.memories)
    forced = mk.read(cards, format="cards")
    assert set(forced.memories["format"].to_pylist()) == {"cards"}
    assert ("MEMORY.md", "unclaimed") in {(row["path"], row["rule"]) for row in forced.problems.to_pylist()}


def test_a_future_date_is_named_as_the_format_names_it(cards: Path) -> None:
    problems = mk.read(cards, formats=["cards"], as_of="2026-01-01").problems.to_pylist()
    assert [row["field"] for row in problems if row["rule"] == "future_date"] == ["due"]


def test_its_memories_are_found_by_search_and_full_text(cards: Path) -> None:
    corpus = mk.read(cards, formats=["cards"])
    hits = mk.Retriever(encoder=None).fit(corpus).search("сахар", as_of="2026-02-01")
    assert hits["path"].to_pylist()[:1] == ["tea.card"]
    assert corpus.sql("select path from fts('сахара') join memories using (memory_id)").fetchall() == [("tea.card",)]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_takes_them(cards: Path, name: str) -> None:
    corpus = mk.read(cards, formats=["cards"])
    table = policy_class(name)().fit_transform(corpus, as_of="2026-03-01")
    assert isinstance(table, pa.Table)
    if name == "expiry":
        assert dict(zip(table["path"].to_pylist(), table["keep"].to_pylist(), strict=True))["tea.card"] is False


def test_they_are_saved_opened_and_refreshed(cards: Path, tmp_path: Path) -> None:
    corpus = mk.read(cards, formats=["cards"])
    corpus.save(tmp_path / "lake")
    opened = mk.open(tmp_path / "lake")
    assert opened.tables["cards"].equals(corpus.tables["cards"])
    assert opened.refresh().memories.equals(corpus.memories)
    write_files(cards, {"milk.card": "Milk\nHalf a litre.\n"})
    fresh = mk.read(cards, formats=["cards"])
    for refreshed in (corpus.refresh(), opened.refresh(), opened.refresh().refresh()):
        assert {name: table.to_pylist() for name, table in refreshed.tables.items()} == {
            name: table.to_pylist() for name, table in fresh.tables.items()
        }


def test_a_lake_does_not_have_a_package_loaded_that_nobody_named(cards: Path, tmp_path: Path) -> None:
    mk.read(cards, formats=["cards"]).save(tmp_path / "lake")
    code = "import sys, memkit as mk; c = mk.open({lake!r}, source={folder!r}, trust={trust}); c.refresh()"
    processes = [
        subprocess.run(
            [sys.executable, "-c", code.format(lake=str(tmp_path / "lake"), folder=str(cards), trust=trust)],
            env={"PYTHONPATH": f"{tmp_path / 'site'}:{Path(mk.__file__).parents[1]}"},
            capture_output=True,
            text=True,
            check=False,
        )
        for trust in (False, True)
    ]
    assert "which this process did not name" in processes[0].stderr
    assert processes[1].returncode == 0, processes[1].stderr


def test_other_processes_read_with_it_too(cards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(cards, {f"n{number}.card": f"N {number}\ntext\n" for number in range(15)})
    alone = mk.read(cards, formats=["cards"])
    monkeypatch.setattr(reader, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(reader, "BATCH_FILES", 4)
    assert mk.read(cards, formats=["cards"], n_jobs=2).memories.equals(alone.memories)


def test_a_file_that_it_cannot_read_is_read_by_the_next_format_with_one_warning(cards: Path) -> None:
    write_files(cards, {"a.card": "boom\n", "b.card": "boom\n"})
    with pytest.warns(RuntimeWarning, match="2 times a format of another package failed, first a.card: ") as caught:
        corpus = mk.read(cards, formats=["cards"])
    assert len(caught) == 1
    failed = [row for row in corpus.problems.to_pylist() if row["rule"] == "format_failed"]
    assert [row["path"] for row in failed] == ["a.card", "b.card"]
    assert "'cards'" in failed[0]["message"]
    assert "RuntimeError: no such card" in failed[0]["message"]
    assert {row["path"] for row in corpus.memories.to_pylist()} == FILES.keys()


def test_a_check_that_fails_leaves_what_was_read(cards: Path) -> None:
    write_files(cards, {f"n{number}.card": f"N {number}\ntext\n" for number in range(25)})
    with pytest.warns(RuntimeWarning, match="too many cards"):
        corpus = mk.read(cards, formats=["cards"])
    assert corpus.tables["cards"].num_rows == 27


@pytest.mark.parametrize(
    "module", ["raise ImportError('no such library')", "import sys; sys.exit(3)", "FORMAT = 5", "", "FORMAT = ("]
)
def test_a_broken_package_is_one_warning_that_names_it(cards: Path, site: Path, module: str) -> None:
    install(site, "broken_cards", module, "[memkit.formats]\nbroken = {name}:FORMAT\n")
    with pytest.warns(RuntimeWarning, match=r"'broken' of the package broken_cards 1\.5") as caught:
        corpus = mk.read(cards, formats=["broken", "cards"])
    assert len(caught) == 1
    assert "tea.card" in corpus.memories["path"].to_pylist()
    with pytest.warns(RuntimeWarning, match="broken_cards") as caught:
        rows = {row["name"]: row for row in mk.extend.known_formats().to_pylist()}
    assert len(caught) == 1
    assert rows["broken"]["fault"]
    assert (rows["cards"]["package"], rows["cards"]["fault"], rows["cards"]["kinds"]) == (
        "our_cards 1.5",
        None,
        ["card"],
    )


def test_every_verb_that_reads_a_folder_reads_it_with_other_formats_too(
    cards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = [command.callback for command in app_for([]).registered_commands if command.callback]
    assert all("load(path, " in inspect.getsource(verb) for verb in verbs if "load(path" in inspect.getsource(verb))
    assert len([verb for verb in verbs if "formats" in inspect.signature(verb).parameters]) > 8
    for verb in (["policy", "decay"], ["pipeline"]):
        app([*verb, str(cards), "--formats", "cards", "--as-of", "2026-03-01", "--json"], standalone_mode=False)
        assert "Зелёный чай" in capsys.readouterr().out


def test_a_name_that_nobody_has_is_answered_with_the_one_that_was_meant(cards: Path) -> None:
    for wrong in ({"formats": ["carts"]}, {"format": "carts"}):
        with pytest.raises(mk.errors.ParameterError, match="cards"):
            mk.read(cards, **wrong)  # type: ignore[arg-type]  # one of two options


def format_of(**changes: Any) -> mk.extend.Format:
    fields: dict[str, Any] = {
        "name": "mine",
        "about": "*.x",
        "kinds": (),
        "tables": (),
        "parse": lambda file, rows: None,
    }
    return mk.extend.Format(**fields | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "notes"},
        {"name": "two words"},
        {"name": ""},
        {"tables": ("nowhere",)},
        {"schemas": {"memories": pa.schema([("memory_id", pa.string())])}},
        {"schemas": {"free": pa.schema([("a", pa.string())])}},
        {"kinds": (mk.schemas.Kind("note", "another note"),)},
        {"rules": (type(RULES[0])("no_such_code", "mine", "", "something"),)},
    ],
)
def test_a_declaration_that_cannot_be_is_refused(site: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(mk.errors.ParameterError):
        mk.extend.register(format_of(**changes))
    assert "mine" not in registry._OTHERS.names()


def test_a_format_may_read_markdown_before_notes_do(site: Path) -> None:
    note = "---\nid: 1a903b69-75b5-494b-8416-68d6956fae5c\nsubject: s\nkeywords: [a]\napplies_to: global\n"
    note += "created_at: 2026-01-01\nupdated_at: 2026-01-01\n---\nДесять соединений.\n"

    def parse(file: Any, rows: Any) -> None:
        rows.memory("mine", file.source.path, 1, file.source.text)

    mine = format_of(endings=(".md",), claims=lambda file: "Десять" in file.source.text, parse=parse)
    folder = write_files(site.parent / "folder", {"a.md": note, "b.md": note.replace("Десять", "Двадцать")})
    formats = mk.read(folder, formats=[mine]).memories
    assert dict(zip(formats["path"].to_pylist(), formats["format"].to_pylist(), strict=True)) == {
        "a.md": "mine",
        "b.md": "notes",
    }


def test_a_step_that_is_forgotten_takes_none_of_another_kind_with_it() -> None:
    of_items, of_paths = (
        Adapter(kind, "0.text", CURRENT, "ours", lambda record: record) for kind in ("memory_item", "pathway")
    )
    for step in (of_items, of_paths):
        mk.extend.register(step)
    mk.extend.unregister(of_paths)
    assert registered_adapters() == (of_items,)
    mk.extend.unregister(of_items)
    assert ADAPTERS["memory_item", "0.text"].reason != "ours"
    assert not registered_adapters()


def test_a_step_from_an_older_version_is_taken_also_in_other_processes(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"fact_id": "f", "statement": "чай", "category": "c", "confidence": 1, "format_version": "0.9.0"}
    folder = write_files(site.parent / "folder", {"f.json": json.dumps(old | {"relations": []})})

    def change(record: Any) -> Any:
        record["content"] = record.pop("statement")
        return record

    step = mk.extend.register(Adapter("wisdom_fact", "0.9.0", CURRENT, "statement becomes content", change))
    try:
        alone = mk.read(folder)
        monkeypatch.setattr(reader, "WORTH_PROCESSES", 0)
        assert mk.read(folder, n_jobs=2).memories.equals(alone.memories)
    finally:
        forget_adapter(step)
    assert alone.memories["text"].to_pylist() == ["чай"]
    assert alone.tables["migrations"]["reason"].to_pylist() == ["statement becomes content"]
    assert mk.read(folder).problems["rule"].to_pylist() == ["unsupported_version"]
    with pytest.raises(mk.errors.ParameterError, match="kind of record"):
        mk.extend.register(Adapter("card", "0", CURRENT, "", change))


def test_an_encoder_of_a_package_is_had_by_its_name(cards: Path, site: Path) -> None:
    assert mk.extend.as_encoder("lengths").encode_query(["пул"]).shape == (1, 3)
    corpus = mk.read(cards, formats=["cards"])
    assert mk.Retriever(encoder="lengths").fit(corpus).search("чай", as_of="2026-01-01").num_rows
    with pytest.raises(mk.errors.ParameterError, match="lengths"):
        mk.extend.as_encoder("length")
    install(site, "broken_encoder", "raise OSError('gone')", "[memkit.encoders]\nbroken = {name}:Encoder\n")
    with pytest.warns(RuntimeWarning, match=r"broken_encoder 1\.5") as caught:  # noqa: SIM117 - the warning comes first
        with pytest.raises(mk.errors.ParameterError, match="'broken'"):
            mk.extend.as_encoder("broken")
    assert len(caught) == 1
    with pytest.raises(mk.errors.ParameterError, match="name of its own"):
        mk.extend.register(list, name="use")


def test_the_command_line_lists_and_takes_it(cards: Path) -> None:
    def run(*words: str) -> Any:
        process = subprocess.run(
            [sys.executable, "-m", "memkit", *words, "--json"],
            env={"PYTHONPATH": f"{cards.parent / 'site'}:{Path(mk.__file__).parents[1]}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(process.stdout)

    listed = {row["name"]: row["package"] for row in run("formats")}
    assert listed["cards"] == "our_cards 1.5"
    assert [row["rule"] for row in run("check", str(cards), "--formats", "cards")] == ["bad_date"]


def test_stores_prompts_exports_overviews_panels_and_verbs_are_registered_and_forgotten(tmp_path: Path) -> None:
    class Cards(mk.extend.Operations):
        policy = "cards"

    def show(corpus: mk.Corpus, rows: list[Any], moment: Any, *, most: int) -> list[str]:
        return [row["title"] for row in rows[:most]]

    page = "---\ntitle: {0}\ntype: note\n---\n# {0}\nsee [[b]]\n"
    corpus = mk.read(write_files(tmp_path, {f"{name}.md": page.format(name) for name in "abc"}))
    prompt = mk.extend.Prompt("linked", "the first pages", show, {"most": mk.extend.Param(1, "int", "How many.")})
    for thing in (Cards, prompt):
        assert mk.extend.register(thing) is thing
    functions = {"exports": lambda job: None, "overviews": lambda corpus: pa.table({"n": [1, 2]})}
    functions |= {"panels": lambda: "a panel", "commands": lambda: None}
    functions["plots"] = lambda: mk.plot.Picture("cards", [], kit.Axis(0, 1), kit.Axis(0, 1))
    for door, function in functions.items():
        mk.extend.register(function, "cards", door=door)
    with pytest.raises(mk.errors.ParameterError, match="Got 'page', one of its modules"):
        mk.extend.register(lambda: "a panel", "page", door="panels")
    with pytest.raises(mk.errors.ParameterError, match="a name that memkit does not use"):
        mk.extend.register(type("Other", (mk.extend.Operations,), {"policy": "hermes"}))
    try:
        assert isinstance(mk.store(tmp_path).cards, Cards)
        builder = mk.ContextBuilder(host="linked", most=2)
        assert len(builder.build(corpus, None, "x", as_of="2026-03-01")) == 2
        assert mk.export(corpus, tmp_path / "out", "cards").files == {}
        assert mk.overview(corpus).tables["cards"].num_rows == 2
        assert mk.panels.cards() == "a panel"
        assert mk.plot.cards().title == "cards"
        assert [command.name for command in app_for(["cards"]).registered_commands] == ["cards"]
    finally:
        mk.extend.unregister("cards")
        mk.extend.unregister(prompt)
    assert "most" not in mk.ContextBuilder.params()
    assert not hasattr(mk.store(tmp_path), "cards")
    assert not hasattr(mk.panels, "cards")
    with pytest.raises(mk.errors.ParameterError, match="layout"):
        mk.export(corpus, tmp_path / "out", "cards")


def test_a_query_of_a_package_is_asked_by_its_name_and_none_takes_one_of_memkit() -> None:
    corpus = mk.from_table({"text": ["чай", "мёд"]})
    with pytest.raises(mk.errors.ParameterError, match="expected SQL whose first line is a comment"):
        mk.extend.register("select 1", "long_texts", door="queries")
    sql = "-- Which texts are long?\n-- $least = 3\nselect text from memories where length(text) > $least order by text"
    mk.extend.register(sql, "long_texts", door="queries")
    mk.extend.register("-- Which?\nselect 1", "near_empty", door="queries")
    try:
        assert corpus.named("long_texts", least=2).fetchall() == [("мёд",), ("чай",)]
        assert corpus.named("near_empty").columns != ["1"]
    finally:
        mk.extend.unregister("long_texts")
        mk.extend.unregister("near_empty")
    assert "long_texts" not in mk.named_queries()["name"].to_pylist()


def test_what_looks_before_a_change_is_written_may_refuse_it(tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def look(edits: mk.Edits) -> None:
        seen.append(tuple(edits.table["path"].to_pylist()))
        if len(seen) > 1:
            raise mk.errors.ChangeRefusedError("nothing more today.")

    pages = mk.store(write_files(tmp_path, {"a.md": "# A\n"})).pages
    mk.extend.register(look, "watchman", door="before_apply")
    try:
        pages.rename("a.md", "b.md")
        with pytest.raises(mk.errors.ChangeRefusedError, match="nothing more today"):
            pages.rename("b.md", "c.md")
    finally:
        mk.extend.unregister("watchman")
    assert seen[0] == ("a.md",)
    assert [path.name for path in tmp_path.glob("*.md")] == ["b.md"]


CHECKING = '''
"""A package's check: no title is a single word."""

import memkit as mk


def find(tables):
    memories = tables["memories"].select(["path", "memory_id", "line_start", "title"]).to_pylist()
    for row in memories:
        if " " not in row["title"]:
            yield {"path": row["path"], "got": row["title"], "line": row["line_start"], "memory_id": row["memory_id"]}


CHECK = mk.extend.Check("one_word", "error", "a title of several words", find, "Say more.")
'''


def rows_of(corpus: mk.Corpus, code: str) -> list[tuple[str, int | None, str, str]]:
    names = ("path", "line", "severity", "message")
    found = corpus.problems.filter(pc.field("rule") == code).to_pylist()
    return [tuple(row[name] for name in names) for row in found]


@pytest.mark.quick
def test_a_package_has_a_check_of_its_own_over_all_that_is_read(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(site.parent / "cache"))
    root = write_files(site.parent / "folder", {"MEMORY.md": "# Пул\nДесять соединений.\n# О чае\nЗелёный.\n"})
    before = mk.read(root, cache=True)
    install(site, "our_rules", CHECKING, "[memkit.rules]\none_word = {name}:CHECK\n")
    row = ("MEMORY.md", 1, "error", "MEMORY.md:1: expected a title of several words. Got 'Пул'. Say more.")
    read = [mk.read(root), before.refresh(), mk.read(root, cache=True), mk.read(root, cache=True)]
    assert [rows_of(corpus, "one_word") for corpus in read] == [[row]] * 4
    assert read[-1].snapshot, "what the check found is no reason to keep the memories anew"
    assert [name["code"] for name in mk.rules().to_pylist() if name["checks"] == "a title of several words"]
    with pytest.raises(SystemExit, match="1"):
        app(["check", str(root)])
    assert "Say more." in capsys.readouterr().out

    write_files(root, {"MEMORY.md": "# О пуле\nДесять соединений.\n"})
    assert rows_of(read[1].refresh(), "one_word") == []
    for name in ("entry_points.txt", "METADATA"):
        (site / "our_rules-1.5.dist-info" / name).unlink()
    (site / "our_rules-1.5.dist-info").rmdir()
    write_files(root, {"MEMORY.md": "# Пул\nДесять соединений.\n# О чае\nЗелёный.\n"})
    assert "one_word" not in mk.rules()["code"].to_pylist()
    gone = [mk.read(root), read[1].refresh(), mk.read(root, cache=True)]
    assert [corpus.problems.to_pylist() for corpus in gone] == [before.problems.to_pylist()] * 3


@pytest.mark.parametrize(
    "found",
    [
        {"path": "MEMORY.md"},
        {"path": None, "got": 1},
        {"path": "MEMORY.md", "got": 1, "line": "one"},
        "a row",
        SystemExit(3),
    ],
)
def test_a_check_that_fails_is_one_row_and_the_read_goes_on(tmp_path: Path, found: Any) -> None:
    def find(tables: dict[str, pa.Table]) -> Iterator[Any]:
        tables.pop("memories")
        yield {"path": "MEMORY.md", "got": "nothing"}
        if isinstance(found, BaseException):
            raise found
        yield found

    root = write_files(tmp_path, {"MEMORY.md": "# Пул\nДесять соединений.\n"})
    plain = mk.read(root)
    check = mk.extend.register(mk.extend.Check("ours", "error", "something", find))
    try:
        [(path, line, severity, message)] = rows_of(mk.read(root, errors="raise"), "ours")
        assert (path, line, severity) == (".", None, "warning")
        assert message.startswith(".: expected the check 'ours' of another package to end. Got ")
        corpus = plain.refresh()
        assert (corpus.memories, len(rows_of(corpus, "ours"))) == (plain.memories, 1)
    finally:
        mk.extend.unregister(check)
    assert corpus.refresh().problems == plain.problems
    for code, severity in (("secret", "error"), ("two words", "error"), ("ours", "fatal")):
        with pytest.raises(mk.errors.ParameterError):
            mk.extend.register(mk.extend.Check(code, severity, "something", find))
