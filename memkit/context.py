"""Memory blocks for a prompt, within character limits: what goes in, and why the rest does not.

The blocks are those of the Memory v2 document: PROFILE (profile facts of high importance), WORKING (working facts that
have not expired), RELEVANT (the best hits of a decayed search for the message).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from memkit.display.names import names_in
from memkit.display.notebook import Shown
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.documents import cite
from memkit.duck import literal, literals
from memkit.errors import ParameterError, did_you_mean
from memkit.params import AsOf, Estimator, Moment, describe, estimator, param, record_as_of, revision_of
from memkit.schemas import kinds_where
from memkit.tables.age import expired_sql

if TYPE_CHECKING:
    from matplotlib.axes import Axes

if TYPE_CHECKING:
    from memkit.search.retriever import Retriever
    from memkit.tables.corpus import Corpus

PROFILE, WORKING, RELEVANT = "PROFILE MEMORY", "WORKING MEMORY", "RELEVANT MEMORY FOR THIS TURN"
BLOCKS = (PROFILE, WORKING, RELEVANT)
_CUT_SHOWN = 4
_SOURCE = cite("memory_v2", "blocks")
_USERS = 5  # named where one is unknown
_CELLS = 1 << 28
"""Lines x characters that the best set is found for, a bit each: 32 MB of the 64 that a fill may take."""
_FEWEST = 1 << 8
"""Lines that are counted at least, so that the values of a row are 8 MB at most."""
TABLE = pa.schema(
    [
        ("memory_id", pa.string()),
        ("block", pa.string()),
        ("rank", pa.int64()),
        ("chars", pa.int64()),
        ("keep", pa.bool_()),
        ("reason", pa.string()),
    ]
)
_OWN = f"""
    select memory_id, text, kind, coalesce(importance, 'normal') as importance,
        {expired_sql()} as expired, coalesce(created_at > $until, false) as future
    from memories where ($user_id is null or user_id = $user_id) and kind = $kind
    order by path, line_start, memory_id
"""  # noqa: S608  # no data in it
_USER_IDS = "select distinct user_id from memories where user_id is not null order by all"
# What is only kept, as a line of a fact file that is not a fact, is not told to a model.
_KEPT = literals(("facts", *kinds_where(judged=False)))
_TELLS = f"coalesce(kind, format) not in ({_KEPT})"


@dataclass(frozen=True)
class Candidate:
    """One line that may enter a block; `reason` is null while nothing speaks against it."""

    memory_id: str
    block: str
    line: str
    value: float
    reason: str | None = None


@dataclass(frozen=True)
class Context:
    """What a prompt gets.

    Attributes
    ----------
    text : str
        The blocks, joined by a blank line, empty ones left out.
    table : pyarrow.Table
        Every candidate: memory_id, block, rank, chars, keep, reason (future, not_high, expired, limit, below_k,
        shown_above).
        The metadata's ``note`` says why nothing is shown, or that the search went on by words alone.
    lines : tuple of Candidate
        The same with their words, by block.
    limits : dict of str to int
        Characters by block.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"text": ["Зелёный чай"], "kind": ["profile"], "user_id": ["anna"]})
    >>> builder = ContextBuilder(mk.Retriever(encoder=None), profile_chars=200)
    >>> builder.build(corpus, "anna", "чай", as_of="2026-03-01").limits["PROFILE MEMORY"]
    200
    """

    text: str
    table: pa.Table
    lines: tuple[Candidate, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    @property
    def note(self) -> str:
        """Why nothing is shown, or what the search had to say; else empty."""
        return str((self.table.schema.metadata or {}).get(b"note", b"").decode())

    def plot(self, ax: Axes | None = None) -> Axes:
        """How full each block is, in characters, beside its limit: `mk.plot.budgets`."""
        from memkit.plot import budgets

        return budgets(self, ax)

    def _repr_html_(self) -> str:
        return Shown(*self._sheets())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        blocks = [self._block(block, limit, rows, show_secrets) for block, limit in self.limits.items()]
        return (replace(blocks[0], notes=(self.note,) if self.note else ()), *blocks[1:]) if blocks else ()

    def _block(self, block: str, limit: int, rows: int, show_secrets: bool) -> Sheet:
        """The lines of a block, those that are in first, and how full it is."""
        own = sorted((line for line in self.lines if line.block == block), key=lambda line: line.reason is not None)
        used = len("\n".join(line.line for line in own if line.reason is None))
        kept = sum(line.reason is None for line in own)
        shown = describe(
            pa.table(
                {
                    "reason": pa.array([line.reason or "in" for line in own], pa.string()),
                    "chars": pa.array([len(line.line) for line in own], pa.int64()),
                    "line": pa.array([line.line.removeprefix("- ") for line in own], pa.string()),
                }
            ),
            memkit="block",
        )
        sheet = sheet_of(shown, min(rows, max(kept + _CUT_SHOWN, 1)), show_secrets)
        heading = f"[{block}]  {used:,} of {limit:,} characters, {kept} of {len(own)} memories in"
        return replace(sheet, heading=heading, bar=min(1.0, used / limit) if limit else 1.0)


@dataclass(frozen=True)
class Gathered:
    """What may be said to one message, before any budget: what `ContextBuilder.gather` gives.

    Attributes
    ----------
    profile, working : tuple of Candidate
        Facts of the user, those that are no candidates with their reason.
    hits : pyarrow.Table
        What the search found, more than goes in.
    """

    corpus: Corpus
    user_id: str | None
    moment: Moment
    profile: tuple[Candidate, ...]
    working: tuple[Candidate, ...]
    hits: pa.Table

    @property
    def note(self) -> str:
        """What the search had to say; else empty."""
        return str(self.hits.schema.metadata.get(b"note", b"").decode())


@estimator
class ContextBuilder(Estimator):
    """Fill the blocks of a prompt with one user's memories, or with those of all.

    What is searched is always the corpus that `build` is given: a retriever that was fitted on other memories, as on
    those before a `refresh`, is fitted again, in a copy.

    Attributes
    ----------
    retriever_ : Retriever
        What the last prompt was searched with.

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"text": ["Предпочитает русский", "Чинит пул соединений"], "kind": ["profile", "working"]}
    >>> corpus = mk.from_table({**rows, "user_id": ["anna", "anna"], "importance": ["high", "normal"]})
    >>> builder = ContextBuilder(mk.Retriever(encoder=None).fit(corpus), k=1, skip_shown=False)
    >>> print(builder.build(corpus, "anna", "что с пулом?", as_of="2026-03-01"))
    [PROFILE MEMORY]
    - Предпочитает русский
    <BLANKLINE>
    [WORKING MEMORY]
    - Чинит пул соединений
    <BLANKLINE>
    [RELEVANT MEMORY FOR THIS TURN]
    - Чинит пул соединений
    """

    retriever: Any = param(
        None,
        kind="object",
        kw_only=False,
        doc="A Retriever, fitted or not, or a mapping of its parameters; None is `Retriever()`.",
    )
    profile_chars: int = param(800, low=0, unit="characters", doc="Limit of PROFILE.", source=_SOURCE)
    working_chars: int = param(500, low=0, unit="characters", doc="Limit of WORKING.", source=_SOURCE)
    relevant_chars: int = param(2000, low=0, unit="characters", doc="Limit of RELEVANT.", source=_SOURCE)
    preview_chars: int = param(200, low=1, unit="characters", doc="A line of RELEVANT is cut here.", source=_SOURCE)
    k: int = param(5, low=1, unit="memories", doc="Hits that may enter RELEVANT.", source=_SOURCE)
    fill: str = param(
        "greedy",
        choices=("greedy", "knapsack"),
        doc="Lines in order up to the limit, or the best set; nearly the best where lines x limit is over 268 million.",
    )
    skip_shown: bool = param(
        True, doc="Leave out of RELEVANT what a block above shows already; the document repeats it.", source=_SOURCE
    )

    def fit(self, corpus: Corpus, y: object = None) -> Self:
        """Fit the retriever to a corpus ahead of its first prompt, and return the builder; `build` does it else."""
        self.check_params()
        self._fitted(corpus)
        return self

    def build(self, corpus: Corpus, user_id: str | None, message: str, as_of: AsOf = None) -> Context:
        """The blocks for one message.

        Parameters
        ----------
        corpus : Corpus
            Where the user's memories are.
        user_id : str or None
            Only this user's memories are looked at; None takes those of all users, and of nobody, as in a folder
            without users.
        message : str
            What RELEVANT is searched with.
        as_of : str, date, datetime or None
            The day for expiry and decay; None is now. What was created later is not shown (see `Retriever.future`).
            Kept in the table's schema metadata.

        Returns
        -------
        Context
            Its `note` says why nothing is shown, where that is so: an unknown user, or what kept each memory out.

        Raises
        ------
        ParameterError
            For a parameter outside of its declaration.
        """
        return self.within(self.gather(corpus, user_id, message, as_of))

    def gather(self, corpus: Corpus, user_id: str | None, message: str, as_of: AsOf = None) -> Gathered:
        """The first step of `build`, and the costly one: what may be said. No budget has a part in it.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["Зелёный чай", "Чёрный чай"], "kind": ["working", "working"]})
        >>> said = ContextBuilder(mk.Retriever(encoder=None)).gather(corpus, None, "чай", as_of="2026-03-01")
        >>> [ContextBuilder(working_chars=n, k=1).within(said).text.count("чай") for n in (0, 20)]
        [1, 2]
        """
        self.check_params()
        moment, search = Moment.of(as_of), self._fitted(corpus)
        own = {"user_id": user_id, "as_of": moment.at, "until": moment.unseen(search.future)}
        profile = _own_facts(corpus, {**own, "kind": "profile"}, PROFILE, lambda row: row["importance"] == "high")
        working = _own_facts(corpus, {**own, "kind": "working"}, WORKING, lambda row: True)
        where = _TELLS if user_id is None else f"{_TELLS} and user_id = {literal(user_id)}"
        hits = search.search(message, k=2 * search.pool, where=where, as_of=moment)
        return Gathered(corpus, user_id, moment, profile, working, hits)

    def within(self, gathered: Gathered) -> Context:
        """The second step of `build`: the budgets of this builder, filled with what was gathered, by it or another."""
        self.check_params()
        corpus, filled = gathered.corpus, self._blocks(gathered)
        limits = {PROFILE: self.profile_chars, WORKING: self.working_chars, RELEVANT: self.relevant_chars}
        lines = tuple(line for block in BLOCKS for line in filled[block])
        table, note = _table(filled), _why(gathered, filled)
        names, of = names_in(table, corpus.memories, "memory_id"), revision_of(corpus.memories)
        table = describe(table, memkit="context", note=note, shown=names, **of)
        return Context(_text(filled), record_as_of(table, gathered.moment), lines, limits)

    def compare(self, corpus: Corpus, user_id: str | None, message: str, as_of: AsOf = None) -> pa.Table:
        """Both ways to fill, side by side: fill, block, kept, chars, value (the sum of what the lines are worth)."""
        gathered = self.gather(corpus, user_id, message, as_of)
        rows, given = [], self.get_params(deep=False)
        for fill in ("greedy", "knapsack"):
            for block, lines in ContextBuilder(**{**given, "fill": fill})._blocks(gathered).items():
                kept = [line for line in lines if line.reason is None]
                chars = len("\n".join(line.line for line in kept))
                value = sum(line.value for line in kept)
                rows.append({"fill": fill, "block": block, "kept": len(kept), "chars": chars, "value": value})
        return record_as_of(pa.Table.from_pylist(rows), gathered.moment)

    def _blocks(self, gathered: Gathered) -> dict[str, list[Candidate]]:
        """The candidates of each block, those left out with their reason."""
        filled = {
            PROFILE: self._fill(gathered.profile, self.profile_chars),
            WORKING: self._fill(gathered.working, self.working_chars),
        }
        shown = [line for lines in filled.values() for line in lines if line.reason is None and self.skip_shown]
        above = {word for line in shown for word in (line.memory_id, line.line)}
        filled[RELEVANT] = self._fill(self._relevant(gathered.hits, above), self.relevant_chars)
        return filled

    def _relevant(self, hits: pa.Table, above: set[str]) -> list[Candidate]:
        """The lines of the hits; `above` are the ids and lines of what is shown already."""
        lines: list[Candidate] = []
        rank = 0
        for memory_id, text in zip(hits["memory_id"].to_pylist(), hits["text"].to_pylist(), strict=True):
            repeats = memory_id in above or _line(text) in above
            reason = "shown_above" if repeats else "below_k" if rank >= self.k else None
            rank += reason is None
            line = f"- {_preview(text, self.preview_chars)}"
            lines.append(Candidate(memory_id, RELEVANT, line, _worth(rank), reason))
        return lines

    def _fitted(self, corpus: Corpus) -> Retriever:
        """The retriever, fitted to these memories and no others; what was fitted for the last prompt is used again."""
        from memkit.search.retriever import Retriever

        given = {} if self.retriever is None else self.retriever
        wanted = Retriever(**given) if isinstance(given, Mapping) else given
        if not isinstance(wanted, Retriever):
            raise ParameterError(
                f"ContextBuilder: 'retriever' must be a Retriever, a mapping of its parameters or None. Got {wanted!r}."
            )
        last: Retriever | None = self.__dict__.get("retriever_")
        if last is not None and last.get_params(deep=False) == wanted.get_params(deep=False):
            wanted = last
        self.retriever_ = wanted.fitted(corpus)
        return self.retriever_

    def _fill(self, lines: Sequence[Candidate], limit: int) -> list[Candidate]:
        """`lines` with the reason 'limit' on those that do not go in."""
        free = [at for at, line in enumerate(lines) if line.reason is None]
        sizes = [len(lines[at].line) + 1 for at in free]  # a line end each; the last one's is given back
        choose = _greedy if self.fill == "greedy" else _knapsack
        chosen = {free[at] for at in choose(sizes, [lines[at].value for at in free], limit + 1)}
        return [line if line.reason or at in chosen else replace(line, reason="limit") for at, line in enumerate(lines)]


def _own_facts(
    corpus: Corpus, params: dict[str, Any], block: str, wanted: Callable[[dict[str, Any]], bool]
) -> tuple[Candidate, ...]:
    rows = corpus.ask(_OWN, params, timeout_s=None).to_pylist()
    lines, rank = [], 0
    for row in rows:
        reason = "future" if row["future"] else "expired" if row["expired"] else None if wanted(row) else "not_high"
        rank += reason is None
        lines.append(Candidate(row["memory_id"], block, _line(row["text"]), _worth(rank), reason))
    return tuple(lines)


def _line(text: str) -> str:
    return "- " + " ".join(text.split())


def _why(gathered: Gathered, filled: dict[str, list[Candidate]]) -> str:
    """What the search had to say; and where nothing is shown, why."""
    user_id, note = gathered.user_id, gathered.note
    lines = [line for block in BLOCKS for line in filled[block]]
    if any(line.reason is None for line in lines):
        return note
    users = gathered.corpus.ask(_USER_IDS, timeout_s=None)
    known = users["user_id"].to_pylist()
    if user_id is not None and user_id not in known:
        others = f"Users: {', '.join(known[:_USERS])}{', …' * (len(known) > _USERS)}." if known else "None has a user."
        return f"No memory is of user {user_id!r}. {others}{did_you_mean(user_id, known)} Without a user all are taken."
    counts = Counter(f"{line.reason} in {line.block}" for line in lines)
    left_out = "; ".join(f"{count} {reason}" for reason, count in counts.items())
    return " ".join(filter(None, ["Nothing is shown.", left_out and f"Left out: {left_out}.", note]))


def _worth(rank: int) -> float:
    """What a line is worth: the discount of DCG at its rank."""
    return 1 / float(np.log2(rank + 1)) if rank else 0.0


def _preview(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _greedy(sizes: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The lines in order, up to the first that does not fit, as a text cut at a line."""
    used = np.cumsum(sizes)
    return list(range(int(np.searchsorted(used, limit, side="right"))))


def _knapsack(sizes: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The set of lines worth most within the limit; cost grows with lines x limit.

    Where that is over `_CELLS`, those worth most a character go first, which loses at most what one line is worth.
    """
    if sum(sizes) <= limit:
        return list(range(len(sizes)))
    if max(len(sizes), _FEWEST) * (limit + 1) <= _CELLS:
        return _best_set(sizes, values, limit)
    chosen = []
    for at in sorted(range(len(sizes)), key=lambda at: values[at] / sizes[at], reverse=True):
        if sizes[at] <= limit:
            chosen.append(at)
            limit -= sizes[at]
    return sorted(chosen)


def _best_set(sizes: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The best set, of a bit for each line and room: whether the line is in what is best for so much room."""
    best = np.zeros(limit + 1)
    taken = np.zeros((len(sizes), limit // 8 + 1), np.uint8)
    for at, (size, value) in enumerate(zip(sizes, values, strict=True)):
        if size <= limit:
            with_it = best[: limit + 1 - size] + value
            is_better = np.zeros(limit + 1, bool)
            is_better[size:] = with_it > best[size:]
            np.maximum(best[size:], with_it, out=best[size:])
            taken[at] = np.packbits(is_better)
    chosen, room = [], limit
    for at in range(len(sizes) - 1, -1, -1):
        if taken[at, room // 8] >> (7 - room % 8) & 1:
            chosen.append(at)
            room -= sizes[at]
    return chosen[::-1]


def _text(filled: dict[str, list[Candidate]]) -> str:
    blocks = []
    for block in BLOCKS:
        lines = [line.line for line in filled[block] if line.reason is None]
        if lines:
            blocks.append("\n".join([f"[{block}]", *lines]))
    return "\n\n".join(blocks)


def _table(filled: dict[str, list[Candidate]]) -> pa.Table:
    rows = [
        {
            "memory_id": line.memory_id,
            "block": block,
            "rank": rank,
            "chars": len(line.line),
            "keep": line.reason is None,
            "reason": line.reason,
        }
        for block in BLOCKS
        for rank, line in enumerate(filled[block], 1)
    ]
    return pa.Table.from_pylist(rows, schema=TABLE)
