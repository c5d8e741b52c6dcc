"""One file: how it is opened, its bytes as text, and what could not be decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from memkit.errors import ChangeRefusedError
from memkit.formats.disk.encodings import decoded, encoding_of, guess_of

READ_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""Of what is opened to be read: no link is followed, and no pipe waited for."""


@dataclass
class Source:
    """One file as text.

    Attributes
    ----------
    undecoded : dict of int to str
        1-based line to the line as `guess` reads it, for lines that are no UTF-8.
    guess : str
        ``windows-1251``, or ``windows-1252`` for Latin letters.
    encoding : str
        In which the file is read, ``utf-8`` where nothing else is sure.
    size : int, bytes
        Of the whole file.
    too_large : bool
        Whether `text` is only the beginning.
    name, stem : str
        The last part of the path, with and without its ending.
    """

    path: str
    text: str
    size: int = 0
    undecoded: dict[int, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    too_large: bool = False
    guess: str = "windows-1251"

    def __post_init__(self) -> None:
        self.name = self.path.rpartition("/")[2]
        self.stem = self.name.rpartition(".")[0] or self.name

    @property
    def parents(self) -> list[str]:
        """Names of the folders above, outermost first."""
        return self.path.split("/")[:-1]

    @cached_property
    def lines(self) -> list[str]:
        """The lines, split at LF only; the last line's own LF opens no further line."""
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" and len(lines) > 1 else lines


def last_line(first: int, text: str) -> int:
    """The line on which a text ends that begins on the line `first`; an LF at its end opens no further one."""
    return max(first, first + text.count("\n") - text.endswith("\n"))


def utf8(path: str, data: bytes) -> str:
    """The bytes of a file as text, every character of it.

    Raises
    ------
    ChangeRefusedError
        Where they are no UTF-8: who writes them again would have to guess. Where CR alone ends the lines of a page.
    """
    refused = f"{path}: it holds bytes that are no UTF-8, and is left alone. Save it as UTF-8 first."
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ChangeRefusedError(refused) from error
    if "\0" in text and encoding_of(data) != "utf-8":
        raise ChangeRefusedError(refused)
    if path.lower().endswith(".md") and "\r" in text and "\n" not in text:  # read by lines that no writer counts
        raise ChangeRefusedError(f"{path}: CR alone ends its lines, and it is left alone. Save it with LF first.")
    return text


def decode(path: str, data: bytes) -> Source:
    """Bytes as text: a BOM dropped, line ends to LF, in the encoding that is sure; bytes that are of none are replaced,
    and told by line.

    CR alone ends lines only where a file has no LF.
    """
    encoding, guess, undecoded = "utf-8", "windows-1251", dict[int, str]()
    try:
        text: str | None = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text:  # what is sure to be UTF-8 is decoded once
        encoding = encoding_of(data)
        text = decoded(data, encoding)
        if text is None:
            text = data.decode(encoding, "replace")
            if encoding == "utf-8":
                numbered = enumerate(data.split(b"\n"), 1)
                lines = {number: line.rstrip(b"\r") for number, line in numbered if decoded(line, encoding) is None}
                guess = guess_of(b"\n".join(lines.values()))
                undecoded = {number: line.decode(guess, "replace") for number, line in lines.items()}
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")
    return Source(path, text, len(data), undecoded, encoding, guess=guess)


def above(path: str) -> Iterator[str]:
    """The folders that hold `path`, the root included.

    >>> list(above("a/b/c.md")), list(above("a/")), list(above("/"))
    (['a/b', 'a', ''], ['a', ''], [''])
    """
    while path:
        path = path.rpartition("/")[0]
        yield path
