"""What was decided within a span, by patterns of RE2 that are declared as data; and what the span leaves open: boxes
(``- [ ]``) that were opened or closed, and what contradicts something older.

`open_tasks` says which boxes are open; a digest asks for contradictions here alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from memkit.explore.digest.span import Span, new_sentences, with_memories
from memkit.extend.showing import rows_of
from memkit.formats.finished import checklist_of
from memkit.policy.base import END, START, alternatives
from memkit.policy.contradictions import contradictions as contradictions_of
from memkit.tables.database import TASK, unticked_sql
from memkit.tables.statement import Pattern, patterns_sql

_RUSSIAN = (
    *("решили", "решено", "порешили", "постановили", "договорились", "условились", "согласовали", "утвердили"),
    *("утверждено", "принято решение", "приняли решение", "принял решение", "приняла решение", "сошлись на"),
    *("остановились на", "выбрали", "выбран", "выбрана", "выбрано", "будем использовать", "будем делать"),
    *("отказались от", "отказываемся от", "переходим на", "перешли на", "больше не используем", "больше никаких"),
    *("с этого дня", "отныне", "впредь"),
)
_ENGLISH = (
    *("decided", "it was decided", "we decide", "agreed to", "agreed on", "agreed that", "we agreed", "we agree"),
    *("we will", "we'll", "we’ll", "we chose", "chose to", "we choose", "we picked", "going with", "we go with"),
    *("settled on", "settled for", "approved", "resolved to", "we no longer", "from now on", "no more"),
)
DECISION_WORDS = (*_RUSSIAN, *_ENGLISH)
"""Words that say so, Russian and English; a phrase matches whatever blanks are between its words."""
_PROBLEMS = ("проблем", "задач", "ошибк", "уравнен", "головоломк", "кроссворд")
_SOLVED = rf"(?i)реш(?:ил|[её]н)[аио]?\s+(?:\S+\s+){{0,2}}?(?:{'|'.join(_PROBLEMS)})\S*"
"""«Решили проблему» tells of a solution."""
_OPENS = (
    *("не", "чтобы", "чтобы мы", "чтобы все", "not", "never", "be", "if", "until", "once", "when", "whether"),
    *("what", "how", "where"),
)
"""Words before a decision that is still open or only asked for; besides them those in ``n't``."""
_OPENED = (
    *("решили", "решено", "договорились", "выбрали", "утвердили", "согласовали", "decided", "approved", "agreed"),
    *("we will", "we'll", "we’ll"),
)
_QUOTED = ("решили", "решено", "decided")
_UNDECIDED = ("we will see", "we'll see", "we’ll see", "no more than")
_OPEN = (
    rf"(?i){START}(?:(?:{alternatives(_OPENS)}|\w+n['’]t)\s+(?:yet\s+)?(?:{alternatives(_OPENED)})"
    rf"|(?:{alternatives(_UNDECIDED)}){END})|[«\"“](?:{alternatives(_QUOTED)})[»\"”]"
)
"""What is still open, and a word that is only quoted."""
_LABEL = (
    r"(?i)^\s*(?:(?:[-*+]|\d+[.)])\s+)?(?:\[[ x]\]\s+)?[*_\[]{0,3}(?:decisions?|resolution|решени[ея]|решили|adr)"
    r"(?:[*_]{0,2}\s*:|[*_]{0,2}\s+[—–-]\s|\][*_]{0,2})"
)
"""A label before the sentence: "Decision: …", «**Решение:** …», "- [decision] …"."""
_BARE = r"(?i)^[\s*_#]*(?:decisions?|decided|we decided|решени[ея]|решили|решено|договорились)[\s*_]*:[\s*_]*$"
"""A line that only announces decisions: the items of the list below it are some."""
_HEADED = rf"(?i){START}(?:decisions?|decided|adr|решени[ея]|решили|решено){END}"
_HEADED_OPEN = rf"(?i){START}(?:не|not|open|pending|to be)\s+(?:решили|решено|decided|decisions?)"
"""A heading, or the type that a layout gives: what stands under it was decided; and one of what was not."""
_STEMS = ("decision", "resolution", "решен", "решил", "adr")
_MAY = rf"(?i)(?:{alternatives((*DECISION_WORDS, *_STEMS))})".replace(r"\s", r"[\pZ\pC]")
"""What a text has of which a sentence tells of a decision by words or label; of any blanks sentences make one."""
_STRIPPED = Pattern("stripped", f"{_SOLVED}|{_OPEN}", "replace", instead=" ")
PATTERNS = (
    _STRIPPED,
    Pattern("says", rf"(?i){START}(?:{alternatives(DECISION_WORDS)}){END}", column=_STRIPPED),
    Pattern("label", _LABEL),
    Pattern("bare", _BARE),
    Pattern("headed", _HEADED, column="above"),
    Pattern("headed_open", _HEADED_OPEN, column="above"),
    Pattern("asks", r"[?？][\"'»”)*_]*\s*$"),
    Pattern("item", r"^\s*(?:[-*+]|\d+[.)])\s"),
)
_DECISIONS = """
with tested as ({tested}),
judged as (
    select *, says or label as is_worded, headed and not headed_open as is_under,
        bool_or(item) over (partition by row) as has_items,
        row_number() over (partition by row order by place) as ordinal,
        item and coalesce(last_value(if(item, null, bare) ignore nulls) over (
            partition by row order by place rows between unbounded preceding and 1 preceding), false) as is_announced
    from tested where not is_heading
)
select place from judged
where not asks and not bare and (is_worded or is_announced or is_under and (item or not has_items and ordinal = 1))
order by place
"""


def decided(span: Span) -> pa.Table:
    """The new sentences of a span that tell of a decision; only of memories that may do so are sentences cut."""
    ids, memories = span.changes["memory_id"], span.after.memories
    some = memories.select(["memory_id", "heading_path", "title", "scope"])
    some = some.filter(pc.is_in(some["memory_id"], value_set=ids))
    last = pc.replace_substring_regex(some["heading_path"], r"(?s)^.* / ", "")  # a heading, title or type may say so
    said = pc.binary_join_element_wise(last, some["title"], some["scope"], " / ", null_handling="skip")
    above = pa.table([some["memory_id"], said], ["memory_id", "above"])
    headed = above["memory_id"].filter(pc.match_substring_regex(said, _HEADED))
    may = pc.or_kleene(pc.match_substring_regex(span.changes["after"], _MAY), pc.is_in(ids, value_set=headed))
    some = span.changes.filter(may)
    above = above.filter(pc.is_in(above["memory_id"], value_set=some["memory_id"]))
    return pa.concat_tables(decisions(cut, above) for cut in new_sentences(some))


def decisions(sentences: pa.Table, above: pa.Table) -> pa.Table:
    """The sentences that tell of a decision.

    A sentence does by its words or its label. Under a heading of decisions, or in a memory of that type, each item of a
    list does, or else the first sentence.

    Parameters
    ----------
    sentences : pyarrow.Table
        As `memkit.explore.digest.span.new_sentences` returns them.
    above : pyarrow.Table
        Columns memory_id and above: the headings and the type of each memory.

    Examples
    --------
    >>> from memkit.explore.digest.span import SENTENCES
    >>> texts = ["Решили: пул на десять.", "Решили задачу.", "Кто решил?", "We will ship on Friday."]
    >>> rows = [{"row": 0, "memory_id": "a", "is_heading": False, "text": text} for text in texts]
    >>> above = pa.table({"memory_id": ["a"], "above": [""]})
    >>> decisions(pa.Table.from_pylist(rows, SENTENCES), above)["text"].to_pylist()
    ['Решили: пул на десять.', 'We will ship on Friday.']
    """
    placed = sentences.append_column("place", pa.array(range(sentences.num_rows), pa.int64()))
    joined = placed.select(["place", "row", "memory_id", "is_heading", "text"]).join(above, "memory_id")
    chosen = rows_of(_DECISIONS.format(tested=patterns_sql(PATTERNS)), input=joined)
    return sentences.take(chosen["place"])


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


def _state(name: str, parts: Iterable[pa.Table]) -> dict[str, pa.Table]:
    """The boxes of memories, and what is asked of the memories that have any."""
    boxes, few = list[pa.Table](), list[pa.Table]()
    for part in parts:
        boxes.append(checklist_of(part))
        some = part.select(["memory_id", "user_id", "kind", "created_at"])
        few.append(some.filter(pc.is_in(some["memory_id"], value_set=pc.unique(boxes[-1]["memory_id"]))))
    return {f"{name}_boxes": pa.concat_tables(boxes), f"{name}_memories": pa.concat_tables(few)}


def boxes(span: Span) -> tuple[pa.Table, int]:
    """What became of boxes within the span, and how many were open before and still are.

    A box is the same where its text is. The rows are ``opened``, ``closed``, or ``removed`` without a tick; what a
    later log ticks is closed there, once, and what is carried from log to log is opened in the first of them, once.
    """
    states = {**_state("before", span.before()), **_state("now", [span.after.memories])}
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
