"""Superseded statements in the first hits: `stale@k`, on pairs of update made here, among the memories of `data/`.

    python tests/benchmarks/bench_stale.py [--folder BENCH --limit 120]

A pair is a statement, a later one that replaces it, and a question about what holds now. ``stale@1``: the share of
questions of which the older one ranks first of the two. ``stale@5``: the share of superseded ones among what the first
five hits hold of the pair. "cosine" ranks by vectors alone. The rules are those of `prefer`, by how alike two hits
have to be. With --folder they are put to all questions of labelled sets, and to those alone that ask for what holds
now.

Last, the factor of what its author marked as stale: with each older statement stale, beside the newer one and alone;
and with every other answer of labelled sets stale, which costs what a mark costs that says nothing.
"""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import bench_labels
import bench_quality
import numpy as np
import pyarrow as pa

import memkit as mk
from memkit.schemas import STALE_WEIGHT
from memkit.search.fitted import index
from memkit.tables.corpus import Corpus

OLD, NEW, ASKED = "2026-01-12", "2026-05-20", "2026-06-15"
SUBJECTS = {
    "en": (
        ("default model", "Alder-2", "Birch-3"),
        ("meeting room for the retro", "Oak", "Willow"),
        ("deploy day", "Tuesday", "Thursday"),
        ("owner of the billing service", "Marta", "Denis"),
        ("password manager", "Keyholm", "Lockbay"),
        ("staging server", "larch", "rowan"),
        ("office address", "Mill Street", "Harbour Road"),
        ("linter", "strictly", "tidyline"),
        ("dentist", "Dr Lund", "Dr Mora"),
        ("gym", "Northside", "Ironworks"),
        ("message queue", "Heron", "Kite"),
        ("favourite tea", "oolong", "rooibos"),
    ),
    "ru": (
        ("модель по умолчанию", "Ольха-2", "Берёза-3"),
        ("комната для ретро", "Дуб", "Ива"),
        ("день релиза", "вторник", "четверг"),
        ("ответственный за счета", "Марта", "Денис"),
        ("менеджер паролей", "Хранитель", "Ларец"),
        ("тестовый сервер", "листвен", "рябин"),
        ("адрес офиса", "улица Мельничная", "Портовая дорога"),
        ("линтер", "строгий", "опрятный"),
        ("стоматолог", "доктор Лунд", "доктор Мора"),
        ("спортзал", "Северный", "Цех"),
        ("очередь сообщений", "Цапля", "Коршун"),
        ("любимый чай", "улун", "ройбуш"),
    ),
}
STATED = {
    "en": (
        ("The {0} is {1}.", "The {0} is {2}."),
        ("The {0} is {1}. All new projects use the {0} {1}.", "Decision: switched the {0} to {2}."),
        ("We chose {1} as the {0}.", "From now on it is {2} and not {1}: the {0} has changed."),
    ),
    "ru": (
        ("{0}: {1}.", "{0}: {2}."),
        ("{0}: {1}. Во всех новых проектах {0}: {1}.", "Решение: перешли на {2} ({0})."),
        ("Выбрали: {1} ({0}).", "Теперь {2}, а не {1}: {0} другой."),
    ),
}
QUESTIONS = {
    "en": ("what is the {0} now", "current {0}"),
    "ru": ("{0} сейчас", "какой сейчас {0}"),
}
RULES: dict[str, Rule] = {"no rule": {}, "prefer='newest'": {"prefer": "newest"}}
SAYS_NOW = re.compile(
    r"\b(now|current(ly)?|latest|nowadays|сейчас|теперь|последн\w+|актуальн\w+|нынешн\w+)\b", re.IGNORECASE
)


def pairs() -> tuple[pa.Table, list[tuple[str, str, str]]]:
    """The statements, and the questions with the ids of the older and the newer statement."""
    rows, questions = [], []
    for language, subjects in SUBJECTS.items():
        for (number, subject), (form, stated) in product(enumerate(subjects), enumerate(STATED[language])):
            if number % len(STATED[language]) != form:
                continue
            name = f"{language}-{number}"
            for age, text, day in (("old", stated[0], OLD), ("new", stated[1], NEW)):
                text = text.format(*subject)
                rows.append({"memory_id": f"{name}-{age}", "text": text[:1].upper() + text[1:], "created_at": day})
            questions += [(template.format(*subject), f"{name}-old", f"{name}-new") for template in QUESTIONS[language]]
    return pa.Table.from_pylist(rows), questions


Rule = dict[str, Any]


def order(search: mk.Retriever, text: str, rule: Rule, k: int, **scope: Any) -> list[str]:
    """The ids of the first hits, under the parameters of a rule."""
    hits: list[str] = search.with_params(**rule).search(text, k=k, **scope)["memory_id"].to_pylist()
    return hits


def stale(search: mk.Retriever, questions: list[tuple[str, str, str]], rule: Rule) -> tuple[float, float]:
    first, shares = [], []
    for text, old, new in questions:
        hits = order(search, text, rule, 10, as_of=ASKED)
        places = [hits.index(name) if name in hits else len(hits) for name in (old, new)]
        first.append(places[0] < places[1])
        held = [name for name in hits[:5] if name in (old, new)]
        shares += [name == old for name in held]
    return float(np.mean(first)), float(np.mean(shares))


def weights(statements: pa.Table, questions: list[tuple[str, str, str]], other_rows: list[dict[str, Any]]) -> None:
    """The factor of what is stale: what it gains where a later statement is there, and costs where there is none."""
    until = [*["2026-06-01"] * statements.num_rows, *[None] * len(other_rows)]
    statement_ids, everything = statements["memory_id"].to_pylist(), [*statements.to_pylist(), *other_rows]
    for row, day in zip(everything, until, strict=True):
        row["stale_at"] = day if row["memory_id"].endswith("-old") and row["memory_id"] in statement_ids else None
    both = mk.Retriever().fit(mk.from_table(pa.Table.from_pylist(everything)))
    alone = mk.Retriever().fit(
        mk.from_table(pa.Table.from_pylist([row for row in everything if not row["memory_id"].endswith("-new")]))
    )
    for weight in (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.3):
        index.STALE_WEIGHT = weight
        one, five = stale(both, questions, {})
        orders = [order(alone, text, {}, 5, as_of=ASKED) for text, _, _ in questions]
        first = np.mean([bool(hits) and hits[0] == old for hits, (_, old, _) in zip(orders, questions, strict=True)])
        fifth = np.mean([old in hits for hits, (_, old, _) in zip(orders, questions, strict=True)])
        words = f"stale@1 {one:.2f}, stale@5 {five:.2f}; alone hit@1 {first:.2f}, hit@5 {fifth:.2f}"
        print(f"stale counts {weight:g}: {words}", flush=True)


def stale_of(labelled: bench_quality.Labelled) -> Corpus:
    """The memories of a labelled set, of which every other one that answers is stale."""
    answers = sorted({name for wanted in labelled.relevant.values() for name, grade in wanted.items() if grade > 0})
    chosen = set(answers[::2])
    days = [
        datetime(2026, 6, 1, tzinfo=UTC) if name in chosen else None
        for name in labelled.memories["memory_id"].to_pylist()
    ]
    place = labelled.memories.schema.get_field_index("stale_at")
    field = labelled.memories.schema.field(place)
    return Corpus({"memories": labelled.memories.set_column(place, field, pa.array(days, field.type))})


def ndcg(search: mk.Retriever, labelled: bench_quality.Labelled, rule: Rule) -> list[float]:
    """Of each question."""
    values = []
    for query in labelled.queries:
        wanted = labelled.relevant[query["id"]]
        hits = order(search, query["text"], rule, 10, as_of="2026-11-01")
        gains = [2.0 ** wanted.get(name, 0) - 1 for name in hits]
        best = sorted((2.0**grade - 1 for grade in wanted.values()), reverse=True)[:10]
        discounts = 1 / np.log2(np.arange(2, 12))
        values.append(float(gains @ discounts[: len(gains)] / (best @ discounts[: len(best)])))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--limit", type=int, default=120)
    options = parser.parse_args()
    print(bench_quality.measured_on())
    statements, questions = pairs()
    other_rows = mk.read(bench_labels.DATA).memories.select(["memory_id", "text", "created_at"]).to_pylist()
    corpus = mk.from_table(
        pa.Table.from_pylist(
            [*statements.to_pylist(), *({**row, "created_at": str(row["created_at"])} for row in other_rows)]
        )
    )
    settings = {"default": {}, "cosine": {"bm25_weight": 0.0, "gram_weight": 0.0, "vector_weight": 1.0}}
    settings |= {"words": {"vector_weight": 0.0}, "all kinds decay": {"decay_kinds": "*"}}
    for name, values in settings.items():
        search = mk.Retriever(**values).fit(corpus)
        for rule in RULES if name in ("default", "cosine") else ("no rule",):
            one, five = stale(search, questions, RULES[rule])
            print(f"{name}, {rule}: stale@1 {one:.2f}, stale@5 {five:.2f}", flush=True)
    weights(statements, questions, [{**row, "created_at": str(row["created_at"])} for row in other_rows])
    if options.folder:
        for name in ("locomo_obs", "madial_en", "rumeddanet_ru", "se_meta_dups"):
            labelled = bench_quality.read_set(options.folder / name, options.folder / name, options.limit)
            search = mk.Retriever(decay="none").fit(stale_of(labelled))
            for weight in (1.0, 0.9, 0.8, 0.7, 0.5):
                index.STALE_WEIGHT = weight
                value = np.mean(ndcg(search, labelled, {}))
                print(f"{name}, half of the answers stale, counting {weight:g}: nDCG@10 {value:.3f}", flush=True)
        index.STALE_WEIGHT = STALE_WEIGHT
        for name in ("locomo", "locomo_obs", "madial_en", "realmem"):
            labelled = bench_quality.read_set(options.folder / name, options.folder / name, options.limit)
            search = mk.Retriever(decay="none").fit(Corpus({"memories": labelled.memories}))
            says_now = np.array([bool(SAYS_NOW.search(query["text"])) for query in labelled.queries])
            print(f"{name}, nDCG@10 of {len(says_now)} questions and of the {says_now.sum()} that ask for now")
            for name, rule in RULES.items():
                values = np.array(ndcg(search, labelled, rule))
                now = f"{values[says_now].mean():.3f}" if says_now.any() else "none"
                print(f"    {name}: {values.mean():.3f}, {now}", flush=True)


TINY = ""


if __name__ == "__main__":
    main()
