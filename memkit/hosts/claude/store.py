"""Topics of Claude Code's memory: a file of its own and a line in MEMORY.md."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from memkit import Edits
from memkit.errors import ChangeRefusedError, ParameterError
from memkit.extend.reading import Splice, line_end, lines_of, quoted, slug_of
from memkit.extend.writing import AsOf, Draft, LayoutStore, check_choice, checked
from memkit.hosts import claude

_ABOUT = 160
"""The most characters of a topic's description."""


class ClaudeStore(LayoutStore):
    """Topics of Claude Code's memory: a new one is a file of its own and a line in MEMORY.md, never a longer index.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> store = mk.store(mk.testing.write_files(tempfile.mkdtemp(), {".claude/memory/MEMORY.md": "# Память\\n"})).claude
    >>> store.add("Сборка", "CI собирает с нуля, без кэша.", "feedback")
    '.claude/memory/feedback_сборка.md'
    >>> print((store.root / ".claude/memory/MEMORY.md").read_text("utf-8"), end="")
    # Память
    - [Сборка](feedback_сборка.md) — CI собирает с нуля, без кэша.
    """

    policy = layout = "claude"

    def home(self) -> str | None:
        """The folder of the memory: the one in ``.claude`` of the root, else the only one there is; None for none."""
        paths = self._memories_where("layout", self.layout)["path"].to_pylist()
        homes = sorted({path.rpartition("/")[0] for path in paths})
        known = ".claude/memory"
        return known if known in homes else homes[0] if len(homes) == 1 else None

    def keeper(self) -> Callable[..., str | Edits] | None:
        """Where the folder has such a memory, the operation that saves a text as a topic."""
        return None if self.home() is None else self._remember

    def _remember(
        self, text: str, *, subject: str | None, type: str | None, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        title = subject or " ".join(text.split()[:6])
        return self.add(title, text, type or "project", now=now, dry_run=dry_run)

    def add(
        self, title: str, text: str, type: str = "project", *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Write a topic file, and its line after the last of its group in MEMORY.md; return the file's path.

        Raises
        ------
        ParameterError
            For another type than user, feedback, project or reference, or a title of several lines.
        ChangeRefusedError
            Where the folder holds no such memory, or several, or the topic exists.
        """
        check_choice("type", type, claude.TYPES_OF_TOPICS, "add")
        words = " ".join(checked(title, "title").split())
        if "\n" in title.strip() or set(words) & set("[]"):
            raise ParameterError(f"title: expected one line without brackets. Got {title!r:.80}.")
        body = checked(text, "text").strip("\n") + "\n"

        def work(draft: Draft) -> str:
            home = self.home()
            if home is None:
                raise ChangeRefusedError("expected one memory of Claude Code below the folder. Got none, or several.")
            slug = slug_of(words)
            name = slug if slug.startswith(f"{type}-") else f"{type}_{slug}"
            path, index = posixpath.join(home, f"{name}.md"), posixpath.join(home, claude.INDEX)
            if draft.exists(path):
                raise ChangeRefusedError(f"{path}: it exists already.")
            one_line = " ".join(body.split())
            about = f"description: {quoted(one_line[:_ABOUT].rstrip())}\n"
            front = f"---\nname: {name}\n{about}metadata:\n  node_type: memory\n  type: {type}\n---\n"
            draft.write(path, front + body, "a topic", together=path)
            room = claude.LONG_LINE - len(f"- [{words}]({name}.md) — ") - 1
            hook = one_line if len(one_line) <= room else one_line[: max(room, 0)].rstrip() + "…"
            self._list(draft, index, f"- [{words}]({name}.md) — {hook}\n", type, path)
            return path

        return self._do(work, now, dry_run)

    def _list(self, draft: Draft, index: str, line: str, type: str, group: str) -> None:
        """Draft a line of MEMORY.md: below the last link to a topic of its type, else below the last link."""
        before = draft.text_or_none(index)
        if before is None or not before.strip():
            draft.write(index, line, "its line", together=group)
            return
        newline = line_end(before)
        lines = lines_of(before)
        listed = [(number, target) for number, target, _ in claude.targets_in(before.replace("\r\n", "\n"))]
        of_type = [number for number, target in listed if target.startswith((f"{type}_", f"{type}-"))]
        after = max(of_type or [number for number, _ in listed], default=len(lines))
        offset = sum(map(len, lines[:after]))
        gap = "" if before[:offset].endswith("\n") else newline
        draft.splice(
            "update", index, Splice(offset, offset, gap + line.replace("\n", newline)), "its line", together=group
        )
