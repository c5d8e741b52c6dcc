"""`audit`: what search cannot find in a corpus; no labels are needed.

Each memory is asked for by its own subject, keywords, triggers, input, heading or title, which the search does not see
meanwhile (`known_items`), or, where it has none, by its own first words, which is the easiest of questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import bar
from memkit.base.params import AsOf, Moment, check_choice, describe
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.display.views import IN_WORDS, names_in
from memkit.errors import count_of
from memkit.evaluation.findability import (
    LATER,
    MOST_ASKED,
    NEVER,
    AuditQuestions,
    contradictions_of,
    horizon_of,
    hubs_of,
    outdated_of,
    shadowed_of,
    unreached_of,
    unsearchable_of,
)
from memkit.evaluation.metrics import revision_of
from memkit.evaluation.result import Result
from memkit.schemas import APPEND_ONLY
from memkit.search.ask import STEPS
from memkit.search.steps.factors import SLOWER
from memkit.search.steps.scope import OBEYED

# A round bound of ten years.
_DAYS = 3650
_WORDS = {
    "unreached": ("are not found by the queries that ask for them", "Not found by the queries that ask for them"),
    "hubs": ("crowd the hits of other queries", "Crowding the hits of other queries"),
    "unsearchable": ("cannot be found by any query", "Impossible to find by any query"),
    "shadowed": (
        "are shadowed by a duplicate or a newer version",
        "Shadowed by a duplicate or a newer version",
    ),
    "contradictions": ("contradict older ones", "Contradicting an older one"),
    "horizon": ("are found now and will drop out", "Found now, but dropping out later"),
    "outdated": (
        "are found although marked as superseded, deprecated or stale",
        "Found, although marked as superseded, deprecated or stale",
    ),
}
"""The words for each audit in a sentence, and above its table."""
_TO_DO = {
    "unreached": "Give each a heading or keywords in the words that people will ask with, and split long ones.",
    "hubs": "Split these by subject, or shorten them.",
    "unsearchable": "Write a sentence below each heading, or remove it; what search leaves out by kind may stay.",
    "shadowed": "Correct the older of two versions, or mark it as superseded.",
    "contradictions": "Keep the one that is right, and correct the other or mark it as superseded.",
    "horizon": f"Give high importance to what must stay, or {SLOWER}.",
    "outdated": f"Check what is stale and set a new day; {OBEYED} hides the others where a successor may be shown.",
}
"""What a person can do about each."""
_SHOWN = {"unreached": 3}
_WHY = (
    IN_WORDS
    | {word: said for step in STEPS for word, said in step.becomes.items()}
    | {
        "not_found": "sharing nothing with the query",
        "never": "not dropping out",
        "later": "not within ten years",
        "out of the first k": "overtaken by others",
        "no text": "without a text",
        "no word": "without a word",
        "boilerplate": "with what chat programs write alone",
    }
)
_HOW = {"duplicate": "by a duplicate", "part of a longer one": "by a longer one", "newer version": "by a newer version"}
_DIFFERING = {kind: f"in a {kind}" for kind in ("number", "negation", "value", "name")}
_COUNTED = {
    "unreached": ("why", _WHY),
    "unsearchable": ("why", _WHY),
    "shadowed": ("how", _HOW),
    "contradictions": ("kind", _DIFFERING),
    "horizon": ("why", _WHY),
    "outdated": ("why", {}),
}
"""By audit the column whose values are counted, and its values in the words of a sentence."""


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """The result of `audit`.

    Attributes
    ----------
    table : pa.Table
        A row for each audit: audit, count, of (how many were looked at), note, to_do.
    tables : dict of str to pa.Table
        unreached, hubs, unsearchable, shadowed, contradictions, horizon, outdated; `audit` says what each holds.
    """

    table: pa.Table
    tables: Mapping[str, pa.Table]

    def __str__(self) -> str:
        first, *others = self.table.to_pylist()
        head = f"{first['count']:,} of {count_of(first['of'], 'memory')} {_WORDS[first['audit']][0]}"
        if first["audit"] == "unreached":
            n_found = first["of"] - first["count"]
            head = f"{n_found:,} of {count_of(first['of'], 'memory')} are found by the queries that ask for them"
            head += f", {first['count']:,} are not" if first["count"] else ""
        counts = [f"{row['count']:,} {_WORDS[row['audit']][0]}" for row in others if row["count"]]
        return f"{head}. {', '.join(counts)}" if counts else head

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        head, _, others = str(self).partition(". ")
        summaries = {row["audit"]: row for row in self.table.to_pylist()}
        sheets = [
            replace(
                sheet_of(_first(table), min(rows, _SHOWN.get(name, 2)) if rows <= ROWS else rows, show_secrets),
                heading=f"{_WORDS[name][1]}: {summaries[name]['count']:,} of {summaries[name]['of']:,}",
                notes=tuple(text for text in (summaries[name]["note"], summaries[name]["to_do"]) if text),
                total=0,
                hidden_columns=(),
            )
            for name, table in self.tables.items()
        ]
        where = "All rows are in the tables audit_unreached, audit_hubs and so on (--table unreached, hubs …)."
        notes = tuple(note for note in (others, where) if note)
        return (Sheet(heading=head, notes=notes), *(sheet for sheet in sheets if sheet.rows))


def _first(table: pa.Table) -> pa.Table:
    """Of the horizon the rows with a day; of other audits all rows."""
    return table.filter(pc.is_valid(table["day"])) if "day" in table.column_names else table


def audit(
    search: Any,
    queries: Any = None,
    qrels: Any = None,
    *,
    only: str | None = None,
    k: int = 10,
    n: int | None = MOST_ASKED,
    as_of: AsOf = None,
    user_id: str | None = None,
) -> Audit:
    """Find memories that search cannot reach, that crowd the hits of others, contradict or drop out; without labels.

    The tables are also added to the Retriever's own corpus: ``search.corpus_.sql("from audit_unreached")``.

    Parameters
    ----------
    search : Retriever
        Fitted.
    queries, qrels : table, data frame or path, optional
        Your own labels, instead of queries made from the memories; see `memkit.evaluate`.
    only : str, optional
        The name of one audit below; None is all.
    k : int
        How many hits of each query are looked at.
    n : int, optional
        At most how many memories to make queries for, drawn with a fixed seed; None is all.
    as_of : str, date, datetime or None
        When it is asked; None is now.
    user_id : str, optional
        Who asks the queries that have no user of their own, such as those made from memories without a user; see
        `memkit.evaluate`.

    Returns
    -------
    Audit
        ``.table`` with a row for each audit, ``.tables``; as text, one sentence.

    Raises
    ------
    ParameterError
        Where no memory of the corpus has words to make a query from, or only one of `queries` and `qrels` is given.

    Notes
    -----
    unreached
        Memories that none of the queries made for them has among the first k hits: memory_id; asked_by, the fields that
        the queries came from; n_queries, how many there are; why, its best disposition (as in `Retriever.trace`;
        not_found where no arm retrieved it); rank, where it has one; by_others, how many other queries have it among
        the first k; query, one of its own.
    hubs
        Memories among the first k hits of many queries for other memories: of at least a tenth of the queries that may
        see them, and three times as often as by chance. memory_id; n_queries, how many queries for others; share, of
        the queries that may see it; times, the ratio to chance; own, how many queries are for it. The worst come first.
    unsearchable
        Memories that no query can find: memory_id, kind, and why: ``no text`` (blank except for headings), ``no word``
        (signs only, so that only its day and the headings above it can be asked for), ``boilerplate`` (only what chat
        programs write around messages), ``kind not searched`` (`kinds_hidden`).
    shadowed
        Memories of which the same user has a near-duplicate or a newer version: memory_id; by_id, the one that shadows
        it; how: ``duplicate``, ``part of a longer one`` or ``newer version``; similarity; differs, what a newer version
        changes; newer_days. One row for each memory, with its nearest shadow. Texts are compared by letters (character
        n-grams). The memory with the later date shadows the other; without dates, the one with the lower id does. A
        pair that differs in a number, a date or a negation is listed as versions where both have a date; only you can
        tell whether the newer one replaces the older.
    contradictions
        Newer memories that contradict older ones of the same user, newest first: memory_id, the older; by_id, the
        newer; user_id, subject, attribute; kind, ``number``, ``negation``, ``value`` or ``name``; older_value,
        newer_value, older_at, newer_at, newer_days, older_text, newer_text (the two statements, secrets masked). Only
        memories that have a date, are neither expired nor superseded, and give one value to one attribute are compared;
        numbers of times, names, versions and counters are not. About a third of such contradictions are missed, and so
        are all that take knowledge of the world.
    horizon
        The day from which on a memory that is found now is no longer found, if nothing but time passes: query_id,
        memory_id; rank, score and decay now; days and day until it drops out; why: ``out of the first k``, ``below
        min_score``, ``expired``; or, without a day, ``never`` (it does not decay, a floor keeps it, or all others decay
        alike), and ``later`` (not within ten years). Candidates are retrieved once, on the first day; each later day is
        computed from them, rounded and ordered as in ranking, so that a search on that day agrees. What is collapsed on
        the first day stays collapsed, and MMR is left out.
    outdated
        Memories among the first k hits of any query that, by their status, no longer count: memory_id; why:
        ``superseded``, ``deprecated``, or ``stale`` at the moment of a query (never without `as_of`); by_id, its
        successor; the best rank, and in how many queries. With status='obey' those that are superseded or deprecated
        are hits only where their successor may not be shown.

    Examples
    --------
    >>> import memkit as mk
    >>> texts = ["Пул соединений вырос до десяти", "Пул соединений вырос до десяти", "…"]
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b", "c"], "text": texts}))
    >>> audit(search, as_of="2026-03-01").table.select(["audit", "count"]).to_pylist()[2:4]
    [{'audit': 'unsearchable', 'count': 1}, {'audit': 'shadowed', 'count': 1}]
    >>> audit(search, only="shadowed").tables["shadowed"].select(["memory_id", "by_id", "how"]).to_pylist()
    [{'memory_id': 'b', 'by_id': 'a', 'how': 'duplicate'}]
    """
    if only is not None:
        check_choice("only", only, AUDITS, "audit")
    questions = AuditQuestions(search, queries, qrels, k, n, Moment.from_as_of(as_of), user_id)
    # First, as what waits for its vector would count as not found.
    search.encode()
    names = bar("auditing", [only] if only else list(AUDITS), leave=False)
    tables = {name: _add_table(name, AUDITS[name](questions), questions) for name in names}
    rows = [{"audit": name, **_summary(name, table, questions)} for name, table in tables.items()]
    for row in rows:
        row["to_do"] = _to_do(row["audit"], tables[row["audit"]], questions) if row["count"] else ""
    table = describe(pa.Table.from_pylist(rows), memkit="audit", as_of=questions.moment, **revision_of(search))
    return Audit(table, tables)


AUDITS: dict[str, Callable[[AuditQuestions], pa.Table]] = {
    "unreached": unreached_of,
    "hubs": hubs_of,
    "unsearchable": unsearchable_of,
    "shadowed": shadowed_of,
    "contradictions": contradictions_of,
    "horizon": lambda questions: horizon_of(questions.pools.batches, questions.task.labels, questions.k, _DAYS),
    "outdated": outdated_of,
}
"""The audits by name."""


def _add_table(name: str, table: pa.Table, questions: AuditQuestions) -> pa.Table:
    """The table with its metadata, also added to the corpus."""
    search = questions.search
    columns = ["memory_id", *(["by_id"] if "by_id" in table.column_names else [])]
    text_names = names_in(table, search.corpus_.memories, *columns)
    about = {"shown": text_names, "as_of": questions.moment} | revision_of(search)
    described = describe(table, memkit=f"audit_{name}", **about)
    search.corpus_.add_table(f"audit_{name}", described)
    return described


def _summary(name: str, table: pa.Table, questions: AuditQuestions) -> dict[str, Any]:
    memories = questions.search.corpus_.memories.num_rows
    if name == "unreached":
        alone = int(pc.sum(pc.equal(table["by_others"], 0)).as_py() or 0)
        n_asked_for = questions.pairs["memory_id"].nunique()
        return {
            "count": table.num_rows,
            "of": n_asked_for,
            "note": f"{questions.sampled}{_unreached_note(table, alone, questions.k)}".strip(),
        }
    if name == "outdated":
        n_found = pc.count_distinct(questions.hits["memory_id"]).as_py()
        return {"count": table.num_rows, "of": n_found, "note": _counts(table, name)}
    if name == "horizon":
        falls = table.filter(pc.invert(pc.is_in(table["why"], pa.array([NEVER, LATER]))))
        first = pc.min(falls["day"]).as_py()
        note = f"The first drops out on {first}. {_counts(table, name)}." if first else f"{_counts(table, name)}."
        note = note if table.num_rows else ""
        memories, watched = (pc.count_distinct(rows["memory_id"]).as_py() for rows in (falls, table))
        if n_under := len(questions.found) - watched:
            note = f"{note} {n_under:,} more found under a near-duplicate, which go when it goes.".strip()
        return {"count": memories, "of": len(questions.found), "note": note}
    note = _counts(table, name)
    n_memories = table.num_rows
    if name == "contradictions":
        n_memories = pc.count_distinct(table["by_id"]).as_py()
        if n_memories < table.num_rows:
            note = f"{count_of(table.num_rows, 'contradiction')} of {count_of(n_memories, 'memory')}: {note}"
    return {"count": n_memories, "of": memories, "note": note}


def _to_do(name: str, table: pa.Table, questions: AuditQuestions) -> str:
    """What a person can do about it: of duplicates, what a plan does with them, and what none does."""
    if name != "shadowed":
        return _TO_DO[name]
    memories = questions.search.corpus_.memories
    repeats = table["memory_id"].filter(pc.not_equal(table["how"], "newer version"))
    kinds = memories["kind"].take(pc.index_in(repeats, value_set=memories["memory_id"]))
    in_logs = pc.sum(pc.is_in(kinds, value_set=pa.array(APPEND_ONLY, pa.string()))).as_py() or 0
    going = len(repeats) - in_logs
    told = (
        (going, f"mk.plan(corpus, 'deduplicator') shows which of {going:,} it removes, and why not others."),
        (in_logs, f"{in_logs:,} lie in logs, which no plan cuts: search folds them."),
        (table.num_rows - len(repeats), _TO_DO[name]),
    )
    return " ".join(sentence for n, sentence in told if n)


def _unreached_note(table: pa.Table, alone: int, k: int) -> str:
    """How many of the memories that are not found are a hit of no query, and where search loses them."""
    if not table.num_rows:
        return ""
    hits = "the first hit" if k == 1 else f"among the first {k} hits"
    return (
        f"{alone:,} of them {'is' if alone == 1 else 'are'} {hits} of no query at all. Where search"
        f" loses them: {_counts(table, 'unreached')}."
    )


def _counts(table: pa.Table, name: str) -> str:
    """How many rows of an audit there are of each kind, in words."""
    if name not in _COUNTED:
        return ""
    column, words = _COUNTED[name]
    counts = Counter(table[column].to_pylist()).most_common()
    return ", ".join(f"{count:,} {words.get(word, word)}" for word, count in counts)
