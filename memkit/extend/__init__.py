"""What memkit can be given: formats, adapters of records, stores, prompts, steps of search, encoders, policies,
engines, exports, overviews and verbs; and the parts.

They become known by `register`, or by the entry points of a package; an engine such as `Milvus` is given to a
Retriever. What each is written with lies in modules: `reading` for formats, `pages` for layouts of linked Markdown,
`writing` for stores, `exports`, `showing` for results and pictures, `panels`, `verbs` for the command line. The hosts
that memkit brings import nothing else.
"""

from __future__ import annotations

from memkit.base import room
from memkit.base.plugins import ENGINES

# A format that is read for needs no search.
__all__, __getattr__ = room(__name__, __file__, ENGINES)
