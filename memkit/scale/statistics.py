"""Collection statistics, which the weights of terms and vectors depend on: counted shard by shard and saved.

Their files are not trusted and are checked, as all files of a lake are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base import atomic
from memkit.base.checked import json_object
from memkit.base.hashes import digest, digest_of_file
from memkit.errors import refused
from memkit.index.cache import shared_cache
from memkit.index.centre import MIN_ROWS, scripts
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import Vectors, as_texts, unit_rows
from memkit.index.lexical import CollectionStatistics
from memkit.index.postings import Postings
from memkit.scale.buckets import VECTORS, Buckets
from memkit.schemas import Floats, Ints
from memkit.search.fitted.chunks import Index, take_rows
from memkit.search.fitted.index import _BACKGROUND, MemoryIndex
from memkit.search.steps.recall import ARMS
from memkit.tables.commit import BUCKETS
from memkit.tables.lake import write_parquet
from memkit.tables.untrusted import open_member, read_parquet

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
