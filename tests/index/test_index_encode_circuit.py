"""A service that does not answer is left alone for a stated time, whoever wrote its client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memkit.errors import EncoderUnavailableError
from memkit.index import cache as cache_module
from memkit.index.cache import VectorCache
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import OPEN_SECONDS, Circuits, in_haste, is_hasty, note_answer


class Service:
    """A callable encoder that answers, or raises what it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    def __call__(self, texts: list[str]) -> Any:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return np.array([[len(text), 1.0] for text in texts])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(cache_module, "CIRCUITS", Circuits(fake))
    return fake


def chained(inner: Exception) -> Exception:
    """What a client makes of a broken connection: an error of its own, raised from it."""
    try:
        try:
            raise inner
        except Exception as error:
            raise RuntimeError("APIConnectionError") from error
    except RuntimeError as outer:
        return outer


@pytest.mark.quick
@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("refused"), TimeoutError("late"), chained(ConnectionResetError("reset"))]
)
def test_a_service_that_cannot_be_reached_is_not_asked_again_before_its_time(clock: Clock, error: Exception) -> None:
    service, cache = Service(), VectorCache()
    encoder = as_encoder(service)
    service.error = error
    with pytest.raises(EncoderUnavailableError, match=type(error).__name__):
        cache.encode(encoder, ["пул"])
    service.error = None
    clock.now = OPEN_SECONDS - 1
    with pytest.raises(EncoderUnavailableError, match=r"asked again in 1 s"):
        cache.encode(encoder, ["пул"])
    assert service.calls == 1
    clock.now = OPEN_SECONDS
    assert cache.encode(encoder, ["пул"]).shape == (1, 2)


@pytest.mark.quick
def test_what_is_known_is_found_while_the_service_is_left_alone(clock: Clock) -> None:
    service, cache = Service(), VectorCache()
    encoder = as_encoder(service)
    known = cache.encode(encoder, ["пул"], "query")
    service.error = ConnectionRefusedError("refused")
    with pytest.raises(EncoderUnavailableError):
        cache.encode(encoder, ["кот"], "query")
    assert np.array_equal(cache.encode(encoder, ["пул"], "query"), known)


@pytest.mark.quick
def test_an_error_of_another_kind_stays_what_it_is_and_opens_nothing(clock: Clock) -> None:
    service, cache = Service(), VectorCache()
    encoder = as_encoder(service)
    service.error = KeyError("a bug")
    with pytest.raises(KeyError, match="a bug"):
        cache.encode(encoder, ["пул"])
    service.error = None
    assert cache.encode(encoder, ["пул"]).shape == (1, 2)


def test_one_encoder_that_is_down_does_not_stop_another(clock: Clock) -> None:
    down, up, cache = Service(), Service(), VectorCache()
    down.error = ConnectionRefusedError("refused")
    with pytest.raises(EncoderUnavailableError):
        cache.encode(as_encoder(down), ["пул"])
    assert cache.encode(as_encoder(up), ["пул"]).shape == (1, 2)


def test_haste_ends_with_the_first_answer_and_with_its_block() -> None:
    assert not is_hasty()
    with in_haste():
        assert is_hasty()
        note_answer()
        assert not is_hasty()
        with in_haste():
            assert is_hasty()
        assert not is_hasty()
    assert not is_hasty()
