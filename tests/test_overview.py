"""The first look at a folder: every figure counted by hand, and a page in which nothing of the user's acts."""

from __future__ import annotations

import html.parser
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit import corpus_overview
from memkit.base.parallel import heard
from memkit.cli.app import app
from memkit.corpus_overview import Overview
from memkit.errors import ParameterError
from memkit.tables.samples import write_files

DAY = "2026-03-01"
ATTACK = "<script>alert(1)</script>"
KEY = "sk-" + "a1B2" * 8
LONG = "Пул соединений вырос до десяти после сбоя в среду, и с тех пор ошибок в журнале не было ни одной, следим дальше"
FILES = {
    "MEMORY.md": f"# Ссылки\n\n[есть](memory/2026-02-01.md) [нет](docs/no.md#a) [сайт](https://a.b/c) [тут](#x)\n"
    f"![рисунок](no.png)\n```\n[код](no/such.md)\n```\n[пробел](memory/no%20such.md) {ATTACK}\n\n"
    f"# Пусто\n\n# Ключ\n\n{KEY}\n",
    "memory/2026-02-01.md": f"# Лог\n\n{LONG}\n\n## Ещё\n\nвсё хорошо\n",
    "memory/2026-02-02.md": f"# Лог\n\n{LONG.replace('следим', 'следим и')}.\n\n## Ещё\n\nВСЁ  хорошо\n",
    "users/anna/working.md": "- [id:wk_1] [t:working] [imp:normal] [exp:2026-03-15] Ждёт письмо\n"
    "- [id:wk_2] [t:working] [imp:normal] [exp:2026-02-01] Была задача\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_files(tmp_path_factory.mktemp("folder"), FILES))


@pytest.fixture(scope="module")
def overview(folder: Path) -> Overview:
    return mk.overview(mk.read(folder), as_of=DAY)


def counts(overview: Overview) -> dict[str, int]:
    return dict(zip(overview.table["what"].to_pylist(), overview.table["count"].to_pylist(), strict=True))


@pytest.mark.quick
def test_every_figure_is_that_of_the_files(overview: Overview, folder: Path) -> None:
    count_of = counts(overview)
    assert count_of["memories"] == 3 + 4 + 2
    assert count_of["dated"] == 4  # the two logs' sections
    assert count_of["undated"] == 3 + 2
    assert count_of["empty below the heading"] == 1
    assert count_of["exact duplicates"] == 1  # «## Ещё», letters and blanks aside
    assert count_of["near-duplicate pairs"] == 1
    assert count_of["dead links"] == 2
    assert count_of["secrets"] == 1
    assert count_of["problems"] == 1 + 1  # the empty section, and the secret, which reading does not count
    assert repr(mk.read(folder)).endswith("; 1 problem in reading)")
    assert count_of["expired"] == 1
    assert count_of["expire within 31 days"] == 1


@pytest.mark.quick
def test_a_link_is_dead_where_no_file_of_the_folder_is_and_code_and_pictures_are_no_links(overview: Overview) -> None:
    rows = overview.tables["links"].select(["target", "path", "line"]).to_pylist()
    assert rows == [
        {"target": "docs/no.md#a", "path": "MEMORY.md", "line": 3},
        {"target": "memory/no%20such.md", "path": "MEMORY.md", "line": 8},
    ]


@pytest.mark.quick
def test_links_by_name_that_lead_nowhere_are_dead_and_none_is_counted_twice(tmp_path: Path) -> None:
    pages = {
        "печь.md": "---\naliases: [Пыхтелка]\n---\n\n# Печь\n\nСм. [[Котёл]], [[нет|её]] и [насос](насос.md).\n",
        "котёл.md": "# Котёл\n\n`[[a]]` [[Пыхтелка]]\n\nSee [[no such]].\n",
    }
    corpus = mk.read(write_files(tmp_path, pages))
    rows = mk.overview(corpus, as_of=DAY).tables["links"].select(["target", "path", "line"]).to_pylist()
    assert sorted(map(tuple, (row.values() for row in rows))) == [
        ("[[no such]]", "котёл.md", 5),
        ("[[нет|её]]", "печь.md", 7),
        ("насос.md", "печь.md", 7),
    ]
    assert pc.sum(pc.equal(corpus.tables["relations"]["state"], "dead")).as_py() == 3


def test_the_dead_links_of_pages_are_those_that_are_problems(tmp_path: Path) -> None:
    corpora = [mk.read(mk.sample_data() / "layouts" / name) for name in ("claude", "vault", "wiki", "okf", "serena")]
    pages = {
        "a.md": "---\ntitle: А\nrelated: '[[нет]]'\n---\n[[Котёл]] [б](б.md) [чертёж](x.pdf) [в](../в.md) [г](нет/)\n",
        "котёл.md": "---\ntitle: Котёл\n---\n[скрытая](.hidden.md) [[А#часть]]\n",
        ".hidden.md": "x\n",
        "graph.jsonl": '{"name": "n", "observations": ["x"]}\n{"from": "n", "to": "?", "relationType": "r"}',
    }
    corpora.append(mk.read(write_files(tmp_path, pages)))
    for corpus in corpora:
        overview = mk.overview(corpus, as_of=DAY)
        targets = overview.tables["links"]["target"].to_pylist()
        dead = [row for row in corpus.problems.to_pylist() if row["rule"] == "dead_link"]
        unread = [target for target in targets if target == "x.pdf"]  # a file, which no reader looks for
        assert counts(overview)["dead links"] == len(dead) + len(unread)
        assert all(any(target in row["message"] for row in dead) for target in targets if target not in unread)
    assert unread == ["x.pdf"]
    notes = overview.table.select(["what", "note"]).to_pylist()
    assert {"what": "dead links", "note": f"{len(dead)} of pages, which are problems"} in notes


def test_no_link_makes_memkit_look_outside_of_the_folder(tmp_path: Path) -> None:
    text = "# a\n\n[o](../../etc/passwd) [p](/etc/passwd) [q](a/../../x) [n](a%00b)\n"
    assert mk.overview(mk.read(write_files(tmp_path, {"MEMORY.md": text})), as_of=DAY).tables["links"].num_rows == 0


def test_near_texts_are_those_of_a_cosine_of_trigrams_above_the_bound(overview: Overview) -> None:
    (pair,) = overview.tables["near_texts"].to_pylist()
    one, other = ({text[i : i + 3] for i in range(len(text) - 2)} for text in _folded(pair))
    assert pair["similarity"] == pytest.approx(len(one & other) / (len(one) * len(other)) ** 0.5)
    assert pair["similarity"] >= 0.9


def _folded(pair: dict[str, Any]) -> list[str]:
    return [" ".join(pair[side].casefold().split()) for side in ("one", "other")]


def test_an_estimate_says_so_and_exact_compares_all(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{LONG} номер {i // 2}{'!' * (i % 2)}" for i in range(60)]
    corpus = mk.from_table({"text": texts, "memory_id": [f"m{i}" for i in range(60)]})
    whole = mk.overview(corpus, exact=True, as_of=DAY)
    monkeypatch.setattr("memkit.corpus_overview.SAMPLE_SIZE", 30)
    assert mk.overview(corpus, as_of=DAY).table.equals(whole.table)  # all are compared where that costs little
    monkeypatch.setattr("memkit.corpus_overview._MOST_CHARS", 100)
    some = mk.overview(corpus, as_of=DAY)
    notes = dict(zip(*(some.table[name].to_pylist() for name in ("what", "note")), strict=True))
    inside = some.tables["near_texts"].num_rows
    assert notes["near-duplicate pairs"].startswith(
        f"estimated: {inside:,} in a sample of 30 by hash; exact=True compares all"
    )
    assert notes["memories that repeat another"].startswith("equal texts alone; near ones too, ")
    assert counts(some)["memories that repeat another"] == counts(some)["exact duplicates"]
    assert counts(some)["near-duplicate pairs"] == round(inside * 4)
    assert counts(mk.overview(corpus, exact=True, as_of=DAY)) == counts(whole)


def test_the_sections_by_month_add_up(overview: Overview) -> None:
    assert sum(overview.tables["kinds_by_month"]["memories"].to_pylist()) == 9
    assert {row["month"] for row in overview.tables["kinds_by_month"].to_pylist()} == {"2026-02", "no date"}


def test_the_worst_come_first_with_what_to_do(overview: Overview) -> None:
    rows = overview.tables["problems"].to_pylist()
    order = ["error", "warning", "info"]
    assert [order.index(row["severity"]) for row in rows] == sorted(order.index(row["severity"]) for row in rows)
    assert all(row["do"] for row in rows)
    assert "secret" in {row["rule"] for row in rows}


def test_an_overview_says_that_there_are_more_rules_than_it_lists() -> None:
    broken = mk.read(mk.sample_data() / "broken")
    n_rules = len(set(broken.problems["rule"].to_pylist()))
    overview = mk.overview(broken, as_of=DAY)
    assert overview.tables["problems"].num_rows == 10
    note = f"the 10 most severe of {n_rules} rules; corpus.problems and memkit check have all"
    assert note in " ".join(repr(overview).split())
    assert note in overview._repr_html_()


def test_the_calls_to_make_next_run(folder: Path, overview: Overview) -> None:
    corpus = mk.read(folder)
    calls = overview.tables["next"]["call"].to_pylist()
    assert len(calls) == 3
    for call in calls:
        exec(call.replace("mk.Retriever()", "mk.Retriever(encoder=None)"), {"mk": mk, "corpus": corpus})  # noqa: S102


class Tags(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags = set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


def test_the_page_stands_alone_and_nothing_in_it_acts_or_tells_a_secret(overview: Overview, tmp_path: Path) -> None:
    page = overview.report(tmp_path / "page.html", title=ATTACK).read_text("utf-8")
    assert not Tags(page).tags & {"script", "img", "link", "iframe", "a", "object"}
    assert "http" not in page.replace("http-equiv", "").replace("https://a.b/c", "")
    carried = pickle.loads(pickle.dumps(overview))  # noqa: S301  # as to another process
    for text in (page, overview._repr_html_(), repr(overview), repr(carried)):
        assert KEY not in text
        assert "<script" not in text


def test_an_overview_is_short_a_table_to_others_and_says_its_day(overview: Overview) -> None:
    assert len(repr(overview).splitlines()) <= 40
    assert pa.table(overview).num_rows == len(overview.to_pandas())
    assert overview.table.schema.metadata[b"as_of"].startswith(b"2026-03-01")


def test_an_empty_folder_has_an_overview(tmp_path: Path) -> None:
    overview = mk.overview(mk.read(tmp_path), as_of=DAY)
    assert counts(overview)["memories"] == 0
    assert "What is there" in repr(overview)
    assert overview.tables["next"]["command"].to_pylist() == ["memkit overview PATH --hidden all"]


def test_parameters_are_checked(folder: Path) -> None:
    with pytest.raises(ParameterError, match="'exact' must be a bool"):
        mk.overview(mk.read(folder), exact="yes")


def test_the_command_prints_it_and_writes_the_page(folder: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "out.html"
    app(["overview", str(folder), "--html", str(page), "--as-of", DAY], standalone_mode=False)
    assert "dead links" in capsys.readouterr().out
    assert page.read_text("utf-8").startswith("<!doctype html>")
    app(["overview", str(folder), "--as-of", DAY, "--json"], standalone_mode=False)
    assert {row["what"]: row["count"] for row in json.loads(capsys.readouterr().out)}["memories"] == 9


def test_the_picture_of_an_overview_is_that_of_its_corpus(tmp_path: Path) -> None:
    corpus = mk.from_table(
        {
            "text": ["чай", "кофе", "квас"],
            "kind": ["note", "entry", None],
            "created_at": ["2026-01-05", "2026-02-01", None],
        }
    )
    overview = mk.overview(corpus, as_of="2026-03-01")
    assert overview.plot().words == mk.plot.growth(corpus).words
    assert overview.plot().words.startswith("memories by month, 1 without a date")
    assert "<svg" in overview.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_projects_of_a_host_stand_side_by_side(tmp_path: Path) -> None:
    uuid, files = "0f3c0a52-6f0e-4c3b-9d57-1b7a6d2f8e4", dict[str, str]()
    for n in range(4):
        below = f"-home-anna-{n}"
        links = "".join(f"- [Тема {k}](t{k}.md) — о чём\n" for k in range(n))
        dead_link = "- [нет](gone.md) — нет\n" * (n % 2)
        files[f"{below}/memory/MEMORY.md"] = f"---\na: b\n---\n# Память {n}\n{links}{dead_link}" + "строка\n" * 100 * n
        head = "---\nname: t{0}\ndescription: о\nmetadata:\n  modified: 2026-0{1}-05\n---\nтекст {0}\n"
        files |= {f"{below}/memory/t{k}.md": head.format(k, k + 1) for k in range(n + 1)}
        files |= {f"{below}/{uuid}{k}.jsonl": "{}\n" for k in range(n)}
    files[f"-home-only/{uuid}0.jsonl"] = "{}\n"
    corpus = mk.read(write_files(tmp_path / ".claude" / "projects", files))
    table = {row["project"]: row for row in mk.overview(corpus, as_of=DAY).tables["projects"].to_pylist()}
    assert list(table) == [*(f"-home-anna-{n}" for n in range(4)), "-home-only"]
    for n in range(4):
        row, lines = table[f"-home-anna-{n}"], 1 + n + n % 2 + 100 * n
        assert (row["lines"], row["loaded_lines"]) == (lines, min(lines, 200)), n
        assert row["cut"] == (204 if lines > 200 else None), "three lines of front matter stand above"
        assert (row["dead_links"], row["not_indexed"], row["transcripts"]) == (n % 2, 1, n), n
        assert row["newest"].date().isoformat() == f"2026-0{1 + n}-05"
        ids = [one for one in corpus.memories["path"].to_pylist() if f"anna-{n}/" in one]
        assert row["memories"] == len(ids)
        rules = [
            p for p in corpus.problems.to_pylist() if f"anna-{n}/" in f"{p['path']}/" and p["rule"] != "transcript"
        ]
        assert row["problems"] == len(rules)
    assert (table["-home-only"]["memories"], table["-home-only"]["transcripts"]) == (0, 1)
    from_home = mk.overview(mk.read(tmp_path), as_of=DAY)
    unhidden = {name: row | {"transcripts": None} for name, row in table.items() if row["memories"]}
    assert {row["project"]: row for row in from_home.tables["projects"].to_pylist()} == unhidden
    for shown in (repr(from_home), from_home._repr_html_()):
        assert "Projects side by side" in shown
        assert "-home-anna-3" in shown
    one = mk.overview(mk.read(tmp_path / ".claude" / "projects" / "-home-anna-3"), as_of=DAY).tables["projects"]
    assert one.select(["project", "transcripts"]).to_pylist() == [{"project": ".", "transcripts": 3}]
    alone = mk.overview(mk.read(tmp_path / ".claude" / "projects" / "-home-anna-1" / "memory"), as_of=DAY)
    assert "Projects side by side" not in repr(alone)


def strange_folder() -> dict[str, str]:
    """Repeats in logs and on pages, versions of one sentence, bare headings, files without a text, and a key."""
    copy = "Бэкап базы делаем каждую ночь и проверяем раз в неделю."
    below = f"## Утро\n\n{copy}\n\n## Почта\n\nПисьмо"
    days = [f"2026-01-{day:02}" for day in range(1, 7)]
    files = {f"memory/{day}.md": f"# {day}\n\nДень {day}.\n\n{below} {day}.\n" for day in days}
    files[f"memory/{days[0]}.md"] += "\nЛимит выгрузки на складе: 10 МБ.\n\n- [ ] позвонить в банк\n"
    files[f"memory/{days[5]}.md"] += "\nЛимит выгрузки на складе: 40 МБ.\n\n- [x] позвонить в банк\n- [ ] купить чай\n"
    bare = "## Пусто\n\n## Решение: Postgres, а не Redis\n"
    tea = "Любит зелёный чай с мёдом и лимоном по утрам, а кофе пьёт только в гостях по выходным"
    files |= {
        "MEMORY.md": f"# Память\n\n## Чай\n\n{tea}.\n\n## Чай\n\n{tea}!\n\n{bare}",
        "docs/a.md": "# А\n\nОтгружаем заказы по вторникам и четвергам.\n",
        "docs/b.md": "# А\n\nОтгружаем  заказы по вторникам и четвергам.\n",
        "docs/g.md": "# Ж\n\nСтраница Ж.\n\n## Ключи\n\nЛежат в сейфе на складе.\n\n- [ ] обновить ключ\n",
        "docs/h.md": "# З\n\nСтраница З.\n\n## Ключи\n\nЛежат в сейфе на складе.\n\n- [ ] обновить ключ\n",
        "docs/c.md": f"# В\n\nКлюч {KEY} лежит в сейфе.\n",
        "docs/d.md": "\n",
        "docs/f.md": "# Е\n\n<!-- сведено -->\n",
        "docs/e.md": "## Заголовок\n",
    }
    return files


def test_a_thing_has_one_count_wherever_it_is_shown(tmp_path: Path) -> None:
    """Overview, audit, dedup, its panel, its plan and check: the same number for the same notion."""
    corpus = mk.read(write_files(tmp_path, strange_folder()))
    overview = mk.overview(corpus, as_of=DAY)
    count_of, dedup = counts(overview), mk.Deduplicator(encoder=None).fit(corpus)
    report = dict(zip(*dedup.report().to_pydict().values(), strict=True))
    panel, plan = mk.panels.dedup(dedup), mk.plan(corpus, dedup)
    audits = mk.audit(mk.Retriever(encoder=None).fit(corpus), as_of=DAY)

    going = dedup.transform(corpus)["keep"].to_pylist().count(False)
    assert {count_of["memories that repeat another"], report["refused"], going} == {going}
    assert f"{going} memories of" in panel.status
    cut = plan.table["memory_id"].to_pylist()
    assert len(cut) + sum(plan.refused["count"].to_pylist()) == going
    assert count_of["exact duplicates"] == report["pairs_exact"]
    assert count_of["near-duplicate pairs"] == report["merging"] - report["pairs_exact"]
    assert panel.marks.title.startswith(f"{report['merging']} of {report['pairs'] - report['never_merging']} pairs")
    notes = dict(zip(*(overview.table[name].to_pylist() for name in ("what", "note")), strict=True))
    in_logs = sum(plan.refused["count"].to_pylist())
    assert notes["memories that repeat another"].startswith(f"{in_logs} of {going} lie in logs, which no plan cuts")
    how = audits.tables["shadowed"]["how"].to_pylist()
    assert len(how) - how.count("newer version") == going
    to_do = dict(zip(*(audits.table[name].to_pylist() for name in ("audit", "to_do")), strict=True))["shadowed"]
    assert f"shows which of {going - in_logs} it removes" in to_do
    assert f"{in_logs} lie in logs, which no plan cuts" in to_do

    silent = audits.tables["unsearchable"].to_pylist()
    assert count_of["empty below the heading"] == sum(row["why"] == "no text" for row in silent) == 3
    assert [row["memory_id"] for row in silent if row["why"] == "boilerplate"] == ["workspace:docs/f.md#е"]

    listed = sum(overview.tables["problems"]["count"].to_pylist())
    assert count_of["problems"] == listed == corpus.problems.num_rows + count_of["secrets"]
    digest = mk.digest(corpus, since="2000-01-01", until=DAY)
    told = [row for row in digest.table.to_pylist() if row["section"] == "contradictions"]
    assert len(told) == audits.tables["contradictions"].num_rows == 1
    opened = [row["what"] for row in digest.tables["boxes"].to_pylist()].count("opened")
    older = int(next(note for note in digest.notes if "still open" in note).split()[0])
    assert opened + older == corpus.named("open_tasks").to_arrow_table().num_rows == 3
    assert report["owner"] == 1
    assert notes["exact duplicates"].endswith("nor 1 of another store or subject")
    apart = report["never_merging"] - report["owner"]
    assert (f"{apart} more are alike" in notes["near-duplicate pairs"]) is (apart > 0)
    rows = {row["audit"]: row for row in audits.table.to_pylist()}
    assert rows["unreached"]["of"] - rows["unreached"]["count"] == rows["horizon"]["of"]


def test_no_policy_is_recommended_for_what_no_plan_cuts(tmp_path: Path) -> None:
    logs = {path: text for path, text in strange_folder().items() if path.startswith("memory/")}
    corpus = mk.read(write_files(tmp_path, logs))
    assert not any("Deduplicator" in call for call in mk.overview(corpus).tables["next"]["call"].to_pylist())


def test_letters_are_counted_by_the_names_of_scripts() -> None:
    texts = {"Latin": "tea", "Cyrillic": "чай", "Han": "喝茶 API 不加糖", "Hiragana": "おちゃをのむ x"}
    texts |= {"Hangul": "차를 마신다 v2", "Georgian": "ჩაი", "other": "123", "both": "tea чай"}
    table = mk.overview(mk.from_table({"text": list(texts.values())})).tables["languages"]
    assert {row["letters"]: row["memories"] for row in table.to_pylist()} == dict.fromkeys(texts, 1)


def test_equal_texts_of_a_large_folder_are_counted_without_a_copy_of_all_and_it_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_overview, "_MOST_CHARS", 0)
    monkeypatch.setattr(corpus_overview, "SAMPLE_SIZE", 1)
    monkeypatch.setattr(corpus_overview, "_PART", 2)
    monkeypatch.setattr(mk.Corpus, "ask", lambda *_, **__: pytest.fail("all texts were copied into a database"))
    texts = ["Чай  пьём\nутром", "чай пьём утром ", "чайпьём утром", "кофе", "", "", "…"]
    corpus = mk.from_table({"memory_id": [*"abcdefg"], "text": texts, "path": ["a.md"] * 7})
    steps = list[tuple[int, int | None]]()
    with heard(lambda what, done, total: steps.append((done, total)) if what == "overview" else None):
        tables = mk.overview(corpus, as_of=DAY).tables
    assert tables["equal_texts"].select(["times", "memory_ids"]).to_pylist() == [{"times": 2, "memory_ids": ["a", "b"]}]
    assert tables["empty"]["memory_id"].to_pylist() == ["e", "f"]
    assert steps == [(done, steps[-1][0]) for done in range(1, steps[-1][0] + 1)]
