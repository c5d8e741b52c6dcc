"""memkit: agents' memory folders as Arrow tables, with SQL, search that explains itself, and policies to replay.

>>> import memkit as mk
>>> corpus = mk.from_table({"text": ["Пул соединений вырос до десяти", "The pool grew to ten connections"]})
>>> corpus.sql("select memory_id from fts('пулы')").fetchall()
[('0',)]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit import presets as presets
    from memkit.formats.rules import rules as rules
    from memkit.tables.corpus import Corpus as Corpus
    from memkit.tables.corpus import open_lake as open  # noqa: F401 - mk.open, under another name in its module
    from memkit.tables.corpus import read as read
    from memkit.tables.named import named_queries as named_queries
    from memkit.tables.table import from_table as from_table
    from memkit.text.chunk import Chunker as Chunker

__version__ = "0.1.0"

# Public name to the module that has it, and its name there: a name is imported when it is first used.
_PUBLIC = {
    "Chunker": ("memkit.text.chunk", "Chunker"),
    "Corpus": ("memkit.tables.corpus", "Corpus"),
    "from_table": ("memkit.tables.table", "from_table"),
    "named_queries": ("memkit.tables.named", "named_queries"),
    "open": ("memkit.tables.corpus", "open_lake"),
    "presets": ("memkit.presets", ""),
    "read": ("memkit.tables.corpus", "read"),
    "rules": ("memkit.formats.rules", "rules"),
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'memkit' has no attribute {name!r}. Expected one of {', '.join(_PUBLIC)}.")
    module, attribute = _PUBLIC[name]
    value = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_PUBLIC, "__version__"]
