"""What two texts must agree in before one may replace the other: numbers, dates, negation.

Contradictions look more alike than paraphrases ("rent 1200", "rent 1500"), so no similarity tells them apart.
"""

from __future__ import annotations

import pyarrow as pa

from memkit.duck import connect, literal
from memkit.errors import ParameterError
from memkit.policy.base import alternatives

_COUNTS = {
    **{2: "два две двух двум двумя пара пару пары", 3: "три трёх трём тремя", 4: "четыре четырёх четырём четырьмя"},
    **{5: "пять пяти пятью", 6: "шесть шести шестью", 7: "семь семи семью", 8: "восемь восьми восемью"},
    **{9: "девять девяти девятью", 10: "десять десяти десятью", 11: "одиннадцать одиннадцати"},
    **{12: "двенадцать двенадцати дюжина дюжину дюжины", 13: "тринадцать тринадцати", 14: "четырнадцать четырнадцати"},
    **{15: "пятнадцать пятнадцати", 16: "шестнадцать шестнадцати", 17: "семнадцать семнадцати"},
    **{18: "восемнадцать восемнадцати", 19: "девятнадцать девятнадцати", 20: "двадцать двадцати"},
    **{30: "тридцать тридцати", 40: "сорок сорока", 50: "пятьдесят пятидесяти", 60: "шестьдесят шестидесяти"},
    **{70: "семьдесят семидесяти", 80: "восемьдесят восьмидесяти", 90: "девяносто девяноста", 100: "сто ста"},
    **{200: "двести двухсот", 300: "триста трёхсот", 500: "пятьсот пятисот", 1000: "тысяча тысячи тысячу тысяч"},
}
_COUNTS_ENGLISH = (
    *("two=2", "three=3", "four=4", "five=5", "six=6", "seven=7", "eight=8", "nine=9", "ten=10", "eleven=11"),
    *("twelve=12", "dozen=12", "thirteen=13", "fourteen=14", "fifteen=15", "sixteen=16", "seventeen=17"),
    *("eighteen=18", "nineteen=19", "twenty=20", "thirty=30", "forty=40", "fifty=50", "sixty=60", "seventy=70"),
    *("eighty=80", "ninety=90", "hundred=100", "thousand=1000", "first=1", "second=2", "third=3", "fourth=4"),
    *("fifth=5", "sixth=6", "seventh=7", "eighth=8", "ninth=9", "tenth=10", "eleventh=11", "twelfth=12"),
)
_ORDINALS = {
    **{"перв": 1, "втор": 2, "четвёрт": 4, "пят": 5, "шест": 6, "седьм": 7, "восьм": 8, "девят": 9, "десят": 10},
    **{"одиннадцат": 11, "двенадцат": 12, "тринадцат": 13, "четырнадцат": 14, "пятнадцат": 15, "двадцат": 20},
    **{"тридцат": 30, "сот": 100},
}
_ENDINGS = ("ый", "ой", "ая", "ое", "ого", "ому", "ую", "ым", "ом", "ые", "ых", "ыми")
_THIRD = "третий третья третье третьего третьему третьим третьем третью третьей третьи третьих"
NUMBER_WORDS = (
    *(f"{word}={number}" for number, words in _COUNTS.items() for word in words.split()),
    *(f"{stem}{ending}={number}" for stem, number in _ORDINALS.items() for ending in _ENDINGS),
    *(f"{word}=3" for word in _THIRD.split()),
    *_COUNTS_ENGLISH,
)
"""Spelled numbers in their forms, as word=digits; «один», "one" and «раз» say too often no number at all."""
DATE_WORDS = (
    *("январ", "феврал", "март", "апрел", "май", "мая", "мае", "июн", "июл", "август", "сентябр", "октябр", "ноябр"),
    *("декабр", "понедельник", "вторник", "сред", "четверг", "пятниц", "суббот", "воскресень"),
    *("вчера", "сегодня", "завтра", "послезавтра"),
    *("january", "february", "march", "april", "june", "july", "august", "september", "october", "november"),
    *("december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    *("yesterday", "today", "tomorrow"),
)
NEGATIONS = (
    *("не", "нет", "ни", "без", "нельзя", "никогда", "никто", "никого", "никому", "ничто", "ничего", "ничем"),
    *("нигде", "никуда", "никак", "отнюдь", "перестал", "перестала"),
    *("not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot"),
)

_WORD = r"[\p{L}]+(?:['’][\p{L}]+)?"
_NUMBER = r"[\p{Nd}]+(?:[.,][\p{Nd}]+)*"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./][0-9]{1,2}(?:[./][0-9]{2,4})?"


def traits(
    texts: list[str],
    number_words: tuple[str, ...] | None = None,
    date_words: tuple[str, ...] | None = None,
    negations: tuple[str, ...] | None = None,
) -> pa.Table:
    """What the texts say in numbers, dates and negations.

    Parameters
    ----------
    texts : list of str
        Case-folded.
    number_words : tuple of str, optional
        ``word=digits``; None: `NUMBER_WORDS`.
    date_words : tuple of str, optional
        Beginnings of Cyrillic words, whole words of others; None: `DATE_WORDS`.
    negations : tuple of str, optional
        Whole words; a word in ``n't`` counts too. None: `NEGATIONS`.

    Returns
    -------
    pyarrow.Table
        place (int64), numbers, dates (list of string, sorted), negations (int64, how many).

    Examples
    --------
    >>> traits(["аренда 1200 с марта", "doesn't eat two apples"]).select([1, 2, 3]).to_pylist()[1]
    {'numbers': ['2'], 'dates': [], 'negations': 1}
    """
    rows = pa.table({"place": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts, pa.string())})
    given, known = (number_words, date_words, negations), (NUMBER_WORDS, DATE_WORDS, NEGATIONS)
    lists = (default if words is None else words for words, default in zip(given, known, strict=True))
    with connect() as con:
        con.register("input", rows)
        return con.execute(traits_sql(*lists)).to_arrow_table()


def traits_sql(number_words: tuple[str, ...], date_words: tuple[str, ...], negations: tuple[str, ...]) -> str:
    """The statement behind `traits`, over ``input`` (place, text)."""
    stems = [word for word in date_words if "а" <= word[-1] <= "я"]
    whole = [word for word in date_words if word not in stems]
    dated = f"^(?:({alternatives(stems) or '[^ -~]{99}'})|({alternatives(whole) or '[^ -~]{99}'})$)"
    negated = f"^(?:{alternatives(negations) or '[^ -~]{99}'})$|n['’]t$"
    return f"""select place,
    list_sort(
        regexp_extract_all(text, {literal(_NUMBER)})
        || list_filter(list_transform(words, lambda word: {_digits(number_words)}[word]), lambda digits: digits <> '')
    ) as numbers,
    list_sort(
        regexp_extract_all(text, {literal(_DATE)})
        || list_filter(
            list_transform(words, lambda word: regexp_extract(word, {literal(dated)}, 1)
                || regexp_extract(word, {literal(dated)}, 2)),
            lambda day: day <> ''
        )
    ) as dates,
    len(list_filter(words, lambda word: regexp_matches(word, {literal(negated)}))) as negations
from (select place, text, regexp_extract_all(text, {literal(_WORD)}) as words from input)
order by place"""  # noqa: S608  # declared word lists only, quoted


def _digits(number_words: tuple[str, ...]) -> str:
    pairs = dict(word.partition("=")[::2] for word in number_words)
    wrong = [word for word, digits in pairs.items() if not (word and digits)]
    if wrong:
        raise ParameterError(f"number_words must be written 'word=digits'. Got {wrong[0]!r}.")
    spelled = {spelling: digits for word, digits in pairs.items() for spelling in (word, word.replace("ё", "е"))}
    words, digits = (", ".join(map(literal, side)) for side in (spelled, spelled.values()))
    return f"map([{words}]::varchar[], [{digits}]::varchar[])"
