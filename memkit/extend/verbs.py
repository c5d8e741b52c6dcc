"""What a verb of the command line is written with: options that memkit's own verbs share, and how they show a result.

A verb is a function as Typer takes it, with a line in the group ``memkit.commands``. It loads a folder with `load`, and
shows a table with `show`. One that saves something shows what it would write, and writes with ``--yes``: it takes a
`Saving`, is `grouped`, and calls ``saving.save``.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
