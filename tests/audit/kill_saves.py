"""Kills `Corpus.save` at random points and looks at what is left: ``python tests/audit/kill_saves.py [N] [seed]``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import memkit as mk

WORDS = {"old": "старый", "new": "новый"}
ROWS = 50
# Forks a saver for each line of its input: which corpus, where to, before which step of the file system it dies by
# itself, and after how many seconds it is killed. Says how it ended: its count of steps, or minus the signal.
SERVER = f"""
import json, os, signal, sys, time
import memkit as mk

def corpus_of(word):
    return mk.from_table({{"text": [f"{{word}} текст {{n}}" for n in range({ROWS})]}})

corpora = {{name: corpus_of(word) for name, word in {WORDS}.items()}}
steps = 0

def count(last):
    def hook(event, args):
        global steps
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
            steps += 1
    return hook

for line in sys.stdin:
    name, folder, last, seconds = json.loads(line)
    child = os.fork()
    if not child:
        sys.addaudithook(count(last))
        corpora[name].save(folder)
        os._exit(steps)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Saver:
    """A process that saves one of two corpora, over and over, each time by a child that may be killed."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", SERVER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def save(self, name: str, folder: Path, step: int = -1, seconds: float | None = None) -> int:
        """The number of steps, or -9 where it was killed before `step` or after `seconds`."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([name, str(folder), step, seconds]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def what_is_there(folder: Path) -> str:
    """Which of the two corpora a lake holds, all of it; anything else is an error, and so is what a dead saver left."""
    corpus = mk.open(folder)
    texts = corpus.memories["text"].to_pylist()
    name = next(name for name, word in WORDS.items() if word in texts[0])
    assert sorted(texts) == sorted(f"{WORDS[name]} текст {n}" for n in range(ROWS))
    for other, word in WORDS.items():
        counts = corpus.sql("select count(*) from fts(?, k := 100)", [word]).fetchall()
        assert counts == [(ROWS if other == name else 0,)]
    (save,) = folder.glob("saved-*")
    assert {path.name for path in folder.iterdir()} <= {".memkit-lock", "memkit.json", "corpus.duckdb", save.name}
    return name


def kills(folder: Path, n: int, seed: int) -> Iterator[tuple[int, str, str, str]]:
    """Of each of `n` saves: how it ended, what was there, what was to come, and what is there now."""
    chance = random.Random(seed)
    saver = Saver()
    saver.save("old", folder)
    start = time.monotonic()
    steps = saver.save("old", folder)
    seconds = time.monotonic() - start
    before = "old"
    for _ in range(n):
        name = "new" if before == "old" else "old"
        if chance.random() < 0.5:
            ended = saver.save(name, folder, step=chance.randrange(steps))
        else:
            ended = saver.save(name, folder, seconds=chance.uniform(0, seconds))
        after = what_is_there(folder)
        yield ended, before, name, after
        before = after
    saver.close()


def main(n: int = 1000, seed: int = 0) -> None:
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        for ended, before, name, after in kills(Path(folder) / "lake", n, seed):
            assert after in (before, name)
            counts["ended" if ended >= 0 else f"killed, {'the new' if after == name else 'the old'} is there"] += 1
    print(dict(counts))


TINY = "2"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
