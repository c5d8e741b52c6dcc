"""Dedup: `fit` finds pairs of near-duplicates once; thresholds and clusters then cost nothing (Memory v2). Measured on
labelled pairs: precision, recall, and the contradictions that a threshold would merge.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.dates import DATE_WORDS
from memkit.base.duck import rows_of
from memkit.base.params import Moment, Reach, check_choice, check_column, check_value, describe, estimator, param
from memkit.display.views import names_in
from memkit.documents import NEGATIONS, NUMBER_WORDS, cite
from memkit.errors import NotFittedError, ParameterError, StaleIndexError
from memkit.formats.finished import is_aside
from memkit.formats.linked.links import links_in
from memkit.policy.base import VERDICT, Policy, needed
from memkit.policy.dedup.clusters import SURVIVORS, Order, chains, components, in_order, verdicts
from memkit.policy.dedup.pairs import FLAGS, KINDS, OWNER, alike, each_once, find_pairs, mergeable, node_table, reaching
from memkit.schemas import REPLACED, kinds_where, tuples_of, with_column, without_file
from memkit.tables.statement import as_table, input_table

LABELS = ("duplicate", "different", "contradiction")

_SCORED_SQL = """
with best as (
    select least(a_id, b_id) as low, greatest(a_id, b_id) as high,
        max(case when not (contradiction and $guarded) then similarity end) as similarity
    from pairs
    where kind in ($kind, 'exact')
    group by all
)
select label,
    coalesce(case when a_id = b_id then 1.0 else similarity end, 0.0) as similarity
from labels left join best on low = least(a_id, b_id) and high = greatest(a_id, b_id)
order by place
"""


def precision_recall(pairs: Any, labels: Any, kind: str = "semantic", guarded: bool = True) -> pa.Table:
    """Precision and recall of each threshold on labelled pairs.

    Parameters
    ----------
    pairs : pyarrow.Table
        ``Deduplicator.pairs_``.
    labels : pyarrow.Table or pandas.DataFrame
        a_id, b_id (string, in any order) and label: ``duplicate``, ``different`` or ``contradiction``; true and false
        are read as the first two.
    kind : str
        The kind of pairs to measure; exact duplicates always merge.
    guarded : bool
        Whether pairs that differ in a number, a date, a negation or a value never merge, as in `Deduplicator`.

    Returns
    -------
    pyarrow.Table
        threshold (float64, falling), merged (int64), precision, recall, contradiction_rate (float64; the share of the
        labelled contradictions that would be merged; null where no pair is merged).

    Raises
    ------
    ParameterError
        For an unknown label.

    Examples
    --------
    >>> pairs = pa.table({"a_id": ["1", "1"], "b_id": ["2", "3"], "kind": ["semantic"] * 2, "similarity": [0.95, 0.8],
    ...     "contradiction": [False, False]})
    >>> labels = pa.table({"a_id": ["2", "1"], "b_id": ["1", "3"], "label": [True, False]})
    >>> precision_recall(pairs, labels).select(["threshold", "precision"]).to_pylist()
    [{'threshold': 0.95, 'precision': 1.0}, {'threshold': 0.8, 'precision': 0.5}]
    """
    similarity, label = similarity_of(pairs, labels, kind, guarded)
    thresholds = np.unique(similarity[similarity > 0])[::-1]
    merged = similarity[None, :] >= thresholds[:, None]
    right, wrong = merged[:, label == "duplicate"].sum(axis=1), merged[:, label == "contradiction"].sum(axis=1)
    return pa.table(
        {
            "threshold": thresholds,
            "merged": merged.sum(axis=1),
            "precision": right / np.maximum(1, merged.sum(axis=1)),
            "recall": _share(right, int((label == "duplicate").sum())),
            "contradiction_rate": _share(wrong, int((label == "contradiction").sum())),
        }
    )


def similarity_of(pairs: Any, labels: Any, kind: str = "semantic", guarded: bool = True) -> tuple[Any, Any]:
    """The similarity of each labelled pair (0 where the pair was not found), and its label; see `precision_recall`."""
    if guarded and OWNER in pairs.column_names:
        pairs = pairs.filter(pc.is_null(pairs[OWNER]))  # repeated text never merges
    labelled = labelled_pairs(as_table(labels)).select(["a_id", "b_id", "label"])
    labelled = labelled.append_column("place", pa.array(np.arange(labelled.num_rows)))
    scored = rows_of(_SCORED_SQL, {"guarded": guarded, "kind": kind}, pairs=pairs, labels=labelled)
    return scored["similarity"].to_numpy(), scored["label"].to_numpy(zero_copy_only=False)


def threshold_for(curve: pa.Table, precision: float) -> float | None:
    """The threshold with the highest recall among those of at least this precision, or None.

    Parameters
    ----------
    curve : pyarrow.Table
        The result of `precision_recall`.
    precision : float, ratio
        The required precision.
    """
    check_value("threshold_for", "precision", precision, "float", low=0, high=1)
    reached = curve["threshold"].to_numpy()[curve["precision"].to_numpy() >= precision]
    return float(reached.min()) if len(reached) else None


def labelled_pairs(labels: pa.Table) -> pa.Table:
    """The checked labelled pairs, each label one of `LABELS`."""
    for name in ("label", "a_id", "b_id"):
        check_column(name, labels.column_names, "labels")
    if pa.types.is_boolean(labels["label"].type):
        words = pa.array(["duplicate" if same else "different" for same in labels["label"].to_pylist()], pa.string())
        labels = with_column(labels, "label", words)
    for label in set(labels["label"].to_pylist()):
        check_choice("label", label, LABELS, "labels")
    return labels


def _share(counts: Any, whole: int) -> pa.Array:
    return pa.array(counts / whole, pa.float64()) if whole else pa.nulls(len(counts), pa.float64())


_SOURCE = cite("memory_v2", "policy")
DOCUMENT_THRESHOLD = 0.9
_RATIO: dict[str, Any] = {"low": 0, "high": 1, "unit": "ratio"}
_fitted_with = partial(param, refit=True)


def _pairs_above(policy: Any, name: str, kind: str) -> Reach | None:
    """How many of the pairs that fit found a threshold merges; None before fit, and where no threshold is given."""
    threshold = getattr(policy, name)
    if threshold is None or not policy.is_fitted:
        return None
    similarity = policy.pairs_.filter(pc.equal(policy.pairs_["kind"], kind))["similarity"].to_numpy()
    if kind not in policy.kinds:
        return Reach(0, len(similarity), f"kinds leaves {kind!r} out", name, "pair")
    if len(similarity):
        top = f"the most similar {kind} pair has {similarity.max():.3g}"
    else:
        is_blind = kind == "semantic" and policy.encoder is None
        top = "encoder=None finds no pair without given vectors" if is_blind else f"fit found no {kind} pair"
    return Reach(int((similarity >= threshold).sum()), len(similarity), top, f"{name}={threshold:g}", "pair", "merges")


@estimator
class Deduplicator(Policy):
    """Finds exact and near-duplicates, and keeps one memory of each cluster.

    `fit` finds every pair once, of one owner and across sources; `transform` applies the thresholds. Pairs that differ
    in a number, a date, a negation or a value are flagged in ``pairs_`` and never merged. A value is also a name, an
    identifier, a unit, or one word in the place of another that the encoder does not know as a synonym; without an
    encoder no word is one. This is strict: any doubtful pair is kept apart (`memkit.text.conflicts`). The few that a
    person would call contradictions are listed by ``mk.audit(search, only="contradictions")``. Exact duplicates of a
    user (ignoring case and blanks) share one vector, that of the least memory_id.

    A duplicate has the same owner: the same user, the same store where a host loads stores apart, and the same subject
    (`memkit.tables.owners`; the notebook 22_dedup has the rule of each layout). Texts of two subjects are duplicates
    still where the text names its subject itself (and what both apply to), or both lie in logs. Other equal words of
    two owners are *repeated text*: they are listed in ``pairs_``, each further memory with the least id, and never
    merged.

    Superseded and deprecated memories (`status`) are left out: they are neither merged into their successor nor kept in
    place of a valid memory, and `report` counts them as ``left_by_status``. Archived and stale ones take part. Entries
    of an index whose file is missing or invalid are left out too, as all that is known of them is a title.

    Adds ``keep`` (bool), ``reason`` (string, ``duplicate`` or ``semantic_duplicate``), ``duplicate_of`` (string, the
    survivor), ``because`` (string, why that one stays), ``similarity`` (float64, 0 to 1, with the survivor) and
    ``cluster`` (string, least memory_id of the cluster; null outside of one). Where the survivor rule does not decide,
    that one stays to which a page or an index links, then the one that is no copy by its name and lies in no archive or
    backup (`memkit.formats.finished`), then the one whose subject the text names, then the shorter path, then the
    least id. A memory without a date is taken to be as old as the one that the rule prefers. Every refused row forms a
    pair with its survivor. A chain A~B~C in which A and C are not a pair is not merged, but listed in ``chains_`` (see
    `memkit.policy.dedup.clusters.settle`). So a second run over the survivors finds nothing, as long as texts keep
    their vectors, mean-centering (`centre`) subtracts the same mean, and each template keeps enough texts to be one.

    Of texts of one template, such as a section that many pages have, those that fill its gaps differently, with another
    name, number or rare word, are no pair and are not listed, unless one lies within the other.

    Attributes
    ----------
    pairs_ : pyarrow.Table
        a_id, b_id (string; for a substring, a is the part), kind (string), similarity (float64: 1 for exact and
        substring, the cosine of trigram sets for lexical, or 1 where only marks differ in a short text, the cosine of
        vectors for semantic), number_conflict (signs count: "-5", "50%", "C++"), date_conflict,
        negation_conflict, value_conflict, contradiction (any of them), owner (string: ``store`` or ``subject``,
        whichever differs in equal words of two owners, else null), same_user (bool). Exact duplicates appear as their
        least id.
    distinct_ : pyarrow.Table
        The same with each pair once, whichever kinds found it.
    threshold_ : float
        The threshold that ``threshold=None`` uses: the encoder's stored ``dedup_threshold``, else 0.9.

    Examples
    --------
    >>> table = pa.table({"memory_id": ["a", "b", "c"], "text": ["Любит чай", "любит  чай и мёд", "Аренда 1200"]})
    >>> dedup = Deduplicator(encoder=None, survivor="longest").fit(table)
    >>> dedup.transform(table).column("duplicate_of").to_pylist()
    ['b', None, None]
    """

    needs: ClassVar[pa.Schema] = needed(
        *("memory_id", "user_id", "kind", "text", "importance", "created_at", "updated_at", "path", "line_start"),
        *("status", "superseded_by", "format", "layout", "scope", "title", "description", "heading_path"),
    )
    adds: ClassVar[dict[str, str]] = VERDICT | {
        "duplicate_of": "the survivor, of which it is a duplicate",
        "because": "why the survivor stays and not this one, in words",
        "similarity": "similarity with the survivor; ratio",
        "cluster": "least memory_id of the cluster; null outside of one",
    }
    reads: ClassVar[tuple[str, ...]] = ("clusters",)
    learns = True

    encoder: Any = _fitted_with(
        "use", kind="object", doc="Encoder for semantic pairs (see `as_encoder`); None: no such pairs."
    )
    # Well below the thresholds of encoders (.85 and .9), so that these can be tried without another fit.
    floor: float = _fitted_with(0.7, **_RATIO, low_open=True, doc="Minimum cosine of vectors for a pair in `pairs_`.")
    # Below `lexical_threshold` for the same reason.
    lexical_floor: float = _fitted_with(
        0.85, **_RATIO, low_open=True, doc="Minimum cosine of trigram sets for a pair in `pairs_`."
    )
    # Random texts have cosines of .8 by `e5` and of 0 by `use`; without the mean both scales mean the same.
    centre: str = _fitted_with(
        "corpus", choices=("corpus", "none"), doc="Mean-centering: subtract the mean of the corpus (50+ texts)."
    )
    # By letters «план» is a part of «планшет».
    substring: str = _fitted_with(
        "words",
        choices=("words", "letters"),
        doc="Substrings of whole words, or of any letters as in the document.",
    )
    owner: str = _fitted_with(
        "same",
        choices=("same", "any"),
        doc="Compare texts of the same store and subject alone, or of any within a user.",
    )
    across_users: bool = _fitted_with(False, doc="Compare the memories of different users, whatever `owner` says.")
    number_words: tuple[str, ...] = _fitted_with(
        None, stands_for=NUMBER_WORDS, doc="Numbers written as words, 'word=digits'. None: memkit's."
    )
    date_words: tuple[str, ...] = _fitted_with(
        None, stands_for=DATE_WORDS, doc="Names of months and days; Cyrillic ones match as prefixes. None: memkit's."
    )
    negations: tuple[str, ...] = _fitted_with(
        None, stands_for=NEGATIONS, doc="Words that negate a statement. None: memkit's."
    )
    kinds: tuple[str, ...] = param(
        KINDS, choices=KINDS, doc="Kinds of pairs that merge; exact duplicates always do.", source=_SOURCE
    )
    threshold: float | None = param(
        None,
        kind="float",
        **_RATIO,
        nullable=True,
        doc="Minimum cosine of vectors to merge. None: measured for the encoder.",
        acts_on=lambda policy, table: _pairs_above(policy, "threshold", "semantic"),
    )
    # The document's number for vectors; for letters none was measured.
    lexical_threshold: float = param(
        0.9,
        **_RATIO,
        doc="Minimum cosine of trigram sets to merge.",
        acts_on=lambda policy, table: _pairs_above(policy, "lexical_threshold", "lexical"),
    )
    # In a chain A~B~C the ends may say different things, so connected components are only on request.
    linkage: str = param(
        "complete",
        choices=("complete", "components"),
        doc="Clusters: every two members are a pair, or connected components.",
    )
    survivor: str = param("oldest", choices=tuple(SURVIVORS), doc="Which member of a cluster is kept.", source=_SOURCE)

    def fit(self, corpus: Any, y: object = None, *, vectors: Any = None) -> Self:  # type: ignore[override]  # it learns
        """Find the pairs of a corpus or table.

        Parameters
        ----------
        corpus : Corpus, pyarrow.Table or pandas.DataFrame
            Rows with ``text``; without ``memory_id`` the row number is the id.
        vectors : ndarray of shape (rows, dim), optional
            Vectors of the rows, instead of the encoder's; exact duplicates use that of the least memory_id.

        Raises
        ------
        ParameterError
            For an invalid parameter, duplicate ids, or another number of vectors than rows.
        """
        self.check_params()
        from memkit.index.encode import as_encoder

        encoder = None if vectors is not None or self.encoder is None else as_encoder(self.encoder)
        # The rows are sorted there, and those of another order go: each copy is as large as all texts.
        nodes = node_table(self._rows(corpus, vectors), self.across_users, self.owner == "same")
        node_pairs, pairs = find_pairs(nodes, self, encoder, vectors)
        self.linked_ = sorted(_linked(getattr(corpus, "tables", {}), nodes.rows))
        self.nodes_, self.node_pairs_, self.floors_ = nodes, node_pairs, (float(self.floor), float(self.lexical_floor))
        self.pairs_ = describe(pairs, memkit="pairs", shown=names_in(pairs, nodes.rows, "a_id", "b_id"))
        self.distinct_ = each_once(self.pairs_)
        self._orders = dict[str, Order]()
        calibrated = getattr(encoder, "dedup_threshold", None)
        self.threshold_ = DOCUMENT_THRESHOLD if calibrated is None else float(calibrated)
        return self

    def _rows(self, corpus: Any, vectors: Any) -> pa.Table:
        """The checked rows of a corpus or table."""
        rows = _identified(input_table(as_table(corpus), self.needs))
        if pc.count_distinct(rows["memory_id"]).as_py() != len(rows):
            raise ParameterError("Deduplicator.fit: 'memory_id' must be different in every row. Got duplicates.")
        if vectors is not None and len(vectors) != len(rows):
            raise ParameterError(f"Deduplicator.fit: expected one vector per row, {len(rows)}. Got {len(vectors)}.")
        return rows

    @property
    def chains_(self) -> pa.Table:
        """Chains A~B~C at the current thresholds: chain, memory_id, kept (bool); rows by chain, then id."""
        rows = self._fitted().nodes_.rows
        return chains(self.nodes_, self._merging(), self._verdicts(rows))

    def merging_pairs(self) -> pa.Table:
        """The pairs that merge at the current thresholds, each once: columns as in ``distinct_``."""
        pairs = self.current_pairs()
        return pairs.filter(reaching(pairs, *self._least()))

    def current_pairs(self) -> pa.Table:
        """All pairs, each once and as the kind by which it is similar enough at the current thresholds, if one is."""
        return each_once(self._fitted().pairs_, alike(self.pairs_, *self._least()))

    def _least(self) -> tuple[tuple[str, ...], float, float]:
        """The kinds that merge, and the thresholds by meaning and by letters."""
        threshold = self.threshold_ if self.threshold is None else float(self.threshold)
        return ("exact", *self.kinds), threshold, float(self.lexical_threshold)

    def report(self) -> pa.Table:
        """Counts at the current thresholds: measure (string), count (int64).

        ``pairs_exact`` and so on are the pairs of a kind, and ``pairs`` all of them, each once; ``merging`` of these
        merge, and ``never_merging`` do at no threshold, for what differs: ``number_conflict`` and so on, any of which
        is a ``contradiction``. ``refused`` memories of so many ``clusters`` go.
        """
        self._fitted()
        found = Counter(self.pairs_.filter(pc.is_null(self.pairs_[OWNER]))["kind"].to_pylist())
        counts = {f"pairs_{kind}": found[kind] for kind in ("exact", *KINDS)}
        counts["owner"] = self.pairs_.num_rows - found.total()
        for flag in (*FLAGS, "contradiction"):
            counts[flag] = pc.sum(self.distinct_[flag]).as_py() or 0
        merging = self._merging()
        counts["merging"] = counts["pairs_exact"] + len(merging[0])
        counts["never_merging"] = self.distinct_.num_rows - self.distinct_.filter(reaching(self.distinct_)).num_rows
        counts["pairs"] = self.distinct_.num_rows
        clustered = self._verdicts(self.nodes_.rows)
        counts["refused"] = pc.sum(pc.not_equal(clustered["survivor"], clustered["memory_id"])).as_py() or 0
        counts["clusters"] = pc.count_distinct(clustered["cluster"]).as_py()
        counts["left_by_status"] = int(pc.sum(_replaced(self.nodes_.rows)).as_py() or 0)
        counts["chains"] = pc.count_distinct(chains(self.nodes_, merging, clustered)["chain"]).as_py()
        return pa.table({"measure": list(counts), "count": pa.array(counts.values(), pa.int64())})

    def precision_recall(self, labels: Any, kind: str = "semantic", guarded: bool = True) -> pa.Table:
        """Precision and recall of each threshold on labelled pairs; see `agreement.precision_recall`."""
        self._fitted()
        return precision_recall(self.pairs_, self.nodes_.stand_ins(as_table(labels)), kind=kind, guarded=guarded)

    def similarity_of(self, labels: Any, kind: str = "semantic") -> tuple[Any, Any]:
        """The similarity of each labelled pair (0 where it can never merge), and its label."""
        self._fitted()
        return similarity_of(self.pairs_, self.nodes_.stand_ins(as_table(labels)), kind)

    def threshold_for(self, labels: Any, precision: float, kind: str = "semantic") -> float | None:
        """The lowest threshold whose merges of labelled pairs reach `precision`, or None."""
        return threshold_for(self.precision_recall(labels, kind), precision)

    def _fitted(self) -> Self:
        if not self.is_fitted:
            raise NotFittedError("Deduplicator is not fitted. Call fit(corpus) before transform.")
        self.check_params()
        return self

    def _merging(self) -> tuple[Any, ...]:
        names, (_, *least) = {"threshold": "semantic", "lexical_threshold": "lexical"}, self._least()
        for (name, kind), value, floor in zip(names.items(), least, self.floors_, strict=True):
            if kind in self.kinds and value < floor:
                raise ParameterError(
                    f"Deduplicator: '{name}' must be at least {floor:g}, the floor that fit used. Got {value:g}. "
                    "Fit again with a lower floor."
                )
        return mergeable(self.node_pairs_, self.kinds, *least)

    @property
    def by_user(self) -> bool:  # type: ignore[override]  # a parameter says so
        """Whether only memories of the same user are compared."""
        return not self.across_users

    def _verdicts(self, rows: pa.Table) -> pa.Table:
        return verdicts(self._order(rows), self._merging(), self.linkage)

    def _order(self, rows: pa.Table) -> Order:
        """The rows in the order of the survivor rule; that of the fitted ones is kept, as a slider asks again."""
        is_kept = rows is self.nodes_.rows
        if is_kept and self.survivor in self._orders:
            return self._orders[self.survivor]
        able = self.node_pairs_.filter(reaching(self.node_pairs_))
        like = components(len(self.nodes_.first), able["a"].to_numpy(), able["b"].to_numpy())
        # Only where another memory says nearly the same is there a choice.
        fitted = self.nodes_.places(rows["memory_id"]).to_numpy(zero_copy_only=False).astype(np.int64)
        asked = np.flatnonzero(self.nodes_.node[fitted] >= 0)
        group = like[self.nodes_.node[fitted[asked]]]
        asked = asked[np.bincount(group)[group] > 1]
        rows, names = rows.take(pa.array(asked)), self.nodes_.owners.names
        paths = rows["path"].to_pylist()
        linked, beside = set(self.linked_), set(self.nodes_.rows["path"].to_pylist())
        for name, flags in (
            ("linked", [path in linked for path in paths]),
            ("aside", [path is not None and is_aside(path, beside) for path in paths]),
            ("named", [names(row, row) for row in fitted[asked].tolist()]),
        ):
            rows = rows.append_column(name, pa.array(flags, pa.bool_()))
        order = in_order(self.nodes_, rows, self.survivor, like)
        if is_kept:
            self._orders[self.survivor] = order
        return order

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        self._fitted()
        rows = _identified(rows)
        positions = self.nodes_.places(rows["memory_id"])
        fitted_rows = self.nodes_.rows.take(positions)
        is_known = pc.equal(fitted_rows["text"], pc.fill_null(rows["text"], ""))
        if not self.across_users:
            is_known = pc.and_(
                is_known, pc.equal(pc.fill_null(fitted_rows["user_id"], ""), pc.fill_null(rows["user_id"], ""))
            )
        if not pc.all(pc.fill_null(is_known, False), min_count=0).as_py():
            changed = int(np.flatnonzero(~pc.fill_null(is_known, False).to_numpy())[0])
            raise StaleIndexError(
                f"Deduplicator: memory '{rows['memory_id'][changed]}' is new or changed since fit. Fit again."
            )
        return {"clusters": self._verdicts(rows)}

    def _sql(self) -> str:
        # Only a chain joined without a pair of its own has no kind of pair.
        only_semantic = str(tuple(self.kinds) == ("semantic",)).lower()
        return f"""select input.*,
    survivor is null or survivor = clusters.memory_id as keep,
    case when not keep then if(coalesce(semantic, {only_semantic}), 'semantic_duplicate', 'duplicate') end as reason,
    case when not keep then survivor end as duplicate_of,
    case when not keep then because end as because,
    case when not keep then clusters.similarity end as similarity,
    clusters.cluster
from input left join clusters on clusters.memory_id = coalesce(input.memory_id, input.row::varchar)"""  # noqa: S608  # declared parameters only


def _linked(tables: Mapping[str, pa.Table], rows: pa.Table) -> set[str]:
    """The paths of the files to which another file or an index links, also in a folder of plain files."""
    paths = dict(tuples_of(rows, "memory_id", "path"))
    links = tuples_of(tables["relations"], "memory_id", "to_id") if "relations" in tables else ()
    ends = {(paths.get(source), paths.get(target)) for source, target in links}
    linked = {target for source, target in ends if target and target != source}
    if "entries" in tables:
        linked |= {path for path in tables["entries"]["path"].to_pylist() if path}
    sources = {source for source, _ in ends}
    for path, text in tuples_of(rows.filter(pc.match_substring(rows["text"], "](")), "path", "text"):
        if path and path not in sources:  # plain files have no relations
            places = (link.target for link in links_in(text) if not link.is_wiki)
            linked |= {posixpath.normpath(posixpath.join(posixpath.dirname(path), place)) for place in places} - {path}
    return linked.intersection(paths.values())


def _replaced(rows: pa.Table) -> pa.ChunkedArray:
    """Whether the author of each row says that it is superseded or deprecated."""
    is_said = pc.is_in(rows["status"], value_set=pa.array(REPLACED, pa.string()))
    return pc.or_(is_said, pc.is_valid(rows["superseded_by"]))


def _identified(rows: pa.Table) -> pa.Table:
    """Rows with row numbers for missing ids; texts that are missing, or that policies leave alone, are empty."""
    ids = pc.coalesce(rows["memory_id"], rows["row"].cast(pa.string()))
    only_kept = pc.is_in(rows["kind"], value_set=pa.array(kinds_where(judged=False), pa.string()))
    is_left = pc.or_(pc.or_(only_kept, _replaced(rows)), without_file(rows))
    texts = pc.fill_null(rows["text"], "")
    if pc.any(is_left).as_py():
        texts = pc.if_else(is_left, "", texts)
    return with_column(with_column(rows, "memory_id", ids), "text", texts)
