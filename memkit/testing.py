"""Folders for tests and examples, made from a mapping of paths to texts."""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
