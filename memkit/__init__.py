"""memkit: agents' memory folders as Arrow tables, with SQL, search that explains itself, and policies to replay.

>>> import memkit as mk
>>> corpus = mk.from_table({"text": ["Пул соединений вырос до десяти", "The pool grew to ten connections"]})
>>> corpus.sql("select memory_id from fts('пулы')").fetchall()
[('0',)]
"""

from __future__ import annotations

import sys
from typing import Any

from memkit.base import imported, names_in_stub
from memkit.base.outside import ROOMS as _OUTSIDE_ROOMS
from memkit.errors import did_you_mean as _did_you_mean

__version__ = "0.1.0"


# A name is imported when it is first used.
_PLACES = names_in_stub(__file__)

_MOVED = {
    "mk.errors": "ChangeRefusedError DamagedIndexError EncoderUnavailableError FormatError MissingExtraError"
    " NotFittedError NotFoundError ParameterError PolicyRefusal QueryError StaleIndexError StaleSourceError"
    " VersionError",
    "mk.workspace": "MemoryIndex MemoryStorage SearchResult get_index get_storage",
    "mk.labels": "import_log queries_needed",
    "mk.presets": "shares steps",
    "mk.explore": "Timeline Topics",
    "mk.extend": "contributions write_buckets",
    "mk.hosts": "IndexBudget",
    "memkit.change.export": "Export",
    "memkit.context": "Context",
    "memkit.past.history": "History",
}
_GONE = {
    "as_objective": "It is mk.as_estimator(search, metric).objective(queries, qrels, space) now.",
    "convert_ids": "Lakes of older versions are no longer read: read the folder again and judge anew.",
} | {name: f"It is {place}.{name} now." for place, names in _MOVED.items() for name in names.split()}
"""What to do instead of a public name that an older memkit had."""

__all__ = [*_PLACES]  # names, as they are listed in the stub


def __getattr__(name: str) -> Any:
    if name in _GONE:
        raise AttributeError(f"module 'memkit' has no attribute {name!r} any more. {_GONE[name]}")
    if name not in _PLACES:
        # Names that begin so are looked for by tools, in each module that they meet: nobody reads a hint.
        hint = "" if name.startswith("_") else _did_you_mean(name, __all__)
        raise AttributeError(f"module 'memkit' has no attribute {name!r}. Expected one of {', '.join(__all__)}.{hint}")
    module, attribute = _PLACES[name]
    if module.startswith(_OUTSIDE_ROOMS):
        from memkit.base.plugins import why_left_out

        if why := why_left_out(f"mk.{name}", module):
            raise AttributeError(why)
    globals()[name] = value = imported(__name__, module, attribute)
    return value


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext memkit``: ``%%memsql`` and ``%memsearch``; results show themselves, as after an import in IPython."""
    from memkit.panels.magics import MemkitMagics

    _show_in(ipython)
    ipython.register_magics(MemkitMagics(ipython))


def _show_in(ipython: Any) -> None:
    from memkit.display.draw import register

    register(ipython)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _show_where_asked() -> None:
    """Have results show themselves in IPython, or at Python's own prompt; those of a program stay as they are."""
    module = sys.modules.get("IPython")  # never imported for this: who uses it has it
    shell = module.get_ipython() if module else None
    if shell is not None:
        _show_in(shell)
    elif hasattr(sys, "ps1") or sys.flags.interactive:
        from memkit.display.draw import register_prompt

        register_prompt()


_show_where_asked()
