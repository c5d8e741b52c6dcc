"""Common words that mean the same, or of which one is the wider: vectors find them no more alike than tea and coffee.

By their vectors, "sofa" and "couch" are as near as "spade" and "rake", "dog" and "animal" as "crow" and "sparrow". So
vectors count only where they are very near, and these lists say the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

SAME: tuple[str, ...] = (
    "boy kid child children guy",
    "girl kid child children schoolgirl",
    "girl lady woman women female",
    "man men guy male",
    "young little small",
    "dog puppy",
    "cat kitten",
    "cord rope string",
    "beach shore seashore coast",
    "sea ocean",
    "grass lawn turf",
    "road street",
    "path trail track",
    "rock boulder stone",
    "ship boat vessel",
    "bowl dish pot",
    "board panel",
    "look check",
    "pan skillet",
    "motorbike motorcycle",
    "bicycle bike",
    "car automobile auto",
    "shop store",
    "sofa couch",
    "photo picture image photograph",
    "film movie",
    "drawing sketch",
    "wedding marriage",
    "doctor physician",
    "flat apartment",
    "trick stunt",
    "stairs step",
    "shades sunglasses",
    "cut slice chop dice",
    "hit strike knock",
    "look watch stare",
    "run race jog",
    "walk hike pace",
    "ride drive driving riding",
    "jump leap bounce",
    "eat devour",
    "speak talk chat",
    "throw hurl toss",
    "fight battle",
    "stop halt",
    "take pick",
    "mix blend stir",
    "rest lie relax",
    "hold carry",
    "make made build built",
    "group gather",
    "begin start",
    "finish complete",
    "buy purchase",
    "fix repair",
    "dark night",
    "dirty muddy",
    "sandy sand",
    "sunny sun",
    "blond blonde",
    "машина автомобиль авто",
    "врач доктор",
    "магазин лавка",
    "фото фотография снимок",
    "фильм кино",
    "диван софа",
    "ребенок дети",
    "велосипед велик",
    "компьютер комп",
    "квартира жилье",
    "дорога улица",
    "начать начинать",
    "делать сделать",
    "купить приобрести",
    "чинить ремонтировать",
    "говорить разговаривать",
    "смотреть глядеть",
    "бежать бегать",
)
"""Words of a line mean the same."""
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
    >>> known("sofa", "couch"), known("dog", "animal"), known("dog", "cat")
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
