"""The verbs that measure: ``evaluate`` and ``compare`` over labelled queries, ``audit`` without any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memkit.cli.app import (
    AsOfOption,
    FormatsOption,
    JsonOption,
    PathArgument,
    PresetOption,
    SetOption,
    app,
    fitted,
    load,
)
from memkit.cli.show import print_json
from memkit.display.notebook import show
from memkit.errors import ParameterError
from memkit.params import check_choice

if TYPE_CHECKING:
    import pyarrow as pa

    from memkit.evaluate.result import Result

QueriesOption = Annotated[
    Path, typer.Option("--queries", help="query_id, text; user_id, as_of, group: Parquet, CSV, JSONL, or id and text.")
]
QrelsOption = Annotated[
    Path, typer.Option("--qrels", help="query_id, memory_id, relevance: Parquet, CSV, JSONL, JSON, or TREC.")
]
MetricOption = Annotated[
    list[str] | None, typer.Option("--metric", help="Such as ndcg@10, recall@5, mrr, stale@10; may be repeated.")
]
GroupOption = Annotated[
    str | None, typer.Option(help="The column of queries that says which are alike; default user_id or group.")
]
WhereOption = Annotated[str | None, typer.Option(help="A SQL predicate over memories, for all queries.")]
ApartOption = Annotated[bool, typer.Option("--apart", help="Count queries without a judgement apart.")]
PerQueryOption = Annotated[bool, typer.Option("--per-query", help="A row a query.")]


@app.command()
def evaluate(
    path: PathArgument,
    queries: QueriesOption,
    qrels: QrelsOption,
    metric: MetricOption = None,
    group: GroupOption = None,
    as_of: AsOfOption = None,
    where: WhereOption = None,
    preset: PresetOption = None,
    sets: SetOption = None,
    apart: ApartOption = False,
    per_query: PerQueryOption = False,
    stages: Annotated[bool, typer.Option("--stages", help="At which stage relevant memories were lost.")] = False,
    run: Annotated[Path | None, typer.Option(help="Write the hits: .parquet, .csv, .jsonl, .json, or TREC.")] = None,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Say how well search answers labelled queries, with intervals over users."""
    from memkit.evaluate.evaluation import METRICS
    from memkit.evaluate.evaluation import evaluate as measure
    from memkit.evaluate.labels import write_labels

    search = fitted(load(path, formats=formats), preset, sets)
    found = measure(
        search,
        queries,
        qrels,
        metric or METRICS,
        group=group,
        as_of=as_of,
        where=where,
        unjudged="apart" if apart else "raise",
        stages=stages,
    )
    if run is not None:
        write_labels(found.hits, run)
    lost = found.stages if stages and as_json else None
    _print(found, found.per_query if per_query else lost, as_json)


@app.command()
def compare(
    path: PathArgument,
    queries: QueriesOption,
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="As for evaluate; without it there is no verdict.")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option("--b", help="What b has otherwise, NAME=VALUE; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    other_preset: Annotated[str | None, typer.Option("--b-preset", help="The preset of b; default that of a.")] = None,
    metric: MetricOption = None,
    epsilon: Annotated[float, typer.Option(help="Differences within ± this make no difference to you.")] = 0.01,
    complete: Annotated[
        bool, typer.Option("--complete", help="The labels are complete: what nobody judged is irrelevant.")
    ] = False,
    group: GroupOption = None,
    as_of: AsOfOption = None,
    where: WhereOption = None,
    preset: PresetOption = None,
    sets: SetOption = None,
    apart: ApartOption = False,
    per_query: PerQueryOption = False,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Say whether search b (--b, --b-preset) is better than search a (--set, --preset), and how sure that is."""
    from memkit.evaluate.compare import compare as judge

    if not other and other_preset is None:
        raise ParameterError("compare: expected what b has otherwise, --b NAME=VALUE or --b-preset NAME. Got neither.")
    corpus = load(path, formats=formats)
    a = fitted(corpus, preset, sets)
    b = fitted(corpus, other_preset or preset, [*(sets or []), *(other or [])])
    found = judge(
        a,
        b,
        queries,
        qrels,
        metric or "ndcg@10",
        epsilon=epsilon,
        group=group,
        as_of=as_of,
        where=where,
        unjudged="apart" if apart else "raise",
        unjudged_hits="irrelevant" if complete else "bounds",
    )
    rows = found.per_query if qrels is not None else found.shifts
    unlabelled = found.agreement if qrels is None and as_json else None
    _print(found, rows if per_query else unlabelled, as_json)


@app.command()
def audit(
    path: PathArgument,
    table: Annotated[
        str | None, typer.Option(help="All of unreached, hubs, unsearchable, shadowed or horizon; default an overview.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Hits that are looked at.", min=1)] = 10,
    n: Annotated[int | None, typer.Option("-n", help="Memories that are asked for; default all.", min=1)] = None,
    queries: Annotated[Path | None, typer.Option("--queries", help="Your own, in place of what memories ask.")] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", help="What answers them.")] = None,
    as_of: AsOfOption = None,
    preset: PresetOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Say which memories cannot be found, what crowds the hits, and what decay will take; no labels are needed."""
    from memkit.evaluate.audit import AUDITS
    from memkit.evaluate.audit import audit as look

    if table is not None:
        check_choice("--table", table, AUDITS, "audit")
    found = look(fitted(load(path, formats=formats), preset, sets), queries, qrels, k=k, n=n, as_of=as_of)
    _print(found, None if table is None else found.tables[table], as_json)


def _print(found: Result, instead: pa.Table | None, as_json: bool) -> None:
    """The result, or a table of it in its place."""
    if as_json:
        print_json(found.table if instead is None else instead)
    else:
        show(found if instead is None else instead)
