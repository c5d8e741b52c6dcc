"""A fitted Retriever on disk: a manifest, and a folder for each arm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.errors import ParameterError, StaleIndexError
from memkit.index import store
from memkit.search.fitted.arms import load_arm
from memkit.search.fitted.index import SearchIndex, build_index
from memkit.search.settings import FitSettings

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

FOLDER = "vectors"
"""What a saved corpus calls the folder of its Retriever."""
MANIFEST = "retriever.json"
_VERSION = 1
_FIELDS = {"params", "encoder_is_object", "rows", "arms", "refit"}


def save_index(index: SearchIndex, params: Mapping[str, Any], folder: Path) -> None:
    """Write the arms, then the manifest that names them: a save that fails half-way leaves the former manifest."""
    for name, arm in index.arms.items():
        arm.save(folder / name)
    encoder = params["encoder"]
    manifest = {
        "version": _VERSION,
        "params": {**params, "encoder": encoder if isinstance(encoder, str) else None},
        "encoder_is_object": encoder is not None and not isinstance(encoder, str),
        "rows": index.digests,
        "arms": sorted(index.arms),
        "refit": sorted(index.settings.params()),
    }
    store.replace(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False))


def load_index(folder: Path, corpus: Corpus, encoder: Any = None) -> tuple[SearchIndex, dict[str, Any]]:
    """What `save_index` wrote, and the parameters.

    Raises
    ------
    StaleIndexError
        Where the folder holds no saved Retriever, or one of other memories or of another encoder.
    ParameterError
        Where the saved encoder was an object and none is given.
    """
    manifest = _manifest(folder)
    if manifest["encoder_is_object"] and encoder is None:
        raise ParameterError("Retriever.load: it was fitted with an encoder object. Pass the same one as encoder=.")
    params: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in manifest["params"].items()}
    params["encoder"] = params["encoder"] if encoder is None else encoder
    index = build_index(corpus, FitSettings(**{name: params[name] for name in manifest["refit"]}))
    if index.digests != manifest["rows"]:
        raise StaleIndexError(
            f"{folder.name}/{MANIFEST}: expected the memories that the saved index was made from. Got others:"
            f" {index.chunks.num_rows} chunks where there were {manifest['rows']['chunks']}, or other texts."
            " Fit again; vectors of known texts come from the cache."
        )
    for name in manifest["arms"]:
        index.arms[name] = load_arm(name, index.settings, folder / name, index.chunks, index.texts)
    return index, params


def kept_arm(index: SearchIndex, name: str) -> Any:
    """The arm that lies with an opened corpus, if it was made with these settings of these memories; else None."""
    folder = index.corpus.folder and index.corpus.folder / FOLDER
    if folder is None or not (folder / MANIFEST).is_file():
        return None
    try:
        manifest = _manifest(folder)
        settings = {key: manifest["params"].get(key) for key in manifest["refit"]}
        is_same = (
            settings == index.settings.get_params(deep=False)
            and not manifest["encoder_is_object"]
            and name in manifest["arms"]
        )
        if is_same and index.digests == manifest["rows"]:
            return load_arm(name, index.settings, folder / name, index.chunks, index.texts)
    except StaleIndexError:
        pass  # damaged, or of another encoder
    return None


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StaleIndexError(
            f"{folder.name}/{MANIFEST}: expected a saved Retriever. {error}. Fit and save."
        ) from error
    is_known = isinstance(manifest, dict) and manifest.get("version") == _VERSION
    if not is_known or not manifest.keys() >= _FIELDS:
        raise StaleIndexError(
            f"{folder.name}/{MANIFEST}: expected version {_VERSION} and all fields. Got {manifest!r:.80}."
            " Fit and save again."
        )
    return manifest
