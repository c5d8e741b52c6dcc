# The names of mk.extend.panels, for type checkers and for the module itself.

from memkit.panels.page import cut as cut
from memkit.panels.page import legend as legend
from memkit.panels.page import paragraph as paragraph
from memkit.panels.page import rows_html as rows_html
from memkit.panels.panel import QUERY as QUERY
from memkit.panels.panel import Action as Action
from memkit.panels.panel import Panel as Panel
from memkit.panels.panel import Session as Session
from memkit.panels.panel import State as State
from memkit.panels.panel import call_code as call_code
from memkit.panels.panel import moment_of as moment_of
