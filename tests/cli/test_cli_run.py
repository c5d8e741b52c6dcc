"""What the shell sees of faults, closed streams and odd paths: one line, an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import memkit as mk
from memkit.base import plugins
from memkit.cli.app import app, app_for
from memkit.cli.run import main, program

Run = Callable[..., tuple[int, str, str]]
MEMKIT = (sys.executable, "-m", "memkit")


@pytest.fixture
def a_pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture
def a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    return tmp_path / "socket"


@pytest.fixture
def a_locked_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that nobody may open; what may be opened is answered as for any user but root."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0)
    monkeypatch.setattr(os, "access", lambda path, mode: bool(stat.S_IMODE(path.stat().st_mode) & 0o700))
    return folder


@pytest.mark.quick
@pytest.mark.parametrize("command", [("check",), ("sql",), ("search",), ("policy", "decay"), ("context",)])
@pytest.mark.parametrize("odd", ["a_pipe", "a_socket", "a_locked_folder", "/dev/zero", "/dev/null", "a link"])
def test_a_path_that_is_no_folder_or_file_ends_at_once_with_exit_code_2(
    run: Run, request: pytest.FixtureRequest, tmp_path: Path, odd: str, command: tuple[str, ...]
) -> None:
    if odd == "a link":
        (tmp_path / "link").symlink_to("link")
    path = {"a link": tmp_path / "link"}.get(odd) or (odd if odd[0] == "/" else request.getfixturevalue(odd))
    arguments = {"sql": ("select 1",), "search": ("чай",), "context": ("чай", "--user", "anna")}.get(command[0], ())
    code, out, err = run(*command, path, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    begin = f"PATH: expected a path. Got '{path}'" if odd == "a link" else f"{path}: expected a folder or file. Got"
    assert err.startswith(f"memkit: {begin}")


@pytest.mark.quick
def test_a_folder_that_can_no_longer_be_read_is_no_empty_one(a_locked_folder: Path) -> None:
    a_locked_folder.chmod(0o700)
    corpus = mk.read(a_locked_folder)
    a_locked_folder.chmod(0)
    with pytest.raises(mk.errors.FormatError, match="one without permission to read it"):
        corpus.refresh()


@pytest.mark.parametrize(
    "command",
    [
        ("sql", "FOLDER", "select * from range(50000)", "--json"),
        ("sql", "FOLDER", "select * from range(5000)"),
        ("--help",),
    ],
)
def test_a_reader_that_goes_away_is_no_failure(folder: Path, command: tuple[str, ...]) -> None:
    words = [word.replace("FOLDER", str(folder)) for word in command]
    running = subprocess.Popen([*MEMKIT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.read(1)
    running.stdout.close()
    assert (running.wait(60), running.stderr.read()) == (0, b"")
    running.stderr.close()


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        ("queries --json", "<&- >&-"),
        ("check FOLDER", ">&- 2>&-"),
        ("search FOLDER tea --set encoder=none", "2>&-"),
    ],
)
def test_streams_that_the_caller_closed_are_no_failure(folder: Path, words: str, closed: str) -> None:
    command = f"{sys.executable} -m memkit {words.replace('FOLDER', str(folder))} {closed}"
    assert subprocess.run(["bash", "-c", command], check=False, capture_output=True).returncode == 0


def test_output_that_cannot_be_written_is_said_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(text: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.stdout, "write", full)
    code, _, err = run("rules", "--json")
    assert (code, err) == (2, "memkit: No space left on device\n")


def test_a_file_that_is_not_there_is_named_in_words(run: Run, folder: Path) -> None:
    absent = folder / "no\nplan.json"
    assert run("apply", folder, absent) == (2, "", f"memkit: {folder}/no\\nplan.json: No such file or directory\n")


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version") == (0, f"memkit {mk.__version__}\n", "")


def test_a_warning_is_one_line_that_names_no_file_of_ours(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(*_: object, **__: object) -> mk.Corpus:
        warnings.warn("no vectors\nthis time", RuntimeWarning, stacklevel=1)
        return mk.read(folder)

    monkeypatch.setattr("memkit.cli.app.load", warn)
    assert run("sql", folder, "select 1", "--json")[2] == "memkit: warning: no vectors\n"


def test_an_interrupt_is_silent_and_says_130(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memkit.cli.app.load", interrupt)
    assert run("check", folder) == (130, "", "")
    monkeypatch.setattr("memkit.cli.run._run", interrupt)  # as where the verbs are still being imported
    assert run("check", folder) == (130, "", "")
    # Arrow is imported before all else.
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("memkit.cli.run._let_arrow_look_for_pandas", interrupt)
    with pytest.raises(SystemExit) as stop:
        program()
    assert stop.value.code == 130


@pytest.mark.parametrize("error", [RuntimeError("боль\nmore"), RecursionError("боль"), MemoryError("боль")])
def test_a_fault_of_our_own_is_one_line_unless_asked_for(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("memkit.cli.app.load", fail)
    code, _, err = run("check", folder)
    name = type(error).__name__
    assert (code, err) == (2, f"memkit: {name}: боль (a fault of memkit's own; MEMKIT_DEBUG=1 shows where)\n")
    monkeypatch.setenv("MEMKIT_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["memkit", "check", str(folder)])
    with pytest.raises(type(error)):
        main()


COMMANDS = """
import json, sys
from memkit.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["memkit", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    print(json.dumps([name for name in HEAVY if name in sys.modules]), file=sys.stderr)
"""
HEAVY = ("pandas.core.api", "scipy.sparse", "sklearn", "matplotlib", "IPython", "ipywidgets", "joblib", "tqdm.auto")


def test_a_command_imports_no_package_that_it_has_no_use_for(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = str(tmp_path_factory.mktemp("cache"))

    def loaded_by(*commands: tuple[str | Path, ...], heavy: tuple[str, ...] = HEAVY) -> list[set[str]]:
        """What one process has loaded after each command."""
        words = json.dumps([list(map(str, command)) for command in commands])
        process = subprocess.run(
            [sys.executable, "-c", f"HEAVY = {heavy}\n{COMMANDS}", words],
            env={**os.environ, "MEMKIT_CACHE": cache},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        return [set(json.loads(line)) for line in process.stderr.splitlines() if line.startswith("[")]

    asked = ("sql", folder, "select count(*) as n from memories where kind = 'note'")
    sql, checks, overview, search = loaded_by(asked, ("check", folder), ("overview", folder), ("search", folder, "чай"))
    assert sql == checks == set()
    # What is given to DuckDB as values, and not as a table or in the statement, it looks at with pandas.
    assert overview <= {"scipy.sparse", "tqdm.auto"}  # which compares texts
    assert search <= {"scipy.sparse", "tqdm.auto", "pandas.core.api"}  # which encodes, for the next
    (search,) = loaded_by(("search", folder, "пул"))
    assert search <= {"scipy.sparse", "pandas.core.api"}  # of a few texts
    by_words = ("search", mk.sample_data(), "чай", "--set", "encoder=none")
    assert loaded_by(by_words)[0] <= {"scipy.sparse"}
    assert loaded_by(by_words, heavy=("duckdb", "faiss")) == [set()]  # of a kept folder, by few words


def test_what_a_page_says_to_type_names_the_folder_and_can_be_typed(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "my notes"
    mk.testing.write_files(root, {"a.md": "- [ ] купить чай\npassword: sova-ne-spit-2026\n"})
    (tmp_path / "empty").mkdir()
    pages = [run("digest", root), run("check", root), run("overview", tmp_path / "empty")]
    printed = " ".join(" ".join(out for _, out, _ in pages).split())
    quoted = f"'{root}'"
    for words in (f"memkit sql {quoted} open_tasks", f"memkit check {quoted} --secrets", "--hidden all"):
        assert words in printed
    assert "--dates mtime" in printed
    code, out, _ = run("sql", root, "open_tasks")
    assert code == 0
    assert "купить чай" in out
    assert "1 added" in run("digest", root, "--dates", "mtime")[1]


def test_a_plan_says_that_nothing_is_written_yet_and_how_it_is(run: Run, tmp_path: Path) -> None:
    root = mk.testing.write_files(tmp_path / "a", {"memory/MEMORY.md": "# M\n"})
    for arguments in (
        ("add-memory", root, "чай с мёдом"),
        ("export", root, tmp_path / "b", "--layout", "okf"),
    ):
        assert "nothing is written yet; --yes writes it" in run(*arguments)[2]
        assert "nothing is written" not in run(*arguments, "--json")[2]
    assert not (tmp_path / "b").exists()


def test_a_verb_is_built_alone_and_any_other_word_with_all_verbs() -> None:
    names = [
        [command.callback.__name__ for command in app_for(words).registered_commands]
        for words in (["search"], ["serch"], [])
    ]
    assert names[0] == ["search"]
    assert names[1] == names[2]
    assert len(names[1]) == len(app.registered_commands) + len(plugins.COMMANDS.names()) > 20
    assert [command.name for command in app_for(["add-entry"]).registered_commands] == ["add-entry"]
