"""Milvus as an engine: a file on this machine (Milvus Lite), a server or a cluster, by its address."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from memkit.errors import MemkitError, MissingExtraError

FOUND = pa.schema([("query", pa.int64()), ("id", pa.int64()), ("score", pa.float64())])
_URI = "http://localhost:19530"
_DENSE = {"index_type": "FLAT", "metric_type": "IP"}
_SPARSE = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}


class Milvus:
    """Rows in Milvus, one collection per name; search is exact by default.

    Parameters
    ----------
    uri : str, optional
        ``http://HOST:PORT``, or a file ending in ``.db`` for Milvus Lite; the default is ``MILVUS_URI`` in the
        environment, else a server on this machine.
    token : str, optional
        As ``user:password``, if the server needs one.
    index : str
        The index type for vectors: 'FLAT' is exact, 'AUTOINDEX' and others are Milvus's approximate ones.
    timeout : float, seconds
        Time limit of a request.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = Milvus(f"{folder}/a.db")
    ...     engine.put("a", pa.table({"id": [1, 2], "user": [0, 0], "vector": [[1.0, 0.0], [0.6, 0.8]]}))
    ...     found = engine.candidates("a", pa.table({"vector": [[0.0, 1.0]]}), 1).to_pylist()
    ...     engine.close()
    >>> [(row["id"], round(row["score"], 3)) for row in found]
    [(2, 0.8)]
    """

    def __init__(
        self, uri: str | None = None, token: str | None = None, *, index: str = "FLAT", timeout: float = 30.0
    ) -> None:
        self.uri = uri or os.environ.get("MILVUS_URI") or _URI
        self.token, self.index, self.timeout = token, index, timeout

    def put(self, name: str, rows: pa.Table) -> None:
        """As `Engine.put`; the rows can be searched when this returns."""
        field = "terms" if "terms" in rows.column_names else "vector"
        if not self._call("has_collection", name):
            self._create(name, field, rows)
        data = [{"id": row["id"], "user": row["user"], "vector": _vector(row)} for row in rows.to_pylist()]
        if data:
            self._call("upsert", name, data)
        self._call("flush", name)

    def candidates(
        self, name: str, queries: pa.Table, n: int, ids: Sequence[int] | None = None, user: int | None = None
    ) -> pa.Table:
        """As `Engine.candidates`."""
        options: dict[str, Any] = {"anns_field": "vector", "limit": n, "output_fields": ["id"]}
        if ids is not None or user is not None:
            options["filter"] = f"user == {user}" if ids is None else f"id in {list(map(int, ids))}"
        vectors = [_vector(query) for query in queries.to_pylist()]
        results = self._call("search", name, vectors, consistency_level="Strong", **options)
        rows = [(number, hit["id"], hit["distance"]) for number, hits in enumerate(results) for hit in hits]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        return pa.table([pa.array(column, type) for column, type in zip(columns, FOUND.types, strict=True)], FOUND)

    def drop(self, name: str) -> None:
        """As `Engine.drop`."""
        self._call("drop_collection", name)

    def count(self, name: str) -> int:
        """The number of rows in the collection `name`."""
        if not self._call("has_collection", name):
            return 0
        self._call("load_collection", name)  # after a restart of the server it cannot be searched before
        answer = self._call("query", name, filter="", output_fields=["count(*)"], consistency_level="Strong")
        return int(answer[0]["count(*)"])

    def names(self) -> list[str]:
        """The names of memkit's collections, for `drop`."""
        return sorted(name for name in self._call("list_collections") if name.startswith("memkit_"))

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if "_client" in self.__dict__:
            self._client.close()
            del self._client

    @cached_property
    def _client(self) -> Any:
        try:
            from pymilvus import MilvusClient
        except ImportError as error:
            raise MissingExtraError("pymilvus", "milvus") from error
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # our error says what went wrong, once
        options = {"token": self.token} if self.token else {}
        return MilvusClient(self.uri, timeout=self.timeout, **options)

    def _call(self, method: str, *values: Any, **named: Any) -> Any:
        from grpc import RpcError

        try:
            return getattr(self._client, method)(*values, timeout=self.timeout, **named)
        except MissingExtraError:
            raise
        # Its client raises what gRPC, its own code or the network raise.
        except Exception as error:
            known = (RpcError, ConnectionError, OSError, ValueError)
            if type(error).__module__.startswith("pymilvus") or isinstance(error, known):
                raise MemkitError(
                    f"Milvus at {self.uri}: {str(getattr(error, 'message', error))[:300]} ({method}). Is it running?"
                    " Missing rows are uploaded again."
                ) from error
            raise

    def _create(self, name: str, field: str, rows: pa.Table) -> None:
        from pymilvus import DataType

        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("user", DataType.INT64)
        kind = DataType.SPARSE_FLOAT_VECTOR if field == "terms" else DataType.FLOAT_VECTOR
        size = {} if field == "terms" else {"dim": len(rows["vector"][0])}
        schema.add_field("vector", kind, **size)
        index = self._client.prepare_index_params()
        index.add_index("vector", **(_SPARSE if field == "terms" else _DENSE | {"index_type": self.index}))
        self._call("create_collection", name, schema=schema, index_params=index)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_client"}

    def __repr__(self) -> str:
        return f"Milvus({self.uri!r})"


def _vector(row: dict[str, Any]) -> Any:
    return dict(zip(row["terms"], row["weights"], strict=True)) if "terms" in row else row["vector"]
