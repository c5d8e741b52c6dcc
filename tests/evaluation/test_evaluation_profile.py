"""Profiles: what was tuned, written and read again, with what it was measured on; and the documents' own settings."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import memkit as mk
from memkit.cli.app import app
from memkit.evaluation.profile import EVIDENCE
from memkit.tables.samples import write_files

QUERIES = {"query_id": ["q1", "q2"], "text": ["чай", "пул"]}
QRELS = {"query_id": ["q1", "q2"], "memory_id": ["0", "1"], "relevance": [1, 1]}


def fitted(*texts: str, **params: Any) -> mk.Retriever:
    return mk.Retriever(**{"encoder": None, **params}).fit(mk.from_table({"text": list(texts)}))


@pytest.fixture(scope="module")
def whole() -> mk.Profile:
    """A profile of everything, with values that are hard to write."""
    search = fitted("чай", "пул", decay_kinds="*", kind_weights={"daily_log": 0.7}, min_score=1e-05, fold_threshold=0.9)
    parts = (search, mk.presets.memory_v2_pipeline(), mk.Deduplicator(encoder=None, threshold=0.92))
    evidence = {
        "verdict": 'better: "+0.03"\tв\\среднем\x7f',
        "gain": 0.03,
        "looks": 3,
        "random_state": 0,
        "metrics": {"ndcg@10": 0.7},
    }
    return mk.Profile.of(*parts, mk.ContextBuilder(k=7), labels=(QUERIES, QRELS), date="2026-03-01", **evidence)


@pytest.mark.quick
def test_every_section_comes_back_from_toml_and_json(whole: mk.Profile, tmp_path: Path) -> None:
    for name in ("best.toml", "best.json"):
        again = mk.Profile.load(whole.save(tmp_path / name))
        assert again == whole
    sections = tomllib.loads(whole.to_toml())
    assert sections == json.loads(whole.to_json())
    assert list(sections) == ["retriever", "dedup", "policies", "context", "evidence"]
    assert sections["evidence"]["date"] == "2026-03-01"
    assert sections["evidence"]["version"] == mk.__version__


@pytest.mark.quick
def test_what_it_makes_is_what_it_was_made_of(whole: mk.Profile) -> None:
    search = fitted("чай", "пул", decay_kinds="*", kind_weights={"daily_log": 0.7}, min_score=1e-05, fold_threshold=0.9)
    made = mk.Retriever(**whole.retriever)
    assert all(made.value_of(name) == search.value_of(name) for name in mk.Retriever.all_params())
    quota = mk.presets.memory_v2_policy["quota"]
    assert whole.policies["quota"] == quota
    assert mk.Quota(**whole.policies["quota"]).get_params() == quota
    assert mk.Retriever(**mk.Profile.from_toml(whole.to_toml()).retriever).encoder is None
    assert mk.ContextBuilder(**whole.context).k == 7
    assert "retriever" not in whole.context


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
WEIGHTS = st.dictionaries(NAMES, st.floats(0, 1), min_size=1, max_size=3)


@given(NAMES, WEIGHTS, st.lists(NAMES, max_size=3))
def test_whatever_a_profile_holds_is_read_as_it_is(note: str, weights: dict[str, float], changed: list[str]) -> None:
    profile = mk.Profile(retriever={"kind_weights": weights}, evidence={"note": note, "changed": changed})
    sections = tomllib.loads(profile.to_toml())
    assert sections == {"retriever": {"kind_weights": weights}, "evidence": {"note": note, "changed": changed}}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[retriver]\npool = 1", r"no section \[retriver\]. Did you mean 'retriever'"),
        ("[retriever]\npoool = 1", r"no \[retriever\] parameter 'poool'. Did you mean 'pool'"),
        ("[retriever]\npool = 0", r"profile \[retriever\]: 'pool' must be an int in \[1, inf\), chunks. Got 0"),
        ("[policies.quotas]\nmax_facts = 1", "Did you mean 'quota'"),
        ("[policies.quota]\nmax_fact = 1", r"no \[policies.quota\] parameter 'max_fact'. Did you mean 'max_facts'"),
        ("[context]\nretriever = 'x'", r"no \[context\] parameter 'retriever'"),
        ("[evidence]\nlook = 1", r"no \[evidence\] parameter 'look'. Did you mean 'looks'"),
        ("[evidence]\nlooks = 'two'", "'looks' must be an int"),
        ("retriever = 3", r"expected a table \[retriever\]. Got 3"),
        ("[policies]\nquota = 3", r"expected a table \[policies.quota\]. Got 3"),
        ("[retriever", "expected TOML"),
        ("[retriever]\npool = nan", "must be an int"),
        ("[retriever]\ndecay_days = inf", "must be a float"),
    ],
)
def test_what_is_wrong_is_said_with_what_was_meant(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(mk.MemkitError, match=message):
        mk.Profile.from_toml(text)
    (tmp_path / "p.json").write_text("[1]")
    with pytest.raises(mk.errors.ParameterError, match="expected the tables retriever, dedup"):
        mk.Profile.load(tmp_path / "p.json")
    (tmp_path / "p.toml").write_bytes(b"\xff")
    with pytest.raises(mk.errors.FormatError, match=r"p.toml"):
        mk.Profile.load(tmp_path / "p.toml")


def test_an_encoder_that_is_an_object_is_not_written_silently() -> None:
    with pytest.raises(mk.errors.ParameterError, match=r"extend\.register"):
        mk.Profile(retriever={"encoder": lambda texts: texts})


def test_other_memories_labels_or_encoders_are_warned_of(whole: mk.Profile, tmp_path: Path) -> None:
    path = whole.save(tmp_path / "best.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mk.Profile.load(path, fitted("чай", "пул"), (QUERIES, QRELS))
        mk.Profile.load(path)
    with pytest.warns(UserWarning, match=r"other memories \(2 then, 3 now\)"):
        mk.Profile.load(path, fitted("чай", "пул", "кофе"))
    with pytest.warns(UserWarning, match="other labels"):
        mk.Profile.load(path, labels=(QUERIES, {**QRELS, "relevance": [1, 2]}))
    with_vectors = mk.Profile.of(fitted("чай", encoder="hash"))
    differences = with_vectors.differences(fitted("чай", encoder="hash", gram_weight=0.5))
    assert differences == []
    other = mk.Profile(evidence={**with_vectors.evidence, "encoder": "another"})
    assert "another encoder (another then, hash" in other.differences(fitted("чай", encoder="hash"))[0]


def test_fingerprints_do_not_depend_on_the_order_of_rows() -> None:
    one = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "пул"]}))
    other = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["b", "a"], "text": ["пул", "чай"]}))
    turned = ({name: rows[::-1] for name, rows in table.items()} for table in (QUERIES, QRELS))
    assert mk.Profile.of(one, labels=(QUERIES, QRELS)) == mk.Profile.of(other, labels=tuple(turned))


def test_a_profile_of_what_has_no_parameters_is_refused() -> None:
    with pytest.raises(mk.errors.ParameterError, match="expected a Retriever, policies or a ContextBuilder"):
        mk.Profile.of("retriever")


def test_memkit_search_takes_a_profile_and_says_where_it_was_measured_on_others(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "notes", {"MEMORY.md": "# Чай\nзелёный чай\n\n# Кофе\nчёрный кофе с чаем\n"})
    search = mk.Retriever(encoder=None, min_score=0.9).fit(mk.read(folder))
    path = mk.Profile.of(search).save(tmp_path / "best.toml")
    run = CliRunner().invoke(app, ["search", str(folder), "кофе чай молоко", "--profile", str(path), "--json"])
    assert (run.exit_code, json.loads(run.stdout)) == (0, [])  # of the profile's min_score
    assert "measured" not in run.stderr
    write_files(folder, {"more.md": "# Порт\n5432 для базы\n"})
    run = CliRunner().invoke(app, ["search", str(folder), "кофе", "--profile", str(path), "--json"])
    assert "it was measured on other memories (2 then, 3 now)" in run.stderr
    both = CliRunner().invoke(app, ["search", str(folder), "чай", "--profile", str(path), "--preset", "workspace"])
    assert both.exit_code
    assert "expected --preset or --profile" in str(both.exception)


def test_a_search_by_a_profile_needs_no_pandas_as_a_process_of_its_own(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "notes", {"MEMORY.md": "# Чай\nзелёный чай\n"})
    path = mk.Profile.of(mk.Retriever(encoder=None).fit(mk.read(folder))).save(tmp_path / "best.toml")
    command = [sys.executable, "-m", "memkit", "search", str(folder), "чай", "--profile", str(path), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    assert (len(json.loads(run.stdout)), run.stderr) == (1, "")


def test_what_may_stand_in_evidence_is_listed() -> None:
    assert mk.Profile.described()["name"].to_pylist() == list(EVIDENCE)


def test_a_profile_marks_what_was_changed_and_knows_where_defaults_have_moved(tmp_path: Path) -> None:
    parts = mk.Retriever(encoder=None, pool=40, decay_days=30.0), mk.Quota(max_facts=150)
    profile = mk.Profile.of(*parts)
    assert set(profile.evidence["changed"]) == {
        "retriever.encoder",
        "retriever.pool",
        "retriever.decay_days",
        "policies.quota.max_facts",
    } - ({"retriever.encoder"} if "encoder" not in profile.retriever else set())
    marked = {line.partition(" ")[0] for line in profile.to_toml().splitlines() if line.endswith("changed")}
    assert marked >= {"pool", "decay_days", "max_facts"}
    assert "min_score" not in marked
    # as an older memkit would have written it, whose default of min_score was another
    older = mk.Profile(**{**profile.to_dict(), "retriever": {**profile.to_dict()["retriever"], "min_score": 0.25}})
    path = older.save(tmp_path / "old.toml")
    with pytest.warns(UserWarning, match=r"retriever\.min_score \(0\.25 here, 0\.0 now\)\. It keeps its values"):
        read = mk.Profile.load(path)
    assert read.retriever["min_score"] == 0.25
    by_hand = mk.Profile(retriever={"min_score": 0.25}).save(tmp_path / "by_hand.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mk.Profile.load(by_hand)
