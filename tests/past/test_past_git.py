"""A revision is read as the folder was, from objects alone; a repository is input like any other."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from hashlib import sha1
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.errors import ChangeRefusedError, FormatError, MemkitError, NotFoundError, ParameterError
from memkit.past import tree
from memkit.past.repository import ENVIRONMENT, Repository, opened

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
Script = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def repositories(script: Script) -> ModuleType:
    return script("repositories.py")


@pytest.fixture(scope="module")
def sample_repository(repositories: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    root = tmp_path_factory.mktemp("life") / "repository"
    return root, repositories.build(root, repositories.lived(days=3))


def same(actual: mk.Corpus, expected: mk.Corpus) -> None:
    """Every table, row by row; a folder reads the times of its files, which are not compared."""
    assert actual.tables.keys() == expected.tables.keys()
    for name, table in actual.tables.items():
        assert table.to_pylist() == expected.tables[name].to_pylist(), name


def test_every_commit_reads_as_git_checks_it_out(
    sample_repository: Any, repositories: ModuleType, tmp_path: Path
) -> None:
    root, commits = sample_repository
    for number, commit in enumerate(commits):
        same(mk.read(root, rev=commit), mk.read(repositories.exported(root, commit, tmp_path / str(number))))
    head = mk.read(root, rev="HEAD")
    same(head, mk.read(root))
    assert head.memories.num_rows > 20
    assert set(head.memories["format"].to_pylist()) == {"workspace", "facts", "notes", "records", "index_tree"}


@pytest.mark.quick
def test_nothing_is_written(sample_repository: Any) -> None:
    root, _ = sample_repository
    before = {path: (path.stat().st_mtime_ns, path.stat().st_atime_ns) for path in root.rglob("*") if path.is_dir()}
    files = sorted(root.rglob("*"))
    mk.read(root, rev="HEAD~3")
    assert sorted(root.rglob("*")) == files
    assert {path: path.stat().st_mtime_ns for path in before} == {path: each[0] for path, each in before.items()}


@pytest.mark.quick
def test_a_refresh_parses_what_has_another_blob(
    sample_repository: Any, repositories: ModuleType, tmp_path: Path
) -> None:
    root = tmp_path / "repository"
    repositories.build(root, [{"a.md": "# Чай\n", "b.md": "# Мёд\n"}])
    corpus = mk.read(root, rev="HEAD")
    assert corpus.refresh().memories["title"].to_pylist() == ["Чай", "Мёд"]
    (root / "b.md").write_text("# Пул\n", encoding="utf-8")
    assert corpus.refresh().memories["title"].to_pylist() == ["Чай", "Мёд"]
    repositories.git(root, "commit", "-qam", "x")
    refreshed = corpus.refresh()
    assert refreshed.memories["title"].to_pylist() == ["Чай", "Пул"]
    assert refreshed.revision["revision"] != corpus.revision["revision"]
    same(refreshed, mk.read(root))


@pytest.mark.quick
def test_a_revision_may_be_named_in_many_ways(sample_repository: Any, repositories: ModuleType) -> None:
    root, commits = sample_repository
    repositories.git(root, "tag", "--force", "-a", "v1", "-m", "x", commits[3])
    repositories.git(root, "branch", "--force", "план/2026", commits[4])
    first = repositories.git(root, "rev-list", "--first-parent", "HEAD").decode().split()[::-1]
    for _ in range(2):  # loose refs, then packed ones
        commits_by_name = {
            "HEAD~2": first[-3],
            "v1": commits[3],
            "план/2026": commits[4],
            "@": first[-1],
            "HEAD^": first[-2],
        }
        assert {rev: mk.read(root, rev=rev).revision["revision"] for rev in commits_by_name} == commits_by_name
        assert mk.read(root, rev=commits[0][:9]).revision["revision"] == commits[0]
        repositories.git(root, "pack-refs", "--all")
    moment = repositories.START + 3 * repositories.STEP_S
    revision = mk.read(root, rev=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment + 1))).revision
    assert (revision["revision"], revision["revision_path"]) == (commits[2], "first parent")
    days = [mk.read(root, rev=day).revision for day in ("2026-01-02", date(2026, 1, 2), "2026-01-02T23:59:59.999999")]
    assert {day["revision"] for day in days} == {days[2]["revision"]}
    with pytest.raises(NotFoundError, match="nothing was committed up to 2025-12-31"):
        mk.read(root, rev="2025-12-31")
    with pytest.raises(NotFoundError, match="Did you mean 'main'"):
        mk.read(root, rev="mian")
    for rev in ("--output=/tmp/x", "a..b", "HEAD@{1}", "HEAD:a.md", "", "a\nb", "../../HEAD", "refs/../HEAD"):
        with pytest.raises((ParameterError, NotFoundError)):
            mk.read(root, rev=rev)
    with pytest.raises(ParameterError, match="rev: expected a text"):
        mk.read(root, rev=5)


def test_the_revision_stands_in_what_comes_of_it(sample_repository: Any) -> None:
    corpus = mk.read(sample_repository[0], rev="HEAD")
    search = mk.Retriever(encoder=None).fit(corpus)
    built = mk.ContextBuilder(search).build(corpus, None, "чай", as_of="2026-02-01")
    results = [corpus.memories, corpus.problems, search.search("чай"), search.trace("чай"), built.table]
    results += [mk.Expiry().transform(corpus), mk.overview(corpus).table]
    memory_id = search.search("чай")["memory_id"][0].as_py()
    labels = {"query_id": ["q"], "text": ["чай"]}, {"query_id": ["q"], "memory_id": [memory_id], "relevance": [1]}
    results += [mk.evaluate(search, *labels).table, mk.compare(search, search, *labels).table]
    results += [mk.sweep(search, *labels, {"pool": [10, 20]}).table]
    results += [mk.audit(search, *labels).table, mk.audit(search, only="shadowed").tables["shadowed"]]
    for table in results:
        assert table.schema.metadata[b"revision"].decode() == corpus.revision["revision"]
        assert {b"revision_at", b"revision_path"} <= table.schema.metadata.keys()
    assert mk.read(sample_repository[0]).revision == {}


def test_a_revision_is_saved_and_read_again_and_never_changed(sample_repository: Any, tmp_path: Path) -> None:
    corpus = mk.read(sample_repository[0], rev="2026-01-02")
    corpus.save(tmp_path)
    lake = mk.open(tmp_path)
    assert lake.revision == corpus.revision
    same(lake, corpus)
    same(lake.refresh(), corpus)
    with pytest.raises(ChangeRefusedError, match="of revision"):
        mk.plan(corpus, mk.Expiry(), as_of="2027-01-01")
    texts = corpus.markdown_files()
    assert texts.num_rows == len(set(texts["path"].to_pylist()))
    assert set(mk.overview(corpus).tables["links"]["target"].to_pylist()) == set()


def test_a_folder_of_a_repository_and_one_file_are_read(repositories: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    repositories.build(
        root, [{"a.md": "# Чай\n", "b/c.md": "# Мёд\n"}, {"b/c.md": None, "b": "x"}, {"b": None, "d/e.md": "# 1\n"}]
    )
    assert mk.read(root / "b", rev="HEAD~2").memories["path"].to_pylist() == ["c.md"]
    assert mk.read(root / "a.md", rev="HEAD").memories["path"].to_pylist() == ["a.md"]
    assert mk.read(root / "d", rev="HEAD~1").memories.num_rows == 0  # it is there now
    with pytest.raises(FormatError, match="Got nothing there"):
        mk.read(root / "nowhere", rev="HEAD")
    assert mk.read(root / ".git", rev="HEAD").memories.num_rows == 2


ODD = {
    "имя.md": "# Чай\n",
    "a\nb.md": "# Мёд\n",
    os.fsdecode(b"\xff.md"): "# Пул\n",
    "q\"u'o.md": "# Кэш\n",
    ".hidden/x.md": "# Скрыто\n",
    "node_modules/x.md": "# Пакет\n",
    "venv2/pyvenv.cfg": "",
    "venv2/x.md": "# Пакет\n",
    "big.md": "x" * 300,
    "bytes.md": b"\xcf\xf0\xe8\xe2\xe5\xf2\n",
    "index.json": '{"type": "index-root", "branches": [{"category": "n", "path": "n/index.json"}]}',
    "n/index.json": '{"type": "index-branch", "files": [{"title": "t", "file": ".h/x.md"}, {"file": "l.md"},'
    ' {"title": "v", "file": "out.md"}, {"title": "w", "file": "gone.md"}, {"title": "z", "file": "n/../../../x"}]}',
    "n/.h/x.md": "# Скрытый\n",
    ".h/x.md": "# Другой\n",
}


def test_odd_names_links_and_modules_are_as_in_a_folder(repositories: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    links = {
        "link.md": "имя.md",
        "out.md": "/etc/passwd",
        "up.md": "../../x",
        "dir": "n",
        "n/l.md": ".h/x.md",
        "loop": "loop",
    }
    links |= {"n/out.md": "/etc/passwd"}
    module = {"sub": "a" * 40}
    modes = dict.fromkeys(links, "120000") | {"sub": "160000"}
    repositories.build(root, [repositories.Step(ODD | links | module, mode=modes)])
    ours, theirs = (mk.read(root, max_file_bytes=200, **options) for options in ({"rev": "HEAD"}, {}))
    same_but = pc.not_equal(ours.problems["path"], "sub")
    assert ours.problems.filter(same_but).to_pylist() == theirs.problems.to_pylist()
    assert ours.memories.to_pylist() == theirs.memories.to_pylist()
    repositories.git(root, "rm", "-q", "--cached", "-r", ".")
    repositories.git(root, "commit", "-q", "-m", "gone")
    repositories.git(
        root, "add", "имя.md", "a\nb.md", os.fsdecode(b"\xff.md"), "q\"u'o.md", "link.md", "node_modules", ".hidden"
    )
    repositories.git(root, "commit", "-q", "-m", "back")
    added = [
        row["path"] for row in mk.history(root).versions.to_pylist() if row["change"] == "added" and not row["at_start"]
    ]
    assert sorted(added) == sorted(["имя.md", "a\nb.md", "\\xff.md", "q\"u'o.md"])
    (row,) = ours.problems.filter(pc.invert(same_but)).to_pylist()
    assert (row["rule"], row["severity"]) == ("unclaimed", "info")
    assert "submodule" in row["message"]


HOOKS = ["post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction"]


def hostile(root: Path, mark: Path) -> None:
    """Whatever of a repository git would run, each leaves a mark."""
    run = f"touch {mark}/$$; echo"
    for hook in HOOKS:
        (root / ".git/hooks").mkdir(exist_ok=True)
        (root / ".git/hooks" / hook).write_text(f"#!/bin/sh\n{run}\n")
        (root / ".git/hooks" / hook).chmod(0o755)
    program = mark.parent / "program"
    program.write_text(f"#!/bin/sh\n{run}\n")
    program.chmod(0o755)
    settings = {
        **dict.fromkeys(("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "gpg.program"), program),
        **dict.fromkeys(("diff.external", "diff.x.textconv", "diff.x.command", "filter.x.smudge"), program),
        **{
            "filter.x.clean": program,
            "filter.x.process": program,
            "alias.cat-file": f"!{program}",
            "pager.log": program,
        },
        **{"log.showSignature": "true", "alias.rev-list": f"!{program}", "core.gitProxy": program},
        **{
            "credential.helper": f"!{program}",
            "uploadpack.packObjectsHook": program,
            "core.hooksPath": root / ".git/hooks",
        },
        **{
            "include.path": mark.parent / "included",
            "core.alternateRefsCommand": program,
            "core.attributesFile": root / "x",
        },
        **{"remote.origin.url": f"ext::{program}", "remote.origin.promisor": "true", "protocol.ext.allow": "always"},
        **{"extensions.partialClone": "origin", "core.worktree": mark.parent, "log.diffMerges": "on"},
    }
    (mark.parent / "included").write_text(f"[core]\n\tpager = {program}\n")
    with (root / ".git/config").open("a") as file:
        for name, value in settings.items():
            section, _, key = name.rpartition(".")
            head, _, sub = section.partition(".")
            file.write(f'[{head}{f" {chr(34)}{sub}{chr(34)}" if sub else ""}]\n\t{key} = "{value}"\n')
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/attributes").write_text("* diff=x filter=x export-subst\n")
    (root / ".git/info/grafts").write_text("")


@pytest.fixture
def trap(repositories: ModuleType, tmp_path: Path) -> tuple[Path, Path, list[str]]:
    root, mark = tmp_path / "repository", tmp_path / "marks"
    mark.mkdir()
    signed = {".gitattributes": "* diff=x filter=x\n", "a.md": "# Чай\n"}
    commits = repositories.build(
        root, [signed, {"a.md": "# Мёд\n"}, repositories.Step({"b.md": "# Пул\n"}, subject="x")]
    )
    body = repositories.git(root, "cat-file", "commit", "HEAD").replace(
        b"\n\nx", b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nx"
    )
    head = repositories.git(root, "hash-object", "-t", "commit", "-w", "--stdin", input=body).decode().strip()
    repositories.git(root, "update-ref", "refs/heads/main", head)
    hostile(root, mark)
    return root, mark, [*commits[:-1], head]


def test_nothing_of_a_hostile_repository_runs(trap: tuple[Path, Path, list[str]]) -> None:
    root, mark, _ = trap
    assert mk.read(root, rev="HEAD").memories["title"].to_pylist() == ["Мёд", "Пул"]
    assert mk.read(root, rev="2026-01-01T02:30:00").memories["title"].to_pylist() == ["Мёд"]
    history = mk.history(root)
    assert history.versions["change"].to_pylist() == ["added", "added", "removed", "added"]
    assert history.problems.num_rows == 0
    assert list(mark.iterdir()) == []


def test_the_trap_would_spring_for_git_itself(trap: tuple[Path, Path, list[str]], repositories: ModuleType) -> None:
    root, mark, _ = trap
    subprocess.run(
        ["git", "-C", str(root), "log", "-1"], env=repositories.ENVIRONMENT, capture_output=True, check=False
    )
    assert list(mark.iterdir()) != []


def test_a_repository_of_somebody_else_is_read(
    trap: tuple[Path, Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Git's own tests take each repository for somebody else's so; to give files away takes root.
    monkeypatch.setitem(ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    ask = ["git", "-C", str(trap[0]), "rev-parse", "HEAD"]
    alone = subprocess.run(ask, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False)
    assert "dubious ownership" in alone.stderr
    assert mk.read(trap[0], rev="HEAD").memories.num_rows == 2


def test_foreign_names_for_objects_change_nothing(trap: tuple[Path, Path, list[str]], repositories: ModuleType) -> None:
    root, _, commits = trap
    (root / ".git/refs/replace").mkdir()
    (root / ".git/refs/replace" / commits[2]).write_text(commits[0] + "\n")
    assert mk.read(root, rev="HEAD").memories.num_rows == 2


def test_a_partial_clone_asks_nobody(repositories: ModuleType, tmp_path: Path) -> None:
    root, mark = tmp_path / "repository", tmp_path / "marks"
    mark.mkdir()
    repositories.build(root, [{"a.md": "# Чай\n", "b.md": "# Пул\n"}])
    blob = repositories.git(root, "hash-object", "a.md").decode().strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    hostile(root, mark)
    corpus = mk.read(root, rev="HEAD")
    assert list(mark.iterdir()) == []
    rows = corpus.problems.filter(pc.equal(corpus.problems["rule"], "unreadable")).to_pylist()
    assert [row["path"] for row in rows] == ["a.md"]
    assert "partial clone" in rows[0]["message"]
    assert corpus.memories["title"].to_pylist() == ["Пул"]


def test_a_shallow_clone_is_read_as_far_as_it_goes(
    sample_repository: Any, repositories: ModuleType, tmp_path: Path
) -> None:
    root, _ = sample_repository
    repositories.git(tmp_path, "clone", "--quiet", "--depth=3", f"file://{root}", "shallow")
    clone = tmp_path / "shallow"
    same(mk.read(clone, rev="HEAD~1"), mk.read(root, rev="HEAD~1"))
    with pytest.raises(NotFoundError, match="shallow clone"):
        mk.read(clone, rev="2026-01-01T03:00")
    with pytest.raises(NotFoundError):
        mk.read(clone, rev="HEAD~5")


def test_objects_that_lie_elsewhere_are_refused(
    sample_repository: Any, repositories: ModuleType, tmp_path: Path
) -> None:
    root, _ = sample_repository
    repositories.git(tmp_path, "clone", "--quiet", "--shared", str(root), "shared")
    with pytest.raises(FormatError, match="outside of the root"):
        mk.read(tmp_path / "shared", rev="HEAD")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").symlink_to(root / ".git")
    with pytest.raises(FormatError, match="link out of the root"):
        mk.read(tmp_path / "linked", rev="HEAD")
    place = tmp_path / "borrowed"
    repositories.build(place, [{"a.md": "x"}])
    shutil.rmtree(place / ".git/objects")
    (place / ".git/objects").symlink_to(root / ".git/objects")
    with pytest.raises(FormatError, match="git's objects"):
        mk.read(place, rev="HEAD")


def test_a_linked_worktree_is_read_as_its_repository_is(repositories: ModuleType, tmp_path: Path) -> None:
    root, tree = tmp_path / "repository", tmp_path / "деревья" / "tree"
    repositories.build(root, [{"m/a.md": "# Чай\n"}, {"m/a.md": "# Чай\nзелёный\n", "b.md": "# Пул\n"}])
    repositories.git(root, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD~1")
    same(mk.read(tree, rev="HEAD"), mk.read(root, rev="HEAD~1"))  # its own HEAD
    same(mk.read(tree / "m", rev="main"), mk.read(root / "m", rev="main"))  # the branches of all
    repositories.git(root, "pack-refs", "--all")
    same(mk.read(tree, rev="main"), mk.read(root, rev="main"))
    assert mk.history(tree).commits.num_rows == 1
    link = (tree / ".git").read_text("utf-8")
    relative = os.path.relpath(link.removeprefix("gitdir: ").strip(), tree)
    (tree / ".git").write_text(f"gitdir: {relative}\n", "utf-8")
    same(mk.read(tree, rev="HEAD"), mk.read(root, rev="HEAD~1"))


def test_a_git_file_that_no_repository_knows_is_not_followed(repositories: ModuleType, tmp_path: Path) -> None:
    root, tree, other = tmp_path / "repository", tmp_path / "tree", tmp_path / "other"
    repositories.build(root, [{"a.md": "# Тайна\n"}])
    repositories.build(tmp_path / "part", [{"a.md": "x\n"}])
    repositories.git(root, "worktree", "add", "--quiet", "--detach", str(tree))
    worktree_gitdir = (tree / ".git").read_text("utf-8").removeprefix("gitdir: ").strip()
    other.mkdir()
    (other / "worktrees/x").mkdir(parents=True)
    (other / "worktrees/x/gitdir").write_text(f"{other}/.git\n")
    (other / "worktrees/x/commondir").write_text(f"{root}/.git\n")
    (other / "through").symlink_to(root / ".git")
    (other / "worktrees/y").symlink_to(worktree_gitdir)
    forged = {
        "another's": f"gitdir: {worktree_gitdir}",
        "the repository itself": f"gitdir: {root}/.git",
        "its own folder": f"gitdir: {other}/worktrees/x",
        "through a link": f"gitdir: {other}/through/worktrees/tree",
        "a link to a worktree": f"gitdir: {other}/worktrees/y",
        "climbing": "gitdir: ../tree/../repository/.git/worktrees/tree",
        "no such place": "gitdir: /no/worktrees/x",
        "nothing": "",
        "a NUL": "gitdir: \0/worktrees/x",
        "long": "gitdir: " + "a" * 100_000,
    }
    read = {}
    for name, text in forged.items():
        (other / ".git").write_text(text, "utf-8")
        with suppress(FormatError):
            read[name] = mk.read(other, rev="HEAD").memories["text"].to_pylist()
    assert read == {}
    with pytest.raises(FormatError, match="no repository calls its worktree"):
        mk.history(other)
    repositories.git(
        root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "part"), "sub"
    )
    with pytest.raises(FormatError, match="as in a submodule"):
        mk.read(root / "sub", rev="HEAD")


def test_repositories_of_other_kinds_are_one_clear_error(repositories: ModuleType, tmp_path: Path) -> None:
    repositories.git(tmp_path, "init", "--quiet", "--object-format=sha256", "long")
    (tmp_path / "long/.git/refs/heads/main").write_text("a" * 64)
    (tmp_path / "long/.git/HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(FormatError, match="SHA-256"):
        mk.read(tmp_path / "long", rev="HEAD")
    repositories.git(tmp_path, "init", "--quiet", "empty")
    with pytest.raises(NotFoundError, match="without any"):
        mk.read(tmp_path / "empty", rev="HEAD")
    (tmp_path / "empty/.git/reftable").mkdir()
    with pytest.raises(FormatError, match="reftable"):
        mk.read(tmp_path / "empty", rev="HEAD")
    with pytest.raises(FormatError, match="in none"):
        mk.read(mk.testing.write_files(tmp_path / "plain", {"a.md": "x"}), rev="HEAD")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:x\nsize 5\n"
    repositories.build(tmp_path / "large", [{"a.md": pointer, "b.md": "# Чай\n"}])
    corpus = mk.read(tmp_path / "large", rev="HEAD")
    assert corpus.memories["path"].to_pylist() == ["b.md"]
    assert "git LFS" in corpus.problems["message"][0].as_py()


def test_without_git_one_error_says_what_works(sample_repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MemkitError, match=r"need the program git, which is not here\. mk\.read\(folder\) does not"):
        mk.read(sample_repository[0], rev="HEAD")
    assert mk.read(sample_repository[0]).memories.num_rows > 20


def store(root: Path, kind: str, data: bytes) -> str:
    """A loose object."""
    whole = f"{kind} {len(data)}\0".encode() + data
    id = sha1(whole).hexdigest()
    path = root / ".git/objects" / id[:2] / id[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return id


def commit_of(root: Path, tree_id: str) -> str:
    person = "a <a> 1767225600 +0000"
    return store(root, "commit", f"tree {tree_id}\nauthor {person}\ncommitter {person}\n\nx".encode())


@pytest.fixture
def bomb(repositories: ModuleType, tmp_path: Path) -> Path:
    """A few hundred bytes that are 10^8 paths."""
    root = tmp_path / "bomb"
    repositories.git(tmp_path, "init", "--quiet", "--initial-branch=main", "bomb")
    data = bytes.fromhex(store(root, "blob", "# Чай\n".encode()))
    id = store(root, "tree", b"".join(b"100644 %d.md\0" % number + data for number in range(10)))
    for _ in range(7):
        id = store(root, "tree", b"".join(b"40000 %d\0" % number + bytes.fromhex(id) for number in range(10)))
    (root / ".git/refs/heads/main").write_text(commit_of(root, id))
    return root


def test_a_bomb_ends_in_a_problem(bomb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_PATHS", 50_000)  # a tenth of the time; the benchmark has the real one
    corpus = mk.read(bomb, rev="HEAD")
    assert corpus.memories.num_rows == 0
    (row,) = corpus.problems.to_pylist()
    assert (row["rule"], row["severity"]) == ("too_many_files", "error")
    assert len(mk.read(bomb / "1/2/3/4/5/6", rev="HEAD").memories) == 100  # what lies below can be named


def test_what_is_damaged_or_too_large_is_a_problem_and_the_rest_is_read(bomb: Path) -> None:
    root, files = bomb, {}
    for name in ("a", "b", "c", "d"):
        files[name] = store(root, "blob", f"# {name}\n".encode() * (1 if name != "c" else 100_000))
    path = root / ".git/objects" / files["b"][:2] / files["b"][2:]
    path.write_bytes(path.read_bytes()[:-9] + b"x" * 9)
    id = store(
        root,
        "tree",
        b"".join(b"100644 %s.md\0" % name.encode() + bytes.fromhex(blob_id) for name, blob_id in files.items()),
    )
    (root / ".git/refs/heads/main").write_text(commit_of(root, id))
    corpus = mk.read(root, rev="HEAD", max_file_bytes=100_000)
    errors = corpus.problems.filter(pc.equal(corpus.problems["severity"], "error"))
    assert dict(zip(errors["path"].to_pylist(), errors["rule"].to_pylist(), strict=True)) == {
        "b.md": "unreadable",
        "c.md": "file_too_large",
    }
    assert {"a.md", "c.md", "d.md"} == set(corpus.memories["path"].to_pylist())
    odd = store(
        root, "tree", b"40000 ..\0" + bytes.fromhex(id) + b"40000 a/b\0" + bytes.fromhex(id) + b"100644 \0" + b"\0" * 5
    )
    (root / ".git/refs/heads/main").write_text(commit_of(root, odd))
    assert mk.read(root, rev="HEAD").memories.num_rows == 0


def test_a_git_that_hangs_is_stopped(sample_repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started = time.monotonic()
    with (
        pytest.raises(MemkitError, match="did not end within"),
        opened(sample_repository[0], timeout_s=0.2) as repository,
    ):
        repository.commit("HEAD")
    assert time.monotonic() - started < 300
    assert [each.name for each in threading.enumerate() if "Timer" in each.name and each.is_alive()] == []


def test_git_is_given_nothing_of_the_repository(sample_repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start = Repository.start

    def noting_start(self: Repository, *arguments: str) -> Any:
        process = start(self, *arguments)
        started.append((process.args, Path(f"/proc/{process.pid}/environ")))
        return process

    monkeypatch.setattr(Repository, "start", noting_start)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    mk.read(sample_repository[0], rev="HEAD")
    assert {tuple(arguments[1:3]) for arguments, _ in started} == {("--no-pager", "cat-file")}
    assert all(str(sample_repository[0]) not in word for arguments, _ in started for word in arguments)
