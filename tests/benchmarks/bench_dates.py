"""Whether a question that names a time finds what was made then, for each spelling and each day of data/ that has logs.

Usage: python tests/benchmarks/bench_dates.py [DATA]

The share of the first five hits that were made in that time, without and with `read_dates`. Nothing else is asked for,
so this is the easiest such question; what a date is worth among other words, `bench_quality.py` tells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

import memkit as mk
from memkit.base.dates import MONTHS

DATA = Path(__file__).parents[2] / "data"
RUSSIAN, ENGLISH = zip(*((month.russian, month.english) for month in MONTHS), strict=True)
IN = ["январе", "феврале", "марте", "апреле", "мае", "июне"]
IN += ["июле", "августе", "сентябре", "октябре", "ноябре", "декабре"]
LATER = date(2026, 3, 14)

Form = Callable[[date], tuple[str, date]]
FORMS: dict[str, tuple[str, Form]] = {
    "13 января": ("day", lambda d: (f"что было {d.day} {RUSSIAN[d.month - 1]}", LATER)),
    "January 13": ("day", lambda d: (f"what happened on {ENGLISH[d.month - 1]} {d.day}", LATER)),
    "13th of Jan": ("day", lambda d: (f"what happened on the {d.day}th of {ENGLISH[d.month - 1][:3]}", LATER)),
    "2026-01-13": ("day", lambda d: (f"что было {d}", LATER)),
    "13.01.2026": ("day", lambda d: (f"что было {d:%d.%m.%Y}", LATER)),
    "вчера": ("day", lambda d: ("что было вчера", d + timedelta(1))),
    "3 days ago": ("day", lambda d: ("what happened 3 days ago", d + timedelta(3))),
    "last week": ("week", lambda d: ("what happened last week", d + timedelta(7))),
    "на прошлой неделе": ("week", lambda d: ("что решили на прошлой неделе", d + timedelta(7))),
    "в январе": ("month", lambda d: (f"что решили в {IN[d.month - 1]}", LATER)),
}


def is_in_time(unit: str, day: date, other: date | None) -> bool:
    if other is None or unit == "day":
        return other == day
    if unit == "week":
        return other.isocalendar()[:2] == day.isocalendar()[:2]
    return (other.year, other.month) == (day.year, day.month)


def share(search: mk.Retriever, unit: str, form: Form, dates: dict[str, date]) -> float:
    """Of the first five hits, or as many as there are, those made in the time that was asked for; mean over days."""
    shares = []
    for day in sorted(set(dates.values())):
        query, moment = form(day)
        hits = search.search(pa.table({"text": [query], "as_of": [str(moment)]}), k=5)["memory_id"].to_pylist()
        relevant = sum(is_in_time(unit, day, other) for other in dates.values())
        shares.append(sum(is_in_time(unit, day, dates.get(name)) for name in hits) / min(5, relevant))
    return float(np.mean(shares))


def main() -> None:
    corpus = mk.read(sys.argv[1] if len(sys.argv) > 1 else DATA)
    dated = corpus.sql("select memory_id, created_at from memories where kind in ('daily_log', 'session')").fetchall()
    dates = {name: day.date() for name, day in dated if day is not None}
    search = mk.Retriever().fit(corpus)
    print(f"{len(set(dates.values()))} days\n| asked as | as it stands | read as days |\n|---|---|---|")
    for name, (unit, form) in FORMS.items():
        plain, read = (share(search.with_params(read_dates=on), unit, form, dates) for on in (False, True))
        print(f"| {name} | {plain:.2f} | {read:.2f} |")


TINY = ""


if __name__ == "__main__":
    main()
