"""What a format is written with.

``survey(folder)`` finds its files, ``parse(file, rows)`` adds the memories and the problems of one, by the `Rule` that
each breaks. `load_json` and `front_matter` read structures as `Node`; `text_of`, `time_of` and the like read a value
leniently, and give None for what is none. `Head` and `Json` say where a value stands in a text, and a `Splice` replaces
characters of it, so that all others stay.
"""

from memkit.base.fences import Heading, fences, headings
from memkit.formats.disk.source import Source, above
from memkit.formats.faults import Rule
from memkit.formats.fields import TIME
from memkit.formats.format import MARKDOWN, SKILL, File, Folder, Format, Survey
from memkit.formats.owner import Owner
from memkit.formats.rows import Row, Rows, extra_of, first_words, json_text, slug_of
from memkit.formats.spelling import END, EXPIRES, TITLES, TYPES, end_by, end_in, plain
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.json import LINES, load_json, load_json_members
from memkit.formats.syntax.node import Node, StructureError
from memkit.formats.syntax.places import Head, Json, Splice, line_end, lines_of, plain_lines, spliced
from memkit.formats.syntax.values import bool_of, integer_of, number_of, states_date, text_of, time_of
from memkit.formats.syntax.write import quoted

__all__ = [
    "END",
    "EXPIRES",
    "LINES",
    "MARKDOWN",
    "SKILL",
    "TIME",
    "TITLES",
    "TYPES",
    "File",
    "Folder",
    "Format",
    "Head",
    "Heading",
    "Json",
    "Node",
    "Owner",
    "Row",
    "Rows",
    "Rule",
    "Source",
    "Splice",
    "StructureError",
    "Survey",
    "above",
    "bool_of",
    "end_by",
    "end_in",
    "extra_of",
    "fences",
    "first_words",
    "front_matter",
    "headings",
    "integer_of",
    "json_text",
    "line_end",
    "lines_of",
    "load_json",
    "load_json_members",
    "number_of",
    "plain",
    "plain_lines",
    "quoted",
    "slug_of",
    "spliced",
    "states_date",
    "text_of",
    "time_of",
]
