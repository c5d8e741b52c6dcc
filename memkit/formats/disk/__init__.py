"""What lies on the disk: which files there are, and their bytes as text. Knows nothing of formats."""
