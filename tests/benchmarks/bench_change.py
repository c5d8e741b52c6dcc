"""What changing files costs, beside a bare write of the same bytes: ``python tests/benchmarks/bench_change.py``."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import memkit as mk
from memkit.serve.tools import Tools

USERS, FACTS = 200, 500
FILES = ("archive.md", "meta.json")


def timed(label: str, work: Callable[[], Any]) -> Any:
    """What `work` gives; its time is printed."""
    start = time.perf_counter()
    result = work()
    print(f"{label:<60}{time.perf_counter() - start:8.3f} s")
    return result


def make(root: Path, users: int) -> Path:
    """Folders of so many users with `FACTS` facts each, of which every fifth is past its day."""
    for user in range(users):
        lines = [
            f"- [id:wk_{n:03d}] [t:working] [imp:normal] [exp:202{5 if n % 5 == 0 else 7}-02-01] Задача {user} {n}\n"
            for n in range(FACTS)
        ]
        counts = f'{{"version": 2, "profileCount": 0, "workingCount": {FACTS}, "archiveCount": 0}}\n'
        mk.testing.write_files(root, {f"users/u{user}/working.md": "".join(lines), f"users/u{user}/meta.json": counts})
    return root


def bare(root: Path, files: dict[str, bytes], sync: bool = False) -> None:
    """The same bytes by plain writes, with `sync` each file made to last."""
    for path, data in files.items():
        with (root / path).open("wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())


Spent = dict[str, list[tuple[float, float]]]


def clocked(spent: Spent, label: str, work: Callable[[], Any]) -> None:
    """Note what `work` takes by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    spent.setdefault(label, []).append((time.perf_counter() - clock, time.process_time() - processor))


def syncs(work: Callable[[], Any]) -> int:
    """How often `work` waits until the disk has what was written."""
    with patch.object(os, "fsync", wraps=os.fsync) as fsync:
        work()
    return fsync.call_count


def saves(root: Path, user: str, turns: int = 20) -> None:
    """`memory_save` beside 10,000 facts: the save, the index that follows it, and a bare write of the same bytes."""
    tools = Tools(root, {"encoder": None}, log=False)
    chance = random.Random(user)
    spent: Spent = {}
    for turn in range(turns + 3):
        text = f"Обсуждали {words(chance)}."
        save = partial(tools.memory_save, text, user, type="archive", importance="low")
        if turn < 3:  # what is made once is there then
            count = syncs(save)
            tools.memory_search(text)
            continue
        clocked(spent, "save a fact, with its policies", save)
        clocked(spent, "  bring the search index up to date", tools.live.retriever)
        clocked(spent, "  search", partial(tools.memory_search, text))
        held = {f"users/{user}/{name}": (root / f"users/{user}/{name}").read_bytes() for name in FILES}
        clocked(spent, "  a bare write of the same bytes", partial(bare, root, held))
        clocked(
            spent, f"  the same, made to last ({len(FILES)} fsync; a save has {count})", partial(bare, root, held, True)
        )
    first, second = list(spent)[:2]
    both = [tuple(map(sum, zip(*pair, strict=True))) for pair in zip(spent[first], spent[second], strict=True)]
    for label, times in {"save and index update": both, **spent}.items():
        parts = (sorted(1e3 * part for part in column) for column in zip(*times, strict=True))
        figures = (f"{statistics.median(part):6.1f} {part[int(0.9 * len(part))]:6.1f} {part[0]:6.1f}" for part in parts)
        print(f"{label:<60}{'  of the processor '.join(figures)}")


@cache
def vocabulary() -> tuple[str, ...]:
    """The words of the shipped sample, the commonest first."""
    counts = Counter(
        word for text in mk.read("data").memories["text"].to_pylist() for word in re.findall(r"[^\W\d_]+", text)
    )
    return tuple(word for word, _ in counts.most_common())


def words(chance: random.Random, n: int = 8) -> str:
    """A text that is like no other, of words that are as common as words are."""
    known = vocabulary()
    drawn = [known[int(len(known) ** chance.random())] for _ in range(n)]
    return f"{' '.join(drawn)} {chance.randrange(10**6)}"


def archive(root: Path) -> Path:
    """20 users, 19 with 500 archive facts each, which is the document's limit, and the last with 470."""
    chance = random.Random(1)
    for user in range(20):
        n = 470 if user == 19 else 500
        lines = [f"- [id:ar_{n:03d}] [t:archive] [imp:low] Обсуждали {words(chance)}\n" for n in range(1, n + 1)]
        counts = f'{{"version": 2, "profileCount": 0, "workingCount": 0, "archiveCount": {n}}}\n'
        mk.testing.write_files(root, {f"users/u{user}/archive.md": "".join(lines), f"users/u{user}/meta.json": counts})
    return root


def index(root: Path, entries: int) -> Path:
    """An index of so many entries, each a file with the text of one other."""
    rows = [
        {"title": f"T{n}", "file": f"l/a{n}.md", "tags": ["x"], "priority": "high", "version": "1.0"}
        for n in range(entries)
    ]
    branch = {"type": "index-branch", "category": "l", "files": rows}
    files = {f"memory/l/a{n}.md": f"В пуле {n // 2} соединений к базе номер {n // 2}.\n" for n in range(entries)}
    files["memory/index.json"] = '{"type": "index-root", "branches": [{"category": "l", "path": "l/index.json"}]}'
    files["memory/l/index.json"] = json.dumps(branch, ensure_ascii=False, indent=1)
    return mk.testing.write_files(root, files)


def main() -> None:
    """Plan over 100,000 memories, apply 1,000 edits, save facts beside 10,000."""
    place = Path(tempfile.mkdtemp())
    try:
        root = make(place / "many", USERS)
        corpus = timed(f"read {USERS * FACTS:,} memories", lambda: mk.read(root))
        edits = timed("plan their expiry", lambda: mk.plan(corpus, mk.Expiry(), as_of="2026-03-01"))
        some = edits.filter("edit <= 1000")
        timed(f"apply {len(some):,} edits of {len(set(some.table['path'].to_pylist()))} files", some.apply)
        after = {path: (root / path).read_bytes() for path in set(some.table["path"].to_pylist())}
        timed("  a bare write of the same bytes", lambda: bare(root, after))
        timed("  the same, made to last", lambda: bare(root, after, sync=True))
        timed("undo", lambda: mk.undo(root))
        entries = mk.read(index(place / "entries", 10_000))
        dedup = mk.Deduplicator(encoder=None).fit(entries)
        timed("plan that 5,000 of 10,000 index entries go", lambda: mk.plan(entries, dedup).table)
        small = archive(place / "few")
        print("\nbeside 10,000 facts, ms: median, 90th percentile, least")
        print("of a user with room for more")
        saves(small, "u19")
        print("of a user with 500, so that each save evicts one")
        saves(small, "u0")
    finally:
        shutil.rmtree(place)


BY_HAND = "it takes minutes, and has no smaller size"


if __name__ == "__main__":
    main()
