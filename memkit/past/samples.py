"""Repositories of a few commits, for an example of a history."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from memkit.base.params import path_of
from memkit.errors import MemkitError
from memkit.extend.showing import as_of_time
from memkit.extend.writing import AsOf
from memkit.past.repository import ENVIRONMENT


def write_commits(folder: str | Path, states: Iterable[tuple[AsOf, Mapping[str, str | bytes | None]]]) -> Path:
    """Make a git repository of a few commits with given dates, so that an example of a history fits in one expression.

    Parameters
    ----------
    folder : str or Path
        Created if missing; it must not be a repository yet.
    states : sequence of pairs
        When a commit was made, and its files by path: the content, or None to delete the file. A file that is not named
        stays as it was.

    Returns
    -------
    Path

    Raises
    ------
    MemkitError
        Where git is not installed, or cannot make a repository there.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> root = write_commits(tempfile.mkdtemp(), [("2026-01-05", {"a.md": "# Чай"}), ("2026-01-06", {"a.md": None})])
    >>> mk.read(root, rev="2026-01-05").memories["title"].to_pylist(), mk.read(root).memories.num_rows
    (['Чай'], 0)
    """
    root = path_of("write_commits", folder)
    root.mkdir(parents=True, exist_ok=True)
    stream = b"".join(_commit(as_of_time(moment), files) for moment, files in states)
    _git(root, "init", "--quiet", "--initial-branch=main")
    _git(root, "fast-import", "--quiet", "--force", stdin=stream)
    _git(root, "reset", "--quiet", "--hard")
    return root


def _commit(moment: datetime, files: Mapping[str, str | bytes | None]) -> bytes:
    """A commit as ``git fast-import`` reads it."""
    who = f"memkit <> {int(moment.timestamp())} +0000"
    lines = [f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n".encode(), _data(f"{', '.join(files)}"[:72])]
    for path, content in files.items():
        name = '"' + path.translate({34: '\\"', 92: "\\\\", 10: "\\n"}) + '"'
        lines += [f"D {name}\n".encode()] if content is None else [f"M 644 inline {name}\n".encode(), _data(content)]
    return b"".join(lines)


def _data(content: str | bytes) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return b"data %d\n%s\n" % (len(data), data)


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> None:
    program = shutil.which("git")
    if program is None:
        raise MemkitError("write_commits needs the program git, which is not here.")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = [program, "-C", str(root), "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=inherited | ENVIRONMENT, check=False)
    if done.returncode:
        raise MemkitError(f"write_commits: {done.stderr.decode(errors='replace').strip():.500}")
