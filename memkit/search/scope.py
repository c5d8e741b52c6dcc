"""Which memories a question may find: `where`, hidden kinds and expiry, decided before any arm makes its cut."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.search.fitted.rows import Mask, Rows
from memkit.search.settings import QuerySettings
from memkit.search.stages.normalise import Ints


@dataclass(frozen=True)
class Scope:
    """What is left out, by reason; None where the reason leaves out none.

    Attributes
    ----------
    filtered, expired : ndarray of bool, shape (n_memories,), or None
    allowed : ndarray of bool, shape (n_chunks,), or None
        Chunks that may be found; None for all.
    """

    filtered: Mask | None
    expired: Mask | None
    allowed: Mask | None

    def reason(self, memory: Ints, otherwise: str) -> list[str]:
        """Per row of memories: 'filtered', 'expired' or `otherwise`."""
        words = np.full(len(memory), otherwise, dtype=object)
        for mask, word in ((self.expired, "expired"), (self.filtered, "filtered")):
            if mask is not None:
                words[mask[memory]] = word
        return [str(word) for word in words]


def make_scope(
    rows: Rows,
    settings: QuerySettings,
    moment: datetime,
    memory_ids: pa.ChunkedArray,
    passed: pa.ChunkedArray | None,
) -> Scope:
    """The scope of a question.

    Parameters
    ----------
    settings : QuerySettings
        With `expired` and `kinds_hidden`.
    passed : pa.ChunkedArray, optional
        Ids of the memories that pass `where`; None where there is no predicate.
    """
    out = []
    if passed is not None:
        out.append(~pc.is_in(memory_ids, value_set=passed).to_numpy())
    if (hidden := rows.hidden(settings.kinds_hidden)) is not None:
        out.append(hidden)
    gone = rows.expired(moment)
    if settings.expired == "only":
        out.append(np.ones(len(memory_ids), bool) if gone is None else ~gone)
    filtered = np.logical_or.reduce(out) if out else None
    expired = gone if settings.expired == "hide" else None
    reasons = [mask for mask in (filtered, expired) if mask is not None]
    allowed = ~np.logical_or.reduce(reasons)[rows.memory] if reasons else None
    return Scope(filtered, expired, allowed)
