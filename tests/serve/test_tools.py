"""The ten tools without a server: what each gives, what is logged, and that no answer can break the wire."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memkit as mk
from memkit.errors import ChangeRefusedError, NotFoundError, ParameterError, PolicyRefusal
from memkit.serve.tools import Tools, clean


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    root = mk.write_files(
        tmp_path / "root",
        {"MEMORY.md": "# Чай\n\nЛюбит зелёный чай.\n", "memory/2026-01-01.md": "# Пул\n\nДесять соединений.\n"},
    )
    return Tools(root, {"encoder": None})


def log_of(tools: Tools) -> list[dict[str, object]]:
    path = tools.root / ".memkit/calls.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def test_search_get_and_the_log_that_tuning_reads(tools: Tools) -> None:
    """Workspace, MCP tools: memory_search; Memory v2: memory_get by the ids of memory_search."""
    (first, *_) = tools.memory_search("зелёный чай", k=1)["results"]
    assert first["file_path"] == "MEMORY.md"
    assert 0 < first["score"] <= 1
    assert tools.memory_get([first["chunk_id"]])["results"][0]["content"] == first["content"]
    tools.memory_search("ничего такого xyz")
    rows = log_of(tools)
    assert {key for row in rows for key in row} == {
        "query_id",
        "text",
        "user_id",
        "time",
        "session",
        "parameters",
        "shown",
        "used",
    }
    assert "Любит" not in json.dumps(rows, ensure_ascii=False)
    queries, qrels = mk.import_log(tools.root / ".memkit/calls.jsonl")
    assert queries["text"].to_pylist() == ["зелёный чай"]
    assert qrels.select(["memory_id", "relevance"]).to_pylist() == [{"memory_id": first["memory_id"], "relevance": 1.0}]


def test_what_is_written_is_found_at_once(tools: Tools) -> None:
    """Workspace, MCP tools: memory_append, memory_log, memory_context; a store's index follows its writes."""
    assert tools.memory_append("Живёт в Казани.")["id"] == "MEMORY.md"
    assert tools.memory_log("Выкатили бота.")["ok"]
    assert "Казани" in tools.memory_search("Казань", k=1)["results"][0]["content"]
    text = tools.memory_context()["text"]
    assert "Казани" in text
    assert "Выкатили бота." in text
    assert "Десять" not in text
    assert int(tools.memory_reindex()["id"]) >= 3


def test_facts_are_saved_read_changed_and_forgotten(tools: Tools) -> None:
    """Memory v2, MemorySkill."""
    saved = tools.memory_save("Обсуждали структуру памяти.", "anna")
    assert (saved["ok"], saved["id"]) == (True, "ar_001")
    assert tools.memory_read(user_id="anna")["text"] == "- [ar_001] [archive] Обсуждали структуру памяти."
    hit = tools.memory_search("структура памяти", user_id="anna")["results"][0]
    assert hit["fact_id"] == "ar_001"
    assert tools.memory_search("структура памяти", user_id="boris")["results"] == []
    assert tools.memory_update("anna", "Обсуждали формат памяти и строк.", fact_id="ar_001")["ok"]
    asked = tools.memory_forget("anna", query="формат памяти")
    assert (asked["ok"], [hit["fact_id"] for hit in asked["candidates"]]) == (False, ["ar_001"])
    assert tools.memory_forget("anna", fact_id="ar_001")["ok"]
    assert tools.memory_read(user_id="anna")["text"] == ""
    with pytest.raises(PolicyRefusal):
        tools.memory_save("Как дела?", "anna")


def test_blocks_of_a_user_are_the_context(tools: Tools) -> None:
    tools.memory_save("Меня зовут Анна, я из Казани.", "anna")
    assert tools.memory_context("anna", "кто я?")["text"].startswith("[PROFILE MEMORY]\n- Меня зовут Анна")
    assert tools.memory_context("nobody", "кто я?")["text"] == ""


def test_a_profile_says_how_policies_search_and_blocks_are_set(tmp_path: Path) -> None:
    profile = mk.Profile(
        retriever={"encoder": None, "min_score": 0.99},
        policies={"admission": {"min_chars": 3}, "quota": {"max_profile": 1}, "expiry": {"grace_days": 10}},
        context={"profile_chars": 12},
    )
    (tmp_path / "root").mkdir()
    tools = Tools(tmp_path / "root", log=False, profile=profile)
    assert tools.memory_save("Зовут Аня", "anna")["ok"]
    with pytest.raises(PolicyRefusal, match="limit"):
        tools.memory_save("Предпочитает письма звонкам.", "anna")
    assert tools.memory_save("Сейчас чиним пул соединений.", "anna", expires_at="2026-02-20")["ok"]
    facts = tools.store.facts
    assert facts.read("anna", now="2026-03-01")["type"].to_pylist() == ["profile", "working"]
    assert facts.cleanup(now="2026-03-01") == []
    assert tools.memory_context("anna", "пул")["text"].startswith("[PROFILE MEMORY]\n- Зовут Аня")
    assert tools.memory_search("письма и соединения", user_id="anna")["results"] == []
    assert facts.search("anna", "письма и соединения").num_rows == 0


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", ".memkit/lock", "a/../../b", "MEMORY.md\x00", "link.md"]
)
def test_no_path_leads_out(path: str, tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("тайна")
    (tools.root / "link.md").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ChangeRefusedError):
        tools.memory_read(path=path)


def test_what_is_wrong_is_said(tools: Tools) -> None:
    with pytest.raises(NotFoundError, match=r"Near it: MEMORY[.]md"):
        tools.memory_read(path="MEMORI.md")
    for call in (
        lambda: tools.memory_read(),
        lambda: tools.memory_read("a", "b"),
        lambda: tools.memory_search("a", k=0),
        lambda: tools.memory_append("  "),
        lambda: tools.memory_search("a", user_id="../x"),
    ):
        with pytest.raises(ParameterError):
            call()
    with pytest.raises(NotFoundError, match="no chunk"):
        tools.memory_get(["none"])


def test_a_secret_in_a_query_is_masked_in_the_log_and_no_log_is_none(tools: Tools) -> None:
    secret = "sk-" + "a1B2" * 8
    tools.memory_search(f"ключ {secret}")
    assert secret not in (tools.root / ".memkit/calls.jsonl").read_text("utf-8")
    silent = Tools(tools.root, {"encoder": None}, log=False)
    before = log_of(tools)
    silent.memory_search("чай")
    assert log_of(tools) == before


def test_half_a_character_never_reaches_the_wire() -> None:
    assert clean("чай\udcff🍯").startswith("чай")
    assert clean("чай\udcff🍯").encode("utf-8").endswith("🍯".encode())


def holding(word: str, *folders: Path) -> set[str]:
    """The files that hold a word."""
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path.name for path in paths if word.encode() in path.read_bytes()}


def test_what_was_forgotten_is_in_no_query_of_the_log(tools: Tools) -> None:
    """Memory v2, tools: memory_forget; the log holds queries, and a query can quote the text."""
    saved = tools.memory_save("Обсуждали тайное слово кукумбер.", "anna")["id"]
    tools.memory_save("Обсуждали погоду на море.", "anna")
    tools.memory_search("зелёный чай")
    tools.memory_search("обсуждали  Тайное слово кукумбер. Что это?", user_id="boris")  # quotes it and finds nothing
    tools.memory_search("слово кукумбер", user_id="boris")  # a part of it
    tools.memory_search("кукумбер", user_id="anna")
    with (tools.root / ".memkit/calls.jsonl").open("a", encoding="utf-8") as log:
        log.write("строка не наша\n")
    other = Tools(tools.root, {"encoder": None})  # another server, whose last search found both
    both = [hit["chunk_id"] for hit in other.memory_search("обсуждали", user_id="anna")["results"]]
    tools.memory_forget("anna", fact_id=saved)
    assert "calls.jsonl" in holding("кукумбер", tools.root)
    cleared = mk.undo(tools.root, clear=True)
    assert holding("кукумбер", tools.root) == set()
    assert cleared.schema.metadata[b"note"].startswith(b"Old texts of 3 changes are gone, and 4 lines")
    assert (tools.root / ".memkit/calls.jsonl").read_text("utf-8").endswith("}\nстрока не наша\n")
    kept = [chunk for chunk in both if saved not in chunk]
    assert kept
    other.memory_get(kept)  # it was of use: of a query that is not in the log any more nothing is said
    assert [row["text"] for row in log_of_ours(tools)] == ["зелёный чай"]
    other.memory_search("погода", user_id="anna")
    other.memory_get(kept)
    assert [row["text"] for row in log_of_ours(tools)] == ["зелёный чай", "погода", "погода"]


def test_clearing_that_is_cut_off_can_be_done_again(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory v2, tools: memory_forget; the old texts, which tell what else is to go, go last."""
    saved = tools.memory_save("Обсуждали тайное слово кукумбер.", "anna")["id"]
    tools.memory_search("кукумбер")
    tools.memory_forget("anna", fact_id=saved)
    log, aside = tools.root / ".memkit/calls.jsonl", tools.root / ".memkit/aside.jsonl"
    log.rename(aside)
    log.symlink_to(aside)
    with pytest.raises(ChangeRefusedError, match="link"):
        mk.undo(tools.root, clear=True)
    aside.replace(log)
    with monkeypatch.context() as patch:
        patch.setattr("memkit.search.fitted.store.forget", lambda memories: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mk.undo(tools.root, clear=True)
    assert holding("кукумбер", tools.root)
    mk.undo(tools.root, clear=True)
    assert holding("кукумбер", tools.root) == set()


def log_of_ours(tools: Tools) -> list[dict[str, object]]:
    lines = (tools.root / ".memkit/calls.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
