"""Changes to the files themselves: planned as tables, applied in one journalled step, and undone."""
