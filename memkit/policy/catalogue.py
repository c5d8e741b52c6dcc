"""The policies by name, as the command line runs them over a corpus."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.duck import connect
from memkit.params import AsOf, Estimator

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

POLICIES = {
    "admission": ("memkit.policy.admission", "Admission"),
    "classify": ("memkit.policy.classifier", "Classifier"),
    "dedup": ("memkit.policy.dedup.deduplicator", "Deduplicator"),
    "quota": ("memkit.policy.quota", "Quota"),
    "expiry": ("memkit.policy.expiry", "Expiry"),
    "decay": ("memkit.decay", "Decay"),
    "index_check": ("memkit.policy.index_check", "IndexCheck"),
    "split_plan": ("memkit.policy.split_plan", "SplitPlan"),
}
"""Name to module and class, imported when asked for."""

_ENTRIES = {"index_check"}
_SUMMARY = """
    select {kind} as kind, keep, reason, count(*) as rows, {factor} min({example}) as example
    from input group by all order by all
"""


def policy_class(name: str) -> type[Estimator]:
    """The class of a policy in `POLICIES`."""
    module, attribute = POLICIES[name]
    cls: type[Estimator] = getattr(import_module(module), attribute)
    return cls


def apply(name: str, policy: Any, corpus: Corpus, as_of: AsOf = None) -> pa.Table:
    """The annotated table that a policy makes of a corpus: of its ``entries`` for index_check, else of its memories."""
    table = corpus.tables["entries" if name in _ENTRIES else "memories"]
    annotated: pa.Table = policy.fit(table).transform(table, as_of=as_of)
    return annotated


def summary(annotated: pa.Table) -> pa.Table:
    """The verdicts by kind and reason: kind, keep, reason, rows, an example, and the mean factor where there is one.

    Examples
    --------
    >>> rows = {"kind": ["note", "note"], "keep": [True, False], "reason": [None, "limit"], "text": ["a", "b"]}
    >>> summary(pa.table(rows)).select(["keep", "reason", "rows"]).to_pylist()
    [{'keep': False, 'reason': 'limit', 'rows': 1}, {'keep': True, 'reason': None, 'rows': 1}]
    """
    names = annotated.column_names
    parts = {
        "kind": next((name for name in ("kind", "category") if name in names), "''"),
        "factor": "round(avg(factor), 3) as mean_factor," if "factor" in names else "",
        "example": r"left(regexp_replace(trim(text), '\s+', ' ', 'g'), 60)" if "text" in names else "file",
    }
    con = connect()
    con.register("input", annotated)
    return con.execute(_SUMMARY.format_map(parts)).to_arrow_table()
