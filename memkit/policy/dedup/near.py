"""Pairs of texts by substring or by trigrams, within bounded memory.

Both finders rest on the sets of character trigrams. A text that lies within another has all its trigrams there, so
the postings of its rarest one hold every candidate. Two sets of cosine t differ in few trigrams, so two signatures of
which each trigram flips one bit differ in no more bits: FAISS counts those, of texts of nearly one size at a time, and
only the pairs that are left are counted out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, combinations_with_replacement, product
from math import log2
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import rows_of
from memkit.base.parallel import bar
from memkit.index.ann import Bits, Pairs, near_bits
from memkit.policy.dedup.clusters import STEP, Families, Texts
from memkit.schemas import Ints, Mask
from memkit.text.analyse import distinct, ranges
from memkit.text.facts import n_shared

_SIZE = 3  # characters of a trigram
# The sizes below bound the memory; 40,000 texts of 970 characters take 728 MB in all with them.
_BATCH_CHARS = 20_000_000  # of texts whose trigrams are in memory at once
_BATCH_PRODUCTS = 250_000
"""Pairs that are in memory at once, where all of a scope are looked at."""
_BATCH_GRAMS = 200_000
"""Trigrams of pairs that are counted at once, which a processor's cache holds: of 2,000,000 it takes a third longer."""
_BATCH_PARTS = 100_000
"""Pairs of a part and what may contain it that are looked at once."""
_BATCH_LETTERS = 8_000_000
"""Bytes of texts that are looked for in others at once."""
# A guess of where the import of FAISS and its signatures pay.
_SMALL = 512
"""Of a scope of fewer texts every pair is looked at; FAISS is asked about larger ones."""
# Near sizes bound what two texts may share more closely; a guess of what groups are worth their number.
_SIZE_STEP = 1.1
"""The ratio of the sizes from which texts are of two groups."""
_GROUP = 2048
"""Most texts of such a group."""
_BITS_A_TRIGRAM = 8
"""Bits of a signature for each trigram that may differ; with fewer, texts without much in common look alike."""
_SIGNATURE = 16  # 64-bit words
_FEW = 64  # texts whose trigrams are read at once
_LISTS = 1 << 18
"""Lists of the texts that have a trigram; some trigrams share one."""
_MOST_LETTERS = 160_000
"""More than Unicode has assigned; `_FEW` texts of so many letters to the third power are below `_NUMBERS`."""
_NUMBERS = 1 << 63
"""Numbers that 64 bits hold."""
_GOLDEN = np.uint32(0x9E3779B1)  # an odd number near 2**32 over the golden ratio: products spread near numbers evenly
# Guards the borders of integer counts against the last digit of a product of floats.
_MARGIN = 1e-9
_UNIT = re.compile(r"[^\W\u2e80-\U0010ffff]+|[\s\S]")
"""A word, or another character; from U+2E80 on, in East Asian writing, each character has borders."""
_NONE = np.empty(0, dtype=np.int64)
_MARKS = str.maketrans("ё‑−", "е--", ' ,;!…()[]{}«»"“”„`*|•—–')
_AT_BORDERS = re.compile(r"(?<!\w)[.:'’‘_~=−‑-]+|[.:'’‘_~=−‑-]+(?!\w)")
# Within a word they are of it ("ivan.petrov", "e-mail"). A longer text in other marks has most of its trigrams still.
_SHORT = 120


@dataclass(frozen=True)
class Grams:
    """Trigrams of texts, or words: each a number below `width`.

    The sets are end to end, each in order and of so many `lengths`; a text that lies in several scopes is several rows
    of one set, which `text` names.
    """

    members: NDArray[Any]
    lengths: Ints
    text: Ints
    scopes: Ints
    width: int

    @cached_property
    def sizes(self) -> Ints:
        """The size of each row's set."""
        return np.asarray(self.lengths[self.text], np.int64)

    def of(self, rows: Ints | slice) -> NDArray[Any]:
        """The sets of some rows, end to end."""
        text, ends = self.text[rows], np.cumsum(self.lengths)
        if len(text) and (np.diff(text) == 1).all():  # as they lie, so that nothing is copied
            return self.members[ends[text[0]] - self.lengths[text[0]] : ends[text[-1]]]
        return self.members[ranges((ends - self.lengths)[text], self.lengths[text])]

    @cached_property
    def signatures(self) -> NDArray[np.uint64]:
        """Shape (words, rows): each trigram flips one bit, so that two differ in no more bits than their sets do."""
        words = np.empty((_SIGNATURE, len(self.lengths)), dtype=np.uint64)
        for some, cells in _steps(self.lengths, STEP // 4):  # which the processor's cache holds
            words[:, some] = self._signed(self.members[cells], self.lengths[some], 64 * _SIGNATURE).view(np.uint64).T
        return words[:, self.text]

    def signed(self, rows: Ints, bits: int) -> Bits:
        """Signatures of so many bits, a power of two; shape (rows, bytes)."""
        if bits > 64 * _SIGNATURE:
            return self._signed(self.of(rows), self.sizes[rows], bits)
        known = np.ascontiguousarray(self.signatures[:, rows].T).view(np.uint8)
        return np.asarray(np.bitwise_xor.reduce(known.reshape(len(rows), -1, bits // 8), axis=1), np.uint8)

    @staticmethod
    def _signed(members: NDArray[Any], sizes: Ints, bits: int) -> Bits:
        row = np.repeat(np.arange(len(sizes)) * bits, sizes)
        flips = np.bincount(_spread(members, bits) + row, minlength=len(sizes) * bits)
        return np.asarray(np.packbits((flips & 1).astype(np.uint8)).reshape(len(sizes), -1), np.uint8)


def _steps(sizes: Ints, n: int) -> Iterator[tuple[slice, slice]]:
    """So many sets after the other, and where their members are."""
    ends = np.append(0, np.cumsum(sizes))
    for start in range(0, len(sizes), n):
        stop = min(start + n, len(sizes))
        yield slice(start, stop), slice(int(ends[start]), int(ends[stop]))


def _spread(members: NDArray[Any], width: int) -> NDArray[np.uint32]:
    """A place below `width`, a power of two, for each member: Knuth's multiplicative hashing."""
    # The upper bits of a product, which depend on all bits of the number.
    return np.asarray((members.astype(np.uint32) * _GOLDEN) >> np.uint32(33 - width.bit_length()), np.uint32)


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


def trigrams(texts: Texts, scopes: Ints, text: Ints | None = None) -> Grams:
    """The sets of trigrams; where a text is in several scopes, `text` is that of each scope."""
    is_used, n_letters = np.zeros(0x110000, bool), 0
    for letters, _ in _letters(texts):
        is_used[letters] = True
        n_letters += len(letters)
    # Where there are more letters than an exact number of a trigram has room for, the last of them count as one.
    used = np.flatnonzero(is_used)
    n = min(len(used), _MOST_LETTERS)
    width, sizes, done = n**_SIZE, np.zeros(len(texts), np.int64), 0
    # Numbers of half the size take half of the time, and those of few texts stay in the processor's cache.
    wide: Any = np.uint32 if _FEW * width < 1 << 32 else np.int64
    code = np.zeros(int(used.max(initial=0)) + 1, wide)
    code[used] = np.minimum(np.arange(len(used)), n - 1)
    members = np.empty(n_letters, np.uint32 if width < 1 << 32 else np.int64)
    for start, (letters, lengths) in zip(range(0, len(texts), _FEW), _letters(texts), strict=True):
        coded, ends, some = code[letters], np.cumsum(lengths), sizes[start : start + _FEW]
        cells = (np.repeat(np.arange(len(lengths), dtype=wide), lengths) * n + coded)[:-2] * n + coded[1:-1]
        cells = cells * n + coded[2:]
        whole = np.ones(len(letters), bool)
        for last in range(1, _SIZE):
            whole[ends[ends >= last] - last] = False
        cells = distinct(cells[whole[: len(cells)]], np.maximum(lengths - _SIZE + 1, 0))
        begins = np.arange(len(some), dtype=wide) * width
        some[:] = np.diff(np.append(np.searchsorted(cells, begins), len(cells)))
        members[done : done + len(cells)] = cells - np.repeat(begins, some)
        done += len(cells)
    return Grams(members[:done], sizes, np.arange(len(texts)) if text is None else text, scopes, width)


def _letters(texts: Texts) -> Iterator[tuple[NDArray[np.uint32], Ints]]:
    """The code points of some texts after the other, and how many each has."""
    for start in range(0, len(texts), _FEW):
        some = texts[start : start + _FEW]
        some = some if isinstance(some, Sequence) else some.to_pylist()
        letters = np.frombuffer("".join(some).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        yield letters, np.array([*map(len, some)], np.int64)


def word_sets(texts: Sequence[Collection[str]], scopes: Ints) -> Grams:
    """The sets of words instead, for texts that are cut into words already."""
    sizes = np.array([len(words) for words in texts], dtype=np.int64)
    words = pa.array([word for of_text in texts for word in of_text], pa.string()).dictionary_encode()
    width, rows = len(words.dictionary), np.arange(len(texts))
    members = np.sort(np.repeat(rows * width, sizes) + words.indices.to_numpy()) % max(width, 1)
    return Grams(members, sizes, rows, scopes, width)


def substring_pairs(texts: pa.Array, scopes: Ints, grams: Grams, words: bool = False) -> Pairs:
    """Pairs (part, whole) within a scope; `words` takes whole words only, and an empty text is part of nothing."""
    met = chain(_by_rarest(grams), _short_parts(pc.binary_length(texts).to_numpy(), texts, scopes))
    return substrings_of(texts, grams, met, words)


def substrings_of(texts: pa.Array, grams: Grams, pairs: Iterable[tuple[Ints, Ints]], words: bool) -> Pairs:
    """Those of some pairs (part, whole) of which the part, whole words where `words`, lies within the whole."""
    lengths, met = pc.binary_length(texts).to_numpy(), [(_NONE, _NONE)]
    for part, whole in pairs:
        may_be = (part != whole) & (lengths[whole] >= lengths[part])
        part, whole = part[may_be], whole[may_be]
        may_be = _may_share(grams, part, whole, grams.sizes[part])
        part, whole = part[may_be], whole[may_be]
        for some in _in_steps(lengths[part] + lengths[whole], _BATCH_LETTERS):
            lies = some[_lie_within(texts, part[some], whole[some])]
            if words:  # a part of whole words is one of letters too, and few are
                lies = lies[_lie_within(texts, part[lies], whole[lies], _bordered)]
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
    return np.asarray(found.to_numpy(zero_copy_only=False).astype(bool), bool)


def _by_rarest(grams: Grams) -> Iterator[tuple[Ints, Ints]]:
    # Whatever contains the part has all of its trigrams, so it stands in the list of each of them: the list of the
    # rarest is the shortest, and only its texts are compared. A list is that of some trigrams of a scope.
    starts = np.cumsum(grams.sizes) - grams.sizes
    counts, lists = np.zeros(_LISTS, np.int64), np.empty(int(grams.sizes.sum()), np.uint32)
    for rows, cells in _steps(grams.sizes, STEP):
        lists[cells] = _spread(grams.of(rows), _LISTS)
        lists[cells] ^= np.repeat(_spread(grams.scopes[rows], _LISTS), grams.sizes[rows])
        counts += np.bincount(lists[cells], minlength=_LISTS)
    # The length above, the number of the list in the lower bits: the least of these is the shortest list.
    rarest, order = np.full(len(grams.sizes), -1), counts * _LISTS + np.arange(_LISTS)
    for rows, cells in _steps(grams.sizes, STEP):
        filled = rows.start + np.flatnonzero(grams.sizes[rows])
        if len(filled):
            least = np.minimum.reduceat(order[lists[cells]], starts[filled] - cells.start)
            rarest[filled] = least & (_LISTS - 1)
    parts = np.flatnonzero((rarest >= 0) & (counts[rarest] > 1))
    is_asked = np.zeros(_LISTS, bool)
    is_asked[rarest[parts]] = True
    asked = np.flatnonzero(is_asked[lists])
    asked = asked[np.argsort(lists[asked], kind="stable")]
    wholes = np.searchsorted(starts, asked, side="right") - 1
    ends = np.cumsum(np.where(is_asked, counts, 0))
    lengths = counts[rarest[parts]]
    for some in bar("parts of texts", _in_steps(lengths, _BATCH_PARTS), leave=False):
        part = np.repeat(parts[some], lengths[some])
        whole = wholes[ranges(ends[rarest[parts[some]]] - lengths[some], lengths[some])]
        is_longer = (grams.sizes[whole] >= grams.sizes[part]) & (grams.scopes[whole] == grams.scopes[part])
        yield part[is_longer], whole[is_longer]


def _in_steps(costs: Ints, most: int) -> list[Ints]:
    """Places in steps of about so much cost each."""
    return np.split(np.arange(len(costs)), np.flatnonzero(np.diff(np.cumsum(costs) // most)) + 1)


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


def unmarked(texts: pa.Array) -> Ints:
    """A number for each short text, the same where only marks and blanks differ; -1: a longer one.

    >>> unmarked(pa.array(["чай!", "— „чай“", "чай?"])).tolist()
    [0, 0, 1]
    """
    plain = [_AT_BORDERS.sub("", text).translate(_MARKS) if len(text) <= _SHORT else None for text in texts.to_pylist()]
    return np.asarray(pc.fill_null(pa.array(plain, pa.string()).dictionary_encode().indices, -1), np.int64)


def pairs_by_marks(plain: Ints, scopes: Ints, families: Families) -> Pairs:
    """The pairs of a scope that are the same but for marks, as `unmarked` numbers them."""
    short = np.flatnonzero(plain >= 0)
    key = plain[short] * (int(scopes.max(initial=0)) + 1) + scopes[short]
    i, j = (np.concatenate(side) for side in zip((_NONE, _NONE), *_equal_keys(short, key), strict=True))
    may_be = families.may_pair(i, j)
    return i[may_be], j[may_be], np.ones(int(may_be.sum()))


def in_other_marks(parts: Pairs, marked: Pairs) -> Pairs:
    """The pairs (part, whole), and the same of each text that `marked` pairs with the part: "чай!" for "чай"."""
    one, other = np.append(marked[0], marked[1]), np.append(marked[1], marked[0])
    order = np.argsort(one, kind="stable")
    begins, ends = (np.searchsorted(one, parts[0], side, sorter=order) for side in ("left", "right"))
    part, whole = other[order[ranges(begins, ends - begins)]], np.repeat(parts[1], ends - begins)
    part, whole = np.append(parts[0], part[part != whole]), np.append(parts[1], whole[part != whole])
    return part, whole, np.ones(len(part))


def lexical_pairs(grams: Grams, floor: float, families: Families | None = None) -> Pairs:
    """Pairs whose sets of trigrams have a cosine, shared / sqrt(size · size), of at least `floor`."""
    return lexical_of(grams, floor, _candidates(grams, floor, families or Families.none(len(grams.sizes))))


def lexical_of(grams: Grams, floor: float, pairs: Iterable[tuple[Ints, Ints]]) -> Pairs:
    """Those of some pairs whose cosine is at least `floor`, each once."""
    parts = [(_NONE, _NONE, np.empty(0)), *(_counted(grams, i, j, floor) for i, j in pairs)]
    i, j, cosine = (np.concatenate(part) for part in zip(*parts, strict=True))
    first = np.unique(np.minimum(i, j) * max(1, len(grams.sizes)) + np.maximum(i, j), return_index=True)[1]
    return np.minimum(i, j)[first], np.maximum(i, j)[first], cosine[first]


def _candidates(grams: Grams, floor: float, families: Families) -> Iterator[tuple[Ints, Ints]]:
    """The pairs that may be near enough, some at a time; a pair may come twice."""
    rows = np.flatnonzero(grams.sizes)
    rows = rows[np.argsort(grams.scopes[rows], kind="stable")]
    scopes = np.split(rows, np.flatnonzero(np.diff(grams.scopes[rows])) + 1)
    small = np.concatenate([_NONE, *(scope for scope in scopes if len(scope) < _SMALL)])
    yield from likely(grams, floor, families, _equal_keys(small, grams.scopes[small]))
    for scope in scopes:
        if len(scope) >= _SMALL:
            yield from _of_large(grams, floor, families, scope)


def likely(
    grams: Grams, floor: float, families: Families, pairs: Iterable[tuple[Ints, Ints]]
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
    lone, members = (_by_size(sizes, scope[chosen]) for chosen in (~is_member, is_member))
    groups, met = [*lone, *members], []
    ours, others = range(len(lone)), range(len(lone), len(groups))
    for pair in chain(combinations_with_replacement(ours, 2), product(ours, others)):
        shorter, longer = sorted(pair, key=lambda group: groups[group][2])
        least, (_, of_longer, most) = groups[shorter][2], groups[longer]
        if floor * floor * of_longer - _MARGIN <= least:
            met.append((longer, shorter, int(_most_apart(most, least, floor)), _bits(most, floor)))
    signed = cache(lambda group, bits: grams.signed(groups[group][0], bits))  # a group meets many
    for longer, shorter, most, bits in bar("near texts", met, leave=False):
        for one, other, apart in near_bits(signed(longer, bits), signed(shorter, bits), most):
            i, j = groups[longer][0][one], groups[shorter][0][other]
            is_once = i < j if longer == shorter else i != j
            fits = is_once & (apart <= _most_apart(sizes[i], sizes[j], floor))
            yield i[fits], j[fits]


def _most_apart(one: Any, other: Any, floor: float) -> Any:
    """In how many trigrams texts of these sizes differ at most, where their cosine is at least `floor`."""
    return one + other - 2 * floor * np.sqrt(one * other) + _MARGIN


def _by_size(sizes: Ints, rows: Ints) -> list[tuple[Ints, int, int]]:
    """Rows by their size, groups for each `_SIZE_STEP`, with the least and the greatest size of each."""
    order = np.argsort(sizes[rows], kind="stable")
    step = (np.log(sizes[rows[order]]) / np.log(_SIZE_STEP)).astype(np.int64)
    groups = np.split(rows[order], np.flatnonzero(np.diff(step)) + 1) if len(rows) else []
    # A group meets itself from both sides, so that two halves take three quarters of the time.
    parts = (group[start : start + _GROUP] for group in groups for start in range(0, len(group), _GROUP))
    return [(part, int(sizes[part[0]]), int(sizes[part[-1]])) for part in parts]


def _bits(size: int, floor: float) -> int:
    """Bits of a signature of so many trigrams: a power of two, and from 64 on, as FAISS is fast at."""
    return 1 << max(6, round(log2(max(1.0, _BITS_A_TRIGRAM * (1 - floor) * size))))


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
    # Of a step's pairs times `width` 64 bits hold the number; half of them, as a step may have one pair more.
    least = grams.width * _BATCH_GRAMS // (_NUMBERS // 2)
    for some in _in_steps(np.maximum(grams.sizes[i] + grams.sizes[j], least), _BATCH_GRAMS):
        a, b = ((grams.of(rows[some]), grams.sizes[rows[some]]) for rows in (i, j))
        shared[some] = n_shared(a, b, grams.width)
    # To the digits that are shown, so that a pair that is shown with the threshold reaches it.
    cosine = np.round(shared / np.sqrt(grams.sizes[i] * grams.sizes[j]), 6)
    near = cosine >= floor
    return i[near], j[near], cosine[near]


def _may_share(grams: Grams, i: Ints, j: Ints, least: NDArray[Any]) -> Ints:
    """The places of the pairs that may share at least so many."""
    # Signatures bound what two sets share from above (Sandes, Teodoro, Melo 2020); most candidates end at the first.
    places, apart = np.arange(len(i)), np.zeros(len(i), dtype=np.int64)
    # Two words end most pairs and four more nearly all others, so that ten of sixteen are read of few.
    for words in np.split(grams.signatures, (2, 6)):
        for word in words:
            apart += np.bitwise_count(word[i] ^ word[j])
        likely = (grams.sizes[i] + grams.sizes[j] - apart) // 2 >= least
        places, i, j, apart, least = (some[likely] for some in (places, i, j, apart, least))
    return places
