"""A folder as it was: git and the versions of memories. Imported where ``rev``, ``dates`` or `mk.history` needs it.

`repository` asks the program git safely and follows its commits, `tree` lists a commit like a folder, `history` makes
tables of them and is what `memkit.read` takes, where it is given ``rev`` or ``dates``.
"""
