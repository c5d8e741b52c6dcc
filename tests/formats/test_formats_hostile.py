"""Input that wants out of the folder, or wants all memory and time: a problem row, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.base.fences import Fences, headings
from memkit.formats import rows
from memkit.formats.disk import files
from memkit.formats.rows import HELD_ROWS, hash_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.nodes import MAX_DEPTH, StructureError, load_json
from memkit.formats.syntax.yaml_nodes import MAX_ALIASED, MAX_DIRECTIVES, load_yaml
from memkit.tables.samples import write_files

SECRET = "СЕКРЕТ secret-8821"


def tree(folder: Path, *entries: object, branch: str = "b/index.json", **contents: str | bytes) -> Path:
    """A memory folder one below `folder`, with a secret beside it and one index that names `entries`."""
    root = {"type": "index-root", "branches": [{"category": "b", "path": branch}]}
    index = {"type": "index-branch", "files": list(entries)}
    written: dict[str, str | bytes] = {
        "secret.md": SECRET,
        "secret/index.json": json.dumps({"type": "index-branch", "files": [], "note": SECRET}),
        "memory/index.json": json.dumps(root),
        "memory/b/index.json": json.dumps(index),
        "memory/b/inside.md": "Внутри.\n",
    }
    write_files(folder, {**written, **{f"memory/{name}": text for name, text in contents.items()}})
    return folder / "memory"


def everything(corpus: mk.Corpus) -> str:
    return repr({name: table.to_pylist() for name, table in corpus.tables.items()})


ESCAPES = [
    *("../secret.md", "b/../../secret.md", "memory/../../secret.md", "..\\secret.md", "b\\..\\..\\secret.md"),
    *("./../secret.md", "/etc/passwd", "//etc/passwd", "\\\\server\\share", "C:\\secret.md", "c:secret.md"),
    *("b/x\u0000.md", "..", "../memory/../secret.md", "memory/memory/../../../secret.md"),
]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every path that memkit opens from here on, links followed."""
    paths: list[str] = []
    real = os.open

    def note(path: str, *args: int, **kwargs: Any) -> int:
        paths.append(os.path.realpath(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(files.os, "open", note)
    return paths


@pytest.mark.quick
@pytest.mark.parametrize("written", ESCAPES)
@pytest.mark.parametrize("prefix", ["", "memory/"])
def test_an_entry_reads_nothing_outside(tmp_path: Path, opened: list[str], written: str, prefix: str) -> None:
    folder = tree(tmp_path, {"title": "t", "file": prefix + written, "tags": []})
    corpus = mk.read(folder)
    assert not [path for path in opened if not path.startswith(str(folder))]
    assert SECRET not in everything(corpus)
    (entry,) = corpus.tables["entries"].to_pylist()
    assert entry["path"] is None
    assert entry["status"] in ("invalid", "missing")
    if not prefix:
        assert entry["status"] == "invalid"
        assert "outside_root" in corpus.problems["rule"].to_pylist()


@pytest.mark.quick
@pytest.mark.parametrize("written", [path.replace(".md", "/index.json") for path in ESCAPES])
def test_a_branch_reads_nothing_outside(tmp_path: Path, opened: list[str], written: str) -> None:
    folder = tree(tmp_path, branch=written)
    corpus = mk.read(folder)
    assert not [path for path in opened if not path.startswith(str(folder))]
    assert SECRET not in everything(corpus)
    assert "outside_root" in corpus.problems["rule"].to_pylist()


@pytest.mark.quick
@pytest.mark.parametrize("written", [*ESCAPES, "../inside.md", "../../secret.md"])
def test_a_part_reads_nothing_outside_of_its_folder(tmp_path: Path, opened: list[str], written: str) -> None:
    head = f"---\ntitle: t\nparts: [{json.dumps(written)}]\n---\n"
    folder = tree(tmp_path, {"title": "t", "file": "b/n/index.md"}, **{"b/n/index.md": head})
    corpus = mk.read(folder)
    assert not [path for path in opened if not path.startswith(str(folder))]
    assert SECRET not in everything(corpus)
    assert {"outside_root", "unparsable", "missing_file"} & set(corpus.problems["rule"].to_pylist())
    assert corpus.tables["entries"]["parts"].to_pylist() == [None]


def test_links_are_never_followed(tmp_path: Path, opened: list[str]) -> None:
    folder = write_files(tmp_path / "root", {"MEMORY.md": "# Чай\n", "sub/a.md": "# A\n"})
    write_files(tmp_path, {"outside/secret.md": SECRET})
    links = {
        "file_out.md": tmp_path / "outside" / "secret.md",
        "folder_out": tmp_path / "outside",
        "file_in.md": folder / "MEMORY.md",
        "folder_in": folder / "sub",
        "loop": folder,
        "self.md": folder / "self.md",
        "ping.md": folder / "pong.md",
        "pong.md": folder / "ping.md",
        "through.md": folder / "ping.md" / "inside.md",
        "broken_out.md": tmp_path / "nothing.md",
        "broken_in.md": folder / "nothing.md",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    corpus = mk.read(folder)
    assert corpus.memories["path"].to_pylist() == ["MEMORY.md", "sub/a.md"]
    rules = {row["path"]: row["rule"] for row in corpus.problems.to_pylist() if row["path"] in links}
    outside = {"file_out.md", "folder_out", "broken_out.md", "self.md", "ping.md", "pong.md", "through.md"}
    assert rules == {name: "outside_root" if name in outside else "symlink" for name in links}
    assert not [path for path in opened if "outside" in path]


@pytest.mark.parametrize("linked", ["b/out.md", "b/folder/secret.md"])
def test_an_entry_through_a_link_out_is_invalid(tmp_path: Path, opened: list[str], linked: str) -> None:
    folder = tree(tmp_path, {"title": "t", "file": linked})
    (folder / "b" / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "b" / "folder").symlink_to(tmp_path, target_is_directory=True)
    corpus = mk.read(folder)
    assert corpus.tables["entries"]["status"].to_pylist() == ["invalid"]
    assert not [path for path in opened if not path.startswith(str(folder))]
    assert SECRET not in everything(corpus)


def test_an_entry_through_a_link_within_the_folder_is_its_target(tmp_path: Path) -> None:
    folder = tree(tmp_path, {"title": "t", "file": "b/link.md"})
    (folder / "b" / "link.md").symlink_to(folder / "b" / "inside.md")
    corpus = mk.read(folder)
    assert corpus.tables["entries"].select(["path", "status"]).to_pylist() == [
        {"path": "b/inside.md", "status": "valid"}
    ]
    assert corpus.memories["text"].to_pylist() == ["Внутри.\n"]


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(tmp_path: Path) -> None:
    write_files(tmp_path, {"root/MEMORY.md": "# Чай\n", "secret.md": SECRET})
    listing = files.list_files(tmp_path / "root", with_stat=True)
    (tmp_path / "root" / "MEMORY.md").unlink()
    (tmp_path / "root" / "MEMORY.md").symlink_to(tmp_path / "secret.md")
    from memkit.formats.rows import Rows

    rows = Rows()
    assert listing.read("MEMORY.md", rows) is None
    assert [row["rule"] for row in rows.tables["problems"]] == ["unreadable"]


def test_a_pipe_does_not_hang_the_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "MEMORY.md")
    os.mkfifo(tmp_path / "index.json")
    corpus = mk.read(tmp_path)
    assert corpus.problems["rule"].to_pylist() == ["unreadable", "unreadable"]


@pytest.mark.parametrize("name", ["a" * 300 + ".md", "/".join(["d" * 200] * 30), "b/" * 3000 + "x.md"])
def test_a_name_that_no_file_can_have_is_missing(tmp_path: Path, name: str) -> None:
    corpus = mk.read(tree(tmp_path, {"title": "t", "file": name}))
    assert corpus.tables["entries"]["status"].to_pylist() == ["missing"]


def test_an_entry_that_names_an_index_is_invalid_and_ids_stay_unique(tmp_path: Path) -> None:
    entries = [{"title": "t", "file": name} for name in ("gone.md", "b/index.json", "index.json", "b/index.part2.json")]
    folder = tree(tmp_path, *entries, **{"b/index.part2.json": "{not json", "c/index.json": "{not json"})
    corpus = mk.read(folder)
    assert corpus.tables["entries"]["status"].to_pylist() == ["missing", *["invalid"] * 3]
    ids = corpus.memories["memory_id"].to_pylist()
    assert len(set(ids)) == len(ids)


BOMB = (
    "a: &a ["
    + ", ".join(["лол"] * 9)
    + "]\n"
    + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]\n",
        "a: &a [*a]\n",
        "a: *nobody\n",
        "a: " + "[" * 5000 + "]" * 5000 + "\n",
        "".join(f"{'  ' * n}a:\n" for n in range(300)),
        "? " * 3000 + "a\n",
        "- " * 3000 + "a\n",
    ],
    ids=["aliases", "long alias", "itself", "unknown", "flow nest", "block nest", "keys", "lists"],
)
def test_a_yaml_bomb_is_kept_as_text(tmp_path: Path, text: str) -> None:
    note = f"---\nid: x\nsubject: y\nkeywords: [z]\n{text}---\nтело заметки\n"
    corpus = mk.read(write_files(tmp_path, {"wisdom.yaml": f"fact_id: f\ncontent: c\n{text}", "note.md": note}))
    assert {row["path"] for row in corpus.problems.to_pylist() if row["rule"] == "unparsable"} == {
        "wisdom.yaml",
        "note.md",
    }
    assert f"fact_id: f\ncontent: c\n{text}" in corpus.memories["text"].to_pylist()
    assert note in corpus.memories["text"].to_pylist()


@pytest.mark.parametrize("documents", [1, 40])
def test_the_aliases_of_all_documents_of_a_file_share_one_budget(documents: int) -> None:
    text = f"a: &a {'x' * 30_000}\nb: *a\n---\n" * documents
    if documents == 1:
        assert len(next(load_yaml(text))["b"]) == 30_000
    else:
        with pytest.raises(StructureError, match="adding 1000000 characters at most") as caught:
            list(load_yaml(text))
        assert caught.value.line == 3 * (MAX_ALIASED // 30_001) + 2


def test_aliases_cannot_nest_deeper_than_brackets(tmp_path: Path) -> None:
    text = "fact_id: f\ncontent: c\na0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 1200))
    corpus = mk.read(write_files(tmp_path, {"wisdom.yaml": text}))
    (problem,) = corpus.problems.to_pylist()
    assert problem["line"] == 2 + MAX_DEPTH
    assert f"at most {MAX_DEPTH} levels of nesting" in problem["message"]


def test_a_key_of_keys_does_not_double_with_each_level() -> None:
    (value,) = load_yaml("? " * 40 + "a\n")
    assert list(value) == ["{" * 39 + "a: null" + "}: null" * 38 + "}"]


def test_thousands_of_directives_are_refused() -> None:
    with pytest.raises(StructureError, match="directives") as caught:
        list(load_yaml("".join(f"%TAG !a{n}! x\n" for n in range(5000)) + "--- a\n"))
    assert caught.value.line == MAX_DIRECTIVES + 1


def test_a_part_that_is_named_a_thousand_times_is_read_once(tmp_path: Path) -> None:
    head = "---\nparts:\n" + "- part1.md\n" * 1000 + "---\n"
    folder = tree(
        tmp_path, {"title": "t", "file": "note/index.md"}, **{"note/index.md": head, "note/part1.md": "т" * 9}
    )
    corpus = mk.read(folder)
    assert "т" * 9 in corpus.memories["text"].to_pylist()
    repeated = [row for row in corpus.problems.to_pylist() if row["field"] == "parts"]
    assert len(repeated) == 999
    assert "a part that is named once" in repeated[0]["message"]


def test_nested_anchors_cost_no_more_than_their_text() -> None:
    """Counting what each anchor holds when it is set would take 90 x 100,000 steps."""
    depth, width = 90, 100_000
    text = "".join(f"&a{n} [" for n in range(depth)) + "x, " * width + "]" * depth
    (value,) = load_yaml(text)
    for _ in range(depth - 1):
        (value,) = value
    assert value == ["x"] * width


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
def test_json_that_nests_too_deep_is_refused_with_its_line(opening: str) -> None:
    with pytest.raises(StructureError, match="levels of nesting") as caught:
        load_json("\n" + opening * (MAX_DEPTH + 1))
    assert caught.value.line == 2


def test_json_as_deep_as_allowed_is_read_from_a_deep_stack() -> None:
    def down(depth: int) -> object:
        return down(depth - 1) if depth else load_json('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH)

    assert isinstance(down(300), dict)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format_version", '"' + "9" * 5000 + '.0.0"'),
        ("format_version", "1" * 4000),
        ("confidence", "9" * 4000),
        ("confidence", "-1e999"),
        ("confidence", "NaN"),
        ("confidence", "Infinity"),
        ("content", '"\\ud800 одинокий"'),
        ("content", '"\\u0000"'),
        ("fact_id", '"\\udfff"'),
        ("category", "9" * 5000),
        ("relations", '[[], {}, null, 1, {"fact_id": {}}]'),
        ("relations", '{"a": 1}'),
    ],
)
def test_an_absurd_value_is_a_row_and_the_record_stays(tmp_path: Path, field: str, value: str) -> None:
    fields = {"format_version": '"1.0.0"', "fact_id": '"f"', "content": '"Чай без сахара"', "category": '"c"'}
    fields |= {"confidence": "0.5", "relations": "[]", field: value}
    text = "{" + ", ".join(f'"{name}": {written}' for name, written in fields.items()) + "}"
    corpus = mk.read(write_files(tmp_path, {"wisdom.json": text}))
    assert corpus.memories.num_rows == 1
    (row,) = corpus.memories.to_pylist()
    assert field == "content" or "Чай без сахара" in row["text"]
    assert row["confidence"] is None or 0 <= row["confidence"] <= 1


def test_an_unknown_major_of_any_length_is_quarantined(tmp_path: Path) -> None:
    records = [{"format_version": "9" * n + ".0.0", "fact_id": f"f{n}", "content": "c"} for n in (1, 30, 5000)]
    corpus = mk.read(write_files(tmp_path, {"wisdom.json": json.dumps(records)}))
    assert corpus.problems["rule"].to_pylist() == ["unsupported_version"] * 3
    assert corpus.memories["kind"].to_pylist() == ["quarantined"] * 3


def test_runs_of_blanks_cost_linear_time() -> None:
    """A pattern that looks for the blanks at the end of a line would take 4e10 steps for each of these."""
    n = 200_000
    front = front_matter.split(f"---\na: x{' ' * n}y\nb:\n- x{' ' * n}y\n---\n")
    (heading,) = headings(f"# a{' ' * n}b{'#' * n}c\n", Fences([]))
    assert front is not None
    assert len(front.fields["a"]) == len(front.fields["b"][0]) == n + 2
    assert len(heading.text) == 2 * n + 3


def test_many_records_on_one_line_are_not_searched_once_each(tmp_path: Path) -> None:
    """For each record one search through 4 MB, for a field that is nowhere, would read 40 GB."""
    record = {"fact_id": "", "content": "x" * 300, "category": "c", "confidence": 0.5, "relations": []}
    text = json.dumps([record | {"fact_id": f"f{number}"} for number in range(10_000)])
    corpus = mk.read(write_files(tmp_path, {"wisdom.json": text}))
    assert corpus.problems["rule"].to_pylist() == ["missing_field"] * 10_000


# Forks a reader for each line of its input, a small folder and another: what the second takes beyond the first.
MEASURE = """
import json, os, sys
from memkit import read  # and all that it imports
def most():  # not ru_maxrss, which a process inherits from the one that starts it
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
for line in sys.stdin:
    small, folder = json.loads(line)
    child = os.fork()
    if not child:
        read(small).memories  # what every read costs
        before = most()
        corpus = read(folder)
        longest = max(map(len, corpus.memories["text"].to_pylist()))
        print(json.dumps([1024 * (most() - before), corpus.problems["rule"].to_pylist(), longest]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print("null", flush=True)
"""
HUGE = 100 * 2**20
Measure = Callable[[Path, Path], tuple[int, list[str], int]]


@pytest.fixture(scope="module")
def measure() -> Iterator[Measure]:
    """Reads a small folder and another in a process of its own: bytes beyond the first, problems, the longest text."""
    command, pipe = [sys.executable, "-c", MEASURE], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:

        def ask(small: Path, folder: Path) -> tuple[int, list[str], int]:
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps([str(small), str(folder)]) + "\n")
            process.stdin.flush()
            peak, problems, longest = json.loads(process.stdout.readline())
            return peak, problems, longest

        yield ask


@pytest.mark.parametrize("name", ["MEMORY.md", "wisdom.json", "wisdom.yaml", "index.json"])
def test_a_single_line_of_100_mb_is_read_within_bounded_memory(tmp_path: Path, measure: Measure, name: str) -> None:
    small = write_files(tmp_path / "small", {name: "{}" if name.endswith("json") else "чай: 1\n"})
    folder = write_files(tmp_path / "huge", {name: "я" * 40_000})
    with (folder / name).open("r+b") as file:
        file.truncate(HUGE)
    peak, problems, longest = measure(small, folder)
    assert peak < 30 * 2**20
    assert "file_too_large" in problems
    assert "encoding" not in problems
    assert longest == files.HEAD_BYTES // 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wisdom.json", "[" * 250 + '"' + "x" * 4_000_000),
        ("wisdom.json", "[" + "[]," * 100_000),
        ("note.md", "---\nid: 1\n" + "- " * 250_000),
        ("note.md", "---\n" * 150_000),
        ("memory/2026-02-03.md", "# \n" * 15_000),
        ("users/u/profile.md", "- [id:" * 150_000),
    ],
    ids=["unclosed", "lists", "front matter", "rules", "headings", "tags"],
)
def test_large_nonsense_is_read_within_memory_that_its_size_allows(
    tmp_path: Path, measure: Measure, name: str, text: str
) -> None:
    small = write_files(tmp_path / "small", {"MEMORY.md": "# Чай\n"})
    folder = write_files(tmp_path / "large", {name: text})
    assert measure(small, folder)[0] < 200 * 2**20


@pytest.mark.parametrize(
    ("name", "unit", "most_bytes"),
    [("MEMORY.md", "#\n", 400), ("users/u/profile.md", "x\n", 400), ("sessions/2026-01-01-a.md", "ai:\n", 200)],
)
def test_rows_of_tiny_lines_are_not_held_as_objects(
    tmp_path: Path, measure: Measure, name: str, unit: str, most_bytes: int
) -> None:
    """As dicts, they would take some 900 bytes for each byte; `tests/audit/tiny_lines.py` shows 64 MiB."""
    size = 2**18
    small = write_files(tmp_path / "small", {"MEMORY.md": "# Чай\n"})
    folder = write_files(tmp_path / "large", {name: unit * (size // len(unit))})
    assert measure(small, folder)[0] < most_bytes * size


def test_many_problems_of_one_rule_in_one_file_are_listed_up_to_a_bound_and_then_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_PROBLEMS", 100)
    n_sections = {"a.md": 107, "b.md": 100, "c.md": 101}
    corpus = mk.read(
        write_files(tmp_path, {f"memory/lessons/{name}": "#\n" * count for name, count in n_sections.items()})
    )
    assert corpus.memories.num_rows == sum(n_sections.values())
    counts = corpus.sql(
        "select path[-4:], count(line), any_value(split_part(message, ': ', 2)[:6]) filter (line is null) from problems"
        " where rule = 'empty_section' group by path order by path"
    )
    assert counts.fetchall() == [("a.md", 100, "7 more"), ("b.md", 100, None), ("c.md", 100, "1 more")]


def test_numbers_given_to_equal_memories_are_not_given_again(tmp_path: Path) -> None:
    written_ids = ["a", "a", "a", f"a~{hash_of('x')}.2", f"a~{hash_of('x')}.02", f"a~{hash_of('x')}.3"]
    corpus = mk.read(
        write_files(tmp_path, {"users/u/profile.md": "\n".join(f"- [id:{name}] x" for name in written_ids)})
    )
    ids = [memory_id.partition("#")[2] for memory_id in corpus.memories["memory_id"].to_pylist()]
    assert len(set(ids)) == len(written_ids)
    assert ids[4:] == written_ids[4:]


def test_undecoded_lines_are_kept_with_their_memories_also_where_rows_are_handed_over(tmp_path: Path) -> None:
    count = HELD_ROWS + 10
    (tmp_path / "MEMORY.md").write_bytes(b"".join(b"# %d\n\xe4\xe0\n" % number for number in range(count)))
    corpus = mk.read(tmp_path)
    decoded = [json.loads(extra)["windows-1251"] for extra in corpus.memories["extra"].to_pylist()]
    assert decoded == [{str(2 * number): "да"} for number in range(1, count + 1)]
    assert corpus.problems["line"].to_pylist() == [*range(2, 21, 2), None], "ten, and how many more"


def test_an_ordinal_and_an_own_id_that_is_a_number_stay_apart(tmp_path: Path) -> None:
    lines = ["x", "- [id:1] a", "- [id:4] b", "y", "- [id:4] c", "- [id:#] d", "- [id:%23] e"]
    corpus = mk.read(write_files(tmp_path, {"users/u/profile.md": "\n".join(lines)}))
    ids = [memory_id.partition("#")[2] for memory_id in corpus.memories["memory_id"].to_pylist()]
    assert ids == [
        "1",
        f"1~{hash_of('a')}",
        "4",
        f"4~{hash_of('y')}",
        f"4~{hash_of('c')}",
        "%23",
        "%23~" + hash_of("e"),
    ]


def test_html_in_a_memory_is_inert_in_every_shown_table(tmp_path: Path) -> None:
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    written = {"MEMORY.md": f"# {attack}\n{attack}\n", f"users/{attack[:8]}/profile.md": f"{attack}\n"}
    written["wisdom.json"] = json.dumps({"fact_id": attack, "content": attack, "category": attack})
    corpus = mk.read(write_files(tmp_path, written))
    shown = corpus._repr_html_() + mk.from_table({"text": [attack], "kind": [attack]})._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;" in shown


QUOTES = ["'; drop table memories; --", '"; drop table memories; --', "$1?%s{}\\"]


def test_content_never_becomes_sql(tmp_path: Path) -> None:
    records = [
        {"fact_id": text, "content": text, "category": text, "relations": [{"fact_id": text, "type": text}]}
        for text in QUOTES
    ]
    written = {f"{text}.md": f"# {text}\n{text}\n" for text in QUOTES}
    corpus = mk.read(write_files(tmp_path / "".join(QUOTES), {**written, "wisdom.json": json.dumps(records)}))
    for text in QUOTES:
        assert (text,) in corpus.sql("select title from memories where title = ?", [text]).fetchall()
        assert corpus.sql("select count(*) from fts(?)", [text]).fetchall() != []
        assert corpus.sql("select count(match_bm25(memory_id, ?)) from memories", [text]).fetchall() != []
    for query in mk.named_queries().to_pylist():
        if not query["needs_history"]:
            corpus.named(query["name"], as_of="2026-03-01").fetchall()
    corpus.save(tmp_path / "lake")
    assert mk.open(tmp_path / "lake").memories.equals(corpus.memories)
