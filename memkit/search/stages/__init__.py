"""From candidates to ranks."""
