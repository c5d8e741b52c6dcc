"""A sharded corpus: each shard (bucket) has whole users and is an ordinary lake; one user's query opens one shard.

``buckets.json`` is written last: an interrupted save leaves no sharded corpus, and the next save continues it. It has
the hash of each bucket's manifest, so that buckets of two saves are never mixed.

Collection statistics, which the weights of terms and vectors depend on, are counted shard by shard and saved. Their
files are not trusted and are checked, as all files of a lake are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from heapq import nsmallest
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memkit.base import atomic
from memkit.base.checked import json_object, with_fields
from memkit.base.hashes import digest, digest_of_file, place
from memkit.base.parallel import results
from memkit.base.params import check_value, current_names
from memkit.errors import FormatError, MemkitError, ParameterError, count_of, refused
from memkit.index.ann import MIN_ROWS, scripts
from memkit.index.cache import shared_cache
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import Vectors, as_texts, unit_rows
from memkit.index.lexical import CollectionStatistics
from memkit.index.postings import Postings
from memkit.schemas import TABLES, Floats, Ints, without_rows
from memkit.search.ask import QuerySettings
from memkit.search.fitted.chunks import Index, take_rows
from memkit.search.fitted.index import _BACKGROUND, MemoryIndex, Searchable
from memkit.search.retriever import OVER_BUCKETS, index_for
from memkit.search.steps.recall import ARMS
from memkit.tables.corpus import Corpus
from memkit.tables.database import Database
from memkit.tables.fts import TEXT_VERSION
from memkit.tables.lake import (
    BUCKETS,
    MANIFEST,
    TOTALS,
    VERSION,
    Writers,
    check_path,
    current,
    is_lake,
    load,
    read_manifest,
    save,
    save_tables,
    write_parquet,
)
from memkit.tables.table import from_table, user_table
from memkit.tables.untrusted import check_unique, open_member, read_json, read_parquet, refuse_links

LIST_VERSION = 2
# Five digits, as their folders are named.
MOST_BUCKETS = 100_000
_PARTS = ".parts"
VECTORS = "vectors"
"""A table of a shard with the columns memory_id and vector: vectors supplied by the user."""


class Buckets(Corpus):
    """A corpus in shards (buckets). As a `Corpus` it has all memories; a Retriever opens only the shards it needs.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        The tables of all shards, loaded at first use.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.from_table({"text": ["чай", "кофе"], "user_id": ["anna", "boris"]}).save(folder, buckets=4)
    ...     lake = mk.open(folder)
    ...     lake, lake.bucket(lake.bucket_of("anna")).memories["text"].to_pylist()
    (Buckets(2 memories in 4 buckets), ['чай'])
    """

    def __init__(self, folder: Path, trusted: bool = False) -> None:
        self._shards = _read_list(folder)
        super().__init__({}, folder=folder, trusted=trusted)
        del self.tables  # loaded at first use

    def __len__(self) -> int:
        return len(self._shards)

    @property
    def n_memories(self) -> int:
        """The number of memories in all buckets."""
        return sum(shard["memories"] for shard in self._shards)

    @cached_property
    def tables(self) -> dict[str, pa.Table]:  # type: ignore[override]  # loaded at first use
        """The tables of all buckets."""
        parts = [self.bucket(number).tables for number in range(len(self))]
        names = list(dict.fromkeys(name for part in parts for name in part))
        return {name: pa.concat_tables([part[name] for part in parts if name in part]) for name in names}

    def whole(self) -> Corpus:
        """All buckets as one corpus in memory, for sweeps, traces and audits, which need one index."""
        return Corpus(self.tables, folder=None, trusted=self.trusted)

    def bucket(self, number: int) -> Corpus:
        """One bucket.

        Raises
        ------
        FormatError
            If it is missing, damaged, or of another save than the others.
        """
        place = self._place(number)
        tables, reading, text_index, _ = load(place, None, self.trusted)
        return Corpus(tables, reading=reading, text_index=text_index, folder=place, trusted=self.trusted)

    def _place(self, number: int) -> Path:
        """The folder of a bucket, after checking that it is there and of this save."""
        name, expected = self._shards[number]["name"], self._shards[number]["manifest"]
        assert self.folder is not None
        place: Path = self.folder / name
        if not is_lake(place):
            raise refused(place, "a bucket of this lake", "none; put it back, or save the corpus again")
        with open_member(current(place), MANIFEST) as file:
            if digest_of_file(file) != expected:
                raise refused(place, "the bucket that was saved with the others", "another; save the corpus again")
        return place

    def bucket_of(self, user_id: str) -> int:
        """The number of the bucket for this user's memories."""
        return place(user_id) % len(self)

    def needed(self, user_id: str | None) -> list[int]:
        """The buckets that a user's query needs: that user's, and those with memories without a user; all for None."""
        user_bucket = None if user_id is None else self.bucket_of(user_id)
        return [number for number, shard in enumerate(self._shards) if user_bucket in (None, number) or shard["shared"]]

    @current_names
    def save(self, path: str | Path, buckets: int | None = None) -> None:
        """As `Corpus.save`; to its own folder only the collection statistics are written.

        A later fit to these buckets loads them and reads no bucket.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mk.from_table({"text": ["чай", "кофе"]}).save(folder, buckets=2)
        ...     lake = mk.open(folder)
        ...     mk.Retriever(encoder=None).fit(lake).corpus_.save(folder)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['bucket-00000', 'bucket-00001', 'buckets.json', 'totals']
        """
        if buckets is None and self.folder == check_path(Path(path)):
            if TOTALS in self._attached:
                self._attached[TOTALS](self.folder / TOTALS)
            return
        super().save(path, buckets)

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "trusted": self.trusted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Buckets.__init__(self, **state)

    def is_same(self, other: Buckets) -> bool:
        """Whether both are of one save, in one folder."""
        return (self.folder, self._shards) == (other.folder, other._shards)

    def __copy__(self, memo: object = None) -> Buckets:
        assert self.folder is not None
        same = Buckets(self.folder, self.trusted)
        same._attached = self._attached.copy()
        return same

    __deepcopy__ = __copy__

    def __repr__(self) -> str:
        return f"Buckets({count_of(self.n_memories, 'memory')} in {count_of(len(self), 'bucket')})"

    def _repr_html_(self) -> str:
        return f"<pre>{self!r}</pre>"


@current_names
def write_buckets(path: str | Path, tables: Iterable[Any], buckets: int = 32) -> None:
    """Write a sharded corpus from an iterable of tables, which may be larger than memory.

    Parameters
    ----------
    path : str or Path
        As for `Corpus.save`; it must be new or empty.
    tables : iterable of pyarrow.Table or pandas.DataFrame
        Each as for `mk.from_table`, with a column ``memory_id``; ids are unique over all tables. An optional column
        ``vector`` (lists of numbers of one length) has vectors to use in place of encoding.
    buckets : int
        The number of shards. One shard has to fit into memory several times.

    Raises
    ------
    MemkitError, ParameterError
        If the folder has other contents, an id is missing or occurs twice in a bucket, or writing fails.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> days = ({"memory_id": [f"{day}"], "text": [f"день {day}"], "user_id": ["anna"]} for day in range(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_buckets(folder, days, buckets=2)
    ...     mk.open(folder)
    Buckets(3 memories in 2 buckets)
    """
    check_value("write_buckets", "buckets", buckets, "int", low=1, high=MOST_BUCKETS)
    if isinstance(tables, dict | str) or not isinstance(tables, Iterable) or hasattr(tables, "columns"):
        raise ParameterError(f"write_buckets: 'tables' must be tables, one after another. Got {type(tables).__name__}.")
    place = check_path(Path(path))
    if is_lake(place) or (place / BUCKETS).exists():
        raise MemkitError(f"{place}: a lake lies there. Choose another folder.")
    parts = place / _PARTS
    try:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        refuse_links(place)
        with ExitStack() as stack:
            writers: dict[str, pq.ParquetWriter] = {}
            for name, table in _pieces(tables, buckets):
                if name not in writers:
                    file = stack.enter_context((parts / name).open("wb"))  # a name may be taken for an address
                    writer = pq.ParquetWriter(file, table.schema, use_dictionary=False)
                    writers[name] = stack.enter_context(writer)
                writers[name].write_table(table)
        tasks = ((place / f"bucket-{number:05}", parts, f"{number:05}-") for number in range(buckets))
        write_list(place, list(results(_save_parts, tasks)))
        shutil.rmtree(parts)
    except OSError as error:
        raise MemkitError(f"{place}: cannot write buckets there: {error}.") from error


def _pieces(tables: Iterable[Any], buckets: int) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each table for each bucket, and the name of the file that collects them."""
    for source in tables:
        for number, part in enumerate(split(_with_vectors(source), buckets)):
            yield from ((f"{number:05}-{name}.parquet", table) for name, table in part.items() if table.num_rows)


def _with_vectors(tables: Any) -> dict[str, pa.Table]:
    """The tables of a corpus, with the table of the supplied vectors."""
    table = user_table(tables, "write_buckets: 'tables'")
    if "memory_id" not in table.column_names:
        raise ParameterError("write_buckets: expected a column 'memory_id' in each table. Got none.")
    if "vector" not in table.column_names:
        return from_table(table).tables
    flat = pc.list_flatten(table["vector"]).combine_chunks().cast(pa.float32())
    size, rest = divmod(len(flat), max(len(table), 1))
    if rest or table["vector"].null_count:
        raise ParameterError("write_buckets: expected vectors of one length in the column 'vector'. Got others.")
    held = from_table(table.drop_columns(["vector"])).tables
    vectors = pa.FixedSizeListArray.from_arrays(flat, size)
    return {**held, VECTORS: pa.table({"memory_id": held["memories"]["memory_id"], "vector": vectors})}


def _read_part(path: Path) -> pa.Table:
    with path.open("rb") as file:
        return pq.ParquetFile(file).read()


def _save_parts(place: Path, parts: Path, prefix: str) -> dict[str, Any]:
    """Write a bucket from its parts; text indexes are built when they are first used."""
    names = [path.name.removeprefix(prefix).removesuffix(".parquet") for path in sorted(parts.glob(f"{prefix}*"))]
    saved = {name: _read_part(parts / f"{prefix}{name}.parquet") for name in names}
    tables = {name: without_rows(schema) for name, schema in TABLES.items()} | saved
    check_unique(tables["memories"], "memory_id", place)
    save_tables(tables, place)
    return as_listed(place, tables)


def _read_list(folder: Path) -> list[dict[str, Any]]:
    """Read and check the shards in ``buckets.json``, which is not trusted."""
    refuse_links(folder)
    document = read_json(folder, BUCKETS)
    if document.get("version") != LIST_VERSION or document.get("lake") != VERSION:
        raise refused(
            folder / BUCKETS,
            f"buckets of version {LIST_VERSION} and lakes of version {VERSION}",
            f"{document.get('version')!r:.40} and {document.get('lake')!r:.40}; save the corpus again",
        )
    named = document.get("buckets")
    kinds = {"name": str, "manifest": str, "memories": int, "shared": int}
    try:
        if not (isinstance(named, list) and 1 <= len(named) <= MOST_BUCKETS):
            raise ValueError(f"{named!r:.80}")
        for number, entry in enumerate(named):
            if with_fields(entry, kinds)["name"] != f"bucket-{number:05}":
                raise ValueError(f"{entry['name']!r:.80}")
    except ValueError as error:
        raise refused(folder / BUCKETS, "a list of buckets as memkit writes it", str(error)) from error
    return named


@index_for.register
def _(corpus: Buckets, settings: Index, how: QuerySettings, before: Searchable | None = None) -> Searchable:
    """An index over buckets; nothing of a former index is reused."""
    return OVER_BUCKETS.needed("index").bucket_index(corpus, settings, how)


def save_buckets(tables: Mapping[str, pa.Table], folder: Path, count: int, attached: Writers) -> None:
    """Write `tables` to `folder` as `count` buckets; buckets that are already there with equal content are kept.

    Raises
    ------
    MemkitError
        If an ordinary lake lies there, or writing fails.
    """
    check_value("save", "buckets", count, "int", low=1, high=MOST_BUCKETS)
    folder = check_path(folder)
    if is_lake(folder):
        raise MemkitError(f"{folder}: a lake without buckets lies there. Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        parts = split(tables, count)
        tasks = ((folder / f"bucket-{number:05}", part) for number, part in enumerate(parts))
        (folder / BUCKETS).unlink(missing_ok=True)  # no lake from here on, until all is there
        saved = list(results(_save_one, tasks))
        write_list(folder, saved)
    except OSError as error:
        raise MemkitError(f"{folder}: cannot save buckets there: {error}. Save again: what is done is kept.") from error
    if TOTALS in attached:
        attached[TOTALS](folder / TOTALS)


def _save_one(place: Path, tables: dict[str, pa.Table]) -> dict[str, Any]:
    if not _is_saved(place, tables):
        save(tables, Database(tables), None, {}, place)
    return as_listed(place, tables)


def as_listed(place: Path, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """The entry of a bucket in ``buckets.json``."""
    with open_member(current(place), MANIFEST) as file:
        manifest, memories = digest_of_file(file), tables["memories"]
    shared = memories["user_id"].null_count
    return {"name": place.name, "manifest": manifest, "memories": memories.num_rows, "shared": shared}


def _is_saved(place: Path, tables: dict[str, pa.Table]) -> bool:
    """Whether the bucket has exactly these tables already."""
    try:
        manifest = read_manifest(current(place))
    except FormatError:
        return False
    return (
        manifest.text_version == TEXT_VERSION
        and set(manifest.tables) == set(tables)
        and all(manifest.files[f"{name}.parquet"] == _digest(table) for name, table in tables.items())
    )


def _digest(table: pa.Table) -> str:
    file = BytesIO()
    write_parquet(file, table)
    return digest_of_file(file)


def split(tables: Mapping[str, pa.Table], count: int) -> list[dict[str, pa.Table]]:
    """The tables of each bucket: rows go with their memory, else by their user, else by their file.

    Of memories without a user, one that is superseded goes with its successor, which is shown in its place, and the
    last successor with the first memory of a user that it supersedes.
    """
    memories = tables["memories"]
    ids, shared = memories["memory_id"].combine_chunks(), pc.is_null(memories["user_id"]).to_numpy()
    to = pc.fill_null(pc.index_in(memories["superseded_by"], value_set=ids), -1).to_numpy()
    last = np.where((to >= 0) & shared, to, np.arange(len(to)))
    for _ in range(len(to).bit_length()):  # each time twice as far along a chain
        last = last[last]
    of_users = np.flatnonzero((to >= 0) & ~shared & shared[last[to]])[::-1]
    last[last[to[of_users]]] = of_users
    last = last[last]
    of_memory = _places(pc.coalesce(memories["user_id"], memories["path"], memories["memory_id"]), count)[last]
    parts: list[dict[str, pa.Table]] = [{} for _ in range(count)]
    for name, table in tables.items():
        bucket = np.full(len(table), -1)
        if name == "memories":
            bucket = of_memory
        elif "memory_id" in table.column_names:
            row = pc.fill_null(pc.index_in(table["memory_id"], value_set=memories["memory_id"]), -1).to_numpy()
            bucket = np.where(row >= 0, of_memory[row] if len(of_memory) else 0, -1)
        for column in ("user_id", "path"):
            if column in table.column_names and (bucket < 0).any():
                bucket = np.where(bucket < 0, _places(table[column], count), bucket)
        order, bucket = np.argsort(bucket, kind="stable"), np.sort(np.maximum(bucket, 0))
        ends = np.searchsorted(bucket, np.arange(count + 1))
        for number, part in enumerate(parts):
            part[name] = table.take(pa.array(order[ends[number] : ends[number + 1]])).combine_chunks()
    return parts


def _places(values: pa.ChunkedArray, count: int) -> Ints:
    """The bucket of each value; -1 for null."""
    coded = values.combine_chunks().dictionary_encode()
    of_value: Ints = np.array([*(place(value) % count for value in coded.dictionary.to_pylist()), -1], np.int64)
    places: Ints = of_value[pc.fill_null(coded.indices, len(of_value) - 1).to_numpy()]
    return places


def write_list(folder: Path, saved: list[dict[str, Any]]) -> None:
    """Write ``buckets.json``, and delete other buckets and their collection statistics."""
    others = set(folder.glob("bucket-*")) - {folder / bucket["name"] for bucket in saved}
    for old in (folder / TOTALS, *others):
        shutil.rmtree(old, ignore_errors=True)
    document = {"version": LIST_VERSION, "lake": VERSION, "buckets": saved}
    atomic.replace(folder / BUCKETS, json.dumps(document, indent=1))


VECTOR = "vector"
_VERSION = 1
_TERMS = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in (("arm", pa.string()), ("term", pa.string()))]
    + [pa.field("rows", pa.int64(), nullable=False)]
)
_SAMPLE = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("memory_id", pa.string(), nullable=False),
        pa.field("ordinal", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("vector", pa.list_(pa.float32()), nullable=False),
    ]
)
_FILES = {"terms": _TERMS, "sample": _SAMPLE}


@dataclass
class Statistics:
    """The collection statistics of one bucket, or the sum over several.

    Attributes
    ----------
    n_rows : int
    is_dated : bool
    terms : pyarrow.Table
        arm, term, rows (document frequency); a term of several buckets may have several rows, to be summed.
    lengths : dict of str to int
        The number of terms in all rows, by arm.
    sample : list of tuple (key, place, vector, text)
        The rows with the smallest hashes; `place` is the id of the memory and the number of the chunk.
    sums : list of tuple (ndarray of shape (dim,), int)
        Sum and number of the vectors of all texts, of Latin and of Cyrillic ones.
    """

    n_rows: int = 0
    is_dated: bool = False
    terms: pa.Table = field(default_factory=_TERMS.empty_table)
    lengths: dict[str, int] = field(default_factory=dict)
    sample: list[tuple[Any, tuple[str, int], Any, str]] = field(default_factory=list)
    sums: list[tuple[Any, int]] = field(default_factory=list)
    _summed: int = 0

    @classmethod
    def from_index(cls, index: MemoryIndex, postings: Mapping[str, Postings], vectors: Vectors | None) -> Self:
        """Count one bucket: its `postings` by arm, and the `vectors` of its chunks."""
        statistics = cls(index.chunks.num_rows, index.is_dated)
        for name, of_arm in postings.items():
            terms = pa.array(of_arm.terms, pa.string())
            columns = [pa.repeat(name, len(terms)), terms, pa.array(of_arm.document_frequency, pa.int64())]
            statistics.terms = pa.concat_tables([statistics.terms, pa.table(columns, schema=_TERMS)])
            statistics.lengths[name] = int(of_arm.counts.sum())
        if vectors is not None and statistics.n_rows:
            statistics._add_vectors(index, vectors)
        return statistics

    def _add_vectors(self, index: MemoryIndex, vectors: Vectors) -> None:
        rows, chunks = index.background, index.chunks
        columns = [take_rows(chunks[name], rows).to_pylist() for name in ("memory_id", "ordinal")]
        keys, texts = index.keys[rows].tolist(), take_rows(index.texts, rows).to_pylist()
        self.sample = [
            (key, (name, ordinal), vectors[row], text)
            for key, name, ordinal, row, text in zip(keys, *columns, rows.tolist(), texts, strict=True)
        ]
        if index.settings.centre != "none":
            live, script = vectors.any(axis=1), scripts(as_texts(index.texts))
            for chosen in (live, live & (script == 0), live & (script == 1)):
                self.sums.append((vectors[chosen].sum(axis=0, dtype=np.float64), int(chosen.sum())))

    def add(self, other: Statistics) -> None:
        """Add the statistics of another bucket."""
        self.n_rows, self.is_dated = self.n_rows + other.n_rows, self.is_dated or other.is_dated
        self.terms = pa.concat_tables([self.terms, other.terms])
        if self.terms.num_rows > 2 * self._summed:  # bounds the memory for many buckets
            self.terms = _sum_of(self.terms)
            self._summed = self.terms.num_rows
        for name, length in other.lengths.items():
            self.lengths[name] = self.lengths.get(name, 0) + length
        first: dict[Any, Any] = {}
        for item in sorted([*self.sample, *other.sample], key=lambda item: item[1]):
            first.setdefault(item[0], item)
        self.sample = sorted((first[key] for key in nsmallest(_BACKGROUND, first)), key=lambda item: item[1])
        if other.sums:
            sums = self.sums or [(0.0, 0)] * len(other.sums)
            self.sums = [(a + c, b + d) for (a, b), (c, d) in zip(sums, other.sums, strict=True)]

    def means(self, mode: str) -> Floats:
        """The means to subtract from Latin, Cyrillic and other vectors, equal to those of `Centring.fit`."""
        (total, n), *others = self.sums
        common = total / n if n >= MIN_ROWS else np.zeros_like(total)
        if mode == "corpus":
            return np.tile(common, (3, 1))
        return np.stack([*(of_script / m if m >= MIN_ROWS else common for of_script, m in others), common])

    def total(self, name: str) -> tuple[dict[str, int], CollectionStatistics]:
        """The numbers of an arm's terms, and its collection statistics."""
        terms, df = self.frequency(name)
        mean = self.lengths[name] / max(self.n_rows, 1)
        return dict(zip(terms, range(len(terms)), strict=True)), CollectionStatistics(self.n_rows, df, mean)

    def frequency(self, name: str) -> tuple[list[str], Ints]:
        """The sorted terms of an arm, and their document frequencies."""
        terms = _sum_of(self.terms.filter(pc.equal(self.terms["arm"], name)))
        return terms["term"].to_pylist(), terms["rows"].to_numpy()

    def save(self, folder: Path) -> None:
        """Write ``terms.parquet`` and, last, ``sample.parquet``."""
        folder.mkdir(parents=True, exist_ok=True)
        keys, places, vectors, texts = zip(*self.sample, strict=True) if self.sample else ((), (), (), ())
        sample = [
            keys,
            [memory_id for memory_id, _ in places],
            [ordinal for _, ordinal in places],
            texts,
            [vector.tolist() for vector in vectors],
        ]
        metadata = {
            "version": _VERSION,
            "n_rows": self.n_rows,
            "is_dated": self.is_dated,
            "lengths": self.lengths,
            "sums": [[total.tolist(), n] for total, n in self.sums],
        }
        tables = {
            "terms": _sum_of(self.terms),
            "sample": pa.table(
                [pa.array(column, field.type) for column, field in zip(sample, _SAMPLE, strict=True)], _SAMPLE
            ),
        }
        tables["sample"] = tables["sample"].replace_schema_metadata({"memkit": json.dumps(metadata)})
        for name, table in tables.items():
            atomic.replace(folder / f"{name}.parquet", partial(write_parquet, table=table))

    @classmethod
    def load(cls, folder: Path, trust: bool = False) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        FormatError
            If it is missing or damaged.
        """
        tables = {}
        for name, schema in _FILES.items():
            with open_member(folder, f"{name}.parquet") as file:
                tables[name] = read_parquet(file, folder / f"{name}.parquet", schema, trust)
        try:
            metadata = json_object(tables["sample"].schema.metadata[b"memkit"])
            if metadata.pop("version") != _VERSION:
                raise ValueError("another version")
            statistics = cls(int(metadata["n_rows"]), bool(metadata["is_dated"]))
            statistics.lengths = {name: int(n) for name, n in metadata["lengths"].items() if name in ARMS}
            statistics.sums = [(np.array(total, np.float64), int(n)) for total, n in metadata["sums"]]
            statistics.terms = _sum_of(tables["terms"])
            rows = statistics.terms["rows"].to_numpy()
            if len(rows) and not 0 <= rows.min() <= rows.max() <= statistics.n_rows:
                raise ValueError("rows that are not there")
            sizes = {len(row["vector"]) for row in tables["sample"].to_pylist()} | {
                len(vector_sum) for vector_sum, _ in statistics.sums
            }
            if len(sizes) > 1:
                raise ValueError("vectors of several sizes")
            statistics.sample = [
                (row["key"], (row["memory_id"], row["ordinal"]), np.array(row["vector"], np.float32), row["text"])
                for row in tables["sample"].to_pylist()
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise refused(folder, "what a Retriever counted over buckets", f"{error!s:.200}; fit again") from error
        return statistics


def _sum_of(terms: pa.Table) -> pa.Table:
    """One row per term, by arm and term."""
    summed = terms.group_by(["arm", "term"]).aggregate([("rows", "sum")]).rename_columns(_TERMS.names)
    return summed.cast(_TERMS).sort_by([("arm", "ascending"), ("term", "ascending")])


def key_of(corpus: Buckets, settings: Index, arms: Sequence[str]) -> str:
    """The name of the statistics of these buckets with these settings."""
    assert corpus.folder is not None
    values = settings.check_params() | {"engine": ""}  # the lists that None stands for are part of it
    encoder = None if settings.encoder is None else as_encoder(settings.encoder).fingerprint
    with open_member(corpus.folder, BUCKETS) as file:
        state = repr((_VERSION, sorted((values | {"encoder": encoder}).items()), tuple(arms), digest_of_file(file)))
    return digest(state)


def counts_of(index: MemoryIndex, name: str) -> Postings:
    """The term frequencies of a lexical arm in the chunks of a bucket."""
    postings: Postings = ARMS[name].make(index.settings)._count(index.texts)  # type: ignore[attr-defined]  # lexical
    return postings


def vectors_of(index: MemoryIndex) -> Vectors:
    """The vectors of the chunks of a bucket: those supplied for their memories, else encoded."""
    supplied = index.corpus.tables.get(VECTORS)
    if supplied is None:
        return shared_cache().encode(as_encoder(index.settings.encoder), as_texts(index.texts))
    row_of = pc.index_in(index.chunks["memory_id"], value_set=supplied["memory_id"])
    flat = take_rows(supplied["vector"], pc.fill_null(row_of, 0).to_numpy()).combine_chunks()
    vectors = flat.flatten().to_numpy(zero_copy_only=False).reshape(len(flat), -1).astype(np.float32)
    vectors[pc.is_null(row_of).to_numpy()] = 0
    return unit_rows(vectors)
