"""Whatever was kept of an earlier run, the answers are those of a fresh fit, words in other letters included."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.cli.common import fitted
from memkit.index.cache import shared_cache
from memkit.index.encode import forget_encoder, register_encoder
from memkit.index.encoders.base import Calibration

DAY = "2026-03-01"
SAME = {"пул": "pool", "чай": "tea"}
TEXTS = {
    "a.md": "# Deploy\n\nPython runs on the stage\n\n# Pool\n\nThe pool holds ten\n",
    "b.md": "# Вечер\n\nВыкатили Python на стенд\n\n# Кухня\n\nзелёный чай остыл\n",
    "c.md": "# Tea\n\ngreen tea is cold, Warsaw too\n",
}
QUERIES = ["питон", "пул на стенде", "tea", "варшава", "pool", "python на стенд"]


class Words:
    """A text is the mean of its words, and a word of `SAME` is the other one; nothing else is alike."""

    dim = 64
    fingerprint = "words-of-two-languages"
    calibration = Calibration(alike=0.9)
    n_encoded = 0

    def encode(self, texts: list[str]) -> np.ndarray:
        type(self).n_encoded += len(texts)
        return np.array([sum(map(_vector, re.findall(r"\w+", text.lower())), np.zeros(self.dim)) for text in texts])

    encode_query = encode_document = encode

    def get_config(self) -> dict[str, Any]:
        return {}


def _vector(word: str) -> np.ndarray:
    seed = hashlib.md5(SAME.get(word, word).encode()).digest()[:4]  # no secret
    return np.random.default_rng(int.from_bytes(seed)).normal(size=Words.dim)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """process(): from here on nothing is known but what lies in the folder of the cache."""
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "cache"))
    register_encoder("words", Words)
    shared_cache.cache_clear()
    yield shared_cache.cache_clear
    forget_encoder("words")
    shared_cache.cache_clear()


def _fresh(root: Path, saved: Path) -> mk.Retriever:
    return mk.Retriever(encoder="words").fit(mk.read(root))


def _at_the_command_line(root: Path, saved: Path) -> mk.Retriever:
    return fitted(mk.Retriever(encoder="words"), mk.read(root, cache="fit"))


def _saved(root: Path, saved: Path) -> mk.Retriever:
    if not saved.exists():
        _fresh(root, saved).save(saved)
    return mk.Retriever.load(saved, mk.read(root))


def _with_a_lake(root: Path, saved: Path) -> mk.Retriever:
    if not saved.exists():
        _fresh(root, saved).corpus_.save(saved)
    return mk.Retriever(encoder="words").fit(mk.open(saved, trust=True))


def _refreshed(root: Path, saved: Path) -> mk.Retriever:
    return _fresh(root, saved).refresh()


@pytest.mark.quick
@pytest.mark.parametrize("state", [_fresh, _at_the_command_line, _saved, _with_a_lake, _refreshed])
def test_what_was_kept_answers_as_a_fresh_fit(
    process: Callable[[], None], tmp_path: Path, state: Callable[[Path, Path], mk.Retriever]
) -> None:
    root = mk.testing.write_files(tmp_path / "root", {f"memory/{name}": text for name, text in TEXTS.items()})
    with pytest.MonkeyPatch.context() as without:
        without.setenv("MEMKIT_CACHE", "off")
        shared_cache.cache_clear()
        expected = _traced(_fresh(root, tmp_path / "none"))
    by_sound = [row for row in expected.to_pylist() if (row["query_id"], row["rank"]) == ("0", 1)]
    assert by_sound[0]["bm25"] is None
    assert by_sound[0]["bm25_norm"] > 0.1
    for _ in range(3):
        process()
        assert _traced(state(root, tmp_path / "kept")).equals(expected)


def _traced(search: mk.Retriever) -> pa.Table:
    return search.trace(QUERIES, as_of=DAY)
