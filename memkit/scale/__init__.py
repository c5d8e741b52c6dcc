"""More than one index in memory holds: lakes in buckets, statistics over all of them, and engines that hold rows.

The room stands above corpus and search. What is below reaches it by `memkit.tables.above.scale` alone, when a lake of
buckets is opened or saved, or an engine is named.

- `split` (whole users together, each bucket a lake), `buckets` (the corpus of such a lake, and writing one table by
  table).
- `statistics` (what weights depend on besides a row, counted over all buckets), `index` (search over buckets, with the
  scores of one index).
- `engine` (candidates from another program), `milvus` (one such).
"""
