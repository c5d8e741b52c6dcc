"""What a verb of the command line is written with: options that memkit's own verbs share, and how they show a result.

A verb is a function as Typer takes it, with a line in the group ``memkit.commands``. It loads a folder with `load`, and
shows a table with `show`. One that saves something shows what it would write, and writes with ``--yes``: it takes a
`Saving`, is `grouped`, and calls ``saving.save``.
"""

from memkit.cli.change import KeywordOption, Saving, TextArgument, repair_verb
from memkit.cli.common import (
    DatesOption,
    FormatsOption,
    HiddenOption,
    HtmlOption,
    JsonOption,
    JsonRowsOption,
    PathArgument,
    Reading,
    RevOption,
    SinceOption,
    grouped,
    load,
)
from memkit.cli.show import print_json, show

__all__ = [
    "DatesOption",
    "FormatsOption",
    "HiddenOption",
    "HtmlOption",
    "JsonOption",
    "JsonRowsOption",
    "KeywordOption",
    "PathArgument",
    "Reading",
    "RevOption",
    "Saving",
    "SinceOption",
    "TextArgument",
    "grouped",
    "load",
    "print_json",
    "repair_verb",
    "show",
]
