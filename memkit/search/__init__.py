"""Hybrid search: normalise, fuse, decay, diversify, and show the work."""
