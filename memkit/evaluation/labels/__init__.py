"""Queries, judgements and runs: read, checked and written; labels made without a person or a model."""
