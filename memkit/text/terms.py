"""The terms of queries, quickly: what `analyse_sql` gives, without its cost of milliseconds a statement.

DuckDB compiles the pattern of a word anew for each statement, which takes longer than a whole search. So texts in the
Latin and Cyrillic alphabets are cut into words here (equal to the SQL for every character of them: a test tries all),
and the terms of a word are asked of DuckDB once. All other texts go through the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from threading import RLock
from typing import Any, Self

import duckdb

from memkit.duck import connect
from memkit.params import check_choice
from memkit.text.analyse import ANALYSERS, load_fts, stem_sql, term_sql, word_sql

# Without combining characters, which NFC may join, and without İ, which DuckDB and Python fold to different lengths.
SIMPLE = re.compile(r"[\0-\u012f\u0131-\u024f\u0400-\u0482\u048a-\u052f]*")
_SOFT_HYPHEN = "\u00ad"
_WORD = re.compile(r"\w+")
_KNOWN_WORDS_MAX = 200_000


class QueryTerms:
    """Turns texts into the terms that `memkit.text.analyse.analyse_sql` gives; words once seen are remembered.

    Examples
    --------
    >>> QueryTerms("auto").of(["Пулы соединений", "snake_case", "東京"])
    [['пул', 'соединен'], ['snake_case', 'snake', 'case'], ['東京', '東', '京']]
    """

    def __init__(self, analyser: str = "auto") -> None:
        check_choice("analyser", analyser, ANALYSERS, "QueryTerms")
        self.analyser = analyser
        self._con: duckdb.DuckDBPyConnection | None = None
        self._known: dict[str, list[str]] = {}
        self._lock = RLock()

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Terms of each text, in its order, repeated as often as they occur."""
        words = self._words(texts)
        terms = self._terms({word for of_text in words for word in of_text})
        return [[term for word in of_text for term in terms[word]] for of_text in words]

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.analyser,)  # a connection or a lock cannot be pickled

    def _terms(self, words: set[str]) -> dict[str, list[str]]:
        """The terms of at least these words; what is given only ever grows, so that it may be read without the lock."""
        with self._lock:
            if len(self._known) > _KNOWN_WORDS_MAX:
                self._known = {}
            self._learn(words.difference(self._known))
            return self._known

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        others = [place for place, text in enumerate(texts) if not SIMPLE.fullmatch(text)]
        words = [_WORD.findall(text.lower().replace("ё", "е").replace(_SOFT_HYPHEN, "")) for text in texts]
        if others:
            for place, found in zip(others, self._ask(word_sql("x"), [texts[p] for p in others]), strict=True):
                words[place] = found
        return words

    def _learn(self, words: set[str]) -> None:
        plain = [w for w in words if self.analyser != "char" and "_" not in w and SIMPLE.fullmatch(w)]
        if plain:
            stems = self._ask(stem_sql("x", self.analyser), plain)
            self._known.update((word, [stem]) for word, stem in zip(plain, stems, strict=True))
        if rest := list(words.difference(plain)):
            self._known.update(zip(rest, self._ask(term_sql("x", self.analyser), rest), strict=True))

    def _ask(self, expression: str, values: Iterable[str]) -> list[Any]:
        """`expression` of each value, called x in it."""
        with self._lock:
            if self._con is None:
                con = connect()
                load_fts(con)
                self._con = con
            cursor = self._con.cursor()
        sql = f"select list_transform(?::varchar[], lambda x: {expression})"  # an expression of memkit's own
        row = cursor.execute(sql, [list(values)]).fetchone()
        return row[0]  # type: ignore[no-any-return,index]  # one list of what the expression gives
