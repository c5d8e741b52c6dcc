"""New people, projects and places: words with a capital that are repeated and were not there before.

A capital alone says little: every sentence begins with one. So a name stands at least once within a sentence, is
written with a small letter less often than with a capital there, and is no month, day, language or function word.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.extend import analyse
from memkit.text.languages import FUNCTION_WORDS, folded

LEAST_MENTIONS = 2
# Two letters are abbreviations and initials, more often than names.
_LEAST_LETTERS = 3
_PARTS, _PART, _FEW = 3, 4_000, 200
"""The most words of one name; the texts or sentences, and the words, that are looked at together."""
# Languages and peoples, which English writes with a capital, and words that letters and notes begin with.
_LANGUAGES = "english russian german french spanish italian chinese japanese polish portuguese dutch european american"
_BEGINNINGS = "todo note notes fixme warning important example hello thanks dear привет здравствуйте спасибо вы вам вас"
_NO_NAMES = frozenset(f"{_LANGUAGES} {_BEGINNINGS}".split())
_SMALL = "de da do dos di du del della la le van von der den al bin of фон ван дер де да ла ди аль"
_PARTICLES = frozenset(_SMALL.split())
"""Small words within a name."""
_DAYS = re.compile(f"(?:{'|'.join(named.pattern for named in (*MONTHS, *WEEKDAYS))})s?", re.IGNORECASE)
_LEFT_OUT = re.compile(
    r"`[^`\n]*`|(?<!\S)[^\s/\\@]+[/\\@]\S+|(?<!\w)[#@]\w+|\[\w+ hidden\]|\b\w+\.(?:md|py|js|json|ya?ml|toml)\b"
)
"""Code, addresses, paths, tags and masked secrets."""
_MAY_LEAVE_OUT = re.compile(r"[`/\\@#\[]|\.[a-z]")
"""What a sentence with any of these has."""
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_LETTER = r"[^\W\d_]"
_WITH_CAPITAL = re.compile(rf"[^\W\d_a-zа-яё](?<!{_LETTER}.)(?<!{_LETTER}[-'’].){_LETTER}*(?:[-'’]{_LETTER}+)*")
"""Such words alone that may have a capital, in a quarter of the time."""
_BEGIN = re.compile(rf"[\W\d_]*(?:{_WORD.pattern})?")
"""A sentence as far as its first word."""
_OPENS = re.compile(r"[:\"“”„«'‘(\[|>•.!?…/]\s*$")
"""What a clause of its own begins after."""
_LABEL = re.compile(r"[\s>+•–-]*(?:\|[^|\n]*\||[A-ZА-ЯЁ0-9][^\s:]*(?: (?:[A-ZА-ЯЁ0-9][^\s:]*|of|and)){0,3}:(?!\S))")
"""The name of a value at the begin of a line ("Session Key: …"), or the first cell of a row."""
_VALUE = 4
"""The most words of such a value: what is longer was said by whoever is named before it."""
_LATER = r"[\p{L}\p{N}].*\P{L}[\p{Lu}\p{Nl}]"
"""RE2: a sentence with a word with a capital that is not its first word."""


Parts = Callable[[], Iterable[pa.Table]]
"""Gives memories some at a time, each time it is called."""


class Mention(NamedTuple):
    """A word with a capital, or a particle.

    Attributes
    ----------
    is_within, follows : bool
        Whether it stands within a sentence, where a capital says something; whether only a blank parts it from the
        mention before.
    sentence : int
        The position of the sentence.
    """

    word: str
    is_within: bool
    follows: bool
    sentence: int = 0


@dataclass
class Name:
    """A name: how it is spelled most often, and the sentences that mention it."""

    spellings: Counter[str] = field(default_factory=Counter)
    sentences: list[int] = field(default_factory=list)

    @property
    def spelling(self) -> str:
        """The most frequent form; of equally frequent ones the shortest, which in Russian often is the nominative."""
        return min(self.spellings, key=lambda word: (-self.spellings[word], len(word), word))

    @property
    def count(self) -> int:
        """How often it is mentioned."""
        return self.spellings.total()


def mentions(plain: str, is_heading: bool = False) -> Iterator[Mention]:
    """What may be names in a sentence, of which `_plain` left code, addresses and paths out.

    In a heading or a label a capital says nothing.

    >>> [(m.word, m.is_within) for m in mentions("Вчера Анна звонила: Борис ждёт.")]
    [('Вчера', False), ('Анна', True), ('Борис', False)]
    >>> [m.is_within for m in mentions("- Session Key: main")]
    [False, False]
    """
    label, last = _LABEL.match(plain), -2
    n_label = len(_WORD.findall(label[0])) if label and len(plain[label.end() :].split()) <= _VALUE else 0
    first, *parts = re.split(f"({_WORD.pattern})", plain)
    for number, (between, word) in enumerate(zip([first, *parts[1::2]], parts[::2], strict=False)):
        if _may_be_part(word):
            opens = number == 0 or is_heading or number < n_label or _OPENS.search(between) is not None
            yield Mention(_owner(word), not opens, last == number - 1 and between == " ")
            last = number


def _plain(text: str) -> str:
    """Text without code, addresses, paths, tags and marks."""
    return (_LEFT_OUT.sub(" · ", text) if _MAY_LEAVE_OUT.search(text) else text).replace("*", "").replace("_", "")


# A round bound: the words of a vault recur.
@lru_cache(2**16)
def _may_be_part(word: str) -> bool:
    """Whether a word may be part of a name."""
    return _has_capital(word) or word in _PARTICLES


def _has_capital(word: str) -> bool:
    """Whether it begins with a capital, and has small letters."""
    return word[0].isupper() and not word.isupper()


def _owner(word: str) -> str:
    """A word without the mark of possession."""
    return word[:-2] if word.endswith(("'s", "’s")) else word


def new_names(texts: Iterable[tuple[str, bool]], before: Parts, least: int = LEAST_MENTIONS) -> list[Name]:
    """The names in sentences that no text before has, most mentioned first; forms of a word are one name.

    Parameters
    ----------
    texts : iterable of (str, bool)
        Each sentence, and whether it is a heading.
    before : callable
        Gives ``memories`` as they were, some at a time.
    least : int
        The least number of mentions.

    Examples
    --------
    >>> texts = ["Новая коллега — Анна.", "Спросить Анну о сроках.", "Deploy on Friday.", "We deploy with Anna."]
    >>> before = pa.table({"title": [""], "text": ["Звонил Борис."]})
    >>> [(name.spelling, name.count) for name in new_names([(text, False) for text in texts], lambda: [before])]
    [('Анна', 2)]
    """
    numbers, words, sentences, flags = dict[str, int](), array("i"), array("i"), array("b")
    counted, small, within = Counter[str](), Counter[str](), Counter[str]()
    numbered = enumerate(texts)
    while some := [*islice(numbered, _PART)]:  # words are counted of many sentences at once
        lines = [_plain(text) for _, (text, _) in some]
        counted.update(_WORD.findall("\n".join(lines)))
        has_later = pc.match_substring_regex(pa.array(lines), _LATER).to_pylist()
        for line, (number, (_, is_heading)), has in zip(lines, some, has_later, strict=True):
            for m in mentions(line if has else next(_BEGIN.finditer(line))[0], is_heading):
                words.append(numbers.setdefault(m.word, len(numbers)))
                sentences.append(number)
                flags.append(2 * m.is_within + m.follows)
    listed, of_word, flag = [*numbers], np.asarray(words), np.asarray(flags)
    stem_of = _stems({*listed, *map(_owner, counted)})
    for word, count in counted.items():
        small[stem_of[_owner(word)]] += 0 if _has_capital(word) else count
    for word, count in zip(listed, np.bincount(of_word[flag >= 2], minlength=len(listed)).tolist(), strict=True):
        within[stem_of[word]] += 0 if word in _PARTICLES else count
    candidates = {stem for stem, count in within.items() if stem and count >= max(small[stem], 1)}
    if not candidates:
        return []
    candidates -= set(_stems(_capitals(before)).values())
    for word, count in _counts(before, {word for word, stem in stem_of.items() if stem in candidates}).items():
        small[stem_of[word]] += count
    candidates = {stem for stem in candidates if within[stem] >= small[stem]}
    is_part = [word in _PARTICLES or stem_of[word] in candidates for word in listed]
    is_kept = np.array(is_part, bool)[of_word]
    follows = flag % 2 == 1
    follows[1:] &= is_kept[:-1]
    names = _joined(
        [
            Mention(listed[words[row]], flag[row] >= 2, follows[row], sentences[row])
            for row in np.flatnonzero(is_kept).tolist()
        ],
        stem_of,
    )
    return sorted((name for name in names if name.count >= least), key=lambda name: (-name.count, name.spelling))


def _joined(mentioned: Iterable[Mention], stem_of: Mapping[str, str]) -> list[Name]:
    """The names of these mentions and particles; words that stand beside each other at least as often as apart are one
    name.
    """
    runs, waiting, is_open = list[list[Mention]](), list[Mention](), False
    for mention in mentioned:
        is_name = mention.word not in _PARTICLES
        is_open = is_open and mention.follows and runs[-1][-1].sentence == mention.sentence
        if is_name and is_open and sum(part.word not in _PARTICLES for part in runs[-1]) < _PARTS:
            runs[-1] += [*waiting, mention]
        elif is_name:
            runs.append([mention])
        is_particle = is_open and not waiting and not is_name
        waiting, is_open = ([mention] if is_particle else []), is_name or is_particle
    alone = Counter(stem_of[m.word] for run in runs for m in run if m.word not in _PARTICLES)
    together = Counter(tuple(stem_of[m.word] for m in run) for run in runs)
    names: defaultdict[tuple[str, ...], Name] = defaultdict(Name)
    for run in runs:
        stems = tuple(stem_of[m.word] for m in run)
        is_one = len(run) == 1 or 2 * together[stems] >= max(alone[stem] for stem in stems)
        for part in [run] if is_one else [[m] for m in run if m.word not in _PARTICLES]:
            name = names[tuple(stem_of[m.word] for m in part)]
            name.spellings[" ".join(m.word for m in part)] += 1
            name.sentences.append(part[0].sentence)
    return list(names.values())


def _stems(words: Iterable[str]) -> dict[str, str]:
    """The stem of each word; "" for a word that is no name."""
    listed = sorted(words)
    stems = (" ".join(terms) for terms in analyse(listed))
    return {word: "" if _is_no_name(word) else stem for word, stem in zip(listed, stems, strict=True)}


def _is_no_name(word: str) -> bool:
    plain = folded(word)
    is_common = re.split("['’]", plain, maxsplit=1)[0] in FUNCTION_WORDS or plain in _NO_NAMES
    return len(word) < _LEAST_LETTERS or is_common or _DAYS.fullmatch(word) is not None


def _capitals(before: Parts) -> set[str]:
    """All words with a capital; linear in the texts."""
    found = (_WITH_CAPITAL.findall("\n".join(text.drop_null().to_pylist())) for text in _titles_and_texts(before))
    return {word for of_part in found for word in of_part if _has_capital(word)}


def _titles_and_texts(before: Parts) -> Iterator[pa.ChunkedArray]:
    yield from (part[name] for part in before() for name in ("title", "text"))


def _counts(before: Parts, words: set[str]) -> Counter[str]:
    """How often words stand in small letters; linear in the texts, of which those without these words are not cut."""
    small, counts = {word.lower(): word for word in sorted(words)}, Counter[str]()
    for start in range(0, len(small), _FEW):
        asked = {*[*small][start : start + _FEW]}
        for part in _titles_and_texts(before):
            texts = part.filter(pc.match_substring_regex(part, "|".join(map(re.escape, asked)))).to_pylist()
            counts.update(small[word] for text in texts for word in _WORD.findall(text) if word in asked)
    return counts
