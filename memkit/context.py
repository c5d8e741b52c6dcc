"""Memory blocks for a prompt, within character limits: which memories go in, and why the others do not.

The blocks are those of the Memory v2 document: PROFILE (profile facts of high importance), WORKING (working facts that
have not expired), RELEVANT (the best hits of a decayed search for the message).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from memkit.base.duck import literal, literals
from memkit.base.params import (
    AsOf,
    Estimator,
    Moment,
    adopt,
    check_corpus,
    check_value,
    describe,
    disown,
    estimator,
    param,
    revision_of,
)
from memkit.display.draw import Tabular
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.display.views import IN_WORDS, names_in
from memkit.documents import cite
from memkit.errors import ParameterError, did_you_mean
from memkit.formats.format import PROMPTS, Prompt
from memkit.schemas import kinds_where, result_schema
from memkit.tables.age import expired_sql
from memkit.text.secrets import mask
from memkit.text.sentences import plain_line, window

if TYPE_CHECKING:
    from memkit.plot import Picture
    from memkit.search.retriever import Retriever
    from memkit.tables.corpus import Corpus

PROFILE, WORKING, RELEVANT = "PROFILE MEMORY", "WORKING MEMORY", "RELEVANT MEMORY FOR THIS TURN"
BLOCKS = (PROFILE, WORKING, RELEVANT)
_LEFT_OUT_SHOWN = 4
_SOURCE = cite("memory_v2", "blocks")
_chars = partial(param, unit="characters")
_WORD = re.compile(r"\w+")
_USERS_NAMED = 5  # named where one is unknown
_MAX_CELLS = 1 << 28
"""Lines x characters up to which the best set is computed: one bit each, 32 MB of the 64 that a fill may take."""
_MIN_LINES = 1 << 8
"""Minimum of lines in that product, so that the values of a row take at most 8 MB."""
TABLE = result_schema(
    (pa.string(), "memory_id block"),
    (pa.int64(), "rank chars"),
    (pa.bool_(), "keep"),
    (pa.string(), "reason"),
)
_USER_FACTS = f"""
    select memory_id, text, kind, coalesce(importance, 'normal') as importance,
        {expired_sql()} as expired, coalesce(created_at > $unseen, false) as future
    from memories where ($user_id is null or user_id = $user_id) and kind = $kind
    order by path, line_start, memory_id
"""  # noqa: S608  # no data in it
_OF_HOST = """
    select memory_id, path, kind, title, text, line_start, line_end from memories
    where layout = $host and kind <> 'head' order by path, line_start, memory_id
"""
_USER_IDS = "select distinct user_id from memories where user_id is not null order by all"
# Lines of a fact file that are no facts are kept in the file, but never shown to a model.
_HIDDEN_KINDS = literals(("facts", *kinds_where(judged=False)))
_SHOWN_KINDS = f"coalesce(kind, format) not in ({_HIDDEN_KINDS})"


@dataclass(frozen=True)
class Candidate:
    """One line that may enter a block; `reason` is null unless something excludes it."""

    memory_id: str
    block: str
    line: str
    value: float
    reason: str | None = None


@dataclass(frozen=True, repr=False)
class Context(Tabular):
    """The memory blocks of a prompt.

    Attributes
    ----------
    text : str
        The blocks, joined by a blank line, without empty ones.
    table : pyarrow.Table
        Every candidate: memory_id, block, rank, chars, keep, reason (future, not_high, expired, limit, below_k,
        shown_above; of a host's prompt below_cut, on_demand, link_below_cut, not_indexed, duplicate_entry).
        The metadata's ``note`` says why nothing is shown, or that search used words alone.
    lines : tuple of Candidate
        The same candidates with their text, in the order of the blocks.
    limits : dict of str to int
        The character limit of each block.

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
        """Why nothing is shown, or the note of the search; else empty."""
        return str((self.table.schema.metadata or {}).get(b"note", b"").decode())

    def plot(self) -> Picture:
        """The characters used in each block beside its limit: `mk.plot.budgets`."""
        from memkit.plot import budgets

        return budgets(self)

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        blocks = [self._block(block, limit, rows, show_secrets) for block, limit in self.limits.items()]
        return (replace(blocks[0], notes=(self.note,) if self.note else ()), *blocks[1:]) if blocks else ()

    def _block(self, block: str, limit: int, rows: int, show_secrets: bool) -> Sheet:
        """The lines of a block, those that went in first, and the characters used."""
        candidates = sorted(
            (line for line in self.lines if line.block == block), key=lambda line: line.reason is not None
        )
        used = len("\n".join(line.line for line in candidates if line.reason is None))
        kept = sum(line.reason is None for line in candidates)
        shown = describe(
            pa.table(
                {
                    "reason": pa.array([line.reason or "in" for line in candidates], pa.string()),
                    "chars": pa.array([len(line.line) for line in candidates], pa.int64()),
                    "line": pa.array([line.line.removeprefix("- ") for line in candidates], pa.string()),
                }
            ),
            memkit="block",
        )
        sheet = sheet_of(shown, min(rows, max(kept + _LEFT_OUT_SHOWN, 1)), show_secrets)
        heading = f"[{block}]  {used:,} of {limit:,} characters, {kept} of {len(candidates)} memories in"
        return replace(sheet, heading=heading, bar=min(1.0, used / limit) if limit else 1.0)


@dataclass(frozen=True)
class Gathered:
    """The candidates for one message before the character limits, as `ContextBuilder.gather` returns them.

    Attributes
    ----------
    profile, working : tuple of Candidate
        Facts of the user; facts that are excluded carry a reason.
    hits : pyarrow.Table
        The hits of the search, more than go in.
    """

    corpus: Corpus
    user_id: str | None
    moment: Moment
    profile: tuple[Candidate, ...]
    working: tuple[Candidate, ...]
    hits: pa.Table
    message: str = ""

    @property
    def note(self) -> str:
        """The note of the search; else empty."""
        return str(self.hits.schema.metadata.get(b"note", b"").decode())


@estimator
class ContextBuilder(Estimator):
    """Fills the blocks of a prompt with the memories of one user, or of all.

    `build` always searches the corpus that it is given: a retriever fitted on other memories, such as those before a
    `refresh`, is copied and fitted again.

    Attributes
    ----------
    retriever_ : Retriever
        The retriever of the last prompt.

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
    profile_chars: int = _chars(800, low=0, doc="Character limit of the block PROFILE.", source=_SOURCE)
    working_chars: int = _chars(500, low=0, doc="Character limit of the block WORKING.", source=_SOURCE)
    relevant_chars: int = _chars(2000, low=0, doc="Character limit of the block RELEVANT.", source=_SOURCE)
    preview_chars: int = _chars(
        200,
        low=1,
        doc="Maximum length of a line of RELEVANT: the best whole sentences of a hit.",
        source=_SOURCE,
    )
    k: int = param(5, low=1, unit="memories", doc="Maximum number of hits in RELEVANT.", source=_SOURCE)
    fill: str = param(
        "greedy",
        choices=("greedy", "knapsack"),
        doc="Lines in order up to the limit ('greedy'), or the most valuable set ('knapsack'; approximate where lines x"
        " limit > 268 million).",
    )
    host: str = param("auto", choices=("auto", "none"), doc="Whose prompt is shown.")
    skip_shown: bool = param(
        True, doc="Leave out of RELEVANT what an earlier block shows; the document repeats it.", source=_SOURCE
    )

    def fit(self, corpus: Corpus, y: object = None) -> Self:
        """Fit the retriever to a corpus before the first prompt, and return the builder; else `build` fits it."""
        self.check_params()
        self._fitted(corpus)
        return self

    def build(self, corpus: Corpus, user_id: str | None, message: str, as_of: AsOf = None) -> Context:
        """Build the blocks for one message.

        Parameters
        ----------
        corpus : Corpus
            The memories.
        user_id : str or None
            Only this user's memories are used. None uses all memories, with or without a user.
        message : str
            The query for RELEVANT.
        as_of : str, date, datetime or None
            The day for expiry and decay; None is now. Memories created later are not shown (see `Retriever.future`).
            The day is stored in the table's schema metadata.

        Returns
        -------
        Context
            Where nothing is shown, its `note` says why: an unknown user, or the reasons that excluded each memory.

        Raises
        ------
        ParameterError
            For a parameter outside of its declaration.
        """
        self.check_params()
        check_corpus("ContextBuilder.build", corpus)
        for host, prompt in PROMPTS.all():
            if self.host == host or (self.host == "auto" and user_id is None):
                rows = corpus.ask(_OF_HOST, {"host": host}, timeout_s=None).to_pylist()
                if rows or self.host == host:
                    given = {name: getattr(self, name) for name in prompt.params}
                    shown: Context = prompt.shown(corpus, rows, Moment.from_as_of(as_of), **given)
                    return shown
        return self.within(self.gather(corpus, user_id, message, as_of))

    def gather(self, corpus: Corpus, user_id: str | None, message: str, as_of: AsOf = None) -> Gathered:
        """The first and costly step of `build`: the candidates, which do not depend on the character limits.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["Зелёный чай", "Чёрный чай"], "kind": ["working", "working"]})
        >>> gathered = ContextBuilder(mk.Retriever(encoder=None)).gather(corpus, None, "чай", as_of="2026-03-01")
        >>> [ContextBuilder(working_chars=n, k=1).within(gathered).text.count("чай") for n in (0, 20)]
        [1, 2]
        """
        self.check_params()
        check_value("ContextBuilder.build", "user_id", user_id, "str", nullable=True)
        moment, search = Moment.from_as_of(as_of), self._fitted(corpus)
        params = {"user_id": user_id, "until": moment.last_visible, "unseen": moment.unseen(search.future)}
        profile = _own_facts(corpus, {**params, "kind": "profile"}, PROFILE, lambda row: row["importance"] == "high")
        working = _own_facts(corpus, {**params, "kind": "working"}, WORKING, lambda row: True)
        where = _SHOWN_KINDS if user_id is None else f"{_SHOWN_KINDS} and user_id = {literal(user_id)}"
        hits = search.search(message, k=2 * search.pool, where=where, as_of=moment, columns=("title", "source_id"))
        return Gathered(corpus, user_id, moment, profile, working, hits, message)

    def within(self, gathered: Gathered) -> Context:
        """The second step of `build`: fill this builder's limits; the candidates may come from another builder."""
        self.check_params()
        corpus, filled = gathered.corpus, self._blocks(gathered)
        limits = {PROFILE: self.profile_chars, WORKING: self.working_chars, RELEVANT: self.relevant_chars}
        lines = tuple(line for block in BLOCKS for line in filled[block])
        table, note = _table(filled), _note_of(gathered, filled)
        names, revision = names_in(table, corpus.memories, "memory_id"), revision_of(corpus.memories)
        table = describe(table, memkit="context", note=note, shown=names, as_of=gathered.moment, **revision)
        return Context(_text(filled), table, lines, limits)

    def compare(self, corpus: Corpus, user_id: str | None, message: str, as_of: AsOf = None) -> pa.Table:
        """Compare both values of `fill`: fill, block, kept, chars, value (the sum of the values of the lines)."""
        gathered = self.gather(corpus, user_id, message, as_of)
        rows, params = [], self.get_params(deep=False)
        for fill in ("greedy", "knapsack"):
            for block, lines in ContextBuilder(**{**params, "fill": fill})._blocks(gathered).items():
                kept = [line for line in lines if line.reason is None]
                chars = len("\n".join(line.line for line in kept))
                value = sum(line.value for line in kept)
                rows.append({"fill": fill, "block": block, "kept": len(kept), "chars": chars, "value": value})
        return describe(pa.Table.from_pylist(rows), as_of=gathered.moment)

    def _blocks(self, gathered: Gathered) -> dict[str, list[Candidate]]:
        """The candidates of each block; those left out carry a reason."""
        filled = {
            PROFILE: self._fill(gathered.profile, self.profile_chars),
            WORKING: self._fill(gathered.working, self.working_chars),
        }
        shown = [line for lines in filled.values() for line in lines if line.reason is None and self.skip_shown]
        above = {word for line in shown for word in (line.memory_id, _words(line.line))}
        filled[RELEVANT] = self._fill(self._relevant(gathered, above), self.relevant_chars)
        return filled

    def _relevant(self, gathered: Gathered, above: set[str]) -> list[Candidate]:
        """The candidates for RELEVANT; `above` holds the ids and words that earlier blocks show."""
        lines: list[Candidate] = []
        rank = 0
        for hit in gathered.hits.select(["memory_id", "text", "snippet", "title", "source_id"]).to_pylist():
            repeats = hit["memory_id"] in above or _words(hit["text"]) in above
            reason = "shown_above" if repeats else "below_k" if rank >= self.k else None
            rank += reason is None
            title = "" if hit["title"] == hit["source_id"] else hit["title"]
            line = f"- {_preview(title, hit['snippet'], gathered.message, self.preview_chars)}"
            lines.append(Candidate(hit["memory_id"], RELEVANT, line, _line_value(rank), reason))
        return lines

    def _fitted(self, corpus: Corpus) -> Retriever:
        """The retriever fitted to exactly these memories, reusing that of the last prompt where possible."""
        from memkit.search.retriever import Retriever

        retriever = {} if self.retriever is None else self.retriever
        wanted = Retriever(**retriever) if isinstance(retriever, Mapping) else retriever
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
        """`lines`, with the reason 'limit' on those that do not fit."""
        free = [index for index, line in enumerate(lines) if line.reason is None]
        sizes = [len(lines[index].line) + 1 for index in free]  # a line end each; the last one's is given back
        choose = _greedy if self.fill == "greedy" else _knapsack
        chosen = {free[index] for index in choose(sizes, [lines[index].value for index in free], limit + 1)}
        return [
            line if line.reason or index in chosen else replace(line, reason="limit")
            for index, line in enumerate(lines)
        ]


def register_prompt(prompt: Prompt) -> None:
    """Make a prompt known: its name is a value of ``host``, and its parameters are those of every ContextBuilder."""
    forget_prompt(getattr(prompt, "name", ""))
    PROMPTS.add(getattr(prompt, "name", ""), prompt)
    _settle_hosts()


def forget_prompt(name: str) -> None:
    """Undo `register_prompt`; nothing happens where there was none of this name."""
    if (prompt := PROMPTS.registered.pop(name, None)) is not None:
        disown(ContextBuilder, prompt.params)
        _settle_hosts()


def _settle_hosts() -> None:
    """Let the builder have the prompts of hosts: their names, what they show, and their parameters."""
    prompts = dict(PROMPTS.all())
    whose = "".join(f"{name!r} is {prompt.about}; " for name, prompt in prompts.items())
    doc = f"Whose prompt is shown: {whose}'none' is the blocks above. 'auto': the host's where the corpus is its memory"
    doc += " and no user is given."
    host = replace(ContextBuilder.params()["host"], choices=("auto", *prompts, "none"), doc=doc)
    given = (replace(p, name=name) for prompt in prompts.values() for name, p in prompt.params.items())
    adopt(ContextBuilder, (host, *given))


_settle_hosts()


def context_of(
    corpus: Corpus,
    text: str,
    blocks: dict[str, list[Candidate]],
    limits: Mapping[str, int],
    notes: Sequence[str],
    moment: Moment,
) -> Context:
    """The prompt that a host shows: its text, and the lines of each block that are shown, or why they are not."""
    table = _table(blocks)
    names, revision = names_in(table, corpus.memories, "memory_id"), revision_of(corpus.memories)
    table = describe(table, memkit="context", note=" ".join(notes), shown=names, as_of=moment, **revision)
    lines = tuple(line for block in blocks.values() for line in block)
    return Context(text, table, lines, limits)


def _own_facts(
    corpus: Corpus, params: dict[str, Any], block: str, wanted: Callable[[dict[str, Any]], bool]
) -> tuple[Candidate, ...]:
    rows = corpus.ask(_USER_FACTS, params, timeout_s=None).to_pylist()
    lines, rank = [], 0
    for row in rows:
        reason = "future" if row["future"] else "expired" if row["expired"] else None if wanted(row) else "not_high"
        rank += reason is None
        lines.append(Candidate(row["memory_id"], block, _line(row["text"]), _line_value(rank), reason))
    return tuple(lines)


def _words(text: str) -> str:
    """What a text says, whatever marks and blanks stand between its words."""
    return " ".join(_WORD.findall(text))


def _line(text: str) -> str:
    return f"- {plain_line(text) or ' '.join(text.split())}"


def _note_of(gathered: Gathered, filled: dict[str, list[Candidate]]) -> str:
    """The note of the search, and the reason where nothing is shown."""
    user_id, note = gathered.user_id, gathered.note
    lines = [line for block in BLOCKS for line in filled[block]]
    if any(line.reason is None for line in lines):
        return note
    users = gathered.corpus.ask(_USER_IDS, timeout_s=None)
    user_ids = users["user_id"].to_pylist()
    if user_id is not None and user_id not in user_ids:
        others = (
            f"Users: {', '.join(user_ids[:_USERS_NAMED])}{', …' * (len(user_ids) > _USERS_NAMED)}."
            if user_ids
            else "No memory has a user."
        )
        hint = did_you_mean(user_id, user_ids)
        return mask(f"User {user_id!r} has no memory. {others}{hint} Give no user to use all memories.")
    counts = Counter(f"{IN_WORDS.get(line.reason or '', line.reason)} in {line.block}" for line in lines)
    left_out = "; ".join(f"{count} {reason}" for reason, count in counts.items())
    return " ".join(filter(None, ["Nothing is shown.", left_out and f"Left out: {left_out}.", note]))


def _line_value(rank: int) -> float:
    """The value of a line: the discount of DCG at its rank."""
    return 1 / float(np.log2(rank + 1)) if rank else 0.0


def _preview(title: str, snippet: str, message: str, limit: int) -> str:
    """The best whole sentences or lines of a snippet below its title, as one line; cut after a word if need be."""
    line, is_whole = plain_line(snippet), True
    head = title + (" " if title[-1:] in ".!?…:" else ": ")
    head = head if title and title.casefold() not in line.casefold() and len(title) < limit // 2 else ""
    if len(head + line) > limit:
        begins, ends = window(snippet, message, max(1, limit - len(head) - 1))
        line = plain_line(snippet[begins:ends])
        is_whole = ends == len(snippet) or snippet[ends] == "\n" or line[-1:] in ".!?…»”)"
    line = head + line
    if len(line) > limit:  # the marks between lines took more room than their ends
        line, is_whole = line[: limit - 1].rpartition(" ")[0] or line[: limit - 1], False
    return line if is_whole else f"{line[: limit - 1]}…"


def _greedy(sizes: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The lines in order, up to the first that does not fit."""
    used = np.cumsum(sizes)
    return list(range(int(np.searchsorted(used, limit, side="right"))))


def _knapsack(sizes: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The most valuable set of lines within the limit (0/1 knapsack); the cost is lines x limit.

    Above `_MAX_CELLS`, lines are taken by value per character, which loses at most the value of one line.
    """
    if sum(sizes) <= limit:
        return list(range(len(sizes)))
    if max(len(sizes), _MIN_LINES) * (limit + 1) <= _MAX_CELLS:
        return _best_set(sizes, values, limit)
    chosen = []
    for index in sorted(range(len(sizes)), key=lambda index: values[index] / sizes[index], reverse=True):
        if sizes[index] <= limit:
            chosen.append(index)
            limit -= sizes[index]
    return sorted(chosen)


def _best_set(sizes: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The exact best set, by dynamic programming with a bit per line and size: whether the best set takes the line."""
    best = np.zeros(limit + 1)
    takes_line = np.zeros((len(sizes), limit // 8 + 1), np.uint8)
    for row, (size, value) in enumerate(zip(sizes, values, strict=True)):
        if size <= limit:
            with_line = best[: limit + 1 - size] + value
            is_better = np.zeros(limit + 1, bool)
            is_better[size:] = with_line > best[size:]
            np.maximum(best[size:], with_line, out=best[size:])
            takes_line[row] = np.packbits(is_better)
    chosen, room = [], limit
    for row in range(len(sizes) - 1, -1, -1):
        if takes_line[row, room // 8] >> (7 - room % 8) & 1:
            chosen.append(row)
            room -= sizes[row]
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
        for block, lines in filled.items()
        for rank, line in enumerate(lines, 1)
    ]
    return pa.Table.from_pylist(rows, schema=TABLE)
