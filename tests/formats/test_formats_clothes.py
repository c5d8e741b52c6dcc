"""Heads in other clothes, underlined headings, and drawings: what is a field, a section, a row, and no memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import memkit as mk
from memkit.base.fences import fences, headings
from memkit.formats.spelling import unread_head
from memkit.formats.syntax.front_matter import split
from memkit.tables.samples import write_files
from tests.test_growth import assert_grows_linearly


def found(text: str) -> list[tuple[int, int, str]]:
    return [(heading.line, heading.level, heading.text) for heading in headings(text, fences(text))]


HEADINGS = {
    "equal signs": ("Чай\n===\nпьём\n\nМёд\n=====\n", [(1, 1, "Чай"), (5, 1, "Мёд")]),
    "dashes": ("a\n\n  Чай зелёный\n  ---  \nпьём", [(3, 2, "Чай зелёный")]),
    "beside marks": ("# A\n\nB\n---\n## C\n", [(1, 1, "A"), (3, 2, "B"), (5, 2, "C")]),
    "a rule below text": ("one\ntwo\n---\nthree\n", []),
    "a rule alone": ("one\n\n---\n\nthree\n", []),
    "a long line": (f"{'слово ' * 12}\n---\n", []),
    "a list": ("- one\n---\n\n1. one\n---\n\n> one\n---\n\n| a |\n---\n", []),
    "a link": ("[back](a.md)\n---\n", []),
    "code": ("```\n\nA\n---\n```\n", []),
    "a conflict": ("<<<<<<< a\n\nA\n=======\nB\n>>>>>>> b\n", []),
    "blanks alone": ("\n\n \n===\n", []),
}


@pytest.mark.quick
def test_underlined_headings_are_those_below_a_blank_line(subtests: pytest.Subtests) -> None:
    for name, (text, expected) in HEADINGS.items():
        with subtests.test(name):
            assert found(text) == expected


@pytest.mark.quick
def test_underlined_headings_begin_sections_and_leave_other_ids_alone(tmp_path: Path) -> None:
    marked = "# Чай\nпьём\n\n## Мёд\nедим\n"
    before = mk.read(write_files(tmp_path / "a", {"tea.md": marked}))
    text = f"Чай\n===\nсорта\n\nМолоко\n---\nльём\n\nПусто\n---\n\n{marked}"
    corpus = mk.read(write_files(tmp_path / "b", {"tea.md": text}))
    rows = {row["memory_id"]: row["text"] for row in corpus.memories.to_pylist()}
    kept = before.memories["memory_id"].to_pylist()
    assert [rows[memory_id] for memory_id in kept] == before.memories["text"].to_pylist()
    (first,) = [name for name in rows if name.startswith("workspace:tea.md#чай~")]
    assert rows[first] == "Чай\n===\nсорта\n"
    assert rows["workspace:tea.md#молоко"] == "Молоко\n---\nльём\n"
    assert [row["rule"] for row in corpus.problems.to_pylist()] == ["empty_section", "unclaimed"]


@pytest.mark.quick
def test_in_a_transcript_a_line_that_is_underlined_is_said(tmp_path: Path) -> None:
    text = "user: вот\n\nЧай\n---\n\nassistant: да\n"
    corpus = mk.read(write_files(tmp_path, {"sessions/2026-02-24-a.md": text}))
    assert corpus.tables["turns"]["text"].to_pylist() == ["вот\n\nЧай\n---", "да"]


HEADS: dict[str, tuple[str, str | None]] = {
    "properties": ("Title: Чай\nTags: a, b\n\nтекст", "lines of properties (Title, Tags)"),
    "in bold": ("# Чай\n\n**Дата:** 2026-01-02\n**Кто:** Анна\n", "lines of properties (Дата)"),
    "double colons": ("\ntags:: чай\nтекст", "lines 'key::' (tags)"),
    "fenced": ("```yaml\ntitle: Чай\nprice: 1\n```\n", "a fenced yaml block (title)"),
    "a comment": ("# Чай\n\n<!--\ntitle: Чай\n-->\n\nтекст", "a block of fields (title)"),
    "another comment": ("<!-- пьём -->\n\nтекст", None),
    "semicolons": (';;;\n"title": "Чай"\n;;;\nтекст', "a block of fields (title)"),
    "keywords": ("#+TITLE: Чай\n#+DATE: 2026-07-12\n\nтекст", "lines of properties (TITLE, DATE)"),
    "facts": ("Анна: чай\nБорис: кофе\n", None),
    "prose": ("Date: не сегодня\nи не завтра, а когда-нибудь\n", None),
    "one line": ("Date: 2026-01-02\n\nтекст", None),
    "code": ("```yaml\nkind: Pod\nimage: a\n```\n", None),
    "not at the top": ("текст\n\nTitle: Чай\nTags: a\n", None),
    "nothing": ("", None),
}


def test_a_head_in_other_clothes_is_a_row(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, (text, expected) in HEADS.items():
        with subtests.test(name):
            head = unread_head(text)
            assert (head and head[1]) == expected
    files = {f"vault/{number}.md": HEADS["properties"][0] for number in range(40)} | {"vault/.obsidian/a.json": "{}"}
    (row,) = mk.read(write_files(tmp_path, files)).problems.to_pylist()
    assert (row["rule"], row["severity"], row["path"]) == ("unread_head", "info", "vault")
    assert "40 files, first vault/0.md" in row["message"]


def test_json_on_one_line_is_a_head_where_it_stands_alone() -> None:
    front = split('\n{"title": "Чай", "tags": ["a", "b"]}\n\n# Чай\n')
    assert front is not None
    assert (front.fields, front.syntax, front.body_line) == ({"title": "Чай", "tags": ["a", "b"]}, "JSON", 3)
    assert front.fields.lines == {"title": 2, "tags": 2}
    assert split('{"title": "Чай"}\n{"title": "Мёд"}\n') is None
    assert split('{"title": "Чай"\n\n') is None
    assert split("{не JSON}\n\nтекст") is None


def test_a_head_may_name_its_syntax() -> None:
    for text in (
        "---yaml\ntitle: Чай\n---\nпьём\n",
        "---toml\ntitle = 'Чай'\n---\nпьём\n",
        '---json\n{"title": "Чай"}\n---\n',
    ):
        front = split(text)
        assert front is not None
        assert front.fields == {"title": "Чай"}


DATA = "N4KAkARALgngDgUwgBAQQQDwMYEMA2AlgCYBOuA7hADTgQBuCpAzoQPYB2KqATLZMzYBXUtiRoIACyhQ4zZAHoFAc0JR"
DRAWINGS = {
    "excalidraw": f"# Excalidraw Data\n\n## Text\nЧай ^a1\n\n%%\n## Drawing\n```compressed-json\n{DATA * 20}\n```\n%%",
    "plain": '# Чай\nпьём\n\n# Drawing\n```json\n{\n "type":"excalidraw",\n "version":2}\n```\n%%\n',
    "tldraw": '# Чай\nпьём\n\n```json !!!_START_OF_TLDRAW_DATA__DO_NOT_CHANGE_THIS_PHRASE_!!!\n{"a": 1}\n```\n',
}


def test_the_data_of_a_drawing_are_no_memory(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, text in DRAWINGS.items():
        with subtests.test(name):
            corpus = mk.read(write_files(tmp_path / name, {"tea.md": f"---\nexcalidraw-plugin: parsed\n---\n{text}"}))
            texts = "\n".join(corpus.memories["text"].to_pylist())
            assert ("Чай" in texts, "```" in texts) == (True, False)
            assert "the data of a drawing" in " ".join(corpus.problems["message"].to_pylist())
    torn = mk.read(write_files(tmp_path / "torn", {"tea.md": f"# Drawing\n```compressed-json\n{DATA}\n"}))
    assert DATA in torn.memories["text"][0].as_py(), "a fence that never closes is text"
    code = mk.read(write_files(tmp_path / "code", {"tea.md": '# A\n```json\n{"type": "tea"}\n```\n'}))
    assert '"tea"' in code.memories["text"][0].as_py()


def test_heads_and_headings_are_found_in_linear_time() -> None:
    def underlined(text: str) -> None:
        for _ in headings(text, fences(text)):
            pass

    reads: tuple[Callable[[str], object], ...] = (underlined, unread_head, split)
    units = ("\n\na\n---\n", "\n ", "---", "a\n===", "\n\n" + "a" * 50, "a: b\n", '{"a": ', '{"a"}', "**a:** b\n", "\t")
    for read in reads:
        for unit in units:
            assert_grows_linearly(read, partial(str.__mul__, unit), 20_000)


def test_a_hostile_head_ends_no_read(tmp_path: Path) -> None:
    signs = random.Random(1).choices('a:=-#{}[]"`~\n \t%*', k=3000)
    files = {f"{n}.md": "".join(signs[n * 100 :]) for n in range(20)} | {"deep.md": '{"a": ' + "[" * 999 + "}\n\n"}
    corpus = mk.read(write_files(tmp_path, files))
    assert {*corpus.memories["path"].to_pylist()} == {*files}
    assert all(json.loads(extra) is not None for extra in corpus.memories["extra"].to_pylist())


def test_many_rows_of_a_folder_that_say_that_something_is_empty_are_one(tmp_path: Path) -> None:
    files = {f"v/{number}.md": "# Заголовок\n" for number in range(10)} | {"w/a.md": "# A\n", "w/b.md": "# B\n"}
    files |= {f"d/{number // 2}/{number % 2}.md": "# Д\n" for number in range(50)}  # few of each folder
    corpus = mk.read(write_files(tmp_path, files))
    rows = [row for row in corpus.problems.to_pylist() if row["rule"] == "empty_section"]
    told = [(row["path"], row["memory_id"]) for row in rows]
    assert told == [("d", None), ("v", None), ("w/a.md", "workspace:w/a.md#a"), ("w/b.md", "workspace:w/b.md#b")]
    assert "50 rows, first d/0/0.md" in rows[0]["message"]
    assert "10 rows, first v/0.md" in rows[1]["message"]
    (tmp_path / "v/9.md").write_text("# Заголовок\nтекст\n", "utf-8")
    later = [row["path"] for row in corpus.refresh().problems.to_pylist() if row["rule"] == "empty_section"]
    assert later == ["d", *(f"v/{number}.md" for number in range(9)), "w/a.md", "w/b.md"]


def test_what_many_files_of_a_folder_say_wrong_in_the_same_field_is_one_row(tmp_path: Path) -> None:
    """A folder may be called as a message begins; files that say another thing have rows of their own."""
    page = "---\ntitle: t{0}\nimportance: {1}\n---\nтекст {0}\n"
    folders = ("люди", "a: expected x", "few")
    files = {f"{folder}/{n}.md": page.format(n, 7) for folder in folders[:2] for n in range(60)}
    files |= {f"few/{number}.md": page.format(number, 7) for number in range(5)}
    files |= {f"люди/x{number}.md": page.format(number, 100 + number) for number in range(3)}
    corpus = mk.read(write_files(tmp_path, files))
    paths = [row["path"] for row in corpus.problems.to_pylist() if row["rule"] == "bad_value"]
    assert paths == ["a: expected x", *(f"few/{n}.md" for n in range(5)), "люди", *(f"люди/x{n}.md" for n in range(3))]
    told = [row["message"] for row in corpus.problems.to_pylist() if row["path"] == "люди"]
    assert [text.partition(" rows, first ")[0] for text in told] == ["люди: 60"]


@pytest.mark.outside
def test_fields_of_russian_names_and_of_other_programs_are_read(tmp_path: Path) -> None:
    files = {
        "wiki/a.md": "---\nназвание: Тара\nобновлено: 04.07.2026\nтеги: [склад]\nimportance: высокая\n---\nЯщики.\n",
        "wiki/c.md": "---\ntitle: C\nttl: 14d\n---\nСкидка.\n",
        "keep/a.json": '{"textContent": "Второй склад откроется осенью", "createdTimestampUsec": 1782889500000000}',
        "wiki/d.md": "---\nимя: Анна\nсоздан: 01.07.2026\nТэги: гости\nважность: высокая\nОбновлён: 04.07.2026\n"
        "краткое описание: о ней\nпроверено: 2026-07-05\nгоден до: 2027-01-01\nуверенность: 0.5\n---\nЧай.\n",
        ".serena/memories/a.md": "# Релиз\nUpdated: 5 марта 2026\n- тег\n",
        "utf16.md": "Короб большой".encode("utf-16"),
    }
    corpus = mk.read(write_files(tmp_path, files))
    rows = {row["path"]: row for row in corpus.memories.to_pylist()}
    assert [rows["wiki/a.md"][name] for name in ("title", "tags", "importance")] == ["Тара", ["склад"], "high"]
    names = ("title", "tags", "importance", "description", "confidence")
    assert [rows["wiki/d.md"][name] for name in names] == ["Анна", ["гости"], "high", "о ней", 0.5]
    dates = [str(rows["wiki/d.md"][f"{name}_at"])[:10] for name in ("created", "updated", "verified", "expires")]
    assert dates == ["2026-07-01", "2026-07-04", "2026-07-05", "2027-01-01"]
    days = {path: str(row["updated_at"])[:10] for path, row in rows.items() if row["updated_at"]}
    assert sorted(days.values()) == ["2026-03-05", "2026-07-01", "2026-07-04", "2026-07-04"]
    said = {row["path"]: row["message"].partition(". Got ")[2] for row in corpus.problems.to_pylist()}
    assert "Write a unit, as in 14d. It counts from the day when the memory was made" in said["wiki/c.md"]
    assert said["utf16.md"] == "utf-16-le, read as such. Save it as UTF-8 to change it."


def test_the_fields_that_joplin_writes_at_the_end_of_a_note_are_a_row_a_folder(tmp_path: Path) -> None:
    """A line of a text that ends as they do is none, however long the text is."""
    tail = "id: {0:032x}\nparent_id: {0:032x}\ncreated_time: 2026-07-01T07:05:00.000Z\nauthor: \ntype_: 1"
    files = {f"{n:032x}.md": f"Чай {n}\n\nЗелёный.\n\n{tail.format(n)}" for n in range(3)}
    corpus = mk.read(
        write_files(tmp_path, files | {"a.md": "# Чай\n\nполе\ntype_: 1", "b.md": "id: " * 300_000 + "\ntype_: 1"})
    )
    (row,) = (row for row in corpus.problems.to_pylist() if row["rule"] == "unread_head")
    assert "3 files, first" in row["message"]
    assert "fields at its end (id, created_time, updated_time)" in row["message"]
