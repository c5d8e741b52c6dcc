"""The records of the data formats: put one, count its use, bring old shapes up to date."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.memories import record_text
from memkit.change.migrate import Migrate
from memkit.change.operations import Operations, missing, stamp
from memkit.change.planning import plan
from memkit.errors import ChangeRefusedError, FormatError
from memkit.formats.records.kinds import RECORD_KINDS
from memkit.formats.records.write import checked_record, format_record
from memkit.formats.syntax.json import LINES
from memkit.formats.syntax.places import Json, Splice, syntax_of, with_values
from memkit.formats.syntax.values import integer_of, number_of
from memkit.formats.syntax.yaml import ENDINGS as YAML
from memkit.params import AsOf
from memkit.tables.sources import read

_NAME = re.compile(r"[^\w.-]+")


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
        self, record: Mapping[str, Any], path: str | None = None, *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Write a new record, as a file of its own that is named after its id, or at the end of a list that is there.

        Returns
        -------
        str
            The path.

        Raises
        ------
        FormatError
            Where a field is not as the format wants it, or its id is taken.
        """
        kind, values = checked_record(record)
        field = RECORD_KINDS[kind].id_field
        own = str(values[field]) if field else f"{values['user_id']}-{values['timestamp']}"
        name = path or f"{_NAME.sub('-', own).strip('.-') or 'record'}.json"

        def work(draft: Draft) -> str:
            if field and own in read(self.root).tables[RECORD_KINDS[kind].table][field].to_pylist():
                raise FormatError(
                    f"field '{field}' must be an id that no other {kind} has. Got {own!r:.80}.", field=field
                )
            about: dict[str, Any] = {"reason": f"a new {kind}", "memory_id": f"records:{name}#{own}" if field else None}
            if not draft.exists(name):
                text = format_record(record, "yaml" if name.lower().endswith(YAML) else "json")
                draft.write(name, _on_a_line(text) if name.lower().endswith(LINES) else text, **about)
            elif name.lower().endswith(LINES):
                draft.append(name, draft.text(name), _on_a_line(format_record(record, "json")), **about)
            elif name.lower().endswith(YAML) or not _is_list(draft.document(name).json):
                raise ChangeRefusedError(f"{name}: it is there already, and no list of JSON.")
            else:
                new = draft.document(name).json.append([], json.loads(format_record(record, "json")))
                draft.splice("update", name, new, **about)
            return name

        return self._do(work, now, dry_run)

    def record_use(self, id: str, success: bool, *, now: AsOf = None, dry_run: bool = False) -> dict[str, Any] | Edits:
        """Count one use of a pathway: hits, the running mean success_rate, last_used_at; what they are then.

        Raises
        ------
        NotFoundError
            For an unknown id.
        ChangeRefusedError
            Where its place in the file is not certain.
        """

        def work(draft: Draft) -> dict[str, Any]:
            corpus = read(self.root)
            rows = [row for row in corpus.tables["pathways"].to_pylist() if row["id"] == id]
            if len(rows) != 1:
                raise missing("pathway", id, [word for word in corpus.tables["pathways"]["id"].to_pylist() if word])
            path, memory_id = rows[0]["path"], rows[0]["memory_id"]
            memories = [row for row in corpus.memories.to_pylist() if row["path"] == path]
            ordinal = [row["memory_id"] for row in memories].index(memory_id)
            hits, rate = integer_of(rows[0]["hits"]) or 0, number_of(rows[0]["success_rate"]) or 0.0
            mean = round((rate * hits + bool(success)) / (hits + 1), 12)
            used = {"hits": hits + 1, "success_rate": mean, "last_used_at": stamp(draft.moment)}
            start, text = record_text(draft, memories[ordinal], ordinal)
            new = with_values(text, used, syntax_of(path), "usage_stats")
            reason = f"used, {'with' if success else 'without'} success"
            draft.splice("update", path, Splice(start, start + len(text), new), reason, memory_id=memory_id)
            return used

        return self._do(work, now, dry_run)

    def migrate(self, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Bring old shapes to the current version, with a line each in ``migrations.jsonl``; the files."""
        edits = plan(read(self.root), Migrate(steps=("records",)), now)
        return edits if dry_run else edits.apply()


def _is_list(json: Json) -> bool:
    return json.text.startswith("[", json.start)


def _on_a_line(text: str) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False) + "\n"
