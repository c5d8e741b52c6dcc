"""Pairs of texts by substring or by trigrams, within bounded memory.

Both finders rest on the sets of character trigrams. A text that lies within another has all its trigrams there, so
the postings of its rarest one hold every candidate. Two sets of cosine t share one of their rarest trigrams, so only
those are joined (prefix filtering: Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma, Srikant 2007), and candidates are
counted out. Where a scope is so large that this join would not end soon, MinHash (Broder 1997) names the candidates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.duck import rows_of
from memkit.index.pairs import Pairs
from memkit.policy.dedup.families import Families, mix
from memkit.progress import bar
from memkit.schemas import Ints

_SIZE = 3
_STEP = 2048
"""Texts whose trigrams are listed at once."""
_BATCH_CHARS = 20_000_000
_BATCH_PRODUCTS = 1_000_000
_BATCH_PAIRS = 20_000
_BATCH_PARTS = 100_000
_SIGNATURE = 16  # 64-bit words
_EXACT_PRODUCTS = 100_000_000
_BANDS, _BAND_ROWS = 24, 5
# Guards the borders of integer counts against the last digit of a product of floats.
_MARGIN = 1e-9
_UNIT = re.compile(r"[^\W\u2e80-\U0010ffff]+|[\s\S]")
"""A word, or another character; from U+2E80 on, in East Asian writing, each character has borders."""
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Grams:
    """Trigrams of texts: `matrix` is boolean (texts, trigrams), with the rarest trigrams of a scope first."""

    matrix: Any
    sizes: Ints

    @cached_property
    def signatures(self) -> NDArray[np.uint64]:
        """Shape (words, texts): each trigram flips one bit, so that two differ in no more bits than their sets do."""
        words, step = np.empty((_SIGNATURE, len(self.sizes)), dtype=np.uint64), 1024
        for start in range(0, len(self.sizes), step):
            sizes, ends = self.sizes[start : start + step], self.matrix.indptr[start : start + step + 1]
            bit = mix(self.matrix.indices[ends[0] : ends[-1]].astype(np.uint64)) % np.uint64(64 * _SIGNATURE)
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
    owners, keys = [np.empty(0, np.int32)], [pa.array([], pa.int64())]
    for start in range(0, len(texts), _STEP):
        some = texts[start : start + _STEP]
        letters = np.frombuffer("".join(some).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
        owner = np.repeat(np.arange(start, start + len(some), dtype=np.int32), [len(text) for text in some])
        whole = np.flatnonzero(owner[: -_SIZE + 1] == owner[_SIZE - 1 :]) if len(owner) >= _SIZE else _NONE
        # 21 bits hold a code point, so three of them are an exact key.
        keys.append(pa.array(letters[whole] | letters[whole + 1] << 21 | letters[whole + 2] << 42))
        owners.append(owner[whole])
    encoded = pa.chunked_array(keys).dictionary_encode().unify_dictionaries()
    del keys
    numbers = np.concatenate([np.empty(0, np.int32), *(part.indices.to_numpy() for part in encoded.chunks)])
    return sets_of(np.concatenate(owners), numbers, scopes)


def word_sets(texts: Sequence[Collection[str]], scopes: Ints) -> Grams:
    """The sets of words instead, for texts that are cut into words already; texts of two scopes share none."""
    sizes = np.array([len(words) for words in texts], dtype=np.int64)
    words = pa.array([word for of_text in texts for word in of_text], pa.string()).dictionary_encode()
    return sets_of(np.repeat(np.arange(len(texts)), sizes), words.indices.to_numpy(), scopes)


def sets_of(owner: NDArray[Any], keys: NDArray[Any], scopes: Ints) -> Grams:
    """The sets of the `keys`, numbers from 0, of each owner."""
    from scipy import sparse

    # All arrays are as long as the texts together, so each is as narrow as it can be.
    several = int(scopes.max(initial=0)) + 1
    gram = _numbered(keys.astype(np.int64) * several + scopes[owner]) if several > 1 else keys
    width = int(gram.max(initial=-1)) + 1
    sizes, sets = np.zeros(len(scopes), np.int64), [np.empty(0, np.int32)]
    ends = np.searchsorted(owner, np.arange(_STEP, len(scopes) + _STEP, _STEP))
    for own, some in zip(np.split(owner, ends), np.split(gram, ends), strict=True):
        cells = np.sort(own.astype(np.int64) * max(1, width) + some)  # np.unique hashes, ten times as long here
        cells = cells[np.append(True, cells[1:] != cells[:-1])[: len(cells)]]
        sets.append((cells % max(1, width)).astype(np.int32))
        sizes += np.bincount(cells // max(1, width), minlength=len(scopes))
    gram = np.concatenate(sets)
    del sets
    rank = np.empty(width, dtype=np.int32)
    rank[np.argsort(np.bincount(gram, minlength=width), kind="stable")] = np.arange(width, dtype=np.int32)
    starts = np.append(0, np.cumsum(sizes)).astype(np.int32)
    parts = np.ones(len(gram), dtype=np.int32), rank[gram], starts
    matrix = sparse.csr_matrix(parts, shape=(len(scopes), width))
    matrix.sort_indices()
    return Grams(matrix, sizes)


def _numbered(values: NDArray[Any]) -> NDArray[Any]:
    """A number for each value, in the order of first occurrence."""
    numbers: NDArray[Any] = pa.array(values).dictionary_encode().indices.to_numpy()
    return numbers


def substring_pairs(
    texts: Sequence[str], scopes: Ints, grams: Grams, words: bool = False, families: Families | None = None
) -> Pairs:
    """Pairs (part, whole) within a scope; `words` takes whole words only, and an empty text is part of nothing."""
    families = families or Families.none(len(texts))
    compared = pa.array([_bordered(text) for text in texts] if words else texts, pa.large_string())
    met = [(_NONE, _NONE)]
    for part, whole in chain(_by_rarest(grams), _short_parts(texts, scopes)):
        may_be = (part != whole) & families.may_pair(part, whole)
        part, whole = part[may_be], whole[may_be]
        sides = pa.table({"part": compared.take(pa.array(part)), "whole": compared.take(pa.array(whole))})
        found = rows_of("select contains(whole, part) as is_part from sides", sides=sides)["is_part"]
        is_part = found.to_numpy(zero_copy_only=False).astype(bool)
        met.append((part[is_part], whole[is_part]))
    part, whole = (np.concatenate(side) for side in zip(*met, strict=True))
    return part, whole, np.ones(len(part))


def _by_rarest(grams: Grams) -> Iterator[tuple[Ints, Ints]]:
    # Whatever contains the part has all of its trigrams, so it stands in the list of each of them: the list of the
    # rarest is the shortest, and only its texts are compared. Trigrams are numbered by rarity, the rarest first.
    columns = grams.matrix.tocsc()
    parts = np.flatnonzero(grams.sizes)
    rarest = grams.matrix.indices[grams.matrix.indptr[parts]]
    lengths = np.diff(columns.indptr)[rarest].astype(np.int64)
    parts, rarest, lengths = (some[lengths > 1] for some in (parts, rarest, lengths))
    steps = np.split(np.arange(len(parts)), np.flatnonzero(np.diff(np.cumsum(lengths) // _BATCH_PARTS)) + 1)
    for some in bar("parts of texts", steps, leave=False):
        part = np.repeat(parts[some], lengths[some])
        whole = columns.indices[_ranges(columns.indptr[rarest[some]].astype(np.int64), lengths[some])]
        is_longer = grams.sizes[whole] >= grams.sizes[part]
        yield part[is_longer], whole[is_longer].astype(np.int64)


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """The numbers from each start on, so many of each."""
    ranges: Ints = np.arange(int(lengths.sum())) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    return ranges


def _short_parts(texts: Sequence[str], scopes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Texts that are too short for a trigram, each with all of its scope."""
    for part in (place for place, text in enumerate(texts) if 0 < len(text) < _SIZE):
        near = np.flatnonzero(scopes == scopes[part])
        yield np.full(len(near), part), near


def _bordered(text: str) -> str:
    """A text with a mark at each border of a word: a marked text is a part of another one at such borders alone.

    >>> _bordered("чай!").replace("\x1f", "|")
    '|чай|!|'
    """
    return "\x1f".join(("", *_UNIT.findall(text), ""))


def lexical_pairs(grams: Grams, floor: float, families: Families | None = None) -> Pairs:
    """Pairs whose sets of trigrams have a cosine, shared / sqrt(size · size), of at least `floor`."""
    candidates = _candidates(grams, floor, families or Families.none(len(grams.sizes)))
    parts = [(_NONE, _NONE, np.empty(0)), *(_counted(grams, i, j, floor) for i, j in candidates)]
    i, j, cosine = (np.concatenate(part) for part in zip(*parts, strict=True))
    # Texts of equal size meet from both sides.
    first = np.unique(np.minimum(i, j) * max(1, len(grams.sizes)) + np.maximum(i, j), return_index=True)[1]
    return np.minimum(i, j)[first], np.maximum(i, j)[first], cosine[first]


def _candidates(grams: Grams, floor: float, families: Families) -> Iterator[tuple[Ints, Ints]]:
    # Texts near enough must share a trigram already among their rarest ones (prefix filtering, Bayardo et al. 2007).
    # For a cosine of `floor` the longer text shares at least floor² of its trigrams and the shorter at least `floor`
    # of its own. If no shared one were among the first of a text, too few would be left after them. So the product of
    # two sparse matrices that hold only these first ones finds every pair, and leaves out most of the rest unseen.
    # Texts of templates meet those of none, and one another only where their gaps are filled alike.
    members, lone = np.flatnonzero(families.is_member), np.flatnonzero(~families.is_member)
    yield from _equal_keys(members, families.gaps[members])
    longer, shorter = _prefix(grams, floor * floor), _prefix(grams, floor)
    every = np.arange(len(grams.sizes))
    sides = [(lone, every), (members, lone)]
    works = [np.cumsum(longer[rows] @ np.asarray(shorter[others].sum(axis=0)).ravel()) for rows, others in sides]
    if sum(work[-1] for work in works if len(work)) > _EXACT_PRODUCTS:
        yield from _hashed(grams, families)
        return
    for (rows, others), work in zip(sides, works, strict=True):
        parts = np.split(rows, np.flatnonzero(np.diff(work // _BATCH_PRODUCTS)) + 1)
        across = shorter[others].T.tocsr()
        for some in bar("near texts", parts, leave=False):
            met = (longer[some] @ across).tocoo()
            i, j = some[met.row], others[met.col]
            size_i, size_j = grams.sizes[i], grams.sizes[j]
            fits = (i != j) & (size_j <= size_i) & (size_j >= floor * floor * size_i - _MARGIN)
            yield i[fits], j[fits]


def _hashed(grams: Grams, families: Families) -> Iterator[tuple[Ints, Ints]]:
    """MinHash: texts that agree in the least hashes of a band; at cosine 0.85 a pair is missed once in 400."""
    full = np.flatnonzero(grams.sizes)
    starts = grams.matrix.indptr[:-1][full]
    mixed = mix(grams.matrix.indices)
    salts = mix(np.arange(_BANDS * _BAND_ROWS)) | np.uint64(1)
    for band in bar("near texts", salts.reshape(_BANDS, _BAND_ROWS), leave=False):
        key = np.zeros(len(full), dtype=np.uint64)
        for salt in band:
            key = mix(key ^ np.minimum.reduceat((mixed * salt) >> np.uint64(32), starts))
        yield from _met(full, key, families)


def _met(rows: Ints, key: NDArray[np.uint64], families: Families) -> Iterator[tuple[Ints, Ints]]:
    """The pairs of rows of one key, but for those of two texts of templates."""
    is_lone = ~families.is_member[rows]
    yield from _equal_keys(rows[is_lone], key[is_lone])
    lone, members = rows[is_lone], rows[~is_lone]
    key, others = key[is_lone], key[~is_lone]
    order = np.argsort(others, kind="stable")
    members, others = members[order], others[order]
    starts = np.searchsorted(others, key)
    lengths = np.searchsorted(others, key, side="right") - starts
    for some in np.split(np.arange(len(lone)), np.flatnonzero(np.diff(np.cumsum(lengths) // _BATCH_PRODUCTS)) + 1):
        yield np.repeat(lone[some], lengths[some]), members[_ranges(starts[some], lengths[some])]


def _equal_keys(rows: Ints, key: NDArray[Any]) -> Iterator[tuple[Ints, Ints]]:
    """All pairs of rows of one key, a step at a time, so that memory stays that of the rows."""
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    for step in range(1, len(rows)):
        same = key[step:] == key[:-step]
        if not same.any():
            return
        yield rows[:-step][same], rows[step:][same]


def _prefix(grams: Grams, ratio: float) -> Any:
    """The rarest trigrams of each text, as many as leave fewer than `ratio` of them out."""
    from scipy import sparse

    matrix = grams.matrix
    kept = np.where(grams.sizes > 0, grams.sizes - np.ceil(ratio * grams.sizes - _MARGIN).astype(np.int64) + 1, 0)
    kept = np.minimum(kept, grams.sizes)
    chosen = matrix.indices[_ranges(matrix.indptr[:-1].astype(np.int64), kept)]
    ones = np.ones(len(chosen), dtype=np.int32)
    return sparse.csr_matrix((ones, chosen, np.append(0, np.cumsum(kept)).astype(np.int32)), shape=matrix.shape)


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
