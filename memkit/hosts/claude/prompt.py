"""What Claude Code loads into its prompt: each MEMORY.md up to its cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memkit import Corpus
from memkit.extend import Candidate, Context, Moment, context_of
from memkit.hosts.claude import INDEX, MOST_UNITS, counted_lines, loaded, targets_in, whole_of

ON_DEMAND = "ON DEMAND"
"""The block of what a host reads only when the agent opens a file."""


def show(corpus: Corpus, rows: Sequence[dict[str, Any]], moment: Moment) -> Context:
    """What Claude Code loads: each MEMORY.md up to its cut; of what it does not load, why."""
    files: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        files.setdefault(row["path"], []).append(row)
    blocks: dict[str, list[Candidate]] = {}
    texts, notes, linked, linked_below_cut = list[str](), list[str](), set[str](), set[str]()
    for path, sections in files.items():
        if path.rpartition("/")[2] != INDEX:
            continue
        folder = path[: -len(INDEX)]
        whole = whole_of(sections)
        part = loaded(whole)
        counted = dict(counted_lines(whole))
        blocks[path] = [line for row in sections for line in _visible(row, path, counted, part.cut)]
        texts += [f"[{path}]\n{part.text}"] if part.text else []
        for number, target, _ in targets_in(whole):
            (linked_below_cut if part.cut is not None and number >= part.cut else linked).add(folder + target)
        if part.cut is not None:
            notes.append(f"{path}: line {part.cut} and below are not loaded, {part.total_lines - part.lines} lines.")
    blocks[ON_DEMAND] = [
        Candidate(row["memory_id"], ON_DEMAND, row["text"], 0.0, _reason_not_loaded(path, linked, linked_below_cut))
        for path, memories in files.items()
        if path not in blocks
        for row in memories
    ]
    if not rows:
        notes.append("Nothing is shown: the corpus holds no memory of Claude Code.")
    limits = {block: 0 if block == ON_DEMAND else MOST_UNITS for block in blocks}
    return context_of(corpus, "\n".join(texts), blocks, limits, notes, moment)


def _visible(row: dict[str, Any], block: str, counted: Mapping[int, str], cut: int | None) -> list[Candidate]:
    """The part of a section of MEMORY.md that is loaded, and the part that is not."""
    numbers = [number for number in range(row["line_start"], row["line_end"] + 1) if number in counted]
    above = [number for number in numbers if cut is None or number < cut]
    parts = ((None, above), ("below_cut", numbers[len(above) :]))
    return [
        Candidate(row["memory_id"], block, "\n".join(counted[number] for number in part), 0.0, reason)
        for reason, part in parts
        if part
    ]


def _reason_not_loaded(path: str, linked: set[str], linked_below_cut: set[str]) -> str:
    """Why a topic file is not in the prompt: the agent opens it by its link, if it sees that."""
    return "on_demand" if path in linked else "link_below_cut" if path in linked_below_cut else "not_indexed"
