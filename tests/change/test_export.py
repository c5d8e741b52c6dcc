"""What an export says is held reads back equal, over all pairs of layouts; what it does not hold is in its table."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.base.plugins import EXPORTS
from memkit.change import export
from memkit.change.export import COMPARED, LINK_TYPES, Export
from memkit.change.export import LINKS as LINKS_NAME
from memkit.errors import ChangeRefusedError, FormatError
from memkit.formats.reader import read_with
from memkit.schemas import STATUSES
from memkit.tables.samples import sample_data, write_files
from tests.folders import text_tree

DAY = "2026-03-01"
LAYOUTS = (*export.LAYOUTS, *EXPORTS.names())
LAYOUTS_OF_HOSTS = ("hermes", "mcp-graph", "memfs", "serena", "basic-memory", "okf", "vault")
LINKS = {LINKS_NAME, LINK_TYPES}
words = st.text("абвгдежзabcdefg", min_size=3, max_size=8)
sentences = st.lists(words, min_size=3, max_size=9).map(lambda found: " ".join(found).capitalize() + ".")
paragraphs = st.lists(sentences, min_size=1, max_size=3).map("\n\n".join)
days = st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)
moments = st.one_of(st.none(), days, days.map(lambda moment: moment.replace(hour=0, minute=0, second=0)))
memories = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.one_of(sentences, paragraphs),
            "title": st.one_of(st.just(""), sentences),
            "description": st.one_of(st.none(), sentences),
            "tags": st.lists(words, max_size=3, unique=True),
            "status": st.one_of(st.none(), st.sampled_from(STATUSES)),
            "user_id": st.one_of(st.none(), st.sampled_from(["anna", "boris_7"])),
            "scope": st.one_of(st.none(), words),
            "importance": st.sampled_from([None, "high", "low"]),
            "created_at": moments,
            "expires_at": moments.map(lambda day: day and day.replace(hour=0, minute=0, second=0)),
        }
    ),
    min_size=6,
    max_size=9,
    unique_by=lambda row: row["text"],
)


def is_given(row: dict[str, Any], name: str) -> bool:
    return row[name] not in (None, "", [], False)


def check(corpus: mk.Corpus, planned: Export, folder: Path) -> None:
    """Each memory is in the table once, each of its columns in one list, and what is held is there in the new files."""
    back = {row["memory_id"]: row for row in mk.read(folder).memories.to_pylist()}
    files, rows, table = text_tree(folder), corpus.memories.to_pylist(), planned.table.to_pylist()
    assert [row["memory_id"] for row in table] == [row["memory_id"] for row in rows]
    for row, exported in zip(rows, table, strict=True):
        listed = [*exported["held"], *exported["beside"], *exported["lost"]]
        extra = ["extra"] if set(json.loads(row["extra"])) - {"#", "(parts)"} else []
        assert sorted(set(listed) - LINKS) == sorted([*extra, *(name for name in COMPARED if is_given(row, name))])
        assert len(listed) == len(set(listed))
        if exported["path"] is None:
            assert exported["reason"]
            assert not exported["held"]
            continue
        read_back, text = back[exported["to_id"]], files[exported["path"]]
        assert read_back["path"] == exported["path"]
        for name in set(exported["held"]) - LINKS - {"extra"}:
            if name == "text":
                assert row["text"].strip("\n") == read_back["text"].strip("\n") or row["text"].strip("\n") in text
            elif name == "title":
                assert row["title"] in (read_back["title"], read_back["heading_path"]) or row["title"] in text
            elif name in ("tags", "aliases"):
                assert set(read_back[name]) == set(row[name])
            elif name != "superseded_by":
                assert read_back[name] == row[name], name
        for name in exported["beside"]:
            values = row[name] if isinstance(row[name], list) else [str(row[name])[:10]]
            assert all(value.lower() in text.lower() for value in values), name


def exported(corpus: mk.Corpus, layout: str, folder: Path) -> Export:
    """The export, applied into a folder that did not exist."""
    planned = mk.export(corpus, folder, layout, user_id="shared", as_of=DAY)
    assert not folder.exists()
    planned.apply()
    assert text_tree(folder) == planned.files
    return planned


@settings(max_examples=1)
@given(memories)
def test_what_is_held_reads_back_equal_over_all_pairs_of_layouts(rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([mk.schemas.TABLES["memories"].field(name) for name in rows[0]])
    table = mk.from_table(pa.Table.from_pylist(rows, schema=schema))
    with tempfile.TemporaryDirectory() as name:
        for source in LAYOUTS:
            first = Path(name) / source
            check(table, exported(table, source, first), first)
            corpus = mk.read(first)
            for target in LAYOUTS:
                second = Path(name) / f"{source} to {target}"
                try:
                    check(corpus, exported(corpus, target, second), second)
                except AssertionError as error:
                    error.add_note(f"from {source} to {target}")
                    raise


@pytest.mark.outside
@settings(max_examples=3)
@given(memories)
def test_what_a_layout_can_hold_is_held(rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([mk.schemas.TABLES["memories"].field(name) for name in rows[0]])
    corpus = mk.from_table(pa.Table.from_pylist(rows, schema=schema))
    with tempfile.TemporaryDirectory() as name:
        for layout in ("okf", "obsidian", "basic-memory"):  # what has no key of its own stands under the column's name
            table = mk.export(corpus, Path(name) / layout, layout, as_of=DAY).table
            assert table["lost"].to_pylist() == [[]] * len(rows), layout
            assert {word for words in table["beside"].to_pylist() for word in words} <= {"importance"}
        notes = mk.export(corpus, Path(name) / "notes", "notes", as_of=DAY).table
        assert notes["lost"].to_pylist() == [[]] * len(rows)
        graph = mk.export(corpus, Path(name) / "graph", "mcp-graph", as_of=DAY).table.to_pylist()
        titles = [row["title"] for row in rows]
        for row, exported in zip(rows, graph, strict=True):
            wanted = {"text", "title", "scope"} & {key for key, value in row.items() if value}
            assert titles.count(row["title"]) > 1 or wanted <= set(exported["held"])


@pytest.mark.outside
@pytest.mark.quick
def test_a_page_goes_through_every_layout_of_pages_unchanged(tmp_path: Path) -> None:
    for name in ("okf", "memfs", "basic-memory", "serena"):
        corpus, texts = mk.read(sample_data() / "layouts" / name), None
        for number, layout in enumerate(("okf", "basic-memory", "obsidian", "okf")):
            folder = tmp_path / f"{name} {number}"
            planned = exported(corpus, layout, folder)
            lost = {word for row in planned.table.to_pylist() for word in row["lost"]}
            # A link by Serena's names, mem:name, is one in Serena alone; a type of a link is read in basic-memory.
            assert lost <= ({"links"} if name == "serena" else set()) | {"link_types"}, (name, layout)
            corpus = mk.read(folder)
            bodies = {
                path: text.split("\n---\n", 1)[-1].strip()
                for path, text in text_tree(folder).items()
                if path != "index.md"
            }
            assert texts in (None, bodies)
            texts = bodies


def test_every_memory_of_the_samples_is_in_the_table(tmp_path: Path) -> None:
    samples = {name: mk.read(sample_data() / "layouts" / name) for name in LAYOUTS_OF_HOSTS}
    samples |= {name: mk.read(sample_data() / name) for name in ("notes", "records", "index_tree")}
    # Each goes into every second layout, the next one into the others: all pairs are drawn above.
    for number, (name, corpus) in enumerate(samples.items()):
        for layout in LAYOUTS[number % 2 :: 2]:
            folder = tmp_path / f"{name} {layout}"
            check(corpus, exported(corpus, layout, folder), folder)


@pytest.mark.quick
def test_what_a_fact_cannot_hold_is_named_and_nothing_is_cut(tmp_path: Path) -> None:
    texts = ["ж" * 11, "ж" * 12, "ж" * 240, "ж" * 241, "первая строка\nвторая строка", "[exp:2026-01-01] не тег"]
    corpus = mk.from_table({"text": texts, "user_id": ["u", "u", "u", "u", "u", None]})
    rows = mk.export(corpus, tmp_path / "f", "facts", as_of=DAY).table.to_pylist()
    assert [row["path"] for row in rows] == [None, *["users/u/archive.md"] * 2, None, "users/u/archive.md", None]
    assert ["text" in row["held"] for row in rows] == [False, True, True, False, False, False]
    reasons = [row["reason"] for row in rows]
    assert reasons[0] == "a fact has 12 to 240 characters, not 11"
    assert reasons[3] == "a fact has 12 to 240 characters, not 241"
    assert reasons[4] == "a fact is one line, so its lines are joined"
    assert reasons[5] == "a fact belongs to a user: give user_id="
    with_user = mk.export(corpus, tmp_path / "f", "facts", user_id="anna", as_of=DAY).table.to_pylist()[5]
    assert "'text' must not open with a tag" in with_user["reason"]


@pytest.mark.quick
def test_facts_keep_their_ids_types_and_days_and_counters(tmp_path: Path) -> None:
    corpus = mk.read(sample_data() / "facts")
    planned = exported(corpus, "facts", tmp_path / "f")
    rows = {row["memory_id"]: row for row in planned.table.to_pylist()}
    facts = [row for row in corpus.memories.to_pylist() if row["kind"] in ("profile", "working", "archive")]
    valid = [row for row in facts if 12 <= len(row["text"]) <= 240]
    assert len(valid) > 100
    for row in valid:
        if row["source_id"]:
            assert not rows[row["memory_id"]]["lost"], row["memory_id"]
    assert "counter_mismatch" not in mk.read(tmp_path / "f").problems["rule"].to_pylist()


@pytest.mark.outside
def test_relations_of_a_graph_are_relations_of_a_graph(tmp_path: Path) -> None:
    corpus = mk.read(sample_data() / "layouts" / "mcp-graph")
    planned = exported(corpus, "mcp-graph", tmp_path / "g")
    query = "select f.source_id, type, t.source_id from relations join memories f on f.memory_id = from_id"
    query += " join memories t on t.memory_id = to_id order by all"
    assert mk.read(tmp_path / "g").sql(query).fetchall() == corpus.sql(query).fetchall()
    n_linking = len(set(corpus.tables["relations"]["from_id"].to_pylist()))
    for name in LINKS:
        assert sum(name in held for held in planned.table["held"].to_pylist()) == n_linking == 7


@pytest.mark.outside
def test_links_and_their_types_go_from_a_graph_to_pages_and_back(tmp_path: Path) -> None:
    def relations(corpus: mk.Corpus) -> list[tuple[str, str, str]]:
        """From which text, how, to which page or entity: what stays the same where ids do not."""
        names = {row["memory_id"]: row["title"] or row["text"] for row in corpus.memories.to_pylist()}
        table = corpus.tables["relations"].to_pylist()
        return sorted({(names[row["from_id"]], row["type"], names[row["to_id"]]) for row in table})

    corpus = mk.read(sample_data() / "layouts" / "mcp-graph")
    pages = exported(corpus, "basic-memory", tmp_path / "pages")
    assert not [row for row in pages.table.to_pylist() if row["lost"]]
    assert relations(mk.read(tmp_path / "pages")) == relations(corpus)
    back = exported(mk.read(tmp_path / "pages"), "mcp-graph", tmp_path / "graph")
    assert "links" not in {word for row in back.table.to_pylist() for word in row["lost"]}
    assert relations(mk.read(tmp_path / "graph")) == relations(corpus)


def test_nothing_is_written_before_apply_and_it_can_be_undone(tmp_path: Path) -> None:
    corpus = mk.from_table({"text": ["Деплой по вторникам"]})
    folder = tmp_path / "new" / "deep"
    planned = mk.export(corpus, folder, "okf", as_of=DAY)
    assert "+Деплой по вторникам" in planned.diff()
    assert not (tmp_path / "new").exists()
    planned.apply()
    mk.undo(folder)
    assert not text_tree(folder)
    planned.apply()
    for work in (planned.apply, lambda: mk.export(corpus, folder, "okf")):
        with pytest.raises(ChangeRefusedError, match="expected an empty folder"):
            work()
    with pytest.raises(mk.errors.ParameterError, match="'layout' must be one of"):
        mk.export(corpus, tmp_path / "x", "okff")
    with pytest.raises(mk.errors.FormatError, match="expected a folder"):
        mk.export(corpus, write_files(tmp_path / "y", {"a.txt": "x"}) / "a.txt", "okf")


@pytest.mark.outside
def test_hostile_names_and_texts_stay_within_the_folder(tmp_path: Path) -> None:
    odd = [
        "../../etc/passwd",
        "/abs",
        "a\\b",
        "con:",
        "x" * 300,
        " . ",
        "---",
        "\u2028",
        "[[x]]",
        "# h",
        "users/a/profile",
    ]
    corpus = mk.from_table({"text": [f"{name} — текст подлиннее\n---\nid: x" for name in odd], "title": odd})
    folder = write_files(tmp_path / "src", {"MEMORY.md": "# b\nтекст", "memory.MD": "# c\nтекст"})
    for number, (source, layout) in enumerate(
        (source, layout) for source in (corpus, mk.read(folder)) for layout in LAYOUTS
    ):
        place = tmp_path / f"out{number}"
        check(source, exported(source, layout, place), place)
    assert {path.name for path in tmp_path.iterdir()} == {"src", *(f"out{number}" for number in range(12))}


ODD_NAMES = (
    *("a\u2028b", "a\u00adb", "a\u200bb", "///", "..", "aux", "con/x", "a/lpt1.x/b", "é" * 150, "node_modules/x"),
    *("Чай", "чай", "Ко/x", "ко/y", "page", "page.md/x", "index.md/x", " .a", "x ", "a\u00a0c", "nul .", "c:d?"),
)


def test_an_odd_name_is_changed_or_refused_in_its_row_and_the_others_are_written(tmp_path: Path) -> None:
    """Also names that Windows keeps for devices, and those that some systems cannot tell apart."""
    users = ["..", "con", "anna", "Anna", "anna.", "a" * 300, "a/b", "node_modules", ""]
    text = "Пул соединений вырос до десяти"
    names = [*ODD_NAMES, *("ясно" for _ in users)]
    rows = {
        "memory_id": [str(number) for number in range(len(names))],
        "text": [f"# Пул {number}\n\n{text} и {number}" for number, _ in enumerate(names)],
        "path": [f"{name}.md" for name in names],
        "kind": ["document"] * len(names),
        "user_id": [*(["boris"] * len(ODD_NAMES)), *users],
    }
    corpus = mk.from_table(rows)
    for layout in LAYOUTS:
        planned = exported(corpus, layout, tmp_path / layout)
        check(corpus, planned, tmp_path / layout)
        paths = {row["memory_id"]: row["path"] for row in planned.table.to_pylist()}
        assert all(path is None or path.isprintable() for path in paths.values())
        refused = {name for name, path in zip(names, paths.values(), strict=True) if path is None}
        assert refused <= ({"node_modules/x"} if layout != "facts" else {"node_modules/x", "ясно"})
        if layout == "facts":
            folders = [path and path.split("/")[1] for path in list(paths.values())[len(ODD_NAMES) :]]
            assert folders == [None, "con_", "anna-2", "Anna", "anna-3", None, None, None, "shared"]
        if layout == "obsidian":
            assert {"aux_.md", "con_/x.md", "a/lpt1_.x/b.md", "nul_.md"} <= planned.files.keys()


def test_planning_leaves_no_text_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed there cannot clean it up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[Path] = []

    def looked(*args: Any) -> Any:
        seen.extend(path for path in tmp_path.rglob("*") if path.is_file())
        return read_with(*args)

    monkeypatch.setattr("memkit.change.export.read_with", looked)
    assert mk.export(mk.from_table({"text": ["Пул"]}), tmp_path / "out", "okf").diff()
    assert not seen


def test_a_link_that_leads_nowhere_is_no_folder_to_export_to(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"expected a folder. Got a link that leads nowhere"):
        mk.export(mk.from_table({"text": ["Пул"]}), tmp_path / "out", "okf")


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = mk.from_table({"text": ["Пул"]})
    planned, file = mk.export(corpus, tmp_path / "new/out", "okf"), tmp_path / "a.txt"
    file.write_text("x", "utf-8")
    with pytest.raises(FormatError, match=rf"expected a folder that can be made and written. Got a file, {file}\.$"):
        mk.export(corpus, file / "b/out", "okf")
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    with pytest.raises(FormatError, match=r"new/out: expected .* written. Got Operation not permitted.$"):
        planned.apply()
