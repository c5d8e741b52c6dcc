"""Memories as pages of basic-memory."""

from __future__ import annotations

from memkit.extend.exports import Group, Job, name_of, pages, vault_head
from memkit.extend.reading import Row


def _basic_head(group: Group, job: Job) -> Row:
    source_id = group.shared("source_id") if group.is_page else None
    permalink = source_id or job.paths[group.rows[0]["memory_id"]].removesuffix(".md")
    named = {"title": name_of(group), "type": group.shared("scope") or "note", "permalink": permalink}
    return {**named, **{name: value for name, value in vault_head(group, job).items() if name not in named}}


write = pages(_basic_head)
