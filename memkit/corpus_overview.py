"""An overview of an unknown folder in one call: what it holds, since when, what is wrong, what to do next."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import rows_of
from memkit.base.fences import fences
from memkit.base.hashes import place
from memkit.base.parallel import bar
from memkit.base.params import AsOf, Moment, check_corpus, check_value, describe
from memkit.base.plugins import OVERVIEWS
from memkit.display.draw import Shown, Tabular, as_html, write_page
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import count_of
from memkit.formats.linked.links import links_in
from memkit.formats.linked.relations import is_relation
from memkit.formats.rows import ADVICE, DEGREES, tally
from memkit.schemas import APPEND_ONLY, tuples_of
from memkit.tables.age import BY_MONTH, with_moments
from memkit.tables.corpus import Corpus, files_of
from memkit.tables.secrets import secrets_in
from memkit.text.chunk import without_text
from memkit.text.languages import of_characters
from memkit.text.secrets import Mask

if TYPE_CHECKING:
    from memkit.plot import Picture

SAMPLE_SIZE = 2000
"""The number of memories that near-duplicates are estimated from."""
_MOST_CHARS = 20_000_000
"""So many characters are compared as a whole: it takes some six seconds, of vaults of repeated paragraphs."""
_STEPS = 6
"""Besides the queries."""
_FEW, _PART = 1_000, 2_000
"""Memories that are rows of Python, and that have copies of their texts, at the same time."""
_MAX_RULES = 10
# Bounds, as in `formats/linked/links`: a bracket that nothing closes costs little.
_LINK = re.compile(r"(?<!!)\[[^\]\n]{0,200}\]\(\s*<?([^)\s<>]{1,500})>?(?:\s+[\"'(][^\n]{0,200}?)?\s*\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#|\{|\$")
_SCRIPTS = (
    *("Han", "Hiragana", "Katakana", "Hangul", "Arabic", "Hebrew", "Greek", "Armenian", "Georgian", "Thai"),
    *("Devanagari", "Bengali", "Tamil", "Telugu", "Ethiopic", "Khmer", "Lao", "Myanmar", "Tibetan", "Sinhala"),
)
"""Unicode's names of scripts besides Latin and Cyrillic that letters are counted by; of the rest is said ``other``."""
_CLASSES = {
    **{name: rf"\p{{{name}}}" for name in ("Cyrillic", "Latin", *_SCRIPTS)},
    "rest": r"[^\p{Latin}\p{Cyrillic}\P{L}]",
}
_OF_SCRIPTS = ", ".join(f"{{'n': {name}, 's': '{name}'}}" for name in _SCRIPTS)
_TABLES = {
    "kinds_by_month": BY_MONTH,
    "languages": f"""
        select case
                when rest > Cyrillic + Latin then list_max([{_OF_SCRIPTS}, {{'n': 1, 's': 'other'}}]).s
                when Cyrillic > 4 * Latin then 'Cyrillic' when Latin > 4 * Cyrillic then 'Latin'
                when Cyrillic + Latin > 0 then 'both' else 'other' end as letters, count(*) as memories
        from characters group by letters order by memories desc, letters""",  # noqa: S608  # names declared above
    "lengths": """
        select coalesce(kind, 'other') as kind, count(*) as memories, min(length(text)) as shortest,
            median(length(text))::bigint as median, max(length(text)) as longest
        from memories group by all order by kind""",
    "expiring": """
        select expires_at::date as expires, user_id, text, memory_id from memories
        where expires_at >= $until and expires_at::date <= ($as_of + interval 31 day)::date order by all""",
}
_EQUAL_OF_ALL = r"""
    with normalised as (
            select memory_id, text, lower(regexp_replace(trim(text), '\s+', ' ', 'g')) as key from memories),
        duplicates as (select key from normalised where key <> '' group by key having count(*) > 1)
    select count(*) as times, arg_min(text, memory_id) as text, list_sort(list(memory_id))[:5] as memory_ids
    from normalised join duplicates using (key) group by key order by times desc, memory_ids[1]"""
_COUNTS = """
    select count(*) as memories, count(distinct path) as files, count(distinct user_id) as users,
        count(coalesce(created_at, updated_at)) as dated,
        count(*) filter (where expires_at < $until) as expired,
        strftime(min(coalesce(created_at, updated_at)), '%Y-%m-%d') as since,
        strftime(max(coalesce(created_at, updated_at)), '%Y-%m-%d') as until
    from memories
"""


@dataclass(frozen=True, repr=False)
class Overview(Tabular):
    """The result of `overview`.

    Attributes
    ----------
    table : pyarrow.Table
        what (string), count (int64), note (string): one row per finding.
    tables : dict of str to pyarrow.Table
        kinds_by_month, languages, lengths, equal_texts (exact duplicates), near_texts (near-duplicates), empty, links,
        secrets, expiring, problems (the ten most severe rules with what to do), next (suggested calls, and the same as
        commands). Then those that layouts add. Of a host with a memory for each project there is projects, a row each:
        project (its folder as the host calls it), memories, loaded_lines of lines and loaded_units of units of
        MEMORY.md, cut (the first line that the host does not load), dead_links, not_indexed (topics that MEMORY.md does
        not link to), newest, problems, and transcripts, which are counted and not read; null where their folder is
        hidden.
    hide : Mask
        Hides the folder's secrets wherever the overview is shown.
    of_layouts : tuple of str
        The names of the tables that layouts added.
    """

    table: pa.Table
    tables: Mapping[str, pa.Table]
    hide: Mask = field(default_factory=Mask, repr=False, compare=False)
    of_layouts: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return Shown(*self._sheets(), *self._further_sheets())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        rules = self.tables["problems"].select(["severity", "rule", "count", "do"])
        calls = describe(self.tables["next"].select(["why", "call"]), memkit="calls")
        beside = [(f"{name.capitalize()} side by side", self.tables[name]) for name in self.of_layouts]
        sheets = [("What is there", self.table), ("What is wrong", rules), ("What to call next", calls)]
        sheets[1:1] = [(title, table) for title, table in beside if table.num_rows > 1]
        return tuple(self._titled(title, table, rows, show_secrets) for title, table in sheets if table.num_rows)

    def with_commands(self, path: str | Path) -> Overview:
        """The same overview, whose suggestions are commands over `path` instead of calls in Python."""
        following = self.tables["next"]
        quoted = shlex.quote(str(path))
        commands = [command.replace(" PATH", f" {quoted}", 1) for command in following["command"].to_pylist()]
        rows = pa.table({"why": following["why"], "call": commands, "command": commands})
        return replace(self, tables={**self.tables, "next": rows})

    def _further_sheets(self, show_secrets: bool = False) -> list[Sheet]:
        tables = {**self.tables, "kinds_by_month": _by_month(self.tables["kinds_by_month"])}
        names = [name for name in tables if name not in ("next", *self.of_layouts) and tables[name].num_rows]
        return [self._titled(name.replace("_", " "), tables[name], ROWS, show_secrets) for name in names]

    def _titled(self, title: str, table: pa.Table, rows: int, show_secrets: bool) -> Sheet:
        sheet = sheet_of(table, rows, show_secrets)
        return replace(sheet, heading=title, hide=sheet.hide and sheet.hide | self.hide)

    def report(self, path: str | Path, title: str = "Overview of a memory folder") -> Path:
        """Write the overview as one self-contained HTML page, for light and dark screens.

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
        first = self._sheets()
        shown = Shown(*first, *self._further_sheets())
        above, below = (as_html(*sheets) for sheets in (shown.sheets[: len(first)], shown.sheets[len(first) :]))
        return write_page(path, title, above + shown.hide.in_html(self.plot().in_html()) + below)

    def plot(self) -> Picture:
        """How many memories were created in each month, by kind: `mk.plot.growth`.

        Examples
        --------
        >>> import memkit as mk
        >>> found = overview(mk.from_table({"text": ["чай"], "created_at": ["2026-01-05"]}), as_of="2026-03-01")
        >>> print(found.plot())
        memories by month, 0 without a date
        2026-01  ████████████████████ 1
        """
        from memkit import plot

        return plot.growth(self.tables["kinds_by_month"])


def overview(corpus: Corpus, *, exact: bool = False, as_of: AsOf = None) -> Overview:
    """An overview of a folder: what it holds, what is wrong with it, and three calls to make next.

    Parameters
    ----------
    corpus : Corpus
        From `memkit.read`, `memkit.from_table` or `memkit.open`.
    exact : bool
        Look for near-duplicates among all texts. By default that is done up to 20,000,000 characters; beyond, in a
        sample of 2,000 texts chosen by the hash of their ids.
    as_of : str, date, datetime or None
        The day that expiry is computed for; None is now. Kept in the table's schema metadata.

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
    moment = Moment.from_as_of(as_of)
    # As Arrow's own columns: to ask the corpus's database of them, it would copy all texts first.
    memories, relations = corpus.memories, corpus.tables["relations"]
    with bar("overview", total=len(_TABLES) + _STEPS, unit="step", leave=False) as step:
        tables, characters = dict[str, pa.Table](), _characters(memories)
        step.update()
        for name, sql in _TABLES.items():
            tables[name] = rows_of(with_moments(sql, moment), memories=memories, characters=characters)
            step.update()
        duplicates = _duplicates(memories, exact)
        tables["near_texts"] = duplicates.near
        step.update()
        is_complete = duplicates.is_complete  # else equal texts are those among all
        tables["equal_texts"] = duplicates.equal if is_complete else _equal_of_all(memories, characters["mark"])
        step.update()
        del characters
        parts = [without_text(memories.slice(start, _PART)) for start in range(0, len(memories), _PART)]
        empty = memories.filter(pa.array(np.concatenate([np.empty(0, bool), *parts])))
        tables["empty"] = empty.select(["memory_id", "title", "path", "line_start"]).sort_by("memory_id")
        step.update()
        dead = relations.select(["memory_id", "written", "line"]).filter(pc.equal(relations["state"], "dead"))
        few = memories.select(["memory_id", "path", "format"])
        few = few.filter(pc.is_in(few["memory_id"], value_set=pc.unique(dead["memory_id"])))
        pages = rows_of(_DEAD_OF_PAGES, memories=few, dead=dead)
        tables["links"] = pa.concat_tables([pages, _dead_files(corpus)])
        of_layouts = {name: table(corpus) for name, table in OVERVIEWS.all()}
        step.update()
        tables["secrets"], hide = secrets_in(memories)
        step.update()
    tables["problems"] = _worst(pa.concat_tables([corpus.problems, tables["secrets"]]))
    counts = rows_of(with_moments(_COUNTS, moment), memories=memories).to_pylist()[0]
    rows = _findings(counts, tables, corpus, duplicates)
    tables["next"] = pa.Table.from_pylist(_next(tables, counts, corpus, duplicates))
    table = pa.Table.from_pylist([dict(zip(("what", "count", "note"), row, strict=True)) for row in rows])
    described = describe(table, memkit="overview", as_of=moment, **corpus.revision)
    return Overview(described, {**tables, **of_layouts}, hide, tuple(of_layouts))


def _by_month(counts: pa.Table) -> pa.Table:
    """One row per month, newest first, and one column per kind, most frequent first."""
    rows = counts.to_pylist()
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["kind"]] = totals.get(row["kind"], 0) + row["memories"]
    cells = {(row["month"], row["kind"]): row["memories"] for row in rows}
    months = sorted({row["month"] for row in rows}, key=lambda month: (month[:1].isdigit(), month), reverse=True)
    kinds = sorted(totals, key=lambda kind: (-totals[kind], kind))
    columns = {kind: [cells.get((month, kind)) for month in months] for kind in kinds}
    return pa.table({"month": pa.array(months, pa.string()), **columns})


@dataclass(frozen=True)
class _Duplicates:
    """What `Deduplicator` finds by letters, among all texts or in a sample.

    Attributes
    ----------
    near : pyarrow.Table
        The pairs that merge and are not equal.
    equal : pyarrow.Table
        The texts that several memories have: times, text, memory_ids (the first five).
    counts : dict of str to int
        Its `report`.
    in_logs : int
        How many of the memories that it would remove lie in files that are only appended to.
    compared, of : int
        How many memories it looked at, and how many there are.
    """

    near: pa.Table
    equal: pa.Table
    counts: dict[str, int]
    in_logs: int
    compared: int
    of: int

    @property
    def is_complete(self) -> bool:
        """Whether all texts were compared."""
        return self.compared == self.of

    @property
    def words_of_equal(self) -> str:
        """What is not counted among equal texts."""
        n = self.counts["owner"]
        if not self.is_complete:
            return "not counting the first of each; whoever they are about"
        return "not counting the first of each" + (f", nor {n:,} of another store or subject" if n else "")

    @property
    def words(self) -> str:
        """What a plan does with them, and what it was counted from."""
        n = self.counts["refused"]
        of = "" if self.is_complete else f"equal texts alone; near ones too, {n:,} in the sample of {self.compared:,}"
        logs = f"{self.in_logs:,} of {n:,} lie in logs, which no plan cuts: search folds them" if self.in_logs else ""
        return "; ".join(filter(None, (of, logs)))


def _duplicates(memories: pa.Table, exact: bool) -> _Duplicates:
    """The duplicates among all texts or a sample."""
    from memkit.policy.dedup.deduplicator import Deduplicator

    is_short = (pc.sum(pc.utf8_length(memories["text"])).as_py() or 0) <= _MOST_CHARS
    rows = memories
    if not exact and not is_short:  # to take rows would copy all texts into one array first
        places = [place(memory_id) for ids in memories["memory_id"].chunks for memory_id in ids.to_pylist()]
        is_drawn = np.zeros(len(places), bool)
        is_drawn[np.argsort(places, kind="stable")[:SAMPLE_SIZE]] = True
        rows = memories.filter(pa.array(is_drawn))
    dedup = Deduplicator(encoder=None).fit(rows)
    judged = dedup.transform(rows)
    going = judged.filter(pc.invert(judged["keep"]))
    in_logs = pc.sum(pc.is_in(going["kind"], value_set=pa.array(APPEND_ONLY))).as_py() or 0
    counts = dict(tuples_of(dedup.report(), "measure", "count"))
    merging = dedup.merging_pairs()
    near = merging.filter(pc.not_equal(merging["kind"], "exact")).select(["similarity", "a_id", "b_id"])
    copies = rows_of(_EQUAL, exact=merging.filter(pc.equal(merging["kind"], "exact")), memories=rows)
    texts = pc.utf8_slice_codeunits(rows["text"], 0, _SHOWN_CHARS)
    for name, side in (("one", "a_id"), ("other", "b_id")):
        near = near.append_column(name, texts.take(pc.index_in(near[side], value_set=rows["memory_id"])))
    near = near.sort_by([("similarity", "descending"), ("a_id", "ascending"), ("b_id", "ascending")])
    near = near.select(["similarity", "one", "other", "a_id", "b_id"])
    return _Duplicates(near, copies, counts, in_logs, len(rows), len(memories))


def _characters(memories: pa.Table) -> pa.Table:
    """How many characters of each class each text has, and a mark; texts that are not the same but for blanks, case and
    the order of their characters have different marks, so that few have to be written anew to be compared.
    """
    parts = (memories["text"].slice(start, _PART).to_pylist() for start in range(0, len(memories), _PART))
    texts = (text or "" for part in parts for text in part)
    counted = of_characters(texts, len(memories), [*_CLASSES.values(), _marks])
    return pa.table(dict(zip((*_CLASSES, "mark"), counted, strict=True)))


def _marks(characters: pa.StringArray) -> np.ndarray:
    marks = [0 if character.isspace() else place(character.lower()[0]) for character in characters.to_pylist()]
    return np.array(marks, np.uint64).view(np.int64)


def _equal_of_all(memories: pa.Table, marks: pa.ChunkedArray) -> pa.Table:
    """The texts that several of many memories have; only those whose marks are equal are compared as a whole."""
    _, places, counts = np.unique(marks, return_inverse=True, return_counts=True)
    return rows_of(_EQUAL_OF_ALL, memories=memories.select(["memory_id", "text"]).filter(pa.array(counts[places] > 1)))


_SHOWN_CHARS = 300
_EQUAL = """
    with grouped as (select a_id, list_sort(list(b_id)) as others from exact group by a_id)
    select 1 + length(others) as times, text, list_concat([a_id], others)[:5] as memory_ids
    from grouped join memories on memory_id = a_id
    order by times desc, a_id
"""


_DEAD_OF_PAGES = r"""
    select if(contains(written, ']('), regexp_extract(written, '\]\(\s*<?([^)\s<>]+)', 1), written) as target,
        path, dead.line, memory_id
    from dead join memories using (memory_id)
    where written is not null and format = 'workspace'
    order by path, line, target"""
"""The links of pages that lead to no page of the folder: each is a problem, ``dead_link``."""


def _dead_files(corpus: Corpus) -> pa.Table:
    """Links to files of the folder that do not exist, where no reader resolves them: those of memories that are no
    pages, and to files that are none. Links out of the folder are not checked.
    """
    exists = _path_check(corpus)
    rows = []
    names = ("memory_id", "path", "line_start", "text", "format", "layout")
    few = corpus.memories.select(list(names)).to_batches(max_chunksize=_FEW)
    linked = (batch.filter(pc.match_substring(batch["text"], "](")).to_pylist() for batch in few)
    for row in (row for rows_of_batch in linked for row in rows_of_batch):
        code, is_page = fences(row["text"]), row["format"] == "workspace" and row["layout"] is not None
        for line, words in enumerate(row["text"].split("\n"), 1):
            if "](" not in words or line in code:
                continue
            for target in _LINK.findall(words):
                is_resolved = is_page and any(is_relation(link) for link in links_in(f"[]({target})"))
                if not is_resolved and _is_dead(target, row["path"] or "", exists):
                    number = row["line_start"] + line - 1 if row["line_start"] else None
                    rows.append({"target": target, "path": row["path"], "line": number, "memory_id": row["memory_id"]})
    kinds = {"target": pa.string(), "path": pa.string(), "line": pa.int64(), "memory_id": pa.string()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))


def _is_dead(target: str, path: str, exists: Callable[[str], bool]) -> bool:
    if _SCHEME.match(target):
        return False
    name = unquote(re.split(r"[#?]", target, maxsplit=1)[0])
    if not name or name.startswith("/") or "\0" in name:
        return False
    linked = posixpath.normpath(posixpath.join(posixpath.dirname(path), name.replace("\\", "/")))
    return not (linked.startswith("..") or exists(linked) or exists(posixpath.normpath(name)))


def _path_check(corpus: Corpus) -> Callable[[str], bool]:
    """A test whether a path below the root exists: on disk if the folder is known, else among the files read."""
    root = corpus.root
    if root is not None and root.is_dir() and not corpus.revision:
        return lambda path: os.path.lexists(root / path)
    paths = {path for path in pc.unique(corpus.memories["path"]).to_pylist() if path}
    if root is not None and corpus.revision:
        paths.update(files_of(corpus))
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    return lambda path: path in paths or path in folders


def _worst(problems: pa.Table) -> pa.Table:
    """One row per rule, most severe first: how often it was broken, what to do, and one message in full."""
    rows: dict[str, dict[str, Any]] = {}
    for problem in problems.select(["severity", "rule", "message"]).to_pylist():
        row = rows.setdefault(problem["rule"], {**problem, "count": 0})
        row["count"] += 1
    ordered = sorted(rows.values(), key=lambda row: (DEGREES.index(row["severity"]), -row["count"], row["rule"]))
    listed = [{**row, "do": ADVICE.get(row["rule"]) or _WHERE.sub("", row["message"])} for row in ordered[:_MAX_RULES]]
    names = ("severity", "rule", "count", "do", "message")
    kinds = [(name, pa.int64() if name == "count" else pa.string()) for name in names]
    rules = pa.Table.from_pylist(listed, schema=pa.schema(kinds))
    if len(ordered) <= _MAX_RULES:
        return rules
    note = f"the {_MAX_RULES} most severe of {len(ordered)} rules; corpus.problems and memkit check have all"
    return describe(rules, note=note)


_WHERE = re.compile(r"^\S*: ")


def _findings(
    counts: dict[str, Any], tables: dict[str, pa.Table], corpus: Corpus, duplicates: _Duplicates
) -> list[tuple[str, int, str]]:
    size, dated, n_secrets = counts["memories"], counts["dated"], tables["secrets"].num_rows
    problems = [*corpus.problems["severity"].to_pylist(), *tables["secrets"]["severity"].to_pylist()]
    kinds = pc.value_counts(pc.fill_null(corpus.memories["kind"], "other")).to_pylist()
    kinds.sort(key=lambda row: (-row["counts"], row["values"]))
    letters = ", ".join(f"{row['memories']} {row['letters']}" for row in tables["languages"].to_pylist())
    lengths: list[dict[str, Any]] = tables["lengths"].to_pylist()
    longest: dict[str, Any] = max(lengths, key=lambda row: row["longest"], default={"longest": 0, "kind": ""})
    copies = (pc.sum(tables["equal_texts"]["times"]).as_py() or 0) - tables["equal_texts"].num_rows
    near = duplicates.near.num_rows
    repeating = duplicates.counts["refused"] if duplicates.is_complete else copies
    scale = (duplicates.of / max(duplicates.compared, 1)) ** 2
    estimate = f"estimated: {near:,} in a sample of {duplicates.compared:,} by hash; exact=True compares all"
    how = ["all compared" if duplicates.is_complete else estimate]
    # Repeated text is told beside the equal ones.
    if n_apart := duplicates.counts["never_merging"] - duplicates.counts["owner"]:
        how.append(f"{n_apart:,} more are alike and differ in what counts, so that none is a duplicate")
    users = f", of {count_of(counts['users'], 'user')}" if counts["users"] else ""
    n_dead = pc.sum(pc.equal(corpus.problems["rule"], "dead_link")).as_py() or 0
    of_pages = f"{n_dead:,} of pages, which are problems"
    return [
        ("memories", size, f"in {count_of(counts['files'], 'file')}{users}"),
        ("kinds", len(kinds), ", ".join(f"{row['counts']} {row['values']}" for row in kinds[:6])),
        ("dated", dated, f"from {counts['since']} to {counts['until']}" if dated else ""),
        ("undated", size - dated, "not affected by decay" if size > dated else ""),
        ("letters", tables["languages"].num_rows, letters),
        ("longest, characters", longest["longest"], longest["kind"]),
        ("empty below the heading", tables["empty"].num_rows, "not searched" if tables["empty"].num_rows else ""),
        ("exact duplicates", copies, duplicates.words_of_equal if copies or duplicates.counts["owner"] else ""),
        ("near-duplicate pairs", round(near * scale), "; ".join(how)),
        ("memories that repeat another", repeating, duplicates.words),
        ("dead links", tables["links"].num_rows, of_pages if 0 < n_dead < tables["links"].num_rows else ""),
        ("secrets", tables["secrets"].num_rows, "masked where shown" if tables["secrets"].num_rows else ""),
        ("expired", counts["expired"], "hidden from a search" if counts["expired"] else ""),
        ("expire within 31 days", tables["expiring"].num_rows, ""),
        ("problems", len(problems), tally(problems) + (f"; secrets: {n_secrets:,}" if n_secrets else "")),
    ]


def _next(
    tables: dict[str, pa.Table], counts: dict[str, Any], corpus: Corpus, duplicates: _Duplicates
) -> list[dict[str, str]]:
    """The three most useful calls for this folder, in Python and as commands over ``PATH``."""
    topic = _topic(corpus)
    calls = []
    if tables["secrets"].num_rows:
        secrets = "mk.show(mk.overview(corpus).tables['secrets'])"
        calls.append(("where the secrets are", secrets, "check PATH --secrets"))
    if "error" in corpus.problems["severity"].to_pylist():
        calls.append(("every problem, most severe first", "mk.show(corpus.problems)", "check PATH"))
    problems = list(calls)
    search = f"mk.Retriever().fit(corpus).search({topic!r})"
    calls.append(("search it", search, f"search PATH {shlex.quote(topic)}"))
    if counts["expired"]:
        calls.append(("which memories have expired", "mk.Expiry().transform(corpus)", "policy expiry PATH"))
    if duplicates.counts["refused"] > duplicates.in_logs:
        dedup = "mk.Deduplicator().fit(corpus).transform(corpus)"
        why = "exact and near-duplicates" + (f" ({duplicates.words})" if duplicates.in_logs else "")
        calls.append((why, dedup, "policy deduplicator PATH"))
    calls.append(("ready-made SQL queries", "mk.named_queries()", "queries"))
    query = "select kind, count(*) from memories group by all"
    calls.append(("any other question", f"corpus.sql({query!r})", f"sql PATH {shlex.quote(query)}"))
    if not corpus.memories.num_rows:
        whole = "mk.overview(mk.read(path, hidden='all'))"
        calls = [*problems, ("what lies in hidden files and folders", whole, "overview PATH --hidden all")]
    return [{"why": why, "call": call, "command": f"memkit {command}"} for why, call, command in calls[:3]]


def _topic(corpus: Corpus) -> str:
    """A title to search for: that of the first memory whose title has two words or more."""
    titles = rows_of(
        r"select title from memories where length(title) < 60 and regexp_matches(title, '^\p{L}{3,}( \p{L}{3,})+$')"
        " order by memory_id limit 1",
        memories=corpus.memories,
    )["title"].to_pylist()
    return str(titles[0]) if titles else "…"
