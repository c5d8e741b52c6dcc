"""What all layouts of Markdown pages declare alike: files, links, the checks of a page; and the general layout.

Which Markdown files are linked notes is decided by folder, from a sample of its pages: where it is a vault, where half
of its pages have front matter, or where three of them link to others. What a folder is, the folders below it are too.
Cost is linear in the number of folders; at most `SAMPLE` files of each are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from memkit.base.dates import dated
from memkit.base.fences import fences
from memkit.formats import facts, notes
from memkit.formats.disk.source import above
from memkit.formats.format import MARKDOWN, PAGE, File, Folder, Format, Owner, Survey
from memkit.formats.linked.links import without_code
from memkit.formats.linked.page import LOOSE, Page, stems_named, tags_of
from memkit.formats.linked.relations import OTHER_FILES, relate
from memkit.formats.rows import Rows, Rule
from memkit.formats.spelling import TAGS, plain
from memkit.formats.syntax.places import UUID
from memkit.formats.workspace import OF_DATES

# A guess; it bounds what an unknown folder costs before it is read.
SAMPLE = 24
"""The most files of one folder that are opened to decide what it holds."""
# A round bound.
_MOST_TAGS = 1000
# Guesses: three pages that link, in a large folder each tenth, are written as linked pages.
_LEAST_LINKING, _LINKING_SHARE = 3, 0.1
_OTHERS = frozenset(("memory", "heartbeat", "user", "agents", "readme"))
"""Files that are no pages, by stem in lower case; they, and those that formats own, say nothing about the others."""


@dataclass
class Census:
    """What is known of the pages of one folder, and of those below it.

    Attributes
    ----------
    pages, headed, linking : float
        Pages, those with front matter, those that link to another page.
    is_vault, is_bundle : bool
        Whether an app's folder, or an index with ``okf_version``, marks it.
    """

    pages: float = 0
    headed: float = 0
    linking: float = 0
    is_vault: bool = False
    is_bundle: bool = False
    tags: dict[str, None] = field(default_factory=dict)

    def add(self, other: Census, weight: float = 1) -> None:
        """Add what is known of a folder below, or of a page that stands for `weight` of them."""
        for name in ("pages", "headed", "linking"):
            setattr(self, name, getattr(self, name) + weight * getattr(other, name))
        self.tags |= other.tags

    @property
    def is_linked(self) -> bool:
        """Whether the folder holds linked notes."""
        if self.is_vault or self.is_bundle:
            return True
        linking = self.linking >= max(_LEAST_LINKING, _LINKING_SHARE * self.pages)
        return self.pages > 0 and (2 * self.headed >= self.pages or linking)


def page_names(folder: str, names: Iterable[str], owned: frozenset[str]) -> list[str]:
    """The names of a folder's files that may be pages: no logs, transcripts, notes by id, nor files of hosts."""
    parts = {part.casefold() for part in folder.split("/")}
    if "sessions" in parts or "users" in parts:
        return []
    named, others = ((name, name.rpartition(".")[0]) for name in names if not UUID.match(name)), _OTHERS | owned
    return [name for name, stem in named if stem.casefold() not in others and not dated(stem)]


def spread(names: list[str], most: int = SAMPLE) -> list[str]:
    """At most so many of the names, at equal distances.

    >>> spread(["a", "b", "c", "d"], 2)
    ['a', 'c']
    """
    return names if len(names) <= most else [names[number * len(names) // most] for number in range(most)]


def _page(folder: Folder, said: dict[str, _Said | None], stems: Set[str], path: str) -> Census | None:
    """What one page says that is among those with these `stems`; None for a file of another format."""
    own = folder.ask(path, said, _read_page)
    if own is None:
        return None
    is_linking = not stems.isdisjoint(stem for stem in own.stems if stem != _stem(path.rpartition("/")[2]))
    return Census(1, own.is_headed, is_linking, is_bundle=own.is_bundle, tags=dict.fromkeys(own.tags))


def census(folder: Folder) -> dict[str, Census]:
    """What is known of each folder with Markdown and of those above, by path."""
    stems = {_stem(name) for names in folder.markdown.values() for name in names}
    said: dict[str, _Said | None] = {**folder.rows.kept.get("linked", {})}
    folder.rows.kept["linked"] = said  # a copy, as what was read before may be read with other contents
    by_folder: dict[str, Census] = {}
    for place, names in folder.markdown.items():
        below = f"{place}/" if place else ""
        pages = [] if f"{below}index.json" in folder.listing.files else page_names(place, names, folder.owned_stems)
        looked = (_page(folder, said, stems, below + name) for name in spread(pages))
        pages_read = [page for page in looked if page is not None]
        counted = Census()
        for page in pages_read:
            counted.add(page, len(pages) / len(pages_read))
            counted.is_bundle |= page.is_bundle
        for home in above(f"{place}/"):
            known = by_folder.setdefault(home, Census())
            known.add(counted)
            if home == place:
                known.is_bundle |= counted.is_bundle
    for vault in folder.listing.vaults:
        if vault in by_folder:
            by_folder[vault].is_vault = True
    return by_folder


def _stem(name: str) -> str:
    return name.casefold().rpartition(".")[0]


class _Said(NamedTuple):
    """What one page says, whatever else is in the folder: the files that it names, and of its front matter."""

    is_headed: bool
    is_bundle: bool
    tags: tuple[str, ...]
    stems: tuple[str, ...]


def _read_page(file: File) -> _Said | None:
    if any(other.takes(file) for other in (notes.FORMAT, facts.FORMAT)):
        return None
    fields = {plain(key): value for key, value in file.front.fields.items()} if file.front else {}
    body = file.source.text[file.front.body_at :] if file.front else file.source.text
    stems = stems_named(without_code(body, fences(body))) if "](" in body or "[[" in body else ()
    tags = tuple({tag.casefold(): None for name in filter(fields.__contains__, TAGS) for tag in tags_of(fields[name])})
    return _Said(bool(fields), "okfversion" in fields, tags, stems)


def survey(folder: Folder) -> Survey:
    """The pages of linked notes, each with whether its folder is a vault, and the tags of its folder."""
    for path in folder.listing.files:
        if not path.lower().endswith(MARKDOWN):
            folder.rows.add(OTHER_FILES, {"path": path})
    known = None if folder.is_forced else census(folder)
    verdicts: dict[str, tuple[bool, tuple[str, ...]]] = {}
    for place in folder.markdown:
        if known is None:
            verdicts[place] = False, ()
        elif homes := [home for home in above(f"{place}/") if known[home].is_linked]:
            is_vault = any(known[home].is_vault for home in homes)
            verdicts[place] = is_vault, () if is_vault else tuple(sorted(known[homes[-1]].tags)[:_MOST_TAGS])
    paths = ((place, name) for place in verdicts for name in folder.markdown[place])
    return Survey({f"{place}/{name}" if place else name: verdicts[place] for place, name in paths})


def layout(
    name: str,
    about: str,
    parse: Callable[[File, Rows], None],
    *,
    kinds: tuple[str, ...],
    tables: tuple[str, ...] = (),
    rules: tuple[Rule, ...] = (),
    **declared: Any,
) -> Format:
    """The declaration of a layout whose pages are read by a `Page`; it claims what its survey found.

    Parameters
    ----------
    tables, rules
        Those that it has beside those of any page.
    **declared
        Of `Format`.

    Examples
    --------
    >>> [rule.code for rule in layout("cards", "*.md", lambda file, rows: None, kinds=("page",)).rules][:2]
    ['dead_link', 'ambiguous_link']
    """
    shared: dict[str, Any] = {
        "endings": MARKDOWN,
        "writes": MARKDOWN,
        "relate": relate,
    }
    every_table, checks = ("documents", "relations", *tables), (*rules, *page_rules(name))
    return Format(name, about, kinds, every_table, parse, rules=checks, **shared | declared)


def page_rules(name: str) -> tuple[Rule, ...]:
    """The checks of a layout's pages, and of the links between them."""
    return (
        Rule("dead_link", name, "", "a link that leads to a page of this folder"),
        Rule("ambiguous_link", name, "", "a link that leads to one page"),
        Rule("dead_anchor", name, "", "a heading of the page that the link leads to"),
        Rule("not_indexed", name, "", "every page of its folder, where the index lists most of them"),
        Rule("orphan", name, "", "a page that another one links to, where most pages are"),
        Rule("no_successor", name, "", "the page that takes the place of a deprecated one"),
        Rule(LOOSE, name, "", "front matter in YAML: a value with ': ' or after a quote stands in quotes"),
        Rule("bad_date", name, "", "a real date in the file's name"),
        Rule("bad_date", name, "", "a real date in the heading of a log"),
        *(replace(rule, format=name) for rule in OF_DATES),
        Rule("unbalanced_fence", name, "", "a code fence that is closed"),
        Rule("empty_section", name, "", "text below a heading, or a deeper heading with text"),
    )


def _parse(file: File, rows: Rows) -> None:
    """One page to its rows."""
    is_vault, tags = file.finding("linked") or (False, ())
    Page(file, rows, is_vault=is_vault, known_tags=tags).read()


FORMAT = layout(
    "linked",
    "Markdown pages with front matter and links: vaults, wikis, knowledge bundles (half of a folder's pages have front"
    " matter, three link to others, or it is a vault)",
    _parse,
    order=120,
    kinds=("page", "head", "index", "log", "long_term", "daily_log", "dream", "session", "heartbeat"),
    tables=("turns",),
    survey=survey,
    schemas={OTHER_FILES: pa.schema({"path": pa.string()})},
    owner=Owner(PAGE),
    is_general=True,
    dates={"created_at": "created", "updated_at": "updated"},
)
"""Linked notes of any kind: vaults, LLM wikis, knowledge bundles (OKF), slip boxes."""
