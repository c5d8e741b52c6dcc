"""How results look, in a notebook and in a terminal: one `Sheet` a result, drawn as HTML or as text.

`views` declares which columns of which result come first, and says what a memory is called of which only the id is
known; `sheet` makes words of values, without secrets; `draw` lays them out, also where IPython asks.
"""
