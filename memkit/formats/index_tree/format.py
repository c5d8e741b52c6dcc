"""Index trees: an ``index-root`` that names branches, each an ``index-branch`` that describes files.

Which file an entry names decides how that file is read, so the indexes are read first (`survey`): every entry becomes
a row of ``entries``, and a valid one a `Claim` on its file. A claimed file is then read like any other, in parallel and
only when it changed.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Container, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit.formats.disk.lock import STATE
from memkit.formats.disk.source import Source, above, last_line
from memkit.formats.fields import TIME, Fields
from memkit.formats.format import MARKDOWN, File, Folder, Format, Owner, Survey
from memkit.formats.index_tree.index import (
    BRANCH,
    FIELDS,
    NAMED,
    NO_INDEX,
    ROOT,
    RULES,
    Claim,
    below,
    check_split,
    parts_of,
    shape_of,
    typed,
    without_index,
)
from memkit.formats.rows import KEPT_WITH, Row, Rows, Rule, heading_path, json_text, slug_of
from memkit.formats.spelling import END, end_in, plain, text_of, unread_ends
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.nodes import Node, StructureError, load_json
from memkit.schemas import AN_INDEX, IMPORTANCE_WORDS, PARTS

PLUGIN_GLOBS = ("**/sofia-memory-plugin/**",)
UNINDEXED = "unindexed"
"""What a survey tells of a file that no index names, though it lies where one should."""
ANY_INDEX = re.compile(AN_INDEX)
_CONTINUATION = re.compile(r"(.+)\.part(\d+)\.json", re.DOTALL)
DRIVE = re.compile(r"[A-Za-z]:")
_NAMES_PLUGIN = "the path names a file of the plugin"
_NAMES_INDEX = "the path names an index, which is not a memory"
_INVALID = {_NAMES_PLUGIN: "plugin_path", _NAMES_INDEX: "bad_value"}
_FLAT_REASON = "the old flat list becomes entries: path to file, description to summary, lastModified to updated"


def survey(folder: Folder) -> Survey:
    """Read every index below the root; cost linear in their size."""
    trees, files = _Trees(folder), folder.listing.files
    indexes = [path for path in files if path == "index.json" or path.endswith("/index.json")]
    # From the top: a root opens its branches, so that those which are left stand alone.
    for path in sorted(indexes, key=lambda path: (path.count("/"), path)):
        trees.root_or_stray(path)
    trees.check_folders()
    for kept in trees.unplaced:
        folder.rows.problem("unclaimed", kept["index"], KEPT_WITH, kept["holds"])
    findings: dict[str, Any] = {path: claim for path, claim in trees.claims.items() if path in files}
    skipped = (trees.indexes | trees.parts) - findings.keys()
    for path in files if trees.homes else ():
        if path not in findings and path not in skipped and path.lower().endswith(MARKDOWN) and trees.speaks_for(path):
            findings[path] = UNINDEXED
    return Survey(findings, skipped)


class _Trees:
    """The indexes below one root under way: claims by path, parts, and the folders that the indexes speak for."""

    def __init__(self, folder: Folder) -> None:
        self.listing, self.rows, self._read = folder.listing, folder.rows, folder.read
        self.globs = list(map(_glob, folder.plugin_globs))
        self.claims: dict[str, Claim] = {}
        self.parts: set[str] = set()
        self.indexes: set[str] = set()
        self.homes: set[str] = set()
        self.roots: set[str] = set()
        self.opened: set[str] = set()
        self.undecoded: dict[str, tuple[str, list[tuple[int, str]]]] = {}
        self.unplaced: list[Row] = []
        self._further: dict[str, list[tuple[int, str]]] | None = None

    def speaks_for(self, path: str) -> bool:
        """Whether `path` lies in a memory folder with an index, so that an index should name it."""
        return not self.homes.isdisjoint(above(path))

    def load(self, path: str) -> Any:
        """The JSON of an index; None where it was opened before, or cannot be parsed and is kept as text."""
        if path in self.opened:
            return None
        self.opened.add(path)
        source = self._read(path, self.rows)
        self.indexes.add(path)
        if source is None:
            return None
        # Reversed, as each entry takes its lines from the end of the list.
        self.undecoded[path] = source.guess, sorted(source.undecoded.items(), reverse=True)
        try:
            return load_json(source.text)
        except StructureError as error:
            self.rows.keep_text(source, "index_tree", "JSON", str(error), error.line)
            return None

    def root_or_stray(self, path: str) -> None:
        """Read an index that nothing has led to yet: a root with its branches, or one that stands alone."""
        document = self.load(path)
        home = posixpath.dirname(path)
        shape = shape_of(document)
        if shape == "root":
            self.homes.add(home)
            self._root(path, document, home)
        elif shape == "branch":
            home = self._home_of_stray(path)
            if self.speaks_for(path):
                self.rows.problem("unindexed", path, "a branch that the root names", "a branch of its own", quote=False)
            else:
                self.homes.add(home)
            self._branch(path, document, home, None)
        elif shape == "flat":
            self.homes.add(home)
            self._flat(path, document, home)
        elif shape == "other":
            self.indexes.discard(path)  # the reader of records decides
        elif document is not None:
            self._foreign(path, document, "an index-root, an index-branch or the old flat list")

    def _foreign(self, path: str, document: Any, expected: str) -> None:
        got = f"fields {', '.join(list(document)[:6])}" if isinstance(document, Node) else type(document).__name__
        self.rows.problem("foreign_index", path, expected, got[:120], line=1, quote=False)

    def _home_of_stray(self, path: str) -> str:
        """What a branch without a root resolves against: a folder above it named memory, else the next one."""
        folders = posixpath.dirname(path).split("/")
        if "memory" in folders:
            return "/".join(folders[: folders.index("memory") + 1])
        return "/".join(folders[:-1])

    def _root(self, path: str, document: Node, home: str) -> None:
        self.roots.add(home)
        named = self._head(ROOT, path, document)["branches"]
        taken: set[tuple[str, str]] = set()
        for branch in self._objects(path, named, "branches", document.line):
            values = self._head(NAMED, path, branch)
            written, category = values["path"], values["category"]
            for name in ("category", "path"):
                if values[name] and (name, values[name]) in taken:
                    expected = f"a {name} that no other branch has"
                    self.rows.problem("bad_value", path, expected, values[name], line=branch.line, field=name)
            taken.update(values.items())  # |= would copy the set each time
            if written is None:
                self.unplaced.append({"index": path, "holds": {"category": category}})
                continue
            target, status, reason = self._resolve(written, home)
            if target is None:
                self._report(path, written, status, reason, {"line": branch.line, "field": "path"})
            else:
                self._open_branch(target, home, category)

    def _open_branch(self, path: str, home: str, category: str | None) -> None:
        document = self.load(path)
        if document is not None and path not in self.claims and shape_of(document) == "branch":
            self._branch(path, document, home, category)
        elif document is not None:
            self._foreign(path, document, "an index-branch")

    def _branch(self, path: str, document: Node, home: str, category: str | None) -> None:
        """One branch and its continuations ``index.part2.json``…"""
        category = self._entries(path, document, home, category, "the root")
        for more in self._continuations(path):
            part = self.load(more)
            if isinstance(part, list):  # of entries alone
                part = Node(files=part)
            if isinstance(part, Node):
                self._entries(more, part, home, category, "the branch", may_lack=BRANCH.names)
            elif part is not None:
                self._foreign(more, part, "an index-branch")

    def _entries(
        self,
        path: str,
        document: Node,
        home: str,
        parent_category: str | None,
        parent: str,
        may_lack: Container[str] = (),
    ) -> str | None:
        """The entries of one index; its category: the one that it writes, or else that which `parent` gives it."""
        values = self._head(BRANCH, path, document, may_lack)
        category = values["category"]
        if category and parent_category and category != parent_category:
            expected = f"'{parent_category}', as {parent} says"
            self.rows.problem("bad_value", path, expected, category, line=document.line, field="category")
        for entry in self._objects(path, values["files"], "files", document.line):
            self._entry(path, entry, home, category or parent_category)
        return category or parent_category

    def _continuations(self, path: str) -> list[str]:
        """The ``.partN.json`` files beside a branch, by number; a gap ends nothing."""
        if self._further is None:
            self._further = {}
            for match in filter(None, map(_CONTINUATION.fullmatch, self.listing.files)):
                self._further.setdefault(match.group(1), []).append((int(match.group(2)), match.group()))
        return [name for _, name in sorted(self._further.get(path.removesuffix(".json"), ()))]

    def check_folders(self) -> None:
        """Report the folders of a tree that should have an index."""
        split = self.parts | {path for path, claim in self.claims.items() if claim.parts}
        for folder in without_index(self.listing.files, self.roots, self.indexes, split):
            self.rows.problem(NO_INDEX.code, folder, NO_INDEX.expected, "none", status="missing", quote=False)

    def _head(self, fields: Fields, path: str, node: Node, may_lack: Container[str] = ()) -> Row:
        """The fields of an index, or of a branch in one; what they do not tell is kept."""

        def problem(rule: str, name: str, expected: str, got: object) -> None:
            self.rows.problem(rule, path, expected, got, line=node.line, field=name)

        values, taken = fields.read(node, self.rows, problem, may_lack, is_typed=True)
        self._keep_rest(path, node, taken)
        return values

    def _objects(self, path: str, items: list[Any] | None, name: str, line: int) -> Iterator[Node]:
        """Those of the items `name` of an index that are objects; any other is a problem, and kept."""
        for item in items or ():
            if isinstance(item, Node):
                yield item
            else:
                self.rows.problem("bad_value", path, "an object", item, line=line, field=name)
                self._keep_rest(path, item, ())

    def _keep_rest(self, path: str, value: Any, known: Container[str]) -> None:
        """Keep what no column holds of an index: it goes to extra of the entry that is read next."""
        unplaced = {key: item for key, item in value.items() if key not in known} if isinstance(value, Node) else value
        if isinstance(value, Node):
            for key, values in value.repeated.items():
                self.rows.problem("duplicate_key", path, "named once", values, line=value.line, field=key)
        if unplaced:
            self.unplaced.append({"index": path, "holds": unplaced})

    def _flat(self, path: str, document: list[Any], home: str) -> None:
        for item in self._objects(path, document, "files", 1):
            entry = item.renamed({"path": "file", "description": "summary"})
            entry.put("updated", (text_of(item.get("lastModified")) or "")[:10] or None)
            memory_id = self._entry(path, entry, home, text_of(item.get("type")), may_lack=FIELDS.names - {"file"})
            row = {"memory_id": memory_id, "path": path, "kind": "entry", "reason": _FLAT_REASON}
            self.rows.add("migrations", {**row, "from_version": "flat", "to_version": "index-branch"})

    def _entry(self, index: str, entry: Node, home: str, category: str | None, may_lack: Container[str] = ()) -> str:
        """One entry to its row, and to a claim or (missing, invalid) a memory of its title and summary."""
        written = (text_of(entry.get("file")) or "").strip()
        index_folder = posixpath.dirname(index)
        file, status, reason = (
            self._resolve(written, home, index_folder) if written else (None, "missing", "no file is named")
        )
        if file and (ANY_INDEX.search(file) or file in self.indexes):
            file, status, reason = None, "invalid", _NAMES_INDEX
        title, summary = text_of(entry.get("title")), text_of(entry.get("summary"))
        text = "\n".join(filter(None, (title, summary)))
        file_id = f"index_tree:{file}#1" if file else None
        memory_id = file_id or self.rows.new_id("index_tree", index, slug_of(title or ""), text)
        self._add_kept(index, entry)
        row = typed(entry, self.rows, index, memory_id, may_lack)
        row |= {"memory_id": memory_id, "index_path": index, "line": entry.line, "category": category, "path": file}
        row |= {"status": status, "reason": reason}
        place: Row = {"line": entry.line, "field": "file", "memory_id": memory_id}
        if file is None and written:
            self._report(index, written, status, reason, place)
        if file and not may_lack and not below(file, index_folder):
            self.rows.problem("bad_value", index, f"a file in {index_folder}/", written, **place)
        memory = self._memory(row, category) | {"heading_path": heading_path(file or index, category or "")}
        memory["expires_at"] = _end(entry, row["updated"], self.rows, {**place, "path": index})
        if file is None:
            lines = {"line_start": entry.line, "line_end": entry.end_line}
            self.rows.add("memories", {**memory, "text": text, "path": index, **lines})
        elif file in self.claims:
            self.rows.problem("duplicate_id", index, "a file that no other entry names", written, **place)
        else:
            head = self._read(file, Rows()) if posixpath.basename(file) == "index.md" else None
            parts = parts_of(head, self.listing.files, self.parts, memory_id, self.rows)
            row["parts"] = [posixpath.relpath(part, posixpath.dirname(file)) for part in parts] or None
            stamp = tuple(map(self.listing.stat, parts))
            self.claims[file] = Claim(memory_id, tuple(memory.items()), tuple(parts), stamp)
        self.rows.add("entries", row)
        return memory_id

    def _add_kept(self, index: str, entry: Node) -> None:
        """Put into `entry` what was kept for it: fields of its index, and its lines that are no UTF-8."""
        if self.unplaced:
            entry.put("(index)", json.loads(json_text(self.unplaced)))
            self.unplaced.clear()
        (encoding, undecoded), lines = self.undecoded.get(index, ("", [])), {}
        while undecoded and undecoded[-1][0] <= entry.end_line:
            number, guess = undecoded.pop()
            lines[str(number)] = guess
        if lines:
            entry.put(encoding, lines)

    def _memory(self, row: Row, category: str | None) -> Row:
        kept = {name: row[name] for name in ("memory_id", "tags", "pinned", "access_count", "extra")}
        memory = {"format": "index_tree", "kind": "entry", "scope": category, "title": row["title"] or ""}
        importance = IMPORTANCE_WORDS.get(row["priority"] or row["context_priority"] or "")
        return {**kept, **memory, "importance": importance, "updated_at": row["updated"]}

    def _resolve(self, written: str, home: str, beside: str = "") -> tuple[str | None, str, str | None]:
        """Where a path of an index leads: the file, or None; valid, missing or invalid; and why.

        A path is that of the memory folder, with or without its name, or else that of the folder `beside` the index;
        where a category's folder is read alone, it may begin with the names of that folder.
        """
        path = written.replace("\\", "/").strip()
        if path.startswith("/") or DRIVE.match(path) or "\0" in path:
            return None, "invalid", "the path is absolute"
        options = [posixpath.normpath(posixpath.join(home, path))]
        if path.startswith("memory/"):
            options.insert(0, posixpath.normpath(posixpath.join(home, path.removeprefix("memory/"))))
        inside = [option for option in options if below(option, home)]
        if inside and below(beside_path := posixpath.normpath(posixpath.join(beside, path)), home):
            inside.append(beside_path)
        inside += _below_root(path.removeprefix("memory/"), self.listing.root) if not home else []
        inside = [option for option in inside if f"/{STATE}/" not in f"/{option}"]
        if not inside:
            return None, "invalid", "the path leaves the memory folder"
        if any(glob.fullmatch(text) for glob in self.globs for text in (path, *inside)):
            return None, "invalid", _NAMES_PLUGIN
        for option in inside:
            if option in self.listing.files:
                return option, "valid", None
            try:
                target = self.listing.unlisted(option, home)
            except OSError:  # a name that no file can have, or a folder that may not be entered
                continue
            if target == "":
                return None, "invalid", "the path leads out of the memory folder by a link"
            if target is not None:
                return target, "valid", None
        return None, "missing", "there is no such file"

    def _report(self, path: str, written: str, status: str, reason: str | None, place: Row) -> None:
        rule = "missing_file" if status == "missing" else _INVALID.get(reason or "", "outside_root")
        expected = f"a file inside of the memory folder ({reason})"
        self.rows.problem(rule, path, expected, written, **place, status=status)


def _below_root(path: str, root: Path) -> list[str]:
    """A path without the names of folders that `root` ends with, if it begins with them.

    >>> _below_root("plans/context/a.md", Path("/bot/memory/plans/context")), _below_root("x/a.md", Path("/y"))
    (['a.md'], [])
    """
    names = posixpath.normpath(path).split("/")
    ends = range(min(len(names) - 1, len(root.parts)), 0, -1)
    return next((["/".join(names[end:])] for end in ends if root.parts[-end:] == tuple(names[:end])), [])


def _glob(pattern: str) -> re.Pattern[str]:
    """A path pattern with ``**`` as a regular expression."""
    parts: Iterator[str] = iter(re.split(r"(\*\*/|/\*\*$|\*|\?)", pattern))
    signs = {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(signs.get(part, re.escape(part)) for part in parts))


_END = Rule(TIME.code, "index_tree", "expires_at", END)
_UNINDEXED = Rule("unindexed", "index_tree", "", "a file that an index names")


def _beside(file: File, rows: Rows) -> None:
    rows.problem(_UNINDEXED.code, file.source.path, _UNINDEXED.expected, "no entry", quote=False)


def parse(file: File, rows: Rows) -> None:
    """A claimed file to its memory: its body, or the bodies of its parts in order."""
    source, claim = file.source, file.finding("index_tree")
    bodies = [part for name in claim.parts if (part := file.beside(name, claim.memory_id))]
    rows.begin(source, *bodies)
    front = front_matter.split(source.text)
    (text, first), texts = _body(source, front), [_body(part, front_matter.split(part.text)) for part in bodies]
    memory = {**dict(claim.memory), "line_start": first, "line_end": last_line(first, text)}
    head = front.fields if front and not front.fault else Node()
    if front and (fault := front.fault):
        expected, where = "front matter in YAML", {"line": fault.line, "memory_id": claim.memory_id}
        rows.problem("unparsable", source.path, expected, str(fault), quote=False, **where)
    memory["extra"] = _with(memory["extra"], "front_matter", head)
    own_end = _end(head, memory["updated_at"], rows, {"path": source.path, "memory_id": claim.memory_id})
    memory["expires_at"] = memory["expires_at"] or own_end
    rows.repeated(head, source.path, 1, claim.memory_id)
    if bodies:
        memory["extra"] = _with(memory["extra"], "body", text if text.strip() else "")
        parts = zip(bodies, texts, strict=True)
        places = [{"path": part.path, "line_start": line, "chars": len(body)} for part, (body, line) in parts]
        memory["extra"] = _with(memory["extra"], PARTS, places)
        text = "".join(body for body, _ in texts)
        memory |= {"line_start": None, "line_end": None}
    if head and (bodies or (source.name == "index.md" and not head.keys().isdisjoint(_OF_SPLIT))):
        check_split(source.path, head, memory, [body for body, _ in texts], rows)
    rows.add("memories", {**memory, "text": text, "path": source.path})
    if not text.strip():
        rows.problem("empty_text", source.path, "a file with text", "nothing", memory_id=claim.memory_id)


def _end(fields: Node, begin: datetime | None, rows: Rows, place: Row) -> datetime | None:
    """The end that an entry or its file says, which stays in extra too; one that cannot be read is reported."""
    for key, value in unread_ends(fields, begin):
        where = {"line": fields.lines.get(key), **place, "field": key}
        rows.problem(_END.code, expected=_END.expected, got=value, **where)
    return end_in([{plain(key): value for key, value in fields.items()}], begin)


def _body(source: Source, front: FrontMatter | None) -> tuple[str, int]:
    """What follows the front matter, and its first line; all of it where the front matter cannot be parsed."""
    return (source.text[front.body_at :], front.body_line) if front and not front.fault else (source.text, 1)


def _with(extra: str, key: str, value: object) -> str:
    """The entry's extra with something of the file itself beside it, if there is anything."""
    if not value:
        return extra
    beside = json_text({key: value})
    return beside if extra == "{}" else f"{extra[:-1]}, {beside[1:]}"


_OF_SPLIT = ("parts", "tokens_total")
FORMAT = Format(
    "index_tree",
    "memory/index.json, its branches and continuations, and the files that they name",
    order=10,
    kinds=("entry",),
    tables=("entries",),
    claims=lambda file: isinstance(file.finding("index_tree"), Claim),
    writes=(".json", ".md"),
    owner=Owner(),
    landmark="index.json",
    survey=survey,
    parse=parse,
    beside=_beside,
    dates={"updated_at": "updated"},
    rules=(
        Rule("foreign_index", "index_tree", "", "an index-root, an index-branch or the old flat list"),
        *FIELDS.rules(),
        *(rule for fields in (ROOT, NAMED, BRANCH) for rule in fields.rules()),
        Rule("bad_value", "index_tree", "category", "the category that the root gives the branch"),
        Rule("bad_value", "index_tree", "category", "a category that no other branch has"),
        Rule("bad_value", "index_tree", "path", "a path that no other branch has"),
        Rule("outside_root", "index_tree", "file", "a path inside of the memory folder"),
        Rule("plugin_path", "index_tree", "file", "a path outside of the plugin's folders (plugin_globs)"),
        Rule("bad_value", "index_tree", "file", "a path that names no index"),
        Rule("bad_value", "index_tree", "file", "a file in the folder of its branch"),
        Rule("missing_file", "index_tree", "file", "a file that exists"),
        Rule("missing_file", "index_tree", "path", "a branch index that exists"),
        _END,
        _UNINDEXED,
        *RULES,
    ),
)
