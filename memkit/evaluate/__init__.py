"""Labels, metrics, and what may be concluded from them; nothing here trains or changes a corpus.

A floor plan; each floor stands on those above it:

- **labels**: `labels` (queries, judgements and runs, read and checked), `files` (their formats), `known` (made without
  a person or a model, or from a log);
- **scores**: `asking` (queries put to a search, each seeing what it may), `metrics` (hits against judgements, as
  arrays), `stages` (what became of what is relevant), `statistics` (what a few users allow to conclude);
- **one search, or two**: `evaluation`, `compare`; a `result` is what they and all others return;
- **many settings**: `grid` (what is to be tried), `pools` and `plans` (what the arms found once, and what settings make
  of it), `sweep`;
- **the best of them**: `tuning` (what luck cannot buy), `claims` (the verdict and its sentence), `baselines`, `tuned`
  (all that was found), `tune`; `decisions` (the same for dedup, admission and prompts);
- **without labels**: `audit` and `unfound` (what cannot be found), `horizon` (until when the rest can);
- **what is kept**: `profile` with its `evidence`, `pasted` (the same as other systems' settings);
- **what is seen**: `pictures` (query by query) and `surface` (setting by setting).
"""
