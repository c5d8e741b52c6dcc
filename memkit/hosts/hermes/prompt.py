"""What Hermes loads into its prompt: the entries of MEMORY.md and USER.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from memkit import Corpus
from memkit.extend import Candidate, Context, Moment, context_of
from memkit.hosts.hermes import DELIMITER, chars, visible


def show(
    corpus: Corpus, rows: Sequence[dict[str, Any]], moment: Moment, *, memory_chars: int, user_chars: int
) -> Context:
    """What Hermes loads: the entries of each file, each once, or head and tail of a file far above its limit."""
    limits = {"MEMORY.md": memory_chars, "USER.md": user_chars}
    files: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        text = row["text"].replace("\r\n", "\n").strip()
        files.setdefault(row["path"], []).append({**row, "text": text})
    blocks: dict[str, list[Candidate]] = {}
    of_block, texts, notes = dict[str, int](), list[str](), list[str]()
    for path, entries in files.items():
        limit = of_block[path] = limits.get(path.rpartition("/")[2], limits["MEMORY.md"])
        id_of_text: dict[str, str] = {}
        for row in entries:
            id_of_text.setdefault(row["text"], row["memory_id"])
        used = chars(id_of_text)
        shown = visible(used, limit)
        blocks[path], start = [], 0
        for text, memory_id in id_of_text.items():
            with_mark = f"§\n{text}" if start else text
            blocks[path] += _parts_in(Candidate(memory_id, path, with_mark, 0.0), start, shown)
            start += len(with_mark) + 1
        blocks[path] += [
            Candidate(row["memory_id"], path, row["text"], 0.0, "duplicate_entry")
            for row in entries
            if id_of_text[row["text"]] != row["memory_id"]
        ]
        joined = DELIMITER.join(id_of_text)
        texts.append(f"[{path}]\n" + "\n…\n".join(joined[begin:end] for begin, end in shown))
        if used > limit:
            cut = f", and {used - sum(end - begin for begin, end in shown):,} of them are not loaded"
            sentence = f"{path}: {used:,} of {limit:,} characters: the host adds nothing"
            notes.append(f"{sentence}{cut if len(shown) > 1 else ''}.")
    if not rows:
        notes.append("Nothing is shown: the corpus holds no memory of Hermes.")
    return context_of(corpus, "\n\n".join(texts), blocks, of_block, notes, moment)


def _parts_in(entry: Candidate, start: int, shown: Sequence[tuple[int, int]]) -> list[Candidate]:
    """The parts of an entry, which begins at `start`, that are shown, and what is not."""
    end = start + len(entry.line)
    inside = [(max(start, low), min(end, high)) for low, high in shown if max(start, low) < min(end, high)]
    edges = [start, *(edge for span in inside for edge in span), end]
    parts = [(low, high) for low, high in pairwise(edges) if low < high]
    return [
        replace(
            entry, line=entry.line[low - start : high - start], reason=None if (low, high) in inside else "below_cut"
        )
        for low, high in parts
    ]
