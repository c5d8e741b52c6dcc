"""The steps of a search, declared: what each adds to a trace, why it drops a memory, and what it says.

The notes of hits, `memkit.explain` with its advice, and the columns of a trace are loops over `STEPS`: they name none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from memkit.display.names import day_of
from memkit.errors import some_of
from memkit.params import until_text
from memkit.schemas import STALE_WEIGHT
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.context import AUTO
from memkit.search.stages.fuse import group_starts
from memkit.text.boilerplate import evidence
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from memkit.search.question import Question
    from memkit.search.stages.ranking import Ranked

_FADED = 0.05
"""The decay factor below which a memory is hardly ever a hit."""
_MOST_READ = 5
"""Most words that a note says are read as others."""


class Look(NamedTuple):
    """A memory in the eyes of a question.

    Attributes
    ----------
    memory : int
        Its row in the index.
    row : dict
        Its row of the trace; empty for a memory that is no candidate.
    """

    question: Question
    memory: int
    row: Mapping[str, Any]

    def value(self, column: str) -> Any:
        """What the table of memories says of it."""
        return self.question.index.memories[column][self.memory].as_py()


@dataclass(frozen=True)
class Step:
    """One step of a search, as it is told.

    Attributes
    ----------
    name : str
    columns : tuple of str
        The numbers that it adds to a trace.
    drops : dict of str to callable
        The dispositions of what it drops, each with ``why(look)``, in words.
    keeps_out : bool
        Whether what it drops is no candidate at all.
    part : callable or None
        ``part(look)`` is its part of the sentence on a score; empty for none.
    changes : bool
        Whether that part changes the fused score.
    beside : callable or None
        ``beside(look)`` is a sentence on a memory besides its score; empty for none.
    note : callable or None
        ``note(question, ranked)`` is a sentence on the hits of a question, or empty.
    off : dict
        The parameters with which it does nothing; empty if it is always there.
    may_help : callable
        ``may_help(look)`` tells whether a memory may become a hit without it.
    """

    name: str
    columns: tuple[str, ...] = ()
    drops: Mapping[str, Callable[[Look], str]] = field(default_factory=dict)
    keeps_out: bool = False
    part: Callable[[Look], str] | None = None
    changes: bool = False
    beside: Callable[[Look], str] | None = None
    note: Callable[[Question, Ranked], str] | None = None
    off: Mapping[str, Any] = field(default_factory=dict)
    may_help: Callable[[Look], bool] = lambda look: True


def _filtered(look: Look) -> str:
    settings, kind = look.question.settings, look.value("kind")
    if kind in settings.kinds_hidden:
        return f"its kind '{kind}' is hidden (kinds_hidden)"
    beyond = look.question.scope.beyond
    if beyond is not None and beyond[look.memory]:
        return f"it applies to {mask(look.value('scope'))}, beyond {mask(str(look.question.ask.scope))} (scope)"
    if settings.expired == "only":
        return "it does not pass the filter (where, or expired='only')"
    return f"it does not pass where ({mask(str(look.question.ask.where))})"


def _unknown_user(question: Question, ranked: Ranked) -> str:
    unknown = question.scope.unknown_user
    return "" if unknown is None else f"User {unknown!r:.80} has no memory: only memories without a user are searched."


def _future(look: Look) -> str:
    created, unseen = look.value("created_at"), look.question.scope.unseen
    until = until_text(unseen.until) if unseen else ""
    day = created.date() if created.date().isoformat() != until[:10] else until_text(created)
    return f"it was created on {day}, after {until}, and the future is hidden"


def _superseded(look: Look) -> str:
    index = look.question.index
    assert index.rows.successor is not None
    successor = index.memories["memory_id"][int(index.rows.successor[look.memory])].as_py()
    return f"{successor!r} supersedes it and is shown in its place (status)"


def _readings(question: Question) -> str:
    """A sentence for each word that is read as another, for the first few."""
    read = dict(pair for words in question.read_as.values() for pair in words.items())
    of_typos = [
        f"No text has {word!r:.80}: it is read as {other!r:.80}." for word, other in list(read.items())[:_MOST_READ]
    ]
    more_typos = [f"So are {len(read) - _MOST_READ} more words as others."] if len(read) > _MOST_READ else []
    return " ".join([*of_typos, *more_typos])


def _unsearched(look: Look) -> str:
    text = look.value("text") or ""
    counted = evidence(pa.array([text]), look.question.index.settings.boilerplate)[0].as_py()
    if len(counted) == len(text):
        return ""
    n_left_out = len(text) - len(counted)
    return (
        f"Of its {len(text):,} characters {n_left_out:,} are boilerplate or targets of links, which are not searched."
    )


def _is_turn(look: Look) -> str:
    """A sentence if the memory is a turn beside others, whose words or meaning count too."""
    index = look.question.index
    lent = index.lent(look.question.weights)
    if not look.row or index.turns is None or not lent:
        return ""
    if not (index.turns.neighbours[index.rows.memory == look.memory] >= 0).any():
        return ""
    arms = " and ".join(lent)
    return f"It also counts by {arms} of the turns around it (context_column, here {index.conversations!r})."


def _turns(question: Question, ranked: Ranked) -> str:
    column, index = question.index.settings.context_column, question.index
    if index.unused_conversations is not None:
        return (
            f"In buckets and engines, turns of a conversation (column {index.unused_conversations!r}) do not count by"
            " the turns around them: fit to lake.whole(), with engine='local', for that."
        )
    if index.turns is not None:
        lend_nothing = [name for name in question.weights if KINDS[name].lends and not index.lent([name])]
        words = " and ".join(KINDS[name].label for name in lend_nothing)
        return (
            f"With lexical={index.settings.lexical!r} turns do not count by {words} of the turns around them."
            if words
            else ""
        )
    if column in (None, AUTO):
        return ""
    return f"The context_column {column!r} is not used: half of the rows are longer than a turn (40 words)."


def _below_pool(look: Look) -> str:
    question, index = look.question, look.question.index
    is_its = index.rows.memory == look.memory
    if not is_its.any():
        return "it is a heading without text, or has no letters beside boilerplate, and there is nothing to search"
    alone, pool = question.retrieve_among(is_its, 1), question.candidates()
    return " and ".join(
        _too_low(arm, alone.raw[:, column], pool.raw[:, column]) for column, arm in enumerate(question.weights)
    )


def _too_low(arm: str, scores: np.ndarray, pool: np.ndarray) -> str:
    if not np.isfinite(scores).any():
        return KINDS[arm].nothing
    count = int(np.isfinite(pool).sum())
    return f"{KINDS[arm].label} score {np.nanmax(scores):.3g} (the last of the best {count} has {np.nanmin(pool):.3g})"


def _arms(look: Look) -> str:
    return "; ".join(_arm(look, arm, weight) for arm, weight in look.question.weights.items())


def _arm(look: Look, arm: str, weight: float) -> str:
    row, settings, label = look.row, look.question.settings, KINDS[arm].label
    norm = row[f"{arm}_norm"]
    if row[arm] is None:
        if not norm or settings.fusion == "rrf":  # of which ranks alone count
            return f"not among the best {settings.pool} by {label}"
        how = "but matched across alphabets with" if arm == "bm25" else "and counts as the last of them, normalised"
        return f"not among the best {settings.pool} by {label}, {how} {norm:.2f}, weight {weight:.2f}"
    normalised = f"normalised {norm:.2f}, " if settings.fusion != "rrf" else ""
    return f"{label} score {row[arm]:.3g} (rank {row[f'{arm}_rank']}, {normalised}weight {weight:.2f})"


def _of_kind(look: Look) -> str:
    rows = look.question.index.rows
    weight = rows.prior(np.array([look.memory]), look.question.settings.kind_weights)[0]
    return f"times {weight:.2f} for its kind" if weight < 1 else ""


def _is_stale(look: Look) -> str:
    if not look.question.index.rows.stale(np.array([look.memory]), look.question.stale_by)[0]:
        return ""
    return f"times {STALE_WEIGHT:.2f} as it is stale since {day_of(look.value('stale_at'))} (status)"


def _stale_hits(question: Question, ranked: Ranked) -> str:
    index, hits = question.index, ranked.returned().candidates
    memory = index.rows.memory[hits.row]
    stale = list(dict.fromkeys(memory[index.rows.stale(memory, question.stale_by)].tolist()))
    if not stale:
        return ""
    first = stale[0]
    named, since = index.memories["memory_id"][first].as_py(), day_of(index.memories["stale_at"][first].as_py())
    subject = f"One hit is stale, {named!r}," if len(stale) == 1 else f"{len(stale)} hits are stale, such as {named!r}"
    return (
        f"{subject} since {since}: its author wanted it checked again by then, so its score is multiplied by"
        f" {STALE_WEIGHT:g} (status='keep' turns this off)."
    )


def _aged(look: Look) -> str:
    if look.row["decay"] >= 1:
        return ""
    age = f"{look.row['age_days']:.0f} day{'' if round(look.row['age_days']) == 1 else 's'}"
    return f"times decay {look.row['decay']:.2f} after {age}"


def _faded(question: Question, ranked: Ranked) -> str:
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
    names = question.queries.ids
    whose = f" of {queries_named([names[query] for query in faded])}" if len(names) > 1 else ""
    return (
        f"Half of the candidates{whose} have a decay factor"
        f" below {_FADED:g}, so that age decides their rank: set a longer decay_days, a decay_floor, or decay='none'."
    )


def _lifted(look: Look) -> str:
    lift = look.row["lift"]
    return f"plus {lift:.3f}, as it is newer than a similar memory (prefer)" if lift else ""


def _diversified(look: Look) -> str:
    row, question = look.row, look.question
    return (
        f"but MMR (mmr_lambda {question.settings.mmr_lambda:g}) subtracts {row['mmr_penalty']:.3f} because it is"
        f" similar to better hits: rank {row['rank']}, and k is {question.k}"
    )


def _better(look: Look) -> str:
    """The memory under which it is collapsed."""
    question = look.question
    ranked, memory = question.ranked(), question.index.rows.memory
    is_this = (memory[ranked.candidates.row] == look.memory) & (ranked.under >= 0)
    better = question.index.memories["memory_id"][int(memory[ranked.under[is_this][0]])].as_py()
    return f"'{better}', which ranks above it"


def queries_named(ids: list[str]) -> str:
    """Some queries by their ids, in words."""
    return f"{'query' if len(ids) == 1 else 'queries'} {some_of([*map(repr, ids)])}"


STEPS = (
    Step("where", drops={"filtered": _filtered}, keeps_out=True),
    Step("user", note=_unknown_user),
    Step(
        "expiry",
        drops={
            "expired": lambda look: (
                f"it expired on {day_of(look.value('expires_at'))}, before"
                f" {until_text(look.question.ask.moment.last_visible)}, and expired memories are hidden"
            )
        },
        keeps_out=True,
    ),
    Step(
        "moment",
        drops={"future": _future},
        keeps_out=True,
        note=lambda question, ranked: str(question.scope.unseen or ""),
    ),
    Step(
        "status",
        drops={
            "deprecated": lambda look: (
                "its author says that it is deprecated, and deprecated memories are hidden (status)"
            ),
            "superseded": _superseded,
        },
        keeps_out=True,
    ),
    Step(
        "near words",
        beside=lambda look: _readings(look.question),
        note=lambda question, ranked: _readings(question),
    ),
    Step("boilerplate", beside=_unsearched),
    Step("turns", beside=_is_turn, note=_turns),
    Step("pool", drops={"below_pool": _below_pool}, keeps_out=True, part=_arms),
    Step("fuse", columns=("fused",), part=lambda look: f"fused score {look.row['fused']:.3f}"),
    Step(
        "rerank",
        columns=("reranked",),
        part=lambda look: "" if look.row["reranked"] is None else f"after reranking {look.row['reranked']:.3f}",
        note=lambda question, ranked: " ".join(question.unreached),
        off={"rerank": None},
        may_help=lambda look: look.row["reranked"] is not None,
    ),
    Step("kind", columns=("prior",), part=_of_kind, changes=True),
    Step("stale", part=_is_stale, changes=True, note=_stale_hits),
    Step(
        "decay",
        columns=("age_days", "decay"),
        drops={"decayed_out": lambda look: f"below min_score {look.question.settings.min_score:g}, because of decay"},
        part=_aged,
        changes=True,
        note=_faded,
        off={"decay": "none"},
        may_help=lambda look: look.row["decay"] < 1,
    ),
    Step(
        "prefer",
        columns=("lift",),
        part=_lifted,
        changes=True,
        off={"prefer": None},
        may_help=lambda look: bool(look.question.settings.prefer),
    ),
    Step(
        "min_score",
        drops={"below_min_score": lambda look: f"below min_score {look.question.settings.min_score:g}"},
        off={"min_score": 0.0},
        may_help=lambda look: look.question.settings.min_score > 0,
    ),
    Step("exact", drops={"duplicate": lambda look: f"but it is an exact duplicate of {_better(look)}"}),
    Step(
        "near",
        drops={"folded": lambda look: f"but it is a near-duplicate of {_better(look)} (fold)"},
        off={"fold": "none"},
        may_help=lambda look: look.row["disposition"] == "folded",
    ),
    Step(
        "mmr",
        columns=("mmr_penalty",),
        drops={"diversified_away": _diversified},
        off={"mmr_lambda": 1.0},
        may_help=lambda look: look.question.settings.mmr_lambda < 1,
    ),
    Step("cut", drops={"below_k": lambda look: f"rank {look.row['rank']}, and k is {look.question.k}"}),
)
"""The steps, in the order in which they act."""

DROPS = {word: why for step in STEPS for word, why in step.drops.items()}
"""By disposition, why a memory is no hit, in words; all but returned."""
