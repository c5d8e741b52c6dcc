"""What a panel is written with: a subclass of `Panel`, which answers a `State` and says how the answer looks.

``declared`` has its parameters, which become controls; ``_answer(state)`` works out what is shown, ``_picture``,
``_body`` and ``_status`` show it, and ``_code`` is the call that gives the same. Panels of one `Session` move together.
"""

from memkit.panels.panel import QUERY, Action, Panel, call_code, moment_of
from memkit.panels.parts import cut, legend, paragraph, rows_html
from memkit.panels.state import Session, State

__all__ = [
    "QUERY",
    "Action",
    "Panel",
    "Session",
    "State",
    "call_code",
    "cut",
    "legend",
    "moment_of",
    "paragraph",
    "rows_html",
]
