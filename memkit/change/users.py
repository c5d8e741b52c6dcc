"""The files of one user's facts: what they hold, and the changes that stores make to them."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa

from memkit.change.draft import Draft, checked, missing
from memkit.errors import ChangeRefusedError, ParameterError, PolicyRefusal
from memkit.formats.disk.source import Source, decode
from memkit.formats.facts import (
    COUNTED,
    FORMAT,
    KEPT,
    OLD_LAYOUT,
    PREFIXES,
    TYPES,
    USER,
    OldFiles,
    home_of,
    parse,
    parse_fact,
    typed_rows,
)
from memkit.formats.format import MARKDOWN, File, Role
from memkit.formats.rows import Row, Rows
from memkit.formats.spelling import end_of_day
from memkit.formats.syntax.nodes import StructureError, load_json
from memkit.formats.syntax.places import Json, Splice, line_end, spliced, with_values
from memkit.policy.admission import Admission
from memkit.policy.dedup.near import normalise
from memkit.schemas import IMPORTANCES, TABLES
from memkit.text.secrets import mask

GUESSED = "guessedEnds"
_ID = re.compile(r"(pf|wk|ar)_([0-9]{1,18})")
_MAX_PARSED_FILES = 3_000
"""How many parsed files are kept: those of a thousand users."""


@dataclass(frozen=True)
class Parsed:
    """A parsed fact file: its text, one row of ``memories`` per line, and each row's normalised text for dedup."""

    text: str
    rows: list[Row]
    normalised: list[str]
    highest: dict[str, int]

    @classmethod
    def from_text(cls, path: str, text: str, before: Parsed | None = None, *, is_old: bool = False) -> Parsed:
        """Parse `text`, reusing the lines of `before`; `is_old` is the old layout."""
        if before is not None and before.text == text:
            return before
        rows, normalised = before.updated_rows(path, text) if before and not is_old else ([], [])
        if not rows:
            rows = old_rows({path: text})[path] if is_old else _read(path, text, Role()).table("memories").to_pylist()
            normalised = _normalised_texts(rows)
        return cls(text, rows, normalised, highest_ids(rows))

    def updated_rows(self, path: str, text: str) -> tuple[list[Row], list[str]]:
        """The rows and normalised texts of `text`, parsing new lines alone; two empty lists where that is not possible.

        An id that a line does not name itself, or that occurs twice, depends on the other lines.
        """
        old, lines = self.text.split("\n"), text.split("\n")
        row_of_line = {old[row["line_start"] - 1]: place for place, row in enumerate(self.rows)}
        new_lines = [number for number, line in enumerate(lines) if line.strip() and line not in row_of_line]
        new_rows = _read(path, "\n".join(lines[number] for number in new_lines), Role()).table("memories").to_pylist()
        # Where a line may be read otherwise alone than in its file, all are read anew.
        if "\ufeff" in text or text.endswith("\r") or len(new_rows) < len(new_lines):
            return [], []
        kept = {
            number: (self.rows[row_of_line[line]], self.normalised[row_of_line[line]])
            for number, line in enumerate(lines)
            if line in row_of_line
        }
        kept |= dict(zip(new_lines, zip(new_rows, _normalised_texts(new_rows), strict=True), strict=True))
        rows = [{**kept[n][0], "line_start": n + 1, "line_end": n + 1} for n in sorted(kept)]
        has_own_ids = all(row["source_id"] and row["memory_id"].endswith(f"#{row['source_id']}") for row in rows)
        if not has_own_ids or len({row["memory_id"] for row in rows}) < len(rows):
            return [], []
        return rows, [kept[n][1] for n in sorted(kept)]


def highest_ids(rows: Iterable[Row]) -> dict[str, int]:
    """By prefix the highest number that an id of these facts has.

    >>> highest_ids([{"source_id": "pf_002"}, {"source_id": "pf_010"}, {"source_id": None}])
    {'pf': 10}
    """
    highest: dict[str, int] = {}
    for row in rows:
        if match := _ID.fullmatch(row["source_id"] or ""):
            highest[match[1]] = max(highest.get(match[1], 0), int(match[2]))
    return highest


def _normalised_texts(rows: list[Row]) -> list[str]:
    return normalise([row["text"] if row["kind"] in TYPES else "" for row in rows])


def _read(path: str, text: str, role: Role) -> Rows:
    """What a file holds."""
    rows = Rows()
    rows.use(FORMAT)
    parse(File(decode(path, text.encode()), role), rows)
    return rows


def old_rows(texts: Mapping[str, str]) -> dict[str, list[Row]]:
    """By the paths of old files, their memories, with the types that a migration gives them and ``why``.

    All files at once: what types them costs as much for one file as for a thousand.
    """
    memories, untyped = list[Row](), list[str]()
    for path, text in texts.items():
        rows = _read(path, text, Role(findings=((FORMAT.name, OLD_LAYOUT),)))
        memories += rows.table("memories").to_pylist()
        untyped += rows.table("_untyped")["memory_id"].to_pylist()
    by_path: dict[str, list[Row]] = {path: [] for path in texts}
    for row in typed_rows(memories, untyped):
        by_path[row["path"]].append(row)
    return by_path


ParsedFiles = dict[str, Parsed]
"""The files that were parsed last, by path; a file is parsed again only where its text changed."""


@dataclass
class UserFacts:
    """The facts of one user, file by file."""

    home: str
    files: ParsedFiles = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """One row per line of all files."""
        return [row for file in self.files.values() for row in file.rows]

    def fact(self, id: str) -> Row:
        """The fact with an id.

        Raises
        ------
        NotFoundError
        ChangeRefusedError
            Where several have it: which one is meant is not certain.
        """
        rows = [row for row in self.rows if row["source_id"] == id]
        if not rows:
            raise missing("fact", id, [row["source_id"] or "" for row in self.rows])
        if len(rows) > 1:
            places = " and ".join(f"{row['path']}:{row['line_start']}" for row in rows[:2])
            raise ChangeRefusedError(f"{len(rows)} facts have the id {id}: {places}. Give each a different id.")
        return rows[0]

    def substring_matches(self, text: str) -> list[Row]:
        """The facts whose text contains `text` or is contained in it, ignoring case and blanks."""
        (needle,) = normalise([text])
        return [
            row
            for file in self.files.values()
            for row, candidate in zip(file.rows, file.normalised, strict=True)
            if candidate and (candidate in needle or needle in candidate)
        ]


def table(rows: list[Row]) -> pa.Table:
    """Rows of facts as an Arrow table."""
    return pa.Table.from_pylist(rows, schema=TABLES["memories"])


def one_line(text: object) -> str:
    """A text on one line."""
    return " ".join(checked(text, "text", filled=False).split("\n")).strip()


def home(draft: Draft) -> str:
    """The folder of the users' folders."""
    return home_of(draft.root, draft.exists, lambda folder: bool(_old_files(draft).in_folder(folder)))


def _old_files(draft: Draft) -> OldFiles:
    return OldFiles(
        draft.root,
        names=lambda folder: [name for name in draft.names(folder) if name.lower().endswith(MARKDOWN)],
        below=lambda folder: _names_below(draft, folder),
        exists=draft.exists,
        is_home=draft.exists,
        read=lambda path: _source(draft, path),
        is_beside=lambda name: (draft.root.resolve().parent / name).exists(),
    )


def _source(draft: Draft, path: str) -> Source | None:
    """A file; None for one that may not be read."""
    with suppress(ChangeRefusedError):
        text = draft.text_or_none(path)
        return decode(path, (text or "").encode())
    return None


def _names_below(draft: Draft, folder: str) -> list[str]:
    """The relative paths of the files below a folder, without hidden ones, links and what no store may touch."""
    names = []
    for name in draft.names(folder):
        if not name.startswith("."):
            with suppress(ChangeRefusedError):
                nested = _names_below(draft, posixpath.join(folder, name))
                names += [f"{name}/{nested_name}" for nested_name in nested] or [name]
    return names


def old_files(draft: Draft) -> dict[str, str]:
    """The old-layout file of each user who has one."""
    paths = _old_files(draft).in_folder(posixpath.dirname(home(draft)))
    return {posixpath.basename(path).removesuffix(".md"): path for path in paths}


def old_file(draft: Draft, user: str) -> str | None:
    """The old-layout file of a user, or None."""
    return _old_files(draft).of_user(posixpath.dirname(home(draft)), user)


def user_folders(draft: Draft) -> list[str]:
    """The users who have a folder."""
    return [name for name in draft.names(home(draft)) if USER.fullmatch(name)]


def load(draft: Draft, user: str, parsed: ParsedFiles) -> UserFacts:
    """The facts of a user; `parsed` is the cache of parsed files, and is updated."""
    facts = UserFacts(f"{home(draft)}/{user}")
    paths = [f"{facts.home}/{kind}.md" for kind in TYPES]
    for path in [*filter(draft.exists, paths), *filter(None, [old_file(draft, user)])]:
        # Taken out and put back, so that the file used longest ago is the first to go.
        before = parsed.pop(path, None)
        facts.files[path] = parsed[path] = Parsed.from_text(path, draft.text(path), before, is_old=path not in paths)
    while len(parsed) > _MAX_PARSED_FILES:
        del parsed[next(iter(parsed))]
    return facts


def no_user(draft: Draft, user: str) -> str:
    """The message for an unknown user; empty for a known one."""
    names = sorted({*user_folders(draft), *old_files(draft)})
    return "" if user in names else str(missing("user", user, names))


def meta_text(draft: Draft, facts: UserFacts) -> str:
    """The text of a user's meta.json, or that of a new one."""
    first = f"{json.dumps({'version': 2, **dict.fromkeys(COUNTED, 0)}, indent=2)}\n"
    return draft.text_or_none(f"{facts.home}/meta.json") or first


def guessed_ends(draft: Draft, facts: UserFacts) -> list[str]:
    """The ids of the facts whose last day was guessed by the classifier."""
    try:
        meta = load_json(meta_text(draft, facts))
    except StructureError:
        return []
    ids = meta.get(GUESSED) if isinstance(meta, Mapping) else None
    return [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []


def next_id(meta: str, facts: UserFacts, kind: str, more: int = 0) -> tuple[str, str]:
    """The id after the highest one ever used with its prefix, and the text of meta.json that records it."""
    prefix = PREFIXES[kind]
    used = [file.highest.get(prefix, 0) for file in facts.files.values()]
    json = Json(meta)
    last = json.find(["lastIds", prefix])
    written = meta[last.value : last.end] if last else ""
    last_used = int(written) if re.fullmatch(r"[0-9]{1,18}", written) else 0
    number = max([last_used, *(highest + more for highest in used)]) + 1
    is_first = json.find(["lastIds"]) is None
    new = json.set_value(["lastIds"], {prefix: number}) if is_first else json.set_value(["lastIds", prefix], number)
    return f"{prefix}_{number:03d}", spliced(meta, [new])


def write_meta(draft: Draft, facts: UserFacts, meta: str, added: Iterable[str], removed: Iterable[Row]) -> None:
    """Draft ``meta.json``: last ids, version 2, and counters with `added` kinds and without `removed` rows."""
    counts = Counter(f"{facts.home}/{kind}.md" for kind in added)
    counts.update(path for path, file in facts.files.items() for row in file.rows if row["kind"] != "line")
    counts.subtract(row["path"] for row in removed)
    values: Row = {name: counts[f"{facts.home}/{kind}.md"] for name, kind in COUNTED.items()}
    values |= {"version": 2} if Json(meta).find(["version"]) is None else {}
    draft.write(f"{facts.home}/meta.json", with_values(meta, values, Json), "counters and the last ids")


def append(draft: Draft, facts: UserFacts, path: str, line: str, reason: str) -> None:
    """Draft a further line at the end of a file."""
    before = facts.files[path].text if path in facts.files else None
    newline = line_end(before)
    draft.append(path, before, f"{line}{newline}", reason)


def remove_from_backup(draft: Draft, facts: UserFacts, user: str, text: str) -> None:
    """Draft the removal of a text from ``{user}.md.bak`` too, the backup that the migration kept."""
    path = posixpath.join(posixpath.dirname(posixpath.dirname(facts.home)), f"{user}{KEPT}")
    if not draft.exists(path):
        return
    with draft.attempt(path, None):
        for number, line in enumerate(draft.text(path).split("\n"), 1):
            if line.strip().lstrip("-* ") == text.strip():
                cut = Splice(*draft.document(path).lines(number, number), "")
                draft.splice("delete", path, cut, "forgotten in the old file too")


def replace_text(draft: Draft, row: Row, text: str) -> None:
    """Draft a new text behind the tags of a fact."""
    document = draft.document(row["path"])
    start, end = document.lines(row["line_start"], row["line_end"])
    line = document.text[start:end].rstrip("\r\n")
    fact = parse_fact(line)
    new = line[: len(line) - len(row["text"])] + text
    # A text that begins as a tag would change the tags of its fact.
    if fact is None or not line.endswith(row["text"]) or parse_fact(new) != {**fact, "text": text}:
        raise ParameterError(f"update: the text would be read as something else. Got {text!r:.80}.")
    splice = Splice(start, start + len(line), new)
    draft.splice("update", row["path"], splice, "another text", memory_id=row["memory_id"])


_REFUSAL_MESSAGES = {
    "length": "a fact has {low} to {high} characters.",
    "question": "a question is no fact.",
    "command": "a command is no fact.",
    "secret": "a text with a key, token or password is not saved.",
}


def refusal(row: Row, admission: Admission) -> PolicyRefusal:
    """The error that says why admission refuses a text; a secret is not repeated in it."""
    reason = row["reason"]
    message = _REFUSAL_MESSAGES[reason].format(low=admission.min_chars, high=admission.max_chars)
    span = f" Got {row['matched_span']!r:.80}." if row["matched_span"] and reason != "secret" else ""
    return PolicyRefusal(f"{reason}: {message}{span}", reason)


def check_user(user: str) -> None:
    """Raise where `user` cannot name a folder.

    Raises
    ------
    ParameterError
    """
    if not isinstance(user, str) or not USER.fullmatch(user):
        raise ParameterError(f"user: expected letters, digits, '_', '-' and '.'. Got {mask(repr(user)):.80}.")


_SPELLINGS = {"expiresAt": "expires_at"}
"""The document's spelling of a column."""


def meta_columns(meta: object) -> Row:
    """The checked columns kind, importance and expires_at of `meta`; ``expiresAt`` is the document's spelling."""
    if not isinstance(meta, Mapping):
        raise ParameterError(f"meta: expected a mapping with type, importance, expires_at. Got {meta!r:.80}.")
    columns = {_SPELLINGS.get(name, name): value for name, value in meta.items()}
    unknown = [name for name in columns if name not in ("type", "importance", "expires_at")]
    if unknown or len(columns) < len(meta):
        got = unknown[0] if unknown else "expires_at twice"
        raise ParameterError(f"meta: expected type, importance, expires_at. Got {got!r:.80}.")
    kind, importance, expires = (columns.get(name) for name in ("type", "importance", "expires_at"))
    if kind is not None and kind not in TYPES:
        raise ParameterError(f"meta: 'type' must be one of {', '.join(TYPES)}. Got {kind!r:.80}.")
    if importance is not None and importance not in IMPORTANCES:
        raise ParameterError(f"meta: 'importance' must be one of {', '.join(IMPORTANCES)}. Got {importance!r:.80}.")
    written = expires.isoformat() if isinstance(expires, date) else expires
    day = end_of_day(written) if isinstance(written, str) else None
    if expires is not None and day is None:
        raise ParameterError(f"meta: 'expires_at' must be a date YYYY-MM-DD. Got {expires!r:.80}.")
    return {"kind": kind or (None if day is None else "working"), "importance": importance, "expires_at": day}
