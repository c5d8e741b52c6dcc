"""The tour of ``memkit demo``: the sample data from files to explained hits, each step with its Python call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from memkit.base.params import describe
from memkit.cli.show import out, show
from memkit.display.sheet import safe

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

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
    from memkit.search.explain import explain
    from memkit.search.retriever import Retriever

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
