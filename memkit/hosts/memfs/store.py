"""Files of a MemFS: a description is set, or a text added; all other bytes stay."""

from __future__ import annotations

from memkit import Edits
from memkit.errors import ChangeRefusedError, PolicyRefusal
from memkit.extend.reading import (
    Head,
    Splice,
    bool_of,
    front_matter,
    integer_of,
    line_end,
    plain_lines,
    quoted,
    spliced,
)
from memkit.extend.writing import AsOf, Draft, LayoutStore, checked


class MemfsStore(LayoutStore):
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
