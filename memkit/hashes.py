"""Hashes that tell contents apart and name what is kept.

Apart from these stand SHA-256 in plans and in the journal, which other programs are to work out as well, and in what
was measured or set aside, as its files are older; and HMAC and CRC-32, which sign and check a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b, file_digest
from io import BufferedReader, BytesIO

from xxhash import xxh3_64_intdigest, xxh3_128_digest

BYTES = 16


def key(data: str | bytes, size: int = BYTES) -> bytes:
    """blake2b of a text or of bytes; half a character counts as itself."""
    return blake2b(_encoded(data), digest_size=size).digest()


def digest(data: str | bytes, size: int = BYTES) -> str:
    """`key` in hexadecimal digits, two a byte.

    >>> digest("чай", 4)
    '0b3694ed'
    """
    return key(data, size).hex()


def digest_of_file(file: BufferedReader | BytesIO) -> str:
    """`digest` of all bytes of an open file, which is at its start again afterwards."""
    file.seek(0)
    found = file_digest(file, lambda: blake2b(digest_size=BYTES)).hexdigest()
    file.seek(0)
    return found


def digest_of_rows(rows: Iterable[str]) -> str:
    """`digest` over texts in their order, each with its length, so that no two lists share it."""
    found = blake2b(digest_size=BYTES)
    for row in rows:
        data = _encoded(row)
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def checksum(data: bytes) -> bytes:
    """XXH3 of 16 bytes, thirty times as fast as `key` and more: for what is read again and again, and nobody forges."""
    return xxh3_128_digest(data)


def place(text: str) -> int:
    """A number of 64 bits by which texts are parted or drawn, the same for ever."""
    return xxh3_64_intdigest(_encoded(text))


def _encoded(data: str | bytes) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
