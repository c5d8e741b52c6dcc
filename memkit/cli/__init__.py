"""The command line: `run` meets the outside, `app` has the verbs, `show` prints, `demo` tours the shipped sample."""

from memkit.cli.run import program as main

__all__ = ["main"]
