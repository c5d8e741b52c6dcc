"""What evaluations return: tables that belong together, shown as one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from memkit.display.notebook import Shown
from memkit.display.sheet import ROWS, Sheet, sheet_of


class Result:
    """A table that any data frame library takes, what belongs to it, and a sentence that says it.

    Attributes
    ----------
    table : pa.Table
    """

    table: pa.Table

    def to_pandas(self) -> pd.DataFrame:
        """`table` as a data frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return Shown(*self._sheets())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        head, _, more = str(self).partition(". ")
        sheet = sheet_of(self.table, rows, show_secrets)
        return (replace(sheet, heading=head, notes=(more, *sheet.notes) if more else sheet.notes),)
