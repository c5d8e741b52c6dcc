"""The steps of a search, a module each or for a few; `memkit.search.settings` has them in their order."""
