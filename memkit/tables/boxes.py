"""Which unticked boxes are still open: one that a later log ticks is closed, wherever it stands."""

from __future__ import annotations

from memkit.base.duck import literals
from memkit.schemas import kinds_where

_LOGS = literals(kinds_where(log=True))
TASK = r"""trim(regexp_replace(regexp_replace(replace(lower(text), 'ё', 'е'),
    '\s*(?:[✅❌📅⏳⏰🛫➕🔁⏫🔼🔽]|\[(?:due|completion|created)::).*$', '', 's'), '[\s~*_]+', ' ', 'g'), ' .,;!')"""
"""What a box is known by in SQL: its text without case, emphasis, the end of the sentence and what tools note there."""


def unticked_sql(checklist: str = "checklist", memories: str = "memories") -> str:
    """The SQL of every unticked box: memory_id, path, line, text, `TASK` as task, and of the last later log that ticks
    it tick_id, tick_path and tick_line; null where none does.

    A later log is one of the same user whose day or time comes after that of the box. A box without a date stays open,
    and so does one that was written again after its tick.
    """
    return f"""(
    with boxes as (
        select c.memory_id, c.path, c.line, c.text, c.done, {TASK.replace("text", "c.text")} as task,
            m.user_id, m.kind, m.created_at
        from {checklist} c left join {memories} m using (memory_id)
    ), ticks as (
        select task, user_id, max(created_at) as at, arg_max(memory_id, created_at) as tick_id,
            arg_max(path, created_at) as tick_path, arg_max(line, created_at) as tick_line
        from boxes where done and task <> '' and kind in ({_LOGS}) group by task, user_id
    )
    select b.memory_id, b.path, b.line, b.text, b.task,
        if(t.at > b.created_at, tick_id, null) as tick_id, if(t.at > b.created_at, tick_path, null) as tick_path,
        if(t.at > b.created_at, tick_line, null) as tick_line
    from boxes b left join ticks t on b.task = t.task and b.user_id is not distinct from t.user_id
    where not b.done
)"""  # noqa: S608  # names of tables alone
