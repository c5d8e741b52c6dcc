"""Many settings of one search, from what its arms found once."""
