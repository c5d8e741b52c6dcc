"""Rules as tables: `admission` (with classification), `dedup`, `contradictions`, `limits` (quota, expiry, decay),
`index_standard` (IndexCheck, SplitPlan).

`base` is what they share and knows them by name, `pipeline` puts them in a row and compares two rows of them.
"""
