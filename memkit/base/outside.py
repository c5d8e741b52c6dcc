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
    "memkit.folders": {"git": "memkit.past.reading"},
    "memkit.lakes": {
        "buckets": "memkit.scale.buckets",
        "split": "memkit.scale.split",
        "index": "memkit.scale.index",
        "engine": "memkit.scale.engine",
    },
    "memkit.prompts": {"claude": "memkit.hosts.claude:PROMPT", "hermes": "memkit.hosts.hermes:PROMPT"},
    "memkit.exports": {
        "basic-memory": "memkit.hosts.basic_memory.export:write",
        "mcp-graph": "memkit.hosts.mcp_graph.export:write",
    },
    "memkit.overviews": {"projects": "memkit.hosts.claude.overview:projects"},
    "memkit.commands": {
        "budget": "memkit.hosts.claude.commands:budget",
        "add-entry": "memkit.hosts.hermes.commands:add_entry",
        "add-observation": "memkit.hosts.mcp_graph.commands:add_observation",
    },
}
"""By group of entry points, name to ``module:object``."""
ROOMS = ("memkit.explore", "memkit.hosts", "memkit.past", "memkit.scale")
"""The rooms outside of the core."""
