"""Texts of one template: its words recur, and what differs is a name, a number or a word that few texts have.

Two texts of one template that fill its gaps differently say two things. So they are no pair, and none is made: the
pairs of a template are as many as the square of its texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import Ints, Mask

Texts: TypeAlias = Sequence[str] | pa.Array
"""Texts as a list or as an array of Arrow, which takes half the memory."""
STEP = 2048
"""Texts that are read at once."""
_MANY = 16
"""So many texts of one skeleton are of a template, and a word that fewer texts have stands in a gap."""
_LEAST_WORDS, _LEAST_SHARE = 4, 0.5
"""A skeleton has at least so many words, and so much of its text."""
_STEM = 5
"""The letters by which two forms of a word are one."""


@dataclass(frozen=True)
class Families:
    """Which texts are of a template, and what each has in the gaps.

    Attributes
    ----------
    is_member : ndarray of bool, shape (texts,)
    gaps : ndarray of int64, shape (texts,)
        Equal for texts of one scope that have the same words in the gaps, whatever their template.
    """

    is_member: Mask
    gaps: Ints

    @classmethod
    def none(cls, n: int) -> Self:
        """So many texts without a template."""
        return cls(np.zeros(n, bool), np.zeros(n, np.int64))

    @classmethod
    def of(cls, texts: Texts, scopes: Ints) -> Self:
        """The templates among texts as they are written; texts of two scopes have none in common.

        >>> texts = [f"Страница о проекте Север{n}: решения и встречи" for n in range(20)]
        >>> families = Families.of(texts, np.zeros(len(texts), np.int64))
        >>> bool(families.is_member.all()), len(np.unique(families.gaps)) == len(texts)
        (True, True)
        """
        n = len(texts)
        if np.bincount(scopes).max(initial=0) < _MANY:
            return cls.none(n)
        words = _Words.of(texts)
        has_digit, is_name, filling = words.has_digit, words.is_name, mix(words.filling + 1)
        rare = words.rare(scopes)
        skeleton, gaps = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        kept, said = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for some, text, code, is_rare in zip(words.blocks, words.text, words.code, rare, strict=True):
            is_first = np.append(True, text[1:] != text[:-1])[: len(text)]
            is_gap = has_digit[code] | (is_name[code] & ~is_first) | is_rare
            width = some.stop - some.start
            kept[some], said[some] = np.bincount(text[~is_gap], minlength=width), np.bincount(text, minlength=width)
            place = np.cumsum(~is_gap)
            place -= np.repeat((place - ~is_gap)[is_first], said[some][said[some] > 0])
            known = mix((words.word[code] << np.int64(24)) + place)
            skeleton[some] = _hashes(np.where(is_gap, 0, known), text, width)
            gaps[some] = _hashes(np.where(is_gap, filling[code], 0), text, width)
        number, filled = _numbered(skeleton, scopes), _numbered(gaps, scopes)
        # What is said twice counts once, so that without its copies a folder has the templates that it had.
        n = max(1, len(number))
        fillings = np.unique(number * n + filled) // n
        is_member = (np.bincount(fillings)[number] >= _MANY) & (kept >= _LEAST_WORDS) & (kept >= _LEAST_SHARE * said)
        return cls(is_member, filled)

    def may_pair(self, left: Ints, right: Ints) -> Mask:
        """Which pairs are not kept apart by what their texts have in the gaps of a template."""
        apart: Mask = self.is_member[left] & self.is_member[right] & (self.gaps[left] != self.gaps[right])
        return ~apart


def mix(values: NDArray[Any]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    values = (values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


class _Words(NamedTuple):
    """The words of texts in order, a block of texts at a time, and what is asked of each distinct one."""

    blocks: list[slice]
    text: list[Ints]
    """By block, the text of each word, from the block's first on."""
    code: list[NDArray[np.int32]]
    has_digit: Mask
    is_name: Mask
    word: Ints
    """By code, a number for the word in whatever case."""
    filling: Ints
    """By code, a number for what is compared in a gap: of a number each figure, of a word its stem."""

    @classmethod
    def of(cls, texts: Texts) -> Self:
        blocks, owners, parts = list[slice](), list[Ints](), list[pa.DictionaryArray]()
        for start in range(0, len(texts), STEP):
            blocks.append(slice(start, min(start + STEP, len(texts))))
            some = texts[blocks[-1]]
            some = some if isinstance(some, pa.Array) else pa.array(some, pa.large_string())
            words = pc.split_pattern_regex(some, r"[^\pL\pN]+")
            encoded = pc.list_flatten(words).dictionary_encode()
            is_word = pc.not_equal(encoded.indices, pc.index(encoded.dictionary, ""))
            owners.append(pc.list_parent_indices(words).filter(is_word).to_numpy().astype(np.int32))
            parts.append(pa.DictionaryArray.from_arrays(encoded.indices.filter(is_word), encoded.dictionary))
        parts = pa.chunked_array(parts).unify_dictionaries().chunks
        written = parts[0].dictionary
        small = pc.utf8_lower(written)
        has_digit, is_name = (pc.match_substring_regex(written, pattern) for pattern in (r"\pN", r"^\p{Lu}"))
        filling = _codes(pc.if_else(has_digit, small, pc.utf8_slice_codeunits(small, 0, _STEM)))
        code = [part.indices.to_numpy() for part in parts]
        return cls(blocks, owners, code, _flags(has_digit), _flags(is_name), _codes(small), filling)

    def rare(self, scopes: Ints) -> Iterator[Mask]:
        """By block, for each word whether few texts of its scope have it."""
        n, several, once = len(self.word), int(scopes.max(initial=0)) + 1, list[Ints]()
        for some, text, code in zip(self.blocks, self.text, self.code, strict=True):
            # A text counts once, however often it has the word.
            cells = np.sort(text.astype(np.int64) * n + self.word[code])
            text, word = np.divmod(cells[np.append(True, cells[1:] != cells[:-1])[: len(cells)]], n)
            once.append(word * several + scopes[some][text])
        known = np.sort(np.concatenate(once))
        last = known[_MANY - 1 :]
        often = np.unique(last[last == known[: len(last)]])
        for some, text, code in zip(self.blocks, self.text, self.code, strict=True):
            key = self.word[code] * several + scopes[some][text]
            yield ~np.isin(key, often)


def _flags(values: pa.Array) -> Mask:
    flags: Mask = values.to_numpy(zero_copy_only=False).astype(bool)
    return flags


def _codes(values: pa.Array) -> Ints:
    codes: Ints = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _hashes(values: NDArray[np.uint64], text: Ints, n: int) -> NDArray[np.uint64]:
    """The sum of the values of each text, in whatever order."""
    hashes = np.zeros(n, np.uint64)
    if len(values):
        starts = np.flatnonzero(np.append(True, text[1:] != text[:-1]))
        hashes[text[starts]] = np.add.reduceat(values.astype(np.uint64), starts)
    return hashes


def _numbered(hashes: NDArray[np.uint64], scopes: Ints) -> Ints:
    """A number for each value of a scope."""
    numbers: Ints = np.unique(mix(hashes) ^ mix(scopes), return_inverse=True)[1].astype(np.int64)
    return numbers
