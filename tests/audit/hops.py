"""How many files of memkit one note passes through: read, fitted on words, traced.

    python tests/audit/hops.py [CHECKOUT]

Every function that is entered tells its file (`sys.setprofile`); what importing a module runs does not count, as
everything runs once before. Fewer files mean that a stranger who follows one note has fewer to open.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

CHECKOUT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
NOTE = """---
id: 6f1c2a34-5b7d-4e8f-9a0b-1c2d3e4f5a6b
subject: Connection pool
keywords: [pool, postgres]
applies_to: global
created_at: 2026-02-01T10:00:00Z
updated_at: 2026-02-01T10:00:00Z
---
The pool holds ten connections.
"""


def stages(mk: Any, folder: Path) -> dict[str, Callable[[], object]]:
    """What is done with the note, one thing after the other."""
    made: dict[str, Any] = {}
    return {
        "read": lambda: made.update(corpus=mk.read(folder)),
        "fitted on words": lambda: made.update(search=mk.Retriever(encoder=None).fit(made["corpus"])),
        "traced": lambda: made["search"].trace("pool", as_of="2026-03-01"),
    }


def entered(work: Callable[[], object], package: Path) -> set[str]:
    """The files of `package` of which `work` enters a function, in any thread."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # the way to end it
    return {str(Path(name).relative_to(package)) for name in files if Path(name).is_relative_to(package)}


def main() -> None:
    sys.path.insert(0, str(CHECKOUT))
    import memkit as mk

    package, seen = Path(mk.__file__).parent, set[str]()
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "note.md").write_text(NOTE, encoding="utf-8")
        for work in stages(mk, Path(name)).values():
            work()
        for stage, work in stages(mk, Path(name)).items():
            files = entered(work, package)
            print(f"{stage}: {len(files)} files, {len(files - seen)} of them new")
            print("".join(f"    {'+' if file not in seen else ' '} {file}\n" for file in sorted(files)), end="")
            seen |= files
    print(f"{len(seen)} files of {CHECKOUT}")


if __name__ == "__main__":
    main()
