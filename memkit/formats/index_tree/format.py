"""The files that indexes name, each a memory, and the format of index trees."""

from __future__ import annotations

from memkit.formats.disk.source import Source, last_line
from memkit.formats.faults import Rule
from memkit.formats.format import File, Format
from memkit.formats.index_tree.index import BRANCH, FIELDS, NAMED, ROOT, Claim
from memkit.formats.index_tree.structure import RULES, check_split
from memkit.formats.index_tree.survey import survey
from memkit.formats.owner import Owner
from memkit.formats.rows import Rows, json_text
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.node import Node
from memkit.schemas import PARTS

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
        _UNINDEXED,
        *RULES,
    ),
)
