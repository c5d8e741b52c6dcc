"""How well dedup tells contradictions from paraphrases and from other things, Russian and English, on labelled pairs.

    python tests/benchmarks/bench_conflicts.py [FOLDER]

Three sets: the pairs below as they are; the same, each text within a section of its own of 800 characters, whose
other sentences hold numbers, dates and negations too; and, from a FOLDER, sets of others (``pairs.parquet``). Printed
is what any difference of the whole texts in numbers, dates and negations flags, and what one in like places does.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd

from memkit.tables.corpus import read
from memkit.tables.samples import sample_data
from memkit.text.conflicts import Conflicts

# = says the same, ! contradicts, / is about something else.
PAIRS = {
    "ru": """
! Аренда квартиры стоит 1200 евро в месяц. | Аренда квартиры стоит 1500 евро в месяц.
! Отпуск начинается в марте. | Отпуск начинается в апреле.
! Анна ест мясо и рыбу. | Анна не ест мясо и рыбу.
! Дежурит по понедельникам с утра. | Дежурит по пятницам с утра.
! Пул держит десять соединений. | Пул держит двадцать соединений.
! Встреча перенесена на 2026-03-10. | Встреча перенесена на 2026-03-17.
! Бориса можно звать на созвоны до обеда. | Бориса нельзя звать на созвоны до обеда.
! Срок хранения копий тридцать дней. | Срок хранения копий четырнадцать дней.
! У Миры две кошки и собака. | У Миры три кошки и собака.
! Порт сервиса поиска 8080. | Порт сервиса поиска 9090.
! Кофе пьёт с сахаром. | Кофе пьёт без сахара.
! Релиз назначен на первое июня. | Релиз назначен на второе июня.
= Аренда стоит 1200 евро в месяц. | За месяц аренды выходит 1200 евро.
= Анна не ест мясо. | Мясо Анна не ест.
= Пул держит десять соединений. | Пул держит 10 соединений.
= Отпуск в марте, две недели. | В марте отпуск на две недели.
= Предпочитает зелёный чай. | Предпочитает зелёный чай с утра.
= Пишет на русском, коротко. | Пишет коротко и на русском.
= Встреча по вторникам в 10:30. | По вторникам встреча в 10:30.
= Живёт в Казани с семьёй. | С семьёй живёт в Казани.
/ Живёт в Казани. | Работает в банке с 2019 года.
/ Любит зелёный чай. | Ездит на работу на велосипеде.
/ Отвечает за отчёты. | Отвечает за поиск, не за отчёты по расходам.
/ Бюджет команды закрыт. | Бюджет на март ещё не согласован, ждут двух подписей.
""",
    "en": """
! The rent is 1200 euros a month. | The rent is 1500 euros a month.
! The holiday starts in March. | The holiday starts in April.
! Anna eats meat and fish. | Anna doesn't eat meat and fish.
! He is on call on Mondays. | He is on call on Fridays.
! The pool holds ten connections. | The pool holds twenty connections.
! The meeting was moved to 2026-03-10. | The meeting was moved to 2026-03-17.
! Boris may be called before lunch. | Boris may not be called before lunch.
! Backups are kept for thirty days. | Backups are kept for fourteen days.
! Mira has two cats and a dog. | Mira has three cats and a dog.
! The search service listens on port 8080. | The search service listens on port 9090.
! Drinks coffee with sugar. | Drinks coffee without sugar.
! The release is due on the first of June. | The release is due on the second of June.
= The rent is 1200 euros a month. | Each month the rent is 1200 euros.
= Anna does not eat meat. | Anna doesn't eat meat.
= The pool holds ten connections. | The pool holds 10 connections.
= Two weeks of holiday in March. | In March, two weeks of holiday.
= Prefers green tea. | Prefers green tea in the morning.
= Writes short texts in English. | Writes in English, short texts.
= Meets on Tuesdays at 10:30. | At 10:30 on Tuesdays meets.
= Lives in Lisbon with her family. | With her family lives in Lisbon.
/ Lives in Lisbon. | Has worked at a bank since 2019.
/ Likes green tea. | Cycles to work whatever the weather.
/ Owns the reports. | Owns the search, not the reports on expenses.
/ The team's budget is closed. | The budget for March is not agreed, two signatures are missing.
""",
}


def pairs(language: str) -> pd.DataFrame:
    """The pairs of a language: label, text_a, text_b."""
    rows = [re.split(r"(?<=^.) | \| ", line) for line in PAIRS[language].strip().splitlines()]
    return pd.DataFrame(rows, columns=["label", "text_a", "text_b"])


def within_sections(short: pd.DataFrame, seed: int = 0, chars: int = 800) -> pd.DataFrame:
    """The same pairs, each text somewhere in a section of sentences of the sample."""
    rng = np.random.default_rng(seed)
    texts = read(sample_data()).memories["text"].to_pylist()
    pieces = {piece.strip() for text in texts for piece in re.split(r"(?<=[.!?])\s|\n+", text)}
    known = sorted(piece for piece in pieces if len(piece) > 20)

    def section(text: str) -> str:
        lines = rng.choice(known, chars // 60).tolist()
        lines.insert(int(rng.integers(len(lines))), text)
        return "\n".join(lines)

    return short.assign(text_a=short["text_a"].map(section), text_b=short["text_b"].map(section))


def report(name: str, some: pd.DataFrame) -> None:
    """Print what each rule flags, and how much of it is a contradiction."""
    conflicts = Conflicts()
    facts, places = conflicts.facts([*some["text_a"], *some["text_b"]]), np.arange(2 * len(some))
    wrong = (some["label"] == "!").to_numpy()
    flagged = {
        "like places": conflicts.between(facts, *np.split(places, 2)).any(axis=1),
        "whole texts": facts.differences(*np.split(places, 2)).any(axis=1),
    }
    for rule, flags in flagged.items():
        is_flagged = np.array(flags)
        right = int((is_flagged & wrong).sum())
        precision = right / is_flagged.sum() if is_flagged.any() else float("nan")
        print(
            f"{name:<22}{rule:<13}{int(is_flagged.sum()):>6} of {len(some):>5} flagged, precision {precision:.2f}, "
            f"recall {right / max(1, wrong.sum()):.2f}"
        )


def main() -> None:
    """Print the sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder
    for language in PAIRS:
        short = pairs(language)
        report(f"{language}, facts", short)
        report(f"{language}, in sections", pd.concat([within_sections(short, seed) for seed in range(20)]))
    for path in sorted(folder.glob("*/pairs.parquet")) if folder else ():
        some = pd.read_parquet(path)
        # Contradictions are named or, in sets of three labels, -1; duplicates without the word contradict nothing.
        kind = some["entailment"] if "entailment" in some else some["label"]
        report(path.parent.name, some.assign(label=np.where(kind.isin(["CONTRADICTION", -1]), "!", "/")))


TINY = ""


if __name__ == "__main__":
    main()
