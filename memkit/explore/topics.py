"""`topics`: what a corpus is about, as clusters of its memories named by their own words.

Clusters do not depend on chance: k-means on unit vectors starts from a tree of Ward's method over a sample, so that no
start is drawn. On labelled sets it was ahead of HDBSCAN, which called most short texts noise
(tests/benchmarks/bench_topics.py). Cost is linear in the number of vectors; the sample bounds what is quadratic.

Names are words by class-based tf-idf (Grootendorst 2022, BERTopic), in a form in which people write them: the weight of
a term is its share among the words of a group, times log(1 + A / f), where f counts the term over all groups, and A is
the mean number of words of a group. A memory counts a word once, so that one long list does not name a topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit import Corpus, Retriever
from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.base.duck import as_arrow, interruptible, session
from memkit.base.hashes import place
from memkit.base.params import current_names
from memkit.errors import ParameterError, count_of
from memkit.extend import Moment, as_encoder
from memkit.extend.showing import ROWS, Sheet, Tabular, bar, sheet_of
from memkit.extend.writing import AsOf, check_value, describe
from memkit.index.ann import Centring
from memkit.index.encoders.base import Vectors, as_texts, unit_means, unit_rows
from memkit.index.encoders.without_model import latent_vectors
from memkit.schemas import NO_TOPIC, TIMESTAMP, WORDS, Floats, Ints, result_schema
from memkit.search.ask import Ask, Queries, Settings, check_user
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex
from memkit.search.steps.scope import make_scope
from memkit.tables.secrets import learned, masked
from memkit.text.analyse import load_fts, spelling_sql, vocabulary_sql
from memkit.text.languages import FUNCTION_WORDS
from memkit.text.secrets import Mask
from memkit.text.sentences import plain_line

if TYPE_CHECKING:
    from memkit.plot import Picture

SHOWN = 8
"""The most words of a group."""
_ADDRESSES = r"\S+://\S+|\S+@\S+\.\S+|\S*/\S+/\S*|\*\*\[[\d:]+\] \w+\*\*"
"""Addresses, paths, and who speaks in a transcript."""
_MEASURES = (
    r"(?:second|minute|hour|day|week|month|year|time)s?|(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred)"
    r"|секунд\w*|минут\w*|час(?:а|ов|ы|у)?|д(?:ень|ня|ней|ни|ню)|недел\w*|месяц\w*|год(?:а|у|ы|ов)?|лет|раза?"
    r"|од(?:ин|на|но|ного|ной|ну)|дв(?:а|е|ух|умя)|тр(?:и|ёх|ех)|четыр(?:е|ёх|ех)|(?:пят|шест|сем|девят|десят)[ьи]"
    r"|вос(?:емь|ьми)|сто|ста|всего"
)
_UNNAMED = f"(?i)(?:{'|'.join(name.pattern for name in (*MONTHS, *WEEKDAYS))}|{_MEASURES})"
"""Dates, numbers in words and their units: they say when and how much, not what about."""
_NAMES = r"\p{L}{3,}[\p{L}\p{N}_]*|\p{Lu}{2}|[^\p{Latin}\p{Cyrillic}\P{L}]{2,}"
"""Three letters or more, two capitals (CI, ИИ), or two letters of another script."""
_TERMS = f"""
    with spellings as materialized (
        select distinct class, doc, unnest({spelling_sql("body")}) as spelling
        from (select class, doc, regexp_replace(body, '{_ADDRESSES}', ' ', 'g') as body from texts)
    ), vocabulary as materialized ({vocabulary_sql("spellings")}),
    words as (
        select spelling, len(terms) > 1 and not contains(spelling, '_') as is_run,
            unnest(if(is_run, terms, terms[:1])) as term
        from vocabulary
    ), named as (
        select class, doc, term, if(is_run, term, spelling) as spelling from spellings join words using (spelling)
        where regexp_full_match(if(is_run, term, spelling), '{_NAMES}')
            and not regexp_full_match(spelling, $unnamed)
            and not list_contains($function_words, replace(lower(spelling), 'ё', 'е'))
    ), forms as (
        select class, term, spelling, count(distinct doc) as n from named group by all
    ), counts as (
        select class, term, count(distinct doc) as n from named group by all
    ), totals as (
        select term, sum(n) as f, (select sum(n) / count(distinct class) from counts) as mean from counts group by term
    ), sizes as (
        select class, sum(n) as words, (select count(distinct doc) from texts t where t.class = c.class) as docs
        from counts c group by class
    ), weighted as (
        select class, term, n / words * ln(1 + mean / f) as weight, n >= least(2, docs) as is_shared
        from counts join totals using (term) join sizes using (class)
        qualify is_shared = bool_or(is_shared) over (partition by class)
    ), best as (
        select * from weighted
        qualify row_number() over (partition by class order by round(weight, 12) desc, term) <= $most
    )
    select class, term, round(weight, 12) as weight,
        list({{'spelling': spelling, 'n': n}} order by n desc, spelling) as forms
    from best join forms using (class, term) group by class, term, weight order by class, weight desc, term
"""  # noqa: S608  # constants of this module and expressions of `text.analyse`


def words_of(texts: pa.ChunkedArray, doc: Ints, group: Ints) -> dict[int, list[str]]:
    """The words of each group of texts, the strongest first.

    A word is in at least two memories of its group, if any is. Stop words, numbers, dates, addresses
    and secrets are no words. Its form is a short one among those that are written often.

    Parameters
    ----------
    texts : pa.ChunkedArray of string
    doc : ndarray of int64
        The memory of each text; several texts may be of one.
    group : ndarray of int64
        The group of each text.

    Examples
    --------
    >>> import numpy as np
    >>> texts = ["Пулы соединений", "пул соединений мал", "Green tea", "black tea, 2026"]
    >>> words_of(pa.chunked_array([texts]), np.arange(4), np.array([0, 0, 1, 1]))
    {0: ['пул', 'соединений'], 1: ['tea']}
    """
    hide = Mask()
    texts = masked(texts, hide, learned(hide, texts), " ")  # what one calls a secret is none of the words of another
    rows = pa.table({"class": group, "doc": doc, "body": texts})
    values = {"unnamed": _UNNAMED, "function_words": sorted(FUNCTION_WORDS), "most": SHOWN}
    with session() as con, interruptible():
        load_fts(con)
        con.register("texts", rows)
        counted = as_arrow(con, _TERMS, values).to_pylist()
    words: dict[int, list[str]] = {}
    for row in counted:
        words.setdefault(row["class"], []).append(written(row["forms"]))
    return words


def written(forms: list[dict[str, Any]]) -> str:
    """How a term is written: of the forms at least half as frequent as the most frequent one, the shortest.

    In lower case, if any of its spellings is; else as most often.

    >>> written([{"spelling": "пула", "n": 4}, {"spelling": "Пул", "n": 2}, {"spelling": "пул", "n": 1}])
    'пул'
    >>> written([{"spelling": "Анна", "n": 2}, {"spelling": "Анны", "n": 3}])
    'Анны'
    """
    by_word: Counter[str] = Counter()
    for form in forms:
        by_word[form["spelling"].lower()] += form["n"]
    often = max(by_word.values())
    word = min((word for word, n in by_word.items() if 2 * n >= often), key=lambda one: (len(one), -by_word[one], one))
    spellings = {form["spelling"]: form["n"] for form in forms if form["spelling"].lower() == word}
    return word if word in spellings else max(spellings, key=lambda one: (spellings[one], one))


DIMENSIONS = 100
"""Principal components that are kept; fewer lose clusters, more change nothing (bench_topics)."""
# The tree of n vectors takes n² of memory and time: 16 MB here.
SAMPLE = 2000
"""The most vectors of the tree, of the silhouette, and of each resample."""
# A round number: nobody reads a longer list, and each is a run of k-means.
MOST = 60
"""The most clusters that are tried; whoever wants more says how many."""
RESAMPLES = 30
"""Bootstrap resamples; a share of them is off by at most a tenth, as by 1 / (2 sqrt(30))."""
# A round bound.
_ROUNDS = 50


@dataclass(frozen=True)
class Clusters:
    """A partition, and how it holds in resamples.

    Attributes
    ----------
    label : ndarray of int64, shape (n,)
        The cluster of each vector, from 0.
    centre : ndarray of float32, shape (k, dimensions)
    closeness : ndarray of float64, shape (n,)
        The cosine of each vector to the centre of its cluster.
    sure : ndarray of float64, shape (k,)
        The mean Jaccard similarity of each cluster to the most similar cluster of each resample; NaN for a single one.
    probability : ndarray of float64, shape (n,)
        The share of the resamples in which the vector is in the cluster most similar to its own.
    silhouette : dict of int to float
        The mean silhouette by number of clusters; empty if the number was given.
    """

    label: Ints
    centre: Vectors
    closeness: Floats
    sure: Floats
    probability: Floats
    silhouette: dict[int, float]


def most_clusters(n: int) -> int:
    """The most clusters that are tried for `n` vectors: the rule of thumb sqrt(n / 2), at most `MOST`.

    >>> [most_clusters(n) for n in (1, 8, 200, 100_000)]
    [1, 2, 10, 60]
    """
    # An old rule of thumb for the most clusters worth trying.
    return max(1, min(MOST, int((n / 2) ** 0.5)))


def cluster(vectors: Vectors, order: Ints, k: int | None, seed: int) -> Clusters:
    """Partition unit vectors into `k` clusters, or as many as have the best mean silhouette.

    Parameters
    ----------
    vectors : ndarray of float32, shape (n, dim)
    order : ndarray of int64, shape (n,)
        A permutation of the rows; the first `SAMPLE` of it are the sample.
    k : int or None
        At most the number of distinct vectors.
    seed : int
        Of the resamples.
    """
    with threadpool_limits(1):  # threads add up in the order in which they come, which is not the same twice
        points = _reduced(vectors)
        sample = np.sort(order[:SAMPLE])
        distinct = len(np.unique(vectors, axis=0)) if k is None and len(vectors) <= SAMPLE else len(vectors)
        scores = {} if k is not None else _silhouettes(points[sample], min(most_clusters(len(points)), distinct))
        chosen = k if k is not None else max(scores, key=lambda number: (scores[number], -number), default=1)
        centre = _moved(points, _centres(points[sample], chosen))
        label, closeness = nearest(points, centre)
        sure, probability = _resampled(points, label, len(centre), seed)
    return Clusters(label, centre, closeness, sure, probability, scores)


def _reduced(vectors: Vectors) -> Vectors:
    """The first principal components, as unit rows; the vectors themselves where there are no more."""
    from sklearn.decomposition import PCA

    if min(vectors.shape) <= DIMENSIONS:
        return vectors
    solver = "covariance_eigh" if len(vectors) > vectors.shape[1] else "full"  # what is cheaper
    reduced: Vectors = PCA(DIMENSIONS, svd_solver=solver).fit_transform(vectors).astype(np.float32)
    return unit_rows(reduced)


def _centres(points: Vectors, k: int) -> Vectors:
    """The means of `k` branches of Ward's tree."""
    from scipy.cluster.hierarchy import fcluster

    if k == 1 or len(points) == 1:
        return unit_rows(points.mean(axis=0, keepdims=True))
    return _means(points, fcluster(_tree(points), k, "maxclust") - 1)


def _tree(points: Vectors) -> Floats:
    from scipy.cluster.hierarchy import linkage

    tree: Floats = linkage(points, "ward")
    return tree


def _means(points: Vectors, label: Ints) -> Vectors:
    sums = np.zeros((int(label.max()) + 1, points.shape[1]))
    np.add.at(sums, label, points)
    return unit_rows((sums / np.bincount(label)[:, None]).astype(np.float32))


def _moved(points: Vectors, start: Vectors) -> Vectors:
    """The centres of k-means from `start`, as unit rows."""
    from sklearn.cluster import KMeans

    if len(start) == 1:
        return start
    means = KMeans(len(start), init=start, n_init=1, max_iter=_ROUNDS, random_state=0).fit(points)
    return unit_rows(means.cluster_centers_.astype(np.float32))


def nearest(points: Vectors, centre: Vectors) -> tuple[Ints, Floats]:
    """The nearest centre of each point, and the cosine to it; ties go to the first."""
    label, closeness = np.empty(len(points), np.int64), np.empty(len(points))
    # A block, so that memory is that of 8,192 rows of cosines.
    for start in range(0, len(points), 8192):
        some = points[start : start + 8192] @ centre.T
        label[start : start + 8192] = some.argmax(axis=1)
        closeness[start : start + 8192] = some.max(axis=1)
    return label, closeness


def _silhouettes(points: Vectors, most: int) -> dict[int, float]:
    """The mean silhouette, by cosine distance, of k-means on `points` for 2 to `most` clusters."""
    from scipy.cluster.hierarchy import fcluster

    if most < 2:
        return {}
    tree, distance = _tree(points), 1 - points @ points.T
    scores = {}
    for k in bar("numbers of topics", _tried(most), leave=False):
        centre = _moved(points, _means(points, fcluster(tree, k, "maxclust") - 1))
        if len(np.unique(label := nearest(points, centre)[0])) > 1:
            # Rounded, so that of equal ones the fewest topics win on any processor.
            scores[k] = round(float(_silhouette(distance, label).mean()), 6)
    return scores


def _tried(most: int) -> list[int]:
    """2 to `most`, each at most an eighth larger than the one before, or the next."""
    tried = [2]
    while tried[-1] < most:
        # An eighth, as the silhouette of neighbouring numbers hardly differs and each costs a run of k-means.
        tried.append(min(most, max(tried[-1] + 1, int(tried[-1] * 1.125))))
    return tried


def _silhouette(distance: Vectors, label: Ints) -> Floats:
    """The silhouette of each point (Rousseeuw 1987): 0 for one that is alone in its cluster."""
    label = np.unique(label, return_inverse=True)[1]
    size, rows = np.bincount(label), np.arange(len(label))
    sums = distance @ np.eye(len(size), dtype=np.float32)[label]
    within = sums[rows, label] / np.maximum(size[label] - 1, 1)
    means = sums / size
    means[rows, label] = np.inf
    other = means.min(axis=1)
    # Memories of one text have no distance at all: 0 over something is the 0 that is meant.
    silhouette: Floats = (other - within) / np.maximum(np.maximum(within, other), 1e-12)
    return np.where(size[label] > 1, silhouette, 0.0)


def _resampled(points: Vectors, label: Ints, k: int, seed: int) -> tuple[Floats, Floats]:
    """`sure` and `probability` of `Clusters`, over bootstrap resamples that are clustered anew (Hennig 2007)."""
    if k < 2:
        return np.full(k, np.nan), np.ones(len(points))
    draw = np.random.default_rng(seed)
    jaccard, stays = np.zeros(k), np.zeros(len(points))
    for _ in bar("resampling", range(RESAMPLES), leave=False):
        drawn = points[np.sort(draw.integers(0, len(points), min(len(points), SAMPLE)))]
        other, _ = nearest(points, _moved(drawn, _centres(drawn, k)))
        shared = np.zeros((k, k))
        np.add.at(shared, (label, other), 1)
        either = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
        similarity = shared / np.maximum(either, 1)
        jaccard += similarity.max(axis=1)
        stays += other == similarity.argmax(axis=1)[label]
    return jaccard / RESAMPLES, stays / RESAMPLES


LEAST = 0.5
"""A memory that falls elsewhere in more resamples than not has no topic."""
_NAMED_BY, _EXAMPLE = 3, 160
# As many as `LsaEncoder` has, with which topics of labelled requests are as good.
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
    hide = Mask()
    learned(hide, index.memories["text"])
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
