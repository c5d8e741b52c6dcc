"""The steps of a search, a module each or for a few; `memkit.search.ask` has them in their order."""
