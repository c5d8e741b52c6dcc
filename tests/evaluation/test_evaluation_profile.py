"""Profiles: what was tuned, written and read again, with what it was measured on; and the documents' own settings."""

from __future__ import annotations

import json
import math
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
from memkit.evaluation.profile import EVIDENCE, _toml
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
        "seed": 0,
        "metrics": {"ndcg@10": 0.7},
    }
    return mk.Profile.of(*parts, mk.ContextBuilder(k=7), labels=(QUERIES, QRELS), date="2026-03-01", **evidence)


def test_every_section_comes_back_from_toml_and_json(whole: mk.Profile, tmp_path: Path) -> None:
    for name in ("best.toml", "best.json"):
        again = mk.Profile.load(whole.save(tmp_path / name))
        assert again == whole
    sections = tomllib.loads(whole.to_toml())
    assert sections == json.loads(whole.to_json())
    assert list(sections) == ["retriever", "dedup", "policies", "context", "evidence"]
    assert sections["evidence"]["date"] == "2026-03-01"
    assert sections["evidence"]["version"] == mk.__version__


def test_what_it_makes_is_what_it_was_made_of(whole: mk.Profile) -> None:
    search = fitted("чай", "пул", decay_kinds="*", kind_weights={"daily_log": 0.7}, min_score=1e-05, fold_threshold=0.9)
    assert mk.Retriever(**whole.retriever).get_params() == search.get_params()
    quota = mk.presets.memory_v2_policy["quota"]
    assert whole.policies["quota"] == quota
    assert mk.Quota(**whole.policies["quota"]).get_params() == quota
    assert mk.Retriever(**mk.Profile.from_toml(whole.to_toml()).retriever).encoder is None
    assert mk.ContextBuilder(**whole.context).k == 7
    assert "retriever" not in whole.context


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=4))
def test_whatever_a_table_holds_is_read_by_tomllib_as_it_is(table: dict[str, Any]) -> None:
    text = "\n".join(_toml({"section": table}, (), {})) + "\n"
    expected = {name: value for name, value in table.items() if value != {}}  # an empty table says nothing
    assert tomllib.loads(text).get("section", {}) == expected


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
    with pytest.raises(mk.ParameterError, match="expected the tables retriever, dedup"):
        mk.Profile.load(tmp_path / "p.json")
    (tmp_path / "p.toml").write_bytes(b"\xff")
    with pytest.raises(mk.FormatError, match=r"p.toml"):
        mk.Profile.load(tmp_path / "p.toml")


def test_an_encoder_that_is_an_object_is_not_written_silently() -> None:
    with pytest.raises(mk.ParameterError, match=r"extend\.register"):
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


@pytest.mark.parametrize(
    ("params", "value"),
    [
        ({"decay": "e_folding", "decay_days": 30.0}, 30.0),
        ({"decay": "half_life", "decay_days": 30.0}, 30.0 / math.log(2)),
        ({"decay": "none"}, math.inf),
    ],
)
def test_the_bot_s_half_life_gives_the_factor_that_was_tuned(params: dict[str, Any], value: float) -> None:
    (row,) = mk.Profile(retriever=params).settings().to_pylist()
    assert (row["setting"], row["unit"]) == ("halfLifeDays", "days")
    assert float(row["value"]) == pytest.approx(value, rel=1e-5)
    for age in (0, 10, 100):
        form = {**{"decay": "e_folding", "decay_days": 60.0}, **params}
        table = {"text": ["а"], "kind": ["archive"], "created_at": ["2026-01-01"]}
        moment = f"2026-{1 + age // 31:02}-{1 + age % 31:02}"
        decayed = mk.Decay(decay=form["decay"], decay_days=form["decay_days"]).transform(mk.from_table(table), moment)
        days = decayed["age_days"][0].as_py()
        assert math.exp(-days / float(row["value"])) == pytest.approx(decayed["factor"][0].as_py(), rel=1e-5)


def test_a_form_without_a_setting_is_said_and_not_approximated() -> None:
    (row,) = mk.Profile(retriever={"decay": "linear", "decay_days": 30.0}).settings().to_pylist()
    assert row["value"] == ""
    assert "no halfLifeDays" in row["note"]


def test_the_documents_settings_in_their_own_words(whole: mk.Profile) -> None:
    settings = {
        row["setting"]: row["value"] for row in mk.Profile(retriever=mk.presets.workspace).settings().to_pylist()
    }
    assert (settings["VECTOR_WEIGHT"], settings["BM25_WEIGHT"]) == ("0.7", "0.3")
    assert (settings["CHUNK_SIZE"], settings["CHUNK_OVERLAP"]) == ("400", "80")
    text = whole.snippet()
    for line in ("maxFactsPerUser = 500  // facts", "topK = 7  // facts", "dedupThreshold = 0.92  // cosine, 0 to 1"):
        assert line in text
    index = mk.Profile.of(mk.SplitPlan(), mk.IndexCheck(auto_clean_missing=True)).snippet()
    assert "memory_settings.max_tokens_per_file = 4096" in index
    assert "auto_clean_missing = true" in index


def test_a_profile_of_what_has_no_parameters_is_refused() -> None:
    with pytest.raises(mk.ParameterError, match="expected a Retriever, policies or a ContextBuilder"):
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
    assert profile.moved_defaults() == {}
    # as an older memkit would have written it, whose default of min_score was another
    older = mk.Profile(**{**profile.to_dict(), "retriever": {**profile.to_dict()["retriever"], "min_score": 0.25}})
    path = older.save(tmp_path / "old.toml")
    with pytest.warns(UserWarning, match=r"retriever\.min_score \(0\.25 here, 0\.0 now\).*rebase"):
        read = mk.Profile.load(path)
    assert read.retriever["min_score"] == 0.25
    rebased = read.rebase()
    assert (rebased.retriever["min_score"], rebased.retriever["pool"], rebased.retriever["decay_days"]) == (0.0, 40, 30)
    assert rebased.policies["quota"]["max_facts"] == 150
    assert mk.Profile(retriever={"min_score": 0.25}).moved_defaults() == {}
