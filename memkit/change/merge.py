"""What the memory that stays of several that say the same takes over from those that go: tags, and importance."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from memkit.change.draft import Draft
from memkit.change.remove import entry_of, update_entry
from memkit.errors import ChangeRefusedError
from memkit.formats.facts import parse_fact
from memkit.formats.syntax.places import Head, Splice
from memkit.schemas import IMPORTANCE_WORDS, IMPORTANCES

Row = dict[str, Any]
_TAG = re.compile(r"\[imp:([^\]]*)\]")


def merge_into(draft: Draft, stays: Row, goes: list[Row]) -> None:
    """Draft that a note, an entry or a fact takes over what it has not.

    No document says how records or sections would be merged: they stay as they are, and tags that are lost are said.
    """
    take = _BY_FORMAT.get(stays["format"])
    lost = [tag for tag in _tags(stays, goes) if tag not in (stays["tags"] or ())]
    if take is None and lost:
        said = "only notes, entries and facts take over what others have. Tags that go with the others"
        draft.refuse(stays["path"], stays["memory_id"], f"merge: {said}: {', '.join(lost)}.")
    elif take is not None:
        with draft.attempt(stays["path"], stays["memory_id"]):
            take(draft, stays, goes, f"merged with {', '.join(row['source_id'] or row['memory_id'] for row in goes)}")


def _tags(stays: Row, goes: list[Row]) -> list[str]:
    """The tags of all, each once, the own ones first; none where nothing is new."""
    found = list(dict.fromkeys(tag for row in (stays, *goes) for tag in row["tags"] or ()))
    return found if len(found) > len(stays["tags"] or ()) else []


def _note(draft: Draft, stays: Row, goes: list[Row], reason: str) -> None:
    if tags := _tags(stays, goes):
        new = Head(draft.text(stays["path"])).set_value(["keywords"], tags[: max(20, len(stays["tags"]))])
        draft.splice("update", stays["path"], new, reason, memory_id=stays["memory_id"])


def _entry(draft: Draft, stays: Row, goes: list[Row], reason: str) -> None:
    if tags := _tags(stays, goes):
        update_entry(draft, entry_of(draft, stays), {"tags": tags}, reason, memory_id=stays["memory_id"])


def _fact(draft: Draft, stays: Row, goes: list[Row], reason: str) -> None:
    best = min((row["importance"] or "normal" for row in (stays, *goes)), key=IMPORTANCES.index)
    document = draft.document(stays["path"])
    start, end = document.lines(stays["line_start"], stays["line_end"])
    tag = _TAG.search(document.text, start, end)
    fact = parse_fact(document.text[start:end]) or {}
    if tag is None or fact.get("imp") != tag[1]:
        raise ChangeRefusedError(f"{stays['path']}:{stays['line_start']}: the fact has no importance.")
    if IMPORTANCE_WORDS.get(tag[1]) != best:
        new = Splice(tag.start(1), tag.end(1), best)
        draft.splice("update", stays["path"], new, reason, memory_id=stays["memory_id"])


_BY_FORMAT: dict[str, Callable[[Draft, Row, list[Row], str], None]] = {
    "notes": _note,
    "index_tree": _entry,
    "facts": _fact,
}
