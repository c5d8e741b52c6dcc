"""The kind of index for each kind of corpus, and the data that a saved corpus gets. Higher rooms register theirs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from memkit.search.fitted.index import MemoryIndex, Searchable, build_as
from memkit.search.fitted.store import FOLDER, save_index, saved_arm
from memkit.search.settings import FitSettings, QuerySettings
from memkit.tables.above import scale
from memkit.tables.manifest import TOTALS

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus


@singledispatch
def index_for(
    corpus: Corpus, settings: FitSettings, how: QuerySettings, before: Searchable | None = None
) -> Searchable:
    """Build the index of `corpus`, with the arms that `how` needs; other parameters as for `build_as`.

    Raises
    ------
    ParameterError
        If this kind cannot be built with the settings.
    """
    index = build_as(_kind(settings), corpus, settings, before if isinstance(before, MemoryIndex) else None)
    if corpus.folder:
        index.sources.append(saved_arm)
    return index


def _kind(settings: FitSettings) -> type[MemoryIndex]:
    if settings.engine == "local":
        return MemoryIndex
    kind: type[MemoryIndex] = scale("engine").EngineIndex
    return kind


def fitted_corpus(index: Searchable, params: Callable[[], dict[str, Any]], how: Callable[[], QuerySettings]) -> Corpus:
    """A copy of the corpus behind `index`, with the table ``chunks``; its `save` writes the index too.

    Parameters
    ----------
    params, how : callable
        Return the parameters of the Retriever, and its query-time settings, when the copy is saved.
    """
    corpus = copy.copy(index.corpus)
    corpus.attach(TOTALS, lambda folder: scale("index").save_statistics(folder, index, how()))
    if isinstance(index, MemoryIndex):
        index.corpus = corpus
        corpus.add_table("chunks", index.chunks)
        corpus.attach(FOLDER, lambda folder: save_index(index, params(), folder))
    return corpus
