"""What a writer of a layout is written with: ``write(job)``, which `memkit.export` then reads back and compares.

A layout of pages is ``write = pages(head)``, where ``head(group, job)`` is the front matter of one page. Any other
goes through ``job.groups`` by itself, and fills ``job.out``: files, places, and what it refused with its reason.
"""

from memkit.change.export import (
    Group,
    Job,
    bodies,
    end_or_none,
    name_of,
    pages,
    place_head,
    refuse_unjudged,
    time_text,
    vault_head,
)

__all__ = [
    "Group",
    "Job",
    "bodies",
    "end_or_none",
    "name_of",
    "pages",
    "place_head",
    "refuse_unjudged",
    "time_text",
    "vault_head",
]
