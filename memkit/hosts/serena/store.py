"""Memories of Serena by their names: one is written, renamed, or a text added."""

from __future__ import annotations

import re

from memkit import Edits
from memkit.errors import ChangeRefusedError, ParameterError
from memkit.extend.writing import AsOf, Draft, LayoutStore, checked, missing

_NAME = re.compile(r"[\w .,()+-]+(?:/[\w .,()+-]+)*")


class SerenaStore(LayoutStore):
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
            return self._rename(draft, old, path)

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
