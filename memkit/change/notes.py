"""The notes of the Memory Format: create, update and delete, one file each."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change.disk import check_path
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing, stamp
from memkit.errors import FormatError, ParameterError, did_you_mean
from memkit.fences import fences, headings
from memkit.formats.fields import words_given
from memkit.formats.format import MARKDOWN
from memkit.formats.notes.format import check_body, check_fields, format_note, parse_note
from memkit.formats.syntax.places import Head, Splice, spliced, with_values
from memkit.params import AsOf, describe
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read

_CHANGED = ("subject", "keywords", "applies_to", "content")
_CALLED = {"title": "subject", "source_id": "id", "scope": "scope"}
"""What the columns of memories are called that a hit shows of a note."""
_LISTED = ("id", "subject", "keywords", "applies_to", "created_at", "updated_at", "path")


class NoteStore(Operations):
    """Notes below a folder: front matter and body, named after their id.

    Parameters
    ----------
    root : Path
        The folder.
    folder : str, optional
        Where new notes go, relative to `root`; None is where most of the others lie.

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
        self.folder = None if folder is None else _folder(folder)

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
        """A new note with an id of version 4, named after it; below a heading of its subject where it has none.

        It goes to `folder`, else to the store's, else where most of the other notes lie.

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

        given = self.folder if folder is None else _folder(folder)

        def work(draft: Draft) -> str:
            time = stamp(draft.moment)
            fields = {"id": id, "subject": subject, "keywords": words_given(keywords), "applies_to": applies_to}
            fields |= {"created_at": time, "updated_at": time}
            check_fields(fields)
            place = usual_folder(read(self.root)) if given is None else given
            path = f"{place}/{id}.md" if place else f"{id}.md"
            draft.write(
                path, format_note(fields, _body(content, subject)), "a new note", memory_id=f"notes:{path}#{id}"
            )
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
            For a field that never changes, or is none, and where no field is given.
        FormatError, ChangeRefusedError
            Where a value is not as the format wants it, or its place in the file is not certain.
        """
        for name in changed or [""]:
            if name not in _CHANGED:
                got = f"{name!r:.80}.{did_you_mean(name, _CHANGED)}" if changed else "none."
                raise ParameterError(f"update: expected some of {', '.join(_CHANGED)}. Got {got}")
        row = self._row(id)

        def work(draft: Draft) -> str:
            path = row["path"]
            text = draft.text(path)
            _, body = _parsed(text)
            values = {name: words_given(v) if name == "keywords" else v for name, v in changed.items()}
            values.pop("content", None)
            check_fields(values, values)  # what the file has already may be as it is
            new = with_values(text, {**values, "updated_at": _not_before(row["created_at"], draft.moment)}, Head)
            if "content" in changed:
                newline = "\r\n" if "\r\n" in text else "\n"
                end = len(new) - len(body.replace("\n", newline))
                said = _body(changed["content"], str(values.get("subject", row["subject"] or ""))).replace(
                    "\n", newline
                )
                new = spliced(new, [Splice(end, len(new), said)])
            draft.write(path, new, f"changed {', '.join(changed)}", memory_id=row["memory_id"])
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
        """The notes that hold these words, best first: hits of a Retriever with subject, id and scope of each."""
        said = checked(words, "words", filled=False)
        return note_hits(Retriever(encoder=None).fit(read(self.root)), said, k)

    def validate(self) -> pa.Table:
        """The problems of the files that hold notes: rows of ``problems``; `memkit.read` has those of all files."""
        corpus = read(self.root)
        notes = corpus.memories.filter(pc.equal(corpus.memories["format"], "notes"))
        return corpus.problems.filter(pc.is_in(corpus.problems["path"], value_set=notes["path"].combine_chunks()))

    def _row(self, id: str) -> dict[str, Any]:
        notes = read(self.root).tables["notes"]
        rows = notes.filter(pc.equal(notes["id"], checked(id, "id"))).to_pylist()
        if not rows:
            raise missing("note", id, [word for word in notes["id"].to_pylist() if word])
        if len(rows) > 1 or not rows[0]["path"].lower().endswith((".md", ".markdown")):
            raise FormatError(f"{rows[0]['path']}: the note {id} is there {len(rows)} times, or within a log.")
        found: dict[str, Any] = rows[0]
        return found


def note_hits(search: Retriever, words: str, k: int) -> pa.Table:
    """The notes among the hits of a search, each with its subject, id and scope."""
    hits = search.search(words, k=k, where="kind = 'note'", columns=tuple(_CALLED))
    hits = hits.filter(pc.greater(hits["score"], 0.0))  # what shares nothing with the words is no answer
    called = hits.rename_columns([_CALLED.get(name, name) for name in hits.column_names])
    return called.replace_schema_metadata(hits.schema.metadata)


def usual_folder(corpus: Corpus) -> str:
    """The folder where most notes lie, the first by name of several; the root where there are none."""
    paths = corpus.memories.filter(pc.equal(corpus.memories["kind"], "note"))["path"].to_pylist()
    found = Counter(path.rpartition("/")[0] for path in paths if path.lower().endswith(MARKDOWN))
    return min(found, key=lambda folder: (-found[folder], folder), default="")


def _folder(given: str) -> str:
    """A folder below the root that notes may go to; "" is the root."""
    if not isinstance(given, str):
        raise ParameterError(f"folder: expected a text. Got {given!r:.80}.")
    place = given.removesuffix("/") if given != "/" else given
    check_path(f"{place}/note.md" if place else "note.md")
    return place


def _body(content: str, subject: str) -> str:
    """What stands below the front matter: `content`, under a heading where it has none."""
    said = checked(content, "content").replace("\r\n", "\n").strip("\n")
    check_body(said)
    heading = "" if any(headings(said, fences(said))) else f"# {subject}\n\n"
    return f"\n{heading}{said}\n"


def _not_before(created: datetime | None, moment: datetime) -> str:
    """The time of a change as notes write it, to the second; never one before `created`."""
    late = moment if created is None else max(moment, created)
    whole = late.replace(microsecond=0)
    return stamp(whole + timedelta(seconds=1) if created is not None and whole < created else whole)


def _parsed(text: str) -> tuple[dict[str, Any], str]:
    return parse_note(text.removeprefix("\ufeff").replace("\r\n", "\n"))
