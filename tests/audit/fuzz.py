"""Hostile folders: nothing may raise, and no word of a text may get lost.

    python tests/audit/fuzz.py [--n 4000] [--seed 0] [--deep] [--keep FOLDER]

Files of every format, and those of data/, get words of their own in each line and value, are broken in one to four ways
(see `BREAKS`), and lie under odd names, beside links, in folders of forty. After `memkit.read`, each of these words
that is still in a file must stand in some column of some table. With ``--deep`` each folder is also searched, judged by
policies, saved, opened and refreshed. What fails is found again with the seed and the number of the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import memkit as mk

FILES_A_FOLDER = 40
WORD = re.compile(r"w\d{3,}w")
AS_OF = "2026-03-01"
ENDINGS = (".md", ".json", ".jsonl", ".yaml", ".yml")

# What is broken.

NOTE = """---
id: 6f1c2a34-5b7d-4e8f-9a0b-1c2d3e4f5a6b
subject: Пул соединений
keywords: [pool, "два слова", 'три']
applies_to: global
created_at: 2026-02-01T10:00:00Z
updated_at: "2026-02-01"
---

# Заголовок
текст
```python
# no heading
```
"""
LOG = "# Daily Log: 2026-02-03\n### 10:30\nтекст\n## Итог\n- [x] дело\n- [ ] ещё\n**[10:00] user**: вопрос\n"
SESSION = "# Session\n**[10:00] user**: привет\n**[10:01] assistant**: ответ\nдальше\nuser: ещё\n"
FACTS = """# Факты
- [id:pf_001] [t:profile] [imp:high] любит чай
- [exp:2026-03-05] [created:2026-01-01] срок
- просто
не факт
"""
PATHWAY = {
    "id": "p1",
    "triggers": ["как", "how"],
    "template": "ответ {x}",
    "tier": "core",
    "usage_stats": {"hits": 3, "success_rate": 0.5, "last_used_at": "2026-01-01T00:00:00Z"},
    "format_version": "1.0.0",
}
ITEM = {"user_id": "u", "input": "вопрос", "response": "ответ", "timestamp": "2026-01-01T00:00:00Z", "tags": ["a", "b"]}
WISDOM = {
    "fact_id": "wisdom.a",
    "content": "чай",
    "category": "c",
    "confidence": 0.5,
    "relations": [{"fact_id": "wisdom.b", "type": "supports", "weight": 1}],
}
ROOT = {"type": "index-root", "branches": [{"category": "b", "path": "b/index.json"}], "about": "дерево"}
BRANCH = {
    "type": "index-branch",
    "category": "b",
    "files": [
        {"title": "Один", "file": "b/one.md", "tags": ["x"], "priority": "high", "updated": "2026-02-01"},
        {"title": "Два", "file": "b/two/index.md", "summary": "части", "pinned": True},
        {"title": "Нет", "file": "b/gone.md", "summary": "нет такого"},
    ],
}
PARTS = "---\ntitle: Два\nparts: [part1.md, part2.md]\n---\n"


def pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


SOURCES = {
    "note.md": NOTE,
    "notes/other.md": NOTE.replace("id:", "key: value\nid:"),
    "MEMORY.md": "# Память\nтекст\n## Ещё\n\n### Пусто\n## Конец\nтекст\n",
    "HEARTBEAT.md": "# Пульс\n- [ ] проверить\n- [x] готово\n",
    "memory/2026-02-03.md": LOG,
    "sessions/2026-02-03-slug.md": SESSION,
    "users/u/profile.md": FACTS,
    "users/u/working.md": FACTS,
    "users/u/archive.md": FACTS,
    "users/u/meta.json": pretty({"version": 2, "profileCount": 3, "workingCount": 1, "archiveCount": 0, "note": "x"}),
    "pathways.json": pretty([PATHWAY, PATHWAY]),
    "items.jsonl": "".join(json.dumps(ITEM, ensure_ascii=False) + "\n" for _ in range(4)),
    "wisdom.yaml": """- fact_id: wisdom.a
  content: чай
  category: c
  confidence: 0.5
  relations:
  - fact_id: b
    type: supports
    weight: 1
- fact_id: wisdom.b
  content: |
    много
    строк
  category: d
""",
    "wrapped.json": pretty({"wisdom_facts": [WISDOM], "items": [ITEM], "about": "всё"}),
    "memory/index.json": pretty(ROOT),
    "memory/b/index.json": pretty(BRANCH),
    "memory/b/one.md": "---\ntitle: Один\n---\nтекст\n",
    "memory/b/two/index.md": PARTS,
    "memory/b/two/part1.md": "один\n",
    "memory/b/two/part2.md": "два\n",
    "old/index.json": pretty([{"path": "a.md", "title": "A", "type": "t", "description": "d"}]),
    "old/a.md": "текст\n",
}


def sources() -> dict[str, str]:
    """The texts above, and those of the sample data with its broken part."""
    data = mk.sample_data()
    paths = [path for path in sorted(data.rglob("*")) if path.suffix in ENDINGS and path.stat().st_size < 50_000]
    return SOURCES | {str(path.relative_to(data)): path.read_bytes().decode("utf-8", "replace") for path in paths}


# The end of each text, but for those that hold a tree together; a name that is followed by a colon stays.
_JSON_TEXT = re.compile(r'("(?:path|file|type)"\s*:\s*"[^"]*")|"(?=\s*[,\]}\n])')


class Marker:
    """Puts a new word into each line of a text, or into each text of a JSON or YAML file."""

    def __init__(self) -> None:
        self.count = 100

    def word(self, *_: object) -> str:
        self.count += 1
        return f"w{self.count}w"

    def __call__(self, name: str, text: str) -> str:
        if name.endswith(".md"):
            return re.sub(r"(?<=[^\s\]\"'-])$", lambda _: f" {self.word()}", text, flags=re.MULTILINE)
        if name.endswith((".json", ".jsonl")):
            return _JSON_TEXT.sub(lambda match: match[1] or f' {self.word()}"', text)
        # A comment is no text of a YAML file.
        return re.sub(r"^(?!\s*#)(.*\w)$", lambda line: f"{line[0]} {self.word()}", text, flags=re.MULTILINE)


# How it is broken. Each takes the bytes and gives others.

Break = Callable[[random.Random, bytes], bytes]
PIECES = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\x85", "\u2028".encode()),
    *(
        b"\n---\n",
        b"\n```\n",
        b"\n~~~~\n",
        b"\n# \n",
        b"\n####### x\n",
        b"---",
        b": ",
        b"- ",
        b"\t",
        b"&a *a",
        b"!!python/x ",
    ),
    *(b'"', b"'", b"\\", b"\\ud800", b"\\u0000", b"{", b"}", b"[", b"]", b",", b"null", b"NaN", b"1e999", b"9" * 400),
    *("\u202e".encode(), "\u0301".encode(), "٣".encode(), "🙂".encode(), "İ".encode(), "ß".encode(), b"\xed\xa0\x80"),
    *(b"[id:", b"[exp:2026-13-45]", b"[created:", b"2026-02-30", b"-1-01-01", b"99999-01-01", b"../../etc/passwd"),
)


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 1 + len(data) // 200)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def cut_out(rng: random.Random, data: bytes) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + data[start + rng.randint(0, 40) :]


def insert(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.randint(1, 5)):
        position = rng.randint(0, len(data))
        data = data[:position] + rng.choice(PIECES) + data[position:]
    return data


def noise(rng: random.Random, data: bytes) -> bytes:
    position = rng.randint(0, len(data))
    return data[:position] + rng.randbytes(rng.randint(1, 60)) + data[position:]


def shuffle(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def repeat(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    line = rng.randrange(len(lines))
    return b"".join(lines[:line] + lines[line : line + 3] * rng.randint(2, 30) + lines[line:])


def nest(rng: random.Random, data: bytes) -> bytes:
    position, depth = rng.randint(0, len(data)), rng.choice([5, 90, 120, 3000])
    opening, closing = rng.choice(
        [(b"[", b"]"), (b'{"a":', b"}"), (b"- ", b""), (b"> ", b""), (b"  ", b""), (b"(", b")")]
    )
    return data[:position] + opening * depth + closing * (depth if rng.random() < 0.7 else 0) + data[position:]


def stretch(rng: random.Random, data: bytes) -> bytes:
    position = rng.randint(0, len(data))
    return (
        data[:position]
        + rng.choice(["я", "a", " ", "x ", "0", "*", "`", "#"]).encode() * rng.choice([500, 20_000, 200_000])
        + data[position:]
    )


def encode(rng: random.Random, data: bytes) -> bytes:
    name = rng.choice(["cp1251", "utf-16", "utf-16-le", "utf-8-sig", "koi8-r", "latin-1", "utf-32"])
    return data.decode("utf-8", "replace").encode(name, "replace")


def other_line_ends(rng: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\n\r", b" \n", b"\t\n"]))


BREAKS: tuple[Break, ...] = (
    *(flip, cut, cut_out, insert, insert, noise, shuffle, repeat, nest, stretch, encode, other_line_ends),
)
ODD_NAMES = (
    *("имя", "a b", "a\nb", "a\tb", "quote'\"", "x" * 200, "🙂", "a%2e", "e\u0301", "-rf", "a\\b", "?*", "\u202egpj"),
    *("con", " ", "a.", "..x", "$HOME", "`id`", "a;b", "#1", "[id:x]", "\udcff\udcfe", "İ", "q?m", "md:x", "~x"),
)


# Folders.


def write_folder(root: Path, rng: random.Random, marker: Marker, known: dict[str, str]) -> None:
    """Files as the sources lie, and some elsewhere, each whole or broken; links and a pipe among them."""
    names = sorted(known)
    for _ in range(FILES_A_FOLDER):
        name = rng.choice(names)
        data = marker(name, known[name]).encode("utf-8", "surrogateescape")
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            data = rng.choice(BREAKS)(rng, data)
        path = root / _place(rng, name, names)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:  # a file where a folder would be, or a name that this disk does not have
            continue
    _link(root, rng)


def _place(rng: random.Random, name: str, names: list[str]) -> Path:
    """Where the source's file lies: at its own place, in an odd folder, or under another file's name."""
    chance = rng.random()
    if chance < 0.2:
        return Path(rng.choice(ODD_NAMES)) / name
    if chance < 0.35:
        folder, _, last = rng.choice(names).rpartition("/")
        return Path(folder) / (Path(last).stem + Path(name).suffix)
    if chance < 0.45:
        return Path(name).with_name(rng.choice(ODD_NAMES) + Path(name).suffix)
    return Path(f"{rng.randrange(3)}") / name if chance < 0.6 else Path(name)


def _link(root: Path, rng: random.Random) -> None:
    paths = sorted(root.rglob("*"))
    for number in range(4):
        target = rng.choice([*paths, root, Path("/etc"), root / "gone", root / f"link{number}.md", Path("..")])
        path = rng.choice([path for path in paths if path.is_dir()] or [root]) / f"link{number}.md"
        if not path.exists(follow_symlinks=False) if sys.version_info >= (3, 12) else not path.is_symlink():
            path.symlink_to(target)


def texts_on_disk(root: Path, corpus: mk.Corpus) -> Iterator[tuple[str, str]]:
    """The files that a format reads, without the lines that a problem names.

    Files and folders that are reported as no memory are left out.
    """
    rules = pa.array(["unclaimed", "foreign_index", "transcript"])
    whole = pc.and_(pc.is_in(corpus.problems["rule"], rules), pc.is_null(corpus.problems["field"]))
    unclaimed = set(corpus.problems.filter(whole)["path"].to_pylist())
    named_lines = set(zip(corpus.problems["path"].to_pylist(), corpus.problems["line"].to_pylist(), strict=True))
    for path in root.rglob("*"):
        name = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "backslashreplace")
        hidden = any(part.startswith(".") for part in Path(name).parts)
        is_read = unclaimed.isdisjoint([name, *(parent.as_posix() for parent in [*Path(name).parents][:-1])])
        if path.suffix in ENDINGS and path.is_file() and not path.is_symlink() and not hidden and is_read:
            data = path.read_bytes()
            wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
            lines = data.decode("utf-16" if wide else "latin-1", "replace").split("\n")
            yield name, "\n".join(line for n, line in enumerate(lines, 1) if (name, n) not in named_lines)


def words_kept(corpus: mk.Corpus) -> set[str]:
    """The marked words in any column of any table."""
    words: set[str] = set()
    for table in corpus.tables.values():
        words.update(WORD.findall(json.dumps(table.to_pylist(), default=str, ensure_ascii=False)))
    return words


def use(corpus: mk.Corpus, root: Path, lake: Path) -> None:
    """What else is done with a corpus."""
    mk.Retriever(encoder=None).fit(corpus).trace("чай pool w101w", as_of=AS_OF)
    policies = mk.Pipeline([mk.Admission(), mk.Classifier(), mk.Quota(), mk.Expiry()])
    policies.transform(corpus, as_of=AS_OF)
    mk.Decay().transform(corpus, as_of=AS_OF)
    mk.Deduplicator(encoder=None).fit(corpus).transform(corpus, as_of=AS_OF)
    for query in mk.named_queries().to_pylist():
        if not query["needs_history"]:
            corpus.named(query["name"], as_of=AS_OF).fetchall()
    corpus.sql("from fts('чай')").fetchall()
    mk.ContextBuilder().build(corpus, "u", "чай", as_of=AS_OF)
    corpus.save(lake)
    opened = mk.open(lake)
    if not all(opened.tables[name].equals(table) for name, table in corpus.tables.items()):
        raise AssertionError("an opened corpus is not the saved one")
    if not opened.refresh().memories.equals(mk.read(root).memories):
        raise AssertionError("a refresh is not a fresh read")


def failures(root: Path, deep: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with a folder: an error or lost words, and where."""
    try:
        corpus = mk.read(root)
        kept_words = words_kept(corpus)
        if deep:
            with tempfile.TemporaryDirectory() as lake:
                use(corpus, root, Path(lake) / "lake")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        yield "error", f"{type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
        return
    for path, text in texts_on_disk(root, corpus):
        words = set(WORD.findall(text))
        if lost := words - kept_words:
            places = [text[max(0, position - 50) : position + 20] for position in map(text.index, sorted(lost)[:3])]
            yield "lost", f"{path!r}: {len(lost)} of {len(words)} words, as in {places}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=4_000, help="files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--keep", type=Path, help="where folders that fail are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known, counts = sources(), Counter[str]()
    for number in range(-(-options.n // FILES_A_FOLDER)):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name) / "root"
            root.mkdir()
            write_folder(root, random.Random(f"{options.seed} {number}"), Marker(), known)
            counts["files"] += sum(path.is_file() for path in root.rglob("*"))
            wrong = list(failures(root, options.deep))
            for kind, fault in wrong:
                print(f"seed {options.seed}, folder {number}, {kind}: {fault}", flush=True)
                counts[kind] += 1
            if wrong and options.keep:
                shutil.copytree(root, options.keep / f"{options.seed}-{number}", symlinks=True, dirs_exist_ok=True)
    print(f"{counts['files']} files, {counts['error']} errors, {counts['lost']} files that lost words")
    sys.exit(1 if counts["error"] or counts["lost"] else 0)


TINY = "--n 40"


if __name__ == "__main__":
    main()
