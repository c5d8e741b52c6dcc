"""Quota and expiry, the limits of facts (Memory v2): how many there may be of a kind and in total, and for how long."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from memkit.base.params import AsOf, Reach, estimator, param
from memkit.documents import cite
from memkit.policy.base import VERDICT, Policy, document_param, kind_in, needed, only_kept
from memkit.schemas import kinds_where
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


_param = partial(document_param, "quota")
_QUOTA = Path(__file__).with_name("quota.sql").read_text(encoding="utf-8").rstrip()
# Nothing of unknown age counts as fresh, and undated facts follow the order of their file.
_OLDEST_FIRST = "dated nulls first, path, line_start, case when dated is null then row end, memory_id, row"


@estimator
class Quota(Policy):
    """Refuses profile and working facts over their limit and evicts archive facts over the total.

    Adds ``keep`` (bool), ``reason`` (string, ``limit`` or ``evicted``), ``evict_rank`` (int64, the order of eviction
    within the user, 1 goes first; null where the user is within the total, or the fact is never evicted) and
    ``over_limit`` (int64, by how many facts the user stays over the total, since high importance is never evicted).

    Over the limit of a kind, the oldest facts are kept and the newest refused, as if they were saved one by one. Over
    the total, archive facts of low importance are evicted before normal ones, the oldest first. Expired facts and kinds
    that are not facts do not count. Age follows ``updated_at``, else ``created_at``; a future date counts as `as_of`,
    and a missing one as the oldest, in the order of the file (``path``, ``line_start``, else the row). A user's newest
    fact is never evicted: it was just saved, and a full archive could otherwise never take a fact of low importance.
    Rows without ``user_id`` count as one user. A fact that is superseded, deprecated or stale counts as any other: it
    takes as much room, until it is removed.

    Examples
    --------
    >>> table = pa.table({"kind": ["archive"] * 3, "importance": ["low", "normal", "low"]})
    >>> Quota(max_facts=2).transform(table).column("reason").to_pylist()
    ['evicted', None, None]
    """

    by_user = True
    for_facts = True
    needs: ClassVar[pa.Schema] = needed(
        *("memory_id", "user_id", "kind", "importance", "created_at", "updated_at", "expires_at", "path", "line_start")
    )
    adds: ClassVar[dict[str, str]] = VERDICT | {
        "evict_rank": "order of eviction within the user, 1 goes first",
        "over_limit": "facts by which the user stays over the total; facts",
    }

    max_facts: int = _param("max_facts", "Limit of all facts of a user.", low=0, unit="facts")
    max_profile: int = _param("max_profile", "Limit of profile facts of a user.", low=0, unit="facts")
    max_working: int = _param("max_working", "Limit of working facts of a user.", low=0, unit="facts")

    def _sql(self) -> str:
        return _QUOTA.format(
            profile=int(self.max_profile),
            working=int(self.max_working),
            most=int(self.max_facts),
            counted=kind_in(kinds_where(counted=True)),
            expired=expired_sql(),
            oldest_first=_OLDEST_FIRST,
        )
