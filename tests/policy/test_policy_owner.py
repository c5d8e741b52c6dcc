"""Whose fact it is: equal words of two owners are repeated text, which no policy drops and no search folds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import memkit as mk
from memkit.base.parallel import heard
from memkit.formats.finished import is_aside
from memkit.formats.registry import FORMATS
from memkit.tables.owners import Owners, _joined

FACT = "работает удалённо по пятницам"
VAULT = {".obsidian/app.json": "{}"}


def graph(*names: str) -> str:
    entities = ({"type": "entity", "name": name, "entityType": "person", "observations": [FACT]} for name in names)
    return "".join(json.dumps(entity, ensure_ascii=False) + "\n" for entity in entities)


def fact(id: str, kind: str) -> str:
    return f"- [id:{id}] [t:{kind}] [imp:low] {FACT}\n"


def note(id: int, subject: str, scope: str, text: str = FACT) -> str:
    uuid = f"00000000-0000-4000-8000-{id:012}"
    return f"---\nid: {uuid}\nsubject: {subject}\nkeywords: [a]\napplies_to: {scope}\n---\n{text}\n"


def topic(name: str) -> str:
    return f"---\nname: {name}\ndescription: {name}\n---\n{FACT}\n"


NAMED = f"Павел Иванов {FACT}\n"
SECTIONS = f"---\ntitle: Сад\n---\n## Слива\n\n{FACT}\n\n## Айва\n\n{FACT}\n"
KEPT = {
    "entities": {"memory.jsonl": graph("Анна", "Павел")},
    "pages": VAULT | {"Анна.md": FACT, "Павел.md": FACT},
    "plain pages": {"people/anna.md": FACT, "people/pavel.md": FACT},
    "subjects of notes": {f"{n}.md": note(n, subject, "global") for n, subject in enumerate(("Анна", "Павел"))},
    "scopes of notes": {f"{n}.md": note(n, "Анна", scope) for n, scope in enumerate(("global", "area:x"))},
    "scopes of notes whose text names their subject": {
        f"{n}.md": note(n, "Анна", scope, f"Анна {FACT} (home)") for n, scope in enumerate(("area:home", "area:office"))
    },
    "stores of Serena": {f"{project}/.serena/memories/team.md": FACT for project in "ab"},
    "names of Serena": {f".serena/memories/{name}.md": FACT for name in ("team", "team copy")},
    "stores of Claude": {
        f"projects/-{project}/memory/{name}": text
        for project in "ab"
        for name, text in (("MEMORY.md", "- [Анна](t.md) — кто\n"), ("t.md", topic("Анна")))
    },
    "files of Hermes": {f".hermes/memories/{name}.md": f"{FACT}\n§\n{name}" for name in ("MEMORY", "USER")},
    "workspaces of two agents": {f"agents/{agent}/MEMORY.md": f"# Память\n\n## Анна\n\n{FACT}\n" for agent in "ab"},
    "instructions of two projects": {f"{project}/CLAUDE.md": f"# Правила\n\n{FACT}\n" for project in "ab"},
    "users whose folder is read": {f"{user}/profile.md": fact("pf_1", "profile") for user in "ab"},
    "users": {f"users/{user}/profile.md": fact("pf_1", "profile") for user in "ab"},
    "headings of pages": VAULT
    | {f"{name}.md": f"---\ntitle: {name}\n---\n## Работа\n\n{FACT}\n" for name in ("Анна", "Павел")},
    "a text that names another": VAULT | {"Павел Иванов.md": NAMED, "Анна.md": FACT},
}
MERGED = {
    "a user's fact in profile and archive": {
        "users/a/profile.md": fact("pf_1", "profile"),
        "users/a/archive.md": fact("ar_1", "archive"),
    },
    "a user's folder that is read": {"profile.md": fact("pf_1", "profile"), "archive.md": fact("ar_1", "archive")},
    "a workspace and its backup": {
        f"{folder}MEMORY.md": f"# Память\n\n## Анна\n\n{FACT}\n" for folder in ("", "backup/")
    },
    "two sections of one name": {"a.md": f"# Сад\n\nГде что.\n\n## Слива\n\n{FACT}\n\n## Слива\n\n{FACT}\n"},
    "a page and its copy": VAULT | {"Анна.md": FACT, "другое/Анна.md": FACT},
    "a page and its marked copy": VAULT | {"Анна.md": FACT, "Анна (1).md": FACT},
    "a daily log twice": {f"memory/{name}.md": f"{FACT}\n" for name in ("2026-01-02", "2026-01-03-copy")},
    "a record under two ids": {
        "wisdom.json": json.dumps(
            [{"fact_id": n, "content": FACT, "category": "c", "confidence": 0.5} for n in ("f1", "f2")]
        )
    },
    "notes of one scope whose text names a subject": {
        f"{n}.md": note(n, subject, "area:x", f"Анна {FACT}") for n, subject in enumerate(("Анна", "Павел"))
    },
    **{
        f"notes of two scopes that both texts name{more}": {
            f"{n}.md": note(n, "Анна", f"area:{scope}", f"Анна: home и office, {FACT}{more * n}")
            for n, scope in enumerate(("home", "office", "garden")[:n_scopes])
        }
        for more, n_scopes in (("", 3), (" и пьёт чай", 2))
    },
    "a text that names its subject": VAULT | {"Павел Иванов.md": NAMED, "Команда.md": NAMED},
    "slugs of Claude": {"MEMORY.md": "- [x](c.md) — y\n", "c.md": topic("c")}
    | {f"{name}.md": topic(name) for name in ("feedback_a", "feedback_b")},
}


def read(files: dict[str, str], folder: Path) -> mk.Corpus:
    return mk.read(mk.testing.write_files(folder, files))


@pytest.mark.outside
@pytest.mark.quick
@pytest.mark.parametrize("case", KEPT)
def test_what_two_owners_say_in_equal_words_is_neither_dropped_nor_folded(case: str, tmp_path: Path) -> None:
    corpus = read(KEPT[case], tmp_path)
    dedup = mk.Deduplicator(encoder=None).fit(corpus)
    told = corpus.sql(f"from memories where contains(text, '{FACT}')").to_arrow_table().num_rows
    assert told == 2
    assert all(dedup.transform(corpus)["keep"].to_pylist())
    assert len(mk.plan(corpus, dedup)) == 0
    equal = dedup.pairs_.to_pylist()
    if case not in ("users", "a text that names another"):
        assert [(pair["kind"], pair["owner"] is not None, pair["contradiction"]) for pair in equal] == [
            ("exact", True, False)
        ]
    hits = mk.Retriever(encoder=None).fit(corpus).search(FACT, k=9)
    assert sum(FACT in text for text in hits["text"].to_pylist()) == 2


@pytest.mark.outside
@pytest.mark.quick
@pytest.mark.parametrize("case", MERGED)
def test_what_one_owner_says_twice_is_a_duplicate(case: str, tmp_path: Path) -> None:
    corpus = read(MERGED[case], tmp_path)
    judged = mk.Deduplicator(encoder=None).fit(corpus).transform(corpus)
    assert judged["keep"].to_pylist().count(False) == 1


@pytest.mark.outside
def test_the_document_compares_within_a_user_whatever_the_subject(tmp_path: Path) -> None:
    """Memory v2 knows no subjects, so its preset merges what profile, archive and any other page of a user repeat."""
    preset = mk.presets.memory_v2_policy["deduplicator"] | {"encoder": None}
    for case, files in {**KEPT, **MERGED}.items():
        corpus = read(files, tmp_path / case)
        judged = mk.Deduplicator(**preset).fit(corpus).transform(corpus)
        kept = judged.filter(judged["keep"])["text"].to_pylist()
        assert sum(FACT in text for text in kept) == (2 if case == "users" else 1), case


def test_the_sample_has_one_true_duplicate_and_headings_are_none(sample: mk.Corpus) -> None:
    for owner in ("same", "any"):
        judged = mk.Deduplicator(encoder=None, owner=owner).fit(sample).transform(sample)
        going = judged.filter(pc.invert(judged["keep"])).select(["memory_id", "duplicate_of"]).to_pylist()
        archive = "facts:facts/users/anna/archive.md#ar_00"
        assert going == [{"memory_id": f"{archive}4", "duplicate_of": f"{archive}3"}]


@pytest.mark.outside
def test_repeated_text_is_one_row_for_each_further_memory_and_any_owner_merges_it(tmp_path: Path) -> None:
    names = [f"имя{letter}" for letter in "абвгдежз"]
    corpus = read({"memory.jsonl": graph(*names)}, tmp_path)
    dedup = mk.Deduplicator(encoder=None).fit(corpus)
    least = min(corpus.memories["memory_id"].to_pylist())
    assert [pair["a_id"] for pair in dedup.pairs_.to_pylist()] == [least] * (len(names) - 1)
    assert set(dedup.pairs_["owner"].to_pylist()) == {"subject"}
    assert dict(zip(*dedup.report().to_pydict().values(), strict=True))["owner"] == len(names) - 1
    merged = mk.Deduplicator(encoder=None, owner="any").fit(corpus).transform(corpus)
    assert merged["keep"].to_pylist().count(True) == 1


def test_users_are_compared_only_where_asked_whatever_the_owner() -> None:
    table = mk.from_table({"text": [FACT, FACT, FACT], "title": ["a", "a", "b"], "user_id": ["u", "v", "v"]})
    for owner, across, kept in (("same", False, 3), ("same", True, 2), ("any", False, 2), ("any", True, 1)):
        dedup = mk.Deduplicator(encoder=None, owner=owner, across_users=across).fit(table)
        assert dedup.transform(table)["keep"].to_pylist().count(True) == kept, (owner, across)


def test_headings_of_a_template_are_no_subject_and_others_are(tmp_path: Path) -> None:
    page = "---\ntitle: {0}\n---\n## {1}\n\n{3}\n\n## {2}\n\n{3}\n"
    other = {f"{name}.md": page.format(name, "Работа", "Заметки", f"о нём {name}") for name in "абвгд"}
    # So long that the headings, which are lines of the texts, hardly differ.
    text = f"{FACT}, отвечает за склад, кассу, возвраты и доставку, обедает в два, пьёт зелёный чай без сахара"
    text += ", ездит на велосипеде до станции, а домой возвращается пешком через парк и набережную"
    corpus = read(VAULT | other | {"Анна.md": page.format("Анна", "Работа", "Заметки", text)}, tmp_path / "a")
    assert mk.Deduplicator(encoder=None).fit(corpus).pairs_.num_rows > 0
    corpus = read(VAULT | {"Анна.md": page.format("Анна", "Слива", "Айва", text)}, tmp_path / "b")
    assert mk.Deduplicator(encoder=None).fit(corpus).pairs_.num_rows == 0


DATED = f"---\ntitle: чай\ncreated: 2026-01-02\n---\n{FACT}\n"
NO_COPY = "it is no copy and lies in no archive or backup"
COPIES = [
    ("a page or an index links to it", {"b/чай.md": FACT, "чай.md": FACT, "о.md": "[чай](b/чай.md)"}, "b/чай.md"),
    (NO_COPY, {"archive/чай.md": FACT, "Проект/раз/чай.md": FACT}, "Проект"),
    (NO_COPY, {f"users/a/{name}.md": fact("x", name) for name in ("archive", "profile")}, "users/a/profile"),
    (NO_COPY, {"старый чай.md": FACT, "чай.md": "С тех пор другое", "Проект/раз/чай.md": FACT}, "Проект"),
    ("its path is shorter", {"а/б/чай.md": FACT, "я/чай.md": FACT}, "я"),
]


@pytest.mark.parametrize("survivor", ["oldest", "newest", "longest", "most_important"])
def test_a_copy_without_a_date_is_no_older_than_its_original(survivor: str, tmp_path: Path) -> None:
    undated = DATED.replace("created: 2026-01-02\n", "")
    almost = undated if survivor == "longest" else undated.replace("пятницам", "пятницам!")
    for case, files in {
        "undated": {"Проект/чай.md": DATED, "trash/чай.md": undated},
        "dated": {"Проект/чай.md": undated, "trash/чай.md": DATED},
        "nearly equal": {"Проект/чай.md": DATED, "trash/чай.md": almost},
    }.items():
        corpus = read(VAULT | files, tmp_path / case)
        judged = mk.Deduplicator(encoder=None, survivor=survivor).fit(corpus).transform(corpus)
        assert judged.filter(judged["keep"])["path"].to_pylist() == ["Проект/чай.md"]


@pytest.mark.parametrize("survivor", ["oldest", "newest", "longest", "most_important"])
@pytest.mark.parametrize(("why", "files", "stays"), COPIES)
def test_of_equal_copies_the_linked_one_stays_then_no_copy_then_the_shorter_path(
    why: str, files: dict[str, str], stays: str, survivor: str, tmp_path: Path
) -> None:
    corpus = read(VAULT | files, tmp_path)
    dedup = mk.Deduplicator(encoder=None, survivor=survivor).fit(corpus)
    (gone,) = (row for row in dedup.transform(corpus).to_pylist() if not row["keep"])
    assert (gone["because"], gone["duplicate_of"].partition(":")[2].startswith(stays)) == (why, True)
    assert f"({why})" in "".join(mk.plan(corpus, dedup).table["reason"].to_pylist())


def test_a_link_of_plain_files_says_which_copy_stays_as_well(tmp_path: Path) -> None:
    text = "Чай стоит в шкафу на кухне, рядом с кофе.\n"
    index = "# Указатель\n\n- [чай](далеко/в%20папке/чай.md)\n- [сайт](https://example.org/а.md)\n"
    corpus = read({"далеко/в папке/чай.md": text, "чай.md": text, "index.md": index}, tmp_path)
    assert corpus.tables["relations"].num_rows == 0
    gone = (
        row["path"]
        for row in mk.Deduplicator(encoder=None).fit(corpus).transform(corpus).to_pylist()
        if not row["keep"]
    )
    assert list(gone) == ["чай.md"]


@pytest.mark.outside
def test_of_two_subjects_that_of_which_the_text_speaks_keeps_it(tmp_path: Path) -> None:
    named = [{"type": "entity", "name": name, "entityType": "person"} for name in ("Анна", "Павел Иванов", "Команда")]
    relation = {"type": "relation", "from": "Павел Иванов", "to": "Анна", "relationType": "знает"}
    lines = [json.dumps(line | {"observations": [NAMED.strip()]}, ensure_ascii=False) for line in named]
    graph = read({"memory.jsonl": "\n".join([*lines, json.dumps(relation, ensure_ascii=False)])}, tmp_path / "graph")
    pages = read(VAULT | {"Павел Иванов.md": NAMED, "А.md": NAMED}, tmp_path / "pages")
    archived, told = read(VAULT | {"архив/Павел Иванов.md": NAMED, "А.md": NAMED}, tmp_path / "archived"), set[str]()
    for corpus, stays in ((graph, "Павел Иванов"), (pages, "Павел Иванов"), (archived, "А")):
        with heard(lambda *work: told.add(work[0])):
            kept = mk.Deduplicator(encoder=None).fit(corpus).transform(corpus).filter(pc.field("keep"))
        held = [row["title"] or Path(row["path"]).stem for row in kept.to_pylist() if NAMED.strip() in row["text"]]
        assert held == [stays]
    assert told >= {"words of texts", "texts that name a title"}


@pytest.mark.parametrize(
    ("path", "aside"),
    [
        *((name, True) for name in ("чай (1).md", "tea copy.md", "tea 2.md", "_BACKUP_tea.md", "tea.md.bak")),
        *((name, True) for name in ("tea.sync-conflict-20260101-101010-ABC.md", "чай — копия.md", "Архив/чай.md")),
        *((name, True) for name in (".trash/tea.md", "Старое/чай.md", "корзина/чай.md", "old/tea.md")),
        *((name, True) for name in ("$RECYCLE.BIN/tea.md", "Удалённые/чай.md", "2024-backup/tea.md", "tea_copy2.md")),
        *((name, True) for name in ("users/anna/archive.md", "Архив.md")),
        *((name, True) for name in ("old_notes/tea.md", "note [conflicted].md", "чай (конфликт).md", "tea.md.orig")),
        *((name, False) for name in ("old tea/tea.md", "старая Ладога.md", "Origins.md", "notes/tea.md", "older.md")),
        *((name, False) for name in ("threshold.md", "copyright.md", "2026-01-02.md", "v2.md", "golden/tea.md")),
    ],
)
def test_names_of_copies_and_archives_are_known_in_both_languages(path: str, aside: bool) -> None:
    assert is_aside(path) == aside


def test_a_word_that_begins_a_name_marks_a_copy_only_beside_the_original(tmp_path: Path) -> None:
    names = [f"{word} план.md" for word in ("конфликт", "старый", "копия", "архив", "backup", "old", "copy")]
    for other, differs in (("другое.md", "subject"), ("план.md", None)):
        pairs = mk.Deduplicator(encoder=None).fit(read(dict.fromkeys([*names, other], NAMED), tmp_path / other)).pairs_
        assert pairs["owner"].to_pylist() == [differs] * len(names)


def test_texts_of_a_template_that_name_their_page_are_no_pairs_and_a_copy_of_one_is() -> None:
    words = "здесь собраны решения, встречи и открытые вопросы команды, дневник ведётся каждую неделю"
    texts = [f"Страница о проекте Север{n}: {words}" for n in range(300)]
    table = mk.from_table({"text": [*texts, texts[7].replace("решения,", "решения;"), f"{texts[9]} и ещё"]})
    dedup = mk.Deduplicator(encoder=None).fit(table)
    assert all({pair["a_id"], pair["b_id"]} & {"300", "301"} for pair in dedup.pairs_.to_pylist())
    assert dedup.transform(table)["keep"].to_pylist().count(False) == 2


def test_the_notebook_has_the_rule_of_each_layout() -> None:
    notebook = (Path(mk.__file__).parents[1] / "notebooks" / "22_dedup.ipynb").read_text(encoding="utf-8")
    assert [format.name for format in FORMATS if f"| `{format.name}` |" not in notebook] == []


def test_the_date_above_a_log_is_not_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    said = "Пул соединений увеличен до двадцати, нагрузка выдержана."
    for day, name in enumerate(("# 2026-03-01", "# 2026-03-02 (понедельник)", "## 3 марта 2026", "# 2026-03-04"), 1):
        body = f"{name}\n\n{said.replace('двадцати', 'тридцати') if day == 4 else said}\n"
        (tmp_path / f"memory/2026-03-{day:02}.md").write_text(body, encoding="utf-8")
    corpus = mk.read(tmp_path)
    found = mk.Deduplicator(encoder=None).fit(corpus).pairs_
    told = {(a[-13:-11], b[-13:-11]) for a, b in zip(found["a_id"].to_pylist(), found["b_id"].to_pylist(), strict=True)}
    assert len(told) >= 2
    assert found.filter(pc.equal(found["kind"], "exact")).num_rows == 2
    differ = found.filter(found["contradiction"])
    assert not any(differ["date_conflict"].to_pylist())
    assert sum(differ["number_conflict"].to_pylist()) == differ.num_rows > 0
    hits = mk.Retriever(encoder=None, fold="near").fit(corpus).search("пул соединений", k=5)
    assert sorted(hits["n_alike"].to_pylist()) == [0, 2]


def test_rows_are_joined_as_the_components_of_a_graph_are() -> None:
    rng = np.random.default_rng(7)
    for n, n_pairs in ((1, 0), (6, 4), (60, 40), (300, 299)):
        ends = rng.integers(0, n, (n_pairs, 2)) if n < 300 else np.stack([np.arange(299), np.arange(1, 300)], axis=1)
        ends = rng.permutation(ends)
        graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
        assert _joined(n, ends).tolist() == connected_components(graph, directed=False)[1].tolist()


def test_texts_are_asked_for_a_subject_only_where_one_of_two_names_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"title": [f"Заметка{n}" for n in range(40)], "text": [f"Заметка0 {FACT}"] * 3 + [FACT] * 37})
    owners, asked, says = Owners.of(table).take(np.repeat(np.arange(40), 5)), [], Owners._says
    monkeypatch.setattr(Owners, "_says", lambda *some: asked.append(some) or says(*some))
    owners.parts(np.zeros(200, int))  # asks the text of several equal chunks once
    is_one = owners.one(*np.triu_indices(200, 1))
    assert is_one.sum() == 40 * 10 + 5 * 10  # rows of one memory, and those of the first with the two that name it
    assert len(asked) < 5 * 40


def test_after_an_edit_owners_are_looked_at_where_it_changed_what_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = list[int](), Owners.of.__func__  # type: ignore[attr-defined]  # a class method
    before = {"path": ["a.md", "a.md"], "line_start": [3, 5], "text": ["# Тула\n", "чай"], "format": ["plain"] * 2}
    edits = [{"text": ["# Тула\n\nмёд", "кофе"]}, {"line_start": [4, 6]}, {"text": ["# Омск\n", "чай"]}]
    edits += [{"text": ["чай", "# Тула"]}, {"line_start": [5, 3]}, {"path": ["a.md", "b.md"]}]
    owners = Owners.of(pa.table(before))
    monkeypatch.setattr(Owners, "of", classmethod(lambda cls, table: looks.append(len(table)) or look(cls, table)))
    for n, edit in enumerate(edits):
        told, fresh = owners.since(pa.table(before), pa.table(before | edit)), look(Owners, pa.table(before | edit))
        assert len(looks) == max(0, n - 1)
        for name in ("users", "stores", "labels", "titles", "places", "in_log"):
            assert np.array_equal(getattr(told, name), getattr(fresh, name)), name
