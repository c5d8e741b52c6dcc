"""The links of Markdown: ``[[target#part|text]]``, ``[text](page.md#part)``, ``[text][name]`` and embeds, with lines.

Code holds no links, and neither do addresses on the web. Cost is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from memkit.base.fences import Fences

# Patterns open with one certain character, not with what may be absent or what must not stand before: found several
# times as fast.
# The bounds here and below keep it linear: a bracket that nothing closes is looked at for so far, and no farther.
_WIKI = re.compile(r"\[\[([^\[\]\n|#]{0,500})(?:#([^\[\]\n|]{0,500}))?(?:\|([^\[\]\n]{0,500}))?\]\]")
_INLINE = re.compile(
    r"\](?:\[([^\[\]\n^][^\[\]\n]{0,499})?(?=\])|\((<[^<>\n]{1,1000}>"
    r"|[^()\s<]{1,1000}+(?=[ \t)])|(?:[^()\s<]|\([^()\s]{0,200}\)){1,1000})"  # the first way is twice as fast
    r"(?:[ \t]+(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'))?[ \t]*\))"
)
DEFINED = re.compile(
    r"^ {0,3}\[(?!\^)(?P<name>[^\[\]\n]{1,500})\]:[ \t]*(?P<place><[^<>\n]{1,1000}>|[^\s<]\S{0,999})"
    r"(?=(?:[ \t]+(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|\([^()\n]{0,300}\)))?[ \t]*\r?$)",
    re.MULTILINE,
)
"""The line that says where ``[text][name]`` leads; a footnote's is none, nor is one of which words follow the place."""
_CODE = re.compile(r"(`(?<!``)`{0,2})(?!`)[^\n]{1,1000}?(?<!`)\1(?!`)")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
# A round bound, so that a bracket that nothing closes is not looked for to the end.
_TEXT_BEGINS = 500
"""The most characters of a link's text."""


class Link(NamedTuple):
    """One link as it is written.

    Attributes
    ----------
    written : str
        All of it, brackets included; of ``[text][name]`` the line that says where the name leads.
    target : str
        What it names, decoded: a path, a stem, a title, an alias or an id; empty for a part of the same page.
    part : str
        The heading that it names, or empty.
    text : str
        The words that stand for it; empty where the target is all.
    line : int
        1-based, in the text that was searched.
    is_wiki, is_embed : bool
        Whether it is written in double brackets, and whether the page is shown in its place.
    whole : str
        The target with all that follows a ``#``, which may be part of a file's name.
    """

    written: str
    target: str
    part: str
    text: str
    line: int
    is_wiki: bool
    is_embed: bool
    whole: str

    @property
    def file(self) -> str:
        """The target without what an address asks of it, as in ``data.csv?raw=1``; in brackets all is a name."""
        return self.target if self.is_wiki else self.target.partition("?")[0]


def without_code(text: str, code: Fences) -> str:
    """`text` with blanks in the place of its fences and code spans; line and character numbers stay.

    >>> from memkit.base.fences import fences
    >>> without_code("a `[[b]]` c", fences("a `[[b]]` c"))
    'a         c'
    """
    if "`" not in text and not code.closed:
        return text
    if code.closed:
        lines = text.split("\n")
        for fence in code.closed:
            for number in fence:
                lines[number - 1] = " " * len(lines[number - 1])
        text = "\n".join(lines)
    return _CODE.sub(lambda match: " " * len(match[0]), text)


def links_in(text: str, above: int = 0) -> Iterator[Link]:
    """The links of a text without code (see `without_code`), those in brackets first; addresses and images are none.

    Parameters
    ----------
    above : int
        How many lines stand above the text, which count in the links' lines.

    Examples
    --------
    >>> [(link.target, link.part, link.text) for link in links_in("[[чай#сорт|о чае]] и [план](a%20b.md#x), [w](https://a.b)")]
    [('чай', 'сорт', 'о чае'), ('a b.md', 'x', 'план')]
    >>> [(link.written, link.text) for link in links_in("[о чае][Чай], [x][y], [к][^1]\\n[чай]: tea.md\\n[^1]: b.md")]
    [('[чай]: tea.md', 'о чае')]
    """
    return chain(_in_brackets(text, above + 1), _inline(text, above + 1))


def link_in(written: str) -> Link | None:
    """The first link of a text, which may be all of it."""
    match = _WIKI.match(written, written.startswith("!"))
    if defined := DEFINED.match(written):
        return _led(written, defined["place"], "", 1)
    return (_wiki(written, match, 1) if match else None) or next(links_in(written), None)


def _in_brackets(text: str, line: int) -> Iterator[Link]:
    offset = 0
    for match in _WIKI.finditer(text):
        line += text.count("\n", offset, match.start())
        offset = match.start()
        if link := _wiki(text, match, line):
            yield link


def _wiki(text: str, match: re.Match[str], line: int) -> Link | None:
    target, part, words = match.groups()
    target = target.removesuffix("\\")  # a bar in a table is written \|
    name, begin = target.strip(), match.start()
    if not name and not part:
        return None
    is_embed = begin > 0 and text[begin - 1] == "!"
    written, shown = f"!{match[0]}" if is_embed else match[0], words.strip() if words else ""
    if part is None:
        return Link(written, name, "", shown, line, True, is_embed, name)
    whole = f"{target}#{part}".removesuffix("\\").strip()
    return Link(written, name, part.strip("\\ "), shown, line, True, is_embed, whole)


def _inline(text: str, line: int) -> Iterator[Link]:
    if "](" not in text and "][" not in text:
        return
    # Of two lines for one name the first counts.
    defined = {_called(match["name"]): match for match in reversed([*DEFINED.finditer(text)])} if "][" in text else {}
    offset = 0
    for match in _INLINE.finditer(text):
        line += text.count("\n", offset, match.start())
        offset = match.start()
        begin = _opening(text, offset)
        if begin is None or text[begin - 1 : begin] == "!":
            continue
        written, words, place = text[begin : match.end()], text[begin + 1 : offset], match[2]
        if place is None and (named := defined.get(_called(match[1] or words))):
            written, place = named[0].strip(), named["place"]
        if place and (link := _led(written, place, words, line)):
            yield link


def _called(name: str) -> str:
    return " ".join(name.casefold().split())


def _led(written: str, place: str, words: str, line: int) -> Link | None:
    """The link to a place of the folder; an address and a part of the same page are none."""
    destination = place.strip("<>")
    path, _, part = map(unquote, destination.partition("#"))  # %23 is a sign of the name
    if not path or _ADDRESS.match(destination):
        return None
    return Link(written, path, part, words, line, False, False, unquote(destination))


def _opening(text: str, end: int) -> int | None:
    """Where the bracket opens that closes at `end`, on the same line."""
    low = max(text.rfind("\n", 0, end) + 1, end - _TEXT_BEGINS, 0)
    last = text.rfind("[", low, end)
    if last < 0 or "]" not in text[last:end]:  # nothing in brackets within it
        return last if last >= 0 else None
    depth = 0
    for position in range(end - 1, low - 1, -1):
        if text[position] == "]":
            depth += 1
        elif text[position] == "[":
            if not depth:
                return position
            depth -= 1
    return None
