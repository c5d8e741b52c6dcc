"""Expiry: a memory dated before the day is hidden; dated that day it still lives (Memory v2, TTL)."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from memkit.documents import cite
from memkit.params import AsOf, estimator, param
from memkit.policy.base import VERDICT, Policy, needed, only_kept
from memkit.tables.age import expired_sql


@estimator
class Expiry(Policy):
    """Refuses what is past its day; a missing date never expires.

    Adds ``keep`` (bool) and ``reason`` (string, ``expired``).

    Examples
    --------
    >>> table = pa.table({"text": ["старое", "today"], "expires_at": ["2026-02-28", "2026-03-01"]})
    >>> Expiry().transform(table, as_of="2026-03-01T23:59").column("keep").to_pylist()
    [False, True]
    """

    by_user = True
    needs: ClassVar[pa.Schema] = needed("kind", "expires_at")
    adds: ClassVar[dict[str, str]] = VERDICT

    grace_days: int = param(
        0,
        low=0,
        high=3_652_059,  # from the year 1 to 9999
        unit="days",
        doc="How long an expired memory is still kept.",
        source=cite("memory_v2", "expiry"),
    )

    def _sql(self) -> str:
        expired = expired_sql(self.grace_days)
        return f"""select *,
    reason is null as keep
from (
    select *,
        case when {expired} and not {only_kept()} then 'expired' end as reason
    from input
)"""  # noqa: S608  # declared parameters only

    def cleanup(self, table: Any, as_of: AsOf = None) -> pa.Table:
        """The rows that a cleaning job would remove on that day, with the reason; nothing is removed.

        Returns
        -------
        pyarrow.Table
            The rows of ``transform`` that are not kept, in order.
        """
        judged = self.transform(table, as_of)
        return judged.filter(pa.compute.invert(judged["keep"]))
