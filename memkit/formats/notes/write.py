"""Notes as text: front matter in the order of the format's document, then the body as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memkit.errors import FormatError
from memkit.formats.faults import length
from memkit.formats.fields import check_text
from memkit.formats.notes.batch import MIN_BODY
from memkit.formats.notes.format import FIELDS
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.yaml_places import block


def parse_note(text: str) -> tuple[dict[str, Any], str]:
    """The fields and the body of one note, as written.

    Raises
    ------
    FormatError
        Where it has no front matter that can be parsed.

    Examples
    --------
    >>> parse_note("---\\nid: 1\\nsubject: Чай\\n---\\nБез сахара.\\n")
    ({'id': '1', 'subject': 'Чай'}, 'Без сахара.\\n')
    """
    front = front_matter.split(text)
    if front is None or front.fault:
        raise FormatError(f"expected front matter. Got {text[:40]!r}.")
    return dict(front.fields), text[front.body_at :]


def format_note(fields: Mapping[str, Any], body: str) -> str:
    """The text that `parse_note` reads back as `fields` and `body`.

    Parameters
    ----------
    fields : mapping
        id, subject, keywords, applies_to, created_at, updated_at, and any others, which follow in their order.
    body : str
        As it is to stand below the front matter.

    Raises
    ------
    FormatError
        Where a field is missing or not as the format wants it; it names the field, what was expected and what came.

    Examples
    --------
    >>> print(format_note({"id": "550e8400-e29b-41d4-a716-446655440000", "subject": "Tea", "keywords": ["tea"],
    ...     "applies_to": "global", "created_at": "2025-01-15T10:30:00Z", "updated_at": "2025-01-15T10:30:00Z"},
    ...     "\\nWithout sugar.\\n"), end="")
    ---
    id: 550e8400-e29b-41d4-a716-446655440000
    subject: Tea
    keywords:
      - tea
    applies_to: global
    created_at: 2025-01-15T10:30:00Z
    updated_at: 2025-01-15T10:30:00Z
    ---
    <BLANKLINE>
    Without sugar.
    """
    FIELDS.strict(fields)
    if not length(MIN_BODY)(body):
        raise FormatError(f"field 'content' must be at least {MIN_BODY} characters. Got {body!r:.80}.", field="content")
    check_text({**fields, "content": body})
    order = [field.name for field in FIELDS.fields if field.name in fields]
    ordered = {name: fields[name] for name in [*order, *(name for name in fields if name not in FIELDS.names)]}
    return f"---\n{block(ordered, loose=True)}---\n{body}"
