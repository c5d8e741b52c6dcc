"""Differences as a table of memories and as a unified diff."""

from __future__ import annotations

import difflib
import html
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from memkit.base.params import check_corpus, describe
from memkit.display.draw import Tabular
from memkit.display.sheet import OF_MEMORY, named_in, visible
from memkit.schemas import MEMORIES, WORDS, column, table, tuples_of
from memkit.tables.corpus import Corpus
from memkit.tables.identity import known_of, matches, words_of
from memkit.text.secrets import Mask, mask


class Diff(str):
    """A unified diff: a string, which notebooks show in colour, without secrets, also those that `memories` name."""

    __slots__ = ("memories",)
    memories: pa.Table | None

    def __new__(cls, text: str, memories: pa.Table | None = None) -> Diff:
        diff = super().__new__(cls, text)
        diff.memories = memories
        return diff

    def __str__(self) -> str:
        """The diff itself; on a terminal its control characters are escaped."""
        return visible(self[:]) if sys.stdout.isatty() else self[:]

    _COLOURS = (("+++", ""), ("---", ""), ("+", "rgba(46,160,67,.22)"), ("-", "rgba(248,81,73,.22)"), ("@", ""))

    def _repr_html_(self) -> str:
        lines = []
        text = mask(self[:])
        text = text if self.memories is None else named_in(self.memories, [text]).again(text)
        for line in text.split("\n"):
            colour = next((colour for sign, colour in self._COLOURS if line.startswith(sign)), "")
            style = f' style="background:{colour}"' if colour else ""
            lines.append(f"<span{style}>{html.escape(visible(line))}</span>")
        return f'<pre class="mk" style="white-space:pre-wrap">{chr(10).join(lines)}</pre>'


def diff_of(path: str, before: str | None, after: str | None, notes: Mapping[int, str] | None = None) -> str:
    """The unified diff of one file; None is a missing file.

    Parameters
    ----------
    notes : mapping of int to str, optional
        By 1-based line of `before`, what is said behind the head of its hunk, where ``patch`` ignores it.

    Examples
    --------
    >>> print(diff_of("a.md", "Чай\\n", "", {1: "the same stands in b.md"}), end="")
    --- a/a.md
    +++ b/a.md
    @@ -1 +0,0 @@ the same stands in b.md
    -Чай
    """
    if before == after:
        return ""
    old, new = ("/dev/null" if text is None else f"{side}/{path}" for side, text in (("a", before), ("b", after)))
    lines: Iterable[str] = difflib.unified_diff(_lines(before), _lines(after), old, new)
    if notes:
        lines = [_noted(line, notes) for line in lines]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")


def _noted(line: str, notes: Mapping[int, str]) -> str:
    """The head of a hunk with the notes on its lines; every other line as it is."""
    if not (match := _HUNK.match(line)):
        return line
    first = int(match[1])
    note = "; ".join(dict.fromkeys(notes[n] for n in sorted(notes) if first <= n < first + int(match[2] or 1)))
    return f"{line.rstrip()} {visible(note)}\n" if note else line


def _lines(text: str | None) -> list[str]:
    """Lines with their line ends, split at LF only."""
    lines = (text or "").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


_LOCATION_COLUMNS = ("memory_id", "path", "line_start", "line_end", "heading_path")
"""Columns of a memory's location: a move to another line or folder does not change its content."""
_CONTENT_COLUMNS = tuple(name for name in MEMORIES.names if name not in _LOCATION_COLUMNS)
DIFFERENCE = table(
    column("change", pa.string(), "added, removed, changed or moved (another file, whatever else changed)"),
    column("memory_id", pa.string(), "the memory, as it is called afterwards; of one that is gone, as it was called"),
    column("memory_id_before", pa.string(), "what it was called before; null where it was not there"),
    column("path", pa.string(), "its file afterwards; of one that is gone, before"),
    column("path_before", pa.string(), "its file before"),
    column("kind", pa.string(), "what it is within its format"),
    column("title", pa.string(), "heading, subject or id"),
    column("fields", WORDS, "the columns of memories that differ"),
    column("words_removed", WORDS, "words of the text that are gone, as often as they are; secrets are left out"),
    column("words_added", WORDS, "words of the text that are new; secrets are left out"),
    column("before", pa.string(), "the text before"),
    column("after", pa.string(), "the text afterwards"),
    column("stands_in", pa.string(), "of a memory that is gone, another one with the same text; else null"),
)
_ORDER = ("removed", "changed", "moved", "added")


@dataclass(frozen=True, repr=False)
class Difference(Tabular):
    """The differences between two corpora, by memory; made by `diff`.

    Attributes
    ----------
    table : pyarrow.Table
        One row a memory that differs; ``schema.field(name).metadata`` says what each column means.
    """

    table: pa.Table
    _texts: pa.Table | None = None

    @property
    def _memories(self) -> pa.Table | None:
        return self._texts

    def diff(self) -> Diff:
        """The texts as a unified diff, memory by memory; notebooks show it in colour.

        Returns
        -------
        Diff
            A string.
        """
        rows = self.table.to_pylist()
        texts = ((visible(row["memory_id"]), row["before"], row["after"], _same_text(row)) for row in rows)
        return Diff("".join(diff_of(*text) for text in texts), self._memories)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _repr_html_(self) -> str:
        shown, text = self._shown(), self.diff()
        mask_both = Mask([text]) | shown.hide
        return mask_both.in_html(shown._repr_html_() + text._repr_html_())


def diff(corpus_a: Corpus, corpus_b: Corpus) -> Difference:
    """Find the memories that were added, removed, changed or moved between two corpora.

    Two memories match by their own id, their text or their name; else if they share half of their words, or the whole
    body in another file. The cost is linear in the number of memories.

    Parameters
    ----------
    corpus_a, corpus_b : Corpus
        Before and after: two revisions, one folder at two times, or two folders.

    Returns
    -------
    Difference
        ``.table`` has one row per memory that differs, removed ones first; ``.diff()`` is the same as a unified diff.

    Examples
    --------
    >>> import memkit as mk
    >>> before = mk.from_table({"memory_id": ["a", "b"], "text": ["Пул на 10 соединений", "Чай"]})
    >>> after = mk.from_table({"memory_id": ["a", "c"], "text": ["Пул на 20 соединений", "Кофе"]})
    >>> columns = ["change", "memory_id", "words_removed", "words_added"]
    >>> for row in mk.diff(before, after).table.select(columns).to_pylist():
    ...     print(*row.values())
    removed b ['Чай'] []
    changed a ['10'] ['20']
    added c [] ['Кофе']
    """
    for corpus in (corpus_a, corpus_b):
        check_corpus("diff", corpus)
    before, after = corpus_a.memories, corpus_b.memories
    old_of_new = matches(known_of(before), known_of(after))
    pairs: list[tuple[int | None, int | None]] = [(old_row, new_row) for new_row, old_row in old_of_new.items()]
    pairs += [(old_row, None) for old_row in sorted(set(range(before.num_rows)) - set(old_of_new.values()))]
    pairs += [(None, new_row) for new_row in range(after.num_rows) if new_row not in old_of_new]
    old, new = (table.select([*_CONTENT_COLUMNS, *_LOCATION_COLUMNS]).to_pylist() for table in (before, after))
    rows = [_row(None if a is None else old[a], None if b is None else new[b]) for a, b in pairs]
    texts = tuples_of(after, "text", "memory_id")
    standing = {_stripped(text): memory_id for text, memory_id in texts if text and text.strip()}
    for row in rows:
        if row and row["change"] == "removed":
            row["stands_in"] = standing.get(_stripped(row["before"]))
    kept = sorted((row for row in rows if row), key=lambda row: (_ORDER.index(row["change"]), row["memory_id"]))
    revisions = {"before": corpus_a.revision, "after": corpus_b.revision}
    table = describe(pa.Table.from_pylist(kept, schema=DIFFERENCE), memkit="difference", **revisions)
    return Difference(table, pa.concat_tables([before.select(OF_MEMORY), after.select(OF_MEMORY)]))


def _same_text(row: Mapping[str, Any]) -> dict[int, str]:
    """By line, that the text of a memory that is gone stands in another one."""
    return {1: f"the same text stands in {row['stands_in']}"} if row["stands_in"] else {}


def _stripped(value: Any) -> Any:
    """A value without blank lines at the end of a text, which depend on the text below it."""
    return value.rstrip() if isinstance(value, str) else value


def _row(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any] | None:
    """The row of one memory; None where nothing changed."""
    old, new = before or {}, after or {}
    is_both = before is not None and after is not None
    fields = [name for name in _CONTENT_COLUMNS if is_both and _stripped(old[name]) != _stripped(new[name])]
    moved = is_both and old["path"] != new["path"]
    if is_both and not fields and not moved:
        return None
    row, old_text, new_text = after or old, old.get("text"), new.get("text")
    hide = Mask([old_text or "", new_text or ""])  # a secret split into words is no longer recognised
    old_words, new_words = (Counter(words_of(hide(text or ""))) for text in (old_text, new_text))
    return {
        "change": "moved" if moved else "changed" if is_both else "removed" if before else "added",
        "memory_id_before": old.get("memory_id"),
        "path_before": old.get("path"),
        **{name: row[name] for name in ("memory_id", "path", "kind", "title")},
        "fields": fields,
        "words_removed": list((old_words - new_words).elements()),
        "words_added": list((new_words - old_words).elements()),
        "before": old_text,
        "after": new_text,
        "stands_in": None,
    }
