"""The graph of the MCP memory server: the operations of its tools, each line that they do not touch left as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing, stamp
from memkit.errors import ChangeRefusedError, ParameterError, PolicyRefusal
from memkit.formats.mcp_graph import ENDINGS, Line, lines_of, places_of
from memkit.formats.syntax.places import Json, Splice, line_end
from memkit.params import AsOf, describe
from memkit.tables.corpus import read

_DEFAULT = "memory.jsonl"
Row = dict[str, Any]


class GraphStore(Operations):
    """Entities, observations and relations of an MCP memory graph, one file of JSON lines.

    The operations are those of the server's tools. Lines that an operation does not touch keep their bytes, and a
    changed line keeps its unknown keys; a new line has the keys that the file's other lines have.

    Parameters
    ----------
    root : Path
        The folder that holds the file, or one above it.
    path : str, optional
        The file, relative to `root`; None is the one graph that is there, else ``memory.jsonl``.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> graph = mk.store(tempfile.mkdtemp()).graph
    >>> _ = graph.create_entity("Склад", "project", ["открыт с 2024"])
    >>> _ = graph.create_entity("Анна", "person")
    >>> _ = graph.create_relation("Склад", "Анна", "ведёт")
    >>> graph.add_observations("Анна", ["любит чай"])
    ['любит чай']
    >>> print((graph.root / "memory.jsonl").read_text(encoding="utf-8").splitlines()[1])
    {"type":"entity","name":"Анна","entityType":"person","observations":["любит чай"]}
    """

    policy = "graph"

    def __init__(self, root: Path, path: str | None = None) -> None:
        super().__init__(root)
        if path is not None and not checked(path, "path").lower().endswith(ENDINGS):
            raise ParameterError(f"path: expected a name that ends in {', '.join(ENDINGS)}. Got {path!r:.80}.")
        self.path = path

    def create_entity(
        self,
        name: str,
        entity_type: str,
        observations: Iterable[str] = (),
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write a new entity below the last one, and return its name.

        Raises
        ------
        PolicyRefusal
            With the reason duplicate, where an entity has the name.
        """
        checked(name, "name")
        checked(entity_type, "entity_type")
        said = _texts(observations, "observations")

        def work(draft: Draft) -> str:
            file = _File(draft, self._path())
            if file.entities(name):
                raise PolicyRefusal(f"duplicate: there is an entity {name!r:.80} already.", "duplicate")
            fields: Row = {"name": name, "entityType": entity_type, "observations": file.observations(said)}
            file.insert("entity", fields, f"a new entity {name!r:.80}")
            return name

        return self._do(work, now, dry_run)

    def add_observations(
        self, name: str, observations: Iterable[str], *, now: AsOf = None, dry_run: bool = False
    ) -> list[str] | Edits:
        """Add observations to an entity, and return those that it did not have.

        Raises
        ------
        NotFoundError
            For an unknown entity.
        """
        return self._change(name, observations, _File.add_observations, now, dry_run)

    def delete_observations(
        self, name: str, observations: Iterable[str], *, now: AsOf = None, dry_run: bool = False
    ) -> list[str] | Edits:
        """Remove observations of an entity, and return those that it had.

        Raises
        ------
        NotFoundError
            For an unknown entity.
        """
        return self._change(name, observations, _File.remove_observations, now, dry_run)

    def _change(
        self,
        name: str,
        observations: Iterable[str],
        act: Callable[[_File, list[Line], list[str]], list[str]],
        now: AsOf,
        dry_run: bool,
    ) -> list[str] | Edits:
        """Act on the observations of an entity, and return those that changed."""
        texts = list(dict.fromkeys(_texts(observations, "observations")))

        def work(draft: Draft) -> list[str]:
            file = _File(draft, self._path())
            return act(file, file.known(name), texts)

        return self._do(work, now, dry_run)

    def delete_entity(self, name: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Remove an entity with its relations, and return its name.

        Raises
        ------
        NotFoundError
            For an unknown entity.
        """

        def work(draft: Draft) -> str:
            file = _File(draft, self._path())
            file.delete([*file.known(name), *file.relations(name)], f"the entity {name!r:.80}")
            return name

        return self._do(work, now, dry_run)

    def create_relation(
        self, from_name: str, to_name: str, relation_type: str, *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Write a relation between two entities as the last line, and return its type.

        Raises
        ------
        NotFoundError
            For an unknown entity.
        PolicyRefusal
            With the reason duplicate.
        """
        checked(relation_type, "relation_type")

        def work(draft: Draft) -> str:
            file = _File(draft, self._path())
            for name in (from_name, to_name):
                file.known(name)
            fields = {"from": from_name, "to": to_name, "relationType": relation_type}
            if file.same(fields):
                raise PolicyRefusal("duplicate: the graph has this relation already.", "duplicate")
            file.insert("relation", fields, "a new relation")
            return relation_type

        return self._do(work, now, dry_run)

    def delete_relation(
        self, from_name: str, to_name: str, relation_type: str, *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Remove a relation, and return its type.

        Raises
        ------
        NotFoundError
            Where there is none such.
        """

        def work(draft: Draft) -> str:
            file = _File(draft, self._path())
            lines = file.same({"from": from_name, "to": to_name, "relationType": relation_type})
            if not lines:
                raise missing("relation", f"{from_name} {relation_type} {to_name}", ())
            file.delete(lines, "the relation")
            return relation_type

        return self._do(work, now, dry_run)

    def entities(self) -> pa.Table:
        """All entities, in the file's order: name, entity_type, observations (their number), created_at, path, line."""
        table = read(self.root).tables["entities"]
        if self.path is not None:
            table = table.filter(pc.equal(table["path"], self.path))
        names = ["name", "entity_type", "observations", "created_at", "path", "line"]
        return describe(table.select(names), memkit="entities")

    def _path(self) -> str:
        if self.path is not None:
            return self.path
        paths = sorted(set(read(self.root).tables["entities"]["path"].to_pylist()))
        if len(paths) > 1:
            raise ChangeRefusedError(f"there are graphs in {', '.join(paths)}; open a store on the folder of one.")
        return paths[0] if paths else _DEFAULT


class _File:
    """A graph that an operation changes."""

    def __init__(self, draft: Draft, path: str) -> None:
        self.draft, self.path = draft, path
        text = draft.text_or_none(path)
        self.text = text or ""
        self.is_new = text is None
        self.lines = [line for line in lines_of(self.text) if line.kind]
        if self.text.strip() and not self.lines:
            raise ChangeRefusedError(f"{path}: it is there already, and no graph.")

    def entities(self, name: str) -> list[Line]:
        return [line for line in self.lines if line.kind == "entity" and line.value.get("name") == name]

    def known(self, name: str) -> list[Line]:
        """The lines of an entity.

        Raises
        ------
        NotFoundError
        """
        if not (lines := self.entities(checked(name, "name"))):
            names = (line.value.get("name") for line in self.lines if line.kind == "entity")
            raise missing("entity", name, [known for known in names if isinstance(known, str)])
        return lines

    def relations(self, name: str) -> list[Line]:
        """The relations from or to an entity."""
        ends = ("from", "to")
        return [line for line in self.lines if line.kind == "relation" and name in map(line.value.get, ends)]

    def same(self, fields: Mapping[str, str]) -> list[Line]:
        """The relations with these fields."""
        relations = (line for line in self.lines if line.kind == "relation")
        return [line for line in relations if all(line.value.get(key) == value for key, value in fields.items())]

    def observations(self, texts: list[str], line: Line | None = None) -> list[Any]:
        """Observations as the line, or the file, writes them: strings, or objects with text and time."""
        lines = [line] if line and line.value.get("observations") else self.lines
        items = (item for line in lines for item in line.value.get("observations") or ())
        first = next(items, None)
        if not isinstance(first, dict):
            return list(texts)
        key = next((key for key in ("text", "content") if key in first), "text")
        dated = next((key for key in ("timestamp", "createdAt") if key in first), None)
        return [{key: text, **({dated: self._now} if dated else {})} for text in texts]

    @property
    def _now(self) -> str:
        return stamp(self.draft.moment)

    def insert(self, kind: str, fields: Row, reason: str) -> None:
        """A new line: an entity below the last one, a relation at the end."""
        like = next((line for line in reversed(self.lines) if line.kind == kind), None)
        mark = next((line.mark for line in (like, *self.lines) if line and line.mark), None if self.lines else "type")
        kind_mark: Row = {mark: kind} if mark else {}
        dated = {"createdAt": self._now} if like and "createdAt" in like.value else {}
        text = json.dumps({**kind_mark, **fields, **dated}, ensure_ascii=False, separators=self._separators)
        if self.is_new or not self.lines:
            self.draft.write(self.path, text, reason)
            return
        place = like if kind == "entity" and like else self.lines[-1]
        newline = line_end(self.text)
        if kind == "entity" and like is None:
            self._splice(Splice(self.lines[0].start, self.lines[0].start, text + newline), reason, "update")
        else:
            self._splice(Splice(place.end, place.end, newline + text), reason, "update")

    @property
    def _separators(self) -> tuple[str, str]:
        """The commas and colons of the file's first line: the server writes them without blanks."""
        first = self.text[self.lines[0].start : self.lines[0].end] if self.lines else ""
        return (", ", ": ") if '": ' in first else (",", ":")

    def add_observations(self, lines: list[Line], texts: list[str]) -> list[str]:
        """Add to the first line of an entity the observations that none of its lines has, and return them."""
        known = {text for line in lines for text, _ in line.observations()}
        new = [text for text in texts if text not in known]
        self.extend(lines[0], self.observations(new, lines[0]))
        return new

    def remove_observations(self, lines: list[Line], texts: list[str]) -> list[str]:
        """Take observations out of the lines of an entity, and return those that it had."""
        removed = [self.without(line, set(texts)) for line in lines]
        return list(dict.fromkeys(text for gone in removed for text in gone))

    def extend(self, line: Line, items: list[Any]) -> None:
        """New observations at the end of a line's list."""
        json_line = Json(self.text[line.start : line.end])
        for splice in json_line.append_all(["observations"], items):
            text = splice.text
            if self._separators == (",", ":") and text.startswith(", "):
                text = f",{text[2:]}"
            self._splice(Splice(splice.start + line.start, splice.end + line.start, text), "observed", "update")

    def without(self, line: Line, texts: set[str]) -> list[str]:
        """Take observations out of a line, and return those that it had."""
        gone = [(text, start, end) for text, start, end in places_of(self.text, line) if text in texts]
        for _, start, end in gone:
            self._splice(Splice(start, end, ""), "removed", "delete")
        return [text for text, _, _ in gone]

    def delete(self, lines: list[Line], reason: str) -> None:
        """Take lines out, each with its line end; where the last of the file has none, with the one before them."""
        starts = {line.start for line in lines}
        for line in lines:
            end = self.text.find("\n", line.end) + 1
            self._splice(Splice(line.start, end or len(self.text), ""), reason, "delete")
            first = line.start
            while not end and (before := self.text.rfind("\n", 0, max(first - 1, 0)) + 1) in starts and first:
                first = before
            if not end and first > 0 and self.text[first - 1] == "\n":
                newline = 2 if self.text.endswith("\r\n", 0, first) else 1
                self._splice(Splice(first - newline, first, ""), reason, "delete")

    def _splice(self, splice: Splice, reason: str, op: str) -> None:
        self.draft.splice(op, self.path, splice, reason)


def _texts(texts: Iterable[str], name: str) -> list[str]:
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Iterable):
        raise ParameterError(f"{name}: expected a list of texts. Got {texts!r:.80}.")
    return [checked(text, name) for text in texts]
