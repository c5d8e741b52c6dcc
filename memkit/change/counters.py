"""Edits derived from others: the counters in ``meta.json`` beside changed fact files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memkit.errors import ChangeRefusedError
from memkit.formats.facts import COUNTED, parse_fact
from memkit.formats.syntax.places import Json

_COUNTERS = {f"{kind}.md": name for name, kind in COUNTED.items()}
ReadFile = Callable[[str], tuple[str | None, str | None]]


def counted(after: Mapping[str, str], read_file: ReadFile) -> Iterator[dict[str, Any]]:
    """The edits that correct the counters for the new contents `after`.

    A ``meta.json`` that is itself changed, is missing, or is not JSON is left alone; missing counters are not added.
    """
    for path, text in sorted(after.items()):
        folder, name = posixpath.split(path)
        meta = posixpath.join(folder, "meta.json")
        counter = _COUNTERS.get(name)
        if counter is None or meta in after:
            continue
        before, sha256 = read_file(meta)
        span = _counter_span(before, counter)
        facts = str(facts_in(text))
        if before is not None and span and before[slice(*span)] != facts:
            yield {
                "path": meta,
                "policy": "counters",
                "reason": f"{name} will have {facts} facts",
                "before": before[slice(*span)],
                "after": facts,
                "at": span[0],
                "sha256": sha256,
            }


def check_counters(after: Mapping[str, str], before: Mapping[str, str | None], read_file: ReadFile) -> None:
    """Raise where a changed counter in ``meta.json`` is not the number of facts."""
    for path, text in after.items():
        folder, name = posixpath.split(path)
        for counter_of, counter in _COUNTERS.items() if name == "meta.json" else ():
            new_value, old_value = _counter_text(text, counter), _counter_text(before.get(path), counter)
            if new_value is None or new_value == old_value:
                continue
            file = posixpath.join(folder, counter_of)
            facts = str(facts_in(after[file] if file in after else read_file(file)[0] or ""))
            if new_value != facts:
                raise ChangeRefusedError(
                    f"{path}: '{counter}' would be {new_value}, and the facts in {file} are {facts}."
                )


def _counter_text(meta: str | None, counter: str) -> str | None:
    span = _counter_span(meta, counter)
    return meta[slice(*span)] if meta and span else None


def _counter_span(meta: str | None, counter: str) -> tuple[int, int] | None:
    try:
        part = Json(meta).find([counter]) if meta else None
    except ChangeRefusedError:
        return None
    return (part.value, part.end) if part else None


def facts_in(text: str) -> int:
    """The number of fact lines in a text."""
    lines = text.removeprefix("\ufeff").split("\n")
    return sum(parse_fact(line.removesuffix("\r")) is not None for line in lines)
