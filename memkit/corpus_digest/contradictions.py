"""What is new and contradicts something older: the one place where a digest asks for contradictions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memkit.corpus_digest.span import Span
from memkit.policy.contradictions import contradictions as contradictions_of
from memkit.schemas import TIMESTAMP


def contradictions(span: Span) -> pa.Table:
    """The contradictions whose newer memory was added or changed within the span, as `contradictions_of` lists them."""
    found = contradictions_of(span.after, as_of=span.until)
    is_new = pc.is_in(found["by_id"], value_set=span.changes["memory_id"])
    is_within = pc.greater_equal(found["newer_at"], pa.scalar(span.since, TIMESTAMP))
    return found.filter(pc.and_(is_new, is_within) if span.basis == "dates" else is_new)
