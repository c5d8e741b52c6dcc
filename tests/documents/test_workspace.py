"""The workspace document used for a day: its folder, every operation that it names, and the bytes that these leave."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import memkit as mk
from memkit.change.workspace import MemoryIndex, MemoryStorage, get_index, get_storage, slug_of
from memkit.cli.app import app_for
from memkit.errors import ChangeRefusedError, MemkitError, NotFoundError, ParameterError, QueryError
from memkit.index.encoders.http import HttpEncoder
from memkit.serve.tools import Tools

NOW = "2025-02-03T14:30"
MOSCOW = timezone(timedelta(hours=3))


@pytest.fixture(scope="module")
def document(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("documents/workspace.py")


@pytest.fixture
def root(document: ModuleType, tmp_path: Path) -> Path:
    return Path(document.build(tmp_path / "root"))


@pytest.fixture
def storage(root: Path) -> MemoryStorage:
    return MemoryStorage(root)


@pytest.fixture
def empty(tmp_path: Path) -> MemoryStorage:
    return MemoryStorage(tmp_path)


def utc(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def turns_in(root: Path) -> list[tuple[str, str]]:
    return [(turn["role"], turn["text"]) for turn in mk.read(root).tables["turns"].to_pylist()]


# --- the three levels ------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_the_documents_folder_is_read_whole_without_a_problem(root: Path) -> None:
    """Workspace, three levels: MEMORY.md, HEARTBEAT.md, daily logs, sessions."""
    corpus = mk.read(root)
    assert corpus.problems.num_rows == 0
    sections = {(row["kind"], row["title"], row["text"].count("\n") + 1) for row in corpus.memories.to_pylist()}
    assert sections == {
        ("long_term", "2025-02-01 09:00", 5),
        ("heartbeat", "Heartbeat", 4),
        ("daily_log", "10:15", 3),
        ("daily_log", "11:40", 2),
        ("session", "Session: task", 5),
    }
    assert corpus.tables["checklist"]["done"].to_pylist() == [False, True]


# --- MEMORY.md and daily logs ----------------------------------------------------------------------------------


@pytest.mark.quick
def test_append_to_memory_adds_a_section_with_the_time(storage: MemoryStorage, document: ModuleType) -> None:
    """Workspace, MemoryStorage: read_memory, append_to_memory."""
    assert storage.append_to_memory("Живёт в Казани.\n", now=NOW) == "MEMORY.md"
    storage.append_to_memory("Пьёт кофе.", now="2025-02-04")
    first, second = "\n## 2025-02-03 14:30\n\nЖивёт в Казани.\n", "\n## 2025-02-04 00:00\n\nПьёт кофе.\n"
    assert storage.read_memory() == document.FILES["MEMORY.md"] + first + second
    assert "2025-02-04 00:00" in mk.read(storage.root).memories["title"].to_pylist()
    mk.undo(storage.root)
    assert storage.read_memory() == document.FILES["MEMORY.md"] + first


@pytest.mark.quick
def test_memory_is_empty_until_it_is_written(empty: MemoryStorage) -> None:
    assert empty.read_memory() == ""
    empty.append_to_memory("Любит зелёный чай.", now=NOW)
    assert empty.read_memory() == "# Memory\n\n## 2025-02-03 14:30\n\nЛюбит зелёный чай.\n"


def test_what_was_there_stays_byte_for_byte(tmp_path: Path) -> None:
    before = "\ufeff# Моё\r\nбез конца"
    mk.testing.write_files(tmp_path, {"MEMORY.md": before})
    mk.store(tmp_path).workspace.append_to_memory("Ещё.", now=NOW)
    after = (tmp_path / "MEMORY.md").read_bytes().decode()
    assert after == before + "\r\n\r\n## 2025-02-03 14:30\r\n\r\nЕщё.\r\n"


def test_content_that_would_read_as_another_entry_is_indented(empty: MemoryStorage, tmp_path: Path) -> None:
    empty.append_to_daily_log("Было так:\n# Заголовок\n### 10:00\n```\n# код\n```\nконец", now=NOW)
    assert mk.read(tmp_path).memories["title"].to_pylist().count("14:30") <= 1
    titles = mk.read(tmp_path).memories["title"].to_pylist()
    assert "Заголовок" not in titles
    assert "10:00" not in titles
    assert "    # Заголовок\n    ### 10:00\n```\n# код\n```\n" in empty.read_daily_log("2025-02-03")
    empty.append_to_memory("# Один\n## Два\n### Три", now=NOW)
    assert "\n\n    # Один\n    ## Два\n### Три\n" in (tmp_path / "MEMORY.md").read_text()


@pytest.mark.quick
def test_a_log_is_appended_to_and_its_entries_stay_what_they_were(root: Path, document: ModuleType) -> None:
    """Workspace, daily logs: append_to_daily_log, read_daily_log; the document's own entries are lines with a time."""
    storage, before = MemoryStorage(root), mk.read(root).memories["memory_id"].to_pylist()
    path = f"memory/{document.DAY}.md"
    assert storage.append_to_daily_log("Пул вырос.", now=NOW) == path
    assert storage.read_daily_log(document.DAY) == document.FILES[path] + "\n### 14:30\n\nПул вырос.\n"
    assert storage.read_daily_log(date(2025, 2, 3)) == storage.read_daily_log(as_of=NOW)
    assert storage.read_daily_log("2025-02-02") == ""
    assert set(before) < set(mk.read(root).memories["memory_id"].to_pylist())
    assert storage.get_recent_context(as_of="2025-02-04T01:00") == storage.read_daily_log(document.DAY)


@pytest.mark.quick
def test_the_context_is_the_last_days_newest_first(empty: MemoryStorage) -> None:
    """Workspace, get_recent_context(days=2)."""
    for day in ("01", "03", "04"):
        empty.append_to_daily_log(f"День {day}.", now=f"2025-02-{day}T10:00")
    text = empty.get_recent_context(as_of="2025-02-04")
    assert text.index("День 04.") < text.index("День 03.")
    assert "День 01" not in text
    assert text.count("\n---\n") == 1
    assert empty.get_recent_context(days=1, as_of="2025-03-01") == ""
    with pytest.raises(ParameterError):
        empty.get_recent_context(days=0)


@pytest.mark.parametrize(
    ("title", "titles"),
    [
        ("# Daily Log: 2025-02-03\n\n", ["10:15", "11:40"]),
        ("# 2025-02-03\n", ["10:15", "11:40"]),
        ("", ["10:15", "11:40"]),
        ("# Daily Log: 2025-02-03\n\nТихий день.\n\n", ["Daily Log: 2025-02-03", "10:15", "11:40"]),
        ("# Daily Log: 2025-02-03\n\n## Утро\n\n", ["Утро"]),
        ("# Дневной лог\n\n", ["10:15", "11:40"]),
        ("# Log\n\n", ["10:15", "11:40"]),
        ("# Пятница, 7 февраля\n\n", ["10:15", "11:40"]),
        ("## Авария пула\n\n", ["10:15", "11:40"]),
        ("Тихий день.\n", ["", "10:15", "11:40"]),
    ],
)
def test_lines_with_a_time_are_entries_where_a_title_is_the_sole_heading(
    tmp_path: Path, title: str, titles: list[str]
) -> None:
    text = f"{title}- 10:15 Выкатили бота.\n- 11:40 Откатили бота.\n"
    day = "2025-02-07" if "7" in title else "2025-02-03"
    corpus = mk.read(mk.testing.write_files(tmp_path, {f"memory/{day}.md": text}))
    memories = corpus.memories.to_pylist()
    assert [row["title"] for row in memories] == titles
    assert "\n".join(row["text"] for row in memories) == text.rstrip("\n")
    timed = [row["created_at"] for row in memories if row["title"][:1] == "1"]
    assert timed == ([utc(f"{day}T10:15"), utc(f"{day}T11:40")] if len(timed) else [])
    assert corpus.problems.num_rows == 0
    if "2025" in title and timed:
        assert all("2025-02-03" in row["heading_path"] for row in memories if row["title"][0] == "1")


@pytest.mark.parametrize("before", ["- 10:15 чай\n- 11:40 мёд\n", "# 2025-02-03\n\n- 10:15 чай\n", "Вступление.\n"])
def test_what_a_log_held_keeps_its_ids_when_entries_are_appended(tmp_path: Path, before: str) -> None:
    mk.testing.write_files(tmp_path, {"memory/2025-02-03.md": before})
    ids, storage = mk.read(tmp_path).memories["memory_id"].to_pylist(), MemoryStorage(tmp_path)
    for content in ("Пул вырос.", "# Ещё\n- 12:00 да\n```\nобрыв", "```python\n# x\n```"):
        storage.append_to_daily_log(content, now=NOW)
    corpus = mk.read(tmp_path)
    assert corpus.memories["memory_id"].to_pylist()[: len(ids)] == ids
    assert corpus.memories["title"].to_pylist()[len(ids) :] == ["14:30"] * 3
    assert corpus.problems.num_rows == 0


# --- time zones ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", [MOSCOW, "Europe/Moscow", "+03:00", ZoneInfo("Europe/Moscow")])
def test_what_is_written_in_a_zone_is_read_in_it(tmp_path: Path, zone: object) -> None:
    """21:30Z is 00:30 of the next day in Moscow, and comes back as what it was."""
    storage = mk.store(tmp_path, timezone=zone).workspace
    now = "2025-02-03T21:30:00Z"
    assert storage.append_to_daily_log("Ночь.", now=now) == "memory/2025-02-04.md"
    storage.append_to_memory("Ночь.", now=now)
    storage.append_to_session("ночь", "user", "Ночь.", now=now)
    corpus = mk.read(tmp_path, timezone=zone)
    times = dict(zip(*(corpus.memories[name].to_pylist() for name in ("kind", "created_at")), strict=True))
    assert times["daily_log"] == times["long_term"] == utc("2025-02-03T21:30")
    assert corpus.tables["turns"]["said_at"].to_pylist() == [utc("2025-02-03T21:30")]
    assert corpus.tables["documents"]["date"].to_pylist()[-1] == date(2025, 2, 4)
    assert mk.read(tmp_path).tables["turns"]["said_at"].to_pylist() == [utc("2025-02-04T00:30")]
    assert corpus.refresh().memories["created_at"].to_pylist() == corpus.memories["created_at"].to_pylist()
    corpus.save(tmp_path / "lake")
    again = mk.open(tmp_path / "lake", source=tmp_path)
    mk.testing.write_files(tmp_path, {"memory/2025-02-05.md": "### 01:00\n\nУтро.\n"})
    assert max(again.refresh().memories["created_at"].to_pylist()) == utc("2025-02-04T22:00")


def test_a_time_with_its_own_offset_and_a_bare_day_do_not_move(tmp_path: Path) -> None:
    text = "---\ndate: 2025-02-03T10:00:00+01:00\n---\n# Чай\n\nБез сахара.\n"
    folder = mk.testing.write_files(tmp_path, {"a.md": text, "memory/2025-02-03.md": "Тихий день.\n"})
    memories = mk.read(folder, timezone=MOSCOW).memories.to_pylist()
    created = {row["path"]: row["created_at"] for row in memories}
    assert created == {"a.md": utc("2025-02-03T09:00"), "memory/2025-02-03.md": utc("2025-02-03")}


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "+25:00", 3, object()])
def test_what_is_no_zone_is_refused_alike_everywhere(tmp_path: Path, zone: object) -> None:
    for make in (
        lambda: mk.read(tmp_path, timezone=zone),
        lambda: mk.store(tmp_path, timezone=zone),
        lambda: MemoryStorage(tmp_path, zone),
        lambda: get_storage(str(tmp_path), timezone=zone),
        lambda: Tools(tmp_path, {"encoder": None}, timezone=zone),
    ):
        with pytest.raises(ParameterError, match="'timezone' must be a time zone"):
            make()


def test_the_tools_write_and_read_in_the_zone_of_the_server(tmp_path: Path) -> None:
    tools = Tools(tmp_path, {"encoder": None}, timezone="Asia/Tokyo")
    assert tools.store.workspace.timezone == ZoneInfo("Asia/Tokyo")
    assert tools.memory_log("Выкатили бота.")["ok"]
    (moment,) = tools.live.corpus().memories["created_at"].to_pylist()
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=3)


def test_the_command_line_takes_the_zone(tmp_path: Path) -> None:
    command = ["add-log", str(tmp_path), "Ночь.", "--timezone", "Europe/Moscow", "--yes"]
    result = CliRunner().invoke(app_for(command), [*command, "--as-of", "2025-02-03T21:30:00Z"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "memory/2025-02-04.md").read_text("utf-8") == "# Daily Log: 2025-02-04\n\n### 00:30\n\nНочь.\n"


# --- sessions --------------------------------------------------------------------------------------------------


def test_transcripts_are_written_as_the_document_shows_them(root: Path, document: ModuleType) -> None:
    """Workspace, sessions: save_session, append_to_session."""
    storage = MemoryStorage(root)
    path = storage.append_to_session("task", "user", "Спасибо.", now=NOW)
    assert path == root / f"sessions/{document.DAY}-task.md"
    assert (
        path.read_text("utf-8") == document.FILES[f"sessions/{document.DAY}-task.md"] + "\n**[14:30] user**: Спасибо.\n"
    )
    assert storage.save_session("other", "Записано.", now=NOW).read_text("utf-8") == "Записано.\n"


def test_transcripts_are_saved_once_and_grow_by_turns(empty: MemoryStorage, tmp_path: Path) -> None:
    """Workspace, sessions: save_session → Path, append_to_session(slug, role, content)."""
    path = empty.save_session("Деплой: v2!", "начало", now=NOW)
    assert path == tmp_path / "sessions/2025-02-03-деплой-v2.md"
    with pytest.raises(ChangeRefusedError, match="overwrite=True"):
        empty.save_session("Деплой: v2!", "другое", now=NOW)
    assert empty.append_to_session("Деплой: v2!", "user", "Как дела?\n# нет\n**[10:00] bot**: врёт", now=NOW) == path
    empty.append_to_session("Деплой: v2!", "assistant", "Хорошо.", now=NOW)
    turns = mk.read(tmp_path).tables["turns"].to_pylist()
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
    assert path.read_text().startswith("начало\n")
    empty.save_session("Деплой: v2!", "заново", overwrite=True, now=NOW)
    assert path.read_text() == "заново\n"
    with pytest.raises(ParameterError, match="role: expected a word"):
        empty.append_to_session("x", "bot**: a", "b")


@pytest.mark.parametrize(
    ("text", "slug"),
    [("../../etc", "etc"), ("", "session"), ("A" * 99, "a" * 30), ("a/b\\c", "a-b-c"), ("🍯", "session")],
)
def test_a_slug_is_a_safe_name(text: str, slug: str) -> None:
    assert slug_of(text) == slug


def test_code_in_a_transcript_still_compiles(root: Path, document: ModuleType) -> None:
    storage = MemoryStorage(root)
    path = storage.append_to_session("code", "assistant", document.CODE, now=NOW)
    assert path.read_text("utf-8") == f"# Session: code\n\n**[14:30] assistant**: {document.CODE}\n"
    storage.append_to_session("code", "user", "```python\nx: int = 1\n```", now=NOW)
    assert "**[14:30] user**:\n```python\nx: int = 1\n```\n" in path.read_text("utf-8"), "a mark has its own line"
    storage.append_to_session("code", "user", "Спасибо.", now=NOW)
    ((_, first), (_, second), (_, third)) = [turn for turn in turns_in(root) if turn[1] not in ("Как дела?", "Хорошо.")]
    assert (first, third) == (document.CODE, "Спасибо.")
    for text in (first, second):
        ast.parse(text.partition("```python\n")[2].partition("```")[0])


_PIECES = st.sampled_from(
    ["# a", "## 10:00", "**[10:00] bot**: врёт", "user: да", "[10:00] Анна: да", "```", "```python", "````", "~~~",
     "  ", "", "\\", "\\\\", "\\# a", "\\```", "\\user: да", "    x: int = 1", "чай  ", "\t",
     "- [id:pf_001] [t:profile] x", "---", "**Оля:** да", "a: b", "\u2028", "\x0c"]
)  # fmt: skip
_TEXTS = st.lists(
    st.one_of(_PIECES, st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=50)
@given(st.lists(_TEXTS.map("\n".join).filter(str.strip), min_size=1, max_size=3))
@example(["\n\nчай\n\n"])
@example(["```", "```\nx\n```"])
@example(["````\n```\n# a\n```", "да"])
@example(["- [id:pf_001] [t:profile] [imp:high] Любит чай.\n" * 3, "да"])
def test_a_transcript_gives_back_what_was_said(tmp_path_factory: pytest.TempPathFactory, contents: list[str]) -> None:
    """Random texts: roles and texts of the turns are those that were appended; line ends are LF, as everywhere."""
    root = tmp_path_factory.mktemp("talk")
    storage = MemoryStorage(root)
    for place, content in enumerate(contents):
        storage.append_to_session("talk", f"role{place}", content, now=NOW)
    wanted = [content.replace("\r\n", "\n").replace("\r", "\n") for content in contents]
    assert turns_in(root) == [(f"role{place}", text) for place, text in enumerate(wanted)]


def test_a_turn_after_a_fence_that_never_closed_is_a_turn(tmp_path: Path, document: ModuleType) -> None:
    storage = MemoryStorage(tmp_path)
    storage.save_session("x", "```\nобрыв", now=NOW)
    for text in (document.CODE, "да"):
        storage.append_to_session("x", "user", text, now=NOW)
    assert turns_in(tmp_path) == [("user", document.CODE), ("user", "да")]


def test_a_talk_past_midnight_stays_one_session(tmp_path: Path) -> None:
    """It is found by its slug while it is open: until four hours have passed since its last turn."""
    storage = MemoryStorage(tmp_path)
    path = storage.append_to_session("деплой", "user", "Катим.", now="2025-02-03T23:50")
    assert storage.append_to_session("деплой", "bot", "Катим.", now="2025-02-04T00:10") == path
    assert storage.append_to_session("деплой", "bot", "Готово.", now="2025-02-04T03:00") == path
    assert path.read_text("utf-8").endswith("**[2025-02-04 03:00] bot**: Готово.\n")
    times = mk.read(tmp_path).tables["turns"]["said_at"].to_pylist()
    assert times == [utc("2025-02-03T23:50"), utc("2025-02-04T00:10"), utc("2025-02-04T03:00")]
    assert storage.append_to_session("другой", "bot", "Да.", now="2025-02-04T00:10") != path
    later = storage.append_to_session("деплой", "user", "Снова.", now="2025-02-04T09:00")
    assert later == tmp_path / "sessions/2025-02-04-деплой.md"
    assert storage.append_to_session("деплой", "user", "И ещё.", now="2025-02-04T23:00") == later
    assert storage.append_to_session("деплой", "user", "И ещё.", now="2025-02-05T00:30") == later
    assert storage.append_to_session("деплой-2", "user", "И ещё.", now="2025-02-05T00:31") != later


def test_a_talk_is_of_the_day_of_its_zone(tmp_path: Path) -> None:
    storage = MemoryStorage(tmp_path, MOSCOW)
    path = storage.append_to_session("a", "user", "раз", now="2025-02-03T20:50:00Z")
    assert storage.append_to_session("a", "user", "два", now="2025-02-03T21:10:00Z") == path
    times = mk.read(tmp_path, timezone=MOSCOW).tables["turns"]["said_at"].to_pylist()
    assert times == [utc("2025-02-03T20:50"), utc("2025-02-03T21:10")]


def test_a_dry_run_writes_nothing_and_undo_takes_a_turn_back(root: Path) -> None:
    storage = MemoryStorage(root)
    before = (root / "sessions/2025-02-03-task.md").read_bytes()
    assert isinstance(storage.append_to_session("task", "user", "# да", now=NOW, dry_run=True), mk.Edits)
    assert (root / "sessions/2025-02-03-task.md").read_bytes() == before
    storage.append_to_session("task", "user", "# да", now=NOW)
    mk.undo(root)
    assert (root / "sessions/2025-02-03-task.md").read_bytes() == before


# --- the index -------------------------------------------------------------------------------------------------


def encode(texts: list[str]) -> object:
    import numpy as np

    return np.array([[1.0 + len(text) % 7, 1.0 + text.count("а"), 1.0] for text in texts])


def test_the_index_follows_what_is_written(empty: MemoryStorage, tmp_path: Path) -> None:
    """Workspace, MemoryIndex: index_file, index_all, search → SearchResult."""
    empty.append_to_memory("Любит зелёный чай.", now=NOW)
    index = MemoryIndex(empty, encoder=None)
    (hit,) = index.search("чай", limit=1)
    assert (hit.file_path, 0 <= hit.score <= 1, "зелёный чай" in hit.content) == ("MEMORY.md", True, True)
    lines = (tmp_path / "MEMORY.md").read_text().split("\n")
    assert hit.content.strip() == "\n".join(lines[hit.line_start - 1 : hit.line_end]).strip()
    assert index.index_file(tmp_path / "MEMORY.md") == index.index_all() >= 1
    empty.append_to_daily_log("Пьёт кофе.", now=NOW)
    assert index.search("кофе")[0].file_path == "memory/2025-02-03.md"
    with pytest.raises(NotFoundError):
        index.index_file("none.md")


@pytest.mark.parametrize("encoder", [encode, None])
def test_the_index_has_the_documents_numbers(root: Path, encoder: object) -> None:
    """Workspace, hybrid search: a Retriever with the preset finds as much; by words alone without an encoder."""
    index = MemoryIndex(MemoryStorage(root), encoder=encoder)
    oracle = mk.Retriever(**{**mk.presets.workspace, "encoder": encoder}).fit(mk.read(root))
    assert (mk.presets.workspace["vector_weight"], mk.presets.workspace["bm25_weight"]) == (0.7, 0.3)
    assert (mk.presets.workspace["index__chunk_tokens"], mk.presets.workspace["index__overlap_tokens"]) == (400, 80)
    expected = oracle.search("зелёный чай бота", k=5).to_pylist()
    results = index.search("зелёный чай бота")
    assert [(result.content, result.file_path, result.line_start, result.score) for result in results] == [
        (hit["text"], hit["path"], hit["line_start"], min(1.0, hit["score"])) for hit in expected if hit["score"] > 0
    ]
    assert all(0 < result.score <= 1 for result in results)
    assert index.index_all() == oracle.chunks_.num_rows
    chunk_counts = [index.index_file(path) for path in ("MEMORY.md", "HEARTBEAT.md", root / "memory/2025-02-03.md")]
    assert chunk_counts == [1, 1, 2]
    assert index.index_all(["MEMORY.md", "memory/2025-02-03.md"]) == 3


def test_the_words_vectors_and_chunks_of_the_search_are_asked_in_sql(root: Path) -> None:
    """Workspace, hybrid search: words are BM25, by DuckDB's own names; meaning is the cosine of vectors."""
    corpus = mk.read(root)
    asked = "select title, fts_main_memories.match_bm25(memory_id, 'пулы') s from memories where s > 0"
    ((title, score),) = corpus.sql(asked).fetchall()
    by_memkit = corpus.sql("select score from fts('пулы')").fetchall()
    assert (title, by_memkit) == ("11:40", [(score,)])
    with pytest.raises(QueryError, match="memkit itself keeps"):
        corpus.sql("pragma create_fts_index('memories', 'memory_id', 'text')")
    search = mk.Retriever(**{**mk.presets.workspace, "encoder": "hash"}).fit(corpus)
    ask = """select array_cosine_similarity(a.vector, b.vector) from vectors a, vectors b
        join chunks on b.chunk_id = chunks.chunk_id where a.chunk_id = b.chunk_id"""
    assert search.corpus_.sql(ask).to_arrow_table().column(0).to_pylist() == pytest.approx([1.0] * 5, abs=1e-6)


def test_a_file_that_is_not_there_is_an_error(root: Path) -> None:
    index = MemoryIndex(MemoryStorage(root), encoder=None)
    for path in ("MEMORI.md", root / "none.md", "../x.md", root.parent / "x.md"):
        with pytest.raises((NotFoundError, ChangeRefusedError, ParameterError)):
            index.index_file(path)
    with pytest.raises(NotFoundError, match=r"Near it: MEMORY[.]md"):
        index.index_all(["MEMORY.md", "MEMORI.md"])
    for wrong in (None, 3, ""):
        with pytest.raises(ParameterError, match="expected a path"):
            index.index_file(wrong)
    with pytest.raises(ParameterError, match="paths"):
        index.index_all("MEMORY.md")


def test_a_limit_is_given_to_the_index_or_to_the_question(root: Path) -> None:
    storage = MemoryStorage(root)
    index = MemoryIndex(storage, encoder=None, limit=1)
    assert len(index.search("бота")) == 1
    assert len(index.search("бота", limit=2)) == 2
    assert len(index.search("бота", 2)) == 2
    for wrong in (0, "5", 1.5):
        with pytest.raises(ParameterError, match="limit"):
            index.search("бота", limit=wrong)
        with pytest.raises(ParameterError, match="limit"):
            MemoryIndex(storage, encoder=None, limit=wrong)
    assert index.search("цеппелин") == []


def test_singletons_are_one_a_folder_with_what_they_were_made_with(root: Path) -> None:
    """Workspace, singletons: get_storage, get_index."""
    storage = get_storage(str(root), timezone="Europe/Moscow")
    assert get_storage(str(root)) is storage
    with pytest.raises(ParameterError, match="Europe/Moscow"):
        get_storage(str(root), timezone="Asia/Tokyo")
    index = get_index(str(root), encoder=None)
    assert get_index(str(root), encoder=None) is index
    assert index.storage is storage
    assert get_index(str(root), encoder=encode) is not index
    assert get_index(str(root), encoder=encode).search("чай")


# --- the document's own service --------------------------------------------------------------------------------


def test_openai_without_an_address_is_its_own_service_where_a_person_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Workspace, search: "70% Vector (OpenAI embeddings + sqlite-vec)"."""
    corpus, name = mk.from_table({"text": ["пул", "чай"]}), "openai:text-embedding-3-small"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ParameterError, match=r"needs its key in OPENAI_API_KEY.*nothing was sent"):
        mk.Retriever(encoder=name).fit(corpus)
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    monkeypatch.setattr("memkit.index.encode._GIVEN", set())
    sent: list[str] = []

    def post(self: HttpEncoder, body: dict[str, list[str]]) -> object:
        sent.append(self.url)
        return {"data": [{"index": place, "embedding": [1.0, place]} for place in range(len(body["input"]))]}

    monkeypatch.setattr(HttpEncoder, "_post", post)
    path = tmp_path / "p.toml"
    path.write_text(f'[retriever]\nencoder = "{name}"\n', "utf-8")
    tuned = mk.Profile.load(path).retriever
    with pytest.raises(ParameterError, match="only a file of settings names it"):
        mk.Retriever(**tuned).fit(corpus)
    assert sent == []
    search = mk.Retriever(**{**tuned, "encoder": name}).fit(corpus)
    assert set(sent) == {"https://api.openai.com/v1"}
    assert "2 texts go to api.openai.com, for vectors of text-embedding-3-small" in caplog.text
    search.save(tmp_path / "lake")
    monkeypatch.setattr("memkit.index.encode._GIVEN", set())
    with pytest.raises(ParameterError, match="which nobody gave"):
        mk.Retriever.load(tmp_path / "lake", corpus, trust=True)


def test_serve_takes_a_preset_that_set_and_profile_win_over(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path
) -> None:
    """Workspace, parameters: 70 % vector, 30 % BM25."""
    served: list[Tools] = []

    def offered(tools: Tools, **_: object) -> object:
        served.append(tools)
        raise ParameterError("enough")

    monkeypatch.setattr("memkit.serve.server.make_server", offered)
    path = tmp_path / "p.toml"
    path.write_text("[retriever]\nvector_weight = 0.4\n", "utf-8")
    call = ["serve", str(root), "--http", "0", "--preset", "workspace"]
    for words in ([*call, "--set", "bm25_weight=0.5", "--set", "encoder=none", "--profile", str(path)], call):
        CliRunner().invoke(app_for(words), words)
    both, alone = (tools.live.parameters for tools in served)
    assert (alone["vector_weight"], alone["bm25_weight"], alone["normalize"]) == (0.7, 0.3, "max")
    assert (both["vector_weight"], both["bm25_weight"], both["normalize"]) == (0.4, 0.5, "max")


# --- bad input -------------------------------------------------------------------------------------------------


def test_bad_types_get_one_message(storage: MemoryStorage) -> None:
    calls: list[Callable[[], object]] = [
        lambda: storage.append_to_memory(3),  # type: ignore[arg-type]
        lambda: storage.append_to_memory("  "),
        lambda: storage.append_to_daily_log(None),  # type: ignore[arg-type]
        lambda: storage.read_daily_log(3),  # type: ignore[arg-type]
        lambda: storage.read_daily_log("вчера"),
        lambda: storage.get_recent_context("2"),  # type: ignore[arg-type]
        lambda: storage.save_session(None, "x"),  # type: ignore[arg-type]
        lambda: storage.save_session("x", b"x"),  # type: ignore[arg-type]
        lambda: storage.append_to_session(["x"], "user", "x"),  # type: ignore[arg-type]
        lambda: storage.append_to_session("x", None, "x"),  # type: ignore[arg-type]
        lambda: storage.append_to_session("x", "user", ""),
        lambda: MemoryIndex("x"),  # type: ignore[arg-type]
        lambda: MemoryIndex(storage, encoder=None).search(3),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(MemkitError, match=r"expected|must be"):
            call()
