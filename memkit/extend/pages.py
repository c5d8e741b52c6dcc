"""What a layout of linked Markdown is written with: a subclass of `Page`, which says what its pages add, and `layout`.

`layout` declares the rules, tables and links that all such layouts share. A page is cut into a `Section` a heading, and
its links are `Link`.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
