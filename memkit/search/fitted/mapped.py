"""Indexes of buckets as files that are mapped, not held: for more memories than fit into memory.

Built bucket by bucket in the memory that one takes, in two rounds: what each bucket holds, then, once all are counted,
what its rows weigh. Words score as they do in memory, to the last bit. Vectors are found by lists around centres that
all buckets share; how many lists a search opens is set by what it finds of the hundred nearest, measured on a sample,
and what was found is scored on the full vectors.

The files are read as they are, by NumPy, Arrow and FAISS, so only from a lake that is the user's own.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memkit import whole
from memkit.errors import MemkitError, ParameterError, refused
from memkit.index import ann
from memkit.index.cache import shared_cache
from memkit.index.centre import Centring, scripts
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import Vectors, as_texts, unit_rows
from memkit.index.nearest import cosines_of
from memkit.index.postings import Postings
from memkit.index.store import save_array
from memkit.parallel import results
from memkit.schemas import Mask
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.counted import VECTOR, Counted, counts_of, key_of, vectors_of
from memkit.search.fitted.index import Rows, SearchIndex, build_index
from memkit.search.settings import FitSettings
from memkit.tables.buckets import Buckets
from memkit.tables.manifest import MAPPED

RECALL = 0.97
"""What a sample's search has to find of its hundred nearest; that of other questions is a little less."""
_NEAREST, _ASKED, _PROBES = 100, 64, 16
_POINTS = 64  # a list, which its centre is learned from
_BATCH = 1 << 16
_NONE = np.empty(0, np.int64)
_TOLD = "told.json"
_NO_VECTORS = np.empty((0, 1), np.float32)


class Mapped:
    """The files of all buckets, made where they are not there yet.

    Parameters
    ----------
    settings : FitSettings
        Those of arms in memory.
    """

    def __init__(self, corpus: Buckets, settings: FitSettings, arms: Sequence[str]) -> None:
        if not corpus.trusted or corpus.folder is None:
            raise ParameterError(
                "Retriever: engine='mapped' reads files as they are. Open the lake with mk.open(folder, trust=True), if"
                " it is your own."
            )
        if settings.ann == "hnsw":
            raise ParameterError(
                "Retriever: engine='mapped' has lists: expected ann='auto', 'ivf' or 'exact'. Got 'hnsw'."
            )
        self.corpus, self.settings, self.arms = corpus, settings, tuple(arms)
        self.folder = corpus.folder / MAPPED / key_of(corpus, settings, arms)
        self.names = [f"bucket-{number:05}" for number in range(len(corpus))]
        if not (self.folder / _TOLD).is_file():
            self._build()
        with _readable(self.folder):
            self.told: dict[str, Any] = json.loads((self.folder / _TOLD).read_text())
        self.counted = Counted.load(self.folder / "totals", trust=True)
        self._shared = {name: self._arm(name) for name in self.arms}

    def _build(self) -> None:
        """Both rounds; one that was stopped goes on from the buckets that are done."""
        assert self.corpus.folder is not None
        every = Counted()
        tasks = (
            (self.corpus.folder, n, self.settings, self.arms, self.folder / self.names[n])
            for n in range(len(self.names))
        )
        for place in results(lay_out, tasks):
            every.add(Counted.load(place / "counted", trust=True))
        every.save(self.folder / "totals")
        if VECTOR in self.arms and self._approximate():
            _save(self.folder, centres=self._centres())
        each = list(results(finish, ((self.folder / name, self.settings, self.arms) for name in self.names)))
        recall = [one["recall"] for one in each if one["recall"] is not None]
        told = {
            "memories": self.corpus.n_memories,
            "chunks": every.n_rows,
            "recall_at_100": min(recall, default=1.0),
            "bytes": {name: sum(one["bytes"].get(name, 0) for one in each) for name in each[0]["bytes"]},
        }
        whole.replace(self.folder / _TOLD, json.dumps(told, indent=1))

    def _approximate(self) -> bool:
        sizes = [len(_mapped(self.folder / name, "memory")) for name in self.names]
        return bool(KINDS[VECTOR].make(self.settings)._is_approximate(max(sizes)))  # type: ignore[attr-defined]

    def _centres(self) -> Vectors:
        """Learned from rows at equal distances over all buckets."""
        raw = "vectors" if self.settings.centre == "none" else "raw"
        parts = [_mapped(self.folder / name, raw, _NO_VECTORS) for name in self.names]
        parts = [part for part in parts if len(part)]
        total = sum(map(len, parts))
        lists = max(1, min(int(4 * np.sqrt(total / len(parts))), total // _POINTS))
        step = max(1, total // (_POINTS * lists))
        sample = np.concatenate([part[::step] for part in parts])
        return ann.centres(np.ascontiguousarray(sample[sample.any(axis=1)]), lists, seed=0)

    def _arm(self, name: str) -> Any:
        """What an arm is in all buckets, apart from their rows."""
        arm: Any = KINDS[name].make(self.settings)
        if name == VECTOR:
            arm.encoder_, arm.cache_, arm.centring_ = (
                as_encoder(self.settings.encoder),
                shared_cache(),
                Centring(mode=self.settings.centre),
            )
            none = self.settings.centre == "none"
            arm.centring_.means_ = np.zeros((3, 1)) if none else self.counted.means(self.settings.centre)
            arm.fingerprint_ = arm.encoder_.fingerprint
            return arm
        terms, arm.totals_ = self.counted.total(name)
        return arm._use(Postings(terms, np.zeros(len(terms) + 1, np.int64), _NONE.astype(np.int32), _NONE, 0))

    @property
    def totals(self) -> dict[str, tuple[Any, Any]]:
        """Terms, and what weights depend on, of each arm that searches words."""
        return {name: (arm.postings_.terms, arm.totals_) for name, arm in self._shared.items() if name != VECTOR}

    def opened(self, number: int) -> SearchIndex:
        """The index of one bucket; nothing of it is read before it is needed.

        Raises
        ------
        FormatError
            Where files are missing or damaged.
        """
        with _readable(self.folder):
            return self._opened(number, self.folder / self.names[number])

    def _opened(self, number: int, place: Path) -> SearchIndex:
        told = json.loads((place / _TOLD).read_text())
        for name, size in told["files"].items():  # some may be missing by right, so that nobody else would miss them
            if (place / name).stat().st_size != size:
                raise ValueError(f"{name} is not as it was written")
        memories = pa.ipc.open_file(pa.memory_map(str(place / "memories.arrow"))).read_all()
        memory, n = _mapped(place, "memory"), memories.num_rows
        undated = np.broadcast_to(np.datetime64("NaT", "us"), n)
        rows = Rows(
            memory=memory,
            text=_NONE,
            twin=_NONE,
            filled=_mapped(place, "filled", None),
            owner=_NONE,
            kind=(_mapped(place, "kind"), tuple(told["kinds"])),
            expires=_mapped(place, "expires", undated[:0]),
            dated=undated,
            made=_mapped(place, "made", undated),
            decays=_NONE.astype(bool),
        )
        chunks, texts = pa.table({"memory": pa.array(memory)}), pa.chunked_array([], pa.string())
        corpus: Any = self.corpus.scanned(number)
        index = SearchIndex(corpus, memories, self.settings, _NONE, memories, chunks, texts, texts, rows)
        index.is_dated = self.counted.is_dated
        index.arms = {name: self._mapped_arm(name, place, told) for name in self.arms} if len(memory) else {}
        return index

    def _mapped_arm(self, name: str, place: Path, told: dict[str, Any]) -> Any:
        arm = copy.copy(self._shared[name])
        if name == VECTOR:
            arm.vectors_, arm._live = _mapped(place, "vectors"), _mapped(place, "live", None)
            arm.index_, arm.probes = None, told["probes"]
            if (place / "lists.faiss").is_file():
                arm.index_ = ann.read(place / "lists.faiss", mapped=True)
            return arm
        rows, weights, offsets = (_mapped(place, f"{name}-{what}") for what in ("rows", "weights", "offsets"))
        terms = self._shared[name].postings_.terms
        arm.postings_ = Postings(terms, offsets, rows, _NONE, told["chunks"], weights)
        return arm


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """What goes wrong with files that were written here, as one error."""
    try:
        yield
    except MemkitError:
        raise
    except (OSError, ValueError, LookupError, RuntimeError) as error:  # the last is FAISS's
        raise refused(folder, "an index that a Retriever wrote", f"{error!s:.200}; remove it, and fit again") from error


def lay_out(lake: Path, number: int, settings: FitSettings, arms: Sequence[str], place: Path) -> Path:
    """What a bucket holds, but for what depends on the others."""
    if (place / "laid").is_file():
        return place
    index = build_index(Buckets(lake, trusted=True).bucket(number), settings)
    rows, n = index.rows, index.chunks.num_rows
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    _save(place, memory=rows.memory.astype(np.int32), kind=rows.kind[0].astype(np.int16))
    if rows.filled is not None:
        _save(place, filled=rows.filled)
    for name, dates in (("expires", rows.expires), ("made", rows.made)):
        if not np.isnat(dates).all():
            _save(place, **{name: dates})
    held = [
        name
        for name in index.memories.column_names
        if index.memories[name].null_count < len(index.memories) or name == "memory_id"
    ]
    memories = index.memories.select(held)
    with pa.OSFile(str(place / "memories.arrow"), "wb") as sink, pa.ipc.new_file(sink, memories.schema) as file:
        file.write_table(memories, max_chunksize=_BATCH)
    postings = {name: counts_of(index, name) for name in arms if name != VECTOR}
    for name, one in postings.items():
        _save(place, **{f"{name}-rows": one.rows, f"{name}-counts": one.counts})
    vectors = vectors_of(index) if VECTOR in arms and n else None
    if vectors is not None:
        _save(place, **{"vectors" if settings.centre == "none" else "raw": vectors})
        if settings.centre == "language":
            _save(place, scripts=scripts(as_texts(index.texts)).astype(np.int8))
    Counted.of(index, postings, vectors).save(place / "counted")
    (place / "laid").write_text(json.dumps({"chunks": n, "kinds": list(rows.kind[1])}))
    return place


def finish(place: Path, settings: FitSettings, arms: Sequence[str]) -> dict[str, Any]:
    """What the rows of a bucket weigh, and lists over its vectors; what is told of it."""
    if (place / _TOLD).is_file():
        told: dict[str, Any] = json.loads((place / _TOLD).read_text())
        return told
    laid, every, own = (
        json.loads((place / "laid").read_text()),
        *(Counted.load(folder, trust=True) for folder in (place.parent / "totals", place / "counted")),
    )
    told = {**laid, "probes": 0, "recall": None}
    for name in own.lengths:
        _weigh(place, name, settings, every, own, laid["chunks"])
    if VECTOR in arms and laid["chunks"]:
        vectors = _centred(place, settings, every)
        live: Any = vectors.any(axis=1)
        if not live.all():
            _save(place, live=live)
        if (place.parent / "centres.npy").is_file():
            index = ann.build_ivf(vectors, 0, np.load(place.parent / "centres.npy"))
            ann.write(index, place / "lists.faiss")
            told["probes"], told["recall"] = _measured(index, vectors, live)
    told["files"] = {path.name: path.stat().st_size for path in sorted(place.iterdir()) if path.is_file()}
    told["bytes"] = Counter[str]()
    for name, size in told["files"].items():
        told["bytes"][Path(name).stem.partition("-")[0]] += size
    whole.replace(place / _TOLD, json.dumps(told, indent=1))
    return told


def _weigh(place: Path, name: str, settings: FitSettings, every: Counted, own: Counted, n: int) -> None:
    arm: Any = KINDS[name].make(settings)
    rows, counts = _mapped(place, f"{name}-rows"), _mapped(place, f"{name}-counts")
    terms, arm.totals_ = every.total(name)
    lengths = np.zeros(len(terms), np.int64)
    held, frequency = own.frequency(name)
    lengths[[terms[term] for term in held]] = frequency
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    postings = Postings(terms, offsets, rows, counts, n)
    arm._use(postings)
    postings.weigh(np.flatnonzero(lengths), arm._weights)
    _save(place, **{f"{name}-weights": postings.weights, f"{name}-offsets": offsets})
    (place / f"{name}-counts.npy").unlink()


def _centred(place: Path, settings: FitSettings, every: Counted) -> Vectors:
    """The vectors of a bucket, from which what all have in common is taken, where that was asked for."""
    if not (place / "raw.npy").is_file():
        vectors: Vectors = _mapped(place, "vectors")
        return vectors
    raw: Vectors = np.load(place / "raw.npy")
    means = every.means(settings.centre).astype(np.float32)
    of_row = means[np.load(place / "scripts.npy")] if settings.centre == "language" else means[:1]
    if means.any():
        raw = unit_rows(np.where(raw.any(axis=1, keepdims=True), raw - of_row, np.float32(0)))
    _save(place, vectors=raw)
    (place / "raw.npy").unlink()
    return raw


def _measured(index: Any, vectors: Vectors, live: Mask) -> tuple[int, float]:
    """How many lists a search has to open, and which share of the nearest it finds then."""
    rows = np.flatnonzero(live)
    asked = np.ascontiguousarray(vectors[rows[:: max(1, len(rows) // _ASKED)]])
    k, probes = min(_NEAREST, len(rows)), _PROBES
    exact = ann.exact(asked, vectors, k, live)
    least = cosines_of(asked, vectors, exact).min(axis=1, keepdims=True)
    while True:
        found = ann.search(index, asked, k, live, 0, probes)
        scores = cosines_of(asked, vectors, found)
        recall = float(np.mean((scores >= least) & (found >= 0)))
        if recall >= RECALL or probes >= index.nlist:
            return probes, round(recall, 4)
        probes *= 2


def _save(place: Path, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        save_array(place / f"{name}.npy", np.ascontiguousarray(array))


def _mapped(place: Path, name: str, otherwise: Any = ...) -> Any:
    """An array as it lies in its file."""
    path = place / f"{name}.npy"
    if otherwise is not ... and not path.is_file():
        return otherwise
    if path.stat().st_size and (array := np.load(path, mmap_mode="r", allow_pickle=False)).size:
        return np.asarray(array)
    return np.load(path, allow_pickle=False)
