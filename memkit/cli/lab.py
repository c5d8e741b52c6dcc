"""Where to begin: ``memkit demo``, the sample data from files to explained hits, each step with its Python call, and
``memkit lab``, JupyterLab on a copy of the notebooks, beside one that reads the user's folder."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.text import Text

from memkit.base.params import describe
from memkit.cli.common import app, as_path, out, show
from memkit.display.sheet import safe, visible
from memkit.errors import FormatError, MissingExtraError, ParameterError

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus


@app.command()
def lab(
    path: Annotated[
        Path | None,
        typer.Argument(help="As for the other verbs; default the sample data.", parser=as_path, metavar="PATH"),
    ] = None,
    into: Annotated[
        Path, typer.Option(help="The folder of the copy; existing files stay.", parser=as_path, metavar="FOLDER")
    ] = Path("~/memkit-lab"),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    port: Annotated[int | None, typer.Option(help="As for jupyter lab; the next free port if it is taken.")] = None,
    ip: Annotated[str | None, typer.Option(help="As for jupyter lab: the address to listen on.")] = None,
    allow_root: Annotated[bool, typer.Option("--allow-root", help="As for jupyter lab.")] = False,
) -> None:
    """Open JupyterLab (extra lab) with a copy of the notebooks, and one that reads your folder."""
    try:
        from jupyterlab.labapp import LabApp
    except ImportError as error:
        raise MissingExtraError("jupyterlab", "lab") from error
    home = into.expanduser().resolve()
    first = copy_notebooks(path, home)
    print(f"notebooks in {home}, {first.name} to begin with", flush=True)
    options = {"--port": port, "--ip": ip}
    LabApp.launch_instance(
        [
            f"--ServerApp.root_dir={home}",
            f"--LabApp.default_url=/lab/tree/{quote(first.name)}",
            *(f"{name}={value}" for name, value in options.items() if value is not None),
            *(["--no-browser"] if no_browser else []),
            *(["--allow-root"] if allow_root else []),
        ]
    )


def copy_notebooks(path: Path | None, home: Path) -> Path:
    """Copy the notebooks to `home`, and write one that reads `path` there; existing files stay as they are.

    Raises
    ------
    FormatError
        Where `path` does not exist.
    ParameterError
        Where `home` lies in `path`, since nothing is written there.
    """
    from memkit.tables.samples import sample_data

    folder = None if path is None else path.expanduser().resolve()
    if folder is not None and not folder.exists():
        raise FormatError(f"lab: expected a folder, a file or a saved corpus. Got {path}, which does not exist.")
    if folder is not None and home.is_relative_to(folder):
        raise ParameterError(f"--into: expected a folder outside of {folder}, where memkit writes nothing. Got {home}.")
    home.mkdir(parents=True, exist_ok=True)
    for notebook in sorted((sample_data().parent / "notebooks").glob("*.ipynb")):
        copy = home / notebook.name
        if not copy.exists():
            shutil.copyfile(notebook, copy)
            _sign(copy)
    return _write_first(folder, home)


def _sign(notebook: Path) -> None:
    """Sign a copy of memkit's own notebook, so that JupyterLab shows its outputs with their style."""
    import nbformat
    from nbformat.sign import NotebookNotary

    with suppress(OSError):  # where nothing can be kept, JupyterLab asks whether the notebook is trusted
        NotebookNotary().sign(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]  # it has no types


def _write_first(folder: Path | None, home: Path) -> Path:
    """The notebook that reads a folder, named after the folder, with a number if the name is taken."""
    from memkit.tables.commit import is_lake

    call = "mk.read(mk.sample_data())"
    if folder is not None:
        call = f"mk.{'open' if is_lake(folder) else 'read'}({str(folder)!r})"
    title = folder.name if folder and folder.name else "sample"
    name = re.sub(r"[^\w.-]+", "-", title).lstrip(".") or "first"  # JupyterLab opens no file that begins with a dot
    gaps = {"{title}": visible(title), "{call}": call}
    text = Path(__file__).with_name("first.json").read_text(encoding="utf-8")  # a notebook with these gaps
    text = re.sub(r"\{title\}|\{call\}", lambda gap: json.dumps(gaps[gap[0]], ensure_ascii=False)[1:-1], text)
    source = json.dumps(f"corpus = {call}\n", ensure_ascii=False)
    for number in range(1, 1000):
        target = home / (f"{name}.ipynb" if number == 1 else f"{name}-{number}.ipynb")
        if not target.exists():
            target.write_text(text, encoding="utf-8")
            return target
        if source[1:-1] in target.read_text(encoding="utf-8"):
            return target
    raise ParameterError(f"--into: expected room for another {name}.ipynb. Got a thousand in {home}.")


AS_OF = "2026-03-01"
"""The sample's own day: its dates lie before it."""

_KINDS_SQL = """
    select format, kind, count(*) as memories, count(distinct path) as files, sum(length(text)) as chars
    from memories where kind is not null group by all order by all
"""
_QUESTIONS = (
    (
        "Which error codes are known in more than one format?",
        r"""select code, list_sort(list(distinct format)) as formats, count(*) as memories
from (select format, unnest(regexp_extract_all(text, '\bE\d{4}\b')) as code from memories)
group by code having count(distinct format) > 1 order by memories desc, code""",
    ),
    (
        "What had expired on the day, and whose was it?",
        """select user_id, expires_at::date as expired, text from memories
where expires_at < timestamptz '2026-03-01' order by expired, user_id limit 5""",
    ),
    (
        "Which rules are contradicted, and how strongly?",
        """select f.fact_id, f.content, r.from_id as contradicted_by, r.weight
from relations r join wisdom_facts f on f.fact_id = r.to_id
where r.type = 'contradicts' order by r.weight desc""",
    ),
)
_HITS_SQL = "select '0' as query_id, score, kind, path, line_start, title, text, memory_id from"
_WORD_QUERIES = ("пулы соединений", "rolled back the release")
_MEANING_QUERIES = (
    ("In Russian", "сколько подключений к базе разрешено?"),
    ("In English", "why do payments fail after five seconds?"),
    ("Across languages, Russian to English", "у кого аллергия на орехи?"),
)


def run() -> None:
    """Print the tour."""
    from memkit.tables.corpus import read
    from memkit.tables.samples import sample_data

    _step("Read a folder in five formats", 'corpus = mk.read("data")')
    corpus = read(sample_data(), progress=True)
    show(corpus.sql(_KINDS_SQL), False)
    _problems(corpus)
    for question, query in _QUESTIONS:
        _step(question, f'corpus.sql("""{query}""")')
        show(corpus.sql(query), False)
    for words in _WORD_QUERIES:
        _full_text(corpus, words)
    _hybrid(corpus)
    _step("Where to go next", "")
    out.print(Text(_NEXT))


def _step(title: str, code: str) -> None:
    out.print()
    out.rule(Text(title, style="bold"), align="left")
    if code:
        out.print(Text(code, style="cyan"), soft_wrap=True)


def _problems(corpus: Corpus) -> None:
    _step("What is wrong with it", "corpus.problems")
    for row in corpus.problems.sort_by("severity").slice(0, 5).to_pylist():
        out.print(Text(f"{row['severity']:<8}{safe(row['message'])}"), soft_wrap=True)


def _full_text(corpus: Corpus, words: str) -> None:
    query = f"from fts('{words}', k := 3) join memories using (memory_id)"
    _step(f"Full text: {words}", f'corpus.sql("{query}")')
    hits = corpus.sql(f"{_HITS_SQL} ({query}) order by score desc, memory_id").to_arrow_table()
    show(describe(hits, memkit="hits", shown={"queries": {"0": words}}), False)


def _hybrid(corpus: Corpus) -> None:
    from memkit.search.retriever import Retriever
    from memkit.search.show import explain

    _step("Search by words and meaning together", "search = mk.Retriever().fit(corpus)")
    with out.status("encoding …"):
        search = Retriever().fit(corpus)
    for title, question in _MEANING_QUERIES:
        _step(f"{title}: {question}", f'search.search("{question}", k=3, as_of="{AS_OF}")')
        hits = search.search(question, k=3, as_of=AS_OF)
        show(hits, False)
    question = _MEANING_QUERIES[0][1]
    best = search.search(question, k=1, as_of=AS_OF)["memory_id"][0].as_py()
    _step("Why did the first one come?", f'mk.explain(search, "{question}", "{best}")')
    out.print(Text(safe(explain(search, question, best, as_of=AS_OF))), soft_wrap=True)


_NEXT = """memkit check FOLDER                   the problems of your own folder
memkit sql FOLDER "select …"          query it in SQL; `memkit queries` lists named queries
memkit search FOLDER "…" --trace      every candidate with its scores and why it was dropped
memkit policy decay FOLDER            what a policy keeps, and why it refuses the rest
notebooks/00_tour.ipynb               the same in Jupyter, one notebook for each format and policy"""
