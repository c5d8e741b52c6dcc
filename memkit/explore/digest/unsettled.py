"""What a span leaves unsettled: boxes (``- [ ]``) that were opened or closed, and what contradicts something older.

`open_tasks` says which boxes are open; a digest asks for contradictions here alone.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memkit.explore.digest.span import Span, with_memories
from memkit.extend.showing import rows_of
from memkit.formats.finished import checklist_of
from memkit.policy.contradictions import contradictions as contradictions_of
from memkit.tables.database import TASK, unticked_sql

_BOXES = f"""
with now as (from {unticked_sql("now_boxes", "now_memories")}),
before as (from {unticked_sql("before_boxes", "before_memories")}),
open_now as (from now where tick_id is null and not is_carried),
open_before as (from before where tick_id is null and not is_carried),
done_now as (select {TASK} as task from now_boxes where done)
from (
    select 'opened' as what, memory_id, path, line, text from open_now where task not in (select task from open_before)
    union
    select if(task in (from done_now), 'closed', 'removed') as what, memory_id, path, line, text from open_before
    where task not in (select task from open_now) and task not in (select task from now where tick_id is not null)
    union
    select 'closed' as what, tick_id, tick_path, tick_line, any_value(text order by path, line) from now
    where tick_id is not null and task not in (select task from open_now) and not exists (
        from before where before.memory_id = now.memory_id and before.task = now.task and before.tick_id is not null)
    group by tick_id, tick_path, tick_line, task
) order by list_position(['opened', 'closed', 'removed'], what), path, line, text, memory_id
"""  # noqa: S608  # names of tables alone
_OLDER = f"""
select count(*) as n from {unticked_sql("now_boxes", "now_memories")} where tick_id is null and not is_carried
    and task in (select task from {unticked_sql("before_boxes", "before_memories")} where tick_id is null)
"""  # noqa: S608  # names of tables alone
MOST, MOST_CHARS = 5_000, 1_000_000
"""The memories that are compared, the newest, and their characters: a statement takes about half a millisecond."""
_NEWEST = """
select memory_id from (select *, coalesce(length(text), 0) as n from memories) window newest as (
    order by memory_id in (from changes) desc, coalesce(updated_at, created_at) desc nulls last, memory_id)
qualify row_number() over newest <= $most and sum(n) over newest - n < $chars
"""


def _state(name: str, memories: pa.Table) -> dict[str, pa.Table]:
    """The boxes of some memories, and what is asked of the memories that have any."""
    found = checklist_of(memories)
    few = memories.select(["memory_id", "user_id", "kind", "created_at"])
    few = few.filter(pc.is_in(few["memory_id"], value_set=pc.unique(found["memory_id"])))
    return {f"{name}_boxes": found, f"{name}_memories": few}


def boxes(span: Span) -> tuple[pa.Table, int]:
    """What became of boxes within the span, and how many were open before and still are.

    A box is the same where its text is. The rows are ``opened``, ``closed``, or ``removed`` without a tick; what a
    later log ticks is closed there, once, and what is carried from log to log is opened in the first of them, once.
    """
    states = {**_state("before", span.before.memories), **_state("now", span.after.memories)}
    return rows_of(_BOXES, **states), rows_of(_OLDER, **states)["n"][0].as_py()


def contradictions(span: Span) -> tuple[pa.Table, int]:
    """The contradictions whose newer memory is new or changed, as `contradictions_of` lists them.

    Returns
    -------
    pyarrow.Table, int
        The second is the number of memories that were compared.
    """
    after, changes = span.after, span.changes
    values = {"most": MOST, "chars": MOST_CHARS}
    chosen = rows_of(_NEWEST, values, memories=after.memories, changes=changes.select(["memory_id"]))["memory_id"]
    after = with_memories(after, after.memories.filter(pc.is_in(after.memories["memory_id"], value_set=chosen)))
    listed = contradictions_of(after, as_of=span.until)
    return listed.filter(pc.is_in(listed["by_id"], value_set=changes["memory_id"])), after.memories.num_rows
