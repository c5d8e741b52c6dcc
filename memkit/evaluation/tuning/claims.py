"""The verdict on a choice among settings, guards on other labels, and the count of looks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memkit.checked import json_object
from memkit.errors import FormatError
from memkit.evaluation.scores.statistics import FEWEST, Units, detectable_effect, interval, sign_flip_p, units_needed
from memkit.evaluation.scores.verdict import (
    BETTER,
    LABELS,
    OPEN,
    SAME,
    WORSE,
    Needed,
    Verdict,
    still_needed,
    too_few,
    verdict,
)
from memkit.evaluation.tuning.selection import RESAMPLES, Contest, Retuned, expected_gain, retune
from memkit.schemas import result_schema

_ALPHA = 0.025
_GUARD = 0.05
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
    word, reason = _word(retuned, (low, high), narrow, epsilon)
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
    found = verdict(units, chosen.epsilon, seed, chosen.unit)
    gain = found.gain if len(units) >= FEWEST else None
    names = ("word", "reason", "low", "high", "p", "detectable", "needed", "n_queries", "n_groups", "n_flips")
    tested = {name: getattr(found, name) for name in names}
    return replace(chosen, **tested, gain=gain, p_worse=None, tested_on=tested_on, n_resamples=0)


def _containing(gain: float | None, ends: tuple[float, float]) -> tuple[float, float]:
    """The interval widened to contain the gain: folds and resamples hold users out in two ways, which may disagree."""
    return (ends[0], ends[1]) if gain is None else (min(ends[0], gain), max(ends[1], gain))


def _word(retuned: Retuned, wide: tuple[float, float], narrow: tuple[float, float], epsilon: float) -> tuple[str, str]:
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
        this = _line(part, labels, choice)
        before = {json.dumps(line, sort_keys=True) for line in self.lines if line["part"] == part}
        return len(before - {json.dumps(this, sort_keys=True)})

    def remember(self, part: str, labels: str, choice: Any, **more: Any) -> None:
        """Add a line, unless this very look is recorded."""
        this = _line(part, labels, choice)
        if self.path is None or this in self.lines:
            return
        self.lines.append(this)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**this, **more}, ensure_ascii=False) + "\n")


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
    return digest.hexdigest()[:16]


def held_out_groups(names: Sequence[str], share: float, seed: int) -> Any:
    """Which groups belong to the holdout: by hashes of their names, so that each stays on its side as labels grow."""
    places = {
        name: int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big") / 2**48
        for name in set(names)
    }
    return np.array([places[name] < share for name in names])
