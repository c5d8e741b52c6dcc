"""`mk.export`: the memories of a corpus as the files of another layout, and what that layout can hold of them.

A layout's writer drafts files. These are then read as any folder is, and each memory is compared with what came back:
the table says what was measured, not what a writer meant.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from memkit.base.hashes import digest
from memkit.base.parallel import bar
from memkit.base.params import AsOf, as_of_time, check_choice, current_names, describe, path_of
from memkit.base.plugins import EXPORTS
from memkit.change.diff import Diff
from memkit.change.disk import RESERVED, check_new, folded
from memkit.change.edits import Edits
from memkit.display.draw import Tabular
from memkit.errors import ChangeRefusedError, FormatError, ParameterError, refused
from memkit.formats import spelling
from memkit.formats.facts import COUNTED, PREFIXES, TYPES, format_fact
from memkit.formats.format import MARKDOWN
from memkit.formats.notes import MAX_KEYWORD, MAX_KEYWORDS, MAX_SUBJECT, check_fields, format_note
from memkit.formats.reader import Options, read, read_with
from memkit.formats.registry import FORMATS
from memkit.formats.rows import Row, first_words, slug_of
from memkit.formats.spelling import end_of, end_text, plain, text_of, time_of
from memkit.formats.syntax.places import block
from memkit.policy.admission import Admission
from memkit.schemas import KINDS, WORDS, result_schema
from memkit.tables.corpus import Corpus
from memkit.text.secrets import mask

COMPARED = (
    *("title", "text", "description", "aliases", "tags", "importance", "confidence", "status", "superseded_by"),
    *("created_at", "updated_at", "verified_at", "stale_at", "expires_at", "user_id", "scope", "source_id"),
    *("pinned", "access_count"),
)
"""The columns of a memory that are compared; and `EXTRA`, its fields without a column, and `LINKS`, its relations."""
LINKS, LINK_TYPES, EXTRA = "links", "link_types", "extra"
HEAD = "head"
"""The kind of a page's memory of its front matter alone; it is drafted as such, and no text of the page."""
_EXPORT = result_schema((pa.string(), "memory_id path to_id"), (WORDS, "held beside lost"), (pa.string(), "reason"))
_SPELLED = {name for names in vars(spelling).values() if isinstance(names, tuple) for name in names} | {"generated"}
"""The names of fields, in plain spelling, that a reader of pages makes columns of."""
_ENTRIES = frozenset(format.name for format in FORMATS if format.holds_entries)
_LEAST, _MOST = Admission().min_chars, Admission().max_chars
_SCOPE = re.compile(r"global|file:.+|area:.+", re.DOTALL)
# 200 characters, as the tools of a server take.
_USER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")
_ODD = re.compile(r'[<>:"|?*\\\x00-\x1f\x7f]|(?<![. ])[. ]+(?=/|$)|(?<![^/])[. ]+')
_ID = re.compile(r"(?:pf|wk|ar)_\d+")
_FIELD = re.compile(r"[^\W\d][\w .-]*")
_LONGEST = 80
"""The most characters of a file's name that is made from a title; whole names are within the limit of every system."""
# Systems take 255 bytes of a name: 15 are left for its ending and number.
_LONGEST_NAME = 240
"""The most bytes of a name without its ending and number."""


@dataclass
class Group:
    """The memories that were one page, or a memory alone.

    Attributes
    ----------
    rows : list of dict
        In order.
    title : str
        Of the page; empty where it has none.
    """

    rows: list[Row]
    title: str

    def shared(self, name: str) -> Any:
        """What the page says under a column, on its first row; of sections alone what all say, else None."""
        values = [row[name] for row in self.rows]
        is_of_page = self.rows[0]["kind"] == HEAD or name == "aliases"
        return values[0] if is_of_page or all(value == values[0] for value in values) else None

    @property
    def extra(self) -> Row:
        """The fields of the first row that have no column."""
        return extra_of(self.rows[0])

    @cached_property
    def text(self) -> str:
        """The texts joined, as they stood in the page."""
        return _joined(self.rows)

    @property
    def is_page(self) -> bool:
        """Whether its texts are the sections of a Markdown file."""
        return _is_section(self.rows[0])


def extra_of(row: Row) -> Row:
    """The fields of a memory that have no column; what memkit itself keeps there, under odd names, is none."""
    fields: Row = json.loads(row["extra"])
    return {name: value for name, value in fields.items() if value is not None and _FIELD.fullmatch(name)}


def _joined(rows: Iterable[Row]) -> str:
    return "\n".join(row["text"] for row in rows if row["kind"] != HEAD).strip("\n")


@dataclass
class Written:
    """What a writer drafted.

    Attributes
    ----------
    files : dict of str to str
        Texts by path.
    places : dict of str to tuple
        Memory id to its file, and to the number of its memory there, from 0, or to the name and text of an observation;
        None for a page whose sections are compared together.
    refused : dict of str to str
        Memory id to why the layout cannot hold it.
    reasons : dict of str to str
        Memory id to what was added or changed.
    is_paged : bool
        Whether a file is one page, or one memory, so that its first memory speaks for it.
    """

    files: dict[str, str] = field(default_factory=dict)
    places: dict[str, tuple[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    is_paged: bool = True


@dataclass(frozen=True)
class Link:
    """A relation between two memories of the corpus."""

    from_id: str
    to_id: str
    type: str
    in_text: bool


@dataclass
class Job:
    """What a writer works on.

    Attributes
    ----------
    groups : list of Group
        The memories, those of one page together.
    links : dict of str to list of Link
        The relations that begin at a memory, by its id.
    user : str or None
        The user whose memories are exported.
    moment : datetime
        Of the export, in UTC.
    out : Written
        What is drafted so far.
    """

    groups: list[Group]
    links: dict[str, list[Link]]
    user: str | None
    moment: datetime
    out: Written = field(default_factory=Written)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title under which each memory can be linked to."""
        return {row["memory_id"]: name_of(group) for group in self.groups for row in group.rows}

    @cached_property
    def paths(self) -> dict[str, str]:
        """The page of each memory: where it was for a page, else named after its title; no two differ in case alone."""
        taken: _Taken = {}
        return {
            row["memory_id"]: path for group in self.groups for path in [_page_path(group, taken)] for row in group.rows
        }


class Export(Tabular):
    """A plan of an export; made by `export`.

    Attributes
    ----------
    table : pyarrow.Table
        One row a memory: memory_id, the file it goes to, its id there, three lists of columns, and the reason. Columns
        in ``held`` are equal when they are read back, those in ``beside`` come back in ``extra``, and those in ``lost``
        do not come back. ``links`` stands for its relations to other memories, ``link_types`` for their types. A memory
        that is not written has no path.
    files : dict of str to str
        The texts of the files, by path.
    folder : Path
        Where `apply` writes.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> planned = mk.export(mk.from_table({"text": ["Деплой по вторникам"]}), tempfile.mkdtemp(), "okf")
    >>> sorted(planned.files)
    ['index.md', 'memory/деплой-по-вторникам.md']
    >>> planned.table["held"].to_pylist()
    [['text']]
    """

    def __init__(
        self, folder: Path, layout: str, files: Mapping[str, str], rows: Sequence[Row], moment: datetime
    ) -> None:
        self.folder, self.layout, self.files, self.moment = folder, layout, dict(files), moment
        table = pa.Table.from_pylist(list(rows), schema=_EXPORT)
        lost = Counter(name for row in rows for name in row["lost"])
        whole = sum(not row["lost"] for row in rows)
        listed = ", ".join(f"{name} of {count}" for name, count in sorted(lost.items()))
        note = f"{whole} of {len(rows)} memories are held whole." + (f" Lost: {listed}." if listed else "")
        self.table = describe(table, memkit="export", note=note)

    def diff(self) -> Diff:
        """The files as a unified diff."""
        with tempfile.TemporaryDirectory() as empty:
            return self._edits(Path(empty)).diff()

    def apply(self) -> pa.Table:
        """Write all files or none, in one step that `memkit.undo` takes back; the folder is made where it is missing.

        Returns
        -------
        pyarrow.Table
            The files: path, op, sha256_before, sha256_after.

        Raises
        ------
        ChangeRefusedError
            Where the folder is no longer empty.
        """
        _check_empty(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refused(self.folder, _WRITABLE, str(error.strerror)) from error
        return self._edits(self.folder).apply()

    def _edits(self, root: Path) -> Edits:
        reason = f"exported as {self.layout}"
        rows = [
            {"op": "create", "path": path, "after": text, "reason": reason, "policy": "export"}
            for path, text in sorted(self.files.items())
        ]
        return Edits(root, rows, about={"time": self.moment.isoformat()})

    def __len__(self) -> int:
        return int(self.table.num_rows)


@current_names
def export(corpus: Corpus, path: str | Path, layout: str, *, user_id: str | None = None, as_of: AsOf = None) -> Export:
    """Plan the files that hold a corpus in another layout; nothing is written before ``.apply()``.

    The planned files are read back, and each memory is compared with the result: texts without blank lines at their
    ends, a page with several sections as a whole. No text is cut: the table lists what a layout cannot hold.

    Parameters
    ----------
    corpus : Corpus
        Of any layout.
    path : str or Path
        An empty folder, or one that does not exist yet.
    layout : str
        'okf' (pages with YAML and an index), 'obsidian' (a vault), 'notes' (the Memory Format), 'facts' (Memory v2: a
        fact has 12 to 240 characters and a user_id), or one of a host or package; an unknown one lists all.
    user_id : str, optional
        With 'facts': whose facts the memories without a user become.
    as_of : str, date, datetime or None
        The date for memories without one, where the layout needs a date; None is now.

    Returns
    -------
    Export

    Raises
    ------
    ParameterError
        For an unknown layout.
    ChangeRefusedError
        Where the folder is not empty.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> corpus = mk.from_table({"text": ["Деплой по вторникам", "чай"], "tags": [["релиз"], []]})
    >>> facts = export(corpus, folder, "facts", user_id="anna", as_of="2026-03-01")
    >>> facts.table.select(["path", "held", "lost"]).to_pylist()  # doctest: +NORMALIZE_WHITESPACE
    [{'path': 'users/anna/archive.md', 'held': ['text'], 'lost': ['tags']},
     {'path': None, 'held': [], 'lost': ['text']}]
    >>> print(facts.table["reason"][1])
    a fact has 12 to 240 characters, not 3
    >>> _ = facts.apply()
    >>> mk.read(folder).memories["text"].to_pylist()
    ['Деплой по вторникам']
    """
    if not isinstance(corpus, Corpus):
        raise ParameterError(f"export: expected a Corpus. Got {type(corpus).__name__}.")
    check_choice("layout", layout, (*LAYOUTS, *EXPORTS.names()), "export")
    write = LAYOUTS.get(layout) or EXPORTS.get(layout)
    if write is None:
        raise ParameterError(f"export: 'layout' must be one that can be loaded. Got {layout!r}.")
    if user_id is not None and not (isinstance(user_id, str) and _USER.fullmatch(user_id)):
        got = f"{mask(repr(user_id)):.80}"
        raise ParameterError(f"export: 'user_id' must be letters, digits, '_', '-' and '.'. Got {got}.")
    target = path_of("export", path)
    _check_empty(target)
    moment = as_of_time(as_of)
    rows = corpus.memories.to_pylist()
    job = Job(_groups(rows), _links(corpus, rows), user_id, moment)
    write(job)
    table = _compared(job, rows)
    return Export(target, layout, job.out.files, table, moment)


_WRITABLE = "a folder that can be made and written"


def _check_empty(folder: Path) -> None:
    """Raise where a folder holds anything but memkit's own state: files of two exports would be read as one."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise refused(folder, "a folder", "a file" if folder.exists() else "a link that leads nowhere")
    above = next(filter(os.path.lexists, (folder, *folder.absolute().parents)))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise refused(folder, _WRITABLE, f"{'no right to write in' if above.is_dir() else 'a file,'} {above}")
    if folder.is_dir() and any(name.name != ".memkit" for name in folder.iterdir()):
        raise ChangeRefusedError(f"{folder}: expected an empty folder, or one that does not exist yet.")


def _is_section(row: Row) -> bool:
    kind = KINDS.get(row["kind"] or "")
    is_markdown = (row["path"] or "").lower().endswith(MARKDOWN)
    is_verbatim = bool(kind and kind.verbatim and row["format"] not in _ENTRIES)
    return is_markdown and (is_verbatim or row["kind"] == HEAD)


def _groups(rows: Sequence[Row]) -> list[Group]:
    """The pages, and every other memory alone; what policies only keep is no memory and left out."""
    groups = []
    for (_, path), numbered in groupby(enumerate(rows), lambda item: _place(*item)):
        of_page = [row for _, row in numbered]
        groups.append(Group(of_page, _title(of_page, path)))
    return groups


def _place(number: int, row: Row) -> tuple[int, str]:
    return (-1, row["path"]) if _is_section(row) else (number, "")


def _title(rows: list[Row], path: str) -> str:
    """The title of a page, which stands in the heading_path of all its sections, below the folders; else its own."""
    first = rows[0]
    opens = first["layout"] is not None and not first["text"].lstrip().startswith("#")  # above the first heading
    if not path or len(rows) == 1 or first["kind"] == HEAD or opens:
        return str(first["title"])
    above = [part for part in path.split("/")[:-1] if part]
    parts = [(row["heading_path"] or "").split(" / ")[len(above) :] for row in rows]
    firsts = {part[0] for part in parts if part and part[0]}
    return firsts.pop() if len(firsts) == 1 and all(parts) else ""


def name_of(group: Group) -> str:
    """What a page or entity is called: its title, else the name of its file, else its first words."""
    path = group.rows[0]["path"] or ""
    stem = path.rpartition("/")[2].rpartition(".")[0] if group.is_page else ""
    return " ".join((group.title or stem or first_words(group.text)).split())


_Taken = dict[tuple[str, str], str]
"""Names by their folder, and by what every system tells apart of them; those of folders end in "/"."""


def _page_path(group: Group, taken: _Taken) -> str:
    row = group.rows[0]
    if group.is_page:
        parts = row["path"].split("/")
        parts[-1] = parts[-1].rpartition(".")[0]
    else:
        parts = [slug_of(part) for part in (row["user_id"], row["kind"] or "memory") if part]
        parts.append(slug_of(group.title or first_words(group.text))[:_LONGEST])
    *above, name = map(_plain, parts)
    folder = ""
    for part in filter(None, above):
        folder = f"{folder}{_free(folder, part, '/', taken)}"
    return folder + _free(folder, name or "page", ".md", taken)


def _plain(name: str) -> str:
    """`name` as every system can have it, and a person can read it; empty where nothing is left."""
    printable = "".join(filter(str.isprintable, _ODD.sub("", " ".join(name.split()))))
    short = printable.encode()[:_LONGEST_NAME].decode("utf-8", "ignore").strip(" .")
    return RESERVED.sub(r"\g<0>_", short) if RESERVED.match(short) else short


def _free(folder: str, name: str, ending: str, taken: _Taken) -> str:
    """`name` with its ending, and with a number where another has it; a folder is the one of that name."""
    found, number = f"{name}{ending}", 1
    while known := taken.get((folder, folded(found.rstrip("/")))):
        if ending == "/" and known.endswith("/"):
            return known
        number += 1
        found = f"{name}-{number}{ending}"
    taken[folder, folded(found.rstrip("/"))] = found
    return found


def _links(corpus: Corpus, rows: Sequence[Row]) -> dict[str, list[Link]]:
    """The relations between memories of the corpus, by the memory that they are from; each once."""
    ids = {row["memory_id"] for row in rows}
    # Reversed, so that of equal ids the first memory stays.
    fact_ids = {row["source_id"]: row["memory_id"] for row in reversed(rows) if row["kind"] == "wisdom_fact"}
    sections = {row["memory_id"] for row in rows if _is_section(row)}
    links: dict[str, list[Link]] = {}
    table = corpus.tables.get("relations")
    for row in table.to_pylist() if table is not None else ():
        from_id = row["from_id"] if row["from_id"] in ids else row["memory_id"]
        to_id = row["to_id"] if row["to_id"] in ids else fact_ids.get(row["to_id"] or "")
        if from_id in ids and to_id is not None:
            in_text = row["written"] is not None and from_id in sections
            link = Link(from_id, to_id, row["type"] or "links_to", in_text)
            if link not in links.setdefault(from_id, []):
                links[from_id].append(link)
    return links


# Writers.


def end_or_none(moment: datetime | None) -> str | None:
    """The end of a memory as a field holds it; None where it has none.

    >>> end_or_none(None) is None
    True
    """
    return None if moment is None else end_text(moment)


def _stamp(moment: datetime | None) -> str | None:
    """A time as front matter has it: a day where it is midnight."""
    if moment is None:
        return None
    moment = moment.astimezone(UTC)
    if moment == moment.replace(hour=0, minute=0, second=0, microsecond=0):
        return moment.date().isoformat()
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def _okf_head(group: Group, job: Job) -> Row:
    verified, updated = (_stamp(group.shared(name)) for name in ("verified_at", "updated_at"))
    return {
        "type": group.shared("scope") or group.rows[0]["kind"] or "Memory",
        "title": name_of(group),
        **_described(group),
        "generated": {"by": "memkit", "at": updated} if updated else None,
        "verified": {"at": verified} if verified else None,
        "stale_after": _stamp(group.shared("stale_at")),
    }


def vault_head(group: Group, job: Job) -> Row:
    """The front matter of a vault's page: what its rows say in common."""
    dates = {"updated": "updated_at", "last_verified": "verified_at", "stale_after": "stale_at"}
    head = {"title": group.title or None, "description": group.shared("description"), "type": group.shared("scope")}
    return {**head, **_described(group), **{name: _stamp(group.shared(column)) for name, column in dates.items()}}


def _described(group: Group) -> Row:
    """What the heads of both layouts say in the same words."""
    head = {"description": group.shared("description"), "tags": _all_tags(group), "aliases": group.shared("aliases")}
    return {**head, "status": group.shared("status"), "created": _stamp(group.shared("created_at"))}


def _all_tags(group: Group) -> list[str] | None:
    """The tags that every section has."""
    first, *others = (row["tags"] or [] for row in group.rows)
    return [tag for tag in first if all(tag in tags for tags in others)] or None


def pages(head: Callable[[Group, Job], Row], *, index: bool = False) -> Callable[[Job], None]:
    """The writer of a layout of Markdown pages with front matter.

    Parameters
    ----------
    head : callable
        ``head(group, job)`` gives the fields of one page's front matter; those that are null or empty are left out.
    index : bool
        Whether the folder has an ``index.md`` that lists the pages.
    """

    def write(job: Job) -> None:
        listed = []
        for group in bar("writing", job.groups, leave=False):
            if refuse_unjudged(group, job):
                continue
            path = job.paths[group.rows[0]["memory_id"]]
            text = block(_front(group, head(group, job), job), loose=True)
            job.out.files[path] = f"---\n{text}---\n\n{group.text}\n{_links_below(group, job)}"
            sections = [row for row in group.rows if row["kind"] != HEAD]
            job.out.places |= {row["memory_id"]: (path, number) for number, row in enumerate(sections)}
            job.out.places |= {row["memory_id"]: (path, HEAD) for row in group.rows if row["kind"] == HEAD}
            listed.append((path, name_of(group), group.shared("description")))
            if group.is_page and path.removesuffix(".md") != group.rows[0]["path"].rpartition(".")[0]:
                why = "not every system can have its file's name, so it has another"
                job.out.reasons |= {row["memory_id"]: why for row in group.rows}
        if index and "index.md" not in {path.casefold().partition("/")[0] for path, _, _ in listed}:
            job.out.files["index.md"] = _index_of(listed)

    return write


def _front(group: Group, head: Row, job: Job) -> Row:
    """The front matter: what a page's own says beyond its columns stands as it did, so that it reads as it did."""
    fields, extra = _filled({**head, **_front_rest(group, job)}), group.extra
    if not group.is_page:  # of a record, a name that the reader of pages knows means something else
        extra = {name: value for name, value in extra.items() if plain(name) not in _SPELLED}
    names = {plain(name) for name in extra}
    return {**{name: value for name, value in fields.items() if plain(name) not in names}, **extra}


def _filled(fields: Row) -> Row:
    return {name: value for name, value in fields.items() if value not in (None, [], "")}


def _front_rest(group: Group, job: Job) -> Row:
    """The columns that have no key of their own in a layout, under their names: a reader keeps them in extra."""
    rest = {name: group.shared(name) for name in ("importance", "confidence", "user_id", "access_count")}
    rest["permalink" if group.is_page else "source_id"] = group.shared("source_id")
    rest |= {"pinned": group.shared("pinned") or None, "expires_at": end_or_none(group.shared("expires_at"))}
    successor = group.shared("superseded_by")
    rest["superseded_by"] = f"[[{job.paths[successor].removesuffix('.md')}]]" if successor in job.paths else None
    return rest


def _links_below(group: Group, job: Job) -> str:
    """The relations that stand in no text, as a list below the page."""
    links = [link for row in group.rows for link in job.links.get(row["memory_id"], ()) if not link.in_text]
    if not links:
        return ""
    lines = []
    for link in links:
        word = link.type if re.fullmatch(r"\w+", link.type) else json.dumps(link.type, ensure_ascii=False)
        lines.append(f"- {word} [[{job.paths[link.to_id].removesuffix('.md')}]]\n")
    return "\n## Relations\n\n" + "".join(dict.fromkeys(lines))


def _index_of(listed: Sequence[tuple[str, str, str | None]]) -> str:
    lines = []
    for path, name, description in sorted(listed):
        target = f"<{path}>" if set(path) & set(" ()") else path
        bare = name.replace("[", "\\[").replace("]", "\\]")
        lines.append(f"* [{bare}]({target})" + (f" - {' '.join(description.split())}" if description else ""))
    return '---\nokf_version: "0.2"\n---\n\n# Index\n\n' + "".join(f"{line}\n" for line in lines)


def refuse_unjudged(group: Group, job: Job, *, other_kinds: Iterable[str] = ()) -> bool:
    """Refuse what is no memory: lines that are no facts, records of an unknown version; and `other_kinds`."""
    kind = group.rows[0]["kind"] or ""
    if kind in ("line", "quarantined", *other_kinds):
        why = f"it is {KINDS[kind].meaning}, which this layout does not have"
        job.out.refused |= {row["memory_id"]: why for row in group.rows}
        return True
    if not group.text.strip() and group.rows[0]["kind"] != HEAD:
        job.out.refused |= {row["memory_id"]: "it has no text" for row in group.rows}
        return True
    return False


def bodies(group: Group, job: Job) -> list[Row]:
    """The rows of a page that have a text of their own, the first with what the whole page says; else all."""
    head, rows = group.rows[0], [row for row in group.rows if row["kind"] != HEAD]
    if head["kind"] != HEAD or not rows:
        return group.rows
    return [{**rows[0], "aliases": head["aliases"], "extra": head["extra"]}, *rows[1:]]


def place_head(group: Group, job: Job) -> None:
    """Put the front matter of a page where its first section is."""
    head, first = group.rows[0], group.rows[min(1, len(group.rows) - 1)]
    if head["kind"] == HEAD and head is not first:
        why = "it is the front matter of a page, which stands with its first section here"
        job.out.reasons[head["memory_id"]] = why
        if first["memory_id"] in job.out.places:
            job.out.places[head["memory_id"]] = job.out.places[first["memory_id"]]


def _write_notes(job: Job) -> None:
    """A file a memory, named after an id of version 4 that is made of the memory's own."""
    for group in bar("writing", job.groups, leave=False):
        if refuse_unjudged(group, job, other_kinds=("index",)):
            continue
        for row in bodies(group, job):
            id, reasons = _note_id(row), []
            title = " ".join((row["title"] or first_words(row["text"])).split())
            words = [" ".join(word.split()) for word in row["tags"] or [row["kind"] or "memory"]]
            keywords = [word for word in dict.fromkeys(words) if word and len(word) <= MAX_KEYWORD][:MAX_KEYWORDS]
            if not row["tags"]:
                reasons.append("a note has a keyword, so it has its kind")
            created = row["created_at"] or row["updated_at"]
            if created is None:
                reasons.append("a note has a date, so it has that of the export")
            created = created or job.moment
            updated = max(row["updated_at"] or created, created)
            scope = row["scope"] if row["scope"] and _SCOPE.fullmatch(row["scope"]) else "global"
            fields: Row = {"id": id, "subject": title[:MAX_SUBJECT], "keywords": keywords or ["memory"]}
            fields |= {"applies_to": scope, "created_at": time_text(created), "updated_at": time_text(updated)}
            rest = {
                name: row[name] for name in ("description", "aliases", "status", "importance", "confidence", "user_id")
            }
            rest |= {name: _stamp(row[name]) for name in ("verified_at", "stale_at")}
            rest["expires_at"] = end_or_none(row["expires_at"])
            rest |= {"scope": row["scope"] if scope != row["scope"] else None, "source_id": row["source_id"]}
            rest |= {"pinned": row["pinned"] or None, "access_count": row["access_count"]}
            # What a note must have wins over columns, and these over what was read beside them.
            fields = {**extra_of(row), **_filled(rest), **fields}
            try:
                check_fields(fields)
                text = format_note(fields, f"\n{row['text'].strip(chr(10))}\n")
            except FormatError as error:
                job.out.refused[row["memory_id"]] = str(error)
                continue
            path = f"notes/{id}.md"
            job.out.files[path] = text
            job.out.places[row["memory_id"]] = path, 0
            job.out.reasons[row["memory_id"]] = "; ".join(reasons)
        place_head(group, job)


def time_text(moment: datetime) -> str:
    """A time as JSON holds it, in UTC.

    >>> time_text(datetime(2026, 3, 1, 12, 30, tzinfo=UTC))
    '2026-03-01T12:30:00Z'
    """
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def _note_id(row: Row) -> str:
    """A UUID of version 4 that is the same for the same memory; a note keeps its own."""
    try:
        if row["kind"] == "note" and UUID(row["source_id"]).version == 4:
            return str(UUID(row["source_id"]))
    except (ValueError, TypeError):
        pass
    # Of its id, so that a second export writes the same files; the notes' document asks for version 4.
    return str(UUID(hex=digest(row["memory_id"], 16), version=4))


def _write_facts(job: Job) -> None:
    """A line a memory, in the file of its user and type."""
    job.out.is_paged = False
    lines: dict[str, list[str]] = {}
    ids, folders = _FactIds(job.groups), _folders_of(job)
    for group in bar("writing", job.groups, leave=False):
        if refuse_unjudged(group, job, other_kinds=("index",)):
            continue
        for row in bodies(group, job):
            try:
                user = row["user_id"] or job.user
                path, line = _fact_line(row, folders.get(user or "", user), ids)
            except FormatError as error:
                job.out.refused[row["memory_id"]] = str(error)
                continue
            reasons = ["a fact is one line, so its lines are joined"] if "\n" in row["text"].strip() else []
            if user in folders:
                reasons.append("not every system can have a folder of its user's name, so it has another")
            job.out.reasons |= {row["memory_id"]: "; ".join(reasons)} if reasons else {}
            job.out.places[row["memory_id"]] = path, len(lines.setdefault(path, []))
            lines[path].append(line)
        place_head(group, job)
    for path, facts in lines.items():
        job.out.files[path] = "".join(f"{line}\n" for line in facts)
    for user in sorted({path.split("/")[1] for path in lines}):
        counts = {name: len(lines.get(f"users/{user}/{kind}.md", ())) for name, kind in COUNTED.items()}
        job.out.files[f"users/{user}/meta.json"] = json.dumps({"version": 2, **counts}, indent=2) + "\n"


def _folders_of(job: Job) -> dict[str, str]:
    """The folders of users who cannot have one of their own name on every system, beside those who can."""
    names = {row["user_id"] or job.user or "" for group in job.groups for row in group.rows}
    # First those who can keep their own name, so that nobody else takes it.
    users = sorted(filter(_USER.fullmatch, names), key=lambda name: (name != _plain(name), name))
    taken: _Taken = {}
    folders = {name: _free("", _plain(name), "", taken) for name in users}
    return {name: folder for name, folder in folders.items() if folder != name}


def _fact_line(row: Row, user: str | None, ids: _FactIds) -> tuple[str, str]:
    """The file of a memory as a fact of a user, and its line there.

    Raises
    ------
    FormatError
        Where it cannot be a fact.
    """
    text = " ".join(row["text"].split("\n")).strip()
    if user is None:
        raise FormatError("a fact belongs to a user: give user_id=")
    if not _USER.fullmatch(user):
        raise FormatError("a user's name has letters, digits, '_', '-' and '.', and is 200 of them at most")
    if not _LEAST <= len(text) <= _MOST:
        raise FormatError(f"a fact has {_LEAST} to {_MOST} characters, not {len(text)}")
    kind = row["kind"] if row["kind"] in TYPES else "archive"
    id = ids.assign(user, kind, row["source_id"] or "")
    fact = {"id": id, "t": kind, "imp": row["importance"] or "normal", "text": text}
    days = (("exp", "expires_at"), ("created", "created_at"))
    fact |= {tag: row[name].date().isoformat() for tag, name in days if row[name]}
    return f"users/{user}/{kind}.md", format_fact(fact)


class _FactIds:
    """Ids of facts: a fact keeps one that fits its type, others get the next number that no memory of the user has."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._known = {(row["user_id"], row["source_id"]) for group in groups for row in group.rows}
        self._assigned: set[tuple[str, str]] = set()
        self._numbers: Counter[tuple[str, str]] = Counter()

    def assign(self, user: str, kind: str, before: str) -> str:
        """The id of a fact that was called `before`."""
        prefix, id = PREFIXES[kind], before
        if not (_ID.fullmatch(id) and id.startswith(prefix)) or (user, id) in self._assigned:
            id = ""
        while not id or (user, id) in self._assigned or (id != before and (user, id) in self._known):
            self._numbers[user, kind] += 1
            id = f"{prefix}_{self._numbers[user, kind]:03}"
        self._assigned.add((user, id))
        return id


LAYOUTS: dict[str, Callable[[Job], None]] = {
    "okf": pages(_okf_head, index=True),
    "notes": _write_notes,
    "obsidian": pages(vault_head),
    "facts": _write_facts,
}
"""The writer of each layout of the documents and of plain and linked Markdown."""


# What came back.


def _compared(job: Job, rows: Sequence[Row]) -> list[Row]:
    """One row a memory: what of it reads back from the drafted files; cost is linear in the corpus."""
    _refuse_unwritable(job)
    back = _Back(job, *_read_back(job.out.files))
    table = []
    for row in bar("comparing", rows, leave=False):
        memory_id, came = row["memory_id"], back.row_of.get(row["memory_id"])
        fields = [name for name in COMPARED if row[name] not in (None, "", [], False)]
        fields += [EXTRA] if extra_of(row) else []
        held, beside = back.held_and_beside(row, came, fields) if came else ([], [])
        lost = [name for name in fields if name not in held and name not in beside]
        if links := job.links.get(memory_id, []):
            wanted = {(back.end(link.to_id), link.type) for link in links}
            led = back.links.get(back.end(memory_id) or "", set()) | back.links.get(back.ids.get(memory_id, ""), set())
            (held if came and {to for to, _ in wanted} <= {to for to, _ in led} else lost).append(LINKS)
            if any(link.type != "links_to" for link in links):
                (held if came and wanted <= led else lost).append(LINK_TYPES)
        reason = job.out.refused.get(memory_id) or job.out.reasons.get(memory_id)
        reason = reason or (None if came else "the layout reads it as something else")
        place = {"path": job.out.places[memory_id][0] if came else None, "to_id": back.ids.get(memory_id)}
        table.append({"memory_id": memory_id, **place, "held": held, "beside": beside, "lost": lost, "reason": reason})
    return table


def _refuse_unwritable(job: Job) -> None:
    """Leave out the files that no change would write, with the reason for each memory in them."""
    for path in list(job.out.files):
        try:
            check_new(path)
        except ChangeRefusedError as error:
            del job.out.files[path]
            lost = [memory_id for memory_id, place in job.out.places.items() if place[0] == path]
            job.out.refused |= dict.fromkeys(lost, str(error))


_Led = dict[str, set[tuple[str | None, str]]]
"""Where the links of each memory lead, with their types."""


def _read_back(files: Mapping[str, str]) -> tuple[dict[str, list[Row]], _Led]:
    """The memories of the drafted files by path, and where the links of each lead."""
    with tempfile.TemporaryDirectory() as empty:  # no text of a memory is left there where the process is killed
        nothing = read(Path(empty), Options(progress=True))
        tables = read_with(nothing, {path: text.encode() for path, text in files.items()}).tables
    by_path: dict[str, list[Row]] = {}
    for row in tables["memories"].to_pylist():
        by_path.setdefault(row["path"], []).append(row)
    first = {row["memory_id"]: rows[0]["memory_id"] for rows in by_path.values() for row in rows}
    links: _Led = {}
    for row in tables["relations"].to_pylist():
        ends = (row["to_id"], row["type"] or "links_to")
        for memory_id in {row["memory_id"], row["from_id"], first.get(row["memory_id"])}:
            links.setdefault(memory_id, set()).add(ends)
    return by_path, links


class _Back:
    """What came back of a job.

    Attributes
    ----------
    found : dict of str to dict
        The memory that came of each, by id.
    ids : dict of str to str
        Its id.
    """

    def __init__(self, job: Job, by_path: dict[str, list[Row]], links: _Led) -> None:
        self.job, self.by_path, self.links = job, by_path, links
        self.groups = {row["memory_id"]: group for group in job.groups for row in group.rows}
        self._sections = {path: [row for row in rows if row["kind"] != HEAD] or rows for path, rows in by_path.items()}
        self._whole: dict[tuple[str, int], bool] = {}
        # Reversed, so that of equal ones the first of a file stays.
        every = [row for rows in by_path.values() for row in reversed(rows)]
        self._first: dict[tuple[str, Any], Row] = {(row["path"], row["source_id"]): row for row in every}
        self._by_text: dict[tuple[Any, ...], Row] = {(row["path"], row["source_id"], row["text"]): row for row in every}
        matched = {memory_id: self._match(*place) for memory_id, place in job.out.places.items()}
        self.row_of = {memory_id: row for memory_id, row in matched.items() if row}
        self.ids = {memory_id: row["memory_id"] for memory_id, row in self.row_of.items()}

    def _match(self, path: str, place: int | str | tuple[str, str]) -> Row | None:
        """The memory at a place: by its number in the file, or by its entity and text."""
        rows = self.by_path.get(path)
        if not rows:
            return None
        if isinstance(place, str):
            return rows[0] if rows[0]["kind"] == HEAD else None
        if isinstance(place, tuple):
            return self._by_text.get((path, *place)) or self._by_text.get((path, place[0], place[0]))
        sections: list[Row] = self._sections[path]
        return sections[min(place, len(sections) - 1)]

    def end(self, memory_id: str) -> str | None:
        """Where a link to a memory should lead: to a page or an entity, its first memory there; else to itself."""
        place, group = self.job.out.places.get(memory_id), self.groups[memory_id]
        if place and isinstance(place[1], tuple):
            first = self._first.get((place[0], place[1][0]))
            return str(first["memory_id"]) if first else None
        if place and group.is_page and group.rows[0]["memory_id"] == memory_id and place[0] in self.by_path:
            return str(self.by_path[place[0]][0]["memory_id"])
        return self.ids.get(memory_id)

    def held_and_beside(self, row: Row, came: Row, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """The columns of a memory that read back equal, and those that read back from extra."""
        head = self.by_path[came["path"]][0] if self.job.out.is_paged else came
        extra, held, beside = json.loads(head["extra"]), list[str](), list[str]()
        for name in names:
            if name == EXTRA:
                all_extra = {**extra, **extra_of(came)}
                if all(key in all_extra and _same(all_extra[key], value) for key, value in extra_of(row).items()):
                    held.append(name)
            elif self._is_held(name, row, came, head):
                held.append(name)
            elif name in extra and _same(extra[name], row[name]):
                beside.append(name)
        return held, beside

    def _is_held(self, name: str, row: Row, came: Row, head: Row) -> bool:
        """Whether a column reads back equal; the text of a page that has other sections now is compared as a whole."""
        value, read_back = row[name], came[name]
        if name == "text":
            is_same = read_back.strip("\n") == value.strip("\n")
            return bool(
                is_same or (row["kind"] != HEAD and self._is_whole(came["path"], self.groups[row["memory_id"]]))
            )
        if name == "superseded_by":
            return bool(
                read_back is not None
                and read_back in (self.ids.get(value), self.end(value) if value in self.groups else None)
            )
        if name in ("tags", "aliases"):
            return set(value) == set(read_back or ())
        if name == "title" and read_back != value:  # of a page whose sections are memories now it stands above them
            stands = f" / {value} / " in f" / {came['heading_path']} / "
            return stands or bool(head["kind"] == HEAD and head["title"] == value)
        return bool(read_back == value)

    def _is_whole(self, path: str, group: Group) -> bool:
        """Whether the page of a group has its text, whatever its sections are now; told once a page."""
        key = path, id(group)
        if key not in self._whole:
            joined = _joined(self.by_path[path]) if self.job.out.is_paged else ""
            below = joined.startswith(f"{group.text}\n\n## Relations\n")
            self._whole[key] = self.job.out.is_paged and (joined == group.text or below)
        return self._whole[key]


def _same(written: object, value: object) -> bool:
    """Whether what stands in extra says the same as a column."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) in (time_of(written), end_of(written))
    return _as_text(written) == _as_text(value)


def _as_text(value: object) -> object:
    """A value with each scalar in it as text, which is all that front matter keeps of a number."""
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items() if item is not None}
    return text_of(value)
