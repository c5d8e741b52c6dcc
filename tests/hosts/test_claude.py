"""Claude Code's memory: what the host loads, which files are it, kinds by type, and its checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.hosts.claude import MOST_LINES, MOST_UNITS, loaded
from memkit.schemas import KINDS
from memkit.tables.samples import write_files

SAMPLE = Path(__file__).parents[2] / "data" / "layouts" / "claude"
HOME = ".claude/memory/"
TOPIC = "---\nname: {name}\ndescription: about\nmetadata:\n  type: {type}\n---\n{text}\n"


def read(root: Path, files: dict[str, str]) -> mk.Corpus:
    return mk.read(write_files(root, files))


def problems_of(corpus: mk.Corpus, rule: str) -> list[dict[str, Any]]:
    return [row for row in corpus.problems.to_pylist() if row["rule"] == rule]


@pytest.mark.quick
def test_the_first_200_lines_are_loaded_and_the_line_of_the_cut_is_said(tmp_path: Path) -> None:
    for count in (MOST_LINES - 1, MOST_LINES, MOST_LINES + 1, MOST_LINES + 49):
        text = "".join(f"- строка {number}\n" for number in range(1, count + 1))
        start = loaded(text)
        assert start.text == "".join(text.splitlines(keepends=True)[:MOST_LINES])
        assert (start.cut, start.total_lines) == (MOST_LINES + 1 if count > MOST_LINES else None, count)
        problems = problems_of(read(tmp_path / str(count), {HOME + "MEMORY.md": text}), "index_too_long")
        assert [row["line"] for row in problems] == [MOST_LINES + 1] * (count > MOST_LINES)


@pytest.mark.quick
@pytest.mark.parametrize(("letter", "units"), [("a", 1), ("я", 1), ("漢", 1), ("😀", 2)])
def test_units_are_those_of_utf_16_and_whole_lines_are_kept(letter: str, units: int) -> None:
    size = 999 // units
    line = letter * size + "\n"
    each = size * units + 1
    fitting = MOST_UNITS // each
    assert loaded(line * fitting).cut is None
    start = loaded(line * (fitting + 5))
    assert (start.text, start.cut, start.units) == (line * fitting, fitting + 1, fitting * each)


@pytest.mark.quick
def test_front_matter_and_comments_do_not_count_and_code_does() -> None:
    text = "---\na: b\n---\n<!-- one -->\n- a\n<!--\nmany\nlines\n-->\n- b\n```\n<!-- code -->\n```\ntext <!-- c -->\n"
    start = loaded(text)
    assert start.text == "- a\n- b\n```\n<!-- code -->\n```\ntext <!-- c -->\n"
    assert loaded(text, most_lines=2).cut == 11
    assert loaded("<!-- never closed\n- a\n").text == ""


@given(st.lists(st.text(alphabet="a<!->`# \n", max_size=12), max_size=30), st.integers(1, 10), st.integers(1, 60))
def test_what_is_loaded_is_a_beginning_of_what_counts(parts: list[str], lines: int, units: int) -> None:
    text = "\n".join(parts)
    whole, start = loaded(text, 10**6, 10**6), loaded(text, lines, units)
    assert whole.cut is None
    assert whole.text.startswith(start.text)
    assert start.lines <= lines
    assert len(start.text.encode("utf-16-le")) // 2 == start.units <= units
    assert (start.cut is None) == (start.text == whole.text)


def test_a_line_that_stands_twice_is_told_once_a_file_and_code_short_lines_and_headings_are_not(tmp_path: Path) -> None:
    line = "Поставки приходят по средам, кроме праздников."
    heading, short, code = (
        "## Как мы работаем с поставками по средам",
        "- чай",
        "```\nmake deploy TARGET=production FORCE=1\n```",
    )
    parts = [heading, line, f"* {line.upper()}", short, short, code, code, heading, f"- **{line}**"]
    files = {HOME + "MEMORY.md": "\n".join(["- [Кто](user.md) — кто", *parts]), HOME + "user.md": f"{line}\n{line}\n"}
    rows = read(tmp_path, files).problems.to_pylist()
    assert [(row["path"], row["line"], row["message"].partition("Got ")[2]) for row in rows] == [
        (HOME + "MEMORY.md", 4, "line 3 again, and 1 more. Remove one.")
    ]


def test_types_are_kinds_with_their_own_decay(tmp_path: Path) -> None:
    types = ("user", "feedback", "project", "reference")
    files = {f"{HOME}{name}.md": TOPIC.format(name=f"n-{name}", type=name, text="текст") for name in types}
    files |= {
        HOME + "feedback_x.md": "---\nname: x\n---\nтекст\n",
        HOME + "other.md": TOPIC.format(name="o", type="odd", text="t"),
    }
    files |= {HOME + "MEMORY.md": "- [Кто](user.md) — кто\n\n## Проза\nДлинная строка.\n"}
    rows = {row["path"].removeprefix(HOME): row for row in read(tmp_path, files).memories.to_pylist()}
    assert {name: rows[f"{name}.md"]["kind"] for name in types} == dict(zip(types, types, strict=True))
    assert (rows["feedback_x.md"]["kind"], rows["feedback_x.md"]["scope"]) == ("feedback", "feedback")
    assert (rows["other.md"]["kind"], rows["other.md"]["scope"]) == ("topic", "odd")
    assert rows["user.md"]["title"] == "Кто", "the index's words, where the name is a slug"
    assert [KINDS[name].decays for name in types] == ["never", "never", "always", "normal"]
    assert {row["layout"] for row in rows.values()} == {"claude"}


def test_a_memory_md_is_index_and_memory_by_section() -> None:
    kinds = mk.read(SAMPLE).sql("select title, kind from memories where path like '%MEMORY.md'").fetchall()
    assert dict(kinds) == {"Как работать": "index", "Журнал": "long_term", "Проекты": "index", "Где что": "index"}


MIXED = """- [A](a.md) — one
- [B](b.md) — two
- we deploy on Tuesdays, never on Fridays
# Память
## Темы
Файлы:
- [Сборка](a.md) — чистый CI
- Анна любит короткие ответы
  и без смайлов
- [[b]] — сначала падающий тест
- [Релиз](b.md) — по вторникам
- [Ещё](a.md)
- [И ещё](b.md)

Ключ от склада лежит у Бориса, запасной у Анны
## Правила
- чай зелёный
- кофе чёрный, см. [A](a.md)
"""


def test_what_a_list_of_links_says_besides_is_a_memory_and_no_index(tmp_path: Path) -> None:
    topics = {HOME + f"{name}.md": TOPIC.format(name=name, type="project", text="x") for name in "ab"}
    for name, text in (
        ("unix", MIXED),
        ("windows", MIXED.replace("\n", "\r\n")),
        ("below", f"---\na: b\n---\n{MIXED}"),
    ):
        corpus = read(tmp_path / name, {HOME + "MEMORY.md": text, **topics})
        rows = [row for row in corpus.memories.to_pylist() if row["path"].endswith("MEMORY.md")]
        lines = text.replace("\r\n", "\n").split("\n")
        shift, kinds = 3 * (name == "below"), {}
        for row in rows:
            assert (
                row["text"].split("\n") == lines[row["line_start"] - 1 : row["line_end"]][: row["text"].count("\n") + 1]
            )
            kinds |= dict.fromkeys(range(row["line_start"] - shift, row["line_end"] - shift + 1), row["kind"])
        facts = {3, 8, 9, 15, 16, 17, 18}
        wanted = {number: "long_term" if number in facts else "index" for number in range(1, 19)}
        assert {number: kind for number, kind in kinds.items() if number > 0} == wanted, name
        ids = [row["memory_id"].rpartition("#")[2] for row in rows]
        assert {"top", "темы", "правила"} <= set(ids)
        assert len(set(ids)) == len(ids)
        assert [row["title"] for row in rows if "Анна любит" in row["text"]] == ["Темы"]
        assert {row["heading_path"] for row in rows if row["title"] == "Темы"} == {".claude / memory / Память"}


def test_a_fact_among_links_ranks_as_any_other(tmp_path: Path) -> None:
    links = "".join(f"- [Тема {number}](a.md) — сборка и релиз\n" for number in range(9))
    fact = "- релиз собирает Анна, не раньше вторника\n"
    topic = {HOME + "a.md": TOPIC.format(name="a", type="project", text="сборка")}
    among = read(tmp_path / "among", {HOME + "MEMORY.md": f"# Память\n{links}{fact}", **topic})
    alone = read(tmp_path / "alone", {HOME + "MEMORY.md": f"# Память\n{links}# Факты\n{fact}", **topic})
    for corpus in (among, alone):
        hit = (
            mk.Retriever(encoder=None).fit(corpus).search("релиз собирает Анна", k=1, columns=("kind",)).to_pylist()[0]
        )
        assert hit["text"].strip().removeprefix("# Факты\n") == fact.strip()
        assert hit["kind"] == "long_term"


def test_the_sample_shows_each_check() -> None:
    corpus = mk.read(SAMPLE)
    (cut,) = problems_of(corpus, "index_too_long")
    lines = (SAMPLE / HOME / "MEMORY.md").read_text("utf-8").split("\n")
    assert cut["line"] == 201
    below = [line for line in lines[200:] if "](" in line]
    assert below
    assert f"and {len(below)} links with them" in cut["message"]
    (dead,) = problems_of(corpus, "dead_link")
    assert lines[dead["line"] - 1].startswith("- [Старые заказы](project_import.md)")
    (unindexed,) = problems_of(corpus, "not_indexed")
    assert "project_old_import.md" in unindexed["message"]
    (twice,) = problems_of(corpus, "duplicate_of_instructions")
    assert (twice["path"], "Got 1 line that CLAUDE.md has too" in twice["message"]) == (
        HOME + "feedback_tests.md",
        True,
    )


def test_what_a_file_of_instructions_anywhere_has_too_is_reported_where_it_is_named(tmp_path: Path) -> None:
    lines = ["Всегда запускай линтер перед тем, как предлагать изменения.", "Never push to main without a review."]
    topics = {
        f"{HOME}{name}.md": TOPIC.format(name=name, type="user", text=text)
        for name, text in zip("ab", lines, strict=True)
    }
    folder = write_files(tmp_path / "project", topics | {"CLAUDE.md": f"# Rules\n- {lines[0]}\n"})
    other = write_files(
        tmp_path / "home", {"CLAUDE.md": f"* **{lines[1].upper()}**\n", "large.md": f"{lines[1]}\n" * 9}
    )
    cases: dict[str, tuple[Any, list[str]]] = {
        "none": ((), ["a"]),
        "one": (other / "CLAUDE.md", ["a", "b"]),
        "several": ([str(other / "CLAUDE.md"), other / "large.md"], ["a", "b"]),
    }
    for case, (instructions, expected) in cases.items():
        corpus = mk.read(folder, instructions=instructions)
        assert [row["path"] for row in problems_of(corpus, "duplicate_of_instructions")] == [
            f"{HOME}{name}.md" for name in expected
        ], case
        assert all(path.startswith((HOME, "CLAUDE.md")) for path in corpus.memories["path"].to_pylist()), case
        assert corpus.refresh().problems.equals(corpus.problems), case
    corpus = mk.read(folder, instructions=other / "large.md", max_file_bytes=300)
    assert [row["path"] for row in problems_of(corpus, "file_too_large")] == [str(other / "large.md")]
    corpus.save(tmp_path / "lake")
    assert "home" not in (next((tmp_path / "lake").glob("**/manifest.json"))).read_text("utf-8"), "not the next user's"
    for wrong in (other, tmp_path / "nothing.md"):
        with pytest.raises(mk.errors.ParameterError, match="'instructions' must be files"):
            mk.read(folder, instructions=wrong)


def test_which_memory_md_is_an_index(tmp_path: Path) -> None:
    cases = {
        "beside": ({"MEMORY.md": "- [a](a.md) — x\n", "a.md": "text\n"}, {"claude"}),
        "named": ({"MEMORY.md": "text\n", "a.md": "---\nname: a\ndescription: b\n---\nx\n"}, {"claude"}),
        "workspace": ({"MEMORY.md": "# A\n[x](docs/x.md)\n", "docs/x.md": "text\n"}, {None}),
        "hermes": ({"MEMORY.md": "a\n§\nb", "USER.md": "c"}, {"hermes"}),
        "agents": ({".agents/memory/a.md": "text\n", ".agents/memory/MEMORY.md": "text\n"}, {"claude"}),
        "subagent": ({".claude/agent-memory/бот/MEMORY.md": "text\n"}, {"claude"}),
    }
    for name, (files, layouts) in cases.items():
        assert {*read(tmp_path / name, files).memories["layout"].to_pylist()} == layouts, name


def test_all_projects_of_a_host_are_read_and_their_transcripts_are_not(tmp_path: Path) -> None:
    files = {f".claude/projects/-home-{name}/memory/MEMORY.md": f"# {name}\ntext\n" for name in ("a", "b")}
    files |= {".claude/projects/-home-a/0f3c0a52-6f0e-4c3b-9d57-1b7a6d2f8e41.jsonl": "{}\n"}
    corpus = read(tmp_path, files)
    assert sorted(corpus.memories["title"].to_pylist()) == ["a", "b"]
    below = mk.read(tmp_path / ".claude" / "projects")
    assert sorted(below.memories["layout"].to_pylist()) == ["claude", "claude"]
    assert problems_of(below, "transcript")


def test_a_hostile_index_costs_no_more_than_its_length(tmp_path: Path) -> None:
    text = "- [a](a.md) " * 3000 + "\n" + "<!-- " * 2000 + "\n" + "- [" * 2000 + "\n" + "[[" * 5000 + "\n"
    corpus = read(tmp_path, {HOME + "MEMORY.md": text, HOME + "a.md": "x\n"})
    assert problems_of(corpus, "index_too_long")
    assert corpus.memories.num_rows >= 2


SKILL = "---\nname: pdf\ndescription: делает PDF\n---\n# PDF\n\nвсегда reportlab\n"
AGENT = "---\nname: reviewer\ndescription: reviews\ntools: Read\n---\nты рецензент\n"


def test_skills_agents_and_commands_of_a_host_are_named_and_not_read(tmp_path: Path) -> None:
    files = {
        "projects/-home-shop/memory/MEMORY.md": "- [А](a.md) — чай\n",
        "projects/-home-shop/memory/a.md": TOPIC.format(
            name="a", type="project", text="зелёный, [как](../../../skills/pdf/SKILL.md), [нет](../../../skills/no.md)"
        ),
        "skills/pdf/SKILL.md": SKILL,
        "skills/pdf/reference/fonts.md": "шрифты\n",
        "skills/pdf/data.json": '[{"text": "x"}]',
        "agents/reviewer.md": AGENT,
        "commands/ship.md": "выпусти\n",
        "plugins/shop/memory/MEMORY.md": "- [П](p.md) — x\n",
        "plugins/shop/memory/p.md": "x\n",
        "plans/июнь.md": "# План\n\nпереезд склада\n",
        "CLAUDE.md": "# Правила\n\nотвечать по-русски\n",
    }
    names = {"MEMORY.md", "a.md", "июнь.md", "CLAUDE.md"}
    for home in ("copied", "all/.claude"):
        corpus = read(tmp_path / home, files)
        paths = set(corpus.memories["path"].to_pylist())
        assert {path.rpartition("/")[2] for path in paths} == names
        (row,) = [row for row in problems_of(corpus, "unclaimed") if "instructions" in row["message"]]
        assert (row["path"], row["severity"]) == (".", "info")
        assert "Got 7 of instructions" in row["message"]
        assert "first agents/reviewer.md" in row["message"]
        assert ["no.md" in row["message"] for row in problems_of(corpus, "dead_link")] == [True]  # the skill is there
        assert corpus.tables["relations"].num_rows == 2
        assert not [name for name in corpus.tables if name.startswith("_")]
    forced = mk.read(tmp_path / "copied", format="workspace")
    assert "skills/pdf/SKILL.md" in forced.memories["path"].to_pylist()
    below = mk.read(tmp_path / "copied" / "skills" / "pdf")  # named itself
    assert set(below.memories["path"].to_pylist()) >= {"SKILL.md", "reference/fonts.md"}


def test_a_project_of_a_copied_home_is_known_by_its_place(tmp_path: Path) -> None:
    topic = TOPIC.format(name="звук", type="reference", text="порог гейта")
    homes = ("projects/-Users-anna-notes/memory/", "projects/C--work-shop/memory/", "projects/shop/memory/")
    corpus = read(tmp_path, {f"{home}звук.md": topic for home in homes})
    kinds = {row["path"]: row["kind"] for row in corpus.memories.to_pylist()}
    assert [kinds[f"{home}звук.md"] for home in homes] == ["reference", "reference", "page"]


def test_a_skill_anywhere_is_no_memory_and_a_page_of_that_name_is(tmp_path: Path) -> None:
    files = {
        "lib/pdf/SKILL.md": SKILL,
        "lib/pdf/more.md": "x\n",
        "notes/SKILL.md": "# Навыки\n\nшить\n",
        "agents/a.md": "б\n",
    }
    corpus = read(tmp_path, files)
    assert set(corpus.memories["path"].to_pylist()) == {"notes/SKILL.md", "agents/a.md"}
    assert [
        (row["path"], "Got 2 of" in row["message"])
        for row in problems_of(corpus, "unclaimed")
        if "instr" in row["message"]
    ] == [("lib", True)]
    write_files(tmp_path, {"lib/pdf/SKILL.md": "# x\n"})
    after = corpus.refresh()
    assert set(after.memories["path"].to_pylist()) == {*files}
    assert after.problems.equals(mk.read(tmp_path).problems)


def test_no_link_leads_from_one_projects_memory_into_anothers(tmp_path: Path) -> None:
    index = "- [Сборка](build.md) — кэш\n- [[release]]\n"
    files = {f".claude/projects/{name}/memory/MEMORY.md": index for name in ("a", "b")}
    files |= {".claude/projects/a/memory/build.md": "x\n", ".claude/projects/b/memory/release.md": "См. [[build]].\n"}
    dead = {(row["path"].split("/")[2], row["line"]) for row in problems_of(read(tmp_path, files), "dead_link")}
    assert dead == {("a", 2), ("b", 1)}, "one line of each index, and the link of a page"
    assert len(problems_of(mk.read(tmp_path), "dead_link")) == 3
