"""What is known of languages, as data: the two alphabets that memkit tells apart, as code points and as classes of a
pattern (Python's or RE2's); function words of Russian, English and Chinese; and common words that mean the same, or of
which one is the wider. And what texts hold of such a class is counted here.

By their vectors, "sofa" and "couch" are as near as "spade" and "rake", "dog" and "animal" as "crow" and "sparrow". So
vectors count only where they are very near, and the lists of synonyms say the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

CYRILLIC = ((0x0400, 0x052F),)
LATIN = ((0x0061, 0x024F),)
"""First and last of lower-case letters, with all that lies between."""
CYRILLIC_LETTERS = "\u0400-\u0482\u048a-\u052f"
"""Without the marks between them, which NFC may join to a letter."""


def folded(word: str) -> str:
    """A word as it is compared: in small letters, ё as е.

    >>> folded("Ёлка")
    'елка'
    """
    return word.casefold().replace("ё", "е")


Weigh = str | Callable[[pa.StringArray], NDArray[np.int64]]
"""The weights of different characters; a class of RE2 is 1 for each that it has."""
_AT_ONCE = 1_000_000
"""Characters that are weighed at a time; each takes some 20 bytes meanwhile; a fifth of them took longer."""


def of_characters(texts: Iterable[str], n: int, weighs: Sequence[Weigh]) -> NDArray[np.int64]:
    r"""What the characters of each of `n` texts weigh together, modulo 2^64: a row for each of `weighs`.

    >>> of_characters(["чай, tea", "", "茶"], 3, [r"\p{Cyrillic}", r"\p{L}"]).tolist()
    [[3, 0, 0], [6, 0, 1]]
    """
    totals = np.zeros((len(weighs), n), np.int64)
    for rows, pieces in _pieces(texts):
        points = np.frombuffer("".join(pieces).encode("utf-32-le", "surrogatepass"), np.uint32)
        often = np.bincount(points)
        often[0xD800:0xE000] = 0  # halves of characters are none
        present = np.flatnonzero(often)
        characters = pa.array(map(chr, present.tolist()), pa.string())
        starts = np.cumsum([0, *map(len, pieces[:-1])])
        for total, weigh in zip(totals, weighs, strict=True):
            weights = weigh(characters) if callable(weigh) else np.asarray(pc.match_substring_regex(characters, weigh))
            if weights.any():
                table = np.zeros(len(often), weights.dtype)
                table[present] = weights
                np.add.at(total, rows, np.add.reduceat(np.take(table, points), starts, dtype=np.int64))
    return totals


def _pieces(texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Parts of texts, each with the place of its text; many at a time, of some `_AT_ONCE` characters."""
    rows, pieces, size = list[int](), list[str](), 0
    for row, text in enumerate(texts):
        for start in range(0, len(text), _AT_ONCE):
            rows.append(row)
            pieces.append(text[start : start + _AT_ONCE])
            size += len(pieces[-1])
            if size >= _AT_ONCE:
                yield rows, pieces
                rows, pieces, size = [], [], 0
    if rows:
        yield rows, pieces


_ENGLISH = """
a an the this that these those
of in on at by for with about against between into through during before after above below to from up down out off
over under without within upon near than as since until
and but or nor so yet if because while though although whether
i me my mine myself you your yours he him his she her hers it its we us our ours they them their theirs
am is are was were be been being have has had having do does did doing will would shall should can could may might must
what which who whom whose when where why how
not no never there here also too very just s t d ll m re ve don
"""
_RUSSIAN = """
и а но или либо да же ли бы б то ведь вот ни не нет
в во на с со к ко о об обо от ото до из изо за под по при про для без через над между перед у около из-за
что чтобы как так если когда пока хотя потому поэтому чем
кто кого кому кем ком чего чему чём где куда откуда почему зачем сколько чей
какой какая какое какие какого какую каких каким какой-то который которая которое которые которого которой которых
это этот эта эти этого этой этом этих этим эту тот та те того той том тех тем ту
я меня мне мной мой моя моё мои моего моей моих ты тебя тебе тобой твой твоя он она оно они его её ему ей им ими их
него неё нему ней ним ними них нём мы нас нам нами наш наша наше наши нашего вы вас вам вами ваш ваша
свой своя своё свои своего своей себя себе собой
есть быть был была было были буду будет будут бы бывает является
уже еще ещё тоже также только там тут здесь очень
"""
_CHINESE = """
的 了 着 过 是 在 有 没 不 也 都 就 还 又 很 和 与 或 但 而 因为 所以 如果 把 被 给 从 到 对 向 为 以 于
我 你 您 他 她 它 我们 你们 他们 这 那 这个 那个 这些 那些 自己 个 一个
什么 怎么 怎样 怎么样 为什么 如何 谁 哪 哪里 哪个 哪些 几 多少 何时 什么时候 吗 呢 吧 啊 会 能 要 可以 应该
"""
"""Search looks at pairs of neighbours and at single characters, so a word of one character counts within others too."""
FUNCTION_WORDS = frozenset((_ENGLISH + _RUSSIAN + _CHINESE).replace("ё", "е").split())
"""Lower case, ё as е; articles, prepositions, conjunctions, pronouns, auxiliaries, question words, negations."""


SAME: tuple[str, ...] = (
    "boy kid child children guy",
    "girl kid child children schoolgirl",
    "girl lady woman women female",
    "man men guy male",
    "young little small",
    "dog puppy",
    "cord rope string",
    "beach shore seashore coast",
    "grass lawn turf",
    "path trail track",
    "rock boulder stone",
    "ship boat vessel",
    "bowl dish pot",
    "board panel",
    "pan skillet",
    "shop store",
    "wedding marriage",
    "trick stunt",
    "stairs step",
    "shades sunglasses",
    "cut slice chop dice",
    "hit strike knock",
    "walk hike pace",
    *("fight battle", "flat apartment", "stop halt", "speak talk chat"),
    "mix blend stir",
    "rest lie relax",
    "make made build built",
    "dark night",
    "dirty muddy",
    "sunny sun",
    "машина автомобиль авто",
    "магазин лавка",
    "фото фотография снимок",
    "диван софа",
    "велосипед велик",
    "квартира жилье",
    "дорога улица",
    "чинить ремонтировать",
)
"""Words of a line mean the same; those that the default encoder puts beside each other need no line."""
WIDER: tuple[str, ...] = (
    "person man woman boy girl player rider hiker biker racer swimmer",
    "people men women children players",
    "animal dog cat mouse horse",
    "water sea ocean pool pond lake river stream",
    "food meat",
    "building house shop",
    "drink beer",
    "человек мужчина женщина",
    "животное собака кошка лошадь",
)
"""Of a line, the first word is the wider one, and means the same as any of the others."""


class Thesaurus:
    """Which stems mean the same.

    >>> known = Thesaurus(lambda word: word)
    >>> known("dog", "puppy"), known("dog", "animal"), known("dog", "cat")
    (True, True, False)
    """

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._lines: dict[str, set[int]] = defaultdict(set)
        groups: list[Collection[str]] = [line.split() for line in SAME]
        groups += [(words[0], other) for words in map(str.split, WIDER) for other in words[1:]]
        for number, words in enumerate(groups):
            for word in words:
                self._lines[stem(word)].add(number)

    def __contains__(self, stem: str) -> bool:
        return stem in self._lines

    def __call__(self, one: str, other: str) -> bool:
        """Whether two stems stand in one line."""
        return one in self and other in self and not self._lines[one].isdisjoint(self._lines[other])
