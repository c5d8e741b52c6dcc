"""Which columns of which result come first, and how each looks: `VIEWS`, as data.

A result says which one it is by the key ``memkit`` of its schema's metadata; a table of a corpus by its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit.schemas import TABLES


@dataclass(frozen=True)
class Column:
    """How one column looks.

    Attributes
    ----------
    name : str
        Of the table's column; or title, kind, place, date, which a memory's id stands for.
    head : str
        What stands above it; the name unless given.
    look : str
        text, words, memory, place, number, score (of 0 to 1, with a bar), bar (measured by the largest), share (of 0 to
        1), signed, interval (of low and high, with a bar), count, day, flag; empty: what fits the type.
    small : bool
        Joined with the other small ones: in HTML below the lead, in a terminal in one column.
    varies : bool
        Only shown where it holds more than one value.
    usual : object
        Not shown where every row has this value.
    """

    name: str
    head: str = ""
    look: str = ""
    small: bool = False
    varies: bool = False
    usual: object = None


@dataclass(frozen=True)
class View:
    """How one result looks.

    Attributes
    ----------
    word : str
        What a row is.
    columns : tuple of Column
        Those that come first, in order; further ones that memkit does not know of follow.
    lead : str
        The column that is read: in HTML the wide one, in a terminal on a line below the others.
    tally : str
        The column whose values are counted in the heading, `blank` standing for null.
    order : tuple of str and of values
        A column and those of its values that come first; the rest stays as it is.
    knows : tuple of str
        Further columns that are left out unless asked for.
    """

    word: str
    columns: tuple[Column, ...]
    lead: str = ""
    tally: str = ""
    blank: str = "none"
    order: tuple[str, tuple[object, ...]] | None = None
    knows: tuple[str, ...] = ()


_PLACE = (Column("place", "where", "place", small=True), Column("kind", small=True), Column("date", small=True))
_USER = Column("user_id", "user", small=True, varies=True)
_ARMS = (Column("bm25", "words", "bar"), Column("vector", "meaning", "bar"), Column("gram", "letters", "bar"))

VIEWS: dict[str, View] = {
    "hits": View(
        "hit",
        (
            Column("query_id", "query", varies=True),
            Column("rank", "#", "count"),
            Column("score", look="score"),
            *_ARMS,
            Column("decay", look="share", usual=1.0),
            Column("n_alike", "alike", "count", usual=0),
            *_PLACE,
            _USER,
        ),
        lead="text",
        knows=("memory_id", "chunk_id", "path", "line_start", "line_end", "title", "alike"),
    ),
    "trace": View(
        "candidate",
        (
            Column("query_id", "query", varies=True),
            Column("rank", "#", "count"),
            Column("memory_id", "memory", "memory"),
            Column("disposition"),
            Column("score", look="score"),
            *_ARMS,
            Column("prior", look="share", usual=1.0),
            Column("decay", look="share", usual=1.0),
            Column("age_days", "age, days", "number"),
        ),
        tally="disposition",
        knows=(
            *("chunk_id", "fused", "mmr_penalty", "bm25_rank", "bm25_norm", "vector_rank", "vector_norm"),
            *("gram_rank", "gram_norm"),
        ),
    ),
    "edits": View(
        "edit",
        (Column("op"), Column("path", look="place"), Column("policy", varies=True), Column("reason")),
        lead="before",
        tally="op",
        knows=("edit", "to", "memory_id", "at", "sha256", "together", "derived", "of_memories", "after"),
    ),
    "difference": View(
        "difference",
        (
            *(Column("change"), Column("memory_id", "memory", "place")),
            Column("words_removed", "words gone", "words"),
            Column("words_added", "new words", "words"),
            Column("fields", look="words"),
        ),
        lead="after",
        tally="change",
        knows=("memory_id_before", "path", "path_before", "kind", "title", "before"),
    ),
    "versions": View(
        "version",
        (
            *(Column("valid_from", "since", "day"), Column("change"), Column("memory_id_then", "memory", "place")),
            *(Column("lines_added", "+", "count"), Column("lines_removed", "−", "count")),
        ),
        lead="text",
        tally="change",
        knows=("memory_id", "version", "kind", "path", "title", "valid_to", "commit", "at_start"),
    ),
    "commits": View(
        "commit",
        (
            Column("committed_at", "made", "day"),
            Column("author", varies=True),
            *(Column(name, look="count") for name in ("added", "edited", "removed", "alive")),
        ),
        "subject",
        knows=("commit", "parent", "authored_at", "files"),
    ),
    "refused": View(
        "refusal", (Column("path", look="place"), Column("policy", varies=True)), lead="reason", knows=("memory_id",)
    ),
    "applied": View(
        "file", (Column("op"), Column("path", look="place")), tally="op", knows=("sha256_before", "sha256_after")
    ),
    "problems": View(
        "problem",
        (Column("severity"), Column("rule")),
        lead="message",
        tally="severity",
        order=("severity", ("error", "warning", "info")),
        knows=("path", "line", "field", "status", "memory_id"),
    ),
    "memories": View(
        "memory",
        (
            Column("expires_at", "expires", "day", varies=True),
            *_PLACE,
            Column("importance", small=True),
            _USER,
        ),
        lead="text",
        tally="kind",
        knows=tuple(TABLES["memories"].names),
    ),
    "policy": View(
        "memory",
        (
            Column("keep", look="flag"),
            Column("reason"),
            Column("step", varies=True),
            Column("matched_span", "matched"),
            Column("similarity", look="share"),
            Column("duplicate_of", "duplicate of", "memory"),
            Column("factor", look="score"),
            Column("age_days", "age, days", "number"),
            Column("evict_rank", look="count", varies=True),
            Column("expires_at", "expires", "day", varies=True),
            *_PLACE,
            Column("importance", small=True),
            _USER,
        ),
        lead="text",
        tally="reason",
        blank="kept",
        order=("keep", (False,)),
        knows=("cluster", *TABLES["memories"].names),
    ),
    "verdicts": View(
        "group", (Column("kind"), Column("keep", look="flag"), Column("reason"), Column("rows", look="count"))
    ),
    "queries": View(
        "query",
        (Column("name"), Column("question"), Column("needs_as_of", "a day", "flag"), Column("parameters")),
        knows=("sql",),
    ),
    "params": View(
        "parameter",
        (Column("name"), Column("default"), Column("expected"), Column("doc", "meaning"), Column("refit", look="flag")),
        knows=("source",),
    ),
    "rules": View("rule", (Column("code"), Column("severity"), Column("format"), Column("field"), Column("checks"))),
    "replay": View(
        "verdict",
        (
            Column("memory_id", "memory", "memory"),
            Column("as_of", "day", "day", varies=True),
            Column("keep_a", "keep a", "flag"),
            Column("reason_a", "reason a"),
            Column("keep_b", "keep b", "flag"),
            Column("reason_b", "reason b"),
            Column("changed", look="flag"),
        ),
        order=("changed", (True,)),
    ),
    "forecast": View(
        "user and day",
        (
            Column("user_id", "user", varies=True),
            Column("day", "in days", "count"),
            Column("memories", look="bar"),
            Column("kept", look="bar"),
            *(Column(name, name.replace("_", " "), "count") for name in ("expired", "over_quota", "refused", "faded")),
        ),
    ),
    "pairs": View(
        "pair",
        (
            Column("similarity", look="score"),
            Column("kind"),
            Column("a_id", "one", "memory"),
            Column("b_id", "other", "memory"),
            *(
                Column(f"{name}_conflict", f"{name}s differ", "flag", usual=False)
                for name in ("number", "date", "negation")
            ),
            Column("contradiction", "contra-diction", "flag", usual=False),
        ),
        tally="kind",
        knows=("same_user",),
    ),
    "overview": View("finding", (Column("what", ""), Column("count", look="count"), Column("note", ""))),
    "block": View("line", (Column("reason", ""), Column("chars", "characters", "count"), Column("line", "memory"))),
    "kinds": View("kind", (Column("format"), Column("kind"), Column("memories", look="bar"))),
    "evaluate": View(
        "metric",
        (
            Column("metric"),
            Column("value", look="exact"),
            Column("interval", "95 % interval", "interval"),
            Column("judged", look="share"),
            Column("estimate", "mean", varies=True),
            Column("n_units", "units", "count"),
            Column("n_queries", "queries", "count"),
            Column("n_no_relevant", "without an answer", "count", usual=0),
        ),
        knows=("low", "high", "per_query", "per_unit", "unit", "n_with_hits"),
    ),
    "compare": View(
        "metric",
        (
            Column("metric"),
            Column("a", look="exact"),
            Column("b", look="exact"),
            Column("difference", "b − a", "signed"),
            Column("interval", "95 % interval", "interval"),
            Column("p", look="exact"),
            Column("n_queries", "queries", "count"),
            Column("word", "verdict", varies=True),
        ),
        knows=(
            *("low", "high", "reason", "epsilon", "judged_a", "judged_b", "n_to_judge", "estimate", "per_query"),
            *("per_unit", "unit", "n_units", "n_no_relevant", "n_flips", "note", "better", "same", "worse"),
            "detectable",
        ),
    ),
    "sweep": View(
        "setting",
        (
            Column("setting", "#", "count"),
            Column("gain", look="signed"),
            Column("p_adjusted", "p", "exact"),
            Column("near_best", "near the best", "flag"),
            Column("plateau", look="flag"),
        ),
        knows=("n_with_hits", "distance"),
    ),
    "per_query": View(
        "query",
        (
            Column("metric", varies=True),
            Column("difference", "b − a", "signed"),
            Column("a", look="exact"),
            Column("b", look="exact"),
            Column("query_id", "query"),
        ),
        lead="text",
        knows=("unit",),
    ),
    "audit": View(
        "question", (Column("audit"), Column("count", look="count"), Column("of", look="count")), lead="note"
    ),
    "audit_unreached": View(
        "memory",
        (
            Column("memory_id", "memory", "memory"),
            Column("why"),
            Column("rank", "#", "count"),
            Column("by_others", "by others", "count"),
            Column("asked_by", "asked by"),
        ),
        knows=("n_queries", "query"),
    ),
    "audit_hubs": View(
        "memory",
        (
            Column("memory_id", "memory", "memory"),
            Column("n_queries", "queries", "count"),
            Column("share", look="score"),
            Column("times", look="number"),
        ),
        knows=("own",),
    ),
    "audit_unsearchable": View("memory", (Column("memory_id", "memory", "memory"), Column("kind"), Column("why"))),
    "audit_shadowed": View(
        "memory",
        (
            Column("memory_id", "memory", "memory"),
            Column("how"),
            Column("by_id", "by", "memory"),
            Column("differs"),
            Column("newer_days", "newer, days", "number"),
        ),
        knows=("similarity",),
    ),
    "audit_horizon": View(
        "memory",
        (
            Column("memory_id", "memory", "memory"),
            Column("rank", "#", "count"),
            Column("day", "falls on", "day"),
            Column("days", "in days", "count"),
            Column("why"),
        ),
        tally="why",
        knows=("query_id", "score", "decay"),
    ),
    "context": View(
        "candidate",
        (
            Column("block"),
            Column("rank", "#", "count"),
            Column("memory_id", "memory", "memory"),
            Column("chars", "characters", "count"),
            Column("keep", look="flag"),
            Column("reason"),
        ),
        tally="reason",
        blank="kept",
    ),
}
for _name, _lead in (("facts", "text"), ("turns", "text"), ("checklist", "text"), ("wisdom_facts", "content")):
    VIEWS[_name] = View("row", (), lead=_lead, knows=("memory_id", "path", "extra"))
ANY = View("row", ())
_GAIN = (Column("difference", look="signed"), Column("interval", "95 % interval", "interval"))
_BY_COLUMNS = {tuple(TABLES[name].names): view for name, view in VIEWS.items() if name in TABLES} | {
    ("baseline", "value", "difference", "low", "high", "note"): View(
        "baseline", (Column("baseline"), Column("value", look="exact"), *_GAIN, Column("note")), knows=("low", "high")
    ),
    ("group", "n_queries", "default", "candidate", "difference"): View(
        "group",
        (
            Column("group"),
            Column("difference", look="signed"),
            Column("default", look="exact"),
            Column("candidate", look="exact"),
            Column("n_queries", "queries", "count"),
        ),
    ),
    ("query_id", "text", "user_id", "as_of", "group", "field", "hidden_field"): View(
        "query", (Column("field"), Column("user_id", "user"), Column("as_of", "day", "day")), lead="text"
    ),
}
"""Tables that say by their columns alone what they are."""


def view_of(names: Sequence[str], label: str = "") -> View:
    """The view of a result with this label, else of the table of a corpus that has these columns, else of any table."""
    whole = VIEWS["memories"] if {*TABLES["memories"].names} <= {*names} else ANY  # as memories joined to a score are
    return VIEWS.get(label) or _BY_COLUMNS.get(tuple(names), whole)
