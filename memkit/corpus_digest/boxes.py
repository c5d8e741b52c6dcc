"""Checkboxes (``- [ ]``) that were opened or closed within a span; `open_tasks` says which are open."""

from __future__ import annotations

import pyarrow as pa

from memkit.corpus_digest.span import Span
from memkit.duck import rows_of
from memkit.formats.boxes import checklist_of

_BOXES = """
with open_now as (from now where not done), open_before as (from before where not done)
from (
    select 'opened' as what, memory_id, path, line, text from open_now where text not in (select text from open_before)
    union
    select if(text in (select text from now where done), 'closed', 'removed') as what, memory_id, path, line, text
    from open_before where text not in (select text from open_now)
) order by list_position(['opened', 'closed', 'removed'], what), path, line, text, memory_id
"""
_OLDER = "select count(*) as n from now where not done and text in (select text from before where not done)"


def boxes(span: Span) -> tuple[pa.Table, int]:
    """What became of boxes within the span, and how many were open before and still are.

    A box is the same where its text is. The rows are ``opened``, ``closed``, or ``removed`` without a tick.
    """
    states = {"before": checklist_of(span.before.memories), "now": checklist_of(span.after.memories)}
    return rows_of(_BOXES, **states), rows_of(_OLDER, **states)["n"][0].as_py()
