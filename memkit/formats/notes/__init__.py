"""Notes with front matter: one by one, and sound ones by the batch."""
