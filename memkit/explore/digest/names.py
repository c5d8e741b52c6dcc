"""New people, projects and places: words with a capital that are repeated and were not there before.

A capital alone says little: every sentence begins with one. So a name stands at least once within a sentence, is
written with a small letter less often than with a capital there, and is no month, day, language or function word.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.extend import analyse
from memkit.extend.showing import rows_of
from memkit.schemas import tuples_of
from memkit.text.letters import FUNCTION_WORDS, folded

LEAST_MENTIONS = 2
_LEAST_LETTERS = 3
_PARTS = 3
"""The most words of one name."""
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
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_POSSESSIVE = re.compile("['’]s$")
_MARKS = str.maketrans("", "", "*_")
_OPENS = re.compile(r"[:\"“”„«'‘(\[|>•.!?…/]\s*$")
"""What a clause of its own begins after."""
_LABEL = re.compile(r"[\s>+•–-]*(?:\|[^|\n]*\||[A-ZА-ЯЁ0-9][^\s:]*(?: (?:[A-ZА-ЯЁ0-9][^\s:]*|of|and)){0,3}:(?!\S))")
"""The name of a value at the begin of a line ("Session Key: …"), or the first cell of a row."""
_VALUE = 4
"""The most words of such a value: what is longer was said by whoever is named before it."""
_LETTERS, _CAPITAL = r"\p{L}+(?:[-'’]\p{L}+)*", r"^\p{Lu}.*\p{Ll}"
"""RE2: a word, and what one with a capital matches."""


class Mention(NamedTuple):
    """A word with a capital, or one in small letters.

    Attributes
    ----------
    sentence : int
        The position of the sentence.
    has_capital, is_within, follows : bool
        Whether it has a capital; whether it stands within a sentence, where a capital says something; whether only a
        blank parts it from the word before.
    """

    word: str
    sentence: int
    has_capital: bool
    is_within: bool
    follows: bool


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


def mentions(text: str, sentence: int = 0, is_heading: bool = False) -> Iterator[Mention]:
    """The words of a sentence, without code, addresses and paths; in a heading or a label a capital says nothing.

    >>> [(m.word, m.is_within) for m in mentions("Вчера Анна звонила: Борис ждёт.") if m.has_capital]
    [('Вчера', False), ('Анна', True), ('Борис', False)]
    >>> [m.is_within for m in mentions("- **Session Key**: main")]
    [False, False, False]
    """
    plain, end = _LEFT_OUT.sub(" · ", text).translate(_MARKS), 0
    label = _LABEL.match(plain)
    in_label = label.end() if label and len(plain[label.end() :].split()) <= _VALUE else 0
    for match in _WORD.finditer(plain):
        word, between = _POSSESSIVE.sub("", match[0]), plain[end : match.start()]
        opens = end == 0 or is_heading or match.start() < in_label or _OPENS.search(between) is not None
        has_capital = word[0].isupper() and any(map(str.islower, word))
        yield Mention(word, sentence, has_capital, not opens, end > 0 and between == " ")
        end = match.end()


def new_names(texts: Iterable[tuple[str, bool]], before: pa.Table, least: int = LEAST_MENTIONS) -> list[Name]:
    """The names in sentences that no text before has, most mentioned first; forms of a word are one name.

    Parameters
    ----------
    texts : iterable of (str, bool)
        Each sentence, and whether it is a heading.
    before : pyarrow.Table
        ``memories`` as they were.
    least : int
        The least number of mentions.

    Examples
    --------
    >>> texts = ["Новая коллега — Анна.", "Спросить Анну о сроках.", "Deploy on Friday.", "We deploy with Anna."]
    >>> before = pa.table({"title": [""], "text": ["Звонил Борис."]})
    >>> [(name.spelling, name.count) for name in new_names([(text, False) for text in texts], before)]
    [('Анна', 2)]
    """
    words = [m for number, (text, is_heading) in enumerate(texts) for m in mentions(text, number, is_heading)]
    stem_of = _stems({m.word for m in words})
    within = Counter(stem_of[m.word] for m in words if m.has_capital and m.is_within)
    small = Counter(stem_of[m.word] for m in words if not m.has_capital)
    candidates = {stem for stem, count in within.items() if stem and count >= small[stem]}
    if not candidates:
        return []
    known, written_small = _words_before(before, {word for word, stem in stem_of.items() if stem in candidates})
    for word, count in written_small.items():
        small[stem_of[word]] += count
    candidates = {stem for stem in candidates - known if within[stem] >= small[stem]}
    names = _joined(words, stem_of, candidates)
    kept = [name for name in names if name.count >= least]
    return sorted(kept, key=lambda name: (-name.count, name.spelling))


def _joined(words: list[Mention], stem_of: dict[str, str], candidates: set[str]) -> list[Name]:
    """The names of these mentions; words that stand beside each other at least as often as apart are one name."""
    runs, waiting, is_open = list[list[Mention]](), list[Mention](), False
    for mention in words:
        is_name = mention.has_capital and stem_of[mention.word] in candidates
        is_open = is_open and mention.follows and runs[-1][-1].sentence == mention.sentence
        if is_name and is_open and sum(part.has_capital for part in runs[-1]) < _PARTS:
            runs[-1] += [*waiting, mention]
        elif is_name:
            runs.append([mention])
        is_particle = is_open and not waiting and mention.word in _PARTICLES
        waiting, is_open = ([mention] if is_particle else []), is_name or is_particle
    alone = Counter(stem_of[m.word] for run in runs for m in run if m.has_capital)
    together = Counter(tuple(stem_of[m.word] for m in run) for run in runs)
    names: defaultdict[tuple[str, ...], Name] = defaultdict(Name)
    for run in runs:
        stems = tuple(stem_of[m.word] for m in run)
        is_one = len(run) == 1 or 2 * together[stems] >= max(alone[stem] for stem in stems)
        for part in [run] if is_one else [[m] for m in run if m.has_capital]:
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
    is_common = re.split("['’]", plain)[0] in FUNCTION_WORDS | {"i"} or plain in _NO_NAMES
    return len(word) < _LEAST_LETTERS or is_common or _DAYS.fullmatch(word) is not None


_WORDS_BEFORE = """
with words as (select unnest(regexp_extract_all(concat_ws(chr(10), title, text), $letters)) as word from memories),
counted as (select word, count(*) as n from words group by word)
from counted where regexp_matches(word, $capital) or word in (select unnest($words))
"""


def _words_before(memories: pa.Table, words: set[str]) -> tuple[set[str], dict[str, int]]:
    """The stems of all words with a capital, and how often these words stand in small letters; linear in the texts."""
    small = {word.lower(): word for word in sorted(words)}
    values = {"letters": _LETTERS, "capital": _CAPITAL, "words": sorted(small)}
    rows = rows_of(_WORDS_BEFORE, values, memories=memories.select(["title", "text"]))
    counts = dict(tuples_of(rows, "word", "n"))
    known = set(_stems(word for word in counts if word[0].isupper()).values())
    return known, {small[word]: count for word, count in counts.items() if word in small}
