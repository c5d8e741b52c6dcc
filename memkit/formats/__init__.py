"""Files to tables. `reader` reads a folder, `registry` lists the formats, `rules` the checks; a module per format."""
