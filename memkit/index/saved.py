"""Postings in two Parquet files: what was saved may come from anybody, and is checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from memkit.checked import json_object
from memkit.errors import DamagedIndexError
from memkit.index.lexical import Postings, plain
from memkit.tables.untrusted import check_unique, open_member, read_parquet

_TERMS = pa.schema([pa.field("term", pa.string(), nullable=False), pa.field("rows", pa.int64(), nullable=False)])
_POSTINGS = pa.schema([pa.field("row", pa.int32(), nullable=False), pa.field("weight", pa.float32(), nullable=False)])


def save(postings: Postings, folder: Path, name: str, settings: dict[str, Any]) -> None:
    """Write ``{name}_terms.parquet``, with `settings` in its metadata, and ``{name}_postings.parquet``."""
    folder.mkdir(parents=True, exist_ok=True)
    terms = pa.table({"term": pa.array(list(postings.terms), pa.string()), "rows": postings.document_frequency})
    told = {"n_rows": postings.n_rows, "n_postings": len(postings.rows)}
    kept = {"memkit": json.dumps({**settings, **told}, sort_keys=True)}
    lists = pa.table({"row": postings.rows, "weight": postings.weights})
    for part, table in (("terms", terms.replace_schema_metadata(kept)), ("postings", lists)):
        with (folder / f"{name}_{part}.parquet").open("wb") as file:  # a name may be taken for an address
            pq.write_table(table, file)


def load(folder: Path, name: str) -> tuple[Postings, dict[str, Any]]:
    """What `save` wrote.

    Raises
    ------
    DamagedIndexError
        Where a file is missing or odd, or the two do not belong together.
    """
    try:
        terms = _read(folder / f"{name}_terms.parquet", _TERMS)
        postings = _read(folder / f"{name}_postings.parquet", _POSTINGS)
        check_unique(terms, "term", folder)
        settings = json_object(terms.schema.metadata[b"memkit"])
        expected, n_rows = (_count(settings.pop(key)) for key in ("n_postings", "n_rows"))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedIndexError(
            f"{folder}: expected the index '{name}' in two Parquet files. {error!s:.300} Fit again."
        ) from error
    frequencies = terms["rows"].to_numpy()
    is_possible = not len(frequencies) or 0 <= frequencies.min() <= frequencies.max() <= n_rows
    if not is_possible or not expected == int(frequencies.sum()) == postings.num_rows:
        raise DamagedIndexError(
            f"{folder}: expected {expected} postings of '{name}'. Got {postings.num_rows} of {frequencies.sum()}: "
            "the files do not belong together. Fit and save again."
        )
    rows = plain(postings["row"].to_numpy(), np.int32)
    if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DamagedIndexError(
            f"{folder}: expected rows from 0 to {n_rows - 1} in '{name}'. Got {rows.min()} to {rows.max()}. "
            "Fit and save again."
        )
    weights = plain(postings["weight"].to_numpy(), np.float32)
    if not np.isfinite(weights).all():
        raise DamagedIndexError(f"{folder}: expected weights of '{name}' that are finite. Fit and save again.")
    numbers = dict(zip(terms["term"].to_pylist(), range(terms.num_rows), strict=True))
    offsets = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64)
    return Postings(numbers, offsets, rows, np.empty(0, np.uint8), n_rows, weights), settings


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    with open_member(path.parent, path.name) as file:
        return read_parquet(file, path, schema)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"a count of {value!r:.80}")
    return value
