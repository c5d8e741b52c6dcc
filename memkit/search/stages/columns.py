"""The columns of chunks and memories that ranking uses besides scores, as arrays by row, for any kind of index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints, Mask, check_kinds
from memkit.tables.age import ages, factors


@dataclass(frozen=True)
class Columns:
    """One value per chunk (`memory`, `twin`) or per memory (the others).

    Attributes
    ----------
    memory : ndarray of int64, shape (n_chunks,)
        Row of the memory that the chunk is cut from.
    twin : ndarray of int64, shape (n_chunks,)
        Equal for chunks of one owner with the same text (exact duplicates); below n_chunks.
    kind : tuple (codes, names)
        Kind of each memory, dictionary encoded.
    dated : ndarray of datetime64[us], shape (n_memories,)
        Last change, UTC; NaT if unknown.
    decays : ndarray of bool, shape (n_memories,)
        False for memories that are exempt from decay.
    """

    memory: Ints
    twin: Ints
    kind: tuple[Ints, tuple[str | None, ...]]
    dated: NDArray[np.datetime64]
    decays: Mask

    @cached_property
    def has_dates(self) -> bool:
        """Whether any memory has a date."""
        return not np.isnat(self.dated).all()

    def are_of(self, kinds: Sequence[str]) -> Mask:
        """Whether each of the corpus's kinds is among `kinds`."""
        return np.array([name in kinds for name in self.kind[1]], bool)

    def prior(self, memory: Ints, weights: Mapping[str, float] | None) -> Floats:
        """The factor by kind of each of the rows `memory`; 1 for a kind that `weights` do not name."""
        return priors(self.kind[0][memory], self.kind[1], weights)

    def decay(
        self, memory: Ints, moment: datetime, form: str, days: float, floor: float, kinds: Sequence[str] = "*"
    ) -> tuple[Floats, Floats]:
        """Age in days (NaN without a date, 0 in the future) and factor of each of the rows `memory`."""
        if not self.has_dates:
            return np.full(len(memory), np.nan), np.ones(len(memory))
        age, setting = ages(self.dated[memory], moment), (form, days, floor, tuple(kinds))
        return age, decay_factors(age, lambda some: self.may_decay(memory, some), [setting])[:, 0]

    def may_decay(self, memory: Ints, kinds: Sequence[str]) -> Mask:
        """Which of the rows `memory` decay, if they have a date."""
        decays = self.decays[memory]
        return decays if "*" in kinds else decays & self.are_of(kinds)[self.kind[0][memory]]


Decay = tuple[str, float, float, Sequence[str]]
"""Form, days, floor and kinds, as `QuerySettings` has them."""


def decay_factors(age: Floats, may_decay: Callable[[Any], Mask], decays: Sequence[Decay | None]) -> Floats:
    """The decay factor of each candidate under each of `decays`, shape (n, decays); 1 if it does not decay."""
    result = np.ones((len(age), len(decays)))
    groups: dict[tuple[str, Sequence[str]], list[int]] = {}
    for column, decay in enumerate(decays):
        if decay is not None:
            groups.setdefault((decay[0], decay[3]), []).append(column)
    for (form, kinds), columns in groups.items():
        rows = np.flatnonzero(may_decay(kinds))
        days, floor = (np.array([decay[part] for column in columns if (decay := decays[column])]) for part in (1, 2))
        result[rows[:, None], columns] = factors(age[rows, None], form, days, floor)
    return result


def priors(kind: Ints, names: Sequence[str | None], weights: Mapping[str, float] | None) -> Floats:
    """The factor of each `kind`, a number into `names`; 1 for one that `weights` do not name."""
    check_kinds(weights or {}, "Retriever: 'kind_weights'", also=names)
    return np.array([(weights or {}).get(str(name), 1.0) for name in names], float)[kind]
