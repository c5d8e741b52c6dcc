"""Labels, metrics, and what may be concluded from them; nothing here trains or changes a corpus."""
