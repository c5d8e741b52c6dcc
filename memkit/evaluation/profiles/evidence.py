"""The evidence in a profile: declared names, and fingerprints of corpus, labels and encoder."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from memkit.hashes import digest_of_rows
from memkit.index.encoders.base import as_texts
from memkit.params import Param

_COUNT, _TEXT, _NUMBER = {"kind": "int", "low": 0}, {"kind": "str"}, {"kind": "float"}
_DECLARED: dict[str, dict[str, Any]] = {
    "corpus": {**_TEXT, "doc": "Fingerprint of the memories: a hash over their ids and texts."},
    "memories": {**_COUNT, "doc": "How many memories the corpus has."},
    "labels": {**_TEXT, "doc": "Fingerprint of the labelled queries and judgements."},
    "encoder": {**_TEXT, "doc": "Fingerprint of the encoder."},
    "arms": {
        "kind": "weights",
        "doc": "The effective weights of the arms, also where they are the encoder's defaults.",
    },
    "metrics": {"kind": "weights", "doc": "Means, by metric."},
    "verdict": {**_TEXT, "doc": "better, worse, practically the same, cannot tell yet; and the reason."},
    "gain": {**_NUMBER, "doc": "Expected gain over the default."},
    "low": {**_NUMBER, "doc": "Lower end of the gain's 95 % interval."},
    "high": {**_NUMBER, "doc": "Upper end of the gain's 95 % interval."},
    "p": {**_NUMBER, "doc": "One-sided p of the choice (selective inference)."},
    "epsilon": {**_NUMBER, "doc": "Differences within ± epsilon count as none."},
    "n_queries": {**_COUNT, "doc": "Queries in the test."},
    "n_groups": {**_COUNT, "doc": "Users, or other groups of queries."},
    "n_settings": {**_COUNT, "doc": "Settings that were tried."},
    "looks": {**_COUNT, "doc": "How often these labels were looked at."},
    "seed": {"kind": "int", "doc": "Seed of sign flips and folds."},
    "date": {**_TEXT, "doc": "When it was tuned, as its author says."},
    "version": {**_TEXT, "doc": "Version of memkit."},
    "note": {**_TEXT, "doc": "Anything else."},
}
EVIDENCE = {name: Param(default=None, name=name, nullable=True, **how) for name, how in _DECLARED.items()}
"""The names of evidence that a profile may hold."""


def corpus_fingerprint(memories: pa.Table) -> str:
    """A hash over ids and texts, whatever order they are in."""
    rows = memories.select(["memory_id", "text"]).sort_by("memory_id")
    return digest_of_rows(as_texts(pa.chunked_array([*rows["memory_id"].chunks, *rows["text"].chunks], pa.string())))


def labels_fingerprint(queries: Any, qrels: Any) -> str:
    """A hash over what is asked, by whom and when, and what answers it, whatever order it is in."""
    from memkit.evaluation.labels.labels import (  # which need pandas; a search by a profile does without
        read_qrels,
        read_queries,
    )

    queries_read = read_queries(queries).select(["query_id", "text", "user_id", "as_of"]).sort_by("query_id")
    right = read_qrels(qrels).sort_by([("query_id", "ascending"), ("memory_id", "ascending")])
    rows = [*queries_read.to_pylist(), *right.select(["query_id", "memory_id", "relevance"]).to_pylist()]
    return digest_of_rows(json.dumps(row, default=str) for row in rows)


def evidence_of(search: Any) -> dict[str, Any]:
    """The evidence of a fitted Retriever: corpus, memories, encoder and arms."""
    index = search._index()
    arms = {arm: round(weight, 6) for arm, weight in index.weights(search).items()}
    memories = search.corpus_.memories
    values = {"corpus": corpus_fingerprint(memories), "memories": memories.num_rows, "encoder": index.fingerprint}
    return {name: value for name, value in {**values, "arms": arms}.items() if value is not None}
