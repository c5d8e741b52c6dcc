"""The tables, the kinds of memory and the words of importance, declared once.

`TABLES` maps a table's name to its `pyarrow.Schema`; a field's metadata holds ``meaning`` and, where there is one,
``unit``, and ``day``: what a bare day is in a column of time stamps, if not its midnight. `KINDS` says what each kind
of memory is. Readers, SQL, search, policies, documentation and tests use these.

>>> TABLES["memories"].field("confidence").metadata[b"unit"]
b'ratio'
>>> kinds_where(searched=False)
('heartbeat', 'quarantined')
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.errors import ParameterError, did_you_mean

TIMESTAMP = pa.timestamp("us", tz="UTC")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
"""NumPy arrays with one value per row."""
WORDS = pa.list_(pa.string())


def column(
    name: str, kind: pa.DataType, meaning: str, unit: str = "", nullable: bool = True, day: str = ""
) -> pa.Field:
    metadata = {"meaning": meaning} | ({"unit": unit} if unit else {}) | ({"day": day} if day else {})
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def table(*columns: pa.Field) -> pa.Schema:
    """The columns of one table."""
    return pa.schema(columns)


def result_schema(*runs: tuple[pa.DataType, str]) -> pa.Schema:
    """The schema of a result, whose columns the function that returns it explains: types, each with some names.

    >>> result_schema((pa.string(), "metric unit"), (pa.float64(), "value")).names
    ['metric', 'unit', 'value']
    """
    return pa.schema([(name, kind) for kind, names in runs for name in names.split()])


LAST_INSTANT = "its last microsecond"
"""What a bare day is in ``expires_at``, so an end at midnight is the last instant before it."""
_DAY = 24 * 60 * 60 * 10**6  # microseconds
_MEMORY_ID = column("memory_id", pa.string(), "the row of memories that this one belongs to")
_PATH = column("path", pa.string(), "file, relative to the root, with '/'")
_LINE = column("line", pa.int64(), "1-based line in the file")
_EXTRA = column("extra", pa.string(), "JSON object of the fields that have no column")
_FORMAT_VERSION = column("format_version", pa.string(), "as written, MAJOR.MINOR.PATCH")

MEMORIES = table(
    column(
        "memory_id",
        pa.string(),
        "unique and stable: {format}:{path}#{the record's own id, else its title as a slug, else a number}",
        nullable=False,
    ),
    column("format", pa.string(), "index_tree, workspace, notes, records, facts or table", nullable=False),
    column("layout", pa.string(), "the layout beyond the five formats that read it, as `memkit formats` names it"),
    column("kind", pa.string(), "what the memory is within its format"),
    column("source_id", pa.string(), "the record's own id, as written"),
    column("user_id", pa.string(), "owner"),
    column("scope", pa.string(), "applies_to, category, tier or type"),
    column("title", pa.string(), "heading, subject or id; searched", nullable=False),
    column("description", pa.string(), "what its page or file says of itself in one line; searched"),
    column("aliases", WORDS, "other titles of its page; searched; null where it has none"),
    column("text", pa.string(), "the memory itself, as read; searched", nullable=False),
    column("tags", WORDS, "keywords, tags, triggers; searched", nullable=False),
    column("importance", pa.string(), "high, normal or low; null counts as normal"),
    column("confidence", pa.float64(), "how reliable the record is", "ratio"),
    column(
        "status", pa.string(), "one of memkit.schemas.STATUSES, as its author says; null where it says none of them"
    ),
    column("superseded_by", pa.string(), "memory_id of its successor; null where it has none that was found"),
    column("created_at", TIMESTAMP, "when it was created; a date without a time is midnight UTC"),
    column("updated_at", TIMESTAMP, "when it last changed; created_at where missing"),
    column("verified_at", TIMESTAMP, "when somebody last checked it"),
    column("stale_at", TIMESTAMP, "from when on it should be checked again; it stays valid, unlike what expires"),
    column("expires_at", TIMESTAMP, "its last valid instant, UTC; of a bare day the day's end", day=LAST_INSTANT),
    column(
        "date_source", pa.string(), "where created_at comes from: own (a field), name, heading, git, git_first, mtime"
    ),
    column("pinned", pa.bool_(), "exempt from cleaning"),
    column("access_count", pa.int64(), "how often it was used"),
    column("heading_path", pa.string(), "the folders, category and headings above it, joined by ' / '"),
    _PATH,
    column("line_start", pa.int64(), "first line of text in the file, 1-based"),
    column("line_end", pa.int64(), "last line of text in the file, inclusive"),
    _EXTRA,
)

STATUSES = ("superseded", "deprecated", "archived", "draft", "active", "done")
"""The words of the column status; any other word of an author stays in extra."""
REPLACED = ("superseded", "deprecated")
"""Those of which an author says that something else counts now, or nothing."""
ASIDE = ("archived", "draft")
"""Those that rank lower."""
STALE_WEIGHT = 0.8
"""The factor on the score of a memory that is stale at the moment of a query, archived or a draft: it stays."""
NO_TOPIC = "no topic"
"""The name of what belongs to no topic."""

AN_INDEX = r"(?:^|/)index(?:\.part\d+)?\.json$"
"""The names of indexes: an entry whose path is one has no file that can be read, and stands there by its title."""
IN_JSON = rf"(?i)\.(jsonl|ndjson)$|{AN_INDEX}"
"""The names of files whose memories are strings of JSON, so that their texts have lines of their own."""
PARTS = "(parts)"
"""The key of extra under which a memory made of several files lists them, each with path, line_start and chars."""

PROBLEMS = table(
    _PATH,
    _LINE,
    column("field", pa.string(), "the field, as the format spells it"),
    column("rule", pa.string(), "code of the rule; mk.rules() lists them", nullable=False),
    column("severity", pa.string(), "error, warning or info", nullable=False),
    column("status", pa.string(), "missing or invalid for index entries, else null"),
    column("message", pa.string(), "where, what was expected, what was found, what to do", nullable=False),
    _MEMORY_ID,
)

CHUNKS = table(
    column("chunk_id", pa.string(), "{memory_id}@{ordinal}", nullable=False),
    column("memory_id", pa.string(), "the memory that the chunk is part of", nullable=False),
    column("ordinal", pa.int64(), "0-based position within the memory", nullable=False),
    column("text", pa.string(), "whole lines of the memory; a line longer than a chunk is cut", nullable=False),
    _PATH,
    column("line_start", pa.int64(), "first line, 1-based: in the file, or in the memory's text", nullable=False),
    column("line_end", pa.int64(), "last line, inclusive", nullable=False),
)

TABLES: dict[str, pa.Schema] = {
    "memories": MEMORIES,
    "problems": PROBLEMS,
    "entries": table(
        _MEMORY_ID,
        column("index_path", pa.string(), "the index that names the entry"),
        _LINE,
        column("category", pa.string(), "the category of its branch"),
        column("title", pa.string(), "as written"),
        column("file", pa.string(), "as written"),
        column("path", pa.string(), "the file's path; null where the file was not found"),
        column("status", pa.string(), "valid, missing or invalid"),
        column("reason", pa.string(), "why the entry is not valid"),
        column("tags", WORDS, "as written"),
        column("priority", pa.string(), "high, medium or low"),
        column("version", pa.string(), "as written"),
        column("updated", TIMESTAMP, "the day of the last change"),
        column("summary", pa.string(), "optional"),
        column("context_priority", pa.string(), "optional"),
        column("pinned", pa.bool_(), "optional"),
        column("access_count", pa.int64(), "optional"),
        column("edit_count", pa.int64(), "optional"),
        column("parts", WORDS, "the files that the text was split into"),
        _EXTRA,
    ),
    "documents": table(
        _MEMORY_ID,
        _PATH,
        column("kind", pa.string(), "long_term, daily_log, session, heartbeat or document"),
        column("date", pa.date32(), "from the file's name"),
        column("time", pa.string(), "HH:MM from the heading or the file's name"),
        column("slug", pa.string(), "the rest of a dated file's name"),
        column("heading", pa.string(), "the section's heading; null for text before the first heading"),
        column("level", pa.int64(), "the heading's level, 1 to 6; 0 before the first heading"),
        column("ordinal", pa.int64(), "0-based section within the file"),
        column("line_start", pa.int64(), "first line, 1-based"),
        column("line_end", pa.int64(), "last line, inclusive"),
        column("chars", pa.int64(), "length of the text", "characters"),
    ),
    "turns": table(
        _MEMORY_ID,
        _PATH,
        column("ordinal", pa.int64(), "0-based turn within the file"),
        column("line_start", pa.int64(), "first line, 1-based"),
        column("line_end", pa.int64(), "last line, inclusive"),
        column("said_at", TIMESTAMP, "the file's date with the turn's time"),
        column("time", pa.string(), "HH:MM, as written"),
        column("role", pa.string(), "the speaker, as written"),
        column("text", pa.string(), "the text of the turn"),
    ),
    "checklist": table(
        _MEMORY_ID,
        _PATH,
        _LINE,
        column("done", pa.bool_(), "whether its mark closes it: ticked, cancelled, forwarded"),
        column("text", pa.string(), "the task"),
    ),
    "notes": table(
        _MEMORY_ID,
        _PATH,
        column("id", pa.string(), "UUID, as written"),
        column("uuid_version", pa.int64(), "the format asks for 4; null where id is no UUID"),
        column("subject", pa.string(), "as written"),
        column("keywords", WORDS, "as written"),
        column("applies_to", pa.string(), "global, file:<path> or area:<name>"),
        column("applies_kind", pa.string(), "global, file or area"),
        column("applies_target", pa.string(), "the path or the name"),
        column("created_at", TIMESTAMP, ""),
        column("updated_at", TIMESTAMP, ""),
        column("occurred_at", TIMESTAMP, "the only date in the later variant of the format"),
        column("content_hash", pa.string(), "the hash in the later variant of the format, as written"),
        column("body_chars", pa.int64(), "length of the body, trimmed", "characters"),
        _EXTRA,
    ),
    "pathways": table(
        _MEMORY_ID,
        _PATH,
        _FORMAT_VERSION,
        column("id", pa.string(), "as written"),
        column("triggers", WORDS, "words, patterns, intents"),
        column("template", pa.string(), "as written"),
        column("variables", pa.string(), "JSON object"),
        column("tier", pa.string(), "core, adaptive or experimental"),
        column("hits", pa.int64(), "number of uses"),
        column("success_rate", pa.float64(), "share of successful uses", "ratio"),
        column("last_used_at", TIMESTAMP, ""),
        _EXTRA,
    ),
    "memory_items": table(
        _MEMORY_ID,
        _PATH,
        _FORMAT_VERSION,
        column("user_id", pa.string(), "as written"),
        column("input", pa.string(), "what the user said"),
        column("response", pa.string(), "what the system answered"),
        column("timestamp", TIMESTAMP, ""),
        column("tags", WORDS, "as written"),
        _EXTRA,
    ),
    "wisdom_facts": table(
        _MEMORY_ID,
        _PATH,
        _FORMAT_VERSION,
        column("fact_id", pa.string(), "as written"),
        column("category", pa.string(), "as written"),
        column("content", pa.string(), "as written"),
        column("confidence", pa.float64(), "how reliable the fact is", "ratio"),
        _EXTRA,
    ),
    "facts": table(
        _MEMORY_ID,
        _PATH,
        _LINE,
        column("user_id", pa.string(), "the user: the name of the folder"),
        column("id", pa.string(), "as written"),
        column("type", pa.string(), "profile, working or archive, as written"),
        column("importance", pa.string(), "high, normal or low, as written"),
        column("expires_at", TIMESTAMP, "the end of the day in the tag exp", day=LAST_INSTANT),
        column("created_at", TIMESTAMP, "the day in the tag created"),
        column("text", pa.string(), "the fact without its tags"),
    ),
    "users": table(
        column("user_id", pa.string(), "the user: the name of the folder"),
        _PATH,
        column("version", pa.string(), "version of the layout, as written"),
        column("profile_count", pa.int64(), "profileCount, as written"),
        column("working_count", pa.int64(), "workingCount, as written"),
        column("archive_count", pa.int64(), "archiveCount, as written"),
        _EXTRA,
    ),
    "relations": table(
        column("from_id", pa.string(), "what the relation is from: the fact_id of a record, the memory_id of a page"),
        column(
            "to_id", pa.string(), "what it points to: a fact_id or memory_id; null where a link is dead, or to a file"
        ),
        column(
            "type",
            pa.string(),
            "supports, contradicts, extends, or another word as written; links_to for a plain link, attachment for one"
            " to a file that is no page",
        ),
        column("weight", pa.float64(), "strength; null for a link", "ratio"),
        column("written", pa.string(), "the link as it stands in the text; null for a relation of a record"),
        _LINE,
        column("state", pa.string(), "found, ambiguous or dead; null for a relation of a record"),
        _MEMORY_ID,
    ),
    "entities": table(
        _MEMORY_ID,
        _PATH,
        _LINE,
        column("name", pa.string(), "as written"),
        column("entity_type", pa.string(), "entityType, as written"),
        column("observations", pa.int64(), "number of its observations, each a memory"),
        column("created_at", TIMESTAMP, "createdAt"),
        column("version", pa.string(), "as written, the highest of its lines"),
        _EXTRA,
    ),
    "observations": table(
        _MEMORY_ID,
        _PATH,
        _LINE,
        column("category", pa.string(), "the word in brackets; null where a tag alone makes it an observation"),
        column("text", pa.string(), "without category and context, with its tags"),
        column("tags", WORDS, "the #words in it"),
        column("context", pa.string(), "what stands in round brackets at its end"),
    ),
    "migrations": table(
        column("memory_id", pa.string(), "the row of memories that is migrated; in a journal its id at the time"),
        _PATH,
        column("kind", pa.string(), "pathway, memory_item, wisdom_fact, fact or entry; null in a journal"),
        column("from_version", pa.string(), "the version that was read"),
        column("to_version", pa.string(), "the version after the step"),
        column("time", TIMESTAMP, "when it was written, as migrations.jsonl says; null: still to migrate"),
        column("reason", pa.string(), "what the step changed and why"),
    ),
}


def tuples_of(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    """The rows of some columns.

    >>> list(tuples_of(pa.table({"id": ["a", "b"], "rank": [1, 2]}), "rank", "id"))
    [(1, 'a'), (2, 'b')]
    """
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def present(table: pa.Table, names: Iterable[str]) -> list[str]:
    """Those of the `names` that are columns of `table`, in their order."""
    known = frozenset(table.schema.names)  # `column_names` takes several times as long
    return [name for name in names if name in known]


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    """`table` with other values, an array or a list, in the column `name`."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    values = pa.array(values, field.type) if isinstance(values, (list, tuple)) else values
    return table.set_column(place, field.with_type(values.type), values)


def ends_of(column: pa.ChunkedArray, field: pa.Field, local: pa.ChunkedArray | None = None) -> pa.ChunkedArray:
    """Time stamps as `field` declares them: where a day is its last instant there, midnight becomes that.

    A column of memkit's own has no midnight there: what ends at midnight has the last instant before it. So has what
    is midnight in UTC alone, where `local` are the same times by the clock of another zone. A day of that zone lasts
    until it is over there and in UTC, by which a day is asked about.
    """
    if (field.metadata or {}).get(b"day") != LAST_INSTANT.encode():
        return column
    numbers = begin = column.cast(pa.int64())
    is_midnight = is_day = _is_midnight(numbers)
    if local is not None:
        is_day, begin = _is_midnight(local.cast(pa.int64())), pc.max_element_wise(numbers, local.cast(pa.int64()))
        numbers = pc.if_else(pc.and_not(is_midnight, is_day), pc.subtract(numbers, 1), numbers)
    if not pc.any(pc.or_(is_midnight, is_day)).as_py():
        return column
    return pc.if_else(is_day, pc.add(begin, _DAY - 1), numbers).cast(TIMESTAMP)


def _is_midnight(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.equal(numbers, pc.multiply(pc.divide(numbers, _DAY), _DAY))  # a quotient is cut, so no day is missed


def with_ends(table: pa.Table) -> pa.Table:
    """A table of a corpus; a midnight in its ``expires_at``, if it has that column, is the last instant of the day."""
    place = table.schema.get_field_index("expires_at")
    if place < 0 or table.schema.field(place).type != TIMESTAMP:
        return table
    column = table.column(place)
    ended = ends_of(column, MEMORIES.field("expires_at"))
    return table if ended is column else table.set_column(place, table.schema.field(place), ended)


def without_views(table: pa.Table) -> pa.Table:
    """`table` with plain texts in place of views, as Polars has: Arrow cannot take, filter or search those.

    >>> without_views(pa.table({"text": pa.array(["чай"], pa.string_view())})).schema.field("text").type
    DataType(large_string)
    """
    plain = [known.with_type(_without_views(known.type)) for known in table.schema]
    return table.cast(pa.schema(plain, table.schema.metadata)) if plain != [*table.schema] else table


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_list(kind):
        return pa.large_list(_without_views(kind.value_type))
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)


@lru_cache(256)
def without_rows(schema: pa.Schema) -> pa.Table:
    """The table of this schema without rows, made once: Arrow takes a millisecond where columns are many."""
    return schema.empty_table()


def empty(name: str) -> pa.Table:
    """The table `name` without rows."""
    return without_rows(TABLES[name])


@dataclass(frozen=True)
class Kind:
    """The properties of one kind of memory. Code that treats kinds differently tests a property, never a name.

    Attributes
    ----------
    name, meaning : str
        The word in the column ``kind``, and what such a memory is.
    fact : bool
        Whether it is one statement about a user; the policies for facts apply to these kinds.
    verbatim : bool
        Whether its text is exactly the lines line_start to line_end of the file, so that chunks have line numbers.
    decays : str
        When age lowers its score: 'always' (except at high importance), 'normal' (only at normal importance), 'never'.
    counted : bool
        Whether a quota counts it.
    searched : bool
        Whether a search includes it by default.
    weight : float
        The factor on its score in a search that names none.
    judged : bool
        Whether policies may reject, weigh or relabel it, and a prompt may include it; otherwise it is only kept.
    log : bool
        Whether it tells what happened, by date: equal words in two logs are one fact, whatever their headings.
    """

    name: str
    meaning: str
    fact: bool = False
    verbatim: bool = False
    decays: str = "normal"
    counted: bool = False
    searched: bool = True
    weight: float = 1.0
    judged: bool = True
    log: bool = False


KINDS: dict[str, Kind] = {}
"""Every kind by name; `declare_kinds` adds to it. A kind that is not declared is kept and reported."""


def declare_kinds(*kinds: Kind) -> None:
    """Declare kinds, for example those that a format of your own reads.

    Raises
    ------
    ParameterError
        Where a kind of the same name is declared differently.

    Examples
    --------
    >>> declare_kinds(Kind("note", "something else"))
    Traceback (most recent call last):
    memkit.errors.ParameterError: declare_kinds: expected a new name for each kind. Got 'note', which is taken.
    """
    for kind in kinds:
        if KINDS.get(kind.name, kind) != kind:
            raise ParameterError(
                f"declare_kinds: expected a new name for each kind. Got {kind.name!r}, which is taken."
            )
    KINDS.update({kind.name: kind for kind in kinds})


def kinds_where(**properties: bool | str) -> tuple[str, ...]:
    """The names of the kinds with these properties, in the order of their declaration.

    >>> kinds_where(fact=True)
    ('profile', 'working', 'archive')
    """
    wanted = properties.items()
    return tuple(name for name, kind in KINDS.items() if all(getattr(kind, key) == value for key, value in wanted))


def is_verbatim(kind: str | None, path: str | None) -> bool:
    """Whether a memory's text is a range of lines of its file; the text of a note in JSON lines is not.

    >>> is_verbatim("note", "a.md"), is_verbatim("note", "log.jsonl"), is_verbatim("pathway", "a.json")
    (True, False, False)
    """
    return kind is not None and kind in KINDS and KINDS[kind].verbatim and not re.search(IN_JSON, path or "")


def without_file(memories: pa.Table) -> pa.ChunkedArray:
    """Which memories are entries of an index whose file is missing or invalid: their text is what the index says.

    >>> paths = ["memory/c/index.json", "memory/c/tea.md", None]
    >>> without_file(pa.table({"kind": ["entry"] * 3, "path": paths})).to_pylist()
    [True, False, False]
    """
    of_files = pc.is_in(memories["kind"], value_set=pa.array(kinds_where(verbatim=True), pa.string()))
    return pc.and_(of_files, pc.fill_null(pc.match_substring_regex(memories["path"], AN_INDEX), False))


def check_kinds(kinds: Iterable[str], owner: str, in_data: Collection[str | None] = ()) -> None:
    """Raise where one of `kinds` is neither declared nor among `in_data`, the kinds of the corpus.

    Raises
    ------
    ParameterError
        The message lists the declared kinds and suggests the nearest.
    """
    for kind in kinds:
        if kind not in KINDS and kind not in in_data:
            hint = did_you_mean(kind, KINDS)
            raise ParameterError(f"{owner}: expected kinds among {', '.join(KINDS)}. Got {kind!r}.{hint}")


_of_lines = partial(Kind, verbatim=True)
_fact = partial(Kind, fact=True, counted=True)
declare_kinds(
    _of_lines("entry", "a file that an index names, or one entry of a file of entries"),
    _of_lines("long_term", "a section of MEMORY.md"),
    _of_lines("daily_log", "a section of a day's log", log=True),
    _of_lines("session", "a section of a conversation", log=True),
    _of_lines("heartbeat", "a section of HEARTBEAT.md, a list of tasks", searched=False),
    _of_lines("document", "a section of any other Markdown"),
    _of_lines("note", "a Markdown file with front matter"),
    Kind("pathway", "a learned answer with its triggers"),
    Kind("memory_item", "a question and its answer"),
    Kind("wisdom_fact", "a statement with a confidence and relations to others"),
    _fact("profile", "a fact about who the user is", decays="never"),
    _fact("working", "a fact about what the user does now"),
    _fact("archive", "any other fact about the user", decays="always"),
    _of_lines("line", "a line of a fact file that is not a fact", decays="never", judged=False),
    Kind("quarantined", "a record of an unknown version", searched=False, decays="never", judged=False),
    _of_lines("page", "a section of a page of linked notes"),
    Kind("head", "title and description of a page, from its front matter", decays="never", judged=False),
    _of_lines("index", "a contents page, or its list of links", decays="never", weight=0.5, judged=False),
    _of_lines("log", "an entry of a list of changes", weight=0.5, log=True),
    _of_lines("dream", "what a host dreamt of its memories", decays="never", weight=0.5, judged=False),
    _of_lines("topic", "a section of a file about one topic, which an index names"),
    _of_lines("user", "a topic: what an agent keeps about its user", decays="never"),
    _of_lines("feedback", "a topic: how the user wants work to be done", decays="never"),
    _of_lines("project", "a topic: what goes on in a project", decays="always"),
    _of_lines("reference", "a topic: where something is to be found"),
    Kind("observation", "one statement about an entity of a graph"),
    Kind("entity", "an entity of a graph that no statement is about", decays="never"),
)

APPEND_ONLY = ("daily_log", "session")
"""Kinds of files that are only appended to: no plan takes a memory out of them."""

IMPORTANCE_WORDS = {"high": "high", "normal": "normal", "medium": "normal", "low": "low"}
"""Maps each word for an importance in a file to the one that memkit keeps; any other word counts as missing."""

IMPORTANCES = tuple(dict.fromkeys(IMPORTANCE_WORDS.values()))
"""The importances, highest first; a null importance counts as normal."""
