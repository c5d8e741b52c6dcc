"""Check boxes that were opened or closed within a span; `open_tasks` says which are open."""

from __future__ import annotations

import pyarrow as pa

from memkit.corpus_digest.span import Span
from memkit.duck import rows_of
from memkit.tables.corpus import Corpus

_TICKED = r"(?m)^[ \t>]*(?:[-*+]|\d+[.)])[ \t]+\[[xX]\][ \t]*(.*?)[ \t]*$"
_BOXES = r"""
with ticked as (
    select unnest(regexp_extract_all(text, $ticked, 1)) as text from now
), opened as (
    select 'opened' as what, path, line, text from open_now where text not in (select text from open_before)
), closed as (
    select if(text in (select text from ticked), 'closed', 'removed') as what, path, line, text
    from open_before where text not in (select text from open_now)
), every as (
    select opened.*, memory_id from opened left join now
        on now.path = opened.path and opened.line between now.line_start and now.line_end
    union all
    select closed.*, memory_id from closed left join before
        on before.path = closed.path and closed.line between before.line_start and before.line_end
)
select what, path, line, text, any_value(memory_id) as memory_id from every group by what, path, line, text
order by list_position(['opened', 'closed', 'removed'], what), path, line, text
"""


def boxes(span: Span) -> tuple[pa.Table, int]:
    """What became of boxes within the span, and how many were open before and still are.

    A box is the same where its text is. The rows are ``opened``, ``closed``, or ``removed`` without a tick.
    """
    states = {"open_before": _open(span.before), "open_now": _open(span.after)}
    columns = ["memory_id", "path", "line_start", "line_end", "text"]
    memories = {"before": span.before.memories.select(columns), "now": span.after.memories.select(columns)}
    found = rows_of(_BOXES, {"ticked": _TICKED}, **states, **memories)
    older = rows_of("select count(*) as n from open_now where text in (select text from open_before)", **states)
    return found, older["n"][0].as_py()


def _open(corpus: Corpus) -> pa.Table:
    return corpus.named("open_tasks").to_arrow_table().select(["path", "line", "text"])
