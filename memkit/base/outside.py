"""memkit's own additions, listed as the entry points of a package are; no other module of the core names one.

``MEMKIT_PLUGINS=core`` leaves them out, and what installed packages bring with them.
"""

from __future__ import annotations

OUTSIDE = {
    "memkit.formats": {
        "mcp_graph": "memkit.hosts.mcp_graph:FORMAT",
        "hermes": "memkit.hosts.hermes:FORMAT",
        "claude": "memkit.hosts.claude:FORMAT",
        "memfs": "memkit.hosts.memfs:FORMAT",
        "serena": "memkit.hosts.serena:FORMAT",
        "basic_memory": "memkit.hosts.basic_memory:FORMAT",
    },
    "memkit.stores": {
        "hermes": "memkit.hosts.hermes.store:HermesStore",
        "graph": "memkit.hosts.mcp_graph.store:GraphStore",
        "basic_memory": "memkit.hosts.basic_memory.store:BasicMemoryStore",
        "memfs": "memkit.hosts.memfs.store:MemfsStore",
        "serena": "memkit.hosts.serena.store:SerenaStore",
        "claude": "memkit.hosts.claude.store:ClaudeStore",
    },
    "memkit.folders": {"git": "memkit.past.history"},
    "memkit.lakes": {
        "buckets": "memkit.scale.buckets",
        "index": "memkit.scale.index",
        "engine": "memkit.scale.engine",
    },
    "memkit.prompts": {"claude": "memkit.hosts.claude:PROMPT", "hermes": "memkit.hosts.hermes:PROMPT"},
    "memkit.exports": {
        "basic-memory": "memkit.hosts.basic_memory.store:write",
        "mcp-graph": "memkit.hosts.mcp_graph.store:write",
    },
    "memkit.overviews": {"projects": "memkit.hosts.claude:projects"},
    "memkit.panels": {"map": "memkit.explore.map_panel:MapPanel"},
    "memkit.plots": {
        "links": "memkit.explore.pictures:links",
        "map": "memkit.explore.places:map",
        "timeline": "memkit.explore.pictures:timeline",
        "topics": "memkit.explore.pictures:topics",
        "alive": "memkit.past.history:alive",
        "changes": "memkit.past.history:changes",
    },
    "memkit.commands": {
        "digest": "memkit.explore.commands:digest",
        "history": "memkit.past.commands:history",
        "budget": "memkit.hosts.claude.store:budget",
        "add-entry": "memkit.hosts.hermes.store:add_entry",
        "add-observation": "memkit.hosts.mcp_graph.store:add_observation",
    },
}
"""By group of entry points, name to ``module:object``."""
ROOMS = ("memkit.explore", "memkit.hosts", "memkit.past", "memkit.scale")
"""The rooms outside of the core."""
