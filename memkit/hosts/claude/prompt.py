"""What Claude Code loads of each MEMORY.md: into its prompt, up to its cut, and of each project, for `mk.overview`."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit import Corpus
from memkit.extend import Candidate, Context, Moment, context_of, files_of
from memkit.extend.reading import above
from memkit.extend.writing import describe
from memkit.hosts.claude import INDEX, MOST_UNITS, counted_lines, loaded, targets_in, whole_of
from memkit.schemas import TIMESTAMP, result_schema

ON_DEMAND = "ON DEMAND"
"""The block of what a host reads only when the agent opens a file."""


def show(corpus: Corpus, rows: Sequence[dict[str, Any]], moment: Moment) -> Context:
    """What Claude Code loads: each MEMORY.md up to its cut; of what it does not load, why."""
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
