"""The moment that a question is asked about: a day or a time, in UTC, kept with the answer."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pyarrow as pa

from memkit.errors import ParameterError

AsOf = str | date | datetime | None


def as_of_time(as_of: AsOf) -> datetime:
    """The moment that `as_of` names, in UTC; None is now, the one place where memkit reads the clock.

    Raises
    ------
    ParameterError
        Where `as_of` is no date or time stamp.

    Examples
    --------
    >>> as_of_time("2026-03-01")
    datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> as_of_time("2026-03-01T12:00:00+03:00").hour
    9
    """
    if as_of is None:
        return datetime.now(UTC)
    try:
        if as_of != as_of:  # NaT is a datetime, and no moment
            raise ValueError("not a time")
        if isinstance(as_of, str) and "\0" in as_of:  # the text is read only up to there
            raise ValueError("a NUL")
        moment = datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise ParameterError(f"'as_of' must be a date, a datetime or an ISO 8601 string. Got {as_of!r}.") from error


def record_as_of(table: pa.Table, moment: datetime) -> pa.Table:
    """`table` with the moment kept in its schema metadata under ``as_of`` (ISO 8601, UTC)."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"as_of": moment.isoformat().encode()})
