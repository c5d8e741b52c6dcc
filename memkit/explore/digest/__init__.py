"""What happened in a folder within a span of time, on one page: `memkit.digest`.

`span` finds what was added, changed and forgotten, from git or from dates; `sentences` cuts what is new in it into
sentences; `decisions`, `names`, `boxes` and `contradictions` find one thing each, and `digest` makes the page.
"""
