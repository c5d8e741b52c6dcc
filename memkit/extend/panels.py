"""What a panel is written with: a subclass of `Panel`, which answers a `State` and says how the answer looks.

``declared`` has its parameters, which become controls; ``_answer(state)`` works out what is shown, ``_picture``,
``_body`` and ``_status`` show it, and ``_code`` is the call that gives the same. Panels of one `Session` move together.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
