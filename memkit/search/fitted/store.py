"""A fitted Retriever on disk: a manifest, and the folder of one save that it names, with a folder for each arm.

A save is written whole into a folder that is named by what is in it; then the manifest is replaced. So whoever reads
finds the former save or the new one, and what the manifest names is compared with its hashes before it is used.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.checked import with_fields
from memkit.errors import DamagedIndexError, MemkitError, ParameterError, StaleIndexError
from memkit.hashes import digest, digest_of_file
from memkit.index import store
from memkit.index.cache import shared_cache
from memkit.index.encode import check_given
from memkit.params import Estimator
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.index import SearchIndex, build_index
from memkit.search.settings import FitSettings, QuerySettings
from memkit.tables.commit import locked, sync
from memkit.tables.table import from_table
from memkit.tables.untrusted import digests, is_member_name, open_member, read_json, refuse_links

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

FOLDER = "vectors"
"""What a saved corpus calls the folder of its Retriever."""
MANIFEST = "retriever.json"
_VERSION = 2
_FIELDS = {"version": int, "params": dict, "encoder_is_object": bool, "rows": dict, "arms": list, "refit": list}
_FIELDS |= {"files": dict}
_SAVED = "saved-"
_SAVING = ".saving-"
_TRIES = 20
_DEPTH = 3
"""Parts of a file's name: the save, the arm, the file."""
_PATIENCE = 10.0
"""Seconds that a save waits for another one."""


def save_index(index: SearchIndex, params: Mapping[str, Any], folder: Path) -> None:
    """Write the arms, then the manifest that names them: a save that fails half-way leaves the former one.

    Raises
    ------
    MemkitError
        Where `folder` cannot be written, or another process is saving to it.
    """
    encoder = params["encoder"]
    manifest = {
        "version": _VERSION,
        # An engine is not asked because somebody's file names it.
        "params": {**params, "encoder": encoder if isinstance(encoder, str) else None, "engine": "local"},
        "encoder_is_object": encoder is not None and not isinstance(encoder, str),
        "rows": index.digests,
        "arms": sorted(index.arms),
        "refit": sorted(index.settings.params()),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, _PATIENCE):
            files = _save_arms(index, folder)
            told = json.dumps(manifest | {"files": files}, indent=1, sort_keys=True, ensure_ascii=False)
            store.replace(folder / MANIFEST, told)
            _tidy(folder, files)
    except OSError as error:
        raise MemkitError(f"{folder}: cannot save a Retriever there: {error}. What was there stays.") from error


def _save_arms(index: SearchIndex, folder: Path) -> dict[str, str]:
    """Write the arms into a folder of their own, and tell its files with their hashes."""
    staged = Path(tempfile.mkdtemp(prefix=_SAVING, dir=folder))
    try:
        for name, arm in index.arms.items():
            arm.save(staged / name)
        sync(staged)
        files = digests(staged)
        name = _SAVED + digest(repr(files))
        if not (folder / name).is_dir() or digests(folder / name) != files:
            rmtree(folder / name, ignore_errors=True)
            staged.rename(folder / name)
        return {f"{name}/{file}": hash for file, hash in files.items()}
    finally:
        rmtree(staged, ignore_errors=True)


def _tidy(folder: Path, files: Mapping[str, str]) -> None:
    """Remove former saves, and what killed ones left."""
    kept = {name.partition("/")[0] for name in files}
    for path in (*folder.glob(f"{_SAVED}*"), *folder.glob(f"{_SAVING}*")):
        if path.name not in kept:
            rmtree(path, ignore_errors=True)


def load_index(
    folder: Path, corpus: Corpus, encoder: Any = None, trust: bool = False
) -> tuple[SearchIndex, dict[str, Any]]:
    """What `save_index` wrote, and the parameters.

    Raises
    ------
    DamagedIndexError
        Where the folder holds no saved Retriever, or one that memkit did not write.
    StaleIndexError
        Where it holds one of other memories or of another encoder.
    ParameterError
        Where the saved encoder was an object, or an address that is not trusted, and none is given.
    """
    for _ in range(_TRIES):
        manifest = _manifest(folder)
        try:
            return _load(folder, manifest, corpus, encoder, trust)
        except StaleIndexError:
            if _manifest(folder)["files"] == manifest["files"]:  # else it was saved anew meanwhile
                raise
    raise MemkitError(f"{folder}: it was saved anew {_TRIES} times while it was loaded. Load it again.")


def _load(
    folder: Path, manifest: dict[str, Any], corpus: Corpus, encoder: Any, trust: bool
) -> tuple[SearchIndex, dict[str, Any]]:
    if manifest["encoder_is_object"] and encoder is None:
        raise ParameterError("Retriever.load: it was fitted with an encoder object. Pass the same one as encoder=.")
    params: dict[str, Any] = manifest["params"]
    if encoder is not None:
        params["encoder"] = encoder
    elif not trust:
        check_given(params["encoder"], "Retriever.load")
    index = build_index(corpus, FitSettings(**{name: params[name] for name in FitSettings.params()}))
    if index.digests != manifest["rows"]:
        raise StaleIndexError(
            f"{folder.name}/{MANIFEST}: expected the memories that the saved index was made from. Got others:"
            f" {index.chunks.num_rows} chunks where there were {manifest['rows'].get('chunks')}, or other texts."
            " Fit again; vectors of known texts come from the cache."
        )
    for name in manifest["arms"]:
        index.arms[name] = _load_arm(index, name, folder, manifest, trust)
    return index, params


def _load_arm(index: SearchIndex, name: str, folder: Path, manifest: Mapping[str, Any], trust: bool) -> Any:
    """The arm from its files, after these were compared with their hashes."""
    for file, expected in manifest["files"].items():
        if file.split("/")[1] == name:
            with store.checking(folder / file), open_member(folder, file) as opened:
                if digest_of_file(opened) != expected:
                    raise DamagedIndexError(f"{folder.name}/{file}: it is not the file that was saved. Fit again.")
    saved = {file.partition("/")[0] for file in manifest["files"]}
    return KINDS[name].load(index, folder.joinpath(*saved, name), trust)


def kept_arm(index: SearchIndex, name: str) -> Any:
    """The arm that lies with an opened corpus, if it was made with these settings of these memories."""
    folder = index.corpus.folder and index.corpus.folder / FOLDER
    if folder is None or folder.is_symlink() or not (folder / MANIFEST).is_file():
        return None
    try:
        manifest = _manifest(folder)
        wanted = index.settings.get_params(deep=False) | {"engine": "local"}  # the arms are the same
        is_same = (
            {name: manifest["params"][name] for name in wanted} == wanted
            and not manifest["encoder_is_object"]
            and name in manifest["arms"]
        )
        if is_same and index.digests == manifest["rows"]:
            return _load_arm(index, name, folder, manifest, index.corpus.trusted)
    except StaleIndexError:
        pass  # damaged, or of another encoder
    return None


def forget(memories: pa.Table) -> None:
    """Drop from the user's cache what there is of these memories: the vectors of their texts."""
    index = build_index(from_table(memories), FitSettings(encoder=None)) if memories.num_rows else None
    columns = (memories["text"], index.texts, index.told, index.chunks["text"]) if index else ()
    shared_cache().forget({text for column in columns for text in column.to_pylist() if text})


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest in `folder`, which may come from anybody: each value is one that memkit would write."""
    with store.checking(folder / MANIFEST):
        refuse_links(folder, below=True)
        manifest = with_fields(read_json(folder, MANIFEST), _FIELDS)
        if manifest["version"] != _VERSION:
            raise ValueError(f"no version {_VERSION}")
        given = {"engine": "local"} | manifest["params"]
        params = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        kinds: tuple[type[Estimator], ...] = (FitSettings, QuerySettings)
        for settings in kinds:
            settings(**{name: value for name, value in params.items() if name in settings.params()}).check_params()
        unknown = [name for name in params if not any(name in settings.params() for settings in kinds)]
        missing = [name for name in FitSettings.params() if name not in params]
        others = [name for name in manifest["arms"] if name not in KINDS]
        is_ours = isinstance(params["encoder"], str | None) and params["engine"] == "local"
        if unknown or missing or others or not is_ours:
            raise ValueError(f"other parameters or arms: {[*unknown, *missing, *others]!r:.200}")
        _check_files(manifest)
    return manifest | {"params": params}


def _check_files(manifest: Mapping[str, Any]) -> None:
    """Raise where the files are not those of one save, some for each arm."""
    parts = [str(file).split("/") for file in manifest["files"] if is_member_name(file)]
    saves, arms = {part[0] for part in parts}, {part[1] for part in parts if len(part) == _DEPTH}
    is_one = len(saves) <= 1 and all(name.startswith(_SAVED) for name in saves)
    if not is_one or len(parts) != len(manifest["files"]) or arms != set(manifest["arms"]):
        raise ValueError(f"other files: {list(manifest['files'])!r:.200}")
    if {len(part) for part in parts} - {_DEPTH}:
        raise ValueError("files elsewhere than in the folders of the arms")
