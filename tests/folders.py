"""What stands in a folder, to be held against what stood there before."""

from __future__ import annotations

from pathlib import Path


def tree(root: Path) -> dict[str, bytes]:
    """The files by path, memkit's own state aside."""
    paths = (path for path in sorted(root.rglob("*")) if path.is_file() and ".memkit" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def text_tree(root: Path) -> dict[str, str]:
    """The same as text; what is no UTF-8 differs where the bytes do."""
    return {path: data.decode("utf-8", "surrogateescape") for path, data in tree(root).items()}
