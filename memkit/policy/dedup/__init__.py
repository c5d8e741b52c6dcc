"""Which memories say the same.

`deduplicator` is the policy. `pairs` finds pairs of texts, by letters with `near`, by vectors with the index room;
`memkit.text.conflicts` says which of them differ in a number, a date or a negation; `clusters` makes clusters of pairs
and chooses who stays; `agreement` measures all of it on labelled pairs.
"""
