"""Peak memory of reading files that are nothing but tiny lines: bytes of memory for each byte of the file.

    python tests/audit/tiny_lines.py [MiB]

Each shape is read in a process of its own; the default, 64 MiB, is the largest file that is read whole. Rows are
handed to Arrow by the ten thousand, so what is left is the table itself: some 180 bytes for a memory and 130 for its
row in a format's own table; problems are listed up to 20,000 of a rule in a file. With two bytes a row the peak is 150
to 260 times the file; a file of usual text takes 2 to 10 times its size.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHAPES = [
    ("MEMORY.md", "", "#\n", ""),
    ("MEMORY.md", "", "x\n", ""),
    ("MEMORY.md", "", "```\n", ""),
    ("sessions/2026-01-01-a.md", "", "ai:\n", ""),
    ("sessions/2026-01-01-a.md", "", "#\n", ""),
    ("HEARTBEAT.md", "", "- [ ]\n", ""),
    ("users/u/profile.md", "", "x\n", ""),
    ("users/u/profile.md", "", "- [t:]\n", ""),
    ("lines.jsonl", '{"fact_id": "a", "content": "b"}\n', "1\n", ""),
    ("lines.jsonl", "", "x\n", ""),
    ("list.json", '[{"fact_id": "a", "content": "b"}', "\n,{}", "]"),
    ("relations.json", '{"fact_id": "a", "content": "b", "relations": [{}', "\n,{}", "]}"),
    ("list.yaml", "- {fact_id: a, content: b}\n", "- \n", ""),
    ("note.md", "---\nid: a\nsubject: b\nkeywords:\n", "- a\n", "---\nbody"),
]


def most() -> int:
    """The peak so far, in KiB; ru_maxrss will not do, as a process inherits it from the one that starts it."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def measure(name: str, before: str, unit: str, after: str, size: int) -> None:
    import memkit as mk

    with tempfile.TemporaryDirectory() as place:
        small, large = Path(place, "small"), Path(place, "large", name)
        small.mkdir()
        (small / "MEMORY.md").write_text("# a\n")
        large.parent.mkdir(parents=True)
        large.write_text(before + unit * (size // len(unit)) + after)
        mk.read(small)  # what every read costs
        usual, start = most(), time.process_time()
        corpus = mk.read(Path(place, "large"), max_file_bytes=2 * size)
        peak = most() - usual
        took = time.process_time() - start
        rows = f"{corpus.memories.num_rows} memories, {corpus.problems.num_rows} problems"
        print(f"{peak * 1024 / size:6.0f} bytes a byte  {took:7.1f} s  {name} {unit!r}: {rows}", flush=True)


BY_HAND = "it fills the memory that it is given, and takes minutes"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure(*json.loads(sys.argv[1]), int(sys.argv[2]))
    else:
        size = int(float(sys.argv[1]) * 2**20) if len(sys.argv) > 1 else 64 * 2**20
        for shape in SHAPES:
            subprocess.run([sys.executable, __file__, json.dumps(shape), str(size)], check=False)
