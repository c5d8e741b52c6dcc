"""How each column looks, and which come first in which result: `VIEWS`, as data; and what a memory is called of
which only the id is known: title, place, kind and date, stored in a result so that it needs no corpus.

A result is identified by the key ``memkit`` of its schema's metadata, and a table of a corpus by its columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.schemas import TABLES


@dataclass(frozen=True)
class Column:
    """How one column looks.

    Attributes
    ----------
    name : str
        The table's column; or title, kind, place or date, which are looked up by the memory's id.
    head : str
        The heading; by default the name.
    look : str
        text, words, memory, replaced (memories, after that word), place, number, score (of 0 to 1, with a bar), bar
        (measured by the largest), share (of 0 to 1), signed, interval (of low and high, with a bar), count, day, flag;
        empty: what fits the type.
    small : bool
        Whether it is joined with the other small ones: in HTML below the main text, in a terminal in one column.
    varies : bool
        Whether it is only shown where its values differ.
    usual : object
        The value at which it is left out, where every row has it.
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
        What a row is called.
    columns : tuple of Column
        The columns that come first, in order; columns that memkit does not know follow.
    lead : str
        The main text: in HTML the wide column, in a terminal a line below the others.
    title : str
        The column that stands above a main text where that is no ``title``.
    is_command : bool
        Whether the main text is there to be copied, so that it stays whole and on one line.
    tally : str
        The column whose values are counted in the heading, `blank` standing for null.
    order : tuple of str and of values
        A column, and its values whose rows come first; the other rows keep their order.
    knows : tuple of str
        Further columns that are left out unless asked for.
    """

    word: str
    columns: tuple[Column, ...]
    lead: str = ""
    title: str = ""
    is_command: bool = False
    tally: str = ""
    blank: str = "none"
    order: tuple[str, tuple[object, ...]] | None = None
    knows: tuple[str, ...] = ()


_PLAIN = {
    "score": "score factor share",
    "place": "path",
    "words": "fields",
    "count": "added edited removed alive rows expired refused faded count of",
    "flag": "keep refit changed plateau",
    "share": "similarity judged",
    "bar": "memories kept",
    "exact": "value a b p candidate",
    "signed": "gain",
    "number": "times",
}
"""Columns under their own names, by their look."""
_LOOKS = {
    column.name: column
    for column in (
        *(Column(name, look=look) for look, names in _PLAIN.items() for name in names.split()),
        *(Column(name, varies=True) for name in ("policy", "author", "step")),
        Column("query_id", "query", varies=True),
        Column("rank", "#", "count"),
        Column("bm25", "words", "bar"),
        Column("vector", "meaning", "bar"),
        Column("gram", "letters", "bar"),
        Column("decay", look="share", usual=1.0),
        Column("n_alike", "alike", "count", usual=0),
        Column("replaces", look="replaced", small=True),
        Column("place", "where", "place", small=True),
        Column("date", small=True),
        Column("user_id", "user", small=True, varies=True),
        Column("memory_id", "memory", "memory"),
        Column("prior", look="share", usual=1.0),
        Column("lift", look="signed", usual=0.0),
        Column("age_days", "age, days", "number"),
        Column("words_removed", "words gone", "words"),
        Column("words_added", "new words", "words"),
        Column("valid_from", "since", "day"),
        Column("memory_id_then", "memory", "place"),
        Column("lines_added", "+", "count"),
        Column("lines_removed", "−", "count"),
        Column("committed_at", "made", "day"),
        Column("expires_at", "expires", "day", varies=True),
        Column("importance", small=True),
        Column("matched_span", "matched"),
        Column("duplicate_of", "duplicate of", "memory"),
        Column("evict_rank", look="count", varies=True),
        Column("needs_as_of", "a day", "flag"),
        Column("doc", "meaning"),
        Column("as_of", "day", "day", varies=True),
        Column("keep_a", "keep a", "flag"),
        Column("reason_a", "reason a"),
        Column("keep_b", "keep b", "flag"),
        Column("reason_b", "reason b"),
        Column("day", "in days", "count"),
        Column("over_quota", "over quota", "count"),
        Column("a_id", "one", "memory"),
        Column("b_id", "other", "memory"),
        Column("number_conflict", "numbers differ", "flag", usual=False),
        Column("date_conflict", "dates differ", "flag", usual=False),
        Column("negation_conflict", "negations differ", "flag", usual=False),
        Column("value_conflict", "values differ", "flag", usual=False),
        Column("contradiction", "contradiction", "flag", usual=False),
        Column("chars", "characters", "count"),
        Column("line", "memory"),
        Column("interval", "95 % interval", "interval"),
        Column("estimate", "mean", varies=True),
        Column("n_units", "units", "count"),
        Column("n_queries", "queries", "count"),
        Column("n_no_relevant", "without an answer", "count", usual=0),
        Column("difference", "b − a", "signed"),
        Column("word", "verdict", varies=True),
        Column("setting", "#", "count"),
        Column("p_adjusted", "p", "exact"),
        Column("near_best", "near the best", "flag"),
        Column("by_others", "by others", "count"),
        Column("asked_by", "asked by"),
        Column("by_id", "by", "memory"),
        Column("newer_days", "newer, days", "number"),
        Column("days", "in days", "count"),
    )
}
"""How a column looks, by its name, in whatever result it stands; any other is shown as it is."""
IN_WORDS = {
    "below_k": "below the last hit",
    "below_pool": "beyond the pool of every arm",
    "filtered": "left out by kind, user or where",
    "expired": "expired",
    "future": "created later",
    "below_min_score": "below min_score",
    "decayed_out": "faded by age",
    "diversified_away": "too similar to better hits",
    "duplicate": "exact duplicate of a hit",
    "folded": "near-duplicate of a hit",
    "not_found": "found by no arm",
    "not_high": "not of high importance",
    "limit": "over the limit of the block",
    "shown_above": "shown in a block above",
    "below_cut": "below the cut of the host",
    "on_demand": "read when the agent opens it",
    "link_below_cut": "its link is below the cut",
    "not_indexed": "not linked in MEMORY.md",
    "duplicate_entry": "the same as an entry above",
}
"""Dispositions and reasons in the words of a sentence."""
_OF_MEMORIES = " ".join(TABLES["memories"].names)


def _view(word: str, columns: str, *otherwise: Column, knows: str = "", **more: Any) -> View:
    """The view of these columns; a few may look otherwise here than elsewhere."""
    looks = _LOOKS | {column.name: column for column in otherwise}
    chosen = tuple(looks.get(name, Column(name)) for name in columns.split())
    return View(word, chosen, knows=tuple(knows.split()), **more)


VIEWS: dict[str, View] = {
    "hits": _view(
        "hit",
        "query_id rank score bm25 vector gram decay n_alike place kind date replaces user_id",
        Column("kind", small=True),
        lead="text",
        knows="memory_id chunk_id path line_start line_end title alike snippet snippet_start snippet_end",
    ),
    "trace": _view(
        "candidate",
        "query_id rank memory_id disposition score bm25 vector gram reranked prior decay lift age_days",
        tally="disposition",
        knows="chunk_id fused mmr_penalty bm25_rank bm25_norm vector_rank vector_norm gram_rank gram_norm",
    ),
    "edits": _view(
        "edit",
        "op path policy reason",
        lead="before",
        tally="op",
        knows="edit to memory_id at sha256 together derived after",
    ),
    "difference": _view(
        "difference",
        "change memory_id words_removed words_added fields",
        Column("memory_id", "memory", "place"),
        lead="after",
        tally="change",
        knows="memory_id_before path path_before kind title before stands_in",
    ),
    "versions": _view(
        "version",
        "valid_from change memory_id_then lines_added lines_removed",
        lead="text",
        tally="change",
        knows="memory_id version kind path title valid_to commit at_start",
    ),
    "commits": _view(
        "commit",
        "committed_at author added edited removed alive",
        lead="subject",
        knows="commit parent authored_at files",
    ),
    "refused": _view("refused file", "path policy count", lead="reason", knows="memory_id"),
    "applied": _view("file", "op path", tally="op", knows="sha256_before sha256_after"),
    "problems": _view(
        "problem",
        "severity rule",
        lead="message",
        tally="severity",
        order=("severity", ("error", "warning", "info")),
        knows="path line field status memory_id",
    ),
    "memories": _view(
        "memory",
        "expires_at place kind date importance user_id",
        Column("kind", small=True),
        lead="text",
        tally="kind",
        knows=_OF_MEMORIES,
    ),
    "policy": _view(
        "memory",
        "keep reason step matched_span similarity duplicate_of factor age_days evict_rank expires_at"
        " place kind date importance user_id",
        Column("kind", small=True),
        lead="text",
        tally="reason",
        blank="kept",
        order=("keep", (False,)),
        knows="cluster because " + _OF_MEMORIES,
    ),
    "verdicts": _view("group", "kind keep reason rows"),
    "queries": _view("query", "name question needs_as_of parameters", knows="sql"),
    "params": _view("parameter", "name default expected doc refit", knows="source"),
    "rules": _view("rule", "code severity format field checks"),
    "replay": _view("verdict", "memory_id as_of keep_a reason_a keep_b reason_b changed", order=("changed", (True,))),
    "forecast": _view(
        "user and day",
        "user_id day memories kept expired over_quota refused faded",
        Column("user_id", "user", varies=True),
    ),
    "pairs": _view(
        "pair",
        "similarity kind a_id b_id number_conflict date_conflict negation_conflict value_conflict contradiction owner",
        Column("similarity", look="score"),
        Column("owner", "other owner", usual=None),
        tally="kind",
        knows="same_user",
    ),
    "overview": _view("finding", "what count note"),
    "projects": _view(
        "project",
        "memories loaded_lines lines cut dead_links newest problems transcripts",
        Column("memories", look="count"),
        Column("loaded_lines", "lines seen", "count"),
        Column("lines", "of", "count"),
        Column("cut", "cut at line", "count"),
        Column("dead_links", "dead links", "count", usual=0),
        Column("newest", look="day"),
        lead="project",
        knows="loaded_units units not_indexed",
    ),
    "calls": _view("call", "why", lead="call", is_command=True),
    "digest": _view("line", "what before place date", lead="text", knows="section memory_id path line title"),
    "block": _view("line", "reason chars line"),
    "kinds": _view("kind", "format kind memories"),
    "evaluate": _view(
        "metric",
        "metric value interval judged estimate n_units n_queries n_no_relevant",
        knows="low high per_query per_unit unit n_with_hits",
    ),
    "compare": _view(
        "metric",
        "metric a b difference interval p n_queries word",
        knows="low high reason epsilon judged_a judged_b n_to_judge estimate per_query per_unit unit n_units"
        " n_no_relevant n_flips note better same worse detectable",
    ),
    "agreement": _view("measure", "measure value n_queries", Column("value", look="number")),
    "sweep": _view("setting", "setting", knows="n_with_hits"),
    "tune": _view(
        "setting",
        "rank setting in_use gain p_adjusted near_best plateau",
        Column("setting", look="count"),
        Column("in_use", "in use", "flag"),
        knows="n_with_hits distance per_query per_group",
    ),
    "per_query": _view(
        "query",
        "metric difference a b query_id",
        Column("metric", varies=True),
        Column("query_id", "query"),
        lead="text",
        knows="unit",
    ),
    "audit": _view("question", "audit count of to_do", Column("to_do", "what to do"), lead="note"),
    "audit_unreached": _view(
        "memory",
        "memory_id why rank by_others asked_by",
        Column("rank", look="count"),
        knows="n_queries query",
    ),
    "audit_hubs": _view("memory", "memory_id n_queries share times", knows="own"),
    "audit_unsearchable": _view("memory", "memory_id kind why"),
    "audit_shadowed": _view("memory", "memory_id how by_id differs newer_days", knows="similarity"),
    "audit_contradictions": _view(
        "contradiction",
        "older_value newer_value by_id memory_id newer_days kind",
        Column("older_value", "was"),
        Column("newer_value", "is"),
        Column("newer_text", "the newer says"),
        Column("newer_days", "days later", "number"),
        Column("memory_id", "older", "memory"),
        Column("by_id", "newer", "memory"),
        lead="newer_text",
        tally="kind",
        knows="user_id subject attribute older_at newer_at older_text",
    ),
    "audit_horizon": _view(
        "memory",
        "memory_id rank day days why",
        Column("day", "falls on", "day"),
        tally="why",
        knows="query_id score decay",
    ),
    "audit_outdated": _view("memory", "memory_id why rank n_queries by_id", tally="why"),
    "timeline": _view(
        "memory",
        "date score n_alike status superseded_by",
        Column("date", look="day"),
        Column("superseded_by", "superseded by", "memory"),
        lead="snippet",
        knows="memory_id title",
    ),
    "topics": _view(
        "topic",
        "topic name n sure since until",
        Column("topic", "#", "count"),
        Column("n", "memories", "bar"),
        Column("sure", look="share"),
        Column("since", look="day"),
        Column("until", look="day"),
        title="name",
        lead="text",
        knows="words memory_id share",
    ),
    "assigned": _view("memory", "memory_id name probability", Column("probability", look="share"), knows="topic"),
    "context": _view("candidate", "block rank memory_id chars keep reason", tally="reason", blank="kept"),
}
for _name, _lead in (("facts", "text"), ("turns", "text"), ("checklist", "text"), ("wisdom_facts", "content")):
    VIEWS[_name] = _view("row", "", lead=_lead, knows="memory_id path extra")
ANY = View("row", ())
_BY_COLUMNS = {tuple(TABLES[name].names): view for name, view in VIEWS.items() if name in TABLES}
_BY_COLUMNS |= {
    tuple(names.split()): view
    for names, view in {
        "baseline value difference low high note": _view(
            "baseline", "baseline value difference interval note", Column("difference", look="signed"), knows="low high"
        ),
        "group n_queries default candidate difference": _view(
            "group",
            "group difference default candidate n_queries",
            Column("difference", look="signed"),
            Column("default", look="exact"),
        ),
        "query_id text user_id as_of group field hidden_field": _view(
            "query", "field user_id as_of", Column("user_id", "user"), Column("as_of", "day", "day"), lead="text"
        ),
    }.items()
}
"""Tables that say by their columns alone what they are."""


def view_of(names: Sequence[str], label: str = "") -> View:
    """The view of a result with this label, else of the table of a corpus that has these columns, else of any table."""
    whole = VIEWS["memories"] if {*TABLES["memories"].names} <= {*names} else ANY  # as memories joined to a score are
    return VIEWS.get(label) or _BY_COLUMNS.get(tuple(names), whole)


NAMED = ("memory_id", "title", "text", "path", "line_start", "kind", "created_at", "updated_at")
"""The columns that names of memories are made from."""
# Round numbers: some two lines of a table, and more than nearly any heading has.
SHOWN, _NAME = 160, 400
"""The most characters that a cell shows, and that a stored name has: secrets are found before a name is cut."""


def names_of(memories: pa.Table) -> dict[str, list[str]]:
    """Title, place, kind and date of each memory, by id."""
    columns = dict(zip(memories.column_names, memories.columns, strict=True))
    columns["text"] = pc.utf8_slice_codeunits(columns["text"], 0, _NAME)
    values = [columns[name].to_pylist() if name in columns else [None] * len(memories) for name in NAMED]
    return {memory_id: name_of(fields) for memory_id, *fields in zip(*values, strict=True)}


def names_in(result: pa.Table, memories: pa.Table, *columns: str, most: int = 200) -> dict[str, Any]:
    """`names_of` the memories whose ids are in these columns of a result's first rows, as metadata of the result."""
    first = result.slice(0, most)
    ids = {value for column in columns for value in first[column].to_pylist()}
    if "memory_id" not in memories.column_names or "text" not in memories.column_names:
        return {}
    return {"memories": names_of(memories.filter(pc.is_in(memories["memory_id"], pa.array(ids, pa.string()))))}


def kept_of(shown: str) -> dict[str, dict[Any, Any]]:
    """What is stored in a result for its display; empty where another program wrote something else.

    That is the texts of its queries, the names of its memories, and, by query and chunk, the scores that arms which did
    not find a chunk count it with.
    """
    try:
        stored = json.loads(shown or "{}")
        queries = {str(key): str(text) for key, text in stored.get("queries", {}).items()}
        memories = {str(key): [str(word) for word in words] for key, words in stored.get("memories", {}).items()}
        counted = {
            (str(query), str(chunk), str(arm)): float(score)
            for query, chunks in stored.get("counted", {}).items()
            for chunk, scores in chunks.items()
            for arm, score in scores.items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {"queries": {}, "memories": {}, "counted": {}}
    named = {key: words for key, words in memories.items() if len(words) == 4}
    return {"queries": queries, "memories": named, "counted": counted}


def name_of(values: Iterable[Any]) -> list[str]:
    """Title, place, kind and date of a memory from its `values` of `NAMED`, without the id."""
    title, text, path, line, kind, created_at, updated_at = values
    when = created_at or updated_at
    date = (when if isinstance(when, str) else day_of(when))[:10] if when else ""
    label = title or (text if text and text.isprintable() and "  " not in text else " ".join((text or "").split()))
    return [label[:_NAME].strip(), place_of(path, line), kind or "", date]


def place_of(path: str | None, line: int | None) -> str:
    return f"{path}:{line}" if path and line else path or ""


def day_of(value: datetime | date | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        is_day = value.time() in (time.min, time.max)  # an end of validity is the day's last instant
        return (value.date() if is_day else value.replace(tzinfo=None)).isoformat(*() if is_day else (" ", "minutes"))
    return value.isoformat()
