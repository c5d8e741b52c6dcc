"""The limits that documents set. Quota and expiry, of facts (Memory v2): how many there may be of a kind and in total,
and for how long. Of the index standard: which entries are valid, missing or invalid (section 4), and a plan of the
files that would replace a large one (section 5). And decay, as a policy: the age of each memory and the factor for its
score; `memkit.tables.age` has the formulas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_unicode, rows_of
from memkit.base.fences import fences, headings
from memkit.base.params import AsOf, Moment, Reach, as_of_time, estimator, param
from memkit.documents import cite
from memkit.errors import count_of
from memkit.formats.spelling import loose_words, text_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import scalar
from memkit.policy.base import VERDICT, Policy, document_param, kind_in, needed, only_kept
from memkit.schemas import TABLES, check_kinds, column, kinds_where, table
from memkit.tables.age import (
    DECAY_KINDS,
    FORMS,
    age_sql,
    decay_reach,
    decay_sql,
    decaying,
    decays_sql,
    expired_sql,
    factor_sql,
)
from memkit.tables.corpus import Corpus
from memkit.tables.statement import Annotator, as_table, input_table
from memkit.text.chunk import Counter, checked_counter, count_tokens, counter_param


def _ending(policy: Any, table: Any) -> Reach:
    """How many memories have a last day."""
    ends = input_table(as_table(table), Expiry.needs)["expires_at"]
    return Reach(len(ends) - ends.null_count, len(ends), "none has a last day (expires_at)", "grace_days")


@estimator
class Expiry(Policy):
    """Refuses memories whose end (``expires_at``) is past: a day's end, or the named time; without one none expires.

    Neither ``stale_at`` nor ``status`` counts: a stale memory is to be checked again, and stays.

    Adds ``keep`` (bool) and ``reason`` (string, ``expired``).

    Examples
    --------
    >>> table = pa.table({"text": ["старое", "today"], "expires_at": ["2026-02-28", "2026-03-01"]})
    >>> Expiry().transform(table, as_of="2026-03-01T23:59").column("keep").to_pylist()
    [False, True]
    """

    by_user = True
    needs: ClassVar[pa.Schema] = needed("kind", "expires_at")
    adds: ClassVar[dict[str, str]] = VERDICT

    grace_days: int = param(
        0,
        low=0,
        high=3_652_059,  # from the year 1 to 9999
        unit="days",
        doc="Days that a memory is kept after its last day.",
        acts_on=_ending,
        source=cite("memory_v2", "expiry"),
    )

    def _sql(self) -> str:
        expired = expired_sql(self.grace_days)
        return f"""select *,
    reason is null as keep
from (
    select *,
        case when {expired} and not {only_kept()} then 'expired' end as reason
    from input
)"""  # noqa: S608  # declared parameters only

    def cleanup(self, table: Any, as_of: AsOf = None) -> pa.Table:
        """The rows that a cleanup job would remove on a day, with the reason; nothing is removed.

        Returns
        -------
        pyarrow.Table
            The rows of ``transform`` that are not kept, in order.
        """
        judged = self.transform(table, as_of)
        return judged.filter(pa.compute.invert(judged["keep"]))


_param = partial(document_param, "quota")
_QUOTA = Path(__file__).with_name("quota.sql").read_text(encoding="utf-8").rstrip()
# Nothing of unknown age counts as fresh, and undated facts follow the order of their file.
_OLDEST_FIRST = "dated nulls first, path, line_start, case when dated is null then row end, memory_id, row"


@estimator
class Quota(Policy):
    """Refuses profile and working facts over their limit and evicts archive facts over the total.

    Adds ``keep`` (bool), ``reason`` (string, ``limit`` or ``evicted``), ``evict_rank`` (int64, the order of eviction
    within the user, 1 goes first; null where the user is within the total, or the fact is never evicted) and
    ``over_limit`` (int64, by how many facts the user stays over the total, since high importance is never evicted).

    Over the limit of a kind, the oldest facts are kept and the newest refused, as if they were saved one by one. Over
    the total, archive facts of low importance are evicted before normal ones, the oldest first. Expired facts and kinds
    that are not facts do not count. Age follows ``updated_at``, else ``created_at``; a future date counts as `as_of`,
    and a missing one as the oldest, in the order of the file (``path``, ``line_start``, else the row). A user's newest
    fact is never evicted: it was just saved, and a full archive could otherwise never take a fact of low importance.
    Rows without ``user_id`` count as one user. A fact that is superseded, deprecated or stale counts as any other: it
    takes as much room, until it is removed.

    Examples
    --------
    >>> table = pa.table({"kind": ["archive"] * 3, "importance": ["low", "normal", "low"]})
    >>> Quota(max_facts=2).transform(table).column("reason").to_pylist()
    ['evicted', None, None]
    """

    by_user = True
    for_facts = True
    needs: ClassVar[pa.Schema] = needed(
        *("memory_id", "user_id", "kind", "importance", "created_at", "updated_at", "expires_at", "path", "line_start")
    )
    adds: ClassVar[dict[str, str]] = VERDICT | {
        "evict_rank": "order of eviction within the user, 1 goes first",
        "over_limit": "facts by which the user stays over the total; facts",
    }

    max_facts: int = _param("max_facts", "Limit of all facts of a user.", low=0, unit="facts")
    max_profile: int = _param("max_profile", "Limit of profile facts of a user.", low=0, unit="facts")
    max_working: int = _param("max_working", "Limit of working facts of a user.", low=0, unit="facts")

    def _sql(self) -> str:
        return _QUOTA.format(
            profile=int(self.max_profile),
            working=int(self.max_working),
            most=int(self.max_facts),
            counted=kind_in(kinds_where(counted=True)),
            expired=expired_sql(),
            oldest_first=_OLDEST_FIRST,
        )


_SOURCE = cite("index_standard", "validation")


@estimator
class IndexCheck(Policy):
    """Judges the rows of ``entries``, also of a corpus; pinned entries are never removed.

    Here ``status`` is that of the entry (whether its file exists), not the status that a page gives itself.

    Adds ``keep`` (bool, the entry is valid), ``reason`` (string, ``missing`` or ``invalid``) and ``would_remove``
    (bool). The entry's own ``reason`` is kept as ``given_reason``.

    Examples
    --------
    >>> entries = pa.table({"status": ["valid", "missing", "missing"], "pinned": [False, False, True]})
    >>> IndexCheck(auto_clean_missing=True).transform(entries).column("would_remove").to_pylist()
    [False, True, False]
    """

    over: ClassVar[str] = "entries"
    needs: ClassVar[pa.Schema] = pa.schema([TABLES["entries"].field(name) for name in ("status", "pinned")])
    adds: ClassVar[dict[str, str]] = VERDICT | {"would_remove": "an automatic cleaning would delete the entry"}

    auto_clean_invalid: bool = param(False, doc="Remove entries that are invalid.", source=_SOURCE)
    auto_clean_missing: bool = param(False, doc="Remove entries whose file is missing.", source=_SOURCE)

    def _sql(self) -> str:
        chosen = {"invalid": self.auto_clean_invalid, "missing": self.auto_clean_missing}
        cleaned = " or ".join(f"reason = '{status}'" for status, on in chosen.items() if on) or "false"
        return f"""select *,
    reason is null as keep,
    reason is not null and ({cleaned}) and not coalesce(pinned, false) as would_remove
from (
    select *,
        case when status in ('missing', 'invalid') then status end as reason
    from input
)"""  # noqa: S608  # declared parameters only


_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")

_FIELDS = (
    *("title", "file", "tags", "priority", "version", "updated", "summary", "context_priority"),
    *("pinned", "access_count", "edit_count"),
)
PLAN = table(
    pa.field("memory_id", pa.string()),
    pa.field("path", pa.string()),
    column("what", pa.string(), "part; of a corpus also index and entry"),
    column("part", pa.int64(), "1-based; null for index and entry"),
    column("file", pa.string(), "where it would be written"),
    column("line_start", pa.int64(), "first line, 1-based: of a part, in what is split"),
    column("line_end", pa.int64(), "last line, inclusive"),
    pa.field("tokens", pa.int64(), metadata={"unit": "tokens"}),
    column("text", pa.string(), "what would be written; of an entry, its JSON"),
)


@estimator
class SplitPlan(Policy):
    """Plans the parts of texts that exceed a number of tokens; the joined parts equal the text, byte for byte.

    Texts are cut at headings, sections over the limit at blank lines, and paragraphs over it at line ends. A code fence
    is cut only if it exceeds the limit itself. A line is never cut, so a part that is one long line may exceed the
    limit, as its ``tokens`` show.

    For a corpus read from a folder, the policy judges whole Markdown files, front matter included, and leaves out files
    that are split already. For any other corpus or table it judges the rows.

    Adds ``keep`` (bool, the file stays one), ``reason`` (string, ``too_long``), ``tokens`` and ``parts`` (int64).

    Examples
    --------
    >>> plan = SplitPlan(max_tokens_per_file=4)
    >>> plan.parts("# Один\\nтекст\\n# Два\\nещё\\n")
    ['# Один\\nтекст\\n', '# Два\\nещё\\n']
    >>> table = pa.table({"memory_id": ["m"], "path": ["notes/note.md"], "text": ["# Один\\nтекст\\n# Два\\nещё\\n"]})
    >>> plan.plan(table).select(["file", "line_start", "line_end"]).to_pylist()[1]
    {'file': 'notes/note/part2.md', 'line_start': 3, 'line_end': 4}
    """

    needs: ClassVar[pa.Schema] = needed("memory_id", "path", "text", "kind")
    adds: ClassVar[dict[str, str]] = VERDICT | {"tokens": "length of the text; tokens", "parts": "files it would be"}

    reads: ClassVar[tuple[str, ...]] = ("plans",)

    max_tokens_per_file: int = param(
        4096, low=1, unit="tokens", doc="Split texts with more tokens.", source=cite("index_standard", "splitting")
    )
    counter: Counter | None = counter_param()

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        """Token counts and parts of each row, computed in Python, since SQL cannot call the user's counter."""
        texts = [text or "" for text in rows["text"].to_pylist()]
        counts = {"tokens": [self.count(text) for text in texts], "parts": [len(self.parts(text)) for text in texts]}
        return {"plans": pa.table({"row": rows["row"]} | {n: pa.array(c, pa.int64()) for n, c in counts.items()})}

    def _sql(self) -> str:
        return f"""select input.*, plans.tokens, plans.parts,
    plans.tokens <= {int(self.max_tokens_per_file)} or {only_kept()} as keep,
    case when not keep then 'too_long' end as reason
from input join plans using (row)"""  # noqa: S608  # declared parameters only

    def plan(self, table: Any, as_of: AsOf = None) -> pa.Table:
        """The files that would replace each text over the limit: memory_id, path, what, part, file, lines, text.

        The parts of ``note.md`` are ``note/part1.md`` and so on, with their line ranges. For a corpus, each split also
        has a row for ``note/index.md`` (``updated`` is the day of `as_of`) and one for the index entry that names it.
        """
        rows = input_table(self._source(table), self.needs)
        entries = _entries(table) if isinstance(table, Corpus) else None
        planned: list[dict[str, Any]] = []
        for row in rows.to_pylist():
            parts = self.parts(row["text"] or "")
            if len(parts) > 1:
                planned += self._rows(row, parts)
                if entries is not None:
                    planned += self._index(row, parts, entries.get(row["path"]), as_of_time(as_of).date())
        return pa.Table.from_pylist(planned, schema=PLAN)

    def _source(self, table: Any) -> pa.Table:
        return super()._source(_whole_files(table) if isinstance(table, Corpus) and table.has_folder else table)

    def parts(self, text: str) -> list[str]:
        """The parts of a text, whole lines; one part where the text is within the limit."""
        if self.count(text) <= self.max_tokens_per_file:
            return [text]
        return self._packed(_sections(text), (_paragraphs, _blocks, _lines))

    def _packed(self, pieces: list[str], finer: tuple[Callable[[str], list[str]], ...]) -> list[str]:
        """Join neighbouring pieces while they fit; a piece that is too long is cut at the next finer level."""
        parts = [""]
        for piece in pieces:
            if self.count(parts[-1] + piece) <= self.max_tokens_per_file:
                parts[-1] += piece
            elif finer and self.count(piece) > self.max_tokens_per_file:
                parts += self._packed(finer[0](piece), finer[1:])
            else:
                parts.append(piece)
        return [part for part in parts if part]

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return count_tokens(text) if self.counter is None else checked_counter(self.counter, "SplitPlan")(text)

    def _rows(self, row: dict[str, Any], parts: list[str]) -> Iterator[dict[str, Any]]:
        line, folder = 1, PurePosixPath(row["path"] or "note.md").with_suffix("")
        for number, part in enumerate(parts, start=1):
            lines = len(_lines(part))
            where = {"what": "part", "part": number, "file": str(folder / f"part{number}.md")}
            yield self._row(row, where, part) | {"line_start": line, "line_end": line + lines - 1}
            line += lines

    def _row(self, row: dict[str, Any], where: dict[str, Any], text: str) -> dict[str, Any]:
        ids = {name: row[name] for name in ("memory_id", "path")}
        return {
            **ids,
            **where,
            "line_start": 1,
            "line_end": len(_lines(text)),
            "tokens": self.count(text),
            "text": text,
        }

    def _index(
        self, row: dict[str, Any], parts: list[str], entry: dict[str, Any] | None, day: date
    ) -> Iterator[dict[str, Any]]:
        """The rows of a split file's ``index.md``, and of the entry that names it."""
        path = PurePosixPath(row["path"])
        names = [f"part{number}.md" for number in range(1, len(parts) + 1)]
        text = split_head(row["path"], row["text"], entry, names, self.count(row["text"]), day)
        yield self._row(row, {"what": "index", "file": str(path.with_suffix("") / "index.md")}, text)
        if entry:
            fields = {name: entry[name] for name in _FIELDS if entry[name] is not None} | json.loads(entry["extra"])
            fields["file"] = str(PurePosixPath(entry["file"]).with_suffix("") / "index.md")
            fields["updated"] = entry["updated"] and entry["updated"].date().isoformat()
            text = json.dumps({key: value for key, value in fields.items() if value is not None}, ensure_ascii=False)
            where = {"what": "entry", "file": entry["index_path"]}
            yield self._row(row, where, text) | {"line_start": entry["line"], "line_end": entry["line"]}


def split_head(path: str, text: str, entry: dict[str, Any] | None, parts: list[str], tokens: int, day: date) -> str:
    """The text of ``index.md`` for the file at `path`, split into `parts`."""
    head = {
        "title": scalar((entry and entry["title"]) or _title(text) or PurePosixPath(path).stem, prose=True),
        "parts": f"[{', '.join(parts)}]",
        "tokens_total": tokens,
        "split": "auto",
        "updated": day.isoformat(),
    }
    return "".join(["---\n", *(f"{key}: {value}\n" for key, value in head.items()), "---\n"])


def _entries(corpus: Corpus) -> dict[str, dict[str, Any]]:
    """The entries, by their file."""
    return {entry["path"]: entry for entry in corpus.tables["entries"].to_pylist() if entry["path"]}


def _whole_files(corpus: Corpus) -> pa.Table:
    """The Markdown files of a corpus that are not split already, each with the id of its first memory."""
    texts = corpus.markdown_files().to_pylist()
    split_paths: set[str] = set()
    for row in texts:
        folder, _, name = row["path"].rpartition("/")
        front = front_matter.split(row["text"]) if name == "index.md" else None
        if front and front.fields.get("parts"):
            parts = loose_words(front.fields["parts"])
            split_paths |= {row["path"], *(f"{folder}/{part}".removeprefix("/") for part in parts)}
    ids = dict(zip(*(corpus.memories[name].to_pylist()[::-1] for name in ("path", "memory_id")), strict=True))
    kept = [{**row, "memory_id": ids[row["path"]]} for row in texts if row["path"] not in split_paths]
    return pa.Table.from_pylist(kept, schema=needed("memory_id", "path", "text"))


def _title(text: str) -> str | None:
    """The title of a file: from its front matter, else its first heading."""
    front = front_matter.split(text)
    body = text[front.body_at :] if front else text
    first = next(headings(body, fences(body)), None)
    return (text_of(front.fields.get("title")) if front else None) or (first.text if first else None)


def _lines(text: str) -> list[str]:
    return _LINE.findall(text)


def _sections(text: str) -> list[str]:
    """Cut before each heading that is not inside a code fence."""
    return _cut(text, lambda line, blank: bool(_HEADING.match(line)))


def _paragraphs(text: str) -> list[str]:
    """Cut after each run of blank lines that is not inside a code fence."""
    return _cut(text, lambda line, blank: blank and bool(line.strip()))


def _blocks(text: str) -> list[str]:
    """Each line, and each code fence in one piece."""
    return _cut(text, lambda line, blank: True)


def _cut(text: str, opens: Callable[[str, bool], bool]) -> list[str]:
    """Pieces of whole lines; `opens(line, is a blank line above)` starts a new one, but never inside a fence."""
    pieces: list[list[str]] = []
    code, blank = fences(text), False
    for number, line in enumerate(_lines(text), 1):
        if not pieces or (opens(line, blank) and not code.would_part(number)):
            pieces.append([])
        pieces[-1].append(line)
        blank = not line.strip()
    return ["".join(piece) for piece in pieces]


_DATED = "coalesce(updated_at, created_at)"
_NEEDS = ("kind", "importance", "created_at", "updated_at")
_OF_DECAY = cite("memory_v2", "decay")


def _reach(policy: Any, table: Any) -> Reach:
    """How many memories of a table decay by the parameters of `policy`."""
    return _reaches(table, policy.decay, policy.decay_kinds)[0]


def _reaches(table: Any, form: str, *every_kinds: Sequence[str]) -> list[Reach]:
    """How many memories of a table decay, where these kinds do."""
    rows = input_table(as_table(table), Decay.needs)
    is_dated = pc.is_valid(pc.coalesce(rows["updated_at"], rows["created_at"]))
    pairs = pa.table({"kind": rows["kind"], "importance": rows["importance"], "is_dated": is_dated})
    groups = pairs.group_by(pairs.column_names).aggregate([([], "count_all")])
    dated, counts = (groups[name].to_numpy() for name in ("is_dated", "count_all"))
    decays, reaches = decaying(groups), []
    for kinds in every_kinds:
        is_named = pc.is_in(groups["kind"], value_set=pa.array([*kinds], pa.string())).to_numpy()
        reaches.append(decay_reach(form, kinds, decays, dated, is_named | ("*" in kinds), counts))
    return reaches


@estimator
class Decay(Annotator):
    """Shows the age and the decay factor of every memory; search multiplies scores by the factor. Nothing is dropped.

    Adds ``keep`` (bool, always true), ``reason`` (string: ``future`` for a date after `as_of`, else null), ``age_days``
    (float64, days), ``factor`` (float64, above 0, at most 1) and ``note`` (string). The note is null for memories that
    decay, ``future`` for a date after `as_of` (age 0), ``undated`` for a missing date (age null, factor 1), else
    ``exempt``.

    Only age counts, not the status of a memory: search has a separate factor for stale memories.

    Examples
    --------
    >>> table = pa.table({"text": ["архив"], "kind": ["archive"], "created_at": ["2026-01-01"]})
    >>> Decay(decay="half_life").transform(table, as_of="2026-03-02").column("factor").to_pylist()
    [0.5]
    """

    by_user = True
    told_by = "mk.audit(search, only='horizon') shows which hits drop out of a search by age, and when."
    needs: ClassVar[pa.Schema] = pa.schema([TABLES["memories"].field(name) for name in _NEEDS])
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: decay only changes scores",
        "reason": "future for a date after as_of, else null",
        "age_days": "as_of minus updated_at (else created_at); days",
        "factor": "the factor that scores are multiplied by; ratio",
        "note": "why it does not decay: future, undated or exempt",
    }

    decay: str = param(
        "e_folding",
        choices=FORMS,
        doc="Formula of the decay curve.",
        source=_OF_DECAY,
        acts_on=lambda policy, table: None if policy.decay == "none" else _reach(policy, table),
    )
    decay_days: float = param(
        60.0,
        low=0,
        low_open=True,
        unit="days",
        doc="Age at which the factor is 0.5, or 0.37 with e_folding.",
        source=_OF_DECAY,
        acts_on=_reach,
    )
    decay_floor: float = param(0.0, low=0, high=1, unit="ratio", doc="Lower bound of the factor.", acts_on=_reach)
    decay_kinds: Sequence[str] = param(
        DECAY_KINDS["policy"],
        kind="words",
        star=True,
        doc="Kinds of memory that decay; '*' is all.",
        acts_on=_reach,
    )

    def remarks(self, table: pa.Table) -> list[str]:
        """As of other policies; also where other memories decay than in a search."""
        other = "" if self.decay == "none" else kinds_note(table, self.decay_kinds)
        return [*super().remarks(table), *filter(None, [other])]

    def refactored(self, judged: pa.Table) -> pa.Table:
        """A table that another form, time or floor judged, with the factors of these; notes stay, as for `decay_kinds`.

        Ages and notes cost most of `transform`, and a slider does not change them.

        Examples
        --------
        >>> rows = {"text": ["a"], "created_at": ["2026-01-01"]}
        >>> judged = Decay(decay_days=60).transform(pa.table(rows), as_of="2026-03-02")
        >>> Decay(decay="half_life").refactored(judged)["factor"].to_pylist()
        [0.5]
        """
        self.check_params()
        spared = pc.is_in(judged["note"], value_set=pa.array(["undated", "exempt"]))
        factor = factor_sql(self.decay, self.decay_days, self.decay_floor, "spared", "age_days")
        rows = pa.table({"age_days": judged["age_days"], "spared": spared})
        made = rows_of(f"select {factor} as factor from judged", judged=rows)  # noqa: S608  # declared parameters only
        place = judged.column_names.index("factor")
        return judged.set_column(place, judged.schema.field(place), made["factor"])

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        check_unicode(self.decay_kinds)
        named = [kind for kind in self.decay_kinds if kind != "*"]
        check_kinds(named, "Decay: 'decay_kinds'", in_data=rows["kind"].unique().to_pylist())
        return {}

    def _sql(self) -> str:
        return f"""select *,
    true as keep,
    case when {_DATED} > $until then 'future' end as reason,
    {age_sql()} as age_days,
    {decay_sql(self.decay, self.decay_days, self.decay_floor, self.decay_kinds)} as factor,
    case
        when {_DATED} is null then 'undated'
        when {_DATED} > $until then 'future'
        when not ({decays_sql(self.decay_kinds)}) then 'exempt'
    end as note
from input"""  # noqa: S608  # declared parameters only


def kinds_note(table: Any, kinds: Sequence[str] = DECAY_KINDS["policy"]) -> str:
    """A sentence where memories decay by the policy of these `kinds`, and not in a search, which has others; else "".

    Examples
    --------
    >>> rows = {"text": ["a"], "kind": ["daily_log"], "created_at": ["2026-01-01"]}
    >>> kinds_note(pa.table(rows))
    "By the policy 1 of 1 memory decay, in a search 0: its decay_kinds are 'profile', 'working', 'archive'."
    """
    of_search = DECAY_KINDS["search"]
    if set(kinds) == set(of_search):
        return ""
    here, there = _reaches(table, "e_folding", kinds, of_search)
    if here.count == there.count:
        return ""
    names = ", ".join(map(repr, of_search))
    return (
        f"By the policy {here.count:,} of {count_of(here.of, 'memory')} decay, in a search {there.count:,}: its"
        f" decay_kinds are {names}."
    )
