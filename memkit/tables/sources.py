"""Where a corpus comes from: a folder that is read, whose files may have changed since, or a lake that is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import (
    ChangeRefusedError,
    FormatError,
    NotFoundError,
    ParameterError,
    StaleSourceError,
    VersionError,
)
from memkit.formats import reader
from memkit.formats.disk.files import MAX_FILE_BYTES, digest_of, give, home_of
from memkit.formats.disk.source import decode, utf8
from memkit.formats.faults import SEVERITIES, Rule
from memkit.formats.format import Format
from memkit.formats.index_tree.survey import PLUGIN_GLOBS
from memkit.formats.reader import Options
from memkit.formats.registry import NAMES, name_of
from memkit.params import (
    AsOf,
    Rev,
    Zone,
    as_of_time,
    check_choice,
    check_value,
    path_of,
    rev_text,
    zone_name,
    zone_of,
)
from memkit.tables.above import scale
from memkit.tables.commit import is_bucketed
from memkit.tables.corpus import Corpus
from memkit.tables.lake import load


def read(
    path: str | Path,
    *,
    format: str | None = None,
    formats: Sequence[str | Format] = (),
    errors: str = "report",
    as_of: AsOf = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    plugin_globs: tuple[str, ...] = PLUGIN_GLOBS,
    rules: tuple[Rule, ...] | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    rev: Rev | None = None,
    dates: str | None = None,
    buckets: int | None = None,
    timezone: Zone = None,
) -> Corpus:
    """Read a folder of memories, whatever of the five formats it holds.

    Nothing outside of `path` is opened, and no input raises: what is wrong is a row of ``problems``. Cost is linear in
    the bytes read. With `rev` it is the folder of that moment, from the git repository that it lies in: nothing is
    checked out, and nothing that the repository holds is run.

    Parameters
    ----------
    path : str or Path
        A folder, or one file.
    format : str, optional
        Read every file as index_tree, workspace, notes, records or facts, or as one of `formats`, instead of detecting
        each.
    formats : sequence of str or Format
        Formats of your own or of installed packages (`memkit.extend.known_formats` lists them), tried before
        memkit's own.
    errors : 'report' or 'raise'
        Whether the first problem of severity error is raised.
    as_of : str, date, datetime, optional
        The day against which dates in the future are reported, kept in the schema metadata of ``problems``; none are
        reported without it.
    max_file_bytes : int, bytes
        A larger file is a problem, and its first 64 KiB its text.
    plugin_globs : tuple of str
        Paths that an index entry must not name.
    rules : tuple of Rule, optional
        The checks; None are those of ``memkit.formats.rules.RULES`` and of `formats`, and
        ``(*RULES, Rule(...))`` adds one.
    n_jobs : int, optional
        Processes that parse, as joblib counts them (-1: one a core); None is one, or what ``joblib.parallel_config``
        says. Below 15,000 files one process reads, and below some 65,000 notes more do not pay.
    progress : bool
        Show a progress bar on a terminal.
    rev : str, date or datetime, optional
        A commit, branch or tag of git, as ``HEAD~10``; or a moment, UTC, which is the last commit up to it along first
        parents. ``Corpus.revision`` says which it was, and so does the metadata of what comes of it.
    dates : 'git', optional
        Memories without any date of their own have those of the commits that brought and last changed them, and
        ``date_source`` says so: git, or git_first for those of the first commit, which may be older. A text that is not
        committed, or a folder in no repository, is a row of ``problems``.
    buckets : int, optional
        How many lakes of whole users `Corpus.save` makes of it, unless it is told.
    timezone : str or tzinfo, optional
        The zone of times that logs and transcripts write, which name none: "Europe/Moscow", "+03:00"; None is UTC. A
        time stamp with its own offset does not move, and a day without a time stays midnight UTC.

    Returns
    -------
    Corpus

    Raises
    ------
    FormatError
        Where nothing is at `path`, or with ``errors="raise"`` for the first error.
    NotFoundError
        Where there is no such revision.
    MemkitError
        Where `rev` is asked for and the program git is not here.
    ParameterError
        For an argument outside of what is listed here.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "MEMORY.md").write_text("# Пул\\nДесять соединений.\\n", encoding="utf-8")
    >>> read(folder).memories.select(["kind", "title"]).to_pylist()
    [{'kind': 'long_term', 'title': 'Пул'}]
    """
    check_choice("errors", errors, ("report", "raise"), "read")
    check_value("read", "buckets", buckets, "int", nullable=True, low=1)
    check_value("read", "max_file_bytes", max_file_bytes, "int", low=1, unit="bytes")
    check_value("read", "n_jobs", n_jobs, "int", nullable=True)
    if n_jobs == 0:
        raise ParameterError("read: 'n_jobs' must be a number of processes, or -1 for one a core. Got 0.")
    for rule in rules or ():
        check_choice("code", rule.code, SEVERITIES, "read: a rule")
    moment = None if as_of is None else as_of_time(as_of)
    given = [formats] if isinstance(formats, (str, Format)) else formats
    others = [format] if format is not None and format not in NAMES else []
    names = tuple(dict.fromkeys(map(name_of, [*given, *others])))
    own_rules, of = None if rules is None else tuple(rules), None if rev is None else rev_text(rev)
    if dates is not None:
        check_choice("dates", dates, ("git",), "read")
    zone = zone_name(zone_of("read", timezone))
    options = Options(
        format, moment, max_file_bytes, tuple(plugin_globs), own_rules, n_jobs, progress, names, of, dates, zone
    )
    reading = reader.read(path_of("read", path), options)
    if errors == "raise":
        _raise_first(reading.tables["problems"])
    for root in (reading.root, reading.root.resolve()):  # as it is asked for, and as a lake names it
        give(root)
    corpus = Corpus(reading.tables, reading=reading)
    corpus.buckets = buckets
    return corpus


def _raise_first(problems: pa.Table) -> None:
    """Raise the first error row of `problems`, if there is one."""
    for row in problems.filter(pc.equal(problems["severity"], "error")).slice(0, 1).to_pylist():
        error = VersionError if row["rule"] == "unsupported_version" else FormatError
        raise error(row["message"], path=row["path"], line=row["line"], field=row["field"])


def states_at(corpus: Any, moments: Iterable[Rev]) -> list[Corpus]:
    """The folder of a corpus as it was at each moment, read as the corpus was; nothing before the first commit.

    Raises
    ------
    ParameterError, MemkitError, FormatError
        For a table, or a corpus of no folder; where that lies in no repository, or the program git is not here.
    """
    if not isinstance(corpus, Corpus) or not corpus.has_folder:
        raise ParameterError("texts='git': expected a corpus that was read from a folder. Got one without a folder.")
    states, before = list[Corpus](), corpus._source()
    for moment in moments:
        try:
            before = reader.read(before.root, replace(before.options, rev=rev_text(moment)), before)
            states.append(Corpus(before.tables, reading=before))
        except NotFoundError:
            states.append(Corpus({name: table.slice(0, 0) for name, table in corpus.tables.items()}))
    return states


def open_lake(folder: str | Path, source: str | Path | None = None, *, trust: bool = False) -> Corpus:
    """Open what `Corpus.save` wrote.

    A lake may come from anybody: Parquet is read as data and checked, nothing else of it is opened, and nothing in it
    runs. Cost is linear in its size.

    Parameters
    ----------
    folder : str or Path
        The folder that was saved to.
    source : str or Path, optional
        Where the files are now, for `Corpus.refresh`; None is where they were read, if that was in this process.
    trust : bool
        Whether the lake is your own, so that `refresh` may follow it to where it was read, a Retriever may load its
        approximate vector index, which only FAISS can check, and no limit is set to what its files unpack to.

    Returns
    -------
    Corpus
        As it was saved, a `Buckets` where it was saved in buckets. `Retriever.fit` takes its arms from there, if they
        were saved with it and are made with the same settings.

    Raises
    ------
    FormatError
        Where there is no saved corpus, an older or newer memkit wrote it, a link lies in it, or a file is not what was
        saved.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.from_table({"text": ["чай"]}).save(folder)
    ...     mk.open(folder).sql("select memory_id from fts('чай')").fetchall()
    [('0',)]
    """
    place = path_of("open", folder).absolute()
    if is_bucketed(place):
        corpus: Corpus = scale("buckets").Buckets(place, trust)
        return corpus
    tables, reading, text_index = load(place, None if source is None else give(path_of("open", source)), trust)
    return Corpus(tables, reading=reading, text_index=text_index, folder=place, trusted=trust)


def home(corpus: Corpus) -> Path:
    """The folder that the paths of a corpus are relative to.

    Raises
    ------
    MemkitError
        For a corpus of no folder, or of one that nobody gave in this process.
    ChangeRefusedError
        For one of a revision, whose files are not those that would be changed.
    """
    reading = corpus._source()
    if reading.options.rev is not None:
        raise ChangeRefusedError(f"the corpus is of revision {reading.options.rev}. Read the folder as it is.")
    return home_of(reading.root)


def exact_text(corpus: Corpus, path: str, data: bytes | None) -> str:
    """The bytes of a file as text, BOM and line ends and all, where they are what the corpus was made of.

    Raises
    ------
    StaleSourceError
        Where the file changed since it was read, or is gone.
    ChangeRefusedError
        Where it is no UTF-8.
    """
    reading = corpus._source()
    if data is None or not _is_same(reading.seen.get(path), reading.surveyed.get(path), data):
        raise StaleSourceError(f"{path}: it was changed since it was read. Read the folder again.", path)
    return utf8(path, data)


def _is_same(seen: object, surveyed: object, data: bytes) -> bool:
    if isinstance(seen, tuple):
        return bool(digest_of(((len(data), 0, 0), data)) == seen[2])
    return not isinstance(surveyed, tuple) or decode("", data).text == surveyed[1].text
