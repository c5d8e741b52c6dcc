"""Memory v2, MemorySkill: the tools over the folder of the document, as an agent calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.serve.tools import Tools

HOME = "data/memory/users"
BOT = {
    f"{HOME}/test-user/profile.md": "- [id:pf_001] [t:profile] [imp:high] Пользователь предпочитает русский.\n",
    f"{HOME}/test-user/archive.md": "# Архив\n- [id:ar_120] [t:archive] [imp:low] Обсуждали структуру памяти.\n",
}
OLD = {"data/memory/boris.md": "- Пьёт чай без сахара.\n- Drives a red car.\n"}
STRAY = {"elsewhere/users/eva/archive.md": "- [id:ar_007] [t:archive] [imp:low] Обсуждали структуру крыльца.\n"}


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(mk.testing.write_files(tmp_path, BOT | OLD | STRAY), {"encoder": None}, log=False)


@pytest.mark.quick
def test_a_search_gives_ids_that_forgetting_knows_and_nothing_that_scores_nought(tools: Tools) -> None:
    hits = tools.memory_search("структуру памяти", k=10)["results"]
    assert all(hit["score"] > 0 for hit in hits)
    ids = {hit["memory_id"]: hit["fact_id"] for hit in hits}
    assert ids[f"facts:{HOME}/test-user/archive.md#ar_120"] == "ar_120"
    assert ids["facts:elsewhere/users/eva/archive.md#ar_007"] is None  # of a home that the store has not
    assert tools.memory_search("xyzzy")["results"] == []
    old = next(hit for hit in tools.memory_search("red car")["results"] if "red car" in hit["content"])
    assert (old["file_path"], old["fact_id"]) == ("data/memory/boris.md", None)  # none until it is migrated
    assert tools.memory_get([old["chunk_id"]])["results"][0]["fact_id"] is None
    tools.memory_save("Слушает оперу по вечерам.", "boris")
    new = next(hit for hit in tools.memory_search("red car")["results"] if "red car" in hit["content"])
    assert (new["file_path"], new["fact_id"]) == (f"{HOME}/boris/archive.md", "ar_002")
    assert tools.memory_forget("boris", fact_id=new["fact_id"])["ok"]


@pytest.mark.quick
def test_words_give_candidates_with_a_gap(tools: Tools) -> None:
    answer = tools.memory_forget("boris", query="чай")
    first, second = (hit["score"] for hit in answer["candidates"])
    assert not answer["ok"]
    assert answer["gap"] == pytest.approx(first - second)
    answer = tools.memory_forget("borris", query="чай")
    assert answer["candidates"] == []
    assert "Near it: boris" in answer["message"]


BAD: dict[str, Callable[[Any], object]] = {
    "query": lambda tools: tools.memory_search(5),
    "k": lambda tools: tools.memory_search("чай", k="5"),
    "user": lambda tools: tools.memory_search("чай", user_id=5),
    "chunks": lambda tools: tools.memory_get("chunk"),
    "a chunk": lambda tools: tools.memory_get([5]),
    "text": lambda tools: tools.memory_save(None, "anna"),
    "confirm": lambda tools: tools.memory_forget("anna", query="чай", confirm="yes"),
    "unknown": lambda tools: tools.memory_search("чай", limit=5),
    "missing": lambda tools: tools.memory_search(),
}


@pytest.mark.quick
@pytest.mark.parametrize("call", BAD)
def test_a_wrong_argument_gets_one_message_of_ours(call: str, tools: Tools) -> None:
    with pytest.raises(ParameterError) as caught:
        BAD[call](tools)
    assert "http" not in str(caught.value)


def test_the_store_and_the_server_find_alike(tmp_path: Path) -> None:
    """Both take the encoder and the settings that memkit has for all."""
    texts = ["Не ест мясо.", "Садится у прохода.", "Боится летать.", "Allergic to nuts.", "Plays chess."]
    lines = [f"- [id:ar_{n}] [t:archive] [imp:low] {text}\n" for n, text in enumerate(texts, 101)]
    root = mk.testing.write_files(tmp_path, {"users/anna/archive.md": "".join(lines)})
    tools = Tools(root, {"encoder": "use"}, log=False)
    for query in ("vegetarian", "страх полётов", "орехи", "шахматы"):
        served = [hit["fact_id"] for hit in tools.memory_search(query, user_id="anna")["results"]]
        assert mk.store(root).facts.search("anna", query)["source_id"].to_pylist() == served


@pytest.mark.parametrize("is_read_only", [True, False])
def test_a_server_that_writes_migrates_and_cleans_up_and_says_so(is_read_only: bool, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    past = "- [id:wk_001] [t:working] [imp:normal] [exp:2020-01-01] Ставим бота.\n"
    files = BOT | OLD | {f"{HOME}/test-user/working.md": past}
    root = mk.testing.write_files(tmp_path, files)
    command = [sys.executable, "-m", "memkit", "serve", str(root), "--set", "encoder=null"]
    process = subprocess.run(
        command + ["--read-only"] * is_read_only, input="", capture_output=True, text=True, env=os.environ, timeout=300
    )
    after = {path: (root / path).read_text() for path in files if (root / path).exists()}
    if is_read_only:
        assert after == files
        assert process.stderr == ""
    else:
        assert after[f"{HOME}/test-user/working.md"] == ""
        assert "data/memory/boris.md" not in after
        assert "expired, deleted: data/memory/users/test-user/working.md: - [id:wk_001]" in process.stderr
        assert "migrated: data/memory/boris.md:1: ar_001, a line" in process.stderr
        assert json.loads((root / f"{HOME}/boris/meta.json").read_text())["archiveCount"] == 2
