"""Notes with front matter: one a file, or a log of them."""
