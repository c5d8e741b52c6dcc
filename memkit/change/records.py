"""The records of the data formats: put one, count its use, bring old shapes up to date."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.memories import changed_record
from memkit.change.migrate import Migrate
from memkit.change.operations import Operations, applied, checked, missing, stamp
from memkit.change.planning import plan
from memkit.errors import ChangeRefusedError, FormatError, ParameterError
from memkit.formats.disk.files import SKIPPED_WITH
from memkit.formats.index_tree.whole import above
from memkit.formats.reader import read_with
from memkit.formats.records.format import ENDINGS
from memkit.formats.records.kinds import RECORD_KINDS, WITHIN
from memkit.formats.records.write import checked_record, with_records
from memkit.formats.syntax.places import Splice
from memkit.params import AsOf
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read

_NAME = re.compile(r"[^\w.-]+")
_LONGEST = 80
"""Characters of an id that name its file: with folders and endings less than any system takes."""
Row = dict[str, Any]


class RecordStore(Operations):
    """Pathways, memory items and wisdom facts, one a file, or where they are in a list.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> records = mk.store(tempfile.mkdtemp()).records
    >>> records.put({"format_version": "1.0.0", "fact_id": "tea", "category": "taste", "content": "Чай без сахара",
    ...     "confidence": 0.9, "relations": []})
    'tea.json'
    """

    policy = "records"

    def put(
        self,
        record: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        path: str | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | list[str] | Edits:
        """Write a new record, as a file of its own that is named after its id, or at the end of a list that is there.

        A list of records is written whole or not at all. Nothing is written that `memkit.read` would report as an
        error, or would not read as what was given; what it only warns of, as a tier that the document does not name,
        is a warning here too. A record without ``format_version`` gets the current one.

        Parameters
        ----------
        record : mapping, or list of mapping
            A Pathway, Memory Item or Wisdom Fact, told by its fields.
        path : str, optional
            A file that ends as records do (.json, .jsonl, .ndjson, .yaml, .yml): a new one, or one that holds a list.

        Returns
        -------
        str or list of str
            The path; of a list of records, that of each.

        Raises
        ------
        ParameterError, FormatError, VersionError
            Where a field is not as the format wants it, an id is taken, or no reader takes the file for records.
        ChangeRefusedError
            Where the file is there and holds no list: a file of one record is never made a list of two.
        """
        given = [record] if isinstance(record, Mapping) else record
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes)) or not given:
            raise ParameterError(f"put: expected a record, or a list of records. Got {record!r:.80}.")
        new = [checked_record(one) for one in given]
        if path is not None and not checked(path, "path").lower().endswith(ENDINGS):
            raise FormatError(f"path: expected a name that ends in {', '.join(ENDINGS)}. Got {path!r:.80}.")

        def work(draft: Draft) -> list[str]:
            corpus = read(self.root)
            for kind, values in _unlike(new, corpus):
                field = RECORD_KINDS[kind].id_field
                said = f"an id that no other {kind} has. Got {values[field]!r:.80}"
                raise FormatError(f"field '{field}' must be {said}.", field=field)
            names = _names(draft, [_own(kind, values) for kind, values in new], path)
            files: dict[str, list[Row]] = {}
            for name, (_, values) in zip(names, new, strict=True):
                files.setdefault(name, []).append(values)
            after: dict[str, bytes | None] = {}
            for name, records in files.items():
                self._refuse_skipped(name)
                before = draft.document(name).text if draft.exists(name) else None
                text = with_records(name, before, records, is_list=path is not None and record is not given[0])
                after[name] = text.encode()
                _draft_text(draft, name, before, text, f"new records: {len(records)}")
            self._check(corpus, after, new)
            return names

        found = self._do(work, now, dry_run)
        return found[0] if isinstance(found, list) and record is given[0] else found

    def _refuse_skipped(self, name: str) -> None:
        """Raise where a file lies in a folder that says itself that it is not read."""
        for folder in filter(None, above(name)):
            if said := next((mark for mark in sorted(SKIPPED_WITH) if (self.root / folder / mark).exists()), None):
                raise FormatError(f"path: expected a file that is read as records. {folder}/{said} has it skipped.")

    def _check(self, corpus: Corpus, after: Mapping[str, bytes | None], new: Sequence[tuple[str, Row]]) -> None:
        """Raise where the reader would not find the `new` records, or find an error, in `after`; warn of the rest."""
        before = corpus._source()
        found = read_with(before, after).tables
        known = Counter(map(_said, before.tables["problems"].to_pylist()))
        problems = [row for row in found["problems"].to_pylist() if not known.get(_said(row))]
        errors = [row["message"] for row in problems if row["severity"] == "error"]
        if errors:
            raise FormatError(f"a record: the reader would report it. {errors[0]}")
        for kind, records in Counter(kind for kind, _ in new).items():
            table = RECORD_KINDS[kind].table
            if found[table].num_rows != before.tables[table].num_rows + records:
                raise FormatError(f"path: expected a file that is read as records. Got {', '.join(after)}.")
        if problems:
            warnings.warn(" ".join(row["message"] for row in problems), RuntimeWarning, stacklevel=6)

    def record_use(self, id: str, success: bool, *, now: AsOf = None, dry_run: bool = False) -> dict[str, Any] | Edits:
        """Count one use of a pathway: hits, the running mean success_rate, last_used_at; what they are then.

        A use that is told late is counted, and ``last_used_at`` stays the last.

        Raises
        ------
        ParameterError, FormatError
            Where `success` is not true or false, or the numbers that are there cannot be.
        NotFoundError
            For an unknown id.
        ChangeRefusedError
            Where several have the id, its record is of an older shape, or its place in the file is not certain.
        """
        checked(id, "id")
        if not isinstance(success, bool):
            raise ParameterError(f"success: expected true or false. Got {success!r:.80}.")

        def work(draft: Draft) -> Row:
            corpus = read(self.root)
            row = _pathway(corpus, id)
            path, memory_id = row["path"], row["memory_id"]
            memories = [memory for memory in corpus.memories.to_pylist() if memory["path"] == path]
            ordinal = [memory["memory_id"] for memory in memories].index(memory_id)
            hits, rate = row["hits"] or 0, row["success_rate"] or 0.0
            WITHIN["usage_stats"].strict({"hits": hits, "success_rate": rate})
            used = {"hits": hits + 1, "success_rate": round((rate * hits + success) / (hits + 1), 12)}
            is_later = row["last_used_at"] is None or row["last_used_at"] < draft.moment
            last = {"last_used_at": stamp(draft.moment if is_later else row["last_used_at"])}
            values = used | last if is_later else used
            splice = changed_record(draft, memories[ordinal], ordinal, values, "usage_stats")
            reason = f"used, {'with' if success else 'without'} success"
            draft.splice("update", path, splice, reason, memory_id=memory_id)
            return used | last

        return self._do(work, now, dry_run)

    def migrate(self, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Bring old shapes to the current version, with a line each in ``migrations.jsonl``.

        Returns
        -------
        pyarrow.Table
            The files: path, op, sha256_before, sha256_after; and with op ``refused`` each that stays, with the reason.
            With `dry_run`, the `Edits`.
        """
        edits = plan(read(self.root), Migrate(steps=("records",)), now)
        return edits if dry_run else applied(edits)


def _own(kind: str, values: Row) -> str:
    """What a record's file is named after."""
    field = RECORD_KINDS[kind].id_field
    return str(values[field]) if field else f"{values['user_id']}-{values['timestamp']}"


def _unlike(new: Sequence[tuple[str, Row]], corpus: Corpus) -> Iterator[tuple[str, Row]]:
    """Those of the `new` records whose id is taken, there or among them."""
    for kind, group in groupby(sorted(new, key=itemgetter(0)), key=itemgetter(0)):
        field = RECORD_KINDS[kind].id_field
        taken = set(corpus.tables[RECORD_KINDS[kind].table][field].to_pylist()) if field else set()
        for _, values in group:
            if field and values[field] in taken:
                yield kind, values
            taken.add(values[field] if field else None)


def _names(draft: Draft, own: Sequence[str], path: str | None) -> list[str]:
    """The file of each record: `path`, or a name that no file at the root has in any case."""
    if path is not None:
        return [path] * len(own)
    names, taken = list[str](), {name.casefold() for name in draft.names("")}
    for one in own:
        stem = _NAME.sub("-", one).strip(".-")[:_LONGEST] or "record"
        numbered = (f"{stem}-{number}.json" for number in count(2))
        name = next(name for name in chain([f"{stem}.json"], numbered) if name.casefold() not in taken)
        taken.add(name.casefold())
        names.append(name)
    return names


def _draft_text(draft: Draft, name: str, before: str | None, after: str, reason: str) -> None:
    """Draft what makes a file another, as the one part that differs."""
    if before is None:
        draft.write(name, after, reason)
        return
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    splice = Splice(start, len(before) - end, after[start : len(after) - end])
    draft.splice("update", name, splice, reason)


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    differ = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def _pathway(corpus: Corpus, id: str) -> Row:
    """The one pathway of an id, in its current shape."""
    pathways = corpus.tables["pathways"].to_pylist()
    rows: list[Row] = [row for row in pathways if row["id"] == id]
    if not rows:
        raise missing("pathway", id, [row["id"] for row in pathways if row["id"]])
    if len(rows) > 1:
        ids = {row["memory_id"] for row in rows}
        memories = [row for row in corpus.memories.to_pylist() if row["memory_id"] in ids]
        each = ", ".join(f"{row['path']}:{row['line_start']}" for row in memories)
        raise ChangeRefusedError(f"{len(rows)} pathways have the id {id!r:.80}: {each}.")
    if rows[0]["memory_id"] in corpus.tables["migrations"]["memory_id"].to_pylist():
        raise ChangeRefusedError(f"{rows[0]['path']}: the record is of an older shape; records.migrate() first.")
    return rows[0]


def _said(problem: Row) -> tuple[Any, ...]:
    return problem["path"], problem["rule"], problem["message"]
