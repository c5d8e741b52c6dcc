"""What a layout of linked Markdown is written with: a subclass of `Page`, which says what its pages add, and `layout`.

`layout` declares the rules, tables and links that all such layouts share. A page is cut into a `Section` a heading, and
its links are `Link`.
"""

from memkit.formats.linked.layout import layout
from memkit.formats.linked.links import Link, links_in, without_code
from memkit.formats.linked.page import Page, comparable, is_contents, kind_of_page
from memkit.formats.linked.relations import MEM, UNREAD_FILES
from memkit.formats.workspace import OF_ENTRY, Section, dated, moment_of

__all__ = [
    "MEM",
    "OF_ENTRY",
    "UNREAD_FILES",
    "Link",
    "Page",
    "Section",
    "comparable",
    "dated",
    "is_contents",
    "kind_of_page",
    "layout",
    "links_in",
    "moment_of",
    "without_code",
]
