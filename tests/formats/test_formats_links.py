"""Links of pages as a table: where each leads, which lead nowhere, and what the folder's pages are to each other."""

from __future__ import annotations

import posixpath
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.formats.linked.links import links_in
from memkit.tables.samples import sample_data, write_files

PAGE = "---\ntitle: {title}\n---\n{text}\n"


def corpus_of(folder: Path, pages: dict[str, str]) -> mk.Corpus:
    return mk.read(write_files(folder, {".obsidian/app.json": "{}", **pages}))


def targets(corpus: mk.Corpus) -> list[tuple[str, str, str | None]]:
    """Of each link: what is written, its state, and the path that it leads to."""
    path = dict(zip(*corpus.memories.select(["memory_id", "path"]).to_pydict().values(), strict=True))
    rows = corpus.tables["relations"].to_pylist()
    return [(row["written"], row["state"], path.get(row["to_id"])) for row in rows]


WAYS = {
    "a relative path": ("notes/a.md", "[x](b.md)", "notes/b.md"),
    "a path upwards, with %20": ("notes/deep/a.md", "[x](../my%20page.md)", "notes/my page.md"),
    "a path in angle brackets": ("notes/a.md", "[x](<my page.md>)", "notes/my page.md"),
    "a path from the root": ("notes/a.md", "[x](/other/c.md)", "other/c.md"),
    "a path from a bundle's root": ("bundle/x/a.md", "[x](/x/b.md)", "bundle/x/b.md"),
    "a folder": ("notes/a.md", "[x](../bundle/)", "bundle/index.md"),
    "the end of a path": ("notes/a.md", "[[deep/leaf]]", "other/deep/leaf.md"),
    "a file name": ("notes/a.md", "[[leaf]]", "other/deep/leaf.md"),
    "a file name with a dot": ("notes/a.md", "[[v1.2]]", "notes/v1.2.md"),
    "an id of a slip box": ("notes/a.md", "[[202605221030]]", "zettel/202605221030 О чае.md"),
    "a title": ("notes/a.md", "[[Учёт заказов]]", "other/orders.md"),
    "a permalink": ("notes/a.md", "[[shop/orders]]", "other/orders.md"),
    "an alias": ("notes/a.md", "[[заказы|наши заказы]]", "other/orders.md"),
    "case and signs aside": ("notes/a.md", "[[учёт_заказов]]", "other/orders.md"),
    "the last part alone": ("notes/a.md", "[[nowhere/leaf]]", "other/deep/leaf.md"),
    "a bar in a table": ("notes/a.md", "| [[leaf\\|лист]] |", "other/deep/leaf.md"),
    "an embed": ("notes/a.md", "![[leaf]]", "other/deep/leaf.md"),
}
OTHER_PAGES = {
    "notes/b.md": PAGE.format(title="B", text="б"),
    "notes/my page.md": PAGE.format(title="Mine", text="моя"),
    "notes/v1.2.md": PAGE.format(title="Release", text="выпуск"),
    "other/c.md": PAGE.format(title="C", text="в"),
    "bundle/index.md": "# Bundle\n\n- [b](x/b.md)\n",
    "bundle/x/b.md": PAGE.format(title="XB", text="г"),
    "other/deep/leaf.md": PAGE.format(title="Leaf", text="лист"),
    "zettel/202605221030 О чае.md": PAGE.format(title="О чае", text="чай"),
    "other/orders.md": "---\ntitle: Учёт заказов\npermalink: shop/orders\naliases: [заказы]\n---\nтекст\n",
}


@pytest.mark.quick
def test_a_link_is_found_by_each_of_the_names_of_a_page(tmp_path: Path) -> None:
    wrong = {}
    for number, (way, (source, link, target)) in enumerate(WAYS.items()):
        pages = {**OTHER_PAGES, source: PAGE.format(title=f"Source {number}", text=link)}
        links = [row for row in targets(corpus_of(tmp_path / str(number), pages)) if row[0] in link]
        if [(state, path) for _, state, path in links if path != "bundle/x/b.md" or target == path] != [
            ("found", target)
        ]:
            wrong[way] = links
    assert wrong == {}


@pytest.mark.quick
def test_the_index_of_a_folder_that_is_absent_is_a_dead_link_not_another_index(tmp_path: Path) -> None:
    links = "[a](metrics/index.md) [b](/runbooks/README.md) [c](people/index.md)"
    pages = {"index.md": PAGE.format(title="Root", text=links), "people/index.md": PAGE.format(title="P", text="x")}
    corpus = corpus_of(tmp_path, {**pages, "old/deep/readme.md": PAGE.format(title="Old", text="y")})
    assert targets(corpus) == [
        ("[a](metrics/index.md)", "dead", None),
        ("[b](/runbooks/README.md)", "dead", None),
        ("[c](people/index.md)", "found", "people/index.md"),
    ]


@pytest.mark.quick
def test_what_is_no_link_to_a_page_is_no_row(tmp_path: Path) -> None:
    text = "`[[b]]` ![x](b.png) [w](https://a.b/c.md) [[#part]] [p](#part) ![[photo.jpg]] [f](data.csv)\n"
    text += "\n```\n[[b]]\n```\n"
    pages = {"a.md": PAGE.format(title="A", text=text), "b.md": PAGE.format(title="B", text="б")}
    assert targets(corpus_of(tmp_path, pages)) == []


def test_a_name_that_a_line_of_the_page_defines_is_a_link_and_other_brackets_are_none(tmp_path: Path) -> None:
    links = (
        "[о сортах][Сорта Чая], [мёд][] и [текст [в скобках]][мёд]. ![вид][мёд] [нет][её] [а][^1], `[код][мёд]` [w][]"
    )
    defined = '[сорта  чая]: a%20b.md "Сорта"\n[мёд]: <мёд.md>\n[мёд]: c.md\n[^1]: a%20b.md\n[w]: https://a.b/c.md'
    page = f"{links}\n\n- [x][y] сделано\n- [ ] [мёд] дело\n\n{defined}\n"
    corpus = corpus_of(tmp_path, {"чай.md": page, "a b.md": "Много.\n", "мёд.md": "Майский.\n"})
    sorts, honey = ("[сорта  чая]: a%20b.md", "found", "a b.md"), ("[мёд]: <мёд.md>", "found", "мёд.md")
    assert (targets(corpus), corpus.tables["relations"]["line"].to_pylist()) == ([sorts, honey, honey], [1, 1, 1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [x][чай](tea.md) и [а][мёд](c.md)", ["tea.md", "c.md"]),
        ("[а][б][в]\n\n[в]: tea.md (Чай)\n", ["tea.md"]),
        ("[10:05][INFO] начало\n[INFO]: соединение потеряно\n", []),
    ],
)
def test_brackets_after_brackets_take_no_link_of_another_form_and_make_none(text: str, expected: list[str]) -> None:
    assert [link.target for link in links_in(text)] == expected


def test_a_link_to_a_folder_that_is_there_is_none_that_is_dead(tmp_path: Path) -> None:
    text = "[x](../files/) [y](/notes) [z](../gone/) [[files]]\n"
    corpus = corpus_of(tmp_path, {"notes/a.md": PAGE.format(title="A", text=text), "files/b.pdf": "x"})
    assert [(written, state) for written, state, _ in targets(corpus) if state == "dead"] == [
        ("[[files]]", "dead"),
        ("[z](../gone/)", "dead"),
    ]


def test_of_several_pages_the_one_that_shares_most_folders_counts_else_it_is_ambiguous(tmp_path: Path) -> None:
    pages = {f"{folder}/deep/tea.md": PAGE.format(title=f"Tea {folder}", text="чай") for folder in ("de", "ru")}
    pages |= {"ru/a.md": PAGE.format(title="A", text="[[x/tea]]"), "c.md": PAGE.format(title="C", text="[[tea]]")}
    corpus = corpus_of(tmp_path, pages)
    assert targets(corpus) == [("[[tea]]", "ambiguous", "de/deep/tea.md"), ("[[x/tea]]", "found", "ru/deep/tea.md")]
    problem = next(row for row in corpus.problems.to_pylist() if row["rule"] == "ambiguous_link")
    assert (problem["path"], problem["line"]) == ("c.md", 4)
    assert "de/deep/tea.md, ru/deep/tea.md" in problem["message"]


def test_a_part_leads_to_its_section_and_a_missing_one_is_told(tmp_path: Path) -> None:
    pages = {
        "a.md": PAGE.format(title="A", text="[[b#Учёт заказов]] [[b#нет такого]] [[b#^block]]"),
        "b.md": PAGE.format(title="B", text="начало\n\n## Учёт заказов\n\nтекст"),
    }
    corpus = corpus_of(tmp_path, pages)
    title = dict(zip(*corpus.memories.select(["memory_id", "title"]).to_pydict().values(), strict=True))
    assert [title[row["to_id"]] for row in corpus.tables["relations"].to_pylist()] == ["Учёт заказов", "B", "B"]
    assert [row["rule"] for row in corpus.problems.to_pylist() if "anchor" in row["rule"]] == ["dead_anchor"]


def test_a_dead_link_names_the_page_that_is_nearly_so_called(tmp_path: Path) -> None:
    pages = {"a.md": PAGE.format(title="A", text="\n\n[[holod]]"), "holodok.md": PAGE.format(title="Х", text="[[a]]")}
    (problem,) = (row for row in corpus_of(tmp_path, pages).problems.to_pylist() if row["rule"] == "dead_link")
    assert (problem["path"], problem["line"], problem["severity"]) == ("a.md", 6, "warning")
    assert "did you mean holodok?" in problem["message"]


def test_a_successor_is_known_on_every_section_from_either_side(tmp_path: Path) -> None:
    pages = {
        "old.md": "---\ntitle: Old\nstatus: deprecated\nsuperseded_by: new.md\n---\nодин\n\n## Часть\n\nдва\n",
        "older.md": "---\ntitle: Older\n---\nтри\n",
        "new.md": '---\ntitle: New\nsupersedes: "[[older]]"\n---\nчетыре\n',
        "alone.md": "---\ntitle: Alone\nstatus: deprecated\n---\nпять\n",
    }
    corpus = corpus_of(tmp_path, pages)
    rows = corpus.memories.select(["path", "status", "superseded_by"]).to_pylist()
    new = next(row["memory_id"] for row in corpus.memories.to_pylist() if row["path"] == "new.md")
    assert {(row["path"], row["status"], row["superseded_by"]) for row in rows} == {
        ("old.md", "deprecated", new),
        ("older.md", "superseded", new),
        ("new.md", None, None),
        ("alone.md", "deprecated", None),
    }
    said = [row for row in corpus.problems.to_pylist() if row["rule"] == "no_successor"]
    assert [(row["path"], row["field"]) for row in said] == [("alone.md", "superseded_by")]
    assert (
        "must be the page that takes its place. Got none that is here, though it is deprecated. " in said[0]["message"]
    )


def test_an_index_that_lists_most_pages_tells_the_others_and_orphans_are_one_row(tmp_path: Path) -> None:
    pages = {f"p{number}.md": PAGE.format(title=f"P{number}", text=f"текст {number}") for number in range(5)}
    pages["index.md"] = "# Index\n\n" + "".join(f"- [p](p{number}.md) - x\n" for number in range(4))
    problems = {row["rule"]: row for row in corpus_of(tmp_path, pages).problems.to_pylist()}
    assert problems["not_indexed"]["path"] == "index.md"
    assert (
        "expected a link to each page of its folder. Got none for 1 of 5: p4.md" in problems["not_indexed"]["message"]
    )
    assert "orphan" not in problems, "a page is told once"
    pages["sub/q.md"], pages["sub/r.md"] = PAGE.format(title="Q", text="[[r]]"), PAGE.format(title="R", text="[[q]]")
    pages["sub/s.md"] = PAGE.format(title="S", text="одна")
    orphan = [row for row in corpus_of(tmp_path / "sub", pages).problems.to_pylist() if row["rule"] == "orphan"]
    assert [row["path"] for row in orphan] == ["sub"]
    assert "1 of 3 that none links to: sub/s.md" in orphan[0]["message"]
    linked = {name: text for name, text in pages.items() if name[0] == "p"}
    linked["p0.md"] = PAGE.format(title="P0", text="[[p1]] [[p2]]")
    assert "orphan" not in {row["rule"] for row in corpus_of(tmp_path / "few", linked).problems.to_pylist()}


def test_links_follow_a_page_that_comes_and_goes(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, {"a.md": PAGE.format(title="A", text="[[b]]")})
    assert targets(corpus) == [("[[b]]", "dead", None)]
    write_files(tmp_path, {"b.md": PAGE.format(title="B", text="б")})
    refreshed = corpus.refresh()
    assert targets(refreshed) == [("[[b]]", "found", "b.md")]
    (tmp_path / "b.md").unlink()
    assert targets(refreshed.refresh()) == [("[[b]]", "dead", None)]


def test_a_page_is_stale_from_its_day_on_and_only_where_a_moment_is_given(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.md": "---\ntitle: A\nstale_after: 2026-09-23\n---\nтекст\n\n## Ещё\n\nтекст\n"})
    rules = {
        day: [row["rule"] for row in mk.read(tmp_path, as_of=day).problems.to_pylist()]
        for day in ("2026-09-22", "2026-09-24")
    }
    assert rules["2026-09-24"].count("stale") == 1
    assert "stale" not in rules["2026-09-22"]
    assert "stale" not in mk.read(tmp_path).problems["rule"].to_pylist()


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["[[", "]]", "(", ")", "](", "#", "|", "a", "../" * 9, "/", "\\", "<", ">", "чай", " "]))
)
def test_whatever_stands_in_a_page_every_row_is_whole_and_leads_to_a_memory_or_nowhere(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("links")
    corpus = corpus_of(folder, {"x/a.md": PAGE.format(title="A", text="".join(parts)), "чай.md": "# Чай\n\nтекст\n"})
    ids = set(corpus.memories["memory_id"].to_pylist())
    for row in corpus.tables["relations"].to_pylist():
        assert row["from_id"] in ids
        assert row["memory_id"] in ids
        assert (row["state"] == "dead") == (row["to_id"] is None)
        assert row["to_id"] is None or row["to_id"] in ids


@pytest.mark.outside
def test_the_samples_links_are_counted_as_by_hand() -> None:
    counts = {}
    for name in ("wiki", "okf", "vault", "basic-memory", "serena", "memfs"):
        states = [state for _, state, _ in targets(mk.read(posixpath.join(sample_data(), "layouts", name)))]
        counts[name] = (len(states), states.count("dead"))
    assert counts == {
        "wiki": (16, 0),
        "okf": (11, 0),
        "vault": (6, 1),
        "basic-memory": (5, 1),
        "serena": (4, 1),
        "memfs": (2, 0),
    }


def test_named_queries_tell_of_links(tmp_path: Path) -> None:
    wiki = mk.read(sample_data() / "layouts" / "wiki")
    assert wiki.named("links_hubs").fetchone() == ("en/on-call.md", "On-call", 3)
    pages = {"a.md": PAGE.format(title="A", text="[[b]] [[x]]"), "b.md": PAGE.format(title="B", text="[[a]]")}
    pages |= {"c.md": PAGE.format(title="C", text="[[a]]"), "index.md": "# I\n\n- [a](a.md)\n- [b](b.md)\n"}
    corpus = corpus_of(tmp_path, pages)
    assert corpus.named("links_dead").fetchall() == [("a.md", 4, "links_to", "[[x]]", "dead")]
    assert corpus.named("links_orphans").fetchall() == [("c.md", "C")]
    assert corpus.named("links_unindexed").fetchall() == [("index.md", "c.md")]
    replaced = corpus_of(tmp_path / "two", {"a.md": '---\nsuperseded_by: "[[b]]"\n---\nа\n', "b.md": "# B\n\nб\n"})
    assert replaced.named("links_superseding").fetchall() == [("a.md", "superseded_by", "[[b]]", "b.md", "found")]


@pytest.mark.outside
def test_the_picture_names_the_pages_around_one_page() -> None:
    okf = mk.read(sample_data() / "layouts" / "okf")
    words = mk.plot.links(okf, "tables/orders.md", steps=1).words
    assert words.splitlines()[0].endswith("(tables/orders.md): 3 pages within 1 link")
    with pytest.raises(mk.errors.ParameterError, match=r"Did you mean 'tables/orders.md'"):
        mk.plot.links(okf, "tables/order.md")
    assert "no page links" in mk.plot.links(mk.from_table({"text": ["чай"]})).empty
