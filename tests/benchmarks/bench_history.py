"""What a revision and a whole history take, on repositories made on the spot; processor time, and memory in a process.

``python tests/benchmarks/bench_history.py``: a revision of 1,000 files against a plain read of the same folder; the
history of 2,000 commits with 20,000 versions of sections; a repository whose few hundred bytes are 10^8 paths.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from types import ModuleType

from bench_panels import module

import memkit as mk

ROUNDS = 7
WORDS = ["пул", "соединений", "релиз", "откат", "журнал", "pool", "release", "retry", "token", "trace", "backup"]


def say(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 25)) + f" {number}."


def log(day: int, sections: int) -> str:
    entries = (f"## {hour:02d}:00 Дело {day}\n{say(day + hour)}\n\n{say(day * hour)}\n" for hour in range(sections))
    return f"# Лог\n\n{''.join(entries)}"


def spent(work: Callable[[], object]) -> float:
    """Seconds of this process and of git together, the least of some rounds."""
    totals = []
    for _ in range(ROUNDS):
        begin = [time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)]
        work()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        of_process = time.process_time() - begin[0]
        totals.append(of_process + children.ru_utime + children.ru_stime - begin[1].ru_utime - begin[1].ru_stime)
    return min(totals)


def revision(place: Path, repositories: ModuleType) -> None:
    files = {f"memory/{day:04d}.md": log(day, 4) for day in range(600)}
    facts = "".join(f"- [id:ar_{number}] [t:archive] [imp:low] {say(number)}\n" for number in range(9))
    files |= {f"users/u{number}/archive.md": facts for number in range(100)}
    head = "subject: Пул\nkeywords: [чай]\napplies_to: global\ncreated_at: 2026-01-01\nupdated_at: 2026-01-01"
    note = "---\nid: {:08d}-0000-4000-8000-000000000000\n" + head + "\n---\n\n{}\n"
    files |= {
        f"notes/{number:08d}-0000-4000-8000-000000000000.md": note.format(number, say(number)) for number in range(300)
    }
    repositories.build(place, [files])
    repositories.git(place, "gc", "--quiet")
    plain, of_git = spent(lambda: mk.read(place)), spent(lambda: mk.read(place, rev="HEAD"))
    print(f"1,000 files: read {plain * 1000:.0f} ms, revision {of_git * 1000:.0f} ms, {of_git / plain:.2f} times")


def whole(place: Path, repositories: ModuleType) -> None:
    steps, day = [{"MEMORY.md": log(0, 20)}], 0
    while len(steps) < 2000:
        day += 1
        name = f"memory/{day // 300}/{day:04d}.md"
        steps += [{name: log(day, 24)}, {name: log(day, 27)}]
        steps += [{"MEMORY.md": log(0, 20).replace("релиз", f"релиз{day}", 1 + day % 5)}]
    repositories.build(place, steps[:2000])
    repositories.git(place, "gc", "--quiet")
    script = (
        "import resource, sys, time; import memkit as mk; mk.read(sys.argv[1]); mk.history\n"
        "a = time.perf_counter(); b = time.process_time(); found = mk.history(sys.argv[1])\n"
        "print(f'{len(found.commits):,} commits, {len(found.versions):,} versions: {time.perf_counter() - a:.2f} s,'\n"
        "      f' {time.process_time() - b:.2f} s of this process,'\n"
        "      f' {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most')"
    )
    subprocess.run([sys.executable, "-c", script, str(place)], check=True)


def store(root: Path, kind: str, data: bytes) -> bytes:
    whole = f"{kind} {len(data)}\0".encode() + data
    id = sha1(whole)
    path = root / ".git/objects" / id.hexdigest()[:2] / id.hexdigest()[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return id.digest()


def bomb(place: Path, repositories: ModuleType) -> None:
    repositories.git(place.parent, "init", "--quiet", "--initial-branch=main", str(place))
    who, commits = "a <a> 1767225600 +0000", []
    id = store(place, "blob", b"# x\n")
    for mode in (b"100644", *[b"40000"] * 7):
        id = store(place, "tree", b"".join(mode + b" %d.md\0" % number + id for number in range(10)))
    small = store(place, "tree", b"")
    for tree in (small, id, small):
        parent = f"parent {commits[-1].hex()}\n" if commits else ""
        commits.append(
            store(place, "commit", f"tree {tree.hex()}\n{parent}author {who}\ncommitter {who}\n\nx".encode())
        )
    (place / ".git/refs/heads/main").write_text(commits[-1].hex())
    for label, work in (
        ("read", lambda: mk.read(place, rev=commits[1].hex())),
        ("history to it", lambda: mk.history(place, rev=commits[1].hex())),
        ("history over it", lambda: mk.history(place)),
    ):
        begin = time.perf_counter()
        corpus = work()
        most, mib = (
            resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)
        )
        print(
            f"10^8 paths, {label}: {time.perf_counter() - begin:.1f} s, {corpus.problems['rule'].to_pylist()},"
            f" git had {most:.0f} MB at most, this process {mib:.0f}"
        )


TINY = ""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for each in (revision, whole, bomb):
            each(Path(folder) / each.__name__, module("../repositories.py"))
