"""Notes with front matter: read one by one, or in batches where they have no defect."""
