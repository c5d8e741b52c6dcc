"""A refit that begins from an earlier one: the same as a fresh fit, whatever was edited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memkit as mk
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
memories = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {
            "text": texts,
            "title": st.sampled_from(["", "Пул", "Memory"]),
            "tags": st.lists(st.sampled_from(["db", "кофе", "a b"]), max_size=2),
            "user_id": st.sampled_from([None, "анна", "боб"]),
            "kind": st.sampled_from([None, "note", "archive", "profile"]),
            "updated_at": st.sampled_from([None, "2026-02-01", "2025-02-01"]),
        }
    ),
    min_size=1,
    max_size=12,
)


def corpus_of(rows: dict[str, dict[str, Any]]) -> mk.Corpus:
    """A corpus of memories by their id, in the order of the dict."""
    return mk.from_table(pa.Table.from_pylist([{"memory_id": name, **row} for name, row in rows.items()]))


def edited(draw: st.DrawFn, rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Some memories changed, deleted, renamed and added, in another order."""
    fresh = draw(memories)
    kept = {name: row for name, row in rows.items() if draw(st.sampled_from("+++-")) == "+"}
    changed = {name: fresh[at] for name, at in zip(kept, fresh, strict=False) if draw(st.booleans())}
    renamed = {f"{name}z" if draw(st.sampled_from("+++-")) == "-" else name: row for name, row in kept.items()}
    mixed = renamed | changed | {f"{name}y": row for name, row in fresh.items() if draw(st.booleans())}
    return dict(draw(st.permutations(list(mixed.items())))) or {"одна": {"text": "пул"}}


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, dict[str, Any]]]:
    versions = [draw(memories)]
    for _ in range(draw(st.integers(1, 3))):
        versions.append(edited(draw, versions[-1]))
    return versions


def assert_same(followed: mk.Retriever, fresh: mk.Retriever) -> None:
    """One answers as the other does, in every column of hits and trace."""
    assert followed.chunks_.equals(fresh.chunks_)
    for answer, where in (("trace", None), ("search", "user_id = 'анна'")):
        a, b = (getattr(one, answer)(QUERIES, k=5, where=where, as_of=DAY) for one in (followed, fresh))
        assert a.column_names == b.column_names
        for name in a.column_names:
            if pa.types.is_floating(a[name].type):
                left, right = (np.array(table[name].to_pylist(), float) for table in (a, b))
                np.testing.assert_allclose(left, right, rtol=0, atol=1e-9)
            else:
                assert a[name].to_pylist() == b[name].to_pylist()


FITS = [
    *({"encoder": None, "analyser": analyser} for analyser in ANALYSERS),
    {"encoder": None, "lexical": "char"},
    {"encoder": None, "gram_weight": 0.4},
    *({"encoder": "hash", "centre": centre, "ann": "exact"} for centre in ("none", "corpus", "language")),
    {"encoder": "lsa"},
    {"encoder": "hash", "ann": "ivf"},
    {"encoder": "hash", "searched": ("text",), "chunk_tokens": 10, "overlap_tokens": 3, "mmr_lambda": 0.5},
]


@pytest.mark.parametrize("params", FITS, ids=lambda params: "-".join(map(str, params.values())))
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(versions=histories())
def test_a_refit_after_any_edits_equals_a_fresh_fit(
    params: dict[str, Any], versions: list[dict[str, dict[str, Any]]]
) -> None:
    params = {"chunk_tokens": 12, "overlap_tokens": 4, **params}
    search = mk.Retriever(**params)
    for version in versions:
        search.fit(corpus_of(version))
        assert_same(search, mk.Retriever(**params).fit(corpus_of(version)))
