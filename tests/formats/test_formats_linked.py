"""Linked notes: titles above sections, front matter as data, tags, status, contents pages, which folders they are."""

from __future__ import annotations

import json
import string
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.base.fences import fences
from memkit.formats.linked.layout import SAMPLE, spread
from memkit.formats.linked.links import links_in, without_code
from memkit.formats.linked.page import holds_title, is_contents, marks_in, tags_of
from memkit.formats.spelling import status_of
from memkit.tables.samples import write_files

LAYOUTS = Path(__file__).parents[2] / "data" / "layouts"
RETURNS = """---
type: Metric
title: Доля возвратов
description: Возвраты / заказы, без обмена
tags: [продажи, "витрина"]
aliases: [return rate]
status: Deprecated
generated: { by: agent/1.2, at: 2026-06-20T09:00:00Z }
verified: [{ by: human:anna, at: 2026-06-25T09:00:00Z }, { by: human:boris, at: 2026-06-01T09:00:00Z }]
stale_after: 2026-09-23
owner: Анна
---
# Definition
По заказам.

# Schema
День и номер.
"""


def rows_of(root: Path, files: dict[str, str], **options: Any) -> list[dict[str, Any]]:
    corpus = mk.read(write_files(root, files), **options)
    rows: list[dict[str, Any]] = corpus.memories.to_pylist()
    return rows


def by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["memory_id"].partition(":")[2]: row for row in rows}


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]  # the parts of a date


@pytest.mark.quick
def test_what_the_front_matter_says_stands_on_every_section(tmp_path: Path) -> None:
    rows = by_id(rows_of(tmp_path, {"metrics/returns.md": RETURNS}))
    assert [*rows] == [f"metrics/returns.md#{name}" for name in ("top", "definition", "schema")]
    for row in rows.values():
        assert row["layout"] == "linked"
        assert row["format"] == "workspace"
        assert (row["scope"], row["status"]) == ("Metric", "deprecated")
        assert row["tags"] == ["продажи", "витрина"]
        assert row["description"] == "Возвраты / заказы, без обмена"
        assert (row["created_at"], row["updated_at"]) == (None, moment(2026, 6, 20, 9))
        assert (row["verified_at"], row["stale_at"]) == (moment(2026, 6, 25, 9), moment(2026, 9, 23))
        assert row["expires_at"] is None, "stale is not expired"
        assert "---" not in row["text"]
        assert "owner" not in row["text"]
    head, definition, schema = rows.values()
    assert (head["kind"], head["title"]) == ("head", "Доля возвратов")
    assert head["text"] == "Доля возвратов\nВозвраты / заказы, без обмена"
    assert head["aliases"] == ["return rate"]
    assert json.loads(head["extra"]).keys() == {"generated", "verified", "owner", "status"}, (
        "as written where it differs"
    )
    above = "metrics / Доля возвратов / Возвраты / заказы, без обмена"
    assert (definition["heading_path"], schema["heading_path"]) == (above, above)
    assert definition["text"] == "# Definition\nПо заказам.\n"
    assert (definition["line_start"], definition["line_end"]) == (13, 15)


@pytest.mark.quick
def test_a_word_of_the_front_matter_alone_finds_the_page(tmp_path: Path) -> None:
    files = {"a.md": RETURNS.replace("Deprecated", "draft"), "b.md": "---\ntitle: Чай\n---\n# Сорта\nУлун и пуэр.\n"}
    search = mk.Retriever(encoder=None).fit(mk.read(write_files(tmp_path, files)))
    for query in ("Анна", "return rate", "витрина", "обмена"):
        assert search.search(query, k=1)["memory_id"].to_pylist()[0].startswith("workspace:a.md"), query
    (hit,) = search.search("сорта чая", k=1, columns=("path",)).to_pylist()
    assert (hit["path"], hit["text"]) == ("b.md", "# Сорта\nУлун и пуэр.")


@pytest.mark.quick
def test_a_title_is_not_put_above_headings_that_say_it(tmp_path: Path) -> None:
    page = (
        "---\ntitle: Return-rate!\ndescription: by day\n---\n# The return rate (metric)\na\n## Schema\nb\n# Other\nc\n"
    )
    rows = by_id(rows_of(tmp_path, {"a.md": page}))
    assert {name.partition("#")[2]: row["heading_path"] for name, row in rows.items()} == {
        "top": "",
        "the-return-rate-metric": "by day",
        "schema": "The return rate (metric) / by day",
        "other": "Return-rate! / by day",
    }


def test_without_a_title_the_only_first_heading_is_it_or_the_stem(tmp_path: Path) -> None:
    files = {"one.md": "---\ntags: a\n---\nlead\n# Чай\nx\n", "two.md": "---\ntags: a\n---\n# A\nx\n# B\ny\n"}
    rows = by_id(rows_of(tmp_path, files))
    assert rows["one.md#top"]["title"] == "Чай"
    assert (rows["two.md#top"]["title"], rows["two.md#b"]["heading_path"]) == ("two", "two")


def test_ids_are_those_of_plain_markdown_and_text_is_the_files_lines(tmp_path: Path) -> None:
    front = "---\ntitle: T\n---\n"
    bodies = ["# A\na\n## B\nb\n", "lead\n# A\na\n", "\n\n# A\na", "no heading\n", "# A\n\n## B\nb\n## B\nc\n", ""]
    files = {f"{number}.md": front + body for number, body in enumerate(bodies)}
    linked = mk.read(write_files(tmp_path, files))
    plain = mk.read(tmp_path, format="workspace")
    assert linked.memories["memory_id"].to_pylist() == plain.memories["memory_id"].to_pylist()
    for row in linked.memories.to_pylist():
        lines = files[row["path"]].split("\n")[row["line_start"] - 1 : row["line_end"]]
        assert row["kind"] == "head" or row["text"] == "\n".join(lines), row["memory_id"]


@pytest.mark.parametrize("folder", ["wiki", "okf", "vault"])
def test_the_samples_are_read_whole(folder: str) -> None:
    corpus = mk.read(LAYOUTS / folder)
    assert set(corpus.memories["layout"].to_pylist()) == {"linked"}
    assert corpus.problems["rule"].to_pylist() == (["dead_link"] if folder == "vault" else [])
    for path in {*corpus.memories["path"].to_pylist()}:
        text = (LAYOUTS / folder / path).read_text("utf-8")
        rows = [row for row in corpus.memories.to_pylist() if row["path"] == path]
        covered = {number for row in rows for number in range(row["line_start"], row["line_end"] + 1)}
        missed = [line for number, line in enumerate(text.split("\n"), 1) if line.strip() and number not in covered]
        front = text.split("---")[1].split("\n") if text.startswith("---") else []
        assert set(missed) <= {*front, "---"}, path


def test_contents_pages_and_lists_of_changes_are_kinds_of_their_own(tmp_path: Path) -> None:
    links = "".join(f"* [T{n}](p{n}.md) - text\n" for n in range(6))
    files = {f"p{n}.md": f"---\ntitle: P{n}\n---\ntext {n}\n" for n in range(6)}
    files |= {"index.md": "# Index\n", "log.md": "## [2026-05-22T10:00:00+03:00] op | title\nx\n", "moc.md": links}
    files |= {"related.md": "Text of its own, in lines.\nAnd a second.\nAnd a third.\n\n- [[p1]]\n- [[p2]]\n"}
    rows = rows_of(tmp_path, files)
    kinds = {row["path"]: row["kind"] for row in rows if row["path"] not in files or row["kind"] != "head"}
    named = {name: kinds[name] for name in ("index.md", "log.md", "moc.md", "related.md", "p1.md")}
    assert named == {
        "index.md": "index",
        "log.md": "log",
        "moc.md": "index",
        "related.md": "page",
        "p1.md": "page",
    }
    assert by_id(rows)["log.md#2026-05-22t10-00-00-03-00-op-title"]["created_at"] == moment(2026, 5, 22, 7)


def test_marks_in_text_are_tags_by_the_rule(tmp_path: Path) -> None:
    text = "#чай #чай/зелёный #42 #fff `#code` [x](a.md#part) a#b\n```\n#fence\n```\n## Два\n#кофе\n"
    files = {"a.md": f"---\ntags: [Чай]\n---\n{text}", "b.md": "---\ntags: кофе\n---\nx\n"}
    rows = by_id(rows_of(tmp_path / "wiki", files))
    assert rows["a.md#top"]["tags"] == ["Чай", "чай"], "a word that is no tag of a front matter is none here"
    assert rows["a.md#два"]["tags"] == ["Чай", "кофе"]
    vault = by_id(rows_of(tmp_path / "vault", {**files, ".obsidian/app.json": "{}"}))
    assert vault["a.md#top"]["tags"] == ["Чай", "чай", "чай/зелёный"]


LOOSE = [
    ("description: Возвраты / заказы: без обмена", "description", "Возвраты / заказы: без обмена"),
    ('title: "чай" = утро', "title", '"чай" = утро'),
]


@pytest.mark.parametrize(("line", "column", "value"), LOOSE)
def test_front_matter_that_yaml_refuses_is_read_with_a_warning(
    tmp_path: Path, line: str, column: str, value: str
) -> None:
    corpus = mk.read(write_files(tmp_path, {"a.md": f"---\ntags: [a]\n{line}\nmeta:\n  type: x\n---\ntext\n"}))
    (row,) = corpus.memories.to_pylist()
    assert (row[column], row["text"], row["tags"]) == (value, "text", ["a"])
    assert json.loads(row["extra"]) == {"meta": {"type": "x"}}
    (problem,) = corpus.problems.to_pylist()
    assert (problem["rule"], problem["severity"], problem["line"]) == ("loose_front_matter", "warning", 3)
    assert json.dumps(value, ensure_ascii=False) in problem["message"], "as it should be written"


OPEN_LISTS = {
    "tags: [еда": (["еда"], "tags: [еда]"),
    "tags: [еда, чай": (["еда", "чай"], "tags: [еда, чай]"),
    "tags: [еда, чай,": (["еда", "чай"], "tags: [еда, чай]"),
    "tags: ['еда, чай": (["еда", "чай"], 'tags: ["еда", "чай"]'),
    'tags: [#еда, "чай"': (["еда", "чай"], 'tags: ["#еда", "чай"]'),
    "tags: [еда: сладкая": (["еда: сладкая"], 'tags: ["еда: сладкая"]'),
    "tags: [еда # и не только": (["еда"], "tags: [еда] # и не только"),
    "tags: [еда\n  чай": (["еда"], None),
    "tags: [": ([], "tags: []"),
}


def test_a_list_that_is_not_closed_gives_its_words(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (line, (tags, spelling)) in enumerate(OPEN_LISTS.items()):
        for more_lines in ("", "title: t\n", "title: a: b\naliases: [x\n"):
            name = f"{number}/{len(more_lines)}"
            with subtests.test(line, more_lines=more_lines):
                text = f"---\nscope: x\n{line}\n{more_lines}---\ntext\n"
                corpus = mk.read(write_files(tmp_path / name, {"a.md": text}))
                (row,) = corpus.memories.to_pylist()
                assert (row["tags"], row["text"]) == (tags, "text")
                assert row["title"] == {"": "a", "title: t\n": "t"}.get(more_lines, "a: b")
                assert row["aliases"] == (["x"] if "aliases" in more_lines else None)
                (problem,) = corpus.problems.to_pylist()
                assert problem["rule"] == "loose_front_matter"
                assert spelling is None or (problem["line"] == 3 and spelling in problem["message"])
                assert "сладкая" not in line or "сладкая" in repr(row)


def test_a_folder_is_decided_by_its_pages(tmp_path: Path) -> None:
    page, plain = "---\ntitle: T\n---\ntext\n", "text\n"
    linking = "# {0}\nSee [[{1}]].\n"
    folders = {
        "half": ([page, page, plain, plain], True),
        "third": ([page, plain, plain], False),
        "three": ([linking.format(n, n + 1) for n in range(3)] + [plain], True),
        "two": ([linking.format(n, n + 1) for n in range(2)] + [plain] * 2, False),
        "code": (["`[[1]]`\n", "```\n[[2]]\n```\n", "[[3]](https://a.b)\n".replace("[[3]]", "[x]"), plain], False),
    }
    for name, (pages, is_linked) in folders.items():
        rows = rows_of(tmp_path / name, {f"{number}.md": text for number, text in enumerate(pages)})
        assert {row["layout"] for row in rows} == ({"linked"} if is_linked else {None}), name
    vault = {"a.md": plain, ".obsidian/x.json": "{}", "below/b.md": plain, "2026-05-22.md": plain}
    assert {row["layout"] for row in rows_of(tmp_path / "vault", vault)} == {"linked"}


def test_the_five_formats_come_first_and_a_log_stays_a_log(tmp_path: Path) -> None:
    note = "---\nid: 2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d\nsubject: Чай\nkeywords: [a]\napplies_to: global\n"
    note += "created_at: 2026-01-05T10:00:00Z\nupdated_at: 2026-01-05T10:00:00Z\n---\nТекст заметки.\n"
    files = {f"p{n}.md": "---\ntitle: T\n---\ntext\n" for n in range(3)}
    files |= {"2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d.md": note, "memory/2026-02-03.md": "---\ntags: [a]\n---\n# A\nx\n"}
    files |= {"users/u/profile.md": "- [id:pf_1] [t:profile] [imp:high] чай\n"}
    rows = {row["path"]: row for row in rows_of(tmp_path, files)}
    assert rows["2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d.md"]["layout"] is None
    assert rows["users/u/profile.md"]["kind"] == "profile"
    log = rows["memory/2026-02-03.md"]
    assert (log["kind"], log["tags"], log["date_source"]) == ("daily_log", ["a"], "name")


def test_a_refresh_gives_what_a_new_read_gives(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.md": "---\ntags: [чай]\n---\nx\n", "b.md": "text #чай #кофе\n"})
    corpus = mk.read(tmp_path)
    for files in ({"c.md": "---\ntags: [кофе]\n---\nx\n"}, {"d.md": "text\n", "e.md": "text\n", "f.md": "text\n"}):
        write_files(tmp_path, files)
        corpus = corpus.refresh()
        fresh = mk.read(tmp_path)
        assert corpus.memories.equals(fresh.memories)
        assert corpus.problems.equals(fresh.problems)
    assert by_id(corpus.memories.to_pylist())["b.md#top"]["layout"] is None, "two of six pages have front matter"


def test_a_hostile_page_costs_no_more_than_its_length(tmp_path: Path) -> None:
    hostile = {
        "brackets": "[" * 20_000,
        "ticks": "`a ``b " * 5_000,
        "links": "[[a]]" * 5_000,
        "open": "[[" * 10_000,
        "marks": "#a" * 10_000,
        "pipes": "| [a](b.md) " * 3_000,
        "parens": "](" * 10_000,
        "deep": "[a" * 5_000 + "](b.md)" * 5_000,
    }
    files = {f"{name}.md": f"---\ntitle: {name}\ntags: [a]\n---\n{text}\n" for name, text in hostile.items()}
    files["yaml.md"] = "---\n" + "a: b: c\n" * 500 + "---\ntext\n"
    corpus = mk.read(write_files(tmp_path, files))
    assert {*corpus.memories["path"].to_pylist()} == files.keys()
    assert {*corpus.problems["rule"].to_pylist()} <= {"loose_front_matter", "duplicate_key", "dead_link"}


def test_links_are_found_as_they_are_written() -> None:
    text = "[[a]] ![[b|x]] | [[c\\|y]] |\n"
    text += '[z](<d e.md#p> "t") [w](f%20g.md) [q](https://a.b/c.md) ![i](j.png) [k](#l)\n[[#m]]'
    links = [(link.target, link.part, link.text, link.line, link.is_embed) for link in links_in(text)]
    assert links == [
        ("a", "", "", 1, False),
        ("b", "", "x", 1, True),
        ("c", "", "y", 1, False),
        ("", "m", "", 3, False),
        ("d e.md", "p", "z", 2, False),
        ("f g.md", "", "w", 2, False),
    ]
    assert all(link.written in text for link in links_in(text))


@given(st.text(alphabet="[]()|#!`a \n.md", max_size=60))
def test_code_holds_no_link_and_blanking_it_moves_nothing(text: str) -> None:
    blanked = without_code(text, fences(text))
    assert len(blanked) == len(text)
    assert blanked.count("\n") == text.count("\n")
    assert all(link.written in blanked and 1 <= link.line <= text.count("\n") + 1 for link in links_in(blanked))


@given(st.lists(st.text(alphabet=string.ascii_lowercase + "яё", min_size=1, max_size=8), max_size=5))
def test_tags_are_the_same_however_they_are_written(words: list[str]) -> None:
    unique = list(dict.fromkeys(words))
    assert tags_of(words) == tags_of([f"#{word}" for word in words]) == tags_of(", ".join(words)) == unique
    assert tags_of(" ".join(f"#{word}" for word in words)) == unique


def test_small_rules() -> None:
    assert [status_of(word) for word in ("deprecated", "In_Progress", "COMPLETE", None)] == [
        "deprecated",
        None,
        "done",
        None,
    ]
    assert (holds_title("", "a"), holds_title("a", ""), holds_title("catalogue", "cat")) == (False, False, False)
    assert [*marks_in("a #б, (#в) #г-д- #abc #zzz")] == ["б", "в", "г-д", "zzz"]
    assert is_contents("# T\n- [a](b.md)\n1. [[c]]\n| [d](e.md) | x |\n|---|\n", 3)
    assert not is_contents("- [ ] task [[a]]\n- [x] [b](c.md) done\ntext\n", 1)
    assert len(spread([str(n) for n in range(1000)])) == SAMPLE


def test_a_page_of_which_there_is_a_title_alone_is_a_problem_and_no_hit(tmp_path: Path) -> None:
    """With a description or another name it is a memory; from ten pages on a folder has one row."""
    front = {
        "чай": "title: Зелёный чай\ntags: [чай]\ntype: note",
        "мёд": "title: Липовый мёд\nsummary: Берём у Павла",
        "кофе": "title: Чёрный кофе\naliases: [эспрессо]",
        "соль": "title: Морская соль\nprice: 12 рублей",
    }
    files = {f"a/{name}.md": f"---\n{head}\n---\n# {name}\n" for name, head in front.items()}
    files |= {f"b/{number}.md": f"---\ntitle: Пустая страница {number}\n---\n" for number in range(10)}
    corpus = mk.read(write_files(tmp_path, files | {"a/хлеб.md": "---\ntitle: Хлеб\n---\nРжаной.\n"}))
    empty = corpus.problems.filter(pc.equal(corpus.problems["rule"], "empty_text"))
    assert empty["path"].to_pylist() == ["a/чай.md", "b"]
    assert "10 pages with a title and no text" in empty["message"][1].as_py()
    bare = corpus.problems.filter(pc.equal(corpus.problems["rule"], "empty_section"))
    assert "a/чай.md" not in bare["path"].to_pylist(), "it is told once"
    search = mk.Retriever(encoder=None).fit(corpus)
    found = [search.search(words).num_rows for words in ("чай", "страница", "Павла", "эспрессо", "соль", "хлеб")]
    assert found == [0, 0, 1, 1, 1, 1]


def test_links_to_files_and_names_with_a_number_sign_lead_where_they_say(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    page = (
        "[[фото.png]] [x](./договор.pdf?raw=1#page=2) [y](нет.pdf?raw=1) ![z](фото.png) [[нет.png]]\n"
        "[[C# notes]] [c](C%23%20notes.md) [[C# notes#Часть]] [[b#Раздел]]\n"
    )
    files = {"a.md": page, "C# notes.md": "## Часть\n\nтекст\n", "b.md": "## Раздел\n\nтекст\n"}
    mk.testing.write_files(tmp_path, files | {"фото.png": "", "договор.pdf": ""})
    corpus = mk.read(tmp_path)
    links = {row["written"]: row for row in corpus.tables["relations"].to_pylist()}
    found = {written: (row["type"], row["to_id"]) for written, row in links.items() if row["state"] == "found"}
    assert found == {
        "[[фото.png]]": ("attachment", None),
        "[x](./договор.pdf?raw=1#page=2)": ("attachment", None),
        "[[C# notes]]": ("links_to", "workspace:C# notes.md#часть"),
        "[c](C%23%20notes.md)": ("links_to", "workspace:C# notes.md#часть"),
        "[[C# notes#Часть]]": ("links_to", "workspace:C# notes.md#часть"),
        "[[b#Раздел]]": ("links_to", "workspace:b.md#раздел"),
    }
    assert links.keys() - found.keys() == {"[[нет.png]]"}
