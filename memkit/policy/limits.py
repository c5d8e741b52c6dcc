"""How many memories there may be, for how long, and how they fade: quota and expiry of facts, and decay (Memory v2).

Decay drops nothing. Here it is a policy, the age of each memory and the factor for its score; `memkit.tables.age` has
the formulas, by which a search weighs too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_unicode, rows_of
from memkit.base.params import AsOf, Moment, Reach, estimator, param
from memkit.documents import cite
from memkit.errors import count_of
from memkit.policy.base import VERDICT, Policy, document_param, kind_in, needed, only_kept
from memkit.schemas import check_kinds, kinds_where
from memkit.tables.age import (
    DECAY_KINDS,
    age_sql,
    decay_param,
    decay_reach,
    decay_sql,
    decaying,
    decays_sql,
    expired_sql,
    factor_sql,
)
from memkit.tables.statement import Annotator, as_table, input_table


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


_DATED = "coalesce(updated_at, created_at)"


def _reach(policy: Any, table: Any) -> Reach:
    """How many memories of a table decay by the parameters of `policy`."""
    return _reaches(table, policy.decay, policy.decay_kinds)[0]


def _reaches(table: Any, form: str, *every_kinds: Sequence[str]) -> list[Reach]:
    """How many memories of a table decay, where these kinds do."""
    rows = input_table(as_table(table), Decay.needs)
    is_dated = pc.is_valid(pc.coalesce(rows["updated_at"], rows["created_at"]))
    pairs = pa.table({"kind": rows["kind"], "importance": rows["importance"], "is_dated": is_dated})
    groups = pairs.group_by(pairs.column_names).aggregate([([], "count_all")])
    dated, counts = (groups[name].to_numpy() for name in ("is_dated", "count_all"))
    decays, reaches = decaying(groups), []
    for kinds in every_kinds:
        is_named = pc.is_in(groups["kind"], value_set=pa.array([*kinds], pa.string())).to_numpy()
        reaches.append(decay_reach(form, kinds, decays, dated, is_named | ("*" in kinds), counts))
    return reaches


@estimator
class Decay(Annotator):
    """Shows the age and the decay factor of every memory; search multiplies scores by the factor. Nothing is dropped.

    Adds ``keep`` (bool, always true), ``reason`` (string: ``future`` for a date after `as_of`, else null), ``age_days``
    (float64, days), ``factor`` (float64, above 0, at most 1) and ``note`` (string). The note is null for memories that
    decay, ``future`` for a date after `as_of` (age 0), ``undated`` for a missing date (age null, factor 1), else
    ``exempt``.

    Only age counts, not the status of a memory: search has a separate factor for stale memories.

    Examples
    --------
    >>> table = pa.table({"text": ["архив"], "kind": ["archive"], "created_at": ["2026-01-01"]})
    >>> Decay(decay="half_life").transform(table, as_of="2026-03-02").column("factor").to_pylist()
    [0.5]
    """

    by_user = True
    told_by = "mk.audit(search, only='horizon') shows which hits drop out of a search by age, and when."
    needs: ClassVar[pa.Schema] = needed("kind", "importance", "created_at", "updated_at")
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: decay only changes scores",
        "reason": "future for a date after as_of, else null",
        "age_days": "as_of minus updated_at (else created_at); days",
        "factor": "the factor that scores are multiplied by; ratio",
        "note": "why it does not decay: future, undated or exempt",
    }

    decay: str = decay_param("decay", _reach)
    decay_days: float = decay_param("decay_days", _reach)
    decay_floor: float = decay_param("decay_floor", _reach)
    decay_kinds: Sequence[str] = decay_param("decay_kinds", _reach, default=DECAY_KINDS["policy"])

    def remarks(self, table: pa.Table) -> list[str]:
        """As of other policies; also, with its defaults, where nothing decays, and where others do than in a search."""
        other = "" if self.decay == "none" else kinds_note(table, self.decay_kinds)
        told = [*super().remarks(table), *(f"{text}." for text in self.idle(table, ["decay"]).values()), other]
        return [remark for remark in dict.fromkeys(told) if remark]

    def refactored(self, judged: pa.Table) -> pa.Table:
        """A table that another form, time or floor judged, with the factors of these; notes stay, as for `decay_kinds`.

        Ages and notes cost most of `transform`, and a slider does not change them.

        Examples
        --------
        >>> rows = {"text": ["a"], "created_at": ["2026-01-01"]}
        >>> judged = Decay(decay_days=60).transform(pa.table(rows), as_of="2026-03-02")
        >>> Decay(decay="half_life").refactored(judged)["factor"].to_pylist()
        [0.5]
        """
        self.check_params()
        spared = pc.is_in(judged["note"], value_set=pa.array(["undated", "exempt"]))
        factor = factor_sql(self.decay, self.decay_days, self.decay_floor, "spared", "age_days")
        rows = pa.table({"age_days": judged["age_days"], "spared": spared})
        made = rows_of(f"select {factor} as factor from judged", judged=rows)  # noqa: S608  # declared parameters only
        place = judged.column_names.index("factor")
        return judged.set_column(place, judged.schema.field(place), made["factor"])

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        check_unicode(self.decay_kinds)
        named = [kind for kind in self.decay_kinds if kind != "*"]
        check_kinds(named, "Decay: 'decay_kinds'", in_data=rows["kind"].unique().to_pylist())
        return {}

    def _sql(self) -> str:
        return f"""select *,
    true as keep,
    case when {_DATED} > $until then 'future' end as reason,
    {age_sql()} as age_days,
    {decay_sql(self.decay, self.decay_days, self.decay_floor, self.decay_kinds)} as factor,
    case
        when {_DATED} is null then 'undated'
        when {_DATED} > $until then 'future'
        when not ({decays_sql(self.decay_kinds)}) then 'exempt'
    end as note
from input"""  # noqa: S608  # declared parameters only


def kinds_note(table: Any, kinds: Sequence[str] = DECAY_KINDS["policy"]) -> str:
    """A sentence where memories decay by the policy of these `kinds`, and not in a search, which has others; else "".

    Examples
    --------
    >>> rows = {"text": ["a"], "kind": ["daily_log"], "created_at": ["2026-01-01"]}
    >>> kinds_note(pa.table(rows))
    "By the policy 1 of 1 memory decay, in a search 0: its decay_kinds are 'profile', 'working', 'archive'."
    """
    of_search = DECAY_KINDS["search"]
    here, there = _reaches(table, "e_folding", kinds, of_search)
    if here.count == there.count:
        return ""
    names = ", ".join(map(repr, of_search))
    return (
        f"By the policy {here.count:,} of {count_of(here.of, 'memory')} decay, in a search {there.count:,}: its"
        f" decay_kinds are {names}."
    )
