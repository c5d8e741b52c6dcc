"""`IndexBudget`: a MEMORY.md comes below the host's limits, nothing is lost, and all of it can be undone."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest

import memkit as mk
from memkit.formats.claude import loaded

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
    "many links": (topics(60), "---\na: b\n---\n<!-- c -->\n# Темы\n" + links(60), {"lines": 30}),
    "units": (topics(2), "## Темы\n" + links(2) + "\n## Проза\n" + ("слово " * 900 + "\n") * 8, {}),
}


def files_of(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file() and ".memkit" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def words(files: dict[str, bytes]) -> set[str]:
    return {word for data in files.values() for word in re.findall(r"\w+", data.decode())}


@pytest.mark.parametrize("name", CASES)
def test_it_comes_below_the_limits_loses_no_word_and_is_undone_byte_for_byte(tmp_path: Path, name: str) -> None:
    others, text, settings = CASES[name]
    root = mk.testing.write_files(tmp_path, others)
    (root / HOME / "MEMORY.md").write_bytes(text.encode())
    before, budget = files_of(root), mk.IndexBudget(**settings)
    edits = mk.plan(mk.read(root), [budget])
    assert edits.refused.num_rows == 0, edits.refused.to_pylist()
    edits.apply(force=True)
    after = files_of(root)
    new = after[HOME + "MEMORY.md"].decode()
    assert loaded(new.replace("\r\n", "\n"), budget.lines, budget.units).cut is None
    assert words(after) >= words(before)
    assert ("\r\n" in text) == ("\r\n" in new)
    assert {path for path in before if after.get(path) != before[path]} <= {HOME + "MEMORY.md", *others}
    corpus = mk.read(root)
    assert "dead_link" not in corpus.problems["rule"].to_pylist()
    assert mk.plan(corpus, [budget]).table.num_rows == 0, "once is enough"
    mk.undo(root)
    assert files_of(root) == before


def test_links_come_by_type_and_age_where_that_is_needed(tmp_path: Path) -> None:
    text = links(8) + "\n" + "- строка дня\n" * 250
    root = mk.testing.write_files(tmp_path, topics(8) | {HOME + "MEMORY.md": text})
    mk.plan(mk.read(root), [mk.IndexBudget()]).apply(force=True)
    text = (root / HOME / "MEMORY.md").read_text("utf-8")
    order = [int(number) for number in re.findall(r"\(t(\d+)\.md\)", text)]
    types = ("user", "feedback", "project", "reference")
    assert order == sorted(range(8), key=lambda n: (types.index(TYPES[n % 4]), -(1 + n % 9)))


def test_a_memory_within_the_limits_is_left_alone(tmp_path: Path) -> None:
    text = links(8) + "- " + "длинная строка " * 40 + "\n"
    root = mk.testing.write_files(tmp_path, topics(8) | {HOME + "MEMORY.md": text})
    assert mk.plan(mk.read(root), [mk.IndexBudget()]).table.num_rows == 0


def test_what_cannot_be_brought_below_is_refused_with_the_reason(tmp_path: Path) -> None:
    text = "".join(f"## Раздел {n}\nслово\n" for n in range(120))
    root = mk.testing.write_files(tmp_path, {HOME + "MEMORY.md": text, HOME + "a.md": "x\n"})
    edits = mk.plan(mk.read(root), [mk.IndexBudget()])
    assert edits.table.num_rows == 0
    assert "stays above the limits" in str(edits.refused.to_pylist()[0])


def test_the_sample_is_seen_whole_afterwards(tmp_path: Path) -> None:
    root = Path(copytree(mk.sample_data() / "layouts" / "claude", tmp_path / "claude"))
    mk.plan(mk.read(root), [mk.IndexBudget()]).apply(force=True)
    corpus = mk.read(root)
    assert "index_too_long" not in corpus.problems["rule"].to_pylist()
    built = mk.ContextBuilder().build(corpus, None, "x", "2026-07-30")
    assert {row["reason"] for row in built.table.to_pylist() if not row["keep"]} <= {"on_demand", "not_indexed"}
