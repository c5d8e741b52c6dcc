"""`Index`: the parameters of search that act at fit, declared once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from memkit.base.params import Estimator, estimator, param
from memkit.index.centre import CENTRES
from memkit.index.dense import ANN
from memkit.text.analyse import ANALYSERS, SEARCHABLE
from memkit.text.boilerplate import PATTERNS
from memkit.text.chunk import PROSE_DOC

LEXICAL = ("bm25", "char")
_fitted = partial(param, refit=True)
ENCODER_DOC = "The embedding model: a name such as 'use' or 'e5', or what `as_encoder` takes; None: no vectors."


@estimator
class Index(Estimator):
    """What `Retriever.fit` makes of a corpus: how texts are cut into chunks, read as terms, encoded and indexed.

    All parameters act at fit. A Retriever takes them as one, ``Retriever(index=Index(chunk_tokens=400))``; in grids,
    profiles and on the command line they are ``index__chunk_tokens`` and so on.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None, index=Index(chunk_tokens=3, overlap_tokens=0))
    >>> search.fit(mk.from_table({"text": ["пул соединений\\nвырос до десяти"]})).chunks_.num_rows
    2
    >>> search.set_params(index__chunk_tokens=100).index.overlap_tokens
    0
    """

    learns = False

    encoder: Any = _fitted("use", kind="object", doc=ENCODER_DOC)
    analyzer: str = _fitted("auto", choices=ANALYSERS, doc="How text becomes terms: tokenising and stemming.")
    lexical: str = _fitted(
        "bm25",
        choices=LEXICAL,
        doc="How the arm of words scores: by BM25, or by TF-IDF over stems and character n-grams ('char').",
    )
    chunk_tokens: int = _fitted(
        100, low=1, unit="tokens", doc="Chunk size: lines are joined into one chunk up to this size."
    )
    overlap_tokens: int = _fitted(20, low=0, unit="tokens", doc="Overlap of neighbouring chunks.")
    prose_tokens: int = _fitted(400, low=1, unit="tokens", doc=PROSE_DOC)
    searched: Sequence[str] = _fitted(
        None,
        stands_for=SEARCHABLE,
        choices=SEARCHABLE,
        low=1,
        doc="Columns of a memory whose text is searched; None: all of them.",
    )
    boilerplate: Sequence[str] = _fitted(
        None,
        stands_for=PATTERNS,
        doc="Regular expressions (RE2) of boilerplate. A match is shown in hits but not searched, except for its first"
        " group if that is named kept. None: those of `memkit.text.boilerplate`, which match what chat programs write"
        " around messages, and the targets of links; (): all text is searched.",
    )
    context_column: str | None = _fitted(
        "auto",
        kind="str",
        nullable=True,
        doc="Column that names a user's conversations: a turn is also found by the words of the turns around it, which"
        " count less. 'auto': the column session, conversation or thread of a table, if there is one. None: off. It is"
        " always off in buckets (shards) and engines.",
    )
    ann: str = _fitted(
        "auto",
        choices=ANN,
        doc="Nearest-neighbour search: exact, or approximate with HNSW or IVF; auto: exact in small corpora.",
    )
    centre: str = _fitted(
        "none",
        choices=CENTRES,
        doc="Mean-centering: subtract the mean vector of the corpus, or of each language's texts.",
    )
    engine: Any = _fitted(
        "local",
        kind="object",
        doc="Backend that finds candidates: 'local', 'milvus', 'milvus:URI', or an object with put, candidates and"
        " drop.",
    )
