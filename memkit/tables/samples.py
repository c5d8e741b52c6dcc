"""Folders to try memkit on: the sample corpus, and small folders for examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from memkit.base.params import current_names, path_of
from memkit.errors import FormatError


def sample_data() -> Path:
    """The folder of the sample corpus: an invented bot project in all five formats, in Russian and English.

    Its folder ``broken/`` has one defect in each sub-folder; `memkit.read` skips it unless you name it.

    Returns
    -------
    Path
        ``data/`` of the checkout, or its copy in the installed package.

    Raises
    ------
    FormatError
        Where neither exists.

    Examples
    --------
    >>> sorted(path.name for path in sample_data().iterdir() if path.is_dir())[:5]
    ['broken', 'facts', 'index_tree', 'index_tree_old', 'labels']
    """
    return find_data(Path(__file__).parents[1])


def find_data(package: Path) -> Path:
    """The sample corpus of the package in folder `package`: inside of a wheel, beside the package in a checkout."""
    for folder in (package / "_shipped" / "data", package.parent / "data"):
        # Some other project's data/ may lie beside an installed package; broken/ tells ours.
        if (folder / "broken").is_dir():
            return folder
    raise FormatError(
        f"sample_data: expected _shipped/data in the package or data/ beside it. Got neither at {package}; "
        "install memkit again."
    )


@current_names
def write_files(path: str | Path, files: Mapping[str, str | bytes]) -> Path:
    """Write a few files below `folder` and return it, so that an example fits in one expression.

    Parameters
    ----------
    path : str or Path
        Created if missing.
    files : mapping of str to str or bytes
        Content by path relative to `path`; text is written as UTF-8 with its line ends unchanged.

    Returns
    -------
    Path

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = mk.read(write_files(folder, {"MEMORY.md": "# Чай\\nБез сахара.\\n"}))
    >>> corpus.memories["title"].to_pylist()
    ['Чай']
    """
    root = path_of("write_files", path)
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return root
