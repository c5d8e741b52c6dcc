"""`memkit check --secrets`: a row for each secret, with its line, and never the secret itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import memkit as mk
from memkit.formats.rows import SEVERITIES
from memkit.schemas import PROBLEMS
from memkit.tables.samples import sample_data, write_files
from memkit.tables.secrets import secrets_in

FILES = {
    "memory/2026-01-26.md": "# 10:00 дом\n\nтекст\n\n# 17:05 коробки\n\nПароль там: sova-ne-spit-2026, вот.\n",
    "users/u/working.md": "- [id:wk_1] [t:working] [imp:high] [exp:2026-03-01] Пин 4321\n",
    "wisdom.json": '{"fact_id": "f", "content": "c", "category": "c", "confidence": 0.5, "password": "hunter2-x"}',
}


@pytest.mark.quick
def test_a_secret_is_a_warning_at_its_own_line_that_does_not_repeat_it(tmp_path: Path) -> None:
    secrets = secrets_in(mk.read(write_files(tmp_path, FILES)).memories)[0]
    assert secrets.schema == PROBLEMS
    assert {(row["path"], row["line"], row["field"]) for row in secrets.to_pylist()} == {
        ("memory/2026-01-26.md", 7, "text"),
        ("users/u/working.md", 1, "text"),
        ("wisdom.json", 1, "extra"),
    }
    assert {(row["rule"], row["severity"]) for row in secrets.to_pylist()} == {("secret", SEVERITIES["secret"])}
    printed = str(secrets.to_pylist())
    assert not any(secret in printed for secret in ("sova-ne-spit", "4321", "hunter2"))


@pytest.mark.quick
def test_reading_alone_looks_for_none(tmp_path: Path) -> None:
    assert "secret" not in mk.read(write_files(tmp_path, FILES)).problems["rule"].to_pylist()


# Written by the author of the samples; every line of data/ that has one of them is a line with a secret.
FAKES = (
    *("sk-notarealkeyonlyanexamplefordocs", "sk-fake-fake-fake-fake-fake-0000"),
    *("sk-sandbox-owl-not-a-real-key-0000000000", "0000000000:FAKE-owl-token-for-docs-not-a-real"),
    *("not0a0real0token0at0all00", "fake0token0for0the0docs0only", "fake-2gis-key-0000-owl"),
    *("filin-test-owl", "sova-ne-spit-2026"),
)


@pytest.mark.quick
def test_each_fake_secret_of_the_sample_is_found_and_nothing_else() -> None:
    root = sample_data()
    corpus = mk.read(root)
    written = [
        (path, number)
        for path in set(corpus.memories["path"].to_pylist())
        for number, line in enumerate((root / path).read_text("utf-8", "replace").split("\n"), 1)
        for _ in range(sum(fake in line for fake in FAKES))
    ]
    secrets = secrets_in(corpus.memories)[0]
    assert sorted(zip(secrets["path"].to_pylist(), secrets["line"].to_pylist(), strict=True)) == sorted(written)


def test_a_table_without_places_is_searched_too() -> None:
    table = mk.from_table({"text": ["чай", "PIN: 4321"], "title": ["a", "password qwerty123"]}).memories
    assert [(row["memory_id"], row["field"]) for row in secrets_in(table)[0].to_pylist()] == [
        ("1", "title"),
        ("1", "text"),
    ]
