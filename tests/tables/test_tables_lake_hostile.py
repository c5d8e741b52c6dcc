"""A lake of somebody else: nothing in it runs, nothing outside of it is read or moved, and what is odd is one error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memkit as mk
from memkit.errors import FormatError, MemkitError
from memkit.schemas import TABLES
from memkit.tables import untrusted
from memkit.tables.fts import TEXT_INDEX
from memkit.tables.lake import VERSION, is_lake
from memkit.tables.samples import write_files

SOURCE = {"docs/a.md": "# пул соединений\n", "users/u/profile.md": "- [id:a] [t:profile] [imp:high] чай\n"}
SECRET = "пароль соседа"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    mk.read(write_files(folder / "source", SOURCE)).save(folder / "lake")
    return folder / "lake"


@pytest.fixture
def lake(template: Path, tmp_path: Path) -> Path:
    """A lake of its own for each test, beside a folder that is none of its business."""
    shutil.copytree(template, tmp_path / "lake")
    write_files(tmp_path / "victim", {"secret.txt": SECRET, "notes/mine.md": "# моё\n"})
    return tmp_path / "lake"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def save_of(lake: Path) -> Path:
    """The one save of a lake."""
    (save,) = lake.glob("saved-*")
    return save


def change(lake: Path, **values: Any) -> None:
    """Set values of the manifest by their path, ``__`` between its parts."""
    document = json.loads((save_of(lake) / "manifest.json").read_text())
    for path, value in values.items():
        node = document
        *above, last = path.split("__")
        for name in above:
            node = node[name]
        node[last] = value
    (save_of(lake) / "manifest.json").write_text(json.dumps(document))


def sign(lake: Path, **changes: Any) -> None:
    """Give every file that the manifest names the hash that it now has, as a forger would."""
    files = json.loads((save_of(lake) / "manifest.json").read_text())["files"]
    for name in files:
        if (save_of(lake) / name).is_file():
            files[name] = blake2b((save_of(lake) / name).read_bytes(), digest_size=16).hexdigest()
    change(lake, files=files, **changes)


def rewrite(lake: Path, name: str, to: Callable[[pa.Table], pa.Table]) -> None:
    table = pq.read_table(save_of(lake) / f"{name}.parquet")
    pq.write_table(to(table), save_of(lake) / f"{name}.parquet")
    sign(lake)


@pytest.mark.quick
def test_a_forger_who_changes_nothing_is_not_noticed(lake: Path) -> None:
    for name in [*TABLES, *(f"fts/{name}" for name in TEXT_INDEX)]:
        rewrite(lake, name, lambda table: table)
    assert mk.open(lake).sql("select memory_id from fts('пулы')").fetchall() == [
        ("workspace:docs/a.md#пул-соединений",)
    ]


@pytest.mark.quick
def test_a_view_or_macro_of_its_database_never_runs(lake: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim" / "secret.txt"
    (lake / "corpus.duckdb").unlink()
    with duckdb.connect(str(lake / "corpus.duckdb")) as con:
        con.execute(f"""
            create macro lower(x) as (select content from read_text('{victim}'));
            create view memories as select content as memory_id, content as text from read_text('{victim}');
            create schema memkit; create view memkit.memories as from memories;
            create macro fts(query, k := 10) as table select text as memory_id, 1.0 as score from memories;
        """)  # noqa: S608  # a name of this test's
    corpus = mk.open(lake)
    rows = corpus.sql("select lower(text), * from memories").fetchall() + corpus.sql("from fts('пароль')").fetchall()
    assert SECRET not in str(rows)
    assert corpus.sql("select lower('А')").fetchall() == [("а",)]


@pytest.mark.quick
@pytest.mark.parametrize("way", ["open", "save"])
@pytest.mark.parametrize("name", [".saving-x", f"saved-{'0' * 32}"])
def test_an_unfinished_save_that_is_a_link_moves_nothing(lake: Path, tmp_path: Path, way: str, name: str) -> None:
    victim = tmp_path / "victim"
    shutil.copytree(lake, victim, dirs_exist_ok=True)
    (lake / name).symlink_to(victim)
    victim_before, lake_before = files_of(victim), files_of(lake)
    with pytest.raises(FormatError, match=rf"{name}: expected a file or folder. Got a link"):
        mk.open(lake) if way == "open" else mk.from_table({"text": ["кофе"]}).save(lake)
    assert (files_of(victim), files_of(lake)) == (victim_before, lake_before)


INSIDE = ["memories.parquet", "manifest.json", "state", "fts", "fts/terms.parquet", "vectors", "vectors/arm"]


@pytest.mark.parametrize("name", ["memkit.json", "saved", *INSIDE])
def test_a_member_that_is_a_link_is_refused_and_nothing_moves(lake: Path, tmp_path: Path, name: str) -> None:
    write_files(save_of(lake), {"vectors/arm/a.txt": "x"})
    victim = shutil.copytree(lake, tmp_path / "victim" / "lake")
    path = {"memkit.json": lake / name, "saved": save_of(lake)}.get(name, save_of(lake) / name)
    target = victim / path.relative_to(lake)
    path.unlink() if path.is_file() else shutil.rmtree(path)
    path.symlink_to(target)
    victim_before, lake_before = files_of(tmp_path / "victim"), files_of(lake)
    for action in (lambda: mk.open(lake), lambda: mk.from_table({"text": ["кофе"]}).save(lake)):
        with pytest.raises(FormatError, match=rf"{path.name}: expected a file or folder. Got a link"):
            action()
    assert (files_of(tmp_path / "victim"), files_of(lake)) == (victim_before, lake_before)


POINTED = ["../victim", "saved-", "saved-x", "", ".", None, 5, [], {}, f"saved-{'0' * 32}/..", f"saved-{'0' * 31}A"]


@pytest.mark.quick
def test_folders_deeper_than_python_calls_are_looked_through_for_links(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(1_200):
        deep = deep / "q"
        deep.mkdir()
    try:
        untrusted.refuse_links(tmp_path, below=True)
        (deep / "link").symlink_to(tmp_path)
        with pytest.raises(FormatError, match="Got a link"):
            untrusted.refuse_links(tmp_path, below=True)
    finally:  # what cleans up after tests is recursive
        (deep / "link").unlink(missing_ok=True)
        os.removedirs(deep)


@pytest.mark.parametrize("name", POINTED, ids=str)
def test_a_pointer_names_only_a_save_beside_it_and_else_nothing_is_removed(lake: Path, name: object) -> None:
    save = save_of(lake)
    (lake / f"saved-{'0' * 32}").mkdir()
    (lake / "memkit.json").write_text(json.dumps({"save": name}))
    before = files_of(lake)
    with pytest.raises(FormatError, match=r"memkit\.json: expected the name of a save"):
        mk.open(lake)
    assert files_of(lake) == before
    mk.from_table({"text": ["кофе"]}).save(lake)
    assert mk.open(lake).memories["text"].to_pylist() == ["кофе"]
    assert save_of(lake) != save


def test_a_lake_of_the_layout_of_old_is_told_from_none_and_is_not_written_over(lake: Path, tmp_path: Path) -> None:
    old = shutil.copytree(save_of(lake), tmp_path / "old")
    document = json.loads((old / "manifest.json").read_text())
    (old / "manifest.json").write_text(json.dumps({**document, "version": VERSION - 1}))
    with pytest.raises(FormatError, match=f"version {VERSION}. Got {VERSION - 1}; read the folder again"):
        mk.open(old)
    before = files_of(old)
    with pytest.raises(MemkitError, match="it holds a lake of an older memkit"):
        mk.from_table({"text": ["кофе"]}).save(old)
    assert files_of(old) == before


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\ufeff{}", '{"version": ' + "9" * 5000 + "}", "[" * 99999])
@pytest.mark.parametrize("name", ["manifest.json", "memkit.json"])
def test_a_manifest_that_is_no_json_object_is_refused_until_a_save(lake: Path, name: str, content: str) -> None:
    (lake / name if name == "memkit.json" else save_of(lake) / name).write_text(content)
    with pytest.raises(FormatError, match="expected"):
        mk.open(lake)
    mk.from_table({"text": ["кофе"]}).save(lake)
    assert mk.open(lake).memories["text"].to_pylist() == ["кофе"]


NAMES = ["../../secret.parquet", "/etc/passwd", "a\\..\\b", "c:x.parquet", "state/../../x", "state//x", "", ".hidden",
         'x" as select 1; --.parquet', "a\x00b", "state/\x1b[2J.parquet", "x.txt", "Memories.parquet"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_names_only_files_inside(lake: Path, name: str) -> None:
    files = json.loads((save_of(lake) / "manifest.json").read_text())["files"]
    change(lake, files={**files, name: "0" * 32})
    with pytest.raises(FormatError, match=r"manifest\.json"):
        mk.open(lake)


@pytest.mark.parametrize(
    "values",
    [
        {"version": "2"},
        {"version": 2.0},
        {"version": True},
        {"version": 0},
        {"version": None},
        {"files": []},
        {"files": {}},
        {"files__memories.parquet": 5},
        {"files__memories.parquet": None},
        {"files__memories.parquet": "../x"},
        {"files__memories.parquet": ["0" * 32]},
        {"source": 5},
        {"source__root": 5},
        {"source__root": "relative"},
        {"source__root": "~/x"},
        {"source__root": "/a\0b"},
        {"source__root": "/\ud800"},
        {"source__root": "http://example.com/x"},
        {"source__options": []},
        {"source__options": {"format": "notes", "unknown": 1}},
        {"source__options": {"rules": []}},
        {"source__options": {"progress": True}},
        {"source__options__format": "pickle"},
        {"source__options__format": ["notes"]},
        {"source__options__as_of": "вчера"},
        {"source__options__as_of": "2026-01-01"},
        {"source__options__as_of": 5},
        {"source__options__as_of": {}},
        {"source__options__plugin_globs": 5},
        {"source__options__plugin_globs": "**"},
        {"source__options__plugin_globs": [5]},
        {"source__options__max_file_bytes": 0},
        {"source__options__max_file_bytes": True},
        {"source__options__max_file_bytes": "64"},
        {"source__options__max_file_bytes": 1e9},
        {"source__options__n_jobs": 0},
        {"source__options__n_jobs": "4"},
        {"source__options__n_jobs": 1.5},
        {"source__options__n_jobs": True},
    ],
    ids=str,
)
def test_a_manifest_with_values_of_other_kinds_is_refused(lake: Path, values: dict[str, object]) -> None:
    change(lake, **values)
    with pytest.raises(FormatError, match=r"manifest\.json: expected"):
        mk.open(lake)


def test_a_manifest_without_one_of_the_tables_is_refused(lake: Path) -> None:
    files = json.loads((save_of(lake) / "manifest.json").read_text())["files"]
    del files["facts.parquet"]
    change(lake, files=files)
    with pytest.raises(FormatError, match="no table facts"):
        mk.open(lake)


def test_no_more_processes_are_started_than_there_are_cores(lake: Path) -> None:
    change(lake, source__options__n_jobs=100_000)
    reading = mk.open(lake)._reading
    assert reading is not None
    assert reading.options.n_jobs == os.cpu_count()


@pytest.mark.parametrize("version", [*range(1, VERSION), VERSION + 1, 10**30])
def test_a_lake_of_another_version_is_refused_with_what_to_do(lake: Path, version: int) -> None:
    change(lake, version=version)
    message = (
        rf"manifest.json: expected a saved corpus of version {VERSION}. Got {version}; read the folder again and save"
    )
    with pytest.raises(FormatError, match=message):
        mk.open(lake)
    mk.from_table({"text": ["кофе"]}).save(lake)
    assert mk.open(lake).memories["text"].to_pylist() == ["кофе"]


def with_column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.schema.get_field_index(name), name, values)


FAR = pa.array([2**63 - 1, None], pa.timestamp("us", "UTC"))
BAD_TEXT = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
FOREIGN: dict[str, tuple[str, Callable[[pa.Table], pa.Table]]] = {
    "another table": ("memories", lambda table: pa.table({"a": [1]})),
    "no column": ("memories", lambda table: table.select([])),
    "a column less": ("memories", lambda table: table.drop_columns(["scope"])),
    "a column more": ("memories", lambda table: table.append_column("x", [["a", "b"]])),
    "another order": ("memories", lambda table: table.select(table.column_names[::-1])),
    "a column twice": ("memories", lambda table: table.append_column("text", table["text"])),
    "a number for a text": ("memories", with_column("text", [[1, 2]])),
    "bytes for a text": ("memories", with_column("text", [[b"a", b"b"]])),
    "a dictionary for a text": ("memories", lambda t: with_column("text", t["text"].dictionary_encode())(t)),
    "a text for tags": ("memories", with_column("tags", [["a", "b"]])),
    "lists of numbers for tags": ("memories", with_column("tags", [[[1], [2]]])),
    "a date without a zone": ("memories", with_column("created_at", [pa.nulls(2, pa.timestamp("us"))])),
    "a date past all calendars": ("memories", with_column("expires_at", FAR)),
    "no id": ("memories", with_column("memory_id", [[None, "a"]])),
    "no text": ("memories", with_column("text", [["a", None]])),
    "an id twice": ("memories", with_column("memory_id", [["a", "a"]])),
    "text that is no UTF-8": ("memories", with_column("text", pa.chunked_array([BAD_TEXT]))),
    "problems without a message": ("problems", lambda table: table.drop_columns(["message"])),
    "facts of another kind": ("facts", lambda table: pa.table({"memory_id": ["a"]})),
    "an index of texts": ("fts/postings", lambda table: pa.table({"termid": ["a"], "docid": ["b"], "tf": ["c"]})),
    "an index without lengths": ("fts/docs", lambda table: table.drop_columns(["len"])),
    "names that are numbers": ("fts/docs", with_column("name", [[1, 2]])),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_table_of_a_foreign_schema_is_refused_by_name(lake: Path, case: str) -> None:
    name, to = FOREIGN[case]
    rewrite(lake, name, to)
    with pytest.raises(FormatError, match=rf"{name}\.parquet: expected"):
        mk.open(lake)


@pytest.mark.parametrize("name", ["facts.parquet", "fts/terms.parquet"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "folder", "pipe", "text", "empty", "other"])
def test_a_file_that_is_not_what_was_saved_is_refused_by_name(lake: Path, damage: str, name: str) -> None:
    path = save_of(lake) / name
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)
    elif damage == "other":
        pq.write_table(pa.table({"a": [1]}), path)
    elif damage != "gone":
        data[len(data) // 2] ^= 255
        path.write_bytes({"cut": data[: len(data) // 2], "flip": data, "text": b"no parquet", "empty": b""}[damage])
    with pytest.raises(FormatError, match=name.replace(".", r"\.")):
        mk.open(lake)
    if damage in ("cut", "text", "empty"):
        sign(lake)
        with pytest.raises(FormatError, match="expected a Parquet file"):
            mk.open(lake)


def test_a_small_file_that_unpacks_to_very_much_is_refused_unless_it_is_trusted(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "FREE_BYTES", 2**20)
    rows = 2**22
    pq.write_table(
        pa.table({"n": pa.array([7] * rows, pa.int64())}), save_of(lake) / "huge.parquet", compression="zstd"
    )
    assert (save_of(lake) / "huge.parquet").stat().st_size < 8 * rows / 1000
    files = json.loads((save_of(lake) / "manifest.json").read_text())["files"]
    change(lake, files={**files, "huge.parquet": ""})
    sign(lake)
    with pytest.raises(
        FormatError, match=rf"huge\.parquet: expected at most 1048576 bytes .* Got {8 * rows}; .*trust=True"
    ):
        mk.open(lake)
    assert mk.open(lake, trust=True).tables["huge"].num_rows == rows


def test_a_root_that_nobody_gave_is_not_followed(lake: Path, tmp_path: Path) -> None:
    change(lake, source__root=str(tmp_path / "victim"))
    with pytest.raises(MemkitError, match=r"victim.*this process did not name.*source=.*trust=True"):
        mk.open(lake).refresh()
    assert mk.open(lake, trust=True).refresh().memories["title"].to_pylist() == ["моё"]
    folder = write_files(tmp_path / "given", {"a.md": "# данное\n"})
    assert mk.open(lake, source=folder).refresh().memories["title"].to_pylist() == ["данное"]


def test_a_root_that_was_read_in_this_process_is_followed_also_when_saved_again(lake: Path, tmp_path: Path) -> None:
    mk.open(lake).save(tmp_path / "copy")
    assert mk.open(tmp_path / "copy").refresh().memories.equals(mk.open(lake).memories)


def test_a_corpus_that_may_not_be_followed_is_saved_with_its_root(lake: Path, tmp_path: Path) -> None:
    change(lake, source__root=str(tmp_path / "victim"))
    mk.open(lake).save(tmp_path / "copy")
    assert mk.open(tmp_path / "copy", trust=True).refresh().memories["title"].to_pylist() == ["моё"]


@pytest.mark.parametrize("nulls", [False, True])
def test_a_state_that_names_other_files_reads_none_of_them(lake: Path, tmp_path: Path, nulls: bool) -> None:
    paths = ["../victim/secret.txt", str(tmp_path / "victim" / "secret.txt"), None if nulls else "docs/a.md"]
    ones = [1, 1, 1]
    state = pa.table(
        {"path": paths, "size": ones, "mtime_ns": ones, "ctime_ns": ones, "digest": ["x"] * 3, "role": [""] * 3}
    )
    rewrite(lake, "state/files", lambda table: state)
    refreshed = mk.open(lake, trust=True).refresh()
    assert refreshed.memories["text"].to_pylist() == mk.open(lake).memories["text"].to_pylist()
    assert SECRET not in str(refreshed.tables)


ODD_NAMES = ["q?m", "md:x", "s3:x", "http:x", ":memory:", "~x", "file:x", "a*[b]", "it's; ы", "x?access_mode=read_only"]


def test_a_relative_path_that_looks_like_an_address_is_one_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    corpus = mk.from_table({"text": ["Пул соединений"]})
    for number, name in enumerate(ODD_NAMES):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        with subtests.test(name):
            for path in (name, Path(name) / "below") if name == "s3:x" else (name,):
                corpus.save(path)
                assert (tmp_path / str(number) / path / "corpus.duckdb").is_file()
                assert mk.open(path).sql("select memory_id from fts('пулы')").fetchall() == [("0",)]
            assert {path.name for path in (tmp_path / str(number)).iterdir()} == {name}


@pytest.mark.parametrize("action", [mk.from_table({"text": ["чай"]}).save, mk.open])
def test_a_folder_whose_name_is_no_utf_8_gets_a_message(tmp_path: Path, action: Callable[[Path], object]) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))
    with pytest.raises(MemkitError, match="expected a folder whose name is UTF-8"):
        action(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_file_of_that_name_of_another_program_is_none(lake: Path, tmp_path: Path) -> None:
    for content in ("no json", "[]", '{"theme": "dark"}'):
        assert not is_lake(write_files(tmp_path / "notes", {"memkit.json": content}))
    (lake / "memkit.json").write_text("no json")
    assert is_lake(lake)  # whose save lies beside
