"""Linked notes: Markdown pages with front matter and links, as in vaults, LLM wikis and knowledge bundles.

`links` finds the links of a text, `page` reads one page, and `layout` decides which folders hold such pages, and is
the declaration. Layouts that add to linked notes subclass `Page`.
"""
