"""The notes of the Memory Format: create, update and delete, one file each."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.fences import fences, headings, is_heading
from memkit.base.params import AsOf, describe
from memkit.change.disk import check_path
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing, stamp
from memkit.errors import FormatError, ParameterError, did_you_mean
from memkit.formats.fields import words_given
from memkit.formats.format import MARKDOWN
from memkit.formats.notes.format import check_body, check_fields, format_note, parse_note
from memkit.formats.syntax.places import Head, Splice, line_end, plain_lines, spliced, with_values
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus, read

_EDITABLE = ("subject", "keywords", "applies_to", "content")
_UNDERLINED = re.compile(r" {0,3}=+[ \t]*")
_PARAGRAPH = re.compile(r" {0,3}(?![-*+>|] |\d+[.)] )\S")
"""A line of a paragraph, which ``===`` below makes a heading; under an item, a quote or a table it is text."""
_NOTE_COLUMNS = {"title": "subject", "source_id": "id", "scope": "scope"}
"""Columns of memories that a hit of a note shows, and their names there."""
_LIST_COLUMNS = ("id", "subject", "keywords", "applies_to", "created_at", "updated_at", "path")


class NoteStore(Operations):
    """Notes below a folder: front matter and body, named after their id.

    Parameters
    ----------
    root : Path
        The folder above the notes.
    folder : str, optional
        The folder of new notes, relative to `root`; None is the folder that holds most notes.

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

    def __init__(self, root: Path, folder: str | None = None) -> None:
        super().__init__(root)
        self.folder = None if folder is None else _checked_folder(folder)

    def create(
        self,
        subject: str,
        keywords: Sequence[str],
        applies_to: str,
        content: str,
        *,
        folder: str | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write a new note with a UUID of version 4, which also names its file.

        Content without a heading of level 1 gets the subject as its heading. The note is written to `folder`, else to
        the store's folder, else to the one that holds most notes.

        Returns
        -------
        str
            The id.

        Raises
        ------
        FormatError
            For a field that breaks the format's rules.
        """
        id = str(uuid.uuid4())

        target_folder = self.folder if folder is None else _checked_folder(folder)

        def work(draft: Draft) -> str:
            time = stamp(draft.moment)
            fields = {"id": id, "subject": subject, "keywords": words_given(keywords), "applies_to": applies_to}
            fields |= {"created_at": time, "updated_at": time}
            check_fields(fields)
            place = usual_folder(read(self.root)) if target_folder is None else target_folder
            path = f"{place}/{id}.md" if place else f"{id}.md"
            draft.write(
                path, format_note(fields, _body(content, subject)), "a new note", memory_id=f"notes:{path}#{id}"
            )
            return id

        return self._do(work, now, dry_run)

    def update(self, id: str, /, *, now: AsOf = None, dry_run: bool = False, **changed: Any) -> str | Edits:
        """Change subject, keywords, applies_to or content of a note; ``updated_at`` becomes now, and all else stays.

        Returns
        -------
        str
            The id.

        Raises
        ------
        NotFoundError
            For an unknown id.
        ParameterError
            For an unknown field, one that never changes, and where no field is given.
        FormatError, ChangeRefusedError
            For a value that breaks the format's rules, and where its place in the file is not certain.
        """
        for name in changed or [""]:
            if name not in _EDITABLE:
                got = f"{name!r:.80}.{did_you_mean(name, _EDITABLE)}" if changed else "none."
                raise ParameterError(f"update: expected some of {', '.join(_EDITABLE)}. Got {got}")
        row = self._row(id)

        def work(draft: Draft) -> str:
            path = row["path"]
            text = draft.text(path)
            _, body = _parsed(text)
            values = {name: words_given(v) if name == "keywords" else v for name, v in changed.items()}
            values.pop("content", None)
            check_fields(values, values)  # fields that do not change are not checked
            new = with_values(text, {**values, "updated_at": _update_stamp(row["created_at"], draft.moment)}, Head)
            if "content" in changed:
                newline = line_end(text)
                end = len(new) - len(body.replace("\n", newline))
                new_body = _body(changed["content"], str(values.get("subject", row["subject"] or ""))).replace(
                    "\n", newline
                )
                new = spliced(new, [Splice(end, len(new), new_body)])
            draft.write(path, new, f"changed {', '.join(changed)}", memory_id=row["memory_id"])
            return id

        return self._do(work, now, dry_run)

    def delete(self, id: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Delete a note, and return its id.

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
        """All notes, the last changed first: id, subject, keywords, applies_to, created_at, updated_at, path."""
        notes = read(self.root).tables["notes"].sort_by([("updated_at", "descending"), ("id", "ascending")])
        return describe(notes.select(list(_LIST_COLUMNS)), memkit="notes")

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
        """Search the notes by words, best first: hits of a Retriever with subject, id and scope."""
        query = checked(words, "words", filled=False)
        return note_hits(Retriever(encoder=None).fit(read(self.root)), query, k)

    def validate(self) -> pa.Table:
        """The problems of the files that hold notes: rows of ``problems``; `memkit.read` has those of all files."""
        corpus = read(self.root)
        notes = corpus.memories.filter(pc.equal(corpus.memories["format"], "notes"))
        return corpus.problems.filter(pc.is_in(corpus.problems["path"], value_set=notes["path"].combine_chunks()))

    def _row(self, id: str) -> dict[str, Any]:
        notes = read(self.root).tables["notes"]
        rows = notes.filter(pc.equal(notes["id"], checked(id, "id"))).to_pylist()
        if not rows:
            raise missing("note", id, [known_id for known_id in notes["id"].to_pylist() if known_id])
        if len(rows) > 1 or not rows[0]["path"].lower().endswith((".md", ".markdown")):
            raise FormatError(f"{rows[0]['path']}: {len(rows)} notes have the id {id}, or it is an entry of a log.")
        row: dict[str, Any] = rows[0]
        return row


def note_hits(search: Retriever, words: str, k: int) -> pa.Table:
    """The notes among the hits of a search, each with its subject, id and scope."""
    hits = search.search(words, k=k, where="kind = 'note'", columns=tuple(_NOTE_COLUMNS))
    hits = hits.filter(pc.greater(hits["score"], 0.0))  # a score of 0 shares no word with the query
    renamed = hits.rename_columns([_NOTE_COLUMNS.get(name, name) for name in hits.column_names])
    return renamed.replace_schema_metadata(hits.schema.metadata)


def usual_folder(corpus: Corpus) -> str:
    """The folder that holds most notes (the first by name of several); the root where there are no notes."""
    paths = corpus.memories.filter(pc.equal(corpus.memories["kind"], "note"))["path"].to_pylist()
    counts = Counter(path.rpartition("/")[0] for path in paths if path.lower().endswith(MARKDOWN))
    return min(counts, key=lambda folder: (-counts[folder], folder), default="")


def _checked_folder(folder: str) -> str:
    """`folder`, checked as a folder below the root; "" is the root."""
    if not isinstance(folder, str):
        raise ParameterError(f"folder: expected a text. Got {folder!r:.80}.")
    path = folder.removesuffix("/") if folder != "/" else folder
    check_path(f"{path}/note.md" if path else "note.md")
    return path


def _body(content: str, subject: str) -> str:
    """The text below the front matter: `content`, under the subject where it has no heading of level 1."""
    body = checked(content, "content").replace("\r\n", "\n").strip("\n")
    check_body(body)
    heading = "" if _has_title(body) else f"# {subject}\n\n"
    return f"\n{heading}{body}\n"


def _has_title(body: str) -> bool:
    """Whether a heading of level 1 stands outside of the code fences, also one that is underlined."""
    code, lines = fences(body), body.split("\n")
    if any(heading.level == 1 for heading in headings(body, code)):
        return True
    return any(
        _UNDERLINED.fullmatch(line) and _PARAGRAPH.match(above) and not is_heading(above) and number not in code
        for number, (above, line) in enumerate(pairwise(lines), 2)
    )


def _update_stamp(created: datetime | None, moment: datetime) -> str:
    """The time of a change as notes write it, to the second, and never before `created`."""
    updated = moment if created is None else max(moment, created)
    seconds = updated.replace(microsecond=0)
    return stamp(seconds + timedelta(seconds=1) if created is not None and seconds < created else seconds)


def _parsed(text: str) -> tuple[dict[str, Any], str]:
    return parse_note(plain_lines(text))
