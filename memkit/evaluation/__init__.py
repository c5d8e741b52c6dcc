"""Labels, metrics and statistics: how well a search answers, and which setting to use. Nothing here changes a corpus.

The rooms, each built on those above it:

- `labels/`: `labels` (queries, judgements and runs, read and checked), `files` (their file formats), `known_items`
  (labels made from a corpus or a log, without a person or a model);
- `scores/`: `batches` (queries put to a search, one user and one moment at a time), `pools` (the candidates of the
  arms: asked once, and handed to all that measures), `metrics` (hits against judgements, as arrays), `stages` (what
  became of the relevant memories), `statistics` (sign-flip tests, intervals and power over few users), `verdict` (one
  of four words with its numbers); `evaluation` of one search, `compare` of two; `result`, the class of all results;
- `settings/`: `grid` (the settings to try), `plans`, `scoring` and `scores` (settings scored over the same
  candidates), `sweep`; `checkpoint` (a long sweep goes on where it stopped), `estimator` (the same for scikit-learn
  and Optuna);
- `tuning/`: `selection` (selective inference: what a choice among many settings may claim), `claims` (the verdict on a
  choice), `baselines`, `tuned` (the result), `tune`; `decisions` (the same for dedup, admission and prompts);
- `audits/`: `audit`, `findability` (what cannot be found) and `horizon` (when decay takes the rest);
- `profiles/`: `profile` with its `evidence`, `source_settings` (a profile as other systems' settings).
"""
