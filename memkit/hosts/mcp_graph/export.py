"""Memories as a graph of the MCP memory server."""

from __future__ import annotations

import json
from datetime import datetime

from memkit.extend.exports import Job, bodies, end_or_none, name_of, place_head, refuse_unjudged, time_text
from memkit.extend.reading import Row, first_words


def write(job: Job) -> None:
    """An entity a title, an observation a memory, as strings: the server knows no others, so an entity has one date."""
    job.out.is_paged = False
    entities: dict[str, Row] = {}
    ends: dict[str, set[datetime | None]] = {}
    names: dict[str, str] = {}
    for group in job.groups:
        if refuse_unjudged(group, job, other_kinds=("index",)):
            continue
        for row in bodies(group, job):
            if group.is_page:
                name = name_of(group)
                if row["title"] and row["title"] != name:
                    job.out.reasons[row["memory_id"]] = "its entity is the page; its own heading stands in the text"
            else:
                name = row["source_id"] if row["format"] == "mcp_graph" else row["title"] or first_words(row["text"])
            name = names[row["memory_id"]] = " ".join(str(name).split()) or "memory"
            entity = entities.setdefault(name, {"type": "entity", "name": name, "entityType": "", "observations": []})
            entity["entityType"] = entity["entityType"] or row["scope"] or row["kind"] or "memory"
            if row["created_at"] and "createdAt" not in entity:
                entity["createdAt"] = time_text(row["created_at"])
            ends.setdefault(name, set()).add(row["expires_at"])
            text = row["text"].strip("\n")
            if row["kind"] != "entity":
                entity["observations"].append(text)
            job.out.places[row["memory_id"]] = "memory.jsonl", (name, text)
        if group.is_page:
            names[group.rows[0]["memory_id"]] = name_of(group)  # its links are from the page
        place_head(group, job)
    relations = [
        {"type": "relation", "from": names[link.from_id], "to": names[link.to_id], "relationType": link.type}
        for from_one in job.links.values()
        for link in from_one
        if link.from_id in names and link.to_id in names
    ]
    for name, entity in entities.items():
        if len(ends[name]) == 1 and (end := end_or_none(*ends[name])):
            entity["expires_at"] = end
        entity["observations"] = list(dict.fromkeys(entity["observations"]))
    lines = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in [*entities.values(), *relations]]
    if lines:
        job.out.files["memory.jsonl"] = "\n".join(dict.fromkeys(lines))
