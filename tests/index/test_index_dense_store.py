"""A saved arm answers as before, or not at all."""

from __future__ import annotations

import json
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memkit.errors import DamagedIndexError, MemkitError, ParameterError, StaleIndexError
from memkit.index.dense import MANIFEST, Dense
from memkit.index.encode import as_encoder

TEXTS = [f"запись {i} о теме {i % 7}" for i in range(40)] + [f"record {i} on topic {i % 5}" for i in range(40)] + [""]
CHUNKS = pa.table({"chunk_id": [f"m{i}@0" for i in range(len(TEXTS))]})
QUERIES = ["запись о теме", "record 7"]


pytestmark = pytest.mark.filterwarnings("ignore:Dense.load. the saved FAISS index is built again")


@pytest.fixture(params=["exact", "hnsw", "ivf"])
def arm(request: pytest.FixtureRequest) -> Dense:
    return Dense(encoder="hash", ann=request.param, centre="corpus").fit(CHUNKS, TEXTS)


@pytest.mark.quick
@pytest.mark.parametrize("trust", [False, True])
def test_a_loaded_arm_answers_as_the_saved_one(arm: Dense, tmp_path: Path, trust: bool) -> None:
    arm.save(tmp_path)
    again = Dense.load(tmp_path, chunks=CHUNKS, texts=TEXTS, trust=trust)
    assert again.candidates(QUERIES, 10) == arm.candidates(QUERIES, 10)
    assert again.get_params() == arm.get_params()


@pytest.mark.quick
def test_saving_twice_writes_the_same_files(arm: Dense, tmp_path: Path) -> None:
    arm.save(tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    Dense.load(tmp_path).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


@pytest.mark.quick
def test_a_new_save_takes_the_old_files_away(arm: Dense, tmp_path: Path) -> None:
    arm.save(tmp_path)
    before = len(list(tmp_path.iterdir()))
    arm.fit(CHUNKS, TEXTS[::-1]).save(tmp_path)
    assert len(list(tmp_path.iterdir())) == before


@pytest.mark.parametrize("which", ["vectors", "index", "means"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_one_damaged_file_is_refused(tmp_path: Path, which: str, damage: str) -> None:
    Dense(encoder="hash", ann="hnsw").fit(CHUNKS, TEXTS).save(tmp_path)
    path = tmp_path / json.loads((tmp_path / MANIFEST).read_text())["files"][which]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(data if damage == "flip" else data[:20])
    with pytest.raises(DamagedIndexError, match=r"damaged|missing"):
        Dense.load(tmp_path, trust=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 99}'])
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    Dense(encoder="hash").fit(CHUNKS, TEXTS).save(tmp_path)
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(DamagedIndexError, match=MANIFEST):
        Dense.load(tmp_path)


def test_a_folder_without_an_arm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedIndexError, match=r"dense\.json: expected"):
        Dense.load(tmp_path)


def test_files_of_two_saves_do_not_mix(tmp_path: Path) -> None:
    for name, texts in (("one", TEXTS), ("two", TEXTS[:60])):
        Dense(encoder="hash").fit(CHUNKS.slice(0, len(texts)), texts).save(tmp_path / name)
    one, two = (json.loads((tmp_path / name / MANIFEST).read_text()) for name in ("one", "two"))
    (tmp_path / "two" / two["files"]["vectors"]).rename(tmp_path / "one" / two["files"]["vectors"])
    one["files"]["vectors"] = two["files"]["vectors"]
    (tmp_path / "one" / MANIFEST).write_text(json.dumps(one))
    with pytest.raises(DamagedIndexError, match="one size"):
        Dense.load(tmp_path / "one")


@pytest.mark.parametrize("rows", [[*range(1, 81)], [*range(81), 0], [1, 0, *range(2, 81)], []])
def test_rows_that_were_deleted_added_or_moved_are_noticed(tmp_path: Path, rows: list[int]) -> None:
    Dense(encoder="hash").fit(CHUNKS, TEXTS).save(tmp_path)
    with pytest.raises(StaleIndexError, match="other rows"):
        Dense.load(tmp_path, chunks=CHUNKS.take(pa.array(rows, pa.int64())))


def test_a_changed_text_is_noticed(tmp_path: Path) -> None:
    Dense(encoder="hash").fit(CHUNKS, TEXTS).save(tmp_path)
    with pytest.raises(StaleIndexError, match="a text changed"):
        Dense.load(tmp_path, chunks=CHUNKS, texts=["другое", *TEXTS[1:]])


def test_another_encoder_is_refused_and_the_index_stays(tmp_path: Path) -> None:
    arm = Dense(encoder="hash").fit(CHUNKS, TEXTS)
    arm.save(tmp_path)
    with pytest.raises(StaleIndexError, match=r"made by encoder hash-\w+. Got use-\w+"):
        Dense.load(tmp_path, encoder="use")
    assert Dense.load(tmp_path).candidates(QUERIES, 5) == arm.candidates(QUERIES, 5)


def test_an_encoder_object_is_asked_for(tmp_path: Path) -> None:
    encoder = as_encoder("hash")
    arm = Dense(encoder=encoder).fit(CHUNKS, TEXTS)
    arm.save(tmp_path)
    with pytest.raises(ParameterError, match="encoder="):
        Dense.load(tmp_path)
    assert Dense.load(tmp_path, encoder=encoder).candidates(QUERIES, 5) == arm.candidates(QUERIES, 5)


def test_lsa_is_fitted_again_to_the_same_texts(tmp_path: Path) -> None:
    arm = Dense(encoder="lsa").fit(CHUNKS, TEXTS)
    arm.save(tmp_path)
    assert Dense.load(tmp_path, chunks=CHUNKS, texts=TEXTS).candidates(QUERIES, 5) == arm.candidates(QUERIES, 5)
    with pytest.raises(ParameterError, match="texts="):
        Dense.load(tmp_path)
    with pytest.raises(StaleIndexError, match="encoder"):
        Dense.load(tmp_path, texts=TEXTS[:50])


def test_a_save_that_fails_at_any_step_leaves_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    former = Dense(encoder="hash", ann="hnsw").fit(CHUNKS, TEXTS)
    other = Dense(encoder="hash", ann="hnsw").fit(CHUNKS, TEXTS[::-1])
    syncs, last, fsync = 0, math.inf, os.fsync

    def full(descriptor: int) -> None:
        nonlocal syncs
        if syncs == last:
            raise OSError(28, "No space left on device")
        syncs += 1
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    former.save(tmp_path)
    steps = syncs
    assert steps > 1
    for step in range(steps):
        syncs, last = 0, step
        with pytest.raises(MemkitError, match="No space left"):
            other.save(tmp_path)
        again = Dense.load(tmp_path, chunks=CHUNKS, texts=TEXTS)
        assert again.candidates(QUERIES, 5) == former.candidates(QUERIES, 5)


def test_an_empty_arm_is_saved_and_loaded(tmp_path: Path) -> None:
    Dense(encoder="hash").fit(CHUNKS.slice(0, 0), []).save(tmp_path)
    assert Dense.load(tmp_path).candidates(QUERIES, 5).num_rows == 0


def test_nothing_saved_is_a_pickle(arm: Dense, tmp_path: Path) -> None:
    arm.save(tmp_path)
    for path in tmp_path.iterdir():
        with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError, AttributeError)):
            pickle.loads(path.read_bytes())  # noqa: S301  # our own bytes, and they must not load
    assert np.load(next(tmp_path.glob("*.npy")), allow_pickle=False).ndim == 2


def test_a_fitted_arm_travels_to_another_process(arm: Dense) -> None:
    again = pickle.loads(pickle.dumps(arm))  # noqa: S301  # our own bytes
    assert again.candidates(QUERIES, 5) == arm.candidates(QUERIES, 5)
