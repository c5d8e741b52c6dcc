"""A change that removes more than 30 % of the memories needs force=True; one that removes 30 % does not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import memkit as mk
from memkit.change.edits import lost
from memkit.errors import ChangeRefusedError


def planned(root: Path, n_removed: int, n_facts: int) -> mk.Edits:
    """A plan that removes `gone` of `of` facts, those that expired."""
    lines = [
        f"- [id:wk_{n}] [t:working] [imp:normal] [exp:{2026 if n < n_removed else 2030}-02-01] Дело {n}\n"
        for n in range(n_facts)
    ]
    folder = mk.testing.write_files(root / "agent", {"users/anna/working.md": "".join(lines)})
    return mk.plan(mk.read(folder), mk.Expiry(), as_of="2026-03-01")


@pytest.mark.quick
@pytest.mark.parametrize(("n_removed", "n_facts"), [(3, 10), (30, 100), (0, 3)])
def test_exactly_thirty_percent_go_without_force(tmp_path: Path, n_removed: int, n_facts: int) -> None:
    edits = planned(tmp_path, n_removed, n_facts)
    assert len(edits.removed()) == n_removed
    edits.apply()
    assert mk.read(tmp_path / "agent").memories.num_rows == n_facts - n_removed


@pytest.mark.quick
@pytest.mark.parametrize(("n_removed", "n_facts"), [(4, 10), (31, 100), (1, 3)])
def test_one_more_is_refused_and_nothing_is_written(tmp_path: Path, n_removed: int, n_facts: int) -> None:
    edits = planned(tmp_path, n_removed, n_facts)
    with pytest.raises(ChangeRefusedError, match=f"{n_removed} of {n_facts} memories"):
        edits.apply()
    assert mk.read(tmp_path / "agent").memories.num_rows == n_facts
    edits.apply(force=True)
    assert mk.read(tmp_path / "agent").memories.num_rows == n_facts - n_removed


@pytest.mark.quick
def test_what_is_merged_into_a_fact_that_expires_as_before_is_not_lost() -> None:
    def facts(**texts: str) -> pa.Table:
        rows = {"memory_id": [*texts], "text": [*texts.values()], "expires_at": ["2030-02-01"] * len(texts)}
        return mk.from_table(rows).memories

    before = facts(wk_1="Пул на десять соединений", wk_2="Чай зелёный, без сахара")
    assert lost(before, facts(wk_2="Чай зелёный, без сахара\nПул на десять соединений")) == []
    assert lost(before, facts(wk_2="Чай зелёный, без сахара")) == ["wk_1"]
