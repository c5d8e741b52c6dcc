"""Wraps other libraries' encoders, so that they give checked unit vectors and have a name."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np

from memkit.errors import MemkitError, MissingExtraError, ParameterError
from memkit.index.encoders.base import UnsizedEncoder, folder_digest

Embed = Callable[[list[str]], Any]


class ObjectEncoder(UnsizedEncoder):
    """Two functions, one for queries and one for documents, as an encoder.

    Parameters
    ----------
    kind : str
        What was wrapped: 'st', 'm2v', 'langchain', 'sklearn', 'callable'.
    query, document : callable, list[str] -> array of shape (n, dim)
    identity : dict
        What the fingerprint is made from: names, versions, hashes, as JSON values.
    """

    def __init__(self, kind: str, query: Embed, document: Embed, identity: dict[str, Any]) -> None:
        self.kind = kind  # type: ignore[misc]  # one class wraps several kinds
        self._query, self._document, self._identity = query, document, identity

    @property
    def lasting(self) -> bool:  # type: ignore[override]  # only a wrapper's identity may end with its process
        return "process" not in self._identity

    def _config(self) -> dict[str, Any]:
        return self._identity

    def _embed(self, texts: list[str], role: str) -> Any:
        block = self._query(texts) if role == "query" else self._document(texts)
        rows = _rows(block)
        if rows.ndim == 2:
            if self._dim not in (None, rows.shape[1]):
                raise ParameterError(
                    f"encoder {self.fingerprint}: expected {self._dim} dimensions, as before. Got {rows.shape[1]}."
                )
            self._dim = rows.shape[1]
        return rows


def _rows(block: Any) -> Any:
    """A dense array from what encoders return: arrays, lists, tensors or sparse matrices."""
    if hasattr(block, "toarray"):
        return block.toarray()
    if hasattr(block, "detach"):
        return block.detach().cpu().numpy()
    try:
        return np.asarray(block)
    except ValueError as error:  # lists of several lengths
        raise MemkitError(f"an encoder must return rows of one length. {error}") from error


def from_sentence_transformer(model: Any) -> ObjectEncoder:
    """`encode`, and `encode_query`/`encode_document` where the model has them (its prompts live there)."""
    plain = getattr(model, "encode", None)
    query, document = getattr(model, "encode_query", plain), getattr(model, "encode_document", plain)
    if query is None or document is None:
        raise ParameterError(
            f"'encoder' needs encode, or encode_query and encode_document. Got {type(model).__name__}."
        )
    return ObjectEncoder("st", _silent(query), _silent(document), _identity(model))


def _silent(encode: Callable[..., Any]) -> Embed:
    """The options that turn off a function's own progress bar, where it has one."""
    try:
        knows = "show_progress_bar" in inspect.signature(encode).parameters
    except (TypeError, ValueError):
        knows = False
    return (lambda texts: encode(texts, show_progress_bar=False)) if knows else encode


def from_langchain(model: Any) -> ObjectEncoder:
    """`embed_documents(list)` and `embed_query(str)`."""

    def query(texts: list[str]) -> Any:
        return [model.embed_query(text) for text in texts]

    return ObjectEncoder("langchain", query, model.embed_documents, _identity(model))


def from_sklearn(model: Any) -> ObjectEncoder:
    """A fitted transformer or Pipeline whose `transform` takes a list of texts.

    Raises
    ------
    ParameterError
        Where it is not fitted.
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ParameterError(f"'encoder' must be a fitted transformer. Got {type(model).__name__}: fit it.") from error
    except TypeError:
        pass  # no scikit-learn estimator, but it has transform
    return ObjectEncoder("sklearn", model.transform, model.transform, _identity(model))


def from_callable(function: Embed) -> ObjectEncoder:
    """Any function of a list of texts."""
    return ObjectEncoder("callable", function, function, _identity(function))


def load_sentence_transformer(path: str) -> ObjectEncoder:
    """A sentence-transformers model from a local folder.

    Raises
    ------
    MissingExtraError, ParameterError
        Where the package or the folder is missing.
    """
    folder = local_model(path, "st", "sentence_transformers", "sentence-transformers")
    from sentence_transformers import SentenceTransformer

    encoder = from_sentence_transformer(SentenceTransformer(str(folder)))
    encoder._identity = _loaded(folder, "sentence-transformers")
    return encoder


def load_model2vec(path: str) -> ObjectEncoder:
    """A model2vec StaticModel from a local folder; errors as for `load_sentence_transformer`."""
    folder = local_model(path, "m2v", "model2vec", "model2vec")
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(str(folder))
    return ObjectEncoder("m2v", model.encode, model.encode, _loaded(folder, "model2vec"))


def local_model(path: str, kind: str, module: str, package: str, param: str = "encoder") -> Path:
    """The local folder `path` of a model for `param`; errors as for `load_sentence_transformer`."""
    if util.find_spec(module) is None:
        raise MissingExtraError(package, package)
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise ParameterError(f"'{param}' {kind}:PATH must name a local folder with a model. Got {path!r}.")
    return folder


def _loaded(folder: Path, package: str) -> dict[str, Any]:
    return {"package": package, "version": metadata.version(package), "files": folder_digest(folder)}


def _identity(model: Any) -> dict[str, Any]:
    """The identity of `model`, as far as it can be known from outside: its class and a hash of its state.

    A function's code cannot be compared, nor an object that refuses to be hashed: these get a token of this process,
    so that their vectors are shared by clones and never taken for those of a later process.
    """
    function = inspect.isroutine(model)
    kind = model if function else type(model)
    name = f"{kind.__module__}.{kind.__qualname__}"
    declared = getattr(model, "fingerprint", None)
    if isinstance(declared, str) and declared:
        return {"object": name, "fingerprint": declared}
    state = None if function else _state(model)
    return {"object": name, "state": state} if state else {"object": name, "process": _token(model)}


def _state(model: Any) -> str | None:
    import joblib

    try:
        return str(joblib.hash(model))
    except Exception:  # any object may refuse to be pickled, each in its own way
        return None


def _token(model: Any) -> str:
    try:
        return _kept_token(model)
    except TypeError:  # not hashable
        return uuid.uuid4().hex


@functools.lru_cache(maxsize=64)
def _kept_token(model: Any) -> str:
    # The cache holds the object, so its place in memory cannot pass to another while the token is known.
    return uuid.uuid4().hex
