"""The first half hour on an unknown folder, in one call: what is there, since when, what is wrong, what to do next."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.draw import as_html
from memkit.display.notebook import Shown, Tabular
from memkit.display.page import as_figure, write_page
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.fences import fences
from memkit.formats import reader
from memkit.formats.faults import ADVICE
from memkit.hashes import place
from memkit.params import AsOf, as_of_time, check_corpus, check_value, describe
from memkit.tables.age import BY_MONTH
from memkit.tables.corpus import Corpus
from memkit.tables.secrets import secrets_in
from memkit.text.secrets import Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN, NEAR = 2000, 0.9
"""Memories that the estimate of near-equal texts is made from, and the cosine of trigrams from which texts are."""
_WORST = 10
_LINK = re.compile(r"(?<!!)\[[^\]\n]{0,200}\]\(\s*<?([^)\s<>]{1,500})>?(?:\s+[\"'(][^\n]{0,200}?)?\s*\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#|\{|\$")
_BODY = r"trim(regexp_replace(text, '^\s*#{1,6}[^\n]*(\n|$)', ''), E' \t\r\n')"
_TABLES = {
    "kinds_by_month": BY_MONTH,
    "languages": r"""
        select case when ru > 4 * en then 'Cyrillic' when en > 4 * ru then 'Latin'
            when ru + en > 0 then 'both' else 'other' end as letters, count(*) as memories
        from (select length(text) - length(regexp_replace(text, '\p{Cyrillic}+', '', 'g')) as ru,
            length(text) - length(regexp_replace(text, '\p{Latin}+', '', 'g')) as en from memories)
        group by all order by memories desc, letters""",
    "lengths": """
        select coalesce(kind, 'other') as kind, count(*) as memories, min(length(text)) as shortest,
            median(length(text))::bigint as median, max(length(text)) as longest
        from memories group by all order by kind""",
    "equal_texts": r"""
        with folded as (
                select memory_id, text, lower(regexp_replace(trim(text), '\s+', ' ', 'g')) as said from memories),
            twice as (select said from folded where said <> '' group by said having count(*) > 1)
        select count(*) as times, arg_min(text, memory_id) as text, list_sort(list(memory_id))[:5] as memory_ids
        from folded join twice using (said) group by said order by times desc, memory_ids[1]""",
    "empty": f"select memory_id, title, path, line_start from memories where {_BODY} = '' order by memory_id",  # noqa: S608
    "expiring": """
        select expires_at::date as expires, user_id, text, memory_id from memories
        where expires_at::date between $as_of::date and ($as_of + interval 31 day)::date order by all""",
}
_COUNTS = """
    select count(*) as memories, count(distinct path) as files, count(distinct user_id) as users,
        count(coalesce(created_at, updated_at)) as dated,
        count(*) filter (where expires_at::date < $as_of::date) as expired,
        strftime(min(coalesce(created_at, updated_at)), '%Y-%m-%d') as since,
        strftime(max(coalesce(created_at, updated_at)), '%Y-%m-%d') as until
    from memories
"""


@dataclass(frozen=True)
class Overview(Tabular):
    """What `overview` found.

    Attributes
    ----------
    table : pyarrow.Table
        what (string), count (int64), note (string): a row a finding.
    tables : dict of str to pyarrow.Table
        kinds_by_month, languages, lengths, equal_texts, near_texts, empty, links, secrets, expiring, problems (the ten
        worst rules with what to do), next (what to call now).
    hide : Mask
        What hides the folder's secrets where it is shown.
    """

    table: pa.Table
    tables: Mapping[str, pa.Table]
    hide: Mask = field(default_factory=Mask, repr=False, compare=False)

    def __repr__(self) -> str:
        return repr(Shown(*self._sheets()))

    def _repr_html_(self) -> str:
        return Shown(*self._sheets(), *self._further())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        worst = self.tables["problems"].select(["severity", "rule", "count", "do"])
        sheets = [("What is there", self.table), ("What is wrong", worst), ("What to call next", self.tables["next"])]
        return tuple(self._titled(title, table, rows, show_secrets) for title, table in sheets if table.num_rows)

    def _further(self, show_secrets: bool = False) -> list[Sheet]:
        tables = {**self.tables, "kinds_by_month": _by_month(self.tables["kinds_by_month"])}
        rest = [name for name in tables if name != "next" and tables[name].num_rows]
        return [self._titled(name.replace("_", " "), tables[name], ROWS, show_secrets) for name in rest]

    def _titled(self, title: str, table: pa.Table, rows: int, show_secrets: bool) -> Sheet:
        sheet = sheet_of(table, rows, show_secrets)
        return replace(sheet, heading=title, hide=sheet.hide and sheet.hide | self.hide)

    def report(self, path: str | Path, title: str = "Overview of a memory folder") -> Path:
        """Write one page that needs nothing else, for light and dark screens.

        Parameters
        ----------
        path : str or Path
            Of the page, by tradition ``.html``.
        title : str
            Above it.

        Returns
        -------
        Path
        """
        first = self._sheets()
        found = Shown(*first, *self._further())
        above, below = (as_html(*some) for some in (found.sheets[: len(first)], found.sheets[len(first) :]))
        return write_page(path, title, above + found.hide.in_html(as_figure(self.plot())) + below)

    def plot(self, ax: Axes | None = None) -> Axes:
        """How many memories were made in each month, by kind: `mk.plot.growth`.

        Examples
        --------
        >>> import memkit as mk
        >>> found = overview(mk.from_table({"text": ["чай"], "created_at": ["2026-01-05"]}), as_of="2026-03-01")
        >>> print(mk.plot.words(found.plot()))
        memories by month, 0 without a date
        2026-01  ████████████████████ 1
        """
        from memkit import plot

        return plot.growth(self.tables["kinds_by_month"], ax)


def overview(corpus: Corpus, *, exact: bool = False, as_of: AsOf = None) -> Overview:
    """What a folder holds, what is wrong with it, and the three calls to make next.

    Parameters
    ----------
    corpus : Corpus
        From `memkit.read`, `memkit.from_table` or `memkit.open`.
    exact : bool
        Compare all texts for near-equal ones, not 2,000 drawn by the hash of their ids.
    as_of : str, date, datetime or None
        The day for what expires; None is now. Kept in the table's schema metadata.

    Returns
    -------
    Overview
        Shows itself; ``.table``, ``.tables``, ``.report(path)``, ``.plot()``.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"text": ["Зелёный чай", "зелёный  чай", "[план](plan.md)"], "path": ["a.md"] * 3})
    >>> found = overview(corpus, as_of="2026-03-01")
    >>> found.tables["links"]["target"].to_pylist(), found.tables["equal_texts"]["times"].to_pylist()
    (['plan.md'], [2])
    """
    check_corpus("overview", corpus)
    check_value("overview", "exact", exact, "bool")
    moment = as_of_time(as_of)
    asked = {name: (sql, {"as_of": moment} if "$as_of" in sql else None) for name, sql in _TABLES.items()}
    tables = {name: corpus.ask(sql, values, timeout_s=None) for name, (sql, values) in asked.items()}
    tables["near_texts"], drawn = _near(corpus.memories, exact)
    tables["links"] = _dead_links(corpus)
    tables["secrets"], hide = secrets_in(corpus.memories)
    tables["problems"] = _worst(pa.concat_tables([corpus.problems, tables["secrets"]]))
    counts = corpus.ask(_COUNTS, {"as_of": moment}, timeout_s=None).to_pylist()[0]
    rows = _findings(counts, tables, corpus, drawn)
    tables["next"] = pa.Table.from_pylist(_next(tables, counts, corpus))
    found = pa.Table.from_pylist([dict(zip(("what", "count", "note"), row, strict=True)) for row in rows])
    return Overview(describe(found, memkit="overview", as_of=moment.isoformat(), **corpus.revision), tables, hide)


def _by_month(counts: pa.Table) -> pa.Table:
    """A row a month, the newest first, a column a kind, the most frequent first."""
    rows = counts.to_pylist()
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["kind"]] = totals.get(row["kind"], 0) + row["memories"]
    cells = {(row["month"], row["kind"]): row["memories"] for row in rows}
    months = sorted({row["month"] for row in rows}, key=lambda month: (month[:1].isdigit(), month), reverse=True)
    kinds = sorted(totals, key=lambda kind: (-totals[kind], kind))
    columns = {kind: [cells.get((month, kind)) for month in months] for kind in kinds}
    return pa.table({"month": pa.array(months, pa.string()), **columns})


def _near(memories: pa.Table, exact: bool) -> tuple[pa.Table, int]:
    """Pairs of texts that are nearly equal, of all or of those drawn; and how many were compared."""
    from memkit.policy.dedup.near import batches, lexical_pairs, trigrams

    ids, texts = memories["memory_id"].to_pylist(), memories["text"].to_pylist()
    order = sorted(range(len(ids)), key=lambda at: place(ids[at]))
    chosen = [at for at in (order if exact else order[:DRAWN]) if texts[at].strip()]
    folded = [" ".join(texts[at].casefold().split())[:_READ] for at in chosen]
    firsts = {text: at for at, text in reversed(list(enumerate(folded)))}
    places = sorted(firsts.values())
    rows = []
    scopes = np.zeros(len(places), dtype=np.int64)
    lengths = np.array([len(folded[at]) for at in places], dtype=np.int64)
    for batch in batches(lengths, scopes):
        grams = trigrams([folded[places[at]] for at in batch], scopes[batch])
        for a, b, similarity in zip(*lexical_pairs(grams, NEAR), strict=True):
            pair = sorted((chosen[places[batch[a]]], chosen[places[batch[b]]]))
            one, other = (texts[at][:_SHOWN] for at in pair)
            rows.append((float(similarity), one, other, ids[pair[0]], ids[pair[1]]))
    rows.sort(key=lambda row: (-row[0], row[3:]))
    names = ("similarity", "one", "other", "a_id", "b_id")
    schema = pa.schema([(name, pa.string() if at else pa.float64()) for at, name in enumerate(names)])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema), len(chosen)


_READ, _SHOWN = 4000, 300


def _dead_links(corpus: Corpus) -> pa.Table:
    """Links in Markdown to files of the folder that are not there; whatever leads out of it is not looked at."""
    there = _files(corpus)
    rows = []
    names = ("memory_id", "path", "line_start", "text")
    linked = corpus.memories.filter(pc.match_substring(corpus.memories["text"], "]("))
    for row in linked.select(list(names)).to_pylist():
        code = fences(row["text"])
        for line, words in enumerate(row["text"].split("\n"), 1):
            if "](" not in words or line in code:
                continue
            for target in _LINK.findall(words):
                if _leads_nowhere(target, row["path"] or "", there):
                    at = row["line_start"] + line - 1 if row["line_start"] else None
                    rows.append({"target": target, "path": row["path"], "line": at, "memory_id": row["memory_id"]})
    kinds = {"target": pa.string(), "path": pa.string(), "line": pa.int64(), "memory_id": pa.string()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))


def _leads_nowhere(target: str, path: str, there: Callable[[str], bool]) -> bool:
    if _SCHEME.match(target):
        return False
    name = unquote(re.split(r"[#?]", target, maxsplit=1)[0])
    if not name or name.startswith("/") or "\0" in name:
        return False
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), name.replace("\\", "/")))
    return not (found.startswith("..") or there(found) or there(posixpath.normpath(name)))


def _files(corpus: Corpus) -> Callable[[str], bool]:
    """Whether a path, relative to the root, is there: on disk where the folder is known, else among what was read."""
    root = corpus.root
    if root is not None and root.is_dir() and not corpus.revision:
        return lambda path: os.path.lexists(root / path)
    paths = {path for path in corpus.memories["path"].to_pylist() if path}
    if root is not None and corpus.revision:
        with reader.listed(root, corpus._source().options) as listing:
            paths |= listing.files.keys()
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    return lambda path: path in paths or path in folders


def _worst(problems: pa.Table) -> pa.Table:
    """A row a rule, the worst first: how often, what to do, and one of them in full."""
    rows: dict[str, dict[str, Any]] = {}
    for problem in problems.select(["severity", "rule", "message"]).to_pylist():
        row = rows.setdefault(problem["rule"], {**problem, "count": 0})
        row["count"] += 1
    ordered = sorted(rows.values(), key=lambda row: (_SEVERITIES.index(row["severity"]), -row["count"], row["rule"]))
    found = [{**row, "do": ADVICE.get(row["rule"]) or _WHERE.sub("", row["message"])} for row in ordered[:_WORST]]
    names = ("severity", "rule", "count", "do", "message")
    kinds = [(name, pa.int64() if name == "count" else pa.string()) for name in names]
    return pa.Table.from_pylist(found, schema=pa.schema(kinds))


_SEVERITIES = ("error", "warning", "info")
_WHERE = re.compile(r"^\S*: ")


def _findings(
    counts: dict[str, Any], tables: dict[str, pa.Table], corpus: Corpus, drawn: int
) -> list[tuple[str, int, str]]:
    size, dated, problems = counts["memories"], counts["dated"], corpus.problems["severity"].to_pylist()
    kinds = pc.value_counts(pc.fill_null(corpus.memories["kind"], "other")).to_pylist()
    kinds.sort(key=lambda row: (-row["counts"], row["values"]))
    letters = ", ".join(f"{row['memories']} {row['letters']}" for row in tables["languages"].to_pylist())
    lengths: list[dict[str, Any]] = tables["lengths"].to_pylist()
    longest: dict[str, Any] = max(lengths, key=lambda row: row["longest"], default={"longest": 0, "kind": ""})
    copies = (pc.sum(tables["equal_texts"]["times"]).as_py() or 0) - tables["equal_texts"].num_rows
    near = tables["near_texts"].num_rows
    whole = drawn >= size or not drawn
    how = "all compared" if whole else f"estimated: {near:,} among {drawn:,} drawn by hash; exact=True compares all"
    users = f", of {counts['users']:,} users" if counts["users"] else ""
    return [
        ("memories", size, f"in {counts['files']:,} files{users}"),
        ("kinds", len(kinds), ", ".join(f"{row['counts']} {row['values']}" for row in kinds[:6])),
        ("dated", dated, f"from {counts['since']} to {counts['until']}" if dated else ""),
        ("undated", size - dated, "age says nothing of them" if size > dated else ""),
        ("letters", tables["languages"].num_rows, letters),
        ("longest, characters", longest["longest"], longest["kind"]),
        ("empty below the heading", tables["empty"].num_rows, "not searched" if tables["empty"].num_rows else ""),
        ("equal texts", copies, "beyond the first of each" if copies else ""),
        ("near-equal pairs", near if whole else round(near * (size / drawn) ** 2), how),
        ("links that lead nowhere", tables["links"].num_rows, ""),
        ("secrets", tables["secrets"].num_rows, "a word stands for each" if tables["secrets"].num_rows else ""),
        ("expired", counts["expired"], "hidden from a search" if counts["expired"] else ""),
        ("expire within 31 days", tables["expiring"].num_rows, ""),
        ("problems", len(problems), ", ".join(f"{problems.count(word)} {word}" for word in _SEVERITIES)),
    ]


def _next(tables: dict[str, pa.Table], counts: dict[str, Any], corpus: Corpus) -> list[dict[str, str]]:
    """The three calls that this folder asks for most."""
    calls = []
    if tables["secrets"].num_rows:
        calls.append(("mk.show(mk.overview(corpus).tables['secrets'])", "where the secrets are"))
    if "error" in corpus.problems["severity"].to_pylist():
        calls.append(("mk.show(corpus.problems)", "every problem, the worst first"))
    calls.append((f"search = mk.Retriever().fit(corpus); search.search({_topic(corpus)!r})", "ask it something"))
    if counts["expired"]:
        calls.append(("mk.Expiry().transform(corpus)", "what is past its day"))
    if tables["equal_texts"].num_rows or tables["near_texts"].num_rows:
        calls.append(("mk.Deduplicator().fit(corpus).transform(corpus)", "what says the same twice"))
    calls.append(("mk.named_queries()", "ready questions in SQL"))
    calls.append(("corpus.sql('select kind, count(*) from memories group by all')", "any other question"))
    return [{"call": call, "why": why} for call, why in calls[:3]]


def _topic(corpus: Corpus) -> str:
    """A title to ask for, of the first memory that has one of two words or more."""
    titles = corpus.ask(
        r"select title from memories where length(title) < 60 and regexp_matches(title, '^\p{L}{3,}( \p{L}{3,})+$')"
        " order by memory_id limit 1",
        timeout_s=None,
    )["title"].to_pylist()
    return str(titles[0]) if titles else "…"
