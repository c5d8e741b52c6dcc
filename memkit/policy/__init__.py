"""Rules as tables: `admission`, `classifier`, `dedup`, `quota`, `expiry`, `index_standard` (IndexCheck, SplitPlan).

`base` is what they share and knows them by name, `pipeline` puts them in a row and compares two rows of them. Decay is
a room of its own, since search weighs by it too.
"""
