"""A folder as it was: git and the versions of memories. Imported only where `rev`, `dates` or `mk.history` needs it.

`repository` asks the program git safely, `refs` reads its branches, `tree` lists a commit like a folder, `log` follows
commits; `identity` tells which memory is which of another state, `versions` and `history` make tables of it, and
`versions` is what `memkit.read` takes too, where it is given ``rev`` or ``dates``.
"""
