"""Panels: turn a knob, see what moves, and whether it is real.

Every panel rests on one frozen `State`, whose history it can undo. What a panel shows is worked out by plain Python
(`panel`, and a module a panel or for two of one matter: the records lie with `decay_panel`, a sweep with
`judge_panel`, prompts with `policy_panel`); `page` brings it into the browser, as controls made from declared
parameters.

>>> import memkit as mk
>>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
>>> panel = mk.panels.search(mk.Retriever(encoder=None).fit(corpus), "кофе", as_of="2026-03-01")
>>> panel.result["memory_id"].to_pylist()
['b']
>>> panel.set(k=1, min_score=0.1)
>>> print(panel.code)
search.with_params(min_score=0.1).search('кофе', k=1, as_of='2026-03-01')
"""

from __future__ import annotations

from memkit.base import room
from memkit.base.plugins import PANELS

__all__, __getattr__ = room(__name__, __file__, PANELS)
