"""`IndexBudget`: a MEMORY.md comes below the host's limits, nothing is lost, and all of it can be undone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copytree

import pyarrow as pa
import pytest

import memkit as mk
from memkit.hosts.claude import loaded
from tests.folders import tree

HOME = ".claude/memory/"
TOPIC = (
    "---\nname: {0}\ndescription: about {0}\nmetadata:\n  type: {1}\n  modified: 2026-0{2}-01T00:00:00Z\n---\nt {0}\n"
)
TYPES = ("project", "user", "reference", "feedback")


def topics(count: int) -> dict[str, str]:
    return {f"{HOME}t{n}.md": TOPIC.format(f"t{n}", TYPES[n % 4], 1 + n % 9) for n in range(count)}


def links(count: int, hook: str = "о чём") -> str:
    return "".join(f"- [Тема {n}](t{n}.md) — {hook} {n}\n" for n in range(count))


CASES = {
    "prose": (topics(3), f"# Память\n\n## Темы\n{links(3)}\n## Журнал\n" + "- запись дня\n" * 300, {}),
    "prose in windows": (topics(3), ("## Журнал\n" + "- запись дня\n" * 300 + links(3)).replace("\n", "\r\n"), {}),
    "long lines": (topics(40), links(40, "длинные слова о теме " * 40), {}),
    "line separators": (topics(60), links(60, "часть\u2028другая\x0cи \x85"), {"lines": 30}),
    "many links": (topics(60), "---\na: b\n---\n<!-- c -->\n# Темы\n" + links(60), {"lines": 30}),
    "units": (topics(2), "## Темы\n" + links(2) + "\n## Проза\n" + ("слово " * 900 + "\n") * 8, {}),
}


def words(files: dict[str, bytes]) -> set[str]:
    return {word for data in files.values() for word in re.findall(r"\w+", data.decode())}


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_it_comes_below_the_limits_loses_no_word_and_is_undone_byte_for_byte(tmp_path: Path, name: str) -> None:
    topic_files, text, settings = CASES[name]
    root = mk.testing.write_files(tmp_path, topic_files)
    (root / HOME / "MEMORY.md").write_bytes(text.encode())
    before, budget = tree(root), mk.hosts.IndexBudget(**settings)
    edits = mk.plan(mk.read(root), [budget])
    assert edits.refused.num_rows == 0, edits.refused.to_pylist()
    edits.apply(force=True)
    after = tree(root)
    new = after[HOME + "MEMORY.md"].decode()
    assert loaded(new.replace("\r\n", "\n"), budget.lines, budget.units).cut is None
    assert words(after) >= words(before)
    assert ("\r\n" in text) == ("\r\n" in new)
    assert {path for path in before if after.get(path) != before[path]} <= {HOME + "MEMORY.md", *topic_files}
    corpus = mk.read(root)
    assert "dead_link" not in corpus.problems["rule"].to_pylist()
    assert mk.plan(corpus, [budget]).table.num_rows == 0, "once is enough"
    mk.undo(root)
    assert tree(root) == before


@pytest.mark.quick
def test_links_come_by_type_and_age_where_that_is_needed(tmp_path: Path) -> None:
    text = links(8) + "\n" + "- строка дня\n" * 250
    root = mk.testing.write_files(tmp_path, topics(8) | {HOME + "MEMORY.md": text})
    mk.plan(mk.read(root), [mk.hosts.IndexBudget()]).apply(force=True)
    text = (root / HOME / "MEMORY.md").read_text("utf-8")
    order = [int(number) for number in re.findall(r"\(t(\d+)\.md\)", text)]
    types = ("user", "feedback", "project", "reference")
    assert order == sorted(range(8), key=lambda n: (types.index(TYPES[n % 4]), -(1 + n % 9)))


@pytest.mark.quick
def test_links_that_a_log_says_were_used_come_first_of_their_type(tmp_path: Path) -> None:
    text = links(12) + "\n" + "- строка дня\n" * 250
    root = mk.testing.write_files(tmp_path / "root", topics(12) | {HOME + "MEMORY.md": text})
    corpus = mk.read(root)
    ids = {row["path"]: row["memory_id"] for row in corpus.memories.to_pylist()}
    uses = {8: 1, 4: 2, 0: 0, 9: 3}  # topics 0, 4 and 8 are of one type; 8 is the newest
    calls = [
        {"query_id": f"{n} {time}", "text": "что?", "used": [ids[f"{HOME}t{n}.md"]], "shown": list(ids.values())[:2]}
        for n, times in uses.items()
        for time in range(times)
    ]
    log = tmp_path / "calls.jsonl"
    log.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    for log_or_table in (log, pa.Table.from_pylist(calls)):
        edits = mk.plan(corpus, [mk.hosts.IndexBudget(log=log_or_table)])
        assert {row["reason"] for row in edits.table.to_pylist()} >= {"links by type, use, then newest first"}
    edits.apply(force=True)
    order = [int(n) for n in re.findall(r"\(t(\d+)\.md\)", (root / HOME / "MEMORY.md").read_text("utf-8"))]
    types = ("user", "feedback", "project", "reference")
    assert order == sorted(range(12), key=lambda n: (types.index(TYPES[n % 4]), -uses.get(n, 0), -(1 + n % 9)))


def test_a_memory_within_the_limits_is_left_alone(tmp_path: Path) -> None:
    text = links(8) + "- " + "длинная строка " * 40 + "\n"
    root = mk.testing.write_files(tmp_path, topics(8) | {HOME + "MEMORY.md": text})
    corpus = mk.read(root)
    assert mk.plan(corpus, [mk.hosts.IndexBudget()]).table.num_rows == 0
    for name, low in (("lines", 1), ("units", 1), ("line_chars", 40)):
        mk.plan(corpus, [mk.hosts.IndexBudget(**{name: low})])
        with pytest.raises(mk.errors.ParameterError, match=rf"'{name}'.*\[{low}, inf"):
            mk.plan(corpus, [mk.hosts.IndexBudget(**{name: low - 1})])


def test_what_cannot_be_brought_below_is_refused_with_the_reason(tmp_path: Path) -> None:
    text = "".join(f"## Раздел {n}\nслово\n" for n in range(120))
    root = mk.testing.write_files(tmp_path, {HOME + "MEMORY.md": text, HOME + "a.md": "x\n"})
    edits = mk.plan(mk.read(root), [mk.hosts.IndexBudget()])
    assert edits.table.num_rows == 0
    assert "stays above the limits" in str(edits.refused.to_pylist()[0])


def test_the_sample_is_seen_whole_afterwards(tmp_path: Path) -> None:
    root = Path(copytree(mk.sample_data() / "layouts" / "claude", tmp_path / "claude"))
    mk.plan(mk.read(root), [mk.hosts.IndexBudget()]).apply(force=True)
    corpus = mk.read(root)
    assert "index_too_long" not in corpus.problems["rule"].to_pylist()
    built = mk.ContextBuilder().build(corpus, None, "x", "2026-07-30")
    assert {row["reason"] for row in built.table.to_pylist() if not row["keep"]} <= {"on_demand", "not_indexed"}


def test_a_new_topic_is_a_file_and_a_line_after_those_of_its_type(tmp_path: Path) -> None:
    index = "# Память\r\n- [A](user_a.md) — a\r\n- [B](project_b.md) — b\r\n\r\n## Проза\r\nтекст"
    topic_files = {f"{HOME}{name}.md": TOPIC.format(name, name[:-2], 1) for name in ("user_a", "project_b")}
    root = mk.testing.write_files(tmp_path, topic_files)
    (root / HOME / "MEMORY.md").write_bytes(index.encode())
    before, store = tree(root), mk.store(root).claude
    text = "Анна читает Python.\n\n" + "Длинный рассказ о ней. " * 30
    path = store.add("Анна: хозяйка", text, "user")
    assert path == HOME + "user_анна-хозяйка.md"
    lines = (root / HOME / "MEMORY.md").read_bytes().decode().split("\r\n")
    assert [line for line in lines if line not in index.split("\r\n")] == [lines[2]]
    assert lines[2].startswith("- [Анна: хозяйка](user_анна-хозяйка.md) — Анна читает Python. Длинный")
    assert len(lines[2]) <= 200
    (row,) = [row for row in mk.read(root).memories.to_pylist() if row["path"] == path]
    assert (row["kind"], row["title"], row["text"].strip()) == ("user", "Анна: хозяйка", text.strip())
    mk.undo(root)
    assert tree(root) == before
    with pytest.raises(mk.errors.ParameterError, match="type"):
        store.add("x", "text", "odd")
    with pytest.raises(mk.errors.ChangeRefusedError, match="Got none"):
        mk.store(mk.testing.write_files(tmp_path / "other", {"MEMORY.md": "text\n"})).claude.add("x", "text")


def test_a_line_is_what_a_line_feed_ends_when_a_topic_is_listed(tmp_path: Path) -> None:
    above = "# Память\n\nодин\u2028два\x0cтри\n- [Тема 0](t0.md) — о чём\n"
    root = mk.testing.write_files(tmp_path, {**topics(1), f"{HOME}MEMORY.md": f"{above}\n## Потом\nконец\n"})
    mk.store(root).claude.add("Чай", "С мёдом, утром.", "project")
    text = (root / HOME / "MEMORY.md").read_bytes().decode("utf-8")
    assert text == f"{above}- [Чай](project_чай.md) — С мёдом, утром.\n\n## Потом\nконец\n"
