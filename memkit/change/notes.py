"""The notes of the Memory Format: create, update and delete, one file each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing, stamp
from memkit.errors import FormatError, ParameterError
from memkit.formats.fields import check_text, words_given
from memkit.formats.notes.format import FIELDS, format_note, parse_note
from memkit.formats.syntax.places import Head, Splice, spliced, with_values
from memkit.params import AsOf, describe
from memkit.search.retriever import Retriever
from memkit.tables.sources import read

_CHANGED = ("subject", "keywords", "applies_to", "content")
_LISTED = ("id", "subject", "keywords", "applies_to", "created_at", "updated_at", "path")


class NoteStore(Operations):
    """Notes below a folder: front matter and body, named after their id.

    Parameters
    ----------
    root : Path
        The folder.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> notes = mk.store(tempfile.mkdtemp()).notes
    >>> id = notes.create("Чай", ["чай"], "global", "# Чай\\n\\nБез сахара.\\n", now="2026-03-01")
    >>> _ = notes.update(id, subject="Чай и мёд", now="2026-03-02")
    >>> notes.list().select(["subject", "keywords"]).to_pylist()
    [{'subject': 'Чай и мёд', 'keywords': ['чай']}]
    """

    policy = "notes"

    def create(
        self,
        subject: str,
        keywords: Sequence[str],
        applies_to: str,
        content: str,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """A new note with an id of version 4, named after it.

        Returns
        -------
        str
            The id.

        Raises
        ------
        FormatError
            Where a field is not as the format wants it.
        """
        id = str(uuid.uuid4())

        def work(draft: Draft) -> str:
            time = stamp(draft.moment)
            fields = {"id": id, "subject": subject, "keywords": words_given(keywords), "applies_to": applies_to}
            text = format_note(
                {**fields, "created_at": time, "updated_at": time}, f"\n{checked(content, 'content').strip(chr(10))}\n"
            )
            draft.write(f"{id}.md", text, "a new note", memory_id=f"notes:{id}.md#{id}")
            return id

        return self._do(work, now, dry_run)

    def update(self, id: str, /, *, now: AsOf = None, dry_run: bool = False, **changed: Any) -> str | Edits:
        """Change subject, keywords, applies_to or content of a note; ``updated_at`` becomes now, all else stays.

        Returns
        -------
        str
            The id.

        Raises
        ------
        NotFoundError
            For an unknown id.
        ParameterError
            For a field that never changes, or is none.
        FormatError, ChangeRefusedError
            Where a value is not as the format wants it, or its place in the file is not certain.
        """
        for name in changed:
            if name not in _CHANGED:
                raise ParameterError(f"update: expected one of {', '.join(_CHANGED)}. Got {name!r:.80}.")
        row = self._row(id)

        def work(draft: Draft) -> str:
            path = row["path"]
            text, time = draft.text(path), stamp(draft.moment)
            _, body = _parsed(text)
            values = {name: list(v) if name == "keywords" else v for name, v in changed.items() if name != "content"}
            FIELDS.only(*values).strict(values)  # what the file has already may be as it is
            check_text(values)
            new = with_values(text, {**values, "updated_at": time}, Head)
            if "content" in changed:
                said = checked(changed["content"], "content", filled=False)
                if len(said.strip()) < 10:
                    raise FormatError("field 'content' must be at least 10 characters.", field="content")
                newline = "\r\n" if "\r\n" in text else "\n"
                end = len(new) - len(body.replace("\n", newline))
                content = f"\n{said.strip(chr(10))}\n".replace("\n", newline)
                new = spliced(new, [Splice(end, len(new), content)])
            draft.write(path, new, f"changed {', '.join(changed) or 'nothing'}", memory_id=row["memory_id"])
            return id

        return self._do(work, now, dry_run)

    def delete(self, id: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Delete a note; its id.

        Raises
        ------
        NotFoundError
            For an unknown id.
        """
        row = self._row(id)

        def work(draft: Draft) -> str:
            draft.delete(row["path"], "deleted", memory_id=row["memory_id"])
            return id

        return self._do(work, now, dry_run)

    def list(self) -> pa.Table:
        """The notes, the one changed last first: id, subject, keywords, applies_to, created_at, updated_at, path."""
        notes = read(self.root).tables["notes"].sort_by([("updated_at", "descending"), ("id", "ascending")])
        return describe(notes.select(list(_LISTED)), memkit="notes")

    def get(self, id: str) -> dict[str, Any]:
        """The fields of a note and its content.

        Raises
        ------
        NotFoundError
            For an unknown id.
        """
        row = self._row(id)
        fields, body = _parsed(self._reader().text(row["path"]))
        return {**fields, "content": body}

    def search(self, words: str, k: int = 5) -> pa.Table:
        """The notes that hold these words, best first: hits of a Retriever."""
        return Retriever(encoder=None).fit(read(self.root)).search(words, k=k, where="kind = 'note'")

    def validate(self) -> pa.Table:
        """What is wrong with the notes: rows of ``problems``."""
        return read(self.root).problems

    def _row(self, id: str) -> dict[str, Any]:
        notes = read(self.root).tables["notes"]
        rows = notes.filter(pc.equal(notes["id"], checked(id, "id"))).to_pylist()
        if not rows:
            raise missing("note", id, [word for word in notes["id"].to_pylist() if word])
        if len(rows) > 1 or not rows[0]["path"].lower().endswith((".md", ".markdown")):
            raise FormatError(f"{rows[0]['path']}: the note {id} is there {len(rows)} times, or within a log.")
        found: dict[str, Any] = rows[0]
        return found


def _parsed(text: str) -> tuple[dict[str, Any], str]:
    return parse_note(text.removeprefix("\ufeff").replace("\r\n", "\n"))
