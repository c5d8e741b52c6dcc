"""The verbs that measure: ``evaluate``, ``compare``, ``sweep``, ``tune`` over labels, ``audit`` without any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memkit.base.params import Param, check_choice, hint_of
from memkit.cli.common import (
    AsOfOption,
    FormatsOption,
    JsonOption,
    PathArgument,
    PresetOption,
    ProfileOption,
    Reading,
    SetOption,
    fitted,
    grouped,
    load,
    show,
    wanted,
)
from memkit.cli.root import app
from memkit.errors import ParameterError, count_of

if TYPE_CHECKING:
    import pyarrow as pa

    from memkit.evaluation.result import Result
    from memkit.search.retriever import Retriever

QueriesOption = Annotated[
    Path,
    typer.Option(
        "--queries",
        help="Queries (query_id, text; optional user_id, as_of, group): Parquet, CSV, JSONL, or id and text.",
    ),
]
GroupOption = Annotated[
    str | None, typer.Option(help="The column of queries that groups them for intervals; default user_id or group.")
]
WhereOption = Annotated[str | None, typer.Option(help="A SQL predicate over memories, for all queries.")]
UserOption = Annotated[str | None, typer.Option("--user", help="Who asks the queries that have no user of their own.")]
ApartOption = Annotated[bool, typer.Option("--apart", help="Report queries without judgements separately.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write a self-contained HTML page with tables and plots.")
]
QrelsOption = Annotated[
    Path,
    typer.Option("--qrels", help="Judgements (query_id, memory_id, relevance): Parquet, CSV, JSONL, JSON, or TREC."),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option("--metric", help="Metrics such as ndcg@10, recall@5, mrr, stale@10; may be repeated."),
]
GridOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        help="NAME=A,B,C or NAME=LOW:HIGH:STEP; values that contain commas are separated by ;, as in"
        " NAME,NAME=A,B;A,B. May be repeated. Default: all mixtures of the arms in steps of 0.1.",
        metavar="NAME=VALUES",
    ),
]
SampleOption = Annotated[int | None, typer.Option("-n", help="Score a random sample of this many settings.", min=1)]
_GUARD = "QUERIES,QRELS,MARGIN"
EpsilonOption = Annotated[float, typer.Option(help="Differences within ± this are practically the same.")]
CompleteOption = Annotated[
    bool, typer.Option("--complete", help="The labels are complete: unjudged memories count as irrelevant.")
]
PerQueryOption = Annotated[bool, typer.Option("--per-query", help="One row per query.")]


@dataclass(frozen=True)
class Labelled:
    """The options of all verbs on labelled queries: the queries, the search, and the output."""

    path: PathArgument
    queries: QueriesOption
    group: GroupOption = None
    as_of: AsOfOption = None
    where: WhereOption = None
    user_id: UserOption = None
    preset: PresetOption = None
    profile: ProfileOption = None
    sets: SetOption = None
    apart: ApartOption = False
    page: HtmlOption = None
    as_json: JsonOption = False
    formats: FormatsOption = None

    def search(self, qrels: Path | None, metrics: str | list[str] | None) -> Retriever:
        """The Retriever to measure; a mistake in labels or options is told before the folder is read and encoded."""
        from memkit.evaluation.evaluation import Task
        from memkit.evaluation.metrics import parse_metrics

        parse_metrics(metrics or "ndcg@10")
        checked = Task(None, self.queries, qrels, **self.keywords).read() if qrels is not None else None
        search = wanted(self.preset, self.sets, self.profile)
        corpus = load(self.path, Reading(self.formats), to_fit=True)
        if checked is not None:
            checked.check_known(corpus)
        return fitted(search, corpus, self.profile)

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments for the functions of `memkit.evaluation`."""
        unjudged = "apart" if self.apart else "raise"
        scope = {"as_of": self.as_of, "where": self.where, "user_id": self.user_id}
        return {"group": self.group, "unjudged": unjudged, **scope}


def show_result(
    result: Result, instead: pa.Table | None, as_json: bool, page: Path | None, memories: pa.Table | None = None
) -> None:
    """Print a result, or a table of it instead, and write its page if one is given."""
    if page is not None:
        result.report(page)
    whole = result.table if as_json else result
    show(whole if instead is None else instead, as_json, memories=memories)


@app.command()
@grouped
def evaluate(
    options: Labelled,
    qrels: QrelsOption,
    metric: MetricOption = None,
    per_query: PerQueryOption = False,
    stages: Annotated[bool, typer.Option("--stages", help="Show at which stage relevant memories were lost.")] = False,
    run: Annotated[Path | None, typer.Option(help="Write the hits: .parquet, .csv, .jsonl, .json, or TREC.")] = None,
) -> None:
    """Measure search on labelled queries, with confidence intervals over users."""
    from memkit.evaluation.evaluation import METRICS
    from memkit.evaluation.evaluation import evaluate as measure
    from memkit.evaluation.labels import write

    search = options.search(qrels, metric)
    result = measure(search, options.queries, qrels, metric or METRICS, stages=stages, **options.keywords)
    if run is not None:
        write(result.hits, run)
    lost_stages = result.stages if stages and options.as_json else None
    show_result(result, result.per_query if per_query else lost_stages, options.as_json, options.page)


@app.command()
@grouped
def compare(
    options: Labelled,
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="Judgements, as for evaluate; without them there is no verdict.")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option("--b", help="A parameter in which b differs, NAME=VALUE; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    other_preset: Annotated[str | None, typer.Option("--b-preset", help="The preset of b; default that of a.")] = None,
    other_profile: Annotated[
        Path | None, typer.Option("--b-profile", help="The profile of b, instead of a preset.")
    ] = None,
    metric: MetricOption = None,
    epsilon: EpsilonOption = 0.01,
    complete: CompleteOption = False,
    per_query: PerQueryOption = False,
) -> None:
    """Test whether search b (--b, --b-preset, --b-profile) is better than search a, with an interval."""
    from memkit.evaluation.compare import compare as judge

    if not other and other_preset is None and other_profile is None:
        raise ParameterError(
            "compare: expected how b differs: --b NAME=VALUE, --b-preset NAME or --b-profile FILE. Got none."
        )
    if other_preset is None and other_profile is None:
        other_preset, other_profile = options.preset, options.profile
    b = wanted(other_preset, [*(options.sets or []), *(other or [])], other_profile)
    a, hits = options.search(qrels, metric), "irrelevant" if complete else "bounds"
    b = fitted(b, a.corpus_, other_profile)
    keywords = {"epsilon": epsilon, "unjudged_hits": hits, **options.keywords}
    result = judge(a, b, options.queries, qrels, metric or "ndcg@10", **keywords)
    rows = result.per_query if qrels is not None else result.shifts
    listed = (result.agreement if qrels is None else result.details) if options.as_json else None
    show_result(result, rows if per_query else listed, options.as_json, options.page)


@app.command()
def audit(
    path: PathArgument,
    table: Annotated[
        str | None,
        typer.Option(
            help="One audit in full: unreached, hubs, unsearchable, shadowed, contradictions, horizon, outdated."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Hits per query to inspect.", min=1)] = 10,
    n: Annotated[
        int | None,
        typer.Option("-n", help="Number of memories to make queries for; default 2,000 at most, 0 is all.", min=0),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="Your own queries, instead of queries made from memories.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Judgements for these queries.")] = None,
    as_of: AsOfOption = None,
    user: UserOption = None,
    preset: PresetOption = None,
    profile: ProfileOption = None,
    sets: SetOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Find memories that search cannot reach, hits that crowd out others, and what decay will hide; needs no labels."""
    from memkit.evaluation.audit import AUDITS
    from memkit.evaluation.audit import audit as look
    from memkit.evaluation.findability import MOST_ASKED

    if table is not None:
        check_choice("--table", table, AUDITS, "audit")
    search = fitted(wanted(preset, sets, profile), load(path, Reading(formats), to_fit=True), profile)
    n = MOST_ASKED if n is None else n or None
    result = look(search, queries, qrels, only=table, k=k, n=n, as_of=as_of, user_id=user)
    show_result(result, None if table is None else result.tables[table], as_json, page, search.corpus_.memories)


@app.command()
@grouped
def sweep(
    options: Labelled,
    qrels: QrelsOption,
    grid: GridOption = None,
    metric: MetricOption = None,
    n: SampleOption = None,
    resume: Annotated[Path | None, typer.Option(help="A checkpoint file, from which a stopped sweep goes on.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of threads; -1 uses all processors.")] = None,
) -> None:
    """Score many settings on labelled queries; `memkit tune` tests whether the best one is really better."""
    from memkit.evaluation.sweep import sweep as score

    settings = _grid(grid, wanted(options.preset, options.sets, options.profile))
    search = options.search(qrels, metric)
    more = {**options.keywords, "n": n, "resume": resume, "n_jobs": jobs}
    result = score(search, options.queries, qrels, settings, metric or "ndcg@10", **more)
    show_result(result, None, options.as_json, options.page)


@app.command()
@grouped
def tune(
    options: Labelled,
    qrels: QrelsOption,
    grid: GridOption = None,
    metric: Annotated[str, typer.Option("--metric", help="A metric such as ndcg@10, recall@5, mrr.")] = "ndcg@10",
    epsilon: EpsilonOption = 0.01,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            help="Other labels, on which the metric may fall by the margin at most; may be repeated.", metavar=_GUARD
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Choose on queries before this date, test on the others.")] = None,
    holdout: Annotated[
        float | None, typer.Option(help="The share of groups held out for the test; needs --remember.")
    ] = None,
    remember: Annotated[Path | None, typer.Option(help="A small file that records each use of the holdout.")] = None,
    n: SampleOption = None,
    complete: CompleteOption = False,
    profile_out: Annotated[
        Path | None, typer.Option(help="Write the chosen settings with their evidence: TOML or JSON.")
    ] = None,
    all_settings: Annotated[bool, typer.Option("--settings", help="One row per setting.")] = False,
) -> None:
    """Choose a setting, and test on the labels whether it is better than the current one."""
    from memkit.evaluation.tune import tune as judge

    settings, guards = _grid(grid, wanted(options.preset, options.sets, options.profile)), _guards(guard)
    result = judge(
        options.search(qrels, metric),
        options.queries,
        qrels,
        settings,
        metric,
        epsilon=epsilon,
        guard=guards,
        split=split,
        holdout=holdout,
        remember=remember,
        n=n,
        unjudged_hits="irrelevant" if complete else "bounds",
        **options.keywords,
    )
    if profile_out is not None:
        result.profile_.save(profile_out)
    listed = result.table if all_settings else result.summary if options.as_json else None
    show_result(result, listed, options.as_json, options.page)


def _grid(options: list[str] | None, search: Retriever) -> dict[Any, Any]:
    """The grid that ``--grid`` names: values separated by commas, or LOW:HIGH:STEP; default mixtures of the arms."""
    from memkit.presets import shares
    from memkit.search.steps.recall import WEIGHTS

    if not options:
        arms = [name for name in WEIGHTS if name != "vector_weight" or search.encoder is not None]
        return {tuple(arms): shares(0.1, len(arms))}
    declared = type(search).all_params()
    axes: dict[Any, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        names = tuple(parameter.strip() for parameter in name.split(","))
        if not equals or (unknown := [parameter for parameter in names if parameter not in declared]):
            hint = hint_of(unknown[0], declared) if equals else ""
            raise ParameterError(f"--grid: expected NAME=VALUES. Got {option!r}.{hint}")
        key = names if len(names) > 1 else name.strip()
        if key in axes:
            raise ParameterError(f"--grid: expected each parameter once, with all of its values. Got {name} again.")
        axes[key] = _points([declared[parameter] for parameter in names], name, text)
    return axes


def _points(declared: list[Param], name: str, text: str) -> list[Any]:
    """The values of one axis: of one parameter, or tuples of parameters that change together."""
    from memkit.presets import steps

    first, ends = declared[0], text.split(":")
    if len(declared) > 1:
        rows = [part.split(",") for part in text.split(";")]
        if wrong := [row for row in rows if len(row) != len(declared)]:
            raise ParameterError(
                f"--grid: expected {count_of(len(declared), 'value')} for {name}. Got {','.join(wrong[0])!r}."
            )
        return [
            tuple(parameter.parse(value.strip()) for parameter, value in zip(declared, row, strict=True))
            for row in rows
        ]
    if len(ends) == 3 and first.kind in ("int", "float"):
        try:
            low, high, step = map(float, ends)
        except ValueError as error:
            raise ParameterError(f"--grid: expected {name}=LOW:HIGH:STEP in numbers. Got {text!r}.") from error
        texts = [f"{value:.12g}" for value in steps(low, high, step)]
    else:
        texts = text.split(";" if ";" in text or first.kind in ("words", "weights") else ",")
    return [first.parse(value.strip()) for value in texts]


def _guards(options: list[str] | None) -> dict[str, tuple[str, str, float]]:
    guards = {}
    for option in options or []:
        parts = option.split(",")
        try:
            queries, qrels, margin = parts[0], parts[1], float(parts[2])
        except (ValueError, IndexError) as error:
            raise ParameterError(f"--guard: expected {_GUARD}. Got {option!r}.") from error
        guards[Path(queries).stem] = (queries, qrels, margin)
    return guards
