"""A policy's statement for one text: its tests by regular expression are answered beforehand.

To make a pattern ready takes DuckDB milliseconds, and a statement of admission has a dozen of them: for one row that is
all its time. So where the text is plain, Python answers each ``regexp_matches(text, '…')``, and DuckDB has the rest of
the same statement. Plain are the characters for which both mean the same by a class of letters, a fold of case and a
blank; for any other text, and any pattern that says more, the statement stays as it is.
"""

from __future__ import annotations

import functools
import re

from memkit.duck import literal, literals

_MOST = 2_000
"""Characters; Python's patterns go back and forth, which a long text would show."""
_CYRILLIC = "\u0400-\u045f"
_PLAIN = re.compile(f"[\\t\\n\\r -~«»—–…„“”‘’№{_CYRILLIC}]*")
_CLASSES = {"L": f"A-Za-z{_CYRILLIC}", "N": "0-9", "Z": " "}  # of the plain characters
_TEXT = r"'(?:[^']|'')*'"
_CALL = re.compile(rf"regexp_(matches|extract|extract_all|replace)\(\s*(text|{_TEXT})((?:,\s*(?:{_TEXT}|1))+)\s*\)")
_ARGUMENT = re.compile(_TEXT)
_TOKEN = re.compile(
    r"\\p\{(?P<named>[LNZ])\}|\\x\{(?P<code>[0-9A-Fa-f]+)\}|(?P<taken>\\(?:s|x[0-9A-Fa-f]{2}|[^A-Za-z0-9]))"
    r"|(?P<flags>\(\?[im]+\))|(?P<group>\(\?:|\()|(?P<char>[^\\])",
    re.DOTALL,
)


def settled(sql: str, text: str | None) -> str:
    """`sql` with what it asks of a column ``text`` that holds this one text already answered.

    Examples
    --------
    >>> settled(r"select regexp_matches(text, '(?i)^[^\\p{L}]*чай') as a", "Чай с мёдом")
    'select true as a'
    >>> settled(r"select regexp_extract(regexp_replace(text, 'ч', '', 'g'), '(а)', 1) as a", "чай")
    "select 'а' as a"
    >>> settled(r"select regexp_matches(text, '\\p{L}') as a", "茶")
    "select regexp_matches(text, '\\\\p{L}') as a"
    """
    if text is None or len(text) > _MOST or not _PLAIN.fullmatch(text):
        return sql
    before = ""
    while sql != before:  # a call may stand within another
        before, sql = sql, _CALL.sub(lambda call: _answer(call, text), sql)
    return sql


def _answer(call: re.Match[str], text: str) -> str:
    """One call's value as SQL; the call itself where Python is not sure of it."""
    subject = text if call[2] == "text" else _unquoted(call[2])
    pattern, *more = map(_unquoted, _ARGUMENT.findall(call[3]))
    own, grouped = as_python(pattern), call[3].endswith("1")
    if own is None or grouped != call[1].startswith("extract") or bool(more) != (call[1] == "replace"):
        return call[0]
    if call[1] == "matches":
        return str(own.search(subject) is not None).lower()
    if call[1] == "extract":
        found = own.search(subject)
        return literal((found[1] or "") if found else "")
    if own.fullmatch(""):  # of nothing there are several readings
        return call[0]
    if more:
        return literal(own.sub(more[0], subject)) if more[1:] else call[0]
    return f"[{literals(found[1] or '' for found in own.finditer(subject))}]::varchar[]"


def _unquoted(word: str) -> str:
    return word[1:-1].replace("''", "'")


@functools.lru_cache(512)
def as_python(pattern: str) -> re.Pattern[str] | None:
    """An RE2 pattern as Python has it, for plain texts; None for one that may mean something else there."""
    try:
        return re.compile("".join(_parts(pattern)))
    except (ValueError, re.error):
        return None


def _parts(pattern: str) -> list[str]:
    """The pattern part by part: flags hold to the end of their group, and ``$`` without ``m`` is the very end."""
    found: list[str] = []
    above: list[tuple[int, bool]] = []  # of each open group: groups that its flags opened, whether `m` held before it
    opened, lines, inside, at = 0, False, False, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None or pattern.startswith("[:", at):
            raise ValueError(pattern)
        at, word = token.end(), chr(int(token["code"], 16)) if token["code"] else token[0]
        if (token["code"] or token["char"]) and word.isalpha() and not _PLAIN.fullmatch(word):
            raise ValueError(pattern)  # its fold may be a plain letter
        if token["named"]:
            word = _CLASSES[token["named"]] if inside else f"[{_CLASSES[token['named']]}]"
        elif token["code"]:
            word = re.escape(word)
        elif inside or token["taken"] or token["char"] == "[":
            if token["char"] == "[" and not inside:
                inside = True
                if opens := re.compile(r"\^?\]?").match(pattern, at):
                    at, word = opens.end(), word + opens[0]
            elif word == "]":
                inside = False
        elif token["flags"]:
            lines = lines or "m" in word
            word, opened = f"{word[:-1]}:", opened + 1
        elif token["group"]:
            if token["group"] == "(" and pattern.startswith("?", at):
                raise ValueError(pattern)
            above.append((opened, lines))
            opened = 0
        elif word == ")":
            word = ")" * (opened + 1)
            opened, lines = above.pop()
        elif word == "$" and not lines:
            word = r"\Z"
        found.append(word)
    return [*found, ")" * opened]
