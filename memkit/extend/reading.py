"""What a format is written with.

``survey(folder)`` finds its files, ``parse(file, rows)`` adds the memories and the problems of one, by the `Rule` that
each breaks. `load_json` and `front_matter` read structures as `Node`; `text_of`, `time_of` and the like read a value
leniently, and give None for what is none. `Head` and `Json` say where a value stands in a text, and a `Splice` replaces
characters of it, so that all others stay.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
