"""Claude Code's memory: ``MEMORY.md``, which is index and memory, and a file for each topic beside it.

Of MEMORY.md the host loads the first 200 lines or 25,000 UTF-16 units, front matter and comments not counted, cut after
a whole line; what is below is invisible to the agent until it opens the file. `loaded` says what is, `show` what of a
corpus, `projects` of each project.

>>> seen = loaded("- a\\n- b\\n- c\\n", most_lines=2)
>>> seen.cut, seen.lines, seen.total_lines
(3, 2, 3)
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.extend import Prompt
from memkit.extend.pages import (
    OF_ENTRY,
    UNREAD_FILES,
    Page,
    Section,
    comparable,
    dated,
    is_contents,
    layout,
    links_in,
    without_code,
)
from memkit.extend.reading import (
    MARKDOWN,
    SKILL,
    TITLES,
    TYPES,
    File,
    Folder,
    Heading,
    Owner,
    Row,
    Rows,
    Rule,
    Survey,
    above,
    fences,
    front_matter,
    text_of,
)
from memkit.extend.writing import describe
from memkit.schemas import TIMESTAMP, result_schema

if TYPE_CHECKING:
    from memkit import Corpus
    from memkit.extend import Candidate, Context, Moment

INDEX = "MEMORY.md"
INSTRUCTIONS = ("CLAUDE.md", "AGENTS.md")
"""Files of instructions, which the host loads whole beside the memory."""
# As its users report: 200 lines or 25 KB, whichever comes first.
MOST_LINES: int = 200
MOST_UNITS: int = 25_000
"""What the host loads of MEMORY.md: lines, and UTF-16 units with line ends."""
# A guess: lines of 125 characters fill the units with the 200th.
LONG_LINE = 200
"""The characters from which a line of the index is long."""
TYPES_OF_TOPICS: tuple[str, ...] = ("user", "feedback", "project", "reference")
"""The host's types, in the order in which an index should have them."""
_PLACE = (
    r"(?:^|/)(?:\.claude/memory|\.claude/agent-memory(?:-local)?/[^/]+|\.claude/projects/[^/]+/memory"
    r"|projects/(?:-|[A-Za-z]--)[^/]*/memory|\.agents/memory)"
)
_HOMES = re.compile(f"{_PLACE}$")
_STORE = f"(?:.*?{_PLACE}/)?"
"""The folder of a memory, which the host loads for one project or agent alone."""
_HOST = re.compile(r"(?:(.*)/)?projects/[^/]+/memory(?:/|$)")
"""A folder that is the host's own, by the memories of its projects."""
_HOST_NAME = ".claude"
_INSTRUCTED = ("skills", "agents", "commands", "plugins", "output-styles")
"""Folders of the host's own folder that hold what its user tells the agent to do, and no memories."""
_SLUG = re.compile(r"[\w-]+")
_COMMENT = re.compile(r" {0,3}<!--")
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_MOST_FILES = 24
"""The most files beside a MEMORY.md that are opened to tell what it is."""
# A guess: shorter lines are alike by chance.
_LEAST_STATED = 30
"""The least characters of a line that may repeat the instructions, or a line above."""
_ONCE = Rule("duplicate_entry", "claude", "", "each line of a MEMORY.md once")


@dataclass(frozen=True)
class Loaded:
    """What the host loads of a MEMORY.md.

    Attributes
    ----------
    text : str
        Exactly that, without front matter and comments.
    lines, units : int
        Its lines, and its UTF-16 units with line ends.
    total_lines, total_units : int
        The same of the whole file.
    cut : int or None
        The first line of the file that is not loaded; None where all is.
    """

    text: str
    lines: int
    units: int
    total_lines: int
    total_units: int
    cut: int | None


def counted_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that count, with their numbers: neither front matter nor comments that are whole lines."""
    front = front_matter.split(text)
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    code, is_open = fences(text), False
    for number, line in enumerate(lines, 1):
        if front and number < front.body_line:
            continue
        if is_open or (_COMMENT.match(line) and number not in code):
            rest = line if is_open else line[line.index("<!--") + 4 :]
            _, end, after = rest.partition("-->")
            is_open = not end
            if is_open or not after.strip():
                continue
        yield number, line


def loaded(text: str, most_lines: int = MOST_LINES, most_units: int = MOST_UNITS) -> Loaded:
    """What the host loads of the text of a MEMORY.md.

    Parameters
    ----------
    text : str
    most_lines, most_units : int
        The host's limits.

    Examples
    --------
    >>> loaded("---\\na: b\\n---\\n<!-- x -->\\nчай\\n").text
    'чай\\n'
    """
    kept, units, total_lines, total_units, cut = list[str](), 0, 0, 0, None
    for number, line in counted_lines(text):
        # The host is JavaScript, whose lengths are UTF-16 units.
        size = len(line.encode("utf-16-le", "surrogatepass")) // 2 + 1
        total_lines, total_units = total_lines + 1, total_units + size
        if cut is None and (total_lines > most_lines or total_units > most_units):
            cut = number
        if cut is None:
            kept.append(line)
            units = total_units
    return Loaded("".join(f"{line}\n" for line in kept), len(kept), units, total_lines, total_units, cut)


def whole_of(sections: Sequence[Mapping[str, Any]]) -> str:
    """The text of a MEMORY.md from its memories, in the order of their lines, below as many comments as lines above.

    >>> whole_of([{"line_start": 3, "text": "чай"}])
    '<!-- -->\\n<!-- -->\\nчай'
    """
    above = ["<!-- -->"] * ((sections[0]["line_start"] or 1) - 1)
    return "\n".join([*above, *(section["text"] for section in sections)])


def targets_in(text: str) -> Iterator[tuple[int, str, str]]:
    """The links to Markdown files of a text: line, target path, and the words that stand for it."""
    for link in links_in(without_code(text, fences(text))):
        name = link.target if link.target.lower().endswith(MARKDOWN) else f"{link.target}.md"
        if not link.is_wiki and name != link.target:
            continue
        yield link.line, posixpath.normpath(name), link.text


@dataclass(frozen=True)
class Topic:
    """What the survey found out about a topic file: the title that the index gives it."""

    title: str


IS_INDEX = "index"
"""What the survey found out about a MEMORY.md."""


class _Topic(Page):
    """A topic file: its type is its kind, its title the index's where its own is a slug."""

    def __init__(self, file: File, rows: Rows, title: str) -> None:
        self.listed_as = title
        super().__init__(file, rows, "topic" if dated(file.source.stem) is None else "daily_log")
        if self.kind == "topic":
            self.scope = self.scope if self.scope in TYPES_OF_TOPICS else self._type() or self.scope
            self.kind = self.scope if self.scope in TYPES_OF_TOPICS else "topic"
        self.source_id = self.source_id or self.in_front(("name",), text_of)

    def title_of(self) -> str:
        title = (self.in_front(TITLES, text_of) or "").strip()
        return self.listed_as if self.listed_as and (not title or _SLUG.fullmatch(title)) else super().title_of()

    def _type(self) -> str | None:
        """The type that the file's name opens with, where its front matter has none."""
        first = re.split("[_-]", self.source.stem.casefold(), maxsplit=1)[0]
        return first if first in TYPES_OF_TOPICS and self.in_front(TYPES, text_of) is None else None


class _Memory(Page):
    """A MEMORY.md: sections that are lists of links are an index, all others memories of their own.

    What a list of links says besides them is a memory of its own too, as it stands in no other file.
    """

    def __init__(self, file: File, rows: Rows) -> None:
        super().__init__(file, rows, "long_term")
        self.kinds: dict[int, str] = {}

    def kind_in(self, section: Section) -> str:
        known = self.kinds.get(section.heading.line)
        return known or ("index" if is_contents("\n".join(self._lines(section.lines)), 1) else self.kind)

    def columns(self, section: Section) -> Row:
        row = super().columns(section)
        return row if section.heading.level != OF_ENTRY else {**row, "title": (section.above or [self.title])[-1]}

    def above_section(self, section: Section) -> list[str]:
        """The headings alone: the file's name says nothing."""
        return section.above if section.heading.level != OF_ENTRY else section.above[:-1]

    def marks(self) -> Iterator[Heading]:
        """The headings, and in a list of links each change from links to facts and back, as a heading of its own."""
        above, end = Heading(self.above + 1, 0, "top"), Heading(len(self.source.lines) + 1, 0, "")
        for heading, following in pairwise(chain([above], super().marks(), [end])):
            if heading.level:
                yield heading
            lines = range(heading.line + (heading.level > 0), following.line)
            runs = list(self._runs(lines)) if is_contents("\n".join(self._lines(lines)), 1) else []
            self.kinds |= {line: self.kind if is_fact else "index" for line, is_fact in runs[1:]}
            if len(runs) > 1:
                self.kinds[heading.line] = self.kind if runs[0][1] else "index"
            yield from (Heading(line, OF_ENTRY, heading.text) for line, _ in runs[1:])

    def _runs(self, lines: range) -> Iterator[tuple[int, bool]]:
        """The runs of links and of facts in a list: the first line of each, and whether it holds facts."""
        indent, last = None, None
        for number, line in self.text_lines(lines):
            bullet, depth = _BULLET.match(line), len(line) - len(line.lstrip())
            if not line.strip() or (depth and depth != indent) or line.lstrip().startswith(("|", "<!--")):
                continue  # what is indented belongs to the bullet above
            indent = depth if bullet and indent is None else indent
            is_fact = next(links_in(self._plain_lines[number - self.above - 1]), None) is None
            if not bullet and (len(comparable(line)) < _LEAST_STATED or line.rstrip().endswith(":")):
                continue
            if is_fact != last:
                yield number, is_fact
            last = is_fact

    def read(self) -> None:
        super().read()
        path, first, part = self.source.path, self.first or None, loaded(self.source.text)
        if part.cut is not None:
            below = [target for line, target, _ in targets_in(self.source.text) if line >= part.cut]
            named = f", and {len(below)} links with them, first {below[0]}" if below else ""
            got = f"{part.total_lines:,} lines and {part.total_units:,} units: the host never loads line {part.cut} and"
            got = f"{got} below ({part.total_lines - part.lines:,} lines{named})"
            expected = f"at most {MOST_LINES} lines and {MOST_UNITS:,} UTF-16 units"
            self.rows.problem("index_too_long", path, expected, got, line=part.cut, memory_id=first, quote=False)
        if repeats := self._repeats():
            number, first_line = repeats[0]
            others = f", and {len(repeats) - 1:,} more" if len(repeats) > 1 else ""
            got = f"line {first_line} again{others}"
            self.rows.problem(_ONCE.code, path, _ONCE.expected, got, line=number, memory_id=first, quote=False)

    def _repeats(self) -> list[tuple[int, int]]:
        """The lines outside of code that state what a line above states, and the number of the first such line."""
        first, repeats = dict[str, int](), list[tuple[int, int]]()
        for number, words in _statements(self.text_lines(range(self.above + 1, len(self.source.lines) + 1))):
            if first.setdefault(words, number) != number:
                repeats.append((number, first[words]))
        return repeats


def _is_index(folder: Folder, place: str, names: list[str]) -> bool:
    """Whether a MEMORY.md is an index: it links to a file beside it, or these have name and description."""
    file = folder.open(f"{place}/{INDEX}" if place else INDEX)
    if file is None:
        return False
    if any("/" not in target and target in names for _, target, _ in targets_in(file.source.text)):
        return True
    others = [name for name in names if name != INDEX][:_MOST_FILES]
    heads = [page.front for name in others if (page := folder.open(f"{place}/{name}" if place else name))]
    return any(head and {"name", "description"} <= head.fields.keys() for head in heads)


def homes_of(folder: Folder) -> list[str]:
    """The folders that hold such a memory."""
    parts = folder.listing.root.as_posix()
    homes = []
    for place, names in folder.markdown.items():
        is_known = _HOMES.search(f"{parts}/{place}" if place else parts) is not None
        if folder.is_forced or is_known or (INDEX in names and _is_index(folder, place, names)):
            homes.append(place)
    return homes


def survey(folder: Folder) -> Survey:
    """The MEMORY.md and the topic files of each folder that is such a memory; lines that repeat the instructions.

    Skills, and what the host's own folder tells its agents to do, are no memories: they are named, and not read.
    """
    survey = Survey(skipped=set() if folder.is_forced else _instructed(folder))
    for home in homes_of(folder):
        below = f"{home}/" if home else ""
        if below + folder.markdown[home][0] in survey.skipped:
            continue
        topics = [name for name in folder.markdown[home] if name != INDEX]
        index = folder.open(below + INDEX) if INDEX in folder.markdown[home] else None
        listed: dict[str, str] = {}
        for _, target, title in targets_in(index.source.text) if index else ():
            listed.setdefault(target.casefold(), title)
        for name in topics:
            survey.findings[below + name] = Topic(listed.get(name.casefold(), ""))
        if index:
            survey.findings[below + INDEX] = IS_INDEX
    _report_repeated(folder, sorted(survey.findings))
    return survey


def _instructed(folder: Folder) -> set[str]:
    """The files of skills, and of the folders in which a host keeps instructions; reported once a place."""
    hosts = {match[1] or "" for place in folder.markdown if (match := _HOST.match(place))}
    hosts |= {""} if folder.listing.root.name == _HOST_NAME else set()
    reported_at = {f"{host}/{name}" if host else name: host for host in hosts for name in _INSTRUCTED}
    for place, names in folder.markdown.items():
        if SKILL in names and reported_at.keys().isdisjoint((place, *above(place))) and folder.is_skill(place):
            reported_at[place] = posixpath.dirname(place)
    files: dict[str, list[str]] = {}
    for path in folder.listing.files if reported_at else ():
        where = next((reported_at[folder_above] for folder_above in above(path) if folder_above in reported_at), None)
        if where is not None:
            files.setdefault(where, []).append(path)
    for place, paths in files.items():
        got = f"{len(paths):,} of instructions (skills, agents, commands), not read, first {min(paths)}"
        expected = "files of memories (format='workspace' reads any Markdown)"
        folder.rows.problem("unclaimed", place or ".", expected, got, quote=False)
    skipped = {path for paths in files.values() for path in paths}
    for path in sorted(skipped):
        folder.rows.add(UNREAD_FILES, {"path": path})
    return skipped


def _report_repeated(folder: Folder, paths: Iterable[str]) -> None:
    """Report, once a file, the lines of memories that a file of instructions says already.

    These are those below the root, by their names, and those that the read names, wherever they lie.
    """
    below = [
        folder.open(f"{place}/{name}" if place else name)
        for place, names in folder.markdown.items()
        for name in names
        if name in INSTRUCTIONS
    ]
    known: dict[str, str] = {}
    for file in filter(None, (*below, *folder.instructions)):
        for _, line in _statements(_body(file)):
            known.setdefault(line, file.source.path)
    for path in paths if known else ():
        repeated = [(number, known[line]) for number, line in _statements(_body(folder.open(path))) if line in known]
        if repeated:
            number, where = repeated[0]
            got = f"{len(repeated)} line{'s' * (len(repeated) > 1)} that {where} has too"
            expected = "lines that stand in no file of instructions"
            folder.rows.problem("duplicate_of_instructions", path, expected, got, line=number, quote=False)


def _statements(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Those of numbered lines that state something, without marks and case."""
    for number, line in lines:
        words = comparable(line)
        if len(words) >= _LEAST_STATED and not line.lstrip().startswith("#"):
            yield number, words


def _body(file: File | None) -> Iterator[tuple[int, str]]:
    """The lines of a file below its front matter, by number."""
    if file is not None:
        first = file.front.body_line if file.front else 1
        yield from enumerate(file.source.lines[first - 1 :], first)


def parse(file: File, rows: Rows) -> None:
    """One file to its rows."""
    topic: Any = file.finding("claude")
    if file.source.name == INDEX:
        _Memory(file, rows).read()
    else:
        _Topic(file, rows, topic.title if topic else "").read()


FORMAT = layout(
    "claude",
    "MEMORY.md, of which the host loads 200 lines or 25,000 units, and topic files beside it (Claude Code)",
    parse,
    order=70,
    kinds=(*TYPES_OF_TOPICS, "topic", "head", "index", "long_term", "daily_log", "dream"),
    hidden_places=(
        ".claude/memory",
        ".claude/agent-memory",
        ".claude/agent-memory-local",
        ".claude/projects/*/memory",
    ),
    never_read=(".claude/skills", ".claude/agents", ".claude/commands"),
    owned_files=INSTRUCTIONS,
    page_types=TYPES_OF_TOPICS,
    landmark=f".claude .agents projects {INDEX} {SKILL}",
    survey=survey,
    whole_index=INDEX,
    owner=Owner("page", store=_STORE, homes=(INDEX,), slugs=False),
    dates={"created_at": "created", "updated_at": "modified"},
    schemas={UNREAD_FILES: pa.schema({"path": pa.string()})},
    rules=(
        Rule("unclaimed", "claude", "", "files of memories, and no instructions"),
        Rule("index_too_long", "claude", "", "a MEMORY.md of at most 200 lines and 25,000 UTF-16 units"),
        _ONCE,
        Rule("duplicate_of_instructions", "claude", "", "memories that CLAUDE.md or AGENTS.md do not say already"),
    ),
)
PROMPT = Prompt("claude", "exactly what Claude Code loads, MEMORY.md up to its cut", "memkit.hosts.claude:show")


ON_DEMAND = "ON DEMAND"
"""The block of what a host reads only when the agent opens a file."""


def show(corpus: Corpus, rows: Sequence[dict[str, Any]], moment: Moment) -> Context:
    """What Claude Code loads: each MEMORY.md up to its cut; of what it does not load, why."""
    from memkit.extend import Candidate, context_of  # a read does without the room of prompts

    files: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        files.setdefault(row["path"], []).append(row)
    blocks: dict[str, list[Candidate]] = {}
    texts, notes, linked, linked_below_cut = list[str](), list[str](), set[str](), set[str]()
    for path, sections in files.items():
        if path.rpartition("/")[2] != INDEX:
            continue
        folder = path[: -len(INDEX)]
        whole = whole_of(sections)
        part = loaded(whole)
        counted = dict(counted_lines(whole))
        blocks[path] = [line for row in sections for line in _visible(row, path, counted, part.cut)]
        texts += [f"[{path}]\n{part.text}"] if part.text else []
        for number, target, _ in targets_in(whole):
            (linked_below_cut if part.cut is not None and number >= part.cut else linked).add(folder + target)
        if part.cut is not None:
            notes.append(f"{path}: line {part.cut} and below are not loaded, {part.total_lines - part.lines} lines.")
    blocks[ON_DEMAND] = [
        Candidate(row["memory_id"], ON_DEMAND, row["text"], 0.0, _reason_not_loaded(path, linked, linked_below_cut))
        for path, memories in files.items()
        if path not in blocks
        for row in memories
    ]
    if not rows:
        notes.append("Nothing is shown: the corpus holds no memory of Claude Code.")
    limits = {block: 0 if block == ON_DEMAND else MOST_UNITS for block in blocks}
    return context_of(corpus, "\n".join(texts), blocks, limits, notes, moment)


def _visible(row: dict[str, Any], block: str, counted: Mapping[int, str], cut: int | None) -> list[Candidate]:
    """The part of a section of MEMORY.md that is loaded, and the part that is not."""
    from memkit.extend import Candidate

    numbers = [number for number in range(row["line_start"], row["line_end"] + 1) if number in counted]
    above = [number for number in numbers if cut is None or number < cut]
    parts = ((None, above), ("below_cut", numbers[len(above) :]))
    return [
        Candidate(row["memory_id"], block, "\n".join(counted[number] for number in part), 0.0, reason)
        for reason, part in parts
        if part
    ]


def _reason_not_loaded(path: str, linked: set[str], linked_below_cut: set[str]) -> str:
    """Why a topic file is not in the prompt: the agent opens it by its link, if it sees that."""
    return "on_demand" if path in linked else "link_below_cut" if path in linked_below_cut else "not_indexed"


_HOST_PROJECTS = ".claude/projects/"
_PROJECTS = result_schema(
    (pa.string(), "project"),
    (pa.int64(), "memories loaded_lines lines loaded_units units cut dead_links not_indexed"),
    (TIMESTAMP, "newest"),
    (pa.int64(), "problems transcripts"),
)


def projects(corpus: Corpus) -> pa.Table:
    """A row for each memory of Claude Code, and for each project beside them that has transcripts alone; linear."""
    memories = corpus.memories.filter(pc.equal(corpus.memories["layout"], "claude"))
    columns = ["memory_id", "path", "kind", "text", "line_start", "updated_at", "created_at"]
    homes: dict[str, list[dict[str, Any]]] = {}
    for row in memories.select(columns).to_pylist():
        homes.setdefault(posixpath.dirname(row["path"]), []).append(row)
    projects = {home.removesuffix("/memory") if home != "memory" else "": home for home in homes}
    dead, problems = Counter[str](), Counter[str]()
    for problem in corpus.problems.select(["path", "rule"]).to_pylist() if homes else ():
        project = _project_above(problem["path"] or "", projects)
        if project is not None and problem["rule"] != "transcript":
            problems[project] += 1
            dead[project] += problem["rule"] == "dead_link"
    transcripts = _transcripts(corpus, projects) if homes else Counter[str]()
    rows = []
    for project in sorted({*projects, *transcripts}):
        of_project = homes[projects[project]] if project in projects else []
        rows.append(
            {
                "project": project.removeprefix(_HOST_PROJECTS) or ".",
                "memories": len(of_project),
                **_index_of(of_project),
                "dead_links": dead[project],
                "problems": problems[project],
                "transcripts": None if "/." in f"/{project}" else transcripts[project],
            }
        )
    return describe(pa.Table.from_pylist(rows, schema=_PROJECTS), memkit="projects")


def _project_above(path: str, projects: Mapping[str, str]) -> str | None:
    """The project that a path belongs to: the nearest folder above it that is one."""
    return next((folder for folder in above(f"{path}/") if folder in projects), None)


def _index_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the host loads of a MEMORY.md, which topics this leaves out, and the newest date of a folder's memories."""
    sections = [row for row in rows if posixpath.basename(row["path"]) == INDEX and row["kind"] != "head"]
    sections.sort(key=lambda row: row["line_start"] or 0)
    topics = {posixpath.basename(row["path"]) for row in rows} - {INDEX}
    whole = whole_of(sections) if sections else ""
    part = loaded(whole)
    listed = {target for _, target, _ in targets_in(whole)}
    dates = [date for row in rows if (date := row["updated_at"] or row["created_at"])]
    return {
        "loaded_lines": part.lines,
        "lines": part.total_lines,
        "loaded_units": part.units,
        "units": part.total_units,
        "cut": part.cut,
        "not_indexed": len(topics - listed),
        "newest": max(dates, default=None),
    }


def _transcripts(corpus: Corpus, projects: Mapping[str, str]) -> Counter[str]:
    """How many JSON lines lie in each project's folder, and in folders beside those of the host; none is opened."""
    from memkit.extend import files_of

    counts = Counter[str]()
    if corpus.root is None or not corpus.root.is_dir() or corpus.revision:
        return counts
    beside = {posixpath.dirname(project) for project in projects if projects[project] == f"{project}/memory"}
    paths = [path for path in files_of(corpus) if path.lower().endswith(".jsonl")]
    for path in paths:
        folder = posixpath.dirname(path)
        project = _project_above(folder, projects)
        if project is None:
            project = next((up for up in above(f"{folder}/") if up and posixpath.dirname(up) in beside), None)
        if project is not None:
            counts[project] += 1
    return counts
