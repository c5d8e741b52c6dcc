"""The layout of linked notes: vaults, LLM wikis, knowledge bundles (OKF), slip boxes."""

from __future__ import annotations

from memkit.formats.faults import Rule
from memkit.formats.format import MARKDOWN, File, Format
from memkit.formats.linked.page import LOOSE, Page
from memkit.formats.linked.relations import link_rules, relate
from memkit.formats.linked.survey import survey
from memkit.formats.rows import Rows


def parse(file: File, rows: Rows) -> None:
    """One page to its rows."""
    is_vault, tags = file.finding("linked") or (False, ())
    Page(file, rows, is_vault=is_vault, known_tags=tags).read()


FORMAT = Format(
    "linked",
    "Markdown pages with front matter and links: vaults, wikis, knowledge bundles (half of a folder's pages have front"
    " matter, three link to others, or it is a vault)",
    kinds=("page", "head", "index", "log", "long_term", "daily_log", "session", "heartbeat"),
    tables=("documents", "turns", "checklist", "relations"),
    endings=MARKDOWN,
    writes=MARKDOWN,
    claims=lambda file: file.is_markdown and file.finding("linked") is not None,
    parse=parse,
    relate=relate,
    survey=survey,
    is_general=True,
    dates={"created_at": "created", "updated_at": "updated"},
    rules=(
        *link_rules("linked"),
        Rule(LOOSE, "linked", "", "front matter in YAML: a value with ': ' or after a quote stands in quotes"),
        Rule("bad_date", "linked", "", "a real date in the file's name"),
        Rule("unbalanced_fence", "linked", "", "a code fence that is closed"),
        Rule("empty_section", "linked", "", "text below a heading, or a deeper heading with text"),
    ),
)
