"""Whether two texts of one skeleton differ in a word that is the fact: «отвечает Павел», «отвечает Савел».

Compared are words in order, without function words, numbers and marks. Where all stands in the same places but for a
short span, what stands there is another fact, unless it is the same word in another form, or one that means the same.
Parts of identifiers, names, units and words of closed classes (`APART`) never mean the same as others. Where words were
moved, only names and identifiers are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, product, takewhile
from operator import eq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memkit.schemas import Ints, Mask
from memkit.text.languages import FUNCTION_WORDS, SAME, WIDER, Thesaurus, folded
from memkit.text.statements import UNITS, Reader

APART: tuple[str, ...] = (
    "mother mom mum",
    "father dad",
    *("grandmother grandma", "grandfather grandpa", "brother", "sister", "aunt", "uncle", "son", "daughter"),
    *("wife", "husband", "king", "queen"),
    *("nephew", "niece", "cousin", "grandson", "granddaughter"),
    *("племянник", "племянница", "внук", "внучка", "свекровь", "теща", "зять", "невестка"),
    "мать мама матери мамы",
    "отец отца отцу папа папы",
    *("бабушка", "дедушка дед", "брат", "сестра", "тетя", "дядя", "сын", "дочь дочери дочка", "жена", "муж"),
    *("left", "right", "north northern", "south southern", "east eastern", "west western", "front", "back", "rear"),
    *("upper", "lower", "top", "bottom", "inner", "outer", "morning", "evening", "afternoon", "noon", "midnight"),
    *("левый", "правый", "северный север", "южный юг", "восточный восток", "западный запад", "передний", "задний"),
    *("верхний", "нижний", "внутренний", "внешний", "утро", "вечер", "полдень", "полночь"),
    *("red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "gray grey", "black", "white"),
    *("красный", "синий голубой", "зеленый", "желтый", "оранжевый", "фиолетовый", "розовый", "коричневый", "серый"),
    *("черный", "белый", "young", "old", "big large huge", "small tiny", "hot", "cold", "day", "night"),
    *("молодой", "старый", "большой крупный огромный", "маленький небольшой мелкий", "горячий", "холодный"),
    *("день", "ночь"),
    *("read reads reading", "write writes writing"),
    *("buy", "sell", "slow slower", "fast faster quick rapid", "купить", "продать", "медленный", "быстрый"),
    *("before", "after", "during", "above", "under below beneath underneath", "behind", "beside"),
    *("must", "may might", "can could", "should", "нужно надо", "можно", "more", "less fewer", "более", "менее"),
    *("max maximum", "min minimum", "максимум", "минимум", "plaintiff", "defendant", "истец", "ответчик"),
    *("uppercase", "lowercase", "ascending", "descending", "tenant", "landlord"),
    *("до", "после", "перед", "под", "над", "за"),
    *("http", "https", "ftp", "sftp", "ssh", "tcp", "udp"),
    *("production prod", "staging stage", "spring", "summer", "autumn", "winter", "весна", "лето", "осень", "зима"),
)
"""Words that say another thing, though to an encoder they are alike: each with its other spellings and synonyms."""
_LIGHT_WORDS = """
some any few several many much lot lots group groups piece pieces pair one ones each other another together all both
every around certain various person persons people someone somebody something thing things area place side kind type
sort way body outside outdoors inside indoors being getting
некоторый некоторые некоторых несколько много мало один одна одно одни каждый каждая каждое все всех другой другая
другое другие вместе оба обе разный разные кусок куски группа группы пара человек человека люди людей вещь вещи место
вид тип сторона способ
"""
_LIGHT = frozenset(_LIGHT_WORDS.split())
"""Words that say how many or which, or name no kind of thing: they are no facts by themselves."""
_JOIN = re.compile(r"and|or|is|are|was|were|и|или|да|это|есть|был[аои]?|[,;&+=—–-]")
"""What stands on either side of these may change places."""
# A guess: names of people, places and products have up to three words.
_MOST = 3
"""Most words of a span in which texts of one skeleton differ."""
# A round bound, as words of one place are put beside each of the other's.
_MOST_WORDS = 400
"""The words of a longer place are not put side by side."""
# A guess: of texts with fewer words in common, names in other places say nothing.
_ALIKE = 0.5
# «Павел» and «Савел» are .8 alike; a guess below that.
_NEAR_LETTERS = 0.6
"""Capital words that begin both texts, and are as alike in letters as this, are two names and no synonyms."""
_ACTIVITY = 6
"""The letters from which an English word in -ing is an activity ("king", "ring" are none)."""
# A guess that made pairs of words hold: of 752 .005 merge.
_LONG = 8
"""Shorter words that differ in a letter are two words ("test", "text"); longer ones mostly are one."""
_LONG_UNIT = 3
"""The letters from which a unit is one without a number before it."""
_MARKS = ".,;:!?…()[]{}<>«»\"“”„‘’'`*|•—–-+=~"
_IS_CODE = re.compile(r"\d|[_/\\@=~#]|\w[.:]\w|[a-zа-я][A-ZА-Я]")
_PART = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?|[\u2300-\u2bff\U0001f000-\U0001faff]+")
"""A word, or pictures in a row ("🟢", "★★")."""
_VOWELS = re.compile("[aeiouyаеиоуыэюяьъй]+")
_GLUED = re.compile(r"\d+([^\W\d_]+)\Z")
_DOT = re.compile(r"(?<=\b[AaPp])\.(?=[Mm]\b)")  # "5 p.m." is "5 pm"
_ENDS = (".", "!", "?", ":", "…")
_SOFT, _CLOSED, _FIRST, _HARD = range(4)
"""A word that may have synonyms; one of `APART`; a capital one that begins a sentence, maybe a name; a name."""


class Synonyms(NamedTuple):
    """Which words mean the same: those whose vectors have at least this cosine, and those of the thesaurus.

    Two activities ("slicing", "cutting") are told apart by what they are done to, so that less is enough for them.
    """

    vectors: Callable[[list[str]], NDArray[np.float32]]
    least: float
    least_of_activities: float


class Lexicon:
    """What a reader's single words are, whatever the text: units, words of `APART`, and those of the thesaurus."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        reader.learn(folded(word) for line in (*UNITS, *APART, *SAME, *WIDER) for word in line.split())  # all at once
        units = {folded(word): line.split()[0] for line in UNITS for word in line.split()}
        # A long one is known in each of its cases («в мегабайтах»).
        self.units = {reader.stem(word): name for word, name in units.items() if len(word) >= _LONG_UNIT} | units
        lines = [[reader.stem(folded(word)) for word in line.split()] for line in APART]
        self.apart = {stem: stems[0] for stems in lines for stem in stems}
        self.thesaurus = Thesaurus(lambda word: reader.stem(folded(word)))


class Words:
    """The words of places in order, each place being read once, when it is asked for."""

    def __init__(self, lexicon: Lexicon, synonyms: Synonyms | None) -> None:
        self._reader, self._lexicon, self._synonyms = lexicon.reader, lexicon, synonyms
        self._numbers: dict[str, int] = {}
        self._written: list[str] = []
        self._cut: dict[str, int] = {}
        self._between_blanks: dict[int, tuple[Ints, Ints]] = {}
        self._of: dict[int, tuple[Ints, Ints]] = {}
        self._chunks: dict[tuple[str, bool, bool, bool], _Chunk] = {}
        self._vectors: dict[int, NDArray[np.float32]] = {}

    def differ(self, left: Ints, right: Ints, texts: Callable[[int], str]) -> Mask:
        """Whether pairs of places, whose words `texts` gives, differ in a word that is the fact."""
        # Where one side only says more, as is seen from what stands between blanks, no word was replaced.
        for place in set(np.append(left, right).tolist()) - self._between_blanks.keys():
            chunks = np.array([self._cut.setdefault(chunk, len(self._cut)) for chunk in texts(place).split()], np.int64)
            self._between_blanks[place] = chunks, chunks
        a, b = (_Sides.of([self._between_blanks[place] for place in side.tolist()]) for side in (left, right))
        n_only = a.how_many(_only(a, b)), b.how_many(_only(b, a))
        both = np.flatnonzero(np.minimum(*n_only))
        differ = np.zeros(len(left), bool)
        if len(both):
            is_one = _spans(a, b)[1][both]
            differ[both] = self._replaced(left[both], right[both], texts, is_one)
        may_be = (a.n == b.n) & (np.maximum(*n_only) <= 2 * _MOST) & (a.n <= _MOST_WORDS) & ~differ
        for pair in np.flatnonzero(may_be).tolist():
            differ[pair] = self._are_swapped(texts(int(left[pair])), texts(int(right[pair])))
        return differ

    def _are_swapped(self, one: str, other: str) -> bool:
        """Whether two parts of a sentence stand in each other's place, which says who does what to whom."""
        a, b = _in_order(one), _in_order(other)
        begin = _n_common(a, b, self._are_forms)
        end = _n_common(a[begin:][::-1], b[begin:][::-1], self._are_forms)
        before, a, b = a[:begin], a[begin : len(a) - end], b[begin : len(b) - end]
        if len(a) == len(b) == 1:
            return len(a[0]) == len(b[0]) == 1 and a[0].isalnum()  # "disk c", "disk d"
        for first, last in product(range(1, _MOST + 1), repeat=2):
            moved = [*b[len(b) - first :], *b[last : len(b) - first], *b[:last]]
            if first + last <= len(a) == len(b) and all(map(self._are_forms, a, moved)):
                outer, middle = [*a[:first], *a[len(a) - last :]], a[first : len(a) - last]
                return _is_told_by_order(before[-1:], outer, middle, is_form_kept=a == moved)
        return False

    def _are_forms(self, one: str, other: str) -> bool:
        bones = [word[0] + _VOWELS.sub("", word[1:]) for word in (one, other)]  # «Павел», «Павла»
        return self._reader.stem(one) == self._reader.stem(other) or (bones[0] == bones[1] and len(bones[0]) > 1)

    def _replaced(self, left: Ints, right: Ints, texts: Callable[[int], str], is_one: Mask) -> Mask:
        """`is_one`: the pairs of one skeleton as they stand between blanks, with numbers and function words."""
        new = [place for place in np.unique(np.append(left, right)).tolist() if place not in self._of]
        self._reader.learn(folded(word) for place in new for word in _PART.findall(texts(place)))
        self._of.update((place, self._read(texts(place))) for place in new)
        a, b = sides = [_Sides.of([self._of[place] for place in side.tolist()]) for side in (left, right)]
        only = [_only(a, b), _only(b, a)]
        n_only = [side.how_many(own) for side, own in zip(sides, only, strict=True)]
        # Only where both sides have a word of their own, one was replaced; else one side says more.
        open_ = (n_only[0] > 0) & (n_only[1] > 0)
        spans, is_aligned = _spans(a, b)
        aligned = open_ & is_aligned
        in_span = [
            own & ((span & aligned[side.pair]) | (np.isin(side.kind, (_CLOSED, _HARD)) & (open_ & is_one)[side.pair]))
            for side, own, span in zip(sides, only, spans, strict=True)
        ]
        differ = self._unlike(sides, in_span, self._mean_the_same)
        alike = (a.n + b.n - n_only[0] - n_only[1]) / np.maximum(1, a.n + b.n)
        is_sure = sum(side.how_many(own & (side.kind == _HARD)) for side, own in zip(sides, only, strict=True)) > 0
        moved = open_ & ~differ & (alike >= _ALIKE) & is_sure
        names = [own & (side.kind >= _FIRST) & moved[side.pair] for side, own in zip(sides, only, strict=True)]
        return differ | self._unlike(sides, names, self._may_be_forms)

    @staticmethod
    def _unlike(sides: list[_Sides], chosen: list[Mask], alike: Callable[..., Mask]) -> Mask:
        """The pairs of places in which both sides have a chosen word that is like none of the other side."""
        (a, b), (of_a, of_b) = sides, chosen
        first, second = np.flatnonzero(of_a), np.flatnonzero(of_b)
        # Each chosen word of the left with each of the right.
        n = b.how_many(of_b)
        repeats = n[a.pair[first]]
        row = np.repeat(first, repeats)
        start = np.repeat((np.cumsum(n) - n)[a.pair[first]] - (np.cumsum(repeats) - repeats), repeats)
        column = second[start + np.arange(len(row))]
        like = alike(a.word[row], b.word[column], a.kind[row], b.kind[column])
        unlike, sure = [], np.zeros(len(a.n), dtype=bool)
        for side, some, places in ((a, of_a, row), (b, of_b, column)):
            # A copy: the chosen words of a side are asked for again below, and by the caller.
            left_over = some.copy()
            left_over[places[like]] = False
            unlike.append(side.how_many(left_over))
            sure |= side.how_many(left_over & (side.kind == _HARD)) > 0
        # A word is often explained by several ("a webcam", "a camera for the internet"); a name is not.
        return np.asarray((unlike[0] > 0) & (unlike[1] > 0) & (sure | (unlike[0] == unlike[1])), bool)

    def _mean_the_same(self, a: Ints, b: Ints, kind_a: Ints, kind_b: Ints) -> Mask:
        """Whether words are synonyms, or one of them is misspelt; names, and two words of `APART`, are neither."""
        same = np.zeros(len(a), dtype=bool)
        soft = np.flatnonzero((kind_a < _HARD) & (kind_b < _HARD) & ((kind_a != _CLOSED) | (kind_b != _CLOSED)))
        same[soft] = self._are_synonyms(a[soft], b[soft])
        written = self._written
        for place in np.flatnonzero(same & (kind_a == _FIRST) & (kind_b == _FIRST)).tolist():
            both = written[a[place]], written[b[place]]
            same[place] = SequenceMatcher(None, *both, autojunk=False).ratio() < _NEAR_LETTERS
        sizes = np.fromiter(map(len, written), np.int64, len(written))
        long = (np.minimum(sizes[a], sizes[b]) >= _LONG) & (np.abs(sizes[a] - sizes[b]) <= 1)
        for place in np.flatnonzero(long & ~same & (kind_a == _SOFT) & (kind_b == _SOFT)).tolist():
            same[place] = _is_misspelt(written[a[place]], written[b[place]])
        return same

    def _are_synonyms(self, a: Ints, b: Ints) -> Mask:
        if self._synonyms is None or not len(a):
            return np.zeros(len(a), dtype=bool)
        terms = np.unique(np.append(a, b))
        new = [term for term in terms.tolist() if term not in self._vectors]
        if new:
            vectors = self._synonyms.vectors([self._written[term] for term in new])
            self._vectors |= dict(zip(new, vectors, strict=True))
        every = np.stack([self._vectors[term] for term in terms.tolist()])
        places = [np.searchsorted(terms, side) for side in (a, b)]
        words = [self._written[term] for term in terms.tolist()]
        is_activity = np.array([len(word) >= _ACTIVITY and word.endswith("ing") for word in words])
        is_known = np.array([self._reader.stem(word) in self._lexicon.thesaurus for word in words])
        both = [np.logical_and(*(flags[place] for place in places)) for flags in (is_activity, is_known)]
        least = np.where(both[0], self._synonyms.least_of_activities, self._synonyms.least)
        alike: Mask = np.einsum("ij,ij->i", *(every[place] for place in places)) >= least
        for place in np.flatnonzero(both[1] & ~alike).tolist():
            pair = (self._reader.stem(self._written[term]) for term in (a[place], b[place]))
            alike[place] = self._lexicon.thesaurus(*pair)
        return alike

    def _may_be_forms(self, a: Ints, b: Ints, kind_a: Ints, kind_b: Ints) -> Mask:
        """Whether words may be forms of one name, where the sentences around them differ."""
        pairs = ((self._written[one], self._written[other]) for one, other in zip(a.tolist(), b.tolist(), strict=True))
        return np.fromiter((self._are_forms(*pair) for pair in pairs), bool, len(a))

    def _read(self, text: str) -> tuple[Ints, Ints]:
        shouts, words, kinds = text.isupper(), list[int](), list[int]()
        for line in text.splitlines():
            begins, after_number = True, False
            for chunk in line.split():
                # What stands between blanks recurs.
                asked = chunk, begins, after_number, shouts
                read = self._chunks.get(asked) or self._chunks.setdefault(asked, self._chunk(*asked))
                words += read.words
                kinds += read.kinds
                begins, after_number = read.begins, read.after_number
        return np.array(words, np.int64), np.array(kinds, np.int64)

    def _number(self, term: str, written: str) -> int:
        number = self._numbers.setdefault(term, len(self._written))
        self._written += [written] * (number == len(self._written))
        return number

    def _chunk(self, chunk: str, begins: bool, after_number: bool, shouts: bool) -> _Chunk:
        plain, read = _DOT.sub("", chunk.strip(_MARKS)), list[tuple[str, str, int]]()
        is_code, is_joined = bool(_IS_CODE.search(plain)), "-" in plain
        for part in _PART.findall(plain):
            is_number = part.isdecimal() or (not is_code and folded(part) in self._reader.digits)
            if not is_number:
                read += self._term(part, is_code, is_joined, after_number, begins, shouts)
            begins, after_number = False, is_number
        if plain.startswith("#"):  # a tag that is added says nothing; for a bare word it does
            read = [(f"#{term}", word, kind) for term, word, kind in read]
        if (is_code or is_joined) and len(read) > 1:
            # What goes on is another one: "srv_main.local" is not "srv_main".
            whole = "/".join(term for term, *_ in read)
            read.append((whole, whole, _HARD))
        words = [self._number(term, written) for term, written, _ in read]
        return _Chunk(words, [kind for *_, kind in read], begins or chunk.endswith(_ENDS), after_number)

    def _term(
        self, part: str, is_code: bool, is_joined: bool, after_number: bool, begins: bool, shouts: bool
    ) -> Iterator[tuple[str, str, int]]:
        word = folded(part)
        glued = _GLUED.match(word)
        unit = self._lexicon.units.get(glued[1] if glued else word) or (
            self._lexicon.units.get(self._reader.stem(word)) if len(word) >= _LONG_UNIT else None
        )
        if unit is not None and (glued or after_number or len(word) >= _LONG_UNIT):
            yield f"{unit} (unit)", word, _HARD
        elif is_code or not part[0].isalnum():
            yield word, word, _HARD
        elif is_joined:
            yield word if word.isascii() else self._reader.stem(word), word, _HARD
        elif len(part) == 1 and part.isupper() and not begins and not shouts and part not in "IЯ":  # "room A"
            yield word, word, _HARD
        elif not self._reader.is_negation(word):
            stem = self._reader.stem(word)
            if stem in self._lexicon.apart:
                yield self._lexicon.apart[stem], word, _CLOSED
            elif re.split("['’]", word)[0] not in FUNCTION_WORDS and word not in _LIGHT:
                is_name = part[0].isupper() and not shouts
                yield stem, word, (_FIRST if begins else _HARD) if is_name else _SOFT


def _in_order(text: str) -> list[str]:
    """The words of a text without articles; a comma is one, and a sign that stands alone."""
    words = [folded(word.strip(_MARKS) or word) for word in re.findall(r"[^\s,;]+|[,;]", text)]
    # "A -> B" has no article.
    return [one for one, after in pairwise([*words, ""]) if one not in ("a", "an", "the") or not after.isalnum()]


def _is_told_by_order(before: list[str], outer: list[str], middle: list[str], is_form_kept: bool) -> bool:
    """Whether the outer words, which changed places, say by it what they are: in Russian their forms say so as well."""
    if not FUNCTION_WORDS.isdisjoint({*outer} - {"a"}):  # with its preposition a word says the same anywhere
        return False
    joins = [_JOIN.fullmatch(word) for word in (*middle[:1], *middle[-1:])]
    if not is_form_kept:
        return not joins or not joins[0]
    is_governed = not FUNCTION_WORDS.isdisjoint((*before, *middle[-1:]))
    return not all(joins) and (is_governed or "," in middle or "".join(outer).isascii())


class _Chunk(NamedTuple):
    """The numbers and kinds of the words between two blanks, and whether what follows begins, or follows a number."""

    words: list[int]
    kinds: list[int]
    begins: bool
    after_number: bool


class _Sides(NamedTuple):
    """The words of one side of many pairs: the pair of each, the word, its kind, and how many each pair has."""

    pair: Ints
    word: Ints
    kind: Ints
    n: Ints

    @classmethod
    def of(cls, read: list[tuple[Ints, Ints]]) -> _Sides:
        n = np.fromiter((len(words) for words, _ in read), np.int64, len(read))
        none = np.empty(0, np.int64)
        word, kind = (np.concatenate([*(one[place] for one in read), none]) for place in (0, 1))
        return cls(np.repeat(np.arange(len(read)), n), word, kind, n)

    def how_many(self, chosen: Mask) -> Ints:
        """How many of the chosen words each pair has."""
        return np.bincount(self.pair[chosen], minlength=len(self.n))

    @property
    def place(self) -> Ints:
        """The place of each word in its list."""
        return np.arange(len(self.word)) - np.repeat(np.cumsum(self.n) - self.n, self.n)


def lacking(numbers: Ints, others: Ints) -> Mask:
    """Which of some numbers, none of them negative, are not among the others.

    >>> lacking(np.array([3, 1, 3]), np.array([3, 2])).tolist()
    [False, True, False]
    """
    ordered = np.append(np.sort(others), -1)  # np.isin takes four times as long for few, and eleven for many
    return np.asarray(ordered[ordered[:-1].searchsorted(numbers)] != numbers)


def _only(a: _Sides, b: _Sides) -> Mask:
    """Which words of the left the right does not have."""
    width = max(int(a.word.max(initial=0)), int(b.word.max(initial=0))) + 1
    return lacking(a.pair * width + a.word, b.pair * width + b.word)


def _spans(a: _Sides, b: _Sides) -> tuple[tuple[Mask, Mask], Mask]:
    """Which words stand in the span that differs, or in places that do; and the pairs that have one skeleton."""
    n = np.minimum(a.n, b.n)
    before, equal = _equal_run(a, b, n, from_end=False)
    after = np.minimum(_equal_run(a, b, n, from_end=True)[0], n - before)
    in_a, in_b = a.n - before - after, b.n - before - after
    most = np.maximum(in_a, in_b)
    short = np.maximum(a.n, b.n) <= _MOST_WORDS
    is_one_span = short & (most <= _MOST) & (before + after >= most)
    is_in_places = short & (a.n == b.n) & (n - equal <= _MOST) & (equal >= n - equal)
    spans = [
        (side.place >= before[side.pair]) & (side.place < (before + length)[side.pair])
        for side, length in ((a, in_a), (b, in_b))
    ]
    return (spans[0], spans[1]), is_one_span | is_in_places


def _equal_run(a: _Sides, b: _Sides, n: Ints, from_end: bool) -> tuple[Ints, Ints]:
    """How many words are the same from the begin or the end of two lists on, and in all places, of the first `n`."""
    pair = np.repeat(np.arange(len(n)), n)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(n) - n, n)
    ends = [np.cumsum(side.n)[pair] for side in (a, b)]
    cells = [
        end - 1 - place if from_end else end - side.n[pair] + place for side, end in zip((a, b), ends, strict=True)
    ]
    same = a.word[cells[0]] == b.word[cells[1]]
    first = n.copy()
    np.minimum.at(first, pair[~same], place[~same])
    return first, np.bincount(pair[same], minlength=len(n))


def _is_misspelt(one: str, other: str) -> bool:
    """Whether one letter of a long word was left out, added or replaced, not at its begin.

    >>> _is_misspelt("предпочитает", "предпочитет"), _is_misspelt("выгрузка", "загрузка")
    (True, False)
    """
    start = _n_common(one, other)
    end = _n_common(one[start:][::-1], other[start:][::-1])
    return start >= _LONG // 2 and start + end >= max(len(one), len(other)) - 1


def _n_common(one: Sequence[Any], other: Sequence[Any], are_same: Callable[..., bool] = eq) -> int:
    """How many letters or words two sequences begin with in common."""
    return sum(1 for _ in takewhile(lambda both: are_same(*both), zip(one, other, strict=False)))
