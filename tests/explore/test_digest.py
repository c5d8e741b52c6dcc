"""What happened in a span of time: every line of the page follows from files that the test writes."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.base.params import Moment, since_time
from memkit.cli.app import app_for
from memkit.explore.digest.decisions import decisions
from memkit.explore.digest.digest import LINES, SECTIONS, Digest
from memkit.explore.digest.names import new_names
from memkit.explore.digest.span import SENTENCES, from_dates
from memkit.tables.samples import write_files
from memkit.text.sentences import sentences_of

SECRET = "sova-2026-x"
LATER = "2026-03-01"
STATES = [
    (
        "2026-02-01",
        {
            "MEMORY.md": "# Чай\nБез сахара, с мёдом.\n\n# Пул\nПять соединений на всех.\n\n# Старое\nЛишнее.\n",
            "HEARTBEAT.md": "# Heartbeat\n\n- [ ] проверить копию\n- [ ] полить базилик\n- [ ] ждать\n",
        },
    ),
    (
        "2026-02-25",
        {
            "MEMORY.md": "# Чай\nБез сахара, с мёдом.\n\n# Пул\nДесять соединений на всех. Решили: хватит.\n\n"
            f"# Коллега\nПришла новая коллега Анна. Пароль: {SECRET}. Спросить у Анны про шлюз.\n",
        },
    ),
    ("2026-02-27", {"HEARTBEAT.md": "# Heartbeat\n\n- [x] проверить копию\n- [ ] купить мёд\n- [ ] ждать\n"}),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mk.testing.write_commits(tmp_path_factory.mktemp("digest"), STATES)


@pytest.fixture(scope="module")
def week(repository: Path) -> Digest:
    return mk.digest(mk.read(repository), since="7d", until=LATER)


def rows(digest: Digest, section: str, *names: str) -> list[Any]:
    table = digest.tables[section]
    return [tuple(row.values()) for row in table.select(list(names)).to_pylist()]


@pytest.mark.quick
def test_a_history_says_what_came_changed_and_went(week: Digest) -> None:
    assert week.basis == "git"
    assert rows(week, "added", "title", "line") == [("Коллега", 7)]
    assert rows(week, "changed", "title", "before", "text") == [
        ("Пул", "Пять соединений на всех.", "Десять соединений на всех. … Решили: хватит.")
    ]
    assert rows(week, "forgotten", "what", "title", "text") == [("removed", "Старое", "# Старое\nЛишнее.")]
    day = datetime(2026, 2, 25, tzinfo=UTC)
    assert {date for name in ("added", "changed", "forgotten") for (date,) in rows(week, name, "date")} == {day}
    assert rows(week, "decisions", "text", "line") == [("Решили: хватит.", 5)]
    assert rows(week, "boxes", "what", "text") == [
        ("opened", "купить мёд"),
        ("closed", "проверить копию"),
        ("removed", "полить базилик"),
    ]
    assert rows(week, "names", "what") == [("Анна, 2 mentions",)]
    assert any("1 older checkbox is still open" in note for note in week.notes)


@pytest.mark.quick
def test_no_secret_is_in_any_form_of_the_page(week: Digest, tmp_path: Path) -> None:
    page = week.report(tmp_path / "week.html").read_text(encoding="utf-8")
    for form in (week.text, repr(week), week._repr_html_(), page, str(week.table.to_pylist())):
        assert SECRET not in form
        assert "[password hidden]" in form
    assert max(map(len, week.text.splitlines())) <= 80
    for section in SECTIONS.values():
        assert section.heading in page


@pytest.mark.quick
def test_a_span_ends_where_it_is_told_to(repository: Path, subtests: pytest.Subtests) -> None:
    corpus = mk.read(repository)
    for case, since, until, counts in (
        ("before the second commit", "7d", "2026-02-24", {}),
        ("its day alone", "2026-02-25", "2026-02-25", {"added": 1, "changed": 1, "forgotten": 1}),
        ("boxes alone", "2026-02-26", LATER, {"boxes": 3}),
        ("as the folder began", "2026-01-01", "2026-02-02", {}),
    ):
        with subtests.test(case):
            digest = mk.digest(corpus, since=since, until=until)
            names = ("added", "changed", "forgotten", "boxes")
            assert {name: n for name in names if (n := digest.tables[name].num_rows)} == counts
            assert digest.basis == "git"
    first = mk.digest(corpus, since="2026-01-01", until=LATER)
    assert any("begins on 2026-02-01" in note for note in first.notes)
    assert "--dates" not in " ".join(first.of_command(repository).notes)
    assert first.tables["added"].num_rows == 1


def test_what_is_in_no_commit_counts_and_has_no_date(tmp_path: Path) -> None:
    root = mk.testing.write_commits(tmp_path, STATES)
    write_files(root, {"new.md": "# Ещё\nWe decided to keep it.\n"})
    digest = mk.digest(mk.read(root), since="2026-02-26")
    assert rows(digest, "added", "title", "date") == [("Ещё", None)]
    assert rows(digest, "decisions", "text") == [("We decided to keep it.",)]
    assert any("1 change without a date" in note for note in digest.notes)
    for until in ("2026-02-26", LATER):  # what is in no commit yet is of today
        assert mk.digest(mk.read(root), since="7d", until=until).tables["added"]["title"].to_pylist() == ["Коллега"]


def test_without_git_dates_say_it_and_what_is_not_known_is_said() -> None:
    table = {
        "memory_id": ["old", "new", "edited", "later", "undated", "gone"],
        "text": ["Пул на пять.", "Чай.", "Кофе.", "Сок.", "Мёд.", "Отпуск."],
        "created_at": ["2026-01-01", "2026-02-25", "2026-01-01", "2026-03-09", None, "2026-01-01"],
        "updated_at": [None, None, "2026-02-26", None, None, None],
        "expires_at": [None, None, None, None, None, "2026-02-27"],
    }
    kinds = ["head", "note", "note", "note", "index", "note"]
    corpus = mk.from_table({**table, "user_id": [None, "mira", None, None, None, "boris"], "kind": kinds})
    digest = mk.digest(corpus, since="1w", until=LATER)
    assert digest.basis == "dates"
    ids = {name: [id for (id,) in rows(digest, name, "memory_id")] for name in ("added", "changed", "forgotten")}
    assert ids == {"added": ["new"], "changed": ["edited"], "forgotten": ["gone"]}
    assert rows(digest, "forgotten", "what") == [("expired",)]
    assert any("do not show what was removed" in note for note in digest.notes)
    assert any("1 of 6 memories has no date" in note for note in digest.notes)
    assert "Never listed, by their kind: head (1), index (1)." in digest.notes
    of_mira = mk.digest(corpus, since="1w", until=LATER, user_id="mira")
    assert of_mira.tables["added"].num_rows == 1
    assert of_mira.tables["forgotten"].num_rows == 0
    assert "only what expired is known without git" in of_mira.text
    with pytest.raises(
        mk.errors.ParameterError, match="basis='git' needs a history, but this is a table or a saved corpus"
    ):
        mk.digest(corpus, since="1w", until=LATER, basis="git")


def test_what_expires_is_told_by_exactly_one_of_digests_that_follow_each_other() -> None:
    days = [f"2026-02-{day}" for day in range(20, 26)]
    corpus = mk.from_table({"text": ["Отпуск."], "created_at": ["2026-01-01"], "expires_at": ["2026-02-22"]})
    daily = {day: mk.digest(corpus, since=day, until=day).tables["forgotten"].num_rows for day in days}
    assert {day for day, n in daily.items() if n} == {"2026-02-23"}, "its last day is the one before"


def test_boxes_of_new_files_are_opened_without_git_too(tmp_path: Path) -> None:
    files = {
        "memory/2026-01-05.md": "# Лог\n\n- [ ] старое\n",
        "memory/2026-02-26.md": "# Лог\n\n- [ ] новое\n- [x] сделано\n",
    }
    digest = mk.digest(mk.read(write_files(tmp_path, files)), since="7d", until=LATER)
    assert rows(digest, "boxes", "what", "path", "text") == [("opened", "memory/2026-02-26.md", "новое")]
    assert any("1 older checkbox is still open" in note for note in digest.notes)


def test_no_wrapper_of_a_chat_program_is_shown_and_lines_stay(tmp_path: Path) -> None:
    wrapped = (
        '{"message_id": 42, "sender": "Прохор"}\n{"message_id": 43, "sender": "Прохор"}\n<!-- сведено\nвчера -->\n'
        "user: Решили: пул растёт до десяти.\n**Assistant**: We will ship on Friday.\nHEARTBEAT_OK\n"
    )
    texts = [wrapped, "<!-- одна рамка -->", "чай"]
    rows = {"text": texts, "created_at": ["2026-02-25"] * 3, "path": ["a.md"] * 3, "line_start": [1, 20, 30]}
    digest = mk.digest(mk.from_table({**rows, "kind": ["document"] * 3}), "7d", "2026-02-28")
    table = digest.table.to_pylist()
    shown = "\n".join([*(f"{row['what']} {row['text']}" for row in table), digest.text])
    for words in ("message_id", "Прохор", "сведено", "user:", "Assistant", "HEARTBEAT_OK"):
        assert words not in shown, words
    decided = {row["text"]: row["line"] for row in table if row["section"] == "decisions"}
    assert decided == {"Решили: пул растёт до десяти.": 5, "We will ship on Friday.": 6}
    assert [row["text"] for row in table if row["line"] == 20] == ["<!-- одна рамка -->"]  # it says nothing else


def test_an_older_memory_is_contradicted() -> None:
    texts = ["Backups are kept for 14 nights on cedar.", "Backups are kept for 30 nights on cedar."]
    table = {"memory_id": ["a", "b"], "text": texts, "created_at": ["2026-01-05", "2026-02-26"]}
    tags = [["пароль: lisa-2027-y"], None]  # what an old memory calls a secret
    corpus = mk.from_table({**table, "title": [f"Пароль: {SECRET} lisa-2027-y"] * 2, "tags": tags})
    digest = mk.digest(corpus, since="7d", until=LATER)
    assert rows(digest, "contradictions", "memory_id", "before", "text") == [("b", *texts)]
    assert rows(digest, "contradictions", "title") == [("Пароль: [password hidden] [password hidden]",)]
    assert mk.digest(corpus, since="7d", until="2026-02-10").tables["contradictions"].num_rows == 0


def test_contradictions_of_a_large_folder_are_those_of_its_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Backups are kept for 14 nights on cedar.", "Чай без сахара.", "Backups are kept for 30 nights on cedar."]
    corpus = mk.from_table({"text": texts, "created_at": ["2026-01-05", "2026-01-06", "2026-02-26"]})
    for most, n_chars, n_found in ((2, 10**6, 0), (3, 10**6, 1), (3, 55, 0), (3, 56, 1)):
        monkeypatch.setattr("memkit.explore.digest.decisions.MOST", most)
        monkeypatch.setattr("memkit.explore.digest.decisions.MOST_CHARS", n_chars)
        found = mk.digest(corpus, since="7d", until=LATER)
        assert found.tables["contradictions"].num_rows == n_found == 1 - ("among the 2 newest" in str(found.notes))


def test_names_of_a_large_span_are_those_of_its_newest_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Звонила Анна. Это Анна.", "Чай без сахара.", "Это Борис. Ждёт Борис."]
    corpus = mk.from_table({"text": texts, "created_at": ["2026-02-24", "2026-02-25", "2026-02-26"]})
    for n_chars, names in ((22, ["Борис"]), (40, ["Анна", "Борис"])):
        monkeypatch.setattr("memkit.explore.digest.digest.MOST_NAMED", n_chars)
        found = mk.digest(corpus, since="7d", until=LATER)
        assert rows(found, "names", "what") == [(f"{name}, 2 mentions",) for name in names]
        assert ("among the 1 newest changes" in str(found.notes)) == (len(names) == 1)


def test_the_state_before_comes_in_pieces_and_the_one_after_is_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.explore.digest.span._PIECE", 2)
    texts, dates = ["чай", "кофе", "вода"], ["2026-01-01", "2026-02-27", "2026-01-02"]
    corpus = mk.from_table({"text": texts, "created_at": dates})
    moment = Moment.from_as_of("2026-03-01")
    span = from_dates(corpus.memories, since_time("7d", moment), moment.last_visible, "", lambda changes: changes)
    assert [piece["text"].to_pylist() for piece in span.before()] == [["чай"], ["вода"]]
    of_corpus, of_span = (table["text"].chunks for table in (corpus.memories, span.after.memories))
    assert {chunk.buffers()[2].address for chunk in of_span} == {chunk.buffers()[2].address for chunk in of_corpus}


def test_a_duration_is_whole_days_where_its_end_is_one() -> None:
    day, noon = Moment.from_as_of("2026-03-07"), Moment.from_as_of("2026-03-07T12:00")
    assert (
        since_time("7d", day) == since_time("1W", day) == since_time(" 168 h ", day) == datetime(2026, 3, 1, tzinfo=UTC)
    )
    assert since_time("12h", noon) == datetime(2026, 3, 7, tzinfo=UTC)
    for wrong in ("7", "d7", "7m", "-7d", "", None, 7, "2026-03-08"):
        with pytest.raises(mk.errors.ParameterError, match="digest: 'since' must be"):
            since_time(wrong, day)  # type: ignore[arg-type]  # what a user may give


def test_the_command_line_shows_it_and_says_how_to_see_more(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = str(repository), tmp_path / "page.html"
    words = ["digest", folder, "--until", LATER]
    app_for(words)([*words, "--most", "1", "--html", str(page)], standalone_mode=False)
    out = capsys.readouterr().out
    assert "and 2 more: the same command with --most 3" in out
    assert SECRET not in out + page.read_text(encoding="utf-8")
    app_for(words)([*words, "--since", "2026-02-25", "--json"], standalone_mode=False)
    assert {row["section"] for row in json.loads(capsys.readouterr().out)} >= {"added", "changed", "forgotten", "boxes"}


def test_a_long_section_ends_in_what_to_type() -> None:
    n = LINES + 37
    corpus = mk.from_table({"text": [f"чай номер {i}" for i in range(n)], "created_at": [LATER] * n})
    digest = mk.digest(corpus, since="1d", until=LATER)
    assert f"and 37 more: mk.show(digest, rows={n})" in " ".join(digest.text.split())


SAID = (
    "Решили: пул на десять.",
    "В итоге договорились ждать до весны.",
    "Принято решение не переезжать.",
    "We decided to keep Postgres.",
    "From now on we deploy on Tuesdays.",
    "Мне решили выдать ключ.",
    "We will seek a second source.",
    "- [decision] The cache lives for 90 days",
    "**Решение:** второй сервер в мае",
)
NOT_SAID = (
    "Решили проблему с копией.",
    "Ещё не решили, кто дежурит.",
    "Кто решил, что пул на десять?",
    "Not decided yet.",
    "To be decided by Anna.",
    "We will see.",
    "A request takes no more than 5 seconds.",
    "They haven't yet decided.",
    "Пул на десять соединений.",
    "The decision tree has nine leaves.",
)


def test_sentences_that_decide_are_told_from_those_that_do_not() -> None:
    texts = [*SAID, *NOT_SAID]
    lines = [{"row": n, "memory_id": "a", "is_heading": False, "text": text} for n, text in enumerate(texts)]
    above = pa.table({"memory_id": ["a"], "above": ["Вторник"]})
    assert decisions(pa.Table.from_pylist(lines, SENTENCES), above)["text"].to_pylist() == list(SAID)
    other_blanks = [text.replace(" ", "\u00a0") for text in texts]  # whole texts, few of which are cut into sentences
    found = mk.digest(
        mk.from_table({"text": other_blanks, "created_at": ["2026-02-26"] * len(texts)}), since="7d", until=LATER
    )
    assert {text for (text,) in rows(found, "decisions", "text")} == {*SAID}


def test_what_stands_under_a_heading_of_decisions_is_one() -> None:
    texts = {
        "list": ["Обсуждали долго.", "- пул на десять", "2. голос в марте"],
        "alone": ["Пул на десять.", "Спорили час."],
        "open": ["- кто дежурит"],
        "said": ["Итоги.", "Решили:", "- пул на десять", "Потом обед."],
    }
    above = {"list": "Решения", "alone": "Decision", "open": "Не решили", "said": "Вторник"}
    lines = [
        {"row": row, "memory_id": name, "is_heading": False, "text": text}
        for row, (name, some) in enumerate(texts.items())
        for text in some
    ]
    decided = decisions(
        pa.Table.from_pylist(lines, SENTENCES), pa.table({"memory_id": [*above], "above": [*above.values()]})
    )
    assert decided.select(["memory_id", "text"]).to_pylist() == [
        {"memory_id": "list", "text": "- пул на десять"},
        {"memory_id": "list", "text": "2. голос в марте"},
        {"memory_id": "alone", "text": "Пул на десять."},
        {"memory_id": "said", "text": "- пул на десять"},
    ]


def test_names_are_repeated_capitals_within_sentences(subtests: pytest.Subtests) -> None:
    nothing = pa.table({"title": pa.array([], pa.string()), "text": pa.array([], pa.string())})
    for case, text, names in (
        ("forms of one name", "Звонила Анна. Спросить Анну. Письмо Анне.", {"Анна": 3}),
        ("two words", "It is Casa Azul. We like Casa Azul.", {"Casa Azul": 2}),
        ("small words within", "Ужин в Taberna do Farol. Адрес у Taberna do Farol.", {"Taberna do Farol": 2}),
        ("neighbours that are two", "Были Анна, Борис. Звали Борис и Анна.", {"Анна": 2, "Борис": 2}),
        ("possession", "We asked Tomas. It is Tomas's train.", {"Tomas": 2}),
        ("a name within a product's spelling", "We use DuckDB. Now DuckDB is here.", {"DuckDB": 2}),
        ("once", "Звонила Анна.", {}),
        ("at the beginning alone", "Пул вырос. Пул упал.", {}),
        ("after a colon", "Note: Deploy it. Again: Deploy it.", {}),
        ("speakers", "Anna Petrova: I send it on Friday. Anna Petrova: I have sent it now.", {"Petrova": 2}),
        ("labels", "Session Key: main. Session Key: side.\n| Git Branch | dev |\n| Git Branch | main |", {}),
        ("months and days", "It was in March on Monday. Again in March on Monday.", {}),
        ("languages", "We speak Russian. They speak Russian.", {}),
        ("mostly small", "So the Pool grew, the pool fell, a pool stays, one pool. So the Pool.", {}),
        ("capitals throughout", "The API and the API.", {}),
        ("code and paths", "see `Anna` and src/Anna, `Anna`", {}),
    ):
        with subtests.test(case):
            texts = [(sentence.text, sentence.is_heading) for sentence in sentences_of(text)]
            assert {name.spelling: name.count for name in new_names(texts, lambda: [nothing])} == names


def test_a_name_that_was_there_before_is_not_new() -> None:
    texts = [("Звонила Анна.", False), ("Спросить Анну.", False), ("Это Борис.", False), ("Ждём Бориса.", False)]
    before = pa.table({"title": ["Анне"], "text": ["— письмо"]})
    assert [name.spelling for name in new_names(texts, lambda: [before])] == ["Борис"]
    often_small = pa.table({"title": [""], "text": ["борис борис борис"]})
    assert [name.count for name in new_names(texts, lambda: [often_small])] == [2]


@pytest.mark.parametrize("wrong", [{"since": "soon"}, {"basis": "gut"}, {"mentions": 0}, {"until": "2026-13-01"}])
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(mk.errors.ParameterError):
        mk.digest(mk.from_table({"text": ["чай"]}), **wrong)


CLOSED_LATER = {
    "memory/2026-02-20.md": "# Лог\n\n- [ ] Заказать тару\n- [ ] позвонить Анне\n- [ ] Order the jars\n",
    "memory/2026-02-21.md": "# Лог\n\n- [ ] заказать **тару** 📅 2026-02-25\n- [ ] order the **jars**\n",
    "memory/2026-02-23.md": "# Лог\n\n- [x] заказать тару. ✅ 2026-02-23\n- [ ] позвонить Анне\n- [x] order the jars\n",
    "memory/2026-02-24.md": "# Лог\n\n- [x] заказать тару\n- [x] сделано сразу\n",
    "memory/2026-02-25.md": "# Лог\n\n- [ ] полить базилик\n",
    "memory/2026-02-19.md": "# Лог\n\n- [x] полить базилик\n",
    "HEARTBEAT.md": "# Всегда\n\n- [ ] заказать тару\n",
}


def test_a_box_of_several_logs_is_opened_in_the_first_and_closed_where_it_is_ticked(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    corpus = mk.read(write_files(tmp_path, CLOSED_LATER))
    assert corpus.named("open_tasks").fetchall() == [
        ("HEARTBEAT.md", 3, "заказать тару"),  # nobody says of which day it is
        ("memory/2026-02-20.md", 4, "позвонить Анне"),
        ("memory/2026-02-23.md", 4, "позвонить Анне"),
        ("memory/2026-02-25.md", 3, "полить базилик"),  # written again after its tick
    ]
    write_files(tmp_path, {"HEARTBEAT.md": "# Всегда\n"})
    corpus = corpus.refresh()
    ann, basil = ("opened", "позвонить Анне"), ("opened", "полить базилик")
    closed = [("closed", "Заказать тару"), ("closed", "Order the jars")]
    for since, until, expected in (
        ("2026-02-20", "2026-02-22", [("opened", "Заказать тару"), ann, ("opened", "Order the jars")]),
        ("2026-02-22", "2026-02-23", closed),
        ("2026-02-24", "2026-02-26", [basil]),
        ("2026-02-20", "2026-02-26", [ann, basil, *reversed(closed)]),
    ):
        with subtests.test(since=since, until=until):
            assert rows(mk.digest(corpus, since=since, until=until, basis="dates"), "boxes", "what", "text") == expected


def test_huge_and_hostile_boxes_are_matched_in_linear_time(tmp_path: Path) -> None:
    tasks = [
        *(f"дело {number}" for number in range(3_000)),
        *["одно и то же"] * 3_000,
        "📅" * 20_000,
        "[due::" * 9_000,
        "~ " * 20_000,
    ]
    files = {
        f"memory/2026-02-2{day}.md": "".join(f"- [{mark}] {task}\n" for task in tasks)
        for day, mark in ((0, " "), (1, "x"))
    }
    corpus = mk.read(write_files(tmp_path, files))
    began = time.process_time()
    assert len(corpus.named("open_tasks").fetchall()) == 3  # signs name no task
    assert time.process_time() - began < 10
