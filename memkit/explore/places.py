"""The map of memories by meaning: a vector for each, a point on a plane near those of similar memories, and a colour by
kind, age, user, topic or duplicates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit import Deduplicator
from memkit.base.hashes import checksum
from memkit.errors import MissingExtraError, ParameterError, count_of
from memkit.extend.showing import COLOURS, FAINT, Axis, Dots, Mark, Picture, as_of_time, check_fitted, mask, short
from memkit.extend.writing import AsOf, check_choice
from memkit.index.ann import Centring, Nearest
from memkit.index.encoders.base import Vectors, as_texts, unit_means, unit_rows
from memkit.index.encoders.without_model import latent_vectors
from memkit.schemas import NO_TOPIC, Floats, Ints
from memkit.schemas import Mask as Chosen
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex
from memkit.tables.age import UNDATED, ages

if TYPE_CHECKING:
    from datetime import datetime

    from memkit import Retriever


METHODS = ("tsne", "pca", "umap")
_LEAST = 10
"""t-SNE and UMAP look at neighbours, and have too few of them among fewer memories."""
_LANDMARKS, _NEAREST, _SHARPNESS = 1500, 5, 24
"""So many memories are placed by t-SNE, whose cost grows faster than they do; every other lies among so many of these,
the nearest ones, weighed by their cosine to this power."""
# The libraries' own numbers but for the steps: 300 keep as many of the nearest as 500 did (43 %).
_NEIGHBOURS, _PERPLEXITY, _STEPS, _SEED = 15, 30, 300, 0


@dataclass(frozen=True)
class Layout:
    """The places of memories on a plane.

    Attributes
    ----------
    memories : pa.Table
        The memories that have a place, by memory_id; those without text have none.
    points : ndarray of float64, shape (n, 2)
        The axes have no meaning of their own.
    method : str
        One of `METHODS`.
    by : str
        What nearness means, in words.
    left_out : int
        How many memories have no text, and no place.
    """

    memories: pa.Table
    points: Floats
    method: str
    by: str
    left_out: int

    @property
    def table(self) -> pa.Table:
        """memory_id, x and y."""
        return pa.table({"memory_id": self.memories["memory_id"], "x": self.points[:, 0], "y": self.points[:, 1]})


def lay_out(search: Retriever, method: str = METHODS[0]) -> Layout:
    """Place each memory of a fitted Retriever on a plane, so that memories of like meaning lie close.

    A memory's vector is the mean of the vectors of its chunks. The mean of each language is subtracted, or memories
    would lie by language first. A search without vectors is laid out by words (latent semantic analysis of their
    stems). The same memories lie at the same places each time.

    Parameters
    ----------
    method : 'tsne', 'pca' or 'umap'
        t-SNE keeps neighbours together; it places 1,500 memories, and every other one among the five nearest of these.
        PCA keeps large distances, and few neighbours. UMAP is much like t-SNE, looks at all memories, takes minutes
        for 100,000 (and half a minute to compile, once a process), and needs the extra ``umap``. Below ten memories PCA
        is used.

    Raises
    ------
    NotFittedError, ParameterError
    MissingExtraError
        For ``method="umap"`` where it is not installed.

    Examples
    --------
    >>> import memkit as mk
    >>> texts = ["зелёный чай", "чай с мёдом", "пул соединений", "пул потоков"]
    >>> lay_out(mk.Retriever(encoder=None).fit(mk.from_table({"text": texts}))).by
    'by words, as the search has no vectors'
    """
    check_fitted("map", search)
    check_choice("projection", method, METHODS, "map")
    index = search.over_all().index_.whole
    of_chunks, by = _vectors(index)
    means, rows = unit_means(of_chunks, index.rows.memory)
    live = means.any(axis=1)
    vectors, rows = means[live], rows[live]
    memories = take_rows(index.memories, rows)
    centring = Centring(mode="language")
    texts = as_texts(memories["text"].fill_null(""))
    centred = centring.fit(vectors, texts).transform(vectors, texts)
    used = method if len(rows) >= _LEAST else "pca"
    points = _points(used, centred)
    return Layout(memories, points, used, by, index.memories.num_rows - len(rows))


def _vectors(index: MemoryIndex) -> tuple[Vectors, str]:
    """A vector of each chunk, and what it is made of: of the search's own encoder, else of the words of the corpus."""
    vectors = index.encoded()
    if vectors is not None:
        return vectors, "by meaning"
    why = "the search has no vectors" if index.settings.encoder is None else "the encoder is not installed"
    return latent_vectors(index.texts), f"by words, as {why}"


_placed: dict[tuple[str, bytes], Floats] = {}
# A round bound: two projections of two corpora.
_MOST_PLACED = 4


def _points(method: str, vectors: Vectors) -> Floats:
    """The places of vectors; the latest ones are kept, as a map is drawn again in other colours."""
    key = method, repr(vectors.shape).encode() + checksum(np.ascontiguousarray(vectors).tobytes())
    points = _placed.pop(key, None)
    points = _PLACED[method](vectors) if points is None else points
    _placed[key] = points
    for oldest in list(_placed)[:-_MOST_PLACED]:
        _placed.pop(oldest, None)
    # A copy: the kept places must not move with what a caller does.
    return points.copy()


def _pca(vectors: Vectors) -> Floats:
    """The two main axes of vectors, exactly, their signs fixed."""
    from scipy.linalg import eigh

    n, dim = vectors.shape
    points = np.zeros((n, 2))
    if n < 2:
        return points
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    # Of both products the smaller one: their axes give each other.
    product = (centred @ centred.T if n < dim else centred.T @ centred).astype(np.float64)
    _, axes = eigh(product, subset_by_index=[max(0, len(product) - 2), len(product) - 1])
    main = unit_rows((centred.T @ axes if n < dim else axes).T[::-1])
    largest = np.abs(main).argmax(axis=1)
    main *= np.where(main[range(len(main)), largest] < 0, -1, 1)[:, None]
    points[:, : len(main)] = centred @ main.T
    return points


def _tsne(vectors: Vectors) -> Floats:
    """Landmarks by t-SNE; every other vector at the mean of its nearest landmarks, weighed by their likeness."""
    from sklearn.manifold import TSNE

    n = min(_LANDMARKS, len(vectors))
    chosen = np.linspace(0, len(vectors) - 1, n).astype(np.int64)
    landmarks = vectors[chosen]
    perplexity = min(_PERPLEXITY, (n - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="pca", max_iter=_STEPS, random_state=_SEED)
    # One thread: sums of several would differ in the last digit, and the places soon after. Threads that were loaded
    # within the limit would not be held by it.
    with threadpool_limits(1):
        places: Floats = np.asarray(tsne.fit_transform(landmarks), np.float64)
    if n == len(vectors):
        return places
    rows, likeness = Nearest(landmarks, None, 0).best(vectors, _NEAREST, None)
    # A cosine of 0 or below has no weight, and a row of such landmarks would have none to divide by.
    weights = np.clip(likeness, 1e-6, None) ** _SHARPNESS
    points: Floats = (places[rows] * (weights / weights.sum(axis=1, keepdims=True))[..., None]).sum(axis=1)
    points[chosen] = places
    return points


def _umap(vectors: Vectors) -> Floats:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError("umap-learn", "umap") from error
    neighbours = min(_NEIGHBOURS, len(vectors) - 1)
    reducer = UMAP(n_neighbors=neighbours, metric="cosine", init="pca", random_state=_SEED, n_jobs=1)
    points: Floats = np.asarray(reducer.fit_transform(vectors), np.float64)
    return points


_PLACED = {"tsne": _tsne, "pca": _pca, "umap": _umap}


COLORS = ("kind", "age", "user", "topic", "duplicates")
_GREY = COLOURS[-1]
"""Of what has no colour of its own."""
_NOBODY = "nobody"
_MANY = 7
"""So many groups have a colour of their own."""
_AGES = ((1, "a day"), (7, "a week"), (30, "a month"), (90, "3 months"), (180, "6 months"), (365, "a year"))
_OLDER = "older than a year"
_WARM_TO_COLD = ("#F89540", "#E66C5C", "#CC4778", "#A72197", "#7E03A8", "#4B03A1", "#2C3E9E")
"""Of the palette plasma, whose steps every kind of colour vision orders; the newest is the brightest."""
_DUPLICATES = (
    ("goes, as a near-duplicate", COLOURS[5]),
    ("stays, of near-duplicates", COLOURS[0]),
    ("no duplicate", _GREY),
)
_HIGH = 420  # of the picture in pixels, so that it is not much wider than high
_AREA, _LEAST_AREA, _MOST_AREA = 12_000.0, 4.0, 30.0
"""Square points: of all dots together, and the ends for one."""


@dataclass(frozen=True)
class Groups:
    """Memories in groups, each with a colour.

    Attributes
    ----------
    names, colours : tuple of str
        In the order of the legend.
    codes : ndarray of int64, shape (n,)
        The group of each memory.
    """

    names: tuple[str, ...]
    colours: tuple[str, ...]
    codes: Ints

    @property
    def counts(self) -> list[int]:
        """How many memories each group has."""
        counts: list[int] = np.bincount(self.codes, minlength=len(self.names)).tolist()
        return counts


def grouped(
    color: str, memories: pa.Table, moment: datetime, dedup: Deduplicator | None = None, topics: Any = None
) -> Groups:
    """The groups of memories by one of `COLORS`; `dedup` is fitted on them, `topics` are theirs, where these are asked.

    Raises
    ------
    ParameterError
        For topics or a Deduplicator that are not there.
    """
    if color == "age":
        return _by_age(memories, moment)
    if color == "duplicates":
        if not isinstance(dedup, Deduplicator):
            got = type(dedup).__name__
            raise ParameterError(f"map: color='duplicates' needs dedup=mk.Deduplicator().fit(corpus). Got {got}.")
        return _by_duplicates(memories, dedup)
    if color == "topic":
        return _by_topic(memories, topics)
    if color == "user":
        return _largest(memories["user_id"].fill_null(_NOBODY), _NOBODY)
    return _largest(memories["kind"].fill_null("other"))


def _by_topic(memories: pa.Table, topics: Any) -> Groups:
    """The topics of `mk.topics`; what they leave out has none."""
    assigned = getattr(topics, "memories", None)
    if not isinstance(assigned, pa.Table) or not {"memory_id", "name"} <= set(assigned.column_names):
        raise ParameterError(f"map: color='topic' needs topics=mk.topics(search). Got {type(topics).__name__}.")
    rows = pc.index_in(memories["memory_id"], value_set=assigned["memory_id"].combine_chunks())
    return _largest(assigned["name"].take(rows).fill_null(NO_TOPIC), NO_TOPIC)


def _largest(values: pa.ChunkedArray, none: str = "") -> Groups:
    """The largest groups by name; the others are one group, in grey, and `none`, which is no group, is pale."""
    counts = sorted(((row["values"], row["counts"]) for row in pc.value_counts(values).to_pylist()), key=_by_size)
    named = [name for name, _ in counts if name != none]
    kept = named[: _MANY if len(named) <= _MANY else _MANY - 1]
    others, has_none = len(named) - len(kept), len(named) < len(counts)
    codes = pc.fill_null(pc.index_in(values, value_set=pa.array(kept, pa.string())), len(kept)).to_numpy()
    codes = codes.astype(np.int64) + np.where(pc.equal(values, none).to_numpy(), int(others > 0), 0)
    names = [*kept, *([count_of(others, "other")] if others else []), *([none] if has_none else [])]
    colours = [*COLOURS[: len(kept)], *([_GREY] if others else []), *([FAINT] if has_none else [])]
    return Groups(tuple(names), tuple(colours), codes)


def _by_size(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def _by_age(memories: pa.Table, moment: datetime) -> Groups:
    """Steps of age, from the first to the last that a memory has; what has no date comes last, in grey."""
    dated = pc.coalesce(memories["updated_at"], memories["created_at"]).to_numpy().astype("datetime64[us]")
    age = ages(dated, moment)
    step = np.searchsorted([days for days, _ in _AGES], age, side="left")
    known = ~np.isnan(age)
    first, last = (int(step[known].min()), int(step[known].max())) if known.any() else (0, -1)
    names = [*(f"up to {words}" for _, words in _AGES), _OLDER][first : last + 1]
    codes = np.where(known, step - first, len(names)).astype(np.int64)
    undated = ([UNDATED], [_GREY]) if not known.all() else ([], [])
    places = np.linspace(0, len(_WARM_TO_COLD) - 1, max(len(names), 2)).round().astype(int)[: len(names)]
    return Groups((*names, *undated[0]), (*(_WARM_TO_COLD[place] for place in places), *undated[1]), codes)


def _by_duplicates(memories: pa.Table, dedup: Deduplicator) -> Groups:
    """What a Deduplicator would refuse, the memory that stays in its place, and all others."""
    rows = dedup.transform(memories)
    stays = pc.is_valid(rows["cluster"]).to_numpy()
    codes = np.where(~rows["keep"].to_numpy(), 0, np.where(stays, 1, 2)).astype(np.int64)
    names, colours = zip(*_DUPLICATES, strict=True)
    return Groups(names, colours, codes)


def map(
    search: Retriever,
    color: str = "kind",
    *,
    query: str = "",
    k: int = 10,
    projection: str = METHODS[0],
    topics: Any = None,
    dedup: Deduplicator | None = None,
    as_of: AsOf = None,
) -> Picture:
    """All memories as points: those of like meaning lie close.

    Parameters
    ----------
    search : Retriever
        Fitted. Without vectors, memories lie by their words.
    color : 'kind', 'age', 'user', 'topic' or 'duplicates'
        What the colours say; the legend counts each group. Of many users the largest have a colour.
    query : str
        Its best `k` hits stand out, and all others are dimmed.
    k : int
    projection : 'tsne', 'pca' or 'umap'
        t-SNE keeps neighbours together, PCA large distances. UMAP is like t-SNE and needs the extra ``umap``.
    topics : Topics, optional
        ``mk.topics(search)``, for ``color="topic"``.
    dedup : Deduplicator, optional
        Fitted, for ``color="duplicates"``; by default one with the encoder of `search` is fitted.
    as_of : str, date, datetime or None
        The day of ages and of the query; None is now.

    Returns
    -------
    Picture
        ``mk.panels.map`` is the map to move in.

    Raises
    ------
    NotFittedError, ParameterError, QueryError
    MissingExtraError
        For ``projection="umap"`` where it is not installed.

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"text": ["зелёный чай", "чай с мёдом", "пул соединений"], "kind": ["profile", "profile", "working"]}
    >>> search = mk.Retriever(encoder="hash").fit(mk.from_table(rows))
    >>> print(mk.plot.map(search))
    3 memories by meaning, coloured by kind
    profile  ████████████████████ 2
    working  ██████████ 1
    """
    check_choice("color", color, COLORS, "plot.map")
    places, moment = lay_out(search, projection), as_of_time(as_of)
    if color == "duplicates" and dedup is None:
        dedup = deduplicator_of(search)
    groups = grouped(color, places.memories, moment, dedup, topics)
    chosen = None
    if query:
        hits = search.search(query, k=k, as_of=as_of)["memory_id"]
        chosen = pc.is_in(places.memories["memory_id"], value_set=hits).to_numpy()
    return places_of(places, groups, color, chosen)


def deduplicator_of(search: Retriever) -> Deduplicator:
    """A Deduplicator with the encoder of a search, fitted on its memories."""
    return Deduplicator(encoder=search.encoder).fit(search.over_all().corpus_)


def places_of(
    layout: Layout, groups: Groups, color: str, chosen: Chosen | None = None, most: int | None = None
) -> Picture:
    """What `map` shows; of more than `most` memories an even sample, and of those chosen too."""
    n, counts = len(layout.points), groups.counts
    title = f"{count_of(n, 'memory')} {layout.by}, coloured by {color}"
    title += "" if chosen is None else f"; {int(chosen.sum()):,} chosen"
    bright = np.ones(n, bool) if chosen is None else chosen
    size = float(np.clip(_AREA / max(n, 1), _LEAST_AREA, _MOST_AREA))
    marks: list[Mark] = []
    # The largest group is drawn first, so that it hides no other; what is chosen is drawn last.
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], code))
    for is_bright in (False, True):
        sampled = _sample(np.flatnonzero(bright == is_bright), most)
        alpha = 0.75 if chosen is None else 0.9 if is_bright else 0.2
        area = size if chosen is None or not is_bright else 2 * size
        for code in order:
            x, y = layout.points[sampled[groups.codes[sampled] == code]].T
            if len(x):
                marks.append(Dots(x, y, groups.colours[code], size=area, alpha=alpha))
    present = [code for code in range(len(counts)) if counts[code]]
    words = [(mask(groups.names[code]), counts[code]) for code in present]
    labels = [f"{short(mask(groups.names[code]))}: {counts[code]:,}" for code in present]
    marks += [Dots([], [], groups.colours[code], label) for code, label in zip(present, labels, strict=True)]
    across, up = (_axis(values) for values in layout.points.T)
    return Picture(title, marks, across, up, words, "" if n else "no memory has text", _HIGH)


def _sample(rows: Ints, most: int | None) -> Ints:
    """Of more than `most` rows an even sample."""
    if most is None or len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _axis(values: Any) -> Axis:
    """Both ends, with some room; without ticks, as the numbers mean nothing."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    room = 0.05 * (high - low) or 1.0
    return Axis(low - room, high + room, ticks=())
