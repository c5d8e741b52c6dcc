"""Corpora larger than one index in memory: shards (buckets), and external search engines.

The room stands above corpus and search. Lower rooms reach it by the group ``memkit.lakes`` alone, when a sharded
corpus is opened or saved, or an engine is named.

- `buckets` is the sharded corpus: it divides one into shards, whole users together, and writes one table by table.
- `index` searches shards with the scores of one index, by collection statistics over all of them.
- `engine` retrieves candidates from an external engine; `milvus` is one.
"""
