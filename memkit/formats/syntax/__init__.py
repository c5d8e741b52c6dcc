"""JSON, YAML, front matter, Markdown and scalars: text to plain objects that know their lines."""
