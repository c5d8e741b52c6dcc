"""Many settings of one search, scored over candidates that its arms are asked for once."""
