"""`explain`: one sentence on why a memory is a hit or not; `contributions`: the parts of each hit's score, by arm."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_unicode
from memkit.base.params import AsOf, check_fitted
from memkit.display.sheet import likelihood
from memkit.errors import QueryError, count_of, did_you_mean
from memkit.schemas import Floats
from memkit.search.question import Question, trace_table
from memkit.search.retriever import Retriever
from memkit.search.settings import STEPS
from memkit.search.step import Look
from memkit.search.steps.fuse import answerability
from memkit.search.steps.recall import ARMS, OUTSIDE
from memkit.text.secrets import mask


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
    >>> search = Retriever(encoder=None).fit(corpus)
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
        return _joined(f"'{memory_id}' is not returned: {STEPS.drops[left_out](look)}.", *beside, _doubt(question))
    is_hit = row["disposition"] == "returned"
    verdict = f"is hit {row['rank']}" if is_hit else "is not returned"
    reason = "" if is_hit else f", {STEPS.drops[row['disposition']](look)}"
    advice = "" if is_hit else _advice(look)
    return _joined(f"'{memory_id}' {verdict}: {_score(look)}{reason}.", *beside, advice, _doubt(question))


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


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
        if step.off and step.may_help(look) and 0 < _rank(question.with_params(**step.off), look) <= question.k:
            ways += [
                f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"
                for name, value in step.off.items()
            ]
    if look.row["rank"] and look.row["rank"] > question.k:
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
