"""Texts of one template: its words recur, and what differs is a name, a number or a word that few texts have.

Two texts of one template that fill its gaps differently say two things. So they are no pair, and none is made: the
pairs of a template are as many as the square of its texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import Ints, Mask

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
    def of(cls, texts: Sequence[str], scopes: Ints) -> Self:
        """The templates among texts as they are written; texts of two scopes have none in common.

        >>> texts = [f"Страница о проекте Север{n}: решения и встречи" for n in range(20)]
        >>> families = Families.of(texts, np.zeros(len(texts), np.int64))
        >>> bool(families.is_member.all()), len(np.unique(families.gaps)) == len(texts)
        (True, True)
        """
        n = len(texts)
        if np.bincount(scopes).max(initial=0) < _MANY:
            return cls.none(n)
        words = pc.split_pattern_regex(pa.array(texts, pa.large_string()), r"[^\pL\pN]+")
        text = pc.list_parent_indices(words).to_numpy()
        encoded = pc.list_flatten(words).dictionary_encode()
        code, written = encoded.indices.to_numpy(), encoded.dictionary
        is_word = _flags(pc.not_equal(written, ""))[code]
        text, code = text[is_word], code[is_word]
        small = pc.utf8_lower(written)
        has_digit, is_name = (pc.match_substring_regex(written, pattern) for pattern in (r"\pN", r"^\p{Lu}"))
        # Of a number each figure counts, of a word its stem.
        filling = _codes(pc.if_else(has_digit, small, pc.utf8_slice_codeunits(small, 0, _STEM)))[code]
        word = _codes(small)[code]
        is_first = np.append(True, text[1:] != text[:-1])[: len(text)]
        is_gap = _flags(has_digit)[code] | (_flags(is_name)[code] & ~is_first)
        is_gap |= _texts_with(word, text, scopes) < _MANY
        kept, said = np.bincount(text[~is_gap], minlength=n), np.bincount(text, minlength=n)
        place = np.cumsum(~is_gap)
        place -= np.repeat((place - ~is_gap)[is_first], said[said > 0])
        skeleton = _hashes(np.where(is_gap, 0, mix((word << np.int64(24)) + place)), text, n)
        gaps = _hashes(np.where(is_gap, mix(filling + 1), 0), text, n)
        number = _numbered(skeleton, scopes)
        is_member = (np.bincount(number)[number] >= _MANY) & (kept >= _LEAST_WORDS) & (kept >= _LEAST_SHARE * said)
        return cls(is_member, _numbered(gaps, scopes))

    def may_pair(self, left: Ints, right: Ints) -> Mask:
        """Which pairs are not kept apart by what their texts have in the gaps of a template."""
        apart: Mask = self.is_member[left] & self.is_member[right] & (self.gaps[left] != self.gaps[right])
        return ~apart

    def take(self, rows: Ints) -> Self:
        """The same for some of the texts."""
        return type(self)(self.is_member[rows], self.gaps[rows])


def mix(values: NDArray[Any]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    values = (values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def _flags(values: pa.Array) -> Mask:
    flags: Mask = values.to_numpy(zero_copy_only=False).astype(bool)
    return flags


def _codes(values: pa.Array) -> Ints:
    codes: Ints = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _texts_with(word: Ints, text: Ints, scopes: Ints) -> Ints:
    """For each word of a text, how many texts of its scope have it."""
    n = len(scopes)
    once = np.unique(word * n + text)
    width = int(scopes.max(initial=0)) + 1
    keys, counts = np.unique((once // n) * width + scopes[once % n], return_counts=True)
    counted: Ints = counts[np.searchsorted(keys, word * width + scopes[text])]
    return counted


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
