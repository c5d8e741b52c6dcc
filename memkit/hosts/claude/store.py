"""Topics of Claude Code's memory, a file of its own each and a line in MEMORY.md; and `IndexBudget`, which brings a
MEMORY.md below the host's limits, so that the agent sees all of it.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow.compute as pc

from memkit import Edits
from memkit.errors import ChangeRefusedError, ParameterError
from memkit.extend import Estimator, estimator, param
from memkit.extend.reading import Splice, fences, headings, line_end, lines_of, quoted, slug_of, spliced
from memkit.extend.verbs import repair_verb
from memkit.extend.writing import AsOf, Draft, LayoutStore, check_choice, checked
from memkit.hosts.claude import INDEX, LONG_LINE, MOST_LINES, MOST_UNITS, TYPES_OF_TOPICS, loaded, targets_in


class ClaudeStore(LayoutStore):
    """Topics of Claude Code's memory: a new one is a file of its own and a line in MEMORY.md, never a longer index.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> store = mk.store(mk.testing.write_files(tempfile.mkdtemp(), {".claude/memory/MEMORY.md": "# Память\\n"})).claude
    >>> store.add("Сборка", "CI собирает с нуля, без кэша.", "feedback")
    '.claude/memory/feedback_сборка.md'
    >>> print((store.root / ".claude/memory/MEMORY.md").read_text("utf-8"), end="")
    # Память
    - [Сборка](feedback_сборка.md) — CI собирает с нуля, без кэша.
    """

    policy = layout = "claude"

    def home(self) -> str | None:
        """The folder of the memory: the one in ``.claude`` of the root, else the only one there is; None for none."""
        paths = self._memories_where("layout", self.layout)["path"].to_pylist()
        homes = sorted({path.rpartition("/")[0] for path in paths})
        known = ".claude/memory"
        return known if known in homes else homes[0] if len(homes) == 1 else None

    def keeper(self) -> Callable[..., str | Edits] | None:
        """Where the folder has such a memory, the operation that saves a text as a topic."""
        return None if self.home() is None else self._remember

    def _remember(
        self, text: str, *, subject: str | None, type: str | None, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        title = subject or " ".join(text.split()[:6])
        return self.add(title, text, type or "project", now=now, dry_run=dry_run)

    def add(
        self, title: str, text: str, type: str = "project", *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Write a topic file, and its line after the last of its group in MEMORY.md; return the file's path.

        Raises
        ------
        ParameterError
            For another type than user, feedback, project or reference, or a title of several lines.
        ChangeRefusedError
            Where the folder holds no such memory, or several, or the topic exists.
        """
        check_choice("type", type, TYPES_OF_TOPICS, "add")
        words = " ".join(checked(title, "title").split())
        if "\n" in title.strip() or set(words) & set("[]"):
            raise ParameterError(f"title: expected one line without brackets. Got {title!r:.80}.")
        body = checked(text, "text").strip("\n") + "\n"

        def work(draft: Draft) -> str:
            home = self.home()
            if home is None:
                raise ChangeRefusedError("expected one memory of Claude Code below the folder. Got none, or several.")
            slug = slug_of(words)
            name = slug if slug.startswith(f"{type}-") else f"{type}_{slug}"
            path, index = posixpath.join(home, f"{name}.md"), posixpath.join(home, INDEX)
            if draft.exists(path):
                raise ChangeRefusedError(f"{path}: it exists already.")
            one_line = " ".join(body.split())
            draft.write(path, _head(name, one_line, type) + body, "a topic", together=path)
            room = LONG_LINE - len(f"- [{words}]({name}.md) — ") - 1
            hook = one_line if len(one_line) <= room else one_line[: max(room, 0)].rstrip() + "…"
            self._list(draft, index, f"- [{words}]({name}.md) — {hook}\n", type, path)
            return path

        return self._do(work, now, dry_run)

    def _list(self, draft: Draft, index: str, line: str, type: str, group: str) -> None:
        """Draft a line of MEMORY.md: below the last link to a topic of its type, else below the last link."""
        before = draft.text_or_none(index)
        if before is None or not before.strip():
            draft.write(index, line, "its line", together=group)
            return
        newline = line_end(before)
        lines = lines_of(before)
        listed = [(number, target) for number, target, _ in targets_in(before.replace("\r\n", "\n"))]
        of_type = [number for number, target in listed if target.startswith((f"{type}_", f"{type}-"))]
        after = max(of_type or [number for number, _ in listed], default=len(lines))
        offset = sum(map(len, lines[:after]))
        gap = "" if before[:offset].endswith("\n") else newline
        draft.splice(
            "update", index, Splice(offset, offset, gap + line.replace("\n", newline)), "its line", together=group
        )


_LINKED = re.compile(r"[ \t]*[-*+][ \t]+\[[^\[\]\n]*\]\([^()\n]*\.md\)[^\n]*")
_BLANK = re.compile(r"\s+")
# Guesses: with the title a line stays below `LONG_LINE`.
_HOOK, _ABOUT = 100, 160
"""The most characters of a new line's hook, and of a new file's description."""
OLDER = "older.md"
"""The file that takes the links for which there is no room."""
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def _head(name: str, text: str, type: str) -> str:
    """The front matter of a topic file; its description is how the text begins."""
    about = quoted(text[:_ABOUT].rstrip())
    return f"---\nname: {name}\ndescription: {about}\nmetadata:\n  node_type: memory\n  type: {type}\n---\n"


@dataclass
class _Move:
    """A part of MEMORY.md that is replaced, and the file that keeps what stood there, if one is needed."""

    splice: Splice
    reason: str
    path: str = ""
    text: str = ""
    appended: str = ""
    memory_id: str | None = None


class _Worth(NamedTuple):
    """What a link's place in its list follows from: the least comes first."""

    type: int = len(TYPES_OF_TOPICS)
    unused: float = 0.0
    age: float = 0.0


@dataclass
class _File:
    """A MEMORY.md, and what is known of the topics beside it."""

    path: str
    text: str
    sections: list[dict[str, Any]]
    topics: dict[str, _Worth]
    names: set[str]
    moves: list[_Move] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.path)

    def new(self) -> str:
        """The text with all moves so far."""
        return spliced(self.text, [move.splice for move in self.moves])

    def offset(self, line: int) -> int:
        """Where a line begins, 1-based."""
        offset = 0
        for _ in range(line - 1):
            offset = self.text.index("\n", offset) + 1
        return offset

    def beside(self, name: str) -> str:
        return posixpath.join(self.folder, name)

    def free_name(self, title: str) -> str:
        """A name for a new topic file that no file beside it has."""
        stem, number, name = slug_of(title), 1, f"{slug_of(title)}.md"
        while name.casefold() in self.names:
            number += 1
            name = f"{stem}-{number}.md"
        self.names.add(name.casefold())
        return name


@estimator
class IndexBudget(Estimator):
    """Plans how each MEMORY.md of Claude Code comes below its limits: ``mk.plan(corpus, [mk.hosts.IndexBudget()])``.

    A MEMORY.md within the limits is left alone. In one that is too long, lists of links are put in order: by type
    (user, feedback, project, reference), then, with a `log`, by use, the most used first, then newest first. Then, as
    far as needed, the text of sections that are not lists moves into topic files, the longest first, and a line with a
    link under the heading takes its place; long lines of links are shortened, and their words go to the end of the
    topic; the last links go into ``older.md``. Everything else stays, byte for byte.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> notes = "".join(f"- note {number}\\n" for number in range(300))
    >>> files = {".claude/memory/MEMORY.md": f"# Log\\n{notes}", ".claude/memory/a.md": "text\\n"}
    >>> root = mk.testing.write_files(tempfile.mkdtemp(), files)
    >>> _ = mk.plan(mk.read(root), [mk.hosts.IndexBudget()]).apply(force=True)
    >>> (root / ".claude/memory/MEMORY.md").read_text("utf-8").split("\\n")[1][:40]
    '- [Log](log.md) — note 0 - note 1 - note'
    """

    lines: int = param(MOST_LINES, low=1, unit="lines", doc="Lines of MEMORY.md that the host loads.")
    units: int = param(MOST_UNITS, low=1, unit="UTF-16 units", doc="Units of MEMORY.md that it loads, with line ends.")
    line_chars: int = param(LONG_LINE, low=40, unit="characters", doc="Longest line of a link after it is shortened.")
    log: Any = param(
        None,
        kind="object",
        doc="A log of which memories were used, as `mk.labels.import_log` takes it (`memkit serve` writes one); None:"
        " none.",
    )

    def draft(self, draft: Draft) -> None:
        """Add the rows of each MEMORY.md that is too long."""
        self.check_params()
        memories = draft.corpus.memories.filter(pc.equal(draft.corpus.memories["layout"], "claude"))
        rows, uses = memories.to_pylist(), self._uses()
        for path in sorted({row["path"] for row in rows if row["path"].rpartition("/")[2] == INDEX}):
            with draft.attempt(path, None):
                file = _file(draft, path, rows, uses)
                if self._fits(file):
                    continue
                # From what takes least out of the index to what takes most.
                for step in (self._order, self._sections, self._long_lines, self._older):
                    if not self._fits(file):
                        step(file)
                if not self._fits(file):
                    raise ChangeRefusedError(f"{path}: it stays above the limits: its headings alone are too many.")
                _add(draft, file)

    def _uses(self) -> Counter[str]:
        """How many queries of the log used each memory."""
        if self.log is None:
            return Counter()
        from memkit.labels import import_log  # pandas comes with it, which a store does without

        _, qrels = import_log(self.log)
        return Counter(qrels.filter(pc.greater(qrels["relevance"], 0))["memory_id"].to_pylist())

    def _fits(self, file: _File) -> bool:
        return loaded(file.new().replace("\r\n", "\n"), self.lines, self.units).cut is None

    def _order(self, file: _File) -> None:
        """Sort each list of links by type, use and age."""
        reason = "links by type, then newest first" if self.log is None else "links by type, use, then newest first"
        for splice, lines in _runs(file):
            ordered = sorted(lines, key=lambda line: _rank(file, line))
            if ordered != lines:
                file.moves.append(_Move(splice._replace(text="".join(ordered)), reason))

    def _sections(self, file: _File) -> None:
        """Move the text of sections that are no lists of links into topic files, as far as needed."""
        movable = [row for row in file.sections if row["kind"] == "long_term"]
        # The longest first, so that few sections have to move.
        for row in sorted(movable, key=lambda row: (-len(row["text"]), row["line_start"])):
            if self._fits(file):
                return
            file.moves += _moved(file, row)

    def _long_lines(self, file: _File) -> None:
        """Shorten long lines of links, the longest first; their words go to the end of the topic."""
        for splice, lines in _runs(file):
            for place, line in enumerate(lines):
                if self._fits(file):
                    return
                bare, end = line.rstrip("\r\n"), line[len(line.rstrip("\r\n")) :]
                if len(bare) > self.line_chars and (target := _target(line)).casefold() in file.names:
                    short = f"{bare[: self.line_chars - 1].rstrip()}…{end}"
                    if _target(short) == target:
                        lines[place] = short
                        _replace(file, splice, lines, file.beside(target), bare)

    def _older(self, file: _File) -> None:
        """Move the last links into a file of their own."""
        runs = list(_runs(file))
        moved: list[str] = []
        for splice, lines in reversed(runs):
            while lines and not self._fits(file):
                moved.insert(0, lines.pop())
                _replace(file, splice, lines, "", "")
                path = file.beside(OLDER)
                line = f"- [Older]({OLDER}) — {len(moved)} more links\n"
                file.moves = [move for move in file.moves if move.path != path]
                end = len(file.text)
                file.moves.append(_Move(Splice(end, end, line), "the last links", path, "# Older\n\n" + "".join(moved)))


def _file(draft: Draft, path: str, rows: list[dict[str, Any]], uses: Counter[str]) -> _File:
    """A MEMORY.md as it is now, with type, use and age of the topics that it may name."""
    folder = posixpath.dirname(path)
    topics: dict[str, _Worth] = {}
    for row in rows:
        if posixpath.dirname(row["path"]) == folder and row["path"] != path:
            kind, name = row["scope"] or row["kind"], posixpath.basename(row["path"]).casefold()
            order = TYPES_OF_TOPICS.index(kind) if kind in TYPES_OF_TOPICS else len(TYPES_OF_TOPICS)
            worth = topics.get(name) or _Worth(order, age=-(row["updated_at"] or _LONG_AGO).timestamp())
            topics[name] = worth._replace(unused=worth.unused - uses[row["memory_id"]])
    sections = [row for row in rows if row["path"] == path and row["kind"] != "head"]
    return _File(path, draft.text(path), sections, topics, {name.casefold() for name in draft.names(folder)})


def _target(line: str) -> str:
    """The file beside it that a line of a list names first; empty where there is none."""
    return next((target for _, target, _ in targets_in(line)), "")


def _rank(file: _File, line: str) -> _Worth:
    return file.topics.get(_target(line).casefold(), _Worth(age=-_LONG_AGO.timestamp()))


def _runs(file: _File) -> Iterator[tuple[Splice, list[str]]]:
    """Each list of links: its place in the text, and its lines, as they are after the moves so far."""
    code, offset, run, begin = fences(file.text.replace("\r\n", "\n")), 0, list[str](), 0
    for number, line in enumerate([*lines_of(file.text), ""], 1):
        if line and number not in code and _LINKED.fullmatch(line.rstrip("\r\n")):
            begin = begin if run else offset
            run.append(line if line.endswith("\n") else f"{line}\n")
        elif run:
            place = Splice(begin, offset, "".join(run))
            known = next((move.splice.text for move in file.moves if move.splice[:2] == place[:2]), None)
            yield place, run if known is None else lines_of(known)
            run = []
        offset += len(line)


def _replace(file: _File, place: Splice, lines: list[str], path: str, appended: str) -> None:
    """Give a list of links these lines; words that go to the end of a topic are noted."""
    file.moves = [move for move in file.moves if move.splice[:2] != place[:2] or move.path]
    file.moves.append(_Move(place._replace(text="".join(lines)), "links within the limits"))
    if path:
        start = place.start
        file.moves.append(_Move(Splice(start, start, ""), "words of a long line", path, appended=f"\n{appended}\n"))


def _moved(file: _File, row: dict[str, Any]) -> list[_Move]:
    """The text of a section as a topic file, and the line that stays; lists of links within it stay too."""
    text = row["text"]
    marks = list(headings(text, fences(text)))
    first = marks[-1].line + 1 + marks[-1].is_underlined if marks else 1
    start, end = file.offset(row["line_start"] + first - 1), file.offset(row["line_end"])
    end = file.text.find("\n", end) + 1 or len(file.text)
    spans, begin = list[tuple[int, int]](), start
    for run in [*(splice for splice, _ in _runs(file) if start <= splice.start < end), Splice(end, end, "")]:
        if file.text[begin : run.start].strip():
            spans.append((begin, run.start))
        begin = run.end
    body = "".join(file.text[slice(*span)] for span in spans)
    title = (row["title"] if marks else "") or "Notes"
    plain = _BLANK.sub(" ", body).strip().removeprefix("- ")
    if len(plain) <= _HOOK:
        return []
    name, newline = file.free_name(title), line_end(file.text)
    words = re.sub(r"[\[\]]", "", title)
    line = f"- [{words}]({name}) — {plain[:_HOOK].rstrip()}…{newline}"
    front = _head(slug_of(title), plain, "project")
    moves = []
    for number, span in enumerate(spans):
        part = file.text[slice(*span)]
        gap = newline if span[1] < len(file.text) and part.endswith(newline * 2) else ""
        splice, reason = Splice(*span, gap if number else line + gap), f"the text of «{title}» becomes a topic"
        moves.append(_Move(splice, reason, memory_id=row["memory_id"]))
    moves[0].path, moves[0].text = file.beside(name), front.replace("\n", newline) + body
    return moves


def _add(draft: Draft, file: _File) -> None:
    """Draft the moves; what leaves MEMORY.md and the file that takes it go together."""
    group = f"index {file.path}"
    appended: dict[str, str] = {}
    for move in file.moves:
        more = {"together": group} | ({"memory_id": move.memory_id} if move.memory_id else {})
        draft.splice("update", file.path, move.splice, move.reason, **more)
        if move.text:
            draft.write(move.path, move.text, move.reason, together=group)
        elif move.appended:
            appended[move.path] = appended.get(move.path, "") + move.appended
    for path, text in appended.items():
        draft.append(path, draft.text(path), text, "words of a long line", together=group)


budget = repair_verb(
    "budget",
    lambda: IndexBudget,
    "Show how to shorten a MEMORY.md above its host's limits without loss, or with --yes shorten it.",
)
