"""`topics`: what a corpus is about, as clusters of its memories named by their own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit import Corpus, Retriever
from memkit.base.hashes import place
from memkit.base.params import current_names
from memkit.errors import ParameterError, count_of
from memkit.explore.themes.clusters import Clusters, cluster
from memkit.explore.themes.words import words_of
from memkit.extend import Moment, as_encoder
from memkit.extend.showing import ROWS, Sheet, Tabular, sheet_of
from memkit.extend.writing import AsOf, check_value, describe
from memkit.index.centre import Centring
from memkit.index.encoders.base import Vectors, as_texts, unit_means, unit_rows
from memkit.index.latent import latent_vectors
from memkit.schemas import NO_TOPIC, TIMESTAMP, WORDS, Ints, result_schema
from memkit.search.ask import Ask, Queries, Settings, check_user
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex
from memkit.search.steps.scope import make_scope
from memkit.text.secrets import Mask, may_hold
from memkit.text.snippet import plain_line

if TYPE_CHECKING:
    from memkit.plot import Picture

LEAST = 0.5
"""A memory that falls elsewhere in more resamples than not has no topic."""
_NAMED_BY, _EXAMPLE = 3, 160
_AXES, _BY_WORDS = 256, "lsa"
"""Of vectors without an encoder."""
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
TOPICS = result_schema(
    (_COUNT, "topic"),
    (_TEXT, "name"),
    (WORDS, "words"),
    (_COUNT, "n"),
    (_NUMBER, "share sure"),
    (_TEXT, "memory_id text"),
    (pa.date32(), "since until"),
)
ASSIGNED = result_schema(
    (_TEXT, "memory_id"),
    (_COUNT, "topic"),
    (_TEXT, "name"),
    (_NUMBER, "probability"),
    (TIMESTAMP, "created_at"),
)


@dataclass(frozen=True, repr=False)
class Topics(Tabular):
    """The result of `topics`.

    Attributes
    ----------
    table : pyarrow.Table
        One row per topic, the largest first, and a last one, topic 0, for the memories that have none: topic, name (its
        three strongest words), words, n (memories), share, sure, memory_id and text (of the memory nearest to the
        topic's mean; its secrets are masked), since and until (the first and last day of its memories).
    memories : pyarrow.Table
        One row per memory: memory_id, topic, name, probability, created_at (else updated_at). `probability` is null for
        a memory without a vector.
    silhouette : dict of int to float
        The mean silhouette for each number of clusters that was tried; empty if `k` was given.

    Notes
    -----
    `sure` is the mean Jaccard similarity of a topic to the most similar cluster of each of 30 bootstrap resamples, each
    clustered anew (Hennig 2007): 0.75 and more is stable, below 0.6 doubtful, 0.5 and below dissolved. `probability` is
    the share of these resamples in which the memory lies in the cluster most similar to its topic. Both are null where
    there is one topic.
    """

    table: pa.Table
    memories: pa.Table
    silhouette: dict[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        named = self.table.filter(pc.greater(self.table["topic"], 0)).num_rows
        without = self.memories.num_rows - int(pc.sum(pc.greater(self.memories["topic"], 0)).as_py() or 0)
        return f"{count_of(named, 'topic')} of {count_of(self.memories.num_rows, 'memory')}, {without:,} have none"

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        sheet = sheet_of(self.table, rows, show_secrets)
        _, _, moment = sheet.heading.partition(", ")
        return (replace(sheet, heading=f"{self}, {moment}" if moment else str(self)),)

    def plot(self, *, by: str = "month") -> Picture:
        """How many memories each topic has by month or week: `mk.plot.topics`.

        Examples
        --------
        >>> import memkit as mk
        >>> tea = {"text": ["зелёный чай", "чёрный чай"], "created_at": ["2026-01-05", "2026-02-01"]}
        >>> print(topics(mk.from_table(tea)).plot())
        memories by topic and month, 0 without a date
        2026-01  1: чай (1)
        2026-02  1: чай (1)
        """
        from memkit import plot

        return plot.topics(self.memories, by=by)


@current_names
def topics(
    corpus: Corpus | Retriever,
    k: int | None = None,
    where: str | None = None,
    as_of: AsOf = None,
    *,
    user_id: str | None = None,
    random_state: int = 0,
) -> Topics:
    """Find what a corpus is about: clusters of its memories by meaning, each named by its most typical words.

    The vectors are those that a search would use: of the default encoder, or of a fitted Retriever. Where it has none,
    LSA of its words, with the axes of at most 3,000 chunks. A memory's vector is the mean of its chunks', after the
    mean of its script (Latin or Cyrillic) is subtracted, so that texts of one subject meet whatever their language.
    Spherical k-means partitions the first 100 principal components; it starts from a tree of Ward's method, so nothing
    depends on chance or on the order of rows.
    Cost is linear in the number of memories.

    Parameters
    ----------
    corpus : Corpus or Retriever
        A corpus, or a fitted Retriever, whose vectors are reused.
    k : int, optional
        The number of topics. None: between 2 and sqrt(n / 2), at most 60, whichever has the best mean silhouette
        (Rousseeuw 1987); fewer than 8 memories are one topic.
    where, as_of, user_id
        As for `Retriever.search`: the memories that it can find are the ones that are counted.
    random_state : int
        For the resamples behind `sure` and `probability`; topics do not depend on it, except for which memories have
        none.

    Returns
    -------
    Topics
        Shows itself; ``.table``, ``.memories``, ``.plot()``. A memory has no topic if its probability is below 0.5, or
        if no other memory has its topic.

    Raises
    ------
    ParameterError
        If `k` exceeds the number of distinct memories.
    QueryError, NotFittedError

    Examples
    --------
    >>> import memkit as mk
    >>> tea = ["Зелёный чай с мятой", "Чёрный чай с лимоном", "Чай остыл"]
    >>> pool = ["Пул соединений вырос", "Пул соединений мал", "Соединения и пул"]
    >>> found = topics(mk.Retriever(encoder="hash").fit(mk.from_table({"text": tea + pool})), k=2)
    >>> found.table["name"].to_pylist()
    ['чай', 'пул, соединений']
    """
    owner = "topics"
    check_value(owner, "k", k, "int", low=1, nullable=True)
    check_value(owner, "random_state", random_state, "int", low=0)
    check_user(user_id, owner)
    search = _fitted(corpus)
    moment, index = Moment.from_as_of(as_of), search.index_.whole
    encoder, of_chunks = _chunk_vectors(index)
    memory, vectors = _vectors(index, of_chunks, Settings.from_estimator(search), where, moment, user_id)
    shown = np.flatnonzero(vectors.any(axis=1))
    if k is not None and k > (distinct := len(np.unique(vectors[shown], axis=0))):
        raise ParameterError(f"topics: 'k' must be at most the number of memories that differ, {distinct:,}. Got {k}.")
    ids = take_rows(index.memories["memory_id"], memory)
    clusters = None
    if len(shown):
        order = np.argsort([place(one) for one in ids.take(pa.array(shown)).to_pylist()], kind="stable")
        clusters = cluster(vectors[shown], order, k, random_state)
    return _result(index, encoder, memory, shown, clusters, moment)


def _fitted(corpus: Corpus | Retriever) -> Retriever:
    """A fitted Retriever over all memories at once; of the default encoder, if that is installed."""
    if isinstance(corpus, Retriever):
        return corpus.over_all()
    try:
        as_encoder("use")
    except ImportError:
        return Retriever(encoder=None, gram_weight=0.0).fit(corpus).over_all()
    return Retriever(vector_weight=1.0).fit(corpus).over_all()


def _chunk_vectors(index: MemoryIndex) -> tuple[str, Vectors]:
    """What the vectors are made by, and that of each chunk: by the encoder, or without one by its words."""
    vectors = index.encoded()
    if vectors is not None:
        return str(index.fingerprint), vectors
    return _BY_WORDS, unit_rows(latent_vectors(index.texts, _AXES, letters=True))


def _vectors(
    index: MemoryIndex, raw: Vectors, settings: Settings, where: str | None, moment: Moment, user_id: str | None
) -> tuple[Ints, Vectors]:
    """The rows of the memories that a search can find, and the mean of their chunks' vectors; zeros without any."""
    scope = make_scope(index, Ask(Queries((), ()), settings, 1, where, moment, user_id), where)
    left_out = np.zeros(index.memories.num_rows, bool)
    for _, gone in scope.reasons():
        left_out |= gone
    memory = np.flatnonzero(~left_out)
    rows = np.flatnonzero(~left_out[index.rows.memory])
    centred = Centring(mode="language")
    texts = as_texts(take_rows(index.texts, rows))
    chunks = centred.fit(raw[rows], texts).transform(raw[rows], texts)
    vectors = np.zeros((len(memory), raw.shape[1]), np.float32)
    means, with_chunks = unit_means(chunks, index.rows.memory[rows])
    vectors[np.searchsorted(memory, with_chunks)] = means
    return memory, vectors


def _result(
    index: MemoryIndex, encoder: str, memory: Ints, shown: Ints, clusters: Clusters | None, moment: Moment
) -> Topics:
    number, sure = np.zeros(len(memory), np.int64), dict[int, float | None]()
    probability, closeness = np.full(len(memory), np.nan), np.full(len(memory), -np.inf)
    if clusters is not None:
        number[shown], sure = _numbered(clusters)
        probability[shown] = clusters.probability if len(clusters.sure) > 1 else np.nan
        closeness[shown] = clusters.closeness
    words = _words(index, memory, number)
    names = _names({topic: words.get(topic, []) for topic in sure})
    assigned = pa.Table.from_arrays(
        [
            take_rows(index.memories["memory_id"], memory),
            pa.array(number),
            pa.array([names[topic] for topic in number.tolist()], _TEXT),
            pa.array(probability, from_pandas=True),
            pc.coalesce(*(take_rows(index.memories[name], memory) for name in ("created_at", "updated_at"))),
        ],
        schema=ASSIGNED,
    )
    texts = index.memories["text"]
    hide = Mask(texts.filter(may_hold(texts)).to_pylist())
    rows = [
        {
            "topic": topic,
            "name": names[topic],
            "words": words.get(topic, []) if topic else [],
            "sure": sure.get(topic),
            **_row(index, memory, np.flatnonzero(number == topic), closeness, assigned["created_at"], hide),
        }
        for topic in [*sure, 0]
        if (number == topic).any()
    ]
    silhouette = clusters.silhouette if clusters else {}
    table = pa.Table.from_pylist(rows, TOPICS)
    facts = {"encoder": encoder, "as_of": moment.instant.isoformat(), "note": _note(table, silhouette)}
    return Topics(describe(table, memkit="topics", **facts), describe(assigned, memkit="assigned", **facts), silhouette)


def _numbered(clusters: Clusters) -> tuple[Ints, dict[int, float | None]]:
    """The topic of each vector, the largest first from 1, or 0 for none; and how sure each topic is."""
    is_single = len(clusters.sure) == 1
    is_sure = clusters.probability >= LEAST
    is_sure &= (np.bincount(clusters.label[is_sure], minlength=len(clusters.sure)) > 1)[clusters.label] | is_single
    label, first, size = np.unique(clusters.label[is_sure], return_index=True, return_counts=True)
    label = label[np.lexsort((first, -size))]
    topic = np.zeros(len(clusters.sure), np.int64)
    topic[label] = np.arange(1, len(label) + 1)
    sure = {number: None if is_single else float(clusters.sure[one]) for number, one in enumerate(label.tolist(), 1)}
    return np.where(is_sure, topic[clusters.label], 0), sure


def _words(index: MemoryIndex, memory: Ints, number: Ints) -> dict[int, list[str]]:
    """The words of each topic; those of the memories without one count as a group beside them."""
    group = np.full(index.memories.num_rows, -1)
    group[memory] = number
    of_chunk = group[index.rows.memory]
    rows = np.flatnonzero(of_chunk >= 0)
    return words_of(take_rows(index.own_texts, rows), index.rows.memory[rows], of_chunk[rows])


def _names(words: dict[int, list[str]]) -> dict[int, str]:
    """The name of each topic: its first three words, or more of them where a larger topic is called so already."""
    names = {0: NO_TOPIC}
    for topic, listed in words.items():
        several = (", ".join(listed[:many]) for many in range(_NAMED_BY, len(listed) + 1))
        first = ", ".join(listed[:_NAMED_BY])
        taken = set(names.values()) | {""}
        names[topic] = next((name for name in (first, *several) if name not in taken), f"topic {topic}")
    return names


def _row(index: MemoryIndex, memory: Ints, rows: Ints, closeness: Any, dates: Any, hide: Mask) -> dict[str, Any]:
    best = int(memory[rows[np.argmax(closeness[rows])]])
    text = hide(index.memories["text"][best].as_py() or "")
    ends = pc.min_max(dates.take(pa.array(rows)).cast(pa.date32(), safe=False))
    return {
        "n": len(rows),
        "share": len(rows) / len(memory),
        "memory_id": index.memories["memory_id"][best].as_py(),
        "text": _cut(plain_line(text)),
        "since": ends["min"].as_py(),
        "until": ends["max"].as_py(),
    }


def _cut(text: str) -> str:
    return text if len(text) <= _EXAMPLE else f"{text[: _EXAMPLE - 1].rstrip()}…"


def _note(table: pa.Table, silhouette: dict[int, float]) -> str:
    parts: Sequence[str] = (
        f"{max(silhouette, key=lambda k: (silhouette[k], -k))} clusters have the best mean silhouette,"
        f" {max(silhouette.values()):.2f}, of 2 to {max(silhouette)}."
        if silhouette
        else "",
        "Sure: the mean Jaccard similarity over resamples; 0.75 and more is stable, below 0.6 doubtful."
        if table["sure"].null_count < table.num_rows
        else "",
    )
    return " ".join(filter(None, parts))
