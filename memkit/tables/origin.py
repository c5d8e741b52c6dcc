"""The files that a corpus was read from, as they must still be for a change of them to be right."""

from __future__ import annotations

from pathlib import Path

from memkit.errors import ChangeRefusedError, StaleSourceError
from memkit.formats.disk.files import digest_of, home_of
from memkit.formats.disk.source import decode
from memkit.tables.corpus import Corpus


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
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ChangeRefusedError(f"{path}: it holds bytes that are no UTF-8, and is left alone.") from error


def _is_same(seen: object, surveyed: object, data: bytes) -> bool:
    if isinstance(seen, tuple):
        return bool(digest_of(((len(data), 0, 0), data)) == seen[2])
    return not isinstance(surveyed, tuple) or decode("", data).text == surveyed[1].text
