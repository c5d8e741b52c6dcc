"""The index standard: which entries are valid, missing or invalid (section 4), and a plan of the files that would
replace a large one (section 5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa

from memkit.base.fences import fences, headings
from memkit.base.params import AsOf, Moment, as_of_time, estimator, param
from memkit.documents import cite
from memkit.formats.spelling import loose_words, text_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import scalar
from memkit.policy.base import VERDICT, Policy, needed, only_kept
from memkit.schemas import TABLES, column, table
from memkit.tables.corpus import Corpus
from memkit.tables.statement import input_table
from memkit.text.chunk import Counter, checked_counter, count_tokens, counter_param

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
        whose = {name: row[name] for name in ("memory_id", "path")}
        lines = {"line_start": 1, "line_end": len(_lines(text))}
        return whose | where | lines | {"tokens": self.count(text), "text": text}

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
