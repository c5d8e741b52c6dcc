"""Index validation: valid, missing and invalid entries, and those that the auto_clean options would remove."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from memkit.base.params import estimator, param
from memkit.documents import cite
from memkit.policy.base import VERDICT, Policy
from memkit.schemas import TABLES

_SOURCE = cite("index_standard", "validation")


@estimator
class IndexCheck(Policy):
    """Judges the rows of ``entries``, also of a corpus; pinned entries are never removed.

    Here ``status`` is that of the entry (whether its file exists), not the status that a page gives itself.

    Adds ``keep`` (bool, the entry is valid), ``reason`` (string, ``missing`` or ``invalid``) and ``would_remove``
    (bool). The entry's own ``reason`` is kept as ``given_reason``.

    Examples
    --------
    >>> entries = pa.table({"status": ["valid", "missing", "missing"], "pinned": [False, False, True]})
    >>> IndexCheck(auto_clean_missing=True).transform(entries).column("would_remove").to_pylist()
    [False, True, False]
    """

    over: ClassVar[str] = "entries"
    needs: ClassVar[pa.Schema] = pa.schema([TABLES["entries"].field(name) for name in ("status", "pinned")])
    adds: ClassVar[dict[str, str]] = VERDICT | {"would_remove": "an automatic cleaning would delete the entry"}

    auto_clean_invalid: bool = param(False, doc="Remove entries that are invalid.", source=_SOURCE)
    auto_clean_missing: bool = param(False, doc="Remove entries whose file is missing.", source=_SOURCE)

    def _sql(self) -> str:
        chosen = {"invalid": self.auto_clean_invalid, "missing": self.auto_clean_missing}
        cleaned = " or ".join(f"reason = '{status}'" for status, on in chosen.items() if on) or "false"
        return f"""select *,
    reason is null as keep,
    reason is not null and ({cleaned}) and not coalesce(pinned, false) as would_remove
from (
    select *,
        case when status in ('missing', 'invalid') then status end as reason
    from input
)"""  # noqa: S608  # declared parameters only
