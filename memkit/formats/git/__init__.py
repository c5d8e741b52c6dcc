"""The objects of a git repository: `repository` asks the program git safely, `tree` lists a revision like a folder."""
