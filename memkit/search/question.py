"""`Question`: an `Ask` as an index reads it, with the candidates that its arms retrieved, and their ranking.

`rank` applies the steps to all queries of a question under one setting, and gives each candidate its disposition.
Search shows the rows with ``returned``, the trace shows all of them: the two cannot disagree. `places` serves sweeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import groupby
from math import prod
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from memkit.errors import EncoderUnavailableError, ParameterError
from memkit.index.encoders.base import in_haste
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED, NOWHERE, Keys
from memkit.search.ask import STEPS, Ask, Queries, Settings, scoping
from memkit.search.fitted.index import MemoryIndex, Reading, Searchable
from memkit.search.state import RETURNED, Candidates, Pooled, Ranked, Shortlist, State, count, group_starts, spread
from memkit.search.step import Factor, Step
from memkit.search.steps.collapse import BELOW, hit_of
from memkit.search.steps.factors import stale_by
from memkit.search.steps.fuse import scale_of
from memkit.search.steps.recall import depth_of, is_strict, without_meaning
from memkit.tables.age import naive

T = TypeVar("T")


@dataclass(frozen=True)
class Question(Reading):
    """An `Ask` as an index reads it, and the candidates that the arms retrieved for it.

    Retrieving candidates is the costly part; ranking is arithmetic over arrays. So retrieve once, with all arms and the
    largest pool (candidates per arm), and rank under as many settings as you like: the results are those of separate
    searches.

    Attributes
    ----------
    index : MemoryIndex
    retrieved : Candidates
        The candidates that the arms retrieved.
    note : str
        Why an arm with a weight was not used; empty if all were.
    unreached : list of str
        Why nothing was reranked.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> search = mk.Retriever(encoder="hash").fit(corpus)
    >>> question = search.ask("кофе")
    >>> other = question.with_params(vector_weight=0.9, pool=1)
    >>> alone = search.with_params(vector_weight=0.9, pool=1).ask("кофе")
    >>> other.ranked().score.tolist() == alone.ranked().score.tolist()
    True
    """

    index: MemoryIndex
    retrieved: Candidates
    note: str = ""
    unreached: list[str] = field(default_factory=list, compare=False)

    @property
    def settings(self) -> Settings:
        """The query-time parameters."""
        return self.ask.settings

    @property
    def queries(self) -> Queries:
        """The queries, all of one day."""
        return self.ask.queries

    @property
    def moment(self) -> datetime:
        """For decay and expiry, in UTC; `scope` says which memories lie in the future."""
        return self.ask.moment.instant

    def with_params(self, **values: Any) -> Self:
        """The same question under other query-time parameters, without retrieving again.

        Raises
        ------
        ParameterError
            For a name or value that is not declared, or one that needs other candidates: a larger pool, an arm that had
            no weight, other memories.
        """
        settings = self.settings.with_params(**values)
        weights = self.index.weights(settings)
        is_rescoped = any(getattr(settings, name) != getattr(self.settings, name) for name in scoping())
        if is_rescoped or depth_of(settings) > self.retrieved.depth or not weights.keys() <= set(self.retrieved.arms):
            raise ParameterError(
                f"Question.with_params: expected settings for the candidates of {', '.join(self.retrieved.arms)} with a"
                f" pool of {self.retrieved.depth}. Got {values}: ask again with those."
            )
        return self.under(settings, weights)

    def under(self, settings: Settings, weights: dict[str, float], k: int | None = None) -> Self:
        """The same candidates under other settings and weights, and for another number of hits."""
        ask = replace(self.ask, settings=settings, k=self.ask.k if k is None else k)
        return replace(self, ask=ask, weights=weights, unreached=[])

    def candidates(self) -> Candidates:
        """The best `pool` candidates of each arm that has a weight."""
        return self.retrieved.narrowed(tuple(self.weights), depth_of(self.settings), self.index.rows.crowd)

    def pooled(self, candidates: Candidates) -> Pooled:
        """Some candidates with what ranking looks up for them."""
        size, until = len(self.queries), stale_by(self)
        return Pooled(
            self.index,
            candidates,
            self.queries.texts,
            naive(self.moment).repeat(size),
            (np.datetime64("NaT", "us") if until is None else naive(until)).repeat(size),
            [self.sight] * size,
            hit_of(self.settings),
            scale_of(self.settings),
        )

    def ranked(self, depth: int | None = None) -> Ranked:
        """The candidates after every step; `depth` is the number of places that are ordered at least, None: all."""
        pooled = self.pooled(self.candidates())
        return rank(pooled, self.settings, self.weights, self.ask.k, depth=depth, asked=partial(self._asked, pooled))

    def multiplied(self, candidates: Candidates, score: Floats) -> Floats:
        """The `score` of each candidate times the factors of its kind, age and state."""
        of_factors = [place for place, step in enumerate(STEPS.ranking) if isinstance(step, Factor)]
        return _run_some(self.pooled(candidates), self.settings, self.weights, of_factors, score).score[:, 0]

    def retrieve_among(self, allowed: Mask | None, n: int) -> Candidates:
        """The best `n` candidates of each arm among the chunks `allowed`, whatever the scope."""
        if allowed is self.scope.allowed and n <= self.retrieved.depth and self.index.is_steady:
            return self.retrieved.narrowed(tuple(self.weights), n, self.index.rows.crowd)
        # A superseded memory is shown as itself here, not as its successor.
        as_itself = replace(self, scope=replace(self.scope, successor_chunks=None))
        return self.index.retrieve(as_itself, n, allowed)

    @cached_property
    def read_as(self) -> dict[str, dict[str, str]]:
        """By query the words that no text has, and the nearest word of a text, which was searched in its place."""
        return {
            query: {word: self.index.spelled(term, self.sight) for word, term in nearest.items()}
            for query, nearest in zip(self.queries.ids, self.nearest, strict=False)
            if nearest
        }

    def _asked(self, pooled: Pooled, step: Step, keys: list[Any], whom: str, rows: Ints) -> Floats | None:
        """What a step is told of some candidates; None where the service that it asks cannot be reached."""
        if self.unreached:
            return None
        if is_strict(self.settings):
            return step.ask(pooled, keys, whom, rows)
        try:
            with in_haste():
                return step.ask(pooled, keys, whom, rows)
        except EncoderUnavailableError as error:
            self.unreached.append(f"Without {step.doing}: {error}")
            warnings.warn(f"Retriever: no {step.doing} this time. {self.unreached[0]}", RuntimeWarning, stacklevel=6)
            return None


def answered(index: Searchable, ask: Ask) -> Question:
    """The question that `index` answers, with its candidates."""
    answer, note = or_by_words(index, ask.settings, lambda how: index.answer(replace(ask, settings=how)))
    reading = vars(answer.reading) | {"ask": ask}
    return Question(**reading, index=answer.index, retrieved=answer.candidates, note=note)


def or_by_words(index: Searchable, settings: Settings, act: Callable[[Settings], T]) -> tuple[T, str]:
    """The result of `act`, and a note; without vectors if the encoder cannot be reached, and the note says why."""
    if is_strict(settings) or "vector" in index.absent:
        return act(settings), ""
    try:
        with in_haste():
            return act(settings), ""
    except EncoderUnavailableError as error:
        note = f"Without vectors: {error}"
        warnings.warn(f"Retriever: no vectors this time. {note}", RuntimeWarning, stacklevel=5)
        return act(settings.with_params(**without_meaning(settings))), note


# As is documented of the hits' column `alike`.
MOST_NAMED = 20
"""Most duplicates that are listed under a hit."""
BLOCK = 512
"""Settings in a block: a query's candidates under so many fit a processor's second cache."""
_NOBODY = np.empty(0, np.int64)

Key = tuple[Any, ...]
"""The keys that the steps of `STEPS.ranking` have of a setting: settings with equal keys rank equally."""


def key_of(settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> Key:
    """The key of settings with `weights` by arm, among settings that use some of the `arms`."""
    acting = settings.acting()
    return tuple(step.key(settings, weights, arms) if step in acting else None for step in STEPS.ranking)


class Stage(NamedTuple):
    """A step under some settings.

    Attributes
    ----------
    step : Step
    keys : list
        The key of each column after it; of a step that cuts or reads scores, of each setting.
    parent : ndarray of int64, or None
        The column before it that each one continues; None: its own.
    column : ndarray of int64, shape (settings,)
        The column of each setting after it.
    """

    step: Step
    keys: list[Any]
    parent: Ints | None
    column: Ints


@dataclass(frozen=True)
class Block:
    """Settings that are ranked together: the same steps act under all of them.

    Settings share a column as long as the steps so far have equal keys. A step that only cuts parts no columns, unless
    a step after it moves what is left.
    """

    stages: tuple[Stage, ...]
    size: int

    @classmethod
    def of(cls, keys: Sequence[Key]) -> Self:
        """The block of some settings, under all of which the same steps act."""
        acting = [place for place, key in enumerate(keys[0]) if key is not None]
        moves = any(STEPS.ranking[place].reads_score for place in acting)
        column, width, stages, now = [0] * len(keys), 1, [], np.zeros(len(keys), np.int64)
        for place in acting:
            step = STEPS.ranking[place]
            if step.cuts and not moves:
                stages.append(Stage(step, [key[place] for key in keys], None, now))
                continue
            known: dict[Any, int] = {}
            column = [
                known.setdefault((before, key[place]), len(known)) for before, key in zip(column, keys, strict=True)
            ]
            parents, own = zip(*known, strict=True)
            parent = None if parents == tuple(range(width)) else np.array(parents)
            width, now = len(known), now if parent is None else np.array(column)
            of_settings = [own[number] for number in column] if step.cuts or step.reads_score else list(own)
            stages.append(Stage(step, of_settings, parent, now))
        return cls(tuple(stages), len(keys))

    @property
    def column(self) -> Ints:
        """The column of each setting."""
        return self.stages[-1].column

    @property
    def reads_score(self) -> bool:
        """Whether a step reads scores after keys were made of them."""
        return any(stage.step.reads_score for stage in self.stages)


def blocks_of(keys: Sequence[Key]) -> tuple[list[Block], dict[Key, int]]:
    """The blocks of distinct settings, and the place of each setting in them, counted through.

    What the first steps share comes together, so that a block has few columns as long as possible.
    """
    distinct = list(dict.fromkeys(keys))
    seen: list[dict[Any, int]] = [{} for _ in STEPS.ranking]
    places = {
        key: [seen[place].setdefault(part, len(seen[place])) for place, part in enumerate(key)] for key in distinct
    }

    def acting(key: Key) -> tuple[bool, ...]:
        return tuple(part is None for part in key)

    ordered = sorted(distinct, key=lambda key: (acting(key), places[key]))
    runs = [list(run) for _, run in groupby(ordered, acting)]
    blocks = [Block.of(run[start : start + BLOCK]) for run in runs for start in range(0, len(run), BLOCK)]
    return blocks, {key: number for number, key in enumerate(ordered)}


def shortlist_of(pooled: Pooled, keys: Sequence[Key]) -> Shortlist:
    """All candidates as one shortlist, with what the steps read of them under any of the `keys`."""
    values: dict[Any, Any] = {}
    for step, of_step in zip(STEPS.ranking, zip(*keys, strict=True), strict=True):
        if acting := [key for key in dict.fromkeys(of_step) if key is not None]:
            values |= step.gather(pooled, acting)
    hits = pooled.index.rows.hit_of(pooled.memory, pooled.hit)
    return Shortlist(pooled.candidates.query, hits, values, pooled.hit != "chunk")


def run(state: State, block: Block, until: Step | None = None, enough: int | None = None) -> State:
    """Apply the steps of a block, or those before the step `until`; to the last one `enough` hits are enough."""
    for number, stage in enumerate(block.stages):
        if number:
            state.spread(stage.parent)
        state.column = stage.column
        if stage.step is until:
            break
        if enough is not None and stage is block.stages[-1]:
            state.enough = enough
        if state.records and stage.step.blames:
            state.undone.append((stage.step.blames, state.score.copy()))
        stage.step.apply(state, stage.keys)
        state.is_bounded &= stage.step.bounded or state.has_keys
    return state


def wanted_of(shortlist: Shortlist, block: Block, step: Step) -> tuple[list[Any], Mapping[str, Mask]]:
    """The keys of a step that asks, and by whom it asks the candidates; what steps before it were told is known."""
    stage = next((stage for stage in block.stages if stage.step is step), None)
    if stage is None:
        return [], {}
    return stage.keys, step.wants(run(State(shortlist, _NOBODY), block, step), stage.keys)


class Places(NamedTuple):
    """The places of some candidates under each setting.

    Attributes
    ----------
    place : ndarray of int64, shape (wanted, settings)
        From 0; a collapsed candidate has the place of its hit; `NOWHERE` if it is not among the first.
    is_hit : ndarray of bool, shape (wanted, settings)
        Whether it is a hit itself.
    hits : ndarray of int64, shape (settings,)
        The number of hits, or 1 for any number.
    """

    place: Ints
    is_hit: Mask
    hits: Ints


def places(shortlist: Shortlist, block: Block, wanted: Ints, depth: int, counts: bool = True) -> Places:
    """The places of the candidates `wanted` of one query under each setting, among the first `depth` hits.

    Parameters
    ----------
    counts : bool
        Whether to count hits; else only whether there is one.
    """
    state = State(shortlist, wanted, keeps_score=block.reads_score)
    run(state, block)
    key, root, floor, column = state.key, state.root, state.floor, block.column
    alone = state.own
    shown = (alone[:, column] >= floor) & (root[:, column] >= floor)
    place = np.array([count(key > root_key) for root_key in root]).reshape(root.shape).astype(np.int64)
    if _is_crowded(state):
        shown &= _is_named(shortlist, block, wanted, root)[:, column]
    place = place[:, column] if state.moves is None else state.moves(state, place, depth, slice(0, len(shortlist)))
    shown &= place < depth
    is_hit = shown & (root == alone)[:, column]
    return Places(np.where(shown, place, NOWHERE), is_hit, _hits(state, column, depth, counts))


def _hits(state: State, column: Ints, depth: int, counts: bool) -> Ints:
    if not counts:
        return np.asarray(state.key.max(axis=0, initial=DROPPED)[column] >= state.floor, np.int64)
    return np.minimum(count(state.key[:, column] >= state.floor), depth)


def _is_crowded(state: State) -> bool:
    """Whether a hit may have more duplicates than are listed."""
    if prod(bound for bound, _ in state.compared) <= MOST_NAMED:
        return False
    return prod(largest() for _, largest in state.compared) > MOST_NAMED


def _is_named(shortlist: Shortlist, block: Block, wanted: Ints, root: Keys) -> Mask:
    """Which of the wanted are a hit, or among the first `MOST_NAMED` duplicates of one."""
    every = run(State(shortlist, np.arange(len(shortlist)), keeps_score=block.reads_score), block)
    before = every.own
    named = np.ones(root.shape, bool)
    collapsed = (before[wanted] >= 0) & (root != before[wanted]) & (root != DROPPED)
    # One by one: hits with more than 20 duplicates are rare.
    for position, column in np.argwhere(collapsed).tolist():
        key, above = before[:, column], root[position, column]
        others = np.flatnonzero((every.root[:, column] == above) & (key != above))
        others = others[np.argsort(-key[others], kind="stable")]
        head = int(shortlist.memory[np.flatnonzero(key == above)[0]])
        names = [name for name in dict.fromkeys(shortlist.memory[others].tolist()) if name != head]
        named[position, column] = int(shortlist.memory[wanted[position]]) in names[:MOST_NAMED]
    return named


Asked = Callable[[Step, list[Any], str, Ints], Floats | None]
"""What a step is told of some candidates under some keys by somebody; None: nobody answers."""


def rank(
    pooled: Pooled,
    settings: Any,
    weights: Mapping[str, float],
    k: int,
    *,
    depth: int | None = None,
    asked: Asked | None = None,
) -> Ranked:
    """Apply all steps to candidates under one setting, and record the result of each.

    Parameters
    ----------
    k, depth : int
        Hits of a query; the places that are ordered at least, None: all.
    asked : callable, optional
        How steps ask; a step that nobody answers does nothing.
    """
    key = key_of(settings, weights, pooled.candidates.arms)
    shortlist = shortlist_of(pooled, [key])
    block = _answered(pooled, shortlist, key, asked)
    state = run(State(shortlist, _NOBODY, STEPS.codes), block, enough=depth)
    query, own = pooled.candidates.query, state.own[:, 0]
    order = np.lexsort((-own, query))
    order = order[own[order] != DROPPED]  # another chunk of the memory is better: no candidate any more
    before = _places(query, order, state.disposition == STEPS.codes[RETURNED])
    place = before.copy()
    if state.moves is not None:
        for of_query in shortlist.queries:
            place[of_query] = state.moves(state, before[of_query, None], depth, of_query)[:, 0]
        order = order[np.lexsort((place[order], query[order]))]
        state.drop(((before < k) & (place >= k))[:, None], state.moved_word)
    state.drop(((place != NOWHERE) & (place >= k))[:, None], BELOW)
    is_placed = place[order] != NOWHERE
    if not is_placed.all():
        order = order[np.lexsort((~is_placed, query[order]))]
    ranks = np.where(place == NOWHERE, 0, place + 1)
    under = np.where(state.under < 0, -1, pooled.candidates.row[state.under]) if len(query) else state.under
    said = state.recorded
    columns = {name: said[name] if name in said else np.full(len(query), v) for name, v in STEPS.columns.items()}
    result = Ranked(pooled.candidates, state.norm, columns, state.score[:, 0], ranks, under, state.disposition)
    return result.take(order)


def _answered(pooled: Pooled, shortlist: Shortlist, key: Key, asked: Asked | None) -> Block:
    """The block of one setting, after its steps were told what they ask; without those that nobody answers."""
    block = Block.of([key])
    for step in (stage.step for stage in block.stages if stage.step in STEPS.telling["wants"]):
        keys, wanted = wanted_of(shortlist, block, step)
        for whom, mask in wanted.items():
            rows = np.flatnonzero(mask)
            told = asked(step, keys, whom, rows) if asked else step.ask(pooled, keys, whom, rows)
            if told is None:
                place = STEPS.ranking.index(step)
                return _answered(pooled, shortlist, (*key[:place], None, *key[place + 1 :]), asked)
            shortlist.tell(step.name, whom, rows, told)
    return block


def _places(query: Ints, order: Ints, is_alive: Mask) -> Ints:
    """The place of each live candidate in its query, else `NOWHERE`; `order` is by query, then best first."""
    order = order[is_alive[order]]
    starts = group_starts(query[order])
    place = np.full(len(query), NOWHERE)
    place[order] = np.arange(len(order)) - spread(starts, starts, len(order))
    return place


def unranked(pooled: Pooled, settings: Any, weights: Mapping[str, float], word: str) -> Ranked:
    """Candidates of which only the arms' scores are known, and what a step knows of any memory."""
    size = len(pooled.candidates.query)
    knowing = [place for place, step in enumerate(STEPS.ranking) if step.knows_all]
    state = _run_some(pooled, settings, weights, knowing, np.ones(size))
    unknown, none = np.full(size, np.nan), np.zeros(size, np.int64)
    columns = dict.fromkeys(STEPS.columns, unknown)
    for place in knowing:
        columns |= {name: np.full(size, default) for name, default in STEPS.ranking[place].columns.items()}
    columns |= state.recorded
    norm, codes = np.full(pooled.candidates.raw.shape, np.nan), np.full(size, STEPS.codes[word], np.int8)
    return Ranked(pooled.candidates, norm, columns, unknown, none, none - 1, codes)


def _run_some(pooled: Pooled, settings: Any, weights: Mapping[str, float], some: Sequence[int], score: Floats) -> State:
    """Apply some steps alone to given scores."""
    key = key_of(settings, weights, pooled.candidates.arms)
    alone = tuple(part if place in some else None for place, part in enumerate(key))
    state = State(shortlist_of(pooled, [alone]), _NOBODY, STEPS.codes)
    state.score = score[:, None].copy()
    for place in some:
        if key[place] is not None:
            STEPS.ranking[place].apply(state, [key[place]])
    return state
