"""Pages of basic-memory, MemFS, Serena and Claude Code: one line or one text is added, all other bytes stay."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from memkit.base.fences import fences
from memkit.base.params import AsOf, check_choice
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing
from memkit.change.rename import rename
from memkit.errors import ChangeRefusedError, ParameterError, PolicyRefusal
from memkit.formats import basic_memory, claude
from memkit.formats.rows import slug_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import Head, Splice, line_end, lines_of, plain_lines, spliced
from memkit.formats.syntax.values import bool_of, integer_of
from memkit.formats.syntax.write import quoted

_NAME = re.compile(r"[\w .,()+-]+(?:/[\w .,()+-]+)*")


class _Pages(Operations):
    """The base of the stores of one layout's pages."""

    layout = ""

    def _page(self, name: str) -> str:
        """The path of the page with a path, title or permalink.

        Raises
        ------
        NotFoundError
            Where there is none.
        ChangeRefusedError
            Where several have the title.
        """
        rows = self._memories_where("layout", self.layout).to_pylist()
        for column in ("path", "source_id", "title"):
            paths: list[str] = sorted({row["path"] for row in rows if row[column] == checked(name, "page")})
            if len(paths) > 1:
                raise ChangeRefusedError(f"{len(paths)} pages are called {name!r:.80}: {', '.join(paths)}.")
            if paths:
                return paths[0]
        raise missing("page", name, {row["path"] for row in rows} | {row["title"] for row in rows if row["title"]})

    def _append(self, draft: Draft, path: str, lines: str, reason: str) -> None:
        """Draft lines at the end of a file, after a blank line."""
        before = draft.text_or_none(path) or ""
        gap = "" if not before or before.endswith("\n") else "\n"
        new = f"{gap}\n{lines}" if before.strip() else lines
        draft.splice("update", path, Splice(len(before), len(before), new.replace("\n", line_end(before))), reason)

    def _append_to(self, place: Callable[[Draft, str], str], text: str, now: AsOf, dry_run: bool) -> str | Edits:
        """Write a text at the end of the file that `place` names for it, and return the file's path."""
        body = checked(text, "text").strip("\n")

        def work(draft: Draft) -> str:
            path = place(draft, body)
            self._append(draft, path, f"{body}\n", "appended")
            return path

        return self._do(work, now, dry_run)


class BasicMemoryStore(_Pages):
    """Observations and relations of basic-memory's pages; a page is named by its path, permalink or title.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> page = "---\\ntitle: Склад\\ntype: note\\npermalink: stock\\n---\\n# Склад\\n\\n- [tech] Go\\n"
    >>> store = mk.store(mk.testing.write_files(tempfile.mkdtemp(), {"Склад.md": page})).basic_memory
    >>> store.add_observation("stock", "Очередь обязательна", "rule", ["очередь"])
    'Склад.md'
    >>> _ = store.add_relation("Склад", "part_of", "Магазин")
    >>> print((store.root / "Склад.md").read_text("utf-8").split("---\\n")[2], end="")
    # Склад
    <BLANKLINE>
    - [tech] Go
    - [rule] Очередь обязательна #очередь
    <BLANKLINE>
    ## Relations
    <BLANKLINE>
    - part_of [[Магазин]]
    """

    policy = layout = "basic_memory"

    def add_observation(
        self,
        page: str,
        text: str,
        category: str | None = None,
        tags: Sequence[str] = (),
        context: str | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write an observation below the last one of a page, and return the page's path.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            Where no page, or several, are called so.
        ParameterError
            For an observation that would not read back as it is given.
        PolicyRefusal
            With the reason duplicate, where the page has it already.
        """
        words = _words(tags)
        whole = checked(text, "text") + "".join(f" #{tag}" for tag in words)
        line = f"- {f'[{category}] ' if category else ''}{whole}{f' ({context})' if context else ''}"
        parsed = basic_memory.observation(line)
        is_same = parsed and (parsed.category, parsed.text, parsed.context) == (category, whole, context)
        if "\n" in line or not is_same or not (parsed and set(words) <= set(parsed.tags)):
            raise ParameterError(f"an observation: expected one line that reads back as given. Got {line!r:.200}.")
        return self._add(page, line, "Observations", basic_memory.observation, now, dry_run)

    def add_relation(
        self,
        page: str,
        relation_type: str,
        target: str,
        context: str | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write a relation below the last one of a page, and return the page's path.

        Raises
        ------
        NotFoundError, ChangeRefusedError, ParameterError, PolicyRefusal
            As for `add_observation`.
        """
        word = checked(relation_type, "relation_type")
        word = word if re.fullmatch(r"[\w-]+", word) else f'"{word}"'
        line = f"- {word} [[{checked(target, 'target')}]]{f' ({context})' if context else ''}"
        parsed = basic_memory.relation(line)
        if (
            "\n" in line
            or parsed is None
            or (parsed.type, parsed.target, parsed.context) != (relation_type, target, context)
        ):
            raise ParameterError(f"a relation: expected one line that reads back as given. Got {line!r:.200}.")
        return self._add(page, line, "Relations", basic_memory.relation, now, dry_run)

    def _add(
        self, page: str, line: str, heading: str, reads: Callable[[str], object], now: AsOf, dry_run: bool
    ) -> str | Edits:
        """Draft a line below the last that reads as it does, else below a new heading at the end."""

        def work(draft: Draft) -> str:
            path = self._page(page)
            text = draft.text(path)
            code, lines = fences(text.replace("\r\n", "\n")), text.split("\n")
            same = [number for number, one in enumerate(lines, 1) if number not in code and reads(one.rstrip("\r"))]
            if any(reads(lines[number - 1].rstrip("\r")) == reads(line) for number in same):
                raise PolicyRefusal(f"duplicate: {path} says it already.", "duplicate")
            if not same:
                self._append(draft, path, f"## {heading}\n\n{line}\n", "added")
                return path
            end = draft.document(path).lines(same[-1], same[-1])[1]
            newline = line_end(text)
            is_open = not text[:end].endswith("\n")
            draft.splice("update", path, Splice(end, end, newline + line if is_open else line + newline), "added")
            return path

        return self._do(work, now, dry_run)


class MemfsStore(_Pages):
    """Files of a MemFS; they are written, and the agent's user commits them.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> files = {"system/human.md": "---\\ndescription: Мира\\nlimit: 40\\n---\\nМира\\n"}
    >>> store = mk.store(mk.testing.write_files(tempfile.mkdtemp(), files)).memfs
    >>> _ = store.describe("system/human.md", "Мира: кто она")
    >>> _ = store.append("system/human.md", "Любит чай")
    >>> print((store.root / "system/human.md").read_text("utf-8"), end="")
    ---
    description: "Мира: кто она"
    limit: 40
    ---
    Мира
    <BLANKLINE>
    Любит чай
    """

    policy = layout = "memfs"

    def describe(self, path: str, description: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Set the description of a file, in quotes, and return its path.

        Raises
        ------
        NotFoundError
            Where there is no such file.
        ChangeRefusedError
            Where its place is not certain, or the file is read-only.
        """
        line = " ".join(checked(description, "description").split())

        def work(draft: Draft) -> str:
            place = self._page(path)
            text = self._writable(draft, place)
            if front_matter.split(plain_lines(text)) is None:
                start = int(text.startswith("\ufeff"))
                head = f"---\ndescription: {quoted(line)}\n---\n".replace("\n", line_end(text))
                draft.splice("update", place, Splice(start, start, head), "described")
            else:
                splice = Head(text).set_value(["description"], line)
                value = splice.text.strip()
                change = splice._replace(text=splice.text.replace(value, quoted(line))) if value == line else splice
                if spliced(text, [change]) != text:
                    draft.splice("update", place, change, "described")
            return place

        return self._do(work, now, dry_run)

    def append(self, path: str, text: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Write a text at the end of a file, after a blank line, and return its path.

        Raises
        ------
        PolicyRefusal
            With the reason limit, where the file would pass its own.
        """

        def place(draft: Draft, body: str) -> str:
            file = self._page(path)
            before = plain_lines(self._writable(draft, file))
            front = front_matter.split(before)
            limit = integer_of(front.fields.get("limit")) if front else None
            size = len(f"{before[front.body_at :] if front else before}\n{body}".strip())
            if limit is not None and size > limit:
                raise PolicyRefusal(f"limit: {file} would have {size:,} of {limit:,} characters.", "limit")
            return file

        return self._append_to(place, text, now, dry_run)

    def _writable(self, draft: Draft, path: str) -> str:
        text = draft.text(path)
        front = front_matter.split(plain_lines(text))
        if front and bool_of(front.fields.get("read_only")):
            raise ChangeRefusedError(f"{path}: its front matter says read_only.")
        return text


class SerenaStore(_Pages):
    """Memories of Serena, each by its name: the path below ``.serena/memories`` without ending.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> store = mk.store(tempfile.mkdtemp()).serena
    >>> store.write("release/checklist", "# Порядок выкладки\\n\\n1. Тесты.")
    '.serena/memories/release/checklist.md'
    >>> _ = store.append("release/checklist", "2. Стенд.")
    >>> mk.read(store.root).memories["text"][0].as_py().endswith("2. Стенд.")
    True
    """

    policy = layout = "serena"
    home = ".serena/memories"

    def write(
        self, name: str, text: str, *, overwrite: bool = False, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Write a memory, and return its path.

        Raises
        ------
        ChangeRefusedError
            Where it exists, unless `overwrite`.
        ParameterError
            For a name that is no path of words.
        """
        path = self._path(name)
        body = checked(text, "text").strip("\n")

        def work(draft: Draft) -> str:
            if draft.exists(path) and not overwrite:
                raise ChangeRefusedError(f"{path}: it exists already. overwrite=True replaces it.")
            draft.write(path, f"{body}\n", "written")
            return path

        return self._do(work, now, dry_run)

    def append(self, name: str, text: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Write a text at the end of a memory, after a blank line, and return its path.

        Raises
        ------
        NotFoundError
            Where there is none of this name.
        """

        def place(draft: Draft, body: str) -> str:
            path = self._path(name)
            if not draft.exists(path):
                raise missing("memory", name, self._names())
            return path

        return self._append_to(place, text, now, dry_run)

    def rename(self, name: str, new: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Give a memory another name, with the links that lead to it (``mem:`` too), and return its new path.

        Raises
        ------
        NotFoundError
            Where there is none of this name.
        ChangeRefusedError
            Where the new name is taken.
        """
        old, path = self._path(name), self._path(new)

        def work(draft: Draft) -> str:
            if not draft.exists(old):
                raise missing("memory", name, self._names())
            return rename(self.root, draft, old, path)

        return self._do(work, now, dry_run)

    def _names(self) -> list[str]:
        """The names of the memories that there are."""
        paths = self._memories_where("layout", self.layout)["path"].to_pylist()
        return sorted({path.rpartition(f"{self.home}/")[2].rpartition(".")[0] for path in paths})

    def _path(self, name: str) -> str:
        """The file of a name, below the root's ``.serena/memories``, or the root where that is this folder."""
        if not _NAME.fullmatch(checked(name, "name")) or {"..", "."} & set(name.split("/")):
            raise ParameterError(f"name: expected words, separated by '/'. Got {name!r:.80}.")
        is_home = self.root.parts[-2:] == tuple(self.home.split("/"))
        return f"{name.removesuffix('.md')}.md" if is_home else f"{self.home}/{name.removesuffix('.md')}.md"


def _words(tags: object) -> list[str]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise ParameterError(f"tags: expected a list of words. Got {tags!r:.80}.")
    return [checked(tag, "tags").removeprefix("#") for tag in tags]


class ClaudeStore(_Pages):
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


_ABOUT = 160
"""The most characters of a topic's description."""
