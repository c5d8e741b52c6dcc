"""Fact lines: ``users/{userId}/profile.md``, ``working.md``, ``archive.md`` and the counters of ``meta.json``.

A line is ``- [id:pf_001] [t:profile] [imp:high] [exp:2026-03-01] [created:2026-01-02] text``: the tags lead, in any
order, each once; a bracket group after them is text.

>>> fact = parse_fact("- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Ставим [v:2] бота")
>>> fact["text"], fact["exp"]
('Ставим [v:2] бота', '2026-03-01')
>>> format_fact(fact) == "- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Ставим [v:2] бота"
True
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.checked import LONE_SURROGATE
from memkit.base.fences import BOX, fences, headings
from memkit.errors import FormatError, did_you_mean
from memkit.formats.disk.source import Source
from memkit.formats.fields import DAY, LAST_DAY, TAG, WHOLE, Field, Fields, Problem, words_test
from memkit.formats.format import MARKDOWN, NONE, File, Folder, Format, Owner, Survey
from memkit.formats.rows import Row, Rows, Rule, Tables, extra_of, json_text
from memkit.formats.spelling import day_of
from memkit.formats.syntax.nodes import Node, StructureError, load_json, name_lines
from memkit.schemas import IMPORTANCE_WORDS, IMPORTANCES, result_schema

TAGS = ("id", "t", "imp", "exp", "created")
PREFIXES = {"profile": "pf", "working": "wk", "archive": "ar"}
"""How the ids of each type of fact begin."""
TYPES = tuple(PREFIXES)
_FOLDER = r"(?!(?:.*/)?users/)(?:.*/)?(?=(?:profile|working|archive)\.md$)"
"""The folder of a user where no ``users/`` is seen, as when it or all users' folders are read by themselves."""
HOMES = ("data/memory/users", "memory/users", "users")
"""Where the users' folders may lie below a root: that of the bot, of its ``data``, or of the memory itself."""
COUNTED = {"profileCount": "profile", "workingCount": "working", "archiveCount": "archive"}
_REQUIRED, _DATES = TAGS[:3], TAGS[3:]
_TAG = re.compile(r" *\[(id|t|imp|exp|created):([^\]\n]*)\]")
FIELDS = Fields(
    "facts",
    "a fact line",
    Field("id", TAG, required=True),
    Field("t", TAG, required=True, tests=(words_test(*TYPES),)),
    Field("imp", TAG, required=True, tests=(words_test(*IMPORTANCES),)),
    *(Field(name, LAST_DAY if name == "exp" else DAY) for name in _DATES),
    Field("text", TAG),
)
META = Fields(
    "facts",
    "a meta.json",
    Field("version", TAG, "a version", required=True),
    *(Field(name, WHOLE, required=True) for name in COUNTED),
)
OWN = frozenset(("lastIds", "guessedEnds"))
"""What memkit adds to a meta.json: the last id of each prefix, and ids whose end no one but the classifier said."""
_FACT_LIKE = re.compile(r"\n- \[(?:id|t|imp|exp|created):")  # not with ^: see memkit.base.fences
_DATED = re.compile(r"\d{4}([-_])\d{2}\1\d{2}")
OLD_LAYOUT = "old layout"
"""What the survey tells of such a file."""
KEPT = ".md.bak"
"""What a migration leaves of an old file."""
_PREFIX = re.compile(r"[a-z]+_")
_TASK = re.compile(rf"[-*+] {BOX}")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?=\S)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
USER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
"""A user's name, which is that of a folder or file."""
_NAMES = ("profile.md", "working.md", "archive.md", "meta.json")
"""The files of a user's folder."""
_WORKSPACE = ("MEMORY.md", "HEARTBEAT.md")
_COUNTERS = result_schema(
    (pa.string(), "path"),
    (pa.int64(), "line"),
    (pa.string(), "field file type"),
    (pa.int64(), "count"),
)
"""What a meta.json says of the files beside it; checked once all files are read."""
_UNTYPED = result_schema((pa.string(), "memory_id path"))
"""The facts of old files whose line does not say their type: policies do, once all files are read."""


def parse_fact(line: str) -> dict[str, str] | None:
    """The tags and the ``text`` of one line, as written; None where no tag leads the line.

    Parameters
    ----------
    line : str
        Of a fact file, without its end.

    Returns
    -------
    dict of str to str, or None

    Examples
    --------
    >>> parse_fact("- [id:pf_1] [t:profile] [imp:high] Пьёт чай")
    {'id': 'pf_1', 't': 'profile', 'imp': 'high', 'text': 'Пьёт чай'}
    """
    if not line.startswith("- ["):
        return None
    fact: dict[str, str] = {}
    position = 1
    while (match := _TAG.match(line, position)) and match.group(1) not in fact:
        fact[match.group(1)] = match.group(2)
        position = match.end()
    return {**fact, "text": line[position:].removeprefix(" ")} if fact else None


def format_fact(fact: Mapping[str, str | None]) -> str:
    """The line that `parse_fact` reads back as `fact`.

    Parameters
    ----------
    fact : mapping of str to str
        id, t, imp, perhaps exp and created, and text.

    Returns
    -------
    str

    Raises
    ------
    FormatError
        Where a required tag is missing, a field is not a tag, a value cannot stand in a tag, a date does not exist, or
        the text would be read as a tag or as more than one line, or cannot be written as UTF-8.

    Examples
    --------
    >>> format_fact({"id": "pf_1", "t": "profile", "imp": "high", "text": "Пьёт чай"})
    '- [id:pf_1] [t:profile] [imp:high] Пьёт чай'
    """
    for name in _REQUIRED:
        if not fact.get(name):
            raise FormatError(f"field '{name}' must be there. Got {fact.get(name)!r}.", field=name)
    for name in fact.keys() - {*TAGS, "text"}:
        hint = did_you_mean(name, (*TAGS, "text"))
        raise FormatError(f"field '{name}' must be one of {', '.join(TAGS)} or text.{hint}", field=name)
    values = {name: str(fact[name]) for name in TAGS if fact.get(name) is not None}
    for name, value in values.items():
        if set(value) & set("]\n\r"):
            raise FormatError(f"field '{name}' must hold no ']' and no line end. Got {value!r}.", field=name)
        if name in _DATES and day_of(value) is None:
            raise FormatError(f"field '{name}' must be a date YYYY-MM-DD. Got {value!r}.", field=name)
    text = fact.get("text") or ""
    if "\n" in text or "\r" in text:
        raise FormatError(f"field 'text' must be one line. Got {text!r}.", field="text")
    if LONE_SURROGATE.search(text):
        raise FormatError("field 'text' must be Unicode without lone surrogates.", field="text")
    if _TAG.match(text):
        raise FormatError(f"field 'text' must not open with a tag. Got {text!r}.", field="text")
    return "- " + "".join(f"[{name}:{value}] " for name, value in values.items()) + text


def home_of(root: Path, exists: Callable[[str], bool], has_old: Callable[[str], bool]) -> str:
    """The folder of the users' folders, the one that counts for reading, stores, command line and server.

    Parameters
    ----------
    root : Path
        The folder that is opened: the project, its ``data`` or the memory itself; all three give the same users.
    exists : callable
        Whether there is anything at a path.
    has_old : callable
        Whether a folder holds files of the old layout.

    Examples
    --------
    >>> home_of(Path("/bot"), lambda path: path == "data/memory", lambda folder: False)
    'data/memory/users'
    >>> home_of(Path("/bot/data"), lambda path: path == "memory", lambda folder: False)
    'memory/users'
    >>> home_of(Path("/bot/data/memory"), lambda path: False, lambda folder: False)
    'users'
    """
    bot_home, data_home, default = HOMES
    if exists(posixpath.dirname(bot_home)):
        return bot_home
    memory = posixpath.dirname(data_home)
    is_data = root.name == "data" and exists(memory)
    return data_home if is_data or exists(data_home) or has_old(memory) else default


def user_of(path: str) -> str | None:
    """The user whose folder holds `path`: the one below the last ``users/``."""
    parts = path.split("/")[:-1]
    return parts[-1] if len(parts) >= 2 and parts[-2] == "users" else None


def _claims(file: File) -> bool:
    """Whether a file holds facts or counts them: by its place and name, or as most of its lines are fact lines."""
    if file.finding("facts") or (file.source.name in _NAMES and user_of(file.source.path)):
        return True
    n_facts = len(_FACT_LIKE.findall(f"\n{file.source.text}")) if file.is_markdown else 0
    if not n_facts or "sessions" in map(str.lower, file.source.parents):
        return False  # what is quoted in a transcript is none
    lines = file.source.text.split("\n")
    # A guess: half, so that a page which shows some fact lines as an example is none.
    return 2 * n_facts >= sum(bool(line.strip()) and not line.startswith("#") for line in lines)


def _survey(folder: Folder) -> Survey:
    """The ``{userId}.md`` of the old layout."""
    paths = folder.listing.files
    homes = {path.rpartition("/")[0].rpartition("/")[0] for path in paths}
    forced = (path for path in paths if folder.is_forced and path.lower().endswith(MARKDOWN))
    old_files = OldFiles(
        folder.listing.root,
        names=lambda place: folder.markdown.get(place, []),
        below=lambda place: (
            path[len(place) :].lstrip("/") for path in paths if path.startswith(f"{place}/" * bool(place))
        ),
        exists=lambda path: path in paths or path in folder.listing.folders,
        is_home=homes.__contains__,
        read=lambda path: folder.read(path, Rows()),
        is_beside=folder.listing.has_beside,
    )
    old = [path for place in folder.markdown for path in old_files.in_folder(place)]
    _check_homes(folder, old)
    return Survey(dict.fromkeys([*forced, *old], OLD_LAYOUT))


def _check_homes(folder: Folder, old: Iterable[str]) -> None:
    """Report users in more than one home: a store uses only one of them."""
    paths = folder.listing.files
    folders = {posixpath.dirname(path) for path in old}
    below_homes = tuple(f"{home}/" for home in HOMES)
    within = [path for path in paths if path.startswith(below_homes)]
    users = {home: [p for p in within if p.startswith(f"{home}/") and _is_of_user(p, home)] for home in HOMES}
    existing = {*folder.listing.folders, *(home for home in HOMES if users[home])}
    main = home_of(
        folder.listing.root,
        lambda path: path in paths or path in existing,
        folders.__contains__,
    )
    others = [home for home in HOMES if users[home] and home != main]
    if others:
        got = ", ".join([main, *others])
        folder.rows.problem("two_homes", users[others[0]][0], f"all users in {main}/, the one that counts", got)


def _is_of_user(path: str, home: str) -> bool:
    parts = path.removeprefix(f"{home}/").split("/")
    return len(parts) == 2 and parts[1] in (*(f"{kind}.md" for kind in TYPES), "meta.json")


@dataclass(frozen=True)
class OldFiles:
    """The ``{userId}.md`` of the old layout below a root, as readers and stores find them.

    In a bot's ``data/memory`` each file is judged by itself. In another folder files count beside ``users/`` where at
    least half of their lines are items; in a folder ``memory`` without it only where all its Markdown is such files.

    Attributes
    ----------
    root : Path
        The folder that is opened, which may itself be ``data`` or ``data/memory``.
    names, below : callable
        The names of the Markdown files in a folder; the paths of all files at any depth below it, relative to it.
    exists, is_home : callable
        Whether there is a file or folder at a path; whether users' folders lie there.
    read : callable
        A file; None for one that cannot be read, which counts: whoever migrates it says why it cannot be.
    is_beside : callable
        Whether a file or folder of a name lies beside the root.
    """

    root: Path
    names: Callable[[str], Iterable[str]]
    below: Callable[[str], Iterable[str]]
    exists: Callable[[str], bool]
    is_home: Callable[[str], bool]
    read: Callable[[str], Source | None]
    is_beside: Callable[[str], bool]

    @cached_property
    def _root_parts(self) -> tuple[str, ...]:
        return self.root.resolve().parts

    def in_folder(self, folder: str) -> list[str]:
        """The paths of the old files in a folder."""
        place = self._parts(folder)
        is_bots, is_beside = place[-2:] == ("data", "memory"), self.is_home(posixpath.join(folder, "users"))
        names = list(filter(is_user_file, self.names(folder))) if is_bots or is_beside else []
        if is_bots:
            indexed, strict = self._indexed(folder), self._has_workspace(folder)
            return [posixpath.join(folder, name) for name in names if self._is_users(folder, name, indexed, strict)]
        if names:
            return [path for name in names if self._may_hold(path := posixpath.join(folder, name))]
        return [posixpath.join(folder, name) for name in (self._alone(folder) if place[-1] == "memory" else ())]

    def of_user(self, folder: str, user: str) -> str | None:
        """The path of a user's old file in a folder, or None; of a bot's folder no other file is read."""
        path, place = posixpath.join(folder, f"{user}.md"), self._parts(folder)
        if not self.exists(path) or not is_user_file(f"{user}.md"):
            return None
        if place[-2:] != ("data", "memory"):
            return path if path in self.in_folder(folder) else None
        return (
            path if self._is_users(folder, f"{user}.md", self._indexed(folder), self._has_workspace(folder)) else None
        )

    def _parts(self, folder: str) -> tuple[str, ...]:
        return ("", "", *self._root_parts, *filter(None, folder.split("/")))

    def _is_users(self, folder: str, name: str, indexed: set[str], strict: bool) -> bool:
        if name in indexed:
            return False
        source = self.read(posixpath.join(folder, name))
        return source is None or is_users(source, strict=strict)

    def _may_hold(self, path: str) -> bool:
        source = self.read(path)
        return source is None or holds_items(source)

    def _has_workspace(self, folder: str) -> bool:
        """Whether a workspace's files lie in a folder or beside it, also beside the root."""
        above = posixpath.dirname(folder)
        beside = [self.exists(posixpath.join(place, name)) for place in (folder, above) for name in _WORKSPACE]
        outside = not folder and any(map(self.is_beside, _WORKSPACE))
        return any(beside) or outside or any(map(_DATED.match, self.names(folder)))

    def _indexed(self, folder: str) -> set[str]:
        """The names of the files of a folder that an ``index.json`` names there, or a branch of it."""
        named, waiting, seen = set[str](), ["index.json"], set[str]()
        while waiting:
            path = waiting.pop()
            place = posixpath.join(folder, path)
            source = self.read(place) if path not in seen and self.exists(place) else None
            seen.add(path)
            for written in _written_paths(source):
                relative = posixpath.normpath(written.removeprefix("./").removeprefix("memory/"))
                named.add(relative)
                waiting += [relative] if relative.endswith(".json") and not relative.startswith("..") else []
        return named

    def _alone(self, folder: str) -> list[str]:
        """The old files of a folder without users' folders, where they are all its Markdown and no workspace is."""
        names = list(self.below(folder))
        users = [name for name in names if name.lower().endswith(MARKDOWN)]
        above = posixpath.dirname(folder)
        if any(self.exists(posixpath.join(above, name)) for name in _WORKSPACE) or "index.json" in names:
            return []
        sources = (self.read(posixpath.join(folder, name)) for name in users if is_user_file(name))
        are_items = all(map(is_user_file, users)) and all(
            source and is_users(source, strict=True) for source in sources
        )
        return users if are_items else []


def _written_paths(source: Source | None) -> list[str]:
    """The paths that an index, a branch of it or an old flat list gives."""
    try:
        waiting = [load_json(source.text)] if source else []
    except StructureError:
        return []
    paths: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            paths += [path for name in ("file", "path") if isinstance(path := value.get(name), str) and path]
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return paths


def is_user_file(name: str) -> bool:
    """Whether a name in a folder can be that of a user's old file.

    >>> [is_user_file(name) for name in ("anna.md", "42.md", "README.md", "2026-02-03.md", "a b.md", "x/anna.md")]
    [True, True, False, False, False, False]
    """
    stem = name.removesuffix(".md")
    return stem != name and not stem.isupper() and not _DATED.match(stem) and USER.fullmatch(stem) is not None


def is_users(source: Source, *, strict: bool = False) -> bool:
    """Whether a file of a bot is a user's old one, by its lines: no front matter, sections, code or check list.

    With `strict` all of its lines must be items or numbered, as where a workspace lies beside it.

    >>> [is_users(Source("anna.md", text)) for text in ("Пьёт чай", "", "# Анна\\n- чай", "# Анна\\nПроза.")]
    [True, True, True, False]
    >>> is_users(Source("anna.md", "- чай\\nПроза."), strict=True)
    False
    """
    text, code = source.text, fences(source.text)
    lines = [line for line in source.lines if line.strip()]
    is_front = bool(lines) and lines[0].rstrip() == "---"
    if is_front or code.closed or code.unclosed or (lines and all(map(_TASK.match, map(str.strip, lines)))):
        return False
    titles = [heading.line for heading in headings(text, code)]
    under = [n for n, (line, above) in enumerate(zip(source.lines[1:], source.lines, strict=False), 2)
             if _UNDERLINE.fullmatch(line) and above.strip() and not _ITEM.match(above)]  # fmt: skip
    if under or len(titles) > 1 or (titles and source.lines[titles[0] - 1] != lines[0]):
        return False
    body = lines[len(titles) :]
    n_items = sum(_ITEM.match(line) is not None for line in body)
    return (bool(body) and n_items == len(body)) if strict else not titles or 2 * n_items >= len(body)


def holds_items(source: Source | None) -> bool:
    """Whether at least half of the lines that say something are items, as in a user's old file and no page of prose.

    >>> [holds_items(Source("anna.md", text)) for text in ("- чай\\nстрока", "# Как\\n\\nТак.\\nИ так.\\n- и ещё", "")]
    [True, False, False]
    """
    lines = [line for line in source.lines if line.strip() and not line.startswith("#")] if source else []
    return bool(lines) and 2 * sum(_ITEM.match(line) is not None for line in lines) >= len(lines)


def _old_fact(line: str) -> dict[str, str] | None:
    """The fact of a line of an old file: an item, a numbered or a plain line; None for a title or a rule."""
    line = " ".join(line.replace("\0", "").split("\r"))  # neither may stand in a fact
    item = _ITEM.match(line)
    text = line[item.end() :].strip() if item else line.strip()
    if not any(map(str.isalnum, text)) or (not item and text.startswith(("#", "<!--"))):
        return None
    fact = parse_fact(f"- {text}") or {"text": text}
    while tag := _TAG.match(fact["text"]):  # a tag that stands twice
        fact["text"] = fact["text"][tag.end() :].strip()
    return fact if fact["text"].strip() else None


def parse(file: File, rows: Rows) -> None:
    """Each line of a fact file to its rows."""
    source = file.source
    if not file.is_markdown:
        _parse_meta(source, rows)
        return
    reader = _Facts(source, rows, file.finding("facts"))
    for number, line in enumerate(source.lines, 1):
        if line.strip():
            reader.read(number, line)
    if reader.old:
        reason = "the old layout has one file a user; its lines have no types"
        row = {"path": source.path, "kind": "fact", "from_version": "1", "to_version": "2", "reason": reason}
        rows.add("migrations", row)
    if not source.text.strip() and not reader.old:  # a user without facts
        rows.problem("empty_text", source.path, "fact lines", "an empty file", quote=False)


class _Facts:
    """One fact file under way."""

    def __init__(self, source: Source, rows: Rows, finding: object) -> None:
        user = user_of(source.path)
        self.path, self.rows, self.old = source.path, rows, user is None and finding == OLD_LAYOUT
        self.user = source.stem if self.old else user
        self.expected = source.stem if source.stem in TYPES else None

    def read(self, number: int, line: str) -> None:
        def problem(rule: str, field: str, expected: str, got: object) -> None:
            self.rows.problem(rule, self.path, expected, got, line=number, field=field, memory_id=memory_id)

        fact = parse_fact(line) if not self.old else _old_fact(line)
        untagged = self.old and fact is not None and fact.keys() == {"text"}
        place: Row = {"user_id": self.user, "line_start": number, "line_end": number}
        if fact is None:
            memory_id = self.rows.memory("facts", self.path, number, line, kind="line", **place)
            problem("not_a_fact", "", "a fact line", line)
            return
        memory_id = self.rows.new_id("facts", self.path, fact.get("id") or number, fact["text"])
        if not untagged:
            self._check(fact, problem)
        values, taken = FIELDS.read(fact, self.rows, problem, TAGS if untagged else ())
        kind, source_id = values["t"], values["id"]
        if self.old and kind not in TYPES:
            rows_of_old = {"memory_id": memory_id, "path": self.path}
            self.rows.add("_untyped", rows_of_old)
        self.rows.add_id(memory_id, self.path, number, "id", self.path.rpartition("/")[0], source_id)
        memory = {**place, "memory_id": memory_id, "format": "facts", "path": self.path, "source_id": source_id}
        memory |= {
            "kind": kind if kind in TYPES else self.expected or ("archive" if self.old else None),
            "importance": IMPORTANCE_WORDS.get(values["imp"] or ""),
            "text": fact["text"],
            "created_at": values["created"],
            "updated_at": values["created"],
            "expires_at": values["exp"],
            "extra": json_text({name: fact[name] for name in _DATES if name not in taken}),
        }
        self.rows.add("memories", memory)
        self.rows.add("facts", {**memory, "line": number, "id": source_id, "type": kind, "importance": values["imp"]})

    def _check(self, fact: dict[str, str], problem: Problem) -> None:
        """Report what does not fit together on a line, or in its file."""
        kind = fact.get("t")
        if self.expected and kind in TYPES and kind != self.expected:
            problem("type_file_mismatch", "t", f"'{self.expected}', as the file is named", kind)
        if not fact["text"].strip():
            problem("empty_text", "", "a fact with text", fact["text"])
        prefix = _PREFIX.match(fact.get("id", ""))
        if prefix and kind in TYPES and prefix.group() != f"{PREFIXES[kind]}_":
            problem("prefix_mismatch", "id", f"'{PREFIXES[kind]}_' and a number, as t is {kind}", fact["id"])
        if kind == "working" and "exp" not in fact:
            problem("missing_recommended", "exp", "", "nothing")


def _parse_meta(source: Source, rows: Rows) -> None:
    """The counters of a ``meta.json``; they are compared once all files are read."""
    try:
        meta = load_json(source.text)
    except StructureError as error:
        rows.keep_text(source, "facts", "JSON", str(error), error.line)
        return
    if not isinstance(meta, Node):
        rows.keep_text(source, "facts", "a JSON object", type(meta).__name__, 1)
        return
    path, lines = source.path, name_lines(source.lines, 1)

    def problem(rule: str, name: str, expected: str, got: object) -> None:
        rows.problem(rule, path, expected, got, line=lines.get(name, 1), field=name)

    values, taken = META.read(meta, rows, problem, is_typed=True)
    for name in sorted(meta.keys() - META.names - OWN):
        problem("unclaimed", name, "a counter or version", meta[name])
    user: Row = {"user_id": user_of(path), "path": path, "version": values["version"], "extra": extra_of(meta, taken)}
    for name, kind in COUNTED.items():
        user[f"{kind}_count"] = values[name]
        if values[name] is not None:
            place = {"path": path, "line": lines.get(name), "field": name}
            file = f"{path.rpartition('/')[0]}/{kind}.md"
            rows.add("_counters", {**place, "file": file, "type": kind, "count": values[name]})
    rows.add("users", user)


def _relate(tables: Tables, rows: Rows, formats: Iterable[Format]) -> None:
    """Give the facts of old files the types that a migration would give them."""
    paths = pc.unique(tables["_untyped"]["path"])
    if not len(paths):
        return
    memories = tables["memories"]
    untyped = set(tables["_untyped"]["memory_id"].to_pylist())
    places = pc.indices_nonzero(pc.is_in(memories["path"], value_set=paths)).to_pylist()
    found = memories.take(places).to_pylist()
    typed = typed_rows(found, untyped)
    for name, columns in (("memories", ("kind", "importance", "expires_at")), ("facts", ("type", "importance"))):
        table = tables[name]
        by_id = {row["memory_id"]: row for row in typed if row["memory_id"] in untyped}
        ids = table["memory_id"].to_pylist()
        for column in columns:
            values = table[column].to_pylist()
            source = "kind" if column == "type" else column
            new = [by_id[id][source] if id in by_id else value for id, value in zip(ids, values, strict=True)]
            position = table.schema.get_field_index(column)
            table = table.set_column(position, table.field(position), pa.array(new, table.field(position).type))
        tables[name] = table


def typed_rows(memories: Iterable[Row], untyped: Iterable[str]) -> list[Row]:
    """Rows of old files, those whose ids are in `untyped` with the type that the policies give their line.

    A further column, ``why``, says what became of a row.
    """
    # The policies stand above the formats; they are asked only where there is an old file.
    from memkit.policy.admission import typed

    by_path: dict[str, list[Row]] = {}
    for row in memories:
        by_path.setdefault(row["path"], []).append(row)
    return typed(by_path.values(), frozenset(untyped))


def _check(tables: Tables, rows: Rows) -> None:
    """The counters, beside the facts that were read."""
    counts = {row["values"]: row["counts"] for row in pc.value_counts(tables["facts"]["path"]).to_pylist()}
    for row in tables["_counters"].to_pylist():
        real = counts.get(row["file"], 0)
        if real != row["count"]:
            expected = f"{real}, the facts in {row['file']}"
            rows.problem("counter_mismatch", row["path"], expected, row["count"], line=row["line"], field=row["field"])


FORMAT = Format(
    "facts",
    "users/{id}/profile.md, working.md, archive.md and meta.json",
    order=30,
    holds_entries=True,
    kinds=(*TYPES, "line"),
    tables=("facts", "users"),
    schemas={"_counters": _COUNTERS, "_untyped": _UNTYPED},
    endings=MARKDOWN,
    writes=(".json", ".md", KEPT),
    claims=_claims,
    landmark="users memory",
    survey=_survey,
    parse=parse,
    relate=_relate,
    check=_check,
    dates={"created_at": "created"},
    owner=Owner(NONE, store=_FOLDER),
    dates_in_lines=True,
    rules=(
        *FIELDS.rules(),
        *META.rules(),
        Rule("not_a_fact", "facts", "", "a line '- [id:…] [t:…] [imp:…] text'"),
        Rule("prefix_mismatch", "facts", "id", "pf_, wk_ or ar_, as the type is"),
        Rule("missing_recommended", "facts", "exp", "a working fact with this tag"),
        Rule("type_file_mismatch", "facts", "t", "the type that the file is named for"),
        Rule("two_homes", "facts", "", "all users in one folder"),
        Rule("counter_mismatch", "facts", "", "the number of facts in the file beside it"),
    ),
)
