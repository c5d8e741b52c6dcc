"""Labels that no person and no model wrote: known-item queries from a corpus, and usage from a log."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.dates import MONTHS, WEEKDAYS
from memkit.errors import ParameterError
from memkit.evaluation.labels import as_arrow_table, read_qrels, read_queries
from memkit.formats.disk.lock import CALLS, check_calls
from memkit.formats.linked.links import links_in
from memkit.params import check_choice, check_column, check_value, describe
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
LINKS = "links"
"""The words with which one page links to another: they ask for that page, and nothing is hidden of it."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_TIME_WORD = re.compile(
    rf"(?:{'|'.join(one.pattern for one in (*MONTHS, *WEEKDAYS))}|utc|gmt|msk|мск|am|pm)", re.IGNORECASE
)
"""Words of a date or a time, which say nothing of what a memory is about."""
_LEAST_ASKED, _LEAST_LEFT = 2, 3
COLUMNS = ["memory_id", "kind", "user_id", "title", "tags", "text"]


def known_items(
    corpus: Corpus, n: int | None = None, *, fields: Iterable[str] | None = None, seed: int = 0
) -> tuple[pa.Table, pa.Table]:
    """Known-item queries from a corpus: a note's subject asks for the note, which is searched without that subject.

    `evaluate` and `compare` search a copy of the index in which each memory lacks the field that asks for it, and every
    line, title or tag equal to it; all other memories stay whole. Left out are fields of fewer than two words, fields
    that several memories share, and memories with too little other text.

    This measure is biased. The same author wrote the subject and the text, so that they share more words than a
    question and its answer do: search by words looks better than it is. Of all memories that answer, only one counts.
    Facts have no such field and are never asked for. The words of links (`links`) are somebody's second name for a
    page, so they say more than headings do; they stand in the linking page, which is a rival. Use it to compare
    settings, and trust labels of people more.

    Parameters
    ----------
    corpus : Corpus
    n : int, optional
        Draw this many queries; None is all.
    fields : sequence of str, optional
        None is all: subject and keywords (notes), triggers (pathways), input (memory items), headings (workspace),
        titles (index trees, tables), links (pages that another page names otherwise than they do themselves).
    seed : int

    Returns
    -------
    queries, qrels : pyarrow.Table
        query_id, text, user_id (the memory's), as_of (null), group, field, hidden_field; query_id, memory_id,
        relevance.

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
    check_value("known_items", "n", n, "int", nullable=True, low=1)
    check_value("known_items", "seed", seed, "int", low=0)
    known = (*FIELDS, LINKS)
    chosen = list(dict.fromkeys(known if fields is None else fields))
    for name in chosen:
        check_choice("fields", name, known, "known_items")
    rows = corpus.memories.select(COLUMNS).to_pylist()
    texts = [name for name in chosen if name != LINKS]
    made = [query_for(row, text, name, FIELDS[name][1]) for name in texts for row, text in askable(name, rows)]
    if LINKS in chosen:
        made += [query_for(row, text, LINKS) for row, text in linked(corpus, rows)]
    if not made:
        raise ParameterError(f"known_items: expected memories with {', '.join(chosen)}. Got none of two words or more.")
    if n is not None and n < len(made):
        drawn = np.sort(np.random.default_rng(seed).choice(len(made), n, replace=False))
        made = [made[row] for row in drawn]
    queries, qrels = labels_of(made)
    return read_queries(queries), read_qrels(qrels)


def query_for(row: dict[str, Any], text: str, field: str, hidden_field: str | None = None) -> dict[str, Any]:
    """A query that asks for one memory; its group is that memory."""
    named = {"query_id": f"{field} {row['memory_id']}", "text": text, "user_id": row["user_id"]}
    return {**named, "group": row["memory_id"], "field": field, "hidden_field": hidden_field}


def labels_of(queries: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """Queries from `query_for`, as tables of queries and judgements."""
    table = pa.Table.from_pylist(queries)
    columns = [table["query_id"], table["group"], pa.array([1.0] * len(queries))]
    return table, pa.table(columns, names=["query_id", "memory_id", "relevance"])


def askable(name: str, rows: list[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], str]]:
    """The memories that a field can ask for, with the text that asks."""
    kinds, column = FIELDS[name]
    texts = [(row, _asking_text(row, column)) for row in rows if row["kind"] in kinds]
    times = Counter(text.casefold() for _, text in texts)
    for row, text in texts:
        title, tags, remaining = hide(row, column)
        if (
            says_something(text)
            and times[text.casefold()] == 1
            and len(_WORD.findall(" ".join((title, *tags, remaining)))) >= _LEAST_LEFT
        ):
            yield row, text


def linked(corpus: Corpus, rows: list[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], str]]:
    """The memories that links lead to, with the words of the link; each words once, and none that is the title."""
    relations = corpus.tables.get("relations")
    if relations is None:
        return
    by_id = {row["memory_id"]: row for row in rows}
    words: dict[str, dict[str, str]] = {}
    for row in relations.filter(pc.equal(relations["state"], "found")).to_pylist():
        link = next(links_in(row["written"] or ""), None)
        if link and says_something(link.text):
            words.setdefault(" ".join(link.text.split()).casefold(), {})[row["to_id"]] = " ".join(link.text.split())
    for asked, targets in words.items():
        if len(targets) == 1:
            ((memory_id, text),) = targets.items()
            if memory_id in by_id and _bare(by_id[memory_id]["title"]) != asked:
                yield by_id[memory_id], text


def says_something(text: str) -> bool:
    """Whether a heading has two words or more besides dates and times.

    >>> [says_something(text) for text in ("Session: 2026-02-03 10:00 UTC", "Понедельник, 2 марта", "Пул соединений")]
    [False, False, True]
    """
    return sum(_TIME_WORD.fullmatch(word) is None for word in _WORD.findall(text)) >= _LEAST_ASKED


def _asking_text(row: dict[str, Any], column: str) -> str:
    text: str = row["title"] if column == "title" else " ".join(row["tags"])
    return " ".join(text.split())


def hide(row: dict[str, Any], column: str) -> tuple[str, list[str], str]:
    """Title, tags and text of a memory without the content of `column`; the number of lines stays.

    >>> hide({"title": "Чай", "tags": ["чай", "утро"], "text": "# Чай\\nБез сахара."}, "title")
    ('', ['утро'], '\\nБез сахара.')
    """
    hidden_texts = {_bare(text) for text in ([row["title"]] if column == "title" else row["tags"])} - {""}
    title = "" if column == "title" or _bare(row["title"]) in hidden_texts else row["title"]
    tags = [] if column == "tags" else [tag for tag in row["tags"] if _bare(tag) not in hidden_texts]
    lines = ("" if _bare(line) in hidden_texts else line for line in row["text"].split("\n"))
    return title, tags, "\n".join(lines)


def _bare(text: str) -> str:
    """A line without its heading marks, in one case."""
    return " ".join(text.strip("#*_ \t\r").split()).casefold()


def hidden(search: Any, column: str, ids: pa.ChunkedArray) -> Any:
    """`search` over its corpus with `column` removed from the memories `ids`; other texts are not encoded again."""
    check_choice("hidden_field", column, ("title", "tags"), "queries")
    memories = search.corpus_.memories
    rows = memories.filter(pc.is_in(memories["memory_id"], value_set=pc.unique(ids))).select(COLUMNS).to_pylist()
    without = {row["memory_id"]: hide(row, column) for row in rows}
    for place, name in enumerate(("title", "tags", "text")):
        pairs = zip(memories["memory_id"].to_pylist(), memories[name].to_pylist(), strict=True)
        values = [without[memory][place] if memory in without else value for memory, value in pairs]
        position = memories.column_names.index(name)
        memories = memories.set_column(
            position, memories.schema.field(position), pa.array(values, memories.schema.field(position).type)
        )
    tables = {name: table for name, table in search.corpus_.tables.items() if name != "chunks"}
    return search.fitted(Corpus({**tables, "memories": memories}))


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
    table = as_arrow_table(path, "queries")
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
    names = ("query_id", "memory_id", "relevance")
    qrels = read_qrels(
        dict(zip(names, map(list, zip(*chain.from_iterable(judged.values()), strict=True)), strict=True))
    )
    note = f"{n_empty} of {table.num_rows} queries are left out: nothing was shown or used." if n_empty else ""
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
