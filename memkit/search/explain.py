"""`explain`: one sentence on why a memory is a hit or not; `contributions`: the parts of each hit's score, by arm."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.names import day_of
from memkit.display.sheet import likelihood
from memkit.duck import check_unicode
from memkit.errors import QueryError, did_you_mean
from memkit.params import AsOf, check_fitted, until_text
from memkit.schemas import STALE_WEIGHT, Floats
from memkit.search.fitted.arms import KINDS
from memkit.search.question import Question, readings, trace_table
from memkit.search.retriever import Retriever
from memkit.search.stages.ranking import answerability
from memkit.text.boilerplate import evidence
from memkit.text.secrets import mask

_LEFT_OUT = ("below_pool", "filtered", "expired", "future", "deprecated", "superseded")
"""Dispositions of memories that are no candidates."""


def explain(
    search: Retriever,
    query: str,
    memory_id: str,
    k: int = 10,
    where: str | None = None,
    as_of: AsOf = None,
    *,
    user_id: str | None = None,
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
    k, where, as_of, user_id
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
    return explained(search.over_all().ask(query, k, where, as_of, user_id=user_id), memory_id)


def explained(question: Question, memory_id: str) -> str:
    """As `explain`, for a question of one text."""
    ids, trace = question.index.memories["memory_id"], trace_table(question)
    if not pc.any(pc.equal(ids, memory_id)).as_py():
        hint = did_you_mean(memory_id, ids.to_pylist())
        raise QueryError(f"explain: expected the memory_id of one of {len(ids)} memories. Got {memory_id!r}.{hint}")
    rows = trace.filter(pc.equal(trace["memory_id"], memory_id))
    row = rows.slice(0, 1).to_pylist()[0] if rows.num_rows else None
    if row is None or row["disposition"] in _LEFT_OUT:
        beside = _unsearched_note(question, memory_id) + _readings_note(question)
        why = _why_no_candidate(question, memory_id)
        return f"'{memory_id}' is not returned: {why}.{beside}{_answerability_note(question)}"
    verdict = f"is hit {row['rank']}" if row["disposition"] == "returned" else "is not returned"
    reason = _drop_reason(question, row)
    advice = _advice(question, row) if row["disposition"] != "returned" else ""
    score = _score(question, row) + (f", {reason}" if reason else "")
    beside = _turns_note(question, memory_id) + _unsearched_note(question, memory_id) + _readings_note(question)
    return f"'{memory_id}' {verdict}: {score}.{beside}{advice}{_answerability_note(question)}"


def _readings_note(question: Question) -> str:
    sentences = readings(question)
    return f" {sentences}" if sentences else ""


def _unsearched_note(question: Question, memory_id: str) -> str:
    """A sentence if a part of the memory's text is left out of what search compares."""
    index = question.index
    text = index.memories["text"][pc.index(index.memories["memory_id"], memory_id).as_py()].as_py() or ""
    counted = evidence(pa.array([text]), index.settings.boilerplate)[0].as_py()
    if len(counted) == len(text):
        return ""
    n_left_out = len(text) - len(counted)
    return (
        f" Of its {len(text):,} characters {n_left_out:,} are boilerplate or targets of links, which are not searched."
    )


def _turns_note(question: Question, memory_id: str) -> str:
    """A sentence if the memory is a turn beside others, whose words or meaning count too."""
    index = question.index
    memory = pc.index(index.memories["memory_id"], memory_id).as_py()
    lent = index.lent(question.weights)
    if index.turns is None or not lent or not (index.turns.neighbours[index.rows.memory == memory] >= 0).any():
        return ""
    arms = " and ".join(lent)
    return f" It also counts by {arms} of the turns around it (context_column, here {index.conversations!r})."


def _advice(question: Question, row: dict[str, Any]) -> str:
    """The single changes of settings that would make it a hit."""
    changes: dict[str, dict[str, Any]] = {"decay='none'": {"decay": "none"}} if row["decay"] < 1 else {}
    changes |= {"fold='none'": {"fold": "none"}} if row["disposition"] == "folded" else {}
    changes |= {"rerank=None": {"rerank": None}} if row["reranked"] is not None else {}
    changes |= {"prefer=None": {"prefer": None}} if question.settings.prefer else {}
    changes |= {"mmr_lambda=1": {"mmr_lambda": 1.0}} if question.settings.mmr_lambda < 1 else {}
    changes |= {"min_score=0": {"min_score": 0.0}} if question.settings.min_score else {}
    ways = [text for text, values in changes.items() if 0 < _rank(question.with_params(**values), row) <= question.k]
    if row["disposition"] in ("below_k", "diversified_away"):
        ways.append(f"k={row['rank']}")
    return f" It would be returned with {' or '.join(ways)}." if ways else ""


def _rank(question: Question, row: dict[str, Any]) -> int:
    ranked, chunks = question.ranked(), question.index.chunks["chunk_id"]
    ranks = ranked.rank[ranked.candidates.row == pc.index(chunks, row["chunk_id"]).as_py()]
    return int(ranks[0]) if ranks.size else 0


def _answerability_note(question: Question) -> str:
    likely = answerability(question.ranked(), question)
    if likely is None or likelihood(likely[0]) != "low":
        return ""
    return " Probably no memory answers the query: its answerability is low."


def _score(question: Question, row: dict[str, Any]) -> str:
    """The scores of the arms, and the way from these to the final score."""
    arms = "; ".join(_arm_score(question, row, arm, weight) for arm, weight in question.weights.items())
    factors = _priors(question, row)
    if row["decay"] < 1:
        age = f"{row['age_days']:.0f} day{'' if round(row['age_days']) == 1 else 's'}"
        factors.append(f"times decay {row['decay']:.2f} after {age}")
    if row["lift"]:
        factors.append(f"plus {row['lift']:.3f}, as it is newer than a similar memory (prefer)")
    product = f", {', '.join(factors)}, is {row['score']:.3f}" if factors else ""
    again = "" if row["reranked"] is None else f", after reranking {row['reranked']:.3f}"
    return f"{arms}; fused score {row['fused']:.3f}{again}{product}"


def _priors(question: Question, row: dict[str, Any]) -> list[str]:
    """The factors by kind and for being stale, in words."""
    index = question.index
    memory = np.array([pc.index(index.memories["memory_id"], row["memory_id"]).as_py()], np.int64)
    by_kind = index.rows.prior(memory, question.settings.kind_weights)[0]
    words = [f"times {by_kind:.2f} for its kind"] if by_kind < 1 else []
    if index.rows.stale(memory, question.stale_by)[0]:
        since = day_of(index.memories["stale_at"][int(memory[0])].as_py())
        words.append(f"times {STALE_WEIGHT:.2f} as it is stale since {since} (status)")
    return words


def _arm_score(question: Question, row: dict[str, Any], arm: str, weight: float) -> str:
    label, norm = KINDS[arm].label, row[f"{arm}_norm"]
    if row[arm] is None:
        if not norm or question.settings.fusion == "rrf":  # of which ranks alone count
            return f"not among the best {question.settings.pool} by {label}"
        how = "but matched across alphabets with" if arm == "bm25" else "and counts as the last of them, normalised"
        return f"not among the best {question.settings.pool} by {label}, {how} {norm:.2f}, weight {weight:.2f}"
    normalised = f"normalised {norm:.2f}, " if question.settings.fusion != "rrf" else ""
    return f"{label} score {row[arm]:.3g} (rank {row[f'{arm}_rank']}, {normalised}weight {weight:.2f})"


def _drop_reason(question: Question, row: dict[str, Any]) -> str:
    why, settings = row["disposition"], question.settings
    if why == "below_k":
        return f"rank {row['rank']}, and k is {question.k}"
    if why == "below_min_score":
        return f"below min_score {settings.min_score:g}"
    if why == "decayed_out":
        return f"below min_score {settings.min_score:g}, because of decay"
    if why == "diversified_away":
        return (
            f"but MMR (mmr_lambda {settings.mmr_lambda:g}) subtracts {row['mmr_penalty']:.3f} because it is similar to"
            f" better hits: rank {row['rank']}, and k is {question.k}"
        )
    if why not in ("duplicate", "folded"):
        return ""
    better = f"'{_collapsed_under(question, row['memory_id'])}', which ranks above it"
    if why == "duplicate":
        return f"but it is an exact duplicate of {better}"
    return f"but it is a near-duplicate of {better} (fold)"


def _collapsed_under(question: Question, memory_id: str) -> str:
    """The memory under which this one is collapsed."""
    ranked, memory = question.ranked(), question.index.rows.memory
    ids = question.index.memories["memory_id"]
    is_this = memory[ranked.candidates.row] == pc.index(ids, memory_id).as_py()
    return str(ids[int(memory[ranked.under[is_this & (ranked.under >= 0)][0]])].as_py())


def _why_no_candidate(question: Question, memory_id: str) -> str:
    """Why a memory is not a candidate."""
    index = question.index
    memory = pc.index(index.memories["memory_id"], memory_id).as_py()
    reason = next((word for word, mask in reversed(question.scope.reasons()) if mask[memory]), "")
    if reason == "expired":
        end = day_of(index.memories["expires_at"][memory].as_py())
        now = until_text(question.ask.moment.last_visible)
        return f"it expired on {end}, before {now}, and expired memories are hidden"
    if reason == "future":
        created, unseen = index.memories["created_at"][memory].as_py(), question.scope.unseen
        until = until_text(unseen.until) if unseen else ""
        day = created.date() if created.date().isoformat() != until[:10] else until_text(created)
        return f"it was created on {day}, after {until}, and the future is hidden"
    if reason == "deprecated":
        return "its author says that it is deprecated, and deprecated memories are hidden (status)"
    if reason == "superseded" and index.rows.successor is not None:
        successor = index.memories["memory_id"][int(index.rows.successor[memory])].as_py()
        return f"{successor!r} supersedes it and is shown in its place (status)"
    if reason == "filtered":
        return _filter_words(index.memories["kind"][memory].as_py(), question)
    if not (index.rows.memory == memory).any():
        return "it is a heading without text, or has no letters beside boilerplate, and there is nothing to search"
    alone = question.retrieve_among(index.rows.memory == memory, 1)
    pool = question.candidates()
    return " and ".join(
        _too_low(arm, alone.raw[:, column], pool.raw[:, column]) for column, arm in enumerate(question.weights)
    )


def _filter_words(kind: str | None, question: Question) -> str:
    if kind in question.settings.kinds_hidden:
        return f"its kind '{kind}' is hidden (kinds_hidden)"
    if question.settings.expired == "only":
        return "it does not pass the filter (where, or expired='only')"
    return f"it does not pass where ({mask(str(question.ask.where))})"


def _too_low(arm: str, scores: np.ndarray, pool: np.ndarray) -> str:
    if not np.isfinite(scores).any():
        return KINDS[arm].nothing
    count = int(np.isfinite(pool).sum())
    return f"{KINDS[arm].label} score {np.nanmax(scores):.3g} (the last of the best {count} has {np.nanmin(pool):.3g})"


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
    share = {arm: weights.get(arm, 0.0) * _zeroed(hits[f"{arm}_norm"]) for arm in KINDS}
    total = np.maximum(sum(share.values()), np.finfo(float).tiny)
    score, before = _zeroed(hits["score"]), _zeroed(pc.coalesce(hits["reranked"], hits["fused"]))
    parts = {arm: score * part / total for arm, part in share.items()}
    return pa.table({"memory_id": hits["memory_id"], **parts, "lost": before + _zeroed(hits["lift"]) - score})


def _zeroed(column: pa.ChunkedArray) -> Floats:
    values: Floats = pc.fill_null(column, 0.0).to_numpy()
    return values
