"""Linked notes: Markdown pages with front matter and links, as in vaults, LLM wikis and knowledge bundles.

`links` finds the links of a text, `page` reads one page, `survey` decides which folders hold such pages, and `format`
is the declaration. Layouts that add to linked notes subclass `Page`.
"""
