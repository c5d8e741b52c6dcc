"""Hashes are those of files that older versions wrote, and tell apart what is not the same."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from memkit.base import hashes

TEXTS = ["", "чай", "a\x00b", "я" * 10_000]


@pytest.mark.quick
@pytest.mark.parametrize("size", [4, 6, 8, 12, 16])
@pytest.mark.parametrize("text", TEXTS)
def test_a_digest_is_blake2b_of_the_text_in_utf_8(text: str, size: int) -> None:
    expected = hashlib.blake2b(text.encode(), digest_size=size).hexdigest()
    assert hashes.digest(text, size) == hashes.digest(text.encode(), size) == hashes.key(text, size).hex() == expected


@pytest.mark.quick
def test_texts_with_half_a_character_have_digests_of_their_own() -> None:
    assert len({hashes.digest(text) for text in ("\ud800", "\udfff", "?", "\ufffd")}) == 4


@pytest.mark.quick
def test_the_digest_of_a_file_is_that_of_its_bytes_wherever_it_was_read_to(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5_000
    (tmp_path / "a").write_bytes(data)
    with (tmp_path / "a").open("rb") as file:
        file.seek(7)
        assert hashes.digest_of_file(file) == hashes.digest_of_file(BytesIO(data)) == hashes.digest(data)
        assert file.read() == data


def test_no_two_lists_of_rows_share_a_digest() -> None:
    lists = [["a", "b"], ["ab"], ["ab", ""], ["", "ab"], ["b", "a"], [], [""], ["a\x00b"], ["\ud800"]]
    assert len({hashes.digest_of_rows(rows) for rows in lists}) == len(lists)


def test_a_column_has_the_digest_of_its_texts_wherever_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.chunked_array([["cut", "a", "", None], [], ["чай\0", "я" * 70_000, "b"]], pa.string()).slice(1)
    monkeypatch.setattr(hashes, "_ROWS", 4)
    assert hashes.digest_of_rows(column) == hashes.digest_of_rows([text or "" for text in column.to_pylist()])
    assert hashes.digest_of_rows(column.slice(0, 0)) == hashes.digest_of_rows([])


def test_what_is_stored_by_xxh3_stays_where_it_is() -> None:
    # Of the algorithm's own list of known values, for no bytes at all.
    assert hashes.place("") == 0x2D06800538D394C2
    assert hashes.checksum(b"").hex() == "99aa06d3014798d86001c324468d497f"
