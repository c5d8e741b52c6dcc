"""The sample corpus is found in a checkout and in an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

import memkit as mk
from memkit.errors import FormatError
from memkit.tables.samples import find_data, write_files


@pytest.mark.quick
def test_the_sample_corpus_holds_all_five_formats_in_both_languages(sample: mk.Corpus) -> None:
    assert set(sample.memories["format"].to_pylist()) == {"index_tree", "workspace", "notes", "records", "facts"}
    ((russian,),) = sample.sql("select count(*) from memories where regexp_matches(text, '[а-яё]')").fetchall()
    assert 0.3 < russian / sample.memories.num_rows < 0.7


@pytest.mark.quick
def test_broken_cases_are_read_only_when_they_are_named(sample: mk.Corpus) -> None:
    assert not [path for path in sample.memories["path"].to_pylist() if path.startswith("broken/")]
    assert mk.read(mk.sample_data() / "broken" / "not_uuid4").problems["rule"].to_pylist() == ["not_uuid4"]


@pytest.mark.quick
def test_the_copy_inside_of_an_installed_package_wins(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "memkit"
    inside = write_files(package / "_shipped" / "data", {"broken/x/MEMORY.md": "# Чай\n"})
    write_files(tmp_path / "site-packages" / "data", {"broken/x/MEMORY.md": "# Another project\n"})
    assert find_data(package) == inside


def test_a_checkout_has_it_beside_the_package(tmp_path: Path) -> None:
    beside = write_files(tmp_path / "data", {"broken/x/MEMORY.md": "# Чай\n"})
    assert find_data(tmp_path / "memkit") == beside


def test_a_foreign_data_folder_beside_the_package_is_not_taken(tmp_path: Path) -> None:
    write_files(tmp_path / "data", {"table.csv": "a,b\n"})
    with pytest.raises(FormatError, match="expected _shipped/data"):
        find_data(tmp_path / "memkit")


def test_files_are_written_byte_for_byte_in_folders_that_are_made(tmp_path: Path) -> None:
    root = write_files(tmp_path / "new", {"notes/имя файла.md": "ё\r\nконец", "log.md": b"\xcf\xf3\xeb"})
    assert (root / "notes" / "имя файла.md").read_bytes() == "ё\r\nконец".encode()
    assert (root / "log.md").read_bytes() == b"\xcf\xf3\xeb"
