"""The records of the data formats: write one, count its use, migrate old shapes."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from memkit.base.params import AsOf, check_value
from memkit.change.draft import Draft, Operations, applied, checked, missing, stamp
from memkit.change.edits import Edits
from memkit.change.memories import changed_record
from memkit.change.migrate import Migrate
from memkit.change.planning import plan
from memkit.errors import ChangeRefusedError, FormatError, ParameterError, did_you_mean
from memkit.formats.disk.files import SKIPPED_WITH
from memkit.formats.disk.source import above
from memkit.formats.reader import read_with
from memkit.formats.records.format import ENDINGS
from memkit.formats.records.kinds import RECORD_KINDS, WITHIN
from memkit.formats.records.write import check_fields, checked_record, with_records
from memkit.formats.rows import Row
from memkit.formats.syntax.places import Splice
from memkit.tables.corpus import Corpus, read
from memkit.text.secrets import mask

_NAME = re.compile(r"[^\w.-]+")
_MAX_STEM = 80
"""Characters of an id used as its file name: with folders and suffix within the limit of every system."""


class RecordStore(Operations):
    """Pathways, memory items and wisdom facts: one record per file, or a list of them.

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
        """Write a new record into a file named after its id, or append it to an existing list.

        A list of records is written whole or not at all. A record that `memkit.read` would report as an error, or
        would read as something else, is refused; a warning of the reader, such as an unknown tier, is a warning here
        too. A record without ``format_version`` gets the current one.

        Parameters
        ----------
        record : mapping, or list of mapping
            A Pathway, Memory Item or Wisdom Fact, recognised by its fields.
        path : str, optional
            A .json, .jsonl, .ndjson, .yaml or .yml file: a new one, or one that holds a list.

        Returns
        -------
        str or list of str
            The path; for a list of records, the path of each.

        Raises
        ------
        ParameterError, FormatError, VersionError
            For a field that breaks the format's rules, an id that exists, or a file that no reader takes for records.
        ChangeRefusedError
            Where the file exists and holds no list: a file of one record is never turned into a list.
        """
        new_records = [record] if isinstance(record, Mapping) else record
        if not isinstance(new_records, Sequence) or isinstance(new_records, (str, bytes)) or not new_records:
            raise ParameterError(f"put: expected a record, or a list of records. Got {record!r:.80}.")
        new = [checked_record(fields) for fields in new_records]
        if path is not None and not checked(path, "path").lower().endswith(ENDINGS):
            raise FormatError(f"path: expected a name that ends in {', '.join(ENDINGS)}. Got {path!r:.80}.")

        def work(draft: Draft) -> list[str]:
            corpus = read(self.root)
            for kind, values in _with_taken_ids(new, corpus):
                field = RECORD_KINDS[kind].id_field
                expected = f"an id that no other {kind} has. Got {values[field]!r:.80}"
                raise FormatError(f"field '{field}' must be {expected}.", field=field)
            names = _file_names(draft, [_file_stem(kind, values) for kind, values in new], path)
            files: dict[str, list[Row]] = {}
            for name, (_, values) in zip(names, new, strict=True):
                files.setdefault(name, []).append(values)
            after: dict[str, bytes | None] = {}
            for name, records in files.items():
                self._refuse_skipped(name)
                before = draft.document(name).text if draft.exists(name) else None
                text = with_records(name, before, records, is_list=path is not None and record is not new_records[0])
                after[name] = text.encode()
                _draft_text(draft, name, before, text, f"new records: {len(records)}")
            self._check(corpus, after, new)
            return names

        result = self._do(work, now, dry_run)
        return result[0] if isinstance(result, list) and record is new_records[0] else result

    def _refuse_skipped(self, name: str) -> None:
        """Raise where a mark in a folder above the file makes readers skip it."""
        for folder in filter(None, above(name)):
            for mark in sorted(SKIPPED_WITH):
                if (self.root / folder / mark).exists():
                    raise FormatError(f"path: expected a file that is read as records. {folder}/{mark} has it skipped.")

    def _check(self, corpus: Corpus, after: Mapping[str, bytes | None], new: Sequence[tuple[str, Row]]) -> None:
        """Raise where the reader would miss a record of `new` in `after`, or report an error; pass on its warnings."""
        before = corpus._source()
        tables = read_with(before, after).tables
        known_problems = Counter(map(_problem_key, before.tables["problems"].to_pylist()))
        problems = [row for row in tables["problems"].to_pylist() if not known_problems.get(_problem_key(row))]
        errors = [row["message"] for row in problems if row["severity"] == "error"]
        if errors:
            raise FormatError(f"a record: the reader would report it. {errors[0]}")
        for kind, records in Counter(kind for kind, _ in new).items():
            table = RECORD_KINDS[kind].table
            if tables[table].num_rows != before.tables[table].num_rows + records:
                raise FormatError(f"path: expected a file that is read as records. Got {', '.join(after)}.")
        if problems:
            warnings.warn(" ".join(row["message"] for row in problems), RuntimeWarning, stacklevel=6)

    def record_use(self, id: str, success: bool, *, now: AsOf = None, dry_run: bool = False) -> dict[str, Any] | Edits:
        """Count one use of a pathway, and return its new hits, success_rate (a running mean) and last_used_at.

        A use that is reported late is counted, and ``last_used_at`` keeps the latest time.

        Raises
        ------
        ParameterError, FormatError
            Where `success` is no bool, and where the counters in the file are out of range.
        NotFoundError
            For an unknown id.
        ChangeRefusedError
            Where several pathways have the id, the record has an older shape, or its place is not certain.
        """
        checked(id, "id")
        check_value("record_use", "success", success, "bool")

        def work(draft: Draft) -> Row:
            corpus = read(self.root)
            _, row = _record(corpus, id, ("pathway",))
            hits, rate = row["hits"] or 0, row["success_rate"] or 0.0
            WITHIN["usage_stats"].strict({"hits": hits, "success_rate": rate})
            # Rounded, as a running mean has last digits that nobody wrote.
            usage = {"hits": hits + 1, "success_rate": round((rate * hits + success) / (hits + 1), 12)}
            is_later = row["last_used_at"] is None or row["last_used_at"] < draft.moment
            last_used = {"last_used_at": stamp(draft.moment if is_later else row["last_used_at"])}
            values = usage | last_used if is_later else usage
            _draft_fields(
                draft, corpus, row, values, f"used, {'with' if success else 'without'} success", "usage_stats"
            )
            return usage | last_used

        return self._do(work, now, dry_run)

    def update(self, id: str, /, *, now: AsOf = None, dry_run: bool = False, **changed: Any) -> str | Edits:
        """Correct fields of a pathway or a wisdom fact under its id; all other fields stay, unknown ones too.

        Returns
        -------
        str
            The id.

        Raises
        ------
        NotFoundError
            For an unknown id.
        ParameterError, FormatError
            For an unknown field, one that never changes (the id, format_version), and a value that breaks the rules.
        ChangeRefusedError
            Where several records have the id, the record has an older shape, or its place is not certain.
        """
        checked(id, "id")

        def work(draft: Draft) -> str:
            corpus = read(self.root)
            kind, row = _record(corpus, id)
            fields = RECORD_KINDS[kind].fields
            editable = fields.names - {RECORD_KINDS[kind].id_field, "format_version"}
            for name in changed or [""]:
                if name not in editable:
                    got = f"{name!r:.80}.{did_you_mean(name, editable)}" if changed else "none."
                    raise ParameterError(f"update: expected some of {', '.join(sorted(editable))}. Got {got}")
            check_fields(fields.only(*changed), changed)
            _draft_fields(draft, corpus, row, changed, f"changed {', '.join(changed)}")
            return id

        return self._do(work, now, dry_run)

    def migrate(self, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Migrate old shapes to the current version, with a line each in ``migrations.jsonl``.

        Returns
        -------
        pyarrow.Table
            The changed files: path, op, sha256_before, sha256_after; and a row with op ``refused`` and the reason for
            each that could not be migrated. With `dry_run`, the `Edits`.
        """
        edits = plan(read(self.root), Migrate(steps=("records",)), now)
        return edits if dry_run else applied(edits)


def _file_stem(kind: str, values: Row) -> str:
    """The name of a record's file, without its suffix."""
    field = RECORD_KINDS[kind].id_field
    return str(values[field]) if field else f"{values['user_id']}-{values['timestamp']}"


def _with_taken_ids(new: Sequence[tuple[str, Row]], corpus: Corpus) -> Iterator[tuple[str, Row]]:
    """The `new` records whose id occurs in the corpus, or twice among them."""
    for kind, group in groupby(sorted(new, key=itemgetter(0)), key=itemgetter(0)):
        field = RECORD_KINDS[kind].id_field
        taken = set(corpus.tables[RECORD_KINDS[kind].table][field].to_pylist()) if field else set()
        for _, values in group:
            if field and values[field] in taken:
                yield kind, values
            taken.add(values[field] if field else None)


def _file_names(draft: Draft, stems: Sequence[str], path: str | None) -> list[str]:
    """The file of each record: `path`, or a name that no file at the root has, ignoring case."""
    if path is not None:
        return [path] * len(stems)
    names, taken = list[str](), {name.casefold() for name in draft.names("")}
    for text in stems:
        stem = _NAME.sub("-", text).strip(".-")[:_MAX_STEM] or "record"
        numbered = (f"{stem}-{number}.json" for number in count(2))
        name = next(name for name in chain([f"{stem}.json"], numbered) if name.casefold() not in taken)
        taken.add(name.casefold())
        names.append(name)
    return names


def _draft_text(draft: Draft, name: str, before: str | None, after: str, reason: str) -> None:
    """Draft the change of a file as one splice of the part that differs."""
    if before is None:
        draft.write(name, after, reason)
        return
    start = _common_prefix(before, after)
    end = _common_prefix(before[start:][::-1], after[start:][::-1])
    splice = Splice(start, len(before) - end, after[start : len(after) - end])
    draft.splice("update", name, splice, reason)


def _common_prefix(first: str, second: str) -> int:
    """The length of the common prefix of two texts."""
    differ = (position for position, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differ, min(len(first), len(second)))


def _draft_fields(draft: Draft, corpus: Corpus, row: Row, values: Row, reason: str, *above: str) -> None:
    """Draft new values for fields of a record, or of the object at the path `above` in it."""
    memories = [memory for memory in corpus.memories.to_pylist() if memory["path"] == row["path"]]
    ordinal = [memory["memory_id"] for memory in memories].index(row["memory_id"])
    splice = changed_record(draft, memories[ordinal], ordinal, values, *above)
    draft.splice("update", row["path"], splice, reason, memory_id=row["memory_id"])


def _record(corpus: Corpus, id: str, kinds: Sequence[str] = ("pathway", "wisdom_fact")) -> tuple[str, Row]:
    """The kind and the row of the one record with an id, of the current shape."""
    records = [
        (kind, row, row[RECORD_KINDS[kind].id_field])
        for kind in kinds
        for row in corpus.tables[RECORD_KINDS[kind].table].to_pylist()
    ]
    found = [(kind, row) for kind, row, name in records if name == id]
    word = kinds[0] if len(kinds) == 1 else "record"
    if not found:
        raise missing(word, id, [name for _, _, name in records if name])
    if len(found) > 1:
        ids = {row["memory_id"] for _, row in found}
        memories = [row for row in corpus.memories.to_pylist() if row["memory_id"] in ids]
        listed = ", ".join(f"{row['path']}:{row['line_start']}" for row in memories)
        raise ChangeRefusedError(f"{len(found)} {word}s have the id {mask(repr(id)):.80}: {listed}.")
    kind, row = found[0]
    steps = corpus.tables["migrations"].select(["memory_id", "time"]).to_pylist()
    if {"memory_id": row["memory_id"], "time": None} in steps:
        raise ChangeRefusedError(f"{row['path']}: the record is of an older shape; records.migrate() first.")
    return kind, row


def _problem_key(problem: Row) -> tuple[Any, ...]:
    return problem["path"], problem["rule"], problem["message"]
