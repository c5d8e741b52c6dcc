"""What is shown of a question: its hits, the trace of all candidates, and in words why a memory is a hit or not.

All are loops over the declared steps, and know none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_unicode
from memkit.base.params import AsOf, check_column, check_fitted, describe, revision_of
from memkit.display.sheet import likelihood
from memkit.display.views import names_of
from memkit.errors import ParameterError, QueryError, count_of, did_you_mean
from memkit.schemas import WORDS, Floats, Ints, result_schema, tuples_of
from memkit.search.alike import keep
from memkit.search.ask import STEPS, Queries, Settings
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex, Searchable
from memkit.search.question import MOST_NAMED, Question, unranked
from memkit.search.state import Candidates, Ranked
from memkit.search.step import Look, queries_named
from memkit.search.steps.collapse import hit_of, none_reaches
from memkit.search.steps.factors import IN_HITS
from memkit.search.steps.fuse import answerability, by_places
from memkit.search.steps.recall import ARMS, OUTSIDE, depth_of, leaves_weights
from memkit.search.steps.rerank import with_names
from memkit.search.steps.scope import none_allowed, replaced_in
from memkit.text import boilerplate
from memkit.text.secrets import mask
from memkit.text.sentences import SNIPPET, units_of, window

if TYPE_CHECKING:
    from memkit.search.retriever import Retriever

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
    rows = pc.index_in(table["memory_id"], value_set=memories["memory_id"].combine_chunks())
    for name in added:
        if name not in table.column_names:
            check_column(name, [*memories.column_names, *table.column_names], owner)
            table = table.append_column(memories.schema.field(name), memories[name].take(rows))
    return table


def bare_hits(question: Question) -> tuple[pa.Table, str]:
    """Those columns of `hits_table` that measures use, and why there are no hits: without texts and snippets."""
    ranked = question.ranked(question.ask.k)
    shown = ranked.returned()
    columns = {
        "query_id": _ids(question.queries, shown.candidates.query),
        "rank": pa.array(shown.rank),
        **_of_chunks(question, shown.candidates.row, ("memory_id",)),
        "score": pa.array(shown.score),
        "alike": _collapsed(question, ranked, shown)["alike"],
    }
    return pa.table(columns), "" if len(shown.rank) else _note(question, ranked, _empty_note(question, ranked, shown))


def hits_table(question: Question, added: Sequence[str] = ()) -> pa.Table:
    """The hits as `HITS`, by query and rank, with columns `added`; the metadata says why a query has none."""
    ranked = question.ranked(question.ask.k)
    shown = ranked.returned()
    of_chunks = _of_chunks(question, shown.candidates.row, _CHUNK_COLUMNS)
    columns = {
        **of_chunks,
        "query_id": _ids(question.queries, shown.candidates.query),
        "rank": shown.rank,
        "score": shown.score,
        **{arm: _floats(shown.candidates.raw[:, column]) for column, arm in enumerate(shown.candidates.arms)},
        **{name: shown.columns[name] for name in IN_HITS},
        **_snippets(question, shown.candidates, of_chunks["text"]),
        **_collapsed(question, ranked, shown),
    }
    replaced, above = replaced_in(question.index, question.scope, columns["memory_id"]), dict[str, list[str]]()
    for by, memory_id in tuples_of(replaced, "by", "memory_id") if replaced.num_rows else ():
        above.setdefault(by, []).append(memory_id)
    columns["replaces"] = pa.array([above.get(name, []) for name in columns["memory_id"].to_pylist()], WORDS)
    table = _table(columns, HITS, len(shown.rank))
    table = with_memories(table, question.index.memories, added, "Retriever.search") if added else table
    note = _note(question, ranked, _empty_note(question, ranked, shown))
    # A memory that is the query is no question.
    likely = None if question.queries.without else answerability(ranked, question.settings, len(question.queries))
    by_query = None if likely is None else dict(zip(question.queries.ids, likely.tolist(), strict=True))
    names = _names(question, shown.candidates) | {"counted": _counted(question, shown)}
    names["memories"] |= names_of(replaced.slice(0, _NAMES_KEPT)) if replaced.num_rows else {}
    return _described(table, question, memkit="hits", shown=names, note=note, answerability=by_query)


def _snippets(question: Question, hits: Candidates, chunks: pa.ChunkedArray) -> dict[str, Any]:
    """The best window of each hit's memory around its chunk, and where it is in the memory's text."""
    index, queries = question.index, question.queries.texts
    texts, memories = index.memories["text"], index.rows.memory[hits.row].tolist()
    places, snippets = list[tuple[int, int]](), list[str]()
    for query, row, memory, chunk in zip(hits.query.tolist(), hits.row.tolist(), memories, chunks, strict=True):
        text, units = texts[memory].as_py(), index.units.get(row)
        if units is None:
            units = _units(index, row, chunk.as_py(), text)
            keep(index.units, row, units)
        places.append(window(text, queries[query], SNIPPET, units))
        snippets.append(text[slice(*places[-1])])
    starts, ends = np.array(places, np.int64).reshape(-1, 2).T
    return {"snippet": pa.array(snippets, pa.string()), "snippet_start": starts, "snippet_end": ends}


def _units(index: MemoryIndex, row: int, chunk: str, text: str) -> list[tuple[int, int]]:
    """Where the sentences of a chunk are in its memory's text, without boilerplate."""
    start = max(0, text.find(chunk))
    end, first = start + len(chunk), max(0, start - SNIPPET)
    hidden = []
    if index.rows.littered is not None and index.rows.littered[row]:
        around = boilerplate.spans(text[first : end + SNIPPET], index.settings.boilerplate)
        hidden = [(first + a, first + b) for a, b in around]
    return units_of(text, SNIPPET, start, end, hidden)


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


def idle_notes(settings: Settings, index: Searchable) -> list[str]:
    """A sentence on each parameter that somebody gave and that acts on nothing in `index`; see `Estimator.idle`.

    There are none for buckets (shards), as only those that are needed are opened.
    """
    if not (isinstance(index, MemoryIndex) and index.is_whole):
        return []
    return list(dict.fromkeys(f"{text}." for text in settings.idle(index).values()))


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


def _collapsed(question: Question, ranked: Ranked, shown: Ranked) -> dict[str, Any]:
    """The memories that are collapsed under each hit: the best of them, and their number."""
    size, is_under = question.index.chunks.num_rows + 1, ranked.under >= 0
    query, row = ranked.candidates.query[is_under] * size, ranked.candidates.row[is_under]
    above: dict[int, int] = dict(zip((query + row).tolist(), (query + ranked.under[is_under]).tolist(), strict=True))
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
        "alike": pa.array([names[:MOST_NAMED] for names in by_hit], pa.list_(pa.string())),
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
    others = unranked(question.pooled(wide.take(kept)), question.settings, question.weights, OUTSIDE)
    for word, is_out in question.scope.reasons():
        others.disposition[is_out[memory[others.candidates.row]]] = STEPS.codes[word]
    both = ranked.followed_by(others)
    return both if len(question.queries) == 1 else both.take(np.argsort(both.candidates.query, kind="stable"))


def _described(table: pa.Table, question: Question, **facts: Any) -> pa.Table:
    """`table` with metadata: `facts`, the weights of the arms, the encoder and the moment."""
    index = question.index
    has_vectors = "vector" in question.weights
    encoder = index.fingerprint if has_vectors else None
    uses_defaults = has_vectors and leaves_weights(question.settings) and index.stored is None
    weights = "those of the default encoder: none are stored for this one" if uses_defaults else None
    facts |= revision_of(index.memories)
    facts |= {
        "read_as": question.read_as or None,
        "weights": weights,
        "conversations": None if index.turns is None else index.conversations,
    }
    return describe(table, arms=question.weights, encoder=encoder, **facts, as_of=question.moment)


# A round number: tables and cards show fewer rows.
_NAMES_KEPT = 40


def _counted(question: Question, shown: Ranked) -> dict[str, dict[str, dict[str, float]]]:
    """By query and chunk, the score with which an arm counts a hit that it did not find, on the scale of its others."""
    scores = dict[str, dict[str, dict[str, float]]]()
    if by_places(question.settings):
        return scores
    candidates = shown.candidates
    hits, columns = np.nonzero((candidates.rank == 0) & (shown.norm > 0))
    for hit, column in zip(hits[:_NAMES_KEPT].tolist(), columns[:_NAMES_KEPT].tolist(), strict=True):
        query, arm = int(candidates.query[hit]), candidates.arms[column]
        zero, one = candidates.scale[query, column].tolist()
        chunk = question.index.chunks["chunk_id"][int(candidates.row[hit])].as_py()
        score = zero + float(shown.norm[hit, column]) * (one - zero)
        scores.setdefault(question.queries.ids[query], {}).setdefault(chunk, {})[arm] = round(score, 6)
    return scores


def _names(question: Question, candidates: Candidates, most: int = _NAMES_KEPT) -> dict[str, Any]:
    """The texts of the first queries and names of the first memories, for a reader without the corpus."""
    index, queries = question.index, question.queries
    memory = dict.fromkeys(index.rows.memory[candidates.row[:most]].tolist())
    if new := [row for row in memory if row not in index.names]:
        index.names |= zip(new, names_of(take_rows(index.named, np.array(new))).items(), strict=True)
    texts = dict(zip(queries.ids[:most], queries.texts[:most], strict=True))
    return {"queries": texts, "memories": dict(index.names[row] for row in memory)}


def _empty_note(question: Question, ranked: Ranked, shown: Ranked) -> str:
    """Why the queries without a hit have none, a sentence for each reason; empty if each has one."""
    queries, allowed = question.queries, question.scope.allowed
    hits = np.bincount(shown.candidates.query, minlength=len(queries))
    candidates = np.bincount(ranked.candidates.query, minlength=len(queries))
    reasons: dict[str, list[str]] = {}
    for query in np.flatnonzero(hits == 0):
        if not question.index.chunks.num_rows:
            why = "the corpus has no memories"
        elif allowed is not None and not allowed.any():
            why = none_allowed(question.ask)
        elif not queries.texts[query].strip():
            why = "the query is empty"
        elif candidates[query]:
            why = none_reaches(question.settings)
        else:
            why = "no arm finds anything; no memory shares a term with the query"
        reasons.setdefault(why, []).append(queries.ids[query])
    whose = {why: f" for {queries_named(ids)}" if len(queries) > 1 else "" for why, ids in reasons.items()}
    return " ".join(f"No hit{of_these}: {why}." for why, of_these in whose.items())


def _of_chunks(question: Question, row: Ints, names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    chunks = take_rows(question.index.chunks.select(list(names)), row)
    return {name: chunks[name] for name in names}


def _ids(queries: Queries, query: Ints) -> pa.Array:
    return pa.array([queries.ids[number] for number in query.tolist()], pa.string())


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, from_pandas=True)  # NaN is null


def _table(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """A table with the schema's columns; a missing column is null."""
    filled = [columns[name] if name in columns else pa.nulls(size, schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays([pa.array(c) if isinstance(c, np.ndarray) else c for c in filled], schema=schema)


def explain(
    search: Retriever,
    query: str,
    memory_id: str,
    k: int = 10,
    *,
    where: str | None = None,
    as_of: AsOf = None,
    user_id: str | None = None,
    scope: str | None = None,
) -> str:
    """Say why `search` returns the memory for `query`, or why not.

    Parameters
    ----------
    search : Retriever
        Fitted.
    query : str
        One text.
    memory_id : str
        The id of any memory in the corpus.
    k, where, as_of, user_id, scope
        As for `Retriever.search`.

    Returns
    -------
    str
        The score and rank in each arm (words, meaning, letters), the weights, decay, and the stage that dropped it; the
        settings under which it would be a hit; and whether probably no memory answers the query.

    Raises
    ------
    QueryError
        For an id that the corpus does not hold; the message names similar ids.

    Examples
    --------
    >>> import memkit as mk, pandas as pd
    >>> corpus = mk.from_table(pd.DataFrame({"memory_id": ["a", "b"], "text": ["Пул соединений", "Деплой в пятницу"]}))
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> explain(search, "пулы", "b")
    "'b' is not returned: words score 0 (no term in common) and letters score 0 (no n-gram in common)."
    """
    check_unicode(memory_id)
    check_fitted("explain", search)
    return explained(search.over_all().ask(query, k, where=where, as_of=as_of, user_id=user_id, scope=scope), memory_id)


def explained(question: Question, memory_id: str) -> str:
    """As `explain`, for a question of one text."""
    ids, trace = question.index.memories["memory_id"], trace_table(question)
    memory = pc.index(ids, memory_id).as_py()
    if memory < 0:
        hint = did_you_mean(memory_id, ids.to_pylist())
        expected = f"expected the memory_id of one of {count_of(len(ids), 'memory')}"
        raise QueryError(mask(f"explain: {expected}. Got {memory_id!r}.{hint}"))
    rows = trace.filter(pc.equal(trace["memory_id"], memory_id))
    row = rows.slice(0, 1).to_pylist()[0] if rows.num_rows else {}
    is_candidate = bool(row) and row["disposition"] not in STEPS.kept_out
    look = Look(question, memory, row if is_candidate else {})
    beside = [step.beside(look) for step in reversed(STEPS.telling["beside"])]
    if not is_candidate:
        left_out = next((word for word, mask in reversed(question.scope.reasons()) if mask[memory]), OUTSIDE)
        said = f"'{memory_id}' is not returned: {STEPS.drops[left_out](look)}."
        return " ".join(filter(None, (said, *beside, _doubt(question))))
    is_hit = row["disposition"] == "returned"
    verdict = f"is hit {row['rank']}" if is_hit else "is not returned"
    reason = "" if is_hit else f", {STEPS.drops[row['disposition']](look)}"
    advice = "" if is_hit else _advice(look)
    said = f"'{memory_id}' {verdict}: {_score(look)}{reason}."
    return " ".join(filter(None, (said, *beside, advice, _doubt(question))))


def _score(look: Look) -> str:
    """The scores of the arms, and the way from these to the final score."""
    acting = look.question.settings.acting()
    told = {step: step.part(look) for step in STEPS.telling["part"] if step in acting}
    arms, *parts = filter(None, told.values())
    is_changed = any(step.changes for step, part in told.items() if part)
    return f"{arms}; {', '.join(parts)}" + (f", is {look.row['score']:.3f}" if is_changed else "")


def _advice(look: Look) -> str:
    """The single changes of settings that would make it a hit: each step off in turn."""
    question, ways = look.question, list[str]()
    for step in STEPS:
        if step.off and step.may_help(look) and 0 < _rank(question.with_params(**step.off), look) <= question.ask.k:
            ways += [
                f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"
                for name, value in step.off.items()
            ]
    if look.row["rank"] and look.row["rank"] > question.ask.k:
        ways.append(f"k={look.row['rank']}")
    return f"It would be returned with {' or '.join(ways)}." if ways else ""


def _rank(question: Question, look: Look) -> int:
    ranked, chunks = question.ranked(), question.index.chunks["chunk_id"]
    ranks = ranked.rank[ranked.candidates.row == pc.index(chunks, look.row["chunk_id"]).as_py()]
    return int(ranks[0]) if ranks.size else 0


def _doubt(question: Question) -> str:
    likely = answerability(question.ranked(), question.settings, 1)
    if likely is None or likelihood(likely[0]) != "low":
        return ""
    return "Probably no memory answers the query: its answerability is low."


def contributions(trace: pa.Table) -> pa.Table:
    """The share of each arm in the score of each hit of a trace: memory_id, bm25, vector, gram, lost.

    The three shares sum to the score; `lost` is what the factors of kind, staleness and decay took off. Where the
    fusion is not a sum, and after reranking, the score is divided in proportion to weight x normalised score.

    Parameters
    ----------
    trace : pa.Table
        From `Retriever.trace`, of one query.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    QueryError
        If the trace is of several queries, or the table is no trace.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["зелёный чай", "кофе"]}))
    >>> contributions(search.trace("чай", as_of="2026-03-01"))["lost"].to_pylist()
    [0.0]
    """
    metadata = trace.schema.metadata or {}
    if b"arms" not in metadata or "disposition" not in trace.column_names:
        raise QueryError("contributions: expected a table from Retriever.trace, with its metadata.")
    if len(ids := pc.unique(trace["query_id"])) > 1:
        raise QueryError(f"contributions: expected the trace of one query. Got {len(ids)}: filter by query_id.")
    hits = trace.filter(pc.equal(trace["disposition"], "returned"))
    weights = json.loads(metadata[b"arms"])
    share = {arm: weights.get(arm, 0.0) * _zeroed(hits[f"{arm}_norm"]) for arm in ARMS}
    total = np.maximum(sum(share.values()), np.finfo(float).tiny)
    score, before = _zeroed(hits["score"]), np.zeros(len(hits))
    for step in STEPS:
        before = _zeroed(pc.coalesce(hits[step.base], pa.array(before))) if step.base else before
        before = before + _zeroed(hits[step.adds]) if step.adds else before
    parts = {arm: score * part / total for arm, part in share.items()}
    return pa.table({"memory_id": hits["memory_id"], **parts, "lost": before - score})


def _zeroed(column: pa.ChunkedArray) -> Floats:
    values: Floats = pc.fill_null(column, 0.0).to_numpy()
    return values
