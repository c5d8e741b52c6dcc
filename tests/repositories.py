"""Git repositories for tests and benchmarks, made at once by ``git fast-import``: fixed dates, author and bytes."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

START, STEP_S = 1_767_225_600, 3600
"""The first commit's time, 2026-01-01, and the seconds from one to the next."""
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
Files = Mapping[str, "str | bytes | None"]


@dataclass
class Step:
    """One commit: contents by path (None goes), the steps that it follows (the one before it unless given)."""

    files: Files = field(default_factory=dict)
    parents: Sequence[int] | None = None
    at: int | None = None
    subject: str = "change"
    author: str = "Анна"
    mode: Mapping[str, str] = field(default_factory=dict)


def git(folder: Path, *arguments: str, **how: object) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT, **how).stdout


def build(folder: Path, steps: Sequence[Step | Files], *, bare: bool = False) -> list[str]:
    """A repository of these commits, the last one checked out; their ids."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    stream = [_commit(number, each if isinstance(each, Step) else Step(each)) for number, each in enumerate(steps, 1)]
    git(folder, "fast-import", "--quiet", "--export-marks=marks", input=b"".join(stream))
    marks = folder / "marks"
    ids = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    if not bare:
        git(folder, "reset", "--quiet", "--hard", ids[f":{len(steps)}"])
    return [ids[f":{number}"] for number in range(1, len(steps) + 1)]


def _commit(number: int, step: Step) -> bytes:
    seconds = START + number * STEP_S if step.at is None else step.at
    parents = step.parents if step.parents is not None else [number - 1] if number > 1 else []
    branch = b"main"
    lines = [b"commit refs/heads/" + branch, b"mark :%d" % number]
    who = b"%s <a@example.org> %d +0000" % (step.author.encode(), seconds)
    lines += [b"author " + who, b"committer " + who, _data(step.subject)]
    lines += [b"%s :%d" % (b"merge" if place else b"from", parent) for place, parent in enumerate(parents)]
    for path, content in step.files.items():
        name = b'"' + os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
        mode = step.mode.get(path, "100644").encode()
        if content is None:
            lines.append(b"D " + name)
        elif mode == b"160000":
            lines.append(b"M 160000 " + str(content).encode() + b" " + name)
        else:
            lines += [b"M " + mode + b" inline " + name, _data(content)]
    return b"\n".join(lines) + b"\n\n"


def _data(content: str | bytes) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return b"data %d\n%s" % (len(data), data)


def exported(repository: Path, commit: str, place: Path) -> Path:
    """The files of a commit as git itself checks them out."""
    place.mkdir(parents=True)
    git(repository, f"--work-tree={place}", "checkout", "--quiet", "--force", commit, "--", ".")
    return place


def lived(seed: int = 0, days: int = 12) -> list[Step]:
    """A folder's life in all five formats: logs, edits, moves, CRLF, reverts, merges, an index that grows."""
    chance = random.Random(seed)
    words = [
        "пул",
        "соединений",
        "чай",
        "мёд",
        "релиз",
        "pool",
        "release",
        "retry",
        "кэш",
        "очередь",
        "токен",
        "журнал",
    ]
    say = lambda: " ".join(chance.choices(words, k=9)) + "."  # noqa: E731
    long = [f"# Правило {i}\n{say()}\n{say()}\n" for i in range(4)]
    steps = [Step({"MEMORY.md": "\n".join(long), "README.txt": "x", "users/anna/meta.json": '{"version": 2}'})]
    facts, entries = [], []
    for day in range(1, days + 1):
        log = f"# Лог\n\n### 09:00\n{say()}\n\n### 18:00\n{say()}\n"
        steps.append(Step({f"memory/2026-01-{day:02d}.md": log.replace("\n", "\r\n") if day % 3 == 0 else log}))
        facts.append(f"- [id:wk_{day:03d}] [t:working] [imp:normal] [exp:2026-03-{day:02d}] {say()}")
        steps.append(Step({"users/anna/working.md": "\n".join(facts) + "\n"}))
        name = f"bank/{chance.choice(['a', 'b'])}/{day}.md"
        entries.append({"title": f"Файл {day}", "file": name, "tags": ["t"], "priority": "high", "version": "1.0"})
        branch = str([{**entry, "updated": "2026-01-01"} for entry in entries]).replace("'", '"')
        index = '{"type": "index-root", "branches": [{"category": "bank", "path": "bank/index.json"}]}'
        tree = {"tree/index.json": index, "tree/bank/index.json": f'{{"type": "index-branch", "files": {branch}}}'}
        steps.append(Step({**tree, **({f"tree/{name}": say()} if day % 4 else {})}))
        id = f"{day:08d}-0000-4000-8000-000000000000"
        dates = "created_at: 2026-01-01T00:00:00Z\nupdated_at: 2026-01-01T00:00:00Z"
        note = f"---\nid: {id}\nsubject: Заметка {day}\nkeywords: [чай]\napplies_to: global\n{dates}\n---\n\n{say()}\n"
        steps.append(Step({f"notes/{id}.md": note}))
        record = f'{{"format_version": "1.0.0", "fact_id": "w.{day}", "category": "c", "content": "{say()}", '
        steps.append(Step({f"records/{day}.json": record + '"confidence": 0.5, "relations": []}'}))
        long[chance.randrange(len(long))] = f"# Правило {chance.randrange(9)}\n{say()}\n{say()}\n"
        before = "\n".join(long)
        steps.append(Step({"MEMORY.md": before, "doc.md": f"{say()}\n" if day % 2 else None}, subject="правки"))
        side = len(steps) - 1
        steps.append(Step({"side.md": f"# Ветка\n{say()}\n"}, parents=[side]))
        steps.append(Step({"side.md": f"# Ветка\n{say()}\n"}, parents=[side + 1, side + 2] if day % 2 else [side + 2]))
    steps.append(Step({"moved/2026-01-01.md": steps[1].files["memory/2026-01-01.md"], "memory/2026-01-01.md": None}))
    steps.append(Step({"memory/.memkitignore": ""}, subject="скрыто"))
    steps.append(Step({"memory/.memkitignore": None}, subject="revert"))
    steps.append(Step({"users/anna/working.md": None}))
    steps.append(Step({"users/anna/working.md": "\n".join(facts[:5]) + "\n"}, subject="revert"))
    return steps
