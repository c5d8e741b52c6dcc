"""The panel of dedup: pairs near the threshold to judge, and precision and recall of the threshold on them."""

from __future__ import annotations

import difflib
import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base import atomic
from memkit.base.params import Param
from memkit.errors import ParameterError, count_of
from memkit.evaluation.labels import as_arrow_table
from memkit.panels.page import paragraph, rows_html
from memkit.panels.panel import QUERY, Action, Panel, Session, State, changed_code, changed_values
from memkit.plot.marks import Picture
from memkit.plot.measured import similarity
from memkit.policy.dedup.deduplicator import Deduplicator, labelled_pairs
from memkit.policy.dedup.pairs import FLAGS, OWNER, never_merges
from memkit.tables.corpus import Corpus
from memkit.text.secrets import mask

_LABELS = pa.schema([("a_id", pa.string()), ("b_id", pa.string()), ("label", pa.string())])
_Z = 1.959964
"""The quantile of the normal distribution at .975, for 95 % between both ends."""
_NEAREST, _CLUSTERS = 8, 20
"""Pairs that can be picked to judge next, and a third of the memories of clusters that are listed."""
_SEPARATOR = "\x1f"


class DedupPanel(Panel):
    """Thresholds for near-duplicate pairs, and the pairs nearest to them to judge.

    Parameters
    ----------
    dedup : Deduplicator
        Fitted.
    labels : table, data frame or path, optional
        a_id, b_id, label, as `Deduplicator.precision_recall` takes them. A path to Parquet is written after each
        judgement, in one step; another file is only read.
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай с мёдом", "чай зелёный с мёдом"]})
    >>> panel = DedupPanel(mk.Deduplicator(encoder=None, lexical_floor=0.4).fit(corpus))
    >>> panel.set(lexical_threshold=0.5)
    >>> panel.press("same")
    >>> panel.labels.to_pylist()
    [{'a_id': 'a', 'b_id': 'b', 'label': 'duplicate'}]
    """

    title: ClassVar[str] = "dedup"
    section: ClassVar[str] = "deduplicator"
    query_names: ClassVar[tuple[str, ...]] = ("precision",)
    actions: ClassVar[tuple[Action, ...]] = (
        ("same", "Same", "s"),
        ("different", "Different", "d"),
        ("contradiction", "Contradiction", "c"),
        ("back", "Take back", "b"),
        ("blocked", "Blocked pairs", "x"),
    )
    profile_section: ClassVar[str] = "dedup"
    follows: ClassVar[bool] = True

    def __init__(self, dedup: Deduplicator, labels: Any = None, *, session: Session | None = None) -> None:
        if not isinstance(dedup, Deduplicator) or not dedup.is_fitted:
            got = "one that is not" if isinstance(dedup, Deduplicator) else type(dedup).__name__
            raise ParameterError(
                f"panels.dedup: expected a fitted Deduplicator. Got {got}: mk.Deduplicator().fit(corpus) makes one."
            )
        self.dedup = dedup
        judged, self._path = labels_and_file(labels)
        self._labels: list[dict[str, Any]] = []
        self._chosen: frozenset[str] | None = None
        self._shows_blocked = False
        if judged is not None:
            known = labelled_pairs(as_arrow_table(judged, "labels"))
            self._labels = known.select(_LABELS.names).cast(_LABELS).to_pylist()
        self._texts = self._texts_by_id()
        threshold = dedup.threshold_ if dedup.threshold is None else dedup.threshold
        thresholds = {"threshold": threshold, "lexical_threshold": dedup.lexical_threshold}
        pairs = zip(thresholds.items(), dedup.floors_, strict=True)
        self._floors = {name: min(floor, value) for (name, value), floor in pairs}
        super().__init__({name: getattr(dedup, name) for name in self.declared} | thresholds, {}, session, dedup)

    @property
    def _memories(self) -> pa.Table:
        return self.dedup.nodes_.rows

    def _texts_by_id(self) -> dict[str, str]:
        rows = self.dedup.nodes_.rows
        return dict(zip(rows["memory_id"].to_pylist(), rows["text"].to_pylist(), strict=True))

    def _set_corpus(self, corpus: Corpus) -> None:
        self.dedup.fit(corpus)
        self._texts = self._texts_by_id()

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters that need no new fit; thresholds begin at the floors of the fit."""
        return {
            name: replace(param, low=self._floors[name]) if name in self._floors else param
            for name, param in Deduplicator.params().items()
            if not param.refit
        }

    @property
    def automatic(self) -> dict[str, float]:
        """The threshold that goes with the encoder, where it is left to memkit."""
        return {"threshold": self.dedup.threshold_} if self.values["threshold"] is None else {}

    @property
    def notes(self) -> dict[str, str]:
        """As of other panels; at a threshold that merges nothing this is said, and why."""
        dedup, rows = self._configured(self.session.state), self._memories
        reached = {name: dedup.reach(name, rows) for name in self._floors}
        return super().notes | {name: f"{reach}." for name, reach in reached.items() if reach and not reach.count}

    @property
    def labels(self) -> pa.Table:
        """The pairs judged so far: a_id, b_id, label."""
        return pa.Table.from_pylist(self._labels, schema=_LABELS)

    def _cache_key(self, state: State) -> Any:
        return (super()._cache_key(state), len(self._labels), self._shows_blocked)

    def _configured(self, state: State) -> Deduplicator:
        return self.dedup.with_params(**state[self.section])

    def _answer(self, state: State) -> pa.Table:
        return self._configured(state).report()

    def _picture(self, answer: pa.Table) -> Picture:
        counts = _counts(answer)
        n_never = counts["never_merging"]
        n_able = counts["pairs"] - n_never
        never = f"; {count_of(n_never, 'hollow one never does', 'hollow ones never do')}" if n_never else ""
        title = (
            f"{counts['merging']:,} of {count_of(n_able, 'pair merges', 'pairs merge')} at {self._threshold:g}{never}"
        )
        return replace(similarity(self._current, self._threshold), title=title)

    def _code(self, state: State) -> str:
        changes = changed_values(self.dedup, state[self.section])
        if self.dedup.threshold is None and changes.get("threshold") == self.dedup.threshold_:
            del changes["threshold"]
        name = self._name(self.dedup, "dedup")
        return changed_code(name, changes) + ".report()"

    def _status(self, answer: pa.Table) -> str:
        counts = _counts(answer)
        memories, clusters = count_of(counts["refused"], "memory"), count_of(counts["clusters"], "cluster")
        return f"{memories} of {clusters} would be refused; {self._judged()}"

    @property
    def _threshold(self) -> float:
        return self._threshold_of(self._kind)

    def _threshold_of(self, kind: str) -> float:
        """The threshold that pairs of a kind are held against."""
        name = "threshold" if kind == "semantic" else "lexical_threshold"
        return float(self.session.state[self.section][name])

    @property
    def _kind(self) -> str:
        """Pairs by meaning where there are any, else by words."""
        return "semantic" if "semantic" in self.dedup.pairs_["kind"].to_pylist() else "lexical"

    @property
    def pair(self) -> dict[str, Any] | None:
        """The pair to judge now: the chosen one, else the unjudged one nearest the threshold; None without one."""
        return next(iter(self.nearest(1)), None)

    def nearest(self, most: int = _NEAREST) -> list[dict[str, Any]]:
        """The unjudged pairs nearest the threshold that can merge, or are to be shown; a chosen pair comes first."""
        pairs, judged = self._pairs, {_ids_of_pair(row) for row in self._labels}
        thresholds = np.array([self._threshold_of(kind) for kind in pairs["kind"].to_pylist()])
        distance = np.abs(pairs["similarity"].to_numpy() - thresholds)
        nearest: list[dict[str, Any]] = []
        for index in np.argsort(distance, kind="stable"):
            row = pairs.slice(int(index), 1).to_pylist()[0]
            if _ids_of_pair(row) == self._chosen:
                nearest.insert(0, row)
            elif _ids_of_pair(row) not in judged:
                nearest.append(row)
            if len(nearest) > most and self._chosen is None:
                break
        return nearest[:most]

    @property
    def _current(self) -> pa.Table:
        """All pairs, as the kind by which they merge at the thresholds that are set."""
        return self._configured(self.session.state).current_pairs()

    @property
    def _pairs(self) -> pa.Table:
        """The pairs to judge: those that can merge, and with the switch those that a conflict blocks too."""
        pairs = self._current
        return pairs if self._shows_blocked else pairs.filter(pc.invert(never_merges(pairs)))

    def _blocked(self, answer: pa.Table) -> str:
        """How many pairs a conflict blocks, by what differs, and how to see them."""
        counts = _counts(answer)
        if not counts["never_merging"]:
            return ""
        by = ", ".join(f"{_word(flag)} {counts[flag]:,}" for flag in (*FLAGS, OWNER) if counts[flag])
        never = count_of(counts["never_merging"], "pair never merges", "pairs never merge")
        return f"{never}, by what differs: {by}. Blocked pairs (x) {'hides' if self._shows_blocked else 'shows'} them."

    def _pick(self, row: str) -> None:
        self._chosen = frozenset(row.split(_SEPARATOR))

    def _press(self, action: str) -> None:
        pair = self.pair
        if action == "blocked":
            self._shows_blocked, self._chosen = not self._shows_blocked, None
            return
        if action == "back":
            self._labels = self._labels[:-1]
        elif pair is not None:
            label = "duplicate" if action == "same" else action
            self._labels = [row for row in self._labels if _ids_of_pair(row) != _ids_of_pair(pair)]
            self._labels.append({"a_id": pair["a_id"], "b_id": pair["b_id"], "label": label})
            self._chosen = None
        if self._path is not None:
            save(self.labels, self._path)

    def _judged(self) -> str:
        """Precision and recall of the threshold on the judged pairs, with 95 % intervals."""
        if not self._labels:
            return "no pair judged yet"
        table = self.dedup.precision_recall(self.labels, self._kind)
        # The thresholds of the table are similarities, which rounding puts beside the one that was typed.
        rows = [row for row in table.to_pylist() if row["threshold"] >= self._threshold - 1e-12]
        if not rows:
            return f"{len(self._labels)} judged, none of them merged at {self._threshold:g}"
        row = rows[-1]
        low, high = wilson(round(row["precision"] * row["merged"]), row["merged"])
        target = self.session.state[QUERY]["precision"]
        best = self.dedup.threshold_for(self.labels, target, self._kind)
        same = sum(label["label"] == "duplicate" for label in self._labels)
        ends = wilson(round((row["recall"] or 0.0) * same), same)
        recall = "" if row["recall"] is None else f", recall {row['recall']:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"
        threshold_words = "no threshold" if best is None else f"threshold {best:.3f}"
        return (
            f"precision {row['precision']:.2f} ({low:.2f} to {high:.2f}) of {row['merged']} judged pairs{recall};"
            f" {threshold_words} reaches {target:g} on them"
        )

    def _read(self, answer: pa.Table) -> Iterator[str]:
        yield from super()._read(answer)
        yield from (self._texts.get(pair[name]) or "" for pair in self.nearest() for name in ("a_id", "b_id"))

    def _body(self, answer: pa.Table) -> str:
        near = self.nearest()
        judged = paragraph("No pairs were found." if not self._pairs.num_rows else "Every pair is judged.")
        first = self._side_by_side(near[0]) if near else judged
        clusters = self._settled("clusters", answer, self._clustered)
        measures = [(measure.replace("_", " "), f"{count:,}") for measure, count in _counts(answer).items()]
        counts = rows_html(("measure", "count"), measures)
        return first + self._next_pairs(near) + paragraph(self._blocked(answer)) + clusters + counts

    def _side_by_side(self, pair: dict[str, Any]) -> str:
        flags = _conflicts_of(pair)
        side = "above" if pair["similarity"] >= self._threshold_of(pair["kind"]) else "below"
        head = f"{pair['kind']}, similarity {pair['similarity']:.3f}, {side} the threshold"
        conflict = f' <em class="mkbadge">conflict: {", ".join(flags)}; never merged</em>' if flags else ""
        sides = side_by_side(*(mask(self._texts.get(pair[name]) or "") for name in ("a_id", "b_id")))
        cells = "".join(f'<td class="x">{text}</td>' for text in sides)
        names = "".join(f'<th scope="col" class="x">{html.escape(pair[name])}</th>' for name in ("a_id", "b_id"))
        table = f"<table><thead><tr>{names}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
        return f'<div class="mk mkpair"><p><b>Same?</b> {html.escape(head)}{conflict}</p>{table}</div>'

    def _next_pairs(self, near: list[dict[str, Any]]) -> str:
        """The next pairs; Enter on one shows it."""
        rows, picks = [], []
        for pair in near:
            flags = ", ".join(_conflicts_of(pair))
            texts = (self._texts.get(pair[name]) or "" for name in ("a_id", "b_id"))
            conflict = [flags] if self._shows_blocked else []
            rows.append((f"{pair['similarity']:.3f}", pair["kind"], *conflict, *texts))
            picks.append(_SEPARATOR.join((pair["a_id"], pair["b_id"])))
        heads = ("similarity", "kind", *["conflict"] * self._shows_blocked, "one (Enter: judge)", "other")
        return rows_html(heads, rows, picks) if rows else ""

    def _clustered(self) -> str:
        """The clusters at the thresholds, the surviving memory first."""
        rows_by_cluster = self._configured(self.session.state).transform(self.dedup.nodes_.rows)
        clustered = rows_by_cluster.filter(pc.is_valid(rows_by_cluster["cluster"])).sort_by(
            [("cluster", "ascending"), ("keep", "descending"), ("memory_id", "ascending")]
        )
        rows: list[tuple[str, ...]] = []
        numbers: dict[str, int] = {}
        for row in clustered.slice(0, 3 * _CLUSTERS).to_pylist():
            number = numbers.setdefault(row["cluster"], len(numbers) + 1)
            similarity = "" if row["keep"] else f"{row['similarity'] or 0:.3f}"
            text = row["text"] or row["memory_id"]
            place = f"{row['path']}:{row['line_start']}" if row["line_start"] else row["path"] or row["memory_id"]
            rows.append((f"{number}", "stays" if row["keep"] else "goes", similarity, place, text))
        rule = self.session.state[self.section]["survivor"]
        head = ("cluster", "what", "similarity", "where", f"memory (the {rule.replace('_', ' ')} stays)")
        n_more = clustered.num_rows - len(rows)
        foot = paragraph(f"{n_more:,} more memories in clusters" if n_more > 0 else "")
        return rows_html(head, rows) + foot if rows else paragraph("No clusters.")


def _counts(report: pa.Table) -> dict[str, int]:
    return dict(zip(report["measure"].to_pylist(), report["count"].to_pylist(), strict=True))


def _word(flag: str) -> str:
    return flag.removesuffix("_conflict")


def _conflicts_of(pair: Mapping[str, Any]) -> list[str]:
    """What keeps a pair apart, in words."""
    return [_word(flag) for flag in FLAGS if pair[flag]] + [OWNER] * bool(pair.get(OWNER))


def _ids_of_pair(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset((row["a_id"], row["b_id"]))


def side_by_side(left: str, right: str) -> tuple[str, str]:
    """Both texts as HTML, escaped, the words in which they differ marked.

    >>> side_by_side("пул вырос", "пул <b>упал")
    ('пул <mark>вырос</mark>', 'пул <mark>&lt;b&gt;упал</mark>')
    """
    words = left.split(), right.split()
    sides: tuple[list[str], list[str]] = ([], [])
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        for side, part in ((sides[0], words[0][a:b]), (sides[1], words[1][c:d])):
            text = html.escape(" ".join(part))
            side += [text if tag == "equal" else f"<mark>{text}</mark>"] if part else []
    return " ".join(sides[0]), " ".join(sides[1])


def wilson(right: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927).

    >>> tuple(round(end, 3) for end in wilson(8, 10))
    (0.49, 0.943)
    """
    if not n:
        return 0.0, 1.0
    share, z2 = right / n, _Z**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def labels_and_file(labels: Any) -> tuple[Any, Path | None]:
    """The labels to start from, and the Parquet file to save to; a file of another format is only read."""
    if not isinstance(labels, (str, Path)):
        return labels, None
    path = Path(labels)
    if path.suffix != ".parquet":
        return path, None
    return (path if path.exists() else None), path


def save(table: pa.Table, path: Path) -> None:
    """Write Parquet atomically."""
    import pyarrow.parquet as pq

    atomic.replace(path, lambda beside: pq.write_table(table, beside))
