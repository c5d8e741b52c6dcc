"""Records in use: wisdom facts supported and contradicted, pathways ranked, stale pathways."""

from memkit.tables.records import rank_pathways, stale_pathways, wisdom_support

__all__ = ["rank_pathways", "stale_pathways", "wisdom_support"]
