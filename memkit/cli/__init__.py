"""The command line: `run` meets the outside, `common` is what the verbs share, `show` prints, `demo` tours the shipped sample."""

from memkit.cli.run import program as main

__all__ = ["main"]
