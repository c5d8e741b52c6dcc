"""The process as the shell sees it: every error is one line on standard error and an exit code, never a traceback.

The verbs are imported within `main`, since an import takes long enough to be interrupted.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import warnings
from typing import Any, TextIO

from memkit.errors import MemkitError, QueryError

_SHORT = ("check", "overview", "sql", "search", "queries", "rules", "formats")
"""Verbs that need no pandas, and whose products of matrices are small."""
_INTERRUPTED = 130  # as shells say it: 128 and the number of the signal


class _ReaderGoneError(Exception):
    """The reader of standard output is gone. Not an OSError, for which typer has an exit code of its own.

    ``memkit check FOLDER --json | head -1`` does not fail.
    """


class _Output:
    """Standard output that turns a broken pipe into an error of its own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return int(self._stream.write(text))
        except BrokenPipeError:
            raise _ReaderGoneError from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise _ReaderGoneError from None


def program() -> None:
    """`main` as a process: the short verbs keep Arrow from importing pandas, and NumPy from waiting in threads."""
    # Arrow's own pool keeps freed memory for itself: a tenth of what an overview of 34,000 pages takes.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        # Imports alone would collect garbage 200 times, a twelfth of a search; of reading statements it was a fifth.
        gc.set_threshold(200_000)
        if sys.argv[1:2] and sys.argv[1] in _SHORT:
            # A thread of OpenBLAS spins for milliseconds after each product: a seventh of a search on two cores.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            _let_arrow_look_for_pandas()
        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        # The process frees its memory anyway; a last garbage collection takes .2 of 1.3 s of a search.
        gc.freeze()


class _WithoutPandas:
    """A finder of modules that says of pandas that it is not there."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _let_arrow_look_for_pandas() -> None:
    """Have Arrow look for pandas while there is none, which it does once, with its first list, to know a Series.

    It would import it, a quarter of a second, and has no setting against that. Whoever asks later, Arrow's `to_pandas`
    or an encoder's package, is answered.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(_WithoutPandas)


def main() -> None:
    """Run the command line; every error is one line and an exit code."""
    _open_streams()
    try:
        with contextlib.redirect_stdout(_Output(sys.stdout)), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _run()
            sys.stdout.flush()
    except _ReaderGoneError:
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    # The last door, whatever comes: a user gets one line, and who develops a traceback.
    except Exception as error:
        if os.environ.get("MEMKIT_DEBUG"):
            raise
        from memkit.display.sheet import safe

        print(safe(f"memkit: {_one_line(error)}"), file=sys.stderr)
        sys.exit(2)
    sys.exit(code)


def _run() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--version"]:
        from memkit.cli.root import app

        return int(app(standalone_mode=False) or 0)
    from memkit.base.duck import interruptible
    from memkit.base.parallel import speak
    from memkit.cli.app import app_for

    speak()

    with interruptible():
        return int(app_for(words)(standalone_mode=False) or 0)


def _open_streams() -> None:
    """Replace streams that the caller closed, and let no character fail to print."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # for the whole process
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    from memkit.display.sheet import safe

    print(safe(f"memkit: warning: {_first_line(message)}"), file=sys.stderr)


def _one_line(error: Exception) -> str:
    import duckdb

    usage = getattr(error, "format_message", None)  # errors of typer's own copy of click, whose classes are private
    if usage is not None:
        context: Any = getattr(error, "ctx", None)
        verb = f" {context.info_name}" if context and context.parent else ""
        words = str(usage())
        return f"{words}{'.' * (words[-1:] not in '.?')} Try 'memkit{verb} --help'."
    if isinstance(error, OSError) and not isinstance(error, MemkitError) and error.strerror:  # without its number
        name = str(error.filename).replace("\n", "\\n")
        return error.strerror if error.filename is None else f"{name}: {error.strerror}"
    if isinstance(error, (QueryError, duckdb.Error)):
        return _first_line(error) + _advice(error)
    if isinstance(error, (MemkitError, OSError)):
        return _first_line(error)
    return f"{type(error).__name__}: {_first_line(error)} (a fault of memkit's own; MEMKIT_DEBUG=1 shows where)"


def _advice(error: Exception) -> str:
    """What DuckDB says on further lines about the names that there are."""
    lines = [line.strip() for line in str(error).split("\n")[1:]]
    return "".join(f" {line}" for line in lines if line.startswith(("Candidate", "Did you mean")))


def _first_line(message: object) -> str:
    return str(message).strip().partition("\n")[0]
