"""The command line: `run` handles errors, `common` is shared by the verbs and prints."""

from memkit.cli.run import program as main

__all__ = ["main"]
