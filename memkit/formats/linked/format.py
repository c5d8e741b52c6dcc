"""The layout of linked notes: vaults, LLM wikis, knowledge bundles (OKF), slip boxes."""

from __future__ import annotations

import pyarrow as pa

from memkit.formats.format import File
from memkit.formats.linked.layout import layout
from memkit.formats.linked.page import Page
from memkit.formats.linked.relations import OTHER_FILES
from memkit.formats.linked.survey import survey
from memkit.formats.owner import PAGE, Owner
from memkit.formats.rows import Rows


def parse(file: File, rows: Rows) -> None:
    """One page to its rows."""
    is_vault, tags = file.finding("linked") or (False, ())
    Page(file, rows, is_vault=is_vault, known_tags=tags).read()


FORMAT = layout(
    "linked",
    "Markdown pages with front matter and links: vaults, wikis, knowledge bundles (half of a folder's pages have front"
    " matter, three link to others, or it is a vault)",
    parse,
    order=120,
    kinds=("page", "head", "index", "log", "long_term", "daily_log", "dream", "session", "heartbeat"),
    tables=("turns",),
    survey=survey,
    schemas={OTHER_FILES: pa.schema({"path": pa.string()})},
    owner=Owner(PAGE),
    is_general=True,
    dates={"created_at": "created", "updated_at": "updated"},
)
