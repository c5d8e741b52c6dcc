"""Which memories say the same.

`deduplicator` is the policy. `pairs` finds pairs of texts, by letters with `near`, by vectors with the index room;
`conflicts` says which of them differ in a number, a date or a negation; `clusters` and `survivors` make clusters of
pairs and choose who stays; `agreement` measures all of it on labelled pairs.
"""
