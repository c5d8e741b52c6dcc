"""`Question`: an `Ask`, as an index reads it, and the candidates that its arms retrieved.

`hits_table` and `trace_table` show a question's hits and all its candidates.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import Moment, check_column, describe, revision_of
from memkit.display.names import names_of
from memkit.errors import EncoderUnavailableError, ParameterError
from memkit.index.encoders.circuit import in_haste
from memkit.schemas import WORDS, Floats, Ints, Mask, result_schema, tuples_of
from memkit.search.ask import Ask, Queries, Settings
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex, Reading, Searchable
from memkit.search.rank import multiplied, rank, unranked
from memkit.search.settings import STEPS, scoping
from memkit.search.state import Candidates, Pooled, Ranked
from memkit.search.step import Step, queries_named
from memkit.search.steps.collapse import none_reaches
from memkit.search.steps.factors import IN_HITS, stale_by
from memkit.search.steps.fuse import answerability, by_places, scale_of
from memkit.search.steps.pick import hit_of
from memkit.search.steps.recall import ARMS, OUTSIDE, depth_of, is_strict, leaves_weights, without_meaning
from memkit.search.steps.rerank import with_names
from memkit.search.steps.scope import replaced_in
from memkit.tables.age import naive
from memkit.text import boilerplate
from memkit.text.snippet import SNIPPET, window

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
    depth : int or None
        Number of places that MMR orders; None: all. The first places do not depend on it.
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
    depth: int | None = None
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
    def k(self) -> int:
        """Hits per query."""
        return self.ask.k

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
        ask = replace(self.ask, settings=settings, k=self.k if k is None else k)
        return replace(self, ask=ask, weights=weights, unreached=[])

    def at(self, moment: Moment) -> Self:
        """The same candidates at another moment."""
        return replace(self, ask=replace(self.ask, moment=moment))

    def candidates(self) -> Candidates:
        """The best `pool` candidates of each arm that has a weight."""
        return self.retrieved.narrowed(tuple(self.weights), depth_of(self.settings))

    def pooled(self, candidates: Candidates) -> Pooled:
        """Some candidates with what ranking looks up for them."""
        size, until = len(self.queries), stale_by(self)
        return Pooled(
            self.index,
            candidates,
            self.ask.texts,
            np.full(size, naive(self.moment), "datetime64[us]"),
            np.full(size, "NaT" if until is None else naive(until), "datetime64[us]"),
            [self.sight] * size,
            hit_of(self.settings),
            scale_of(self.settings),
        )

    def ranked(self) -> Ranked:
        """The candidates after every step."""
        pooled = self.pooled(self.candidates())
        return rank(pooled, self.settings, self.weights, self.k, depth=self.depth, asked=partial(self._asked, pooled))

    def multiplied(self, candidates: Candidates, score: Floats) -> Floats:
        """The `score` of each candidate times the factors of its kind, age and state."""
        return multiplied(self.pooled(candidates), self.settings, self.weights, score)

    def retrieve_among(self, allowed: Mask | None, n: int) -> Candidates:
        """The best `n` candidates of each arm among the chunks `allowed`, whatever the scope."""
        if allowed is self.scope.allowed and n <= self.retrieved.depth and self.index.is_steady:
            return self.retrieved.narrowed(tuple(self.weights), n)
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


_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()

HITS = result_schema(
    (_TEXT, "query_id"),
    (_COUNT, "rank"),
    (_TEXT, "memory_id chunk_id"),
    (_NUMBER, " ".join(["score", *ARMS, *IN_HITS])),
    (_TEXT, "text path"),
    (_COUNT, "line_start line_end"),
    (_TEXT, "snippet"),
    (_COUNT, "snippet_start snippet_end"),
    (WORDS, "alike"),
    (_COUNT, "n_alike"),
    (WORDS, "replaces"),
)
_MOST_ALIKE = 20
_CHUNK_COLUMNS = ("memory_id", "chunk_id", "text", "path", "line_start", "line_end")


def trace_schema() -> pa.Schema:
    """The columns of a trace: those of the arms, and of the steps in their order."""
    of_arms = (column for arm in ARMS for column in ((_NUMBER, arm), (_COUNT, f"{arm}_rank"), (_NUMBER, f"{arm}_norm")))
    return result_schema(
        (_TEXT, "query_id memory_id chunk_id"),
        *of_arms,
        (_NUMBER, " ".join([*STEPS.columns, "score"])),
        (_COUNT, "rank"),
        (_TEXT, "disposition"),
    )


def check_added(columns: object) -> tuple[str, ...]:
    """Check the names of further columns; whether the columns exist is checked later, with the index.

    Raises
    ------
    ParameterError
    """
    if isinstance(columns, (list, tuple)) and all(isinstance(name, str) for name in columns):
        return tuple(dict.fromkeys(columns))
    raise ParameterError(f"Retriever.search: 'columns' must be a list of names. Got {columns!r:.80}.")


def with_memories(table: pa.Table, memories: pa.Table, added: Sequence[str], owner: str) -> pa.Table:
    """`table` with further columns of the memories in its rows.

    Raises
    ------
    ParameterError
        For a name that is a column of neither.
    """
    for name in added:
        if name not in table.column_names:
            check_column(name, [*memories.column_names, *table.column_names], owner)
    if not set(added) - set(table.column_names):
        return table
    rows = pc.index_in(table["memory_id"], value_set=memories["memory_id"].combine_chunks())
    for name in added:
        if name not in table.column_names:
            table = table.append_column(memories.schema.field(name), memories[name].take(rows))
    return table


def bare_hits(question: Question) -> tuple[pa.Table, str]:
    """Those columns of `hits_table` that measures use, and why there are no hits: without texts and snippets."""
    ranked, shown = _ranked(question)
    columns = {
        "query_id": _ids(question.queries, shown.candidates.query),
        "rank": pa.array(shown.rank),
        **_of_chunks(question, shown.candidates.row, ("memory_id",)),
        "score": pa.array(shown.score),
        "alike": _collapsed(question, ranked, shown)["alike"],
    }
    return pa.table(columns), "" if len(shown.rank) else _note(question, ranked, _empty_note(question, ranked))


def _ranked(question: Question) -> tuple[Ranked, Ranked]:
    """The candidates as ranked for hits, and the hits of them."""
    ranked = replace(question, depth=question.k).ranked()
    return ranked, ranked.returned()


def hits_table(question: Question, added: Sequence[str] = ()) -> pa.Table:
    """The hits as `HITS`, by query and rank, with columns `added`; the metadata says why a query has none."""
    ranked, shown = _ranked(question)
    of_chunks = _of_chunks(question, shown.candidates.row, _CHUNK_COLUMNS)
    columns = {
        **of_chunks,
        "query_id": _ids(question.queries, shown.candidates.query),
        "rank": shown.rank,
        "score": shown.score,
        **{arm: _floats(shown.candidates.raw[:, column]) for column, arm in enumerate(shown.candidates.arms)},
        **{name: shown.columns[name] for name in IN_HITS},
        **_snippets(question, shown.candidates, of_chunks["text"].to_pylist()),
        **_collapsed(question, ranked, shown),
    }
    replaced = replaced_in(question.index, question.scope, columns["memory_id"])
    columns["replaces"] = _by_hit(columns["memory_id"], replaced)
    table = _table(columns, HITS, len(shown.rank))
    table = with_memories(table, question.index.memories, added, "Retriever.search")
    note = _note(question, ranked, _empty_note(question, ranked))
    likely = _answerability(question, ranked)
    names = _names(question, shown.candidates) | {"counted": _counted(question, shown)}
    names["memories"] |= names_of(replaced.slice(0, _MOST_NAMED)) if replaced.num_rows else {}
    return _described(table, question, memkit="hits", shown=names, note=note, answerability=likely)


def _by_hit(ids: pa.ChunkedArray, replaced: pa.Table) -> pa.Array:
    """For each hit the ids of the superseded memories in whose place it is shown."""
    names: dict[str, list[str]] = {}
    for by, memory_id in tuples_of(replaced, "by", "memory_id"):
        names.setdefault(by, []).append(memory_id)
    return pa.array([names.get(memory_id, []) for memory_id in ids.to_pylist()], pa.list_(pa.string()))


def _snippets(question: Question, hits: Candidates, chunks: list[str]) -> dict[str, Any]:
    """The best window of each hit's memory around its chunk, and where it is in the memory's text."""
    index = question.index
    memories = take_rows(index.memories["text"], index.rows.memory[hits.row]).to_pylist()
    places, littered = list[tuple[int, int]](), index.rows.littered
    is_littered = np.zeros(len(hits.row), bool) if littered is None else littered[hits.row]
    for query, chunk, memory, has_litter in zip(hits.query.tolist(), chunks, memories, is_littered, strict=True):
        text = memory or ""
        start = max(0, text.find(chunk))
        end = start + len(chunk)
        hidden = _boilerplate_around(text, start, end, index.settings.boilerplate) if has_litter else []
        places.append(window(text, question.queries.texts[query], SNIPPET, start, end, hidden))
    snippets = [(memory or "")[start:end] for memory, (start, end) in zip(memories, places, strict=True)]
    starts, ends = (pa.array([place[side] for place in places], pa.int64()) for side in (0, 1))
    return {"snippet": pa.array(snippets, pa.string()), "snippet_start": starts, "snippet_end": ends}


def _boilerplate_around(text: str, start: int, end: int, patterns: Sequence[str]) -> list[tuple[int, int]]:
    """Where boilerplate is in a chunk of `text` and as far around it as a snippet reaches."""
    first = max(0, start - SNIPPET)
    return [(first + a, first + b) for a, b in boilerplate.spans(text[first : end + SNIPPET], patterns)]


def _note(question: Question, ranked: Ranked, *more: str) -> str:
    """What an arm, `more` and the steps say of a question; the step that acts last, whose result one sees, first."""
    acting = question.settings.acting()
    of_steps = [step.note(question, ranked) for step in reversed(STEPS.telling["note"]) if step in acting]
    idle = idle_notes(question.settings, question.index)
    return " ".join(filter(None, (question.note, *more, *of_steps, *idle, question.index.waiting_note())))


def retold(hits: pa.Table, index: Searchable, remedy: str) -> pa.Table:
    """Hits whose note says otherwise what lets meaning count; without a `remedy` it says nothing of that."""
    metadata, told = dict(hits.schema.metadata or {}), index.waiting_note()
    if not told:
        return hits
    other = index.waiting_note(remedy) if remedy else ""
    note = metadata.get(b"note", b"").replace(told.encode(), other.encode()).strip()
    return hits.replace_schema_metadata({**metadata, b"note": note})


def idle_notes(settings: Settings, index: Searchable, names: Iterable[str] | None = None) -> list[str]:
    """A sentence on each parameter that somebody gave and that acts on nothing in `index`; see `Estimator.idle`.

    There are none for buckets (shards), as only those that are needed are opened.
    """
    if not getattr(index, "is_whole", False):
        return []
    return list(dict.fromkeys(f"{text}." for text in settings.idle(index, names).values()))


def joined(tables: Sequence[pa.Table], ids: Sequence[str]) -> pa.Table:
    """Concatenate the hits or traces of queries with different days, in the order of `ids`, and merge their metadata.

    The metadata has no ``as_of`` then: it differs by query.
    """
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    place = pc.index_in(table["query_id"], value_set=pa.array(ids, pa.string()))
    metadata: dict[str, Any] = {}
    for part in tables:
        for key, value in (part.schema.metadata or {}).items():
            metadata[key.decode()] = _joined_values(metadata.get(key.decode()), value.decode())
    metadata.pop("as_of", None)
    return table.take(pa.array(np.argsort(place.to_numpy(), kind="stable"))).replace_schema_metadata(metadata)


def _joined_values(first: str | None, second: str) -> str:
    """Join two values of one key of the metadata: sentences are concatenated, mappings merged."""
    if first in (None, second):
        return second
    if not second.startswith("{"):
        return f"{first} {second}"
    return json.dumps(_merged(json.loads(first or "{}"), json.loads(second)), ensure_ascii=False, sort_keys=True)


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {name: _merged(first[name], second[name]) for name in first if isinstance(second.get(name), dict)}
    return {**first, **second, **both}


def _answerability(question: Question, ranked: Ranked) -> dict[str, float] | None:
    """By query; None if it cannot be said, as of a query that is a memory and no question."""
    likely = None if question.queries.without else answerability(ranked, question.settings, len(question.queries))
    return None if likely is None else dict(zip(question.queries.ids, likely.tolist(), strict=True))


def _collapsed(question: Question, ranked: Ranked, shown: Ranked) -> dict[str, Any]:
    """The memories that are collapsed under each hit: the best of them, and their number."""
    size = question.index.chunks.num_rows + 1
    key, under = ranked.candidates.query * size + ranked.candidates.row, ranked.candidates.query * size + ranked.under
    above: dict[int, int] = dict(zip(key[ranked.under >= 0].tolist(), under[ranked.under >= 0].tolist(), strict=True))
    collapsed: dict[int, list[str]] = {}
    ids, memory = question.index.memories["memory_id"], question.index.rows.memory
    for candidate, better in above.items():  # in the order of ranks; an exact duplicate follows its near-duplicate
        hit = above.get(better, better)
        hit_id, memory_id = (ids[int(memory[number % size])].as_py() for number in (hit, candidate))
        names = collapsed.setdefault(hit, [])
        if memory_id != hit_id and memory_id not in names:
            names.append(memory_id)
    by_hit = [collapsed.get(hit, []) for hit in (shown.candidates.query * size + shown.candidates.row).tolist()]
    return {
        "alike": pa.array([names[:_MOST_ALIKE] for names in by_hit], pa.list_(pa.string())),
        "n_alike": pa.array(list(map(len, by_hit)), pa.int64()),
    }


def trace_table(question: Question, *, outside: bool = True) -> pa.Table:
    """Every candidate as `trace_schema`; with `outside`, those follow that filters and the pool keep out."""
    inside = question.ranked()
    ranked = _with_outside(question, inside) if outside else inside
    candidates = ranked.candidates
    columns: dict[str, Any] = {
        **_of_chunks(question, candidates.row, ("memory_id", "chunk_id")),
        "query_id": _ids(question.queries, candidates.query),
        **{name: _floats(values) for name, values in ranked.columns.items()},
        "score": _floats(ranked.score),
        "rank": pa.array(ranked.rank, mask=ranked.rank == 0),
        "disposition": pa.array(STEPS.dispositions).take(pa.array(ranked.disposition)),
    }
    for column, arm in enumerate(candidates.arms):
        missing = candidates.rank[:, column] == 0
        columns[arm] = _floats(candidates.raw[:, column])
        columns[f"{arm}_rank"] = pa.array(candidates.rank[:, column], mask=missing)
        has_norm = ~missing | (ranked.norm[:, column] > 0)  # calibrated, a cosine below the pool counts as its last
        columns[f"{arm}_norm"] = _floats(np.where(has_norm, ranked.norm[:, column], np.nan))
    table = _table(columns, trace_schema(), len(ranked.rank))
    note, params = _note(question, inside), with_names(question.settings.get_params(deep=False))
    return _described(table, question, note=note, memkit="trace", params=params, shown=_names(question, candidates))


def _with_outside(question: Question, ranked: Ranked) -> Ranked:
    """`ranked`, followed by other candidates: those without filters, up to twice the pool."""
    index, hit = question.index, hit_of(question.settings)
    wide = question.retrieve_among(None, 2 * depth_of(question.settings))
    memory = index.rows.memory
    shown_as = index.rows.hit_of(memory, hit) if hit != "chunk" else np.arange(len(memory))
    best = np.where(wide.rank > 0, wide.rank, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    order = np.lexsort((wide.row, best, wide.query))  # the chunk that an arm ranks best shows its memory
    inside = len(ranked.candidates.row)
    query = np.concatenate([ranked.candidates.query, wide.query[order]])
    shown = shown_as[np.concatenate([ranked.candidates.row, wide.row[order]])]
    _, first = np.unique(query * (len(shown_as) + 1) + shown, return_index=True)
    kept = order[np.sort(first[first >= inside]) - inside]
    both = ranked.followed_by(_unranked(question, wide.take(kept)))
    return both if len(question.queries) == 1 else both.take(np.argsort(both.candidates.query, kind="stable"))


def _unranked(question: Question, candidates: Candidates) -> Ranked:
    outside = unranked(question.pooled(candidates), question.settings, question.weights, OUTSIDE)
    memory = question.index.rows.memory[candidates.row]
    for word, mask in question.scope.reasons():
        outside.disposition[mask[memory]] = STEPS.codes[word]
    return outside


def _described(table: pa.Table, question: Question, **facts: Any) -> pa.Table:
    """`table` with metadata: `facts`, the weights of the arms, the encoder and the moment."""
    index = question.index
    has_vectors = "vector" in question.weights
    encoder = index.fingerprint if has_vectors else None
    uses_defaults = has_vectors and leaves_weights(question.settings) and index.stored is None
    weights = "those of the default encoder: none are stored for this one" if uses_defaults else None
    facts |= revision_of(index.memories)
    moment = question.moment.isoformat()
    facts |= {
        "read_as": question.read_as or None,
        "weights": weights,
        "conversations": None if index.turns is None else index.conversations,
    }
    return describe(table, arms=question.weights, encoder=encoder, **facts, as_of=moment)


_MOST_NAMED = 40


def _counted(question: Question, shown: Ranked) -> dict[str, dict[str, dict[str, float]]]:
    """By query and chunk, the score with which an arm counts a hit that it did not find, on the scale of its others."""
    scores = dict[str, dict[str, dict[str, float]]]()
    if by_places(question.settings):
        return scores
    candidates = shown.candidates
    for hit, column in np.argwhere((candidates.rank == 0) & (shown.norm > 0))[:_MOST_NAMED].tolist():
        query, arm = int(candidates.query[hit]), candidates.arms[column]
        zero, one = candidates.scale[query, column].tolist()
        chunk = question.index.chunks["chunk_id"][int(candidates.row[hit])].as_py()
        score = zero + float(shown.norm[hit, column]) * (one - zero)
        scores.setdefault(question.queries.ids[query], {}).setdefault(chunk, {})[arm] = round(score, 6)
    return scores


def _names(question: Question, candidates: Candidates, most: int = _MOST_NAMED) -> dict[str, Any]:
    """The texts of the first queries and names of the first memories, for a reader without the corpus."""
    index, queries = question.index, question.queries
    memory = dict.fromkeys(index.rows.memory[candidates.row[:most]].tolist())
    if new := [row for row in memory if row not in index.names]:
        index.names |= zip(new, names_of(take_rows(index.named, np.array(new))).items(), strict=True)
    texts = dict(zip(queries.ids[:most], queries.texts[:most], strict=True))
    return {"queries": texts, "memories": dict(index.names[row] for row in memory)}


def _empty_note(question: Question, ranked: Ranked) -> str:
    """Why the queries without a hit have none, a sentence for each reason; empty if each has one."""
    queries, allowed = question.queries, question.scope.allowed
    hits = np.bincount(ranked.candidates.query[ranked.alive], minlength=len(queries))
    candidates = np.bincount(ranked.candidates.query, minlength=len(queries))
    reasons: dict[str, list[str]] = {}
    for query in np.flatnonzero(hits == 0):
        if not question.index.chunks.num_rows:
            why = "the corpus has no memories"
        elif allowed is not None and not allowed.any():
            scope = "" if question.ask.scope is None else "'scope', "
            why = f"no memory passes 'where', {scope}'expired', 'future' and 'kinds_hidden'"
        elif not queries.texts[query].strip():
            why = "the query is empty"
        elif candidates[query]:
            why = none_reaches(question.settings)
        else:
            why = "no arm finds anything; no memory shares a term with the query"
        reasons.setdefault(why, []).append(queries.ids[query])
    return " ".join(f"No hit for {queries_named(ids)}: {why}." for why, ids in reasons.items())


def _of_chunks(question: Question, row: Ints, names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    chunks = take_rows(question.index.chunks.select(list(names)), row)
    return {name: chunks[name] for name in names}


def _ids(queries: Queries, query: Ints) -> pa.Array:
    ids = pa.array(queries.ids, pa.string())
    return pa.repeat(ids[0], len(query)) if len(ids) == 1 else ids.take(pa.array(query))


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, from_pandas=True)  # NaN is null


def _table(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """A table with the schema's columns; a missing column is null."""
    filled = [columns[name] if name in columns else pa.nulls(size, schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays([pa.array(c) if isinstance(c, np.ndarray) else c for c in filled], schema=schema)
