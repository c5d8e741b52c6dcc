"""Queries, judgements and runs: read and checked, in their files, and made without a person or a model."""
