"""Audits: what search cannot find in a corpus; no labels are needed."""
