"""What is told of the memories of any format once they are read: their check boxes, and the status of old files.

In an archive or a backup, or as a copy beside its original, a memory is archived. The author's own word counts first.
Entries of an index and facts of users have archives that are no such place, and logs stay what they are wherever they
lie. Names and places say what is old, a copy or a backup; `is_aside`, `original_name` and `copied_from` know them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from itertools import chain
from posixpath import splitext

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base import late_pattern
from memkit.base.fences import BOX, CLOSED, fences
from memkit.formats.rows import Row, to_table
from memkit.formats.spelling import STATUS as NAMES
from memkit.formats.spelling import STATUS_FLAGS as FLAGS
from memkit.formats.spelling import plain, status_in
from memkit.schemas import TABLES, is_verbatim, kinds_where, with_column

OLD = ("old", "старое", "старые", "старый", "старая")
"""Words in lower case, е for ё, that may be part of a name: a file is a copy by them only beside its original."""
ASIDE = (
    *("archive", "archives", "archived", "attic", "backup", "backups", "bak", "bkp", "copy", "copies", "trash"),
    *("deleted", "recently deleted", "recycle bin", "архив", "архивы", "архивное", "архивные", "архивная", "бэкап"),
    *("бэкапы", "бекап", "резервная копия", "резервные копии", "копия", "копии", "корзина", "удаленное", "удаленные"),
    *("deprecated", "устаревшее", "устаревшие"),
)
"""Words that name what is put aside, as `OLD` ones: a folder of such a name, or a word beside a file's own."""
CONFLICTS = ("conflict", "conflicts", "conflicted", "конфликт", "конфликты", "orig")
"""Words beside a file's own name alone: a folder of them may be about conflicts."""
_STORES = ("notes", "files", "docs", "documents", "pages", "versions", "заметки", "файлы", "документы", "версии")
"""Words that may stand beside those of a folder: `old_notes` is one of old ones, "old tea" need not be."""


def _any_of(*words: str) -> str:
    return "|".join(re.escape(word).replace(r"\ ", "[ ._-]") for word in words)


def _before(words: str) -> str:
    """What stands before the name of a copy, by these words: a bare one may begin a name, as in "backup plan"."""
    return rf"(?:{words})(?:[ _-]of[ _-]| [—-] )|(?-i:_{{0,3}}BACKUP_{{1,3}})"


def _after(words: str) -> str:
    """What stands after the name of a copy, by these words; a bare one may end a name too, as in "server backup"."""
    return "|".join(
        (  # all repetitions are bounded: a name of one sign alone leaves nothing to come back to
            # Bounds, so that names made to be slow are not; what programs write is shorter.
            r"\.sync-conflict-[\w-]{1,60}",
            r"[ _.-]{0,3}[(\[](?:\d{1,3}|[^()\[\]]{0,60}(?:conflicted copy|конфликтующая копия)[^()\[\]]{0,60})[)\]]",
            rf"[ _.-]{{0,3}}[(\[](?:[^()\[\]]{{0,60}} )?(?:{words})(?:[ _-]{{1,3}}[\d-]{{1,20}})?[)\]]",
            r"(?-i:[ _.-]{1,3}_{0,3}BACKUP_{0,3}[\w.-]{0,60})",
            r"(?: [—-])? (?:copy|копия)(?: \d{1,3})?|\.(?:bak|bkp|orig|backup)|~",
        )
    )


_FOLDER, _STORE, _OLD = _any_of(*ASIDE, *OLD), _any_of(*_STORES), _any_of(*OLD)
_BESIDE = rf"(?:[ _-](?:{_STORE})|[ _-]?\d{{4}})?"
PLACE = (
    rf"(?i)(?:^|/)(?:\d{{1,4}}|z{{1,3}}_)?[._$\s-]{{0,8}}(?:(?:{_STORE})[ _-])?(?:{_FOLDER}){_BESIDE}[._\s-]{{0,8}}/"
)
"""A folder of archives, backups or copies in a path, as an RE2 pattern; ё is written е."""
_NUMBER = r"[ _][2-9]"
_MARKED = r"(?i)^(?:.*/)?(?:(?:{})[^/]+|[^/]+?(?:{}|{}))(?:\.[A-Za-z]{{1,8}}(?:\.(?:bak|orig))?)?$|\.(?:bak|orig)$"
_USUAL, _ANY = (_any_of(*ASIDE, *CONFLICTS, *more) for more in ((), OLD))
_BARE_AFTER = r"|[ _.—-]{{1,3}}(?:{})(?:[ _-]{{0,3}}[\d-]{{1,20}})?"
_ANY_BEFORE, _ANY_AFTER = _before(_ANY) + rf"|(?:{_ANY})[ _.-]{{1,3}}", _after(_ANY) + _BARE_AFTER.format(_ANY)
MARKED = _MARKED.format(_ANY_BEFORE, _ANY_AFTER, _NUMBER)
"""The path of a file whose name may say that it is a copy, as an RE2 pattern; ё is written е."""
_SURELY_MARKED = late_pattern(_MARKED.format(_before(_USUAL), _after(_USUAL) + _BARE_AFTER.format(_USUAL), _NUMBER))
_MARK = late_pattern(rf"(?i)^(?:{_before(_USUAL)})(?=\w)|(?:{_after(_USUAL)}){{1,3}}$")
_ANY_MARK = late_pattern(rf"(?i)^(?:{_ANY_BEFORE})(?=\w)|(?:{_ANY_AFTER}){{1,3}}$")


def original_name(stem: str, stems: Callable[[], Collection[str]]) -> str:
    """The name of a file, without its ending, as it was before it was copied; ё is written е.

    A lone digit or a bare word marks a copy where a file of that name is among `stems`, which are in lower case.

    >>> [original_name(stem, lambda: ()) for stem in ("заметка (1)", "note copy", "plan.sync-conflict-AB", "part 2")]
    ['заметка', 'note', 'plan', 'part 2']
    >>> [original_name(stem, lambda: {"note", "план"}) for stem in ("note 2", "старый план", "2026 10", "backup tea")]
    ['note', 'план', '2026 10', 'backup tea']
    """
    plain = stem.replace("Ё", "Е").replace("ё", "е")
    name = _MARK().sub("", plain).strip(" ._—-") or plain
    bare = re.sub(rf"{_NUMBER}$", "", _ANY_MARK().sub("", name))
    return bare if bare.casefold() in stems() else name


def copied_from(path: str) -> str | None:
    """The path of the file beside it that a file is a copy of by its name; None where its name says nothing of that.

    A lone digit at the end says nothing: a second meeting is no copy of the first.

    >>> [copied_from(path) for path in ("a/чай (1).md", "a/чай — копия.md", "tea.md", "tea 2.md")]
    ['a/чай.md', 'a/чай.md', None, None]
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    original = _ANY_MARK().sub("", stem).strip(" ._—-")
    return f"{folder}{slash}{original}{dot}{ending}" if original and original != stem else None


def is_aside(path: str, beside: Collection[str] = ()) -> bool:
    """Whether a path lies below a folder, or under a name, of an archive, a backup or a copy; `beside` are all paths.

    >>> [is_aside(path) for path in ("archive/Проект/чай.md", "Проект/чай.md", "чай (1).md", "old tea/чай.md")]
    [True, False, True, False]
    >>> is_aside("users/anna/archive.md"), is_aside("старая Ладога.md"), is_aside("старая Ладога.md", {"Ладога.md"})
    (True, False, True)
    """
    plain = path.replace("Ё", "Е").replace("ё", "е")
    place = f"{splitext(plain)[0]}/"
    return bool(re.search(PLACE, place) or _SURELY_MARKED().search(plain)) or copied_from(path) in beside


STATUS = "archived"
_EXEMPT = ("facts", "index_tree", "records")
"""Formats with an archive of their own, and what programs keep of theirs."""
_IN_EXTRA = ("notes",)
"""Formats whose front matter stands in ``extra`` where no column is declared for it, as their batches need it to."""
_SAYS_STATUS = rf'(?i)"(?:{"|".join((*NAMES, *FLAGS))})"'
_OLD_FOLDER = late_pattern(PLACE)
_ANY_WORD = re.compile(r"\w+")
_SHARE = 0.5
"""Such a share of its words a copy has from its original: a page on backups of X is none of the page on X."""


def with_aside(memories: pa.Table) -> pa.Table:
    """`memories` with the status `STATUS` where their file lies among old ones and their author says no status.

    >>> from memkit.schemas import TABLES
    >>> paths = ("archive/tea.md", "tea.md", "tea (1).md", "archive/2026-07-03.md")
    >>> rows = [{"path": path, "kind": "daily_log" if "2026" in path else "document", "text": "Чай"} for path in paths]
    >>> with_aside(pa.Table.from_pylist(rows, pa.schema([TABLES["memories"].field(name) for name in
    ...     ("path", "kind", "text", "format", "status", "extra")])))["status"].to_pylist()
    ['archived', None, 'archived', None]
    """
    memories = _with_said(memories)
    paths = pc.unique(memories["path"]).drop_null()
    plain = pc.replace_substring(pc.replace_substring(paths, "ё", "е"), "Ё", "Е")
    if len(paths) <= _FEW_PATHS and not any(map(_may_be_aside, plain.to_pylist())):
        return memories
    in_place, is_marked = (paths.filter(pc.match_substring_regex(plain, name)) for name in (PLACE, MARKED))
    if not len(in_place) and not len(is_marked):
        return memories
    is_indexed = pc.equal(memories["format"], "index_tree")
    indexed = _folders(pc.unique(memories["path"].filter(pc.fill_null(is_indexed, False))).to_pylist())
    aside = [path for path in in_place.to_pylist() if not indexed & _folders([path])]
    aside += _copies(memories, is_marked.to_pylist(), set(paths.to_pylist()))
    others = pc.or_(
        pc.is_in(memories["format"], value_set=pa.array(_EXEMPT)),
        pc.is_in(memories["kind"], value_set=pa.array(kinds_where(log=True))),
    )
    is_aside = pc.is_in(memories["path"], value_set=pa.array(aside, pa.string()))
    mask = pc.and_(pc.and_(is_aside, pc.invert(others)), pc.is_null(memories["status"]))
    return with_column(memories, "status", pc.if_else(mask, STATUS, memories["status"]))


# Arrow compiles both patterns at each call, which takes as long as Python does for some 350 paths: measured.
_FEW_PATHS = 100


def _may_be_aside(path: str) -> bool:
    return _OLD_FOLDER().search(path) is not None or copied_from(path) is not None


def _with_said(memories: pa.Table) -> pa.Table:
    """`memories` with the status that front matter says in ``extra``."""
    is_kept = pc.is_in(memories["format"], value_set=pa.array(_IN_EXTRA))
    says = pc.and_(is_kept, pc.fill_null(pc.match_substring_regex(memories["extra"], _SAYS_STATUS), False))
    if not pc.any(says).as_py():
        return memories
    fields = (json.loads(extra) for extra in memories["extra"].filter(says).to_pylist())
    said = [status_in([{plain(name): value for name, value in each.items()}]) for each in fields]
    column = memories["status"].combine_chunks()
    status = pc.replace_with_mask(column, says.combine_chunks(), pa.array(said, column.type))
    return with_column(memories, "status", status)


def _folders(paths: Collection[str]) -> set[str]:
    """The folders of old files above some files."""
    plain = (path.replace("Ё", "Е").replace("ё", "е") for path in paths)
    return {text[: match.end()] for text in plain for match in _OLD_FOLDER().finditer(text)}


def _copies(memories: pa.Table, marked: list[str], paths: Collection[str]) -> list[str]:
    """Those of the files with a mark of a copy that lie beside their original and have half of their words from it."""
    named = ((path, copied_from(path)) for path in marked)
    originals = {path: original for path, original in named if original is not None and original in paths}
    if not originals:
        return []
    wanted = pa.array({*originals, *originals.values()}, pa.string())
    words: dict[str, set[str]] = {}
    held = memories.select(["path", "text"]).filter(pc.is_in(memories["path"], value_set=wanted))
    for row in held.to_pylist():
        words.setdefault(row["path"], set()).update(_ANY_WORD.findall((row["text"] or "").casefold()))
    return [
        path for path, original in originals.items() if len(words[path] & words[original]) >= _SHARE * len(words[path])
    ]


# A round number; it bounds the memory.
_FEW = 10_000
"""Memories that are looked at at the same time."""
# What a bracket or a parenthesis follows is a link.
_BOX = re.compile(rf"[ \t>]*(?:[-*+]|\d{{1,9}}[.)])[ \t]+({BOX})(?![(\[:])[ \t]*(.*)")
_FIRST = re.compile(rf"({BOX})(?![(\[:])[ \t]+(.*)")
"""A box at the begin of a text whose format has taken the mark of the list away, as that of facts does."""


def checklist_of(memories: pa.Table) -> pa.Table:
    """Every check box outside of code fences, with its file and line; cost linear in the texts.

    A text that is not lines of its file, as those of records, has the line of its record.

    Examples
    --------
    >>> import memkit as mk
    >>> memories = mk.from_table({"text": ["Выкладка:\\n- [x] тесты\\n  1. [ ] откат"]}).memories
    >>> checklist_of(memories).select(["done", "text"]).to_pylist()
    [{'done': True, 'text': 'тесты'}, {'done': False, 'text': 'откат'}]
    """
    rows = list[Row]()
    names = ["memory_id", "path", "kind", "line_start", "text"]
    batches = memories.select(names).to_batches(max_chunksize=_FEW)
    having = (batch.filter(pc.match_substring_regex(batch["text"], BOX)).to_pylist() for batch in batches)
    for memory in chain.from_iterable(having):
        text, first = memory["text"], memory["line_start"]
        are_lines, code = is_verbatim(memory["kind"], memory["path"]), fences(text)
        for number, line in enumerate(text.split("\n"), 1):
            match = _BOX.match(line) or (_FIRST.match(line) if number == 1 and not are_lines else None)
            if match is None or number in code:
                continue
            where = first + number - 1 if first is not None and are_lines else first
            row = {"memory_id": memory["memory_id"], "path": memory["path"], "line": where}
            rows.append({**row, "done": match[1][1] in CLOSED, "text": match[2].strip()})
    return to_table(rows, TABLES["checklist"])
