"""Other people's encoders, by what they can do."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memkit.errors import MemkitError, MissingExtraError, ParameterError
from memkit.index import encode as objects
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import folder_digest

TEXTS = ["пул соединений", "connection pool", "кот спит"]


def _counts(texts: list[str], scale: float = 1.0) -> np.ndarray:
    return np.array([[scale * len(text), text.count("п"), text.count("o")] for text in texts])


class Prompted:
    """sentence-transformers since version 5."""

    def __init__(self, weights: float = 1.0) -> None:
        self.weights = weights

    def encode(self, texts: list[str], show_progress_bar: bool = True) -> np.ndarray:
        assert not show_progress_bar
        return _counts(texts, self.weights)

    def encode_query(self, texts: list[str], show_progress_bar: bool = True) -> np.ndarray:
        return self.encode(["query " + text for text in texts], show_progress_bar)

    def encode_document(self, texts: list[str], show_progress_bar: bool = True) -> np.ndarray:
        return self.encode(texts, show_progress_bar)


class Plain:
    """sentence-transformers before, or model2vec."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return _counts(texts)


class Chain:
    """LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return _counts(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return _counts([text])[0].tolist()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("thing", "kind"), [(Prompted(), "st"), (Plain(), "st"), (Chain(), "langchain"), (_counts, "callable")]
)
def test_each_shape_is_recognised_and_gives_unit_rows(thing: Any, kind: str) -> None:
    encoder = as_encoder(thing)
    expected = _counts(TEXTS) / np.linalg.norm(_counts(TEXTS), axis=1, keepdims=True)
    assert encoder.fingerprint.startswith(f"{kind}-")
    assert encoder.encode_document(TEXTS) == pytest.approx(expected, abs=1e-6)
    assert encoder.dim == 3


@pytest.mark.quick
def test_a_prompt_of_the_model_is_used_for_queries() -> None:
    encoder = as_encoder(Prompted())
    assert (encoder.encode_query(["пул"]) == encoder.encode_document(["query пул"])).all()


@pytest.mark.quick
def test_a_fitted_pipeline_is_used_and_an_unfitted_one_refused() -> None:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)), TruncatedSVD(2, random_state=0))
    with pytest.raises(ParameterError, match="fitted"):
        as_encoder(pipeline)
    vectors = as_encoder(pipeline.fit(TEXTS)).encode_document(TEXTS)
    expected = pipeline.transform(TEXTS)
    assert vectors == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-5)


def test_a_sparse_transformer_is_made_dense() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer().fit(TEXTS)
    assert as_encoder(vectoriser).encode_query(["кот"]).shape == (1, len(vectoriser.vocabulary_))


def test_other_weights_have_another_fingerprint_and_equal_ones_the_same() -> None:
    assert as_encoder(Prompted(1.0)).fingerprint == as_encoder(Prompted(1.0)).fingerprint
    assert as_encoder(Prompted(1.0)).fingerprint != as_encoder(Prompted(2.0)).fingerprint


def test_a_function_keeps_its_identity_and_another_one_never_has_it() -> None:
    def make(scale: float) -> Any:
        return lambda texts: _counts(texts, scale)

    one, other = make(1.0), make(2.0)
    assert as_encoder(one).fingerprint == as_encoder(one).fingerprint
    assert as_encoder(one).fingerprint != as_encoder(other).fingerprint


def test_a_function_that_gives_nan_is_named_with_the_position() -> None:
    encoder = as_encoder(lambda texts: np.array([[np.nan if "x" in text else 1.0] for text in texts]))
    with pytest.raises(MemkitError, match=r"callable-\w+.*position 2"):
        encoder.encode_document(["a", "b", "x"])


def test_dimensions_that_change_are_an_error() -> None:
    encoder = as_encoder(lambda texts: np.ones((len(texts), len(texts[0]))))
    encoder.encode_document(["ab"])
    with pytest.raises(ParameterError, match=r"expected 2 dimensions.*Got 3"):
        encoder.encode_document(["abc"])


def test_rows_of_several_lengths_are_an_error() -> None:
    with pytest.raises(MemkitError, match="one length"):
        as_encoder(lambda texts: [[1.0] * len(text) for text in texts]).encode_document(["a", "ab"])


def test_a_folder_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects.util, "find_spec", lambda name: object())
    with pytest.raises(ParameterError, match="local folder"):
        as_encoder(f"st:{tmp_path / 'absent'}")


@pytest.mark.parametrize(("spec", "extra"), [("st:model", "sentence-transformers"), ("m2v:model", "model2vec")])
def test_an_absent_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, spec: str, extra: str) -> None:
    monkeypatch.setattr(objects.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=rf"memkit\[{extra}\]"):
        as_encoder(spec)


def test_a_sentence_transformers_folder_is_loaded_and_its_files_are_its_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"one")
    fake = types.ModuleType("sentence_transformers")
    fake.SentenceTransformer = lambda path: Plain()  # type: ignore[attr-defined]  # the stand-in's one name
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    monkeypatch.setattr(objects.util, "find_spec", lambda name: object())
    monkeypatch.setattr(objects.metadata, "version", lambda name: "5.0")
    first = as_encoder(f"st:{tmp_path}")
    assert first.encode_query(["пул"]).shape == (1, 3)
    assert first.get_config()["files"] == folder_digest(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"other")
    assert as_encoder(f"st:{tmp_path}").fingerprint != first.fingerprint


def test_a_model2vec_folder_is_loaded(tmp_path: Path) -> None:
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "пул": 1, "pool": 2, "кот": 3}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.array([[1, 1, 1], [1, 0, 0], [0.9, 0.1, 0], [0, 0, 1]], dtype=np.float32)
    StaticModel(table, tokenizer).save_pretrained(tmp_path)
    encoder = as_encoder(f"m2v:{tmp_path}")
    pool, same, cat = encoder.encode_document(["пул", "pool", "кот"])
    assert pool @ same > 0.9 > pool @ cat
    assert encoder.fingerprint.startswith("m2v-")
