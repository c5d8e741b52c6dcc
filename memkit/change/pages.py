"""The base of stores of pages: one line or one text is added, all other bytes stay."""

from __future__ import annotations

from collections.abc import Callable

from memkit.base.params import AsOf
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing
from memkit.errors import ChangeRefusedError
from memkit.formats.syntax.places import Splice, line_end


class Pages(Operations):
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
