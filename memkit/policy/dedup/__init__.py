"""Exact and near-duplicates.

`deduplicator` is the policy, measured on labelled pairs. `pairs` finds pairs of texts, by letters with `near`, by
vectors with `memkit.index`; `memkit.text.conflicts` flags pairs that differ in a number, a date, a negation or a value;
`clusters` groups pairs and chooses the survivor of each cluster.
"""
