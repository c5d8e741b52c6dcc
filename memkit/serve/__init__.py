"""The documents' tools over the stores, as an MCP server. The SDK is an extra, imported only when a server is made."""
