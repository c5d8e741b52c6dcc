"""Contradictions of a corpus: pairs of dated memories of one user that say different things of the same.

`memkit.text.contradictions` decides about two statements; here the statements that share words, or an attribute, are
brought together, and what is no contradiction of a corpus is left out: a counter that each log repeats, a memory that
is superseded or expired, one that says both.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment, describe
from memkit.display.views import names_in
from memkit.policy.dedup.near import lexical_pairs, word_sets
from memkit.schemas import REPLACED, TIMESTAMP, Ints, Mask, kinds_where, result_schema
from memkit.tables.age import expired, later
from memkit.tables.secrets import secrets_in
from memkit.text.boilerplate import PATTERNS, evidence
from memkit.text.contradictions import FEW, Contradiction, contradiction
from memkit.text.statements import Reader, Statement

# This number and the next two were chosen while looking at labelled pairs of facts and chats.
_FLOOR = 0.5
"""Least cosine of the sets of words of two statements that are compared."""
_MOST_OF_ONE = 12
"""So many values of one attribute, or statements of the same words, are a log or a list."""
_SERIES = 4
"""So many values of one attribute are a counter or a log, and contradict nothing."""
_MOST_FIELD = 60
_WORDED = re.compile(r"[^\W\d_][\w .,'’&-]*")
_SETTLED = (*REPLACED, "archived")
_TABLE = result_schema(
    (pa.string(), "memory_id by_id user_id subject attribute kind older_value newer_value"),
    (TIMESTAMP, "older_at newer_at"),
    (pa.float64(), "newer_days"),
    (pa.string(), "older_text newer_text"),
)


def contradictions(corpus: Any, as_of: AsOf = None) -> pa.Table:
    """What newer memories say otherwise than older ones of the same user, newest first.

    A pair is listed where both memories have a date and a statement of one contradicts a statement of the other: about
    one subject, in a number, in what is denied, or in the value of one attribute. Each older statement stands beside
    the newest one that contradicts it. Left out are memories that do not exist yet or are expired on the day, those
    that are marked as superseded, deprecated or archived, and attributes of which four or more values are known
    (counters, logs). Statements are compared where they share words, so the cost is linear in such pairs.

    Parameters
    ----------
    corpus : Corpus
    as_of : str, date, datetime or None
        The day that is asked about; None is now.

    Returns
    -------
    pyarrow.Table
        memory_id, by_id (the older and the newer memory), user_id, subject, attribute, kind (``number``, ``negation``,
        ``value`` or ``name``), older_value, newer_value, older_at, newer_at, newer_days (by how much the newer one is
        newer), older_text, newer_text (the two statements). Secrets are masked.

    Examples
    --------
    >>> import memkit as mk
    >>> texts = ["Backups are kept for 14 nights on cedar.", "Backups are kept for 30 nights on cedar."]
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": texts, "created_at": ["2026-01-05", "2026-02-05"]})
    >>> contradictions(corpus, as_of="2026-03-01").select(["memory_id", "by_id", "older_value"]).to_pylist()
    [{'memory_id': 'a', 'by_id': 'b', 'older_value': '14 nights'}]
    """
    moment = Moment.from_as_of(as_of)
    # By id, so that which of two equal statements stands for both does not depend on the order of files.
    memories = _compared(corpus.memories, moment)
    _, hide = secrets_in(memories)
    rows = memories.select(["memory_id", "user_id"]).to_pylist()
    when = pc.coalesce(memories["updated_at"], memories["created_at"]).to_pylist()
    every, owner = _statements(memories)
    dates = np.array([when[place].timestamp() for place in owner.tolist()])
    users = memories["user_id"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    scopes = users[owner].astype(np.int64)
    listed_at_once = _listed(every, dates, scopes)
    every = _with_one_value(every, scopes, listed_at_once)
    chosen = _chosen(every, dates, scopes, listed_at_once)
    statements, owner, dates, scopes = [every[place] for place in chosen], owner[chosen], dates[chosen], scopes[chosen]
    listed = []
    pairs = _without_series(_contradictory(statements, dates, owner, scopes))
    pairs.sort(key=lambda pair: (dates[pair[1]], pair[1]))  # of each older statement the newest one counts
    for older, newer, how in {pair[0]: pair for pair in pairs}.values():
        a, b = int(owner[older]), int(owner[newer])
        listed.append(
            {
                "memory_id": rows[a]["memory_id"],
                "by_id": rows[b]["memory_id"],
                "user_id": rows[b]["user_id"],
                "subject": hide(how.subject),
                "attribute": hide(how.attribute),
                "kind": how.kind,
                "older_value": hide(how.older_value),
                "newer_value": hide(how.newer_value),
                "older_at": when[a],
                "newer_at": when[b],
                "newer_days": (when[b] - when[a]).total_seconds() / 86400,
                "older_text": hide(statements[older].text),
                "newer_text": hide(statements[newer].text),
            }
        )
    listed.sort(
        key=lambda row: (-row["newer_at"].timestamp(), -row["older_at"].timestamp(), row["by_id"], row["memory_id"])
    )
    table = pa.Table.from_pylist(listed, schema=_TABLE)
    shown = names_in(table, corpus.memories, "memory_id", "by_id")
    return describe(table, memkit="audit_contradictions", shown=shown, as_of=moment)


def _compared(memories: pa.Table, moment: Moment) -> pa.Table:
    """The memories that hold on the day, by id: dated, of a kind that is searched, neither expired nor superseded."""
    when = pc.coalesce(memories["updated_at"], memories["created_at"])
    kept: Mask = ~later(memories["created_at"].to_numpy(), moment.last_visible)
    kept &= ~later(when.to_numpy(), moment.last_visible)
    kept &= ~expired(memories["expires_at"].to_numpy(), moment.last_visible)
    hidden = pc.is_in(memories["kind"], value_set=pa.array(kinds_where(searched=False), pa.string()))
    settled = pc.or_(pc.is_in(memories["status"], value_set=pa.array(_SETTLED)), pc.is_valid(memories["superseded_by"]))
    mask = pc.and_(pc.is_valid(when), pc.invert(pc.or_(hidden, settled)))
    return memories.filter(pc.and_(mask, pa.array(kept))).sort_by("memory_id")


def _statements(memories: pa.Table) -> tuple[list[Statement], Ints]:
    """All statements, and the row of each one's memory."""
    titles = pc.utf8_lower(pc.fill_null(memories["title"], "")).to_pylist()
    n_titled = Counter(titles)
    above = [title if not title or n_titled[title] < _SERIES else None for title in titles]
    texts = evidence(pc.fill_null(memories["text"], ""), (*PATTERNS, _FRONT_MATTER, _HEADER)).to_pylist()
    texts = [
        "\n".join((text, *(_fields(extra) if title else ())))
        for text, extra, title in zip(texts, memories["extra"].to_pylist(), above, strict=True)
    ]
    read = Reader().read(texts, above)
    for row, kind in enumerate(memories["kind"].to_pylist()):
        if above[row] is None and kind not in kinds_where(log=True):  # a page of a template has a subject of its own
            read[row] = [replace(one, key=frozenset()) if len(one.key) < FEW else one for one in read[row]]
    statements = [statement for of_text in read for statement in of_text]
    return statements, np.repeat(np.arange(len(read)), [len(of_text) for of_text in read])


_FRONT_MATTER = r"\A---[ \t]*\n(?:(?:[\w .-]+:|[ \t]+|[-#])[^\n]*\n)*?---[ \t]*(?:\n|\z)"
"""The front matter of a plain file, whose text keeps it; the dates and ids in it are no statements."""
_OF_COURSE = r"duration|started|ended|messages|tokens|длительность|начало|начат[ао]?|законч\pL{2,5}|сообщений|токенов"
"""What a program says of how a session went: two such lines are a header without another one too."""
_MARK = r"[ \t]*(?:>[ \t]*)*"
# The bounds are guesses: names of fields and their values in headers are short, and prose with a colon is no header.
_BESIDE = (
    rf"{_MARK}(?:(?:[-*>][ \t]+\*{{0,2}}|\*\*)\pL[^\n:*]{{0,40}}(?:\*{{0,2}}:|:\*{{0,2}})|(?:agent|model|user|mode|date"
    r"|time|start|end|from|to|cc|subject|reply-to|device|client|guild|app|language|агент|модель|пользователь|режим|дата"
    rf"|время|конец|от|кому|копия|тема|устройство|клиент|приложение|язык|{_OF_COURSE})(?:[ _-]\pL+)?:)[ \t]*[^\n]*"
)
"""What in one block with a header is one: an item or a bold name that gives a value, or a name of those."""
_HELD = (
    r"(?:session|thread|topic|chat|message|conversation|source|channel|platform|sender"
    r"|(?:сесси|тред|чат|сообщени|диалог|бесед)\pL{0,2})"
    r"(?:[ _-]?(?:id|key|file|name|number|type|start(?:ed)?|ended|time))?"
)
_HEADER = (
    rf"(?im)(?:^{_BESIDE}\n)*^{_MARK}(?:[-*][ \t]+)?(?:\*{{0,2}}(?:{_HELD}"
    rf"|recipient|participants?|timestamp|источник|канал|платформа|(?:номер|время|начало|ключ|ид|id)[ _-]{_HELD}"
    r"|отправитель|получатель|собеседники?|участники?)(?:\*{0,2}:|:\*{0,2})[ \t]*[^\n]{0,200}"
    r"|(?:session|thread|chat|message|conversation)[ _-](?:id|key|number)[ \t]+(?:is|=)[ \t]+[^\n]{0,80}"
    r"|\[[^\n:\]]{1,40}:[^\n|;\]]{0,80}(?:[|;][^\n:|;\]]{1,40}:[^\n|;\]]{0,80})+\]"
    rf"|(?:from|to|от|кому):[^\n@]{{0,80}}@[^\n]{{0,80}}"
    rf"|(?:{_OF_COURSE}):[^\n]{{0,80}}\n{_MARK}(?:{_OF_COURSE}):[^\n]{{0,80}})$(?:\n{_BESIDE}$)*"
)
"""What a chat or mail program writes above a session or a message: where it was held, not what was said; its block."""


def _fields(extra: str | None) -> Iterator[str]:
    """The fields of a page's front matter that have no column, as lines; no dates, ids and lists."""
    for key, value in json.loads(extra or "{}").items():
        if isinstance(value, str) and len(value) <= _MOST_FIELD and _WORDED.fullmatch(value):
            yield f"{key}: {value}"


def _contradictory(
    statements: list[Statement], dates: Any, owner: Ints, scopes: Ints
) -> Iterator[tuple[int, int, Contradiction]]:
    """Older, newer and how they contradict each other."""
    known = set[tuple[int, int]]()
    left, right, _ = lexical_pairs(word_sets([statement.content for statement in statements], scopes), _FLOOR)
    for a, b in (*zip(left.tolist(), right.tolist(), strict=True), *_sharing_attributes(statements, scopes)):
        # Of one moment, or of one memory, nothing is older: such statements are a list or a plan.
        if dates[a] == dates[b] or owner[a] == owner[b] or (a, b) in known:
            continue
        known.add((a, b))
        older, newer = (a, b) if dates[a] < dates[b] else (b, a)
        how = contradiction(statements[older], statements[newer])
        if how is not None:
            yield older, newer, how


def _with_one_value(statements: list[Statement], scopes: Ints, listed: set[int]) -> list[Statement]:
    """The statements, without the attribute where it is one of a list, or has many values in all: preferences."""
    keys = [(scope, statement.key) for scope, statement in zip(scopes.tolist(), statements, strict=True)]
    values = defaultdict[tuple[int, frozenset[str]], set[Any]](set)
    for key, statement in zip(keys, statements, strict=True):
        values[key].add((statement.value_words, statement.value_numbers))
    many = {key for key, some in values.items() if len(some) > _MOST_OF_ONE} | {keys[place] for place in listed}
    return [
        replace(statement, key=frozenset()) if statement.key and key in many else statement
        for key, statement in zip(keys, statements, strict=True)
    ]


def _chosen(statements: list[Statement], dates: Any, scopes: Ints, listed: set[int]) -> list[int]:
    """The places of the statements to compare, ascending: of equal ones the oldest and the newest.

    Left out are those of a list, and those whose words stand in many statements, each time otherwise: a counter. So a
    log that repeats its lines makes no more pairs than their words do.
    """
    of_words = defaultdict[tuple[int, frozenset[str]], dict[str, list[int]]](dict)
    for place in np.argsort(dates, kind="stable").tolist():
        statement = statements[place]
        if statement.content and place not in listed:
            alike = of_words[int(scopes[place]), statement.content]
            alike.setdefault(statement.text.casefold(), []).append(place)
    few = (alike for alike in of_words.values() if len(alike) <= _MOST_OF_ONE)
    return sorted({end for alike in few for places in alike.values() for end in (places[0], places[-1])})


def _listed(statements: list[Statement], dates: Any, scopes: Ints) -> set[int]:
    """The statements that give one of several values that hold at one time: rows of a list, days of a plan."""
    at_once = defaultdict[tuple[int, float, frozenset[str]], list[int]](list)
    for place, statement in enumerate(statements):
        for words in {statement.key, statement.content} - {frozenset[str]()}:
            at_once[int(scopes[place]), float(dates[place]), words].append(place)
    some = (places for places in at_once.values() if len({_differing(statements[place]) for place in places}) > 1)
    return {place for places in some for place in places}


def _differing(statement: Statement) -> tuple[Any, ...]:
    numbers = tuple(quantity.value for quantity in statement.quantities)
    return numbers, statement.dates, statement.times, statement.value_words, statement.value_numbers


def _sharing_attributes(statements: list[Statement], scopes: Ints) -> Iterator[tuple[int, int]]:
    of_one = defaultdict[tuple[int, frozenset[str]], list[int]](list)
    for place, statement in enumerate(statements):
        if statement.key:
            of_one[int(scopes[place]), statement.key].append(place)
    for places in of_one.values():
        yield from combinations(places, 2)


def _without_series(pairs: Iterator[tuple[int, int, Contradiction]]) -> list[tuple[int, int, Contradiction]]:
    """The pairs without those of an attribute that has many values."""
    every = list(pairs)
    values = defaultdict[tuple[str, str], set[str]](set)
    for _, _, how in every:
        values[how.subject, how.attribute] |= {how.older_value, how.newer_value}
    return [pair for pair in every if len(values[pair[2].subject, pair[2].attribute]) < _SERIES]
