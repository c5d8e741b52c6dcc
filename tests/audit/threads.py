"""Eight threads ask one corpus at once, first calls and later ones: no failure, and equal results.

``python tests/audit/threads.py --rounds 20 --calls 1000`` makes 20 corpora of its own and asks each 8 x 1,000 times;
``--fresh 30 --calls 8`` does each in a process of its own, where the first call is the first of all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import memkit as mk

THREADS, DISTINCT = 8, 320
AS_OF = "2026-03-01"
QUERIES = ["пул соединений", "release notes", "東京", "память e4021", "snake_case", "чай и кофе", "", "ёлка"]


def calls(search: mk.Retriever, corpus: mk.Corpus) -> list[Callable[[int], Any]]:
    """What each thread asks in turn; a number tells one call from another, so that words are new."""
    admission = mk.Pipeline([mk.Admission(), mk.Classifier(), mk.Expiry(), mk.Quota(max_facts=5)])
    return [
        lambda n: search.search(f"{QUERIES[n % 8]} новое{n}", k=5, as_of=AS_OF).to_pylist(),
        lambda n: search.search(QUERIES, k=3, where=f"user_id = 'u{n % 3}'", as_of=AS_OF).to_pylist(),
        lambda n: corpus.sql("select memory_id from fts(?, k := 5)", [f"{QUERIES[n % 8]} слово{n}"]).fetchall(),
        lambda n: search.trace(QUERIES[n % 8], where="text like '%чай%'", as_of=AS_OF).to_pylist(),
        lambda n: admission.transform(corpus, AS_OF)["reason"].to_pylist(),
        lambda n: mk.Decay().transform(corpus, AS_OF)["factor"].to_pylist(),
        lambda n: corpus.named("stale_memories", AS_OF).fetchall(),
        lambda n: mk.ContextBuilder(retriever=search).build(corpus, f"u{n % 3}", QUERIES[n % 8], as_of=AS_OF).text,
    ]


def corpus(rows: int = 60) -> mk.Corpus:
    """Facts of three users, in several scripts."""
    return mk.from_table(
        {
            "text": [f"{QUERIES[n % 6]} номер {n} слово{n * 7 % 50}" for n in range(rows)],
            "user_id": [f"u{n % 3}" for n in range(rows)],
            "kind": [("archive", "profile", "working")[n % 3] for n in range(rows)],
            "importance": ["normal"] * rows,
            "created_at": [f"2026-0{1 + n % 2}-1{n % 10}" for n in range(rows)],
            "expires_at": [None, "2026-02-01"] * (rows // 2),
        }
    )


def ask_all(encoder: Any, count: int) -> None:
    """One fresh corpus, asked by all threads at once; what each hears is what a thread alone hears of another.

    Raises
    ------
    AssertionError
    """
    shared, start = corpus(), Barrier(THREADS)
    every = calls(mk.Retriever(encoder=encoder).fit(shared), shared)

    def ask(thread: int) -> dict[int, Any]:
        heard: dict[int, Any] = {}
        start.wait()
        for n in ((n + thread) % min(count, DISTINCT) for n in range(count)):
            answer = every[n % len(every)](n)
            assert heard.setdefault(n, answer) == answer, f"call {n} of thread {thread}"
        return heard

    with ThreadPoolExecutor(THREADS) as pool:
        heard = list(pool.map(ask, range(THREADS)))
    alone = corpus()
    one = calls(mk.Retriever(encoder=encoder).fit(alone), alone)
    expected = {n: one[n % len(one)](n) for n in range(min(count, DISTINCT))}
    assert heard == [expected] * THREADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000, help="of each thread")
    parser.add_argument("--encoder", default="hash")
    parser.add_argument("--fresh", type=int, default=0, help="processes, one after the other, of one round each")
    options = parser.parse_args()
    if options.fresh:
        again = [sys.executable, __file__, "--rounds", "1", "--calls", str(options.calls), "--encoder", options.encoder]
        failed = sum(subprocess.run(again, check=False).returncode != 0 for _ in range(options.fresh))
        sys.exit(f"{failed} of {options.fresh} processes failed" if failed else 0)
    for number in range(options.rounds):
        ask_all(options.encoder, options.calls)
        print(f"round {number + 1}: {THREADS} x {options.calls} calls, no failure, equal results", flush=True)


TINY = "--rounds 1 --calls 5"


if __name__ == "__main__":
    main()
