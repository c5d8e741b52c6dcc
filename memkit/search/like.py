"""A memory as a query: its vectors and its strongest words, and what its hits leave out.

`Retriever.like` asks with it through the same arms and stages as any other question.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Unpack

import numpy as np
import pyarrow.compute as pc

from memkit.base.duck import check_unicode
from memkit.base.params import Moment, check_value
from memkit.errors import NotFoundError, count_of, did_you_mean, some_of
from memkit.index.encoders.base import Vectors, unit_rows
from memkit.schemas import Ints, Mask
from memkit.search.ask import Ask, Asked, Queries, Settings, check_user, checked_scope
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex
from memkit.search.question import Question, answered
from memkit.search.steps.collapse import folding
from memkit.search.steps.scope import visible_memories
from memkit.text.analyse import terms_by
from memkit.text.letters import FUNCTION_WORDS
from memkit.text.secrets import mask, without_secrets

STRONGEST = 12
"""So many words of a memory are searched, those of most weight by tf-idf."""
_SATURATION = 1.2
"""A word that stands again counts less, as in BM25."""
_WORD = re.compile(r"(?<!\w)[\d_]*[^\W\d_]\w*")


def ask_like(index: MemoryIndex, settings: Settings, memory_id: str, **asked: Unpack[Asked]) -> Question:
    """The question whose query is a memory; parameters and errors are those of `Retriever.like`."""
    user_id = asked.get("user_id")
    check_value("Retriever.like", "memory_id", memory_id, "str")
    check_value("Retriever.like", "k", asked.get("k", 10), "int", low=1)
    check_unicode(memory_id)
    check_user(user_id, "Retriever.like")
    checked_scope(asked.get("scope"), "Retriever.like")
    moment = Moment.from_as_of(asked.get("as_of"))
    visible = visible_memories(index, settings, moment, user_id)
    memory = _memory_row(index, memory_id, visible)
    rows = np.flatnonzero(index.rows.memory == memory)
    vectors = _mean_vector(index, rows) if "vector" in index.weights(settings) else None
    words = strongest_words(index, rows, visible)
    without = _versions(index, memory, visible)
    while True:
        query = Queries((memory_id,), (" ".join(words),), (moment,), vectors, without)
        question = answered(index, Ask.checked(query, settings, **asked))
        if not (alike := _near_duplicates(question, rows)):
            return replace(question, note=" ".join(filter(None, (_note(memory_id, words, without), question.note))))
        without = (*without, *alike)


def _memory_row(index: MemoryIndex, memory_id: str, visible: Mask) -> int:
    place = pc.index(index.memories["memory_id"], memory_id).as_py()
    if place >= 0 and visible[place]:
        return int(place)
    known = take_rows(index.memories["memory_id"], np.flatnonzero(visible)).to_pylist()
    hint = did_you_mean(memory_id, known)
    expected = f"expected the memory_id of one of {count_of(len(known), 'memory')}"
    raise NotFoundError(mask(f"Retriever.like: {expected}. Got {memory_id!r:.200}.{hint}"))


def _mean_vector(index: MemoryIndex, rows: Ints) -> Vectors:
    """The mean of the vectors of a memory's chunks, shape (1, dim); zeros if it has none."""
    vectors: Vectors = index.arms["vector"].vectors_ if "vector" in index.arms else np.zeros((0, 1), np.float32)
    return unit_rows(vectors[rows].sum(axis=0, keepdims=True))


def strongest_words(index: MemoryIndex, rows: Ints, visible: Mask) -> list[str]:
    """The `STRONGEST` words of the chunks `rows`, in the order of their text.

    The weight of a word is tf / (tf + 1.2) x log(1 + n / df), where n counts other chunks of `visible` memories, and
    df those of them that have its term. A word with a df of 0 finds nothing and is left out, as are stop words and
    numbers. Without an arm of words df is not known, and tf decides alone.
    """
    analyzer = index.settings.analyzer if index.settings.analyzer != "char" else "auto"
    text = without_secrets("\n".join(take_rows(index.own_texts, rows).to_pylist())).lower()
    words = [word for word in _WORD.findall(text) if word.replace("ё", "е") not in FUNCTION_WORDS]
    terms = terms_by(analyzer).terms(words)
    counts = Counter(term for of_word in terms for term in dict.fromkeys(of_word))
    spelled: dict[str, str] = {}
    for word, of_word in zip(words, terms, strict=True):
        is_run = len(of_word) > 1 and "_" not in word  # of a script without blanks: its terms are the words
        for term in of_word if is_run else of_word[:1]:
            spelled.setdefault(term, term if is_run else word)
    others = visible[index.rows.memory]
    others[rows] = False
    sight = index.sight(others)
    n = int(others.sum())
    weights = {}
    for term in spelled:
        frequency = sight.count(term) if sight.parts and analyzer == index.settings.analyzer else 1
        if frequency:
            weights[term] = counts[term] / (counts[term] + _SATURATION) * np.log1p(n / frequency)
    strongest = sorted(weights, key=lambda term: -weights[term])[:STRONGEST]  # stable: ties in the order of the text
    return [spelled[term] for term in spelled if term in strongest]


def _versions(index: MemoryIndex, memory: int, visible: Mask) -> tuple[str, ...]:
    """The memory itself, and those of the memories `visible` that it supersedes."""
    to = index.rows.successor
    older = np.empty(0, np.int64) if to is None else np.flatnonzero((to == memory) & visible)
    return _ids(index, np.append(memory, older))


def _ids(index: MemoryIndex, memory: Ints) -> tuple[str, ...]:
    return tuple(take_rows(index.memories["memory_id"], memory.astype(np.int64)).to_pylist())


def _near_duplicates(question: Question, rows: Ints) -> tuple[str, ...]:
    """Ids of the memories in reach with one of the chunks `rows` word for word, or a near-duplicate as a candidate."""
    index, allowed, limit = question.index, question.scope.allowed, folding(question.settings)
    is_copy = np.isin(index.rows.twin, index.rows.twin[rows])
    alike = np.flatnonzero(is_copy if allowed is None else is_copy & allowed).tolist()
    if limit is not None:
        candidates = np.setdiff1d(question.retrieved.row, alike)
        pairs = np.stack([np.repeat(rows, len(candidates)), np.tile(candidates, len(rows))], axis=1)
        pairs = pairs[index.repeats.likely(pairs, limit)]
        alike += pairs[index.repeats.near(pairs, limit)[0] >= 0, 1].tolist()
    return _ids(index, np.unique(index.rows.memory[alike]))


def _note(memory_id: str, words: list[str], without: tuple[str, ...]) -> str:
    others = [repr(memory) for memory in without if memory != memory_id]
    beside = f", and its near-duplicates or old versions {some_of(others)}"
    how = f"by its meaning and its words {', '.join(words)}" if words else "by its meaning"
    return f"Like {memory_id!r}, {how}; left out: itself{beside if others else ''}."
