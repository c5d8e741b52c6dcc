"""Labels, metrics, and what may be concluded from them; nothing here trains or changes a corpus.

A floor plan, from the ground up:

- labels: `labels` (queries, judgements, runs, read and checked), `files` (their formats), `known` (made without a
  person or a model);
- asking: `asking` (labelled queries put to a search, each seeing what it may), `metrics` (hits against judgements,
  as arrays), `stages` (what became of what is relevant), `statistics` (what a few users allow to conclude);
- answers: `evaluation` (one search), `compare` (two of them), each a `result`;
- without labels: `audit` (what cannot be found; its tables are made in `unfound`) and `horizon` (until when the rest
  can);
- what is seen: `pictures` (query by query) and `surface` (setting by setting);
- what is kept: `profile` (tuned numbers with their `evidence`) and `pasted` (the same as other systems'
  settings).
"""
