"""What is new and contradicts something older: the one place where a digest asks for contradictions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import rows_of
from memkit.explore.digest.span import Span, with_memories
from memkit.policy.contradictions import contradictions as contradictions_of

MOST = 5_000
"""The memories that are compared, the newest: a statement takes about a millisecond."""
_NEWEST = """
select memory_id from memories
order by memory_id in (select memory_id from changes) desc, coalesce(updated_at, created_at) desc nulls last, memory_id
limit $most
"""


def contradictions(span: Span) -> tuple[pa.Table, int]:
    """The contradictions whose newer memory is new or changed, as `contradictions_of` lists them.

    Returns
    -------
    pyarrow.Table, int
        The second is the number of memories that were compared.
    """
    after, changes = span.after, span.changes
    if after.memories.num_rows > MOST:
        chosen = rows_of(_NEWEST, {"most": MOST}, memories=after.memories, changes=changes)["memory_id"]
        after = with_memories(after, after.memories.filter(pc.is_in(after.memories["memory_id"], value_set=chosen)))
    listed = contradictions_of(after, as_of=span.until)
    return listed.filter(pc.is_in(listed["by_id"], value_set=changes["memory_id"])), after.memories.num_rows
