"""What a digest says of a folder, to be read and judged by hand, and the processor time of one over many memories.

``python tests/benchmarks/bench_digest.py [FOLDER]``: every decision month by month, and every name as if all were new,
of ``data/`` or another folder; then the time over notes like life, which `life.py` makes of ``data/``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import life

import memkit as mk
from memkit.explore.digest.names import new_names
from memkit.text.sentences import sentences_of

ROOT = Path(__file__).parents[2]
SIZES = (1_000, 10_000)


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


def time_of(count: int) -> str:
    """Processor time of a digest of so many notes, all of them new, and what that is for each megabyte of texts."""
    with tempfile.TemporaryDirectory() as folder:
        life.write(Path(folder), count)
        corpus = mk.read(folder)
    size = sum(len(text.encode()) for text in corpus.memories["text"].to_pylist()) / 1e6
    mk.digest(mk.from_table({"text": ["чай"]}), since="7d", until="2030-01-01")  # imports are no part of it
    start = time.process_time()
    mk.digest(corpus, since="2010-01-01", until="2030-01-01", basis="dates")
    seconds = time.process_time() - start
    return f"{size:.1f} MB, {seconds:.2f} s, {seconds / size:.2f} s a megabyte"


BY_HAND = "it takes minutes, and has no smaller size"


if __name__ == "__main__":
    read_by_hand(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data")
    for size in SIZES:
        print(f"{size:,} notes: {time_of(size)}")
