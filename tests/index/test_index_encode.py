"""What every encoder promises, the door `as_encoder`, and the encoders without a model."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import MemkitError, NotFittedError, ParameterError
from memkit.index.encode import ENCODERS, as_encoder
from memkit.index.encoders.base import TextEncoder, as_texts, clean, unit_rows
from memkit.index.encoders.without_model import LsaEncoder

RU_EN = ["пул соединений настроен", "the connection pool", "кот спит на окне", "a cat sleeps", "E4021 snake_case"]


class Fixed(TextEncoder):
    """Gives back the rows it was made with."""

    kind = "fixed"
    batch_size = 2

    def __init__(self, rows: Any) -> None:
        self.rows, self.next_row = rows, 0

    @property
    def dim(self) -> int:
        return 2

    def _config(self) -> dict[str, Any]:
        return {}

    def _embed(self, texts: list[str], role: str) -> Any:
        block = self.rows[self.next_row : self.next_row + len(texts)]
        self.next_row += len(texts)
        return block


@pytest.mark.quick
@pytest.mark.parametrize("name", ["hash", "use"])
def test_rows_are_unit_float32_in_the_order_of_the_texts_and_blank_texts_are_zero(name: str) -> None:
    encoder = as_encoder(name)
    texts = ["пул соединений", "", " \t\n", "connection pool"]
    vectors = encoder.encode_document(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, encoder.dim)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 0, 1], abs=1e-6)
    assert np.allclose(vectors[3], encoder.encode_document(["connection pool"])[0], atol=1e-5)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["hash", "use"])
def test_no_texts_give_no_rows_of_the_right_width(name: str) -> None:
    encoder = as_encoder(name)
    assert encoder.encode_query([]).shape == (0, encoder.dim)


@pytest.mark.quick
def test_an_arrow_column_is_read_and_a_null_is_an_empty_text() -> None:
    column = pa.chunked_array([["пул", None], ["pool"]])
    assert as_texts(column) == ["пул", "", "pool"]
    assert as_encoder("hash").encode_document(column).any(axis=1).tolist() == [True, False, True]


def test_one_string_is_refused_since_its_letters_would_be_rows() -> None:
    with pytest.raises(ParameterError, match="put it in a list"):
        as_encoder("hash").encode_query("пул")


def test_what_is_no_text_is_refused_with_its_position() -> None:
    with pytest.raises(ParameterError, match="int at position 1"):
        as_texts(["a", 5])  # type: ignore[list-item]  # the point


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_raised_with_encoder_and_position(bad: float) -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [bad, 0.0]])
    with pytest.raises(MemkitError, match=r"fixed-\w+.*position 4"):
        Fixed(rows).encode_document(["a", "", "b", "c", "d"])  # the empty text never reaches the model


@pytest.mark.parametrize("rows", [np.ones(2), np.ones((1, 2)), np.array([["a", "b"], ["c", "d"]])])
def test_a_wrong_shape_or_type_from_a_model_is_raised(rows: Any) -> None:
    with pytest.raises(MemkitError, match=r"expected numbers of shape \(2, dim\)"):
        Fixed(rows).encode_query(["a", "b"])


def test_the_fingerprint_follows_the_configuration() -> None:
    class Other(Fixed):
        def _config(self) -> dict[str, Any]:
            return {"weights": "other"}

    assert Fixed([]).fingerprint == Fixed([]).fingerprint
    assert Fixed([]).fingerprint != Other([]).fingerprint
    assert Fixed([]).get_config()["kind"] == "fixed"


def test_controls_become_blanks_surrogates_are_replaced_and_text_is_nfc() -> None:
    assert clean("a\x00b\x1bc\nd\te") == "a b c\nd\te"
    assert clean("x\ud800y") == "x\ufffdy"
    assert clean("и\u0306") == "й"


@given(st.text(st.characters()), st.text())
@settings(max_examples=50)
def test_any_text_encodes_to_a_finite_row_of_length_one_or_zero(text: str, other: str) -> None:
    lengths = np.linalg.norm(as_encoder("hash").encode_document([text, other]), axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-6) | (lengths == 0))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
@settings(max_examples=50)
def test_unit_rows_agree_with_exact_arithmetic_at_any_scale(row: list[float]) -> None:
    unit = unit_rows(np.array([row], dtype=np.float32))[0]
    length = float(np.sqrt(sum(x * x for x in row)))
    expected = [x / length for x in row] if length > 1e-150 else None
    if expected is not None:
        assert unit == pytest.approx(expected, abs=1e-6)
    assert np.linalg.norm(unit) == pytest.approx(1.0 if any(row) else 0.0, abs=1e-6)


@pytest.mark.parametrize("wrong", ["nonsense", "st:", "", "openai:model", None, 5, object(), TextEncoder])
def test_what_is_no_encoder_is_refused_with_what_is_accepted(wrong: Any) -> None:
    with pytest.raises(ParameterError, match=r"'encoder'.*(openai:MODEL@URL)"):
        as_encoder(wrong)


def test_every_built_in_kind_is_reached_by_its_name() -> None:
    assert {name: as_encoder(name).fingerprint.split("-")[0] for name in ENCODERS if name != "lsa"} == {
        "use": "use",
        "e5": "e5",
        "hash": "hash",
    }


def test_an_encoder_is_taken_as_it_is() -> None:
    encoder = as_encoder("hash")
    assert as_encoder(encoder) is encoder


@pytest.mark.parametrize("name", ["hash", "use"])
def test_an_encoder_survives_pickle_and_copy(name: str) -> None:
    encoder = as_encoder(name)
    before = encoder.encode_query(["пул"])
    for again in (pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder)):  # noqa: S301  # our own bytes
        assert again.fingerprint == encoder.fingerprint
        assert (again.encode_query(["пул"]) == before).all()


def test_inflections_that_share_letters_are_near_for_the_hash_encoder() -> None:
    memory, inflected, other = as_encoder("hash").encode_document(["память", "памяти", "кот спит"])
    assert memory @ inflected > 0.4 > memory @ other


def test_lsa_asks_to_be_fitted() -> None:
    with pytest.raises(NotFittedError, match="fit"):
        LsaEncoder().encode_query(["пул"])


@pytest.mark.parametrize("texts", [RU_EN, RU_EN[:2], RU_EN[:1], ["?!", ""], []])
def test_lsa_fits_corpora_with_fewer_texts_than_dimensions(texts: list[str]) -> None:
    encoder = LsaEncoder(dims=64).fit(texts)
    vectors = encoder.encode_document(texts)
    assert vectors.shape == (len(texts), encoder.dim)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-6) | (lengths == 0))


def test_lsa_finds_other_forms_of_the_same_words_in_both_languages() -> None:
    encoder = LsaEncoder().fit(RU_EN)
    documents = encoder.encode_document(RU_EN)
    queries = encoder.encode_query(["пулы соединения", "cats sleeping"])
    assert (queries @ documents.T).argmax(axis=1).tolist() == [0, 3]


def test_lsa_is_deterministic_and_its_fingerprint_holds_corpus_and_seed() -> None:
    one, same = LsaEncoder().fit(RU_EN), LsaEncoder().fit(RU_EN)
    assert (one.encode_query(["пул"]) == same.encode_query(["пул"])).all()
    assert one.fingerprint == same.fingerprint
    fingerprints = {LsaEncoder(random_state=1).fit(RU_EN).fingerprint, LsaEncoder().fit(RU_EN[1:]).fingerprint}
    assert len(fingerprints - {one.fingerprint}) == 2


def test_lsa_forgets_the_former_corpus_and_survives_pickle() -> None:
    encoder = LsaEncoder().fit(["совсем другое", "something else", "и ещё"]).fit(RU_EN)
    again = pickle.loads(pickle.dumps(encoder))  # noqa: S301  # our own bytes
    expected = LsaEncoder().fit(RU_EN).encode_query(["пул"])
    assert (encoder.encode_query(["пул"]) == expected).all()
    assert (again.encode_query(["пул"]) == expected).all()


@pytest.mark.parametrize("dims", [0, True, 2.5])
def test_lsa_refuses_dimensions_that_are_none(dims: Any) -> None:
    with pytest.raises(ParameterError, match="'dims'"):
        LsaEncoder(dims=dims)
