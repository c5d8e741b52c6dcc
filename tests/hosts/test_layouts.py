"""basic-memory, MemFS and Serena: what they add to linked notes, and how they are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.hosts.basic_memory import Observation, Relation, observation, relation
from memkit.tables.samples import sample_data, write_files

LAYOUTS = sample_data() / "layouts"
GRAMMAR: dict[str, Observation | Relation | None] = {
    "- [decision] В копейках #деньги (после сверки)": Observation(
        "decision", "В копейках #деньги", ("деньги",), "после сверки"
    ),
    "* [tech stack]  Go #go#queue": Observation("tech stack", "Go #go#queue", ("go", "queue"), None),
    "  + [fact] вложенный": Observation("fact", "вложенный", (), None),
    "- Кофе варит сам #кофе": Observation(None, "Кофе варит сам #кофе", ("кофе",), None),
    "- [fact] (всё в скобках)": Observation("fact", "(всё в скобках)", (), None),
    "- [fact] a (b) c": Observation("fact", "a (b) c", (), None),
    "- [fact] issue #12, цвет #fff": Observation("fact", "issue #12, цвет #fff", ("fff",), None),
    "- [x] Перенести таблицу #деньги": None,
    "- [ ] Перенести #деньги": None,
    "- [-] Отменено #деньги": None,
    "- [!] Важно #деньги": None,
    "- [] пусто #деньги": None,
    "- [00:12] начало #встреча": None,
    "- [1:02:03] конец": None,
    "- [ссылка](a.md) #тег": None,
    "- [[Склад]] #тег": None,
    "- просто слова": None,
    "> - [fact] чужие слова": None,
    "[fact] не пункт": None,
    "- [fact]": None,
    "- relates_to [[Склад]]": Relation("relates_to", "Склад", None),
    '- "зависит от" [[Склад|склад]] (с мая)': Relation("зависит от", "Склад|склад", "с мая"),
    "- см. также [[Склад]]": None,
    "- relates_to [[Склад]] и другое": None,
    "- [[Склад]]": None,
}


@pytest.mark.quick
def test_observations_and_relations_are_those_of_the_host() -> None:
    wrong = {}
    for line, wanted in GRAMMAR.items():
        parsed = relation(line) or observation(line)
        if parsed != wanted:
            wrong[line] = parsed
    assert not wrong


@pytest.mark.quick
def test_observations_are_a_table_beside_the_sections_that_hold_them(tmp_path: Path) -> None:
    page = (
        "---\ntitle: Склад\ntype: note\npermalink: stock\n---\n# Склад\n\n- [fact] один #a\n```\n- [fact] в коде\n```\n"
        "## Ещё\r\n- [fact] два\n- [x] задача #b\n"
    )
    corpus = mk.read(write_files(tmp_path, {"a.md": page}))
    query = "select title, category, o.text, o.line from observations o join memories using (memory_id) order by line"
    assert corpus.sql(query).fetchall() == [("Склад", "fact", "один #a", 8), ("Ещё", "fact", "два", 13)]
    texts = corpus.memories["text"].to_pylist()
    assert sum("[fact] один" in text for text in texts) == 1  # found once, in its section
    assert corpus.memories.filter(pc.equal(corpus.memories["title"], "Склад"))["tags"].to_pylist()[-1] == ["a"]


@pytest.mark.quick
def test_layouts_are_told_by_what_is_in_a_folder(tmp_path: Path) -> None:
    described = "---\ndescription: о чём\n---\nтекст\n"
    three = "- [fact] один\n- [rule] два\n- [idea] три\n"
    cases: dict[str, tuple[dict[str, Any], dict[str, str | None]]] = {
        "permalink and type": ({"a.md": "---\npermalink: a\ntype: note\n---\nx\n"}, {"a.md": "basic_memory"}),
        "three observations": ({"a.md": three}, {"a.md": "basic_memory"}),
        "two observations": ({"a.md": three.partition("- [idea]")[0]}, {"a.md": None}),
        "three check boxes": ({"a.md": "- [x] a #t\n- [x] b #t\n- [x] c #t\n"}, {"a.md": None}),
        "three observations in code": ({"a.md": f"```\n{three}```\n"}, {"a.md": None}),
        "system": (
            {"m/system/a.md": described, "m/b.md": "x\n", "c.md": "x\n"},
            {"m/system/a.md": "memfs", "m/b.md": "memfs", "c.md": None},
        ),
        "another system": ({"system/a.md": "---\ndescription: x\ntags: [a]\n---\nx\n"}, {"system/a.md": "linked"}),
        "the later MemFS": (
            {"MEMORY.md": described, "people/MEMORY.md": described, "people/a.md": "x\n"},
            {"MEMORY.md": "memfs", "people/MEMORY.md": "memfs", "people/a.md": "memfs"},
        ),
        "MEMORY.md alone": (
            {"MEMORY.md": "# a\nx\n", "people/MEMORY.md": "x\n"},
            {"MEMORY.md": None, "people/MEMORY.md": None},
        ),
        "the host's folder": (
            {".letta/agents/a1/memory/b.md": "x\n", ".letta/agents/a1/memory/skills/t/SKILL.md": "x\n"},
            {".letta/agents/a1/memory/b.md": "memfs"},
        ),
        "Serena": ({"p/.serena/memories/core/style.md": "x\n"}, {"p/.serena/memories/core/style.md": "serena"}),
    }
    wrong = {}
    for number, (name, (files, wanted)) in enumerate(cases.items()):
        memories = mk.read(write_files(tmp_path / str(number), files)).memories
        layouts = dict(zip(memories["path"].to_pylist(), memories["layout"].to_pylist(), strict=True))
        if layouts != wanted:
            wrong[name] = layouts
    assert not wrong


def test_files_of_a_memfs_have_a_description_and_keep_to_their_limit(tmp_path: Path) -> None:
    files = {
        "system/a.md": "---\ndescription: a\nlimit: 10\n---\n\n1234567890\n",
        "system/b.md": "---\ndescription: b\nlimit: 9\n---\n1234567890\n",
        "system/c.md": "---\ndescription: цены: в копейках\n---\nx\n",
        "notes/d.md": "без шапки\n",
        ".sync-state.json": "{}",
        "skills/t/SKILL.md": "---\nname: t\n---\nx\n",
    }
    corpus = mk.read(write_files(tmp_path, files))
    problems = [(row["path"], row["rule"], row["field"]) for row in corpus.problems.to_pylist()]
    over, loose = ("system/b.md", "over_limit", None), ("system/c.md", "loose_front_matter", None)
    skills = (".", "unclaimed", None)
    assert problems == [skills, ("notes/d.md", "missing_field", "description"), over, loose]
    titles = dict(zip(corpus.memories["path"].to_pylist(), corpus.memories["title"].to_pylist(), strict=True))
    assert titles == {"system/a.md": "a", "system/b.md": "b", "system/c.md": "c", "notes/d.md": "notes/d"}
    assert "цены: в копейках" in corpus.memories["description"].to_pylist()


def test_a_memory_of_serena_has_its_name_and_the_day_that_it_says(tmp_path: Path) -> None:
    files = {
        "core/style.md": "# Стиль\n\n**Date:** 2026-03-02\nтекст\n",
        "log_2026-05-01.md": "текст\n",
        "both.md": "Created: 2026-01-01\n- **Updated**: 2026-02-02\n",
        "none.md": "The date: 2026-01-01 is text\n\nDate: soon\n",
        "sessions/a.md": "user: привет\n",
    }
    corpus = mk.read(write_files(tmp_path, {f".serena/memories/{name}": text for name, text in files.items()}))
    rows = {row["path"].removeprefix(".serena/memories/"): row for row in corpus.memories.to_pylist()}
    days = {
        name: tuple(row[column] and row[column].date().isoformat() for column in ("created_at", "updated_at"))
        for name, row in rows.items()
    }
    assert days == {
        "core/style.md": ("2026-03-02", "2026-03-02"),
        "log_2026-05-01.md": ("2026-05-01", "2026-05-01"),
        "both.md": ("2026-01-01", "2026-02-02"),
        "none.md": (None, None),
        "sessions/a.md": (None, None),
    }
    assert "core/style" in rows["core/style.md"]["heading_path"]
    assert rows["none.md"]["title"] == "none"
    assert set(corpus.memories["kind"].to_pylist()) == {"page"}
    titles = corpus.memories["title"].to_pylist()
    for place in (".serena/memories", ".serena"):
        direct = mk.read(tmp_path / place)
        assert set(direct.memories["layout"].to_pylist()) == {"serena"}
        assert direct.memories["title"].to_pylist() == titles


def test_the_samples_have_no_problem_and_are_searched_in_both_languages(tmp_path: Path) -> None:
    questions = {
        "memfs": (("кто согласует возвраты", "Возвраты"), ("partial refunds by hand", "Partial refunds")),
        "serena": (("порядок выкладки на стенд", "выкладки"), ("make stock queue", "make stock")),
        "basic-memory": (("в чём храним цены", "копейках"), ("reserves stock minutes", "Reserves")),
    }
    for name, queries in questions.items():
        corpus = mk.read(LAYOUTS / name)
        assert "error" not in corpus.problems["severity"].to_pylist()
        search = mk.Retriever(encoder=None).fit(corpus)
        for query, wanted in queries:
            assert any(wanted in text for text in search.search(query, k=2)["text"].to_pylist()), (name, query)
        corpus.save(str(tmp_path / name))
        opened = mk.open(str(tmp_path / name))
        for table in ("memories", "observations"):
            assert opened.tables[table].equals(corpus.tables[table])


def test_a_changed_folder_is_read_anew_where_its_layout_changed(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"system/a.md": "---\ndescription: a\n---\nx\n", "b.md": "y\n"})
    before = mk.read(folder)
    assert set(before.memories["layout"].to_pylist()) == {"memfs"}
    (folder / "system/a.md").write_text("x\n", "utf-8")
    after = before.refresh()
    assert after.memories.equals(mk.read(folder).memories)
    assert set(after.memories["layout"].to_pylist()) == {None}


def test_skills_of_a_memfs_are_named(tmp_path: Path) -> None:
    block = "---\ndescription: x\n---\ny\n"
    skill = "---\nname: s\n---\ny\n"
    root = write_files(tmp_path, {"m/system/a.md": block, "m/skills/s/SKILL.md": skill, "m/skills/t/SKILL.md": skill})
    rows = [row for row in mk.read(root).problems.to_pylist() if row["rule"] == "unclaimed"]
    assert [row["path"] for row in rows] == ["m"]
    assert "2 of skills, not read, first m/skills/s/SKILL.md" in rows[0]["message"]
