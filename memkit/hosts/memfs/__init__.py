"""MemFS of Letta: Markdown whose front matter is a description, in ``system/`` and beside it.

What lies in ``system/`` is in every prompt; of other files the prompt has name and description. In the later layout the
folder's own Markdown is in it, and folders below have a MEMORY.md of their own.
"""

from __future__ import annotations

import re

from memkit.extend.pages import Page, kind_of_page, layout
from memkit.extend.reading import MARKDOWN, SKILL, File, Folder, Owner, Rows, Rule, Survey, integer_of

_FIELDS = frozenset(("description", "limit", "read_only", "label", "metadata"))
"""What the front matter of a file may say."""
_INDEX, _STATE = "MEMORY.md", ".sync-state.json"
_PLACE = r"(?:^|/)\.letta/agents/[^/]+/memory(?=/|$)"
_HOME = re.compile(_PLACE)
_MOST = 24
"""The most files of a ``system/`` that are opened to tell what it is."""
_KINDS = ("page", "head", "index")
_SKILLS = Rule("unclaimed", "memfs", "", "files of memories, and no skills")


class _Block(Page):
    """A file of MemFS; its title is its path below ``system/``.

    Parameters
    ----------
    home : str
        The folder of the memory; empty, or with a slash at its end.
    """

    def __init__(self, file: File, rows: Rows, home: str) -> None:
        self.home = home
        super().__init__(file, rows, "index" if kind_of_page(file) == "index" else "page")

    def title_of(self) -> str:
        below = self.source.path.removeprefix(self.home).removeprefix("system/")
        return below.rpartition(".")[0]

    def read(self) -> None:
        super().read()
        path, memory_id, size = self.source.path, self.first or None, len(self.body.strip())
        if not self.description:
            self.rows.problem("missing_field", path, "", "nothing", field="description", memory_id=memory_id)
        limit = integer_of(self.front.fields.get("limit")) if self.front else None
        if limit is not None and size > limit:
            expected = f"at most {limit:,} characters, as its front matter says"
            self.rows.problem("over_limit", path, expected, f"{size:,}", memory_id=memory_id, quote=False)


def survey(folder: Folder) -> Survey:
    """The Markdown of each MemFS with the folder that it lies in; skills are named, the host's own state is skipped."""
    survey_of_folder, homes = Survey(), {""} if folder.is_forced else _homes(folder)
    skills: dict[str, list[str]] = {}
    for path in folder.listing.files if homes else ():
        home, name = _home_of(path, homes), path.rpartition("/")[2]
        if home is not None and (name == _STATE or (name == SKILL and "skills" in path.split("/"))):
            survey_of_folder.skipped.add(path)
            if name == SKILL and (folder.is_forced or not folder.is_skill(path.rpartition("/")[0])):
                skills.setdefault(home, []).append(path)
        elif home is not None and path.lower().endswith(MARKDOWN):
            survey_of_folder.findings[path] = home
    for home, paths in skills.items():
        got = f"{len(paths):,} of skills, not read, first {min(paths)}"
        folder.rows.problem("unclaimed", home.rstrip("/") or ".", _SKILLS.expected, got, quote=False)
    return survey_of_folder


def _home_of(path: str, homes: set[str]) -> str | None:
    """The innermost of `homes` above a file."""
    parts = path.split("/")[:-1]
    above = ("".join(f"{part}/" for part in parts[:end]) for end in range(len(parts), -1, -1))
    return next((home for home in above if home in homes), None)


def _homes(folder: Folder) -> set[str]:
    """The folders that are a MemFS: by their place, by what ``system/`` says of itself, or by the later layout."""
    root, homes, later = folder.listing.root, set[str](), set[str]()
    if root.name == "memory" and root.parent.parent.name == "agents" and root.parents[2].name == ".letta":
        homes.add("")
    for place, names in folder.markdown.items():
        home, slash, last = place.rpartition("/")
        if match := _HOME.search(place):
            homes.add(f"{place[: match.end()]}/")
        if last == "system" and _are_described(folder, [f"{place}/{name}" for name in names]):
            homes.add(home + slash)
        if _INDEX in names and place:
            later.add(home + slash)
    with_index = (home for home in later if _INDEX in folder.markdown.get(home.removesuffix("/"), ()))
    return homes | {home for home in with_index if _are_described(folder, [home + _INDEX])}


def _are_described(folder: Folder, paths: list[str]) -> bool:
    """Whether most of some files have a description as their front matter, and no more than a file of MemFS has."""
    fields = [file.front.fields.keys() for path in paths[:_MOST] if (file := folder.open(path)) and file.front]
    return 2 * sum("description" in names and names <= _FIELDS for names in fields) > min(len(paths), _MOST)


def parse(file: File, rows: Rows) -> None:
    """One file to its rows."""
    _Block(file, rows, str(file.finding("memfs") or "")).read()


FORMAT = layout(
    "memfs",
    "a folder with system/ whose Markdown has a description as its front matter (Letta MemFS)",
    parse,
    owner=Owner("page", store=f"(?:.*?{_PLACE})?", by_name=True),
    order=80,
    kinds=_KINDS,
    hidden_places=(".letta/agents/*/memory",),
    landmark=".letta system MEMORY.md",
    survey=survey,
    rules=(
        _SKILLS,
        Rule("missing_field", "memfs", "description", "a file with this field"),
        Rule("over_limit", "memfs", "", "no more characters than its own limit"),
    ),
)
