"""Folders for tests and examples, made from a mapping of paths to texts."""

from memkit.past.samples import write_commits
from memkit.tables.samples import write_files

__all__ = ["write_commits", "write_files"]
