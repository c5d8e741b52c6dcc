"""What an arm can do besides finding candidates, and terms that are searched in place of words that no text has; and
turns of conversations in line, so that each has a share of what the turns around it have.

A turn such as "yes, on Friday" shares no word with a query; the turns around it do. Words are lent as counts, before
they are weighted, and cosines as their mean, so that nothing is encoded again and a saved arm serves with and without
`context_column`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import identifier, rows_of
from memkit.errors import ParameterError, did_you_mean
from memkit.index.postings import CANDIDATES, Postings
from memkit.schemas import Floats, Ints, Mask
from memkit.text.languages import FUNCTION_WORDS


class Abilities:
    """What an arm can do besides finding candidates: nothing, unless it says otherwise.

    Attributes
    ----------
    lends : bool
        Whether turns of a conversation lend each other what they are found by, with `candidates_in_turns`.
    spells : bool
        Whether its terms are words, so that others may stand for one: its ``candidates`` take ``near``, and
        `Sight` has the terms of its ``postings_``.
    """

    lends: ClassVar[bool] = False
    spells: ClassVar[bool] = False

    @property
    def is_exact(self) -> bool:
        """Whether the best n are the first of its best 2 n."""
        return True

    def candidates_in_turns(self, *request: Any, **options: Any) -> pa.Table:
        """``candidates(queries, n, allowed, turns, lending)``: a turn also has a share of what turns around it have."""
        raise NotImplementedError

    def near_terms(self, queries: Sequence[str], sight: Sight) -> Sequence[Nearest]:
        """For each query its words that no row in sight has, with the nearest term; empty if words are not read."""
        return ()

    def updated(self, former_row: Ints, chunks: pa.Table, texts: Any) -> Any:
        """A copy fitted to `texts` that reads only those of new rows; None where a full fit is needed."""
        return None


# As measured: two typing errors a question, in words of five letters and more, cost .03 to .05 nDCG@10 without it.
# Shorter words were not tried.
_SHORTEST = 5
"""Letters of the shortest word that is read as another."""
# Two edits from six letters on and one from three repaired as much (+.048, +.049 and +.059 on three sets, beside +.041,
# +.051 and +.063), and read more words as something else («настроен» as «настоящих»).
_EDITS = {8: 2, 4: 1}
"""The most edits that part a term from the nearest, by its least number of letters; shorter ones have none."""
# One edit parts a stem of four letters from a term of three.
_SHORTEST_TERM = 3
_QUOTED = re.compile(r"\"[^\"]*\"|«[^»]*»|“[^”]*”|„[^“]*“|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")
_BITS = np.uint64(64)  # of the number that says which letters a term has; most pairs are ruled out by it


@dataclass(frozen=True)
class Sight:
    """The terms that a question may see, in the rows that it may see.

    Attributes
    ----------
    parts : tuple of tuple (Postings, ndarray of uint8 or None)
        An index, or several, and its rows that the question may see, eight to a byte; None: all.
    """

    parts: tuple[tuple[Postings, NDArray[np.uint8] | None], ...]

    @classmethod
    def over(cls, *parts: tuple[Postings, Mask | None]) -> Self:
        """Over indexes and masks of their rows."""
        return cls(tuple((lists, None if rows is None else np.packbits(rows)) for lists, rows in parts))

    @classmethod
    def joined(cls, sights: Iterable[Self]) -> Self:
        """Over all parts of several."""
        return cls(tuple(part for sight in sights for part in sight.parts))

    def count(self, term: str) -> int:
        """The number of rows in sight that have the term."""
        return sum(len(self.rows(term, part)) for part in range(len(self.parts)))

    def rows(self, term: str, part: int = 0) -> Ints:
        """The rows of one index, in sight, that have the term."""
        lists, bits = self.parts[part]
        number = lists.terms.get(term)
        rows: Ints = np.empty(0, np.int64) if number is None else lists.postings_of(number)[0]
        # Single bits are looked up, as `packbits` lays them, the first of eight highest: no mask is unpacked for a
        # word.
        return rows if bits is None else rows[(bits[rows >> 3] >> (7 - (rows & 7)) & 1).astype(bool)]


Nearest: TypeAlias = Mapping[str, str]
"""For each word of a query that no text in sight has the nearest term in sight, if there is one."""


def readable(query: str) -> list[str]:
    """The words of a query that may be read as others: long enough, without digits, not in quotes.

    >>> readable('где «Постгресс» и E4021_log, настройкка пулла')
    ['настройкка', 'пулла']
    """
    text = unicodedata.normalize("NFC", _QUOTED.sub(" ", query)).lower()
    words = (word for word in dict.fromkeys(_WORD.findall(text)) if len(word) >= _SHORTEST)
    return [word for word in words if word.replace("ё", "е") not in FUNCTION_WORDS]


class NearWords:
    """The terms of an index that are made of letters, by length and by the set of their letters.

    An edit changes the length by at most 1 and the set of letters by at most 2, so that few terms are compared.

    Parameters
    ----------
    terms : iterable of str

    Examples
    --------
    >>> found = NearWords(["настройк", "пул", "e4021"]).within("настрйок", 2)
    >>> list(found)
    [(1, 'настройк')]
    """

    def __init__(self, terms: Iterable[str]) -> None:
        named = (term for term in terms if len(term) >= _SHORTEST_TERM and term.isalpha())
        self._terms = sorted(named, key=len)
        self._sizes = np.array([len(term) for term in self._terms], np.int64)
        self._letters = _letters(self._terms, self._sizes)

    def within(self, term: str, most: int) -> Iterator[tuple[int, str]]:
        """Terms that at most so many edits (Damerau-Levenshtein) part from `term`, with their distance."""
        from rapidfuzz.distance import DamerauLevenshtein

        first, last = np.searchsorted(self._sizes, (len(term) - most, len(term) + most + 1))
        differing = np.bitwise_count(self._letters[first:last] ^ _letters([term], np.array([len(term)])))
        # An edit changes two letters at most: one goes, another comes.
        for index in (first + np.flatnonzero(differing <= 2 * most)).tolist():
            distance = DamerauLevenshtein.distance(term, self._terms[index], score_cutoff=most)
            if distance <= most:
                yield distance, self._terms[index]

    def nearest(self, term: str, sight: Sight) -> str | None:
        """The nearest term in sight: of those as near, the one of most rows."""
        most = next((edits for letters, edits in _EDITS.items() if len(term) >= letters), 0)
        near = list(self.within(term, most)) if most else []
        if len(term) < _SHORTEST:  # of four letters another first one is another word: «часто» is not «Настя»
            near = [candidate for candidate in near if candidate[1][0] == term[0]]
        by_distance = ((distance, -sight.count(other), other) for distance, other in near)
        return min((candidate for candidate in by_distance if candidate[1]), default=(0, 0, None))[2]


def _letters(terms: Sequence[str], sizes: Ints) -> np.ndarray:
    """For each term a bit for each of its letters; letters may share one."""
    if not len(terms):
        return np.empty(0, np.uint64)
    codes = np.frombuffer("".join(terms).encode("utf-32-le"), np.uint32).astype(np.uint64)
    return np.bitwise_or.reduceat(np.uint64(1) << (codes % _BITS), np.cumsum(sizes) - sizes)


# Chosen on chats and confirmed on four sets kept apart (+.021 to +.033). A stronger kernel was better or equal on five
# sets, and nothing kept apart has confirmed it.
SHARES = {-1: 0.5, -2: 0.25, 1: 0.3, 2: 0.1}
"""The share that a turn gets of the turns before and after, by their distance."""
_REACH = max(map(abs, SHARES))
# The border itself is a guess.
_FEW = 25
"""Terms of fewer than one row in so many places are lent place by place, which is 15 times as fast for a rare one."""

_ROUGHLY = 1e-4
"""The largest error of rough scores, with a wide margin over single precision."""


class Turns:
    """The place of each row in one line of all conversations, with blanks between two of them.

    Parameters
    ----------
    rows : ndarray of int64
        The rows that are turns, conversation by conversation, in order.
    talk : ndarray of int64, of equal length
        The conversation of each.
    n_rows : int
        Of all rows; the others stand alone.

    Attributes
    ----------
    place : ndarray of int64, shape (n_rows,)
    size : int
        The number of places, with blanks at both ends.

    Examples
    --------
    >>> turns = Turns(np.array([0, 1, 2]), np.array([0, 0, 1]), n_rows=3)
    >>> turns.summed(np.array([4.0, 0.0, 1.0]))[turns.place].tolist()
    [4.0, 2.0, 1.0]
    """

    def __init__(self, rows: Ints, talk: Ints, n_rows: int) -> None:
        is_alone = np.ones(n_rows, bool)
        is_alone[rows] = False
        order = np.concatenate([rows, np.flatnonzero(is_alone)]).astype(np.int64)
        begins = np.ones(n_rows, bool)
        begins[1 : len(rows)] = talk[1:] != talk[:-1]
        self.place = np.empty(n_rows, np.int64)
        self.place[order] = np.arange(n_rows) + _REACH * np.cumsum(begins)
        self.size = int(self.place.max(initial=0)) + 1 + 2 * _REACH  # the places beside those beside the last one

    def summed(self, values: Floats) -> Floats:
        """At each place the value of its row and the shares of its neighbours', given `values` by row."""
        line = np.zeros(self.size)
        line[self.place] = values
        whole = np.zeros(self.size)
        whole[_REACH:-_REACH] = _with_shares(line, None)
        return whole

    def lent(self, rows: Ints, counts: Ints, line: Floats) -> tuple[slice | Ints, Floats]:
        """Places, some more than once, and for each the count of its row and the shares of its neighbours'.

        Parameters
        ----------
        rows, counts
            The rows that have a term, and how often.
        line : ndarray of float32, shape (size,)
            Zeros, as it is again afterwards.
        """
        places = self.place[rows]
        line[places] = counts
        around = None if len(rows) * _FEW >= self.size else np.add.outer(-_STEPS, places).ravel()
        shared = _with_shares(line, around)
        line[places] = 0
        return slice(_REACH, self.size - _REACH) if around is None else around, shared

    @cached_property
    def neighbours(self) -> Ints:
        """For each row the rows at the distances of `SHARES`, in that order; -1 if there is none."""
        row = np.full(self.size, -1, np.int64)
        row[self.place] = np.arange(len(self.place))
        return np.stack([row[self.place + step] for step in SHARES], axis=1)


_STEPS = np.array([0, *SHARES])


def _with_shares(line: Floats, places: Ints | None) -> Floats:
    """What is in `line` at the `places`, and shares of what is beside them; None: at all but the ends."""
    whole = len(line) - _REACH
    total = line[_REACH:whole].copy() if places is None else line[places]
    for step, share in SHARES.items():
        total += line.dtype.type(share) * (
            line[_REACH + step : whole + step] if places is None else line[places + step]
        )
    return total


def means_in_turns(
    arm: Any, queries: Any, n: int, allowed: Mask | None, turns: Turns, lending: Mask | None
) -> pa.Table:
    """As ``arm.candidates``, with scores that are weighted means over a turn and its neighbours.

    Rough scores of all rows show which may be among the best; these and their neighbours are scored exactly.

    Parameters
    ----------
    lending : ndarray of bool, shape (n_chunks,), or None
        Chunks whose scores are lent; None: all.
    """
    beside = turns.neighbours
    shares = _shares(beside, lending)
    total = 1.0 + shares.sum(axis=1)

    def mixed(row: Ints, scores: Floats) -> Floats:
        means = (scores[row] + (scores[beside[row]] * shares[row]).sum(axis=1)) / total[row]
        return np.asarray(means if allowed is None else np.where(allowed[row], means, 0.0))

    every, tables = np.arange(len(beside)), []
    for number, rough in enumerate(arm.rough(queries)):
        likely = _may_be_best(mixed(every, rough), n)
        if not len(likely):
            continue
        near = np.zeros(len(rough), bool)
        near[likely] = near[beside[likely]] = True  # -1, no neighbour, is the last row, which does no harm
        hits = arm.candidates(queries[number : number + 1], len(rough), near)
        scores = np.zeros(len(rough))
        scores[hits["row"].to_numpy()] = hits["score"].to_numpy()
        best = mixed(likely, scores)
        order = np.lexsort((likely, -best))[:n]
        order = order[best[order] != 0]
        tables.append((np.full(len(order), number), likely[order], best[order]))
    columns = [np.concatenate(column) for column in zip(*tables, strict=True)] or [np.empty(0)] * len(CANDIDATES)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, CANDIDATES, strict=True)], CANDIDATES)


def _shares(beside: Ints, lending: Mask | None) -> Floats:
    """The share of each neighbour's score; 0 for one that is missing or does not lend."""
    lends = beside >= 0
    if lending is not None:
        lends &= lending[beside]
    shares: Floats = lends * np.array(list(SHARES.values()))
    return shares


def _may_be_best(scores: Floats, n: int) -> Ints:
    """Rows, ascending, whose exact scores may be among the `n` best that are not 0."""
    live = np.flatnonzero(scores)
    if len(live) <= n:
        return live
    of_live = scores[live]
    least = np.partition(of_live, len(live) - n)[len(live) - n]
    kept: Ints = live[of_live >= least - _ROUGHLY * max(1.0, abs(least))]
    return kept


AUTO = "auto"
COLUMNS = ("session", "conversation", "thread")
"""Columns of a table that name a conversation without being told to; the first one that has values is taken."""
_KEY = "json_extract_string(extra, '$.' || to_json($column)::varchar)"
# Chosen on chats: with long answers between short questions, lending took .427 to .348.
_LONGEST = 40
"""The median number of words beyond which rows are not turns: long answers drown the question between them."""


def turns_of(corpus_memories: pa.Table, column: str, of_tables: bool, order: Ints, of_chunk: Ints) -> Turns | None:
    """The chunks in their conversations, each in the order of ``seq``, creation and row.

    A conversation is all memories of one user (or of none) with one value of `column`. None if the median turn has more
    than 40 words.

    Parameters
    ----------
    corpus_memories : pa.Table
    of_tables : bool
        Whether rows of tables alone are turns.
    order : ndarray of int64, shape (n_memories,)
        The row in `corpus_memories` of each memory of the index.
    of_chunk : ndarray of int64, shape (n_chunks,)
        The memory of each chunk, a row of the index.

    Raises
    ------
    ParameterError
        If no memory has the column.
    """
    row, number = _in_order(corpus_memories, column, of_tables)
    words = pc.count_substring_regex(corpus_memories["text"].take(pa.array(row)), r"[\p{L}\p{N}_]+")
    if len(words) and pc.quantile(words, 0.5)[0].as_py() > _LONGEST:
        return None
    memory = np.argsort(order)[row]  # in `memories`, of each turn
    place, talk = np.full(len(corpus_memories), -1), np.full(len(corpus_memories), -1)
    place[memory], talk[memory] = np.arange(len(memory)), number
    chunks = np.lexsort((np.arange(len(of_chunk)), place[of_chunk]))
    chunks = chunks[talk[of_chunk[chunks]] >= 0]
    return Turns(chunks, talk[of_chunk[chunks]], len(of_chunk))


def conversation_column(memories: pa.Table, column: str | None) -> str | None:
    """The column that names conversations: `column` itself, or for 'auto' the first of `COLUMNS` in rows of tables."""
    if column != AUTO:
        return column
    extra = memories["extra"].filter(pc.equal(memories["format"], "table"))
    return next((name for name in COLUMNS if _has_values(extra, name)), None)


def _has_values(extra: pa.ChunkedArray, name: str) -> bool:
    may = extra.filter(pc.fill_null(pc.match_substring(extra, f'"{name}"'), False))
    if not len(may):
        return False
    sql = f"select count({_KEY}) as n from rows"  # noqa: S608  # an expression of ours
    return bool(rows_of(sql, {"column": name}, rows=pa.table({"extra": may}))["n"][0].as_py())


def _in_order(memories: pa.Table, column: str, of_tables: bool) -> tuple[Ints, Ints]:
    """Rows of `memories` that are in a conversation, in order, and the number of each one's conversation."""
    value = identifier(column) if column in memories.column_names else _KEY
    sql = f"""
        select row_number_ as row, dense_rank() over (order by user_id nulls first, talk) as number from (
            select row_number_, user_id, {value}::varchar as talk, created_at,
                try_cast(json_extract_string(extra, '$.seq') as double) as seq
            from turns {"where format = 'table'" if of_tables else ""})
        where talk is not null order by number, seq nulls last, created_at nulls last, row_number_
    """  # noqa: S608  # a quoted name
    turns = memories.append_column("row_number_", pa.array(range(memories.num_rows), pa.int64()))
    ordered = rows_of(sql, {} if value != _KEY else {"column": column}, turns=turns)
    if memories.num_rows and not ordered.num_rows:
        hint = did_you_mean(column, memories.column_names)
        raise ParameterError(f"Index: 'context_column' must be a column of memories. Got {column!r}.{hint}")
    return ordered["row"].to_numpy(), ordered["number"].to_numpy()
