"""What changing files costs, beside a bare write of the same bytes: ``python tests/benchmarks/bench_change.py``."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memkit as mk

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


def bare(root: Path, files: dict[str, bytes]) -> None:
    """The same bytes by plain writes."""
    for path, data in files.items():
        (root / path).write_bytes(data)


def main() -> None:
    """Plan over 100,000 memories, apply 1,000 edits, save one fact beside 10,000."""
    place = Path(tempfile.mkdtemp())
    try:
        root = make(place / "many", USERS)
        corpus = timed(f"read {USERS * FACTS:,} memories", lambda: mk.read(root))
        edits = timed("plan their expiry", lambda: mk.plan(corpus, mk.Expiry(), as_of="2026-03-01"))
        some = edits.filter("edit <= 1000")
        timed(f"apply {len(some):,} edits of {len(set(some.table['path'].to_pylist()))} files", some.apply)
        after = {path: (root / path).read_bytes() for path in set(some.table["path"].to_pylist())}
        timed("  a bare write of the same bytes", lambda: bare(root, after))
        timed("undo", lambda: mk.undo(root))
        facts = mk.store(make(place / "few", 20)).facts
        facts.save("u0", "Обсуждали погоду на море осенью.", now="2026-03-01")
        timed(
            "save one fact beside 10,000, with its policies",
            lambda: facts.save("u1", "Обсуждали погоду на море.", now="2026-03-01"),
        )
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
