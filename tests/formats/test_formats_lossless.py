"""Nothing is lost: a text comes back as it was, and every word of the input stands in some column."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import FormatError
from memkit.formats.facts import TAGS, format_fact, parse_fact
from memkit.formats.syntax.yaml_nodes import load_yaml, yaml_comments
from memkit.tables.samples import write_files

fast = settings(max_examples=30)


def read_files(files: Mapping[str, str | bytes]) -> mk.Corpus:
    with tempfile.TemporaryDirectory() as folder:
        return mk.read(write_files(folder, files))


# What a text file can hold and keep: no lone surrogate, no BOM at its head, LF alone.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200).filter(lambda text: "\r" not in text)
lines = texts.map(lambda text: text.replace("\n", " "))
UUID4 = "2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d"
HEAD = f"---\nid: {UUID4}\nsubject: s\nkeywords: [k]\napplies_to: global\ncreated_at: 2026-01-01T00:00:00Z\n---\n"


@fast
@given(texts)
def test_the_body_of_a_note_comes_back(text: str) -> None:
    (note,) = read_files({f"{UUID4}.md": HEAD + text}).memories.to_pylist()
    assert note["text"] == text
    assert note["kind"] == "note"


@fast
@given(texts.filter(lambda text: not text.startswith("\ufeff")))
def test_the_sections_of_a_log_joined_are_the_file(text: str) -> None:
    memories = read_files({"memory/2026-02-03.md": text}).memories
    assert "\n".join(memories["text"].to_pylist()) == text.removesuffix("\n")


@fast
@given(texts)
def test_the_file_of_an_entry_comes_back(text: str) -> None:
    branch = {"type": "index-branch", "files": [{"title": "t", "file": "a.md"}]}
    body = "Начало\n" + text  # no front matter of its own
    (entry,) = (
        read_files({"memory/index.json": json.dumps(branch), "memory/a.md": body, "a.md": body})
        .memories.filter(mk_kind("entry"))
        .to_pylist()
    )
    assert entry["text"] == body


def mk_kind(kind: str) -> Any:
    import pyarrow.compute as pc

    return pc.field("kind") == kind


@fast
@given(texts, texts, st.lists(texts, max_size=3))
def test_the_texts_of_records_come_back_from_json(question: str, answer: str, tags: list[str]) -> None:
    item = {"user_id": "u", "input": question, "response": answer, "tags": tags, "timestamp": "2026-01-01T00:00:00Z"}
    for name, text in {
        "a.json": json.dumps(item, ensure_ascii=False),
        "a.jsonl": json.dumps(item),
        "b.json": json.dumps([item]),
        "c.json": json.dumps({"items": [item]}),
    }.items():
        (row,) = read_files({name: text}).memories.to_pylist()
        assert (row["title"], row["text"], row["tags"]) == (question, answer, tags)


@fast
@given(texts, texts)
def test_the_texts_of_records_come_back_from_yaml(name: str, content: str) -> None:
    fact = {"format_version": "1.0.0", "fact_id": name, "content": content, "category": "c", "relations": []}
    text = yaml.safe_dump_all([fact, fact | {"fact_id": name + "!"}], allow_unicode=True)
    assume(next(iter(yaml.safe_load_all(text))) == fact)  # PyYAML writes a lone U+0085 as a line end
    memories = read_files({"wisdom.yaml": text}).memories
    assert memories["text"].to_pylist() == [content, content]
    assert memories["title"].to_pylist() == [name, name + "!"]


tag_values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="]\n\r"), min_size=1, max_size=20)
facts = st.fixed_dictionaries(
    {"id": tag_values, "t": tag_values, "imp": tag_values, "text": lines},
    optional={"exp": st.dates().map(str), "created": st.dates().map(str)},
)


@settings(max_examples=50)
@given(facts)
def test_a_fact_that_is_formatted_is_parsed_back(fact: dict[str, str]) -> None:
    if re.match(r" *\[(id|t|imp|exp|created):[^\]]*\]", fact["text"]):
        with pytest.raises(FormatError, match="'text' must not open with a tag"):
            format_fact(fact)
        return
    line = format_fact(fact)
    assert parse_fact(line) == fact
    (row,) = read_files({"users/u/profile.md": line + "\n"}).memories.to_pylist()
    assert (row["text"], row["source_id"], row["user_id"]) == (fact["text"], fact["id"], "u")


@settings(max_examples=50)
@given(st.permutations([f"[{tag}:2026-01-0{n}]" for n, tag in enumerate(TAGS, 1)]), lines)
def test_the_tags_of_a_line_may_stand_in_any_order(tags: list[str], text: str) -> None:
    fact = parse_fact("- " + " ".join(tags) + " " + text)
    assert fact == {tag: f"2026-01-0{n}" for n, tag in enumerate(TAGS, 1)} | {"text": text}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "id"),
        ({"imp": None}, "imp"),
        ({"id": "a]b"}, "id"),
        ({"t": "a\nb"}, "t"),
        ({"exp": "2026-02-30"}, "exp"),
        ({"exp": ""}, "exp"),
        ({"created": "1 марта"}, "created"),
        ({"text": "one\ntwo"}, "text"),
        ({"text": "one\r"}, "text"),
        ({"text": "[exp:2026-01-01] later"}, "text"),
        ({"text": "  [id:x]"}, "text"),
        ({"text": "lone \ud800"}, "text"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_fact_that_would_not_come_back_is_refused(change: dict[str, str | None], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        format_fact({"id": "a", "t": "profile", "imp": "high", "text": "чай", **change})
    assert caught.value.field == field
    assert f"'{field}'" in str(caught.value)


@pytest.mark.quick
def test_a_bracket_group_after_the_tags_is_text() -> None:
    fact = parse_fact("- [id:a] [t:profile] [imp:high] [id:b] [v:2] чай [exp:2026-01-01]")
    assert fact == {"id": "a", "t": "profile", "imp": "high", "text": "[id:b] [v:2] чай [exp:2026-01-01]"}


WORD = re.compile(r"w\d+w")


def words_of(corpus: mk.Corpus) -> set[str]:
    """The marked words in every column but those of messages and paths."""
    words: set[str] = set()
    for name, table in corpus.tables.items():
        if name != "problems":
            words |= set(
                WORD.findall(repr(table.drop_columns([c for c in table.column_names if c == "path"]).to_pylist()))
            )
    return words


class Words:
    """Each call gives a new word, so that a lost one is known."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"w{self.count}w"

    def tree(self) -> dict[str, Any]:
        return {self(): self(), "deep": {self(): [self(), {self(): self()}]}, "list": [self(), 7, None]}


def pathway(w: Words) -> dict[str, Any]:
    stats = {"hits": 3, "success_rate": 0.5, "last_used_at": "2026-01-01T00:00:00Z", "why": w(), "more": w.tree()}
    fields = {"id": w(), "triggers": [w(), w()], "template": w(), "variables": w.tree(), "tier": w()}
    return {**fields, "usage_stats": stats, "format_version": "1.0.0", "unknown": w.tree(), w(): w()}


def wisdom(w: Words) -> dict[str, Any]:
    relation = {"fact_id": w(), "type": w(), "weight": w(), "because": w(), "more": w.tree()}
    return {"fact_id": w(), "content": w(), "category": w(), "confidence": w(), "relations": [relation, w()], w(): w()}


def item(w: Words) -> dict[str, Any]:
    return {"user_id": w(), "input": w(), "response": w(), "timestamp": w(), "tags": [w(), {w(): w()}], w(): w()}


def old_pathway(w: Words) -> dict[str, Any]:
    return {"id": w(), "triggers": w(), "response_template": w(), "success_count": w(), "last_used": w(), w(): w.tree()}


def old_item(w: Words) -> dict[str, Any]:
    return {"text": w(), "timestamp": "2026-01-01", "category": w(), "importance": w(), w(): w.tree()}


def wrapped(w: Words) -> dict[str, Any]:
    lists = {"pathways": [pathway(w), w(), w.tree()], "wisdom_facts": [wisdom(w)], "items": [w()]}
    return {**lists, "about": w.tree(), w(): w()}


RECORDS = [pathway, wisdom, item, old_pathway, old_item, wrapped, lambda w: [w(), wisdom(w), [w()], w.tree()]]


@pytest.mark.quick
@pytest.mark.parametrize("make", RECORDS)
@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.yaml"])
def test_every_word_of_a_record_is_kept(make: Callable[[Words], Any], name: str) -> None:
    w = Words()
    value = make(w)
    if name == "r.jsonl" and isinstance(value, list):
        text = "\n".join(map(json.dumps, value))
    else:
        text = yaml.safe_dump(value, sort_keys=False) if name == "r.yaml" else json.dumps(value)
    assert words_of(read_files({name: text})) >= set(WORD.findall(text))


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.yaml"])
def test_every_word_of_a_broken_file_is_kept(name: str, cut: float) -> None:
    w = Words()
    value = [pathway(w), wisdom(w), item(w)]
    text = "\n".join(map(json.dumps, value)) if name == "r.jsonl" else json.dumps(value)
    text = text[: int(len(text) * cut)] + "\u0001}"
    assert words_of(read_files({name: text})) >= set(WORD.findall(text))


REPEATED = [
    '{"fact_id": "w1w", "content": "w2w", "content": "w3w", "content": {"w4w": "w5w"}}',
    '{"fact_id": "f", "content": "c", "relations": [{"fact_id": "w1w", "fact_id": "w2w", "type": "t", "weight": 1}]}',
    '{"id": "p", "template": "t", "tier": "c", "usage_stats": {"hits": 1, "hits": "w1w"}, "x": {"y": 1, "y": "w2w"}}',
    '{"pathways": [{"id": "p", "template": "t", "tier": "w0w"}], "about": "w1w", "about": "w2w"}',
    '{"text": "w1w", "timestamp": "2026-01-01", "category": "w2w", "text": "w3w", "category": "w4w"}',
]


@pytest.mark.parametrize("text", REPEATED)
@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.yaml"])
def test_a_repeated_key_keeps_its_later_values(text: str, name: str) -> None:
    corpus = read_files({name: text})
    assert words_of(corpus) >= set(WORD.findall(text))
    if '"about"' not in text:
        assert "duplicate_key" in corpus.problems["rule"].to_pylist()


def test_every_word_of_an_index_tree_is_kept() -> None:
    w = Words()
    entry = {"title": w(), "file": "a.md", "tags": [w(), [w()]], "priority": w(), "version": w(), "updated": w()}
    entry |= {
        "summary": w(),
        "context_priority": w(),
        "pinned": w(),
        "access_count": w(),
        "edit_count": w(),
        w(): w.tree(),
    }
    entry_without_file = {"title": w(), "file": w(), "summary": w(), "more": w.tree()}
    branch = {
        "type": "index-branch",
        "category": w(),
        "files": [entry, entry_without_file, w(), [w()]],
        "about": w.tree(),
        w(): w(),
    }
    first = {"category": "c", "path": "b/index.json", "description": w(), w(): w()}
    root = {"type": "index-root", "branches": [first, {"category": w(), "note": w()}], "about": w.tree()}
    part = {"files": [{"title": w(), "file": "c.md"}], w(): w()}
    written = {
        "index.json": json.dumps(root),
        "b/index.json": json.dumps(branch),
        "b/index.part2.json": json.dumps(part),
        "a.md": f"---\n{w()}: {w()}\nlist: [{w()}]\n{w()}: x\n---\n{w()}\n",
        "c.md": f"---\n{w()}\n  : broken [{w()}\nkey: {w()}\n---\n{w()}\n",
        "loose.md": f"---\ntitle: {w()}\nx: {w()}\n---\n{w()}\n# {w()}\n{w()}\n",
    }
    everything = set(WORD.findall(json.dumps(written)))
    # The last item has no entry after it to be kept with: the problem rows hold it.
    corpus = read_files(written)
    words = words_of(corpus) | set(WORD.findall(repr(corpus.problems["message"].to_pylist())))
    assert words >= everything


def test_every_word_of_a_flat_index_is_kept() -> None:
    w = Words()
    items = [
        {"path": "a.md", "title": w(), "type": w(), "description": w(), "lastModified": f"2026-01-01T10:00 {w()}"},
        {"path": "gone.md", "title": w(), "description": w(), "extra": w.tree()},
    ]
    written = {"index.json": json.dumps(items, indent=1), "a.md": w()}
    corpus = read_files(written)
    assert words_of(corpus) >= set(WORD.findall(json.dumps(written)))
    memory = corpus.memories.to_pylist()[0]
    assert 1 < memory["line_start"] <= memory["line_end"]


def test_every_word_of_a_note_is_kept() -> None:
    w = Words()
    fields = {"id": w(), "subject": w(), "keywords": [w(), {w(): w()}], "applies_to": w(), "created_at": w()}
    fields |= {"updated_at": w(), "occurred_at": w(), "content_hash": w(), "unknown": w.tree(), w(): w()}
    text = f"---\n{yaml.safe_dump(fields)}subject: {w()}\n---\n{w()}\n---\n{w()}\n"
    corpus = read_files({"n.md": text})
    assert corpus.memories["kind"].to_pylist() == ["note"]
    assert words_of(corpus) >= set(WORD.findall(text))


@pytest.mark.parametrize(
    "broken", ["w1w: [w2w\n", "w1w\nw2w: x: y\n", "\tw1w: 1\n", "--- w1w\nw2w: 3\n", "w1w: &a *b\n"]
)
def test_every_word_of_broken_front_matter_is_kept(broken: str) -> None:
    text = f"---\nid: w7w\nsubject: w8w\n{broken}---\nw9w\n"
    branch = {"type": "index-branch", "files": [{"title": "t", "file": "entry.md"}]}
    written = {"m/index.json": json.dumps(branch), "entry.md": text, "note.md": text, "memory/2026-01-01.md": text}
    for name in ("note.md", "memory/2026-01-01.md"):
        corpus = read_files({name: text})
        assert words_of(corpus) >= set(WORD.findall(text))
        assert {"unparsable", "loose_front_matter"} & {*corpus.problems["rule"].to_pylist()}
    entry = read_files({k: v for k, v in written.items() if k in ("m/index.json", "entry.md")}).memories.to_pylist()[0]
    assert entry["text"] == text


def test_every_word_of_a_users_folder_is_kept() -> None:
    w = Words()
    written = {
        "users/u/profile.md": f"# {w()}\n- [id:{w()}] [t:{w()}] [imp:{w()}] {w()}\n- {w()}\n  {w()}\n"
        f"- [x:{w()}] {w()}\n",
        "users/u/working.md": f"- [exp:{w()}] [created:{w()}] {w()}\n- [id:a][t:b][t:{w()}]{w()}\n",
    }
    assert words_of(read_files(written)) >= set(WORD.findall(json.dumps(written)))


def test_unknown_fields_of_counters_are_told() -> None:
    meta = {"version": 2, "profileCount": 0, "workingCount": 0, "archiveCount": 0, "note": "w1w"}
    (row,) = read_files({"users/u/meta.json": json.dumps(meta, indent=1)}).problems.to_pylist()
    assert (row["rule"], row["field"], row["line"]) == ("unclaimed", "note", 6)
    assert "w1w" in row["message"]


def test_parts_are_one_text_and_keep_their_odd_lines() -> None:
    branch = {"type": "index-branch", "files": [{"title": "t", "file": "n/index.md"}]}
    written: dict[str, str | bytes] = {
        "memory/index.json": json.dumps(branch),
        "memory/n/index.md": "---\nparts: [part2.md, part1.md, part9.md]\n---\nне текст\n",
        "memory/n/part1.md": "один\n",
        "memory/n/part2.md": "два\n".encode() + "три\n".encode("cp1251"),
    }
    corpus = read_files(written)
    (memory,) = corpus.memories.to_pylist()
    assert memory["text"] == "два\n���\nодин\n"
    assert json.loads(memory["extra"])["windows-1251"] == {"memory/n/part2.md:2": "три"}
    assert corpus.tables["entries"]["parts"].to_pylist() == [["part2.md", "part1.md"]]
    rules = [(row["path"], row["rule"]) for row in corpus.problems.to_pylist() if row["rule"] != "missing_field"]
    assert rules == [("memory/n/index.md", "missing_file"), ("memory/n/part2.md", "encoding")]


NOTE = """---
# made by hand
id: 550e8400-e29b-41d4-a716-446655440000
subject: Чай # зелёный
keywords: [tea, чай]   # two
applies_to: global
created_at: 2025-01-15T10:30:00Z
updated_at: 2025-01-15T10:30:00Z
why: |  # folded by hand
  not # a comment
---
# A heading
Без сахара, пожалуйста.
"""
FACTS = """# all of them
- fact_id: w1   # first
  category: tea
  content: "Любит чай # не комментарий"
  confidence: 0.5
  relations: []
  format_version: 1.0.0
# before the second
- fact_id: w2
  category: coffee
  content: Любит кофе
  confidence: 0.5 # a guess
  relations: []
  format_version: 1.0.0
# end
"""


def comments_in(files: Mapping[str, str | bytes]) -> list[dict[str, str]]:
    memories = read_files(files).memories.to_pylist()
    return [json.loads(row["extra"]).get("#", {}) for row in memories]


def test_comments_of_a_note_are_in_its_extra_by_their_lines() -> None:
    comments = {"2": "# made by hand", "4": "# зелёный", "5": "# two", "9": "# folded by hand"}
    assert comments_in({"550e8400-e29b-41d4-a716-446655440000.md": NOTE}) == [comments]


def test_comments_of_records_in_yaml_are_with_the_record_that_begins_above_them() -> None:
    first = {"1": "# all of them", "2": "# first", "8": "# before the second"}
    assert comments_in({"wisdom.yaml": FACTS}) == [first, {"12": "# a guess", "15": "# end"}]


def test_a_comment_that_a_text_holds_is_not_kept_again() -> None:
    plain = "---\ntitle: План # черновик\ncomments: true\n---\n# Один\nРаз два три.\n"
    assert comments_in({"MEMORY.md": plain}) == [{}, {}]
    assert comments_in({"page.md": plain})[0] == {"2": "# черновик"}, "front matter is no text of a page"


def test_a_field_named_as_the_comments_are_stays_beside_them() -> None:
    note = NOTE.replace("why: |  # folded by hand\n  not # a comment\n", '"#": mine\n')
    [comments] = comments_in({"550e8400-e29b-41d4-a716-446655440000.md": note})
    assert comments == {"": "mine", "2": "# made by hand", "4": "# зелёный", "5": "# two"}


_COMMENTED = st.lists(
    st.tuples(
        st.sampled_from(["b", "'c # no'", '"d\\" # no"', "[e, f]", "v#no", "|\n  g # no", "{h: i}", "&x j", ""]),
        st.sampled_from(["", " # one", "\t# 'two'", "\n# three: 3", "\n   # - four", " #"]),
    ),
    min_size=1,
)


@fast
@given(_COMMENTED)
def test_comments_are_found_wherever_yaml_has_them(lines: list[tuple[str, str]]) -> None:
    text, expected = "", {}
    for number, (value, comment) in enumerate(lines):
        if value.startswith("|") and comment.startswith((" ", "\t", "\n ")):
            comment = ""  # it would be of the text below
        text += f"k{number}: {value}{comment}\n"
        if comment:
            expected[text.count("\n")] = comment.strip()
    assert yaml_comments(text) == expected
    fields = next(load_yaml(text))
    assert len(fields) == len(lines)


@pytest.mark.parametrize("text", ["# x\na: " + "[" * 50_000, "# x\n" * 50_000, "# x\n" + "{a: " * 50_000])
def test_comments_of_what_is_nested_without_end_are_found_at_once(text: str) -> None:
    assert yaml_comments(text)[1] == "# x"
