"""The arms, each a step that recalls candidates, and what of texts and queries they read otherwise.

An arm finds the best chunks by one kind of evidence: words, meaning, letters. Words of a query are read as others, or
as dates; turns of a conversation lend what they are found by; boilerplate is not searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.base.params import estimator, param
from memkit.documents import cite
from memkit.errors import ParameterError, StaleIndexError, count_of
from memkit.index.arm import AUTO
from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.chunks import Index
from memkit.search.state import Candidates, counting
from memkit.search.step import Look, Step
from memkit.search.steps.scope import Params as Before
from memkit.text.boilerplate import evidence

if TYPE_CHECKING:
    from memkit.index.arm import Nearest, Sight
    from memkit.search.ask import Ask, QuerySettings
    from memkit.search.fitted.index import MemoryIndex, Reading
    from memkit.search.question import Question
    from memkit.search.state import Ranked

_K3 = 1000.0
"""Every repetition of a word in a query counts, as in most engines: on long queries that is worth a tenth of nDCG."""
_MOST_READ = 5
"""Most words that a note says are read as others."""
_NO_ROWS = np.empty(0, np.int64)
OUTSIDE = "below_pool"
DEPTH = "pool"
"""The parameter that says how many candidates an arm has."""
WEIGHTS = ("vector_weight", "bm25_weight", "gram_weight")
"""The parameters that weigh the arms."""
OF_WORDS = MappingProxyType({"function_word_weight": 0.0})
"""Parameters of a scope that some arms alone take."""
STRICT = MappingProxyType({"on_encoder_error": "raise"})
"""Parameters under which a service that cannot be reached is an error."""


class Arm(Protocol):
    """Finds candidates by one kind of evidence: an `Abilities` with these five methods can be a Retriever's arm."""

    def fit(self, chunks: pa.Table, texts: pa.ChunkedArray) -> Self:
        """Index `texts`, the searched text of each row of `chunks`."""

    def candidates(self, queries: Sequence[str], n: int, allowed: Mask | None = None, **options: Any) -> pa.Table:
        """Columns query, row and score: at most `n` rows a query among `allowed`, best first, ties by row."""

    def scale(self, queries: Sequence[str], background: NDArray[np.int64], **options: Any) -> NDArray[np.float64]:
        """For each query the two scores that calibration maps to 0 and 1.

        `background` is a fixed sample of rows, for an arm that scores every row; else it is empty.
        """

    def save(self, folder: Path) -> None:
        """Write the arm to `folder`."""

    @classmethod
    def load(cls, folder: Path, *, trust: bool = False) -> Self:
        """Read what `save` wrote."""


class Recall(Step):
    """A step that recalls candidates by one arm: to add one, add its parameters, and itself to `ARMS`.

    Attributes
    ----------
    label : str
        What the arm finds by, in tables, pictures and messages.
    nothing : str
        Why a memory has no score in it.
    reads_dates : bool
        Whether it searches times that a query names as dates, if the settings say so.
    lends : bool
        Whether turns of a conversation lend each other what it finds, if the arm that the settings ask for can.
    everywhere : bool
        Whether the arm scores every row; then a row that was not retrieved counts as much as the last that was.
    """

    label: ClassVar[str]
    nothing: ClassVar[str]
    reads_dates: ClassVar[bool] = False
    lends: ClassVar[bool] = False
    everywhere: ClassVar[bool] = False

    def make(self, settings: Index) -> Arm:
        """The arm that the settings ask for, not fitted."""
        raise NotImplementedError

    def load(self, index: MemoryIndex, folder: Path, trust: bool) -> Arm:
        """The arm of `index` that was saved in `folder`; `trust` says whether the folder is the user's own.

        Raises
        ------
        StaleIndexError
            If it is damaged, of other rows or of another encoder.
        """
        arm: Any = type(self.make(index.settings)).load(folder, trust=trust)
        if arm.postings_.n_rows != index.chunks.num_rows:
            raise StaleIndexError(
                f"{folder.name}: expected {index.chunks.num_rows} chunks. Got {arm.postings_.n_rows}. Fit again."
            )
        return cast(Arm, arm)

    def weight(self, settings: QuerySettings) -> float | None:
        """Its weight, before the weights are scaled to the sum 1; None: the one stored for the encoder."""
        weight: float | None = getattr(settings, f"{self.name}_weight")
        return weight

    def options(self, settings: QuerySettings) -> dict[str, Any]:
        """The query-time settings that the arm takes."""
        return {"function_word_weight": settings.function_word_weight}

    def queries(self, index: MemoryIndex, ask: Ask) -> Any:
        """What the arm is asked: texts, with dates in place of times where those are searched, or vectors."""
        # Where no dates are searched, memories may contain the words as such; a time in a memory is none of a question.
        dated = self.reads_dates and ask.settings.read_dates and index.is_dated and not ask.queries.without
        return ask.dated if dated and "date" in index.settings.searched else ask.queries.texts

    def candidates(self, index: MemoryIndex, reading: Reading, n: int, allowed: Mask | None) -> pa.Table:
        """The best `n` chunks among those `allowed`, and the best `n` that count: query, row and score.

        An engine is asked for `n` alone, as it answers with a bounded number.
        """
        crowd, asked = index.rows.crowd, n
        while True:
            found = self._succeeded(index, reading, asked, allowed)
            if crowd is None or index.elsewhere is not None:
                return found
            query, memory = found["query"].to_numpy(), crowd[found["row"].to_numpy()]
            if not ((np.bincount(query) >= asked) & (np.bincount(query, counting(query, memory)) < n)).any():
                return found.filter(pa.array(Candidates.within(query, n, memory)))
            asked *= 4  # by far more chunks than one long memory has cost little

    def _succeeded(self, index: MemoryIndex, reading: Reading, n: int, allowed: Mask | None) -> pa.Table:
        """The best `n` chunks among those `allowed`.

        A chunk of a superseded memory is found for its successor's chunk, which has the better score of both.
        """
        successor_chunks = reading.scope.successor_chunks
        if successor_chunks is None:
            return self._best(index, reading, n, allowed)
        replaced = successor_chunks >= 0
        # Each replaced chunk may take the place of one that counts, so so many more are asked for.
        wide, n_replaced = allowed if allowed is None else allowed | replaced, int(replaced.sum())
        return with_successors(self._best(index, reading, n + n_replaced, wide), successor_chunks, n)

    def _best(self, index: MemoryIndex, reading: Reading, n: int, allowed: Mask | None) -> pa.Table:
        """As `_succeeded`, each chunk as itself; turns have a share of what their neighbours have."""
        arm, ask = index.arms[self.name], reading.ask
        queries, options = self.queries(index, ask), self.options(ask.settings)
        if arm.spells:
            near = ask.settings.near_words
            options["near"] = [dict.fromkeys(nearest.values(), near) for nearest in reading.nearest]
        if index.turns is None or not arm.lends:
            if index.elsewhere is not None:
                return index.elsewhere.candidates(index, self.name, queries, n, index.filled(allowed), **options)
            of_arm: pa.Table = arm.candidates(queries, n, index.filled(allowed), **options)
            return of_arm
        visible = reading.scope.allowed
        lending = index.filled(visible) if self.everywhere else visible
        found: pa.Table = arm.candidates_in_turns(queries, n, index.filled(allowed), index.turns, lending, **options)
        return found

    def scale(self, index: MemoryIndex, reading: Reading) -> Floats:
        """For each query the two scores that calibration maps to 0 and 1."""
        background, options = index.background if self.everywhere else _NO_ROWS, self.options(reading.ask.settings)
        scale: Floats = index.arms[self.name].scale(self.queries(index, reading.ask), background, **options)
        return scale


class Words(Recall):
    """The arm of words: BM25, or TF-IDF over stems and character n-grams."""

    name = "bm25"
    label = "words"
    nothing = "words score 0 (no term in common)"
    reads_dates = True
    lends = True

    def make(self, settings: Index) -> Arm:
        from memkit.index.lexical import BM25, CharGrams

        return cast(Arm, CharGrams() if settings.lexical == "char" else BM25(analyzer=settings.analyzer, k3=_K3))


class Meaning(Recall):
    """The arm of meaning: vectors."""

    name = "vector"
    label = "meaning"
    nothing = "no meaning score (no vector to compare)"
    lends = True
    everywhere = True

    def make(self, settings: Index) -> Arm:
        from memkit.index.dense import Dense

        return cast(Arm, Dense(encoder=settings.encoder, ann=settings.ann, centre=settings.centre))

    def load(self, index: MemoryIndex, folder: Path, trust: bool) -> Arm:
        from memkit.index.dense import Dense

        chunks = None if trust else index.chunks  # the index has compared its rows with those of one's own folder
        arm = Dense.load(folder, encoder=index.settings.encoder, chunks=chunks, texts=index.texts, trust=trust)
        return cast(Arm, arm)

    def options(self, settings: QuerySettings) -> dict[str, Any]:
        return {}

    def queries(self, index: MemoryIndex, ask: Ask) -> Any:
        return ask.queries.texts if ask.queries.vectors is None else ask.queries.vectors


class Letters(Recall):
    """The arm of letters: character n-grams."""

    name = "gram"
    label = "letters"
    nothing = "letters score 0 (no n-gram in common)"
    reads_dates = True

    def make(self, settings: Index) -> Arm:
        from memkit.index.lexical import Grams

        return cast(Arm, Grams())


ARMS: Mapping[str, Recall] = {arm.name: arm for arm in (Words(), Meaning(), Letters())}
"""The arms by their column in hits and trace, in the order of the columns: words, meaning, letters."""


def arm_weights(
    requested: Mapping[str, float | None], arms: Iterable[str], stored: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """The weight of each of `arms`, rescaled to the sum 1; an arm of weight 0 is left out.

    Arms whose weight is None share the remaining weight in the proportions of `stored`.

    Raises
    ------
    ParameterError
        If a weight is negative, or all are 0.

    Examples
    --------
    >>> arm_weights({"bm25": 0.3, "vector": 0.7}, ["bm25", "vector"])
    {'bm25': 0.3, 'vector': 0.7}
    >>> arm_weights({"bm25": 0.0, "vector": 1.0}, ["bm25"])  # no encoder: words alone, as the workspace document says
    {'bm25': 1.0}
    >>> arm_weights({"bm25": None, "vector": 0.5, "gram": None}, ["bm25", "vector", "gram"], {"bm25": 6, "gram": 2})
    {'bm25': 0.375, 'vector': 0.5, 'gram': 0.125}
    """
    explicit = {arm: weight for arm, weight in requested.items() if weight is not None}
    if min(explicit.values(), default=0) < 0:
        raise ParameterError(f"Retriever: the weights of the arms must not be negative. Got {_told(requested)}.")
    defaults = {arm: stored[arm] for arm in requested if arm not in explicit}
    share = max(0.0, 1.0 - sum(explicit.values())) / (sum(defaults.values()) or 1.0)
    weights = {arm: explicit[arm] if arm in explicit else share * defaults[arm] for arm in requested}
    positive = {arm: weights[arm] for arm in arms if weights[arm] > 0}
    if not positive and any(weights.values()):
        positive = dict.fromkeys(arms, 1.0)
    if not positive:
        raise ParameterError(f"Retriever: no arm has a weight: {_told(requested)}. Expected a weight above 0.")
    total = sum(positive.values())
    return {arm: weight / total for arm, weight in positive.items()}


def _told(weights: Mapping[str, float | None]) -> str:
    return ", ".join(f"{arm}_weight={weight}" for arm, weight in weights.items())


def with_successors(candidates: pa.Table, successor_chunks: Ints, n: int) -> pa.Table:
    """Candidates with each chunk's successor in its place, each once with its best score; the best `n` of a query.

    >>> found = pa.table({"query": [0, 0, 0], "row": [0, 1, 2], "score": [5.0, 3.0, 2.0]})
    >>> with_successors(found, np.array([1, -1, -1]), 2).to_pydict()
    {'query': [0, 0], 'row': [1, 2], 'score': [5.0, 2.0]}
    """
    query, row, score = (candidates[name].to_numpy() for name in ("query", "row", "score"))
    row = np.where(successor_chunks[row] >= 0, successor_chunks[row], row)
    order = np.lexsort((row, -score, query))
    _, first = np.unique(query[order] * len(successor_chunks) + row[order], return_index=True)
    kept = order[np.sort(first)]
    kept = kept[Candidates.within(query[kept], n)]
    return pa.table({"query": query[kept], "row": row[kept], "score": score[kept]}, schema=candidates.schema)


def depth_of(settings: QuerySettings) -> int:
    """Candidates per arm."""
    return settings.pool


def is_strict(settings: QuerySettings) -> bool:
    """Whether a service that cannot be reached is an error."""
    return settings.on_encoder_error == "raise"


def asking(arms: Iterable[str], depth: int | None = None) -> dict[str, Any]:
    """Parameters under which these arms alone are asked, for so many candidates each; None: for as many as before."""
    weights: dict[str, Any] = {f"{arm}_weight": float(arm in arms) for arm in ARMS}
    return weights if depth is None else weights | {DEPTH: depth}


def leaves_weights(settings: QuerySettings) -> bool:
    """Whether some weights are those stored for the encoder."""
    return any(arm.weight(settings) is None for arm in ARMS.values())


def without_meaning(settings: QuerySettings) -> dict[str, float]:
    """Parameters under which the arm of meaning is not asked."""
    return {"vector_weight": 0.0} | ({} if settings.bm25_weight is None else {"bm25_weight": 1.0})


def nearest_words(index: MemoryIndex, ask: Ask, arms: Iterable[str], sight: Sight) -> Sequence[Nearest]:
    """For each query its words that no text in sight has, with the nearest term; empty if off."""
    spelling = [name for name in arms if name in index.arms and index.arms[name].spells]
    if not ask.settings.near_words or not spelling:
        return ()
    nearest: Sequence[Nearest] = index.arms[spelling[0]].near_terms(ARMS[spelling[0]].queries(index, ask), sight)
    return nearest


def _readings(question: Question) -> str:
    """A sentence for each word that is read as another, for the first few."""
    read = dict(pair for words in question.read_as.values() for pair in words.items())
    of_typos = [
        f"No text has {word!r:.80}: it is read as {other!r:.80}." for word, other in list(read.items())[:_MOST_READ]
    ]
    more_typos = [f"So are {len(read) - _MOST_READ} more words as others."] if len(read) > _MOST_READ else []
    return " ".join([*of_typos, *more_typos])


class NearWords(Step):
    """A word that no text has is read as the nearest one."""

    name = "near words"

    def beside(self, look: Look) -> str:
        return _readings(look.question)

    def note(self, question: Question, ranked: Ranked) -> str:
        return _readings(question)


class Boilerplate(Step):
    """What chat programs write around messages is not searched."""

    name = "boilerplate"

    def beside(self, look: Look) -> str:
        text = look.value("text") or ""
        counted = evidence(pa.array([text]), look.question.index.settings.boilerplate)[0].as_py()
        if len(counted) == len(text):
            return ""
        n_left_out = len(text) - len(counted)
        what = "boilerplate or targets of links, which are not searched"
        return f"Of its {count_of(len(text), 'character')} {n_left_out:,} are {what}."


class Turns(Step):
    """Turns of a conversation lend each other what they are found by."""

    name = "turns"

    def beside(self, look: Look) -> str:
        """A sentence if the memory is a turn beside others, whose words or meaning count too."""
        index = look.question.index
        lent = index.lent(look.question.weights)
        if not look.row or index.turns is None or not lent:
            return ""
        if not (index.turns.neighbours[index.rows.memory == look.memory] >= 0).any():
            return ""
        arms = " and ".join(lent)
        return f"It also counts by {arms} of the turns around it (context_column, here {index.conversations!r})."

    def note(self, question: Question, ranked: Ranked) -> str:
        column, index = question.index.settings.context_column, question.index
        if index.unused_conversations is not None:
            return (
                f"In buckets and engines, turns of a conversation (column {index.unused_conversations!r}) do not count"
                " by the turns around them: fit to lake.whole(), with the engine 'local', for that."
            )
        if index.turns is not None:
            lend_nothing = [name for name in question.weights if ARMS[name].lends and not index.lent([name])]
            words = " and ".join(ARMS[name].label for name in lend_nothing)
            return (
                f"With lexical={index.settings.lexical!r} turns do not count by {words} of the turns around them."
                if words
                else ""
            )
        if column in (None, AUTO):
            return ""
        return f"The context_column {column!r} is not used: half of the rows are longer than a turn (40 words)."


def _below_pool(look: Look) -> str:
    question, index = look.question, look.question.index
    is_its = index.rows.memory == look.memory
    if not is_its.any():
        return "it is a heading without text, or has no letters beside boilerplate, and there is nothing to search"
    alone, pool = question.retrieve_among(is_its, 1), question.candidates()
    return " and ".join(
        _too_low(arm, alone.raw[:, column], pool.raw[:, column]) for column, arm in enumerate(question.weights)
    )


def _too_low(arm: str, scores: np.ndarray, pool: np.ndarray) -> str:
    if not np.isfinite(scores).any():
        return ARMS[arm].nothing
    count = int(np.isfinite(pool).sum())
    return f"{ARMS[arm].label} score {np.nanmax(scores):.3g} (the last of the best {count} has {np.nanmin(pool):.3g})"


def _arm(look: Look, arm: str, weight: float) -> str:
    row, settings, label = look.row, look.question.settings, ARMS[arm].label
    norm = row[f"{arm}_norm"]
    if row[arm] is None:
        if not norm or settings.fusion == "rrf":  # of which ranks alone count
            return f"not among the best {settings.pool} by {label}"
        how = "but matched across alphabets with" if arm == "bm25" else "and counts as the last of them, normalised"
        return f"not among the best {settings.pool} by {label}, {how} {norm:.2f}, weight {weight:.2f}"
    normalised = f"normalised {norm:.2f}, " if settings.fusion != "rrf" else ""
    return f"{label} score {row[arm]:.3g} (rank {row[f'{arm}_rank']}, {normalised}weight {weight:.2f})"


class Pool(Step):
    """The best chunks of each arm are candidates."""

    name = "pool"
    becomes = {OUTSIDE: "not among the candidates, as too many others are more similar (see pool)"}
    drops = {OUTSIDE: _below_pool}
    keeps_out = True

    def part(self, look: Look) -> str:
        return "; ".join(_arm(look, arm, weight) for arm, weight in look.question.weights.items())


@estimator
class Params(Before):
    """What the arms search, and how much of it."""

    vector_weight: float | None = param(
        None,
        low=0,
        high=1,
        kind="float",
        nullable=True,
        group="first",
        doc="Weight of the arm of meaning (vectors); with 0 the encoder is never loaded. None: the arms left at None"
        " share the remaining weight in the proportions measured for the encoder.",
    )
    bm25_weight: float | None = param(
        None,
        group="arms",
        low=0,
        high=1,
        kind="float",
        nullable=True,
        doc="Weight of the arm of words (BM25); None: as for vector_weight.",
    )
    gram_weight: float | None = param(
        None,
        group="arms",
        low=0,
        high=1,
        kind="float",
        nullable=True,
        doc="Weight of the arm of letters (character n-grams); None: as for vector_weight.",
    )
    # Of 0, .1, .3 and 1 none differs by more than .006 in the mean; 1 would gain .038 on questions of web forums.
    function_word_weight: float = param(
        0.1,
        recalls=True,
        group="arms",
        low=0,
        high=1,
        unit="ratio",
        doc="Weight of stop words ('the', «и») in a query; if it is below 1, the arm of letters skips them.",
    )
    # Below 1, as a word read as another may be wrong: «отказались» was read as «оказалось». Questions without typing
    # errors kept their ranks.
    near_words: float = param(
        0.8,
        recalls=True,
        group="arms",
        low=0,
        high=1,
        unit="ratio",
        doc="Typo tolerance: a query word that no text contains also matches the nearest word of the corpus, with this"
        " weight (other words have 1). Never for words with digits or '_', in quotes, or of fewer than 5 letters."
        " 0: off.",
    )
    # «Вчера» finds .67 of five hits from that day, by words as they stand .03; where no time is asked for, nothing
    # moves.
    read_dates: bool = param(
        True,
        recalls=True,
        group="arms",
        doc="Whether times in a query ('вчера', \"last week\", 2026-03-01) are also searched as the dates they mean.",
    )
    # So many hold .95 of the relevant memories on ten sets.
    pool: int = param(
        100, group="arms", low=1, unit="chunks", doc="Ranked candidates per arm (num_candidates), 10 counted a memory."
    )
    on_encoder_error: str = param(
        "words",
        recalls=True,
        group="arms",
        choices=("words", "raise"),
        doc="If the service of the encoder or the reranker cannot be reached: search without it and retry later, or"
        " raise.",
        source=cite("workspace", "fallback"),
    )

    steps: ClassVar[tuple[Step, ...]] = (
        NearWords(),
        Boilerplate(),
        Turns(),
        *ARMS.values(),
        Pool(),
    )
