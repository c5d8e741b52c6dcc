"""Tokenising and stemming: one SQL expression for documents and for queries.

A text is cut into words of letters, marks, digits and ``_`` in every script. A word is normalised (NFC, lower case, ё
to е, ς to σ, no stress marks and soft hyphens), and then becomes its terms:

- a Cyrillic word its Russian stem, a Latin one its English stem, as the analyser says;
- a word with ``_`` itself and the stems of its parts;
- a run of a script that is written without blanks (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) its bigrams, and in
  the first three its single characters too, so that a part of a run is found;
- an emoji itself.

`analyse_sql` is one expression for single texts. For a table it is faster to normalise and stem each distinct spelling
once (`vocabulary_sql`). DuckDB compiles the regular expression of a word in each statement, which
takes longer than a whole search, and matches it at a third of the speed of Python. So `Analyser`, which queries and
indexes use, tokenises texts in the Latin and Cyrillic alphabets itself (a test compares every character with the SQL)
and asks DuckDB for the stem of each word once; all other texts go through the SQL.

>>> con = session()
>>> _ = load_fts(con)
>>> one_value(con, f"select {analyse_sql('?::varchar')}", ["Пулы соединений, snake_case"])
['пул', 'соединен', 'snake_case', 'snake', 'case']
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import multiprocessing
import os
import re
import sys
import unicodedata
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Self

import duckdb

from memkit.base.dates import MONTHS
from memkit.base.duck import connect, cursor_of, interruptible, literal, one_value, session
from memkit.base.params import check_choice
from memkit.text.letters import CYRILLIC, CYRILLIC_LETTERS, LATIN

_LOG = logging.getLogger("memkit")

ANALYSERS = ("auto", "russian", "english", "none", "char")
"""How a word becomes terms: 'auto' stems Russian and English, 'char' makes character n-grams (3 to 5)."""

# Code points, inclusive, without the scripts' punctuation.
_SYLLABLES = (
    (0x3005, 0x3007), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x323AF),
)  # fmt: skip  # a table reads better than a column
_LETTERS = (
    (0x0E01, 0x0E3A), (0x0E40, 0x0E4E), (0x0E50, 0x0E59), (0x0E81, 0x0EDF), (0x1000, 0x1049), (0x1050, 0x109D),
    (0x1780, 0x17D3),
)  # fmt: skip  # as above
_EMOJI = ((0x2600, 0x27BF), (0x1F000, 0x1FAFF))


# Greek final sigma and ё change; acute and grave (stress marks, after NFC) and the soft hyphen have no image and go.
_FOLD_FROM, _FOLD_TO = "ёς\u0301\u0300\u00ad", "еσ"
_LONGEST_WORD = 500
"""Letters and marks; a run of a script without blanks seldom has as many."""
_STEMMERS = {"auto": ("russian", "english"), "russian": ("russian",), "english": ("english",), "none": ()}
_SCRIPTS = {"russian": CYRILLIC, "english": LATIN}


def _charset(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in ranges)


def _within(word: str, ranges: tuple[tuple[int, int], ...]) -> str:
    """Predicate: the word's first character is in `ranges`. Words are cut so that all of a word has one script."""
    return "(" + " or ".join(f"unicode({word}) between {low} and {high}" for low, high in ranges) + ")"


_RUN = _charset(_SYLLABLES + _LETTERS)
# RE2 has no subtraction: not (not a letter, or of a run) is a letter outside of runs.
_LETTER = rf"[^\P{{L}}{_RUN}]|[\p{{N}}_]"
_WORD = rf"[{_RUN}][{_RUN}\p{{M}}]*|(?:{_LETTER})(?:{_LETTER}|[\p{{M}}\x{{ad}}])*|[{_charset(_EMOJI)}]"


def spelling_sql(column: str) -> str:
    """SQL expression: the words of `column`, not normalised, as VARCHAR[]."""
    return f"regexp_extract_all({column}, '{_WORD}')"


def fold_sql(spelling: str) -> str:
    """SQL expression: one spelling in NFC and lower case, ё as е, without stress marks and soft hyphens.

    NFC takes quadratic time in the marks of a letter, so strings too long for a word are not brought to it.
    """
    normal = f"case when length({spelling}) > {_LONGEST_WORD} then {spelling} else nfc_normalize({spelling}) end"
    return f"translate(lower({normal}), '{_FOLD_FROM}', '{_FOLD_TO}')"


def word_sql(column: str) -> str:
    """SQL expression: the words of `column`, normalised but not stemmed, as VARCHAR[]."""
    return f"list_transform({spelling_sql(column)}, lambda spelling: {fold_sql('spelling')})"


def term_sql(word: str, analyzer: str = "auto") -> str:
    """SQL expression: the terms of one word of `word_sql`, as VARCHAR[].

    Raises
    ------
    ParameterError
        If `analyzer` is not in `ANALYSERS`.
    """
    check_choice("analyzer", analyzer, ANALYSERS, "analyse")
    if analyzer == "char":
        return _char_grams(word)
    parts = f"list_filter(string_split({word}, '_'), lambda part: part <> '')"
    stems = f"list_transform({parts}, lambda part: {stem_sql('part', analyzer)})"
    pairs = _grams(word, 2)
    return (
        f"case when length({word}) > 1 and {_within(word, _SYLLABLES)} then {pairs} || string_split({word}, '')"
        f" when length({word}) > 1 and {_within(word, _LETTERS)} then {pairs}"
        f" when not contains({word}, '_') then [{stem_sql(word, analyzer)}]"
        f" when len({parts}) = 0 then [] else [{word}] || {stems} end"
    )


def analyse_sql(column: str, analyzer: str = "auto") -> str:
    """SQL expression that turns a text into its terms, the same for documents and queries.

    Parameters
    ----------
    column : str
        A column or any other SQL expression of type VARCHAR.
    analyzer : str
        One of `ANALYSERS`.

    Returns
    -------
    str
        Expression of type VARCHAR[]: the terms in the order of the text, with repeats. The connection needs `load_fts`
        first.

    Raises
    ------
    ParameterError
        If `analyzer` is not in `ANALYSERS`.

    Examples
    --------
    >>> "stem(" in analyse_sql("body"), "stem(" in analyse_sql("body", "none")
    (True, False)
    """
    return f"flatten(list_transform({word_sql(column)}, lambda word: {term_sql('word', analyzer)}))"


def vocabulary_sql(spellings: str, analyzer: str = "auto") -> str:
    """SQL statement: each distinct spelling in the table or view `spellings`, and its terms as VARCHAR[]."""
    distinct = f"select distinct spelling, {fold_sql('spelling')} as word from {spellings}"  # noqa: S608  # a name of memkit's
    return f"select spelling, {term_sql('word', analyzer)} as terms from ({distinct})"  # noqa: S608  # as above


def stem_sql(word: str, analyzer: str = "auto") -> str:
    """SQL expression: the stem of one word without ``_``, by its script, as VARCHAR."""
    branches = [f"when {_within(word, _SCRIPTS[name])} then stem({word}, '{name}')" for name in _STEMMERS[analyzer]]
    return f"case {' '.join(branches)} else {word} end" if branches else word


GRAM_SIZES = (3, 4, 5)
"""Of character n-grams, ascending."""


def _char_grams(word: str) -> str:
    """Character n-grams (3 to 5) of the word with a blank at each end, as scikit-learn's ``char_wb``."""
    padded = f"(' ' || {word} || ' ')"
    return " || ".join(_grams(padded, size) for size in GRAM_SIZES)


def _grams_of(word: str, sizes: Iterable[int]) -> list[str]:
    """The same of characters that DuckDB counts as Python does."""
    return [word[start : start + size] for size in sizes for start in range(len(word) - size + 1)]


def _grams(word: str, size: int) -> str:
    """The n-grams of `size` characters, from zipped lists: ``substring`` would take quadratic time."""
    shifted = ", ".join(f"string_split({word}, '')[{start}:]" for start in range(1, size + 1))
    joined = " || ".join(f"gram[{place}]" for place in range(1, size + 1))
    return f"list_transform(list_zip({shifted}, true), lambda gram: {joined})"


# Without combining characters, which NFC may join, and without İ, which DuckDB and Python fold to different lengths. Of
# other blocks signs that no word has: dashes, quotes, currencies, № and ™, arrows, mathematics, boxes, 【 and ？.
_SIGNS = (
    r"\u2010-\u2027\u2030-\u205e\u20a0-\u20c0\u2116\u2122\u2190-\u22ff\u2500-\u25ff\u3001-\u3003\u3008-\u3020"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_SIMPLE_SIGNS = rf"\0-\u012f\u0131-\u024f{CYRILLIC_LETTERS}{_SIGNS}"
SIMPLE = re.compile(rf"[{_SIMPLE_SIGNS}]*")
_ODD_LINE_END = re.compile(rf"[^{_SIMPLE_SIGNS}][^\n]*")
_SYLLABLE_RUN = re.compile("[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in _SYLLABLES) + "]+")
# What stands between blanks, signs and control characters is cut by itself, and once however often it comes.
_PIECE = re.compile(rf"[^\s\0-/:-@\[-^`{{-\x9f{_SIGNS}]+")
_SOFT_HYPHEN = "\u00ad"
_SIMPLE_WORD = re.compile(r"\w+")
_KNOWN_WORDS_MAX = 200_000
_CORPUS_WORDS_MAX = 100_000
"""Some 25 MB. DuckDB takes a millisecond to stem one word, as long as all else of a question."""


def _simple_words(texts: Sequence[str]) -> list[list[str] | None]:
    """The words of each text in simple letters, or of one run; None if only the SQL can tell."""
    joined = "\n".join(texts)
    lines = normal(joined).split("\n")
    if len(lines) != len(texts):
        return list(map(_words_of, texts))
    words: list[list[str] | None] = list(map(_SIMPLE_WORD.findall, lines))
    row, offset = 0, 0
    for odd in _ODD_LINE_END.finditer(joined):
        row += joined.count("\n", offset, odd.start())
        offset = odd.start()
        words[row] = _words_of(texts[row])
    return words


def normal(text: str) -> str:
    """A text of simple letters as its words are: in lower case, ё as е, without soft hyphens."""
    return text.lower().replace("ё", "е").replace(_SOFT_HYPHEN, "")


def _words_of(text: str) -> list[str] | None:
    """As `_simple_words` for one text."""
    if SIMPLE.fullmatch(text):
        return _SIMPLE_WORD.findall(normal(text))
    return [text] if _SYLLABLE_RUN.fullmatch(text) and unicodedata.is_normalized("NFC", text) else None


def analyse(texts: Sequence[str], analyzer: str = "auto") -> list[list[str]]:
    """The search terms of each text, in order and with repeats.

    Parameters
    ----------
    texts : sequence of str
    analyzer : {"auto", "russian", "english", "none", "char"}
        As in `Retriever`.

    Returns
    -------
    list of list of str

    Examples
    --------
    >>> analyse(["Пулы соединений", "snake_case", "東京"])
    [['пул', 'соединен'], ['snake_case', 'snake', 'case'], ['東京', '東', '京']]
    """
    return terms_by(analyzer).terms([texts] if isinstance(texts, str) else texts)


def terms_by(analyzer: str) -> Analyser:
    """The shared `Analyser` of this process."""
    return _terms_by(analyzer, os.getpid())  # a forked process has its parent's memory and none of its threads


class Analyser:
    """Turns texts into the same terms as `analyse_sql`, with a cache of words."""

    def __init__(self, analyzer: str = "auto") -> None:
        check_choice("analyzer", analyzer, ANALYSERS, "Analyser")
        self.analyzer = analyzer
        self._con: duckdb.DuckDBPyConnection | None = None
        self._known: dict[str, list[str]] = {}
        self._lock = RLock()

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """The terms of each text, in order and with repeats."""
        words = self.words(texts)
        terms = self._cached_terms({word for of_text in words for word in of_text})
        return [[term for word in of_text for term in terms[word]] for of_text in words]

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text, normalised but not stemmed."""
        words = _simple_words(texts)
        if others := {row: _PIECE.findall(texts[row]) for row, known in enumerate(words) if known is None}:
            pieces = {piece: _words_of(piece) for of_text in others.values() for piece in of_text}
            foreign = [piece for piece, known in pieces.items() if known is None]
            pieces.update(zip(foreign, self._ask(word_sql("x"), foreign), strict=True))
            for row, of_text in others.items():
                words[row] = [word for piece in of_text for word in pieces[piece] or ()]
        return [known or [] for known in words]

    def terms_of_words(self, words: Iterable[str]) -> dict[str, list[str]]:
        """The terms of each of `words`, which are normalised, in their order; nothing is cached."""
        terms: dict[str, list[str]] = {word: [] for word in words}
        simple = [word for word in terms if SIMPLE.fullmatch(word)]
        runs = [word for word in terms if _SYLLABLE_RUN.fullmatch(word)]
        if self.analyzer == "char":
            terms.update((word, _grams_of(f" {word} ", GRAM_SIZES)) for word in simple + runs)
        else:
            simple = [word for word in simple if "_" not in word]
            stems = self._ask(stem_sql("x", self.analyzer), simple)
            terms.update((word, [stem]) for word, stem in zip(simple, stems, strict=True))
            terms.update((word, [*_grams_of(word, (2,)), *word]) for word in runs)
        if others := [*terms.keys() - {*simple, *runs}]:
            terms.update(zip(others, self._ask(term_sql("x", self.analyzer), others), strict=True))
        return terms

    def terms_at_fit(self, words: list[str], n_words: int) -> list[list[str]]:
        """The terms of each of some of a corpus's `n_words` words, kept for its questions unless they are too many."""
        is_kept = n_words <= _CORPUS_WORDS_MAX
        terms = self._cached_terms(set(words)) if is_kept else self.terms_of_words(words)
        return [terms[word] for word in words]

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.analyzer,)  # a connection or a lock cannot be pickled

    def _cached_terms(self, words: set[str]) -> dict[str, list[str]]:
        """A mapping with the terms of these words; it only grows, so that it may be read without the lock."""
        with self._lock:
            if len(self._known) > _KNOWN_WORDS_MAX:
                self._known = {}
            if new := words.difference(self._known):
                self._known.update(self.terms_of_words(new))
            return self._known

    def _ask(self, expression: str, values: Iterable[str]) -> list[Any]:
        """The value of the SQL `expression` for each of `values`, which it calls x."""
        if not (texts := list(values)):
            return []
        with self._lock:
            if self._con is None:
                con = session()
                load_fts(con)
                self._con = con
            cursor = cursor_of(self._con)
        # A literal, not a parameter: for a list of parameters DuckDB would import pandas, a quarter of a second.
        separator = next(sign for sign in map(chr, range(1, sys.maxunicode)) if not any(sign in text for text in texts))
        split = f"string_split({literal(separator.join(texts))}, {literal(separator)})"
        sql = f"select list_transform({split}, lambda x: {expression})"  # an expression of memkit's own
        with interruptible():
            results: list[Any] = one_value(cursor, sql)
        return results


@functools.cache
def _terms_by(analyzer: str, process: int) -> Analyser:
    return Analyser(analyzer)


_MONTHS = ",".join(f"{month.russian} {month.english}" for month in MONTHS)
"""The names of months in the searched date of a memory."""
_DAY = "make_timestamp(epoch_us(coalesce(created_at, updated_at)))"  # month() of a zoned stamp needs an extension
_FIRST_LINE = "split_part(text, chr(10), 1)"
MOST_FRONT_MATTER = 500
"""The most characters of the fields without a column that are searched with a page's first memory."""
_SEARCHABLE = {
    "heading_path": "nullif(heading_path, '')",
    "date": f"day({_DAY}) || ' ' || split_part('{_MONTHS}', ',', month({_DAY})::int) || ' ' || year({_DAY})",
    "title": f"case when title = '' or contains({_FIRST_LINE}, title) then null else title end",
    "description": "case when contains(concat_ws(chr(10), heading_path, text), left(description, 200)) then null"
    " else description end",
    "aliases": "nullif(array_to_string(aliases, ' '), '')",
    "tags": "nullif(array_to_string(tags, ' '), '')",
    "front_matter": "case when layout is not null and extra <> '{}' then left(array_to_string("
    f"json_extract_string(extra, '$.*'), ' '), {MOST_FRONT_MATTER}) end",
    "text": "text",
}
_READS = {
    "date": ("created_at", "updated_at"),
    "title": ("title", "text"),
    "description": ("description", "heading_path", "text"),
    "front_matter": ("layout", "extra"),
}
"""The columns that an expression above reads where that is not the one of its name; all but the date need the first."""
SEARCHABLE = tuple(_SEARCHABLE)
"""Columns that can be searched: "date" is the day of creation, with the month in both languages, "front_matter" the
fields of a layout's page that have no column, and a description counts where no heading says it already.
"""
SEARCHED = ("title", "tags", "text")


def searchable_sql(fields: Sequence[str] = SEARCHED) -> str:
    """SQL expression over the columns `fields` of ``memories``: the searched text, as one string.

    One line per column, in the order of `SEARCHABLE`; the title is left out if the text's first line contains it.

    Examples
    --------
    >>> row = "(select 'Пул' as title, ['db'] as tags, '## Пул' || chr(10) || 'Десять.' as text)"
    >>> one_value(session(), f"select {searchable_sql()} from {row}")
    'db\\n## Пул\\nДесять.'
    """
    return f"concat_ws(chr(10), {', '.join(sql for name, sql in _SEARCHABLE.items() if name in fields)})"


def columns_read(field: str) -> tuple[str, ...]:
    """The columns of ``memories`` that the expression of one of `SEARCHABLE` reads.

    >>> columns_read("title"), columns_read("tags")
    (('title', 'text'), ('tags',))
    """
    return _READS.get(field, (field,))


def may_have_text(field: str, columns: Container[str], filled: Container[str]) -> bool:
    """Whether one of `SEARCHABLE` may give a text to a row of a table with these `columns`, of which some are `filled`.

    >>> may_have_text("title", ["title", "text"], ["text"]), may_have_text("tags", ["tags"], ["tags"])
    (False, True)
    """
    reads = columns_read(field)
    has_value = any(name in filled for name in reads) if field == "date" else reads[0] in filled
    return has_value and all(name in columns for name in reads)


def load_fts(con: duckdb.DuckDBPyConnection) -> bool:
    """Give `con` the function ``stem``: from DuckDB's extension if it is installed, else memkit's, with equal stems.

    Nothing is downloaded: the extension's file comes with the package ``duckdb-extension-fts`` (extra ``fts``), and
    loads into the one version of DuckDB that it was built for. If it does not load, one log line per process says so.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        From `memkit.base.duck.connect`, which does not look for extensions on the network.

    Returns
    -------
    bool
        Whether the extension was loaded.
    """
    try:
        con.load_extension(str(_extension_file()))
        return True
    except (duckdb.Error, FileNotFoundError) as error:
        if not one_value(con, "select count(*) from duckdb_functions() where function_name = 'stem'"):
            con.create_function("stem", stem, ["VARCHAR", "VARCHAR"], "VARCHAR")
        _say_once(
            str(error) if isinstance(error, FileNotFoundError) else f"no extension of DuckDB {duckdb.__version__}"
        )
        return False


def connect_fts() -> duckdb.DuckDBPyConnection:
    """A new database, as `memkit.base.duck.connect` makes it, on which `load_fts` was called.

    The extension is part of an installed package, as other libraries are: to verify DuckDB's signature of it would take
    three times as long as all else. What is loaded later has to be signed.
    """
    con = connect(allow_unsigned_extensions=True)
    load_fts(con)
    con.execute("set allow_unsigned_extensions = false")
    return con


def _extension_file() -> Path:
    spec = importlib.util.find_spec("duckdb_extension_fts")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("duckdb-extension-fts is not installed (extra 'fts')")
    files = sorted(Path(spec.origin).parent.rglob("fts.duckdb_extension"))
    if not files:
        raise FileNotFoundError("duckdb-extension-fts holds no extension file")
    return files[-1]


@functools.cache
def _say_once(reason: str) -> None:
    if multiprocessing.parent_process() is None:  # one line for all workers of a process
        _LOG.warning("memkit: words are stemmed in Python, slower and to the same stems: %s", reason)


@functools.lru_cache(maxsize=200_000)
def stem(word: str, language: str) -> str:
    """The stem of a word, as by ``stem`` of DuckDB's full-text extension; 'russian' or 'english'.

    >>> stem("соединений", "russian"), stem("added", "english")
    ('соединен', 'ad')
    """
    # A new stemmer for each word: a stemmer has state, and DuckDB stems in several threads.
    return str(_stemmers()[language]().stemWord(word))


@functools.cache
def _stemmers() -> dict[str, Any]:
    # By their own names: ``snowballstemmer.stemmer`` would take PyStemmer, of whatever rules, where it is installed.
    from snowballstemmer import english_stemmer, russian_stemmer

    return {"english": english_stemmer.EnglishStemmer, "russian": russian_stemmer.RussianStemmer}
