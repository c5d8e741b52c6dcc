"""A saved arm of somebody else: odd files are one error, and nothing in them runs or is followed."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memkit.errors import DamagedIndexError, FormatError, ParameterError, StaleIndexError
from memkit.index import ann, store
from memkit.index.cache import VectorCache
from memkit.index.dense import MANIFEST, Dense
from memkit.index.encoders import http
from memkit.index.lexical import BM25, CharGrams, Grams

TEXTS = ["Пул соединений: десять", "The deploy runs on Friday", "кот спит"]
CHUNKS = pa.table({"chunk_id": ["a", "b", "c"]})


pytestmark = pytest.mark.filterwarnings("ignore:Dense.load. the saved FAISS index is built again")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Dense(encoder="hash", ann="hnsw").fit(CHUNKS, TEXTS).save(tmp_path / "arm")
    return tmp_path / "arm"


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return manifest


def forge(folder: Path, which: str, data: bytes) -> None:
    """Put `data` in the place of one file, under the name that its hash gives it."""
    manifest = manifest_of(folder)
    suffix = Path(manifest["files"][which]).suffix
    manifest["files"][which] = store.put(folder, suffix, lambda path: path.write_bytes(data) and None, "dense-")
    (folder / MANIFEST).write_text(json.dumps(manifest))


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def with_header(shape: str, kind: str = "<f4", order: str = "False") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(3 * 1024 * 4)


class Evil:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('it ran')",)


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.eye(3))
    return file.getvalue()


UNIT = np.eye(3, 1024, dtype=np.float32)
ARRAYS: dict[str, bytes] = {
    "objects": npy(np.array([[Evil()]], dtype=object)),
    "a pickle": pickle.dumps(Evil()),
    "an archive": archive(),
    "nothing": b"",
    "half a header": npy(UNIT)[:20],
    "half of it": npy(UNIT)[:2000],
    "more than it": npy(UNIT) + b"x",
    "one dimension": npy(UNIT[0]),
    "three dimensions": npy(UNIT[None]),
    "half precision": npy(UNIT.astype(np.float16)),
    "another byte order": npy(UNIT.astype(">f4")),
    "by columns": npy(np.asfortranarray(UNIT)),
    "words": npy(np.array([["a"]])),
    "dates": npy(np.array([["2026-01-01"]], dtype="datetime64[D]")),
    "fields": npy(np.zeros((3, 1), dtype=[("a", "f4")])),
    "no number": npy(np.full((3, 1024), np.nan, np.float32)),
    "infinity": npy(np.full((3, 1024), np.inf, np.float32)),
    "other lengths": npy(UNIT * 2),
    "fewer rows": npy(UNIT[:2]),
    "more columns": npy(np.eye(3, 4096, dtype=np.float32)),
    "a huge shape": with_header("(1099511627776, 1024)"),
    "a shape beyond 64 bits": with_header("(18446744073709551617, 1024)"),
    "a negative shape": with_header("(-3, -1024)"),
    "a shape of words": with_header("('a', 'b')"),
    "a shape that is code": with_header("__import__('os').abort()"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.parametrize("which", ["vectors", "means"])
def test_an_odd_array_is_refused(folder: Path, which: str, case: str) -> None:
    forge(folder, which, ARRAYS[case])
    with pytest.raises(DamagedIndexError, match="expected"):
        Dense.load(folder)


@pytest.mark.quick
@pytest.mark.parametrize(
    "change",
    [
        {"version": "1"},
        {"version": True},
        {"encoder": 5},
        {"encoder": ["hash"]},
        {"fingerprint": None},
        {"shape": 5},
        {"shape": [3]},
        {"shape": ["3", "1024"]},
        {"ids": 5},
        {"params": []},
        {"params": {}},
        {"files": []},
        {"files": {}},
        {"more": 1},
    ],
    ids=str,
)
def test_an_odd_manifest_is_refused(folder: Path, change: dict[str, Any]) -> None:
    (folder / MANIFEST).write_text(json.dumps(manifest_of(folder) | change))
    with pytest.raises(FormatError, match="expected"):
        Dense.load(folder)


@pytest.mark.quick
@pytest.mark.parametrize("change", [{"ann": "pickle"}, {"centre": 0}, {"exact_up_to": None}], ids=str)
def test_parameters_outside_of_their_bounds_are_refused(folder: Path, change: dict[str, Any]) -> None:
    manifest = manifest_of(folder)
    (folder / MANIFEST).write_text(json.dumps(manifest | {"params": manifest["params"] | change}))
    with pytest.raises(DamagedIndexError, match=next(iter(change))):
        Dense.load(folder)


NAMES = ["../victim.npy", "/etc/passwd", "", ".", "vectors.npy", "dense-..npy", f"dense-{'0' * 32}.npy", 5, None, ["a"]]


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_names_only_files_that_memkit_would_write(folder: Path, name: object) -> None:
    manifest = manifest_of(folder)
    manifest["files"]["vectors"] = name
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedIndexError):
        Dense.load(folder)


def test_a_link_in_place_of_a_file_is_refused(folder: Path) -> None:
    path = folder / manifest_of(folder)["files"]["vectors"]
    path.rename(folder.parent / "victim.npy")
    path.symlink_to(folder.parent / "victim.npy")
    with pytest.raises(DamagedIndexError):
        Dense.load(folder)


def test_a_faiss_file_is_opened_only_where_it_is_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Dense.load(folder, trust=True).candidates(TEXTS, 3)
    opened: list[Path] = []
    real = ann.read
    monkeypatch.setattr(ann, "read", lambda path: opened.append(path) or real(path))
    forge(folder, "index", b"IHNf" + bytes(range(256)))
    with pytest.warns(RuntimeWarning, match="built again from the vectors"):
        assert Dense.load(folder).candidates(TEXTS, 3) == expected
    assert opened == []
    with pytest.raises(DamagedIndexError):
        Dense.load(folder, trust=True)
    assert len(opened) == 1


@pytest.mark.parametrize("spec", ["openai:m@http://127.0.0.1:1/v1", "st:/models/evil", "m2v:~/x", "unknown"])
def test_an_address_that_nobody_gave_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setattr(http, "HttpEncoder", lambda *args: pytest.fail("followed"))
    (folder / MANIFEST).write_text(json.dumps(manifest_of(folder) | {"encoder": spec}))
    with pytest.raises(ParameterError, match=r"nobody gave in this process\. Pass it as encoder=, or trust=True"):
        Dense.load(folder)
    assert len(Dense.load(folder, encoder="hash").vectors_) == 3


def test_vectors_of_others_are_not_remembered_for_other_corpora(folder: Path) -> None:
    forge(folder, "vectors", npy(UNIT))
    for trust, encoded in ((False, 3), (True, 0)):
        cache = VectorCache()
        arm = Dense.load(folder, chunks=CHUNKS, texts=TEXTS, cache=cache, trust=trust)
        cache.encode(arm.encoder_, TEXTS)
        assert cache.encoded == encoded


def test_vectors_of_another_size_than_a_query_are_noticed_before_faiss_reads_beyond_it(folder: Path) -> None:
    wide = np.eye(3, 4096, dtype=np.float32)
    forge(folder, "vectors", npy(wide))
    forge(folder, "means", npy(np.zeros((3, 4096))))
    (folder / MANIFEST).write_text(json.dumps(manifest_of(folder) | {"shape": [3, 4096]}))
    with pytest.raises(StaleIndexError, match=r"expected 4096 dimensions, as in fit\. Got 1024"):
        Dense.load(folder).candidates(["пул"], 1)


def with_settings(**values: Any) -> Callable[[pa.Table], pa.Table]:
    def to(table: pa.Table) -> pa.Table:
        settings = json.loads(table.schema.metadata[b"memkit"]) | values
        return table.replace_schema_metadata({"memkit": json.dumps(settings)})

    return to


def column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.schema.get_field_index(name), name, values(table))


TERMS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "no settings": lambda table: table.replace_schema_metadata(None),
    "settings that are a list": lambda table: table.replace_schema_metadata({"memkit": "[]"}),
    "settings that are no JSON": lambda table: table.replace_schema_metadata({"memkit": "[" * 99999}),
    "an unknown setting": with_settings(evil=1),
    "a setting out of bounds": with_settings(b=2.0, k1=-1.0),
    "a setting of another kind": with_settings(analyzer=["auto"]),
    "rows that are a word": with_settings(n_rows="3"),
    "rows that are true": with_settings(n_rows=True),
    "more rows than memory": with_settings(n_rows=2**62),
    "fewer rows": with_settings(n_rows=1),
    "negative rows": with_settings(n_rows=-1),
    "other postings": with_settings(n_postings=1),
    "terms that are numbers": column("term", lambda t: [list(range(t.num_rows))]),
    "a dictionary of terms": column("term", lambda t: t["term"].dictionary_encode()),
    "a term twice": column("term", lambda t: [["a"] * t.num_rows]),
    "no term": column("term", lambda t: [[None, *t["term"].to_pylist()[1:]]]),
    "counts below nothing": column("rows", lambda t: [[-5, 5 + 2, *[1] * (t.num_rows - 2)]]),
    "counts that overflow": column("rows", lambda t: [[2**62, 2**62, 2**62, 2**62, *[1] * (t.num_rows - 4)]]),
    "a column twice": lambda table: table.append_column("term", table["term"]),
}
LISTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "rows beyond the corpus": ("rows", lambda rows: rows * 0 + (2**16 - 1)),
    "rows below nothing": ("rows", lambda rows: -1 - rows.astype(np.int32)),
    "rows of another kind": ("rows", lambda rows: rows.astype(np.int64)),
    "rows of another byte order": ("rows", lambda rows: rows.astype(">i4")),
    "two columns": ("rows", lambda rows: np.hstack([rows, rows])),
    "counts of nothing": ("counts", lambda counts: counts * 0),
    "fewer counts": ("counts", lambda counts: counts[1:]),
    "counts that would fill the memory": ("counts", lambda counts: counts.astype(np.uint32) + (2**32 - 9)),
    "counts of another kind": ("counts", lambda counts: counts.astype(np.float64)),
}


@pytest.mark.parametrize("case", TERMS)
@pytest.mark.parametrize("kind", [BM25, Grams, CharGrams])
def test_odd_terms_are_refused(tmp_path: Path, kind: type[BM25], case: str) -> None:
    kind().fit(CHUNKS, TEXTS).save(tmp_path)
    path = tmp_path / f"{kind._name}_terms.parquet"
    pq.write_table(TERMS[case](pq.read_table(path)), path)
    with pytest.raises(DamagedIndexError, match="expected"):
        kind.load(tmp_path)


@pytest.mark.parametrize("case", LISTS)
def test_odd_lists_of_terms_are_refused(tmp_path: Path, case: str) -> None:
    for kind in (BM25, Grams, CharGrams):
        kind().fit(CHUNKS, TEXTS).save(tmp_path)
        part, to = LISTS[case]
        path = tmp_path / f"{kind._name}_{part}.npy"
        path.write_bytes(npy(to(np.load(path))))
        with pytest.raises(DamagedIndexError, match="expected"):
            kind.load(tmp_path)
