"""How often each term occurs in each of many texts, counted in arrays: the terms of a distinct word are looked up once.

A text is cut into pieces between blanks, a distinct piece into words and a distinct word into terms, so that most of
what a corpus says is counted as numbers.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.schemas import Ints
from memkit.text.analyse import GRAM_SIZES, SIMPLE, Analyser, normal, terms_by

Texts: TypeAlias = Sequence[str] | Any
"""Strings, or an Arrow array of them."""

Respelling: TypeAlias = Callable[[str], str]
"""What is done to a piece of a text between blanks; it may put blanks in, but no line ends, and must not depend on
other pieces.
"""

_BLOCK, _PIECES = 4096, 65_536
"""Texts, and distinct pieces or words, that are cut at once: all take memory, and a statement its six milliseconds."""
_FEW_TERMS = 1_000_000
"""So many occurrences are counted by sorting: importing SciPy's matrices takes longer than that."""
_AT_ONCE = 250_000
"""So many occurrences of terms are counted by one product."""
_AROUND = ".,;:!?…()[]{}\"'`«»„“”‘’*#/|–—-"
"""Signs around words that are part of none: a third of the distinct pieces differ in them alone."""
_WORD_OR_LINE_END = re.compile(r"\w+|\n")


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
    pieces, each = _pieces(texts)
    spelled, terms = _terms_by_piece(each if respelled is None else _respelled(each, respelled), terms_by(analyzer))
    del each  # strings that take as much memory as the counts
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

    @classmethod
    def sorted(cls, rows: np.ndarray, numbers: np.ndarray, n_rows: int) -> Self:
        """The `numbers` of each of so many rows, in their order."""
        starts = np.append(0, np.cumsum(np.bincount(rows, minlength=n_rows)))
        return cls(starts, numbers[np.argsort(rows, kind="stable")])

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


def _pieces(texts: Any) -> tuple[_Numbers, list[str]]:
    """The pieces of each text between blanks, without signs around them, and each of them."""
    sizes, encoded = [np.zeros(1, np.int64)], list[pa.Array]()
    for block in _blocks(texts, _BLOCK):
        split = pc.ascii_split_whitespace(block.fill_null(""))
        for part in split.chunks if isinstance(split, pa.ChunkedArray) else [split]:
            sizes.append(pc.list_value_length(part).to_numpy())
            encoded.append(part.flatten().dictionary_encode())
    whole = pa.chunked_array(encoded).unify_dictionaries()
    bare = pc.utf8_trim(whole.chunk(0).dictionary, _AROUND).dictionary_encode()
    number = bare.indices.to_numpy()
    numbers = [number[part.indices.to_numpy()] for part in whole.chunks]
    return _Numbers(np.cumsum(np.concatenate(sizes)), np.concatenate(numbers)), bare.dictionary.to_pylist()


def _respelled(pieces: list[str], respelled: Respelling) -> list[str]:
    """Each piece respelled; all of them at once, where that leaves their borders."""
    at_once = respelled("\n".join(pieces)).split("\n")
    return at_once if len(at_once) == len(pieces) else list(map(respelled, pieces))


def _terms_by_piece(pieces: list[str], cut: Analyser) -> tuple[_Numbers, list[str]]:
    """The terms of each piece, and all terms in order: no word reaches over a blank, and most pieces come often."""
    by_piece, words = _words_by_piece(pieces, cut)
    by_word, terms = (_grams_by_word if cut.analyzer == "char" else _terms_by_word)(words, cut)
    return by_piece.through(by_word), terms


def _words_by_piece(pieces: list[str], cut: Analyser) -> tuple[_Numbers, list[str]]:
    """The words of each piece, and each of them; those of simple letters are found in one pass over many pieces."""
    known = _numbering()
    rows, numbers, end = list[np.ndarray](), list[np.ndarray](), known["\n"]
    for start, block in zip(range(0, len(pieces), _PIECES), _blocks(pieces, _PIECES), strict=True):
        is_simple = np.fromiter((SIMPLE.fullmatch(piece) is not None for piece in block), bool, len(block))
        found = _WORD_OR_LINE_END.findall(normal("\n".join(itertools.compress(block, is_simple))))
        number = np.fromiter(map(known.__getitem__, found), np.int32, len(found))
        is_end = number == end
        others = _Numbers.counted([cut.words([*itertools.compress(block, ~is_simple)])], known)
        rows.append(start + np.flatnonzero(is_simple)[np.cumsum(is_end)[~is_end]])
        rows.append(start + np.repeat(np.flatnonzero(~is_simple), np.diff(others.starts)))
        numbers += [number[~is_end], others.numbers]
    return _Numbers.sorted(np.concatenate(rows), np.concatenate(numbers) - 1, len(pieces)), list(known)[1:]


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
    return _Numbers.sorted(word, gram, len(words)), ordered


def _plain_grams(words: list[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The n-grams of words, a blank at each end: the number of the word and of the gram of each, and all in order."""
    letters = np.frombuffer(f" {'  '.join(words)} ".encode("utf-32-le", "surrogatepass"), np.uint32)
    alphabet, numbers = np.unique(letters, return_inverse=True)
    numbers = numbers.astype(np.int32) + np.int32(1)
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
                grams += numbers[first + place]
        word.append(np.repeat(np.arange(len(words), dtype=np.int32), counts))
        key.append(pa.array(grams))
    encoded = pa.chunked_array(key).dictionary_encode().combine_chunks()
    known, gram = np.unique(encoded.dictionary.to_numpy(), return_inverse=True)
    parts = (known[:, None] >> (bits * np.arange(longest)[::-1])) & ((1 << bits) - 1)
    spelled = np.append(0, alphabet).astype(np.uint32)[parts].view(f"<U{longest}").ravel().tolist()
    return np.concatenate(word), gram.astype(np.int32)[encoded.indices.to_numpy()], spelled


def _numbering() -> defaultdict[str, int]:
    """Gives each new string the next number."""
    return defaultdict(itertools.count().__next__)


def _multiplied(pieces: _Numbers, spelled: _Numbers, n_terms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, rows and counts of the terms in the rows of `pieces`, by a product for some terms at a time."""
    often = np.bincount(pieces.numbers, minlength=len(spelled))
    occurrences = np.bincount(spelled.numbers, np.repeat(often, np.diff(spelled.starts)), n_terms)
    ends = np.searchsorted(np.cumsum(occurrences), np.arange(_AT_ONCE, occurrences.sum(), _AT_ONCE)) + 1
    bounds = np.unique([0, *ends.tolist(), n_terms]).tolist()
    by_piece, by_term = pieces.matrix(len(spelled)).T.tocsr(), spelled.matrix(n_terms).T.tocsr()
    rows = np.empty(int(occurrences.sum()), np.int32)  # memory counts once it is written
    counts, sizes, filled = np.empty(len(rows), np.uint8), [np.zeros(1, np.int64)], 0
    for first, last in itertools.pairwise(bounds):
        part = (by_term[first:last] @ by_piece).tocsc().tocsr()  # there and back, which sorts the rows of each term
        end, some = filled + part.nnz, small(part.data)
        counts = counts.astype(np.result_type(counts, some), copy=False)
        rows[filled:end], counts[filled:end] = part.indices, some
        sizes.append(np.diff(part.indptr))
        filled = end
    return np.cumsum(np.concatenate(sizes)), rows[:filled], counts[:filled]


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
