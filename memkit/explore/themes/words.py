"""The words that name a group of texts, by class-based tf-idf, in a form in which people write them.

A group is one class (Grootendorst 2022, BERTopic): the weight of a term is its share among the words of the group,
times log(1 + A / f), where f counts the term over all groups, and A is the mean number of words of a group. A memory
counts a word once, so that one long list does not name a topic.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.base.duck import as_arrow, interruptible, session
from memkit.schemas import Ints
from memkit.text.analyse import load_fts, spelling_sql, vocabulary_sql
from memkit.text.function_words import FUNCTION_WORDS
from memkit.text.secrets import Mask, may_hold, without_secrets

SHOWN = 8
"""The most words of a group."""
_ADDRESSES = r"\S+://\S+|\S+@\S+\.\S+|\S*/\S+/\S*|\*\*\[[\d:]+\] \w+\*\*"
"""Addresses, paths, and who speaks in a transcript."""
_MEASURES = (
    r"(?:second|minute|hour|day|week|month|year|time)s?|(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred)"
    r"|секунд\w*|минут\w*|час(?:а|ов|ы|у)?|д(?:ень|ня|ней|ни|ню)|недел\w*|месяц\w*|год(?:а|у|ы|ов)?|лет|раза?"
    r"|од(?:ин|на|но|ного|ной|ну)|дв(?:а|е|ух|умя)|тр(?:и|ёх|ех)|четыр(?:е|ёх|ех)|(?:пят|шест|сем|девят|десят)[ьи]"
    r"|вос(?:емь|ьми)|сто|ста|всего"
)
_UNNAMED = f"(?i)(?:{'|'.join(name.pattern for name in (*MONTHS, *WEEKDAYS))}|{_MEASURES})"
"""Dates, numbers in words and their units: they say when and how much, not what about."""
_NAMES = r"\p{L}{3,}[\p{L}\p{N}_]*|\p{Lu}{2}|[^\p{Latin}\p{Cyrillic}\P{L}]{2,}"
"""Three letters or more, two capitals (CI, ИИ), or two letters of another script."""
_TERMS = f"""
    with spellings as materialized (
        select distinct class, doc, unnest({spelling_sql("body")}) as spelling
        from (select class, doc, regexp_replace(body, '{_ADDRESSES}', ' ', 'g') as body from texts)
    ), vocabulary as materialized ({vocabulary_sql("spellings")}),
    words as (
        select spelling, len(terms) > 1 and not contains(spelling, '_') as is_run,
            unnest(if(is_run, terms, terms[:1])) as term
        from vocabulary
    ), named as (
        select class, doc, term, if(is_run, term, spelling) as spelling from spellings join words using (spelling)
        where regexp_full_match(if(is_run, term, spelling), '{_NAMES}')
            and not regexp_full_match(spelling, $unnamed)
            and not list_contains($function_words, replace(lower(spelling), 'ё', 'е'))
    ), forms as (
        select class, term, spelling, count(distinct doc) as n from named group by all
    ), counts as (
        select class, term, count(distinct doc) as n from named group by all
    ), totals as (
        select term, sum(n) as f, (select sum(n) / count(distinct class) from counts) as mean from counts group by term
    ), sizes as (
        select class, sum(n) as words, (select count(distinct doc) from texts t where t.class = c.class) as docs
        from counts c group by class
    ), weighted as (
        select class, term, n / words * ln(1 + mean / f) as weight, n >= least(2, docs) as is_shared
        from counts join totals using (term) join sizes using (class)
        qualify is_shared = bool_or(is_shared) over (partition by class)
    ), best as (
        select * from weighted
        qualify row_number() over (partition by class order by round(weight, 12) desc, term) <= $most
    )
    select class, term, round(weight, 12) as weight,
        list({{'spelling': spelling, 'n': n}} order by n desc, spelling) as forms
    from best join forms using (class, term) group by class, term, weight order by class, weight desc, term
"""  # noqa: S608  # constants of this module and expressions of `text.analyse`


def words_of(texts: pa.ChunkedArray, doc: Ints, group: Ints, most: int = SHOWN) -> dict[int, list[str]]:
    """The words of each group of texts, the strongest first.

    A word is in at least two memories of its group, if any is. Stop words, numbers, dates, addresses
    and secrets are no words. Its form is a short one among those that are written often.

    Parameters
    ----------
    texts : pa.ChunkedArray of string
    doc : ndarray of int64
        The memory of each text; several texts may be of one.
    group : ndarray of int64
        The group of each text.
    most : int
        The most words of a group.

    Examples
    --------
    >>> import numpy as np
    >>> texts = ["Пулы соединений", "пул соединений мал", "Green tea", "black tea, 2026"]
    >>> words_of(pa.chunked_array([texts]), np.arange(4), np.array([0, 0, 1, 1]))
    {0: ['пул', 'соединений'], 1: ['tea']}
    """
    held = may_hold(texts)
    if pc.any(held).as_py():  # what one text calls a secret is none of the words of another
        hide, pairs = Mask(texts.filter(held).to_pylist()), zip(texts.to_pylist(), held.to_pylist(), strict=True)
        blank = [without_secrets(text) if hold else text for text, hold in pairs]
        texts = pa.chunked_array([[hide.again(text, " ") for text in blank]], pa.string())
    rows = pa.table({"class": group, "doc": doc, "body": texts})
    values = {"unnamed": _UNNAMED, "function_words": sorted(FUNCTION_WORDS), "most": most}
    with session() as con, interruptible():
        load_fts(con)
        con.register("texts", rows)
        counted = as_arrow(con, _TERMS, values).to_pylist()
    words: dict[int, list[str]] = {}
    for row in counted:
        words.setdefault(row["class"], []).append(written(row["forms"]))
    return words


def written(forms: list[dict[str, Any]]) -> str:
    """How a term is written: of the forms at least half as frequent as the most frequent one, the shortest.

    In lower case, if any of its spellings is; else as most often.

    >>> written([{"spelling": "пула", "n": 4}, {"spelling": "Пул", "n": 2}, {"spelling": "пул", "n": 1}])
    'пул'
    >>> written([{"spelling": "Анна", "n": 2}, {"spelling": "Анны", "n": 3}])
    'Анны'
    """
    by_word: Counter[str] = Counter()
    for form in forms:
        by_word[form["spelling"].lower()] += form["n"]
    often = max(by_word.values())
    word = min((word for word, n in by_word.items() if 2 * n >= often), key=lambda one: (len(one), -by_word[one], one))
    spellings = {form["spelling"]: form["n"] for form in forms if form["spelling"].lower() == word}
    return word if word in spellings else max(spellings, key=lambda one: (spellings[one], one))
