"""Hosts of agents, a folder each: its format and rules, and what it has of a store, a prompt and an export."""
