"""Policies and pipelines at the command line: their names, presets and parameters."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from memkit.policy.base import POLICIES
from memkit.tables.samples import sample_data
from memkit.testing import write_files

AS_OF = "2026-03-01"


@pytest.mark.quick
def test_the_command_line_names_every_policy(run: Any) -> None:
    code, out, _ = run("policy", "--help")
    assert code == 0
    assert all(name in out for name in POLICIES)


@pytest.mark.outside
@pytest.mark.quick
def test_a_policy_of_another_package_answers_by_its_name(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / "toy-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[memkit.policies]\nlater = memkit.policy.limits:Expiry\n")
    monkeypatch.syspath_prepend(installed.parent)
    importlib.invalidate_caches()
    code, out, _ = run("policy", "later", folder, "--as-of", AS_OF, "--set", "grace_days=99", "--json")
    assert (code, [row["reason"] for row in json.loads(out)]) == (0, [None] * 3)
    code, _, err = run("policy", "latest", folder)
    assert (code, "Did you mean 'later'" in err) == (2, True)


def test_a_pipeline_at_the_command_line(run: Any) -> None:
    path = sample_data()
    code, out, _ = run("pipeline", path, "--as-of", AS_OF, "--set", "deduplicator__encoder=none", "--json",
        "--set", "deduplicator__kinds=substring", "--set", "admission__max_chars=100000")  # fmt: skip
    judged = json.loads(out)
    assert code == 0
    assert {"step", "reason", "matched_span", "duplicate_of"} <= judged[0].keys()
    assert not any(row["reason"] == "length" and len(row["text"].strip()) > 12 for row in judged)
    code, out, _ = run("pipeline", path, "--preset", "index_standard")
    assert (code, "missing" in out) == (0, True)
    code, _, err = run("pipeline", path, "--set", "quota__max_fact=3")
    assert (code, "Did you mean 'quota__max_facts'" in err) == (2, True)
    code, out, _ = run("policy", "admission", path, "--preset", "memory_v2", "--json")
    assert (code, "Где" in {row["matched_span"] for row in json.loads(out)}) == (0, False)
    code, _, err = run("policy", "admission", path, "--preset", "index_standard")
    assert (code, "'memory_v2'" in err) == (2, True)


def test_a_parameter_that_acts_on_nothing_is_named_by_search_and_policy(run: Any, tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"memory/2026-01-01.md": "# 2026-01-01\n\nПьёт чай утром.\n"})
    for verb in (["search", folder, "чай"], ["policy", "decay", folder]):
        kinds = ["--set", "decay_kinds=archive"]
        for days in (30, 60):  # the default too, as somebody typed it
            _, out, err = run(*verb, "--set", f"decay_days={days}", *kinds)
            assert "decay acts on 0 of 1 memory" in " ".join((out + err).split())
