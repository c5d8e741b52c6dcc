"""Other forms of a Russian word are searched beside it, where the texts have them, at less weight."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.text import word_forms
from memkit.text.analyse import analyse

DAY = "2026-03-01"
TEXTS = ["Разобрал два письма", "Собрание людей города", "Прошло семь дней", "The letters of people", "Чай и кофе"]
WORDS = {"encoder": None, "gram_weight": 0.0, "fold": "none", "near_words": 0.0}


def fitted(rows: dict[str, Any] | None = None, **params: Any) -> mk.Retriever:
    rows = rows or {"text": TEXTS, "memory_id": [*"abcde"]}
    return mk.Retriever(**{**WORDS, "word_forms": 0.5, **params}).fit(mk.from_table(rows))


def forms(search: mk.Retriever, query: str, **scope: Any) -> dict[str, list[str]]:
    metadata = search.search(query, as_of=DAY, **scope).schema.metadata
    return dict(*json.loads(metadata.get(b"word_forms", b"{}")).values())


def test_a_form_whose_stem_differs_is_found_and_named() -> None:
    search = fitted()
    for query, (word, memory) in {"писем": ("письма", "a"), "человек": ("людей", "b"), "день": ("дней", "c")}.items():
        ((one,), (other,)) = analyse([query, word])
        assert one != other  # the stemmer parts them
        assert search.with_params(word_forms=0.0).search(query, as_of=DAY).num_rows == 0, query
        assert search.search(query, as_of=DAY)["memory_id"].to_pylist() == [memory], query
        assert forms(search, query) == {query: [word]}
        assert f"'{query}' is also searched as '{word}'." in mk.explain(search, query, memory, as_of=DAY)
        trace = search.trace(query, as_of=DAY)
        assert json.loads(trace.schema.metadata[b"word_forms"]) == {"0": {query: [word]}}
    for query in ("писем_2", "«писем»", "letter", "people", "чая", "письма", "и", ""):
        assert forms(search, query) == {}, query
    both = "писем и письма"  # the query has the other form itself
    assert forms(search, both) == {}
    assert forms(fitted(word_forms=0.0), "писем") == {}


def test_a_form_counts_its_share_of_a_word_as_asked() -> None:
    search = fitted()
    (true,) = search.search("письма", as_of=DAY, k=1)["bm25"].to_pylist()
    for share in (0.25, 1.0):
        (form,) = search.with_params(word_forms=share).search("писем", as_of=DAY, k=1)["bm25"].to_pylist()
        assert form == pytest.approx(share * true, rel=1e-6)


def test_a_word_with_forms_in_the_texts_is_not_taken_for_a_typo() -> None:
    search = fitted({"text": ["Крики детей", "Барабанный бой", "Гребёнка"], "memory_id": [*"abc"]}, near_words=0.8)
    for share, read, memories in ((0.0, {"ребёнка": "гребёнка"}, ["c"]), (0.5, {}, ["a"])):
        hits = search.with_params(word_forms=share).search("ребёнка", as_of=DAY)
        assert dict(*json.loads(hits.schema.metadata.get(b"read_as", b"{}")).values()) == read
        assert hits["memory_id"].to_pylist() == memories


def test_only_forms_in_sight_are_searched_and_named() -> None:
    rows = {"text": ["Два письма", "Пять писем", "чай"], "user_id": ["v", "u", "w"], "memory_id": [*"abc"]}
    search = fitted(rows)
    assert forms(search, "писем") == {"писем": ["письма"]}
    assert forms(search, "письма", user_id="u") == {"письма": ["писем"]}
    assert forms(search, "письма", user_id="w") == {}
    assert forms(search, "писем", where="memory_id <> 'a'") == {}
    assert "письма" not in str(search.trace("писем", user_id="u", as_of=DAY).schema.metadata)


def test_shards_and_a_lake_search_the_same_forms(tmp_path: Any) -> None:
    rows = {
        "text": [f"{word} {place}" for place in range(9) for word in ("письма", "людей", "дней", "писем", "день")],
        "user_id": [str(place % 4) for place in range(45)],
        "memory_id": [f"{place:02}" for place in range(45)],
    }
    queries, whole = ["писем человека", "дни", "письмо"], fitted(rows)
    mk.from_table(rows).save(tmp_path / "shards", buckets=3)
    whole.corpus_.save(tmp_path / "lake")
    params = {**WORDS, "word_forms": 0.5}
    opened = [mk.Retriever(**params).fit(mk.open(tmp_path / name)) for name in ("shards", "lake")]
    for who in (None, "1"):
        expected = whole.search(queries, user_id=who, as_of=DAY)
        assert expected.num_rows
        for other in opened:
            hits = other.search(queries, user_id=who, as_of=DAY)
            assert hits.select(["query_id", "memory_id", "score"]).equals(
                expected.select(["query_id", "memory_id", "score"])
            )
            assert hits.schema.metadata.get(b"word_forms") == expected.schema.metadata.get(b"word_forms")


def test_a_sweep_varies_it() -> None:
    labels = (
        {"query_id": ["a", "b"], "text": ["писем", "чай"]},
        {"query_id": ["a", "b"], "memory_id": ["a", "e"], "relevance": [1, 1]},
    )
    swept = mk.sweep(fitted(), *map(pa.table, labels), {"word_forms": [0.0, 0.5]}, metrics=["recall@1"], as_of=DAY)
    by_share = dict(zip(swept.table["word_forms"].to_pylist(), swept.table["recall@1"].to_pylist(), strict=True))
    assert by_share == {0.0: 0.5, 0.5: 1.0}


def test_without_the_extra_it_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    word_forms.dictionary.cache_clear()
    monkeypatch.setitem(sys.modules, "pymorphy3", None)
    with pytest.raises(mk.MissingExtraError, match=r"memkit\[lemma\]"):
        fitted().search("tea", as_of=DAY)
    assert fitted(word_forms=0.0).search("чай", as_of=DAY).num_rows == 1
