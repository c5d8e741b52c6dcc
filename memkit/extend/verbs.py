"""What a verb of the command line is written with: options that memkit's own verbs share.

A verb is a function as Typer takes it, with a line in the group ``memkit.commands``. One that saves something shows
what it would write, and writes with ``--yes``: it takes a `Saving`, is `grouped`, and calls ``saving.save``.
"""

from memkit.cli.change import KeywordOption, Saving, TextArgument, repair_verb
from memkit.cli.common import PathArgument, grouped

__all__ = ["KeywordOption", "PathArgument", "Saving", "TextArgument", "grouped", "repair_verb"]
