"""Hermes: ``MEMORY.md`` and ``USER.md`` of entries, between which stands a line that is just ``§``.

An entry is a memory. A file of one entry holds no ``§``: the other file, the lock that the host leaves, or the folder's
name tells that it is one of this layout. `show` is what the host loads into its prompt.

>>> [(part.line, text) for part in parts("чай\\n§\\nмёд;\\nбез сахара") if (text := part.text)]
[(1, 'чай'), (3, 'мёд;\\nбез сахара')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memkit.extend import Param, Prompt
from memkit.extend.reading import (
    MARKDOWN,
    File,
    Folder,
    Format,
    Owner,
    Row,
    Rows,
    Rule,
    Splice,
    Survey,
    first_words,
    front_matter,
    slug_of,
)

if TYPE_CHECKING:
    from memkit import Corpus
    from memkit.extend import Candidate, Context, Moment

FILES = {"MEMORY.md": "agent", "USER.md": "user"}
"""The two files, and whom the entries of each are about."""
LIMITS = {"MEMORY.md": 2200, "USER.md": 1375}
"""The most characters that the host keeps in each, by default, with the delimiters between the entries."""
DELIMITER = "\n§\n"
_DELIMITER = re.compile(r"\r?\n§\r?\n")
_NEAR = re.compile(r"^[ \t]*§[ \t]*$", re.MULTILINE)
_HOME = re.compile(r"(?:^|/)\.hermes/(?:profiles/[^/]+/)?memories/$")
"""Where the host keeps them: a folder for itself, and one for each of its profiles."""
_LEFT = re.compile(r"(?:MEMORY|USER)\.md(?:\.lock|\.bak(?:\.\w+)*)|\.mem_\w*\.tmp")
"""What the host leaves beside its files."""
_SHORTENED, _HEAD, _TAIL = 4000, 0.7, 0.2
"""Above the larger of this and twice its limit, a file comes into the prompt as its first 70 % and last 20 %."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands between two delimiters: where it begins and ends in the text, its first line, and its entry.

    Attributes
    ----------
    start, end : int
        Of the part, the blank lines around its entry included, the line end before a delimiter excluded.
    line, last : int
        The lines of the entry, 1-based and inclusive.
    text : str
        The entry: its whole lines without blank ones around them; empty where there is none.
    """

    start: int
    end: int
    line: int
    last: int
    text: str


def parts(text: str) -> Iterator[Entry]:
    """The parts of a file's text, in order; cost is linear in the text.

    The text may have CRLF, and a BOM at its head. An entry is given as it stands.
    """
    start, line = int(text.startswith("\ufeff")), 1
    for delimiter in _DELIMITER.finditer(text, start):
        yield _part(text, start, delimiter.start(), line)
        line += text.count("\n", start, delimiter.end())
        start = delimiter.end()
    yield _part(text, start, len(text), line)


def _part(text: str, start: int, end: int, line: int) -> Entry:
    lines = text[start:end].split("\n")
    first = next((number for number, words in enumerate(lines) if words.strip()), len(lines))
    last = next((number for number in range(len(lines), first, -1) if lines[number - 1].strip()), first)
    return Entry(start, end, line + first, line + max(first, last - 1), "\n".join(lines[first:last]))


def entries(text: str) -> list[str]:
    """The entries of a file as the host holds them: stripped, and equal ones once.

    Examples
    --------
    >>> entries("чай\\n§\\n мёд \\n§\\nчай")
    ['чай', 'мёд']
    """
    texts = (part.text.replace("\r\n", "\n").strip() for part in parts(text))
    return list(dict.fromkeys(filter(None, texts)))


def chars(texts: Iterable[str]) -> int:
    """The characters that entries take of their file's limit."""
    return len(DELIMITER.join(texts))


def visible(length: int, limit: int) -> list[tuple[int, int]]:
    """The parts of a file's joined entries that come into the prompt: all of it, or its head and its tail.

    Examples
    --------
    >>> visible(2031, 2200), visible(10_000, 2200)
    ([(0, 2031)], [(0, 3080), (9120, 10000)])
    """
    most = max(_SHORTENED, 2 * limit)
    if length <= most:
        return [(0, length)]
    return [(0, round(most * _HEAD)), (length - round(most * _TAIL), length)]


def cut(every: Sequence[Entry], place: int, gone: Callable[[int], bool]) -> Splice:
    """What takes out the entry at a place together with one delimiter, where others may be `gone` already.

    Each removal is a piece of its own, so that any of several may be left undone.

    Examples
    --------
    >>> from memkit.formats.syntax.places import spliced
    >>> text = "чай\\n§\\nмёд\\n§\\nлимон"
    >>> every = list(parts(text))
    >>> [spliced(text, [cut(every, place, lambda other: False)]) for place in range(3)]
    ['мёд\\n§\\nлимон', 'чай\\n§\\nлимон', 'чай\\n§\\nмёд']
    >>> spliced(text, [cut(every, 1, lambda other: False), cut(every, 2, lambda other: other == 1)])
    'чай\\n§\\n'
    """
    if not all(map(gone, range(place + 1, len(every)))):
        return Splice(every[place].start, every[place + 1].start, "")
    is_joined = place > 0 and not gone(place - 1)
    return Splice(every[place - 1].end if is_joined else every[place].start, every[place].end, "")


def _survey(folder: Folder) -> Survey:
    """Both files of each folder where one has a ``§`` of its own, a lock lies beside, or the name says it."""
    names: dict[str, list[str]] = {}
    for path in folder.listing.files:
        home, slash, name = path.rpartition("/")
        if name in FILES or _LEFT.fullmatch(name):
            names.setdefault(home + slash, []).append(name)
    survey = Survey()
    for home, beside in names.items():
        files = [home + name for name in beside if name in FILES]
        named = _HOME.search(f"{folder.listing.root.as_posix()}/{home}") is not None
        locked = any(name.endswith(".lock") for name in beside)
        if files and (folder.is_forced or named or locked or any(_has_delimiter(folder, path) for path in files)):
            survey.findings |= dict.fromkeys(files, True)
            survey.skipped |= {home + name for name in beside if name not in FILES}
    return survey


def _has_delimiter(folder: Folder, path: str) -> bool:
    source = folder.read(path, Rows())
    return source is not None and DELIMITER in source.text and front_matter.split(source.text) is None


def parse(file: File, rows: Rows) -> None:
    """Each entry of a file to its row."""
    source = file.source
    first: dict[str, int] = {}
    limit = LIMITS.get(source.name, LIMITS["MEMORY.md"])
    for part in parts(source.text):
        entry = part.text.strip()
        if not entry:
            continue
        memory_id = rows.new_id("hermes", source.path, slug_of(first_words(entry)), entry)
        row: Row = {"memory_id": memory_id, "format": "hermes", "layout": "hermes", "kind": "entry"}
        row |= {"path": source.path, "title": first_words(entry), "text": part.text, "scope": FILES.get(source.name)}
        rows.add("memories", {**row, "line_start": part.line, "line_end": part.last})
        place: Row = {"line": part.line, "memory_id": memory_id}
        if entry in first:
            expected = (
                f"an entry that stands there once: the host drops it when it next writes (line {first[entry]} has it)"
            )
            rows.problem("duplicate_entry", source.path, expected, entry, **place)
        first.setdefault(entry, part.line)
        if len(entry) > limit:
            expected = f"at most {limit:,} characters in an entry: above, the host refuses every change of the file"
            rows.problem("over_limit", source.path, expected, f"{len(entry):,}", quote=False, **place)
        line, offset = part.line, 0
        for mark in _NEAR.finditer(part.text):
            line += part.text.count("\n", offset, mark.start())
            offset = mark.start()
            rows.problem("bad_value", source.path, _LOOSE.expected, mark[0], line=line, memory_id=memory_id)
    _check_limit(source.path, chars(first), limit, rows)
    if not first:
        rows.problem("empty_text", source.path, "entries", "an empty file", quote=False)


def _check_limit(path: str, used: int, limit: int, rows: Rows) -> None:
    """Report a file that is over its limit, and what the prompt then has of it."""
    if used <= limit:
        return
    (_, head), *tail = visible(used, limit)
    cut = f"; the prompt has characters 1 to {head:,} and the last {used - tail[0][0]:,}" if tail else ""
    expected = f"at most {limit:,} characters, the delimiters included: above, the host adds nothing{cut}"
    rows.problem("over_limit", path, expected, f"{used:,}", quote=False)


_LOOSE = Rule("bad_value", "hermes", "", "a line that is '§' without blanks, or text: the host parts no entries here")
FORMAT = Format(
    "hermes",
    "MEMORY.md and USER.md of entries between lines '§' (Hermes)",
    order=60,
    holds_entries=True,
    kinds=("entry",),
    hidden_places=(".hermes/memories", ".hermes/profiles/*/memories"),
    tables=(),
    endings=MARKDOWN,
    writes=MARKDOWN,
    landmark=" ".join(FILES),
    survey=_survey,
    owner=Owner("", store=".*"),
    parse=parse,
    rules=(
        Rule("over_limit", "hermes", "", "at most 2,200 characters in MEMORY.md, 1,375 in USER.md"),
        Rule("duplicate_entry", "hermes", "", "each entry once"),
        _LOOSE,
    ),
)
_DOC = "Hermes's limit of {}, the delimiters included."
PROMPT = Prompt(
    "hermes",
    "what Hermes loads, the entries of MEMORY.md and USER.md",
    "memkit.hosts.hermes:show",
    {
        name: Param(LIMITS[file], "int", _DOC.format(file), low=1, unit="characters")
        for name, file in (("memory_chars", "MEMORY.md"), ("user_chars", "USER.md"))
    },
)


def show(
    corpus: Corpus, rows: Sequence[dict[str, Any]], moment: Moment, *, memory_chars: int, user_chars: int
) -> Context:
    """What Hermes loads: the entries of each file, each once, or head and tail of a file far above its limit."""
    from memkit.extend import Candidate, context_of  # a read does without the room of prompts

    limits = {"MEMORY.md": memory_chars, "USER.md": user_chars}
    files: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        text = row["text"].replace("\r\n", "\n").strip()
        files.setdefault(row["path"], []).append({**row, "text": text})
    blocks: dict[str, list[Candidate]] = {}
    of_block, texts, notes = dict[str, int](), list[str](), list[str]()
    for path, entries in files.items():
        limit = of_block[path] = limits.get(path.rpartition("/")[2], limits["MEMORY.md"])
        id_of_text: dict[str, str] = {}
        for row in entries:
            id_of_text.setdefault(row["text"], row["memory_id"])
        used = chars(id_of_text)
        shown = visible(used, limit)
        blocks[path], start = [], 0
        for text, memory_id in id_of_text.items():
            with_mark = f"§\n{text}" if start else text
            blocks[path] += _parts_in(Candidate(memory_id, path, with_mark, 0.0), start, shown)
            start += len(with_mark) + 1
        blocks[path] += [
            Candidate(row["memory_id"], path, row["text"], 0.0, "duplicate_entry")
            for row in entries
            if id_of_text[row["text"]] != row["memory_id"]
        ]
        joined = DELIMITER.join(id_of_text)
        texts.append(f"[{path}]\n" + "\n…\n".join(joined[begin:end] for begin, end in shown))
        if used > limit:
            cut = f", and {used - sum(end - begin for begin, end in shown):,} of them are not loaded"
            sentence = f"{path}: {used:,} of {limit:,} characters: the host adds nothing"
            notes.append(f"{sentence}{cut if len(shown) > 1 else ''}.")
    if not rows:
        notes.append("Nothing is shown: the corpus holds no memory of Hermes.")
    return context_of(corpus, "\n\n".join(texts), blocks, of_block, notes, moment)


def _parts_in(entry: Candidate, start: int, shown: Sequence[tuple[int, int]]) -> list[Candidate]:
    """The parts of an entry, which begins at `start`, that are shown, and what is not."""
    end = start + len(entry.line)
    inside = [(max(start, low), min(end, high)) for low, high in shown if max(start, low) < min(end, high)]
    edges = [start, *(edge for span in inside for edge in span), end]
    parts = [(low, high) for low, high in pairwise(edges) if low < high]
    return [
        replace(
            entry, line=entry.line[low - start : high - start], reason=None if (low, high) in inside else "below_cut"
        )
        for low, high in parts
    ]
