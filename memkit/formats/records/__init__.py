"""Records in JSON and YAML: their kinds, and the adapters of older shapes."""
