"""What memkit can be given: formats, adapters of records, stores, prompts, steps of search, encoders, policies,
engines, exports, overviews and verbs; and the parts.

They become known by `register`, or by the entry points of a package; an engine such as `Milvus` is given to a
Retriever. What each is written with lies in modules: `reading` for formats, `pages` for layouts of linked Markdown,
`writing` for stores and exports, `verbs` for the command line. memkit's own additions for hosts import nothing else.
"""

from __future__ import annotations

from typing import Any

from memkit.base import imported, names_in_stub
from memkit.base.plugins import ENGINES, why_left_out
from memkit.errors import did_you_mean

# A name is imported when it is first used, as a format that is read for needs no search.
_PLACES = names_in_stub(__file__)
__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        # Names that begin so are looked for by tools, in each module that they meet.
        if not name.startswith("_") and (engine := ENGINES.get(name)) is not None:
            return engine
        raise AttributeError(f"mk.extend has no {name!r}.{did_you_mean(name, __all__)}")
    module, attribute = _PLACES[name]
    if why := why_left_out(f"mk.extend.{name}", module):
        raise AttributeError(why)
    globals()[name] = value = imported(__name__, module, attribute)
    return value


def __dir__() -> list[str]:
    return __all__
