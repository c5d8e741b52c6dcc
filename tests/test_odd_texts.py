"""Texts of control characters, in any script and any number: no fit, question, filter, policy or block ends on one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import memkit as mk
from memkit.base.duck import literal, session
from memkit.errors import MemkitError
from memkit.serve.tools import Tools
from memkit.tables.statement import Pattern

WORDS = ("任", "чай ", "tea", "é", "ไท", "א", "")
SIGNS = ("\0", "\1", "\x1f", "\x7f", "\x85", "\xad", "\u0301", "\u200b", "\u2028", "\ufeff", "\ufffd", "\n", "'", "\\")
TEXTS = [(word + sign) * 1000 for word, sign in itertools.product(WORDS, SIGNS)]


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    kinds = ["archive"] * (len(TEXTS) + 1)
    rows = {"text": [*TEXTS, "Пул соединений"], "user_id": [*TEXTS, "anna"], "kind": kinds}
    return mk.Retriever(encoder=None).fit(mk.from_table(rows))


def calls(search: mk.Retriever, text: str) -> Iterator[object]:
    """What somebody's text goes into."""
    question = text[:1999]
    yield search.search(question, k=3, user_id=text)
    yield search.search("пул", k=3, where=f"user_id = {literal(text)}")
    yield mk.ContextBuilder(search).build(search.corpus_, text, question).text


def test_a_text_of_control_characters_stops_nothing(search: mk.Retriever, subtests: pytest.Subtests) -> None:
    with session() as con:
        assert con.execute(f"select {', '.join(map(literal, TEXTS))}").fetchall() == [tuple(TEXTS)]
    corpus = search.corpus_
    for policy in (mk.Admission(), mk.Classifier(), mk.Quota(), mk.Expiry(), mk.Decay()):
        assert policy.transform(corpus.memories).num_rows == len(TEXTS) + 1
    assert search.search("пул соединений", k=1)["text"].to_pylist() == ["Пул соединений"]
    table = mk.panels.table(corpus)
    for text in TEXTS[:: len(SIGNS)] + TEXTS[: len(SIGNS)]:
        with subtests.test(text[:5]):
            assert list(calls(search, text))
            table.set(filter=text)
            assert text.strip() in {"", *(found.strip() for found in table.result["text"].to_pylist())}


@pytest.mark.quick
def test_a_pattern_of_a_thousand_lines_is_one_expression() -> None:
    with session() as con:
        sql = Pattern("odd", "a\n" * 1000).sql.replace("text", f"{literal('a' + chr(10))}", 1)
        assert con.execute(f"select {sql}").fetchall() == [(False,)]


@pytest.mark.quick
def test_a_folder_with_files_of_random_bytes_and_utf_32_is_searched(tmp_path: Path) -> None:
    (tmp_path / "wide.md").write_bytes(("Пул соединений 任务\n" * 300).encode("utf-32-le"))
    (tmp_path / "MEMORY.md").write_text("# Чай\n\nЛюбит чай.\n\n## Вид\n\n" + "任\0" * 1000, "utf-8")
    search = mk.Retriever(encoder=None).fit(mk.read(tmp_path))
    assert search.search("чай", k=1)["path"].to_pylist() == ["MEMORY.md"]


def test_nul_is_refused_by_statements_tools_and_stores(tmp_path: Path, subtests: pytest.Subtests) -> None:
    corpus, tools, store = mk.from_table({"text": ["чай"]}), Tools(tmp_path, {"encoder": None}), mk.store(tmp_path)
    fact, note = "Анна пьёт чай\0 с мёдом.", ("Чай\0", ["чай"], "global", "Анна пьёт чай с мёдом.")
    for number, call in enumerate(
        (
            lambda: corpus.sql("select 1 \0 where false"),
            lambda: corpus.ask("select 1 \0 where false"),
            lambda: tools.memory_append("任\0"),
            lambda: tools.memory_search("任\0"),
            lambda: tools.memory_save(fact, "anna"),
            lambda: tools.note_create(*note),
            lambda: store.workspace.append_to_memory("任\0"),
            lambda: store.notes.create(*note),
            lambda: store.facts.save("anna", fact),
            lambda: store.hermes.add(fact),
            lambda: store.claude.add("чай", fact),
        )
    ):
        with subtests.test(number), pytest.raises(MemkitError, match="NUL"):
            call()
    assert [path.name for path in tmp_path.rglob("*") if path.suffix == ".md"] == []
