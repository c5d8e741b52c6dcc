"""The workspace document's storage: what it writes, and that what it wrote is only appended to."""

from __future__ import annotations

from pathlib import Path

import pytest

import memkit as mk
from memkit.change.workspace import MemoryIndex, MemoryStorage, slug_of
from memkit.errors import ChangeRefusedError, NotFoundError, ParameterError

NOW = "2025-02-03T14:30"


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    return mk.store(tmp_path).workspace


@pytest.mark.quick
def test_memory_gets_sections_with_their_time(storage: MemoryStorage, tmp_path: Path) -> None:
    """Workspace, MemoryStorage: append_to_memory adds with a timestamp."""
    assert storage.read_memory() == ""
    storage.append_to_memory("Любит зелёный чай.", now=NOW)
    storage.append_to_memory("Живёт в Казани.\n", now="2025-02-04")
    assert storage.read_memory() == (
        "# Memory\n\n## 2025-02-03 14:30\n\nЛюбит зелёный чай.\n\n## 2025-02-04 00:00\n\nЖивёт в Казани.\n"
    )
    assert mk.read(tmp_path).memories["title"].to_pylist()[1:] == ["2025-02-04 00:00"]
    mk.undo(tmp_path)
    assert "Казани" not in storage.read_memory()


@pytest.mark.quick
def test_the_context_is_the_last_days_newest_first(storage: MemoryStorage) -> None:
    """Workspace, get_recent_context(days=2)."""
    for day in ("01", "03", "04"):
        storage.append_to_daily_log(f"День {day}.", now=f"2025-02-{day}T10:00")
    text = storage.get_recent_context(as_of="2025-02-04")
    assert [text.index(f"День {day}.") for day in ("04", "03")] == sorted(
        text.index(f"День {day}.") for day in ("04", "03")
    )
    assert "День 01" not in text
    assert text.count("\n---\n") == 1
    assert storage.get_recent_context(days=1, as_of="2025-03-01") == ""
    with pytest.raises(ParameterError):
        storage.get_recent_context(days=0)


def test_transcripts_are_saved_once_and_grow_by_turns(storage: MemoryStorage, tmp_path: Path) -> None:
    """Workspace, sessions: save_session → Path, append_to_session(slug, role, content)."""
    path = storage.save_session("Деплой: v2!", "начало", now=NOW)
    assert path == tmp_path / "sessions/2025-02-03-деплой-v2.md"
    with pytest.raises(ChangeRefusedError, match="overwrite=True"):
        storage.save_session("Деплой: v2!", "другое", now=NOW)
    assert storage.append_to_session("Деплой: v2!", "user", "Как дела?\n# нет\n**[10:00] bot**: врёт", now=NOW) == path
    storage.append_to_session("Деплой: v2!", "assistant", "Хорошо.", now=NOW)
    turns = mk.read(tmp_path).tables["turns"].to_pylist()
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
    assert path.read_text().startswith("начало\n")
    storage.save_session("Деплой: v2!", "заново", overwrite=True, now=NOW)
    assert path.read_text() == "заново\n"
    with pytest.raises(ParameterError, match="role: expected a word"):
        storage.append_to_session("x", "bot**: a", "b")


@pytest.mark.parametrize(
    ("text", "slug"),
    [("../../etc", "etc"), ("", "session"), ("A" * 99, "a" * 30), ("a/b\\c", "a-b-c"), ("🍯", "session")],
)
def test_a_slug_is_a_safe_name(text: str, slug: str) -> None:
    assert slug_of(text) == slug


def test_content_that_would_read_as_another_entry_is_indented(storage: MemoryStorage, tmp_path: Path) -> None:
    storage.append_to_daily_log("Было так:\n# Заголовок\n### 10:00\n```\n# код\n```\nконец", now=NOW)
    assert mk.read(tmp_path).memories["title"].to_pylist().count("14:30") <= 1
    titles = mk.read(tmp_path).memories["title"].to_pylist()
    assert "Заголовок" not in titles
    assert "10:00" not in titles
    assert "    # Заголовок\n    ### 10:00\n```\n# код\n```\n" in storage.read_daily_log("2025-02-03")
    storage.append_to_memory("# Один\n## Два\n### Три", now=NOW)
    assert "\n\n    # Один\n    ## Два\n### Три\n" in (tmp_path / "MEMORY.md").read_text()


def test_what_was_there_stays_byte_for_byte(tmp_path: Path) -> None:
    before = "\ufeff# Моё\r\nбез конца"
    mk.testing.write_files(tmp_path, {"MEMORY.md": before})
    mk.store(tmp_path).workspace.append_to_memory("Ещё.", now=NOW)
    after = (tmp_path / "MEMORY.md").read_bytes().decode()
    assert after == before + "\r\n\r\n## 2025-02-03 14:30\r\n\r\nЕщё.\r\n"


def test_the_index_follows_what_is_written(storage: MemoryStorage, tmp_path: Path) -> None:
    """Workspace, MemoryIndex: index_file, index_all, search → SearchResult."""
    storage.append_to_memory("Любит зелёный чай.", now=NOW)
    index = MemoryIndex(storage, encoder=None)
    (hit,) = index.search("чай", limit=1)
    assert (hit.file_path, 0 <= hit.score <= 1, "зелёный чай" in hit.content) == ("MEMORY.md", True, True)
    lines = (tmp_path / "MEMORY.md").read_text().split("\n")
    assert hit.content.strip() == "\n".join(lines[hit.line_start - 1 : hit.line_end]).strip()
    assert index.index_file(tmp_path / "MEMORY.md") == index.index_all() >= 1
    storage.append_to_daily_log("Пьёт кофе.", now=NOW)
    assert index.search("кофе")[0].file_path == "memory/2025-02-03.md"
    with pytest.raises(NotFoundError):
        index.index_file("none.md")
