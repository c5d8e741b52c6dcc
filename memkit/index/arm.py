"""`Abilities`: what an arm can do besides finding candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from memkit.index.near_words import Nearest, Sight
from memkit.schemas import Ints


class Abilities:
    """What an arm can do besides finding candidates: nothing, unless it says otherwise.

    Attributes
    ----------
    lends : bool
        Whether turns of a conversation lend each other what they are found by, with `candidates_in_turns`.
    spells : bool
        Whether its terms are words, so that others may stand for one: its ``candidates`` take ``near``, and
        ``sight(visible)`` has the terms of these rows, or of all for None.
    """

    lends: ClassVar[bool] = False
    spells: ClassVar[bool] = False

    @property
    def is_exact(self) -> bool:
        """Whether the best n are the first of its best 2 n."""
        return True

    def candidates_in_turns(self, *request: Any, **options: Any) -> pa.Table:
        """``candidates(queries, n, allowed, turns, lending)``: a turn also has a share of what turns around it have."""
        raise NotImplementedError

    def near_terms(self, queries: Sequence[str], sight: Sight) -> Sequence[Nearest]:
        """For each query its words that no row in sight has, with the nearest term; empty if words are not read."""
        return ()

    def updated(self, former_row: Ints, chunks: pa.Table, texts: Any) -> Any:
        """A copy fitted to `texts` that reads only those of new rows; None where a full fit is needed."""
        return None
