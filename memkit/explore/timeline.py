"""`timeline`: what the memories say on a theme, oldest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from memkit import Retriever
from memkit.errors import count_of
from memkit.extend.showing import Tabular, answerability_note, check_fitted, mask, named_in
from memkit.extend.writing import AsOf, check_value, describe
from memkit.schemas import TIMESTAMP, result_schema

if TYPE_CHECKING:
    from memkit.plot import Picture

# The best F1 on one of two labelled sets (.265), and within .002 of it on the other.
BAR = 0.6
"""The share of the best score that counts; measured by `tests/benchmarks/bench_topics.py`."""
TIMELINE = result_schema(
    (TIMESTAMP, "date"),
    (pa.string(), "memory_id snippet"),
    (pa.float64(), "score"),
    (pa.string(), "status superseded_by"),
    (pa.int64(), "n_alike"),
    (pa.string(), "title"),
)


@dataclass(frozen=True, repr=False)
class Timeline(Tabular):
    """The result of `timeline`.

    Attributes
    ----------
    table : pyarrow.Table
        A row for each memory on the theme: date (created_at, else updated_at), memory_id, snippet (its secrets are
        masked), score, status, superseded_by, n_alike (near-duplicates that are collapsed under it), title. The oldest
        comes first; memories without a date come last, the best first.
    theme : str
    """

    table: pa.Table
    theme: str

    def __str__(self) -> str:
        n, undated = self.table.num_rows, self.table["date"].null_count
        dates = self.table["date"].drop_null()
        ends = f" from {dates[0].as_py().date()} to {dates[-1].as_py().date()}" if len(dates) else ""
        return f"{count_of(n, 'memory')} on “{mask(self.theme)}”{ends}, {undated:,} without a date"

    def plot(self) -> Picture:
        """Each dated memory at its date and score: `mk.plot.timeline`.

        Examples
        --------
        >>> import memkit as mk
        >>> texts = ["Пул вырос до десяти", "Пул снова мал"]
        >>> dated = mk.from_table({"text": texts, "created_at": ["2026-02-01", "2026-01-05"]})
        >>> print(timeline(mk.Retriever(encoder=None).fit(dated), "пул").plot())
        2 memories on “пул” from 2026-01-05 to 2026-02-01, 0 without a date
        2026-01-05  Пул снова мал
        2026-02-01  Пул вырос до десяти
        """
        from memkit import plot

        return plot.timeline(self.table, str(self))


def timeline(
    search: Retriever,
    theme: str,
    where: str | None = None,
    as_of: AsOf = None,
    *,
    user_id: str | None = None,
    bar: float = BAR,
    # A round bound of what a page shows.
    most: int = 200,
) -> Timeline:
    """List what the memories say on a theme, oldest first.

    A memory is on the theme if its score is at least `bar` times that of the best hit; so the number of rows is that of
    the memories on the theme, not k. Age does not count: decay and `prefer` are off, and superseded and deprecated
    memories are listed at their date, with their status.

    Parameters
    ----------
    search : Retriever
        Fitted; its other settings act as in `search`.
    theme : str
        A few words, or a question.
    where, as_of, user_id
        As for `Retriever.search`.
    bar : float, ratio
        The minimum share of the best score: higher gives fewer memories, closer to the theme.
    most : int
        The maximum number of memories: those with the best scores. The note says if there are more.

    Returns
    -------
    Timeline
        Shows itself; ``.table``, ``.plot()``.

    Raises
    ------
    NotFittedError, ParameterError, QueryError

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"text": ["Пул вырос", "Чай остыл", "Пул мал"], "created_at": ["2026-02-01", "2026-01-20", "2026-01-05"]}
    >>> timeline(mk.Retriever(encoder=None).fit(mk.from_table(rows)), "пул").table["snippet"].to_pylist()
    ['Пул мал', 'Пул вырос']
    """
    check_fitted("timeline", search)
    check_value("timeline", "theme", theme, "str")
    check_value("timeline", "bar", bar, "float", low=0, high=1)
    check_value("timeline", "most", most, "int", low=1)
    timeless = {
        "decay": "none",
        "prefer": None,
        "status": "keep",
        "min_score": 0.0,
        "mmr_lambda": 1.0,
        "unit": "memory",
    }
    widened = search.with_params(**timeless, pool=max(search.pool, most))
    columns = ["created_at", "updated_at", "status", "superseded_by", "title"]
    # One more than is shown, to know whether there are more.
    hits = widened.search(theme, most + 1, where=where, as_of=as_of, user_id=user_id, columns=columns)
    scores = hits["score"].to_numpy()
    above = hits.filter(pa.array((scores >= bar * scores.max(initial=0.0)) & (scores > 0)))
    shown = above.slice(0, most)
    hide = named_in(search.corpus_.memories, shown["snippet"].to_pylist())
    table = pa.table(
        {
            **{name: shown[name] for name in TIMELINE.names if name not in ("date", "snippet")},
            "date": pc.coalesce(shown["created_at"], shown["updated_at"]),
            "snippet": pa.array([hide(text) for text in shown["snippet"].to_pylist()], pa.string()),
        }
    ).select(TIMELINE.names)
    keys = [("date", "ascending"), ("score", "descending"), ("memory_id", "ascending")]
    table = table.take(pc.sort_indices(table, sort_keys=keys)).cast(TIMELINE)
    notes = (_counts(table, above.num_rows > most, most), answerability_note(hits), _note_of(hits))
    facts = {"note": " ".join(filter(None, notes)), "as_of": (hits.schema.metadata or {}).get(b"as_of", b"").decode()}
    return Timeline(describe(table, memkit="timeline", **facts), theme)


def _counts(table: pa.Table, is_cut: bool, most: int) -> str:
    undated = table["date"].null_count
    last = (
        f"{undated:,} of {table.num_rows:,} {'has' if undated == 1 else 'have'} no date and come last."
        if undated
        else ""
    )
    return " ".join(filter(None, (last, f"There are more: only the best {most:,} are shown." if is_cut else "")))


def _note_of(hits: pa.Table) -> str:
    note: bytes = (hits.schema.metadata or {}).get(b"note", b"")
    return note.decode()
