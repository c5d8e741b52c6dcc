"""Labels: queries and judgements read, written and imported, and the scores that labels of decisions give.

>>> import memkit as mk
>>> qrels = mk.labels.read_qrels({"query_id": ["q1"], "memory_id": ["m1"], "relevance": [1]})
>>> qrels.column_names[:3]
['query_id', 'memory_id', 'relevance']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment, check_value, current_names
from memkit.errors import ParameterError, did_you_mean
from memkit.evaluation.evaluation import is_per_query, known_mean, nullable
from memkit.evaluation.known_items import import_log
from memkit.evaluation.labels import as_arrow_table, judgements, read_qrels, read_queries, write
from memkit.evaluation.metrics import Labels, moment_of
from memkit.evaluation.result import Looks
from memkit.evaluation.statistics import Units, queries_needed
from memkit.evaluation.tune import Scored, Tuning, checked_epsilon, held_out_of, tuned
from memkit.schemas import tuples_of

__all__ = [
    "admission_scores",
    "context_scores",
    "dedup_scores",
    "import_log",
    "judgements",
    "queries_needed",
    "read_qrels",
    "read_queries",
    "tune_scores",
    "write",
]


def dedup_scores(
    dedup: Any, labels: Any, thresholds: Sequence[float], *, kind: str = "semantic", merge_cost: float = 1.0
) -> pa.Table:
    """Which labelled pairs each threshold of a Deduplicator decides correctly.

    Parameters
    ----------
    dedup : Deduplicator
        Fitted; pairs that differ in a number, a date, a negation or a value are not merged, as always.
    labels : table, data frame or path
        a_id, b_id and label (``duplicate``, ``different``, ``contradiction``, or true and false); other columns, such
        as the user, are kept.
    thresholds : sequence of float
        The threshold in use is added: name it as the default of ``tune_scores``.
    kind : {'semantic', 'lexical'}
        Which of the two thresholds is tuned.
    merge_cost : float
        The cost of merging a pair that is no duplicate, where missing a duplicate costs 1: a merged memory is lost.

    Returns
    -------
    pyarrow.Table
        query_id ("a ~ b"), the other columns of `labels`, and a column for each threshold: 1 for a correct decision, 0
        for a missed duplicate, 1 - merge_cost for a wrong merge.

    Raises
    ------
    ParameterError
        For an unknown label, a threshold outside of 0 to 1.

    Examples
    --------
    >>> import memkit as mk
    >>> notes = pa.table({"memory_id": ["a", "b", "c"], "text": ["Любит чай", "любит чай!", "Любит чай по утрам"]})
    >>> dedup = mk.Deduplicator(encoder=None, kinds=("lexical",), lexical_floor=0.3).fit(notes)
    >>> labels = {"a_id": ["a", "a"], "b_id": ["b", "c"], "label": [True, False]}
    >>> dedup_scores(dedup, labels, [0.3], kind="lexical").select(["0.3", "0.9"]).to_pylist()
    [{'0.3': 1.0, '0.9': 1.0}, {'0.3': 0.0, '0.9': 1.0}]
    """
    table = as_arrow_table(labels, "labels")
    check_value("dedup_scores", "merge_cost", merge_cost, "float", low=0)
    similar, label = dedup.similarity_of(table, kind)
    chosen = dedup.lexical_threshold if kind == "lexical" else dedup.threshold
    used = float(dedup.threshold_ if chosen is None else chosen)
    is_duplicate = label == "duplicate"
    columns = {}
    for threshold in sorted({*map(float, thresholds), used}):
        check_value("dedup_scores", "threshold", threshold, "float", low=0, high=1)
        merged = similar >= threshold
        columns[f"{threshold:g}"] = np.where(merged == is_duplicate, 1.0, np.where(merged, 1.0 - merge_cost, 0.0))
    names = [f"{a} ~ {b}" for a, b in tuples_of(table, "a_id", "b_id")]
    others = [name for name in table.column_names if name not in ("a_id", "b_id", "label")]
    return pa.table({"query_id": names, **{name: table[name] for name in others}, **columns})


def admission_scores(policies: Mapping[str, Any], labels: Any, as_of: AsOf = None) -> pa.Table:
    """Which labelled texts each of several admission policies decides correctly.

    Parameters
    ----------
    policies : dict of str to Admission
        By name; any policy that adds ``keep`` will do.
    labels : table, data frame or path
        text, accept (bool); other columns, such as the user, are kept.
    as_of : str, date or datetime, optional

    Returns
    -------
    pyarrow.Table
        The other columns of `labels`, and a column for each policy: 1 for a correct decision, else 0.

    Raises
    ------
    ParameterError
        Where a column is missing, or `accept` is not true or false.

    Examples
    --------
    >>> import memkit as mk
    >>> labels = {"text": ["Любит зелёный чай", "Как дела сегодня"], "accept": [True, False]}
    >>> policies = {"now": mk.Admission(), "more": mk.Admission(question_words=("как",), min_chars=5)}
    >>> admission_scores(policies, labels).select(["now", "more"]).to_pylist()
    [{'now': 1.0, 'more': 1.0}, {'now': 1.0, 'more': 1.0}]
    """
    table = as_arrow_table(labels, "labels")
    for name in ("text", "accept"):
        if name not in table.column_names:
            raise ParameterError(f"labels: expected a column '{name}'. Got {', '.join(table.column_names)}.")
    if not pa.types.is_boolean(table["accept"].type) or table["accept"].null_count:
        raise ParameterError(f"labels: expected true or false in every 'accept'. Got {table['accept'].type}.")
    right = table["accept"].to_numpy()
    texts = pa.table({"text": table["text"].cast(pa.string())})
    keeps = {name: policy.transform(texts, as_of=as_of)["keep"].to_numpy() for name, policy in policies.items()}
    others = [name for name in table.column_names if name not in ("text", "accept")]
    scores = {name: (keep == right).astype(np.float64) for name, keep in keeps.items()}
    return pa.table({**{name: table[name] for name in others}, **scores})


def context_scores(builders: Mapping[str, Any], corpus: Any, queries: Any, qrels: Any, as_of: AsOf = None) -> pa.Table:
    """The share of the relevant memories that the prompts of several builders contain, by query.

    Parameters
    ----------
    builders : dict of str to ContextBuilder
        By name.
    corpus : Corpus
    queries, qrels : table, data frame or path
        As for `evaluate`; a query's text is the message, its user the prompt's.
    as_of : str, date or datetime, optional
        For queries without a day of their own.

    Returns
    -------
    pyarrow.Table
        query_id, user_id, group, and a column for each builder: the share of the relevant memories that the prompt
        shows; null where no memory is relevant.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a"], "text": ["Пул соединений"], "user_id": ["anna"]})
    >>> search = mk.Retriever(encoder=None)
    >>> builders = {"narrow": mk.ContextBuilder(search, relevant_chars=9), "wide": mk.ContextBuilder(search)}
    >>> queries = {"query_id": ["q"], "text": ["пул"], "user_id": ["anna"]}
    >>> qrels = {"query_id": ["q"], "memory_id": ["a"], "relevance": [1]}
    >>> context_scores(builders, corpus, queries, qrels).select(["narrow", "wide"]).to_pylist()
    [{'narrow': 0.0, 'wide': 1.0}]
    """
    labelled, moment = read_queries(queries), Moment.from_as_of(as_of)
    wanted: dict[str, set[str]] = {}
    labels = Labels.from_tables(labelled, read_qrels(qrels), moment)
    for query, memory in tuples_of(labels.relevant(), "query_id", "memory_id"):
        wanted.setdefault(query, set()).add(memory)
    rows = labelled.select(["query_id", "user_id", "text", "as_of"]).to_pylist()
    columns = {}
    for name, builder in builders.items():
        shares = []
        for row in rows:
            need = wanted.get(row["query_id"], set())
            day = moment_of(row["as_of"], moment)
            in_prompt = _ids_in_prompt(builder, corpus, row["user_id"], row["text"], day) if need else set()
            shares.append(len(need & in_prompt) / len(need) if need else np.nan)
        columns[name] = nullable(np.array(shares))
    return pa.table({**{name: labelled[name] for name in ("query_id", "user_id", "group")}, **columns})


def _ids_in_prompt(builder: Any, corpus: Any, user: str | None, message: str, moment: Moment) -> set[str]:
    table = builder.build(corpus, user, message, as_of=moment).table
    return set(table.filter(table["keep"])["memory_id"].to_pylist())


@current_names
def tune_scores(
    scores: Any,
    default: str,
    *,
    group: str | None = None,
    mean_of: str | None = None,
    metric: str = "score",
    epsilon: float = 0.01,
    guard: Mapping[str, tuple[Any, float]] | None = None,
    holdout: float | None = None,
    remember: str | Path | None = None,
    random_state: int = 0,
) -> Tuning:
    """The verdict of `tune` over any table of scores: thresholds, word lists, budgets, prompts.

    Parameters
    ----------
    scores : table, data frame or path
        A row for each labelled case, a column of numbers for each setting, under its name; higher is better. A column
        ``query_id`` names the cases; other columns of text are ignored. `dedup_scores`, `admission_scores` and
        `context_scores` make such tables.
    default : str
        The column of the setting in use.
    group : str, optional
        The column whose equal values mark cases that are not independent: the user, the conversation. Without it each
        case is its own group.
    mean_of : {'queries', 'units'}, optional
        As for `evaluate`.
    metric : str
        The name of the scores in the verdict.
    guard : dict of str to (scores, margin), optional
        Other tables with these columns, on which the setting may lose at most the margin.
    epsilon, holdout, remember, random_state
        As for `tune`.

    Returns
    -------
    Tuning
        Its settings are ``{"setting": name}``, as numbers where all names are.

    Raises
    ------
    ParameterError
        For a missing column, fewer than two settings, or scores that some settings lack.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> cases = {"user_id": [f"u{at // 5}" for at in range(100)], "0.9": np.zeros(100), "0.8": random.random(100)}
    >>> found = tune_scores(cases, "0.9", group="user_id")
    >>> found.verdict_.word, found.chosen_params_
    ('better', {'setting': 0.8})
    """
    check_value("tune_scores", "random_state", random_state, "int", low=0)
    scored = _from_table(scores, default, group, mean_of, metric)
    names = [str(name) for name in scored.table["name"].to_pylist()]
    held_out, tested_on = held_out_of(scored, holdout, remember, random_state)
    scored = replace(scored, held_out=held_out, tested_on=tested_on)

    def guards(candidate: int) -> list[tuple[str, Units, float]]:
        checks = []
        for name, (table, margin) in (guard or {}).items():
            pair = as_arrow_table(table, f"guard {name}")
            kept = [column for column in pair.column_names if column in (default, names[candidate], group, "query_id")]
            guard_scored = _from_table(pair.select(kept), default, group if group in kept else None, mean_of, metric)
            units = guard_scored.units(1 - guard_scored.default, np.ones(len(guard_scored.cases), bool))
            checks.append((name, units, float(margin)))
        return checks

    return tuned(scored, guards, checked_epsilon(epsilon), Looks(remember), random_state)


def _from_table(source: Any, default: str, group: str | None, mean_of: str | None, metric: str) -> Scored:
    table = as_arrow_table(source, "scores")
    for name in (default, group):
        if name is not None and name not in table.column_names:
            hint = did_you_mean(name, table.column_names)
            role = "default" if name == default else "group"
            raise ParameterError(
                f"scores: expected a column {name!r} ({role}). Got {', '.join(table.column_names)}.{hint}"
            )
    names = [field.name for field in table.schema if _is_score(field, group)]
    if default not in names:
        raise ParameterError(
            f"scores: expected numbers in the column of the default, {default!r}. Got {table[default].type}."
        )
    cases = [str(row) for row in range(table.num_rows)]
    if "query_id" in table.column_names:
        cases = [str(name) for name in table["query_id"].to_pylist()]
    groups = cases if group is None else _names(table[group].to_pylist(), cases)
    values = np.array([pc.fill_null(pc.cast(table[name], pa.float64()), np.nan).to_numpy() for name in names])
    _, unit = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    unit_name = group or "query_id"
    settings = [{"setting": name} for name in _numbers(names)]
    rows = pa.table({"setting": np.arange(len(names)), "name": names, metric: [known_mean(row) for row in values]})
    return Scored(
        values=values.reshape(len(names), -1),
        settings=settings,
        default=names.index(default),
        metric=metric,
        table=rows,
        cases=cases,
        groups=groups,
        unit=unit,
        unit_name=unit_name,
        per_query=is_per_query(mean_of, unit, unit_name, "tune_scores"),
        held_out=np.zeros(len(cases), bool),
    )


def _is_score(field: pa.Field, group: str | None) -> bool:
    number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    return number and field.name not in (group, "query_id")


def _names(values: list[Any], cases: Sequence[str]) -> list[str]:
    """The group of each case; its own name where it has none."""
    return [case if value is None else str(value) for value, case in zip(values, cases, strict=True)]


def _numbers(names: Sequence[str]) -> list[Any]:
    """The names as numbers where all are."""
    try:
        return [float(name) for name in names]
    except ValueError:
        return list(names)
