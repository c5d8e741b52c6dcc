"""How many files of memkit work passes through: a note to a traced hit, a judged query to a tuned setting, an edit
from its plan to its undo.

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


Stages = dict[str, Callable[[], object]]


def a_note(mk: Any, folder: Path) -> Stages:
    """A note, from reading to a traced hit."""
    state: dict[str, Any] = {}
    return {
        "read": lambda: state.update(corpus=mk.read(folder)),
        "fitted on words": lambda: state.update(search=mk.Retriever(encoder=None).fit(state["corpus"])),
        "traced": lambda: state["search"].trace("pool", as_of="2026-03-01"),
    }


def a_judged_query(mk: Any, folder: Path) -> Stages:
    """A judged query, from its labels to a tuned setting; corpus and search are there."""
    search = mk.Retriever(encoder=None).fit(mk.read(folder))
    memory_id = search.corpus_.memories["memory_id"][0].as_py()
    state: dict[str, Any] = {}
    queries = {"query_id": ["q1", "q2"], "text": ["pool", "ten connections"]}
    qrels = {"query_id": ["q1", "q2"], "memory_id": [memory_id] * 2, "relevance": [1, 1]}
    return {
        "labels read": lambda: state.update(labels=(mk.labels.read_queries(queries), mk.labels.read_qrels(qrels))),
        "tuned": lambda: mk.tune(search, *state["labels"], {"bm25_weight": [0.2, 0.4]}, "mrr", as_of="2026-03-01"),
    }


def an_edit(mk: Any, folder: Path) -> Stages:
    """An edit, from its plan to its undo; the corpus is there."""
    mk.testing.write_files(folder, {"users/anna/archive.md": "- [id:ar_1] [t:archive] [imp:normal] Чай\n"})
    corpus = mk.read(folder)
    state: dict[str, Any] = {}
    return {
        "planned": lambda: state.update(edits=mk.plan(corpus, mk.Admission())),
        "applied": lambda: state["edits"].apply(force=True),
        "undone": lambda: mk.undo(folder),
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

    package = Path(mk.__file__).parent
    for path in (a_note, a_judged_query, an_edit):
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "note.md").write_text(NOTE, encoding="utf-8")
            for work in path(mk, Path(name)).values():
                work()
            read, rooms = set[str](), set[str]()
            for stage, work in path(mk, Path(name)).items():
                files = entered(work, package)
                print(f"{stage}: {len(files)} files, {len(files - read)} of them new")
                print("".join(f"    {'+' if file not in read else ' '} {file}\n" for file in sorted(files)), end="")
                read |= files
                rooms |= {file.partition("/")[0] for file in files}
        print(f"{path.__name__.replace('_', ' ')}: {len(read)} files in {len(rooms)} rooms of {CHECKOUT}\n")


TINY = ""


if __name__ == "__main__":
    main()
