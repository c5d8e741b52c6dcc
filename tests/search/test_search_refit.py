"""A refit that begins from an earlier one: the same as a fresh fit, whatever was edited."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.index.lexical import BM25, CharGrams, Grams
from memkit.index.postings import Postings
from memkit.text.analyse import ANALYSERS

DAY = "2026-03-01"
WORDS = ("пул", "соединений", "память", "кофе", "pool", "memory", "snake_case", "ёлка", "東京", "E4021")
QUERIES = ["пул памяти", "memory pools", "кофе кофе", "東京 snake", "ёлки"]
LETTERS = "абвгдеёжзabcde"

texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.lists(st.sampled_from([*WORDS, "\n", "```", "# "]), min_size=20, max_size=60).map(" ".join),
    st.text("пулabc \n", max_size=20),
)
memory = st.fixed_dictionaries(
    {
        "text": texts,
        "title": st.sampled_from(["", "Пул", "Memory"]),
        "tags": st.lists(st.sampled_from(["db", "кофе", "a b"]), max_size=2),
        "user_id": st.sampled_from([None, "анна", "боб"]),
        "kind": st.sampled_from([None, "note", "archive", "profile"]),
        "updated_at": st.sampled_from([None, "2026-02-01", "2025-02-01"]),
        "created_at": st.sampled_from([None, "2026-01-01", "2024-03-05"]),
    }
)
memories = st.dictionaries(st.text(LETTERS, min_size=1, max_size=3), memory, min_size=1, max_size=12)


def corpus_of(rows: dict[str, dict[str, Any]]) -> mk.Corpus:
    """A corpus of memories by their id, in the order of the dict."""
    return mk.from_table(pa.Table.from_pylist([{"memory_id": name, **row} for name, row in rows.items()]))


def edited(draw: st.DrawFn, rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Some memories changed, deleted, renamed and added, in another order."""
    fresh = draw(memories)
    kept = {name: row for name, row in rows.items() if draw(st.sampled_from("+++-")) == "+"}
    changed = {name: fresh[other] for name, other in zip(kept, fresh, strict=False) if draw(st.booleans())}
    renamed = {f"{name}z" if draw(st.sampled_from("+++-")) == "-" else name: row for name, row in kept.items()}
    mixed = renamed | changed | {f"{name}y": row for name, row in fresh.items() if draw(st.booleans())}
    return dict(draw(st.permutations(list(mixed.items())))) or {"одна": {"text": "пул"}}


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, dict[str, Any]]]:
    versions = [draw(memories)]
    for _ in range(draw(st.integers(1, 3))):
        versions.append(edited(draw, versions[-1]))
    return versions


def assert_same(followed: mk.Retriever, fresh: mk.Retriever, where: str | None = None) -> None:
    """One answers as the other does, in every column of hits and trace; a predicate takes a database of each."""
    assert followed.chunks_.equals(fresh.chunks_)
    for answer, whose in (("trace", {}), ("search", {"user_id": "анна", "where": where})):
        a, b = (getattr(one, answer)(QUERIES, k=5, as_of=DAY, **whose) for one in (followed, fresh))
        assert a.column_names == b.column_names
        for name in a.column_names:
            if pa.types.is_floating(a[name].type):
                scores, expected = (np.array(table[name].to_pylist(), float) for table in (a, b))
                np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)
            else:
                assert a[name].to_pylist() == b[name].to_pylist()


def assert_follows(params: dict[str, Any], versions: list[dict[str, dict[str, Any]]]) -> None:
    """A refit to each of the versions is as a fresh fit."""
    params = {"index__chunk_tokens": 12, "index__overlap_tokens": 4, **params}
    search = mk.Retriever(**params)
    for version in versions:
        corpus = corpus_of(version)
        search.fit(corpus)
        assert_same(search, mk.Retriever(**params).fit(corpus))


# Each arm has its columns in the trace, so that one fit tells of an analyser and of a way with vectors.
ARMS: list[dict[str, Any]] = [
    *({"encoder": "hash", "index__centre": centre, "index__ann": "exact"} for centre in ("none", "corpus", "language")),
    {"encoder": "lsa", "gram_weight": 0.4},
    {"encoder": None, "gram_weight": 0.4},
]
FITS = [
    *({"index__analyzer": analyser} | arms for analyser, arms in zip(ANALYSERS, ARMS, strict=True)),
    {"encoder": None, "index__lexical": "char"},
    {"encoder": "hash", "index__ann": "ivf"},
    {
        "encoder": "hash",
        "index__searched": ("text",),
        "index__chunk_tokens": 10,
        "index__overlap_tokens": 3,
        "mmr_lambda": 0.5,
    },
]


@pytest.mark.parametrize("params", FITS, ids=lambda params: "-".join(map(str, params.values())))
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(versions=histories())
def test_a_refit_after_any_edits_equals_a_fresh_fit(
    params: dict[str, Any], versions: list[dict[str, dict[str, Any]]]
) -> None:
    assert_follows(params, versions)


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(f"# {name}\n{text}\n", encoding="utf-8")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts were cut into words at each count."""
    counts: list[int] = []
    count = Postings.count.__func__  # type: ignore[attr-defined]  # a class method

    def noting(cls: type, texts: Any, *how: Any) -> Any:
        counts.append(len(texts))
        return count(cls, texts, *how)

    monkeypatch.setattr(Postings, "count", classmethod(noting))
    return counts


@pytest.mark.quick
@pytest.mark.parametrize("fit", ["same", "refresh", "context"])
def test_after_a_refresh_a_retriever_reads_only_new_texts(tmp_path: Path, counted: list[int], fit: str) -> None:
    write(tmp_path, {f"n{i}": f"кофе номер {i}" for i in range(30)})
    first = mk.Retriever(encoder=None, gram_weight=0.0).fit(mk.read(tmp_path))
    builder = mk.ContextBuilder(first)
    write(tmp_path, {"n7": "чай с лимоном"})
    counted.clear()
    after = first.corpus_.refresh()
    if fit == "same":
        search = first.fit(after)
    elif fit == "refresh":
        search = first.refresh()
    else:
        builder.build(after, "u1", "чай", as_of=DAY)
        search = builder.retriever_
    assert counted == [1]
    assert search.search("лимон", as_of=DAY)["path"].to_pylist() == ["n7.md"]


@pytest.mark.quick
@pytest.mark.parametrize("above", ["Чай с лимоном.\n", "## Чай\n\nС лимоном.\n\n", ""], ids=["text", "section", "less"])
def test_what_an_edit_above_only_moves_is_not_read_again(tmp_path: Path, counted: list[int], above: str) -> None:
    sections = "".join(f"## День {i}\n\nКофе номер {i}.\n{'Долгий рассказ о кофе. ' * i}\n" for i in range(40))
    log = "\n".join(f'{{"id": "{i}", "subject": "Кофе {i}", "content": "Номер {i}."}}' for i in range(5))
    first = {
        "MEMORY.md": f"Вступление.\n\n{sections}",
        "users/anna/archive.md": "- [id:ar_001] [t:archive] Любит чай\n",
    }
    search = mk.Retriever(encoder=None, gram_weight=0.0, index=mk.Index(chunk_tokens=60, overlap_tokens=10))
    search.fit(mk.read(mk.testing.write_files(tmp_path, first | {"log.jsonl": log})))
    counted.clear()
    after = {"MEMORY.md": f"{above}{sections}", "log.jsonl": f'{{"id": "x", "subject": "Новое"}}\n{log}'}
    mk.testing.write_files(tmp_path, after | {"users/anna/archive.md": f"- одно\n{first['users/anna/archive.md']}"})
    search.refresh()
    assert sum(counted) < 6
    fresh = mk.Retriever(**search.get_params(deep=False)).fit(mk.read(tmp_path))
    assert_same(search, fresh)
    lines = (tmp_path / "MEMORY.md").read_text(encoding="utf-8").split("\n")
    for chunk in search.chunks_.to_pylist():
        if chunk["path"] == "MEMORY.md":
            assert chunk["text"].split("\n")[0] in lines[chunk["line_start"] - 1]


def traces(search: mk.Retriever, count: int) -> list[pa.Table]:
    return [search.trace("кофе 7", as_of=DAY) for _ in range(count)]


@pytest.mark.quick
def test_what_was_fitted_before_stays_as_it_was_and_is_let_go(tmp_path: Path) -> None:
    write(tmp_path, {f"n{i}": f"кофе номер {i}" for i in range(20)})
    old = mk.Retriever(encoder="hash").fit(mk.read(tmp_path))
    (expected,) = traces(old, 1)
    write(tmp_path, {"n7": "чай с лимоном", "n3": "кофе кофе"})
    (tmp_path / "n5.md").unlink()
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(traces, old, 5)
        new = mk.Retriever(encoder="hash").fit(old.corpus_.refresh())
    assert all(answer.equals(expected) for answer in [*answers.result(), *traces(old, 1)])
    del answers
    assert new.search("лимон", as_of=DAY)["path"].to_pylist()[0] == "n7.md"
    known = weakref.ref(old.index_)
    del old
    gc.collect()
    assert known() is None, "the new index holds the former one"


def test_full_text_in_sql_follows_a_refresh(tmp_path: Path) -> None:
    write(tmp_path, {"a": "кофе", "b": "чай"})
    before = mk.read(tmp_path)
    ask = "select path from fts('{}') join memories using (memory_id)"
    assert before.sql(ask.format("чай")).fetchall() == [("b.md",)]
    write(tmp_path, {"b": "кофе с молоком"})
    after = before.refresh()
    assert after.sql(ask.format("чай")).fetchall() == []
    assert after.sql(ask.format("молоко")).fetchall() == [("b.md",)]
    assert before.sql(ask.format("чай")).fetchall() == [("b.md",)]


def test_another_setting_or_another_encoder_begins_anew(counted: list[int]) -> None:
    rows = {f"m{i}": {"text": f"кофе номер {i}"} for i in range(10)}
    search = mk.Retriever(encoder=None, gram_weight=0.0).fit(corpus_of(rows))
    search.set_params(index__analyzer="none").fit(corpus_of(rows))
    assert counted == [10, 10]
    assert_same(
        search, mk.Retriever(encoder=None, gram_weight=0.0, index=mk.Index(analyzer="none")).fit(corpus_of(rows))
    )


@pytest.mark.parametrize("arm", [BM25(), CharGrams(), Grams()], ids=lambda arm: type(arm).__name__)
def test_an_arm_brought_up_to_date_holds_what_a_fitted_one_holds(tmp_path: Path, arm: Any) -> None:
    old, new = ["кофе кофе", "чай", "память пула", ""], ["чай", "молоко", "память пула"]
    former = np.array([1, 4, 2])  # the second is new
    chunks = pa.table({"chunk_id": list("abc")})
    followed = type(arm)().fit(pa.table({"chunk_id": list("abcd")}), old).updated(former, chunks, pa.array(new))
    fresh = type(arm)().fit(chunks, new)
    one, other = followed.postings_, fresh.postings_
    assert list(one.terms.items()) == list(other.terms.items())
    for name in ("offsets", "rows", "counts"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for arm, folder in ((followed, "followed"), (fresh, "fresh")):
        arm.save(tmp_path / folder)
    for file in sorted((tmp_path / "fresh").iterdir()):
        assert (tmp_path / "followed" / file.name).read_bytes() == file.read_bytes()


def test_after_scattered_edits_rows_are_told_as_after_a_fresh_fit() -> None:
    rows = {f"m{i:03}": {"text": f"кофе номер {i}", "user_id": "анна" if i % 3 else None} for i in range(200)}
    search = mk.Retriever(encoder=None).fit(corpus_of(rows))
    for step in (100, 40, 2):  # few pieces, more of them, and too many to be kept apart
        rows = rows | {f"m{i:03}": {"text": f"чай {step} {i}"} for i in range(0, 200, step)}
        search.fit(corpus_of(rows))
        assert_same(search, mk.Retriever(encoder=None).fit(corpus_of(rows)), "memory_id > 'm050'")
        hits = search.search(["кофе чай"], k=50, as_of=DAY)
        pairs = zip(hits["memory_id"].to_pylist(), hits["text"].to_pylist(), strict=True)
        assert all(text == rows[name]["text"] for name, text in pairs)
