"""Dedup measured on labelled pairs: precision, recall, and the contradictions that a threshold would merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import rows_of
from memkit.base.params import check_choice, check_column, check_value
from memkit.policy.dedup.pairs import OWNER
from memkit.schemas import with_column
from memkit.tables.statement import as_table

LABELS = ("duplicate", "different", "contradiction")

_SCORED_SQL = """
with best as (
    select least(a_id, b_id) as low, greatest(a_id, b_id) as high,
        max(case when not (contradiction and $guarded) then similarity end) as similarity
    from pairs
    where kind in ($kind, 'exact')
    group by all
)
select label,
    coalesce(case when a_id = b_id then 1.0 else similarity end, 0.0) as similarity
from labels left join best on low = least(a_id, b_id) and high = greatest(a_id, b_id)
order by place
"""


def precision_recall(pairs: Any, labels: Any, kind: str = "semantic", guarded: bool = True) -> pa.Table:
    """Precision and recall of each threshold on labelled pairs.

    Parameters
    ----------
    pairs : pyarrow.Table
        ``Deduplicator.pairs_``.
    labels : pyarrow.Table or pandas.DataFrame
        a_id, b_id (string, in any order) and label: ``duplicate``, ``different`` or ``contradiction``; true and false
        are read as the first two.
    kind : str
        The kind of pairs to measure; exact duplicates always merge.
    guarded : bool
        Whether pairs that differ in a number, a date, a negation or a value never merge, as in `Deduplicator`.

    Returns
    -------
    pyarrow.Table
        threshold (float64, falling), merged (int64), precision, recall, contradiction_rate (float64; the share of the
        labelled contradictions that would be merged; null where no pair is merged).

    Raises
    ------
    ParameterError
        For an unknown label.

    Examples
    --------
    >>> pairs = pa.table({"a_id": ["1", "1"], "b_id": ["2", "3"], "kind": ["semantic"] * 2, "similarity": [0.95, 0.8],
    ...     "contradiction": [False, False]})
    >>> labels = pa.table({"a_id": ["2", "1"], "b_id": ["1", "3"], "label": [True, False]})
    >>> precision_recall(pairs, labels).select(["threshold", "precision"]).to_pylist()
    [{'threshold': 0.95, 'precision': 1.0}, {'threshold': 0.8, 'precision': 0.5}]
    """
    similarity, label = similarity_of(pairs, labels, kind, guarded)
    thresholds = np.unique(similarity[similarity > 0])[::-1]
    merged = similarity[None, :] >= thresholds[:, None]
    right, wrong = merged[:, label == "duplicate"].sum(axis=1), merged[:, label == "contradiction"].sum(axis=1)
    return pa.table(
        {
            "threshold": thresholds,
            "merged": merged.sum(axis=1),
            "precision": right / np.maximum(1, merged.sum(axis=1)),
            "recall": _share(right, int((label == "duplicate").sum())),
            "contradiction_rate": _share(wrong, int((label == "contradiction").sum())),
        }
    )


def similarity_of(pairs: Any, labels: Any, kind: str = "semantic", guarded: bool = True) -> tuple[Any, Any]:
    """The similarity of each labelled pair (0 where the pair was not found), and its label; see `precision_recall`."""
    if guarded and OWNER in pairs.column_names:
        pairs = pairs.filter(pc.is_null(pairs[OWNER]))  # repeated text never merges
    labelled = labelled_pairs(as_table(labels)).select(["a_id", "b_id", "label"])
    labelled = labelled.append_column("place", pa.array(np.arange(labelled.num_rows)))
    scored = rows_of(_SCORED_SQL, {"guarded": guarded, "kind": kind}, pairs=pairs, labels=labelled)
    return scored["similarity"].to_numpy(), scored["label"].to_numpy(zero_copy_only=False)


def threshold_for(curve: pa.Table, precision: float) -> float | None:
    """The threshold with the highest recall among those of at least this precision, or None.

    Parameters
    ----------
    curve : pyarrow.Table
        The result of `precision_recall`.
    precision : float, ratio
        The required precision.
    """
    check_value("threshold_for", "precision", precision, "float", low=0, high=1)
    reached = curve["threshold"].to_numpy()[curve["precision"].to_numpy() >= precision]
    return float(reached.min()) if len(reached) else None


def labelled_pairs(labels: pa.Table) -> pa.Table:
    """The checked labelled pairs, each label one of `LABELS`."""
    for name in ("label", "a_id", "b_id"):
        check_column(name, labels.column_names, "labels")
    if pa.types.is_boolean(labels["label"].type):
        words = pa.array(["duplicate" if same else "different" for same in labels["label"].to_pylist()], pa.string())
        labels = with_column(labels, "label", words)
    for label in set(labels["label"].to_pylist()):
        check_choice("label", label, LABELS, "labels")
    return labels


def _share(counts: Any, whole: int) -> pa.Array:
    return pa.array(counts / whole, pa.float64()) if whole else pa.nulls(len(counts), pa.float64())
