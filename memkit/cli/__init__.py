"""The command line: `run` handles errors, `common` is shared by the verbs, `show` prints, `demo` is a tour."""

from memkit.cli.run import program as main

__all__ = ["main"]
