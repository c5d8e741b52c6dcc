"""What two texts must agree in before one may replace the other: numbers, dates, negation.

Contradictions look more alike than paraphrases ("rent 1200", "rent 1500"), so no similarity tells them apart.
"""

from __future__ import annotations

import pyarrow as pa

from memkit.errors import ParameterError
from memkit.policy.base import alternatives, quote
from memkit.tables.statement import connect

NUMBER_WORDS = (
    *("два=2", "две=2", "двух=2", "двум=2", "двумя=2", "три=3", "трёх=3", "трём=3", "тремя=3", "четыре=4"),
    *("четырёх=4", "пять=5", "пяти=5", "шесть=6", "шести=6", "семь=7", "семи=7", "восемь=8", "восьми=8", "девять=9"),
    *("девяти=9", "десять=10", "десяти=10", "сто=100", "тысяча=1000", "two=2", "three=3", "four=4", "five=5"),
    *("six=6", "seven=7", "eight=8", "nine=9", "ten=10", "twelve=12", "twenty=20", "hundred=100", "thousand=1000"),
)
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
    number_words: tuple[str, ...] = NUMBER_WORDS,
    date_words: tuple[str, ...] = DATE_WORDS,
    negations: tuple[str, ...] = NEGATIONS,
) -> pa.Table:
    """What the texts say in numbers, dates and negations.

    Parameters
    ----------
    texts : list of str
        Case-folded.
    number_words : tuple of str
        ``word=digits``.
    date_words : tuple of str
        Beginnings of Cyrillic words, whole words of others.
    negations : tuple of str
        Whole words; a word in ``n't`` counts too.

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
    with connect() as con:
        con.register("input", rows)
        return con.execute(traits_sql(number_words, date_words, negations)).to_arrow_table()


def traits_sql(number_words: tuple[str, ...], date_words: tuple[str, ...], negations: tuple[str, ...]) -> str:
    """The statement behind `traits`, over ``input`` (place, text)."""
    stems = [word for word in date_words if "а" <= word[-1] <= "я"]
    whole = [word for word in date_words if word not in stems]
    dated = f"^(?:({alternatives(stems) or '[^ -~]{99}'})|({alternatives(whole) or '[^ -~]{99}'})$)"
    negated = f"^(?:{alternatives(negations) or '[^ -~]{99}'})$|n['’]t$"
    return f"""select place,
    list_sort(
        regexp_extract_all(text, {quote(_NUMBER)})
        || list_filter(list_transform(words, lambda word: {_digits(number_words)}[word]), lambda digits: digits <> '')
    ) as numbers,
    list_sort(
        regexp_extract_all(text, {quote(_DATE)})
        || list_filter(
            list_transform(words, lambda word: regexp_extract(word, {quote(dated)}, 1)
                || regexp_extract(word, {quote(dated)}, 2)),
            lambda day: day <> ''
        )
    ) as dates,
    len(list_filter(words, lambda word: regexp_matches(word, {quote(negated)}))) as negations
from (select place, text, regexp_extract_all(text, {quote(_WORD)}) as words from input)
order by place"""  # noqa: S608  # declared word lists only, quoted


def _digits(number_words: tuple[str, ...]) -> str:
    pairs = dict(word.partition("=")[::2] for word in number_words)
    wrong = [word for word, digits in pairs.items() if not (word and digits)]
    if wrong:
        raise ParameterError(f"number_words must be written 'word=digits'. Got {wrong[0]!r}.")
    spelled = {spelling: digits for word, digits in pairs.items() for spelling in (word, word.replace("ё", "е"))}
    return f"map([{', '.join(map(quote, spelled))}]::varchar[], [{', '.join(map(quote, spelled.values()))}]::varchar[])"
