"""What `Retriever.fit` makes: chunks, the arrays that ranking needs, the arms, and their place on disk."""
