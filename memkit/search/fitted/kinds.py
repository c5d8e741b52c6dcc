"""Which kind of index a corpus gets, and what a save keeps of it. A corpus of a room above registers its own kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from memkit.search.fitted.index import MemoryIndex, Searchable, build_as
from memkit.search.fitted.store import FOLDER, kept_arm, save_index
from memkit.search.settings import FitSettings, QuerySettings
from memkit.tables.above import scale
from memkit.tables.manifest import TOTALS

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus


@singledispatch
def index_for(
    corpus: Corpus, settings: FitSettings, how: QuerySettings, before: Searchable | None = None
) -> Searchable:
    """The index of `corpus`, for questions such as `how`; other parameters as for `build_as`.

    Raises
    ------
    ParameterError
        Where this kind cannot be made with the settings.
    """
    index = build_as(_kind(settings), corpus, settings, before if isinstance(before, MemoryIndex) else None)
    if corpus.folder:
        index.sources.append(kept_arm)
    return index


def _kind(settings: FitSettings) -> type[MemoryIndex]:
    if settings.engine == "local":
        return MemoryIndex
    kind: type[MemoryIndex] = scale("engine").EngineIndex
    return kind


def own_corpus(index: Searchable, params: Callable[[], dict[str, Any]], how: Callable[[], QuerySettings]) -> Corpus:
    """A copy of the corpus behind `index`, with the table ``chunks``, whose `save` keeps what was made of it.

    Parameters
    ----------
    params, how : callable
        The parameters of the Retriever, and what it asks with, when the copy is saved.
    """
    own = copy.copy(index.corpus)

    own.attach(TOTALS, lambda folder: scale("index").save_statistics(folder, index, how()))
    if isinstance(index, MemoryIndex):
        index.corpus = own
        own.add_table("chunks", index.chunks)
        own.attach(FOLDER, lambda folder: save_index(index, params(), folder))
    return own
