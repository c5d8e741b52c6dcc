"""Reports on records: support of wisdom facts, ranking of pathways, stale pathways (records document)."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import pyarrow as pa

from memkit.duck import rows_of
from memkit.params import AsOf, Moment, check_value, record_as_of
from memkit.schemas import TABLES
from memkit.tables.age import age_sql, moments_in
from memkit.tables.statement import as_table, input_table

WISDOM_SQL = """with claims as (
    select to_id as fact_id,
        coalesce(sum(weight) filter (where type = 'supports'), 0.0) as supported,
        coalesce(sum(weight) filter (where type = 'contradicts'), 0.0) as contradicted,
        count(*) filter (where type = 'supports') as supports,
        count(*) filter (where type = 'contradicts') as contradictions
    from relations
    where from_id is distinct from to_id
    group by all
)
select memory_id, fact_id, category, content, confidence,
    coalesce(supported, 0.0) as supported,
    coalesce(contradicted, 0.0) as contradicted,
    coalesce(supports, 0) as supports,
    coalesce(contradictions, 0) as contradictions,
    coalesce(supported, 0.0) - coalesce(contradicted, 0.0) as balance
from wisdom_facts left join claims using (fact_id)
order by balance desc, confidence desc nulls last, fact_id, memory_id"""

# The Wilson score interval (1927) is always within 0..1, and wide where there are few uses.
PATHWAYS_SQL = """with used as (
    select *, greatest(coalesce(hits, 0), 0)::double as n,
        case when success_rate between 0 and 1 then success_rate end as p, $z * $z as zz
    from pathways
),
bounds as (
    select *,
        (p + zz / (2 * n)) / (1 + zz / n) as middle,
        $z * sqrt(p * (1 - p) / n + zz / (4 * n * n)) / (1 + zz / n) as half
    from used
)
select memory_id, id, tier, hits, success_rate,
    case when n > 0 and p is not null then greatest(0.0, middle - half) end as low,
    case when n > 0 and p is not null then least(1.0, middle + half) end as high
from bounds
order by low desc nulls last, hits desc nulls last, id, memory_id"""

STALE_SQL = f"""select memory_id, id, tier, hits, success_rate, last_used_at,
    {age_sql(["last_used_at"])} as idle_days,
    case when last_used_at is null then 'undated' when last_used_at > $until then 'future' end as note,
    coalesce(idle_days > $days, false) as stale
from pathways
order by idle_days desc nulls last, id, memory_id"""  # noqa: S608  # no data in it


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
        fact with itself does not count. The statement is `WISDOM_SQL`.

    Examples
    --------
    >>> facts = pa.table({"fact_id": ["w1", "w2"]})
    >>> links = pa.table({"from_id": ["w1"], "to_id": ["w2"], "type": ["contradicts"], "weight": [0.75]})
    >>> wisdom_support(facts, links).select(["fact_id", "balance"]).to_pylist()
    [{'fact_id': 'w1', 'balance': 0.0}, {'fact_id': 'w2', 'balance': -0.75}]
    """
    links = _table(corpus if relations is None else relations, "relations")
    return rows_of(WISDOM_SQL, wisdom_facts=_table(corpus, "wisdom_facts"), relations=links)


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
        rate is outside of 0..1); best first. The statement is `PATHWAYS_SQL`.

    Examples
    --------
    >>> table = pa.table({"id": ["often", "once"], "hits": [100, 1], "success_rate": [0.9, 1.0]})
    >>> [(row["id"], round(row["low"], 3)) for row in rank_pathways(table).to_pylist()]
    [('often', 0.826), ('once', 0.207)]
    """
    check_value("rank_pathways", "confidence", confidence, "float", low=0, high=1, low_open=True, high_open=True)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return rows_of(PATHWAYS_SQL, {"z": z}, pathways=_table(corpus, "pathways"))


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
        ``undated`` or ``future``), stale (bool); longest unused first. The statement is `STALE_SQL`.

    Examples
    --------
    >>> table = pa.table({"id": ["old"], "last_used_at": ["2025-01-01"]})
    >>> stale_pathways(table, as_of="2026-01-01").select(["idle_days", "stale"]).to_pylist()
    [{'idle_days': 365.0, 'stale': True}]
    """
    check_value("stale_pathways", "days", days, "float", low=0, unit="days")
    moment = Moment.from_as_of(as_of)
    values = {**moments_in(STALE_SQL, moment), "days": float(days)}
    return record_as_of(rows_of(STALE_SQL, values, pathways=_table(corpus, "pathways")), moment)


def _table(corpus: Any, name: str) -> pa.Table:
    tables = getattr(corpus, "tables", None)
    return input_table(as_table(tables[name] if isinstance(tables, dict) else corpus), TABLES[name])
