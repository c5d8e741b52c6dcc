"""YAML as the objects of `nodes`, imported where YAML is read: PyYAML takes a fiftieth of a search that reads none.

Scalars stay strings (``1.0``, ``10:00``, ``yes`` and dates are what their author wrote; only a plain ``null``, ``~`` or
nothing is None). An alias is followed within a budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from memkit.base.checked import without_surrogates
from memkit.errors import ChangeRefusedError
from memkit.formats.syntax.nodes import MAX_DEPTH, Node, StructureError

# A round bound: nine lines of aliases can stand for a billion nodes.
MAX_ALIASED = 1_000_000
"""Characters, and nodes, that aliases may add to one file."""
MAX_DIRECTIVES = 100
"""Lines that open with ``%``: the YAML parser compares each with all before it."""

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # C where PyYAML was built with it
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
"""Where a document begins or ends, whatever stands above: no scalar may hold it at the head of a line."""
_ITEM = re.compile(r"^-(?=\s|\Z)", re.MULTILINE)
_SAYING = re.compile(r"^(?!(?:---|\.\.\.)?[ \t]*(?:#|$)).", re.MULTILINE)
"""The beginning of a line that is more than blank, a marker or a comment."""
_ANCHOR = re.compile(r"(?:^|[\[{,?:-])[ \t]*&\w", re.MULTILINE)
_OPENING: tuple[Any, ...] = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_FLOW_OPENING: tuple[Any, ...] = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
_FLOW_CLOSING: tuple[Any, ...] = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
_ALIAS: Any = yaml.AliasEvent
_CLOSING: tuple[Any, ...] = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def load_yaml(text: str, above: int = 0) -> Iterator[Any]:
    """Each YAML document of `text`, scalars as strings.

    Parameters
    ----------
    text : str
    above : int
        The lines that stand above `text` in its file, as all line numbers count from the file's first.

    Raises
    ------
    StructureError
        At the first fault, after the documents before it were given.
    """
    for number, match in enumerate(_DIRECTIVE.finditer(text)):
        if number == MAX_DIRECTIVES:
            line = above + text.count("\n", 0, match.start()) + 1
            raise StructureError(f"at most {MAX_DIRECTIVES} directives", line)
    try:
        yield from _Builder(above).documents(yaml.parse(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "characters that YAML allows"
        raise StructureError(f"{reason}", above + (mark.line if mark else 0) + 1) from error
    except UnicodeEncodeError as error:
        raise StructureError("characters that YAML allows", above + 1) from error


@dataclass(frozen=True)
class YamlPart:
    """Whole lines of a text, and how many lines stand above them in their file."""

    text: str
    above: int = 0

    def documents(self) -> list[Any]:
        """As `load_yaml` gives them, if it is YAML."""
        return list(load_yaml(self.text, self.above))

    def cut(self) -> list[YamlPart]:
        r"""What it can be cut into if it is no YAML: its documents, else the items of its list; itself if neither.

        The cuts are where YAML has them whatever is wrong above: at the markers of documents, and in a list at each
        ``-`` at the head of a line. Where one part may need another, for its directives or anchors, there are none.

        >>> [(part.text, part.above) for part in YamlPart("# mine\n- a: [\n- b: 1\n").cut()]
        [('# mine\n- a: [\n', 0), ('- b: 1\n', 2)]
        """
        text, first = self.text, _SAYING.search(self.text)
        if first is None or _DIRECTIVE.search(text) or _ANCHOR.search(text):
            return [self]
        documents = self._cut_at(_MARKER)
        is_list = len(documents) == 1 and _ITEM.match(text, first.start())
        return self._cut_at(_ITEM) if is_list else documents

    def _cut_at(self, pattern: re.Pattern[str]) -> list[YamlPart]:
        r"""The parts that begin at the matches.

        Lines that say nothing go with what is below them, the last ones with what is above.

        >>> [part.text for part in YamlPart("# a\n---\nb: 1\n---\n# c\n---\nd: 1\n...\n")._cut_at(_MARKER)]
        ['# a\n---\nb: 1\n', '---\n# c\n---\nd: 1\n...\n']
        """
        text = self.text
        places = [0, *(match.start() for match in pattern.finditer(text)), len(text)]
        ends = [end for start, end in pairwise(places) if _SAYING.search(text, start, end)]
        parts, above = list[YamlPart](), self.above
        for start, end in pairwise((0, *ends[:-1], len(text))):
            parts.append(YamlPart(text[start:end], above))
            above += text.count("\n", start, end)
        return parts

    def stripped(self) -> YamlPart:
        r"""The part without the blank lines and bare markers at its ends.

        >>> YamlPart("---\n\na: [\n...\n", 4).stripped()
        YamlPart(text='a: [', above=6)
        """
        lines = self.text.split("\n")
        saying = [number for number, line in enumerate(lines) if line.strip() not in ("", "---", "...")] or [0]
        return YamlPart("\n".join(lines[saying[0] : saying[-1] + 1]), self.above + saying[0])


def yaml_comments(text: str) -> dict[int, str]:
    """The comments of `text` by their 1-based line.

    Of text that is no YAML they are those of its parts; of a part that is none, the lines that are nothing else.

    >>> yaml_comments("# of mine\\na: 'b # c' # d\\n")
    {1: '# of mine', 2: '# d'}
    """
    if "#" not in text:
        return {}
    try:
        lines = [place for line, gap in _gaps(text) for place in enumerate(gap.split("\n"), line)]
    except (yaml.YAMLError, UnicodeEncodeError, StructureError):
        parts = YamlPart(text).cut()
        if len(parts) > 1:
            return {part.above + line: words for part in parts for line, words in yaml_comments(part.text).items()}
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("#")]
    return {number: without_surrogates(line[line.index("#") :].rstrip()) for number, line in lines if "#" in line}


def _gaps(text: str) -> Iterator[tuple[int, str]]:
    """What stands between the tokens of `text`, blanks and comments alone, and the line that each begins on."""
    end, line, depth = 0, 1, 0
    for token in yaml.scan(text, Loader=_Loader):
        depth += isinstance(token, _FLOW_OPENING) - isinstance(token, _FLOW_CLOSING)
        _refuse_nest(depth, line)
        if "#" in (gap := text[end : token.start_mark.index]):
            yield line, gap
        end, line = token.end_mark.index, token.end_mark.line + 1
        if getattr(token, "style", None) in ("|", ">"):  # its first line may be ``key: | # why``
            yield token.start_mark.line + 1, text[token.start_mark.index : end].partition("\n")[0]


class _Builder:
    """Makes objects from YAML events, with its own stack, so that depth and aliases are bounded."""

    def __init__(self, above: int) -> None:
        self._first = self._end = above + 1
        self._anchors: dict[str, _Open] = {}
        self._aliased = 0

    def documents(self, events: Iterator[Any]) -> Iterator[Any]:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                yield self._value(next(events), events)

    def _value(self, event: Any, events: Iterator[Any]) -> Any:
        root: list[Any] = []
        stack: list[_Open] = [_Open(root)]
        while True:
            if isinstance(event, _OPENING):
                self._open(event, stack)
            elif isinstance(event, _CLOSING):
                closed = stack.pop()
                if event.end_mark.index > event.start_mark.index:  # a bracket; what is indented ends with its last leaf
                    self._end = self._first + event.start_mark.line
                if isinstance(closed.value, Node):
                    closed.value.end_line = max(closed.value.line, self._end)
                self._take(stack, closed)
            else:
                self._take(stack, self._leaf(event))
            if len(stack) == 1:
                return root[0]
            event = next(events)

    def _take(self, stack: list[_Open], closed: _Open) -> None:
        if closed.anchor:
            self._anchors[closed.anchor] = closed
        _refuse_nest(len(stack) - 1 + closed.height, closed.line)
        stack[-1].take(closed)

    def _open(self, event: Any, stack: list[_Open]) -> None:
        line = self._first + event.start_mark.line
        _refuse_nest(len(stack), line)
        value: Any = Node() if isinstance(event, yaml.MappingStartEvent) else []
        if isinstance(value, Node):
            value.line = line
        stack.append(_Open(value, event.anchor, line))

    def _leaf(self, event: Any) -> _Open:
        line, end = self._first + event.start_mark.line, event.end_mark
        is_block = end.column == 0 and end.line > event.start_mark.line  # it ends where the next line begins
        self._end = self._first + end.line - is_block
        if isinstance(event, _ALIAS):
            known = self._anchors.get(event.anchor)
            self._aliased += _size(known.value) if known else 0
            if self._aliased > MAX_ALIASED or not known:
                raise StructureError(f"an alias of a known anchor, adding {MAX_ALIASED} characters at most", line)
            return _Open(known.value, None, line, known.height)
        plain = not event.style and event.value in ("", "~", "null", "Null", "NULL")
        return _Open(None if plain and event.implicit[0] else without_surrogates(event.value), event.anchor, line)


def _refuse_nest(depth: int, line: int) -> None:
    if depth > MAX_DEPTH:
        raise StructureError(f"at most {MAX_DEPTH} levels of nesting", line)


class _Open:
    """A value under construction, with its height: the levels of nesting within it."""

    def __init__(self, value: Any, anchor: str | None = None, line: int = 1, height: int = 0) -> None:
        self.value, self.anchor, self.line, self.height = value, anchor, line, height
        self._key: str | None = None
        self._key_line = line

    def take(self, item: _Open) -> None:
        self.height = max(self.height, item.height + 1)
        if isinstance(self.value, list):
            self.value.append(item.value)
        elif self._key is None:
            self._key = item.value if isinstance(item.value, str) else _flow(item.value)
            self._key_line = item.line
        else:
            self.value.put(self._key, item.value, self._key_line)
            self._key = None


def _flow(value: Any) -> str:
    """A key that is not a string, as text; without quotes, which each level around it would double."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, Node):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    return "null" if value is None else str(value)


def _size(value: Any) -> int:
    """Characters and nodes in `value`, counted no further than matters."""
    total, queue = 0, [value]
    while queue and total <= MAX_ALIASED:
        item = queue.pop()
        total += 1 + (len(item) if isinstance(item, str) else 0)
        if isinstance(item, dict):
            queue.extend(item)
            queue.extend(item.values())
        elif isinstance(item, list):
            queue.extend(item)
    return total


SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def refuse_anchors(text: str) -> None:
    """Refuse a text of YAML with anchors or aliases, which make one value stand for several.

    Raises
    ------
    ChangeRefusedError
        Where there are any.
    """
    if any(getattr(event, "anchor", None) for event in yaml.parse(text, Loader=SAFE_LOADER)):
        raise ChangeRefusedError("it has anchors or aliases, so one value may stand for several.")


def composed(head: str) -> Any:
    """The mapping of a text without anchors."""
    try:
        refuse_anchors(head)
        node = yaml.compose(head, Loader=SAFE_LOADER)
    except yaml.YAMLError as error:
        raise ChangeRefusedError(f"it is no YAML ({getattr(error, 'problem', None) or error}).") from error
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        raise ChangeRefusedError("it is not a mapping with a key a line.")
    return node
