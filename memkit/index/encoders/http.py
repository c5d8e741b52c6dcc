"""Any endpoint that speaks OpenAI's ``/embeddings``: a hosted model, a proxy, or a server of your own."""

from __future__ import annotations

import base64
import email.utils
import logging
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from memkit.base.params import as_of_time, check_value
from memkit.errors import EncoderUnavailableError, MemkitError, MissingExtraError, ParameterError
from memkit.index.encoders.base import UnsizedEncoder, is_hasty, note_answer

KEY_VARIABLE = "OPENAI_API_KEY"
OWN_HOST = "api.openai.com"
"""Where a model without an address is."""
_LOG = logging.getLogger("memkit")

_MAX_WAIT = 60.0  # seconds; what a server may ask to wait at most
_QUICK = 5.0  # seconds; how long a caller waits who can do without vectors
# What passes by itself: too slow, too many, a fault of the server's own.
_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})


class HttpEncoder(UnsizedEncoder):
    """Vectors from ``POST {url}/embeddings``.

    The key comes from the environment variable OPENAI_API_KEY and from nowhere else; it is neither stored nor shown.

    Parameters
    ----------
    model : str
        As the endpoint knows it; part of the fingerprint, as is the address.
    url : str
        Up to and without ``/embeddings``, such as ``http://localhost:8080/v1``.
    timeout : float, seconds
        For each request.
    retries : int
        Further tries after a time-out, a broken connection, 429 or 5xx; waits 1, 2, 4 ... seconds, or what Retry-After
        says, a minute at most. A search that can go on by words tries once, for 5 seconds at most.
    prefixes : pair of str
        Put before each query and each document, where the model wants that.
    sleep : callable
        Waits so many seconds; tests replace it.

    Raises
    ------
    MissingExtraError
        Where httpx is not installed.
    """

    kind = "openai"
    # A round number well below the 2,048 texts that OpenAI's own service takes.
    batch_size = 100
    # Four characters a token, at the 8,192 tokens of OpenAI's models.
    max_chars = 32_768
    _is_announced = False

    def __init__(
        self,
        model: str,
        url: str,
        *,
        timeout: float = 30.0,
        # With waits of 1, 2, 4 and 8 seconds between the tries.
        retries: int = 4,
        prefixes: tuple[str, str] = ("", ""),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check_value("HttpEncoder", "timeout", timeout, "float", low=0, low_open=True, unit="seconds")
        check_value("HttpEncoder", "retries", retries, "int", low=0)
        parts = urlsplit(url)
        if not model or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(
                f"'encoder' openai:MODEL@URL needs a model and an http(s) address. Got {model!r}, {url!r}."
            )
        if parts.username or parts.password:
            raise ParameterError(f"'encoder' openai: the key belongs into {KEY_VARIABLE}, not into the address.")
        _httpx()
        self.model, self.url = model, urlunsplit(parts._replace(query="", fragment="")).rstrip("/")
        self.timeout, self.retries, self.prefixes, self._sleep = timeout, retries, tuple(prefixes), sleep

    def announce(self, texts: int) -> None:
        """Say once how many texts will be sent where."""
        if not self._is_announced:
            self._is_announced = True
            _LOG.warning("memkit: %s texts go to %s, for vectors of %s", f"{texts:,}", self.host, self.model)

    @property
    def host(self) -> str:
        """The host that texts are sent to, with its port where it is given."""
        return urlsplit(self.url).netloc

    def _config(self) -> dict[str, Any]:
        return {"model": self.model, "url": self.url, "prefixes": list(self.prefixes)}

    def _embed(self, texts: list[str], role: str) -> NDArray[np.float32]:
        prefix = self.prefixes[0 if role == "query" else 1]
        body = {"model": self.model, "input": [prefix + text for text in texts], "encoding_format": "float"}
        rows = _rows(self._post(body), len(texts), self._label)
        if self._dim not in (None, rows.shape[1]):
            raise MemkitError(f"{self._label}: expected {self._dim} dimensions, as before. Got {rows.shape[1]}.")
        self._dim = rows.shape[1]
        return rows

    @property
    def _label(self) -> str:
        return f"encoder openai:{self.model}@{self.url}"

    def _post(self, body: dict[str, Any]) -> Any:
        httpx = _httpx()
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        tries, timeout = (1, min(self.timeout, _QUICK)) if is_hasty() else (self.retries + 1, self.timeout)
        wrong = ""
        with httpx.Client(timeout=timeout, headers=headers) as client:
            for attempt in range(tries):
                wait = 2.0**attempt
                try:
                    reply = client.post(f"{self.url}/embeddings", json=body)
                except httpx.TimeoutException:
                    wrong = f"no reply within {timeout:g} seconds"
                except httpx.TransportError as error:
                    wrong = f"no connection ({error})"
                else:
                    if reply.is_success:
                        note_answer()
                        return _json(reply, self._label)
                    wrong = f"status {reply.status_code}: {reply.text[:200]}"
                    if reply.status_code not in _RETRIED:
                        raise MemkitError(self._no_vectors(wrong, attempt + 1))
                    wait = _retry_after(reply.headers.get("Retry-After"), wait)
                if attempt + 1 < tries:
                    self._sleep(min(wait, _MAX_WAIT))
        raise EncoderUnavailableError(self._no_vectors(wrong, tries))

    def _no_vectors(self, wrong: str, tries: int) -> str:
        return f"{self._label}: expected vectors. Got {wrong}. Tries: {tries}. Nothing was indexed."


def from_spec(rest: str) -> HttpEncoder:
    """The encoder that ``MODEL@URL`` names; ``MODEL`` alone is one of OpenAI's own, whose key must be there."""
    model, separator, url = rest.partition("@http")
    if separator:
        return HttpEncoder(model, "http" + url)
    if "@" in rest:
        raise ParameterError(f"'encoder' openai:MODEL@URL needs an http(s) address after '@'. Got 'openai:{rest}'.")
    if not os.environ.get(KEY_VARIABLE):
        raise ParameterError(
            f"'encoder' openai:{rest} is a model of {OWN_HOST}, and needs its key in {KEY_VARIABLE}. Got none, and"
            " nothing was sent; openai:MODEL@URL names another server."
        )
    return HttpEncoder(rest, f"https://{OWN_HOST}/v1")


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("httpx", "openai") from error
    return httpx


def _retry_after(header: str | None, fallback: float) -> float:
    """Seconds from Retry-After, which holds seconds or a date."""
    if not header:
        return fallback
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (email.utils.parsedate_to_datetime(header) - as_of_time(None)).total_seconds())
    except (ValueError, TypeError):
        return fallback


def _json(reply: Any, where: str) -> Any:
    try:
        return reply.json()
    except ValueError as error:
        raise MemkitError(f"{where}: expected JSON. Got {reply.text[:200]!r}.") from error


def _rows(reply: Any, n: int, where: str) -> NDArray[np.float32]:
    """Vectors in the order of the texts: replies may come in any order, `index` says which is which."""
    try:
        data = {int(item["index"]): _vector(item["embedding"]) for item in reply["data"]}
    except (KeyError, TypeError, ValueError) as error:
        raise MemkitError(
            f"{where}: expected data[].index and data[].embedding. {type(error).__name__}: {error}."
        ) from error
    if set(data) != set(range(n)):
        raise MemkitError(f"{where}: expected one vector for each of {n} texts. Got {len(data)}.")
    lengths = {len(vector) for vector in data.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise MemkitError(f"{where}: expected vectors of one length. Got lengths {sorted(lengths)}.")
    return np.stack([data[i] for i in range(n)])


def _vector(value: Any) -> NDArray[np.float32]:
    """A list of numbers, or base64 of little-endian float32, which some servers send unasked."""
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    vector: NDArray[np.float32] = np.asarray(value, dtype=np.float32)
    if vector.ndim != 1:
        raise ValueError(f"a vector of shape {vector.shape}")
    return vector
