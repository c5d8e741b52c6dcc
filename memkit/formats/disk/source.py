"""One file: how it is opened, in which encoding its bytes are, its text, and what could not be decoded.

An encoding is UTF-8, what a mark says, or what is sure without one. A guess would store words that nobody wrote, so
that only what is sure counts: of UTF-16 and UTF-32 without a mark the place of their zeros, of the others what
charset-normalizer says of a text that is long enough, where it then reads as words of that alphabet do. What nobody is
sure of is read as UTF-8.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from memkit.errors import ChangeRefusedError

MARKS = {
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
"""The marks of encodings, longer ones first: that of UTF-32 begins as that of UTF-16."""
DETECTED = {
    "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґўђјљњћџѓќѕ": {
        "cp1251": "windows-1251",
        "koi8_r": "koi8-r",
        "koi8_u": "koi8-u",
        "cp866": "cp866",
        "mac_cyrillic": "mac-cyrillic",
        "iso8859_5": "iso-8859-5",
    },
    "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ": {"cp1253": "windows-1253", "iso8859_7": "iso-8859-7"},
    "אבגדהוזחטיךכלםמןנסעףפץצקרשת": {"cp1255": "windows-1255"},
    "ءآأؤإئابةتثجحخدذرزسشصضطظعغـفقكلمنهوىيپچژگ": {"cp1256": "windows-1256", "iso8859_6": "iso-8859-6"},
}
"""Small letters of alphabets, and the encodings that a detector tells of each, by its names and by the usual ones."""
OTHERS = ("cp1250", "cp1252", "cp1254", "cp874", "gb18030", "big5", "cp932", "cp949", "euc_jp")
"""Encodings of texts that are none of those; that it is one of these is never sure."""
# These and the shares below are guesses that tests hold: what stays in doubt is U+FFFD with a row.
LEAST_BYTES, SAMPLE_BYTES = 64, 2**16
"""Below so many bytes that are no ASCII a detector guesses; above it looks no further than so many."""
LEAST_COHERENCE = 0.3
"""How much of the text a detector knows as that of a language, at least."""
LEAST_ZEROS, LEAST_ALIKE = 0.1, 0.8
"""Of UTF-16 without a mark: the least share of characters whose upper byte is zero, and of the two most usual ones."""
MOST_UTF8, MOST_ODD, MOST_GUESSED = 0.1, 0.005, 0.2
"""The most bytes that lie in lines of UTF-8, and the most signs that no such text has, by the number of its letters."""
_ASCII = bytes(range(128))
_SIGNS = r"\s\x20-\x7e«»„“”‘’…–—•·°§№©®™±×€"
"""What texts are made of beside letters."""


def encoding_of(data: bytes) -> str:
    """The encoding in which `data` is read; ``utf-8`` also where that replaces bytes.

    >>> text = "Пул соединений держит двадцать штук, и больше ему не нужно. " * 2
    >>> [encoding_of(text.encode(name)) for name in ("utf-8", "cp1251", "koi8-r", "utf-16-le", "utf-16", "utf-32")]
    ['utf-8', 'windows-1251', 'koi8-r', 'utf-16-le', 'utf-16-le', 'utf-32-le']
    >>> encoding_of("Пул".encode("cp1251"))
    'utf-8'
    """
    for mark, name in MARKS.items():
        # UTF-32's mark is that of UTF-16 with a NUL after it; its texts have four bytes a character.
        if data.startswith(mark) and (len(mark) == 2 or len(data) % 4 == 0):
            return name
    if b"\0" in data:
        return _with_zeros(data) or "utf-8"
    return "utf-8" if decoded(data, "utf-8") is not None else _detected(data) or "utf-8"


def guess_of(data: bytes) -> str:
    """What bytes of which nothing is sure are shown as: Cyrillic ones where they read as its words, else Latin letters,
    which with marks stand among plain ones.

    >>> texts = ("Ключ от кафе", "cp1251"), ("Ключ от кафе", "koi8-r"), ("La clé du café", "latin-1")
    >>> [guess_of(text.encode(name)) for text, name in texts]
    ['windows-1251', 'koi8-r', 'windows-1252']
    """
    # Letters of UTF-8 beside the others are no sign of another encoding; a byte that is none is a surrogate.
    rest = re.sub(r"[^\x00-\x7f\udc80-\udcff]+", " ", data[:SAMPLE_BYTES].decode("utf-8", "surrogateescape"))
    small, names = next(iter(DETECTED.items()))
    said = dict[str, int]()
    for codec in ("cp1251", "koi8_r", "cp866"):  # the others are too near to Greek
        text = rest.encode("utf-8", "surrogateescape").decode(codec, "replace")
        n_among = len(re.findall(f"(?i)[a-z][{small}]|[{small}][a-z]", text))
        said[names[codec]] = _letters_of(text, small, MOST_ODD if said else MOST_GUESSED) - 2 * n_among
    best = max(said, key=lambda name: said[name])
    return best if said[best] > 0 else "windows-1252"


def _with_zeros(data: bytes) -> str | None:
    """UTF-16 without a mark: its zeros are upper bytes alone, as of blanks and ends of lines; UTF-32: all is text."""
    even, odd = data[::2], data[1::2]
    name, upper, lower = ("utf-16-be", even, odd) if even.count(0) > odd.count(0) else ("utf-16-le", odd, even)
    usual = sum(count for _, count in Counter(upper).most_common(2))
    is_utf16 = len(even) == len(odd) > 1 and not lower.count(0)
    is_utf16 = is_utf16 and min(upper.count(0) / LEAST_ZEROS, usual / LEAST_ALIKE) >= len(upper)
    return next((one for one in ("utf-32-le", "utf-32-be", *[name] * is_utf16) if _is_text(data, one)), None)


def _is_text(data: bytes, name: str) -> bool:
    """Whether the bytes are words in an encoding; one character alone is none, as four bytes of any sort may be it."""
    words = (decoded(data, name) or "").split()
    return len("".join(words)) > 1 and all(map(str.isprintable, words))


def decoded(data: bytes, name: str) -> str | None:
    """The text of bytes in an encoding, where all of them are of it."""
    try:
        return data.decode(name)
    except UnicodeDecodeError:
        return None


def _detected(data: bytes) -> str | None:
    """What a detector is sure of; nothing where lines of UTF-8 stand among the others."""
    sample = data[:SAMPLE_BYTES]
    count = _not_ascii(sample)
    n_utf8 = sum(_not_ascii(line) for line in sample.split(b"\n") if decoded(line, "utf-8") is not None)
    if count < LEAST_BYTES or MOST_UTF8 * count < n_utf8:
        return None
    from charset_normalizer import from_bytes  # 50 ms, which few folders need

    names = [name for of_alphabet in DETECTED.values() for name in of_alphabet]
    best = from_bytes(sample, cp_isolation=[*names, *OTHERS], enable_fallback=False).best()
    for small, of_alphabet in DETECTED.items():
        if best is not None and best.encoding in of_alphabet and best.coherence >= LEAST_COHERENCE:
            told = {best.encoding: "", **of_alphabet}  # of near ones that read as many letters, the detector's own
            n_letters = {name: _letters_of(sample.decode(name, "replace"), small) for name in told}
            name = max(n_letters, key=lambda one: n_letters[one])
            return of_alphabet[name] if n_letters[name] else None
    return None


def _letters_of(text: str, small: str, most_odd: float = MOST_ODD) -> int:
    """How many letters of an alphabet a text has; none where it is not made of its words.

    Such a text has hardly another sign, and hardly a capital behind a small letter, as those have that are read in the
    encoding of another.
    """
    great = small.upper()
    letters = re.findall(f"[{small}{great}]", text)
    odd = len(re.findall(f"[^{small}{great}{_SIGNS}]", text))
    turned = len(re.findall(f"[{small}][{great}]", text)) if great != small else 0
    n_great = sum(one not in small for one in letters)
    is_real = max(odd / most_odd, turned / MOST_ODD, 2 * n_great) <= len(letters)
    return len(letters) if is_real else 0


def _not_ascii(data: bytes) -> int:
    return len(data.translate(None, _ASCII))


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
