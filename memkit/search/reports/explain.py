"""One sentence on why a memory came or did not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from memkit.duck import check_unicode
from memkit.errors import QueryError, did_you_mean
from memkit.params import AsOf, said_until
from memkit.search.fitted.arms import KINDS
from memkit.search.question import Question
from memkit.search.reports.tables import trace_table
from memkit.search.retriever import Retriever
from memkit.search.stages.rank import answerability
from memkit.text.secrets import mask

_DOUBTFUL = 0.2


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
    """Why `search` returns the memory for `query`, or why it does not.

    Parameters
    ----------
    search : Retriever
        Fitted.
    query : str
        One text.
    memory_id : str
        Of any memory in the corpus.
    k, where, as_of, user_id
        As for `Retriever.search`.

    Returns
    -------
    str
        Scores and ranks in the arms, their weights, decay, and the cut that decided; what would bring it among the
        hits; and whether probably nothing answers the query.

    Raises
    ------
    QueryError
        For an id that the corpus does not hold, naming those that look like it.

    Examples
    --------
    >>> import memkit as mk, pandas as pd
    >>> corpus = mk.from_table(pd.DataFrame({"memory_id": ["a", "b"], "text": ["Пул соединений", "Деплой в пятницу"]}))
    >>> search = Retriever(encoder=None).fit(corpus)
    >>> explain(search, "пулы", "b")
    "'b' is not returned: lexical score 0 (no term of the query occurs in it) and no letters in common."
    """
    check_unicode(memory_id)
    return explained(search.over_all().ask(query, k, where, as_of, user_id=user_id), memory_id)


def explained(question: Question, memory_id: str) -> str:
    """As `explain`, of one text that was asked already."""
    held, trace = question.index.memories["memory_id"], trace_table(question)
    if not pc.any(pc.equal(held, memory_id)).as_py():
        hint = did_you_mean(memory_id, held.to_pylist())
        raise QueryError(f"explain: expected the memory_id of one of {len(held)} memories. Got {memory_id!r}.{hint}")
    rows = trace.filter(pc.equal(trace["memory_id"], memory_id))
    row = rows.slice(0, 1).to_pylist()[0] if rows.num_rows else None
    if row is None or row["disposition"] in ("below_pool", "filtered", "expired", "future"):
        return f"'{memory_id}' is not returned: {_outside(question, memory_id)}.{_doubt(question)}"
    verdict = f"is hit {row['rank']}" if row["disposition"] == "returned" else "is not returned"
    cut = _cut(question, row)
    advice = _advice(question, row) if row["disposition"] != "returned" else ""
    return f"'{memory_id}' {verdict}: {_made_of(question, row)}{', ' + cut if cut else ''}.{advice}{_doubt(question)}"


def _advice(question: Question, row: dict[str, Any]) -> str:
    """What would bring it among the hits, where one change is known to."""
    changes: dict[str, dict[str, Any]] = {"decay='none'": {"decay": "none"}} if row["decay"] < 1 else {}
    changes |= {"fold='none'": {"fold": "none"}} if row["disposition"] == "folded" else {}
    changes |= {"mmr_lambda=1": {"mmr_lambda": 1.0}} if question.settings.mmr_lambda < 1 else {}
    changes |= {"min_score=0": {"min_score": 0.0}} if question.settings.min_score else {}
    ways = [words for words, values in changes.items() if 0 < _rank(question.but(**values), row) <= question.k]
    if row["disposition"] in ("below_k", "diversified_away"):
        ways.append(f"k={row['rank']}")
    return f" With {' or '.join(ways)} it would be." if ways else ""


def _rank(question: Question, row: dict[str, Any]) -> int:
    ranked, chunks = question.ranked(), question.index.chunks["chunk_id"]
    ranks = ranked.rank[ranked.found.row == pc.index(chunks, row["chunk_id"]).as_py()]
    return int(ranks[0]) if ranks.size else 0


def _doubt(question: Question) -> str:
    likely = answerability(question.ranked(), question)
    if likely is None or likely[0] >= _DOUBTFUL:
        return ""
    return f" Probably nothing here answers the query (answerability {likely[0]:.2f})."


def _made_of(question: Question, row: dict[str, Any]) -> str:
    """The way from the arms to the score."""
    parts = []
    for arm, weight in question.weights.items():
        if row[arm] is None:
            parts.append(f"no {KINDS[arm].score} among the best {question.settings.pool}{_granted(arm, row)}")
            continue
        on_scale = f"{row[f'{arm}_norm']:.2f} on the common scale, " if question.settings.fusion != "rrf" else ""
        parts.append(f"{KINDS[arm].score} {row[arm]:.3g} (rank {row[f'{arm}_rank']}, {on_scale}weight {weight:.2f})")
    words = f"{' and '.join(parts)} fuse{'s' if len(parts) == 1 else ''} to {row['fused']:.3f}"
    if row["prior"] < 1:
        words += f", its kind weighs {row['prior']:.2f}"
    if row["decay"] < 1:
        age = f"{row['age_days']:.0f} day{'' if round(row['age_days']) == 1 else 's'}"
        words += f", decay is {row['decay']:.2f} after {age}, so its score is {row['score']:.3f}"
    return words


def _granted(arm: str, row: dict[str, Any]) -> str:
    granted = row["bm25_norm"] if arm == "bm25" else None
    return f" but {granted:.2f} by what the words mean in other letters" if granted else ""


def _cut(question: Question, row: dict[str, Any]) -> str:
    why, settings = row["disposition"], question.settings
    if why == "below_k":
        return f"which is rank {row['rank']}, and k is {question.k}"
    if why == "below_min_score":
        return f"below min_score {settings.min_score:g}"
    if why == "decayed_out":
        return f"below min_score {settings.min_score:g}, which it would pass without decay"
    if why == "diversified_away":
        return (
            f"but MMR (mmr_lambda {settings.mmr_lambda:g}) takes {row['mmr_penalty']:.3f} off for its likeness to hits"
            f" above, which makes it rank {row['rank']}, and k is {question.k}"
        )
    if why == "duplicate":
        return f"but '{_above(question, row['memory_id'])}' says the same and ranks above"
    if why == "folded":
        return f"but '{_above(question, row['memory_id'])}' says nearly the same and ranks above (fold)"
    return ""


def _above(question: Question, memory_id: str) -> str:
    """The memory that says the same as this one and ranks above."""
    ranked, memory = question.ranked(), question.index.rows.memory
    ids = question.index.memories["memory_id"]
    own = memory[ranked.found.row] == pc.index(ids, memory_id).as_py()
    return str(ids[int(memory[ranked.under[own & (ranked.under >= 0)][0]])].as_py())


def _outside(question: Question, memory_id: str) -> str:
    """Why a memory is not a candidate, from scores of its own."""
    index = question.index
    memory = pc.index(index.memories["memory_id"], memory_id).as_py()
    reason = next((word for word, mask in reversed(question.scope.reasons()) if mask[memory]), "")
    if reason == "expired":
        day = index.memories["expires_at"][memory].as_py().date()
        return f"it expired on {day}, before {question.moment.date()}, and expired memories are hidden"
    if reason == "future":
        made, unseen = index.memories["created_at"][memory].as_py(), question.scope.unseen
        until = said_until(unseen.until) if unseen else ""
        day = made.date() if made.date().isoformat() != until[:10] else said_until(made)
        return f"it was created on {day}, after {until}, and the future is hidden"
    if reason == "filtered":
        return _filter_words(index.memories["kind"][memory].as_py(), question)
    if not (index.rows.memory == memory).any():
        return "it is a heading without text, of which nothing is searched"
    own = question.found_among(index.rows.memory == memory, 1)
    pool = question.candidates()
    return " and ".join(_arm_words(arm, own.raw[:, at], pool.raw[:, at]) for at, arm in enumerate(question.weights))


def _filter_words(kind: str | None, question: Question) -> str:
    if kind in question.settings.kinds_hidden:
        return f"its kind '{kind}' is hidden (kinds_hidden)"
    if question.settings.expired == "only":
        return "it does not pass the filter (where, or expired='only')"
    return f"it does not pass where ({mask(str(question.where))})"


def _arm_words(arm: str, own: np.ndarray, pool: np.ndarray) -> str:
    if not np.isfinite(own).any():
        return KINDS[arm].nothing
    last = np.nanmin(pool)
    count = int(np.isfinite(pool).sum())
    return f"{KINDS[arm].score} {np.nanmax(own):.3g}, while the last of the best {count} has {last:.3g}"
