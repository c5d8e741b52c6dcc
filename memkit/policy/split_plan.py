"""Splitting of large files: which parts, at which lines (index standard, section 5). Nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa

from memkit.fences import fences
from memkit.params import estimator, param
from memkit.policy.base import VERDICT, Policy, needed, only_kept
from memkit.presets import cite
from memkit.tables.statement import as_table, input_table
from memkit.text.count import Counter, checked_counter, count_tokens

_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")

PLAN = pa.schema(
    [
        pa.field("memory_id", pa.string()),
        pa.field("path", pa.string()),
        pa.field("part", pa.int64(), metadata={"meaning": "1-based"}),
        pa.field("file", pa.string(), metadata={"meaning": "where the part would be written"}),
        pa.field("line_start", pa.int64(), metadata={"meaning": "first line of the text, 1-based"}),
        pa.field("line_end", pa.int64(), metadata={"meaning": "last line of the text, inclusive"}),
        pa.field("tokens", pa.int64(), metadata={"unit": "tokens"}),
    ]
)


@estimator
class SplitPlan(Policy):
    """Plans the parts of texts over a number of tokens; the parts put together are the text, byte for byte.

    Parts are cut at headings, a section over the limit at blank lines, a paragraph over it at lines. A code fence is
    cut only where it is over the limit itself, and a single line never, so a part of one long line may be over the
    limit; its tokens say so.

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
        4096, low=1, unit="tokens", doc="A longer text is split.", source=cite("index_standard", "splitting")
    )
    counter: Counter | None = param(
        None,
        kind="callable",
        nullable=True,
        unit="str -> int",
        doc="Counts the tokens of a text; None: 4 characters are one.",
    )

    def _relations(self, rows: pa.Table, moment: datetime) -> dict[str, pa.Table]:
        """Lines and a counter of the user's are beyond SQL: the counts come beside the rows."""
        texts = [text or "" for text in rows["text"].to_pylist()]
        counts = {"tokens": [self._count(text) for text in texts], "parts": [len(self.parts(text)) for text in texts]}
        return {"plans": pa.table({"row": rows["row"]} | {n: pa.array(c, pa.int64()) for n, c in counts.items()})}

    def _sql(self) -> str:
        return f"""select input.*, plans.tokens, plans.parts,
    plans.tokens <= {int(self.max_tokens_per_file)} or {only_kept()} as keep,
    case when not keep then 'too_long' end as reason
from input join plans using (row)"""  # noqa: S608  # declared parameters only

    def plan(self, table: Any) -> pa.Table:
        """The parts of every text over the limit: memory_id, path, part, file, line_start, line_end, tokens.

        Lines are those of the text. The file is ``note/part1.md`` for ``note.md``.
        """
        self.check_params()
        rows = input_table(as_table(table), self.needs)
        planned = []
        for row in rows.to_pylist():
            parts = self.parts(row["text"] or "")
            planned += list(self._rows(row, parts)) if len(parts) > 1 else []
        return pa.Table.from_pylist(planned, schema=PLAN)

    def parts(self, text: str) -> list[str]:
        """The parts of a text, whole lines; one part where the text is within the limit."""
        if self._count(text) <= self.max_tokens_per_file:
            return [text]
        return self._packed(_sections(text), (_paragraphs, _blocks, _lines))

    def _packed(self, pieces: list[str], finer: tuple[Callable[[str], list[str]], ...]) -> list[str]:
        """Neighbouring pieces together as long as they fit; a piece too long is cut in a finer way."""
        parts = [""]
        for piece in pieces:
            if self._count(parts[-1] + piece) <= self.max_tokens_per_file:
                parts[-1] += piece
            elif finer and self._count(piece) > self.max_tokens_per_file:
                parts += self._packed(finer[0](piece), finer[1:])
            else:
                parts.append(piece)
        return [part for part in parts if part]

    def _count(self, text: str) -> int:
        return count_tokens(text) if self.counter is None else checked_counter(self.counter, "SplitPlan")(text)

    def _rows(self, row: dict[str, Any], parts: list[str]) -> Iterator[dict[str, Any]]:
        line, path = 1, PurePosixPath(row["path"] or "note.md")
        for number, part in enumerate(parts, start=1):
            lines = len(_lines(part))
            yield {
                **{name: row[name] for name in ("memory_id", "path")},
                "part": number,
                "file": str(path.with_suffix("") / f"part{number}.md"),
                "line_start": line,
                "line_end": line + lines - 1,
                "tokens": self._count(part),
            }
            line += lines


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
    """Pieces of whole lines; one opens where `opens(line, whether a blank line is above)`, but never inside a fence."""
    pieces: list[list[str]] = []
    code, blank = fences(text), False
    for number, line in enumerate(_lines(text), 1):
        if not pieces or (opens(line, blank) and not code.would_part(number)):
            pieces.append([])
        pieces[-1].append(line)
        blank = not line.strip()
    return ["".join(piece) for piece in pieces]
