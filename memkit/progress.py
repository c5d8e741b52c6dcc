"""The one kind of progress bar: it appears where work is long and somebody looks, a terminal or a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

_DELAY = 2.0  # seconds before a bar appears: short work stays silent


def bar(what: str, items: Iterable[Any] | None = None, silent: bool = False, **options: Any) -> Any:
    """tqdm's bar over `items`, or one to be moved by hand; ``TQDM_DISABLE=1`` in the environment silences all.

    >>> list(bar("counting", [1, 2], silent=True))
    [1, 2]
    """
    from tqdm.auto import tqdm

    # None is tqdm's word for: only where the output is a terminal or a notebook.
    disable = True if silent or os.environ.get("TQDM_DISABLE", "0") not in ("", "0") else None
    return tqdm(items, desc=what, disable=disable, delay=_DELAY, **options)
