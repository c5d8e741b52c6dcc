"""Index trees: the survey of all indexes, and the files that they name."""
