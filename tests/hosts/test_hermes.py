"""Hermes: entries between lines ``§``, the limits of the host, and what lies beside its files."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.hosts import hermes
from memkit.tables.samples import sample_data, write_files

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
entry_texts = texts.map(lambda text: text.replace("\r", "").strip()).filter(
    lambda text: text and not any(line.strip() == "§" for line in text.split("\n"))
)


def as_the_host(text: str) -> list[str]:
    """What the host makes of a file: split at the exact delimiter, stripped, equal ones once."""
    parts = [part.strip() for part in text.replace("\r\n", "\n").split("\n§\n")]
    return list(dict.fromkeys(filter(None, parts)))


@settings(max_examples=60)
@given(st.lists(st.one_of(entry_texts, st.sampled_from(["", " ", "§", "чай", "§ ", "\n"])), max_size=6), st.booleans())
def test_entries_are_those_of_the_host_and_parts_are_the_text(entries: list[str], windows: bool) -> None:
    text = "\n§\n".join(entries)
    text = text.replace("\n", "\r\n") if windows else text
    assert hermes.entries(text) == as_the_host(text)
    parts = list(hermes.parts(text))
    lines = text.split("\n")
    for part in parts:
        assert part.text == "\n".join(lines[part.line - 1 : part.last]).removesuffix("\r") or not part.text
    between = [text[a.end : b.start] for a, b in pairwise(parts)]
    assert set(between) <= {"\n§\n", "\r\n§\r\n", "\r\n§\n", "\n§\r\n"}
    assert text.startswith(text[: parts[0].start])
    assert parts[-1].end == len(text)


@settings(max_examples=30)
@given(st.lists(entry_texts, min_size=2, max_size=5, unique=True))
def test_a_file_that_is_read_has_the_entries_and_their_lines(entries: list[str]) -> None:
    text = "\n§\n".join(entries)
    with tempfile.TemporaryDirectory() as folder:
        memories = mk.read(write_files(folder, {"MEMORY.md": text})).memories
    assert [value.strip() for value in memories["text"].to_pylist()] == entries
    lines = text.split("\n")
    for row in memories.to_pylist():
        assert row["text"] == "\n".join(lines[row["line_start"] - 1 : row["line_end"]])
        assert (row["format"], row["layout"], row["kind"], row["scope"]) == ("hermes", "hermes", "entry", "agent")
        assert row["user_id"] is None


@pytest.mark.quick
def test_what_a_memory_file_is_depends_on_what_stands_in_it_and_beside_it(tmp_path: Path) -> None:
    one_entry, two_entries = "Порт 8443", "Порт 8443\n§\nДеплой по вторникам"
    cases: dict[str, tuple[dict[str, str | bytes], set[str]]] = {
        "its own delimiter": ({"MEMORY.md": two_entries, "USER.md": one_entry}, {"hermes"}),
        "the delimiter beside it": ({"MEMORY.md": one_entry, "USER.md": two_entries}, {"hermes"}),
        "a lock beside it": ({"MEMORY.md": one_entry, "MEMORY.md.lock": ""}, {"hermes"}),
        "the folder's name": ({"x/.hermes/memories/MEMORY.md": one_entry}, {"hermes"}),
        "a profile of the host": ({"x/.hermes/profiles/работа/memories/USER.md": one_entry}, {"hermes"}),
        "nothing": ({"MEMORY.md": one_entry}, {"workspace"}),
        "front matter": ({"MEMORY.md": f"---\ntitle: x\n---\n{two_entries}"}, {"workspace"}),
        "a delimiter in another folder": (
            {"a/MEMORY.md": one_entry, "b/USER.md": two_entries},
            {"workspace", "hermes"},
        ),
        "another file": ({"NOTES.md": two_entries}, {"workspace"}),
    }
    wrong = {}
    for number, (name, (files, formats)) in enumerate(cases.items()):
        folder = write_files(tmp_path / str(number), files)
        root = folder / "x/.hermes/memories" if name == "the folder's name" else folder
        actual = set(mk.read(root).memories["format"].to_pylist())
        if actual != formats:
            wrong[name] = actual
    assert not wrong


@pytest.mark.quick
def test_what_the_host_leaves_beside_its_files_is_silent(tmp_path: Path) -> None:
    leftovers = dict.fromkeys(
        ("MEMORY.md.lock", "USER.md.lock", "MEMORY.md.bak", "MEMORY.md.bak.2", ".mem_ab.tmp"), "x"
    )
    folder = write_files(tmp_path, {"MEMORY.md": "a\n§\nb", **leftovers})
    assert mk.read(folder).problems.num_rows == 0
    (folder / "other.bak").write_text("x")
    assert mk.read(folder).problems["path"].to_pylist() == ["other.bak"]


@pytest.mark.quick
def test_limits_are_counted_in_characters_with_the_delimiters(tmp_path: Path) -> None:
    for name, limit in hermes.LIMITS.items():
        first = "ж" * 1000  # two bytes each
        second = limit - 1000 - len("\n§\n")
        for excess, expected in ((0, []), (1, ["over_limit"])):
            folder = write_files(tmp_path / f"{name}{excess}", {name: f"{first}\n§\n{'ы' * (second + excess)}"})
            assert mk.read(folder).problems["rule"].to_pylist() == expected
    shown = mk.read(write_files(tmp_path / "far", {"MEMORY.md": "\n§\n".join(f"{n} " + "ж" * 995 for n in range(5))}))
    (message,) = shown.problems["message"].to_pylist()
    # 5 entries and 4 delimiters; twice the limit is 4,400, of which the host keeps 70 % and 20 %.
    assert f"Got {5 * 997 + 4 * 3:,}" in message
    assert "characters 1 to 3,080 and the last 880" in message


def test_the_sample_is_searched_in_both_languages_saved_and_refreshed(tmp_path: Path) -> None:
    corpus = mk.read(sample_data() / "layouts" / "hermes")
    assert corpus.problems.num_rows == 0
    assert corpus.memories.num_rows == 11
    search = mk.Retriever(encoder=None).fit(corpus)
    for query, wanted in (
        ("когда деплой, Tuesdays", "Deploys"),
        ("резервные копии", "Резервные"),
        ("короткие answers", "short"),
    ):
        assert wanted in search.search(query, k=1)["text"][0].as_py()
    corpus.save(str(tmp_path / "lake"))
    opened = mk.open(str(tmp_path / "lake"))
    assert opened.memories.equals(corpus.memories)
    folder = write_files(tmp_path / "live", {"MEMORY.md": "a\n§\nb", "USER.md": "c"})
    before = mk.read(folder)
    write_files(folder, {"MEMORY.md": "a", "USER.md": "c\n§\nd"})  # the delimiter moved: both are read anew
    assert before.refresh().memories.equals(mk.read(folder).memories)
    write_files(folder, {"USER.md": "c"})
    assert before.refresh().memories["format"].to_pylist() == ["workspace", "workspace"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("чужое\n§\nчужое")
    inside = write_files(tmp_path / "in", {"USER.md": "a\n§\nb"})
    (inside / "MEMORY.md").symlink_to(tmp_path / "secret.md")
    corpus = mk.read(inside)
    assert "чужое" not in " ".join(corpus.memories["text"].to_pylist())
    assert corpus.problems["rule"].to_pylist() == ["outside_root"]


def test_a_policy_that_is_made_for_facts_says_that_it_does_not_apply() -> None:
    for name in ("hermes", "mcp-graph", "basic-memory", "memfs", "serena"):
        memories = mk.read(sample_data() / "layouts" / name).memories
        for policy in (mk.Quota(max_facts=1), mk.Admission(max_chars=20)):
            judged = policy.transform(memories, "2026-06-01")
            assert pc.all(judged["keep"]).as_py()
            assert b"is made for facts, and does not apply" in judged.schema.metadata[b"note"]
        assert pc.all(mk.Expiry().transform(memories, "2030-01-01")["keep"]).as_py()
        factors = mk.Decay().transform(memories, "2026-06-01")["factor"]
        undated = pc.is_null(pc.coalesce(memories["updated_at"], memories["created_at"]))
        assert set(factors.filter(undated).to_pylist()) == {1.0}


def test_entries_and_graphs_of_an_earlier_commit_are_read_as_they_were(tmp_path: Path) -> None:
    line = '{"name": "Чай", "entityType": "t", "observations": ["%s"]}'
    states = [
        ("2026-01-05", {"h/MEMORY.md": "старое\n§\nчай", "h/USER.md": "Анна", "g/memory.json": line % "зелёный"}),
        ("2026-02-05", {"h/MEMORY.md": "новое", "g/memory.json": line % "чёрный"}),
    ]
    root = mk.testing.write_commits(tmp_path / "repo", states)
    for rev, texts, layout in (
        ("2026-01-06", ["зелёный", "старое", "чай", "Анна"], "hermes"),
        (None, ["чёрный", "новое", "Анна"], None),
    ):
        memories = mk.read(root, rev=rev).memories
        assert memories["text"].to_pylist() == texts
        assert memories["layout"].to_pylist()[-1] == layout
    dated = mk.read(root, dates="git").memories
    assert {row["text"]: row["created_at"].date().isoformat() for row in dated.to_pylist()}["Анна"] == "2026-01-05"
