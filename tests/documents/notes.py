"""The Memory Format's folder: its notes as its examples have them, each with an id of version 4."""

from __future__ import annotations

from pathlib import Path

import memkit as mk

ID = "550e8400-e29b-41d4-a716-446655440000"

POOL = """\
---
id: 550e8400-e29b-41d4-a716-446655440000
subject: Database connection pooling settings
keywords:
  - database
  - postgres
  - connection-pool
  - performance
applies_to: area:database
created_at: 2025-01-17T09:15:00Z
updated_at: 2025-01-18T11:30:00Z
---

# Database Connection Pooling

The pool has these settings:

| Setting | Value |
|---------|-------|
| max | 10 |
"""


def written(id: str, heading: str = "# Auth middleware requires user context\n\n") -> str:
    """The file of a note that is made with `NEW_NOTE`."""
    return f"""\
---
id: {id}
subject: Auth middleware requires user context
keywords:
  - auth
  - user-context
applies_to: file:src/middleware/auth.ts
created_at: 2025-01-16T14:20:00Z
updated_at: 2025-01-16T14:20:00Z
---

{heading}Unauthenticated requests get no user.
"""


NEW_NOTE = (
    "Auth middleware requires user context",
    ["auth", "user-context"],
    "file:src/middleware/auth.ts",
    "Unauthenticated requests get no user.",
)
"""Subject, keywords, applies_to and content."""


def build(root: Path) -> Path:
    """A folder with one note, named after its id, where such notes lie."""
    return mk.testing.write_files(root, {f"memories/{ID}.md": POOL})
