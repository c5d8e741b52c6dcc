"""What two texts may conflict in, read once a text and kept as columns: numbers, dates, negations, words, statements.

A text is a list of places (sentences and lines). Each distinct place, and each distinct statement, is read once and has
a number, so that pairs of texts are compared by numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memkit.base import hashes
from memkit.base.fences import CLOSED
from memkit.schemas import Floats, Ints, Mask
from memkit.text.analyse import distinct, ranges
from memkit.text.contradictions import contradiction
from memkit.text.languages import folded
from memkit.text.one_word import Lexicon, Synonyms, Words, lacking
from memkit.text.statements import THOUSANDS, UNITS, Reader, Statement, pieces_of
from memkit.text.when import in_one_spelling

# Enough to see which sentences stand opposite each other; what differs in them is compared by stems.
_STEM = 5
_AT_ONCE = 200_000
"""Pairs of sets that are compared at once."""
# The number of a step stays with it. It begins with a blank, as Python's `re` skips all else at twice the speed.
_UNIT = re.compile(r"\s(?:(?<=[.!?…;].)(?<!^\d\..)(?<!^\d\d\..)\s*|(?<=\n)\n*)", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_NUMBER = re.compile(
    r"(?=[-−–\d])(?:(?<![^\s(\[{«\"'=:<>≤≥])[-−–])?"
    r"(?:\d{1,3}(?:[^\S\n]\d{3}(?!\d)){1,3}(?![^\S\n]?[-\d])|\d+)(?:[.,:]\d+)*"  # "5 000" is one, a phone is several
)
_SIGN_OF = {
    "of an amount, of a sum": r"[%‰$€£¥₽]|(?<=\d)\+(?!\d)|(?<=[^\W\d_])\+(?=\w)",
    "a bound": r"[≠≤≥]|!=|(?<![-=])(?:<|(?<!^)>)=?(?=\s?[-−]?\d)|^>=?(?=\d)",  # a line "> 5" is a quote
    "the begin of one (.env, /etc, !x)": r"(?<!\w)(?:!|\.{1,2}/|\.(?=[^\W\d_])|(?<![/.~:])/)(?=\w)",
    "an option": r"(?<![\w-])--(?=\w)|(?<=\s)-(?=[A-Za-z])",
    "a face, a question": r"[:;]-?[()](?!\w)|\?(?!\?)",
    "a ticked box": rf"\[[{CLOSED}]\](?=\s)",
    "a call, a list (f(), a[])": r"(?<=\w)(?:\(\)|\[\]|\{\})",
    "a private name": r"(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)",
    "code": r"[*^\\@]+|~+(?!\d)|==+|&&|\|\||(?<=\w)[&|](?=\w)|(?<!\w)&(?=\w)",
    "an arrow": r"(?<!^)[-=]>|[→⇒←]|(?<=\s)(?:<[-=]|[<>]{1,2})(?=\s)",
}
_WORD_SIGN_OF = {
    "a bound in words": r"\b(?:(?:over|under|от|до|свыше)(?=\s\d)|(?:[Aa]lmost|[Nn]early|[Пп]очти|[Ee]very other)\b)",
    "a state in a word": r"\boff(?=\W*\Z)|(?:(?<=[Нн]а )|(?<=[Нн]а [«\"„]))(?:ты|вы)\b",
    "the end of a name (C++, Rh-)": r"(?<!\w)[^\W\d_]++(?:\++|#)(?!\w)|(?<!\w)[A-ZА-Я][a-zа-я]?[-−](?!\w)",
}
# At a mark no word is looked for, and the other way round; most letters begin none: .04 s, not .15.
_SIGN = re.compile(
    rf"(?=[^\w\s]|_)(?:{'|'.join(_SIGN_OF.values())})|\b(?=[^\W\d_])(?:{'|'.join(_WORD_SIGN_OF.values())})"
)
_SIGNS = str.maketrans({"−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "→": "->", "⇒": "=>", "←": "<-"})
_MARK_OF = {
    "code, which stays": r"(?P<code>`[^`\n]*`|(?<!\w)__[a-z\d]+__(?!\w))",
    "stars": r"(?<![\w*/\\])(?P<stars>\*{1,3})(?=[^\s*])(?P<starred>[^*\n]+)(?<=\S)(?P=stars)(?![\w*])",
    "lines": r"(?<!\w)(?P<lines>_{1,3})(?=[^\s_])(?P<lined>[^_\n]+)(?<=\S)(?P=lines)(?!\w)",
    "a stroke or a marker": r"(?P<double>~~|==)(?=[^\s=~])(?P<doubled>[^=~\n]+)(?<=\S)(?P=double)",
    "a link called by its address": r"\[(?P<address>[^\[\]\n]+)\]\((?:mailto:|https?://)?(?P=address)\)",
    "a comment": r"<!--[^<>\n]*-->",
    "the star of an item, a rule": r"^[^\S\n]*(?:\*[^\S\n]+|[*_=-]{3,}[^\S\n]*$)",
}
_MARKED = re.compile(rf"(?=[`*_~=\[<]|^)(?:{'|'.join(_MARK_OF.values())})", re.MULTILINE)
"""Marks of Markdown, where the same signs in code are facts (*.py, logs*)."""
_LONE = re.compile(r"\A[^\S\n]*\d{1,3}[.)][^\S\n]+(?=\S[^\n]*\Z)")
"""The number of a lone item."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./][0-9]{1,2}(?:[./][0-9]{2,4})?")


def without_emphasis(text: str) -> str:
    """A text without the marks of Markdown that say nothing, as those of emphasis; those of code stay.

    >>> without_emphasis("**Удалять** _каждую ночь_ logs*, *.py и __init__")
    'Удалять каждую ночь logs*, *.py и __init__'
    """
    return _MARKED.sub(lambda found: found[found.lastgroup] if found.lastgroup else "", text)


_UNITS_OF = {word: line.split()[0] for line in UNITS if line[0] in "%$€₽" for word in line.split()[1:]}
_SPELLED = re.compile(  # most characters begin none
    rf"(?=[\d,+]|\s[%$€₽{''.join(sorted({word[0] for word in _UNITS_OF}))}])(?:"
    r"(?<![\w:.,-])0(?=\d:\d\d(?!\d))|(?P<point>(?<=\d),(?=\d{1,2}(?!\d|[.,]\d)))"
    r"|(?P<phone>\+\d(?:[ ()-]{0,2}\d){9,14}(?!\d))"
    rf"|[^\S\n](?P<unit>{'|'.join(_UNITS_OF)})\b|(?<=\d)[^\S\n](?=[%$€₽]))",
    re.IGNORECASE,
)
"""The zero of an hour, the comma of a decimal, a telephone number, and the words for a sign."""


def without_spellings(text: str) -> str:
    """A text in which a day, an hour, a telephone number, money and percent are spelled in one way.

    >>> without_spellings("09:00, +7 (916) 123-45-67, 80 процентов, 12 марта 2026")
    '9:00, +79161234567, 80%, 2026-03-12'
    """
    return in_one_spelling(_SPELLED.sub(_one_spelling, text))


def _one_spelling(found: re.Match[str]) -> str:
    if found["phone"]:
        return re.sub(r"[ ()-]", "", found["phone"])
    return _UNITS_OF[found["unit"].lower()] if found["unit"] else "." * (found["point"] is not None)


_NONE: Ints = np.empty(0, np.int64)
_UNSEEN = -2  # a text that was not looked at yet; -1: one without a key


class Numbers:
    """A number for each value, in the order of first use; `values` has them in that order."""

    def __init__(self) -> None:
        self._of: dict[Hashable, int] = {}
        self.values: list[Any] = []

    def __call__(self, value: Hashable) -> int:
        number = self._of.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Sets:
    """Sets of numbers, one a row; a row that was not put is empty."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._made: tuple[Ints, Ints, Ints, NDArray[np.uint64]] | None = None

    def put(self, row: int, members: Collection[int]) -> None:
        """Set a row."""
        self._rows += [_NONE] * (row + 1 - len(self._rows))
        self._rows[row] = np.fromiter(members, np.int64, len(members))
        self._made = None

    def dice(self, left: Ints, right: Ints, least: float) -> Floats:
        """The Dice coefficient of pairs of rows, exact where it is at least `least`, else 0."""
        dice = np.zeros(len(left))
        members, starts, sizes, signatures = self._columns()
        both = sizes[left] + sizes[right]
        # Each member flips one bit, so two rows differ in no fewer members than their signatures do in bits.
        apart = np.bitwise_count(signatures[left] ^ signatures[right]).astype(np.int64)
        likely = np.flatnonzero((both > 0) & (both - apart >= least * both))
        width = int(members.max(initial=0)) + 1
        for start in range(0, len(likely), _AT_ONCE):
            some = likely[start : start + _AT_ONCE]
            a, b = ((members[ranges(starts[rows], sizes[rows])], sizes[rows]) for rows in (left[some], right[some]))
            dice[some] = 2 * n_shared(a, b, width) / both[some]
        dice[dice < least] = 0.0
        return dice

    def _columns(self) -> tuple[Ints, Ints, Ints, NDArray[np.uint64]]:
        """The members of all rows, end to end; where each row starts, its size, and its signature."""
        if self._made is None:
            sizes = np.array([len(row) for row in self._rows], dtype=np.int64)
            members = np.concatenate([*self._rows, _NONE])
            ends = np.append(0, np.cumsum(sizes))
            # By 2**64 over the golden ratio, which spreads near numbers; the upper six bits choose one of 64.
            bits = np.uint64(1) << ((members.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58))
            signatures = np.zeros(len(sizes), np.uint64)
            some = sizes > 0
            signatures[some] = np.bitwise_xor.reduceat(bits, ends[:-1][some])
            self._made = members, ends[:-1], sizes, signatures
        return self._made


def n_shared(left: tuple[NDArray[Any], Ints], right: tuple[NDArray[Any], Ints], width: int) -> Ints:
    """How many members each pair of sets shares; a side is its sets end to end, of numbers below `width`, and sizes.

    >>> n_shared((np.array([0, 1, 2]), np.array([2, 1])), (np.array([1, 3]), np.array([1, 1])), 4).tolist()
    [1, 0]
    """
    n = len(left[1])
    cells = [np.repeat(np.arange(n) * width, sizes) + members for members, sizes in (left, right)]
    both = np.sort(np.concatenate(cells), kind="stable")  # two sorted runs are merged in a tenth of the time of a sort
    twice = both[1:][both[1:] == both[:-1]]
    return np.bincount(twice // width, minlength=n)


class Facts:
    """The facts of texts, read when a pair asks for them.

    Parameters
    ----------
    texts : sequence of str
    traits : WordReader
    lexicon : Lexicon
    synonyms : Synonyms, optional
        Which words mean the same; by default none do.
    """

    def __init__(
        self, texts: Sequence[str], traits: WordReader, lexicon: Lexicon, synonyms: Synonyms | None = None
    ) -> None:
        self.texts = texts
        self.places = Places(traits)
        self.statements = Statements(lexicon.reader)
        self.words = Words(lexicon, synonyms)
        self.text: Ints = np.full(len(texts), -1)
        """The number of a text; equal texts have one."""
        self.lengths: Ints = np.zeros(len(texts), np.int64)
        self._number = Numbers()
        self._plain: dict[int, str] = {}
        self._paragraph = cache(lambda text: without_spellings(without_emphasis(text)))  # copies share most of theirs
        self._units: list[Ints] = []
        self._stated: dict[int, Ints] = {}

    def read(self, rows: Ints) -> None:
        """Cut texts into their places, each text once."""
        new = distinct(rows[self.text[rows] < 0]).tolist()
        for row in new:
            paragraphs = _LONE.sub("", self.texts[row]).split("\n\n")
            text = self._plain[row] = "\n\n".join(map(self._paragraph, paragraphs))
            number = self.text[row] = self._number(text)
            self.lengths[row] = len(text)
            if number == len(self._units):
                self._units.append(np.array(list(dict.fromkeys(map(self.places, _UNIT.split(text)))), np.int64))

    def whole(self, rows: Ints) -> Ints:
        """The place that each text is as a whole."""
        return np.array([self.places(self._plain[row]) for row in rows.tolist()], np.int64)

    def units(self, rows: Ints) -> list[Ints]:
        """The places of texts, each once and in order."""
        return [self._units[number] for number in self.text[rows].tolist()]

    def differences(self, left: Ints, right: Ints) -> Mask:
        """Whether pairs of texts differ as a whole in numbers, dates and negations; shape (pairs, 3).

        What a text says is the sum of what its places say, so only places that one of two texts has are read.
        """
        sums = np.zeros((len(left), len(SAID)), np.int64)
        sides = _apart(self.units(left), self.units(right))
        for (places, sizes), add in zip(sides, (np.add, np.subtract), strict=True):
            add.at(sums, np.repeat(np.arange(len(left)), sizes), self.places.said(places))
        return sums.astype(bool)

    def stated(self, rows: Ints) -> list[Ints]:
        """The statements of texts, each once and in order."""
        for row in rows.tolist():
            number = int(self.text[row])
            if number not in self._stated:
                numbers = dict.fromkeys(map(self.statements, pieces_of(self._plain[row])))
                self._stated[number] = np.array(list(numbers), np.int64)
        return [self._stated[number] for number in self.text[rows].tolist()]


SAID = ("numbers", "dates", "negations")
"""What is compared of two places, and of two texts as a whole."""


class Places:
    """Distinct sentences and lines, which are read when asked for, with their traits as columns."""

    def __init__(self, traits: WordReader) -> None:
        self._number, self._term = Numbers(), Numbers()
        self.texts, self._traits = self._number.values, traits
        self._said: Ints = np.zeros((0, len(SAID)), np.int64)
        self._is_read: Mask = np.zeros(0, bool)
        self._content = Sets()

    def __call__(self, text: str) -> int:
        """The number of a place."""
        return self._number(text)

    def said(self, places: Ints) -> Ints:
        """What places say in numbers, dates and negations, each as one number; shape (places, 3).

        Equal ones say the same, and that of several places is the sum of theirs.
        """
        self._read(places)
        return self._said[places]

    def dice(self, left: Ints, right: Ints, least: float) -> Floats:
        """The Dice coefficient of the words of pairs of places, exact where it is at least `least`, else 0."""
        self._read(np.append(left, right))
        return self._content.dice(left, right, least)

    def _read(self, places: Ints) -> None:
        more = len(self.texts) - len(self._said)
        if more:
            self._said = np.concatenate([self._said, np.zeros((more, len(SAID)), np.int64)])
            self._is_read = np.append(self._is_read, np.zeros(more, bool))
        new = places[~self._is_read[places]]
        for place in distinct(new).tolist():
            numbers, dates, n_denials, content = self._traits(self.texts[place])
            self._said[place] = sum(map(_code, numbers)), sum(map(_code, dates)), n_denials
            self._content.put(place, [self._term(term) for term in content])
        self._is_read[new] = True


def _code(value: str) -> int:
    """A number for a value, so that the sum of those of some values says which they are."""
    return hashes.place(value) >> 16  # sums of thousands stay below 64 bits


class Statements:
    """Distinct statements, which are read when asked for, with what a first look compares as columns."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._number, self._key, self._term, self._telling = Numbers(), Numbers(), Numbers(), Numbers()
        self._texts = self._number.values
        self._read: dict[int, Statement] = {}
        self._kinds: dict[tuple[int, int], frozenset[str]] = {}
        self._facts: Ints = np.empty((0, 3), np.int64)
        self._looks: Ints = np.empty((0, 4), np.int64)
        self.content = Sets()

    def __call__(self, piece: str) -> int:
        """The number of a statement."""
        return self._number(piece)

    def may_contradict(self, left: Ints, right: Ints) -> Mask:
        """Which pairs of statements may contradict each other: a first look, which spares reading most."""
        self._look(np.append(left, right))
        denies, is_measured, telling, key = self._looks.T
        one_key = (key[left] == key[right]) & (key[left] >= 0)
        differ = (denies[left] | denies[right] | (is_measured[left] & is_measured[right])).astype(bool)
        return np.asarray(one_key | (differ & (telling[left] != telling[right])), bool)

    def _look(self, asked: Ints) -> None:
        more = np.full((len(self._texts) - len(self._looks), 4), _UNSEEN)
        self._looks = np.concatenate([self._looks, more])
        new = distinct(asked[self._looks[asked, 0] == _UNSEEN])
        looks = self._reader.first_look([self._texts[number] for number in new.tolist()])
        for number, look in zip(new.tolist(), looks, strict=True):
            key = self._key(look.key) if look.key else -1
            self._looks[number] = look.denies, look.is_measured, self._telling(look.telling), key

    def columns(self, asked: Ints) -> tuple[Ints, Mask, Ints]:
        """Columns in which the statements that are `asked` for are read.

        The numbers of denials, whether there is a number or a date, and the number of the attribute (-1: none).
        """
        new = [number for number in distinct(asked).tolist() if number not in self._read]
        more = np.zeros((len(self._texts) - len(self._facts), 3), np.int64)
        self._facts = np.concatenate([self._facts, more])
        for number, one in zip(new, self._reader.statements([self._texts[number] for number in new]), strict=True):
            self._read[number] = one
            is_measured = bool(one.quantities or one.dates or one.times)
            self._facts[number] = one.n_denials, is_measured, self._key(one.key) if one.key else -1
            self.content.put(number, [self._term(stem) for stem in one.content])
        denials, is_measured, key = self._facts.T
        return denials, is_measured.astype(bool), key

    def kinds(self, one: int, other: int) -> frozenset[str]:
        """How two statements contradict each other, whichever is older; asked once a pair."""
        known = self._kinds.get((one, other))
        if known is None:
            a, b = self._read[one], self._read[other]
            both = contradiction(a, b), contradiction(b, a)
            known = self._kinds[one, other] = frozenset(how.kind for how in both if how is not None)
        return known


class WordReader:
    """Reads the numbers and dates of texts, how often they deny, and their other words, shortened.

    What a word is, is asked once a word.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._words: dict[str, tuple[str, str]] = {}

    def __call__(self, text: str) -> tuple[list[str], list[str], int, set[str]]:
        signs, text = _SIGN.findall(text), text.casefold()
        # With another sign it is another number.
        numbers = [THOUSANDS.sub("", one.translate(_SIGNS)).casefold() for one in (*_NUMBER.findall(text), *signs)]
        said: dict[str, list[str]] = {"number": numbers, "date": _DATE.findall(text)}
        n_denials, others = 0, set()
        for word in _WORD.findall(text):
            kind, value = self._words.get(word) or self._words.setdefault(word, self._kind(folded(word)))
            if kind == "word":
                others.add(value)
            elif kind == "negation":
                n_denials += 1
            else:
                said[kind].append(value)
        return said["number"], said["date"], n_denials, others

    def _kind(self, word: str) -> tuple[str, str]:
        day = self._reader.days.match(word)
        if word in self._reader.digits:
            return "number", self._reader.digits[word]
        if day:
            return "date", day[0]
        return ("negation", word) if self._reader.is_negation(word) else ("word", word[:_STEM])


class Cells(NamedTuple):
    """Each of the left with each of the right, of many pairs of lists; none is a member of both lists.

    Attributes
    ----------
    pair : ndarray of int64
        The pair of lists, ascending.
    left, right : ndarray of int64
        The members, in the order of their lists.
    n : ndarray of int64
        The number of cells of each pair.
    """

    pair: Ints
    left: Ints
    right: Ints
    n: Ints


def cells(left: Sequence[Ints], right: Sequence[Ints], most: int) -> Cells:
    """The cells of pairs of lists; pairs of more than `most` have none, and their number says so."""
    (of_left, n_left), (of_right, n_right) = _apart(left, right)
    n = n_left * n_right
    shown = np.where(n <= most, n, 0)
    pair = np.repeat(np.arange(len(n)), shown)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(shown) - shown, shown)
    row, column = np.divmod(place, np.maximum(1, n_right)[pair])
    first, second = np.cumsum(n_left) - n_left, np.cumsum(n_right) - n_right
    return Cells(pair, of_left[first[pair] + row], of_right[second[pair] + column], n)


def _apart(left: Sequence[Ints], right: Sequence[Ints]) -> Iterator[tuple[Ints, Ints]]:
    """The lists without the members that both of a pair have, in a row, and how many each has."""
    sides = [np.concatenate([*some, _NONE]) for some in (left, right)]
    pairs = [np.repeat(np.arange(len(some)), [len(one) for one in some]) for some in (left, right)]
    width = max(int(side.max(initial=0)) for side in sides) + 1
    codes = [pair * width + side for pair, side in zip(pairs, sides, strict=True)]
    for place in (0, 1):
        kept = lacking(codes[place], codes[1 - place])
        yield sides[place][kept], np.bincount(pairs[place][kept], minlength=len(left))
