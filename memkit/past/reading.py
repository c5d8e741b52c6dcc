"""What `memkit.read` reads from git: the files of a revision, and dates for memories without a date of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import FormatError
from memkit.extend.reading import Rows
from memkit.extend.showing import rows_of
from memkit.formats.reader import Reading, add_problems, with_dates
from memkit.past.repository import opened
from memkit.past.tree import Tree, tree_of
from memkit.past.versions import versions_of

_MADE = """
select m.place, v.text is not null as is_committed, v.made, v.changed, v.is_first
from undated m left join (
    select arg_max(memory_id_then, version) as memory_id, arg_max(text, version) as text,
        min(valid_from) as made, bool_or(at_start) as is_first,
        max(valid_from) filter (where change <> 'removed' and (change <> 'moved' or lines_added + lines_removed > 0))
            as changed
    from versions group by memory_id
    having arg_max(change, version) <> 'removed'
) v on v.memory_id = m.memory_id and rtrim(v.text, e' \\n\\t\\r') = rtrim(m.text, e' \\n\\t\\r')
order by m.place
"""


@contextmanager
def listed(root: Path, rev: str, max_file_bytes: int, hidden: str) -> Iterator[Tree]:
    """The files of a revision, to be read within the block."""
    with opened(root) as repository:
        yield tree_of(repository, root, repository.commit(rev), max_file_bytes, hidden)


def date(reading: Reading) -> None:
    """Date memories without a date of their own by the commits that added and last changed them."""
    rows = Rows(reading.options.rules)
    _date_by_git(reading, rows)
    if rows.tables["problems"]:
        add_problems(reading, rows)


def _date_by_git(result: Reading, rows: Rows) -> None:
    memories = result.tables["memories"]
    is_undated = pc.is_null(memories["date_source"])
    if not pc.any(is_undated).as_py():
        return
    try:
        versions = versions_of(result.root, result.options.rev or "HEAD", rows)[0]
    except FormatError as error:
        rows.problem("no_repository", ".", "a folder of a git repository", str(error), quote=False)
        return
    places = pa.array(range(len(memories)), pa.int64())
    undated = memories.select(["memory_id", "text", "path", "line_start"]).append_column("place", places)
    undated = undated.filter(is_undated)
    dates = rows_of(_MADE, undated=undated, versions=versions)
    for row, is_known in zip(undated.to_pylist(), dates["is_committed"].to_pylist(), strict=True):
        if not is_known:
            where = {"line": row["line_start"], "field": "created_at", "memory_id": row["memory_id"]}
            rows.problem("uncommitted", row["path"], "from a text that is committed", "another", quote=False, **where)
    source = pc.if_else(dates["is_first"], "git_first", "git")
    mask = is_undated.combine_chunks()
    made_at, changed_at = dates["made"].combine_chunks(), dates["changed"].combine_chunks()
    result.tables["memories"] = with_dates(memories, mask, made_at, changed_at, source.combine_chunks())
