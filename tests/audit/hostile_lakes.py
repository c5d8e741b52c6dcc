"""Forges lakes at random and uses them as a victim would: ``python tests/audit/hostile_lakes.py [N] [seed]``.

Most forgeries are signed again, as an attacker can. Using one must work or raise one of memkit's own errors, whatever
is wrong, and never show or move a file beside the lake. Where nothing but arrays of the arms is damaged, and not
signed, the answers are those of the lake as it was. The seed of each lake is printed before it is used.
"""

from __future__ import annotations

import faulthandler
import json
import random
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import memkit as mk
from memkit.base.hashes import digest_of_path
from memkit.tables.samples import write_files

SECRET = "canary of a neighbour"
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    2**70,
    1e308,
    "",
    "..",
    "/etc/passwd",
    "a\0b",
    "\ud800",
    [],
    {},
    [[]],
    "x" * 99,
]
TYPES = [pa.string(), pa.int64(), pa.binary(), pa.float64(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string())]


def flip(lake: Path, chance: random.Random) -> str:
    """Change some bytes of any file."""
    path = chance.choice([path for path in sorted(lake.rglob("*")) if path.is_file() and path.stat().st_size])
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 2, 8])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data if chance.random() < 0.8 else data[: chance.randrange(len(data))])
    return f"bytes of {path.relative_to(lake)}"


def value(lake: Path, chance: random.Random) -> str:
    """Put an odd value somewhere into a JSON file."""
    path = chance.choice(sorted(lake.rglob("*.json")))
    document = node = json.loads(path.read_text())
    while True:
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[key], dict | list) or not node[key] or chance.random() < 0.3:
            break
        node = node[key]
    node[key] = chance.choice(VALUES)
    path.write_text(json.dumps(document))
    return f"{path.name}: {key} = {node[key]!r:.40}"


def column(lake: Path, chance: random.Random) -> str:
    """Drop, double, null, retype or reorder a column of any table."""
    path = chance.choice(sorted(lake.rglob("*.parquet")))
    table = pq.read_table(path)
    place = chance.randrange(table.num_columns)
    name, nulls = table.column_names[place], pa.nulls(table.num_rows, chance.choice(TYPES))
    changes: dict[str, Callable[[], pa.Table]] = {
        "dropped": lambda: table.drop_columns([name]),
        "twice": lambda: table.append_column(name, table[name]),
        "nulls": lambda: table.set_column(place, name, nulls),
        "rows doubled": lambda: pa.concat_tables([table, table]),
        "no rows": lambda: table.slice(0, 0),
        "rows reversed": lambda: table.take(np.arange(table.num_rows)[::-1]),
        "shuffled": lambda: table.select(chance.sample(table.column_names, table.num_columns)),
    }
    how = chance.choice(list(changes))
    pq.write_table(changes[how](), path)
    return f"{path.relative_to(lake)}: {name} {how}"


def array(lake: Path, chance: random.Random) -> str:
    """Change the type, the shape, the values or the header of an array of any arm."""
    path = chance.choice(sorted(lake.rglob("*.npy")))
    values = np.load(path)
    most = np.iinfo(values.dtype).max if values.dtype.kind in "iu" else np.nan
    kind = chance.choice([np.int8, np.uint16, np.int64, np.float16, np.float32, np.complex64, object, "S3", "V2"])
    with np.errstate(all="ignore"):
        changes: dict[str, Any] = {
            str(kind): np.zeros(values.shape, kind) if kind == "V2" else values.astype(kind),
            "most": np.full_like(values, most),
            "zeros": values * 0,
            "reversed": values[::-1],
            "shifted": np.roll(values, 1, axis=0),
            "cut": values[: len(values) // 2],
            "twice": np.concatenate([values, values]),
            "flat": values.ravel(),
            "turned": np.asfortranarray(np.concatenate([values, values], axis=1)),
            "none": values[:0],
        }
    how = chance.choice([*changes, "header"])
    if how == "header":
        length = chance.choice([b"9" * 6, b"9" * 18, b"-1", b"True", b"1e9", b"(2, 2)"])
        path.write_bytes(path.read_bytes().replace(b"'shape': (%d" % len(values), b"'shape': (" + length))
    else:
        np.save(path, changes[how], allow_pickle=True)
    return f"{path.relative_to(lake)}: {how}"


def link(lake: Path, chance: random.Random) -> str:
    """Put a link to the victim in the place of a file or folder, or beside them."""
    path = chance.choice([*sorted(lake.rglob("*")), lake / ".memkit-lock", lake / ".saving-x"])
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(lake.parent / "victim" / chance.choice(["", "secret.md"]))
    return f"link {path.relative_to(lake)}"


def unfinished(lake: Path, chance: random.Random) -> str:
    """Leave a save behind that is odd in its own way."""
    other = lake / f"saved-{chance.randrange(16**32):032x}"
    shutil.copytree(next(lake.glob("saved-*")), other, symlinks=True)
    if chance.random() < 0.5:
        (lake / "memkit.json").write_text(json.dumps({"save": other.name}))
    return "unfinished: " + chance.choice([flip, value, column])(other, chance)


WAYS = [flip, value, value, column, column, array, array, link, unfinished]


def sign(lake: Path) -> None:
    """Give every file that a manifest names its hash, where the manifest still has that form."""
    for manifest in [*lake.rglob("retriever.json"), *lake.rglob("manifest.json")]:  # the second names the first
        try:
            document = json.loads(manifest.read_text())
            for name in document["files"]:
                is_quick = manifest.name == "retriever.json" or name.startswith(("vectors/", "rows/"))
                document["files"][name] = digest_of_path(manifest.parent / name, quick=is_quick)
            manifest.write_text(json.dumps(document))
        except (OSError, ValueError, KeyError, TypeError):
            pass


def use(lake: Path) -> str:
    """All that a victim does with a lake, as one text."""
    corpus = mk.open(lake)
    outputs = [corpus.sql("from memories").fetchall(), corpus.sql("from fts('пул canary', k := 50)").fetchall()]
    outputs += [corpus.sql("select match_bm25(memory_id, 'пул') from memories").fetchall()]
    search = mk.Retriever(encoder="hash").fit(corpus)
    outputs += [search.search(["пул", "canary"]).to_pylist(), search.trace("пул").to_pylist()]
    search.corpus_.save(lake.parent / "copy")
    return str(outputs)


def main(n: int = 200, seed: int = 0) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore", RuntimeWarning)
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as name:
        home = Path(name)
        corpus = mk.read(write_files(home / "source", {"a.md": "# пул соединений\nдесять\n", "b.md": "# чай\n"}))
        mk.Retriever(encoder="hash").fit(corpus).corpus_.save(home / "template")
        expected = use(home / "template")
        for number in range(seed, seed + n):
            chance, place = random.Random(number), home / "one"
            write_files(place / "victim", {"secret.md": SECRET, "memories.parquet": SECRET})
            shutil.copytree(home / "template", place / "lake")
            some = [chance.choice(WAYS) for _ in range(chance.choice([1, 1, 2]))]
            ways = [way(place / "lake", chance) for way in some]
            is_signed = chance.random() < 0.7
            if is_signed:
                sign(place / "lake")
            print(number, *ways, "signed" if is_signed else "not signed", sep="; ", flush=True)
            try:
                shown = use(place / "lake")
                counts["used"] += 1
            except mk.MemkitError as error:
                shown = ""
                counts[type(error).__name__] += 1
            assert SECRET not in shown
            assert is_signed or {*some} != {array} or shown == expected
            assert {path.name for path in (place / "victim").iterdir()} == {"secret.md", "memories.parquet"}
            shutil.rmtree(place)
    print(dict(counts))


TINY = "2"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
