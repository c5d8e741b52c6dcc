"""Every policy under one name, its statement on a connection of one's own, documents' presets, packages of others."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import memkit
from memkit import presets
from memkit.errors import ParameterError
from memkit.policy.base import POLICIES, policy_class, policy_names
from memkit.policy.pipeline import Pipeline, replay
from memkit.tables.corpus import read
from memkit.tables.samples import sample_data
from memkit.tables.statement import Annotator

AS_OF = "2026-03-01"
WITHOUT_MODEL = {"deduplicator": {"encoder": None}, "split_plan": {"max_tokens_per_file": 60}}


@pytest.fixture(scope="module")
def corpus() -> Any:
    return read(sample_data())


def one(name: str) -> Annotator:
    return policy_class(name)(**WITHOUT_MODEL.get(name, {}))


@pytest.mark.quick
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_one_name_in_class_presets_and_pipeline(name: str) -> None:
    policy = one(name)
    assert policy.name == name
    assert Pipeline([policy, one(name)]).names == [name, f"{name}_2"]
    assert [name in some for some in presets.POLICY.values()].count(True) == 1
    assert getattr(memkit, type(policy).__name__) is type(policy)


@pytest.mark.quick
@pytest.mark.parametrize("name", POLICIES)
def test_every_statement_runs_on_a_connection_of_ones_own(name: str, corpus: Any) -> None:
    policy = one(name).fit(corpus)
    judged = policy.transform(corpus, AS_OF)
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        relations = policy.relations(corpus, AS_OF)
        for relation, rows in relations.items():
            con.register(relation, rows)
        shown = con.sql(f"select * from ({policy.sql(AS_OF)}) order by row").to_arrow_table()  # noqa: S608  # its own statement
    columns = [*policy.adds]
    assert shown.select(columns).to_pylist() == judged.select(columns).to_pylist()
    assert judged.num_rows == relations["input"].num_rows > 0


@pytest.mark.quick
def test_a_pipelines_statement_does_too(corpus: Any) -> None:
    steps = Pipeline([one(name) for name in presets.PIPELINES["memory_v2"]]).fit(corpus)
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        for relation, rows in steps.relations(corpus, AS_OF).items():
            con.register(relation, rows)
        shown = con.sql(f"select keep, reason from ({steps.sql(AS_OF)}) order by row").to_arrow_table()  # noqa: S608  # its own
    assert shown.to_pylist() == steps.transform(corpus, AS_OF).select(["keep", "reason"]).to_pylist()


@pytest.mark.parametrize(("document", "name"), [(d, name) for d, some in presets.POLICY.items() for name in some])
def test_a_documents_preset_names_every_parameter_and_is_taken(document: str, name: str) -> None:
    values = presets.POLICY[document][name]
    assert values.keys() == policy_class(name).params().keys()
    policy_class(name)(**values).check_params()


@pytest.mark.parametrize("document", presets.PIPELINES)
def test_each_document_has_a_ready_pipeline(document: str, corpus: Any) -> None:
    steps = getattr(presets, f"{document}_pipeline")()
    assert tuple(steps.names) == presets.PIPELINES[document]
    if document == "memory_v2":
        steps.set_params(deduplicator__encoder=None, deduplicator__kinds=("substring",))
    judged = steps.fit_transform(corpus, as_of=AS_OF)
    assert judged.num_rows == corpus.tables[steps.over].num_rows
    assert judged["keep"].to_pylist() == [step is None for step in judged["step"].to_pylist()]


def test_steps_for_different_tables_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"must read one table\. Got entries, memories"):
        Pipeline([one("index_check"), one("expiry")]).check_params()


def test_a_name_that_no_policy_has_is_answered_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"Got 'quotas'\. Did you mean 'quota'\?"):
        policy_class("quotas")


TOY = '''
from memkit.base.params import estimator, param
from memkit.policy.base import VERDICT, Policy, needed


@estimator
class ShortText(Policy):
    """Refuses what is too short to be of use."""

    needs, adds = needed("text"), VERDICT
    least: int = param(10, low=0, unit="characters", doc="Least length of a text.")

    def _sql(self):
        return f"select *, length(text) >= {int(self.least)} as keep, if(keep, null, 'short') as reason from input"
'''


@pytest.mark.outside
def test_a_policy_of_another_package_is_one_module_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site"
    (package / "toy-1.0.dist-info").mkdir(parents=True)
    (package / "toy.py").write_text(TOY)
    (package / "toy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    line = "short_text = toy:ShortText"
    (package / "toy-1.0.dist-info" / "entry_points.txt").write_text(
        f"[memkit.policies]\n{line}\nbroken = no_such_module:Policy\nnone = json:dumps\n"
    )
    monkeypatch.syspath_prepend(package)
    importlib.invalidate_caches()
    assert {"short_text", "broken"} <= set(policy_names())
    toy = policy_class("short_text")
    table = pa.table({"memory_id": ["a", "b"], "text": ["чай", "зелёный чай"]})
    assert Pipeline([toy(), toy(least=99)]).transform(table)["step"].to_pylist() == ["short_text", "short_text_2"]
    assert replay(table, toy(), toy(least=0), as_of=AS_OF)["changed"].to_pylist() == [True, False]
    for name, message in (("broken", "no_such_module"), ("none", "to be a Policy")):
        with pytest.raises(ParameterError, match=message):
            policy_class(name)
    sys.modules.pop("toy", None)
