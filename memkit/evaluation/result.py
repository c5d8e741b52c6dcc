"""The base of all results, a table with its companions, pictures and a report; and the verdict, one of four words with
its numbers: on two searches, on a choice among settings, and guards.

`verdict` is for settings that were fixed beforehand, `claim` for one that was chosen on the labels it is tested on.
`Looks` counts how often labels were looked at, since each look weakens the next verdict.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from memkit import plot
from memkit.base.checked import json_object
from memkit.display.draw import Shown, Tabular, write_page
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import FormatError, ParameterError, count_of
from memkit.evaluation.statistics import (
    FEWEST,
    RESAMPLES,
    Contest,
    Retuned,
    Units,
    detectable_effect,
    detectable_effect_floor,
    detectable_effect_for,
    expected_gain,
    interval,
    n_flips,
    retune,
    sign_flip_p,
    units_needed,
)
from memkit.plot import Picture
from memkit.schemas import Floats, result_schema

BETTER, WORSE, SAME, OPEN = "better", "worse", "practically the same", "cannot tell yet"
LABELS = "labels"
_OF_TWO = {
    BETTER: "b is better than a",
    WORSE: "b is worse than a",
    SAME: "a and b are practically the same (within ± {epsilon})",
    OPEN: "Cannot tell yet whether b is better than a ({reason})",
}
_OF_A_CHOICE = {
    BETTER: "Tuning helps",
    WORSE: "Tuning makes search worse",
    SAME: "Tuning makes practically no difference (within ± {epsilon})",
    OPEN: "Cannot tell yet whether tuning helps ({reason})",
}


class Needed(NamedTuple):
    """How many more labelled queries, of how many more groups, would settle the verdict."""

    queries: int
    groups: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a difference between two searches, or on a choice among settings; as text one sentence.

    Attributes
    ----------
    word : str
        better, worse, practically the same, or cannot tell yet.
    reason : str
        Why the word is *cannot tell yet*; empty for the other words.
    metric : str
    gain : float or None
        New minus reference. For a choice: its expected gain over the default, None below 6 groups.
    apparent : float or None
        The gain of the best setting on the labels that it was chosen on, which is too high.
    low, high : float or None
        The 95 % confidence interval over groups; None below 6 groups. For a choice: the interval of the held-out gain,
        widened to contain `gain`.
    p : float or None
        Two-sided p of a sign-flip permutation test over whole groups. For a choice: one-sided, and the choice is
        repeated in each permutation (selective inference).
    p_worse : float or None
        For a choice: the one-sided p of a loss; None on a holdout.
    epsilon : float
        Differences within ± epsilon count as none.
    detectable : float or None
        Minimum detectable effect: the smallest true difference that would show with 80 % power.
    needed : Needed or None
        Further queries and groups like these that would settle the verdict; None where that is not known.
    counts : tuple of int, or None
        For two searches: the numbers of queries that are better, the same, worse.
    looks : int
        How often these labels were looked at, this time included, as far as the file of `remember` knows.
    tested_on : {'labels', 'holdout', 'later queries'}
    unit : str
        The column that tells groups apart; query_id where each query is its own group.
    estimate : str
        What means are over: per query, or per group.
    n_settings, n_queries, n_groups, n_flips, n_resamples : int
        Settings besides the default (0 for two searches); queries and groups in the test; sign flips behind `p`;
        bootstrap resamples behind the `gain` of a choice.
    """

    word: str
    reason: str
    metric: str = ""
    gain: float | None = None
    apparent: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_worse: float | None = None
    epsilon: float
    detectable: float | None = None
    needed: Needed | None = None
    counts: tuple[int, int, int] | None = None
    looks: int = 1
    tested_on: str = LABELS
    unit: str
    estimate: str = "per query"
    n_settings: int = 0
    n_queries: int
    n_groups: int
    n_flips: int = 0
    n_resamples: int = 0

    def __str__(self) -> str:
        return f"{self.head}: {'; '.join(self.parts)}"

    @property
    def head(self) -> str:
        """The word as a sentence."""
        sentences = _OF_A_CHOICE if self.n_settings else _OF_TWO
        return sentences[self.word].format(epsilon=f"{self.epsilon:g}", reason=self.reason)

    @property
    def parts(self) -> list[str]:
        """What to do, then the numbers."""
        parts = [self.more, self._gains(), self._counts(), self._chance(), self._power()]
        if self.looks > 1:
            parts.append(
                f"these labels were looked at {self.looks} times, and each look makes the next verdict worth less"
            )
        return [part for part in parts if part]

    def _gains(self) -> str:
        rows = {"n_queries": self.n_queries, "unit": self.unit, "n_units": self.n_groups}
        over = mean_over(rows, self.estimate == "per query")
        if not self.n_settings:
            return f"{self.metric} of b minus that of a is {_signed(self.gain)}, {over}"
        best = "the one other setting" if self.n_settings == 1 else f"the best of {self.n_settings:,} settings"
        apparent = f"{best} changes {self.metric} by {_signed(self.apparent)} on the queries that it was chosen on"
        if self.gain is None:
            return f"{apparent}, which is too favourable; {over}"
        where = "on queries that it was not chosen on" if self.tested_on == LABELS else f"on the {self.tested_on}"
        return f"{apparent}, and by {_signed(self.gain)} {where}, which is what to expect; {over}"

    def _counts(self) -> str:
        if self.counts is None:
            return ""
        better, same, worse = self.counts
        return f"b is better for {count_of(better, 'query')}, equal for {same:,}, worse for {worse:,}"

    def _chance(self) -> str:
        if self.low is None or self.p is None:
            return ""
        p = self.p_worse if self.word == WORSE and self.p_worse is not None else self.p
        sides = "two-sided" if self.p_worse is None else "one-sided"
        ends = f"{_signed(self.low)} to {_signed(self.high)}"
        return f"the 95 % interval of that is {ends} ({sides} p = {p:.3g}, by {self.n_flips:,} sign flips)"

    def _power(self) -> str:
        if self.word not in (OPEN, SAME) or not self.detectable:
            return ""
        return f"with so many queries a difference shows from {self.detectable:.3f} on (in 80 % of cases)"

    @property
    def more(self) -> str:
        """How many more queries to label; empty where that is not known, or the verdict is settled."""
        if self.needed is None:
            return ""
        queries = count_of(self.needed.queries, "more query", "more queries")
        groups = f"{self.needed.groups:,} more {unit_noun(self.unit, self.needed.groups)}"
        count = queries if self.unit == "query_id" else f"{queries} of {groups}"
        return f"label about {count} to {'settle it' if self.low is not None else 'get a verdict at all'}"


def _signed(value: float | None) -> str:
    """With its sign; a 0 has a plus."""
    return f"{round(value or 0.0, 3) + 0.0:+.3f}"


def still_needed(groups: int | None, units: Units) -> Needed | None:
    """What is missing to have `groups` in all; None where nothing is."""
    n_missing = (groups or 0) - len(units)
    return Needed(math.ceil(n_missing * units.n_queries / len(units)), n_missing) if n_missing > 0 else None


def unit_noun(unit: str, count: int = 2) -> str:
    """The noun for so many units that the column `unit` tells apart.

    >>> [unit_noun(name) for name in ("user_id", "query_id", "group", "team")], unit_noun("user_id", 1)
    (['users', 'queries', 'groups', 'groups by team'], 'user')
    """
    nouns = {"user_id": ("user", "users"), "query_id": ("query", "queries"), "group": ("group", "groups")}
    one, several = nouns.get(unit, (f"group by {unit}", f"groups by {unit}"))
    return one if count == 1 else several


def too_few(n_units: int, unit: str = "user_id") -> str:
    """The reason for no verdict on so few units; `unit` is the column that tells them apart."""
    return f"too few {unit_noun(unit)}: {n_units}, and a verdict needs at least {FEWEST}"


def verdict(units: Units, epsilon: float = 0.01, seed: int = 0, unit: str = "user_id") -> Verdict:
    """The verdict on a difference between two settings that were fixed beforehand.

    *Better* and *worse*: the 95 % interval excludes 0, and the sign-flip test has p < .05. *Practically the same*: the
    90 % interval lies within ± epsilon, which is an equivalence test (two one-sided tests at 5 %). `unit` is the column
    that tells units apart.

    Examples
    --------
    >>> import numpy as np
    >>> verdict(Units.from_scores(np.full(30, 0.1), np.arange(30), per_query=True)).word
    'better'
    >>> verdict(Units.from_scores(np.full(30, 0.1), np.arange(30) % 5, per_query=True)).reason
    'too few users: 5, and a verdict needs at least 6'
    """
    values: dict[str, Any] = {"gain": units.mean, "epsilon": epsilon, "unit": unit}
    values |= {"n_queries": units.n_queries, "n_groups": len(units)}
    # Two one-sided tests at 5 % are an interval of 90 %: by it "practically the same" is said.
    wide, narrow = interval(units, 0.95, seed), interval(units, 0.9, seed)
    if wide is None or narrow is None:
        return Verdict(word=OPEN, reason=too_few(len(units), unit), needed=still_needed(FEWEST, units), **values)
    values |= {"low": wide[0], "high": wide[1], "p": sign_flip_p(units, seed), "detectable": detectable_effect(units)}
    word, reason = _word(wide, narrow, values["p"], epsilon)
    least = units_needed(units, max(abs(units.mean), epsilon)) if word == OPEN else None
    return Verdict(word=word, reason=reason, needed=still_needed(least, units), n_flips=n_flips(len(units)), **values)


def _word(wide: tuple[float, float], narrow: tuple[float, float], p: float, epsilon: float) -> tuple[str, str]:
    if wide[0] > 0 or wide[1] < 0:
        if p < 0.05:
            return (BETTER if wide[0] > 0 else WORSE), ""
        if not -epsilon <= narrow[0] <= narrow[1] <= epsilon:
            return OPEN, f"the 95 % interval excludes 0, but the sign-flip test has p = {p:.3f}"
    if -epsilon <= narrow[0] <= narrow[1] <= epsilon:
        return SAME, ""
    return OPEN, f"the 95 % interval contains 0, and the 90 % interval reaches beyond ± {epsilon:g}"


def size(row: Mapping[str, Any]) -> str:
    """How many queries a row of a result is over, and whose they are.

    >>> size({"n_queries": 40, "unit": "user_id", "n_units": 8}), size({"n_queries": 1, "unit": "query_id"})
    ('40 queries of 8 users', '1 query')
    """
    queries = f"{row['n_queries']:,} {unit_noun('query_id', row['n_queries'])}"
    if row["unit"] == "query_id":
        return queries
    return f"{queries} of {row['n_units']:,} {unit_noun(row['unit'], row['n_units'])}"


def mean_over(row: Mapping[str, Any], per_query: bool) -> str:
    """What the value of a row is a mean of.

    >>> row = {"n_queries": 40, "unit": "user_id", "n_units": 8}
    >>> mean_over(row, True), mean_over(row, False)
    ('a mean over 40 queries of 8 users', 'a mean over 8 users, who have 40 queries')
    """
    if per_query:
        return f"a mean over {size(row)}"
    who = "who" if row["unit"] == "user_id" else "which"
    n_units, n_queries = row["n_units"], row["n_queries"]
    units, queries = unit_noun(row["unit"], n_units), unit_noun("query_id", n_queries)
    return f"a mean over {n_units:,} {units}, {who} {'has' if n_units == 1 else 'have'} {n_queries:,} {queries}"


_ALPHA = 0.025
"""One-sided: *better* and *worse* together are claimed of at most 5 % of flat grids."""
_GUARD = 0.05
"""One-sided, of each guard after Holm's adjustment."""
HOLDOUT, LATER = "holdout", "later queries"


def claim(contest: Contest, epsilon: float, seed: int, about: Mapping[str, Any]) -> tuple[Verdict, Retuned | None]:
    """The verdict on a choice from the labels that it is made on, and the test behind it; `about` fills in the rest."""
    values = {
        "epsilon": epsilon,
        "apparent": float(contest.means[contest.best]),
        "tested_on": LABELS,
        "n_settings": len(contest.others),
        "n_queries": contest.gain.shape[1],
        "n_groups": contest.n_units,
        **about,
    }
    if contest.n_units < FEWEST:
        needed = still_needed(FEWEST, contest.units(contest.value[contest.best]))
        return Verdict(word=OPEN, reason=too_few(contest.n_units, about["unit"]), needed=needed, **values), None
    retuned, gain = retune(contest, seed), expected_gain(contest, seed)
    (low, high), narrow = (_containing(gain, retuned.interval(level)) for level in (0.95, 0.9))
    word, reason = _choice_word(retuned, (low, high), narrow, epsilon)
    return Verdict(
        word=word,
        reason=reason,
        gain=gain,
        low=low,
        high=high,
        p=retuned.p,
        p_worse=retuned.p_worse,
        detectable=retuned.detectable,
        needed=_needed(retuned, max(abs(gain or 0.0), epsilon)) if word == OPEN else None,
        n_flips=retuned.n_flips,
        n_resamples=RESAMPLES,
        **values,
    ), retuned


def claim_on_held_out(units: Units, seed: int, chosen: Verdict, tested_on: str) -> Verdict:
    """The verdict on a chosen setting from held-out labels: one ordinary test."""
    tested_verdict = verdict(units, chosen.epsilon, seed, chosen.unit)
    gain = tested_verdict.gain if len(units) >= FEWEST else None
    names = ("word", "reason", "low", "high", "p", "detectable", "needed", "n_queries", "n_groups", "n_flips")
    tested = {name: getattr(tested_verdict, name) for name in names}
    return replace(chosen, **tested, gain=gain, p_worse=None, tested_on=tested_on, n_resamples=0)


def _containing(gain: float | None, ends: tuple[float, float]) -> tuple[float, float]:
    """The interval widened to contain the gain: folds and resamples hold users out in two ways, which may disagree."""
    return (ends[0], ends[1]) if gain is None else (min(ends[0], gain), max(ends[1], gain))


def _choice_word(
    retuned: Retuned, wide: tuple[float, float], narrow: tuple[float, float], epsilon: float
) -> tuple[str, str]:
    if retuned.p <= _ALPHA:
        return BETTER, ""
    if retuned.p_worse <= _ALPHA and wide[1] < 0:
        return WORSE, ""
    if -epsilon <= narrow[0] <= narrow[1] <= epsilon:
        return SAME, ""
    if wide[0] > 0 or wide[1] < 0:
        p = retuned.p if wide[0] > 0 else retuned.p_worse
        return OPEN, f"the 95 % interval excludes 0, but the sign-flip test has p = {p:.3g}"
    return OPEN, f"p is above {_ALPHA:g}, and the 90 % interval reaches beyond ± {epsilon:g}"


def _needed(retuned: Retuned, gain: float) -> Needed | None:
    units = retuned.held_out
    plain = detectable_effect(units)
    if not plain or not retuned.detectable or not gain:
        return None
    return still_needed(units_needed(units, gain * plain / retuned.detectable), units)


GUARDS = result_schema(
    (pa.string(), "guard"),
    (pa.float64(), "margin difference low p p_adjusted"),
    (pa.bool_(), "holds"),
    (pa.int64(), "n_queries n_groups"),
)


def guard_table(checks: Sequence[tuple[str, Units, float]], seed: int) -> pa.Table:
    """Whether a setting loses less than a margin on each of other label sets: one-sided at 5 %, Holm over the guards.

    Examples
    --------
    >>> units = Units.from_scores(np.full(8, -0.001), np.arange(8), per_query=True)
    >>> guard_table([("old questions", units, 0.01)], 0)["holds"].to_pylist()
    [True]
    """
    rows: list[dict[str, Any]] = []
    for name, units, margin in checks:
        is_too_few = len(units) < FEWEST
        ends = interval(units, 0.9, seed)
        rows.append(
            {
                "guard": name,
                "margin": margin,
                "difference": units.mean,
                "low": None if ends is None else ends[0],
                "p": None if is_too_few else sign_flip_p(units, seed, shift=-margin, greater=True),
                "n_queries": units.n_queries,
                "n_groups": len(units),
            }
        )
    holm = holm_adjusted([1.0 if row["p"] is None else row["p"] for row in rows])
    for row, p in zip(rows, holm, strict=True):
        row |= {"p_adjusted": None if row["p"] is None else p, "holds": row["p"] is not None and p <= _GUARD}
    return pa.Table.from_pylist(rows, schema=GUARDS)


def holm_adjusted(values: Sequence[float]) -> list[float]:
    """p values adjusted by Holm's method.

    >>> holm_adjusted([0.01, 0.04, 0.02])
    [0.03, 0.04, 0.04]
    """
    order, highest = np.argsort(values, kind="stable"), 0.0
    adjusted = [0.0] * len(values)
    for place, position in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(values) - place) * values[position]))
        adjusted[position] = highest
    return adjusted


class Looks:
    """A small file with a line for each look at labels: JSON lines, which a person can read and delete.

    Parameters
    ----------
    path : str or Path or None
        None remembers nothing.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.lines = self._read()

    def _read(self) -> list[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return []
        lines = []
        for number, line in enumerate(self.path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            try:
                lines.append({key: json_object(line)[key] for key in ("part", "labels", "choice")})
            except (ValueError, KeyError, TypeError) as error:
                message = f"{self.path}:{number}: expected a line that memkit wrote, with part, labels, choice."
                raise FormatError(f"{message} Got {line:.80}", path=str(self.path), line=number) from error
        return lines

    def n_before(self, part: str, labels: str, choice: Any) -> int:
        """How many different looks at this part of the labels there were before."""
        look = _line(part, labels, choice)
        before = {json.dumps(line, sort_keys=True) for line in self.lines if line["part"] == part}
        return len(before - {json.dumps(look, sort_keys=True)})

    def remember(self, part: str, labels: str, choice: Any, **more: Any) -> None:
        """Add a line, unless this very look is recorded."""
        look = _line(part, labels, choice)
        if self.path is None or look in self.lines:
            return
        self.lines.append(look)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**look, **more}, ensure_ascii=False) + "\n")


def _line(part: str, labels: str, choice: Any) -> dict[str, Any]:
    return {"part": part, "labels": labels, "choice": json.loads(json.dumps(choice, default=str, sort_keys=True))}


def fingerprint(*parts: Any) -> str:
    """A short hash of arrays and plain values: equal hash, equal content."""
    digest = hashlib.sha256()
    for part in parts:
        content = (
            part.tobytes() if isinstance(part, np.ndarray) else json.dumps(part, default=str, sort_keys=True).encode()
        )
        digest.update(hashlib.sha256(content).digest())
    # 64 bits are enough to tell label sets apart.
    return digest.hexdigest()[:16]


def held_out_groups(names: Sequence[str], share: float, seed: int) -> Any:
    """Which groups belong to the holdout: by hashes of their names, so that each stays on its side as labels grow."""
    places = {
        # Six bytes, as more have no exact float.
        name: int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big") / 2**48
        for name in set(names)
    }
    return np.array([places[name] < share for name in names])


# A round number.
_ROWS = 200
"""Rows of a table in a report, which is a file to be read."""


@dataclass(frozen=True)
class Plots:
    """The pictures of a result: ``result.plot()`` is the first that it has, ``result.plot.surface()`` one by name.

    Each raises ParameterError where the result has none.
    """

    result: Any

    def __call__(self) -> Picture:
        """The first picture that the result has."""
        if not self.result.pictures:
            got = type(self.result).__name__
            raise ParameterError(f"plot: expected a result with something to draw. Got {got} without.")
        first: Picture = getattr(self, self.result.pictures[0])()
        return first

    def differences(self) -> Picture:
        """As `mk.plot.differences`."""
        return plot.differences(self.result)

    def groups(self) -> Picture:
        """As `mk.plot.groups`."""
        return plot.groups(self.result)

    def power(self) -> Picture:
        """As `mk.plot.power`."""
        return plot.power(self.result)

    def stages(self) -> Picture:
        """As `mk.plot.stages`."""
        return plot.stages(self.result)

    def surface(self, x: str | None = None, y: str | None = None) -> Picture:
        """As `mk.plot.surface`."""
        return plot.surface(self.result, x=x, y=y)

    def pool(self) -> Picture:
        """As `mk.plot.pool`."""
        return plot.pool(self.result)

    def all(self) -> list[Picture]:
        """All pictures that the result has."""
        return [getattr(self, name)() for name in self.result.pictures]


class Result(Tabular):
    """A table that any data frame library reads, its companions, and a sentence that sums it up."""

    @property
    def plot(self) -> Plots:
        """Its pictures."""
        return Plots(self)

    @property
    def pictures(self) -> tuple[str, ...]:
        """The names of the pictures that it has, the first being the one that it draws."""
        return ()

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page that needs no other file: tables that can be sorted, and pictures with descriptions.

        Parameters
        ----------
        path : str or Path
            The file to write, usually ``.html``.
        title : str, optional
            The page's title; by default the kind of result.

        Returns
        -------
        Path
        """
        shown = Shown(*self._sheets(_ROWS))
        body = shown._repr_html_() + shown.hide.in_html("".join(picture.in_html() for picture in self.plot.all()))
        return write_page(path, f"memkit: {type(self).__name__.lower()}" if title is None else title, body, True)

    def __repr__(self) -> str:
        return str(self)

    def _sentence(self) -> str:
        """What stands above the table, whose own note comes below."""
        return str(self)

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        head, _, more = self._sentence().partition(". ")
        sheet = sheet_of(getattr(self, "details", self.table), rows, show_secrets)
        return (replace(sheet, heading=head, notes=(more, *sheet.notes) if more else sheet.notes),)


# Sixteen times as many labels halve the error twice; more than that nobody makes.
_TIMES = np.array([1, 2, 4, 8, 16])


@dataclass(frozen=True)
class Power:
    """The minimum detectable effect (80 % power) by the number of queries.

    Attributes
    ----------
    sizes : ndarray of shape (n,)
        Numbers of labelled queries.
    least : dict of str to ndarray of shape (n,)
        The minimum detectable effect, by whose queries are added.
    now : tuple (float, float) or None
        The present number of queries, and the effect detectable with them.
    """

    sizes: Floats
    least: dict[str, Floats]
    now: tuple[float, float] | None = None


@dataclass(frozen=True)
class Differences:
    """The differences of a `Comparison` or a `Tuning`, by query and in all.

    Attributes
    ----------
    frame : pd.DataFrame
        query_id, group and difference; queries without a difference are left out.
    unit : str
        The column that defines the groups; query_id where each query is its own.
    sentence : str
        The verdict in a few words.
    """

    frame: pd.DataFrame
    metric: str
    unit: str
    per_query: bool
    mean: float | None
    low: float | None
    high: float | None
    epsilon: float
    sentence: str

    @property
    def values(self) -> Floats:
        """The differences, shape (n_queries,)."""
        values: Floats = self.frame["difference"].to_numpy(np.float64)
        return values

    @property
    def units(self) -> Units:
        """The units of their mean."""
        return Units.from_scores(self.values, self._unit_of_each, self.per_query)

    @property
    def interval(self) -> str:
        """The 95 % interval as text."""
        if self.low is None or self.high is None:
            return f"none below {FEWEST} units"
        return f"{self.low:+.3f} to {self.high:+.3f}"

    @property
    def _unit_of_each(self) -> np.ndarray:
        return pd.factorize(self.frame["group"])[0]

    @property
    def pictures(self) -> tuple[str, ...]:
        """The pictures of differences: of their power only where enough groups differ."""
        return ("differences", "groups", *(["power"] if detectable_effect(self.units) else []))

    def power(self) -> Power:
        """The minimum detectable effect with more units like these, and with more queries of the same units.

        Raises
        ------
        ParameterError
            Where there are too few units, or all have the same difference.
        """
        units, n = self.units, len(self.values)
        least = detectable_effect(units)
        if not least:
            got = f"{len(units)} with the same difference" if least == 0 else f"{len(units)}"
            raise ParameterError(f"plot.power: expected {FEWEST} groups or more, to know how they differ. Got {got}.")
        spread = units.error * math.sqrt(len(units))
        with_more = np.array([detectable_effect_for(len(units) * many, spread) for many in _TIMES])
        named = {"user_id": "users", "query_id": "queries"}.get(self.unit, f"groups by {self.unit}")
        lines = {f"more {named} like these": with_more}
        floor = detectable_effect_floor(self.values, self._unit_of_each)
        if floor is not None:
            floor = min(floor, least)
            same_units = np.sqrt(floor**2 + (least**2 - floor**2) / _TIMES)
            lines[f"more queries of the same {len(units)} {named}"] = same_units
        return Power(n * _TIMES, lines, (n, least))
