"""Known items: what asks for a memory is hidden from it alone; and what a log says was used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.evaluation.known_items import ASKED_BY, FIELDS, hidden
from memkit.tables.samples import write_files

DATA = Path(__file__).parents[2] / "data"
NOTES = {
    "memory/2026-03-01.md": "# Пул соединений\nВырос до десяти, потому что отчёты ждут.\n\n## Чай\nЗелёный.\n",
    "memory/2026-03-02.md": "# Статус дня\nВсё спокойно, тесты зелёные.\n",
    "memory/2026-03-03.md": "# Статус дня\nСнова тихо, отчёт ушёл утром.\n",
    "memory/2026-03-04.md": "# Про аптеку\n14:00\n",
}


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.read(DATA)


@pytest.mark.quick
def test_a_heading_asks_for_its_section(tmp_path: Path) -> None:
    corpus = mk.read(write_files(tmp_path, NOTES))
    queries, qrels = mk.known_items(corpus)
    # Not the heading of one word, nor the one that two sections have, nor that of a section with hardly a word.
    assert queries.select(["text", "field", "hidden_field"]).to_pylist() == [
        {"text": "Пул соединений", "field": "headings", "hidden_field": "title"}
    ]
    (right,) = qrels.to_pylist()
    assert right["query_id"] == queries["query_id"][0].as_py()
    titles = dict(zip(*(corpus.memories[name].to_pylist() for name in ("memory_id", "title")), strict=True))
    assert titles[right["memory_id"]] == "Пул соединений"


@pytest.mark.quick
def test_each_field_of_the_sample_asks(corpus: mk.Corpus) -> None:
    queries, qrels = mk.known_items(corpus)
    assert set(queries["field"].to_pylist()) == set(FIELDS)
    assert queries.num_rows == qrels.num_rows
    assert queries["query_id"].to_pylist() == qrels["query_id"].to_pylist()
    by_keywords = mk.known_items(corpus, fields=["keywords"])[0]
    kinds = dict(zip(*(corpus.memories[name].to_pylist() for name in ("memory_id", "kind")), strict=True))
    assert {kinds[memory] for memory in by_keywords["group"].to_pylist()} == {"note"}


@pytest.mark.quick
def test_a_sample_is_drawn_by_its_seed(corpus: mk.Corpus) -> None:
    one, again, other = (mk.known_items(corpus, 20, random_state=seed)[0] for seed in (1, 1, 2))
    assert one.equals(again)
    assert one.num_rows == other.num_rows == 20
    assert not one.equals(other)
    assert set(one["query_id"].to_pylist()) <= set(mk.known_items(corpus)[0]["query_id"].to_pylist())


def test_what_asks_is_hidden_wherever_it_stands_from_the_asked_memory_alone() -> None:
    rows = {
        "memory_id": ["asked", "other"],
        "title": ["Пул соединений", "Пул соединений вырос"],
        "tags": [["пул  СОЕДИНЕНИЙ", "отчёты"], []],
        "text": ["## Пул соединений\nвырос: пул соединений теперь десять", "пул соединений у Бориса"],
    }
    search = mk.Retriever(encoder=None).fit(mk.from_table(rows))
    _, qrels = mk.known_items(search.corpus_)
    without = hidden(
        search, "title", qrels.filter([name == "asked" for name in qrels["memory_id"].to_pylist()])["memory_id"]
    )
    asked, other = without.corpus_.memories.to_pylist()
    assert (asked["title"], asked["tags"]) == ("", ["отчёты"])
    assert asked["text"] == "\nвырос: пул соединений теперь десять"  # a mention in a sentence stays
    assert (other["title"], other["text"]) == (rows["title"][1], rows["text"][1])
    assert search.corpus_.memories["title"].to_pylist() == rows["title"]  # the corpus itself is as it was


def test_hidden_queries_are_harder_than_plain_ones_and_score_as_a_corpus_without_the_field(corpus: mk.Corpus) -> None:
    search = mk.Retriever(encoder=None).fit(corpus)
    queries, qrels = mk.known_items(corpus, fields=["subject"])
    day = "2026-03-01"
    evaluation = mk.evaluate(search, queries, qrels, "mrr", as_of=day)
    plain = mk.evaluate(search, queries.drop_columns(["hidden_field"]), qrels, "mrr", as_of=day)
    assert evaluation.table["value"][0].as_py() < plain.table["value"][0].as_py() - 0.05
    without = hidden(search, "title", qrels["memory_id"])
    by_hand = mk.evaluate(without, queries.drop_columns(["hidden_field"]), qrels, "mrr", as_of=day)
    assert by_hand.per_query["mrr"].equals(evaluation.per_query["mrr"])


def test_each_setting_is_measured_on_what_was_fitted_for_the_first(
    corpus: mk.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits, fit = [0], mk.Retriever.fit

    def counted(self: mk.Retriever, *args: Any) -> mk.Retriever:
        fits[0] += 1
        return fit(self, *args)

    monkeypatch.setattr(mk.Retriever, "fit", counted)
    corpus = mk.from_table(corpus.memories.filter(pc.is_in(corpus.memories["kind"], pa.array(["note", "long_term"]))))
    labels = mk.known_items(corpus, 30, fields=["headings", "keywords"], random_state=1)
    other_labels = mk.known_items(corpus, 20, fields=["headings", "keywords"], random_state=2)
    day, search = "2026-03-01", mk.Retriever(encoder=None).fit(corpus)
    settings: tuple[dict[str, Any], ...] = ({}, {"bm25_weight": 0.2}, {"min_score": 0.3, "gram_weight": 0.0})
    expected = [
        mk.evaluate(mk.Retriever(encoder=None).fit(corpus).with_params(**one), *labels, "mrr", as_of=day).per_query
        for one in settings
    ]
    assert len(set(labels[0]["hidden_field"].to_pylist())) == 2
    fits[0] = 0
    measured = [mk.evaluate(search.with_params(**one), *labels, "mrr", as_of=day).per_query for one in settings]
    assert (measured, fits) == (expected, [2])
    assert expected[0] != expected[2]
    fresh = mk.evaluate(mk.Retriever(encoder=None).fit(corpus), *other_labels, "mrr", as_of=day).per_query
    assert mk.evaluate(search, *other_labels, "mrr", as_of=day).per_query == fresh


def test_texts_that_stay_are_not_encoded_again() -> None:
    encoded: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return np.array([[len(text), 1.0] for text in texts])

    rows = {"title": ["Пул соединений", "", ""], "text": ["вырос до десяти утром", "пул отчётов", "кофе с молоком"]}
    search = mk.Retriever(encoder=encode).fit(mk.from_table(rows))
    assert len(encoded) == 3
    queries, qrels = mk.known_items(search.corpus_)
    mk.evaluate(search, queries, qrels, "mrr", as_of="2026-03-01")
    assert sorted(encoded[3:]) == sorted(
        ["вырос до десяти утром", "Пул соединений"]
    )  # the text without its title, the query


def test_hidden_fields_need_judgements_and_a_known_name() -> None:
    search = mk.Retriever(encoder=None).fit(
        mk.from_table({"title": ["Пул соединений"], "text": ["вырос до десяти утром"]})
    )
    queries, qrels = mk.known_items(search.corpus_)
    with pytest.raises(mk.errors.ParameterError, match="expected qrels beside a 'hidden_field'"):
        mk.compare(search, search, queries)
    wrong = queries.set_column(queries.column_names.index("hidden_field"), "hidden_field", [["path"]])
    with pytest.raises(mk.errors.ParameterError, match="'hidden_field' must be"):
        mk.evaluate(search, wrong, qrels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": 0}, "'n' must be"),
        ({"fields": ["subjects"]}, "mean 'subject'"),
        ({"fields": ["triggers"]}, "Got none of two words"),
    ],
)
def test_what_cannot_ask_is_refused(wrong: dict[str, Any], message: str) -> None:
    corpus = mk.from_table({"title": ["Пул соединений"], "text": ["вырос до десяти утром"]})
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.known_items(corpus, **wrong)


def test_a_log_says_what_was_used(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        '{"text": "чай?", "used": ["a b"], "shown": ["a b", "c"], "time": "2026-03-01T10:00:00Z", "user_id": "anna"}\n'
        '{"text": "кофе?", "used": [], "shown": ["d"], "session": "s1"}\n'
        '{"text": "привет", "used": []}\n',
        "utf-8",
    )
    (tmp_path / "log.csv").write_text(
        'text,used,shown,time,user_id,session\nчай?,a b,"[""a b"", ""c""]",2026-03-01T10:00:00Z,anna,\n'
        "кофе?,,d,,,s1\nпривет,,,,,\n",
        "utf-8",
    )
    for name in ("log.jsonl", "log.csv"):
        queries, qrels = mk.labels.import_log(tmp_path / name)
        assert [tuple(row.values()) for row in qrels.select(["query_id", "memory_id", "relevance"]).to_pylist()] == [
            ("0", "a b", 1.0),
            ("0", "c", 0.0),
            ("1", "d", 0.0),
        ]
        assert queries["user_id"].to_pylist() == ["anna", None]
        assert queries["group"].to_pylist() == [None, "s1"]
        assert queries["as_of"][0].as_py().hour == 10
        assert queries.schema.metadata[b"note"] == b"1 of 3 queries are left out: nothing was shown or used."


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({"text": ["чай"], "clicked": ["a"]}, "a column 'used'"),
        ({"text": ["чай"], "used": [None]}, "something was shown or used"),
        ({"text": ["чай"], "used": ["[a"]}, "a JSON list of ids in row 0"),
        ({"text": ["чай"], "used": ["a"], "time": ["вчера"]}, "a day or a time"),
    ],
)
def test_a_log_that_says_nothing_is_refused(log: dict[str, Any], message: str) -> None:
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.labels.import_log(log)


def test_the_words_of_a_link_ask_for_the_page_that_only_others_call_so(tmp_path: Path) -> None:
    pages = {
        "returns.md": "---\ntitle: Возвраты\n---\nДеньги приходят за три дня, см. [порядок возврата](returns.md).\n",
        "orders.md": "---\ntitle: Заказы\n---\nСм. [политику возврата денег](returns.md), [[returns|Возвраты]].\n",
        "stock.md": "---\ntitle: Склад\n---\n[[orders|весь список]], [[returns|весь список]], [[returns|раз]].\n",
    }
    corpus = mk.read(mk.testing.write_files(tmp_path, pages))
    queries, qrels = mk.known_items(corpus, fields=["links"])
    questions = queries.select(["text", "field", "hidden_field", "group"]).to_pylist()
    (target,) = (row["memory_id"] for row in corpus.memories.to_pylist() if row["path"] == "returns.md")
    expected = {"text": "политику возврата денег", "field": "links", "hidden_field": None, "group": target}
    assert questions == [expected], "no title, one word, words of the page or that lead to two"
    assert qrels["memory_id"].to_pylist() == [target]


PAGES = {
    "index.md": "# Всё\n\n- [Возвраты](returns.md) — когда приходят деньги\n"
    "- [Склад](stock.md): где лежат коробки, см. [[orders]]\n"
    "- [Заказы](orders.md) — список всех заказов\n",
    "returns.md": "---\ntitle: Возвраты\ndescription: Деньги обратно за три дня\n"
    "aliases: [обратная доставка, refunds]\nalias: обратная доставка\n---\n"
    "Первый абзац о сроках.\n\n## Сроки\n\nТри дня, не больше.\n",
    "orders.md": "---\ntitle: Заказы\ndescription: Список всех заказов\naliases: [весь список]\n---\nСм. [обратная"
    " доставка](returns.md) и [куда вернуть деньги](returns.md).\n\n## Обратная доставка\n\nЕё нет.\n",
    "stock.md": "---\ntitle: Склад\nstatus: deprecated\ndescription: Полки и коробки\n---\nПолки стоят у стены дома.\n",
}


def test_a_page_is_asked_for_in_words_that_it_does_not_say_and_any_of_its_memories_is_right(tmp_path: Path) -> None:
    corpus = mk.read(mk.testing.write_files(tmp_path, PAGES))
    queries, qrels = mk.known_items(corpus, fields=["links", "hooks", "aliases", "descriptions"])
    questions = {(row["field"], row["text"], row["hidden_field"]) for row in queries.to_pylist()}
    assert questions == {
        ("links", "куда вернуть деньги", None),
        ("hooks", "когда приходят деньги", None),
        ("aliases", "обратная доставка", "aliases"),
        ("aliases", "весь список", "aliases"),
        ("descriptions", "Деньги обратно за три дня", "description"),
        ("descriptions", "Список всех заказов", "description"),
    }, "no link with an alias, no hook that is a description or stands by two links, nothing of a deprecated page"
    paths = dict(zip(*(corpus.memories[name].to_pylist() for name in ("memory_id", "path")), strict=True))
    right: dict[str, set[str]] = {}
    for row in qrels.to_pylist():
        right.setdefault(row["query_id"], set()).add(row["memory_id"])
    for row in queries.to_pylist():
        page = paths[row["group"]]
        assert right[row["query_id"]] == {name for name, path in paths.items() if path == page}, row
    note = queries.schema.metadata[b"note"].decode()
    assert all(ASKED_BY[name] in note for name in ("links", "hooks", "aliases", "descriptions"))
    result = mk.evaluate(mk.Retriever(encoder=None).fit(corpus), queries, qrels, ["mrr"])
    assert "not asked by people" in result._repr_html_()


def test_an_alias_or_description_that_asks_is_searched_nowhere_in_its_page(tmp_path: Path) -> None:
    search = mk.Retriever(encoder=None).fit(mk.read(mk.testing.write_files(tmp_path, PAGES)))
    for field, column in (("aliases", "aliases"), ("descriptions", "description")):
        queries, qrels = mk.known_items(search.corpus_, fields=[field])
        without = hidden(search, column, qrels["memory_id"])
        index = without._index()
        owner = index.chunks["memory_id"].to_pylist()
        texts = [text.casefold() for text in index.texts.to_pylist()]
        before = search._index().texts.to_pylist()
        pages = dict(zip(*(index.memories[name].to_pylist() for name in ("memory_id", "path")), strict=True))
        for row in queries.to_pylist():
            words, page = row["text"].casefold(), pages[row["group"]]
            held = [name for name, text in zip(owner, texts, strict=True) if pages[name] == page and words in text]
            assert not held, (row["text"], held)
            assert any(words in text.casefold() for text in before), "it is searched otherwise"
