"""What changed in a folder within a span of time, to the sentence: from its git history, else from dates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit import Corpus, diff
from memkit.errors import FormatError, MemkitError, NotFoundError, ParameterError, count_of
from memkit.extend import Moment
from memkit.extend.reading import Rows
from memkit.extend.showing import as_of_time, bar, rows_of, until_text
from memkit.past.history import versions_of
from memkit.past.repository import Repository, log, opened
from memkit.schemas import TIMESTAMP, is_verbatim, kinds_where, result_schema, tuples_of, with_column
from memkit.search.fitted.chunks import take_runs
from memkit.tables.corpus import states_at
from memkit.text.sentences import Sentence, sentences_of

BASES = ("git", "dates")
"""What a digest can rest on: the states that git keeps, or the dates of the memories."""
CHANGES = result_schema(
    (pa.string(), "change memory_id kind"),
    (TIMESTAMP, "date"),
    (pa.string(), "path"),
    (pa.int64(), "line"),
    (pa.string(), "title before after"),
)
"""``change`` is added, changed, removed or expired; ``before`` is null where the text before is not known."""
_UNLISTED = (*kinds_where(judged=False), *kinds_where(searched=False))
"""Kinds that are no statements, such as contents pages, which change with every page that they list."""


@dataclass(frozen=True)
class Span:
    """The states of a folder at both ends of a span, and what differs.

    Attributes
    ----------
    since, until : datetime
        The first and the last instant.
    basis : str
        One of `BASES`.
    before : callable
        Gives the memories that were there before the span, some at a time.
    after : Corpus
        What is there at its end.
    changes : pyarrow.Table
        Of the columns of `CHANGES`, without moves to another file.
    notes : tuple of str
        What the changes rest on, and what cannot be known from it.
    """

    since: datetime
    until: datetime
    basis: str
    before: Callable[[], Iterable[pa.Table]]
    after: Corpus
    changes: pa.Table
    notes: tuple[str, ...]


Shown = Callable[[pa.Table], pa.Table]
"""Makes of changes what is shown of them."""


def from_history(
    corpus: Corpus, since: datetime, until: Moment, user_id: str | None, basis: str | None
) -> tuple[Span | None, str]:
    """The span of a folder by its git history, of all users or of one and of what belongs to nobody; else the reason
    why there is none.

    Raises
    ------
    ParameterError
        Where `basis` is git and the folder has no history in that time.
    """
    if basis == "dates":
        return None, "basis='dates' was given"
    span, why = _from_git(corpus, since, until, user_id)
    if span is None and basis == "git":
        raise ParameterError(f"digest: basis='git' needs a history, but {why}. Use basis='dates'.")
    return span, why


def never_listed(memories: pa.Table) -> str:
    """What a digest lists neither as new nor as changed, whatever its dates; empty where there is none."""
    counts = tuples_of(memories.group_by("kind").aggregate([([], "count_all")]), "kind", "count_all")
    said = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(row for row in counts if row[0] in _UNLISTED))
    return said and f"Never listed, by their kind: {said}."


def _from_git(corpus: Corpus, since: datetime, until: Moment, user_id: str | None) -> tuple[Span | None, str]:
    """The span between two states of the folder; without one the reason why there is none."""
    if not corpus.has_folder or corpus.root is None:
        return None, "this is a table or a saved corpus, not a folder"
    try:
        with opened(corpus.root.resolve()) as repository:
            ends = _ends(repository, corpus, since, until)
    except NotFoundError:
        return None, f"nothing was committed up to {until_text(until.last_visible)}"
    except FormatError:
        return None, "the folder is in no git repository"
    except MemkitError as error:
        return None, str(error).rstrip(".")
    if isinstance(ends, str):
        return None, ends
    states = states_at(corpus, [ends.before])[0], corpus if ends.after is None else states_at(corpus, [ends.after])[0]
    before, after = (with_memories(state, of_user(state.memories, user_id)) for state in states)
    rows = Rows()
    versions, _ = versions_of(corpus.root.resolve(), ends.last, rows, ends.n_commits + 1)
    changes, n_moved = _compared(before, after, versions, since)
    notes = [f"From git: {count_of(ends.n_commits, 'commit')} in this time."]
    if ends.begins is not None:
        notes.append(f"The history begins on {ends.begins.date()}: what its first commit holds is not listed as new.")
    undated = pc.sum(pc.is_null(changes["date"])).as_py() or 0
    if undated and ends.after is None:
        notes.append(f"{count_of(undated, 'change')} without a date: in no commit yet.")
    if n_moved:
        notes.append(f"{count_of(n_moved, 'memory')} moved to another file, or had a copy there: unchanged.")
    notes += [str(row["message"]) for row in rows.table("problems").to_pylist()]
    was = partial(_pieces, before.memories)
    return Span(since, until.last_visible, "git", was, after, changes, tuple(notes)), ""


@dataclass(frozen=True)
class _Ends:
    """The revisions at both ends.

    Attributes
    ----------
    after : str or None
        None where the folder as it was read is the end: with what is in no commit, where the span ends now.
    last : str
        The last commit of the span.
    begins : datetime or None
        When the history began, where that is within the span.
    """

    before: str
    after: str | None
    last: str
    n_commits: int
    begins: datetime | None


def _ends(repository: Repository, corpus: Corpus, since: datetime, until: Moment) -> _Ends | str:
    head = repository.commit(corpus.revision.get("revision", "HEAD"))
    last = head if until.last_visible >= head.committed_at else repository.commit(until.last_visible.isoformat())
    if next(log(repository, last.id, 1), None) is None:
        return "the folder's files are in no commit"
    n_commits, begins = repository.count(last.id, since), None
    # Git's times are whole seconds, and the state at a moment has the commit of that moment.
    before = (since - timedelta(seconds=1)).isoformat()
    if repository.count(last.id) == n_commits:  # the first of these commits holds what is older
        first = next(log(repository, last.id, n_commits)).commit
        before, begins, n_commits = first.id, first.committed_at, n_commits - 1
    is_now = until.until is None or until.last_visible >= as_of_time(None)
    after = None if last is head and (is_now or corpus.revision) else last.id
    return _Ends(before, after, last.id, n_commits, begins)


_COMPARED = """
with dated as (
    select memory_id, min(valid_from) as first, max(valid_from) as last
    from versions where not at_start and valid_from >= $since and change <> 'removed' group by memory_id
), gone as (
    select memory_id_then as memory_id, max(valid_from) as moment
    from versions where change = 'removed' and valid_from >= $since group by all
)
select if(d.change = 'moved', 'changed', d.change) as change, d.memory_id, d.kind,
    case d.change when 'removed' then gone.moment when 'added' then first else last end as date,
    d.path, coalesce(a.line_start, b.line_start) as line, d.title, d.before, d.after
from d left join a on d.change <> 'removed' and a.memory_id = d.memory_id
    left join b on d.change = 'removed' and b.memory_id = d.memory_id
    left join dated on dated.memory_id = d.memory_id left join gone on gone.memory_id = d.memory_id
where d.stands_in is null and not contains($unlisted, coalesce(d.kind, ''))
    and (d.change in ('added', 'removed') or list_has_any(d.fields, ['text', 'title', 'status']))
"""
_DATED = """
select change, memory_id, kind, date, path, line, row from (
    select case when created_at >= $since then 'added' when updated_at >= $since then 'changed' end as change,
        if(created_at >= $since, created_at, updated_at) as date, memory_id, kind, path, line_start as line, row
    from memories where coalesce(created_at <= $until, true) and not contains($unlisted, coalesce(kind, ''))
) where change is not null and date <= $until
"""
_EXPIRED = """
select 'expired' as change, memory_id, kind, expires_at as date, path, line_start as line, title,
    text as before, null::varchar as after
from memories where expires_at >= $since - interval 1 microsecond and expires_at < $until
    and not contains($unlisted, coalesce(kind, ''))
"""
_ORDER = " order by date desc nulls first, path nulls last, line nulls last, memory_id"


def _compared(before: Corpus, after: Corpus, versions: pa.Table, since: datetime) -> tuple[pa.Table, int]:
    """The changes from one state to the other, dated by commits, and how many memories only moved."""
    different = diff(before, after).table
    lines = {name: state.memories.select(["memory_id", "line_start"]) for name, state in (("a", after), ("b", before))}
    values = {"since": since, "unlisted": list(_UNLISTED)}
    changes = rows_of(f"from ({_COMPARED}) {_ORDER}", values, d=different, versions=versions, **lines)
    is_moved = pc.or_(pc.is_valid(different["stands_in"]), pc.equal(different["change"], "moved"))
    moved = set(different.filter(is_moved)["memory_id"].to_pylist()) - set(changes["memory_id"].to_pylist())
    return changes.cast(CHANGES), len(moved)


def from_dates(memories: pa.Table, since: datetime, until: datetime, why: str, shown: Shown) -> Span:
    """The span by created_at and updated_at; the text before a change is not known.

    Of changes only what is `shown` is held, not their texts beside it.
    """
    values = {"since": since, "until": until, "unlisted": list(_UNLISTED)}
    named = memories.select(["memory_id", "kind", "path", "line_start", "created_at", "updated_at"])
    dated_rows = rows_of(_DATED + _ORDER, values, memories=named.append_column("row", pa.array(range(len(named)))))
    changes = pa.concat_tables(shown(_with_texts(few, memories)) for few in _pieces(dated_rows))
    new = changes.filter(pc.equal(changes["change"], "added"))["memory_id"]
    is_later = pc.fill_null(pc.greater(memories["created_at"], pa.scalar(until, TIMESTAMP)), False)
    is_new = pc.or_(is_later, pc.is_in(memories["memory_id"], value_set=new))
    after = take_runs(memories, np.flatnonzero(~is_later.to_numpy()))  # the texts of runs of memories are not copied
    dated = pc.coalesce(memories["updated_at"], memories["created_at"])
    notes = [f"From dates, as {why}: they do not show what was removed, nor a text before it changed."]
    if dated.null_count:
        n, total = dated.null_count, memories.num_rows
        words = "has no date, and is" if n == 1 else "have no date, and are"
        notes.append(f"{n:,} of {count_of(total, 'memory')} {words} not listed as new.")
    before = partial(_pieces, memories, pc.invert(is_new))
    return Span(since, until, "dates", before, Corpus({"memories": after}), changes, tuple(notes))


def _with_texts(dated: pa.Table, memories: pa.Table) -> pa.Table:
    """Rows of changes by date with the titles and texts of the memories that they are."""
    titles, texts = memories.select(["title", "text"]).take(dated["row"]).columns
    columns = [*dated.drop_columns("row").columns, titles, pa.nulls(len(texts), pa.string()), texts]
    return pa.table(columns, CHANGES.names).cast(CHANGES)


def _pieces(table: pa.Table, is_kept: pa.ChunkedArray | None = None) -> Iterator[pa.Table]:
    """A table, some rows at a time, each time in one chunk; of a mask those that are kept."""
    for start in range(0, max(len(table), 1), _PIECE):
        piece = table.slice(start, _PIECE)
        yield (piece if is_kept is None else piece.filter(is_kept.slice(start, _PIECE))).combine_chunks()


def expired_in(span: Span) -> pa.Table:
    """The facts whose last day passed within the span, of the columns of `CHANGES`."""
    values = {"since": span.since, "until": span.until, "unlisted": list(_UNLISTED)}
    return rows_of(_EXPIRED + _ORDER, values, memories=span.after.memories).cast(CHANGES)


def of_user(memories: pa.Table, user_id: str | None) -> pa.Table:
    """The memories of a user and those that belong to nobody; all where none is named."""
    return memories if user_id is None else memories.filter(pc.fill_null(pc.equal(memories["user_id"], user_id), True))


def with_memories(corpus: Corpus, memories: pa.Table) -> Corpus:
    """The corpus with these of its memories; its other tables are not read here."""
    return Corpus({**corpus.tables, "memories": memories})


SENTENCES = result_schema(
    (pa.int64(), "row"),
    (pa.string(), "memory_id"),
    (TIMESTAMP, "date"),
    (pa.string(), "path"),
    (pa.int64(), "line"),
    (pa.string(), "title"),
    (pa.bool_(), "is_heading"),
    (pa.string(), "text"),
)
"""``row`` is the row of the changes that the sentence is in."""


def differing(text: str | None, other: str | None) -> list[Sentence]:
    """The sentences of a text that another one does not have.

    >>> [sentence.text for sentence in differing("Пул: десять. Решили: хватит.", "Пул: десять.")]
    ['Решили: хватит.']
    """
    known = {sentence.text for sentence in sentences_of(other or "")}
    return [sentence for sentence in sentences_of(text or "") if sentence.text not in known]


def new_sentences(changes: pa.Table) -> Iterator[pa.Table]:
    """The new sentences of changes, some changes at a time, of the columns of `SENTENCES`; all sentences of those whose
    text before is not known.
    """
    starts = range(0, max(len(changes), 1), _AT_ONCE)
    for start in bar("sentences", starts, silent=len(starts) < _MANY, unit="part", leave=False):
        some = changes.slice(start, _AT_ONCE)
        cut = [(row, one) for row, texts in enumerate(tuples_of(some, "after", "before")) for one in differing(*texts)]
        rows = pa.array([row for row, _ in cut], pa.int64())
        lines = [is_verbatim(*of_row) for of_row in tuples_of(some, "kind", "path")]
        above = pa.array([sentence.lines_above if lines[row] else 0 for row, sentence in cut], pa.int64())
        placed = some.select(["memory_id", "date", "path", "line", "title"]).take(rows)
        placed = with_column(placed, "line", pc.add(placed["line"], above))
        said = [[sentence.is_heading for _, sentence in cut], [sentence.text for _, sentence in cut]]
        yield pa.table([pc.add(rows, start), *placed.columns, *said], schema=SENTENCES)


_PIECE = 4_000
"""Memories whose texts are copied together."""
_AT_ONCE, _MANY = 2_000, 5
"""Changes whose sentences are looked at together, and so many parts that it is said how far it is."""
