"""What changing files costs, beside a bare write of the same bytes: ``python tests/benchmarks/bench_change.py``."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import memkit as mk
from memkit.serve.tools import Tools

USERS, FACTS = 200, 500


def timed(what: str, work: Callable[[], Any]) -> Any:
    """What `work` gives; its time is printed."""
    start = time.perf_counter()
    result = work()
    print(f"{what:<60}{time.perf_counter() - start:8.3f} s")
    return result


def make(root: Path, users: int) -> Path:
    """Folders of so many users with `FACTS` facts each, of which every fifth is past its day."""
    for user in range(users):
        lines = [
            f"- [id:wk_{n:03d}] [t:working] [imp:normal] [exp:202{5 if n % 5 == 0 else 7}-02-01] Задача {user} {n}\n"
            for n in range(FACTS)
        ]
        counts = f'{{"version": 2, "profileCount": 0, "workingCount": {FACTS}, "archiveCount": 0}}\n'
        mk.write_files(root, {f"users/u{user}/working.md": "".join(lines), f"users/u{user}/meta.json": counts})
    return root


def bare(root: Path, files: dict[str, bytes], sync: bool = False) -> None:
    """The same bytes by plain writes, with `sync` each file made to last."""
    for path, data in files.items():
        with (root / path).open("wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())


def clocked(spent: dict[str, list[tuple[float, float]]], what: str, work: Callable[[], Any]) -> None:
    """Note what `work` takes by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    spent.setdefault(what, []).append((time.perf_counter() - clock, time.process_time() - processor))


def saves(root: Path) -> None:
    """`memory_save` beside 10,000 facts: the save, the index that follows it, and a bare write of the same bytes."""
    tools = Tools(root, {"encoder": None}, log=False)
    tools.memory_search("погода")
    chance = random.Random(0)
    spent: dict[str, list[tuple[float, float]]] = {}
    for _ in range(20):
        text = f"Обсуждали {words(chance)}."
        clocked(spent, "save one fact beside 10,000, with its policies", partial(tools.memory_save, text, "u1"))
        clocked(spent, "  the search index after it", partial(tools.memory_search, text))
        clocked(spent, "  a search, as part of that", partial(tools.memory_search, text))
        held = {f"users/u1/{name}": (root / f"users/u1/{name}").read_bytes() for name in ("archive.md", "meta.json")}
        clocked(spent, "  a bare write of the same bytes", partial(bare, root, held))
        clocked(spent, "  the same, made to last", partial(bare, root, held, sync=True))
    for what, times in spent.items():
        (clock, least), (processor, _) = ((statistics.median(part), min(part)) for part in zip(*times, strict=True))
        print(f"{what:<60}{clock:8.4f} s, at best {least:.4f}, of the processor {processor:.4f} (20 turns)")


def words(chance: random.Random, n: int = 5) -> str:
    """A text that is like no other."""
    return " ".join("".join(chance.choices("абвгдежзиклмнопрст", k=7)) for _ in range(n))


def archive(root: Path) -> Path:
    """20 users with 490 archive facts each, under the document's limit."""
    chance = random.Random(1)
    for user in range(20):
        lines = [f"- [id:ar_{n:03d}] [t:archive] [imp:low] Обсуждали {words(chance)}\n" for n in range(1, 491)]
        counts = '{"version": 2, "profileCount": 0, "workingCount": 0, "archiveCount": 490}\n'
        mk.write_files(root, {f"users/u{user}/archive.md": "".join(lines), f"users/u{user}/meta.json": counts})
    return root


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
        saves(archive(place / "few"))
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
