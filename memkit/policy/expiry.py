"""Expiry: a memory is hidden once its last day, or the time that its author named, has passed (Memory v2, TTL)."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from memkit.base.params import AsOf, Reach, estimator, param
from memkit.documents import cite
from memkit.policy.base import VERDICT, Policy, needed, only_kept
from memkit.tables.age import expired_sql
from memkit.tables.statement import as_table, input_table


def _ending(policy: Any, table: Any) -> Reach:
    """How many memories have a last day."""
    ends = input_table(as_table(table), Expiry.needs)["expires_at"]
    return Reach(len(ends) - ends.null_count, len(ends), "none has a last day (expires_at)", "grace_days")


@estimator
class Expiry(Policy):
    """Refuses memories whose end (``expires_at``) is past: a day's end, or the named time; without one none expires.

    Neither ``stale_at`` nor ``status`` counts: a stale memory is to be checked again, and stays.

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
        doc="Days that a memory is kept after its last day.",
        acts_on=_ending,
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
        """The rows that a cleanup job would remove on a day, with the reason; nothing is removed.

        Returns
        -------
        pyarrow.Table
            The rows of ``transform`` that are not kept, in order.
        """
        judged = self.transform(table, as_of)
        return judged.filter(pa.compute.invert(judged["keep"]))
