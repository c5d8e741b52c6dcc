"""The verbs that measure: ``evaluate``, ``compare``, ``sweep``, ``tune`` over labels, ``audit`` without any."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from memkit.cli.common import (
    AsOfOption,
    FormatsOption,
    JsonOption,
    PathArgument,
    PresetOption,
    ProfileOption,
    SetOption,
    app,
    fitted,
    load,
)
from memkit.cli.show import print_json
from memkit.display.notebook import show
from memkit.errors import ParameterError, did_you_mean
from memkit.params import Param, check_choice

if TYPE_CHECKING:
    import pyarrow as pa

    from memkit.evaluation.scores.result import Result
    from memkit.search.retriever import Retriever

QueriesOption = Annotated[
    Path, typer.Option("--queries", help="query_id, text; user_id, as_of, group: Parquet, CSV, JSONL, or id and text.")
]
GroupOption = Annotated[
    str | None, typer.Option(help="The column of queries that says which are alike; default user_id or group.")
]
WhereOption = Annotated[str | None, typer.Option(help="A SQL predicate over memories, for all queries.")]
UserOption = Annotated[str | None, typer.Option("--user", help="Who asks the queries that have no user of their own.")]
ApartOption = Annotated[bool, typer.Option("--apart", help="Count queries without a judgement apart.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write a page with tables and pictures that needs nothing else.")
]
QrelsOption = Annotated[
    Path, typer.Option("--qrels", help="query_id, memory_id, relevance: Parquet, CSV, JSONL, JSON, or TREC.")
]
MetricOption = Annotated[
    list[str] | None, typer.Option("--metric", help="Such as ndcg@10, recall@5, mrr, stale@10; may be repeated.")
]
GridOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        help="NAME=A,B,C or NAME=LOW:HIGH:STEP; values with commas of their own stand apart by ;, as in"
        " NAME,NAME=A,B;A,B. May be repeated. Default: all mixtures of the arms, in tenths.",
        metavar="NAME=VALUES",
    ),
]
SampleOption = Annotated[int | None, typer.Option(help="So many settings drawn from the grid.", min=1)]
_GUARD = "QUERIES,QRELS,MARGIN"
_WEIGHTS = ("vector_weight", "bm25_weight", "gram_weight")
EpsilonOption = Annotated[float, typer.Option(help="Differences within ± this make no difference to you.")]
CompleteOption = Annotated[
    bool, typer.Option("--complete", help="The labels are complete: what nobody judged is irrelevant.")
]
PerQueryOption = Annotated[bool, typer.Option("--per-query", help="A row a query.")]


@dataclass(frozen=True)
class Labelled:
    """What every verb is told that asks labelled queries: which, of what search, and how answers are shown."""

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

    def search(self) -> Retriever:
        """The search that is measured."""
        return fitted(load(self.path, formats=self.formats), self.preset, self.sets, self.profile)

    @property
    def how(self) -> dict[str, Any]:
        """What the functions of `memkit.evaluation` take of it."""
        unjudged = "apart" if self.apart else "raise"
        scope = {"as_of": self.as_of, "where": self.where, "user_id": self.user_id}
        return {"group": self.group, "unjudged": unjudged, **scope}

    def show(self, found: Result, instead: pa.Table | None) -> None:
        """Print the result, or a table of it in its place."""
        show_result(found, instead, self.as_json, self.page)


def labelled(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb that takes a `Labelled` and options of its own, as typer has it: with an option for each field."""
    hints = get_type_hints(Labelled, include_extras=True)

    @functools.wraps(verb)
    def call(**given: Any) -> None:
        verb(Labelled(**{name: given.pop(name) for name in hints}), **given)

    of_all = [_option(each.name, each.default, hints[each.name]) for each in fields(Labelled)]
    _, *own = inspect.signature(verb, eval_str=True).parameters.values()
    options = [*of_all, *(_option(each.name, each.default, each.annotation) for each in own)]
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # which typer reads
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def show_result(found: Result, instead: pa.Table | None, as_json: bool, page: Path | None) -> None:
    """Print a result, or a table of it in its place; and write its page where one is wished for."""
    if page is not None:
        found.report(page)
    if as_json:
        print_json(found.table if instead is None else instead)
    else:
        show(found if instead is None else instead)


@app.command()
@labelled
def evaluate(
    asked: Labelled,
    qrels: QrelsOption,
    metric: MetricOption = None,
    per_query: PerQueryOption = False,
    stages: Annotated[bool, typer.Option("--stages", help="At which stage relevant memories were lost.")] = False,
    run: Annotated[Path | None, typer.Option(help="Write the hits: .parquet, .csv, .jsonl, .json, or TREC.")] = None,
) -> None:
    """Say how well search answers labelled queries, with intervals over users."""
    from memkit.evaluation.labels.labels import write
    from memkit.evaluation.scores.evaluation import METRICS
    from memkit.evaluation.scores.evaluation import evaluate as measure

    found = measure(asked.search(), asked.queries, qrels, metric or METRICS, stages=stages, **asked.how)
    if run is not None:
        write(found.hits, run)
    lost = found.stages if stages and asked.as_json else None
    asked.show(found, found.per_query if per_query else lost)


@app.command()
@labelled
def compare(
    asked: Labelled,
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="As for evaluate; without it there is no verdict.")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option("--b", help="What b has otherwise, NAME=VALUE; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    other_preset: Annotated[str | None, typer.Option("--b-preset", help="The preset of b; default that of a.")] = None,
    other_profile: Annotated[
        Path | None, typer.Option("--b-profile", help="The profile of b, in place of both.")
    ] = None,
    metric: MetricOption = None,
    epsilon: EpsilonOption = 0.01,
    complete: CompleteOption = False,
    per_query: PerQueryOption = False,
) -> None:
    """Say whether search b (--b, --b-preset, --b-profile) is better than search a, and how sure that is."""
    from memkit.evaluation.scores.compare import compare as judge

    if not other and other_preset is None and other_profile is None:
        raise ParameterError(
            "compare: expected what b has otherwise, --b NAME=VALUE, --b-preset NAME or --b-profile FILE. Got none."
        )
    a, hits = asked.search(), "irrelevant" if complete else "bounds"
    of_a = (asked.preset, asked.profile) if other_preset is None and other_profile is None else (None, None)
    b = fitted(a.corpus_, other_preset or of_a[0], [*(asked.sets or []), *(other or [])], other_profile or of_a[1])
    how = {"epsilon": epsilon, "unjudged_hits": hits, **asked.how}
    found = judge(a, b, asked.queries, qrels, metric or "ndcg@10", **how)
    rows = found.per_query if qrels is not None else found.shifts
    unlabelled = found.agreement if qrels is None and asked.as_json else None
    asked.show(found, rows if per_query else unlabelled)


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
    user: UserOption = None,
    preset: PresetOption = None,
    profile: ProfileOption = None,
    sets: SetOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Say which memories cannot be found, what crowds the hits, and what decay will take; no labels are needed."""
    from memkit.evaluation.audits.audit import AUDITS
    from memkit.evaluation.audits.audit import audit as look

    if table is not None:
        check_choice("--table", table, AUDITS, "audit")
    search = fitted(load(path, formats=formats), preset, sets, profile)
    found = look(search, queries, qrels, only=table, k=k, n=n, as_of=as_of, user_id=user)
    show_result(found, None if table is None else found.tables[table], as_json, page)


@app.command()
@labelled
def sweep(
    asked: Labelled,
    qrels: QrelsOption,
    grid: GridOption = None,
    metric: MetricOption = None,
    sample: SampleOption = None,
    resume: Annotated[Path | None, typer.Option(help="A file to go on from if this is stopped.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; -1 is as many as there are processors.")] = None,
) -> None:
    """Score many settings on labelled queries; whether the best of them is better, `memkit tune` says."""
    from memkit.evaluation.settings.sweep import sweep as score

    search = asked.search()
    settings = _grid(grid, search)
    more = {**asked.how, "sample": sample, "resume": resume, "n_jobs": jobs}
    asked.show(score(search, asked.queries, qrels, settings, metric or "ndcg@10", **more), None)


@app.command()
@labelled
def tune(
    asked: Labelled,
    qrels: QrelsOption,
    grid: GridOption = None,
    metric: Annotated[str, typer.Option("--metric", help="Such as ndcg@10, recall@5, mrr.")] = "ndcg@10",
    epsilon: EpsilonOption = 0.01,
    guard: Annotated[
        list[str] | None,
        typer.Option(help="Other labels that may not lose more than a margin; may be repeated.", metavar=_GUARD),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Choose on queries of before this day, test on others.")] = None,
    holdout: Annotated[float | None, typer.Option(help="The share of groups to test on; needs --remember.")] = None,
    remember: Annotated[Path | None, typer.Option(help="A small file that counts how often one looked.")] = None,
    sample: SampleOption = None,
    complete: CompleteOption = False,
    profile_out: Annotated[Path | None, typer.Option(help="Write what to use, with its evidence: TOML, JSON.")] = None,
    all_settings: Annotated[bool, typer.Option("--settings", help="A row a setting.")] = False,
) -> None:
    """Say which setting to use, and whether it is better than the one in use, as far as the labels can tell."""
    from memkit.evaluation.tuning.tune import tune as judge

    search = asked.search()
    found = judge(
        search,
        asked.queries,
        qrels,
        _grid(grid, search),
        metric,
        epsilon=epsilon,
        guard=_guards(guard),
        split=split,
        holdout=holdout,
        remember=remember,
        sample=sample,
        unjudged_hits="irrelevant" if complete else "bounds",
        **asked.how,
    )
    if profile_out is not None:
        found.profile_.save(profile_out)
    asked.show(found, found.table if all_settings else found.summary if asked.as_json else None)


def _grid(options: list[str] | None, search: Retriever) -> dict[Any, Any]:
    """The grid that ``--grid`` names: values apart by commas, or LOW:HIGH:STEP; without any, mixtures of the arms."""
    from memkit.evaluation.settings.grid import shares

    if not options:
        arms = ["bm25_weight", "gram_weight"] if search.encoder is None else [*_WEIGHTS]
        return {tuple(arms): shares(0.1, len(arms))}
    declared = type(search).params()
    found: dict[Any, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        names = tuple(one.strip() for one in name.split(","))
        if not equals or (unknown := [one for one in names if one not in declared]):
            hint = did_you_mean(unknown[0], declared) if equals else ""
            raise ParameterError(f"--grid: expected NAME=VALUES. Got {option!r}.{hint}")
        key = names if len(names) > 1 else name.strip()
        if key in found:
            raise ParameterError(f"--grid: expected each parameter once, with all of its values. Got {name} again.")
        found[key] = _points([declared[one] for one in names], name, text)
    return found


def _points(declared: list[Param], name: str, text: str) -> list[Any]:
    """The values of one axis: of a parameter, or tuples of those that change together."""
    from memkit.evaluation.settings.grid import steps

    first, ends = declared[0], text.split(":")
    if len(declared) > 1:
        rows = [part.split(",") for part in text.split(";")]
        if wrong := [row for row in rows if len(row) != len(declared)]:
            raise ParameterError(f"--grid: expected {len(declared)} values for {name}. Got {','.join(wrong[0])!r}.")
        return [tuple(one.parse(value.strip()) for one, value in zip(declared, row, strict=True)) for row in rows]
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
    found = {}
    for option in options or []:
        parts = option.split(",")
        try:
            queries, qrels, margin = parts[0], parts[1], float(parts[2])
        except (ValueError, IndexError) as error:
            raise ParameterError(f"--guard: expected {_GUARD}. Got {option!r}.") from error
        found[Path(queries).stem] = (queries, qrels, margin)
    return found
