"""The cosine of vectors, in double precision and rounded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memkit.index.encoders.base import Vectors

SCORE_DIGITS = 6
STEP = 10.0**-SCORE_DIGITS


def cosines(one: Vectors, other: Vectors, digits: int = SCORE_DIGITS) -> NDArray[np.float64]:
    """The cosine of each unit row of `one` with each of `other`, over shapes (…, n, dim) and (…, m, dim).

    It is rounded, so that it does not depend on the other rows of the batch; from -1 to 1.

    >>> cosines(np.array([[1, 0]], np.float32), np.array([[1, 0], [0.6, 0.8], [-1, 0]], np.float32)).tolist()
    [[1.0, 0.6, -1.0]]
    """
    exact = one.astype(np.float64) @ other.astype(np.float64).swapaxes(-1, -2)
    return np.clip(np.round(exact, digits), -1.0, 1.0) + 0.0  # + 0.0 makes of -0.0 a 0
