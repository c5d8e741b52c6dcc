"""Hash functions for comparing contents and for naming stored files.

Three other hashes are used elsewhere: SHA-256 in plans and in the journal (other programs must be able to compute it)
and in the files of measurements (which are older); and HMAC and CRC-32, which sign and check a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b, file_digest
from io import BufferedReader, BytesIO
from pathlib import Path

from xxhash import xxh3_64_intdigest, xxh3_128, xxh3_128_digest

BYTES = 16


def key(data: str | bytes, size: int = BYTES) -> bytes:
    """blake2b of a text or of bytes; a lone surrogate is hashed as it is."""
    return blake2b(_encoded(data), digest_size=size).digest()


def digest(data: str | bytes, size: int = BYTES) -> str:
    """`key` in hexadecimal digits.

    >>> digest("чай", 4)
    '0b3694ed'
    """
    return key(data, size).hex()


def digest_of_file(file: BufferedReader | BytesIO, quick: bool = False) -> str:
    """`digest` of all bytes of an open file; its position is at the start afterwards.

    A `quick` one is by XXH3, a tenth of the time: for a large file whose hash lies beside it, where both can be forged.
    """
    file.seek(0)
    result = file_digest(file, xxh3_128 if quick else lambda: blake2b(digest_size=BYTES)).hexdigest()
    file.seek(0)
    return result


def digest_of_path(path: Path, quick: bool = False) -> str:
    """As `digest_of_file` for the file at `path`."""
    with path.open("rb") as file:
        return digest_of_file(file, quick)


def digest_of_rows(rows: Iterable[str]) -> str:
    """`digest` of texts in their order, each with its length, so that different lists have different digests."""
    hash = blake2b(digest_size=BYTES)
    for row in rows:
        data = _encoded(row)
        hash.update(len(data).to_bytes(8, "little") + data)
    return hash.hexdigest()


def checksum(data: bytes) -> bytes:
    """XXH3 of 16 bytes, over thirty times as fast as `key`: for contents read often whose hashes nobody would forge."""
    return xxh3_128_digest(data)


def place(text: str) -> int:
    """A 64-bit number by which texts are assigned to shards or sampled; it never changes."""
    return xxh3_64_intdigest(_encoded(text))


def _encoded(data: str | bytes) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
