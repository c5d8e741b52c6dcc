"""A question as the tables that users see: the hits, and the trace of every candidate."""

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
from memkit.search.fitted.arms import KINDS, taken
from memkit.search.question import Queries, Question
from memkit.search.stages.fuse import group_starts
from memkit.search.stages.rank import CODES, DISPOSITIONS, Candidates, Ranked, answerability

_FADED = 0.05
"""A factor below which a score is as good as gone."""
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
_WORDS = pa.array(DISPOSITIONS)

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
    """The names of columns that hits are to have of their memories; which there are, the index tells.

    Raises
    ------
    ParameterError
    """
    if isinstance(columns, (list, tuple)) and all(isinstance(name, str) for name in columns):
        return tuple(dict.fromkeys(columns))
    raise ParameterError(f"Retriever.search: 'columns' must be a list of names. Got {columns!r:.80}.")


def with_memories(table: pa.Table, memories: pa.Table, added: Sequence[str], owner: str) -> pa.Table:
    """`table`, whose rows are of memories, with columns of these that it has not: the one say on what may be shown.

    Raises
    ------
    ParameterError
        For a name that neither has.
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
    """The hits as `HITS`, by query order, then rank, with columns `added`; the metadata says why a query has none."""
    ranked = replace(question, depth=question.k).ranked()
    shown = ranked.returned()
    columns = {
        **_of_chunks(question, shown.found.row, ("memory_id", "chunk_id", "text", "path", "line_start", "line_end")),
        "query_id": _ids(question.queries, shown.found.query),
        "rank": shown.rank,
        "score": shown.score,
        **{arm: _floats(shown.found.raw[:, column]) for column, arm in enumerate(shown.found.arms)},
        "decay": shown.decay,
        **_alike(question, ranked, shown),
    }
    table = _table(columns, HITS, len(shown.rank))
    table = with_memories(table, question.index.memories, added, "Retriever.search")
    note, likely = _note(question, ranked, _empty_note(question, ranked)), _answerability(question, ranked)
    shown_as = _names(question, shown.found)
    return _described(table, question, memkit="hits", shown=shown_as, note=note, answerability=likely)


def _note(question: Question, ranked: Ranked, *more: str) -> str:
    said = (
        question.note,
        *more,
        _decay_note(question, ranked),
        _future_note(question),
        _context_note(question),
        _user_note(question),
    )
    return " ".join(filter(None, said))


def joined(tables: Sequence[pa.Table], ids: Sequence[str]) -> pa.Table:
    """The hits or traces of queries with different days as one, in the order of `ids`; what each says is said of all.

    The metadata's ``as_of`` is null then: it differs by query.
    """
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    place = pc.index_in(table["query_id"], value_set=pa.array(ids, pa.string()))
    told: dict[str, Any] = {}
    for one in tables:
        for key, value in (one.schema.metadata or {}).items():
            told[key.decode()] = _both(told.get(key.decode()), value.decode())
    told.pop("as_of", None)
    return table.take(pa.array(np.argsort(place.to_numpy(), kind="stable"))).replace_schema_metadata(told)


def _both(first: str | None, second: str) -> str:
    """Two values of one key of the metadata: sentences follow each other, and mappings are one."""
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


def _alike(question: Question, ranked: Ranked, shown: Ranked) -> dict[str, Any]:
    """The memories that each hit stands for besides its own: the best of them, and how many they are."""
    size = question.index.chunks.num_rows + 1
    key, under = ranked.found.query * size + ranked.found.row, ranked.found.query * size + ranked.under
    above: dict[int, int] = dict(zip(key[ranked.under >= 0].tolist(), under[ranked.under >= 0].tolist(), strict=True))
    folded: dict[int, list[str]] = {}
    ids, memory = question.index.memories["memory_id"], question.index.rows.memory
    for one, keeper in above.items():  # in the order of the ranking; what is the same as a folded one folds with it
        own, name = (ids[int(memory[at % size])].as_py() for at in (above.get(keeper, keeper), one))
        names = folded.setdefault(above.get(keeper, keeper), [])
        if name != own and name not in names:
            names.append(name)
    found = [folded.get(at, []) for at in (shown.found.query * size + shown.found.row).tolist()]
    return {
        "alike": pa.array([names[:_MOST_ALIKE] for names in found], pa.list_(pa.string())),
        "n_alike": pa.array(list(map(len, found)), pa.int64()),
    }


def trace_table(question: Question, *, outside: bool = True) -> pa.Table:
    """Every candidate as `TRACE`; `outside`, behind each query's, those that filters and the pool kept out."""
    inside = question.ranked()
    ranked = _with_outside(question, inside) if outside else inside
    found = ranked.found
    columns: dict[str, Any] = {
        **_of_chunks(question, found.row, ("memory_id", "chunk_id")),
        "query_id": _ids(question.queries, found.query),
        "fused": _floats(ranked.fused),
        "prior": _floats(ranked.prior),
        "age_days": _floats(ranked.age_days),
        "decay": ranked.decay,
        "mmr_penalty": _floats(ranked.penalty),
        "score": _floats(ranked.score),
        "rank": pa.array(ranked.rank, mask=ranked.rank == 0),
        "disposition": _WORDS.take(pa.array(ranked.disposition)),
    }
    for column, arm in enumerate(found.arms):
        missing = found.rank[:, column] == 0
        columns[arm] = _floats(found.raw[:, column])
        columns[f"{arm}_rank"] = pa.array(found.rank[:, column], mask=missing)
        counted = ~missing | (ranked.norm[:, column] > 0)  # calibrated, a cosine that was not found counts as the last
        columns[f"{arm}_norm"] = _floats(np.where(counted, ranked.norm[:, column], np.nan))
    table = _table(columns, TRACE, len(ranked.rank))
    note = _note(question, inside)
    facts = {"memkit": "trace", "params": question.settings.get_params(deep=False), "shown": _names(question, found)}
    return _described(table, question, note=note, **facts)


def _with_outside(question: Question, ranked: Ranked) -> Ranked:
    """`ranked`, and what the arms find without filters, to twice the pool, that is not among it."""
    index, unit = question.index, question.settings.unit
    wide = question.found_among(None, 2 * question.settings.pool)
    shown_as = index.rows.memory if unit == "memory" else np.arange(len(index.rows.memory))
    best = np.where(wide.rank > 0, wide.rank, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    order = np.lexsort((wide.row, best, wide.query))  # the chunk that an arm ranks best shows its memory
    inside = len(ranked.found.row)
    query = np.concatenate([ranked.found.query, wide.query[order]])
    shown = shown_as[np.concatenate([ranked.found.row, wide.row[order]])]
    _, first = np.unique(query * (len(shown_as) + 1) + shown, return_index=True)
    kept = order[np.sort(first[first >= inside]) - inside]
    both = ranked.followed_by(_outside(question, wide.take(kept)))
    return both if len(question.queries) == 1 else both.take(np.argsort(both.found.query, kind="stable"))


def _outside(question: Question, found: Candidates) -> Ranked:
    memory = question.index.rows.memory[found.row]
    age_days, factor = question.decay(memory)
    outside = Ranked.unranked(found, "below_pool")
    for word, mask in question.scope.reasons():
        outside.disposition[mask[memory]] = CODES[word]
    return outside._replace(age_days=age_days, decay=factor)


def _described(table: pa.Table, question: Question, **facts: Any) -> pa.Table:
    """`table` with `facts`, the weights of the arms that answered, the encoder behind the vectors and the moment."""
    index, settings = question.index, question.settings
    by_vectors = "vector" in question.weights
    encoder = index.fingerprint if by_vectors else None
    given = (settings.vector_weight, settings.bm25_weight, settings.gram_weight)
    borrowed = by_vectors and None in given and index.stored is None
    weights = "those of the default encoder: none are stored for this one" if borrowed else None
    facts |= revision_of(index.memories)
    moment = question.moment.isoformat()
    return describe(table, arms=question.weights, encoder=encoder, weights=weights, **facts, as_of=moment)


def _names(question: Question, found: Candidates, most: int = 40) -> dict[str, Any]:
    """The texts of the first queries and names of the first memories, for a reader without the corpus."""
    index, queries = question.index, question.queries
    memory = dict.fromkeys(index.rows.memory[found.row[:most]].tolist())
    if new := [row for row in memory if row not in index.called]:
        index.called |= zip(new, names_of(taken(index.named, np.array(new))).items(), strict=True)
    texts = dict(zip(queries.ids[:most], queries.texts[:most], strict=True))
    return {"queries": texts, "memories": dict(index.called[row] for row in memory)}


def _empty_note(question: Question, ranked: Ranked) -> str:
    """Why the queries without a hit have none, a sentence for each reason; empty where each has one."""
    queries, allowed = question.queries, question.scope.allowed
    hits = np.bincount(ranked.found.query[ranked.alive], minlength=len(queries))
    candidates = np.bincount(ranked.found.query, minlength=len(queries))
    reasons: dict[str, list[str]] = {}
    for at in np.flatnonzero(hits == 0):
        if not question.index.chunks.num_rows:
            why = "the corpus holds no memories"
        elif allowed is not None and not allowed.any():
            why = "no memory passes 'where', 'expired', 'future' and 'kinds_hidden'"
        elif not queries.texts[at].strip():
            why = "the query is empty"
        elif candidates[at]:
            why = f"there are candidates, but none reaches min_score {question.settings.min_score:g}"
        else:
            why = "no arm finds anything; no memory shares a term with the query"
        reasons.setdefault(why, []).append(queries.ids[at])
    return " ".join(f"No hit for {_some(ids)}: {why}." for why, ids in reasons.items())


def _decay_note(question: Question, ranked: Ranked) -> str:
    """Which queries' candidates are decided by their age: a median factor below `_FADED`; empty where none are."""
    query, factor = ranked.found.query, ranked.decay
    if not (factor < _FADED).any():
        return ""
    order = np.lexsort((factor, query))
    starts = group_starts(query)
    middle = starts + (np.diff(starts, append=len(query)) - 1) // 2
    faded = query[starts[factor[order[middle]] < _FADED]]
    if not faded.size:
        return ""
    return (
        f"Decay leaves half of the candidates of {_some([question.queries.ids[at] for at in faded])} a factor below"
        f" {_FADED:g}, so that age decides: a longer decay_days, a decay_floor, or decay='none' brings them back."
    )


def _context_note(question: Question) -> str:
    column, index = question.index.settings.context_column, question.index
    if column is None or index.context is not None:
        return ""
    return f"The context_column {column!r} is not used: half of the rows are longer than a turn, 40 words."


def _user_note(question: Question) -> str:
    """That no memory is of the user who asks."""
    unknown = question.scope.unknown_user
    return "" if unknown is None else f"No memory is of user {unknown!r:.80}: what is seen is of nobody."


def _future_note(question: Question) -> str:
    """What is later than the moment that is asked about, where anything is."""
    return str(question.scope.unseen or "")


def _some(ids: list[str], most: int = 5) -> str:
    rest = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ("query " if len(ids) == 1 else "queries ") + ", ".join(map(repr, ids[:most])) + rest


def _of_chunks(question: Question, row: Ints, names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    found = taken(question.index.chunks.select(list(names)), row)
    return {name: found[name] for name in names}


def _ids(queries: Queries, query: Ints) -> pa.Array:
    ids = pa.array(queries.ids, pa.string())
    return pa.repeat(ids[0], len(query)) if len(ids) == 1 else ids.take(pa.array(query))


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, from_pandas=True)  # NaN is null


def _table(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """Columns in the schema's order; one that no arm filled is null."""
    filled = [columns[name] if name in columns else pa.nulls(size, schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays([pa.array(c) if isinstance(c, np.ndarray) else c for c in filled], schema=schema)
