"""Pairs of texts by substring or by trigrams, within bounded memory.

Both finders rest on the sets of character trigrams. A text that lies within another has all its trigrams there, so
the postings of its rarest one hold every candidate. Two sets of cosine t share one of their rarest trigrams, so only
those are joined (prefix filtering: Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma, Srikant 2007), and candidates are
counted out. Where a scope is so large that this join would not end soon, MinHash (Broder 1997) names the candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.index.pairs import Pairs
from memkit.progress import bar
from memkit.schemas import Ints

_SIZE = 3
_BATCH_CHARS = 20_000_000
_BATCH_PRODUCTS = 20_000_000
_BATCH_PAIRS = 200_000
_SIGNATURE = 16  # 64-bit words
_EXACT_PRODUCTS = 100_000_000
_BANDS, _BAND_ROWS = 24, 5
# Guards the borders of integer counts against the last digit of a product of floats.
_MARGIN = 1e-9
_UNSPACED = "\u2e80"  # from here on East Asian writing
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Grams:
    """Trigrams of texts: `matrix` is boolean (texts, trigrams), with the rarest trigrams of a scope first."""

    matrix: Any
    sizes: Ints

    @cached_property
    def signatures(self) -> NDArray[np.uint64]:
        """Shape (words, texts): each trigram flips one bit, so that two differ in no more bits than their sets do."""
        words, step = np.empty((_SIGNATURE, len(self.sizes)), dtype=np.uint64), 8192
        for start in range(0, len(self.sizes), step):
            sizes, ends = self.sizes[start : start + step], self.matrix.indptr[start : start + step + 1]
            bit = _mix(self.matrix.indices[ends[0] : ends[-1]].astype(np.uint64)) % np.uint64(64 * _SIGNATURE)
            cell = np.repeat(np.arange(len(sizes)) * (64 * _SIGNATURE), sizes) + bit.astype(np.int64)
            odd = (np.bincount(cell, minlength=len(sizes) * 64 * _SIGNATURE) & 1).astype(np.uint8)
            words[:, start : start + step] = np.packbits(odd).view(np.uint64).reshape(-1, _SIGNATURE).T
        return words


def normalise(texts: Sequence[str]) -> list[str]:
    """Case-folded texts, with runs of blanks collapsed into one.

    >>> normalise([" Любит\\n ЧАЙ "])
    ['любит чай']
    """
    return [" ".join(text.casefold().split()) for text in texts]


def batches(lengths: Ints, scopes: Ints) -> Iterator[Ints]:
    """Rows in batches of whole scopes, so that memory depends on the largest scope and not on the corpus."""
    order = np.argsort(scopes, kind="stable")
    if not len(order):
        return
    batch = np.cumsum(lengths[order]) // _BATCH_CHARS
    first = np.r_[True, np.diff(scopes[order]) != 0]
    # A scope belongs to the batch in which it starts.
    batch = batch[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    yield from np.split(order, np.flatnonzero(np.diff(batch)) + 1)


def trigrams(texts: Sequence[str], scopes: Ints) -> Grams:
    """The sets of trigrams; texts of two scopes share none."""
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    whole = np.flatnonzero(owner[: -_SIZE + 1] == owner[_SIZE - 1 :]) if len(owner) >= _SIZE else np.empty(0, int)
    # 21 bits hold a code point, so three of them are an exact key.
    return sets_of(owner[whole], letters[whole] | letters[whole + 1] << 21 | letters[whole + 2] << 42, scopes)


def word_sets(texts: Sequence[Collection[str]], scopes: Ints) -> Grams:
    """The sets of words instead, for texts that are cut into words already; texts of two scopes share none."""
    sizes = np.array([len(words) for words in texts], dtype=np.int64)
    words = pa.array([word for of_text in texts for word in of_text], pa.string()).dictionary_encode()
    return sets_of(np.repeat(np.arange(len(texts)), sizes), words.indices.to_numpy().astype(np.int64), scopes)


def sets_of(owner: Ints, keys: Ints, scopes: Ints) -> Grams:
    """The sets of the `keys` of each owner."""
    from scipy import sparse

    gram = _numbered(_numbered(keys) * (int(scopes.max(initial=0)) + 1) + scopes[owner])
    width = int(gram.max(initial=-1)) + 1
    cells = np.sort(owner * max(1, width) + gram)  # np.unique hashes, which takes ten times as long here
    cells = cells[np.r_[True, cells[1:] != cells[:-1]][: len(cells)]]
    rows, gram = cells // max(1, width), cells % max(1, width)
    rank = np.empty(width, dtype=np.int64)
    rank[np.argsort(np.bincount(gram, minlength=width), kind="stable")] = np.arange(width)
    matrix = sparse.csr_matrix((np.ones(len(rows), dtype=np.int32), (rows, rank[gram])), shape=(len(scopes), width))
    matrix.sort_indices()
    return Grams(matrix, np.diff(matrix.indptr).astype(np.int64))


def _numbered(values: Ints) -> Ints:
    """A number for each value, in the order of first occurrence."""
    numbers: Ints = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers


def substring_pairs(texts: Sequence[str], scopes: Ints, grams: Grams, words: bool = False) -> Pairs:
    """Pairs (part, whole) within a scope; `words` takes whole words only, and an empty text is part of nothing."""
    met = ((part, whole) for part, whole in (*_by_rarest(grams), *_short_parts(texts, scopes)) if part != whole)
    pairs = [(part, whole) for part, whole in met if texts[part] in texts[whole]]
    if words:
        pairs = [(part, whole) for part, whole in pairs if _stands_alone(texts[part], texts[whole])]
    part = np.array([pair[0] for pair in pairs], dtype=np.int64)
    return part, np.array([pair[1] for pair in pairs], dtype=np.int64), np.ones(len(part))


def _by_rarest(grams: Grams) -> Iterator[tuple[int, int]]:
    # Whatever contains the part has all of its trigrams, so it stands in the list of each of them: the list of the
    # rarest is the shortest, and only its texts are compared. Trigrams are numbered by rarity, the rarest first.
    columns = grams.matrix.tocsc()
    parts = np.flatnonzero(grams.sizes)
    rarest = grams.matrix.indices[grams.matrix.indptr[parts]]
    shared = np.diff(columns.indptr)[rarest] > 1
    parts, rarest = parts[shared], rarest[shared]
    for part, gram in zip(parts.tolist(), rarest.tolist(), strict=True):
        postings = columns.indices[columns.indptr[gram] : columns.indptr[gram + 1]]
        yield from ((part, whole) for whole in postings[grams.sizes[postings] >= grams.sizes[part]].tolist())


def _short_parts(texts: Sequence[str], scopes: Ints) -> Iterator[tuple[int, int]]:
    for part, text in enumerate(texts):
        if 0 < len(text) < _SIZE:
            near = np.flatnonzero(scopes == scopes[part]).tolist()
            yield from ((part, whole) for whole in near if text in texts[whole])


def _stands_alone(part: str, whole: str) -> bool:
    """Whether `part` occurs in `whole` at word borders."""
    start = whole.find(part)
    while start >= 0:
        end = start + len(part)
        if not (_joined(whole[start - 1 : start], part[0]) or _joined(part[-1], whole[end : end + 1])):
            return True
        start = whole.find(part, start + 1)
    return False


def _joined(left: str, right: str) -> bool:
    """Whether two adjacent characters belong to one word; scripts without blanks between words have no borders."""
    return all((character.isalnum() or character == "_") and character < _UNSPACED for character in (left, right))


def lexical_pairs(grams: Grams, floor: float) -> Pairs:
    """Pairs whose sets of trigrams have a cosine, shared / sqrt(size · size), of at least `floor`."""
    parts = [(_NONE, _NONE, np.empty(0)), *(_counted(grams, i, j, floor) for i, j in _candidates(grams, floor))]
    i, j, cosine = (np.concatenate(part) for part in zip(*parts, strict=True))
    # Texts of equal size meet from both sides.
    first = np.unique(np.minimum(i, j) * max(1, len(grams.sizes)) + np.maximum(i, j), return_index=True)[1]
    return np.minimum(i, j)[first], np.maximum(i, j)[first], cosine[first]


def _candidates(grams: Grams, floor: float) -> Iterator[tuple[Ints, Ints]]:
    # Texts near enough must share a trigram already among their rarest ones (prefix filtering, Bayardo et al. 2007).
    # For a cosine of `floor` the longer text shares at least floor² of its trigrams and the shorter at least `floor`
    # of its own. If no shared one were among the first of a text, too few would be left after them. So the product of
    # two sparse matrices that hold only these first ones finds every pair, and leaves out most of the rest unseen.
    longer = _prefix(grams, floor * floor)
    shorter = _prefix(grams, floor)
    postings = np.asarray(shorter.sum(axis=0)).ravel()
    work = np.cumsum(longer @ postings)
    if len(work) and work[-1] > _EXACT_PRODUCTS:
        yield from _hashed(grams)
        return
    parts = np.split(np.arange(len(work)), np.flatnonzero(np.diff(work // _BATCH_PRODUCTS)) + 1)
    for rows in bar("near texts", parts, leave=False):
        met = (longer[rows] @ shorter.T).tocoo()
        i, j = rows[met.row], met.col.astype(np.int64)
        size_i, size_j = grams.sizes[i], grams.sizes[j]
        fits = (i != j) & (size_j <= size_i) & (size_j >= floor * floor * size_i - _MARGIN)
        yield i[fits], j[fits]


def _hashed(grams: Grams) -> Iterator[tuple[Ints, Ints]]:
    """MinHash: texts that agree in the least hashes of a band; at cosine 0.85 a pair is missed once in 400."""
    full = np.flatnonzero(grams.sizes)
    starts = grams.matrix.indptr[:-1][full]
    mixed = _mix(grams.matrix.indices.astype(np.uint64))
    salts = _mix(np.arange(_BANDS * _BAND_ROWS, dtype=np.uint64)) | np.uint64(1)
    for band in bar("near texts", salts.reshape(_BANDS, _BAND_ROWS), leave=False):
        key = np.zeros(len(full), dtype=np.uint64)
        for salt in band:
            key = _mix(key ^ np.minimum.reduceat((mixed * salt) >> np.uint64(32), starts))
        yield from _equal_keys(full, key)


def _equal_keys(rows: Ints, key: NDArray[np.uint64]) -> Iterator[tuple[Ints, Ints]]:
    """All pairs of rows of one key, a step at a time, so that memory stays that of the rows."""
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    for step in range(1, len(rows)):
        same = key[step:] == key[:-step]
        if not same.any():
            return
        yield rows[:-step][same], rows[step:][same]


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _prefix(grams: Grams, ratio: float) -> Any:
    """The rarest trigrams of each text, as many as leave fewer than `ratio` of them out."""
    matrix = grams.matrix
    kept = np.where(grams.sizes > 0, grams.sizes - np.ceil(ratio * grams.sizes - _MARGIN).astype(np.int64) + 1, 0)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], grams.sizes)
    chosen = matrix.copy()
    chosen.data = (place < np.repeat(kept, grams.sizes)).astype(np.int32)
    chosen.eliminate_zeros()
    return chosen


def _counted(grams: Grams, i: Ints, j: Ints, floor: float) -> Pairs:
    """The pairs among these whose cosine is at least `floor`."""
    if not len(i):
        return i, j, np.empty(0)
    # Signatures bound what two sets share from above (Sandes, Teodoro, Melo 2020); most candidates end at the first.
    apart = np.zeros(len(i), dtype=np.int64)
    for words in np.split(grams.signatures, (2, 6)):
        for word in words:
            apart += np.bitwise_count(word[i] ^ word[j])
        size_i, size_j = grams.sizes[i], grams.sizes[j]
        likely = (size_i + size_j - apart) // 2 >= floor * np.sqrt(size_i * size_j) - _MARGIN
        i, j, apart = i[likely], j[likely], apart[likely]
    shared = np.empty(len(i))
    for start in range(0, len(i), _BATCH_PAIRS):
        some = slice(start, start + _BATCH_PAIRS)
        shared[some] = np.asarray(grams.matrix[i[some]].multiply(grams.matrix[j[some]]).sum(axis=1)).ravel()
    cosine = np.round(shared / np.sqrt(grams.sizes[i] * grams.sizes[j]), 6)
    near = cosine >= floor
    return i[near], j[near], cosine[near]
