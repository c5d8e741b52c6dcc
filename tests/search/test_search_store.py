from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import corpus_of

from memkit.errors import NotFittedError, ParameterError, StaleIndexError
from memkit.index.encoders.hashing import HashEncoder
from memkit.search.retriever import Retriever
from memkit.search.store import MANIFEST

ROWS = ["Пул соединений: десять", "The deploy runs on Friday", "кот спит"]
DAY = "2026-03-01"
QUERIES = ["пулы", "friday deploy", "коты"]


@pytest.mark.parametrize("lexical", ["bm25", "char"])
def test_what_was_saved_answers_the_same_without_encoding(tmp_path: Path, lexical: str) -> None:
    search = Retriever(encoder="hash", lexical=lexical, vector_weight=0.3, kinds_hidden=("a", "b")).fit(
        corpus_of(*ROWS)
    )
    search.save(tmp_path)
    expected = search.search(QUERIES, as_of=DAY)
    encoded = search.arms_["vector"].cache_.encoded
    corpus = corpus_of(*ROWS)
    loaded = Retriever.load(tmp_path, corpus)
    assert loaded.get_params() == search.get_params()
    assert loaded.search(QUERIES, as_of=DAY).equals(expected)
    assert loaded.arms_["vector"].cache_.encoded == encoded
    assert corpus.tables["chunks"].equals(search.chunks_)


def test_bm25_alone_is_saved_and_loaded_as_such(tmp_path: Path) -> None:
    search = Retriever(encoder=None).fit(corpus_of(*ROWS))
    search.save(tmp_path)
    assert list(Retriever.load(tmp_path, corpus_of(*ROWS)).arms_) == ["bm25"]


@pytest.mark.parametrize("rows", [ROWS[:2], [*ROWS, "новое"], ["Пул соединений: десять!", *ROWS[1:]], []])
def test_other_memories_than_those_saved_are_refused(tmp_path: Path, rows: list[str]) -> None:
    Retriever(encoder="hash").fit(corpus_of(*ROWS)).save(tmp_path)
    with pytest.raises(StaleIndexError, match="expected the memories that the saved index was made from"):
        Retriever.load(tmp_path, corpus_of(*rows))


def test_another_encoder_is_refused_and_the_index_stays(tmp_path: Path) -> None:
    search = Retriever(encoder="hash").fit(corpus_of(*ROWS))
    search.save(tmp_path)
    with pytest.raises(StaleIndexError, match="the vectors were made by encoder hash"):
        Retriever.load(tmp_path, corpus_of(*ROWS), encoder="lsa")
    again = Retriever.load(tmp_path, corpus_of(*ROWS))
    assert again.search(QUERIES, as_of=DAY).equals(search.search(QUERIES, as_of=DAY))


def test_an_encoder_object_has_to_be_given_again(tmp_path: Path) -> None:
    search = Retriever(encoder=HashEncoder()).fit(corpus_of(*ROWS))
    search.save(tmp_path)
    with pytest.raises(ParameterError, match="fitted with an encoder object"):
        Retriever.load(tmp_path, corpus_of(*ROWS))
    loaded = Retriever.load(tmp_path, corpus_of(*ROWS), encoder=HashEncoder())
    assert loaded.search(QUERIES, as_of=DAY).equals(search.search(QUERIES, as_of=DAY))


@pytest.mark.parametrize("content", [None, "{", json.dumps({"version": 99})])
def test_a_folder_that_holds_no_saved_index_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / MANIFEST).write_text(content, encoding="utf-8")
    with pytest.raises(StaleIndexError, match=MANIFEST):
        Retriever.load(tmp_path, corpus_of(*ROWS))


def test_a_damaged_arm_is_refused(tmp_path: Path) -> None:
    Retriever(encoder="hash").fit(corpus_of(*ROWS)).save(tmp_path)
    vectors = next((tmp_path / "vector").glob("*.npy"))
    vectors.write_bytes(vectors.read_bytes()[:-4])
    with pytest.raises(StaleIndexError, match="damaged"):
        Retriever.load(tmp_path, corpus_of(*ROWS))


def test_only_what_was_fitted_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="expected fit"):
        Retriever().save(tmp_path)
