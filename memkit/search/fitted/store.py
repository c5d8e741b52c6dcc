"""A fitted Retriever on disk: a manifest and a folder for each arm, saved as in `memkit.tables.lake`.

Files are compared with the hashes in the manifest before they are used.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.base.checked import with_fields
from memkit.base.hashes import digest_of_file
from memkit.base.params import Estimator, check_corpus
from memkit.errors import DamagedIndexError, MemkitError, ParameterError, StaleIndexError
from memkit.formats.disk.files import POINTER
from memkit.index import store
from memkit.index.cache import shared_cache
from memkit.index.encode import check_given, needs_naming, was_given
from memkit.search.ask import QuerySettings
from memkit.search.fitted.chunks import Index, vectors_of
from memkit.search.fitted.index import ROWS, MemoryIndex, Searchable, build
from memkit.search.steps.recall import ARMS
from memkit.tables import kept
from memkit.tables.lake import current, replacing
from memkit.tables.table import from_table
from memkit.tables.untrusted import digests, is_member_name, open_member, read_json, refuse_links

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

FOLDER = "vectors"
"""The folder of the Retriever in a saved corpus."""
MANIFEST = "retriever.json"
_VERSION = 6
_FIELDS = {"version": int, "params": dict, "encoder_is_object": bool, "rows": dict, "arms": list, "refit": list}
_FIELDS |= {"files": dict}
_NAMED = tuple(name for name, declared in QuerySettings.params().items() if declared.kind == "object")
"""Parameters of a query that may be objects; one that is a name is somebody's package or address."""
# A round bound, so that a folder that is saved all the time ends in a sentence.
_TRIES = 20
_DEPTH = 2
"""Parts of a file's name: the arm, the file."""
_PATIENCE = 10.0
"""Seconds that a save waits for another save."""


def save_index(index: Searchable, params: Mapping[str, Any], folder: Path) -> None:
    """Write the arms and a manifest; a save that fails leaves the former one.

    Raises
    ------
    MemkitError
        If `folder` cannot be written, another process is saving to it, or the index is over buckets (shards).
    """
    if not isinstance(index, MemoryIndex):
        raise MemkitError(
            "Retriever.save: expected one index, as of lake.whole(). Got buckets: search.corpus_.save(folder) saves"
            " their collection statistics in the lake's own folder, and a later fit to the lake loads them."
        )
    fitted = index.settings.get_params(deep=False)
    encoder = fitted["encoder"]
    objects = [name for name in _NAMED if not isinstance(params[name], str | None)]
    for name in objects:
        _warn(f"{name!r} is an object and is not saved: with_params({name}=...) puts it back after a load.")
    manifest = {
        "version": _VERSION,
        # An engine is not asked because somebody's file names it.
        "params": {
            **params,
            **fitted,
            "encoder": encoder if isinstance(encoder, str) else None,
            **dict.fromkeys(objects),
            "engine": "local",
        },
        "encoder_is_object": encoder is not None and not isinstance(encoder, str),
        "rows": index.digests,
        "arms": sorted(index.arms),
        "refit": sorted(index.settings.params()),
    }
    with replacing(folder, _PATIENCE) as staged:
        for name, arm in index.arms.items():
            arm.save(staged / name)
        text = json.dumps(manifest | {"files": digests(staged)}, indent=1, sort_keys=True, ensure_ascii=False)
        (staged / MANIFEST).write_text(text, encoding="utf-8")


def _warn(sentence: str) -> None:
    warnings.warn(f"Retriever: {sentence}", RuntimeWarning, stacklevel=4)


def load_index(
    folder: Path, corpus: Corpus, encoder: Any = None, trust: bool = False
) -> tuple[MemoryIndex, dict[str, Any]]:
    """Read what `save_index` wrote: the index, and the query-time parameters.

    Raises
    ------
    DamagedIndexError
        If the folder holds no saved Retriever, or one that memkit did not write.
    StaleIndexError
        If it was made from other memories or with another encoder.
    ParameterError
        If the saved encoder was an object, or an address that is not trusted, and none is passed.
    """
    for _ in range(_TRIES):
        place = _place(folder)
        try:
            return _load(place, _manifest(place), corpus, encoder, trust)
        except StaleIndexError:
            if _place(folder) == place:  # else it was saved again meanwhile
                raise
    raise MemkitError(f"{folder}: it was saved anew {_TRIES} times while it was loaded. Load it again.")


def _load(
    folder: Path, manifest: dict[str, Any], corpus: Corpus, encoder: Any, trust: bool
) -> tuple[MemoryIndex, dict[str, Any]]:
    if manifest["encoder_is_object"] and encoder is None:
        raise ParameterError("Retriever.load: it was fitted with an encoder object. Pass the same one as encoder=.")
    params: dict[str, Any] = manifest["params"]
    if encoder is not None:
        params["encoder"] = encoder
    elif not trust or needs_naming(params["encoder"]):
        check_given(params["encoder"], "Retriever.load")
    for name in _NAMED:
        if not was_given(params.get(name)) and (not trust or needs_naming(params[name])):
            _warn(
                f"the saved index names {name}={params[name][:200]!r}, which nobody gave in this process. It is left"
                f" out; with_params({name}=...) puts it back, and trust=True says that the index is your own."
            )
            params[name] = None
    index = build(corpus, Index(**{name: params[name] for name in Index.params()}))
    if index.digests != manifest["rows"]:
        raise StaleIndexError(
            f"{folder.name}/{MANIFEST}: expected the memories that the saved index was made from. Got others:"
            f" {index.chunks.num_rows} chunks where there were {manifest['rows'].get('chunks')}, or other texts."
            " Fit again; vectors of known texts come from the cache."
        )
    for name in manifest["arms"]:
        index.arms[name] = _load_arm(index, name, folder, manifest, trust)
    return index, {name: value for name, value in params.items() if name not in Index.params()}


def _load_arm(index: MemoryIndex, name: str, folder: Path, manifest: Mapping[str, Any], trust: bool) -> Any:
    """Load an arm, after comparing its files with their hashes."""
    check_arm(folder, name, manifest)
    return ARMS[name].load(index, folder / name, trust)


def check_arm(folder: Path, name: str, manifest: Mapping[str, Any]) -> None:
    """Raise where a file of an arm is not the one that was saved."""
    for file, expected in manifest["files"].items():
        if file.partition("/")[0] == name:
            with store.checking(folder / file), open_member(folder, file) as opened:
                if digest_of_file(opened, quick=True) != expected:
                    raise DamagedIndexError(f"{folder.name}/{file}: it is not the file that was saved. Fit again.")


def saved_arm(index: MemoryIndex, name: str) -> Any:
    """The arm saved with an opened or kept corpus, if it was made with these settings from these memories."""
    lake, trust = index.corpus.arms_from
    if lake is None:
        return None
    try:
        folder = _place(_place(lake) / FOLDER)
        manifest = _manifest(folder)
        wanted = index.settings.get_params(deep=False) | {"engine": "local"}  # the arms are the same
        if name == "vector" and manifest["encoder_is_object"]:
            return None
        if name != "vector":
            wanted.pop("encoder")  # which vectors alone depend on
        is_same = {name: manifest["params"][name] for name in wanted} == wanted and name in manifest["arms"]
        if is_same and index.digests == manifest["rows"]:
            arm = _load_arm(index, name, folder, manifest, trust)
            index.saved.add(name)
            return arm
    except StaleIndexError:
        pass  # damaged, or of another encoder
    return None


def former_index(corpus: Corpus, settings: Index, how: QuerySettings) -> MemoryIndex | None:
    """The index of the folder as the user's cache has it, with the arms that are kept; None where that is no help."""
    check_corpus("Retriever", corpus)
    former = corpus.former
    if former is None or not (former.arms_from[0] and any(former.arms_from[0].glob(f"*/{FOLDER}"))):
        return None
    index = build(former, settings)
    arms = {name: saved_arm(index, name) for name, arm in ARMS.items() if arm.weight(how) != 0}
    index.arms = {name: arm for name, arm in arms.items() if arm is not None}
    return index if index.arms else None


def keep_index(index: Searchable) -> None:
    """Have the user's cache hold the folder of an index, if it has a place there, with the arms unless it has them."""
    if index.corpus.kept is None:
        return
    is_new = index.arms.keys() - index.whole.saved or index.corpus.former is not None
    is_nameable = isinstance(index.settings.encoder, str | None) and index.settings.engine == "local"
    params, attached = QuerySettings().get_params(deep=False), {}
    if index.arms and is_new and is_nameable:
        attached[FOLDER] = lambda folder: save_index(index, params, folder)
        attached[ROWS] = index.whole.save_rows
    index.corpus.keep(attached)
    index.whole.saved |= index.arms.keys()


def saved_vectors(lake: Path, chunks: pa.Table) -> pa.Table | None:
    """The vectors of the chunks of a lake, as they were saved with it; None where it has none for them.

    Raises
    ------
    DamagedIndexError
        Where a file is not the one that was saved.
    """
    try:
        folder = _place(_place(lake) / FOLDER)
        manifest = _manifest(folder)
    except StaleIndexError:
        return None
    if "vector" not in manifest["arms"]:
        return None
    from memkit.index.dense import saved_rows

    check_arm(folder, "vector", manifest)
    vectors = saved_rows(folder / "vector")
    return vectors_of(chunks, vectors) if len(vectors) == chunks.num_rows else None


def forget(memories: pa.Table, root: Path) -> None:
    """Delete from the user's cache the vectors of the texts of these memories, once below `root`, and what is kept of
    folders that had them.
    """
    index = build(from_table(memories), Index(encoder=None)) if memories.num_rows else None
    columns = (memories["text"], index.texts, index.own_texts, index.chunks["text"]) if index else ()
    texts = {text for column in columns for text in column.to_pylist() if text}
    shared_cache().forget(texts)
    kept.forget(root, texts)


def _place(folder: Path) -> Path:
    """The folder of the current save."""
    with store.checking(folder / POINTER):
        return current(folder)


def _manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest in `folder`, which is not trusted: each value is one that memkit would write."""
    with store.checking(folder / MANIFEST):
        refuse_links(folder, below=True)
        if not (folder / MANIFEST).exists():
            raise ValueError("no Retriever is saved there; mk.open opens a saved corpus")
        manifest = with_fields(read_json(folder, MANIFEST), _FIELDS)
        if manifest["version"] != _VERSION:
            raise ValueError(f"no version {_VERSION}")
        stored = {"engine": "local"} | manifest["params"]
        params = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
        kinds: tuple[type[Estimator], ...] = (Index, QuerySettings)
        for settings in kinds:
            settings(**{name: value for name, value in params.items() if name in settings.params()}).check_params()
        unknown = [name for name in params if not any(name in settings.params() for settings in kinds)]
        missing = [name for name in Index.params() if name not in params]
        others = [name for name in manifest["arms"] if name not in ARMS]
        is_named = all(isinstance(params.get(name), str | None) for name in ("encoder", *_NAMED))
        is_ours = is_named and params["engine"] == "local"
        if unknown or missing or others or not is_ours:
            raise ValueError(f"other parameters or arms: {[*unknown, *missing, *others]!r:.200}")
        _check_files(manifest)
    return manifest | {"params": params}


def _check_files(manifest: Mapping[str, Any]) -> None:
    """Raise if the files are not those of one save, with some for each arm."""
    parts = [str(file).split("/") for file in manifest["files"] if is_member_name(file)]
    is_of_arms = len(parts) == len(manifest["files"]) and all(len(part) == _DEPTH for part in parts)
    if not is_of_arms or {part[0] for part in parts} != set(manifest["arms"]):
        raise ValueError(f"other files: {list(manifest['files'])!r:.200}")
