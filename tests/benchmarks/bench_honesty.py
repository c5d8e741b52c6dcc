"""How often the verdict claims a difference that is none, and how often it finds one that is there.

    python tests/benchmarks/bench_honesty.py [--runs 1000]

Synthetic differences of users who ask several queries each. A claim is the word better or worse where the true mean is
0; of 1,000 runs at a nominal 5 % at most 73 may claim, which 99.9 % of exact tests keep to (35 of 400). Beside it what
tests over queries claim on the same numbers: the habit that this avoids. Power is at the true difference that
`detectable` promises to find four times in five.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from memkit.evaluate.statistics import BETTER, WORSE, Units, verdict


@dataclass(frozen=True)
class Cell:
    """One kind of data.

    Attributes
    ----------
    users, queries : int
        Queries is the mean number a user; uneven users have from 1 to many.
    between : float
        Share of the variance that lies between users.
    shape : {'normal', 'skewed', 'sparse'}
        Of the differences; most of the sparse ones are 0, as where a change touches few queries.
    """

    users: int
    queries: int
    between: float
    shape: str = "normal"
    uneven: bool = False

    def draw(self, random: np.random.Generator, gain: float) -> tuple[np.ndarray, np.ndarray]:
        """Differences of variance 1 and mean `gain`, and the user of each."""
        sizes = np.full(self.users, self.queries)
        if self.uneven:
            sizes = np.maximum(1, random.geometric(1 / self.queries, self.users))
        user = np.repeat(np.arange(self.users), sizes)
        noise = {
            "normal": lambda n: random.normal(0, 1, n),
            "skewed": lambda n: random.exponential(1, n) - 1,
            "sparse": lambda n: random.choice([-1.0, 1.0], n) * (random.random(n) < 0.1) / np.sqrt(0.1),
        }[self.shape](len(user))
        own = random.normal(0, 1, self.users)[user]
        return np.sqrt(1 - self.between) * noise + np.sqrt(self.between) * own + gain, user

    def gain(self) -> float:
        """The true difference that even users show four times in five."""
        error = np.sqrt((self.between + (1 - self.between) / self.queries) / self.users)
        return float(error * (stats.t.ppf(0.975, self.users - 1) + stats.t.ppf(0.8, self.users - 1)))


CELLS = (
    Cell(6, 20, 0.1),
    Cell(8, 10, 0.0),
    Cell(12, 10, 0.1, "skewed"),
    Cell(16, 10, 0.1, uneven=True),
    Cell(20, 5, 0.1),
    Cell(20, 5, 0.1, "sparse", uneven=True),
    Cell(50, 4, 0.1),
    Cell(50, 4, 0.1, "skewed", uneven=True),
    Cell(100, 4, 0.1, "sparse"),
)


def words(cell: Cell, runs: int, gain: float, seed: int, per_query: bool) -> Iterator[tuple[str, bool]]:
    """The word of each run, and whether a t test over queries claims a difference."""
    random = np.random.default_rng(seed)
    for _ in range(runs):
        scores, user = cell.draw(random, gain)
        p = stats.ttest_1samp(scores, 0).pvalue
        yield verdict(Units.of(scores, user, per_query), epsilon=0.0).word, bool(p < 0.05)


def claims(cell: Cell, runs: int, seed: int = 0, per_query: bool = True) -> tuple[int, int]:
    """How many of the runs without a difference claim one: the verdict, and the t test over queries."""
    found = list(words(cell, runs, 0.0, seed, per_query))
    return sum(word in (BETTER, WORSE) for word, _ in found), sum(habit for _, habit in found)


def most(runs: int) -> int:
    """False claims that 99.9 % of exact tests at 5 % keep to."""
    return int(stats.binom.ppf(0.999, runs, 0.05))


def power(cell: Cell, runs: int, seed: int = 1) -> float:
    """The share of the runs with a true gain that say better."""
    return sum(word == BETTER for word, _ in words(cell, runs, cell.gain(), seed, True)) / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print(f"{runs} runs a cell, seeds 0 and 1; at most {most(runs)} false claims\n")
    print("| users | queries each | between users | differences | per query | per user | t over queries | power |")
    print("|---|---|---|---|---|---|---|---|")
    for cell in CELLS:
        by_query, habit = claims(cell, runs)
        by_user, _ = claims(cell, runs, per_query=False)
        queries = f"{cell.queries}{', uneven' if cell.uneven else ''}"
        row = (cell.users, queries, cell.between, cell.shape, by_query, by_user, habit, f"{power(cell, runs):.2f}")
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
