"""A folder that is kept in the user's cache is as if read anew, whatever was done to its files or to the cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.formats import reader
from memkit.tables import kept

ALPHA, OMEGA = "Альфа знает пароль чая", "Омега знает пароль чая"
NO_RULE = "---\nid: x\nsubject: t\nkeywords: 5\napplies_to: global\n---\n\nx\n"
LONG_AGO = 1_600_000_000 * 10**9


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"MEMORY.md": f"# Чай\n{ALPHA}\n", "memory/2026-01-05.md": "### 10:00\nКофе с мёдом\n", "a/b.md": "# Сад\n"}
    return mk.testing.write_files(tmp_path / "root", files)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose bytes were read."""
    names, read_bytes = list[str](), reader.Listing.content

    def content(self: reader.Listing, path: str) -> Any:
        names.append(path)
        return read_bytes(self, path)

    monkeypatch.setattr(reader.Listing, "content", content)
    return names


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns
    monkeypatch.setattr(reader.time, "time_ns", lambda: now() + 60 * 10**9)


def same(root: Path, **how: Any) -> mk.Corpus:
    """The corpus by the cache, which is equal to one that is read anew."""
    by_cache, anew = mk.read(root, cache=True, **how), mk.read(root, **how)
    assert by_cache.tables.keys() == anew.tables.keys()
    for name, table in anew.tables.items():
        assert by_cache.tables[name].equals(table, check_metadata=True), name
    return by_cache


def texts_in(cache: Path) -> str:
    """All that the cache says of memories, in tables and terms, and every byte of its files."""
    said = []
    for path in cache.rglob("*"):
        if path.suffix == ".parquet":
            said.append(str(pa.parquet.read_table(path).to_pydict()))
        elif path.is_file():
            said.append(path.read_bytes().decode("utf-8", "replace"))
    return "".join(said)


@pytest.mark.quick
def test_an_unchanged_folder_is_walked_and_not_read(
    root: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    mk.read(root, cache=True)
    opened.clear()
    corpus = mk.read(root, cache=True)
    assert opened == []
    (root / "a/b.md").write_text("# Дом\n", encoding="utf-8")
    assert "Дом" in mk.read(root, cache=True).memories["title"].to_pylist()
    assert "Сад" in corpus.memories["title"].to_pylist()


Change = Callable[[Path], None]


def rewritten(root: Path) -> None:
    """The same second, the same size, and the mtime as it was."""
    path = root / "MEMORY.md"
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace(ALPHA, OMEGA), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def moved_over(root: Path) -> None:
    path, other = root / "MEMORY.md", root / "other"
    before = path.stat()
    other.write_text(path.read_text(encoding="utf-8").replace(ALPHA, OMEGA), encoding="utf-8")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)


def swapped(root: Path) -> None:
    one, other, aside = root / "MEMORY.md", root / "a/b.md", root / "aside"
    one.rename(aside), other.rename(one), aside.rename(other)


def linked(root: Path) -> None:
    target = root.parent / "outside.md"
    (root / "MEMORY.md").rename(target)
    (root / "MEMORY.md").symlink_to(target)


def hidden(root: Path) -> None:
    (root / "a/.memkitignore").touch()


CHANGES: dict[str, Change] = {
    "rewritten": rewritten,
    "moved over": moved_over,
    "swapped": swapped,
    "linked": linked,
    "hidden": hidden,
    "renamed": lambda root: (root / "a/b.md").rename(root / "a/c.md") and None,
    "deleted": lambda root: (root / "MEMORY.md").unlink(),
    "added": lambda root: (root / "new.md").write_text("# Новое\n", encoding="utf-8") and None,
    "set back": lambda root: os.utime(root / "MEMORY.md", ns=(LONG_AGO, LONG_AGO)),
    "an index": lambda root: (
        mk.testing.write_files(root, {"memory/index.json": '{"version": "1.0", "categories": []}'}) and None
    ),
}


def test_what_changed_since_is_read_again(root: Path, cache: Path, subtests: pytest.Subtests) -> None:
    for name, change in CHANGES.items():
        for wait in (0.0, 0.03):  # within a tick of the clock that stamps files, and after it
            with subtests.test(f"{name} after {wait}"):
                folder = root.parent / f"{name} {wait}"
                mk.testing.write_files(folder, {p.relative_to(root).as_posix(): p.read_text(encoding="utf-8")
                                                for p in root.rglob("*.md")})  # fmt: skip
                same(folder)
                time.sleep(wait)
                change(folder)
                same(folder), time.sleep(0.03), same(folder)  # what has no hash is kept a tick after its write
                assert len(kept.entries()) == 1
                kept.clear()


def test_where_no_ctime_tells_the_content_does(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that leaves the stat as it was, as on FAT with the time set back: only the hash can tell."""
    from memkit.formats.disk import files

    later(monkeypatch)
    monkeypatch.setattr(files, "_stat", lambda status: (status.st_size, LONG_AGO, LONG_AGO, 7))
    mk.read(root, cache=True)
    path = root / "MEMORY.md"
    path.write_text(path.read_text(encoding="utf-8").replace(ALPHA, OMEGA), encoding="utf-8")
    assert OMEGA in str(same(root).memories["text"].to_pylist())


@pytest.mark.parametrize("how", [{}, {"hidden": "all"}, {"as_of": "2026-01-01"}, {"rules": ()}], ids=str)
def test_what_is_gone_from_the_folder_is_gone_from_the_cache(root: Path, cache: Path, how: dict[str, Any]) -> None:
    mk.Retriever(encoder="hash").fit(mk.read(root, cache="fit"))
    assert "Альфа" in texts_in(cache)
    assert "альф" in texts_in(cache)
    (root / "MEMORY.md").unlink()
    mk.read(root, cache=True, **how)
    assert "Альфа" not in texts_in(cache)
    assert "альф" not in texts_in(cache)
    (root / "a/b.md").unlink(), (root / "memory/2026-01-05.md").unlink(), mk.read(root, cache=True)
    for folder in (root / "a", root / "memory", root):
        folder.rmdir()
    with pytest.raises(mk.errors.FormatError):
        mk.read(root, cache=True, **how)
    assert kept.entries() == []


def test_a_fact_that_is_forgotten_is_gone_from_every_kept_folder(tmp_path: Path, cache: Path) -> None:
    line = "- [id:pf_1] [t:profile] [imp:high] Тайное слово улитка\n"
    root = mk.testing.write_files(tmp_path / "root", {"users/anna/profile.md": line})
    mk.testing.write_files(tmp_path / "copy", {"users/anna/profile.md": line})
    mk.testing.write_files(tmp_path / "other", {"MEMORY.md": "# Чай\n"})
    for folder in (root, tmp_path / "root/users", tmp_path / "copy", tmp_path / "other"):
        mk.Retriever(encoder=None).fit(mk.read(folder, cache="fit"))
    mk.read(tmp_path, cache=True)
    assert "улитка" in texts_in(cache)
    assert len(kept.entries()) == 5
    mk.store(root).facts.forget("anna", "pf_1")
    assert "улит" not in texts_in(cache)
    assert [Path(row["root"]).name for row in kept.entries()] == ["other"]


def test_old_texts_that_are_cleared_are_gone_from_the_cache(tmp_path: Path, cache: Path) -> None:
    line = "- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Тайное слово улитка\n"
    root = mk.testing.write_files(tmp_path / "root", {"users/anna/working.md": line})
    mk.Retriever(encoder=None).fit(mk.read(root, cache="fit"))
    mk.plan(mk.read(root), mk.Expiry(), as_of="2026-03-01").apply(force=True)
    assert "улитка" in texts_in(cache)
    mk.undo(root, clear=True)
    assert "улит" not in texts_in(cache)


def test_a_fit_finds_the_arms_and_updates_them(root: Path, subtests: pytest.Subtests) -> None:
    def ask(how: Any) -> tuple[pa.Table, set[str]]:
        search = mk.Retriever(encoder="hash").fit(mk.read(root, cache=how))
        return search.search("пароль чая", as_of="2026-02-01"), search.index_.saved

    ask("fit")
    hits, saved = ask("fit")
    assert saved == {"bm25", "vector", "gram"}
    assert hits.equals(ask(False)[0])
    (root / "new.md").write_text("# Новый пароль чая\n", encoding="utf-8")
    for how in ("fit", "fit", True, True):
        with subtests.test(str(how)):
            assert ask(how)[0].equals(ask(False)[0])
            (root / "new.md").write_text(f"# Пароль чая: {how}\n", encoding="utf-8")


def test_options_that_change_what_is_read_are_apart(root: Path, tmp_path: Path) -> None:
    mk.testing.write_files(root, {".secret/x.md": "# Скрытое\n", "rows.json": '[{"text": "строка"}]', "a.md": NO_RULE})
    ways: list[dict[str, Any]] = [
        {},
        {"hidden": "all"},
        {"json": "rows"},
        {"format": "workspace"},
        {"timezone": "+03:00"},
    ]
    ways += [{"dates": "mtime"}, {"max_file_bytes": 8}]
    for _ in range(2):
        for how in ways:
            same(root, **how)
    assert len(kept.entries()) == len(ways)
    places = [Path(row["path"]) for row in kept.entries()]
    for place in places:
        place.rename(place.with_name(f"{place.name}-moved"))
    for place, other in zip(places, [*places[1:], places[0]], strict=True):  # as a careless copy of a cache may
        place.with_name(f"{place.name}-moved").rename(other)
    for how in ways:
        same(root, **how)
    not_kept: list[dict[str, Any]] = [{"as_of": "2026-01-01"}, {"rules": ()}, {"instructions": root / "MEMORY.md"}]
    for how in not_kept:
        same(root, **how)
    assert len(kept.entries()) == len(ways)


def test_a_cache_that_is_not_to_be_believed_is_made_anew(root: Path, cache: Path, subtests: pytest.Subtests) -> None:
    def place() -> Path:
        return Path(kept.entries()[0]["path"])

    def changed(**values: Any) -> None:
        seen = json.loads((place() / kept.SEEN).read_text(encoding="utf-8")) | values
        (place() / kept.SEEN).write_text(json.dumps(seen), encoding="utf-8")

    faults: dict[str, Callable[[], object]] = {
        "cut": lambda: next(place().glob("*/memories.parquet")).write_bytes(b"PAR1"),
        "no pointer": (lambda: (place() / "memkit.json").unlink()),
        "no JSON": lambda: (place() / kept.SEEN).write_text("{", encoding="utf-8"),
        "of another memkit": lambda: changed(memkit="0.1"),
        "of another shape": lambda: changed(stats=[1]),
        "asked for what is no list": lambda: changed(asked=5),
        "of another snapshot": lambda: changed(snapshot="saved-" + "0" * 32),
        "a link": lambda: (place().rename(cache / "moved"), place_link()),
    }

    def place_link() -> None:
        (cache / kept.FOLDER / (cache / "moved").name).symlink_to(cache / "moved")

    for name, harm in faults.items():
        with subtests.test(name):
            same(root)
            harm()
            same(root)
            assert [row["root"] for row in kept.entries() if row["path"].is_dir()] == [str(root)]
    with subtests.test("of others"):
        (cache / kept.FOLDER).chmod(0o777)
        same(root)
        with pytest.raises(mk.MemkitError, match="only its owner"):
            kept.entries()


def test_what_is_kept_is_the_users_alone_and_bounded(
    root: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mk.Retriever(encoder=None).fit(mk.read(root, cache="fit"))
    for path in (cache / kept.FOLDER).rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    old = Path(kept.entries()[0]["path"])
    os.utime(old / kept.SEEN, (0, 0))
    other = mk.testing.write_files(tmp_path / "other", {"a.md": "# Чай\n"})
    mk.read(other, cache=True)
    assert [row["root"] for row in kept.entries()] == [str(other)]
    later(monkeypatch), same(root), same(other)  # nothing of other is saved from here on
    for row in kept.entries():
        os.utime(row["path"] / kept.SEEN, (0, 0) if row["root"] == str(root) else (time.time() - 90_000,) * 2)
    mk.read(other, cache=True)
    assert [row["root"] for row in kept.entries()] == [str(other)]
    monkeypatch.setattr(kept, "MAX_BYTES", 10)
    mk.read(root, cache=True)
    assert kept.entries() == []
    monkeypatch.setenv("MEMKIT_CACHE", "off")
    mk.read(root, cache=True)
    assert kept.entries() == []


def test_what_changed_while_it_was_read_is_not_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a slow command would bring back what another one has had forgotten meanwhile."""
    corpus = mk.read(root, cache="fit")
    (root / "MEMORY.md").unlink()
    corpus.keep()
    assert kept.entries() == []


def test_two_processes_at_once_do_no_harm(root: Path, cache: Path) -> None:
    code = (
        "import sys, memkit as mk\n"
        "for _ in range(3):\n"
        "    hits = mk.Retriever(encoder=None).fit(mk.read(sys.argv[1], cache='fit')).search('пароль чая')\n"
        "    assert hits.num_rows, 'nothing found'\n"
    )
    readers = [subprocess.Popen([sys.executable, "-c", code, root], stderr=subprocess.PIPE) for _ in range(2)]
    number = 0
    while any(reader.poll() is None for reader in readers):
        number += 1
        (root / "a/b.md").write_text(f"# Сад {number}\n", encoding="utf-8")
        time.sleep(0.05)
    assert [(reader.wait(), reader.communicate()[1].decode()) for reader in readers] == [(0, "")] * 2
    same(root)


def test_where_nothing_can_be_kept_the_answer_comes_all_the_same(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("memkit.tables.lake.write_parquet", full)
        assert mk.Retriever(encoder=None).fit(mk.read(root, cache="fit")).search("пароль").num_rows == 1
    assert kept.entries() == []
    monkeypatch.setenv("MEMKIT_CACHE", str(root / "MEMORY.md" / "below"))
    same(root)
