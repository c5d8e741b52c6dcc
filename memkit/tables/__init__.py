"""Tables to SQL: the corpus, its database and full-text index, named queries, and its form on disk."""
