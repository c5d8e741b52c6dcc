"""Whether a heading says something by itself («Отправлено: 182 письма»), or only names what is below it («Итоги»).

The rule counts, so that it holds in both languages: a heading says something if it has five words and asks nothing, or
a label and what it is («Решение: Postgres»), or a number among words that is no date, no time and no ordinal.
"""

from __future__ import annotations

import re
from itertools import islice

from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.text.function_words import FUNCTION_WORDS

_MONTHS = "|".join(name.pattern for name in MONTHS)
_DAYS = "|".join(name.pattern for name in WEEKDAYS)
_WHEN = re.compile(
    r"\b(?:\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m\b)?|(?:19|20)\d\d"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:{_MONTHS})|(?:{_MONTHS})\s+\d{{1,2}}|(?:utc|gmt|msk|мск)(?:[+-]\d+)?)\b",
    re.IGNORECASE,
)
_NAMED_DAY = re.compile(rf"\b(?:{_MONTHS}|{_DAYS})\b", re.IGNORECASE)
_ORDINAL = re.compile(
    r"\b(?:step|part|phase|chapter|section|session|day|week|sprint|round|stage|task|version|v"
    r"|шаг|часть|фаза|глава|раздел|сессия|сеанс|день|неделя|спринт|раунд|этап|задача|версия)\s*[№#]?\s*\d+(?:\.\d+)*\b",
    re.IGNORECASE,
)
_MARKS = re.compile(r"(?<!\s)\s*#{1,6}\s*(?:\d+(?:[.)]|(?:\.\d+)+)\s+)?")
_LABEL = re.compile(r"[^\W\d_][^\n]*?(?::|\s[—–-]|\s?(?:->|→|=))\s*(?=[^\W_])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*(?!\w)")
_ASKS = frozenset(
    {"what", "who", "where", "when", "why", "how", "which", "кто", "что", "где", "куда", "когда", "почему", "зачем"}
    | {"как", "какой", "какая", "какие"}
)
"""Words of headings that name what is below."""
_MANY, _SOME, _FEW = 5, 3, 2
_MOST_HEADING, _LEAST_BELOW = 80, 4
"""The most letters of a heading that only says when, and the least words that say something without it."""


def says_something(headings: str) -> bool:
    """Whether any of the `headings`, one a line, says something.

    Examples
    --------
    >>> [says_something(one) for one in ("### Sent 2026-02-24: 182 emails (91 vet + 88 auto)", "## Решение: Postgres")]
    [True, True]
    >>> [says_something(one) for one in ("## Session", "## 24 февраля, вторник", "# Sprint 14", "## Что сделали")]
    [False, False, False, False]
    """
    return any(map(_says, headings.splitlines()))


def without_moment(text: str) -> str:
    """A text of a log without the headings above it that only say when, unless few words are below.

    Examples
    --------
    >>> without_moment("# 2026-03-01 (воскресенье)\\n\\n## 14:30\\nПул вырос до двадцати")
    'Пул вырос до двадцати'
    >>> without_moment("## 14:30\\nПул вырос")  # which stands within many other texts
    '## 14:30\\nПул вырос'
    >>> without_moment("# День релиза\\n\\nПул вырос")
    '# День релиза\\n\\nПул вырос'
    """
    rest = text.lstrip()
    while rest.startswith("#"):
        heading, _, below = rest.partition("\n")
        bare = _NAMED_DAY.sub(" ", _WHEN.sub(" ", _MARKS.sub("", heading, count=1)))
        if len(heading) > _MOST_HEADING or bare == heading or any(map(str.isalnum, bare)):
            break
        rest = below.lstrip()
    words = islice(_WORD.finditer(rest), _LEAST_BELOW)
    return rest if len(list(words)) == _LEAST_BELOW else text


def _says(heading: str) -> bool:
    bare = _ORDINAL.sub(" ", _WHEN.sub(" ", _MARKS.sub("", heading, count=1))).strip(" \t.,:;—–-")
    every = [word.lower().replace("ё", "е") for word in _WORD.findall(bare)]
    telling = [word for word in every if word not in FUNCTION_WORDS]
    if len(every) >= _MANY and len(telling) >= _SOME and _ASKS.isdisjoint(every):
        return True
    telling = [word for word in telling if not _NAMED_DAY.fullmatch(word)]
    number, label = _NUMBER.search(bare), _LABEL.match(bare)
    if number and len(telling) >= (_SOME if number.start() else _FEW):
        return True
    return label is not None and len(telling) + bool(number) >= _FEW
