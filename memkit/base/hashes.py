"""Hash functions for comparing contents and for naming stored files.

Three other hashes are used elsewhere: SHA-256 in plans and in the journal (other programs must be able to compute it)
and in the files of measurements (which are older); and HMAC and CRC-32, which sign and check a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b, file_digest
from io import BufferedReader, BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest, xxh3_128, xxh3_128_digest

BYTES = 16
# A round number: some megabytes of texts.
_ROWS = 16_384
"""Rows of a column that are hashed at once: their texts are copied."""


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


def digest_of_rows(rows: Iterable[str] | pa.ChunkedArray) -> str:
    """`digest` of texts in their order, each with its length, so that different lists have different digests.

    Those of a column are hashed where they lie, in a sixth of the time; a null is an empty text.
    """
    hash = blake2b(digest_size=BYTES)
    if isinstance(rows, pa.ChunkedArray):
        for start in range(0, len(rows), _ROWS):
            for part in rows.slice(start, _ROWS).chunks:
                hash.update(_with_lengths(part))
    else:
        for row in rows:
            data = _encoded(row)
            hash.update(len(data).to_bytes(8, "little") + data)
    return hash.hexdigest()


def _with_lengths(texts: pa.Array) -> pa.Buffer:
    """The bytes of texts end to end, each after its length."""
    kind = pa.large_binary()
    data = texts.cast(kind).fill_null(b"")
    sizes = pc.binary_length(data).to_numpy().astype("<i8")
    # The length goes before each text, so that "a", "bc" and "ab", "c" differ.
    lengths = pa.Array.from_buffers(pa.binary(8), len(data), [None, pa.py_buffer(sizes)]).cast(kind)
    joined = pc.binary_join_element_wise(lengths, data, pa.scalar(b"", kind))
    return joined.buffers()[2].slice(0, sizes.nbytes + int(sizes.sum()))


def checksum(data: bytes) -> bytes:
    """XXH3 of 16 bytes, over thirty times as fast as `key`: for contents read often whose hashes nobody would forge."""
    return xxh3_128_digest(data)


def place(text: str) -> int:
    """A 64-bit number by which texts are assigned to shards or sampled; it never changes."""
    return xxh3_64_intdigest(_encoded(text))


def _encoded(data: str | bytes) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
