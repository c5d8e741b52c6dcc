"""The command line: `app` has the verbs, `show` prints, `demo` tours the shipped sample."""

from memkit.cli.app import main

__all__ = ["main"]
