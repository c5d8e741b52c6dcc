"""Labels, metrics, and what may be concluded from them; nothing here trains or changes a corpus.

A floor plan; each floor stands on those above it:

- `labels/`: `labels` (queries, judgements and runs, read and checked), `files` (their formats), `known` (made without
  a person or a model, or from a log);
- `scores/`: `asking` (queries put to a search, each seeing what it may), `pools` (what its arms found: asked once, and
  handed to all that measures), `metrics` (hits against judgements, as arrays), `stages` (what became of what is
  relevant), `statistics` (what a few users allow to conclude), `verdict` (that, in four words and a sentence);
  `evaluation` of one search, `compare` of two; a `result` is what they and all others return;
- `settings/`: `grid` (what is to be tried), `scores`, `plans` and `scoring` (what settings make of what the arms found
  once), `sweep`; `pieces` (a long sweep goes on where it stopped), `estimator` (the same for scikit-learn and Optuna);
- `tuning/`: `luck` (what a choice among many may claim), `claims` (the verdict on a choice), `baselines`, `tuned`
  (all that was found), `tune`; `decisions` (the same for dedup, admission and prompts);
- `audits/`: `audit` and `unfound` (what cannot be found), `horizon` (until when the rest can);
- `profiles/`: `profile` with its `evidence`, `pasted` (the same as other systems' settings);
- `pictures`: what was measured, query by query.
"""
