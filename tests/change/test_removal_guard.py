"""A change that removes more than 30 % of the memories needs force=True; one that removes 30 % does not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import memkit as mk
from memkit.change.checks import lost
from memkit.errors import ChangeRefusedError


def planned(root: Path, gone: int, of: int) -> mk.Edits:
    """A plan that removes `gone` of `of` facts, those that expired."""
    lines = [
        f"- [id:wk_{n}] [t:working] [imp:normal] [exp:{2026 if n < gone else 2030}-02-01] Дело {n}\n" for n in range(of)
    ]
    folder = mk.testing.write_files(root / "agent", {"users/anna/working.md": "".join(lines)})
    return mk.plan(mk.read(folder), mk.Expiry(), as_of="2026-03-01")


@pytest.mark.parametrize(("gone", "of"), [(3, 10), (30, 100), (0, 3)])
def test_exactly_thirty_percent_go_without_force(tmp_path: Path, gone: int, of: int) -> None:
    edits = planned(tmp_path, gone, of)
    assert len(edits.removed()) == gone
    edits.apply()
    assert mk.read(tmp_path / "agent").memories.num_rows == of - gone


@pytest.mark.parametrize(("gone", "of"), [(4, 10), (31, 100), (1, 3)])
def test_one_more_is_refused_and_nothing_is_written(tmp_path: Path, gone: int, of: int) -> None:
    edits = planned(tmp_path, gone, of)
    with pytest.raises(ChangeRefusedError, match=f"{gone} of {of} memories"):
        edits.apply()
    assert mk.read(tmp_path / "agent").memories.num_rows == of
    edits.apply(force=True)
    assert mk.read(tmp_path / "agent").memories.num_rows == of - gone


def test_what_is_merged_into_a_fact_that_expires_as_before_is_not_lost() -> None:
    def facts(**texts: str) -> pa.Table:
        rows = {"memory_id": [*texts], "text": [*texts.values()], "expires_at": ["2030-02-01"] * len(texts)}
        return mk.from_table(rows).memories

    before = facts(wk_1="Пул на десять соединений", wk_2="Чай зелёный, без сахара")
    assert lost(before, facts(wk_2="Чай зелёный, без сахара\nПул на десять соединений")) == []
    assert lost(before, facts(wk_2="Чай зелёный, без сахара")) == ["wk_1"]
