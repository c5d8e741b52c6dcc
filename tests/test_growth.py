"""Cost grows no faster than the input: every reader, pattern, analyser and chunker on shapes made to hurt it.

The one timed test of the project. It takes processor time, not the clock's; it enlarges an input until that takes
some milliseconds, then takes eight times as much, and takes a slow answer only for true when it was slow in every one
of several tries.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import math
import pkgutil
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import memkit
import memkit as mk
from memkit.base.duck import connect
from memkit.base.fences import fences
from memkit.base.params import estimator
from memkit.cli.app import app
from memkit.formats.disk.files import Listing
from memkit.formats.format import File, Role
from memkit.formats.registry import parse_file
from memkit.formats.rows import Rows
from memkit.policy.base import VERDICT, Policy, needed
from memkit.tables.samples import write_files
from memkit.text.analyse import Analyser, analyse_sql, load_fts
from memkit.text.secrets import mask
from memkit.text.sentences import snippet

pytestmark = pytest.mark.growth

LEAST_SECONDS = 0.002
TIMES = 8
GREATEST_RATIO = 2.3
"""For each doubling: 2 is linear, 4 quadratic."""
MOST_UNITS = 2**14
"""What takes less than `LEAST_SECONDS` for so many is not quadratic, nor is a pattern that does for `MOST_LETTERS`:
that many squared are eight million steps."""
MOST_LETTERS = 2**12
TRIES = 5

Work = Callable[[Any], object]
Shape = tuple[str, str, str]
"""What stands before, what is repeated (with its number for ``%d``), and what stands after."""


def grown(shape: Shape) -> Callable[[int], str]:
    """The text with so many units."""
    before, unit, after = shape
    if "%d" in unit:
        return lambda count: before + "".join(unit % number for number in range(count)) + after
    return lambda count: before + unit * count + after


def seconds(work: Work, subject: object) -> float:
    """Processor time of `work`, without collection, whose passes depend on what else is alive; as timeit does it."""
    gc.disable()
    try:
        start = time.process_time()
        work(subject)
        return time.process_time() - start
    finally:
        gc.enable()


def assert_grows_linearly(
    work: Work, make: Callable[[int], Any], most: int = MOST_UNITS, least: int = 500, times: int = TIMES
) -> None:
    """Fail where `work` on `times` as many units takes more than `GREATEST_RATIO` times as long for each doubling."""
    work(make(10))  # what a first call imports
    count = least
    while (early := seconds(work, make(count))) < LEAST_SECONDS:
        if early * (most / count) ** 2 < LEAST_SECONDS:  # so `most` would not take so long either, were it a square
            return
        count = min(math.ceil(count * min(max(1.5, 1.1 * LEAST_SECONDS / early), 8)), most)
    greatest = GREATEST_RATIO ** math.log2(times)
    measured = []
    for _ in range(TRIES):
        large = make(times * count)
        late = min(seconds(work, large) for _ in range(1 + len(measured)))
        if late <= greatest * early:
            return
        measured.append(f"{times} times {count} units take {late / early:.1f} times as long")
        # A busy machine makes single runs slow, and a long one more surely than a short one; a cache may end just
        # there. Only what is slow at larger sizes too counts, beside as many runs of the smaller in a row.
        count *= 2
        small = make(count)
        early = sum(seconds(work, small) for _ in range(times)) / times
    pytest.fail("\n".join(measured))


@pytest.mark.parametrize(("power", "share", "is_found"), [(1, 1, False), (1.1, 1, False), (2, 1, True), (2, 0.1, True)])
def test_a_square_would_be_found_and_also_beside_what_is_linear(
    power: float, share: float, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "seconds", lambda work, count: 1e-6 * (count + share * count**power))
    with pytest.raises(pytest.fail.Exception) if is_found else contextlib.nullcontext():
        assert_grows_linearly(str, int)


def reader(path: str, *, findings: tuple[tuple[str, object], ...] = ()) -> Work:
    """The reader of one file, of which a survey may have found something."""

    def read(text: str) -> None:
        rows = Rows()
        data = text.encode("utf-8", "surrogateescape")
        source = Listing(Path(), 2**30).source(path, ((len(data), 0, 0), data), rows)
        parse_file(File(source, Role(findings=findings)), rows)
        rows.to_arrow()

    return read


MARKDOWN: list[Shape] = [
    ("", "#\n", ""),
    ("", "x\n", ""),
    ("", " ", "x"),
    ("", "``` x\n", ""),
    ("", "~~~\n```\n", ""),
    ("# ", "a #", "\n"),
    ("", "# a\udcff\n", ""),
]
DATED: list[Shape] = [("", "# 2026-01-02 10:00\n", ""), ("# ", "10:00", "\n")]
BOXES: list[Shape] = [
    ("", "# h\n- [x] a\n", ""),
    ("", "- [ ] ", "\n"),
    ("", "1", ". [ ] a\n"),
    ("", "```\n- [ ] a\n```\n", ""),
]
TURNS: list[Shape] = [
    ("", "# h\nuser: hi\nline\nline\n", ""),
    ("**[10:00]", " ", "\n"),
    ("**[10:00] ", "a ", "\n"),
    ("**", "a", "\n"),
    ("", "**[10:00] user**: hi\n", ""),
    ("user", " ", "\n"),
    ("", "[10:00] user: hi\n", ""),
    ("[10:00]", " ", "\n"),
    ("[10:00] ", "a ", "\n"),
    ("", "## user\nhi\n", ""),
    ("## user", " ", "x\n"),
    ("## user ", "#", "x\n"),
    ("##", " ", "user\n"),
]
LOGS: list[Shape] = [
    ("", "- 10:15 a\n", ""),
    ("", "- 10:15 a%d\n", ""),
    ("- 10:15", " ", "\n"),
    ("- 10:15", " :", "\n"),
    ("", "user: a\nbot: b\n", ""),
    ("", "user: a\n", ""),
    ("# 3:05", " ", "pm\n"),
    ("# a\n", "## b\nc\n", ""),
    ("", "# a%d\nc\n", ""),
    ("# a\n", "\n", "## b\nc\n"),
    ("", "# a\n## b\n", ""),
]
HEADS: list[Shape] = [
    ("---\n", "a: b\n", "---\n"),
    ("---\n", "a%d: b\n", "---\n"),
    ("---\n", "a%d: b\n", ""),
    ("---\nid: x\nsubject: y\nkeywords:\n", "- a\n", "---\nbody of the note\n"),
    ("---\nid: x\nsubject: y: z\nkeywords:\n", "- a\n", "---\nbody of the note\n"),
    ("---\nid: x\nsubject: y\nkeywords: [", "a, ", "a]\n---\nbody of the note\n"),
    ("---\nid: x\nsubject: ", " ", "y\n---\nbody of the note\n"),
    ("---\nid: x\nsubject: ", "'", "\n---\nbody of the note\n"),
    ("---\nid: x\nsubject: y\n---\n", "```\n", ""),
    ("---\nid: x\nsubject: y\n", "---  \n", ""),
]
FACTS: list[Shape] = [
    ("", "- [id:pf_%d] [t:profile] [imp:high] a\n", ""),
    ("", "- [id:a] [t:profile] [imp:high] a\n", ""),
    ("", "x\n", ""),
    ("- ", "[id:", "\n"),
    ("- [", " ", "id:a]\n"),
    ("- [id:a]", " ", "\n"),
    ("", "- [id:%d] a\nb\n", ""),
]
COUNTERS: list[Shape] = [
    ("{", '"a%d": 1,\n', '"b": 1}'),
    ("{", '"a%d": 1,', '"b": 1}'),
    ("{", '"a": 1,\n', '"b": 1}'),
    ('{"a": "', '\\"', '"}'),
]
WISDOM = '{"fact_id": "f", "content": "c", "category": "c", "confidence": 0.5'
JSON: list[Shape] = [
    ("[]" * 101 + '"', '\\"', ""),
    ('{"a": ' * 20 + "[]" * 101 + '"', '\\"', ""),
    ("", "[]", ""),
    ("[", "[],\n", "1]"),
    ('["', "\\\\", ""),
    ("[", " ", "1]"),
    ("[" + WISDOM + "}", ",\n" + WISDOM + ', "relations": [], "x": 1}', "]"),
    ("[" + WISDOM + "}", ", " + WISDOM + "}", "]"),
    (WISDOM + ', "relations": [', '{"fact_id": "g"},\n', "{}]}"),
    (WISDOM + ', "relations": [', "1,\n", "{}]}"),
    (WISDOM, ',\n"content": "d"', "}"),
    (WISDOM, ',\n"x%d": "d"', "}"),
    ('{"facts": [', WISDOM + "},\n", WISDOM + '}], "more": 1}'),
    (WISDOM + ', "relations": 1', "0", "}"),
]
YAML: list[Shape] = [
    ("", "- fact_id: f\n  content: c\n", ""),
    ("", "fact_id: f%d\ncontent: c\n---\n", ""),
    ("fact_id: f\ncontent: c\n", "a%d: b\n", ""),
    ("fact_id: f\ncontent: c\n", "a: b\n", ""),
    ("fact_id: f\ncontent: c\nrelations:\n", "- a:\n", ""),
    ("fact_id: f\ncontent: c\nrelations:\n", "- type: x\n", ""),
    ("fact_id: &a f\ncontent: c\nx: [", "*a, ", "]\n"),
    ("fact_id: f\ncontent: c\nx: &x [", "&a%d b, ", "]\n"),
    ("", "%%TAG !a%d! x\n", "---\nfact_id: f\ncontent: c\n"),
    ("fact_id: f\ncontent: |\n", "  x\n", ""),
    ('fact_id: f\ncontent: "', "x\n  ", '"\n'),
    ('fact_id: f\ncontent: "', '\\"', ""),
    ("fact_id: f\ncontent: ", "x ", "\n"),
    ("fact_id: f\ncontent: c\n", "# x\n", ""),
    ("fact_id: f\ncontent: c\nx: ", "[", ""),
    ("fact_id: f\ncontent: c\n", "? x\n", ""),
    ("", "--- &a x\n", ""),
]
NOTES: list[Shape] = [
    ("", '{"action": "add", "id": "a%d", "content": "text"}\n', ""),
    ("", '{"action": "add", "id": "a", "content": "text"}\n', '{"action": "delete", "id": "a"}'),
    ("", '{"action": "add", "id": "a", "content": "text"}\n{"action": "delete", "id": "a"}\n', ""),
    ('{"action": "add", "id": "a"}\n', "{\n", ""),
    ('{"action": "add", "id": [', '"a",', '"b"]}'),
]
ENTRIES: list[Shape] = [
    ("", "a%d\n§\n", ""),
    ("", "\n§\n", ""),
    ("a", "\n§", ""),
    ("", "§ \n", ""),
    ("a", " \n", "§"),
]
ENTITY = '{"name": "n%d", "entityType": "t", "observations": ["a"]}\n'
GRAPHS: list[Shape] = [
    ("", ENTITY, ""),
    ("", '{"name": "n", "entityType": "t", "observations": ["a%d"]}\n', ""),
    ('{"name": "n", "entityType": "t", "observations": [', '"a%d", ', '"b"]}'),
    ('{"name": "n", "entityType": "t", "observations": [', '{"text": "a", "x": 1}, ', '"b"]}'),
    (ENTITY % 1 + ENTITY % 2, '{"from": "n1", "to": "n2", "relationType": "r"}\n', ""),
    (ENTITY % 1, '{"from": "n0", "to": "n2", "relationType": "r"}\n', ""),
    (ENTITY % 1, "bad\n", ""),
    ('{"observations"', "\n", ENTITY % 1),
    ('{"entities": [', ENTITY + ", ", ENTITY % 1 + "]}"),
    ('{"entities": [', ENTITY + ", ", ""),
    ('{"entities": [{"name": "n", "observations": [\n', '"a%d",\n', '"b"]}], "relations": []}'),
    ('{"relations": [' + '{"from": "a", "to": "b", "relationType": "r"}], "entities": [', "1,\n", "1]}"),
    ("{", '"a%d": [1],\n', '"entities": [{"name": "n", "observations": []}]}'),
]
PAGES: list[Shape] = [
    ("", "- [fact] a #b (c)\n", ""),
    ("- [fact] a", " #b", "\n"),
    ("- [fact] a ", "(", ")\n"),
    ("- [", "a ", "] b\n"),
    ("", "# h\n- r [[T]]\n", ""),
    ("- ", "a-", " [[T]]\n"),
    ("[b]: c.md\n[a", "][", ""),
    ("Date", "*", "x\n"),
    ("", "Date: x\n", ""),
]
READERS: dict[str, tuple[Work, list[Shape]]] = {
    "MEMORY": (reader("MEMORY.md"), MARKDOWN + HEADS),
    "session": (reader("sessions/2026-01-02-a.md"), TURNS),
    "heartbeat": (reader("HEARTBEAT.md"), BOXES),
    "log": (reader("memory/2026-01-02.md"), DATED + LOGS),
    "facts": (reader("users/u/profile.md"), [*FACTS, MARKDOWN[-1]]),
    "old facts": (reader("u.md", findings=(("facts", "old layout"),)), FACTS[:4]),
    "meta": (reader("users/u/meta.json"), COUNTERS),
    "json": (reader("wisdom.json"), JSON),
    "lines": (reader("wisdom.jsonl"), [("", WISDOM + "}\n", ""), ("", "{}\n", WISDOM + "}"), *JSON[:6]]),
    "yaml": (reader("wisdom.yaml"), YAML),
    "notes": (reader("notes.jsonl"), NOTES),
    "hermes": (reader("MEMORY.md", findings=(("hermes", True),)), ENTRIES),
    "graph": (reader("memory.json"), GRAPHS),
    "basic-memory": (reader("a.md", findings=(("basic_memory", True),)), [("- [fact] a\n" * 3, "", ""), *PAGES]),
    "serena": (reader("a.md", findings=(("serena", ""),)), PAGES),
}
CASES = [(name, shape) for name, (_, shapes) in READERS.items() for shape in shapes]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=str)
def test_a_file_of_twice_the_size_is_read_in_twice_the_time(name: str, shape: Shape) -> None:
    assert_grows_linearly(READERS[name][0], grown(shape))


ROOT = '{"type": "index-root", "branches": []}'
ENTRY = '{"title": "t", "file": "a%d.md"}'
INDEXES: list[Shape] = [
    ('{"type": "index-branch", "files": [', ENTRY + ",\n", "{}]}"),
    ('{"type": "index-branch", "files": [', "{},", "{}]}"),
    ('{"type": "index-branch", "files": [', "1,", "{}]}"),
    ('{"type": "index-branch", "files": [{"file": "', "../", '"}]}'),
    ('{"type": "index-branch", "files": [{"file": "', "sofia-memory-plugin", '"}]}'),
    ('{"type": "index-root", "branches": [', '{"category": "c", "path": "c%d/index.json"},', "{}]}"),
    ("[", '{"path": "a%d.md", "title": "t"},', "{}]"),
]


@pytest.mark.parametrize("shape", INDEXES, ids=str)
def test_an_index_of_twice_the_size_is_read_in_twice_the_time(shape: Shape, tmp_path: Path) -> None:
    def read(text: str) -> None:
        (tmp_path / "index.json").write_text(text, encoding="utf-8")
        mk.read(tmp_path)

    assert_grows_linearly(read, grown(shape))


SURVEYED = ["b/index.part%d.json", "b%d/index.json", "b%d/c.md", "архив/b%d.md", f"b%d{' (1)' * 40}.md"]


@pytest.mark.parametrize("file", SURVEYED)
def test_a_folder_of_twice_the_files_is_surveyed_in_twice_the_time(file: str, tmp_path: Path) -> None:
    def folder(count: int) -> Path:
        text = '{"type": "index-branch", "files": []}' if "index" in file else "text"
        return write_files(
            tmp_path / str(count), {file % number: text for number in range(count)} | {"index.json": ROOT}
        )

    assert_grows_linearly(mk.read, folder, least=100, most=200, times=4)


Files = Callable[[int], dict[str, str | bytes]]


@estimator
class Half(Policy):
    """Refuses every second memory."""

    needs, adds = needed("path", "line_start", "memory_id"), VERDICT

    def _sql(self) -> str:
        return """
            select *, row_number() over (order by path, line_start, memory_id) % 2 = 1 as keep,
                if(keep, null, 'half') as reason
            from input"""


def lines_of(path: str, line: str, before: str = "", after: str = "") -> Files:
    """One file of so many lines, each with its number."""
    return lambda count: {path: before + "".join(line.replace("%d", str(n)) for n in range(count)) + after}


def files_of(path: str, text: str) -> Files:
    """So many files, each with its number."""
    return lambda count: {path.replace("%d", str(n)): text.replace("%d", str(n)) for n in range(count)}


def tree_of(entry: str, text: str = "", joint: str = ",\n", root: str = ROOT) -> Files:
    """An index of so many entries, and their files where they have a text."""

    def make(count: int) -> dict[str, str | bytes]:
        entries = joint.join(entry.replace("%d", str(n)) for n in range(count))
        files: dict[str, str | bytes] = {"memory/index.json": root}
        files["memory/l/index.json"] = f'{{"type": "index-branch", "category": "l", "files": [{entries}]}}'
        return files | (files_of("memory/l/a%d.md", text)(count) if text else {})

    return make


def both(*makers: Files) -> Files:
    """The files of all."""
    return lambda count: {path: text for make in makers for path, text in make(count).items()}


BRANCH = '{"type": "index-root", "branches": [{"category": "l", "path": "l/index.json"}]}'
NAMED = '{"title": "t%d", "file": "l/a%d.md", "tags": ["t%d"], "priority": "high", "version": "1.0"}'
PAIR = '{"title": "t", "file": "l/a%d.md", "tags": ["t%d"], "priority": "high", "version": "1.0"}'
NOTE = "---\nid: %s\nsubject: t\nkeywords: [t%%d]\napplies_to: global\noccurred_at: 2026-01-01\n---\n\nnote of %%d\n"
FACT = "- [id:wk_%d] [t:working] [imp:low] [exp:2026-01-01] fact number %d\n"
OLD = '{"fact_id": "f%d", "content": "content of %d", "category": "c", "confidence": 0.5, "relations": []}'
INDEX = tree_of(NAMED, "text of %d\n", root=BRANCH)


def units(files: Files) -> dict[str, int]:
    """From how many on, and up to how many, is looked: many files take long to write."""
    return {"least": 100, "most": 200 if len(files(9)) > 9 else 800, "times": 4}


PLANS: dict[str, tuple[Files, Any]] = {
    "entries": (INDEX, Half()),
    "entries on one line": (tree_of(NAMED, "text of %d\n", ", ", BRANCH), Half()),
    "missing entries": (tree_of(NAMED, root=BRANCH), mk.IndexCheck(auto_clean_missing=True)),
    "long files": (tree_of(NAMED, "# a %d\n\nb c d e\n\n# f\n\ng\n", root=BRANCH), mk.SplitPlan(max_tokens_per_file=5)),
    "quota": (lines_of("users/u/archive.md", "- [id:ar_%d] [t:archive] [imp:low] a %d\n"), mk.Quota(max_facts=5)),
    "expired": (both(lines_of("users/u/working.md", FACT), files_of("users/u%d/working.md", FACT)), mk.Expiry()),
    "expired, no UTF-8": (lambda n: {"users/u/working.md": FACT.encode() * n + b"\xff\n"}, mk.Expiry()),
    "records": (lines_of("w.json", OLD + ",\n", "[", OLD + "]"), Half()),
    "records on one line": (lines_of("w.json", OLD + ", ", "[", OLD + "]"), Half()),
    "records in lines": (lines_of("w.jsonl", OLD + "\n"), Half()),
    "records in YAML": (lines_of("w.yaml", "- fact_id: f%d\n  content: c %d\n  category: c\n"), Half()),
    "records with a comment": (
        lines_of("w.yaml", "- fact_id: f%d\n  content: c # %d\n", after="# end\n- {}\n"),
        Half(),
    ),
    "notes": (files_of("n/%d.md", NOTE % "%d"), Half()),
    "entries of Hermes": (lines_of("MEMORY.md", "entry number %d\n§\n", after="last"), Half()),
    "observations": (lines_of("g.jsonl", '"of number %d",', '{"name": "n", "observations": [', '"b"]}'), Half()),
    "entities": (lines_of("g.json", '{"name": "n%d", "observations": ["a %d", "b"]}\n'), Half()),
    "fix counters": (files_of("users/u%d/meta.json", '{"version": 2, "workingCount": 3}'), mk.Fix()),
    "fix a long meta": (lines_of("users/u/meta.json", '"a%d": 1,\n', "{", '"workingCount": 3}'), mk.Fix()),
    "fix dates": (INDEX, mk.Fix()),
    "fix versions": (lines_of("w.json", OLD + ",\n", "[", OLD + "]"), mk.Fix()),
    "fix versions in lines": (lines_of("w.jsonl", OLD + "\n"), mk.Fix()),
    "fix unindexed": (both(tree_of(NAMED, root=BRANCH), files_of("memory/l/b%d.md", "# %d\n")), mk.Fix()),
    "fix an empty index": (
        both(lambda _: tree_of("", root=BRANCH)(1), files_of("memory/l/b%d.md", "# %d\n")),
        mk.Fix(),
    ),
    "fix indexes": (
        both(
            files_of("memory/l%d/index.json", '{"type": "index-branch", "category": "l%d", "files": []}'),
            files_of("memory/l%d/b.md", "# %d\n"),
            lambda n: {
                "memory/index.json": '{"type": "index-root", "branches": ['
                + ", ".join(f'{{"category": "l{i}", "path": "l{i}/index.json"}}' for i in range(n))
                + "]}"
            },
        ),
        mk.Fix(),
    ),
    "migrate users": (
        both(files_of("memory/u%d.md", "- a %d\n"), lambda _: {"memory/users/x/profile.md": ""}),
        mk.Migrate(),
    ),
    "migrate an index": (
        both(
            lines_of("memory/index.json", '{"path": "a%d.md", "title": "t"},\n', "[", '{"path": "a0.md"}]'),
            files_of("memory/a%d.md", "text %d\n"),
        ),
        mk.Migrate(),
    ),
    "migrate records": (
        lines_of("w.json", '{"id": "p%d", "response_template": "say %d"},\n', "[", OLD + "]"),
        mk.Migrate(),
    ),
    "migrate notes": (files_of("n/%d.md", NOTE % "00000000-0000-4000-8000-00000000%d"), mk.Migrate()),
}


EXPORTED = {
    "graph": lines_of("g.jsonl", '{"name": "n%d", "entityType": "t", "observations": ["the number %d", "b%d"]}\n'),
    "entity": lines_of("g.jsonl", '"the number %d",', '{"name": "n", "observations": [', '"b"]}'),
    "page": lines_of("a.md", "# heading %d\n\ntext of %d\n", "---\ntitle: t\ntags: [a]\n---\n"),
}


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("layout", ["okf", "facts", "mcp-graph"])
def test_an_export_of_twice_the_memories_takes_twice_the_time(name: str, layout: str, tmp_path: Path) -> None:
    def corpus(count: int) -> mk.Corpus:
        return mk.read(write_files(tmp_path / str(count), EXPORTED[name](count)))

    def work(corpus: mk.Corpus) -> None:
        mk.export(corpus, tmp_path / "new", layout, user_id="u", as_of="2026-03-01")

    assert_grows_linearly(work, corpus, least=100, most=800, times=4)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_over_twice_the_memories_takes_twice_the_time(name: str, tmp_path: Path) -> None:
    files, policy = PLANS[name]

    def corpus(count: int) -> mk.Corpus:
        return mk.read(write_files(tmp_path / str(count), files(count)))

    assert_grows_linearly(lambda corpus: mk.plan(corpus, policy, as_of="2026-03-01").table, corpus, **units(files))
    edits = mk.plan(corpus(20), policy, as_of="2026-03-01")
    assert len(edits) or sum(edits.refused["count"].to_pylist()) >= 20


@pytest.mark.parametrize("merge", [False, True])
def test_duplicates_of_twice_the_entries_are_planned_in_twice_the_time(merge: bool, tmp_path: Path) -> None:
    files = tree_of(PAIR, "the same text\n", root=BRANCH)

    def fitted(count: int) -> tuple[mk.Corpus, mk.Deduplicator]:
        corpus = mk.read(write_files(tmp_path / str(count), files(count)))
        return corpus, mk.Deduplicator(encoder=None).fit(corpus)

    assert_grows_linearly(lambda pair: mk.plan(*pair, merge=merge).table, fitted, **units(files))


TEXTS: dict[str, Callable[[int], dict[str, str]]] = {
    "of a template": lambda n: {"text": f"Страница о проекте Север{n}: здесь решения, встречи и вопросы команды"},
    "of scopes": lambda n: {
        "title": "ТЗ",
        "format": "notes",
        "scope": f"с{n // 4}",
        "text": f"ТЗ с{n // 4} с{n // 4 + 1}",
    },
}


@pytest.mark.parametrize("name", TEXTS)
def test_duplicates_among_twice_the_texts_are_found_in_twice_the_time(name: str) -> None:
    fit = mk.Deduplicator(encoder=None).fit
    assert_grows_linearly(fit, lambda count: pa.Table.from_pylist([*map(TEXTS[name], range(count))]))


OVER_NOTES: dict[str, Callable[[mk.Corpus], object]] = {
    "links": lambda corpus: mk.read(corpus.root),
    "dedup": lambda corpus: mk.Deduplicator(encoder=None).fit(corpus),
    "dedup of thirty paragraphs in all pages": lambda corpus: mk.Deduplicator(encoder=None).fit(corpus),
    "digest": lambda corpus: mk.digest(corpus, since="2024-01-01", until="2030-01-01"),
    "overview": mk.overview,
    "check": lambda corpus: CliRunner().invoke(app, ["check", str(corpus.root)], catch_exceptions=False),
    "topics": lambda corpus: mk.topics(mk.Retriever(encoder=None).fit(corpus)),
}


@pytest.fixture(scope="module")
def like_life(script: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int | None], Path]:
    """A folder of so many notes of so many real paragraphs, None for all; it is read, never written."""
    life, root = script("benchmarks/life.py"), tmp_path_factory.mktemp("life")
    pool = life.known_paragraphs()

    @cache
    def folder(count: int, most: int | None) -> Path:
        files = life.files(count, pool[:most])
        return write_files(root / f"{count} of {most}", files | {"vault/.obsidian/app.json": "{}"})

    return folder


@pytest.mark.parametrize("name", OVER_NOTES)
def test_twice_the_notes_of_a_corpus_like_life_take_twice_the_time(name: str, like_life: Any) -> None:
    # What every folder costs would hide a square of fewer. More notes have more pairs that repeat, and topics have the
    # axes of up to 3,000 chunks: these two grow a little faster there.
    least, paragraphs = 60 if name in ("dedup", "topics") else 240, 30 if "thirty" in name else None
    work, corpus = OVER_NOTES[name], lambda count: mk.read(like_life(count, paragraphs))
    assert_grows_linearly(work, corpus, least=least, most=4 * least, times=4)


OPERATIONS: dict[str, tuple[Files, Callable[[Any], object]]] = {
    "save": (
        lines_of("users/u/archive.md", FACT),
        lambda store: store.facts.save("u", "A fact that is new.", dry_run=True),
    ),
    "cleanup": (lines_of("users/u/working.md", FACT), lambda store: store.facts.cleanup(dry_run=True)),
    "forget": (lines_of("users/u/working.md", FACT), lambda store: store.facts.forget("u", "wk_1", dry_run=True)),
    "note": (files_of("n%d.md", NOTE % "n%d"), lambda store: store.notes.update("n1", subject="s", dry_run=True)),
    "record": (
        lines_of(
            "w.json", '{"id": "p%d", "template": "t", "usage_stats": {"hits": 1, "success_rate": 1}},\n', "[", OLD + "]"
        ),
        lambda store: store.records.record_use("p1", True, dry_run=True),
    ),
    "entry": (INDEX, lambda store: store.index.update_entry("l/a1.md", title="new", dry_run=True)),
    "clean": (tree_of(NAMED, root=BRANCH), lambda store: store.index.clean(missing=True, dry_run=True)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_beside_twice_the_memories_takes_twice_the_time(name: str, tmp_path: Path) -> None:
    files, work = OPERATIONS[name]

    def store(count: int) -> Any:
        return mk.store(write_files(tmp_path / str(count), files(count)))

    assert_grows_linearly(work, store, **units(files))


WORDS: list[Shape] = [
    ("", "東", ""),
    ("", "ก", ""),
    ("", "a", ""),
    ("", "a_", ""),
    ("", "слово%d ", ""),
    ("", "😀", ""),
    ("a", "\u0316\u0301", ""),
    ("", "か\u3099", ""),
    ("", " ", ""),
    ("", "?", ""),
    ("", "sk-", ""),
    ("bearer", " ", ""),
    ("", "bearer ", ""),
    ("$", " ", ""),
    ("", "0", ""),
    ("", "a:", ""),
    ("", "commit 0", ""),
    ("", "password ", ""),
    ("", "пароль: x", ""),
    ("key", "a.", "="),
    ("", "eyJaaaaaaaaaa.", ""),
    ("", "://a:b", ""),
    ("", "4111 ", ""),
    ("", "-----BEGIN PRIVATE KEY-----", ""),
    ("", "pin от ", ""),
]
LINES: list[Shape] = [
    ("", "a", ""),
    ("", "слово ", ""),
    ("", "\n", ""),
    ("", "line\n", ""),
    ("", "```\n", ""),
    ("```\n", "x\n", "```\n"),
    ("", "# h\n\ntext\n", ""),
]


@cache
def connection() -> duckdb.DuckDBPyConnection:
    con = connect()
    con.execute("set threads = 1")
    load_fts(con)
    return con


def analysed(analyzer: str) -> Work:
    sql = f"select len({analyse_sql('x', analyzer)}) from (select ?::varchar as x)"  # noqa: S608  # memkit's own
    return lambda text: connection().execute(sql, [text]).fetchone()


def over_a_table(transform: Callable[[pa.Table], Any]) -> Work:
    return lambda text: transform(pa.table({"memory_id": ["m"], "path": ["a.md"], "text": [text]}))


READ_WORDS: dict[str, Work] = {
    "auto": analysed("auto"),
    "char": analysed("char"),
    "query": lambda text: Analyser("auto").terms([text]),
    "query char": lambda text: Analyser("char").terms([text]),
    "admission": over_a_table(lambda table: mk.Admission().transform(table, as_of="2026-03-01")),
    "classifier": over_a_table(lambda table: mk.Classifier().transform(table, as_of="2026-03-01")),
    "snippet": lambda text: snippet(text, "слово чай"),
    "secrets": mask,
    "snippet query": lambda text: snippet("слово чай " * 20, text),
}
READ_LINES: dict[str, Work] = {
    "chunks": over_a_table(mk.extend.Chunker(chunk_tokens=40, overlap_tokens=8).transform),
    "counted chunks": over_a_table(mk.extend.Chunker(counter=lambda text: len(text.split())).transform),
    "split": over_a_table(mk.SplitPlan(max_tokens_per_file=100).plan),
    "counted split": over_a_table(mk.SplitPlan(max_tokens_per_file=100, counter=lambda text: len(text) // 3).plan),
    "fences": fences,
}
TOOLS = READ_WORDS | READ_LINES
TOOL_CASES = [(name, shape) for name in READ_WORDS for shape in WORDS] + [
    (name, shape) for name in READ_LINES for shape in LINES
]


@pytest.mark.parametrize(("name", "shape"), TOOL_CASES, ids=str)
def test_a_text_of_twice_the_length_is_worked_on_in_twice_the_time(name: str, shape: Shape) -> None:
    assert_grows_linearly(TOOLS[name], grown(shape))


SAYS = (
    *(
        "password: ",
        "пароль это ",
        "token - - ",
        "token=token",
        "root / ",
        "user a / b1 / ",
        "curl -u a: ",
        "mysql -p -p ",
    ),
    *("cookie session= ", "key 0a0a0a ", "password: x%dyyyyyyyyy ", "пароль от вайфая a1 ", "twilio 0a "),
)


@pytest.mark.parametrize("unit", SAYS)
def test_labels_without_secrets_and_secrets_without_end_are_masked_in_linear_time(unit: str) -> None:
    assert_grows_linearly(mask, grown(("password: sova-2026 ", unit, "!")))


def patterns() -> dict[tuple[re.Pattern[str], str], str]:
    """Every pattern that a module of memkit holds, with what the module calls of it, and where that is so first."""
    found = dict[tuple[re.Pattern[str], str], str]()
    for place in pkgutil.walk_packages(memkit.__path__, "memkit."):
        module = importlib.import_module(place.name)
        for name, held in vars(module).items():
            held = held() if getattr(getattr(held, "__wrapped__", None), "func", None) is re.compile else held
            if isinstance(held, re.Pattern) and isinstance(held.pattern, str):
                called = re.findall(rf"\b{name}(?:\(\))?\.(?!pattern\b)(\w+)", inspect.getsource(module))
                for method in sorted({*called}):
                    found.setdefault((held, method), f"{place.name}.{name}.{method}")
    return found


CALLS: dict[str, Callable[[re.Pattern[str]], Callable[[str], object]]] = {
    "match": lambda pattern: pattern.match,
    "fullmatch": lambda pattern: pattern.fullmatch,
    "search": lambda pattern: pattern.search,
    "findall": lambda pattern: pattern.findall,
    "finditer": lambda pattern: pattern.findall,
    "sub": lambda pattern: lambda text: pattern.sub(" ", text),
    "split": lambda pattern: pattern.split,
}
UNITS = (*"ab1 \t\n#`~-*:.[](){}'\"\\_,;|/", "- ", "**", "a: ", "- [id:", "2026-01-01", "10:00", '\\"', "[x]", "x\n")


def test_a_pattern_leaves_nothing_to_come_back_to(subtests: pytest.Subtests) -> None:
    found = patterns()
    assert len(found) > 20
    for (pattern, method), name in found.items():
        search = CALLS[method](pattern)
        with subtests.test(name):
            for unit in UNITS:
                most = MOST_LETTERS // len(unit)
                for before in ("", "\n", "**[10:00]", '"', "- [id:a]", "# ", "---\n"):
                    assert_grows_linearly(search, grown((before, unit, "!")), most, least=most // 4, times=4)
