"""Boilerplate: the parts of a text that say nothing of its subject, as one list of patterns, `BOILERPLATE`.

These are what chat programs write around messages, and the targets of links that have a text: a page that links to
another would else hold the other's title twice, and rank above it. Boilerplate is shown, but not searched: it counts
for neither terms, letters nor vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import pyarrow as pa
import pyarrow.compute as pc

try:
    import re2
except ImportError:  # no wheel for this machine: snippets show boilerplate
    re2 = None

from memkit.errors import ParameterError


@dataclass(frozen=True)
class Boilerplate:
    """One kind of boilerplate.

    Attributes
    ----------
    name : str
    pattern : str
        Regular expression of RE2; what it matches is left out, up to what its group ``kept`` matches.
    examples : tuple of str
        An English and a Russian text that are boilerplate up to `rest`.
    others : tuple of str
        Texts that look alike, and are evidence.
    rest : str
        What is left of each example.
    """

    name: str
    pattern: str
    examples: tuple[str, ...]
    others: tuple[str, ...] = ()
    rest: str = ""


BOILERPLATE: tuple[Boilerplate, ...] = (
    Boilerplate(
        "comment",
        r"<!--(?s:.*?)-->",
        ("<!-- consolidated -->", "<!-- сведено\n2026-02-24 -->"),
        ("a <- b",),
    ),
    Boilerplate(
        "sender",
        r"(?m)^[^\n]{0,80}\((?:untrusted|недоверенн)[^)\n]{0,60}\):?[ \t]*\n+"
        r"[ \t]*```[a-z]*[ \t]*\n(?s:.*?)\n[ \t]*```[ \t]*$",
        (
            'Sender (untrusted metadata):\n```json\n{\n  "label": "Anna",\n  "id": "u1"\n}\n```',
            'Отправитель (недоверенные метаданные):\n\n```json\n{"label": "Анна"}\n```',
        ),
        ('Answer of the gateway:\n```json\n{"order": 13}\n```',),
    ),
    Boilerplate(
        "message",
        r'(?m)^[ \t]*\{"(?:message_id|sender|sender_id|chat_id|update_id)":[^\n]*\}[ \t]*$'
        r"|^[ \t]*\[message_id: [^\]\n]*\]",
        ('{"message_id": 42, "sender": "anna"}', '{"chat_id": 7, "title": "Дупло"}', "[message_id: 42]"),
        ('{"order": 13}',),
    ),
    Boilerplate(
        "startup",
        r"(?mi)^[^\n]*\b(?:run|execute|perform|follow) (?:your|the session)(?: session)?"
        r" ?start-?up (?:sequence|routine)\b[^\n]*$"
        r"|^[^\n]*(?:выполни|запусти|проделай)\S{0,4} (?:свою |твою )?стартовую"
        r" (?:последовательность|процедуру)[^\n]*$",
        (
            "A new session was started via /new. Run your startup sequence before you answer.",
            "Начат новый сеанс. Выполни свою стартовую последовательность.",
        ),
        ("The startup sequence of the server takes a minute.", "Стартовая последовательность занимает минуту."),
    ),
    Boilerplate(
        "frame",
        r"(?mi)^[ \t]*(?:\*\*|\[)?(?:user|assistant|human|пользователь|ассистент)(?:\*\*|\])?"
        r"[ \t]*:(?:\*\*)?(?:[ \t]|$)",
        ("user: ", "**Assistant**: ", "Пользователь: ", "ассистент: "),
        ("The user: a person", "users: 12", "username: anna"),
    ),
    Boilerplate(
        "tool",
        r"(?mi)^[ \t]*(?:\[?tool[ _](?:call|result|output|use)\b[^\n]*|tool: \S+ (?:ok|error|failed)\b[^\n]*"
        r"|NO_REPLY|HEARTBEAT_OK|\[(?:вызов|результат) инструмента[^\n]*)[ \t]*$"
        r"|<(?:tool_call|tool_result|system-reminder)>(?s:.*?)"
        r"</(?:tool_call|tool_result|system-reminder)>",
        ("tool: memory_log ok", "[tool_call: read]", "HEARTBEAT_OK", "[результат инструмента: 2 строки]"),
        ("Tool: a hammer", "Toolchain is pinned"),
    ),
    Boilerplate(
        "wiki link",
        r"\[\[[^\s\[\]|][^\[\]\n|]*\|(?P<kept>[^\[\]\n]*\p{L}[^\[\]\n]*)\]\]",
        ("[[tea|Чай]]", "[[чай#сорта|Чай]]", r"[[чай\|Чай]]"),
        ("[[Чай]]", "[[чай|]]", "![[plan.png|300]]", "if [[ $a = x|y ]]"),
        rest="Чай",
    ),
    Boilerplate(
        "link to a page",
        r"(?i)\[(?P<kept>[^\[\]\n]*\p{L}[^\[\]\n]*)\]\(<?[^()<>\n:]*\.(?:md|markdown)(?:#[^()<>\n]*)?>?\)",
        ("[Чай](tea.md)", "[Чай](<../мои записи/чай.md>)", "[Чай](TEA.MD#sorts)"),
        ("[Чай](https://tea.example/tea.md)", "[схема](чай.png)", "[](tea.md)", "f[a](b)"),
        rest="Чай",
    ),
)
PATTERNS = tuple(one.pattern for one in BOILERPLATE)
_KEPT = "(?P<kept>"


def wrapping(patterns: Iterable[str]) -> str:
    """Those of the patterns that leave nothing of what they match, as one; empty if there are none."""
    return "|".join(f"(?:{pattern})" for pattern in patterns if _KEPT not in pattern)


WRAPPERS = wrapping(PATTERNS)
"""What chat programs write around messages."""


def evidence(texts: pa.Array | pa.ChunkedArray, patterns: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """`texts` without what any of the `patterns` matches; cost linear in the texts.

    What the first group of a pattern matches stays, if the group is named ``kept``.

    Raises
    ------
    ParameterError
        If a pattern is no regular expression of RE2.

    Examples
    --------
    >>> evidence(pa.array(["<!-- seen -->", "user: чай", "см. [[tea|чай]]"]), PATTERNS).to_pylist()
    ['', 'чай', 'см. чай']
    """
    # To look for a pattern takes a tenth of replacing it where it is not, and for several at once no more than for one.
    # Pieces are taken together, as Arrow compiles a pattern for each of them.
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([evidence(texts.combine_chunks(), patterns)])
    if not patterns or not pc.any(has_any := _matches_any(texts, tuple(patterns))).as_py():
        return texts
    some = texts.filter(has_any)
    for pattern in patterns:
        if pc.any(pc.match_substring_regex(some, pattern)).as_py():
            some = _without(some, pattern)
    return pc.replace_with_mask(texts, has_any, some)


def _matches_any(texts: pa.Array | pa.ChunkedArray, patterns: tuple[str, ...]) -> pa.Array | pa.ChunkedArray:
    """Which texts one of the patterns matches; null for null."""
    return reduce(pc.or_, (pc.match_substring_regex(texts, pattern) for pattern in _patterns_to_match(patterns)))


_LONG = "{0,80}"
"""What a pattern has that is matched by itself: beside others RE2's automaton is too large, and takes twice as long."""


# Few settings of an index are asked for in one process.
@lru_cache(8)
def _patterns_to_match(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns of which one matches where one of `patterns` does: declared ones without a group as one."""
    for pattern in patterns:
        _without(pa.array([""]), pattern)
    joined = [one for one in patterns if one in PATTERNS and _KEPT not in one and _LONG not in one]
    others = [pattern for pattern in patterns if pattern not in joined]
    return (*filter(None, [wrapping(joined)]), *others)


def _without(texts: pa.Array, pattern: str) -> pa.Array:
    """`texts` without what a pattern matches, up to its group ``kept``."""
    try:
        return pc.replace_substring_regex(texts, pattern, r"\1" if _KEPT in pattern else "")
    except pa.ArrowInvalid as error:
        raise ParameterError(
            f"Retriever: 'boilerplate' must be regular expressions of RE2. Got {pattern!r:.80}: {error}"
        ) from error


def spans(text: str, patterns: Sequence[str]) -> list[tuple[int, int]]:
    """Where `text` is boilerplate, in order; a link that has a text is none here. Cost linear in the text.

    Examples
    --------
    >>> spans("user: чай <!-- seen --> [[tea|мёд]]", PATTERNS)
    [(0, 6), (10, 23)]
    """
    pattern = wrapping(patterns) if re2 else ""
    return [match.span() for match in re2.finditer(pattern, text)] if pattern else []
