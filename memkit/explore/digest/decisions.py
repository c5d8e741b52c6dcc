"""Which sentences say that something was decided: patterns of RE2, declared as data."""

from __future__ import annotations

import pyarrow as pa

from memkit.extend.showing import rows_of
from memkit.policy.base import END, START, alternatives
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
_SQL = """
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
    chosen = rows_of(_SQL.format(tested=patterns_sql(PATTERNS)), input=joined)
    return sentences.take(chosen["place"])
