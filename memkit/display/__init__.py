"""How results look, in a notebook and in a terminal: one `Sheet` a result, drawn as HTML or as text.

`views` declares which columns of which result come first; `names` is what a memory is called where its id
alone is known; `sheet` makes words of values, without secrets; `draw` lays
them out; `notebook` tells IPython.
"""
