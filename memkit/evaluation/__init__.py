"""Labels, metrics and statistics: how well a search answers, and which setting to use. Nothing here changes a corpus.

Each row of modules builds on those above it:

- `labels` (queries, judgements and runs, read and checked; their files), `known_items` (labels made from a corpus or a
  log, without a person or a model);
- `metrics` (labelled queries put to a search, one user and one moment at a time; the candidates of the arms are asked
  for once, and handed to all that measures; hits against judgements, as arrays), `statistics` (sign-flip tests,
  intervals and power over few users, and what a choice among many settings may claim), `result` (the class of all
  results, and the verdict, one of four words with its numbers);
- `evaluation` of one search, `compare` of two, and baselines;
- `scores` (the settings to try, scored over the same candidates, and the file from which a long sweep goes on where it
  stopped), `sweep` (and the same for scikit-learn and Optuna);
- `profile` (settings under a name, with their evidence);
- `tune`, beside it `memkit.labels` (tables for dedup, admission and prompts, which its ``tune_scores`` takes);
- `findability` (what cannot be found, and when decay takes the rest), `audit`.
"""
