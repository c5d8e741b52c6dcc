"""A text as statements: sentences, items and lines, with what each says read out of it.

Read are its words (as stems, each affirmed or denied), its quantities (a number with the words beside it), its dates
and times, its names, and the attribute whose value it gives ("key: value", "the X is Y", «живёт в …»). The lists of
words are data: `OPPOSITES`, `ATTRIBUTES`, `UNITS` and those of `memkit.documents`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from memkit.base.dates import DATE_WORDS, MONTHS
from memkit.base.fences import BOX
from memkit.base.parallel import bar
from memkit.documents import NEGATIONS, NUMBER_WORDS
from memkit.text.analyse import terms_by
from memkit.text.languages import FUNCTION_WORDS, folded
from memkit.text.sentences import sentences_of

OPPOSITES: tuple[tuple[str, str], ...] = (
    ("enabled enable", "disabled disable"),
    ("включен включена включено включены включить", "выключен выключена выключено выключены выключить"),
    ("включен включена включено включены", "отключен отключена отключено отключены отключить"),
    ("allowed permitted", "forbidden prohibited banned disallowed"),
    ("разрешен разрешена разрешено разрешены", "запрещен запрещена запрещено запрещены"),
    ("open opened", "closed shut"),
    ("открыт открыта открыто открыты", "закрыт закрыта закрыто закрыты"),
    ("required mandatory", "optional"),
    ("обязателен обязательна обязательно обязательны", "необязателен необязательна необязательно необязательны"),
    ("likes loves", "dislikes hates"),
    ("любит нравится", "ненавидит"),
    ("public", "private"),
    ("valid", "invalid"),
    ("active", "inactive"),
    ("online", "offline"),
    ("stable", "unstable"),
    ("safe", "unsafe"),
    ("available", "unavailable"),
    ("доступен доступна доступно доступны", "недоступен недоступна недоступно недоступны"),
    ("empty", "full"),
    ("пустой пустая пуст пуста пусто", "полный полная полон полна полно"),
    ("true", "false"),
    ("accepted approved", "rejected declined"),
    ("принят принята принято приняты одобрен одобрена", "отклонен отклонена отклонено отклонены"),
)
"""Words that deny each other: those of the second list say the opposite of the first."""
UNITS: tuple[str, ...] = (
    "€ eur euro euros евро",
    "$ usd dollar dollars доллар доллара долларов",
    "₽ rub руб рубль рубля рублей",
    "% percent процент процента процентов",
    "s sec secs second seconds с сек секунда секунды секунд секунду",
    "ms мс millisecond milliseconds миллисекунда миллисекунды миллисекунд миллисекунду",
    "min mins minute minutes мин минута минуты минут минуту",
    "h hour hours ч час часа часов",
    "d day days день дня дней",
    "w week weeks неделя неделю недели недель",
    "mo month months мес месяц месяца месяцев",
    "y yr year years год года лет",
    "kb кб kilobyte kilobytes килобайт килобайта",
    "mb мб megabyte megabytes мегабайт мегабайта",
    "gb гб gigabyte gigabytes гигабайт гигабайта",
    "tb тб terabyte terabytes терабайт терабайта",
    "km км kilometre kilometres kilometer kilometers километр километра километров",
    "cm см centimetre centimetres centimeter centimeters сантиметр сантиметра сантиметров",
    "inch inches дюйм дюйма дюймов",
    "kg кг kilogram kilograms kilo килограмм килограмма килограммов",
    "tsp teaspoon teaspoons",
    "tbsp tablespoon tablespoons",
    "w вт watt watts ватт ватта",
    *("am", "pm"),
    "kw квт kilowatt kilowatts киловатт киловатта",
)
"""Spellings of one unit, the first being its name."""
_VALUE = r"\s+(?P<value>[^,.;:!?()—–\n]+)"
_LIVES = r"(?:lives?|living|resides?|based|moved|живу|живет|живут|переехала?|перебралась|перебрался)\s+(?:in|to|в|во)"
ATTRIBUTES: tuple[tuple[str, str], ...] = (
    ("lives in", rf"\b{_LIVES}{_VALUE}"),
    ("works at", rf"\bworks?\s+(?:at|for){_VALUE}"),
    ("works as", rf"\bworks?\s+as{_VALUE}"),
    ("is called", rf"\b(?:is\s+(?:called|named|nicknamed)|зовут|называется){_VALUE}"),
    ("prefers", rf"\b(?:prefers?|предпочитает|предпочитаю){_VALUE}"),
    ("native language", rf"\b(?:native\s+language\s+is|родной\s+язык(?:\s*[—–:-])?){_VALUE}"),
)
"""Attributes that have one value at a time: a name, and a pattern (lower case, ё as е) with the group ``value``."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNNEGATED_AFTER = _words(
    "только просто лишь более менее раньше позже позднее ранее совсем раз обязательно хуже дольше ниже выше меньше"
    " было был была были only just later earlier more less least necessarily yet fewer longer before"
)
"""After a negation: "not only", "no later than", "not yet" deny nothing, and «не было» nothing that holds today."""
_UNNEGATED_BEFORE = _words("еще пока если was were had yet if unless whether или or")
_WIDE = _words("no nobody none nothing neither nor никто никого никому ничего ни нет")
"""Negations that reach to the end of their clause; others deny the next word."""
_THERE = _words("is are was were be been s")
"""Before a "no" that denies a whole clause; "with no hat" denies the next word."""
_REPLACED = _words("from вместо instead was были было был")
"""Before a number that held once: "up from 12"."""
_JOINS = _words("but and но а зато")
"""Words that begin a clause."""
_AT_ITS_DAY = _words(
    "сегодня вчера завтра послезавтра сейчас утром вечером днем ночью today yesterday tomorrow tonight now currently"
    " morning evening"
)
"""Words that tie a statement to its day: its numbers are those of the day."""
_SO_FAR = re.compile(
    r"\b(?:so far|this (?:week|month|year)|since|до сих пор|на этой неделе|в этом (?:месяце|году))\b",
    re.IGNORECASE,
)
_COUNTERS = _words(
    "day week part page step attempt try version chapter item no row день неделя неделе часть страница шаг попытка"
    " версия версии глава пункт номер строка"
)
"""Before a number that counts on: "day 5", «попытка 2»."""
_ORDINAL = re.compile(
    r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|next|\d+(?:st|nd|rd|th)"
    r"|(?:перв|втор|треть|четверт|пят|шест|седьм|восьм|девят|десят|последн|следующ|прошл)"
    r"(?:ый|ой|ая|ое|ого|ому|ую|ым|ом|ые|ых|ыми|его|ей|ему|ий|яя|ее|ю|я|и|е))\Z"
)
"""A rank, which is a name: the second test is not the third."""
_MONTH = "|".join(month.pattern for month in MONTHS)
_CODE = r"""
    `[^`\n]+` | https?://\S+ | (?<![\w.+-])[\w.+-]+@[\w-]+\.\w+  # code, address, mail
  | (?<![\w.-])[^\W\d_][\w.-]*/[\w./-]*\w  # path
  | \d{1,3}(?:\.\d{1,3}){3}(?::\d+)? | v?(?<!\d)\d+\.\d+\.\d[\w.-]* | v\d+ | \#\d+  # host, version, number of a task
  | (?<![^\W\d_])[^\W\d_]+[-_]?\d[\w.-]*\w | [^\W\d_]\d\b | (?<!\w)\w*[^\W_]_\w+  # E4021, p95, snake_case
  | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b  # hash
"""
_DATE = rf"""
    \b\d{{4}}-\d\d(?:-\d\d)?(?:[T ]\d\d:\d\d\S*)? | \b\d{{1,2}}\.\d{{1,2}}\.\d{{2,4}}\b
  | \b\d{{1,2}}(?:-?(?:го|е|st|nd|rd|th))?\s+(?:of\s+)?(?:{_MONTH})\b\.?(?:\s+\d{{4}}\b)?
  | \b(?:{_MONTH})\.?\s+(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}}\b)?
  | \b(?:[а-яё]+(?:ого|ое|ому|его|ье)|(?:first|second|third|[a-z]+th)(?:\s+of)?)\s+(?:{_MONTH})\b
  | \b(?:\d{{1,2}}(?:-?го|-?му)?|\w+(?:ого|ому|его|ему|ое))\s+числ[аоу]\b | \bthe\s+\d{{1,2}}(?:st|nd|rd|th)\b
  | \b(?:19|20)[0-4]\d\b(?!\s*[%€$₽]|[.,:]\d)
"""
_AMOUNT = r"""
    (?<![\w.])\d+(?:[.,]\d+)?\s?[-–]\s?\d+(?:[.,]\d+)?(?![\w-])  # a range
  | (?<![\w.])[-−]?\d{1,3}(?:[\s\u00a0,]\d{3})+(?:\.\d+)?(?!\w) | (?<!\w)\.?\d+(?:[.,]\d+)?
"""
# First the letters that a blank or a sign parts from what can begin no code or date with them: most tokens. Without
# this form 104,000 tokens take .35 s in place of .2.
_TOKEN = re.compile(
    rf"""
    [^\W\d_]++(?=[,;!?)»”]|\Z|\ (?!\s|\d|of\b|the\b|числ|{_MONTH}))
  | (?P<code>(?=[\w`.+-]|\#\d)(?:{_CODE})) | (?P<date>(?=\w)(?:{_DATE}))  # most letters begin none of many forms
  | (?P<glued>(?=\d)(?<![\w.])(?P<amount>\d+(?:[.,]\d+)?)(?P<glued_unit>[^\W\d_]{{1,4}})\b)
  | (?P<time>(?=\d)\b\d{{1,2}}:\d\d(?::\d\d)?\b) | (?P<number>(?=[\d.−-])(?:{_AMOUNT})) | (?P<sign>[%€$₽])
  | (?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*) | (?P<stop>[.,;:!?()\[\]|—–=\n«»"“”])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARK = re.compile(rf"\A\s*(?:#{{1,6}}\s+|[-*+•]\s+(?:{BOX}\s+)?|\d{{1,3}}[.)]\s+|>\s?|\|)+")
_STAMP = re.compile(
    r"\A\s*\[?(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d)?Z?\]?(?:\s+[^\W\d_][\w ]{0,20}:|\s*[—–:|-])?\s+"
)
"""The mark of an item; the time at which a line of a log was written, and who says it."""
_KEY_VALUE = re.compile(
    # A longer key or value is a clause with a colon in it, more often than a field.
    r"\A(?P<key>[^\W\d_][^:=|.!?\n—–]{1,40}?)(?:\s*[:=]\s+|\s+[—–]\s+)(?P<value>[^\n]{1,60}?)[.;]?\Z"
)
_COPULA = re.compile(
    r"\A(?:the|our|my|his|her|their|its|\S+['’]s)\s+(?P<key>[^,.;:!?()\n]{2,40}?)\s+(?:is|are|was|=)\s+(?P<value>[^\n]{1,60}?)[.;]?\Z",
    re.IGNORECASE,
)
# A guess: three long sentences.
_MOST_CHARS = 400
"""A longer statement is prose, or data of a program, and is not compared."""
# Words; with more it is a sentence that has a colon.
_MOST_KEY, _MOST_VALUE = 4, 6


class Quantity(NamedTuple):
    """A number with the stems before and after it; ``word`` is as written, with its unit."""

    value: str
    before: str
    unit: str
    word: str


class Look(NamedTuple):
    """Whether a statement may deny something and may be measured, the words that tell so, and its attribute.

    Each of these words stands between its neighbours; statements with the same ones differ in none of it.
    """

    denies: bool
    is_measured: bool
    telling: tuple[tuple[str, ...], ...]
    key: frozenset[str]


@dataclass(frozen=True)
class Statement:
    """One statement, read.

    Attributes
    ----------
    text : str
        As written, without the mark of an item.
    stems : tuple of str
        Its content words in order; opposites are one stem.
    words : dict of str to str
        Each stem as it is written.
    polarity : dict of str to bool
        True for stems that are affirmed, False for denied; a stem that is both is absent.
    n_denials : int
        How many words deny something.
    opposites : frozenset of str
        The stems that a word of their own denies ("disabled", of "enabled").
    quantities : tuple of Quantity
    dates, times, names, ordinals : frozenset of str
    clauses : tuple of frozenset of str
        The stems of each clause.
    key, value : frozenset of str, str
        The attribute that has one value at a time, and its value as written; empty where there is none.
    value_words, value_numbers : frozenset of str
        The stems of the value; its numbers, dates and times.
    attribute : str
        The attribute in words.
    heading : frozenset of str or None
        The stems of what stands above, empty where nothing does; None where that names no subject ("14:30 Status").
    is_of_its_day : bool
        Whether it speaks of the day it was written ("today", «сейчас»).
    """

    text: str
    stems: tuple[str, ...]
    words: dict[str, str]
    polarity: dict[str, bool]
    n_denials: int
    opposites: frozenset[str]
    quantities: tuple[Quantity, ...]
    dates: frozenset[str]
    times: frozenset[str]
    names: frozenset[str]
    ordinals: frozenset[str]
    clauses: tuple[frozenset[str], ...]
    key: frozenset[str]
    value: str
    value_words: frozenset[str]
    value_numbers: frozenset[str]
    attribute: str
    heading: frozenset[str] | None
    is_of_its_day: bool

    @cached_property
    def content(self) -> frozenset[str]:
        """Its stems and names as a set."""
        return frozenset(self.stems)


class _Token(NamedTuple):
    """A token as it is written, as it is compared, and `folded`."""

    kind: str
    word: str
    stem: str
    plain: str


class Reader:
    """Reads texts as statements; stems are asked for once a word.

    Parameters
    ----------
    number_words : tuple of str
        ``word=digits``.
    date_words : tuple of str
        Beginnings of Cyrillic words, whole words of others.
    negations : tuple of str
        Whole words; a word in ``n't`` counts too.

    Attributes
    ----------
    digits : dict of str to str
        The number that a `folded` word spells.
    days : re.Pattern
        What the begin of a `folded` word matches that names a day.

    Examples
    --------
    >>> (one,) = Reader().read(["- Пул соединений: максимум 20."])[0]
    >>> one.quantities[0].value, one.quantities[0].before, sorted(one.stems)
    ('20', 'максимум', ['максимум', 'пул', 'соединен'])
    """

    def __init__(
        self,
        number_words: Sequence[str] = NUMBER_WORDS,
        date_words: Sequence[str] = DATE_WORDS,
        negations: Sequence[str] = NEGATIONS,
    ) -> None:
        self.digits = {folded(word): digits for word, _, digits in (pair.partition("=") for pair in number_words)}
        self.days = re.compile("|".join(map(_day, map(folded, date_words))) or "(?!)")
        self._negations = frozenset(map(folded, negations))
        self._stems: dict[str, str] = {}
        self._seen: dict[tuple[str, str], _Token] = {}
        self._told: dict[str, tuple[bool, bool] | None] = {}
        self._units = {word: line.split()[0] for line in UNITS for word in line.split()}
        self._opposites: dict[str, tuple[str, bool]] = {}
        self._attributes = [(name, re.compile(pattern)) for name, pattern in ATTRIBUTES]
        every = [word for pair in OPPOSITES for side in pair for word in side.split()]
        self.learn(every)
        for positive, negative in OPPOSITES:
            name = self._stems[positive.split()[0]]
            self._opposites |= {self._stems[word]: (name, True) for word in positive.split()}
            self._opposites |= {self._stems[word]: (name, False) for word in negative.split()}

    def is_negation(self, word: str) -> bool:
        """Whether a `folded` word denies something."""
        return word in self._negations or word.endswith(("n't", "n’t"))

    def read(self, texts: Sequence[str], headings: Sequence[str | None] | None = None) -> list[list[Statement]]:
        """The statements of each text; `headings` are what stands above each. Cost linear in the characters.

        A heading of None, or one without a word that says something, names no subject; an empty one is none at all.
        """
        pieces = [list(pieces_of(text)) for text in texts]
        above = list(headings) if headings is not None else [""] * len(texts)
        self._learn_from(chain(chain.from_iterable(pieces), (heading or "" for heading in above)))
        stems = [self._content(heading or "") if heading != "" else frozenset[str]() for heading in above]
        subjects = [of_one if of_one or heading == "" else None for of_one, heading in zip(stems, above, strict=True)]
        # A round number, below which nobody waits.
        shown = bar("reading statements", pieces, silent=len(pieces) < 500, leave=False)
        both, known = zip(shown, subjects, strict=True), dict[str, Statement]()
        return [[self._once(piece, subject, known) for piece in of_text] for of_text, subject in both]

    def statements(self, pieces: Sequence[str]) -> list[Statement]:
        """The statements that `pieces_of` cut, each by itself and under no heading."""
        self._learn_from(pieces)
        return [self._statement(piece, frozenset()) for piece in pieces]

    def first_look(self, pieces: Sequence[str]) -> Iterator[Look]:
        """What pieces may say, without reading more of them.

        >>> [look[:2] for look in Reader().first_look(["Пьёт чай", "не пьёт", "в два", "disabled"])]
        [(False, False), (True, False), (False, True), (True, False)]
        >>> same, more = Reader().first_look(["The pool has 20 places.", "The pool, as ever, has 20 places."])
        >>> same.telling == more.telling
        True
        """
        cut = [folded(piece).split() for piece in pieces]
        new = {
            chunk: {*_LETTERS.findall(chunk), *_WORDS.findall(chunk)}
            for chunk in set(chain.from_iterable(cut)) - self._told.keys()
        }
        self.learn(chain.from_iterable(new.values()))
        for chunk, words in new.items():
            denies = any(self.is_negation(word) or not self._is_positive(word) for word in words)
            is_measured = _DIGIT.search(chunk) is not None or any(
                word in self.digits or self.days.match(word.removesuffix("s")) or _OF_DATES.match(word)
                for word in words
            )
            self._told[chunk] = (denies, is_measured) if denies or is_measured else None
        for piece, chunks in zip(pieces, cut, strict=True):
            around = ["", *chunks, ""]
            told = [(how, tuple(around[n : n + 3])) for n, chunk in enumerate(chunks) if (how := self._told[chunk])]
            denies, is_measured = (any(how[side] for how, _ in told) for side in (0, 1))
            yield Look(denies, is_measured, tuple(sorted(words for _, words in told)), self._attribute(piece)[0])

    def _learn_from(self, texts: Iterable[str]) -> None:
        self.learn(map(folded, {word for text in texts for word in _WORDS.findall(text)}))

    def learn(self, words: Iterable[str]) -> None:
        """Ask for the stems of `folded` words at once; a question a word takes a millisecond each."""
        new = sorted(set(words).difference(self._stems))
        terms = terms_by("auto").terms(new)
        self._stems.update((word, "-".join(of_word) or word) for word, of_word in zip(new, terms, strict=True))

    def stem(self, word: str) -> str:
        """The stem of a `folded` word."""
        if word not in self._stems:
            self.learn([word])
        return self._stems[word]

    def _content(self, text: str) -> frozenset[str]:
        plain = (folded(word) for word in _WORDS.findall(text))
        return frozenset(self.stem(word) for word in plain if word not in FUNCTION_WORDS)

    def _once(self, text: str, heading: frozenset[str] | None, known: dict[str, Statement]) -> Statement:
        """A statement, read once however many texts have it: logs repeat their lines."""
        if text not in known:
            known[text] = self._statement(text, heading)
        return known[text] if known[text].heading == heading else replace(known[text], heading=heading)

    def _statement(self, text: str, heading: frozenset[str] | None) -> Statement:
        tokens = list(self._tokens(text))
        # From the end, so that of two spellings of a stem the first stays.
        words = {stem: word for kind, word, stem, _ in reversed(tokens) if kind in ("word", "unit", "date", "time")}
        key, value, attribute = self._attribute(text)
        in_value = list(self._tokens(value))
        polarity, n_denials = self._polarity(tokens)
        return Statement(
            text=text,
            stems=tuple(dict.fromkeys(stem for kind, _, stem, _ in tokens if kind in ("word", "code"))),
            words=words,
            polarity=polarity,
            n_denials=n_denials,
            opposites=frozenset(one.stem for one in tokens if one.kind == "word" and not self._is_positive(one.plain)),
            quantities=tuple(_quantities(tokens, self._units)),
            dates=frozenset(stem for kind, _, stem, _ in tokens if kind == "date"),
            times=frozenset(stem for kind, _, stem, _ in tokens if kind == "time"),
            names=frozenset(
                stem
                for place, (kind, word, stem, _) in enumerate(tokens)
                if kind == "code"
                or (kind == "word" and word[0].isupper() and place and tokens[place - 1].kind != "stop")
            ),
            ordinals=frozenset(stem for kind, _, stem, _ in tokens if kind == "ordinal"),
            clauses=tuple(_clauses(tokens)),
            key=key,
            value=value,
            value_words=frozenset(
                one.stem for one in in_value if one.kind in ("word", "code", "unit") or one.word in _NAMING
            ),
            value_numbers=frozenset(
                stem for kind, _, stem, _ in in_value if kind in ("number", "date", "time", "ordinal")
            ),
            attribute=attribute,
            heading=heading,
            is_of_its_day=any(one.plain in _AT_ITS_DAY for one in tokens) or bool(_SO_FAR.search(text)),
        )

    def _tokens(self, text: str) -> Iterator[_Token]:
        is_after_number = False
        for token in self._apart(text):
            is_unit = is_after_number and token.plain in self._units and token.kind != "sign"
            yield token._replace(kind="unit", stem=self._units[token.plain]) if is_unit else token
            is_after_number = token.kind == "number"

    def _apart(self, text: str) -> Iterator[_Token]:
        for match in _TOKEN.finditer(text):
            kind, word = match.lastgroup or "word", match[0]
            if kind == "number":
                is_label = bool(_LABELS.match(text, match.end())) and bool(
                    _LABELLED.search(text, max(0, match.start() - _LABEL_MOST), match.start())
                )
                yield _Token("ordinal" if is_label else "number", word, _number(word), folded(word))
            elif kind == "glued":
                number, unit = match["amount"], match["glued_unit"]
                of_unit = folded(unit)
                if of_unit in self._units:
                    yield _Token("number", number, _number(number), number)
                    yield _Token("unit", unit, self._units[of_unit], of_unit)
                else:
                    yield _Token("code", word, folded(word), folded(word))
            else:
                yield self._seen.get((kind, word)) or self._seen.setdefault((kind, word), self._anywhere(kind, word))

    def _anywhere(self, kind: str, word: str) -> _Token:
        """The token of what is the same wherever it stands."""
        plain = folded(word)
        if kind == "word":
            return self._of_word(word, plain)
        return _Token(kind, word.rstrip("."), plain.strip("`").rstrip("."), plain.rstrip("."))

    def _of_word(self, word: str, plain: str) -> _Token:
        """The token of a word."""
        if self.is_negation(plain):
            return _Token("negation", word, plain, plain)
        if _ORDINAL.match(plain):
            return _Token("ordinal", word, self.digits.get(plain, plain), plain)
        if plain in self.digits:
            return _Token("number", word, self.digits[plain], plain)
        if self.days.match(plain.removesuffix("s")):
            return _Token("date", word, self.stem(plain), plain)
        if _APOSTROPHE.split(plain)[0] in FUNCTION_WORDS:
            return _Token("function", word, plain, plain)
        stem = self.stem(plain)
        return _Token("word", word, self._opposites.get(stem, (stem, True))[0], plain)

    def _is_positive(self, word: str) -> bool:
        """Whether a `folded` word is none that says the opposite of another."""
        return self._opposites.get(self.stem(word), ("", True))[1]

    def _polarity(self, tokens: list[_Token]) -> tuple[dict[str, bool], int]:
        """Whether each stem is affirmed, without those that are both, and how many words deny something."""
        affirmed: dict[str, bool] = {}
        mixed: set[str] = set()
        wide = narrow = False
        n_denials = 0
        for place, (kind, _, stem, plain) in enumerate(tokens):
            if kind == "stop" or plain in _JOINS:
                wide = narrow = False
            elif kind == "negation":
                before = tokens[place - 1].plain if place else ""
                after = tokens[place + 1].plain if place + 1 < len(tokens) else ""
                if after in _UNNEGATED_AFTER or before in _UNNEGATED_BEFORE:
                    continue
                n_denials += 1
                if plain in _WIDE and (plain != "no" or not place or before in _THERE):
                    wide = True
                else:
                    narrow = True
            elif kind == "word":
                is_positive = self._is_positive(plain)
                n_denials += not is_positive
                holds = is_positive != (wide or narrow)
                narrow = False
                if affirmed.setdefault(stem, holds) != holds:
                    mixed.add(stem)
        # At the end it denies all before it: «Кота у меня нет».
        if tokens and tokens[-1].plain == "нет":
            affirmed = {stem: not holds for stem, holds in affirmed.items()}
        return {stem: holds for stem, holds in affirmed.items() if stem not in mixed}, n_denials

    def _attribute(self, text: str) -> tuple[frozenset[str], str, str]:
        plain = folded(text)
        for name, pattern in self._attributes:
            match = pattern.search(plain)
            if match and not any(map(self.is_negation, _WORDS.findall(plain[: match.start("value")]))):
                # Where folding changed the length, a place in it is none of the text.
                value = text[match.start("value") : match.end("value")] if len(plain) == len(text) else match["value"]
                value = _VALUE_ENDS.split(value)[0].strip()
                if value:
                    return frozenset({name}) | self._content(text[: match.start()]), value, name
        for form in (_COPULA, _KEY_VALUE):
            match = form.match(text)
            if match and len(match["key"].split()) <= _MOST_KEY and len(match["value"].split()) <= _MOST_VALUE:
                key = self._content(match["key"]) | frozenset(_NUMBERS.findall(match["key"]))
                value = match["value"].strip()
                is_said_to_be = form is _COPULA and not (
                    (len(key) > 1 and not _DOES.match(value)) or _NAMED.search(value)
                )
                if not is_said_to_be:
                    return key, value, match["key"].strip()
        return frozenset(), "", ""


_APOSTROPHE = re.compile("['’]")
_LABELS = re.compile(r"\s*[:(]")
_LABELLED = re.compile(r"(?:\A|[.;!\n(][^\S\n]*|\bfor\s+)[^\W\d_]+\s+\Z", re.IGNORECASE)
"""A number between a word that begins a sentence and a colon or bracket is a name: "Child 2: …"."""
_LABEL_MOST = 60
"""The characters before a number in which such a word is looked for."""
_DOES = re.compile(r"(?:not\s+)?(?:[a-z]+ing|[a-z]+ed)\b")
_NAMED = re.compile(r"\d|[A-ZА-ЯЁ]|`")
"""In "the pool is full" no attribute has a value; in "the pool is Borey" and "the pool size is large" one has."""
_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NAMING = frozenset("ABCDEFGHJKLMNOPQRSTUVWXYZАБВГДЕЖЗКЛМНОПРСТУФХЦЧШЭЮ")
"""Letters that name a thing: "vault A"."""
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_OF_DATES = re.compile(rf"(?:{_MONTH}|числ)")
_RANGE = re.compile(r"([\d.,]+)\s?[-–]\s?([\d.,]+)")
_PLAIN = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)")
"""A number that can be read: what only looks like one, as ".4.0", stays the word that it is."""
THOUSANDS = re.compile(r"(?<=\d)[\s,](?=\d{3}(?!\d))")
"""What parts the thousands of a number."""
_NUMBERS = re.compile(r"\d+")
_VALUE_ENDS = re.compile(r"(?<!\s)\s+(?:and|with|since|и|с|со|но|but|because|потому)\b", re.IGNORECASE)


def pieces_of(text: str) -> Iterator[str]:
    """The sentences, items and lines of a text that state something: no headings, code, questions, or data."""
    for sentence in sentences_of(text):
        piece = " ".join(_STAMP.sub("", _MARK.sub("", sentence.text).replace("**", "")).split())
        if piece and len(piece) <= _MOST_CHARS and not sentence.is_heading and not piece.endswith("?"):
            yield piece


def _clauses(tokens: list[_Token]) -> Iterator[frozenset[str]]:
    stems: set[str] = set()
    for kind, _, stem, plain in tokens:
        if kind == "stop" or plain in _JOINS:
            yield frozenset(stems)
            stems = set()
        elif kind in ("word", "code"):
            stems.add(stem)
    yield frozenset(stems)


def _quantities(tokens: list[_Token], units: dict[str, str]) -> Iterator[Quantity]:
    for place, (kind, word, value, _) in enumerate(tokens):
        if kind != "number":
            continue
        before = after = ""
        is_counter = False
        for token in reversed(tokens[:place]):
            if token.kind == "word":
                before = token.stem
                is_counter = token.plain in _COUNTERS
            if token.kind in ("word", "date", "time", "code", "number") or (
                token.kind == "stop" and token.word not in ":=—–("
            ):
                break
        following = tokens[place + 1 : place + 2]
        shown = word
        if following and following[0].kind in ("word", "sign", "unit"):
            after = units.get(following[0].plain, following[0].stem)
            shown = word + following[0].word if following[0].kind == "sign" else f"{word} {following[0].word}"
        elif place and tokens[place - 1].kind == "sign":
            after, shown = units[tokens[place - 1].word], tokens[place - 1].word + word
        is_replaced = bool(place) and tokens[place - 1].plain in _REPLACED
        if (before or after) and not is_counter and not is_replaced:
            yield Quantity(value, before, after, shown)


def _number(word: str) -> str:
    """A number or range in one spelling: no separators of thousands, a point for decimals; else the word itself.

    >>> [_number(word) for word in ("1 240", "1,240", "0,80", ".8", "15", "1 – 2", ".4,0")]
    ['1240', '1240', '0.8', '0.8', '15', '1-2', '.4,0']
    """
    if (ends := _RANGE.fullmatch(word)) is not None:
        return "-".join(map(_number, ends.groups()))
    plain = THOUSANDS.sub("", word).replace(",", ".").replace("−", "-")
    if not _PLAIN.fullmatch(plain):
        return word
    exact = f"{Decimal(plain):f}"
    return exact.rstrip("0").rstrip(".") if "." in exact else exact


def _day(word: str) -> str:
    return re.escape(word) + ("" if "а" <= word[-1] <= "я" else r"\Z")
