"""How often the verdict claims a difference that is none, and how often it finds one that is there.

    python tests/benchmarks/bench_honesty.py [--runs 1000]

Synthetic differences of users who ask several queries each. A claim is the word better or worse where the true mean is
0; of 1,000 runs at a nominal 5 % at most 73 may claim, which 99.9 % of exact tests keep to (35 of 400). Beside it what
tests over queries claim on the same numbers: the habit that this avoids. Power is at the true difference that
`detectable` promises to find four times in five.

Then the same of the best of a grid whose neighbours score alike. A claim is what `mk.tune` says, with whole users
flipped and the choice made anew in each flip; the habit is the winner's own t test over queries, one-sided at 2.5 %.
For power a third of the settings have the gain. Apparent is by how much the best of a flat grid looks better than the
default, expected what the resampled estimate makes of that; the truth is 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from memkit.evaluation.result import BETTER, WORSE, claim, verdict
from memkit.evaluation.statistics import Contest, Units


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
        user = self.user_of_queries(random)
        return self.noise(random, user) + gain, user

    def user_of_queries(self, random: np.random.Generator) -> np.ndarray:
        """The user of each query."""
        sizes = np.full(self.users, self.queries)
        if self.uneven:
            sizes = np.maximum(1, random.geometric(1 / self.queries, self.users))
        return np.repeat(np.arange(self.users), sizes)

    def noise(self, random: np.random.Generator, user: np.ndarray) -> np.ndarray:
        """Differences of variance 1 and mean 0."""
        noise = {
            "normal": lambda n: random.normal(0, 1, n),
            "skewed": lambda n: random.exponential(1, n) - 1,
            "sparse": lambda n: random.choice([-1.0, 1.0], n) * (random.random(n) < 0.1) / np.sqrt(0.1),
        }[self.shape](len(user))
        of_user = random.normal(0, 1, self.users)[user]
        mixed: np.ndarray = np.sqrt(1 - self.between) * noise + np.sqrt(self.between) * of_user
        return mixed

    def gain(self) -> float:
        """The true difference that even users show four times in five."""
        error = np.sqrt((self.between + (1 - self.between) / self.queries) / self.users)
        return float(error * special.stdtrit(self.users - 1, [0.975, 0.8]).sum())


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


def t_test_p(scores: np.ndarray, *, greater: bool = False) -> float:
    """The p of a t test of the mean, two-sided or of a gain; that of SciPy takes as long as the verdict."""
    t = scores.mean() / (scores.std(ddof=1) / np.sqrt(len(scores)))
    return float(special.stdtr(len(scores) - 1, -t) if greater else 2 * special.stdtr(len(scores) - 1, -abs(t)))


def words(cell: Cell, runs: int, gain: float, seed: int, per_query: bool) -> Iterator[tuple[str, bool]]:
    """The word of each run, and whether a t test over queries claims a difference."""
    random = np.random.default_rng(seed)
    for _ in range(runs):
        scores, user = cell.draw(random, gain)
        yield verdict(Units.from_scores(scores, user, per_query), epsilon=0.0).word, t_test_p(scores) < 0.05


def claims(cell: Cell, runs: int, seed: int = 0, per_query: bool = True) -> tuple[int, int]:
    """How many of the runs without a difference claim one: the verdict, and the t test over queries."""
    verdicts = list(words(cell, runs, 0.0, seed, per_query))
    return sum(word in (BETTER, WORSE) for word, _ in verdicts), sum(habit for _, habit in verdicts)


def most(runs: int) -> int:
    """False claims that 99.9 % of exact tests at 5 % keep to."""
    return int(np.argmax(special.bdtr(np.arange(runs + 1), runs, 0.05) >= 0.999))


def power(cell: Cell, runs: int, seed: int = 1) -> float:
    """The share of the runs with a true gain that say better."""
    return sum(word == BETTER for word, _ in words(cell, runs, cell.gain(), seed, True)) / runs


@dataclass(frozen=True)
class Run:
    """What one grid gave: the word of `mk.tune`, the p of the habit, and both estimates of the gain."""

    word: str
    habit: float
    apparent: float
    expected: float


def grids(cell: Cell, runs: int, gain: float = 0.0, settings: int = 24, reach: float = 2.0, seed: int = 2) -> list[Run]:
    """Grids of settings whose scores are alike the more the nearer they are; the last third of them has the gain."""
    random, place = np.random.default_rng(seed), np.arange(settings)
    mix = np.linalg.cholesky(np.exp(-np.abs(place[:, None] - place) / reach))
    outcomes = []
    for _ in range(runs):
        user = cell.user_of_queries(random)
        scores = mix @ np.array([cell.noise(random, user) for _ in place])
        scores[settings - settings // 3 :] += gain
        contest = Contest.from_scores(np.vstack([np.zeros(len(user)), scores]), user)
        conclusion, _ = claim(contest, 0.0, 0, {"metric": "score", "unit": "user", "estimate": "per query", "looks": 1})
        habit = t_test_p(contest.gain[contest.best], greater=True)
        outcomes.append(Run(conclusion.word, habit, conclusion.apparent, conclusion.gain or 0.0))
    return outcomes


def grid_claims(runs: list[Run]) -> tuple[int, int]:
    """How many grids claim a difference: `mk.tune` better or worse, and the habit."""
    return sum(run.word in (BETTER, WORSE) for run in runs), sum(run.habit <= 0.025 for run in runs)


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
    print("\n| users | queries each | between users | differences | tuned | winner's t | power | apparent | expected |")
    print("|---|---|---|---|---|---|---|---|---|")
    for cell in CELLS:
        flat, planted = grids(cell, runs), grids(cell, runs, cell.gain(), seed=3)
        ours, habit = grid_claims(flat)
        found_share = np.mean([run.word == BETTER for run in planted])
        gains = [f"{np.mean([getattr(run, name) for run in flat]):+.3f}" for name in ("apparent", "expected")]
        queries = f"{cell.queries}{', uneven' if cell.uneven else ''}"
        row = (cell.users, queries, cell.between, cell.shape, ours, habit, f"{found_share:.2f}", *gains)
        print(f"| {' | '.join(map(str, row))} |", flush=True)


TINY = "--runs 2"


if __name__ == "__main__":
    main()
