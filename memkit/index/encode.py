"""`as_encoder`: built-in encoders by name, and objects of other libraries; and `as_reranker`: encoders, cross-encoders
and functions that score the best candidates of a query a second time.

>>> sorted(ENCODERS)
['e5', 'hash', 'lsa', 'use']
>>> as_encoder("hash").dim
1024
>>> by_length = as_reranker(lambda query, texts: [float(len(text)) for text in texts])
>>> by_length.scores(["пул", "пул"], ["ab", "abcd"]).tolist()
[2.0, 4.0]
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import uuid
from collections.abc import Callable, Hashable, Sequence
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any

import numpy as np

from memkit.base.hashes import key
from memkit.base.plugins import Plugins
from memkit.errors import MemkitError, MissingExtraError, ParameterError, StaleIndexError, did_you_mean
from memkit.index.cache import shared_cache
from memkit.index.encoders.base import CIRCUITS, Encoder, Texts, UnsizedEncoder, as_texts, folder_digest
from memkit.schemas import Floats

# Module and class of each kind; a module is imported at its first use.
ENCODERS: dict[str, tuple[str, str]] = {
    "use": ("use", "UseEncoder"),
    "e5": ("e5", "E5Encoder"),
    "lsa": ("without_model", "LsaEncoder"),
    "hash": ("without_model", "HashEncoder"),
}
_ACCEPTED = (
    "one of 'use', 'e5', 'lsa', 'hash', 'st:PATH', 'm2v:PATH', 'openai:MODEL@URL', an object with "
    "encode_query and encode_document, encode (sentence-transformers, model2vec), embed_documents and embed_query "
    "(LangChain), a fitted transformer with transform (scikit-learn), or a function from a list of texts to an array"
)
_GIVEN: set[str] = set()
"""What this process was given by name, so that a saved index may name it."""


def _checked(name: str, make: Any) -> Callable[[], Any]:
    if not callable(make) or name in ENCODERS or ":" in name:
        expected = "a name of its own, and a class or function that makes it"
        raise ParameterError(f"an encoder must have {expected}. Got {name!r}, {make!r:.80}.")
    factory: Callable[[], Any] = make
    return factory


_OTHERS = Plugins("memkit.encoders", _checked)


def register_encoder(name: str, make: Callable[[], Any]) -> None:
    """Register an encoder of your own under a name, so that ``encoder=name`` means it; an entry point does the same.

    Parameters
    ----------
    name : str
        Registered encoders come before entry points, whose group is ``memkit.encoders``.
    make : callable
        ``make()`` is anything that `as_encoder` takes.

    Raises
    ------
    ParameterError
        If memkit has an encoder of that name, or `make` cannot be called.

    Examples
    --------
    >>> register_encoder("lengths", lambda: lambda texts: [[len(text), 1.0] for text in texts])
    >>> as_encoder("lengths").encode_query(["пул"]).shape
    (1, 2)
    >>> forget_encoder("lengths")
    """
    _OTHERS.registered[name] = _checked(name, make)


def forget_encoder(name: str) -> None:
    """Undo `register_encoder`; unknown names are ignored."""
    _OTHERS.registered.pop(name, None)


_MEMBERS = ("encode_query", "encode_document", "dim", "fingerprint", "get_config")


def as_encoder(x: Any) -> Encoder:
    """The encoder that `x` names or is.

    Parameters
    ----------
    x : Encoder, str or object
        An encoder itself; a name ('use', 'e5', 'lsa', 'hash'); an address ('st:PATH', 'm2v:PATH',
        'openai:MODEL@URL'; 'openai:MODEL' is OpenAI's own, with the key in OPENAI_API_KEY); an object of
        sentence-transformers, model2vec or LangChain; a fitted scikit-learn transformer or Pipeline; a function
        ``list[str] -> array``.

    Returns
    -------
    Encoder
        Its rows are unit vectors, whatever `x` returns.

    Raises
    ------
    ParameterError
        If `x` is none of these; the message lists what is accepted.
    MissingExtraError
        If the package behind a name is not installed; the message names memkit's extra.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = as_encoder(lambda texts: np.array([[len(text), 1.0] for text in texts]))
    >>> encoder.encode_query(["пул"]).round(2).tolist()
    [[0.949999988079071, 0.3199999928474426]]
    """
    if isinstance(x, str):
        return _encoder_named(x)
    # A class has the methods of its objects, and is no encoder; it would fail only when it is called.
    if inspect.isclass(x) or x is None:
        raise _no_encoder(x)
    if all(inspect.getattr_static(x, name, None) is not None for name in _MEMBERS):
        encoder: Encoder = x
        return encoder
    for recognises, wrap in _SHAPES:
        if recognises(x):
            return wrap(x)
    raise _no_encoder(x)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda x: all(callable(getattr(x, name, None)) for name in names)


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


# A round bound, as each token holds its object.
@functools.lru_cache(maxsize=64)
def _kept_token(model: Any) -> str:
    # The cache holds the object, so its place in memory cannot pass to another while the token is known.
    return uuid.uuid4().hex


_ADDRESSES: dict[str, Callable[[str], Encoder]] = {
    "st": load_sentence_transformer,
    "m2v": load_model2vec,
    "openai": lambda spec: _load("http", "from_spec")(spec),
}
# The most specific first: a sentence-transformer is callable too.
_SHAPES: tuple[tuple[Callable[[Any], bool], Callable[[Any], Encoder]], ...] = (
    (_has("embed_documents", "embed_query"), from_langchain),
    (_has("encode_query", "encode_document"), from_sentence_transformer),
    (_has("encode"), from_sentence_transformer),
    (_has("transform"), from_sklearn),
    (callable, lambda function: ObjectEncoder("callable", function, function, _identity(function))),
)


class OfFile(str):
    """An encoder's name that a file of settings has, and nobody in this process."""

    __slots__ = ()


def needs_naming(spec: object) -> bool:
    """Whether an encoder is used only where a person names it in code or on the command line: OpenAI's own service.

    >>> needs_naming("openai:text-embedding-3-small"), needs_naming("openai:m@http://localhost:8080/v1")
    (True, False)
    """
    return isinstance(spec, str) and spec.startswith("openai:") and "@" not in spec


def was_given(spec: object) -> bool:
    """Whether `spec` is a built-in name or an object, or was given in this process: an address is used only then."""
    return not isinstance(spec, str) or spec in ENCODERS or spec in _GIVEN


def check_given(spec: object, owner: str) -> None:
    """Raise if `spec`, from a saved index, is an address that was not passed to `as_encoder` in this process.

    Raises
    ------
    ParameterError
        Because using an address sends texts there, or loads a model that may contain code.
    """
    if not was_given(spec):
        raise ParameterError(
            f"{owner}: the saved index names the encoder {str(spec)[:200]!r}, which nobody gave in this process. Pass"
            " it as encoder=, or trust=True if the index is your own."
        )


def for_corpus(encoder: Encoder, texts: list[str]) -> Encoder:
    """The encoder itself, or a copy fitted to `texts` if its kind learns from a corpus."""
    if not getattr(encoder, "refitted", False):
        return encoder
    fitted: Encoder = copy.copy(encoder).fit(texts)  # type: ignore[attr-defined]  # refitted encoders have fit
    return fitted


def loaded_encoder(spec: Any, texts: Texts | None, fingerprint: str) -> Encoder:
    """The encoder of a saved arm; one that learns from a corpus is fitted to `texts` again.

    Raises
    ------
    StaleIndexError
        If its fingerprint is not `fingerprint`.
    """
    encoder = as_encoder(spec)
    if getattr(encoder, "refitted", False):
        if texts is None:
            raise ParameterError("Dense.load: this encoder learns from the corpus. Pass texts=, as they were in fit.")
        encoder = for_corpus(encoder, as_texts(texts))
    if encoder.fingerprint != fingerprint:
        raise StaleIndexError(
            f"the vectors were made by encoder {fingerprint}. Got {encoder.fingerprint}: "
            "their cosines mean nothing to each other. Pass the same encoder or fit again."
        )
    return encoder


def _encoder_named(spec: str) -> Encoder:
    if isinstance(spec, OfFile) and needs_naming(spec) and not was_given(spec):
        raise ParameterError(
            f"'encoder' {spec[:200]!r} sends every text to OpenAI, and only a file of settings names it. Name it"
            f" yourself, by encoder= or --set encoder={spec[:200]}, or give another."
        )
    _GIVEN.add(str(spec))
    if spec in ENCODERS:
        encoder: Encoder = _load(*ENCODERS[spec])()
        return encoder
    kind, colon, address = spec.partition(":")
    if colon and address and kind in _ADDRESSES:
        return _ADDRESSES[kind](address)
    if make := _OTHERS.get(spec):
        return as_encoder(make())
    raise _no_encoder(spec)


def _load(module: str, name: str) -> Any:
    return getattr(import_module(f"memkit.index.encoders.{module}"), name)


def _no_encoder(x: object) -> ParameterError:
    came = repr(x) if isinstance(x, str) or x is None else f"{type(x).__name__} {x!r}"
    return ParameterError(
        f"'encoder' must be {_ACCEPTED}. Got {came[:200]}.{did_you_mean(x, (*ENCODERS, *_OTHERS.names()))}"
    )


Score = Callable[[Sequence[str], Sequence[str]], Any]
"""From queries and as many texts to a score for each pair."""
_REMEMBERED = 1 << 17  # scores of pairs; beyond, all are forgotten
_RERANKERS = (
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
            # So that a function of one query and its texts is called once a query.
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


def _make_reranker(x: Any) -> Reranker:
    if isinstance(x, str):
        if x.startswith("st:"):
            _GIVEN.add(x)
            return _cross_encoder(x)
        return _by_cosine(x, _reranking(x))
    if callable(getattr(x, "predict", None)):
        return Reranker(_name_of(x), _by_pairs(x.predict))
    if callable(getattr(x, "encode_query", None)) or callable(getattr(x, "embed_query", None)):
        encoder = as_encoder(x)
        return _by_cosine(encoder.fingerprint, encoder)
    if callable(x) and not isinstance(x, type):
        return Reranker(_name_of(x), _by_function(x))
    raise ParameterError(f"'rerank' must be {_RERANKERS}. Got {type(x).__name__} {x!r:.100}.")


# A round bound, as each holds its model and its scores.
_cached_reranker = functools.lru_cache(maxsize=16)(_make_reranker)


def _reranking(x: str) -> Encoder:
    try:
        return as_encoder(x)
    except ParameterError as error:
        if ":" in x:
            raise
        raise ParameterError(f"'rerank' must be {_RERANKERS}. Got {x!r:.100}.{did_you_mean(x, ENCODERS)}") from error


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
    folder = local_model(spec.removeprefix("st:"), "st", "sentence_transformers", "sentence-transformers", "rerank")
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
