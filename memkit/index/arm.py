"""What an arm can do besides finding candidates, and terms that are searched in place of words that no text has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.index.postings import Postings
from memkit.schemas import Ints, Mask
from memkit.text.letters import FUNCTION_WORDS


class Abilities:
    """What an arm can do besides finding candidates: nothing, unless it says otherwise.

    Attributes
    ----------
    lends : bool
        Whether turns of a conversation lend each other what they are found by, with `candidates_in_turns`.
    spells : bool
        Whether its terms are words, so that others may stand for one: its ``candidates`` take ``near``, and
        ``sight(visible)`` has the terms of these rows, or of all for None.
    """

    lends: ClassVar[bool] = False
    spells: ClassVar[bool] = False

    @property
    def is_exact(self) -> bool:
        """Whether the best n are the first of its best 2 n."""
        return True

    def candidates_in_turns(self, *request: Any, **options: Any) -> pa.Table:
        """``candidates(queries, n, allowed, turns, lending)``: a turn also has a share of what turns around it have."""
        raise NotImplementedError

    def near_terms(self, queries: Sequence[str], sight: Sight) -> Sequence[Nearest]:
        """For each query its words that no row in sight has, with the nearest term; empty if words are not read."""
        return ()

    def updated(self, former_row: Ints, chunks: pa.Table, texts: Any) -> Any:
        """A copy fitted to `texts` that reads only those of new rows; None where a full fit is needed."""
        return None


_SHORTEST = 5
"""Letters of the shortest word that is read as another."""
_EDITS = {8: 2, 4: 1}
"""The most edits that part a term from the nearest, by its least number of letters; shorter ones have none."""
_SHORTEST_TERM = 3
_QUOTED = re.compile(r"\"[^\"]*\"|«[^»]*»|“[^”]*”|„[^“]*“|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")
_BITS = np.uint64(64)


@dataclass(frozen=True)
class Sight:
    """The terms that a question may see, in the rows that it may see.

    Attributes
    ----------
    parts : tuple of tuple (Postings, ndarray of uint8 or None)
        An index, or several, and its rows that the question may see, eight to a byte; None: all.
    """

    parts: tuple[tuple[Postings, NDArray[np.uint8] | None], ...]

    @classmethod
    def over(cls, *parts: tuple[Postings, Mask | None]) -> Self:
        """Over indexes and masks of their rows."""
        return cls(tuple((lists, None if rows is None else np.packbits(rows)) for lists, rows in parts))

    @classmethod
    def joined(cls, sights: Iterable[Self]) -> Self:
        """Over all parts of several."""
        return cls(tuple(part for sight in sights for part in sight.parts))

    def count(self, term: str) -> int:
        """The number of rows in sight that have the term."""
        return sum(len(self.rows(term, part)) for part in range(len(self.parts)))

    def rows(self, term: str, part: int = 0) -> Ints:
        """The rows of one index, in sight, that have the term."""
        lists, bits = self.parts[part]
        number = lists.terms.get(term)
        rows: Ints = np.empty(0, np.int64) if number is None else lists.postings_of(number)[0]
        return rows if bits is None else rows[(bits[rows >> 3] >> (7 - (rows & 7)) & 1).astype(bool)]


Nearest: TypeAlias = Mapping[str, str]
"""For each word of a query that no text in sight has the nearest term in sight, if there is one."""


def readable(query: str) -> list[str]:
    """The words of a query that may be read as others: long enough, without digits, not in quotes.

    >>> readable('где «Постгресс» и E4021_log, настройкка пулла')
    ['настройкка', 'пулла']
    """
    text = unicodedata.normalize("NFC", _QUOTED.sub(" ", query)).lower()
    words = (word for word in dict.fromkeys(_WORD.findall(text)) if len(word) >= _SHORTEST)
    return [word for word in words if word.replace("ё", "е") not in FUNCTION_WORDS]


class NearWords:
    """The terms of an index that are made of letters, by length and by the set of their letters.

    An edit changes the length by at most 1 and the set of letters by at most 2, so that few terms are compared.

    Parameters
    ----------
    terms : iterable of str

    Examples
    --------
    >>> found = NearWords(["настройк", "пул", "e4021"]).within("настрйок", 2)
    >>> list(found)
    [(1, 'настройк')]
    """

    def __init__(self, terms: Iterable[str]) -> None:
        named = (term for term in terms if len(term) >= _SHORTEST_TERM and term.isalpha())
        self._terms = sorted(named, key=len)
        self._sizes = np.array([len(term) for term in self._terms], np.int64)
        self._letters = _letters(self._terms, self._sizes)

    def within(self, term: str, most: int) -> Iterator[tuple[int, str]]:
        """Terms that at most so many edits (Damerau-Levenshtein) part from `term`, with their distance."""
        from rapidfuzz.distance import DamerauLevenshtein

        first, last = np.searchsorted(self._sizes, (len(term) - most, len(term) + most + 1))
        differing = np.bitwise_count(self._letters[first:last] ^ _letters([term], np.array([len(term)])))
        for index in (first + np.flatnonzero(differing <= 2 * most)).tolist():
            distance = DamerauLevenshtein.distance(term, self._terms[index], score_cutoff=most)
            if distance <= most:
                yield distance, self._terms[index]

    def nearest(self, term: str, sight: Sight) -> str | None:
        """The nearest term in sight: of those as near, the one of most rows."""
        most = next((edits for letters, edits in _EDITS.items() if len(term) >= letters), 0)
        near = list(self.within(term, most)) if most else []
        if len(term) < _SHORTEST:  # of four letters another first one is another word: «часто» is not «Настя»
            near = [candidate for candidate in near if candidate[1][0] == term[0]]
        by_distance = ((distance, -sight.count(other), other) for distance, other in near)
        return min((candidate for candidate in by_distance if candidate[1]), default=(0, 0, None))[2]


def _letters(terms: Sequence[str], sizes: Ints) -> np.ndarray:
    """For each term a bit for each of its letters; letters may share one."""
    if not len(terms):
        return np.empty(0, np.uint64)
    codes = np.frombuffer("".join(terms).encode("utf-32-le"), np.uint32).astype(np.uint64)
    return np.bitwise_or.reduceat(np.uint64(1) << (codes % _BITS), np.cumsum(sizes) - sizes)
