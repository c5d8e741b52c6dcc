"""The panel of the map: all memories as points by meaning, and what is chosen among them as a table and SQL.

The points are a widget of jupyter-scatter: WebGL, one hundred thousand of them. jupyter-scatter 1.0 was chosen in
November 2026: 1.9 MB, an anywidget like memkit's own page, so that one stands within the other; it loads nothing from
outside, its lasso gives row numbers, and a text that is pointed at is asked of the kernel one at a time, so that only
masked words leave it. embedding-atlas 0.26 is a wheel of 24 MB that needs sentence-transformers (and with it PyTorch),
LiteLLM and a web server. datamapplot 0.7 needs datashader, all of dask, scikit-image and numba, and its pages load
deck.gl, jQuery, Arrow and fonts from outside. Both make a page of their own, no part of a panel.
"""

from __future__ import annotations

import copy
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from memkit import Corpus, Deduplicator, Retriever
from memkit.base.duck import literals
from memkit.errors import MissingExtraError, ParameterError, count_of, did_you_mean
from memkit.explore.places import COLORS, METHODS, Groups, Layout, deduplicator_of, grouped, lay_out, places_of
from memkit.explore.topics import Topics
from memkit.explore.topics import topics as find_topics
from memkit.extend import Estimator, Param, estimator, param
from memkit.extend.panels import (
    QUERY,
    Action,
    Panel,
    Session,
    State,
    call_code,
    cut,
    legend,
    moment_of,
    paragraph,
    rows_html,
)
from memkit.extend.showing import Picture, check_fitted, mask, names_of, visible
from memkit.extend.writing import AsOf
from memkit.schemas import Ints, Mask
from memkit.search.steps.scope import memories_where
from memkit.text.secrets import Mask as Secrets

GROUND = {
    "light": {"background_color": [1, 1, 1, 1], "tooltip_color": [1, 1, 1, 1], "lasso_color": [0, 0.45, 0.7, 1]},
    "dark": {
        "background_color": [0.07, 0.07, 0.07, 1],
        "tooltip_color": [0.2, 0.2, 0.2, 1],
        "lasso_color": [0.34, 0.71, 0.91, 1],
    },
}
"""What the page sets on the points, once it knows which ground it stands on."""
PLACES, SELECTION = "places", "selection"
"""Tables of the panel's corpus."""
_LASSO = "lasso"
_PAGE, _LISTED, _DRAWN, _TEXT = 25, 20, 2000, 1200
"""Rows of a page, ids that stand in the SQL, dots of the picture, and characters of an opened text."""
_COLUMNS = f"select memories.*, x, y from memories join {PLACES} using (memory_id)"  # noqa: S608  # ours


@estimator
class MapSettings(Estimator):
    """How a map is drawn, and which group of it is chosen."""

    color: str = param("kind", choices=COLORS, doc="What the colours say.")
    projection: str = param(
        METHODS[0],
        choices=METHODS,
        doc="t-SNE keeps neighbours together, PCA large distances; UMAP is like t-SNE, and has an extra of its own.",
    )
    group: str | None = param(
        None, kind="str", nullable=True, doc="The group of that colour is chosen, by its name in the legend."
    )


@dataclass(frozen=True)
class MapAnswer:
    """What is chosen on a map.

    Attributes
    ----------
    layout, groups
        Where all points lie, and their colours.
    chosen : ndarray of bool, shape (n,), or None
        The points that pass all that is set; None where nothing is set.
    order : ndarray of int64
        The rows of the table: hits by rank, all else by memory_id.
    corpus : Corpus
        Has the table `PLACES`.
    """

    layout: Layout
    groups: Groups
    chosen: Mask | None
    order: Ints
    corpus: Corpus

    @property
    def ids(self) -> pa.ChunkedArray:
        """The memories of the table, in its order."""
        return self.layout.memories["memory_id"].take(pa.array(self.order))

    @property
    def query(self) -> str:
        """The SQL that gives the table; more than a few memories are the table `SELECTION`."""
        if self.chosen is None:
            return f"{_COLUMNS} order by memory_id"
        few = len(self.order) <= _LISTED
        chosen_ids = literals(self.ids.to_pylist()) if few and len(self.order) else f"from {SELECTION}"
        return f"{_COLUMNS} where memory_id in ({chosen_ids}) order by memory_id"

    @cached_property
    def table(self) -> pa.Table:
        """The memories that are chosen, with x and y; all where nothing is set."""
        self.select()
        return self.corpus.sql(self.query).to_arrow_table()

    def select(self) -> None:
        """Have `SELECTION` be these memories."""
        if self.chosen is not None:
            self.corpus.add_table(SELECTION, pa.table({"memory_id": self.ids}))


class MapPanel(Panel):
    """All memories as points, those of like meaning close by; what is chosen is a table, and SQL.

    A lasso, a group of the legend, a predicate and a query choose; a memory has to pass all that are set. What is
    chosen stands out, and the table below lists it: every row can be reached by keyboard. A point that is pointed at
    shows its text, without secrets.

    Parameters
    ----------
    search : Retriever
        Fitted. Without vectors, memories lie by their words.
    query : str
        Its hits are chosen.
    color, projection
        As for `mk.plot.map`.
    topics : Topics, optional
        For the colours of topics; by default those of ``mk.topics(search)``, found when they are asked for.
    dedup : Deduplicator, optional
        Fitted, for the colours of duplicates; by default one with the encoder of `search` is fitted when they are
        asked for.
    where : str, optional
        A SQL predicate over ``memories``.
    k : int
        The number of hits.
    group : str, optional
        The group of that colour is chosen.
    memory_ids : list of str, optional
        Chosen, as by the lasso.
    as_of : str, date, datetime or None
        By default now.
    session : Session, optional
        That of another panel.

    Attributes
    ----------
    corpus : Corpus
        A copy of the search's own with the tables ``places`` (memory_id, x, y) and, once more than a few memories are
        chosen, ``selection`` (memory_id), for SQL of one's own.

    Raises
    ------
    NotFittedError, ParameterError, QueryError
    MissingExtraError
        Where the extra ``map`` is not installed; `mk.plot.map` draws the same without it.

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"memory_id": ["a", "b", "c"], "text": ["чай", "кофе", "пул"], "kind": ["profile", "profile", "working"]}
    >>> panel = MapPanel(mk.Retriever(encoder="hash").fit(mk.from_table(rows)), as_of="2026-03-01")
    >>> panel.set(group="profile")
    >>> panel.result["memory_id"].to_pylist()
    ['a', 'b']
    """

    title: ClassVar[str] = "map"
    section: ClassVar[str] = "map"
    query_names: ClassVar[tuple[str, ...]] = ("query", "k", "where", "as_of")
    actions: ClassVar[tuple[Action, ...]] = (
        ("clear", "Choose all", "c"),
        ("previous", f"Previous {_PAGE}", "p"),
        ("next", f"Next {_PAGE}", "n"),
    )

    def __init__(
        self,
        search: Retriever,
        query: str = "",
        *,
        color: str = "kind",
        projection: str = METHODS[0],
        topics: Topics | None = None,
        dedup: Deduplicator | None = None,
        where: str | None = None,
        k: int = 10,
        group: str | None = None,
        memory_ids: Sequence[str] | None = None,
        as_of: AsOf = None,
        session: Session | None = None,
    ) -> None:
        check_installed()
        check_fitted("panels.map", search)
        self.search, self._topics, self._dedup = search, topics, dedup
        self._layouts: dict[str, Layout] = {}
        self._groups: tuple[Any, Groups | None] = (None, None)
        self._corpora: dict[str, Corpus] = {}
        self._first_row = 0
        self._opened: str | None = None
        settings = MapSettings(color=color, projection=projection, group=group)
        settings.check_params()
        query_values = {"query": query, "where": where, "as_of": moment_of(as_of), "k": k}
        super().__init__({**settings.get_params(), _LASSO: None}, query_values, session, search, topics, dedup)
        if memory_ids is not None:
            self.choose(memory_ids)

    @property
    def declared(self) -> Mapping[str, Param]:
        """Colour, projection and group."""
        return MapSettings.params()

    def spec(self) -> dict[str, Any]:
        """As `Panel.spec`, with the colours for a light and a dark ground; no profile, as nothing here is tuned."""
        return {**super().spec(), "profile": False, "ground": GROUND}

    def set(self, **values: Any) -> None:
        """As `Panel.set`; a group of other colours is given up."""
        if values.get("color", self.values["color"]) != self.values["color"]:
            values.setdefault("group", None)
        super().set(**values)

    @classmethod
    def is_in_lab(cls) -> bool:
        """Where its points can be shown."""
        return is_installed()

    def choose(self, memory_ids: Sequence[str] | None) -> None:
        """Choose these memories, as the lasso does; None for all."""
        known = self.layout.memories["memory_id"]
        rows = None
        if memory_ids is not None:
            if isinstance(memory_ids, pa.ChunkedArray):
                memory_ids = memory_ids.to_pylist()
            if isinstance(memory_ids, str) or not all(isinstance(memory_id, str) for memory_id in memory_ids):
                got = f"{memory_ids!r:.200}"
                raise ParameterError(f"panels.map: expected a list of memory_ids. Got {got}.")
            places = pc.index_in(pa.array(memory_ids, pa.string()), value_set=known.combine_chunks())
            if places.null_count:
                missing = next(
                    memory_id for memory_id, place in zip(memory_ids, places.to_pylist(), strict=True) if place is None
                )
                hint = did_you_mean(missing, known.to_pylist())
                raise ParameterError(
                    f"panels.map: expected the ids of memories on the map. Got {missing!r:.200}.{hint}"
                )
            rows = np.unique(places.to_numpy())
        self.choose_rows(rows)

    def choose_rows(self, rows: Ints | None) -> None:
        """Choose the points of these numbers; None for all."""
        lasso = None if rows is None or not len(rows) else tuple(map(int, rows))
        state = self.session.state.with_values(self.section, **{_LASSO: lasso})
        self._check(state)
        self.session.change_to(state)

    @property
    def layout(self) -> Layout:
        """Where the memories lie."""
        return self._laid_out(self.session.state)

    @property
    def corpus(self) -> Corpus:
        """The corpus of the search, with the table of places."""
        corpus: Corpus = self.answer.corpus
        return corpus

    def _laid_out(self, state: State) -> Layout:
        method = state[self.section]["projection"]
        if method not in self._layouts:
            self._layouts[method] = lay_out(self.search, method)
            corpus = self._corpora[method] = copy.copy(self.search.over_all().corpus_)
            corpus.add_table(PLACES, self._layouts[method].table)
        return self._layouts[method]

    def _coloured(self, state: State, layout: Layout) -> Groups:
        """The groups of a state's colour, worked out once for each moment."""
        color, moment = state[self.section]["color"], self._moment(state).instant
        key = (color, moment if color in ("age", "topic") else None, layout.memories.num_rows)
        if self._groups[0] != key or self._groups[1] is None:
            if color == "duplicates" and self._dedup is None:
                self._dedup = deduplicator_of(self.search)
            topics = self._topics
            if color == "topic" and topics is None:
                topics = find_topics(self.search, as_of=moment)
            self._groups = (key, grouped(color, layout.memories, moment, self._dedup, topics))
        assert self._groups[1] is not None
        return self._groups[1]

    def _cache_key(self, state: State) -> Any:
        values = dict(state[self.section])
        lasso = values.pop(_LASSO)
        return (tuple(state[QUERY].get(name) for name in self.query_names), tuple(values.items()), lasso)

    def _answer(self, state: State) -> MapAnswer:
        layout, values, query = self._laid_out(state), state[self.section], state[QUERY]
        groups = self._coloured(state, layout)
        ids, corpus = layout.memories["memory_id"], self._corpora[values["projection"]]
        passes: list[Mask] = []
        if values[_LASSO] is not None:
            passes.append(np.isin(np.arange(len(ids)), values[_LASSO]))
        if values["group"]:
            passes.append(groups.codes == _code(groups, values["group"]))
        where = query["where"] or None
        if where is not None:
            passed = memories_where(self.search.over_all().corpus_.ask, where)
            passes.append(pc.is_in(ids, value_set=passed).to_numpy())
        hits = None
        if query["query"]:
            best = self.search.search(query["query"], k=query["k"], where=where, as_of=self._moment(state))["memory_id"]
            hits = pc.index_in(best, value_set=ids.combine_chunks()).drop_null().to_numpy().astype(np.int64)
            passes.append(np.isin(np.arange(len(ids)), hits))
        chosen = np.logical_and.reduce(passes) if passes else None
        order = np.arange(len(ids)) if chosen is None else np.flatnonzero(chosen)
        # A question gives an order; its hits are listed by rank and not by id.
        if hits is not None and chosen is not None:
            order = hits[chosen[hits]]
        return MapAnswer(layout, groups, chosen, order, corpus)

    def _picture(self, answer: MapAnswer) -> Picture:
        color = self.session.state[self.section]["color"]
        return places_of(answer.layout, answer.groups, color, answer.chosen, _DRAWN)

    def _code(self, state: State) -> str:
        """SQL for a few memories; for more, the panel that chooses them."""
        self.answer.select()  # for SQL of one's own
        answer, values, query = self.answer, state[self.section], state[QUERY]
        search, usual = self._name(self.search, "search"), MapSettings().get_params()
        if answer.chosen is None or 0 < len(answer.order) <= _LISTED:
            places = {"projection": values["projection"]} if values["projection"] != usual["projection"] else {}
            return f"{call_code('mk.panels.map', search, **places)}.corpus.sql({answer.query!r}).to_arrow_table()"
        set_values = {name: values[name] for name, value in usual.items() if values[name] != value}
        given: dict[str, Any] = {"topics": self._topics, "dedup": self._dedup}
        made = {name: self._name(value, "") for name, value in given.items() if self.session.name_of(value, "")}
        asked = {name: query[name] for name in ("query", "k") if query["query"]}
        asked |= {"where": query["where"]} if query["where"] else {}
        if values[_LASSO] is not None:
            ids = answer.layout.memories["memory_id"].take(pa.array(values[_LASSO])).to_pylist()
            asked["memory_ids"] = ids
        return f"{call_code('mk.panels.map', search, **asked, **set_values, **made, **self._dated(state))}.result"

    def _status(self, answer: MapAnswer) -> str:
        n = len(answer.layout.points)
        words = count_of(n, "memory")
        if answer.chosen is not None:
            words = f"{len(answer.order):,} of {words} chosen"
        left_out = answer.layout.left_out
        without = f"; {left_out:,} without text {'has' if left_out == 1 else 'have'} no place" if left_out else ""
        return f"{words}, {answer.layout.by}{without}"

    def _press(self, action: str) -> None:
        if action == "clear":
            state = self.session.state.with_values(self.section, group=None, **{_LASSO: None})
            self.session.change_to(state.with_values(QUERY, query="", where=None))
            return
        last = max(0, len(self.answer.order) - 1) // _PAGE * _PAGE
        self._first_row = min(last, max(0, self._shown_from() + (_PAGE if action == "next" else -_PAGE)))
        self._made.pop("mask", None)  # it knows the secrets of another page

    def _pick(self, row: str) -> None:
        kind, _, name = row.partition(":")
        groups = self.answer.groups.names
        if kind == "group" and name.isdecimal() and int(name) < len(groups):
            group = groups[int(name)]
            self.set(group=None if self.values["group"] == group else group)
        elif kind == "memory":
            self._opened = None if self._opened == name else name

    def _shown_from(self) -> int:
        """The first row of the page, which exists."""
        return self._first_row if self._first_row < len(self.answer.order) else 0

    def _page_rows(self, answer: MapAnswer) -> pa.Table:
        start = self._shown_from()
        return answer.layout.memories.take(pa.array(answer.order[start : start + _PAGE]))

    def _read(self, answer: MapAnswer) -> Iterator[str]:
        yield from (text or "" for text in self._page_rows(answer)["text"].to_pylist())

    def _strip(self, answer: MapAnswer) -> str:
        groups, now = answer.groups, self.values["group"]
        rows = [
            (f"group:{code}", name, colour, f"{count:,}", name == now)
            for code, (name, colour, count) in enumerate(zip(groups.names, groups.colours, groups.counts, strict=True))
            if count
        ]
        return legend(f"colours by {self.values['color']}; Enter chooses a group", rows)

    def _body(self, answer: MapAnswer) -> str:
        rows, start = self._page_rows(answer), self._shown_from()
        if not rows.num_rows:
            return paragraph("No memory is chosen." if len(answer.layout.points) else "No memory has text.")
        names = names_of(rows)
        users = rows["user_id"].to_pylist()
        ids: list[str] = rows["memory_id"].to_pylist()
        cells = [
            (names[memory_id][0] or memory_id, names[memory_id][2], user or "", names[memory_id][3])
            for memory_id, user in zip(ids, users, strict=True)
        ]
        below = {f"memory:{self._opened}": self._whole(rows, self._opened)} if self._opened in ids else {}
        table = rows_html(
            ("memory (Enter: its text)", "kind", "user", "date"),
            cells,
            [f"memory:{memory_id}" for memory_id in ids],
            below,
        )
        n = len(answer.order)
        part = f"Rows {start + 1:,} to {start + rows.num_rows:,} of {n:,}; n and p turn the page." if n > _PAGE else ""
        return paragraph(part) + table

    def _whole(self, rows: pa.Table, name: str | None) -> str:
        row = rows.filter(pc.equal(rows["memory_id"], name)).to_pylist()[0]
        text = cut(mask(row["text"] or ""), _TEXT)
        return f'<div class="mkwhy"><small>{html.escape(name or "")}</small><br>{html.escape(text)}</div>'

    @cached_property
    def live(self) -> Points | None:
        """The points, that can be pointed at, moved and chosen; None where no memory has one."""
        if not len(self.layout.points):
            return None
        return Points(self)


def is_installed() -> bool:
    """Whether the points can be shown."""
    return find_spec("jscatter") is not None


def check_installed() -> None:
    """Raise where the points cannot be shown.

    Raises
    ------
    MissingExtraError
    """
    if not is_installed():
        raise MissingExtraError("jupyter-scatter", "map", "mk.plot.map(search) draws the map without it")


def _code(groups: Groups, name: str) -> int:
    """The number of the group of this name."""
    present = [group for group, count in zip(groups.names, groups.counts, strict=True) if count]
    if name not in present:
        hint = did_you_mean(name, present)
        raise ParameterError(
            f"panels.map: expected a group, one of {', '.join(present):.300}. Got {name!r:.200}.{hint}"
        )
    return groups.names.index(name)


_HIGH, _FAR, _POINTED, _DIMMED = 428, 1.08, 280, 0.2
"""Pixels, how far the eye is, characters of a text that is pointed at, and the opacity of what is not chosen."""


class Points:
    """The points of a panel: a lasso chooses in the panel, and what is chosen there stands out here."""

    def __init__(self, panel: MapPanel) -> None:
        import jscatter  # of the extra map

        self.panel = panel
        answer = panel.answer
        self._shown = (answer.layout, answer.groups)
        self._is_following = False
        self._frame = pd.DataFrame({"memory": _texts(answer.layout.memories)})
        self._place()
        n = len(self._frame)
        self._scatter = jscatter.Scatter(
            data=self._frame,
            x="x",
            y="y",
            height=_HIGH,
            axes=False,
            legend=False,
            # A guess: 7 pixels for tens of points, 2 for a hundred thousand.
            size=float(np.clip(9 - 1.4 * np.log10(max(n, 1)), 2, 7)),
            opacity_unselected=_DIMMED,
            lasso_initiator=False,
            zoom_on_selection=False,
        )
        self._scatter.camera(distance=_FAR)
        self._scatter.tooltip(True, properties=[], preview="memory", preview_type="text", preview_text_lines=6)
        self._colour()
        self.widget: Any = self._scatter.widget
        self.widget.observe(self._on_selection, "selection")

    def _place(self) -> None:
        points = self._shown[0].points
        self._frame["x"], self._frame["y"] = points[:, 0], points[:, 1]

    def _colour(self) -> None:
        groups = self._shown[1]
        codes = [str(code) for code in range(len(groups.names))]
        self._frame["group"] = pd.Categorical.from_codes(groups.codes, categories=pd.Index(codes))
        self._scatter.color(by="group", map=dict(zip(codes, groups.colours, strict=True)))

    def follow(self) -> None:
        """Show the panel as it is now."""
        answer = self.panel.answer
        layout, groups = self._shown
        self._shown = (answer.layout, answer.groups)
        if answer.layout is not layout:
            self._place()
            self._scatter.xy("x", "y")
        if answer.groups is not groups:
            self._colour()
        rows = np.zeros(0, np.int64) if answer.chosen is None else np.flatnonzero(answer.chosen)
        if not np.array_equal(rows, np.sort(_rows(self.widget.selection))):
            # Else the widget would report what it was told, and the panel would take it for a lasso.
            self._is_following = True
            try:
                self._scatter.selection(rows)
            finally:
                self._is_following = False

    def _on_selection(self, change: dict[str, Any]) -> None:
        """Take the selection of a lasso; a double click clears it."""
        if not self._is_following:
            self.panel.choose_rows(_rows(change["new"]))


def _rows(selection: Any) -> Ints:
    return np.zeros(0, np.int64) if selection is None else np.asarray(selection, np.int64)


def _texts(memories: Any) -> list[str]:
    """What is shown of each memory that is pointed at: kind, user and date, then its first words; without secrets."""
    texts: list[str] = memories["text"].fill_null("").to_pylist()
    hide = Secrets(texts)
    users, ids = memories["user_id"].to_pylist(), memories["memory_id"].to_pylist()
    names = names_of(memories)
    heads = (
        " · ".join(hide(word) for word in (names[memory_id][2], user, names[memory_id][3]) if word)
        for memory_id, user in zip(ids, users, strict=True)
    )
    shortened = (cut(" ".join(hide(text).split()), _POINTED) for text in texts)
    return [visible(f"{head}: {text}" if head else text) for head, text in zip(heads, shortened, strict=True)]
