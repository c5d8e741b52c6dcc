"""The graph of the MCP memory server: the operations of its tools, each item that they do not touch left as it is; and
memories as such a graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from memkit import Edits, read
from memkit.errors import ChangeRefusedError, ParameterError, PolicyRefusal
from memkit.extend.exports import Job, bodies, end_or_none, name_of, place_head, refuse_unjudged, time_text
from memkit.extend.reading import Json, Row, Splice, first_words, line_end
from memkit.extend.verbs import KeywordOption, PathArgument, Saving, TextArgument, grouped
from memkit.extend.writing import AsOf, Draft, Operations, checked, describe, missing, stamp
from memkit.hosts.mcp_graph import ENDINGS, LISTS, Item, is_object, items_of, key_of_type, places_of

_DEFAULT = "memory.jsonl"


class GraphStore(Operations):
    """Entities, observations and relations of an MCP memory graph, one file of JSON lines, or of one object.

    The operations are those of the server's tools. What an operation does not touch keeps its bytes, and a changed
    item keeps its unknown keys; a new item has the keys that the file's others have.

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

    policy, format = "graph", "mcp_graph"

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
        texts = _texts(observations, "observations")

        def work(draft: Draft) -> str:
            file = _File(draft, self._path())
            if file.entities(name):
                raise PolicyRefusal(f"duplicate: there is an entity {name!r:.80} already.", "duplicate")
            fields: Row = {"name": name, "entityType": entity_type, "observations": file.observations(texts)}
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
        act: Callable[[_File, list[Item], list[str]], list[str]],
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
        """Write a relation between two entities as the last one, and return its type.

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
            items = file.same({"from": from_name, "to": to_name, "relationType": relation_type})
            if not items:
                raise missing("relation", f"{from_name} {relation_type} {to_name}", ())
            file.delete(items, "the relation")
            return relation_type

        return self._do(work, now, dry_run)

    @staticmethod
    def draft_removal(draft: Draft, memory: Row, reason: str) -> None:
        """Draft the removal of an observation wherever its entity has it."""
        path = memory["path"]
        if memory["kind"] != "observation":
            raise ChangeRefusedError(
                f"{path}: an entity goes with its relations, by mk.store(root).graph.delete_entity."
            )
        group = f"observation {memory['memory_id']}"
        places = draft.document(path).parsed(_observed).get((memory["source_id"], memory["text"]), [])
        if not places:
            raise ChangeRefusedError(f"{path}:{memory['line_start']}: the observation stands in no list.")
        for start, end in places:
            cut = Splice(start, end, "")
            draft.splice("delete", path, cut, reason, memory_id=memory["memory_id"], together=group)

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


def _observed(text: str) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Where the observations of a graph stand, by the name of their entity and their text."""
    places: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for item in items_of(text):
        if item.kind == "entity":
            for observation, start, end in places_of(text, item):
                places.setdefault((item.value["name"], observation), []).append((start, end))
    return places


class _File:
    """A graph that an operation changes."""

    def __init__(self, draft: Draft, path: str) -> None:
        self.draft, self.path = draft, path
        text = draft.text_or_none(path)
        self.text = text or ""
        self.is_new = text is None
        self.json = Json(self.text) if is_object(self.text) else None
        self.items = [item for item in items_of(self.text) if item.kind]
        if self.text.strip() and not (self.items or self.json):
            raise ChangeRefusedError(f"{path}: it is there already, and no graph.")

    def entities(self, name: str) -> list[Item]:
        return [item for item in self.items if item.kind == "entity" and item.value.get("name") == name]

    def known(self, name: str) -> list[Item]:
        """The items of an entity.

        Raises
        ------
        NotFoundError
        """
        if not (items := self.entities(checked(name, "name"))):
            names = (item.value.get("name") for item in self.items if item.kind == "entity")
            raise missing("entity", name, [known for known in names if isinstance(known, str)])
        return items

    def relations(self, name: str) -> list[Item]:
        """The relations from or to an entity."""
        ends = ("from", "to")
        return [item for item in self.items if item.kind == "relation" and name in map(item.value.get, ends)]

    def same(self, fields: Mapping[str, str]) -> list[Item]:
        """The relations with these ends and this type."""
        ends = [(key, value) for key, value in fields.items() if key != "relationType"]
        return [
            item
            for item in self.items
            if item.kind == "relation"
            and item.type_of("relationType") == fields["relationType"]
            and all(item.value.get(key) == value for key, value in ends)
        ]

    def observations(self, texts: list[str], item: Item | None = None) -> list[Any]:
        """Observations as the item, or the file, writes them: strings, or objects with text and time."""
        items = [item] if item and item.value.get("observations") else self.items
        first = next((written for item in items for _, written in item.observations()), None)
        if not isinstance(first, dict):
            return list(texts)
        key = next((key for key in ("text", "content") if key in first), "text")
        dated = next((key for key in ("timestamp", "createdAt") if key in first), None)
        return [{key: text, **({dated: stamp(self.draft.moment)} if dated else {})} for text in texts]

    def insert(self, kind: str, fields: Row, reason: str) -> None:
        """A new item: an entity below the last one, a relation at the end."""
        like = next((item for item in reversed(self.items) if item.kind == kind), None)
        is_marked = not (self.items or self.json)
        mark = next((item.mark for item in (like, *self.items) if item and item.mark), "type" if is_marked else None)
        kind_mark: Row = {mark: kind} if mark else {}
        dated = {"createdAt": stamp(self.draft.moment)} if like and "createdAt" in like.value else {}
        typed = {name: key_of_type(like.value, name) for name in ("entityType", "relationType") if like}
        named = {typed.get(name, name): value for name, value in fields.items()}
        new = {**kind_mark, **named, **dated}
        if self.json:
            self._splice(self._added(self.json, kind, new), reason, "update")
            return
        text = json.dumps(new, ensure_ascii=False, separators=self._separators)
        if self.is_new or not self.items:
            self.draft.write(self.path, text, reason)
            return
        # As the server writes its file anew each time: first all entities, then all relations.
        place = like if kind == "entity" and like else self.items[-1]
        newline = line_end(self.text)
        if kind == "entity" and like is None:
            self._splice(Splice(self.items[0].start, self.items[0].start, text + newline), reason, "update")
        else:
            self._splice(Splice(place.end, place.end, newline + text), reason, "update")

    def _added(self, document: Json, kind: str, new: Row) -> Splice:
        """A new item at the end of its list, which is made where the object has none."""
        name = next(name for name, kind_of_items in LISTS.items() if kind_of_items == kind)
        return document.set_value([name], [new]) if document.find([name]) is None else document.append([name], new)

    @property
    def _separators(self) -> tuple[str, str]:
        """The commas and colons of the file's first item: the server writes them without blanks."""
        first = self.text[self.items[0].start : self.items[0].end] if self.items else ""
        return (", ", ": ") if '": ' in first else (",", ":")

    def add_observations(self, items: list[Item], texts: list[str]) -> list[str]:
        """Add to the first item of an entity the observations that none of its items has, and return them."""
        known = {text for item in items for text, _ in item.observations()}
        new = [text for text in texts if text not in known]
        self.extend(items[0], self.observations(new, items[0]))
        return new

    def remove_observations(self, items: list[Item], texts: list[str]) -> list[str]:
        """Take observations out of the items of an entity, and return those that it had."""
        removed = [self.without(item, set(texts)) for item in items]
        return list(dict.fromkeys(text for gone in removed for text in gone))

    def extend(self, item: Item, observations: list[Any]) -> None:
        """New observations at the end of an item's list."""
        json = Json(self.text[item.start : item.end])
        if json.find(["observations"]) is None:
            splices = [json.set_value(["observations"], observations)] if observations else []
        else:
            splices = json.append_all(["observations"], observations)
        for splice in splices:
            text = splice.text
            if self._separators == (",", ":") and text.startswith(", "):
                text = f",{text[2:]}"
            self._splice(Splice(splice.start + item.start, splice.end + item.start, text), "observed", "update")

    def without(self, item: Item, texts: set[str]) -> list[str]:
        """Take observations out of an item, and return those that it had."""
        gone = [(text, start, end) for text, start, end in places_of(self.text, item) if text in texts]
        for _, start, end in gone:
            self._splice(Splice(start, end, ""), "removed", "delete")
        return [text for text, _, _ in gone]

    def delete(self, items: list[Item], reason: str) -> None:
        """Take items out, a line with its end; where the last of the file has none, with the one before it."""
        starts = {item.start for item in items}
        for item in items:
            if self.json:
                self._splice(Splice(item.start, item.end, ""), reason, "delete")
                continue
            end = self.text.find("\n", item.end) + 1
            self._splice(Splice(item.start, end or len(self.text), ""), reason, "delete")
            first = item.start
            # Above them too may stand what goes: the line end is taken from the last line that stays.
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


def write(job: Job) -> None:
    """An entity a title, an observation a memory, as strings: the server knows no others, so an entity has one date."""
    job.out.is_paged = False
    entities: dict[str, Row] = {}
    ends: dict[str, set[datetime | None]] = {}
    names: dict[str, str] = {}
    for group in job.groups:
        if refuse_unjudged(group, job, other_kinds=("index",)):
            continue
        for row in bodies(group, job):
            if group.is_page:
                name = name_of(group)
                if row["title"] and row["title"] != name:
                    job.out.reasons[row["memory_id"]] = "its entity is the page; its own heading stands in the text"
            else:
                name = row["source_id"] if row["format"] == "mcp_graph" else row["title"] or first_words(row["text"])
            name = names[row["memory_id"]] = " ".join(str(name).split()) or "memory"
            entity = entities.setdefault(name, {"type": "entity", "name": name, "entityType": "", "observations": []})
            entity["entityType"] = entity["entityType"] or row["scope"] or row["kind"] or "memory"
            if row["created_at"] and "createdAt" not in entity:
                entity["createdAt"] = time_text(row["created_at"])
            ends.setdefault(name, set()).add(row["expires_at"])
            text = row["text"].strip("\n")
            if row["kind"] != "entity":
                entity["observations"].append(text)
            job.out.places[row["memory_id"]] = "memory.jsonl", (name, text)
        if group.is_page:
            names[group.rows[0]["memory_id"]] = name_of(group)  # its links are from the page
        place_head(group, job)
    relations = [
        {"type": "relation", "from": names[link.from_id], "to": names[link.to_id], "relationType": link.type}
        for from_one in job.links.values()
        for link in from_one
        if link.from_id in names and link.to_id in names
    ]
    for name, entity in entities.items():
        if len(ends[name]) == 1 and (end := end_or_none(*ends[name])):
            entity["expires_at"] = end
        entity["observations"] = list(dict.fromkeys(entity["observations"]))
    lines = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in [*entities.values(), *relations]]
    if lines:
        job.out.files["memory.jsonl"] = "\n".join(dict.fromkeys(lines))


@grouped
def add_observation(
    path: PathArgument,
    text: TextArgument,
    entity: Annotated[str | None, typer.Option("--entity", help="An entity of a graph.")] = None,
    page: Annotated[str | None, typer.Option("--page", help="Or else a page of basic-memory.")] = None,
    category: Annotated[str | None, typer.Option("--category", help="With --page.")] = None,
    keyword: KeywordOption = None,
    *,
    saving: Saving,
) -> None:
    """Show what saving an observation of an entity or a page would write, or with --yes write it."""
    if (entity is None) == (page is None):
        raise ParameterError(f"add-observation: expected --entity or --page. Got {'both' if entity else 'none'}.")
    if page is not None:
        saving.save(path, lambda memory: memory.basic_memory.add_observation, page, text, category, keyword or [])
    else:
        saving.save(path, lambda memory: memory.graph.add_observations, entity, [text])
