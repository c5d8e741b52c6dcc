"""Records in use (records document): wisdom facts supported and contradicted, pathways ranked, stale pathways.

Each is a named query with checked parameters, over a corpus or a table of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import pyarrow as pa

from memkit.base.duck import rows_of
from memkit.base.params import AsOf, Moment, check_value, describe
from memkit.schemas import TABLES
from memkit.tables.database import named_query
from memkit.tables.statement import as_table, input_table

__all__ = ["rank_pathways", "stale_pathways", "wisdom_support"]


def wisdom_support(corpus: Any, relations: Any = None) -> pa.Table:
    """Each wisdom fact with the summed weights of the relations that support and contradict it.

    Parameters
    ----------
    corpus : Corpus, or table of wisdom facts
        A corpus brings both its ``wisdom_facts`` and ``relations``.
    relations : pyarrow.Table or pandas.DataFrame, optional
        Columns from_id, to_id, type, weight; required if `corpus` is a table.

    Returns
    -------
    pyarrow.Table
        memory_id, fact_id, category, content (string), confidence, supported, contradicted (float64), supports,
        contradictions (int64), balance (float64, supported minus contradicted); best supported first. A relation of a
        fact with itself does not count. It is the named query ``wisdom_support``.

    Examples
    --------
    >>> facts = pa.table({"fact_id": ["w1", "w2"]})
    >>> links = pa.table({"from_id": ["w1"], "to_id": ["w2"], "type": ["contradicts"], "weight": [0.75]})
    >>> wisdom_support(facts, links).select(["fact_id", "balance"]).to_pylist()
    [{'fact_id': 'w1', 'balance': 0.0}, {'fact_id': 'w2', 'balance': -0.75}]
    """
    links = _table(corpus if relations is None else relations, "relations")
    return _asked("wisdom_support", {}, wisdom_facts=_table(corpus, "wisdom_facts"), relations=links)


def rank_pathways(corpus: Any, confidence: float = 0.95) -> pa.Table:
    """Rank pathways by use and success: by the lower bound of the Wilson interval of the success rate.

    Parameters
    ----------
    corpus : Corpus, or table of pathways
    confidence : float, ratio in (0, 1)
        The confidence level of the two-sided interval.

    Returns
    -------
    pyarrow.Table
        memory_id, id, tier (string), hits (int64), success_rate, low, high (float64; null without a use or where the
        rate is outside of 0..1); best first. It is the named query ``pathways_ranked``.

    Examples
    --------
    >>> table = pa.table({"id": ["often", "once"], "hits": [100, 1], "success_rate": [0.9, 1.0]})
    >>> [(row["id"], round(row["low"], 3)) for row in rank_pathways(table).to_pylist()]
    [('often', 0.826), ('once', 0.207)]
    """
    check_value("rank_pathways", "confidence", confidence, "float", low=0, high=1, low_open=True, high_open=True)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return _asked("pathways_ranked", {"z": z}, pathways=_table(corpus, "pathways"))


def stale_pathways(corpus: Any, as_of: AsOf = None, days: float = 90.0) -> pa.Table:
    """Every pathway with the days since its last use, and whether that is more than `days`.

    Parameters
    ----------
    corpus : Corpus, or table of pathways
    as_of : str, date, datetime or None
        The day from which the days are counted back, UTC; None is now.
    days : float, days
        A pathway unused for longer is stale; one without a date is not.

    Returns
    -------
    pyarrow.Table
        memory_id, id, tier, hits, success_rate, last_used_at, idle_days (float64, 0 in the future), note (string,
        ``undated`` or ``future``), stale (bool); longest unused first. It is the named query ``pathways_stale``.

    Examples
    --------
    >>> table = pa.table({"id": ["old"], "last_used_at": ["2025-01-01"]})
    >>> stale_pathways(table, as_of="2026-01-01").select(["idle_days", "stale"]).to_pylist()
    [{'idle_days': 365.0, 'stale': True}]
    """
    check_value("stale_pathways", "days", days, "float", low=0, unit="days")
    moment = Moment.from_as_of(as_of)
    stale = _asked("pathways_stale", {"days": float(days)}, moment, pathways=_table(corpus, "pathways"))
    return describe(stale, as_of=moment)


def _asked(query: str, params: Mapping[str, Any], as_of: AsOf | Moment = None, **tables: pa.Table) -> pa.Table:
    """The answer of a named query over these tables alone, which need not be a corpus's."""
    return rows_of(*named_query(query, as_of, params), **tables)


def _table(corpus: Any, name: str) -> pa.Table:
    tables = getattr(corpus, "tables", None)
    return input_table(as_table(tables[name] if isinstance(tables, dict) else corpus), TABLES[name])
