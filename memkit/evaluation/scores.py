"""Settings to try, a grid of numbered points; their scores over the candidates for labelled queries, which are
retrieved once; and the checkpoint file, from which a long computation goes on after it was stopped.
"""

from __future__ import annotations

import copy
import io
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memkit import __version__
from memkit.base.hashes import checksum
from memkit.base.parallel import bar, is_configured, results
from memkit.base.params import Param, check_choice, check_value, hint_of
from memkit.errors import ParameterError
from memkit.evaluation.evaluation import CheckedTask
from memkit.evaluation.metrics import OF_HITS, Judged, Labels, Metric, PoolPart, Pools
from memkit.evaluation.result import fingerprint
from memkit.presets import MOST_POINTS
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import NOWHERE
from memkit.search.ask import STEPS, Settings
from memkit.search.question import Block, Key, Places, blocks_of, key_of, places, shortlist_of, wanted_of
from memkit.search.retriever import Retriever
from memkit.search.state import Pooled, Shortlist
from memkit.search.steps.collapse import hit_of
from memkit.search.steps.factors import Decay
from memkit.search.steps.recall import ARMS, depth_of
from memkit.tables.age import DECAYING, OF_DECAY, ages

Setting = dict[str, Any]
"""Values of parameters by name; all others are the Retriever's own."""
AT_FIT = {name: p for name, p in Retriever.all_params().items() if p.refit and p.kind != "object"}
"""The parameters that act at fit and that a grid may name: those of the index, not its encoder or engine."""
SAMPLERS = ("sobol", "random")
_ROUNDS = 20
"""Draws after which no more settings are looked for: of a small grid the same ones come again and again."""


@dataclass(frozen=True)
class _Axis:
    """One or several parameters that change together, and the values that they take, a tuple a point."""

    names: tuple[str, ...]
    points: Sequence[tuple[Any, ...]] | None
    distribution: Any = None

    @classmethod
    def from_values(cls, names: Any, values: Any, refits: bool = False) -> Self:
        several = isinstance(names, tuple)
        axis_names = names if several else (names,)
        for name in axis_names:
            check_name(name, refits)
        shown = ", ".join(axis_names)
        if hasattr(values, "ppf") and not several:
            return cls(axis_names, None, values)
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise ParameterError(f"grid: expected a list of values for '{shown}'. Got {values!r:.100}.")
        if isinstance(values, Sized) and len(values) > MOST_POINTS:
            raise ParameterError(f"grid: expected at most {MOST_POINTS:,} values for '{shown}'. Got {len(values):,}.")
        points = list(islice((_point(axis_names, value, several) for value in values), MOST_POINTS + 1))
        if not points:
            raise ParameterError(f"grid: expected at least one value for '{shown}'. Got none.")
        if len(points) > MOST_POINTS:
            raise ParameterError(f"grid: expected at most {MOST_POINTS:,} values for '{shown}'. Got more.")
        return cls(axis_names, list({repr(point): point for point in points}.values()))

    def point_at(self, share: float) -> tuple[Any, ...]:
        """The point at a share of the axis's length, 0 to 1."""
        if self.points is not None:
            return self.points[min(int(share * len(self.points)), len(self.points) - 1)]
        value = self.distribution.ppf(share)
        is_whole = declared_of(self.names[0]).kind == "int"
        return _point(self.names, int(value) if is_whole else float(value), False)


def check_name(name: Any, refits: bool = False) -> None:
    """Raise unless `name` is a query-time parameter or, with `refits`, one of the index."""
    if refits and name in AT_FIT:
        return
    declared = Retriever.all_params()
    if name in declared and declared[name].refit:
        raise ParameterError(
            f"grid: '{name}' acts at fit. Expected query-time parameters"
            + (f", or {', '.join(AT_FIT)}" if refits else "")
            + "; fit a Retriever for each value of it, and compare those."
        )
    if name not in declared:
        names = [known for known, p in declared.items() if not p.refit or (refits and known in AT_FIT)]
        raise ParameterError(
            f"grid: no parameter {name!r}. Expected some of {', '.join(names)}.{hint_of(name, [*names, *AT_FIT])}"
        )


def _point(names: tuple[str, ...], value: Any, several: bool) -> tuple[Any, ...]:
    values = tuple(value) if several and isinstance(value, Iterable) else (value,)
    if len(values) != len(names):
        raise ParameterError(f"grid: expected {len(names)} values for {', '.join(names)}. Got {value!r:.100}.")
    plain = tuple(_plain(item) for item in values)
    for name, item in zip(names, plain, strict=True):
        declared_of(name).check(item, "grid")
    return plain


def declared_of(name: str) -> Param:
    """The declaration of a parameter that a grid may name."""
    return Retriever.all_params()[name]


def at_fit(setting: Setting) -> Setting:
    """The values of a setting that act at fit.

    >>> at_fit({"pool": 50, "index__chunk_tokens": 200})
    {'index__chunk_tokens': 200}
    """
    return {name: value for name, value in setting.items() if name in AT_FIT}


def at_query(setting: Mapping[str, Any]) -> Setting:
    """The values of a setting that act at query time."""
    return {name: value for name, value in setting.items() if name not in AT_FIT}


def _plain(value: Any) -> Any:
    """A NumPy scalar as Python's own, a list as a tuple."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return tuple(value) if isinstance(value, list) else value


class Grid:
    """The points of one grid, or of several one after the other.

    Parameters
    ----------
    grid : dict, or sequence of dict
        A list of values by parameter. A tuple of names takes tuples of values, for what changes together. With
        `n`, an axis may be a distribution, what has ``ppf``, as SciPy's have.
    n : int, optional
        Draw this many settings instead of trying all.
    how : {'sobol', 'random'}
        Sobol's points fill the space evenly, whatever their number.
    random_state : int
    refits : bool
        Whether parameters that act at fit may vary too.

    Examples
    --------
    >>> list(Grid({"pool": [50, 100], ("decay", "decay_days"): [("none", 1), ("linear", 30)]}))[1]
    {'pool': 50, 'decay': 'linear', 'decay_days': 30}
    >>> len(Grid({"decay_days": range(1, 1001), "pool": range(1, 1001), "rrf_k": range(10)}))
    10000000
    """

    def __init__(
        self, grid: Any, n: int | None = None, how: str = "sobol", random_state: int = 0, *, refits: bool = False
    ) -> None:
        grids = [grid] if isinstance(grid, Mapping) else grid
        if isinstance(grids, str) or not isinstance(grids, Sequence) or not all(isinstance(g, Mapping) for g in grids):
            raise ParameterError(f"grid: expected a dict of lists by parameter, or a list of those. Got {grid!r:.100}.")
        if not grids or not all(grids):
            raise ParameterError("grid: expected values for at least one parameter. Got none.")
        check_value("sweep", "n", n, "int", nullable=True, low=1)
        check_choice("how", how, SAMPLERS, "sweep")
        self._grids = [
            [_Axis.from_values(names, values, refits) for names, values in axes_by_name.items()]
            for axes_by_name in grids
        ]
        for axes in self._grids:
            named = [name for axis in axes for name in axis.names]
            if twice := [name for name in named if named.count(name) > 1]:
                raise ParameterError(f"grid: expected each parameter once. Got '{twice[0]}' more than once.")
        endless = [axis.names[0] for axes in self._grids for axis in axes if axis.points is None]
        if endless and n is None:
            raise ParameterError(f"grid: '{endless[0]}' is a distribution: say how many settings are drawn (n=).")
        self._sampled: list[Setting] | None = None
        if n is not None and (endless or n < len(self)):
            self._sampled = self._draw(n, how, random_state)

    @property
    def names(self) -> list[str]:
        """The parameters that vary."""
        return list(dict.fromkeys(name for axes in self._grids for axis in axes for name in axis.names))

    def __len__(self) -> int:
        if self._sampled is not None:
            return len(self._sampled)
        return sum(math.prod(len(axis.points or ()) for axis in axes) for axes in self._grids)

    def __iter__(self) -> Iterator[Setting]:
        if self._sampled is not None:
            yield from self._sampled
            return
        for axes in self._grids:
            for points in product(*(axis.points or () for axis in axes)):
                yield _setting(axes, points)

    def _draw(self, count: int, how: str, seed: int) -> list[Setting]:
        """Draw `count` different settings; fewer where no more turn up."""
        if len(self._grids) > 1:
            raise ParameterError("grid: expected one dict to draw settings from. Got several.")
        axes, random = self._grids[0], np.random.default_rng(seed)
        settings: dict[str, Setting] = {}
        draw = _sobol(len(axes), random) if how == "sobol" else lambda size: random.random((size, len(axes)))
        for _ in range(_ROUNDS):
            for row in draw(count):
                setting = _setting(axes, [axis.point_at(share) for axis, share in zip(axes, row.tolist(), strict=True)])
                settings.setdefault(repr(setting), setting)
            if len(settings) >= count:
                break
        return list(settings.values())[:count]


def _setting(axes: Sequence[_Axis], points: Sequence[tuple[Any, ...]]) -> Setting:
    return {
        name: value
        for axis, point in zip(axes, points, strict=True)
        for name, value in zip(axis.names, point, strict=True)
    }


def _sobol(dimensions: int, random: np.random.Generator) -> Any:
    from scipy.stats import qmc

    points = qmc.Sobol(dimensions, seed=random)

    def draw(size: int) -> Floats:
        # Only powers of two are balanced, and give no warning.
        shares: Floats = (
            points.random_base2(max(size - 1, 1).bit_length())
            if points.num_generated == 0
            else (points.random(points.num_generated))
        )
        return shares

    return draw


_TABLES = "create table facts (value); create table pieces (name primary key, hash, data)"


class Checkpoint:
    """Arrays by name in one SQLite file, each written whole or not at all, and the facts of the work that they are of.

    An array whose bytes are not those that were written is not read.

    Parameters
    ----------
    path : str or Path
        Created where it does not exist.
    facts : dict
        What identifies the work; a file with other facts is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(f"{folder}/sweep", {"seed": 0}).put("first", np.ones(2))
    ...     Checkpoint(f"{folder}/sweep", {"seed": 0}).arrays["first"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, path: str | Path, facts: Mapping[str, Any]) -> None:
        self.path = Path(path)
        recorded = recorded_facts(path)
        if recorded is None:
            _asked(path, "insert into facts values (?)", (json.dumps(dict(facts)),))
        elif differs := [name for name, value in facts.items() if recorded.get(name) != value]:
            raise ParameterError(
                f"resume: expected the file of this sweep. {self.path} belongs to another one:"
                f" {', '.join(differs)} differ."
                " Name another file, or delete it."
            )
        self.arrays: dict[str, NDArray[Any]] = {
            name: np.load(io.BytesIO(data), allow_pickle=False)
            for name, hash, data in _asked(path, "select name, hash, data from pieces")
            if checksum(data) == hash
        }

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Add an array; it is on the disk when this returns."""
        data = io.BytesIO()
        np.save(data, values, allow_pickle=False)
        row = (name, checksum(data.getvalue()), data.getvalue())
        _asked(self.path, "insert or replace into pieces values (?, ?, ?)", row)
        self.arrays[name] = values


def recorded_facts(path: str | Path) -> dict[str, Any] | None:
    """The facts of the work in the file at `path`; None where there is no file, or nothing in it.

    Raises
    ------
    ParameterError
        Where it is something else.
    """
    rows = _asked(path, "select value from facts") if Path(path).exists() else []
    facts: dict[str, Any] | None = json.loads(rows[0][0]) if rows else None
    return facts


def _asked(path: str | Path, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """The rows of a statement; what it changes is on the disk when this returns."""
    try:
        with closing(sqlite3.connect(path)) as con, con:
            if not con.execute("select 1 from sqlite_schema").fetchone():
                con.executescript(_TABLES)
            return con.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise ParameterError(
            f"resume: expected a file that a sweep can write. Got {str(path)!r}: {error}; it was left as it is."
        ) from error


_UNIT = 250_000
_FEWEST_UNITS = 8
"""Scores of one unit of work at most, settings × queries, and how many units a part is cut into at least, so that
threads have something to share, and a stopped sweep loses little."""


class Measure(NamedTuple):
    """What is measured of settings, and how the work is done.

    Attributes
    ----------
    metrics : sequence of Metric
    depth : int
        How many hits the metrics look at.
    n_jobs : int or None
        Threads, as `sweep` takes them.
    resume : str or Path, or None
        A checkpoint file, which keeps each part of the scores as soon as it is done.
    """

    metrics: Sequence[Metric]
    depth: int
    n_jobs: int | None = None
    resume: str | Path | None = None


def scores_of(
    pools: Pools, task: CheckedTask, measure: Measure, settings: Sequence[Setting], names: Sequence[str] = ()
) -> tuple[Floats, Ints]:
    """Scores, metrics × settings × queries, and the number of queries with a hit, by setting.

    Parameters
    ----------
    pools : Pools
        Over one index; arms are asked for what is missing.
    names : sequence of str
        The parameters that vary; raise where they cannot make a difference.
    """
    metrics, depth, n_jobs, resume = measure
    plans = _plans(pools, settings)
    _check_decay(pools, plans, names)
    checkpoint = None if resume is None else Checkpoint(resume, _facts(pools, task, measure, settings))
    scores = np.full((len(metrics), len(settings), task.queries.num_rows), np.nan)
    with_hits = np.zeros(len(settings), np.int64)
    work = [(plan, part) for plan in plans for part in _parts(pools, plan)]
    with bar("scoring settings", total=sum(len(part.number) * plan.size for plan, part in work)) as done:
        for number, (plan, part) in enumerate(work):
            scorer = partial(Scorer, task.labels, metrics, depth, plan, part)
            for unit, values, hits in _scores_by_unit(f"{number}", scorer, plan, part, n_jobs, checkpoint):
                columns = part.number[unit]
                scores[:, plan.positions[:, None], columns] = values[:, plan.effect]
                with_hits[plan.positions] += hits[plan.effect]
                done.update(len(columns) * plan.size)
    return scores, with_hits


def _plans(pools: Pools, settings: Sequence[Setting]) -> list[Plan]:
    """The settings grouped by the candidates that they rank; asks the arms."""
    needs = []
    for setting in settings:
        full, weights, scope = pools.needs(setting)
        needs.append((full, weights, (scope, depth_of(full), hit_of(full))))
    together: dict[tuple[Any, ...], set[str]] = {}
    for full, weights, key in needs:
        if shares_candidates(full):
            together.setdefault(key, set()).update(weights)
    groups: dict[tuple[Any, ...], list[tuple[int, Key]]] = {}
    for position, (full, weights, (scope, *depth_and_hit)) in enumerate(needs):
        arms_of_group = together[(scope, *depth_and_hit)] if shares_candidates(full) else weights
        arms = tuple(arm for arm in ARMS if arm in arms_of_group)
        groups.setdefault((scope, arms, *depth_and_hit), []).append((position, key_of(full, weights, arms)))
    # To the greatest depth that any setting needs, and asked once: smaller depths are cut from the same lists.
    for scope in dict.fromkeys(key[0] for key in groups):
        wanted = [key for key in groups if key[0] == scope]
        arms_asked = [arm for arm in ARMS if any(arm in key[1] for key in wanted)]
        pools.retrieve_for(scope, arms_asked, max(key[2] for key in wanted))
        pools.check(scope, dict.fromkeys(arms_asked, 1.0))
    return [Plan.from_settings(key, keys) for key, keys in groups.items()]


def _parts(pools: Pools, plan: Plan) -> list[PoolPart]:
    return pools.parts(plan.scope, plan.arms, plan.depth)


def _check_decay(pools: Pools, plans: Sequence[Plan], names: Sequence[str]) -> None:
    """Raise where the settings vary decay and no candidate decays under any of them."""
    varied = [name for name in names if name in OF_DECAY]
    if varied and not any(_decays(part, plan) for plan in plans for part in _parts(pools, plan)):
        raise ParameterError(
            f"grid: '{varied[0]}' makes no difference: no candidate of these queries decays under any setting."
            f" Expected {DECAYING}."
        )


def _scores_by_unit(
    name: str,
    make_scorer: Callable[[], Scorer],
    plan: Plan,
    part: PoolPart,
    n_jobs: int | None,
    checkpoint: Checkpoint | None,
) -> Iterator[tuple[slice, Floats, Ints]]:
    """The scores of one plan over one part: those in the checkpoint, then those that are missing from it."""
    saved = {} if checkpoint is None else checkpoint.arrays
    units = _units(len(part.number), plan.size)
    missing = [unit for unit in units if f"{name} {unit.start}" not in saved]
    for unit in units:
        if unit not in missing:
            values = saved[f"{name} {unit.start}"]
            # The counts lie in the scores' last column: a piece of two arrays could be written by half.
            yield unit, values[:, :, :-1], values[0, :, -1].astype(np.int64)
    if missing:
        for unit, (scores, hits) in zip(missing, _scored(make_scorer(), missing, n_jobs), strict=True):
            if checkpoint is not None:
                counts = np.broadcast_to(hits[:, None], (*scores.shape[:2], 1))
                checkpoint.put(f"{name} {unit.start}", np.concatenate([scores, counts], axis=2))
            yield unit, scores, hits


def _facts(pools: Pools, task: CheckedTask, measure: Measure, settings: Sequence[Setting]) -> dict[str, Any]:
    """Everything that the scores depend on, as fingerprints."""
    labels, rows, memories = task.labels, pools.index.rows, pools.index.memories
    arrays = (rows.kind[0], rows.expires, rows.dated, rows.created, rows.decays, rows.twin)
    by_status = [memories[name].to_pylist() for name in ("status", "superseded_by", "stale_at")]
    questions = [batch.rows.drop_columns(["group"]).to_pylist() for batch in pools.batches]
    return {
        "version": __version__,
        "corpus": fingerprint(
            pools.index.digests, memories["user_id"].to_pylist(), list(rows.kind[1]), by_status, *arrays
        ),
        "encoder": pools.index.fingerprint,
        "labels": fingerprint(
            labels.key, labels.gain, labels.stale, labels.queries.to_pylist(), labels.memories.to_pylist(), questions
        ),
        "settings": fingerprint(pools.settings.get_params(), list(settings)),
        "metrics": [metric.name for metric in measure.metrics],
        "depth": measure.depth,
        "where": [batch.where for batch in pools.batches],
        "as_of": str(task.moment),
        "is_dated": task.moment.until is not None,
    }


def _scored(scorer: Scorer, units: list[slice], n_jobs: int | None) -> Iterator[tuple[Floats, Ints]]:
    """The scorer's result for each unit: by threads, or by the workers that joblib is configured for."""
    # Threads share the scorer's columns; other workers get those of their queries alone, as all would be sent for each
    # unit.
    if not is_configured():
        yield from results(scorer, ((unit,) for unit in units), n_jobs, prefer="threads")
        return
    alone = ((scorer.alone(unit), slice(0, unit.stop - unit.start)) for unit in units)
    yield from results(Scorer.__call__, alone, n_jobs)


def _units(n_queries: int, n_settings: int) -> list[slice]:
    """Slices of queries, each one unit of work."""
    size = max(1, min(-(-n_queries // _FEWEST_UNITS), _UNIT // max(n_settings, 1)))
    return [slice(start, min(start + size, n_queries)) for start in range(0, n_queries, size)]


def _decays(part: PoolPart, plan: Plan) -> bool:
    rows, pooled = part.pooled.index.rows, part.pooled
    age = ages(rows.dated[pooled.memory], pooled.moment[pooled.candidates.query])
    place = next(number for number, step in enumerate(STEPS.ranking) if isinstance(step, Decay))
    kinds = {key[place].kinds for key in plan.keys if key[place].form != "none"}
    return any(bool((rows.may_decay(pooled.memory, some) & (age > 0)).any()) for some in kinds)


@dataclass(frozen=True)
class Plan:
    """Settings that rank the same candidates.

    Attributes
    ----------
    arms, depth, hit
        The arms that the candidates come from, and how many of each; what a hit is.
    positions : ndarray of int64
        The numbers of the settings.
    effect : ndarray of int64
        The place of each setting in the blocks, counted through.
    keys : list of tuple
        Their distinct keys.
    blocks : list of Block
    """

    scope: tuple[Any, ...]
    arms: tuple[str, ...]
    depth: int
    hit: str
    positions: Ints
    effect: Ints
    keys: list[Key]
    blocks: list[Block]

    @property
    def size(self) -> int:
        return len(self.keys)

    @classmethod
    def from_settings(cls, key: tuple[Any, ...], settings: Sequence[tuple[int, Key]]) -> Plan:
        """The settings of one `key`, by number and key of their ranking."""
        positions, keys = zip(*settings, strict=True)
        blocks, place = blocks_of(keys)
        scope, arms, depth, hit = key
        effect = np.array([place[one] for one in keys], np.int64)
        return cls(scope, arms, depth, hit, np.array(positions, np.int64), effect, list(place), blocks)


def shares_candidates(s: Settings) -> bool:
    """Whether candidates of other arms make no difference to these settings, so that pools may be shared."""
    return not any(step.looks_around(s) for step in s.acting())


class Scorer:
    """Scores of one plan over one part, a slice of queries at a time; any number of threads may call it.

    It holds all columns of the candidates that scoring needs, so that `alone` can go to a worker without an index.

    Parameters
    ----------
    depth : int
        How many hits the metrics look at.
    """

    def __init__(
        self,
        labels: Labels,
        metrics: Sequence[Metric],
        depth: int,
        plan: Plan,
        part: PoolPart,
    ) -> None:
        pooled = replace(part.pooled, hit=plan.hit)
        candidates, index = pooled.candidates, pooled.index
        self.labels, self.metrics, self.depth = labels, list(metrics), depth
        self.looks_at_hits = any(metric.kind in OF_HITS for metric in metrics)
        self.plan, self.number = plan, part.number
        self.starts = np.searchsorted(candidates.query, np.arange(len(part.number) + 1))
        codes = labels.codes(index.memories["memory_id"])
        self.label = labels.look_up(part.number[candidates.query], codes[pooled.memory])
        self.shortlist = shortlist_of(pooled, plan.keys)
        self._ask(pooled)

    def alone(self, unit: slice) -> Self:
        """The scorer of some queries alone, without references to the index."""
        first, last = self.starts[unit.start], self.starts[unit.stop]
        rows, part = slice(first, last), copy.copy(self)
        part.number, part.starts = self.number[unit], self.starts[unit.start : unit.stop + 1] - first
        part.label, part.shortlist = self.label[rows], self.shortlist.take(rows).alone()
        return part

    def _ask(self, pooled: Pooled) -> None:
        """Ask for the candidates that any setting needs to know more of: each step's questions at once, in turn."""
        applied = {stage.step for block in self.plan.blocks for stage in block.stages}
        for step in [one for one in STEPS.telling["wants"] if one in applied]:
            wanted: dict[str, tuple[Mask, dict[Any, None]]] = {}
            # By query, as a block looks at the candidates of one; what they want to know is then asked for all at once.
            for query in range(len(self.number)):
                rows = slice(self.starts[query], self.starts[query + 1])
                for block in self.plan.blocks:
                    keys, masks = wanted_of(self.shortlist.take(rows), block, step)
                    for whom, some in masks.items():
                        nobody = np.zeros(len(self.shortlist), bool), dict[Any, None]()
                        mask, known = wanted.setdefault(whom, nobody)
                        mask[rows] |= some
                        known |= dict.fromkeys(keys)
            for whom, (mask, known) in wanted.items():
                asked = np.flatnonzero(mask)
                self.shortlist.tell(step.name, whom, asked, step.ask(pooled, list(known), whom, asked))

    def __call__(self, unit: slice) -> tuple[Floats, Ints]:
        """Scores, metrics × effects × queries, and the number of queries with a hit, by effect."""
        plan, queries = self.plan, range(unit.start, unit.stop)
        scores = np.empty((len(self.metrics), plan.size, len(queries)))
        with_hits = np.zeros(plan.size, np.int64)
        for column, query in enumerate(queries):
            candidates, wanted, labels = self._query(query)
            start = 0
            for block in plan.blocks:
                shown = places(candidates, block, wanted, self.depth, self.looks_at_hits)
                columns = slice(start, start + block.size)
                run = self._judged(int(self.number[query]), labels, shown)
                for number, metric in enumerate(self.metrics):
                    scores[number, columns, column] = metric(run)
                with_hits[columns] += shown.hits > 0
                start += block.size
        return scores, with_hits

    def _query(self, query: int) -> tuple[Shortlist, Ints, Ints]:
        """The candidates of one query, which of them were judged, and their labels."""
        rows = slice(self.starts[query], self.starts[query + 1])
        wanted = np.flatnonzero(self.label[rows] >= 0)
        labels = self.label[rows][wanted]
        if not self.looks_at_hits:
            # No other metric asks where a wrong memory stands.
            right = self.labels.gain[labels] > 0
            wanted, labels = wanted[right], labels[right]
        return self.shortlist.take(rows), wanted, labels

    def _judged(self, query: int, labels: Ints, places: Places) -> Judged:
        """As `Judged.from_hits`, a row for each setting; columns that no metric uses stay empty."""
        shape = (len(places.hits), self.depth)
        gain, covered = np.zeros(shape), np.zeros(shape, np.int64)
        judged, stale, filled = (np.zeros(shape, bool) for _ in range(3))
        # A label may have several candidates, its memory's chunks or copies: the first of them is where it was found.
        for label in dict.fromkeys(labels.tolist()):
            candidates = np.flatnonzero(labels == label)
            first = places.place[candidates].min(axis=0)
            rows = np.flatnonzero(first != NOWHERE)
            cells = (rows, first[rows])
            gain[cells] = np.maximum(gain[cells], self.labels.gain[label])
            covered[cells] += self.labels.gain[label] > 0
            if self.looks_at_hits:
                self._mark(candidates, places, judged, stale, bool(self.labels.stale[label]))
        if self.looks_at_hits:
            filled = np.arange(shape[1]) < places.hits[:, None]

        def repeated(values: Any) -> Any:
            return np.full(shape[0], values[query])

        return Judged(
            repeated(self.labels.n_relevant),
            lambda k: repeated(self.labels.ideal(k)),
            gain,
            covered,
            judged,
            stale,
            filled,
        )

    def _mark(self, candidates: Ints, places: Places, judged: Mask, stale: Mask, is_stale: bool) -> None:
        """Mark the places of candidates of one memory that was judged."""
        for candidate in candidates.tolist():
            rows = np.flatnonzero(places.place[candidate] != NOWHERE)
            judged[rows, places.place[candidate, rows]] = True
            # A copy folded into the hit of another counts as judged; stale is only what is a hit itself.
            rows = rows[places.is_hit[candidate, rows]]
            stale[rows, places.place[candidate, rows]] = is_stale
