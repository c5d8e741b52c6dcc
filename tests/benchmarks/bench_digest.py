"""What a digest says of a folder, to be read and judged by hand, and the processor time of one over many memories.

``python tests/benchmarks/bench_digest.py [FOLDER]``: every decision month by month, and every name as if all were new,
of ``data/`` or another folder; then the time over notes that are made on the spot.
"""

from __future__ import annotations

import sys
import time
from datetime import date, timedelta
from pathlib import Path

import memkit as mk
from memkit.explore.digest.names import new_names
from memkit.text.sentences import sentences_of

ROOT = Path(__file__).parents[2]
SIZES = (1_000, 10_000, 50_000)


def read_by_hand(folder: Path) -> None:
    """Print what is found in a folder, for a person who judges it."""
    corpus = mk.read(folder)
    days = [moment.date() for moment in corpus.memories["created_at"].to_pylist() if moment]
    month = min(days).replace(day=1)
    while month <= max(days):
        following = (month + timedelta(31)).replace(day=1)
        digest = mk.digest(corpus, since=month, until=following - timedelta(1), basis="dates")
        for row in digest.tables["decisions"].to_pylist():
            print(f"{month:%Y-%m}  {row['text'][:160]}")
        month = following
    sentences = [(s.text, s.is_heading) for text in corpus.memories["text"].to_pylist() for s in sentences_of(text)]
    names = new_names(sentences, list)
    print(f"{len(names)} names:", "; ".join(f"{name.spelling} {name.count}" for name in names))


def time_of(count: int) -> float:
    """Processor time of a digest of a week over so many memories of four years, of which one in 200 is new."""
    sys.path.insert(0, str(Path(__file__).parent))
    from generate import notes

    first = date(2022, 3, 1)
    dates = [(first + timedelta(place * 1460 // count)).isoformat() for place in range(count)]
    corpus = mk.from_table({"text": notes(count, chars=400), "created_at": dates})
    until = dates[-1]
    mk.digest(mk.from_table({"text": ["чай"]}), since="7d", until=until)  # imports are no part of it
    start = time.process_time()
    mk.digest(corpus, since="7d", until=until)
    return time.process_time() - start


BY_HAND = "it takes minutes, and has no smaller size"


if __name__ == "__main__":
    read_by_hand(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data")
    for size in SIZES:
        print(f"{size:,} memories: {time_of(size):.2f} s")
