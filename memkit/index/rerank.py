"""`as_reranker`: encoders, cross-encoders and functions that score the best candidates of a query a second time.

>>> by_length = as_reranker(lambda query, texts: [float(len(text)) for text in texts])
>>> by_length.scores(["пул", "пул"], ["ab", "abcd"]).tolist()
[2.0, 4.0]
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from memkit.base.hashes import key
from memkit.errors import MemkitError, ParameterError, did_you_mean
from memkit.index.cache import shared_cache
from memkit.index.encode import ENCODERS, as_encoder, note_given
from memkit.index.encoders.base import CIRCUITS, Encoder
from memkit.index.encoders.objects import local_model
from memkit.schemas import Floats

Score = Callable[[Sequence[str], Sequence[str]], Any]
"""From queries and as many texts to a score for each pair."""
_CROSS = "st:"
_REMEMBERED = 1 << 17
_ACCEPTED = (
    "what as_encoder takes by name or as an encoder, 'st:PATH' (a cross-encoder in a local folder), an object with"
    " predict (a cross-encoder), or a function of a query and a list of texts that returns a score for each"
)


class Reranker:
    """Scores pairs of a query and a text; a pair is scored once in a process, so that its score is the same each time.

    Parameters
    ----------
    name : str
        Unique among the rerankers in use.
    score : callable
        ``score(queries, texts)``: a number for each pair, of which equal queries stand together.
    """

    def __init__(self, name: str, score: Score) -> None:
        self.name, self._score = name, score
        self._cached: dict[bytes, float] = {}

    def scores(self, queries: Sequence[str], texts: Sequence[str]) -> Floats:
        """The score of each pair.

        Raises
        ------
        EncoderUnavailableError
            If its service cannot be reached.
        MemkitError
            If it does not return a finite number for each pair.
        """
        keys = [key(f"{len(query)}|{query}{text}") for query, text in zip(queries, texts, strict=True)]
        score_of_pair = {pair: self._cached.get(pair) for pair in keys}  # a copy: other threads may empty the original
        new = {pair: row for row, pair in enumerate(keys) if score_of_pair[pair] is None}
        if new:
            rows = sorted(new.values(), key=lambda row: queries[row])
            with CIRCUITS.guard(self.name, "reranker", "scores"):
                returned = self._score([queries[row] for row in rows], [texts[row] for row in rows])
            scored = dict(zip([keys[row] for row in rows], self._checked(returned, len(rows)), strict=True))
            score_of_pair |= scored
            if len(self._cached) + len(scored) > _REMEMBERED:
                self._cached.clear()
            self._cached.update(scored)
        return np.array([score_of_pair[pair] for pair in keys], np.float64)

    def _checked(self, returned: Any, number: int) -> list[float]:
        values = np.asarray(returned)
        if values.shape != (number,) or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise MemkitError(
                f"reranker {self.name}: expected {number} finite numbers, one for each text. Got"
                f" {values.dtype} of shape {values.shape}."
            )
        return [float(value) for value in values]


def as_reranker(x: Any) -> Reranker:
    """The reranker that `x` names or is.

    Parameters
    ----------
    x : str or object
        The name of an encoder ('use', 'e5', one of yours), an address ('m2v:PATH', 'openai:MODEL@URL') or an encoder:
        the cosine of query and text. ``st:PATH``, or an object with ``predict``: a cross-encoder of
        sentence-transformers. A function ``(query, texts) -> scores``.

    Raises
    ------
    ParameterError
        If `x` is none of these.
    MissingExtraError
        If the package behind a name is not installed.
    """
    is_of_others = isinstance(x, str) and x not in ENCODERS and ":" not in x  # the name may pass to another
    if is_of_others or not isinstance(x, Hashable):
        return _make_reranker(x)
    return _cached_reranker(x)


@functools.lru_cache(maxsize=16)
def _cached_reranker(x: Any) -> Reranker:
    return _make_reranker(x)


def _make_reranker(x: Any) -> Reranker:
    if isinstance(x, str):
        if x.startswith(_CROSS):
            note_given(x)
            return _cross_encoder(x)
        return _by_cosine(x, _encoder_named(x))
    if callable(getattr(x, "predict", None)):
        return Reranker(_name_of(x), _by_pairs(x.predict))
    if callable(getattr(x, "encode_query", None)) or callable(getattr(x, "embed_query", None)):
        encoder = as_encoder(x)
        return _by_cosine(encoder.fingerprint, encoder)
    if callable(x) and not isinstance(x, type):
        return Reranker(_name_of(x), _by_function(x))
    raise ParameterError(f"'rerank' must be {_ACCEPTED}. Got {type(x).__name__} {x!r:.100}.")


def _encoder_named(x: str) -> Encoder:
    try:
        return as_encoder(x)
    except ParameterError as error:
        if ":" in x:
            raise
        raise ParameterError(f"'rerank' must be {_ACCEPTED}. Got {x!r:.100}.{did_you_mean(x, ENCODERS)}") from error


def _name_of(x: Any) -> str:
    kind = x if hasattr(x, "__qualname__") else type(x)
    return f"{kind.__qualname__} {id(x):x}"


def _by_cosine(name: str, encoder: Encoder) -> Reranker:
    if getattr(encoder, "refitted", False):
        raise ParameterError(f"'rerank' must not be an encoder that learns from the corpus. Got {name!r:.100}.")

    def score(queries: Sequence[str], texts: Sequence[str]) -> Floats:
        cache = shared_cache()
        query_vectors, text_vectors = cache.encode(encoder, queries, "query"), cache.encode(encoder, texts)
        cosines: Floats = np.einsum("ij,ij->i", query_vectors.astype(np.float64), text_vectors.astype(np.float64))
        return cosines

    return Reranker(name, score)


def _cross_encoder(spec: str) -> Reranker:
    folder = local_model(spec.removeprefix(_CROSS), "st", "sentence_transformers", "sentence-transformers", "rerank")
    from sentence_transformers import CrossEncoder

    return Reranker(spec, _by_pairs(CrossEncoder(str(folder), local_files_only=True).predict))


def _by_pairs(predict: Callable[..., Any]) -> Score:
    def score(queries: Sequence[str], texts: Sequence[str]) -> Any:
        # One at a time: padding to the longest of a batch would change the last digits of the others' scores.
        return predict(list(zip(queries, texts, strict=True)), batch_size=1, show_progress_bar=False)

    return score


def _by_function(function: Callable[[str, list[str]], Any]) -> Score:
    def score(queries: Sequence[str], texts: Sequence[str]) -> list[Any]:
        scores: list[Any] = []
        for query, group in itertools.groupby(zip(queries, texts, strict=True), lambda pair: pair[0]):
            listed = [text for _, text in group]
            values = list(function(query, listed))
            if len(values) != len(listed):
                raise MemkitError(f"'rerank' must return a score for each text. Got {len(values)} for {len(listed)}.")
            scores += values
        return scores

    return score
