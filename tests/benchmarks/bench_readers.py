"""Reading notes beside python-frontmatter, refreshing beside a bare stat pass, and memory beside the text read.

    python tests/benchmarks/bench_readers.py [--notes 100000] [--folder KEPT] [--repeat 3] [--text]

Every run is a process of its own with its imports done; the sides take turns, so that a busy machine is busy for all of
them, and the files are in the page cache before the first. Wall seconds are medians; the processor's seconds stand
beside them, as those hardly grow on a busy machine. A pool of two counts its start. Refreshing and the bare stat passes
take turns within one process. Memory is the peak of the resident set over that of a process that only imports.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import generate

DATA = Path(__file__).resolve().parents[2] / "data"
START = datetime(2024, 1, 1, tzinfo=UTC)
MIB = 2**20
REFRESHES = 9
CODE = "```python\npool = connect(size=10, timeout=2.5)\n```"


LAYOUTS = {
    "block": ("{0}", "\n  - ", "\n  - ", ""),
    "quoted": ('"{0}"', '\n- "', '"\n- "', '"'),
    "brackets": ("{0}", " [", ", ", "]"),
}
"""How a tool writes a scalar, and what opens, joins and closes its keywords; the first is the format's document's."""


def write_notes(folder: Path, count: int, layout: str = "block") -> int:
    """`count` notes, every other one Russian, the same in each run; the bytes written."""
    rng = random.Random(count)
    words = {language: generate.vocabulary(language, 2_000).tolist() for language in ("ru", "en")}
    size = 0
    for row in range(count):
        vocabulary = words["en" if row % 2 else "ru"]
        name = str(UUID(int=rng.getrandbits(128), version=4))
        path = folder / name[:2] / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        size += path.write_bytes(_note(name, vocabulary, rng, layout).encode())
    return size


def _note(name: str, words: list[str], rng: random.Random, layout: str) -> str:
    """One note with every field that the format's document asks for."""
    scalar, opening, joiner, closing = LAYOUTS[layout]
    created = START + timedelta(minutes=rng.randrange(10**6))
    updated = created + timedelta(hours=rng.randrange(99))
    stamps = [moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (created, updated)]
    title = " ".join(rng.choices(words, k=rng.randint(3, 8))).capitalize()
    keywords = f"{opening}{joiner.join(rng.sample(words, rng.randint(3, 7)))}{closing}"
    scope = rng.choice(("global", f"area:{rng.choice(words)}", f"file:src/{rng.choice(words)}.py"))
    values = {"id": name, "subject": title, "applies_to": scope, "created_at": stamps[0], "updated_at": stamps[1]}
    lines = {key: f"{key}: {scalar.format(value)}" for key, value in values.items()}
    id_line, subject, *rest = lines.values()
    head = "\n".join((id_line, subject, f"keywords:{keywords}", *rest))
    return f"---\n{head}\n---\n\n# {title}\n\n{_body(words, rng)}\n"


def _body(words: list[str], rng: random.Random) -> str:
    """Paragraphs and lists of 200 to 3000 characters in all, a fifth of them with a code block."""
    length = rng.randint(200, 3_000)
    blocks = [CODE] if rng.random() < 0.2 else []
    while (room := length - sum(len(block) + 2 for block in blocks)) > 0:
        text = " ".join(rng.choices(words, k=rng.randint(20, 60))).capitalize()[: max(room, 8)]
        blocks.append(text.replace(" ", "\n- ", 3) if rng.random() < 0.2 else f"{text}.")
    rng.shuffle(blocks)
    return "\n\n".join(blocks)


# What runs in a process of its own.


def note_files(folder: Path) -> list[str]:
    """Every file below `folder`, which is also what puts the listing into the cache."""
    return [f"{top}/{name}" for top, _, names in os.walk(folder) for name in names]


def parse_frontmatter(folder: Path) -> dict[str, float]:
    """python-frontmatter on each file, nothing kept."""
    import frontmatter

    files = note_files(folder)
    with timed() as result:
        for path in files:
            frontmatter.load(path)
    return result


def read_memkit(folder: Path, n_jobs: int = 1) -> dict[str, float]:
    """`memkit.read` of the folder, listing and linking included."""
    import_memkit(folder)
    from memkit import read

    with timed() as result:
        corpus = read(folder, n_jobs=n_jobs)
    return {**result, "memories": corpus.memories.num_rows, "problems": corpus.problems.num_rows}


def import_memkit(folder: Path) -> dict[str, float]:
    """Nothing but the imports, for what they take of memory."""
    import pyarrow as pa

    from memkit import read  # noqa: F401 - the import is what is measured

    pa.array([])  # imports pandas
    return {}


def refresh(folder: Path, with_text: bool = False) -> dict[str, float]:
    """One changed file a refresh, in turns with both stat passes; seconds of each."""
    from memkit import read

    corpus = read(folder)
    files = note_files(folder)
    times_of: dict[str, list[float]] = {"scandir": [], "walk": [], "refresh": [], "unchanged": []}
    for turn in range(REFRESHES):
        times_of["scandir"].append(_seconds(lambda: stat_scandir(str(folder))))
        times_of["walk"].append(_seconds(lambda: stat_walk(str(folder))))
        times_of["unchanged"].append(_seconds(corpus.refresh))
        with Path(files[turn * len(files) // REFRESHES]).open("a", encoding="utf-8") as file:
            file.write(f"Changed {turn}.\n")
        before = corpus
        started = time.perf_counter()
        corpus = before.refresh()
        times_of["refresh"].append(time.perf_counter() - started)
        if corpus.memories.equals(before.memories):
            raise RuntimeError("the refresh missed a change")
    result = {name: statistics.median(times) for name, times in times_of.items()}
    return {**result, "tables": _seconds(lambda: corpus.sql("select 1")), **_text(corpus, with_text)}


def _text(corpus: Any, wanted: bool) -> dict[str, float]:
    return {"text": _seconds(corpus.connect)} if wanted else {}


def stat_scandir(folder: str) -> int:
    """os.scandir and a stat of each file; the sum of sizes."""
    size, folders = 0, [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def stat_walk(folder: str) -> int:
    """os.walk and os.stat of each file; the sum of sizes."""
    files = (os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)  # noqa: PTH118 - see next
    return sum(os.stat(path).st_size for path in files)  # noqa: PTH116 - the pass is to be as bare as it can be


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Wall seconds and the processor's, ended processes included."""
    result: dict[str, float] = {}
    started, before = time.perf_counter(), os.times()
    yield result
    result["wall"] = time.perf_counter() - started
    result["cpu"] = sum(os.times()[:4]) - sum(before[:4])


SIDES: dict[str, Callable[[Path], dict[str, float]]] = {
    "python-frontmatter": parse_frontmatter,
    "memkit, 1 process": read_memkit,
    "memkit, 2 processes": lambda folder: read_memkit(folder, n_jobs=2),
    "import": import_memkit,
    "refresh": refresh,
    "refresh and text": lambda folder: refresh(folder, with_text=True),
}


def run_side(name: str, folder: Path) -> dict[str, float]:
    """The figures of one side, from a process of its own, with its peak memory in bytes."""
    command = [sys.executable, __file__, "--side", name, "--folder", str(folder)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return {str(key): float(value) for key, value in json.loads(process.stdout).items()}


def _print_side(name: str, folder: Path) -> None:
    result = SIDES[name](folder)
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps({**result, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}))


# Tables.


def compare(folder: Path, size: int, repeat: int) -> list[float]:
    """Print the readers side by side; wall seconds of each."""
    readers = list(SIDES)[:3]
    files = note_files(folder)
    for path in files:
        Path(path).read_bytes()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in readers}
    for _ in range(repeat):
        for name in readers:
            runs[name].append(run_side(name, folder))
    base = run_side("import", folder)["peak"]
    print(f"\n{len(files):,} files, {size / MIB:.1f} MiB")
    heads = f"{'wall s':>9}{'cpu s':>9}{'us/file':>9}{'wall x':>9}{'cpu x':>9}{'peak MiB':>10}{'peak / text':>13}"
    print(f"{'reader':22}{heads}")
    first: dict[str, float] = {}
    walls = []
    for name in readers:
        middle = {key: statistics.median(run[key] for run in runs[name]) for key in ("wall", "cpu", "peak")}
        first = first or middle
        peak = max(0.0, middle["peak"] - base)
        against = f"{first['wall'] / middle['wall']:9.2f}{first['cpu'] / max(middle['cpu'], 0.01):9.2f}"
        memory = f"{peak / MIB:10.1f}{peak / size:13.2f}" if "memkit" in name else ""
        per_file = middle["wall"] / len(files) * 1e6
        print(f"{name:22}{middle['wall']:9.3f}{middle['cpu']:9.3f}{per_file:9.1f}{against}{memory}")
        walls.append(middle["wall"])
    return walls


def report_refresh(folder: Path, with_text: bool) -> float:
    """Print refreshes beside the stat passes; seconds of a refresh after a change."""
    seconds_of = run_side("refresh and text" if with_text else "refresh", folder)
    print(f"{'refresh':32}{'ms':>9}{'x scandir':>11}{'x walk':>9}")
    names = {
        "scandir": "scandir + stat",
        "walk": "walk + stat",
        "unchanged": "refresh, nothing changed",
        "refresh": "refresh, one file changed",
        "tables": "then: tables into DuckDB",
        "text": "then: full-text index made again",
    }
    for key, name in names.items():
        if key in seconds_of:
            against = f"{seconds_of[key] / seconds_of['scandir']:11.2f}{seconds_of[key] / seconds_of['walk']:9.2f}"
            print(f"{name:32}{seconds_of[key] * 1000:9.1f}{against}")
    return seconds_of["refresh"]


def main() -> None:
    """Measure the sizes asked for, or one side in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=100_000, help="the largest size; a tenth and a hundredth run too")
    parser.add_argument("--folder", type=Path, help="where the notes go, and stay")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--text", action="store_true", help="time the full-text index after a refresh too")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        _print_side(options.side, options.folder)
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("python-frontmatter", "PyYAML", "pyarrow", "duckdb", "xxhash")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}")
    print(versions)
    with tempfile.TemporaryDirectory() as temporary:
        measure(options.folder or Path(temporary), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Every size, then how the times grow, then the data that memkit ships."""
    sizes = sorted({max(10, options.notes // part) for part in (100, 10, 1)})
    growth = []
    for count in sizes:
        place = folder / str(count)
        if not place.exists():
            write_notes(place, count)
        size = stat_scandir(str(place))
        growth.append((*compare(place, size, options.repeat), report_refresh(place, options.text)))
    print("\nmicroseconds a file, by size")
    for name, times in zip([*list(SIDES)[:3], "refresh"], zip(*growth, strict=True), strict=True):
        each = (seconds / count * 1e6 for count, seconds in zip(sizes, times, strict=True))
        print(f"{name:22}" + "".join(f"{figure:9.1f}" for figure in each))
    for layout in list(LAYOUTS)[1:]:
        print(f"\nanother layout: {layout}", end="")
        count = sizes[len(sizes) // 2]
        place = folder / f"{layout}-{count}"
        if not place.exists():
            write_notes(place, count, layout)
        compare(place, stat_scandir(str(place)), options.repeat)
    whole = run_side("memkit, 1 process", DATA)
    print(f"\ndata/: {whole['memories']:.0f} memories, {whole['problems']:.0f} problems in {whole['wall']:.3f} s")


if __name__ == "__main__":
    main()
