"""Where a corpus comes from: a folder that is read, or a snapshot (a lake) that is opened."""

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
from memkit.formats.disk.files import MAX_FILE_BYTES, digest_of, home_of, remember_root
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
    """Read a folder of memories in any of the five formats.

    Nothing outside of `path` is opened, and no file makes it raise: every defect is a row of ``problems``. Cost is
    linear in the bytes read. With `rev` the folder is read as it was at that commit of its git repository: nothing is
    checked out, and no code of the repository is run.

    Parameters
    ----------
    path : str or Path
        A folder, or one file.
    format : str, optional
        Read every file as this format (index_tree, workspace, notes, records, facts or one of `formats`), instead of
        detecting the format of each file.
    formats : sequence of str or Format
        Formats of your own or of installed packages (`memkit.extend.known_formats` lists them), tried before
        memkit's own.
    errors : 'report' or 'raise'
        Whether the first problem of severity error is raised.
    as_of : str, date, datetime, optional
        Dates after this day are reported; it is kept in the schema metadata of ``problems``. Without it, no date is
        reported as a future one.
    max_file_bytes : int, bytes
        A larger file is reported as a problem, and only its first 64 KiB are read.
    plugin_globs : tuple of str
        Paths that an index entry must not name.
    rules : tuple of Rule, optional
        The checks to make. None means ``memkit.formats.rules.RULES`` and those of `formats`; pass
        ``(*RULES, Rule(...))`` to add one.
    n_jobs : int, optional
        Number of parsing processes, as in joblib (-1: one per core); None is one, or what ``joblib.parallel_config``
        sets. Below 15,000 files one process is always used, and below about 65,000 notes more processes do not help.
    progress : bool
        Show a progress bar on a terminal.
    rev : str, date or datetime, optional
        A git commit, branch or tag, for example ``HEAD~10``; or a moment in UTC, which means the last commit up to it
        along first parents. ``Corpus.revision`` and the metadata of results name the commit.
    dates : 'git', optional
        Take the dates of memories that have none of their own from git: the commits that added and last changed them.
        The column ``date_source`` is then git, or git_first for the first commit, as the memory may be older than it. A
        text that is not committed, or a folder outside of a repository, is a row of ``problems``.
    buckets : int, optional
        Default number of shards (buckets) for `Corpus.save`; all memories of a user are in one shard.
    timezone : str or tzinfo, optional
        The zone of times in logs and transcripts that name no zone: "Europe/Moscow", "+03:00"; None is UTC. Time stamps
        with an offset keep it, and a date without a time stays midnight UTC.

    Returns
    -------
    Corpus

    Raises
    ------
    FormatError
        Where `path` does not exist, or with ``errors="raise"`` for the first error.
    NotFoundError
        Where there is no such revision.
    MemkitError
        Where `rev` is given and the program git is not installed.
    ParameterError
        For an argument that is not as listed here.

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
    extra_formats = [formats] if isinstance(formats, (str, Format)) else formats
    forced = [format] if format is not None and format not in NAMES else []
    names = tuple(dict.fromkeys(map(name_of, [*extra_formats, *forced])))
    checks, revision = None if rules is None else tuple(rules), None if rev is None else rev_text(rev)
    if dates is not None:
        check_choice("dates", dates, ("git",), "read")
    zone = zone_name(zone_of("read", timezone))
    options = Options(
        format, moment, max_file_bytes, tuple(plugin_globs), checks, n_jobs, progress, names, revision, dates, zone
    )
    reading = reader.read(path_of("read", path), options)
    if errors == "raise":
        _raise_first(reading.tables["problems"])
    for root in (reading.root, reading.root.resolve()):  # as the caller writes it, and as a lake names it
        remember_root(root)
    corpus = Corpus(reading.tables, reading=reading)
    corpus.buckets = buckets
    return corpus


def _raise_first(problems: pa.Table) -> None:
    """Raise the first error row of `problems`, if there is one."""
    for row in problems.filter(pc.equal(problems["severity"], "error")).slice(0, 1).to_pylist():
        error = VersionError if row["rule"] == "unsupported_version" else FormatError
        raise error(row["message"], path=row["path"], line=row["line"], field=row["field"])


def states_at(corpus: Any, moments: Iterable[Rev]) -> list[Corpus]:
    """The folder of a corpus at each moment, read with the same options; empty before the first commit.

    Raises
    ------
    ParameterError, MemkitError, FormatError
        For a table, or a corpus without a folder; where the folder is in no repository, or git is not installed.
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
    """Open a snapshot (a lake) that `Corpus.save` wrote.

    A lake from an unknown source is safe to open: only its Parquet files are read, they are checked, and no code in it
    runs. Cost is linear in its size.

    Parameters
    ----------
    folder : str or Path
        The folder given to `Corpus.save`.
    source : str or Path, optional
        The folder of the memories now, for `Corpus.refresh`; None is where they were read, if this process read them.
    trust : bool
        Whether the lake is your own. Then `refresh` may read the folder that the lake names, a Retriever may load the
        lake's approximate vector index (which only FAISS can check), and its files may unpack to any size.

    Returns
    -------
    Corpus
        As it was saved; a `Buckets` where it was saved in shards (buckets). `Retriever.fit` loads its indexes from the
        lake if they were saved in it with the same settings.

    Raises
    ------
    FormatError
        Where there is no saved corpus, an older or newer memkit wrote it, it holds a symbolic link, or a file was
        changed since.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.from_table({"text": ["чай"]}).save(folder)
    ...     mk.open(folder).sql("select memory_id from fts('чай')").fetchall()
    [('0',)]
    """
    path = path_of("open", folder).absolute()
    if is_bucketed(path):
        corpus: Corpus = scale("buckets").Buckets(path, trust)
        return corpus
    tables, reading, text_index = load(path, None if source is None else remember_root(path_of("open", source)), trust)
    return Corpus(tables, reading=reading, text_index=text_index, folder=path, trusted=trust)


def home(corpus: Corpus) -> Path:
    """The folder that the paths of a corpus are relative to.

    Raises
    ------
    MemkitError
        For a corpus without a folder, or with one that this process did not name.
    ChangeRefusedError
        For a corpus of a git revision: its files are not those on disk.
    """
    reading = corpus._source()
    if reading.options.rev is not None:
        raise ChangeRefusedError(f"the corpus is of revision {reading.options.rev}. Read the folder as it is.")
    return home_of(reading.root)


def exact_text(corpus: Corpus, path: str, data: bytes | None) -> str:
    """The exact text of a file, BOM and line ends included, if the file is unchanged since the corpus read it.

    Raises
    ------
    StaleSourceError
        Where the file changed since it was read, or is gone.
    ChangeRefusedError
        Where it is not UTF-8.
    """
    reading = corpus._source()
    if data is None or not _is_same(reading.files.get(path), reading.surveyed.get(path), data):
        raise StaleSourceError(f"{path}: it was changed since it was read. Read the folder again.", path)
    return utf8(path, data)


def _is_same(state: object, surveyed: object, data: bytes) -> bool:
    if isinstance(state, tuple):
        return bool(digest_of(((len(data), 0, 0), data)) == state[2])
    return not isinstance(surveyed, tuple) or decode("", data).text == surveyed[1].text
