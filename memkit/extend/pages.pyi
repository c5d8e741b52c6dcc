# The names of mk.extend.pages, for type checkers and for the module itself.

from memkit.base.dates import dated as dated
from memkit.formats.linked.layout import layout as layout
from memkit.formats.linked.links import Link as Link
from memkit.formats.linked.links import links_in as links_in
from memkit.formats.linked.links import without_code as without_code
from memkit.formats.linked.page import Page as Page
from memkit.formats.linked.page import comparable as comparable
from memkit.formats.linked.page import is_contents as is_contents
from memkit.formats.linked.page import kind_of_page as kind_of_page
from memkit.formats.linked.relations import MEM as MEM
from memkit.formats.linked.relations import UNREAD_FILES as UNREAD_FILES
from memkit.formats.workspace import OF_ENTRY as OF_ENTRY
from memkit.formats.workspace import Section as Section
from memkit.formats.workspace import moment_of as moment_of
