"""Meaning that comes later: what a fit leaves to be encoded, and what answers until then."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memkit as mk
from memkit.errors import ParameterError

TEXTS = [f"Заметка {number}: пул соединений, {number} штук" for number in range(6)]
QUERIES = {"query_id": ["q"], "text": ["пул 3"]}
QRELS = {"query_id": ["q"], "memory_id": ["3"], "relevance": [1.0]}


class Counting:
    """An encoder that counts what it encodes, two texts at a time, and may be interrupted after some."""

    dim, batch_size, show_progress = 2, 2, False
    fingerprint = "counting"

    def __init__(self, most: int = 100) -> None:
        self.texts, self.most = list[str](), most

    def encode_query(self, texts: Sequence[str]) -> Any:
        return self._rows(texts)

    def encode_document(self, texts: Sequence[str]) -> Any:
        if len(self.texts) >= self.most:
            raise KeyboardInterrupt
        self.texts += texts
        return self._rows(texts)

    def _rows(self, texts: Sequence[str]) -> Any:
        return np.array([[len(text), 1.0 + text.count("3")] for text in texts], np.float32)

    def get_config(self) -> dict[str, Any]:
        return {}


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "cache"))
    mk.vector_cache().clear()


def _corpus(texts: Sequence[str] = TEXTS) -> mk.Corpus:
    return mk.from_table({"memory_id": [str(number) for number in range(len(texts))], "text": list(texts)})


def _arms(hits: Any) -> list[str]:
    return list(json.loads(hits.schema.metadata[b"arms"]))


@pytest.mark.quick
def test_until_all_is_encoded_the_answer_is_that_of_a_search_without_an_encoder() -> None:
    encoder = Counting()
    search = mk.Retriever(encoder=encoder).fit(_corpus(), encode="later")
    hits, words = search.search("пул 3"), mk.Retriever(encoder=None).fit(_corpus()).search("пул 3")
    assert hits.drop_columns("query_id").equals(words.drop_columns("query_id"))
    assert (_arms(hits), encoder.texts) == (["bm25", "gram"], [])
    assert "6 of 6 texts are not encoded; search.encode()" in hits.schema.metadata[b"note"].decode()
    search.encode()
    after, at_once = search.search("пул 3"), mk.Retriever(encoder=encoder).fit(_corpus()).search("пул 3")
    assert after.equals(at_once)
    assert (_arms(after), sorted(encoder.texts)) == (["bm25", "gram", "vector"], TEXTS)
    assert "encoded" not in after.schema.metadata.get(b"note", b"").decode()


@pytest.mark.quick
def test_a_number_is_the_most_new_texts_that_a_fit_encodes() -> None:
    encoder = Counting()
    mk.Retriever(encoder=encoder).fit(_corpus(TEXTS[:4]))
    few, many = (mk.Retriever(encoder=encoder).fit(_corpus(), encode=limit) for limit in (2, 1))
    assert "vector" in few.arms_  # two are new, the others lie in the cache
    assert "vector" in many.arms_  # as those two do now
    other = mk.Retriever(encoder=encoder).fit(_corpus([*TEXTS, "седьмая", "восьмая"]), encode=1)
    assert "vector" not in other.arms_
    with pytest.raises(ParameterError, match="'encode' must be one of 'now', 'later'"):
        other.fit(_corpus(), encode="soon")
    with pytest.raises(ParameterError, match="'encode' must be an int"):
        other.fit(_corpus(), encode=-1)


@pytest.mark.quick
def test_what_was_encoded_before_an_interruption_is_kept() -> None:
    encoder = Counting(most=4)
    search = mk.Retriever(encoder=encoder).fit(_corpus([*TEXTS, *map("ещё {}".format, range(30))]), encode="later")
    with pytest.raises(KeyboardInterrupt):
        search.encode()
    n_kept, encoder.most = len(encoder.texts), 100
    search.encode()
    assert 0 < n_kept < 36 == len(encoder.texts)


def test_a_refresh_keeps_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# Чай\n\nзелёный\n", encoding="utf-8")
    search = mk.Retriever(encoder=Counting()).fit(mk.read(tmp_path), encode=1)
    assert "vector" in search.arms_
    (tmp_path / "MEMORY.md").write_text("# Чай\n\nзелёный\n\n# Кофе\n\nчёрный\n\n# Вода\n\nтихая\n", encoding="utf-8")
    assert "vector" not in search.refresh().arms_


@pytest.mark.parametrize(
    "measured",
    [
        lambda search: mk.evaluate(search, QUERIES, QRELS, ["mrr"]),
        lambda search: mk.compare(mk.Retriever(encoder=None).fit(_corpus()), search, QUERIES, QRELS),
        lambda search: mk.sweep(search, QUERIES, QRELS, {"vector_weight": [0.2, 0.5]}, metrics=["mrr"]),
        lambda search: mk.audit(search, only="hubs"),
        lambda search: mk.panels.judge(search, QUERIES),
    ],
    ids=["evaluate", "compare", "sweep", "audit", "judge"],
)
def test_measures_encode_first_and_say_how_long(measured: Any, caplog: pytest.LogCaptureFixture) -> None:
    search = mk.Retriever(encoder=Counting()).fit(_corpus(), encode="later")
    with caplog.at_level(logging.WARNING, "memkit"):
        measured(search)
    assert "vector" in search.arms_
    assert "6 texts were encoded in" in caplog.text
