"""The tables that users see of a question: the hits, and the trace of every candidate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.names import names_of
from memkit.errors import ParameterError
from memkit.params import check_column, describe, revision_of
from memkit.schemas import Floats, Ints
from memkit.search.fitted.arms import KINDS, take_rows
from memkit.search.question import Queries, Question
from memkit.search.stages.fuse import group_starts
from memkit.search.stages.rank import CODES, DISPOSITIONS, Candidates, Ranked, answerability

_FADED = 0.05
"""The decay factor below which a memory is hardly ever a hit."""
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()

HITS = pa.schema(
    [
        ("query_id", _TEXT),
        ("rank", _COUNT),
        ("memory_id", _TEXT),
        ("chunk_id", _TEXT),
        ("score", _NUMBER),
        *((arm, _NUMBER) for arm in KINDS),
        ("decay", _NUMBER),
        ("text", _TEXT),
        ("path", _TEXT),
        ("line_start", _COUNT),
        ("line_end", _COUNT),
        ("alike", pa.list_(_TEXT)),
        ("n_alike", _COUNT),
    ]
)
_MOST_ALIKE = 20
_CHUNK_COLUMNS = ("memory_id", "chunk_id", "text", "path", "line_start", "line_end")
_DISPOSITIONS = pa.array(DISPOSITIONS)

TRACE = pa.schema(
    [
        ("query_id", _TEXT),
        ("memory_id", _TEXT),
        ("chunk_id", _TEXT),
        *(column for arm in KINDS for column in ((arm, _NUMBER), (f"{arm}_rank", _COUNT), (f"{arm}_norm", _NUMBER))),
        ("fused", _NUMBER),
        ("prior", _NUMBER),
        ("age_days", _NUMBER),
        ("decay", _NUMBER),
        ("mmr_penalty", _NUMBER),
        ("score", _NUMBER),
        ("rank", _COUNT),
        ("disposition", _TEXT),
    ]
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


def hits_table(question: Question, added: Sequence[str] = ()) -> pa.Table:
    """The hits as `HITS`, by query and rank, with columns `added`; the metadata says why a query has none."""
    ranked = replace(question, depth=question.k).ranked()
    shown = ranked.returned()
    columns = {
        **_of_chunks(
            question, shown.candidates.row, ("memory_id", "chunk_id", "text", "path", "line_start", "line_end")
        ),
        "query_id": _ids(question.queries, shown.candidates.query),
        "rank": shown.rank,
        "score": shown.score,
        **{arm: _floats(shown.candidates.raw[:, column]) for column, arm in enumerate(shown.candidates.arms)},
        "decay": shown.decay,
        **_collapsed(question, ranked, shown),
    }
    table = _table(columns, HITS, len(shown.rank))
    table = with_memories(table, question.index.memories, added, "Retriever.search")
    note, likely = _note(question, ranked, _empty_note(question, ranked)), _answerability(question, ranked)
    names = _names(question, shown.candidates)
    return _described(table, question, memkit="hits", shown=names, note=note, answerability=likely)


def _note(question: Question, ranked: Ranked, *more: str) -> str:
    sentences = (
        question.note,
        *more,
        _decay_note(question, ranked),
        _future_note(question),
        _context_note(question),
        _user_note(question),
    )
    return " ".join(filter(None, sentences))


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
            metadata[key.decode()] = _both(metadata.get(key.decode()), value.decode())
    metadata.pop("as_of", None)
    return table.take(pa.array(np.argsort(place.to_numpy(), kind="stable"))).replace_schema_metadata(metadata)


def _both(first: str | None, second: str) -> str:
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
    likely = answerability(ranked, question)
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
    """Every candidate as `TRACE`; with `outside`, those follow that filters and the pool keep out."""
    inside = question.ranked()
    ranked = _with_outside(question, inside) if outside else inside
    candidates = ranked.candidates
    columns: dict[str, Any] = {
        **_of_chunks(question, candidates.row, ("memory_id", "chunk_id")),
        "query_id": _ids(question.queries, candidates.query),
        "fused": _floats(ranked.fused),
        "prior": _floats(ranked.prior),
        "age_days": _floats(ranked.age_days),
        "decay": ranked.decay,
        "mmr_penalty": _floats(ranked.penalty),
        "score": _floats(ranked.score),
        "rank": pa.array(ranked.rank, mask=ranked.rank == 0),
        "disposition": _DISPOSITIONS.take(pa.array(ranked.disposition)),
    }
    for column, arm in enumerate(candidates.arms):
        missing = candidates.rank[:, column] == 0
        columns[arm] = _floats(candidates.raw[:, column])
        columns[f"{arm}_rank"] = pa.array(candidates.rank[:, column], mask=missing)
        has_norm = ~missing | (ranked.norm[:, column] > 0)  # calibrated, a cosine below the pool counts as its last
        columns[f"{arm}_norm"] = _floats(np.where(has_norm, ranked.norm[:, column], np.nan))
    table = _table(columns, TRACE, len(ranked.rank))
    note, params = _note(question, inside), question.settings.get_params(deep=False)
    return _described(table, question, note=note, memkit="trace", params=params, shown=_names(question, candidates))


def _with_outside(question: Question, ranked: Ranked) -> Ranked:
    """`ranked`, followed by other candidates: those without filters, up to twice the pool."""
    index, unit = question.index, question.settings.unit
    wide = question.retrieve_among(None, 2 * question.settings.pool)
    shown_as = index.rows.memory if unit == "memory" else np.arange(len(index.rows.memory))
    best = np.where(wide.rank > 0, wide.rank, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    order = np.lexsort((wide.row, best, wide.query))  # the chunk that an arm ranks best shows its memory
    inside = len(ranked.candidates.row)
    query = np.concatenate([ranked.candidates.query, wide.query[order]])
    shown = shown_as[np.concatenate([ranked.candidates.row, wide.row[order]])]
    _, first = np.unique(query * (len(shown_as) + 1) + shown, return_index=True)
    kept = order[np.sort(first[first >= inside]) - inside]
    both = ranked.followed_by(_outside(question, wide.take(kept)))
    return both if len(question.queries) == 1 else both.take(np.argsort(both.candidates.query, kind="stable"))


def _outside(question: Question, candidates: Candidates) -> Ranked:
    memory = question.index.rows.memory[candidates.row]
    age_days, factor = question.decay(memory)
    outside = Ranked.unranked(candidates, "below_pool")
    for word, mask in question.scope.reasons():
        outside.disposition[mask[memory]] = CODES[word]
    return outside._replace(age_days=age_days, decay=factor)


def _described(table: pa.Table, question: Question, **facts: Any) -> pa.Table:
    """`table` with metadata: `facts`, the weights of the arms, the encoder and the moment."""
    index, settings = question.index, question.settings
    has_vectors = "vector" in question.weights
    encoder = index.fingerprint if has_vectors else None
    requested = (settings.vector_weight, settings.bm25_weight, settings.gram_weight)
    uses_defaults = has_vectors and None in requested and index.stored is None
    weights = "those of the default encoder: none are stored for this one" if uses_defaults else None
    facts |= revision_of(index.memories)
    moment = question.moment.isoformat()
    return describe(table, arms=question.weights, encoder=encoder, weights=weights, **facts, as_of=moment)


def _names(question: Question, candidates: Candidates, most: int = 40) -> dict[str, Any]:
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
            why = "no memory passes 'where', 'expired', 'future' and 'kinds_hidden'"
        elif not queries.texts[query].strip():
            why = "the query is empty"
        elif candidates[query]:
            why = f"there are candidates, but none reaches min_score {question.settings.min_score:g}"
        else:
            why = "no arm finds anything; no memory shares a term with the query"
        reasons.setdefault(why, []).append(queries.ids[query])
    return " ".join(f"No hit for {_listed(ids)}: {why}." for why, ids in reasons.items())


def _decay_note(question: Question, ranked: Ranked) -> str:
    """A sentence on the queries whose candidates have a median decay factor below `_FADED`; empty if there are none."""
    query, factor = ranked.candidates.query, ranked.decay
    if not (factor < _FADED).any():
        return ""
    order = np.lexsort((factor, query))
    starts = group_starts(query)
    middle = starts + (np.diff(starts, append=len(query)) - 1) // 2
    faded = query[starts[factor[order[middle]] < _FADED]]
    if not faded.size:
        return ""
    return (
        f"Half of the candidates of {_listed([question.queries.ids[query] for query in faded])} have a decay factor"
        f" below {_FADED:g}, so that age decides their rank: set a longer decay_days, a decay_floor, or decay='none'."
    )


def _context_note(question: Question) -> str:
    column, index = question.index.settings.context_column, question.index
    if column is None or index.context is not None:
        return ""
    return f"The context_column {column!r} is not used: half of the rows are longer than a turn, 40 words."


def _user_note(question: Question) -> str:
    """A sentence if no memory is of the user."""
    unknown = question.scope.unknown_user
    return (
        "" if unknown is None else f"No memory is of user {unknown!r:.80}: only memories without a user are searched."
    )


def _future_note(question: Question) -> str:
    """A sentence on the memories newer than the moment of the query, if there are any."""
    return str(question.scope.unseen or "")


def _listed(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ("query " if len(ids) == 1 else "queries ") + ", ".join(map(repr, ids[:most])) + more


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
