"""Two processes save facts into one folder, a third reads beside them.

    python tests/audit/two_writers.py [saves] [seed]

First with limits that nobody reaches: no fact is lost, no id is given twice, every counter is right. Then with the
document's limits: what is kept equals, byte for byte, what one process keeps that is given the journal's order. The
reader sees each time a folder without a problem, in which nothing that was there is gone unless it was evicted.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import memkit as mk
from memkit.change import facts as facts_module
from memkit.change import journal as journal_module
from memkit.change.disk import Disk
from memkit.change.journal import hash_of, to_record
from memkit.errors import MemkitError, PolicyRefusal
from memkit.formats.disk.lock import JOURNAL
from memkit.formats.facts import parse_fact

NOW = "2026-03-01T10:00:00"
OPENINGS = ("Обсуждали {}.", "Сейчас чиним {}.", "Меня зовут {}.", "Вчера видели {}.", "Слушали {}.")
TRIES = 20
"""How often a save that was told "busy" is tried again."""


def limited(limit: int) -> Any:
    """Within it all limits of the store are this one; 0: the document's."""
    one = {"max_facts": limit, "max_profile": limit // 2, "max_working": limit // 2}
    quota = one if limit else facts_module._POLICY_PARAMS["quota"]
    return patch.dict(facts_module._POLICY_PARAMS, quota=quota)


def texts(writer: int, saves: int, users: int, seed: int) -> list[tuple[str, str]]:
    """Users and texts, no text within another."""
    chance = random.Random(f"{seed}-{writer}")
    word = lambda: "".join(chance.choices("абвгдежзиклмнопрст", k=8))  # noqa: E731 - one use, one line
    phrases = [" ".join([word(), word(), word()]) for _ in range(saves)]
    return [(f"u{chance.randrange(users)}", chance.choice(OPENINGS).format(text)) for text in phrases]


def write(root: Path, writer: int, saves: int, users: int, seed: int, encoder: str) -> None:
    """One writer: a line a save with what became of it."""
    facts, busy = mk.store(root, encoder=encoder or None).facts, 0
    print("ready", flush=True)
    sys.stdin.readline()  # both begin at once, however long each took to start
    for user, text in texts(writer, saves, users, seed):
        for attempt in range(TRIES):
            try:
                saved = facts.save(user, text, now=NOW)
                assert isinstance(saved, facts_module.Saved)
                row = {"id": saved.id, "evicted": saved.evicted}
                break
            except PolicyRefusal as refusal:
                row = {"reason": refusal.reason}
                break
            except MemkitError:
                busy += 1
                assert attempt < TRIES - 1
        print(json.dumps({"user": user, "text": text, "busy": busy} | row, ensure_ascii=False))


def problems(corpus: mk.Corpus) -> list[str]:
    """What is wrong with the files; one whose last fact was evicted is empty, which is in order."""
    return [row["message"] for row in corpus.problems.to_pylist() if row["rule"] != "empty_text"]


def read(root: Path, evicts: bool) -> None:
    """The reader: until it is killed, a line a look."""
    before: set[tuple[str, str]] = set()
    while True:
        try:
            corpus = mk.read(root)
        except MemkitError as error:
            print(json.dumps({"busy": str(error)}, ensure_ascii=False), flush=True)
            continue
        rows = corpus.tables["facts"].to_pylist()
        now = {(row["memory_id"].partition("/")[2].split("/")[0], row["id"]) for row in rows}
        faults = problems(corpus)
        faults += [f"twice: {len(rows) - len(now)}"] * (len(rows) > len(now))
        faults += [f"gone: {sorted(before - now)[:3]}"] * (not evicts and not before <= now)
        print(json.dumps({"facts": len(rows), "faults": faults}, ensure_ascii=False), flush=True)
        before = now
        time.sleep(0.2)


def both(
    root: Path, saves: int, users: int, seed: int, limit: int, encoder: str
) -> tuple[list[dict[str, Any]], list[Any]]:
    """What two writers and a reader say."""
    start = [sys.executable, __file__, "--as"]
    common = [str(root), encoder, str(saves // 2), str(users), str(seed), str(limit)]
    pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    reader = subprocess.Popen([*start, "reader", *common], **pipe)
    writers = [subprocess.Popen([*start, str(number), *common], **pipe) for number in range(2)]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 2
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    outputs = [writer.communicate()[0] for writer in writers]
    reader.kill()
    looks = reader.communicate()[0]
    assert [writer.returncode for writer in writers] == [0, 0]
    rows = [json.loads(line) for part in outputs for line in part.splitlines()]
    return rows, [json.loads(line) for line in looks.splitlines() if line.endswith("}")]


def faults_of(root: Path, rows: list[dict[str, Any]], looks: list[Any]) -> list[str]:
    """What is wrong with what is there."""
    corpus = mk.read(root)
    found_now = Counter((row["user_id"], row["text"]) for row in corpus.memories.to_pylist())
    saved = Counter((row["user"], row["text"]) for row in rows if "id" in row)
    evicted = {(row["user"], id) for row in rows for id in row.get("evicted", ())}
    ids = Counter((row["user"], row["id"]) for row in rows if "id" in row)
    expected = saved - Counter(
        {(row["user"], row["text"]): 1 for row in rows if (row["user"], row.get("id")) in evicted}
    )
    return [
        *(f"lost: {key}" for key in (expected - found_now)),
        *(f"not saved: {key}" for key in (found_now - expected)),
        *(f"an id twice: {key}" for key, count in ids.items() if count > 1),
        *problems(corpus),
        *(fault for look in looks for fault in look.get("faults", ())),
    ]


def journalled(root: Path) -> list[tuple[str, str]]:
    """Users and texts in the order in which the journal has their saves."""
    disk = Disk(root)
    records = [to_record(disk.read(f"{JOURNAL}/{name}")) for name in disk.names(JOURNAL)]
    contents: dict[str, str] = {}  # by hash
    for record in records:
        for file in record.files if record else ():
            contents[file.before or ""] = file.image or ""
            data = disk.read(file.path) or b""
            contents[hash_of(data)] = data.decode()
    saves = []
    for record in records:
        for file in record.files if record else ():
            if file.path.endswith(".md"):
                old = Counter((contents[file.before] if file.before else "").splitlines())
                for line in Counter(contents[file.after or ""].splitlines()) - old:
                    saves.append((file.path.split("/")[1], (parse_fact(line) or {})["text"]))
    return saves


def tree(root: Path) -> dict[str, bytes]:
    """The files that are not memkit's own."""
    files = (path for path in root.rglob("*") if path.is_file() and ".memkit" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def replayed(root: Path, place: Path, encoder: str) -> list[str]:
    """Where one process that is given the journal's order has other files."""
    place.mkdir()
    facts = mk.store(place, encoder=encoder or None).facts
    for user, text in journalled(root):
        facts.save(user, text, now=NOW)
    one, two = tree(root), tree(place)
    return [f"differs: {path}" for path in sorted(one.keys() | two.keys()) if one.get(path) != two.get(path)]


def check(saves: int, users: int, seed: int, limit: int, in_order: bool, encoder: str = "use") -> list[str]:
    """One run; what was wrong, with `in_order` beside one process that is given the journal's order.

    Without a name of an encoder duplicates are known by their words alone.
    """
    with tempfile.TemporaryDirectory() as name:
        (root := Path(name) / "root").mkdir()
        start = time.monotonic()
        rows, looks = both(root, saves, users, seed, limit, encoder)
        faults = faults_of(root, rows, looks)
        if in_order:
            with limited(limit):
                faults += replayed(root, Path(name) / "alone", encoder)
        reasons = Counter(row.get("reason", "saved") for row in rows)
        evicted, busy = sum(len(row.get("evicted", ())) for row in rows), sum("busy" in look for look in looks)
        print(
            f"{len(rows)} saves over {users} users, limits {limit or 'of the document'}: {dict(reasons)}, "
            f"{evicted} evicted; {len(looks)} looks, {busy} told to wait; {time.monotonic() - start:.0f} s; "
            f"{len(faults)} faults",
            *faults[:5],
            sep="\n  ",
        )
    return faults


def main(saves: int = 10_000, seed: int = 0) -> int:
    """Both runs; with the document's limits over few users, so that facts are evicted."""
    return bool(check(saves, 50, seed, 20_000, False) + check(saves, max(1, saves // 1250), seed + 1, 0, True))


TINY = "5"


if __name__ == "__main__":
    if sys.argv[1:2] != ["--as"]:
        sys.exit(main(*map(int, sys.argv[1:])))
    role, root, encoder, *numbers = sys.argv[2:]
    saves, users, seed, limit = map(int, numbers)
    if limit <= saves:
        journal_module.KEPT = 10**9  # which tells the order
    with limited(limit):
        if role == "reader":
            read(Path(root), evicts=limit <= 2 * saves)
        else:
            write(Path(root), int(role), saves, users, seed, encoder)
