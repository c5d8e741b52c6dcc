"""Pairs of texts by substring or by trigrams, within bounded memory.

Both finders rest on the sets of character trigrams. A text that lies within another has all its trigrams there, so
the postings of its rarest one hold every candidate. Two sets of cosine t differ in few trigrams, so two signatures of
which each trigram flips one bit differ in no more bits: FAISS counts those, of texts of nearly one size at a time, and
only the pairs that are left are counted out. Where a scope is so large that this would not end soon, MinHash (Broder
1997) names the candidates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from math import log2
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import rows_of
from memkit.base.progress import bar
from memkit.index.ann import Bits, near_bits
from memkit.index.pairs import Pairs
from memkit.policy.dedup.families import STEP, Families, Texts, mix
from memkit.schemas import Ints, Mask

_SIZE = 3
_BATCH_CHARS = 20_000_000
_BATCH_PRODUCTS = 1_000_000
"""Pairs that are in memory at once, where all of a scope or of a key of MinHash are looked at."""
_BATCH_PAIRS = 20_000
_BATCH_PARTS = 100_000
_BATCH_LETTERS = 8_000_000
"""Bytes of texts that are looked for in others at once."""
_SMALL = 512
"""Of a scope of fewer texts every pair is looked at; FAISS is asked about larger ones."""
_SIZE_STEP = 1.1
"""The ratio of the sizes from which texts are of two groups."""
_BITS_A_TRIGRAM = 8
"""Bits of a signature for each trigram that may differ; with fewer, texts without much in common look alike."""
_SIGNATURE = 16  # 64-bit words
_MOST_BITS = 3_000_000_000_000
"""Bits that are compared at most, some ten seconds; beyond, MinHash takes less."""
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
    scopes: Ints

    @cached_property
    def signatures(self) -> NDArray[np.uint64]:
        """Shape (words, texts): each trigram flips one bit, so that two differ in no more bits than their sets do."""
        words, step = np.empty((_SIGNATURE, len(self.sizes)), dtype=np.uint64), 1024
        for start in range(0, len(self.sizes), step):
            some = np.arange(start, min(start + step, len(self.sizes)))
            words[:, some] = self._signed(some, 64 * _SIGNATURE).view(np.uint64).T
        return words

    def signed(self, rows: Ints, bits: int) -> Bits:
        """Signatures of so many bits, a power of two; shape (rows, bytes)."""
        if bits > 64 * _SIGNATURE:
            return self._signed(rows, bits)
        known = np.ascontiguousarray(self.signatures[:, rows].T).view(np.uint8)
        signed: Bits = np.bitwise_xor.reduce(known.reshape(len(rows), -1, bits // 8), axis=1)
        return signed

    def _signed(self, rows: Ints, bits: int) -> Bits:
        sizes, starts = self.sizes[rows], self.matrix.indptr[rows].astype(np.int64)
        bit = self._mixed[self.matrix.indices[_ranges(starts, sizes)]] & (bits - 1)
        flips = np.bincount(bit + np.repeat(np.arange(len(rows)) * bits, sizes), minlength=len(rows) * bits)
        signed: Bits = np.packbits((flips & 1).astype(np.uint8)).reshape(len(rows), -1)
        return signed

    @cached_property
    def _mixed(self) -> Ints:
        return (mix(np.arange(self.matrix.shape[1])) >> np.uint64(1)).astype(np.int64)


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


def trigrams(texts: Texts, scopes: Ints) -> Grams:
    """The sets of trigrams; texts of two scopes share none."""
    return _sets(map(_trigrams, _blocks(texts)), scopes)


def _blocks(texts: Texts) -> Iterator[list[str]]:
    for start in range(0, len(texts), STEP):
        some = texts[start : start + STEP]
        yield list(some) if isinstance(some, Sequence) else some.to_pylist()


def _trigrams(texts: list[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    lengths = np.array([*map(len, texts)], np.int64)
    # 21 bits hold a code point, so three of them are an exact key.
    keys = letters[:-2] | letters[1:-1] << 21 | letters[2:] << 42
    whole, ends = np.ones(len(letters), bool), np.cumsum(lengths)
    for last in range(1, _SIZE):
        whole[ends[ends >= last] - last] = False
    return np.repeat(np.arange(len(texts)), np.maximum(0, lengths - _SIZE + 1)), keys[whole[: len(keys)]]


def word_sets(texts: Sequence[Collection[str]], scopes: Ints) -> Grams:
    """The sets of words instead, for texts that are cut into words already; texts of two scopes share none."""
    sizes = np.array([len(words) for words in texts], dtype=np.int64)
    words = pa.array([word for of_text in texts for word in of_text], pa.string()).dictionary_encode()
    codes = words.indices.to_numpy()
    ends = np.append(0, np.cumsum(sizes))
    steps = (slice(start, min(start + STEP, len(texts))) for start in range(0, len(texts), STEP))
    return _sets(
        (
            (np.repeat(np.arange(some.stop - some.start), sizes[some]), codes[ends[some.start] : ends[some.stop]])
            for some in steps
        ),
        scopes,
    )


def _sets(blocks: Iterable[tuple[NDArray[Any], NDArray[Any]]], scopes: Ints) -> Grams:
    """The sets of the keys that each owner has; a block is the next `STEP` owners, numbered from 0, and their keys."""
    from scipy import sparse

    sizes, parts = _listed(blocks, len(scopes))
    if (several := int(scopes.max(initial=0)) + 1) > 1:
        numbered, steps = _one_numbering(parts), range(0, len(scopes), STEP)
        parts = []
        for part, start in zip(numbered, steps, strict=True):
            of_part = np.repeat(scopes[start : start + STEP], sizes[start : start + STEP])
            parts.append(pa.array(part.indices.to_numpy().astype(np.int64) * several + of_part).dictionary_encode())
    parts = _one_numbering(parts)
    counts = np.zeros(len(parts[0].dictionary) if parts else 0, np.int64)
    for part in parts:
        counts += np.bincount(part.indices.to_numpy(), minlength=len(counts))
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    pa.default_memory_pool().release_unused()
    gram, ends = np.empty(int(sizes.sum()), np.int32), np.append(0, np.cumsum(sizes))
    for start in range(0, len(scopes), STEP):
        part = parts.pop(0)  # which is as large as its share of the matrix
        # A sort of whole numbers takes a third of the time that sorting within rows does.
        owner = np.repeat(np.arange(len(sizes[start : start + STEP])), sizes[start : start + STEP])
        cells = np.sort(owner * len(counts) + rank[part.indices.to_numpy()])
        gram[ends[start] : ends[start] + len(part)] = cells - owner * len(counts)
    del parts
    rows = np.ones(len(gram), bool), gram, ends.astype(np.int32)
    return Grams(sparse.csr_matrix(rows, shape=(len(scopes), len(counts))), sizes, scopes)


def _listed(blocks: Iterable[tuple[NDArray[Any], NDArray[Any]]], n: int) -> tuple[Ints, list[pa.DictionaryArray]]:
    """How many keys each of `n` owners has, and by block these keys, each once an owner and with a dictionary."""
    # There are as many trigrams as letters. So each block is made sets before the next is read, and what is kept is as
    # narrow as it can be.
    sizes, parts = np.zeros(n, np.int64), list[pa.DictionaryArray]()
    for start, (owner, keys) in zip(range(0, n, STEP), blocks, strict=True):
        encoded = pa.array(keys.astype(np.int64)).dictionary_encode()
        width, some = max(1, len(encoded.dictionary)), sizes[start : start + STEP]
        cells = np.sort(owner.astype(np.int64) * width + encoded.indices.to_numpy())
        cells = cells[np.append(True, cells[1:] != cells[:-1])[: len(cells)]]  # np.unique hashes, ten times as long
        begins = np.arange(len(some) + 1) * width
        some[:] = np.diff(np.searchsorted(cells, begins))
        indices = (cells - np.repeat(begins[:-1], some)).astype(np.int32)
        parts.append(pa.DictionaryArray.from_arrays(indices, encoded.dictionary))
    return sizes, parts


def _one_numbering(parts: list[pa.DictionaryArray]) -> list[pa.DictionaryArray]:
    """The same values, with one dictionary."""
    return pa.chunked_array(parts).unify_dictionaries().chunks if parts else []


def substring_pairs(
    texts: Texts, scopes: Ints, grams: Grams, words: bool = False, families: Families | None = None
) -> Pairs:
    """Pairs (part, whole) within a scope; `words` takes whole words only, and an empty text is part of nothing."""
    families = families or Families.none(len(texts))
    compared = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    lengths = pc.binary_length(compared).to_numpy()
    met = [(_NONE, _NONE)]
    for part, whole in chain(_by_rarest(grams), _short_parts(lengths, compared, scopes)):
        may_be = (part != whole) & families.may_pair(part, whole) & (lengths[whole] >= lengths[part])
        part, whole = part[may_be], whole[may_be]
        may_be = _may_share(grams, part, whole, grams.sizes[part])
        part, whole = part[may_be], whole[may_be]
        letters = np.cumsum(lengths[part] + lengths[whole])
        for some in np.split(np.arange(len(part)), np.flatnonzero(np.diff(letters // _BATCH_LETTERS)) + 1):
            lies = some[_lie_within(compared, part[some], whole[some])]
            if words:  # a part of whole words is one of letters too, and few are
                lies = lies[_lie_within(compared, part[lies], whole[lies], _bordered)]
            met.append((part[lies], whole[lies]))
    part, whole = (np.concatenate(side) for side in zip(*met, strict=True))
    return part, whole, np.ones(len(part))


def _lie_within(texts: pa.Array, part: Ints, whole: Ints, written: Callable[[str], str] | None = None) -> Mask:
    """Whether each part lies within its whole, both as they are `written`."""
    if written is not None:
        chosen, places = np.unique(np.append(part, whole), return_inverse=True)
        texts = pa.array(map(written, texts.take(pa.array(chosen)).to_pylist()), pa.large_string())
        part, whole = np.split(places.ravel(), [len(part)])
    sides = pa.table({"part": texts.take(pa.array(part)), "whole": texts.take(pa.array(whole))})
    found = rows_of("select contains(whole, part) as is_part from sides", sides=sides)["is_part"]
    lies: Mask = found.to_numpy(zero_copy_only=False).astype(bool)
    return lies


def _by_rarest(grams: Grams) -> Iterator[tuple[Ints, Ints]]:
    # Whatever contains the part has all of its trigrams, so it stands in the list of each of them: the list of the
    # rarest is the shortest, and only its texts are compared. Trigrams are numbered by rarity, the rarest first.
    parts = np.flatnonzero(grams.sizes)
    listed, rarest = np.unique(grams.matrix.indices[grams.matrix.indptr[parts]], return_inverse=True)
    columns = grams.matrix[:, listed].tocsc()
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


def _short_parts(lengths: Ints, texts: pa.Array, scopes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Texts that are too short for a trigram, each with all of its scope."""
    # A character takes up to four bytes.
    few = np.flatnonzero((lengths > 0) & (lengths <= 4 * (_SIZE - 1)))
    for part in few[pc.utf8_length(texts.take(pa.array(few))).to_numpy() < _SIZE].tolist():
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
    """The pairs that may be near enough, some at a time; a pair may come twice."""
    rows = np.flatnonzero(grams.sizes)
    rows = rows[np.argsort(grams.scopes[rows], kind="stable")]
    scopes = np.split(rows, np.flatnonzero(np.diff(grams.scopes[rows])) + 1)
    small = np.concatenate([_NONE, *(scope for scope in scopes if len(scope) < _SMALL)])
    yield from _likely(grams, floor, families, _equal_keys(small, grams.scopes[small]))
    for scope in scopes:
        if len(scope) >= _SMALL:
            yield from _of_large(grams, floor, families, scope)


def _likely(
    grams: Grams, floor: float, families: Families, pairs: Iterator[tuple[Ints, Ints]]
) -> Iterator[tuple[Ints, Ints]]:
    """The pairs among these that no template keeps apart, and that may share enough."""
    for i, j in pairs:
        for start in range(0, len(i), _BATCH_PRODUCTS):
            some = slice(start, start + _BATCH_PRODUCTS)
            may_be = families.may_pair(i[some], j[some])
            one, other = i[some][may_be], j[some][may_be]
            likely = _may_share(grams, one, other, floor * np.sqrt(grams.sizes[one] * grams.sizes[other]) - _MARGIN)
            yield one[likely], other[likely]


def _of_large(grams: Grams, floor: float, families: Families, scope: Ints) -> Iterator[tuple[Ints, Ints]]:
    # Texts of templates meet those of none, and one another only where their gaps are filled alike.
    is_member, sizes = families.is_member[scope], grams.sizes
    yield from _equal_keys(scope[is_member], families.gaps[scope[is_member]])
    members, lone = (_by_size(sizes, scope[chosen]) for chosen in (is_member, ~is_member))
    met = [
        (longer, shorter, int(_most_apart(most, min(most, other_most), floor)), _bits(most, floor))
        for (longer, least, most), (shorter, other_least, other_most) in chain(
            product(lone, lone), product(lone, members), product(members, lone)
        )
        if other_least <= most and floor * floor * least - _MARGIN <= other_most
    ]
    if sum(len(longer) * len(shorter) * bits for longer, shorter, _, bits in met) > _MOST_BITS:
        yield from _likely(grams, floor, families, _hashed(grams, families, scope))
        return
    for longer, shorter, most, bits in bar("near texts", met, leave=False):
        for one, other, apart in near_bits(grams.signed(longer, bits), grams.signed(shorter, bits), most):
            i, j = longer[one], shorter[other]
            fits = (i != j) & (apart <= _most_apart(sizes[i], sizes[j], floor))
            yield i[fits], j[fits]


def _most_apart(one: Any, other: Any, floor: float) -> Any:
    """In how many trigrams texts of these sizes differ at most, where their cosine is at least `floor`."""
    return one + other - 2 * floor * np.sqrt(one * other) + _MARGIN


def _by_size(sizes: Ints, rows: Ints) -> list[tuple[Ints, int, int]]:
    """Rows by their size, a group for each `_SIZE_STEP`, with the least and the greatest size of it."""
    group = (np.log(sizes[rows]) / np.log(_SIZE_STEP)).astype(np.int64)
    order = np.argsort(group, kind="stable")
    groups = np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1) if len(rows) else []
    return [(some, int(sizes[some].min()), int(sizes[some].max())) for some in groups]


def _bits(size: int, floor: float) -> int:
    """Bits of a signature of so many trigrams: a power of two, and from 64 on, as FAISS is fast at."""
    return 1 << max(6, round(log2(max(1.0, _BITS_A_TRIGRAM * (1 - floor) * size))))


def _hashed(grams: Grams, families: Families, full: Ints) -> Iterator[tuple[Ints, Ints]]:
    """MinHash: texts that agree in the least hashes of a band; at cosine 0.85 a pair is missed once in 400."""
    sizes = grams.sizes[full]
    ends = np.append(0, np.cumsum(sizes))
    blocks = [slice(start, start + STEP) for start in range(0, len(full), STEP)]
    mixed = mix(np.arange(grams.matrix.shape[1]))
    salts = mix(np.arange(_BANDS * _BAND_ROWS)) | np.uint64(1)
    for band in bar("near texts", salts.reshape(_BANDS, _BAND_ROWS), leave=False):
        key = np.zeros(len(full), dtype=np.uint64)
        for salt in band:
            hashed = (mixed * salt) >> np.uint64(32)
            for block in blocks:
                starts = grams.matrix.indptr[full[block]].astype(np.int64)
                some = hashed[grams.matrix.indices[_ranges(starts, sizes[block])]]
                key[block] = mix(key[block] ^ np.minimum.reduceat(some, ends[:-1][block] - ends[block.start]))
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


def _counted(grams: Grams, i: Ints, j: Ints, floor: float) -> Pairs:
    """The pairs among these whose cosine is at least `floor`."""
    if not len(i):
        return i, j, np.empty(0)
    shared = np.empty(len(i))
    for start in range(0, len(i), _BATCH_PAIRS):
        some = slice(start, start + _BATCH_PAIRS)
        shared[some] = np.asarray(grams.matrix[i[some]].multiply(grams.matrix[j[some]]).sum(axis=1)).ravel()
    cosine = np.round(shared / np.sqrt(grams.sizes[i] * grams.sizes[j]), 6)
    near = cosine >= floor
    return i[near], j[near], cosine[near]


def _may_share(grams: Grams, i: Ints, j: Ints, least: NDArray[Any]) -> Ints:
    """The places of the pairs that may share at least so many."""
    # Signatures bound what two sets share from above (Sandes, Teodoro, Melo 2020); most candidates end at the first.
    places, apart = np.arange(len(i)), np.zeros(len(i), dtype=np.int64)
    for words in np.split(grams.signatures, (2, 6)):
        for word in words:
            apart += np.bitwise_count(word[i] ^ word[j])
        likely = (grams.sizes[i] + grams.sizes[j] - apart) // 2 >= least
        places, i, j, apart, least = (some[likely] for some in (places, i, j, apart, least))
    return places
