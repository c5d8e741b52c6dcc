"""Logseq: top blocks are memories, ``key::`` lines are data, copies are left out, and links may lead nowhere."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

import memkit as mk
from memkit.formats.disk.source import decode
from memkit.formats.format import File
from memkit.formats.logseq import FORMAT, head_of, parse
from memkit.formats.rows import Rows
from memkit.tables.samples import write_files
from tests.test_growth import assert_grows_linearly

PAGE = """tags:: напитки, [[утро]]
alias:: green

- Сорта #чай
\t- сенча
\t  id:: 63f
\t- [[Лунцзин]], которого нет
- ## Как заваривать
  collapsed:: true
  tags:: вода
\t- 80 градусов
- ```
  - это код
  ```
-
"""
GRAPH = {
    "g/logseq/config.edn": "{}",
    "g/logseq/custom.css": "a {}",
    "g/logseq/bak/pages/чай/2026.md": "- старое\n",
    "g/logseq/version-files/b.md": "- старое\n",
    "g/pages/чай___зелёный.md": PAGE,
    "g/pages/b.md": "до блоков\n- блок [[чай/зелёный]]\n# Глава\nтекст\n",
    "g/pages/begun.md": "-\n",
    "g/journals/2026_02_15.md": "- 10:00 звонок\n\t- с Анной\n- TODO тара\n",
    "other.md": "# A\nb\n",
}


@pytest.mark.quick
def test_the_top_blocks_of_a_graph_are_memories(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, GRAPH))
    rows = {row["memory_id"].removeprefix("workspace:"): row for row in corpus.memories.to_pylist()}
    texts = {name: row["text"] for name, row in rows.items() if row["layout"] == "logseq" and row["kind"] != "head"}
    assert texts == {
        "g/journals/2026_02_15.md#10-00-звонок": "- 10:00 звонок\n\t- с Анной",
        "g/journals/2026_02_15.md#тара": "- TODO тара",
        "g/pages/b.md#top": "до блоков",
        "g/pages/b.md#блок-чай-зелёный": "- блок [[чай/зелёный]]",
        "g/pages/b.md#глава": "# Глава\nтекст",
        "g/pages/чай___зелёный.md#сорта-чай": "\n".join(PAGE.split("\n")[3:7]),
        "g/pages/чай___зелёный.md#как-заваривать": "\n".join(PAGE.split("\n")[7:11]),
        "g/pages/чай___зелёный.md#section": "\n".join(PAGE.split("\n")[11:15]),
    }
    head = rows["g/pages/чай___зелёный.md#top"]
    assert (head["title"], head["tags"], head["aliases"]) == ("чай/зелёный", ["напитки", "утро"], ["green"])
    brewing = rows["g/pages/чай___зелёный.md#как-заваривать"]
    assert (brewing["tags"], json.loads(brewing["extra"])["collapsed"]) == (["напитки", "утро", "вода"], "true")
    assert f"{rows['g/journals/2026_02_15.md#10-00-звонок']['created_at']:%F %H}" == "2026-02-15 10"
    assert rows["other.md#a"]["layout"] is None
    states = {row["written"]: row["state"] for row in corpus.tables["relations"].to_pylist()}
    assert states == {"[[чай/зелёный]]": "found", "[[Лунцзин]]": "dead", "[[утро]]": "dead"}
    problems = {(row["rule"], row["path"]) for row in corpus.problems.to_pylist()}
    assert problems == {("unclaimed", "g/logseq"), ("unclaimed", "g/pages/begun.md"), ("unclaimed", "other.md")}


@pytest.mark.quick
def test_a_block_ends_with_its_own_end_and_not_with_that_of_a_block_below_it(tmp_path: Path) -> None:
    page = (
        "- own\n  valid_until:: [[Mar 1st, 2026]]\n  - below\n- outer\n  - below\n    valid_until:: 2026-01-01\n"
        "- expires:: 2026-03-01\n  first line\n- unread\n  expires:: the release\n"
    )
    corpus = mk.read(write_files(tmp_path, {"logseq/config.edn": "{}", "pages/a.md": page}))
    ends = {row["memory_id"].split("#")[1]: row["expires_at"] for row in corpus.memories.to_pylist()}
    day = datetime(2026, 3, 1, 23, 59, 59, 999999, tzinfo=UTC)
    assert ends == {"own": day, "outer": None, "expires-2026-03-01": day, "unread": None}
    problems = [(row["rule"], row["line"], row["memory_id"]) for row in corpus.problems.to_pylist()]
    assert problems == [("bad_date", 10, "workspace:pages/a.md#unread")]


@pytest.mark.quick
def test_every_line_below_the_head_is_in_one_memory(tmp_path: Path) -> None:
    signs = random.Random(3).choices(["- ", "\t", "  ", "# ", "```", "a:: b", "текст", "\n", "::", "[[", "#x"], k=4000)
    graph = {"logseq/config.edn": "{}"} | {f"pages/p{n}.md": "".join(signs[200 * n :]) for n in range(20)}
    corpus = mk.read(write_files(tmp_path, graph))
    for n in range(20):
        text = graph[f"pages/p{n}.md"]
        front = head_of(text)
        lines = text.split("\n")[front.body_line - 1 if front else 0 :]
        held = [row["text"] for row in corpus.memories.to_pylist() if row["path"] == f"pages/p{n}.md"]
        in_memories = [line for one in held[bool(front) and len(held) and 0 :] for line in one.split("\n")]
        assert set(filter(str.strip, lines)) <= {*in_memories}


@pytest.mark.quick
def test_a_page_of_blocks_is_read_in_linear_time() -> None:
    def read(text: str) -> None:
        parse(File(decode("pages/a.md", text.encode())), Rows())

    assert FORMAT.begins_pages_by_links
    for unit in ("- a\n", "a:: b\n", "\t- a:: b\n", "- ```\n", "- ## a [[b]] #c\n"):
        assert_grows_linearly(read, partial(str.__mul__, unit), 4_000)
