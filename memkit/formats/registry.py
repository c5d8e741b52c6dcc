"""The formats in the order in which they are tried on a file: the first that claims it reads it.

To add a format to memkit: write its module (see `workspace`), which ends in one `Format`, and list it here, or, of a
host, in `memkit.base.outside`. Register a format of your own with `register_format`, or by an entry point of the group
``memkit.formats``. Each format declares its `order`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from memkit.base.params import check_choice, describe
from memkit.base.plugins import Plugins
from memkit.errors import MemkitError, ParameterError
from memkit.formats import facts, logseq, notes, workspace
from memkit.formats.disk.files import declare_places
from memkit.formats.format import BY_TITLE, File, Format, Owner
from memkit.formats.index_tree import format as index_tree
from memkit.formats.linked import layout as linked
from memkit.formats.records import format as records
from memkit.formats.rows import RAW_SCHEMAS, SEVERITIES, Rows
from memkit.formats.spelling import UNREAD_HEAD, unread_head
from memkit.formats.syntax import front_matter
from memkit.schemas import KINDS, MEMORIES, WORDS, Kind, declare_kinds

_CORE = (index_tree, notes, facts, records, logseq, linked, workspace)
_TABLE = re.compile("_?[a-z][a-z0-9_]*")


def _checked(name: str, format: Any) -> Format:
    """A format from outside of memkit, checked, and its kinds declared."""
    if not isinstance(format, Format) or format.name != name:
        raise ParameterError(f"expected a memkit.extend.Format with the name {name!r}. Got {format!r:.80}.")
    if not name.isidentifier() or name in (*(module.FORMAT.name for module in _CORE), "table"):
        raise ParameterError(f"a format's name must be an identifier that memkit does not use. Got {name!r}.")
    for rule in format.rules:
        check_choice("code", rule.code, SEVERITIES, f"format {name!r}: a rule")
    for table, schema in format.schemas.items():
        if table in RAW_SCHEMAS or not _TABLE.fullmatch(table) or not {"memory_id", "path"} & set(schema.names):
            expected = "a new name in lower-case letters, and a column memory_id or path"
            raise ParameterError(f"format {name!r}: a table must have {expected}. Got {table!r}.")
    if undeclared := set(format.tables) - RAW_SCHEMAS.keys() - format.schemas.keys():
        raise ParameterError(f"format {name!r}: every table must be declared. Got {min(undeclared)!r}.")
    declare_kinds(*(kind for kind in format.kinds if isinstance(kind, Kind)))
    declare_places(name, format.hidden_places, format.never_read)
    return format


_OTHERS = Plugins("memkit.formats", _checked)
_FROM_OUTSIDE = (_OTHERS.get(name) for name in _OTHERS.own())
FORMATS = tuple(
    sorted((*(module.FORMAT for module in _CORE), *filter(None, _FROM_OUTSIDE)), key=lambda format: format.order)
)
NAMES = tuple(format.name for format in FORMATS)
_OWN = {format.name: format for format in FORMATS}
_NAMED: set[str] = set()
"""Names of formats that were given to `memkit.read` in this process."""


def register_format(format: Format) -> Format:
    """Register a format of your own, so that ``mk.read(folder, formats=[name])`` can use it.

    Parameters
    ----------
    format : Format
        It replaces a format registered under the same name before.

    Returns
    -------
    Format
        The same.

    Raises
    ------
    ParameterError
        Where its name, kinds, tables or rules are not allowed.

    Examples
    --------
    >>> import memkit as mk
    >>> cards = mk.extend.Format("cards", "*.card", kinds=(), tables=(), parse=lambda file, rows: None)
    >>> mk.extend.register(cards) is cards
    True
    >>> mk.extend.unregister("cards")
    """
    return _OTHERS.add(getattr(format, "name", ""), format)


def forget_format(name: str) -> None:
    """Undo `register_format`; corpora read with the format stay as they are.

    Parameters
    ----------
    name : str
        The format's name; nothing happens if no format is registered under it.

    Examples
    --------
    >>> import memkit as mk
    >>> _ = mk.extend.register(mk.extend.Format("cards", "*.card", kinds=(), tables=(), parse=lambda file, rows: None))
    >>> forget_format("cards")
    >>> "cards" in known_formats()["name"].to_pylist()
    False
    """
    format = _OTHERS.registered.pop(name, None)
    for kind in format.kinds if format else ():
        if isinstance(kind, Kind):
            KINDS.pop(kind.name, None)
    if format:
        declare_places(name, (), ())


def known_formats() -> pa.Table:
    """Every format that `memkit.read` can use: memkit's own, registered ones, and those of installed packages.

    Returns
    -------
    pyarrow.Table
        Columns name, files (string), kinds, tables (lists of strings), package (string, null for memkit's own and
        registered formats) and fault (string, why a package's format cannot be used, else null).

    Warns
    -----
    RuntimeWarning
        For each format of a package that cannot be loaded.

    Examples
    --------
    >>> known_formats()["name"].to_pylist()[:3]
    ['index_tree', 'notes', 'facts']
    """
    declared: list[tuple[str, str, Format | None, str]] = [(format.name, "", format, "") for format in FORMATS]
    for name in _OTHERS.names():
        declared += _OTHERS.candidates(name) if name not in NAMES else []
    rows = [
        {
            "name": name,
            "files": format.about if format else "",
            "kinds": [kind.name if isinstance(kind, Kind) else kind for kind in format.kinds] if format else [],
            "tables": list(format.tables) if format else [],
            "package": package or None,
            "fault": fault or None,
        }
        for name, package, format, fault in declared
    ]
    schema = pa.schema([(name, WORDS if name in ("kinds", "tables") else pa.string()) for name in rows[0]])
    return describe(pa.Table.from_pylist(rows, schema), memkit="formats")


def name_of(format: str | Format) -> str:
    """The name of a format given to `memkit.read`; it counts as named in this process from now on."""
    name = format if isinstance(format, str) else register_format(format).name
    _NAMED.add(name)
    return name


def in_use() -> tuple[Format, ...]:
    """memkit's own formats, and those that are registered or were named in this process."""
    named = (_OTHERS.get(name) for name in _NAMED - _OWN.keys() - _OTHERS.registered.keys())
    return (*FORMATS, *_OTHERS.registered.values(), *filter(None, named))


def declared(name: str) -> Format | None:
    """The format of this name that memkit has or that is registered; None for any other."""
    return _OTHERS.registered.get(name) or _OWN.get(name)


def owner_of(format: str | None, layout: str | None) -> Owner:
    """What tells owners apart in a format, by what stands in the columns ``format`` and ``layout``.

    >>> owner_of("notes", None).by_scope, owner_of("table", None).subject
    (True, 'title')
    """
    known = declared(layout or format or "")
    return known.owner if known else BY_TITLE


def check_named(names: Iterable[str]) -> None:
    """Raise where this process named none of these formats of a lake: loading a format runs its code.

    Raises
    ------
    MemkitError
        The message names the format.
    """
    for name in names:
        if name not in _OTHERS.registered and name not in _NAMED:
            raise MemkitError(
                f"refresh: the lake was read with the format {name!r}, which this process did not name. Use "
                f"mk.read(folder, formats=[{name!r}]), or trust=True if the lake is your own."
            )


def formats_for(names: Iterable[str], forced: str | None) -> tuple[Format, ...]:
    """The formats of one read in their order: memkit's own, and the named ones from outside of memkit.

    Raises
    ------
    ParameterError
        For an unknown name.
    """
    others: list[Format] = []
    for name in dict.fromkeys([*names, *([forced] if forced else ())]):
        if name in NAMES:
            continue
        check_choice("format" if name == forced else "formats", name, (*NAMES, *_OTHERS.names()), "read")
        if format := _OTHERS.get(name):
            others.append(format)
        elif name == forced:
            raise ParameterError(f"read: 'format' must be one that can be loaded. Got {name!r}.")
    return tuple(sorted((*others, *FORMATS), key=lambda format: format.order))


def may_claim(formats: tuple[Format, ...], ending: str, found: tuple[str, ...] = ()) -> tuple[Format, ...]:
    """Those of `formats` that may claim a file with this ending of which the surveys of `found` know something.

    memkit's own look at no other ending than those that they read or write; one from outside of memkit may.

    >>> [format.name for format in may_claim(FORMATS, ".yaml")]
    ['records']
    """
    own = (format for format in FORMATS if format.claims and ending in (*format.endings, *format.writes))
    names = {*found, *(format.name for format in own)}
    return tuple(format for format in formats if format.name in names or format.name not in _OWN)


def parse_file(file: File, rows: Rows, formats: tuple[Format, ...] = FORMATS) -> None:
    """Read one file with the first format that claims it, or with the forced one."""
    for format in formats:
        if format.name not in _OWN:
            if _try(format, file, rows, formats):
                return
        elif format.takes(file):
            _read(format, file, rows, formats)
            return
    expected = f"a file that can be read as {file.role.forced or 'a known format'}"
    rows.problem("unclaimed", file.source.path, expected, file.source.name)


def _read(format: Format, file: File, rows: Rows, formats: tuple[Format, ...]) -> None:
    """Read a file with `format`."""
    source, problem = file.source, partial(rows.problem, path=file.source.path, quote=False)
    rows.use(format)
    rows.begin(source)
    format.parse(file.read_by(format), rows)
    held = [name for name, value in file.role.findings if value is not None and name != format.name]
    found = [other for other in formats if other.name in held] if held else []
    for other in found:
        if other.beside:
            other.beside(file, rows)
    if rivals := [other.name for other in found if _rivals(format, other, file)]:
        got = f"{', '.join(rivals)} too; {format.name} comes first in the declared order and reads it"
        problem("two_layouts", expected="a file of one layout", got=got)
    if file.is_markdown and file.front is None:
        if front_matter.is_unclosed(source.text):
            problem("unparsable", expected="front matter closed by '---'", got="no end", line=1)
        if format.head_of is None and (head := unread_head(source.text)):
            problem(UNREAD_HEAD.code, expected=UNREAD_HEAD.expected, got=head[1], line=head[0])
    rows.end()


def _rivals(format: Format, other: Format, file: File) -> bool:
    """Whether both are layouts whose surveys found the file to be theirs, as that of `other` did."""
    are_specific = format.layout and other.layout and not format.is_general and not other.is_general
    return bool(are_specific and file.finding(format.name) is not None)


def _try(format: Format, file: File, rows: Rows, formats: tuple[Format, ...]) -> bool:
    """`_read` with a format from outside of memkit: if it fails, its rows are dropped and the next format is tried."""
    own_rows = Rows(rows.rules, dict(rows.schemas))
    with guarded(format, file.source.path, rows):
        if not format.takes(file):
            return False
        _read(format, file, own_rows, formats)
        memories = own_rows.table("memories")
        lacking = [field.name for field in MEMORIES if not field.nullable and memories[field.name].null_count]
        if lacking or {*memories["path"].to_pylist()} - {file.source.path}:
            raise ValueError(f"a memory without {', '.join(lacking)}" if lacking else "a memory of another file")
        rows.absorb(own_rows)
        return True
    return False


@contextmanager
def guarded(format: Format, path: str, rows: Rows) -> Iterator[None]:
    """Report any exception that a format from outside of memkit raises in the block as a problem."""
    try:
        yield
    # A stranger's format may fail in any way, and the other files are read all the same.
    except Exception as error:
        if format.name in NAMES:
            raise
        # A round bound: a message may quote the whole file.
        got = f"{type(error).__name__}: {error}"[:500]
        rows.problem("format_failed", path, f"the format {format.name!r} to read it", got, quote=False)
