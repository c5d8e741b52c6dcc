"""Linked notes: how low contents pages should rank, and what titles above sections are worth, by questions to pages.

    python tests/benchmarks/bench_linked.py [FOLDER QUESTIONS.csv [words]]
    python tests/benchmarks/bench_linked.py wikis

The second form asks the invented wikis of `wikis.py` by words and letters: what it is worth that targets of links count
for nothing. Without arguments the samples of data/layouts are asked. A question's answer is a page: rows of the CSV are
layout (the folder below FOLDER), question, path. With ``words`` no encoder is used. Figures are in RESULTS.md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from wikis import WIKIS, questions_of

import memkit as mk
from memkit.text.boilerplate import BOILERPLATE

LAYOUTS = Path(__file__).parents[2] / "data" / "layouts"
WEIGHTS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3)
LISTS = ("index", "log")
ENCODER = {"encoder": None} if "words" in sys.argv[3:] else {}


def hits_of(folder: Path, rows: list[dict[str, str]], **settings: object) -> pa.Table:
    search = mk.Retriever(**{"unit": "file"} | ENCODER | settings).fit(mk.read(folder))  # type: ignore[arg-type]  # by name
    return search.search([row["question"] for row in rows], k=5, columns=("path", "kind"))


def scores(answered: Iterable[tuple[list[dict[str, str]], pa.Table]]) -> tuple[float, float, float, float, float]:
    """hit@1, hit@5 and MRR of pages; MRR of those that only a list answers; share of lists in the first five."""
    ranks, of_lists, kinds = [], [], []
    for rows, hits in answered:
        for number, row in enumerate(rows):
            paths = [hit for hit in hits.to_pylist() if hit["query_id"] == str(number)]
            rank = next((place for place, hit in enumerate(paths, 1) if hit["path"] == row["path"]), 0)
            (of_lists if Path(row["path"]).stem in LISTS else ranks).append(1 / rank if rank else 0.0)
            kinds += [hit["kind"] in LISTS for hit in paths]
    count = len(ranks) or 1
    return (
        sum(value == 1 for value in ranks) / count,
        sum(value > 0 for value in ranks) / count,
        sum(ranks) / count,
        sum(of_lists) / (len(of_lists) or 1),
        sum(kinds) / (len(kinds) or 1),
    )


def main(root: Path, questions: Path) -> None:
    with questions.open(encoding="utf-8") as file:
        every_question = list(csv.DictReader(file))
    folders = {
        name: [row for row in every_question if row["layout"] == name]
        for name in dict.fromkeys(r["layout"] for r in every_question)
    }
    print("weight of lists | hit@1 | hit@5 | MRR | MRR of lists | lists in the first five")
    for weight in WEIGHTS:
        settings = {"kind_weights": dict.fromkeys(LISTS, weight)}
        answered = [(rows, hits_of(root / name, rows, **settings)) for name, rows in folders.items()]
        print(f"{weight} | " + " | ".join(f"{value:.3f}" for value in scores(answered)))
    columns = tuple(name for name in mk.Index.params()["searched"].stands_for if name != "heading_path")
    answered = [(rows, hits_of(root / name, rows, index__searched=columns)) for name, rows in folders.items()]
    print("nothing above sections | " + " | ".join(f"{value:.3f}" for value in scores(answered)))


def over_wikis() -> None:
    """hit@1 and MRR of the pages by the kind of question, with and without the targets of links in what is searched."""
    with_targets = tuple(one.pattern for one in BOILERPLATE if not one.rest)
    for name in WIKIS:
        with TemporaryDirectory() as folder:
            questions = questions_of(Path(folder), name)
            for label, settings in {"with targets": {"index__boilerplate": with_targets}, "as it is": {}}.items():
                cells = []
                for kind in dict.fromkeys(row["kind"] for row in questions):
                    rows = [row for row in questions if row["kind"] == kind]
                    first, _, mrr, *_ = scores([(rows, hits_of(Path(folder), rows, encoder=None, **settings))])
                    cells.append(f"{kind} {first:.3f}, {mrr:.3f}")
                print(f"{name}, {label} | " + " | ".join(cells))


BY_HAND = "it takes minutes, and has no smaller size"


if __name__ == "__main__":
    if sys.argv[1:] == ["wikis"]:
        over_wikis()
        sys.exit()
    main(*(Path(argument) for argument in sys.argv[1:3]) if len(sys.argv) > 2 else (LAYOUTS, LAYOUTS / "questions.csv"))
