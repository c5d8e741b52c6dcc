"""`memkit.digest`: what happened in a folder within a span of time, as a table, a text and a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit import Corpus
from memkit.base import parallel
from memkit.errors import count_of
from memkit.explore.digest.decisions import boxes, contradictions, decided
from memkit.explore.digest.names import LEAST_MENTIONS, new_names
from memkit.explore.digest.span import (
    BASES,
    Span,
    differing,
    expired_in,
    from_dates,
    from_history,
    never_listed,
    new_sentences,
    of_user,
)
from memkit.extend import Moment
from memkit.extend.reading import Row
from memkit.extend.showing import (
    ROWS,
    Sheet,
    Shown,
    Since,
    Tabular,
    as_html,
    bar,
    check_corpus,
    safe,
    sheet_of,
    since_time,
    until_text,
    write_page,
)
from memkit.extend.writing import AsOf, check_value, describe
from memkit.schemas import TIMESTAMP, column, table, tuples_of, with_column
from memkit.search.ask import check_user
from memkit.search.fitted.chunks import take_runs
from memkit.tables.secrets import learned, masked
from memkit.text.boilerplate import WRAPPERS, spans
from memkit.text.secrets import Mask

DIGEST = table(
    column("section", pa.string(), "decisions, contradictions, boxes, names, added, changed or forgotten"),
    column(
        "what", pa.string(), "what became of it, such as added, opened or expired; of a name, the name and its count"
    ),
    column("date", TIMESTAMP, "when, by the commit or the memory's own date; null where neither says it"),
    column("memory_id", pa.string(), "the memory; of a removed one, as it was called"),
    column("path", pa.string(), "file, relative to the root, with '/'"),
    column("line", pa.int64(), "1-based line in the file"),
    column("title", pa.string(), "heading, subject or id of the memory"),
    column(
        "text",
        pa.string(),
        "the text or sentence; of a changed memory, what is new in it, without secrets and chat wrappers",
    ),
    column("before", pa.string(), "what it replaces or contradicts; null where that is not known; secrets are masked"),
)
"""The table of `Digest`."""
# A guess: a section that is read at a glance.
LINES = 6
"""The rows of a section that a page shows."""


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    heading, empty : str
        Its heading, and what it says where it is empty.
    one, many : str
        What a row and several are called where they are counted; "" where the second follows from the first.
    is_varied : bool
        Whether its column ``what`` says more than the heading.
    """

    heading: str
    empty: str
    one: str
    many: str = ""
    is_varied: bool = False


SECTIONS = {
    "decisions": Section("Decisions", "no sentence tells of a decision", "decision"),
    "contradictions": Section("Contradicts something older", "nothing found", "contradiction", is_varied=True),
    "boxes": Section("Checkboxes", "none was opened or closed", "checkbox", is_varied=True),
    "names": Section("New people and projects", "no new name is mentioned repeatedly", "new name", is_varied=True),
    "added": Section("Added", "nothing", "added", "added"),
    "changed": Section("Changed", "nothing", "changed", "changed"),
    "forgotten": Section("Forgotten", "nothing", "forgotten", "forgotten", is_varied=True),
}
"""The sections in the order of the page."""
_UNKNOWN = "only what expired is known without git"


@dataclass(frozen=True, repr=False)
class Digest(Tabular):
    """What happened in a folder within a span of time; made by `digest`.

    Attributes
    ----------
    table : pyarrow.Table
        One row per line of the page, by section; ``schema.field(name).metadata`` says what each column means.
    since, until : str
        The first and the last moment of the span, UTC.
    basis : str
        What changes rest on: git or dates.
    notes : tuple of str
        What could not be known.
    is_of_command : bool
        Whether the command line shows it, so that it says what to type there.
    hide : Mask
        Hides what any memory calls a secret wherever the digest is shown.
    """

    table: pa.Table
    since: str
    until: str
    basis: str
    notes: tuple[str, ...]
    is_of_command: bool = False
    hide: Mask = field(default_factory=Mask, repr=False, compare=False)

    @cached_property
    def tables(self) -> Mapping[str, pa.Table]:
        """The rows of each section."""
        of_row = self.table["section"]
        return {name: take_runs(self.table, np.flatnonzero(pc.equal(of_row, name))) for name in SECTIONS}

    @property
    def text(self) -> str:
        """The page as lines of at most 80 characters."""
        return Shown(*self._sheets()).text()

    def _sheets(self, rows: int = LINES, show_secrets: bool = False) -> tuple[Sheet, ...]:
        """The whole and its sections; secrets are masked in the table, so that none can be shown."""
        counts = [(SECTIONS[name], found.num_rows) for name, found in self.tables.items()]
        said = ", ".join(count_of(n, kind.one, kind.many) for kind, n in counts if n) or "nothing"
        most = LINES if rows == ROWS else rows  # `mk.show` without a number of rows
        sections = (self._section(name, most, show_secrets) for name in SECTIONS)
        return (Sheet(f"From {self.since} to {self.until}: {said}", self.notes), *sections)

    def _section(self, name: str, most: int, show_secrets: bool) -> Sheet:
        declared, rows = SECTIONS[name], self.tables[name]
        if not (n := rows.num_rows):
            is_unknown = name == "forgotten" and self.basis == "dates"
            return Sheet(f"{declared.heading}: {_UNKNOWN if is_unknown else declared.empty}.")
        ask = f"the same command with --most {n}" if self.is_of_command else f"mk.show(digest, rows={n})"
        hint = f"and {n - most:,} more: {ask}" if n > most else ""
        shown = rows if declared.is_varied else rows.drop_columns(["what"])
        # Only of what is shown: the secrets of all memories are known.
        sheet = sheet_of(describe(shown.slice(0, most), memkit="digest"), most, show_secrets, hint=hint)
        hide = sheet.hide and sheet.hide | self.hide
        return replace(sheet, heading=f"{declared.heading}: {n:,}", total=n, hide=hide, hidden_columns=())

    def of_command(self, path: str | Path) -> Digest:
        """The same digest, which says what to type to see more of the folder at `path`."""
        listing = f"`memkit sql {shlex.quote(str(path))} open_tasks` lists"
        notes = [note.replace("`open_tasks` lists", listing) for note in self.notes]
        if self.basis == "dates":
            hint = "not listed as new; --dates mtime takes the times of their files."
            notes = [note.replace("not listed as new.", hint) for note in notes]
        return replace(self, is_of_command=True, notes=tuple(map(safe, notes)))

    def report(self, path: str | Path, title: str = "What happened") -> Path:
        """Write the digest as one self-contained HTML page, for light and dark screens.

        Parameters
        ----------
        path : str or Path
            The file to write, usually ``.html``.
        title : str
            The page's heading.

        Returns
        -------
        Path
        """
        return write_page(path, title, as_html(*Shown(*self._sheets()).sheets), sortable=True)


def digest(
    corpus: Corpus,
    since: Since = "7d",
    until: AsOf = None,
    *,
    user_id: str | None = None,
    basis: str | None = None,
    mentions: int = LEAST_MENTIONS,
) -> Digest:
    """Report what happened in a folder within a span of time: added, changed, forgotten, decided, contradicted.

    Changes come from the git history of the folder, if it has one for this time: the states at both ends are compared,
    including uncommitted files if the span ends now. Otherwise they come from created_at and updated_at, which do not
    show what was removed, nor a text before it changed. The result's notes say which. Decisions are recognised by their
    words, labels and headings, in Russian and English; names by repeated capitals. Contradictions are looked for among
    the newest memories, 5,000 and 1,000,000 characters at most, and names among the newest changes, 5,000,000
    characters at most; the notes say so. The cost of all else is linear in the texts.

    Parameters
    ----------
    corpus : Corpus
    since : str, date or datetime
        When the span begins: a day or time in UTC, or how long before `until`, such as "7d", "2w" or "12h".
    until : str, date, datetime or None
        When it ends; a date without a time counts to its end, and None is now.
    user_id : str, optional
        Only the memories of this user and memories without a user.
    basis : 'git' or 'dates', optional
        Where changes come from; None is git if there is a history.
    mentions : int
        The minimum number of mentions of a new name.

    Returns
    -------
    Digest
        Shows itself; ``.table``, ``.tables``, ``.text``, ``.report(path)``.

    Raises
    ------
    ParameterError
        For a date that cannot be read, or where `basis` is git and there is no history.

    Examples
    --------
    >>> import memkit as mk
    >>> texts = ["Пул: пять соединений.", "Решили: пул растёт до десяти.", "Спросить коллегу Анну. Анна знает шлюз."]
    >>> corpus = mk.from_table({"text": texts, "created_at": ["2026-01-05", "2026-02-25", "2026-02-26"]})
    >>> week = digest(corpus, since="7d", until="2026-02-28")
    >>> for row in week.table.select(["section", "what", "text"]).to_pylist():
    ...     print(*row.values(), sep=" | ")
    decisions | decided | Решили: пул растёт до десяти.
    names | Анна, 2 mentions | Спросить коллегу Анну.
    added | added | Спросить коллегу Анну. Анна знает шлюз.
    added | added | Решили: пул растёт до десяти.
    """
    check_corpus("digest", corpus)
    check_user(user_id, "digest")
    check_value("digest", "basis", basis, "str", nullable=True, choices=BASES)
    check_value("digest", "mentions", mentions, "int", low=1)
    moment = Moment.from_as_of(until, "until")
    begins = since_time(since, moment)
    with parallel.system_memory(), bar("digest", total=_STEPS, unit="step", leave=False) as step:
        hide, span, why = Mask(), *from_history(corpus, begins, moment, user_id, basis)
        names = ("title", "text", "tags", "extra")
        found = {name: learned(hide, corpus.memories[name]) for name in names}  # what any memory calls a secret
        shown = partial(_shown, hide=hide, known=_by_id(corpus.memories, found))
        memories, revision = of_user(corpus.memories, user_id), corpus.revision
        del corpus  # of which the command holds nothing else: the state of its reading is a quarter of the memory
        _done(step)
        if span is None:
            span = from_dates(memories, begins, moment.last_visible, why, shown)
        else:
            span = replace(span, changes=_shown(span.changes, hide))
        notes = [note for note in (*span.notes, never_listed(span.after.memories)) if note]
        _done(step)
        box_rows, n_older = boxes(span)
        if n_older:
            still = count_of(n_older, "older checkbox is", "older checkboxes are")
            notes.append(f"{still} still open: `open_tasks` lists each place of them.")
        _done(step)
        contradicted, n_compared = contradictions(span)
        if n_compared < span.after.memories.num_rows:
            notes.append(f"Contradictions were looked for among the {n_compared:,} newest memories only.")
        _done(step)
        told = decided(span).select([*_PLACED, "text"]).to_pylist()
        _done(step)
        named, n_looked = _named(span, mentions)
        if n_looked < len(span.changes):
            notes.append(f"New names were looked for among the {n_looked:,} newest changes only.")
        _done(step)
    rows = [
        *({"section": "decisions", "what": "decided", **row} for row in told),
        *_of_contradictions(span.changes, contradicted),
        *({"section": "boxes", **row, "text": hide(row["text"])} for row in box_rows.to_pylist()),
        *named,
    ]
    changed = _of_changes(pa.concat_tables([span.changes, _shown(expired_in(span), hide)]))
    facts = {"since": span.since.isoformat(), "as_of": span.until.isoformat(), "basis": span.basis}
    whole = pa.concat_tables([pa.Table.from_pylist(rows, DIGEST), *changed])
    table = describe(whole, memkit="digest", **facts, **revision)
    return Digest(
        table,
        until_text(span.since).removesuffix(" 00:00"),
        until_text(span.until),
        span.basis,
        tuple(map(safe, notes)),
        hide=hide,
    )


def _done(step: Any) -> None:
    """Say so, and give back what the step took: a fifth of all."""
    step.update()
    pa.default_memory_pool().release_unused()


_STEPS = 6
_HELD = ("title", "before", "after")
"""The columns of changes that may hold a secret."""


_Found = Mapping[str, dict[Any, Any]]


def _by_id(memories: pa.Table, found: _Found) -> _Found:
    """What was found in the rows of memories, by their ids and by the columns of changes that these memories are."""
    ids, sides = memories["memory_id"], {"title": found["title"], "before": {}, "after": found["text"]}
    return {name: {ids[row].as_py(): some for row, some in of_rows.items()} for name, of_rows in sides.items()}


def _shown(changes: pa.Table, hide: Mask, known: _Found | None = None) -> pa.Table:
    """The changes without secrets and wrappers: taken out of the whole texts, as a sentence may not say what it is."""
    if known is None:
        found = {name: learned(hide, changes[name]) for name in _HELD}
    else:
        ids = changes["memory_id"].to_pylist()
        found = {name: {row: some[of] for row, of in enumerate(ids) if of in some} for name, some in known.items()}
    for name in _HELD:
        texts = masked(changes[name], hide, found[name])
        is_wrapped = pc.fill_null(pc.match_substring_regex(texts, WRAPPERS), False).combine_chunks()
        if pc.any(is_wrapped).as_py():
            plain = pa.array(map(_unwrapped, texts.filter(is_wrapped).to_pylist()), pa.string())
            texts = pc.replace_with_mask(texts, is_wrapped, plain)
        changes = with_column(changes, name, texts)
    return changes


def _unwrapped(text: str) -> str:
    """A text without what chat programs write around messages, its lines where they are; itself where that is all."""
    pieces, end = [], 0
    for begins, ends in spans(text, (WRAPPERS,)):
        pieces += [text[end:begins], "\n" * text.count("\n", begins, ends)]
        end = ends
    rest = "".join([*pieces, text[end:]])
    return rest if rest.strip() else text


MOST_NAMED = 5_000_000
"""The characters of changes, of the newest, in which new names are looked for: a million takes .3 seconds."""
_PLACED = ("date", "memory_id", "path", "line", "title")


def _of_contradictions(changes: pa.Table, contradicted: pa.Table) -> list[Row]:
    newer = {row["memory_id"]: row for row in changes.select(["memory_id", "path", "line", "title"]).to_pylist()}
    named = {"kind": "what", "newer_at": "date", "by_id": "memory_id", "newer_text": "text", "older_text": "before"}
    found = contradicted.select([*named]).rename_columns([*named.values()]).to_pylist()
    return [{"section": "contradictions", **newer[row["memory_id"]], **row} for row in found]


def _named(span: Span, least: int) -> tuple[list[Row], int]:
    """The new names, and in how many changes they were looked for."""
    n_chars = np.cumsum(pc.fill_null(pc.utf8_length(span.changes["after"]), 0))
    newest = span.changes.slice(0, int(np.searchsorted(n_chars, MOST_NAMED)) + 1)
    sentences = pa.concat_tables(new_sentences(newest))
    names = new_names(tuples_of(sentences, "text", "is_heading"), span.before, least)
    is_heading = sentences["is_heading"].to_pylist()  # a heading says least of a name
    firsts = [min(name.sentences, key=lambda number: (is_heading[number], number)) for name in names]
    where = sentences.select([*_PLACED, "text"]).take(pa.array(firsts, pa.int64())).to_pylist()
    said = [f"{name.spelling}, {count_of(name.count, 'mention')}" for name in names]
    rows = [{"section": "names", "what": what, **row} for what, row in zip(said, where, strict=True)]
    return rows, len(newest)


_SECTION_OF = {"added": "added", "changed": "changed", "removed": "forgotten", "expired": "forgotten"}


def _of_changes(changes: pa.Table) -> list[pa.Table]:
    """What was added, changed and forgotten, in this order, each as the changes are; texts that stay are not copied."""
    tables = []
    for section in dict.fromkeys(_SECTION_OF.values()):
        words = [word for word, of_word in _SECTION_OF.items() if of_word == section]
        some = take_runs(changes, np.flatnonzero(pc.is_in(changes["change"], value_set=pa.array(words))))
        text = some["before" if section == "forgotten" else "after"]
        said = {"text": text, "before": pa.nulls(len(some), pa.string())}
        if section == "changed":
            texts = [_texts(*row) for row in tuples_of(some, "before", "after")]
            said = {name: pa.array([row[n] for row in texts], pa.string()) for n, name in enumerate(said)}
        columns = {"section": pa.array([section] * len(some), pa.string()), "what": some["change"], **said}
        tables.append(pa.table([columns[f.name] if f.name in columns else some[f.name] for f in DIGEST], schema=DIGEST))
    return tables


def _texts(before: str | None, after: str) -> tuple[str, str | None]:
    """What is new in a changed text and what is gone, where the text before is known."""
    if before is None:
        return after, None
    new, gone = (
        " … ".join(sentence.text for sentence in differing(*texts)) for texts in ((after, before), (before, after))
    )
    return new or after, gone or None
