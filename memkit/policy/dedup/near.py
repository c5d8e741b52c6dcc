"""Pairs of texts by substring or by trigrams, within bounded memory.

Both finders rest on the sets of character trigrams. A text that lies within another has all its trigrams there, so
the postings of its rarest one hold every candidate. Two sets of cosine t share one of their rarest trigrams, so only
those are joined (prefix filtering: Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma, Srikant 2007), and candidates are
counted out. Where a scope is so large that this join would not end soon, MinHash (Broder 1997) names the candidates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import rows_of
from memkit.base.progress import bar
from memkit.index.pairs import Pairs
from memkit.policy.dedup.families import STEP, Families, Texts, mix
from memkit.schemas import Ints, Mask

_SIZE = 3
_BATCH_CHARS = 20_000_000
_BATCH_PRODUCTS = 1_000_000
_BATCH_PAIRS = 20_000
_BATCH_PARTS = 100_000
_BATCH_LETTERS = 8_000_000
"""Bytes of texts that are looked for in others at once."""
_LETTERS_A_MATCH = 50
"""For so many trigrams of a text, one more of the first ones must be shared: fewer candidates for as many products."""
_SIZES = 8
_SIGNATURE = 16  # 64-bit words
_EXACT_PRODUCTS = 200_000_000
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


def trigrams(texts: Texts, scopes: Ints) -> Grams:
    """The sets of trigrams; texts of two scopes share none."""
    return _sets(map(_trigrams, _blocks(texts)), scopes)


def _blocks(texts: Texts) -> Iterator[list[str]]:
    for start in range(0, len(texts), STEP):
        some = texts[start : start + STEP]
        yield list(some) if isinstance(some, Sequence) else some.to_pylist()


def _trigrams(texts: list[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    whole = np.flatnonzero(owner[: -_SIZE + 1] == owner[_SIZE - 1 :]) if len(owner) >= _SIZE else _NONE
    # 21 bits hold a code point, so three of them are an exact key.
    return owner[whole], letters[whole] | letters[whole + 1] << 21 | letters[whole + 2] << 42


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
    rank = np.empty(len(counts), dtype=np.int32)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts), dtype=np.int32)
    gram, done = np.empty(int(sizes.sum()), np.int32), 0
    for part in parts:
        gram[done : done + len(part)] = rank[part.indices.to_numpy()]
        done += len(part)
    del parts
    ends = np.append(0, np.cumsum(sizes)).astype(np.int32)
    matrix = sparse.csr_matrix((np.ones(len(gram), dtype=bool), gram, ends), shape=(len(scopes), len(counts)))
    matrix.sort_indices()
    return Grams(matrix, sizes)


def _listed(blocks: Iterable[tuple[NDArray[Any], NDArray[Any]]], n: int) -> tuple[Ints, list[pa.DictionaryArray]]:
    """How many keys each of `n` owners has, and by block these keys, each once an owner and with a dictionary."""
    # There are as many trigrams as letters. So each block is made sets before the next is read, and what is kept is as
    # narrow as it can be.
    sizes, parts = np.zeros(n, np.int64), list[pa.DictionaryArray]()
    for start, (owner, keys) in zip(range(0, n, STEP), blocks, strict=True):
        encoded = pa.array(keys.astype(np.int64)).dictionary_encode()
        width = max(1, len(encoded.dictionary))
        cells = np.sort(owner.astype(np.int64) * width + encoded.indices.to_numpy())
        cells = cells[np.append(True, cells[1:] != cells[:-1])[: len(cells)]]  # np.unique hashes, ten times as long
        sizes[start : start + STEP] = np.bincount(cells // width, minlength=len(sizes[start : start + STEP]))
        parts.append(pa.DictionaryArray.from_arrays((cells % width).astype(np.int32), encoded.dictionary))
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
    # Texts near enough must share a trigram already among their rarest ones (prefix filtering, Bayardo et al. 2007).
    # For a cosine of `floor` the longer text shares at least floor² of its trigrams and the shorter at least `floor`
    # of its own. If no shared one were among the first of a text, too few would be left after them. So the product of
    # two sparse matrices that hold only these first ones finds every pair, and leaves out most of the rest unseen.
    # With some more of the first ones (`_at_least`), so many more must be shared among them: few others share as many.
    # Texts of templates meet those of none, and one another only where their gaps are filled alike.
    members, lone = np.flatnonzero(families.is_member), np.flatnonzero(~families.is_member)
    yield from _equal_keys(members, families.gaps[members])
    # A text is the longer one of none that is shorter than `floor`² of it.
    least = np.minimum(
        _at_least(grams.sizes), np.maximum(1, np.ceil(floor * floor * grams.sizes - _MARGIN).astype(np.int64))
    )
    longer = _prefix(grams, floor * floor, least)
    shorter = _prefix(grams, floor, _at_least(grams.sizes / (floor * floor)))
    every = np.arange(len(grams.sizes))
    sides = [*_by_size(grams.sizes, lone, every, floor), *_by_size(grams.sizes, members, lone, floor)]
    works = [np.cumsum(longer[rows] @ np.asarray(shorter[others].sum(axis=0)).ravel()) for rows, others in sides]
    if sum(work[-1] for work in works if len(work)) > _EXACT_PRODUCTS:
        yield from _hashed(grams, families)
        return
    for (rows, others), work in zip(sides, works, strict=True):
        parts = np.split(rows, np.flatnonzero(np.diff(work // _BATCH_PRODUCTS)) + 1)
        across = shorter[others].T.tocsr()
        for some in bar("near texts", parts, leave=False):
            met = longer[some] @ across
            n_met = np.diff(met.indptr)
            many = np.flatnonzero(met.data >= np.repeat(least[some], n_met))
            i = some[np.searchsorted(met.indptr, many, side="right") - 1]
            j = others[met.indices[many]]
            size_i, size_j = grams.sizes[i], grams.sizes[j]
            fits = (i != j) & (size_j <= size_i) & (size_j >= floor * floor * size_i - _MARGIN)
            yield i[fits], j[fits]


def _by_size(sizes: Ints, rows: Ints, others: Ints, floor: float) -> Iterator[tuple[Ints, Ints]]:
    """Some rows with those of the `others` that are no longer, and long enough to be near: half of all work."""
    for some in np.array_split(rows[np.argsort(sizes[rows], kind="stable")], _SIZES):
        if len(some):
            least, most = sizes[some[0]], sizes[some[-1]]
            yield some, others[(sizes[others] <= most) & (sizes[others] >= floor * floor * least - _MARGIN)]


def _hashed(grams: Grams, families: Families) -> Iterator[tuple[Ints, Ints]]:
    """MinHash: texts that agree in the least hashes of a band; at cosine 0.85 a pair is missed once in 400."""
    full = np.flatnonzero(grams.sizes)
    ends = np.append(0, np.cumsum(grams.sizes[full]))
    blocks = [slice(start, start + STEP) for start in range(0, len(full), STEP)]
    mixed = mix(np.arange(grams.matrix.shape[1]))
    salts = mix(np.arange(_BANDS * _BAND_ROWS)) | np.uint64(1)
    for band in bar("near texts", salts.reshape(_BANDS, _BAND_ROWS), leave=False):
        key = np.zeros(len(full), dtype=np.uint64)
        for salt in band:
            hashed = (mixed * salt) >> np.uint64(32)
            for block in blocks:
                start = ends[block.start]
                some = hashed[grams.matrix.indices[start : ends[min(block.stop, len(full))]]]
                key[block] = mix(key[block] ^ np.minimum.reduceat(some, ends[:-1][block] - start))
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


def _at_least(sizes: NDArray[Any]) -> Ints:
    """How many of their first trigrams two texts must share, by the size of the longer one."""
    least: Ints = 1 + (sizes / _LETTERS_A_MATCH + _MARGIN).astype(np.int64)
    return least


def _prefix(grams: Grams, ratio: float, least: Ints) -> Any:
    """The rarest trigrams of each text, as many as hold `least` of those that it shares with `ratio` of its own."""
    from scipy import sparse

    matrix = grams.matrix
    kept = np.where(grams.sizes > 0, grams.sizes - np.ceil(ratio * grams.sizes - _MARGIN).astype(np.int64) + least, 0)
    kept = np.minimum(kept, grams.sizes)
    chosen = matrix.indices[_ranges(matrix.indptr[:-1].astype(np.int64), kept)]
    ones = np.ones(len(chosen), dtype=np.int32)
    return sparse.csr_matrix((ones, chosen, np.append(0, np.cumsum(kept)).astype(np.int32)), shape=matrix.shape)


def _counted(grams: Grams, i: Ints, j: Ints, floor: float) -> Pairs:
    """The pairs among these whose cosine is at least `floor`."""
    if not len(i):
        return i, j, np.empty(0)
    likely = _may_share(grams, i, j, floor * np.sqrt(grams.sizes[i] * grams.sizes[j]) - _MARGIN)
    i, j = i[likely], j[likely]
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
