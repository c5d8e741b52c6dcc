"""A corpus on disk: saved whole or not at all, opened whole or refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memkit as mk
from memkit.errors import FormatError, MemkitError, ParameterError
from memkit.formats.disk.files import Listing
from memkit.tables import database, fts, lake
from memkit.tables.lake import is_bucketed, is_lake
from memkit.tables.samples import sample_data, write_files

SOURCE = {"docs/a.md": "# пул соединений\n", "users/u/profile.md": "- [id:a] [t:profile] [imp:high] чай\n"}


def save_of(lake: Path) -> Path:
    """The one save of a lake."""
    (save,) = lake.glob("saved-*")
    return save


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    mk.read(write_files(folder / "source", SOURCE)).save(folder / "lake")
    return folder


@pytest.fixture
def saved(template: Path, tmp_path: Path) -> Path:
    """A saved corpus of its own for each test, beside its source."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    manifest = save_of(tmp_path / "lake") / "manifest.json"
    manifest.write_text(manifest.read_text().replace(str(template), str(tmp_path)))
    return tmp_path / "lake"


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name[0] == "." and path.name != ".memkit-lock"]


def equal(one: mk.Corpus, other: mk.Corpus) -> bool:
    return one.tables.keys() == other.tables.keys() and all(
        table.equals(other.tables[name]) and table.schema.equals(other.tables[name].schema)
        for name, table in one.tables.items()
    )


@pytest.mark.quick
def test_what_is_saved_is_opened(tmp_path: Path) -> None:
    corpus = mk.read(sample_data())
    corpus.add_table("chunks", pa.table({"memory_id": ["a"], "words": [["b"]]}))
    corpus.save(tmp_path / "lake")
    opened = mk.open(tmp_path / "lake")
    assert equal(opened, corpus)
    assert opened.tables["chunks"].equals(corpus.tables["chunks"])
    query = "select memory_id, score from fts('пул соединений', k := 20)"
    assert opened.sql(query).fetchall() == corpus.sql(query).fetchall()


@pytest.mark.quick
def test_a_text_index_of_a_former_memkit_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "---\naliases: [Пыхтелка]\n---\n\n# Печь\n\nСм. [[Котёл]].\n"
    source = write_files(tmp_path / "source", {"печь.md": page, "котёл.md": "# Котёл\n"})
    with monkeypatch.context() as former:
        former.setattr(fts, "SEARCHED", ("title", "tags", "text"))
        mk.read(source).save(tmp_path / "lake")
    aliased = "select memory_id from fts('пыхтелка')"
    assert mk.open(tmp_path / "lake").sql(aliased).fetchall() == []
    manifest = save_of(tmp_path / "lake") / "manifest.json"
    document = json.loads(manifest.read_text("utf-8"))
    assert document.pop("text_version") == fts.TEXT_VERSION
    manifest.write_text(json.dumps(document), "utf-8")
    opened = mk.open(tmp_path / "lake")
    assert opened.sql(aliased).fetchall() == mk.read(source).sql(aliased).fetchall() != []
    opened.save(tmp_path / "lake")
    assert json.loads((save_of(tmp_path / "lake") / "manifest.json").read_text("utf-8"))["text_version"] == 2


@pytest.mark.quick
def test_the_files_are_readable_by_any_tool(saved: Path) -> None:
    names = {path.name for path in save_of(saved).iterdir()}
    assert names == {f"{name}.parquet" for name in mk.open(saved).tables} | {"manifest.json", "state", "fts"}
    assert {path.name for path in saved.iterdir()} - {save_of(saved).name} == {
        "corpus.duckdb",
        "memkit.json",
        ".memkit-lock",
    }
    assert json.loads((saved / "memkit.json").read_text()) == {"save": save_of(saved).name}
    assert pq.read_table(save_of(saved) / "memories.parquet")["title"].to_pylist() == ["пул соединений", ""]
    assert sorted(duckdb.read_parquet(f"{saved}/saved-*/memories.parquet")["title"].fetchall()) == [
        ("",),
        ("пул соединений",),
    ]
    with duckdb.connect(str(saved / "corpus.duckdb"), read_only=True) as con:
        assert con.execute("select count(*) from memories").fetchone() == (2,)


def test_two_saves_give_the_same_parquet(saved: Path, tmp_path: Path) -> None:
    mk.open(saved).save(tmp_path / "again")
    mk.read(tmp_path / "source").save(tmp_path / "afresh")
    saved, again, afresh = map(save_of, (saved, tmp_path / "again", tmp_path / "afresh"))
    names = {path.relative_to(saved) for path in saved.rglob("*.parquet")}
    assert {Path("memories.parquet"), Path("fts/terms.parquet"), Path("state/_ids.parquet")} <= names
    for name in names - {Path("state/files.parquet")}:  # which holds times
        assert (saved / name).read_bytes() == (again / name).read_bytes(), name
        assert (saved / name).read_bytes() == (afresh / name).read_bytes(), name


def test_a_save_over_a_save_leaves_nothing_of_the_old(saved: Path) -> None:
    corpus = mk.from_table({"text": ["кофе"]})
    mk_open = mk.open(saved)
    mk_open.add_table("labels", pa.table({"a": [1]}))
    mk_open.save(saved)
    assert (save_of(saved) / "labels.parquet").exists()
    corpus.save(saved)
    assert not (save_of(saved) / "labels.parquet").exists()
    assert equal(mk.open(saved), corpus)
    assert mk.open(saved).sql("select count(*) from fts('чай')").fetchall() == [(0,)]
    assert leftovers(saved) == []


def test_other_things_in_the_folder_stay(saved: Path) -> None:
    write_files(saved, {"vectors/cache.bin": "x", "next/mine.txt": "y", "README": "z"})
    mk.from_table({"text": ["кофе"]}).save(saved)
    assert (saved / "vectors" / "cache.bin").read_text() == "x"
    assert (saved / "next" / "mine.txt").read_text() == "y"
    assert (saved / "README").read_text() == "z"


def test_a_save_that_fails_half_way_leaves_the_old_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = mk.open(saved)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(MemkitError, match="No space left"):
        mk.from_table({"text": ["кофе"]}).save(saved)
    assert equal(mk.open(saved), old)
    assert leftovers(saved) == []


def test_what_is_no_saved_corpus_is_said_so(tmp_path: Path) -> None:
    corpus = mk.from_table({"text": ["чай"]})
    corpus.save(tmp_path / "corpus")
    mk.Retriever(encoder=None).fit(corpus).save(tmp_path / "search")
    for name, said in ((".", "mk.read reads"), ("none", "mk.read reads"), ("search", r"mk.Retriever.load opens")):
        with pytest.raises(FormatError, match=said):
            mk.open(tmp_path / name)
    with pytest.raises(FormatError, match=r"mk.open opens a saved corpus"):
        mk.Retriever.load(tmp_path / "corpus", corpus)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("damage", ["gone", "text", "other lake"])
def test_the_database_file_is_for_others_and_never_opened(saved: Path, damage: str, tmp_path: Path) -> None:
    path = saved / "corpus.duckdb"
    path.unlink()
    if damage == "other lake":
        mk.from_table({"text": ["чужое"]}).save(tmp_path / "other")
        path.write_bytes((tmp_path / "other" / "corpus.duckdb").read_bytes())
    elif damage == "text":
        path.write_bytes(b"no database " * 999)
    opened = mk.open(saved)
    assert opened.sql("select memory_id from fts('пулы')").fetchall() == [("workspace:docs/a.md#пул-соединений",)]
    assert opened.sql("select count(*) from memories").fetchall() == [(2,)]


@pytest.mark.parametrize("trust", [False, True])
def test_the_index_is_not_built_again(saved: Path, trust: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "index_text", lambda memories: pytest.fail("built"))
    read = list[str]()
    parquet = lake.read_parquet
    monkeypatch.setattr(lake, "read_parquet", lambda *args: read.append(args[1].parent.name) or parquet(*args))
    opened = mk.open(saved, trust=trust)
    assert ("fts" in read) is not trust  # one's own is read when it is asked for
    assert opened.sql("select memory_id from fts('пулы')").fetchall() == [("workspace:docs/a.md#пул-соединений",)]
    opened.save(saved)


def test_what_lies_with_a_lake_goes_with_its_memories(saved: Path) -> None:
    corpus = mk.open(saved)
    corpus.attach("labels", lambda folder: write_files(folder, {"a/b.txt": "x"}))
    corpus.save(saved)
    mk.open(saved).save(saved)
    assert (save_of(saved) / "labels" / "a" / "b.txt").read_text() == "x"
    (save_of(saved) / "labels" / "a" / "b.txt").write_text("y")  # which the next save must not sign
    mk.open(saved).save(saved)
    assert not (save_of(saved) / "labels").exists()
    mk.from_table({"text": ["кофе"]}).save(saved)
    assert not (save_of(saved) / "labels").exists()


@pytest.mark.parametrize("name", ["", "a/b", "..", "State", "state", "fts"])
def test_nothing_is_attached_under_a_name_that_is_taken_or_no_name(name: str) -> None:
    with pytest.raises(ParameterError, match="attach"):
        mk.from_table({"text": ["чай"]}).attach(name, print)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("files", "gone"),
        ("files", "text"),
        ("files", "other"),
        ("problems", "text"),
        ("_ids", "other"),
        ("_counters", "gone"),
    ],
)
def test_a_broken_state_only_costs_a_full_read(
    saved: Path, name: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_of(saved) / "state" / f"{name}.parquet"
    path.unlink()
    if damage == "text":
        path.write_bytes(b"no parquet")
    if damage == "other":
        pq.write_table(pa.table({"a": [1]}), path)
    write_files(saved.parent / "source", {"docs/b.md": "# кофе\n"})
    read: list[str] = []
    real = Listing.load
    monkeypatch.setattr(Listing, "load", lambda *args: read.append(args[1]) or real(*args))
    refreshed = mk.open(saved, trust=True).refresh()
    assert set(read) == {"docs/a.md", "docs/b.md", "users/u/profile.md"}
    assert equal(refreshed, mk.read(saved.parent / "source"))


def test_an_opened_corpus_follows_its_folder_elsewhere(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "source").rename(tmp_path / "moved")
    with pytest.raises(FormatError):
        mk.open(saved, trust=True).refresh()
    opened = mk.open(saved, source=tmp_path / "moved")
    assert equal(opened.refresh(), opened)
    write_files(tmp_path / "moved", {"docs/b.md": "# кофе\n"})
    assert equal(opened.refresh(), mk.read(tmp_path / "moved"))


def test_what_was_asked_for_is_asked_again(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "source", {"memory/2026-02-03.md": "A\n", "x.json": "{}"})
    corpus = mk.read(folder, format="workspace", as_of="2026-01-01", max_file_bytes=4)
    corpus.save(tmp_path / "lake")
    write_files(folder, {"memory/2026-02-04.md": "Bbbbb\n"})
    fresh = mk.read(folder, format="workspace", as_of="2026-01-01", max_file_bytes=4)
    assert equal(mk.open(tmp_path / "lake").refresh(), fresh)
    assert {"future_date", "file_too_large", "unclaimed"} == set(fresh.problems["rule"].to_pylist())


def test_a_folder_whose_name_is_no_utf_8_is_saved_and_refreshed(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))
    corpus = mk.read(write_files(folder, SOURCE))
    corpus.save(tmp_path / "it's a lake; ы")
    assert equal(mk.open(tmp_path / "it's a lake; ы").refresh(), corpus)


def test_two_threads_may_save_one_corpus(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    corpus = mk.read(write_files(tmp_path / "source", SOURCE))
    corpus.sql("from fts('чай')").fetchall()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: corpus.save(tmp_path / f"lake{n}"), range(4)))
    assert all(equal(mk.open(tmp_path / f"lake{n}"), corpus) for n in range(4))


@pytest.mark.parametrize("name", ["manifest.json", "buckets.json", "bucket-00001/a.txt", "bucket-list.txt"])
def test_what_other_programs_name_alike_makes_no_lake(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Чай зелёный.\n", encoding="utf-8")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"id": "my-plugin", "version": "1.0.0"}', encoding="utf-8")
    assert not is_lake(tmp_path)
    assert not is_lake(tmp_path / "x" / ("y" * 5000))  # the system refuses to look, as into a locked folder
    assert not is_bucketed(tmp_path)
    assert len(mk.read(tmp_path).memories) == 1


def test_what_memkit_saved_within_a_folder_is_one_row_that_says_how_to_open_it(tmp_path: Path) -> None:
    mk.read(write_files(tmp_path, {"MEMORY.md": "# Чай\n", "memkit.json": '{"text": "мой"}'})).save(tmp_path / "lake")
    for root, path, n_memories in ((tmp_path, "lake", 2), (tmp_path / "lake", ".", 0)):
        corpus = mk.read(root)
        said = [text for text in corpus.problems["message"].to_pylist() if "corpus" in text or "saved-" in text]
        hint = f"{path}: expected a folder of memories. Got a saved corpus (mk.open opens it)"
        assert ([text.partition(" or ")[0] for text in said], len(corpus.memories)) == ([hint], n_memories)
