"""The likeness of two vectors, however it was found that they are to be compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memkit.index.encoders.base import Vectors

SCORE_DIGITS = 6
STEP = 10.0**-SCORE_DIGITS


def cosines(one: Vectors, other: Vectors, digits: int = SCORE_DIGITS) -> NDArray[np.float64]:
    """Of each unit row of `one` with each of `other`, over shapes (…, n, dim) and (…, m, dim).

    In double precision and rounded, so that it depends on no other row beside the two; from -1 to 1.

    >>> cosines(np.array([[1, 0]], np.float32), np.array([[1, 0], [0.6, 0.8], [-1, 0]], np.float32)).tolist()
    [[1.0, 0.6, -1.0]]
    """
    exact = one.astype(np.float64) @ other.astype(np.float64).swapaxes(-1, -2)
    return np.clip(np.round(exact, digits), -1.0, 1.0) + 0.0  # + 0.0 makes of -0.0 a 0
