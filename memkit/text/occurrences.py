"""How often each term occurs in each of many texts, counted in arrays: the terms of a distinct word are looked up once.

A text is cut into pieces between blanks, a distinct piece into words and a distinct word into terms, so that most of
what a corpus says is counted as numbers.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.schemas import Ints
from memkit.text.analyse import GRAM_SIZES, SIMPLE, Analyser, terms_by

Texts: TypeAlias = Sequence[str] | Any
"""Strings, or an Arrow array of them."""

Respelling: TypeAlias = Callable[[str], str]
"""What is done to a piece of a text between blanks; it may put blanks in, and must not depend on other pieces."""

_BLOCK, _PIECES = 4096, 65_536
"""Texts, and distinct pieces or words, that are cut at once: all take memory, and a statement its six milliseconds."""
_FEW_TERMS = 1_000_000
"""So many occurrences are counted by sorting: importing SciPy's matrices takes longer than that."""
_AT_ONCE = 1_000_000
"""So many occurrences of terms are counted by one product."""


class Occurrences(NamedTuple):
    """The rows that have each term.

    Attributes
    ----------
    terms : list of str
        In order.
    offsets : ndarray of shape (n_terms + 1,), int64
        The start of each term's rows.
    rows : ndarray of int32
        Ascending within a term.
    counts : ndarray of unsigned integers
        How often each row has the term.
    """

    terms: list[str]
    offsets: np.ndarray
    rows: np.ndarray
    counts: np.ndarray


def counted(texts: Any, analyzer: str, respelled: Respelling | None = None) -> Occurrences:
    """The occurrences of terms in an Arrow array of texts.

    `respelled` changes each piece of a text between blanks before it is cut into words.

    >>> found = counted(pa.array(["чай, чай", "мёд"]), "auto")
    >>> found.terms, found.offsets.tolist(), found.rows.tolist(), found.counts.tolist()
    (['мед', 'ча'], [0, 1, 2], [1, 0], [1, 2])
    """
    if not len(texts):
        return Occurrences([], np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8))
    pieces, spelled, terms = _pieces_and_terms(texts, analyzer, respelled)
    # Pieces by row times terms by piece: each distinct piece was cut and stemmed once, and no string is sorted.
    if np.diff(spelled.starts)[pieces.numbers].sum() > _FEW_TERMS:
        return Occurrences(terms, *_multiplied(pieces, spelled, len(terms)))
    found = pieces.through(spelled)
    row = np.repeat(np.arange(len(texts)), np.diff(found.starts))
    keys = np.sort(found.numbers.astype(np.int64) * len(texts) + row)
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    numbers, rows = np.divmod(keys[first], len(texts))
    offsets, counts = np.searchsorted(numbers, np.arange(len(terms) + 1)), np.diff(first, append=len(keys))
    return Occurrences(terms, offsets, rows.astype(np.int32), small(counts))


@dataclass(frozen=True)
class _Numbers:
    """The numbers of the strings of many lists, end to end, and where each list starts, with the end of the last."""

    starts: np.ndarray
    numbers: np.ndarray

    @classmethod
    def counted(cls, blocks: Iterable[list[list[str]]], known: Mapping[str, int]) -> Self:
        """Those of `blocks` of lists; `known` numbers a new string when it is asked for it."""
        sizes, numbers = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for block in blocks:
            sizes.append(np.fromiter(map(len, block), np.int64, len(block)))
            each = itertools.chain.from_iterable(block)
            numbers.append(np.fromiter(map(known.__getitem__, each), np.int32, int(sizes[-1].sum())))
        return cls(np.cumsum(np.concatenate(sizes)), np.concatenate(numbers))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def through(self, other: Self) -> Self:
        """Each number replaced by the list that `other` has for it."""
        starts, sizes = other.starts[self.numbers], np.diff(other.starts)[self.numbers]
        ends = np.append(0, np.cumsum(sizes))
        return type(self)(ends[self.starts], other.numbers[ranges(starts, sizes)])

    def matrix(self, width: int) -> Any:
        """How often each list has each number below `width`, as a sparse matrix."""
        from scipy.sparse import csr_array

        is_small = len(self.numbers) <= np.iinfo(np.int32).max
        starts = self.starts.astype(np.int32) if is_small else self.starts  # 64 bits would spread to all products
        return csr_array((np.ones(len(self.numbers), np.float32), self.numbers, starts), (len(self), width))


def _pieces_and_terms(texts: Any, analyzer: str, respelled: Respelling | None) -> tuple[_Numbers, _Numbers, list[str]]:
    """The pieces of each text between blanks, the terms of each distinct piece, and the terms in order.

    No word reaches over a blank, so a text has the words of its pieces, and most pieces come often.
    """
    cut, words = terms_by(analyzer), _numbering()
    by_row, pieces = _pieces(texts)
    spelled = pieces if respelled is None else _respelled(pieces, respelled)
    by_piece = _Numbers.counted(map(cut.words, _blocks(spelled, _PIECES)), words)
    by_word, ordered = (_grams_by_word if analyzer == "char" else _terms_by_word)(list(words), cut)
    return by_row, by_piece.through(by_word), ordered


def _pieces(texts: Any) -> tuple[_Numbers, list[str]]:
    """The pieces of each text between blanks, as Python's ``split`` finds them but for empty ones, and each of them."""
    split = (pc.utf8_split_whitespace(block.fill_null("")) for block in _blocks(texts, _BLOCK))
    arrays = [part for block in split for part in (block.chunks if isinstance(block, pa.ChunkedArray) else [block])]
    encoded = pa.chunked_array([array.flatten() for array in arrays]).dictionary_encode().unify_dictionaries()
    sizes = np.concatenate([np.zeros(1, np.int64), *(pc.list_value_length(array).to_numpy() for array in arrays)])
    numbers = [part.indices.to_numpy() for part in encoded.chunks]
    return _Numbers(np.cumsum(sizes), np.concatenate(numbers)), encoded.chunk(0).dictionary.to_pylist()


def _respelled(pieces: list[str], respelled: Respelling) -> list[str]:
    """Each piece respelled; all of them at once, where that leaves their borders."""
    at_once = respelled("\n".join(pieces)).split("\n")
    return at_once if len(at_once) == len(pieces) else list(map(respelled, pieces))


def _terms_by_word(words: list[str], cut: Analyser) -> tuple[_Numbers, list[str]]:
    """The terms of each word, and all terms in order."""
    terms = _numbering()
    by_word = _Numbers.counted((cut.terms_at_fit(some, len(words)) for some in _blocks(words, _PIECES)), terms)
    ordered = sorted(terms)
    places = np.empty(len(ordered), np.int32)
    places[[terms[term] for term in ordered]] = np.arange(len(ordered))
    return replace(by_word, numbers=places[by_word.numbers]), ordered


def _grams_by_word(words: list[str], cut: Analyser) -> tuple[_Numbers, list[str]]:
    """As `_terms_by_word` for character n-grams; those of simple letters, which are few hundred, are cut as numbers."""
    is_plain = np.fromiter((SIMPLE.fullmatch(word) is not None for word in words), bool, len(words))
    word, gram, ordered = _plain_grams(list(itertools.compress(words, is_plain)))
    word = np.flatnonzero(is_plain)[word]
    if not is_plain.all():
        others = cut.terms_of_words(itertools.compress(words, ~is_plain))
        known = dict(zip(ordered, range(len(ordered)), strict=True))
        ordered = sorted(known.keys() | set(itertools.chain.from_iterable(others.values())))
        number = dict(zip(ordered, range(len(ordered)), strict=True))
        gram = np.fromiter((number[term] for term in known), np.int32, len(known))[gram]
        sizes = np.fromiter(map(len, others.values()), np.int64, len(others))
        terms = np.fromiter((number[term] for terms in others.values() for term in terms), np.int32, int(sizes.sum()))
        word = np.concatenate([word, np.repeat(np.flatnonzero(~is_plain), sizes)])
        gram = np.concatenate([gram, terms])
    starts = np.append(0, np.cumsum(np.bincount(word, minlength=len(words))))
    return _Numbers(starts, gram[np.argsort(word, kind="stable")]), ordered


def _plain_grams(words: list[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The n-grams of words, a blank at each end: the number of the word and of the gram of each, and all in order."""
    letters = np.frombuffer(f" {'  '.join(words)} ".encode("utf-32-le", "surrogatepass"), np.uint32)
    alphabet, numbers = np.unique(letters, return_inverse=True)
    bits, longest = len(alphabet).bit_length(), GRAM_SIZES[-1]
    lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
    starts = np.cumsum(lengths) - lengths
    word, key = [], []
    for size in GRAM_SIZES:
        counts = np.maximum(lengths - size + 1, 0)
        first, grams = ranges(starts, counts), np.zeros(counts.sum(), np.int64)
        for place in range(longest):  # a shorter gram has zeros at its end, so it comes before those that it begins
            grams <<= bits
            if place < size:
                grams += numbers[first + place] + 1
        word.append(np.repeat(np.arange(len(words)), counts))
        key.append(grams)
    known, gram = np.unique(np.concatenate(key), return_inverse=True)
    parts = (known[:, None] >> (bits * np.arange(longest)[::-1])) & ((1 << bits) - 1)
    spelled = np.append(0, alphabet).astype(np.uint32)[parts].view(f"<U{longest}").ravel().tolist()
    return np.concatenate(word), gram.astype(np.int32), spelled


def _numbering() -> defaultdict[str, int]:
    """Gives each new string the next number."""
    return defaultdict(itertools.count().__next__)


def _multiplied(pieces: _Numbers, spelled: _Numbers, n_terms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, rows and counts of the terms in the rows of `pieces`, by a product for some terms at a time."""
    often = np.bincount(pieces.numbers, minlength=len(spelled))
    occurrences = np.bincount(spelled.numbers, np.repeat(often, np.diff(spelled.starts)), n_terms)
    ends = np.searchsorted(np.cumsum(occurrences), np.arange(_AT_ONCE, occurrences.sum(), _AT_ONCE)) + 1
    bounds = np.unique([0, *ends.tolist(), n_terms]).tolist()
    by_row, by_term = pieces.matrix(len(spelled)), spelled.matrix(n_terms).tocsc()
    rows, counts = np.empty(int(occurrences.sum()), np.int32), list[np.ndarray]()  # memory counts once it is written
    sizes, filled = [np.zeros(1, np.int64)], 0
    for first, last in itertools.pairwise(bounds):
        part = (by_row @ by_term[:, first:last].tocsr()).tocsc()
        rows[filled : filled + part.nnz] = part.indices
        counts.append(small(part.data))
        sizes.append(np.diff(part.indptr))
        filled += part.nnz
    return np.cumsum(np.concatenate(sizes)), rows[:filled], np.concatenate(counts)


def _blocks(values: Any, size: int) -> Iterator[Any]:
    return (values[start : start + size] for start in range(0, len(values), size))


def small(counts: np.ndarray) -> np.ndarray:
    """`counts` in the smallest integer type, which is one byte in most corpora."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))), copy=False)


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """The numbers from each start on, as many as its size, end to end.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    numbers: Ints = np.arange(int(sizes.sum())) - np.repeat(ends - sizes - starts, sizes)
    return numbers


def strings(texts: Texts) -> Any:
    return texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(texts, pa.string())
