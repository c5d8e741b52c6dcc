"""What happened in a folder within a span of time, on one page: `memkit.digest`.

`span` finds what was added, changed and forgotten, from git or from dates, and cuts what is new in it into sentences;
`decisions` says what was decided and what is left open, `names` who is new, and `digest` makes the page.
"""
