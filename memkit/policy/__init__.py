"""Rules as tables, one a module: `admission`, `classifier`, `dedup`, `quota`, `expiry`, `index_check`, `split_plan`.

`base` is what they share, `catalogue` knows them by name, `pipeline` puts them in a row, `replay` compares two rows of
them. Decay is a room of its own, since search weighs by it too.
"""
