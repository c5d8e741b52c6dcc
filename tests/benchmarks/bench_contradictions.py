"""How many of the contradictions that memkit shows a person would call so, and how many it does not see.

    python tests/benchmarks/bench_contradictions.py --draw DRAWN.csv
    python tests/benchmarks/bench_contradictions.py [FOLDER]

`contradictions_judged.csv` holds pairs of statements of the sample, read and judged by hand: all that `contradictions`
lists, and statements of two days that are alike and that dedup would not merge because of a conflict, drawn with a
fixed seed to 100 in all (``--draw`` draws them again, without a judgement). Printed is how many of the listed ones were
judged to be contradictions, and how many of all judged contradictions are listed. A FOLDER has `sick` and `xnli_ru`,
pairs of sentences that contradict each other, follow from each other, or do neither.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import bench_conflicts
import bench_quality
import pandas as pd

import memkit as mk
from memkit.policy.contradictions import contradictions
from memkit.tables.corpus import Corpus, read
from memkit.text.contradictions import KINDS, contradiction
from memkit.text.statements import Reader

DATA = Path(__file__).parents[2] / "data"
JUDGED = Path(__file__).with_name("contradictions_judged.csv")
LABELS = {"-1": "CONTRADICTION", "0": "NEUTRAL", "1": "ENTAILMENT"}
AS_OF, N, SEED = "2026-03-01", 100, 0
COLUMNS = ["older_id", "newer_id", "older_text", "newer_text"]


def listed(corpus: Corpus) -> pd.DataFrame:
    """The statements that `contradictions` lists, and their memories."""
    table = contradictions(corpus, AS_OF).to_pandas()
    return table.rename(columns={"memory_id": "older_id", "by_id": "newer_id"})[COLUMNS].drop_duplicates()


def blocked(corpus: Corpus) -> pd.DataFrame:
    """Statements of two days that are alike, and that dedup would not merge because of a conflict, the older first."""
    rows = (
        corpus.sql(
            "select memory_id, user_id, text, coalesce(updated_at, created_at) as created_at from memories"
            " where created_at is not null and kind not in ('heartbeat', 'quarantined') order by memory_id"
        )
        .to_arrow_table()
        .to_pandas()
    )
    rows["text"] = [[one.text for one in some] for some in Reader().read(rows["text"].tolist())]
    rows = rows.explode("text").dropna(subset=["text"]).reset_index(drop=True)
    by_id = rows.assign(memory_id=[f"{place:05}" for place in rows.index])
    pairs = mk.Deduplicator(floor=0.6, lexical_floor=0.5).fit(mk.from_table(by_id)).pairs_.to_pandas()
    pairs = pairs[pairs["contradiction"]].drop_duplicates(["a_id", "b_id"])
    places = pairs[["a_id", "b_id"]].astype(int).to_numpy()
    days = rows["created_at"].dt.date
    both = [sorted(pair, key=days.__getitem__) for pair in places if days[pair[0]] != days[pair[1]]]
    sides = (rows.loc[list(side), ["memory_id", "text"]].reset_index(drop=True) for side in zip(*both, strict=True))
    return pd.concat(sides, axis=1).set_axis(["older_id", "older_text", "newer_id", "newer_text"], axis=1)[COLUMNS]


def draw(corpus: Corpus) -> pd.DataFrame:
    """The pairs to judge."""
    known, candidates = listed(corpus), blocked(corpus)
    print(f"{len(known)} listed, {len(candidates)} blocked")
    both = candidates.merge(known, how="left", indicator=True)
    unlisted = both[both["_merge"] == "left_only"][COLUMNS].drop_duplicates(["older_text", "newer_text"])
    unlisted = unlisted.sort_values(COLUMNS).sample(N - len(known), random_state=SEED)
    return pd.concat([known.assign(drawn="listed"), unlisted.assign(drawn="blocked")]).assign(contradiction="")


def judged(corpus: Corpus) -> None:
    """Print how the judged pairs agree with what is listed now."""
    rows = pd.read_csv(JUDGED)
    now = set(map(tuple, listed(corpus).to_numpy()))
    is_listed = rows[COLUMNS].apply(tuple, axis=1).isin(now)
    is_one = rows["contradiction"] == "yes"
    of_blocked = rows["drawn"] == "blocked"
    print(
        f"data: {int(is_listed.sum())} of {len(now)} listed pairs are judged, {int((is_listed & is_one).sum())} right"
    )
    print(f"data: of {int(is_one.sum())} judged contradictions {int((is_listed & is_one).sum())} are listed")
    print(f"data: of {int(of_blocked.sum())} drawn blocked pairs {int((of_blocked & is_one).sum())} are contradictions")


def sentences(folder: Path, name: str) -> None:
    """Print precision and recall on labelled pairs of sentences, by kind."""
    pairs = pd.read_parquet(folder / name / "pairs.parquet")
    label = pairs["entailment"] if name == "sick" else pairs["label"].astype(int).astype(str).map(LABELS)
    start, kinds = time.process_time(), []
    reader = Reader()
    firsts, seconds = reader.read(pairs["text_a"].tolist()), reader.read(pairs["text_b"].tolist())
    for first, second in zip(firsts, seconds, strict=True):
        of_pair = [how.kind for one in first for other in second if (how := contradiction(one, other)) is not None]
        kinds.append(of_pair[0] if of_pair else "")
    took = time.process_time() - start
    flagged, wrong = pd.Series(kinds, index=pairs.index), label == "CONTRADICTION"
    for kind in (*KINDS, "any"):
        some = flagged != "" if kind == "any" else flagged == kind
        right = int((some & wrong).sum())
        share = f"{right / some.sum():.2f}" if some.any() else "-"
        print(f"{name:<8}{kind:<9}{int(some.sum()):>5} shown, precision {share}, recall {right / wrong.sum():.3f}")
    print(f"{name}: {1e6 * took / len(pairs):.0f} us a pair")


def invented(language: str) -> None:
    """Print precision and recall on the pairs of `bench_conflicts`."""
    pairs = bench_conflicts.pairs(language)
    both = zip(Reader().read(pairs["text_a"].tolist()), Reader().read(pairs["text_b"].tolist()), strict=True)
    shown = pd.Series([any(contradiction(a, b) for a in first for b in second) for first, second in both])
    wrong = pairs["label"] == "!"
    print(f"made, {language}: {int(shown.sum())} shown, {int((shown & wrong).sum())} of {int(wrong.sum())} right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--draw", type=Path)
    args = parser.parse_args()
    print(bench_quality.measured_on())
    corpus = read(DATA)
    if args.draw:
        draw(corpus).to_csv(args.draw, index=False)
        return
    judged(corpus)
    for language in bench_conflicts.PAIRS:
        invented(language)
    for name in ("sick", "xnli_ru") if args.folder else ():
        sentences(args.folder, name)


TINY = ""


if __name__ == "__main__":
    main()
