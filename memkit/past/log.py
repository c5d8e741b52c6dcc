"""The commits of a repository along first parents, oldest first, each with the files that it changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from memkit.past.repository import Commit, Repository, TooManyFilesError, time_of

_FORMAT = "%H%x00%T%x00%P%x00%ct%x00%at%x00%an%x00%s"
_FIELDS = 7
MOST_CHANGES = 500_000
"""The most files that one commit may change; a tree of a few hundred bytes can have any number of them."""

Change = tuple[bytes, bytes, bytes]
"""A path from the top of the repository, its mode and the id of its content afterwards; mode 000000 is gone."""


@dataclass(frozen=True)
class Logged:
    """A commit as the history shows it: author (without address), subject line, and changes."""

    commit: Commit
    parent: str | None
    authored_at: datetime
    author: str
    subject: str
    changes: list[Change]


def log(repository: Repository, commit: str, max_commits: int) -> Iterator[Logged]:
    """The last `max_commits` commits up to `commit` that change the folder, oldest first.

    The changes of a merge are those against its first parent.

    Raises
    ------
    GitError
        Where git ends or is stopped half-way, or a commit changes more than `MOST_CHANGES` files.
    """
    how = ("--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-color", "--no-notes", "--no-mailmap")
    what = ("--first-parent", "-m", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
    last = ("--reverse", f"--max-count={max_commits}", f"--format={_FORMAT}", commit)
    below = b"/".join(repository.prefix)
    tokens = repository.tokens("log", *how, *what, *last, *((b"--", below) if below else ()))
    token = next(tokens, None)
    while token:
        head = [token, *(next(tokens, b"") for _ in range(_FIELDS - 1))]
        changes: list[Change] = []
        for token in tokens:
            entry = token.lstrip(b"\n")
            if not entry.startswith(b":"):
                token = entry
                break
            _, mode, _, id, _ = entry.split(b" ", 4)
            changes.append((next(tokens, b""), mode, bytes.fromhex(id.decode())))
            if len(changes) > MOST_CHANGES:
                raise TooManyFilesError
        else:
            token = None
        yield _logged(head, changes)


def _logged(head: list[bytes], changes: list[Change]) -> Logged:
    id, tree, parents, committed, authored, author, subject = head
    commit = Commit(id.decode(), bytes.fromhex(tree.decode()), time_of(int(committed or 0)))
    parent = parents.decode().partition(" ")[0] or None
    who, what = (word.decode("utf-8", "replace") for word in (author, subject))
    return Logged(commit, parent, time_of(int(authored or 0)), who, what, changes)
