"""Labels that no person and no model wrote: known-item queries from a corpus, and usage from a log."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.base.params import check_choice, check_column, check_corpus, check_value, current_names, describe
from memkit.errors import ParameterError, count_of
from memkit.evaluation.labels import as_arrow_table, qrels_of, read_qrels, read_queries
from memkit.formats.disk.lock import CALLS, check_calls
from memkit.formats.linked.links import links_in
from memkit.formats.rows import heading_path
from memkit.formats.spelling import ALIASES as SPELLED_ALIASES
from memkit.formats.spelling import DESCRIPTIONS as SPELLED_DESCRIPTIONS
from memkit.formats.spelling import plain
from memkit.schemas import REPLACED, present, tuples_of, with_column
from memkit.search.ask import QuerySettings
from memkit.tables.corpus import Corpus

FIELDS = {
    "subject": (("note",), "title"),
    "keywords": (("note",), "tags"),
    "triggers": (("pathway",), "tags"),
    "input": (("memory_item",), "title"),
    "headings": (("long_term", "daily_log", "document", "page", "topic"), "title"),
    "titles": (("entry", None), "title"),
}
"""Short texts that describe a memory, by the name of the field: the kinds that have it, and its column."""
LINKS, HOOKS, ALIASES, DESCRIPTIONS = PAGE_FIELDS = ("links", "hooks", "aliases", "descriptions")
"""Texts that ask for a page, whichever of its memories is found: the words with which another page links to it, those
that an index has behind the link, its other names, and the line that it says of itself. The first two stand in other
pages; the last two are hidden from the page's own memories.
"""
ASKED_BY = {
    "subject": "by the subject that its author gave it",
    "keywords": "by its keywords",
    "triggers": "by its triggers",
    "input": "as somebody asked it once",
    "headings": "by its heading",
    "titles": "by its title",
    LINKS: "in the words in which another page links to it",
    HOOKS: "in the words of an index, which say why it matters",
    ALIASES: "by another name of the page",
    DESCRIPTIONS: "in the line that sums the page up",
}
"""How each field asks for a memory."""
HIDEABLE = ("title", "tags", "aliases", "description")
"""The columns that ask and are hidden from what they ask for."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_TIME_WORD = re.compile(
    rf"(?:{'|'.join(name.pattern for name in (*MONTHS, *WEEKDAYS))}|utc|gmt|msk|мск|am|pm)", re.IGNORECASE
)
"""Words of a date or a time, which say nothing of what a memory is about."""
_LEAST_WORDS, _LEAST_LEFT = 2, 3
"""Words that a question has at least, and that its memory keeps at least when they are hidden from it."""
COLUMNS = ["memory_id", "kind", "user_id", "title", "tags", "text"]
_OF_PAGES = ["description", "aliases", "heading_path", "extra", "path", "layout", "line_start"]
_CHANGED = ("title", "tags", "aliases", "description", "heading_path", "extra", "text")
_KEPT = 50_000
"""Chunks of the largest index that is kept."""
_SIGNS = " \t|*-+>•·—–:.,;"
"""What stands around a link in a line of an index, and around the words behind it."""


@current_names
def known_items(
    corpus: Corpus, n: int | None = None, *, fields: str | Iterable[str] | None = None, random_state: int = 0
) -> tuple[pa.Table, pa.Table]:
    """Known-item queries from a corpus: a note's subject asks for the note, which is searched without that subject.

    `evaluate` and `compare` search a copy of the index in which each memory lacks the field that asks for it, and every
    line, title or tag equal to it; all other memories stay whole. Left out are fields of fewer than two words, fields
    that several memories share, and memories with too little other text, or that are superseded or deprecated.

    This measure is biased. The same author wrote the subject and the text, so that they share more words than a
    question and its answer do: search by words looks better than it is. Of all memories that answer, only one counts.
    Facts have no such field, so there are no queries for them. The words of links (`links`) and of indexes (`hooks`)
    were written on another page, so they are better questions than headings; that other page has them too, and
    competes. Words that the page's title or text has already are left out of them. A query's `field` says where it came
    from, and results are also given by field. Use such labels to compare settings, and trust people's labels more.

    Parameters
    ----------
    corpus : Corpus
    n : int, optional
        Draw this many queries; None is all.
    fields : str or sequence of str, optional
        None is all: subject and keywords (notes), triggers (pathways), input (memory items), headings (workspace),
        titles (index trees, tables), and of pages links (words in which another page links to it), hooks (those behind
        its link in an index), aliases and descriptions. For a query made from a page, any memory of that page is right.
    random_state : int

    Returns
    -------
    queries, qrels : pyarrow.Table
        query_id, text, user_id (the memory's), as_of (null), group, field, hidden_field; query_id, memory_id,
        relevance. The metadata's ``note`` says which fields ask.

    Raises
    ------
    ParameterError
        For an unknown field, or where the corpus has no such text.

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"title": ["Пул соединений", "Чай"], "text": ["Вырос до десяти.", "Зелёный, без сахара, утром."]}
    >>> queries, qrels = known_items(mk.from_table(rows))
    >>> queries.select(["text", "field", "hidden_field"]).to_pylist()
    [{'text': 'Пул соединений', 'field': 'titles', 'hidden_field': 'title'}]
    """
    check_corpus("known_items", corpus)
    check_value("known_items", "n", n, "int", nullable=True, low=1)
    check_value("known_items", "random_state", random_state, "int", low=0)
    names = (*FIELDS, *PAGE_FIELDS)
    is_one = isinstance(fields, str) or not isinstance(fields, Iterable)
    chosen: list[Any] = [*names] if fields is None else [fields] if is_one else list(fields)
    for name in chosen:
        check_choice("fields", name, names, "known_items")
    if not chosen:
        raise ParameterError(f"known_items: 'fields' must name one of {', '.join(names)}, or be None. Got none.")
    chosen = list(dict.fromkeys(chosen))
    read = corpus.memories.select([*COLUMNS, *_OF_PAGES, "status", "superseded_by"]).to_pylist()
    rows = [row for row in read if row["status"] not in REPLACED and row["superseded_by"] is None]
    texts = [name for name in chosen if name in FIELDS]
    drafts = [query_for(row, text, name, FIELDS[name][1]) for name in texts for row, text in askable(name, rows)]
    drafts += _page_queries(corpus, rows, [name for name in chosen if name in PAGE_FIELDS])
    if not drafts:
        raise ParameterError(
            f"known_items: expected memories with {', '.join(chosen)}. Got none of two words or more. Facts and lines"
            " of a log have none: write queries of your own, and judge their hits in mk.panels.judge(search, queries)."
        )
    if n is not None and n < len(drafts):
        rows_drawn = np.sort(np.random.default_rng(random_state).choice(len(drafts), n, replace=False))
        drafts = [drafts[row] for row in rows_drawn]
    queries, qrels = labels_of(drafts)
    return describe(read_queries(queries), note=known_item_note(queries)), read_qrels(qrels)


def known_item_note(queries: pa.Table) -> str:
    """A note on the known items among some queries: which fields ask; empty where there are none.

    Examples
    --------
    >>> known_item_note(pa.table({"field": ["headings", "headings"], "hidden_field": ["title", "title"]}))
    'Known items, made from memories and not asked by people: 2 queries ask for a memory by its heading.'
    """
    if not {"field", "hidden_field"} <= {*queries.column_names}:
        return ""
    counts = Counter(name for name in queries["field"].to_pylist() if name in ASKED_BY)
    if not counts:
        return ""
    (field, count), *others = counts.most_common()
    first = f"{count_of(count, 'query asks', 'queries ask')} for a memory {ASKED_BY[field]}"
    parts = [first, *(f"{count:,} {ASKED_BY[field]}" for field, count in others)]
    return f"Known items, made from memories and not asked by people: {', '.join(parts)}."


def query_for(row: dict[str, Any], text: str, field: str, hidden_field: str | None = None) -> dict[str, Any]:
    """A query that asks for one memory; its group is that memory."""
    named = {"query_id": f"{field} {row['memory_id']}", "text": text, "user_id": row["user_id"]}
    return {**named, "group": row["memory_id"], "field": field, "hidden_field": hidden_field}


def labels_of(queries: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """Queries from `query_for`, as tables of queries and judgements; ``answers`` are several that are right."""
    answers = [query.get("answers") or [query["group"]] for query in queries]
    rows = [{name: value for name, value in query.items() if name != "answers"} for query in queries]
    pairs = [
        (query["query_id"], memory, 1.0)
        for query, memories in zip(queries, answers, strict=True)
        for memory in memories
    ]
    return pa.Table.from_pylist(rows), describe(qrels_of(pairs), grades=2)


def askable(name: str, rows: list[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], str]]:
    """The memories that a field can ask for, with the text that asks."""
    kinds, column = FIELDS[name]
    said = ((row, row["title"] if column == "title" else " ".join(row["tags"])) for row in rows if row["kind"] in kinds)
    texts = [(row, " ".join(text.split())) for row, text in said]
    times = Counter(text.casefold() for _, text in texts)
    for row, text in texts:
        # A heading that several memories have asks for none of them.
        if says_something(text) and times[text.casefold()] == 1 and _keep([row], column):
            yield row, text


def _keep(rows: list[dict[str, Any]], column: str) -> bool:
    """Whether enough is left of some memories without the content of `column`."""
    kept = (hide(row, column) for row in rows)
    words = (" ".join((row["title"], *(row["tags"] or ()), row["text"])) for row in kept)
    return sum(len(_WORD.findall(text)) for text in words) >= _LEAST_LEFT


@dataclass(frozen=True)
class _AskedPage:
    """The memories of one page, and what it is called or says of itself."""

    rows: list[dict[str, Any]]

    @cached_property
    def aliases(self) -> list[str]:
        return [alias for row in self.rows for alias in row["aliases"] or ()]

    @cached_property
    def descriptions(self) -> list[str]:
        return list(dict.fromkeys(filter(None, (row["description"] for row in self.rows))))

    @cached_property
    def names(self) -> set[str]:
        """Everything that it is called, comparable."""
        return {_bare(text) for text in (*(row["title"] for row in self.rows), *self.aliases, *self.descriptions)}


def _page_queries(corpus: Corpus, rows: list[dict[str, Any]], fields: list[str]) -> list[dict[str, Any]]:
    """The queries for pages: each text that only one page is asked for with, and that this page does not say itself."""
    by_path: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["layout"] and row["path"]:
            by_path.setdefault(row["path"], []).append(row)
    pages = {path: _AskedPage(some) for path, some in by_path.items()}
    asking: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
        LINKS: lambda: _links(corpus, rows),
        HOOKS: lambda: _hooks(corpus, rows),
        ALIASES: lambda: ((path, text) for path, page in pages.items() for text in page.aliases),
        DESCRIPTIONS: lambda: ((path, text) for path, page in pages.items() for text in page.descriptions),
    }
    queries = []
    for name in fields:
        column = {ALIASES: "aliases", DESCRIPTIONS: "description"}.get(name)
        keeps = cache(lambda path, column=column: _keep(pages[path].rows, column))
        targets: dict[str, dict[str, str]] = {}
        for path, text in asking[name]():
            words = " ".join(text.split())
            if path in pages and says_something(words):
                targets.setdefault(words.casefold(), {})[path] = words
        times: Counter[str] = Counter()
        for words_by_path in targets.values():
            # A text that leads to several pages asks for none of them.
            ((path, words), *others) = words_by_path.items()
            page = pages[path]
            if others or (not keeps(path) if column else _bare(words) in page.names):
                continue
            times[path] += 1
            query = query_for(page.rows[0], words, name, column)
            number = f" {times[path]}" if times[path] > 1 else ""
            answers = [row["memory_id"] for row in page.rows]
            queries.append({**query, "query_id": query["query_id"] + number, "answers": answers})
    return queries


def _links(corpus: Corpus, rows: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    """The pages that links lead to, with the words of the link."""
    for path, relation in _links_to_pages(corpus, rows):
        link = next(links_in(relation["written"]), None)
        if link and link.text:
            yield path, link.text


def _hooks(corpus: Corpus, rows: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    """The pages that lines of an index lead to, with the words behind the link; a line of several links has none."""
    indexes = {
        row["memory_id"]: (row["line_start"] or 1, row["text"].split("\n")) for row in rows if row["kind"] == "index"
    }
    for path, relation in _links_to_pages(corpus, rows):
        first, lines = indexes.get(relation["memory_id"], (1, []))
        line = lines[place] if 0 <= (place := (relation["line"] or 0) - first) < len(lines) else ""
        # Two are enough to know that it is not one.
        if len(list(islice(links_in(line), 2))) == 1:
            yield path, line.replace(relation["written"], " ").strip(_SIGNS)


def _links_to_pages(corpus: Corpus, rows: list[dict[str, Any]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """The page that each link of another page leads to, and the link."""
    relations = corpus.tables.get("relations")
    if relations is None:
        return
    paths = {row["memory_id"]: row["path"] for row in rows}
    for relation in relations.filter(pc.equal(relations["state"], "found")).to_pylist():
        path = paths.get(relation["to_id"])
        if path is not None and path != paths.get(relation["memory_id"]) and relation["written"]:
            yield path, relation


def says_something(text: str) -> bool:
    """Whether a heading has two words or more besides dates and times.

    >>> [says_something(text) for text in ("Session: 2026-02-03 10:00 UTC", "Понедельник, 2 марта", "Пул соединений")]
    [False, False, True]
    """
    return sum(_TIME_WORD.fullmatch(word) is None for word in _WORD.findall(text)) >= _LEAST_WORDS


def hide(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Those columns of a memory that are searched, without the content of `column`; the number of lines stays.

    >>> hide({"title": "Чай", "tags": ["чай", "утро"], "text": "# Чай\\nБез сахара."}, "title")
    {'title': '', 'tags': ['утро'], 'text': '\\nБез сахара.'}
    """
    value = row.get(column)
    texts = [text for text in (value if isinstance(value, list) else [value]) if text]
    hidden_texts = {_bare(text) for text in texts} - {""}

    def is_hidden(text: str) -> bool:
        return _bare(text) in hidden_texts

    remaining = {name: row[name] for name in _CHANGED if name in row}
    for name, held in remaining.items():
        if isinstance(held, list):
            remaining[name] = [] if name == column else [word for word in held if not is_hidden(word)]
        elif held and name in ("title", "description") and (name == column or is_hidden(held)):
            remaining[name] = "" if name == "title" else None
    remaining["text"] = "\n".join("" if is_hidden(line) else line for line in row["text"].split("\n"))
    if column in ("aliases", "description"):
        remaining |= _without_front_matter(row, column, texts)
    return remaining


def _without_front_matter(row: Mapping[str, Any], column: str, texts: list[str]) -> dict[str, Any]:
    """What else of a page's front matter holds the content of `column`: the path of headings, and fields in extra."""
    remaining: dict[str, Any] = {}
    if path := row.get("heading_path"):
        # With a border at both ends, so that a title is found as a whole step and not within another.
        bounded_path = f" / {path} / "
        for text in texts:
            bounded_path = bounded_path.replace(f" / {heading_path('', text)} / ", " / ")
        remaining["heading_path"] = bounded_path[3:-3]
    names = SPELLED_ALIASES if column == "aliases" else SPELLED_DESCRIPTIONS
    try:
        fields = json.loads(row.get("extra") or "")
    except ValueError:
        return remaining
    if isinstance(fields, dict):
        kept = {name: value for name, value in fields.items() if plain(name) not in names}
        remaining["extra"] = json.dumps(kept, ensure_ascii=False)
    return remaining


def _bare(text: str) -> str:
    """A line without its heading marks, in one case."""
    return " ".join(text.strip("#*_ \t\r").split()).casefold()


def hidden(search: Any, column: str, ids: pa.ChunkedArray) -> Any:
    """`search` over its corpus with `column` removed from the memories `ids`; other texts are not encoded again.

    The last one of each column is kept beside the index, unless that is large, so that each further setting of the
    search is measured without fitting again.
    """
    check_choice("hidden_field", column, HIDEABLE, "queries")
    targets, kept = pc.unique(ids), getattr(search.index_, "without", None)
    if kept is not None and column in kept and kept[column][0].equals(targets):
        return kept[column][1].with_params(**{name: getattr(search, name) for name in QuerySettings.params()})
    fitted = search.fitted(_without(search.corpus_, column, targets))
    if kept is not None and search.index_.chunks.num_rows <= _KEPT:
        # Kept at the index, as a sweep or a comparison asks for the same copy again.
        kept[column] = targets, fitted
    return fitted


def _without(corpus: Corpus, column: str, ids: pa.Array) -> Corpus:
    """The corpus with `column` removed from the memories `ids`."""
    memories = corpus.memories
    searched = present(memories, _CHANGED)
    targets = memories.filter(pc.is_in(memories["memory_id"], value_set=ids))
    without = {row["memory_id"]: hide(row, column) for row in targets.select(["memory_id", *searched]).to_pylist()}
    for name in searched:
        pairs = tuples_of(memories, "memory_id", name)
        values = [without[memory][name] if memory in without else value for memory, value in pairs]
        memories = with_column(memories, name, values)
    tables = {name: table for name, table in corpus.tables.items() if name != "chunks"}
    return Corpus({**tables, "memories": memories})


def import_log(path: Any) -> tuple[pa.Table, pa.Table]:
    """Labelled queries from a log of queries and of the answers that were used.

    Only shown answers can be used, and higher ranks are used more often: such labels favour the search that wrote the
    log.

    Parameters
    ----------
    path : str, Path, table or data frame
        A Parquet, CSV or JSONL file, or a table, with a row a query: text; used, the ids of
        memories (a list, a JSON list, or one id); optional: shown (likewise), time, user_id, session, query_id.
        Of rows with one query_id the last counts, as in the log of ``memkit serve``, ``.memkit/calls.jsonl``.

    Returns
    -------
    queries, qrels : pyarrow.Table
        Used memories have relevance 1, memories shown and not used 0. `as_of` is the time, `group` the session. Queries
        for which nothing was shown or used are left out; the metadata's ``note`` says how many.

    Raises
    ------
    ParameterError
        Where text or used is missing, or no query has either.
    FormatError
        Where the file cannot be parsed, or the log of ``memkit serve`` is no regular file.

    Examples
    --------
    >>> log = {"text": ["чай?", "привет"], "used": [["m1"], []], "shown": [["m1", "m2"], []]}
    >>> queries, qrels = import_log(log)
    >>> qrels.select(["memory_id", "relevance"]).to_pylist()
    [{'memory_id': 'm1', 'relevance': 1.0}, {'memory_id': 'm2', 'relevance': 0.0}]
    """
    if isinstance(path, (str, Path)) and Path(path).absolute().as_posix().endswith(f"/{CALLS}"):
        check_calls(Path(path).absolute().parents[1])
    table = as_arrow_table(path, "queries" if isinstance(path, (str, Path)) else "import_log")
    for name in ("text", "used"):
        check_column(name, table.column_names, "import_log")
    n_empty = 0
    queries: dict[str, dict[str, Any]] = {}
    judged: dict[str, list[tuple[str, str, float]]] = {}
    for number, row in enumerate(table.to_pylist()):
        used, shown = _ids(row["used"], number), _ids(row.get("shown"), number)
        if not used and not shown:
            n_empty += 1
            continue
        name = str(row["query_id"]) if row.get("query_id") is not None else str(number)
        named = {"user_id": row.get("user_id"), "as_of": row.get("time"), "group": row.get("session")}
        queries[name] = {"query_id": name, "text": row["text"], **named}
        memories = dict.fromkeys([*used, *shown])
        judged[name] = [(name, memory, float(memory in used)) for memory in memories]
    if not queries:
        raise ParameterError("import_log: expected a query of which something was shown or used. Got none.")
    qrels = read_qrels(qrels_of([*chain.from_iterable(judged.values())]))
    note = (
        f"{n_empty} of {count_of(table.num_rows, 'query')} are left out: nothing was shown or used." if n_empty else ""
    )
    rows = list(queries.values())
    columns = {name: [query[name] for query in rows] for name in rows[0]}
    return describe(read_queries(columns), note=note), qrels


def _ids(value: Any, row: int) -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ParameterError(
                f"import_log: expected a JSON list of ids in row {row}. Got {value!r:.100}."
            ) from error
    if value is None or value == "":
        return []
    return [str(name) for name in (value if isinstance(value, list) else [value])]
